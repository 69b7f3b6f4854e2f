"""
A recorded stream as a live source.

What reads samples live (the display, an exporter, a test) can be fed from a recording, at
the pace at which they were taken or faster, on a machine without any GPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from perfzero.counters import BY_NAME, Counter
from perfzero.errors import NoRecording
from perfzero.store.reader import Recording
from perfzero.values import Samples
from perfzero.words.said import say


class Replay:
    """
    One stream of *recording* as a `perfzero.sources.base.Source`.

    A sample is delivered once it would have been complete: `(end - first start) / speed` seconds
    after `open`, by *clock* (seconds, any origin). `speed=math.inf` delivers all at once. Times
    are those of the recording; with *now_ns*, a clock in Unix ns, they are shifted as a whole so that
    the first sample starts at the time of `open`, their spacing unchanged.
    """

    def __init__(
        self,
        recording: Recording,
        stream: str,
        gpu: int | None = None,
        *,
        speed: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        if not speed > 0:
            raise ValueError(f"a recording cannot be replayed at speed {speed}")
        self.name = stream
        self._samples = recording.samples(stream, gpu)
        if not len(self._samples):
            there = (
                ", ".join(
                    s if g is None else say("replay.of_gpu", stream=s, gpu=g) for s, g in recording.streams
                )
                or "none"
            )
            of_gpu = "" if gpu is None else say("replay.on_gpu", gpu=gpu)
            raise NoRecording(
                say("replay.no_samples", path=recording.path, stream=f"{stream!r}", where=of_gpu, there=there)
            )
        self.counters: Sequence[Counter] = tuple(BY_NAME[n] for n in self._samples.columns)
        self._speed = speed
        self._clock = clock
        self._now_ns = now_ns
        self._opened_s: float | None = None
        self._shift_ns = 0
        self._next = 0
        # Delivery is in order: a sample waits for those before it, should they end later.
        self._due_ns = np.maximum.accumulate(self._samples.end_ns) - self._samples.start_ns[0]

    @property
    def exhausted(self) -> bool:
        """Whether every sample has been delivered."""
        return self._next == len(self._samples)

    def open(self) -> None:
        """Start the clock; opening again starts from the first sample."""
        self._opened_s = self._clock()
        self._next = 0
        self._shift_ns = 0 if self._now_ns is None else self._now_ns() - int(self._samples.start_ns[0])

    def read(self) -> Samples:
        """The samples that have become complete since the last call."""
        if self._opened_s is None:
            return Samples.empty(self._samples.columns)
        first, self._next = self._next, max(self._next, self._complete_by_now(self._opened_s))
        rows = slice(first, self._next)
        return Samples(
            self._samples.start_ns[rows] + self._shift_ns,
            self._samples.end_ns[rows] + self._shift_ns,
            {name: values[rows] for name, values in self._samples.columns.items()},
        )

    def close(self) -> None:
        """Deliver nothing more; harmless when called twice."""
        self._opened_s = None

    def _complete_by_now(self, opened_s: float) -> int:
        if math.isinf(self._speed):
            return len(self._samples)
        elapsed_ns = (self._clock() - opened_s) * self._speed * 1e9
        return int(np.searchsorted(self._due_ns, elapsed_ns, side="right"))
