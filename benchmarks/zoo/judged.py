"""
What perfzero says of a case against what is true of it. Pure: documents in, frozen values out.

Rank: the place of the truth among the findings above "info", from 1; what is true too (`also`) may be told
beside it and not before it, and what is neither is a stray. The promise is the interval of the remedy that
is the fix, which is the finding's where it has none of its own; without that remedy nothing is promised.
A limit is foreseen if it is one of those that are named next, and one that the fixed program has met.

Of a healthy case nothing above "info" may be found, and the change that tempts may not gain.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from case import Case, lines_of
from first import AtFirst
from replayed import Replayed
from turns import Achieved

TEMPTING = 1.1
"""
From this gain on a change that was to change nothing has found something; that one slows so much is told.
"""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Promise:
    """
    What is told of the truth: the remedy that is the fix ("" if there is none), what it gains, and what
    limits the program next.
    """

    remedy: str = ""
    low: float | None = None
    high: float | None = None
    next_limit: str = ""

    @property
    def width(self) -> float | None:
        """As a factor."""
        return None if self.low is None or self.high is None else self.high / self.low

    @property
    def limits(self) -> tuple[str, ...]:
        """`next_limit`: one, or two that are as close as can be."""
        return tuple(self.next_limit.split(" or "))


@dataclass(frozen=True, slots=True)
class Score:
    """
    How a case went; what was not measured, or does not apply, is None.

    `acting`: rules above "info", in order. `strays`: those of them that are not true. `named`: whether what
    has to be named was, and `told` what was. `advised`: whether a healthy program was told what it must not
    be. `stable_s`: after warm-up. `at_first`: what was said of it when its recording was made.
    """

    case: str
    title: str
    healthy: bool
    causes: tuple[str, ...]
    verdict: str | None
    reason: str
    acting: tuple[str, ...]
    strays: tuple[str, ...]
    rank: int | None
    named: bool | None
    told: str
    promise: Promise
    advised: bool
    gain: Achieved | None
    least_gain: float | None
    after: str | None
    met: tuple[str, ...] | None
    slowdown: float | None
    held_up_s: float
    stable_s: float | None
    problems: tuple[str, ...]
    miss: str
    first: str
    wants_remedy: bool
    at_first: AtFirst | None

    @property
    def truth(self) -> str:
        return self.causes[0]

    @property
    def silent(self) -> bool:
        """Whether nothing asks for action."""
        return not self.acting

    @property
    def right(self) -> bool:
        return self.silent if self.healthy else self.rank == 1

    @property
    def earned(self) -> bool | None:
        """Whether the fix gains as much as a fix must, and the tempting change nothing: it may slow."""
        if self.gain is None:
            return None
        return self.gain.gain < TEMPTING if self.least_gain is None else self.gain.gain >= self.least_gain

    @property
    def slows(self) -> bool:
        """Whether the change that tempts makes a healthy program much slower."""
        return self.healthy and self.gain is not None and self.gain.gain <= 1 / TEMPTING

    @property
    def inside(self) -> bool | None:
        if self.gain is None or self.healthy:
            return None
        low, high = self.promise.low, self.promise.high
        return low is not None and high is not None and low <= self.gain.gain <= high

    @property
    def foreseen(self) -> bool | None:
        if self.met is None or self.healthy:
            return None
        return any(limit in self.met for limit in self.promise.limits)

    @property
    def one_of_two(self) -> bool:
        """Whether a limit was foreseen, and was one of two that were named."""
        return bool(self.foreseen) and len(self.promise.limits) > 1

    @property
    def settled_s(self) -> float | None:
        """`stable_s` of a verdict that is right."""
        return self.stable_s if self.right else None

    @property
    def when_first_judged(self) -> Score | None:
        """This score with what was said then, and what was measured; None where that is not known."""
        then = self.at_first
        if then is None:
            return None
        promise = Promise(then.remedy, then.low, then.high, then.next_limit)
        told = {name: getattr(then, name) for name in ("verdict", "acting", "strays", "rank", "named")}
        return replace(self, **told, promise=promise, stable_s=None, at_first=None)

    @property
    def misses(self) -> tuple[str, ...]:
        """What is not as it should be, in words."""
        return tuple(_misses(self))


def _misses(score: Score) -> Iterator[str]:
    said = score.verdict or f"no verdict ({score.reason})"
    if score.healthy:
        if not score.silent:
            yield f"healthy, and told {', '.join(score.acting)}"
        if score.advised:
            yield "advised to do what does not help"
    elif score.rank != 1:
        place = "not found" if score.rank is None else f"in place {score.rank}"
        yield f"{said}; {score.truth} is {place}"
    if score.named is False:
        yield f"named {score.told or 'nothing'}"
    if score.earned is False and score.gain is not None:
        yield f"the fix gains {score.gain.gain:.2f}x"
    if score.inside is False and score.gain is not None:
        promised = score.promise.width is not None
        where = f"is not in the interval {interval(score.promise)}" if promised else "and nothing is promised"
        yield f"{score.gain.gain:.2f}x {where}"
    if score.foreseen is False:
        yield f"next limit {score.promise.next_limit or 'not told'}, met {' and '.join(score.met or ())}"
    if score.wants_remedy and not score.promise.remedy:
        yield "the fix is not among the remedies"
    yield from score.problems


def interval(promise: Promise) -> str:
    if promise.low is None or promise.high is None:
        return "-"
    return f"{promise.low:.2f}-{promise.high:.2f}"


def judged(
    case: Case,
    base: Replayed,
    *,
    fixed: Replayed | None = None,
    gain: Achieved | None = None,
    stable_s: float | None = None,
    problems: tuple[str, ...] = (),
    at_first: AtFirst | None = None,
) -> Score:
    """Hold *base*, what is said of the unfixed program, against *case*; the rest as far as it is known."""
    gpu = base.gpu
    truth = case.truth
    acting = [finding for finding in gpu["findings"] if finding["severity"] != "info"]
    found = next((f for f in (*acting, *gpu["findings"]) if f["rule"] in truth.causes), None)
    named, told = _named(case, base, found)
    return Score(
        case=case.id,
        title=case.title,
        healthy=truth.healthy,
        causes=truth.causes,
        verdict=gpu["verdict"]["rule"] if gpu["verdict"] else None,
        reason=gpu["no_verdict"] or "",
        acting=tuple(finding["rule"] for finding in acting),
        strays=tuple(f["rule"] for f in acting if f["rule"] not in (*truth.causes, *truth.also)),
        rank=None if truth.healthy else rank_of(truth.causes, acting),
        named=named,
        told=told,
        promise=Promise() if found is None or truth.healthy else promise_of(found, case.fix.remedy),
        advised=truth.healthy and any(_remedy(f, case.fix.remedy) for f in acting),
        gain=gain,
        least_gain=case.fix.least_gain,
        after=None if fixed is None else _rule(fixed.gpu),
        met=None if fixed is None else fixed.limits,
        slowdown=(base.report["cost"] or {}).get("slowdown"),
        held_up_s=base.held_up_s,
        stable_s=stable_s,
        problems=problems,
        miss=case.miss,
        first=case.first,
        wants_remedy=bool(case.fix.remedy) and not truth.healthy,
        at_first=at_first,
    )


def for_later(score: Score) -> AtFirst:
    """What is kept of *score* with a recording that was just made."""
    promise = score.promise
    return AtFirst(
        verdict=score.verdict,
        acting=score.acting,
        strays=score.strays,
        rank=score.rank,
        named=score.named,
        remedy=promise.remedy,
        low=promise.low,
        high=promise.high,
        next_limit=promise.next_limit,
    )


def _rule(gpu: Json) -> str:
    return gpu["verdict"]["rule"] if gpu["verdict"] else "-"


def rank_of(causes: Collection[str], acting: Collection[Json]) -> int | None:
    """The place of the first finding that is one of *causes*."""
    places = (place for place, finding in enumerate(acting, 1) if finding["rule"] in causes)
    return next(places, None)


def promise_of(finding: Json, remedy: str) -> Promise:
    """What *finding* promises of the remedy whose text *remedy* matches; without one only what comes next."""
    own, after = _remedy(finding, remedy), finding["next_limit"] or ""  # of the first remedy
    if own is None:
        return Promise(next_limit=after)
    gain = own["gain"] or finding["gain"] or {"low": None, "high": None}
    return Promise(own["text"], gain["low"], gain["high"], own["next_limit"] or after)


def _remedy(finding: Json, pattern: str) -> Json | None:
    if not pattern:
        return None
    return next((r for r in finding["remedies"] if re.search(pattern, r["text"], re.IGNORECASE)), None)


# --- what has to be named ----------------------------------------------------------------------


def _named(case: Case, base: Replayed, found: Json | None) -> tuple[bool | None, str]:
    """Whether what has to be named is, and what is named instead or in its place."""
    if case.named is None:
        return None, ""
    if case.named.kind == "line":
        places = list(_places(base))
        lines = lines_of(case)
        right = [place for place in places if place[1] in lines and _is_program(place[0], case)]
        file, line = (right or places or [("", 0)])[0]
        return bool(right), f"{posixpath.basename(file) if right else file}:{line}" if file else ""
    told = list(_told(base, found, operators=case.named.kind == "operator"))
    match = next((text for text in told if re.search(case.named.what, text)), None)
    return match is not None, (told[0] if told else "") if match is None else match


def _places(base: Replayed) -> Iterator[tuple[str, int]]:
    """
    The lines that a reader is sent to, each as file and number: the first of those that the report shows as
    what the idle GPU waits for, what the workers of a loader do most where it is that, and where the heaviest
    layer is called.
    """
    for cause in base.waited_for[:1]:
        yield _place(cause)
        yield from (_place(stage) for stage in cause["stages"][:1])
    rows = _heaviest_rows(base.breakdown)
    yield from (_place(row["source"]) for row in rows[:1] if row["source"] is not None)


def _place(found: Json) -> tuple[str, int]:
    return posixpath.normpath(found["file"]), found["line"] or 0


def _is_program(file: str, case: Case) -> bool:
    """Whether *file* is the program of *case*, as far as it is known in which folder it lies."""
    known = file.split("/")[-2:]
    return known == [case.id, case.program][-len(known) :]


def _heaviest_rows(breakdown: Json | None) -> list[Json]:
    """Of modules, and of what is beside them, in all looks."""
    looks = [] if breakdown is None else breakdown["looks"]
    rows = [row for look in looks for row in (*(a["row"] for a in look["alike"]), *look["elsewhere"])]
    return sorted(rows, key=lambda row: -(row["time"]["share"] or 0.0))


def _told(base: Replayed, found: Json | None, *, operators: bool) -> Iterator[str]:
    """What a reader is shown first: the heaviest line, what remedies of the truth are for, and operators."""
    yield from base.layers[:1]
    if found is not None:
        yield from (remedy["seen"] for remedy in found["remedies"] if remedy["seen"])
    if operators and base.breakdown is not None:
        for look in base.breakdown["looks"]:
            yield from (row["name"] for row in look["operators"][:1])
