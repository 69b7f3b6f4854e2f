"""The warm-up is found where it was put, and not invented."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.series.steady import bin_means, find_steady
from perfzero.sources.synthetic import SECOND_NS, START_NS, Phase, observe, signal
from perfzero.values import Samples

BUSY = Phase(0.05, {"gr_active": 0.95, "sm_active": 0.9, "tensor_active": 0.4, "dram_read_bytes": 1e12})
SLOW = Phase(0.05, {"gr_active": 0.3, "sm_active": 0.2, "tensor_active": 0.05, "dram_read_bytes": 2e11})
NOTHING = Phase(1.0)


def stretch_of(observation):
    return find_steady(
        observation.gpm, observation.pm, start_ns=observation.start_ns, end_ns=observation.end_ns
    )


@pytest.mark.parametrize("warm_up", [SLOW, NOTHING])
def test_a_warm_up_of_ten_seconds_is_dropped(warm_up):
    found = stretch_of(observe([BUSY], seconds=40, warm_up=[warm_up], warm_up_s=10.0, noise=0.02))

    assert found.how == "stable"
    assert pytest.approx(found.dropped_s, abs=1.0) == 10.0
    assert found.changed < 0.05


def test_a_program_that_is_steady_from_the_start_loses_nothing():
    found = stretch_of(observe([BUSY], seconds=40, noise=0.02))

    assert found.how == "stable"
    assert found.dropped_s == 0.0


def test_a_program_that_alternates_is_steady():
    """Eight seconds of training, two of evaluation, over and over: no part of it is warm-up."""
    train = Phase(8.0, BUSY.levels)
    evaluate = Phase(2.0, {"gr_active": 0.5, "sm_active": 0.4, "tensor_active": 0.1})

    found = stretch_of(observe([train, evaluate], seconds=60))

    assert found.how == "stable"
    assert found.dropped_s <= 2.0


def test_windows_alone_are_enough_to_find_it():
    observation = observe([BUSY], seconds=60, warm_up=[SLOW], warm_up_s=12.0, every_s=2.0)

    found = find_steady(
        Samples.empty(), observation.pm, start_ns=observation.start_ns, end_ns=observation.end_ns
    )

    assert found.how == "stable"
    assert pytest.approx(found.dropped_s, abs=2.0) == 12.0


def test_the_programs_end_is_left_out():
    busy = signal([BUSY], start_ns=START_NS, end_ns=START_NS + 20 * SECOND_NS, period_ns=10**8)
    ending = signal(
        [SLOW], start_ns=START_NS + 20 * SECOND_NS, end_ns=START_NS + 22 * SECOND_NS, period_ns=10**8
    )

    found = find_steady(
        Samples.concat([busy, ending]), Samples.empty(), start_ns=START_NS, end_ns=START_NS + 25 * SECOND_NS
    )

    assert found.end_ns == START_NS + 20 * SECOND_NS


def drifting(seconds: int) -> Samples:
    table = signal([BUSY], start_ns=START_NS, end_ns=START_NS + seconds * SECOND_NS, period_ns=10**8)
    rising = np.linspace(0.0, 1.0, len(table)) ** 3
    return table.with_columns({"gr_active": rising, "sm_active": rising, "tensor_active": rising})


def test_a_program_that_never_settles_falls_back_to_thirty_seconds():
    found = find_steady(drifting(60), Samples.empty(), start_ns=START_NS, end_ns=START_NS + 60 * SECOND_NS)

    assert found.how == "fallback"
    # Ten seconds until there is work worth the name, and thirty from then on.
    assert pytest.approx(found.dropped_s, abs=1.0) == 40.0
    assert found.changed > 0.1


def test_three_seconds_are_judged_as_too_short():
    found = stretch_of(observe([BUSY], seconds=3))

    assert found.how == "short"
    assert found.dropped_s == 0.0


def test_a_gpu_without_work_has_no_steady_stretch():
    observation = observe([NOTHING], seconds=20)

    found = stretch_of(observation)

    assert found.how == "none"
    assert (observation.start_ns, observation.end_ns) == (found.start_ns, found.end_ns)


def test_nothing_measured_is_no_error():
    assert find_steady(Samples.empty(), Samples.empty(), start_ns=0, end_ns=1).how == "none"


def test_copies_alone_are_work():
    found = stretch_of(observe([Phase(1.0, {"pcie_rx_bytes": 5e10})], seconds=20))

    assert found.how == "stable"


def test_a_sample_that_spans_seconds_counts_in_each_by_its_part():
    """Two seconds and a half with 10 GB over PCIe: 4 GB in each whole second, 2 GB in the half."""
    start = np.array([START_NS], np.int64)
    moved = Samples(
        start, start + 5 * SECOND_NS // 2, {"gr_active": np.array([0.5]), "pcie_rx_bytes": np.array([1e10])}
    )

    at, means = bin_means(moved, ("gr_active", "pcie_rx_bytes"))

    assert ((at - START_NS) / SECOND_NS).tolist() == [0.0, 1.0, 2.0]
    assert means[:, 0].tolist() == [0.5, 0.5, 0.5]
    assert means[:, 1] == pytest.approx([4e9, 4e9, 4e9])


def launching(before: float, after: float) -> Samples:
    """20 s of a busy program that moves *before*, and from the middle on *after*, bytes/s over PCIe."""
    table = signal([BUSY], start_ns=START_NS, end_ns=START_NS + 20 * SECOND_NS, period_ns=10**8)
    late = np.arange(len(table)) >= len(table) // 2
    return table.with_columns({"pcie_rx_bytes": np.where(late, after, before) * table.duration_s})


def found_in(table: Samples):
    return find_steady(table, Samples.empty(), start_ns=START_NS, end_ns=START_NS + 20 * SECOND_NS)


def test_a_trickle_that_doubles_is_no_change_of_the_program():
    """What launching kernels sends over PCIe: 10 MB/s, then 5."""
    found = found_in(launching(10e6, 5e6))

    assert (found.how, found.dropped_s) == ("stable", 0.0)
    assert found.changed < 0.05


def test_a_stream_that_halves_is_one():
    assert found_in(launching(20e9, 10e9)).dropped_s == pytest.approx(10.0, abs=1.0)
