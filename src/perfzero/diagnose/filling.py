"""
What kernels gain that have too little under way, once all SMs have enough of it.

A kernel of a few blocks, or of a few warps on each SM, works at the rate of those: each waits for what it
asked for, and nobody works meanwhile. How fast one block is depends on nothing but itself, so with more of
them it goes faster in proportion (Little's law: bytes under way = rate x latency), until the resource that is
used most is at its roof. Of the time of such kernels there stays

    at least    what the resource that they use most takes at its roof
    at most     what it takes at `FILLED` of it; and of kernels with few blocks no less than the share of the
                SMs that have work now, for then all SMs do what these do, of those with few warps what is
                left with as many as are few no longer (`FEW_WARPS`)

and no more than other limits allow: the L2 and the link to the host are no faster (`gain.cap`), and the host
launches as many kernels, eager PyTorch so many a second as `EAGER`, a graph one each `GRAPH_KERNEL_S`. Of
kernels that are slow for a reason that nobody knows a part stays (`RECOVER_UNKNOWN`). What limits them then
is that resource if it is at `BOUND` of its roof after the middle of what is gained, and latency if not.

That holds for kernels that are long because they are not spread: a kernel of some microseconds with one block
has no more work to spread. So small grids count only where kernels are long on average (`TINY_KERNEL`) and in
bursts of 10 us lie in stretches of `STRETCH_S` and more. Nor does it hold for a chain of steps, each of which
needs the one before it, which is said as a need. Nothing outside tells that from work that could be spread: a
block alone (`ALONE`) shows no work for two, and of such the least is what usually goes. But one that takes so
much of a roof that all SMs doing the same would be at it streams: that much is under way at a time, and
nothing of that waits for the rest. What waits for memory of the host is left out.
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
    CLOSE_CALL,
    FEW_WARPS,
    GRAPH_KERNEL_S,
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

FILLED: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.4
"""
Of its roof, what a resource reaches at least once the SMs have enough under way: the memory's was at 0.41,
0.43, 0.43, 0.61 and 0.68 after kernels of five programs of docs/zoo.md had got more blocks or warps (H200).
"""

ALONE: Annotated[float, Limit("ratio", CHOICE)] = 0.02
"""Of the SMs: two of 132. With more of them a kernel has shown that its work can be divided."""

LIMITED = ("memory", "tensor", "fma")
"""Resources of which it is known how much each kernel uses."""

LEAST_USE: Annotated[float, Limit("ratio", CHOICE)] = 0.01
"""Of a roof. What uses less than a hundredth of everything is limited by something that nobody sees."""


def spread(e: Evidence) -> tuple[Gain, tuple[str, ...]] | None:
    """What small grids gain on all SMs, and the limits that they meet; None where they are short kernels."""
    if e.split is None or not e.mean_kernel_s >= TINY_KERNEL.value or not _in_stretches(e):
        return None
    sm = e.split.while_in("small_grid", e.rates.sm)
    name, use = _used_most(e, "small_grid")
    streams = name in LIMITED and use >= BOUND.value * sm
    if streams or not sm < ALONE:
        known = 1.0 if streams else RECOVER_UNKNOWN
        spread_out = say("gain.spread")
        return _filled(e, "small_grid", at_most=sm, part=MERGING, assumption=spread_out, known=known)
    usual, _ = expect(
        e, e.share("small_grid"), recovered=RECOVER_SMALL, speedup=(2.0, math.inf), assumption=""
    )
    alone = say("gain.spread_alone")
    return _filled(e, "small_grid", at_most=sm, part=MERGING, assumption=alone, lowest=usual.low)


def more_warps(e: Evidence) -> tuple[Gain, tuple[str, ...]] | None:
    """What kernels of few warps gain with more under way, and the limits that they meet; None for others."""
    few = e.while_busy("warps_active") / FEW_WARPS.value
    if e.split is None or not few < 1:
        return None
    return _filled(e, "latency", at_most=few, part=1.0, assumption=say("gain.under_way"))


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


def _used_most(e: Evidence, where: TimeClass) -> tuple[str, float]:
    """The resource that is used most in the time *where*, and its use as a share of its roof."""
    assert e.split is not None
    used = {name: e.split.while_in(where, getattr(e.rates, name)) for name in LIMITED}
    known = {name: use for name, use in used.items() if use >= LEAST_USE}
    name = max(known, key=known.__getitem__, default="latency")
    return name, known.get(name, LEAST_USE)


def _filled(
    e: Evidence,
    where: TimeClass,
    *,
    at_most: float,
    part: float,
    assumption: str,
    lowest: float = math.inf,
    known: float = RECOVER_UNKNOWN,
) -> tuple[Gain, tuple[str, ...]] | None:
    assert e.split is not None
    if host_reads(e) is not None:
        return None
    name, use = _used_most(e, where)
    few, many = e.split.interval(where)
    least = amdahl(few, recovered=1.0 - min(1.0, max(use / FILLED, at_most) / part))
    most = amdahl(many, recovered=min(known, 1.0 - min(1.0, use)))
    # Of the L2 and the link it is not known in which kernels they are used.
    for of_roof in (e.l2_share, e.pcie_share):
        if of_roof > 0:
            least = min(least, max(1.0, BOUND.value / of_roof))
    also = {"l2": e.l2_share}
    expected, stopped = capped(e, min(least, most, lowest), most, assumption=assumption, also=also)
    paced = at_host_pace(expected, e.level("launches"))
    if stopped is not None and stopped != LIMIT_NAMES[name]:
        return paced, (stopped,)
    return paced, _limits(e, where, name, use, expected)


def _limits(e: Evidence, where: TimeClass, name: str, use: float, expected: Gain) -> tuple[str, ...]:
    """
    What limits the time *where* after the middle of *expected*: *name* if its *use* is at `BOUND` then, both
    it and latency if it is as near to that as two causes can be.
    """
    share = e.share(where)
    left = share - middle(expected)
    then = use * share / left if left > 0 else math.inf
    if abs(then - BOUND.value) <= CLOSE_CALL.value:
        return LIMIT_NAMES[name], LIMIT_NAMES["latency"]
    return (LIMIT_NAMES[name if then >= BOUND.value else "latency"],)


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
