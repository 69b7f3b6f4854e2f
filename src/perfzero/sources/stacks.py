"""
Stacks of Python, sampled by py-spy from outside: it reads the memory of a process and stops nothing.

Each process is sampled by a py-spy of its own. One for a whole tree (`--subprocesses`) reads every process as
often as the main one, which costs a third of a core with a single worker; and it tells threads apart by an
address that a forked worker has in common with its parent.

Clock: py-spy counts from its own start. The child notes the time just before it becomes py-spy, which begins
to count `BEGINS_NS` later. (When `Popen` returns is no good mark: on a busy machine that was 10 ms late.)

Moments are random (py-spy waits for an exponentially distributed time between samples), so what is sampled
has no rhythm that the program's could meet.

What it writes goes into files that have no name (memfd_create(2)): nothing is left behind by a recorder that
is killed.

Cost: 10 s take 0.4 s of CPU for a process with one thread of Python, and 1.1 s for one with three and two
workers; who holds the GIL 0.1 s more (py-spy 0.4.3, two virtual cores that others used as well).
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import math
import mmap
import os
import resource
import signal
import struct
import subprocess
import sysconfig
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from perfzero.errors import SourceError
from perfzero.stacks import Role
from perfzero.words.said import say

MAIN_HZ = 250.0
HOLDERS_HZ = 100.0
"""Who holds the GIL: for 0.1 s of CPU in 10 s, for py-spy reads the stack of no other thread then."""

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

ENDS_S = 1.0
"""For so long one that was killed is waited for. The kernel may hold it longer; then it is left."""

_MEMORY_BYTES, _FILE_BYTES, _CPU_S = 4 << 30, 16 << 20, 10
"""
What a py-spy may use that was led astray by what it reads. 2,500 samples that change 14 frames of 170 bytes
each, twice, write 12 MB. Reading 16 MB takes a second and 90 MB of memory.
"""

_PR_SET_PDEATHSIG = 1
_TIME = struct.Struct("q")


@dataclass(slots=True)
class Sampled:
    """
    A process that is sampled, or was: `begun_ns` is the zero of py-spy's clock, in Unix ns.

    `trace` holds what py-spy found, once it has `ended` without a `failure`. With `holders` only threads are
    sampled that hold the GIL.
    """

    pid: int
    role: Role
    rate_hz: float
    begun_ns: int
    trace: BinaryIO
    log: BinaryIO
    spy: subprocess.Popen[bytes]
    ended: bool = False
    failure: str = ""
    holders: bool = False
    killed_s: float = math.inf


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
    raise SourceError(say("pyspy.missing"))


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
    Samples the processes that `begin` is given, once.

    Nothing in here waits, but for `finish` and `close`, which end what still runs and have a limit.
    """

    def __init__(self, *, program: Sequence[str] | None = None) -> None:
        """*program* takes the place of py-spy."""
        self.sampled: list[Sampled] = []
        self.cpu_s = 0.0
        """CPU time of those that have ended, in seconds."""
        self._program = tuple(program) if program is not None else (py_spy(),)
        self._begun = time.monotonic()

    def begin(
        self, pid: int, *, role: Role, rate_hz: float, seconds: int = SECONDS, holders: bool = False
    ) -> None:
        """Sample the process *pid* for so many *seconds*; *holders* of its GIL alone, or all threads."""
        noted = mmap.mmap(-1, _TIME.size)  # shared with the child
        with ExitStack() as on_failure:
            try:
                trace, log = (on_failure.enter_context(_unnamed()) for _ in range(2))
                spy = subprocess.Popen(
                    [
                        *self._program, "record", "--format", "chrometrace", "--nonblocking",
                        "--gil" if holders else "--idle",
                        "--rate", f"{rate_hz:.0f}", "--duration", str(seconds),
                        "--output", f"/proc/self/fd/{trace.fileno()}", "--pid", str(pid),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    pass_fds=(trace.fileno(),),
                    start_new_session=True,  # a Ctrl-C at the terminal is not for it
                    preexec_fn=_ends_with_us(os.getpid(), noted),
                )  # fmt: skip
            except (OSError, subprocess.SubprocessError) as error:
                raise SourceError(say("pyspy.no_start", why=error)) from error
            on_failure.pop_all()
        self._begun = time.monotonic()
        (started_ns,) = _TIME.unpack(noted[: _TIME.size])
        noted.close()
        self.sampled.append(
            Sampled(pid, role, rate_hz, started_ns + BEGINS_NS, trace, log, spy, holders=holders)
        )

    def poll(self, *, seconds: int = SECONDS) -> bool:
        """Whether all have ended; those that should have and did not are ended."""
        over_s = time.monotonic() - self._begun - seconds
        for one in self.sampled:
            if not one.ended:
                self._reap(one)
            if not one.ended:
                if over_s > LATEST_S:
                    _kill(one)
                    self._reap(one)
                one.ended = one.ended or time.monotonic() - one.killed_s > ENDS_S
        return all(one.ended for one in self.sampled)

    def finish(self) -> None:
        """Let what still runs write what it has seen so far, which takes a moment; end what does not."""
        running = [one for one in self.sampled if not one.ended]
        for one in running:
            _signal(one, signal.SIGINT)
        self._await(running, FINISHES_S)
        self._end(running)

    def close(self) -> None:
        """End what still runs, and drop what was found. Harmless when called twice."""
        self._end([one for one in self.sampled if not one.ended])
        for one in self.sampled:
            one.trace.close()
            one.log.close()

    def _end(self, running: Sequence[Sampled]) -> None:
        """End those that are *running* still; what the kernel does not let go in time is left to it."""
        for one in running:
            if not one.ended:
                _kill(one)
        self._await(running, ENDS_S)
        for one in running:
            one.ended = True

    def _await(self, running: Sequence[Sampled], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not all(one.ended for one in running):
            for one in running:
                if not one.ended:
                    self._reap(one)
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)

    def _reap(self, one: Sampled) -> None:
        code, usage = _wait(one.spy)
        if code is None:
            return
        one.ended = True
        self.cpu_s += usage
        if code == -signal.SIGXFSZ:
            one.failure = say("pyspy.large", size=_FILE_BYTES >> 20)
        elif code != 0 and not one.failure:
            one.failure = _reason(one.log) or say("pyspy.ended", code=code)


def _unnamed() -> BinaryIO:
    """A file in memory that has no name, and goes when it is closed."""
    return open(os.memfd_create("perfzero"), "w+b")


def _kill(one: Sampled) -> None:
    _signal(one, signal.SIGKILL)
    one.failure = say("pyspy.no_end")
    one.killed_s = min(one.killed_s, time.monotonic())


def _signal(one: Sampled, number: signal.Signals) -> None:
    """
    Send it a signal, if it is still our child.

    `Popen.send_signal` would take up one that has ended, and the CPU time that it used would be lost.
    """
    with suppress(OSError):
        os.waitid(os.P_PID, one.spy.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        os.kill(one.spy.pid, number)


def _wait(process: subprocess.Popen[bytes]) -> tuple[int | None, float]:
    """Its exit code, None while it runs, and the CPU time that it took in seconds."""
    try:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
    except ChildProcessError:  # somebody else has taken it up
        return process.wait(), 0.0
    if pid == 0:
        return None, 0.0
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime


def _reason(log: BinaryIO) -> str:
    """Why py-spy gave up, as it says; empty if it says nothing."""
    log.seek(0)  # it wrote where we stand
    said = log.read(1 << 14).decode(errors="replace")
    if "ermission denied" in said or "ermission Denied" in said or "Operation not permitted" in said:
        return say("pyspy.no_memory")
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
