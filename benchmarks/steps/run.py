"""
Is the step time right? Ten programs that log their own, and two that have none.

    python benchmarks/steps/run.py --out OUT [--only transformer,jittered] [--budget SECONDS]

Each runs under `perfzero run` and logs the end and the length of every step. The step time in the report
is held against the mean length of those steps that lie, as a whole, in the stretch that was judged. It
may be off by 2 %. A program without a step time must get none. Jitter is the standard deviation of
the lengths as a share of their mean.

Into OUT go steps.json and steps.txt.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import watched

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "transformer": ("zoo/transformer.py",),
    "resnet50": ("zoo/resnet50.py", "--channels-last"),
    "resnet50_nchw": ("zoo/resnet50.py",),
    "gradient_accumulation": ("zoo/gradient_accumulation.py",),
    "elementwise_chain": ("zoo/elementwise_chain.py",),
    "item_every_layer": ("zoo/item_every_layer.py",),
    "side_stream_copy": ("zoo/side_stream_copy.py",),
    "pageable_copies": ("zoo/pageable_copies.py",),
    "optimizer_unfused": ("zoo/optimizer_unfused.py",),
    "jittered": ("benchmarks/steps/jittered.py",),
    "variable_batches": ("zoo/variable_batches.py",),
    "never_steady": ("zoo/never_steady.py",),
}
WITHOUT = ("variable_batches", "never_steady")
"""Programs that have no step time."""

SECONDS = 12
BAR = 0.02


@dataclass(frozen=True, slots=True)
class Row:
    """`truth_ms` is None for a program without a step time, `found_ms` where the report gives none."""

    program: str
    truth_ms: float | None
    found_ms: float | None
    jitter: float | None
    steps: int

    @property
    def ratio(self) -> float | None:
        return None if self.truth_ms is None or self.found_ms is None else self.found_ms / self.truth_ms

    @property
    def ok(self) -> bool:
        if self.truth_ms is None:
            return self.found_ms is None
        return self.ratio is not None and abs(self.ratio - 1) <= BAR


def measure(name: str, folder: Path) -> Row:
    log = folder.with_suffix(".steps")
    command = ["python3", *PROGRAMS[name], "--seconds", str(SECONDS), "--log", str(log)]
    return compare(name, watched.watch(command, folder=folder, seconds=SECONDS), watched.read_steps(log))


def compare(name: str, gpu: Mapping, rows: np.ndarray) -> Row:  # type: ignore[type-arg]
    """The report's step time beside the truth; raises `ValueError` if fewer than two steps were judged."""
    judged = gpu["steady"]
    lengths = watched.inside(rows, judged["start_ns"], judged["end_ns"])
    if len(lengths) < 2:
        raise ValueError(f"{len(lengths)} of {len(rows)} steps lie in the stretch that was judged")
    mean, jitter = float(lengths.mean()), float(lengths.std(ddof=1) / lengths.mean())
    found = None if gpu["step_s"] is None else gpu["step_s"] * 1e3
    return Row(name, None if name in WITHOUT else mean, found, jitter, len(lengths))


def table(rows: Sequence[Row]) -> str:
    lines = [f"{'program':24}{'truth ms':>10}{'found ms':>10}{'ratio':>8}{'jitter':>8}{'steps':>7}"]
    for row in rows:
        lines.append(
            f"{row.program:24}{number(row.truth_ms, 3):>10}{number(row.found_ms, 3):>10}"
            f"{number(row.ratio, 4):>8}{number(row.jitter, 3):>8}{row.steps:7}  {'OK' if row.ok else 'FAIL'}"
        )
    return "\n".join(lines)


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def main(argv: Sequence[str] | None = None) -> int:
    benchmark = watched.Benchmark("steps", tuple(PROGRAMS), measure, table, needed_s=SECONDS + 18.0)
    return watched.run(benchmark, description=__doc__, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
