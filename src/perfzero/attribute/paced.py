"""
What the host does in a gap before it waits for others: without it, that would only be waited for longer.

A DataLoader whose workers have a batch every 40 ms, a line of 35 ms, and a GPU that is busy for 30 of 40 ms:

    host   launches | computes, 35 ms                   | waits for a batch, 2 ms | launches
    GPU    busy for 30 ms after the launch | idle, 10 ms                          | busy

Eight of the ten idle ms lie in the line that computes, and nothing is gained without it: the batch comes when
it comes. So where such a wait follows in the gap, the line has none of it. The wait has no more than its own
2 ms, for without it the host would have the line to do all the same.

A wait of 2 ms is seen in four gaps of ten only. That it was there in the others is told by how often it was
seen where it was: a wait that takes a moments on average is seen at all with the chance 1 - exp(-a), and
a / (1 - exp(-a)) times if it is. And where the line takes longer now and then, the wait is shorter or none,
though the batches set the pace all the same: they are made ahead, and the next wait makes up for it. So a
wait that is there in `PACED` of the gaps is taken to set the pace in all of them, and one in `RARE` or less
in none: what is rare and long holds up its own gap, and the line the others. Between the two it sets the pace
in as many as lies in proportion.
"""

from __future__ import annotations

import numpy as np

from perfzero.attribute.idle import Idle
from perfzero.attribute.moments import Moments
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, IntArray

RARE = 0.1
PACED = 0.3
"""
Of a line that varies by a tenth, and leaves 2 of 50 ms for the wait, that is taken to follow in 0.35 to 0.47
of the gaps, and in half or more where it leaves more of them (simulated).
"""

_TAKES = np.concatenate([np.linspace(1e-3, 10.0, 1000), [1e6]])
"""Moments that a wait takes on average; of more than ten none is missed."""


def waited_after(moments: Moments, idle: Idle, others: BoolArray) -> tuple[IntArray, IntArray, BoolArray]:
    """
    Of each leaf that was seen in a gap: the gap, the leaf, and whether a wait for *others* followed there.

    One row for each gap and leaf; waits for others have none.
    """
    leaves = len(others)
    gap = _gap_of(moments, idle)
    waits = (gap >= 0) & others[moments.leaf]
    seen = waits & moments.sure
    last = np.full(len(idle.start_ns), -1, np.int64)
    np.maximum.at(last, gap[seen], np.flatnonzero(seen))
    rows = np.flatnonzero((gap >= 0) & ~waits)
    pairs, first = np.unique(gap[rows] * leaves + moments.leaf[rows], return_index=True)
    return pairs // leaves, pairs % leaves, rows[first] < last[pairs // leaves]


def waited(moments: Moments, idle: Idle, others: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Of each gap the moments in waits for *others*, and whether one was seen there."""
    gap, gaps = _gap_of(moments, idle), len(idle.start_ns)
    waits = (gap >= 0) & others[moments.leaf]
    length = np.bincount(gap[waits], moments.weight[waits], gaps)
    return np.asarray(length, np.float64), np.bincount(gap[waits & moments.sure], minlength=gaps) > 0


def _gap_of(moments: Moments, idle: Idle) -> IntArray:
    if not len(idle.start_ns):
        return np.full(len(moments.time_ns), -1, np.int64)
    gap = np.searchsorted(idle.start_ns, moments.time_ns, side="right") - 1
    return np.asarray(np.where(moments.time_ns < idle.end_ns[np.maximum(gap, 0)], gap, -1), np.int64)


def paced(followed: FloatArray, *, moments: float, times: float) -> FloatArray:
    """
    In which share of its gaps each leaf would only make a wait longer.

    The wait was seen in the share *followed* of them, and *times* in all, in *moments* moments.
    """
    there = followed / _seen_at_all(moments / times) if times > 0 else followed
    return np.asarray(np.clip((there - RARE) / (PACED - RARE), 0.0, 1.0), np.float64)


def _seen_at_all(moments: float) -> float:
    """The chance that a wait is seen that has so many *moments* on average where it is."""
    each: FloatArray = _TAKES / -np.expm1(-_TAKES)
    return float(-np.expm1(-np.interp(moments, each, _TAKES)))
