"""The four questions are answered as the program was made."""

from __future__ import annotations

import pytest

from perfzero.diagnose.judge import judge


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("input_starved_resnet50", ("yes", "memory", "DRAM, L2 misses", "not needed")),
        ("tiny_kernels", ("yes", "small grids", "none", "not needed")),
        ("tiny_kernels_graph", ("small load", "small grids", "none", "not needed")),
        ("fp32_gemm", ("no", "FP32/FP64", "none", "unused")),
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


def test_without_counters_three_of_four_are_unknown(program):
    steps = judge(program("fp32_gemm", tier="nvml", board={"smi_utilization": 0.3})).steps

    assert [step.answer for step in steps] == ["yes", "unknown", "unknown", "unknown"]
