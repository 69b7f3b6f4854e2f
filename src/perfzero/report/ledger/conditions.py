"""
Conditions that end a comparison with exit code 10, for CI.

    condition  =  METRIC  "<" or ">"  NUMBER  [UNIT]          "throughput < -2%", "idle > 5 points"

    %          a change against the first iteration, as a share of its value; temperatures have none
    points     a change of a share of the time, in points of percent
    a unit     the value itself in the last iteration: ns µs us ms s, B kB MB GB TB (also /s), Hz to GHz, W,
               J, C, k M G (counts), /s; none: a plain number, and a share as 0.3

A change counts if it is real: it lies beyond the number, and it is no "no real difference". A change that
lies beyond it and cannot be told apart from none does not hold, and that is said. A value counts if all
of its interval lies beyond.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from typing import Literal

from perfzero import text
from perfzero.errors import UsageError
from perfzero.report.ledger.metrics import BY_KEY, STEP_RATE
from perfzero.report.ledger.model import Ledger, Line
from perfzero.words.said import listed, say

ALIASES = {"throughput": STEP_RATE, "speed": STEP_RATE, "step": "step_time", "clock": "sm_clock"}
"""What people call some metrics."""

_UNITS: dict[str, tuple[float, str]] = {
    "": (1.0, ""),
    **{f"{p}{u}": (f, b) for u, b in (("B", "bytes"), ("B/s", "bytes/s")) for p, f in
       (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))},
    **{f"{p}Hz": (f, "hertz") for p, f in (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9))},
    **{f"{p}s": (f, "seconds") for p, f in (("n", 1e-9), ("u", 1e-6), ("µ", 1e-6), ("m", 1e-3), ("", 1.0))},
    "/s": (1.0, "count/s"), "k/s": (1e3, "count/s"), "M/s": (1e6, "count/s"),
    "k": (1e3, "count"), "M": (1e6, "count"), "G": (1e9, "count"),
    "W": (1.0, "watts"), "kW": (1e3, "watts"), "J": (1.0, "joules"), "kJ": (1e3, "joules"),
    "C": (1.0, "celsius"), "°C": (1.0, "celsius"),
}  # fmt: skip

_CONDITION = re.compile(
    r"\s*(?P<metric>[A-Za-z][A-Za-z0-9_]*)\s*(?P<sign>[<>])\s*"
    r"(?P<number>[+\-−]?\s*\d+(?:\.\d+)?)\s*(?P<unit>\S*)\s*"
)

_POINTS = ("points", "point", "pt", "pp")

Outcome = Literal["holds", "does not hold", "cannot be told"]


@dataclass(frozen=True, slots=True)
class Condition:
    """
    One condition as it was typed: `metric` is below or above `number`.

    `of`: a change in "%" or "points", or "value", which `number` is in the base unit of.
    """

    text: str
    metric: str
    below: bool
    number: float
    of: Literal["%", "points", "value"]


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of a condition, and the sentence that says so."""

    condition: Condition
    outcome: Outcome
    text: str


def parse(typed: str) -> Condition:
    """The condition that *typed* is; raises UsageError for anything else, and lists the metrics there are."""
    found = _CONDITION.fullmatch(typed)
    if found is None:
        raise UsageError(say("fail_if.no_condition", typed=f"{typed!r}"))
    metric = ALIASES.get(found["metric"], found["metric"])
    if metric not in BY_KEY:
        names = (*ALIASES, *BY_KEY)
        near = difflib.get_close_matches(found["metric"], names, n=1)
        hint = say("fail_if.near", near=near[0]) if near else ""
        raise UsageError(
            say("fail_if.no_metric", metric=f"{found['metric']!r}", hint=hint, names=listed(names))
        )
    number = float(found["number"].replace("−", "-").replace(" ", ""))
    below, unit = found["sign"] == "<", found["unit"]
    known = BY_KEY[metric]
    is_share = known.scale == "points" and known.unit == "ratio"
    change = "points" if is_share else "%"
    like = f"{found['metric']} {found['sign']} {number:g}{' points' if is_share else '%'}"
    if known.unit == "celsius" and (unit == "%" or unit in _POINTS):
        raise UsageError(say("fail_if.no_change", typed=f"{typed!r}", metric=metric, name=found["metric"]))
    if unit == "%":
        if is_share:
            raise UsageError(
                say(
                    "fail_if.is_share",
                    typed=f"{typed!r}",
                    metric=metric,
                    name=found["metric"],
                    sign=found["sign"],
                    number=f"{number:g}",
                )
            )
        return Condition(typed, metric, below, number / 100, "%")
    if unit in _POINTS:
        if not is_share:
            raise UsageError(
                say(
                    "fail_if.no_share",
                    typed=f"{typed!r}",
                    metric=metric,
                    name=found["metric"],
                    sign=found["sign"],
                    number=f"{number:g}",
                )
            )
        return Condition(typed, metric, below, number / 100, "points")
    scale, base = _UNITS.get(unit, (math.nan, "?"))
    if base not in ("", known.unit):
        fitting = [name for name, (_, b) in _UNITS.items() if b == known.unit] or [
            say("fail_if.plain_number")
        ]
        raise UsageError(
            say(
                "fail_if.no_unit",
                typed=f"{typed!r}",
                metric=metric,
                unit=f"{unit!r}",
                units=listed(fitting),
                change=change,
            )
        )
    if known.unit != "celsius" and (number < 0 or (below and number == 0)):
        raise UsageError(say("fail_if.never", typed=f"{typed!r}", metric=metric, like=like))
    return Condition(typed, metric, below, number * scale, "value")


def check(condition: Condition, ledger: Ledger) -> Checked:
    """Whether *condition* holds for the last iteration of *ledger*."""
    line = ledger.line(condition.metric)
    if line is None:
        return _unknown(condition, say("fail_if.seen_nowhere", metric=condition.metric))
    if condition.of == "value":
        return _check_value(condition, line)
    found = line.first[-1]
    last, first = ledger.entries[-1].letter, ledger.entries[0].letter
    if found is None or not math.isfinite(found.value):
        return _unknown(
            condition, say("fail_if.not_in_both", metric=condition.metric, first=first, last=last)
        )
    # Times of a step differ by seconds; a share of what they were is asked for.
    per = line.cells[0].value if found.scale == "points" and condition.of == "%" else 1.0
    if not per > 0:
        return _unknown(condition, say("fail_if.was_none", metric=condition.metric, first=first))
    changed = found.value / per
    beyond = changed < condition.number if condition.below else changed > condition.number
    value = f"{100 * changed:+.2g}"
    share = say("fail_if.points", value=value) if condition.of == "points" else f"{value} %"
    ends = [f"{100 * end / per:+.2g}" for end in (found.low, found.high)]
    span = say("fail_if.span", low=ends[0], high=ends[1]) if found.known else say("fail_if.no_interval")
    told = say("fail_if.change", metric=condition.metric, last=last, first=first, share=share, span=span)
    if not beyond:
        return Checked(condition, "does not hold", told)
    if found.word in ("more", "less"):
        return Checked(condition, "holds", told)
    if found.word == "same":
        return Checked(condition, "does not hold", say("fail_if.no_difference", change=told))
    return _unknown(condition, told)


def _check_value(condition: Condition, line: Line) -> Checked:
    cell = line.cells[-1]
    if not math.isfinite(cell.value):
        return _unknown(condition, say("fail_if.not_in_last", metric=condition.metric))
    beyond = cell.value < condition.number if condition.below else cell.value > condition.number
    value = text.quantity(cell.value, line.unit)
    told = say("fail_if.is", metric=condition.metric, value=value)
    if math.isfinite(cell.low):
        low, high = (text.quantity(end, line.unit) for end in (cell.low, cell.high))
        told = say("fail_if.is_between", is_so=told, low=low, high=high)
    if not beyond:
        return Checked(condition, "does not hold", told)
    sure = cell.high < condition.number if condition.below else cell.low > condition.number
    return Checked(condition, "holds", told) if sure else _unknown(condition, told)


def _unknown(condition: Condition, why: str) -> Checked:
    return Checked(condition, "cannot be told", why)
