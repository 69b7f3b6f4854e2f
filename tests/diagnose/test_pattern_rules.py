"""Stalls in some steps only, launches that are late in one part of the step, and double precision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfzero.diagnose.evidence import collect
from perfzero.diagnose.idle_time import late_launches
from perfzero.diagnose.judge import judge
from perfzero.diagnose.rules import run_rules
from perfzero.diagnose.rules.compute import fp64_path, latency_bound, wave_tail
from perfzero.diagnose.rules.idle import launch_bound
from perfzero.diagnose.rules.pattern import periodic_stall
from perfzero.sources.synthetic import Phase, observe
from perfzero.values import Observation, Samples

MATRIX = {
    "gr_active": 1.0, "sm_active": 0.99, "tensor_active": 0.8, "dram_read_bytes": 4e11,
    "dram_write_bytes": 2e11, "launches": 2000.0, "queue_empty": 0.04, "queue_semaphore": 0.96,
}  # fmt: skip
UPDATE = {
    "gr_active": 1.0, "sm_active": 0.98, "dram_read_bytes": 1.6e12, "dram_write_bytes": 2.2e12,
    "launches": 2000.0, "queue_empty": 0.04, "queue_semaphore": 0.96,
}  # fmt: skip
NOTHING = {"queue_empty": 1.0, "queue_semaphore": 0.0}
STEP = (Phase(0.020, MATRIX), Phase(0.005, UPDATE), Phase(0.002, NOTHING))
TINY = {"gr_active": 1.0, "sm_active": 0.05, "launches": 250e3, "queue_empty": 0.5, "queue_semaphore": 0.0}
ONE_BY_ONE = (Phase(4e-6, TINY), Phase(16e-6, NOTHING)) * 1000
"""20 ms of kernels of 4 µs, launched every 20 µs."""


def checkpoints(*, every: int = 24, stall_s: float = 0.25) -> Observation:
    """A stall after every so many steps of 27 ms."""
    return observe((*STEP * every, Phase(stall_s, NOTHING)), host={"host_main_cpu": 0.9}, zoom=False)


def test_a_checkpoint_every_24_steps_is_a_stall_with_its_period_and_share() -> None:
    found = periodic_stall(collect(checkpoints()))

    assert found is not None
    assert found.share == pytest.approx(0.25 / (24 * 0.027 + 0.25), abs=0.04)
    assert "stalls of 25" in found.because[0]
    assert found.gain is not None
    assert 1.05 < found.gain.low < found.gain.high < 1.45


def test_it_is_the_verdict_and_the_starved_host_does_not_claim_its_time_again() -> None:
    diagnosis = judge(checkpoints())

    assert diagnosis.verdict is not None
    assert diagnosis.verdict.rule == "periodic_stall"
    starved = [f for f in diagnosis.findings if f.rule == "host_starved"]
    assert all(f.share < 0.12 for f in starved)


def test_the_garbage_collector_is_named_for_short_stalls_alone() -> None:
    short, long = (periodic_stall(collect(checkpoints(stall_s=s))) for s in (0.15, 0.40))

    assert short is not None
    assert long is not None
    assert any("garbage collector" in r.text for r in short.remedies)
    assert not any("garbage collector" in r.text for r in long.remedies)


def test_steps_that_are_all_alike_have_no_stall() -> None:
    assert periodic_stall(collect(observe(STEP, zoom=False))) is None


def test_a_gap_in_every_step_is_no_stall_of_some() -> None:
    every = (Phase(0.020, MATRIX), Phase(0.005, UPDATE), Phase(0.025, NOTHING))
    assert periodic_stall(collect(observe(every, zoom=False))) is None


def test_copies_are_no_stall(program) -> None:
    assert periodic_stall(collect(program("pageable_copies"))) is None


def in_part(main: float = 0.9) -> Observation:
    """Half of each step in time, and half an optimizer that updates one parameter after the other."""
    return observe((Phase(0.02, MATRIX), *ONE_BY_ONE), host={"host_main_cpu": main}, zoom=False)


def test_launches_that_are_late_in_one_part_of_the_step_are_the_cause_of_its_idle_time() -> None:
    e = collect(in_part())
    found = launch_bound(e)

    assert late_launches(e.long).of_idle > 0.9
    assert found is not None
    assert found.share == pytest.approx(0.4, abs=0.03)
    assert "in one part" in found.because[0]
    assert "fused optimizer" in found.remedies[0].text


def test_tiny_kernels_throughout_get_no_advice_on_the_optimizer_first(program) -> None:
    found = launch_bound(collect(program("tiny_kernels")))

    assert found is not None
    assert "fused" not in found.remedies[0].text


def test_a_thread_that_sleeps_in_that_part_does_not_launch_there() -> None:
    assert launch_bound(collect(in_part(main=0.2))) is None


def test_tiny_kernels_whose_next_is_queued_are_not_late() -> None:
    queued = {**TINY, "queue_empty": 0.04, "queue_semaphore": 0.96}
    e = collect(
        observe((Phase(0.02, MATRIX), *(Phase(4e-6, queued), Phase(16e-6, NOTHING)) * 1000), zoom=False)
    )
    assert late_launches(e.long).of_idle == 0.0


def test_nothing_is_late_where_nothing_is_idle_or_nothing_was_sampled() -> None:
    assert late_launches(Samples.empty()).of_idle == 0.0
    assert late_launches(collect(observe((Phase(0.01, MATRIX),), zoom=False)).long).of_idle == 0.0


DOUBLE = {"gr_active": 1.0, "sm_active": 0.99, "fp64_active": 0.27, "fma_active": 0.06, "launches": 150.0}


def test_a_special_function_in_double_precision_is_named_and_not_called_latency() -> None:
    e = collect(observe((Phase(0.01, DOUBLE),)))
    found = fp64_path(e)

    assert found is not None
    assert found.share > 0.95
    assert found.gain is not None
    assert found.gain.low > 1.2
    assert latency_bound(e) is None


def test_products_of_float64_on_the_tensor_cores_are_no_good_use_of_them() -> None:
    product = {"gr_active": 1.0, "sm_active": 0.99, "tensor_active": 0.9, "launches": 500.0}
    mixed = observe((Phase(0.01, product),))
    double = replace(
        mixed, gpm=mixed.gpm.with_columns({"tensor_fp64_active": mixed.gpm.column("tensor_active")})
    )

    assert run_rules(collect(mixed))[0].rule == "well_used"
    assert run_rules(collect(double))[0].rule == "fp64_path"
    assert "well_used" not in [f.rule for f in run_rules(collect(double))]


def test_a_little_double_precision_beside_more_fp32_is_no_finding() -> None:
    little = {**DOUBLE, "fp64_active": 0.10}
    less = {**DOUBLE, "fp64_active": 0.20, "fma_active": 0.30}
    assert fp64_path(collect(observe((Phase(0.01, little),)))) is None
    assert fp64_path(collect(observe((Phase(0.01, less),)))) is None


def waves(full_s: float, tail_s: float, *, sm: float = 0.3) -> Observation:
    """Kernels with all SMs at work for *full_s*, and with a part of them for *tail_s* after it."""
    busy = {"gr_active": 1.0, "sm_active": 1.0, "tensor_active": 0.7, "launches": 5000.0}
    return observe((Phase(full_s, busy), Phase(tail_s, {**busy, "sm_active": sm})))


def test_the_last_wave_of_each_kernel_is_lost_sm_time() -> None:
    found = wave_tail(collect(waves(100e-6, 50e-6)))

    assert found is not None
    assert found.share == pytest.approx(0.7 / 3, abs=0.03)
    assert found.severity == "watch"
    assert found.remedies


def test_a_short_last_wave_is_only_worth_knowing() -> None:
    found = wave_tail(collect(waves(180e-6, 20e-6)))

    assert found is not None
    assert found.severity == "info"
    assert found.remedies == ()


def test_whole_waves_long_dips_and_small_kernels_are_no_tails() -> None:
    for seen in (
        waves(100e-6, 50e-6, sm=0.97),
        waves(900e-6, 600e-6),
        observe((Phase(0.01, {**TINY, "gr_active": 1.0}),)),
    ):
        assert wave_tail(collect(seen)) is None


def test_without_bursts_nothing_is_said_of_tails() -> None:
    busy = {"gr_active": 1.0, "sm_active": 1.0}
    assert (
        wave_tail(collect(observe((Phase(1e-4, busy), Phase(5e-5, {**busy, "sm_active": 0.3})), zoom=False)))
        is None
    )
