"""
Makes a look slim enough to share: of the trace only what the breakdown is made of, and no folder in it.

What is written is made of what `kineto` read, so nothing can be in it that was not understood. It is a trace
as PyTorch's profiler exports it, which `kineto` and Perfetto read, and its times are exact. Left out is

- what `kineto` passes over: arrows from launches to kernels, ranges as the GPU saw them, overhead, names of
  threads, occupancy, grids, bytes of copies;
- launches that no work of the GPU belongs to: half of them ask for nothing but an error code;
- operators that nobody asks for. Whose a kernel is depends on what was open at its launch, at the start of
  the call that was noted with it, and for backward work at the start of the forward call with autograd's
  number. So an operator is kept if it was open at such a moment, if it was noted, or if it has a number;
- of the arrows from forward to backward operators all but one for each thread that made nodes.

Of the 66,550 events of a ResNet-50 23,100 stay, and 0.40 MB of 1.32 (H200, PyTorch 2.11, 2026-11-30).

A file whose path begins at a root becomes its name alone, but for what says that a function is a library's:
`site-packages/`, `dist-packages/` or `/lib/pythonX.Y/` and what follows, and `torchinductor_/` without the
user's name. A number stands for the folder where two files would be called the same, or one like a module of
the standard library. Other paths stay as they are: Kineto has taken the folder on `sys.path` off them, and
what is left is how Python names the module.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from perfzero.errors import BrokenRecording
from perfzero.store.kineto import read_trace
from perfzero.traces import (
    WORK_KINDS,
    BoolArray,
    Launches,
    Operators,
    Site,
    Spans,
    Tensor,
    Trace,
    Work,
    WorkKind,
)
from perfzero.values import IntArray
from perfzero.words.said import say

LEVEL = 9
"""Of gzip, its highest: a look is written once, and sent and kept."""

HOST = "host"
"""Stands for the number of the process, which a trace of one process does not need."""

_FARTHEST_NS = (1 << 43) * 1000
"""A hundred days: as far from the base a double of microseconds tells each nanosecond."""

_LAST_BASE_NS = 2**61 - 1
"""What `kineto` reads as the base."""

_CATEGORIES: dict[WorkKind, str] = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}

_ROOTED = re.compile(r"[/\\~]|\.{1,2}[/\\]|[A-Za-z]:[/\\]")
_LIBRARY = re.compile(r".*((?<=/)(?:site|dist)-packages/.*|/lib/python[0-9.]+/.*)", re.DOTALL)
_COMPILED = re.compile(r"(?:.*/)?torchinductor_[^/]*/(?:.*/)?(?P<name>[^/]+)", re.DOTALL)

Event = dict[str, Any]


def slim_look(path: Path, *, hide: Callable[[str], str]) -> tuple[bytes, tuple[str, ...]]:
    """
    The slim file for the look in the file *path*, the same bytes each time, and doubts about the original.

    *hide* takes what is not to be told from the name of an operator, which may be any text. Raises
    `NoRecording` or `BrokenRecording` where there is no trace to be trusted.
    """
    trace = read_trace(path)
    base_ns = _base(trace)
    if base_ns is None:
        raise BrokenRecording(say("file.far_apart", path=path))
    events = _Events(trace, base_ns, short_files(_files(trace)), hide)
    into = io.BytesIO()
    with gzip.GzipFile("", "wb", LEVEL, into, mtime=0) as file:
        file.write(b'{"schemaVersion":1,"baseTimeNanoseconds":%d,"traceEvents":[' % base_ns)
        for number, event in enumerate(events.all()):
            text = json.dumps(event, separators=(",", ":"), allow_nan=False)
            file.write((",\n" if number else "\n").encode() + text.encode())
        file.write(b"\n]}\n")
    return into.getvalue(), trace.doubts


def short_files(files: Iterable[str]) -> dict[str, str]:
    """Each of *files* without its folders, so that no two get the same name, and a library's stays one."""
    different = sorted(set(files))
    short = {file: file for file in different if not _ROOTED.match(file)}
    taken = set(short.values())
    for file in different:
        if file not in short:
            short[file] = _free(file.replace("\\", "/"), taken)
            taken.add(short[file])
    return short


def _free(path: str, taken: set[str]) -> str:
    """What is left of *path*, and not *taken*."""
    folder, name = "", path.rstrip("/").rpartition("/")[2] or "file"
    if (library := _LIBRARY.fullmatch(path)) is not None:
        folder, _, name = library[1].rpartition("/")
    elif (compiled := _COMPILED.fullmatch(path)) is not None:
        folder, name = "torchinductor_", compiled["name"]
    # Without a folder a module of the standard library is known by its name, and made-up code by its "<".
    looks_foreign = name.removesuffix(".py") in sys.stdlib_module_names or name.startswith("<")
    wanted = f"{folder}/{name}" if folder else name
    number = 0
    while wanted in taken or (looks_foreign and not folder and not number):
        number += 1
        wanted = f"{folder}/{number}/{name}" if folder else f"{number}/{name}"
    return wanted


def _files(trace: Trace) -> Iterator[str]:
    yield from (module.site.file for module in trace.modules if module.site is not None)
    yield from (site.file for site in trace.sites)
    yield from (function.file for function in trace.functions)


def _base(trace: Trace) -> int | None:
    """From when times are to count; None where they lie so far apart that no base serves them all."""
    spans = (trace.operators.spans, trace.module_calls, trace.replays, trace.optimizer_calls)
    more = (trace.steps, trace.frames, trace.work, trace.launches, trace.allocations)
    tables = [t for t in (*spans, *more) if len(t)]
    if not tables:
        return 0
    first, last = min(int(t.start_ns.min()) for t in tables), max(int(t.start_ns.max()) for t in tables)
    base_ns = min(max(0, first // 1000 * 1000), _LAST_BASE_NS)
    return base_ns if max(base_ns - first, last - base_ns) < _FARTHEST_NS else None


class _Events:
    """The events of the slim file, in the order in which they are written."""

    def __init__(
        self, trace: Trace, base_ns: int, files: Mapping[str, str], hide: Callable[[str], str]
    ) -> None:
        self._trace, self._base_ns, self._files, self._hide = trace, base_ns, files, hide
        self._threads: dict[int, int] = {}

    def all(self) -> Iterator[Event]:
        trace, launches = self._trace, self._trace.launches
        for row in range(len(trace.steps)):
            yield self._range(f"perfzero.step|{trace.steps.what[row]}", trace.steps, row)
        for row in _rows(trace.module_calls):
            module = trace.modules[trace.module_calls.what[row]]
            # With an empty place a module "?" of class CUDAGraph would be read as a replay.
            place = "" if module.site is None else f"|{self._place(module.site)}"
            name = f"perfzero.module|{module.path}|{module.class_name}{place}"
            yield self._range(name, trace.module_calls, row)
        for row in _rows(trace.replays):
            site = trace.replays.what[row]
            place = "" if site < 0 else self._place(trace.sites[site])
            yield self._range(f"perfzero.replay|{place}", trace.replays, row)
        for row in range(len(trace.optimizer_calls)):
            yield self._range("Optimizer.step", trace.optimizer_calls, row)
        for row in _rows(trace.frames):
            function = trace.functions[trace.frames.what[row]]
            name = f"{self._files[function.file]}({function.line}): {function.name}"
            yield self._on_host("python_function", name, trace.frames, row, {})
        wanted = trace.work.correlation[trace.work.correlation > 0]
        needed = np.isin(launches.correlation, wanted)
        if len(needed) and not needed.any():
            needed[0] = True  # a trace without any is told to have been taken without the program's help
        yield from self._operators(_asked_for(trace, needed))
        for row in np.flatnonzero(needed).tolist():
            name = "GraphLaunch" if launches.replay[row] else "Launch"
            arguments = {"correlation": int(launches.correlation[row])}
            yield self._on_host("cuda_runtime", name, launches, row, arguments)
        for row in range(len(trace.allocations)):
            name = "cudaFree" if trace.allocations.what[row] else "cudaMalloc"
            yield self._on_host("cuda_runtime", name, trace.allocations, row, {})
        yield from self._work()

    def _operators(self, asked: BoolArray) -> Iterator[Event]:
        """The operators that are *asked* for, and an arrow for each of autograd's numbers of a thread."""
        trace, operators, spans = self._trace, self._trace.operators, self._trace.operators.spans
        noted = set(_noted(trace).tolist())
        names: dict[int, str] = {}
        inputs: dict[int, Event] = {-1: {}}
        runs: dict[tuple[int, int], int] = {}
        for row in np.flatnonzero(asked).tolist():
            what, shapes = int(spans.what[row]), int(operators.inputs[row])
            if what not in names:
                names[what] = self._hide(operators.names[what])
            if shapes not in inputs:
                inputs[shapes] = _inputs(operators.shapes[shapes])
            arguments = _numbers(operators, row, noted) | inputs[shapes]
            yield self._on_host("cpu_op", names[what], spans, row, arguments)
            if operators.forward_thread[row] > 0:  # of several at one moment the reader finds the last one
                runs[int(spans.thread[row]), int(spans.start_ns[row])] = row
        found = {int(operators.forward_thread[row]): row for row in reversed(runs.values())}
        for number, forward in sorted(trace.forward_threads.items()):
            if (to := found.get(number)) is not None:
                at_ns = int(spans.start_ns[to])
                yield self._arrow("s", number, forward, at_ns)
                yield self._arrow("f", number, int(spans.thread[to]), at_ns)

    def _work(self) -> Iterator[Event]:
        work = self._trace.work
        for row in _as_they_appeared(work.name, work.start_ns):
            device, stream = int(work.device[row]), int(work.stream[row])
            arguments = {"device": device, "stream": stream, "correlation": int(work.correlation[row])}
            if (external := int(work.external_id[row])) > 0:
                arguments["External id"] = external
            if work.replay[row]:
                arguments["graph node id"] = 1
            cat, name = _CATEGORIES[WORK_KINDS[work.kind[row]]], work.names[work.name[row]]
            yield self._span(cat, name, device, stream, work, row, arguments)

    def _range(self, name: str, spans: Spans, row: int) -> Event:
        return self._on_host("user_annotation", name, spans, row, {})

    def _on_host(self, cat: str, name: str, spans: Spans | Launches, row: int, arguments: Event) -> Event:
        return self._span(cat, name, HOST, self._thread(int(spans.thread[row])), spans, row, arguments)

    def _span(
        self,
        cat: str,
        name: str,
        pid: str | int,
        tid: int,
        of: Spans | Launches | Work,
        row: int,
        more: Event,
    ) -> Event:
        start_ns, end_ns = int(of.start_ns[row]), int(of.end_ns[row])
        times = {"ts": _us(start_ns - self._base_ns), "dur": _us(end_ns - start_ns)}
        given = {"args": more} if more else {}
        return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, **times, **given}

    def _arrow(self, phase: str, number: int, thread: int, at_ns: int) -> Event:
        at = {"pid": HOST, "tid": self._thread(thread), "ts": _us(at_ns - self._base_ns)}
        return {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "id": number, **at, "bp": "e"}

    def _thread(self, thread: int) -> int:
        """Its number in the order of appearance, as the reader numbers it again."""
        return self._threads.setdefault(thread, len(self._threads))

    def _place(self, site: Site) -> str:
        return f"{self._files[site.file]}:{site.line}"


def _us(ns: int) -> int | float:
    """Microseconds that are read back as the same *ns*, of which there are fewer than `_FARTHEST_NS`."""
    return ns // 1000 if ns % 1000 == 0 else ns / 1000


def _as_they_appeared(what: IntArray, *order: IntArray) -> list[int]:
    """
    The rows of a table that is sorted by the columns of *order*, as they may have stood in the file.

    What is read first is numbered first, and of equals the first is told. So for each value of *what*, in
    their order, comes a row that may stand there: in front of it are those that equal it in *order* and come
    before it, and none of them has a value that is numbered later. All others follow as they are.
    """
    values = what.tolist()
    new = np.zeros(len(values), bool)
    for column in order:
        new[1:] |= column[1:] != column[:-1]
    leading: dict[int, tuple[int, int]] = {}  # value -> where its equals begin, and its row
    begin, highest = 0, -1
    for row, (value, is_new) in enumerate(zip(values, new.tolist(), strict=True)):
        if is_new:
            begin, highest = row, -1
        if value > highest:
            leading.setdefault(value, (begin, row))
            highest = value
    done: dict[int, int] = {}  # where equals begin -> up to which row they stand in the list
    found: list[int] = []
    for _, (begin, row) in sorted(leading.items()):
        found += range(done.get(begin, begin), row + 1)
        done[begin] = max(done.get(begin, begin), row + 1)
    others = np.ones(len(values), bool)
    others[found] = False
    return [*found, *np.flatnonzero(others).tolist()]


def _rows(spans: Spans) -> list[int]:
    return _as_they_appeared(spans.what, spans.start_ns, spans.end_ns)


def _noted(trace: Trace) -> IntArray:
    return trace.work.external_id[trace.work.external_id > 0]


def _asked_for(trace: Trace, needed: BoolArray) -> BoolArray:
    """Which operators the breakdown looks up, as above; *needed* are the launches that work belongs to."""
    operators, spans, launches = trace.operators, trace.operators.spans, trace.launches
    asked: BoolArray = (operators.sequence >= 0) | np.isin(operators.external_id, _noted(trace))
    asked[:1] = True  # where no steps are marked, the first one says when they begin
    thread = np.concatenate((launches.thread[needed], spans.thread[asked]))
    at_ns = np.concatenate((launches.start_ns[needed], spans.start_ns[asked]))
    edges = (at_ns, spans.start_ns, spans.end_ns)
    different, rank = np.unique(np.concatenate(edges), return_inverse=True)
    at, start, end = np.split(rank, np.cumsum([len(edge) for edge in edges[:-1]]))
    # Thread and moment as one number, so that one search is enough for all threads.
    moments, here = np.sort(thread * len(different) + at), spans.thread * len(different)
    return asked | (np.searchsorted(moments, here + start) < np.searchsorted(moments, here + end))


def _numbers(operators: Operators, row: int, noted: set[int]) -> Event:
    found = {}
    if (external := int(operators.external_id[row])) in noted:
        found["External id"] = external
    if (sequence := int(operators.sequence[row])) >= 0:
        found["Sequence number"] = sequence
    if thread := int(operators.forward_thread[row]):
        found["Fwd thread id"] = thread
    return found


def _inputs(tensors: tuple[Tensor, ...]) -> Event:
    """*tensors* as `kineto` reads them: those without a type are part of a list."""
    sizes: list[Any] = []
    strides: list[Any] = []
    types: list[str] = []
    for tensor in tensors:
        if tensor.dtype:
            sizes.append(list(tensor.shape))
            strides.append(list(tensor.strides))
            types.append(tensor.dtype)
            continue
        if not types or types[-1] != "TensorList":
            sizes.append([])
            strides.append([])
            types.append("TensorList")
        sizes[-1].append(list(tensor.shape))
        strides[-1].append(list(tensor.strides))
    return {"Input Dims": sizes, "Input type": types, "Input Strides": strides}
