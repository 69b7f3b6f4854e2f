"""
Remedies after a look inside: what they rest on is seen, not supposed.

From outside a remedy comes with its condition: "(provided: it is a convolutional network under autocast)". A
look shows whether that is so (`attribute/conditions.py`). Where it is, the condition is left out, the layers
of which it holds are named, and the remedy comes before those that are still supposed, the one with the most
to gain first. Where it is not, the remedy is left out: it would change nothing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import replace

from perfzero import text
from perfzero.attribute.breakdown import Breakdown, Row
from perfzero.attribute.conditions import Condition, Topic, conditions
from perfzero.diagnose.verdict import Diagnosis, Finding, Gain, Remedy
from perfzero.report.breakdown import given

NAMED = 3
"""Layers by name; how many more there are is said."""

SETTLED: Mapping[Topic, str] = {
    "channels_last": "it is a convolutional network under autocast",
    "alignment": "some are not",
    "fused_optimizer": "the late part of the step is the optimizer's",
    "fused_attention": "attention computes its scores one by one",
    "activations": "they are in float32 now",
}
"""The condition of a remedy that a look settles, by its topic."""


def seen_inside(breakdowns: Iterable[Breakdown]) -> dict[Topic, Condition]:
    """What the looks tell of each topic: of several processes that in which most time is concerned."""
    found: dict[Topic, Condition] = {}
    for breakdown in breakdowns:
        for topic, condition in conditions(breakdown).items():
            if topic not in found or condition.share > found[topic].share:
                found[topic] = condition
    return found


def settled(diagnosis: Diagnosis, seen: Mapping[Topic, Condition], *, language: str = "en") -> Diagnosis:
    """*diagnosis* with the remedies as *seen* leaves them."""
    if not seen:
        return diagnosis
    findings = tuple(_settled(finding, seen, text.catalogue(language)) for finding in diagnosis.findings)
    verdict = diagnosis.verdict
    for before, after in zip(diagnosis.findings, findings, strict=True):
        if before is verdict:
            verdict = after
    return replace(diagnosis, findings=findings, verdict=verdict)


def _settled(finding: Finding, seen: Mapping[Topic, Condition], say: Mapping[str, str]) -> Finding:
    sure: list[Remedy] = []
    supposed: list[Remedy] = []
    for place, remedy in enumerate(finding.remedies):
        condition = next((seen[topic] for topic in seen if topic == remedy.topic), None)
        need = "" if condition is None else SETTLED.get(condition.topic, "")
        # The gain of a finding is that of its first remedy, which may be another one now.
        own = remedy if place or remedy.gain is not None else replace(remedy, gain=finding.gain)
        if condition is None or need not in ("", *remedy.needs) or not (need or condition.holds):
            supposed.append(own)
        elif condition.holds:
            (sure if need else supposed).append(_named(own, condition, need, say))
    remedies = (*sorted(sure, key=_most, reverse=True), *supposed)
    if remedies == finding.remedies or not remedies:
        return replace(finding, remedies=remedies)
    first = replace(remedies[0], gain=None)
    if remedies[0].gain in (None, finding.gain):
        return replace(finding, remedies=(first, *remedies[1:]))
    # The next limit is what comes after the remedy that was first.
    return replace(finding, gain=remedies[0].gain, next_limit=None, remedies=(first, *remedies[1:]))


def _most(remedy: Remedy) -> float:
    return 1.0 if remedy.gain is None else remedy.gain.high


def _named(remedy: Remedy, condition: Condition, need: str, say: Mapping[str, str]) -> Remedy:
    sentence = say[f"seen_{condition.topic}"].format(
        rows=_rows(condition.rows), share=text.percent(condition.share), beside=text.percent(condition.beside)
    )
    gain = remedy.gain
    if condition.speedup is not None:
        gain = Gain(*condition.speedup, say["seen_gain"])
    return replace(remedy, needs=tuple(n for n in remedy.needs if n != need), seen=sentence, gain=gain)


def _rows(rows: tuple[Row, ...]) -> str:
    """The heaviest of *rows* with what goes in, how many more there are, and the line of the first."""
    told = [" ".join(part for part in (row.name, given(row.call)) if part) for row in rows[:NAMED]]
    more = len(rows) - len(told)
    names = ", ".join(told) + (f" and {more} more" if more else "")
    source = rows[0].source if rows else None
    if source is None or source.line is None:
        return names
    return f"{names} ({posixpath.basename(source.file)}:{source.line})"
