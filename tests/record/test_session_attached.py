"""A session beside a program that runs already, or beside GPUs alone: what it says is not told, and once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfzero.record import remote
from perfzero.record import session as session_module
from perfzero.record import watch as watch_module
from perfzero.record.attach import not_asked, not_entered, nothing_to_enter
from perfzero.record.remote import Python
from perfzero.record.session import Recorder, Target
from perfzero.report.analysis import judged_report
from perfzero.store.reader import Recording, open_recording


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1) as running:
        yield running


@pytest.fixture(autouse=True)
def at_once(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The close look is over as soon as there is a GPU."""
    library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}
    monkeypatch.setattr("perfzero.record.watch.SLOW_EVERY", 1)
    monkeypatch.setattr(session_module, "TICK_S", (0.05, 0.05, 0.05))


def record(tmp_path: Path, target: Target, **wanted: bool) -> tuple[Recording, list[str]]:
    said: list[str] = []
    recorder = Recorder(
        target, output=tmp_path / "r", settings=session_module.Settings(), source="gpm", duration_s=0.6,
        say=said.append, **wanted,
    )  # fmt: skip
    recorder.start()
    recorder.watch()
    recorder.end()
    recorder.watched.restore_signals()
    return open_recording(tmp_path / "r"), said


def unseen(recording: Recording) -> list[str]:
    return [note.text for note in recording.notes() if note.kind == "unseen"]


def test_a_program_of_an_older_python_is_said_to_have_no_layers_and_how_to_get_them(
    tmp_path: Path, library: Any, monkeypatch: pytest.MonkeyPatch, program: subprocess.Popen[bytes]
) -> None:
    library.boards[0].pids = (program.pid,)
    monkeypatch.setattr(watch_module.GpuWatch, "state", property(lambda self: "watching"))
    monkeypatch.setattr(remote, "python_of", lambda pid: Python(12))
    recording, said = record(tmp_path, Target(pid=program.pid), agent=True, may_stay=True)
    why = "its Python is 3.12, and only 3.14 or later lets somebody in"

    assert [text for text in said if "look" in text] == [f"no look into process {program.pid}: {why}"]
    assert unseen(recording) == [
        f"The program's layers are not told: process {program.pid} could not be looked into, as {why}. "
        "To see them start it with: perfzero run -- CMD"
    ]
    assert judged_report(tmp_path / "r").doubts.count(unseen(recording)[0]) == 1


def test_a_recording_that_ends_before_a_look_says_so(
    tmp_path: Path, library: Any, program: subprocess.Popen[bytes]
) -> None:
    library.boards[0].pids = (program.pid,)
    recording, said = record(tmp_path, Target(pid=program.pid), agent=True, may_stay=True)

    assert unseen(recording) == [not_entered(program.pid, "the recording ended before that")]
    assert not any("look" in text for text in said)


def test_a_program_that_is_entered_is_said_to_lack_nothing(
    tmp_path: Path, library: Any, monkeypatch: pytest.MonkeyPatch, program: subprocess.Popen[bytes]
) -> None:
    library.boards[0].pids = (program.pid,)
    tried: list[int] = []
    monkeypatch.setattr(watch_module.GpuWatch, "state", property(lambda self: "watching"))
    monkeypatch.setattr(remote.Entrance, "ready", lambda self, pids: tried.extend(pids) or True)
    monkeypatch.setattr(session_module.Looks, "asked", True)
    recording, _ = record(tmp_path, Target(pid=program.pid), agent=True, may_stay=True)

    assert unseen(recording) == []
    assert set(tried) <= {program.pid}


def test_a_running_program_is_entered_only_if_that_is_asked_for_by_name(
    tmp_path: Path, library: Any, monkeypatch: pytest.MonkeyPatch, program: subprocess.Popen[bytes]
) -> None:
    library.boards[0].pids = (program.pid,)
    tried: list[int] = []
    monkeypatch.setattr(watch_module.GpuWatch, "state", property(lambda self: "watching"))
    monkeypatch.setattr(remote.Entrance, "ready", lambda self, pids: tried.extend(pids) or True)
    recording, _ = record(tmp_path, Target(pid=program.pid), agent=True)

    assert tried == []
    assert unseen(recording) == [not_asked()]
    assert "--agent" in not_asked()


def test_with_gpus_alone_what_was_wanted_is_said_to_be_missing(tmp_path: Path) -> None:
    recording, _ = record(tmp_path, Target(gpus=("0",)), agent=True, stacks=True)

    assert unseen(recording) == [nothing_to_enter(layers=True, lines=True)]
    assert unseen(recording)[0] == (
        "The program's layers and lines are not told: with --gpu no program is watched. "
        "To see them start it with: perfzero run -- CMD, or find its lines with: perfzero run --pid PID"
    )
    assert unseen(recording)[0] in judged_report(tmp_path / "r").doubts


@pytest.mark.parametrize(
    ("wanted", "said"),
    [({"agent": True}, "layers are"), ({"stacks": True}, "lines are")],
    ids=["agent", "stacks"],
)
def test_only_what_was_wanted_is_said_to_be_missing(
    wanted: dict[str, bool], said: str, tmp_path: Path
) -> None:
    recording, _ = record(tmp_path, Target(gpus=("0",)), **wanted)

    [text] = unseen(recording)
    assert f"The program's {said} not told" in text


def test_what_nobody_wanted_is_not_missed(tmp_path: Path) -> None:
    recording, _ = record(tmp_path, Target(gpus=("0",)))

    assert unseen(recording) == []


@pytest.mark.parametrize("started", [True, False], ids=["started", "running"])
def test_lines_of_a_program_are_not_missed_whoever_started_it(
    started: bool, tmp_path: Path, program: subprocess.Popen[bytes]
) -> None:
    target = Target(command=("sleep", "0.3")) if started else Target(pid=program.pid)
    recording, _ = record(tmp_path, target, stacks=True)

    assert unseen(recording) == []
