"""
Notes of people, beside what was recorded: notes.txt in the recording's folder, a line each.

A note is added by writing the file anew, as a whole (`report.atomic`). What lies there may come from anyone:
links are not followed, and neither many lines nor control characters are taken.
"""

from __future__ import annotations

from pathlib import Path

from perfzero.errors import OutputError
from perfzero.report.atomic import write_whole
from perfzero.store.regular import open_regular
from perfzero.text import printable
from perfzero.words.said import say

FILE = "notes.txt"

MOST_BYTES = 64 << 10
"""More than that nobody types in the margin of a recording; the rest is not read."""


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
    notes = (*notes_of(recording), printable(text))
    try:
        write_whole(recording / FILE, "".join(f"{note}\n" for note in notes).encode())
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise OutputError(say("log.note_unwritten", file=recording / FILE, why=why)) from error
