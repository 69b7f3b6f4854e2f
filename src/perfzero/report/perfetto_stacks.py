"""
What the host was seen to do, as slices: stacks of threads within each other as calls are, and the GIL.

A thread was seen at moments; a frame's slice lasts from the first moment that shows it to the first one that
does not.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perfzero.attribute.moments import main_thread
from perfzero.report.host_lines import place
from perfzero.report.trace_file import Arg, TraceFile
from perfzero.stacks import GilUse, HostStacks, ProcessStacks
from perfzero.values import IntArray


def stack_slices(trace: TraceFile, program: int, stacks: HostStacks, *, offset_ns: int) -> list[str]:
    """
    Write what *stacks* tell below the track *program*; what was left out, in sentences.

    *offset_ns* is added to all their times, as the report did.
    """
    told = [_process(trace, program, process, stacks, offset_ns) for process in stacks.processes]
    if stacks.gil is not None:
        told.append(_gil(trace, program, stacks.gil, stacks, offset_ns))
    return [doubt for doubt in told if doubt]


def _process(
    trace: TraceFile, program: int, process: ProcessStacks, stacks: HostStacks, offset_ns: int
) -> str:
    """Where the thread of *process* that runs its program was, moment by moment; what was left out of it."""
    if not len(process):
        return ""
    what = "main thread" if process.role == "main" else "worker"
    about = f"Sampled {process.rate_hz:.0f} times a second. {offset_ns / 1e6:g} ms were added to the times."
    track = trace.track(f"process {process.pid}, sampled: {what}", program, about=about)
    rows = process.thread == main_thread(process)
    if _frames(trace, track, process, np.flatnonzero(rows), stacks.lines, offset_ns):
        return ""
    return f"The stacks of process {process.pid} are too many; the rest was left out."


def _frames(
    trace: TraceFile,
    track: int,
    process: ProcessStacks,
    rows: IntArray,
    lines: Mapping[tuple[str, int], str],
    offset_ns: int,
) -> bool:
    """A slice for each frame as long as it is seen; whether all could be written."""
    now: tuple[int, ...] = ()
    names = [f"{frame.function} ({place(frame)})" for frame in process.frames]
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
        if trace.full():
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
    return not trace.full()


def _gil(trace: TraceFile, program: int, use: GilUse, stacks: HostStacks, offset_ns: int) -> str:
    """When the main thread waited for the GIL, and who held it; what was left out of that."""
    track = trace.track("GIL: the main thread waits", program, about="From one look to the next.")
    start_ns, end_ns = waits(use)
    trace.many_slices(track, start_ns + offset_ns, end_ns + offset_ns, "waits for the GIL", "gil")
    if use.holders is None or not len(use.holders):
        return ""
    below = trace.track(
        "GIL: who holds it", program, about="Stacks of threads while they hold it.", in_order=True
    )
    for thread in np.unique(use.holders.thread).tolist():
        one = trace.track(f"thread {thread}", below)
        rows = np.flatnonzero(use.holders.thread == thread)
        if not _frames(trace, one, use.holders, rows, stacks.lines, offset_ns):
            return "The stacks of those who hold the GIL are too many; the rest was left out."
    return ""


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
