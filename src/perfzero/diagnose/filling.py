"""
What kernels gain that have too little under way, once all SMs have enough of it.

A kernel of a few blocks, or of a few warps on each SM, works at the rate of those: each waits for what it
asked for, and nobody works meanwhile. How fast one block is depends on nothing but itself, so with more of
them it goes faster in proportion (Little's law: bytes under way = rate x latency), until the resource that is
used most is at its roof. Of the time of such kernels there stays

    at least    what the resource that they use most takes at its roof
    at most     what it takes at `BOUND` of it; of kernels with few blocks no less than the share of the SMs
                that have work now, for then all SMs do what these do

and the host still launches as many kernels: eager PyTorch so many a second as `EAGER`.

That holds for kernels that are long because they are not spread: a kernel of some microseconds with one block
has no more work to spread. So small grids count only where kernels are long on average (`TINY_KERNEL`) and in
bursts of 10 us lie in stretches of `STRETCH_S` and more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np

from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.gain import LIMIT_NAMES, amdahl
from perfzero.diagnose.split import AT
from perfzero.diagnose.thresholds import BOUND, FEW_WARPS, TINY_KERNEL
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

LEAST_USE: Annotated[float, Limit("ratio", CHOICE)] = 0.01
"""Of a roof. What uses less than a hundredth of everything is limited by something that nobody sees."""


def spread(e: Evidence) -> tuple[Gain, str] | None:
    """What small grids gain on all SMs, and the limit that they meet; None where they are short kernels."""
    if e.split is None or not e.mean_kernel_s >= TINY_KERNEL.value or not _in_stretches(e):
        return None
    sm = e.split.while_in("small_grid", e.rates.sm)
    return _filled(e, "small_grid", at_most=sm, part=MERGING, assumption=say("gain.spread"))


def more_warps(e: Evidence) -> tuple[Gain, str] | None:
    """What kernels of few warps gain with more under way, and the limit that they meet; None for others."""
    if e.split is None or not e.while_busy("warps_active") < FEW_WARPS.value:
        return None
    return _filled(e, "latency", at_most=0.0, part=1.0, assumption=say("gain.under_way"))


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
    e: Evidence, where: TimeClass, *, at_most: float, part: float, assumption: str
) -> tuple[Gain, str] | None:
    assert e.split is not None
    rates = {"memory": e.rates.memory, "tensor": e.rates.tensor, "fma": e.rates.fma}
    used = {name: e.split.while_in(where, rate) for name, rate in rates.items()}
    known = {name: use for name, use in used.items() if use >= LEAST_USE}
    name = max(known, key=known.__getitem__, default="memory")
    use = known.get(name, LEAST_USE)
    few, many = e.split.interval(where)
    least = amdahl(few, recovered=1.0 - min(1.0, max(use / BOUND.value, at_most) / part))
    most = amdahl(many, recovered=1.0 - min(1.0, use))
    return at_host_pace(Gain(least, most, assumption), e.level("launches")), LIMIT_NAMES[name]


def at_host_pace(gain: Gain, launches: float) -> Gain:
    """*gain* of a program that goes on launching as many kernels, *launches* a second now; NaN: not known."""
    least, most = gain.low, gain.high
    if launches < EAGER[0]:
        least, most = (min(end, rate / launches) for end, rate in zip((least, most), EAGER, strict=True))
    most = max(1.0, most)
    return replace(gain, low=max(1.0, min(least, most)), high=most)
