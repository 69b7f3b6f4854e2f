"""
The four questions, in the order in which they are worth asking.

    1 idle?     is the GPU waiting, or is the load small by nature?
    2 bound by  which resource is nearest its practical roof while the GPU is busy?
    3 level     where do the bytes come from: L2, DRAM, PCIe, NVLink?
    4 tensor    does the work that can use tensor cores use them?
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.facts import at_most
from perfzero.diagnose.rules.compute import fp32_path, fp64_path, tensor_starved
from perfzero.diagnose.split import BUSY_CLASSES
from perfzero.diagnose.thresholds import (
    AMPLIFICATION_BAD,
    BOUND,
    COMM_WATCH,
    COMPUTE_WATCH,
    IDLE_WATCH,
    LINK_FULL,
    MEMORY_WATCH,
    NO_WORK,
    SMALL_GRID,
    TENSOR_UNUSED,
    Threshold,
)
from perfzero.diagnose.verdict import Fact, Status, StepAnswer, TimeClass
from perfzero.text import count, duration, percent, quantity

QUESTIONS = ("idle?", "bound by", "level", "tensor")

SHORT_NAMES: Mapping[TimeClass, str] = {
    "communication": "links",
    "memory": "memory",
    "tensor": "tensor",
    "fma": "FP32 pipe",
    "small_grid": "small grids",
    "latency": "latency",
}


def short_name(e: Evidence, name: TimeClass) -> str:
    """The class in a word or two; the pipe by the type it computes in."""
    if name == "fma" and e.level("fp64_active") > e.level("fma_active"):
        return "FP64 pipe"
    return SHORT_NAMES[name]


def answer_all(e: Evidence, facts: Mapping[str, Fact]) -> tuple[StepAnswer, ...]:
    """The answers to the four questions, from evidence that passed the gates."""
    return is_idle(e, facts), bound_by(e, facts), which_level(e, facts), tensor_cores(e, facts)


def is_idle(e: Evidence, facts: Mapping[str, Fact]) -> StepAnswer:
    """Step 1: true idleness against small kernels; SM activity alone cannot tell them apart."""
    names = ("gr_active", "sm_active", "mean_kernel_s", "launches_per_s", "smi_utilization")
    shown = _pick(facts, *names)
    waiting, small = e.share("idle", "copy"), e.share("small_grid")
    if math.isnan(waiting):
        idle = 1.0 - e.level("smi_utilization")
        if math.isnan(idle):
            return StepAnswer(1, QUESTIONS[0], "unknown", "unknown", "nothing was measured", shown)
        yes = idle >= IDLE_WATCH.value
        text = (
            f"nvidia-smi saw kernels {percent(1.0 - idle)} of the time; how busy they kept the GPU is unknown"
        )
        return StepAnswer(
            1, QUESTIONS[0], "yes" if yes else "unknown", "bad" if yes else "unknown", text, shown
        )
    active, sm = e.level("gr_active"), e.level("sm_active")
    text = f"active {percent(active)} of the time"
    if math.isfinite(sm):
        text += f", SMs {percent(sm)}"
    if math.isfinite(e.mean_kernel_s):
        text += f" · {count(e.level('launches'))} kernels/s of {duration(e.mean_kernel_s)} each"
    if waiting >= IDLE_WATCH.value:
        return StepAnswer(1, QUESTIONS[0], "yes", "bad", text, shown)
    if small >= COMPUTE_WATCH.value and sm < SMALL_GRID.value * active:
        return StepAnswer(
            1,
            QUESTIONS[0],
            "small load",
            "watch",
            f"{text} · busy, but with small kernels",
            _pick(facts, "sm_active", *names),
        )
    return StepAnswer(1, QUESTIONS[0], "no", "ok", text, shown)


def bound_by(e: Evidence, facts: Mapping[str, Fact]) -> StepAnswer:
    """Step 2: the class that takes most of the busy time, each resource against its practical roof."""
    shown = _pick(
        facts,
        "nearest_roof_share",
        "dram_roof_share",
        "tensor_active",
        "fma_active",
        "fp64_active",
        "gpc_clock",
        "tensor_flop_utilization",
    )
    if e.split is None:
        return StepAnswer(2, QUESTIONS[1], "unknown", "unknown", "needs hardware counters", shown)
    if e.level("gr_active") < NO_WORK.value:
        return StepAnswer(2, QUESTIONS[1], "nothing", "info", _hardly_active(e), shown)
    busy = {c: e.split.shares[c] for c in BUSY_CLASSES}
    whole = sum(busy.values())
    if not whole > 0:
        return StepAnswer(2, QUESTIONS[1], "unknown", "unknown", "the GPU was never active", shown)
    ranked = sorted(((s / whole, c) for c, s in busy.items()), reverse=True)
    told = [f"{short_name(e, c)} {percent(s)}" for s, c in ranked if s >= COMM_WATCH.value]
    share, name = ranked[0]
    answer = short_name(e, name) if share >= BOUND.value else f"mostly {short_name(e, name)}"
    status: Status = "ok" if name == "tensor" else "watch"
    return StepAnswer(2, QUESTIONS[1], answer, status, f"while active: {', '.join(told)}", shown)


def which_level(e: Evidence, facts: Mapping[str, Fact]) -> StepAnswer:
    """Step 3: the level of the memory hierarchy that holds the kernels up, if one does."""
    shown = _pick(
        facts,
        "dram_roof_share",
        "l2_hit",
        "l2_read_bytes_per_dram_byte",
        "dram_amplification",
        "dram_read_bytes_per_s",
        "dram_write_bytes_per_s",
        "pcie_rx_bytes_per_s",
        "pcie_tx_bytes_per_s",
        "pcie_link_share",
        "nvlink_rx_bytes_per_s",
        "nvlink_tx_bytes_per_s",
    )
    if e.split is None:
        return StepAnswer(3, QUESTIONS[2], "unknown", "unknown", "needs hardware counters", shown)
    words = []
    if math.isfinite(e.l2_hit):
        words.append(f"L2 hit {percent(e.l2_hit)}")
    if math.isfinite(e.dram_bytes_per_s):
        words.append(f"DRAM {quantity(e.dram_bytes_per_s, 'bytes/s')} of {quantity(e.roofs.dram, 'bytes/s')}")
    down, up = e.level("pcie_rx_bytes"), e.level("pcie_tx_bytes")
    if math.isfinite(down) or math.isfinite(up):
        most = max((v for v in (down, up) if math.isfinite(v)), default=math.nan)
        words.append(f"PCIe {quantity(most, 'bytes/s')} of {quantity(e.roofs.pcie, 'bytes/s')}")
    if e.level("nvlink_rx_bytes") > 0:
        words.append(f"NVLink {quantity(e.level('nvlink_rx_bytes'), 'bytes/s')}")
    text = " · ".join(words) if words else "no memory counter here"
    answer, status, why = _level(e, facts)
    return StepAnswer(3, QUESTIONS[2], answer, status, text, (*why, *(f for f in shown if f not in why)))


def _level(e: Evidence, facts: Mapping[str, Fact]) -> tuple[str, Status, tuple[Fact, ...]]:
    """The level, how serious that is, and the fact that decided."""

    def time(name: TimeClass, limit: Threshold) -> tuple[Fact, ...]:
        return (at_most(f"time_{name}", e.share(name), "ratio", limit, above="watch"),)

    if e.share("communication") >= COMM_WATCH.value:
        level = "NVLink" if e.level("nvlink_rx_bytes") > 0 else "PCIe"
        return level, "watch", time("communication", COMM_WATCH)
    if e.share("copy") >= IDLE_WATCH.value:
        return "PCIe", "bad", time("copy", IDLE_WATCH)
    if e.pcie_share >= LINK_FULL.value:
        return "PCIe", "bad", _pick(facts, "pcie_link_share")
    if math.isnan(e.dram_share):
        return "unknown", "unknown", ()
    memory = time("memory", MEMORY_WATCH)
    if e.share("memory") >= MEMORY_WATCH.value:
        # With nearly every byte fetched from DRAM the L2 helps nobody; otherwise DRAM itself is the limit.
        reuse = e.reuse
        if reuse > 0 and 1.0 / reuse > AMPLIFICATION_BAD.value:
            return "DRAM, L2 misses", "watch", memory
        return "DRAM", "watch", memory
    return "none", "ok", memory


def tensor_cores(e: Evidence, facts: Mapping[str, Fact]) -> StepAnswer:
    """Step 4: only work that could use tensor cores is held against them; normalisation is not."""
    shown = _pick(
        facts, "tensor_active", "tensor_while_busy", "fma_active", "fp64_active", "tensor_flop_utilization"
    )
    tensor = e.level("tensor_active")
    if e.split is None or math.isnan(tensor):
        return StepAnswer(4, QUESTIONS[3], "unknown", "unknown", "tensor activity was not measured", shown)
    if e.level("gr_active") < NO_WORK.value:
        return StepAnswer(4, QUESTIONS[3], "not needed", "info", _hardly_active(e), shown)
    while_busy = e.while_busy("tensor_active")
    text = f"in use {percent(while_busy)} of the busy time"
    if math.isfinite(e.level("fma_active")):
        text += f", the FP32 pipe {percent(e.while_busy('fma_active'))}"
    for rule, what in ((fp32_path, "FP32"), (fp64_path, "FP64")):
        found = rule(e)
        if found is not None:
            text += f" · {what} matrix work {percent(found.share)} of the time"
            return StepAnswer(4, QUESTIONS[3], "unused", found.severity, text, shown)
    if tensor_starved(e) is not None:
        return StepAnswer(4, QUESTIONS[3], "starved", "watch", text, shown)
    if while_busy < TENSOR_UNUSED.value:
        return StepAnswer(
            4, QUESTIONS[3], "not needed", "ok", f"{text} · nothing seen that could use them", shown
        )
    return StepAnswer(4, QUESTIONS[3], "fine", "ok", text, shown)


def _hardly_active(e: Evidence) -> str:
    return f"the GPU is active only {percent(e.level('gr_active'))} of the time"


def _pick(facts: Mapping[str, Fact], *names: str) -> tuple[Fact, ...]:
    return tuple(facts[name] for name in dict.fromkeys(names) if name in facts)
