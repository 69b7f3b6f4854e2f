"""
Are trace and samples on one clock? Kernels that begin and end between samples of a few microseconds.

    python benchmarks/attribution/clock.py --out OUT [--only 5us,10us]

A program launches kernels that spin for 200 us, a millisecond apart, and profiles itself all the while, as a
look inside does (PyTorch's profiler, Kineto). `perfzero record` takes its burst meanwhile, at 5 or 10 us.
Between kernels the GPU is idle, so the level of the sample in which one begins tells when in it that was:

    begin = end of that sample - its level * its length
    end   = begin of the last sample + its level * its length

with levels of `sm_active` as a share of what it is while the kernel runs: one block on one SM, which needs no
time to fill the GPU. What the trace says less what the samples say is the offset of the clocks, by begins and
by ends. Allowed are 2 us for the medians. `gr_active` is shown beside it: the engine is active some time
before and after its SMs are.

Into OUT go clock.json and clock.txt.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import watched

from perfzero.store.kineto import read_trace
from perfzero.store.reader import open_recording
from perfzero.values import Samples

SECONDS = 20.0
"""The burst comes some 8 s after the program's work begins."""

SPIN_CYCLES = 360_000
"""0.2 ms at 1.8 GHz."""

APART_S = 0.001
PIECE_S = 2.0
"""Profiled at a time, so that a trace stays small; between two of them some kernels are not traced."""

BUSY, IDLE = 0.9, 0.02
"""Of the level in a kernel: a sample that lies in it as a whole, and one beside it."""

ROUND = 6
"""Samples that are looked at before a kernel, and after it."""

FEWEST = 10
BAR_US = 2.0
PERIODS = ("5us", "10us")


COUNTERS = ("sm_active", "gr_active")
"""The second is shown, not judged."""


@dataclass(frozen=True, slots=True)
class Offset:
    """Trace - samples, in us, by a counter: quartiles over the kernels, of their begins and ends."""

    counter: str
    begin_us: tuple[float, float, float]
    end_us: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Row:
    """What a burst of samples of `period_us` shows of so many kernels."""

    period: str
    period_us: float
    kernels: int
    offsets: tuple[Offset, ...]

    @property
    def ok(self) -> bool:
        judged = self.offsets[0]
        middle = max(abs(judged.begin_us[1]), abs(judged.end_us[1]))
        return self.kernels >= FEWEST and middle <= BAR_US


def measure(name: str, folder: Path, _args: argparse.Namespace) -> Row:
    folder.parent.mkdir(parents=True, exist_ok=True)
    traces = folder.with_suffix(".traces")
    traces.mkdir()
    command = ["record", "--quiet", "--zoom", name, "--no-agent", "--no-stacks", "-o", str(folder), "--"]
    command = [*watched.checkout.PERFZERO, *command, "python3", __file__, "--program", str(traces)]
    log = folder.with_suffix(".log")
    with watched.child(command, log=log) as process:
        ended = watched.checkout.finish(process, log=log, timeout_s=SECONDS + watched.START_UP_S)
    if ended.code != 0:
        raise RuntimeError(ended.output[-600:].strip())
    zoom = open_recording(folder).observation(0).zoom
    if zoom is None or not len(zoom):
        raise RuntimeError("there was no burst")
    works = [read_trace(trace).work for trace in sorted(traces.iterdir())]
    spans = np.concatenate([np.stack([w.start_ns, w.end_ns]) for w in works], axis=1)
    found = [edges(zoom, spans, counter=counter) for counter in COUNTERS]
    if not all(len(begins) for begins, _ in found):
        raise RuntimeError("no traced kernel lies in the burst")
    period_us = float(np.median(zoom.end_ns - zoom.start_ns)) / 1e3
    offsets = tuple(
        Offset(counter, quartiles(begins), quartiles(ends))
        for counter, (begins, ends) in zip(COUNTERS, found, strict=True)
    )
    return Row(name, period_us, len(found[0][0]), offsets)


def quartiles(values_ns: Any) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values_ns, (0.25, 0.5, 0.75)) / 1e3
    return float(low), float(middle), float(high)


def edges(zoom: Samples, spans: Any, *, counter: str) -> tuple[Any, Any]:
    """
    Begin and end of each kernel, by the trace less by the samples, in ns.

    *spans*: start and end of each, shape (2, n). Where the samples beside a kernel are not idle, or are not
    there, it is left out.
    """
    level = zoom.column(counter)
    length = zoom.end_ns - zoom.start_ns
    begins, ends = [], []
    for start, end in spans.T:
        first, last = np.searchsorted(zoom.end_ns, (start, end), side="right")
        first, last = int(first) - ROUND, int(last) + ROUND + 1
        if (
            first < 0
            or last > len(zoom)
            or zoom.end_ns[last - 1] - zoom.start_ns[first] != length[first:last].sum()
        ):
            continue
        seen = level[first:last]
        whole = float(np.median(seen[2 * ROUND : -2 * ROUND]))
        busy = np.flatnonzero(seen > BUSY * whole)
        if not whole > 0 or len(busy) < 3 or max(seen[0], seen[1], seen[-1], seen[-2]) > IDLE * whole:
            continue
        a, b = int(busy[0]), int(busy[-1])
        if np.any(seen[a : b + 1] < BUSY * whole):
            continue  # two of them
        begins.append(start - zoom.start_ns[first + a] + seen[:a].sum() / whole * length[first])
        ends.append(end - zoom.end_ns[first + b] - seen[b + 1 :].sum() / whole * length[first])
    return np.asarray(begins), np.asarray(ends)


def table(rows: Sequence[Row]) -> str:
    lines = [f"{'burst':6}{'kernels':>8}  {'by':10}{'begin us (quartiles)':>26}{'end us (quartiles)':>26}"]
    for row in rows:
        for offset in row.offsets:
            begin, end = ("{1:.2f} ({0:.2f} to {2:.2f})".format(*q) for q in (offset.begin_us, offset.end_us))
            verdict = "" if offset is not row.offsets[0] else "OK" if row.ok else "FAIL"
            line = f"{row.period:6}{row.kernels:8}  {offset.counter:10}{begin:>26}{end:>26}  {verdict}"
            lines.append(line.rstrip())
    return "\n".join(lines)


def program(traces: Path) -> int:
    """Spin, pause, and profile: what is watched."""
    import torch
    from torch.autograd.profiler import profile

    begun = time.monotonic()
    number = 0
    while time.monotonic() < begun + SECONDS:
        with profile(use_device="cuda", use_kineto=True) as traced:
            until = time.monotonic() + PIECE_S
            while time.monotonic() < until:
                torch.cuda._sleep(SPIN_CYCLES)  # type: ignore[no-untyped-call]
                torch.cuda.synchronize()
                time.sleep(APART_S)
        path = traces / f"{number:03}.json"
        traced.export_chrome_trace(str(path))
        path.with_suffix(".json.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
        path.unlink()
        number += 1
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["--program"]:
        return program(Path(argv[1]))
    benchmark = watched.Benchmark("clock", PERIODS, measure, table, needed_s=SECONDS + 30.0)
    return watched.run(benchmark, description=__doc__, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
