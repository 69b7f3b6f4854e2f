"""
The step loop that the programs of the zoo share: repeat a step, time it, print one line.

As in a training loop that logs its loss a little late, the host runs ahead of the GPU by at most
`IN_FLIGHT` steps; nothing else is synchronised. The time of a step is the time between the ends of two
steps in a row, taken from CUDA events, so it contains every wait.
"""

from __future__ import annotations

import argparse
import json
import statistics
import struct
import sys
import time
from collections.abc import Callable
from io import RawIOBase
from typing import Any

IN_FLIGHT = 2
ROW = struct.Struct("<qd")
"""One row of the log: Unix time in ns at which the host saw the end of the step, and its length in ms."""


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that all programs have."""
    p = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    p.add_argument("--seconds", type=float, default=20.0, help="length of the steady loop")
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu is for a dry run only")
    p.add_argument("--log", default=None, help="file for one row per step: <int64 end_ns, float64 ms>")
    p.add_argument("--seed", type=int, default=0, help="seed of the random data")
    return p


def run(
    step: Callable[[], object], *, args: argparse.Namespace, counts: dict[str, Any], warmup: int = 3
) -> None:
    """
    Repeat *step* for `args.seconds` and print a line of JSON.

    *counts* is what one step is known to do ("bytes", "flops", "launches": per step); it is printed too.
    """
    for _ in range(warmup):
        step()
    # Unbuffered: the rows of a program that is ended early must be there, and steps are not that short.
    log = open(args.log, "wb", buffering=0) if args.log else None  # noqa: SIM115 (closed below)
    times = _on_gpu(step, args.seconds, log) if args.device == "cuda" else _on_cpu(step, args.seconds, log)
    if log:
        log.close()
    total = sum(times) / 1e3
    # fmt: off
    line = {
        "program": sys.argv[0].rsplit("/", 1)[-1], "steps": len(times), "seconds": round(total, 4),
        "step_ms_median": round(statistics.median(times), 5) if times else None,
        "step_ms_mean": round(statistics.fmean(times), 5) if times else None,
        "per_step": counts,
    }
    # fmt: on
    print(json.dumps(line), flush=True)


def captured(step: Callable[[], object]) -> Callable[[], object]:
    """*step* recorded into a CUDA graph, after three runs of it; calling the result replays the graph."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    replay: Callable[[], object] = graph.replay
    return replay


def _on_gpu(step: Callable[[], object], seconds: float, log: RawIOBase | None) -> list[float]:
    import torch

    torch.cuda.synchronize()
    ring = [torch.cuda.Event(enable_timing=True) for _ in range(IN_FLIGHT + 2)]
    times: list[float] = []
    ring[0].record()
    done, submitted = 0, 0
    end = time.monotonic() + seconds
    while True:
        running = time.monotonic() < end
        if running:
            step()
            submitted += 1
            ring[submitted % len(ring)].record()
        elif done == submitted:
            return times
        if submitted - done >= IN_FLIGHT or not running:
            last, this = ring[done % len(ring)], ring[(done + 1) % len(ring)]
            this.synchronize()
            times.append(last.elapsed_time(this))
            done += 1
            if log:
                log.write(ROW.pack(time.time_ns(), times[-1]))


def _on_cpu(step: Callable[[], object], seconds: float, log: RawIOBase | None) -> list[float]:
    times: list[float] = []
    last = time.perf_counter()
    end = last + seconds
    while last < end:
        step()
        now = time.perf_counter()
        times.append((now - last) * 1e3)
        last = now
        if log:
            log.write(ROW.pack(time.time_ns(), times[-1]))
    return times
