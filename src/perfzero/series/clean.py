"""
Samples as they came, made fit to be judged; whatever is taken out is counted.

What goes wrong in practice (seen on an H200): the first sample after a start, and once a last
one, carries a start stamp of 0 or one from long ago; samples repeat when a buffer is decoded
twice; a counter that could not be scheduled reads more than 100 %. A row that cannot be placed
in time is dropped, a value that cannot be true becomes NaN, and a hole between two neighbours
of one window is counted as lost samples. Nothing is ever filled in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from perfzero.counters import BY_NAME
from perfzero.limits import CHOICE, Limit
from perfzero.values import FloatArray, IntArray, Samples, Window
from perfzero.words.said import say

HIGHEST_RATIO: Annotated[float, Limit("ratio", CHOICE)] = 1.05
"""A share of time or of a peak above this is no rounding but a broken counter (science.md, gate G0)."""

LONGEST: Annotated[float, Limit("ratio", CHOICE)] = 3.0
"""A sample longer than this many periods began before sampling did, whatever its stamp says."""


POLLED_LONGEST: Annotated[float, Limit("ratio", CHOICE)] = 100.0
"""The same for sources that are polled: a poll that came late makes a long sample, not a wrong one."""

HIGHEST_RATIO_ZOOM: Annotated[float, Limit("ratio", CHOICE)] = 1.25
"""
The same for samples of 10 µs: counters that are read while they run are off by up to a few
dozen counts at both ends, which is nothing in a millisecond and may be a tenth in 10 µs.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Cleaned:
    """
    Trustworthy samples, and what it took to get there.

    `dropped`: reason -> rows taken out. `reordered`: rows that had come too early and were put
    back in their place. `impossible`: column -> values turned into NaN.
    `lost`: samples that should lie between the others and do not. `gaps`: where, in Unix ns.
    """

    samples: Samples
    rows: int  # how many came in
    dropped: Mapping[str, int] = field(default_factory=dict)
    reordered: int = 0
    impossible: Mapping[str, int] = field(default_factory=dict)
    lost: int = 0
    gaps: tuple[tuple[int, int], ...] = ()


def clean(
    samples: Samples,
    *,
    windows: Sequence[Window] = (),
    longest: float = LONGEST,
    highest: float = HIGHEST_RATIO,
) -> Cleaned:
    """
    Put *samples* in order and take out what cannot be true.

    *windows* tell which period to expect where; outside of them, and without them, the median
    length of all samples stands in, and holes are not counted. A sample may be *longest* periods
    long, and a share of time or of a peak as high as *highest*.
    """
    rows = len(samples)
    if rows == 0:
        return Cleaned(samples, 0)
    dropped: dict[str, int] = {}

    def keep(table: Samples, good: NDArray[np.bool_], reason: str) -> Samples:
        bad = int(np.count_nonzero(~good))
        if bad == 0:
            return table
        dropped[reason] = dropped.get(reason, 0) + bad
        return table.where(good)

    table = keep(samples, samples.start_ns > 0, say("rows.no_start"))
    table = keep(table, table.end_ns > table.start_ns, say("rows.no_length"))
    if len(table):
        expected = _expected_ns(table, windows)
        table = keep(table, (table.end_ns - table.start_ns) <= longest * expected, say("rows.too_long"))
    reordered = int(np.count_nonzero(np.diff(table.start_ns) < 0))
    if reordered:
        order = np.argsort(table.start_ns, kind="stable")
        table = Samples(
            table.start_ns[order], table.end_ns[order], {k: v[order] for k, v in table.columns.items()}
        )
    table = keep(table, _distinct(table), say("rows.repeated"))
    values, impossible = _possible(table, highest=highest)
    table = table.with_columns(values)
    lost, gaps = _holes(table, windows)
    return Cleaned(table, rows, dropped, reordered, impossible, lost, gaps)


def _expected_ns(table: Samples, windows: Sequence[Window]) -> FloatArray:
    """How long each row should be, shape (n,)."""
    length = (table.end_ns - table.start_ns).astype(np.float64)
    expected = np.full(len(table), float(np.median(length)))
    for window in windows:
        if window.period_ns > 0:
            inside = (table.end_ns > window.start_ns) & (table.end_ns <= window.end_ns + window.period_ns)
            expected[inside] = window.period_ns
    return expected


def _distinct(table: Samples) -> NDArray[np.bool_]:
    """False for a row that lies mostly inside the rows before it."""
    if len(table) == 0:
        return np.ones(0, np.bool_)
    reached = np.maximum.accumulate(table.end_ns)
    before = np.r_[np.int64(0), reached[:-1]]
    overlap = before - table.start_ns
    distinct: NDArray[np.bool_] = overlap * 2 < (table.end_ns - table.start_ns)
    return distinct


def _possible(table: Samples, *, highest: float) -> tuple[dict[str, FloatArray], dict[str, int]]:
    """The columns with impossible values as NaN, and how many there were of each."""
    columns: dict[str, FloatArray] = {}
    impossible: dict[str, int] = {}
    for name, column in table.columns.items():
        counter = BY_NAME.get(name)
        bad = np.isinf(column) | (column < 0)
        # Host columns may exceed 1: they count cores.
        share = counter is not None and counter.unit == "ratio" and counter.origin != "host"
        if share:
            bad |= column > highest
        value = np.where(bad, np.nan, column)
        if share:
            value = np.minimum(value, 1.0)
        columns[name] = value
        if bad.any():
            impossible[name] = int(np.count_nonzero(bad))
    return columns, impossible


def _holes(table: Samples, windows: Sequence[Window]) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Samples that are missing between neighbours of one window, and where."""
    lost = 0
    gaps: list[tuple[int, int]] = []
    for window in windows:
        if window.period_ns <= 0:
            continue
        start, end = _inside(table, window)
        hole: IntArray = start[1:] - end[:-1]
        at = np.flatnonzero(hole * 2 > window.period_ns)
        lost += int(np.sum(np.rint(hole[at] / window.period_ns)))
        gaps += [(int(end[i]), int(start[i + 1])) for i in at]
    return lost, tuple(gaps)


def _inside(table: Samples, window: Window) -> tuple[IntArray, IntArray]:
    # A window's own stamps are the host's; its samples' may stick out by less than one period.
    first = np.searchsorted(table.start_ns, window.start_ns - window.period_ns, "left")
    last = np.searchsorted(table.start_ns, window.end_ns, "left")
    return table.start_ns[first:last], table.end_ns[first:last]
