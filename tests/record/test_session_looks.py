"""A session that looks inside its program: when it asks, whom, and what the recording holds of it."""

from __future__ import annotations

import gzip
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from perfzero.record import look as look_module
from perfzero.record import session as session_module
from perfzero.record import watch as watch_module
from perfzero.record.session import Recorder, Target
from perfzero.store.reader import open_recording

STAND_IN = Path(__file__).parent / "stand_in"

TRAINS = """
import os, sys, time, torch
open(sys.argv[1], "w").write(str(os.getpid()))
class Model(torch.nn.Module):
    def forward(self, x): return x
model, optimizer = Model(), torch.Optimizer()
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    model(1)
    optimizer.step()
    time.sleep(0.005)
"""


@pytest.fixture(autouse=True)
def at_once(library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The close look is over as soon as there is a GPU; the driver lists the program on it once it runs."""
    library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}
    library.boards[0].pids = ()
    monkeypatch.setattr("perfzero.record.watch.SLOW_EVERY", 1)
    monkeypatch.setattr(watch_module.GpuWatch, "state", property(lambda self: "watching"))
    monkeypatch.setattr(session_module, "TICK_S", (0.05, 0.05, 0.05))
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    agent = tmp_path / "agent"
    agent.mkdir()
    for name in look_module.FILES:
        text = (look_module.AGENT / name).read_text()
        (agent / name).write_text(text.replace("ASLEEP_S = 1.0", "ASLEEP_S = 0.05"))
    monkeypatch.setattr(look_module, "AGENT", agent)
    monkeypatch.setattr(look_module, "LEAST_S", 0.0)
    told = tmp_path / "pid"

    def list_it() -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and not (told.exists() and told.read_text()):
            time.sleep(0.005)
        library.boards[0].pids = (int(told.read_text()),)

    threading.Thread(target=list_it, daemon=True).start()


def record(tmp_path: Path, *, seconds: float, agent: bool = True) -> tuple[Any, list[str]]:
    said: list[str] = []
    command = (sys.executable, "-c", TRAINS, str(tmp_path / "pid"), str(seconds))
    recorder = Recorder(
        Target(command=command), output=tmp_path / "r", settings=session_module.Settings(), source="gpm",
        say=said.append, agent=agent,
    )  # fmt: skip
    recorder.start()
    recorder.watch()
    recorder.end()
    assert recorder.wait() == 0
    return open_recording(tmp_path / "r"), said


def test_the_process_on_the_gpu_is_looked_into_once_and_its_trace_kept(tmp_path: Path) -> None:
    recording, said = record(tmp_path, seconds=3.0)
    [look] = recording.looks

    assert look.pid == int((tmp_path / "pid").read_text())
    assert look.gpus == (0,)
    assert (look.reason, len(look.steps_ns)) == ("", 4)
    assert gzip.decompress((tmp_path / "r" / look.file).read_bytes()) == b'{"traceEvents": []}'
    assert [text.split(" process")[0] for text in said if "look" in text] == ["looking into", "looked into"]
    assert recording.complete
    assert len(recording.observation(0).gpm) > 0


def test_without_being_asked_to_nobody_looks_and_the_program_has_no_agent(tmp_path: Path) -> None:
    recording, said = record(tmp_path, seconds=1.5, agent=False)

    assert recording.looks == ()
    assert not any("look" in text for text in said)


def test_a_program_that_ends_before_its_steps_is_told_of_and_the_recording_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_module, "STEPS", 10**6)
    recording, said = record(tmp_path, seconds=2.0)

    assert [look.reason for look in recording.looks] == ["it ended before its steps had"]
    assert any(text.endswith("it ended before its steps had") for text in said)
    assert recording.complete


def test_a_gpu_without_memory_for_a_look_has_none_and_the_reason_is_told(
    tmp_path: Path, library: Any
) -> None:
    total = library.boards[0].memory[0]
    library.boards[0].memory = (total, total - session_module.LOOK_FREE_BYTES + 1)
    recording, said = record(tmp_path, seconds=1.8)
    [look] = recording.looks

    assert (look.pid, look.gpus, look.file) == (int((tmp_path / "pid").read_text()), (0,), "")
    assert look.reason == "less than 256 MiB of its GPU's memory were free"
    assert not any("looking into" in text for text in said)
    assert f"no look into process {look.pid}: {look.reason}" in said


@pytest.mark.parametrize("then", [session_module.LOOK_FREE_BYTES, None], ids=["free", "not told"])
def test_a_look_waits_for_memory_to_be_free(
    then: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "LOOK_FREE_EVERY_S", 0.1)
    asked: list[object] = []

    def free_bytes(board: object) -> int | None:
        asked.append(board)
        return session_module.LOOK_FREE_BYTES - 1 if len(asked) < 3 else then

    monkeypatch.setattr("perfzero.sources.nvml.Board.free_bytes", free_bytes)
    recording, _ = record(tmp_path, seconds=2.5)

    assert len(asked) == 3
    assert [look.reason for look in recording.looks] == [""]


def test_a_session_without_room_for_the_agent_goes_on_without_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(look_module.shutil, "copyfile", full)
    recording, said = record(tmp_path, seconds=1.0)

    assert "the program cannot be looked into: No space left on device" in said
    assert recording.looks == ()
    assert recording.complete


def test_nothing_is_left_of_the_agent_when_the_program_cannot_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pid").write_text("1")
    monkeypatch.setattr("perfzero.record.folder.parent_of", lambda _: tmp_path)
    recorder = Recorder(
        Target(command=(str(tmp_path / "none"),)), output=tmp_path / "r", settings=session_module.Settings(),
        source="gpm", agent=True,
    )  # fmt: skip
    with pytest.raises(session_module.PerfzeroError, match="command not found"):
        recorder.start()

    assert not list(tmp_path.glob("perfzero-*"))
