"""
Do a look inside and the reading of stacks change the program, and what do they cost?

    python benchmarks/look/run.py --out OUT [--only resnet50,compiled] [--budget SECONDS]

Each program runs alone, and under `record`. Output, errors and exit code of the two runs
have to be the same, the loss to the last digit. The time lost is that of the steps during the look beyond
what as many usual steps take, by the program's own clock; two seconds at most are allowed. "told" is what the
look itself says of it.

"stays" is by how much longer steps take after the look than before it, with an interval of 95 %; it fails
where all of the interval lies beyond 3 %, for the GPU's clock wanders by as much. A host's pace wanders by a
quarter or more on a machine of others, so the program runs the same piece of Python after each step, and
log(step) = a + b log(pace) + c [after the look] is fitted to the fastest tenths of either in each second, the
pace as a covariate (analysis of covariance; Fisher, Statistical Methods for Research Workers, section 49.1);
"stays" is exp(c) - 1, its interval of resampled blocks of seconds. The first seconds are left out.
"stacks" is by how much longer a mean step took while stacks were read, and the counters sampled in windows,
than after the look: with an interval of 95 %, of resampled blocks of half a second. It is not judged.

Into OUT go look.json and look.txt.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[1]))

import watched  # noqa: I001 (it knows where the next one is)
import step_log
from programs import CASES, pace_log

from perfzero.store.reader import open_recording
from perfzero.store.stacks import read_stacks

WATCHED_S = 34.0
"""
The warm-up has ended after some 5 s and the close look takes 11 s; then comes the look inside. A program that
changes its level after its warm-up is looked at 8 s later, and steps may be a fifth shorter than on trial.
"""

TRIAL = 400
"""Steps of the run that tells how long a step takes. The first hundreds of short ones are slow."""

START_UP_S = 25.0
BAR_S = 2.0
STAYS = 0.03
SETTLED_S = 3
"""Of a program; its first steps are longer."""

BLOCK_SECONDS = 3
"""Neighbouring seconds are alike."""

CHANGED_PACE = 1e-3
"""From this spread of log(pace) on, something can be learnt about what it does to steps."""

Steps = npt.NDArray[Any]
"""Rows of a log of steps (tools/step_log.py), or their lengths in ms."""


AFTER_S = 0.2
"""After the look: the host catches up."""

NS = 1_000_000_000
NEVER_NS = 1 << 62
BLOCK_MS = 500.0
DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Row:
    """
    `same`: output, errors and exit code are. `reason`: why there was no look. `lost_s`: by the program's own
    clock, `told_s`: by the look itself; `megabytes` is the size of the trace. `stays`, shares: how much
    slower the program was afterwards, and between which two that lies. `slower`: likewise while stacks were
    read. None where that cannot be told.
    """

    program: str
    same: bool
    reason: str
    steps: int
    lost_s: float
    told_s: float
    megabytes: float
    stays: tuple[float, float, float] | None
    slower: tuple[float, float, float] | None

    @property
    def ok(self) -> bool:
        return self.same and not self.reason and self.lost_s <= BAR_S and not self.is_slower_for_good

    @property
    def is_slower_for_good(self) -> bool:
        return self.stays is None or self.stays[1] > STAYS


def measure(name: str, folder: Path, _args: argparse.Namespace) -> Row:
    folder.parent.mkdir(parents=True, exist_ok=True)
    trial = run(command(name, TRIAL, folder.with_suffix(".trial")))
    if trial.stderr and not trial.stdout:
        raise RuntimeError(trial.stderr[-600:])
    usual_ms = float(np.median(step_log.read_steps(folder.with_suffix(".trial"))["ms"][TRIAL // 2 :]))
    steps = max(100, round(WATCHED_S * 1e3 / usual_ms / 10) * 10)
    alone = run(command(name, steps, folder.with_suffix(".alone")))
    log = folder.with_suffix(".steps")
    record = [*watched.checkout.PERFZERO, "record", "--quiet", "-o", str(folder), "--"]
    beside = run([*record, *command(name, steps, log)])
    steps, pace = step_log.read_steps(log), step_log.read_steps(pace_log(log))
    return compare(name, folder, steps, pace, same=alone == beside)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, and all it said."""

    code: int
    stdout: str
    stderr: str


def command(name: str, steps: int, log: Path) -> list[str]:
    return ["python3", "benchmarks/look/programs.py", name, "--steps", str(steps), "--log", str(log)]


def run(words: Sequence[str]) -> Ended:
    done = subprocess.run(
        list(words),
        cwd=watched.ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=3 * WATCHED_S + START_UP_S,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def compare(name: str, folder: Path, steps: Steps, pace: Steps, *, same: bool) -> Row:
    looks = open_recording(folder).looks
    if not looks or not looks[0].file:
        why = looks[0].reason if looks else "nobody was asked"
        return Row(name, same, why, 0, 0.0, 0.0, 0.0, None, None)
    look = looks[0]
    size = (folder / look.file).stat().st_size / 1e6
    lost = lost_s(steps, look.start_ns, look.end_ns)
    traced = max(0, len(look.steps_ns) - 1)
    begin_ns, end_ns = stacks_read_ns(folder)
    during = step_log.inside(steps, begin_ns, min(end_ns, look.start_ns))
    after_ns = max(end_ns, look.end_ns) + round(AFTER_S * 1e9)
    after = step_log.inside(steps, after_ns, NEVER_NS)
    stays = stays_slower(seconds(steps, pace, look.start_ns, after_ns))
    return Row(name, same, look.reason, traced, lost, look.cost_s, size, stays, slower(during, after))


def seconds(steps: Steps, pace: Steps, look_ns: int, after_ns: int) -> Steps:
    """
    A row for each whole second before and after a look, of shape (n, 3): log of the host's pace in ms, log of
    a step in ms, both by their fastest tenth, and 1 after the look, else 0. *pace* has a row for each step.
    """
    if not len(steps):
        return np.empty((0, 3))
    start_ns = int(steps["end_ns"][0])
    second = (steps["end_ns"] - start_ns) // NS
    rows = []
    for number in range(SETTLED_S, int(second[-1])):
        its = second == number
        begin_ns = start_ns + number * NS
        if its.any() and (begin_ns + NS <= look_ns or begin_ns >= after_ns):
            fast = [
                float(np.log(np.quantile(ms[its], 0.1))) for ms in (pace["ms"][: len(steps)], steps["ms"])
            ]
            rows.append((*fast, float(begin_ns >= after_ns)))
    return np.array(rows).reshape(-1, 3)


def stays_slower(rows: Steps) -> tuple[float, float, float] | None:
    """By how much steps are longer after the look than before it, and between which two; of `seconds`."""
    before, after = (rows[rows[:, 2] == flag] for flag in (0.0, 1.0))
    if min(len(before), len(after)) < 2 * BLOCK_SECONDS:
        return None
    draw = np.random.default_rng(0)
    drawn = [fitted(np.concatenate([resampled(before, draw), resampled(after, draw)])) for _ in range(DRAWS)]
    low, high = np.expm1(np.quantile(drawn, (0.025, 0.975)))
    return float(np.expm1(fitted(rows))), float(low), float(high)


def fitted(rows: Steps) -> float:
    """c of log(step) = a + b log(pace) + c [after the look]."""
    pace = rows[:, 0] - rows[:, 0].mean()
    known = [np.ones(len(rows)), rows[:, 2], *([pace] if pace.std() >= CHANGED_PACE else [])]
    return float(np.linalg.lstsq(np.stack(known, axis=1), rows[:, 1], rcond=None)[0][1])


def resampled(rows: Steps, draw: np.random.Generator) -> Steps:
    """As many rows, in blocks of `BLOCK_SECONDS`."""
    begins = draw.integers(0, len(rows) - BLOCK_SECONDS + 1, math.ceil(len(rows) / BLOCK_SECONDS))
    return np.asarray(rows[(begins[:, None] + np.arange(BLOCK_SECONDS)).ravel()[: len(rows)]])


def stacks_read_ns(folder: Path) -> tuple[int, int]:
    """When stacks were read of the process that feeds the GPU, [start, end) Unix ns. Raises RuntimeError."""
    for process in read_stacks(folder).processes:
        if process.role == "main":
            return process.start_ns, process.end_ns
    raise RuntimeError("no stacks were read")


def slower(during: Steps, usual: Steps) -> tuple[float, float, float] | None:
    """By how much the mean of *during* is beyond that of *usual*, steps in ms, as a share; low and high."""
    if not len(during) or not len(usual):
        return None
    draw = np.random.default_rng(0)
    low, high = np.quantile(means(during, draw) / means(usual, draw) - 1, (0.025, 0.975))
    return float(during.mean() / usual.mean() - 1), float(low), float(high)


def means(lengths: Steps, draw: np.random.Generator) -> Steps:
    """Means of resampled blocks of steps, of shape (DRAWS,)."""
    block = np.floor(np.cumsum(lengths) / BLOCK_MS).astype(int)
    sums, counts = np.bincount(block, lengths), np.bincount(block)
    chosen = draw.integers(0, len(sums), (DRAWS, len(sums)))
    return np.asarray(sums[chosen].sum(1) / np.maximum(counts[chosen].sum(1), 1))


def lost_s(steps: Steps, start_ns: int, end_ns: int) -> float:
    """The time that steps which end or begin in [start, end) took beyond as many usual ones, in seconds."""
    begin = steps["end_ns"] - steps["ms"] * 1e6
    during = (begin < end_ns) & (steps["end_ns"] > start_ns)
    usual = float(np.median(steps["ms"][~during]))
    return float(np.sum(steps["ms"][during] - usual)) / 1e3


def told(slower: tuple[float, float, float] | None) -> str:
    return "-" if slower is None else "{:.2%} [{:.2%}, {:.2%}]".format(*slower)


def table(rows: Sequence[Row]) -> str:
    heads = f"{'lost s':>8}{'told s':>8}{'MB':>7}  {'stays':26}{'stacks':26}"
    lines = [f"{'program':16}{'same':>6}{'steps':>7}{heads}"]
    for row in rows:
        end = f"{'OK' if row.ok else 'FAIL'} {row.reason}".rstrip()
        lines.append(
            f"{row.program:16}{'yes' if row.same else 'NO':>6}{row.steps:7}{row.lost_s:8.2f}{row.told_s:8.2f}"
            f"{row.megabytes:7.1f}  {told(row.stays):26}{told(row.slower):26}{end}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    needed_s = 2 * (WATCHED_S + START_UP_S)
    benchmark = watched.Benchmark("look", tuple(CASES), measure, table, needed_s=needed_s)
    return watched.run(benchmark, description=__doc__, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
