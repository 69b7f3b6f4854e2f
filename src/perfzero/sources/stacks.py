"""
Stacks of Python, sampled by py-spy from outside: it reads the memory of a process and stops nothing.

Each process is sampled by a py-spy of its own. One for a whole tree (`--subprocesses`) reads every process as
often as the main one, which costs a third of a core with a single worker; and it tells threads apart by an
address that a forked worker has in common with its parent.

Clock: py-spy counts from its own start. The child notes the time just before it becomes py-spy, which begins
to count `BEGINS_NS` later. (When `Popen` returns is no good mark: on a busy machine that was 10 ms late.)

Moments are random (py-spy waits for an exponentially distributed time between samples), so what is sampled
has no rhythm that the program's could meet.

Cost: 10 s take 0.4 s of CPU for a process with one thread of Python, and 1.1 s for one with three and two
workers (py-spy 0.4.3, two virtual cores that others used as well).
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import mmap
import os
import resource
import signal
import struct
import subprocess
import sysconfig
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from perfzero.errors import SourceError
from perfzero.stacks import Role

MAIN_HZ = 250.0
WORKER_HZ = 10.0
"""A worker does one thing after the other; which of them takes most of its time needs few samples."""

SECONDS = 10
"""As long as the close look at the GPU: what is to be explained is what was seen then."""

MOST_WORKERS = 2
"""They do the same; two, since one may have nothing to do."""

BEGINS_NS = 2_000_000
"""
Against a program that logged when it changed lines: 1.5 to 2 ms on an idle machine, 2 to 5 ms with three busy
threads per processor (py-spy 0.4.3, two virtual cores).
"""

SLACK_NS = 4_000_000
"""By how much the times of all samples may be off together, where the machine is that busy."""

LATEST_S = 5.0
"""After its time is over py-spy writes its file, a tenth of a second as a rule; later it is ended."""

FINISHES_S = 2.0
"""How long py-spy may take to write its file once it was asked to end; a tenth of a second is usual."""

_MEMORY_BYTES, _FILE_BYTES, _CPU_S = 4 << 30, 64 << 20, 10
"""What a py-spy may use that was led astray by what it reads."""

_PR_SET_PDEATHSIG = 1
_TIME = struct.Struct("q")


@dataclass(slots=True)
class Sampled:
    """A process that is sampled, or was: `begun_ns` is the zero of py-spy's clock, in Unix ns."""

    pid: int
    role: Role
    rate_hz: float
    begun_ns: int
    trace: Path
    spy: subprocess.Popen[bytes]
    ended: bool = False
    failure: str = ""


def py_spy() -> str:
    """The program py-spy that was installed with us. Raises `SourceError` without it; no other is run."""
    try:
        found = importlib.metadata.distribution("py-spy")
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found is not None:
        # Not where its own list of files says: after `pip install --target` that is another folder.
        beside = Path(str(found.locate_file("bin")))
        schemes = (sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user"))
        for folder in (beside, *map(Path, schemes)):
            path = folder / "py-spy"
            if path.is_file() and os.access(path, os.X_OK):
                return str(path.resolve())
    raise SourceError("py-spy is not installed.\nInstall it beside perfzero: pip install py-spy")


def workers_of(pid: int, *, most: int = MOST_WORKERS) -> tuple[int, ...]:
    """The children of *pid* that work for it, started by fork or by multiprocessing, the busiest first."""
    try:
        parent = psutil.Process(pid)
        command = parent.cmdline()
        found = []
        for child in parent.children(recursive=True):
            with suppress(psutil.Error):
                line = child.cmdline()
                spawned = any("spawn_main" in word or "forkserver" in word for word in line)
                if line and (line == command or spawned):
                    times = child.cpu_times()
                    found.append((times.user + times.system, child.pid))
    except psutil.Error:
        return ()
    return tuple(pid for _, pid in sorted(found, reverse=True)[:most])


class Stacks:
    """
    Samples the processes that `begin` is given, once, into files in *folder*.

    Nothing in here waits, but for `finish` and `close`, which end what still runs.
    """

    def __init__(self, folder: Path, *, program: Sequence[str] | None = None) -> None:
        """*program* takes the place of py-spy."""
        self.sampled: list[Sampled] = []
        self.cpu_s = 0.0
        """CPU time of those that have ended, in seconds."""
        self._folder = folder
        self._program = tuple(program) if program is not None else (py_spy(),)
        self._begun = time.monotonic()

    def begin(self, pid: int, *, role: Role, rate_hz: float, seconds: int = SECONDS) -> None:
        """Sample the process *pid* for so many *seconds*."""
        trace = self._folder / f"{pid}.json"
        command = [
            *self._program, "record", "--format", "chrometrace", "--nonblocking", "--idle",
            "--rate", f"{rate_hz:.0f}", "--duration", str(seconds), "--output", str(trace), "--pid", str(pid),
        ]  # fmt: skip
        noted = mmap.mmap(-1, _TIME.size)  # shared with the child
        try:
            with open(self._folder / f"{pid}.log", "wb") as log:
                spy = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._folder,
                    start_new_session=True,  # a Ctrl-C at the terminal is not for it
                    preexec_fn=_ends_with_us(os.getpid(), noted),
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise SourceError(f"py-spy cannot be started: {error}") from error
        self._begun = time.monotonic()
        (started_ns,) = _TIME.unpack(noted[: _TIME.size])
        noted.close()
        self.sampled.append(Sampled(pid, role, rate_hz, started_ns + BEGINS_NS, trace, spy))

    def poll(self, *, seconds: int = SECONDS) -> bool:
        """Whether all have ended; those that should have and did not are ended."""
        late = time.monotonic() - self._begun > seconds + LATEST_S
        for one in self.sampled:
            if not one.ended:
                self._reap(one, kill=late)
        return all(one.ended for one in self.sampled)

    def finish(self) -> None:
        """Let what still runs write what it has seen so far, which takes a moment; end what does not."""
        running = [one for one in self.sampled if not one.ended]
        for one in running:
            with suppress(OSError):
                one.spy.send_signal(signal.SIGINT)
        deadline = time.monotonic() + FINISHES_S
        while not all(one.ended for one in running) and time.monotonic() < deadline:
            for one in running:
                if not one.ended:
                    self._reap(one, kill=False)
            time.sleep(0.01)
        self.close()

    def close(self) -> None:
        """End what still runs. Harmless when called twice."""
        for one in self.sampled:
            if not one.ended:
                self._reap(one, kill=True)

    def _reap(self, one: Sampled, *, kill: bool) -> None:
        if kill:
            with suppress(OSError):
                one.spy.send_signal(signal.SIGKILL)
            one.failure = "it did not end in time"
        code, usage = _wait(one.spy, block=kill)
        if code is None:
            return
        one.ended = True
        self.cpu_s += usage
        if code != 0 and not one.failure:
            one.failure = _reason(self._folder / f"{one.pid}.log") or f"it ended with {code}"


def _wait(process: subprocess.Popen[bytes], *, block: bool) -> tuple[int | None, float]:
    """Its exit code, None while it runs, and the CPU time that it took in seconds."""
    try:
        pid, status, used = os.wait4(process.pid, 0 if block else os.WNOHANG)
    except ChildProcessError:  # somebody else has taken it up
        return process.wait(), 0.0
    if pid == 0:
        return None, 0.0
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime


def _reason(log: Path) -> str:
    """Why py-spy gave up, as it says; empty if it says nothing."""
    try:
        with open(log, "rb") as file:
            said = file.read(1 << 14).decode(errors="replace")
    except OSError:
        return ""
    if "ermission denied" in said or "ermission Denied" in said or "Operation not permitted" in said:
        return "this user may not read the program's memory"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line.removeprefix("Reason: ") for line in lines if line.startswith(("Error: ", "Reason: "))]
    return (causes or lines or [""])[-1].removeprefix("Error: ")[:200]


def _ends_with_us(parent: int, noted: mmap.mmap) -> Any:
    """
    What a child does before it becomes py-spy: it will end when we do, and cannot use up the machine.

    At last it puts the time into *noted*.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # we have ended meanwhile
            os._exit(1)
        for what, most in (
            (resource.RLIMIT_AS, _MEMORY_BYTES),
            (resource.RLIMIT_FSIZE, _FILE_BYTES),
            (resource.RLIMIT_CPU, _CPU_S),
            (resource.RLIMIT_CORE, 0),
        ):
            with suppress(OSError, ValueError):
                resource.setrlimit(what, (most, most))
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        noted[: _TIME.size] = _TIME.pack(time.time_ns())

    return prepare
