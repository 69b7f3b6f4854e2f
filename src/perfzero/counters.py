"""
The vocabulary: each quantity perfzero knows, declared once.

Columns, help, exporters, units and axis labels all come from here. A quantity has one
canonical name; what other tools call it stands beside it. Names for CUPTI are *ladders*:
the first one that the library at hand knows for the chip at hand, and that still fits the
single pass, is used (`perfzero.sources._one_pass` resolves them at run time; what the ladders
resolve to per chip and library version is kept in `data/metric_sets.json`, checked on a
GPU by `tools/check_metric_sets.py`).

Sources of the names: CUPTI's own catalogue (cuptiProfilerHostGetBaseMetrics), nvml.h
(nvmlGpmMetricId_t), DCGM's dcgm_fields.h, Nsight Systems' GPU metrics descriptions and the
OpenTelemetry hardware semantic conventions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perfzero.words.said import say

Unit = Literal[
    "ratio", "bytes", "count", "hertz", "watts", "celsius", "joules", "seconds", "generation", "lanes"
]
Kind = Literal["level", "total"]
Origin = Literal["gpu", "board", "host"]

PCT = ".avg.pct_of_peak_sustained_elapsed"
SUM_PCT = ".sum.pct_of_peak_sustained_elapsed"
PER_SECOND = ".avg.per_second"


@dataclass(frozen=True, slots=True)
class Counter:
    """
    One thing a source can measure. Its name is the column name, everywhere; what it means is `doc`.

    `kind` is "level" (a mean over the sample) or "total" (an amount that fell into it).
    `weight` names the total by which a level is averaged, where time is the wrong weight.
    `cupti` is the ladder of metric names; a name with ".pct" in it is divided by 100.
    `gpm` is NVML's nvmlGpmMetricId_t; `dcgm` the field id; `nsight` the row in Nsight Systems;
    `otel` a name of OpenTelemetry's hardware conventions (hw.*), or one of ours where they have none.
    """

    name: str
    unit: Unit
    kind: Kind
    origin: Origin = "gpu"
    cupti: tuple[str, ...] = ()
    gpm: int | None = None
    dcgm: int | None = None
    nsight: str | None = None
    otel: str | None = None
    weight: str | None = None

    @property
    def doc(self) -> str:
        """What it means, a sentence or two: "counter.NAME" in the catalogues."""
        return say(f"counter.{self.name}")


# The order is the priority in which counters are taken into the single pass.
GPU_COUNTERS: tuple[Counter, ...] = (
    Counter(
        "gr_active",
        "ratio",
        "level",
        cupti=(f"gr__cycles_active{SUM_PCT}", f"gr__cycles_active{PCT}"),
        gpm=1,
        dcgm=1001,
        nsight="GR Active",
        otel="hw.gpu.utilization",
    ),
    Counter(
        "sm_active",
        "ratio",
        "level",
        cupti=(f"sm__cycles_active{PCT}",),
        gpm=2,
        dcgm=1002,
        nsight="SMs Active",
        otel="gpu.sm.active",
    ),
    Counter(
        "tensor_active",
        "ratio",
        "level",
        cupti=(
            f"sm__pipe_tensor_cycles_active_realtime_v2{PCT}",
            f"sm__pipe_tensor_cycles_active_realtime{PCT}",
            f"sm__pipe_shared_cycles_active_realtime{PCT}",  # Turing: tensor shares it with FP64
        ),
        gpm=5,
        dcgm=1004,
        nsight="Tensor Active",
        otel="gpu.tensor.active",
    ),
    Counter(
        "dram_read_bytes",
        "bytes",
        "total",
        cupti=("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
        nsight="DRAM Read Bandwidth",
        otel="gpu.dram.io",
    ),
    Counter(
        "dram_write_bytes",
        "bytes",
        "total",
        cupti=("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
        nsight="DRAM Write Bandwidth",
        otel="gpu.dram.io",
    ),
    Counter(
        "gpc_clock",
        "hertz",
        "level",
        cupti=(f"gpc__cycles_elapsed{PER_SECOND}",),
        nsight="GPC Clock Frequency",
    ),
    Counter(
        "launches",
        "count",
        "total",
        cupti=("gr__dispatch_count.sum",),
        nsight="Dispatch Started",
    ),
    Counter(
        "fma_active",
        "ratio",
        "level",
        # The whole pipe where it is counted. Its heavy half stands for both halves on GA10x to
        # GB100, but not on GB20x and later, where that half also executes integer work.
        cupti=(
            f"sm__inst_executed_pipe_fma_realtime{PCT}",
            f"TPC.TriageCompute.sm__inst_executed_pipe_fma_realtime{PCT}",
            f"sm__inst_executed_pipe_fmaheavy_realtime{PCT}",
            f"sm__inst_executed_pipe_fmalite_realtime{PCT}",
            f"sm__inst_executed_pipe_fma{PCT}",
        ),
        dcgm=1007,
        otel="gpu.fma.active",
    ),
    Counter(
        "pcie_rx_bytes",
        "bytes",
        "total",
        cupti=("pcie__read_bytes.sum", "PCI.TriageCompute.pcie__read_bytes.sum"),
        gpm=21,
        dcgm=1010,
        nsight="PCIe RX Throughput",
        otel="hw.gpu.io",
    ),
    Counter(
        "pcie_tx_bytes",
        "bytes",
        "total",
        cupti=("pcie__write_bytes.sum", "PCI.TriageCompute.pcie__write_bytes.sum"),
        gpm=20,
        dcgm=1009,
        nsight="PCIe TX Throughput",
        otel="hw.gpu.io",
    ),
    Counter(
        "sm_issue",
        "ratio",
        "level",
        cupti=(f"sm__inst_executed_realtime{PCT}",),
        nsight="SM Issue",
        otel="gpu.sm.issue",
    ),
    Counter(
        "warps_active",
        "ratio",
        "level",
        cupti=(
            f"tpc__warps_active_shader_cs_realtime{PCT}",
            f"TPC.TriageCompute.tpc__warps_active_shader_cs_realtime{PCT}",
        ),
        gpm=3,
        dcgm=1003,
        nsight="Compute Warps in Flight",
        otel="gpu.warps.active",
    ),
    Counter(
        "l2_sectors",
        "count",
        "total",
        cupti=("lts__t_sectors_srcunit_tex.sum", "lts__t_sectors_srcunit_tex_realtime.sum"),
    ),
    Counter(
        "l2_hit_sectors",
        "count",
        "total",
        cupti=("lts__t_sectors_srcunit_tex_lookup_hit_realtime.sum",),
    ),
    Counter(
        "l2_hit",
        "ratio",
        "level",
        cupti=(
            "lts__average_t_sector_hit_rate_srcunit_tex_realtime.pct",
            "LTS.TriageCompute.lts__average_t_sector_hit_rate_srcunit_tex_realtime.pct",
            "lts__average_t_sector_hit_rate_realtime.pct",
        ),
        nsight="L2 Hit Rate",
        weight="l2_sectors",
    ),
    Counter(
        "ce_active",
        "ratio",
        "level",
        cupti=(
            f"gpu__scheduler_engine_asyncce0_cycles_active{PCT}",
            f"gpu__scheduler_engine_asyncce0_cycles_active{SUM_PCT}",
            f"gpu__engine_cycles_active_any_asyncce{PCT}",
        ),
        nsight="Async Copy Engine Active 0",
    ),
    Counter(
        "queue_empty",
        "ratio",
        "level",
        cupti=(
            f"gpu__scheduler_engine_gr_queue_sync_gpfifo_cycles_idle{PCT}",
            f"gpu__scheduler_engine_gr_queue_sync_gpfifo_cycles_idle{SUM_PCT}",
        ),
    ),
    Counter(
        "queue_semaphore",
        "ratio",
        "level",
        cupti=(
            f"gpu__scheduler_engine_gr_queue_sync_cycles_stalled_cmd_semacquire{PCT}",
            f"gpu__scheduler_engine_gr_queue_sync_cycles_stalled_cmd_semacquire{SUM_PCT}",
        ),
    ),
    Counter(
        "nvlink_rx_bytes",
        "bytes",
        "total",
        cupti=("nvlrx__bytes.sum",),
        gpm=60,
        dcgm=1012,
        otel="hw.gpu.io",
    ),
    Counter(
        "nvlink_tx_bytes",
        "bytes",
        "total",
        cupti=("nvltx__bytes.sum",),
        gpm=61,
        dcgm=1011,
        otel="hw.gpu.io",
    ),
    Counter(
        "fp64_active",
        "ratio",
        "level",
        cupti=(
            f"sm__pipe_fp64_cycles_active_realtime{PCT}",
            f"TPC.TriageCompute.sm__pipe_fp64_cycles_active_realtime{PCT}",
            f"sm__pipe_fp64_cycles_active{PCT}",
            f"sm__inst_executed_pipe_fp64{PCT}",
        ),
        gpm=11,
        dcgm=1006,
        otel="gpu.fp64.active",
    ),
    Counter(
        "queue_wfi",
        "ratio",
        "level",
        cupti=(
            f"gpu__scheduler_engine_gr_queue_sync_cycles_stalled_cmd_wfi{PCT}",
            f"gpu__scheduler_engine_gr_queue_sync_cycles_stalled_cmd_wfi{SUM_PCT}",
            f"fe__cycles_stalled_cmd_wfi{PCT}",
        ),
    ),
    Counter(
        "ctxsw",
        "ratio",
        "level",
        cupti=(f"gpu__gr_cycles_active_cmd_ctxsw{PCT}", f"gpu__gr_cycles_active_cmd_ctxsw{SUM_PCT}"),
    ),
    Counter(
        "sys_clock",
        "hertz",
        "level",
        cupti=(f"sys__cycles_elapsed{PER_SECOND}",),
        nsight="SYS Clock Frequency",
    ),
    # From here on: worth a place in the pass only where one is left over.
    Counter(
        "tensor_fp_active",
        "ratio",
        "level",
        cupti=(
            f"sm__pipe_tensor_op_hmma_cycles_active_realtime{PCT}",
            f"sm__pipe_tensor_subpipe_hmma_cycles_active_realtime{PCT}",
        ),
        gpm=7,
        dcgm=1014,
        otel="gpu.tensor.fp.active",
    ),
    Counter(
        "ctas",
        "count",
        "total",
        cupti=("gr__ctas_launched_realtime.sum",),
    ),
    Counter(
        "alu_active",
        "ratio",
        "level",
        cupti=(f"sm__inst_executed_pipe_alu_realtime{PCT}",),
        gpm=4,
        dcgm=1016,
        otel="gpu.int.active",
    ),
    Counter(
        "tensor_int_active",
        "ratio",
        "level",
        cupti=(
            f"sm__pipe_tensor_op_imma_cycles_active_realtime{PCT}",
            f"sm__pipe_tensor_subpipe_imma_cycles_active_realtime{PCT}",
        ),
        gpm=9,
        dcgm=1013,
        otel="gpu.tensor.int.active",
    ),
    Counter(
        "tensor_fp64_active",
        "ratio",
        "level",
        cupti=(
            f"smsp__pipe_tensor_op_dmma_cycles_active_realtime{PCT}",
            f"sm__pipe_tensor_subpipe_dmma_cycles_active_realtime{PCT}",
        ),
        gpm=8,
        dcgm=1015,
        otel="gpu.tensor.fp64.active",
    ),
    Counter(
        "c2c_rx_bytes",
        "bytes",
        "total",
        cupti=("ctc__rx_bytes.sum",),
        gpm=101,
        dcgm=1078,
        otel="hw.gpu.io",
    ),
    Counter(
        "c2c_tx_bytes",
        "bytes",
        "total",
        cupti=("ctc__tx_bytes.sum",),
        gpm=100,
        dcgm=1076,
        otel="hw.gpu.io",
    ),
    Counter(
        "fp16_active",
        "ratio",
        "level",
        gpm=13,
        dcgm=1008,
        otel="gpu.fp16.active",
    ),
    Counter(
        # No other name for `fma_active`: in 53 recordings of H200s that one is 1.0 times this one where
        # kernels compute in FP32 only, 1.1 to 8.4 times where they have integer work too, and 0.03 where
        # this is 0 (fills). The ratio is the program's own, so neither can be had from the other.
        "fp32_active",
        "ratio",
        "level",
        gpm=12,
        otel="gpu.fp32.active",
    ),
    Counter(
        "dram_active",
        "ratio",
        "level",
        cupti=(
            f"dram__throughput{PCT}",
            f"dramc__throughput{PCT}",
            f"FBSP.TriageCompute.dramc__throughput{PCT}",
        ),
        gpm=10,
        dcgm=1005,
        otel="gpu.dram.active",
    ),
)

BOARD_COUNTERS: tuple[Counter, ...] = (
    Counter("sm_clock", "hertz", "level", "board", dcgm=100),
    Counter("memory_clock", "hertz", "level", "board", dcgm=101),
    Counter("power", "watts", "level", "board", dcgm=155, otel="hw.power"),
    Counter(
        "energy",
        "joules",
        "total",
        "board",
        dcgm=156,
        otel="hw.energy",
    ),
    Counter("temperature", "celsius", "level", "board", dcgm=150, otel="hw.temperature"),
    Counter(
        "capped_power",
        "ratio",
        "level",
        "board",
        dcgm=112,
    ),
    Counter(
        "capped_thermal",
        "ratio",
        "level",
        "board",
        dcgm=112,
    ),
    Counter(
        "capped_hardware",
        "ratio",
        "level",
        "board",
        dcgm=112,
    ),
    Counter(
        "memory_used",
        "bytes",
        "level",
        "board",
        dcgm=252,
        otel="hw.gpu.memory.usage",
    ),
    Counter("pcie_generation", "generation", "level", "board", dcgm=237),
    Counter("pcie_width", "lanes", "level", "board", dcgm=238),
    Counter(
        "smi_utilization",
        "ratio",
        "level",
        "board",
        dcgm=203,
        otel="hw.gpu.utilization",
    ),
    Counter(
        "ecc_uncorrected",
        "count",
        "level",
        "board",
        dcgm=311,
        otel="hw.errors",
    ),
    Counter("processes", "count", "level", "board"),
)

HOST_COUNTERS: tuple[Counter, ...] = (
    Counter(
        "host_main_cpu",
        "ratio",
        "level",
        "host",
    ),
    Counter("host_tree_cpu", "ratio", "level", "host"),
    Counter("host_processes", "count", "level", "host"),
    Counter(
        "host_workers",
        "count",
        "level",
        "host",
    ),
    Counter("host_worker_cpu", "ratio", "level", "host"),
    Counter(
        "host_runqueue_wait",
        "ratio",
        "level",
        "host",
    ),
    Counter(
        "host_io_wait",
        "ratio",
        "level",
        "host",
    ),
    Counter("host_major_faults", "count", "total", "host"),
    Counter(
        "host_throttled",
        "ratio",
        "level",
        "host",
    ),
    Counter("host_disk_read_bytes", "bytes", "total", "host"),
    Counter("host_disk_write_bytes", "bytes", "total", "host"),
    Counter(
        "host_net_bytes",
        "bytes",
        "total",
        "host",
    ),
    Counter("host_swap_bytes", "bytes", "level", "host"),
    Counter("host_cpu_busy", "ratio", "level", "host"),
)

COUNTERS: tuple[Counter, ...] = GPU_COUNTERS + BOARD_COUNTERS + HOST_COUNTERS
BY_NAME: dict[str, Counter] = {c.name: c for c in COUNTERS}

SECTOR_BYTES = 32
"""An L2 sector holds 32 bytes on every chip since Maxwell (CUDA C++ best practices guide)."""


def pm_counters() -> tuple[Counter, ...]:
    """The counters PM sampling may deliver, in the order in which they are given a place in the pass."""
    return tuple(c for c in GPU_COUNTERS if c.cupti)


def gpm_counters() -> tuple[Counter, ...]:
    """The counters NVML GPM may deliver."""
    return tuple(c for c in GPU_COUNTERS if c.gpm is not None)


def metric_scale(metric: str) -> float:
    """What a value of the CUPTI metric is multiplied with to be in the counter's unit."""
    return 0.01 if ".pct" in metric else 1.0
