"""
Means that are made from sums, and how sure they are.

    rate(x)   = sum of what fell into the samples / sum of their lengths
    mean(x)   = sum of x * w / sum of w,   w = the counter's own weight, time where it has none

A mean of ratios is not the ratio of sums: a hit rate of 0.9 over ten sectors and one of 0.1 over
ten million is 0.1. Samples follow each other and are not independent, so intervals come from
resampling *blocks* of them (Künsch, 1989), never single samples.
"""

from __future__ import annotations

import numpy as np

from perfzero.counters import BY_NAME, SECTOR_BYTES
from perfzero.values import FloatArray, Samples

REPLICATES = 400
"""Enough for a 95 % interval whose own ends are steady to about a tenth of its width."""

SEED = 20261129
"""Fixed: the same recording always gets the same interval."""


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
