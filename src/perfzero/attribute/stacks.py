"""
Which line of the program the GPU waits for: idle time seen by counters, and stacks of the host.

    stacks   moments at which the main thread was seen, at random, so shares of moments are shares of time
    gaps     when the GPU had nothing to do, from PM samples of 1 to 2 ms
    share    of the idle time that would be gone without the line; shares of several may add up to more

Whom the idle time belongs to depends on what the host does (`host_activity`):

- **It computes, or waits for something that is not the GPU.** As long as the GPU is idle meanwhile, it waits
  for this. The share is that of the moments in gaps. Where the GPU is busy the line costs nothing.
- **It waits for the GPU** (`.item()`, `synchronize()`). The GPU is busy as long as this lasts; the gap comes
  after it, while the host is at other lines, since nothing was given in advance. So the gaps that *begin* in
  such a call are its own, with two limits. Without it no more can be gained than the host waited in it, for
  the host would have the rest to do all the same: T = host + waiting, and without waiting T' >= host. And
  what is waited for in parallel, such as a batch of the DataLoader, would only be waited for longer.
- **It launches.** Kernels have to be launched, so such a line gets what no other cause explains.

Where gaps begin is told by the moments just before them, each weighted by the length of its gap over the
number of moments to expect: moments come independently of the program, so those that were seen stand for all.

Gaps shorter than a sample cannot be placed. There the lines that wait for the GPU share the idle time, if the
host is found in them at all (`SYNCED`), with the same limits.

**The GIL.** The share of the line that holds it (`attribute.gil`) is that of the looks at the main thread,
while the GPU was idle, that found it waiting. The line at which it waited loses as much of its moments as
looks in it found it waiting, apart for a busy and for an idle GPU.

Clock: times of stacks may be off by some milliseconds together. The offset is chosen that makes lines tell
most about whether the GPU is idle (mutual information), within what is known of the clock.

An interval comes of resampling blocks of half a second.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perfzero.attribute.gil import held_up
from perfzero.attribute.host_activity import (
    LAUNCHING,
    WAITS_FOR_GPU,
    WAITS_FOR_OTHERS,
    Activity,
    Meaning,
    Stage,
    TextOf,
    may_copy,
    meaning,
    stage,
)
from perfzero.attribute.torn import whole_stacks
from perfzero.stacks import Frame, GilUse, HostStacks, ProcessStacks
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, IntArray, Samples

VOID = 0.05
"""GR activity below which a sample is taken to lie in a gap."""

FULL = 0.97
"""... and from which on it has none."""

LEAST_IDLE = 0.02
"""Less of the time is not worth an explanation, and too little to find one."""

LEAST_SAMPLES = 100
"""Moments in the windows; of fewer, shares are off by more than 5 points as a rule."""

SYNCED = 0.15
"""From this share of the moments near short gaps on, lines that wait for the GPU explain them all."""

BEGINS_WITHIN_S = 0.002
"""How long before a gap a moment tells where it began; more for long gaps, a quarter of their length ..."""

BEGINS_LONGEST = 10.0
"""... but no more than so many times the mean distance of moments."""

UNCERTAIN_NS = 700_000
"""So shortly before a gap begins a moment tells nothing: clocks and gaps are not placed better."""

OFFSET_STEP_NS = 500_000
"""Steps in which the clock is searched."""

LATE_NS = 1_000_000
"""
Times are hardly too late by more: py-spy cannot begin to count before it runs, but a busy machine may let it
run later than is taken. So what looks the same further back in the step is not mistaken for the truth.
"""

MOST_SLACK_NS = 20_000_000
"""The clock is searched no farther: it is known to 4 ms, else a file takes minutes."""

CLOCK_SIGMAS = 4.0
"""The clock's slack is so many standard deviations of it."""

TEMPER = 0.1
"""
How much of the information counts against what is known of the clock. All of it would mean that moments are
independent and lines are pure; but where a gap begins in the middle of a line, a wrong clock makes it purer.
"""

LOOP_S = 1.0
"""A call that lasts so long on average holds a loop over steps: the lines in it are told apart."""

INTO = 0.9
"""A line within a called function is told instead of the call if it has so much of the call's share."""

WORTH = 0.05
"""Of the idle time; less is not told."""

FIRST = 0.8
"""A line that waits for the GPU comes first if it has so much of the largest share: what follows is late."""

MOSTLY = 0.5
"""Python during which the GPU is busy for more of the time than this is taken to launch."""

COPIES = 0.05
"""
Of the idle time in a line that may copy: if a copy engine works for so much of it, the line copies.
From memory that is not pinned it works for 0.12 to 0.15 of a copy, for the host moves the data first; while
the host is elsewhere for 0.003 of the idle time at most (seven programs on an H200, 2026-11-30).
"""

BLOCK_S = 0.5
MOST_BLOCKS = 400
"""Longer blocks where there would be more: 10 s have 20 of them."""

REPLICATES = 200

ROUNDS = 20
"""Of the estimate of how long stacks last; it has settled by then."""

CELL_S = 0.0005
"""The parts of a visit in which it may have ended: finer than a sample of the counters."""

SHARPENED = 4
"""Rounds in which ends of visits are set by the GPU; more change nothing."""

TRUST = 0.5
"""How much of what the GPU tells counts there: neighbouring cells tell much the same."""

LEAST_CHANCE = 0.02
"""No line is taken to be quite sure to come with a busy GPU, or with an idle one."""

MOST_FRAMES = 1_500_000
"""
Of all different stacks of a thread together. 10 s have 2,500 moments, and stacks have some 40 frames:
with more than this, a file was made to take long.
"""

MOST_MEANINGS = 4_000
"""Different meanings of stacks, of which 10 s have no more than moments."""

_SEED = 20260101


TOO_MANY = "The host was seen at more different places than can be told apart."


@dataclass(frozen=True, slots=True)
class StageShare:
    """What workers of the DataLoader do: share of the time that they work, and the line of the program."""

    stage: Stage
    share: float
    frame: Frame | None
    text: str


@dataclass(frozen=True, slots=True)
class Cause:
    """
    A line of the program that the GPU waits for.

    `share` of the idle time would be gone without it, with its 95 % interval; `drained` is the part of it
    that comes after the line, because it waited for the GPU. `path` leads from the program's first line to
    `frame`. `stages` says what the workers did, where the line waits for a DataLoader.
    """

    activity: Activity
    frame: Frame
    text: str
    path: tuple[Frame, ...]
    share: float
    low: float
    high: float
    drained: float
    stages: tuple[StageShare, ...] = ()


@dataclass(frozen=True, slots=True)
class HostCauses:
    """
    Causes of the idle time of one GPU, the largest first.

    `idle`: share of the time that the GPU had nothing to do, where both were looked at, `seconds` long, with
    `moments` at which the host was seen. `offset_s` was added to the stacks' clock. `told`: how much the
    lines tell of the idle time, in nats over all moments; more for the GPU that the process feeds than for
    another. `reason`: why there are no causes, empty where there are.
    """

    causes: tuple[Cause, ...] = ()
    idle: float = math.nan
    seconds: float = 0.0
    moments: int = 0
    offset_s: float = 0.0
    told: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Moments:
    """
    When the thread was seen, with which leaf (path and activity), and for how many moments each counts.

    `sure`: whether it was seen by then, not only likely to be there.
    """

    time_ns: IntArray
    leaf: IntArray
    weight: FloatArray
    sure: BoolArray

    def where(self, keep: BoolArray) -> _Moments:
        return _Moments(self.time_ns[keep], self.leaf[keep], self.weight[keep], self.sure[keep])

    def shifted(self, offset_ns: int) -> _Moments:
        return replace(self, time_ns=self.time_ns + offset_ns)

    @property
    def count(self) -> float:
        return float(self.weight.sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Idle:
    """
    The GPU's idle time as a function of time: `value[i]` in [edge[i], edge[i + 1]), NaN outside of windows.

    Gaps that can be placed, row by row: `start_ns`, `end_ns`. Samples with shorter ones: `short_start_ns`,
    `short_end_ns`, `short_s` idle seconds in each.
    """

    edge: IntArray
    value: FloatArray
    start_ns: IntArray
    end_ns: IntArray
    short_start_ns: IntArray
    short_end_ns: IntArray
    short_s: FloatArray
    covered_s: float

    def at(self, time_ns: IntArray) -> FloatArray:
        """The idle share at each of *time_ns*, NaN where not sampled."""
        place = np.searchsorted(self.edge, time_ns, side="right") - 1
        inside = (place >= 0) & (place < len(self.value))
        return np.where(inside, self.value[np.clip(place, 0, len(self.value) - 1)], np.nan)


def host_causes(stacks: HostStacks, pm: Samples) -> HostCauses:
    """What the host did while the GPU of the PM samples *pm* was idle."""
    main = next((p for p in stacks.processes if p.role == "main"), None)
    if main is None or not len(main):
        return HostCauses(reason=stacks.doubts[0] if stacks.doubts else "The host was not sampled.")
    text_of = _texts(stacks)
    thread = main_thread(main)
    if _frames(main, main.thread == thread) > MOST_FRAMES:
        return HostCauses(reason=TOO_MANY)
    main = whole_stacks(main, thread)
    idle = _idle(pm, start_ns=main.start_ns, end_ns=main.end_ns)
    if idle is None:
        return HostCauses(reason="No hardware counters were sampled while the host was.")
    leaves, leaf_of = _leaves(main, text_of)
    if len(leaves) > MOST_MEANINGS:
        return HostCauses(reason=TOO_MANY)
    visits = _visits(main, leaf_of)
    offset_ns = _offset_ns(_moments(visits), idle, slack_ns=main.slack_ns)
    moments = _moments(visits, idle, offset_ns=offset_ns)
    moments = moments.shifted(offset_ns)
    moments = moments.where(np.isfinite(idle.at(moments.time_ns)))
    if not len(moments.time_ns):
        return HostCauses(reason="No hardware counters were sampled while the host was.")
    idle_s = float(np.sum(idle.end_ns - idle.start_ns)) / 1e9 + float(np.sum(idle.short_s))
    known: dict[str, Any] = {
        "idle": idle_s / idle.covered_s,
        "seconds": idle.covered_s,
        "moments": round(moments.count),
        "offset_s": offset_ns / 1e9,
        "told": moments.count * _information(moments, idle.at(moments.time_ns)),
    }
    if known["moments"] < LEAST_SAMPLES:
        return HostCauses(**known, reason="The host was seen too rarely while the counters were sampled.")
    if known["idle"] < LEAST_IDLE:
        return HostCauses(**known, reason="The GPU was hardly idle while the host was sampled.")
    leaves = _with_copies(leaves, moments, idle, pm, text_of)
    rate_hz = moments.count / idle.covered_s
    leaves, at_work, looks = _with_gil(leaves, moments, idle, stacks.gil, text_of)
    shares = _Shares(leaves, at_work, idle, looks, rate_hz=rate_hz)
    found = _told(leaves, moments, shares, text_of, rate_hz=main.rate_hz)
    stages = _stages(stacks, text_of)
    causes = tuple(_with_stages(cause, stages) for cause in found)
    return HostCauses(causes, **known)


def _texts(stacks: HostStacks) -> TextOf:
    lines = stacks.lines

    def text_of(frame: Frame) -> str:
        return lines.get((frame.file, frame.line), "")

    return text_of


# --- moments -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Visits:
    """
    Stacks of one thread, shape (n,): when each was first seen, its leaf, how long until another one was seen.

    `growth_hz`: the rest of the time for which the stack lasted has the density exp(growth * rest).
    """

    time_ns: IntArray
    leaf: IntArray
    length_s: FloatArray
    growth_hz: FloatArray
    rate_hz: float


def _visits(process: ProcessStacks, leaf_of: IntArray) -> _Visits:
    """What the one thread of *process* was seen to do; *leaf_of*: stack -> leaf, -1 for none."""
    time_ns, leaf = process.time_ns, leaf_of[process.stack]
    length_s = np.diff(time_ns, append=max(process.end_ns, int(time_ns[-1]))) / 1e9
    growth_hz = _growth_hz(length_s, leaf, rate_hz=process.rate_hz)
    return _Visits(time_ns, leaf, length_s, growth_hz, process.rate_hz)


def _moments(visits: _Visits, idle: _Idle | None = None, *, offset_ns: int = 0) -> _Moments:
    """
    Moments at which the thread was seen, with their weights, where 1 is one moment.

    py-spy writes down a moment only if the stack is another than before. How many moments with the same one
    follow is not known, nor when it ended: at a rate r, with stacks that last 1/v longer on average once they
    are seen, the rest R of the time D until the next change has the density exp((r - v) R), 0 < R < D. So
    moments follow at the rate r, each with the chance that the stack lasted until then. v is estimated for
    each leaf from the means of R (expectation maximisation).

    With *idle* the GPU tells more of when the stack ended: most lines come with a busy or with an idle GPU,
    the same in every step. How often which is learned in some rounds from the moments themselves. What was
    seen next need not have followed at once: a wait of a few ms is often missed. So after its end a stack is
    held against the next one, or against any, whichever explains the GPU better.
    """
    count = np.maximum(1, np.ceil(visits.length_s / CELL_S)).astype(np.int64)
    first = np.cumsum(count) - count
    which = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(which)) - first[which]
    cell_s = (visits.length_s / count)[which]
    since_s = (nth + 0.5) * cell_s
    leaf = visits.leaf[which]
    cell_ns = visits.time_ns[which] + (since_s * 1e9).astype(np.int64)
    prior = visits.growth_hz[which] * since_s
    lasts = _lasts(prior, first, which)
    exact = np.ones(len(count))
    sure = np.append(np.ones(len(count), np.bool_), np.zeros(len(which), np.bool_))
    if idle is not None:
        following = np.append(visits.leaf[1:], -1)[which]
        value = idle.at(cell_ns + offset_ns)
        at_first = idle.at(visits.time_ns + offset_ns)
        for _ in range(SHARPENED):
            told = _Moments(
                np.append(visits.time_ns, cell_ns),
                np.append(visits.leaf, leaf),
                np.append(exact, lasts * cell_s * visits.rate_hz),
                sure,
            )
            odds = _log_odds(told, np.append(at_first, value))
            # The cells before the end were the leaf's, those after it were already the following one's.
            after = np.maximum(_log(odds, following, value), _log(odds, np.full_like(leaf, -1), value))
            gain = np.where(np.isfinite(value), TRUST * (_log(odds, leaf, value) - after), 0.0)
            before = np.cumsum(gain) - gain
            lasts = _lasts(prior + before - before[first][which], first, which)
            # In a gap the host may have been elsewhere, unseen, if this line hardly ever comes with one.
            rarely = np.exp(np.minimum(odds[1, leaf + 1] - odds[1, 0], 0.0))
            lasts = np.where(value > 0.5, lasts * rarely, lasts)
    times = np.append(visits.time_ns, cell_ns)
    order = np.argsort(times, kind="stable")
    weight = np.append(exact, lasts * cell_s * visits.rate_hz)
    found = _Moments(times[order], np.append(visits.leaf, leaf)[order], weight[order], sure[order])
    return found.where((found.leaf >= 0) & (found.weight > 1e-3))


def _lasts(log_density: FloatArray, first: IntArray, which: IntArray) -> FloatArray:
    """The chance that a visit lasts until each of its cells, from the log of how likely it ends in which."""
    top = np.maximum.reduceat(log_density, first)[which]
    density = np.exp(np.maximum(log_density - top, -500))
    total = np.add.reduceat(density, first)[which]
    upto = np.cumsum(density)
    upto = upto - (upto - density)[first][which]
    return np.asarray(np.clip(1 - (upto - 0.5 * density) / total, 0.0, 1.0), np.float64)


def _log_odds(moments: _Moments, value: FloatArray) -> FloatArray:
    """log of the chance that the GPU is busy, and that it is idle: whatever the leaf (-1), and for each."""
    known = np.isfinite(value)
    leaf, weight = moments.leaf[known] + 1, moments.weight[known]
    leaves = int(moments.leaf.max(initial=-1)) + 2
    whole = np.bincount(leaf, weight, leaves)
    idle = np.bincount(leaf, weight * value[known], leaves)
    mean = idle.sum() / max(whole.sum(), 1e-12)
    chance = np.clip((idle + mean) / (whole + 1.0), LEAST_CHANCE, 1 - LEAST_CHANCE)
    chance[0] = np.clip(mean, LEAST_CHANCE, 1 - LEAST_CHANCE)
    return np.asarray(np.log(np.stack([1 - chance, chance])), np.float64)


def _log(odds: FloatArray, leaf: IntArray, value: FloatArray) -> FloatArray:
    return np.asarray((1 - value) * odds[0, leaf + 1] + value * odds[1, leaf + 1], np.float64)


def _growth_hz(length_s: FloatArray, kind: IntArray, *, rate_hz: float) -> FloatArray:
    """r - v for each of the stacks that were seen *length_s* before another one was."""
    kinds = int(kind.max(initial=-1)) + 1
    count = np.maximum(np.bincount(kind + 1, minlength=kinds + 1), 1)
    rest_s = np.minimum(length_s, 1 / rate_hz) / 2
    growth = np.zeros_like(length_s)
    for _ in range(ROUNDS):
        mean_s = np.maximum(np.bincount(kind + 1, rest_s, kinds + 1) / count, 1e-6)
        growth = rate_hz - 1 / mean_s[kind + 1]
        x = growth * length_s
        # The mean of u on (0, 1) with the density exp(x u): 1 / (1 - exp(-x)) - 1 / x, 1/2 + x/12 near 0.
        near = np.abs(x) < 1e-3
        safe = np.clip(np.where(near, 1.0, x), -500, 500)
        rest_s = length_s * np.where(near, 0.5 + x / 12, -1 / np.expm1(-safe) - 1 / safe)
    return growth


def main_thread(process: ProcessStacks) -> int:
    """The thread that runs the program: that which began with its module, else the one that changes most."""
    names = [{process.frames[s[-1]].function for s in [process.stacks[k]] if s} for k in process.stack]
    module = Counter(
        int(t) for t, name in zip(process.thread, names, strict=True) if name & {"<module>", "_run_code"}
    )
    return (module or Counter(process.thread.tolist())).most_common(1)[0][0]


def _frames(process: ProcessStacks, rows: BoolArray) -> int:
    """How many frames the different stacks in *rows* have together."""
    return sum(len(process.stacks[k]) for k in np.unique(process.stack[rows]).tolist())


def _leaves(process: ProcessStacks, text_of: TextOf) -> tuple[list[Meaning], IntArray]:
    """What the stacks of *process* mean, and stack -> its place among these meanings, -1 for none."""
    number: dict[Meaning, int] = {}
    leaf_of = np.full(len(process.stacks), -1, np.int64)
    for k in np.unique(process.stack).tolist():
        frames = [process.frames[i] for i in process.stacks[k]]
        if frames:
            leaf_of[k] = number.setdefault(meaning(frames, text_of), len(number))
    return list(number), leaf_of


def _with_copies(
    leaves: Sequence[Meaning], moments: _Moments, idle: _Idle, pm: Samples, text_of: TextOf
) -> list[Meaning]:
    """*leaves*, of which those copy that may, and in which a copy engine works while the GPU is idle."""
    row = np.maximum(np.searchsorted(pm.start_ns, moments.time_ns, side="right") - 1, 0)
    engine = pm.column("ce_active")[row]
    weight = np.where(np.isfinite(engine), moments.weight * idle.at(moments.time_ns), 0.0)
    whole = np.bincount(moments.leaf, weight, len(leaves))
    works = np.bincount(moments.leaf, weight * np.clip(np.nan_to_num(engine), 0.0, 1.0), len(leaves))
    copies = works > COPIES * whole
    return [
        replace(leaf, activity="copying")
        if copies[k] and leaf.activity == "python" and may_copy(text_of(leaf.path[-1]))
        else leaf
        for k, leaf in enumerate(leaves)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Looks:
    """
    Looks at the main thread: how idle the GPU was, and the leaf that held the GIL for which it waited, or -1.
    """

    time_ns: IntArray
    idle: FloatArray
    leaf: IntArray


def _with_gil(
    leaves: Sequence[Meaning], moments: _Moments, idle: _Idle, use: GilUse | None, text_of: TextOf
) -> tuple[list[Meaning], _Moments, _Looks | None]:
    """
    *leaves* with those lines that held the GIL while the main thread waited, and the looks that tell of it.

    *moments* have lost what each line only waited.
    """
    held = None if use is None else held_up(use, text_of)
    if use is None or held is None:
        return list(leaves), moments, None
    value = idle.at(use.time_ns)
    known = np.isfinite(value)
    leaf = np.full(len(value), -1, np.int64)
    leaf[use.waits > 0] = held.line + len(leaves)
    looks = _Looks(use.time_ns[known], value[known], leaf[known])
    waiting = looks.leaf >= 0
    # The moment before a look says where the main thread was by then.
    at = moments.leaf[np.maximum(np.searchsorted(moments.time_ns, looks.time_ns, side="right") - 1, 0)]
    then = idle.at(moments.time_ns)
    weight = moments.weight
    for of_looks, of_moments in ((looks.idle, then), (1 - looks.idle, 1 - then)):
        whole = np.maximum(np.bincount(at, of_looks, len(leaves)), 1.0)
        waited = np.bincount(at, of_looks * waiting, len(leaves)) / whole
        weight = weight - moments.weight * of_moments * waited[moments.leaf]
    return [*leaves, *held.lines], replace(moments, weight=weight), looks


# --- idle time ---------------------------------------------------------------------------------


def _idle(pm: Samples, *, start_ns: int, end_ns: int) -> _Idle | None:
    """Idle time of the samples between two moments; None without any."""
    table = pm.between(start_ns, end_ns)
    table = table.where(np.isfinite(table.column("gr_active")) & (table.end_ns > table.start_ns))
    if len(table) < 2:
        return None
    start, end = table.start_ns, table.end_ns
    gr = np.clip(table.column("gr_active"), 0.0, 1.0)
    period = float(np.median(end - start))
    touches = np.abs(start[1:] - end[:-1]) <= 0.5 * period  # row i and i + 1
    before, after = np.append(False, touches), np.append(touches, False)
    left = np.where(before, np.append(1.0, gr[:-1]), np.nan)
    right = np.where(after, np.append(gr[1:], 1.0), np.nan)
    void, partial = gr < VOID, (gr >= VOID) & (gr < FULL)
    # Two neighbours that are partly idle between two full ones are one gap across their border.
    two_left = np.append(False, partial[:-1] & partial[1:] & touches)  # the right one of two
    outer = np.append(np.append(1.0, 1.0), left[1:-1])[: len(gr)]
    across = two_left & (right >= FULL) & (outer >= FULL)
    across &= (1 - gr) + (1 - np.append(1.0, gr[:-1])) >= 0.3
    first_across = np.append(across[1:], False)
    # In which part of a partly idle sample the gap lies: at its end, at its beginning, or who knows.
    at_end = partial & ((right < VOID) | first_across)
    at_begin = partial & ((left < VOID) | across)
    both = at_end & at_begin
    short = partial & ~at_end & ~at_begin
    idle_ns = ((1 - gr) * (end - start)).astype(np.int64)
    pieces: list[tuple[int, int, float]] = []
    gaps: list[list[int]] = []

    def gap(a: int, b: int) -> None:
        if gaps and a <= gaps[-1][1] + 1000:
            gaps[-1][1] = b
        elif b > a:
            gaps.append([a, b])

    for i in range(len(gr)):
        a, b, lost = int(start[i]), int(end[i]), int(idle_ns[i])
        if pieces and a < pieces[-1][1]:
            a = pieces[-1][1]
        if b <= a:
            continue
        lost = min(lost, b - a)
        if void[i]:
            pieces.append((a, b, 1.0))
            gap(a, b)
        elif both[i]:
            half = lost // 2
            pieces += [(a, a + half, 1.0), (a + half, b - half, 0.0), (b - half, b, 1.0)]
            gap(a, a + half)
            gap(b - half, b)
        elif at_end[i]:
            pieces += [(a, b - lost, 0.0), (b - lost, b, 1.0)]
            gap(b - lost, b)
        elif at_begin[i]:
            pieces += [(a, a + lost, 1.0), (a + lost, b, 0.0)]
            gap(a, a + lost)
        else:
            pieces.append((a, b, 1 - float(gr[i])))
        if not after[i]:
            pieces.append(
                (b, b + (1 << 62) - b, math.nan) if i == len(gr) - 1 else (b, int(start[i + 1]), math.nan)
            )
    pieces = [p for p in pieces if p[1] > p[0]]
    edge = np.array([p[0] for p in pieces], np.int64)
    value = np.array([p[2] for p in pieces])
    table_of_gaps = np.array(gaps, np.int64).reshape(-1, 2)
    return _Idle(
        edge=edge,
        value=value,
        start_ns=table_of_gaps[:, 0],
        end_ns=table_of_gaps[:, 1],
        short_start_ns=start[short],
        short_end_ns=end[short],
        short_s=idle_ns[short] / 1e9,
        covered_s=float(np.sum(end - start)) / 1e9,
    )


def _offset_ns(moments: _Moments, idle: _Idle, *, slack_ns: int) -> int:
    """What to add to the times of *moments*, so that the lines tell most of whether the GPU is idle."""
    slack_ns = min(max(1, slack_ns), MOST_SLACK_NS)
    least, most = -min(LATE_NS, slack_ns) // OFFSET_STEP_NS, slack_ns // OFFSET_STEP_NS
    best, best_score = 0, -math.inf
    for step in sorted(range(least, most + 1), key=abs):
        offset_ns = step * OFFSET_STEP_NS
        value = idle.at(moments.time_ns + offset_ns)
        known = np.isfinite(value)
        if known.sum() < 2:
            continue
        seen = moments.where(known)
        told = TEMPER * seen.count * _information(seen, value[known])
        score = told - 0.5 * (CLOCK_SIGMAS * offset_ns / slack_ns) ** 2
        if score > best_score:
            best, best_score = offset_ns, score
    return best


def _information(moments: _Moments, idle: FloatArray) -> float:
    """Mutual information in nats of the leaf and of whether the GPU is idle."""
    leaf, weight = moments.leaf, moments.weight
    table: Any = np.stack([np.bincount(leaf, weight * idle), np.bincount(leaf, weight * (1 - idle))])
    table = table / moments.count
    independent = table.sum(0) * table.sum(1)[:, None]
    there = table > 0
    return float(np.sum(table[there] * np.log(table[there] / independent[there])))


# --- shares ------------------------------------------------------------------------------------


class _Shares:
    """
    The share of the idle time of each leaf, and of `REPLICATES` resampled sets of blocks.

    `share`, `drained` have shape (leaves,), `replicates` (REPLICATES, leaves).
    """

    def __init__(
        self,
        leaves: Sequence[Meaning],
        moments: _Moments,
        idle: _Idle,
        looks: _Looks | None,
        *,
        rate_hz: float,
    ) -> None:
        self._waits = np.array([m.activity in WAITS_FOR_GPU for m in leaves])
        self._copies = np.array([m.activity == "copying" for m in leaves])
        self._others = np.array([m.activity in WAITS_FOR_OTHERS for m in leaves])
        self._launches = np.array([m.activity in LAUNCHING for m in leaves])
        self._python = np.array([m.activity == "python" for m in leaves])
        self._n = len(leaves)
        self._rate_hz = rate_hz
        self._sum(moments, idle, looks)
        ones = np.ones(self._blocks)
        self.share, self.drained = self._shares(ones)
        draw = np.random.default_rng(_SEED)
        weights = draw.multinomial(self._blocks, np.full(self._blocks, 1 / self._blocks), REPLICATES)
        self.replicates = np.array([self._shares(w.astype(np.float64))[0] for w in weights])

    def _sum(self, moments: _Moments, idle: _Idle, looks: _Looks | None) -> None:
        time_ns, leaf, weight = moments.time_ns, moments.leaf, moments.weight
        origin = int(idle.edge[0])
        last_ns = max(int(a.max(initial=origin)) for a in (time_ns, idle.start_ns, idle.short_start_ns))
        block_ns = max(BLOCK_S * 1e9, (last_ns - origin) / MOST_BLOCKS)

        def block(time_ns: IntArray) -> IntArray:
            return np.asarray((time_ns - origin) / block_ns, np.int64)

        value = idle.at(time_ns)
        in_short = _inside(time_ns, idle.short_start_ns, idle.short_end_ns)
        in_gap = _inside(time_ns, idle.start_ns, idle.end_ns)
        self._blocks = int(block(np.array([last_ns]))[0]) + 1

        def table(block_of: IntArray, leaf_of: IntArray, weight: FloatArray) -> FloatArray:
            flat: Any = np.bincount(block_of * self._n + leaf_of, weight, self._blocks * self._n)
            return np.asarray(flat, np.float64).reshape(self._blocks, self._n)

        self._held: FloatArray = np.zeros((self._blocks, self._n))
        self._looked: FloatArray = np.ones(self._blocks)
        if looks is not None:
            of = np.clip(block(looks.time_ns), 0, self._blocks - 1)
            waiting = looks.leaf >= 0
            self._held = table(of[waiting], looks.leaf[waiting], looks.idle[waiting])
            self._looked = np.asarray(np.bincount(of, looks.idle, self._blocks), np.float64)
        at = block(time_ns)
        # A wait for the GPU is over when a gap begins: a moment that is only likely is none there.
        over = in_gap & (self._waits & ~self._copies)[leaf] & ~moments.sure
        weight = np.where(over, 0.0, weight)
        self._in_gap = table(at, leaf, weight * in_gap)
        self._in_short = table(at, leaf, weight * np.where(in_short, value, 0.0))
        # A wait for the GPU ends when that runs dry: near short gaps the GPU was busy throughout it.
        busy = np.where(in_short & self._waits[leaf], 1.0, np.where(in_gap, 0.0, 1.0 - value))
        self._busy = table(at, leaf, weight * busy)
        length_s = (idle.end_ns - idle.start_ns) / 1e9
        self._gap_s = np.bincount(block(idle.start_ns), length_s, self._blocks)
        self._short_s = np.bincount(block(idle.short_start_ns), idle.short_s, self._blocks)
        window_s = np.clip(0.25 * length_s, BEGINS_WITHIN_S, BEGINS_LONGEST / self._rate_hz)
        window_ns = (window_s * 1e9).astype(np.int64)
        before = _spans(time_ns, idle.start_ns - UNCERTAIN_NS - window_ns, idle.start_ns - UNCERTAIN_NS)
        after = _spans(
            time_ns,
            idle.start_ns + UNCERTAIN_NS,
            np.minimum(idle.end_ns, idle.start_ns + UNCERTAIN_NS + window_ns),
        )
        inside = _spans(time_ns, idle.start_ns, idle.end_ns)
        part = np.concatenate(
            [
                [0.0],
                *(
                    length_s[k] / (self._rate_hz * window_s[k]) * weight[span]
                    for k, span in enumerate(before)
                ),
            ]
        )[1:]
        where = np.concatenate([[0], *(leaf[span] for span in before)])[1:]
        gap_of = np.repeat(np.arange(len(before)), [span.stop - span.start for span in before])
        sort = [
            (int(np.argmax(np.bincount(leaf[span], weight[span]))) if span.stop > span.start else -1,
             int(np.log2(max(length_s[k], 1e-6))))
            for k, span in enumerate(after)
        ]  # fmt: skip
        part = _sharpened(part, where, [sort[k] for k in gap_of])
        paced = np.array([
            float(_normed(weight[span]) @ self._others[leaf[span]]) if span.stop > span.start else np.nan
            for span in inside
        ])[gap_of] if len(before) else np.zeros(0)  # fmt: skip
        block_of = block(idle.start_ns)[gap_of]
        known = np.isfinite(paced)
        self._begun = table(block_of, where, part)
        self._paced = table(block_of[known], where[known], part[known] * paced[known])
        self._paced_of = table(block_of[known], where[known], part[known])
        self._near = np.zeros((self._blocks, self._n))
        reach = idle.short_end_ns - idle.short_start_ns
        first = np.searchsorted(time_ns, idle.short_start_ns - reach)
        stop = np.searchsorted(time_ns, idle.short_end_ns)
        for k, b in enumerate(block(idle.short_start_ns).tolist()):
            if stop[k] > first[k]:
                near = slice(first[k], stop[k])
                np.add.at(self._near[b], leaf[near], idle.short_s[k] * weight[near])

    def _shares(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        gap_s, short_s = float(weights @ self._gap_s), float(weights @ self._short_s)
        idle_s = gap_s + short_s
        if not idle_s > 0:
            return np.zeros(self._n), np.zeros(self._n)
        in_gap, in_short, busy = weights @ self._in_gap, weights @ self._in_short, weights @ self._busy
        begun, near = weights @ self._begun, weights @ self._near
        held = (weights @ self._held) / max(float(weights @ self._looked), 1e-12)
        alone = 1 - min(1.0, float(held.sum()))  # the part in which the main thread waited for no other one
        direct_gap = gap_s * alone * _normed(in_gap)
        paced = (weights @ self._paced) / np.maximum(weights @ self._paced_of, 1e-12)
        drained = np.where(self._waits, gap_s * _normed(begun) * (1 - paced), 0.0)
        drained = np.maximum(drained - np.where(self._waits, direct_gap * _normed(begun), 0.0), 0.0)
        waits_near = _normed(near) * self._waits
        synced = float(waits_near.sum())
        of_short = short_s * (1.0 if synced >= SYNCED else synced)
        if synced > 0:
            drained = drained + of_short * waits_near / synced
        drained = np.minimum(drained, busy / self._rate_hz)
        left_short = max(
            0.0, short_s - float(np.sum(np.minimum(of_short * waits_near / max(synced, 1e-12), drained)))
        )
        direct_short = left_short * alone * _normed(np.where(self._waits & ~self._copies, 0.0, in_short))
        # What launches has to be done: it gets what nothing else explains.
        idle_part = in_gap + in_short
        launches = self._launches | (self._python & (idle_part < MOSTLY * (idle_part + busy)))
        direct = direct_gap + direct_short + idle_s * held
        explained = float(np.sum(drained)) + float(np.sum(direct[~launches]))
        launching = float(np.sum(direct[launches]))
        if launching > 0:
            factor = min(1.0, max(0.0, idle_s - explained) / launching)
            direct = np.where(launches, direct * factor, direct)
        return np.minimum((direct + drained) / idle_s, 1.0), drained / idle_s


def _spans(time_ns: IntArray, start_ns: IntArray, end_ns: IntArray) -> list[slice]:
    """Which of *time_ns*, in order, lie in each interval."""
    first, stop = np.searchsorted(time_ns, start_ns), np.searchsorted(time_ns, end_ns)
    return [slice(a, max(a, b)) for a, b in zip(first.tolist(), stop.tolist(), strict=True)]


def _sharpened(part: FloatArray, leaf: IntArray, sort: Sequence[tuple[int, int]]) -> FloatArray:
    """
    *part* so that among gaps of one sort most goes to the leaf that has most.

    Gaps of one length after which the host is at one line begin in one line as a rule. That others seem to
    have a part in it comes of ends of visits that are not known: shares are squared.
    """
    if not sort:
        return part
    number = {s: i for i, s in enumerate(dict.fromkeys(sort))}
    of = np.array([number[s] for s in sort], np.int64)
    different, pair = np.unique(np.stack((of, leaf), axis=1), axis=0, return_inverse=True)
    pair = pair.ravel()
    raw = np.bincount(pair, part, len(different))
    whole, squares = np.bincount(of, part), np.bincount(different[:, 0], raw**2)
    factor = raw * whole[different[:, 0]] / np.maximum(squares[different[:, 0]], 1e-300)
    return np.asarray(part * factor[pair], np.float64)


def _normed(weights: FloatArray) -> FloatArray:
    total = float(weights.sum())
    return weights / total if total > 0 else np.zeros_like(weights)


def _inside(time_ns: IntArray, start_ns: IntArray, end_ns: IntArray) -> BoolArray:
    if not len(start_ns):
        return np.zeros(len(time_ns), np.bool_)
    place = np.searchsorted(start_ns, time_ns, side="right") - 1
    return (place >= 0) & (time_ns < end_ns[np.maximum(place, 0)])


# --- lines -------------------------------------------------------------------------------------


class _Lines:
    """
    The program's lines by how they are reached: a tree of which each node is a frame below another one.

    Of each node and all below it: `share` of the idle time, whether any of it `waits` for the GPU, and
    `lasts_s`, how long it is reached without a break on average. Node 0 is above all others, and each node
    comes after the one that it is below.
    """

    def __init__(self, leaves: Sequence[Meaning], moments: _Moments, shares: _Shares, rate_hz: float) -> None:
        self.frame: list[Frame | None] = [None]
        self.children: list[dict[Frame, int]] = [{}]
        self._above = [0]
        self._leaves_at: list[list[int]] = [[]]
        paths = [self._grown(leaf.path) for leaf in leaves]
        for k, path in enumerate(paths):
            self._leaves_at[path[-1]].append(k)
        at = np.array([path[-1] for path in paths], np.int64)
        nodes = len(self.frame)
        weight = self._with_below(np.bincount(at[moments.leaf], moments.weight, nodes))
        self.share = np.minimum(1.0, self._with_below(np.bincount(at, shares.share, nodes)))
        waiting = np.array([leaf.activity in WAITS_FOR_GPU for leaf in leaves], np.float64)
        self.waits = self._with_below(np.bincount(at, waiting, nodes)) > 0
        # Where the host goes from one leaf to another it enters the nodes that only the latter is below.
        entries = np.zeros(nodes)
        entries[at[moments.leaf[0]]] += 1
        steps = np.stack((moments.leaf[:-1], moments.leaf[1:]), axis=1)
        steps = steps[steps[:, 0] != steps[:, 1]]
        for (one, other), count in Counter(map(tuple, steps.tolist())).items():
            both = 0
            for a, b in zip(paths[one], paths[other], strict=False):
                if a != b:
                    break
                both = a
            entries[paths[other][-1]] += count
            entries[both] -= count
        self.lasts_s = weight / rate_hz / np.maximum(1.0, self._with_below(entries))

    def _grown(self, path: Sequence[Frame]) -> list[int]:
        """The nodes of *path*, made where they are not there yet."""
        nodes, node = [], 0
        for frame in path:
            found = self.children[node].get(frame)
            if found is None:
                found = len(self.frame)
                self.frame.append(frame)
                self.children.append({})
                self._above.append(node)
                self._leaves_at.append([])
                self.children[node][frame] = found
            nodes.append(found)
            node = found
        return nodes

    def _with_below(self, values: Any) -> FloatArray:
        """*values*, shape (nodes,), each with those of all nodes below it."""
        sums = values.tolist()
        for node in range(len(sums) - 1, 0, -1):
            sums[self._above[node]] += sums[node]
        return np.asarray(sums, np.float64)

    def leaves_below(self, node: int) -> list[int]:
        """The leaves at *node* and below it."""
        found, rest = [], [node]
        while rest:
            here = rest.pop()
            found += self._leaves_at[here]
            rest += self.children[here].values()
        return sorted(found)

    def path(self, node: int) -> tuple[Frame, ...]:
        """The frames that lead to *node*, the outermost first."""
        found: list[Frame] = []
        while (frame := self.frame[node]) is not None:
            found.append(frame)
            node = self._above[node]
        return tuple(reversed(found))

    def told(self, node: int) -> list[int]:
        """The nodes that *node* is told as: itself, or some of those below it."""
        whole = self.share[node]
        below = sorted(self.children[node].values(), key=lambda child: -self.share[child])
        if not below or not whole > 0:
            return [node]
        if self.lasts_s[node] >= LOOP_S:
            return [found for child in below for found in self.told(child)]
        if self.share[below[0]] >= INTO * whole:
            return self.told(below[0])
        heavy = [child for child in below[:3] if self.share[child] >= 0.2 * whole]
        # Several causes behind one call, unless it is one function whose lines share the work.
        if (
            len(heavy) > 1
            and sum(self.share[child] for child in heavy) >= 0.8 * whole
            and any(self.waits[child] for child in heavy)
        ):
            return [found for child in heavy for found in self.told(child)]
        return [node]


def _told(
    leaves: Sequence[Meaning], moments: _Moments, shares: _Shares, text_of: TextOf, *, rate_hz: float
) -> list[Cause]:
    """Leaves put together to lines worth telling."""
    lines = _Lines(leaves, moments, shares, rate_hz)
    causes = [
        _cause(lines.path(node), lines.leaves_below(node), leaves, shares, text_of)
        for root in lines.children[0].values()
        for node in lines.told(root)
        if lines.share[node] >= WORTH
    ]
    causes.sort(key=lambda c: (-c.share, c.frame))
    first = next(
        (c for c in causes if c.activity in WAITS_FOR_GPU and c.share >= FIRST * causes[0].share), None
    )
    if first is not None:
        causes.remove(first)
        causes.insert(0, first)
    return causes


def _cause(
    path: tuple[Frame, ...],
    members: Sequence[int],
    leaves: Sequence[Meaning],
    shares: _Shares,
    text_of: TextOf,
) -> Cause:
    of: dict[Activity, float] = defaultdict(float)
    for k in members:
        of[leaves[k].activity] += float(shares.share[k])
    replicates = np.minimum(shares.replicates[:, list(members)].sum(1), 1.0)
    low, high = np.quantile(replicates, (0.025, 0.975))
    return Cause(
        activity=max(of, key=lambda a: of[a]),
        frame=path[-1],
        text=text_of(path[-1]),
        path=path,
        share=min(1.0, float(shares.share[list(members)].sum())),
        low=float(low),
        high=float(high),
        drained=min(1.0, float(shares.drained[list(members)].sum())),
    )


# --- workers -----------------------------------------------------------------------------------


def _stages(stacks: HostStacks, text_of: TextOf) -> tuple[StageShare, ...]:
    """What the workers of the DataLoader did, as shares of the time that they worked."""
    found: dict[tuple[Stage, Frame | None], float] = defaultdict(float)
    for process in stacks.processes:
        whole = np.ones(len(process), np.bool_)
        if process.role == "worker" and len(process) and _frames(process, whole) <= MOST_FRAMES:
            process = whole_stacks(process, main_thread(process))
            moments = _moments(_visits(process, np.arange(len(process.stacks))))
            for k, seen in enumerate(np.bincount(moments.leaf, moments.weight)):
                what = stage([process.frames[i] for i in process.stacks[k]], text_of) if seen > 0 else None
                if what is not None:
                    found[what] += float(seen)
    total = sum(found.values())
    by_stage: dict[Stage, dict[Frame | None, float]] = defaultdict(dict)
    for (name, frame), count in found.items():
        by_stage[name][frame] = count
    result = []
    for name, frames_of in by_stage.items():
        frame = max(frames_of, key=lambda f: frames_of[f])
        share = sum(frames_of.values()) / total
        if share >= WORTH:
            result.append(StageShare(name, share, frame, "" if frame is None else text_of(frame)))
    return tuple(sorted(result, key=lambda s: -s.share))


def _with_stages(cause: Cause, stages: tuple[StageShare, ...]) -> Cause:
    return replace(cause, stages=stages) if cause.activity == "loader" else cause
