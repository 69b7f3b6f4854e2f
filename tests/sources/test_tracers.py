"""Tools that watch a process tree, on real processes that bear their names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from perfzero.sources import _proc
from perfzero.sources._tracers import TOOLS, tracers
from perfzero.sources.host import Host

SLEEP = "import time; time.sleep(60)"

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program and waits until the kernel knows it by its own name."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*command: str) -> subprocess.Popen[bytes]:
        program = subprocess.Popen(command, start_new_session=True)
        started.append(program)
        expected = Path(command[0]).name[:15]
        for _ in range(500):
            if _proc.name(program.pid) == expected:
                return program
            time.sleep(0.005)
        raise AssertionError(f"{command[0]} did not start")

    yield begin
    for program in started:
        os.killpg(program.pid, 9)
        program.wait()


@pytest.fixture
def called(tmp_path: Path) -> Callable[[str], str]:
    """A program of that name which sleeps, whatever its arguments are."""

    def make(name: str) -> str:
        path = tmp_path / name
        shell = shutil.which("sh")
        assert shell is not None
        path.write_text(f"#!{shell}\nread nothing < {tmp_path}/never\n")
        if not (tmp_path / "never").exists():
            os.mkfifo(tmp_path / "never")
        path.chmod(0o755)
        return str(path)

    return make


def found(pid: int) -> frozenset[str]:
    return tracers({pid}, root=pid, everyone=psutil.pids())


def test_nobody_watches_a_plain_program(start: Start) -> None:
    assert found(start(sys.executable, "-S", "-c", SLEEP).pid) == frozenset()


@pytest.mark.parametrize("arguments", [("record", "--pid", "{}"), ("record", "--pid={}"), ("-p{}",)])
def test_a_profiler_that_names_the_process_is_found(
    start: Start, called: Callable[[str], str], arguments: tuple[str, ...]
) -> None:
    pid = start(sys.executable, "-S", "-c", SLEEP).pid
    start(called("py-spy"), *(a.format(pid) for a in arguments))

    assert found(pid) == {"py-spy"}


def test_a_profiler_of_another_process_is_not_found(start: Start, called: Callable[[str], str]) -> None:
    start(called("py-spy"), "record", "--pid", "1", "--rate", "100")

    assert found(start(sys.executable, "-S", "-c", SLEEP).pid) == frozenset()


def test_a_tool_that_is_no_tool_for_bugs_may_name_the_process(
    start: Start, called: Callable[[str], str]
) -> None:
    pid = start(sys.executable, "-S", "-c", SLEEP).pid
    start(called("tail"), f"--pid={pid}")

    assert found(pid) == frozenset()


def test_a_tool_that_is_the_program_itself_is_found_by_a_name_cut_short(
    start: Start, called: Callable[[str], str]
) -> None:
    assert found(start(called("compute-sanitizer"), "python", "train.py").pid) == {"compute-sanitizer"}


def test_a_tool_that_python_runs_is_found(tmp_path: Path, start: Start) -> None:
    (tmp_path / "scalene.py").write_text(SLEEP)
    program = subprocess.Popen([sys.executable, "-S", "-m", "scalene"], cwd=tmp_path, start_new_session=True)
    try:
        for _ in range(500):
            if len(_proc.arguments(program.pid)) == 4:
                break
            time.sleep(0.005)
        assert found(program.pid) == {"scalene"}
    finally:
        os.killpg(program.pid, 9)
        program.wait()


def test_an_ancestor_of_the_program_is_found(tmp_path: Path, start: Start) -> None:
    """`nsys profile python train.py`, attached to by the PID of the program."""
    tool = tmp_path / "nsys"
    tool.symlink_to(sys.executable)
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([{sys.executable!r}, '-S', '-c', {SLEEP!r}])\n"
        "print(child.pid, flush=True)\ntime.sleep(60)"
    )
    program = subprocess.Popen(
        [str(tool), "-S", "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert program.stdout is not None
        assert found(int(program.stdout.readline())) == {"nsys"}
    finally:
        os.killpg(program.pid, 9)
        program.wait()
        program.stdout.close()


def test_whoever_traces_the_process_is_named_by_the_kernel(
    start: Start, called: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = start(sys.executable, "-S", "-c", SLEEP).pid
    debugger = start(called("my-debugger")).pid
    assert _proc.tracer(pid) is None
    monkeypatch.setattr(_proc, "tracer", {pid: debugger}.get)

    assert found(pid) == {"my-debugger"}


def test_a_tracer_with_a_strange_name_is_told_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_proc, "tracer", lambda pid: 1)
    monkeypatch.setattr(_proc, "name", lambda pid: "\x1b[31m")

    assert tracers({os.getpid()}, root=os.getpid(), everyone=()) == {"a debugger"}


def test_a_process_that_is_gone_is_watched_by_nobody() -> None:
    program = subprocess.Popen([sys.executable, "-S", "-c", ""])
    program.wait()

    assert found(program.pid) == frozenset()
    assert _proc.tracer(program.pid) is None
    assert _proc.arguments(program.pid) == ()


def test_the_host_remembers_who_watched_after_it_was_closed(
    start: Start, called: Callable[[str], str]
) -> None:
    pid = start(sys.executable, "-S", "-c", SLEEP).pid
    tool = start(called("strace"), "-f", "-p", str(pid))
    host = Host(pid)
    host.open()
    host.read()
    os.killpg(tool.pid, 9)
    host.close()

    assert host.tracers == ("strace",)


def test_names_cut_short_by_the_kernel_stay_apart() -> None:
    assert len({tool[:15] for tool in TOOLS}) == len(TOOLS)
