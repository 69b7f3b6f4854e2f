"""
What does not happen in every step: checkpoints, evaluations, garbage collection, logging.

Model: most steps take much the same time. An interval between two onsets that is half as long again
as the median, far beyond the spread of the others (robust z: distance from the median over 1.4826
times the median deviation), and filled with other work than usual, holds an event; a run of steps that
are as much shorter is one too (batches of an evaluation that have onsets of their own). An interval
of two or three times the median with the usual work in it is an onset that was missed, and no event.
If the extra time is mostly idle, the event is a stall, else other work.

Without onsets only stalls can be told: gaps that are far longer than the usual ones on a logarithmic
scale. Where neither steps nor usual gaps are known, there is nothing to be rare against. A program may
stand still for so long that its steps fill too little of the time to be called so; then what is left
outside of its `pauses` may show how long a step is.

Windows have holes. An event at the edge of a window is counted, but has no length. The distance
between two events is a period only if no event can lie between them: both in one stretch of samples,
or across a hole if every division of the distance into equal parts would put an event where samples
are and none is. A period is given when distances scatter little, and as many events were seen as it
foretells: within a window only short distances are seen, whatever lies between most of the events. One
distance is no period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np

from perfzero.limits import CHOICE, H200, SIMULATED, Limit
from perfzero.series.anchors import LONGEST_TABLE
from perfzero.series.gaps import Runs, find_gaps, stretches
from perfzero.series.segments import median
from perfzero.series.stats import robust_spread, shared_out
from perfzero.values import FloatArray, IntArray, Samples

LONGER: Annotated[float, Limit("ratio", CHOICE)] = 1.5
"""Half as long again as the median: what is less is a slow step, not something else in between."""

BEYOND: Annotated[float, Limit("standard deviations", CHOICE)] = 5.0
"""Robust standard deviations: of normal steps one in three million is that far off."""

SPREAD_FLOOR: Annotated[float, Limit("ratio", CHOICE)] = 0.02
"""Steps that are all alike to the nanosecond would make an event of each that is not."""

APART: Annotated[float, Limit("ratio", SIMULATED)] = 2.0
"""
An event takes at least twice as much extra time as the slowest of a hundred usual steps: what only ends a
long tail is no event. Waits of lognormal length gave false answers in 6 of 100 without it, in 2 with it.
"""

NO_USUAL: Annotated[float, Limit("ratio", CHOICE)] = 0.25
"""Steps that spread more have no usual length: 15 % of jitter is fine, batches that vary 5x are not."""

FEWEST_STEPS: Annotated[int, Limit("count", CHOICE)] = 8
"""Fewer steps have no spread to speak of."""

SHORT_RUN: Annotated[int, Limit("count", CHOICE)] = 3
"""Short steps in a row that make an event: one false onset makes two of them."""

RARE: Annotated[float, Limit("count", CHOICE)] = 3.0
"""At least so many usual steps, or gaps, for each event: else it is part of what is usual."""

ALONE: Annotated[float, Limit("count", CHOICE)] = 3.0
"""An event that is the only one of its kind lasts at least so many steps: long tails have odd ones too."""

OTHER_LEVEL: Annotated[float, Limit("ratio", CHOICE)] = 0.15
"""Levels within this share of the usual ones are the usual work: a missed onset, not an event."""

STALLED: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""An event whose extra time is idle by more than half is a stall."""

GAP_LONGER: Annotated[float, Limit("ratio", CHOICE)] = 3.0
"""Without onsets: a long gap is at least three times the median gap."""

GAP_SPREAD_FLOOR: Annotated[float, Limit("ratio", CHOICE)] = 0.15
"""Smallest spread of log lengths of gaps: edges are known to a part of a sample only."""

PAUSE_S: Annotated[float, Limit("seconds", CHOICE)] = 0.2
"""A pause: less may be a part of a step."""

BRIDGED_S: Annotated[float, Limit("seconds", CHOICE)] = 0.1
"""A hole that a pause of `PAUSE_S` goes on across, if the GPU stands still on both sides of it."""

ALIKE: Annotated[float, Limit("ratio", CHOICE)] = 2.0
"""Events whose lengths lie within a factor of two of the next are of one kind."""

REGULAR: Annotated[float, Limit("ratio", CHOICE)] = 0.35
"""A kind whose distances scatter more than this around their median has no period."""

FORETOLD: Annotated[float, Limit("ratio", H200)] = 0.25
"""
A kind with less than this share of the events that its period foretells in the time looked at has none: it
may go on for a part of the time only, but not for next to nothing. Of five stalls in 7 s of windows (a
training loop on an H200) those in one window were 26 ms apart, which would foretell 270.
"""

DIVISIONS = 32
"""Into so many equal parts a distance across a hole is divided to see whether an event may hide there."""

TOLERANCE: Annotated[float, Limit("ratio", CHOICE)] = 0.1
"""An event may come this much of a period earlier or later than foretold."""

CHANNELS = ("gr_active", "sm_active", "tensor_active", "dram_write_bytes", "dram_read_bytes", "launches")

Nature = Literal["stall", "other work"]


@dataclass(frozen=True, slots=True, eq=False)
class RareEvent:
    """
    One kind of rare event.

    `starts_ns`, `ends_ns`: the steps, or gaps, that hold the events, int64 (count,). `cut`: how many of
    them a window's edge cut. `share`: their extra time, as a share of the time looked at. `length_s`:
    median extra time of the whole ones, NaN if none. `longest_s`: the longest seen, cut or not.
    `period_s`, `period_steps`: median distance of two in seconds and in usual steps, None if it cannot be
    known or is no period, as with one distance; `spread`: by how much the distances scatter, relative, NaN
    with one.
    """

    nature: Nature
    starts_ns: IntArray
    ends_ns: IntArray
    cut: int
    share: float
    length_s: float
    longest_s: float
    period_s: float | None
    period_steps: float | None
    spread: float

    @property
    def count(self) -> int:
        """How many were seen, whole or not."""
        return len(self.starts_ns)


@dataclass(frozen=True, slots=True)
class _Event:
    start_ns: int
    end_ns: int
    extra_s: float
    cut: bool
    nature: Nature
    steps_before: float  # usual steps since the beginning, over all stretches; NaN without onsets
    stretch: int


def rare_events(
    samples: Samples, starts_ns: IntArray | None = None, step_s: float | None = None
) -> tuple[RareEvent, ...]:
    """
    The kinds of rare events in *samples* of the steady stretch, the largest share of time first.

    *starts_ns*: onsets of steps; without them *step_s* helps to tell rare gaps from those of each step.
    """
    by_onsets = starts_ns is not None and len(starts_ns) > FEWEST_STEPS
    seen = np.isfinite(samples.column("gr_active"))
    if by_onsets:
        # Onsets were not looked for in later ones: no event could be found there, but the time would count.
        seen[LONGEST_TABLE:] = False
    samples = samples.where(seen)
    if len(samples) == 0:
        return ()
    shortest_alone_s = 0.0
    if starts_ns is not None and by_onsets:
        found, parts = _in_steps(samples, starts_ns)
        shortest_alone_s = ALONE * float(np.median(np.diff(starts_ns))) / 1e9
    else:
        found, parts = _in_gaps(samples, step_s)
    seconds = float(np.sum(samples.duration_s))
    kinds = [
        _describe(kind, parts, seconds)
        for kind in _kinds(found)
        if len(kind) > 1 or kind[0].extra_s >= shortest_alone_s
    ]
    return tuple(sorted(kinds, key=lambda kind: -kind.share))


def pauses(samples: Samples) -> tuple[IntArray, IntArray]:
    """When the GPU was seen to stand still for `PAUSE_S` or longer: starts and ends in ns, each (n,)."""
    samples = samples.where(np.isfinite(samples.column("gr_active")))
    gaps = find_gaps(samples)
    if gaps is None or len(gaps.idle) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    idle = gaps.idle
    # Samples that were lost cut a pause into pieces, none of them long enough.
    rows_between = np.searchsorted(samples.start_ns, idle.start_ns[1:]) - np.searchsorted(
        samples.start_ns, idle.end_ns[:-1]
    )
    goes_on = idle.cut_end[:-1] & idle.cut_start[1:] & (rows_between == 0)
    goes_on &= idle.start_ns[1:] - idle.end_ns[:-1] <= BRIDGED_S * 1e9
    start, end = idle.start_ns[np.r_[True, ~goes_on]], idle.end_ns[np.r_[~goes_on, True]]
    long = end - start >= PAUSE_S * 1e9
    return start[long], end[long]


def outside(samples: Samples, starts_ns: IntArray, ends_ns: IntArray) -> Samples:
    """The rows of *samples* that none of the intervals [start, end) touches, which may overlap."""
    begun = np.searchsorted(np.sort(starts_ns), samples.end_ns, "left")
    ended = np.searchsorted(np.sort(ends_ns), samples.start_ns, "right")
    return samples.where(begun == ended)


def stalls_in(event: RareEvent, samples: Samples) -> tuple[IntArray, IntArray]:
    """
    Where a kind of stall that averages showed lies, starts and ends, as *samples* in windows show it.

    Edges become sharp, and stalls come in that averages blurred; what lies between windows stays. A window's
    edge may cut one stall into several of these, so they are not for counting.
    """
    gaps = find_gaps(samples)
    if gaps is None:
        return event.starts_ns, event.ends_ns
    idle = gaps.idle
    cut = idle.cut_start | idle.cut_end
    alike = idle.length_s >= np.where(cut, PAUSE_S, event.length_s / ALIKE)
    start, end = idle.start_ns[alike], idle.end_ns[alike]
    shown = (event.starts_ns[:, None] < end) & (event.ends_ns[:, None] > start)
    stays = ~shown.any(axis=1)
    return np.concatenate((event.starts_ns[stays], start)), np.concatenate((event.ends_ns[stays], end))


def _in_steps(samples: Samples, starts_ns: IntArray) -> tuple[list[_Event], IntArray]:
    """The events between onsets, and the stretches [start, end) they were looked for in, (parts, 2)."""
    usual_s = float(np.median(np.diff(starts_ns))) / 1e9
    # A lost sample does not part two steps; a hole of half a step might hide an onset.
    parts = _parts(samples, hole_s=usual_s / 2)
    begin: list[int] = []
    end: list[int] = []
    cut: list[bool] = []
    stretch: list[int] = []
    low = np.searchsorted(starts_ns, parts[:, 0], "right").tolist()
    high = np.searchsorted(starts_ns, parts[:, 1], "left").tolist()
    for place, (first, last) in enumerate(parts.tolist()):
        edges = [first, *starts_ns[low[place] : high[place]].tolist(), last]
        begin += edges[:-1]
        end += edges[1:]
        cut += [True, *[False] * (len(edges) - 3), True] if len(edges) > 2 else [True]
        stretch += [place] * (len(edges) - 1)
    intervals = np.array([begin, end], np.int64)
    length = (intervals[1] - intervals[0]) / 1e9
    whole = ~np.array(cut)
    if np.count_nonzero(whole) < FEWEST_STEPS:
        return [], parts
    middle = float(np.median(length[whole]))
    spread = robust_spread(length[whole])
    # If each fourth step is a long one, that is usual, however little the others spread.
    often_long = float(np.quantile(length[whole], 1 - 1 / (1 + RARE))) >= LONGER * middle
    if spread > NO_USUAL * middle or often_long:
        return [], parts
    long = length >= max(LONGER, 1.0 + BEYOND * max(spread / middle, SPREAD_FLOOR)) * middle
    # An evaluation has many short steps, which must not widen the spread they are held against.
    near = length[whole & (length > middle / LONGER) & (length < LONGER * middle)]
    usual_spread = max(robust_spread(near), SPREAD_FLOOR * middle)
    short = whole & (length <= min(middle / LONGER, float(np.median(near)) - BEYOND * usual_spread))
    levels = _levels(samples, intervals)
    slowest = float(np.quantile(length[whole & ~long], 0.99))
    long &= length >= middle + APART * (slowest - middle)
    usual = median(levels[whole & ~long & ~short])
    different = _different(levels, usual)
    long &= different
    # Between short steps with other work, a missed onset makes one of usual length.
    between = np.r_[False, short[:-2] & short[2:], False] if len(short) > 2 else np.zeros_like(short)
    short |= between & whole & ~long & different
    idle_s = (1.0 - levels[:, 0]) * length - (1.0 - usual[0]) * middle

    # An interval of twice the median with the usual work is two steps.
    steps = np.where(short, 0.0, np.where(long, 1.0, np.maximum(np.rint(length / middle), 1.0)))
    steps = np.where(whole | long, steps, length / middle)
    before = np.cumsum(steps) - steps
    events: list[_Event] = []
    for row in np.flatnonzero(long):
        extra = float(length[row]) - middle
        nature: Nature = "stall" if idle_s[row] >= STALLED * extra else "other work"
        # fmt: off
        events.append(_Event(
            begin[row], end[row], extra, bool(cut[row]), nature, float(before[row]), stretch[row]
        ))
        # fmt: on
    for first, last in _runs_of(short, stretch):
        extra = float(np.sum(length[first:last]))
        # fmt: off
        events.append(_Event(
            begin[first], end[last - 1], extra, bool(cut[max(first - 1, 0)] or cut[min(last, len(cut) - 1)]),
            "other work", float(before[first]), stretch[first],
        ))
        # fmt: on
    # Else the other steps are the usual ones.
    if RARE * len(events) > np.count_nonzero(whole & ~long & ~short):
        return [], parts
    return sorted(events, key=lambda event: event.start_ns), parts


def _parts(samples: Samples, *, hole_s: float = 0.0) -> IntArray:
    """Start and end of each stretch of *samples* (at least one), shape (parts, 2)."""
    first, last = np.array(stretches(samples, hole_s=hole_s)).T
    return np.column_stack([samples.start_ns[first], samples.end_ns[last - 1]])


def _levels(samples: Samples, intervals: IntArray) -> FloatArray:
    """Means of `CHANNELS` over *intervals* (2, m), amounts per second: shape (m, channels)."""
    edges, place = np.unique(intervals, return_inverse=True)
    place = place.reshape(intervals.shape)[0]
    time = samples.duration_s
    out = np.full((intervals.shape[1], len(CHANNELS)), np.nan)
    for column, name in enumerate(CHANNELS):
        values = samples.column(name)
        amount = values if name.endswith("bytes") or name == "launches" else values * time
        known = np.where(np.isfinite(values), time, 0.0)
        summed, seen = shared_out(samples, np.column_stack([amount, known]), edges_ns=edges)[place].T
        np.divide(summed, seen, out=out[:, column], where=seen > 0)
    return out


def _different(levels: FloatArray, usual: FloatArray) -> FloatArray:
    """Which rows of *levels* (m, channels) show other work than *usual* (channels,): bool (m,)."""
    # A share of time that is next to nothing may double and mean nothing.
    scale = np.where([name.endswith("active") for name in CHANNELS], np.maximum(usual, 0.1), usual)
    off = np.abs(levels - usual) > OTHER_LEVEL * scale
    return np.asarray((off & (scale > 0)).any(axis=1))


def _runs_of(which: FloatArray, stretch: Sequence[int]) -> list[tuple[int, int]]:
    """First and last-plus-one row of each run of at least `SHORT_RUN` true rows within one stretch."""
    runs: list[tuple[int, int]] = []
    for row in np.flatnonzero(which).tolist():
        if runs and runs[-1][1] == row and stretch[row] == stretch[row - 1]:
            runs[-1] = (runs[-1][0], row + 1)
        else:
            runs.append((row, row + 1))
    return [(first, last) for first, last in runs if last - first >= SHORT_RUN]


def _in_gaps(samples: Samples, step_s: float | None) -> tuple[list[_Event], IntArray]:
    """The stalls among the gaps, where onsets are not known, and the stretches [start, end), (parts, 2)."""
    parts = _parts(samples)
    gaps = find_gaps(samples)
    if gaps is None or len(gaps.idle) == 0:
        return [], parts
    length = gaps.idle.length_s
    cut = gaps.idle.cut_start | gaps.idle.cut_end
    usual = length[~cut]
    middle = float(np.median(usual)) if len(usual) else float("nan")
    if step_s is not None:
        long = length >= 0.5 * step_s
        if np.count_nonzero(~long & ~cut) >= FEWEST_STEPS:
            long &= length >= GAP_LONGER * middle
        # The time of the long ones themselves holds no usual step.
        often = (gaps.seconds - float(np.sum(length[long]))) / step_s
    else:
        if len(usual) < FEWEST_STEPS:
            return [], parts
        logs = np.log(np.maximum(length, 1e-9))
        spread = robust_spread(logs[~cut])
        far = BEYOND * max(spread, GAP_SPREAD_FLOOR)
        long = (length >= GAP_LONGER * middle) & (logs - np.log(middle) >= far)
        often = float(np.count_nonzero(~long & ~cut))
    if RARE * np.count_nonzero(long) > often:
        return [], parts
    return _stalls(gaps.idle, np.flatnonzero(long), parts), parts


def _stalls(idle: Runs, rows: IntArray, parts: IntArray) -> list[_Event]:
    """The gaps *rows* of *idle* as events."""
    stretch = np.searchsorted(parts[:, 1], idle.end_ns)
    cut = idle.cut_start | idle.cut_end
    length = idle.length_s
    return [
        _Event(
            int(idle.start_ns[row]), int(idle.end_ns[row]), float(length[row]), bool(cut[row]), "stall",
            float("nan"), int(stretch[row]),
        )
        for row in rows
    ]  # fmt: skip


def _kinds(events: Sequence[_Event]) -> list[list[_Event]]:
    """Events of one nature and about one length; those that were cut go with the next longer ones."""
    kinds: list[list[_Event]] = []
    for nature in ("stall", "other work"):
        own = [event for event in events if event.nature == nature]
        groups: list[list[_Event]] = []
        for event in sorted((e for e in own if not e.cut), key=lambda e: e.extra_s):
            if groups and event.extra_s <= ALIKE * groups[-1][-1].extra_s:
                groups[-1].append(event)
            else:
                groups.append([event])
        cut = [event for event in own if event.cut]
        if cut and not groups:
            groups.append([])
        limits = [max((e.extra_s for e in group), default=0.0) for group in groups]
        for event in cut:
            longer = [place for place, limit in enumerate(limits) if limit >= event.extra_s]
            groups[longer[0] if longer else -1].append(event)
        kinds += [sorted(group, key=lambda e: e.start_ns) for group in groups]
    return kinds


def _describe(kind: Sequence[_Event], parts: IntArray, seconds: float) -> RareEvent:
    whole = [event.extra_s for event in kind if not event.cut]
    distance: list[float] = []
    steps: list[float] = []
    for first, second in pairwise(kind):
        # When an event began that was there before its window, nobody knows.
        if first.stretch == second.stretch and not first.cut:
            distance.append((second.start_ns - first.start_ns) / 1e9)
            steps.append(second.steps_before - first.steps_before)
        elif not (first.cut or second.cut) and _nothing_between(first, second, parts):
            distance.append((second.start_ns - first.start_ns) / 1e9)
    period, spread = _middle(distance)
    in_steps, _ = _middle([s for s in steps if s > 0])
    # Of one distance nothing tells whether it comes again: its spread is NaN.
    regular = spread <= REGULAR and period is not None and len(kind) * period >= FORETOLD * seconds
    return RareEvent(
        nature=kind[0].nature,
        starts_ns=np.array([event.start_ns for event in kind], np.int64),
        ends_ns=np.array([event.end_ns for event in kind], np.int64),
        cut=sum(event.cut for event in kind),
        share=float(sum(event.extra_s for event in kind)) / seconds,
        length_s=float(np.median(whole)) if whole else float("nan"),
        longest_s=max(event.extra_s for event in kind),
        period_s=period if regular else None,
        period_steps=in_steps if regular else None,
        spread=spread,
    )


def _middle(distances: Sequence[float]) -> tuple[float | None, float]:
    """Median of *distances*, and their relative robust spread (NaN for fewer than two)."""
    if not distances:
        return None, float("nan")
    middle = float(np.median(distances))
    if len(distances) < 2:
        return middle, float("nan")
    return middle, robust_spread(np.array(distances)) / middle


def _nothing_between(first: _Event, second: _Event, parts: IntArray) -> bool:
    """Whether an event in the holes between two would have shown itself elsewhere, if there is a period."""
    pieces = np.arange(2, DIVISIONS + 1)[:, None]
    period = (second.start_ns - first.start_ns) / pieces
    number = np.arange(1, DIVISIONS)
    at, tolerance = first.start_ns + period * number, TOLERANCE * period
    # The first event is in one of the parts: one begins before whatever comes after it.
    part = np.searchsorted(parts[:, 0], at - tolerance, "right") - 1
    seen = (at + tolerance < parts[part, 1]) & (number < pieces)
    # A period shorter than the event is none.
    return bool((seen.any(axis=1) | (period[:, 0] < first.end_ns - first.start_ns)).all())
