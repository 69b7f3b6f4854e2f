"""Gains are bounded by Amdahl and by the next bottleneck."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfzero.diagnose import gain
from perfzero.diagnose.evidence import collect
from perfzero.diagnose.rules import run_rules
from perfzero.sources.synthetic import Phase, observe


def test_half_of_the_time_gone_is_twice_as_fast():
    assert gain.amdahl(0.5, recovered=1.0) == 2.0


def test_half_of_the_time_twice_as_fast_is_a_third_faster():
    assert pytest.approx(gain.amdahl(0.5, recovered=1.0, speedup=2.0)) == 4 / 3


def test_nothing_recovered_is_no_gain():
    assert gain.amdahl(0.9, recovered=0.0) == 1.0


@given(st.floats(0, 1), st.floats(0, 1), st.floats(1, 1e6))
def test_no_fix_gains_more_than_its_share_allows(share, recovered, speedup):
    limit = 1 / (1 - share) if share < 1 else math.inf

    assert 1.0 <= gain.amdahl(share, recovered=recovered, speedup=speedup) <= limit * (1 + 1e-9)


def test_the_next_bottleneck_caps_the_gain():
    """Idle 80 % of the time, PCIe at 40 % of its roof on average: no more than 2.5 times."""
    starved = observe(
        [
            Phase(0.02, {"gr_active": 1.0, "sm_active": 0.9, "pcie_rx_bytes": 2 * 5.79e10}),
            Phase(0.08, {"pcie_rx_bytes": 0.0}),
        ]
    )
    e = collect(starved)

    found, stopped = gain.expect(e, 0.8, recovered=(0.5, 1.0), assumption="all of it")

    assert pytest.approx(found.high, rel=0.01) == 2.5
    assert stopped == "the PCIe link"
    assert "PCIe" in found.assumption
    assert found.low == pytest.approx(1 / 0.6)


def test_a_resource_the_fix_relieves_does_not_cap_it(program):
    e = collect(program("elementwise_chain"))

    relieved, _ = gain.expect(e, 1.0, recovered=(0.1, 0.5), traffic={"memory": 0.0}, assumption="")
    capped, stopped = gain.expect(e, 1.0, recovered=(0.1, 0.5), assumption="")

    assert pytest.approx(relieved.high) == 2.0
    assert capped.high < 1.1
    assert stopped == "memory bandwidth"


def test_the_next_limit_is_the_largest_class_left(program):
    e = collect(program("input_starved_resnet50"))

    assert gain.next_limit(e, without=("idle",)) == "memory bandwidth"


def test_where_nothing_is_left_the_work_moves_on(program):
    e = collect(program("fp32_gemm"))

    assert gain.next_limit(e, without=("fma",)) is None
    assert gain.next_limit(e, without=("fma",), instead="the tensor cores") == "the tensor cores"


def test_tensor_cores_are_between_3_and_7_times_as_fast_as_fp32_on_an_h200(program):
    low, high = gain.precision_speedup(collect(program("fp32_gemm")))

    assert pytest.approx(low) == 0.4 * 8
    assert pytest.approx(high) == 0.85 * 8


def test_a_short_stretch_that_can_go_outranks_a_long_one_that_cannot():
    """Idle 40 % and memory-bound 60 %: the idle time is easier to get rid of."""
    both = observe(
        [Phase(0.06, {"gr_active": 1.0, "sm_active": 0.95, "dram_read_bytes": 4e12}), Phase(0.04)],
        host={"host_workers": 4.0, "host_worker_cpu": 1.0},
    )
    e = collect(both)

    assert [f.rule for f in run_rules(e)][:2] == ["input_starved", "memory_bound"]


def test_halved_traffic_lets_the_gain_be_twice_as_high(program):
    """DRAM at 4.2 of 4.33 TB/s: half of the bytes leave room for twice the speed."""
    e = collect(program("elementwise_chain"))

    full, _ = gain.cap(e)
    halved, name = gain.cap(e, traffic={"memory": 0.5})

    assert 2 * full == pytest.approx(halved)
    assert name == "memory"
