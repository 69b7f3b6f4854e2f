"""The rule for what a search for a bug left behind: switches and tools that slow the host or the GPU."""

from __future__ import annotations

from typing import Literal

from perfzero.diagnose import gain
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.leftovers import LAUNCH_BLOCKING, Leftover, Slows, leftovers
from perfzero.diagnose.remedies import remedies_for
from perfzero.diagnose.rules.idle import launch_bound
from perfzero.diagnose.thresholds import (
    COMM_WATCH,
    COMPUTE_WATCH,
    FINE_IDLE,
    HOST_NOT_AHEAD,
    IDLE_WATCH,
    RECOVER_SYNC,
    SOME_LAUNCHES,
)
from perfzero.diagnose.verdict import Finding, Gain
from perfzero.text import percent
from perfzero.words.said import listed, say

NAMED = 5
"""Leftovers told in a finding; more of them would not be read."""


def debug_leftovers(e: Evidence) -> Finding | None:
    """Switches and tools for finding bugs, left on in a program that is meant to be fast."""
    found = leftovers(e.observation.process)
    if not found:
        return None
    cause = _blocking_is_the_cause(e, found)
    felt = [one for one in found if _felt(e, one.slows)]
    first = sorted(found, key=lambda one: (one not in felt, found.index(one)))[:NAMED]
    because = [say("leftover.is_on", name=one.name, what=one.what) for one in first]
    idle = e.idle_unclaimed
    severity: Literal["info", "watch", "bad"] = "watch" if felt else "info"
    title = say("leftover.title", names=listed(one.name for one in first))
    if cause:
        severity = "bad"
        title = say("leftover.blocking", name=LAUNCH_BLOCKING, idle=percent(idle))
        because.insert(0, say("leftover.gaps"))
    expected = _gain(e) if cause else None
    return Finding(
        rule="debug_leftovers",
        title=title,
        severity=severity,
        share=idle if cause else 0.0,
        # That it is on is certain. What it costs is not, but where launches wait that is the reason.
        confidence=e.confidence(idle, over=IDLE_WATCH, classes=("idle",), certainty=0.95)
        if cause
        else e.quality * (0.7 if felt else 0.4),
        because=tuple(because),
        gain=expected,
        remedies=remedies_for("debug_leftovers", e) if severity != "info" else (),
        next_limit=gain.next_limit(e, expected, eased=("idle",)) if cause else None,
        eased=("idle",) if cause else (),
    )


def _blocking_is_the_cause(e: Evidence, found: tuple[Leftover, ...]) -> bool:
    """Whether launches that wait explain the idle time: short gaps, and a queue that never holds the next."""
    if not any(one.slows == "launches" for one in found) or e.split is None:
        return False
    if not e.share("idle") >= IDLE_WATCH.value or not e.split.fine_idle >= FINE_IDLE.value:
        return False
    # A host that is seen to run ahead contradicts the variable: the program has unset it.
    ahead = e.idle.queue.ahead
    return e.level("launches") >= SOME_LAUNCHES.value and not ahead >= HOST_NOT_AHEAD.value


def _felt(e: Evidence, slows: Slows) -> bool:
    """Whether the time that such a leftover costs is seen at all."""
    idle = e.share("idle") >= IDLE_WATCH.value
    if slows == "fp32":
        return e.share("fma") >= COMPUTE_WATCH.value
    if slows == "collectives":
        return e.share("communication") >= COMM_WATCH.value
    return slows == "host" and idle


def _gain(e: Evidence) -> Gain | None:
    """That of the launches, where they come too late anyway; else that of waits which can go."""
    other = launch_bound(e)
    if other is not None:
        return other.gain
    return gain.expect(
        e,
        e.share("idle"),
        recovered=RECOVER_SYNC,
        assumption=say("gain.waits_can_go"),
    )[0]
