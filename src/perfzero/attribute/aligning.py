"""
What products of 16-bit matrices would take with rows of a length that tensor cores are fed with.

    products    those of which the rows have another length (`products.unaligned_length`)

Their kernels load number by number, or 2 at once, and are of an older generation besides: those of a GPT's
head with 50,257 words reach 95 to 150 TFLOP/s on an H200, and 700 with 50,304. What they compute stays the
same but for what is padded, so what they would take lies between two bounds:

    at least    their operations at the roof of the tensor cores, or their bytes at that of the memory if that
                takes longer, padded to the next multiple of 8
    at most     their operations at the rate that aligned products of this very program reach, those that the
                tensor cores limit by the same roofs, or, without any, at `REACHED` of the roof; and then
                their bytes at the roof of the memory, as if nothing of both overlapped; padded to a multiple
                of 64. Products that would be as short as a launch stay as they are: what they take is no
                arithmetic

Neither end is longer than what they take today. Of a look without counters no roofs are known, and nothing is
told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from perfzero.attribute.breakdown import Breakdown, CallRow
from perfzero.attribute.operations import factors
from perfzero.attribute.parts import by_call, dtype_of
from perfzero.attribute.products import is_product, unaligned_length
from perfzero.attribute.roofline import Ceilings
from perfzero.attribute.tiny import TINY_NS
from perfzero.limits import ASSUMED, CHOICE, Limit

REACHED: Annotated[float, Limit("ratio", ASSUMED)] = 0.4
"""
Of the tensor cores' roof, by products whose shapes fit badly, at least: the lower end of what the report
supposes elsewhere (`diagnose.thresholds.TENSOR_REACHED`).
"""

TYPES = {"c10::BFloat16": "bf16", "c10::Half": "fp16"}
"""The names that roofs have for the types of which alignment is told."""

ELEMENT_BYTES = 2

PADDED: Annotated[tuple[int, int], Limit("count", CHOICE)] = (8, 64)
"""To a multiple of which a length is filled up, at least and at most."""


@dataclass(frozen=True, slots=True)
class _Calls:
    """All calls of a product in one module and pass: what they compute, and move at least, and how long."""

    dtype: str
    flops: float
    bytes: float
    gpu_ns: int
    times: int
    length: int

    def compute_ns(self, rate: float) -> float:
        return 1e9 * self.flops / rate

    def memory_ns(self, roofs: Ceilings) -> float:
        return 1e9 * self.bytes / roofs.dram

    def padding(self, unit: int) -> float:
        """By how much more is computed with the length filled up to a multiple of *unit*."""
        return math.ceil(self.length / unit) * unit / self.length if self.length else 1.0


def left_when_aligned(b: Breakdown, unaligned: Sequence[CallRow]) -> tuple[float, float] | None:
    """What of the time of *unaligned* is left at least and at most; None where that is not known."""
    roofs = b.ceilings
    calls = _calls(unaligned)
    if roofs is None or not roofs.dram > 0 or calls is None:
        return None
    if not all(roofs.flops.get(one.dtype, math.nan) > 0 for one in calls):
        return None
    every = _calls(r for r in b.calls if is_product(r.call) and unaligned_length(r) == 0) or ()
    now = sum(one.gpu_ns for one in calls)
    least = most = 0.0
    for one in calls:
        roof = roofs.flops[one.dtype]
        shortest = max(one.compute_ns(roof) * one.padding(PADDED[0]), one.memory_ns(roofs))
        longest = one.compute_ns(_rate(every, one.dtype, roofs)) * one.padding(PADDED[1]) + one.memory_ns(
            roofs
        )
        if longest < TINY_NS * one.times:
            longest = one.gpu_ns
        least += min(shortest, one.gpu_ns)
        most += min(longest, one.gpu_ns)
    return least / now, most / now


def _rate(aligned: Iterable[_Calls], dtype: str, roofs: Ceilings) -> float:
    """FLOP/s of those of *aligned* that the tensor cores limit."""
    roof = roofs.flops[dtype]
    bound = [
        one
        for one in aligned
        if one.dtype == dtype
        and one.gpu_ns >= TINY_NS * one.times
        and one.compute_ns(roof) > one.memory_ns(roofs)
    ]
    whole = sum(one.gpu_ns for one in bound)
    return min(roof, 1e9 * sum(one.flops for one in bound) / whole) if whole else REACHED * roof


def _calls(rows: Iterable[CallRow]) -> tuple[_Calls, ...] | None:
    """*rows*, kernels of products, by call; None where one does not say what it multiplies, or how often."""
    found = []
    for call, its in by_call(row for row in rows if row.kind == "kernel"):
        product, times = factors(call), min(row.launches for row in its)
        dtype = TYPES.get(dtype_of(call))
        if product is None or dtype is None:
            continue
        if not times:
            return None  # some in replays, which are not counted
        sizes = (product.rows, product.inner, product.columns)
        many = product.batch * times
        moved = sum(math.prod(sizes) // size for size in sizes)
        length = unaligned_length(its[0]) or 0
        gpu_ns = sum(row.gpu_ns for row in its)
        found.append(
            _Calls(dtype, 2.0 * many * math.prod(sizes), ELEMENT_BYTES * many * moved, gpu_ns, times, length)
        )
    return tuple(found)
