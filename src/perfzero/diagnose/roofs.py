"""What each resource of one GPU can deliver in practice: the denominators of every share."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfzero import hardware
from perfzero.values import Gpu, Samples


@dataclass(frozen=True, slots=True)
class Roofs:
    """
    Practical roofs. Rates in bytes/s per direction for links, both directions together for DRAM.

    `tensor`, `fma`: shares of the pipe's peak. NaN where the GPU does not say enough about itself.
    Each is the one that `perfzero calibrate` measured on this GPU, or else that of the table in `hardware`.
    """

    dram_peak: float
    dram: float
    pcie: float
    nvlink: float
    l2: float
    tensor: float
    fma: float


def roofs_of(gpu: Gpu, board: Samples) -> Roofs:
    """The roofs of *gpu*; its PCIe link as *board* saw it at its best, else as it is built."""
    generation, width = link_in_use(gpu, board)
    pcie = math.nan
    if generation is not None and width is not None:
        pcie = hardware.pcie_bytes_per_s(generation, width, gpu=gpu)
    return Roofs(
        dram_peak=hardware.peak_dram_bytes_per_s(gpu),
        dram=hardware.practical_dram_bytes_per_s(gpu),
        pcie=pcie,
        nvlink=_nvlink(gpu),
        l2=hardware.practical_l2_bytes_per_s(gpu),
        tensor=hardware.practical_tensor_share(gpu),
        fma=hardware.practical_fma_share(gpu),
    )


def link_in_use(gpu: Gpu, board: Samples) -> tuple[int | None, int | None]:
    """
    PCIe generation and width. The highest seen: a link at rest slows down to save power.
    """
    seen = []
    for column, built in (("pcie_generation", gpu.pcie_generation_max), ("pcie_width", gpu.pcie_width_max)):
        values = board.column(column)
        known = values[np.isfinite(values)]
        seen.append(int(np.max(known)) if len(known) and np.max(known) > 0 else built)
    return seen[0], seen[1]


def _nvlink(gpu: Gpu) -> float:
    """Bytes/s per direction by NVIDIA's data sheets for this compute capability; NaN where it has none."""
    sums = [
        sheet.nvlink_gb_per_s
        for sheet in hardware.DATA_SHEETS
        if sheet.compute_capability == gpu.compute_capability and sheet.nvlink_gb_per_s
    ]
    return max(sums) * 1e9 / 2 if sums else math.nan
