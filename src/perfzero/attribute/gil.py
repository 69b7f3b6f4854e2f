"""
Which lines of other threads hold the GIL while the main thread waits for it.

Looks at the main thread tell when it waited for the GIL (`perfzero.sources.gil`), and a sampling of holders
who held it: both at random moments, some 10 ms apart. A wait lasts up to Python's switch interval of 5 ms, or
as long as a function in C keeps the GIL. So to each look that found it waiting belongs the thread that held
the GIL at the sample before it, else at the one after it; where neither shows one, that of the nearest look.
Looks from outside of the time in which holders were sampled belong to nobody: that sampling may have ended
early. Where most looks show no holder nothing is told.

What is not told: who holds it where no sample shows another thread of Python. A thread that works in C
without the GIL holds nobody up, and is not blamed, however busy it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from perfzero.attribute.host_activity import Meaning, TextOf, meaning
from perfzero.limits import CHOICE, Limit
from perfzero.stacks import GilUse, ProcessStacks
from perfzero.traces import BoolArray
from perfzero.values import IntArray

NEAR_NS: Annotated[int, Limit("nanoseconds", CHOICE)] = 20_000_000
"""
A sample of who holds the GIL that is farther away says nothing of a look: two mean distances between
samples.
"""

LEAST_WAITS: Annotated[int, Limit("count", CHOICE)] = 20
"""Looks that found the main thread waiting for the GIL; of fewer the share is off by a quarter as a rule."""


KNOWN: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""
Of the looks that found the main thread waiting for the GIL, so many have to show themselves who held it.
"""


@dataclass(frozen=True, slots=True, eq=False)
class HeldUp:
    """
    Of each look at the main thread, shape (n,): for which of *lines* it waited, -1 where it did not wait.

    `sampled`: whether holders were sampled by then; of a wait at another time nobody knows for whom it was.
    """

    line: IntArray
    sampled: BoolArray
    lines: tuple[Meaning, ...]


def held_up(use: GilUse, text_of: TextOf) -> HeldUp | None:
    """Who held the main thread up; None where it hardly waited, or nobody was seen to hold the GIL."""
    if use.holders is None:
        return None
    sampled = (use.time_ns >= use.holders.start_ns) & (use.time_ns <= use.holders.end_ns)
    waiting = sampled & (use.waits > 0)
    time_ns = use.time_ns[waiting]
    if len(time_ns) < LEAST_WAITS:
        return None
    change_ns, holder = _holders(use.holders)
    if not (holder >= 0).any():
        return None
    before = np.searchsorted(change_ns, time_ns, side="right") - 1
    after = np.minimum(before + 1, len(holder) - 1)
    near_after = np.abs(change_ns[after] - time_ns) <= NEAR_NS
    found = np.where(before >= 0, holder[np.maximum(before, 0)], -1)
    found = np.where((found < 0) & near_after, holder[after], found)
    known = np.flatnonzero(found >= 0)
    if len(known) < KNOWN * len(time_ns):
        return None
    found = found[known[_nearest(time_ns[known], time_ns)]]
    number: dict[Meaning, int] = {}
    line_of: dict[int, int] = {}
    for k in np.unique(found).tolist():
        frames = [use.holders.frames[i] for i in use.holders.stacks[k]]
        line_of[k] = number.setdefault(Meaning("gil", meaning(frames, text_of).path), len(number))
    line = np.full(len(use.time_ns), -1, np.int64)
    line[waiting] = [line_of[k] for k in found.tolist()]
    return HeldUp(line, sampled, tuple(number))


def _holders(process: ProcessStacks) -> tuple[IntArray, IntArray]:
    """
    When the holder changed, and which stack of another thread than the main one held the GIL from then on.

    -1 where that is none, or the main thread's: it was not the holder while it waited.
    """
    main = _main_threads(process)
    times: list[int] = []
    holders: list[int] = []
    now: tuple[int, int] | None = None  # a thread, and its stack
    for time_ns, thread, stack in zip(
        process.time_ns.tolist(), process.thread.tolist(), process.stack.tolist(), strict=True
    ):
        if process.stacks[stack]:
            now = thread, stack
        elif now is not None and now[0] == thread:
            now = None
        held = -1 if now is None or now[0] in main else now[1]
        if times and times[-1] == time_ns:
            holders[-1] = held
        else:
            times.append(time_ns)
            holders.append(held)
    return np.array(times, np.int64), np.array(holders, np.int64)


def _main_threads(process: ProcessStacks) -> set[int]:
    """Threads that began with a module: the program's main one."""
    outermost = [process.frames[stack[-1]].function if stack else "" for stack in process.stacks]
    pairs = zip(process.thread.tolist(), process.stack.tolist(), strict=True)
    return {thread for thread, stack in pairs if outermost[stack] in ("<module>", "_run_code")}


def _nearest(places: IntArray, wanted: Sequence[int] | IntArray) -> IntArray:
    """The index of that of *places*, in order, that is nearest to each of *wanted*."""
    right = np.clip(np.searchsorted(places, wanted), 1, max(1, len(places) - 1))
    left = right - 1
    right = np.minimum(right, len(places) - 1)
    nearer = np.abs(places[right] - wanted) < np.abs(places[left] - wanted)
    return np.asarray(np.where(nearer, right, left), np.int64)
