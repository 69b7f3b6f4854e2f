"""
Anchors: what happens once in every step, and when it begins.

Model: a step leaves marks in the counters: the optimizer writes device memory while the tensor
pipes rest, a batch arrives over PCIe, gradients leave over NVLink, the host makes the GPU wait,
kernels are launched in a burst. Each mark is a pulse, up or down, of some channel. A pulse is
what lies above a threshold between two modes of the channel's values (Otsu, 1979), taken with
hysteresis; its onset is placed inside a sample by how much of the sample is already high. A
*train* is one choice of channel, direction, threshold and kind of pulse (all of them, only the
wide ones, only those after a long rest), and many are tried: which one is the step is for
`perfzero.series.steps` to judge, from the regularity of the intervals (science.md §2.4).

Samples are put on an even grid for each stretch; a lost sample is NaN there and never filled in, and so is
one that lost its launches alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from perfzero.counters import BY_NAME
from perfzero.limits import CHOICE, H200, SIMULATED, Limit
from perfzero.series.quantiles import median
from perfzero.values import FloatArray, IntArray, Samples

BoolArray = NDArray[np.bool_]

CHANNELS = (
    "gr_active",
    "sm_active",
    "tensor_active",
    "dram_read_bytes",
    "dram_write_bytes",
    "pcie_rx_bytes",
    "pcie_tx_bytes",
    "launches",
    "ce_active",
    "nvlink_rx_bytes",
    "nvlink_tx_bytes",
)
"""Channels in which steps leave marks."""

ADDS_WORK = ("dram_read_bytes", "dram_write_bytes", "launches", "nvlink_rx_bytes", "nvlink_tx_bytes")
"""Channels whose bursts are work of the step's own: an optimizer, an exchange of gradients."""

HOLE: Annotated[float, Limit("ratio", CHOICE)] = 25.0
"""
So many sample lengths between two starts end a stretch.

Within one, an onset that fell into a hole is placed in its middle, and a pulse that was lost makes
an interval of two steps, which is left out.
"""

LONGEST_TABLE = 1 << 20
"""
Samples looked at per table, the first of them: a bound for the memory, 17 minutes at 1 ms.

Searching 300,000 samples takes 1.3 s. What counts by onsets has to end where the search for them did.
"""

FLAT: Annotated[float, Limit("ratio", H200)] = 0.10
"""
A channel whose values span less than this share of their top carries no marks.

Steps shorter than a sample leave a ripple that beats with the sampling: a bf16 product of 1.66 ms
sampled every 2 ms shows 3 % of ripple with a period of 10 ms (H200).
"""

FEW = 8
"""Samples that may lie beyond the top and the bottom of a channel: steps are more often than that."""

BAND: Annotated[float, Limit("ratio", CHOICE)] = 0.2
"""Half of the hysteresis, as a share of the distance between the two modes."""

APART: Annotated[float, Limit("standard deviations", CHOICE)] = 4.0
"""Modes nearer than so many standard deviations of the noise are told apart only after smoothing."""

TWO_LEVELS: Annotated[float, Limit("ratio", SIMULATED)] = 10.0
"""
Modes so many times as far apart as values scatter around each are levels, however often they change.

Between neighbours, steps of five samples change as much as noise does. What sampling makes of steps of a few
samples or less has no levels and reaches 8 (simulated); copies and products in turns of 5.3 samples have 24
and more (H200).
"""

MISSED: Annotated[float, Limit("ratio", CHOICE)] = 0.1
"""A sample with less than this of the launches of both its neighbours has lost them, if the SMs worked on."""

KINDS: Annotated[float, Limit("ratio", CHOICE)] = 1.6
"""Pulses (and rests) come in two kinds when one kind is so many times as long as the other."""

SAME = 1e-9
"""Values scaled to [0, 1] that differ by no more are the same."""

MINORITY: Annotated[float, Limit("ratio", CHOICE)] = 0.4
"""An optimizer or an exchange takes less of the time than this."""

FEWEST: Annotated[int, Limit("count", CHOICE)] = 4
"""A kind of pulse that came less often than this is no kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Evenly spaced samples: row i covers start_ns + [i, i + 1) * spacing_ns; columns are rates, NaN lost."""

    start_ns: int
    spacing_ns: float
    columns: Mapping[str, FloatArray]
    rows: int

    @property
    def length_s(self) -> float:
        """Length in seconds."""
        return self.rows * self.spacing_ns / 1e9


@dataclass(frozen=True, slots=True, eq=False)
class Train:
    """
    The onsets of one kind of pulse.

    `channel`: whose. `onsets`: per stretch the onsets in samples since its start, increasing.
    `adds_work`: the pulse itself is work that other times have not; a rest or what follows it is none.
    """

    channel: str
    onsets: tuple[FloatArray, ...]
    adds_work: bool = False


def stretches(table: Samples) -> tuple[Stretch, ...]:
    """The runs of *table* without a long hole, on even grids."""
    count = min(len(table), LONGEST_TABLE)
    if count < FEWEST:
        return ()
    start = table.start_ns[:count]
    lengths = (table.end_ns - table.start_ns)[:count]
    spacing = float(np.median(lengths))
    if not spacing > 0:
        return ()
    # Samples that lie on each other or come out of order follow no grid either.
    apart = np.diff(start)
    cuts = np.flatnonzero((apart > HOLE * spacing) | (apart < 0.5 * spacing)) + 1
    names = [name for name in CHANNELS if table.has(name)]
    rates = {name: _rate(table, name)[:count] for name in names}
    if "launches" in rates and "sm_active" in rates:
        rates["launches"] = _without_misses(rates["launches"], rates["sm_active"])
    found: list[Stretch] = []
    for first, last in pairwise([0, *cuts.tolist(), count]):
        if last - first < FEWEST:
            continue
        own = start[first:last]
        step = np.diff(own)
        usual = step[step < 1.5 * spacing]
        pitch = float(np.mean(usual)) if len(usual) else spacing
        place = np.rint((own - own[0]) / pitch).astype(np.int64)
        rows = int(place[-1]) + 1
        columns: dict[str, FloatArray] = {}
        for name in names:
            column = np.full(rows, np.nan)
            column[place] = rates[name][first:last]
            columns[name] = column
        found.append(Stretch(int(own[0]), pitch, columns, rows))
    return tuple(found)


def _rate(table: Samples, name: str) -> FloatArray:
    column = table.column(name)
    return column / table.duration_s if BY_NAME[name].kind == "total" else column


def _without_misses(launches: FloatArray, sm_active: FloatArray) -> FloatArray:
    """
    *launches* (n,) without single samples near zero in which the SMs worked as before and after: NaN there.

    Where samples are read out, every 125 of them on an H200, one does not count launches: a mark of the
    sampling's own, each 250 ms.
    """
    beside = np.minimum(launches[:-2], launches[2:])
    works = sm_active[1:-1] >= 0.5 * np.minimum(sm_active[:-2], sm_active[2:])
    missed = (launches[1:-1] < MISSED * beside) & works
    out = launches.copy()
    out[1:-1][missed] = np.nan
    return out


def trains(parts: tuple[Stretch, ...]) -> Iterator[Train]:
    """Every train of onsets worth judging; many are nonsense."""
    grid = _Grid.of_parts(parts)
    for name, adds_work, view in _views(parts):
        seen = grid.seen(view)
        noise = _noise(seen.values)
        smooth = False
        for threshold, (low, high) in _thresholds(seen.ordered):
            if not _apart(seen.values, low, threshold, high, noise=noise):
                smooth = True
                continue
            yield from _of_threshold(name, seen, (low, threshold, high), adds_work=adds_work)
        if smooth:
            seen = grid.seen(_View(_smoothed(view.values)))
            noise = _noise(seen.values)
            for threshold, (low, high) in _thresholds(seen.ordered):
                if _apart(seen.values, low, threshold, high, noise=noise):
                    yield from _of_threshold(name, seen, (low, threshold, high), adds_work=adds_work)


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """
    A column of all stretches behind each other, a NaN after each, scaled to [0, 1]; and its values in order.

    `ordered` is None where they have not been put in order.
    """

    values: FloatArray
    ordered: FloatArray | None = None

    @property
    def mirrored(self) -> _View:
        """What is high low, and the other way round."""
        return _View(1.0 - self.values, None if self.ordered is None else 1.0 - self.ordered[::-1])


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """
    The `values` (n,) of a view that are known, each of the sample `at` since the start of the stretch `of`.

    `ordered`: the values from the least on. `count`, `rows`: of stretches, and of their samples in all.
    """

    values: FloatArray
    at: IntArray
    of: IntArray
    ordered: FloatArray
    count: int
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """Where each value of a view lies, as in `_Seen`: `at` which sample `of` which of `count` stretches."""

    at: IntArray
    of: IntArray
    count: int
    rows: int

    @staticmethod
    def of_parts(parts: tuple[Stretch, ...]) -> _Grid:
        """That of all views of *parts*."""
        at = [np.arange(part.rows + 1) for part in parts]
        of = np.repeat(np.arange(len(parts)), [part.rows + 1 for part in parts])
        return _Grid(np.concatenate(at), of, len(parts), sum(part.rows for part in parts))

    def seen(self, view: _View) -> _Seen:
        """What is known of *view*."""
        known = np.flatnonzero(np.isfinite(view.values))
        values = view.values[known]
        ordered = np.sort(values) if view.ordered is None else view.ordered
        return _Seen(values, self.at[known], self.of[known], ordered, self.count, self.rows)


def _views(parts: tuple[Stretch, ...]) -> Iterator[tuple[str, bool, _View]]:
    """
    Channels and their mirror images, scaled to [0, 1]; and memory written while the tensor pipes rest.

    With each, whether its pulses add work.
    """
    rows = sum(part.rows for part in parts)
    scaled: dict[str, _View] = {}
    for name in CHANNELS:
        columns = [part.columns[name] for part in parts if name in part.columns]
        if len(columns) < len(parts):
            continue
        joined = np.concatenate([values for column in columns for values in (column, [np.nan])])
        ordered = np.sort(joined[np.isfinite(joined)])
        if len(ordered) < 0.5 * rows:
            continue
        bottom, top = _ends(ordered)
        if not top > 0 or top - bottom < FLAT * top:
            continue
        scaled[name] = _View(
            *(np.clip((values - bottom) / (top - bottom), 0.0, 1.0) for values in (joined, ordered))
        )
    for name, view in scaled.items():
        yield name, name in ADDS_WORK, view
        yield name, False, view.mirrored
    if "dram_write_bytes" in scaled and "tensor_active" in scaled:
        written, resting = scaled["dram_write_bytes"], scaled["tensor_active"].mirrored
        yield "dram_write_bytes", True, _View(written.values * resting.values)


def _ends(ordered: FloatArray) -> tuple[float, float]:
    """Bottom and top of the *ordered* values (n,) without the `FEW` lowest and highest."""
    beyond = min(FEW, len(ordered) // 50)
    return float(ordered[beyond]), float(ordered[-1 - beyond])


def _noise(values: FloatArray) -> float:
    """Standard deviation of the noise of *values* (n,), from neighbour to neighbour; 0 without neighbours."""
    return 1.4826 / 2**0.5 * median(np.abs(np.diff(values))) if len(values) > 1 else 0.0


def _apart(values: FloatArray, low: float, threshold: float, high: float, *, noise: float) -> bool:
    """Whether *values* (n,) lie around *low* or *high* and their *noise* takes none for one of the others."""
    if high - low >= APART * noise:
        return True
    within = 1.4826 * median(np.abs(values - np.where(values > threshold, high, low)))
    return high - low >= TWO_LEVELS * within


def _smoothed(values: FloatArray) -> FloatArray:
    """Mean of three neighbours; NaN where the middle one is."""
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    kernel = np.ones(3)
    total = np.convolve(filled, kernel, "same")
    weight = np.convolve(known.astype(np.float64), kernel, "same")
    return np.where(known, total / np.maximum(weight, 1.0), np.nan)


def _thresholds(ordered: FloatArray) -> Iterator[tuple[float, tuple[float, float]]]:
    """Thresholds with the levels below and above: Otsu's, Otsu's among the upper, and half way to the top."""
    if len(ordered) < FEWEST:
        return
    first = _otsu(ordered)
    yield first, _levels(ordered, first)
    upper = ordered[np.searchsorted(ordered, first, "right") :]
    if len(upper) >= 4 * FEWEST:
        second = _otsu(upper)
        yield second, _levels(upper, second)
    low = _middle(ordered)
    high = _ends(ordered)[1]
    if high > low:
        yield (low + high) / 2, (low, high)


def _levels(ordered: FloatArray, threshold: float) -> tuple[float, float]:
    """The medians of the *ordered* values up to *threshold* and above it."""
    above = int(np.searchsorted(ordered, threshold, "right"))
    if above in (0, len(ordered)):
        return threshold, threshold
    return _middle(ordered[:above]), _middle(ordered[above:])


def _middle(ordered: FloatArray) -> float:
    """The median of *ordered* values."""
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _otsu(ordered: FloatArray) -> float:
    """The threshold that leaves the least variance within the two classes (Otsu, 1979), on 64 bins."""
    bottom, total = float(ordered[0]), len(ordered)
    # Values that differ by rounding alone have no 64 bins.
    edges = np.linspace(bottom, max(float(ordered[-1]), bottom + SAME), 65)
    weight = np.searchsorted(ordered, edges)
    weight[-1] = total
    # The sum of those below each edge, as if each were in the middle of its bin.
    mass = np.cumsum(np.diff(weight) * ((edges[:-1] + edges[1:]) / 2))
    weight = weight[1:]
    split = int(np.searchsorted(weight, total))
    if split == 0:
        return float(edges[1])
    below = weight[:split]
    between = (mass[-1] * below / total - mass[:split]) ** 2 / (below * (total - below))
    return float(edges[int(np.argmax(between)) + 1])


def _of_threshold(
    channel: str, seen: _Seen, levels: tuple[float, float, float], *, adds_work: bool
) -> Iterator[Train]:
    """Pulses above the middle one of *levels*: all, only the wide ones, only those after a long rest."""
    low, threshold, high = levels
    if not high > low:
        return
    on, off, of = _pulses(seen, low=low, high=high, threshold=threshold)
    widths = off - on
    # What fills most of the time is the step itself, between two rests.
    adds_work = adds_work and float(np.sum(widths)) < MINORITY * seen.rows

    def train(chosen: BoolArray, *, adds_work: bool) -> Train:
        ends = np.searchsorted(of[chosen], np.arange(seen.count + 1))
        onsets = on[chosen]
        return Train(channel, tuple(onsets[first:last] for first, last in pairwise(ends)), adds_work)

    yield train(np.ones(len(on), np.bool_), adds_work=adds_work)
    wide = _long(widths)
    if wide is not None:
        yield train(widths > wide, adds_work=adds_work)
    rests = np.r_[np.nan, on[1:] - off[:-1]][: len(on)]
    rests[np.flatnonzero(np.diff(of)) + 1] = np.nan
    rest = _long(rests[np.isfinite(rests)])
    if rest is not None:
        yield train(rests > rest, adds_work=False)


def _pulses(
    seen: _Seen, *, low: float, high: float, threshold: float
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Onsets and ends of the pulses (m,), in samples since the start of their stretch, and which it is."""
    band = BAND * (high - low)
    above = seen.values > threshold + band
    decided = np.flatnonzero(above | (seen.values < threshold - band))
    state, of = above[decided], seen.of[decided]
    change = np.flatnonzero((state[1:] != state[:-1]) & (of[1:] == of[:-1])) + 1
    rising, of = state[change], of[change]
    edges = _edges(seen, decided[change - 1], decided[change], rising=rising, low=low, high=high)
    # A pulse needs both of its edges: what was high when the stretch began or ended is no whole pulse.
    pulse = np.flatnonzero(rising[:-1] & (of[1:] == of[:-1]))
    return edges[pulse], edges[pulse + 1], of[pulse]


def _edges(
    seen: _Seen, before: IntArray, after: IntArray, *, rising: BoolArray, low: float, high: float
) -> FloatArray:
    """
    Where the level changed between *before* and *after*, in samples, by how much of them is already high.

    A sample is the mean over its time, so a share s of one that rises puts the edge s before its end.
    """
    share = np.clip((seen.values - low) / (high - low), 0.0, 1.0)
    up_to = np.r_[0.0, np.cumsum(share)]
    # The last sample that is surely on the old side, those between, and the first on the new side.
    shares = up_to[after + 1] - up_to[before]
    count = (after + 1 - before).astype(np.float64)
    end = seen.at[after] + 1
    span = (end - seen.at[before]).astype(np.float64)
    part = np.where(rising, shares, count - shares) / count
    return np.asarray(end - part * span, np.float64)


def _long(lengths: FloatArray) -> float | None:
    """The length above which *lengths* (n,) are of the longer of two kinds; None where there is one kind."""
    ordered = np.sort(lengths[lengths > 0])
    if len(ordered) < 2 * FEWEST:
        return None
    steps = ordered[FEWEST : -FEWEST + 1] / ordered[FEWEST - 1 : -FEWEST]
    if not len(steps):
        return None
    widest = int(np.argmax(steps))
    if steps[widest] < KINDS:
        return None
    at = FEWEST - 1 + widest
    return float(np.sqrt(ordered[at] * ordered[at + 1]))
