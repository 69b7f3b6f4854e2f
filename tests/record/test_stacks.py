"""The host is sampled once, and what is found becomes a file of the recording."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfzero.errors import NoRecording, SourceError
from perfzero.record import session as session_module
from perfzero.record import stacks as module
from perfzero.record import watch as watch_module
from perfzero.record.session import Recorder, Target
from perfzero.record.stacks import HostSampling, source_of
from perfzero.sources import stacks as source
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


def test_a_file_is_read_as_the_process_sees_it(running: int, program: Path) -> None:
    lines = PROGRAM.splitlines()

    assert source_of(running, str(program)) == lines
    assert source_of(running, os.path.relpath(program)) == lines
    assert source_of(1 << 22, str(program)) == lines  # it has ended


def test_only_python_that_the_programs_user_may_read_is_read(
    running: int, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (tmp_path / "link.py").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe.py")

    assert source_of(running, str(secret)) == []
    assert source_of(running, str(tmp_path / "link.py")) == []
    assert source_of(running, str(tmp_path / "pipe.py")) == []
    assert source_of(running, f"{program}\0.py") == []
    program.chmod(0o600)
    assert source_of(running, str(program)) != []
    monkeypatch.setattr(module, "_user", lambda _: os.getuid() + 1)
    assert source_of(running, str(program)) == []


@pytest.fixture
def at_once(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is looked at closely from its start, and the driver hides who uses the GPU."""
    library.boards[0].pids = ()
    monkeypatch.setattr(watch_module.GpuWatch, "state", property(lambda self: "looking closely"))
    monkeypatch.setattr(session_module, "TICK_S", (0.05, 0.05, 0.05))


def recorded(program: Path, tmp_path: Path, *, stacks: bool) -> Path:
    """The recording of *program* for 2.5 s."""
    command = (sys.executable, str(program), str(tmp_path / "pid"), "2.5")
    recorder = Recorder(
        Target(command=command), output=tmp_path / "r", settings=session_module.Settings(), source="gpm",
        stacks=stacks,
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
        read_stacks(recorded(program, tmp_path, stacks=False))
