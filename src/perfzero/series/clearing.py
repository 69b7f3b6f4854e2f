"""
Copy engines that clear memory, which is no copy between host and GPU.

Device memory that a program takes from CUDA, or gives back, is cleared by the driver, and a copy engine does
it (seen in every program with cudaMalloc or cudaFree in its steps, and in none without). While that lasts the
engine is busy, and next to nothing crosses a link:

    in each second of a busy engine   over PCIe           written to DRAM      read from it
    copies between host and GPU       28.6 to 58.2 GB/s   what comes in        what goes out
    single copies of some bytes       0.18 to 0.59 GB/s   0.2 GB/s             nothing to speak of
    memory that is cleared            0.00 to 0.33 GB/s   413 to 427 GB/s      1.4 to 2.0 GB/s

(95 % of the samples of each of 33 programs on an H200; DRAM by those with hardly a kernel.) So the engine
clears memory in a sample where links carry less than `CARRIES` for each second of it, and DRAM is written
more than `WRITES` times as much; without a kernel it is also read less than written, which a copy within the
GPU is not. Beside kernels nobody knows who wrote, so memory is said to be cleared only where samples without
kernels show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from perfzero.limits import CHOICE, Limit
from perfzero.values import FloatArray, Samples

MEASURED = "measured: the zoo on an H200, 2026-12-01"

CARRIES: Annotated[float, Limit("bytes/s", MEASURED)] = 1e9
"""
Over links, for each second of a busy copy engine. Copies between host and GPU carried 28.6 GB/s and more,
and where memory is cleared it was 0.33 at most. A PCIe 3 link of four lanes has 3.
"""

WRITES: Annotated[float, Limit("ratio", MEASURED)] = 10.0
"""
Bytes written to DRAM over those on links. Copies write what comes in, 1 at most; an engine that clears memory
wrote 1,200 times as much and more.
"""

ALONE: Annotated[float, Limit("ratio", CHOICE)] = 0.02
"""GR activity below which hardly a kernel ran in a sample, so that what was written is the engine's."""

PROOF_S: Annotated[float, Limit("seconds", CHOICE)] = 0.010
"""Of a copy engine that clears memory beside no kernel: five samples of the default period."""

MOSTLY: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Of the time in which it is busy beside no kernel: with less it mostly copies, beside kernels as well."""


def clearing(samples: Samples) -> FloatArray:
    """Share of each of *samples* in which the copy engine clears memory, shape (n,); 0 where not known."""
    engine = np.nan_to_num(samples.column("ce_active"))
    written, read = samples.column("dram_write_bytes"), samples.column("dram_read_bytes")
    link = np.fmax(samples.column("pcie_rx_bytes"), samples.column("pcie_tx_bytes"))
    peers = np.fmax(samples.column("nvlink_rx_bytes"), samples.column("nvlink_tx_bytes"))
    link = link + np.nan_to_num(peers)  # not every GPU has such links
    nothing = link < CARRIES * engine * samples.duration_s  # what is not known proves nothing
    beside = samples.column("gr_active") >= ALONE
    return np.where(nothing & (written >= WRITES * link) & ((read < written) | beside), engine, 0.0)


@dataclass(frozen=True, slots=True)
class Cleared:
    """
    Memory that is cleared: bytes a second of all time, and in which share of all time an engine does.

    `idle`: the share of all time in which it does and no kernel runs, and `idle_most` what that is at most:
    within one sample nobody knows which kernels the engine works beside.
    """

    bytes_per_s: float
    engine: float
    idle: float
    idle_most: float


def cleared(samples: Samples) -> Cleared | None:
    """How much memory is cleared in *samples*; None where those without kernels do not show that it is."""
    samples = samples.where(np.isfinite(samples.column("gr_active")))
    seconds, gr = samples.duration_s, samples.column("gr_active")
    busy = clearing(samples) * seconds
    alone = gr < ALONE
    engine = np.nan_to_num(samples.column("ce_active")) * seconds
    seen = float(np.sum(busy[alone]))
    if not seen >= max(PROOF_S, MOSTLY * float(np.sum(engine[alone]))):
        return None
    rate = float(np.sum(samples.column("dram_write_bytes")[alone & (busy > 0)])) / seen
    whole = float(np.sum(seconds))
    share = float(np.sum(busy)) / whole
    return Cleared(
        rate * share,
        share,
        idle=float(np.sum(busy * (1.0 - gr))) / whole,
        idle_most=float(np.sum(np.minimum(busy, (1.0 - gr) * seconds))) / whole,
    )
