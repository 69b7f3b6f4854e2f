"""
What a finding gains and what limits next, by the remedy that comes first.

A remedy shows a gain only if that was computed for it: one that comes first by what was seen does not take
over the gain of another. What limits next is told of each that has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from perfzero.attribute.parts import Condition, Topic
from perfzero.attribute.standing import Others
from perfzero.diagnose.gain import LIMIT_NAMES, limit_after, middle, most_of
from perfzero.diagnose.verdict import Diagnosis, Finding, Gain, Remedy, TimeClass
from perfzero.words.said import say

MADE_FOR: Mapping[str, str] = {"launch_bound": say("try.graph")}
"""The remedy that a finding's gain was computed for, by rule, where that is not the first one."""

BECOMES: Mapping[str, str] = {
    **dict.fromkeys(("alignment", "tf32", "fused_attention"), LIMIT_NAMES["tensor"]),
    "chains": LIMIT_NAMES["memory"],
}
"""The limit of what a remedy leaves, by its topic, where that is another one than before."""

_NARROWS = frozenset({"activations", "by_channel", "float64"})
"""Topics whose remedies halve the bytes of all the GPU's work, whatever limits it, which keeps its limit."""

AS_MANY_LAUNCHES = frozenset(
    {"by_channel", "activations", "alignment", "float64", "pairwise", "serial_gradient", "tf32"}
)
"""Topics whose remedies make kernels shorter and no fewer, so that the host sets the pace at last."""

WITH_BESIDE = frozenset({"chains", "activations", "by_channel"})
"""Topics of which what is left is left of the time `beside`, too."""


def changed(diagnosis: Diagnosis, change: Callable[[Finding], Finding]) -> Diagnosis:
    """*diagnosis* with *change* made to each finding, the verdict, which is one of them, included."""
    findings = tuple(map(change, diagnosis.findings))
    verdict = diagnosis.verdict
    for before, after in zip(diagnosis.findings, findings, strict=True):
        if before is verdict:
            verdict = after
    headline = diagnosis.headline
    if verdict is not None and diagnosis.verdict is not None and headline == diagnosis.verdict.title:
        headline = verdict.title
    return replace(diagnosis, findings=findings, verdict=verdict, headline=headline)


def with_next_limits(diagnosis: Diagnosis, seen: Mapping[Topic, Condition]) -> Diagnosis:
    """*diagnosis* whose remedies with a gain of their own say what limits next, where that is another."""

    def told(finding: Finding, remedy: Remedy) -> Remedy:
        limit = remedy.next_limit
        if remedy.gain is not None and limit is None:
            limit = next_limit(finding, (remedy,), diagnosis.shares, seen)
        return replace(remedy, next_limit=None if limit == finding.next_limit else limit)

    return changed(
        diagnosis,
        lambda f: replace(f, remedies=(*f.remedies[:1], *(told(f, remedy) for remedy in f.remedies[1:]))),
    )


def with_gain(finding: Finding, remedies: tuple[Remedy, ...]) -> tuple[Remedy, ...]:
    """*remedies*, the gain of *finding* with the one that it was computed for, if that has none itself."""
    its = with_its_gain(finding)
    if its is None:
        return remedies
    return tuple(
        replace(r, gain=finding.gain) if r.text == its.text and r.gain is None else r for r in remedies
    )


def made_for(finding: Finding) -> Remedy | None:
    """The remedy that the rule of *finding* computes its gain for."""
    its = next((r for r in finding.remedies if r.text == MADE_FOR.get(finding.rule)), None)
    return its or next(iter(finding.remedies), None)


def with_its_gain(finding: Finding) -> Remedy | None:
    """The remedy whose gain is that of *finding*: of one that says its own it is the first one's by now."""
    its = made_for(finding)
    return its if its is None or its.gain is None else finding.remedies[0]


def led_by_its_first(
    finding: Finding,
    remedies: tuple[Remedy, ...],
    shares: Mapping[TimeClass, float],
    seen: Mapping[Topic, Condition] | None = None,
) -> Finding:
    """*finding* with *remedies*, each of which says its own gain; that of the first becomes the finding's."""
    gain = remedies[0].gain if remedies else None
    return replace(
        finding,
        gain=gain,
        next_limit=next_limit(finding, remedies, shares, seen or {}),
        remedies=tuple(r if at else replace(r, gain=None, next_limit=None) for at, r in enumerate(remedies)),
    )


def next_limit(
    finding: Finding,
    remedies: tuple[Remedy, ...],
    shares: Mapping[TimeClass, float],
    seen: Mapping[Topic, Condition],
) -> str | None:
    """
    What limits the program after the first of *remedies*; None where that is not known.

    What a remedy says itself counts. Of work that moves to another resource a look shows what it is, and what
    limits all else (`_after`). Where kernels become shorter and no fewer, the host may take longer to launch
    them (`_waits_for_host`).

    It is that of the *finding* with its gain; with another one what that saves comes off the classes of time
    that the finding is about. Idle time is filled with the work that there is, which stays as it is: with a
    gain that nobody knows, what takes most of that is the limit once the idle time is gone.
    """
    if not remedies:
        return None
    gain = remedies[0].gain
    if remedies[0].next_limit is not None:
        return remedies[0].next_limit
    if gain is not None and gain == finding.gain:
        return finding.next_limit
    if not shares or not finding.eased:
        return None
    if gain is not None:
        becomes, condition = BECOMES.get(remedies[0].topic), seen.get(cast(Topic, remedies[0].topic))
        saved = middle(gain)
        waits = 0.0 if condition is None else _waits_for_host(condition, saved, shares)
        if becomes is not None and condition is not None and condition.left and condition.others:
            return _after(condition, condition.left, condition.others, becomes, shares, waits)
        eased = finding.eased
        if condition is not None and condition.topic in _NARROWS:
            eased = tuple(c for c in shares if c not in ("idle", "copy", "communication"))
        waiting = {**shares, "idle": shares["idle"] + waits}
        return limit_after(waiting, saved + waits, eased=eased, becomes=becomes)
    if finding.eased != ("idle",):
        return None
    return limit_after(shares, finding.share, eased=finding.eased)


def _waits_for_host(condition: Condition, saved: float, shares: Mapping[TimeClass, float]) -> float:
    """
    For which share of the time now the GPU waits for launches after a remedy that *saved* so much of it.

    Its work is done by then, which is shorter by what the remedy takes away, and the host launches no faster.
    """
    if condition.left is None or condition.topic not in AS_MANY_LAUNCHES:
        return 0.0
    share = condition.share + (condition.beside if condition.topic in WITH_BESIDE else 0.0)
    alone = gain_left(share * (1.0 - shares["idle"] - shares["copy"]), condition.left, "")
    return 0.0 if alone is None else max(0.0, middle(alone) - saved)


def _after(
    condition: Condition,
    left: tuple[float, float],
    others: Others,
    becomes: str,
    shares: Mapping[TimeClass, float],
    waits: float,
) -> str:
    """
    What takes most of the time with the middle of what is *left* at *becomes*, *others* as they are, and the
    GPU that *waits* for the host.
    """
    busy = 1.0 - shares["idle"] - shares["copy"]
    kept: dict[TimeClass, float] = {c: shares[c] for c in ("idle", "copy")}
    rest = {"tensor": others.tensor, "memory": others.memory, "latency": others.latency}
    limits = {LIMIT_NAMES[name]: share * busy for name, share in rest.items()}
    limits |= {LIMIT_NAMES[c]: share for c, share in kept.items()}
    share = condition.share + (condition.beside if condition.topic in WITH_BESIDE else 0.0)
    limits[LIMIT_NAMES["idle"]] += waits
    limits[becomes] = limits.get(becomes, 0.0) + share * busy * math.sqrt(left[0] * left[1])
    return most_of(limits)


def gain_left(share: float, left: tuple[float, float], assumption: str) -> Gain | None:
    """The gain where of *share* of all time only *left* of it stays; None where that is not known."""
    if not 0 <= share <= 1:
        return None
    least, most = (1 / (1 - share * (1 - part)) for part in reversed(left))
    return Gain(least, most, assumption)
