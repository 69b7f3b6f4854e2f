"""
After how many samples a signal repeats itself beyond doubt; else nothing.

Model: an evenly spaced signal is correlated with itself (autocorrelation by FFT, mean and slope
taken off). A candidate is a clear peak. It becomes the period only if

    - the shift explains most of the signal (correlation at least `CLEAR`),
    - at least `REPEATS` periods fit into it,
    - no whole fraction of it explains nearly as much (then it is a multiple of the period),
    - no multiple explains more (then it is a micro-step, as in gradient accumulation).

Jitter and gradient accumulation defeat this (science.md §2.4), and then it stays silent.
`perfzero.series.steps` therefore looks for anchors first, and comes here for programs whose steps
have no mark of their own: several kernels in a row.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from perfzero.limits import CHOICE, H200, SIMULATED, Limit
from perfzero.values import FloatArray

CLEAR: Annotated[float, Limit("ratio", SIMULATED)] = 0.6
"""Least autocorrelation of a step: noise reaches 0.2, one phase per step with 5 % jitter 0.7 (simulated)."""

REPEATS: Annotated[int, Limit("count", CHOICE)] = 8
"""Fewer repetitions are found in noise too."""

SHORTEST: Annotated[int, Limit("count", CHOICE)] = 5
"""Samples per step: with fewer the shape of a step cannot be told from noise."""

FRACTION: Annotated[float, Limit("ratio", CHOICE)] = 0.85
"""A whole fraction that explains this much of what the candidate explains is the better candidate."""

BETWEEN: Annotated[float, Limit("ratio", SIMULATED)] = 0.6
"""
The same for both neighbours of a fraction of a few samples and a half: of steps of 5.5 samples the lags 5
and 6 explain 0.74, and 11 explains 0.99 (simulated).
"""

ALIAS: Annotated[float, Limit("ratio", CHOICE)] = 0.25
"""A peak this high below the shortest lag, as a share of the best, means that steps are shorter."""

AGREE: Annotated[float, Limit("ratio", CHOICE)] = 0.03
"""A lag is a multiple of another one to within 3 %."""

FLAT: Annotated[float, Limit("ratio", H200)] = 0.10
"""
A channel that varies less than this around its mean carries no steps.

Steps shorter than a sample leave a ripple that beats with the sampling: a bf16 product of 1.66 ms
sampled every 2 ms shows 3 % of ripple with a period of 10 ms (H200).
"""


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
    if not _is_multiple(best, lag) or _peak_between_samples(correlation, best):
        return None
    if float(correlation[lag]) < CLEAR or _explained_better_by_multiple(correlation, lag, longest):
        return None
    return peak_between(correlation, lag)


def autocorrelation(values: FloatArray) -> FloatArray:
    """Autocorrelation at lags 0..n/2, each by the number of pairs it is made from; 1 at lag 0."""
    count = len(values)
    # Long enough that no lag wraps around, and a power of 2: a length with large factors takes longer.
    length = 1 << (count + count // 2 - 1).bit_length()
    spectrum = np.fft.rfft(values, length)
    raw = np.fft.irfft(spectrum * np.conj(spectrum), length)[: count // 2]
    pairs = np.arange(count, count - len(raw), -1)
    return np.asarray(raw / pairs / (raw[0] / count), np.float64)


def _is_multiple(of: int, lag: int) -> bool:
    turns = round(of / lag)
    return abs(of - turns * lag) <= max(1.0, AGREE * of)


def _peak_between_samples(correlation: FloatArray, lag: int) -> bool:
    """Whether a whole fraction of *lag* is a short one that lies between two lags and explains as much."""
    for turns in range(2, lag // SHORTEST + 1):
        fraction = lag / turns
        below = int(fraction)
        if fraction < 2 * SHORTEST and 0.2 < fraction - below < 0.8:
            left, low, high, right = correlation[below - 1 : below + 3]
            if max(left, right) < min(low, high) and min(low, high) >= BETWEEN * correlation[lag]:
                return True
    return False


def _explained_better_by_multiple(correlation: FloatArray, lag: int, longest: int) -> bool:
    """Whether some later peak stands out over the one at *lag*: then *lag* is only a part of a step."""
    later = correlation[lag + lag // 2 : 2 * longest]
    return bool(len(later)) and float(np.max(later)) > float(correlation[lag]) / FRACTION


def peak_between(correlation: FloatArray, lag: int) -> float:
    """The top of the parabola through the peak at *lag* and its neighbours, in samples."""
    left, top, right = correlation[lag - 1 : lag + 2]
    bend = float(left - 2 * top + right)
    return lag if bend == 0 else lag + 0.5 * float(left - right) / bend
