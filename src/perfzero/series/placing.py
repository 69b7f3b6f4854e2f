"""
Where in the step fine samples lie that hold no onsets of their own: a burst is matched with the mean step.

Model: the windows of a recording show where steps begin, and a burst of samples some tens of times as fine,
taken between two windows, shows single kernels. What the burst holds, averaged to the bins of the mean step
and over the length of the windows' samples, is a piece of the mean step, repeated; where it begins is where
the squared distance from it is smallest. Bursts longer than a step are placed piece by piece, so that steps
of other lengths than the mean do not add up.

A piece counts as placed only if the mean step explains it much better there than anywhere else: what looks
the same everywhere, as micro-steps do, has no place, nor has what is as far from the mean step everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np

from perfzero.counters import BY_NAME
from perfzero.limits import CHOICE, Limit
from perfzero.series.fold import Folded
from perfzero.values import FloatArray, IntArray, Samples

PIECE = 1.5
"""Steps that are placed at once: more than one, for what has a clear edge may come but once in each."""

SHORTEST: Annotated[float, Limit("ratio", CHOICE)] = 0.2
"""A piece of a step shorter than this shows too little of it to be recognised."""

STANDS_OUT: Annotated[float, Limit("ratio", CHOICE)] = 0.7
"""The best place has to leave no more than this of what the best one elsewhere leaves."""

ELSEWHERE: Annotated[float, Limit("ratio", CHOICE)] = 0.08
"""Places so far apart, as a share of the step, are different ones: two samples of 2 ms in a step of 50."""


def positions(samples: Samples, starts_ns: IntArray, step_s: float) -> FloatArray:
    """
    Where in the step each of *samples* lies, from 0 to 1, shape (n,): by its middle, between two *starts_ns*.

    NaN where that is not between two onsets of which the second is about one step after the first.
    """
    out = np.full(len(samples), np.nan)
    if len(starts_ns) < 2 or len(samples) == 0:
        return out
    middle = samples.start_ns + (samples.end_ns - samples.start_ns) // 2
    at = np.searchsorted(starts_ns, middle, "right") - 1
    inside = (at >= 0) & (at < len(starts_ns) - 1)
    begin, end = starts_ns[at[inside]], starts_ns[at[inside] + 1]
    share = (middle[inside] - begin) / (end - begin)
    usual = np.abs((end - begin) / 1e9 / step_s - 1.0) < 0.5
    out[inside] = np.where(usual, share, np.nan)
    return out


def placed(samples: Samples, folded: Folded, full: Mapping[str, float]) -> FloatArray:
    """
    Where in the step of *folded* each of *samples* lies, from 0 to 1, shape (n,); NaN where that is not sure.

    *full*: by channel what stands for 1. Only the channels that both have are compared.
    """
    out = np.full(len(samples), np.nan)
    names = [n for n in full if samples.has(n) and n in folded.mean]
    if not names or len(samples) < 2:
        return out
    bin_ns = folded.step_s * 1e9 / folded.bins
    table = np.column_stack([_rate(samples, n) / full[n] for n in names])
    for first, last in _pieces(samples, folded.step_s * 1e9 * PIECE):
        begin = samples.start_ns[first]
        middle = (samples.start_ns[first:last] - begin + samples.end_ns[first:last] - begin) / 2
        at = (middle / bin_ns).astype(np.int64)
        rows = _means(table[first:last], at)
        if len(rows) < SHORTEST * folded.bins:
            continue
        place = _clear(misfits(rows, folded, full, names))
        if place is not None:
            out[first:last] = (middle / bin_ns / folded.bins + place / folded.bins) % 1.0
    return out


def _rate(samples: Samples, name: str) -> FloatArray:
    column = samples.column(name)
    return column / samples.duration_s if BY_NAME[name].kind == "total" else column


def _pieces(samples: Samples, longest_ns: float) -> Sequence[tuple[int, int]]:
    """Runs of rows without a hole, each at most so long; the last of a run may be shorter."""
    usual = float(np.median(samples.end_ns - samples.start_ns))
    holes = np.flatnonzero(samples.start_ns[1:] - samples.end_ns[:-1] > usual) + 1
    edges = [0, *holes.tolist(), len(samples)]
    found: list[tuple[int, int]] = []
    for first, last in pairwise(edges):
        rows = max(2, int(longest_ns / usual))
        found += [(a, min(a + rows, last)) for a in range(first, last, rows)]
    return [(a, b) for a, b in found if b > a]


def _means(rows: FloatArray, at: IntArray) -> FloatArray:
    """The mean of *rows* (n, channels) with each *at*, in order; as the one before where there is none."""
    count = np.bincount(at, minlength=int(at[-1]) + 1)
    summed = np.column_stack([np.bincount(at, np.nan_to_num(c), len(count)) for c in rows.T])
    mean = summed / np.maximum(count, 1)[:, None]
    last = np.maximum.accumulate(np.where(count > 0, np.arange(len(count)), 0))
    return np.asarray(mean[last], np.float64)


def _smooth(rows: FloatArray, over: int) -> FloatArray:
    """*rows* (n, channels) averaged over so many neighbours; fewer at the ends."""
    if over <= 1:
        return rows
    index = np.arange(len(rows))
    low, high = np.maximum(index - over // 2, 0), np.minimum(index + (over + 1) // 2, len(rows))
    summed = np.vstack([np.zeros(rows.shape[1]), np.cumsum(rows, axis=0)])
    return np.asarray((summed[high] - summed[low]) / (high - low)[:, None], np.float64)


def misfits(rows: FloatArray, folded: Folded, full: Mapping[str, float], names: Sequence[str]) -> FloatArray:
    """
    How far *rows* (n, channels), a bin each, lie from *folded* if they begin at each bin, shape (bins,).

    Squared distances, of the channels *names*; the rows are divided by their *full* already.
    """
    bins = folded.bins
    over = max(1, round(folded.sample_s / folded.step_s * bins))
    profile = np.column_stack([np.nan_to_num(folded.mean[n]) / full[n] for n in names])
    profile = _smooth(np.concatenate([profile] * 3), over)[bins : 2 * bins]
    rows = _smooth(rows, over)
    index = np.arange(len(rows))
    places = [float(np.mean(np.sum((rows - profile[(index + o) % bins]) ** 2, 1))) for o in range(bins)]
    return np.array(places)


def _clear(misfit: FloatArray) -> int | None:
    """The place of least *misfit* (bins,) if it stands out, else None."""
    bins = len(misfit)
    best = int(np.argmin(misfit))
    away = np.abs((np.arange(bins) - best + bins // 2) % bins - bins // 2) > ELSEWHERE * bins
    return None if misfit[best] > STANDS_OUT * misfit[away].min() else best
