"""
Remedies after a look inside: what they rest on is seen, not supposed.

From outside a remedy comes with its condition: "(provided: it is a convolutional network under autocast)". A
look shows whether that is so (`attribute/conditions.py`). Where it is, the condition is left out, the layers
of which it holds are named, and the remedy comes before those that are still supposed, the one with the most
to gain first; only what supposes nothing and has a gain of its own, more in any case, stays before it. Where
it is not, the remedy is left out: it would change nothing. So are those that the program follows already,
such as torch.compile where Inductor made the kernels, or has nothing for.
Where most of what keeps the tensor cores waiting is seen to be nothing that they could do, the finding is
that kernels wait for their own latencies, with the remedies against that. If these kernels hand on results
through memory, what fusing gains, which the finding about memory tells, is ranked against it anew.
Beside a finding that the device memory is the limit stand the modules that move most of the bytes, and how
many need not be moved. What fusing gains is told by the elementwise operators that were seen, not by what it
gains elsewhere.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, cast

from perfzero import text
from perfzero.attribute.parts import NOTEWORTHY, Condition, Part, Topic
from perfzero.diagnose.filling import at_host_pace
from perfzero.diagnose.gain import amdahl, middle
from perfzero.diagnose.judge import with_findings
from perfzero.diagnose.remedies import OFFERS, SEEN_ONLY, always
from perfzero.diagnose.thresholds import RECOVER_LATENCY
from perfzero.diagnose.verdict import Diagnosis, Finding, Gain, Remedy, StepAnswer, TimeClass
from perfzero.diagnose.wording import ALLOW_TF32_IN_BOTH, ALLOW_TF32_IN_CONVOLUTIONS
from perfzero.limits import CHOICE, Limit
from perfzero.report.breakdown import given, within_model
from perfzero.report.leading import (
    AS_MANY_LAUNCHES,
    WITH_BESIDE,
    changed,
    gain_left,
    led_by_its_first,
    with_gain,
)
from perfzero.words.said import joined, listed, say

NAMED = 3
"""Layers by name, of which it is said how many more there are."""

SETTLED: Mapping[Topic, str] = {
    "channels_last": say("need.convolutional"),
    "alignment": say("need.some_unaligned"),
    "fused_optimizer": say("need.optimizer_launches"),
    "fused_attention": say("need.stepwise_attention"),
    "activations": say("need.float32_now"),
    "tf32": say("need.off"),
    "tensor_cores": say("need.some_miss"),
    "pinned_source": say("need.source_pinned"),
    "training": say("need.training"),
    "clears_gradients": say("need.clears_gradients"),
}
"""The condition of a remedy that a look settles, by its topic."""

NOTHING_TO_DO: Mapping[str, tuple[Topic, ...]] = {
    say("try.fuse_elementwise"): ("chains", "compile"),
    say("try.fuse_through_l2"): ("compile",),
    say("try.compiler"): ("compile",),
    say("try.launch_less"): ("graph",),
    say("try.graph"): ("graph",),
    say("try.launch_less_there"): ("graph",),
    say("try.pinned"): ("pageable",),
    say("try.no_fills"): ("fills",),
    say("try.drop_gradients"): ("fills",),
}
"""
Remedies that change nothing where one of these is denied: done already, or with nothing to do it to.
"""


@dataclass(frozen=True, slots=True)
class Rest:
    """
    What is left of a remedy once a part of it is done: text, needs, and the topic if that is another.

    What the whole remedy gains is no gain of it, but where what is done would have come to the same
    (`gains_alike`).
    """

    text: str
    needs: tuple[str, ...] = ()
    topic: Topic | None = None
    gains_alike: bool = False

    def of(self, remedy: Remedy) -> Remedy:
        """*remedy* without what is done."""
        gain, limit = (remedy.gain, remedy.next_limit) if self.gains_alike else (None, None)
        topic = self.topic or remedy.topic
        return replace(remedy, text=self.text, needs=self.needs, topic=topic, gain=gain, next_limit=limit)


WITHOUT_COMPILER: Mapping[str, Rest] = {
    say("try.fuse_between_products"): Rest(say("try.fused_attention"), (say("need.stepwise_attention"),)),
    say("try.split_kernels"): Rest(say("try.split_kernels.compiled"), gains_alike=True),
    say("try.launch_less"): Rest(
        say("try.fused_optimizer_step"), (say("need.optimizer_launches"),), "fused_optimizer"
    ),
}
"""
What is left of a remedy in a program that is compiled already. What another remedy says too is left to that.
"""

SUPPORTED = frozenset({"tiny_kernels", "tiny_products"})
"""Topics of which a look settles no condition, but shows that the remedy would change something."""

_SEEN_ONLY = frozenset(offer.remedy.topic for offer in SEEN_ONLY)

SUPPOSING: Mapping[Topic, str] = {
    "activations": say("narrower_gain"),
    "float64": say("narrower_gain"),
    "alignment": say("aligned_gain"),
    "allocates": say("held_gain"),
    "chains": say("fused_gain"),
    "fused_attention": say("seen_gain"),
    "pairwise": say("pairwise_gain"),
    "serial_gradient": say("serial_gain"),
    "slow_convolutions": say("timed_gain"),
    "tf32": say("tf32_gain"),
    "by_channel": say("narrower_gain"),
}
"""What a gain supposes that comes of what a remedy leaves of the time, by its topic."""

OF_ALL_TIME: frozenset[Topic] = frozenset({"allocates"})
"""Topics whose share is of all time, not of the time that the GPU works."""

_CONVOLUTIONS = "convolution_tf32_off"
"""Why a convolution misses the tensor cores where its own switch for TF32 is off."""

KERNEL = 44
"""Characters of a kernel's name, in a list of what a remedy is for; the beginning says most."""

BEYOND: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""Of all bytes. With fewer that need not be moved, there is nothing to be gained by moving less."""

MOSTLY: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""
Of the busy time; what takes less does not say that nothing else helps.
"""


def settled(diagnosis: Diagnosis, seen: Mapping[Topic, Condition]) -> Diagnosis:
    """*diagnosis* with the remedies as *seen* leaves them."""
    if not seen:
        return diagnosis
    active = diagnosis.facts.get("gr_active")
    busy = math.nan if active is None else active.value
    launched = diagnosis.facts.get("launches_per_s")
    launches = math.nan if launched is None or _is_graphed(seen) else launched.value
    after = changed(diagnosis, lambda finding: _settled(finding, seen, busy, launches, diagnosis.shares))
    if _starved(diagnosis) and not _starved(after):
        after = with_findings(after, tuple(map(_ranked_by_fusing, after.findings)))
    if _starved(after) or not _starved(diagnosis):
        return after
    starved = say("answer.starved")
    return replace(after, steps=tuple(_not_needed(s) if s.answer == starved else s for s in after.steps))


def _starved(diagnosis: Diagnosis) -> bool:
    return any(finding.rule == "tensor_starved" for finding in diagnosis.findings)


def _ranked_by_fusing(finding: Finding) -> Finding:
    """*finding* with the rank of what fusing gains by a look, where it is about memory and fusing leads."""
    first = next(iter(finding.remedies), None)
    fuses = finding.rule == "memory_bound" and first is not None and first.topic == "chains"
    return replace(finding, saves=None) if fuses and finding.gain is not None else finding


def _not_needed(step: StepAnswer) -> StepAnswer:
    """The answer of *step* that the tensor cores wait, where there is nothing for them to do."""
    told = say("steps.cannot_use_them", text=step.text)
    return replace(step, answer=say("answer.not_needed"), status="ok", text=told)


def _settled(
    finding: Finding,
    seen: Mapping[Topic, Condition],
    busy: float,
    launches: float,
    shares: Mapping[TimeClass, float],
) -> Finding:
    if finding.rule == "tensor_starved":
        finding = _nothing_for_tensor_cores(finding, seen, busy)
    if finding.rule == "memory_bound" and "traffic" in seen:
        finding = replace(finding, because=(*finding.because, _traffic(seen["traffic"])))
    offered = {remedy.text for remedy in finding.remedies}
    shown = (remedy for remedy in _shown_only(finding.rule, seen) if remedy.text not in offered)
    before = (*with_gain(finding, finding.remedies), *shown)
    left = _not_done(before, seen)
    sure: list[Remedy] = []
    supported: list[Remedy] = []
    supposed: list[Remedy] = []
    for remedy in left:
        condition = seen.get(cast(Topic, remedy.topic))
        need = "" if condition is None else SETTLED.get(condition.topic, "")
        if condition is None or need not in ("", *remedy.needs) or not (need or condition.holds):
            supposed.append(remedy)
        elif condition.holds:
            alone = remedy.topic in _SEEN_ONLY
            place = sure if need or alone else supported if condition.topic in SUPPORTED else supposed
            place.append(_named(remedy, condition, need, busy, launches))
    sure.sort(key=_most, reverse=True)
    computed = {remedy.text for remedy in finding.remedies if remedy.gain is not None}
    better = [r for r in supposed if r.text in computed and sure and _gains_more(r, sure[0])]
    remedies = (*better, *sure, *supported, *(r for r in supposed if r not in better))
    if _is_compiled(seen) and any(map(_is_about_compiling, before)):
        already = say("compiled_already", share=text.percent(seen["compile"].beside))
        finding = replace(finding, because=(*finding.because, already))
    return finding if remedies == before else led_by_its_first(finding, remedies, shares, seen)


def _nothing_for_tensor_cores(finding: Finding, seen: Mapping[Topic, Condition], busy: float) -> Finding:
    """
    *finding* that tensor cores are kept waiting, as that of kernels that wait for their latencies where a
    look shows that most of these are convolutions channel by channel, which no tensor core makes faster, or
    multiply nothing, and no product could be fed better.
    """
    why = next((w for w in (_why_not(t, seen, finding.share, busy) for t in _NOT_FOR_THEM) if w), "")
    if not why:
        return finding
    least, most = (amdahl(finding.share, recovered=part) for part in RECOVER_LATENCY)
    return replace(
        finding,
        rule="latency_bound",
        title=say("latency.title", share=text.percent(finding.share)),
        because=(*finding.because[:1], why),
        gain=None,
        next_limit=None,
        remedies=tuple(o.remedy for o in OFFERS if o.rule == "latency_bound" and o.applies is always),
        eased=("latency",),
        saves=middle(Gain(least, most, "")),
    )


_FEEDS: tuple[Topic, ...] = ("channels_last", "alignment", "tensor_cores", "fused_attention")
"""What keeps tensor cores waiting by how their products are made, or what stands in their place."""

_NOT_FOR_THEM: tuple[Topic, ...] = ("by_channel", "between")
"""What tensor cores cannot do."""


def _why_not(topic: Topic, seen: Mapping[Topic, Condition], waiting: float, busy: float) -> str:
    """Why most of what is *waiting*, a share of the time, is nothing for tensor cores; empty if it is not."""
    condition = seen.get(topic)
    if condition is None or not condition.share * busy >= MOSTLY * waiting:
        return ""
    if topic == "between" and _fed_badly(seen):
        return ""
    return say(f"latency.{topic}", share=text.percent(condition.share))


def _fed_badly(seen: Mapping[Topic, Condition]) -> bool:
    """Whether the tensor cores might be fed better, for all that a look shows."""
    slow = seen.get("slow_convolutions")
    return (slow is not None and slow.holds) or any(
        topic not in seen or seen[topic].holds for topic in _FEEDS
    )


def _shown_only(rule: str, seen: Mapping[Topic, Condition]) -> Iterator[Remedy]:
    """The remedies against *rule* that nobody would suppose, and *seen* suggests."""
    for offer in SEEN_ONLY:
        condition = seen.get(cast(Topic, offer.remedy.topic))
        if offer.rule == rule and condition is not None and condition.holds:
            yield offer.remedy


IN_VAIN: Mapping[str, Topic] = {
    say("try.more_under_way"): "serial_gradient",
    say("try.split_kernels"): "serial_gradient",
}
"""Remedies that do not help where this takes most of the time: equal indices come one after another."""


def _is_done(remedy: Remedy, seen: Mapping[Topic, Condition]) -> bool:
    """Whether *remedy* would change nothing."""
    topics = NOTHING_TO_DO.get(remedy.text, ())
    other = seen.get(IN_VAIN[remedy.text]) if remedy.text in IN_VAIN else None
    in_vain = other is not None and other.holds and other.share >= MOSTLY
    return in_vain or any(topic in seen and not seen[topic].holds for topic in topics)


def _not_done(remedies: Sequence[Remedy], seen: Mapping[Topic, Condition]) -> list[Remedy]:
    """What is left of *remedies* to do."""
    left = [remedy for remedy in remedies if not _is_done(remedy, seen)]
    if not _is_compiled(seen):
        return left
    said = {remedy.text for remedy in left}
    rests = [(remedy, WITHOUT_COMPILER.get(remedy.text)) for remedy in left]
    kept = [(remedy, rest) for remedy, rest in rests if rest is None or rest.text not in said]
    return [remedy if rest is None else rest.of(remedy) for remedy, rest in kept]


def _is_graphed(seen: Mapping[Topic, Condition]) -> bool:
    return "graph" in seen and not seen["graph"].holds


def _is_compiled(seen: Mapping[Topic, Condition]) -> bool:
    return "compile" in seen and not seen["compile"].holds


def _is_about_compiling(remedy: Remedy) -> bool:
    """Whether *remedy*, or a part of it, is to compile the program."""
    return remedy.text in WITHOUT_COMPILER or "compile" in NOTHING_TO_DO.get(remedy.text, ())


def _most(remedy: Remedy) -> float:
    return 1.0 if remedy.gain is None else remedy.gain.high


def _gains_more(remedy: Remedy, seen: Remedy) -> bool:
    """Whether *remedy* supposes nothing, and gains more than *seen*, the best of the sure, in any case."""
    if remedy.needs or remedy.gain is None or seen.gain is None:
        return False
    return remedy.gain.low > seen.gain.high


def _named(remedy: Remedy, condition: Condition, need: str, busy: float, launches: float) -> Remedy:
    fuses, beside = condition.topic == "chains", condition.topic in WITH_BESIDE
    sentence = say(
        f"seen_{condition.topic}",
        rows=_rows(condition.rows),
        share=text.percent(condition.share),
        beside=text.percent(condition.beside),
        count=f"{condition.beside:.0f}",
        spared=_spared(condition),
    )
    gain = None if fuses else remedy.gain  # that of a finding supposes what fusing spares elsewhere
    if condition.left is not None and condition.topic in SUPPOSING:
        share = condition.share + (condition.beside if beside else 0.0)
        of = 1.0 if condition.topic in OF_ALL_TIME else busy
        gain = gain_left(share * of, condition.left, SUPPOSING[condition.topic])
        if gain is not None and condition.topic in AS_MANY_LAUNCHES:
            gain = at_host_pace(gain, launches)
    return replace(
        remedy,
        text=_for_what_was_seen(remedy.text, condition),
        needs=tuple(n for n in remedy.needs if n != need),
        seen=sentence,
        gain=gain,
    )


def _spared(condition: Condition) -> str:
    """What fusing spares in chains, and what else there is to be fused."""
    told = []
    if condition.spared is not None:
        least, most = (text.percent(part) for part in condition.spared)
        told.append(say("spared", least=least, most=most))
    if condition.beside >= NOTEWORTHY:
        told.append(say("fused_beside", beside=text.percent(condition.beside)))
    return joined("join.nothing", told)


def _for_what_was_seen(remedy: str, condition: Condition) -> str:
    """
    How TF32 is allowed in what misses it: products and convolutions have a switch each. And how an optimizer
    gets along with fewer launches that is fused.
    """
    if remedy == say("try.fused_optimizer_step") and any(row.why == "by_group" for row in condition.rows):
        return say("try.fewer_groups")
    if condition.topic != "tf32":
        return remedy
    convolutions = {row.why == _CONVOLUTIONS for row in condition.rows}
    if convolutions == {True}:
        return ALLOW_TF32_IN_CONVOLUTIONS
    return ALLOW_TF32_IN_BOTH if True in convolutions else remedy


def _traffic(condition: Condition) -> str:
    """The modules that move most of the bytes, each with its share and what it has to."""
    told = [
        say("traffic_row", name=within_model(row.name), share=text.percent(row.share), why=_why(row))
        for row in condition.rows[:NAMED]
    ]
    beyond = ""
    if condition.beside >= BEYOND:
        beyond = say("beyond", share=text.percent(condition.beside))
    return say("traffic", rows=listed(told), beyond=beyond)


def _rows(rows: tuple[Part, ...]) -> str:
    """The heaviest of *rows* with what goes in and why, how many more there are, and the first one's line."""
    told = [
        say("seen_row", name=" ".join(p for p in (_name(row), given(row.call)) if p), why=_why(row))
        for row in rows[:NAMED]
    ]
    more = len(rows) - len(told)
    names = say("join.and", first=listed(told), last=say("seen_more", number=more)) if more else listed(told)
    source = rows[0].source if rows else None
    if source is None or source.line is None:
        return names
    return say("seen_at", rows=names, file=posixpath.basename(source.file), line=source.line)


def _name(row: Part) -> str:
    """Its name, as the table has it; without a call that may be a kernel's, which is cut."""
    name = within_model(row.name)
    return name if row.call is not None or len(name) <= KERNEL else name[: KERNEL - 1] + "…"


def _why(row: Part) -> str:
    if not row.why:
        return ""
    number = row.number
    why = say(
        f"why_{row.why}",
        number=f"{number:.0f}",
        times=f"{number:.1f}",
        length=text.quantity(number / 1e9, "seconds"),
    )
    return say("why", why=why)
