"""
Leaves: the different meanings of a thread's stacks, a path and what the host does there.

Where the words of a line leave open whether it copies, a copy engine tells. Where they leave open whether it
waits for the GPU (`attribute.waits`), it does if four things agree: the host is there for a good part of the
time; the GPU works meanwhile, though at other times it is idle; a wait ends when the GPU's work does, so when
the host is seen elsewhere the GPU has been idle, after nearly each visit; and no array of the host was ever
seen to be worked on there, for methods of NumPy's and pandas' arrays have frames, and those of tensors have
none. A line that computes, and that gaps come of, has the GPU idle in its midst, or is left while the GPU
still works. What remains are lines of C behind which the GPU happens to run dry within half a
millisecond, over and over: without them the host is as far ahead as without a wait.

A line that reads small results between launches is told likewise, but for the second: how busy the GPU is at
its first read of a step says no more than how idle it is at all others (`attribute.reads`).

Lines of other threads that hold the GIL come after the leaves of the main thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from perfzero.attribute.gil import held_up
from perfzero.attribute.host_activity import Meaning, TextOf, is_own, may_copy, meaning, works_on_arrays
from perfzero.attribute.idle import FULL, Idle
from perfzero.attribute.moments import Moments
from perfzero.attribute.reads import Visits, reads
from perfzero.attribute.waits import may_wait
from perfzero.limits import CHOICE, H200_LOOKS, SIMULATED, Limit
from perfzero.series.clearing import clearing
from perfzero.stacks import Frame, GilUse, ProcessStacks
from perfzero.values import FloatArray, IntArray, Samples

COPIES: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.05
"""
Of the idle time in a line that may copy: if a copy engine works for so much of it, the line copies.
From memory that is not pinned it works for 0.12 to 0.15 of a copy, for the host moves the data first; while
the host is elsewhere for 0.003 of the idle time at most (seven programs on an H200, 2026-11-30).
"""

WAITED: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""Of the moments; where the host is for less it hardly waits, and a few moments say little of the GPU."""

FEWEST: Annotated[float, Limit("count", SIMULATED)] = 40.0
"""Moments in a line: of fewer the GPU's idle share is off by more than 8 points."""

BUSIER: Annotated[float, Limit("ratio", SIMULATED)] = 0.4
"""
In a line that waits the GPU is idle for no more than so much of what it is elsewhere. It is not nothing, for
samples of 1 to 2 ms hold the end of the wait and the gap after it.
"""

ENDED: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.9
"""
Of the visits to a line that waits, after so many the GPU has been idle when the host is seen elsewhere.
It had been after 0.99 to 1.00 of them in six programs on an H200 whose lines are known to wait (2026-11-30).
Where the GPU works on for r ms after the line, and stacks are seen every 4 ms, it has been after exp(-r / 4):
after 0.85 where it works on for half a millisecond, in simulation.
"""

DRY: Annotated[float, Limit("ratio", SIMULATED)] = 0.5
"""Of how idle the GPU is elsewhere: a sample with less shows no gap, but what lies between all kernels."""


def leaves_of(process: ProcessStacks, text_of: TextOf) -> tuple[list[Meaning], IntArray]:
    """What the stacks of *process* mean, and stack -> its place among these meanings, -1 for none."""
    number: dict[Meaning, int] = {}
    leaf_of = np.full(len(process.stacks), -1, np.int64)
    for k in np.unique(process.stack).tolist():
        frames = [process.frames[i] for i in process.stacks[k]]
        if frames:
            leaf_of[k] = number.setdefault(meaning(frames, text_of), len(number))
    return list(number), leaf_of


def with_copies(
    leaves: Sequence[Meaning], moments: Moments, idle: Idle, pm: Samples, text_of: TextOf
) -> list[Meaning]:
    """*leaves*, of which those copy that may, and in which a copy engine works while the GPU is idle."""
    row = np.maximum(np.searchsorted(pm.start_ns, moments.time_ns, side="right") - 1, 0)
    engine = (pm.column("ce_active") - clearing(pm))[row]
    weight = np.where(np.isfinite(engine), moments.weight * idle.at(moments.time_ns), 0.0)
    whole = np.bincount(moments.leaf, weight, len(leaves))
    works = np.bincount(moments.leaf, weight * np.clip(np.nan_to_num(engine), 0.0, 1.0), len(leaves))
    copies = works > COPIES * whole
    return [
        replace(leaf, activity="copying")
        if copies[k] and leaf.activity == "python" and may_copy(text_of(leaf.path[-1]))
        else leaf
        for k, leaf in enumerate(leaves)
    ]


def with_waits(
    leaves: Sequence[Meaning], moments: Moments, idle: Idle, process: ProcessStacks, text_of: TextOf
) -> list[Meaning]:
    """
    *leaves* of *process*, of which those wait for the GPU that may, in which it works, and that end when
    its work does.
    """
    value = idle.at(moments.time_ns)
    known = np.isfinite(value)
    leaf, weight, value = moments.leaf[known], moments.weight[known], value[known]
    there = np.bincount(leaf, weight, len(leaves))
    idle_there = np.bincount(leaf, weight * value, len(leaves))
    elsewhere = (idle_there.sum() - idle_there) / np.maximum(there.sum() - there, 1e-9)
    long = there >= max(FEWEST, WAITED * float(there.sum()))
    may = np.array([leaf.activity == "python" and may_wait(text_of(leaf.path[-1])) for leaf in leaves])
    if not (long & may).any():
        return list(leaves)
    # What the same line launches before or after a wait is no end of it.
    number = {path: n for n, path in enumerate(dict.fromkeys(one.path for one in leaves))}
    place = np.array([number[one.path] for one in leaves], np.int64)
    visits = _visits(place, moments, idle)
    busy = idle_there < BUSIER * elsewhere * there
    small = reads(leaves, moments.where(known), idle, place=place, visits=visits, fewest=FEWEST)
    found = long & may & (busy | small)
    for k in np.flatnonzero(found).tolist():
        mine = visits.at == place[k]
        if not busy[k]:
            mine &= visits.began <= 1 - FULL
        after = visits.dry[mine] >= DRY * elsewhere[k]
        found[k] = bool(len(after)) and bool(after.mean() >= ENDED)
    arrays = on_arrays(process)
    return [
        replace(leaf, activity="synchronising") if waits and leaf.path[-1] not in arrays else leaf
        for leaf, waits in zip(leaves, found, strict=True)
    ]


def _visits(place: IntArray, moments: Moments, idle: Idle) -> Visits:
    """
    Visits to places; *place*: leaf -> place. A visit goes from the first moment there to the first elsewhere.
    """
    time_ns, leaf = moments.time_ns[moments.sure], moments.leaf[moments.sure]
    at = place[leaf]
    first = np.flatnonzero(np.append(True, at[1:] != at[:-1]))
    begin, end, at, following = time_ns[first][:-1], time_ns[first][1:], at[first][:-1], leaf[first][1:]
    began = idle.at(begin)
    known = np.isfinite(began) & np.isfinite(idle.at(end))
    begin, end, at, following = (a[known] for a in (begin, end, at, following))
    if not len(at):
        return Visits(at, np.zeros(0), np.zeros(0), following)
    # From the piece of the GPU's time in which a visit begins to that in which it is over.
    piece = np.searchsorted(idle.edge, np.stack([begin, end], axis=1), side="right") - np.array([1, 0])
    value = np.append(np.nan_to_num(idle.value), 0.0)
    return Visits(at, began[known], np.maximum.reduceat(value, piece.ravel())[::2], following)


def on_arrays(process: ProcessStacks) -> frozenset[Frame]:
    """The program's own lines below which code for arrays of the host was seen."""
    found = set()
    for k in np.unique(process.stack).tolist():
        frames = [process.frames[i] for i in process.stacks[k]]
        own = next((place for place, frame in enumerate(frames) if is_own(frame)), 0)
        if any(works_on_arrays(frame) for frame in frames[:own]):
            found.add(frames[own])
    return frozenset(found)


@dataclass(frozen=True, slots=True, eq=False)
class Looks:
    """
    Looks at the main thread: how idle the GPU was, and the leaf that held the GIL for which it waited, or -1.
    """

    time_ns: IntArray
    idle: FloatArray
    leaf: IntArray


def with_gil(
    leaves: Sequence[Meaning], moments: Moments, idle: Idle, use: GilUse | None, text_of: TextOf
) -> tuple[list[Meaning], Moments, Looks | None]:
    """
    *leaves* with those lines that held the GIL while the main thread waited, and the looks that tell of it.

    *moments* have lost what each line only waited.
    """
    held = None if use is None else held_up(use, text_of)
    if use is None or held is None:
        return list(leaves), moments, None
    value = idle.at(use.time_ns)
    known = np.isfinite(value) & held.sampled
    leaf = np.where(held.line >= 0, held.line + len(leaves), -1)
    looks = Looks(use.time_ns[known], value[known], leaf[known])
    waiting = looks.leaf >= 0
    # The moment before a look says where the main thread was by then.
    at = moments.leaf[np.maximum(np.searchsorted(moments.time_ns, looks.time_ns, side="right") - 1, 0)]
    then = idle.at(moments.time_ns)
    weight = moments.weight
    for of_looks, of_moments in ((looks.idle, then), (1 - looks.idle, 1 - then)):
        whole = np.maximum(np.bincount(at, of_looks, len(leaves)), 1.0)
        waited = np.bincount(at, of_looks * waiting, len(leaves)) / whole
        weight = weight - moments.weight * of_moments * waited[moments.leaf]
    return [*leaves, *held.lines], replace(moments, weight=weight), looks
