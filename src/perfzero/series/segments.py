"""
The phases of a recording: which stretches are level, and which of them are alike.

Model: a series of means, one row a second, is cut at its change points; two pieces are alike if no
channel's median differs by more than `BAND` of full scale, or by `BAND_RELATIVE` of the level where
that is more. Labels go to the longest pieces first, and neighbours with one label become one. So
training and evaluation that take turns give two labels, however often they do, and noise that
remembers itself gives one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np

from perfzero.counters import BY_NAME
from perfzero.limits import CHOICE, Limit
from perfzero.series.change_points import change_points
from perfzero.values import FloatArray, IntArray

BAND: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""How far apart like levels may lie: in shares of time, or of the level where that is more."""

BAND_RELATIVE = 0.10

NOISE: Annotated[float, Limit("ratio", CHOICE)] = 0.005
"""Half a point in a hundred is the least that counts as noise of a share of time: GPM shows that much."""

NOTICEABLE = {"pcie_rx_bytes": 2e9, "dram_read_bytes": 2e10}
"""
Bytes per second of which a change can be felt: a thirtieth of a PCIe 5 link, and of a small GPU's memory.

Below, a rate may double and mean nothing: launching tiny kernels takes 130 MB/s of the link (H200).
"""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows [first, last) of a table of means that lie about one level; like pieces share a label."""

    first: int
    last: int
    label: int

    def __len__(self) -> int:
        return self.last - self.first


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """
    One phase of a recording, [start_ns, end_ns).

    `levels`: the mean of each channel, amounts as rates per second, NaN where nothing was measured.
    `label`: like segments share it; labels count up from 0 in order of appearance.
    """

    start_ns: int
    end_ns: int
    levels: Mapping[str, float]
    label: int


def segments(at: IntArray, means: FloatArray, names: tuple[str, ...], *, bin_ns: int) -> tuple[Segment, ...]:
    """
    The phases in *means* (m, channels), a row each for [at, at + bin_ns), of the channels *names*.

    `perfzero.series.steady.bin_means` makes both from samples. Where rows are missing a phase lasts
    until the next row, as nothing speaks against it.
    """
    pieces = level_pieces(comparable(means, names))
    starts = [int(at[p.first]) for p in pieces]
    ends = [*starts[1:], int(at[-1]) + bin_ns] if pieces else []
    return tuple(
        Segment(start, end, dict(zip(names, _mean(means[p.first : p.last]), strict=True)), p.label)
        for p, start, end in zip(pieces, starts, ends, strict=True)
    )


def _mean(rows: FloatArray) -> list[float]:
    known = np.isfinite(rows)
    count = known.sum(axis=0)
    total = np.where(known, rows, 0.0).sum(axis=0)
    return [float(t / c) if c else float("nan") for t, c in zip(total, count, strict=True)]


def comparable(means: FloatArray, names: tuple[str, ...]) -> FloatArray:
    """*means* with rates as shares of the largest, or of what is `NOTICEABLE`: all run from 0 to 1."""
    scaled = means.copy()
    for column, name in enumerate(names):
        known = means[:, column][np.isfinite(means[:, column])]
        if BY_NAME[name].kind == "total" and len(known) and known.max() > 0:
            scaled[:, column] /= max(float(known.max()), NOTICEABLE.get(name, 0.0))
    return scaled


def level_pieces(scaled: FloatArray) -> list[Piece]:
    """The pieces of *scaled* (m, channels), whose channels run from 0 to 1; none of an empty table."""
    if len(scaled) == 0:
        return []
    edges = [0, *change_points(scaled, floor=NOISE), len(scaled)]
    bounds = list(pairwise(edges))
    levels = [median(scaled[a:b]) for a, b in bounds]
    named: list[int] = [-1] * len(bounds)
    references: list[FloatArray] = []
    for i in sorted(range(len(bounds)), key=lambda i: bounds[i][0] - bounds[i][1]):
        like = (k for k, r in enumerate(references) if alike(levels[i], r))
        named[i] = next(like, len(references))
        if named[i] == len(references):
            references.append(levels[i])
    order = {label: k for k, label in enumerate(dict.fromkeys(named))}
    pieces: list[Piece] = []
    for (first, last), label in zip(bounds, named, strict=True):
        if pieces and pieces[-1].label == order[label]:
            pieces[-1] = Piece(pieces[-1].first, last, order[label])
        else:
            pieces.append(Piece(first, last, order[label]))
    return pieces


def median(rows: FloatArray) -> FloatArray:
    """The median of each channel over *rows*, NaN where none is known."""
    known = np.isfinite(rows).any(axis=0)
    level = np.full(rows.shape[1], np.nan)
    level[known] = np.nanmedian(rows[:, known], axis=0)
    return level


def alike(one: FloatArray, other: FloatArray) -> bool:
    """Whether two levels are one and the same, channel by channel; what is missing does not differ."""
    room = np.maximum(BAND, BAND_RELATIVE * np.fmax(np.abs(one), np.abs(other)))
    apart = np.abs(one - other)
    return bool(np.all(np.isnan(apart) | (apart <= room)))
