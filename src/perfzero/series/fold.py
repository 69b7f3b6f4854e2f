"""
One step in detail: all steps laid over each other.

Model: a program does the same in each step, a little faster or slower. Each step is stretched to
[0, 1) and cut into bins; a sample's value is spread over the bins it overlaps. Samples do not
start at the same place of every step, so that hundreds of steps show more than the samples of one
(equivalent-time sampling). Spreading alone blurs the profile by the length of a sample; it is
sharpened by asking which profile, averaged over each sample, would give these samples (the
multiplicative correction of Richardson, 1972, and Lucy, 1974: it never turns negative and keeps
the sums). A few rounds only: further ones turn noise into detail.

Where the step changes what it does is found in `perfzero.series.phases`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from perfzero.counters import BY_NAME
from perfzero.limits import CHOICE, Limit
from perfzero.series.quantiles import column_quantiles
from perfzero.values import FloatArray, IntArray, Samples

BINS = 64
"""Bins per step: phases of 2 % of a step can be told, and every bin still rests on many samples."""

FEWEST_STEPS: Annotated[int, Limit("count", CHOICE)] = 8
"""With fewer steps a profile shows what happened to happen in them."""

MOST_STEPS = 2000
"""More, evenly chosen, would not change the mean, and take seconds where steps take a few milliseconds."""

USUAL: Annotated[tuple[float, float], Limit("ratio", CHOICE)] = (0.67, 1.5)
"""
Steps from two thirds to one and a half of the median are alike enough to be laid over each other: a
longer one holds something that is not in every step, or an onset that was missed.
"""

COVERED: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""A step counts for a bin if samples cover at least half of it."""

ROUNDS = 12
"""
Rounds of sharpening. Of a step of 7 samples no simulated case comes out right without, all do with 12 rounds,
and the rate of a copy shorter than a sample is 0.82 of the true one; 25 rounds make more of the noise.
"""

SMALLEST = 1e-12
"""Keeps the correction from dividing by zero; far below any counter's resolution."""


@dataclass(frozen=True, slots=True, eq=False)
class Laid:
    """
    Every overlap of a sample with a bin of a step: `row`, `step`, `bin` and `seconds`, each of shape (m,).

    `levels`: what the samples hold by column, amounts per second, NaN where missing, shape (n,); `row` counts
    in these. `steps_s`: how long each step is, shape (steps,).
    """

    row: IntArray
    step: IntArray
    bin: IntArray
    seconds: FloatArray
    steps_s: FloatArray
    levels: Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Folded:
    """
    The mean step; all arrays of shape (bins,), amounts as rates per second.

    `mean`: the sharpened mean profile by column, NaN where nothing was seen. `plain`: the mean of the
    samples, not sharpened; `low`, `high`: 5 % and 95 % of the single steps' values of the same kind.
    `counts`: how many steps each bin rests on. `steps`: how many were laid over each other, `left_out` how
    many were too long or too short.
    `laid`: which samples lie where in which step, and what they hold.
    """

    steps: int
    left_out: int
    step_s: float  # the median
    sample_s: float
    mean: Mapping[str, FloatArray]
    plain: Mapping[str, FloatArray]
    low: Mapping[str, FloatArray]
    high: Mapping[str, FloatArray]
    counts: IntArray
    laid: Laid

    @property
    def bins(self) -> int:
        """Into how many parts the step is cut."""
        return len(self.counts)


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
    plain: dict[str, FloatArray] = {}
    low: dict[str, FloatArray] = {}
    high: dict[str, FloatArray] = {}
    levels: dict[str, FloatArray] = {}
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
        plain[name] = part.over_bins(np.nan_to_num(level))
        share = BY_NAME[name].unit == "ratio" and BY_NAME[name].origin != "host"
        mean[name] = np.minimum(profile, 1.0) if share else profile
        levels[name] = level
        low[name], high[name] = _spread(level[part.row], cell[known], part.seconds, bin_s, bins)
    return Folded(
        steps=count,
        left_out=left_out,
        step_s=float(np.median(steps[:, 1] - steps[:, 0])) / 1e9,
        sample_s=float(np.median(samples.duration_s)),
        mean=mean,
        plain=plain,
        low=low,
        high=high,
        counts=np.sum((covered >= COVERED * bin_s).reshape(count, bins), axis=0).astype(np.int64),
        laid=Laid(row, cell // bins, cell % bins, seconds, (steps[:, 1] - steps[:, 0]) / 1e9, levels),
    )


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
    low, high = column_quantiles(single.reshape(-1, bins), (0.05, 0.95))
    return low, high
