"""Where each rule stays silent, and which remedies it may offer."""

from __future__ import annotations

import dataclasses
import re

import pytest

from perfzero.diagnose.evidence import collect
from perfzero.diagnose.judge import judge
from perfzero.diagnose.remedies import OFFERS
from perfzero.diagnose.rules import RULES, compute, copy, idle, link, memory, power, ranked
from perfzero.diagnose.verdict import Finding, Gain, TimeClass
from perfzero.sources.synthetic import H200, Phase, observe
from perfzero.text import LIKELY
from perfzero.values import Samples


def remedies(diagnosis) -> str:
    return " ".join(r.text for f in diagnosis.findings for r in f.remedies)


def test_loaders_at_work_do_not_matter_while_the_gpu_is_busy(program):
    busy = program("fp32_gemm", host={"host_workers": 8.0, "host_worker_cpu": 1.0, "host_main_cpu": 0.1})

    assert idle.input_starved(collect(busy)) is None


def test_a_main_thread_that_never_sleeps_does_not_wait_for_data(program):
    e = collect(program("input_starved_resnet50", host={"host_main_cpu": 1.0}))

    assert idle.input_starved(e) is None
    found = idle.host_starved(e)
    assert found is not None
    assert any("it computes, loads data itself, or spins" in line for line in found.because)


def test_a_main_thread_may_spin_while_the_gpu_is_busy(program):
    """Active 40 %: a thread that spins all that time and sleeps otherwise uses 40 % of a core."""
    assert idle.input_starved(collect(program("input_starved_resnet50"))) is not None


def test_an_idle_gpu_whose_host_is_unseen_gets_no_sub_cause(program):
    hidden = dataclasses.replace(program("input_starved_resnet50"), host=Samples.empty())

    e = collect(hidden)

    assert idle.input_starved(e) is None
    found = idle.host_starved(e)
    assert found is not None
    assert any("unknown" in line for line in found.because)


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({"host_throttled": 0.3}, "CPU quota"),
        ({"host_runqueue_wait": 0.4}, "waits for a free core"),
        ({}, "waits for something outside"),
    ],
)
def test_why_the_host_is_late_is_told_as_far_as_it_was_seen(program, host, words):
    found = idle.host_starved(collect(program("sleeping", host=host)))

    assert found is not None
    assert any(words in line for line in found.because)


@pytest.mark.parametrize("host", [{"host_io_wait": 0.4}, {"host_disk_read_bytes": 2e8}])
def test_waiting_for_a_disk_is_waiting_for_data(program, host):
    found = idle.input_starved(collect(program("sleeping", host=host)))

    assert found is not None
    assert any("disk" in line for line in found.because)


def test_tiny_kernels_back_to_back_are_not_launch_bound(program):
    assert idle.launch_bound(collect(program("tiny_kernels_graph"))) is None


def test_rare_tiny_kernels_are_not_launch_bound():
    """A kernel of 4 µs every 40 ms: the host does something else."""
    rare = observe(
        [Phase(0.004, {"gr_active": 1.0, "launches": 250e3}), Phase(0.040)], host={"host_main_cpu": 1.0}
    )

    assert idle.launch_bound(collect(rare)) is None


def test_long_kernels_with_short_gaps_are_not_launch_bound(program):
    e = collect(program("synchronising"))

    assert idle.launch_bound(e) is None
    found = idle.sync_bound(e)
    assert found is not None
    assert found.confidence <= 0.6


def test_pinned_copies_are_not_called_pageable(program):
    assert copy.pageable_copies(collect(program("pinned_copies"))) is None


def test_short_pinned_copies_within_a_sample_are_not_called_pageable():
    """Each millisecond copies at full rate for 0.2 ms: slow on average, fast while it lasts."""
    brief = observe(
        [Phase(2e-4, {"pcie_rx_bytes": 5.7e10, "ce_active": 1.0}), Phase(8e-4, {"gr_active": 0.2})]
    )

    assert copy.pageable_copies(collect(brief)) is None


def test_an_engine_that_never_waits_on_a_slow_link_is_not_called_pageable():
    """A tenth of the link's rate, but the engine moves data all the time: the link is the cause."""
    slow = observe(
        [Phase(0.040, {"pcie_rx_bytes": 5.7e9, "ce_active": 1.0}), Phase(0.002, {"gr_active": 0.9})]
    )

    assert copy.pageable_copies(collect(slow)) is None


def test_averages_cannot_tell_a_slow_copy_from_a_short_one(program):
    assert copy.pageable_copies(collect(program("pageable_copies", tier="gpm"))) is None


def test_a_full_link_counts_even_while_kernels_run():
    offloaded = observe(
        [Phase(0.01, {"gr_active": 1.0, "sm_active": 0.9, "pcie_rx_bytes": 5.2e10, "dram_read_bytes": 1e11})]
    )

    found = judge(offloaded).verdict

    assert found is not None
    assert found.rule == "transfer_bound"


def test_a_little_memory_bound_time_beside_tensor_work_asks_for_nothing(program):
    found = memory.memory_bound(collect(program("transformer_healthy")))

    assert found is not None
    assert found.severity == "info"


def test_long_normalisations_beside_longer_tensor_work_ask_for_nothing():
    """30 % at the DRAM roof would be worth a look, were the tensor cores not the limit for 70 %."""
    mixed = observe(
        [
            Phase(0.07, {"gr_active": 1.0, "sm_active": 0.95, "tensor_active": 0.9}),
            Phase(0.03, {"gr_active": 1.0, "sm_active": 0.95, "dram_read_bytes": 4e12}),
        ]
    )

    found = memory.memory_bound(collect(mixed))

    assert found is not None
    assert found.share == pytest.approx(0.3, abs=0.01)
    assert found.severity == "info"


@pytest.mark.parametrize(
    ("product_s", "simple_s", "tensor", "told"),
    [
        (0.045, 0.030, 0.9, {"well_used"}),
        (0.045, 0.030, 1.0, {"well_used"}),
        (0.035, 0.040, 0.9, {"tensor_starved"}),
        (0.035, 0.040, 0.0, {"latency_bound"}),
    ],
)
def test_short_kernels_beside_longer_products_ask_for_nothing(product_s, simple_s, tensor, told):
    """Every network has some at no roof; a healthy vision transformer on an H200 for 19 % of the time."""
    mixed = observe(
        [
            Phase(product_s, {"gr_active": 1.0, "sm_active": 0.95, "tensor_active": tensor}),
            Phase(simple_s, {"gr_active": 1.0, "sm_active": 0.95}),
            Phase(0.025, {"gr_active": 1.0, "sm_active": 0.95, "dram_read_bytes": 4e12}),
        ]
    )
    e = collect(mixed)
    found = (rule(e) for rule in (compute.well_used, compute.tensor_starved, compute.latency_bound))

    assert {finding.rule for finding in found if finding is not None} == told


def test_streaming_is_noted_as_poor_reuse_and_good_reuse_is_not(program):
    streaming = memory.memory_bound(collect(program("elementwise_chain")))
    reused = memory.memory_bound(
        collect(
            observe(
                [
                    Phase(
                        0.01,
                        {
                            "gr_active": 1.0, "sm_active": 0.95, "dram_read_bytes": 4e12,
                            "l2_sectors": 8e12 / 32, "l2_hit_sectors": 4.5e12 / 32,
                        },
                    )
                ]
            )
        )
    )  # fmt: skip

    assert streaming is not None
    assert reused is not None
    assert any("little is used twice" in line for line in streaming.because)
    assert not any("little is used twice" in line for line in reused.because)


def test_more_writes_than_reads_are_noted():
    writing = observe(
        [
            Phase(
                0.01, {"gr_active": 1.0, "sm_active": 0.95, "dram_read_bytes": 1e12, "dram_write_bytes": 3e12}
            )
        ]
    )

    found = memory.memory_bound(collect(writing))

    assert found is not None
    assert any("3.0 times as many writes" in line for line in found.because)
    assert any("optimizer" in remedy.text for remedy in found.remedies)


def test_layer_norm_is_not_told_to_use_tensor_cores(program):
    diagnosis = judge(program("layer_norm"))

    assert "fp32_path" not in {f.rule for f in diagnosis.findings}
    assert diagnosis.steps[3].answer == "not needed"


def test_a_gpu_without_tensor_cores_is_not_told_to_use_them(program):
    pascal = dataclasses.replace(H200, name="Tesla P100", chip="GP100", compute_capability=(6, 0))

    assert compute.fp32_path(collect(program("fp32_gemm", gpu=pascal))) is None


def test_volta_is_offered_fp16_and_not_tf32(program):
    volta = dataclasses.replace(H200, name="Tesla V100", chip="GV100", compute_capability=(7, 0))

    said = remedies(judge(program("fp32_gemm", gpu=volta)))

    assert "float16" in said
    assert "TF32" not in said
    assert "bfloat16" not in said


def test_a_larger_batch_needs_memory_to_spare(program):
    free = judge(program("tiny_kernels_graph", board={"memory_used": 10e9}))
    full = judge(program("tiny_kernels_graph", board={"memory_used": 140e9}))
    unknown = judge(dataclasses.replace(program("tiny_kernels_graph"), board=Samples.empty()))

    assert "batch size" in remedies(free)
    assert "batch size" not in remedies(full)
    assert "batch size" not in remedies(unknown)


def test_more_loaders_are_not_offered_to_a_machine_without_cores(program):
    free = judge(program("input_starved_resnet50"))
    full = judge(program("input_starved_resnet50", host={"host_cpu_busy": 0.99}))

    assert "num_workers" in remedies(free)
    assert "num_workers" not in remedies(full)


def test_a_capped_gpu_that_hardly_works_is_told_so():
    weak = observe(
        [Phase(0.01, {"gr_active": 1.0, "sm_active": 0.9, "gpc_clock": 1.2e9})], board={"capped_power": 0.9}
    )

    found = power.power_capped(collect(weak))

    assert found is not None
    assert found.severity == "watch"


PRODUCTS = {"gr_active": 1.0, "sm_active": 0.99, "tensor_active": 0.9, "gpc_clock": 1.4e9}


def test_products_between_pauses_at_the_limit_draw_their_power_for_good_reason():
    paused = observe([Phase(0.01, PRODUCTS), Phase(0.02, {"gpc_clock": 1.98e9})], board={"capped_power": 0.9})

    found = power.power_capped(collect(paused))

    assert found is not None
    assert found.severity == "info"
    assert found.share == pytest.approx((1 - 1.4 / 1.98) / 3, rel=0.02)
    assert found.gain is not None
    assert found.gain.high == pytest.approx(1 / (1 - found.share), rel=0.02)


@pytest.mark.parametrize(("pause_s", "severity"), [(0.01, "watch"), (0.09, "info")])
def test_a_low_clock_of_work_at_no_roof_counts_for_the_time_that_there_is_work(pause_s, severity):
    work = Phase(0.01, {"gr_active": 1.0, "sm_active": 0.9, "gpc_clock": 1.4e9})
    paused = observe([work, Phase(pause_s, {"gpc_clock": 1.98e9})], board={"capped_power": 0.9})

    found = power.power_capped(collect(paused))

    assert found is not None
    assert found.severity == severity


def test_an_uncapped_board_has_no_power_finding(program):
    assert power.power_capped(collect(program("fp32_gemm"))) is None
    assert power.thermal(collect(program("fp32_gemm"))) is None


def test_heat_is_reported_beside_the_verdict(program):
    diagnosis = judge(program("fp32_gemm", board={"capped_thermal": 0.5, "temperature": 91.0}))

    assert "thermal" in {f.rule for f in diagnosis.findings if f.severity == "watch"}
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.rule == "fp32_path"


def test_a_slow_link_is_reported_by_its_highest_speed(program):
    slow = link.link_degraded(collect(program("pinned_copies", board={"pcie_generation": 3.0})))

    assert slow is not None
    assert "generation 3 x16 instead of 5 x16" in slow.title
    assert link.link_degraded(collect(program("pinned_copies"))) is None


def test_context_switches_mean_a_shared_gpu(program):
    shared = observe([Phase(0.01, {"gr_active": 0.9, "sm_active": 0.8, "ctxsw": 0.08})], other_pids=(7,))

    found = link.gpu_shared(collect(shared))

    assert found is not None
    assert found.severity == "watch"
    assert link.gpu_shared(collect(program("fp32_gemm"))) is None


def test_another_context_without_switches_is_only_worth_knowing(program):
    found = link.gpu_shared(collect(program("fp32_gemm", other_pids=(7,))))

    assert found is not None
    assert found.severity == "info"


def test_every_remedy_belongs_to_a_rule_and_says_how_to_verify():
    names = {rule.__name__ for rule in RULES}

    for offer in OFFERS:
        assert offer.rule in names
        assert offer.remedy.verify
        assert offer.remedy.text.endswith(".")


def test_every_rule_that_asks_to_act_has_a_remedy():
    offered = {offer.rule for offer in OFFERS}

    assert {rule.__name__ for rule in RULES} - offered == {"well_used"}


@pytest.mark.parametrize(
    "false_advice",
    [
        r"contiguous\(",
        r"cudnn\.enabled",
        r"cudnn\.benchmark",
        r"detach\(\)",
        "max-autotune",
        "TLB",
        "nvidia-smi -",
    ],
)
def test_no_remedy_is_one_that_does_not_help(false_advice):
    assert not [o for o in OFFERS if re.search(false_advice, f"{o.remedy.text} {o.remedy.verify}")]


def test_a_rule_is_named_as_its_function(program):
    for name in ("tiny_kernels", "pageable_copies", "bf16_gemm_capped", "collectives", "double_precision"):
        e = collect(program(name))
        for rule in RULES:
            found = rule(e)
            assert found is None or found.rule == rule.__name__


def test_plain_nvml_calls_a_board_at_its_limit_worth_knowing_and_no_more(program):
    """It does not show what the GPU does, so not whether the lost clock is missed either."""
    board = {"capped_power": 1.0, "power": 695.0, "sm_clock": 1.3e9, "smi_utilization": 1.0}
    found = power.power_capped(collect(program("bf16_gemm_capped", tier="nvml", board=board)))

    assert found is not None
    assert found.severity == "info"
    assert found.remedies == ()


@pytest.mark.parametrize(
    ("confidence", "eased", "first"),
    [
        (LIKELY, "idle", "sync_bound"),
        (LIKELY - 0.01, "idle", "launch_bound"),
        (LIKELY - 0.01, "fma", "sync_bound"),
    ],
    ids=["likely too", "unsure", "unsure, of other time"],
)
def test_what_is_unsure_stands_behind_what_is_likely_for_the_same_time_though_it_should_save_more(
    confidence: float, eased: TimeClass, first: str
) -> None:
    more = Finding("sync_bound", "", "bad", 0.5, confidence, (), Gain(1.5, 1.9, ""), eased=("idle",))
    less = Finding("launch_bound", "", "bad", 0.3, LIKELY, (), Gain(1.2, 1.4, ""), eased=(eased,))

    assert ranked([less, more], idle=0.8)[0].rule == first
