"""
A look written by hand, from the documented keys of Kineto's format.

No GPU made the kernels in here, and no number of them says anything about one. Real traces are in
`tests/recordings/_looks`, of a GPU, and in `tests/fixtures/look`, of a CPU with Python's frames. By hand
comes what those lack: replays of graphs, several GPUs and streams, recomputation, double backward, kernels
whose launch was lost, and what someone made who wants to do harm.
Times are microseconds.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from perfzero.store.kineto import read_trace
from perfzero.traces import Trace

MAIN, ENGINE = 100, 200
"""The program's thread, and the one that autograd runs the backward pass of a GPU on."""

BASE_NS = 1_790_000_000_000_000_000


class Look:
    """Collects events; `write` makes the file, `trace` reads it."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.header: dict[str, Any] = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS}
        self._correlation = 0
        self._flow = 0

    def span(self, cat: str, name: str, start: float, end: float, tid: int | str = MAIN, **args: Any) -> None:
        self.events.append(
            {
                "ph": "X", "cat": cat, "name": name, "pid": 4242, "tid": tid,
                "ts": start, "dur": end - start, "args": args,
            }
        )  # fmt: skip

    def step(self, number: int, start: float, end: float) -> None:
        self.span("user_annotation", f"perfzero.step|{number}", start, end)

    def module(
        self, path: str, class_name: str, start: float, end: float, tid: int = MAIN, *, site: str = ""
    ) -> None:
        self.span("user_annotation", f"perfzero.module|{path}|{class_name}|{site}", start, end, tid)

    def replay(self, start: float, end: float, tid: int = MAIN, *, site: str = "") -> None:
        self.span("user_annotation", f"perfzero.replay|{site}", start, end, tid)

    def optimizer(self, start: float, end: float, tid: int = MAIN) -> None:
        self.span("user_annotation", "Optimizer.step#Adam.step", start, end, tid)

    def frame(self, name: str, start: float, end: float, tid: int = MAIN) -> None:
        self.span("python_function", name, start, end, tid)

    def op(
        self,
        name: str,
        start: float,
        end: float,
        tid: int = MAIN,
        *,
        sequence: int | None = None,
        forward_thread: int = 0,
        external_id: int = 0,
        shapes: list[Any] | None = None,
        strides: list[Any] | None = None,
        types: list[Any] | None = None,
    ) -> None:
        args: dict[str, Any] = {"External id": external_id}
        if sequence is not None:
            args |= {"Sequence number": sequence, "Fwd thread id": forward_thread}
        if shapes is not None:
            args |= {"Input Dims": shapes, "Input type": types or ["float"] * len(shapes)}
        if strides is not None:
            args["Input Strides"] = strides
        self.span("cpu_op", name, start, end, tid, **args)

    def flow(self, from_us: float, to_us: float, *, from_tid: int = MAIN, to_tid: int = ENGINE) -> None:
        """The arrow from a forward operator to its backward one."""
        self._flow += 1
        for phase, at, tid in (("s", from_us, from_tid), ("f", to_us, to_tid)):
            self.events.append(
                {"ph": phase, "id": self._flow, "pid": 4242, "tid": tid, "ts": at,
                 "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"}
            )  # fmt: skip

    def launch(self, at: float, tid: int = MAIN, *, name: str = "cudaLaunchKernel") -> int:
        """A launch; returns its correlation."""
        self._correlation += 1
        self.span("cuda_runtime", name, at, at + 1, tid, correlation=self._correlation)
        return self._correlation

    def kernel(
        self,
        name: str,
        start: float,
        end: float,
        *,
        correlation: int,
        device: int = 0,
        stream: int = 7,
        cat: str = "kernel",
        **args: Any,
    ) -> None:
        """A piece of GPU work of a launch."""
        self.events.append(
            {
                "ph": "X", "cat": cat, "name": name, "pid": device, "tid": stream,
                "ts": start, "dur": end - start,
                "args": {"device": device, "stream": stream, "correlation": correlation, **args},
            }
        )  # fmt: skip

    def work(
        self, name: str, start: float, end: float, *, at: float, tid: int = MAIN, stream: int = 7
    ) -> None:
        """A kernel and its launch at *at*."""
        self.kernel(name, start, end, correlation=self.launch(at, tid), stream=stream)

    def write(self, folder: Path) -> Path:
        path = folder / "look-4242.json.gz"
        path.write_bytes(gzip.compress(json.dumps({**self.header, "traceEvents": self.events}).encode()))
        return path

    def trace(self, folder: Path) -> Trace:
        return read_trace(self.write(folder))
