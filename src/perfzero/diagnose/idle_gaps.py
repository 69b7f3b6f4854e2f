"""
The gaps of the time class `idle`, one by one, for whoever draws them.

What is judged is a share: of each sample the part without a kernel, less what a copy engine did meanwhile
(`diagnose.split`). Here each sample's part is laid into the sample: at the side of the emptier neighbour,
else at the sample's begin. Parts that touch are one gap. So the sum of all gaps over the time looked at is
the class's share, to the nanosecond.

Samples that are idle for less than `TRIFLE` of their length hand that on to the next ones of their kind until
it makes a `TRIFLE` of a sample: a busy GPU has hundreds of thousands of them, which nobody could see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from perfzero.diagnose.roofs import roofs_of
from perfzero.diagnose.split import AT, classify, rates_of
from perfzero.diagnose.verdict import Diagnosis
from perfzero.limits import CHOICE, Limit
from perfzero.series.clean import POLLED_LONGEST, clean
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, IntArray, Observation, Samples

TRIFLE: Annotated[float, Limit("ratio", CHOICE)] = 0.02
"""Of a sample: 20 µs in one of 1 ms, which is as long as a kernel launch takes."""

EMPTY: Annotated[float, Limit("ratio", CHOICE)] = 0.95
"""A neighbour that is idle for so much of its time says on which side of a sample its idle part lies."""

TOUCH_NS: Annotated[int, Limit("nanoseconds", CHOICE)] = 2_000
"""Stamps of neighbours differ by so much."""


@dataclass(frozen=True, slots=True, eq=False)
class IdleGaps:
    """
    Gaps in the order of time, arrays of shape (n,), none of which begins before the one before it ends.

    `placed`: whether a neighbour says where in its sample the gap lies. `judged_ns`: the time looked at, of
    which `length_ns` together is the share of the class `idle`.
    """

    start_ns: IntArray
    length_ns: IntArray
    placed: BoolArray
    judged_ns: int

    def __len__(self) -> int:
        return len(self.start_ns)


def idle_gaps(seen: Observation, diagnosis: Diagnosis) -> IdleGaps | None:
    """The gaps in what *diagnosis* judged of *seen*; None where it could not share out the time."""
    if not diagnosis.shares:
        return None
    steady = diagnosis.steady
    board = seen.board.between(steady.start_ns, steady.end_ns)
    if diagnosis.tier == "pm":
        table = clean(seen.pm, windows=[w for w in seen.windows if w.kind != "zoom"]).samples
    else:
        table = clean(seen.gpm, longest=POLLED_LONGEST).samples
    table = table.between(steady.start_ns, steady.end_ns)
    table = table.where(np.isfinite(table.column("gr_active")))
    rates = rates_of(table, roofs_of(seen.gpu, board if len(board) else seen.board))
    return _gaps(table, classify(rates)[:, AT["idle"]])


def _gaps(table: Samples, share: FloatArray) -> IdleGaps:
    """The gaps of samples that are idle for *share* (n,) of their time."""
    start_ns, end_ns = table.start_ns, table.end_ns
    length_ns = end_ns - start_ns
    judged_ns = int(length_ns.sum())
    idle_ns = _without_trifles(share * length_ns, length_ns)
    touches = np.abs(start_ns[1:] - end_ns[:-1]) <= np.minimum(length_ns[1:], length_ns[:-1]) / 2
    left = np.append(0.0, np.where(touches, share[:-1], 0.0))[: len(share)]
    right = np.append(np.where(touches, share[1:], 0.0), 0.0)[: len(share)]
    at_end = right > left
    begin_ns = np.where(at_end, end_ns - idle_ns, start_ns)
    placed = (share >= EMPTY) | (np.fmax(left, right) >= EMPTY)
    keep = idle_ns > 0
    begin_ns, idle_ns, placed = begin_ns[keep], idle_ns[keep], placed[keep]
    if not len(begin_ns):
        return IdleGaps(begin_ns, idle_ns, placed, judged_ns)
    first = np.flatnonzero(np.append(True, np.abs(begin_ns[1:] - (begin_ns + idle_ns)[:-1]) > TOUCH_NS))
    lengths = np.add.reduceat(idle_ns, first)
    starts = begin_ns[first]
    # Stamps overlap by microseconds: then a gap begins where the one before it ends.
    ends = np.maximum.accumulate(starts - np.append(0, np.cumsum(lengths)[:-1])) + np.cumsum(lengths)
    return IdleGaps(ends - lengths, lengths, np.logical_and.reduceat(placed, first), judged_ns)


def _without_trifles(idle: FloatArray, length_ns: IntArray) -> IntArray:
    """*idle* ns of samples in whole ns with the same sum, trifles put together."""
    trifling = idle < TRIFLE * length_ns
    result = np.zeros(len(idle), np.int64)
    result[~trifling] = np.diff(np.rint(np.cumsum(idle[~trifling])).astype(np.int64), prepend=0)
    if trifling.any():
        unit = max(1.0, TRIFLE * float(np.median(length_ns)))
        sums = np.cumsum(idle[trifling])
        reached = np.floor(sums / unit) * unit
        reached[-1] = sums[-1]
        result[trifling] = np.diff(np.rint(reached).astype(np.int64), prepend=0)
    return result
