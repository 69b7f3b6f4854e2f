"""
Work that was launched before the trace began.

A host that runs ahead has given the GPU more than a step of work by the time the profiler starts: 75 ms of
the 395 ms that three steps of a ResNet-50 left on an H200. Of that work the trace shows the kernels but no
launch, so nothing tells whose it is; and it belongs to steps that were not traced.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from perfzero.traces import BoolArray, Trace, Work


def is_earlier(trace: Trace) -> BoolArray:
    """Of each piece of work, shape (n,): no launch of it is known, nor of any before it on its device."""
    work = trace.work
    known = np.isin(work.correlation, trace.launches.correlation[trace.launches.correlation > 0])
    known |= np.isin(work.external_id, trace.operators.external_id[trace.operators.external_id > 0])
    earlier = np.zeros(len(work), bool)
    for device in np.unique(work.device):
        here = work.device == device
        if known[here].any():
            earlier |= here & (work.start_ns < work.start_ns[here & known].min())
    return earlier


def without_earlier(trace: Trace) -> Trace:
    """*trace* without the work that is earlier than it."""
    keep = ~is_earlier(trace)
    kept = {f.name: getattr(trace.work, f.name)[keep] for f in fields(Work) if f.name != "names"}
    return replace(trace, work=replace(trace.work, **kept))
