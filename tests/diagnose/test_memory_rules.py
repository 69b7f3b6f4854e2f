"""The L2, writes, and host memory as limits: on each side of each threshold."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from perfzero.diagnose.evidence import collect
from perfzero.diagnose.judge import judge
from perfzero.diagnose.rules import compute, copy, memory
from perfzero.sources.synthetic import H200, Phase, observe
from perfzero.values import Observation

CALIBRATED = dataclasses.replace(H200, calibrated={"l2": 6e12})

CACHED = {
    "gr_active": 1.0, "sm_active": 0.95, "fma_active": 0.20, "launches": 1000.0,
    "l2_sectors": 5.4e12 / 32, "l2_hit_sectors": 5.2e12 / 32, "dram_read_bytes": 2e11,
}  # fmt: skip
"""90 % of an L2 that delivers 6 TB/s, hardly any DRAM."""


def steady(levels: dict[str, float], *, gpu: Any = CALIBRATED, idle: float = 0.0) -> Observation:
    """A program that always does the same, idle for a share of each 10 ms."""
    phases = [Phase(0.01 * (1 - idle), levels)]
    return observe([*phases, Phase(0.01 * idle)] if idle else phases, gpu=gpu)


def test_an_l2_at_its_roof_is_the_limit_and_no_latency_is() -> None:
    e = collect(steady(CACHED))

    found = memory.l2_bound(e)
    assert found is not None
    assert found.share == pytest.approx(1.0)
    assert found.severity == "bad"
    assert "90 % of the 6 TB/s" in found.because[0]
    assert "shared memory" in found.remedies[0].text
    assert compute.latency_bound(e) is None
    verdict = judge(steady(CACHED)).verdict
    assert verdict is not None
    assert verdict.rule == "l2_bound"


def test_a_full_l2_is_seen_though_most_windows_count_no_sectors() -> None:
    whole = collect(steady(CACHED, idle=0.4))
    late = np.arange(len(whole.long)) >= 0.3 * len(whole.long)
    uncounted = np.where(late, np.nan, whole.long.column("l2_sectors"))
    some = dataclasses.replace(whole, long=whole.long.with_columns({"l2_sectors": uncounted}))

    seen, expected = memory.l2_bound(some), memory.l2_bound(whole)
    assert seen is not None
    assert expected is not None
    assert seen.share == pytest.approx(expected.share, abs=0.02)


def test_the_rate_while_busy_counts_not_the_mean() -> None:
    found = memory.l2_bound(collect(steady(CACHED, idle=0.4)))

    assert found is not None
    assert found.share == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize(
    "changes",
    [
        {"l2_sectors": 0.78 * 6e12 / 32},  # under its threshold
        {"dram_read_bytes": 3e12},  # then DRAM is the limit
        {"tensor_active": 0.90},  # the tensor cores are at theirs, and the L2 feeds them
        {"fma_active": 0.92},
    ],
)
def test_an_l2_below_its_roof_or_beside_a_nearer_one_is_not_the_limit(changes: dict[str, float]) -> None:
    assert memory.l2_bound(collect(steady({**CACHED, **changes}))) is None


def test_an_l2_of_unknown_roof_is_not_judged() -> None:
    turing = dataclasses.replace(H200, chip="TU102", compute_capability=(7, 5))

    assert memory.l2_bound(collect(steady(CACHED, gpu=turing))) is None


def test_averages_without_sectors_are_not_judged() -> None:
    assert memory.l2_bound(collect(observe([Phase(0.01, CACHED)], gpu=CALIBRATED, tier="gpm"))) is None


def test_latency_beside_a_little_l2_time_is_still_told() -> None:
    slow = {"gr_active": 1.0, "sm_active": 0.95, "dram_read_bytes": 8e11}
    mixed = observe([Phase(0.04, CACHED), Phase(0.16, slow)], gpu=CALIBRATED)

    assert memory.l2_bound(collect(mixed)) is not None
    assert compute.latency_bound(collect(mixed)) is not None


def test_tma_multicast_is_offered_only_where_there_is_one() -> None:
    ada = dataclasses.replace(CALIBRATED, chip="AD102", compute_capability=(8, 9))

    def offered(gpu: Any) -> bool:
        found = memory.l2_bound(collect(steady(CACHED, gpu=gpu)))
        assert found is not None
        return any("multicast" in remedy.text for remedy in found.remedies)

    assert offered(CALIBRATED)
    assert not offered(ada)


def writing(ratio: float) -> Observation:
    """A program at the DRAM roof that writes *ratio* times as much as it reads."""
    read = 4e12 / (1 + ratio)
    return steady(
        {"gr_active": 1.0, "sm_active": 0.95, "dram_read_bytes": read, "dram_write_bytes": ratio * read}
    )


def test_a_write_heavy_program_is_told_what_writes_less_first() -> None:
    found = memory.memory_bound(collect(writing(1.6)))

    assert found is not None
    assert any(line.startswith("write-heavy, 1.6 times as many writes") for line in found.because)
    texts = [remedy.text for remedy in found.remedies[:3]]
    assert "8 bits" in texts[0]
    assert "set_to_none=True" in texts[1]
    assert "fills" in texts[2]


def test_a_program_that_writes_little_more_than_it_reads_is_told_to_fuse() -> None:
    found = memory.memory_bound(collect(writing(1.4)))

    assert found is not None
    assert not any("write-heavy" in line for line in found.because)
    assert "Fuse" in found.remedies[0].text


REMOTE = {
    "gr_active": 1.0, "sm_active": 0.9, "pcie_rx_bytes": 5.2e10, "ce_active": 0.0, "dram_read_bytes": 1e11,
}  # fmt: skip


def test_kernels_that_read_host_memory_are_told_from_copies() -> None:
    found = copy.transfer_bound(collect(steady(REMOTE)))

    assert found is not None
    assert found.title.startswith("Kernels wait for host memory, which they read over PCIe, 90 % of the time")
    assert "the copy engine works 0 %" in found.because[0]
    assert "device memory" in found.remedies[0].text
    assert not any("Overlap copies" in remedy.text for remedy in found.remedies)


def test_kernels_that_write_host_memory_are_said_to_write() -> None:
    found = copy.transfer_bound(collect(steady({**REMOTE, "pcie_rx_bytes": 1e8, "pcie_tx_bytes": 5.2e10})))

    assert found is not None
    assert "which they write over PCIe" in found.title


@pytest.mark.parametrize(
    "changes",
    [
        {"ce_active": 0.06},  # the engine takes part
        {"gr_active": 0.4, "sm_active": 0.3},  # mostly, no kernel runs
        {"pcie_tx_bytes": 4e10},  # both ways, as collectives do
    ],
)
def test_a_full_link_that_need_not_be_the_kernels_doing_is_called_copies(changes: dict[str, float]) -> None:
    found = copy.transfer_bound(collect(steady({**REMOTE, **changes})))

    assert found is not None
    assert found.title.startswith("Copies between host and GPU")
    assert any("Overlap copies" in remedy.text for remedy in found.remedies)


def test_an_engine_that_was_not_seen_proves_nothing() -> None:
    seen = steady(REMOTE)
    hidden = dataclasses.replace(
        seen,
        pm=dataclasses.replace(
            seen.pm, columns={k: v for k, v in seen.pm.columns.items() if k != "ce_active"}
        ),
    )

    found = copy.transfer_bound(collect(hidden))
    assert found is not None
    assert found.title.startswith("Copies between host and GPU")


READS = {
    "gr_active": 1.0, "sm_active": 0.98, "dram_read_bytes": 4.1e12, "dram_write_bytes": 2e9,
    "launches": 40_000.0, "tensor_active": 0.03, "l2_sectors": 4.2e12 / 32,
}  # fmt: skip


def test_a_program_that_reads_its_weights_at_the_roof_is_well_used() -> None:
    diagnosis = judge(observe((Phase(0.002, READS),)))

    assert diagnosis.verdict is not None
    assert diagnosis.verdict.rule == "memory_bound"
    assert all(f.severity == "info" for f in diagnosis.findings)
    assert "read at its limit" in diagnosis.headline
    assert diagnosis.verdict.confidence <= 0.75
    assert diagnosis.verdict.next_limit is not None
    assert "narrower weights" in diagnosis.verdict.next_limit


@pytest.mark.parametrize(
    "change", [{"dram_read_bytes": 2.2e12, "dram_write_bytes": 1.9e12}, {"gr_active": 0.5}]
)
def test_one_that_writes_as_well_or_rests_is_not(change: dict[str, float]) -> None:
    phase = {**READS, **change}
    scale = phase["gr_active"]
    phase |= {name: phase[name] * scale for name in ("dram_read_bytes", "dram_write_bytes", "l2_sectors")}
    verdict = judge(observe((Phase(0.002, phase),))).verdict

    assert verdict is not None
    assert verdict.severity != "info"
