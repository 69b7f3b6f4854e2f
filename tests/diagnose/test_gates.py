"""Broken or insufficient data yields no verdict and says why; good data passes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from perfzero.diagnose.evidence import collect
from perfzero.diagnose.judge import judge
from perfzero.diagnose.split import fma_pipe
from perfzero.sources.synthetic import START_NS, Phase, observe
from perfzero.values import Observation, Samples, Window


def with_column(observation: Observation, **columns) -> Observation:
    """The observation with whole PM columns replaced by a constant."""
    full = {name: np.full(len(observation.pm), float(v)) for name, v in columns.items()}
    return dataclasses.replace(observation, pm=observation.pm.with_columns(full), zoom=Samples.empty())


def refused(observation: Observation) -> str:
    diagnosis = judge(observation)
    assert diagnosis.verdict is None
    assert diagnosis.findings == ()
    assert diagnosis.shares == {}
    assert diagnosis.no_verdict is not None
    assert diagnosis.headline.startswith("No verdict.")
    return diagnosis.no_verdict


def test_all_zeros_while_nvidia_smi_says_half_is_dead_not_idle(program):
    dead = observe([Phase(1.0, {"gpc_clock": 0.0})], board={"smi_utilization": 0.6})

    assert "dead" in refused(dead)
    assert "Xid" in refused(dead)


def test_a_dead_activity_counter_among_live_ones_is_dead_not_idle(program):
    """Launches and memory traffic go on: to call this GPU idle would be wrong."""
    dead = with_column(program("elementwise_chain", board={"smi_utilization": 1.0}), gr_active=0.0)

    assert "activity reads zero" in refused(dead)


def test_all_zeros_while_nvidia_smi_agrees_is_idle():
    assert "next to no work" in refused(observe([Phase(1.0)], board={"smi_utilization": 0.0}))


def test_a_percentage_above_105_is_refused(program):
    assert "sm_active is impossible" in refused(with_column(program("fp32_gemm"), sm_active=1.3))


@pytest.mark.parametrize(
    ("name", "one_in", "doubted"), [("fp64_active", 50, True), ("sm_active", 500, False)]
)
def test_impossible_values_are_a_doubt_where_they_are_more_than_a_hundredth(program, name, one_in, doubted):
    """Each time its buffer is emptied, four times a second, an H200 gives a copy engine some 30,000 %."""
    observation = program("fp32_gemm")
    column = observation.pm.column(name).copy()
    column[3::one_in] = 300.0

    diagnosis = judge(dataclasses.replace(observation, pm=observation.pm.with_columns({name: column})))

    assert diagnosis.verdict is not None
    assert any(f"impossible values of {name}" in doubt for doubt in diagnosis.doubts) is doubted


def test_more_bytes_than_the_l2_can_deliver_are_refused(program):
    """The asking document's own sample: 8.2 sectors per byte at 1120 GB/s, 294 TB/s from the L2."""
    broken = with_column(
        program("elementwise_chain"), dram_read_bytes=1.12e9, l2_sectors=8.2 * 1.12e9, l2_hit_sectors=0.0
    )

    assert "294 TB/s" in refused(broken) or "290 TB/s" in refused(broken)


def test_what_the_l2_can_deliver_passes(program):
    fine = with_column(program("elementwise_chain"), l2_sectors=5e12 / 32 / 1000, l2_hit_sectors=0.0)

    assert judge(fine).verdict is not None


def test_dram_busier_than_the_engines_that_use_it_is_refused():
    """Busy 22 % of the time with DRAM at 90 % of its peak: impossible on average."""
    broken = observe([Phase(0.01, {"gr_active": 0.22, "sm_active": 0.2, "dram_read_bytes": 4.4e12})])

    assert "no engine could cause that" in refused(broken)


def test_dram_kept_busy_by_the_copy_engine_is_no_contradiction():
    copies = observe(
        [Phase(0.01, {"gr_active": 0.1, "sm_active": 0.1, "dram_read_bytes": 1.5e12, "ce_active": 0.9})]
    )

    assert judge(copies).verdict is not None


def test_most_samples_lost_is_refused_and_some_is_a_doubt(program):
    observation = program("fp32_gemm")

    def losing(count: int) -> Observation:
        first, *rest = observation.windows
        return dataclasses.replace(observation, windows=(dataclasses.replace(first, lost=count), *rest))

    assert "were lost" in refused(losing(20_000))
    some = judge(losing(400))
    assert some.verdict is not None
    assert any("were lost" in doubt for doubt in some.doubts)
    assert some.verdict.confidence < judge(observation).verdict.confidence  # type: ignore[union-attr]


def test_broken_time_stamps_are_refused(program):
    observation = program("fp32_gemm")
    pm = observation.pm
    start = pm.start_ns.copy()
    start[::3] = 0

    broken = dataclasses.replace(observation, pm=Samples(start, pm.end_ns, pm.columns))

    assert "time stamps are broken" in refused(broken)


def test_one_stale_sample_per_window_is_expected(program):
    observation = program("fp32_gemm")
    pm = observation.pm
    start = pm.start_ns.copy()
    start[::1000] = 0

    diagnosis = judge(dataclasses.replace(observation, pm=Samples(start, pm.end_ns, pm.columns)))

    assert diagnosis.verdict is not None


def test_a_handful_of_samples_is_too_few():
    observation = observe([Phase(0.01, {"gr_active": 1.0, "sm_active": 0.9})], seconds=1.0)
    few = dataclasses.replace(
        observation,
        pm=observation.pm.between(START_NS, START_NS + 20_000_000),
        gpm=Samples.empty(),
        board=Samples.empty(),
        zoom=Samples.empty(),
        windows=(Window(0, "explicit", START_NS, START_NS + 20_000_000, 10**6, 20, 0),),
    )

    assert judge(few).verdict is None


RARELY = {"gr_active": 0.02, "sm_active": 0.01}


def test_a_gpu_that_is_rarely_used_is_idle_if_it_is_used_all_the_time(program):
    verdict = judge(observe([Phase(0.01, RARELY)])).verdict

    assert verdict is not None
    assert verdict.rule == "host_starved"


def test_a_gpu_that_is_rarely_used_and_again_and_again_to_the_end_is_idle(program):
    """As by a loader whose workers deliver together: the worst starved program is one that works on."""
    verdict = judge(observe([Phase(0.9, RARELY), Phase(2.1)])).verdict

    assert verdict is not None
    assert verdict.rule == "host_starved"


@pytest.mark.parametrize("bursts", [1, 2, 3])
def test_a_gpu_that_is_rarely_used_and_a_few_times_only_has_next_to_no_work(bursts):
    rest = 40.0 / bursts - 0.9

    assert "next to no work" in refused(observe([Phase(0.9, RARELY), Phase(rest)], seconds=40.0))


def test_without_averages_a_gpu_that_is_rarely_used_has_next_to_no_work():
    """Windows have holes, in which it may have been used for all that is known, or not at all."""
    seen = observe([Phase(0.9, RARELY), Phase(2.1)])

    assert "next to no work" in refused(dataclasses.replace(seen, gpm=Samples.empty()))


def test_pageable_copies_at_3_percent_gr_are_work(program):
    assert judge(program("pageable_copies")).verdict is not None


def test_other_programs_on_the_gpu_are_a_doubt(program):
    diagnosis = judge(program("fp32_gemm", other_pids=(4242,)))

    assert diagnosis.verdict is not None
    assert any("4242" in doubt for doubt in diagnosis.doubts)


def test_pm_and_gpm_that_disagree_are_a_doubt(program):
    observation = program("fp32_gemm")
    half = observation.gpm.with_columns({"gr_active": observation.gpm.column("gr_active") / 2})

    diagnosis = judge(dataclasses.replace(observation, gpm=half))

    assert any("disagree" in doubt for doubt in diagnosis.doubts)
    assert not any("disagree" in doubt for doubt in judge(observation).doubts)


@pytest.mark.parametrize(("smi", "doubted"), [(0.5, True), (0.95, False)])
def test_windows_that_are_busier_than_nvidia_smi_has_seen_are_a_doubt_without_averages(program, smi, doubted):
    seen = program("fp32_gemm", board={"smi_utilization": smi})
    alone = dataclasses.replace(seen, gpm=Samples.empty())

    assert any("nvidia-smi saw kernels" in doubt for doubt in judge(alone).doubts) is doubted
    assert not any("nvidia-smi saw kernels" in doubt for doubt in judge(seen).doubts)


@pytest.mark.parametrize("missing", ["tensor_active", "fma_active"])
def test_a_counter_that_was_not_there_is_named(program, missing):
    observation = with_column(program("fp32_gemm"), **{missing: np.nan})
    lacked = (missing, "fp32_active")  # which stands in for the second one
    gpm = observation.gpm.with_columns({n: np.full(len(observation.gpm), np.nan) for n in lacked})

    diagnosis = judge(dataclasses.replace(observation, gpm=gpm))

    assert any(missing in doubt for doubt in diagnosis.doubts)
    assert diagnosis.verdict is None or diagnosis.verdict.rule != "fp32_path"


def test_gr_activity_above_105_percent_is_refused_though_gpm_is_fine(program):
    assert "gr_active is impossible" in refused(with_column(program("fp32_gemm"), gr_active=1.4))


def test_broken_bursts_cost_the_bursts_and_not_the_verdict(program):
    observation = program("fp32_gemm")
    wild = observation.zoom.with_columns({"fma_active": np.full(len(observation.zoom), 2.0)})

    diagnosis = judge(dataclasses.replace(observation, zoom=wild))

    assert diagnosis.verdict is not None
    assert any("impossible values of fma_active (zoom)" in doubt for doubt in diagnosis.doubts)


def test_a_burst_sample_a_little_above_one_is_read_as_one(program):
    """Ten microseconds are few counts."""
    observation = program("bf16_gemm_capped")
    noisy = observation.zoom.with_columns({"sm_active": np.full(len(observation.zoom), 1.1)})

    diagnosis = judge(dataclasses.replace(observation, zoom=noisy))

    assert not any("impossible" in doubt for doubt in diagnosis.doubts)


def kept(table: Samples):
    return ((name, column) for name, column in table.columns.items() if name != "fma_active")


def test_a_counter_without_a_place_in_the_pass_is_borrowed_from_gpm(program):
    observation = program("fp32_gemm")
    without = {
        name: dataclasses.replace(
            table, columns={k: v for k, v in table.columns.items() if k != "fma_active"}
        )
        for name, table in (("pm", observation.pm), ("zoom", observation.zoom))
    }

    diagnosis = judge(dataclasses.replace(observation, **without))

    assert diagnosis.verdict is not None
    assert diagnosis.verdict.rule == "fp32_path"
    assert any("fp32_active from GPM" in doubt for doubt in diagnosis.doubts)
    assert not any("fma_active" in doubt for doubt in diagnosis.doubts)
    assert diagnosis.facts["fp32_active"].value == pytest.approx(0.8, abs=0.01)
    assert diagnosis.facts["fma_active"].status == "unknown"


def test_what_the_fma_pipe_did_is_never_averaged_with_the_fp32_arithmetic_that_gpm_saw(program):
    """Of a ResNet-50 on an H200 the pipe is used 3.4 times as much as FP32 arithmetic does."""
    observation = program("fp32_gemm", zoom=False)
    part = observation.gpm.with_columns({"fp32_active": observation.gpm.column("fp32_active") / 3.4})
    some = dataclasses.replace(observation, pm=lacking_after(observation.pm, 0.3, "fma_active"), gpm=part)

    whole, facts = judge(observation).facts, judge(some).facts

    assert facts["fma_active"].value == pytest.approx(whole["fma_active"].value, rel=0.01)
    assert facts["fp32_active"].value == pytest.approx(whole["fp32_active"].value / 3.4, rel=0.01)
    assert "integer" in facts["fp32_active"].text
    assert "integer" not in judge(dataclasses.replace(some, gpm=Samples.empty())).facts["fp32_active"].text


def lacking_after(table: Samples, share: float, *names: str) -> Samples:
    """*table* as if the pass of later windows had no place for *names*."""
    late = np.arange(len(table)) >= share * len(table)
    return table.with_columns({n: np.where(late, np.nan, table.column(n)) for n in names})


def test_rows_without_a_counter_that_others_have_get_gpms_figure_and_do_not_count_as_unused(program):
    observation = program("fp32_gemm", zoom=False)
    some = dataclasses.replace(observation, pm=lacking_after(observation.pm, 0.3, "fma_active"))

    whole, partly = collect(observation), collect(some)

    assert whole.split is not None
    assert partly.split is not None
    assert partly.split.shares["fma"] == pytest.approx(whole.split.shares["fma"], abs=0.02)
    assert partly.borrowed == ()  # the rows that have it stand for the counter
    assert np.isfinite(partly.rates.fp32).all()
    assert np.isnan(partly.long.column("fma_active")).any()


def test_a_row_that_was_sampled_keeps_its_own_share_whatever_gpm_saw(program):
    observation = program("fp32_gemm", zoom=False)
    wrong = observation.gpm.with_columns({"fp32_active": np.full(len(observation.gpm), 0.123)})
    some = dataclasses.replace(observation, pm=lacking_after(observation.pm, 0.3, "fma_active"), gpm=wrong)

    own, used = (fma_pipe(collect(seen).long) for seen in (observation, some))
    late = np.arange(len(used)) >= 0.5 * len(used)

    assert used[: len(used) // 5] == pytest.approx(own[: len(used) // 5])
    assert used[late] == pytest.approx(0.123, rel=0.1)


def test_a_burst_keeps_its_holes_where_the_windows_have_the_counter(program):
    observation = program("fp32_gemm")
    holed = dataclasses.replace(observation, zoom=lacking_after(observation.zoom, 0.5, "fma_active"))

    assert np.isnan(collect(holed).zoom.column("fma_active")).any()


def test_figures_of_the_l2_come_from_the_rows_that_have_them(program):
    observation = program("elementwise_chain", zoom=False)
    names = ("l2_sectors", "l2_hit_sectors", "l2_hit")
    counted = {n: np.full(len(observation.pm), v) for n, v in zip(names, (1e6, 4e5, 0.4), strict=True)}
    observation = dataclasses.replace(observation, pm=observation.pm.with_columns(counted))
    some = dataclasses.replace(observation, pm=lacking_after(observation.pm, 0.3, *names))

    assert collect(some).l2_hit == pytest.approx(0.4)
    assert collect(some).reuse == pytest.approx(collect(observation).reuse, rel=0.02)


def test_windows_outside_of_the_steady_stretch_leave_the_verdict_to_gpm(program):
    observation = program("fp32_gemm", warm_up=[Phase(1.0)], warm_up_s=9.0, zoom=False, every_s=100.0)

    diagnosis = judge(observation)

    assert diagnosis.tier == "gpm"
    assert diagnosis.verdict is not None
    assert any("GPM stands in" in doubt for doubt in diagnosis.doubts)


def from_gpm_alone(observation: Observation, **levels: float) -> Observation:
    """The observation in which PM sampling had no place for *levels*, and GPM saw these."""
    rows = len(observation.gpm)
    gpm = observation.gpm.with_columns({n: np.full(rows, v) for n, v in levels.items()})
    kept = {n: c for n, c in observation.pm.columns.items() if n not in levels}
    pm = Samples(observation.pm.start_ns, observation.pm.end_ns, kept)
    return dataclasses.replace(observation, pm=pm, gpm=gpm, zoom=Samples.empty())


def test_a_borrowed_counter_is_doubted_where_a_rule_leans_on_it(program):
    diagnosis = judge(from_gpm_alone(program("double_precision"), fp64_active=0.85))

    assert diagnosis.verdict is not None
    assert diagnosis.verdict.rule == "fp64_path"
    assert [d for d in diagnosis.doubts if "fp64_active from GPM" in d]


def test_a_borrowed_counter_that_nothing_hangs_on_is_no_doubt(program):
    diagnosis = judge(from_gpm_alone(program("bf16_gemm_capped"), fp64_active=0.001))

    assert diagnosis.facts["fp64_active"].value == pytest.approx(0.001, rel=0.05)
    assert not [d for d in diagnosis.doubts if "fp64_active" in d]


@pytest.mark.parametrize(("busy_s", "doubted"), [(0.09, True), (0.02, False)])
def test_bursts_that_saw_too_little_are_a_doubt_where_the_busy_time_matters(busy_s, doubted):
    seen = observe([Phase(busy_s, {"gr_active": 1.0, "sm_active": 0.9}), Phase(0.1 - busy_s)])
    few = dataclasses.replace(seen, zoom=seen.zoom.where(np.arange(len(seen.zoom)) < 20))

    assert bool([d for d in judge(few).doubts if "Single kernels" in d]) == doubted
