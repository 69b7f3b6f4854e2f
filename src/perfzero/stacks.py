"""
Stacks: where processes of the observed program were, moment by moment, in lines of Python.

`perfzero.sources.stacks` has them sampled, `perfzero.store.stacks` keeps and reads them,
`perfzero.attribute.stacks` tells from them what the host did while the GPU had nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfzero.values import IntArray

Role = Literal["main", "worker"]
"""What a process does: it feeds the GPU, or it works for the one that does."""


@dataclass(frozen=True, slots=True, order=True)
class Frame:
    """A function that runs, and the line at which it is."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True, eq=False)
class ProcessStacks:
    """
    What one process was seen to do in [start_ns, end_ns), Unix ns, sampled `rate_hz` times a second.

    Row i of the arrays of shape (n,), ordered by time: at `time_ns[i]` the thread `thread[i]` was first seen
    with the stack `stack[i]`, an index into `stacks`, and with no other until its next row. A thread is a
    number that counts up from 0. A stack is a tuple of indices into `frames`, the innermost first. Moments
    of sampling are random. `slack_ns`: by how much all times may be off together.
    """

    pid: int
    role: Role
    start_ns: int
    end_ns: int
    rate_hz: float
    slack_ns: int
    time_ns: IntArray
    thread: IntArray
    stack: IntArray
    frames: tuple[Frame, ...] = ()
    stacks: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if not len(self.time_ns) == len(self.thread) == len(self.stack):
            raise ValueError("all columns of a table of stacks have the same length")

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True, slots=True, eq=False)
class GilUse:
    """
    The GIL of the process that feeds the GPU: when its main thread waited for it, and who held it.

    At `time_ns[i]`, shape (n,), Unix ns in order, the main thread waited, or not: `waits[i]`, 0 or 1. Moments
    are random, `rate_hz` a second. `holders` are the stacks of threads while they held the GIL, empty ones
    while they did not.
    """

    time_ns: IntArray
    waits: IntArray
    rate_hz: float
    holders: ProcessStacks | None = None

    def __post_init__(self) -> None:
        if len(self.time_ns) != len(self.waits):
            raise ValueError("all columns of a table have the same length")


@dataclass(frozen=True, slots=True, eq=False)
class HostStacks:
    """
    The stacks of all processes that were sampled, and the use of the GIL of the main one, where it was seen.

    `lines`: (file, line) -> the text of a line of the program. `doubts`: sentences on what could not be had.
    """

    processes: tuple[ProcessStacks, ...] = ()
    lines: Mapping[tuple[str, int], str] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    gil: GilUse | None = None
