"""GPM averages, against a simulated libnvidia-ml (see conftest.py)."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import pynvml
import pytest

from perfzero.counters import gpm_counters
from perfzero.errors import NotPermitted, NotSupported, SourceError
from perfzero.sources import gpm
from perfzero.sources.gpm import MIN_PAIR_NS, Gpm, supported
from perfzero.sources.nvml import discover
from perfzero.values import Samples

GR, SM, TENSOR, DRAM, PCIE_TX, PCIE_RX, NVLINK_RX = 1, 2, 5, 10, 20, 21, 60


class Clock:
    """Unix and monotonic time that pass only when told to."""

    def __init__(self) -> None:
        self.unix_ns = 1_764_424_931_000_000_000
        self.steady_ns = 5_000

    def time_ns(self) -> int:
        return self.unix_ns

    def monotonic_ns(self) -> int:
        return self.steady_ns

    def sleep(self, seconds: float) -> None:
        self.unix_ns += round(seconds * 1e9)
        self.steady_ns += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(gpm, "time", stopped)
    return stopped


def opened(library: Any) -> Gpm:
    source = Gpm(discover()[0])
    source.open()
    return source


def only(samples: Samples, name: str) -> float:
    assert len(samples) == 1
    return float(samples.columns[name][0])


def test_percentages_become_ratios_and_rates_become_bytes(library: Any, clock: Clock) -> None:
    library.gpm_values = {GR: 99.7, SM: 81.0, TENSOR: 7.0, DRAM: 28.0, PCIE_RX: 1000.0, PCIE_TX: 10.0}
    source = opened(library)
    clock.sleep(0.5)
    row = source.read()
    source.close()

    assert only(row, "gr_active") == pytest.approx(0.997)
    assert only(row, "sm_active") == pytest.approx(0.81)
    assert only(row, "tensor_active") == pytest.approx(0.07)
    assert only(row, "dram_active") == pytest.approx(0.28)
    assert only(row, "pcie_rx_bytes") == pytest.approx(1000 * 2**20 * 0.5)  # 1000 MiB/s for half a second
    assert only(row, "pcie_tx_bytes") == pytest.approx(10 * 2**20 * 0.5)


def test_a_row_covers_the_time_from_snapshot_to_snapshot(library: Any, clock: Clock) -> None:
    source = opened(library)
    rows = []
    for pause_s in (0.2, 0.3):
        clock.sleep(pause_s)
        rows.append(source.read())
    source.close()

    assert [r.duration_s[0] for r in rows] == pytest.approx([0.2, 0.3])
    assert rows[0].end_ns[0] == rows[1].start_ns[0]
    assert rows[1].end_ns[0] == clock.unix_ns


def test_each_pair_is_the_last_snapshot_and_the_one_before(library: Any, clock: Clock) -> None:
    source = opened(library)
    for _ in range(4):
        clock.sleep(0.2)
        source.read()
    source.close()

    assert library.gpm_pairs == [(1, 2), (2, 3), (3, 4), (4, 5)]


def test_asked_too_early_there_is_no_row_and_no_zero(library: Any, clock: Clock) -> None:
    source = opened(library)
    clock.sleep(MIN_PAIR_NS / 1e9 - 0.001)
    early = source.read()
    assert len(early) == 0
    assert library.gpm_pairs == []

    clock.sleep(0.001)
    row = source.read()
    source.close()

    assert len(row) == 1
    assert row.duration_s[0] == pytest.approx(MIN_PAIR_NS / 1e9)  # nothing of the time was lost


def test_a_metric_the_library_refuses_is_missing_and_not_zero(library: Any, clock: Clock) -> None:
    library.gpm_values = {GR: 50.0, NVLINK_RX: 0.0}
    library.gpm_returns = {NVLINK_RX: pynvml.NVML_ERROR_NOT_SUPPORTED}
    source = opened(library)
    clock.sleep(0.2)
    row = source.read()
    source.close()

    assert math.isnan(only(row, "nvlink_rx_bytes"))
    assert only(row, "gr_active") == 0.5


@pytest.mark.parametrize("nonsense", [math.nan, math.inf])
def test_a_value_that_is_no_number_is_missing(library: Any, clock: Clock, nonsense: float) -> None:
    library.gpm_values = {SM: nonsense}
    source = opened(library)
    clock.sleep(0.2)
    row = source.read()
    source.close()

    assert math.isnan(only(row, "sm_active"))


def test_a_true_zero_stays_a_zero(library: Any, clock: Clock) -> None:
    source = opened(library)
    clock.sleep(0.2)
    row = source.read()
    source.close()

    assert only(row, "sm_active") == 0


def test_the_ids_that_read_zero_on_every_driver_are_not_asked_for() -> None:
    assert all(c.gpm is not None and c.gpm < 160 for c in gpm_counters())


def test_a_failed_difference_is_a_row_of_missing_values(library: Any, clock: Clock) -> None:
    source = opened(library)
    library.fail["nvmlGpmMetricsGet"] = pynvml.NVML_ERROR_UNKNOWN
    clock.sleep(0.2)
    row = source.read()
    source.close()

    assert all(math.isnan(only(row, c.name)) for c in source.counters)


def test_a_failed_snapshot_makes_the_next_row_longer(library: Any, clock: Clock) -> None:
    source = opened(library)
    library.fail["nvmlGpmSampleGet"] = pynvml.NVML_ERROR_TIMEOUT
    clock.sleep(0.2)
    assert len(source.read()) == 0

    del library.fail["nvmlGpmSampleGet"]
    clock.sleep(0.2)
    row = source.read()
    source.close()

    assert row.duration_s[0] == pytest.approx(0.4)
    assert library.gpm_pairs == [(1, 3)]


def test_a_clock_set_back_gives_no_row(library: Any, clock: Clock) -> None:
    source = opened(library)
    clock.sleep(0.2)
    clock.unix_ns -= 10**9
    assert len(source.read()) == 0

    clock.sleep(0.2)
    assert source.read().duration_s[0] == pytest.approx(0.2)
    source.close()


def test_a_gpu_older_than_hopper_is_refused_with_the_reason(library: Any) -> None:
    library.boards[0].gpm = False
    gpu = discover()[0]

    assert not supported(gpu)
    with pytest.raises(NotSupported, match="Hopper"):
        Gpm(gpu).open()


def test_a_driver_without_gpm_is_told_to_be_updated(library: Any) -> None:
    library.absent.add("nvmlGpmQueryDeviceSupport")

    with pytest.raises(NotSupported, match="Update the driver"):
        opened(library)


def test_a_gpu_that_is_divided_is_refused_with_the_reason(library: Any) -> None:
    gpu = replace(discover()[0], mig=True)

    assert not supported(gpu)
    with pytest.raises(NotSupported, match="MIG"):
        Gpm(gpu).open()


def test_a_refused_snapshot_names_the_administrator_and_frees_everything(library: Any) -> None:
    library.fail["nvmlGpmSampleGet"] = pynvml.NVML_ERROR_NO_PERMISSION

    with pytest.raises(NotPermitted, match="administrators"):
        opened(library)
    assert not library.gpm_alive
    assert library.sessions == 0


def test_a_supported_gpu_is_known_without_a_snapshot(library: Any) -> None:
    assert supported(discover()[0])
    assert library.calls["nvmlGpmSampleGet"] == 0


def test_a_gpu_that_is_lost_ends_the_source(library: Any, clock: Clock) -> None:
    source = opened(library)
    library.fail["nvmlGpmSampleGet"] = pynvml.NVML_ERROR_GPU_IS_LOST
    clock.sleep(0.2)
    with pytest.raises(SourceError, match="no longer answers"):
        source.read()
    source.close()


def test_closing_twice_and_reading_when_closed_do_no_harm(library: Any) -> None:
    source = opened(library)
    source.close()
    source.close()

    assert len(source.read()) == 0


@pytest.mark.device
def test_a_real_gpu_gives_ratios_between_zero_and_one() -> None:
    gpu = discover()[0]
    if not supported(gpu):
        pytest.skip(f"{gpu.name} has no GPM")
    source = Gpm(gpu)
    source.open()
    time.sleep(0.3)
    row = source.read()
    source.close()

    for counter in source.counters:
        value = only(row, counter.name)
        print(counter.name, value)  # noqa: T201 - what was seen, for the log of the device run
        if counter.unit == "ratio" and not math.isnan(value):
            assert 0 <= value <= 1.05
    assert not math.isnan(only(row, "gr_active"))
