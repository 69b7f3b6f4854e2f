"""
The program's step time, where the counters repeat themselves beyond doubt; else None.

Model: within one stretch of evenly spaced samples each channel is correlated with itself
(autocorrelation by FFT, mean and slope taken off). A candidate is a clear peak. It becomes the
step time only if

    - the shift explains most of the channel (correlation at least `CLEAR`),
    - at least `REPEATS` steps fit into the stretch,
    - no whole fraction of it explains nearly as much (then it is a multiple of the step),
    - no multiple explains more (then it is a micro-step, as in gradient accumulation),
    - two channels agree, and the stretches agree with each other.

Gradient accumulation and jitter defeat this (science.md §2.4), and then it stays silent: a
wrong step time is worse than none. Steps found by their anchors come with a later version.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from perfzero.counters import BY_NAME
from perfzero.values import FloatArray, Samples

CHANNELS = ("gr_active", "tensor_active", "dram_write_bytes", "dram_read_bytes", "launches", "sm_active")

CLEAR = 0.6
"""Least autocorrelation of a step: noise reaches 0.2, one phase per step with 5 % jitter 0.7 (simulated)."""

REPEATS = 8
"""Fewer repetitions are found in noise too."""

SHORTEST = 5
"""Samples per step: with fewer the shape of a step cannot be told from noise."""

FRACTION = 0.85
"""A whole fraction that explains this much of what the candidate explains is the better candidate."""

ALIAS = 0.25
"""A peak this high below the shortest lag, as a share of the best, means that steps are shorter."""

AGREE = 0.03
"""Channels and stretches must name the same period to within 3 %."""

FLAT = 0.10
"""
A channel that varies less than this around its mean carries no steps.

Steps shorter than a sample leave a ripple that beats with the sampling: a bf16 product of 1.66 ms
sampled every 2 ms shows 3 % of ripple with a period of 10 ms (H200).
"""

LONGEST_STRETCH = 1 << 17
"""Samples looked at per stretch: bounds the work, and covers two minutes at 1 ms."""


def step_period(*tables: Samples) -> float | None:
    """
    The step time in seconds that all evenly sampled stretches of *tables* agree on, or None.

    Tables are tried in order; the first that yields a period decides.
    """
    for table in tables:
        found = [p for p in map(_of_stretch, _stretches(table)) if p is not None]
        if not found:
            continue
        middle = float(np.median(found))
        if max(abs(p - middle) for p in found) <= AGREE * middle:
            return middle
        return None
    return None


def _stretches(table: Samples) -> Iterator[Samples]:
    """Runs of samples without a hole and of one length."""
    if len(table) < REPEATS * SHORTEST:
        return
    step = np.diff(table.start_ns)
    usual = float(np.median(step))
    cuts = np.flatnonzero(np.abs(step - usual) > 0.5 * usual) + 1
    edges = [0, *cuts.tolist(), len(table)]
    for first, last in pairwise(edges):
        if last - first >= REPEATS * SHORTEST:
            keep = np.zeros(len(table), np.bool_)
            keep[first : min(last, first + LONGEST_STRETCH)] = True
            yield table.where(keep)


def _of_stretch(stretch: Samples) -> float | None:
    """The period of one stretch in seconds, if two channels agree on it."""
    spacing = float(np.median(np.diff(stretch.start_ns))) / 1e9
    lags: list[float] = []
    for name in CHANNELS:
        column = stretch.column(name)
        if not np.isfinite(column).all():
            continue
        if BY_NAME[name].kind == "total":
            column = column / stretch.duration_s
        lag = repeat_lag(column)
        if lag is not None:
            lags.append(lag)
    if len(lags) < 2:
        return None
    middle = float(np.median(lags))
    if max(abs(lag - middle) for lag in lags) > AGREE * middle:
        return None
    return middle * spacing


def repeat_lag(values: FloatArray) -> float | None:
    """After how many samples the evenly spaced *values* (n,) repeat themselves; None when in doubt."""
    count = len(values)
    if count < REPEATS * SHORTEST:
        return None
    level = float(np.mean(np.abs(values)))
    slope = np.polyfit(np.arange(count), values, 1)
    rest = values - np.polyval(slope, np.arange(count))
    if float(np.std(rest)) <= FLAT * level:
        return None
    correlation = autocorrelation(rest)
    longest = count // REPEATS
    inner = correlation[1:-1]
    peaks = np.flatnonzero((inner >= correlation[:-2]) & (inner > correlation[2:])) + 1
    too_short, peaks = peaks[peaks < SHORTEST], peaks[peaks >= SHORTEST]
    within = peaks[peaks <= longest]
    if len(within) == 0:
        return None
    best = int(within[np.argmax(correlation[within])])
    height = float(correlation[best])
    # A repetition faster than the samples can follow shows up at one of its multiples.
    if height < CLEAR or np.any(correlation[too_short] >= ALIAS * height):
        return None
    # The shortest lag that explains nearly as much is the period; the best one may be a multiple.
    lag = int(next(p for p in within if correlation[p] >= FRACTION * height))
    if not _is_multiple(best, lag):
        return None
    if float(correlation[lag]) < CLEAR or _explained_better_by_multiple(correlation, lag, longest):
        return None
    return _refine(correlation, lag)


def autocorrelation(values: FloatArray) -> FloatArray:
    """Autocorrelation at lags 0..n/2, each by the number of pairs it is made from; 1 at lag 0."""
    count = len(values)
    spectrum = np.fft.rfft(values, 2 * count)
    raw = np.fft.irfft(spectrum * np.conj(spectrum), 2 * count)[: count // 2]
    pairs = np.arange(count, count - len(raw), -1)
    return np.asarray(raw / pairs / (raw[0] / count), np.float64)


def _is_multiple(of: int, lag: int) -> bool:
    turns = round(of / lag)
    return abs(of - turns * lag) <= max(1.0, AGREE * of)


def _explained_better_by_multiple(correlation: FloatArray, lag: int, longest: int) -> bool:
    """Whether some later peak stands out over the one at *lag*: then *lag* is only a part of a step."""
    later = correlation[lag + lag // 2 : 2 * longest]
    return bool(len(later)) and float(np.max(later)) > float(correlation[lag]) / FRACTION


def _refine(correlation: FloatArray, lag: int) -> float:
    """The top of the parabola through the peak and its neighbours, in samples."""
    left, top, right = correlation[lag - 1 : lag + 2]
    bend = float(left - 2 * top + right)
    return lag if bend == 0 else lag + 0.5 * float(left - right) / bend
