"""
When the main thread of a Python waits for the GIL, seen from outside.

A thread that waits for the GIL sleeps in the kernel, in futex(2), on a condition variable that is part of the
runtime: an address within the data of the file that holds Python (its `.data` or `.bss`). The locks of a
program lie on the heap, those of libraries within their own data. `/proc/PID/task/TID/syscall` tells in which
call a thread sleeps, with its arguments. So each look at that file tells whether the thread waits for the
GIL: Python 3.8 to 3.14 (x86-64, each tried; the main interpreter's GIL is static in all of them).

A child of ours looks 100 times a second, at random moments. It is this file, run by path: nothing but the
standard library here. Nothing is stopped, nothing runs in the program. The right to look is that to trace the
process, which reading its stacks needs as well.

Cost: 0.1 s of CPU in 10 s (two virtual cores that others used as well).
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

WAITS_HZ = 100.0
"""A wait lasts up to 5 ms, Python's switch interval; 1,000 looks know a share of 0.3 to 3 points."""

MOST_LOOKS = 10_000

_FUTEX = {"x86_64": b"202", "aarch64": b"98"}
"""The number of futex(2), by machine."""

_WAITS = frozenset({0, 9})
"""FUTEX_WAIT and FUTEX_WAIT_BITSET, without their flags."""

_OPERATION = 0x7F

_PYTHON = re.compile(r"/(libpython3\.\d+t?\.so|python3?(\.\d+)?t?$)")
"""A mapped file that holds Python's data."""

_MAPS_BYTES = 4 << 20
_ROW = struct.Struct("=q")
"""A look: twice its Unix ns, and one more where the thread waited."""

_ENDS_S = 1.0


@dataclass(frozen=True, slots=True)
class Runtime:
    """Where the data of Python lies in a process: address ranges."""

    ranges: tuple[tuple[int, int], ...]

    def holds(self, address: int) -> bool:
        """Whether an address is within them."""
        return any(begin <= address < end for begin, end in self.ranges)


def runtime_in(maps: Iterable[str]) -> Runtime:
    """Python's data among the lines of `/proc/PID/maps`; a mapping without a file behind it is its `.bss`."""
    found: list[tuple[int, int]] = []
    before = 0
    for line in maps:
        fields = line.split(None, 5)
        if len(fields) < 5:
            continue
        begin, end = (int(part, 16) for part in fields[0].split("-"))
        name = fields[5].strip() if len(fields) == 6 else ""
        if fields[1].startswith("rw") and (_PYTHON.search(name) or (not name and begin == before)):
            found.append((begin, end))
            before = end
        elif _PYTHON.search(name):
            before = end
    return Runtime(tuple(found))


def waits(call: bytes, runtime: Runtime, *, futex: bytes) -> bool:
    """Whether a thread of which `/proc/PID/task/TID/syscall` says *call* waits for the GIL."""
    fields = call.split()
    if len(fields) < 3 or fields[0] != futex:
        return False
    return int(fields[2], 16) & _OPERATION in _WAITS and runtime.holds(int(fields[1], 16))


class GilWaits:
    """Looks whether the main thread of the process *pid* waits for the GIL, for so many *seconds*."""

    def __init__(self, pid: int, *, seconds: float) -> None:
        """Raises OSError and SubprocessError."""
        self.pid = pid
        self.cpu_s = 0.0
        """CPU time of the child in seconds, once it has ended."""
        self._found: BinaryIO = open(os.memfd_create("perfzero"), "w+b")  # noqa: SIM115 - until `close`
        self._ended = False
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(pid), str(seconds), str(WAITS_HZ)],
                stdin=subprocess.DEVNULL,
                stdout=self._found,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,  # a Ctrl-C at the terminal is not for it
            )
        except BaseException:
            self._found.close()
            raise

    def finish(self) -> list[tuple[int, bool]]:
        """The looks so far, in order: Unix ns, and whether the thread waited. Ends the child."""
        self._end()
        self._found.seek(0)
        data = self._found.read(MOST_LOOKS * _ROW.size)
        rows = (row for (row,) in _ROW.iter_unpack(data[: len(data) // _ROW.size * _ROW.size]))
        return [(row >> 1, bool(row & 1)) for row in rows]

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child.pid, signal.SIGKILL)  # it is there until we have waited for it
        deadline = time.monotonic() + _ENDS_S
        while time.monotonic() < deadline:
            try:
                pid, status, used = os.wait4(self._child.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else has taken it up
                return
            if pid:
                self._child.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = used.ru_utime + used.ru_stime
                return
            time.sleep(0.002)

    def close(self) -> None:
        """End the child, and drop what it found. Harmless when called twice."""
        self._end()
        self._found.close()


def main() -> None:
    """Be the child: a process, seconds, a rate; looks on stdout. Ends without any where it may not look."""
    pid, seconds, rate_hz = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    for what, most in ((resource.RLIMIT_CPU, 5), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(what, (most, most))
    futex = _FUTEX.get(os.uname().machine)
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
        runtime = runtime_in(maps.read(_MAPS_BYTES).splitlines())
    if futex is None or not runtime.ranges:
        return
    parent, draw = os.getppid(), random.Random()
    call = os.open(f"/proc/{pid}/task/{pid}/syscall", os.O_RDONLY | os.O_CLOEXEC)
    until = time.monotonic() + seconds
    while time.monotonic() < until and os.getppid() == parent:
        now_ns = time.time_ns()
        row = now_ns << 1 | waits(os.pread(call, 256, 0), runtime, futex=futex)
        os.write(1, _ROW.pack(row))
        time.sleep(draw.expovariate(rate_hz))


if __name__ == "__main__":
    with contextlib.suppress(OSError, ValueError):
        main()
