"""
Kernels that read or write host memory in place (zero-copy, unified memory that stayed on the host).

Whoever fills a link shows beside it: a copy keeps the copy engine busy, a kernel that reaches over
the link keeps the SMs occupied and leaves the engine idle. Collectives over PCIe do the latter too,
but use both directions alike, and are left out (science: rule M5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.thresholds import COMM_LINK, ENGINE_IDLE, KERNEL_BESIDE, LINK_FULL
from perfzero.series.stats import weighted_mean


@dataclass(frozen=True, slots=True)
class HostReads:
    """The link while it was full: bytes/s of the busier direction, the copy engine's share of that time."""

    bytes_per_s: float
    engine: float
    to_gpu: bool


def host_reads(e: Evidence) -> HostReads | None:
    """How kernels use host memory, over the samples in which the link was full; None if they do not."""
    table = e.long.where(np.isfinite(e.long.column("gr_active")))
    seconds = table.duration_s
    down, up = table.column("pcie_rx_bytes") / seconds, table.column("pcie_tx_bytes") / seconds
    full = np.fmax(down, up) >= LINK_FULL.value * e.roofs.pcie
    one_way = np.fmin(down, up) < COMM_LINK.value * e.roofs.pcie
    rows = full & one_way
    if not rows.any():
        return None
    engine = weighted_mean(table.column("ce_active")[rows], seconds[rows])
    active = weighted_mean(table.column("gr_active")[rows], seconds[rows])
    if not (engine < ENGINE_IDLE.value and active >= KERNEL_BESIDE.value):
        return None
    rx, tx = weighted_mean(down[rows], seconds[rows]), weighted_mean(up[rows], seconds[rows])
    return HostReads(float(np.fmax(rx, tx)), engine, not rx < tx)
