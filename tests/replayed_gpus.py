"""Recordings of real GPUs, replayed with a clock of our own: what live displays are fed with in tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perfzero.live.reading import Replayed
from perfzero.live.snapshot import Snapshot
from perfzero.store.reader import open_recording

RECORDINGS = Path(__file__).parent / "recordings"
NOON_NS = 1_796_040_000_000_000_000  # 2026-11-30 12:00:00 UTC


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def unix_ns(self) -> int:
        return NOON_NS + round(self.now_s * 1e9)


def replayed(name: str, clock: Clock, *, every_s: float = 1.0) -> Replayed:
    recording = open_recording(RECORDINGS / name)
    return Replayed(recording, every_s=every_s, clock=clock, now_ns=clock.unix_ns)


def seen(name: str, *, seconds: int = 22) -> Snapshot:
    """What the display shows after so many seconds of the recording *name*."""
    clock = Clock()
    reading = replayed(name, clock)
    reading.open()
    for _ in range(seconds):
        clock.now_s += 1.0
        snapshot = reading.read()
    reading.close()
    return replace(snapshot, host="node17", notices=())
