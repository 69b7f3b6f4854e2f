"""What a busy copy engine does is told by what crosses links and DRAM meanwhile, as an H200 showed it."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.series.clearing import cleared, clearing
from perfzero.sources.synthetic import SECOND_NS, START_NS, Phase, signal
from perfzero.values import Samples

SCRUB = {"ce_active": 1.0, "dram_write_bytes": 4.24e11, "dram_read_bytes": 1.7e9, "pcie_rx_bytes": 2.5e7}
TO_GPU = {"ce_active": 1.0, "dram_write_bytes": 5.5e10, "pcie_rx_bytes": 5.8e10}
FROM_GPU = {"ce_active": 1.0, "dram_read_bytes": 5.5e10, "pcie_tx_bytes": 5.8e10}
PAGEABLE = {"ce_active": 0.14, "dram_write_bytes": 6.7e9, "pcie_rx_bytes": 7.1e9}
A_FEW_BYTES = {"ce_active": 0.43, "dram_write_bytes": 8e7, "dram_read_bytes": 1e7, "pcie_rx_bytes": 1.5e8}
WITHIN = {"ce_active": 1.0, "dram_write_bytes": 2e11, "dram_read_bytes": 2e11}
TO_A_PEER = {"ce_active": 1.0, "dram_read_bytes": 1.5e11, "nvlink_tx_bytes": 1.5e11}
FROM_A_PEER = {"ce_active": 1.0, "dram_write_bytes": 1.5e11, "nvlink_rx_bytes": 1.5e11}
KERNEL = {"gr_active": 1.0, "dram_write_bytes": 2e12, "dram_read_bytes": 2e12}


def pm(*cycle: Phase) -> Samples:
    return signal(cycle, start_ns=START_NS, end_ns=START_NS + SECOND_NS, period_ns=1_000_000)


def test_memory_that_is_cleared_is_known_by_what_is_written_and_comes_from_nowhere() -> None:
    assert clearing(pm(Phase(1.0, SCRUB))) == pytest.approx(1.0)

    found = cleared(pm(Phase(0.004, SCRUB), Phase(0.006)))

    assert found is not None
    assert found.engine == pytest.approx(0.4)
    assert (found.idle, found.idle_most) == pytest.approx((0.4, 0.4))
    assert found.bytes_per_s == pytest.approx(0.4 * 4.24e11)


@pytest.mark.parametrize(
    "moved", [TO_GPU, FROM_GPU, PAGEABLE, A_FEW_BYTES, WITHIN, TO_A_PEER, FROM_A_PEER, {}]
)
def test_an_engine_that_moves_something_clears_nothing(moved: dict[str, float]) -> None:
    samples = pm(Phase(0.004, moved), Phase(0.006))

    assert clearing(samples).max() == 0.0
    assert cleared(samples) is None


@pytest.mark.parametrize("unknown", ["ce_active", "dram_write_bytes", "pcie_rx_bytes"])
def test_what_was_not_measured_proves_nothing(unknown: str) -> None:
    samples = pm(Phase(1.0, SCRUB))
    both = {unknown: np.full(len(samples), np.nan)} | (
        {"pcie_tx_bytes": np.full(len(samples), np.nan)} if unknown == "pcie_rx_bytes" else {}
    )

    assert clearing(samples.with_columns(both)).max() == 0.0
    assert cleared(samples.with_columns(both)) is None


def test_beside_kernels_it_is_told_only_where_samples_without_kernels_show_it() -> None:
    """A kernel may have written all of it; in proportion it is idle for half of it, at most for all."""
    both = Phase(
        0.001, {"gr_active": 0.5, "ce_active": 0.5, "dram_write_bytes": 1.2e12, "dram_read_bytes": 1e12}
    )

    assert clearing(pm(both)) == pytest.approx(0.5)
    assert cleared(pm(both)) is None
    found = cleared(pm(both, Phase(0.001, SCRUB)))
    assert found is not None
    assert found.engine == pytest.approx(0.75)
    assert found.idle == pytest.approx(0.5 + 0.125)
    assert found.idle_most == pytest.approx(0.75)


def test_a_program_that_mostly_copies_is_not_told_by_a_little_that_is_cleared() -> None:
    assert cleared(pm(Phase(0.006, TO_GPU), Phase(0.002, SCRUB), Phase(0.002))) is None
    assert cleared(pm(Phase(0.002, TO_GPU), Phase(0.006, SCRUB), Phase(0.002))) is not None


def test_a_few_milliseconds_are_no_proof() -> None:
    assert cleared(pm(Phase(0.009, SCRUB), Phase(2.0))) is None
    assert cleared(pm(Phase(0.011, SCRUB), Phase(2.0))) is not None


def test_a_kernel_beside_a_copy_does_not_make_it_one_that_clears() -> None:
    assert clearing(pm(Phase(1.0, {**KERNEL, "ce_active": 1.0, "pcie_rx_bytes": 5.8e10}))).max() == 0.0
    assert clearing(pm(Phase(1.0, {**KERNEL, "ce_active": 0.15, "pcie_rx_bytes": 7e9}))).max() == 0.0
