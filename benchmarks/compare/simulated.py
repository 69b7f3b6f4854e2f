"""
Are two runs of one program called the same, and a slower one slower? Pairs whose answer is known; no GPU.

    python benchmarks/compare/simulated.py --out OUT [--pairs 200]

The first table is of simulated programs. A run has steps with AR(1) noise, a level that wanders over seconds
(an Ornstein-Uhlenbeck process), an offset of its own, and a trend, as a GPU that becomes warm has. It is
seen in windows, as recordings see it (half a second, 3 s and 4 s of 12 s). Each kind of program is compared
with itself, and with itself 2 % slower. "alone" is how often an interval from the steps of two runs alone
claims a difference that is none (1.96 standard errors of steps that know nothing of each other).

The second is of real step logs (tests/recordings/*/own_steps.npz): the first half of each after its warm-up
against the second, and against the second made 2 % slower.

    same       told as "no real difference"          found     told as slower
    unknown    cannot be told                        wrong     told as what it is not
    inside     the truth lies in the 95 % interval

Into OUT go simulated.json and simulated.txt.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "src"))

import step_log  # noqa: E402 (needs the path above)

from perfzero.series.compare import (  # noqa: E402
    BUSY,
    WAITING,
    Difference,
    Measured,
    Series,
    difference,
    measured,
    stretches_of,
)

Floats = npt.NDArray[np.float64]

SLOWER = 0.02
RUN_S = 12.0
SEEN_S = ((0.5, 1.0), (2.0, 5.0), (6.0, 10.0), (11.0, 12.0))
"""When a recording of a short program looks: windows of half a second, then longer ones."""

EVERY_OTHER = 0.5
"""How likely a run is a slow one, of a program whose runs are of two kinds."""

WARM_UP = 0.35
"""The first part of a real log is left out: the programs work for 12 to 16 s, and settle within five."""


@dataclass(frozen=True, slots=True)
class Kind:
    """
    A kind of program: its step in s, and the rest as shares of it. `usual` as in `series.compare`.

    Every other run, by chance, is slower by `either`: a library chose another algorithm.
    """

    name: str
    step_s: float
    noise: float
    alike: float
    drift: float
    remembers_s: float
    between: float
    trend: float = 0.0
    usual: float = BUSY
    either: float = 0.0


KINDS = (
    Kind("even, as a CUDA graph", 0.02, 0.001, 0.0, 0.0003, 2.0, 0.0003),
    Kind("GPU-bound, as ResNet-50", 0.1, 0.001, 0.2, 0.0007, 2.0, 0.0007),
    Kind("GPU-bound, some jitter", 0.05, 0.004, 0.3, 0.001, 2.0, 0.001),
    Kind("GPU-bound, runs differ more", 0.05, 0.004, 0.3, 0.0007, 2.0, 0.002),
    Kind("GPU-bound, runs differ 10 x", 0.05, 0.001, 0.3, 0.0005, 2.0, 0.005),
    Kind("GPU-bound, runs differ 40 x", 0.05, 0.001, 0.3, 0.0005, 2.0, 0.02),
    Kind("GPU-bound, runs differ 200 x", 0.05, 0.001, 0.3, 0.0005, 2.0, 0.1),
    Kind("one of two algorithms, 6 % apart", 0.05, 0.002, 0.3, 0.0005, 2.0, 0.0005, either=0.06),
    Kind("GPU-bound, steps of 0.7 s", 0.7, 0.003, 0.0, 0.001, 2.0, 0.001),
    Kind("GPU-bound, steps of 1.5 s", 1.5, 0.003, 0.0, 0.001, 2.0, 0.001),
    Kind("GPU-bound, wanders over a minute", 0.1, 0.002, 0.3, 0.003, 60.0, 0.0),
    Kind("at the power cap, warming up", 0.03, 0.003, 0.3, 0.001, 2.0, 0.001, trend=0.004),
    Kind("GPU-bound, wanders 0.3 %", 0.05, 0.004, 0.3, 0.003, 2.0, 0.003),
    Kind("host-bound, wanders 1 %", 0.02, 0.03, 0.3, 0.01, 2.0, 0.01, usual=WAITING),
    Kind("host-bound, wanders 4 %", 0.02, 0.05, 0.3, 0.04, 2.0, 0.04, usual=WAITING),
    Kind("host-bound, wanders 10 %", 0.02, 0.1, 0.5, 0.1, 2.0, 0.1, usual=WAITING),
    Kind("host-bound, runs differ more", 0.02, 0.05, 0.3, 0.02, 2.0, 0.06, usual=WAITING),
)


@dataclass(frozen=True, slots=True)
class Row:
    """What was told of the pairs of one kind, as shares of them; NaN where nothing was asked."""

    name: str
    runs: int
    pairs: int
    same: float
    unknown: float
    wrong: float
    inside: float
    alone: float
    found: float
    missed: float
    taken_for_another: float
    reach: float  # half of the median 95 % interval


def run(kind: Kind, rng: np.random.Generator, *, slower: float = 0.0) -> Series:
    """The steps of one run that windows see."""
    count = round(RUN_S / kind.step_s)
    level = 1 + kind.between * rng.normal()
    if kind.either:
        level *= 1 + kind.either * float(rng.random() < EVERY_OTHER)
    level = level + wander(rng, count, math.exp(-kind.step_s / kind.remembers_s)) * kind.drift
    level = level + wander(rng, count, kind.alike) * kind.noise
    level = level + kind.trend * np.linspace(-0.5, 0.5, count)
    steps = np.maximum(kind.step_s * level * (1 + slower), 1e-3 * kind.step_s)
    end_ns = np.cumsum(steps * 1e9).astype(np.int64)
    seen = np.array([[round(a * 1e9), round(b * 1e9)] for a, b in SEEN_S])
    return Series(
        steps, np.ones(count), stretches_of(end_ns - (steps * 1e9).astype(np.int64), end_ns, seen_ns=seen)
    )


def wander(rng: np.random.Generator, count: int, remember: float) -> Floats:
    """An AR(1) process of *count* values with variance 1, each *remember* of the one before."""
    from scipy.signal import lfilter

    shocks = rng.normal(size=count) * math.sqrt(1 - remember**2)
    shocks[0] = rng.normal()
    return np.asarray(lfilter([1.0], [1.0, -remember], shocks), np.float64)


def simulate(kind: Kind, *, runs: int, pairs: int, seed: int = 1) -> Row:
    rng = np.random.default_rng(seed)

    def mean(slower: float = 0.0) -> tuple[Measured, Series]:
        made = [run(kind, rng, slower=slower) for _ in range(runs)]
        return measured(made, scale="ratio", usual=kind.usual), made[0]

    equal: list[Difference] = []
    other: list[Difference] = []
    claimed = 0
    for _ in range(pairs):
        (a, first), (b, second), (c, _third) = mean(), mean(), mean(SLOWER)
        equal.append(difference(a, b))
        other.append(difference(a, c))
        claimed += by_steps_alone(first, second)
    return row(kind.name, equal, other, runs=runs, alone=claimed / pairs if runs == 1 else math.nan)


def by_steps_alone(a: Series, b: Series) -> bool:
    one, other = (series.values[series.stretch >= 0] for series in (a, b))
    error = math.sqrt(one.var() / len(one) / one.mean() ** 2 + other.var() / len(other) / other.mean() ** 2)
    return bool(abs(math.log(other.mean() / one.mean())) > 1.96 * error)


def row(
    name: str,
    equal: Sequence[Difference],
    other: Sequence[Difference],
    *,
    runs: int = 1,
    alone: float = math.nan,
) -> Row:
    def share(found: Sequence[Difference], *words: str) -> float:
        return sum(d.word in words for d in found) / len(found) if found else math.nan

    inside = [d.low <= 0 <= d.high for d in equal if d.known] + [
        d.low <= SLOWER <= d.high for d in other if d.known
    ]
    return Row(
        name=name,
        runs=runs,
        pairs=len(equal),
        same=share(equal, "same"),
        unknown=share(equal, "unknown"),
        wrong=share(equal, "more", "less"),
        inside=sum(inside) / len(inside) if inside else math.nan,
        alone=alone,
        found=share(other, "more"),
        missed=share(other, "unknown"),
        taken_for_another=share(other, "same", "less"),
        reach=float(np.median([(d.high - d.low) / 2 for d in equal if d.known] or [math.nan])),
    )


def halves(log: Path) -> Row:
    """The two halves of a real log of steps, as two runs."""
    steps = step_log.unpack(log)
    lengths, end_ns = steps["ms"].astype(np.float64) / 1e3, steps["end_ns"].astype(np.int64)
    begin = end_ns[0] + WARM_UP * (end_ns[-1] - end_ns[0])
    middle = begin + (end_ns[-1] - begin) / 2
    parts = []
    for low, high in ((begin, middle), (middle, end_ns[-1])):
        kept = (end_ns > low) & (end_ns <= high)
        usual = kept & (lengths < 1.5 * np.median(lengths[kept]))  # a stall is no step
        start_ns = end_ns[usual] - (lengths[usual] * 1e9).astype(np.int64)
        seen = np.array([[round(low), round(high) + 1]])
        stretch = stretches_of(start_ns, end_ns[usual], seen_ns=seen)
        parts.append(Series(lengths[usual], np.ones(int(usual.sum())), stretch))
    a, b = parts
    usual_drift = WAITING if log.parent.name in HOST_BOUND else BUSY
    one, two, slow = (
        measured([part], scale="ratio", usual=usual_drift)
        for part in (a, b, Series(b.values * (1 + SLOWER), b.weights, b.stretch))
    )
    return row(log.parent.name, [difference(one, two)], [difference(one, slow)])


HOST_BOUND = frozenset(
    (
        "anomaly_mode", "checkpoint_stall", "cpu_quota", "decode_eager", "evaluation_every_n",
        "input_starved_resnet50", "item_every_layer", "jittered", "launch_blocking", "never_steady",
        "optimizer_unfused", "pageable_copies", "tiny_kernels", "two_processes", "variable_batches",
        "variable_batches_rounded",
    )
)  # fmt: skip
"""Programs whose pace is the host's, or that wander on purpose; all others keep the GPU busy."""


def together(rows: Sequence[Row], name: str) -> Row:
    """The mean of *rows*, each as many times as it has pairs."""
    pairs = [r.pairs for r in rows]

    def mean(field: str) -> float:
        return float(np.average([getattr(r, field) for r in rows], weights=pairs))

    fields = ["same", "unknown", "wrong", "inside", "found", "missed", "taken_for_another"]
    reach = float(np.median([r.reach for r in rows]))
    return Row(name, 1, sum(pairs), alone=math.nan, reach=reach, **{f: mean(f) for f in fields})


def table(rows: Sequence[Row]) -> str:
    head = (
        f"{'':34}{'runs':>5}{'pairs':>6}{'same':>7}{'unknown':>9}{'wrong':>7}{'inside':>8}{'alone':>7}"
        f"{'reach':>8} |{'found':>7}{'unknown':>9}{'wrong':>7}"
    )
    lines = [head]
    for r in rows:
        alone = "-" if math.isnan(r.alone) else f"{r.alone:.0%}"
        lines.append(
            f"{r.name:34}{r.runs:>5}{r.pairs:>6}{r.same:>7.0%}{r.unknown:>9.0%}{r.wrong:>7.1%}{r.inside:>8.1%}"
            f"{alone:>7}{r.reach:>8.2%} |{r.found:>7.0%}{r.missed:>9.0%}{r.taken_for_another:>7.1%}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("compare"))
    parser.add_argument("--pairs", type=int, default=200)
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    made = [simulate(kind, runs=runs, pairs=args.pairs) for runs in (1, 3) for kind in KINDS]
    logs = sorted((ROOT / "tests" / "recordings").glob("*/own_steps.npz"))
    real = [halves(log) for log in logs]
    busy = [r for r in real if r.name not in HOST_BOUND]
    waiting = [r for r in real if r.name in HOST_BOUND]
    summed = [together(busy, "keep the GPU busy"), together(waiting, "wait for the host, or wander")]
    words = f"{table(made)}\n\n{table([*busy, *waiting])}\n\n{table(summed)}\n"
    (args.out / "simulated.txt").write_text(words)
    document = {"simulated": [asdict(r) for r in made], "real": [asdict(r) for r in real]}
    (args.out / "simulated.json").write_text(json.dumps(document, indent=1) + "\n")
    print(words)
    return 0


if __name__ == "__main__":
    sys.exit(main())
