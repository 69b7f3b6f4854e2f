"""
Where the time went: every sample is shared out among eight classes, which add up to 1.

Kernels are shorter than a sample of 1 ms, so a sample is no member of one class; it is split:

    1 - gr_active     idle, or copy as far as the copy engine or PCIe was busy meanwhile; an engine that
                      clears memory (`series.clearing`) copies nothing
    gr_active         the class of its rates *while busy* (rate / gr_active, capped at 1):
        communication   a link is busy and few SMs are
        memory, tensor or fma    whichever is used most, if at least `BOUND` of its practical roof
        in proportion   if none is, but together they are: kernels of different kinds within one
                        sample; what they leave goes on to the next lines
        small_grid      less than half of the SMs had work
        latency         none of these: the SMs were held and nothing was at its limit

In kernels of some microseconds the SMs are empty while one ends and the next begins, however many blocks each
has. Where those SMs that have work meanwhile read at a rate at which all of them would have memory at its
limit, more blocks would not help: such time is not small_grid's but memory's as far as its rate goes, and for
the rest latency's. It takes the time of whole rows to know how long kernels are; bursts take it from there.

Zoom bursts (10 µs) resolve single kernels. With enough of them, and if they saw the same mix of
work as the long windows, the busy part is divided as they say; idle and copy always come from
the long windows, which see whole steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from perfzero.diagnose.roofs import Roofs
from perfzero.diagnose.thresholds import (
    ANY_WORK,
    BOUND,
    COMM_LINK,
    COMM_SM,
    COPY_FULL,
    COPY_NOISE,
    SMALL_GRID,
    STEPS_TYPICAL,
    SUBSTANTIAL,
    TINY_KERNEL,
    ZOOM_BUSY,
    ZOOM_TYPICAL,
)
from perfzero.diagnose.verdict import TIME_CLASSES, TimeClass
from perfzero.limits import CHOICE, Limit
from perfzero.series.clearing import clearing
from perfzero.series.stats import (
    block_sums,
    blocks_of,
    bootstrap_over_steps,
    bootstrap_shares,
    interval,
    sums_by_step,
)
from perfzero.values import FloatArray, IntArray, Samples
from perfzero.words.said import say

BUSY_CLASSES: tuple[TimeClass, ...] = tuple(c for c in TIME_CLASSES if c not in ("idle", "copy"))
AT = {name: place for place, name in enumerate(TIME_CLASSES)}

LONG_BLOCK_S = 0.1
"""Blocks for the bootstrap: longer than most steps, so that blocks are nearly independent."""

ZOOM_BLOCK_S = 0.005

NEGLIGIBLE = 1e-6
"""Below this GR activity, a nanosecond per millisecond, nothing can be said of the busy part."""

GRAIN = 2.0**-40
"""Shares are whole multiples of this: such numbers add up without rounding, in any order."""

FINE_S: Annotated[float, Limit("seconds", CHOICE)] = 0.0025
"""
Samples up to this long can tell gaps between launches from a wait for data: those of the default
period of 2 ms, whose stamps make them 2.000001 ms long, and not those of twice that.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """
    Samples as shares of practical roofs: all float64 of shape (n,), NaN where not measured.

    `gr`, `copying` are shares of the sample's time; the others hold for its busy part. `short`: kernels take
    less than `TINY_KERNEL` on average.
    """

    seconds: FloatArray
    gr: FloatArray
    copying: FloatArray
    sm: FloatArray
    memory: FloatArray
    tensor: FloatArray
    fp32: FloatArray
    fp64: FloatArray
    pcie_both: FloatArray
    nvlink: FloatArray
    short: bool = False

    @property
    def busy_s(self) -> FloatArray:
        """Seconds of each sample in which the GPU had a kernel, 0 where unknown; shape (n,)."""
        return np.nan_to_num(self.seconds * self.gr)

    @property
    def fma(self) -> FloatArray:
        """The busier of the FP32 and FP64 pipes, shape (n,)."""
        return np.fmax(self.fp32, self.fp64)


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """
    Shares of time by class, adding up to 1.

    `replicates` (r, 8): the shares that resampled steps give, or blocks of time where there are none,
    columns as `TIME_CLASSES`.
    `rates`: the samples whose busy part set the mix. `fine_idle`: which part of the idle time lies
    within milliseconds in which a kernel ran too; NaN if samples are too long to tell, and bursts cannot.
    `zoom_refused`: why bursts that exist were not used.
    """

    shares: Mapping[TimeClass, float]
    replicates: FloatArray
    rates: Rates
    weights: FloatArray
    known: float  # share of the samples' time that could be split
    fine_idle: float
    from_zoom: bool
    zoom_refused: str | None = None

    def interval(self, name: TimeClass) -> tuple[float, float]:
        """The 95 % interval of the share of *name*."""
        return interval(self.replicates[:, AT[name]])

    def busy_share(self, where: NDArray[np.bool_]) -> float:
        """Share of all time for which *where* (over `rates`, shape (n,)) holds while the GPU is busy."""
        busy = self.rates.busy_s
        whole = float(np.sum(busy))
        busy_part = 1.0 - self.shares["idle"] - self.shares["copy"]
        return busy_part * float(np.sum(busy[where])) / whole if whole > 0 else 0.0

    def while_in(self, name: TimeClass, rate: FloatArray) -> float:
        """Mean of *rate* (over `rates`) during the time of the busy class *name*; NaN if there was none."""
        weight = self.weights[:, AT[name]] * self.rates.seconds
        known = np.isfinite(rate)
        total = float(np.sum(weight[known]))
        return float(np.sum(weight[known] * rate[known])) / total if total > 0 else math.nan


def rates_of(samples: Samples, roofs: Roofs, *, short: bool | None = None) -> Rates:
    """
    *samples* of either tier as shares of *roofs*; rows without GR activity are left out.

    *short*: whether kernels are, where others know that; by the launches in *samples* without it.
    """
    samples = samples.where(np.isfinite(samples.column("gr_active")))
    seconds, gr = samples.duration_s, samples.column("gr_active")
    with np.errstate(divide="ignore", invalid="ignore"):
        down, up = samples.column("pcie_rx_bytes") / seconds, samples.column("pcie_tx_bytes") / seconds
        dram = (samples.column("dram_read_bytes") + samples.column("dram_write_bytes")) / seconds
        dram = np.where(np.isfinite(dram), dram, samples.column("dram_active") * roofs.dram_peak)
        # What copies move through DRAM is not the kernels' doing.
        kernels = np.maximum(dram - np.nan_to_num(down) - np.nan_to_num(up), 0.0)
        link = np.fmax(samples.column("nvlink_rx_bytes"), samples.column("nvlink_tx_bytes")) / seconds

        def busy(share: FloatArray) -> FloatArray:
            of_busy = np.where(np.isnan(share), np.nan, 0.0)
            np.divide(share, gr, out=of_busy, where=np.isfinite(share) & (gr >= NEGLIGIBLE))
            return np.minimum(of_busy, 1.0)

        return Rates(
            seconds=seconds,
            gr=gr,
            copying=np.fmax(samples.column("ce_active") - clearing(samples), np.fmax(down, up) / roofs.pcie),
            sm=busy(samples.column("sm_active")),
            memory=busy(kernels / roofs.dram),
            tensor=busy(samples.column("tensor_active") / roofs.tensor),
            fp32=busy(fma_pipe(samples) / roofs.fma),
            fp64=busy(samples.column("fp64_active") / roofs.fma),
            pcie_both=busy(np.minimum(down, up) / roofs.pcie),
            nvlink=busy(link / roofs.nvlink),
            short=_are_short(samples) if short is None else short,
        )


def _are_short(samples: Samples) -> bool:
    """Whether kernels take less than `TINY_KERNEL` on average, by their launches; not known: no."""
    launches = samples.column("launches")
    counted = np.isfinite(launches)
    busy_s = float(np.sum((samples.duration_s * samples.column("gr_active"))[counted]))
    return busy_s < TINY_KERNEL.value * float(np.sum(launches[counted]))


def fma_pipe(samples: Samples) -> FloatArray:
    """Use of the FMA pipe, shape (n,): at least the FP32 arithmetic where the pipe itself was not sampled."""
    own = samples.column("fma_active")
    return np.where(np.isfinite(own), own, samples.column("fp32_active"))


def copy_part(copying: FloatArray) -> FloatArray:
    """Which part of the idle time of samples that were so far *copying* is the copy's; shape (n,)."""
    ramp = (np.nan_to_num(copying) - COPY_NOISE.value) / (COPY_FULL.value - COPY_NOISE.value)
    return np.asarray(np.clip(ramp, 0.0, 1.0), np.float64)


def classify(rates: Rates) -> FloatArray:
    """Share of each sample's time by class: float64 of shape (n, 8), rows adding up to 1."""
    rows = len(rates.seconds)
    out = np.zeros((rows, len(TIME_CLASSES)))
    idle = 1.0 - rates.gr
    copy = idle * copy_part(rates.copying)
    out[:, AT["copy"]] = copy
    out[:, AT["idle"]] = idle - copy

    uses = np.nan_to_num(np.column_stack([rates.memory, rates.tensor, rates.fma]))
    columns = np.array([AT["memory"], AT["tensor"], AT["fma"]])
    mix = np.zeros((rows, len(TIME_CLASSES)))
    few_sms = rates.sm < COMM_SM.value
    comm = few_sms & ((rates.nvlink >= COMM_LINK.value) | (rates.pcie_both >= COMM_LINK.value))
    small = rates.sm < SMALL_GRID.value  # NaN: unknown, so not called small
    # With as much work on all SMs as on these memory would be at its limit.
    reading = small & (rates.memory >= np.maximum(SUBSTANTIAL.value, BOUND.value * rates.sm))
    reading &= rates.short & ~comm
    bound = ~comm & ~reading & (uses.max(axis=1) >= BOUND.value)
    mix[comm, AT["communication"]] = 1.0
    mix[bound, columns[uses[bound].argmax(axis=1)]] = 1.0

    visible = np.where(uses >= SUBSTANTIAL.value, uses, 0.0)
    together = visible.sum(axis=1)
    several = ~comm & ~bound & ~reading & (together >= BOUND.value)
    parts = visible / np.maximum(together, 1.0)[:, None]
    for place, column in enumerate(columns):
        mix[several, column] = parts[several, place]
    rest = np.where(comm | bound | reading, 0.0, 1.0 - mix.sum(axis=1))
    mix[reading, AT["memory"]] = rates.memory[reading]
    mix[reading, AT["latency"]] = (1.0 - rates.memory)[reading]
    small &= ~reading
    mix[small, AT["small_grid"]] += rest[small]
    mix[~small & ~reading, AT["latency"]] += rest[~small & ~reading]
    return out + mix * rates.gr[:, None]


def split_time(
    long: Samples, zoom: Samples, roofs: Roofs, *, starts_ns: IntArray | None = None
) -> Split | None:
    """
    Share out the time of *long*, its busy part as *zoom* resolves it; None without GR activity.

    *starts_ns*: onsets of steps. Steps are what repeats, so whole ones are resampled where enough are seen.
    """
    rates = rates_of(long, roofs)
    if not float(np.sum(rates.seconds)) > 0:
        return None
    weights = classify(rates)
    kept = long.where(np.isfinite(long.column("gr_active")))
    amounts = weights * rates.seconds[:, None]
    shares, replicates = amounts.sum(axis=0), _resampled(kept, amounts, starts_ns)
    known = float(np.sum(rates.seconds)) / float(np.sum(long.duration_s))

    close = rates_of(zoom, roofs, short=rates.short)
    fine = _fine_idle(rates, weights, zoom=zoom, close=close)
    refused = _zoom_refusal(close, rates)
    if refused is None:
        close_weights = classify(close)
        close_kept = zoom.where(np.isfinite(zoom.column("gr_active")))
        seconds = close_weights * close.seconds[:, None]
        seconds[:, [AT["idle"], AT["copy"]]] = 0.0
        close_sums = block_sums(seconds, block=blocks_of(close_kept, length_s=ZOOM_BLOCK_S))
        shares = _divide_busy(shares[None, :] / shares.sum(), close_sums.sum(axis=0)[None, :])[0]
        replicates = _divide_busy(replicates, bootstrap_shares(close_sums))
        rates, weights = close, close_weights
    return Split(
        shares=_exact(shares),
        replicates=replicates,
        rates=rates,
        weights=weights,
        known=known,
        fine_idle=fine,
        from_zoom=refused is None,
        zoom_refused=refused or None,
    )


def _resampled(long: Samples, amounts: FloatArray, starts_ns: IntArray | None) -> FloatArray:
    """Shares of the classes, whose time is *amounts* (n, 8), in resampled steps or blocks of *long*."""
    if starts_ns is not None:
        by_step = bootstrap_over_steps(sums_by_step(long, amounts, starts_ns=starts_ns))
        whole = amounts.sum(axis=0) / amounts.sum()
        # What lies outside of whole steps, as a start-up or a stall, is part of the time all the same.
        if np.all(np.abs(by_step.mean(axis=0) - whole) <= STEPS_TYPICAL.value):
            return by_step
    return bootstrap_shares(block_sums(amounts, block=blocks_of(long, length_s=LONG_BLOCK_S)))


def _divide_busy(shares: FloatArray, mix: FloatArray) -> FloatArray:
    """*shares* (r, 8) with their busy part divided among the classes as *mix* (r, 8) is."""
    away = [AT["idle"], AT["copy"]]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = mix / mix.sum(axis=1, keepdims=True)
    out = np.asarray(part * (1.0 - shares[:, away].sum(axis=1, keepdims=True)), np.float64)
    out[:, away] = shares[:, away]
    return out


def _exact(shares: FloatArray) -> dict[TimeClass, float]:
    """*shares* (8,) scaled so that they add up to exactly 1, rounding errors put on the largest."""
    grains = np.rint(shares / shares.sum() / GRAIN)
    grains[int(np.argmax(grains))] += 1.0 / GRAIN - grains.sum()
    return dict(zip(TIME_CLASSES, (float(g * GRAIN) for g in grains), strict=True))


def _fine_idle(long: Rates, weights: FloatArray, *, zoom: Samples, close: Rates) -> float:
    """
    Share of the idle time that lies within milliseconds in which a kernel ran.

    By the samples, or, if they are too long, by the bursts, if these saw as much idle time; else NaN.
    """
    if float(np.median(long.seconds)) <= FINE_S:
        return _beside_work(weights[:, AT["idle"]] * long.seconds, long.busy_s, long.seconds)
    seen = float(np.sum(close.seconds))
    share = float(np.average(weights[:, AT["idle"]], weights=long.seconds))
    idle = classify(close)[:, AT["idle"]] * close.seconds
    if not seen > 0 or abs(float(np.sum(idle)) / seen - share) > ZOOM_TYPICAL.value:
        return math.nan
    block = blocks_of(zoom.where(np.isfinite(zoom.column("gr_active"))), length_s=FINE_S)
    sums = block_sums(np.column_stack([idle, close.busy_s, close.seconds]), block=block)
    return _beside_work(sums[:, 0], sums[:, 1], sums[:, 2])


def _beside_work(idle: FloatArray, busy: FloatArray, seconds: FloatArray) -> float:
    """Which part of the seconds *idle* (n,) lies in rows in which a kernel ran; NaN if there are none."""
    whole = float(np.sum(idle))
    return float(np.sum(idle[busy > ANY_WORK.value * seconds])) / whole if whole > 0 else math.nan


def _zoom_refusal(zoom: Rates, long: Rates) -> str | None:
    """Why the bursts do not set the mix: "" if there are none, a sentence if there are, None if they do."""
    if len(zoom.seconds) == 0:
        return ""
    seen = float(np.sum(zoom.busy_s))
    if seen < ZOOM_BUSY.value:
        return say("zoom.little", seen=f"{seen * 1000.0:.1f}")
    for name in ("memory", "tensor", "sm"):
        near, far = _busy_mean(getattr(zoom, name), zoom), _busy_mean(getattr(long, name), long)
        if math.isnan(near) and not math.isnan(far):
            what = say(f"zoom.{name}")
            return say("zoom.lacks", what=what)
        if abs(near - far) > ZOOM_TYPICAL.value:
            what = say(f"zoom.{name}")
            return say("zoom.other_work", what=what, near=f"{near:.0%}", far=f"{far:.0%}")
    return None


def _busy_mean(rate: FloatArray, rates: Rates) -> float:
    known = np.isfinite(rate)
    busy = rates.busy_s[known]
    total = float(np.sum(busy))
    return float(np.sum(rate[known] * busy)) / total if total > 0 else math.nan
