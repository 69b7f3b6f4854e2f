"""
Counters in the breakdown: what each of its rows read, wrote and kept busy, with how sure that is.

Samples are brought to the trace's kernels on one clock (`clock.py`), each quantity is shared out to them on
its own (`deconvolve.py`), and a row gets the sum of its kernels. A ratio is made of sums: hits over hits and
misses, busy time over time. So rows that are put together have the ratio of the whole.

A level, such as tensor_active, becomes an amount by the length of the sample: ns of a busy GPU. Divided by
the time of the row's kernels it is a level again. Where kernels of several streams run at once, the sum of
their amounts is what was counted, so each of them gets its part of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from perfzero.attribute.clock import REACH_NS, Clock, find_clock, find_lag
from perfzero.attribute.deconvolve import (
    INTERVAL,
    Shared,
    at_other_clocks,
    is_told,
    sets_from,
    share_out,
    told_together,
)
from perfzero.attribute.mixing import Kernels, Mixing, is_solvable, mix
from perfzero.limits import CHOICE, H200_LOOKS, SIMULATED, Limit
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, IntArray, Samples
from perfzero.words.said import say

TOTALS = ("dram_read_bytes", "dram_write_bytes")
"""Quantities of which a row has an amount and a share."""

LEVELS = ("sm_active", "tensor_active", "fma_active", "sm_issue")
"""Quantities of which a row has the mean over its time."""

SECTORS, HITS, HIT_RATIO = "l2_sectors", "l2_hit_sectors", "l2_hit"
MISSES = "l2_miss_sectors"
"""Not a counter: sectors less hits. Both parts are shared out, so a ratio of hits is never above 1."""

TELL_TIME = ("dram_read_bytes", "sm_issue", "tensor_active")
"""What the clock is found by: things that happen while a kernel runs, and differ from kernel to kernel."""

LEVEL_WITHIN: Annotated[float, Limit("ratio", CHOICE)] = 0.1
"""A level is told if its interval of 95 % reaches at most this far to either side."""

OVERLAP: Annotated[float, Limit("ratio", CHOICE)] = 0.1
"""Of the length of a sample that may lie in the one before; more of it is a sample that went wrong."""

OTHER_CLOCKS: Annotated[tuple[float, ...], Limit("ratio", SIMULATED)] = (
    -2.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0,
)  # fmt: skip
"""
Of the reach of the clock: where it is not known, amounts are as unsure as they differ at all of these. They
go twice as far as the reach, for a clock beyond it is not known either. Of 22 simulated kinds of kernel in
samples of 50 us that are off by 100 us one is told, rightly; with half as far four are, three wrongly.
"""

LEAST_SEEN: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""
Of the kernels' time that samples have to cover. What lies outside of them is taken to be like what lies in
them; where that is the larger part, nothing is told.
"""

NEARLY_ALL: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.75
"""
Where samples cover less than this of the kernels' time, that is told. A real look of four steps had 79 %, for
sampling began within it, and was right all the same: each kernel was seen in some step.
"""

MOST_PUT_TOGETHER = 200
"""Rows that are held against each other where they are not known for themselves, the heaviest ones."""


TOO_MANY = say("layers.many_at_once")


@dataclass(frozen=True, slots=True)
class Figure:
    """
    An amount or a ratio of a row, between `low` and `high` with 95 %.

    `value` is NaN where samples do not tell it. Then `with_rows` may name rows with which it is told, and
    `together` is the amount of all of them. `share` is of all kernels, NaN for a ratio.
    """

    value: float
    low: float
    high: float
    share: float = math.nan
    with_rows: tuple[str, ...] = ()
    together: float = math.nan


@dataclass(frozen=True, slots=True)
class Counted:
    """What counters tell of a row; None where there was no such counter."""

    dram_read_bytes: Figure | None = None
    dram_write_bytes: Figure | None = None
    sm_active: Figure | None = None
    tensor_active: Figure | None = None
    fma_active: Figure | None = None
    sm_issue: Figure | None = None
    l2_hit: Figure | None = None


@dataclass(frozen=True, slots=True)
class Quantity:
    """
    How a quantity was shared out: what the samples in the trace `counted`, and what of it no kernel takes.

    `unattributed_share` is the latter as a share. `misfit`: the squared residual over what is expected.
    `lag_ns`: by how much it comes later than the kernels do in the mean, or earlier.
    """

    name: str
    counted: float
    unattributed: float
    unattributed_share: float
    misfit: float
    lag_ns: float


@dataclass(frozen=True, slots=True)
class Sampled:
    """The samples in a trace: how many, how long (median), what share of the kernels' time they cover."""

    samples: int
    period_ns: float
    seen: float
    clock: Clock
    quantities: tuple[Quantity, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Counting:
    """
    Quantities shared out to the kernels of a trace, of which those in the rows `kept` are told of.

    `doubts` say why there are none, or what they do not rest on.
    """

    sampled: Sampled
    shared: Mapping[str, Shared]
    length_ns: FloatArray
    kept: IntArray
    doubts: tuple[str, ...] = ()

    def told(self, rows: Sequence[IntArray], names: Sequence[str] = ()) -> list[Counted]:
        """
        What is known of sets of work, each by its rows.

        With *names*, sets do not overlap, and one that is not told for itself names those it is told with.
        """
        sets = sets_from([self.kept[r] for r in rows], len(self.length_ns))
        time = np.asarray(sets @ self.length_ns, np.float64)
        found: dict[str, list[Figure]] = {}
        for name in TOTALS:
            if (of := self.shared.get(name)) is not None:
                total = float(of.amounts[self.kept].sum())
                found[name] = _amounts(np.asarray(sets @ of.amounts), of.errors(sets), total)
                if names:
                    found[name] = _put_together(found[name], sets, of, total, names)
        for name in LEVELS:
            if (of := self.shared.get(name)) is not None:
                found[name] = _ratios(np.asarray(sets @ of.amounts), time, of.errors(sets))
        hits, misses = self.shared.get(HITS), self.shared.get(MISSES)
        if hits is not None and misses is not None:
            found[HIT_RATIO] = _parts(
                np.asarray(sets @ hits.amounts),
                np.asarray(sets @ misses.amounts),
                hits.errors(sets),
                misses.errors(sets),
            )
        return [
            Counted(**{name: figures[number] for name, figures in found.items()})
            for number in range(len(rows))
        ]


def count(kernels: Kernels, samples: Samples, kept: IntArray) -> Counting | None:
    """
    The counters of *samples* shared out to *kernels*, to tell of those in the rows *kept*.

    None where no sample lies in the trace.
    """
    samples = in_order(samples)
    amounts = _amounts_in(samples)
    if not (len(kernels) and amounts):
        return None
    if not is_solvable(samples.start_ns, samples.end_ns, kernels):
        inside = _inside(samples, kernels)
        if not inside.any():
            return None
        return Counting(_sampled(samples.where(inside)), {}, kernels.length_ns, kept, (TOO_MANY,))
    telling = [amounts[name] for name in TELL_TIME if name in amounts]
    clock = find_clock(samples.start_ns, samples.end_ns, telling, kernels)
    moved = clock.applied(kernels)
    inside = _inside(samples, moved)
    here = samples.where(inside)
    if not len(here):
        return None

    def mixed(by: float) -> Mixing:
        return mix(here.start_ns, here.end_ns, moved.moved(np.full(len(moved), round(by), np.int64)))

    shared, lags = {}, {}
    others = [] if clock.known else [mixed(part * REACH_NS) for part in OTHER_CLOCKS]
    for name, column in amounts.items():
        lag = find_lag(here.start_ns, here.end_ns, column[inside], moved) if clock.known else 0.0
        mixing = mixed(lag)
        of = share_out(column[inside], mixing)
        if of is not None:
            of = at_other_clocks(of, column[inside], mixing, others) if others else of
            shared[name], lags[name] = of, lag
    if not shared:
        return None
    seen = max(of.seen for of in shared.values())
    shared = {name: of for name, of in shared.items() if of.seen >= LEAST_SEEN}
    quantities = tuple(
        Quantity(
            name,
            of.counted,
            of.unattributed,
            of.unattributed / of.counted if of.counted else math.nan,
            math.nan if of.fit is None else of.fit.cost,
            lags[name],
        )
        for name, of in shared.items()
    )
    sampled = replace(_sampled(here), seen=seen, clock=clock, quantities=quantities)
    return Counting(sampled, shared, moved.length_ns, kept, tuple(_doubts(sampled)))


def _inside(samples: Samples, kernels: Kernels) -> BoolArray:
    """Which samples lie in the time of *kernels*."""
    found: BoolArray = (samples.start_ns >= kernels.start_ns.min()) & (samples.end_ns <= kernels.end_ns.max())
    return found


def _sampled(here: Samples) -> Sampled:
    """What is known of samples before they are shared out."""
    middle = int(here.start_ns[0] // 2 + here.end_ns[-1] // 2)
    return Sampled(
        samples=len(here),
        period_ns=float(np.median(here.end_ns - here.start_ns)),
        seen=math.nan,
        clock=Clock(middle),
        quantities=(),
    )


def _doubts(sampled: Sampled) -> Iterable[str]:
    if sampled.seen >= NEARLY_ALL:
        return
    covered = say("layers.seen", share=f"{sampled.seen:.0%}").replace("%", " %")
    if sampled.seen < LEAST_SEEN:
        yield say("layers.too_little", seen=covered)
    else:
        yield say("layers.like_it", seen=covered)


def in_order(samples: Samples) -> Samples:
    """*samples* without those that have no length or lie in others, so that no two overlap."""
    starts, ends = samples.start_ns.tolist(), samples.end_ns.tolist()
    begins, fits = samples.start_ns.copy(), np.zeros(len(samples), bool)
    before = starts[0] if starts else 0
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if end > start and start >= before - OVERLAP * (end - start):
            begins[row] = max(start, before)
            fits[row], before = True, end
    kept = samples.where(fits)
    return Samples(begins[fits], kept.end_ns, kept.columns)


def _amounts_in(samples: Samples) -> dict[str, FloatArray]:
    """What is shared out, each as an amount per sample."""
    length = (samples.end_ns - samples.start_ns).astype(np.float64)
    found = {name: samples.column(name) for name in TOTALS}
    found |= {name: samples.column(name) * length for name in LEVELS}
    sectors, hits = samples.column(SECTORS), samples.column(HITS)
    if not samples.has(HITS):
        hits = samples.column(HIT_RATIO) * sectors
    found |= {HITS: hits, MISSES: np.maximum(sectors - hits, 0.0)}
    return {name: column for name, column in found.items() if np.isfinite(column).any()}


def _amounts(sums: FloatArray, errors: FloatArray, total: float) -> list[Figure]:
    told = is_told(sums, errors, total)
    return [
        Figure(
            value=value if known else math.nan,
            low=max(0.0, value - INTERVAL * error),
            high=value + INTERVAL * error,
            share=value / total if known and total > 0 else math.nan,
        )
        for value, error, known in zip(sums.tolist(), errors.tolist(), told.tolist(), strict=True)
    ]


def _parts(one: FloatArray, other: FloatArray, error: FloatArray, other_error: FloatArray) -> list[Figure]:
    """The first of two parts as a ratio of their sum, with independent errors."""
    whole = one + other
    of = np.where(whole > 0, whole, 1.0)
    # The derivatives of one / (one + other) by both.
    combined = np.sqrt((other * error) ** 2 + (one * other_error) ** 2) / of
    return _ratios(one, whole, combined)


def _ratios(above: FloatArray, below: FloatArray, error: FloatArray) -> list[Figure]:
    """Ratios of amounts that are part of others, of which the first have an error; NaN without any."""
    base = np.where(below > 0, below, np.nan)
    return [
        Figure(
            value=min(1.0, value) if width <= LEVEL_WITHIN else math.nan,
            low=min(1.0, max(0.0, value - width)) if value == value else math.nan,
            high=min(1.0, value + width) if value == value else math.nan,
        )
        for value, width in zip((above / base).tolist(), (INTERVAL * error / base).tolist(), strict=True)
    ]


def _put_together(
    figures: Sequence[Figure], sets: Any, of: Shared, total: float, names: Sequence[str]
) -> list[Figure]:
    """*figures* of *sets*, of which those that are not told name the others that they are told with."""
    found = list(figures)
    lacking = [number for number, figure in enumerate(found) if math.isnan(figure.value)]
    lacking = sorted(lacking, key=lambda number: -found[number].high)[:MOST_PUT_TOGETHER]
    if len(lacking) < 2:
        return found
    sums, covariance = np.asarray(sets[lacking] @ of.amounts), of.covariance(sets[lacking])
    for group in told_together(sums, covariance, total):
        together = float(sums[group].sum())
        error = math.sqrt(max(0.0, float(covariance[np.ix_(group, group)].sum())))
        if not is_told(np.array([together]), np.array([error]), total)[0]:
            continue
        for number in group:
            others = tuple(names[lacking[other]] for other in group if other != number)
            found[lacking[number]] = replace(found[lacking[number]], with_rows=others, together=together)
    return found
