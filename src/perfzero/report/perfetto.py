"""
A recording as a trace for Perfetto: what happened when, on one axis, to look at and to ask by SQL.

    GPU 0: NVIDIA H200
    ├── verdict                      the stretch that was judged; findings below it
    ├── idle                         the gaps of the time class `idle`, as far as time was judged
    ├── what it waits for            while the host was watched: the gaps, and below them a track for each
    │                                line of the program with what goes to it
    ├── sampling                     windows and bursts of PM sampling, and what is missing
    ├── kernels                      one track per stream, from looks inside the program
    └── counters                     by source: PM sampling with its bursts, GPM, NVML
    program
    ├── counters of the host, looks
    ├── process N                    modules, operators, launches, Python functions of each thread
    └── process N, sampled           the main thread's stack, the GIL

Sums over slices are the report's: `idle` over the time judged is its share, and what goes to a line over the
gaps is the share of that line (`diagnose.idle_gaps`, `attribute.gap_causes`).

A counter's value holds from the begin of a sample to its end; amounts are rates per second. What does not
change is not said again. Of a long recording neighbouring samples are merged (`MOST_VALUES`).
"""

from __future__ import annotations

import hashlib
import math
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from perfzero.attribute.causes import Cause
from perfzero.attribute.gap_causes import GapCauses, gap_causes
from perfzero.attribute.moments import main_thread
from perfzero.attribute.owners import BACKWARD, FORWARD, OPTIMIZER, Owners, find_owners
from perfzero.counters import BY_NAME, COUNTERS
from perfzero.diagnose.idle_gaps import idle_gaps
from perfzero.diagnose.verdict import Finding
from perfzero.errors import BrokenRecording, NoRecording
from perfzero.report.model import GpuReport, Report
from perfzero.report.timeline import coarsen
from perfzero.report.trace_file import Arg, TraceFile, disjoint
from perfzero.series.clean import HIGHEST_RATIO_ZOOM, POLLED_LONGEST, clean
from perfzero.stacks import Frame, GilUse, HostStacks, ProcessStacks
from perfzero.store.kineto import read_trace
from perfzero.store.reader import Recording, open_recording
from perfzero.store.stacks import read_stacks
from perfzero.traces import WORK_KINDS, Function, ModuleCall, Site, Spans, Trace
from perfzero.values import FloatArray, IntArray, Look, Samples

MOST_VALUES = 5_000_000
"""Of all counters of PM sampling together: 160 MB, which a browser loads in seconds."""

FOR_BURSTS = 0.25
"""Of these values, for bursts: they are short, and are there to be fine."""

MOST_SLICES = 4_000_000
"""Written of what the host and the looks tell; a file may have been made to have more."""

MOST_LOOKS = 16
"""As many as a report is made of."""

HOLE_NS = 2_000
"""A sample that starts so much later than its neighbour's end, and by half of itself, follows a hole."""

Tell = Callable[[str], None]
"""Is told what is done next."""

PHASES = {FORWARD: "forward", BACKWARD: "backward", OPTIMIZER: "optimizer"}


@dataclass(slots=True)
class Written:
    """
    What became of a trace: slices and values in it, and what could not be had.

    A value stands for `merged` samples of a window, and for `bursts_merged` of a burst.
    """

    slices: int = 0
    values: int = 0
    merged: int = 1
    bursts_merged: int = 1
    doubts: list[str] = field(default_factory=list)


def write_perfetto(
    path: Path, report: Report, file: BinaryIO, *, every_sample: bool = False, tell: Tell = lambda _: None
) -> Written:
    """
    Write the recording at *path*, of which *report* is the report, to *file*.

    *every_sample*: however many there are. Raises `UsageError` without the `perfetto` package.
    """
    recording = open_recording(path)
    trace = TraceFile(file, began_ns=max(1, report.start_ns), identity=identity(recording))
    written = Written()
    if not every_sample:
        written.merged, written.bursts_merged = _merged(report, recording)
    stacks = _stacks_of(recording)
    kernels: dict[int, int] = {}
    for gpu in sorted(report.gpus, key=lambda g: g.gpu.index):
        tell(f"GPU {gpu.gpu.index}")
        # Opened for each GPU anew: what was read of the one before is let go.
        kernels[gpu.gpu.index] = _gpu(trace, open_recording(path), gpu, stacks, written)
    tell("the program")
    program = trace.track(f"program: {' '.join(report.process.command) or 'unknown'}", in_order=True)
    _host(trace, program, recording)
    looks = list({look.file: look for look in recording.looks if look.file}.values())
    for look in looks[:MOST_LOOKS]:
        tell(f"the look inside process {look.pid}")
        _look(trace, program, recording.path, look, kernels, written)
    if len(looks) > MOST_LOOKS:
        written.doubts.append(
            f"Of {len(looks)} looks inside the program the first {MOST_LOOKS} were written."
        )
    if stacks is not None:
        tell("the stacks")
        offset_ns = _offset_ns(report)
        for process in stacks.processes:
            _sampled(trace, program, process, stacks.lines, offset_ns, written)
        if stacks.gil is not None:
            _gil(trace, program, stacks, offset_ns, written)
    written.slices, written.values = trace.slices, trace.values
    return written


def identity(recording: Recording) -> bytes:
    """16 bytes by which what was made of *recording* is known again, whatever its folder is called."""
    manifest = recording.manifest
    told = (manifest.created_ns, manifest.process.pid, [gpu.uuid for gpu in manifest.gpus])
    return hashlib.sha256(repr(told).encode()).digest()[:16]


def _merged(report: Report, recording: Recording) -> tuple[int, int]:
    """How many neighbouring samples of windows, and of bursts, share a value: `MOST_VALUES` at most."""
    windows = bursts = 0
    for gpu in report.gpus:
        table = gpu.timeline.table
        windows += len(table) * gpu.timeline.rows_merged * len(table.columns)
        samples = sum(w.samples for w in recording.windows(gpu.gpu.index) if w.kind == "zoom")
        bursts += samples * len(table.columns)
    fine = max(1, math.ceil(bursts / (FOR_BURSTS * MOST_VALUES)))
    return max(1, math.ceil(windows / max(1.0, MOST_VALUES - bursts / fine))), fine


def _stacks_of(recording: Recording) -> HostStacks | None:
    try:
        return read_stacks(recording.path)
    except (NoRecording, BrokenRecording):  # the report has said so
        return None


def _offset_ns(report: Report) -> int:
    """What the report added to the clock of the stacks."""
    return next((round(g.host.offset_s * 1e9) for g in report.gpus if g.host is not None), 0)


# --- one GPU -----------------------------------------------------------------------------------


def _gpu(
    trace: TraceFile, recording: Recording, gpu: GpuReport, stacks: HostStacks | None, written: Written
) -> int:
    """All of one GPU; the track for its kernels."""
    index = gpu.gpu.index
    top = trace.track(f"GPU {index}: {gpu.gpu.name}", in_order=True)
    _verdict(trace, top, gpu, recording)
    _idle(trace, top, gpu, recording)
    if stacks is not None and gpu.host is not None:
        found = gap_causes(stacks, recording.observation(index).pm, gpu.host)
        if found is not None:
            _waits(trace, top, gpu, found)
    _sampling(trace, top, recording, index)
    kernels = trace.track("kernels", top, in_order=True) if any(k.file for k in recording.looks) else 0
    windows = recording.windows(index)
    pm = clean(recording.samples("pm", index), windows=[w for w in windows if w.kind != "zoom"]).samples
    zoom = clean(
        recording.samples("zoom", index),
        windows=[w for w in windows if w.kind == "zoom"],
        highest=HIGHEST_RATIO_ZOOM,
    ).samples
    sampled = _joined(coarsen(pm, factor=written.merged), coarsen(zoom, factor=written.bursts_merged))
    _counters(trace, top, "counters: PM sampling", sampled)
    gpm = clean(recording.samples("gpm", index), longest=POLLED_LONGEST).samples
    _counters(trace, top, "counters: GPM", gpm)
    board = clean(recording.samples("board", index), longest=POLLED_LONGEST).samples
    _counters(trace, top, "counters: NVML", board)
    return kernels


def _verdict(trace: TraceFile, top: int, gpu: GpuReport, recording: Recording) -> None:
    diagnosis, steady = gpu.diagnosis, gpu.diagnosis.steady
    track = trace.track(
        "verdict", top, about="The stretch that was judged, and what was found.", in_order=True
    )
    began_ns = recording.observation(gpu.gpu.index).start_ns
    if began_ns < steady.start_ns:
        trace.slice(track, began_ns, steady.start_ns, "not judged", "warm_up", args={"why": steady.text})
    told: dict[str, Arg | None] = {
        "gpu": gpu.gpu.index,
        "tier": diagnosis.tier,
        "no_verdict": diagnosis.no_verdict,
        "steady": steady.text,
        "step_s": diagnosis.step_s,
        **({} if diagnosis.verdict is None else _finding(diagnosis.verdict)),
        **{f"time_{name}": share for name, share in diagnosis.shares.items()},
    }
    if gpu.host is not None:
        told |= {"host_idle": _known(gpu.host.idle), "host_seconds": gpu.host.seconds}
    trace.slice(track, steady.start_ns, steady.end_ns, diagnosis.headline, "verdict", args=told)
    for finding in diagnosis.findings:
        below = trace.track(f"finding: {finding.rule}", track)
        args = {"gpu": gpu.gpu.index, **_finding(finding), "because": "; ".join(finding.because)}
        trace.slice(below, steady.start_ns, steady.end_ns, finding.title, "finding", args=args)


def _finding(finding: Finding) -> dict[str, Arg | None]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "share": _known(finding.share),
        "confidence": _known(finding.confidence),
        "gain_low": None if finding.gain is None else _known(finding.gain.low),
        "gain_high": None if finding.gain is None else _known(finding.gain.high),
    }


def _idle(trace: TraceFile, top: int, gpu: GpuReport, recording: Recording) -> None:
    found = idle_gaps(recording.observation(gpu.gpu.index), gpu.diagnosis)
    if found is None:
        return
    about = (
        "Time with neither a kernel nor a copy, as far as it was judged. A slice is as long as the GPU was "
        "idle; within a sample in which it worked too nobody knows where it lies."
    )
    track = trace.track("idle", top, about=about, in_order=True)
    trace.many_slices(track, found.start_ns, found.start_ns + found.length_ns, "idle", "idle")
    judged = trace.track("judged", track, about="How much time was looked at, in samples.")
    steady = gpu.diagnosis.steady
    args: dict[str, Arg | None] = {"gpu": gpu.gpu.index, "judged_ns": found.judged_ns}
    trace.slice(judged, steady.start_ns, steady.end_ns, "judged", "judged", args=args)


def _waits(trace: TraceFile, top: int, gpu: GpuReport, found: GapCauses) -> None:
    """The gaps while the host was watched, and what of them goes to which line."""
    assert gpu.host is not None
    about = (
        "The GPU's gaps while the host was watched, and below them what of each goes to a line of the "
        "program: by where the host was seen, so that the sum is the line's share in the report."
    )
    track = trace.track("what it waits for", top, about=about, in_order=True)
    trace.many_slices(track, found.start_ns, found.start_ns + found.length_ns, "gap", "gap")
    for number, cause in enumerate(gpu.host.causes):
        below = trace.track(f"waits for {_place(cause.frame)}", track, about=cause.activity)
        name = f"{_place(cause.frame)} {cause.text}".strip()
        for at, given, seen in zip(
            found.start_ns.tolist(), found.given[number].tolist(), found.seen[number].tolist(), strict=True
        ):
            if given > 0:
                args = {"gpu": gpu.gpu.index, **_cause(cause), "seen": seen}
                trace.slice(below, at, at + given, name, "cause", args=args)


def _cause(cause: Cause) -> dict[str, Arg | None]:
    return {
        "cause": cause.activity,
        "file": cause.frame.file,
        "line": cause.frame.line,
        "function": cause.frame.function,
        "text": cause.text,
        "share": cause.share,
        "share_low": cause.low,
        "share_high": cause.high,
    }


def _sampling(trace: TraceFile, top: int, recording: Recording, index: int) -> None:
    track = trace.track(
        "sampling", top, about="When PM counters were sampled, and what is missing.", in_order=True
    )
    windows = recording.windows(index)
    for kind, chosen in (
        ("windows", [w for w in windows if w.kind != "zoom"]),
        ("zoom bursts", [w for w in windows if w.kind == "zoom"]),
    ):
        if not chosen:
            continue
        below = trace.track(kind, track)
        start_ns, end_ns = disjoint(
            np.array([w.start_ns for w in chosen], np.int64), np.array([w.end_ns for w in chosen], np.int64)
        )
        for window, start, end in zip(chosen, start_ns.tolist(), end_ns.tolist(), strict=True):
            args: dict[str, Arg | None] = {
                "gpu": index,
                "period_ns": window.period_ns,
                "samples": window.samples,
                "lost": window.lost,
            }
            trace.slice(below, start, end, window.kind, "window", args=args)
    gaps = recording.gaps(index)
    if gaps:
        below = trace.track("missing", track)
        start_ns, end_ns = disjoint(
            np.array([g.start_ns for g in gaps], np.int64), np.array([g.end_ns for g in gaps], np.int64)
        )
        for gap, start, end in zip(gaps, start_ns.tolist(), end_ns.tolist(), strict=True):
            trace.slice(below, start, end, gap.reason, "missing", args={"gpu": index, "source": gap.source})
    notes = recording.notes(index)
    if notes:
        below = trace.track("notes", track)
        for note in notes:
            trace.instant(below, max(1, note.time_ns), note.text, "note", args={"kind": note.kind})


# --- counters ----------------------------------------------------------------------------------


def _joined(windows: Samples, bursts: Samples) -> Samples:
    """Both in one table, in the order of time."""
    if not len(bursts):
        return windows
    table = Samples.concat([windows, bursts])
    order = np.argsort(table.start_ns, kind="stable")
    return Samples(
        table.start_ns[order], table.end_ns[order], {name: v[order] for name, v in table.columns.items()}
    )


def _counters(trace: TraceFile, top: int, name: str, table: Samples) -> None:
    named = [c.name for c in COUNTERS if table.has(c.name)]
    if not named:
        return
    group = trace.track(name, top, in_order=True)
    seconds = table.duration_s
    for column in named:
        counter, values = BY_NAME[column], table.columns[column]
        unit: str = counter.unit
        if counter.kind == "total":
            unit = f"{unit}/s"
            values = np.divide(values, seconds, out=np.full(len(table), np.nan), where=seconds > 0)
        track = trace.track(column, group, about=counter.doc, unit=unit)
        trace.counter(track, *changes(table.start_ns, table.end_ns, values))


def changes(start_ns: IntArray, end_ns: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
    """
    When a quantity changes that has *values* (n,) in [start, end), and to what: NaN where nothing is known.

    Samples are in order; those that touch each other with one value are one.
    """
    if not len(values):
        return start_ns, values
    apart = start_ns[1:] - end_ns[:-1]
    hole = apart > np.maximum((end_ns - start_ns)[1:] / 2, HOLE_NS)
    before = np.append(np.nan, np.where(hole, np.nan, values[:-1]))
    same = (values == before) | (np.isnan(values) & np.isnan(before))
    last = np.append(hole, True) & np.isfinite(values)
    at_ns = np.concatenate([end_ns[last], start_ns[~same]])
    told = np.concatenate([np.full(int(last.sum()), np.nan), values[~same]])
    order = np.argsort(at_ns, kind="stable")
    return at_ns[order], told[order]


# --- the program -------------------------------------------------------------------------------


def _host(trace: TraceFile, program: int, recording: Recording) -> None:
    _counters(
        trace, program, "counters: host", clean(recording.samples("host"), longest=POLLED_LONGEST).samples
    )
    if not recording.looks:
        return
    track = trace.track("looks inside the program", program, about="The program is slower meanwhile.")
    looks = sorted(recording.looks, key=lambda look: (look.start_ns, -look.end_ns))

    def describe(i: int) -> dict[str, Any]:
        look = looks[i]
        args = {"pid": look.pid, "file": look.file, "reason": look.reason, "cost_s": look.cost_s}
        return {"name": f"look inside process {look.pid}", "category": "look", "args": args}

    trace.within_each_other(
        track,
        np.array([look.start_ns for look in looks], np.int64),
        np.array([look.end_ns for look in looks], np.int64),
        describe,
    )


def _look(
    trace: TraceFile, program: int, folder: Path, look: Look, kernels: Mapping[int, int], written: Written
) -> None:
    """What the program's own profiler saw of some steps."""
    try:
        seen = read_trace(folder / look.file)
    except (BrokenRecording, NoRecording) as error:
        written.doubts.append(str(error).splitlines()[0])
        return
    if len(seen.operators) + len(seen.frames) + len(seen.work) + trace.slices > MOST_SLICES:
        written.doubts.append(f"{look.file}: it has too many events; it was left out.")
        return
    owners = _owners(seen, look, written)
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


def _owners(seen: Trace, look: Look, written: Written) -> Owners | None:
    try:
        return find_owners(seen)
    except Exception as error:  # noqa: BLE001 - a look may hold anything, and all else stands without it
        written.doubts.append(
            f"{look.file}: to whom its kernels belong is not known ({type(error).__name__})."
        )
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


# --- stacks ------------------------------------------------------------------------------------


def _sampled(
    trace: TraceFile,
    program: int,
    process: ProcessStacks,
    lines: Mapping[tuple[str, int], str],
    offset_ns: int,
    written: Written,
) -> None:
    """Where the thread of *process* that runs its program was, moment by moment."""
    if not len(process):
        return
    what = "main thread" if process.role == "main" else "worker"
    about = f"Sampled {process.rate_hz:.0f} times a second. {offset_ns / 1e6:g} ms were added to the times."
    track = trace.track(f"process {process.pid}, sampled: {what}", program, about=about)
    rows = process.thread == main_thread(process)
    if not _stack_slices(trace, track, process, np.flatnonzero(rows), lines, offset_ns):
        written.doubts.append(f"The stacks of process {process.pid} are too many; the rest was left out.")


def _stack_slices(
    trace: TraceFile,
    track: int,
    process: ProcessStacks,
    rows: IntArray,
    lines: Mapping[tuple[str, int], str],
    offset_ns: int,
) -> bool:
    """A slice for each frame as long as it is seen; whether all could be written."""
    now: tuple[int, ...] = ()
    names = [_place_named(frame) for frame in process.frames]
    at = 0
    for at, stack in zip(
        (process.time_ns[rows] + offset_ns).tolist(), process.stack[rows].tolist(), strict=True
    ):
        frames = process.stacks[stack][::-1]
        common = next(
            (k for k, (a, b) in enumerate(zip(now, frames, strict=False)) if a != b),
            min(len(now), len(frames)),
        )
        for _ in now[common:]:
            trace.end(track, at)
        now = now[:common]
        if trace.slices > MOST_SLICES:
            break
        for frame in frames[common:]:
            told = process.frames[frame]
            args: dict[str, Arg | None] = {
                "file": told.file,
                "line": told.line,
                "text": lines.get((told.file, told.line)),
            }
            trace.begin(track, at, names[frame], "stack", args=args)
        now = frames
    for _ in now:
        trace.end(track, max(at, process.end_ns + offset_ns))
    return trace.slices <= MOST_SLICES


def _gil(trace: TraceFile, program: int, stacks: HostStacks, offset_ns: int, written: Written) -> None:
    use = stacks.gil
    assert use is not None
    track = trace.track("GIL: the main thread waits", program, about="From one look to the next.")
    start_ns, end_ns = waits(use)
    trace.many_slices(track, start_ns + offset_ns, end_ns + offset_ns, "waits for the GIL", "gil")
    if use.holders is None or not len(use.holders):
        return
    below = trace.track(
        "GIL: who holds it", program, about="Stacks of threads while they hold it.", in_order=True
    )
    for thread in np.unique(use.holders.thread).tolist():
        one = trace.track(f"thread {thread}", below)
        rows = np.flatnonzero(use.holders.thread == thread)
        if not _stack_slices(trace, one, use.holders, rows, stacks.lines, offset_ns):
            written.doubts.append("The stacks of those who hold the GIL are too many; the rest was left out.")
            return


def waits(use: GilUse) -> tuple[IntArray, IntArray]:
    """
    When the main thread waited for the GIL: from a look that found it so to the next one, neighbours joined.

    No look stands for more than four mean distances between looks.
    """
    waiting = use.waits > 0
    if not waiting.any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    longest_ns = int(4e9 / use.rate_hz)
    until_ns = np.minimum(
        np.append(use.time_ns[1:], use.time_ns[-1] + longest_ns // 4), use.time_ns + longest_ns
    )
    start_ns, end_ns = use.time_ns[waiting], until_ns[waiting]
    first = np.flatnonzero(np.append(True, start_ns[1:] != end_ns[:-1]))
    return start_ns[first], end_ns[np.append(first[1:], len(start_ns)) - 1]


def _place(frame: Frame) -> str:
    return f"{posixpath.basename(frame.file)}:{frame.line}"


def _place_named(frame: Frame) -> str:
    return f"{frame.function} ({_place(frame)})"


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
