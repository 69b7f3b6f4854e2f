"""
Are the bytes true that a look tells of each kernel? Five programs under `record`, and Nsight Compute.

    python benchmarks/attribution/run.py --out OUT [--only resnet50_fp32,gpt_flash] [--truth FOLDER]

Each program is recorded until it has been looked into; then it is ended. What each kernel read and wrote
comes from truth.py, of the same step in a run of its own, or from FOLDER, where an earlier one left it; what
is measured goes there, or into OUT.
Allowed for reads per kind of kernel: 3 % of the total with samples of up to 50 us, 8 % at 100 us; for the
share of each module 2 points, at 1 ms too; for the clock an error of 2 us with samples of up to 100 us.

Into OUT go attribution.json and attribution.txt.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

import watched
from hold import Held, hold
from programs import CASES
from truth import truth, write

from perfzero.store.kineto import read_trace
from perfzero.store.reader import open_recording

LONGEST_S = 70.0
"""Of a program: some settle after 25 s, the close look takes 11 s, and the look 2 s."""

AFTERWARDS_S = 3.0
"""From the look's end until its samples have been decoded."""

PERIODS_US = (50.0, 100.0, 200.0, 1000.0)
BARS = {50.0: 0.03, 100.0: 0.08}
"""Up to which period in us what error of reads per kind of kernel is allowed."""

POINTS = 2.0
CLOCK_US = 2.0


@dataclass(frozen=True, slots=True)
class Row:
    """`told_s`: how long the program was held up, as the look says; `held` by period and quantity."""

    program: str
    steps: int
    told_s: float
    held: tuple[Held, ...]

    @property
    def ok(self) -> bool:
        return bool(self.held) and not any(map(misses, self.held))


def misses(one: Held) -> list[str]:
    """What *one* misses of what is allowed."""
    found = []
    if one.quantity == "read_bytes":
        bar = next((bar for period, bar in BARS.items() if one.period_us <= 1.05 * period), 1.0)
        found += ["kinds"] if one.kinds > bar else []
        found += ["modules"] if one.module_points > POINTS else []
        fine = one.period_us <= 105.0
        found += ["clock"] if fine and not 1.96 * one.offset_error_us <= CLOCK_US else []
    return found


def measure(name: str, folder: Path, args: argparse.Namespace) -> Row:
    folder.parent.mkdir(parents=True, exist_ok=True)
    kernels = known(name, args.truth or args.out)
    record(name, folder)
    recording = open_recording(folder)
    if not recording.looks:
        raise RuntimeError("nobody was asked for a look")
    look = recording.looks[0]
    if not look.file:
        raise RuntimeError(f"no look: {look.reason}")
    samples = recording.observation(recording.gpus[0].index).close_up
    held = hold(read_trace(folder / look.file), samples, kernels, periods_us=PERIODS_US)
    return Row(name, len(look.steps_ns) - 1, look.cost_s, tuple(held))


def known(name: str, folder: Path) -> list[dict[str, object]]:
    """The truth of program *name* in *folder*, where it is measured and left if it is not there."""
    file = folder / f"truth-{name}.json.gz"
    if not file.exists():
        write(name, truth(name), folder)
    kernels: list[dict[str, object]] = json.loads(gzip.decompress(file.read_bytes()))["kernels"]
    return kernels


def record(name: str, folder: Path) -> None:
    """Record program *name* until it has been looked into."""
    log = folder.with_suffix(".log")
    script = "benchmarks/attribution/programs.py"
    command = [*watched.checkout.PERFZERO, "record", "--no-stacks", "-o", str(folder), "--"]
    command += [sys.executable, script, name, "--seconds", str(LONGEST_S)]
    with watched.child(command, log=log) as process:
        deadline = time.monotonic() + LONGEST_S + watched.START_UP_S
        while process.poll() is None and time.monotonic() < deadline:
            said = log.read_text(errors="replace")
            if "looked into" in said or "no look into" in said:
                time.sleep(AFTERWARDS_S)
                break
            time.sleep(0.2)
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                if script in " ".join(child.cmdline()):
                    child.terminate()
        watched.checkout.finish(process, log=log, timeout_s=30.0)


def table(rows: Sequence[Row]) -> str:
    lines = [
        f"{'program':15}{'steps':>6}{'bytes':>8}{'period us':>11}{'total':>8}{'kinds %':>9}{'kernels %':>11}"
        f"{'naive %':>9}{'module pt':>11}{'clock us':>16}"
    ]
    for row in rows:
        for one in row.held:
            clock = f"{one.offset_us:.2f} \u00b1 {1.96 * one.offset_error_us:.2f}"
            lines.append(
                f"{row.program:15}{row.steps:6}{one.quantity.split('_')[0]:>8}{one.period_us:11.0f}"
                f"{one.total:8.3f}{one.kinds * 100:9.1f}{one.kernels * 100:11.1f}{one.naive_kinds * 100:9.1f}"
                f"{one.module_points:11.2f}{clock:>16}  {' '.join(misses(one)) or 'OK'}"
            )
    return "\n".join(lines)


def _options(p: argparse.ArgumentParser) -> None:
    p.add_argument("--truth", type=Path, help="folder of truth-CASE.json.gz, as truth.py writes them")


def main(argv: Sequence[str] | None = None) -> int:
    benchmark = watched.Benchmark(
        "attribution", tuple(CASES), measure, table, needed_s=60.0, options=_options
    )
    return watched.run(benchmark, description=__doc__, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
