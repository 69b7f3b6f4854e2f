"""
The names people bring, and what they mean here.

`resolve` takes any name: ours, one of CUPTI's with or without suffix and set prefix, a DCGM
field by name (old or new) or number, an NVML GPM metric, a row of Nsight Systems, a column of
nvidia-smi, an OpenTelemetry name; and the ones that are often quoted but exist on no chip.
For those it says so, and gives the counter that answers the question behind them.

Sources: DCGM's dcgm_fields.h (the names before and after 4.6), nvml.h, the row names that
Nsight Systems writes, `nvidia-smi --help-query-gpu`, and CUPTI's catalogue for Turing to Rubin.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from perfzero.counters import BY_NAME, COUNTERS, Counter
from perfzero.words.said import joined, listed, say


@dataclass(frozen=True, slots=True)
class Resolution:
    """
    What a name means.

    `counter` is None for a name that is understood but answered by no counter, and for an
    unknown one; `known` tells the two apart. `note` is one sentence or two, empty where nothing
    needs saying. `nearest` holds known names that look like an unknown one, best first.
    """

    asked: str
    counter: Counter | None
    note: str
    known: bool = True
    nearest: tuple[str, ...] = ()


# --- other tools' names --------------------------------------------------------------------

DCGM_FIELDS: Mapping[int, tuple[str, ...]] = {
    100: ("DCGM_FI_DEV_SM_CLOCK",),
    101: ("DCGM_FI_DEV_MEM_CLOCK",),
    112: ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"),
    150: ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", "DCGM_FI_DEV_GPU_TEMP"),
    155: ("DCGM_FI_DEV_BOARD_POWER_WATTS", "DCGM_FI_DEV_POWER_USAGE"),
    156: ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",),
    203: ("DCGM_FI_DEV_GPU_UTIL_RATIO", "DCGM_FI_DEV_GPU_UTIL"),
    237: ("DCGM_FI_DEV_PCIE_LINK_GEN",),
    238: ("DCGM_FI_DEV_PCIE_LINK_WIDTH",),
    252: ("DCGM_FI_DEV_FB_USED",),
    311: ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",),
    1001: ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    1002: ("DCGM_FI_PROF_SM_UTIL_RATIO", "DCGM_FI_PROF_SM_ACTIVE"),
    1003: ("DCGM_FI_PROF_SM_OCCUPANCY_RATIO", "DCGM_FI_PROF_SM_OCCUPANCY"),
    1004: ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
    1005: ("DCGM_FI_PROF_DRAM_UTIL_RATIO", "DCGM_FI_PROF_DRAM_ACTIVE"),
    1006: ("DCGM_FI_PROF_FP64_UTIL_RATIO", "DCGM_FI_PROF_PIPE_FP64_ACTIVE"),
    1007: ("DCGM_FI_PROF_FP32_UTIL_RATIO", "DCGM_FI_PROF_PIPE_FP32_ACTIVE"),
    1008: ("DCGM_FI_PROF_FP16_UTIL_RATIO", "DCGM_FI_PROF_PIPE_FP16_ACTIVE"),
    1009: ("DCGM_FI_PROF_PCIE_TX_BYTES",),
    1010: ("DCGM_FI_PROF_PCIE_RX_BYTES",),
    1011: ("DCGM_FI_PROF_NVLINK_TX_BYTES",),
    1012: ("DCGM_FI_PROF_NVLINK_RX_BYTES",),
    1013: ("DCGM_FI_PROF_IMMA_UTIL_RATIO", "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE"),
    1014: ("DCGM_FI_PROF_HMMA_UTIL_RATIO", "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE"),
    1015: ("DCGM_FI_PROF_DFMA_UTIL_RATIO", "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE"),
    1016: ("DCGM_FI_PROF_INT_UTIL_RATIO", "DCGM_FI_PROF_PIPE_INT_ACTIVE"),
    1076: ("DCGM_FI_PROF_C2C_TX_ALL_BYTES",),
    1078: ("DCGM_FI_PROF_C2C_RX_ALL_BYTES",),
}
"""The DCGM fields of the vocabulary: id -> its names, today's first."""

GPM_METRICS: Mapping[int, str] = {
    1: "NVML_GPM_METRIC_GRAPHICS_UTIL",
    2: "NVML_GPM_METRIC_SM_UTIL",
    3: "NVML_GPM_METRIC_SM_OCCUPANCY",
    4: "NVML_GPM_METRIC_INTEGER_UTIL",
    5: "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
    7: "NVML_GPM_METRIC_HMMA_TENSOR_UTIL",
    8: "NVML_GPM_METRIC_DMMA_TENSOR_UTIL",
    9: "NVML_GPM_METRIC_IMMA_TENSOR_UTIL",
    10: "NVML_GPM_METRIC_DRAM_BW_UTIL",
    11: "NVML_GPM_METRIC_FP64_UTIL",
    12: "NVML_GPM_METRIC_FP32_UTIL",
    13: "NVML_GPM_METRIC_FP16_UTIL",
    20: "NVML_GPM_METRIC_PCIE_TX_PER_SEC",
    21: "NVML_GPM_METRIC_PCIE_RX_PER_SEC",
    60: "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC",
    61: "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC",
    100: "NVML_GPM_METRIC_C2C_TOTAL_TX_PER_SEC",
    101: "NVML_GPM_METRIC_C2C_TOTAL_RX_PER_SEC",
}
"""The NVML GPM metrics of the vocabulary: nvmlGpmMetricId_t -> its name."""


@dataclass(frozen=True, slots=True)
class Alias:
    """A name that needs a word of explanation, and the counter that answers it (None: no counter does)."""

    name: str
    counter: str | None
    note: str


_SMI = say("alias.smi")
_MEM_COPY = say("alias.mem_copy")
_FLOP = say("alias.flop")
_SASS = joined("join.sentences", [say("alias.sass"), _FLOP])
_NO_SUCH = joined("join.sentences", [say("alias.no_such"), _FLOP])
_TENSOR = say("alias.no_such_tensor")
_L2 = say("alias.l2_operations")
_BIT = say("alias.bit")
_NO_TLB = say("alias.no_tlb")

ALIASES: tuple[Alias, ...] = (
    # legacy events, and names often quoted that never existed
    Alias("inst_executed", "sm_issue", say("alias.legacy_today", name="sm__inst_executed")),
    Alias("inst_issued", "sm_issue", say("alias.legacy_today", name="sm__inst_issued")),
    Alias("inst_issued1", "sm_issue", say("alias.legacy_today", name="sm__inst_issued")),
    Alias("inst_issued2", "sm_issue", say("alias.legacy_dual")),
    Alias("active_warps", "warps_active", say("alias.legacy")),
    Alias("active_cycles", "sm_active", say("alias.legacy_elapsed")),
    Alias("elapsed_cycles_sm", "gpc_clock", say("alias.legacy_clock")),
    Alias("sm__inst_executed", "sm_issue", say("alias.of_issue_peak")),
    Alias("smsp__inst_executed", "sm_issue", say("alias.of_issue_peak")),
    Alias("sm__inst_issued", "sm_issue", say("alias.replays")),
    Alias("sm__cycles_elapsed", "sm_active", say("alias.denominator", counter="sm_active")),
    Alias("sm__active_cycles", "sm_active", say("alias.no_such_meant", name="sm__cycles_active")),
    Alias("gr__cycles_elapsed", "gr_active", say("alias.denominator", counter="gr_active")),
    Alias("gpu__time_active", "gr_active", say("alias.of_time")),
    Alias(
        "l1_tex__t_sectors_op_read",
        None,
        say("alias.no_such_l1"),
    ),
    Alias(
        "l1tex__t_sectors_op_read",
        None,
        say("alias.refused_l1"),
    ),
    Alias("lts__t_sectors_op_read", "l2_sectors", _L2),
    Alias("lts__t_sectors_op_write", "l2_sectors", _L2),
    Alias(
        "lts__t_sectors",
        "l2_sectors",
        say("alias.l2_divided"),
    ),
    Alias("lts__t_bytes", "l2_sectors", say("alias.sector")),
    Alias("lts__t_sector_hit_rate", "l2_hit", say("alias.l2_two_passes")),
    Alias(
        "lts__average_t_sector_op_read_lookup_hit",
        "l2_hit",
        say("alias.l2_two_passes"),
    ),
    *(
        Alias(f"{unit}__sass_thread_inst_executed_op_{op}_pred_on", counter, _SASS)
        for unit in ("sm", "smsp")
        for op, counter in (
            ("fadd", "fma_active"),
            ("fmul", "fma_active"),
            ("ffma", "fma_active"),
            ("dadd", "fp64_active"),
            ("dmul", "fp64_active"),
            ("dfma", "fp64_active"),
            ("hadd", "fma_active"),
            ("hmul", "fma_active"),
            ("hfma", "fma_active"),
        )
    ),
    *(
        Alias(f"sm__inst_executed_op_{op}_pred_on", counter, _NO_SUCH)
        for op, counter in (
            ("fadd", "fma_active"),
            ("fmul", "fma_active"),
            ("ffma", "fma_active"),
            ("dadd", "fp64_active"),
            ("dmul", "fp64_active"),
            ("dfma", "fp64_active"),
        )
    ),
    Alias("sm__inst_executed_op_tensor_fma", "tensor_active", _TENSOR),
    Alias("sm__inst_executed_op_tensor_wmma", "tensor_active", _TENSOR),
    Alias("sm__inst_executed_op_tensor_fma_wmma", "tensor_active", _TENSOR),
    Alias("sm__inst_executed_op_wmma", "tensor_active", _TENSOR),
    Alias("sm__inst_executed_op_tensor_fma_h100", "tensor_active", _TENSOR),
    Alias(
        "sm__inst_executed_pipe_tensor",
        "tensor_active",
        say("alias.tensor_two_passes"),
    ),
    Alias(
        "sm__inst_executed_pipe_tensor_op_hmma",
        "tensor_fp_active",
        say("alias.tensor_no_gmma"),
    ),
    Alias("sm__inst_executed_pipe_tensor_op_imma", "tensor_int_active", say("alias.cycles")),
    Alias("sm__inst_executed_pipe_tensor_op_dmma", "tensor_fp64_active", say("alias.cycles")),
    Alias(
        "sm__inst_executed_pipe_tensor_op_gmma",
        "tensor_active",
        say("alias.tensor_gmma"),
    ),
    Alias("sm__pipe_tensor_cycles_active", "tensor_active", say("alias.realtime")),
    Alias("pcie__bytes", None, say("alias.no_such_pcie")),
    Alias("pcie__bytes_read", "pcie_rx_bytes", say("alias.no_such_meant", name="pcie__read_bytes")),
    Alias("pcie__bytes_write", "pcie_tx_bytes", say("alias.no_such_meant", name="pcie__write_bytes")),
    Alias("pcie__bytes_rx", "pcie_rx_bytes", say("alias.no_such_meant", name="pcie__read_bytes")),
    Alias("pcie__bytes_tx", "pcie_tx_bytes", say("alias.no_such_meant", name="pcie__write_bytes")),
    Alias("dram__bytes", None, say("alias.dram_two")),
    Alias("dram__throughput", "dram_active", say("alias.dram_pm")),
    Alias("dram__read_throughput", "dram_read_bytes", say("alias.of_peak")),
    Alias("dram__write_throughput", "dram_write_bytes", say("alias.of_peak")),
    # what perfzero and others have called things
    Alias("occupancy", "warps_active", say("alias.occupancy")),
    Alias("warps_inflight", "warps_active", ""),
    Alias("kernel_launches", "launches", ""),
    Alias(
        "host_starved",
        "queue_empty",
        say("alias.queue"),
    ),
    Alias(
        "tlb",
        None,
        joined("join.sentences", [_NO_TLB, say("alias.scattered")]),
    ),
    Alias("tlb_miss", None, _NO_TLB),
    # Nsight Systems: rows that are parts of a counter, and older spellings
    Alias("SM Active", "sm_active", ""),
    Alias("DRAM Read Throughput", "dram_read_bytes", ""),
    Alias("DRAM Write Throughput", "dram_write_bytes", ""),
    Alias("Tensor Active / FP16 Active", "tensor_active", say("alias.turing")),
    *(
        Alias(f"NVLink {way} {what} {kind} Data", f"nvlink_{way.lower()}_bytes", say("alias.part"))
        for way in ("RX", "TX")
        for what in ("Requests", "Responses")
        for kind in ("User", "Protocol")
    ),
    Alias(
        "NVML_GPM_METRIC_DFMA_TENSOR_UTIL",
        "tensor_fp64_active",
        say("alias.beside", name="NVML_GPM_METRIC_DMMA_TENSOR_UTIL"),
    ),
    Alias("NVLink RX Bandwidth", "nvlink_rx_bytes", ""),
    Alias("NVLink TX Bandwidth", "nvlink_tx_bytes", ""),
    # nvidia-smi --query-gpu
    Alias("utilization.gpu", "smi_utilization", _SMI),
    Alias("gpu-util", "smi_utilization", _SMI),
    Alias("utilization.memory", None, _MEM_COPY),
    Alias("DCGM_FI_DEV_MEM_COPY_UTIL", None, _MEM_COPY),
    Alias("clocks.sm", "sm_clock", say("alias.measured_clock")),
    Alias("clocks.current.sm", "sm_clock", say("alias.measured_clock")),
    Alias("clocks.gr", "sm_clock", say("alias.measured_clock")),
    Alias("clocks.mem", "memory_clock", ""),
    Alias("clocks.current.memory", "memory_clock", ""),
    Alias("power.draw", "power", ""),
    Alias("temperature.gpu", "temperature", ""),
    Alias("memory.used", "memory_used", ""),
    Alias("pcie.link.gen.current", "pcie_generation", ""),
    Alias("pcie.link.width.current", "pcie_width", ""),
    Alias("ecc.errors.uncorrected.volatile.total", "ecc_uncorrected", ""),
    *(
        Alias(f"{prefix}.{bit}", counter, _BIT)
        for prefix in ("clocks_event_reasons", "clocks_throttle_reasons")
        for bit, counter in (
            ("sw_power_cap", "capped_power"),
            ("sw_thermal_slowdown", "capped_thermal"),
            ("hw_thermal_slowdown", "capped_thermal"),
            ("hw_slowdown", "capped_hardware"),
            ("hw_power_brake_slowdown", "capped_hardware"),
        )
    ),
)


# --- resolving -----------------------------------------------------------------------------


def resolve(name: str) -> Resolution:
    """
    What *name* means: a counter, a note, or the nearest names that are known.

    Case, surrounding blanks, CUPTI's suffixes (".sum.per_second") and set prefixes
    ("TPC.TriageCompute."), and the units that Nsight Systems puts in brackets do not matter.
    """
    asked = name.strip()
    key = asked.lower()
    found = _canonical(key) or _explained(key) or _numbered(key) or _elsewhere(key) or _trimmed(key)
    if found is None:
        unknown = say("alias.unknown")
        return Resolution(asked, None, unknown, known=False, nearest=nearest_names(asked))
    counter, note = found
    return Resolution(asked, counter, note)


def nearest_names(name: str, *, count: int = 5) -> tuple[str, ...]:
    """At most *count* known names that look like *name*, best first."""
    spelling = {n.lower(): n for n in known_names()}
    found = difflib.get_close_matches(name.strip().lower(), spelling, n=count, cutoff=0.6)
    return tuple(spelling[f] for f in found)


def known_names() -> tuple[str, ...]:
    """Every name that `resolve` knows as it stands, ours first."""
    names: list[str] = [c.name for c in COUNTERS]
    names += [metric for c in COUNTERS for metric in c.cupti]
    names += [field for fields in DCGM_FIELDS.values() for field in fields]
    names += GPM_METRICS.values()
    names += [row for c in COUNTERS for row in (c.nsight, c.otel) if row]
    names += [a.name for a in ALIASES]
    return tuple(dict.fromkeys(names))


_Found = tuple[Counter | None, str]


def _canonical(key: str) -> _Found | None:
    counter = BY_NAME.get(key)
    return None if counter is None else (counter, "")


def _explained(key: str) -> _Found | None:
    for alias in ALIASES:
        if alias.name.lower() == key:
            return (BY_NAME[alias.counter] if alias.counter else None), alias.note
    return None


def _numbered(key: str) -> _Found | None:
    """A DCGM field by number or name, a GPM metric by name."""
    for field, names in DCGM_FIELDS.items():
        if key == str(field) or key in (n.lower() for n in names):
            note = say("alias.dcgm", field=field, name=names[0])
            return _among((c for c in COUNTERS if c.dcgm == field), note=note)
    for metric, title in GPM_METRICS.items():
        if key == title.lower():
            return _among((c for c in COUNTERS if c.gpm == metric), note=say("alias.gpm", metric=metric))
    return None


def _elsewhere(key: str) -> _Found | None:
    """A metric of CUPTI, a row of Nsight Systems, a name of OpenTelemetry, just as they stand."""
    by_metric = [c for c in COUNTERS if key in (m.lower() for m in c.cupti)]
    by_row = [c for c in COUNTERS if c.nsight and key == c.nsight.lower()]
    by_otel = [c for c in COUNTERS if c.otel and key == c.otel.lower()]
    if by_metric:
        return _among(by_metric, note=say("alias.cupti"))
    if by_row:
        return _among(by_row, note=say("alias.nsight"))
    return _among(by_otel, note=say("alias.otel")) if by_otel else None


def _trimmed(key: str) -> _Found | None:
    """The same once more without units, unit numbers, suffixes and set prefixes."""
    row = re.sub(r"(\s+\d+)?\s*(\[[^\]]*\])?$", "", key)
    if row != key:
        for known in (row, f"{row} 0"):
            found = _explained(known) or _elsewhere(known)
            if found:
                return found
    base = _base(key)
    if base is None:
        return None
    ladder = [c for c in COUNTERS if base in (_base(m.lower()) for m in c.cupti)]
    return _explained(base) or (_among(ladder, note=say("alias.cupti")) if ladder else None)


def _base(metric: str) -> str | None:
    """sm__cycles_active of TPC.TriageCompute.sm__cycles_active.avg; None if *metric* is none of CUPTI's."""
    return next((part for part in metric.split(".") if re.fullmatch(r"\w+__\w+", part)), None)


def _among(counters: Iterable[Counter], *, note: str) -> _Found:
    """The first of *counters*; the note names the others that share the name."""
    first, *others = counters
    if others:
        also = say("alias.also", names=listed(c.name for c in others))
        return first, joined("join.sentences", [note, also])
    return first, note
