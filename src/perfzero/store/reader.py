"""
Reads a recording, finished or not, whoever wrote it.

What cannot be trusted is left out and said in `Recording.doubts`; what leaves nothing to be
trusted (a manifest of the wrong shape, a newer format) is a `BrokenRecording`. Links are not
followed, names of files are not taken from the content of others, and sizes are limited
(`perfzero.store.schema`), so a recording from a stranger can be opened.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from perfzero.errors import BrokenRecording, NoRecording
from perfzero.store.decode import clean_text, decode, parse_json
from perfzero.store.regular import open_regular
from perfzero.store.schema import (
    EVENTS,
    FORMAT,
    MANIFEST,
    MAX_CELLS,
    MAX_EVENTS_BYTES,
    MAX_LOOKS,
    MAX_MANIFEST_BYTES,
    RENAMED,
    Manifest,
    file_name,
    look_name,
    manifest_from_json,
    parse_file_name,
)
from perfzero.store.stream_reader import read_stream
from perfzero.values import Gap, Gpu, Look, Note, Observation, Samples, Window
from perfzero.words.said import say

_Event = TypeVar("_Event", Window, Gap, Look, Note)


class Recording:
    """
    A recording on disk; `open_recording` makes one.

    `path` is its folder, `manifest` what it says of itself, `looks` the looks inside the program. Streams are
    read when first asked for.
    """

    def __init__(
        self,
        path: Path,
        *,
        manifest: Manifest,
        windows: tuple[Window, ...] = (),
        gaps: tuple[Gap, ...] = (),
        notes: tuple[Note, ...] = (),
        looks: tuple[Look, ...] = (),
        doubts: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.manifest = manifest
        self._windows = windows
        self._gaps = gaps
        self._notes = notes
        self.looks = looks
        self._doubts = list(doubts)
        self._lock = threading.RLock()
        self._read: dict[tuple[str, int | None], Samples] = {}
        self._cells = 0
        self._files = self._find_files()

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that were watched."""
        return self.manifest.gpus

    @property
    def complete(self) -> bool:
        """Whether the recorder ended it as planned; False while it runs, after a kill, or on a full disk."""
        return self.manifest.state == "complete"

    @property
    def doubts(self) -> tuple[str, ...]:
        """What weakens this recording, a sentence each. Reads all streams, since each may be damaged."""
        for stream, gpu in self.streams:
            self.samples(stream, gpu)
        return tuple(self._doubts)

    @property
    def streams(self) -> tuple[tuple[str, int | None], ...]:
        """The streams that are there, each as its name and the GPU it belongs to (None: the host)."""
        return tuple(self._files)

    def samples(self, stream: str, gpu: int | None = None) -> Samples:
        """The samples of a stream of one GPU (None: the host), ordered by start; empty if there is none."""
        key = (stream, gpu)
        with self._lock:
            if key not in self._read:
                self._read[key] = self._read_segments(stream, gpu)
            return self._read[key]

    def windows(self, gpu: int | None = None) -> tuple[Window, ...]:
        """The windows of PM sampling, of one GPU or all."""
        return tuple(w for w in self._windows if gpu is None or w.gpu == gpu)

    def gaps(self, gpu: int | None = None) -> tuple[Gap, ...]:
        """What is missing and why: all of it, or what concerns one GPU or none in particular."""
        return tuple(g for g in self._gaps if gpu is None or g.gpu in (None, gpu))

    def notes(self, gpu: int | None = None) -> tuple[Note, ...]:
        """What happened: all of it, or what concerns one GPU or none in particular."""
        return tuple(n for n in self._notes if gpu is None or n.gpu in (None, gpu))

    def observation(self, gpu_index: int) -> Observation:
        """
        Everything seen of one GPU; raises `NoRecording` if it was not watched.

        It lasts from the first to the last sample of what runs all the time (GPM, board, host),
        or of the windows where nothing does.
        """
        gpu = next((g for g in self.gpus if g.index == gpu_index), None)
        if gpu is None:
            watched = ", ".join(str(g.index) for g in self.gpus) or "none"
            raise NoRecording(say("file.no_gpu", path=self.path, gpu=gpu_index, watched=watched))
        disturbed = self._disturbed(gpu_index)
        pm, zoom, gpm, board, host = (
            _outside(disturbed, self.samples(stream, None if stream == "host" else gpu_index))
            for stream in ("pm", "zoom", "gpm", "board", "host")
        )
        always = [gpm, board, host]
        start_ns, end_ns = self._extent([t for t in always if len(t)] or [t for t in (pm, zoom) if len(t)])
        return Observation(
            gpu=gpu,
            tier=self.manifest.tiers.get(gpu_index, "nvml"),
            pm=pm,
            zoom=zoom,
            gpm=gpm,
            board=board,
            host=host,
            windows=tuple(w for w in self.windows(gpu_index) if not _within(disturbed, w.start_ns)),
            gaps=self.gaps(gpu_index),
            notes=self.notes(gpu_index),
            looks=self.looks,
            close_up=self._close_up(gpu_index),
            process=self.manifest.process,
            cost=self.manifest.cost,
            complete=self.complete,
            other_pids=self.manifest.other_pids.get(gpu_index, ()),
            start_ns=start_ns,
            end_ns=end_ns,
        )

    def _disturbed(self, gpu: int) -> list[tuple[int, int]]:
        """When the program was looked into, and its profiler slowed it down: [start, end) in ns."""
        windows = self.windows(gpu)
        return [disturbed_by(look, windows) for look in self.looks]

    def _close_up(self, gpu: int) -> Samples:
        """The finest PM samples that were taken beside the looks: of bursts, else of windows."""
        parts = []
        for start_ns, end_ns in self._disturbed(gpu):
            burst = self.samples("zoom", gpu).between(start_ns, end_ns)
            parts.append(burst if len(burst) else self.samples("pm", gpu).between(start_ns, end_ns))
        return Samples.concat(parts)

    def _extent(self, tables: list[Samples]) -> tuple[int, int]:
        if tables:
            return min(int(t.start_ns[0]) for t in tables), max(int(t.end_ns.max()) for t in tables)
        created, ended = self.manifest.created_ns, self.manifest.ended_ns
        return created, created if ended is None else max(created, ended)

    def _find_files(self) -> dict[tuple[str, int | None], list[int]]:
        """(stream, GPU) -> the segments that are there, in order."""
        found: dict[tuple[str, int | None], list[int]] = {}
        watched = {g.index for g in self.gpus}
        for name in sorted(os.listdir(self.path)):
            parsed = parse_file_name(name)
            if parsed is None:
                if name.endswith(".arrow"):
                    self._doubts.append(say("file.no_stream", name=clean_text(name)))
                continue
            stream, gpu, segment = parsed
            if gpu is not None and gpu not in watched:
                self._doubts.append(say("file.unlisted_gpu", name=name))
                continue
            found.setdefault((stream, gpu), []).append(segment)
        return {key: sorted(segments) for key, segments in found.items()}

    def _read_segments(self, stream: str, gpu: int | None) -> Samples:
        parts: list[Samples] = []
        for segment in self._files.get((stream, gpu), ()):
            name = file_name(stream, gpu, segment=segment)
            try:
                file = open_regular(self.path / name)
            except OSError as error:
                self._doubts.append(say("file.left_out", name=name, why=error.strerror or error))
                continue
            with file:
                content = read_stream(
                    file, name=name, stream=stream, gpu=gpu, max_cells=max(0, MAX_CELLS - self._cells)
                )
            self._doubts.extend(content.doubts)
            part = _renamed(stream, content.samples)
            self._cells += len(part) * (len(part.columns) + 2)
            if parts and len(part):
                # Segments follow each other in time; one that does not is no continuation.
                late = part.where(part.start_ns >= parts[-1].start_ns[-1])
                if len(late) < len(part):
                    self._doubts.append(
                        say("file.before_segment", name=name, rows=f"{len(part) - len(late):,}")
                    )
                part = late
            if len(part):
                parts.append(part)
        return Samples.concat(parts)


def _renamed(stream: str, samples: Samples) -> Samples:
    """*samples* with the columns of *stream* under the names that they have today."""
    names = {name: RENAMED.get((stream, name), name) for name in samples.columns}
    if all(new == name or new in samples.columns for name, new in names.items()):
        return samples
    columns = {names[name]: column for name, column in samples.columns.items()}
    return Samples(samples.start_ns, samples.end_ns, columns)


def open_recording(path: Path | str) -> Recording:
    """
    The recording in the folder *path*.

    Raises `NoRecording` if there is none, `BrokenRecording` if it is not to be trusted.
    """
    folder = Path(path)
    manifest = _read_manifest(folder)
    doubts = _manifest_doubts(manifest)
    events = _Events(folder)
    try:
        return Recording(
            folder,
            manifest=manifest,
            windows=tuple(sorted(events.windows, key=lambda w: (w.start_ns, w.gpu))),
            gaps=tuple(sorted(events.gaps, key=lambda g: g.start_ns)),
            notes=tuple(sorted(events.notes, key=lambda n: n.time_ns)),
            looks=tuple(sorted(events.looks, key=lambda k: k.start_ns)),
            doubts=(*doubts, *events.doubts),
        )
    except OSError as error:  # the folder may be entered but not listed
        raise BrokenRecording(
            say("file.unlistable", folder=folder, why=error.strerror or error, owner=folder)
        ) from error


def _read_manifest(folder: Path) -> Manifest:
    try:
        if not folder.is_dir():
            what = say("file.is_file") if folder.exists() else say("file.not_there")
            raise NoRecording(say("file.no_folder", folder=folder, what=what, new=folder))
        with open_regular(folder / MANIFEST) as file:
            text = file.read(MAX_MANIFEST_BYTES + 1)
    except FileNotFoundError:
        raise NoRecording(say("file.no_recording", folder=folder, manifest=MANIFEST)) from None
    except OSError as error:
        raise BrokenRecording(
            say("file.unreadable", path=folder / MANIFEST, why=error.strerror or error, owner=folder)
        ) from error
    if len(text) > MAX_MANIFEST_BYTES:
        raise _broken_manifest(folder, say("file.larger", size=MAX_MANIFEST_BYTES >> 20))
    try:
        value: Any = parse_json(text)
        version = value.get("format") if isinstance(value, dict) else None
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise ValueError(say("file.no_format"))
        if version > FORMAT:
            raise BrokenRecording(say("file.newer", folder=folder, version=version, most=FORMAT))
        return manifest_from_json(value)
    except ValueError as error:
        raise _broken_manifest(folder, str(error).rstrip(".")) from error


def _broken_manifest(folder: Path, reason: str) -> BrokenRecording:
    return BrokenRecording(say("file.bad_manifest", path=folder / MANIFEST, reason=reason))


def _manifest_doubts(manifest: Manifest) -> tuple[str, ...]:
    doubts: list[str] = []
    if manifest.state == "recording":
        doubts.append(say("file.still_running"))
    elif manifest.state == "incomplete":
        doubts.append(say("file.incomplete"))
    doubts.extend(say("file.doubt", reason=reason) for reason in manifest.lost.values())
    return tuple(doubts)


_OF_COLLECTOR = ("collections", "watched_s", "collects_itself")
"""What a look tells of Python's garbage collector; its trace is worth as much without."""


class _Events:
    """The lines of events.jsonl that could be read."""

    def __init__(self, folder: Path) -> None:
        self.windows: list[Window] = []
        self.gaps: list[Gap] = []
        self.notes: list[Note] = []
        self.looks: list[Look] = []
        self.doubts: list[str] = []
        self._damaged = self._unknown = self._uncollected = 0
        try:
            with open_regular(folder / EVENTS) as file:
                text = file.read(MAX_EVENTS_BYTES + 1)
        except FileNotFoundError:
            self.doubts.append(say("file.no_events_file", events=EVENTS))
            return
        except OSError as error:
            self.doubts.append(say("file.events_unreadable", events=EVENTS, why=error.strerror or error))
            return
        if len(text) > MAX_EVENTS_BYTES:
            self.doubts.append(say("file.events_long", events=EVENTS, size=MAX_EVENTS_BYTES >> 20))
        # Cut off by the limit or by a kill, what follows the last newline is no whole line.
        *lines, rest = text.split(b"\n")
        for line in lines:
            if line:
                self._add(line)
        if self._damaged:
            self.doubts.append(say("file.damaged_lines", events=EVENTS, count=self._damaged))
        if self._uncollected:
            self.doubts.append(say("file.damaged_collections", events=EVENTS, count=self._uncollected))
        if self._unknown:
            self.doubts.append(say("file.unknown_events", events=EVENTS, count=self._unknown))
        if rest and len(text) <= MAX_EVENTS_BYTES:
            self.doubts.append(say("file.ends_in_line", events=EVENTS))

    def _add(self, line: bytes) -> None:
        try:
            value = parse_json(line)
            event = value.get("event") if isinstance(value, dict) else None
            if event == "window":
                self.windows.append(_checked(decode(Window, value, where=event), _is_window))
            elif event == "gap":
                self.gaps.append(_checked(decode(Gap, value, where=event), lambda g: g.end_ns >= g.start_ns))
            elif event == "look" and len(self.looks) < MAX_LOOKS:
                self._add_look(value)
            elif event == "note":
                self.notes.append(decode(Note, value, where=event))
            elif isinstance(event, str):
                self._unknown += 1
            else:
                self._damaged += 1
        except ValueError:
            self._damaged += 1

    def _add_look(self, value: Mapping[str, object]) -> None:
        """A look, without what it tells of the garbage collector where that cannot be. Raises ValueError."""
        without = {name: said for name, said in value.items() if name not in _OF_COLLECTOR}
        rest = _checked(decode(Look, without, where="look"), _is_look)
        try:
            self.looks.append(_checked(decode(Look, value, where="look"), _is_collected))
        except ValueError:
            self.looks.append(rest)
            self._uncollected += 1


def _is_window(w: Window) -> bool:
    return w.end_ns >= w.start_ns and w.period_ns > 0 and w.samples >= 0 and w.lost >= 0


def _is_look(look: Look) -> bool:
    # The name of a file is not taken from the content of another one, but from the process.
    return look.end_ns >= look.start_ns and look.pid > 0 and look.file in ("", look_name(look.pid))


def _is_collected(look: Look) -> bool:
    return look.watched_s >= 0 and all(0 <= one.length_s <= look.watched_s for one in look.collections)


def _checked(event: _Event, holds: Callable[[_Event], bool]) -> _Event:
    if not holds(event):
        raise ValueError("impossible")
    return event


def disturbed_by(look: Look, windows: Iterable[Window]) -> tuple[int, int]:
    """From the begin of *look* until it and those of *windows* that were made for it are over, in ns."""
    ends = [w.end_ns for w in windows if look.start_ns <= w.start_ns < look.end_ns]
    return look.start_ns, max([look.end_ns, *ends])


def _outside(stretches: Sequence[tuple[int, int]], samples: Samples) -> Samples:
    """The *samples* that touch none of the *stretches*."""
    for start_ns, end_ns in stretches:
        samples = samples.where((samples.end_ns <= start_ns) | (samples.start_ns >= end_ns))
    return samples


def _within(stretches: Sequence[tuple[int, int]], at_ns: int) -> bool:
    return any(start_ns <= at_ns < end_ns for start_ns, end_ns in stretches)
