"""
A program of the zoo that runs alone: its lines of progress are read as they come, and it can be held.

A line of progress is a word and how much work has been done so far: `step 250 loss 0.4312`; the first one
tells the word. When it came is the time at which a thread read it from the pipe, which a program writes into
at once (flush=True).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import checkout

PROGRESS = re.compile(r"([A-Za-z_]+)\s+([0-9]{1,18})(?![.0-9])")
"""More digits are no count of work, and Python refuses to read 4,300 of them."""

KEPT_LINES = 20
"""Of what else it prints, for the message if it fails."""


class Stopped(Exception):
    """Somebody else has decided that the benchmark ends."""


class Stop(threading.Event):
    """Set when everything has to end: whoever waits by `rest` is woken by `Stopped`."""

    def rest(self, seconds: float) -> None:
        if self.wait(seconds):
            raise Stopped("the benchmark was ended")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of progress: its word, the work done so far, and when it came, by the monotonic clock."""

    word: str
    count: int
    at_s: float


class Program:
    """A program in a process group of its own, of which nothing is left after `close`."""

    def __init__(self, command: Sequence[str], *, log: Path, more: Mapping[str, str] | None = None) -> None:
        self.lines: list[Line] = []
        self._log = log
        self._others: deque[str] = deque(maxlen=KEPT_LINES)
        self._process = checkout.start(command, log=log, piped=True, more=more)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def hold(self) -> None:
        """Stop it where it is, its own children too."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        self.go_on()  # what is stopped cannot end
        checkout.end_group(self._process)
        self._process.wait()
        self._reader.join(checkout.PATIENCE_S)
        assert self._process.stdout is not None
        if not self._reader.is_alive():  # else somebody outside the group still holds the pipe
            self._process.stdout.close()

    def said(self) -> str:
        """What it printed last, but for progress, and how it ended if it has."""
        code = self._process.poll()
        ended = "" if code is None else f"ended with {code}: "
        log = self._log.read_text(errors="replace") if self._log.is_file() else ""
        return f"{ended}{' '.join((' '.join(self._others) + ' ' + log).split())[-600:]}"

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            at_s = time.monotonic()
            text = raw.decode(errors="replace")
            found = PROGRESS.match(text)
            if found is None or (self.lines and found[1] != self.lines[0].word):
                self._others.append(text)
            else:
                self.lines.append(Line(found[1], int(found[2]), at_s))
