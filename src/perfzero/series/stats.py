"""
Means that are made from sums, and how sure they are.

    rate(x)   = sum of what fell into the samples / sum of their lengths
    mean(x)   = sum of x * w / sum of w,   w = the counter's own weight, time where it has none

A mean of ratios is not the ratio of sums: a hit rate of 0.9 over ten sectors and one of 0.1 over
ten million is 0.1. Samples follow each other and are not independent, so intervals come from
resampling *blocks* of them (Künsch, 1989), never single samples. Where the steps of the program
are known, blocks are made of whole steps: a block that ends in the middle of a step has too much
of one phase, and makes the interval wider than it is. How long a block of steps must be follows
from how much a step resembles the one before it (Politis and White, 2004, for an AR(1) series).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from perfzero.counters import BY_NAME, SECTOR_BYTES
from perfzero.limits import BY_DEFINITION, CHOICE, SIMULATED, Limit
from perfzero.series.quantiles import median
from perfzero.values import FloatArray, IntArray, Samples

REPLICATES = 400
"""Enough for a 95 % interval whose own ends are steady to about a tenth of its width."""

SEED = 20261129
"""Fixed: the same recording always gets the same interval."""

WHOLE: Annotated[float, Limit("ratio", CHOICE)] = 0.9
"""Samples cover this much of a step that counts as seen: one sample may be lost, half of a step may not."""

FEWEST_STEPS: Annotated[int, Limit("count", SIMULATED)] = 12
"""A 95 % interval over steps with r = 0.5 held the truth in 88 % with 8 of them, in 90 % with 12."""

NORMAL_95: Annotated[float, Limit("standard deviations", BY_DEFINITION)] = 1.959964
"""The central 95 % of a normal distribution end so many standard deviations from its mean."""

BLOCK_MARGIN = 1.3
"""Blocks are longer than the variance alone asks for: too short ones cost an interval more (simulated)."""

SHORTEST_BLOCK = 2
"""Steps per block: what an onset found too late adds to one step it takes from the next."""


def robust_spread(values: FloatArray) -> float:
    """
    Standard deviation of *values* (n,), none NaN, by their median distance from the median; 0 of no values.

    1.4826 times that distance is the standard deviation of normal values (Hampel, 1974).
    """
    return 1.4826 * median(np.abs(values - median(values))) if len(values) else 0.0


def weighted_mean(values: FloatArray, weights: FloatArray) -> float:
    """Mean of the finite *values* (n,) by *weights* (n,); NaN where nothing is left to average."""
    known = np.isfinite(values) & np.isfinite(weights)
    total = float(np.sum(weights[known]))
    if total <= 0:
        return float("nan")
    return float(np.sum(values[known] * weights[known]) / total)


def mean(samples: Samples, name: str) -> float:
    """Mean of the level *name* over the samples, by its declared weight or by time; NaN if never seen."""
    counter = BY_NAME[name]
    if counter.kind != "level":
        raise ValueError(f"{name} is an amount, not a level: ask for its rate")
    weights = samples.duration_s
    if counter.weight is not None and samples.has(counter.weight):
        weights = samples.column(counter.weight)
    return weighted_mean(samples.column(name), weights)


def total(samples: Samples, name: str) -> float:
    """Sum of the amount *name* over the samples that have it; NaN if never seen."""
    column = samples.column(name)
    known = np.isfinite(column)
    return float(np.sum(column[known])) if known.any() else float("nan")


def rate(samples: Samples, name: str) -> float:
    """Amount *name* per second, over the samples that have it; NaN if never seen."""
    if BY_NAME[name].kind != "total":
        raise ValueError(f"{name} is a level, not an amount: ask for its mean")
    column = samples.column(name)
    known = np.isfinite(column)
    length = float(np.sum(samples.duration_s[known]))
    return float(np.sum(column[known])) / length if length > 0 else float("nan")


def level(samples: Samples, name: str) -> float:
    """`rate` of an amount, `mean` of a level."""
    return rate(samples, name) if BY_NAME[name].kind == "total" else mean(samples, name)


def hit_ratio(samples: Samples) -> float:
    """
    Share of the SMs' sectors found in the L2: hits / lookups where both were counted, else the
    measured rate weighted by the sectors it is about.
    """
    hits, lookups = samples.column("l2_hit_sectors"), samples.column("l2_sectors")
    known = np.isfinite(hits) & np.isfinite(lookups)
    asked = float(np.sum(lookups[known]))
    if asked > 0:
        return min(1.0, float(np.sum(hits[known])) / asked)
    return mean(samples, "l2_hit")


def reuse_ratio(samples: Samples) -> float:
    """
    Bytes the SMs asked of the L2 per byte read from DRAM, over samples that have both.

    R = 32 * sectors / bytes: 1 is pure streaming, higher is better. NaN without DRAM reads.
    """
    sectors, read = samples.column("l2_sectors"), samples.column("dram_read_bytes")
    known = np.isfinite(sectors) & np.isfinite(read)
    fetched = float(np.sum(read[known]))
    return SECTOR_BYTES * float(np.sum(sectors[known])) / fetched if fetched > 0 else float("nan")


def block_sums(values: FloatArray, *, block: FloatArray) -> FloatArray:
    """
    Sums of the rows of *values* (n, k) over runs of equal *block* number (n,): shape (blocks, k).

    *block* must not decrease. NaN counts as nothing.
    """
    if len(values) == 0:
        return np.empty((0, values.shape[1]))
    starts = np.flatnonzero(np.r_[True, np.diff(block) != 0])
    return np.asarray(np.add.reduceat(np.nan_to_num(values), starts, axis=0), np.float64)


def blocks_of(samples: Samples, *, length_s: float) -> FloatArray:
    """The block number of each sample (n,) when time is cut into blocks of *length_s* seconds."""
    if len(samples) == 0:
        return np.empty(0)
    since = (samples.start_ns - samples.start_ns[0]) / 1e9
    return np.asarray(np.floor(since / length_s), np.float64)


def bootstrap_shares(sums: FloatArray, *, replicates: int = REPLICATES) -> FloatArray:
    """
    Shares that resampled blocks would have given: shape (replicates, k), each row adding up to 1.

    *sums* (blocks, k): time per class in each block. With a single block every row is its share.
    """
    blocks = len(sums)
    if blocks == 0 or not sums.sum() > 0:
        return np.full((replicates, sums.shape[1]), np.nan)
    rng = np.random.default_rng(SEED)
    drawn = rng.multinomial(blocks, np.full(blocks, 1.0 / blocks), size=replicates)
    resampled = drawn @ sums
    whole = resampled.sum(axis=1, keepdims=True)
    # A replicate drawn from empty blocks only says nothing: leave it out as NaN.
    shares = np.full(resampled.shape, np.nan)
    np.divide(resampled, whole, out=shares, where=whole > 0)
    return shares


def interval(replicates: FloatArray, *, confidence: float = 0.95) -> tuple[float, float]:
    """The central interval of the finite *replicates* (m,); NaN, NaN when there is none."""
    known = replicates[np.isfinite(replicates)]
    if len(known) == 0:
        return float("nan"), float("nan")
    tail = (1 - confidence) / 2
    low, high = np.quantile(known, [tail, 1 - tail])
    return float(low), float(high)


def shared_out(samples: Samples, amounts: FloatArray, *, edges_ns: IntArray) -> FloatArray:
    """
    What of the *amounts* (n, k) falls between neighbouring *edges_ns* (m,): shape (m - 1, k).

    Each row is spread evenly over its sample, so that a sample across an edge is divided by overlap.
    NaN counts as nothing. Where two samples overlap, the time belongs to the later one.
    """
    count, width = amounts.shape
    if count == 0 or len(edges_ns) < 2:
        return np.zeros((max(len(edges_ns) - 1, 0), width))
    origin = samples.start_ns[0]
    end = np.minimum(samples.end_ns, np.r_[samples.start_ns[1:], samples.end_ns[-1]])
    knots = (np.column_stack([samples.start_ns, end]).ravel() - origin).astype(np.float64)
    at = (edges_ns - origin).astype(np.float64)
    out = np.empty((len(at) - 1, width))
    for column in range(width):
        summed = np.r_[0.0, np.cumsum(np.nan_to_num(amounts[:, column]))]
        before_and_after = np.column_stack([summed[:-1], summed[1:]]).ravel()
        out[:, column] = np.diff(np.interp(at, knots, before_and_after))
    return out


def whole_steps(samples: Samples, starts_ns: IntArray) -> IntArray:
    """
    Start and end of each step that *samples* cover, int64 of shape (steps, 2).

    *starts_ns*: onsets in order, those of all windows. What lies between the last onset of one
    window and the first of the next is no step, unless the hole is shorter than a tenth of it.
    """
    if len(samples) == 0 or len(starts_ns) < 2:
        return np.empty((0, 2), np.int64)
    seen = shared_out(samples, samples.duration_s[:, None], edges_ns=starts_ns)[:, 0]
    length = np.diff(starts_ns) / 1e9
    whole = (length > 0) & (seen >= WHOLE * length)
    return np.column_stack([starts_ns[:-1], starts_ns[1:]])[whole]


def sums_by_step(samples: Samples, amounts: FloatArray, *, starts_ns: IntArray) -> FloatArray:
    """
    Sums of the *amounts* (n, k) over each whole step, rows shared out by overlap: shape (steps, k).

    A level has to be multiplied by the length of its sample first; then every column adds up.
    """
    steps = whole_steps(samples, starts_ns)
    if len(steps) == 0:
        return np.empty((0, amounts.shape[1]))
    edges, first = np.unique(steps, return_inverse=True)
    sums: FloatArray = shared_out(samples, amounts, edges_ns=edges)
    return sums[first.reshape(steps.shape)[:, 0]]


def bootstrap_over_steps(
    sums: FloatArray, *, weights: FloatArray | None = None, replicates: int = REPLICATES
) -> FloatArray:
    """
    What resampled steps would have given: float64 of shape (replicates, k).

    *sums* (steps, k) in the order of time. Each row of the result is the sum of the drawn rows,
    divided by the sum of their *weights* (steps,): a mean per step with weights of 1. Without
    weights it is divided by its own sum, for shares as `bootstrap_shares` gives them.
    Blocks of neighbouring steps are drawn, from a ring, so that the first and the last steps are
    drawn as often as the others. Fewer than `FEWEST_STEPS` steps give NaN.
    """
    steps = len(sums)
    whole = sums.sum(axis=1) if weights is None else weights
    if steps < FEWEST_STEPS or not whole.sum() > 0:
        return np.full((replicates, sums.shape[1]), np.nan)
    block = _block_of_steps(sums - whole[:, None] * (sums.sum(axis=0) / whole.sum()))
    drawn = -(-steps // block)
    rng = np.random.default_rng(SEED)
    first = rng.integers(0, steps, size=(replicates, drawn))
    rows = (first[:, :, None] + np.arange(block)).reshape(replicates, -1)[:, :steps] % steps
    counts = np.apply_along_axis(np.bincount, 1, rows, minlength=steps)
    bottom = counts @ whole
    out = np.full((replicates, sums.shape[1]), np.nan)
    np.divide(counts @ sums, bottom[:, None], out=out, where=bottom[:, None] > 0)
    middle = sums.sum(axis=0) / whole.sum()
    out = middle + _few_blocks(steps, block) * (out - middle)
    if weights is None:
        out = np.maximum(out, 0.0)
        out = out / out.sum(axis=1, keepdims=True)
    return np.asarray(out, np.float64)


def _few_blocks(steps: int, block: int) -> float:
    """
    By how much resampling *steps* in blocks of *block* spreads too little.

    Deviations are taken from the mean of the sample itself, which costs one block, and the spread
    is estimated from few blocks: Student's t takes the place of the normal distribution (its
    97.5 % point to second order, Abramowitz and Stegun 26.7.5).
    """
    free = max(steps / block - 1, 1.0)
    z = NORMAL_95
    student = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    return float(np.sqrt(steps / (steps - block)) * student / z)


def _block_of_steps(rest: FloatArray) -> int:
    """
    Steps per block for the residuals *rest* (steps, k) of the ratio that is estimated.

    Politis and White (2004): b = (6 r² / (1 - r²)²)^(1/3) n^(1/3) when neighbours correlate by r.
    """
    steps = len(rest)
    spread = np.sum(rest**2, axis=0)
    alike = np.zeros(rest.shape[1])
    np.divide(np.sum(rest[1:] * rest[:-1], axis=0), spread, out=alike, where=spread > 0)
    # Estimated from n values, the correlation comes out too low by about (1 + 3 r) / n (Kendall, 1954).
    r = min(0.95, max(0.0, float(np.max(alike + (1 + 3 * alike) / steps))))
    best = (6 * r**2 / (1 - r**2) ** 2) ** (1 / 3)
    length = round(BLOCK_MARGIN * max(1.0, best) * steps ** (1 / 3))
    return int(min(max(length, SHORTEST_BLOCK), max(steps // 4, 1)))
