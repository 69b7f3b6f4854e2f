"""The four questions are answered as the program was made."""

from __future__ import annotations

import pytest

from perfzero.diagnose.judge import judge
from perfzero.sources.synthetic import Phase, observe

PAGEABLE = {"pcie_rx_bytes": 7.1e9, "ce_active": 0.24}


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("input_starved_resnet50", ("yes", "memory", "DRAM, L2 misses", "not needed")),
        ("tiny_kernels", ("yes", "small grids", "none", "not needed")),
        ("tiny_kernels_graph", ("small load", "small grids", "none", "not needed")),
        ("fp32_gemm", ("no", "FP32 pipe", "none", "unused")),
        ("bf16_gemm_capped", ("no", "tensor", "none", "fine")),
        ("elementwise_chain", ("no", "memory", "DRAM, L2 misses", "not needed")),
        ("pageable_copies", ("yes", "tensor", "PCIe", "fine")),
        ("resnet50_nchw", ("no", "latency", "none", "starved")),
        ("collectives", ("no", "tensor", "NVLink", "fine")),
    ],
)
def test_the_four_questions_are_answered(program, name, answers):
    steps = judge(program(name)).steps

    assert tuple(step.number for step in steps) == (1, 2, 3, 4)
    assert tuple(step.answer.removeprefix("mostly ") for step in steps) == answers


def test_low_sm_activity_alone_is_not_idleness(program):
    """Both read an SM activity of a few percent; only one of them waits."""
    waits, works = judge(program("tiny_kernels")).steps[0], judge(program("tiny_kernels_graph")).steps[0]

    assert (waits.status, works.status) == ("bad", "watch")


def test_each_answer_carries_its_evidence_with_threshold_and_margin(program):
    steps = judge(program("elementwise_chain")).steps

    for step in steps[:3]:
        held = [fact for fact in step.facts if fact.threshold is not None]
        assert held
        assert held[0].margin is not None


def test_double_precision_is_named_by_its_own_pipe(program):
    assert judge(program("double_precision")).steps[1].answer == "FP64 pipe"


@pytest.mark.parametrize(
    ("name", "decided"),
    [
        ("elementwise_chain", ["gr_active", "nearest_roof_share", "time_memory"]),
        ("tiny_kernels_graph", ["sm_active", "nearest_roof_share", "time_memory"]),
        ("pinned_copies", ["gr_active", "nearest_roof_share", "time_copy"]),
        ("collectives", ["gr_active", "nearest_roof_share", "time_communication"]),
    ],
)
def test_the_first_fact_with_a_threshold_is_the_one_that_decided(program, name, decided):
    steps = judge(program(name)).steps[:3]

    assert [next(f.name for f in s.facts if f.threshold is not None) for s in steps] == decided


def test_a_gpu_that_is_hardly_active_is_bound_by_nothing(program):
    """Copies keep it from working; what its few kernels do is no answer to anything."""
    copying = observe([Phase(0.01, {**PAGEABLE, "gr_active": 0.001, "fma_active": 0.0005})])
    steps = judge(copying).steps

    assert [s.answer for s in steps] == ["yes", "nothing", "PCIe", "not needed"]
    assert "active only 0.1 % of the time" in steps[1].text


def test_without_counters_three_of_four_are_unknown(program):
    steps = judge(program("fp32_gemm", tier="nvml", board={"smi_utilization": 0.3})).steps

    assert [step.answer for step in steps] == ["yes", "unknown", "unknown", "unknown"]


def test_what_gpm_alone_tells_of_the_fp32_pipe_is_called_arithmetic(program):
    """It leaves out what else the pipe does, as the integers of addresses."""
    whole, part = (judge(program("fp32_gemm", tier=tier)).steps[3].text for tier in ("pm", "gpm"))

    assert ", the FP32 pipe " in whole
    assert ", FP32 arithmetic " in part
    assert "pipe" not in part
