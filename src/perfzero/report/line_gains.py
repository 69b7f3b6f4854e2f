"""
What a remedy for a line gains, where stacks say which line of the program the GPU waits for.

Counters alone tell how long the GPU is idle, and not how much of that a fix reaches: between a third and all
of it. Stacks tell which part of it would be gone without the line (`attribute.shares`), and that is known to
a few points. Of T, the time now, is left

    T' = T c max(1 - idle share(line) taken, floor)

    taken   the part of the line's time that the remedy takes away (`TAKEN`)
    floor   what takes as long as before, though nothing else waits for it: the stages of a loader that the
            remedy leaves alone, or the line itself where it is done beside the GPU's work. Copies that
            nobody waits for are still made: at best they take what the link needs for their bytes, which
            is less than they take now where their source is not pinned
            Beside a line that reads others may read as well (`Cause.may_wait`): at most their time goes too,
            and the GPU's work is left
            What a compiler tries out on the GPU goes with its line (`attribute.own_work`)
    c       a GPU that is never idle runs at a lower clock, and hosts change their pace (`PACE`)

Where the board is at its power limit already, though the GPU is idle for a part of the time, it cannot take
more energy a second: at the energy that a step takes now it becomes as many times as fast as the limit is
above today's power. Lower clocks take less energy for the same work, so that is the least.

Where a line launches nothing is told: kernels have to be launched somehow. Only an optimizer's line can do
with few of them, and what its many small kernels take of the GPU's time then goes, too: by a look, or by the
phases of the step whose idle time is that of the line (`Update`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from perfzero.attribute.causes import Cause
from perfzero.attribute.conditions import LISTED_LEFT, SINGLE_LEFT
from perfzero.attribute.host_activity import LAUNCHING, UPDATES, WAITS_FOR_GPU, Stage
from perfzero.attribute.parts import Condition
from perfzero.attribute.updating import Way
from perfzero.diagnose.gain import limit_after, without_launches
from perfzero.diagnose.thresholds import STEP_TAKES
from perfzero.diagnose.verdict import Finding, Gain, StepMap, TimeClass
from perfzero.limits import CHOICE, H200_LOOKS, Limit
from perfzero.report.behind_wait import without_wait
from perfzero.text import percent
from perfzero.words.said import say

PACE: Annotated[tuple[float, float], Limit("ratio", H200_LOOKS)] = (0.9, 1.25)
"""
How much longer what is left takes, least and most. In fourteen programs on an H200 (docs/host.md) the work
that was left without the planted line took 1.00 to 1.13 times as long as before, for its clock fell under the
power limit; and hosts change their pace by a tenth from minute to minute.
"""

LEAST_OF_SHARE: Annotated[float, Limit("ratio", CHOICE)] = 0.8
"""Of a line's share at least: of what comes twice in ten seconds the interval begins at nothing."""

STAGE_KNOWN: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""To how much a stage's share is known: two workers are seen 200 times."""

LEAST_LEFT: Annotated[float, Limit("ratio", CHOICE)] = 0.01
"""Of the time, what is left at least: shares are known to a hundredth, so no more than 100 times is told."""

_WORK: tuple[Stage, ...] = ("decoding", "augmenting", "tokenising", "other")
"""What is done to a sample, as against where it comes from and where it goes."""


@dataclass(frozen=True, slots=True)
class Taken:
    """
    The part of the line's time that a remedy takes away, least and most.

    `stages`: of a loader, only that of these; empty for all of it. `beside`: the line is not shortened, but
    done while the GPU works. `busy`: the part of the GPU's work that goes with it, at most. `copies`: what
    is copied now is copied then, beside the GPU's work. `tries`: what the GPU does for the line itself goes,
    too, and nothing else of its work.
    """

    least: float = 1.0
    most: float = 1.0
    stages: tuple[Stage, ...] = ()
    beside: bool = False
    busy: float = 0.0
    copies: bool = False
    tries: bool = False


TAKEN: Mapping[str, Taken] = {
    say("try.read_less_there"): Taken(),
    say("try.checkpoint_thread"): Taken(),
    say("try.keep_workers"): Taken(),
    say("try.stop_compiling"): Taken(tries=True),
    say("try.keep_cache"): Taken(),
    say("try.hold_memory"): Taken(),
    say("try.other_process"): Taken(),
    # Both passes are slower for them, and each reads what it checks.
    say("try.no_checks"): Taken(0.8, busy=0.4),
    # Those that are not timed are slower; what the GPU does for the timing, beside the gaps, is not needed.
    say("try.no_timing"): Taken(0.7, busy=0.6),
    **dict.fromkeys(
        map(say, ("try.fixed_size", "try.decide_on_gpu", "try.keep_answer", "try.unchecked")), Taken()
    ),
    say("try.factor_on_gpu"): Taken(),
    say("try.leave_out_wait"): Taken(),
    say("try.collect_rarely"): Taken(),
    say("try.copy_without_waiting"): Taken(copies=True),
    say("try.compute_on_gpu"): Taken(0.9),  # the GPU has its own part of it then
    say("try.less_at_line"): Taken(0.9),
    say("try.overlap_line"): Taken(beside=True),
    say("try.less_in_loader"): Taken(0.95),
    say("try.local_disk"): Taken(stages=("reading",)),
    say("try.keep_in_memory"): Taken(stages=("reading",)),
    say("try.tokenise_before"): Taken(stages=("tokenising",)),
    say("try.index_batch"): Taken(stages=("picking", "collating")),
    say("try.less_per_sample"): Taken(0.5, 0.75, stages=_WORK),  # half the width, a quarter of the pixels
}
"""By the remedy's text. A remedy that is not here has the gain that counters tell, or none."""

_OF_THE_WORK = frozenset({say("try.compute_on_gpu"), say("try.less_at_line")})
"""Remedies for what the host does, not for a wait before that."""


@dataclass(frozen=True, slots=True)
class Update:
    """
    What is known of the optimizer: the share of all time that its kernels take, by a look, and what a fused
    one leaves of its time, at least and at most.

    `tiny`: the share of all time that kernels take in phases of the step that consist of tiny ones, and
    `tiny_idle` the idle time there. So far as that idle time is the optimizer's, these are its kernels.

    `short`: without a look or such phases, the share of all time in kernels that no roof limits, where
    kernels are tiny on average. Those that run while the host is at the optimizer's line may all be its own,
    for a host that launches too slowly is not far ahead.
    """

    share: float = 0.0
    left: tuple[float, float] = (0.0, 0.6)
    tiny: float = 0.0
    tiny_idle: float = 0.0
    short: float = 0.0

    @classmethod
    def seen(
        cls, condition: Condition | None, active: float, way: Way, step: StepMap | None, short: float = 0.0
    ) -> Update:
        """
        By the *condition* on optimizers, where the GPU was *active* for a share of the time; by the *way*
        that stacks show the update to go, by the map of the *step*, and by the share of *short* kernels.
        """
        known = condition is not None and math.isfinite(active)
        share = condition.share * active if condition is not None and known else 0.0
        by_look = None if condition is None else condition.left
        left = by_look or {"single": SINGLE_LEFT, "listed": LISTED_LEFT}.get(way, cls().left)
        tiny = [] if step is None else [p for p in step.phases if p.kind == "tiny_kernels"]
        busy = sum(p.share * p.levels.get("gr_active", 0.0) for p in tiny)
        return cls(share, left, busy, sum(p.share for p in tiny) - busy, 0.0 if tiny or known else short)

    def kernels(self, part: float, idle: float, *, beside: float = 0.0) -> float:
        """
        The share of all time that its kernels take, where its line has *part* of all *idle* time: at most,
        where the host is at the line and the GPU works for the share *beside* of all time.

        A look knows how long kernels work, and counters for how long they keep the GPU active: with their
        launch, which takes longer than the work of tiny ones.
        """
        there = 1.0 - (1.0 - part) * idle / self.tiny_idle if self.tiny_idle > 0 else 0.0
        found = max(self.share, self.tiny * min(1.0, max(0.0, there)), min(self.short, beside))
        return min(found, 1.0 - idle)


LAUNCHES_LESS = frozenset(map(say, ("try.graph", "try.launch_less", "try.fused_optimizer_step")))
"""Remedies that take launches away, and nothing else that the host does."""

_RULES = frozenset({"input_starved", "host_starved", "periodic_stall", "sync_bound", "launch_bound"})


def line_gain(
    remedy: str,
    finding: Finding,
    causes: Sequence[Cause],
    *,
    idle: float | None = None,
    update: Update | None = None,
    copies: tuple[float, float] = (0.0, 0.0),
    late: Cause | None = None,
    allowed: float = math.inf,
) -> Gain | None:
    """
    What *remedy*, by its text, gains against *finding*; None where the lines do not tell.

    *causes*: the lines that the GPU waits for, all of one activity, the first the one with most. *idle*: the
    share of all time without a kernel, of which theirs are shares, copies included; that of the finding where
    it is not known. *update*: what is known of the optimizer. *copies*: the share of all time that copies
    take which the GPU waits for, at least and at most once it does not. *late*: the line that the GPU waits
    for because the first one waits for it. *allowed*: how many times as fast the board can be at the energy
    that a step takes now.
    """
    found = _line_gain(remedy, finding, causes, idle, update, copies, late)
    if causes and TAKEN.get(remedy, Taken()).tries:  # what is not tried out takes no energy
        allowed /= max(LEAST_LEFT, 1 - causes[0].own_work[0])
    if found is None or not found.low > allowed:
        return found
    low = max(1.0, allowed)
    text = say("gain.within_power", assumption=found.assumption, allowed=f"{low:.2f}")
    return Gain(low, max(low, found.high), text)


def _line_gain(
    remedy: str,
    finding: Finding,
    causes: Sequence[Cause],
    idle: float | None,
    update: Update | None,
    copies: tuple[float, float],
    late: Cause | None,
) -> Gain | None:
    whole = finding.share if idle is None or finding.rule == "periodic_stall" else idle
    if finding.rule not in _RULES or not causes or not 0 < whole < 1:
        return None
    if remedy == say("try.fused_optimizer_step"):
        return _update_gain(whole, causes, update or Update())
    taken = TAKEN.get(remedy)
    if taken is None:
        return None
    if late is not None and (taken == Taken() or taken.beside):
        shortest, longest = without_wait(causes[0], late, whole)
        low, high = 1 / (PACE[1] * longest), 1 / (PACE[0] * shortest)
        return Gain(max(1.0, low), max(1.0, high), say("gain.in_turns"))
    if late is not None and remedy in _OF_THE_WORK:
        causes = [late]
    first = causes[0]
    if first.activity in LAUNCHING and not _moves_work(remedy):
        return None
    least, most = (whole * share for share in _share(finding, causes))
    if taken.tries:
        works = 1 - max(whole, idle or 0.0)  # stalls are a part of the idle time
        least, most = (a + works * own for a, own in zip((least, most), first.own_work, strict=True))
    floor, slower = (0.0, 0.0), PACE[1]
    if taken.beside:
        floor = (least, most)
    elif taken.copies:
        floor = copies
    elif taken.stages:
        part = _stages(first, taken.stages)
        if part is None:
            return None
        floor = (
            1 - min(1.0, part + STAGE_KNOWN) * taken.most,
            1 - max(0.0, part - STAGE_KNOWN) * taken.least,
        )
        taken, slower = Taken(), 1 / PACE[0]  # a loader that sets the pace with and without the remedy
    if first.may_wait > 0 and taken == Taken():  # the GPU's own work takes its time whatever else waits
        most = max(most, min(most + first.may_wait, whole))
    shortest = PACE[0] * max(1 - most * taken.most - (1 - whole) * taken.busy, floor[0])
    longest = max(PACE[1] * (1 - least * taken.least), slower * floor[1])
    share = percent(min(1.0, most / whole))
    text = say("gain.copied_beside", share=share) if taken.copies else say("gain.without_line", share=share)
    return Gain(max(1.0, 1 / longest), max(1.0, 1 / shortest), text)


def gain_beside(
    remedy: str, told: Gain, idle: float, causes: Sequence[Cause], *, share: float
) -> Gain | None:
    """
    What *remedy* against late launches gains that would gain *told* if all of *share* were launching.

    None where it is, and for a remedy that does not only launch less. *idle*, of all time, is that without a
    kernel, and *share* the part of it that comes of late launches by the counters. *causes*: all lines that
    the GPU waits for. What they do that is neither launching nor the program's own Python, which may launch,
    such as a copy that waits, takes as long as before. It lies in other idle time first.

    Of that a larger batch has more, sample for sample, but for calls that wait for the GPU: those are one a
    step, and it shortens them like launches as long as its work hides them. Where told = b and x the rest,
    there is left x + (1 - x) / b, and at most what the GPU works and all that is no launching.
    """
    batch = remedy == say("try.larger_batch")
    if not (batch or remedy in LAUNCHES_LESS):
        return None

    def stays(of: Sequence[Cause]) -> tuple[float, float]:
        sums = (sum(c.low for c in of), sum(c.high for c in of))
        least, most = (max(0.0, idle * min(1.0, part) - max(0.0, idle - share)) for part in sums)
        return least, most

    others = [cause for cause in causes if cause.activity not in LAUNCHING | {"python"}]
    least, most = stays(others)
    if not most > 0:
        return None
    longest, shortest = 1 / told.low + most, 1 / told.high + least
    if batch:
        fewest, each = stays([cause for cause in others if cause.activity not in WAITS_FOR_GPU])
        longest = max(each + (1 - each) / told.low, STEP_TAKES * (1 - share) + most)
        shortest = min(longest, fewest + (1 - fewest) / told.high)
    part = percent(most / idle)
    if remedy == say("try.graph"):
        text = say("gain.graph_beside", share=part)
    else:
        text = say("gain.launches_beside", assumption=told.assumption, share=part)
    return Gain(max(1.0, 1 / longest), max(1.0, 1 / shortest), text)


def _update_gain(idle: float, causes: Sequence[Cause], update: Update) -> Gain | None:
    """
    What an optimizer of few kernels gains, where its line is one of those that the GPU waits for.

    At most all of the line goes: where launches come too late the host sets the pace, and what it launches
    while a kernel runs takes its time, too. What the GPU works elsewhere stays.
    """
    its = [cause for cause in causes if UPDATES.search(cause.text)]
    if not its:
        return None
    least, most = (min(1.0, sum(shares)) for shares in ([c.low for c in its], [c.high for c in its]))
    waited = sum(c.waited for c in its)
    few, many = update.kernels(least, idle), update.kernels(most, idle, beside=waited)
    gone = (
        (idle * least + few) * (1 - update.left[1]),
        (idle * most + max(many, waited)) * (1 - update.left[0]),
    )
    shortest = PACE[0] * max(1 - gone[1], 1 - idle - many)
    text = say("gain.without_line", share=percent(most))
    low = max(1.0, PACE[0] / max(LEAST_LEFT, 1 - gone[0]))
    return Gain(low, 1 / max(LEAST_LEFT, shortest), text)


def limit_without_update(shares: Mapping[TimeClass, float], causes: Sequence[Cause], update: Update) -> str:
    """
    What takes most of the time, of which *shares* are known, once an optimizer's line among *causes* does
    with few kernels.

    Its part of the idle time goes, and its kernels.
    """
    idle = shares["idle"] + shares["copy"]
    its = [cause for cause in causes if UPDATES.search(cause.text)]
    part = min(1.0, sum(c.share for c in its))
    kernels = update.kernels(part, idle, beside=sum(c.waited for c in its))
    goes = 1.0 - (update.left[0] + update.left[1]) / 2
    after = without_launches(shares, goes * part * idle, goes * kernels)
    return limit_after(after, 0.0, eased=())


def _moves_work(remedy: str) -> bool:
    """Whether *remedy* takes away what the line does, though it launches."""
    return remedy in (say("try.compute_on_gpu"), say("try.no_timing"), say("try.no_checks"))


def _share(finding: Finding, causes: Sequence[Cause]) -> tuple[float, float]:
    """Which part of the finding's time would be gone without the lines, least and most."""
    if finding.rule == "periodic_stall":  # the line's share is of other idle time as well
        return min(1.0, causes[0].share), 1.0
    # Reads go together, and launches, and calls for memory; of other lines the first is meant.
    together = WAITS_FOR_GPU | LAUNCHING | {"allocating"}
    meant = causes if causes[0].activity in together else causes[:1]
    least = sum(min(c.share, max(c.low, LEAST_OF_SHARE * c.share)) for c in meant)
    return min(1.0, least), min(1.0, sum(c.high for c in meant))


def _stages(cause: Cause, stages: Iterable[Stage]) -> float | None:
    """The share of *stages* of the time that batches take; None where none of them was seen."""
    share = {one.stage: one.share for one in cause.stages}
    found = sum(share.get(stage, 0.0) for stage in stages)
    return found if found > 0 else None
