"""
Where a row stands under the roof: what it computes and moves, against what the GPU can do at most.

The roofline model (Williams, Waterman, Patterson, 2009): arithmetic intensity is FLOP per byte that passes
between device memory and the chip, and no kernel attains more FLOP/s than the peak of its type, nor more than
intensity x bandwidth. The place under the roof is what it attains of the lower of both. The bytes are those
that counters saw, so what the L2 spares is no part of them; the bytes that a call has to move at least stand
beside (`compulsory.py`), and measured over compulsory is its *reuse*.

A place is told where a row has the memory for itself: of work beside which another stream worked, the rest of
the bandwidth was not its own (`beside.py`). And of rows with a hundredth of the time or more: what short
kernels write leaves the L2 while the next ones run.

Of a row in several types the time that its operations take at the peak of each is what counts; of a single
type that is the same. A row without products computes nothing by this count, so its place is the share of
the bandwidth that it uses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from perfzero.attribute.counted import Counted
from perfzero.limits import CHOICE, H200_LOOKS, Limit

POOR_REUSE: Annotated[float, Limit("ratio", H200_LOOKS)] = 1.5
"""
Measured over compulsory bytes. From this on a row moves half as much again as it has to: what it uses twice
has left the chip in between, or it works on more than its inputs, such as copies in another layout. Below it
is what a good kernel does: a backward convolution reads one gradient for two products, which makes 4/3 of
the compulsory bytes at most, and elementwise calls and large batch norms of real looks have 0.9 to 1.1.
"""

OPEN: Annotated[float, Limit("ratio", CHOICE)] = 3.0
"""The upper end of a reuse over its lower one: from here on none is told, for it may be poor or good."""

OUT_OF_L2: Annotated[float, Limit("ratio", CHOICE)] = 0.8
"""Measured over compulsory bytes. With fewer, a fifth or more came out of the L2, or stays there."""

LimitedBy = Literal["compute", "dram", ""]
Reuse = Literal["from L2", "streaming", "poor reuse", ""]


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What the GPU does in practice: FLOP/s by type, at the clock of the look, and bytes/s of its memory."""

    flops: Mapping[str, float] = field(default_factory=dict)
    dram: float = math.nan


@dataclass(frozen=True, slots=True)
class Roofline:
    """
    What the kernels of a row compute and have to move; NaN where that is not known.

    `flops` and `compulsory_bytes` are sums over all of its calls. `intensity` is FLOP per byte that counters
    saw, `reuse` these bytes over the compulsory ones, between `reuse_low` and `reuse_high` with 95 %. `roof`
    is the place under the roof, between `roof_low` and `roof_high` likewise, and `limit` which of both lines
    is the lower one there. What a roof of reads and writes is in practice, writes alone may pass by some
    percent.
    """

    flops: float = math.nan
    compulsory_bytes: float = math.nan
    intensity: float = math.nan
    reuse: float = math.nan
    reuse_low: float = math.nan
    reuse_high: float = math.nan
    roof: float = math.nan
    roof_low: float = math.nan
    roof_high: float = math.nan
    limit: LimitedBy = ""

    def measured(self, counted: Counted, gpu_ns: int, compute_s: float, ceilings: Ceilings) -> Roofline:
        """
        The same with what *counted* tells of the row, whose kernels ran for *gpu_ns*.

        *compute_s*: how long its operations take at the peaks of their types.
        """
        reads, writes = counted.dram_read_bytes, counted.dram_write_bytes
        if reads is None or writes is None:
            return self
        moved = reads.value + writes.value
        if not moved > 0:
            return self
        needs, least, most = self.compulsory_bytes, reads.low + writes.low, reads.high + writes.high
        found = replace(self, intensity=self.flops / moved)
        if needs > 0 and most < OPEN * least:
            found = replace(found, reuse=moved / needs, reuse_low=least / needs, reuse_high=most / needs)
        memory_s = moved / ceilings.dram
        if not (math.isfinite(memory_s) and math.isfinite(compute_s) and gpu_ns):
            return found
        limit: LimitedBy = "compute" if compute_s > memory_s else "dram"
        roof, low, high = (
            max(compute_s, amount / ceilings.dram) * 1e9 / gpu_ns for amount in (moved, least, most)
        )
        return replace(found, roof=roof, roof_low=low, roof_high=high, limit=limit)


def kind_of_reuse(roofline: Roofline) -> Reuse:
    """What the bytes of a row say beyond their errors; empty where they do not, or lie between."""
    if roofline.reuse_low >= POOR_REUSE:
        return "poor reuse"
    if roofline.reuse_high < OUT_OF_L2:
        return "from L2"
    within = roofline.reuse_low >= OUT_OF_L2 and roofline.reuse_high < POOR_REUSE
    return "streaming" if within else ""
