"""
What watching cost in this very run.

CPU time is what the operating system says of the recorder and the sampler. The effect on the
program is estimated from what it achieves while PM sampling runs and while it does not: GPM,
which runs all the time and costs nothing that can be measured, gives the rate at which the
program moves device memory and uses the tensor cores. Each window is compared with its own
surroundings, so slow drifts cancel; a bootstrap over windows gives the interval.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from perfzero.limits import CHOICE, H200, Limit
from perfzero.values import FloatArray, Samples, Window
from perfzero.words.said import say

SURROUNDINGS_NS: Annotated[int, Limit("nanoseconds", CHOICE)] = 6_000_000_000
"""How far before and after a window its comparison reaches."""

SETTLE_NS: Annotated[int, Limit("nanoseconds", H200)] = 100_000_000
"""Opening and closing a session stalls the program for milliseconds: rows nearer than this are left out."""

COVERED: Annotated[float, Limit("ratio", CHOICE)] = 0.9
"""A row counts as inside a window that covers so much of it."""

FEWEST_WINDOWS: Annotated[int, Limit("count", CHOICE)] = 4
"""With fewer windows no interval can be had."""

RESAMPLES = 1000
"""The ends of the interval rest on 25 of them each, and move by less than a tenth of its width."""

SEED = 20261129

WIDEST: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""An interval wider than ±5 % says nothing about an effect of a few tenths of a percent."""

FEWEST_VALUES: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""A counter that is missing in more of the rows than this is not used."""

LEAST_ACTIVE: Annotated[float, Limit("ratio", CHOICE)] = 0.02
"""Mean activity of a counter from which on its changes are the program's and not the counter's."""

KEPT_NS = 6 * 3600 * 1_000_000_000
"""How far back `Averages` remembers: six hours, a megabyte."""

KEPT_NAMES = ("gr_active", "dram_active", "tensor_active")
"""What the estimate needs of a GPM row."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """The effect on the program as a ratio (0.001 = 0.1 % slower) with its 95 % interval, or why not."""

    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


class Averages:
    """The GPM rows of the last `KEPT_NS`, as far as the estimate needs them, in 40 bytes each."""

    def __init__(self) -> None:
        self._times = (array("q"), array("q"))
        self._values = tuple(array("d") for _ in KEPT_NAMES)

    def __len__(self) -> int:
        return len(self._times[0])

    def add(self, rows: Samples) -> None:
        """Remember *rows*, and forget the oldest half when twice `KEPT_NS` has come together."""
        for row in range(len(rows)):
            self._times[0].append(int(rows.start_ns[row]))
            self._times[1].append(int(rows.end_ns[row]))
            for name, values in zip(KEPT_NAMES, self._values, strict=True):
                values.append(float(rows.column(name)[row]))
        if len(self) and self._times[1][-1] - self._times[0][0] > 2 * KEPT_NS:
            old = int(np.searchsorted(np.array(self._times[0]), self._times[1][-1] - KEPT_NS))
            for times in self._times:
                del times[:old]
            for values in self._values:
                del values[:old]

    def table(self) -> Samples:
        """All rows, ordered by their start."""
        order = np.argsort(np.array(self._times[0], np.int64), kind="stable")
        start, end = (np.array(times, np.int64)[order] for times in self._times)
        columns = {n: np.array(v, np.float64)[order] for n, v in zip(KEPT_NAMES, self._values, strict=True)}
        return Samples(start, end, columns)


def slowdown(gpm: Samples, windows: Iterable[Window]) -> Slowdown:
    """
    Compare the program's rate inside PM windows with that around them.

    *gpm* are averages, ordered, of the time in which the GPU worked. The rate is the mean of DRAM and
    tensor activity, each relative to its own mean, of those that are at least 2 %. Rows in which
    either is missing are left out.
    """
    rate = _rate(gpm)
    if rate is None:
        return Slowdown(None, note=say("cost.no_rate"))
    known = np.isfinite(rate)
    gpm, rate = gpm.where(known), rate[known]
    start, end = gpm.start_ns, gpm.end_ns

    def rows(first_ns: int, last_ns: int) -> slice:
        """The rows that touch [first_ns, last_ns)."""
        return slice(
            int(np.searchsorted(end, first_ns, "right")), int(np.searchsorted(start, last_ns, "left"))
        )

    windows = list(windows)
    effects: list[float] = []
    busy = np.zeros(len(gpm), bool)
    for w in windows:
        busy[rows(w.start_ns - SETTLE_NS, w.end_ns + SETTLE_NS)] = True
    for w in windows:
        near = rows(w.start_ns - SURROUNDINGS_NS, w.end_ns + SURROUNDINGS_NS)
        overlap = np.minimum(end[near], w.end_ns) - np.maximum(start[near], w.start_ns)
        inside = overlap >= COVERED * (end[near] - start[near])
        around = ~busy[near]
        if inside.any() and around.any():
            effects.append(1.0 - float(rate[near][inside].mean() / rate[near][around].mean()))
    if len(effects) < FEWEST_WINDOWS:
        return Slowdown(None, note=say("cost.few", count=len(effects)))
    values = np.array(effects)
    # Not NumPy's generators: their import alone costs more CPU than all of this.
    drawn = np.frombuffer(random.Random(SEED).randbytes(4 * RESAMPLES * len(values)), np.uint32)
    picks = (drawn % len(values)).reshape(RESAMPLES, len(values))
    means = np.sort(values[picks].mean(axis=1))
    low, high = means[round(0.025 * RESAMPLES)], means[round(0.975 * RESAMPLES) - 1]
    if high - low > 2 * WIDEST:
        return Slowdown(None, note=say("cost.varies", margin=f"{(high - low) / 2:.0%}"))
    return Slowdown(float(values.mean()), float(low), float(high))


def _rate(gpm: Samples) -> FloatArray | None:
    """The program's rate in each row, relative to its mean; None where nothing steady is to be seen."""
    parts = []
    for name in ("dram_active", "tensor_active"):
        values = gpm.column(name)
        finite = values[np.isfinite(values)]
        if len(finite) and len(finite) >= FEWEST_VALUES * len(values) and finite.mean() >= LEAST_ACTIVE:
            parts.append(values / finite.mean())
    return np.mean(parts, axis=0) if parts else None
