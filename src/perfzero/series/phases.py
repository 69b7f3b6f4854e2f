"""
The phases of the mean step: where it changes what it does, and in how many of the steps that shows.

Model: the folded step (`perfzero.series.fold`) is piecewise constant in all channels at once. The cuts are
those that make the squared distance from constant levels, plus a penalty for each phase, as small as it can
be: exactly, by dynamic programming over the bins (optimal partitioning, Jackson et al., 2005). The penalty
is in the unit of the profile and not in that of its noise, as `change_points` has it: a profile of hundreds
of steps shows differences that mean nothing to anybody, and its bins share samples.

An edge is blurred by samples and by steps of unequal length. So a piece no longer than a sample is an edge
and no phase, if its levels are a mixture of those on both sides but for less than a phase must explain.

A mean may show what no step does. So each phase is looked for in the single steps: the mean step without it,
its bins filled from either side, is the alternative, and a step has the phase if it lies nearer to the mean
step than to that. What is not in most of the steps that were seen whole becomes part of a neighbour. Steps of
whose first and second half the means differ as much as phases do are not alike, and are not cut at all.

What a phase does is no matter of series: see `perfzero.diagnose.fingerprints`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from perfzero.counters import BY_NAME
from perfzero.limits import CHOICE, H200, SIMULATED, Limit
from perfzero.series.fold import Folded
from perfzero.series.stats import weighted_mean
from perfzero.values import FloatArray, IntArray

CHANNELS = (
    "gr_active", "sm_active", "tensor_active", "fma_active", "fp64_active", "sm_issue", "dram_read_bytes",
    "dram_write_bytes", "pcie_rx_bytes", "pcie_tx_bytes", "nvlink_rx_bytes", "nvlink_tx_bytes", "launches",
)  # fmt: skip
"""What tells phases apart. Levels run from 0 to 1; amounts are taken as shares of a roof."""

LINK_CUT: Annotated[float, Limit("ratio", H200)] = 0.2
"""Share of a link's roof that counts as a link in full use: a copy from pageable memory gets 15 % (H200)."""

PENALTY: Annotated[float, Limit("ratio", CHOICE)] = 0.002
"""
What a further phase must explain, in squared units per step: a phase of 3 % of the step that differs by
0.3 in one channel just does, and so does one of 20 % that differs by 0.1.
"""

NOISE_PENALTY: Annotated[float, Limit("ratio", CHOICE)] = 2.0
"""The same in units of noise: with 64 bins a cut that follows noise gains 2 log n of its variance."""

SHORTEST: Annotated[int, Limit("count", CHOICE)] = 2
"""Bins per phase: a single bin is as likely the edge between two phases."""

SEEN: Annotated[float, Limit("ratio", CHOICE)] = 0.6
"""Share of the steps in which a phase has to show to be one: most of them, and not just about half."""

OF_IT: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""A step that holds half of the difference that a phase makes has it: it is nearer to that than to none."""

WHOLE: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Part of a phase that samples must cover for the step to say anything of it."""

DRIFT: Annotated[float, Limit("ratio", SIMULATED)] = 0.2
"""
Squared distance of the two halves' profiles as a share of what the profile itself spans, from which on steps
are not alike. Thirteen programs on an H200: 0.001 to 0.07, 0.14 with a host that is late in each step; 0.27
where an edge in the middle of the step moves by a fifth of it (simulated).
"""

FEWEST: Annotated[int, Limit("count", CHOICE)] = 8
"""Steps of a half, with fewer of which its mean profile is not compared."""


@dataclass(frozen=True, slots=True)
class Phase:
    """
    One part of the step, [start, end) with the whole step as [0, 1).

    `levels`: the mean of every column, amounts per second. `seen`: share of the single steps that show it,
    NaN where none could be looked at.
    """

    start: float
    end: float
    levels: Mapping[str, float]
    seen: float

    @property
    def share(self) -> float:
        """Share of the step."""
        return self.end - self.start


def phases(folded: Folded, roofs: Mapping[str, float]) -> tuple[Phase, ...]:
    """
    The phases of the mean step, in order. Empty without GR activity, and where steps are not alike.

    *roofs*: what stands for 1 in the channels that are amounts, per second. Without one the step's own
    highest rate stands in. A phase across the onset of the step comes out as two.
    """
    names = [name for name in CHANNELS if name in folded.mean]
    if "gr_active" not in names:
        return ()
    full = scales(folded, roofs)
    if _drifts(folded, full):
        return ()
    scaled = np.column_stack([np.minimum(np.nan_to_num(folded.mean[n]) / full[n], 1.0) for n in names])
    spread = np.column_stack([(folded.high[n] - folded.low[n]) / full[n] for n in names])
    edges = _cut(scaled, noise=_noise(spread, folded))
    sample = round(folded.sample_s / folded.step_s * folded.bins)
    edges = _without_ramps(edges, scaled, longest=sample + 1)
    edges, seen = _common(edges, scaled, folded, full)
    return tuple(
        Phase(a / folded.bins, b / folded.bins, levels(folded, a, b), share)
        for (a, b), share in zip(pairwise(edges), seen, strict=True)
    )


def levels(folded: Folded, first: int, last: int) -> dict[str, float]:
    """The mean of every column over the bins *first* to *last*; NaN where nothing was seen."""
    time = np.ones(last - first)
    return {name: weighted_mean(profile[first:last], time) for name, profile in folded.mean.items()}


def scales(folded: Folded, roofs: Mapping[str, float]) -> dict[str, float]:
    """What stands for 1 in each of `CHANNELS` that *folded* has; *roofs* as in `phases`."""
    full: dict[str, float] = {}
    for name in (n for n in CHANNELS if n in folded.mean):
        full[name] = 1.0
        if BY_NAME[name].kind == "total":
            own = float(np.nanmax(folded.mean[name]))
            roof = roofs.get(name, own)
            full[name] = max(roof if roof > 0 else own, 1.0)
        if name.startswith(("pcie", "nvlink")):
            full[name] *= LINK_CUT
    return full


def _drifts(folded: Folded, full: Mapping[str, float]) -> bool:
    """Whether the mean profiles of the first and the second half of the steps differ."""
    half = folded.steps // 2
    if half < FEWEST:
        return False
    apart = spanned = 0.0
    for name, scale in full.items():
        early = _profile(folded, name, folded.laid.step < half) / scale
        late = _profile(folded, name, folded.laid.step >= half) / scale
        if not (np.isfinite(early).any() and np.isfinite(late).any()):
            continue
        # A clock or a link that becomes slower shifts a whole channel, and moves no edge.
        early, late = early - np.nanmean(early), late - np.nanmean(late)
        apart += float(np.nansum((early - late) ** 2))
        spanned += float(np.nansum(((early + late) / 2) ** 2))
    return apart > DRIFT * spanned and apart > PENALTY * folded.bins


def _profile(folded: Folded, name: str, where: NDArray[np.bool_]) -> FloatArray:
    """The mean of the overlaps *where* in each bin, not sharpened, shape (bins,); NaN where there is none."""
    laid = folded.laid
    level = laid.levels[name][laid.row]
    known = where & np.isfinite(level)
    place, seconds = laid.bin[known], laid.seconds[known]
    time = np.bincount(place, seconds, folded.bins)
    out = np.full(folded.bins, np.nan)
    np.divide(np.bincount(place, seconds * level[known], folded.bins), time, out=out, where=time > 0)
    return out


def _noise(spread: FloatArray, folded: Folded) -> float:
    """The variance of a bin of the mean profile, summed over channels, from the spread of single steps."""
    # The central 90 % of a normal distribution span 3.29 standard deviations.
    single = np.nanmedian(spread, axis=0) / 3.29
    # Neighbouring bins share samples: per bin there is less of its own than steps.
    own = max(float(np.median(folded.counts)), 1.0)
    return float(np.sum(single**2)) / own


def _cut(table: FloatArray, *, noise: float) -> list[int]:
    """Edges of the phases of *table* (bins, channels), first 0 and last bins."""
    bins = len(table)
    penalty = PENALTY * bins + NOISE_PENALTY * np.log(bins) * noise
    summed = np.vstack([np.zeros(table.shape[1]), np.cumsum(table, axis=0)])
    squared = np.r_[0.0, np.cumsum(np.sum(table**2, axis=1))]
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


def _without_ramps(edges: list[int], scaled: FloatArray, *, longest: int) -> list[int]:
    """*edges* with one, halfway, for each two that enclose no more than the blurred edge of two phases."""
    edges = list(edges)
    place = 0
    while place < len(edges) - 1 and len(edges) > 2:
        pieces = list(pairwise(edges))
        first, last = pieces[place]
        own = scaled[first:last].mean(axis=0)
        before, after = (scaled[slice(*pieces[i % len(pieces)])].mean(axis=0) for i in (place - 1, place + 1))
        way = after - before
        size = float(way @ way)
        along = float((own - before) @ way) / size if size > 0 else -1.0
        off = own - before - along * way
        own_part = float(off @ off) * (last - first)
        if not (last - first <= longest and 0 < along < 1 and own_part < PENALTY * len(scaled)):
            place += 1
            continue
        edges = [e for e in edges if e not in (first, last) or e in (0, len(scaled))]
        if first > 0 and last < len(scaled):
            edges = sorted({*edges, last - round(along * (last - first))})
        place = 0
    return edges


def _common(
    edges: list[int], scaled: FloatArray, folded: Folded, full: Mapping[str, float]
) -> tuple[list[int], list[float]]:
    """*edges* without the phases that most steps do not show, the rarest first; and how often each shows."""
    edges = list(edges)
    steps = _Steps.of(folded, full, scaled)
    while True:
        pieces = list(pairwise(edges))
        means = [scaled[a:b].mean(axis=0) for a, b in pieces]
        seen = [
            _seen(piece, scaled, means[i - 1], means[(i + 1) % len(means)], steps)
            for i, piece in enumerate(pieces)
        ]
        rarest = int(np.argmin([s if s == s else 1.0 for s in seen]))
        if len(pieces) == 1 or not seen[rarest] < SEEN:
            return edges, seen
        beside = [
            float(np.sum((means[i] - means[rarest]) ** 2)) if 0 <= i < len(means) else np.inf
            for i in (rarest - 1, rarest + 1)
        ]
        edges.remove(pieces[rarest][0 if beside[0] <= beside[1] else 1])


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """
    The single steps against the mean one. A *pair* is a sample with a step that it lies in, shape (p,).

    `part` (m,): which pair an overlap belongs to; `weight` (m,): its share of the sample's time in steps.
    `off` (p, channels): what the sample holds beyond what it would in the mean step; NaN where missing.
    """

    folded: Folded
    part: IntArray
    weight: FloatArray
    step: IntArray
    off: FloatArray

    @staticmethod
    def of(folded: Folded, full: Mapping[str, float], scaled: FloatArray) -> _Steps:
        laid = folded.laid
        rows = len(next(iter(laid.levels.values())))
        pairs, part = np.unique(laid.step * rows + laid.row, return_inverse=True)
        row, step = pairs % rows, pairs // rows
        weight = laid.seconds / np.bincount(laid.row, laid.seconds, rows)[laid.row]
        off = []
        for channel, (name, scale) in enumerate(full.items()):
            expected = np.bincount(laid.row, weight * scaled[laid.bin, channel], rows)
            off.append((np.minimum(laid.levels[name] / scale, 1.0) - expected)[row])
        return _Steps(folded, part.astype(np.int64), weight, step, np.column_stack(off))


def _seen(
    piece: tuple[int, int], scaled: FloatArray, before: FloatArray, after: FloatArray, steps: _Steps
) -> float:
    """The share of single steps that lie nearer to the mean step than to it without *piece*."""
    first, last = piece
    folded = steps.folded
    if last - first == folded.bins:
        return 1.0
    laid = folded.laid
    near = (np.arange(last - first) < (last - first) / 2)[:, None]
    makes = np.zeros_like(scaled)
    makes[first:last] = scaled[first:last] - np.where(near, before, after)
    inside = (laid.bin >= first) & (laid.bin < last)
    covered = np.bincount(laid.step[inside], laid.seconds[inside], folded.steps)
    enough = covered >= WHOLE * (last - first) / folded.bins * laid.steps_s
    size, along = np.zeros(folded.steps), np.zeros(folded.steps)
    part, weight, place = steps.part[inside], steps.weight[inside], laid.bin[inside]
    for channel in range(scaled.shape[1]):
        share = np.bincount(part, weight * makes[place, channel], len(steps.step))
        known = np.isfinite(steps.off[:, channel])
        size += np.bincount(steps.step[known], share[known] ** 2, folded.steps)
        along += np.bincount(steps.step[known], (steps.off[:, channel] * share)[known], folded.steps)
    enough &= size > 0
    if not enough.any():
        return float("nan")
    return float(np.mean(1.0 + along[enough] / size[enough] >= OF_IT))
