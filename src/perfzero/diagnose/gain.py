"""
What a fix may gain: always an interval, its assumption, and what stops it.

    Amdahl            S = 1 / (1 - f (1 - 1/s) r)   f: share of time, s: speed-up of that part,
                                                    r: part of it the fix reaches (a prior)
    next bottleneck   S <= min over i of roof_i / (use_i a_i)   a_i: what the fix does to the traffic

Uses are shares of practical roofs over *all* time, so a resource at 0.4 stops a speed-up at 2.5
(science.md §2.3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from perfzero import hardware
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.thresholds import (
    BOUND,
    CLOSE_CALL,
    GRAPH_KERNEL_S,
    LARGER_BATCH,
    LAUNCH_RAMP_S,
    LEAST_OF_RAMP,
    RECOVER_DOUBLE,
    RECOVER_FEWER,
    RECOVER_GRAPH,
    RECOVER_MATRIX,
    RECOVER_PRECISION,
    STEP_TAKES,
    TENSOR_REACHED,
)
from perfzero.diagnose.verdict import Finding, Gain, TimeClass
from perfzero.text import duration, percent, quantity
from perfzero.words.said import joined, say

LIMIT_NAMES: Mapping[str, str] = {
    "memory": say("limit.memory"),
    "tensor": say("limit.tensor"),
    "fma": say("limit.fma"),
    "pcie": say("limit.pcie"),
    "cores": say("limit.cores"),
    "copy": say("limit.copy"),
    "communication": say("limit.communication"),
    "l2": say("limit.l2"),
    "small_grid": say("limit.small_grid"),
    "latency": say("limit.latency"),
    "idle": say("limit.idle"),
}


def amdahl(share: float, *, recovered: float, speedup: float = math.inf) -> float:
    """Speed-up of the whole if *recovered* of *share* runs *speedup* times as fast (inf: vanishes)."""
    saved = share * recovered * (1.0 - 1.0 / speedup)
    return 1.0 / (1.0 - saved) if saved < 1.0 else math.inf


def uses(e: Evidence) -> dict[str, float]:
    """Each resource's use over all time, as a share of its practical roof; unknown ones left out."""
    known = {
        "memory": e.dram_share,
        "tensor": e.level("tensor_active") / e.roofs.tensor,
        "fma": e.level(e.fma_pipe) / e.roofs.fma,
        "pcie": e.pcie_share,
    }
    return {name: use for name, use in known.items() if math.isfinite(use) and use > 0}


def cap(
    e: Evidence, *, traffic: Mapping[str, float] | None = None, also: Mapping[str, float] | None = None
) -> tuple[float, str | None]:
    """
    The largest speed-up any resource allows, and which one that is.

    *traffic*: factor by which the fix changes a resource's use, 1 where it is not named, 0 where
    the fix takes the work off it. *also*: uses of further resources that grow with the speed.
    """
    factors = traffic or {}
    used = uses(e) | {name: use for name, use in (also or {}).items() if use > 0}
    limits = {n: 1.0 / (u * factors.get(n, 1.0)) for n, u in used.items() if factors.get(n, 1.0) > 0}
    if not limits:
        return math.inf, None
    name = min(limits, key=limits.__getitem__)
    return max(1.0, limits[name]), name


def next_limit(
    e: Evidence,
    expected: Gain | None,
    *,
    eased: tuple[TimeClass, ...],
    becomes: str | tuple[str, ...] | None = None,
) -> str | None:
    """What takes most of the time once a fix has gained the middle of *expected*: `limit_after`."""
    if e.split is None:
        return joined("join.or", becomes) if isinstance(becomes, tuple) else becomes
    shares = e.split.shares
    saved = _saved(expected, sum(shares[c] for c in eased))
    return limit_after(shares, saved, eased=eased, becomes=becomes)


def limit_after(
    shares: Mapping[TimeClass, float],
    saved: float,
    *,
    eased: tuple[TimeClass, ...],
    becomes: str | tuple[str, ...] | None = None,
) -> str:
    """
    What takes most of the time, of which *shares* are known, once a fix has saved *saved* of all, in words.

    That comes off the classes *eased*, in proportion. What is left of them keeps its limit, or has that
    called *becomes* where the work moves on to another resource; of several each limits as much of it. Two
    that end up as close as `CLOSE_CALL` are both named.
    """
    moved = (becomes,) if isinstance(becomes, str) else becomes or ()
    whole = sum(shares[c] for c in eased)
    left = max(0.0, 1.0 - saved / whole) if whole > 0 else 1.0
    limits: dict[str, float] = {}
    for c, share in shares.items():
        names = moved if moved and c in eased else (LIMIT_NAMES[c],)
        for name in names:
            part = (left if c in eased else 1.0) / len(names)
            limits[name] = limits.get(name, 0.0) + share * part
    return most_of(limits)


def most_of(limits: Mapping[str, float]) -> str:
    """The one of *limits*, by the time of each, that takes most; two that are as close as `CLOSE_CALL`."""
    most = max(limits.values())
    close = [n for n in sorted(limits, key=limits.__getitem__) if limits[n] >= most - CLOSE_CALL.value]
    return joined("join.or", reversed(close[-2:]))


def middle(expected: Gain) -> float:
    """The share of the time that the middle of *expected* saves."""
    return 1.0 - 1.0 / math.sqrt(expected.low * expected.high)


def saving(finding: Finding) -> float:
    """
    Share of the time that acting on *finding* should save: what is usual, else the middle of its gain.

    Half of its share where no gain can be told. Findings are ranked by this, so that a long
    stretch nobody can shorten does not hide a shorter one that can go.
    """
    return _saved(finding.gain, finding.share) if finding.saves is None else finding.saves


def _saved(expected: Gain | None, share: float) -> float:
    return share / 2 if expected is None else middle(expected)


def expect(
    e: Evidence,
    share: float,
    *,
    recovered: tuple[float, float],
    assumption: str,
    speedup: tuple[float, float] = (math.inf, math.inf),
    traffic: Mapping[str, float] | None = None,
    also: Mapping[str, float] | None = None,
    lowest: float = math.inf,
) -> tuple[Gain, str | None]:
    """
    The interval for fixing *share* of the time, and the resource that caps it (None: nothing does).

    *recovered* and *speedup*: low and high, as in `amdahl`; *traffic* and *also* as in `cap`. *lowest*:
    where the lower end is at most, for another reason.
    """
    low = min(lowest, amdahl(share, recovered=recovered[0], speedup=speedup[0]))
    high = amdahl(share, recovered=recovered[1], speedup=speedup[1])
    return capped(e, low, high, assumption=assumption, traffic=traffic, also=also)


def capped(
    e: Evidence,
    low: float,
    high: float,
    *,
    assumption: str,
    traffic: Mapping[str, float] | None = None,
    also: Mapping[str, float] | None = None,
) -> tuple[Gain, str | None]:
    """From *low* to *high*, or to what `cap` allows, and the resource that stops it (None: nothing does)."""
    most, name = cap(e, traffic=traffic, also=also)
    stopped = LIMIT_NAMES[name] if name is not None and most < high else None
    text = (
        assumption
        if stopped is None
        else say("gain.stopped", assumption=assumption, stopped=stopped, most=f"{most:.1f}")
    )
    return Gain(min(low, most), min(high, most), text), stopped


def graph(e: Evidence, idle: float) -> tuple[Gain, str | None]:
    """
    What a CUDA graph may gain where launches leave the GPU *idle*, and the resource that caps it.

    A graph closes the gaps, and it shortens the kernels too: launched one by one, a tiny kernel is
    active for longer than it works. At best kernel follows kernel every max(`GRAPH_KERNEL_S`,
    active time - `LAUNCH_RAMP_S`); at least half of that is spared, and all but a few of the gaps.
    """
    kernel = e.mean_kernel_s
    shortest = max(GRAPH_KERNEL_S, kernel - LAUNCH_RAMP_S)
    longest = max(GRAPH_KERNEL_S, kernel - LEAST_OF_RAMP * LAUNCH_RAMP_S)
    left = (1.0 - idle) * min(1.0, longest / kernel) + idle * (1.0 - RECOVER_GRAPH[0])
    high = max(amdahl(idle, recovered=RECOVER_GRAPH[1]), 1.0 / (e.level("launches") * shortest))
    text = say("gain.graph", least=duration(shortest))
    return capped(e, min(high, 1.0 / left), high, assumption=text)


def fewer_launches(e: Evidence, idle: float) -> Gain:
    """
    What launching less may gain where launches leave the GPU *idle*: some of the gaps go, not all.

    A kernel that is launched no more takes the part of its active time with it that is its launch and not its
    work (`LAUNCH_RAMP_S`): of those that go the most, at most.
    """
    low = amdahl(idle, recovered=RECOVER_FEWER[0])
    high = amdahl(idle + _launching(e, idle), recovered=RECOVER_FEWER[1])
    return capped(e, low, high, assumption=say("gain.fewer_launches"))[0]


def limit_of_fewer(e: Evidence, expected: Gain, idle: float) -> str | None:
    """What takes most of the time with the middle of what `fewer_launches` gains: gaps go, and kernels."""
    if e.split is None:
        return None
    launching, saved = _launching(e, idle), middle(expected)
    gaps = saved * idle / (idle + launching) if idle > 0 else 0.0
    return limit_after(without_launches(e.split.shares, gaps, saved - gaps), 0.0, eased=())


def _launching(e: Evidence, idle: float) -> float:
    """The share of the time in which kernels are active and do not work yet."""
    return float(np.fmin(1.0 - idle, e.level("launches") * LAUNCH_RAMP_S))


def without_launches(
    shares: Mapping[TimeClass, float], gaps: float, kernels: float
) -> dict[TimeClass, float]:
    """
    *shares* of the time without launches that *gaps* of it were spent on, and *kernels* that go with them.

    Kernels that are too short to be at any roof are small grids, or wait for their latencies.
    """
    short = shares["small_grid"] + shares["latency"]
    stays = max(0.0, 1.0 - kernels / short) if short > 0 else 1.0
    return {
        **shares,
        "idle": max(0.0, shares["idle"] - gaps),
        "small_grid": stays * shares["small_grid"],
        "latency": stays * shares["latency"],
    }


def larger_batch(e: Evidence, idle: float, *, in_part: bool = False) -> Gain:
    """
    What a larger batch may gain where launches leave the GPU *idle*.

    As many launches do `LARGER_BATCH` times the work, or as much more as fills the GPU: at least its gaps,
    with kernels that take in proportion longer; at most SMs without work (`spare`) as well. What it gains at
    least is that of a batch which fits into the memory, if all that is in use grows with it: 1 / (1 - free).

    *in_part*: all gaps lie in one part of the step, which no batch makes longer, such as an optimizer. Then a
    batch b times as large takes idle + b (1 - idle) at most, so it gains b / (idle + b (1 - idle)): twice as
    large a one 2 / (2 - idle).
    """
    gaps, fits = amdahl(idle, recovered=1.0), _batch_that_fits(e)
    if in_part:
        b = min(2.0, fits)
        low, high = b / (idle + b * (1.0 - idle)), gaps
        text = say("gain.larger_batch_there", times=f"{b:.3g}")
    else:
        # A host changes its pace from run to run, either way.
        low = max(1.0, min(fits, gaps) / STEP_TAKES)
        high = min(LARGER_BATCH * STEP_TAKES, amdahl(idle + spare(e), recovered=1.0))
        most = f"{LARGER_BATCH:.0f}"
        times = most if fits == LARGER_BATCH else f"{fits:.2g}-{most}"
        text = say("gain.larger_batch", times=times)
    return capped(e, low, high, assumption=text)[0]


def _batch_that_fits(e: Evidence) -> float:
    """How many times as large a batch fits into the memory in any case, `LARGER_BATCH` at most."""
    used = 1.0 - e.memory_free
    return min(LARGER_BATCH, 1.0 / used) if used > 0 else LARGER_BATCH


def spare(e: Evidence) -> float:
    """Share of all time that SMs without work make of the time of small grids: a larger batch fills them."""
    if e.split is None:
        return 0.0
    without = e.share("small_grid") * (1.0 - e.split.while_in("small_grid", e.rates.sm))
    return without if without > 0 else 0.0


def precision(
    e: Evidence, share: float, *, pipe: float, certain: float, dtype: str
) -> tuple[Gain, str | None]:
    """
    What the tensor cores may gain in *dtype* on *share* of the time, now spent on the FP32 pipe.

    *pipe*: how much of its peak that pipe delivers in that time, so what is computed there is
    known, and with it how fast the tensor cores do it (`TENSOR_REACHED`). *certain*: the part of
    that time in which the pipe is so busy (`BOUND`) that it is all matrix work. A gain of 1 on
    GPUs without tensor cores for *dtype*.
    """
    clock = e.clock_hz if e.clock_hz > 0 else (e.gpu.sm_clock_max_hz or math.nan)
    now = pipe * hardware.peak_flops(e.gpu, "fp32", clock)
    then = hardware.peak_flops(e.gpu, dtype, clock)
    if not (now > 0 and math.isfinite(then)):
        return Gain(1.0, 1.0, say("gain.no_tensor_cores", dtype=dtype)), None
    low, high = (max(1.0, reached * then / now) for reached in TENSOR_REACHED)
    recovered = (
        certain * RECOVER_MATRIX[0] + (1.0 - certain) * RECOVER_PRECISION[0],
        certain * RECOVER_MATRIX[1] + (1.0 - certain) * RECOVER_PRECISION[1],
    )
    text = say(
        "gain.precision",
        share=percent(recovered[0]),
        low=quantity(TENSOR_REACHED[0] * then, "flop/s"),
        high=quantity(TENSOR_REACHED[1] * then, "flop/s"),
        dtype=dtype,
        now=quantity(now, "flop/s"),
    )
    return expect(e, share, recovered=recovered, speedup=(low, high), traffic={"fma": 0.0}, assumption=text)


def double(e: Evidence, share: float, *, by_tensor: bool) -> tuple[Gain, str | None]:
    """
    What float32 may gain on *share* of the time, now spent in double precision, and what caps it.

    By the ratio of the peaks: of the FP32 and FP64 pipes, or, *by_tensor*, of nothing at least
    (float32 products need not use the tensor cores) to that of TF32 at most. Special functions take
    fewer terms besides, so up to twice that on the pipe.
    """
    peaks = {name: hardware.peak_flops(e.gpu, name, 1e9) for name in ("fp64", "fp32", "tf32")}
    ratio = peaks["fp32"] / peaks["fp64"] if peaks["fp64"] > 0 else math.nan
    if not math.isfinite(ratio):
        return Gain(1.0, 1.0, say("gain.peaks_unknown")), None
    if by_tensor:
        # The tensor cores multiply float64 at twice the rate of the pipe.
        low, high = max(1.0, ratio / 2), max(1.0, np.fmax(peaks["tf32"], peaks["fp32"]) / peaks["fp64"] / 2)
    else:
        low, high = ratio, 2 * ratio
    return expect(
        e,
        share,
        recovered=RECOVER_DOUBLE,
        speedup=(float(low), float(high)),
        traffic={"memory": 0.5, "fma": 0.0},
        assumption=say("gain.float32", low=f"{low:.1f}", high=f"{high:.1f}"),
    )


def matrix_part(e: Evidence, where: NDArray[np.bool_], share: float) -> float:
    """Which part of *where*, *share* of all time, the FP32 pipe is so busy that it is all matrix work."""
    return min(1.0, e.busy_share(where & (e.rates.fp32 >= BOUND.value)) / share) if share > 0 else 0.0
