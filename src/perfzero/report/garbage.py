"""
Stalls of Python's garbage collector, where a look has seen it at work.

Python collects all its garbage when a quarter of what it holds is new since the last time: once in so many
steps of a program that makes objects and keeps many. No thread of Python goes on meanwhile. From outside
such a stall is like any other of the host's: stacks show the line at which it began, and py-spy's native
frames, in which the collector could be seen, have the program stopped for each sample.

The agent sees it during a look (`_perfzero_torch`, `_Collections`), and nothing is put into the program for
that: one collection more has ended when the agent's thread gets the GIL back, after so long a wait. Some
seconds are watched, so nothing is told of stalls that come more rarely than twice in that time. Then the
remedy stays what it is without a look: supposed, and with its condition.

The wait is what a collection took at most. Whatever else held the GIL then is in it, and a call of C that
makes many objects, as `json.loads` does, has collections in its midst: of such a stall a third was seen to be
the collector's. So what is gained may be nothing, and at most all of the stalls in so far as waits take as
much of the time as they do. How often they come is known to one more or less. The rest keeps its pace, as in
`line_gains`.

That doubt is gone where counters and stacks tell the same. Pauses of the GPU that are about as long as the
collections are stalls by these, for so much of each as a collection takes; and a line of the program to which
the host comes several times for each stall takes a moment as a rule, so what stalls it now and then is none
of its own calls. Then the least is what such pauses take, and the finding is likely at least.

Where Python does not collect by itself, those seen are the program's own, and nothing is told. Nor is it
where stacks show most of the idle time at a line that calls the collector, or that saves a checkpoint:
pickling makes objects and holds the GIL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from perfzero.attribute.causes import Cause, HostCauses
from perfzero.attribute.host_activity import LAUNCHING, Activity
from perfzero.diagnose.verdict import Diagnosis, Finding, Gain, Remedy
from perfzero.limits import CHOICE, Limit
from perfzero.report.host_lines import place
from perfzero.report.inside import looks_on
from perfzero.report.leading import changed, led_by_its_first, with_gain
from perfzero.report.line_gains import PACE
from perfzero.series.rare import ALIKE
from perfzero.text import duration, percent
from perfzero.values import FullCollection, Look
from perfzero.words.said import Said, say

FEWEST: Annotated[float, Limit("count", CHOICE)] = 2.0
"""
Collections in one look; a single one may have come by chance, while other things stall the program, unless it
took as long as those stalls.
"""

MOSTLY: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Of the time that is told of: a collector that takes less explains less than half of it."""

OFTEN: Annotated[float, Limit("count", CHOICE)] = 3.0
"""
Times that the host comes to a line for each collection, at which the line is not what takes so long: of a
call that is as long each time it is one. An H200's host came to one 5.4 times (f04 of docs/zoo.md).
"""

KNOWN: Annotated[float, Limit("ratio", CHOICE)] = 0.7
"""Confidence, at least, where counters, stacks and the look tell the same: likely."""

NAMED_OTHERWISE: frozenset[Activity] = frozenset({"garbage collection", "checkpoint"})
"""What a line does beside which the collector explains nothing more."""

RULES = frozenset({"periodic_stall", "host_starved"})

FREEZE = say("try.freeze_gc")


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long the GPU's pauses are, of those that were seen in `judged_s` seconds."""

    lengths_s: Sequence[float] = ()
    judged_s: float = 0.0

    def alike(self, length_s: float) -> float:
        """Of all time, in pauses about as long as *length_s*, and no more than that of each."""
        like = (min(p, length_s) for p in self.lengths_s if max(p, length_s) <= ALIKE * min(p, length_s))
        return sum(like) / self.judged_s if self.judged_s > 0 else 0.0


def without_garbage(
    finding: Finding,
    looks: Sequence[Look],
    first: Cause | None = None,
    *,
    stalls_s: Sequence[float] = (),
    pauses: Pauses | None = None,
) -> Finding | None:
    """
    *finding* with what the collector was seen to do in *looks*, of one GPU; None where that is not it.

    *first*: the line that the GPU waits for most, if stacks show one. *stalls_s*: how long the stalls are
    that counters saw. *pauses*: those of the GPU, stalls or not.
    """
    if first is not None and first.activity in NAMED_OTHERWISE and first.share >= MOSTLY:
        return None
    alike = finding.rule == "periodic_stall" and len(stalls_s) >= FEWEST
    told = [
        (_part(look), look)
        for look in looks
        if look.collects_itself
        and (len(look.collections) >= FEWEST or (alike and _lasts(look.collections, stalls_s)))
    ]
    part, look = max(told, key=lambda one: one[0], default=(0.0, None))
    if (
        look is None
        or finding.rule not in RULES
        or not 0 < finding.share < 1
        or part < MOSTLY * finding.share
    ):
        return None
    many = len(look.collections)
    seconds, length = f"{look.watched_s:.1f}", duration(_median(look.collections))
    seen = (
        say("seen_collections", count=many, seconds=seconds, length=length)
        if many >= FEWEST
        else say("seen_collection", seconds=seconds, length=length)
    )
    sure = min(finding.share, (pauses or Pauses()).alike(_median(look.collections)))
    if sure < MOSTLY * finding.share or not _comes_often(first, _median(look.collections)):
        sure = 0.0
    gain = _gain(finding.share, part, many, sure)
    before = next(
        (r for r in finding.remedies if r.text == FREEZE), Remedy(FREEZE, (), say("worked.stalls_vanish"))
    )
    remedy = replace(before, needs=(say("need.collects_itself"),), seen=seen, gain=gain)
    rest = tuple(r for r in finding.remedies if r is not before)
    advised = replace(finding, remedies=(remedy, *rest))
    if first is None or not sure > 0:
        return advised
    witnessed = say("seen_pauses_alike", share=percent(sure / finding.share), line=place(first.frame))
    answered = [r for r in finding.because if isinstance(r, Said) and r.key == "idle.in_pauses"]
    because = (witnessed, *(r for r in finding.because if r not in answered))
    return replace(advised, because=because, confidence=max(finding.confidence, KNOWN))


def stalls_seen(diagnosis: Diagnosis) -> list[float]:
    """How long each stall was that counters saw, in seconds."""
    rare = () if diagnosis.picture is None else diagnosis.picture.rare
    return [float(end - start) / 1e9 for nature, at in rare if nature == "stall" for start, end in at]


def _comes_often(line: Cause | None, length_s: float) -> bool:
    """Whether *line* is one of the program's own at which the host is too often for stalls of *length_s*."""
    if line is None or line.activity not in LAUNCHING | {"python"} or line.share < MOSTLY:
        return False
    return line.lasts_s * OFTEN <= length_s


def _lasts(collections: Sequence[FullCollection], stalls_s: Sequence[float]) -> bool:
    """Whether *collections* take about as long as the stalls."""
    if not collections:
        return False
    one, other = _median(collections), sorted(stalls_s)[len(stalls_s) // 2]
    return max(one, other) <= ALIKE * min(one, other)


def _part(look: Look) -> float:
    """Of the time, in full collections."""
    return sum(one.length_s for one in look.collections) / look.watched_s if look.watched_s > 0 else 0.0


def _median(collections: Sequence[FullCollection]) -> float:
    lengths = sorted(one.length_s for one in collections)
    return lengths[len(lengths) // 2]


def _gain(share: float, part: float, many: int, sure: float) -> Gain:
    """*sure*: of all time, what is known to be the collector's."""
    most = max(sure, share * min(1.0, part / share * (many + 1) / many))
    least = max(1.0, 1 / (PACE[1] * (1 - sure)))
    key = "gain.without_pauses" if sure > 0 else "gain.without_collections"
    text = say(key, least=percent(sure / share), share=percent(most / share))
    return Gain(least, max(least, 1 / (PACE[0] * (1 - most))), text)


def with_garbage(
    diagnosis: Diagnosis,
    looks: Sequence[Look],
    gpu: int,
    gpus: Sequence[int],
    host: HostCauses | None = None,
    pauses: Pauses | None = None,
) -> Diagnosis:
    """
    *diagnosis* of *gpu* with the remedy for Python's garbage collector, where *looks* saw it stall.

    *host*: the lines that the GPU waits for, of which the first may explain it. *pauses*: those of the GPU.
    """
    first = host.causes[0] if host is not None and host.causes else None
    its, stalls_s = looks_on(looks, gpu, gpus), stalls_seen(diagnosis)

    def change(finding: Finding) -> Finding:
        told = without_garbage(finding, its, first, stalls_s=stalls_s, pauses=pauses)
        if told is None:
            return finding
        return led_by_its_first(told, with_gain(finding, told.remedies), diagnosis.shares)

    return changed(diagnosis, change)
