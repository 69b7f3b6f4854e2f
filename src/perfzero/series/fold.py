"""
One step in detail: all steps laid over each other, and the phases that they are made of.

Model: a program does the same in each step, a little faster or slower. Each step is stretched to
[0, 1) and cut into bins; a sample's value is spread over the bins it overlaps. Samples do not
start at the same place of every step, so that hundreds of steps show more than the samples of one
(equivalent-time sampling). Spreading alone blurs the profile by the length of a sample; it is
sharpened by asking which profile, averaged over each sample, would give these samples (the
multiplicative correction of Richardson, 1972, and Lucy, 1974: it never turns negative and keeps
the sums). A few rounds only: further ones turn noise into detail.

Phases are cut by dynamic programming over the bins of the mean profile: the cuts that make the
squared distance from piecewise constant levels, plus a penalty per phase, as small as it can be
(optimal partitioning, Jackson et al., 2005). What a phase does is told by its fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from perfzero.counters import BY_NAME
from perfzero.series.stats import weighted_mean
from perfzero.values import FloatArray, IntArray, Samples

BINS = 64
"""Bins per step: phases of 2 % of a step can be told, and every bin still rests on many samples."""

FEWEST_STEPS = 8
"""With fewer steps a profile shows what happened to happen in them."""

MOST_STEPS = 2000
"""More, evenly chosen, would not change the mean, and take seconds where steps take a few milliseconds."""

USUAL = (0.67, 1.5)
"""
Steps from two thirds to one and a half of the median are alike enough to be laid over each other: a
longer one holds something that is not in every step, or an onset that was missed.
"""

COVERED = 0.5
"""A step counts for a bin if samples cover at least half of it."""

ROUNDS = 12
"""
Rounds of sharpening. Five phases of a step of 13 samples come out right in half of the simulated cases
without, in 97 % with 12 rounds; 25 are no better, and make more of the noise.
"""

SMALLEST = 1e-12
"""Keeps the correction from dividing by zero; far below any counter's resolution."""

CHANNELS = (
    "gr_active",
    "sm_active",
    "tensor_active",
    "dram_read_bytes",
    "dram_write_bytes",
    "pcie_rx_bytes",
    "pcie_tx_bytes",
    "launches",
)
"""What tells phases apart. Levels run from 0 to 1; amounts are taken as shares of a roof."""

LAUNCH_ROOF = 200e3
"""Launches per second that one stream can take: a kernel every 5 µs is what an eager loop reaches."""

LINK_CUT = 0.2
"""Share of the PCIe roof that counts as a link in full use: a copy from pageable memory gets 15 % (H200)."""

PENALTY = 0.002
"""
What a further phase must explain, in squared units per step: a phase of 3 % of the step that differs by
0.3 in one channel just does, and so does one of 20 % that differs by 0.1.
"""

NOISE_PENALTY = 2.0
"""The same in units of noise: with 64 bins a cut that follows noise gains 2 log n of its variance."""

SHORTEST = 2
"""Bins per phase: a single bin is as likely the edge between two phases."""

BUSY = 0.5
"""A phase in which kernels run less than half of the time is one of waiting, copying or launching."""

LINK_IN_USE = 0.05
"""Share of the PCIe roof above which waiting is waiting for a copy: a pageable copy uses 12 % (H200)."""

MATRIX = 0.4
"""Tensor activity of matrix work: half of what good kernels reach (0.8 to 0.95 on an H200)."""

NO_TENSOR = 0.1
"""Below this the tensor cores take no part that matters."""

MEMORY = 0.4
"""Share of the DRAM roof of a phase that moves data: an optimizer's kernels reach 0.5 to 0.8 (H200)."""

WRITES = 0.35
"""
Share of writes in an optimizer's DRAM traffic, at least: Adam reads four numbers per weight and
writes three (0.43), SGD with momentum reads three and writes two (0.40).
"""

NO_MATRICES = 0.05
"""An optimizer does not use the tensor cores at all; what its neighbours blur into it is 3 % (H200, 2 ms)."""

UPDATE_LONGEST = 0.3
"""An update that takes longer than this, as a share of the step, is more likely the step's own work."""

EMPTY_SM = 0.2
"""SM activity while kernels run, below which they are too small to fill the GPU."""

MANY_LAUNCHES = 20e3
"""Launches per second, one every 50 µs: from there on launching is what the time is spent with."""

UPDATE_LAUNCHES = 3.0
"""An unfused optimizer launches this many times as often as the rest of the step."""

Label = Literal["idle", "copy", "matrix", "memory", "update", "launches", "mixed"]


@dataclass(frozen=True, slots=True, eq=False)
class Folded:
    """
    The mean step; all arrays of shape (bins,), amounts as rates per second.

    `mean`: the sharpened mean profile by column, NaN where nothing was seen. `low`, `high`: 5 % and 95 %
    of the single steps' values, not sharpened. `counts`: how many steps each bin rests on.
    `steps`: how many were laid over each other, `left_out` how many were too long or too short.
    """

    steps: int
    left_out: int
    step_s: float  # the median
    sample_s: float
    mean: Mapping[str, FloatArray]
    low: Mapping[str, FloatArray]
    high: Mapping[str, FloatArray]
    counts: IntArray

    @property
    def bins(self) -> int:
        """Into how many parts the step is cut."""
        return len(self.counts)


@dataclass(frozen=True, slots=True)
class Phase:
    """
    One part of the step, [start, end) with the whole step as [0, 1).

    `levels`: the mean of every column, amounts per second.
    """

    label: Label
    start: float
    end: float
    levels: Mapping[str, float]

    @property
    def share(self) -> float:
        """Share of the step."""
        return self.end - self.start


def fold(samples: Samples, starts_ns: IntArray, *, bins: int = BINS) -> Folded | None:
    """
    Lay the usual steps of *samples* over each other, of many some; None with fewer than `FEWEST_STEPS`.

    *starts_ns*: onsets of steps in order, int64; what lies between those of two windows is left out.
    """
    steps, left_out = _usual_steps(samples, starts_ns)
    if len(steps) < FEWEST_STEPS:
        return None
    if len(steps) > MOST_STEPS:
        steps = steps[np.linspace(0, len(steps) - 1, MOST_STEPS).astype(np.int64)]
    row, cell, seconds = _overlaps(samples, steps, bins)
    count = len(steps)
    mean: dict[str, FloatArray] = {}
    low: dict[str, FloatArray] = {}
    high: dict[str, FloatArray] = {}
    bin_s = np.repeat((steps[:, 1] - steps[:, 0]) / 1e9 / bins, bins)
    covered = np.bincount(cell, weights=seconds, minlength=count * bins)
    whole = _Part.of(row, cell % bins, seconds, rows=len(samples), bins=bins)
    for name, column in samples.columns.items():
        level = column / samples.duration_s if BY_NAME[name].kind == "total" else column
        known = np.isfinite(level[row])
        if not known.any():
            continue
        part = whole.where(known)
        profile = _sharpened(np.nan_to_num(level), part)
        share = BY_NAME[name].unit == "ratio" and BY_NAME[name].origin != "host"
        mean[name] = np.minimum(profile, 1.0) if share else profile
        low[name], high[name] = _spread(level[part.row], cell[known], part.seconds, bin_s, bins)
    return Folded(
        steps=count,
        left_out=left_out,
        step_s=float(np.median(steps[:, 1] - steps[:, 0])) / 1e9,
        sample_s=float(np.median(samples.duration_s)),
        mean=mean,
        low=low,
        high=high,
        counts=np.sum((covered >= COVERED * bin_s).reshape(count, bins), axis=0).astype(np.int64),
    )


def phases(
    folded: Folded, *, dram_roof: float = float("nan"), pcie_roof: float = float("nan")
) -> tuple[Phase, ...]:
    """
    The phases of the mean step, in order; neighbours with the same label are one.

    *dram_roof*, *pcie_roof*: what the memory and one direction of the link can do, bytes per second.
    Without them the step's own highest rate stands in, and "memory" means high for this program.
    A phase across the onset of the step comes out as two. Empty without GR activity.
    """
    if "gr_active" not in folded.mean:
        return ()
    roofs = _roofs(folded, dram_roof, pcie_roof)
    names = [name for name in CHANNELS if name in folded.mean]
    full = {name: roofs[name] * (LINK_CUT if name.startswith("pcie") else 1.0) for name in names}
    scaled = np.column_stack([np.minimum(np.nan_to_num(folded.mean[n]) / full[n], 1.0) for n in names])
    spread = [(folded.high[name] - folded.low[name]) / full[name] for name in names]
    edges = _cut(scaled, noise=_noise(np.column_stack(spread), folded))
    pieces = list(pairwise(edges))
    levels = [_levels(folded, first, last) for first, last in pieces]
    labels = _labels(levels, [(b - a) / folded.bins for a, b in pieces], roofs)
    found: list[Phase] = []
    for (first, last), label in zip(pieces, labels, strict=True):
        if found and found[-1].label == label:
            first = round(found.pop().start * folded.bins)
        levels_here = _levels(folded, first, last)
        found.append(Phase(label, first / folded.bins, last / folded.bins, levels_here))
    return tuple(found)


def _levels(folded: Folded, first: int, last: int) -> dict[str, float]:
    """The mean of every column over the bins *first* to *last*; NaN where nothing was seen."""
    time = np.ones(last - first)
    return {name: weighted_mean(profile[first:last], time) for name, profile in folded.mean.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """
    Which *row* overlaps which bin (*cell*) for how many *seconds*; arrays of shape (m,).

    `row_s`, `bin_s`: the seconds of each row, shape (rows,), and of each bin, shape (bins,).
    """

    row: IntArray
    cell: IntArray
    seconds: FloatArray
    row_s: FloatArray
    bin_s: FloatArray

    @staticmethod
    def of(row: IntArray, cell: IntArray, seconds: FloatArray, *, rows: int, bins: int) -> _Part:
        """The overlaps with their sums, which are asked for in each round."""
        row_s = np.bincount(row, weights=seconds, minlength=rows).astype(np.float64)
        bin_s = np.bincount(cell, weights=seconds, minlength=bins).astype(np.float64)
        return _Part(row, cell, seconds, row_s, bin_s)

    def where(self, keep: NDArray[np.bool_]) -> _Part:
        """The overlaps for which *keep* (m,) is true; itself if they are all."""
        if keep.all():
            return self
        rows, bins = len(self.row_s), len(self.bin_s)
        return _Part.of(self.row[keep], self.cell[keep], self.seconds[keep], rows=rows, bins=bins)

    def over_rows(self, profile: FloatArray) -> FloatArray:
        """The mean of *profile* (bins,) over what each row overlaps, shape (rows,)."""
        weights = profile[self.cell] * self.seconds
        summed = np.bincount(self.row, weights=weights, minlength=len(self.row_s))
        return summed / np.maximum(self.row_s, SMALLEST)

    def over_bins(self, values: FloatArray) -> FloatArray:
        """The mean of *values* (rows,) over what overlaps each bin, shape (bins,); NaN where nothing does."""
        weights = values[self.row] * self.seconds
        summed = np.bincount(self.cell, weights=weights, minlength=len(self.bin_s))
        out = np.full(len(self.bin_s), np.nan)
        np.divide(summed, self.bin_s, out=out, where=self.bin_s > 0)
        return out


def _usual_steps(samples: Samples, starts_ns: IntArray) -> tuple[IntArray, int]:
    """Start and end of the steps (m, 2) that any sample lies in and that are alike; how many are not."""
    pairs = np.column_stack([starts_ns[:-1], starts_ns[1:]]) if len(starts_ns) > 1 else np.empty((0, 2), int)
    if len(samples) == 0 or len(pairs) == 0:
        return np.empty((0, 2), np.int64), 0
    first = np.searchsorted(samples.end_ns, pairs[:, 0], "right")
    last = np.searchsorted(samples.start_ns, pairs[:, 1], "left")
    pairs = pairs[last > first]
    length = (pairs[:, 1] - pairs[:, 0]).astype(np.float64)
    middle = float(np.median(length)) if len(length) else 0.0
    usual = (length >= USUAL[0] * middle) & (length <= USUAL[1] * middle)
    return pairs[usual], int(np.count_nonzero(~usual))


def _overlaps(samples: Samples, steps: IntArray, bins: int) -> tuple[IntArray, IntArray, FloatArray]:
    """
    Every overlap of a sample with a bin of a step: row, step * bins + bin, and seconds; each (m,).
    """
    share = np.arange(bins + 1) / bins
    edges = steps[:, :1] + np.rint((steps[:, 1:] - steps[:, :1]) * share).astype(np.int64)
    low, high = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    first = np.searchsorted(samples.end_ns, low, "right")
    count = np.maximum(np.searchsorted(samples.start_ns, high, "left") - first, 0)
    cell = np.repeat(np.arange(len(low)), count)
    row = first[cell] + np.arange(len(cell)) - np.repeat(np.cumsum(count) - count, count)
    shared = np.minimum(samples.end_ns[row], high[cell]) - np.maximum(samples.start_ns[row], low[cell])
    real = shared > 0
    return row[real], cell[real], shared[real] / 1e9


def _sharpened(level: FloatArray, part: _Part) -> FloatArray:
    """The profile (bins,) that explains the *level* (n,) of the samples; NaN where there is none."""
    profile = part.over_bins(level)
    known = np.isfinite(profile)
    highest = float(np.max(np.abs(level))) if len(level) else 0.0
    if highest <= 0 or (level < 0).any():
        return profile
    profile = np.where(known, profile, 0.0)
    for _ in range(ROUNDS):
        expected = part.over_rows(profile)
        ratio = np.ones(len(level))
        np.divide(level, expected, out=ratio, where=expected > SMALLEST * highest)
        profile = profile * np.where(known, part.over_bins(ratio), 0.0)
    return np.where(known, profile, np.nan)


def _spread(
    level: FloatArray, cell: IntArray, seconds: FloatArray, bin_s: FloatArray, bins: int
) -> tuple[FloatArray, FloatArray]:
    """5 % and 95 % of the values that single steps show in each bin, shape (bins,)."""
    time = np.bincount(cell, weights=seconds, minlength=len(bin_s))
    summed = np.bincount(cell, weights=level * seconds, minlength=len(bin_s))
    single = np.full(len(bin_s), np.nan)
    np.divide(summed, time, out=single, where=time >= COVERED * bin_s)
    by_step = single.reshape(-1, bins)
    out = np.full((2, bins), np.nan)
    seen = np.isfinite(by_step).any(axis=0)
    out[:, seen] = np.nanquantile(by_step[:, seen], [0.05, 0.95], axis=0)
    return out[0], out[1]


def _roofs(folded: Folded, dram_roof: float, pcie_roof: float) -> dict[str, float]:
    """What stands for 1 in each channel."""

    def highest(*names: str) -> float:
        both = sum(np.nan_to_num(folded.mean.get(name, np.zeros(folded.bins))) for name in names)
        return max(float(np.max(both)), SMALLEST)

    dram = dram_roof if dram_roof > 0 else highest("dram_read_bytes", "dram_write_bytes")
    # A link's own highest rate may be next to nothing, and then would make each launch a copy.
    pcie = pcie_roof if pcie_roof > 0 else max(highest("pcie_rx_bytes", "pcie_tx_bytes"), 16e9)
    roofs = dict.fromkeys(CHANNELS, 1.0)
    roofs.update(dram_read_bytes=dram, dram_write_bytes=dram, pcie_rx_bytes=pcie, pcie_tx_bytes=pcie)
    roofs["launches"] = LAUNCH_ROOF
    return roofs


def _noise(spread: FloatArray, folded: Folded) -> float:
    """The variance of a bin of the mean profile, summed over channels, from the spread of single steps."""
    # The central 90 % of a normal distribution span 3.29 standard deviations.
    single = np.nanmedian(spread, axis=0) / 3.29
    # Neighbouring bins share samples: per bin there is less of its own than steps.
    own = max(float(np.median(folded.counts)), 1.0)
    return float(np.sum(single**2)) / own


def _cut(levels: FloatArray, *, noise: float) -> list[int]:
    """Edges of the phases of *levels* (bins, channels), first 0 and last bins."""
    bins = len(levels)
    penalty = PENALTY * bins + NOISE_PENALTY * np.log(bins) * noise
    summed = np.vstack([np.zeros(levels.shape[1]), np.cumsum(levels, axis=0)])
    squared = np.r_[0.0, np.cumsum(np.sum(levels**2, axis=1))]
    best = np.full(bins + 1, np.inf)
    best[0] = -penalty
    before = np.zeros(bins + 1, np.int64)
    for end in range(SHORTEST, bins + 1):
        start = np.arange(0, end - SHORTEST + 1)
        inside = np.sum((summed[end] - summed[start]) ** 2, axis=1) / (end - start)
        cost = best[start] + squared[end] - squared[start] - inside + penalty
        before[end] = int(np.argmin(cost))
        best[end] = cost[before[end]]
    edges = [bins]
    while edges[-1] > 0:
        edges.append(int(before[edges[-1]]))
    return edges[::-1]


def _labels(
    levels: list[dict[str, float]], shares: list[float], roofs: Mapping[str, float]
) -> tuple[Label, ...]:
    """What each phase does, by its levels; an update is one only if no other phase looks like it."""
    labels = [_label(level, roofs) for level in levels]
    length = np.array(shares)
    rate = np.array([level.get("launches", 0.0) for level in levels])
    usual = float(np.sum(rate * length))
    tensor = np.array([level.get("tensor_active", 1.0) for level in levels])
    alike: NDArray[np.bool_] = np.array([_writes(level, roofs) for level in levels]) & (tensor < NO_TENSOR)
    if not alike.any():
        # Many small kernels at one place: an optimizer that launches one for each tensor.
        alike = (rate >= MANY_LAUNCHES) & (rate >= UPDATE_LAUNCHES * usual) & (tensor < NO_TENSOR)
    places = np.count_nonzero(np.diff(np.r_[False, alike].astype(np.int8)) == 1)
    # First and last phase may be two halves of one.
    if len(labels) > 1 and alike[0] and alike[-1]:
        places -= 1
    if places == 1 and float(np.sum(length[alike])) <= UPDATE_LONGEST:
        update = alike & (tensor < NO_MATRICES)
        labels = ["update" if u else label for u, label in zip(update, labels, strict=True)]
    return tuple(labels)


def _writes(level: Mapping[str, float], roofs: Mapping[str, float]) -> bool:
    """Whether a phase moves data, and a good part of it back."""
    read, write = level.get("dram_read_bytes", 0.0), level.get("dram_write_bytes", 0.0)
    return (
        level["gr_active"] >= BUSY
        and read + write >= MEMORY * roofs["dram_read_bytes"]
        and write >= WRITES * (read + write)
    )


def _label(level: Mapping[str, float], roofs: Mapping[str, float]) -> Label:
    busy = level["gr_active"]
    if busy < BUSY:
        link = max(level.get("pcie_rx_bytes", 0.0), level.get("pcie_tx_bytes", 0.0))
        if link >= LINK_IN_USE * roofs["pcie_rx_bytes"]:
            return "copy"
        return "launches" if level.get("launches", 0.0) >= MANY_LAUNCHES else "idle"
    if level.get("tensor_active", 0.0) >= MATRIX * busy:
        return "matrix"
    moved = level.get("dram_read_bytes", 0.0) + level.get("dram_write_bytes", 0.0)
    if moved >= MEMORY * busy * roofs["dram_read_bytes"] and level.get("tensor_active", 0.0) < NO_TENSOR:
        return "memory"
    if level.get("sm_active", 1.0) < EMPTY_SM * busy and level.get("launches", 0.0) >= MANY_LAUNCHES:
        return "launches"
    return "mixed"
