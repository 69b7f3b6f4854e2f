"""
What must be alike for two recordings to be compared.

A difference in any of these facts can move the numbers without any change to the program:
another chip, another driver, another power limit, other counters or another sampling period.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from perfzero.values import Observation, Tier, Window


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """
    The facts of one GPU in one recording that decide whether it can be compared with another.

    None is unknown. `power_limit` in watts, `memory` in bytes, `period` in nanoseconds (that of
    the windows, zoom bursts left out); `counters` is a hash of the names of the counters sampled.
    """

    gpu: str
    chip: str | None
    mig: bool
    sm_count: int | None
    memory: int | None
    power_limit: float | None
    driver: str | None
    cpu_count: int | None
    tier: Tier
    period: int | None
    counters: str


def fingerprint(observation: Observation, *, host: Mapping[str, Any] | None = None) -> Fingerprint:
    """The fingerprint of *observation*; *host* are the facts in its manifest (`host_facts`)."""
    gpu = observation.gpu
    cpu_count = (host or {}).get("cpu_count")
    sampled = observation.pm if observation.tier == "pm" else observation.gpm
    return Fingerprint(
        gpu=gpu.name,
        chip=gpu.chip,
        mig=gpu.mig,
        sm_count=gpu.sm_count,
        memory=gpu.memory_bytes,
        power_limit=gpu.power_limit_w,
        driver=gpu.driver,
        cpu_count=cpu_count if isinstance(cpu_count, int) else None,
        tier=observation.tier,
        period=_usual_period(observation.windows),
        counters=counters_hash(sampled.columns),
    )


def differences(a: Fingerprint, b: Fingerprint) -> list[str]:
    """Each fact that differs, as "driver: 580.1 against 570.2". Empty means that a comparison is fair."""
    found: list[str] = []
    for name in (f.name for f in fields(Fingerprint)):
        mine, other = getattr(a, name), getattr(b, name)
        if mine != other:
            found.append(f"{name.replace('_', ' ')}: {_shown(name, mine)} against {_shown(name, other)}")
    return found


def counters_hash(names: Iterable[str]) -> str:
    """Twelve hexadecimal digits that are the same for the same set of counter names, in any order."""
    return hashlib.sha256("\n".join(sorted(set(names))).encode()).hexdigest()[:12]


def host_facts() -> dict[str, Any]:
    """What the manifest keeps of the machine that records: kernel, Python, CPU count, host name."""
    return {
        "hostname": platform.node(),
        "system": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "cpu_count": os.cpu_count(),
    }


def _usual_period(windows: Iterable[Window]) -> int | None:
    """The period under which most of the time was sampled."""
    lengths: dict[int, int] = {}
    for w in windows:
        if w.kind != "zoom":
            lengths[w.period_ns] = lengths.get(w.period_ns, 0) + w.end_ns - w.start_ns
    return max(lengths, key=lambda period: (lengths[period], period), default=None)


def _shown(name: str, value: object) -> str:
    if value is None:
        return "unknown"
    if name == "power_limit":
        return f"{value:g} W"
    if name == "memory" and isinstance(value, int):
        return f"{value / 2**30:.1f} GiB"
    if name == "period" and isinstance(value, int):
        return f"{value / 1000:g} µs"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
