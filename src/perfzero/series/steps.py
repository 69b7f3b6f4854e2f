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

The mean step time is the sum of the regular intervals over their number; an interval across a
stall or a missed onset is left out. A wrong step time is worse than none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from perfzero.series.anchors import BoolArray, Stretch, Train, stretches, trains
from perfzero.series.period import autocorrelation, peak_between, repeat_lag
from perfzero.text import duration
from perfzero.values import FloatArray, IntArray, Samples

SHORTEST = 5
"""Samples per step: with fewer the shape of a step cannot be told from noise."""

RESOLVED = 8
"""Samples per step from which on a table that shows no step disproves it."""

FEWEST = 8
"""Intervals: with fewer, chance makes regular ones (of exponential intervals 8 in 1e4 do, simulated)."""

REGULAR = 0.22
"""Relative spread of single steps: 15 % of jitter estimated from 8 intervals; uniform lengths have 0.3."""

EXPLAINED = 0.70
"""Share of the time that regular intervals fill: a stall of 5 steps after every 20 leaves 0.76."""

ALIKE = 0.03
"""Trains tell of the same rhythm when their periods agree to 3 %."""

OTHER = 1.4
"""Rhythms nearer than this factor are one, and the less complete of them has false or missing onsets."""

IN_WINDOW = 3.0
"""Steps that fit into a stretch: shorter stretches prefer short steps (renewal theory: by jitter²/2 here)."""

MOST_MICRO = 64
"""Micro-steps per step looked for."""

GROUPS = 5
"""So many steps of k beats show that work repeats every k beats."""

REPEATS = 0.5
"""Least correlation of the work per beat with that k beats on."""

STANDS_OUT = 0.25
"""So much more than with k - 1 and k + 1 beats on."""

MIXED = 0.25
"""
Beats whose work is of so varied proportions in two channels are not of one kind. Of 60 beats of forward and
backward passes in turns, batches of random length, it was 0.36 and more with a fifth of the samples lost.
"""

UNEVEN = 0.15
"""Work per beat that differs by this share of its median is other work; edges put it off by less."""

DRIFTS = 8.0
"""
Medians of the four quarters of all beats that differ by so many of their standard errors drift: those of 10
normal values each, whose errors are not well known either, do so in 1 of 1000 cases (simulated).
"""

WHOLE = 0.5
"""Work further from the median is that of two beats, or of none: an onset was missed, or false."""

SEEN = 0.7
"""
Share of the samples of a beat that must be there for its work to count. With a fifth lost one by one, nearly
every beat has as many; a hole of its own length hides an onset, so that two beats look like one.
"""

FEWEST_OF_A_PLACE = 4
"""Beats at the same place after a mark whose median work is compared with that at other places."""

MARKED = 0.05
"""Beats with a mark differ from the others by this share of their work: a bf16 product's wave by 0.13."""

FALLS_ALIKE = 0.15
"""
So many samples off a whole number of them, a group of beats still falls on the samples as the one before:
beats of 6.93 samples were told to be steps of 14 beats, or 97.02 samples (simulated).
"""

FALL_ALIKE = (
    "Beats differ in groups, but each group falls on the samples alike, so it may be the sampling that "
    "makes them differ."
)

ROUNDING = 1e-6
"""Relative: counters are whole numbers of thousands and more, so that smaller changes are not theirs."""

SMALLEST = 1e-12
"""What differs by less is equal."""

BEYOND_NOISE = 3.0
"""Work at two places differs when its medians are so many median deviations apart."""

HASTY = 0.25
"""Autocorrelation at a few samples that shows beats of that length; noise reaches 0.1 in 1000 samples."""

ABOVE_VALLEYS = 0.1
"""... and by so much it stands above the lags around it: by more than noise does."""

IN_BETWEEN = 0.75
"""Share of the intervals between the onsets of a train that are regular, however long the others last."""

PER_WAIT = 4.0
"""So many regular beats between two waits, and the waits may be what happens now and then."""

PLAIN = 0.1
"""
Autocorrelation while the GPU works that shows something faster between waits, if chance makes none as high:
8 micro-steps in a step of six samples with 15 % of jitter reach 0.13 and more (simulated).
"""

BEYOND_CHANCE = 4.0
"""Chance makes none of so many times 1 / √n, the standard error for n pairs of samples, in two channels."""

ENOUGH = 50_000
"""Samples of a stretch, and of the stretches before it, from which on more would not make that surer."""

BEGINS_NOWHERE = "Parts of a step repeat, but where the whole step begins cannot be told."

BETWEEN_WAITS = (
    "The GPU waits at regular intervals, but something faster repeats between the waits, so these may come "
    "only every so many steps."
)

ODD = 0.02
"""Share of beats with other work that is forgiven: an evaluation or a checkpoint now and then."""

AT_REST = 0.25
"""A sample this much less active than the most active one belongs to a wait."""

ASIDE = 1.5
"""So many samples from an onset, an edge is in another sample than a short kernel that began there."""

NO_WORK = 0.1
"""
A sample this much less active than the most active one holds no work, be it what noise of 8 % leaves in it.
Tiny kernels leave 0.2 to 0.3 (an unfused optimizer on an H200), and they are work.
"""

SELDOM = 0.005
"""A GPU that rests for less of the time than this has no stalls that could be taken for steps."""

MOSTLY = 0.4
"""A GPU that rests for more of the time works so little that a burst of work may be all of its work."""

SHORTEST_MICRO_S = 0.001
"""
No forward and backward pass is shorter, so no step either; what repeats faster is a kernel, or a wave of
its blocks (0.67 ms in a fp32 product), or a layer (0.16 ms): a burst shows these better than the step.
"""

SAME_NUMBER = 0.6
"""Share of the steps that have the usual number of micro-steps, for there to be such a number."""

MICRO_ALIKE = 0.25
"""Spread of the tensor work of micro-steps: they are one program on data of one size."""

WANDER = 0.1
"""How far a repetition may come early or late, as a share of the step, when its course is followed."""

SCATTERED = 0.6
"""Steps of equal work whose times scatter more come at random: their mean says little of the next one."""

KNOWN = 0.1
"""
To that part of itself a mean must be known, to either side, to be told. Of 38 real answers that were
right the worst was known to 5 %; of a program whose steps change every second or two, to 16 %.
"""

OTHER_WORK = 0.1
"""Share of such steps that may have done other work: an onset that two steps in a row hid from sight."""

LOST = 0.05
"""Share of lost samples beyond which equal work proves nothing: a lost one may have held a step's."""

SAME_WORK = 0.06
"""Spread of the work of equal steps whose times differ."""

RIPPLE = 0.15
"""A coarse table stays this level over several steps that are shorter than its samples."""

AVERAGED = 4
"""Steps over which the coarse table is averaged for that."""

SOME = 3
"""The same where a pattern has to be told from beats of a few samples: fewer, for it may be short."""

EDGES = 0.02
"""Share of the coarse samples that need not: where the program begins and ends."""

BARELY = 0.02
"""A level that never exceeds this does not count when levels are compared."""

BARELY_BYTES = 5e10
"""The same for bytes per second: 1 % of what an H200 can move."""

REPLICATES = 400
"""Enough for a 95 % interval whose own ends are steady to about a tenth of its width."""

SEED = 20261129
"""Fixed: the same recording always gets the same interval."""

WORK = ("dram_write_bytes", "dram_read_bytes", "tensor_active", "sm_active", "launches", "nvlink_rx_bytes")
"""Channels that add up to work. Time active is none: a kernel may wait."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """
    The steps of a program.

    `low_s`, `high_s`: 95 % interval of the mean step time. `jitter`: standard deviation of single
    steps as a share of their mean. `starts_ns`: where steps begin in the stretches that were
    sampled, strictly increasing; two neighbours need not be one step apart.
    """

    step_s: float
    low_s: float
    high_s: float
    jitter: float
    micro_s: float | None
    micro_per_step: int | None
    starts_ns: IntArray
    how: Literal["anchor", "autocorrelation"]
    count: int


@dataclass(frozen=True, slots=True)
class NoSteps:
    """No step time beyond doubt, and the reason in a sentence for people."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """A table that was searched for steps once: its `parts`, and what they show by themselves."""

    parts: tuple[Stretch, ...]
    answer: tuple[Steps, bool] | NoSteps


@dataclass(frozen=True, slots=True, eq=False)
class _Rhythm:
    """A train whose intervals are regular: those intervals in seconds, and how regular."""

    train: Train
    steps_s: FloatArray
    mean_s: float
    jitter: float
    explained: float
    adds_work: bool = False


def search(table: Samples) -> Searched:
    """Search *table* for steps; `find_steps` takes the result in its place and need not search again."""
    parts = stretches(table)
    return Searched(parts, _of_table(parts))


def find_steps(*tables: Samples | Searched) -> Steps | NoSteps:
    """
    The steps that *tables* show, tried in order: coarse windows first, then finer bursts.

    A table that cannot tell is passed over; the reason given is that of the first table.
    """
    found = _find_steps([table if isinstance(table, Searched) else search(table) for table in tables])
    if isinstance(found, Steps) and found.step_s < SHORTEST_MICRO_S:
        return NoSteps(
            f"Something comes back every {duration(found.step_s)}, so fast that it may be a kernel, a wave "
            "of its blocks or a layer."
        )
    if isinstance(found, Steps) and found.high_s - found.low_s > 2 * KNOWN * found.step_s:
        return NoSteps(
            f"The steps that were seen vary too much: their mean lies between {duration(found.low_s)} and "
            f"{duration(found.high_s)}."
        )
    return found


def find_beat(samples: Samples) -> float | None:
    """The shortest rhythm in *samples*, in seconds: a step, or a part of one. None where nothing repeats."""
    parts = stretches(samples)
    if sum(part.rows for part in parts) < FEWEST * SHORTEST:
        return None
    rhythms = [r for r in (_rhythm(train, parts) for train in trains(parts)) if r is not None]
    shortest_s = SHORTEST * max(part.spacing_ns for part in parts) / 1e9
    return next((beat.mean_s for beat in _agreed(rhythms) if beat.mean_s >= shortest_s), None)


def _find_steps(tables: Sequence[Searched]) -> Steps | NoSteps:
    seen = [table.parts for table in tables]
    answers = [table.answer for table in tables]
    chosen = next((i for i, a in enumerate(answers) if not isinstance(a, NoSteps)), None)
    if chosen is None:
        reasons = [a.reason for a in answers if isinstance(a, NoSteps)]
        return NoSteps(reasons[0] if reasons else "Nothing was sampled closely enough to see single steps.")
    answer = answers[chosen]
    assert not isinstance(answer, NoSteps)
    steps, adds_work = answer
    if any(_resolves(parts, steps.step_s) for parts in seen[:chosen]):
        return NoSteps(
            "The bursts repeat themselves, but the longer windows would show steps of that length and "
            "do not, so the repetition may be only a part of a step."
        )
    if not all(_level_at(steps.step_s, parts) for parts in seen[:chosen]):
        return NoSteps(
            "The bursts repeat themselves, but the longer windows show slower changes beside that, "
            "so the repetition may be only a part of a step."
        )
    for parts, other in zip(seen[chosen + 1 :], answers[chosen + 1 :], strict=True):
        if isinstance(other, NoSteps):
            continue
        faster = other[0]
        if _contradicts(steps, faster, seen[chosen], parts, adds_work=adds_work):
            if _level_at(faster.step_s, seen[chosen]):
                return faster
            return NoSteps("The windows and the bursts tell of different steps; one of them is not the step.")
    return steps


def _resolves(parts: tuple[Stretch, ...], step_s: float) -> bool:
    """Whether *parts* have enough samples per step of *step_s*, and hold enough steps, to have found it."""
    steps = [part.length_s / step_s for part in parts if part.spacing_ns * RESOLVED / 1e9 <= step_s]
    return sum(count for count in steps if count >= IN_WINDOW) >= 2 * FEWEST


def _of_table(parts: tuple[Stretch, ...]) -> tuple[Steps, bool] | NoSteps:
    """The steps that one table shows, and whether work marks them rather than a rest."""
    if sum(part.rows for part in parts) < FEWEST * SHORTEST:
        return NoSteps("Too few samples follow each other without a hole to see steps repeat.")
    every = list(trains(parts))
    if not every:
        return NoSteps("No counter changes enough to show where a step begins.")
    rhythms = [r for r in (_rhythm(train, parts) for train in every) if r is not None]
    shortest_s = SHORTEST * max(part.spacing_ns for part in parts) / 1e9
    beats = _agreed(rhythms)
    hasty_s = [beat.mean_s for beat in beats if beat.mean_s < shortest_s]
    # A repetition of five samples and a bit is no hasty one if there are marks of it.
    sure_s = shortest_s * (1.0 + FALLS_ALIKE / SHORTEST)
    marked = [beat.mean_s for beat in beats if beat.mean_s >= sure_s]
    hasty_s += [s for s in _hasty(parts) if s < sure_s or all(abs(m - s) > ALIKE * s for m in marked)]
    # Sampling makes slow patterns out of beats of a few samples; they vanish in the mean over some.
    real = not any(_level_at(beat_s, parts, over=SOME) for beat_s in hasty_s)
    beats = [
        b
        for b in beats
        if b.mean_s >= shortest_s
        and (not hasty_s or (b.adds_work and real and not _falls_alike(b, shortest_s / SHORTEST)))
    ]
    hasty = bool(hasty_s)
    if hasty and not beats:
        return NoSteps("Steps, or parts of them, are shorter than a few samples.")
    if beats:
        climbed = _climb(beats, parts)
        # Where the GPU rests for so long, all of its work is a pulse.
        waits = not beats[0].adds_work or _rests(parts) > MOSTLY
        if not isinstance(climbed, NoSteps) and waits and _beats_between(beats[0].mean_s, every, parts):
            return NoSteps(BETWEEN_WAITS)
        return climbed
    if not hasty:
        found = _by_work(every, parts) or _by_correlation(parts)
        if found is not None:
            return NoSteps(BETWEEN_WAITS) if _beats_between(found[0].step_s, every, parts) else found
    return NoSteps("Nothing in the counters comes back at regular intervals.")


def _hasty(parts: tuple[Stretch, ...]) -> list[float]:
    """
    Repetitions after no more samples than a step needs, in seconds.

    Both 4.5 samples and 5.3 show at 5, and which it is shows at the multiples. Steps of 1.25 samples do, too.
    """
    found: list[float] = []
    longest = max(parts, key=lambda part: part.rows)
    for column in longest.columns.values():
        known = np.isfinite(column)
        if known.sum() * 2 < longest.rows or not float(np.nanstd(column)) > 0:
            continue
        filled = np.interp(np.arange(longest.rows), np.flatnonzero(known), column[known])
        alike = autocorrelation(filled - np.mean(filled))
        inner = alike[1 : 2 * SHORTEST + 1]
        below, above = alike[: 2 * SHORTEST], alike[2 : 2 * SHORTEST + 2]
        peaks = np.flatnonzero((inner > below) & (inner >= above) & (inner >= HASTY)) + 1
        for peak in peaks[(peaks > 1) & (peaks <= SHORTEST)].tolist():
            # Where long waits make it fall slowly, any ripple on the slope has a top.
            valleys = float(np.min(alike[1:peak])), float(np.min(alike[peak + 1 : 2 * peak + 1]))
            lag = _between_samples(alike, peak)
            if alike[peak] - max(valleys) >= ABOVE_VALLEYS:
                found.append(lag * longest.spacing_ns / 1e9)
    return found


def _falls_alike(beat: _Rhythm, pitch_s: float) -> bool:
    """Whether *beat* is a whole number of samples long each time, as what sampling makes of even beats is."""
    count = beat.mean_s / pitch_s
    return max(abs(count - round(count)), beat.jitter * count) <= FALLS_ALIKE


def _between_samples(alike: FloatArray, peak: int) -> float:
    """The lag of a *peak* of the autocorrelation *alike*, by its second and fourth one if they show."""
    lag = peak_between(alike, peak)
    for turns in (2, 4):
        first = round(turns * lag) - 1
        around = alike[first : first + 3]
        top = first + int(np.argmax(around)) if len(around) else 0
        if not 0 < top < len(alike) - 1 or alike[top] < max(HASTY, alike[top - 1], alike[top + 1]):
            break
        lag = peak_between(alike, top) / turns
    return lag


def _beats_between(step_s: float, every: Sequence[Train], parts: tuple[Stretch, ...]) -> bool:
    """
    Whether two channels tell of regular beats between waits, several in each *step_s*.

    They fill too little of the time to be a rhythm themselves if checkpoints take a third of it, or noise
    hides too many of their onsets. They are not the answer for that: the micro-steps of a step that ends in a
    wait look the same.
    """
    if _never_rests(parts):
        return False
    if _repeats_between(step_s, parts):
        return True
    shortest_s = SHORTEST * max(part.spacing_ns for part in parts) / 1e9
    found = [(train.channel, beat_s) for train in every if (beat_s := _regular_part_s(train, parts)) > 0]
    fit = [(channel, s) for channel, s in found if shortest_s <= s <= step_s / PER_WAIT]
    return any(len({channel for channel, s in fit if abs(s - one) <= ALIKE * one}) >= 2 for _, one in fit)


def _repeats_between(step_s: float, parts: Sequence[Stretch]) -> bool:
    """
    Whether two channels repeat themselves after a few samples while the GPU works, several times in *step_s*.

    In steps of up to `RESOLVED` samples onsets are lost in noise: then only the stalls are regular, and may
    take as little of the time as they like. So samples of rest are left out, or they would hide the steps.
    """
    pitch_s = max(part.spacing_ns for part in parts) / 1e9
    longest = min(2 * RESOLVED, int(step_s / PER_WAIT / pitch_s))
    before = np.cumsum([0, *(part.rows for part in parts)])
    parts = [part for part, rows in zip(parts, before[:-1], strict=True) if rows < ENOUGH]
    active = [part.columns["gr_active"] for part in parts if "gr_active" in part.columns]
    if longest < 2 or len(active) < len(parts):
        return False
    rest = AT_REST * max(float(np.nanmax(own, initial=0.0)) for own in active)
    shown = np.zeros(longest + 2, np.int64)
    for name in parts[0].columns:
        views = [
            np.where(own >= rest, part.columns[name], np.nan)[:ENOUGH]
            for own, part in zip(active, parts, strict=True)
        ]
        lags = np.array(_twice_alike(views, longest), np.int64)
        # Of 4.5 samples one channel may show 4 and another one 5.
        shown += np.isin(np.arange(longest + 2), np.r_[lags, lags + 1])
    return bool(np.any(shown >= 2))


def _twice_alike(views: Sequence[FloatArray], longest: int) -> list[int]:
    """
    The lags of 2 to *longest* samples after which *views* are like themselves, and after twice as many again.

    The two ends of a short wait are alike too, but only once.
    """
    alike, chance = _alike_where_known(views, 3 * longest)
    found: list[int] = []
    for lag in range(2, longest + 1):
        once, twice = alike[lag], np.fmax.reduce(alike[2 * lag - 1 : 2 * lag + 2])
        before, between, after = alike[1:lag], alike[lag + 1 : 2 * lag], alike[2 * lag + 1 : 3 * lag + 1]
        peak = alike[lag - 1] < once >= max(alike[lag + 1], PLAIN, chance[lag])
        inside = min(once - np.min(before), min(once, twice) - np.fmin.reduce(between)) >= ABOVE_VALLEYS
        # Of few steps between two waits, none may be so far apart; then what comes after is not known.
        if peak and inside and not twice - np.fmin.reduce(after) < ABOVE_VALLEYS:
            found.append(lag)
    return found


def _alike_where_known(views: Sequence[FloatArray], longest: int) -> tuple[FloatArray, FloatArray]:
    """Autocorrelation of *views* at lags 0 to *longest* by its known pairs (NaN for few), and chance's."""
    known = np.concatenate(views)
    known = known[np.isfinite(known)]
    alike, chance = np.full(longest + 1, np.nan), np.full(longest + 1, np.inf)
    spread = float(np.var(known)) if len(known) else 0.0
    # A level without noise has rounding errors, and these repeat themselves.
    if not len(known) or spread <= ROUNDING**2 * float(np.mean(np.square(known))):
        return alike, chance
    alike[0] = 1.0
    rest = [view - np.mean(known) for view in views]
    for lag in range(1, longest + 1):
        products = np.concatenate([own[lag:] * own[: max(len(own) - lag, 0)] for own in rest])
        products = products[np.isfinite(products)]
        # Between waits that are close, few pairs are so far apart, and they say nothing.
        if len(products) >= (BEYOND_CHANCE / HASTY) ** 2:
            alike[lag] = float(np.mean(products)) / spread
            chance[lag] = BEYOND_CHANCE / np.sqrt(len(products))
    return alike, chance


def _regular_part_s(train: Train, parts: Sequence[Stretch]) -> float:
    """Mean of the regular ones among the intervals of *train*, if these are most of them; else 0."""
    gaps = [np.diff(on) * part.spacing_ns / 1e9 for on, part in zip(train.onsets, parts, strict=True)]
    joined = np.concatenate(gaps)
    if len(joined) < FEWEST:
        return 0.0
    middle = float(np.median(joined))
    good = joined[np.abs(joined - middle) <= REGULAR * middle]
    return float(np.mean(good)) if len(good) >= max(FEWEST, IN_BETWEEN * len(joined)) else 0.0


def _rhythm(train: Train, parts: Sequence[Stretch]) -> _Rhythm | None:
    """*train* as a rhythm, if it is one; it may be faster than steps can be."""
    lengths = np.array([part.length_s for part in parts])
    spacing = np.array([part.spacing_ns / 1e9 for part in parts])
    gaps = [np.diff(on) * s for on, s in zip(train.onsets, spacing, strict=True)]
    joined = np.concatenate(gaps)
    if len(joined) < FEWEST:
        return None
    middle = float(np.median(joined))
    pitch = float(np.median(spacing))
    long = lengths >= IN_WINDOW * middle
    if not long.any():
        return None
    joined = np.concatenate([g for g, fits in zip(gaps, long, strict=True) if fits])
    if len(joined) < FEWEST:
        return None
    middle = float(np.median(joined))
    spread = 1.4826 * float(np.median(np.abs(joined - middle)))
    if spread > REGULAR * middle:
        return None
    fence = min(max(4.0 * spread, 0.1 * middle, 1.5 * pitch), 0.65 * middle)
    good = joined[np.abs(joined - middle) <= fence]
    mean = float(np.mean(good))
    jitter = float(np.std(good)) / mean
    looked = float(np.sum(lengths[long] - mean))
    explained = float(np.sum(good)) / looked
    if len(good) < FEWEST or jitter > REGULAR or explained < EXPLAINED:
        return None
    return _Rhythm(train, good, mean, jitter, explained, train.adds_work)


def _agreed(rhythms: Sequence[_Rhythm]) -> list[_Rhythm]:
    """
    The rhythms on which two channels agree, shortest first.

    Of the trains that agree, to a percent, on the one in the middle, the most complete and regular is
    taken: an onset that one of them missed, the others have.
    """
    found: list[_Rhythm] = []
    for rhythm in sorted(rhythms, key=lambda r: r.jitter - r.explained):
        same = [r for r in rhythms if abs(r.mean_s - rhythm.mean_s) <= ALIKE * rhythm.mean_s]
        new = all(max(f.mean_s, rhythm.mean_s) > OTHER * min(f.mean_s, rhythm.mean_s) for f in found)
        if new and len({r.train.channel for r in same}) >= 2:
            middle = float(np.median([r.mean_s for r in same]))
            best = min(
                same, key=lambda r: (round(abs(r.mean_s - middle) / middle, 2), r.jitter - r.explained)
            )
            found.append(replace(best, adds_work=any(r.adds_work for r in same)))
    return sorted(found, key=lambda r: r.mean_s)


def _climb(beats: list[_Rhythm], parts: tuple[Stretch, ...]) -> tuple[Steps, bool] | NoSteps:
    """From the shortest rhythm to the step."""
    beat = beats[0]
    work = _works(beat, parts)
    busy = _never_rests(parts)
    marked = [
        b
        for b in beats[1:]
        if (b.adds_work or busy)
        and b.mean_s <= (MOST_MICRO + 1) * beat.mean_s
        and _tells_beats_apart(b, beat, parts)
    ]
    whole = marked[-1] if marked else None
    if whole is None and (turns := _turns(_centred(work)[0])) is not None:
        whole = _grouped(beat, turns, work, parts)
        if whole is None:
            return NoSteps(BEGINS_NOWHERE)
    if whole is not None:
        if _differ_by_sampling(beat, whole, parts):
            return NoSteps(FALL_ALIKE)
        if (doubt := _unequal(whole, _works(whole, parts))) is not None:
            return doubt
        return _steps(whole, parts, micro=_micro(beat, whole, parts)), True
    if _turns(_counted(beat, work, parts)) is not None:
        return NoSteps(BEGINS_NOWHERE)
    if _uneven(work):
        return NoSteps(
            "Something comes back at regular intervals, but the work between is uneven and does not "
            "repeat: it may be only a part of a step."
        )
    if _takes_turns(beat, parts):
        return NoSteps("Longer and shorter beats take turns, so each may be only a part of a step.")
    if (doubt := _unequal(beat, work)) is not None:
        return doubt
    return _steps(beat, parts, micro=None), beat.adds_work


def _unequal(rhythm: _Rhythm, work: Sequence[FloatArray]) -> NoSteps | None:
    """The doubt about *rhythm* if its intervals hold unequal amounts of *work*; else None."""
    amount = _amounts(work)
    if _spread(amount) > max(UNEVEN, 2.0 * rhythm.jitter):
        return NoSteps(
            "Something comes back at regular intervals, but now more and now less work is done in between: "
            "these may be the beats of a timer, such as that of a CPU quota, parts of a step, or steps of "
            "unequal work."
        )
    whole = amount[np.abs(amount) < WHOLE]
    if len(whole) < 4 * FEWEST:
        return None
    quarters = np.array_split(whole, 4)
    middles = np.array([np.median(own) for own in quarters])
    within = _spread(np.concatenate([own - m for own, m in zip(quarters, middles, strict=True)]))
    # The median of n normal values scatters by 1.25 / √n of what they do.
    if np.ptp(middles) > max(UNEVEN, DRIFTS * 1.25 * within / np.sqrt(len(quarters[-1]))):
        return NoSteps(
            "Something comes back at regular intervals, but the work in between becomes more or less with "
            "time, so that no one step time would be true."
        )
    return None


def _tells_beats_apart(whole: _Rhythm, beat: _Rhythm, parts: Sequence[Stretch]) -> bool:
    """
    Whether beats differ in their work by their place after the mark of *whole*.

    A pulse shorter than a sample stands out only where it does not fall on the edge of two: with beats of
    16.4 samples, in nearly every second of them. Its sum over a beat is the same in all; and that of
    what fills the beat is in proportion to the beat's length, which is not known to a sample either.
    """
    works, rates, place = _by_place(whole, beat, parts)
    by_work, by_rate = (_differs(rows, place) for rows in (works, rates))
    return bool(np.any(by_work & by_rate))


def _by_place(
    whole: _Rhythm, beat: _Rhythm, parts: Sequence[Stretch]
) -> tuple[FloatArray, FloatArray, IntArray]:
    """The work in each beat (m, channels), that per sample, and its place after the mark of *whole* or -1."""
    works: list[FloatArray] = []
    rates: list[FloatArray] = []
    places: list[IntArray] = []
    for on, starts, part in zip(beat.train.onsets, whole.train.onsets, parts, strict=True):
        if len(on) < 2 or not len(starts):
            continue
        # With the marks in the middle of beats none is shared out between two.
        edges = on - _lag(on, starts) - 0.5 * beat.mean_s * 1e9 / part.spacing_ns
        marks = np.searchsorted(edges, starts, "right") - 1
        at = np.arange(len(on) - 1)
        last = np.searchsorted(marks, at, "right") - 1
        works.append(_work(edges, _done_by(part)))
        rates.append(works[-1] / np.diff(edges)[:, None])
        places.append(np.where(last >= 0, at - marks[np.maximum(last, 0)], -1))
    if not works:
        return np.zeros((0, 0)), np.zeros((0, 0)), np.empty(0, np.int64)
    return np.concatenate(works), np.concatenate(rates), np.concatenate(places)


def _differ_by_sampling(beat: _Rhythm, whole: _Rhythm, parts: Sequence[Stretch]) -> bool:
    """
    Whether the beats within *whole* may be alike, and differ only in how the samples fall on them.

    Even beats of 7.33 samples fall on them alike after three, and their edges are placed alike off: by up
    to half a sample at either end. More than what the busiest sample holds is no matter of edges.
    """
    pitch = float(np.median([part.spacing_ns for part in parts])) / 1e9
    # The mean of the group is the better known one: beats may be missed or doubled.
    group = whole.mean_s / pitch
    beats = group / round(whole.mean_s / beat.mean_s)
    once, again = abs(beats - round(beats)), abs(group - round(group))
    if again > FALLS_ALIKE or once <= 2.0 * again:
        return False
    # By rates: where an onset was missed, two beats hold twice the work of one.
    _, rates, place = _by_place(whole, beat, parts)
    kinds = _kinds(rates * beats, place)
    if len(kinds) < 2:
        return True
    swing = np.ptp([np.median(own, axis=0) for own in kinds], axis=0)
    names = [name for name in WORK if name in parts[0].columns]
    tops = [max(float(np.nanmax(part.columns[name], initial=0.0)) for part in parts) for name in names]
    return not bool(np.any(swing > np.maximum(tops, SMALLEST)))


def _kinds(rows: FloatArray, place: IntArray) -> list[FloatArray]:
    """The *rows* (m, channels) at each place in a step, of places that are there often enough."""
    return [own for k in range(MOST_MICRO) if len(own := rows[place == k]) >= FEWEST_OF_A_PLACE]


def _differs(rows: FloatArray, place: IntArray) -> BoolArray:
    """Which columns of *rows* (m, channels) differ between the places in a step: bool (channels,)."""
    kinds = _kinds(rows, place)
    if len(kinds) < 2:
        return np.zeros(rows.shape[1], np.bool_)
    middles = np.array([np.median(own, axis=0) for own in kinds])
    within = np.median(np.concatenate([np.abs(k - m) for k, m in zip(kinds, middles, strict=True)]), axis=0)
    swing = np.ptp(middles, axis=0)
    return np.asarray((swing >= MARKED * np.mean(rows, axis=0)) & (swing > BEYOND_NOISE * within), np.bool_)


def _never_rests(parts: tuple[Stretch, ...]) -> bool:
    """Whether the GPU is active throughout: then no rhythm is one of stalls."""
    return _rests(parts) < SELDOM


def _rests(parts: tuple[Stretch, ...]) -> float:
    """Share of the samples in which the GPU rests; NaN where that was not counted."""
    columns = [part.columns["gr_active"] for part in parts if "gr_active" in part.columns]
    joined = np.concatenate(columns) if columns else np.empty(0)
    known = joined[np.isfinite(joined)]
    return float(np.mean(known < AT_REST * np.max(known))) if len(known) else float("nan")


def _micro(beat: _Rhythm, whole: _Rhythm, parts: tuple[Stretch, ...]) -> tuple[float, int] | None:
    """Length and number of the micro-steps in each step *whole*, if its beats are micro-steps; else None."""
    if beat.mean_s < SHORTEST_MICRO_S:
        return None
    counts: list[IntArray] = []
    inner: list[FloatArray] = []
    places: list[IntArray] = []
    for on, starts, part in zip(beat.train.onsets, whole.train.onsets, parts, strict=True):
        # Onsets of two trains are apart by a constant; half a beat earlier, none falls on an edge.
        lag = _lag(on, starts)
        edges = np.searchsorted(on, starts + lag - 0.5 * beat.mean_s * 1e9 / part.spacing_ns)
        counts.append(np.diff(edges).astype(np.int64))
        inner.append(np.diff(on) * part.spacing_ns / 1e9)
        at = np.arange(max(len(on) - 1, 0))
        last = np.searchsorted(edges, at, "right") - 1
        places.append(np.where(last >= 0, at - edges[last], -1) if len(edges) else np.full(len(at), -1))
    joined = np.concatenate(counts)
    if not len(joined):
        return None
    number = int(np.median(joined))
    if number < 2 or float(np.mean(joined == number)) < SAME_NUMBER:
        return None
    # Forward and backward differ in tensor work; micro-steps do not, whatever the optimizer adds.
    pairs = list(zip(beat.train.onsets, parts, strict=True))
    tensor = np.concatenate([_work(on, _done_by(part, only="tensor_active"))[:, 0] for on, part in pairs])
    same = tensor
    if not float(np.sum(tensor)) > 0:
        same = np.concatenate([_work(on, _done_by(part, only="dram_read_bytes"))[:, 0] for on, part in pairs])
    middle = float(np.median(same))
    if float(np.median(np.abs(same - middle))) * 1.4826 > MICRO_ALIKE * middle:
        return None
    # Forward and backward pass may do nearly as much, but in each step anew the one does more than the other.
    if number == 2 and _differs(same[:, None], np.concatenate(places)).any():
        return None
    return float(np.median(np.concatenate(inner))), number


def _lag(on: FloatArray, starts: FloatArray) -> float:
    """By how much the onsets *on* lag behind the nearest of *starts*, in samples."""
    if not len(on) or not len(starts):
        return 0.0
    after = np.clip(np.searchsorted(on, starts), 0, len(on) - 1)
    before = np.maximum(after - 1, 0)
    ahead, behind = on[after] - starts, on[before] - starts
    return float(np.median(np.where(np.abs(ahead) <= np.abs(behind), ahead, behind)))


def _done_by(part: Stretch, *, only: str | None = None) -> list[FloatArray]:
    """Work done in *part* until the start of each sample and until its end (rows + 1,), per channel."""
    names = WORK if only is None else (only,)
    columns = [part.columns.get(name, np.zeros(part.rows)) for name in names if only or name in part.columns]
    active = part.columns.get("gr_active")
    if active is not None and np.isfinite(active).any():
        # Whatever a counter reads while nothing runs is no work.
        rest = active < NO_WORK * float(np.nanmax(active))
        columns = [np.where(rest, 0.0, column) for column in columns]
    out: list[FloatArray] = []
    for column in columns:
        known = np.isfinite(column)
        if not known.any():
            out.append(np.zeros(part.rows + 1))
            continue
        # A lost sample is taken to be like its neighbours, for the sum over a step only.
        filled = np.interp(np.arange(part.rows), np.flatnonzero(known), column[known])
        out.append(np.r_[0.0, np.cumsum(filled)])
    return out


def _work(onsets: FloatArray, done: Sequence[FloatArray]) -> FloatArray:
    """
    Work between neighbouring *onsets* (m,) of one stretch, per channel: shape (m - 1, channels).

    *done*: what `_done_by` makes of the stretch; many trains are tried on one.
    """
    if len(onsets) < 2 or not done:
        return np.zeros((max(len(onsets) - 1, 0), len(done)))
    grid = np.arange(float(len(done[0])))
    return np.column_stack([np.diff(np.interp(onsets, grid, summed)) for summed in done])


def _works(rhythm: _Rhythm, parts: tuple[Stretch, ...]) -> list[FloatArray]:
    """
    Work in each interval of *rhythm*; from a little before, at, or after its onsets, where it is most even.

    Where in a sample its work was done is not known. So an edge in a kernel shorter than a sample gives one
    step too much of it and another too little; beside it does not. No edge makes unequal work even.
    """
    found: list[tuple[float, list[FloatArray]]] = []
    done = [_done_by(part) for part in parts]
    for aside in (0.0, -ASIDE, ASIDE):
        work = [_work(on + aside, own) for on, own in zip(rhythm.train.onsets, done, strict=True)]
        relative, _ = _centred(work)
        joined = np.concatenate(relative)
        found.append((float(np.mean(np.abs(joined))) if joined.size else 0.0, work))
    return min(found, key=lambda f: f[0])[1]


def _centred(work: Sequence[FloatArray], *, clipped: bool = True) -> tuple[list[FloatArray], FloatArray]:
    """Work per beat relative to its median, and the spread of it per channel; idle channels left out."""
    joined = np.concatenate(work)
    middle = np.median(joined, axis=0)
    seen = middle > 0
    if not seen.any():
        return [w[:, :0] for w in work], np.empty(0)
    relative = [(w[:, seen] / middle[seen]) - 1.0 for w in work]
    spread = 1.4826 * np.median(np.abs(np.concatenate(relative)), axis=0)
    # One checkpoint must not hide what repeats.
    bound = np.maximum(6.0 * spread, 0.5)
    return ([np.clip(r, -bound, bound) for r in relative] if clipped else relative), spread


def _counted(beat: _Rhythm, work: Sequence[FloatArray], parts: Sequence[Stretch]) -> list[FloatArray]:
    """
    Relative work of each beat (m, channels) of each stretch; NaN for the beats that were not seen.

    A long interval of which samples are missing is as many beats as fit into it: what repeats every eight
    beats would lose count in each hole. Where the count was lost, the step does not begin for sure, so this
    raises a doubt and no more. A long interval that was seen is one beat, and a stall.
    """
    out: list[FloatArray] = []
    for on, rows, part in zip(beat.train.onsets, _centred(work)[0], parts, strict=True):
        if not len(rows):
            out.append(rows)
            continue
        known = np.any([np.isfinite(part.columns[n]) for n in WORK if n in part.columns], axis=0)
        up_to = np.r_[0.0, np.cumsum(known)]
        seen = np.diff(np.interp(on, np.arange(float(len(up_to))), up_to)) >= SEEN * np.diff(on)
        fit = np.rint(np.diff(on) * part.spacing_ns / 1e9 / beat.mean_s).astype(np.int64)
        at = np.r_[0, np.cumsum(np.where(seen, 1, np.maximum(fit, 1)))]
        beats = np.full((at[-1], rows.shape[1]), np.nan)
        beats[at[:-1][seen]] = rows[seen]
        out.append(beats)
    return out


def _turns(relative: Sequence[FloatArray]) -> int | None:
    """After how many beats their *relative* work (m, channels) repeats itself; None when all are alike."""
    joined = np.concatenate(relative)
    joined = joined[np.isfinite(joined).all(axis=1)]
    best: tuple[int, float] | None = None
    if not len(joined):
        return None
    for channel in range(joined.shape[1]):
        rows = [r[:, channel] - np.mean(joined[:, channel]) for r in relative]
        spread = float(np.nanmean(np.concatenate(rows) ** 2))
        if spread == 0:
            continue
        count = len(joined)
        most = min(MOST_MICRO, count // GROUPS)
        alike = np.full(most + 2, np.nan)
        pairs = np.zeros(most + 2)
        for k in range(1, most + 2):
            products = np.concatenate([row[k:] * row[:-k] for row in rows if len(row) > k] or [np.empty(0)])
            products = products[np.isfinite(products)]
            pairs[k] = len(products)
            if len(products):
                alike[k] = float(np.mean(products)) / spread
        for k in range(2, most + 1):
            beside = np.nanmax(alike[[k - 1, k + 1]]) if np.isfinite(alike[[k - 1, k + 1]]).any() else -1.0
            significant = alike[k] > 4.0 / np.sqrt(max(pairs[k], 1.0))
            if alike[k] >= REPEATS and significant and alike[k] >= beside + STANDS_OUT:
                if _swing(rows, k) >= UNEVEN and (best is None or alike[k] > best[1] + 0.1):
                    best = (k, float(alike[k]))
                break
    return None if best is None else best[0]


def _swing(rows: Sequence[FloatArray], k: int) -> float:
    """By how much the mean work differs between the k places in a step; stretches are aligned first."""
    folded = [_places(row, k) for row in rows if len(row) >= 2 * k]
    if not folded:
        return 0.0
    return float(np.median([np.ptp(places) for places in folded]))


def _places(row: FloatArray, k: int) -> FloatArray:
    """The median of *row* (n,) at each of *k* places, 0 at one that was never seen."""
    seen = [own[np.isfinite(own)] for own in (row[place::k] for place in range(k))]
    return np.array([np.median(own) if len(own) else 0.0 for own in seen])


def _uneven(work: Sequence[FloatArray]) -> bool:
    """
    Whether more than a few beats did other work than most.

    More of everything is no other work: the step was longer, or an onset was missed. Less of
    everything neither: an onset too many. Other work changes the proportions.
    """
    relative, _ = _centred(work, clipped=False)
    joined = np.concatenate(relative) + 1.0
    if joined.shape[1] < 2:
        return False
    level = np.median(joined, axis=1, keepdims=True)
    mixed = joined[level[:, 0] > UNEVEN] / level[level[:, 0] > UNEVEN] - 1.0
    spread = 1.4826 * np.median(np.abs(mixed), axis=0)
    if float(np.sort(spread)[-2]) > MIXED:
        return True
    odd = np.sum(np.abs(mixed) > np.maximum(UNEVEN, 4.0 * spread), axis=1) >= 2
    return bool(np.sum(odd) > ODD * len(odd))


def _takes_turns(beat: _Rhythm, parts: tuple[Stretch, ...]) -> bool:
    """Whether every second beat is a long one, by more than a sample."""
    if beat.jitter * beat.mean_s * 1e9 < parts[0].spacing_ns:
        return False
    lengths = [np.diff(on) * part.spacing_ns / 1e9 for on, part in zip(beat.train.onsets, parts, strict=True)]
    # A missed onset makes a long one of any.
    rows = [
        np.where(np.abs(own - beat.mean_s) < 0.65 * beat.mean_s, own, np.nan) - beat.mean_s for own in lengths
    ]
    spread = float(np.nanmean(np.concatenate(rows) ** 2))

    def alike(lag: int) -> float:
        products = np.concatenate([own[lag:] * own[:-lag] for own in rows])
        products = products[np.isfinite(products)]
        return float(np.mean(products)) / spread if len(products) >= FEWEST else np.nan

    # Stretches may be too short to see a second pair.
    return alike(1) <= -REPEATS and not alike(2) < REPEATS


def _amounts(work: Sequence[FloatArray]) -> FloatArray:
    """The amount of work of each beat (n,) relative to the median one; empty where none was counted."""
    relative, _ = _centred(work, clipped=False)
    joined = np.concatenate(relative)
    return np.median(joined, axis=1) if joined.shape[1] else np.empty(0)


def _spread(values: FloatArray) -> float:
    """Standard deviation of *values* (n,), by the median one; 0 where there are none."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0


def _grouped(
    beat: _Rhythm, turns: int, work: Sequence[FloatArray], parts: tuple[Stretch, ...]
) -> _Rhythm | None:
    """The rhythm of every *turns*-th onset of *beat*, beginning after the beat with the most other work."""
    relative, _ = _centred(work)
    onsets: list[FloatArray] = []
    for on, rows in zip(beat.train.onsets, relative, strict=True):
        if len(rows) < 2 * turns:
            onsets.append(np.empty(0))
            continue
        places = np.array([np.median(np.abs(rows[place::turns]).sum(axis=1)) for place in range(turns)])
        first = (int(np.argmax(places)) + 1) % turns
        onsets.append(on[first::turns])
    return _rhythm(Train(beat.train.channel, tuple(onsets)), parts)


def _by_work(every: Sequence[Train], parts: tuple[Stretch, ...]) -> tuple[Steps, bool] | None:
    """Steps of equal work whose times differ: a program that steps when its data comes."""
    if _lost_share(parts) > LOST:
        return None
    found: list[tuple[float, Train, FloatArray]] = []
    done = [_done_by(part) for part in parts]
    for train in every:
        work = [_work(on, own) for on, own in zip(train.onsets, done, strict=True)]
        if sum(map(len, work)) < FEWEST:
            continue
        relative, spread = _centred(work, clipped=False)
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
            rhythm = _Rhythm(train, gaps, mean, jitter, explained=1.0)
            return _steps(rhythm, parts, micro=None), True
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
    rhythm = _rhythm(Train("", tuple(onsets)), parts)
    if rhythm is None:
        return None
    work = [_work(on, _done_by(part)) for on, part in zip(onsets, parts, strict=True)]
    if _uneven(work) or _turns(_centred(work)[0]) is not None or _unequal(rhythm, work) is not None:
        return None
    return replace(_steps(rhythm, parts, micro=None), how="autocorrelation"), True


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


def _steps(rhythm: _Rhythm, parts: tuple[Stretch, ...], *, micro: tuple[float, int] | None) -> Steps:
    starts = np.concatenate(
        [
            part.start_ns + np.rint(on * part.spacing_ns).astype(np.int64)
            for on, part in zip(rhythm.train.onsets, parts, strict=True)
        ]
    )
    low, high = _interval(rhythm.steps_s)
    return Steps(
        step_s=rhythm.mean_s,
        low_s=low,
        high_s=high,
        jitter=rhythm.jitter,
        micro_s=None if micro is None else micro[0],
        micro_per_step=None if micro is None else micro[1],
        starts_ns=np.unique(starts),
        how="anchor",
        count=len(rhythm.steps_s),
    )


def _interval(steps_s: FloatArray) -> tuple[float, float]:
    """95 % interval of the mean of *steps_s* (n,), by resampling blocks of √n from a ring (Künsch, 1989)."""
    count = len(steps_s)
    block = max(1, round(np.sqrt(count)))
    rng = np.random.default_rng(SEED)
    first = rng.integers(0, count, size=(REPLICATES, -(-count // block)))
    rows = (first[:, :, None] + np.arange(block)).reshape(REPLICATES, -1)[:, :count] % count
    low, high = np.quantile(np.mean(steps_s[rows], axis=1), [0.025, 0.975])
    return float(low), float(high)


def _level_at(step_s: float, parts: tuple[Stretch, ...], *, over: float = AVERAGED) -> bool:
    """Whether *parts*, averaged over several steps of *step_s*, do not change: then nothing is slower."""
    for name in ("gr_active", "sm_active", "tensor_active", "dram_read_bytes", "dram_write_bytes"):
        columns = [(part, part.columns[name]) for part in parts if name in part.columns]
        if not columns:
            continue
        means: list[FloatArray] = []
        for part, column in columns:
            width = max(1, round(over * step_s / (part.spacing_ns / 1e9)))
            count = part.rows // width
            block = column[: count * width].reshape(count, width)
            known = np.isfinite(block).sum(axis=1)
            usable = known * 2 > width
            means.append(np.nansum(block, axis=1)[usable] / known[usable])
        joined = np.concatenate(means)
        if not len(joined):
            continue
        middle = float(np.median(joined))
        spread = 1.4826 * float(np.median(np.abs(joined - middle)))
        top = float(np.nanmax(np.concatenate([column for _, column in columns])))
        if top < (BARELY if name.endswith("active") else BARELY_BYTES):
            continue
        bound = max(RIPPLE * middle, 4.0 * spread, 0.05 * top)
        if spread > RIPPLE * max(middle, 0.1 * top) or np.mean(np.abs(joined - middle) > bound) > EDGES:
            return False
    return True


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
    return not adds_work or long_enough or _level_at(faster.step_s, parts)
