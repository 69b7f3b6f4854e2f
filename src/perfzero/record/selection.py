"""
What is sampled: the counters asked of each source, by their names in `perfzero.counters`.

What a chip or a library lacks of them is left out when the source is opened.
"""

from __future__ import annotations

GPM_DEFAULT = (
    "gr_active", "sm_active", "tensor_active", "dram_active", "fp32_active", "warps_active",
    "pcie_rx_bytes", "pcie_tx_bytes", "fp64_active", "tensor_fp64_active",
    "nvlink_rx_bytes", "nvlink_tx_bytes",
)  # fmt: skip
"""What GPM is asked for: enough for the verdict of a run that has nothing else."""

PM_DEFAULT = (
    "gr_active", "sm_active", "tensor_active", "dram_read_bytes", "dram_write_bytes", "gpc_clock",
    "launches", "fma_active", "pcie_rx_bytes", "pcie_tx_bytes", "sm_issue", "warps_active",
    "l2_sectors", "l2_hit_sectors", "l2_hit", "ce_active", "queue_empty",
    "queue_semaphore", "ctxsw", "nvlink_rx_bytes", "nvlink_tx_bytes", "sys_clock", "dram_active",
)  # fmt: skip
"""What the first look samples: 18 counters on a single H200, 0.14 ms of CPU per sample."""

PM_CONTINUOUS = (
    "gr_active", "sm_active", "tensor_active", "dram_read_bytes", "dram_write_bytes", "gpc_clock",
    "launches", "pcie_rx_bytes", "pcie_tx_bytes", "sm_issue", "warps_active", "ce_active", "queue_empty",
    "queue_semaphore", "queue_wfi", "ctxsw", "nvlink_rx_bytes", "nvlink_tx_bytes", "sys_clock", "dram_active",
)  # fmt: skip
"""
What `--continuous` samples, and windows once all of `PM_DEFAULT` have seen the steady state: 16 on a
single H200, without those of the L2's slices and of NVIDIA's set names, which take half the CPU (0.07
instead of 0.13 ms per sample). What of the FMA pipe is FP32 arithmetic then comes from GPM; where there is
none, the pipe is sampled after all (`without_gpm`).
"""

ZOOM = (
    "gr_active", "sm_active", "tensor_active", "dram_read_bytes", "dram_write_bytes", "fma_active",
    "ce_active", "queue_empty", "queue_semaphore", "dram_active",
)  # fmt: skip
"""What tells kernels apart and says why none runs, and no more: a burst must fit into memory."""


CLOSE_UP = (
    "dram_read_bytes", "dram_write_bytes", "gr_active", "sm_active", "tensor_active", "fma_active",
    "sm_issue", "l2_sectors", "l2_hit_sectors", "l2_hit", "dram_active",
)  # fmt: skip
"""What is told of a kernel, sampled beside a look inside the program."""


def windows_counters(*, lean: bool, gpm: bool) -> tuple[str, ...]:
    """What windows sample, *lean* at half the CPU; *gpm* says whether GPM runs beside them."""
    names = PM_CONTINUOUS if lean else PM_DEFAULT
    return names if gpm else without_gpm(names)


def without_gpm(names: tuple[str, ...]) -> tuple[str, ...]:
    """*names* and the shares that no one can lend where GPM is missing, before what may find no place."""
    lacking = tuple(n for n in ("fma_active",) if n not in names)
    return (*names[:8], *lacking, *names[8:])
