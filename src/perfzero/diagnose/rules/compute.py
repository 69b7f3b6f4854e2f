"""Rules for the arithmetic: which pipes do it, how many SMs take part, and whether all is well."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from perfzero.diagnose import filling, gain
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.remedies import Offer, offers_for, remedies_for, with_first
from perfzero.diagnose.rules._batch import led_by_batch
from perfzero.diagnose.rules._severity import of_share
from perfzero.diagnose.rules.memory import l2_bound
from perfzero.diagnose.split import Rates, rates_of
from perfzero.diagnose.thresholds import (
    BOUND,
    COMPUTE_BAD,
    COMPUTE_WATCH,
    FMA_HEAVY,
    FP64_HEAVY,
    FULLY_BUSY,
    IDLE_WATCH,
    LATENCY_WATCH,
    RECOVER_LATENCY,
    RECOVER_SMALL,
    RECOVER_STARVED,
    RECOVER_TAIL,
    RECOVER_UNKNOWN,
    SMALL_GRID,
    TAIL_FULL,
    TAIL_INFO,
    TAIL_LONGEST,
    TAIL_WATCH,
    TENSOR_STARVED,
    TENSOR_UNUSED,
    WELL_BOUND,
    WELL_TENSOR,
)
from perfzero.diagnose.verdict import Finding, Remedy, TimeClass
from perfzero.series.stats import weighted_mean
from perfzero.text import percent
from perfzero.values import Samples
from perfzero.words.said import say

BoolArray = NDArray[np.bool_]

FIRST_TENSOR_CORES = (7, 0)
"""Compute capability of Volta."""


def fp32_path(e: Evidence) -> Finding | None:
    """Matrix work on the FP32 pipe while the tensor cores rest."""
    if e.split is None or (e.gpu.compute_capability or (0, 0)) < FIRST_TENSOR_CORES:
        return None
    rates = e.rates
    where = _fp32_products(rates)
    share = e.busy_share(where)
    if not share >= COMPUTE_WATCH.value:
        return None
    pipe = weighted_mean(rates.fp32[where], rates.busy_s[where]) * e.roofs.fma
    certain = gain.matrix_part(e, where, share)

    def with_gain(offer: Offer) -> Remedy:
        if offer.dtype is None:
            return offer.remedy
        own, _ = gain.precision(e, share, pipe=pipe, certain=certain, dtype=offer.dtype)
        return replace(offer.remedy, gain=own)

    offers = offers_for("fp32_path", e)
    first = next((o.dtype for o in offers if o.dtype is not None), "fp16")
    expected, stopped = gain.precision(e, share, pipe=pipe, certain=certain, dtype=first)
    return Finding(
        rule="fp32_path",
        title=say("fp32.title", share=percent(share)),
        severity=of_share(share, watch=COMPUTE_WATCH, bad=COMPUTE_BAD),
        share=share,
        confidence=e.confidence(share, over=COMPUTE_WATCH, certainty=0.95),
        because=(
            say("fp32.pipe", pipe=percent(pipe), tensor=percent(e.while_busy("tensor_active"))),
            say("fp32.not_memory", dram=percent(e.dram_share)),
        ),
        gain=expected,
        remedies=tuple(with_gain(offer) for offer in offers),
        next_limit=stopped
        or gain.next_limit(e, expected, eased=("fma",), becomes=gain.LIMIT_NAMES["tensor"]),
        eased=("fma",),
    )


def _fp32_products(rates: Rates) -> BoolArray:
    """Which samples look like matrix work on the FP32 pipe, shape (n,)."""
    return (rates.fp32 >= FMA_HEAVY.value) & (rates.tensor < TENSOR_UNUSED.value)


def fp64_path(e: Evidence) -> Finding | None:
    """Double precision, often by accident: NumPy's default type."""
    if e.split is None:
        return None
    rates = e.rates
    if not np.isfinite(rates.fp64).any():
        # Only GPM may have it, which is silent while bursts are taken.
        rates = rates_of(e.long, e.roofs)
    on_pipe = (rates.fp64 >= FP64_HEAVY.value) & (rates.fp64 >= rates.fp32)
    # The tensor cores multiply float64, too, from Ampere on.
    matrix = e.while_busy("tensor_fp64_active")
    by_tensor = matrix >= FP64_HEAVY.value
    double = on_pipe | (by_tensor & (rates.tensor >= TENSOR_UNUSED.value))
    known = np.isfinite(rates.fp64)
    known = known if known.any() else np.full(len(known), True)
    busy_s = float(np.sum(rates.busy_s[known]))
    of_busy = float(np.sum(rates.busy_s[double & known])) / busy_s if busy_s > 0 else 0.0
    share = of_busy * (1.0 - e.share("idle", "copy"))
    if not share >= COMPUTE_WATCH.value:
        return None
    expected, stopped = gain.double(e, share, by_tensor=by_tensor)
    seen = [say("fp64.pipe", pipe=percent(e.while_busy("fp64_active")))]
    if by_tensor:
        seen.append(say("fp64.by_tensor", share=percent(matrix)))
    return Finding(
        rule="fp64_path",
        title=say("fp64.title", share=percent(share)),
        severity=of_share(share, watch=COMPUTE_WATCH, bad=COMPUTE_BAD),
        share=share,
        # The pipe is certain; that it is not wanted is not.
        confidence=e.confidence(share, over=COMPUTE_WATCH, certainty=0.8),
        because=tuple(seen),
        gain=expected,
        remedies=remedies_for("fp64_path", e),
        next_limit=stopped
        or gain.next_limit(e, expected, eased=("fma", "latency"), becomes=gain.LIMIT_NAMES["fma"]),
        eased=("fma", "latency"),
    )


def tensor_starved(e: Evidence) -> Finding | None:
    """A tensor-core program that keeps them waiting, with nothing else at its roof meanwhile."""
    share = e.share("latency")
    if e.split is None or not share >= LATENCY_WATCH.value or _is_well_used(e):
        return None
    rates = e.rates
    tensor = weighted_mean(rates.tensor, rates.busy_s)
    if not TENSOR_UNUSED.value <= tensor < TENSOR_STARVED.value:
        return None
    inside = e.split.while_in("latency", rates.tensor)
    # Kernels that leave SMs empty (conversions, tails) keep the tensor cores waiting just as well.
    waiting = e.share("latency", "small_grid")
    throughout = waiting >= BOUND.value
    eased: tuple[TimeClass, ...] = ("latency", "small_grid") if throughout else ("latency",)
    expected, stopped = gain.expect(
        e,
        waiting if throughout else share,
        # All over the program it is the layout or the type, and one change may cure it; in a part of it,
        # it is the mix of kernels that every network has.
        recovered=RECOVER_STARVED if throughout else RECOVER_LATENCY,
        traffic={"tensor": 0.0},
        assumption=say("gain.fed_throughout") if throughout else say("gain.fed_in_part"),
    )
    return Finding(
        rule="tensor_starved",
        title=say("starved_tensor.title", share=percent(share)),
        severity=of_share(share, watch=LATENCY_WATCH, bad=COMPUTE_BAD),
        share=share,
        confidence=e.confidence(share, over=LATENCY_WATCH, classes=("latency",), certainty=0.8),
        because=(
            say(
                "starved_tensor.meanwhile",
                tensor=percent(inside),
                memory=percent(e.split.while_in("latency", rates.memory)),
                sm=percent(e.split.while_in("latency", rates.sm)),
            ),
            say("starved_tensor.looks_like"),
        ),
        gain=expected,
        remedies=remedies_for("tensor_starved", e),
        next_limit=stopped or gain.next_limit(e, expected, eased=eased),
        eased=eased,
    )


def small_grid(e: Evidence) -> Finding | None:
    """Kernels with too few blocks: most SMs have nothing to do, though the GPU reads as busy."""
    share = e.share("small_grid")
    if e.split is None or not share >= COMPUTE_WATCH.value:
        return None
    sm = e.split.while_in("small_grid", e.rates.sm)
    expected, stopped = gain.expect(
        e,
        share,
        recovered=RECOVER_SMALL,
        speedup=(2.0, 1.0 / sm if sm > 0 else math.inf),
        assumption=say("gain.batched"),
    )
    remedies, becomes, saves = remedies_for("small_grid", e), None, gain.middle(expected)
    spread = filling.spread(e)
    if spread is not None:
        (expected, becomes), stopped = spread, None
        remedies = with_first(remedies, say("try.split_kernels"), needs=(say("need.work_for_all"),))
    smi = e.level("smi_utilization")
    myth = say("small_grid.smi", smi=percent(smi)) if math.isfinite(smi) else ""
    found = Finding(
        rule="small_grid",
        title=say("small_grid.title", share=percent(share)),
        severity=of_share(share, watch=COMPUTE_WATCH, bad=COMPUTE_BAD),
        share=share,
        confidence=e.confidence(share, over=COMPUTE_WATCH, classes=("small_grid",), certainty=0.95),
        because=(say("small_grid.sms", sm=percent(sm), myth=myth),),
        gain=expected,
        remedies=remedies,
        next_limit=stopped or gain.next_limit(e, expected, eased=("small_grid",), becomes=becomes),
        eased=("small_grid",),
        saves=saves,  # what is usual, also where more is known of these kernels
    )
    return led_by_batch(e, found)


def wave_tail(e: Evidence) -> Finding | None:
    """Kernels whose last blocks leave most SMs without work until the next kernel begins."""
    if e.split is None or not e.split.from_zoom:  # bursts that saw other work say nothing of this one
        return None
    lost = _lost_in_tails(e.zoom) * (1.0 - e.share("idle", "copy"))
    if not lost >= TAIL_INFO.value:
        return None
    expected, stopped = gain.expect(
        e,
        lost,
        recovered=RECOVER_TAIL,
        assumption=say("gain.tail_filled"),
    )
    severity: Literal["info", "watch"] = "watch" if lost >= TAIL_WATCH.value else "info"
    return Finding(
        rule="wave_tail",
        title=say("tail.title", lost=percent(lost)),
        severity=severity,
        share=lost,
        # Two kernels of which the second is small look like the tail of the first.
        confidence=e.confidence(lost, over=TAIL_INFO, certainty=0.6),
        because=(say("tail.zoom"),),
        gain=expected,
        remedies=remedies_for("wave_tail", e) if severity == "watch" else (),
        next_limit=stopped,
    )


def _lost_in_tails(zoom: Samples) -> float:
    """
    Share of the busy time that SMs spend empty between two moments at which all were busy; NaN if unknown.

    A dip counts if it is short: the tail of a kernel is followed by the next one. Where fewer than half of
    the SMs are left, the time is that of `small_grid`.
    """
    zoom = zoom.where(np.isfinite(zoom.column("sm_active")) & np.isfinite(zoom.column("gr_active")))
    running = zoom.column("gr_active") >= FULLY_BUSY.value
    if not running.any():
        return math.nan
    sm, seconds = zoom.column("sm_active"), zoom.duration_s
    full = np.flatnonzero(running & (sm >= TAIL_FULL.value))
    before, after = full[:-1], full[1:]
    length_s = (zoom.start_ns[after] - zoom.end_ns[before]) / 1e9
    dips = (after > before + 1) & (length_s <= TAIL_LONGEST.value)
    empty_s = np.where(sm >= SMALL_GRID.value, (1.0 - sm) * seconds, 0.0)
    lost = 0.0
    for first, last in zip((before[dips] + 1).tolist(), after[dips].tolist(), strict=True):
        if running[first:last].all():
            lost += float(np.sum(empty_s[first:last]))
    return lost / float(np.sum(seconds[running]))


def latency_bound(e: Evidence) -> Finding | None:
    """SMs occupied, and no resource anywhere near its roof."""
    share = e.share("latency")
    if e.split is None or not share >= LATENCY_WATCH.value or _is_well_used(e):
        return None
    if tensor_starved(e) is not None:
        return None
    at_l2 = l2_bound(e)
    if at_l2 is not None and at_l2.share >= share / 2:
        return None
    double = fp64_path(e)
    if double is not None and double.share >= share / 2:
        return None
    # Products on the FP32 pipe that stay below its roof have a finding, which is of the same time.
    single = e.split.while_in("latency", _fp32_products(e.rates).astype(np.float64))
    if fp32_path(e) is not None and share * (1.0 - single) < LATENCY_WATCH.value:
        return None
    # A resource that was not measured may be the very limit.
    blind = (
        math.isnan(e.dram_share) or math.isnan(e.level("tensor_active")) or math.isnan(e.level(e.fma_pipe))
    )
    # Why these kernels are slow is not known, so neither is how much goes; what usually does is ranked by.
    usual, stopped = gain.expect(e, share, recovered=RECOVER_LATENCY, assumption="")
    expected, _ = gain.expect(
        e,
        share,
        recovered=(RECOVER_LATENCY[0], RECOVER_UNKNOWN),
        assumption=say("gain.better_kernels"),
    )
    remedies, next_limit = remedies_for("latency_bound", e), None
    more = filling.more_warps(e)
    if more is not None:
        expected = more[0]
        remedies = with_first(remedies, say("try.more_under_way"), needs=(say("need.work_for_all"),))
        next_limit = gain.next_limit(e, expected, eased=("latency",), becomes=more[1])
    rates = e.rates
    found = Finding(
        rule="latency_bound",
        title=say("latency.title", share=percent(share)),
        severity=of_share(share, watch=LATENCY_WATCH, bad=COMPUTE_BAD),
        share=share,
        confidence=e.confidence(
            share, over=LATENCY_WATCH, classes=("latency",), certainty=0.4 if blind else 0.75
        ),
        because=(
            say(
                "latency.meanwhile",
                memory=percent(e.split.while_in("latency", rates.memory)),
                tensor=percent(e.split.while_in("latency", rates.tensor)),
                fp32=percent(e.split.while_in("latency", rates.fp32)),
                sm=percent(e.split.while_in("latency", rates.sm)),
            ),
        ),
        gain=expected,
        remedies=remedies,
        next_limit=next_limit or stopped or gain.next_limit(e, usual, eased=("latency",)),
        eased=("latency",),
        saves=gain.middle(usual),
    )
    return led_by_batch(e, found)


def _is_well_used(e: Evidence) -> bool:
    """
    Whether the tensor cores are the main limit and the rest is at a roof for the most part. Then what reaches
    none is the mix of kernels that every network has, some of them short.
    """
    if e.split is None or fp64_path(e) is not None:
        return False
    tensor, largest = e.share("tensor"), max(e.split.shares.values())
    hardly_waits = e.share("idle", "copy", "communication") < IDLE_WATCH.value
    at_roof = e.share("tensor", "memory", "fma") >= WELL_BOUND.value
    return hardly_waits and at_roof and tensor >= max(WELL_TENSOR.value, largest)


def well_used(e: Evidence) -> Finding | None:
    """The healthy answer: the tensor cores are the limit, and the GPU hardly ever waits."""
    if not _is_well_used(e):
        return None
    tensor = e.share("tensor")
    busy = weighted_mean(e.rates.tensor, e.rates.busy_s)
    return Finding(
        rule="well_used",
        title=say("well_used.title", tensor=percent(tensor)),
        severity="info",
        share=tensor,
        confidence=e.confidence(tensor, over=WELL_TENSOR, classes=("tensor",), certainty=0.95),
        because=(say("well_used.because", active=percent(e.level("gr_active")), busy=percent(busy)),),
        next_limit=say("well_used.next"),
    )
