"""
A host that feeds a GPU, simulated: what each line of a step costs is known by simulating the step without it.

The host does the parts of a step one after the other. Kernels come in order: each begins when it was launched
and the one before it has ended. No more than `QUEUE` of them may wait, else launching takes longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hand_written_stacks import HZ, LINES, MS, pm
from perfzero.stacks import Frame, HostStacks, ProcessStacks
from perfzero.values import Samples

QUEUE = 1024
"""Kernels that may wait: as many as a stream of CUDA takes."""


@dataclass(frozen=True)
class Part:
    """
    What the host does at one place for `ms` of its own; over that time it launches `kernels` of `gpu_ms`.

    Then it waits for all that was launched ("all"), for what was launched before this step ("old"), or for a
    worker that has something ready every `period_ms` ("worker"). `spread` is by how much `ms` varies, as a
    share of it. Only one step in `every` has the part.
    """

    stack: tuple[Frame, ...]
    ms: float = 0.0
    kernels: int = 0
    gpu_ms: float = 0.0
    waits: str = ""
    period_ms: float = 0.0
    spread: float = 0.1
    every: int = 1


@dataclass
class Ran:
    """Where the host was (index of a part) until when, and when the GPU began and ended to work."""

    part: list[int]
    until_ms: list[float]
    edges_ms: list[float]
    steps: int

    @property
    def idle_ms_per_step(self) -> float:
        begin, end = np.array(self.edges_ms[0::2]), np.array(self.edges_ms[1::2])
        return float((end[-1] - begin[0] - (end - begin).sum()) / self.steps)


def run(parts: Sequence[Part], *, seconds: float, seed: int, without: tuple[Frame, ...] | None = None) -> Ran:
    """A program that does *parts* in each step, but for nothing at *without*."""
    draw = np.random.default_rng(seed)
    now, ready, steps = 0.0, 0.0, 0
    ends: list[float] = []
    old = 0  # kernels launched before the step before
    ran = Ran([], [], [], 0)
    while now < seconds * 1e3:
        begun = len(ends)
        for k, part in enumerate(parts):
            ms = part.ms * max(0.0, 1 + part.spread * draw.standard_normal())  # drawn with and without it
            if steps % part.every != part.every - 1 or (part.stack == without and not part.kernels):
                continue
            ms = 0.0 if part.stack == without else ms  # kernels have to be launched, if in no time
            for _ in range(part.kernels):
                now += ms / part.kernels
                if len(ends) >= QUEUE:
                    now = max(now, ends[-QUEUE])
                start = max(now, ends[-1] if ends else 0.0)
                if not ran.edges_ms or start > ran.edges_ms[-1]:
                    ran.edges_ms += [start, start]
                ends.append(start + part.gpu_ms / part.kernels)
                ran.edges_ms[-1] = ends[-1]
            if not part.kernels:
                now += ms
            if part.waits == "all" and ends:
                now = max(now, ends[-1])
            elif part.waits == "old" and old:
                now = max(now, ends[old - 1])
            elif part.waits == "worker":
                ready = max(ready + part.period_ms, now - part.period_ms)  # no more than one is kept
                now = max(now, ready)
            ran.part.append(k)
            ran.until_ms.append(now)
        old = begun
        steps += 1
    ran.steps = steps
    return ran


def simulated(
    parts: Sequence[Part], *, seconds: float = 10.0, seed: int = 1, off_ms: float = 0.0, slack_ms: float = 4.0
) -> tuple[HostStacks, Samples]:
    """
    What py-spy sees of a program that does *parts*, and its GPU.

    Its times are *off_ms* late; that they are known to *slack_ms* is all that is said of it.
    """
    ran = run(parts, seconds=seconds, seed=seed)
    moments = np.cumsum(np.random.default_rng(seed + 1).exponential(1e3 / HZ, int(seconds * HZ)))
    moments = moments[moments < ran.until_ms[-1]]
    at = np.array(ran.part)[np.searchsorted(ran.until_ms, moments, side="right")]
    new = np.append(True, at[1:] != at[:-1])
    frames = list(dict.fromkeys(f for part in parts for f in part.stack))
    main = ProcessStacks(
        pid=1, role="main", start_ns=0, end_ns=int(ran.until_ms[-1] * MS),
        rate_hz=HZ, slack_ns=int(slack_ms * MS),
        time_ns=((moments[new] + off_ms) * MS).astype(np.int64), thread=np.zeros(new.sum(), np.int64),
        stack=at[new], frames=tuple(frames),
        stacks=tuple(tuple(map(frames.index, part.stack)) for part in parts),
    )  # fmt: skip
    lines = {("/job/train.py", line): text for line, text in LINES.items()}
    edges = np.array([*ran.edges_ms, ran.until_ms[-1] + 10, ran.until_ms[-1] + 11])
    return HostStacks((main,), lines), pm((edges * MS).astype(np.int64), period_ns=2 * MS)


def truth(parts: Sequence[Part], line: tuple[Frame, ...], *, seconds: float = 10.0, seed: int = 1) -> float:
    """Which share of the idle time is gone without *line*."""
    before = run(parts, seconds=seconds, seed=seed).idle_ms_per_step
    return 1 - run(parts, seconds=seconds, seed=seed, without=line).idle_ms_per_step / max(before, 1e-9)
