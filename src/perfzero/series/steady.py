"""
Which part of a recording shows the program at work, and not starting up or ending.

Model: the second half of the time in which the GPU had any work, but for its last seconds, is
taken for granted. Its means over one second, channel by channel, span a band (5 % to 95 %,
widened a little). Warm-up ends with the first seconds that stay inside the band; seconds at the
end that leave it are the program's shutdown. A band, and not a level, because a healthy program
may well alternate: training and evaluation, prefill and decode. Where nothing settles, the first
30 s with work are dropped, and of a shorter recording nothing is: both are said.

This is a first cut. It has no idea of steps, and a start-up that takes more than half of the
recording is mistaken for the work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from perfzero.counters import BY_NAME
from perfzero.values import FloatArray, IntArray, Samples

BIN_NS = 1_000_000_000
"""Seconds: short against a warm-up, long against a step."""

BIN_COVERAGE = 0.2
"""A second is used if samples cover at least this share of it: PM windows come and go."""

WARM_UP_NS = 30 * BIN_NS
"""What is dropped where the data does not say (the usual advice; the fallback of spec S10)."""

RUN = 3
"""Seconds in a row that must stay inside the band before warm-up counts as over."""

FEWEST = 5
"""A stable stretch has at least this many seconds to show for it."""

BAND = 0.05
"""How far outside the reference a second may lie: in shares of time, or of the level where that is more."""

BAND_RELATIVE = 0.10

ACTIVE = 0.005
"""GR activity that counts as work: half a percent of a second is far above counter noise."""

COPYING = 200e6
"""Bytes per second over PCIe that count as work: a hundred times what launching kernels takes."""

NOTICEABLE = {"pcie_rx_bytes": 2e9, "dram_read_bytes": 2e10}
"""
Bytes per second of which a change can be felt: a thirtieth of a PCIe 5 link, and of a small GPU's memory.

Below, a rate may double and mean nothing: launching tiny kernels takes 130 MB/s of the link (H200).
"""

UNSETTLED = 0.25
"""A stretch whose halves differ by a quarter is no steady stretch, whatever its band."""

CHANNELS = ("gr_active", "tensor_active", "dram_active", "dram_read_bytes", "sm_active", "pcie_rx_bytes")

How = Literal["stable", "fallback", "short", "none"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """
    The stretch to judge, [start_ns, end_ns), and how it was found.

    `dropped_s`: seconds before it that were left out. `changed`: by how much the busiest channel
    still moved within it, as a share of its level; above `BAND_RELATIVE` it was not that steady.
    """

    start_ns: int
    end_ns: int
    dropped_s: float
    how: How
    changed: float = 0.0


def bin_means(samples: Samples, names: tuple[str, ...]) -> tuple[IntArray, FloatArray]:
    """
    Means over whole seconds: the start of each second that has samples, int64 (m,), and the means
    float64 (m, len(names)). Amounts become rates per second; a sample that spans several seconds
    counts in each by the part that lies there.
    """
    if len(samples) == 0:
        return np.empty(0, np.int64), np.empty((0, len(names)))
    samples = _cut_at_seconds(samples, names)
    second = samples.start_ns // BIN_NS
    found, index = np.unique(second, return_inverse=True)
    length = samples.duration_s
    covered = np.bincount(index, weights=length)
    means = np.full((len(found), len(names)), np.nan)
    for column, name in enumerate(names):
        values = samples.column(name)
        known = np.isfinite(values)
        time = np.bincount(index, weights=np.where(known, length, 0.0))
        amount = BY_NAME[name].kind == "total"
        what = np.where(known, values if amount else values * length, 0.0)
        summed = np.bincount(index, weights=what)
        with np.errstate(invalid="ignore", divide="ignore"):
            means[:, column] = np.where(time > 0, summed / time, np.nan)
    enough = covered >= BIN_COVERAGE
    return found[enough] * BIN_NS, means[enough]


def _cut_at_seconds(samples: Samples, names: tuple[str, ...]) -> Samples:
    """The columns *names* of *samples*, each row cut where a second begins, amounts in proportion."""
    first, last = samples.start_ns // BIN_NS, (samples.end_ns - 1) // BIN_NS
    pieces = np.maximum(last - first, 0) + 1
    row = np.repeat(np.arange(len(samples)), pieces)
    second = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = np.maximum(samples.start_ns[row], second * BIN_NS)
    end = np.minimum(samples.end_ns[row], (second + 1) * BIN_NS)
    part = (end - start) / np.maximum(samples.end_ns - samples.start_ns, 1)[row]
    return Samples(
        start,
        end,
        {n: samples.column(n)[row] * (part if BY_NAME[n].kind == "total" else 1.0) for n in names},
    )


def find_steady(always: Samples, sampled: Samples, *, start_ns: int, end_ns: int) -> Stretch:
    """
    The steady stretch of a recording that spans [start_ns, end_ns).

    *always* are samples of a source that runs all the time (GPM), *sampled* those of windows
    (PM); the first is used where it has data. It ends with the last work that was sampled: what
    comes after is the program's end, and GPM's rows of several seconds may not show it.
    """
    found = _find_steady(always, sampled, start_ns=start_ns, end_ns=end_ns)
    last_ns = _last_work_ns(sampled.between(found.start_ns, found.end_ns))
    return found if last_ns is None else replace(found, end_ns=last_ns)


def _last_work_ns(samples: Samples) -> int | None:
    """
    Where the last sample ends in which the GPU computed or copied, if it never rested as long before
    as it does after; None otherwise, for then the rest may be one of the program's own.
    """
    moved = samples.column("pcie_rx_bytes") / np.maximum(samples.duration_s, 1e-9)
    working = np.flatnonzero((samples.column("gr_active") > ACTIVE) | (moved > COPYING))
    if len(working) < 2 or len(samples) - 1 - working[-1] <= np.diff(working).max():
        return None
    return int(samples.end_ns[working[-1]])


def _find_steady(always: Samples, sampled: Samples, *, start_ns: int, end_ns: int) -> Stretch:
    table = always if always.has("gr_active") else sampled
    names = tuple(n for n in CHANNELS if table.has(n))
    at, means = bin_means(table, names)
    nothing = Stretch(start_ns, end_ns, 0.0, "none")
    if "gr_active" not in names or len(at) == 0:
        return nothing
    working = np.nan_to_num(means[:, names.index("gr_active")]) > ACTIVE
    if "pcie_rx_bytes" in names:
        working |= np.nan_to_num(means[:, names.index("pcie_rx_bytes")]) > COPYING
    busy = np.flatnonzero(working)
    if len(busy) == 0:
        return nothing
    first, last = int(busy[0]), int(busy[-1]) + 1
    at, means = at[first:last], _comparable(means[first:last], names)
    begin, end = max(start_ns, int(at[0])), min(end_ns, int(at[-1]) + BIN_NS)
    kept = _stable(means)
    changed = 0.0 if kept is None else _change(means[slice(*kept)])
    if kept is not None and changed <= UNSETTLED:
        low, high = kept
        # The second in which the work began was only partly worked in.
        begin_stable = max(start_ns, int(at[low]))
        end_stable = min(end_ns, int(at[high - 1]) + BIN_NS)
        return Stretch(begin_stable, end_stable, (begin_stable - start_ns) / 1e9, "stable", changed)
    if end - begin > WARM_UP_NS + FEWEST * BIN_NS:
        begin_late = begin + WARM_UP_NS
        late = at >= begin_late
        return Stretch(begin_late, end, (begin_late - start_ns) / 1e9, "fallback", _change(means[late]))
    return Stretch(begin, end, (begin - start_ns) / 1e9, "short", _change(means))


def _comparable(means: FloatArray, names: tuple[str, ...]) -> FloatArray:
    """*means* with rates as shares of the largest, or of what is `NOTICEABLE`: all run from 0 to 1."""
    scaled = means.copy()
    for column, name in enumerate(names):
        known = means[:, column][np.isfinite(means[:, column])]
        if BY_NAME[name].kind == "total" and len(known) and known.max() > 0:
            scaled[:, column] /= max(float(known.max()), NOTICEABLE.get(name, 0.0))
    return scaled


def _stable(means: FloatArray) -> tuple[int, int] | None:
    """First and last-plus-one row of the stable stretch of *means* (m, channels), or None."""
    rows = len(means)
    if rows < FEWEST:
        return None
    # The last seconds may be the shutdown, and must not widen the band they are held against.
    middle = slice(rows // 2, rows - RUN if rows >= 2 * FEWEST else rows)
    means = means[:, np.isfinite(means[middle]).any(axis=0)]
    reference = means[middle]
    low, high = np.nanquantile(reference, [0.05, 0.95], axis=0)
    room = np.maximum(BAND, BAND_RELATIVE * np.abs(high))
    inside = np.all(np.isnan(means) | ((means >= low - room) & (means <= high + room)), axis=1)
    last = rows
    while last > rows // 2 and not inside[last - 1]:
        last -= 1
    for first in range(last - FEWEST + 1):
        if inside[first : first + RUN].all():
            return first, last
    return None


def _change(means: FloatArray) -> float:
    """How much the mean of the second half differs from the first, at most over channels, as a share."""
    half = len(means) // 2
    if half < 2:
        return 0.0
    known = np.isfinite(means[:half]).any(axis=0) & np.isfinite(means[half:]).any(axis=0)
    if not known.any():
        return 0.0
    before, after = np.nanmean(means[:half, known], axis=0), np.nanmean(means[half:, known], axis=0)
    # A channel that hardly moves the whole may double without meaning anything.
    scale = np.maximum(np.maximum(before, after), 0.2)
    return float(np.max(np.abs(after - before) / scale))
