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

from perfzero import hardware
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.thresholds import IDLE_INFO
from perfzero.diagnose.verdict import Finding, Gain, TimeClass

LIMIT_NAMES: Mapping[str, str] = {
    "memory": "memory bandwidth",
    "tensor": "the tensor cores",
    "fma": "the FP32 pipes",
    "pcie": "the PCIe link",
    "copy": "the copies between host and GPU",
    "communication": "communication between GPUs",
    "small_grid": "the number of SMs the kernels fill",
    "latency": "latency inside the kernels",
    "idle": "the host",
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
        "fma": e.level("fma_active") / e.roofs.fma,
        "pcie": e.pcie_share,
    }
    return {name: use for name, use in known.items() if math.isfinite(use) and use > 0}


def cap(e: Evidence, *, traffic: Mapping[str, float] | None = None) -> tuple[float, str | None]:
    """
    The largest speed-up any resource allows, and which one that is.

    *traffic*: factor by which the fix changes a resource's use, 1 where it is not named, 0 where
    the fix takes the work off it.
    """
    factors = traffic or {}
    limits = {n: 1.0 / (u * factors.get(n, 1.0)) for n, u in uses(e).items() if factors.get(n, 1.0) > 0}
    if not limits:
        return math.inf, None
    name = min(limits, key=limits.__getitem__)
    return max(1.0, limits[name]), name


def next_limit(e: Evidence, *, without: tuple[TimeClass, ...], instead: str | None = None) -> str | None:
    """
    The class that takes most of the time once *without* is gone, in words.

    *instead*: what the work moves to, where it does not vanish and nothing else takes much time.
    """
    if e.split is None:
        return instead
    left = {c: s for c, s in e.split.shares.items() if c not in without}
    name = max(left, key=left.__getitem__)
    return LIMIT_NAMES[name] if left[name] >= IDLE_INFO.value else instead


def saving(finding: Finding) -> float:
    """
    Share of the time that acting on *finding* should save: the middle of its gain.

    Half of its share where no gain can be told. Findings are ranked by this, so that a long
    stretch nobody can shorten does not hide a shorter one that can go.
    """
    if finding.gain is None:
        return finding.share / 2
    return 1.0 - 1.0 / math.sqrt(finding.gain.low * finding.gain.high)


def expect(
    e: Evidence,
    share: float,
    *,
    recovered: tuple[float, float],
    assumption: str,
    speedup: tuple[float, float] = (math.inf, math.inf),
    traffic: Mapping[str, float] | None = None,
) -> tuple[Gain, str | None]:
    """
    The interval for fixing *share* of the time, and the resource that caps it (None: nothing does).

    *recovered* and *speedup*: low and high, as in `amdahl`.
    """
    low = amdahl(share, recovered=recovered[0], speedup=speedup[0])
    high = amdahl(share, recovered=recovered[1], speedup=speedup[1])
    most, name = cap(e, traffic=traffic)
    stopped = LIMIT_NAMES[name] if name is not None and most < high else None
    text = assumption if stopped is None else f"{assumption}; {stopped} would stop it at {most:.1f}x"
    return Gain(min(low, most), min(high, most), text), stopped


def precision_speedup(e: Evidence) -> tuple[float, float]:
    """
    How much faster matrix work runs on the tensor cores (TF32) than on the FP32 pipe, low and high.

    The ratio of the peaks at one clock, times 0.4 to 0.85: the practical share for shapes that fit
    badly and well, and for the lower clock under a power cap. (1, 1) without such tensor cores.
    """
    clock = e.clock_hz if e.clock_hz > 0 else (e.gpu.sm_clock_max_hz or math.nan)
    dtype = "tf32" if (e.gpu.compute_capability or (0, 0)) >= (8, 0) else "fp16"
    ratio = hardware.peak_flops(e.gpu, dtype, clock) / hardware.peak_flops(e.gpu, "fp32", clock)
    if not math.isfinite(ratio):
        return 1.0, 1.0
    return max(1.0, 0.4 * ratio), max(1.0, 0.85 * ratio)
