"""
What the GPU works for a line that compiles: candidates of kernels, that a compiler tries out and times.

While the host compiles, the GPU first works off what it was given before. Once it had nothing to do, all that
it does until the host has compiled was given to it by the compiler, for nothing else of the program ran. This
work goes with the compiling, like the idle time. Trials from the first moment on cannot be told from work
that was given before, so that is the least; the most is all that the GPU does meanwhile.

A call of a compiler lasts for many moments at which stacks are seen, so that it lasts until another stack is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfzero.attribute.host_activity import Meaning
from perfzero.attribute.idle import Idle
from perfzero.attribute.moments import IN_GAP, Visits
from perfzero.values import FloatArray


def own_work(leaves: Sequence[Meaning], visits: Visits, idle: Idle) -> FloatArray:
    """
    The share of the GPU's work that is for each of *leaves*, least and most: shape (leaves, 2).

    *visits* have the clock of *idle*. It is 0 of a leaf that is not compiling.
    """
    found, ran_dry = np.zeros((len(leaves), 2)), False
    ends_ns = visits.time_ns + (visits.length_s * 1e9).astype(np.int64)
    for start_ns, end_ns, leaf in zip(
        visits.time_ns.tolist(), ends_ns.tolist(), visits.leaf.tolist(), strict=True
    ):
        if leaf < 0 or leaves[leaf].activity != "compiling":
            ran_dry = False
            continue
        length_s, value = _pieces(idle, start_ns, end_ns)
        dry = np.logical_or.accumulate(value > IN_GAP) | ran_dry
        work_s = length_s * (1.0 - value)
        found[leaf] += float(work_s[dry].sum()), float(work_s.sum())
        ran_dry = bool(dry[-1]) if len(dry) else ran_dry
    busy_s = idle.covered_s - float(np.sum(idle.end_ns - idle.start_ns)) / 1e9 - float(np.sum(idle.short_s))
    return np.asarray(np.minimum(found / max(busy_s, 1e-9), 1.0), np.float64)


def _pieces(idle: Idle, start_ns: int, end_ns: int) -> tuple[FloatArray, FloatArray]:
    """Seconds and idle share of each piece of *idle* between two moments, where that is known."""
    first = max(0, int(np.searchsorted(idle.edge, start_ns, "right")) - 1)
    stop = int(np.searchsorted(idle.edge, end_ns, "left"))
    begin = np.maximum(idle.edge[first:stop], start_ns)
    end = np.minimum(np.append(idle.edge[first + 1 : stop], end_ns), end_ns) if stop > first else begin
    value, length_s = idle.value[first:stop], (end - begin) / 1e9
    known = np.isfinite(value) & (length_s > 0)
    return length_s[known], value[known]
