"""
What a look inside the program saw, as slices: steps, modules, operators, launches and the GPU's work.

Work lies below the GPU that did it, as far as that is known: a process numbers its GPUs by itself, and which
ones it used the driver has told. An arrow leads from a launch to the first work that it began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from perfzero.attribute.owners import BACKWARD, FORWARD, OPTIMIZER, Owners, find_owners
from perfzero.errors import BrokenRecording, NoRecording
from perfzero.report.trace_file import Arg, TraceFile, disjoint
from perfzero.store.kineto import read_trace
from perfzero.traces import WORK_KINDS, Function, ModuleCall, Site, Spans, Trace
from perfzero.values import Look

PHASES = {FORWARD: "forward", BACKWARD: "backward", OPTIMIZER: "optimizer"}
"""Phases of a step that are told with a kernel."""


def look_slices(
    trace: TraceFile, program: int, folder: Path, look: Look, kernels: Mapping[int, int]
) -> list[str]:
    """
    Write what *look* saw below the track *program*; what could not be had of it, in sentences.

    *kernels*: for each GPU, by index, the track below which its streams belong.
    """
    try:
        seen = read_trace(folder / look.file)
    except (BrokenRecording, NoRecording) as error:
        return [str(error).splitlines()[0]]
    if trace.full(len(seen.operators) + len(seen.frames) + len(seen.work)):
        return [f"{look.file}: it has too many events; it was left out."]
    doubts: list[str] = []
    owners = _owners(seen, look, doubts)
    process = trace.track(f"process {look.pid}", program, about="From a look inside it.", in_order=True)
    _steps(trace, process, seen, look)
    flow_of = _launches(trace, process, seen)
    _spans(trace, process, "modules", seen.module_calls, lambda what: _module(seen.modules[what]))
    _spans(trace, process, "optimizer", seen.optimizer_calls, lambda _: _named("optimizer", "optimizer"))
    _spans(
        trace,
        process,
        "graph replays",
        seen.replays,
        lambda what: _replay(None if what < 0 else seen.sites[what]),
    )
    _spans(
        trace,
        process,
        "operators",
        seen.operators.spans,
        lambda what: _named(seen.operators.names[what], "operator"),
    )
    _spans(trace, process, "Python functions", seen.frames, lambda what: _function(seen.functions[what]))
    _work(trace, process, seen, look, owners, kernels, flow_of)
    return doubts


def _owners(seen: Trace, look: Look, doubts: list[str]) -> Owners | None:
    try:
        return find_owners(seen)
    except Exception as error:  # noqa: BLE001 - a look may hold anything, and all else stands without it
        doubts.append(f"{look.file}: to whom its kernels belong is not known ({type(error).__name__}).")
        return None


def _named(name: str, category: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "category": category, "args": args}


def _module(call: ModuleCall) -> dict[str, Any]:
    where: dict[str, Arg | None] = (
        {} if call.site is None else {"file": call.site.file, "line": call.site.line}
    )
    return _named(f"{call.path or 'model'} ({call.class_name})", "module", path=call.path, **where)


def _replay(site: Site | None) -> dict[str, Any]:
    return _named("replay", "replay", **({} if site is None else {"file": site.file, "line": site.line}))


def _function(function: Function) -> dict[str, Any]:
    return _named(function.name, "function", file=function.file, line=function.line)


def _steps(trace: TraceFile, process: int, seen: Trace, look: Look) -> None:
    track = trace.track("steps", process)
    if len(seen.steps):
        start_ns, end_ns = disjoint(seen.steps.start_ns, seen.steps.end_ns)
        numbers = seen.steps.what.tolist()
    else:
        times = np.sort(np.array(look.steps_ns, np.int64))
        start_ns, end_ns, numbers = times[:-1], times[1:], list(range(len(times[:-1])))
    for number, start, end in zip(numbers, start_ns.tolist(), end_ns.tolist(), strict=True):
        trace.slice(track, start, end, f"step {number}", "step")


def _spans(
    trace: TraceFile, process: int, name: str, spans: Spans, describe: Callable[[int], Mapping[str, Any]]
) -> None:
    """Stretches on threads of the host, a track for each thread."""
    threads = np.unique(spans.thread).tolist()
    for thread in threads:
        track = trace.track(name if len(threads) == 1 else f"{name}, thread {thread}", process)
        mine = spans.where(spans.thread == thread)

        def described(i: int, what: list[int] = mine.what.tolist()) -> Mapping[str, Any]:  # noqa: B008
            return describe(what[i])

        trace.within_each_other(track, mine.start_ns, mine.end_ns, described)


def _launches(trace: TraceFile, process: int, seen: Trace) -> dict[int, int]:
    """The launches, and the arrow that leads from the launch with each correlation."""
    launches = seen.launches
    with_work = set(seen.work.correlation.tolist())
    flow_of: dict[int, int] = {}
    threads = np.unique(launches.thread).tolist()
    for thread in threads:
        track = trace.track("launches" if len(threads) == 1 else f"launches, thread {thread}", process)
        rows = np.flatnonzero(launches.thread == thread)
        order = rows[np.lexsort((-launches.end_ns[rows], launches.start_ns[rows]))]
        numbers, replay = launches.correlation[order].tolist(), launches.replay[order].tolist()

        def describe(i: int, numbers: list[int] = numbers, replay: list[bool] = replay) -> dict[str, Any]:
            flows: tuple[int, ...] = ()
            if numbers[i] > 0 and numbers[i] in with_work and numbers[i] not in flow_of:
                flow_of[numbers[i]] = trace.flow()
                flows = (flow_of[numbers[i]],)
            name = "launch of a graph" if replay[i] else "launch"
            return {"name": name, "category": "launch", "flows": flows}

        trace.within_each_other(track, launches.start_ns[order], launches.end_ns[order], describe)
    return flow_of


def _work(
    trace: TraceFile,
    process: int,
    seen: Trace,
    look: Look,
    owners: Owners | None,
    kernels: Mapping[int, int],
    flow_of: dict[int, int],
) -> None:
    """What the GPUs did, a track for each stream, with whose work it is."""
    work = seen.work
    arrows = dict(flow_of)
    for device, stream in np.unique(np.stack([work.device, work.stream], axis=1), axis=0).tolist():
        gpu = _gpu_of(look, device, kernels)
        parent = process if gpu is None else kernels[gpu]
        name = f"stream {stream} of process {look.pid}" + ("" if gpu is not None else f", device {device}")
        track = trace.track(name, parent)
        rows = np.flatnonzero((work.device == device) & (work.stream == stream))
        start_ns, end_ns = disjoint(work.start_ns[rows], work.end_ns[rows])
        for row, start, end in zip(rows.tolist(), start_ns.tolist(), end_ns.tolist(), strict=True):
            arrow = arrows.pop(int(work.correlation[row]), None)
            trace.slice(
                track,
                start,
                end,
                work.names[work.name[row]],
                WORK_KINDS[work.kind[row]],
                args=_owner(seen, owners, row),
                flows=() if arrow is None else (arrow,),
            )


def _gpu_of(look: Look, device: int, kernels: Mapping[int, int]) -> int | None:
    """The GPU that the process of *look* numbers *device*; None where that is not known."""
    used = look.gpus or (tuple(kernels) if len(kernels) == 1 else ())
    if len(used) == 1:
        return used[0] if used[0] in kernels else None
    ordered = sorted(used)
    return ordered[device] if 0 <= device < len(ordered) and ordered[device] in kernels else None


def _owner(seen: Trace, owners: Owners | None, row: int) -> dict[str, Arg | None]:
    """Whose a piece of work is."""
    if owners is None:
        return {}
    told: dict[str, Arg | None] = {"phase": PHASES.get(int(owners.phase[row]))}
    module, operator, function = (int(a[row]) for a in (owners.module, owners.operator, owners.function))
    if module >= 0:
        told |= {"module": seen.modules[module].path or "model", "class": seen.modules[module].class_name}
    if operator >= 0:
        told["operator"] = seen.operators.names[int(seen.operators.spans.what[operator])]
    if function >= 0:
        told |= {"file": seen.functions[function].file, "line": seen.functions[function].line}
    return told
