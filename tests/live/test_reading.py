"""Readings of simulated and of replayed GPUs."""

from __future__ import annotations

import math
import os
import sys
import time
from typing import Any

import pynvml
import pytest

import simulated_nvml
from perfzero.errors import NoGpu, UsageError
from perfzero.live.reading import Machine
from perfzero.words.told import told
from replayed_gpus import Clock, replayed


@pytest.fixture
def working(library: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A simulated GPU at work, of which GPM may be asked as often as one likes."""
    library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}
    monkeypatch.setattr("perfzero.sources.gpm.MIN_PAIR_NS", 0)
    return library


def read_once(**options: Any) -> Any:
    machine = Machine(**options)
    machine.open()
    try:
        time.sleep(0.01)
        return machine.read()
    finally:
        machine.close()


def test_a_reading_holds_counters_board_and_processes(working: Any) -> None:
    working.boards[0].pids = (os.getpid(),)
    working.boards[0].held = {os.getpid(): 19_000_000_000}

    [gpu] = read_once().gpus

    assert gpu.tier == "gpm"
    assert gpu.sm_active == pytest.approx(0.8)
    assert gpu.smi_utilization == pytest.approx(0.38)
    assert gpu.power == pytest.approx(698.5)
    [process] = gpu.processes
    assert (process.pid, process.memory) == (os.getpid(), 19e9)
    assert "python" in process.command


def test_memory_that_the_driver_keeps_to_itself_is_missing(working: Any) -> None:
    working.boards[0].held = {}

    [process] = read_once().gpus[0].processes

    assert math.isnan(process.memory)


def test_a_gpu_without_gpm_is_read_by_nvml_alone(working: Any) -> None:
    working.boards[0].gpm = False

    [gpu] = read_once().gpus

    assert gpu.tier == "nvml"
    assert "no GPM" in gpu.without_gpm
    assert math.isnan(gpu.sm_active)
    assert gpu.smi_utilization == pytest.approx(0.38)


def test_only_the_named_gpus_are_read(working: Any, board: Any) -> None:
    working.boards.append(board(uuid="GPU-bbbb"))

    assert [gpu.gpu.index for gpu in read_once(wanted=["1"]).gpus] == [1]
    with pytest.raises(UsageError, match="no GPU '7'"):
        read_once(wanted=["7"])


def test_a_machine_without_a_gpu_says_so(working: Any) -> None:
    working.fail["nvmlInitWithFlags"] = int(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    with pytest.raises(NoGpu):
        read_once()


def test_a_gpu_that_is_lost_does_not_take_the_others_along(
    working: Any, board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    working.boards.append(board(uuid="GPU-bbbb"))
    asked = simulated_nvml.ANSWERS["nvmlDeviceGetPowerUsage"]
    machine = Machine()
    machine.open()
    try:
        time.sleep(0.01)
        assert [gpu.lost for gpu in machine.read().gpus] == ["", ""]

        times = [0]

        def power(library: Any, handle: Any, *rest: Any) -> int:
            gone = library.board(handle) is library.boards[0]
            times[0] += gone
            return int(pynvml.NVML_ERROR_GPU_IS_LOST) if gone else asked(library, handle, *rest)

        monkeypatch.setitem(simulated_nvml.ANSWERS, "nvmlDeviceGetPowerUsage", power)
        for _ in range(2):
            time.sleep(0.01)
            first, second = machine.read().gpus
            assert "no longer answers" in first.lost
            assert "不再应答" in told(first.lost, "zh")
            assert first.processes is None
            assert second.sm_active == pytest.approx(0.8)
        assert times == [1], "a GPU that is lost is not asked again"
    finally:
        machine.close()


def test_a_gpu_that_was_lost_is_shown_again_once_it_answers(
    working: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = simulated_nvml.ANSWERS["nvmlDeviceGetPowerUsage"]
    ahead_ns, gone, times = [0], [True], [0]

    def power(library: Any, handle: Any, *rest: Any) -> int:
        times[0] += 1
        return int(pynvml.NVML_ERROR_GPU_IS_LOST) if gone[0] else asked(library, handle, *rest)

    monkeypatch.setitem(simulated_nvml.ANSWERS, "nvmlDeviceGetPowerUsage", power)
    machine = Machine(now_ns=lambda: time.time_ns() + ahead_ns[0])
    machine.open()
    try:
        for later_s, answers, lost in (
            (0, False, True),
            (29, True, True),
            (31, False, True),
            (62, True, False),
        ):
            ahead_ns[0], gone[0] = later_s * 1_000_000_000, not answers
            time.sleep(0.01)
            assert bool(machine.read().gpus[0].lost) == lost
        assert times[0] == 3, "it is asked every half minute only"
        time.sleep(0.01)
        ahead_ns[0] = 0
        assert machine.read().gpus[0].sm_active == pytest.approx(0.8)
    finally:
        machine.close()


def test_reading_never_opens_hardware_sampling(working: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "perfzero.sources.cupti", raising=False)
    read_once()

    assert "perfzero.sources.cupti" not in sys.modules


def test_what_nobody_looked_at_is_skipped(working: Any) -> None:
    machine = Machine()
    machine.open()
    try:
        machine.skip()
        before = len(working.gpm_pairs)
        time.sleep(0.01)
        machine.read()
    finally:
        machine.close()

    assert len(working.gpm_pairs) == before + 1


def test_a_replay_begins_again_when_it_has_come_to_its_end() -> None:
    clock = Clock()
    reading = replayed("tiny_kernels", clock)
    reading.open()
    figures = []
    for _ in range(60):
        clock.now_s += 1.0
        figures.append(reading.read().gpus[0].power)
    reading.close()

    assert all(math.isfinite(power) for power in figures[2:])
    assert max(figures[20:]) > 1.2 * min(figures[20:])


def test_a_replay_shows_the_program_that_was_recorded() -> None:
    clock = Clock()
    reading = replayed("resnet50_nchw", clock)
    reading.open()
    clock.now_s = 5.0
    snapshot = reading.read()
    reading.close()

    [process] = snapshot.gpus[0].processes or ()
    assert process.command.startswith("python3 zoo/resnet50.py")
    assert any("real GPU" in notice for notice in snapshot.notices)


def test_a_replay_can_go_on_to_where_the_program_works() -> None:
    clock = Clock()
    reading = replayed("resnet50_nchw", clock)
    reading.open()
    reading.forward()
    snapshot = reading.read()
    reading.close()

    assert snapshot.gpus[0].sm_active > 0.8
