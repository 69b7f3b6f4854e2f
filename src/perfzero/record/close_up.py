"""
The hardware counters beside a look inside the program, as fine as they can be had.

One session per GPU, with the few counters that say what a kernel does, for as long as the traced steps take.
How fine: buffers hold all samples of a burst, in memory that the program may need, and decoding each costs
0.1 ms of CPU afterwards. How long steps are the program says, which may say anything: what does not fit is
cut off the burst's end, and where hardly anything fits there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import psutil

from perfzero.record.look import WITHIN_S
from perfzero.record.watch import GpuWatch
from perfzero.sources._proc import memory_left

MARGIN = 1.4
"""
So much longer steps take while they are traced: 1.1 to 1.3 in networks that keep the GPU busy, twice where
the host sets the pace (H200). What comes after the burst is not sampled, but its samples are none the worse.
"""

BEGUN = 1.2
"""Steps that are sampled beside the traced ones: the profiler starts with the one after sampling."""

REST_S = 0.1
"""From the start of sampling to the start of the profiler, and from its end to that of sampling."""

SAMPLES = 14_000
"""Of a burst, at most: a good second of CPU."""

SAMPLE_BYTES = 90_000
"""
Of the eleven counters: 3.3 KB each in the hardware buffer at most, and as much again in the image it is
decoded into, with the room that `perfzero.sources.cupti` leaves in both.
"""

MEMORY_SHARE = 1 / 8
"""Of the memory that is left, here or in our cgroup, so that nobody runs out of it for a burst's sake."""

FEWEST = 1000
"""Fewer samples tell little of three steps: rather than these there is no burst."""

FINEST_NS, COARSEST_NS = 10_000, 2_000_000
"""The ends of what a period may be. Bursts were complete down to 2 us, but with fewer counters than these."""


def samples_for(left_bytes: float, gpus: int) -> int:
    """How many samples a burst may have on each of so many GPUs, with so much memory left; 0: none."""
    fit = min(SAMPLES, int(MEMORY_SHARE * min(left_bytes, 1e15) / SAMPLE_BYTES / gpus))
    return fit if fit >= FEWEST else 0


def period_for(length_s: float, samples: int = SAMPLES) -> int:
    """The period in ns, in whole us, for a burst of *length_s* seconds with at most so many *samples*."""
    finest = math.ceil(length_s * 1e6 / samples) * 1000
    return min(max(finest, FINEST_NS), COARSEST_NS)


class CloseUp:
    """What `perfzero.record.look.Counters` promises, on all GPUs of the program."""

    def __init__(self, watches: Sequence[GpuWatch]) -> None:
        self._watches = tuple(watches)
        self._sampled: tuple[GpuWatch, ...] = ()  # those that were asked for a burst

    def open(self, step_s: float, steps: int) -> None:
        """Get ready to sample *steps* steps of about *step_s* seconds, and the one in which they begin."""
        left = min(psutil.virtual_memory().available, memory_left())
        samples = samples_for(left, max(1, len(self._watches)))
        if not samples or not step_s <= WITHIN_S:
            return
        length_s = (steps + BEGUN) * step_s * MARGIN + REST_S
        period_ns = period_for(length_s, samples)
        length_s = min(length_s, samples * period_ns / 1e9)
        self._sampled = self._watches
        for watch in self._sampled:
            watch.open_close_up(period_ns=period_ns, length_s=length_s)

    @property
    def opened(self) -> bool:
        """Whether sampling can begin, or there will be none."""
        return all(watch.close_up in ("none", "open") for watch in self._sampled)

    def start(self) -> None:
        """Begin to sample."""
        for watch in self._sampled:
            watch.start_close_up()

    @property
    def started(self) -> bool:
        """Whether sampling has begun, or there is none."""
        return all(watch.close_up in ("none", "sampling") for watch in self._sampled)

    def stop(self) -> None:
        """Sample no more, at whatever point it is; windows that have nothing to do with the look go on."""
        for watch in self._sampled:
            watch.stop_close_up()
