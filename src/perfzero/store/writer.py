"""
Writes a recording while it is being made.

Whatever happens to the recorder, what it has written so far can be read: the manifest is
replaced as a whole, events are appended line by line, samples batch by batch. And whatever
happens to the disk, the recorder goes on: a stream that can no longer be written is given
up, with the reason in `failed`, in the manifest and as a note, and the others continue.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from perfzero import __version__
from perfzero.errors import UsageError
from perfzero.store.fingerprint import host_facts
from perfzero.store.redact import redact_command, redact_environment, redact_text
from perfzero.store.schema import (
    EVENTS,
    FORMAT,
    MANIFEST,
    STREAMS,
    Manifest,
    event_line,
    file_name,
    is_ours,
    manifest_bytes,
    stream_name,
)
from perfzero.store.stream import StreamFile
from perfzero.values import Gap, Gpu, Look, Note, Process, Samples, Tier, Window
from perfzero.words.said import say

_UPDATABLE = frozenset(
    (
        "process",
        "gpus",
        "tiers",
        "tier_reasons",
        "settings",
        "host",
        "cost",
        "other_pids",
        "created_ns",
        "ended_ns",
    )
)


class RecordingWriter:
    """
    A recording in the making at *path*; every method may be called from any thread.

    The folder is created, manifest included. It must not exist, or be empty: raises
    `UsageError` otherwise, unless *force*, which removes an earlier recording (and nothing else)
    from it. *tiers* and *tier_reasons* are keyed by GPU index. Secrets are taken out of
    *process*, *settings* and every text before they are written.
    """

    def __init__(
        self,
        path: Path,
        *,
        gpus: Iterable[Gpu],
        process: Process,
        settings: Mapping[str, Any],
        tiers: Mapping[int, Tier],
        tier_reasons: Mapping[int, str],
        force: bool = False,
    ) -> None:
        self.path = Path(path)
        self.failed: str | None = None
        """The first thing that could not be written, in words; None while all is well."""
        self._lock = threading.Lock()
        self._streams: dict[tuple[str, int | None], StreamFile] = {}
        self._segments: dict[tuple[str, int | None], int] = {}
        self._events_torn = False
        self._closed = False
        self._manifest = Manifest(
            format=FORMAT,
            perfzero=__version__,
            state="recording",
            created_ns=time.time_ns(),
            gpus=tuple(gpus),
            process=redact_process(process),
            tiers=dict(tiers),
            tier_reasons=dict(tier_reasons),
            settings=_redact_settings(settings),
            host=host_facts(),
        )
        prepare_folder(self.path, force=force)
        try:
            write_manifest(self.path, self._manifest)
            self._events = os.open(
                self.path / EVENTS, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666
            )
        except OSError as error:
            raise _cannot_write(self.path, error) from error

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(complete=kind is None)

    def append(self, stream: str, gpu: int | None, samples: Samples) -> None:
        """
        Add *samples* to a stream, on disk when this returns. A full disk is no exception: see `failed`.

        *stream* is one of "pm", "zoom", "gpm", "board", "host"; *gpu* is an index, None for what
        belongs to none. Columns may come and go from call to call.
        """
        if stream not in STREAMS:
            raise ValueError(f"no such stream: {stream!r}, there are {', '.join(STREAMS)}")
        with self._lock:
            self._check_open()
            if not len(samples) or stream_name(stream, gpu) in self._manifest.lost:
                return
            try:
                self._stream(stream, gpu, samples).append(samples)
            except OSError as error:
                self._give_up(stream, gpu, error)

    def window(self, window: Window) -> None:
        """Add a window of PM sampling that has ended."""
        self._event("window", window)

    def gap(self, gap: Gap) -> None:
        """Add a stretch that should hold samples and does not."""
        self._event("gap", replace(gap, reason=redact_text(gap.reason)))

    def look(self, look: Look) -> None:
        """Add a look inside the program that has ended."""
        self._event("look", replace(look, reason=redact_text(look.reason)))

    def note(self, note: Note) -> None:
        """Add something worth knowing that happened."""
        self._event("note", replace(note, text=redact_text(note.text)))

    def update(self, **changes: Any) -> None:
        """
        Replace fields of the manifest, on disk when this returns.

        One of process, gpus, tiers, tier_reasons, settings, host, cost, other_pids (GPU index ->
        PIDs), created_ns, ended_ns.
        """
        unknown = set(changes) - _UPDATABLE
        if unknown:
            raise TypeError(f"the manifest has no field {', '.join(sorted(unknown))} that could be updated")
        if "process" in changes:
            changes["process"] = redact_process(changes["process"])
        if "settings" in changes:
            changes["settings"] = _redact_settings(changes["settings"])
        with self._lock:
            self._check_open()
            self._replace_manifest(changes)

    def close(self, complete: bool = True) -> None:
        """
        End the recording; harmless when called twice.

        With *complete* false the manifest says that the recorder gave up before its time.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for (stream, gpu), file in self._streams.items():
                try:
                    file.close()
                except OSError as error:  # the end mark or the flush; the batches before it stand
                    self._give_up(stream, gpu, error)
            self._streams = {}
            with contextlib.suppress(OSError):  # every line has been written; this only asks for haste
                os.fsync(self._events)
            os.close(self._events)
            ended = self._manifest.ended_ns
            self._replace_manifest(
                {
                    "state": "complete" if complete and self.failed is None else "incomplete",
                    "ended_ns": time.time_ns() if ended is None else ended,
                }
            )

    def _stream(self, stream: str, gpu: int | None, samples: Samples) -> StreamFile:
        """The file to which *samples* fit: the open one, or a new segment when they bring new columns."""
        key = (stream, gpu)
        file = self._streams.get(key)
        if file is not None and file.holds(samples.columns):
            return file
        names = (
            tuple(samples.columns) if file is None else tuple(dict.fromkeys([*file.names, *samples.columns]))
        )
        segment = self._segments.get(key, 0)
        fresh = StreamFile(
            self.path / file_name(stream, gpu, segment=segment), names=names, stream=stream, gpu=gpu
        )
        self._segments[key] = segment + 1
        self._streams[key] = fresh
        if file is not None:
            file.close()
        return fresh

    def _give_up(self, stream: str, gpu: int | None, error: OSError) -> None:
        name = stream_name(stream, gpu)
        reason = say("file.no_longer", name=name, why=error.strerror or error)
        self.failed = self.failed or reason
        file = self._streams.get((stream, gpu))
        if file is not None:
            file.abandon()
        self._manifest = replace(self._manifest, lost={**self._manifest.lost, name: reason})
        self._write_event("note", Note(time.time_ns(), "lost", f"{reason}.", gpu))
        self._replace_manifest({})

    def _event(self, event: str, value: Window | Gap | Look | Note) -> None:
        with self._lock:
            self._check_open()
            self._write_event(event, value)

    def _write_event(self, event: str, value: Window | Gap | Look | Note) -> None:
        # After a line that was cut off by a full disk, the next one must start afresh.
        data = (b"\n" if self._events_torn else b"") + event_line(event, value)
        self._events_torn = True
        try:
            while data:
                data = data[os.write(self._events, data) :]
        except OSError as error:
            self.failed = self.failed or say("file.not_written", file=EVENTS, why=error.strerror or error)
            return
        self._events_torn = False

    def _replace_manifest(self, changes: Mapping[str, Any]) -> None:
        self._manifest = replace(self._manifest, **changes)
        try:
            write_manifest(self.path, self._manifest)
        except OSError as error:
            self.failed = self.failed or say("file.not_written", file=MANIFEST, why=error.strerror or error)

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"the recording {self.path} is closed")


def prepare_folder(path: Path, *, force: bool) -> None:
    """
    Make *path* a folder that a recording can be written to.

    Raises `UsageError` if it holds anything, unless *force*, which removes the files of an
    earlier recording and leaves all others alone.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        present = sorted(p.name for p in path.iterdir())
        if present and not force:
            raise UsageError(say("file.not_empty", path=path, found=f"{present[0]!r}"))
        for name in present:
            if is_ours(name):
                (path / name).unlink()
    except OSError as error:
        raise _cannot_write(path, error) from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in *folder* so that a reader sees the old or the new one. Raises OSError."""
    unfinished = folder / f".{MANIFEST}.tmp"
    try:
        with open(unfinished, "wb") as file:
            file.write(manifest_bytes(manifest))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, folder / MANIFEST)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


def redact_process(process: Process) -> Process:
    """*process* with the secrets taken out of its command and environment."""
    return replace(
        process,
        command=redact_command(process.command),
        threads_env=redact_environment(process.threads_env),
    )


def _redact_settings(value: Mapping[str, Any]) -> dict[str, Any]:
    return {str(k): _redact_value(v) for k, v in value.items()}


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return _redact_settings(value)
    if isinstance(value, list | tuple):
        if all(isinstance(v, str) for v in value):  # a command line, where a secret may follow its flag
            return list(redact_command(value))
        return [_redact_value(v) for v in value]
    return value


def _cannot_write(path: Path, error: OSError) -> UsageError:
    return UsageError(say("file.unwritable", path=path, why=error.strerror or error))
