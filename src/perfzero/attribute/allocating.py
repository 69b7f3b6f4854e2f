"""
Calls of CUDA that take or give back device memory, and what a program gains that keeps its memory.

PyTorch keeps memory that it has once got, and after some steps asks CUDA for none. A program whose cache is
off (`caching_allocator_enable(False)`, PYTORCH_NO_CUDA_MEMORY_CACHING), that empties it, or whose memory is
too full for it, calls cudaMalloc and cudaFree in every step. They take a tenth of a millisecond and more, and
cudaFree waits until the GPU has done all that it was given (CUDA's runtime API, "Implicit Synchronization"),
so behind it the GPU runs dry.

A step takes T. For A of it the host is in such calls, and for I of that the GPU has nothing to do; it works
for B. Without the calls

    T' <= T - I             the host launches the next kernel so much earlier, and the GPU waits for nothing
                            else meanwhile
    T' >= max(B, T - A)     the GPU's work stays as it is, and so does the rest of the host's

The profiler makes the rest of the host slower than it is, so the gain is told a little low.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from perfzero.limits import CHOICE, Limit
from perfzero.traces import Trace
from perfzero.values import IntArray

OFTEN: Annotated[float, Limit("count", CHOICE)] = 2.0
"""
Calls a step, on average, from which on the program is said to allocate in its steps: one may come of a
cache that grows for the last time.
"""


@dataclass(frozen=True, slots=True)
class Allocating:
    """
    `calls` a step that take or give back device memory, their `share` of the steps' time, and what keeping
    memory leaves of that time in them, at least and at most: `left`, of all of the time in steps.
    """

    calls: float = 0.0
    share: float = 0.0
    left: tuple[float, float] = (1.0, 1.0)


def allocating(trace: Trace) -> Allocating:
    """What *trace*, of one GPU, tells of them; nothing without steps, or of several GPUs."""
    steps, calls, work = trace.steps, trace.allocations, trace.work
    if not (len(steps) and len(calls) and len(work)) or len(np.unique(work.device)) > 1:
        return Allocating()
    first, last = int(steps.start_ns.min()), int(steps.end_ns.max())
    inside = (calls.start_ns >= first) & (calls.end_ns <= last)
    if last <= first or not inside.any():
        return Allocating()
    whole = last - first
    busy = _union(np.maximum(work.start_ns, first), np.minimum(work.end_ns, last))
    held = _union(calls.start_ns[inside], calls.end_ns[inside])
    worked, called = _length(busy), _length(held)
    both = _union(np.concatenate((busy[0], held[0])), np.concatenate((busy[1], held[1])))
    idle = _length(both) - worked  # in calls, and without work
    least, most = max(worked, whole - called), whole - idle
    count = int(inside.sum()) / len(np.unique(steps.what))
    return Allocating(count, called / whole, (min(1.0, least / whole), min(1.0, most / whole)))


def _union(start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """The stretches [start, end) that are in any of those given, in order and without overlap."""
    keep = end_ns > start_ns
    order = np.argsort(start_ns[keep], kind="stable")
    start, end = start_ns[keep][order], end_ns[keep][order]
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    begins = np.append(True, start[1:] > reach[:-1])
    return start[begins], reach[np.append(begins[1:], True)]


def _length(stretches: tuple[IntArray, IntArray]) -> int:
    return int((stretches[1] - stretches[0]).sum())
