"""The host is sampled once, and what is found becomes a file of the recording."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfzero.errors import NoRecording, SourceError
from perfzero.record import session as session_module
from perfzero.record import stacks as module
from perfzero.record import watch as watch_module
from perfzero.record.program_source import view_of
from perfzero.record.session import Recorder, Target
from perfzero.record.stacks import HostSampling, program_lines
from perfzero.sources import stacks as source
from perfzero.stacks import Frame, ProcessStacks
from perfzero.store.stacks import read_stacks

PROGRAM = """
import os, sys, time
def work():
    time.sleep(0.02)
open(sys.argv[1], "w").write(str(os.getpid()))
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    work()
"""


HELD_UP = """
import threading, time
def computes():
    while True:
        for i in range(10_000): pass
threading.Thread(target=computes, daemon=True).start()
print("ready", flush=True)
while True:
    time.sleep(0.001)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def running(program: Path, tmp_path: Path) -> Iterator[int]:
    """The pid of a program that does nothing but wait."""
    told = tmp_path / "pid"
    with subprocess.Popen([sys.executable, str(program), str(told), "30"]) as process:
        try:
            while not (told.exists() and told.read_text()):
                time.sleep(0.01)
            yield process.pid
        finally:
            process.kill()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampling takes a second."""
    begin, poll = source.Stacks.begin, source.Stacks.poll
    monkeypatch.setattr(source.Stacks, "begin", lambda *a, **k: begin(*a, **{**k, "seconds": 1}))
    monkeypatch.setattr(source.Stacks, "poll", lambda self: poll(self, seconds=1))


def sampled(pid: int, folder: Path) -> tuple[HostSampling, list[str]]:
    said: list[str] = []
    sampling = HostSampling(say=said.append)
    sampling.begin(pid)
    deadline = time.monotonic() + 10
    while sampling.begun and sampling.cpu_s == 0.0 and time.monotonic() < deadline:
        sampling.tick()
        time.sleep(0.05)
    folder.mkdir()
    sampling.close(folder)
    return sampling, said


@pytest.mark.usefixtures("short")
def test_what_was_seen_of_the_program_is_written_with_the_text_of_its_lines(
    running: int, program: Path, tmp_path: Path
) -> None:
    _, said = sampled(running, tmp_path / "r")
    found = read_stacks(tmp_path / "r")
    [main] = found.processes

    assert (said, found.doubts) == ([], ())
    assert (main.pid, main.role) == (running, "main")
    assert found.lines[str(program), 4] == "time.sleep(0.02)"
    assert found.lines[str(program), 8] == "work()"
    assert main.stacks[int(main.stack[-1])] == ()


@pytest.mark.usefixtures("short")
def test_who_holds_the_gil_is_written_with_the_text_of_its_line(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(HELD_UP)
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            sampling, said = sampled(process.pid, tmp_path / "r")
        finally:
            process.kill()
    found = read_stacks(tmp_path / "r")

    assert (said, found.doubts, len(found.processes)) == ([], (), 1)
    assert found.gil is not None
    assert found.gil.holders is not None
    assert found.gil.waits.mean() > 0.3
    assert "computes" in {frame.function for frame in found.gil.holders.frames}
    assert found.lines[str(program), 5] == "for i in range(10_000): pass"
    assert sampling.cpu_s > 0


@pytest.mark.usefixtures("short")
def test_lines_are_told_without_the_gil_where_that_cannot_be_seen(
    running: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(module.gil, "GilWaits", forbidden)
    _, said = sampled(running, tmp_path / "r")
    found = read_stacks(tmp_path / "r")

    assert (said, found.doubts, found.gil, len(found.processes)) == ([], (), None, 1)


def test_without_py_spy_one_sentence_is_told_and_kept(
    running: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise SourceError("py-spy is not installed.\nInstall it.")

    monkeypatch.setattr(source, "py_spy", missing)
    said: list[str] = []
    sampling = HostSampling(say=said.append)
    sampling.begin(running)
    sampling.tick()
    sampling.close(tmp_path)

    assert sampling.begun
    assert said == ["the host is not sampled: py-spy is not installed"]
    assert read_stacks(tmp_path).doubts == ("The host was not sampled: py-spy is not installed.",)


@pytest.mark.usefixtures("short")
def test_a_process_that_cannot_be_sampled_is_a_doubt(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "30"]) as process:
        try:
            _, said = sampled(process.pid, tmp_path / "r")
        finally:
            process.kill()
    [doubt] = read_stacks(tmp_path / "r").doubts

    assert doubt.startswith(f"The host's process {process.pid} could not be sampled: ")
    assert len(said) == 1


def test_what_was_never_begun_leaves_nothing(tmp_path: Path) -> None:
    HostSampling(say=lambda _: None).close(tmp_path)

    with pytest.raises(NoRecording):
        read_stacks(tmp_path)


def test_a_session_that_ends_meanwhile_keeps_what_was_seen_so_far(running: int, tmp_path: Path) -> None:
    sampling = HostSampling(say=lambda _: None)
    sampling.begin(running)
    time.sleep(0.7)
    sampling.close(tmp_path)
    found = read_stacks(tmp_path)

    assert found.doubts == ()
    assert 0.1 < (found.processes[0].end_ns - found.processes[0].start_ns) / 1e9 < 3


@pytest.mark.usefixtures("short")
def test_while_somebody_waits_for_the_recorder_nothing_is_read(running: int, tmp_path: Path) -> None:
    def held() -> int:
        return len(os.listdir("/proc/self/fd"))

    sampling = HostSampling(say=lambda _: None)
    sampling.begin(running)
    begun = held()
    busy_until = time.monotonic() + 1.5  # longer than the host is sampled here
    while time.monotonic() < busy_until:
        sampling.tick(busy=True)
        time.sleep(0.05)
    assert held() == begun
    while held() == begun and time.monotonic() < busy_until + 10:
        sampling.tick()
        time.sleep(0.05)
    assert held() == begun - 7  # two files of each py-spy, the looks, two folders
    sampling.close(tmp_path)

    assert read_stacks(tmp_path).lines


def test_a_program_that_ended_before_its_lines_were_read_has_them_all_the_same(
    program: Path, tmp_path: Path
) -> None:
    sampling = HostSampling(say=lambda _: None)
    with subprocess.Popen([sys.executable, str(program), str(tmp_path / "pid"), "30"]) as process:
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        sampling.begin(process.pid)
        time.sleep(0.7)
        process.kill()
    sampling.close(tmp_path)

    assert read_stacks(tmp_path).lines[str(program), 4] == "time.sleep(0.02)"


def seen_at(pid: int, frames: list[Frame]) -> ProcessStacks:
    none = np.zeros(0, np.int64)
    return ProcessStacks(pid, "main", 0, 1, 250.0, 0, none, none, none, tuple(frames), ())


def test_no_more_lines_are_read_than_a_recording_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.py"
    path.write_text("x = 1\n" * 100)
    monkeypatch.setattr(module, "MAX_LINES", 3)
    view = view_of(os.getpid())
    assert view is not None
    ones = [seen_at(pid, [Frame(str(path), n + pid, "f") for n in range(2)]) for pid in (1, 2, 9)]
    found = program_lines(ones, {1: view, 2: view, 9: view})
    view.close()

    assert sorted(line for _, line in found) == [1, 2, 3]
    assert program_lines(ones, {}) == {}


def test_names_without_end_hold_nobody_up(tmp_path: Path) -> None:
    big = tmp_path / "big.py"
    big.write_text("x\n" * 2_000_000)
    view = view_of(os.getpid())
    assert view is not None
    frames = [Frame(f"{tmp_path}/{'./' * i}big.py", 2**30, "f") for i in range(400)]
    begun = time.monotonic()
    program_lines([seen_at(pid, frames) for pid in range(3)], dict.fromkeys(range(3), view))
    view.close()

    assert time.monotonic() - begun < 2.5


@pytest.fixture
def at_once(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is looked at closely from its start, and the driver hides who uses the GPU."""
    library.boards[0].pids = ()
    monkeypatch.setattr(watch_module.GpuWatch, "state", property(lambda self: "looking closely"))
    monkeypatch.setattr(session_module, "TICK_S", (0.05, 0.05, 0.05))


def recorded(
    program: Path, tmp_path: Path, *, stacks: bool, agent: bool = False, seconds: float = 1.5
) -> Path:
    """The recording of *program* for some seconds."""
    command = (sys.executable, str(program), str(tmp_path / "pid"), str(seconds))
    recorder = Recorder(
        Target(command=command), output=tmp_path / "r", settings=session_module.Settings(), source="gpm",
        stacks=stacks, agent=agent,
    )  # fmt: skip
    recorder.start()
    recorder.watch()
    recorder.end()
    assert recorder.wait() == 0
    return tmp_path / "r"


@pytest.mark.usefixtures("short", "at_once")
def test_a_session_samples_the_process_that_feeds_the_gpu(program: Path, tmp_path: Path) -> None:
    [main] = read_stacks(recorded(program, tmp_path, stacks=True)).processes

    assert main.pid == int((tmp_path / "pid").read_text())
    assert "work" in {frame.function for frame in main.frames}


@pytest.mark.usefixtures("short", "at_once")
def test_a_session_that_is_not_asked_to_samples_no_stacks(program: Path, tmp_path: Path) -> None:
    with pytest.raises(NoRecording):
        read_stacks(recorded(program, tmp_path, stacks=False, seconds=0.5))


@pytest.mark.parametrize("at_work", [False, True])
@pytest.mark.usefixtures("short", "at_once")
def test_a_session_reads_no_stacks_while_a_look_is_at_work(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_work: bool
) -> None:
    seen: set[bool] = set()
    monkeypatch.setattr(session_module.Looks, "at_work", property(lambda self: at_work))
    monkeypatch.setattr(HostSampling, "tick", lambda self, *, busy: seen.add(busy))
    recorded(program, tmp_path, stacks=True, agent=True, seconds=0.5)

    assert seen == {at_work}
