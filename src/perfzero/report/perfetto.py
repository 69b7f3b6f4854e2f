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

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from perfzero.attribute.causes import Cause
from perfzero.attribute.gap_causes import GapCauses, gap_causes
from perfzero.counters import BY_NAME, COUNTERS
from perfzero.diagnose.idle_gaps import idle_gaps
from perfzero.diagnose.verdict import Finding
from perfzero.errors import BrokenRecording, NoRecording
from perfzero.report.host_lines import place
from perfzero.report.identity import identity
from perfzero.report.model import GpuReport, Report
from perfzero.report.perfetto_look import look_slices
from perfzero.report.perfetto_stacks import stack_slices
from perfzero.report.timeline import coarsen
from perfzero.report.trace_file import Arg, TraceFile, disjoint
from perfzero.series.clean import HIGHEST_RATIO_ZOOM, POLLED_LONGEST, clean
from perfzero.stacks import HostStacks
from perfzero.store.reader import Recording, open_recording
from perfzero.store.stacks import read_stacks
from perfzero.values import FloatArray, IntArray, Samples
from perfzero.words.said import say

MOST_VALUES = 5_000_000
"""Of all counters of PM sampling together: 160 MB, which a browser loads in seconds."""

FOR_BURSTS = 0.25
"""Of these values, for bursts: they are short, and are there to be fine."""

MOST_LOOKS = 16
"""As many as a report is made of."""

HOLE_NS = 2_000
"""A sample that starts so much later than its neighbour's end, and by half of itself, follows a hole."""

Tell = Callable[[str], None]
"""Is told what is done next."""


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
    tell(say("export.program"))
    program = trace.track(f"program: {' '.join(report.process.command) or 'unknown'}", in_order=True)
    _host(trace, program, recording)
    looks = list({look.file: look for look in recording.looks if look.file}.values())
    for look in looks[:MOST_LOOKS]:
        tell(say("export.look", pid=look.pid))
        written.doubts += look_slices(trace, program, recording.path, look, kernels)
    if len(looks) > MOST_LOOKS:
        written.doubts.append(
            f"Of {len(looks)} looks inside the program the first {MOST_LOOKS} were written."
        )
    if stacks is not None:
        tell(say("export.stacks"))
        written.doubts += stack_slices(trace, program, stacks, offset_ns=_offset_ns(report))
    written.slices, written.values = trace.slices, trace.values
    return written


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
        below = trace.track(f"waits for {place(cause.frame)}", track, about=cause.activity)
        name = f"{place(cause.frame)} {cause.text}".strip()
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


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
