"""
Stacks on disk: `stacks.json.gz`, one file per recording, JSON compressed by gzip.

    {"schema": 1,
     "processes": [{"pid", "role", "start_ns", "end_ns", "rate_hz", "slack_ns",
                    "frames": [[file, line, function], ...],
                    "stacks": [[frame, ...], ...],             innermost first
                    "time_us": [...], "thread": [...], "stack": [...]}],
     "lines": [[file, line, text], ...],
     "doubts": [...],
     "gil": {"start_ns", "rate_hz", "time_us": [...], "waits": [...], "holders": {...}}}   where it was seen

`time_us` counts from `start_ns`, each value from the one before. `chrome_trace` reads what py-spy writes,
which comes of the memory of the observed program: that is as much of a stranger's as the recording itself.
Both have their sizes limited, before and after decompression, and a wrong type is a `BrokenRecording`.

`slim_stacks` makes them fit to share: files without folders, as in a slim look (`slim`), and nothing that no
moment was seen with.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from perfzero.errors import BrokenRecording, NoRecording
from perfzero.stacks import Frame, GilUse, HostStacks, ProcessStacks, Role
from perfzero.store.decode import clean_text, parse_json
from perfzero.store.redact import redact_text
from perfzero.store.regular import open_regular
from perfzero.store.schema import STACKS
from perfzero.store.slim import short_files
from perfzero.values import IntArray
from perfzero.words.said import say

SCHEMA = 1

MAX_TRACE_BYTES = 64 << 20
"""Of py-spy: 2,000 samples that change 14 frames of 170 bytes each, twice, are 10 MB."""

MAX_FILE_BYTES = 16 << 20
MAX_TEXT_BYTES = 64 << 20
MAX_PROCESSES = 16
MAX_ROWS = 200_000
"""Changes of stacks in one process; 2,000 samples of 8 threads are 16,000."""

MAX_FRAMES = 50_000
MAX_DEPTH = 512
"""Frames of one stack that are kept, the innermost; Python itself stops at 1,000."""

MAX_STACKED = 4_000_000
"""Frames of all different stacks of one process together: 16,000 of 40 frames are 640,000."""

MAX_NAME = 1024
MAX_LINES = 5_000
MAX_LINE = 160
"""Characters of a line of source: enough to see what it calls."""

MAX_THREADS = 1_000

_LAUNCHER = re.compile(r".*(/bin/[^/]+)", re.DOTALL)


def chrome_trace(file: BinaryIO) -> tuple[list[Frame], list[tuple[int, ...]], IntArray, IntArray, IntArray]:
    """
    Frames, stacks and rows (microseconds since py-spy's start, thread, stack) of a trace of one process.

    py-spy writes an event when a frame begins or ends to be seen. All of a thread with one time stamp are one
    sample: ends from the innermost frame outwards, beginnings from the outermost inwards. The last rows have
    empty stacks: then sampling ended. Raises ValueError.
    """
    data = file.read(MAX_TRACE_BYTES + 1)
    if len(data) > MAX_TRACE_BYTES:
        raise ValueError(say("file.stacks_larger", size=MAX_TRACE_BYTES >> 20))
    events = parse_json(data)
    if not isinstance(events, list):
        raise ValueError(say("file.pyspy_no_events"))
    frames: dict[Frame, int] = {}
    stacks: dict[tuple[int, ...], int] = {}
    threads: dict[int, int] = {}
    open_: dict[int, list[int]] = {}
    rows: list[tuple[int, int, int]] = []
    changed: tuple[int, int] | None = None
    stacked = 0

    def keep() -> None:
        nonlocal stacked
        if changed is not None:
            found = tuple(reversed(open_[changed[1]][-MAX_DEPTH:]))
            if found not in stacks:
                stacks[found] = len(stacks)
                stacked += len(found)
            rows.append((*changed, stacks[found]))

    for event in events:
        phase = event.get("ph") if isinstance(event, dict) else None
        if phase not in ("B", "E"):
            continue
        time_us, thread = event.get("ts"), event.get("tid")
        if type(time_us) is not int or type(thread) is not int or not 0 <= time_us < 1 << 50:
            raise ValueError(say("file.pyspy_no_time"))
        number = threads.setdefault(thread, len(threads))
        if (time_us, number) != changed:
            keep()
            changed = (time_us, number)
        stack = open_.setdefault(number, [])
        if phase == "B":
            stack.append(frames.setdefault(_event_frame(event), len(frames)))
        elif stack:
            stack.pop()
        many = len(frames) > MAX_FRAMES or len(rows) > MAX_ROWS or len(threads) > MAX_THREADS
        if many or stacked > MAX_STACKED:
            raise ValueError(say("file.stacks_many"))
    keep()
    table = np.array(sorted(rows), np.int64).reshape(-1, 3)
    return list(frames), list(stacks), table[:, 0], table[:, 1], table[:, 2]


def _event_frame(event: Mapping[str, Any]) -> Frame:
    args = event.get("args")
    name = event.get("name")
    if not isinstance(args, dict) or not isinstance(name, str) or not isinstance(args.get("filename"), str):
        raise ValueError(say("file.pyspy_no_frame"))
    line = args.get("line")
    return Frame(
        _text(args["filename"]), line if type(line) is int and 0 <= line < 1 << 31 else 0, _text(name)
    )


def write_stacks(folder: Path, stacks: HostStacks) -> None:
    """Put *stacks* into the recording in *folder*. Raises OSError, also where there are some already."""
    made = os.open(folder / STACKS, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    with open(made, "wb") as file:
        file.write(encode_stacks(stacks))


def encode_stacks(stacks: HostStacks) -> bytes:
    """The file for *stacks*, the same bytes each time."""
    document = {
        "schema": SCHEMA,
        "processes": [_process(p) for p in stacks.processes],
        "lines": [[file, line, redact_text(text)] for (file, line), text in stacks.lines.items()],
        "doubts": [redact_text(doubt) for doubt in stacks.doubts],
        **({} if stacks.gil is None else {"gil": _gil(stacks.gil)}),
    }
    data = json.dumps(document, allow_nan=False, separators=(",", ":")).encode(errors="replace")
    into = io.BytesIO()
    with gzip.GzipFile("", "wb", 6, into, mtime=0) as packed:
        packed.write(data)
    return into.getvalue()


def slim_stacks(stacks: HostStacks, start_ns: int, end_ns: int, *, hide: Callable[[str], str]) -> HostStacks:
    """
    What *stacks* tell of [start_ns, end_ns), without folders and with texts as *hide* leaves them.

    What each thread did when that time begins is told from its next change on: before, it was not seen.
    """
    cut = [_cut(p, start_ns, end_ns) for p in stacks.processes]
    cut = [p for p in cut if len(p)]
    gil = None if stacks.gil is None else _cut_gil(stacks.gil, start_ns, end_ns)
    seen_of = cut if gil is None or gil.holders is None else [*cut, gil.holders]
    files = {frame.file for p in seen_of for frame in p.frames}
    launchers = {file: found[1] for file in files if (found := _LAUNCHER.fullmatch(file))}
    short = short_files(files - set(launchers)) | launchers
    seen = {(frame.file, frame.line) for p in seen_of for frame in p.frames}

    def shown(p: ProcessStacks) -> ProcessStacks:
        return replace(p, frames=tuple(Frame(short[f.file], f.line, hide(f.function)) for f in p.frames))

    if gil is not None and gil.holders is not None:
        gil = replace(gil, holders=shown(gil.holders))
    return HostStacks(
        tuple(map(shown, cut)),
        {(short[at[0]], at[1]): hide(text) for at, text in stacks.lines.items() if at in seen},
        tuple(map(hide, stacks.doubts)),
        gil,
    )


def _cut(p: ProcessStacks, start_ns: int, end_ns: int) -> ProcessStacks:
    """The rows of *p* in [start_ns, end_ns), with those stacks and frames alone that they need."""
    rows = (p.time_ns >= start_ns) & (p.time_ns < end_ns)
    wanted, stack = np.unique(p.stack[rows], return_inverse=True)
    number: dict[int, int] = {}
    stacks = tuple(tuple(number.setdefault(i, len(number)) for i in p.stacks[k]) for k in wanted.tolist())
    return replace(
        p,
        start_ns=max(p.start_ns, start_ns),
        end_ns=min(p.end_ns, end_ns),
        time_ns=p.time_ns[rows],
        thread=p.thread[rows],
        stack=stack.astype(np.int64),
        frames=tuple(p.frames[i] for i in number),
        stacks=stacks,
    )


def _cut_gil(gil: GilUse, start_ns: int, end_ns: int) -> GilUse | None:
    """The looks of *gil* in [start_ns, end_ns), None where there are none."""
    rows = (gil.time_ns >= start_ns) & (gil.time_ns < end_ns)
    if not rows.any():
        return None
    holders = None if gil.holders is None else _cut(gil.holders, start_ns, end_ns)
    return replace(
        gil,
        time_ns=gil.time_ns[rows],
        waits=gil.waits[rows],
        holders=holders if holders is not None and len(holders) else None,
    )


def read_stacks(folder: Path) -> HostStacks:
    """The stacks in the recording in *folder*; raises `NoRecording` or `BrokenRecording`."""
    path = folder / STACKS
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
                raise ValueError(say("file.larger", size=MAX_FILE_BYTES >> 20))
            with gzip.GzipFile(fileobj=file) as packed:
                data = packed.read(MAX_TEXT_BYTES + 1)
        if len(data) > MAX_TEXT_BYTES:
            raise ValueError(say("file.much_text", size=MAX_TEXT_BYTES >> 20))
        return _stacks(parse_json(data))
    except FileNotFoundError:
        raise NoRecording(say("file.no_stacks", path=path)) from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise BrokenRecording(say("file.stacks_cut", file=STACKS)) from None
    except OSError as error:
        raise BrokenRecording(
            say("file.unreadable", path=STACKS, why=error.strerror or error, owner=path)
        ) from error
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError) as error:
        raise BrokenRecording(
            say("file.stacks_bad", file=STACKS, why=clean_text(str(error))[:200])
        ) from error


def _process(p: ProcessStacks) -> dict[str, Any]:
    since_us = (p.time_ns - p.start_ns) // 1000
    return {
        "pid": p.pid,
        "role": p.role,
        "start_ns": p.start_ns,
        "end_ns": p.end_ns,
        "rate_hz": p.rate_hz,
        "slack_ns": p.slack_ns,
        "frames": [[f.file, f.line, f.function] for f in p.frames],
        "stacks": [list(s) for s in p.stacks],
        "time_us": np.diff(since_us, prepend=0).tolist(),
        "thread": p.thread.tolist(),
        "stack": p.stack.tolist(),
    }


def _gil(gil: GilUse) -> dict[str, Any]:
    start_ns = int(gil.time_ns[0]) if len(gil.time_ns) else 0
    return {
        "start_ns": start_ns,
        "rate_hz": gil.rate_hz,
        "time_us": np.diff((gil.time_ns - start_ns) // 1000, prepend=0).tolist(),
        "waits": gil.waits.tolist(),
        "holders": None if gil.holders is None else _process(gil.holders),
    }


def _stacks(document: object) -> HostStacks:
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(say("file.no_schema", schema=SCHEMA))
    processes = _list(document, "processes", MAX_PROCESSES)
    lines: dict[tuple[str, int], str] = {}
    for entry in _list(document, "lines", MAX_LINES):
        file, line, text = entry
        lines[_text(file), _whole(line, 1 << 31)] = _text(text)[:MAX_LINE]
    doubts = tuple(_text(d) for d in _list(document, "doubts", MAX_PROCESSES))
    gil = document.get("gil")
    return HostStacks(tuple(map(_one, processes)), lines, doubts, None if gil is None else _gil_use(gil))


def _gil_use(value: Mapping[str, Any]) -> GilUse:
    since_us, waits = (
        np.array([_whole(v, limit) for v in _list(value, name, MAX_ROWS)], np.int64)
        for name, limit in (("time_us", 1 << 40), ("waits", 2))
    )
    start_ns = _whole(value["start_ns"], 1 << 62)
    if np.sum(since_us) > 3_600 * 10**6:
        raise ValueError(say("file.too_long"))
    holders = value["holders"]
    return GilUse(
        time_ns=start_ns + np.cumsum(since_us) * 1000,
        waits=waits,
        rate_hz=_rate(value["rate_hz"]),
        holders=None if holders is None else _one(holders),
    )


def _rate(value: object) -> float:
    if not isinstance(value, int | float) or not 0.1 <= value <= 100_000:
        raise ValueError(say("file.no_rate"))
    return float(value)


def _one(value: Mapping[str, Any]) -> ProcessStacks:
    frames = tuple(
        Frame(_text(file), _whole(line, 1 << 31), _text(function))
        for file, line, function in _list(value, "frames", MAX_FRAMES)
    )
    stacks: list[tuple[int, ...]] = []
    stacked = 0
    for entry in _list(value, "stacks", MAX_ROWS):
        if not isinstance(entry, list) or len(entry) > MAX_DEPTH:
            raise ValueError(say("file.bad_stack"))
        stacked += len(entry)
        if stacked > MAX_STACKED:
            raise ValueError(say("file.stacks_many"))
        stacks.append(tuple(_whole(i, len(frames)) for i in entry))
    since_us, thread, stack = (
        np.array([_whole(v, limit) for v in _list(value, name, MAX_ROWS)], np.int64)
        for name, limit in (("time_us", 1 << 40), ("thread", MAX_THREADS), ("stack", len(stacks)))
    )
    start_ns, end_ns = (_whole(value[name], 1 << 62) for name in ("start_ns", "end_ns"))
    role: Role = "main" if value["role"] == "main" else "worker"
    if not start_ns <= end_ns <= start_ns + 3_600 * 10**9 or np.sum(since_us) > 3_600 * 10**6:
        raise ValueError(say("file.too_long"))
    return ProcessStacks(
        pid=_whole(value["pid"], 1 << 32),
        role=role,
        start_ns=start_ns,
        end_ns=end_ns,
        rate_hz=_rate(value["rate_hz"]),
        slack_ns=_whole(value["slack_ns"], 10**10),
        time_ns=start_ns + np.cumsum(since_us) * 1000,
        thread=thread,
        stack=stack,
        frames=frames,
        stacks=tuple(stacks),
    )


def _list(value: Mapping[str, Any], name: str, limit: int) -> Sequence[Any]:
    found = value[name]
    if not isinstance(found, list) or len(found) > limit:
        raise ValueError(say("file.bad_list", name=name))
    return found


def _whole(value: object, limit: int) -> int:
    if type(value) is not int or not 0 <= value < limit:
        raise ValueError(say("file.number_missing"))
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(say("file.text_missing"))
    # Surrogates cannot be written in UTF-8.
    return clean_text(value[:MAX_NAME]).encode(errors="replace").decode()
