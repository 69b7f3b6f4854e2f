"""A whole recording session: a real program, a simulated GPU behind both library boundaries."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from perfzero.errors import DeviceBusy, UsageError
from perfzero.record import watch as watch_module
from perfzero.record.launch import CannotStart
from perfzero.record.policy import Settings
from perfzero.record.session import Recorder, Target
from perfzero.store.reader import open_recording
from simulated_sampler import simulated

PYTHON = sys.executable


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch, library: Any) -> Any:
    """Let the recorder start samplers on a simulated, working GPU; the argument prepares that device."""
    library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}

    real = watch_module.SamplerClient

    def use(setup: str = "") -> None:
        monkeypatch.setattr(
            watch_module,
            "SamplerClient",
            lambda gpu, **k: real(gpu, command=simulated(setup), **k),
        )

    use()
    return use


def record(target: Target, folder: Path, **options: Any) -> Any:
    """Record to the end and read the recording back."""
    recorder = Recorder(target, output=folder, **{"settings": Settings(), **options})
    recorder.start()
    try:
        ending = recorder.watch()
    finally:
        path = recorder.end()
        code = recorder.wait()
    return ending, code, open_recording(path)


def program(seconds: float, code: int = 0) -> Target:
    return Target(command=(PYTHON, "-c", f"import time, sys; time.sleep({seconds}); sys.exit({code})"))


def test_a_program_is_recorded_with_windows_averages_board_and_host(library, sampler, tmp_path):
    ending, code, recording = record(program(3.0, code=5), tmp_path / "r")

    assert (ending, code) == ("program", 5)
    seen = recording.observation(0)
    assert recording.complete
    assert seen.tier == "pm"
    assert len(seen.pm) > 300
    assert len(seen.gpm) >= 4
    assert len(seen.board) >= 3
    assert len(seen.host) >= 2
    assert seen.gpu.chip == "GH100"
    assert seen.process.exit_code == 5
    assert 0 < seen.cost.pm_duty < 1
    assert seen.cost.sampler_cpu_s > 0
    assert all(w.lost == 0 for w in seen.windows)


def test_continuous_sampling_leaves_no_hole(library, sampler, tmp_path):
    _, _, recording = record(program(3.0), tmp_path / "r", settings=Settings(continuous=True))
    pm = recording.observation(0).pm
    assert len(pm) > 1000
    assert (pm.start_ns[1:] == pm.end_ns[:-1]).all()


def test_sampling_stops_when_its_time_is_over_and_the_program_goes_on(library, sampler, tmp_path):
    recorder = Recorder(program(3.0, code=3), output=tmp_path / "r", settings=Settings(), duration_s=1.0)
    recorder.start()
    assert recorder.watch() == "duration"
    recorder.end()
    assert recorder.watched.running
    assert recorder.wait() == 3


def test_a_busy_device_leaves_averages_a_named_gap_and_the_run_alive(library, sampler, tmp_path):
    sampler("device.busy = True")
    ending, code, recording = record(program(3.0), tmp_path / "r")
    seen = recording.observation(0)

    assert (ending, code, seen.tier) == ("program", 0, "gpm")
    assert any("Another tool holds" in gap.reason for gap in seen.gaps)


def test_a_source_that_was_demanded_and_cannot_be_had_is_an_error(library, sampler, tmp_path):
    sampler("device.busy = True")
    recorder = Recorder(program(4.0), output=tmp_path / "r", settings=Settings(), source="pm")
    recorder.start()
    with pytest.raises(DeviceBusy):
        recorder.watch()
    recorder.end()
    assert recorder.wait() == 0


def test_a_sampler_that_is_killed_does_not_end_the_recording(library, sampler, tmp_path):
    recorder = Recorder(program(3.0), output=tmp_path / "r", settings=Settings())
    recorder.start()

    def kill() -> None:
        time.sleep(1.5)
        os.kill(recorder.watches[0].sampler_pid, 9)

    killer = threading.Thread(target=kill)
    killer.start()
    assert recorder.watch() == "program"
    killer.join()
    recording = open_recording(recorder.end())
    assert recorder.wait() == 0
    assert recording.complete
    assert any(note.kind == "sampler" for note in recording.notes())


def test_a_running_process_is_attached_to_until_it_ends(library, sampler, tmp_path):
    other = subprocess.Popen([PYTHON, "-c", "import time; time.sleep(2)"])
    reaper = threading.Thread(target=other.wait)
    reaper.start()
    ending, code, recording = record(Target(pid=other.pid), tmp_path / "r")
    reaper.join()

    assert (ending, code) == ("program", None)
    assert recording.observation(0).process.pid == other.pid


def test_a_program_that_ends_at_once_still_leaves_a_recording(library, sampler, tmp_path):
    _, code, recording = record(Target(command=("true",)), tmp_path / "r")
    assert code == 0
    assert recording.complete


def test_gpm_alone_starts_no_sampler(library, sampler, tmp_path):
    recorder = Recorder(program(1.5), output=tmp_path / "r", settings=Settings(), source="gpm")
    recorder.start()
    recorder.watch()
    assert recorder.watches[0].sampler_pid is None
    recording = open_recording(recorder.end())
    recorder.wait()
    assert recording.observation(0).tier == "gpm"


def test_a_process_that_does_not_exist_is_refused_before_anything_is_written(library, sampler, tmp_path):
    recorder = Recorder(Target(pid=2**22 - 1), output=tmp_path / "r", settings=Settings())
    with pytest.raises(UsageError, match="no process"):
        recorder.start()
    assert not (tmp_path / "r").exists()


def test_a_folder_that_holds_something_is_not_written_to(library, sampler, tmp_path):
    (tmp_path / "precious").write_text("mine")
    recorder = Recorder(program(1.0), output=tmp_path, settings=Settings())
    with pytest.raises(UsageError, match="not empty"):
        recorder.start()
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]


def test_a_command_that_cannot_be_started_ends_with_the_shells_code(library, sampler, tmp_path):
    recorder = Recorder(Target(command=("no-such-program",)), output=tmp_path / "r", settings=Settings())
    with pytest.raises(CannotStart) as caught:
        recorder.start()
    assert caught.value.exit_code == 127
