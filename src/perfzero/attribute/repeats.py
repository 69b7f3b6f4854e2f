"""
Steps of a trace that marks none, as one of CUPTI's records alone: the kernels that come again and again.

A loop launches the same kernels in each turn. On the stream that works most, the names of what runs there are
a sequence; the share of places at which it is the same so many places later tells how well it repeats with
that lag. Of names in any order as many would be the same by chance as the sum of their squared shares, so
what counts is the part of the rest (Cohen's kappa), and that the same would hardly be seen by chance. A step
is the smallest lag that repeats as well as any, or nearly: its multiples do so too. Blocks that are alike
repeat with a smaller lag within a step, but not from the last one to the first of the next step. (A line of a
log after each ten turns makes ten turns a step, where two such are seen: nothing tells them from blocks.)

The pattern is taken where the sequence repeats without a flaw. A loop has no first kernel: the pattern begins
behind the longest pause that the stream makes twice, for there the host has come to an end of something.
Where it stands whole there is a step, from its first kernel on until the next one begins, for all streams;
what else runs, such as what is done for a line of a log, belongs to none.

Nothing was launched as far as the trace knows. So each piece of work stands for its own launch here: what
asks when something was launched gets when it ran.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

import numpy as np

from perfzero.limits import BY_DEFINITION, CHOICE, SIMULATED, Limit
from perfzero.traces import WORK_KINDS, Launches, Spans, Trace, Work
from perfzero.values import IntArray

NEARLY: Annotated[float, Limit("ratio", SIMULATED)] = 0.02
"""
So much less well than the best lag a smaller one may repeat. That of a block of six kernels repeats less well
than the step by 0.12 where 12 blocks are in it, by 0.05 where 30 are, and by 0.04 where 40 are.
"""

REPEATS: Annotated[float, Limit("ratio", CHOICE)] = 0.8
"""Kappa of a sequence that repeats: a step in five may have something more, anywhere."""

MOST = 20_000
"""Pieces of work of which it is taken, so a step has 10,000 at most: half a second of CPU."""

BY_CHANCE: Annotated[float, Limit("ratio", CHOICE)] = 1e-3
"""How likely a sequence of names in any order may be to repeat so well with one of its lags."""

FEWEST: Annotated[int, Limit("count", BY_DEFINITION)] = 2
"""Steps that have to be seen whole: of one nobody knows that it comes again."""


def with_steps(trace: Trace) -> Trace:
    """*trace* with the steps that its work tells of, where it knows of nothing else but the work."""
    work, host = trace.work, (trace.launches, trace.steps, trace.operators, trace.module_calls)
    more = (trace.optimizer_calls, trace.replays, trace.frames)
    if any(len(known) for known in (*host, *more)) or not len(work):
        return trace
    begins, ends = _steps(work)
    number = np.arange(1, len(work) + 1)
    thread = np.zeros(len(work), np.int64)
    return replace(
        trace,
        work=replace(work, correlation=number),
        launches=Launches(thread, work.start_ns, work.end_ns, number, work.replay),
        steps=Spans(np.zeros(len(begins), np.int64), begins, ends, np.arange(len(begins))),
    )


def _steps(work: Work) -> tuple[IntArray, IntArray]:
    """When each step begins and ends; none where nothing repeats."""
    rows = _busiest(work)
    name = work.name[rows] * len(WORK_KINDS) + work.kind[rows]
    pattern = find_pattern(name[:MOST], _pauses(work, rows)[:MOST])
    at = _occurrences(name, pattern) if len(pattern) else []
    if len(at) < FEWEST:
        nothing: IntArray = np.empty(0, np.int64)
        return nothing, nothing
    first = np.array(at, np.int64)
    begins, ends = work.start_ns[rows[first]], work.end_ns[rows[first + len(pattern) - 1]]
    follows = first[:-1] + len(pattern) == first[1:]
    ends[:-1] = np.where(follows, begins[1:], np.minimum(ends[:-1], begins[1:]))
    return begins, ends


def _busiest(work: Work) -> IntArray:
    """The rows of the stream, of all devices, that works the longest, in the order of their start."""
    streams, which = np.unique(np.stack((work.device, work.stream)), axis=1, return_inverse=True)
    time = np.zeros(streams.shape[1])
    np.add.at(time, which.ravel(), work.end_ns - work.start_ns)
    rows: IntArray = np.flatnonzero(which.ravel() == np.argmax(time))
    return rows


def _pauses(work: Work, rows: IntArray) -> IntArray:
    """How long the stream rests before each of its *rows*; for ever before the first, as far as is known."""
    pauses = np.full(len(rows), np.iinfo(np.int64).max)
    ended = np.maximum.accumulate(work.end_ns[rows])
    pauses[1:] = np.maximum(0, work.start_ns[rows][1:] - ended[:-1])
    return pauses


def find_lag(name: IntArray) -> int:
    """After how many places the sequence *name* comes again; 0 where it does not."""
    if len(name) < FEWEST:
        return 0
    different, name = np.unique(name, return_inverse=True)
    share = np.bincount(name) / len(name)
    chance = float(share @ share)
    if len(different) == 1:  # over and over
        return 1
    small = name.astype(np.min_scalar_type(len(different)))
    kappa = np.full(len(name) // FEWEST + 1, -1.0)
    for lag in range(1, len(kappa)):
        same = np.count_nonzero(small[lag:] == small[:-lag]) / (len(small) - lag)
        kappa[lag] = (same - chance) / (1 - chance)
    best = float(kappa.max())
    lag = int(np.argmax(kappa >= best - NEARLY))
    equal = (float(kappa[lag]) * (1 - chance) + chance) * (len(small) - lag)
    by_chance = equal * math.log(chance) + math.log(len(kappa))
    return lag if best >= REPEATS and by_chance < math.log(BY_CHANCE) else 0


def find_pattern(name: IntArray, pause: IntArray) -> IntArray:
    """What comes again in the sequence *name*, from behind the longest of its *pause*s on; empty without."""
    lag = find_lag(name)
    nothing: IntArray = name[:0]
    if not lag:
        return nothing
    same = name[lag:] == name[:-lag]
    # How many places from each one on are the same: where there are as many as the lag, it repeats whole.
    flaws = np.flatnonzero(np.concatenate((~same, [True])))
    place = np.arange(len(same))
    flawless = flaws[np.searchsorted(flaws, place)] - place
    whole = np.flatnonzero(flawless >= lag)
    if not len(whole):
        return nothing
    here = int(whole[0])
    twice = np.minimum(pause[here : here + lag], pause[here + lag : here + 2 * lag])
    begin = here + int(np.argmax(twice))
    pattern: IntArray = name[begin : begin + lag]
    return pattern


def _occurrences(name: IntArray, pattern: IntArray) -> list[int]:
    """Where *pattern* stands in *name*, none of them within another."""
    long = len(pattern)
    found: list[int] = []
    for at in np.flatnonzero(name[: len(name) - long + 1] == pattern[0]).tolist():
        free = not found or at >= found[-1] + long
        if free and np.array_equal(name[at : at + long], pattern):
            found.append(at)
    return found
