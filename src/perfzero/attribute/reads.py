"""
Lines that read small results between launches: of each step the first read waits long, the others hardly.

    host   launches ahead | reads, waits ...... | launches, reads, launches, reads, ...
    GPU    busy ................................ | kernel, idle, kernel, idle, ...
                                                 the queue is empty from here on

The first read of a step ends when the GPU has done all that it was given. From then on it is idle most of
the time in that line as well, for each further read waits for a kernel of microseconds. So over all visits
such a line is as idle as any other in its loop, and what tells is the visits that *begin* while the GPU is
at work:

- They end when the GPU's work does, as those of any wait (`ENDED` of `attribute.leaves`).
- Nowhere else in that call is the host while the GPU works. A line that only launches comes with a busy GPU
  as often as those that it takes turns with: when the host is behind it is so at any of them. So it is held
  against the lines at which the host is seen next, in the innermost call that has most of these (`OFTENER`).
- The GPU hardly stands still there for whole samples, or not more than elsewhere: launches go on between
  reads (`STILL`). In a line that computes, and in which the GPU runs dry, nothing is launched.

Which line that *may* wait (`attribute.waits`) reads of the first that is reached nothing more is known, nor
of those that come after it with the queue empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from perfzero.attribute.host_activity import Meaning
from perfzero.attribute.idle import FULL, Idle, inside
from perfzero.attribute.moments import Moments
from perfzero.limits import CHOICE, H200_LOOKS, Limit
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, IntArray

OFTENER: Annotated[float, Limit("ratio", H200_LOOKS)] = 2.0
"""
So many times as often the GPU is at work throughout in a line that reads as in those that follow it. It was
2.3 and 30 times in two programs on an H200 whose lines are known to wait, and 0.4 to 1.1 times in lines
beside these, which launch (2026-11-30).
"""

STILL: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.1
"""
Of the time in a line that reads, the GPU stands still for less, where it does elsewhere at all for less: for
0.02 and 0.05 of it in those programs, and for 0.41 to 0.77 in lines of Python that compute in six others.
"""

SAME_CALL: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Of the lines that follow a line, in the call within which it is held against them, the innermost such."""


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """
    Visits to places, row by row: the place `at` which the host is until it is seen at the leaf `following`.

    How idle the GPU is: as the visit `began`, and at most by the time it is over (`dry`).
    """

    at: IntArray
    began: FloatArray
    dry: FloatArray
    following: IntArray


def reads(
    leaves: Sequence[Meaning],
    moments: Moments,
    idle: Idle,
    *,
    place: IntArray,
    visits: Visits,
    fewest: float,
) -> BoolArray:
    """
    At which *leaves* the host stays while the GPU works off what it has, and nowhere else in that call.

    *place*: leaf -> place, to which are *visits*. At least *fewest* that begin with a busy GPU are asked for.
    """
    n = len(leaves)
    value = idle.at(moments.time_ns)
    there = np.bincount(moments.leaf, moments.weight, n)
    works = np.bincount(moments.leaf, moments.weight * (value <= 1 - FULL), n)
    gap = inside(moments.time_ns, idle.start_ns, idle.end_ns)
    still = np.bincount(moments.leaf, moments.weight * gap, n)
    often = works / np.maximum(there, 1e-9)
    elsewhere = (still.sum() - still) / np.maximum(there.sum() - there, 1e-9)
    found = np.zeros(n, np.bool_)
    for k in range(n):
        mine = (visits.at == place[k]) & (visits.began <= 1 - FULL)
        if np.count_nonzero(mine) < fewest or still[k] > max(STILL, elsewhere[k]) * there[k]:
            continue
        others = _beside(leaves, k, visits.following[mine])
        found[k] = bool(len(others)) and bool(often[k] >= OFTENER * often[others].mean())
    return found


def _beside(leaves: Sequence[Meaning], k: int, following: IntArray) -> IntArray:
    """Those of *following* that are below the innermost call around leaf *k* with most of them."""
    path = leaves[k].path
    for depth in range(len(path) - 1, 0, -1):
        below = np.array([leaves[i].path[:depth] == path[:depth] for i in following.tolist()], np.bool_)
        if below.sum() > SAME_CALL * len(following):
            return following[below]
    return following[:0]
