"""
Whether the data may be judged at all. Each gate returns the reason why not, or None.

    G0 trust    what was measured is possible and mostly there
    G1 scope    is it this program alone? (only doubts, see `doubts`)
    G2 steady   was the program at work, and for how long?
    G3 work     was there anything to do?
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from perfzero import hardware
from perfzero.counters import SECTOR_BYTES
from perfzero.diagnose.evidence import Evidence, apart, broken
from perfzero.diagnose.thresholds import (
    AT_WORK,
    COPY_QUIET,
    DEAD_COUNTER,
    DRAM_NOISE,
    DRAM_SLACK,
    FMA_HEAVY,
    KEEPS_ON,
    L2_SLACK,
    LOST_DOUBT,
    LOST_SHARE,
    NO_WORK,
    NOT_STEADY,
    SHORT_LOOK,
    SHORTEST_LOOK,
    SMI_CONTRADICTS,
    SOURCES_DISAGREE,
    SWITCHING,
)
from perfzero.series.stats import rate, total
from perfzero.series.steady import ACTIVE, BIN_NS, FEWEST, bin_means
from perfzero.text import duration, percent, quantity
from perfzero.values import Gap
from perfzero.words.said import clause, listed, say


def seen_enough(e: Evidence) -> str | None:
    """G2: there are samples of the program at work."""
    if e.tier == "nvml":
        if e.board.has("smi_utilization"):
            return None
        return say("gate.nothing_measured")
    if e.sampled_s < SHORTEST_LOOK.value:
        return say("gate.too_short", sampled=duration(e.sampled_s))
    return None


def sound_streams(e: Evidence) -> str | None:
    """G0: the samples can be placed in time, and no share of time or of a peak is above 105 %."""
    # The stream the machine should have given, and the one judged in its place.
    for stream in dict.fromkeys((e.observation.tier, e.tier)):
        if stream in e.cleaned:
            windows = sum(1 for w in e.observation.windows if w.kind != "zoom")
            reason = broken(e.cleaned[stream], windows=windows)
            if reason is not None:
                return say("gate.untrusted", stream=stream, reason=reason)
    return None


def enough_left(e: Evidence) -> str | None:
    """G0: not most of the samples were lost."""
    if e.lost_share > LOST_SHARE.value:
        return say("gate.lost", share=percent(e.lost_share))
    return None


def l2_can_deliver(e: Evidence) -> str | None:
    """G0: R x D_r, the bytes the SMs got from the L2, do not exceed what the L2 can deliver."""
    delivered = SECTOR_BYTES * rate(e.long, "l2_sectors")
    clock = e.clock_hz if e.clock_hz > 0 else (e.gpu.sm_clock_max_hz or math.nan)
    limit = hardware.l2_read_limit_bytes_per_s(e.gpu, clock)
    if delivered > L2_SLACK.value * limit:
        return say("gate.l2", delivered=quantity(delivered, "bytes/s"), limit=quantity(limit, "bytes/s"))
    return None


def dram_has_a_cause(e: Evidence) -> str | None:
    """G0: DRAM is not busier than the engines that use it."""
    share = e.dram_bytes_per_s / e.roofs.dram_peak
    copies = np.nan_to_num(e.level("ce_active")) + np.nan_to_num(
        (e.level("pcie_rx_bytes") + e.level("pcie_tx_bytes")) / e.roofs.dram_peak
    )
    most = DRAM_SLACK.value * e.level("gr_active") + float(copies) + DRAM_NOISE.value
    if share > most:
        return say("gate.dram", share=percent(share), active=percent(e.level("gr_active")))
    return None


def alive(e: Evidence) -> str | None:
    """G0: counters that are all zero while NVML saw kernels running are dead."""
    smi = e.level("smi_utilization")
    names = [n for n in ("gr_active", "sm_active", "tensor_active", "dram_active") if e.long.has(n)]
    amounts = [n for n in ("dram_read_bytes", "dram_write_bytes") if e.long.has(n)]
    if e.tier == "nvml" or not names or not smi > SMI_CONTRADICTS.value:
        return None
    if "gr_active" in names and float(np.nanmax(e.long.column("gr_active"))) < DEAD_COUNTER.value:
        return say("gate.dead_activity", smi=percent(smi))
    highest = max(float(np.nanmax(e.long.column(n))) for n in names)
    moved = sum(total(e.long, n) for n in amounts)
    if highest < DEAD_COUNTER.value and not moved:
        return say("gate.dead", smi=percent(smi))
    return None


def has_work(e: Evidence) -> str | None:
    """
    G3: the GPU had work, or at least copies, in some second, or a little in nearly all of them, or again and
    again from the first second to the last.
    """
    if e.tier == "nvml":
        return None
    _, means = bin_means(e.long, ("gr_active", "ce_active"))
    if len(means) == 0:
        means = np.array([[e.level("gr_active"), e.level("ce_active")]])
    busiest = float(np.nanmax(means[:, 0]))
    copying = float(
        np.fmax(np.nan_to_num(np.nanmax(np.nan_to_num(means[:, 1]))), np.nan_to_num(e.pcie_share))
    )
    throughout = float(np.mean(means[:, 0] > ACTIVE))
    goes_on = _seconds_with_work(e) >= FEWEST and (
        throughout >= AT_WORK.value or _longest_rest(e) <= KEEPS_ON.value
    )
    if busiest < NO_WORK.value and copying < COPY_QUIET.value and not goes_on:
        launches = e.level("launches")
        hint = ""
        if launches > 0:
            hint = say("gate.still", rate=quantity(launches, "count/s"))
        return say("gate.no_work", active=percent(e.level("gr_active")), hint=hint)
    return None


def _seconds_with_work(e: Evidence) -> int:
    """In how many seconds the GPU is known to have had work."""
    always = e.gpm if e.gpm.has("gr_active") else e.long
    return int(np.sum(bin_means(always, ("gr_active",))[1] > ACTIVE))


def _longest_rest(e: Evidence) -> float:
    """The longest time without a second with work, as a share of the time judged; NaN where averages lack."""
    at_ns, means = bin_means(e.gpm, ("gr_active",))
    start_ns, end_ns = e.steady.start_ns, e.steady.end_ns
    at_ns = at_ns[means[:, 0] > ACTIVE]
    if not len(at_ns):
        return math.nan
    begin, end = np.maximum(at_ns, start_ns), np.minimum(at_ns + BIN_NS, end_ns)
    rests_ns = np.append(begin, end_ns) - np.append(start_ns, end)
    return float(rests_ns.max()) / (end_ns - start_ns)


GATES: tuple[Callable[[Evidence], str | None], ...] = (
    sound_streams,
    seen_enough,
    enough_left,
    alive,
    l2_can_deliver,
    dram_has_a_cause,
    has_work,
)


def closed(e: Evidence) -> str | None:
    """Why there can be no verdict, by the first gate that stays closed; None if all are open."""
    return next((reason for gate in GATES if (reason := gate(e)) is not None), None)


def doubts(e: Evidence) -> Iterator[str]:
    """What weakens the diagnosis without stopping it, one sentence each."""
    observation, steady = e.observation, e.steady
    seen = (steady.end_ns - steady.start_ns) / 1e9
    if not observation.complete:
        yield say("doubt.cut_short")
    if steady.how == "none":
        yield say("doubt.no_work")
    elif steady.how == "short":
        yield say("doubt.short", seen=duration(seen))
    elif steady.how == "fallback":
        yield say("doubt.never_settled")
    if steady.changed > NOT_STEADY.value and steady.how != "none":
        moved = percent(steady.changed)
        yield say("doubt.still_changing", moved=moved)
    if e.windows_missed:
        yield say("doubt.windows_missed", missed=e.windows_missed)
    if SHORTEST_LOOK.value <= e.sampled_s < SHORT_LOOK.value and e.tier != "nvml":
        yield say("doubt.rests_on", sampled=duration(e.sampled_s))
    if e.lost_share > LOST_DOUBT.value:
        yield say("doubt.lost", share=percent(e.lost_share))
    yield from _lost_windows(observation.gaps)
    for stream, cleaned in e.cleaned.items():
        for name, count in cleaned.impossible.items():
            # A share is that of a few cycles in one sample of some hundred: each time a buffer is emptied.
            if count <= LOST_DOUBT.value * cleaned.rows:
                continue
            yield say("doubt.impossible", count=count, name=name, stream=stream)
    yield from _tier_doubts(e)
    yield from _scope_doubts(e)
    waiting = e.share("idle", "copy")
    # Of a GPU that mostly waits nobody asks what its few kernels are limited by.
    if e.split is not None and e.split.zoom_refused and waiting < 1.0 - waiting:
        yield say("doubt.no_single_kernels", reason=e.split.zoom_refused)
    # Utilization counts each moment with a kernel: where no averages tell, the windows are held against it.
    smi, active = e.level("smi_utilization"), e.level("gr_active")
    if e.tier == "pm" and not e.gpm.has("gr_active") and active - smi > SOURCES_DISAGREE.value:
        yield say("doubt.smi_saw_less", smi=percent(smi), active=percent(active))
    disagreement = apart(e.long, e.gpm) if e.tier == "pm" else math.nan
    if disagreement > SOURCES_DISAGREE.value:
        yield say("doubt.disagree", share=percent(disagreement))


GPM_ONLY = say("doubt.gpm_only")
NVML_ONLY = say("doubt.nvml_only")
"""What a lesser tier cannot see. Whoever knows why there was no better one may add the reason."""


def _lost_windows(gaps: tuple[Gap, ...]) -> Iterator[str]:
    """One sentence per reason, with how much of the recording it cost."""
    by_reason: dict[tuple[str, str], list[Gap]] = {}
    for gap in gaps:
        by_reason.setdefault((gap.source, gap.reason), []).append(gap)
    for (source, reason), found in by_reason.items():
        length = sum(g.end_ns - g.start_ns for g in found) / 1e9
        what = say("doubt.stretch") if len(found) == 1 else say("doubt.stretches", count=len(found))
        yield say(
            "doubt.lost_stretch", what=what, source=source, length=duration(length), reason=clause(reason)
        )


def _tier_doubts(e: Evidence) -> Iterator[str]:
    if e.tier == "gpm" and e.observation.tier == "pm" and not e.windows_missed:
        yield say("doubt.gpm_stands_in")
    leaned_on = tuple(n for n in e.borrowed if n != "fp64_active" or _does_fp64(e))
    if leaned_on:
        yield say("doubt.borrowed", names=listed(leaned_on))
    if e.tier == "gpm":
        yield GPM_ONLY
    if e.tier == "nvml":
        yield NVML_ONLY
        return
    missing = [n for n in ("sm_active", "tensor_active") if math.isnan(e.level(n))]
    if math.isnan(e.level(e.fma_pipe)):
        missing.append("fma_active")
    if math.isnan(e.dram_share):
        missing.append("DRAM traffic")
    if missing:
        yield say("doubt.not_measured", names=listed(missing))


def _does_fp64(e: Evidence) -> bool:
    """Whether any sample has the double-precision work that the rule for it looks at."""
    return e.split is not None and bool(np.any(e.rates.fp64 >= FMA_HEAVY.value))


def _scope_doubts(e: Evidence) -> Iterator[str]:
    others = e.observation.other_pids
    if others:
        pids = ", ".join(str(p) for p in others[:5])
        yield say("doubt.others", pids=pids)
    if e.level("ctxsw") > SWITCHING.value:
        yield say("doubt.switching", share=percent(e.level("ctxsw")))
    if e.gpu.mig:
        yield say("doubt.mig")
