"""
Prefill and decode: the two states of a server of a language model, which has no steps.

Model: prefill is matrix work (tensor cores high), decode reads the weights and the cache for each
token (memory high, tensor cores low) and writes next to nothing. A sample is drawn from one of two
normal distributions, over tensor activity and memory traffic while busy; the state stays for a while:
a hidden Markov model. It is fitted by alternating between the most likely states (Viterbi, 1967) and
the distributions and transitions these imply (segmental k-means: Juang and Rabiner, 1990).

Why no threshold with hysteresis: in simulation it is as good up to 8 % of noise, but counts a third
more alternations than there are with 20 %, and twice as many with 30 %, where the model is right to
1 % or refuses (see docs/patterns.md). The model costs 5 ms for 5,000 samples.

What is not a server is refused: states that are not distinct, that hardly alternate, or whose
memory state writes as an optimizer does. Training alternates between matrices and memory, too.

Of long recordings the states are learnt from blocks spread over the whole; the sequence is that of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from perfzero.limits import CHOICE, Limit
from perfzero.series.gaps import stretch_of
from perfzero.values import FloatArray, Samples

BUSY: Annotated[float, Limit("ratio", CHOICE)] = 0.3
"""GR activity from which on a sample can be told: what little ran in an emptier one is divided by noise."""

FEWEST_SAMPLES: Annotated[int, Limit("count", CHOICE)] = 100
"""Fewer samples do not show two distributions."""

FEWEST_ALTERNATIONS: Annotated[int, Limit("count", CHOICE)] = 6
"""Changes of state: three requests. With fewer it may be the start of one job and the rest of it."""

ROUNDS = 20
"""Of fitting, at most; it settles in less than ten."""

LEARNT_FROM = 20_000
"""Samples, about, that the states are learnt from: a round takes 0.35 µs for each, and there are a dozen."""

BLOCK = 1000
"""These are taken in blocks of so many in a row: means over neighbours would blend short runs."""

STAY = 0.9
"""The first guess of how likely the next sample is in the same state; ten samples per run."""

LEAST_STAY, MOST_STAY = 0.5, 0.999
"""Limits of what is learnt: an estimate of 1 would never leave a state again."""

EACH_ITSELF = 2
"""Mark of a sample in which each state is best reached from itself, not both from one: 0 or 1 is that one."""

NARROWEST: Annotated[float, Limit("ratio", CHOICE)] = 0.03
"""Smallest standard deviation of a state: a constant signal must not make a state of every deviation."""

DISTINCT: Annotated[float, Limit("standard deviations", CHOICE)] = 3.6
"""
Distance of the two states in standard deviations (Mahalanobis, pooled). Cutting one normal distribution
in two gives halves 2.6 apart, cutting a uniform one 3.5: these are no two states.
"""

TENSOR_APART: Annotated[float, Limit("ratio", CHOICE)] = 0.15
"""By how much the tensor activity of the two differs at least: prefill reaches 0.5 and more."""

TENSOR_RATIO: Annotated[float, Limit("ratio", CHOICE)] = 2.0
"""Prefill keeps the tensor cores at least twice as busy as decode."""

MEMORY_RATIO: Annotated[float, Limit("ratio", CHOICE)] = 1.2
"""Decode moves more bytes per second than prefill, by this factor at least."""

WRITES: Annotated[float, Limit("ratio", CHOICE)] = 0.25
"""Share of writes in the traffic of decode, at most: it reads weights. An optimizer has 0.4 and more."""

LEAST_SHARE: Annotated[float, Limit("ratio", CHOICE)] = 0.02
"""Share of the busy time of the rarer state, at least."""


@dataclass(frozen=True, slots=True, eq=False)
class Serving:
    """
    How a server divides its time.

    Shares of the time looked at, adding up to 1 with `idle_share`, which is the part of samples with
    hardly any work. `alternations`: changes from one state to the other.
    """

    prefill_share: float
    decode_share: float
    idle_share: float
    alternations: int


def find_serving(samples: Samples, *, dram_roof: float = float("nan")) -> Serving | None:
    """
    Prefill and decode in *samples*; None where it is not clear that a server is at work.

    *dram_roof*: what the memory can move, bytes per second; the highest traffic seen without it.
    """
    samples = samples.where(np.isfinite(samples.column("gr_active")))
    busy = samples.column("gr_active")
    read, write = samples.column("dram_read_bytes"), samples.column("dram_write_bytes")
    tensor = samples.column("tensor_active")
    known = (busy >= BUSY) & np.isfinite(tensor) & np.isfinite(read) & np.isfinite(write)
    if np.count_nonzero(known) < FEWEST_SAMPLES:
        return None
    traffic = (read + write) / samples.duration_s
    roof = dram_roof if dram_roof > 0 else float(np.quantile(traffic[known], 0.99))
    if not roof > 0:
        return None
    values = np.column_stack([tensor, traffic / roof])[known] / busy[known, None]
    follows = _follows(samples, known)
    state = _fit(values, follows)
    if state is None:
        return None
    time = samples.duration_s
    prefill, decode = np.zeros(len(samples), np.bool_), np.zeros(len(samples), np.bool_)
    place = np.flatnonzero(known)
    prefill[place[state]], decode[place[~state]] = True, True
    written, moved = float(np.sum(write[decode])), float(np.sum((read + write)[decode]))
    alternations = int(np.count_nonzero((state[1:] != state[:-1]) & follows[1:]))
    if written > WRITES * moved or alternations < FEWEST_ALTERNATIONS:
        return None
    if min(np.sum(time[prefill]), np.sum(time[decode])) < LEAST_SHARE * np.sum(time[known]):
        return None
    whole = float(np.sum(time))
    prefill_share, decode_share = float(np.sum(time[prefill])) / whole, float(np.sum(time[decode])) / whole
    return Serving(
        prefill_share=prefill_share,
        decode_share=decode_share,
        idle_share=1.0 - prefill_share - decode_share,
        alternations=alternations,
    )


def _follows(samples: Samples, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For each known sample whether one before it is in the same stretch; shape (m,)."""
    stretch = stretch_of(samples)[known]
    follows = np.zeros(len(stretch), np.bool_)
    follows[1:] = stretch[1:] == stretch[:-1]
    return follows


def _fit(values: FloatArray, follows: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """True for prefill, of *values* (n, 2): tensor activity and memory traffic. None if not distinct."""
    block = np.arange(len(values)) // BLOCK
    learnt = block % (1 + len(values) // LEARNT_FROM) == 0
    some, linked = values[learnt], follows[learnt]
    # The first of a block follows none of the block that is learnt from before it.
    linked[1:] &= np.diff(np.flatnonzero(learnt)) == 1
    low, high = np.quantile(some[:, 0], [0.1, 0.9])
    state: NDArray[np.bool_] = some[:, 0] > (low + high) / 2
    stay = np.array([STAY, STAY])
    for _ in range(ROUNDS):
        if not 2 <= np.count_nonzero(state) <= len(state) - 2:
            return None
        middle = np.array([some[~state].mean(axis=0), some[state].mean(axis=0)])
        spread = np.maximum([some[~state].std(axis=0), some[state].std(axis=0)], NARROWEST)
        fitted = _viterbi(_log_density(some, middle, spread), linked, stay)
        settled = bool((fitted == state).all())
        state = fitted
        stay = _staying(state, linked)
        if settled:
            break
    if len(some) < len(values):
        state = _viterbi(_log_density(values, middle, spread), follows, stay)
    if not 2 <= np.count_nonzero(state) <= len(state) - 2:
        return None
    decode, prefill = values[~state], values[state]
    apart = prefill.mean(axis=0) - decode.mean(axis=0)
    pooled = (np.cov(prefill.T) + np.cov(decode.T)) / 2 + NARROWEST**2 * np.eye(2)
    distinct = (
        float(apart @ np.linalg.solve(pooled, apart)) >= DISTINCT**2
        and apart[0] >= TENSOR_APART
        and prefill[:, 0].mean() >= TENSOR_RATIO * decode[:, 0].mean()
        and decode[:, 1].mean() >= MEMORY_RATIO * prefill[:, 1].mean()
    )
    return state if distinct else None


def _log_density(values: FloatArray, middle: FloatArray, spread: FloatArray) -> FloatArray:
    """Log density of *values* (n, 2) in each of two states, without the constant; shape (n, 2)."""
    off = (values[:, None, :] - middle) / spread
    return np.asarray(-0.5 * np.sum(off**2, axis=2) - np.sum(np.log(spread), axis=1), np.float64)


def _staying(state: NDArray[np.bool_], follows: NDArray[np.bool_]) -> FloatArray:
    """How likely each state is to last for another sample, as counted in *state* (n,)."""
    before, after = state[:-1][follows[1:]], state[1:][follows[1:]]
    stay = [np.mean(after[before == kind] == kind) if (before == kind).any() else STAY for kind in (0, 1)]
    return np.clip(stay, LEAST_STAY, MOST_STAY)


def _viterbi(density: FloatArray, follows: NDArray[np.bool_], stay: FloatArray) -> NDArray[np.bool_]:
    """The most likely sequence of two states, True for the second; a new chain where nothing *follows*."""
    stay_0, stay_1 = np.log(stay).tolist()
    leave_0, leave_1 = np.log(1.0 - stay).tolist()
    # As staying is at least as likely as leaving, the best ways to both states never cross.
    origin = bytearray([EACH_ITSELF]) * len(density)
    best_0 = best_1 = 0.0
    steps = zip(density[:, 0].tolist(), density[:, 1].tolist(), follows.tolist(), strict=True)
    for row, (now_0, now_1, linked) in enumerate(steps):
        if not linked:
            # The better end of the chain before is where its way back begins.
            origin[row] = best_1 > best_0
            best_0, best_1 = now_0, now_1
            continue
        kept_0, came_0 = best_0 + stay_0, best_1 + leave_1
        kept_1, came_1 = best_1 + stay_1, best_0 + leave_0
        if came_0 > kept_0:
            origin[row] = 1
            best_0, best_1 = now_0 + came_0, now_1 + kept_1
        elif came_1 > kept_1:
            origin[row] = 0
            best_0, best_1 = now_0 + kept_0, now_1 + came_1
        else:
            best_0, best_1 = now_0 + kept_0, now_1 + kept_1
    # The way back from the better end: before a sample that both ways reach from one state, it is that one.
    came_from = np.frombuffer(origin, np.uint8)
    met = np.flatnonzero(came_from != EACH_ITSELF)
    return np.repeat(np.r_[came_from[met] == 1, best_1 > best_0], np.diff(np.r_[0, met, len(density)]))
