"""
Starting the observed program as if perfzero were not there.

It gets our standard input, output and error, our process group, terminal and signal mask, and
every other descriptor we inherited; nothing is piped, nothing buffered. Signals meant for it reach
it: those from the terminal by themselves (same process group), those sent to us are passed on.
"""

from __future__ import annotations

import os
import pwd
import resource
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from perfzero.errors import PerfzeroError

PASSED_ON = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals that someone may send to us and mean for the program."""

SI_KERNEL = 0x80
"""siginfo.si_code of a signal the kernel made, such as a terminal's Ctrl-C (sigaction(2))."""


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

    def __init__(self, command: Sequence[str], *, user: Invoker | None = None) -> None:
        environment = None
        if user is not None:
            environment = {**os.environ, "HOME": user.home, "USER": user.name, "LOGNAME": user.name}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            self._process = subprocess.Popen(
                list(command),
                close_fds=False,
                env=environment,
                user=None if user is None else user.uid,
                group=None if user is None else user.gid,
                extra_groups=None if user is None else os.getgrouplist(user.name, user.gid),
            )
        except FileNotFoundError:
            raise CannotStart(f"{command[0]}: command not found", exit_code=127) from None
        except PermissionError:
            raise CannotStart(f"{command[0]}: permission denied", exit_code=126) from None
        except OSError as error:
            raise CannotStart(f"{command[0]}: {error.strerror}", exit_code=126) from None
        # From here on signals are taken up by `wait`, none is lost, none kills us.
        signal.pthread_sigmask(signal.SIG_BLOCK, (*PASSED_ON, signal.SIGCHLD))

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

        Returns the number of a signal that came from the terminal, else None.
        """
        end = time.monotonic() + timeout_s
        while self.running and (left := end - time.monotonic()) > 0:
            info = signal.sigtimedwait((*PASSED_ON, signal.SIGCHLD), left)
            if info is None:
                return None
            if info.si_signo == signal.SIGCHLD:
                continue
            if info.si_code != SI_KERNEL and self.running:
                # Sent to us alone, not to the whole foreground group as a terminal would.
                self._process.send_signal(info.si_signo)
            return info.si_signo
        return None

    def restore_signals(self) -> None:
        """Give us back the signal mask we had. Pending signals for a program that has ended are dropped."""
        for number in (*PASSED_ON, signal.SIGCHLD):
            while number in signal.sigpending():
                signal.sigtimedwait((number,), 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def end_like(returncode: int) -> int:
    """
    The exit code that repeats how the program ended; a signal ends us by the same signal.

    So a shell, a scheduler or a supervisor sees what it would have seen without us.
    """
    if returncode >= 0:
        return returncode
    number = -returncode
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core dump is enough, the program's
    try:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
        os.kill(os.getpid(), number)
    except (OSError, ValueError):
        pass  # SIGKILL cannot be given a handler, but it needs none
    return 128 + number
