"""
From stacks that changed to moments at which a thread was seen, at random: their weights are shares of time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from perfzero.attribute.idle import Idle
from perfzero.limits import BY_DEFINITION, CHOICE, Limit
from perfzero.stacks import ProcessStacks
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, IntArray

ROUNDS = 20
"""Of the estimate of how long stacks last; it has settled by then."""

CELL_S = 0.0005
"""The parts of a visit in which it may have ended: finer than a sample of the counters."""

SHARPENED = 4
"""Rounds in which ends of visits are set by the GPU; more change nothing."""

TRUST: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""How much of what the GPU tells of the end of a visit counts: neighbouring cells tell much the same."""

LEAST_CHANCE: Annotated[float, Limit("ratio", CHOICE)] = 0.02
"""No line is taken to be quite sure to come with a busy GPU, or with an idle one."""


IN_GAP: Annotated[float, Limit("ratio", BY_DEFINITION)] = 0.5
"""Idle share of the GPU at a moment; with more it lies in a gap rather than beside it."""

WEIGHTLESS = 1e-3
"""Moments that stand for less than this are left out: they are many, and change nothing."""

NEAR_ZERO = 1e-3
"""Below, the first terms of a series are nearer than the formula, which subtracts large numbers."""

MOST_FRAMES = 1_500_000
"""
Of all different stacks of a thread together. 10 s have 2,500 moments, and stacks have some 40 frames:
with more than this, a file was made to take long.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """
    When the thread was seen, with which leaf (path and activity), and for how many moments each counts.

    `sure`: whether it was seen by then, not only likely to be there.
    """

    time_ns: IntArray
    leaf: IntArray
    weight: FloatArray
    sure: BoolArray

    def where(self, keep: BoolArray) -> Moments:
        """Those that are to be kept."""
        return Moments(self.time_ns[keep], self.leaf[keep], self.weight[keep], self.sure[keep])

    def shifted(self, offset_ns: int) -> Moments:
        """The same, so much later."""
        return replace(self, time_ns=self.time_ns + offset_ns)

    @property
    def count(self) -> float:
        """How many moments they stand for."""
        return float(self.weight.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """
    Stacks of one thread, shape (n,): when each was first seen, its leaf, how long until another one was seen.

    `growth_hz`: the rest of the time for which the stack lasted has the density exp(growth * rest).
    """

    time_ns: IntArray
    leaf: IntArray
    length_s: FloatArray
    growth_hz: FloatArray
    rate_hz: float


def visits_of(process: ProcessStacks, leaf_of: IntArray) -> Visits:
    """What the one thread of *process* was seen to do; *leaf_of*: stack -> leaf, -1 for none."""
    time_ns, leaf = process.time_ns, leaf_of[process.stack]
    length_s = np.diff(time_ns, append=max(process.end_ns, int(time_ns[-1]))) / 1e9
    growth_hz = _growth_hz(length_s, leaf, rate_hz=process.rate_hz)
    return Visits(time_ns, leaf, length_s, growth_hz, process.rate_hz)


def moments_of(
    visits: Visits, idle: Idle | None = None, *, offset_ns: int = 0, computing: BoolArray | None = None
) -> Moments:
    """
    Moments at which the thread was seen, with their weights, where 1 is one moment.

    py-spy writes down a moment only if the stack is another than before. How many moments with the same one
    follow is not known, nor when it ended: at a rate r, with stacks that last 1/v longer on average once they
    are seen, the rest R of the time D until the next change has the density exp((r - v) R), 0 < R < D. So
    moments follow at the rate r, each with the chance that the stack lasted until then. v is estimated for
    each leaf from the means of R (expectation maximisation).

    With *idle* the GPU tells more of when the stack ended: most lines come with a busy or with an idle GPU,
    the same in every step. How often which is learned in some rounds from the moments themselves. What was
    seen next need not have followed at once: a wait of a few ms is often missed. So after its end a stack is
    held against the next one, or against any, whichever explains the GPU better.

    Leaves that are *computing* (`attribute.host_chain`) come with both: the GPU runs dry while the host is
    there. That it becomes idle is no sign that such a stack has ended, nor tells it one such from another.
    """
    count = np.maximum(1, np.ceil(visits.length_s / CELL_S)).astype(np.int64)
    first = np.cumsum(count) - count
    which = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(which)) - first[which]
    cell_s = (visits.length_s / count)[which]
    since_s = (nth + 0.5) * cell_s
    leaf = visits.leaf[which]
    cell_ns = visits.time_ns[which] + (since_s * 1e9).astype(np.int64)
    prior = visits.growth_hz[which] * since_s
    lasts = _lasts(prior, first, which)
    exact = np.ones(len(count))
    sure = np.append(np.ones(len(count), np.bool_), np.zeros(len(which), np.bool_))
    if idle is not None:
        following = np.append(visits.leaf[1:], -1)[which]
        value = idle.at(cell_ns + offset_ns)
        at_first = idle.at(visits.time_ns + offset_ns)
        free = np.append(np.zeros(visits.leaf.max() + 1, np.bool_) if computing is None else computing, False)
        either, in_gap = free[leaf] & free[following], free[leaf] & (value > IN_GAP)
        for _ in range(SHARPENED):
            told = Moments(
                np.append(visits.time_ns, cell_ns),
                np.append(visits.leaf, leaf),
                np.append(exact, lasts * cell_s * visits.rate_hz),
                sure,
            )
            odds = _log_odds(told, np.append(at_first, value))
            # The cells before the end were the leaf's, those after it were already the following one's.
            after = np.maximum(_log(odds, following, value), _log(odds, np.full_like(leaf, -1), value))
            gain = np.where(np.isfinite(value), TRUST * (_log(odds, leaf, value) - after), 0.0)
            gain = np.where(either, 0.0, np.where(in_gap, np.maximum(gain, 0.0), gain))
            before = np.cumsum(gain) - gain
            lasts = _lasts(prior + before - before[first][which], first, which)
            # In a gap the host may have been elsewhere, unseen, if this line hardly ever comes with one.
            rarely = np.exp(np.minimum(odds[1, leaf + 1] - odds[1, 0], 0.0))
            lasts = np.where((value > IN_GAP) & ~free[leaf], lasts * rarely, lasts)
    times = np.append(visits.time_ns, cell_ns)
    order = np.argsort(times, kind="stable")
    weight = np.append(exact, lasts * cell_s * visits.rate_hz)
    found = Moments(times[order], np.append(visits.leaf, leaf)[order], weight[order], sure[order])
    return found.where((found.leaf >= 0) & (found.weight > WEIGHTLESS))


def _lasts(log_density: FloatArray, first: IntArray, which: IntArray) -> FloatArray:
    """The chance that a visit lasts until each of its cells, from the log of how likely it ends in which."""
    top = np.maximum.reduceat(log_density, first)[which]
    density = np.exp(np.maximum(log_density - top, -500))
    total = np.add.reduceat(density, first)[which]
    upto = np.cumsum(density)
    upto = upto - (upto - density)[first][which]
    return np.asarray(np.clip(1 - (upto - 0.5 * density) / total, 0.0, 1.0), np.float64)


def _log_odds(moments: Moments, value: FloatArray) -> FloatArray:
    """log of the chance that the GPU is busy, and that it is idle: whatever the leaf (-1), and for each."""
    known = np.isfinite(value)
    leaf, weight = moments.leaf[known] + 1, moments.weight[known]
    leaves = int(moments.leaf.max(initial=-1)) + 2
    whole = np.bincount(leaf, weight, leaves)
    idle = np.bincount(leaf, weight * value[known], leaves)
    mean = idle.sum() / max(whole.sum(), 1e-12)
    chance = np.clip((idle + mean) / (whole + 1.0), LEAST_CHANCE, 1 - LEAST_CHANCE)
    chance[0] = np.clip(mean, LEAST_CHANCE, 1 - LEAST_CHANCE)
    return np.asarray(np.log(np.stack([1 - chance, chance])), np.float64)


def _log(odds: FloatArray, leaf: IntArray, value: FloatArray) -> FloatArray:
    return np.asarray((1 - value) * odds[0, leaf + 1] + value * odds[1, leaf + 1], np.float64)


def _growth_hz(length_s: FloatArray, kind: IntArray, *, rate_hz: float) -> FloatArray:
    """r - v for each of the stacks that were seen *length_s* before another one was."""
    kinds = int(kind.max(initial=-1)) + 1
    count = np.maximum(np.bincount(kind + 1, minlength=kinds + 1), 1)
    rest_s = np.minimum(length_s, 1 / rate_hz) / 2
    growth = np.zeros_like(length_s)
    for _ in range(ROUNDS):
        mean_s = np.maximum(np.bincount(kind + 1, rest_s, kinds + 1) / count, 1e-6)
        growth = rate_hz - 1 / mean_s[kind + 1]
        x = growth * length_s
        # The mean of u on (0, 1) with the density exp(x u): 1 / (1 - exp(-x)) - 1 / x, 1/2 + x/12 near 0.
        near = np.abs(x) < NEAR_ZERO
        safe = np.clip(np.where(near, 1.0, x), -500, 500)
        rest_s = length_s * np.where(near, 0.5 + x / 12, -1 / np.expm1(-safe) - 1 / safe)
    return growth


def main_thread(process: ProcessStacks) -> int:
    """The thread that runs the program: that which began with its module, else the one that changes most."""
    names = [{process.frames[s[-1]].function for s in [process.stacks[k]] if s} for k in process.stack]
    module = Counter(
        int(t) for t, name in zip(process.thread, names, strict=True) if name & {"<module>", "_run_code"}
    )
    return (module or Counter(process.thread.tolist())).most_common(1)[0][0]


def frames_in(process: ProcessStacks, rows: BoolArray) -> int:
    """How many frames the different stacks in *rows* have together."""
    return sum(len(process.stacks[k]) for k in np.unique(process.stack[rows]).tolist())
