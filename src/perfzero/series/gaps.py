"""
Idle gaps as a distribution: how long they are, and how sure that is.

Model: the GPU alternates between idle and busy. A sample below `IDLE` was idle throughout; a run
of such samples is a gap, and the samples at its ends tell by how much it reaches into them, taken
that they are otherwise as busy as the next sample further out. Two neighbours that are half idle
between two full ones are one gap, if together they are idle for a sample's length. All other idle
time lies inside samples in which kernels ran, where its lengths cannot be told: that is the
unresolved part, a figure of its own, and shorter than a sample almost always.

Windows cut runs. A run that began before its window is more likely a long one (a window hits what
is long), so it says nothing about how long runs are; a run that began inside and was cut at the end
is longer than what was seen. Hence the distribution rests on the runs that began inside a window,
with the cut ones as right-censored (Kaplan and Meier, 1958), which is not biased by the length of
windows as long as these are longer than most runs. Where the longest run was cut, the rest of the
distribution is put at its length (Efron, 1967): figures of the tail are then lower bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from perfzero.limits import CHOICE, H200, Limit
from perfzero.values import FloatArray, IntArray, Samples

IDLE: Annotated[float, Limit("ratio", CHOICE)] = 0.005
"""GR activity below which a sample has no work: half a percent is far above counter noise."""

READING_S: Annotated[float, Limit("seconds", H200)] = 0.5e-6
"""
What reading the counters adds to that: the engine counts as active for 0.3 µs per sample with nothing
on the GPU (H200: 2.9 % of samples of 10 µs, nothing to speak of in 2 ms).
"""

FULL: Annotated[float, Limit("ratio", CHOICE)] = 0.98
"""GR activity from which on a sample has no gap that could belong to a neighbour's."""

HOLE: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Samples that start later than their neighbour's end by this part of a sample are not neighbours."""


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """
    Runs of one kind in the order of time; all arrays of shape (n,).

    `start_ns`, `end_ns`: what was seen of each. `cut_start`, `cut_end`: a window's edge, or a hole, cut it.
    `mass`: the share of all runs that each complete run stands for, adding up to 1. It is 0 for a cut
    run, unless that is the longest of all.
    """

    start_ns: IntArray
    end_ns: IntArray
    cut_start: NDArray[np.bool_]
    cut_end: NDArray[np.bool_]
    mass: FloatArray

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def length_s(self) -> FloatArray:
        """How long each run was, as far as it was seen; shape (n,)."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def mean_s(self) -> float:
        """Mean length; NaN if no run began where it could be seen."""
        return float(np.sum(self.mass * self.length_s)) if self.mass.sum() > 0 else float("nan")

    @property
    def longest_s(self) -> float:
        """The longest run that was seen, cut or not; NaN without any."""
        return float(self.length_s.max()) if len(self) else float("nan")

    def quantile(self, share: float) -> float:
        """The length that *share* of the runs do not exceed; NaN if no run began where it could be seen."""
        if not self.mass.sum() > 0:
            return float("nan")
        order = np.argsort(self.length_s)
        reached = np.cumsum(self.mass[order])
        place = min(int(np.searchsorted(reached, share - 1e-9)), len(order) - 1)
        return float(self.length_s[order][place])


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """
    How the GPU's idle time is made up.

    `idle_share`: of all time looked at (`seconds`, in samples of `sample_s`). `unresolved_share`: the
    part of the idle time within samples in which a kernel ran.
    """

    idle: Runs
    sample_s: float
    seconds: float
    idle_share: float
    unresolved_share: float


def find_gaps(samples: Samples) -> Gaps | None:
    """The gaps in *samples*, of any period and with holes between windows; None without GR activity."""
    samples = samples.where(np.isfinite(samples.column("gr_active")))
    if len(samples) == 0:
        return None
    busy_share = samples.column("gr_active")
    length = samples.duration_s
    seconds = float(np.sum(length))
    idle_s = float(np.sum((1.0 - busy_share) * length))
    idle = _runs(samples)
    # Rounding to nanoseconds may make the gaps a trifle longer than all the idle time there is.
    unresolved_s = max(idle_s - float(np.sum(idle.length_s)), 0.0)
    return Gaps(
        idle=idle,
        sample_s=float(np.median(length)),
        seconds=seconds,
        idle_share=idle_s / seconds,
        unresolved_share=unresolved_s / idle_s if idle_s > 0 else float("nan"),
    )


def stretches(samples: Samples, *, hole_s: float = 0.0) -> tuple[tuple[int, int], ...]:
    """
    First and last-plus-one row of each run of samples that follow each other without a hole.

    *hole_s*: what is shorter is not taken for a hole, nor is half a sample.
    """
    if len(samples) == 0:
        return ()
    return tuple(pairwise([0, *_cuts(samples, hole_s).tolist(), len(samples)]))


def stretch_of(samples: Samples) -> IntArray:
    """The number of the stretch that each row of *samples* is in, from 0; shape (n,)."""
    number = np.zeros(len(samples), np.int64)
    if len(samples):
        number[_cuts(samples)] = 1
    return np.cumsum(number)


def _cuts(samples: Samples, hole_s: float = 0.0) -> IntArray:
    """The rows of *samples*, one at least, that follow a hole."""
    shortest = max(HOLE * float(np.median(samples.end_ns - samples.start_ns)), hole_s * 1e9)
    return np.flatnonzero(samples.start_ns[1:] - samples.end_ns[:-1] > shortest) + 1


def kaplan_meier(
    length: FloatArray, *, cut_start: NDArray[np.bool_], cut_end: NDArray[np.bool_]
) -> FloatArray:
    """
    The share of all runs that each run of *length* (n,) stands for, adding up to 1.

    Runs with *cut_start* take no part, those with *cut_end* count as longer than seen: their share
    goes to the longer ones, or stays with the longest. All zero if every run was cut at its start.
    """
    mass = np.zeros(len(length))
    usable = np.flatnonzero(~cut_start)
    if len(usable) == 0:
        return mass
    # Of equal lengths the complete ones come first: a run cut at 5 ms is longer than 5 ms.
    order = usable[np.lexsort((cut_end[usable], length[usable]))]
    at_risk = np.arange(len(order), 0, -1)
    ends = ~cut_end[order]
    ends[-1] = True
    left = np.cumprod(1.0 - ends / at_risk)
    mass[order] = np.r_[1.0, left[:-1]] - left
    return mass


def _runs(samples: Samples) -> Runs:
    """The idle runs of all stretches."""
    stretch, length = stretch_of(samples), samples.end_ns - samples.start_ns
    empty = samples.column("gr_active") * length < IDLE * length + READING_S * 1e9
    both = _around_empty(samples, stretch, empty), _astride(samples, stretch, empty)
    start, end, where = (np.concatenate(parts) for parts in zip(*both, strict=True))
    order = np.lexsort((end, start, where))
    start, end, where = start[order], end[order], where[order]
    cut_start = start == samples.start_ns[np.searchsorted(stretch, where)]
    cut_end = end == samples.end_ns[np.searchsorted(stretch, where, "right") - 1]
    mass = kaplan_meier((end - start) / 1e9, cut_start=cut_start, cut_end=cut_end)
    return Runs(start, end, cut_start, cut_end, mass)


def _around_empty(
    samples: Samples, stretch: IntArray, empty: NDArray[np.bool_]
) -> tuple[IntArray, IntArray, IntArray]:
    """Start, end and stretch of each gap that has a sample to itself."""
    busy, length = samples.column("gr_active"), samples.end_ns - samples.start_ns
    joined = stretch[1:] == stretch[:-1]
    first = np.flatnonzero(empty & ~np.r_[False, joined & empty[:-1]])
    last = np.flatnonzero(empty & ~np.r_[joined & empty[1:], False])
    start, end = samples.start_ns[first], samples.end_ns[last]
    level = np.where(empty, 0.0, busy)
    earlier = np.r_[np.nan, np.where(joined, level[:-1], np.nan)]
    later = np.r_[np.where(joined, level[1:], np.nan), np.nan]
    inside = np.isfinite(earlier[first])
    edge = first[inside] - 1
    start[inside] -= _in_ns(_reach(busy[edge], earlier[edge]), length[edge])
    inside = np.isfinite(later[last])
    edge = last[inside] + 1
    end[inside] += _in_ns(_reach(busy[edge], later[edge]), length[edge])
    return start, end, stretch[first]


def _reach(busy: FloatArray, beyond: FloatArray) -> FloatArray:
    """
    How far gaps reach into the samples beside them, as shares of these, *busy* (m,) of their time.

    *beyond* (m,): the same of the samples next further out, 0 in another gap, NaN outside the stretch.
    """
    rest = 1.0 - busy
    # A short burst between two gaps, somewhere in the sample: half of the rest to each.
    inside = np.where(beyond == 0, rest / 2, 1.0 - busy / np.maximum(beyond, busy))
    return np.where(np.isnan(beyond), rest, inside)


def _astride(
    samples: Samples, stretch: IntArray, empty: NDArray[np.bool_]
) -> tuple[IntArray, IntArray, IntArray]:
    """Start, end and stretch of each gap that lies astride two half idle samples."""
    busy, length = samples.column("gr_active"), samples.end_ns - samples.start_ns
    pair = (busy[:-3] >= FULL) & (busy[3:] >= FULL) & (busy[1:-2] + busy[2:-1] <= 1.0)
    pair &= ~empty[1:-2] & ~empty[2:-1] & (stretch[:-3] == stretch[3:])
    first = np.flatnonzero(pair) + 1
    second = first + 1
    start = samples.end_ns[first] - _in_ns(1.0 - busy[first], length[first])
    return start, samples.start_ns[second] + _in_ns(1.0 - busy[second], length[second]), stretch[first]


def _in_ns(share: FloatArray, length: IntArray) -> IntArray:
    """The *share* of each *length* in ns, whole: shape (m,)."""
    return np.rint(share * length).astype(np.int64)
