"""
Remedies that name the line of the program that the GPU waits for (`attribute/stacks.py`).

The remedy for what the host does there names it instead of what it might be, and comes first. Where counters
saw host and GPU wait for each other, but the host hardly waits and launches all the time, it is launching
that is to become less. What counters alone suppose the host to be doing is said no more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from perfzero.attribute.host_activity import LAUNCHING, WAITS_FOR_GPU, Activity
from perfzero.attribute.parts import Condition, Topic
from perfzero.attribute.stacks import Cause, HostCauses
from perfzero.attribute.updating import Way
from perfzero.diagnose.idle_shares import without_kernels
from perfzero.diagnose.rules.idle import SUPPOSED
from perfzero.diagnose.thresholds import CAPPED, TINY_KERNEL
from perfzero.diagnose.verdict import Diagnosis, Fact, Finding, Gain, Remedy, TimeClass
from perfzero.limits import CHOICE, H200, Limit
from perfzero.report.behind_wait import behind
from perfzero.report.host_lines import quoted, worth_telling
from perfzero.report.leading import (
    changed,
    gain_left,
    led_by_its_first,
    made_for,
    next_limit,
    with_gain,
    with_its_gain,
)
from perfzero.report.line_advice import advice, calls_all_along, computes
from perfzero.report.line_gains import Update, gain_beside, limit_without_update, line_gain
from perfzero.words.said import joined, say, without

AT_NO_ROOF: tuple[TimeClass, ...] = ("latency", "small_grid")
"""Where kernels are that are too short for a roof to limit them."""

NAMED = 3
"""Lines that a remedy names, where several do the same."""

MOSTLY: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""
Of the idle time; lines with less do not say what a finding of idle time comes of.
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
_KEEP_MEMORY = frozenset({say("try.keep_cache"), say("try.hold_memory")})
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

NO_EVALUATION = LAUNCHING | frozenset[Activity]({"compiling", "starting workers", "loader", "allocator"})
"""What a line does that stalls, and neither evaluates nor logs nor saves: doing less of that is no help."""

SUPPOSED_STALLS = frozenset(map(say, ("try.log_less", "try.checkpoint_thread")))
"""Remedies against stalls whose line is not known, or does what may be any of these."""

_LESS_THERE = Remedy(say("try.less_at_line"), (), _GPU_UP)

_FUSED = say("try.fused_optimizer_step")

GAINS_AS: Mapping[str, str] = {say("try.fewer_groups"): _FUSED}
"""The remedy that takes the same away from a line, by remedy: an update in fewer launches."""


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
    # A compiler's threads, and what it tries out, are no operators on the CPU.
    compiles = first.activity == "compiling"
    computing = computes(host, diagnosis.facts) and not compiles
    sentence = say("seen_line", line=joined("join.semicolons", map(quoted, lines)))
    if late is not None:
        sentence = joined("join.sentences", (sentence, say("seen_behind", line=quoted(late))))

    def change(told: Finding) -> Finding:
        if told.rule not in mostly:
            return told
        finding = _without_what_is_no_launching(told, host.causes, diagnosis.shares)
        computed = tuple(r for r in finding.remedies if (elsewhere or compiles) and r.text == _ON_GPU)
        rest = tuple(r for r in finding.remedies if r not in computed)
        advised = _advised(replace(finding, remedies=rest), first, sentence, diagnosis.facts, computing)
        if late is not None:
            advised = _with_work_behind(advised, late)
        if not compiles:
            advised = replace(advised, remedies=(*advised.remedies, *computed))
        lead = finding is not told
        return _with_line_gains(finding, advised, alike, late, diagnosis, seen or {}, host.update, lead=lead)

    return changed(diagnosis, change)


def _has_most(finding: Finding, share: float, first: Cause, diagnosis: Diagnosis) -> bool:
    """Whether *finding* is of waits, of which lines that wait, with *share* of the idle time, have most."""
    waits = finding.rule == "sync_bound" and first.activity in WAITS_FOR_GPU
    return waits and share * without_kernels(diagnosis.shares) >= MOSTLY * finding.share


def _advised(
    finding: Finding, cause: Cause, sentence: str, facts: Mapping[str, Fact], computing: bool
) -> Finding:
    """*finding* with the remedies for the line of *cause*, of which the first says what was seen."""
    extra = advice(finding.rule, cause, facts, computing=computing)
    if finding.rule == "periodic_stall" and cause.activity in NO_EVALUATION:
        left = tuple(r for r in finding.remedies if r.text not in SUPPOSED_STALLS)
        if not left and not extra:
            return replace(finding, remedies=(replace(_LESS_THERE, seen=sentence),))
        finding = replace(finding, remedies=left)
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
    way: Way,
    *,
    lead: bool,
) -> Finding:
    """
    *after* with what its remedies for the lines of *causes* gain; *before* is it without the lines.

    *way*: how the optimizer goes through its tensors. Its gain becomes that of the first remedy where lines
    tell that, or *lead*.
    """
    active, updates = diagnosis.facts.get("gr_active"), seen.get("fused_optimizer")
    busy = math.nan if active is None else active.value
    update = Update.seen(updates, busy, way, diagnosis.step_map, _short(diagnosis))
    shares = diagnosis.shares
    idle = shares["idle"] + shares["copy"] if shares else None
    gains = [
        _held(r.text, seen)
        or _by_engine(r.text, before)
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
    if shares:
        left = limit_without_update(shares, causes, update)
        told = tuple(
            replace(r, next_limit=left) if own is not None and GAINS_AS.get(r.text, r.text) == _FUSED else r
            for r, own in zip(told, gains, strict=True)
        )
    if not lead and (not gains or gains[0] is None):
        return replace(after, remedies=told)
    return led_by_its_first(after, with_gain(before, told), diagnosis.shares)


def _short(diagnosis: Diagnosis) -> float:
    """The share of all time in kernels that no roof limits, where kernels are tiny on average."""
    kernel = diagnosis.facts.get("mean_kernel_s")
    tiny = kernel is not None and kernel.value < TINY_KERNEL.value
    return sum(diagnosis.shares.get(name, 0.0) for name in AT_NO_ROOF) if tiny else 0.0


def _held(remedy: str, seen: Mapping[Topic, Condition]) -> Gain | None:
    """
    What it gains by a look to call CUDA for no memory; None for another *remedy*, and where none tells.

    Memory that one line gives back has to be taken from CUDA again, and that is paid for at other lines.
    """
    condition = seen.get("allocates")
    if remedy not in _KEEP_MEMORY or condition is None or not condition.holds or condition.left is None:
        return None
    return gain_left(condition.share, condition.left, say("held_gain"))


def _by_engine(remedy: str, before: Finding) -> Gain | None:
    """What keeping memory gains by the engine that clears it: calls that free it may be in no line at all."""
    first = next(iter(before.remedies), None)
    its = first is not None and first.text == remedy == say("try.hold_memory")
    return before.gain if its else None


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

    def told(r: Remedy) -> Remedy:
        own = beside(r, r.gain)
        return r if own == r.gain else replace(r, gain=own, next_limit=None)

    remedies = tuple(map(told, finding.remedies))
    its = with_its_gain(finding)
    gain = beside(its, finding.gain)
    if gain == finding.gain:
        return finding if remedies == finding.remedies else replace(finding, remedies=remedies)
    limit = next_limit(
        finding, () if its is None else (replace(its, gain=gain, next_limit=None),), shares, {}
    )
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
    return supported or made_for(finding)
