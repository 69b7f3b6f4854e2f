"""
Watching a process that runs already, or GPUs whoever uses them: the other way than `launch`.

Some things can only be told of a program that is started here; `not_entered`, `not_asked` and
`nothing_to_enter` say so, and how they are to be had. They are notes of the recording, of the kind "unseen",
which the report repeats.
"""

from __future__ import annotations

import signal
from typing import Protocol

import psutil

from perfzero.errors import UsageError
from perfzero.record.signals import Signals
from perfzero.words.said import enumeration, say


class Watched(Protocol):
    """The observed program, launched or not."""

    @property
    def pid(self) -> int | None:
        """Its process id, None when only GPUs are watched."""
        ...

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        ...

    @property
    def returncode(self) -> int | None:
        """How it ended, where that is known."""
        ...

    def wait(self, timeout_s: float) -> int | None:
        """Sleep; returns the number of a signal that came meanwhile."""
        ...

    def restore_signals(self) -> None:
        """Let signals act on this process again as before."""
        ...


class Bystander:
    """A process we did not start, or none: signals to us mean us."""

    def __init__(self, pid: int | None) -> None:
        self._process = None if pid is None else existing(pid)
        self._signals = Signals()

    @property
    def pid(self) -> int | None:
        """The process id that was attached to."""
        return None if self._process is None else int(self._process.pid)

    @property
    def running(self) -> bool:
        """Whether it is still there; always, when only GPUs are watched."""
        if self._process is None:
            return True
        try:
            return bool(self._process.is_running()) and self._process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:  # it went between the two questions
            return False

    @property
    def returncode(self) -> int | None:
        """Unknown: it is not our child."""
        return None

    def wait(self, timeout_s: float) -> int | None:
        """Sleep; returns the number of a signal that came meanwhile."""
        came = set(self._signals.wait(timeout_s)) - {signal.SIGCHLD}
        return came.pop() if came else None

    def restore_signals(self) -> None:
        """Let signals act on this process again as before."""
        self._signals.restore()


TOO_SHORT = say("look.too_short")
"""Why a process was not entered that nobody tried to enter."""


def not_entered(pid: int | None, why: str) -> str:
    """That a running process was not looked into, as *why*, and how to have it."""
    return say("unseen.not_entered", pid=pid, why=why)


def not_asked() -> str:
    """That a running process is entered only if that is asked for by name."""
    return say("unseen.not_asked")


def nothing_to_enter(*, layers: bool, lines: bool) -> str:
    """That only GPUs are watched, and so what was wanted of their program is not told."""
    named = ((say("unseen.layers"), layers), (say("unseen.lines"), lines))
    wanted = enumeration([word for word, asked in named if asked])
    other = say("unseen.or_lines") if lines else ""
    return say("unseen.no_program", wanted=wanted, other=other)


def existing(pid: int) -> psutil.Process:
    """The process *pid*. Raises `UsageError` when there is none."""
    try:
        return psutil.Process(pid)
    except (psutil.NoSuchProcess, ValueError, OverflowError):  # also: what can be no process id
        raise UsageError(say("unseen.no_process", pid=pid)) from None
