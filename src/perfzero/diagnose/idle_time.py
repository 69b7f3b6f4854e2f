"""
Why no kernel ran: what the front end's queue says of the idle time, and of how far the host runs ahead.

    copying      a copy ran meanwhile, by the same measure as the class `copy` of `diagnose.split`
    waiting      the queue held a command that waited for a semaphore: another stream, a host
                 function, another GPU
    unsubmitted  the queue was empty: the host had submitted nothing
    unresolved   not known: samples in which kernels ran as well, counters not sampled, a blind queue

A sample without any kernel is of one kind. In a sample with kernels, `queue_empty - gr_active` is
the least that was idle with an empty queue, whatever lies beside what, and is counted where no
semaphore was waited for; the rest stays unresolved. Where the windows resolve less than half, the
bursts are asked.

    ahead = time the queue waited for the running kernel / time a kernel ran

A host that runs ahead has the next command in the queue, which waits for a semaphore that the
running kernel releases (0.96 of the time on an H200); a host that launches too late, or waits for
each kernel, has not (0.00). Where semaphores were not sampled, it is the share of the time full of
kernels in which the queue was not empty.

The counters belong to one of the engine's two queues. A program's work may go through the other
one, and then this one is empty all the time. So nothing is said unless each launch was seen to
pass: 1.6 to 3.4 µs of a queue that is not empty, where the host is not ahead. All of this was
established on programs of known cause, see docs/frontend.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfzero.diagnose.roofs import Roofs
from perfzero.diagnose.split import copy_part, rates_of
from perfzero.diagnose.thresholds import (
    ANY_WORK,
    FAST_LAUNCHES,
    FULLY_BUSY,
    HOST_NOT_AHEAD,
    QUEUE_EMPTY,
    QUEUE_SEEN,
    QUEUE_WAITS,
    RESOLVED,
    SHORTEST_LOOK,
    TINY_KERNEL,
    ZOOM_BUSY,
)
from perfzero.values import Samples


@dataclass(frozen=True, slots=True)
class IdleTime:
    """
    Shares of the time without a kernel, adding up to 1; all of it unresolved where nothing is known.

    `ahead`: share of the time with a kernel in which the host had the next one waiting already;
    NaN where that is not known.
    """

    copying: float
    waiting: float
    unsubmitted: float
    unresolved: float
    ahead: float

    @property
    def empty(self) -> float:
        """Which part of the time with neither kernel nor copy the queue was surely empty; NaN without any."""
        return self.unsubmitted / (1.0 - self.copying) if self.copying < 1.0 else math.nan


UNKNOWN = IdleTime(copying=0.0, waiting=0.0, unsubmitted=0.0, unresolved=1.0, ahead=math.nan)
"""Of a recording without the queue's counters."""


def idle_time(windows: Samples, zoom: Samples, roofs: Roofs) -> IdleTime:
    """What the idle time of *windows* was, as they and the bursts *zoom* beside them resolve it."""
    if not _queue_seen(windows):
        copying = _shares(windows, roofs, seen=False)[0] if len(windows) else 0.0
        return IdleTime(copying, 0.0, 0.0, 1.0 - copying, math.nan)
    copying, waiting, unsubmitted = _shares(windows, roofs, seen=True)
    if copying + waiting + unsubmitted < RESOLVED.value and _idle_s(zoom) >= ZOOM_BUSY.value:
        _, near_waiting, near_unsubmitted = _shares(zoom, roofs, seen=True)
        # Bursts sample one copy engine and not the link, so the copies are the windows' to tell.
        left = 1.0 - copying
        waiting = min(near_waiting, left)
        unsubmitted = min(near_unsubmitted, left - waiting)
    ahead = _ahead(windows, roofs, at_least_s=SHORTEST_LOOK.value)
    if math.isnan(ahead):
        ahead = _ahead(zoom, roofs, at_least_s=ZOOM_BUSY.value)
    return IdleTime(copying, waiting, unsubmitted, max(0.0, 1.0 - copying - waiting - unsubmitted), ahead)


@dataclass(frozen=True, slots=True)
class Late:
    """
    The part of the time in which a host launches tiny kernels as fast as it can, and too late.

    `of_idle`: the share of the time with neither kernel nor copy that lies there. `of_time`: the share of
    all time. `launches_per_s`, `kernel_s`: how fast, and how long a kernel takes there; NaN without such
    time. `seen`: whether the queue was read, so that it is certain that none waited in it.
    """

    of_idle: float
    of_time: float
    launches_per_s: float
    kernel_s: float
    seen: bool = False


def late_launches(windows: Samples, roofs: Roofs) -> Late:
    """
    Where in *windows* launches come too late, sample by sample.

    A program may launch its optimizer's tiny kernels too late and run ahead in the rest of its step;
    then the means of the whole are those of neither.
    """
    windows = windows.where(np.isfinite(windows.column("gr_active") * windows.column("launches")))
    gr, seconds, launches = windows.column("gr_active"), windows.duration_s, windows.column("launches")
    rate = launches / seconds
    late = (rate >= FAST_LAUNCHES.value) & (gr < TINY_KERNEL.value * rate)
    seen = (
        len(windows) > 0
        and _queue_seen(windows)
        and bool(np.isfinite(windows.column("queue_semaphore")).any())
    )
    if seen:
        late &= ~(windows.column("queue_semaphore") >= HOST_NOT_AHEAD.value * gr)
    idle = (1.0 - gr) * seconds * (1.0 - copy_part(rates_of(windows, roofs).copying))
    without = float(np.sum(idle))
    if not late.any() or not without > 0:
        return Late(0.0, 0.0, math.nan, math.nan)
    count, time = float(np.sum(launches[late])), float(np.sum(seconds[late]))
    return Late(
        of_idle=float(np.sum(idle[late])) / without,
        of_time=time / float(np.sum(seconds)),
        launches_per_s=count / time,
        kernel_s=float(np.sum((gr * seconds)[late])) / count,
        seen=seen,
    )


def _queue_seen(windows: Samples) -> bool:
    """Whether the kernels went through the queue that is sampled: each launch leaves a trace in it."""
    used, launches = 1.0 - windows.column("queue_empty"), windows.column("launches")
    known = np.isfinite(used) & np.isfinite(launches)
    count = float(np.sum(launches[known]))
    return count > 0 and float(np.sum((used * windows.duration_s)[known])) >= QUEUE_SEEN.value * count


def _idle_s(table: Samples) -> float:
    """Seconds without a kernel in the samples of *table* whose queue was read."""
    idle = (1.0 - table.column("gr_active")) * table.duration_s
    return float(np.nansum(np.where(np.isfinite(table.column("queue_empty")), idle, np.nan)))


def _shares(table: Samples, roofs: Roofs, *, seen: bool) -> tuple[float, float, float]:
    """Copying, waiting and nothing submitted, as shares of the time without a kernel; 0 without any."""
    table = table.where(np.isfinite(table.column("gr_active")))
    gr, seconds = table.column("gr_active"), table.duration_s
    idle = (1.0 - gr) * seconds
    whole = float(np.sum(idle))
    if not whole > 0:
        return 0.0, 0.0, 0.0
    part = copy_part(rates_of(table, roofs).copying)
    copying = float(np.sum(idle * part)) / whole
    if not seen:
        return copying, 0.0, 0.0
    empty, semaphore = table.column("queue_empty"), table.column("queue_semaphore")
    without_copy = part <= 0.0
    no_kernel = gr <= ANY_WORK.value
    # Where semaphores were not sampled, a queue that is not empty beside no kernel waits all the same.
    held = np.where(np.isfinite(semaphore), semaphore, 1.0 - empty) >= QUEUE_WAITS.value
    waits = no_kernel & without_copy & held
    nothing = no_kernel & ~held & (empty >= QUEUE_EMPTY.value)
    mixed = ~no_kernel & without_copy & (semaphore < QUEUE_WAITS.value)
    least = np.clip(np.nan_to_num(empty - gr), 0.0, None) * seconds
    waiting = float(np.sum(idle[waits])) / whole
    unsubmitted = (float(np.sum((idle * (1.0 - part))[nothing])) + float(np.sum(least[mixed]))) / whole
    return copying, waiting, unsubmitted


def _ahead(table: Samples, roofs: Roofs, *, at_least_s: float) -> float:
    """How far the host runs ahead, NaN where less than *at_least_s* of running kernels can tell."""
    table = table.where(np.isfinite(table.column("gr_active")))
    gr, seconds = table.column("gr_active"), table.duration_s
    semaphore = table.column("queue_semaphore")
    # While a copy runs the queue may wait for that instead.
    known = (
        (gr > ANY_WORK.value) & np.isfinite(semaphore) & (copy_part(rates_of(table, roofs).copying) <= 0.0)
    )
    held = semaphore
    if not known.any():
        held = 1.0 - table.column("queue_empty")
        known = (gr >= FULLY_BUSY.value) & np.isfinite(held)
    busy = float(np.sum((gr * seconds)[known]))
    return min(1.0, float(np.sum((held * seconds)[known])) / busy) if busy >= at_least_s else math.nan
