"""
Lines that ask for device memory, or give it back, told by the copy engine that clears it.

Where the caching allocator is off, or is emptied, any operator may be a cudaMalloc, and the end of any
variable a cudaFree: nothing in a stack or in the text of a line says so. But the driver clears that memory
with a copy engine (`series.clearing`), so of the idle time in such a line the engine clears memory for a good
part. That is said of lines of the program that are Python or launch otherwise; what is known to do something
else, such as to read a file or to work on arrays of the host, does that while memory of before is cleared.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np

from perfzero.attribute.host_activity import LAUNCHING, Meaning
from perfzero.attribute.idle import Idle
from perfzero.attribute.moments import Moments
from perfzero.limits import Limit
from perfzero.series.clearing import MEASURED, cleared, clearing
from perfzero.stacks import Frame
from perfzero.values import Samples

CLEARS: Annotated[float, Limit("ratio", MEASURED)] = 0.5
"""
Of the idle time in a line that asks for memory: for so much of it the engine clears memory. In a program
without the caching allocator it was 1.0 in each line, in one that empties the cache 0.58 to 0.90 in those
that call CUDA for memory, and 0.00 to 0.36 in those that mostly launch.
"""


def with_memory_calls(
    leaves: Sequence[Meaning], moments: Moments, idle: Idle, pm: Samples, *, arrays: Collection[Frame] = ()
) -> list[Meaning]:
    """
    *leaves*, of which those call CUDA for memory in whose idle time the engine of *pm* clears it.

    *arrays*: lines that work on arrays of the host.
    """
    if cleared(pm) is None:
        return list(leaves)
    row = np.maximum(np.searchsorted(pm.start_ns, moments.time_ns, side="right") - 1, 0)
    # More than 1 is impossible, and not known.
    known = np.nan_to_num(pm.column("ce_active")[row]) <= 1.0
    weight = np.where(known, moments.weight * idle.at(moments.time_ns), 0.0)
    whole = np.bincount(moments.leaf, weight, len(leaves))
    clears = np.bincount(moments.leaf, weight * np.where(known, clearing(pm)[row], 0.0), len(leaves))
    calls = (whole > 0) & (clears >= CLEARS * whole)
    return [
        replace(leaf, activity="allocating")
        if calls[k] and leaf.activity in LAUNCHING | {"python"} and leaf.path[-1] not in arrays
        else leaf
        for k, leaf in enumerate(leaves)
    ]
