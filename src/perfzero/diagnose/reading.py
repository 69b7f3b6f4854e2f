"""
Programs that read much more than they write: what is read, and how it could be used more often.

Weights, once for each step    the healthy answer where memory is at its roof (`rules/memory.py`). In kernels
                               of some microseconds it is not, and then requests that are computed together
                               read them once for all: `BATCH` times as many take about the same time, for all
                               bytes are read as before in as many kernels, `GROWS` times as long at most and
                               1 / `SHRINKS` at least. Each is computed as before, so nothing else passes its
                               roof. What limits a step stays what it is
The same data several times    a mean kernel that reads more than all the memory in use fetches some of it
                               again: tiles of a product whose order shares neither rows nor columns. In
                               another order memory is no limit, and what is used most after it is, at `BOUND`
                               of its roof to `OWN_KERNEL`. A kernel that stays for many steps reads its
                               weights in each, in whatever order, and makes little of them (`TILE`)
"""

from __future__ import annotations

import math
from typing import Annotated

from perfzero import hardware
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.gain import cap, capped, uses
from perfzero.diagnose.thresholds import BOUND, READ_ONLY, SUBSTANTIAL, TENSOR_UNUSED, TINY_KERNEL
from perfzero.diagnose.verdict import Gain
from perfzero.limits import CHOICE, H200, H200_LOOKS, Limit
from perfzero.words.said import say

BATCH: Annotated[int, Limit("count", CHOICE)] = 8
"""Requests computed together, of which the gain is told: products of so few rows take no longer."""

GROWS: Annotated[float, Limit("ratio", CHOICE)] = 1.5
"""
By which a step takes longer with `BATCH` requests: other kernels, and what is read for each of them. Of a
decoder without a cache on an H200 it took 0.97 times as long.
"""

SHRINKS: Annotated[float, Limit("ratio", H200)] = 1.1
"""
By which it may be faster, as products of several rows are made by other kernels than those of one: 1.03 on an
H200, for eight rows of 1,536 and 8,960 in bfloat16.
"""

LONGEST_PRODUCT_S: Annotated[float, Limit("seconds", CHOICE)] = 0.2
"""Of a product: at 600 TFLOP/s one of 39,000 rows, columns and depth. What takes longer holds a loop."""

TILE: Annotated[float, Limit("ratio", CHOICE)] = 32.0
"""
Operations of 16 bits for each byte that is read: what a tile of 64 rows and 64 columns makes of it. Those of
narrower tiles, or of weights for less than 64 requests at a time, are fewer.
"""


OWN_KERNEL: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.9
"""
Of a roof, by kernels whose order of tiles is in one's own hands, at most. The tensor cores' is what cuBLAS
reaches; a product in Triton whose tiles share rows and columns reached 0.87 of it.
"""


def read_only(e: Evidence) -> bool:
    """Hardly anything is written."""
    return e.level("dram_write_bytes") < READ_ONLY.value * e.level("dram_read_bytes")


def reads_again(e: Evidence) -> bool:
    """A mean kernel reads more than all the memory that is in use, so some of it more than once."""
    launches = e.level("launches")
    return launches > 0 and e.level("dram_read_bytes") / launches > e.level("memory_used")


def products_read_again(e: Evidence) -> bool:
    """Products do: the tensor cores work with what is read again, as much as tiles make of it."""
    works = read_only(e) and e.while_busy("tensor_active") >= TENSOR_UNUSED.value
    # A kernel that stays for many steps, as some that decode do, reads its weights in each of them.
    stays = e.mean_kernel_s > LONGEST_PRODUCT_S
    clock = e.clock_hz if e.clock_hz > 0 else (e.gpu.sm_clock_max_hz or math.nan)
    flops = e.level("tensor_active") * hardware.peak_flops(e.gpu, "bf16", clock)
    return works and reads_again(e) and not stays and not flops < TILE * e.level("dram_read_bytes")


def shared_tiles(e: Evidence) -> Gain:
    """What another order of tiles may gain where memory is the limit of products."""
    used = {name: use for name, use in uses(e).items() if name != "memory"}
    most = 1.0 / max([*used.values(), *([e.l2_share] if e.l2_share > 0 else [])], default=1.0)
    return Gain(max(1.0, BOUND.value * most), max(1.0, OWN_KERNEL * most), say("gain.shared_tiles"))


def reads_in_short_kernels(e: Evidence) -> bool:
    """Kernels of microseconds read, and hardly write: weights, as of a small model that has one user."""
    return read_only(e) and e.dram_share >= SUBSTANTIAL.value and e.mean_kernel_s < TINY_KERNEL.value


def batched(e: Evidence) -> Gain:
    """
    What `BATCH` requests together gain for each where weights are read for one at a time.

    Each computes as much as now, so the other resources allow `BOUND` of their roof at least, and all of it
    at most.
    """
    read = e.level("dram_read_bytes") / e.roofs.l2
    l2 = e.l2_share - read * (1.0 - 1.0 / BATCH)
    shared = {"memory": 1.0 / BATCH}
    most, _ = cap(e, traffic=shared, also={"l2": l2})
    low = max(1.0, min(BATCH / GROWS, BOUND.value * most))
    text = say("gain.read_once", requests=BATCH)
    return capped(e, low, BATCH * SHRINKS, assumption=text, traffic=shared, also={"l2": l2})[0]
