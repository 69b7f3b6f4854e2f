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
from perfzero.words.said import joined, listed, say

QUESTIONS = tuple(say(f"question.{name}") for name in ("idle", "bound", "level", "tensor"))


def short_name(e: Evidence, name: TimeClass) -> str:
    """The class in a word or two; the pipe by the type it computes in."""
    if name == "fma" and e.level("fp64_active") > e.level(e.fma_pipe):
        return say("class.fp64")
    return say(f"class.{name}")


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
            return StepAnswer(
                1, QUESTIONS[0], say("answer.unknown"), "unknown", say("steps.nothing_measured"), shown
            )
        yes = idle >= IDLE_WATCH.value
        text = say("steps.smi", share=percent(1.0 - idle))
        return StepAnswer(
            1,
            QUESTIONS[0],
            say("answer.yes") if yes else say("answer.unknown"),
            "bad" if yes else "unknown",
            text,
            shown,
        )
    active, sm = e.level("gr_active"), e.level("sm_active")
    sms = say("steps.sms", sm=percent(sm)) if math.isfinite(sm) else ""
    kernels = ""
    if math.isfinite(e.mean_kernel_s):
        kernels = say("steps.kernels", rate=count(e.level("launches")), length=duration(e.mean_kernel_s))
    text = say("steps.active", active=percent(active), sms=sms, kernels=kernels)
    if waiting >= IDLE_WATCH.value:
        return StepAnswer(1, QUESTIONS[0], say("answer.yes"), "bad", text, shown)
    if small >= COMPUTE_WATCH.value and sm < SMALL_GRID.value * active:
        return StepAnswer(
            1,
            QUESTIONS[0],
            say("answer.small_load"),
            "watch",
            say("steps.small_kernels", text=text),
            _pick(facts, "sm_active", *names),
        )
    return StepAnswer(1, QUESTIONS[0], say("answer.no"), "ok", text, shown)


def bound_by(e: Evidence, facts: Mapping[str, Fact]) -> StepAnswer:
    """Step 2: the class that takes most of the busy time, each resource against its practical roof."""
    shown = _pick(
        facts,
        "nearest_roof_share",
        "dram_roof_share",
        "tensor_active",
        "fma_active",
        "fp32_active",
        "fp64_active",
        "gpc_clock",
        "tensor_flop_utilization",
    )
    if e.split is None:
        return StepAnswer(
            2, QUESTIONS[1], say("answer.unknown"), "unknown", say("steps.needs_counters"), shown
        )
    if e.level("gr_active") < NO_WORK.value:
        return StepAnswer(2, QUESTIONS[1], say("answer.nothing"), "info", _hardly_active(e), shown)
    busy = {c: e.split.shares[c] for c in BUSY_CLASSES}
    whole = sum(busy.values())
    if not whole > 0:
        return StepAnswer(2, QUESTIONS[1], say("answer.unknown"), "unknown", say("steps.never_active"), shown)
    ranked = sorted(((s / whole, c) for c, s in busy.items()), reverse=True)
    told = [
        say("seen.share", what=short_name(e, c), share=percent(s)) for s, c in ranked if s >= COMM_WATCH.value
    ]
    share, name = ranked[0]
    answer = short_name(e, name) if share >= BOUND.value else say("answer.mostly", what=short_name(e, name))
    status: Status = "ok" if name == "tensor" else "watch"
    return StepAnswer(2, QUESTIONS[1], answer, status, say("steps.while_active", names=listed(told)), shown)


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
        return StepAnswer(
            3, QUESTIONS[2], say("answer.unknown"), "unknown", say("steps.needs_counters"), shown
        )
    words = []
    if math.isfinite(e.l2_hit):
        words.append(say("steps.l2_hit", hit=percent(e.l2_hit)))
    if math.isfinite(e.dram_bytes_per_s):
        words.append(
            say(
                "steps.dram",
                rate=quantity(e.dram_bytes_per_s, "bytes/s"),
                roof=quantity(e.roofs.dram, "bytes/s"),
            )
        )
    down, up = e.level("pcie_rx_bytes"), e.level("pcie_tx_bytes")
    if math.isfinite(down) or math.isfinite(up):
        most = max((v for v in (down, up) if math.isfinite(v)), default=math.nan)
        words.append(
            say("steps.pcie", rate=quantity(most, "bytes/s"), roof=quantity(e.roofs.pcie, "bytes/s"))
        )
    if e.level("nvlink_rx_bytes") > 0:
        words.append(say("steps.nvlink", rate=quantity(e.level("nvlink_rx_bytes"), "bytes/s")))
    text = joined("join.dots", words) if words else say("steps.no_memory_counter")
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
        return say("answer.unknown"), "unknown", ()
    memory = time("memory", MEMORY_WATCH)
    if e.share("memory") >= MEMORY_WATCH.value:
        # With nearly every byte fetched from DRAM the L2 helps nobody; otherwise DRAM itself is the limit.
        reuse = e.reuse
        if reuse > 0 and 1.0 / reuse > AMPLIFICATION_BAD.value:
            return say("answer.l2_misses"), "watch", memory
        return "DRAM", "watch", memory
    return say("answer.none"), "ok", memory


def tensor_cores(e: Evidence, facts: Mapping[str, Fact]) -> StepAnswer:
    """Step 4: only work that could use tensor cores is held against them; normalisation is not."""
    shown = _pick(
        facts,
        "tensor_active",
        "tensor_while_busy",
        "fma_active",
        "fp32_active",
        "fp64_active",
        "tensor_flop_utilization",
    )
    tensor = e.level("tensor_active")
    if e.split is None or math.isnan(tensor):
        return StepAnswer(
            4, QUESTIONS[3], say("answer.unknown"), "unknown", say("steps.tensor_unmeasured"), shown
        )
    if e.level("gr_active") < NO_WORK.value:
        return StepAnswer(4, QUESTIONS[3], say("answer.not_needed"), "info", _hardly_active(e), shown)
    while_busy = e.while_busy("tensor_active")
    pipe = ""
    if math.isfinite(e.level(e.fma_pipe)):
        share = percent(e.while_busy(e.fma_pipe))
        # What GPM tells is a part of what the pipe does, so of the pipe it is a lower bound only.
        whole = e.fma_pipe == "fma_active"
        pipe = say("steps.fp32_pipe", share=share) if whole else say("steps.fp32_arithmetic", share=share)
    text = say("steps.tensor_in_use", share=percent(while_busy), pipe=pipe)
    single, double = fp32_path(e), fp64_path(e)
    if single is not None:
        text = say("steps.fp32_matrix_work", text=text, share=percent(single.share))
        return StepAnswer(4, QUESTIONS[3], say("answer.unused"), single.severity, text, shown)
    if double is not None:
        text = say("steps.double_precision", text=text, share=percent(double.share))
        return StepAnswer(4, QUESTIONS[3], say("answer.unused"), double.severity, text, shown)
    if tensor_starved(e) is not None:
        return StepAnswer(4, QUESTIONS[3], say("answer.starved"), "watch", text, shown)
    if while_busy < TENSOR_UNUSED.value:
        return StepAnswer(
            4, QUESTIONS[3], say("answer.not_needed"), "ok", say("steps.nothing_for_them", text=text), shown
        )
    return StepAnswer(4, QUESTIONS[3], say("answer.fine"), "ok", text, shown)


def _hardly_active(e: Evidence) -> str:
    return say("steps.hardly_active", active=percent(e.level("gr_active")))


def _pick(facts: Mapping[str, Fact], *names: str) -> tuple[Fact, ...]:
    return tuple(facts[name] for name in dict.fromkeys(names) if name in facts)
