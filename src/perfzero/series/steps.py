"""
How long one step of the program takes, from counters alone; or why that cannot be said.

Autocorrelation loses a step behind 15 % of jitter and behind the micro-steps of gradient
accumulation (science.md §2.4, simulated). So steps are found by their anchors
(`perfzero.series.anchors`), and time is measured from onset to onset:

1. A train of onsets is a *rhythm* when its intervals scatter little, there are enough of them,
   and they explain nearly all of the time that was looked at. Two channels have to agree.
2. The shortest rhythm is the beat. Counted in beats there is no jitter any more: if the *work*
   between onsets (memory traffic, tensor cycles, launches, not time) repeats every k beats, as
   an optimizer after k micro-steps makes it, the step is k beats and the beat is the micro-step.
   A stall adds time and no work, so a wait every 20 steps does not become the step.
3. If the work per beat is uneven and does not repeat, the beat may be a part of a step: no answer. Nor is
   there one if steps hold now more and now less work, or ever more of it: then no one time is the step's.
4. Where time is no guide, because a starved program steps when data comes, equal work is one.
5. A step needs `SHORTEST` samples; a shorter one is looked for in the next, finer table, and has
   to leave the coarser one flat. A beat that sampling makes out of a faster one is refused.

Trains become rhythms in `perfzero.series.rhythms`, work between onsets is weighed in `work`, and beats are
told apart by their place in a step in `micro`. `hidden` looks for what samples or waits hide, and `course`
for what a step has that faster beats in it have not.

The mean step time is that of the intervals that hold one step's work and are not `STALLED`: an interval
across a stall or a missed onset is left out. Where the steps of one half are longer than those of the other
(`SHIFTED`) there is none. Nor is one told where a finer table repeats itself many times between waits that
come at regular intervals, for these may come every so many steps. A wrong step time is worse than none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from perfzero.limits import CHOICE, H200, SIMULATED, Limit
from perfzero.series.anchors import CHANNELS, Stretch, Train, stretches, trains
from perfzero.series.course import has_own_course
from perfzero.series.hidden import (
    FALLS_ALIKE,
    RESOLVED,
    SHORTEST,
    beats_between,
    falls_alike,
    hasty_beats,
    level_at,
    never_rests,
    rests,
)
from perfzero.series.micro import SHORTEST_MICRO_S, differ_by_sampling, micro_steps, tells_beats_apart
from perfzero.series.period import repeat_lag
from perfzero.series.rhythms import ALIKE, EXPLAINED, FEWEST, IN_WINDOW, OTHER, Rhythm, agreed, rhythm_of
from perfzero.series.stats import robust_spread
from perfzero.series.work import (
    GROUPS,
    MOST_MICRO,
    REPEATS,
    UNEVEN,
    WORK,
    amounts,
    centred,
    counted,
    done_by,
    takes_turns,
    turns_of,
    uneven,
    work_between,
    works_of,
)
from perfzero.text import duration
from perfzero.values import FloatArray, IntArray, Samples
from perfzero.words.said import say

DRIFTS: Annotated[float, Limit("standard deviations", SIMULATED)] = 8.0
"""
Medians of the four quarters of all beats that differ by so many of their standard errors drift: those of 10
normal values each, whose errors are not well known either, do so in 1 of 1000 cases (simulated).
"""

WHOLE: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Work further from the median is that of two beats, or of none: an onset was missed, or false."""

FALL_ALIKE = say("no_steps.groups")

BEGINS_NOWHERE = say("no_steps.no_beginning")

BETWEEN_WAITS = say("no_steps.faster_between")

MOSTLY: Annotated[float, Limit("ratio", CHOICE)] = 0.4
"""A GPU that rests for more of the time works so little that a burst of work may be all of its work."""

WANDER: Annotated[float, Limit("ratio", CHOICE)] = 0.1
"""How far a repetition may come early or late, as a share of the step, when its course is followed."""

SCATTERED: Annotated[float, Limit("ratio", CHOICE)] = 0.6
"""Steps of equal work whose times scatter more come at random: their mean says little of the next one."""

KNOWN: Annotated[float, Limit("ratio", H200)] = 0.1
"""
To that part of itself a mean must be known, to either side, to be told. Of 38 real answers that were
right the worst was known to 5 %; of a program whose steps change every second or two, to 16 %.
"""

SHIFTED: Annotated[float, Limit("ratio", CHOICE)] = 0.1
"""
Of their mean, by which the halves of all steps differ if the program changes its pace while it is watched,
and not by chance (`DRIFTS`): from `diagnose.thresholds.NOT_STEADY` on. Then another stretch has other steps.
"""

OTHER_WORK: Annotated[float, Limit("ratio", CHOICE)] = 0.1
"""Share of such steps that may have done other work: an onset that two steps in a row hid from sight."""

LOST: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""Share of lost samples beyond which equal work proves nothing: a lost one may have held a step's."""

SAME_WORK: Annotated[float, Limit("ratio", CHOICE)] = 0.06
"""Spread of the work of equal steps whose times differ."""

ONE_STEP: Annotated[float, Limit("ratio", CHOICE)] = 0.2
"""The work of one step, to that part of itself: half of it lies before a false onset."""

STALLED: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""An interval longer than the median by that share of it holds a stall beside the step."""

SOME: Annotated[int, Limit("count", CHOICE)] = 3
"""The same where a pattern has to be told from beats of a few samples: fewer, for it may be short."""

REPLICATES = 400
"""Enough for a 95 % interval whose own ends are steady to about a tenth of its width."""

SEED = 20261129
"""Fixed: the same recording always gets the same interval."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """
    The steps of a program.

    `low_s`, `high_s`: 95 % interval of the mean step time. `jitter`: standard deviation of single
    steps as a share of their mean. `starts_ns`: where steps begin in the stretches that were
    sampled, strictly increasing; two neighbours need not be one step apart. `seen_ns` (m, 2): from the
    first to the last of them in each stretch. The mean is that of these times and no others. `wanders`: the
    means of their halves, the shorter one first, where these are too far apart; else None.
    """

    step_s: float
    low_s: float
    high_s: float
    jitter: float
    micro_s: float | None
    micro_per_step: int | None
    starts_ns: IntArray
    seen_ns: IntArray
    how: Literal["anchor", "autocorrelation"]
    count: int
    wanders: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class NoSteps:
    """No step time beyond doubt, and the reason in a sentence for people."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """A `table` that was searched for steps once: its `parts`, and what they show by themselves."""

    table: Samples
    parts: tuple[Stretch, ...]
    answer: tuple[Steps, bool] | NoSteps

    def is_of(self, table: Samples) -> bool:
        """Whether *table* is the same samples in all channels that are searched, whatever else it holds."""
        same = table.start_ns is self.table.start_ns and table.end_ns is self.table.end_ns
        return same and all(table.columns.get(name) is self.table.columns.get(name) for name in CHANNELS)


def search(table: Samples) -> Searched:
    """Search *table* for steps; `find_steps` takes the result in its place and need not search again."""
    parts = stretches(table)
    return Searched(table, parts, _of_table(parts))


def find_steps(*tables: Samples | Searched) -> Steps | NoSteps:
    """
    The steps that *tables* show, tried in order: coarse windows first, then finer bursts.

    A table that cannot tell is passed over; the reason given is that of the first table.
    """
    found = _find_steps([table if isinstance(table, Searched) else search(table) for table in tables])
    if isinstance(found, Steps) and found.step_s < SHORTEST_MICRO_S:
        return NoSteps(say("no_steps.too_fast", length=duration(found.step_s)))
    if isinstance(found, Steps) and found.high_s - found.low_s > 2 * KNOWN * found.step_s:
        return NoSteps(say("no_steps.vary", low=duration(found.low_s), high=duration(found.high_s)))
    if isinstance(found, Steps) and found.wanders:
        low_s, high_s = found.wanders
        return NoSteps(say("no_steps.vary", low=duration(low_s), high=duration(high_s)))
    return found


def find_beat(samples: Samples) -> float | None:
    """The shortest rhythm in *samples*, in seconds: a step, or a part of one. None where nothing repeats."""
    parts = stretches(samples)
    if sum(part.rows for part in parts) < FEWEST * SHORTEST:
        return None
    rhythms = [r for r in (rhythm_of(train, parts) for train in trains(parts)) if r is not None]
    shortest_s = SHORTEST * max(part.spacing_ns for part in parts) / 1e9
    return next((beat.mean_s for beat in agreed(rhythms) if beat.mean_s >= shortest_s), None)


def _find_steps(tables: Sequence[Searched]) -> Steps | NoSteps:
    seen = [table.parts for table in tables]
    answers = [table.answer for table in tables]
    chosen = next((i for i, a in enumerate(answers) if not isinstance(a, NoSteps)), None)
    if chosen is None:
        reasons = [a.reason for a in answers if isinstance(a, NoSteps)]
        return NoSteps(reasons[0] if reasons else say("no_steps.not_close"))
    answer = answers[chosen]
    assert not isinstance(answer, NoSteps)
    steps, adds_work = answer
    if any(_resolves(parts, steps.step_s) for parts in seen[:chosen]):
        return NoSteps(say("no_steps.bursts_only"))
    if not all(level_at(steps.step_s, parts) for parts in seen[:chosen]):
        return NoSteps(say("no_steps.bursts_slower"))
    for parts, other in zip(seen[chosen + 1 :], answers[chosen + 1 :], strict=True):
        if isinstance(other, NoSteps):
            if not adds_work and _holds_many(steps.step_s, tables[chosen + 1 :]):
                return NoSteps(BETWEEN_WAITS)
            continue
        faster = other[0]
        if _contradicts(steps, faster, seen[chosen], parts, adds_work=adds_work):
            if level_at(faster.step_s, seen[chosen]):
                return faster
            return NoSteps(say("no_steps.differ"))
    return steps


def _holds_many(step_s: float, finer: Sequence[Searched]) -> bool:
    """
    Whether one of the *finer* tables repeats itself so often in *step_s* that this is many steps.

    What marks them is then a wait that comes every so many of them, as for a line that is printed.
    """
    beats = (find_beat(table.table) for table in finer)
    return any(b is not None and SHORTEST_MICRO_S <= b < step_s / MOST_MICRO for b in beats)


def _resolves(parts: tuple[Stretch, ...], step_s: float) -> bool:
    """Whether *parts* have enough samples per step of *step_s*, and hold enough steps, to have found it."""
    steps = [part.length_s / step_s for part in parts if part.spacing_ns * RESOLVED / 1e9 <= step_s]
    return sum(count for count in steps if count >= IN_WINDOW) >= 2 * FEWEST


def _of_table(parts: tuple[Stretch, ...]) -> tuple[Steps, bool] | NoSteps:
    """The steps that one table shows, and whether work marks them rather than a rest."""
    if sum(part.rows for part in parts) < FEWEST * SHORTEST:
        return NoSteps(say("no_steps.holes"))
    every = list(trains(parts))
    if not every:
        return NoSteps(say("no_steps.no_change"))
    rhythms = [r for r in (rhythm_of(train, parts) for train in every) if r is not None]
    shortest_s = SHORTEST * max(part.spacing_ns for part in parts) / 1e9
    beats = agreed(rhythms)
    hasty_s = [beat.mean_s for beat in beats if beat.mean_s < shortest_s]
    # A repetition of five samples and a bit is no hasty one if there are marks of it.
    sure_s = shortest_s * (1.0 + FALLS_ALIKE / SHORTEST)
    marked = [beat.mean_s for beat in beats if beat.mean_s >= sure_s]
    hasty_s += [s for s in hasty_beats(parts) if s < sure_s or all(abs(m - s) > ALIKE * s for m in marked)]
    # Sampling makes slow patterns out of beats of a few samples; they vanish in the mean over some.
    real = not any(level_at(beat_s, parts, over=SOME) for beat_s in hasty_s)
    beats = [
        b
        for b in beats
        if b.mean_s >= shortest_s
        and (not hasty_s or (b.adds_work and real and not _made_of(hasty_s, b, parts)))
    ]
    hasty = bool(hasty_s)
    if hasty and not beats:
        return NoSteps(say("no_steps.short"))
    if beats:
        climbed = _climb(beats, parts)
        # Where the GPU rests for so long, all of its work is a pulse.
        waits = not beats[0].adds_work or rests(parts) > MOSTLY
        if not isinstance(climbed, NoSteps) and waits and beats_between(beats[0].mean_s, every, parts):
            return NoSteps(BETWEEN_WAITS)
        return climbed
    if not hasty:
        found = _by_work(every, parts) or _by_correlation(parts)
        if found is not None:
            return NoSteps(BETWEEN_WAITS) if beats_between(found[0].step_s, every, parts) else found
    return NoSteps(say("no_steps.nothing"))


def _made_of(hasty_s: Sequence[float], beat: Rhythm, parts: tuple[Stretch, ...]) -> bool:
    """Whether *beat* may be a pattern that sampling makes of even beats, the *hasty_s* ones or others."""
    pitch_s = max(part.spacing_ns for part in parts) / 1e9
    return falls_alike(beat, pitch_s) and not has_own_course(beat, hasty_s, parts)


def _climb(beats: list[Rhythm], parts: tuple[Stretch, ...]) -> tuple[Steps, bool] | NoSteps:
    """From the shortest rhythm to the step."""
    beat = beats[0]
    work = works_of(beat, parts)
    busy = never_rests(parts)
    marked = [
        b
        for b in beats[1:]
        if (b.adds_work or busy)
        and b.mean_s <= (MOST_MICRO + 1) * beat.mean_s
        and tells_beats_apart(b, beat, parts)
    ]
    whole = marked[-1] if marked else None
    if whole is None and (turns := turns_of(centred(work)[0])) is not None:
        whole = _grouped(beat, turns, work, parts)
        if whole is None:
            return NoSteps(BEGINS_NOWHERE)
    if whole is not None:
        if differ_by_sampling(beat, whole, parts):
            return NoSteps(FALL_ALIKE)
        of_whole = works_of(whole, parts)
        if (doubt := _unequal(whole, of_whole)) is not None:
            return doubt
        return _steps(whole, parts, of_whole, micro=micro_steps(beat, whole, parts)), True
    if turns_of(counted(beat, work, parts)) is not None:
        return NoSteps(BEGINS_NOWHERE)
    if uneven(work):
        return NoSteps(say("no_steps.uneven"))
    if takes_turns(beat, parts):
        return NoSteps(say("no_steps.alternate"))
    if (doubt := _unequal(beat, work)) is not None:
        return doubt
    return _steps(beat, parts, work, micro=None), beat.adds_work


def _unequal(rhythm: Rhythm, work: Sequence[FloatArray]) -> NoSteps | None:
    """The doubt about *rhythm* if its intervals hold unequal amounts of *work*; else None."""
    amount = amounts(work)
    if robust_spread(amount) > max(UNEVEN, 2.0 * rhythm.jitter):
        return NoSteps(say("no_steps.timer"))
    whole = amount[np.abs(amount) < WHOLE]
    if len(whole) < 4 * FEWEST:
        return None
    quarters = np.array_split(whole, 4)
    middles = np.array([np.median(own) for own in quarters])
    within = robust_spread(np.concatenate([own - m for own, m in zip(quarters, middles, strict=True)]))
    # The median of n normal values scatters by 1.25 / √n of what they do.
    if np.ptp(middles) > max(UNEVEN, DRIFTS * 1.25 * within / np.sqrt(len(quarters[-1]))):
        return NoSteps(say("no_steps.drift"))
    return None


def _grouped(
    beat: Rhythm, turns: int, work: Sequence[FloatArray], parts: tuple[Stretch, ...]
) -> Rhythm | None:
    """The rhythm of every *turns*-th onset of *beat*, beginning after the beat with the most other work."""
    relative, _ = centred(work)
    onsets: list[FloatArray] = []
    for on, rows in zip(beat.train.onsets, relative, strict=True):
        if len(rows) < 2 * turns:
            onsets.append(np.empty(0))
            continue
        places = np.array([np.median(np.abs(rows[place::turns]).sum(axis=1)) for place in range(turns)])
        first = (int(np.argmax(places)) + 1) % turns
        onsets.append(on[first::turns])
    return rhythm_of(Train(beat.train.channel, tuple(onsets)), parts)


def _by_work(every: Sequence[Train], parts: tuple[Stretch, ...]) -> tuple[Steps, bool] | None:
    """Steps of equal work whose times differ: a program that steps when its data comes."""
    if _lost_share(parts) > LOST:
        return None
    found: list[tuple[float, Train, FloatArray]] = []
    done = [done_by(part) for part in parts]
    for train in every:
        work = [work_between(on, own) for on, own in zip(train.onsets, done, strict=True)]
        if sum(map(len, work)) < FEWEST:
            continue
        relative, spread = centred(work, clipped=False)
        if len(spread) < 2 or float(np.sort(spread)[1]) > SAME_WORK:
            continue
        other = np.abs(np.concatenate(relative)) > 3.0 * SAME_WORK
        if np.mean(np.sum(other, axis=1) >= 2) > OTHER_WORK:
            continue
        pairs = list(zip(train.onsets, parts, strict=True))
        gaps = np.concatenate([np.diff(on) * part.spacing_ns / 1e9 for on, part in pairs])
        room = sum(part.length_s for on, part in pairs if len(on) > 1) / sum(len(on) > 1 for on, _ in pairs)
        mean = float(np.mean(gaps))
        # Of windows as long as a wait none may show how long it is, but then much time is without steps.
        looked = sum(part.length_s - mean for part in parts)
        if room < IN_WINDOW * mean or float(np.sum(gaps)) < EXPLAINED * looked:
            continue
        if float(np.median(gaps)) >= SHORTEST * parts[0].spacing_ns / 1e9:
            found.append((float(np.median(spread)), train, gaps))
    found.sort(key=lambda f: f[0])
    for _, train, gaps in found:
        mean = float(np.mean(gaps))
        if len({t.channel for _, t, g in found if abs(float(np.mean(g)) - mean) <= ALIKE * mean}) >= 2:
            jitter = float(np.std(gaps)) / mean
            if jitter > SCATTERED:
                return None
            rhythm = Rhythm(train, gaps, mean, jitter, explained=1.0)
            return _steps(rhythm, parts, works_of(rhythm, parts), micro=None), True
    return None


def _lost_share(parts: tuple[Stretch, ...]) -> float:
    """Share of the samples of *parts* that were lost, by the channel that has most."""
    known = [
        sum(int(np.isfinite(part.columns[name]).sum()) for part in parts if name in part.columns)
        for name in WORK
    ]
    return 1.0 - max(known) / sum(part.rows for part in parts)


def _by_correlation(parts: tuple[Stretch, ...]) -> tuple[Steps, bool] | None:
    """Steps without a mark of their own, whose whole course repeats itself: several kernels in a row."""
    onsets: list[FloatArray] = []
    found_s: list[float] = []
    for part in parts:
        whole = {name: column for name, column in part.columns.items() if np.isfinite(column).all()}
        lags = {name: lag for name, column in whole.items() if (lag := repeat_lag(column)) is not None}
        middle = float(np.median(list(lags.values()))) if lags else 0.0
        if len(lags) < 2 or max(abs(lag - middle) for lag in lags.values()) > ALIKE * middle:
            onsets.append(np.empty(0))
            continue
        found_s.append(middle * part.spacing_ns / 1e9)
        onsets.append(_walk(whole[next(iter(lags))], middle))
    usual_s = float(np.median(found_s)) if found_s else 0.0
    if any(abs(own_s - usual_s) > ALIKE * usual_s for own_s in found_s):
        return None
    rhythm = rhythm_of(Train("", tuple(onsets)), parts)
    if rhythm is None:
        return None
    work = [work_between(on, done_by(part)) for on, part in zip(onsets, parts, strict=True)]
    if uneven(work) or turns_of(centred(work)[0]) is not None or _unequal(rhythm, work) is not None:
        return None
    return replace(_steps(rhythm, parts, works_of(rhythm, parts), micro=None), how="autocorrelation"), True


def _walk(values: FloatArray, lag: float) -> FloatArray:
    """
    From one repetition of *values* (n,) to the next, *lag* samples on or a little more or less.

    It ends where nothing is like the first one any more: in a wait, every place would do as well.
    """
    length, room = round(lag), max(1, round(WANDER * lag))
    places = [0]
    pattern = values[:length] - np.mean(values[:length])
    if float(np.mean(pattern**2)) < REPEATS * float(np.var(values)):
        # A wait is no pattern, but a grid of intervals that are empty of work: it is like every other wait.
        return np.array([0.0])
    while places[-1] + 2 * length + room <= len(values):
        around = places[-1] + length + np.arange(-room, room + 1)
        alike = [float(np.dot(pattern, values[at : at + length])) for at in around]
        if max(alike) < REPEATS * float(np.dot(pattern, pattern)):
            break
        places.append(int(around[int(np.argmax(alike))]))
    return np.array(places, np.float64)


def _steps(
    rhythm: Rhythm,
    parts: tuple[Stretch, ...],
    work: Sequence[FloatArray],
    *,
    micro: tuple[float, int] | None,
) -> Steps:
    """The intervals of *rhythm* as steps; *work* is what `works_of` says of them."""
    onsets = [
        part.start_ns + np.rint(on * part.spacing_ns).astype(np.int64)
        for on, part in zip(rhythm.train.onsets, parts, strict=True)
    ]
    steps_s = _of_one_step(rhythm, parts, work)
    mean = float(np.mean(steps_s))
    low, high = _interval(steps_s)
    return Steps(
        step_s=mean,
        low_s=low,
        high_s=high,
        jitter=float(np.std(steps_s)) / mean,
        micro_s=None if micro is None else micro[0],
        micro_per_step=None if micro is None else micro[1],
        starts_ns=np.unique(np.concatenate(onsets)),
        seen_ns=np.array([(on[0], on[-1]) for on in onsets if len(on) > 1], np.int64).reshape(-1, 2),
        how="anchor",
        count=len(steps_s),
        wanders=_wandering(steps_s),
    )


def _wandering(steps_s: FloatArray) -> tuple[float, float] | None:
    """The means of both halves of *steps_s* (n,), the shorter one first, if they are `SHIFTED`; else None."""
    if len(steps_s) < 2 * FEWEST:
        return None
    halves = np.array_split(steps_s, 2)
    low, high = sorted(float(np.mean(half)) for half in halves)
    within = max(float(np.std(half)) for half in halves)
    by_chance = DRIFTS * within / np.sqrt(len(steps_s) / 2)
    return (low, high) if high - low > max(SHIFTED * float(np.mean(steps_s)), by_chance) else None


def _of_one_step(rhythm: Rhythm, parts: tuple[Stretch, ...], work: Sequence[FloatArray]) -> FloatArray:
    """
    Lengths in s of the intervals of *rhythm* that hold the *work* of one step, slow and fast ones too.

    The regular ones where work does not tell them.
    """
    pairs = list(zip(rhythm.train.onsets, parts, strict=True))
    gaps = np.concatenate([np.diff(on) * part.spacing_ns / 1e9 for on, part in pairs])
    amount = amounts(work)
    if not len(amount):
        return rhythm.steps_s
    one = (np.abs(amount) <= ONE_STEP) & (gaps <= (1.0 + STALLED) * float(np.median(rhythm.steps_s)))
    return gaps[one] if int(one.sum()) >= len(rhythm.steps_s) else rhythm.steps_s


def _interval(steps_s: FloatArray) -> tuple[float, float]:
    """95 % interval of the mean of *steps_s* (n,), by resampling blocks of √n from a ring (Künsch, 1989)."""
    count = len(steps_s)
    block = max(1, round(np.sqrt(count)))
    rng = np.random.default_rng(SEED)
    first = rng.integers(0, count, size=(REPLICATES, -(-count // block)))
    rows = (first[:, :, None] + np.arange(block)).reshape(REPLICATES, -1)[:, :count] % count
    low, high = np.quantile(np.mean(steps_s[rows], axis=1), [0.025, 0.975])
    return float(low), float(high)


def _contradicts(
    steps: Steps,
    faster: Steps,
    parts: tuple[Stretch, ...],
    burst: tuple[Stretch, ...],
    *,
    adds_work: bool,
) -> bool:
    """
    Whether the steps of *parts* are doubtful because a *burst* repeats itself *faster*.

    They may be a beat between the program and the sampling, which leaves no trace in the mean over
    some of the faster ones; or stalls between steps that are too short for the windows; or the
    burst was long enough to show them and did not.
    """
    spacing = parts[0].spacing_ns / 1e9
    if faster.step_s > steps.step_s / OTHER or faster.step_s > SHORTEST * spacing:
        return False
    long_enough = max(part.length_s for part in burst) >= GROUPS * steps.step_s
    return not adds_work or long_enough or level_at(faster.step_s, parts)
