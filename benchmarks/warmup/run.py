"""
Is the end of warm-up found? Eight programs that say when theirs was over.

    python benchmarks/warmup/run.py --out OUT [--only compiled,cuda_graph] [--budget SECONDS]

`programs.py` says what each does meanwhile. Each runs under `perfzero run`; the begin of the stretch that
was judged is held against the truth, and may be two seconds off, to either side.

Into OUT go warmup.json and warmup.txt.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import watched
from programs import CASES

STEADY_S = 11
WARM_UP_S = 15
"""More than any of the programs should take to warm up, start included."""

BAR_S = 2.0


@dataclass(frozen=True, slots=True)
class Row:
    """
    Times in seconds since the recording began; `warm_up_s` is how long the program's own work took to
    warm up, and `how` is how the report says that it found the stretch.
    """

    program: str
    warm_up_s: float
    truth_s: float
    found_s: float
    how: str

    @property
    def error_s(self) -> float:
        return self.found_s - self.truth_s

    @property
    def ok(self) -> bool:
        return self.how != "none" and abs(self.error_s) <= BAR_S


def measure(name: str, folder: Path, _args: object) -> Row:
    log = folder.with_suffix(".truth")
    command = ["python3", "benchmarks/warmup/programs.py", name, "--steady", str(STEADY_S), "--log", str(log)]
    gpu = watched.watch(command, folder=folder, seconds=STEADY_S + WARM_UP_S)
    return compare(name, gpu, json.loads(log.read_text()))


def compare(name: str, gpu: Mapping, truth: Mapping[str, int]) -> Row:  # type: ignore[type-arg]
    start, judged = gpu["recording_start_ns"], gpu["steady"]
    return Row(
        name,
        warm_up_s=(truth["warm_ns"] - truth["begun_ns"]) / 1e9,
        truth_s=(truth["warm_ns"] - start) / 1e9,
        found_s=(judged["start_ns"] - start) / 1e9,
        how=judged["how"],
    )


def table(rows: Sequence[Row]) -> str:
    lines = [f"{'program':24}{'warm-up s':>10}{'truth s':>9}{'found s':>9}{'error s':>9}  how"]
    for row in rows:
        lines.append(
            f"{row.program:24}{row.warm_up_s:10.2f}{row.truth_s:9.2f}{row.found_s:9.2f}{row.error_s:+9.2f}  "
            f"{row.how:9} {'OK' if row.ok else 'FAIL'}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    needed_s = STEADY_S + WARM_UP_S + 10.0
    benchmark = watched.Benchmark("warmup", tuple(CASES), measure, table, needed_s=needed_s)
    return watched.run(benchmark, description=__doc__, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
