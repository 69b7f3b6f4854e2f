"""
The course of a beat: how its work lies in it, by the mean of many; and whether faster beats could make it.

Model: fast beats that are all alike do the same work in the same time, so that the work done since an onset
grows in proportion to time, but for what happens within one of them. The *course* is what it is ahead of
that proportion. Sampling adds the edges: where in a sample its work was done is not known, so a sum over
samples is off by what one of them holds at either end, and by no more, however slow the pattern that
sampling makes. A step whose forward pass, backward pass and optimizer work at different rates is ahead and
behind by several samples.

Two things could be taken for such a step, and each has a test: a number of even beats that fall on the
samples alike after so many (`not_of_even_beats`), and beats of up to two kinds in turn, each of them alike,
with some other work after so many, as when a program trains, evaluates and writes a checkpoint (`bends`).

A step of two passes through layers that are all alike, and of an optimizer, looks the same to the counters
as those: if it is a whole number of samples, it is refused. One whose layers differ from stage to stage, as
those of a ResNet, is told. So are four kinds of fast beats in turn, which counters cannot tell from stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from perfzero.limits import CHOICE, SIMULATED, Limit
from perfzero.series.anchors import Stretch
from perfzero.series.rhythms import ALIKE, Rhythm
from perfzero.series.work import WORK, summed
from perfzero.values import FloatArray

PLACES = 4
"""Places in a course for each sample: edges of samples fall on any of them, beat after beat."""

EDGES: Annotated[float, Limit("count", SIMULATED)] = 2.0
"""
Samples of the busiest kind by which two edges can put a sum off. Even beats of 0.5 to 26 samples reach 0.9
(3000 simulated), the two halves of a ResNet's step of 52 samples 2.9 (H200).
"""

BEND: Annotated[float, Limit("count", SIMULATED)] = 0.75
"""
Samples by which a course bends beside lines. A mean over one of the fast beats has hardly any edges left: up
to three kinds of them in turn, of lengths that differ by 40 %, reach 0.68 (240 simulated programs), a
ResNet's step 0.81 (H200, two recordings).
"""

PIECES = 32
"""So many in a beat; lines begin and end between them. With 24 to 52 a ResNet's step has 0.79 to 0.87."""

SPARED: Annotated[float, Limit("ratio", CHOICE)] = 0.25
"""Share of a beat in which other work may be done now and then, wherever it lies."""

MOST_BEATS = 61
"""So many even beats in one and more are looked for as this many: the course would hardly change in each."""

AGREE: Annotated[int, Limit("count", CHOICE)] = 2
"""Counters that have to show it."""


def has_own_course(beat: Rhythm, faster_s: Sequence[float], parts: Sequence[Stretch]) -> bool:
    """Whether no *faster_s* beats in it, nor any other even ones, account for the course of *beat*."""
    course = course_of(beat, parts)
    if not len(course):
        return False
    return not_of_even_beats(course) and all(bends(course, one_s / beat.mean_s) for one_s in faster_s)


def course_of(beat: Rhythm, parts: Sequence[Stretch]) -> FloatArray:
    """
    What *beat* has done ahead of proportion at each place in it (places, channels), in busiest samples.

    The median of all its regular intervals; without any of them, no places.
    """
    pitch_s = float(np.median([part.spacing_ns for part in parts])) / 1e9
    places = round(PLACES * beat.mean_s / pitch_s)
    share = np.arange(places + 1) / places
    at: list[FloatArray] = []
    for on, part in zip(beat.train.onsets, parts, strict=True):
        gap = np.diff(on)
        regular = np.abs(gap * part.spacing_ns / 1e9 / beat.mean_s - 1.0) <= ALIKE
        at.append(on[:-1][regular, None] + gap[regular, None] * share)
    if not any(map(len, at)):
        return np.empty((0, 0))
    found = [_ahead(at, [part.columns[name] for part in parts]) for name in WORK if name in parts[0].columns]
    return np.stack(found, axis=1) if found else np.empty((0, 0))


def _ahead(at: Sequence[FloatArray], columns: Sequence[FloatArray]) -> FloatArray:
    """What was done by each place (places,) ahead of proportion, of one channel; *at* (beats, places + 1)."""
    ahead: list[FloatArray] = []
    for own, column in zip(at, columns, strict=True):
        # Also what a counter reads at rest: sums over even beats are even only if nothing is left out.
        done = np.interp(own, np.arange(len(column) + 1.0), summed(column))
        since = done - done[:, :1]
        ahead.append(since - since[:, -1:] * np.linspace(0.0, 1.0, since.shape[1]))
    top = max(float(np.nanmax(column, initial=0.0)) for column in columns)
    course = np.median(np.concatenate(ahead), axis=0)[:-1]
    return np.asarray(course / top if top > 0 else np.zeros_like(course), np.float64)


def not_of_even_beats(course: FloatArray) -> bool:
    """
    Whether no number of even beats makes *course* (places, channels): each would be ahead by as much.

    What does not repeat itself after a half, a third or a fifth does not after a sixth either.
    """
    at = np.arange(len(course)) / len(course)
    most = min(MOST_BEATS, len(course) // PLACES)
    for beats in (k for k in range(2, most + 1) if all(k % d for d in range(2, k))):
        places = -(-len(course) // beats)
        grid = np.arange(beats * places) / (beats * places)
        each = [np.interp(grid, at, one, period=1.0).reshape(beats, places) for one in course.T]
        off = [float(np.max(np.ptp(one, axis=0))) for one in each]
        if sum(one > EDGES for one in off) < AGREE:
            return False
    return True


def bends(course: FloatArray, share: float) -> bool:
    """
    Whether *course* (places, channels), by its mean over *share* of it, bends beside any three lines.

    One of them need not even be straight if it is no longer than a quarter. Even beats that are fast make one
    line, two kinds of them in turn make two, and what is done besides, now and then, the third.
    """
    count = len(course)
    width = min(max(1, round(share * count)), count)
    sums = np.cumsum(np.vstack([np.zeros(course.shape[1]), course, course, course]), axis=0)
    level = (sums[width:] - sums[:-width])[: 2 * count] / width
    pieces = max(1, min(PIECES, count // PLACES))
    at = np.rint(np.arange(2 * pieces + 1) * count / pieces).astype(np.int64)
    off = np.zeros((pieces, pieces + 1, course.shape[1]), np.bool_)
    for place in range(pieces):
        for length in range(1, pieces + 1):
            off[place, length] = _off_line(level[at[place] : at[place + length]]) > BEND
    # From each place on, three lines of all lengths that make up the whole; the third may be the one spared.
    lengths = np.arange(pieces + 1)
    first, second = np.nonzero(lengths[:, None] + lengths <= pieces)
    third = pieces - first - second
    start = np.arange(pieces)[:, None]
    bent = off[start, first] | off[(start + first) % pieces, second]
    bent |= off[(start + first + second) % pieces, third] & (third > SPARED * pieces)[:, None]
    return int(np.min(np.sum(bent, axis=2))) >= AGREE


def _off_line(level: FloatArray) -> FloatArray:
    """How far apart the values of *level* (places, channels) lie, beside the line that fits each best."""
    time = np.linspace(-1.0, 1.0, len(level))[:, None]
    slope = np.sum(time * level, axis=0) / np.sum(time**2)
    return np.asarray(np.ptp(level - time * slope, axis=0), np.float64)
