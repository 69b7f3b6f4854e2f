"""Kernels with known amounts, and samples of them with the flaws that real ones have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from perfzero.attribute.mixing import Kernels
from perfzero.values import FloatArray, IntArray

BEGIN_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """Samples (n,) of kernels (k,); `truth` is what each kernel moved, `kernels` as a trace has them."""

    start_ns: IntArray
    end_ns: IntArray
    amounts: FloatArray
    kernels: Kernels
    truth: FloatArray

    def error(self, found: FloatArray) -> float:
        """Sum of absolute errors by kind, over the total."""
        kind = self.kernels.kind
        return float(np.abs(np.bincount(kind, found - self.truth)).sum() / self.truth.sum())


def simulate(
    *,
    seed: int = 0,
    steps: int = 4,
    positions: int = 160,
    kinds: int = 40,
    period_ns: float = 50_000.0,
    offset_ns: float = 0.0,
    drift: float = 0.0,
    even: bool = False,
    same_rate: bool = False,
    quiet: int = 0,
    instances: float = 0.05,
    jitter_ns: float = 500.0,
    noise: float = 0.01,
) -> Simulated:
    """
    *steps* alike with gaps between kernels; a kernel begins fast and ends slowly unless *even*.

    Positions of one kind differ in what they find in the cache; *quiet* kinds move nothing. *offset_ns* and
    *drift* are what has to be added to the kernels' times to get those of the samples.
    """
    rng = np.random.default_rng(seed)
    kind = rng.permutation(np.arange(positions) % kinds)
    typical = np.clip(rng.lognormal(np.log(20e3), 1.2, kinds), 1.5e3, 400e3)
    rate = np.ones(kinds) if same_rate else rng.lognormal(0.0, 1.0, kinds)
    rate[:quiet] = 0.0
    cached = np.where(rng.random(positions) < 0.6, 1.0, rng.uniform(0.3, 1.0, positions))
    length = typical[kind] * rng.uniform(0.97, 1.03, (steps, positions))
    moved = rate[kind] * typical[kind] * (1.0 if same_rate else cached)
    truth = (moved * np.exp(rng.normal(0, instances, (steps, positions)))).ravel()
    gap = rng.uniform(1e3, 2e3, (steps, positions)) + (np.arange(positions) == positions - 1) * 20e3
    end = np.cumsum((length + gap).ravel()) - gap.ravel()
    start = end - length.ravel()

    times, held = _profile(start, end, truth, even=even)
    edges = np.arange(-5e5 + rng.uniform(0, period_ns), end[-1] + 5e5, period_ns)
    edges += rng.normal(0, period_ns / 200, len(edges))
    amounts = np.diff(np.interp(edges, times, held))
    amounts *= 1 + rng.normal(0, noise, len(amounts))

    start, end = (at + rng.normal(0, jitter_ns, len(at)) for at in (start, end))
    middle = (start[0] + end[-1]) / 2
    by = offset_ns + drift * (start - middle)
    start, end = start - by, np.maximum(end - by, start - by + 300)
    position = np.tile(np.arange(positions), steps)
    return Simulated(
        start_ns=(edges[:-1] + BEGIN_NS).astype(np.int64),
        end_ns=(edges[1:] + BEGIN_NS).astype(np.int64),
        amounts=amounts,
        kernels=Kernels(
            (start + BEGIN_NS).astype(np.int64), (end + BEGIN_NS).astype(np.int64), position, kind[position]
        ),
        truth=truth,
    )


def _profile(
    start: FloatArray, end: FloatArray, truth: FloatArray, *, even: bool
) -> tuple[FloatArray, FloatArray]:
    """Times and what was moved until then: all at one rate, or the end at half of it."""
    if even:
        times = np.stack((start, end), axis=1)
        held = np.stack((np.cumsum(truth) - truth, np.cumsum(truth)), axis=1)
    else:
        before = np.cumsum(truth) - truth
        tail = np.minimum(0.2 * (end - start), 12e3)
        slow = tail / (2 * (end - start) - tail)
        times = np.stack((start, end - tail, end), axis=1)
        held = np.stack((before, before + truth * (1 - slow), before + truth), axis=1)
    return times.ravel(), held.ravel()


def sets_of(numbers: IntArray, many: int) -> Any:
    """Sets of kernels by the number of the one that each is in (-1: none), as a sparse matrix (many, k)."""
    inside = np.flatnonzero(numbers >= 0)
    return sparse.csr_matrix((np.ones(len(inside)), (numbers[inside], inside)), shape=(many, len(numbers)))
