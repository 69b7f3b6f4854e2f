"""
When a GPU had nothing to do, from PM samples of 1 to 2 ms: gaps, placed where that can be known.

A sample without activity lies in a gap. In one that is partly idle next to such a one the gap begins or ends,
as much as it lacks of being full. Two neighbours that are partly idle between two full ones are one gap
across their border. Where in a sample a gap lies that has none beside it is not known: it is short.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from perfzero.limits import CHOICE, Limit
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, IntArray, Samples

VOID: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""GR activity below which a sample is taken to lie in a gap."""

FULL: Annotated[float, Limit("ratio", CHOICE)] = 0.97
"""GR activity from which on a sample has no part of a gap."""

TOUCH: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Of the period: samples that are nearer follow each other, for a lost one leaves a whole period."""

ACROSS: Annotated[float, Limit("ratio", CHOICE)] = 0.3
"""Of a sample, idle in two neighbours together: with less, their idle parts need not be one gap."""

JOINED_NS: Annotated[int, Limit("nanoseconds", CHOICE)] = 1000
"""Gaps that are nearer are one: stamps of samples differ by as much."""


@dataclass(frozen=True, slots=True, eq=False)
class Idle:
    """
    The GPU's idle time as a function of time: `value[i]` in [edge[i], edge[i + 1]), NaN outside of windows.

    Gaps that can be placed, row by row: `start_ns`, `end_ns`. Samples with shorter ones: `short_start_ns`,
    `short_end_ns`, `short_s` idle seconds in each.
    """

    edge: IntArray
    value: FloatArray
    start_ns: IntArray
    end_ns: IntArray
    short_start_ns: IntArray
    short_end_ns: IntArray
    short_s: FloatArray
    covered_s: float

    def at(self, time_ns: IntArray) -> FloatArray:
        """The idle share at each of *time_ns*, NaN where not sampled."""
        place = np.searchsorted(self.edge, time_ns, side="right") - 1
        inside = (place >= 0) & (place < len(self.value))
        return np.where(inside, self.value[np.clip(place, 0, len(self.value) - 1)], np.nan)


def idle_time(pm: Samples, *, start_ns: int, end_ns: int) -> Idle | None:
    """Idle time of the samples between two moments; None without any."""
    table = pm.between(start_ns, end_ns)
    table = table.where(np.isfinite(table.column("gr_active")) & (table.end_ns > table.start_ns))
    if len(table) < 2:
        return None
    start, end = table.start_ns, table.end_ns
    gr = np.clip(table.column("gr_active"), 0.0, 1.0)
    period = float(np.median(end - start))
    touches = np.abs(start[1:] - end[:-1]) <= TOUCH * period  # row i and i + 1
    before, after = np.append(False, touches), np.append(touches, False)
    left = np.where(before, np.append(1.0, gr[:-1]), np.nan)
    right = np.where(after, np.append(gr[1:], 1.0), np.nan)
    void, partial = gr < VOID, (gr >= VOID) & (gr < FULL)
    # Two neighbours that are partly idle between two full ones are one gap across their border.
    two_left = np.append(False, partial[:-1] & partial[1:] & touches)  # the right one of two
    outer = np.append(np.append(1.0, 1.0), left[1:-1])[: len(gr)]
    across = two_left & (right >= FULL) & (outer >= FULL)
    across &= (1 - gr) + (1 - np.append(1.0, gr[:-1])) >= ACROSS
    first_across = np.append(across[1:], False)
    # In which part of a partly idle sample the gap lies: at its end, at its beginning, or who knows.
    at_end = partial & ((right < VOID) | first_across)
    at_begin = partial & ((left < VOID) | across)
    both = at_end & at_begin
    short = partial & ~at_end & ~at_begin
    idle_ns = ((1 - gr) * (end - start)).astype(np.int64)
    pieces: list[tuple[int, int, float]] = []
    gaps: list[list[int]] = []

    def gap(a: int, b: int) -> None:
        if gaps and a <= gaps[-1][1] + JOINED_NS:
            gaps[-1][1] = b
        elif b > a:
            gaps.append([a, b])

    for i in range(len(gr)):
        a, b, lost = int(start[i]), int(end[i]), int(idle_ns[i])
        if pieces and a < pieces[-1][1]:
            a = pieces[-1][1]
        if b <= a:
            continue
        lost = min(lost, b - a)
        if void[i]:
            pieces.append((a, b, 1.0))
            gap(a, b)
        elif both[i]:
            half = lost // 2
            pieces += [(a, a + half, 1.0), (a + half, b - half, 0.0), (b - half, b, 1.0)]
            gap(a, a + half)
            gap(b - half, b)
        elif at_end[i]:
            pieces += [(a, b - lost, 0.0), (b - lost, b, 1.0)]
            gap(b - lost, b)
        elif at_begin[i]:
            pieces += [(a, a + lost, 1.0), (a + lost, b, 0.0)]
            gap(a, a + lost)
        else:
            pieces.append((a, b, 1 - float(gr[i])))
        if not after[i]:
            pieces.append(
                (b, b + (1 << 62) - b, math.nan) if i == len(gr) - 1 else (b, int(start[i + 1]), math.nan)
            )
    pieces = [p for p in pieces if p[1] > p[0]]
    edge = np.array([p[0] for p in pieces], np.int64)
    value = np.array([p[2] for p in pieces])
    table_of_gaps = np.array(gaps, np.int64).reshape(-1, 2)
    return Idle(
        edge=edge,
        value=value,
        start_ns=table_of_gaps[:, 0],
        end_ns=table_of_gaps[:, 1],
        short_start_ns=start[short],
        short_end_ns=end[short],
        short_s=idle_ns[short] / 1e9,
        covered_s=float(np.sum(end - start)) / 1e9,
    )


def inside(time_ns: IntArray, start_ns: IntArray, end_ns: IntArray) -> BoolArray:
    """Which of *time_ns* lie in one of these intervals, that are in order."""
    if not len(start_ns):
        return np.zeros(len(time_ns), np.bool_)
    place = np.searchsorted(start_ns, time_ns, side="right") - 1
    return (place >= 0) & (time_ns < end_ns[np.maximum(place, 0)])
