"""What kernels look like by their counters: written down by hand, and as real ones read on an H200."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from perfzero.diagnose.fingerprints import CERTAINTY, KINDS, RULES, kinds_of, rates_of, rows_of
from perfzero.diagnose.roofs import roofs_of
from perfzero.sources.synthetic import H200
from perfzero.store.kineto import read_trace
from perfzero.store.reader import open_recording
from perfzero.values import Samples

ROOFS = roofs_of(H200, Samples.empty())
LOOK = Path(__file__).parents[1] / "recordings" / "_looks" / "resnet50_fp32"

BUSY = {"gr_active": 1.0, "sm_active": 0.97}
NO_PRODUCT = {**BUSY, "tensor_active": 0.0}
READ = {
    "gemm": {**BUSY, "tensor_active": 0.85, "fma_active": 0.0, "dram_read_bytes": 5e11, "sm_issue": 0.12},
    "attention": {
        **BUSY, "tensor_active": 0.38, "fma_active": 0.13, "dram_read_bytes": 7e11, "sm_issue": 0.37,
    },
    "fp32_gemm": {**NO_PRODUCT, "fma_active": 0.77, "dram_read_bytes": 1e11},
    "fp64": {**NO_PRODUCT, "fp64_active": 0.6, "fma_active": 0.02},
    "memory": {**NO_PRODUCT, "fma_active": 0.02, "dram_read_bytes": 2e12, "dram_write_bytes": 1e12},
    "elementwise": {**NO_PRODUCT, "fma_active": 0.2, "dram_read_bytes": 5e11, "sm_issue": 0.6},
    "small_grids": {"gr_active": 1.0, "sm_active": 0.05, "tensor_active": 0.0},
    "tiny_kernels": {"gr_active": 0.5, "sm_active": 0.05, "launches": 9e4, "tensor_active": 0.0},
    "copy": {"gr_active": 0.02, "sm_active": 0.01, "pcie_rx_bytes": 9e9},
    "idle": {"gr_active": 0.0, "sm_active": 0.0, "pcie_rx_bytes": 1e6},
    "collective": {"gr_active": 1.0, "sm_active": 0.15, "tensor_active": 0.0, "nvlink_rx_bytes": 2.5e11},
}  # fmt: skip
"""What single kernels of each kind read on an H200; the collective is NCCL's by its description."""


def kind_of(levels: dict[str, float], *, fine: bool = True) -> str:
    columns = {"dram_read_bytes": 0.0, "dram_write_bytes": 0.0, **levels}
    rows = rows_of({name: np.array([value]) for name, value in columns.items()}, ROOFS, fine=fine)
    return KINDS[int(kinds_of(rows)[0])]


@pytest.mark.parametrize("kind", READ)
def test_each_kind_is_known_by_what_it_reads(kind):
    assert kind_of(READ[kind]) == kind


@pytest.mark.parametrize("kind", [k for k in READ if k not in ("attention",)])
def test_each_kind_is_known_over_many_of_its_kernels(kind):
    assert kind_of(READ[kind], fine=False) == kind


def test_attention_over_many_kernels_is_known_only_with_little_memory():
    assert kind_of({**READ["attention"], "dram_read_bytes": 9e11}, fine=False) == "attention"
    assert kind_of({**READ["attention"], "dram_read_bytes": 1.6e12}, fine=False) == "mixed"


def test_a_product_with_some_fp32_work_issues_too_little_for_attention():
    beside = {**READ["attention"], "tensor_active": 0.45, "sm_issue": 0.13}

    assert kind_of(beside) == "gemm"
    assert kind_of({**beside, "sm_issue": 0.4}) == "attention"


def test_what_single_kernels_say_means_are_too_unsure_of():
    """A tensor activity of 0.3 is a slow product, or a good one for a third of the time."""
    assert kind_of({**READ["gemm"], "tensor_active": 0.3}) == "gemm"
    assert kind_of({**READ["gemm"], "tensor_active": 0.3}, fine=False) == "mixed"


def test_a_kernel_of_much_arithmetic_beside_a_little_of_a_product_is_elementwise():
    """Held against what is left of a product in its sample; over many kernels it is a mixture."""
    beside = {**READ["elementwise"], "tensor_active": 0.1}

    assert kind_of(beside) == "elementwise"
    assert kind_of({**beside, "fma_active": 0.07}) == "unknown"
    assert kind_of(beside, fine=False) == "mixed"


def test_kernels_that_use_nothing_are_unknown():
    assert kind_of({**BUSY, "tensor_active": 0.0, "fma_active": 0.02, "dram_read_bytes": 2e11}) == "unknown"


def test_a_counter_that_was_not_measured_proves_nothing():
    assert kind_of({"gr_active": 1.0, "dram_read_bytes": 3e12}) == "unknown"
    assert kind_of({"gr_active": float("nan"), "tensor_active": 0.9}) == "unknown"


def test_a_collective_over_pcie_moves_data_both_ways():
    both = {
        "gr_active": 1.0,
        "sm_active": 0.1,
        "tensor_active": 0.0,
        "pcie_rx_bytes": 2e10,
        "pcie_tx_bytes": 2e10,
    }

    assert kind_of(both) == "collective"
    assert kind_of({**both, "pcie_tx_bytes": 1e8}) == "small_grids"


def test_products_beside_a_full_link_are_products():
    assert kind_of({**READ["gemm"], "nvlink_rx_bytes": 2.5e11}) == "gemm"


def test_many_launches_of_kernels_that_fill_the_gpu_are_no_tiny_kernels():
    """ResNet-50 launches 80,000 a second of 12 µs each, and hardly waits between."""
    assert kind_of({**READ["memory"], "launches": 8e4}) == "memory"


def test_every_rule_has_a_reason_and_a_certainty():
    assert all(len(rule.reason) > 20 for rule in RULES)
    assert all(0 < later <= first < 1 for first, later in CERTAINTY.values())
    assert len(set(KINDS)) == len(KINDS)


def test_real_kernels_are_called_what_their_names_say():
    """Samples of 50 µs beside a look into a ResNet-50, within products and within anything else."""
    recording = open_recording(LOOK)
    seen = recording.observation(0)
    work = read_trace(LOOK / next(look.file for look in recording.looks if look.file)).work
    product = np.array(
        [bool(re.search(r"gemm|wgrad|dgrad|fprop|cutlass", n)) and "Nhwc" not in n for n in work.names]
    )[work.name]
    beside = seen.close_up.between(int(work.start_ns.min()), int(work.end_ns.max()))
    within = [_share(beside, work.start_ns[own], work.end_ns[own]) > 0.9 for own in (product, ~product)]
    kinds = np.array(KINDS)[kinds_of(rows_of(rates_of(beside), roofs_of(seen.gpu, seen.board), fine=True))]

    assert within[0].sum() > 500
    assert within[1].sum() > 1000
    assert np.mean(kinds[within[0]] == "gemm") > 0.85
    assert np.mean(np.isin(kinds[within[1]], ["memory", "elementwise"])) > 0.95
    assert np.mean(np.isin(kinds[within[1]], ["gemm", "attention", "fp32_gemm"])) < 0.02


def _share(samples: Samples, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    before = np.r_[0, np.cumsum(end - start)]

    def until(at: np.ndarray) -> np.ndarray:
        place = np.maximum(np.searchsorted(start, at, "right") - 1, 0)
        return before[place] + np.clip(at - start[place], 0, (end - start)[place])

    return (until(samples.end_ns) - until(samples.start_ns)) / (samples.end_ns - samples.start_ns)
