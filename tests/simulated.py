"""A GPU that exists only here, put where libcupti would be: it keeps time, samples, and fails on request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfzero.counters import Counter
from perfzero.sources._libcupti import HARDWARE_BUSY, OUT_OF_MEMORY, CuptiError
from perfzero.sources.cupti import Decoded, Resolution

START = 1_700_000_000_000_000_000


class Clock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now_ns = START
        self.set_by_ns = 0  # how far the machine's clock was set since; time itself goes on

    def __call__(self) -> int:
        """What the machine's clock shows."""
        return self.now_ns + self.set_by_ns

    def monotonic(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


class SimulatedDevice:
    """`perfzero.sources.cupti.PmDevice` with a sample every period, each metric worth its position."""

    chip = "GH100"
    library_version = 130001
    sm_count = 132
    l2_bytes = 60 << 20

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.enabled = False
        self.busy = False
        self.refuse = 0  # a CUptiResult with which `enable` fails
        self.overflows_after: int | None = None  # samples in the hardware buffer
        self.silent_after_ns: int | None = None
        self.stale_first = True
        self.missing: set[int] = set()  # indices of samples that never come
        self.flags_overflow = False
        self.own_pcie_bytes = 15_000.0
        self.configured: list[tuple[tuple[str, ...], int, int]] = []
        self.rooms: list[int] = []
        self._since = 0
        self._index = 0
        self._until: int | None = None

    def enable(self) -> None:
        if self.refuse:
            raise CuptiError("cuptiPmSamplingEnable", self.refuse)
        if self.busy:
            raise CuptiError("cuptiPmSamplingEnable", HARDWARE_BUSY)
        assert not self.enabled, "a second session without giving back the first"
        self.enabled = True

    def resolve(self, wanted: Sequence[Counter]) -> Resolution:
        metrics = {c.name: c.cupti[0] for c in wanted if c.cupti}
        return Resolution(self.chip, self.library_version, metrics)

    def configure(self, metrics: Sequence[str], *, period_ns: int, buffer_bytes: int) -> None:
        self.configured.append((tuple(metrics), period_ns, buffer_bytes))

    def start(self) -> None:
        self._since, self._index, self._until = self.clock.now_ns, 0, None

    def stop(self) -> None:
        self._until = self.clock.now_ns

    def decode(self, room: int) -> Decoded:
        self.rooms.append(room)
        metrics, period, _ = self.configured[-1]
        until = self.clock.now_ns if self._until is None else self._until
        if self.silent_after_ns is not None:
            until = min(until, self._since + self.silent_after_ns)
        last = (until - self._since) // period
        if self.overflows_after is not None and last - self._index > self.overflows_after:
            raise CuptiError("cuptiPmSamplingDecodeData", OUT_OF_MEMORY)
        numbers = [i for i in range(self._index, last) if i not in self.missing]
        start = np.array([self._since + i * period for i in numbers], np.int64) + self.clock.set_by_ns
        end = start + period
        if self.stale_first and self._index == 0 and len(start):
            start[0] = 0
        self._index = int(last)
        values = np.tile(np.arange(len(metrics), dtype=float), (len(numbers), 1))
        for i, metric in enumerate(metrics):
            if metric.startswith("pcie__write"):
                values[:, i] = self.own_pcie_bytes
        return Decoded(start, end, values, overflow=self.flags_overflow, full=len(numbers) > room)

    def disable(self) -> None:
        self.enabled = False
