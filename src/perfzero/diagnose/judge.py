"""
The one entry: what was observed of a GPU in, the whole answer out. Pure.

    observation -> evidence (clean, steady, split) -> gates -> rules -> verdict and four answers

The verdict is the finding above "info" whose fix should save most time; with none, a healthy
GPU is called healthy; and if neither, there is no verdict and the reason is given.
"""

from __future__ import annotations

import math
from dataclasses import replace

from perfzero.diagnose.evidence import Evidence, collect
from perfzero.diagnose.facts import all_facts
from perfzero.diagnose.gain import saving
from perfzero.diagnose.gates import closed, doubts
from perfzero.diagnose.picture import picture_of
from perfzero.diagnose.rhythm import rhythm_of, stages_of
from perfzero.diagnose.rules import ranked, run_rules
from perfzero.diagnose.split import BUSY_CLASSES
from perfzero.diagnose.step_map import mean_step, step_map_of
from perfzero.diagnose.steps import QUESTIONS, answer_all, short_name
from perfzero.diagnose.thresholds import CLOSE_CALL, COMM_WATCH
from perfzero.diagnose.verdict import Diagnosis, Fact, Finding, Steady, StepAnswer
from perfzero.series.steps import NoSteps
from perfzero.text import duration, percent
from perfzero.values import Observation
from perfzero.words.said import joined, listed, say

HEALTHY = ("well_used", "memory_bound")
"""Rules that say that all is well, when they promise no gain."""

_CLOSE = say("doubt.close_call")

KINDS = {
    "steady": "",
    "slow_down": say("steady.slow_down"),
    "cyclic": say("steady.cyclic"),
    "never": say("steady.never"),
}
"""What is said of the stretch beside how it was found."""

UNSETTLED = {
    "slow_down": say("doubt.slow_down"),
    "never": say("doubt.never"),
}
"""Doubts that come of the kind of stretch."""


def judge(observation: Observation) -> Diagnosis:
    """Say what limits the GPU of *observation*, how sure that is, and what would help."""
    e = collect(observation)
    facts = all_facts(e)
    weak = list(doubts(e))
    if e.steady.how in ("stable", "fallback") and e.steady.kind in UNSETTLED:
        weak.append(UNSETTLED[e.steady.kind])
    reason = closed(e)
    if reason is not None:
        return _diagnosis(
            e,
            facts,
            verdict=None,
            reason=reason,
            findings=(),
            steps=_unanswered(reason),
            weak=weak,
            trusted=False,
        )
    findings = run_rules(e)
    verdict = _first(findings)
    if _is_close(findings):
        weak.append(_CLOSE)
    reason = None if verdict is not None else _nothing_stands_out(e)
    return _diagnosis(
        e,
        facts,
        verdict=verdict,
        reason=reason,
        findings=findings,
        steps=answer_all(e, facts),
        weak=weak,
        trusted=True,
    )


def with_findings(diagnosis: Diagnosis, findings: tuple[Finding, ...]) -> Diagnosis:
    """*diagnosis* with other *findings*, in their order, and with the verdict that these lead to."""
    ordered = ranked(findings, idle=diagnosis.shares.get("idle", math.nan))
    verdict = _first(ordered)
    if verdict is None:
        return diagnosis
    doubts = [d for d in diagnosis.doubts if d != _CLOSE] + ([_CLOSE] if _is_close(ordered) else [])
    return replace(
        diagnosis,
        headline=verdict.title,
        verdict=verdict,
        no_verdict=None,
        findings=ordered,
        doubts=tuple(doubts),
    )


def _is_close(findings: tuple[Finding, ...]) -> bool:
    """Whether acting on the second should save nearly as much as acting on the first."""
    acting = [f for f in findings if f.severity != "info"]
    return len(acting) > 1 and saving(acting[0]) - saving(acting[1]) < CLOSE_CALL.value


def _first(findings: tuple[Finding, ...]) -> Finding | None:
    """The finding to act on, else the healthy answer, else None."""
    acting = [f for f in findings if f.severity != "info"]
    if acting:
        return acting[0]
    return next((f for f in findings if f.rule in HEALTHY and f.gain is None), None)


def _nothing_stands_out(e: Evidence) -> str:
    if e.tier == "nvml":
        return say("verdict.smi_only", share=percent(e.level("smi_utilization")))
    if e.split is None:
        return say("verdict.unmeasured")
    ranked = sorted(((e.split.shares[c], c) for c in BUSY_CLASSES), reverse=True)
    mix = listed(
        say("seen.share", what=short_name(e, c), share=percent(s)) for s, c in ranked if s >= COMM_WATCH.value
    )
    return say("verdict.mixed", mix=mix)


def _unanswered(reason: str) -> tuple[StepAnswer, ...]:
    first, second, third, fourth = QUESTIONS
    unknown = say("answer.unknown")
    return (
        StepAnswer(1, first, unknown, "unknown", reason),
        StepAnswer(2, second, unknown, "unknown", ""),
        StepAnswer(3, third, unknown, "unknown", ""),
        StepAnswer(4, fourth, unknown, "unknown", ""),
    )


def _diagnosis(
    e: Evidence,
    facts: dict[str, Fact],
    *,
    verdict: Finding | None,
    reason: str | None,
    findings: tuple[Finding, ...],
    steps: tuple[StepAnswer, ...],
    weak: list[str],
    trusted: bool,
) -> Diagnosis:
    mean = mean_step(e)
    step_map, no_step_map = step_map_of(e, mean)
    return Diagnosis(
        gpu=e.gpu,
        tier=e.tier,
        headline=verdict.title if verdict is not None else say("verdict.none", reason=reason),
        verdict=verdict,
        no_verdict=reason,
        findings=findings,
        steps=steps,
        # Shares made from data that a gate refused would only mislead.
        shares=dict(e.split.shares) if e.split is not None and trusted else {},
        intervals={n: e.split.interval(n) for n in e.split.shares} if e.split is not None and trusted else {},
        facts=facts,
        doubts=tuple(weak),
        steady=_steady(e),
        rhythm=rhythm_of(e, step_map),
        stages=stages_of(e),
        step_map=step_map,
        no_step_map=no_step_map,
        no_rhythm=e.steps.reason if isinstance(e.steps, NoSteps) else "",
        picture=picture_of(e, mean.folded),
        extra={"quality": e.quality, "sampled_s": e.sampled_s, "lost_share": e.lost_share},
    )


def _steady(e: Evidence) -> Steady:
    stretch = e.steady
    dropped = duration(stretch.dropped_s)
    text = {
        "stable": say("steady.warm_up", dropped=dropped)
        if stretch.dropped_s > 0
        else say("steady.from_start"),
        "fallback": say("steady.never_settled", dropped=dropped),
        "short": say("steady.short", dropped=dropped),
        "none": say("steady.no_work"),
    }[stretch.how]
    return Steady(
        stretch.start_ns,
        stretch.end_ns,
        stretch.dropped_s,
        stretch.how,
        joined("join.nothing", (text, KINDS[stretch.kind])),
        stretch.kind,
    )
