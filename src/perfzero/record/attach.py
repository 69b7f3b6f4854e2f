"""
Watching a process that runs already, or GPUs whoever uses them: the other way than `launch`.
"""

from __future__ import annotations

import signal
from typing import Protocol

import psutil

from perfzero.errors import UsageError
from perfzero.record.signals import Signals


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


def existing(pid: int) -> psutil.Process:
    """The process *pid*. Raises `UsageError` when there is none."""
    try:
        return psutil.Process(pid)
    except (psutil.NoSuchProcess, ValueError, OverflowError):  # also: what can be no process id
        raise UsageError(f"There is no process {pid} to attach to.") from None
