"""The figures of summary.csv are the known ones, with the status of the right direction."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from perfzero.diagnose.judge import judge
from perfzero.sources.synthetic import Phase, observe
from perfzero.values import Samples

RATIO = "lts__t_sectors_op_read.sum/dram__bytes_read.sum"
ACTIVE = "sm__cycles_active.avg/sm__cycles_elapsed.avg"
TENSOR = "sm__inst_executed_pipe_tensor.sum"

ROWS = (
    "gr_active",
    "sm_active",
    "tensor_active",
    "fma_active",
    "dram_read_bytes_per_s",
    "dram_write_bytes_per_s",
    "dram_roof_share",
    "l2_hit",
    "l2_read_bytes_per_dram_byte",
    "dram_amplification",
    "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
    "nvlink_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
    "launches_per_s",
    "mean_kernel_s",
    "gpc_clock",
    "power",
    "smi_utilization",
    "memory_used",
    "tensor_flop_utilization",
    "energy_per_step",
    "gpu_hours_wasted",
    RATIO,
    ACTIVE,
    TENSOR,
)


@pytest.mark.parametrize("tier", ["pm", "gpm", "nvml"])
def test_every_row_is_there_whatever_was_measured(program, tier):
    facts = judge(program("fp32_gemm", tier=tier)).facts

    assert set(ROWS) <= set(facts)
    for name, fact in facts.items():
        assert name == fact.name
        assert math.isfinite(fact.value) or fact.status == "unknown"
        assert math.isfinite(fact.value) or fact.text


def test_known_figures_come_out(program):
    facts = judge(program("input_starved_resnet50")).facts

    assert pytest.approx(facts["gr_active"].value, abs=0.005) == 0.40
    assert pytest.approx(facts["dram_read_bytes_per_s"].value, rel=0.01) == 0.4 * 2.1e12
    assert pytest.approx(facts["launches_per_s"].value, rel=0.02) == 280
    assert pytest.approx(facts["mean_kernel_s"].value, rel=0.02) == 1 / 700
    assert pytest.approx(facts["gpu_hours_wasted"].value, rel=0.02) == 24 * 0.6
    assert pytest.approx(facts["energy_per_step"].value, rel=0.02) == 400 * 0.1


def test_a_figure_that_misses_its_threshold_says_by_how_much(program):
    fact = judge(program("input_starved_resnet50")).facts["gr_active"]

    assert (fact.status, fact.threshold) == ("bad", "≥ 0.9")
    assert pytest.approx(fact.margin, abs=0.01) == 0.4 / 0.9 - 1


def test_many_sectors_per_dram_byte_are_good():
    """The asking document calls a high ratio bad; it is reuse."""
    reuse = observe(
        [
            Phase(
                0.01, {"gr_active": 1.0, "sm_active": 0.9, "dram_read_bytes": 3.5e12, "l2_sectors": 9e12 / 32}
            )
        ]
    )
    stream = observe(
        [
            Phase(
                0.01,
                {"gr_active": 1.0, "sm_active": 0.9, "dram_read_bytes": 3.5e12, "l2_sectors": 3.5e12 / 32},
            )
        ]
    )

    good, bad = judge(reuse).facts, judge(stream).facts

    assert good[RATIO].value > bad[RATIO].value == pytest.approx(1 / 32)
    assert (good[RATIO].status, bad[RATIO].status) == ("ok", "bad")
    assert pytest.approx(good["l2_read_bytes_per_dram_byte"].value, rel=0.01) == 9 / 3.5
    assert pytest.approx(bad["dram_amplification"].value) == 1.0


def test_a_low_ratio_is_only_informative_while_dram_has_room():
    quiet = observe(
        [Phase(0.01, {"gr_active": 1.0, "sm_active": 0.9, "dram_read_bytes": 1e11, "l2_sectors": 1e11 / 32})]
    )

    assert judge(quiet).facts[RATIO].status == "info"


def test_sm_activity_is_held_against_the_documents_own_threshold(program):
    facts = judge(program("input_starved_resnet50")).facts

    assert (facts[ACTIVE].status, facts[ACTIVE].threshold) == ("watch", "≥ 0.7")


def test_no_tensor_instruction_is_a_fact_and_their_number_is_not(program):
    none, some = judge(program("fp32_gemm")).facts[TENSOR], judge(program("bf16_gemm_capped")).facts[TENSOR]

    assert (none.value, none.status) == (0.0, "bad")
    assert math.isnan(some.value)
    assert "90 %" in some.text


def test_unused_tensor_cores_are_no_fault_of_memory_bound_work(program):
    assert judge(program("elementwise_chain")).facts["tensor_active"].status == "info"


def test_tensor_work_is_counted_at_the_clock_it_ran_at(program):
    """90 % of the cycles at 1.33 of 1.98 GHz."""
    fact = judge(program("bf16_gemm_capped")).facts["tensor_flop_utilization"]

    assert pytest.approx(fact.value, rel=0.001) == 0.90 * 1.33 / 1.98


def test_energy_per_step_needs_a_step(program):
    fact = judge(program("fp32_gemm")).facts["energy_per_step"]

    assert fact.status == "unknown"
    assert "where a step begins" in fact.text


def test_a_missing_hit_counter_is_unknown_not_zero(program):
    observation = program("elementwise_chain")
    nothing = np.full(len(observation.pm), np.nan)
    blind = observation.pm.with_columns({"l2_hit_sectors": nothing, "l2_sectors": nothing})

    facts = judge(dataclasses.replace(observation, pm=blind, zoom=Samples.empty())).facts

    assert facts["l2_hit"].status == "unknown"
    assert facts[RATIO].status == "unknown"
