"""
What stacks decide that counters leave open: by which name it is told that the GPU waits for its host.

From outside a host that is late is late, whatever it does meanwhile, and a GPU that stands still for long
does so between steps that are usual. The line at which the host is found for most of that time tells more:

    in the DataLoader    input_starved. So it is whatever the rhythm: the batches of several workers come in
                         bursts, and between these the GPU stands still for as long as a checkpoint takes
    waits for the GPU    sync_bound: host and GPU wait for each other, for whole milliseconds at a time

A host that is held back, by a quota or by others, is late with whatever it does, and keeps its name; so do
stalls in which Python's collector was seen at work, for it works at any line.

Shares of lines are known of all idle time, and a finding concerns a part of it. Of that part the line has at
least what it would have if all the rest were its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from perfzero.attribute.causes import Cause, HostCauses
from perfzero.diagnose.idle_shares import without_kernels
from perfzero.diagnose.rules._severity import of_share
from perfzero.diagnose.thresholds import IDLE_BAD, IDLE_WATCH, RUNQUEUE, THROTTLED
from perfzero.diagnose.verdict import Diagnosis, Fact, Finding, Remedy
from perfzero.limits import CHOICE, Limit
from perfzero.report.behind_wait import behind
from perfzero.report.host_lines import place, worth_telling
from perfzero.text import percent
from perfzero.words.said import say

MOSTLY: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Of a finding's time that is surely a line's; with less the finding keeps its name."""

REMEDY: Mapping[str, str] = {
    "input_starved": say("try.less_in_loader"),
    "sync_bound": say("try.read_less"),
}
"""What is to be done about the line, by the name that it tells: from outside it has to be looked up first."""

_LATE = frozenset({"host_starved", "periodic_stall"})
_LOOK_UP = say("try.see_main_thread")
_GPU_UP = say("worked.active_rises")


def named_by_lines(
    diagnosis: Diagnosis, host: HostCauses | None, *, otherwise: Callable[[Finding], bool] = lambda _: False
) -> Diagnosis:
    """*diagnosis* by the names that lines of *host* tell, but of findings that are explained *otherwise*."""
    idle = without_kernels(diagnosis.shares)
    worth = worth_telling(host, idle)
    first = host.causes[0] if host is not None and host.causes else None
    if first is None or first not in worth or not idle > 0 or _held_back(diagnosis.facts):
        return diagnosis
    # Of a wait and the work behind it, which are one cause, the longer one tells how much they explain.
    late = behind(worth)
    most = first if late is None or late.share < first.share else late
    names: dict[str, Finding] = {}
    its = ""
    for finding in diagnosis.findings:
        told = finding
        if finding.rule in _LATE and not otherwise(finding) and _part(most, finding, idle) >= MOSTLY:
            told = _renamed(finding, worth)
        names[told.rule] = _together(names[told.rule], told) if told.rule in names else told
        if diagnosis.verdict is not None and finding.rule == diagnosis.verdict.rule:
            its = told.rule
    if diagnosis.verdict is None:
        return replace(diagnosis, findings=tuple(names.values()))
    verdict = names[its]
    return replace(diagnosis, findings=tuple(names.values()), verdict=verdict, headline=verdict.title)


def _held_back(facts: Mapping[str, Fact]) -> bool:
    """Whether the program is kept from a core, by a quota or by others."""

    def level(name: str) -> float:
        return facts[name].value if name in facts else math.nan

    quota, waits = level("host_throttled"), level("host_runqueue_wait")
    return quota >= THROTTLED.value or waits >= RUNQUEUE.value


def _part(line: Cause, finding: Finding, idle: float) -> float:
    """Which part of the time of *finding* is surely that of *line*."""
    part = min(1.0, finding.share / idle)
    return (line.share - (1 - part)) / part if part > 0 else 0.0


def _renamed(finding: Finding, causes: Sequence[Cause]) -> Finding:
    """*finding* by the name that the first of *causes* tells, if it tells one."""
    first = causes[0]
    if first.activity == "loader":
        title, told = say("input.title", idle=percent(finding.share)), say("input.at_loader")
        return _as("input_starved", finding, title, told)
    if first.activity == "synchronising" and finding.rule == "host_starved":
        title = say("sync.title", idle=percent(finding.share))
        return _as("sync_bound", finding, title, _in_turns(causes))
    return finding


def _in_turns(causes: Sequence[Cause]) -> str:
    late = behind(causes)
    if late is None:
        return say("sync.seen", wait=place(causes[0].frame))
    return say("sync.in_turns", wait=place(causes[0].frame), late=place(late.frame))


def _as(rule: str, finding: Finding, title: str, told: str) -> Finding:
    """*finding* as one of *rule*, *told* among its reasons, and a remedy in place of what stacks answer."""
    kept = () if finding.rule == "periodic_stall" else finding.remedies
    remedies = (*(r for r in kept if r.text != _LOOK_UP), Remedy(REMEDY[rule], (), _GPU_UP))
    because = (*(reason for reason in finding.because if reason != say("stall.beat")), told)
    return replace(finding, rule=rule, title=title, because=because, remedies=remedies)


def _together(one: Finding, other: Finding) -> Finding:
    """Two findings of one cause, the first of which is told."""
    share = one.share + other.share
    severity = of_share(share, watch=IDLE_WATCH, bad=IDLE_BAD)
    title = say("input.title", idle=percent(share)) if one.rule == "input_starved" else one.title
    because = tuple(dict.fromkeys((*one.because, *other.because)))
    return replace(one, share=share, severity=severity, title=title, because=because)
