"""
Each part of the idle time has one owner, so that no two rules claim the same seconds.

    class idle = stalled + waiting + late + the rest

    stalled    in some steps only, beyond what the work beside it usually has
    waiting    the queue held work, and neither a kernel nor a copy ran
    late       beside tiny kernels that are launched as fast as the host can, and too late
    the rest   for the rules that look at the host

Stalls are taken out first: what the queue and the launches say is asked of the usual steps alone.
Where data is seen to come late, a long wait for it is no stall of another kind: it stays with the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perfzero.diagnose.idle_time import IdleTime, Late, idle_time, late_launches
from perfzero.diagnose.roofs import Roofs
from perfzero.diagnose.split import AT, Split, classify, rates_of
from perfzero.diagnose.thresholds import FINE_IDLE, IDLE_LINES, IO_WAIT, MAIN_SLEPT, WORKER_BUSY
from perfzero.diagnose.verdict import TimeClass
from perfzero.series.rare import outside
from perfzero.series.stats import level
from perfzero.values import IntArray, Samples

NOWHERE: tuple[IntArray, IntArray] = (np.empty(0, np.int64), np.empty(0, np.int64))
"""The starts and ends of no stalls."""


def worth_lines(idle: float) -> bool:
    """Whether it matters which lines of the program *idle*, a share of all time, goes to."""
    return idle >= IDLE_LINES.value


def without_kernels(shares: Mapping[TimeClass, float]) -> float:
    """
    The share of all time without a kernel, which is what stacks call idle; NaN where *shares* are not known.

    Copies are done meanwhile for a part of it. Communication is the work of kernels, and no part of it.
    """
    return shares.get("idle", math.nan) + shares.get("copy", 0.0)


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


def share_out_idle(
    long: Samples, zoom: Samples, roofs: Roofs, *, stalls: tuple[IntArray, IntArray]
) -> IdleShares:
    """The owners of the idle time of *long*; *stalls* are the starts and ends of those in some steps."""
    usual = outside(long, *stalls)
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


def data_late(host: Samples, split: Split | None, *, stalled: float) -> bool:
    """
    Whether the host is seen to wait for data in stalls that take *stalled* of the time.

    The main thread sleeps, and loaders work, or reads from a disk hold the program up. Loaders that rest in
    every stall, as in a checkpoint, work for the rest of the time at most.
    """
    if split is None or split.fine_idle >= FINE_IDLE.value:
        return False
    sleeps = level(host, "host_main_cpu") <= 1.0 - MAIN_SLEPT.value * split.shares["idle"]
    each = level(host, "host_worker_cpu")
    loads = level(host, "host_workers") >= 1 and each >= WORKER_BUSY.value and each > 1.0 - stalled
    writes = level(host, "host_disk_write_bytes") > level(host, "host_disk_read_bytes")
    reads = level(host, "host_io_wait") >= IO_WAIT.value and not writes
    return sleeps and (loads or reads)


def _class_idle_s(table: Samples, roofs: Roofs) -> tuple[float, float]:
    """Seconds of the class `idle` in *table*, and of all its rows whose activity is known."""
    rates = rates_of(table, roofs)
    if not len(rates.seconds):
        return 0.0, 0.0
    return float(np.sum(classify(rates)[:, AT["idle"]] * rates.seconds)), float(np.sum(rates.seconds))
