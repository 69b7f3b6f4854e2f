"""
From step times to the cost of watching.

Model. A program runs steps without end while a controller alternates treatments in blocks:

    sampling   a PM session is open and samples
    open       a PM session is open and does not sample
    bare       no session

The slow-down of a treatment is the ratio of mean step times, treated / bare, taken within each group of
adjacent blocks, minus 1, and averaged over the groups. Groups run forwards and backwards in turn, so a
drift that is linear in time cancels. Intervals are percentile bootstraps over groups, because steps within a
block are not independent.

Opening and closing stalls the program for an instant. Its cost is the program time lost per cycle: the sum,
over all steps that overlap the cycle, of step time minus the mean step time in the quiet stretches between
cycles. An interval comes from a bootstrap over cycles.

The default policy's cost in a run follows from these, a and c being the slow-downs of "sampling" and
"open" (ratios) and b the time lost per cycle:

    share sampled x a + share open but not sampled x c + sessions x b / length of the run
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

REPLICATES = 10_000
SETTLE_NS = 100_000_000
"""How long after its call returns an opening or closing may still be felt."""


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of one treatment, [start_ns, end_ns), without the moments of change at its edges."""

    group: int
    treatment: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval; `replicates` are the bootstrap's, for figures derived from it."""

    value: float
    low: float
    high: float
    n: int
    replicates: Array


def block_means(steps: NDArray[np.void], blocks: Sequence[Block]) -> dict[tuple[int, str], float]:
    """Mean step time in ms of each block, over the steps that lie wholly inside; NaN where there is none."""
    start_ns = steps["end_ns"] - (steps["ms"] * 1e6).astype(np.int64)
    means = {}
    for block in blocks:
        inside = (start_ns >= block.start_ns) & (steps["end_ns"] <= block.end_ns)
        means[block.group, block.treatment] = (
            float(steps["ms"][inside].mean()) if inside.any() else float("nan")
        )
    return means


def slowdown(
    steps: NDArray[np.void], blocks: Sequence[Block], *, treatment: str, rng: np.random.Generator
) -> Estimate:
    """The slow-down of *treatment* against "bare", as a ratio minus 1, over the groups that hold both."""
    means = block_means(steps, blocks)
    groups = sorted({block.group for block in blocks})
    nothing = float("nan")
    ratios = np.array(
        [means.get((g, treatment), nothing) / means.get((g, "bare"), nothing) - 1 for g in groups]
    )
    return bootstrap(ratios[np.isfinite(ratios)], rng=rng)


def cycle_losses(steps: NDArray[np.void], cycles: Sequence[tuple[int, int]]) -> Array:
    """Program time lost in each open/close cycle [start_ns, end_ns), in seconds; shape (len(cycles),)."""
    if not cycles:
        return np.empty(0)
    start_ns = steps["end_ns"] - (steps["ms"] * 1e6).astype(np.int64)
    touched = [(start_ns < end + SETTLE_NS) & (steps["end_ns"] > start) for start, end in cycles]
    phase = (start_ns >= cycles[0][0]) & (steps["end_ns"] <= cycles[-1][1])
    quiet = phase & ~np.logical_or.reduce(touched)
    if not quiet.any():
        return np.full(len(cycles), np.nan)
    usual = float(steps["ms"][quiet].mean())
    return np.array([float((steps["ms"][rows] - usual).sum()) / 1e3 for rows in touched])


def bootstrap(values: Array, *, rng: np.random.Generator) -> Estimate:
    """The mean of *values* (shape (n,)) with its 95 % percentile interval; NaN below two values."""
    n = len(values)
    if n < 2:
        nan = float("nan")
        return Estimate(float(values.mean()) if n else nan, nan, nan, n, np.full(REPLICATES, nan))
    replicates = values[rng.integers(0, n, (REPLICATES, n))].mean(axis=1)
    low, high = np.quantile(replicates, (0.025, 0.975))
    return Estimate(float(values.mean()), float(low), float(high), n, replicates)


def policy_cost(
    figures: Mapping[str, Estimate], *, sampling_share: float, open_share: float, sessions: int, run_s: float
) -> Estimate:
    """
    The cost of a policy in a run of *run_s* seconds, as a ratio.

    *figures*: "sampling" and "open" (ratios) and "cycle" (seconds).
    """
    idle_share = max(0.0, open_share - sampling_share)
    parts = (
        (sampling_share, figures["sampling"]),
        (idle_share, figures["open"]),
        (sessions / run_s, figures["cycle"]),
    )
    value = sum(weight * figure.value for weight, figure in parts)
    replicates = sum(weight * figure.replicates for weight, figure in parts)
    assert isinstance(replicates, np.ndarray)
    low, high = np.quantile(replicates, (0.025, 0.975))
    return Estimate(value, float(low), float(high), min(figure.n for _, figure in parts), replicates)
