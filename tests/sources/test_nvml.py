"""Board state and the discovery of GPUs, against a simulated libnvidia-ml (see conftest.py)."""

from __future__ import annotations

import math
from typing import Any

import pynvml
import pytest

from perfzero.counters import BOARD_COUNTERS
from perfzero.errors import NoGpu, SourceError, UsageError
from perfzero.sources.nvml import (
    SLOW_EVERY,
    Board,
    cuda_driver_version,
    discover,
    mig_devices,
    processes,
    select,
    virtualization,
)
from perfzero.values import Samples

# Bits of nvmlClocksEventReasons, from nvml.h.
GPU_IDLE, SW_POWER_CAP, HW_SLOWDOWN = 0x1, 0x4, 0x8
SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x20, 0x40, 0x80

SLOW = ("memory_used", "pcie_generation", "pcie_width", "ecc_uncorrected", "processes")


def only(samples: Samples, name: str) -> float:
    """The single value of a column."""
    assert len(samples) == 1
    return float(samples.columns[name][0])


def opened(library: Any) -> Board:
    source = Board(discover()[0])
    source.open()
    return source


def test_a_gpu_is_described_in_base_units(library: Any) -> None:
    (gpu,) = discover()

    assert (gpu.index, gpu.uuid, gpu.name, gpu.driver) == (0, "GPU-aaaa", "Simulated H200", "580.159.04")
    assert gpu.compute_capability == (9, 0)
    assert gpu.sm_count == 132
    assert gpu.sm_clock_max_hz == 1.98e9
    assert gpu.memory_clock_max_hz == 3.201e9
    assert gpu.memory_bus_bits == 6144
    assert gpu.power_limit_w == pytest.approx(700)
    assert (gpu.pcie_generation_max, gpu.pcie_width_max) == (5, 16)
    assert gpu.mig is False
    assert gpu.chip is None


@pytest.mark.parametrize(
    ("capability", "cores", "sms"),
    [
        ((7, 5), 2560, 40),  # T4
        ((8, 0), 6912, 108),  # A100
        ((8, 6), 10752, 84),  # A40
        ((8, 9), 16384, 128),  # RTX 4090
        ((9, 0), 16896, 132),  # H100 SXM
        ((12, 0), 21760, 170),  # RTX 5090
    ],
)
def test_the_number_of_sms_agrees_with_the_data_sheets(
    library: Any, capability: tuple[int, int], cores: int, sms: int
) -> None:
    library.boards[0].capability, library.boards[0].cores = capability, cores

    assert discover()[0].sm_count == sms


def test_cores_that_make_no_whole_number_of_sms_leave_it_unknown(library: Any) -> None:
    library.boards[0].cores = 1000

    assert discover()[0].sm_count is None


def test_a_figure_the_driver_refuses_is_none_and_not_zero(library: Any) -> None:
    library.fail["nvmlDeviceGetMemoryBusWidth"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    library.boards[0].limit_mw = 0

    (gpu,) = discover()

    assert gpu.memory_bus_bits is None
    assert gpu.power_limit_w is None


def test_a_machine_without_a_driver_says_so_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", no_library)

    with pytest.raises(NoGpu, match=r"no NVIDIA driver(.|\n)*perfzero demo"):
        discover()


def test_a_driver_that_was_updated_under_its_module_asks_for_a_reboot(library: Any) -> None:
    library.fail["nvmlInitWithFlags"] = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH

    with pytest.raises(NoGpu, match="Reboot"):
        discover()


def test_a_driver_without_a_gpu_is_no_gpu(library: Any) -> None:
    library.boards.clear()

    with pytest.raises(NoGpu, match="--gpus all"):
        discover()


def test_gpus_are_chosen_by_index_and_by_uuid_each_once(library: Any, board: Any) -> None:
    library.boards.append(board(uuid="GPU-bbbb"))

    assert [g.index for g in select(["1", "GPU-aaaa", "GPU-bbbb"])] == [1, 0]


def test_a_gpu_that_is_not_there_is_a_usage_error_naming_those_that_are(library: Any) -> None:
    with pytest.raises(UsageError, match="GPU-aaaa"):
        select(["7"])


def test_a_mig_device_is_chosen_by_its_uuid_and_has_its_own_sms(library: Any, board: Any) -> None:
    library.boards[0].mig_uuids = ("MIG-1", "MIG-2")
    library.boards += [board(uuid="MIG-1", mig_sms=16), board(uuid="MIG-2", mig_sms=60)]

    (whole,) = discover()
    (device,) = select(["MIG-2"])

    assert whole.mig
    assert [m.uuid for m in mig_devices(whole)] == ["MIG-1", "MIG-2"]
    assert (device.uuid, device.index, device.sm_count, device.mig) == ("MIG-2", 0, 60, True)


def test_an_unknown_mig_device_is_a_usage_error(library: Any) -> None:
    with pytest.raises(UsageError, match="MIG-9"):
        select(["MIG-9"])


def test_the_processes_on_a_gpu_are_listed(library: Any) -> None:
    library.boards[0].pids = (300, 200)

    assert processes(discover()[0]) == [200, 300]


def test_hidden_processes_are_unknown_and_not_none_at_all(library: Any) -> None:
    gpu = discover()[0]
    library.boards[0].pids = ()
    assert processes(gpu) == []

    library.fail["nvmlDeviceGetComputeRunningProcesses_v3"] = pynvml.NVML_ERROR_NO_PERMISSION
    assert processes(gpu) is None


def test_versions_and_virtualization_are_told_in_words(library: Any) -> None:
    assert cuda_driver_version() == "13.0"
    assert virtualization(discover()[0]) == "none"


def test_a_reading_is_in_the_units_of_the_vocabulary(library: Any) -> None:
    source = opened(library)

    row = source.read()
    source.close()

    assert set(row.columns) == {c.name for c in BOARD_COUNTERS}
    assert only(row, "sm_clock") == 1.335e9
    assert only(row, "memory_clock") == 3.201e9
    assert only(row, "power") == 698.5
    assert only(row, "energy") == pytest.approx(698.5 * row.duration_s[0])
    assert only(row, "temperature") == 61
    assert only(row, "smi_utilization") == 0.38
    assert only(row, "memory_used") == 20e9
    assert only(row, "pcie_generation") == 5
    assert only(row, "pcie_width") == 16
    assert only(row, "ecc_uncorrected") == 0
    assert only(row, "processes") == 1
    assert source.pids == frozenset({4711})


def test_readings_meet_without_a_gap(library: Any) -> None:
    source = opened(library)
    rows = [source.read() for _ in range(3)]
    source.close()

    assert all(len(r) == 1 and r.start_ns[0] < r.end_ns[0] for r in rows)
    assert [r.end_ns[0] for r in rows[:-1]] == [r.start_ns[0] for r in rows[1:]]


@pytest.mark.parametrize(
    ("reasons", "capped"),
    [
        (0, (0, 0, 0)),
        (GPU_IDLE, (0, 0, 0)),
        (SW_POWER_CAP, (1, 0, 0)),
        (SW_THERMAL, (0, 1, 0)),
        (HW_THERMAL | HW_SLOWDOWN, (0, 1, 1)),
        (HW_POWER_BRAKE, (0, 0, 1)),
        (SW_POWER_CAP | SW_THERMAL, (1, 1, 0)),
    ],
)
def test_each_reason_for_low_clocks_is_told_apart(
    library: Any, reasons: int, capped: tuple[int, int, int]
) -> None:
    library.boards[0].reasons = reasons
    source = opened(library)
    row = source.read()
    source.close()

    assert tuple(only(row, f"capped_{why}") for why in ("power", "thermal", "hardware")) == capped


def test_an_older_driver_is_asked_for_throttle_reasons(library: Any) -> None:
    library.absent.add("nvmlDeviceGetCurrentClocksEventReasons")
    library.boards[0].reasons = SW_POWER_CAP
    source = opened(library)
    row = source.read()
    source.close()

    assert only(row, "capped_power") == 1


def test_reasons_nobody_tells_are_missing_and_not_uncapped(library: Any) -> None:
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        library.fail[name] = pynvml.NVML_ERROR_NOT_SUPPORTED
    source = opened(library)
    row = source.read()
    source.close()

    assert math.isnan(only(row, "capped_power"))


def test_an_unsupported_call_is_made_once_and_its_column_is_missing(library: Any) -> None:
    library.fail["nvmlDeviceGetPowerUsage"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    source = opened(library)
    rows = [source.read() for _ in range(4)]
    source.close()

    assert all(math.isnan(only(r, "power")) for r in rows)
    assert library.calls["nvmlDeviceGetPowerUsage"] == 1


def test_a_passing_failure_is_missing_once_and_asked_again(library: Any) -> None:
    source = opened(library)
    library.fail["nvmlDeviceGetPowerUsage"] = pynvml.NVML_ERROR_TIMEOUT
    failed = source.read()
    del library.fail["nvmlDeviceGetPowerUsage"]
    recovered = source.read()
    source.close()

    assert math.isnan(only(failed, "power"))
    assert only(recovered, "power") == 698.5


def test_slow_calls_are_made_every_nth_reading_and_missing_in_between(library: Any) -> None:
    source = opened(library)
    rows = [source.read() for _ in range(SLOW_EVERY + 1)]
    source.close()

    for name in SLOW:
        present = [not math.isnan(only(r, name)) for r in rows]
        assert present == [True] + [False] * (SLOW_EVERY - 1) + [True], name
    assert (
        library.calls["nvmlDeviceGetComputeRunningProcesses_v3"] == 2 * 2
    )  # asked for the size, then the list
    assert all(only(r, "power") == 698.5 for r in rows)


def test_the_price_of_reading_is_visible(library: Any) -> None:
    source = opened(library)
    before = source.calls
    source.read()
    first = source.calls - before
    source.read()
    second = source.calls - before - first
    source.close()

    assert (first, second) == (12, 6)
    assert source.spent_ns > 0


def test_what_is_free_is_told_at_any_time_and_where_it_is_not_it_is_unknown(library: Any) -> None:
    source = opened(library)
    library.boards[0].memory = (1000, 400)
    assert source.free_bytes() == 600
    for call in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        library.fail[call] = pynvml.NVML_ERROR_NOT_SUPPORTED
    assert source.free_bytes() is None
    source.close()

    assert source.free_bytes() is None


def test_energy_is_missing_where_power_is(library: Any) -> None:
    library.fail["nvmlDeviceGetPowerUsage"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    source = opened(library)
    row = source.read()
    source.close()

    assert math.isnan(only(row, "energy"))


def test_a_link_the_driver_cannot_see_is_missing(library: Any) -> None:
    library.boards[0].link = (0, 0)
    source = opened(library)
    row = source.read()
    source.close()

    assert math.isnan(only(row, "pcie_generation"))
    assert math.isnan(only(row, "pcie_width"))


def test_the_power_limit_follows_the_administrator(library: Any) -> None:
    source = opened(library)
    library.boards[0].limit_mw = 500_000
    source.read()
    source.close()

    assert source.power_limit_w == 500


def test_a_gpu_that_fell_off_the_bus_ends_the_source(library: Any) -> None:
    source = opened(library)
    library.fail["nvmlDeviceGetClockInfo"] = pynvml.NVML_ERROR_GPU_IS_LOST
    with pytest.raises(SourceError, match="no longer answers"):
        source.read()
    source.close()


def test_closing_twice_and_reading_when_closed_do_no_harm(library: Any) -> None:
    source = opened(library)
    source.close()
    source.close()

    assert len(source.read()) == 0


def test_an_unknown_uuid_cannot_be_opened_and_leaves_no_session(library: Any) -> None:
    gpu = discover()[0]
    library.boards[0].uuid = "GPU-other"

    with pytest.raises(NoGpu, match="GPU-aaaa"):
        Board(gpu).open()
    assert library.sessions == 0


@pytest.mark.device
def test_a_real_board_tells_its_clocks_and_power_within_its_limits() -> None:
    import time

    for gpu in discover():
        source = Board(gpu)
        source.open()
        time.sleep(0.5)
        row = source.read()
        source.close()

        assert gpu.sm_count is not None
        assert gpu.sm_clock_max_hz is not None
        assert 0 < only(row, "sm_clock") <= gpu.sm_clock_max_hz
        assert gpu.power_limit_w is not None
        assert 0 < only(row, "power") < 1.5 * gpu.power_limit_w
        assert only(row, "energy") / row.duration_s[0] == pytest.approx(only(row, "power"), rel=0.5)
        print(f"{gpu}\n{source.calls} calls, {source.spent_ns / 1e6:.2f} ms in one full reading")  # noqa: T201 - what was seen, for the log of the device run
