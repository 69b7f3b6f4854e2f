"""
What recorder and sampler say to each other.

Commands go to the sampler's standard input as JSON lines. It answers on standard output with JSON lines,
those of event "samples" followed by one array in NumPy's .npy format (never pickled).

    {"do": "open", "period_ns": 1000000, "drain_s": 0.5, "counters": ["gr_active", ...] or null}
    {"do": "start", "kind": "regular", "duration_s": 0.5 or null}
    {"do": "stop"}   {"do": "close"}

    {"event": "ready", "chip": ..., "library_version": ..., ...}        once, or "error" and the end
    {"event": "opened", "metrics": {...}, "left_out": {...}}  {"event": "started", ...}
    {"event": "samples", "kind": ...} + array    {"event": "gap", ...}   {"event": "window", ...}
    {"event": "closed"}    {"event": "error", "type": "DeviceBusy", "text": ...}
    {"event": "bye", "cpu_s": ...}

The recorder imports this and not the sampler, and with it no library of the device.
"""

from __future__ import annotations

import json
from typing import IO, Any

import numpy as np

from perfzero.values import Samples

MESSAGE_LIMIT = 1 << 20
"""A longer line than this many bytes is no message."""


def pack(samples: Samples) -> np.ndarray[Any, Any]:
    """*samples* as one structured array: two int64 time stamps, then a float32 per column."""
    fields = [("start_ns", np.int64), ("end_ns", np.int64), *((n, np.float32) for n in samples.columns)]
    table = np.empty(len(samples), dtype=fields)
    table["start_ns"], table["end_ns"] = samples.start_ns, samples.end_ns
    for name, values in samples.columns.items():
        table[name] = values
    return table


def unpack(table: np.ndarray[Any, Any]) -> Samples:
    """The reverse of `pack`; raises ValueError for a table without time stamps."""
    names = table.dtype.names or ()
    if names[:2] != ("start_ns", "end_ns"):
        raise ValueError("a table of samples begins with its time stamps")
    columns = {n: table[n].astype(np.float64) for n in names[2:]}
    return Samples(table["start_ns"].astype(np.int64), table["end_ns"].astype(np.int64), columns)


def say(out: IO[bytes], event: str, **fields: Any) -> None:
    """Write one event."""
    out.write(json.dumps({"event": event, **fields}).encode() + b"\n")
    out.flush()
