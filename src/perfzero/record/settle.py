"""
Is the warm-up over? Answered while recording, from averages that cost nothing.

Model: the program has settled when, over the last `SPAN_S` seconds, every channel's one-second
means stay within `TOLERANCE` of their median, and the GPU works. What counts as no change shrinks
with how busy the GPU is: a library that tries out its kernels between long pauses on the host keeps
it busy 1 to 3 % of the time for many seconds, which is no steady state. It errs on the late side;
`Policy` falls back on 30 s. The judgement of the finished recording (`perfzero.series.steady`)
is made anew from all data; this one only decides when to look closely.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from perfzero.series.steady import ACTIVE

SPAN_S = 4.0
"""Long enough that a pause between two warm-up phases (autotuning, graph capture) is seen as a change."""

TOLERANCE = 0.15
"""Relative; a data-loader's natural jitter moves one-second means of a healthy run by about 5 %."""

FLOOR = 0.02
"""Absolute: differences of two points in a hundred never count as change on a busy GPU ..."""

FLOOR_SHARE = 0.1
"""... nor those of a tenth of the time in which the GPU works, on one that is seldom busy."""


class Settling:
    """Collects readings of several channels (ratios, NaN where missing) and says when they are calm."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, tuple[float, ...]]] = deque()
        self.settled_at: float | None = None

    def add(self, now_s: float, channels: Sequence[float]) -> None:
        """One reading at *now_s*; the first channel says whether the GPU works."""
        self._readings.append((now_s, tuple(channels)))
        while now_s - self._readings[0][0] > SPAN_S + 1.0:
            self._readings.popleft()
        if self.settled_at is None and self._calm(now_s):
            self.settled_at = now_s

    @property
    def working(self) -> bool:
        """Whether the GPU had something to do in the last second for which there are readings."""
        if not self._readings:
            return False
        recent = [c[0] for t, c in self._readings if t > self._readings[-1][0] - 1.0]
        return any(value > ACTIVE for value in recent)

    def _calm(self, now_s: float) -> bool:
        times = np.array([t for t, _ in self._readings])
        values = np.array([c for _, c in self._readings])
        if now_s - times[0] < SPAN_S:
            return False
        bins = np.floor((now_s - times) / 1.0).astype(int)
        means = []
        for b in range(int(SPAN_S)):
            rows = values[bins == b]
            if not len(rows):
                return False
            means.append(rows.mean(axis=0))
        table = np.array(means)
        table = table[:, np.isfinite(table).all(axis=0)]
        if not table.size or table[:, 0].min() <= ACTIVE:
            return False
        middle = np.median(table, axis=0)
        spread = np.abs(table - middle).max(axis=0)
        floor = min(FLOOR, FLOOR_SHARE * middle[0])
        return bool((spread <= np.maximum(TOLERANCE * middle, floor)).all())
