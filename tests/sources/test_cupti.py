"""PM sampling: what comes, what is missing, and what is said when it cannot be had."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.errors import DeviceBusy, NotPermitted, SourceError
from perfzero.sources import _libcupti
from perfzero.sources.cupti import BUFFER_BYTES, PmSampler, find_libraries
from simulated import Clock, SimulatedDevice

MS = 1_000_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def device(clock: Clock) -> SimulatedDevice:
    return SimulatedDevice(clock)


@pytest.fixture
def sampler(device: SimulatedDevice, clock: Clock) -> PmSampler:
    sampler = PmSampler(device, clock_ns=clock)
    sampler.open(period_ns=MS, drain_s=0.5)
    return sampler


def test_a_window_holds_one_sample_a_period_without_the_stale_first(sampler, clock):
    sampler.start()
    clock.sleep(0.5)
    first = sampler.read()
    clock.sleep(0.25)
    rest = sampler.stop()

    assert (len(first), len(rest)) == (499, 250)
    assert np.all(first.end_ns - first.start_ns == MS)
    assert rest.start_ns[0] == first.end_ns[-1]
    assert sampler.losses == []


def test_percentages_become_ratios_and_counts_stay_counts(sampler, clock):
    metrics = sampler.resolution.metrics
    sampler.start()
    clock.sleep(0.1)
    samples = sampler.stop()

    position = list(metrics).index("sm_active")
    assert samples.column("sm_active")[0] == pytest.approx(position / 100)
    position = list(metrics).index("launches")
    assert samples.column("launches")[0] == position


def test_samples_that_never_came_are_counted_as_lost(sampler, device, clock):
    device.missing = set(range(100, 110))
    sampler.start()
    clock.sleep(0.4)
    samples = sampler.stop()

    assert len(samples) == 389
    assert [(loss.samples, loss.reason) for loss in sampler.losses] == [(10, "samples are missing")]


def test_sampling_that_ends_by_itself_is_noticed(sampler, device, clock):
    device.silent_after_ns = 300 * MS
    sampler.start()
    clock.sleep(0.5)
    assert len(sampler.read()) == 299
    clock.sleep(1.0)

    with pytest.raises(SourceError, match="stopped delivering"):
        sampler.read()
    assert sum(loss.samples for loss in sampler.losses) == 1200


def test_a_tail_that_is_missing_at_the_stop_is_a_loss(sampler, device, clock):
    device.silent_after_ns = 300 * MS
    sampler.start()
    clock.sleep(0.4)
    sampler.stop()

    assert [(loss.samples, loss.reason) for loss in sampler.losses] == [
        (100, "sampling ended before it was stopped")
    ]


def test_an_overflow_is_named_counted_and_ends_the_session(sampler, device, clock):
    device.overflows_after = 200
    sampler.start()
    clock.sleep(0.5)

    with pytest.raises(SourceError, match="overflowed"):
        sampler.read()
    assert sum(loss.samples for loss in sampler.losses) == 500
    sampler.close()
    assert not device.enabled


def test_a_late_drain_gets_a_larger_image_and_loses_nothing(sampler, device, clock):
    sampler.start()
    clock.sleep(0.9)
    late = sampler.read()

    assert len(late) == 899
    assert device.rooms[-1] > 900


def test_our_own_record_stream_is_taken_off_the_pcie_traffic(sampler, clock):
    sampler.start()
    clock.sleep(0.2)

    assert sampler.stop().column("pcie_tx_bytes").max() == 0.0


def test_a_programs_constant_pcie_traffic_is_not_taken_off_as_ours(sampler, device, clock):
    device.own_pcie_bytes = 20e6  # 20 GB/s, far more than our records can be
    sampler.start()
    clock.sleep(0.2)

    assert sampler.stop().column("pcie_tx_bytes").min() > 19.8e6


def test_the_hardware_buffer_is_sized_for_the_drain_within_bounds(device, clock):
    sampler = PmSampler(device, clock_ns=clock)
    for period, low, high in ((MS, *BUFFER_BYTES), (2_000, BUFFER_BYTES[1], BUFFER_BYTES[1])):
        sampler.open(period_ns=period, drain_s=0.5)
        assert low <= device.configured[-1][2] <= high
        sampler.close()


def test_closing_twice_gives_the_device_back_once_and_never_raises(sampler, device):
    sampler.close()
    sampler.close()
    assert not device.enabled


def test_a_session_can_be_opened_again_after_it_was_closed(sampler, clock):
    sampler.close()
    sampler.open(period_ns=10_000, drain_s=0.05)
    sampler.start()
    clock.sleep(0.05)

    assert len(sampler.stop()) == 4999


def test_a_busy_device_is_named_as_such_with_the_way_out(device, clock):
    device.busy = True
    with pytest.raises(DeviceBusy, match="dcgmi profile --pause"):
        PmSampler(device, clock_ns=clock).open(period_ns=MS, drain_s=0.5)


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        (_libcupti.INSUFFICIENT_PRIVILEGES, NotPermitted, "sudo perfzero"),
        (_libcupti.MIG_NOT_SUPPORTED, SourceError, "MIG"),
        (_libcupti.WSL_NOT_SUPPORTED, SourceError, "WSL"),
        (999, SourceError, "999"),
    ],
)
def test_a_refusal_says_why_and_what_to_do(device, clock, code, error, words):
    device.refuse = code
    with pytest.raises(error, match=words) as caught:
        PmSampler(device, clock_ns=clock).open(period_ns=MS, drain_s=0.5)
    assert "perfzero record --source gpm" in str(caught.value)


def test_the_library_named_by_the_user_beats_all(monkeypatch):
    monkeypatch.setenv("PERFZERO_CUPTI", "/somewhere/libcupti.so.13")
    assert [str(f.path) for f in find_libraries()] == ["/somewhere/libcupti.so.13"]


def _library_in(folder):
    place = folder / "nvidia" / "cu13" / "lib"
    place.mkdir(parents=True)
    (place / "libcupti.so.13").write_bytes(b"")
    return place


def test_the_observed_programs_own_library_is_found_by_a_hint(tmp_path, monkeypatch):
    monkeypatch.delenv("PERFZERO_CUPTI", raising=False)
    place = _library_in(tmp_path)
    assert place / "libcupti.so.13" in [f.path for f in find_libraries([str(tmp_path)])]


def test_root_does_not_load_a_library_that_anyone_may_write(tmp_path, monkeypatch):
    monkeypatch.delenv("PERFZERO_CUPTI", raising=False)
    place = _library_in(tmp_path)
    (place / "libcupti.so.13").chmod(0o666)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert place / "libcupti.so.13" not in [f.path for f in find_libraries([str(tmp_path)])]
