"""
What a recording says while it runs: sentences on standard error, and how far it is.

On a terminal that is ours alone, progress is one line that is rewritten once a second. Where the observed
program may write to the same terminal, a line that is rewritten would run into its output; there,
and where there is no terminal, progress is a line now and then, rarer and rarer.

For the line the terminal is opened anew, without waiting: one that was stopped (Ctrl-S) loses lines and
does not hold up the recorder, and in the background nothing is written to it. A sentence goes to standard
error as anybody's would, and waits there for as long as the terminal is stopped: it is not to be lost,
and there are few in a run.
"""

from __future__ import annotations

import contextlib
import os
import sys

from perfzero.record.progress import Progress
from perfzero.text import duration, width
from perfzero.words.said import joined, say
from perfzero.words.told import told

TERMINAL = "/dev/tty"

LINE_AFTER_S = 30.0
"""The first line where none can be rewritten; the next when the run is twice as old, and so on."""

ERASE = "\r\x1b[K"
"""To the beginning of the line, and clear what stands there."""


class Voice:
    """
    Says things to whoever started perfzero; *terminal* is the path of one that is ours alone.

    *silent* says nothing at all.
    """

    def __init__(self, *, silent: bool, terminal: str | None, language: str = "en") -> None:
        self.silent = silent
        self.language = language
        self._terminal: int | None = None
        self._shown = False
        self._next_s = LINE_AFTER_S
        if terminal is not None and not silent:
            with contextlib.suppress(OSError):
                self._terminal = os.open(terminal, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)

    def say(self, text: str) -> None:
        """One sentence, on standard error."""
        if not self.silent:
            self._erase()
            to_stderr(f"perfzero: {told(text, self.language)}")

    def show(self, progress: Progress) -> None:
        """How far it is: rewrites the line, or writes one if it is time."""
        if self.silent:
            return
        if self._terminal is not None:
            if in_foreground(self._terminal):
                self._write(
                    self._terminal,
                    ERASE + cut(line(progress, self.language), columns(self._terminal) - 1),
                )
                self._shown = True
        elif progress.elapsed_s >= self._next_s:
            self._next_s = 2 * progress.elapsed_s
            to_stderr(line(progress, self.language))

    def close(self) -> None:
        """Take the line away. Harmless when called twice."""
        self._erase()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None

    def _erase(self) -> None:
        if self._shown and self._terminal is not None:
            self._shown = False
            self._write(self._terminal, ERASE)

    @staticmethod
    def _write(terminal: int, text: str) -> None:
        with contextlib.suppress(OSError):  # it is stopped, or gone
            os.write(terminal, text.encode())


def line(progress: Progress, language: str = "en") -> str:
    """*progress* in one line, e.g. "perfzero: watching, 75 s, step 171 ms, 6,231 samples, 3 lost"."""
    parts = [say(f"progress.{progress.state}"), duration(progress.elapsed_s)]
    if progress.step_s is not None:
        parts.append(say("progress.step", length=duration(progress.step_s)))
    if progress.samples:
        parts.append(say("progress.samples", count=f"{progress.samples:,}"))
        lost = progress.lost
        parts.append(say("progress.lost", count=f"{lost:,}") if lost else say("progress.lost_none"))
    if progress.capped:
        parts.append(say("progress.capped"))
    return f"perfzero: {told(joined('join.clauses', parts), language)}"


def cut(text: str, columns: int) -> str:
    """As much of the beginning of *text* as takes *columns* at most."""
    while width(text) > columns:
        text = text[:-1]
    return text


def own_terminal(*, program: bool) -> str | None:
    """The terminal, unless the observed *program*, which has our output and error, writes to it."""
    ours = not (is_terminal(1) or is_terminal(2)) if program else is_terminal(2)
    return TERMINAL if ours else None


def is_terminal(number: int) -> bool:
    """Whether the descriptor *number* is open and a terminal."""
    try:
        return os.isatty(number)
    except OSError:
        return False


def in_foreground(terminal: int) -> bool:
    """Whether we are the job that *terminal* belongs to now."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False


def columns(terminal: int) -> int:
    """The width of *terminal*; 80 where it does not tell."""
    try:
        return os.get_terminal_size(terminal).columns or 80
    except OSError:
        return 80


def to_stderr(text: str) -> None:
    """Print on standard error for as long as somebody reads it."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)
