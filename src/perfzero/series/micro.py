"""
Beats that differ by their place in a longer rhythm: whether its mark is the program's own, and micro-steps.

A longer rhythm is the step if the *work* of the beats in it differs by their place after its mark, and by
more than how they fall on the samples makes of beats that are alike. They are micro-steps where each step has
the same number of them, with the same matrix work. The model of which this is a part is in
`perfzero.series.steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from perfzero.limits import CHOICE, Limit
from perfzero.series.anchors import BoolArray, Stretch
from perfzero.series.hidden import FALLS_ALIKE
from perfzero.series.rhythms import Rhythm
from perfzero.series.stats import robust_spread
from perfzero.series.work import MOST_MICRO, WORK, done_by, lag_of, work_between
from perfzero.values import FloatArray, IntArray

FEWEST_OF_A_PLACE: Annotated[int, Limit("count", CHOICE)] = 4
"""Beats at the same place after a mark whose median work is compared with that at other places."""

MARKED: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""Beats with a mark differ from the others by this share of their work: a bf16 product's wave by 0.13."""

SMALLEST = 1e-12
"""What differs by less is equal."""

BEYOND_NOISE: Annotated[float, Limit("standard deviations", CHOICE)] = 3.0
"""Work at two places differs when its medians are so many median deviations apart."""

SHORTEST_MICRO_S: Annotated[float, Limit("seconds", CHOICE)] = 0.001
"""
No forward and backward pass is shorter, so no step either; what repeats faster is a kernel, or a wave of
its blocks (0.67 ms in a fp32 product), or a layer (0.16 ms): a burst shows these better than the step.
"""

SAME_NUMBER: Annotated[float, Limit("ratio", CHOICE)] = 0.6
"""Share of the steps that have the usual number of micro-steps, for there to be such a number."""

MICRO_ALIKE: Annotated[float, Limit("ratio", CHOICE)] = 0.25
"""Spread of the tensor work of micro-steps: they are one program on data of one size."""


def tells_beats_apart(whole: Rhythm, beat: Rhythm, parts: Sequence[Stretch]) -> bool:
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
    whole: Rhythm, beat: Rhythm, parts: Sequence[Stretch], *, rests: bool = False
) -> tuple[FloatArray, FloatArray, IntArray]:
    """
    The work in each beat (m, channels), that per sample, and its place after the mark of *whole* or -1.

    With *rests*, what counters read at rest is counted as well: whether a sample is at rest may depend on
    how it falls on the beats, and a sum does not.
    """
    works: list[FloatArray] = []
    rates: list[FloatArray] = []
    places: list[IntArray] = []
    for on, starts, part in zip(beat.train.onsets, whole.train.onsets, parts, strict=True):
        if len(on) < 2 or not len(starts):
            continue
        # With the marks in the middle of beats none is shared out between two.
        edges = on - lag_of(on, starts) - 0.5 * beat.mean_s * 1e9 / part.spacing_ns
        marks = np.searchsorted(edges, starts, "right") - 1
        at = np.arange(len(on) - 1)
        last = np.searchsorted(marks, at, "right") - 1
        works.append(work_between(edges, done_by(part, rests=rests)))
        rates.append(works[-1] / np.diff(edges)[:, None])
        places.append(np.where(last >= 0, at - marks[np.maximum(last, 0)], -1))
    if not works:
        return np.zeros((0, 0)), np.zeros((0, 0)), np.empty(0, np.int64)
    return np.concatenate(works), np.concatenate(rates), np.concatenate(places)


def differ_by_sampling(beat: Rhythm, whole: Rhythm, parts: Sequence[Stretch]) -> bool:
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
    _, rates, place = _by_place(whole, beat, parts, rests=True)
    kinds = _kinds(rates * beats, place)
    if len(kinds) < 2:
        return True
    swing = np.ptp([np.median(own, axis=0) for own in kinds], axis=0)
    names = [name for name in WORK if name in parts[0].columns]
    tops = [max(float(np.nanmax(part.columns[name], initial=0.0)) for part in parts) for name in names]
    # One alone is not believed: launches that seem lost are put in again, and where depends on the samples.
    return int(np.sum(swing > np.maximum(tops, SMALLEST))) < 2


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


def micro_steps(beat: Rhythm, whole: Rhythm, parts: tuple[Stretch, ...]) -> tuple[float, int] | None:
    """Length and number of the micro-steps in each step *whole*, if its beats are micro-steps; else None."""
    if beat.mean_s < SHORTEST_MICRO_S:
        return None
    counts: list[IntArray] = []
    inner: list[FloatArray] = []
    places: list[IntArray] = []
    for on, starts, part in zip(beat.train.onsets, whole.train.onsets, parts, strict=True):
        # Onsets of two trains are apart by a constant; half a beat earlier, none falls on an edge.
        lag = lag_of(on, starts)
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
    tensor = np.concatenate(
        [work_between(on, done_by(part, only="tensor_active"))[:, 0] for on, part in pairs]
    )
    same = tensor
    if not float(np.sum(tensor)) > 0:
        same = np.concatenate(
            [work_between(on, done_by(part, only="dram_read_bytes"))[:, 0] for on, part in pairs]
        )
    middle = float(np.median(same))
    if robust_spread(same) > MICRO_ALIKE * middle:
        return None
    # Forward and backward pass may do nearly as much, but in each step anew the one does more than the other.
    if number == 2 and _differs(same[:, None], np.concatenate(places)).any():
        return None
    return float(np.median(np.concatenate(inner))), number
