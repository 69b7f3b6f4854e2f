"""Stalls in some steps only, launches that are late in one part of the step, and double precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfzero.diagnose.evidence import collect
from perfzero.diagnose.idle_time import late_launches
from perfzero.diagnose.judge import judge
from perfzero.diagnose.roofs import roofs_of
from perfzero.diagnose.rules import run_rules
from perfzero.diagnose.rules.compute import fp32_path, fp64_path, latency_bound, wave_tail
from perfzero.diagnose.rules.idle import launch_bound
from perfzero.diagnose.rules.pattern import periodic_stall
from perfzero.sources.synthetic import H200, Phase, observe
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
    short, long = (periodic_stall(collect(checkpoints(every=48, stall_s=s))) for s in (0.40, 0.60))

    assert short is not None
    assert long is not None
    assert any("garbage collector" in r.text for r in short.remedies)
    assert not any("garbage collector" in r.text for r in long.remedies)


def in_bursts(*pauses_s: float, of: int = 8) -> Observation:
    """So many beats of 30 ms before each of *pauses_s*, with averages of 0.72 s, which blur them."""
    update = {**UPDATE, "dram_read_bytes": 1e12, "dram_write_bytes": 1e12}
    burst = (Phase(0.022, MATRIX), Phase(0.008, update)) * of
    cycle = tuple(phase for pause_s in pauses_s for phase in (*burst, Phase(pause_s, NOTHING)))
    seen = observe(cycle, every_s=1.0, host={"host_main_cpu": 0.14}, zoom=False, noise=0.02)
    rows = len(seen.gpm) // 6
    means = {n: v[: 6 * rows].reshape(rows, 6).mean(axis=1) for n, v in seen.gpm.columns.items()}
    start_ns, end_ns = (edge[: 6 * rows].reshape(rows, 6) for edge in (seen.gpm.start_ns, seen.gpm.end_ns))
    return replace(seen, gpm=Samples(start_ns[:, 0], end_ns[:, -1], means))


def test_a_gpu_that_stands_still_after_every_eight_beats_waits_for_batches_and_has_no_stalls() -> None:
    """Batches of eight workers come together: averages show some of the pauses, and windows how many."""
    e = collect(in_bursts(1.0))

    assert (e.idle.stalled, e.stalls) == (0.0, ())
    assert run_rules(e)[0].rule == "host_starved"


def test_a_long_stall_beside_the_pauses_of_each_burst_is_still_one() -> None:
    stalled = collect(in_bursts(0.4, 0.4, 0.4, 2.0)).idle.stalled

    assert stalled == pytest.approx(2.0 / (3 * 0.64 + 2.24), abs=0.05)


def test_where_only_a_beat_is_known_a_stall_is_likely_and_not_sure() -> None:
    """A wait in each step of very many beats looks the same, and so it says."""
    update = {**UPDATE, "dram_read_bytes": 1e12, "dram_write_bytes": 1e12}
    cycle = (*(Phase(0.02, MATRIX), Phase(0.008, update)) * 40, Phase(1.2, NOTHING))
    seen = observe(cycle, seconds=40.0, every_s=1.0, host={"host_main_cpu": 0.9}, zoom=False, noise=0.02)
    found, sure = periodic_stall(collect(seen)), periodic_stall(collect(checkpoints()))

    assert found is not None
    assert sure is not None
    assert found.confidence == pytest.approx(0.6, abs=0.02)
    assert any("looks the same" in line for line in found.because)
    assert sure.confidence == pytest.approx(0.9, abs=0.02)
    assert not any("looks the same" in line for line in sure.because)


@pytest.mark.parametrize(("cut", "told"), [(0, "4 stalls of 300 ms"), (3, "4 stalls of at least 1 s")])
def test_where_most_stalls_are_cut_their_length_is_the_longest_seen_at_least(cut: int, told: str) -> None:
    e = collect(checkpoints())
    stall = replace(e.stalls[0], length_s=0.3, longest_s=1.0, cut=cut)
    four = replace(stall, starts_ns=np.arange(4), ends_ns=np.arange(1, 5))
    found = periodic_stall(replace(e, rare=(four,)))

    assert found is not None
    assert found.because[0].startswith(told)


def test_bursts_of_requests_of_a_server_are_no_stalls() -> None:
    """A prompt, some tokens, and a wait of any length for the next: windows of 1 s show edges of waits."""
    rng = np.random.default_rng(1)
    work = {"gr_active": 1.0, "launches": 5e3}
    prompt = Phase(0.08, {**work, "sm_active": 0.9, "tensor_active": 0.6, "dram_read_bytes": 1e12})
    token = Phase(0.016, {**work, "sm_active": 0.7, "dram_read_bytes": 3.6e12})
    between = Phase(0.004, {"gr_active": 0.4, "sm_active": 0.2, "launches": 5e3})
    served: list[Phase] = []
    while sum(p.seconds for p in served) < 95:
        tokens = int(rng.integers(20, 60))
        served += [prompt, *(token, between) * tokens, Phase(0.05 + 1.5 * float(rng.exponential()))]
    seen = observe(served, seconds=90.0, every_s=8.0, host={"host_main_cpu": 0.3}, zoom=False, noise=0.02)

    assert "periodic_stall" not in shares(seen)


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

    assert e.idle.late.of_idle > 0.9
    assert e.idle.late.seen
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
    assert e.idle.late.of_idle == 0.0


def test_nothing_is_late_where_nothing_is_idle_or_nothing_was_sampled() -> None:
    assert late_launches(Samples.empty(), roofs_of(H200, Samples.empty())).of_idle == 0.0
    assert collect(observe((Phase(0.01, MATRIX),), zoom=False)).idle.late.of_idle == 0.0


DOUBLE = {"gr_active": 1.0, "sm_active": 0.99, "fp64_active": 0.27, "fma_active": 0.06, "launches": 150.0}


def test_a_special_function_in_double_precision_is_named_and_not_called_latency() -> None:
    e = collect(observe((Phase(0.01, DOUBLE),)))
    found = fp64_path(e)

    assert found is not None
    assert found.share > 0.95
    assert found.gain is not None
    assert found.gain.low > 1.2
    assert latency_bound(e) is None


@pytest.mark.parametrize(("pipe", "told"), [(0.27, True), (0.10, False)])
def test_double_precision_that_no_burst_saw_is_told_by_the_samples_that_have_it(
    pipe: float, told: bool
) -> None:
    """GPM, which alone may have that pipe, is silent while bursts are taken."""
    seen = observe((Phase(0.01, {**DOUBLE, "fp64_active": pipe}),))
    rest = {name: column for name, column in seen.zoom.columns.items() if name != "fp64_active"}
    e = collect(replace(seen, zoom=Samples(seen.zoom.start_ns, seen.zoom.end_ns, rest)))
    found = fp64_path(e)

    assert np.isnan(e.rates.fp64).all()
    assert (found is not None) == told
    assert found is None or found.share > 0.95


def test_of_samples_without_that_pipe_nothing_is_known_either_way() -> None:
    """As where half of GPM's rows were lost: what they would have said is no sign of float32."""
    seen = observe((Phase(0.01, DOUBLE),))

    def half(table: Samples) -> Samples:
        pipe = table.column("fp64_active").copy()
        pipe[::2] = np.nan
        return table.with_columns({"fp64_active": pipe})

    rest = {name: column for name, column in seen.zoom.columns.items() if name != "fp64_active"}
    zoom = Samples(seen.zoom.start_ns, seen.zoom.end_ns, rest)
    found = fp64_path(collect(replace(seen, pm=half(seen.pm), gpm=half(seen.gpm), zoom=zoom)))

    assert found is not None
    assert found.share > 0.95


SINGLE = {"gr_active": 1.0, "sm_active": 0.93, "fma_active": 0.53, "tensor_active": 0.0, "launches": 150.0}
NEITHER = {"gr_active": 1.0, "sm_active": 0.93, "fma_active": 0.1, "tensor_active": 0.0, "launches": 150.0}


@pytest.mark.parametrize(("others_s", "told"), [(0.0, False), (0.003, False), (0.006, True)])
def test_slow_products_in_float32_are_not_called_latency_a_second_time(others_s: float, told: bool) -> None:
    """As 70 % of an inference was, once by each name; what else waits is told from a quarter on."""
    e = collect(observe((Phase(0.012, SINGLE), *([Phase(others_s, NEITHER)] if others_s else []))))

    assert fp32_path(e) is not None
    assert e.share("latency") > 0.95
    assert (latency_bound(e) is not None) == told


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


def waves(full_s: float, tail_s: float, *, sm: float = 0.6) -> Observation:
    """Kernels with all SMs at work for *full_s*, and with a part of them for *tail_s* after it."""
    busy = {"gr_active": 1.0, "sm_active": 1.0, "tensor_active": 0.7, "launches": 5000.0}
    return observe((Phase(full_s, busy), Phase(tail_s, {**busy, "sm_active": sm})))


def test_the_last_wave_of_each_kernel_is_lost_sm_time() -> None:
    found = wave_tail(collect(waves(100e-6, 110e-6)))

    assert found is not None
    assert found.share == pytest.approx(0.4 / 2, abs=0.04)
    assert found.severity == "watch"
    assert found.remedies


def test_a_short_last_wave_is_only_worth_knowing() -> None:
    found = wave_tail(collect(waves(160e-6, 40e-6)))

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


def test_a_tail_of_few_sms_is_a_small_grid_and_not_told_twice() -> None:
    assert wave_tail(collect(waves(100e-6, 50e-6, sm=0.3))) is None


def test_bursts_that_saw_other_work_say_nothing_of_tails() -> None:
    seen, other = waves(0.01, 0.0), waves(100e-6, 110e-6)
    assert wave_tail(collect(replace(seen, zoom=other.zoom))) is None


# --- the idle time has one owner each --------------------------------------------------------

WAITS = {"queue_empty": 0.6, "queue_semaphore": 0.4}


def shares(seen: Observation) -> dict[str, float]:
    return {f.rule: f.share for f in run_rules(collect(seen))}


def test_loaders_that_may_rest_in_stalls_do_not_claim_their_time() -> None:
    loaders = {"host_main_cpu": 0.2, "host_workers": 4.0, "host_worker_cpu": 0.6}
    found = shares(observe((*STEP * 40, Phase(0.4, NOTHING)), host=loaders, zoom=False))

    assert found["periodic_stall"] == pytest.approx(0.27, abs=0.04)
    assert found.get("input_starved", 0.0) < 0.12


def test_work_that_waits_in_the_queue_is_no_waiting_for_data() -> None:
    loaders = {"host_main_cpu": 0.2, "host_workers": 4.0, "host_worker_cpu": 1.0}
    found = shares(observe((Phase(0.02, MATRIX), Phase(0.02, WAITS)), host=loaders, zoom=False))

    assert found["queue_wait"] == pytest.approx(0.5, abs=0.03)
    assert "input_starved" not in found


def test_a_stall_in_which_the_queue_waits_is_told_once_and_the_usual_gap_beside_it() -> None:
    step = (Phase(0.020, MATRIX), Phase(0.005, UPDATE), Phase(0.010, NOTHING))
    found = shares(observe((*step * 40, Phase(0.8, WAITS)), host={"host_main_cpu": 0.9}, zoom=False))
    stall, gap = 0.8 / (40 * 0.035 + 0.8), 0.4 / (40 * 0.035 + 0.8)

    assert found["periodic_stall"] == pytest.approx(stall, abs=0.06)
    assert found.get("queue_wait", 0.0) < 0.05
    assert found["host_starved"] == pytest.approx(gap, abs=0.06)


def test_stalls_that_are_copies_leave_the_usual_gap_to_its_own_cause() -> None:
    copies = {"ce_active": 0.24, "pcie_rx_bytes": 7e9}
    step = (Phase(0.020, MATRIX), Phase(0.005, UPDATE), Phase(0.010, NOTHING))
    found = shares(observe((*step * 20, Phase(0.4, copies)), host={"host_main_cpu": 0.9}, zoom=False))

    assert found.get("periodic_stall", 0.0) < 0.05
    assert found["host_starved"] == pytest.approx(0.18, abs=0.05)


def test_what_is_left_beside_late_launches_has_its_own_finding() -> None:
    step = (Phase(0.02, MATRIX), *ONE_BY_ONE, Phase(0.02, NOTHING))
    found = shares(observe(step, host={"host_main_cpu": 0.9}, zoom=False))

    assert found["launch_bound"] == pytest.approx(0.016 / 0.06, abs=0.03)
    assert found["host_starved"] == pytest.approx(0.02 / 0.06, abs=0.04)


def test_copies_do_not_make_late_launches_smaller() -> None:
    copies = {"ce_active": 1.0, "pcie_rx_bytes": 5e10}
    step = (Phase(0.02, MATRIX), *ONE_BY_ONE, Phase(0.02, copies))
    e = collect(observe(step, host={"host_main_cpu": 0.9}, zoom=False))

    assert e.idle.late_idle == pytest.approx(0.016 / 0.06, abs=0.03)


def test_without_the_queue_nobody_claims_to_have_looked_into_it() -> None:
    blind = {k: v for k, v in TINY.items() if not k.startswith("queue")}
    busy = {k: v for k, v in MATRIX.items() if not k.startswith("queue")}
    seen = observe(
        (Phase(0.02, busy), *(Phase(4e-6, blind), Phase(16e-6)) * 1000),
        host={"host_main_cpu": 0.7},
        zoom=False,
    )
    found = launch_bound(collect(seen))

    assert found is not None
    assert found.confidence <= 0.7
    assert "none waits in the queue" not in found.because[0]


def test_a_higher_clock_gains_nothing_where_memory_sets_the_pace() -> None:
    stream = {
        "gr_active": 1.0, "sm_active": 0.98, "dram_read_bytes": 2.1e12, "dram_write_bytes": 2.1e12,
        "launches": 700.0, "gpc_clock": 1.2e9,
    }  # fmt: skip
    hot = {"capped_thermal": 1.0, "temperature": 92.0, "sm_clock": 1.2e9}
    thermal = next(
        f for f in run_rules(collect(observe((Phase(0.01, stream),), board=hot))) if f.rule == "thermal"
    )

    assert thermal.gain is not None
    assert thermal.gain.high < 1.1
