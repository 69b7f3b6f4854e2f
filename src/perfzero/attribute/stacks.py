"""
Which line of the program the GPU waits for: idle time seen by counters, and stacks of the host.

    stacks   moments at which the main thread was seen, at random, so shares of moments are shares of time
             (`attribute.moments`); what it did then (`host_activity`, `attribute.leaves`)
    gaps     when the GPU had nothing to do, from PM samples of 1 to 2 ms (`attribute.idle`), or by averages
             over half a second where it stands still for longer than these
    clock    by how much the times of stacks are off (`attribute.stack_clock`)
    share    of the idle time that would be gone without the line (`attribute.shares`)
    lines    what shares are told of (`attribute.lines`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from perfzero.attribute.causes import Cause, HostCauses, StageShare
from perfzero.attribute.host_activity import LAUNCHING, UPDATES, WAITS_FOR_GPU, Meaning, TextOf
from perfzero.attribute.host_chain import computes
from perfzero.attribute.idle import Idle, idle_time
from perfzero.attribute.leaves import leaves_of, on_arrays, with_copies, with_gil, with_waits
from perfzero.attribute.lines import told
from perfzero.attribute.loader_workers import stages_of
from perfzero.attribute.memory_calls import with_memory_calls
from perfzero.attribute.moments import MOST_FRAMES, Moments, frames_in, main_thread, moments_of, visits_of
from perfzero.attribute.own_work import own_work
from perfzero.attribute.shares import Shares
from perfzero.attribute.stack_clock import clock_offset_ns, information, left_ns
from perfzero.attribute.starts import with_starts
from perfzero.attribute.torn import whole_stacks
from perfzero.attribute.updating import way_of_update
from perfzero.limits import CHOICE, Limit
from perfzero.stacks import Frame, HostStacks
from perfzero.values import Samples
from perfzero.words.said import say

__all__ = ["Cause", "HostCauses", "StageShare", "causes_by_averages", "host_causes"]

LEAST_IDLE: Annotated[float, Limit("ratio", CHOICE)] = 0.02
"""Less of the time is not worth an explanation, and too little to find one."""

LEAST_SAMPLES: Annotated[int, Limit("count", CHOICE)] = 100
"""Moments in the windows; of fewer, shares are off by more than 5 points as a rule."""

PLACED: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""
Of the idle time, in gaps that can be placed: with less, averages do not tell when the GPU had nothing to do.
"""

MOST_MEANINGS = 4_000
"""Different meanings of stacks, of which 10 s have no more than moments."""

TOO_MANY = say("stacks.too_many")


def host_causes(stacks: HostStacks, pm: Samples) -> HostCauses:
    """What the host did while the GPU of the PM samples *pm* was idle."""
    main = next((p for p in stacks.processes if p.role == "main"), None)
    if main is None or not len(main):
        return HostCauses(reason=stacks.doubts[0] if stacks.doubts else say("stacks.not_sampled"))
    text_of = _texts(stacks)
    thread = main_thread(main)
    if frames_in(main, main.thread == thread) > MOST_FRAMES:
        return HostCauses(reason=TOO_MANY)
    main = whole_stacks(main, thread)
    idle = idle_time(pm, start_ns=main.start_ns, end_ns=main.end_ns)
    if idle is None:
        return HostCauses(reason=say("stacks.no_counters"))
    leaves, leaf_of = leaves_of(main, text_of)
    if len(leaves) > MOST_MEANINGS:
        return HostCauses(reason=TOO_MANY)
    leaves, visits = with_starts(leaves, visits_of(main, leaf_of))
    moments = moments_of(visits)
    launches = np.array([leaf.activity in LAUNCHING for leaf in leaves], np.bool_)
    offset_ns = clock_offset_ns(moments, launches, idle, slack_ns=main.slack_ns)
    leaves = with_waits(leaves, moments.shifted(offset_ns), idle, main, text_of)
    computing = computes(leaves, moments.shifted(offset_ns), idle)
    moments = moments_of(visits, idle, offset_ns=offset_ns, computing=computing)
    moments = moments.shifted(offset_ns)
    moments = moments.where(np.isfinite(idle.at(moments.time_ns)))
    if not len(moments.time_ns):
        return HostCauses(reason=say("stacks.no_counters"))
    idle_s = float(np.sum(idle.end_ns - idle.start_ns)) / 1e9 + float(np.sum(idle.short_s))
    known: dict[str, Any] = {
        "idle": idle_s / idle.covered_s,
        "seconds": idle.covered_s,
        "moments": round(moments.count),
        "offset_s": offset_ns / 1e9,
        "told": moments.count * information(moments, idle.at(moments.time_ns)),
        "start_ns": int(pm.start_ns.min()),
        "end_ns": int(pm.end_ns.max()),
    }
    if known["moments"] < LEAST_SAMPLES:
        return HostCauses(**known, reason=say("stacks.too_rarely"))
    if known["idle"] < LEAST_IDLE:
        return HostCauses(**known, reason=say("stacks.hardly_idle"))
    leaves = with_copies(leaves, moments, idle, pm, text_of)
    leaves = with_memory_calls(leaves, moments, idle, pm, arrays=on_arrays(main))
    known["in_torch"] = _in_torch(leaves, moments, idle)
    known["update"] = way_of_update(main, thread)
    rate_hz = moments.count / idle.covered_s
    leaves, at_work, looks = with_gil(leaves, moments, idle, stacks.gil, text_of)
    shares = Shares(
        leaves, at_work, idle, looks, computing=computing, rate_hz=rate_hz, clock_ns=left_ns(main.slack_ns)
    )
    own = own_work(leaves, replace(visits, time_ns=visits.time_ns + offset_ns), idle)
    found = told(leaves, moments, shares, text_of, rate_hz=main.rate_hz, own=own)
    stages = stages_of(stacks, text_of)
    causes = tuple(_with_stages(_as_update(cause), stages) for cause in found)
    return HostCauses(causes, **known)


def causes_by_averages(stacks: HostStacks, gpm: Samples) -> HostCauses | None:
    """
    What the host did while the GPU was idle by the averages *gpm*, which have no holes; None where they are
    too long to tell: most of the idle time has to lie in and beside averages without any activity.
    """
    main = next((p for p in stacks.processes if p.role == "main"), None)
    idle = None if main is None else idle_time(gpm, start_ns=main.start_ns, end_ns=main.end_ns)
    if idle is None:
        return None
    placed_s = float(np.sum(idle.end_ns - idle.start_ns)) / 1e9
    if not placed_s > PLACED * (placed_s + float(np.sum(idle.short_s))):
        return None
    return host_causes(stacks, gpm)


def _in_torch(leaves: Sequence[Meaning], moments: Moments, idle: Idle) -> float:
    """In what share of the idle time the host is in calls that launch, copy or wait for the GPU."""
    calls = np.array([leaf.activity in LAUNCHING | WAITS_FOR_GPU for leaf in leaves], np.bool_)
    idle_there = moments.weight * idle.at(moments.time_ns)
    return float(idle_there[calls[moments.leaf]].sum() / max(float(idle_there.sum()), 1e-9))


def _texts(stacks: HostStacks) -> TextOf:
    lines = stacks.lines

    def text_of(frame: Frame) -> str:
        return lines.get((frame.file, frame.line), "")

    return text_of


def _as_update(cause: Cause) -> Cause:
    """
    *cause*, which launches where it runs an optimizer and is Python otherwise.

    Operators have no frame of their own, so an optimizer that is no part of PyTorch is seen in its own Python
    alone; what it does there is to launch kernels for its parameters.
    """
    updates = cause.activity == "python" and UPDATES.search(cause.text) is not None
    return replace(cause, activity="launching") if updates else cause


def _with_stages(cause: Cause, stages: tuple[StageShare, ...]) -> Cause:
    return replace(cause, stages=stages) if cause.activity == "loader" else cause
