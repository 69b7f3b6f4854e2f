"""
What limits the work that a remedy leaves as it is, by where its kernels stand under the roof.

    tensor     computes, and `NEAR` the roof of its type or above it, on the tensor cores by its name
    memory     moves bytes, and as near to the memory's roof
    latency    below both

A kernel is judged by all of its launches, since only a hundredth of the time and more has a place
(`roofline.py`). Where that is known of too little, nothing is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from perfzero.attribute.breakdown import Breakdown, CallRow
from perfzero.attribute.operations import uses_tensor_cores
from perfzero.attribute.roofline import Roofline
from perfzero.limits import CHOICE, Limit

NEAR: Annotated[float, Limit("ratio", CHOICE)] = 0.6
"""Of a roof, from which on it is what a kernel waits for: `diagnose.thresholds.BOUND`."""

KNOWN: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Of the time of what is left, in kernels with a place. The rest is taken to be like these."""


@dataclass(frozen=True, slots=True)
class Others:
    """Shares of the busy time that a remedy leaves as they are, by what limits them."""

    tensor: float
    memory: float
    latency: float


def others(b: Breakdown, concerned: Iterable[CallRow]) -> Others | None:
    """What limits the kernels of *b* that are not *concerned*; None where too little is known of them."""
    changed = frozenset(concerned)
    left = [row for row in b.calls if row.kind == "kernel" and row not in changed]
    limits = limits_of(b)
    shares = {"tensor": 0.0, "memory": 0.0, "latency": 0.0, "": 0.0}
    for row in left:
        shares[limits.get(row.kernel, "")] += row.share
    whole = sum(shares.values())
    known = whole - shares.pop("")
    if not (whole > 0 and known >= KNOWN * whole):
        return None
    return Others(**{name: share * whole / known for name, share in shares.items()})


def limits_of(b: Breakdown) -> dict[str, str]:
    """What limits each kernel of *b*, by its name; empty where it has no place under the roof."""
    return {kernel.row.name: _limit(kernel.row.name, kernel.row.roofline) for kernel in b.kernels}


def _limit(kernel: str, place: Roofline) -> str:
    if math.isnan(place.roof):
        return ""
    if place.roof < NEAR:
        return "latency"
    if place.limit == "compute":
        return "tensor" if uses_tensor_cores(kernel) else "latency"
    return "memory"
