"""
Do a look inside and the reading of stacks change the program, and what do they cost?

    python benchmarks/look/run.py --out OUT [--only resnet50,compiled] [--budget SECONDS]

Each program runs alone, and under `record`. Output, errors and exit code of the two runs
have to be the same, the loss to the last digit. The time lost is that of the steps during the look beyond
what as many usual steps take, by the program's own clock; two seconds at most are allowed. "told" is what the
look itself says of it.

"stays" is by how much longer steps take after the look than before it, by the tenth of either that is the
fastest, for the host's noise only adds; 3 % at most are allowed, for the GPU's clock wanders by as much. Or
as much as that differs over stretches of 5 s of the run alone, or before the look, "noise". A host's pace may
wander by a quarter, on a machine of others; so the same is told of steps in units of a piece of Python that
the program runs after each, second by second ("by pace"), and that of the two is judged which is less noisy.
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
STRETCH_S = 5.0
PACE_S = 1.0
"""The host's pace is taken to be the same for so long."""

Steps = npt.NDArray[Any]
"""Rows of a log of steps (tools/step_log.py), or their lengths in ms."""


AFTER_S = 0.2
"""After the look: the host catches up."""

NEVER_NS = 1 << 62
BLOCK_MS = 500.0
DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Row:
    """
    `same`: output, errors and exit code are. `reason`: why there was no look. `lost_s`: by the program's own
    clock, `told_s`: by the look itself; `megabytes` is the size of the trace. `stays`, as a share: how much
    slower the program was afterwards, beside the `noise` of when nobody looked; `paced` and `paced_noise`:
    likewise of steps in units of the host's pace. `slower`: likewise while stacks were read, and between
    which two it lies; None where none were.
    """

    program: str
    same: bool
    reason: str
    steps: int
    lost_s: float
    told_s: float
    megabytes: float
    stays: float
    noise: float
    paced: float
    paced_noise: float
    slower: tuple[float, float, float] | None

    @property
    def ok(self) -> bool:
        return self.same and not self.reason and self.lost_s <= BAR_S and not self.is_slower_for_good

    @property
    def is_slower_for_good(self) -> bool:
        told, noise = min((self.stays, self.noise), (self.paced, self.paced_noise), key=lambda pair: pair[1])
        return not told <= max(STAYS, noise)


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
    return compare(name, folder, Run.of(log), Run.of(folder.with_suffix(".alone")), same=alone == beside)


@dataclass(frozen=True, slots=True)
class Run:
    """What a run logged: its steps, and the same in units of the host's pace."""

    steps: Steps
    paced: Steps

    @classmethod
    def of(cls, log: Path) -> Run:
        steps = step_log.read_steps(log)
        return cls(steps, in_units_of(step_log.read_steps(pace_log(log)), steps))


def in_units_of(pace: Steps, steps: Steps) -> Steps:
    """*steps*, their lengths divided by the fastest tenth of *pace* in the same second; a row each."""
    second = ((steps["end_ns"] - steps["end_ns"][0]) // round(PACE_S * 1e9)).astype(int)
    fast = {k: float(np.quantile(pace["ms"][: len(steps)][second == k], 0.1)) for k in set(second.tolist())}
    paced = steps.copy()
    paced["ms"] /= [fast[k] for k in second.tolist()]
    return paced


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


def compare(name: str, folder: Path, run: Run, alone: Run, *, same: bool) -> Row:
    looks = open_recording(folder).looks
    if not looks or not looks[0].file:
        why = looks[0].reason if looks else "nobody was asked"
        return Row(name, same, why, 0, 0.0, 0.0, 0.0, math.nan, math.nan, math.nan, math.nan, None)
    look, steps = looks[0], run.steps
    size = (folder / look.file).stat().st_size / 1e6
    lost = lost_s(steps, look.start_ns, look.end_ns)
    traced = max(0, len(look.steps_ns) - 1)
    begin_ns, end_ns = stacks_read_ns(folder)
    during = step_log.inside(steps, begin_ns, min(end_ns, look.start_ns))
    after_ns = max(end_ns, look.end_ns) + round(AFTER_S * 1e9)
    after = step_log.inside(steps, after_ns, NEVER_NS)
    stays, noise = stays_slower(steps, alone.steps, begin_ns, look.start_ns, after_ns)
    paced, paced_noise = stays_slower(run.paced, alone.paced, begin_ns, look.start_ns, after_ns)
    return Row(
        name, same, look.reason, traced, lost, look.cost_s, size,
        stays, noise, paced, paced_noise, slower(during, after),
    )  # fmt: skip


def stays_slower(
    steps: Steps, alone: Steps, begin_ns: int, look_ns: int, after_ns: int
) -> tuple[float, float]:
    """By how much *steps* after the look are longer than in [begin, look), and wander anyway; shares."""
    before = steps[steps["end_ns"] < look_ns]
    usual = before["ms"][before["end_ns"] >= begin_ns]
    after = steps["ms"][steps["end_ns"] >= after_ns]
    if not len(usual) or not len(after):
        return math.nan, math.nan
    stays = float(np.quantile(after, 0.1) / np.quantile(usual, 0.1) - 1)
    return stays, max(noise_of(alone), noise_of(before))


def noise_of(steps: Steps) -> float:
    """By how much the fastest tenth of steps differs over stretches of `STRETCH_S`, as a share."""
    if not len(steps):
        return math.nan
    stretch = ((steps["end_ns"] - steps["end_ns"][0]) // round(STRETCH_S * 1e9)).astype(int)
    fast = [float(np.quantile(steps["ms"][stretch == k], 0.1)) for k in range(int(stretch[-1]))]
    return max(fast) / min(fast) - 1 if fast else math.nan


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
    if slower is None:
        return f"{'-':>9}"
    return "{:9.2%} [{:.2%}, {:.2%}]".format(*slower)


def table(rows: Sequence[Row]) -> str:
    heads = (
        f"{'lost s':>8}{'told s':>8}{'MB':>7}{'stays':>7}{'noise':>7}{'by pace':>9}{'noise':>7}{'stacks':>9}"
    )
    lines = [f"{'program':16}{'same':>6}{'steps':>7}{heads}"]
    for row in rows:
        end = f"{'OK' if row.ok else 'FAIL'} {row.reason}".rstrip()
        lines.append(
            f"{row.program:16}{'yes' if row.same else 'NO':>6}{row.steps:7}{row.lost_s:8.2f}{row.told_s:8.2f}"
            f"{row.megabytes:7.1f}{row.stays:7.1%}{row.noise:7.1%}"
            f"{row.paced:9.1%}{row.paced_noise:7.1%}{told(row.slower)}  {end}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    needed_s = 2 * (WATCHED_S + START_UP_S)
    benchmark = watched.Benchmark("look", tuple(CASES), measure, table, needed_s=needed_s)
    return watched.run(benchmark, description=__doc__, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
