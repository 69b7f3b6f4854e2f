"""
Remedies after a look inside, and after stacks of the host: what they rest on is seen, not supposed.

From outside a remedy comes with its condition: "(provided: it is a convolutional network under autocast)". A
look shows whether that is so (`attribute/conditions.py`). Where it is, the condition is left out, the layers
of which it holds are named, and the remedy comes before those that are still supposed, the one with the most
to gain first; only what supposes nothing and has a gain of its own, more in any case, stays before it. Where
it is not, the remedy is left out: it would change nothing. So are those that the program follows already,
such as torch.compile where Inductor made the kernels, or has nothing for. A remedy shows a gain only if that
was computed for it: one that comes first by what was seen does not take over the gain of another. What limits
next is told of each that has one.
Where most of what keeps the tensor cores waiting is seen to be nothing that they could do, the finding is
that kernels wait for their own latencies, with the remedies against that.
Each GPU is told by looks at the processes on it. Beside a finding that the device memory is the limit stand
the modules that move most of the bytes, and how many need not be moved. What fusing gains is told by the
elementwise operators that were seen, not by what it gains elsewhere.

Stacks say which line of the program the GPU waits for (`attribute/stacks.py`). The remedy for what the host
does there names it instead of what it might be, and comes first. Where counters saw host and GPU wait for
each other, but the host hardly waits and launches all the time, it is launching that is to become less. What
counters alone suppose the host to be doing is said no more.

A program that is seen not to be in PyTorch is advised in the words of its framework (`diagnose/wording.py`).
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, cast

from perfzero import text
from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.conditions import conditions
from perfzero.attribute.framework import framework
from perfzero.attribute.host_activity import LAUNCHING, WAITS_FOR_GPU, Activity
from perfzero.attribute.parts import NOTEWORTHY, Condition, Part, Topic
from perfzero.attribute.stacks import Cause, HostCauses
from perfzero.attribute.standing import Others
from perfzero.diagnose.filling import at_host_pace
from perfzero.diagnose.gain import LIMIT_NAMES, limit_after, middle, most_of
from perfzero.diagnose.idle_shares import without_kernels
from perfzero.diagnose.remedies import OFFERS, SEEN_ONLY, always
from perfzero.diagnose.rules.idle import SUPPOSED
from perfzero.diagnose.thresholds import CAPPED
from perfzero.diagnose.verdict import Diagnosis, Fact, Finding, Gain, Remedy, StepAnswer, TimeClass
from perfzero.diagnose.wording import ALLOW_TF32_IN_BOTH, ALLOW_TF32_IN_CONVOLUTIONS, in_words_of
from perfzero.limits import CHOICE, H200, Limit
from perfzero.report.behind_wait import behind
from perfzero.report.breakdown import given, within_model
from perfzero.report.garbage import Pauses, stalls_seen, without_garbage
from perfzero.report.host_lines import quoted, worth_telling
from perfzero.report.line_advice import advice, calls_all_along, computes
from perfzero.report.line_gains import Update, gain_beside, line_gain
from perfzero.values import Look
from perfzero.words.said import joined, listed, say, without

NAMED = 3
"""Layers by name, of which it is said how many more there are, and lines that the GPU waits for."""

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
        gain = remedy.gain if self.gains_alike else None
        return replace(remedy, text=self.text, needs=self.needs, topic=self.topic or remedy.topic, gain=gain)


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

MADE_FOR: Mapping[str, str] = {"launch_bound": say("try.graph")}
"""The remedy that a finding's gain was computed for, by rule, where that is not the first one."""

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

_WITH_BESIDE = frozenset({"chains", "activations", "by_channel"})
"""Topics of which what is left is left of the time `beside`, too."""

_NARROWS = frozenset({"activations", "by_channel"})
"""Topics whose remedies halve the bytes of all the GPU's work, whatever limits it, which keeps its limit."""

OF_ALL_TIME: frozenset[Topic] = frozenset({"allocates"})
"""Topics whose share is of all time, not of the time that the GPU works."""

_AS_MANY_LAUNCHES = frozenset(
    {"by_channel", "activations", "alignment", "float64", "pairwise", "serial_gradient", "tf32"}
)
"""Topics whose remedies make kernels shorter and no fewer, so that the host sets the pace at last."""

GAINS_AS: Mapping[str, str] = {say("try.fewer_groups"): say("try.fused_optimizer_step")}
"""The remedy that takes the same away from a line, by remedy: an update in fewer launches."""

BECOMES: Mapping[str, str] = dict.fromkeys(("alignment", "tf32", "fused_attention"), LIMIT_NAMES["tensor"])
"""The limit of what a remedy leaves, by its topic, where that is another one than before."""

_CONVOLUTIONS = "convolution_tf32_off"
"""Why a convolution misses the tensor cores where its own switch for TF32 is off."""

KERNEL = 44
"""Characters of a kernel's name, in a list of what a remedy is for; the beginning says most."""

BEYOND: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""Of all bytes. With fewer that need not be moved, there is nothing to be gained by moving less."""

MOSTLY: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""
Of the idle time; lines with less do not say what a finding of idle time comes of. Of the busy time; what
takes less does not say that nothing else helps.
"""


IDLE_POWER: Annotated[float, Limit("ratio", H200)] = 0.11
"""
Of its power limit, what a board takes at least that has nothing to do: 78 to 83 W of an H200's 700 before
seven programs of docs/zoo.md began to use it, and more between their steps.
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """
    The remedy for a line at which the host does one of *activities*, where *rule* found idle time.

    It is the one that says `remedy`. Its text becomes `text` where that is not empty, since the line
    says the rest, likewise how to see that it worked, and the condition `need` is met.
    """

    rule: str
    activities: frozenset[Activity]
    remedy: str
    text: str = ""
    need: str = ""
    verify: str = ""


_GPU_UP = say("worked.active_rises")
_LOOK_UP = say("try.see_main_thread")
_ON_GPU = say("try.compute_on_gpu")
_NOTHING_IS_READ, _UNLESS_NOTHING_IS_READ = say("try.leave_out_wait"), say("try.read_less")

_INSTEAD: tuple[tuple[frozenset[Activity], str, str], ...] = (
    (WAITS_FOR_GPU, say("try.read_less_there"), ""),
    (
        LAUNCHING,
        say("try.launch_less_there"),
        _GPU_UP,
    ),
    (frozenset({"loader"}), say("try.less_in_loader"), _GPU_UP),
    (frozenset({"gil"}), say("try.other_process"), _GPU_UP),
    (frozenset(), say("try.less_at_line"), _GPU_UP),
)
"""What to do about a line where counters alone tell only that the host is late, or that both wait in turn."""

OVERLAPS = frozenset({"host_starved", "sync_bound"})
"""Of which what is late behind a wait may be done beside the GPU's work."""

_ON_CPU = LAUNCHING | WAITS_FOR_GPU

ANSWERS = (
    # What calls torch all the time, and keeps many cores busy with it, computes there.
    *(
        Answer(rule, _ON_CPU, say("try.compute_on_gpu"))
        for rule in ("sync_bound", "host_starved")
    ),
    *(Answer("sync_bound", a, say("try.read_less"), text, verify=v) for a, text, v in _INSTEAD),
    *(Answer("host_starved", a, say("try.see_main_thread"), text, verify=v) for a, text, v in _INSTEAD),
    Answer("launch_bound", LAUNCHING, ""),
    Answer("input_starved", frozenset({"loader"}), say("try.less_per_sample")),
    Answer("input_starved", frozenset({"loader"}), say("try.less_in_loader")),
    Answer(
        "periodic_stall", frozenset({"checkpoint"}), say("try.checkpoint_thread"),
        need=say("need.checkpoints"),
    ),
    Answer(
        "periodic_stall", frozenset({"garbage collection"}), say("try.freeze_gc"),
        need=say("need.gc_stalls"),
    ),
    Answer("periodic_stall", frozenset(), say("try.log_less")),
)  # fmt: skip
"""
The first that fits: without activities any. Where none is named it is the first remedy that a look supports,
else the one that the finding's gain was computed for, else the first.
"""


def told_inside(
    breakdowns: Mapping[str, Breakdown],
) -> tuple[dict[str, Mapping[Topic, Condition]], tuple[str, ...]]:
    """What each of *breakdowns*, by file, tells of each topic; and of which that could not be found out."""
    told: dict[str, Mapping[Topic, Condition]] = {}
    doubts: list[str] = []
    for file, breakdown in breakdowns.items():
        try:
            told[file] = conditions(breakdown)
        except Exception as error:  # noqa: BLE001 - remedies stand without it, with their conditions
            doubts.append(say("trace.of", file=file, why=say("trace.unsettled", kind=type(error).__name__)))
    return told, tuple(doubts)


def seen_inside(
    told: Mapping[str, Mapping[Topic, Condition]], looks: Sequence[Look], gpus: Sequence[int]
) -> dict[int, dict[Topic, Condition]]:
    """
    What *looks*, as *told* by file, say of each topic, by GPU: of several that in which most is concerned.

    A condition holds on a GPU where it does in one process on it, and is denied where all of them deny it.
    What the time is a share of is known only where a process has the GPU for itself, and no other GPU.
    """
    return {gpu: _on_gpu(told, looks_on(looks, gpu, gpus)) for gpu in gpus}


def looks_on(looks: Sequence[Look], gpu: int, gpus: Sequence[int]) -> list[Look]:
    """Those of *looks* that are at processes on *gpu*."""
    return [look for look in looks if _is_on(look, gpu, looks, gpus)]


def _is_on(look: Look, gpu: int, looks: Sequence[Look], gpus: Sequence[int]) -> bool:
    """Whether *look* is at a process that uses *gpu*: where the driver lists none, the only one there is."""
    listed = any(other.gpus for other in looks)
    return gpu in look.gpus or (not look.gpus and len(gpus) == 1 and (bool(look.file) or not listed))


def _on_gpu(told: Mapping[str, Mapping[Topic, Condition]], looks: Sequence[Look]) -> dict[Topic, Condition]:
    alone = len({look.pid for look in looks}) == 1 and all(len(look.gpus) < 2 for look in looks)
    found: dict[Topic, Condition] = {}
    for topic in dict.fromkeys(topic for look in looks for topic in told.get(look.file, ())):
        each = [told.get(look.file, {}).get(topic) for look in looks]
        known = [condition for condition in each if condition is not None]
        most = max(known, key=lambda condition: (condition.holds, condition.share))
        if most.holds:
            found[topic] = most if alone else replace(most, left=None)
        elif len(known) == len(each):
            found[topic] = most
    return found


def frameworks(
    breakdowns: Mapping[str, Breakdown], looks: Sequence[Look], gpus: Sequence[int]
) -> dict[int, str]:
    """
    The framework of the processes on each of *gpus*; PyTorch where one of them is in it or is not known.

    Advice from outside is for PyTorch, and only what was seen to be something else is told in other words.
    """
    told = {name: framework(breakdown) for name, breakdown in breakdowns.items()}
    found: dict[int, str] = {}
    for gpu in gpus:
        each = {told.get(k.file) or "pytorch" for k in looks_on(looks, gpu, gpus)} or {"pytorch"}
        found[gpu] = "pytorch" if "pytorch" in each else each.pop() if len(each) == 1 else "other"
    return found


def in_words(diagnosis: Diagnosis, of: str) -> Diagnosis:
    """*diagnosis* with its remedies in the words of the framework *of*."""
    if of == "pytorch":
        return diagnosis
    return _changed(
        diagnosis, lambda f: replace(f, remedies=tuple(in_words_of(of, remedy) for remedy in f.remedies))
    )


def settled(diagnosis: Diagnosis, seen: Mapping[Topic, Condition]) -> Diagnosis:
    """*diagnosis* with the remedies as *seen* leaves them."""
    if not seen:
        return diagnosis
    active = diagnosis.facts.get("gr_active")
    busy = math.nan if active is None else active.value
    launched = diagnosis.facts.get("launches_per_s")
    launches = math.nan if launched is None or _is_graphed(seen) else launched.value
    after = _changed(diagnosis, lambda finding: _settled(finding, seen, busy, launches, diagnosis.shares))
    if _starved(after) or not _starved(diagnosis):
        return after
    starved = say("answer.starved")
    return replace(after, steps=tuple(_not_needed(s) if s.answer == starved else s for s in after.steps))


def _starved(diagnosis: Diagnosis) -> bool:
    return any(finding.rule == "tensor_starved" for finding in diagnosis.findings)


def _not_needed(step: StepAnswer) -> StepAnswer:
    """The answer of *step* that the tensor cores wait, where there is nothing for them to do."""
    told = say("steps.cannot_use_them", text=step.text)
    return replace(step, answer=say("answer.not_needed"), status="ok", text=told)


def with_lines(
    diagnosis: Diagnosis, host: HostCauses | None, seen: Mapping[Topic, Condition] | None = None
) -> Diagnosis:
    """
    *diagnosis* with remedies that name what the GPU waits for most of its idle time, if it is one line, or
    lines that do the same. Lines that are not worth telling elsewhere in the report are not quoted here:
    where the GPU is hardly idle, and those that may cost nothing. *seen*: what looks say of the GPU.
    """
    worth = worth_telling(host, without_kernels(diagnosis.shares))
    first = host.causes[0] if host is not None and host.causes else None
    if host is None or first is None or first not in worth:
        return diagnosis
    alike, late = [cause for cause in host.causes if cause.activity == first.activity], behind(worth)
    # Of a wait and the work behind it, which are one cause, the longer one tells how much they explain.
    theirs = max(min(1.0, sum(cause.share for cause in alike)), 0.0 if late is None else late.share)
    mostly = {
        f.rule for f in diagnosis.findings if theirs >= MOSTLY or _has_most(f, theirs, first, diagnosis)
    }
    lines = [first] if first.share >= MOSTLY else alike[:NAMED]
    elsewhere = late is not None or not calls_all_along(host)
    computing = computes(host, diagnosis.facts)
    sentence = say("seen_line", line=joined("join.semicolons", map(quoted, lines)))
    if late is not None:
        sentence = joined("join.sentences", (sentence, say("seen_behind", line=quoted(late))))

    def change(told: Finding) -> Finding:
        if told.rule not in mostly:
            return told
        finding = _without_what_is_no_launching(told, host.causes, diagnosis.shares)
        computed = tuple(r for r in finding.remedies if elsewhere and r.text == _ON_GPU)
        rest = tuple(r for r in finding.remedies if r not in computed)
        advised = _advised(replace(finding, remedies=rest), first, sentence, diagnosis.facts, computing)
        if late is not None:
            advised = _with_work_behind(advised, late)
        advised = replace(advised, remedies=(*advised.remedies, *computed))
        lead = finding is not told
        return _with_line_gains(finding, advised, alike, late, diagnosis, seen or {}, lead=lead)

    return _changed(diagnosis, change)


def _has_most(finding: Finding, share: float, first: Cause, diagnosis: Diagnosis) -> bool:
    """Whether *finding* is of waits, of which lines that wait, with *share* of the idle time, have most."""
    waits = finding.rule == "sync_bound" and first.activity in WAITS_FOR_GPU
    return waits and share * without_kernels(diagnosis.shares) >= MOSTLY * finding.share


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
        return _led_by_its_first(told, _with_gain(finding, told.remedies), diagnosis.shares)

    return _changed(diagnosis, change)


def with_next_limits(diagnosis: Diagnosis, seen: Mapping[Topic, Condition]) -> Diagnosis:
    """*diagnosis* whose remedies with a gain of their own say what limits next, where that is another."""

    def told(finding: Finding, remedy: Remedy) -> Remedy:
        limit = None if remedy.gain is None else _next_limit(finding, (remedy,), diagnosis.shares, seen)
        return replace(remedy, next_limit=None if limit == finding.next_limit else limit)

    return _changed(
        diagnosis,
        lambda f: replace(f, remedies=(*f.remedies[:1], *(told(f, remedy) for remedy in f.remedies[1:]))),
    )


def _changed(diagnosis: Diagnosis, change: Callable[[Finding], Finding]) -> Diagnosis:
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


def _advised(
    finding: Finding, cause: Cause, sentence: str, facts: Mapping[str, Fact], computing: bool
) -> Finding:
    """*finding* with the remedies for the line of *cause*, of which the first says what was seen."""
    extra = advice(finding.rule, cause, facts, computing=computing)
    if not extra:
        return _answered(finding, cause.activity, sentence)
    first, after = ([one.remedy for one in extra if (one.place == "after") is late] for late in (False, True))
    unsaid = finding if first else _answered(finding, cause.activity, sentence)
    if first and all(one.place != "instead" for one in extra):
        unsaid = _answered(finding, cause.activity, "")
    rest = [r for r in unsaid.remedies if r.text not in {one.text for one in (*first, *after)}]
    if first:
        said = {_LOOK_UP, _UNLESS_NOTHING_IS_READ} if first[0].text == _NOTHING_IS_READ else {_LOOK_UP}
        told = [replace(first[0], seen=sentence), *first[1:], *(r for r in rest if r.text not in said)]
    else:
        told = [*rest[:1], *after, *rest[1:]]
    because = tuple(without(reason, SUPPOSED) for reason in unsaid.because)
    return replace(unsaid, because=because, remedies=tuple(told))


def _with_work_behind(finding: Finding, late: Cause) -> Finding:
    """*finding* with what to do about the line *late* too, where the wait before it has to stay."""
    if finding.rule not in OVERLAPS or not finding.remedies:
        return finding
    overlap = Remedy(
        say("try.overlap_line"),
        (say("need.next_step_independent"),),
        _GPU_UP,
        seen=say("seen_line", line=quoted(late)),
    )
    first, *rest = finding.remedies
    return replace(finding, remedies=(first, overlap, *rest))


def _with_line_gains(
    before: Finding,
    after: Finding,
    causes: Sequence[Cause],
    late: Cause | None,
    diagnosis: Diagnosis,
    seen: Mapping[Topic, Condition],
    *,
    lead: bool,
) -> Finding:
    """
    *after* with what its remedies for the lines of *causes* gain; *before* is it without the lines.

    Its gain becomes that of the first remedy where lines tell that, or *lead*.
    """
    active, updates = diagnosis.facts.get("gr_active"), seen.get("fused_optimizer")
    update = Update() if updates is None or active is None else Update.seen(updates, active.value)
    shares = diagnosis.shares
    idle = shares["idle"] + shares["copy"] if shares else None
    gains = [
        _held(r.text, seen)
        or line_gain(
            GAINS_AS.get(r.text, r.text),
            after,
            causes,
            idle=idle,
            update=update,
            copies=_copies(diagnosis),
            late=late,
            allowed=_allowed(diagnosis),
        )
        for r in after.remedies
    ]
    told = tuple(replace(r, gain=own or r.gain) for r, own in zip(after.remedies, gains, strict=True))
    if not lead and (not gains or gains[0] is None):
        return replace(after, remedies=told)
    return _led_by_its_first(after, _with_gain(before, told), diagnosis.shares)


def _held(remedy: str, seen: Mapping[Topic, Condition]) -> Gain | None:
    """
    What leaving the allocator's cache alone gains by a look; None for another *remedy*, and where none tells.

    Memory that one line gives back has to be taken from CUDA again, and that is paid for at other lines.
    """
    condition = seen.get("allocates")
    if remedy != say("try.keep_cache") or condition is None or not condition.holds or condition.left is None:
        return None
    return _gain(condition.share, condition.left, SUPPOSING[condition.topic])


def _without_what_is_no_launching(
    finding: Finding, causes: Sequence[Cause], shares: Mapping[TimeClass, float]
) -> Finding:
    """
    *finding* of late launches whose remedies gain nothing of what lines take of the idle time beside these.
    """
    if finding.rule != "launch_bound":
        return finding
    idle = without_kernels(shares)

    def beside(remedy: Remedy | None, told: Gain | None) -> Gain | None:
        if remedy is None or told is None:
            return told
        return gain_beside(remedy.text, told, idle, causes, share=finding.share) or told

    remedies = tuple(replace(r, gain=beside(r, r.gain)) for r in finding.remedies)
    its = _with_its_gain(finding)
    gain = beside(its, finding.gain)
    if gain == finding.gain:
        return finding if remedies == finding.remedies else replace(finding, remedies=remedies)
    limit = _next_limit(finding, () if its is None else (replace(its, gain=gain),), shares, {})
    return replace(finding, gain=gain, next_limit=limit, remedies=remedies)


def _copies(diagnosis: Diagnosis) -> tuple[float, float]:
    """What copies take of the time at the link's rate, and what they take now with no kernel."""
    link, now = diagnosis.facts.get("pcie_link_share"), diagnosis.shares.get("copy", 0.0)
    needed = 0.0 if link is None or not math.isfinite(link.value) else link.value
    return min(needed, now), now


def _allowed(diagnosis: Diagnosis) -> float:
    """
    How many times as fast the board, at its power limit, can be at the energy of a step now; else inf.

    Without what it takes while it has nothing to do, for that goes with the idle time.
    """
    power, capped = (diagnosis.facts.get(name) for name in ("power", "capped_power"))
    limit = diagnosis.gpu.power_limit_w
    if power is None or capped is None or not limit:
        return math.inf
    work = power.value - IDLE_POWER * limit * diagnosis.shares.get("idle", 0.0)
    return max(1.0, limit / work) if capped.value >= CAPPED.value and work > 0 else math.inf


def _answered(finding: Finding, activity: Activity, sentence: str) -> Finding:
    """*finding* whose remedy for *activity* says what was seen, and comes first."""
    for answer in ANSWERS:
        if answer.rule == finding.rule and (not answer.activities or activity in answer.activities):
            remedy = _answering(finding, answer)
            if remedy is not None:
                others = tuple(r for r in finding.remedies if r is not remedy and r.text != _LOOK_UP)
                told = replace(
                    remedy,
                    text=answer.text or remedy.text,
                    needs=tuple(n for n in remedy.needs if n != answer.need),
                    verify=answer.verify or remedy.verify,
                    seen=joined("join.sentences", [part for part in (sentence, remedy.seen) if part]),
                )
                because = tuple(without(reason, SUPPOSED) for reason in finding.because)
                return replace(finding, because=because, remedies=(told, *others))
    return finding


def _answering(finding: Finding, answer: Answer) -> Remedy | None:
    if answer.remedy:
        return next((r for r in finding.remedies if r.text == answer.remedy), None)
    supported = next((r for r in finding.remedies if r.seen), None)
    return supported or _made_for(finding)


def _settled(
    finding: Finding,
    seen: Mapping[Topic, Condition],
    busy: float,
    launches: float,
    shares: Mapping[TimeClass, float],
) -> Finding:
    if finding.rule == "tensor_starved":
        finding = _nothing_for_tensor_cores(finding, seen.get("by_channel"), busy)
    if finding.rule == "memory_bound" and "traffic" in seen:
        finding = replace(finding, because=(*finding.because, _traffic(seen["traffic"])))
    offered = {remedy.text for remedy in finding.remedies}
    shown = (remedy for remedy in _shown_only(finding.rule, seen) if remedy.text not in offered)
    before = (*_with_gain(finding, finding.remedies), *shown)
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
    return finding if remedies == before else _led_by_its_first(finding, remedies, shares, seen)


def _nothing_for_tensor_cores(finding: Finding, condition: Condition | None, busy: float) -> Finding:
    """
    *finding* that tensor cores are kept waiting, as that of kernels that wait for their latencies where a
    look shows that most of these are convolutions channel by channel, which no tensor core makes faster.
    """
    if condition is None or not condition.share * busy >= MOSTLY * finding.share:
        return finding
    why = say("latency.by_channel", share=text.percent(condition.share))
    return replace(
        finding,
        rule="latency_bound",
        title=say("latency.title", share=text.percent(finding.share)),
        because=(*finding.because[:1], why),
        gain=None,
        next_limit=None,
        remedies=tuple(o.remedy for o in OFFERS if o.rule == "latency_bound" and o.applies is always),
        eased=("latency",),
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


def _with_gain(finding: Finding, remedies: tuple[Remedy, ...]) -> tuple[Remedy, ...]:
    """*remedies*, the gain of *finding* with the one that it was computed for, if that has none itself."""
    its = _with_its_gain(finding)
    if its is None:
        return remedies
    return tuple(
        replace(r, gain=finding.gain) if r.text == its.text and r.gain is None else r for r in remedies
    )


def _made_for(finding: Finding) -> Remedy | None:
    """The remedy that the rule of *finding* computes its gain for."""
    its = next((r for r in finding.remedies if r.text == MADE_FOR.get(finding.rule)), None)
    return its or next(iter(finding.remedies), None)


def _with_its_gain(finding: Finding) -> Remedy | None:
    """The remedy whose gain is that of *finding*: of one that says its own it is the first one's by now."""
    its = _made_for(finding)
    return its if its is None or its.gain is None else finding.remedies[0]


def _led_by_its_first(
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
        next_limit=_next_limit(finding, remedies, shares, seen or {}),
        remedies=tuple(r if place else replace(r, gain=None) for place, r in enumerate(remedies)),
    )


def _next_limit(
    finding: Finding,
    remedies: tuple[Remedy, ...],
    shares: Mapping[TimeClass, float],
    seen: Mapping[Topic, Condition],
) -> str | None:
    """
    What limits the program after the first of *remedies*; None where that is not known.

    Of work that moves to another resource a look shows what it is, and what limits all else (`_after`).

    It is that of the *finding* with its gain; with another one what that saves comes off the classes of time
    that the finding is about. Idle time is filled with the work that there is, which stays as it is: with a
    gain that nobody knows, what takes most of that is the limit once the idle time is gone.
    """
    if not remedies:
        return None
    gain = remedies[0].gain
    if gain is not None and gain == finding.gain:
        return finding.next_limit
    if not shares or not finding.eased:
        return None
    if gain is not None:
        becomes, condition = BECOMES.get(remedies[0].topic), seen.get(cast(Topic, remedies[0].topic))
        if becomes is not None and condition is not None and condition.left and condition.others:
            return _after(condition, condition.left, condition.others, becomes, shares)
        eased = finding.eased
        if condition is not None and condition.topic in _NARROWS:
            eased = tuple(c for c in shares if c not in ("idle", "copy", "communication"))
        return limit_after(shares, middle(gain), eased=eased, becomes=becomes)
    if finding.eased != ("idle",):
        return None
    return limit_after(shares, finding.share, eased=finding.eased)


def _after(
    condition: Condition,
    left: tuple[float, float],
    others: Others,
    becomes: str,
    shares: Mapping[TimeClass, float],
) -> str:
    """What takes most of the time with the middle of what is *left* at *becomes*, *others* as they are."""
    busy = 1.0 - shares["idle"] - shares["copy"]
    kept: dict[TimeClass, float] = {c: shares[c] for c in ("idle", "copy")}
    rest = {"tensor": others.tensor, "memory": others.memory, "latency": others.latency}
    limits = {LIMIT_NAMES[name]: share * busy for name, share in rest.items()}
    limits |= {LIMIT_NAMES[c]: share for c, share in kept.items()}
    limits[becomes] = limits.get(becomes, 0.0) + condition.share * busy * math.sqrt(left[0] * left[1])
    return most_of(limits)


def _most(remedy: Remedy) -> float:
    return 1.0 if remedy.gain is None else remedy.gain.high


def _gains_more(remedy: Remedy, seen: Remedy) -> bool:
    """Whether *remedy* supposes nothing, and gains more than *seen*, the best of the sure, in any case."""
    if remedy.needs or remedy.gain is None or seen.gain is None:
        return False
    return remedy.gain.low > seen.gain.high


def _named(remedy: Remedy, condition: Condition, need: str, busy: float, launches: float) -> Remedy:
    fuses, beside = condition.topic == "chains", condition.topic in _WITH_BESIDE
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
        gain = _gain(share * of, condition.left, SUPPOSING[condition.topic])
        if gain is not None and condition.topic in _AS_MANY_LAUNCHES:
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


def _gain(share: float, left: tuple[float, float], assumption: str) -> Gain | None:
    """The gain where of *share* of all time only *left* of it stays; None where that is not known."""
    if not 0 <= share <= 1:
        return None
    least, most = (1 / (1 - share * (1 - part)) for part in reversed(left))
    return Gain(least, most, assumption)


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
