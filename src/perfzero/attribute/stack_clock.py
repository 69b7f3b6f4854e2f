"""
The clock of stacks: times may be off by some milliseconds together.

A gap ends because the host launches. So near the ends of gaps the host launches after them and not before:
the offset is chosen at which this tells most (mutual information in nats), within what is known of the clock.
Where no line is known to launch, that which tells most by any lines is chosen. Where gaps *begin* tells
nothing: while the GPU works off its queue the host may be anywhere, and a gap in the midst of a line makes a
wrong clock look better than the true one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from perfzero.attribute.idle import Idle
from perfzero.attribute.moments import Moments
from perfzero.limits import CHOICE, SIMULATED, Limit
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, IntArray

OFFSET_STEP_NS = 500_000
"""Steps in which the clock is searched."""

LATE_NS: Annotated[int, Limit("nanoseconds", CHOICE)] = 1_000_000
"""
Times are hardly too late by more: py-spy cannot begin to count before it runs, but a busy machine may let it
run later than is taken. So what looks the same further back in the step is not mistaken for the truth.
"""

MOST_SLACK_NS = 20_000_000
"""The clock is searched no farther: it is known to 4 ms, else a file takes minutes."""

CLOCK_SIGMAS = 4.0
"""The clock's slack is so many standard deviations of it."""

CLOCK_RMS_NS: Annotated[int, Limit("nanoseconds", SIMULATED)] = 700_000
"""
By so much the clock of stacks is off once it is set, in simulated programs of which the slack is 4 ms
(docs/host.md).
"""

TEMPER_LAUNCHES = 0.3
TEMPER = 0.1
"""
How much of the information counts against what is known of the clock, of launching and of lines. All of it
would mean that moments are independent and that lines are pure.
"""

NEAR_NS = 3_000_000
"""So near to the end of a gap moments count, and no farther than the gap or the work after it lasts."""

LEAST_NEAR: Annotated[int, Limit("count", CHOICE)] = 20
"""Moments near the ends of gaps; fewer leave the clock of stacks as it is."""


def clock_offset_ns(moments: Moments, launches: BoolArray, idle: Idle, *, slack_ns: int) -> int:
    """What to add to the times of *moments*; *launches*: the leaves at which the host is known to launch."""
    slack_ns = min(max(1, slack_ns), MOST_SLACK_NS)
    least, most = -min(LATE_NS, slack_ns) // OFFSET_STEP_NS, slack_ns // OFFSET_STEP_NS
    best, best_score = 0, -math.inf
    for step in sorted(range(least, most + 1), key=abs):
        offset_ns = step * OFFSET_STEP_NS
        score = _told(moments.shifted(offset_ns), launches, idle)
        score -= 0.5 * (CLOCK_SIGMAS * offset_ns / slack_ns) ** 2
        if score > best_score:
            best, best_score = offset_ns, score
    return best


def left_ns(slack_ns: int) -> float:
    """By how much a clock may be off once it is set, as a standard deviation."""
    return min(float(CLOCK_RMS_NS), max(0, slack_ns) / CLOCK_SIGMAS)


def _told(moments: Moments, launches: BoolArray, idle: Idle) -> float:
    """How much lines tell of which side of the end of a gap a moment is on."""
    value = idle.at(moments.time_ns)
    known = np.isfinite(value)
    if not launches.any():
        return TEMPER * moments.where(known).count * information(moments.where(known), value[known])
    there = known & _near_ends(moments.time_ns, idle)
    near, value = moments.where(there), value[there]
    if near.count < LEAST_NEAR:
        return 0.0
    launching = launches[near.leaf]
    told = TEMPER_LAUNCHES * near.count * information(replace(near, leaf=launching.astype(np.int64)), value)
    before, after = (float(near.weight @ (launching * part)) for part in (value, 1 - value))
    return told if after >= before else -told


def _near_ends(time_ns: IntArray, idle: Idle) -> BoolArray:
    if not len(idle.end_ns):
        return np.zeros(len(time_ns), np.bool_)
    gap_ns = idle.end_ns - idle.start_ns
    work_ns = np.append(idle.start_ns[1:] - idle.end_ns[:-1], NEAR_NS)
    reach_ns = np.minimum(np.minimum(gap_ns, work_ns), NEAR_NS)
    following = np.searchsorted(idle.end_ns, time_ns)
    last = len(idle.end_ns) - 1
    before = np.minimum(following, last)
    after = np.clip(following - 1, 0, last)
    is_before = (following <= last) & (idle.end_ns[before] - time_ns <= reach_ns[before])
    is_after = (following > 0) & (time_ns - idle.end_ns[after] < reach_ns[after])
    return np.asarray(is_before | is_after, np.bool_)


def information(moments: Moments, idle: FloatArray) -> float:
    """Mutual information in nats of the leaf and of whether the GPU is idle."""
    leaf, weight = moments.leaf, moments.weight
    table: Any = np.stack([np.bincount(leaf, weight * idle), np.bincount(leaf, weight * (1 - idle))])
    table = table / moments.count
    independent = table.sum(0) * table.sum(1)[:, None]
    there = table > 0
    return float(np.sum(table[there] * np.log(table[there] / independent[there])))
