"""A whole recording session: a real program, a simulated GPU behind both library boundaries."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfzero.errors import DeviceBusy, UsageError
from perfzero.record import certainty as certainty_module
from perfzero.record import sampler_client
from perfzero.record import sampling as sampling_module
from perfzero.record import session as session_module
from perfzero.record import watch as watch_module
from perfzero.record.certainty import Judgement
from perfzero.record.cost import Slowdown
from perfzero.record.launch import CannotStart
from perfzero.record.policy import DEFAULTS, Settings
from perfzero.record.progress import Progress
from perfzero.record.session import Recorder, Target, worst_slowdown
from perfzero.record.settle import Settling
from perfzero.series.steps import NoSteps
from perfzero.store.reader import open_recording
from series.simulated_programs import even_steps
from simulated_sampler import simulated

AT_ONCE = Settings(first_after_s=0.0)
"""A launched program of two seconds is long enough for a test."""

PYTHON = sys.executable


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch, library: Any) -> Any:
    """Let the recorder start samplers on a simulated, working GPU; the argument prepares that device."""
    library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}

    real = sampler_client.SamplerClient

    def use(setup: str = "") -> None:
        monkeypatch.setattr(
            sampling_module,
            "SamplerClient",
            lambda gpu, **k: real(gpu, command=simulated(setup), **k),
        )

    use()
    return use


def record(target: Target, folder: Path, **options: Any) -> Any:
    """Record to the end and read the recording back."""
    recorder = Recorder(target, output=folder, **{"settings": AT_ONCE, **options})
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
    assert len(pm) > 100
    assert (pm.start_ns[1:] == pm.end_ns[:-1]).all()


def test_sampling_stops_when_its_time_is_over_and_the_program_goes_on(library, sampler, tmp_path):
    recorder = Recorder(program(3.0, code=3), output=tmp_path / "r", settings=AT_ONCE, duration_s=1.0)
    recorder.start()
    assert recorder.watch() == "duration"
    recorder.end()
    assert recorder.watched.running
    assert recorder.wait() == 3


@pytest.mark.parametrize("power_mw", [300_000, 698_500])  # far from the power cap and at it
def test_a_recording_of_a_few_seconds_has_a_window(power_mw, library, sampler, tmp_path):
    library.boards[0].power_mw = power_mw
    options = {"settings": Settings(), "duration_s": 1.8}
    ending, _, recording = record(program(2.0), tmp_path / "r", **options)
    assert ending == "duration"
    assert len(recording.observation(0).windows) >= 1


def test_a_longer_one_waits_for_the_board_first(library, sampler, tmp_path, monkeypatch):
    monkeypatch.setattr(session_module, "SHORT_S", 1.8)
    options = {"settings": Settings(), "duration_s": 1.8}
    _, _, recording = record(program(2.0), tmp_path / "r", **options)
    assert not recording.observation(0).windows


def test_a_busy_device_leaves_averages_a_named_gap_and_the_run_alive(library, sampler, tmp_path):
    sampler("device.busy = True")
    ending, code, recording = record(program(3.0), tmp_path / "r")
    seen = recording.observation(0)

    assert (ending, code, seen.tier) == ("program", 0, "gpm")
    assert any("Another tool holds" in gap.reason for gap in seen.gaps)


def test_a_source_that_was_demanded_and_cannot_be_had_is_an_error(library, sampler, tmp_path):
    sampler("device.busy = True")
    recorder = Recorder(program(4.0), output=tmp_path / "r", settings=AT_ONCE, source="pm")
    recorder.start()
    with pytest.raises(DeviceBusy):
        recorder.watch()
    recorder.end()
    assert recorder.wait() == 0


def test_a_sampler_that_is_killed_does_not_end_the_recording(library, sampler, tmp_path):
    recorder = Recorder(program(3.0), output=tmp_path / "r", settings=AT_ONCE)
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
    recorder = Recorder(program(1.5), output=tmp_path / "r", settings=AT_ONCE, source="gpm")
    recorder.start()
    recorder.watch()
    assert recorder.watches[0].sampler_pid is None
    recording = open_recording(recorder.end())
    recorder.wait()
    assert recording.observation(0).tier == "gpm"


def test_a_process_that_does_not_exist_is_refused_before_anything_is_written(library, sampler, tmp_path):
    recorder = Recorder(Target(pid=2**22 - 1), output=tmp_path / "r", settings=AT_ONCE)
    with pytest.raises(UsageError, match="no process"):
        recorder.start()
    assert not (tmp_path / "r").exists()


def test_a_folder_that_holds_something_is_not_written_to(library, sampler, tmp_path):
    (tmp_path / "precious").write_text("mine")
    recorder = Recorder(program(1.0), output=tmp_path, settings=AT_ONCE)
    with pytest.raises(UsageError, match="not empty"):
        recorder.start()
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]


def test_a_command_that_cannot_be_started_ends_with_the_shells_code(library, sampler, tmp_path):
    recorder = Recorder(Target(command=("no-such-program",)), output=tmp_path / "r", settings=AT_ONCE)
    with pytest.raises(CannotStart) as caught:
        recorder.start()
    assert caught.value.exit_code == 127


# --- whose GPU ---


def two_boards(library, board, *, pids=((), ())):
    library.boards = [board(uuid=f"GPU-{i}", pids=pids[i]) for i in range(2)]


@pytest.fixture
def hurry(monkeypatch):
    """Look for the program's GPUs five times as often."""
    monkeypatch.setattr(watch_module, "BOARD_EVERY_S", (0.2, 0.2, 0.2))
    monkeypatch.setattr(session_module, "FIND_GPU_EVERY_S", (0.2, 10.0))
    monkeypatch.setattr(session_module, "FIND_GPU_FOR_S", 1.0)


def watch_for(recorder, seconds, *, then=lambda: None):
    """Watch while *then* happens after a moment, and go on until *seconds* are over."""
    recorder._duration_s = seconds
    timer = threading.Timer(0.5, then)
    timer.start()
    recorder.watch()
    timer.join()


def test_a_program_on_one_of_two_gpus_leaves_no_trace_of_the_other(library, board, sampler, tmp_path, hurry):
    two_boards(library, board, pids=((4711,), ()))
    recorder = Recorder(program(3.0), output=tmp_path / "r", settings=AT_ONCE)
    recorder.start()

    def begin_to_use() -> None:
        library.boards[1].pids = (recorder.watched.pid,)

    watch_for(recorder, 2.9, then=begin_to_use)
    path = recorder.end()
    recorder.wait()
    recording = open_recording(path)

    assert [g.index for g in recording.manifest.gpus] == [1]
    assert not [p.name for p in path.iterdir() if "gpu0" in p.name]
    assert len(recording.observation(1).pm) > 100
    assert library.calls["nvmlDeviceGetComputeRunningProcesses_v3"] < 30


def test_a_gpu_on_which_others_work_is_not_taken_while_the_program_prepares(
    library, board, sampler, tmp_path, hurry
):
    two_boards(library, board, pids=((4711,), (4712,)))
    recorder = Recorder(program(2.5), output=tmp_path / "r", settings=AT_ONCE)
    recorder.start()
    watch_for(recorder, 2.4)
    assert list(recorder.watches) == []
    recorder.end()
    recorder.wait()


def test_all_gpus_are_taken_where_the_driver_hides_whose_processes_they_run(
    library, board, sampler, tmp_path, hurry
):
    two_boards(library, board)
    said: list[str] = []
    recorder = Recorder(program(2.5), output=tmp_path / "r", settings=AT_ONCE, say=said.append)
    recorder.start()
    watch_for(recorder, 2.4)
    assert len(recorder.watches) == 2
    assert any("does not show" in text for text in said)
    recorder.end()
    recorder.wait()


def test_two_mig_devices_of_one_gpu_are_refused_before_anything_runs(library, board, sampler, tmp_path):
    library.boards = [
        board(uuid="GPU-0", mig_uuids=("MIG-1", "MIG-2")),
        board(uuid="MIG-1", mig_sms=16),
        board(uuid="MIG-2", mig_sms=16),
    ]
    target = Target(command=("touch", str(tmp_path / "ran")), gpus=("MIG-1", "MIG-2"))
    with pytest.raises(UsageError, match="parts of the same GPU 0"):
        Recorder(target, output=tmp_path / "r", settings=AT_ONCE).start()
    assert list(tmp_path.iterdir()) == []


def test_one_mig_device_is_accepted(library, board, sampler, tmp_path):
    library.boards = [board(uuid="GPU-0", mig_uuids=("MIG-1",)), board(uuid="MIG-1", mig_sms=16)]
    target = Target(command=("true",), gpus=("MIG-1",))
    _, code, recording = record(target, tmp_path / "r", source="nvml")
    assert code == 0
    assert [g.uuid for g in recording.manifest.gpus] == ["MIG-1"]


# --- the rest ---


def test_a_tool_that_watched_the_program_is_remembered(library, board, tmp_path, monkeypatch):
    monkeypatch.setattr("perfzero.sources.host.tracers", lambda tree, **_: frozenset(("strace",)))
    library.boards = [board()]
    _, _, recording = record(Target(command=("sleep", "0.3"), gpus=("0",)), tmp_path / "r", source="nvml")
    assert recording.observation(0).process.tracers == ("strace",)


def test_samplers_that_hang_hold_up_the_end_together_and_not_one_after_the_other(
    library, board, tmp_path, monkeypatch
):
    real = sampler_client.SamplerClient
    sleeper = [PYTHON, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(sampling_module, "SamplerClient", lambda gpu, **k: real(gpu, command=sleeper, **k))
    monkeypatch.setattr(sampler_client, "GOODBYE_S", 0.7)
    library.boards = [board(uuid=f"GPU-{i}") for i in range(4)]
    recorder = Recorder(Target(gpus=("0", "1", "2", "3")), output=tmp_path / "r", settings=AT_ONCE)
    recorder.start()
    began = time.monotonic()
    assert open_recording(recorder.end()).complete
    recorder.wait()
    assert time.monotonic() - began < 2.0  # 0.7 s for all, instead of for each


@pytest.mark.parametrize(("empty", "seen"), [(3, {"OMP_NUM_THREADS": "3"}), (1000, {})])
def test_an_environment_that_is_not_there_yet_is_waited_for_but_not_for_ever(monkeypatch, empty, seen):
    shown = itertools.chain(itertools.repeat({}, empty), itertools.repeat({"OMP_NUM_THREADS": "3"}))
    monkeypatch.setattr("psutil.Process.environ", lambda _: next(shown))
    assert session_module._environment(os.getpid()) == seen


def test_the_programs_environment_is_still_known_when_it_has_ended(library, sampler, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    _, _, recording = record(program(1.0), tmp_path / "r")
    assert recording.observation(0).process.threads_env["OMP_NUM_THREADS"] == "3"


WORKS = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); e = time.time() + {seconds}\n"
WORKS += "while time.time() < e: pass"


def below_a_shell(told: Path, *, seconds: float, how: str = "CUDA_LAUNCH_BLOCKING=1") -> Target:
    """
    A program that is not the one that was launched, started as *how* says, and that writes its pid to *told*.

    Beside it a process that has the variable with another value.
    """
    works = f'{PYTHON} -c "{WORKS.format(seconds=seconds)}" {told}'
    beside = f"env CUDA_LAUNCH_BLOCKING=0 NCCL_DEBUG=INFO sleep {seconds}"
    return Target(command=("sh", "-c", f"{beside} & {how} {works} & wait"))


def listed(library: Any, told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the driver list the process once it is there, and be asked for it at each reading."""
    monkeypatch.setattr("perfzero.record.watch.SLOW_EVERY", 1)
    library.boards[0].pids = ()

    def look() -> None:
        while not told.exists() or not told.read_text():
            time.sleep(0.005)
        library.boards[0].pids = (int(told.read_text()),)

    threading.Thread(target=look, daemon=True).start()


def test_what_a_launcher_sets_belongs_to_the_programs_environment(library, sampler, tmp_path, monkeypatch):
    """And what a process beside it has does not."""
    listed(library, tmp_path / "pid", monkeypatch)
    _, _, recording = record(below_a_shell(tmp_path / "pid", seconds=2.5), tmp_path / "r")
    found = recording.observation(0).process.threads_env

    assert found["CUDA_LAUNCH_BLOCKING"] == "1"
    assert "NCCL_DEBUG" not in found


def test_what_a_launcher_takes_away_does_not_belong_to_it(library, sampler, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    listed(library, tmp_path / "pid", monkeypatch)
    target = below_a_shell(tmp_path / "pid", seconds=2.5, how="OMP_NUM_THREADS=3 env -u CUDA_LAUNCH_BLOCKING")
    _, _, recording = record(target, tmp_path / "r")
    found = recording.observation(0).process.threads_env

    assert found["OMP_NUM_THREADS"] == "3"
    assert "CUDA_LAUNCH_BLOCKING" not in found


def test_an_environment_of_which_nothing_matters_replaces_that_of_the_launcher_once(
    library, sampler, tmp_path, monkeypatch
):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    listed(library, tmp_path / "pid", monkeypatch)
    real, asked = session_module._environment, []

    def ask(pid: int, **how: int) -> dict[str, str]:
        asked.append(pid)
        return real(pid, **how)

    monkeypatch.setattr(session_module, "_environment", ask)
    target = below_a_shell(tmp_path / "pid", seconds=2.5, how="env -i LANG=C")
    _, _, recording = record(target, tmp_path / "r")

    assert "CUDA_LAUNCH_BLOCKING" not in recording.observation(0).process.threads_env
    assert len(asked) == 2  # what was launched, and who uses the GPU


def test_where_ids_are_hidden_the_process_behind_the_launcher_is_taken(library, sampler, tmp_path):
    library.boards[0].pids = ()
    works = f"CUDA_LAUNCH_BLOCKING=1 {PYTHON} -c 'import time; time.sleep(5)'"
    _, _, recording = record(Target(command=("sh", "-c", f"{works} & wait")), tmp_path / "r")
    assert recording.observation(0).process.threads_env["CUDA_LAUNCH_BLOCKING"] == "1"


def test_of_a_gpu_that_others_use_only_the_launched_environment_is_known(library, sampler, tmp_path):
    _, _, recording = record(below_a_shell(tmp_path / "pid", seconds=1.0), tmp_path / "r")
    assert "CUDA_LAUNCH_BLOCKING" not in recording.observation(0).process.threads_env


def test_a_step_time_that_shows_late_spaces_the_windows_then(library, sampler, tmp_path, monkeypatch):
    monkeypatch.setattr(session_module, "STEPS_AFTER_S", 0.5)
    monkeypatch.setattr(watch_module, "LOOK_AGAIN", 1.0)
    found = iter([NoSteps("not yet"), NoSteps("not yet"), *[even_steps(0.4)] * 99])
    monkeypatch.setattr("perfzero.series.steps.find_steps", lambda samples: next(found))
    said: list[str] = []
    settings = replace(AT_ONCE, window_s=0.1, every_s=0.3)
    recorder = Recorder(
        program(3.0), output=tmp_path / "r", settings=settings, every_steps=1, say=said.append
    )
    recorder.start()
    watch_for(recorder, 2.9)
    recorder.end()
    recorder.wait()

    assert len([text for text in said if "no step time can be seen yet" in text]) == 1
    # One step is 0.4 s, and windows of 0.1 s want pauses.
    spaced = [text for text in said if "a step takes 400.0 ms: a window every 2 steps, as windows" in text]
    assert len(spaced) == 1


# --- until it is sure ---


class Decided:
    """A judge that always says the same at once; None stands for judging that fails."""

    cpu_s = 0.5

    def __init__(self, judgement: Judgement | None) -> None:
        self.judgement = judgement
        self.asked: list[tuple[str, list[int], str]] = []
        self.closed = False

    def ask(self, recording: Path, gpus: Collection[int]) -> None:
        readable = open_recording(recording)
        self.asked.append((readable.manifest.state, list(gpus), readable.observation(0).tier))

    def answer(self) -> dict[int, Judgement]:
        return {} if self.judgement is None else dict.fromkeys(self.asked[-1][1], self.judgement)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def soon(monkeypatch):
    """Judgements of averages, and what they have to last, in a hundredth of the time."""
    for name in ("SURE_AFTER_S", "LEAST_PAUSE_S", "PAUSE_SHARE"):
        monkeypatch.setattr(session_module, name, 0.0)
    monkeypatch.setattr(certainty_module, "SPAN_S", 0.1)
    monkeypatch.setattr(watch_module, "GPM_EVERY_S", (0.2, 0.2, 0.2))
    monkeypatch.setattr(watch_module, "GPM_EARLY_EVERY_S", 0.2)
    monkeypatch.setattr(
        Settling, "settled_at", property(lambda self: 0.0, lambda self, at: None), raising=False
    )


def until_sure(judge: Decided, folder: Path, *, seconds: float = 1.5) -> tuple[Any, list[str], Any]:
    """How the watching of a program of GPM averages ended, what was said, and the recording."""
    said: list[str] = []
    options = {"settings": AT_ONCE, "source": "gpm", "say": said.append, "judge": judge}
    recorder = Recorder(program(seconds, code=3), output=folder, **options)
    recorder.start()
    ending = recorder.watch()
    recording = open_recording(recorder.end())
    assert recorder.watched.running is (ending == "sure")
    assert recorder.wait() == 3
    return ending, said, recording


def test_sampling_ends_when_the_verdict_is_sure_and_the_program_goes_on(library, tmp_path, soon):
    library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}
    judge = Decided(Judgement("well_used", 0.9))
    ending, said, recording = until_sure(judge, tmp_path / "r", seconds=3.0)

    assert ending == "sure"
    assert judge.closed
    assert judge.asked == [("recording", [0], "gpm")] * 3
    assert any("the verdict is sure after" in text and "the program goes on" in text for text in said)
    assert [n.text[:19] for n in recording.notes() if n.kind == "sure"] == ["The verdict is sure"]
    assert recording.manifest.settings["sure"] == 0.8
    assert recording.manifest.cost.recorder_cpu_s >= 0.5


@pytest.mark.parametrize(
    ("judgement", "doubt", "most"),
    [(Judgement("memory_bound", 0.5), "confidence of 0.50", 99), (None, "could not be judged", 3)],
)
def test_a_verdict_that_never_becomes_sure_leaves_its_doubt(judgement, doubt, most, library, tmp_path, soon):
    library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}
    judge = Decided(judgement)
    ending, said, _ = until_sure(judge, tmp_path / "r", seconds=2.5)

    assert ending == "program"
    assert judge.closed
    assert any("the verdict never became sure" in text and doubt in text for text in said)
    assert 3 <= len(judge.asked) <= most  # one that cannot judge is let alone


def test_a_judge_that_has_not_answered_is_named_as_the_reason(library, tmp_path, soon, monkeypatch):
    library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}
    judge = Decided(Judgement("well_used", 0.9))
    monkeypatch.setattr(judge, "answer", lambda: None)
    _, said, _ = until_sure(judge, tmp_path / "r", seconds=1.0)
    assert any("never became sure: the first judgement was not there yet" in text for text in said)


@pytest.mark.parametrize(
    ("name", "value", "most"),
    [("SURE_AFTER_S", 60.0, 0), ("LEAST_PAUSE_S", 60.0, 1), ("PAUSE_SHARE", 60.0, 1)],
)
def test_the_judge_waits_for_steady_state_and_between_two_questions(
    name, value, most, library, tmp_path, soon, monkeypatch
):
    library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}
    monkeypatch.setattr(session_module, name, value)
    judge = Decided(Judgement("well_used", 0.9))
    until_sure(judge, tmp_path / "r", seconds=1.0)
    assert len(judge.asked) == most


def test_the_first_verdict_is_asked_for_when_the_close_look_is_over():
    assert DEFAULTS.dense_s + DEFAULTS.drain_s < session_module.SURE_AFTER_S < 2 * DEFAULTS.dense_s


def test_the_judge_is_asked_only_when_something_new_was_seen(library, tmp_path, soon, monkeypatch):
    library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}
    monkeypatch.setattr(watch_module, "GPM_EVERY_S", (0.8, 0.8, 0.8))
    monkeypatch.setattr(watch_module, "GPM_EARLY_EVERY_S", 0.8)
    judge = Decided(Judgement("memory_bound", 0.5))
    _, _, recording = until_sure(judge, tmp_path / "r", seconds=2.0)
    assert 1 <= len(judge.asked) <= len(recording.samples("gpm", 0))


def test_progress_tells_once_a_second_what_happens(library, sampler, tmp_path):
    shown: list[Progress] = []
    recorder = Recorder(program(2.5), output=tmp_path / "r", settings=AT_ONCE, show=shown.append)
    recorder.start()
    recorder.watch()
    recorder.end()
    recorder.wait()

    assert 2 <= len(shown) <= 3
    assert shown[0].state in ("waiting for work", "warm-up")
    assert shown[-1].state == "warm-up"
    assert (shown[-1].lost, shown[-1].step_s) == (0, None)


# --- what it cost ---


def test_of_several_gpus_the_slowdown_is_that_of_the_one_it_was_worst_on():
    effects = {0: Slowdown(0.001, 0.0, 0.002), 3: Slowdown(0.004, 0.003, 0.005), 5: Slowdown(None, note="-")}
    worst = worst_slowdown(effects)
    assert (worst.value, worst.low, worst.high) == (0.004, 0.003, 0.005)
    assert worst.note == "GPU 3, the worst of 2 that could be measured"


def test_one_gpu_needs_no_name_and_none_measured_leaves_the_reason():
    assert worst_slowdown({2: Slowdown(0.001, 0.0, 0.002)}).note == ""
    assert worst_slowdown({2: Slowdown(None, note="too few"), 3: Slowdown(None)}).note == "too few"
    assert worst_slowdown({}).value is None
