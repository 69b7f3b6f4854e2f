"""
The hardware counters beside a look inside the program, as fine as they can be had.

One session per GPU, with the few counters that say what a kernel does, for as long as the traced steps take.
How fine: the hardware buffer holds all samples of a burst, and decoding each costs 0.1 ms of CPU afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfzero.record.watch import GpuWatch

MARGIN = 1.5
"""Steps take so much longer while they are traced: twice, where the host sets the pace (H200)."""

REST_S = 0.1
"""From the start of sampling to the start of the profiler, and from its end to that of sampling."""

SAMPLES = 12_000
"""In all: 0.5 GB of the hardware buffer at 13 counters and 3.3 KB each, and a good second of CPU."""

PERIODS_NS = (10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000)
"""One of these. Bursts were complete down to 2 us, but with fewer counters than these."""


def period_for(length_s: float) -> int:
    """The period in ns for a burst of *length_s* seconds."""
    finest = length_s * 1e9 / SAMPLES
    return next((p for p in PERIODS_NS if p >= finest), PERIODS_NS[-1])


class CloseUp:
    """What `perfzero.record.look.Counters` promises, on all GPUs of the program."""

    def __init__(self, watches: Sequence[GpuWatch]) -> None:
        self._watches = tuple(watches)

    def open(self, step_s: float, steps: int) -> None:
        """Get ready to sample *steps* steps of about *step_s* seconds, and the one in which they begin."""
        length_s = (steps + 1.5) * step_s * MARGIN + REST_S
        for watch in self._watches:
            watch.open_close_up(period_ns=period_for(length_s), length_s=length_s)

    @property
    def opened(self) -> bool:
        """Whether sampling can begin, or there will be none."""
        return all(watch.close_up in ("none", "open") for watch in self._watches)

    def start(self) -> None:
        """Begin to sample."""
        for watch in self._watches:
            watch.start_close_up()

    @property
    def started(self) -> bool:
        """Whether sampling has begun, or there is none."""
        return all(watch.close_up in ("none", "sampling") for watch in self._watches)

    def stop(self) -> None:
        """Sample no more, at whatever point it is."""
        for watch in self._watches:
            watch.stop_close_up()
