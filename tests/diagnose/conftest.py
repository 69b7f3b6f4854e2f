"""Programs of known trouble, described in phases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from perfzero.sources.synthetic import Phase, observe
from perfzero.values import Observation

GEMM = {
    "gr_active": 1.0, "sm_active": 0.99, "tensor_active": 0.90, "fma_active": 0.02,
    "dram_read_bytes": 4e11, "dram_write_bytes": 2e11, "launches": 500.0,
    "l2_sectors": 6e10, "l2_hit_sectors": 5e10,
}  # fmt: skip
SGEMM = {
    "gr_active": 1.0, "sm_active": 0.98, "fma_active": 0.80, "dram_read_bytes": 1.2e11,
    "dram_write_bytes": 3e10, "launches": 1000.0,
}  # fmt: skip
STREAM = {
    "gr_active": 1.0, "sm_active": 0.98, "fma_active": 0.05, "dram_read_bytes": 2.1e12,
    "dram_write_bytes": 2.1e12, "launches": 700.0, "l2_sectors": 2.1e12 / 32, "l2_hit_sectors": 0.0,
}  # fmt: skip
CONV = {
    "gr_active": 1.0, "sm_active": 0.81, "tensor_active": 0.07, "fma_active": 0.12,
    "dram_read_bytes": 0.9e12, "dram_write_bytes": 0.48e12, "launches": 5000.0,
    "l2_sectors": 4e10, "l2_hit_sectors": 1e10,
}  # fmt: skip
TINY = {"gr_active": 1.0, "sm_active": 0.05, "launches": 250e3}
PAGEABLE = {"gr_active": 0.03, "pcie_rx_bytes": 7.1e9, "ce_active": 0.24}
PINNED = {"pcie_rx_bytes": 5.7e10, "ce_active": 1.0}


@dataclass(frozen=True)
class Program:
    """A cycle of phases, and what its board and host look like meanwhile."""

    cycle: tuple[Phase, ...]
    board: dict[str, float] = field(default_factory=dict)
    host: dict[str, float] = field(default_factory=dict)


PROGRAMS: dict[str, Program] = {
    "bf16_gemm_capped": Program(
        (Phase(0.01, {**GEMM, "gpc_clock": 1.33e9}),), {"capped_power": 1.0, "power": 697.0}
    ),
    "fp32_gemm": Program((Phase(0.01, SGEMM),)),
    "tiny_kernels": Program((Phase(4e-6, TINY), Phase(22e-6)), host={"host_main_cpu": 1.0}),
    "tiny_kernels_graph": Program((Phase(0.01, {**TINY, "gr_active": 0.99}),), host={"host_main_cpu": 1.0}),
    "input_starved_resnet50": Program(
        (Phase(0.040, STREAM), Phase(0.055), Phase(0.005, PINNED)),
        host={"host_main_cpu": 0.4, "host_workers": 4.0, "host_worker_cpu": 1.0},
    ),
    "pageable_copies": Program((Phase(0.040, PAGEABLE), Phase(0.002, GEMM)), host={"host_main_cpu": 1.0}),
    "elementwise_chain": Program((Phase(0.01, STREAM),)),
    "resnet50_nchw": Program((Phase(0.01, CONV),)),
    "transformer_healthy": Program((Phase(0.020, GEMM), Phase(0.006, STREAM), Phase(0.0005))),
    "synchronising": Program(
        (Phase(72e-6, {**STREAM, "launches": 1 / 72e-6}), Phase(48e-6)), host={"host_main_cpu": 1.0}
    ),
    "sleeping": Program((Phase(0.013, GEMM), Phase(0.020)), host={"host_main_cpu": 0.4}),
    "pinned_copies": Program((Phase(0.005, GEMM), Phase(0.005, PINNED))),
    "collectives": Program(
        (Phase(0.02, GEMM), Phase(0.01, {"gr_active": 1.0, "sm_active": 0.15, "nvlink_rx_bytes": 2.5e11}))
    ),
    "double_precision": Program(
        (Phase(0.01, {"gr_active": 1.0, "sm_active": 0.98, "fp64_active": 0.85, "launches": 500.0}),)
    ),
    "stalling": Program((Phase(0.01, {"gr_active": 1.0, "sm_active": 0.95, "dram_read_bytes": 8e11}),)),
    "layer_norm": Program(
        (Phase(0.01, {**STREAM, "dram_read_bytes": 1.4e12, "dram_write_bytes": 1.4e12, "fma_active": 0.25}),)
    ),
    "finished": Program((Phase(1.0),)),
}


@pytest.fixture
def program() -> Callable[..., Observation]:
    """The observation of a named program; keyword arguments go to `observe`, board and host are merged."""

    def build(name: str, **changes: Any) -> Observation:
        found = PROGRAMS[name]
        board = {**found.board, **changes.pop("board", {})}
        host = {**found.host, **changes.pop("host", {})}
        return observe(found.cycle, board=board, host=host, **changes)

    return build
