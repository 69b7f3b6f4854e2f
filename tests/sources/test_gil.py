"""Whether a thread waits for the GIL, from what the kernel says of it; real programs among them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from perfzero.sources.gil import GilWaits, Runtime, runtime_in, waits

needs_futex = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="the number of futex(2) is not known here"
)

MAPS = """\
00400000-00420000 r-xp 00000000 fe:00 11 /usr/bin/python3.12
00620000-00640000 rw-p 00020000 fe:00 11 /usr/bin/python3.12
00640000-00650000 rw-p 00000000 00:00 0
00650000-00700000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000010000 rw-p 00000000 fe:00 12 /usr/lib/python3.12/lib-dynload/zlib.cpython-312-x86_64-linux-gnu.so
7f0000010000-7f0000020000 rw-p 00000000 00:00 0
7f0000100000-7f0000110000 r--p 00000000 fe:00 13 /usr/lib/libpython3.12.so.1.0
7f0000110000-7f0000120000 rw-p 00010000 fe:00 13 /usr/lib/libpython3.12.so.1.0
7f0000120000-7f0000130000 rw-p 00000000 00:00 0
7f0000140000-7f0000150000 rw-p 00000000 00:00 0
"""  # noqa: E501 - as the kernel writes it

PROGRAM = """
import sys, threading, time, zlib
def computes():
    while True:
        for i in range(10_000): pass
def packs():
    data = bytes(range(256)) * 4096
    while True: zlib.compress(data)
def sleeps():
    while True: time.sleep(0.01)
lock = threading.Lock()
def locks():
    while True:
        with lock: time.sleep(0.01)
        time.sleep(0.0001)
threading.Thread(target=globals()[sys.argv[1]], daemon=True).start()
print("ready", flush=True)
while True:
    time.sleep(0.001)
    for i in range(1000): pass
    if sys.argv[1] == "locks":
        with lock: pass
"""


@contextmanager
def running(*command: str) -> Iterator[int]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            if command[0] == sys.executable:
                assert program.stdout is not None
                assert program.stdout.readline() == "ready\n"
            yield program.pid
        finally:
            program.kill()


def looked(pid: int, *, seconds: float = 0.8) -> list[tuple[int, bool]]:
    looks = GilWaits(pid, seconds=60)
    try:
        time.sleep(seconds)
        return looks.finish()
    finally:
        looks.close()


def test_pythons_data_is_that_of_the_files_that_hold_it_and_what_follows_without_a_gap() -> None:
    runtime = runtime_in(MAPS.splitlines())

    assert [f"{begin:x}-{end:x}" for begin, end in runtime.ranges] == [
        "620000-640000", "640000-650000", "7f0000110000-7f0000120000", "7f0000120000-7f0000130000",
    ]  # fmt: skip


def test_a_program_that_is_no_python_has_none_of_its_data() -> None:
    assert runtime_in(["00400000-00420000 rw-p 0 fe:00 11 /usr/bin/sleep", "", "x"]).ranges == ()


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (b"202 0x1004 0x89 0x0 0x7f 0x0 0xffffffff 0x7fff 0x7f00", True),
        (b"202 0x1004 0x80 0x0 0x0 0x0 0x0 0x7fff 0x7f00", True),
        (b"202 0x2000 0x89 0x0 0x7f 0x0 0xffffffff 0x7fff 0x7f00", False),
        (b"202 0x1004 0x81 0x1 0x0 0x0 0x0 0x7fff 0x7f00", False),
        (b"230 0x1004 0x89 0x0 0x7f 0x0 0x0 0x7fff 0x7f00", False),
        (b"running\n", False),
        (b"-1 0x7fff 0x7f00", False),
        (b"", False),
    ],
    ids=["timed", "untimed", "another lock", "wakes", "another call", "runs", "not in a call", "nothing"],
)
def test_a_wait_for_the_gil_is_a_futex_within_pythons_data(call: bytes, found: bool) -> None:
    assert waits(call, Runtime(((0x1000, 0x2000),)), futex=b"202") is found


@needs_futex
def test_a_main_thread_beside_one_that_computes_in_python_waits_for_the_gil() -> None:
    with running(sys.executable, "-c", PROGRAM, "computes") as pid:
        looks = looked(pid)
    times = [time_ns for time_ns, _ in looks]

    assert len(looks) > 20
    assert times == sorted(times)
    assert abs(times[-1] - time.time_ns()) < 60e9
    assert sum(waited for _, waited in looks) > 0.4 * len(looks)


@needs_futex
@pytest.mark.parametrize("work", ["packs", "sleeps", "locks"])
def test_a_main_thread_beside_one_without_the_gil_does_not_nor_does_one_that_waits_for_a_lock(
    work: str,
) -> None:
    with running(sys.executable, "-c", PROGRAM, work) as pid:
        looks = looked(pid)

    assert len(looks) > 20
    assert sum(waited for _, waited in looks) <= 0.1 * len(looks)


@pytest.mark.parametrize("ended", [False, True], ids=["no Python", "ended"])
def test_there_are_no_looks_at_what_runs_no_python_or_has_ended(ended: bool) -> None:
    with running("sleep", "9") as pid:
        looks = [] if ended else looked(pid, seconds=0.3)
    if ended:
        looks = looked(pid, seconds=0.3)

    assert looks == []


def test_what_it_costs_is_known_in_the_end_and_nothing_is_left_running() -> None:
    with running(sys.executable, "-c", PROGRAM, "sleeps") as pid:
        looks = GilWaits(pid, seconds=0.2)
        time.sleep(0.6)
        looks.finish()
        held = len(os.listdir("/proc/self/fd"))
        looks.close()
        looks.close()

    assert 0 < looks.cpu_s < 0.5
    assert len(os.listdir("/proc/self/fd")) == held - 2  # its looks, and the pipe of the program
