"""
Trains of onsets that are rhythms: intervals that scatter little, are many, and fill the time.

A train of onsets (`perfzero.series.anchors`) is a rhythm when its intervals scatter by less than `REGULAR`,
there are `FEWEST` of them, and they explain `EXPLAINED` of the time that was looked at. Two channels have to
agree on it. The model of which this is the second part is in `perfzero.series.steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from perfzero.limits import CHOICE, SIMULATED, Limit
from perfzero.series.anchors import Stretch, Train
from perfzero.series.quantiles import median
from perfzero.series.stats import robust_spread
from perfzero.values import FloatArray

FEWEST: Annotated[int, Limit("count", SIMULATED)] = 8
"""Intervals: with fewer, chance makes regular ones (of exponential intervals 8 in 1e4 do, simulated)."""

REGULAR: Annotated[float, Limit("ratio", CHOICE)] = 0.22
"""Relative spread of single steps: 15 % of jitter estimated from 8 intervals; uniform lengths have 0.3."""

EXPLAINED: Annotated[float, Limit("ratio", CHOICE)] = 0.70
"""Share of the time that regular intervals fill: a stall of 5 steps after every 20 leaves 0.76."""

ALIKE: Annotated[float, Limit("ratio", CHOICE)] = 0.03
"""Trains tell of the same rhythm when their periods agree to 3 %."""

OTHER: Annotated[float, Limit("ratio", CHOICE)] = 1.4
"""Rhythms nearer than this factor are one, and the less complete of them has false or missing onsets."""

IN_WINDOW: Annotated[float, Limit("count", CHOICE)] = 3.0
"""Steps that fit into a stretch: shorter stretches prefer short steps (renewal theory: by jitter²/2 here)."""

IN_BETWEEN: Annotated[float, Limit("ratio", CHOICE)] = 0.75
"""Share of the intervals between the onsets of a train that are regular, however long the others last."""


@dataclass(frozen=True, slots=True, eq=False)
class Rhythm:
    """A train whose intervals are regular: those intervals in seconds, and how regular."""

    train: Train
    steps_s: FloatArray
    mean_s: float
    jitter: float
    explained: float
    adds_work: bool = False


def regular_part_s(train: Train, parts: Sequence[Stretch]) -> float:
    """Mean of the regular ones among the intervals of *train*, if these are most of them; else 0."""
    gaps = [np.diff(on) * part.spacing_ns / 1e9 for on, part in zip(train.onsets, parts, strict=True)]
    joined = np.concatenate(gaps)
    if len(joined) < FEWEST:
        return 0.0
    middle = median(joined)
    good = joined[np.abs(joined - middle) <= REGULAR * middle]
    return float(np.mean(good)) if len(good) >= max(FEWEST, IN_BETWEEN * len(joined)) else 0.0


def rhythm_of(train: Train, parts: Sequence[Stretch]) -> Rhythm | None:
    """*train* as a rhythm, if it is one; it may be faster than steps can be."""
    gaps = [np.diff(on) * (part.spacing_ns / 1e9) for on, part in zip(train.onsets, parts, strict=True)]
    joined = np.concatenate(gaps)
    if len(joined) < FEWEST:
        return None
    middle = median(joined)
    lengths = np.array([part.length_s for part in parts])
    long = lengths >= IN_WINDOW * middle
    if not long.all():
        joined = np.concatenate([joined[:0], *(g for g, fits in zip(gaps, long, strict=True) if fits)])
        if len(joined) < FEWEST:
            return None
        middle = median(joined)
    spread = robust_spread(joined)
    if spread > REGULAR * middle:
        return None
    pitch = median(np.array([part.spacing_ns / 1e9 for part in parts]))
    fence = min(max(4.0 * spread, 0.1 * middle, 1.5 * pitch), 0.65 * middle)
    good = joined[np.abs(joined - middle) <= fence]
    mean = float(np.mean(good))
    jitter = float(np.std(good)) / mean
    looked = float(np.sum(lengths[long] - mean))
    explained = float(np.sum(good)) / looked
    if len(good) < FEWEST or jitter > REGULAR or explained < EXPLAINED:
        return None
    return Rhythm(train, good, mean, jitter, explained, train.adds_work)


def agreed(rhythms: Sequence[Rhythm]) -> list[Rhythm]:
    """
    The rhythms on which two channels agree, shortest first.

    Of the trains that agree, to a percent, on the one in the middle, the most complete and regular is
    taken: an onset that one of them missed, the others have.
    """
    found: list[Rhythm] = []
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
