"""Gains are bounded by Amdahl and by the next bottleneck."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfzero.diagnose import gain
from perfzero.diagnose.evidence import Evidence, collect
from perfzero.diagnose.rules import run_rules
from perfzero.sources.synthetic import H200, Phase, observe


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


def test_the_next_limit_is_the_class_with_most_time_left_after_the_fix(program):
    """Idle 58 %: once all of it is gone memory is the limit; where a tenth is saved, it is the host still."""
    e = collect(program("input_starved_resnet50"))
    all_gone, little = gain.Gain(2.3, 2.5, ""), gain.Gain(1.0, 1.2, "")

    assert gain.next_limit(e, all_gone, eased=("idle",)) == "memory bandwidth"
    assert gain.next_limit(e, little, eased=("idle",)) == "the host"


def test_what_is_left_of_work_that_moves_on_has_the_limit_of_where_it_goes(program):
    e = collect(program("fp32_gemm"))
    much = gain.Gain(4.0, 7.0, "")

    assert gain.next_limit(e, much, eased=("fma",), becomes="the tensor cores") == "the tensor cores"
    assert gain.next_limit(e, much, eased=("fma",)) == "the FP32 pipes"


def test_of_two_limits_that_end_up_as_close_both_are_named():
    """Idle 40 %, memory-bound 33 %, latency 27 %: with 10 points saved, memory and the host are left."""
    phases = [
        Phase(0.033, {"gr_active": 1.0, "sm_active": 0.95, "dram_read_bytes": 4e12}),
        Phase(0.027, {"gr_active": 1.0, "sm_active": 0.95}),
        Phase(0.040),
    ]
    e = collect(observe(phases))

    assert gain.next_limit(e, gain.Gain(1.11, 1.11, ""), eased=("idle",)) == "memory bandwidth or the host"
    assert gain.next_limit(e, gain.Gain(1.3, 1.3, ""), eased=("idle",)) == "memory bandwidth"


def test_tf32_and_bf16_gain_what_the_tensor_cores_reach_over_what_the_fp32_pipe_delivers(program):
    """With the FP32 pipe at 0.8 of its peak: 8 x 0.4/0.8 to 8 x 0.75/0.8 times, and twice that in bf16."""
    e = collect(program("fp32_gemm"))

    tf32, _ = gain.precision(e, 1.0, pipe=0.8, certain=1.0, dtype="tf32")
    bf16, _ = gain.precision(e, 1.0, pipe=0.8, certain=1.0, dtype="bf16")

    assert (tf32.low, tf32.high) == (pytest.approx(1 / (0.05 + 0.95 / 4)), pytest.approx(7.5))
    assert (bf16.low, bf16.high) == (pytest.approx(1 / (0.05 + 0.95 / 8)), pytest.approx(15.0))


def test_work_that_need_not_be_matrix_products_gains_less(program):
    e = collect(program("fp32_gemm"))

    certain, _ = gain.precision(e, 1.0, pipe=0.5, certain=1.0, dtype="tf32")
    unknown, _ = gain.precision(e, 1.0, pipe=0.5, certain=0.0, dtype="tf32")

    assert unknown.low < certain.low
    assert unknown.high < certain.high


def test_a_gpu_without_tensor_cores_for_a_type_gains_nothing_from_it(program):
    seen = program("fp32_gemm")
    e = collect(replace(seen, gpu=replace(seen.gpu, chip="TU102", compute_capability=(7, 5))))

    found, stopped = gain.precision(e, 1.0, pipe=0.8, certain=1.0, dtype="tf32")

    assert (found.low, found.high, stopped) == (1.0, 1.0, None)


def test_a_graph_gains_more_than_the_gaps_where_kernels_are_mostly_launch():
    """
    10,000 kernels/s of 5 µs: gaps closed give 20 times; without 1.4 µs of launch in each it is 27.8. At least
    half of that is spared, and a twentieth of the gaps stays.
    """
    tiny = observe([Phase(5e-6, {"gr_active": 1.0, "sm_active": 0.02, "launches": 2e5}), Phase(95e-6)])
    e = collect(tiny)

    found, _ = gain.graph(e, e.share("idle"))

    assert found.low == pytest.approx(1 / (0.05 * 4.3 / 5 + 0.05 * 0.95), rel=0.01)
    assert found.high == pytest.approx(1 / (1e4 * 3.6e-6), rel=0.02)


def test_a_graph_of_long_kernels_gains_only_the_gaps():
    """1,000 kernels/s of 500 µs: the launch in each is nothing."""
    long = observe([Phase(500e-6, {"gr_active": 1.0, "sm_active": 0.9, "launches": 2e3}), Phase(500e-6)])
    e = collect(long)

    found, _ = gain.graph(e, e.share("idle"))

    assert (found.low, found.high) == (pytest.approx(1.9, rel=0.01), pytest.approx(2.0, rel=0.01))


def launching(*, idle: float = 0.9, used: float = 0.1, **counters: float) -> Evidence:
    """Small kernels that leave the GPU *idle*, on all SMs if *counters* say nothing else; memory *used*."""
    board = {"memory_used": used * (H200.memory_bytes or math.nan)}
    kernel = {"gr_active": 1.0, "sm_active": 0.9, "launches": 2e5, **counters}
    return collect(observe([Phase(5e-6, kernel), Phase(5e-6 * idle / (1 - idle))], board=board))


def test_a_batch_four_times_as_large_gains_as_much_or_what_fills_the_gaps():
    e = launching()
    some, many = gain.larger_batch(e, 0.3), gain.larger_batch(e, 0.9)

    assert (some.low, some.high) == pytest.approx((1 / 0.7 / 1.1, 1 / 0.7))
    assert (many.low, many.high) == pytest.approx((4 / 1.1, 4 * 1.1))
    assert gain.larger_batch(e, 0.01).low == 1.0


@pytest.mark.parametrize(
    ("used", "fits", "told"),
    [(math.nan, 4.0, "4 times"), (0.1, 4.0, "4 times"), (0.4, 2.5, "2.5-4 times"), (0.5, 2.0, "2-4 times")],
)
def test_of_a_batch_that_does_not_fit_into_the_memory_nothing_is_promised_at_least(used, fits, told):
    found = gain.larger_batch(launching(used=used), 0.9)

    assert found.low == pytest.approx(fits / 1.1)
    assert found.high == pytest.approx(4.4)
    assert told in found.assumption


def test_nor_of_one_beside_an_optimizer():
    full, roomy = (gain.larger_batch(launching(used=used), 0.5, in_part=True) for used in (0.55, 0.1))

    assert full.low == pytest.approx((1 / 0.55) / (0.5 + 0.5 / 0.55))
    assert roomy.low == pytest.approx(2 / 1.5)
    assert full.high == roomy.high == pytest.approx(2.0)


def test_a_larger_batch_is_stopped_by_a_resource_that_is_in_use_for_a_good_part_of_the_time():
    free, used = (launching(idle=0.7, tensor_active=pipe) for pipe in (0.1, 0.9))
    most = 1 / gain.uses(used)["tensor"]

    assert 3 < most < 4 / 1.1
    assert gain.larger_batch(free, 0.9).high == pytest.approx(4.4)
    found = gain.larger_batch(used, 0.9)
    assert (found.low, found.high) == pytest.approx((most, most))
    assert "the tensor cores" in found.assumption


def test_a_larger_batch_gains_up_to_what_fills_the_sms_that_have_no_work():
    """Kernels run nearly all the time, on a quarter of the SMs: on all, four batches take no longer."""
    few, all_of_them = (launching(idle=0.05, sm_active=sm) for sm in (0.25, 0.9))

    assert gain.spare(few) == pytest.approx(0.95 * 0.75, abs=0.01)
    assert gain.spare(all_of_them) == 0.0
    assert gain.larger_batch(few, 0.05).high == pytest.approx(4 / 0.95, rel=0.01)
    assert gain.larger_batch(all_of_them, 0.05).high == pytest.approx(1 / 0.95)
    assert gain.larger_batch(few, 0.05).low == gain.larger_batch(all_of_them, 0.05).low


@pytest.mark.parametrize("idle", [0.1, 0.52, 0.9])
@pytest.mark.parametrize("times", [2, 8, 64])
def test_a_larger_batch_leaves_the_gaps_of_an_optimizer_as_they_are(idle, times):
    """Twice the batch takes twice as long beside them; only a batch without end has none."""
    found = gain.larger_batch(launching(), idle, in_part=True)
    achieved = times / (idle + times * (1 - idle))

    assert found.low <= achieved * 1.0001
    assert achieved <= found.high
    assert found.low == pytest.approx(2 / (2 - idle))


def test_fewer_launches_gain_less_than_a_graph_of_all():
    e = collect(observe([Phase(5e-6, {"gr_active": 1.0, "sm_active": 0.02, "launches": 2e5}), Phase(20e-6)]))
    idle = e.share("idle")

    fewer, all_at_once = gain.fewer_launches(e, idle), gain.graph(e, idle)[0]

    gone = 0.95 * (0.8 + 1.4 / 25)  # the gaps, and 1.4 of the 5 us that each kernel is active
    assert (fewer.low, fewer.high) == pytest.approx((1 / 0.6, 1 / (1 - gone)), rel=0.01)
    assert fewer.low < all_at_once.low
    assert fewer.high < all_at_once.high


def test_launches_that_go_take_their_kernels_with_them_from_what_limits_next():
    """Gaps of 75 % and kernels of 25, 7 of these launches: 2.9 times in the middle leaves 16 % and 19."""
    cycle = [Phase(5e-6, {"gr_active": 1.0, "sm_active": 0.02, "launches": 2e5}), Phase(15e-6)]
    e = collect(observe(cycle))
    idle = e.share("idle")
    fewer = gain.fewer_launches(e, idle)

    assert gain.limit_of_fewer(e, fewer, idle) == "the number of SMs the kernels fill or the host"
    assert gain.next_limit(e, fewer, eased=("idle",)) == "the number of SMs the kernels fill"


def test_kernels_that_are_launched_no_more_save_no_more_than_they_are_active():
    """40,000 kernels a second of 1 us are active for less time than they are launched in."""
    e = collect(observe([Phase(1e-6, {"gr_active": 1.0, "sm_active": 0.02, "launches": 1e6}), Phase(24e-6)]))

    assert gain.fewer_launches(e, e.share("idle")).high == pytest.approx(1 / 0.05, rel=0.01)


def test_more_loaders_help_until_the_cores_run_out(program):
    """Idle 58 %; with the host's cores at half, no loader can make the input twice as fast."""
    roomy, full = (
        next(f for f in run_rules(collect(program("input_starved_resnet50", host=host))) if f.gain)
        for host in ({}, {"host_cpu_busy": 0.6})
    )

    assert roomy.gain.high > 2
    assert full.gain.high == pytest.approx(1 / 0.6)
    assert full.next_limit == "the CPU cores of the host"


def test_two_threads_of_a_core_are_not_two_cores(program):
    """With two fifths of the threads busy, all do two and a half times the work, or half as much again."""
    alone, shared = (
        next(f for f in run_rules(collect(program("input_starved_resnet50", host=host))) if f.gain)
        for host in ({}, {"host_cpu_busy": 0.4})
    )

    assert shared.gain.low == pytest.approx(0.6 / 0.4)
    assert alone.gain.low > shared.gain.low


@pytest.mark.parametrize("busy", [0.5, 0.7, 0.84, 0.9])
def test_the_fewer_cores_are_left_the_less_is_promised_and_never_a_loss(busy):
    """Idle 60 %: from six tenths of the cores on, another loader may bring nothing; without any it does."""
    seen = observe(
        [Phase(0.1, {"gr_active": 1.0, "sm_active": 0.9}), Phase(0.15)],
        host={"host_workers": 8.0, "host_worker_cpu": 0.95, "host_main_cpu": 0.15, "host_cpu_busy": busy},
    )
    found = next(f.gain for f in run_rules(collect(seen)) if f.rule == "input_starved")

    assert found.low == pytest.approx(max(1.0, 0.6 / busy))
    assert ("less work per sample" in found.assumption) is (busy == 0.9)


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


@pytest.mark.parametrize(("of_roof", "most"), [(0.125, 8.0), (0.4, 2.5)])
def test_kernels_that_are_slow_for_an_unknown_reason_gain_up_to_the_next_roof(of_roof, most):
    """A tenth of their time goes at least."""
    slow = {"gr_active": 1.0, "sm_active": 0.95}
    roof = collect(observe([Phase(0.01, slow)])).roofs.dram
    e = collect(observe([Phase(0.01, {**slow, "dram_read_bytes": of_roof * roof})]))
    found = next(f for f in run_rules(e) if f.rule == "latency_bound")

    assert found.gain is not None
    assert (found.gain.low, found.gain.high) == pytest.approx((1 / 0.9, most), rel=0.02)


def test_an_interval_that_says_how_little_is_known_does_not_put_its_finding_first(program):
    found = next(f for f in run_rules(collect(program("stalling"))) if f.rule == "latency_bound")

    assert found.gain is not None
    assert gain.saving(found) < 0.4 < gain.middle(found.gain)
    assert found.next_limit == "latency inside the kernels"
