"""
Does `perfzero compare` tell the truth on a GPU? Iterations of a ResNet-50, and pairs whose answer is known.

    python benchmarks/compare/run.py --out OUT [--only ledger,channels_last] [--runs 5] [--budget SECONDS]
                                     [--third graph] [--recordings FOLDER]

"ledger" records ResNet-50 in NCHW, channels-last, and compiled (or, with --third graph, as one CUDA graph),
each under `perfzero record` for 24 s, and compares the three: whether each gain lies in the interval that the
iteration before it promised, and that of the programs' own clocks in the one that is told.

Any other name is a program that is recorded 2 x RUNS times for 14 s, by turns as it is and with 2 % more work
in each step (benchmarks/compare/programs.py). Of the pairs of equal runs nine of ten at least have to be "no
real difference", of those of a plain and a slow run nine of ten "slower", and none the contrary. The truth is
by the programs' own clocks: "own" is how much slower the slow runs are, and "runs" by how much the means of
runs of one kind differ (standard deviation), beside the drift that was told.

Into OUT go compare.json, compare.txt and ledger.txt. With --work DIR recordings and logs stay there;
--recordings DIR scores them again, and needs no GPU.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import watched  # noqa: I001 (it knows where the next one is)
import step_log

from perfzero.report.ledger.build import build
from perfzero.report.ledger.measure import Iteration, iteration
from perfzero.report.ledger.metrics import STEP_RATE
from perfzero.report.ledger.terminal import words
from perfzero.series.compare import Difference

PAIRED = ("channels_last", "nchw", "transformer", "optimizer")
BUSY = PAIRED[:3]
"""Those that keep the GPU busy, of which the figures are asked; the others are only told."""

LEDGER_S, PAIR_S = 24.0, 14.0
BESIDE_S, COMPILE_S = 14.0, 60.0
"""What a start, the end of a recording and its analysis take, and compiling a ResNet-50."""

SLOWER = 0.02
ENOUGH = 0.9
MOST_APART = 0.005
"""So far outside of what is told may a gain by the programs' clocks lie: windows do not see all steps."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """What was told of the pairs of a program. Counts; shares of the step for `own`, `runs` and the rest."""

    program: str
    plain: int
    same: int
    equal: int
    wrong: int
    found: int
    slower: int
    contrary: int
    own: float
    runs: float
    drift: float
    reach: float

    @property
    def ok(self) -> bool:
        if self.program not in BUSY:
            return self.wrong == 0 and self.contrary == 0
        same = self.same >= ENOUGH * self.equal
        return same and self.found >= ENOUGH * self.slower and self.contrary == 0


@dataclass(frozen=True, slots=True)
class Gain:
    """One step of the ledger: promised and told gains, `own` by the programs' clocks, and the limits."""

    program: str
    low: float
    high: float
    value: float
    told_low: float
    told_high: float
    own: float
    kept: str
    next_limit: str
    limits: str
    came: bool | None

    @property
    def ok(self) -> bool:
        inside = self.told_low - MOST_APART <= self.own <= self.told_high + MOST_APART
        return inside and self.kept in ("kept", "nothing promised")


@dataclass(frozen=True, slots=True)
class Ledger:
    """The steps of the ledger; `text` is what `perfzero compare` says."""

    program: str
    gains: tuple[Gain, ...]
    text: str

    @property
    def ok(self) -> bool:
        return bool(self.gains) and all(gain.ok for gain in self.gains)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A recording that was judged, and the mean of its steps in s in the stretch that was, by its own log."""

    iteration: Iteration
    own_s: float


def measure(name: str, folder: Path, args: argparse.Namespace) -> Pairs | Ledger:
    made = args.recordings / name if args.recordings else folder
    if name == "ledger":
        stages = ("nchw", "channels_last", args.third)
        if not args.recordings:
            for stage in stages:
                record(stage, made / stage, seconds=LEDGER_S, options=())
        found = ledger_of([judged(made / stage) for stage in stages])
        (args.out / "ledger.txt").write_text(found.text)
        return found
    if args.recordings:
        plain, slow = (sorted(made.glob(f"{kind}-*/manifest.json")) for kind in ("plain", "slow"))
        runs = [[judged(manifest.parent) for manifest in kind] for kind in (plain, slow)]
    else:
        runs = record_pairs(name, made, runs=args.runs)
    return pairs_of(name, *runs)


def record_pairs(name: str, folder: Path, *, runs: int) -> list[list[Run]]:
    """*runs* plain recordings and as many slow ones, by turns, so that what drifts meets both."""
    plain: list[Run] = []
    slow: list[Run] = []
    options = ("--no-agent", "--no-stacks")
    for number in range(runs):
        record(name, folder / f"plain-{number}", seconds=PAIR_S, options=options)
        plain.append(judged(folder / f"plain-{number}"))
        extra_us = SLOWER * plain[0].own_s * 1e6
        record(name, folder / f"slow-{number}", seconds=PAIR_S, options=options, extra_us=extra_us)
        slow.append(judged(folder / f"slow-{number}"))
    return [plain, slow]


def record(case: str, folder: Path, *, seconds: float, options: Sequence[str], extra_us: float = 0.0) -> None:
    """Record a program of `programs.py`; raises RuntimeError where that fails."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_suffix(".steps")
    program = [
        "python3",
        "benchmarks/compare/programs.py",
        case,
        "--seconds",
        str(seconds),
        "--log",
        str(log),
    ]
    if extra_us:
        program += ["--extra-us", f"{extra_us:.1f}"]
    command = [*watched.checkout.PERFZERO, "record", "--quiet", *options, "-o", str(folder), "--", *program]
    output = folder.with_suffix(".log")
    with watched.child(command, log=output) as process:
        limit_s = seconds + watched.START_UP_S + COMPILE_S
        ended = watched.checkout.finish(process, log=output, timeout_s=limit_s)
    if ended.code != 0:
        raise RuntimeError(f"{case} ended with {ended.code}: {ended.output[-400:].strip()}")


def judged(folder: Path) -> Run:
    """The recording in *folder*, and its own mean step in the stretch that was judged."""
    one = iteration(folder.name, [folder])
    steady = one.first.diagnosis.steady
    rows = step_log.read_steps(folder.with_suffix(".steps"))
    own_ms, _ = step_log.step_of(step_log.inside(rows, steady.start_ns, steady.end_ns))
    return Run(one, own_ms / 1e3)


def pairs_of(name: str, plain: Sequence[Run], slow: Sequence[Run]) -> Pairs:
    """All pairs of equal runs, and all of a plain and a slow one."""
    equal = [told(a, b) for kind in (plain, slow) for a, b in itertools.combinations(kind, 2)]
    unequal = [told(a, b) for a in plain for b in slow]
    spread = [
        float(np.std(steps, ddof=1) / np.mean(steps)) for steps in map(own, (plain, slow)) if len(steps) > 1
    ]
    drifts = [
        run.iteration.means["step_time"].drift
        for run in (*plain, *slow)
        if "step_time" in run.iteration.means
    ]
    reach = [(d.high - d.low) / 2 for d in equal if d is not None and d.known]
    return Pairs(
        program=name,
        plain=len(plain),
        same=words_of(equal).count("same"),
        equal=len(equal),
        wrong=words_of(equal).count("more") + words_of(equal).count("less"),
        found=words_of(unequal).count("less"),
        slower=len(unequal),
        contrary=words_of(unequal).count("more") + words_of(unequal).count("same"),
        own=float(np.mean(own(slow)) / np.mean(own(plain)) - 1) if plain and slow else math.nan,
        runs=float(np.mean(spread)) if spread else math.nan,
        drift=float(np.median(drifts)) if drifts else math.nan,
        reach=float(np.median(reach)) if reach else math.nan,
    )


def own(runs: Sequence[Run]) -> list[float]:
    return [run.own_s for run in runs]


def told(a: Run, b: Run) -> Difference | None:
    """What is told of the step rate of *b* against *a*; None where one of them has no steps."""
    line = build([a.iteration, b.iteration]).line(STEP_RATE)
    return None if line is None else line.before[1]


def words_of(found: Sequence[Difference | None]) -> list[str]:
    return ["unknown" if d is None else d.word for d in found]


def ledger_of(runs: Sequence[Run]) -> Ledger:
    """The iterations *runs* in a ledger, each gain beside that of the programs' own clocks."""
    found = build([run.iteration for run in runs])
    gains = []
    for place, promise in enumerate(found.promises, start=1):
        gains.append(
            Gain(
                program=f"{runs[place - 1].iteration.name} to {runs[place].iteration.name}",
                low=promise.low,
                high=promise.high,
                value=promise.value,
                told_low=promise.achieved_low,
                told_high=promise.achieved_high,
                own=runs[place - 1].own_s / runs[place].own_s,
                kept=promise.kept,
                next_limit=promise.next_limit or "",
                limits=", ".join(promise.limits),
                came=promise.came,
            )
        )
    return Ledger("ledger", tuple(gains), words(found))


def table(rows: Sequence[Pairs | Ledger]) -> str:
    return "\n".join(itertools.chain.from_iterable(map(lines_of, rows)))


def lines_of(row: Pairs | Ledger) -> Iterator[str]:
    if isinstance(row, Ledger):
        yield f"{'ledger':32}{'promised':>14}{'told':>22}{'own':>8}  {'next limit, foreseen':34} {'met'}"
        for gain in row.gains:
            promised = f"{gain.low:.2f}-{gain.high:.2f}" if math.isfinite(gain.low) else "-"
            told = f"{gain.value:.3f} [{gain.told_low:.3f}, {gain.told_high:.3f}]"
            yield (
                f"{gain.program:32}{promised:>14}{told:>22}{gain.own:>8.3f}  {gain.next_limit or '-':34} "
                f"{gain.limits} {'OK' if gain.ok else 'FAIL'}"
            )
        return
    yield (
        f"{'pairs':16}{'same':>10}{'wrong':>7}{'slower':>10}{'contrary':>10}{'own':>8}{'runs':>8}{'drift':>8}"
        f"{'reach':>8}"
    )
    yield (
        f"{row.program:16}{f'{row.same}/{row.equal}':>10}{row.wrong:>7}{f'{row.found}/{row.slower}':>10}"
        f"{row.contrary:>10}{row.own:>8.2%}{row.runs:>8.2%}{row.drift:>8.2%}{row.reach:>8.2%} "
        f"{'OK' if row.ok else 'FAIL'}"
    )


def needed_s(name: str, args: argparse.Namespace) -> float:
    if args.recordings:
        return 0.0
    if name == "ledger":
        return 3 * (LEDGER_S + BESIDE_S) + (COMPILE_S if args.third == "compiled" else 0.0)
    return 2 * args.runs * (PAIR_S + BESIDE_S)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", type=int, default=5, help="of each kind: 5 make 20 equal pairs and 25 others"
    )
    parser.add_argument("--third", choices=("compiled", "graph"), default="compiled", help="third iteration")
    parser.add_argument("--recordings", type=Path, help="what --work of an earlier run has left")


def main(argv: Sequence[str] | None = None) -> int:
    names = ("ledger", *PAIRED)
    benchmark = watched.Benchmark("compare", names, measure, table, needed_s=needed_s, options=options)
    return watched.run(benchmark, description=__doc__, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
