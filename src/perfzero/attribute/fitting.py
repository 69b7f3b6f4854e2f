"""
How long the tensor cores take for products of float32 that run beside them, by what is multiplied.

From outside only the operations are known, and shapes that fit badly have to be allowed for. A look sees the
shapes. A product whose rows have a length that tensor cores are fed with, that computes long enough to fill
the GPU many times, and whose bytes take less than half as long, reaches `FITS` of their peak; any other one
`REACHED`, and takes no less than its bytes do at the roof of the memory. Neither takes longer than today.

A convolution, or a product whose factors are not recorded, is not told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from perfzero.attribute.breakdown import Breakdown, CallRow
from perfzero.attribute.compulsory import BYTES
from perfzero.attribute.operations import factors
from perfzero.attribute.parts import by_call, dtype_of
from perfzero.attribute.products import unaligned_length
from perfzero.attribute.tiny import TINY_NS
from perfzero.limits import ASSUMED, CHOICE, H200_LOOKS, Limit

Pair = tuple[float, float]

FITS: Annotated[Pair, Limit("ratio", H200_LOOKS)] = (0.55, 0.75)
"""
Of the peak at the clock before the fix. 120 such products in bf16, of 75 us and more, reached 0.68 to 1.0 of
the peak at the clock meanwhile, in three programs on an H200; at its power limit the clock is 0.82 of what it
was, so 0.55 and more. The upper end is that of `diagnose.thresholds.TENSOR_REACHED`: a product of 8192 rows,
columns and places reached 0.70 in TF32.
"""

REACHED: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.40, 0.75)
"""Of those of other shapes: `diagnose.thresholds.TENSOR_REACHED`."""

COMPUTES: Annotated[float, Limit("ratio", CHOICE)] = 2.0
"""Times as long as its bytes a product computes at the roofs, from which on these do not set its pace."""


def left_in_tf32(b: Breakdown, rows: Sequence[CallRow]) -> Pair | None:
    """What TF32 leaves of the time of *rows*, products of float32 on the FP32 pipe; None if unclear."""
    roofs = b.ceilings
    peak = math.nan if roofs is None else roofs.flops.get("tf32", math.nan)
    if roofs is None or not (peak > 0 and roofs.dram > 0) or any(row.call is None for row in rows):
        return None
    least = most = now = 0.0
    for call, its in by_call(rows):
        product, times = factors(call), min(row.launches for row in its)
        if product is None or not times or dtype_of(call) not in BYTES:
            return None
        sizes = (product.rows, product.inner, product.columns)
        whole = math.prod(sizes)
        compute_ns = 1e9 * 2.0 * product.batch * whole / peak
        moved = BYTES[dtype_of(call)] * product.batch * sum(whole // size for size in sizes)
        memory_ns = 1e9 * moved / roofs.dram
        fits = unaligned_length(its[0]) == 0 and compute_ns >= max(TINY_NS, COMPUTES * memory_ns)
        gpu_ns = sum(row.gpu_ns for row in its)
        slow, fast = FITS if fits else REACHED
        least += min(gpu_ns, times * max(compute_ns / fast, memory_ns))
        most += min(gpu_ns, times * max(compute_ns / slow, memory_ns))
        now += gpu_ns
    return least / now, most / now
