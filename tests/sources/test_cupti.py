"""PM sampling: what comes, what is missing, and what is said when it cannot be had."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.counters import BY_NAME
from perfzero.errors import DeviceBusy, NotPermitted, SourceError
from perfzero.sources import _libcupti, cupti
from perfzero.sources.cupti import BUFFER_BYTES, Decoded, PmSampler, find_libraries
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
    sampler = PmSampler(device, clock_ns=clock, monotonic_ns=clock.monotonic)
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


def test_samples_that_are_missing_at_a_windows_start_are_counted_too(sampler, device, clock):
    device.missing = set(range(50))
    sampler.start()
    clock.sleep(0.4)
    sampler.stop()

    assert [(loss.samples, loss.reason) for loss in sampler.losses] == [(51, "samples are missing")]


def test_a_start_that_takes_its_milliseconds_loses_nothing(sampler, device, clock):
    device.missing = set(range(15))
    sampler.start()
    clock.sleep(0.4)
    sampler.stop()

    assert sampler.losses == []


def test_an_overflow_flag_with_all_samples_there_is_no_loss(sampler, device, clock):
    device.flags_overflow = True
    sampler.start()
    clock.sleep(0.4)
    assert len(sampler.stop()) == 399
    assert sampler.losses == []


def test_a_hole_after_an_overflow_flag_is_named_after_it(sampler, device, clock):
    device.flags_overflow = True
    device.missing = set(range(395, 420))  # across the drain
    sampler.start()
    clock.sleep(0.4)
    sampler.read()
    device.flags_overflow = False
    clock.sleep(0.1)
    sampler.stop()

    assert [(loss.samples, loss.reason) for loss in sampler.losses] == [
        (25, "the hardware buffer overflowed")
    ]


def test_a_clock_that_is_set_back_in_a_window_costs_its_later_samples_and_they_are_counted(sampler, clock):
    sampler.start()
    clock.sleep(0.2)
    sampler.read()
    clock.set_by_ns = -3600 * 1000 * MS
    clock.sleep(0.2)
    samples = sampler.stop()

    assert len(samples) + sum(loss.samples for loss in sampler.losses) == 200
    assert {loss.reason for loss in sampler.losses} == {"the machine's clock was set back"}


@pytest.mark.parametrize(
    ("offsets_ms", "lost"),
    [
        ([1, 2, 3, -3000, -2999, 4, 5], 2),  # two rows in the middle lie before the window
        ([-400, -399, 1, 2, 3, 4, 5], 0),  # two left over from the window before come first
    ],
)
def test_rows_out_of_order_are_a_loss_but_not_those_left_over_from_before(
    sampler, device, clock, monkeypatch, offsets_ms, lost
):
    sampler.start()
    start = clock() + np.array(offsets_ms) * MS
    values = np.ones((len(start), len(sampler.resolution.metrics)))
    monkeypatch.setattr(device, "decode", lambda room: Decoded(start, start + MS, values))

    assert len(sampler.read()) == 5
    assert sum(loss.samples for loss in sampler.losses) == lost


def test_a_clock_that_is_set_forward_asks_for_no_larger_image(sampler, device, clock):
    sampler.start()
    clock.sleep(0.2)
    sampler.read()
    clock.set_by_ns = 24 * 3600 * 1000 * MS
    clock.sleep(0.2)
    sampler.read()

    assert device.rooms[1] == device.rooms[0]


def test_an_image_holds_no_more_than_the_hardware_buffer_can(sampler, device, clock):
    sampler.start()
    clock.sleep(3600.0)
    sampler.read()

    _, _, buffer_bytes = device.configured[-1]
    assert device.rooms[-1] <= buffer_bytes / 500 / len(sampler.resolution.metrics) + 64


def test_samples_that_come_late_but_come_are_no_silence(sampler, device, clock):
    """Decoding may fall behind: then the last stamp is seconds old although sampling goes on."""
    sampler.start()
    for _ in range(3):
        clock.sleep(0.6)
        clock.set_by_ns += 2000 * MS
        sampler.read()
    assert sampler.running


def test_sampling_that_ends_by_itself_is_noticed(sampler, device, clock):
    device.silent_after_ns = 300 * MS
    sampler.start()
    clock.sleep(0.5)
    assert len(sampler.read()) == 299
    clock.sleep(1.1)

    with pytest.raises(SourceError, match="stopped delivering"):
        sampler.read()
    assert sum(loss.samples for loss in sampler.losses) == 1300


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
    clock.sleep(0.5)
    sampler.read()
    assert device.rooms[-1] < 700  # and it is not kept


def test_a_window_that_ends_before_its_first_sample_is_empty(sampler):
    sampler.start()

    assert len(sampler.stop()) == 0
    assert sampler.losses == []


def test_a_burst_gets_the_image_for_its_length_however_late_it_is_read(sampler, device, clock):
    sampler.close()
    sampler.open(period_ns=100_000, drain_s=0.5)
    sampler.start()
    clock.sleep(3.0)
    sampler.stop()

    assert device.rooms[-1] == 5000 * 1.1 + 64


def test_the_image_of_a_session_is_no_larger_than_its_buffer_whatever_is_asked_for(sampler, device, clock):
    sampler.close()
    sampler.open(period_ns=10_000, drain_s=3600.0)
    sampler.start()
    clock.sleep(0.01)
    sampler.read()

    assert device.rooms[-1] <= (512 << 20) / 500 / len(sampler.resolution.metrics) + 64


class CountingLibrary:
    """libcupti as far as one session needs it, at the level of its calls: images are counted, not filled."""

    version, path = 130001, "/nowhere/libcupti.so.13"

    def __init__(self):
        self.images: list[int] = []

    def initialize(self):
        pass

    def chip_name(self, index):
        return "GH100"

    def availability(self, index):
        return None

    def call(self, name, reference):
        parameters = reference._obj
        if name == "cuptiPmSamplingGetCounterDataSize":
            self.images.append(parameters.maxSamples)
            parameters.counterDataSize = 16
        if name == "cuptiProfilerHostGetConfigImageSize":
            parameters.configImageSize = 16

    def function(self, name):
        return None


class Cuda:
    def index_of(self, uuid):
        return 0

    def attribute(self, index, attribute):
        return 1


def test_the_image_of_a_late_drain_is_given_back_and_one_of_about_the_right_size_is_kept(monkeypatch):
    library = CountingLibrary()
    monkeypatch.setattr(cupti, "load_cuda", Cuda)
    monkeypatch.setattr(cupti, "load_library", lambda hints, index: library)
    device = cupti.CuptiDevice("GPU-0")
    device.enable()
    device.configure(("gr__cycles_active.avg",), period_ns=MS, buffer_bytes=1 << 20)

    for room in (600, 600, 5000, 600, 620, 600):
        device.decode(room)
    assert library.images == [600, 5000, 600, 620]


def test_our_own_record_stream_is_taken_off_the_pcie_traffic(sampler, clock):
    sampler.start()
    clock.sleep(0.2)

    assert sampler.stop().column("pcie_tx_bytes").max() == 0.0


def test_a_programs_constant_pcie_traffic_is_not_taken_off_as_ours(sampler, device, clock):
    device.own_pcie_bytes = 20e6  # 20 GB/s, far more than our records can be
    sampler.start()
    clock.sleep(0.2)

    assert sampler.stop().column("pcie_tx_bytes").min() > 19.8e6


@pytest.mark.parametrize(("front_end", "unknown"), [(3, [0, 1, 1, 1]), (4, [0, 1, 1, 1]), (2, [0] * 4)])
def test_launches_are_unknown_in_the_sample_that_a_read_out_falls_into(device, clock, front_end, unknown):
    """The first of each drain but a window's first, and only beside three counters of the front end."""
    sampler = PmSampler(device, clock_ns=clock, monotonic_ns=clock.monotonic)
    names = ("launches", "sm_active", *cupti.FRONT_END[:front_end])
    sampler.open(period_ns=MS, drain_s=0.1, counters=[BY_NAME[name] for name in names])
    sampler.start()
    drains = []
    for _ in range(3):
        clock.sleep(0.1)
        drains.append(sampler.read())
    clock.sleep(0.05)
    drains.append(sampler.stop())

    assert [int(np.isnan(drain.column("launches")).sum()) for drain in drains] == unknown
    assert all(np.isnan(drain.column("launches")[0]) for drain, n in zip(drains, unknown, strict=True) if n)
    assert all(np.isfinite(drain.column("sm_active")).all() for drain in drains)


def test_the_hardware_buffer_is_sized_for_the_drain_within_bounds(device, clock):
    sampler = PmSampler(device, clock_ns=clock, monotonic_ns=clock.monotonic)
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
        PmSampler(device, clock_ns=clock, monotonic_ns=clock.monotonic).open(period_ns=MS, drain_s=0.5)


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
        PmSampler(device, clock_ns=clock, monotonic_ns=clock.monotonic).open(period_ns=MS, drain_s=0.5)
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
