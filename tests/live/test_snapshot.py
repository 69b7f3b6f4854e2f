"""From rows, real and made up, to what is said of a GPU now."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfzero.diagnose.roofs import roofs_of
from perfzero.diagnose.split import split_time
from perfzero.live.snapshot import Course, Snapshot, Trail
from perfzero.store.reader import open_recording
from perfzero.values import Gpu, Samples
from replayed_gpus import RECORDINGS, seen

S = 1_000_000_000
GPU = Gpu(
    0, "GPU-aaaa", "NVIDIA H200", compute_capability=(9, 0), sm_count=132, sm_clock_max_hz=1.98e9,
    memory_clock_max_hz=3.201e9, memory_bus_bits=6144, memory_bytes=150_754_820_096, power_limit_w=700.0,
    pcie_generation_max=5, pcie_width_max=16,
)  # fmt: skip


def rows(first_s: float, *lengths_s: float, **columns: float) -> Samples:
    """Rows one after the other, each with the same figures."""
    edges = np.round(np.cumsum([first_s, *lengths_s]) * S).astype(np.int64)
    return Samples(edges[:-1], edges[1:], {n: np.full(len(lengths_s), v) for n, v in columns.items()})


NONE = Samples.empty()


def test_figures_are_shares_of_what_the_gpu_can_do() -> None:
    course = Course(GPU, tier="gpm")
    course.add(rows(0, 2, gr_active=1.0, sm_active=0.8, dram_active=0.5, pcie_rx_bytes=20e9), NONE)

    now = course.now(2 * S)

    assert now.sm_active == 0.8
    assert now.dram_roof_share == pytest.approx(0.5 / 0.895)  # of the practical roof, not of the peak
    assert now.pcie_rx == 10e9  # per second: the row covers two
    assert now.seconds == 2.0


def test_what_was_not_read_is_missing_and_never_zero() -> None:
    course = Course(GPU, tier="gpm")
    course.add(rows(0, 1, gr_active=1.0, sm_active=math.nan), NONE)

    now = course.now(S)

    assert math.isnan(now.sm_active)
    assert math.isnan(now.tensor_active)
    assert math.isnan(now.memory_used)
    assert now.processes is None


def test_rows_that_come_together_are_shown_as_their_mean_over_time() -> None:
    course = Course(GPU, tier="gpm")
    late = Samples.concat(
        [rows(0, 3, gr_active=1.0, sm_active=1.0), rows(3, 1, gr_active=0.0, sm_active=0.0)]
    )
    course.add(late, NONE)

    assert course.now(4 * S).sm_active == 0.75


def test_figures_of_long_ago_are_not_those_of_now() -> None:
    course = Course(GPU, tier="gpm")
    course.add(rows(0, 1, gr_active=1.0, sm_active=0.8), rows(0, 1, power=650.0))

    assert course.now(5 * S).sm_active == 0.8
    assert math.isnan(course.now(30 * S).sm_active)
    assert math.isnan(course.now(30 * S).power)


def test_the_last_minute_is_shared_out_as_the_diagnosis_does() -> None:
    recording = open_recording(RECORDINGS / "input_starved_resnet50")
    observation = recording.observation(0)
    gpm = observation.gpm.between(observation.start_ns, int(observation.gpm.start_ns[0]) + 50 * S)
    course = Course(observation.gpu, tier="gpm")
    course.add(NONE, observation.board)
    course.add(gpm, NONE)

    split = split_time(gpm, NONE, roofs_of(observation.gpu, observation.board))

    assert split is not None
    now = course.now(int(gpm.end_ns[-1]))
    assert dict(now.shares) == pytest.approx(dict(split.shares), abs=1e-9)
    assert sum(now.shares.values()) == pytest.approx(1.0)


def test_only_the_last_minute_counts() -> None:
    course = Course(GPU, tier="gpm")
    busy = {"sm_active": 1.0, "dram_active": 0.9, "tensor_active": 0.0, "fma_active": 0.0}
    course.add(rows(0, *[1.0] * 100, gr_active=0.0), NONE)
    course.add(rows(100, *[1.0] * 60, gr_active=1.0, **busy), NONE)

    now = course.now(160 * S)

    assert now.first_class == "memory"
    assert now.shares["memory"] == pytest.approx(1.0)
    assert now.shares_s == 60.0


def test_without_counters_no_time_is_shared_out() -> None:
    course = Course(GPU, tier="nvml", without_gpm="An A100 has no GPM.")
    course.add(NONE, rows(0, 1, smi_utilization=1.0, power=300.0))

    now = course.now(S)

    assert dict(now.shares) == {}
    assert now.first_class is None
    assert math.isnan(now.sm_active)
    assert now.smi_utilization == 1.0
    assert now.without_gpm == "An A100 has no GPM."


def test_what_holds_the_clocks_down_is_named_and_nothing_else_is() -> None:
    course = Course(GPU, tier="gpm")
    course.add(NONE, rows(0, 1, power=695.0, capped_power=1.0, capped_thermal=0.0))

    assert course.now(S).held_down == ("capped_power",)
    assert course.now(S).power_share == pytest.approx(695 / 700)


def test_memory_stays_known_between_the_readings_that_ask_for_it() -> None:
    course = Course(GPU, tier="gpm")
    course.add(NONE, rows(0, 1, power=300.0, memory_used=20e9))
    course.add(NONE, rows(1, 1, power=300.0, memory_used=math.nan))

    assert course.now(2 * S).memory_used == 20e9
    assert math.isnan(course.now(100 * S).memory_used)


def test_a_trail_holds_means_of_equal_stretches() -> None:
    trail = Trail(2.0)
    for second, value in enumerate([1.0, 0.0, 0.5, 0.5]):
        trail.add(second * S, value)

    assert trail.columns() == (0.5, 0.5)


def test_a_trail_has_a_gap_where_nothing_was_read() -> None:
    trail = Trail(2.0)
    trail.add(0, 1.0)
    trail.add(6 * S, 0.5)

    first, *gap, last = trail.columns()

    assert (first, last) == (1.0, 0.5)
    assert [math.isnan(value) for value in gap] == [True, True]


def test_a_trail_is_no_longer_than_it_may_be_after_any_pause() -> None:
    trail = Trail(2.0, columns=5)
    trail.add(0, 1.0)
    trail.add(10_000 * S, 1.0)

    assert len(trail.columns()) == 5


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("input_starved_resnet50", "idle"),
        ("bf16_gemm_capped", "tensor"),
        ("decode", "memory"),
        ("pageable_copies", "copy"),
        ("fp32_gemm", "fma"),
        ("tiny_kernels", "idle"),
    ],
)
def test_the_class_that_takes_most_is_the_known_one(name: str, expected: str) -> None:
    """The programs are those of the zoo, on a real H200; each has one known limit."""
    snapshot: Snapshot = seen(name, seconds=14 if name != "input_starved_resnet50" else 30)

    assert snapshot.gpus[0].first_class == expected
