"""
What kernels gain that have too little under way, once all SMs have enough of it.

A kernel of a few blocks, or of a few warps on each SM, works at the rate of those: each waits for what it
asked for, and nobody works meanwhile. How fast one block is depends on nothing but itself, so with more of
them it goes faster in proportion (Little's law: bytes under way = rate x latency), until the resource that is
used most is at its roof, which it is after the middle of what is gained or else not yet. Of the time of such
kernels there stays

    at least    what the resource that they use most takes at its roof
    at most     what it takes at `BOUND` of it; of kernels with few blocks no less than the share of the SMs
                that have work now, for then all SMs do what these do

and no more than other limits allow: the L2 and the link to the host are no faster (`gain.cap`), and the host
launches as many kernels, eager PyTorch so many a second as `EAGER`, a graph one each `GRAPH_KERNEL_S`. Of
kernels that are slow for a reason that nobody knows a part stays (`RECOVER_UNKNOWN`).

That holds for kernels that are long because they are not spread: a kernel of some microseconds with one block
has no more work to spread. So small grids count only where kernels are long on average (`TINY_KERNEL`) and in
bursts of 10 us lie in stretches of `STRETCH_S` and more. Nor does it hold for a chain of steps, each of which
needs the one before it. Nothing outside tells that from work that could be spread: a block alone (`ALONE`)
shows no work for two, and few warps may be all that a kernel has. There the least is what usually goes.
Measured on an H200: sums over equal indices, one after another in few warps, gained 4.3 times by another
kernel, less than `BOUND` of their roof would have been. What waits for memory of the host is left out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

import numpy as np

from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.gain import LIMIT_NAMES, amdahl, capped, expect, middle
from perfzero.diagnose.host_reads import host_reads
from perfzero.diagnose.split import AT
from perfzero.diagnose.thresholds import (
    BOUND,
    FEW_WARPS,
    GRAPH_KERNEL_S,
    RECOVER_LATENCY,
    RECOVER_SMALL,
    RECOVER_UNKNOWN,
    TINY_KERNEL,
)
from perfzero.diagnose.verdict import Gain, TimeClass
from perfzero.limits import CHOICE, H200_LOOKS, Limit
from perfzero.words.said import say

EAGER: Annotated[tuple[float, float], Limit("count/s", H200_LOOKS)] = (39_000.0, 71_000.0)
"""
Launches a second of eager PyTorch whose host is the limit: 39,000 to 56,000 on one host of an H200, 71,000
without autograd on another. What launches faster is replayed from a graph.
"""

STRETCH_S: Annotated[float, Limit("seconds", CHOICE)] = 100e-6
"""Of work on few SMs; a single kernel of five times the length that hides its launch."""

MERGING: Annotated[float, Limit("ratio", CHOICE)] = 0.85
"""Of the speed of a kernel that is spread over all SMs, what is left when its parts are put together."""

ALONE: Annotated[float, Limit("ratio", CHOICE)] = 0.02
"""Of the SMs: two of 132. With more of them a kernel has shown that its work can be divided."""

LEAST_USE: Annotated[float, Limit("ratio", CHOICE)] = 0.01
"""Of a roof. What uses less than a hundredth of everything is limited by something that nobody sees."""


def spread(e: Evidence) -> tuple[Gain, str] | None:
    """What small grids gain on all SMs, and the limit that they meet; None where they are short kernels."""
    if e.split is None or not e.mean_kernel_s >= TINY_KERNEL.value or not _in_stretches(e):
        return None
    sm = e.split.while_in("small_grid", e.rates.sm)
    if not sm < ALONE:
        return _filled(e, "small_grid", at_most=sm, part=MERGING, assumption=say("gain.spread"))
    usual, _ = expect(
        e, e.share("small_grid"), recovered=RECOVER_SMALL, speedup=(2.0, math.inf), assumption=""
    )
    alone = say("gain.spread_alone")
    return _filled(e, "small_grid", at_most=sm, part=MERGING, assumption=alone, lowest=usual.low)


def more_warps(e: Evidence) -> tuple[Gain, str] | None:
    """What kernels of few warps gain with more under way, and the limit that they meet; None for others."""
    if e.split is None or not e.while_busy("warps_active") < FEW_WARPS.value:
        return None
    usual, _ = expect(e, e.share("latency"), recovered=RECOVER_LATENCY, assumption="")
    under_way = say("gain.under_way")
    return _filled(e, "latency", at_most=0.0, part=1.0, assumption=under_way, lowest=usual.low)


def _in_stretches(e: Evidence) -> bool:
    """Whether most of the time on few SMs lies in stretches of `STRETCH_S`, as bursts see it."""
    if e.split is None or not e.split.from_zoom:
        return False
    weight = e.split.weights[:, AT["small_grid"]] * e.rates.seconds
    small = e.split.weights[:, AT["small_grid"]] >= BOUND.value
    edges = np.flatnonzero(np.diff(small)) + 1
    long = 0.0
    for rows in np.split(np.arange(len(small)), edges):
        if len(rows) and small[rows[0]] and float(np.sum(e.rates.seconds[rows])) >= STRETCH_S:
            long += float(np.sum(weight[rows]))
    return long > 0 and long >= BOUND.value * float(np.sum(weight))


def _filled(
    e: Evidence,
    where: TimeClass,
    *,
    at_most: float,
    part: float,
    assumption: str,
    lowest: float = math.inf,
) -> tuple[Gain, str] | None:
    assert e.split is not None
    if host_reads(e) is not None:
        return None
    rates = {"memory": e.rates.memory, "tensor": e.rates.tensor, "fma": e.rates.fma}
    used = {name: e.split.while_in(where, rate) for name, rate in rates.items()}
    known = {name: use for name, use in used.items() if use >= LEAST_USE}
    name = max(known, key=known.__getitem__, default="latency")
    use = known.get(name, LEAST_USE)
    few, many = e.split.interval(where)
    least = amdahl(few, recovered=1.0 - min(1.0, max(use / BOUND.value, at_most) / part))
    most = amdahl(many, recovered=min(RECOVER_UNKNOWN, 1.0 - min(1.0, use)))
    # Of the L2 and the link it is not known in which kernels they are used.
    for of_roof in (e.l2_share, e.pcie_share):
        if of_roof > 0:
            least = min(least, max(1.0, BOUND.value / of_roof))
    also = {"l2": e.l2_share}
    expected, stopped = capped(e, min(least, most, lowest), most, assumption=assumption, also=also)
    if stopped in (None, LIMIT_NAMES[name]):
        stopped = _limit(e, where, name, use, expected)
    return at_host_pace(expected, e.level("launches")), stopped


def _limit(e: Evidence, where: TimeClass, name: str, use: float, expected: Gain) -> str:
    """What limits the time *where* after the middle of *expected*: *name* if its *use* is at `BOUND` then."""
    share = e.share(where)
    left = share - middle(expected)
    at_roof = not left > 0 or use * share / left >= BOUND.value
    return LIMIT_NAMES[name] if at_roof else LIMIT_NAMES["latency"]


def at_host_pace(gain: Gain, launches: float) -> Gain:
    """
    *gain* of a program that goes on launching as many kernels, *launches* a second now.

    NaN: not known. 0: those that run were launched before.
    """
    if not launches > 0:
        return gain
    # Within the range of eager PyTorch the host may be the limit already, and may launch as fast as any.
    rates = EAGER if launches <= EAGER[1] else (BOUND.value / GRAPH_KERNEL_S, 1.0 / GRAPH_KERNEL_S)
    least, most = (
        max(1.0, min(end, rate / launches)) for end, rate in zip((gain.low, gain.high), rates, strict=True)
    )
    return replace(gain, low=min(least, most), high=most)
