"""
Signals that reach us while a program is watched: none ends us, none is lost.

They are caught rather than blocked, so that it does not matter which thread gets one, and so that
every process we start begins with the dispositions and the mask it would have without us.

    Signals    catches them, and sleeps until one comes
    Witness    says whether the program got a signal by itself, as with a terminal's Ctrl-C,
               `timeout`, `kill -- -PGID`, or systemd, or whether it was sent to us alone
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Collection

MEANT_FOR_THE_PROGRAM = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals that someone may send to us and mean for the program. Unhandled, each ends a process."""


class Signals:
    """
    Catches `MEANT_FOR_THE_PROGRAM` until `restore`; to be made in the main thread.

    What is ignored already, as SIGHUP under nohup, stays ignored. SIGCHLD, which ends a `wait`, is
    caught even then: ignored, it would take the program's exit code with it.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        # Python's own handler in C writes the number of each signal into this pipe, at once.
        self._wakeup_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._before = {}
        for number in (*MEANT_FOR_THE_PROGRAM, signal.SIGCHLD):
            if number == signal.SIGCHLD or signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, lambda *_: None)
                signal.siginterrupt(number, False)  # libraries need not cope with EINTR
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)
        self._restored = False

    def wait(self, timeout_s: float) -> tuple[int, ...]:
        """Sleep until a signal comes or *timeout_s* is over; the signals since the last call, each once."""
        if not self._poll.poll(max(0.0, timeout_s) * 1e3):
            return ()
        return tuple(dict.fromkeys(os.read(self._read, 65536)))

    def restore(self) -> None:
        """Let signals act on this process as before. Harmless when called twice."""
        if self._restored:
            return
        self._restored = True
        for number, before in self._before.items():
            signal.signal(number, before)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._read)
        os.close(self._write)


class Witness:
    """
    An idle process of our process group and control group: what ends it, the program got as well.

    It ends by itself when we do, however that happens. Where it cannot be started (no shell), every
    signal counts as sent to us alone.
    """

    def __init__(self) -> None:
        self._process = _idle_process()

    def saw_any_of(self, numbers: Collection[int]) -> bool:
        """Whether one of *numbers* reached it. If so, or if it is gone anyhow, a new one takes its place."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return False
        self.close()
        self._process = _idle_process()
        return -code in numbers

    def close(self) -> None:
        """End it."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._process = None


def _idle_process() -> subprocess.Popen[bytes] | None:
    """It waits for the end of its input, which comes when the last writer, this process, is gone."""
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", "ulimit -c 0; exec cat"],  # SIGQUIT must leave no core file
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
