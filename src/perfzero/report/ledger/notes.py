"""
Notes of people, beside what was recorded: notes.txt in the recording's folder, a line each.

A note is appended, under a lock: what is there is never written anew, so neither two who note at once nor a
file that cannot be read lose any. What lies there may come from anyone: links are not followed, and neither
many lines nor control characters are taken.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

from perfzero.errors import OutputError
from perfzero.store.regular import open_regular
from perfzero.text import printable
from perfzero.words.said import say

FILE = "notes.txt"

MOST_BYTES = 64 << 10
"""More than that nobody types in the margin of a recording; none is added that is not read."""


def notes_of(recording: Path) -> tuple[str, ...]:
    """The notes on *recording*, the oldest first; none where there is no file, or it cannot be read."""
    try:
        with open_regular(recording / FILE) as file:
            text = file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(note for note in map(printable, text.splitlines()) if note)


def add_note(recording: Path, text: str) -> None:
    """Add the note *text* to those on *recording*. Raises OutputError where it cannot be written."""
    try:
        _append(recording / FILE, f"{printable(text)}\n".encode())
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise OutputError(say("log.note_unwritten", file=recording / FILE, why=why)) from error


def _append(path: Path, line: bytes) -> None:
    """Add *line* to the regular file at *path*, whole or not at all. Raises OSError."""
    # O_NONBLOCK: opening a pipe that nobody reads would wait for ever.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o666)
    except OSError:
        if path.is_symlink():
            raise OSError(0, say("file.is_link")) from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, say("file.not_regular"))
        fcntl.flock(fd, fcntl.LOCK_EX)  # given back with the file; the length does not change meanwhile
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":  # somebody's editor
            line = b"\n" + line
        if size + len(line) > MOST_BYTES:
            raise OSError(0, say("log.notes_full"))
        try:
            if os.write(fd, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, size)
            raise
    finally:
        os.close(fd)
