"""
The clock of stacks: times may be off by some milliseconds together.

The offset is chosen that makes lines tell most about whether the GPU is idle (mutual information), within
what is known of the clock.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from perfzero.attribute.idle import Idle
from perfzero.attribute.moments import Moments
from perfzero.values import FloatArray

OFFSET_STEP_NS = 500_000
"""Steps in which the clock is searched."""

LATE_NS = 1_000_000
"""
Times are hardly too late by more: py-spy cannot begin to count before it runs, but a busy machine may let it
run later than is taken. So what looks the same further back in the step is not mistaken for the truth.
"""

MOST_SLACK_NS = 20_000_000
"""The clock is searched no farther: it is known to 4 ms, else a file takes minutes."""

CLOCK_SIGMAS = 4.0
"""The clock's slack is so many standard deviations of it."""

TEMPER = 0.1
"""
How much of the information counts against what is known of the clock. All of it would mean that moments are
independent and lines are pure; but where a gap begins in the middle of a line, a wrong clock makes it purer.
"""


def clock_offset_ns(moments: Moments, idle: Idle, *, slack_ns: int) -> int:
    """What to add to the times of *moments*, so that the lines tell most of whether the GPU is idle."""
    slack_ns = min(max(1, slack_ns), MOST_SLACK_NS)
    least, most = -min(LATE_NS, slack_ns) // OFFSET_STEP_NS, slack_ns // OFFSET_STEP_NS
    best, best_score = 0, -math.inf
    for step in sorted(range(least, most + 1), key=abs):
        offset_ns = step * OFFSET_STEP_NS
        value = idle.at(moments.time_ns + offset_ns)
        known = np.isfinite(value)
        if known.sum() < 2:
            continue
        seen = moments.where(known)
        told = TEMPER * seen.count * information(seen, value[known])
        score = told - 0.5 * (CLOCK_SIGMAS * offset_ns / slack_ns) ** 2
        if score > best_score:
            best, best_score = offset_ns, score
    return best


def information(moments: Moments, idle: FloatArray) -> float:
    """Mutual information in nats of the leaf and of whether the GPU is idle."""
    leaf, weight = moments.leaf, moments.weight
    table: Any = np.stack([np.bincount(leaf, weight * idle), np.bincount(leaf, weight * (1 - idle))])
    table = table / moments.count
    independent = table.sum(0) * table.sum(1)[:, None]
    there = table > 0
    return float(np.sum(table[there] * np.log(table[there] / independent[there])))
