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
from perfzero.diagnose.evidence import Evidence, broken
from perfzero.diagnose.thresholds import (
    COPY_QUIET,
    DEAD_COUNTER,
    DRAM_NOISE,
    DRAM_SLACK,
    FMA_HEAVY,
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
from perfzero.series.stats import rate, total, weighted_mean
from perfzero.series.steady import bin_means
from perfzero.text import duration, percent, quantity
from perfzero.values import Gap, Samples


def seen_enough(e: Evidence) -> str | None:
    """G2: there are samples of the program at work."""
    if e.tier == "nvml":
        if e.board.has("smi_utilization"):
            return None
        return "Nothing was measured on this GPU. `perfzero doctor` says what can be read here."
    if e.sampled_s < SHORTEST_LOOK.value:
        return f"Only {duration(e.sampled_s)} of samples came in, too few to judge. Record longer."
    return None


def sound_streams(e: Evidence) -> str | None:
    """G0: the samples can be placed in time, and no share of time or of a peak is above 105 %."""
    # The stream the machine should have given, and the one judged in its place.
    for stream in dict.fromkeys((e.observation.tier, e.tier)):
        if stream in e.cleaned:
            windows = sum(1 for w in e.observation.windows if w.kind != "zoom")
            reason = broken(e.cleaned[stream], windows=windows)
            if reason is not None:
                return f"The {stream} samples cannot be trusted: {reason}."
    return None


def enough_left(e: Evidence) -> str | None:
    """G0: not most of the samples were lost."""
    if e.lost_share > LOST_SHARE.value:
        return (
            f"{percent(e.lost_share)} of the samples were lost. Sample less often: "
            "a longer --sample-period, or shorter windows."
        )
    return None


def l2_can_deliver(e: Evidence) -> str | None:
    """G0: R x D_r, the bytes the SMs got from the L2, do not exceed what the L2 can deliver."""
    delivered = SECTOR_BYTES * rate(e.long, "l2_sectors")
    clock = e.clock_hz if e.clock_hz > 0 else (e.gpu.sm_clock_max_hz or math.nan)
    limit = hardware.l2_read_limit_bytes_per_s(e.gpu, clock)
    if delivered > L2_SLACK.value * limit:
        return (
            f"The counters say the L2 delivered {quantity(delivered, 'bytes/s')}, but it can deliver "
            f"{quantity(limit, 'bytes/s')} at most: the L2 or DRAM counters are broken."
        )
    return None


def dram_has_a_cause(e: Evidence) -> str | None:
    """G0: DRAM is not busier than the engines that use it."""
    share = e.dram_bytes_per_s / e.roofs.dram_peak
    copies = np.nan_to_num(e.level("ce_active")) + np.nan_to_num(
        (e.level("pcie_rx_bytes") + e.level("pcie_tx_bytes")) / e.roofs.dram_peak
    )
    most = DRAM_SLACK.value * e.level("gr_active") + float(copies) + DRAM_NOISE.value
    if share > most:
        return (
            f"DRAM is busy {percent(share)} of the time while the GPU is active only "
            f"{percent(e.level('gr_active'))}: no engine could cause that, so a counter is broken."
        )
    return None


def alive(e: Evidence) -> str | None:
    """G0: counters that are all zero while NVML saw kernels running are dead."""
    smi = e.level("smi_utilization")
    names = [n for n in ("gr_active", "sm_active", "tensor_active", "dram_active") if e.long.has(n)]
    amounts = [n for n in ("dram_read_bytes", "dram_write_bytes") if e.long.has(n)]
    if e.tier == "nvml" or not names or not smi > SMI_CONTRADICTS.value:
        return None
    if "gr_active" in names and float(np.nanmax(e.long.column("gr_active"))) < DEAD_COUNTER.value:
        return (
            f"The counter of GPU activity reads zero, but nvidia-smi saw kernels {percent(smi)} of the time: "
            "it is dead, and nothing can be judged by it. Look for an Xid error with `dmesg | grep Xid`."
        )
    highest = max(float(np.nanmax(e.long.column(n))) for n in names)
    moved = sum(total(e.long, n) for n in amounts)
    if highest < DEAD_COUNTER.value and not moved:
        return (
            f"Every hardware counter reads zero while nvidia-smi saw kernels {percent(smi)} of the time: "
            "the counters are dead. Look for an Xid error with `dmesg | grep Xid`; a GPU reset helps."
        )
    return None


def has_work(e: Evidence) -> str | None:
    """G3: the GPU had work, or at least copies, in some second."""
    if e.tier == "nvml":
        return None
    _, means = bin_means(e.long, ("gr_active", "ce_active"))
    if len(means) == 0:
        means = np.array([[e.level("gr_active"), e.level("ce_active")]])
    busiest = float(np.nanmax(means[:, 0]))
    copying = float(
        np.fmax(np.nan_to_num(np.nanmax(np.nan_to_num(means[:, 1]))), np.nan_to_num(e.pcie_share))
    )
    if busiest < NO_WORK.value and copying < COPY_QUIET.value:
        launches = e.level("launches")
        hint = ""
        if launches > 0:
            hint = f" Still, {quantity(launches, 'count/s')} kernels came in: the host hardly uses the GPU."
        return (
            f"The GPU had next to no work: active {percent(e.level('gr_active'))} of the time and no copies. "
            f"It was idle, or the program had finished or not begun.{hint}"
        )
    return None


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
        yield "The recording was cut short; what was written until then is judged."
    if steady.how == "none":
        yield "No second with work was found, so the whole recording is judged."
    elif steady.how == "short":
        yield f"Only {duration(seen)} seen, too short to tell warm-up from work. Record for a minute or more."
    elif steady.how == "fallback":
        yield "The program never settled; the first 30 s were dropped as warm-up for want of better."
    if steady.changed > NOT_STEADY.value and steady.how != "none":
        moved = percent(steady.changed)
        yield f"The program was still changing: its load moved by {moved} within the time judged."
    if e.windows_missed:
        yield f"{e.windows_missed}. Record for longer, or with --continuous."
    if SHORTEST_LOOK.value <= e.sampled_s < SHORT_LOOK.value and e.tier != "nvml":
        yield f"The verdict rests on {duration(e.sampled_s)} of samples."
    if e.lost_share > LOST_DOUBT.value:
        yield f"{percent(e.lost_share)} of the samples were lost."
    yield from _lost_windows(observation.gaps)
    for stream, cleaned in e.cleaned.items():
        for name, count in cleaned.impossible.items():
            yield f"{count} impossible values of {name} ({stream}) were left out."
    yield from _tier_doubts(e)
    yield from _scope_doubts(e)
    waiting = e.share("idle", "copy")
    # Of a GPU that mostly waits nobody asks what its few kernels are limited by.
    if e.split is not None and e.split.zoom_refused and waiting < 1.0 - waiting:
        yield f"Single kernels could not be told apart: {e.split.zoom_refused}."
    disagreement = _disagreement(e)
    if disagreement > SOURCES_DISAGREE.value:
        yield f"PM sampling and GPM disagree on GR activity by {percent(disagreement)} at the same moments."


GPM_ONLY = "Judged from GPM's averages: no launches, no L2, no single kernels."
NVML_ONLY = "Only nvidia-smi's utilisation was available; it cannot see what the SMs do."
"""What a lesser tier cannot see. Whoever knows why there was no better one may add the reason."""


def _lost_windows(gaps: tuple[Gap, ...]) -> Iterator[str]:
    """One sentence per reason, with how much of the recording it cost."""
    by_reason: dict[tuple[str, str], list[Gap]] = {}
    for gap in gaps:
        by_reason.setdefault((gap.source, gap.reason), []).append(gap)
    for (source, reason), found in by_reason.items():
        length = sum(g.end_ns - g.start_ns for g in found) / 1e9
        what = "A stretch" if len(found) == 1 else f"{len(found)} stretches"
        yield f"{what} of {source} ({duration(length)}) was lost: {reason.removesuffix('.')}."


def _tier_doubts(e: Evidence) -> Iterator[str]:
    if e.tier == "gpm" and e.observation.tier == "pm" and not e.windows_missed:
        yield "PM sampling saw too little of the steady stretch; GPM stands in."
    leaned_on = tuple(n for n in e.borrowed if n != "fp64_active" or _does_fp64(e))
    if leaned_on:
        yield f"{', '.join(leaned_on)} from GPM's averages: PM sampling had no place for it."
    if e.tier == "gpm":
        yield GPM_ONLY
    if e.tier == "nvml":
        yield NVML_ONLY
        return
    missing = [n for n in ("sm_active", "tensor_active", "fma_active") if math.isnan(e.level(n))]
    if math.isnan(e.dram_share):
        missing.append("DRAM traffic")
    if missing:
        yield f"Not measured here: {', '.join(missing)}. Time that belongs to them is called latency."


def _does_fp64(e: Evidence) -> bool:
    """Whether any sample has the double-precision work that the rule for it looks at."""
    return e.split is not None and bool(np.any(e.rates.fp64 >= FMA_HEAVY.value))


def _scope_doubts(e: Evidence) -> Iterator[str]:
    others = e.observation.other_pids
    if others:
        listed = ", ".join(str(p) for p in others[:5])
        yield f"Other processes hold this GPU too (pid {listed}); counters cannot tell them apart."
    if e.level("ctxsw") > SWITCHING.value:
        yield f"The GPU spent {percent(e.level('ctxsw'))} of the time switching between programs."
    if e.gpu.mig:
        yield "MIG is on: counters of shared units (L2, DRAM, PCIe) include the other instances."


def _disagreement(e: Evidence) -> float:
    """Difference in mean GR activity between PM and GPM over the GPM samples that PM covers; NaN if none."""
    if e.tier != "pm" or not e.gpm.has("gr_active"):
        return math.nan
    pm, gpm = e.long, e.gpm
    first = np.searchsorted(pm.start_ns, gpm.start_ns, "left")
    last = np.searchsorted(pm.end_ns, gpm.end_ns, "right")
    time = np.r_[0.0, np.cumsum(pm.duration_s)]
    covered = (time[last] - time[np.minimum(first, last)]) >= DENSE * gpm.duration_s
    if not covered.any():
        return math.nan
    inside = np.zeros(len(pm), np.bool_)
    for row in np.flatnonzero(covered):
        inside[first[row] : last[row]] = True
    both: Samples = pm.where(inside)
    near = weighted_mean(both.column("gr_active"), both.duration_s)
    far = weighted_mean(gpm.column("gr_active")[covered], gpm.duration_s[covered])
    return abs(near - far)


DENSE = 0.9
"""A GPM sample is compared with PM samples if they cover nine tenths of it."""
