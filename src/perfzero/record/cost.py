"""
What watching cost in this very run.

CPU time is what the operating system says of the recorder and the sampler. The effect on the
program is estimated from what it achieves while PM sampling runs and while it does not: GPM,
which runs all the time and costs nothing that can be measured, gives the rate at which the
program moves device memory and uses the tensor cores. Each window is compared with its own
surroundings, so slow drifts cancel; a bootstrap over windows gives the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfzero.values import FloatArray, Samples, Window

SURROUNDINGS_NS = 6_000_000_000
"""How far before and after a window its comparison reaches."""

SETTLE_NS = 100_000_000
"""Opening and closing a session stalls the program for milliseconds: rows nearer than this are left out."""

COVERED = 0.9
"""A row counts as inside a window that covers so much of it."""

FEWEST_WINDOWS = 4
"""With fewer windows no interval can be had."""

RESAMPLES = 2000
SEED = 20261129

WIDEST = 0.05
"""An interval wider than ±5 % says nothing about an effect of a few tenths of a percent."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """The effect on the program as a ratio (0.001 = 0.1 % slower) with its 95 % interval, or why not."""

    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


def slowdown(gpm: Samples, windows: Sequence[Window]) -> Slowdown:
    """
    Compare the program's rate inside PM windows with that around them.

    *gpm* are the averages of the steady stretch. The rate is the mean of DRAM and tensor
    activity, each relative to its own mean, of those that are at least 2 %.
    """
    rate = _rate(gpm)
    if rate is None:
        return Slowdown(None, note="no steady rate of the program is visible from outside")
    effects: list[float] = []
    busy = np.zeros(len(gpm), bool)
    for w in windows:
        busy |= (gpm.end_ns > w.start_ns - SETTLE_NS) & (gpm.start_ns < w.end_ns + SETTLE_NS)
    for w in windows:
        overlap = np.minimum(gpm.end_ns, w.end_ns) - np.maximum(gpm.start_ns, w.start_ns)
        inside = overlap >= COVERED * (gpm.end_ns - gpm.start_ns)
        around = ~busy & (gpm.end_ns > w.start_ns - SURROUNDINGS_NS)
        around &= gpm.start_ns < w.end_ns + SURROUNDINGS_NS
        if inside.any() and around.any():
            effects.append(1.0 - float(rate[inside].mean() / rate[around].mean()))
    if len(effects) < FEWEST_WINDOWS:
        return Slowdown(None, note=f"only {len(effects)} windows could be compared with their surroundings")
    values = np.array(effects)
    picks = np.random.default_rng(SEED).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.percentile(values[picks].mean(axis=1), [2.5, 97.5])
    if high - low > 2 * WIDEST:
        return Slowdown(None, note=f"the program's own rate varies too much (±{(high - low) / 2:.0%})")
    return Slowdown(float(values.mean()), float(low), float(high))


def _rate(gpm: Samples) -> FloatArray | None:
    """The program's rate in each row, relative to its mean; None where nothing steady is to be seen."""
    parts = []
    for name in ("dram_active", "tensor_active"):
        values = gpm.column(name)
        if len(values) and np.isfinite(values).all() and values.mean() >= 0.02:
            parts.append(values / values.mean())
    return np.mean(parts, axis=0) if parts else None
