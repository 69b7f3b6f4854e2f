"""
Which part of a recording shows the program at work, and not starting up or ending.

Model: means over one second, several channels at once and the step times where they are known, are
cut into level pieces (`perfzero.series.segments`). The last piece is the program at work, if it
lasts; what comes after it, short and less busy, is the end. Where its level was seen before, all
since then belongs to it: a program may leave its level and come back. Three kinds are told apart,
after Barrett et al. 2017, "Virtual machine warmup blows hot and cold":

    steady     one level, but for excursions from which it comes back
    cyclic     levels that take turns (training and evaluation): whole cycles are judged
    slow_down  one level that sinks by `SLOWER` or more all the time (heat, a leak)

A program that does the same at a slower pace is still at work: where the last piece has all rates of those
before it, each by one factor, and they are together as long as it, no warm-up ended in between. Hosts change
their pace so, by a tenth to a third within seconds, and a GPU that waits for its host follows. One that gets
faster may have warmed up.

A piece is entered where its means first come within `NEAR_LEVEL` of its level, so that clocks that
still rise are warm-up. Where the last piece will not do, the band of the second half of the recording
is tried: means that stay between the same bounds are steady, whatever they do there. Where that fails
too (the fourth kind, "never"), the first 30 s with work are dropped, and of a shorter recording
nothing is: both are said.

What it cannot know: whether a level piece was the work or a long start-up, if the recording ends in
it; and of a program that changes from one work to another, the last is judged. `other_s` tells how
much of what was dropped was as level.

How often it is right, by simulation: docs/steady.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from perfzero.counters import BY_NAME
from perfzero.limits import CHOICE, H200, Limit
from perfzero.series.segments import (
    BAND,
    BAND_RELATIVE,
    NOISE,
    Piece,
    alike,
    comparable,
    level_pieces,
    median,
)
from perfzero.values import FloatArray, IntArray, Samples

BIN_NS = 1_000_000_000
"""Seconds: short against a warm-up, long against a step."""

BIN_COVERAGE: Annotated[float, Limit("ratio", CHOICE)] = 0.2
"""A second is used if samples cover at least this share of it: PM windows come and go."""

WARM_UP_NS: Annotated[int, Limit("nanoseconds", CHOICE)] = 30 * BIN_NS
"""What is dropped where the data does not say (the usual advice; the fallback of spec S10)."""

RUN: Annotated[int, Limit("seconds", CHOICE)] = 3
"""Seconds in a row that must stay at the level, or inside the band, before warm-up counts as over."""

FEWEST: Annotated[int, Limit("seconds", CHOICE)] = 5
"""A stable stretch has at least this many seconds to show for it."""

ENDING: Annotated[float, Limit("ratio", CHOICE)] = 0.1
"""
What comes last and is less busy is the end if it takes less than this share of the time with work ...
"""

ENDING_LONGEST: Annotated[int, Limit("seconds", CHOICE)] = 30
"""... and at most so many seconds; it then was saving, or counting up its results."""

NEAR_LEVEL: Annotated[float, Limit("ratio", CHOICE)] = 0.03
"""Warm-up is over within 3 % of the level (science: steady is what lies within 3 % of the best)."""

SLOWER: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""A rate that sinks by 5 % within the stretch, and steadily, is a slow-down: more than clocks wander."""

PACE: Annotated[float, Limit("ratio", H200)] = 0.75
"""
A pace that has sunk to this share is still the host's own: the launches of a program on an H200 went on at
0.80 of what they had been for 17 s, with the same share of each pipe in its activity.
"""

PARTS: Annotated[int, Limit("count", CHOICE)] = 10
"""In so many parts of the stretch a trend has to show itself ..."""

ORDERED: Annotated[float, Limit("ratio", CHOICE)] = 0.8
"""... and this share of their pairs has to be in order: of parts without a trend 50 % are."""

WHOLE: Annotated[float, Limit("ratio", CHOICE)] = 0.8
"""A last visit to a level that takes this share of the others' time is a whole one."""

COMES_BACK: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""At least half of the stretch lies at levels seen twice; else the program moved on, and does not return."""

TURN: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""What takes turns with the work takes at least this share of the time; less is an excursion."""

UNLIKE: Annotated[int, Limit("ratio", CHOICE)] = 2
"""A rest so many times as long as all before it is none of the program's own ..."""

PARTING: Annotated[float, Limit("ratio", H200)] = 0.03
"""
... if the work after it takes less than this share of it: a program was done, rested for 0.9 s while it took
itself apart, and was active for 2 ms once more (H200, optimizer_unfused).
"""

BURSTS: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""GR activity that is usually off by half its level is no level: kernels being tried out between pauses."""

ACTIVE: Annotated[float, Limit("ratio", CHOICE)] = 0.005
"""GR activity that counts as work: half a percent of a second is far above counter noise."""

COPYING: Annotated[float, Limit("bytes/s", CHOICE)] = 200e6
"""Bytes per second over PCIe that count as work: a hundred times what launching kernels takes."""

UNSETTLED: Annotated[float, Limit("ratio", CHOICE)] = 0.25
"""A stretch whose halves differ by a quarter is no steady stretch, whatever its band."""

SMEARED_NS: Annotated[int, Limit("nanoseconds", CHOICE)] = 3 * BIN_NS // 2
"""A row longer than this hides when within it a change happened; its level tells."""

SHORT_NS: Annotated[int, Limit("nanoseconds", H200)] = 450_000_000
"""
GPM's rows shorter than this are left out: averages of 0.2 s were off by up to a third (H200, dram_active).
"""

LONGEST_NS: Annotated[int, Limit("nanoseconds", CHOICE)] = 3600 * BIN_NS
"""
Rows longer than this are left out: no source averages over an hour, but one whose first start was read as
0 has a row that began in 1970, with 1.7e9 seconds to be laid out.
"""

CHANNELS = ("gr_active", "tensor_active", "dram_active", "dram_read_bytes", "sm_active", "pcie_rx_bytes")

How = Literal["stable", "fallback", "short", "none"]
Kind = Literal["steady", "slow_down", "cyclic", "never"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """
    The stretch to judge, [start_ns, end_ns), and how it was found.

    `dropped_s`: seconds before it that were left out. `changed`: by how much the busiest channel
    still moved within it, as a share of its level; above `BAND_RELATIVE` it was not that steady.
    `kind`: what the program does in it; "never" wherever `how` is not "stable". `other_s`: seconds
    before it in the longest piece at another level that was level as well: another work, or a long
    warm-up.
    """

    start_ns: int
    end_ns: int
    dropped_s: float
    how: How
    changed: float = 0.0
    kind: Kind = "never"
    other_s: float = 0.0


def bin_means(samples: Samples, names: tuple[str, ...]) -> tuple[IntArray, FloatArray]:
    """
    Means over whole seconds: the start of each second that has samples, int64 (m,), and the means
    float64 (m, len(names)). Amounts become rates per second; a sample that spans several seconds
    counts in each by the part that lies there.
    """
    if len(samples) == 0:
        return np.empty(0, np.int64), np.empty((0, len(names)))
    samples = _cut_at_seconds(_believable(samples), names)
    second = samples.start_ns // BIN_NS
    found, index = np.unique(second, return_inverse=True)
    length = samples.duration_s
    covered = np.bincount(index, weights=length)
    means = np.full((len(found), len(names)), np.nan)
    for column, name in enumerate(names):
        values = samples.column(name)
        known = np.isfinite(values)
        time = np.bincount(index, weights=np.where(known, length, 0.0))
        amount = BY_NAME[name].kind == "total"
        what = np.where(known, values if amount else values * length, 0.0)
        summed = np.bincount(index, weights=what)
        with np.errstate(invalid="ignore", divide="ignore"):
            means[:, column] = np.where(time > 0, summed / time, np.nan)
    enough = covered >= BIN_COVERAGE
    return found[enough] * BIN_NS, means[enough]


def _believable(samples: Samples) -> Samples:
    """*samples* without rows that last no time, or far longer than anything is averaged over."""
    length = samples.end_ns - samples.start_ns
    return samples.where((length > 0) & (length <= LONGEST_NS))


def _cut_at_seconds(samples: Samples, names: tuple[str, ...]) -> Samples:
    """The columns *names* of *samples*, each row cut where a second begins, amounts in proportion."""
    first, last = samples.start_ns // BIN_NS, (samples.end_ns - 1) // BIN_NS
    pieces = np.maximum(last - first, 0) + 1
    row = np.repeat(np.arange(len(samples)), pieces)
    second = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = np.maximum(samples.start_ns[row], second * BIN_NS)
    end = np.minimum(samples.end_ns[row], (second + 1) * BIN_NS)
    part = (end - start) / np.maximum(samples.end_ns - samples.start_ns, 1)[row]
    return Samples(
        start,
        end,
        {n: samples.column(n)[row] * (part if BY_NAME[n].kind == "total" else 1.0) for n in names},
    )


def find_steady(
    always: Samples,
    sampled: Samples,
    *,
    start_ns: int,
    end_ns: int,
    step_times: tuple[IntArray, FloatArray] | None = None,
) -> Stretch:
    """
    The steady stretch of a recording that spans [start_ns, end_ns).

    *always* are samples of a source that runs all the time (GPM), *sampled* those of windows
    (PM); the first is used where it has data. *step_times*: when steps began, int64 (s,), and how many
    seconds each took, (s,). The stretch ends with the last work that was sampled: what comes after is
    the program's end, and GPM's rows of several seconds may not show it.
    """
    always, sampled = _believable(always), _believable(sampled)
    found = _find_steady(always, sampled, start_ns=start_ns, end_ns=end_ns, step_times=step_times)
    found = replace(found, end_ns=_followed_ns(found, sampled, end_ns=end_ns))
    last_ns = _last_work_ns(sampled.between(found.start_ns, found.end_ns))
    if last_ns is None or _works_after(always, last_ns):
        return found
    return replace(found, end_ns=last_ns)


def _works_after(always: Samples, time_ns: int) -> bool:
    """Whether a whole average after *time_ns* has work: then a rest before it was none at the end."""
    after = always.where(always.start_ns >= time_ns)
    return len(after) > 0 and bool(np.any(_working(after)))


def _working(samples: Samples) -> NDArray[np.bool_]:
    """The rows in which the GPU computed or copied."""
    moved = samples.column("pcie_rx_bytes") / np.maximum(samples.duration_s, 1e-9)
    return np.asarray((samples.column("gr_active") > ACTIVE) | (moved > COPYING), np.bool_)


def _followed_ns(found: Stretch, sampled: Samples, *, end_ns: int) -> int:
    """Where the stretch ends if samples right after it, which the averages lack or blur, go on like it."""
    names = tuple(n for n in CHANNELS if sampled.has(n))
    if found.how != "stable" or not names:
        return found.end_ns
    at, means = bin_means(sampled, names)
    scaled = comparable(means, names)
    inside = (at >= found.start_ns) & (at + BIN_NS <= found.end_ns)
    if inside.sum() < RUN:
        return found.end_ns
    level = median(scaled[inside])
    like = {int(when): alike(row, level) for when, row in zip(at, scaled, strict=True)}
    reached = found.end_ns - found.end_ns % BIN_NS  # the stretch may end within a second
    while like.get(reached, False):
        reached += BIN_NS
    return max(found.end_ns, min(end_ns, reached))


def _last_work_ns(samples: Samples) -> int | None:
    """
    Where the last sample ends in which the GPU computed or copied, if it never rested as long before
    as it does after; None otherwise, for then the rest may be one of the program's own.

    What a program does to give back its memory, after a rest unlike any before, is not work.
    """
    working = np.flatnonzero(_working(samples))
    if len(working) < 2:
        return None
    rests = np.diff(working)
    longest_before = np.r_[np.inf, np.maximum.accumulate(rests)[:-1]]
    left = np.arange(len(rests), 0, -1)
    ended = np.flatnonzero((rests > UNLIKE * longest_before) & (left < PARTING * rests))
    if len(ended):
        return int(samples.end_ns[working[ended[0]]])
    if len(samples) - 1 - working[-1] <= rests.max():
        return None
    return int(samples.end_ns[working[-1]])


def _find_steady(
    always: Samples,
    sampled: Samples,
    *,
    start_ns: int,
    end_ns: int,
    step_times: tuple[IntArray, FloatArray] | None,
) -> Stretch:
    table = always if always.has("gr_active") else sampled
    names = tuple(n for n in CHANNELS if table.has(n))
    length_ns = table.end_ns - table.start_ns
    if len(table) and np.median(length_ns) >= SHORT_NS:
        table = table.where(length_ns >= SHORT_NS)
    at, means = bin_means(table, names)
    nothing = Stretch(start_ns, end_ns, 0.0, "none")
    if "gr_active" not in names or len(at) == 0:
        return nothing
    working = np.nan_to_num(means[:, names.index("gr_active")]) > ACTIVE
    if "pcie_rx_bytes" in names:
        working |= np.nan_to_num(means[:, names.index("pcie_rx_bytes")]) > COPYING
    busy = np.flatnonzero(working)
    if len(busy) == 0:
        return nothing
    first, last = int(busy[0]), int(busy[-1]) + 1
    at, means = at[first:last], comparable(means[first:last], names)
    activity = means[:, names.index("gr_active")]
    if step_times is not None:
        means = np.column_stack([means, _step_rates(at, *step_times)])
    begin, end = max(start_ns, int(at[0])), min(end_ns, int(at[-1]) + BIN_NS)

    def stretch(found: _Rows, begin_stable: int) -> Stretch:
        end_stable = min(end_ns, int(at[found.last - 1]) + BIN_NS)
        dropped = (begin_stable - start_ns) / 1e9
        return Stretch(begin_stable, end_stable, dropped, "stable", found.changed, found.kind, found.other_s)

    found = _by_pieces(at, means, activity, stepped=step_times is not None)
    if found is not None:
        begin_stable = max(start_ns, int(at[found.first]))
        return stretch(found, _sharpened(begin_stable, table, at, means, found))
    enough = end - begin > WARM_UP_NS + FEWEST * BIN_NS
    kept = _stable(means)
    # Between bursts, a short recording may show nothing but kernels being tried out.
    if kept is not None and (enough or not _bursting(activity[slice(*kept)])):
        changed = _change(means[slice(*kept)])
        if changed <= UNSETTLED:
            return stretch(_Rows(*kept, "cyclic", changed, 0.0), max(start_ns, int(at[kept[0]])))
    if enough:
        begin_late = begin + WARM_UP_NS
        late = at >= begin_late
        return Stretch(begin_late, end, (begin_late - start_ns) / 1e9, "fallback", _change(means[late]))
    return Stretch(begin, end, (begin - start_ns) / 1e9, "short", _change(means))


def _step_rates(at: IntArray, starts_ns: IntArray, seconds: FloatArray) -> FloatArray:
    """Steps per second while steps ran, in each second that begins at *at*, as shares of a high one."""
    rates = np.full(len(at), np.nan)
    good = np.isfinite(seconds) & (seconds > 0)
    starts_ns, seconds = starts_ns[good], seconds[good]
    if len(starts_ns) == 0:
        return rates
    begun = (starts_ns - at[0]) / 1e9
    # A step that is said to last into the next one ends where that begins.
    ended = np.minimum(begun + seconds, np.r_[begun[1:], np.inf])
    times = np.column_stack([begun, ended]).ravel()
    count = np.repeat(np.arange(len(begun) + 1), 2)[1:-1].astype(np.float64)
    spent = np.repeat(np.r_[0.0, np.cumsum(ended - begun)], 2)[1:-1]
    left = (at - at[0]) / 1e9
    steps = np.interp(left + 1.0, times, count) - np.interp(left, times, count)
    during = np.interp(left + 1.0, times, spent) - np.interp(left, times, spent)
    np.divide(steps, during, out=rates, where=during >= 0.5)
    known = rates[np.isfinite(rates)]
    return rates / float(np.quantile(known, 0.95)) if len(known) else rates


@dataclass(frozen=True, slots=True)
class _Rows:
    """A stretch as rows [first, last) of the means, with what `Stretch` says about it."""

    first: int
    last: int
    kind: Kind
    changed: float
    other_s: float


def _by_pieces(at: IntArray, means: FloatArray, activity: FloatArray, *, stepped: bool) -> _Rows | None:
    """The stretch at whose level the program ends up, or None where it never stays at one."""
    pieces = _without_ending(level_pieces(means), activity, count=len(means))
    sinking = _sinking(means, pieces, stepped=stepped)
    if sinking is not None:
        first, last = sinking.first, sinking.last
        return _Rows(first, last, "slow_down", _change(means[first:last]), _other_s(at, pieces, first))
    pieces = _at_another_pace(means, pieces)
    labels = [p.label for p in pieces]
    begin = labels.index(labels[-1])
    # Of the levels that it has gone through since, it is at work in the one where it spends most time.
    spent = {label: sum(len(p) for p in pieces[begin:] if p.label == label) for label in labels[begin:]}
    main = max(spent, key=lambda label: spent[label])
    begin = labels.index(main)
    taken = pieces[begin:]
    visits = {p.label: labels[begin:].count(p.label) for p in taken}
    returning = sum(len(p) for p in taken if visits[p.label] > 1)
    if len(taken) > 1 and returning < COMES_BACK * sum(map(len, taken)):
        begin, taken, visits = len(pieces) - 1, pieces[-1:], {pieces[-1].label: 1}
    turns = {p.label for p in taken if visits[p.label] > 1}
    size = sum(map(len, taken))
    cyclic = sum(spent[t] >= TURN * size for t in turns) > 1
    first, last = taken[0].first, taken[-1].last
    kind: Kind = "cyclic" if cyclic else "steady"
    if cyclic:
        last = _whole_cycles(taken, main)
        changed = _change_of_cycles(means, [p for p in taken if p.last <= last], main)
    else:
        first, last = _at_level(means, taken[0], last=last)
        changed = _change(means[first:last])
    if last - first < FEWEST or changed > UNSETTLED:
        return None
    if not cyclic and _bursting(activity[first:last]):
        return None
    return _Rows(first, last, kind, changed, _other_s(at, pieces, taken[0].first))


def _other_s(at: IntArray, pieces: list[Piece], first: int) -> float:
    """Seconds in the longest of *pieces* before the row *first*."""
    earlier = [at[p.last - 1] - at[p.first] + BIN_NS for p in pieces if p.last <= first and len(p) >= FEWEST]
    return float(max(earlier, default=0)) / BIN_NS


def _sinking(means: FloatArray, pieces: list[Piece], *, stepped: bool) -> Piece | None:
    """The last pieces as one, if each begins as the one before it ends and together they slow down."""
    begin = len(pieces) - 1

    def joined(before: Piece, after: Piece) -> bool:
        ends = median(means[max(before.first, before.last - FEWEST) : before.last])
        return alike(ends, median(means[after.first : min(after.last, after.first + FEWEST)]))

    while begin > 0 and joined(pieces[begin - 1], pieces[begin]):
        begin -= 1
    whole = Piece(pieces[begin].first, pieces[-1].last, pieces[-1].label)
    return whole if _slows_down(means[whole.first : whole.last], stepped=stepped) else None


def _at_another_pace(means: FloatArray, pieces: list[Piece]) -> list[Piece]:
    """*pieces*, the last one joined to those before it that did the same, no slower and for longer."""
    last, begin = pieces[-1], len(pieces) - 1
    level = median(means[last.first : last.last])
    while begin > 0 and _slower(median(means[pieces[begin - 1].first : pieces[begin - 1].last]), level):
        begin -= 1
    before = pieces[begin:-1]
    if not before or sum(map(len, before)) < len(last):
        return pieces
    longest = max(before, key=len)
    return [*pieces[:begin], Piece(before[0].first, last.last, longest.label)]


def _slower(one: FloatArray, other: FloatArray) -> bool:
    """Whether the *other* level is *one* by one factor from `PACE` to 1; GR activity comes first."""
    if not one[0] > 0:
        return False
    factor = float(other[0] / one[0])
    room = np.maximum(NOISE, BAND_RELATIVE * np.abs(other))
    apart = np.abs(other - factor * one)
    # Of activity alone any change is one by a factor: others have to say that it is the same work.
    tells = int((np.abs(other[1:]) > room[1:]).sum()) > 0
    return PACE <= factor <= 1.0 and tells and bool(np.all(np.isnan(apart) | (apart <= room)))


def _without_ending(pieces: list[Piece], activity: FloatArray, *, count: int) -> list[Piece]:
    """*pieces* but for those at the end that are short, and less busy where they are not very short."""
    most = max(float(FEWEST), min(ENDING * count, ENDING_LONGEST))
    kept = len(pieces)
    while kept > 1:
        piece, before = pieces[kept - 1], pieces[kept - 2]
        less = np.nanmean(activity[piece.first : piece.last]) < np.nanmean(
            activity[before.first : before.last]
        )
        short = len(piece) < FEWEST or (bool(less) and len(piece) <= most)
        if not short or count - piece.first > most:
            break
        kept -= 1
    return pieces[:kept]


def _whole_cycles(taken: list[Piece], main: int) -> int:
    """The row at which the last whole cycle of *taken*, which begins with *main*, ends."""
    last = taken[-1]
    others = [len(p) for p in taken[:-1] if p.label == last.label]
    turns = [p for p in taken if p.label == main]
    if last.label != main and others and len(last) >= WHOLE * float(np.median(others)):
        return last.last
    # Two whole cycles are worth more than the last one, as long as little is lost with it.
    lost = last.last - turns[-1].first
    return turns[-1].first if len(turns) > 2 and 3 * lost <= last.last - taken[0].first else last.last


def _change_of_cycles(means: FloatArray, taken: list[Piece], main: int) -> float:
    """`_change` from the first half of the cycles to the second; cycles begin with *main*."""
    starts = [p.first for p in taken if p.label == main]
    edges = [*starts, taken[-1].last] if taken[-1].label != main else starts
    if len(edges) < 3:
        return 0.0
    cycles = [means[a:b] for a, b in pairwise(edges)]
    half = len(cycles) // 2
    return _difference(np.concatenate(cycles[:half]), np.concatenate(cycles[-half:]))


def _at_level(means: FloatArray, entered: Piece, *, last: int) -> tuple[int, int]:
    """
    The rows from *entered* to *last* without those at either end that are still off the level.

    The level is that of the later part of the piece that is entered. What is still on its way comes
    from one side; what goes to and fro about the level is the noise of a program at work.
    """
    rows = means[entered.first : entered.last]
    later = rows[len(rows) // 3 :]
    level = median(later)
    # Seconds within one long row are equal, and say nothing of how much seconds differ.
    moves = np.abs(np.diff(rows, axis=0))
    moves[moves < 1e-9] = np.nan
    moves[:, np.isfinite(moves).sum(axis=0) < FEWEST] = np.nan
    spread = 1.4826 * np.fmax(median(np.abs(later - level)), median(moves) / 2**0.5)
    near = np.maximum(NEAR_LEVEL * np.maximum(np.abs(level), 0.2), 3.0 * spread)
    near_mean = np.maximum(NEAR_LEVEL * np.maximum(np.abs(level), 0.2), 1.5 * spread / RUN**0.5)
    side = np.sign(rows[0] - level)
    # Programs warm up from below: what is above by as much is more likely to be noise.
    near, near_mean = (np.where(side > 0, 2.0, 1.0) * n for n in (near, near_mean))

    def off(i: int) -> bool:
        ahead = side * (_means(rows[i : i + RUN]) - level)
        return bool(np.any(side * (rows[i] - level) > near) or np.any(ahead > near_mean))

    skipped = 0
    while skipped < len(rows) // 2 and off(skipped):
        skipped += 1
    # If half of it is off, it is no start-up that is still going on, but the level that is not one.
    first = entered.first + (skipped if skipped < len(rows) // 2 else 0)
    # The second in which the program ended was only partly worked in.
    while last - first > FEWEST and np.any(np.abs(means[last - 1] - level) > 2.0 * near):
        last -= 1
    return first, last


def _means(rows: FloatArray) -> FloatArray:
    """The mean of each channel over *rows*, NaN where none is known."""
    known = np.isfinite(rows)
    mean = np.full(rows.shape[1], np.nan)
    np.divide(np.where(known, rows, 0.0).sum(axis=0), known.sum(axis=0), out=mean, where=known.any(axis=0))
    return mean


def _slows_down(means: FloatArray, *, stepped: bool) -> bool:
    """Whether some channel sinks by `SLOWER`, all the time, and none rises; of steps, whether they do."""
    if len(means) < 2 * PARTS:
        return False
    trends = [_trend(column) for column in (means[:, -1:].T if stepped else means.T)]
    return min(trends) <= -SLOWER and max(trends) < SLOWER


def _trend(values: FloatArray) -> float:
    """By which share of its first part *values* (n,) rose or fell in even steps; 0 without a trend."""
    parts = np.array(
        [
            np.median(p[np.isfinite(p)]) if np.isfinite(p).any() else np.nan
            for p in np.array_split(values, PARTS)
        ]
    )
    if not np.isfinite(parts).all() or parts[0] < BAND:
        return 0.0
    whole = float(parts[-1] - parts[0])
    pairs = np.sign(whole) * (parts[None, :] - parts[:, None])[np.triu_indices(PARTS, 1)]
    half = np.sign(whole) * float(np.mean(parts[4:6]) - parts[0])
    even = 0.2 * abs(whole) <= half <= 0.8 * abs(whole)
    return whole / float(parts[0]) if even and float(np.mean(pairs > 0)) >= ORDERED else 0.0


def _bursting(activity: FloatArray) -> bool:
    """Whether GR activity is usually far from its own mean, as between bursts."""
    level = float(np.nanmean(activity))
    return float(np.nanmedian(np.abs(activity - level))) > BURSTS * level


def _sharpened(begin_ns: int, table: Samples, at: IntArray, means: FloatArray, found: _Rows) -> int:
    """
    *begin_ns*, moved into the row of several seconds before it, if the change happened in there.

    Such a row's level lies between those before and after, by the share of it that lies after.
    """
    row = int(np.searchsorted(table.start_ns, begin_ns - 1, "right")) - 1
    if row < 1 or found.first < 1:
        return begin_ns
    start, end = int(table.start_ns[row]), int(table.end_ns[row])
    if end - start < SMEARED_NS or end < begin_ns - BIN_NS:
        return begin_ns
    inside = (at >= start) & (at + BIN_NS <= end)
    before = at < start - BIN_NS
    if not inside.any() or not before.any():
        return begin_ns
    blurred, old = median(means[inside]), median(means[before][-RUN:])
    new = median(means[found.first : found.last])
    channel = int(np.nanargmax(np.abs(new - old))) if np.isfinite(new - old).any() else 0
    whole = float(new[channel] - old[channel])
    if not np.isfinite(whole) or abs(whole) < BAND:
        return begin_ns
    share = float(np.clip((blurred[channel] - old[channel]) / whole, 0.0, 1.0))
    return int(end - share * (end - start))


def _stable(means: FloatArray) -> tuple[int, int] | None:
    """First and last-plus-one row of the stable stretch of *means* (m, channels), or None."""
    rows = len(means)
    if rows < FEWEST:
        return None
    # The last seconds may be the shutdown, and must not widen the band they are held against.
    middle = slice(rows // 2, rows - RUN if rows >= 2 * FEWEST else rows)
    means = means[:, np.isfinite(means[middle]).any(axis=0)]
    reference = means[middle]
    low, high = np.nanquantile(reference, [0.05, 0.95], axis=0)
    room = np.maximum(BAND, BAND_RELATIVE * np.abs(high))
    inside = np.all(np.isnan(means) | ((means >= low - room) & (means <= high + room)), axis=1)
    last = rows
    while last > rows // 2 and not inside[last - 1]:
        last -= 1
    for first in range(last - FEWEST + 1):
        if inside[first : first + RUN].all():
            return first, last
    return None


def _change(means: FloatArray) -> float:
    """How much the mean of the second half differs from the first, at most over channels, as a share."""
    half = len(means) // 2
    return 0.0 if half < 2 else _difference(means[:half], means[half:])


def _difference(one: FloatArray, other: FloatArray) -> float:
    known = np.isfinite(one).any(axis=0) & np.isfinite(other).any(axis=0)
    if not known.any():
        return 0.0
    before, after = np.nanmean(one[:, known], axis=0), np.nanmean(other[:, known], axis=0)
    # A channel that hardly moves the whole may double without meaning anything.
    scale = np.maximum(np.maximum(before, after), 0.2)
    return float(np.max(np.abs(after - before) / scale))
