"""
The work done between onsets: memory traffic, tensor cycles, launches; not time.

Counted in beats there is no jitter: if the work between onsets repeats every k beats, as an optimizer
after k micro-steps makes it, the step is k beats. Work that is uneven and does not repeat says that a beat
may be a part of a step. The model of which this is a part is in `perfzero.series.steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from perfzero.limits import CHOICE, H200, SIMULATED, Limit
from perfzero.series.anchors import Stretch
from perfzero.series.rhythms import FEWEST, Rhythm
from perfzero.values import FloatArray

MOST_MICRO = 64
"""Micro-steps per step looked for."""

GROUPS = 5
"""So many steps of k beats show that work repeats every k beats."""

REPEATS: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Least correlation of the work per beat with that k beats on."""

STANDS_OUT: Annotated[float, Limit("ratio", CHOICE)] = 0.25
"""So much more than with k - 1 and k + 1 beats on."""

MIXED: Annotated[float, Limit("ratio", SIMULATED)] = 0.25
"""
Beats whose work is of so varied proportions in two channels are not of one kind. Of 60 beats of forward and
backward passes in turns, batches of random length, it was 0.36 and more with a fifth of the samples lost.
"""

UNEVEN: Annotated[float, Limit("ratio", CHOICE)] = 0.15
"""Work per beat that differs by this share of its median is other work; edges put it off by less."""

SEEN: Annotated[float, Limit("ratio", CHOICE)] = 0.7
"""
Share of the samples of a beat that must be there for its work to count. With a fifth lost one by one, nearly
every beat has as many; a hole of its own length hides an onset, so that two beats look like one.
"""

ODD: Annotated[float, Limit("ratio", CHOICE)] = 0.02
"""Share of beats with other work that is forgiven: an evaluation or a checkpoint now and then."""

ASIDE: Annotated[float, Limit("count", CHOICE)] = 1.5
"""So many samples from an onset, an edge is in another sample than a short kernel that began there."""

NO_WORK: Annotated[float, Limit("ratio", H200)] = 0.1
"""
A sample this much less active than the most active one holds no work, be it what noise of 8 % leaves in it.
Tiny kernels leave 0.2 to 0.3 (an unfused optimizer on an H200), and they are work.
"""

WORK = ("dram_write_bytes", "dram_read_bytes", "tensor_active", "sm_active", "launches", "nvlink_rx_bytes")
"""Channels that add up to work. Time active is none: a kernel may wait."""


def lag_of(on: FloatArray, starts: FloatArray) -> float:
    """By how much the onsets *on* lag behind the nearest of *starts*, in samples."""
    if not len(on) or not len(starts):
        return 0.0
    after = np.clip(np.searchsorted(on, starts), 0, len(on) - 1)
    before = np.maximum(after - 1, 0)
    ahead, behind = on[after] - starts, on[before] - starts
    return float(np.median(np.where(np.abs(ahead) <= np.abs(behind), ahead, behind)))


def done_by(part: Stretch, *, only: str | None = None, rests: bool = False) -> list[FloatArray]:
    """
    Work done in *part* until the start of each sample and until its end (rows + 1,), per channel.

    With *rests*, together with what the counters read where nothing runs.
    """
    names = WORK if only is None else (only,)
    columns = [part.columns.get(name, np.zeros(part.rows)) for name in names if only or name in part.columns]
    active = part.columns.get("gr_active")
    if not rests and active is not None and np.isfinite(active).any():
        # Whatever a counter reads while nothing runs is no work.
        rest = active < NO_WORK * float(np.nanmax(active))
        columns = [np.where(rest, 0.0, column) for column in columns]
    return [summed(column) for column in columns]


def summed(column: FloatArray) -> FloatArray:
    """The sum of *column* (n,) until the start of each sample and until the end of the last: (n + 1,)."""
    known = np.isfinite(column)
    if not known.any():
        return np.zeros(len(column) + 1)
    # A lost sample is taken to be like its neighbours, for the sum over a step only.
    filled = np.interp(np.arange(len(column)), np.flatnonzero(known), column[known])
    return np.asarray(np.r_[0.0, np.cumsum(filled)], np.float64)


def work_between(onsets: FloatArray, done: Sequence[FloatArray]) -> FloatArray:
    """
    Work between neighbouring *onsets* (m,) of one stretch, per channel: shape (m - 1, channels).

    *done*: what `done_by` makes of the stretch; many trains are tried on one.
    """
    if len(onsets) < 2 or not done:
        return np.zeros((max(len(onsets) - 1, 0), len(done)))
    grid = np.arange(float(len(done[0])))
    return np.column_stack([np.diff(np.interp(onsets, grid, summed)) for summed in done])


def works_of(rhythm: Rhythm, parts: tuple[Stretch, ...]) -> list[FloatArray]:
    """
    Work in each interval of *rhythm*; from a little before, at, or after its onsets, where it is most even.

    Where in a sample its work was done is not known. So an edge in a kernel shorter than a sample gives one
    step too much of it and another too little; beside it does not. No edge makes unequal work even.
    """
    found: list[tuple[float, list[FloatArray]]] = []
    done = [done_by(part) for part in parts]
    for aside in (0.0, -ASIDE, ASIDE):
        work = [work_between(on + aside, own) for on, own in zip(rhythm.train.onsets, done, strict=True)]
        relative, _ = centred(work)
        joined = np.concatenate(relative)
        found.append((float(np.mean(np.abs(joined))) if joined.size else 0.0, work))
    return min(found, key=lambda f: f[0])[1]


def centred(work: Sequence[FloatArray], *, clipped: bool = True) -> tuple[list[FloatArray], FloatArray]:
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


def counted(beat: Rhythm, work: Sequence[FloatArray], parts: Sequence[Stretch]) -> list[FloatArray]:
    """
    Relative work of each beat (m, channels) of each stretch; NaN for the beats that were not seen.

    A long interval of which samples are missing is as many beats as fit into it: what repeats every eight
    beats would lose count in each hole. Where the count was lost, the step does not begin for sure, so this
    raises a doubt and no more. A long interval that was seen is one beat, and a stall.
    """
    out: list[FloatArray] = []
    for on, rows, part in zip(beat.train.onsets, centred(work)[0], parts, strict=True):
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


def turns_of(relative: Sequence[FloatArray]) -> int | None:
    """After how many beats their *relative* work (m, channels) repeats itself; None when all are alike."""
    joined = np.concatenate(relative)
    joined = joined[np.isfinite(joined).all(axis=1)]
    best: tuple[int, float] | None = None
    if not len(joined):
        return None
    rows = [r - np.mean(joined, axis=0) for r in relative]
    spread = np.mean((joined - np.mean(joined, axis=0)) ** 2, axis=0)
    lags = min(MOST_MICRO, len(joined) // GROUPS) + 2
    seen = [np.isfinite(row).all(axis=1, keepdims=True).astype(np.float64) for row in rows]
    pairs = np.sum([_products(own, lags) for own in seen], axis=0)
    alike = np.full((lags, len(spread)), np.nan)
    products = np.sum([_products(np.nan_to_num(row), lags) for row in rows], axis=0)
    np.divide(products, pairs * spread, out=alike, where=pairs * spread > 0)
    for channel in np.flatnonzero(spread > 0):
        own = alike[:, channel]
        beside = np.fmax(np.fmax(own[1:-2], own[3:]), -1.0)
        stands_out = (own[2:-1] >= REPEATS) & (own[2:-1] >= beside + STANDS_OUT)
        stands_out &= own[2:-1] > 4.0 / np.sqrt(np.maximum(pairs[2:-1, 0], 1.0))
        if stands_out.any():
            k = int(np.argmax(stands_out)) + 2
            swings = _swing([row[:, channel] for row in rows], k) >= UNEVEN
            if swings and (best is None or own[k] > best[1] + 0.1):
                best = (k, float(own[k]))
    return None if best is None else best[0]


def _products(rows: FloatArray, lags: int) -> FloatArray:
    """The sum of the products of *rows* (m, channels) and those 0, 1, ... rows on: shape (lags, channels)."""
    padded = np.concatenate([rows, np.zeros((lags, rows.shape[1]))])
    later = np.lib.stride_tricks.sliding_window_view(padded, lags, axis=0)[: len(rows)]
    return np.asarray(np.einsum("mc,mck->kc", rows, later), np.float64)


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


def uneven(work: Sequence[FloatArray]) -> bool:
    """
    Whether more than a few beats did other work than most.

    More of everything is no other work: the step was longer, or an onset was missed. Less of
    everything neither: an onset too many. Other work changes the proportions.
    """
    relative, _ = centred(work, clipped=False)
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


def takes_turns(beat: Rhythm, parts: tuple[Stretch, ...]) -> bool:
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


def amounts(work: Sequence[FloatArray]) -> FloatArray:
    """The amount of work of each beat (n,) relative to the median one; empty where none was counted."""
    relative, _ = centred(work, clipped=False)
    joined = np.concatenate(relative)
    return np.median(joined, axis=1) if joined.shape[1] else np.empty(0)
