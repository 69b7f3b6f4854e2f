"""
Programs that read much more than they write: what is read, and how it could be used more often.

Weights, once for each step    the healthy answer where memory is at its roof (`rules/memory.py`). In kernels
                               of some microseconds it is not, and then requests that are computed together
                               read them once for all: `BATCH` times as many take the same time at least, for
                               all bytes are read as before, and `GROWS` times as long at most
The same data several times    a mean kernel that reads more than all the memory in use fetches some of it
                               again: tiles of a product whose order shares neither rows nor columns. In
                               another order memory is no limit, and what is used most after it is, at `BOUND`
                               of its roof to all of it
"""

from __future__ import annotations

from typing import Annotated

from perfzero.counters import SECTOR_BYTES
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.gain import uses
from perfzero.diagnose.thresholds import BOUND, READ_ONLY, SUBSTANTIAL, TENSOR_UNUSED, TINY_KERNEL
from perfzero.diagnose.verdict import Gain
from perfzero.limits import CHOICE, Limit
from perfzero.words.said import say

BATCH: Annotated[int, Limit("count", CHOICE)] = 8
"""Requests computed together, of which the gain is told: products of so few rows take no longer."""

GROWS: Annotated[float, Limit("ratio", CHOICE)] = 1.5
"""By which a step takes longer with `BATCH` requests: other kernels, and what is read for each of them."""


def read_only(e: Evidence) -> bool:
    """Hardly anything is written."""
    return e.level("dram_write_bytes") < READ_ONLY.value * e.level("dram_read_bytes")


def reads_again(e: Evidence) -> bool:
    """A mean kernel reads more than all the memory that is in use, so some of it more than once."""
    launches = e.level("launches")
    return launches > 0 and e.level("dram_read_bytes") / launches > e.level("memory_used")


def products_read_again(e: Evidence) -> bool:
    """Products do: the tensor cores work with what is read again."""
    return read_only(e) and e.while_busy("tensor_active") >= TENSOR_UNUSED.value and reads_again(e)


def shared_tiles(e: Evidence) -> Gain:
    """What another order of tiles may gain where memory is the limit of products."""
    used = {name: use for name, use in uses(e).items() if name != "memory"}
    l2 = e.level("l2_sectors") * SECTOR_BYTES / e.roofs.l2
    most = 1.0 / max([*used.values(), *([l2] if l2 > 0 else [])], default=1.0)
    return Gain(max(1.0, BOUND.value * most), max(1.0, most), say("gain.shared_tiles"))


def reads_in_short_kernels(e: Evidence) -> bool:
    """Kernels of microseconds read, and hardly write: weights, as of a small model that has one user."""
    return read_only(e) and e.dram_share >= SUBSTANTIAL.value and e.mean_kernel_s < TINY_KERNEL.value


def batched() -> Gain:
    """What `BATCH` requests together gain for each where weights are read for one at a time."""
    return Gain(BATCH / GROWS, float(BATCH), say("gain.read_once", requests=BATCH))
