"""
Where a series changes its level for good, in one channel or in several at once.

Model: levels that hold for a while, with noise on top. The segmentation minimises

    sum over segments and channels of (value - mean of its segment)^2 / noise^2  +  penalty per change

exactly, by PELT (Killick, Fearnhead, Eckley 2012, "Optimal detection of changepoints with a linear
computational cost"; the library ruptures). The penalty is 15 log n, after Barrett et al. 2017,
"Virtual machine warmup blows hot and cold" (section 4). The noise of a channel is the scaled median
of its absolute differences from point to point, so that steps do not count as noise.

Two things the cost alone gets wrong. A single point far off would be worth a segment, so points are
clipped to the median of themselves and their neighbours first. A slow rise would become a staircase,
so a change must be abrupt: a good part of it has to happen within a few points.

Noise that remembers itself (a correlation from point to point) gives changes too many, small ones;
whoever asks has to say what difference means anything to him (`perfzero.series.segments`).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated

import numpy as np

from perfzero.limits import CHOICE, Limit
from perfzero.values import FloatArray

PENALTY: Annotated[float, Limit("", "Barrett et al. (2017)")] = 15.0
"""What a change has to explain, times log n: more, and changes are missed; less, and noise makes some."""

SHORTEST: Annotated[int, Limit("count", CHOICE)] = 2
"""Points in a segment: one alone is an outlier."""

MOST = 2048
"""Points that are looked at; the work grows with their square. Longer series are averaged to that many."""

CLIP = 4.0
"""So many times the noise a point may lie off the median of itself and its neighbours."""

MAD_TO_SIGMA = 1.4826
"""The median absolute deviation of a normal variable times this is its standard deviation."""

FLOOR_OF_RANGE = 0.005
"""Noise is at least this share of the range: a series without noise has no infinitely sharp steps."""

ABRUPT: Annotated[float, Limit("ratio", CHOICE)] = 0.6
"""A ramp cut in pieces shows half of each step within a quarter of a piece; a step all of it."""

NEAR: Annotated[int, Limit("count", CHOICE)] = 4
"""Points either side of a change in which it has to happen, where segments are long and noise is small."""

SURE: Annotated[float, Limit("standard deviations", CHOICE)] = 5.0
"""Where the step is smaller than so many times the noise of their means, more points than that are taken."""


def change_points(values: FloatArray, *, floor: float = 0.0) -> tuple[int, ...]:
    """
    The first index of each segment of *values* (n,) or (n, channels) but that of the first.

    *floor*: the least noise to reckon with, in the unit of the values. NaN is missing, and taken to be
    like its neighbours; a channel without any value says nothing.
    """
    table = _filled(values if values.ndim == 2 else values[:, None])
    count = len(table)
    if count < 2 * SHORTEST or table.shape[1] == 0:
        return ()
    noise = np.maximum(_noise(table), np.maximum(floor, FLOOR_OF_RANGE * np.ptp(table, axis=0)))
    moving = noise > 0
    if not moving.any():
        return ()
    table = _clipped(table[:, moving], noise[moving]) / noise[moving]
    together = -(-count // MOST)
    if together == 1:
        found = _pelt(table)
    else:
        found = _refined(table, _pelt(_averaged(table, together)), together)
    return tuple(_abrupt(table, found))


def _filled(table: FloatArray) -> FloatArray:
    """The channels that have values, each with straight lines across what is missing."""
    known = np.isfinite(table)
    index = np.arange(len(table))
    channels = [
        np.interp(index, index[known[:, c]], table[known[:, c], c])
        for c in range(table.shape[1])
        if known[:, c].any()
    ]
    return np.column_stack(channels) if channels else np.empty((len(table), 0))


def _noise(table: FloatArray) -> FloatArray:
    """Standard deviation of each channel from point to point, as if steps were rare."""
    moves = np.abs(np.diff(table, axis=0))
    return np.asarray(MAD_TO_SIGMA / math.sqrt(2.0) * np.median(moves, axis=0), np.float64)


def _clipped(table: FloatArray, noise: FloatArray) -> FloatArray:
    """*table* with each point brought near the median of three: itself and its neighbours."""
    padded = np.concatenate([table[2:3], table, table[-3:-2]])
    middle = np.median(np.stack([padded[:-2], padded[1:-1], padded[2:]]), axis=0)
    return np.asarray(np.clip(table, middle - CLIP * noise, middle + CLIP * noise), np.float64)


def _pelt(table: FloatArray) -> list[int]:
    # Half a second to import, for scipy's sake, and only where there is something to segment.
    import ruptures

    # With a linear kernel the cost is that of least squares, and the search runs in C.
    search = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST).fit(table)
    return [int(i) for i in search.predict(pen=PENALTY * math.log(len(table)))[:-1]]


def _averaged(table: FloatArray, together: int) -> FloatArray:
    """Means of so many rows each, on the scale of their own noise; an incomplete last group is left out."""
    whole = len(table) // together * together
    means = table[:whole].reshape(-1, together, table.shape[1]).mean(axis=1)
    return np.asarray(means * math.sqrt(together), np.float64)


def _refined(table: FloatArray, coarse: list[int], together: int) -> list[int]:
    """The rows of *table* at which the changes that averages showed happen: where two means fit best."""
    edges = [0, *(c * together for c in coarse), len(table)]
    found: list[int] = []
    for before, at, after in zip(edges, edges[1:], edges[2:], strict=False):
        low, high = max(before, at - 2 * together), min(after, at + 2 * together)
        found.append(low + _best_cut(table[low:high]))
    return sorted(set(found))


def _best_cut(rows: FloatArray) -> int:
    count = len(rows)
    sums = np.cumsum(rows, axis=0)
    left = np.arange(1, count)[:, None]
    # The sum of squares about two means is smallest where this is largest.
    gain = (sums[:-1] ** 2 / left + (sums[-1] - sums[:-1]) ** 2 / (count - left)).sum(axis=1)
    return int(np.argmax(gain)) + 1


def _abrupt(table: FloatArray, found: list[int]) -> list[int]:
    """*found* without the steps of a staircase that stands for a slope, the least abrupt first."""
    kept = list(found)
    while kept:
        edges = [0, *kept, len(table)]
        means = [table[a:b].mean(axis=0) for a, b in pairwise(edges)]
        shares = [
            _abruptness(table, edges[i - 1 : i + 2], means[i - 1 : i + 1]) for i in range(1, len(edges) - 1)
        ]
        least = int(np.argmin(shares))
        if shares[least] >= ABRUPT:
            break
        del kept[least]
    return kept


def _abruptness(table: FloatArray, edges: list[int], means: list[FloatArray]) -> float:
    """How much of the change at the middle of three *edges* happens close to it, as a share."""
    before, at, after = edges
    step = means[1] - means[0]
    size = float(np.linalg.norm(step))
    if size == 0.0:
        return 0.0
    # Where a step is small against the noise, more points are needed to see how fast it is.
    wanted = max(NEAR, math.ceil((SURE / size) ** 2))
    left, right = (min(wanted, max(1, length // 2)) for length in (at - before, after - at))
    near = table[at : at + right].mean(axis=0) - table[at - left : at].mean(axis=0)
    return float(near @ step) / size**2
