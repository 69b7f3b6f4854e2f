"""
What is too fast for the samples, or hidden between waits, and yet shows that a rhythm is no step.

Sampling makes slow patterns out of beats of a few samples or less; they vanish in the mean over some.
Steps that noise hides leave only the stalls between them regular. The model of which this is a part is in
`perfzero.series.steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from perfzero.limits import CHOICE, SIMULATED, Limit
from perfzero.series.anchors import Stretch, Train
from perfzero.series.period import autocorrelation, peak_between
from perfzero.series.rhythms import ALIKE, Rhythm, regular_part_s
from perfzero.series.stats import robust_spread
from perfzero.values import FloatArray

SHORTEST: Annotated[int, Limit("count", CHOICE)] = 5
"""Samples per step: with fewer the shape of a step cannot be told from noise."""

RESOLVED: Annotated[int, Limit("count", CHOICE)] = 8
"""Samples per step from which on a table that shows no step disproves it."""

FALLS_ALIKE: Annotated[float, Limit("count", SIMULATED)] = 0.15
"""
So many samples off a whole number of them, a group of beats still falls on the samples as the one before:
beats of 6.93 samples were told to be steps of 14 beats, or 97.02 samples (simulated).
"""

ROUNDING = 1e-6
"""Relative: counters are whole numbers of thousands and more, so that smaller changes are not theirs."""

HASTY: Annotated[float, Limit("ratio", CHOICE)] = 0.25
"""Autocorrelation at a few samples that shows beats of that length; noise reaches 0.1 in 1000 samples."""

ABOVE_VALLEYS: Annotated[float, Limit("ratio", CHOICE)] = 0.1
"""... and by so much it stands above the lags around it: by more than noise does."""

PER_WAIT: Annotated[float, Limit("ratio", CHOICE)] = 4.0
"""So many regular beats between two waits, and the waits may be what happens now and then."""

PLAIN: Annotated[float, Limit("ratio", SIMULATED)] = 0.1
"""
Autocorrelation while the GPU works that shows something faster between waits, if chance makes none as high:
8 micro-steps in a step of six samples with 15 % of jitter reach 0.13 and more (simulated).
"""

BEYOND_CHANCE: Annotated[float, Limit("standard deviations", CHOICE)] = 4.0
"""Chance makes none of so many times 1 / √n, the standard error for n pairs of samples, in two channels."""

ENOUGH = 50_000
"""Samples of a stretch, and of the stretches before it, from which on more would not make that surer."""

AT_REST: Annotated[float, Limit("ratio", CHOICE)] = 0.25
"""A sample this much less active than the most active one belongs to a wait."""

SELDOM: Annotated[float, Limit("ratio", CHOICE)] = 0.005
"""A GPU that rests for less of the time than this has no stalls that could be taken for steps."""

RIPPLE: Annotated[float, Limit("ratio", CHOICE)] = 0.15
"""A coarse table stays this level over several steps that are shorter than its samples."""

AVERAGED = 4
"""Steps over which the coarse table is averaged for that."""

EDGES: Annotated[float, Limit("ratio", CHOICE)] = 0.02
"""Share of the coarse samples that need not: where the program begins and ends."""

BARELY: Annotated[float, Limit("ratio", CHOICE)] = 0.02
"""A level that never exceeds this does not count when levels are compared."""

BARELY_BYTES: Annotated[float, Limit("bytes/s", CHOICE)] = 5e10
"""The same for bytes per second: 1 % of what an H200 can move."""


def hasty_beats(parts: tuple[Stretch, ...]) -> list[float]:
    """
    Repetitions after no more samples than a step needs, in seconds.

    Both 4.5 samples and 5.3 show at 5, and which it is shows at the multiples. Steps of 1.25 samples do, too.
    """
    found: list[float] = []
    longest = max(parts, key=lambda part: part.rows)
    for column in longest.columns.values():
        known = np.isfinite(column)
        if known.sum() * 2 < longest.rows or not float(np.nanstd(column)) > 0:
            continue
        filled = np.interp(np.arange(longest.rows), np.flatnonzero(known), column[known])
        alike = autocorrelation(filled - np.mean(filled))
        inner = alike[1 : 2 * SHORTEST + 1]
        below, above = alike[: 2 * SHORTEST], alike[2 : 2 * SHORTEST + 2]
        peaks = np.flatnonzero((inner > below) & (inner >= above) & (inner >= HASTY)) + 1
        for peak in peaks[(peaks > 1) & (peaks <= SHORTEST)].tolist():
            # Where long waits make it fall slowly, any ripple on the slope has a top.
            valleys = float(np.min(alike[1:peak])), float(np.min(alike[peak + 1 : 2 * peak + 1]))
            lag = _between_samples(alike, peak)
            if alike[peak] - max(valleys) >= ABOVE_VALLEYS:
                found.append(lag * longest.spacing_ns / 1e9)
    return found


def falls_alike(beat: Rhythm, pitch_s: float) -> bool:
    """Whether *beat* is a whole number of samples long each time, as what sampling makes of even beats is."""
    count = beat.mean_s / pitch_s
    return max(abs(count - round(count)), beat.jitter * count) <= FALLS_ALIKE


def _between_samples(alike: FloatArray, peak: int) -> float:
    """The lag of a *peak* of the autocorrelation *alike*, by its second and fourth one if they show."""
    lag = peak_between(alike, peak)
    for turns in (2, 4):
        first = round(turns * lag) - 1
        around = alike[first : first + 3]
        top = first + int(np.argmax(around)) if len(around) else 0
        if not 0 < top < len(alike) - 1 or alike[top] < max(HASTY, alike[top - 1], alike[top + 1]):
            break
        lag = peak_between(alike, top) / turns
    return lag


def beats_between(step_s: float, every: Sequence[Train], parts: tuple[Stretch, ...]) -> bool:
    """
    Whether two channels tell of regular beats between waits, several in each *step_s*.

    They fill too little of the time to be a rhythm themselves if checkpoints take a third of it, or noise
    hides too many of their onsets. They are not the answer for that: the micro-steps of a step that ends in a
    wait look the same.
    """
    if never_rests(parts):
        return False
    if _repeats_between(step_s, parts):
        return True
    shortest_s = SHORTEST * max(part.spacing_ns for part in parts) / 1e9
    found = [(train.channel, beat_s) for train in every if (beat_s := regular_part_s(train, parts)) > 0]
    fit = [(channel, s) for channel, s in found if shortest_s <= s <= step_s / PER_WAIT]
    return any(len({channel for channel, s in fit if abs(s - one) <= ALIKE * one}) >= 2 for _, one in fit)


def _repeats_between(step_s: float, parts: Sequence[Stretch]) -> bool:
    """
    Whether two channels repeat themselves after a few samples while the GPU works, several times in *step_s*.

    In steps of up to `RESOLVED` samples onsets are lost in noise: then only the stalls are regular, and may
    take as little of the time as they like. So samples of rest are left out, or they would hide the steps.
    """
    pitch_s = max(part.spacing_ns for part in parts) / 1e9
    longest = min(2 * RESOLVED, int(step_s / PER_WAIT / pitch_s))
    before = np.cumsum([0, *(part.rows for part in parts)])
    parts = [part for part, rows in zip(parts, before[:-1], strict=True) if rows < ENOUGH]
    active = [part.columns["gr_active"] for part in parts if "gr_active" in part.columns]
    if longest < 2 or len(active) < len(parts):
        return False
    rest = AT_REST * max(float(np.nanmax(own, initial=0.0)) for own in active)
    shown = np.zeros(longest + 2, np.int64)
    for name in parts[0].columns:
        views = [
            np.where(own >= rest, part.columns[name], np.nan)[:ENOUGH]
            for own, part in zip(active, parts, strict=True)
        ]
        lags = np.array(_twice_alike(views, longest), np.int64)
        # Of 4.5 samples one channel may show 4 and another one 5.
        shown += np.isin(np.arange(longest + 2), np.r_[lags, lags + 1])
    return bool(np.any(shown >= 2))


def _twice_alike(views: Sequence[FloatArray], longest: int) -> list[int]:
    """
    The lags of 2 to *longest* samples after which *views* are like themselves, and after twice as many again.

    The two ends of a short wait are alike too, but only once.
    """
    alike, chance = _alike_where_known(views, 3 * longest)
    found: list[int] = []
    for lag in range(2, longest + 1):
        once, twice = alike[lag], np.fmax.reduce(alike[2 * lag - 1 : 2 * lag + 2])
        before, between, after = alike[1:lag], alike[lag + 1 : 2 * lag], alike[2 * lag + 1 : 3 * lag + 1]
        peak = alike[lag - 1] < once >= max(alike[lag + 1], PLAIN, chance[lag])
        inside = min(once - np.min(before), min(once, twice) - np.fmin.reduce(between)) >= ABOVE_VALLEYS
        # Of few steps between two waits, none may be so far apart; then what comes after is not known.
        if peak and inside and not twice - np.fmin.reduce(after) < ABOVE_VALLEYS:
            found.append(lag)
    return found


def _alike_where_known(views: Sequence[FloatArray], longest: int) -> tuple[FloatArray, FloatArray]:
    """Autocorrelation of *views* at lags 0 to *longest* by its known pairs (NaN for few), and chance's."""
    known = np.concatenate(views)
    known = known[np.isfinite(known)]
    alike, chance = np.full(longest + 1, np.nan), np.full(longest + 1, np.inf)
    spread = float(np.var(known)) if len(known) else 0.0
    # A level without noise has rounding errors, and these repeat themselves.
    if not len(known) or spread <= ROUNDING**2 * float(np.mean(np.square(known))):
        return alike, chance
    alike[0] = 1.0
    rest = [view - np.mean(known) for view in views]
    for lag in range(1, longest + 1):
        products = np.concatenate([own[lag:] * own[: max(len(own) - lag, 0)] for own in rest])
        products = products[np.isfinite(products)]
        # Between waits that are close, few pairs are so far apart, and they say nothing.
        if len(products) >= (BEYOND_CHANCE / HASTY) ** 2:
            alike[lag] = float(np.mean(products)) / spread
            chance[lag] = BEYOND_CHANCE / np.sqrt(len(products))
    return alike, chance


def never_rests(parts: tuple[Stretch, ...]) -> bool:
    """Whether the GPU is active throughout: then no rhythm is one of stalls."""
    return rests(parts) < SELDOM


def rests(parts: tuple[Stretch, ...]) -> float:
    """Share of the samples in which the GPU rests; NaN where that was not counted."""
    columns = [part.columns["gr_active"] for part in parts if "gr_active" in part.columns]
    joined = np.concatenate(columns) if columns else np.empty(0)
    known = joined[np.isfinite(joined)]
    return float(np.mean(known < AT_REST * np.max(known))) if len(known) else float("nan")


def level_at(step_s: float, parts: tuple[Stretch, ...], *, over: float = AVERAGED) -> bool:
    """Whether *parts*, averaged over several steps of *step_s*, do not change: then nothing is slower."""
    for name in ("gr_active", "sm_active", "tensor_active", "dram_read_bytes", "dram_write_bytes"):
        columns = [(part, part.columns[name]) for part in parts if name in part.columns]
        if not columns:
            continue
        means: list[FloatArray] = []
        for part, column in columns:
            width = max(1, round(over * step_s / (part.spacing_ns / 1e9)))
            count = part.rows // width
            block = column[: count * width].reshape(count, width)
            known = np.isfinite(block).sum(axis=1)
            usable = known * 2 > width
            means.append(np.nansum(block, axis=1)[usable] / known[usable])
        joined = np.concatenate(means)
        if not len(joined):
            continue
        middle = float(np.median(joined))
        spread = robust_spread(joined)
        top = float(np.nanmax(np.concatenate([column for _, column in columns])))
        if top < (BARELY if name.endswith("active") else BARELY_BYTES):
            continue
        bound = max(RIPPLE * middle, 4.0 * spread, 0.05 * top)
        if spread > RIPPLE * max(middle, 0.1 * top) or np.mean(np.abs(joined - middle) > bound) > EDGES:
            return False
    return True
