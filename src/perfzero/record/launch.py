"""
Starting the observed program as if perfzero were not there.

It gets our standard input, output and error, our process group, terminal and signal mask, and
every other descriptor we inherited; nothing is piped, nothing buffered. Signals meant for it reach
it once: those that go to its process group or control group by themselves, those sent to us
alone are passed on.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfzero.errors import PerfzeroError
from perfzero.record.signals import Signals, Witness
from perfzero.words.said import say

GROUP_GETS_IT_WITHIN_S = 0.02
"""Whoever signals several processes (`timeout` first us, then the group) is through by then."""


class CannotStart(PerfzeroError):
    """The command cannot be started; `exit_code` as a shell would set it (126 or 127)."""

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Invoker:
    """The user who called us through sudo."""

    name: str
    uid: int
    gid: int
    home: str


def invoking_user() -> Invoker | None:
    """Who called `sudo perfzero ...`, or None when nobody did."""
    uid = os.environ.get("SUDO_UID")
    if os.geteuid() != 0 or uid is None or not uid.isdigit() or int(uid) == 0:
        return None
    try:
        entry = pwd.getpwuid(int(uid))
    except KeyError:
        return None
    return Invoker(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


class Child:
    """The observed program, started by us."""

    def __init__(
        self, command: Sequence[str], *, user: Invoker | None = None, more: Mapping[str, str] | None = None
    ) -> None:
        """*more*: what its environment has beside ours."""
        environment = None
        if user is not None or more:
            environment = {**os.environ, **(more or {})}
        if environment is not None and user is not None:
            environment |= {"HOME": user.home, "USER": user.name, "LOGNAME": user.name}
        # From here on signals are taken up by `wait`, none is lost, none kills us.
        self._signals = Signals()
        self._witness = Witness()
        try:
            self._process = subprocess.Popen(
                list(command),
                close_fds=False,
                env=environment,
                user=None if user is None else user.uid,
                group=None if user is None else user.gid,
                extra_groups=None if user is None else os.getgrouplist(user.name, user.gid),
            )
        except BaseException as error:
            self.restore_signals()
            if isinstance(error, OSError):
                raise _cannot_start(command[0], error) from None
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """As `subprocess` gives it: negative for a signal, None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """
        Sleep until the program ends or *timeout_s* is over; pass signals on meanwhile.

        Returns the number of a signal that came meanwhile, else None.
        """
        end = time.monotonic() + timeout_s
        while self.running and (left := end - time.monotonic()) > 0:
            came = set(self._signals.wait(left)) - {signal.SIGCHLD}
            if came:
                self._pass_on(came)
                return came.pop()
        return None

    def _pass_on(self, came: set[int]) -> None:
        """Send the program what it has not got by itself; the same signal twice at once counts once."""
        time.sleep(GROUP_GETS_IT_WITHIN_S)
        came |= set(self._signals.wait(0.0)) - {signal.SIGCHLD}
        if self._witness.saw_any_of(came):
            return
        for number in came:
            with contextlib.suppress(OSError):  # it has made itself another user's
                self._process.send_signal(number)

    def restore_signals(self) -> None:
        """Let signals act on us again as before. Those for a program that has ended are dropped."""
        self._witness.close()
        self._signals.restore()


def _cannot_start(name: str, error: OSError) -> CannotStart:
    if isinstance(error, FileNotFoundError):
        return CannotStart(say("launch.not_found", name=name), exit_code=127)
    if isinstance(error, PermissionError):
        return CannotStart(say("launch.no_permission", name=name), exit_code=126)
    return CannotStart(f"{name}: {error.strerror}", exit_code=126)


def end_like(returncode: int) -> int:
    """
    The exit code that repeats how the program ended; a signal ends us by the same signal.

    So a shell, a scheduler or a supervisor sees what it would have seen without us.
    """
    if returncode >= 0:
        return returncode
    number = -returncode
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core dump is enough, the program's
    with contextlib.suppress(OSError, ValueError):  # SIGKILL cannot be given a handler, and needs none
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError, ValueError):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
        os.kill(os.getpid(), number)
    return 128 + number
