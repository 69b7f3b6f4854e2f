"""
Each part of the idle time has one owner, so that no two rules claim the same seconds.

    class idle = stalled + waiting + late + the rest

    stalled    in some steps only, beyond what the work beside it usually has
    waiting    the queue held work, and neither a kernel nor a copy ran
    late       beside tiny kernels that are launched as fast as the host can, and too late
    the rest   for the rules that look at the host

Stalls are taken out first: what the queue and the launches say is asked of the usual steps alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from perfzero.diagnose.idle_time import IdleTime, Late, idle_time, late_launches
from perfzero.diagnose.roofs import Roofs
from perfzero.diagnose.split import AT, classify, rates_of
from perfzero.series.rare import RareEvent
from perfzero.values import Samples


@dataclass(frozen=True, slots=True)
class IdleShares:
    """
    Shares of all time that are part of the class `idle`, without overlap; and whence they are known.

    `queue`, `late`: what the queue and the launches say outside of stalls.
    """

    queue: IdleTime
    late: Late
    stalled: float
    waiting: float
    late_idle: float


def share_out_idle(long: Samples, zoom: Samples, roofs: Roofs, *, rare: Iterable[RareEvent]) -> IdleShares:
    """The owners of the idle time of *long*; *rare* are the events in some of its steps."""
    usual = _outside(long, rare)
    queue, late = idle_time(usual, zoom, roofs), late_launches(usual, roofs)
    idle_s, whole_s = _class_idle_s(long, roofs)
    if not whole_s > 0:
        return IdleShares(queue, late, 0.0, 0.0, 0.0)
    usual_idle_s, usual_s = _class_idle_s(usual, roofs)
    inside_idle_s = idle_s - usual_idle_s
    beside_s = whole_s - usual_s - inside_idle_s
    per_work = usual_idle_s / (usual_s - usual_idle_s) if usual_s > usual_idle_s else 0.0
    stalled = max(0.0, inside_idle_s - per_work * beside_s) / whole_s
    without_kernel_s = float(np.nansum((1.0 - usual.column("gr_active")) * usual.duration_s))
    left = idle_s / whole_s - stalled
    waiting = min(queue.waiting * without_kernel_s / whole_s, left)
    late_idle = min(late.of_idle * usual_idle_s / whole_s, left - waiting)
    return IdleShares(queue, late, stalled, waiting, late_idle)


def _class_idle_s(table: Samples, roofs: Roofs) -> tuple[float, float]:
    """Seconds of the class `idle` in *table*, and of all its rows whose activity is known."""
    rates = rates_of(table, roofs)
    if not len(rates.seconds):
        return 0.0, 0.0
    return float(np.sum(classify(rates)[:, AT["idle"]] * rates.seconds)), float(np.sum(rates.seconds))


def _outside(table: Samples, events: Iterable[RareEvent]) -> Samples:
    """The rows of *table* that no stall of *events* touches."""
    keep = np.ones(len(table), np.bool_)
    for event in events:
        if event.nature == "stall":
            for start, end in zip(event.starts_ns, event.ends_ns, strict=True):
                keep &= (table.end_ns <= start) | (table.start_ns >= end)
    return table.where(keep)
