"""
Every figure of a diagnosis, by the name of its row in summary.csv.

Canonical rows first; then the rows of the document that asked for this tool, under the metric
names it uses, each with the value that name really stands for and the status of the right
direction: many L2 sectors per DRAM byte are good (science.md §1.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from perfzero.counters import BY_NAME, SECTOR_BYTES, Unit
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.gain import uses
from perfzero.diagnose.thresholds import (
    AMPLIFICATION_BAD,
    AMPLIFICATION_WATCH,
    BOUND,
    CLOCK_LOW,
    DEAD_COUNTER,
    FMA_HEAVY,
    GR_GOOD,
    HIT_LOW,
    LATENCY_WATCH,
    LINK_FULL,
    SM_DOCUMENT,
    SM_GOOD,
    TENSOR_STARVED,
    TENSOR_UNUSED,
    TINY_KERNEL,
    Threshold,
)
from perfzero.diagnose.verdict import Fact, Status
from perfzero.series.gaps import find_gaps
from perfzero.series.serving import find_serving
from perfzero.series.stats import total, weighted_mean
from perfzero.series.steps import NoSteps, Steps
from perfzero.text import percent
from perfzero.words.said import say

FactUnit = Unit | Literal["bytes/s", "flop/s", "count/s", "hours", ""]
HOURS_PER_DAY = 24.0
NOT_MEASURED = say("fact.not_measured")

HOST = (
    "host_main_cpu",
    "host_tree_cpu",
    "host_workers",
    "host_worker_cpu",
    "host_io_wait",
    "host_runqueue_wait",
    "host_throttled",
    "host_cpu_busy",
)


def all_facts(e: Evidence) -> dict[str, Fact]:
    """Everything measured of one GPU, by name, in the order of summary.csv."""
    return {fact.name: fact for fact in (*_canonical(e), *_literal(e))}


def plain(name: str, value: float, unit: FactUnit, text: str = "") -> Fact:
    """A figure of which nothing is demanded."""
    if math.isfinite(value):
        return Fact(name, float(value), unit, "info", text=text)
    return Fact(name, math.nan, unit, "unknown", text=text or NOT_MEASURED)


def at_least(
    name: str, value: float, unit: FactUnit, limit: Threshold, *, below: Status = "bad", text: str = ""
) -> Fact:
    """A figure that should reach *limit*."""
    return _held(name, value, unit, "≥", limit, value >= limit.value, below, value / limit.value - 1.0, text)


def at_most(
    name: str, value: float, unit: FactUnit, limit: Threshold, *, above: Status = "bad", text: str = ""
) -> Fact:
    """A figure that should not exceed *limit*."""
    return _held(name, value, unit, "≤", limit, value <= limit.value, above, 1.0 - value / limit.value, text)


def _held(
    name: str,
    value: float,
    unit: FactUnit,
    sign: str,
    limit: Threshold,
    good: bool,
    otherwise: Status,
    margin: float,
    text: str,
) -> Fact:
    words = f"{sign} {limit.value:g}"
    if not math.isfinite(value):
        return Fact(name, math.nan, unit, "unknown", words, None, text or NOT_MEASURED)
    return Fact(name, float(value), unit, "ok" if good else otherwise, words, float(margin), text)


def _canonical(e: Evidence) -> Iterator[Fact]:
    yield at_least("gr_active", e.level("gr_active"), "ratio", GR_GOOD)
    yield at_least("sm_active", e.level("sm_active"), "ratio", SM_GOOD, below="watch")
    yield tensor_fact(e)
    yield tensor_busy_fact(e)
    yield plain("fma_active", e.level("fma_active"), "ratio")
    fp32 = e.level("fp32_active")
    yield plain("fp32_active", fp32, "ratio", say("fact.fp32") if math.isfinite(fp32) else "")
    yield plain("fp64_active", e.level("fp64_active"), "ratio")
    yield plain("sm_issue", e.level("sm_issue"), "ratio")
    yield plain("warps_active", e.level("warps_active"), "ratio")
    yield plain("dram_read_bytes_per_s", e.level("dram_read_bytes"), "bytes/s")
    yield plain("dram_write_bytes_per_s", e.level("dram_write_bytes"), "bytes/s")
    yield at_least("nearest_roof_share", nearest_roof(e), "ratio", BOUND, below="watch", text=NEAREST)
    yield at_most("dram_roof_share", e.dram_share, "ratio", BOUND, above="watch", text=say("fact.of_roof"))
    yield hit_fact(e)
    yield plain(
        "l2_read_bytes_per_dram_byte",
        e.reuse,
        "",
        say("fact.reuse"),
    )
    yield amplification_fact(e, "dram_amplification")
    yield plain("pcie_rx_bytes_per_s", e.level("pcie_rx_bytes"), "bytes/s")
    yield plain("pcie_tx_bytes_per_s", e.level("pcie_tx_bytes"), "bytes/s")
    yield at_most("pcie_link_share", e.pcie_share, "ratio", LINK_FULL, above="watch")
    yield plain("nvlink_rx_bytes_per_s", e.level("nvlink_rx_bytes"), "bytes/s")
    yield plain("nvlink_tx_bytes_per_s", e.level("nvlink_tx_bytes"), "bytes/s")
    yield plain("ce_active", e.level("ce_active"), "ratio")
    yield plain("launches_per_s", e.level("launches"), "count/s")
    yield at_least("mean_kernel_s", e.mean_kernel_s, "seconds", TINY_KERNEL, below="watch")
    yield plain("queue_empty", e.level("queue_empty"), "ratio", say("fact.queue_empty"))
    yield plain("ctxsw", e.level("ctxsw"), "ratio")
    yield clock_fact(e)
    yield plain("power", e.level("power"), "watts")
    yield plain("temperature", e.level("temperature"), "celsius")
    yield plain("capped_power", e.level("capped_power"), "ratio")
    yield plain("capped_thermal", e.level("capped_thermal"), "ratio")
    yield plain("smi_utilization", e.level("smi_utilization"), "ratio", say("fact.smi"))
    yield plain("memory_used", e.level("memory_used"), "bytes")
    yield plain("tensor_flop_utilization", tensor_flop_utilization(e), "ratio", say("fact.of_peak"))
    yield plain("step_s", e.step_s if e.step_s is not None else math.nan, "seconds", _no_step(e))
    yield from _rhythm(e)
    yield plain("energy_per_step", energy_per_step(e), "joules", _no_step(e))
    yield plain(
        "gpu_hours_wasted",
        HOURS_PER_DAY * e.share("idle", "copy", "communication"),
        "hours",
        say("fact.per_day"),
    )
    for name in HOST:
        yield plain(name, e.level(name), BY_NAME[name].unit)


NEAREST = say("fact.nearest")


def nearest_roof(e: Evidence) -> float:
    """The highest use, over all time, that DRAM, the tensor or the FP32 pipes make of their roofs."""
    used = [use for name, use in uses(e).items() if name != "pcie"]
    return max(used, default=math.nan)


def tensor_fact(e: Evidence) -> Fact:
    """Tensor activity; to be unused is bad only where FP32 or FP64 pipes do heavy work instead."""
    tensor = e.level("tensor_active")
    heavy = float(np.fmax(e.while_busy(e.fma_pipe), e.while_busy("fp64_active"))) >= FMA_HEAVY.value
    if heavy and tensor < TENSOR_UNUSED.value:
        return at_least("tensor_active", tensor, "ratio", TENSOR_UNUSED, text=say("fact.unused"))
    return plain("tensor_active", tensor, "ratio")


def tensor_busy_fact(e: Evidence) -> Fact:
    """Tensor activity while the GPU is busy; to be low is off only where nothing else binds."""
    name, value = "tensor_while_busy", e.while_busy("tensor_active")
    starved = value >= TENSOR_UNUSED.value and e.share("latency") >= LATENCY_WATCH.value
    if starved or value >= TENSOR_STARVED.value:
        return at_least(name, value, "ratio", TENSOR_STARVED, below="watch")
    return plain(name, value, "ratio")


def dram_is_busy(e: Evidence) -> bool:
    """Whether DRAM is near enough to its roof for reuse to matter."""
    return e.dram_share >= BOUND.value


def hit_fact(e: Evidence) -> Fact:
    """The L2 hit rate; a low one matters only while DRAM is busy."""
    if dram_is_busy(e):
        return at_least("l2_hit", e.l2_hit, "ratio", HIT_LOW, below="watch")
    return plain("l2_hit", e.l2_hit, "ratio", "" if math.isfinite(e.l2_hit) else NOT_MEASURED)


def amplification_fact(e: Evidence, name: str) -> Fact:
    """DRAM bytes read per byte the SMs asked of the L2: about the miss rate, high is bad if DRAM is busy."""
    reuse = e.reuse
    value = 1.0 / reuse if reuse > 0 else math.nan
    text = say("fact.amplification")
    if not dram_is_busy(e):
        return plain(name, value, "", text if math.isfinite(value) else NOT_MEASURED)
    if value > AMPLIFICATION_BAD.value:
        return at_most(name, value, "", AMPLIFICATION_BAD, text=text)
    return at_most(name, value, "", AMPLIFICATION_WATCH, above="watch", text=text)


def clock_fact(e: Evidence) -> Fact:
    """The measured SM clock against its maximum."""
    clock, most = e.clock_hz, e.gpu.sm_clock_max_hz
    if not most or not clock > 0:
        return plain("gpc_clock", clock, "hertz")
    lowest = CLOCK_LOW.value * most
    good = clock >= lowest
    return Fact(
        "gpc_clock", clock, "hertz", "ok" if good else "watch", f"≥ {lowest:.4g}", clock / lowest - 1.0
    )


def tensor_flop_utilization(e: Evidence) -> float:
    """
    Tensor work as a share of the peak at the highest clock, as model FLOP utilisation counts it.

    Sum of tensor_active x measured clock x time, over the same with 1 and the highest clock:
    percentages per cycle become time only with the clock they were taken at.
    """
    most = e.gpu.sm_clock_max_hz
    tensor = e.long.column("tensor_active")
    clock = e.long.column("gpc_clock")
    if not np.isfinite(clock).any():
        clock = np.full(len(e.long), e.clock_hz)
    return weighted_mean(tensor * clock, e.long.duration_s) / most if most else math.nan


def energy_per_step(e: Evidence) -> float:
    """Joules the board took per step; NaN without a step time."""
    if e.step_s is None:
        return math.nan
    energy = e.board.column("energy")
    seconds = float(np.sum(e.board.duration_s[np.isfinite(energy)]))
    power = total(e.board, "energy") / seconds if seconds > 0 else e.level("power")
    return power * e.step_s


def _rhythm(e: Evidence) -> Iterator[Fact]:
    """How steps scatter, and what the idle time is made of."""
    steps = e.steps if isinstance(e.steps, Steps) else None
    micro = None if steps is None else steps.micro_s
    yield plain("step_jitter", math.nan if steps is None else steps.jitter, "ratio", _no_step(e))
    yield plain("micro_step_s", math.nan if micro is None else micro, "seconds", say("fact.no_micro_step"))
    gaps = find_gaps(e.long) if e.tier == "pm" else None
    seen = gaps is not None and len(gaps.idle) > 0
    why = "" if seen else say("fact.no_gap")
    for name, share in (("idle_gap_median_s", 0.5), ("idle_gap_p95_s", 0.95)):
        yield plain(
            name, gaps.idle.quantile(share) if gaps is not None and seen else math.nan, "seconds", why
        )
    yield plain(
        "idle_unresolved",
        math.nan if gaps is None else gaps.unresolved_share,
        "ratio",
        say("fact.unresolved"),
    )
    serving = find_serving(e.long, dram_roof=e.roofs.dram) if e.tier == "pm" and steps is None else None
    if serving is not None:
        yield plain("prefill_share", serving.prefill_share, "ratio", say("fact.prefill"))
        yield plain("decode_share", serving.decode_share, "ratio", say("fact.decode"))


def _no_step(e: Evidence) -> str:
    return e.steps.reason if isinstance(e.steps, NoSteps) else ""


def _literal(e: Evidence) -> Iterator[Fact]:
    """The asking document's rows under its names."""
    sectors = say("fact.sectors")
    reuse = amplification_fact(e, "")
    direction = say("fact.direction", sectors=sectors, bytes=SECTOR_BYTES)
    yield Fact(
        "lts__t_sectors_op_read.sum/dram__bytes_read.sum",
        e.reuse / SECTOR_BYTES,
        "",
        reuse.status,
        None if reuse.threshold is None else f"≥ {1.0 / AMPLIFICATION_WATCH.value / SECTOR_BYTES:g}",
        reuse.margin,
        direction if math.isfinite(e.reuse) else NOT_MEASURED,
    )
    yield at_least(
        "sm__cycles_active.avg/sm__cycles_elapsed.avg",
        e.level("sm_active"),
        "ratio",
        SM_DOCUMENT,
        below="watch",
        text=say("fact.stalled_warp"),
    )
    yield plain("dram__bytes_read.sum.per_second", e.level("dram_read_bytes"), "bytes/s")
    yield plain("dram__bytes_write.sum.per_second", e.level("dram_write_bytes"), "bytes/s")
    yield plain("pcie__read_bytes.sum.per_second", e.level("pcie_rx_bytes"), "bytes/s")
    yield plain("pcie__write_bytes.sum.per_second", e.level("pcie_tx_bytes"), "bytes/s")
    yield _tensor_instructions(e)
    yield plain("utilization.gpu", e.level("smi_utilization"), "ratio", say("fact.smi_figure"))


def _tensor_instructions(e: Evidence) -> Fact:
    """Instructions cannot be counted beside the rest, but no active cycle means no instruction."""
    name = "sm__inst_executed_pipe_tensor.sum"
    tensor = e.level("tensor_active")
    if tensor < DEAD_COUNTER.value:
        return Fact(name, 0.0, "count", tensor_fact(e).status, text=say("fact.tensor_never"))
    text = NOT_MEASURED
    if math.isfinite(tensor):
        text = say("fact.second_pass", share=percent(tensor))
    return Fact(name, math.nan, "count", "unknown", text=text)
