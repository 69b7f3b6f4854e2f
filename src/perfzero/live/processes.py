"""
Who uses a GPU, in words: user and command line of a process, asked once for each.

A command line is anybody's text. Secrets are removed (`perfzero.store.redact`) before anything else is done
with it, and it is cut short: a line of 4 KB would only be carried around.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from perfzero.live.snapshot import ProcessNow
from perfzero.store.redact import redact_command
from perfzero.text import printable

LONGEST = 300
"""Characters of a command line that are kept: more than the widest terminal shows."""

ARGUMENTS = 40
"""Arguments that are looked at; the rest would not be seen, and redacting takes time."""

ARGUMENT = 400
"""Characters of one argument that are looked at."""

INTERPRETERS = ("python", "torchrun", "ruby", "perl", "node", "julia", "bash", "sh", "java")
"""Beginnings of programs of which the next word says more than their own."""


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of a process."""

    user: str
    command: str


class Names:
    """Remembers the words for the processes that are there, and forgets those that have gone."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, Words]] = {}
        self._last: dict[int, tuple[Mapping[int, float], tuple[ProcessNow, ...]]] = {}

    def of(self, gpu: int, held_by: Mapping[int, float] | None) -> tuple[ProcessNow, ...] | None:
        """The processes that hold memory of GPU *gpu*, most of it first; None where none are told of."""
        if held_by is None:
            return None
        last = self._last.get(gpu)
        if last is not None and last[0] is held_by:  # the driver has not been asked again
            return last[1]
        found = [
            ProcessNow(gpu, pid, words.user, words.command, memory)
            for pid, memory in held_by.items()
            for words in [self._words(pid)]
        ]
        told = tuple(sorted(found, key=lambda p: (-p.memory if math.isfinite(p.memory) else 0.0, p.pid)))
        self._last[gpu] = held_by, told
        return told

    def forget_all_but(self, pids: Sequence[int]) -> None:
        """A number may belong to another process the next time it is seen."""
        for pid in self._known.keys() - set(pids):
            del self._known[pid]

    def _words(self, pid: int) -> Words:
        import psutil

        try:
            process = psutil.Process(pid)
            started = process.create_time()
            known = self._known.get(pid)
            if known is not None and known[0] == started:
                return known[1]
            with process.oneshot():
                command = process.cmdline()
                words = Words(printable(process.username()), short_command(command or [process.name()]))
            if not command:  # it is just being started, or ending
                return words
        except psutil.NoSuchProcess:
            return Words("", "")  # of another container, or it has just ended
        except psutil.Error:
            words, started = Words("", ""), 0.0
        self._known[pid] = (started, words)
        return words


def short_command(command: Sequence[str]) -> str:
    """
    *command* on one line, without secrets, folders of the program or what an interpreter is told.

    "/opt/conda/bin/python3.12 -u train.py --api-key X" becomes "python3.12 train.py --api-key <removed>".
    """
    argv = [argument[:ARGUMENT] for argument in redact_command(tuple(a[:4096] for a in command[:ARGUMENTS]))]
    if not argv:
        return ""
    program = PurePosixPath(argv[0]).name or argv[0]
    rest = argv[1:]
    if program.startswith(INTERPRETERS):
        while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c"):
            rest = rest[1:]
    line = printable(" ".join([program, *rest]))
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
