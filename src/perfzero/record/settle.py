"""
Is the warm-up over? Answered while recording, from averages that cost nothing.

Model: the program has settled when over the last `SPAN_S` seconds the GPU works and no channel
moves: its one-second means stay within `TOLERANCE` of their median, its single readings within
`TOLERANCE_READING`, and it does not rise by `RISE` (clocks that come up, a queue that fills; what
sinks may be the program itself getting slower, and is for the analysis to say). What counts as no
change shrinks with how busy the GPU is: a library that tries out its kernels between long pauses on
the host keeps it busy 1 to 3 % of the time for many seconds, which is no steady state.

Or it takes turns, faster than `SPAN_S`, and keeps doing it: the two halves of the last `TURNS_S`
seconds, each put in order, show the same levels, and in none of these seconds the GPU rests.

Or it has no level, but an even pace: what jitters from reading to reading (launches, now faster, now
slower) or works in bursts (batches that come when the loader has them) repeats itself for all that. Of
its work over the last `PACES_S` seconds as large a share is done at any moment as of the time, within
`EVEN`. That is the CUSUM test for a change of the mean (Ploberger and Kraemer 1992), whose sum a change
by d in the middle bends by d / 4, but against a fixed bound and not one in proportion to the scatter: what
scatters more has to keep it up for longer, and what scatters too much is never believed. Nor may it
rise, and its kernels must be the same ones throughout: what every channel did comes at the moments of the
GPU's activity (`MIX`). Trial kernels fail in both.

What has settled is watched on for `AGAIN_S`: a change of level that begins in this time, by more than is
called calm, and holds for `SPAN_S` says that the warm-up had not been over (`settled_again_at`). This
happens once, and not to what takes turns: that has no level. What keeps an even pace leaves it where it
leaves all that its readings had shown.

It errs on the late side; `Policy` falls back on 30 s. What it cannot know is what comes later: it
takes the first level that holds, be it the eager steps before a graph is captured. The judgement of
the finished recording (`perfzero.series.steady`) is made anew from all data; this one only decides
when to look closely. How well the two agree is in docs/steady.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfzero.series.steady import ACTIVE
from perfzero.values import FloatArray

SPAN_S = 4.0
"""Long enough that a pause between two warm-up phases (autotuning, graph capture) is seen as a change."""

TURNS_S = 12.0
"""Room for two turns of what is too fast to be level for `SPAN_S`, and for a pause among trial kernels."""

PACES_S = (8.0, 12.0)
"""
Spans over which a pace may be even, the shorter first: in 8 s a scatter of 25 % among readings averages
out; batches that come with pauses of a second need 12.
"""

EVEN = 0.06
"""
The share of the work by which it may be ahead or behind. On the H200 jitter of 25 % comes to 0.02 to 0.07,
batches in bursts to 0.05 to 0.08, from moment to moment, and no warm-up to less than 0.18. With 0.08 in
place of 0.06, 15 % of simulated trial kernels are taken for work, and not 3 %.
"""

MIX = 0.1
"""
The share of a channel's work that may come at other moments than the GPU's activity: 0.05 where batches
of unlike sizes are trained, 0.2 to 0.7 while cuDNN chooses its kernels (H200).
"""

AGAIN_S = 20.0
"""
Eager steps before a graph is captured, or a first epoch that fills a cache, last some seconds to tens of
them; a level that changes later is taken for what the program does.
"""

DOUBTED_AFTER_S = 1.0
"""Off its level for so long, the program may have left it."""

TOLERANCE = 0.15
"""Relative; a data-loader's natural jitter moves one-second means of a healthy run by about 5 %."""

TOLERANCE_READING = 0.4
"""The same for single readings: half a second may hold a step more or less; a pause shows as 100 %."""

RISE = 0.03
"""A rise by so much within the span is no calm, where it is more than the readings' own scatter explains."""

RISES_S = 1.5
"""What was seen to rise for so long is believed to have stopped only after two spans; less may be noise."""

FEWEST = 4
"""One reading of four seconds is level by nature; so many there must be in a span."""

COVERED = 0.5
"""A second of which less was read is unknown."""

FLOOR = 0.02
"""Absolute: differences of two points in a hundred never count as change on a busy GPU ..."""

FLOOR_SHARE = 0.1
"""... nor those of a tenth of the time in which the GPU works, on one that is seldom busy."""


@dataclass(frozen=True, slots=True)
class _Level:
    """Where a program is, by channel, and how far from there it still is where it was."""

    at: FloatArray
    room: FloatArray

    def left(self, channels: FloatArray) -> bool:
        """Whether some channel is away from here; one that is NaN is not."""
        return bool((np.abs(channels - self.at) > self.room).any())


class Settling:
    """Collects readings of several channels (ratios, NaN where missing) and says when they are calm."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, float, tuple[float, ...]]] = deque()
        self._last_s: float | None = None
        self._worked_s: float | None = None
        self._rising_s = 0.0  # for how long it was calm but for a rise
        self.settled_at: float | None = None
        self.settled_again_at: float | None = None
        self._level: _Level | None = None  # at which it settled, while that is watched
        self._off_s = 0.0  # for how long it has been off its level

    def add(self, now_s: float, channels: Sequence[float]) -> None:
        """One reading at *now_s*, for the time since the last; the first channel says if the GPU works."""
        since_s = 0.5 if self._last_s is None else min(max(1e-3, now_s - self._last_s), SPAN_S + 0.5)
        self._last_s = now_s
        self._readings.append((now_s, since_s, tuple(channels)))
        if channels[0] > ACTIVE or self._worked_s is None:
            self._worked_s = now_s
        while now_s - self._readings[0][0] > TURNS_S + 1.0:
            self._readings.popleft()
        if self.settled_at is None and self.working and self._settled(now_s):
            self.settled_at = now_s
            self._level = self._level_now(now_s)
        elif self._level is not None:
            self._watch(now_s, since_s, np.array(channels))

    def may_change(self, now_s: float) -> bool:
        """Whether a change of level would still be taken for the warm-up's."""
        return self.settled_at is None or (self._level is not None and now_s <= self.settled_at + AGAIN_S)

    @property
    def doubted(self) -> bool:
        """Whether the program seems to leave the level at which it settled."""
        return self._level is not None and self._off_s >= DOUBTED_AFTER_S

    @property
    def working(self) -> bool:
        """Whether the GPU had something to do in the last second for which there are readings."""
        if not self._readings:
            return False
        now_s = self._readings[-1][0]
        for at_s, _, channels in reversed(self._readings):
            if at_s <= now_s - 1.0:
                return False
            if channels[0] > ACTIVE:
                return True
        return False

    @property
    def rested_s(self) -> float:
        """For how long the GPU has had nothing to do: since a reading saw it work, or the first."""
        return 0.0 if self._last_s is None or self._worked_s is None else self._last_s - self._worked_s

    def _level_now(self, now_s: float) -> _Level | None:
        """The mean of each channel over the last span; None of what takes turns."""
        ends, lasted, values = self._arrays(now_s)
        calm = self._calm(ends, lasted, values, SPAN_S)
        span_s = SPAN_S if calm else _even_for(ends, lasted, values)
        if span_s is None:
            return None
        recent = ends < span_s
        at = np.asarray(np.average(values[recent], axis=0, weights=lasted[recent]), np.float64)
        room = np.maximum(TOLERANCE * at, min(FLOOR, FLOOR_SHARE * float(at[0])))
        if not calm:
            room = np.maximum(room, np.abs(values[recent] - at).max(axis=0))
        return _Level(at, room)

    def _watch(self, now_s: float, since_s: float, channels: FloatArray) -> None:
        assert self._level is not None
        assert self.settled_at is not None
        self._off_s = self._off_s + since_s if self._level.left(channels) else 0.0
        if now_s - self._off_s > self.settled_at + AGAIN_S or now_s > self.settled_at + 2 * AGAIN_S:
            self._level = None
        elif self._off_s >= SPAN_S and self.working and self._settled(now_s):
            new = self._level_now(now_s)  # single readings may all be off, to both sides
            if new is not None and self._level.left(new.at):
                self.settled_again_at, self._level = now_s, None

    def _arrays(self, now_s: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of the readings, (n,) and (n, channels): seconds since they ended, their lengths, their values."""
        ends = now_s - np.array([t for t, _, _ in self._readings])
        return ends, np.array([d for _, d, _ in self._readings]), np.array([c for _, _, c in self._readings])

    def _settled(self, now_s: float) -> bool:
        if now_s - self._readings[0][0] < SPAN_S:
            return False
        ends, lasted, values = self._arrays(now_s)
        if self._calm(ends, lasted, values, SPAN_S):
            # A slow rise hides in one span; two tell, if the program was as calm for so long.
            twice = self._calm(ends, lasted, values, 2 * SPAN_S)
            rises = any(
                _rises(-ends[recent], lasted[recent], values[recent], span_s=span_s)
                for span_s in ((SPAN_S, 2 * SPAN_S) if twice else (SPAN_S,))
                for recent in (ends + lasted < span_s + 0.1,)
            )
            self._rising_s = self._rising_s + float(lasted[-1]) if rises else self._rising_s
            return not rises and (twice or self._rising_s < RISES_S)
        self._rising_s = 0.0
        if _even_for(ends, lasted, values) is not None:
            return True
        if (ends + lasted)[0] < TURNS_S or (ends < TURNS_S).sum() < FEWEST * TURNS_S / SPAN_S:
            return False
        return _takes_turns(_means(ends, lasted, values, int(TURNS_S)))

    def _calm(self, ends: FloatArray, lasted: FloatArray, values: FloatArray, span_s: float) -> bool:
        if (ends < span_s).sum() < FEWEST:
            return False
        means = _means(ends, lasted, values, int(span_s))
        known = np.asarray(np.isfinite(means).all(axis=0))
        means = means[:, known]
        if not means.size or not known[0] or means[:, 0].min() <= ACTIVE:
            return False
        middle = np.median(means, axis=0)
        floor = min(FLOOR, FLOOR_SHARE * middle[0])
        if (np.abs(means - middle) > np.maximum(TOLERANCE * middle, floor)).any():
            return False
        # A reading much shorter than the others says little: one of 0.2 s is off by up to a third.
        whole = (ends + lasted < span_s + 0.1) & (lasted >= 0.5 * np.median(lasted))
        apart = np.abs(values[whole, 0] - middle[0])
        return bool((apart <= max(TOLERANCE_READING * float(middle[0]), floor)).all())


def _means(ends: FloatArray, lasted: FloatArray, values: FloatArray, seconds: int) -> FloatArray:
    """
    Means over the last so many seconds, one by one, (seconds, channels); NaN where unknown.

    A reading lasts from *ends* + *lasted* seconds ago until *ends* seconds ago, and counts by its part.
    """
    newest = np.arange(seconds)[:, None]
    overlap = np.minimum(ends + lasted, newest + 1.0) - np.maximum(ends, newest)
    weights = np.maximum(overlap, 0.0)
    total = weights.sum(axis=1, keepdims=True)
    total[total < COVERED] = np.nan
    return np.asarray(weights @ values / total, np.float64)


def _even_for(ends: FloatArray, lasted: FloatArray, values: FloatArray) -> float | None:
    """The shortest of `PACES_S` over which the work came at an even pace; None if there is none."""
    for span_s in PACES_S:
        if (ends + lasted)[0] < span_s or (ends < span_s).sum() < FEWEST * span_s / SPAN_S:
            return None
        recent = ends < span_s
        if _even(ends[recent], np.minimum(lasted, span_s - ends)[recent], values[recent], span_s=span_s):
            return span_s
    return None


def _even(ends: FloatArray, lasted: FloatArray, values: FloatArray, *, span_s: float) -> bool:
    """Whether the work of these readings, the newest last, came at an even pace, by the same kernels."""
    work = lasted[:, None] * values
    total = work.sum(axis=0)
    if not total[0] > ACTIVE * lasted.sum():
        return False
    matters = np.isfinite(total) & (total > FLOOR_SHARE * total[0])
    work = work[:, matters] / total[matters]
    ahead = work.cumsum(axis=0) - (lasted.cumsum() / lasted.sum())[:, None]
    if np.abs(ahead).max() > EVEN or np.abs(work - work[:, :1]).sum(axis=0).max() > MIX:
        return False
    return not _rises(-ends, lasted, values, span_s=span_s)


def _rises(times: FloatArray, lasted: FloatArray, values: FloatArray, *, span_s: float) -> bool:
    """
    Whether some channel may rise by `RISE` of its level, by a straight line through its readings.

    It may if the rise and its standard error reach that far, unless there is more error than rise.
    """
    if len(times) < FEWEST:
        return False
    level = np.average(values, axis=0, weights=lasted)
    matters = np.isfinite(level) & (level > FLOOR)
    if not matters.any():
        return False
    values, level = values[:, matters] / level[matters], level[matters]
    at = times - np.average(times, weights=lasted)
    scale = float(np.sum(lasted * at**2))
    slope = (lasted * at) @ values / scale
    rest = values - 1.0 - at[:, None] * slope
    error = np.sqrt((lasted[:, None] * rest**2).sum(axis=0) / scale / (len(times) - 2))
    rise, error = slope * span_s, error * span_s
    return bool((rise > np.maximum(RISE - error, error)).any())


def _takes_turns(means: FloatArray) -> bool:
    """Whether two halves of *means* (seconds, channels) are alike, whatever the order of their seconds."""
    means = means[:, np.isfinite(means).all(axis=0)]
    if not means.size or means[:, 0].min() <= ACTIVE:
        return False
    half = len(means) // 2
    later, earlier = np.sort(means[:half], axis=0), np.sort(means[half:], axis=0)
    floor = min(FLOOR, FLOOR_SHARE * float(means[:, 0].mean()))

    room = np.maximum(TOLERANCE * np.maximum(later, earlier), floor)
    return bool((np.abs(later - earlier) <= room).all())
