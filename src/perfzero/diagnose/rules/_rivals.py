"""
Findings that explain the same time about equally well: which they are, and what would decide.

Shares of time add up, causes do not: a GPU that waits for its host may do so for either of two
reasons that look alike in this recording. Then both are told, and what to look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from perfzero.diagnose.thresholds import OVERLAP, UNDECIDED
from perfzero.diagnose.verdict import Finding
from perfzero.words.said import say

CAUSES: Mapping[str, str] = {
    "launch_bound": say("rival.launch_bound"),
    "sync_bound": say("rival.sync_bound"),
    "input_starved": say("rival.input_starved"),
    "host_starved": say("rival.host_starved"),
    "debug_leftovers": say("rival.debug_leftovers"),
}
"""The rules that may explain the same idle time, in the words of a sentence's beginning."""

_QUOTA = say("rival.without_quota")
_SWITCH = say("rival.without_switch")

DECIDES: Mapping[frozenset[str], str] = {
    frozenset(("launch_bound", "sync_bound")): (say("rival.by_semaphore")),
    frozenset(("launch_bound", "host_starved")): _QUOTA,
    frozenset(("sync_bound", "host_starved")): _QUOTA,
    frozenset(("input_starved", "host_starved")): _QUOTA,
    frozenset(("debug_leftovers", "launch_bound")): _SWITCH,
    frozenset(("debug_leftovers", "sync_bound")): _SWITCH,
    frozenset(("debug_leftovers", "host_starved")): _SWITCH,
}
"""The evidence that would tell the two apart. All of these concern the class `idle`."""


def close(one: Finding, other: Finding) -> bool:
    """Whether neither is so much surer that the other need not be told."""
    return abs(one.confidence - other.confidence) < UNDECIDED.value


def with_rivals(findings: Iterable[Finding], *, idle: float) -> tuple[Finding, ...]:
    """
    *findings*, each with its surest rival, if it has one that is a reason to act and comes near.

    Two whose shares fit side by side into the *idle* share of the time explain different parts of it.
    """
    everyone = tuple(findings)
    return tuple(replace(one, undecided=_undecided(one, everyone, idle)) for one in everyone)


def _undecided(one: Finding, everyone: tuple[Finding, ...], idle: float) -> str:
    rivals = [
        other
        for other in everyone
        if frozenset((one.rule, other.rule)) in DECIDES
        and "info" not in (one.severity, other.severity)
        and min(one.share, other.share) > 0
        and not one.share + other.share <= idle + OVERLAP.value
        and close(one, other)
    ]
    if not rivals:
        return ""
    rival = max(rivals, key=lambda f: f.confidence)
    return say(
        "rival.may_explain", cause=CAUSES[rival.rule], decides=DECIDES[frozenset((one.rule, rival.rule))]
    )
