"""
What the host does in a gap before it waits for others: without it, that would only be waited for longer.

A DataLoader whose workers have a batch every 40 ms, a line of 35 ms, and a GPU that is busy for 30 of 40 ms:

    host   launches | computes, 35 ms                   | waits for a batch, 2 ms | launches
    GPU    busy for 30 ms after the launch | idle, 10 ms                          | busy

Eight of the ten idle ms lie in the line that computes, and nothing is gained without it: the batch comes when
it comes. So where such a wait follows in the gap, the line has none of it. The wait has no more than its own
2 ms, for without it the host would have the line to do all the same.

The wait need not be seen in each gap: one of 2 ms is seen two times in five. And where the line takes longer
now and then, the wait is shorter or none, though the batches set the pace all the same: they are made ahead,
and the next wait makes up for it. So a wait that is seen in `PACED` of the gaps is taken to set the pace in
all of them, and one in `RARE` or less in none: what is rare and long holds up its own gap, and the line the
others. Nor does a wait that takes `LITTLE` or less of the gaps: to take a batch that is ready takes time as
well. Between these it sets the pace in as many as lies in proportion.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from perfzero.attribute.idle import Idle
from perfzero.attribute.moments import Moments
from perfzero.limits import SIMULATED, Limit
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, IntArray

RARE: Annotated[float, Limit("ratio", SIMULATED)] = 0.1
"""Of the gaps of a line: waits that follow it in fewer hold up none but their own."""

PACED: Annotated[float, Limit("ratio", SIMULATED)] = 0.22
"""
Of the gaps of a line: waits that follow it in so many set the pace in all. Those that are left 2 of 33 to
50 ms by a line that varies by a tenth are seen in 0.24 to 0.39 of them.
"""

LITTLE: Annotated[float, Limit("ratio", SIMULATED)] = 0.12
"""
Of the time in gaps: waits for others with less set no pace, for to take a batch that is ready takes time
as well.
"""

MUCH: Annotated[float, Limit("ratio", SIMULATED)] = 0.2
"""
Of the time in gaps: waits for others with more set the pace. Those above have 0.22 to 0.46 of it; to take a
batch takes some 0.1 to 1 ms.
"""


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


def _gap_of(moments: Moments, idle: Idle) -> IntArray:
    if not len(idle.start_ns):
        return np.full(len(moments.time_ns), -1, np.int64)
    gap = np.searchsorted(idle.start_ns, moments.time_ns, side="right") - 1
    return np.asarray(np.where(moments.time_ns < idle.end_ns[np.maximum(gap, 0)], gap, -1), np.int64)


def paced(followed: FloatArray, *, waiting: float) -> FloatArray:
    """
    In which share of its gaps each leaf would only make a wait longer.

    The wait was seen in the share *followed* of them; all waits have *waiting* of the time in gaps.
    """
    often = np.clip((followed - RARE) / (PACED - RARE), 0.0, 1.0)
    return np.asarray(often * np.clip((waiting - LITTLE) / (MUCH - LITTLE), 0.0, 1.0), np.float64)
