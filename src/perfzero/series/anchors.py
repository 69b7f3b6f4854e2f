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

import numpy as np
from numpy.typing import NDArray

from perfzero.counters import BY_NAME
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

HOLE = 25.0
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

FLAT = 0.10
"""
A channel whose values span less than this share of their top carries no marks.

Steps shorter than a sample leave a ripple that beats with the sampling: a bf16 product of 1.66 ms
sampled every 2 ms shows 3 % of ripple with a period of 10 ms (H200).
"""

FEW = 8
"""Samples that may lie beyond the top and the bottom of a channel: steps are more often than that."""

BAND = 0.2
"""Half of the hysteresis, as a share of the distance between the two modes."""

APART = 4.0
"""Modes nearer than so many standard deviations of the noise are told apart only after smoothing."""

TWO_LEVELS = 10.0
"""
Modes so many times as far apart as values scatter around each are levels, however often they change.

Between neighbours, steps of five samples change as much as noise does. What sampling makes of steps of a few
samples or less has no levels and reaches 8 (simulated); copies and products in turns of 5.3 samples have 24
and more (H200).
"""

MISSED = 0.1
"""A sample with less than this of the launches of both its neighbours has lost them, if the SMs worked on."""

KINDS = 1.6
"""Pulses (and rests) come in two kinds when one kind is so many times as long as the other."""

SAME = 1e-9
"""Values scaled to [0, 1] that differ by no more are the same."""

MINORITY = 0.4
"""An optimizer or an exchange takes less of the time than this."""

FEWEST = 4
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
    for name, adds_work, views in _views(parts):
        joined = np.concatenate(views)
        known = joined[np.isfinite(joined)]
        noise = _noise(known)
        smooth = False
        for threshold, (low, high) in _thresholds(known):
            if not _apart(known, low, threshold, high, noise=noise):
                smooth = True
                continue
            yield from _of_threshold(name, views, (low, threshold, high), adds_work=adds_work)
        if smooth:
            calm = [_smoothed(view) for view in views]
            joined = np.concatenate(calm)
            known = joined[np.isfinite(joined)]
            noise = _noise(known)
            for threshold, (low, high) in _thresholds(known):
                if _apart(known, low, threshold, high, noise=noise):
                    yield from _of_threshold(name, calm, (low, threshold, high), adds_work=adds_work)


def _views(parts: tuple[Stretch, ...]) -> Iterator[tuple[str, bool, list[FloatArray]]]:
    """
    Channels and their mirror images, scaled to [0, 1]; and memory written while the tensor pipes rest.

    With each, whether its pulses add work.
    """
    scaled: dict[str, list[FloatArray]] = {}
    for name in CHANNELS:
        columns = [part.columns[name] for part in parts if name in part.columns]
        if len(columns) < len(parts):
            continue
        joined = np.concatenate(columns)
        known = joined[np.isfinite(joined)]
        if len(known) < 0.5 * len(joined):
            continue
        bottom, top = _ends(known)
        if not top > 0 or top - bottom < FLAT * top:
            continue
        scaled[name] = [np.clip((column - bottom) / (top - bottom), 0.0, 1.0) for column in columns]
    for name, views in scaled.items():
        yield name, name in ADDS_WORK, views
        yield name, False, [1.0 - view for view in views]
    if "dram_write_bytes" in scaled and "tensor_active" in scaled:
        yield (
            "dram_write_bytes",
            True,
            [w * (1.0 - t) for w, t in zip(scaled["dram_write_bytes"], scaled["tensor_active"], strict=True)],
        )


def _ends(known: FloatArray) -> tuple[float, float]:
    """Bottom and top of the values (n,) without the `FEW` lowest and highest."""
    beyond = min(FEW, len(known) // 50)
    low, high = np.partition(known, [beyond, len(known) - 1 - beyond])[[beyond, len(known) - 1 - beyond]]
    return float(low), float(high)


def _noise(values: FloatArray) -> float:
    """Standard deviation of the noise of *values* (n,), from neighbour to neighbour; 0 without neighbours."""
    return 1.4826 / 2**0.5 * float(np.median(np.abs(np.diff(values)))) if len(values) > 1 else 0.0


def _apart(values: FloatArray, low: float, threshold: float, high: float, *, noise: float) -> bool:
    """Whether *values* (n,) lie around *low* or *high* and their *noise* takes none for one of the others."""
    if high - low >= APART * noise:
        return True
    within = 1.4826 * float(np.median(np.abs(values - np.where(values > threshold, high, low))))
    return high - low >= TWO_LEVELS * within


def _smoothed(values: FloatArray) -> FloatArray:
    """Mean of three neighbours; NaN where the middle one is."""
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    kernel = np.ones(3)
    total = np.convolve(filled, kernel, "same")
    weight = np.convolve(known.astype(np.float64), kernel, "same")
    return np.where(known, total / np.maximum(weight, 1.0), np.nan)


def _thresholds(known: FloatArray) -> Iterator[tuple[float, tuple[float, float]]]:
    """Thresholds with the levels below and above: Otsu's, Otsu's among the upper, and half way to the top."""
    if len(known) < FEWEST:
        return
    first = _otsu(known)
    yield first, _levels(known, first)
    upper = known[known > first]
    if len(upper) >= 4 * FEWEST:
        second = _otsu(upper)
        yield second, _levels(upper, second)
    low = float(np.median(known))
    high = _ends(known)[1]
    if high > low:
        yield (low + high) / 2, (low, high)


def _levels(known: FloatArray, threshold: float) -> tuple[float, float]:
    below, above = known[known <= threshold], known[known > threshold]
    if not len(below) or not len(above):
        return threshold, threshold
    return float(np.median(below)), float(np.median(above))


def _otsu(known: FloatArray) -> float:
    """The threshold that leaves the least variance within the two classes (Otsu, 1979), on 64 bins."""
    bottom = float(np.min(known))
    # Values that differ by rounding alone have no 64 bins.
    counts, edges = np.histogram(known, bins=64, range=(bottom, max(float(np.max(known)), bottom + SAME)))
    middle = (edges[:-1] + edges[1:]) / 2
    weight = np.cumsum(counts)
    total = float(weight[-1])
    mass = np.cumsum(counts * middle)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = (mass[-1] * weight / total - mass) ** 2 / (weight * (total - weight))
    between[~np.isfinite(between)] = -1.0
    return float(edges[int(np.argmax(between)) + 1])


def _of_threshold(
    channel: str, views: list[FloatArray], levels: tuple[float, float, float], *, adds_work: bool
) -> Iterator[Train]:
    """Pulses above the middle one of *levels*: all, only the wide ones, only those after a long rest."""
    low, threshold, high = levels
    if not high > low:
        return
    found = [_pulses(view, low=low, high=high, threshold=threshold) for view in views]
    widths = [off - on for on, off in found]
    # What fills most of the time is the step itself, between two rests.
    adds_work = adds_work and float(np.sum(np.concatenate(widths))) < MINORITY * sum(map(len, views))
    yield Train(channel, tuple(on for on, _ in found), adds_work)
    wide = _long(np.concatenate(widths))
    if wide is not None:
        chosen = tuple(on[w > wide] for (on, _), w in zip(found, widths, strict=True))
        yield Train(channel, chosen, adds_work)
    rests = [np.r_[np.nan, on[1:] - off[:-1]] if len(on) else on for on, off in found]
    joined = np.concatenate(rests)
    rest = _long(joined[np.isfinite(joined)])
    if rest is not None:
        yield Train(channel, tuple(on[r > rest] for (on, _), r in zip(found, rests, strict=True)))


def _pulses(view: FloatArray, *, low: float, high: float, threshold: float) -> tuple[FloatArray, FloatArray]:
    """Onsets and ends of the pulses of *view* (n,), in samples since its start."""
    band = BAND * (high - low)
    known = np.flatnonzero(np.isfinite(view))
    value = view[known]
    mark = np.where(value > threshold + band, 1, np.where(value < threshold - band, 0, -1))
    decided = np.flatnonzero(mark >= 0)
    if len(decided) < 2:
        return np.empty(0), np.empty(0)
    state = mark[decided]
    change = np.flatnonzero(np.diff(state) != 0) + 1
    share = np.clip((value - low) / (high - low), 0.0, 1.0)
    edges = _edges(known, share, decided, change, rising=state[change] == 1)
    up = state[change] == 1
    on, off = edges[up], edges[~up]
    # A pulse needs both of its edges: what was high when the stretch began or ended is no whole pulse.
    if len(off) and len(on) and off[0] < on[0]:
        off = off[1:]
    return on[: len(off)], off[: len(on)]


def _edges(
    known: IntArray, share: FloatArray, decided: IntArray, change: IntArray, *, rising: BoolArray
) -> FloatArray:
    """
    Where the level changed, in samples, by how much of the samples in between is already high.

    A sample is the mean over its time, so a share s of one that rises puts the edge s before its end.
    """
    before, after = decided[change - 1], decided[change]
    up_to = np.r_[0.0, np.cumsum(np.where(np.isfinite(share), share, 0.0))]
    # The last sample that is surely on the old side, those between, and the first on the new side.
    high = up_to[after + 1] - up_to[before]
    count = (after + 1 - before).astype(np.float64)
    span = (known[after] + 1 - known[before]).astype(np.float64)
    part = np.where(rising, high, count - high) / count
    return np.asarray(known[after] + 1 - part * span, np.float64)


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
