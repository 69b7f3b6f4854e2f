"""
Build the ledger: every value, difference and word that its renderings show is computed here, once.

How long a step takes is what a comparison is for, and is tested alone. All other lines of one comparison are
one family, so that with the confidence asked for none of them is wrong (`series.compare.simultaneous`);
layers, of which there may be a hundred, are another one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated

from perfzero.diagnose.gain import LIMIT_NAMES
from perfzero.diagnose.verdict import Diagnosis, Finding
from perfzero.errors import UnlikeMachines
from perfzero.limits import BY_DEFINITION, CHOICE, Limit
from perfzero.report.ledger.alike import letter, told, unlike
from perfzero.report.ledger.layers import BYTES, TIME
from perfzero.report.ledger.layers import MARGIN as LAYER_MARGIN
from perfzero.report.ledger.measure import Iteration
from perfzero.report.ledger.metrics import METRICS, STEP, STEP_RATE, TIMES, Metric, label
from perfzero.report.ledger.model import Cell, Entry, Kept, Ledger, Line, Promise
from perfzero.series.compare import MARGIN, Difference, Measured, difference, simultaneous
from perfzero.words.said import say

CONFIDENCE: Annotated[float, Limit("ratio", CHOICE)] = 0.95
"""
With so much confidence the truth lies in the interval of the step rate, and in those of all other lines
together.
"""


DEGREES: Annotated[float, Limit("°C", BY_DEFINITION)] = 1.0
"""Sensors tell whole degrees: less than one is no difference of temperatures, whose zero means nothing."""

RULE_LIMITS: Mapping[str, str] = {
    "transfer_bound": LIMIT_NAMES["pcie"],
    "pageable_copies": LIMIT_NAMES["copy"],
    "input_starved": LIMIT_NAMES["cores"],
    "memory_bound": LIMIT_NAMES["memory"],
}
"""Verdicts that name a limit which is no class of the GPU's time, or need not be the largest one."""


def build(iterations: Sequence[Iteration], *, force: bool = False, margin: float = MARGIN) -> Ledger:
    """
    The ledger of *iterations* in their order.

    Raises UnlikeMachines where they were recorded on machines that must not be compared and *force* is off.
    """
    apart = unlike(iterations)
    if apart and not force:
        raise UnlikeMachines(say("compare.unlike_refused", facts="\n".join(f"  {fact}" for fact in apart)))
    metrics = [metric for metric in (*METRICS, *TIMES) if _seen(metric, iterations)]
    family = [metric for metric in metrics if metric.key not in STEP and _worth(metric, iterations)]
    layers = _layers(iterations)
    lines = (
        *_lines(iterations, metrics, family, margin=margin),
        *_lines(iterations, layers, layers, margin=margin),
    )
    return Ledger(
        entries=tuple(_entry(place, one) for place, one in enumerate(iterations)),
        lines=lines,
        promises=tuple(_promises(iterations, lines)),
        unlike=apart,
        told=told(iterations),
        confidence=CONFIDENCE,
        margin=margin,
        family=len(family),
        layers=len(layers),
    )


def _entry(place: int, one: Iteration) -> Entry:
    first = one.first
    verdict = first.diagnosis.verdict
    doubts = dict.fromkeys(d for taken in one.taken for d in (*taken.report.doubts, *taken.diagnosis.doubts))
    return Entry(
        letter=letter(place),
        name=one.name,
        paths=tuple(taken.path for taken in one.taken),
        created_ns=first.report.created_ns,
        command=first.report.process.command,
        headline=first.diagnosis.headline,
        rule="" if verdict is None else verdict.rule,
        doubts=tuple(doubts),
        gpu=first.gpu.gpu.index if len(first.report.gpus) > 1 else None,
        twice=one.twice,
    )


def _lines(
    iterations: Sequence[Iteration], metrics: Sequence[Metric], family: Sequence[Metric], *, margin: float
) -> Iterator[Line]:
    alone = [metric for metric in metrics if metric not in family]
    pairs = [(place - 1, place) for place in range(1, len(iterations))]
    pairs += [(0, place) for place in range(2, len(iterations))]
    found: dict[tuple[str, int, int], Difference] = {}
    for a, b in pairs:
        one, other = iterations[a], iterations[b]
        means = [(_mean(one, metric), _mean(other, metric)) for metric in family]
        margins = [_margin(metric, one, margin) for metric in family]
        for metric, change in zip(family, simultaneous(means, margins=margins), strict=True):
            found[metric.key, a, b] = _bounded(change, metric)
        for metric in alone:
            alike = difference(_mean(one, metric), _mean(other, metric), margin=_margin(metric, one, margin))
            found[metric.key, a, b] = _bounded(alike, metric)
    for metric in metrics:
        yield Line(
            key=metric.key,
            label=label(metric),
            unit=metric.unit,
            group=metric.group,
            better=metric.better,
            cells=tuple(_cell(_mean(one, metric), metric) for one in iterations),
            before=tuple(found.get((metric.key, place - 1, place)) for place in range(len(iterations))),
            first=tuple(found.get((metric.key, 0, place)) for place in range(len(iterations))),
            quiet=not _worth(metric, iterations),
        )


def _layers(iterations: Sequence[Iteration]) -> list[Metric]:
    """The layers of all iterations, those first whose time changed most between two in a row."""
    keys = dict.fromkeys(key for one in iterations for key in one.means if key.startswith((TIME, BYTES)))
    times = [key for key in keys if key.startswith(TIME)]
    if sum(any(key in one.means for key in times) for one in iterations) < 2:
        return []  # one look alone has nothing to be held against

    def moved(key: str) -> float:
        values = [one.means[key].value if key in one.means else 0.0 for one in iterations]
        return max(abs(after - before) for before, after in pairwise(values))

    ordered = sorted(times, key=moved, reverse=True)
    names = [key.removeprefix(TIME) for key in ordered]
    found = [Metric(TIME + name, "seconds", "layers", "ratio", "less") for name in names]
    return found + [Metric(BYTES + n, "bytes", "layers", "ratio", "less") for n in names if BYTES + n in keys]


def _seen(metric: Metric, iterations: Sequence[Iteration]) -> bool:
    return any(math.isfinite(_mean(one, metric).value) for one in iterations)


def _worth(metric: Metric, iterations: Sequence[Iteration]) -> bool:
    values = [_mean(one, metric).value for one in iterations]
    return any(math.isfinite(value) and abs(value) > metric.least for value in values)


def _mean(one: Iteration, metric: Metric) -> Measured:
    return one.means.get(metric.key) or Measured.missing(metric.scale)


def _margin(metric: Metric, one: Iteration, margin: float) -> float:
    """Times per step are held against the step: 1 % of it is nothing. Layers have a margin of their own."""
    if metric.group == "layers":
        return LAYER_MARGIN
    if metric.unit == "celsius":
        return DEGREES
    step = one.means.get("step_time")
    return margin * step.value if metric.unit == "seconds" and metric.scale == "points" and step else margin


def _bounded(found: Difference, metric: Metric) -> Difference:
    """*found* within what can be: no share changes by more than all of the time."""
    if found.scale != "points" or metric.unit != "ratio" or not found.known:
        return found
    return replace(found, low=max(found.low, -1.0), high=min(found.high, 1.0))


def _cell(mean: Measured, metric: Metric) -> Cell:
    low, high = mean.interval(confidence=CONFIDENCE)
    if mean.scale == "points" and metric.unit == "ratio" and math.isfinite(low):
        low, high = max(low, 0.0), min(high, 1.0)
    return Cell(mean.value, low, high)


def _promises(iterations: Sequence[Iteration], lines: Sequence[Line]) -> Iterator[Promise]:
    rate = next((line for line in lines if line.key == STEP_RATE), None)
    for place in range(1, len(iterations)):
        before, after = iterations[place - 1].first.diagnosis, iterations[place].first.diagnosis
        change = None if rate is None else rate.before[place]
        low, high, remedy = _promised(before.verdict)
        achieved = (math.nan, math.nan, math.nan)
        if change is not None:
            achieved = (1 + change.value, 1 + change.low, 1 + change.high)
        limits = limits_of(after)
        foreseen = None if before.verdict is None else before.verdict.next_limit
        yield Promise(
            of=place - 1,
            remedy=remedy,
            low=low,
            high=high,
            value=achieved[0],
            achieved_low=achieved[1],
            achieved_high=achieved[2],
            kept=_kept(low, high, achieved),
            next_limit=foreseen,
            limits=limits,
            came=None if foreseen is None else any(limit in limits for limit in foreseen.split(" or ")),
        )


def _promised(verdict: Finding | None) -> tuple[float, float, str]:
    if verdict is None or not verdict.remedies:
        return math.nan, math.nan, ""
    remedy = verdict.remedies[0]
    gain = remedy.gain or verdict.gain
    if gain is None:
        return math.nan, math.nan, remedy.text
    return gain.low, gain.high, remedy.text


def _kept(low: float, high: float, achieved: tuple[float, float, float]) -> Kept:
    """Whether a gain lies within what was promised, so far as it is known: its interval may reach beyond."""
    _, least, most = achieved
    if not math.isfinite(low):
        return "nothing promised"
    if not (math.isfinite(least) and math.isfinite(most)):
        return "unknown"
    if least > high:
        return "more"
    return "less" if most < low else "kept"


def limits_of(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What limits a program, in words: the largest part of its time, and what its verdict names."""
    largest = max(diagnosis.shares, key=diagnosis.shares.__getitem__, default=None)
    rule = None if diagnosis.verdict is None else diagnosis.verdict.rule
    named = (LIMIT_NAMES.get(largest or ""), RULE_LIMITS.get(rule or ""))
    return tuple(dict.fromkeys(name for name in named if name is not None))
