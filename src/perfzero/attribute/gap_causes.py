"""
How much of which gap goes to which line of the program, for whoever draws the gaps.

`attribute.stacks` tells of each line the share of all idle time that would be gone without it, which is a sum
over many moments. Of a single gap a few moments tell at most. So a line's share is handed out:

    total      share x idle time, as reported
    seen       the part of a gap in which the host was seen at the line; for a line that waits for the GPU
               also the part of the 2 ms before the gap, whichever is more
    given      as much of each gap as was seen, times one factor for all, and never more than the gap is long.
               What is left when the gaps with a sighting are full goes to the others, by their lengths

Each line is handed out for itself, since shares may overlap: what a gap gets from several lines together may
be more than its length, as the shares may add up to more than the idle time. The sum over all gaps is the
report's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from perfzero.attribute.causes import Cause, HostCauses
from perfzero.attribute.host_activity import WAITS_FOR_GPU, TextOf, meaning
from perfzero.attribute.idle import idle_time
from perfzero.attribute.moments import main_thread
from perfzero.attribute.shares import UNCERTAIN_NS
from perfzero.attribute.torn import whole_stacks
from perfzero.limits import CHOICE, Limit
from perfzero.stacks import Frame, GilUse, HostStacks, ProcessStacks
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, IntArray, Samples

BEFORE_NS: Annotated[int, Limit("nanoseconds", CHOICE)] = 2_000_000
"""How long before a gap a wait for the GPU is looked for: as `attribute.stacks` does for short gaps."""

HALVINGS = 60
"""Of the search for the factor: a double knows no more."""


@dataclass(frozen=True, slots=True, eq=False)
class GapCauses:
    """
    The gaps of one GPU while its host was watched, arrays of shape (n,), ordered by start.

    `length_ns`: how long the GPU was idle; where not `placed`, somewhere in the sample that begins at
    `start_ns`. `given[k]` (n,): how much of each gap goes to the report's cause k, in ns, and `seen[k]` (n,)
    for how much of the gap the host was seen there, as a share.
    """

    start_ns: IntArray
    length_ns: IntArray
    placed: BoolArray
    given: tuple[IntArray, ...]
    seen: tuple[FloatArray, ...]

    def __len__(self) -> int:
        return len(self.start_ns)


def gap_causes(stacks: HostStacks, pm: Samples, host: HostCauses) -> GapCauses | None:
    """
    The gaps in the samples *pm* while *stacks* were taken, shared out to the causes that *host* names: those
    in the stretch that these are told of.

    None where nobody watched the host, or its clock is not known: where *host* says why it has no causes.
    """
    main = next((p for p in stacks.processes if p.role == "main"), None)
    if main is None or not len(main) or host.reason:
        return None
    main = whole_stacks(main, main_thread(main))
    if host.end_ns > host.start_ns:
        pm = pm.where((pm.start_ns >= host.start_ns) & (pm.end_ns <= host.end_ns))
    idle = idle_time(pm, start_ns=main.start_ns, end_ns=main.end_ns)
    if idle is None:
        return None
    start_ns = np.concatenate([idle.start_ns, idle.short_start_ns])
    short_ns = np.rint(idle.short_s * 1e9).astype(np.int64)
    length_ns = np.concatenate([idle.end_ns - idle.start_ns, short_ns])
    placed = np.arange(len(start_ns)) < len(idle.start_ns)
    order = np.argsort(start_ns, kind="stable")
    start_ns, length_ns, placed = start_ns[order], length_ns[order], placed[order]
    seen = [
        _seen(cause, main, stacks, start_ns, length_ns, offset_ns=round(host.offset_s * 1e9))
        for cause in host.causes
    ]
    whole = float(np.sum(length_ns))
    given = [
        _handed_out(length_ns, part, total=cause.share * whole)
        for cause, part in zip(host.causes, seen, strict=True)
    ]
    return GapCauses(start_ns, length_ns, placed, tuple(given), tuple(seen))


def _seen(
    cause: Cause,
    main: ProcessStacks,
    stacks: HostStacks,
    start_ns: IntArray,
    length_ns: IntArray,
    *,
    offset_ns: int,
) -> FloatArray:
    """Share of each gap in which the host was seen at *cause*, or before it if that waits for the GPU."""
    if cause.activity == "gil":
        return _held(stacks.gil, start_ns, length_ns)
    lines = stacks.lines

    def text_of(frame: Frame) -> str:
        return lines.get((frame.file, frame.line), "")

    inside = _is_cause(cause, main, text_of)
    time_ns = main.time_ns + offset_ns
    edges = np.append(time_ns, max(main.end_ns + offset_ns, int(time_ns[-1])))
    passed = np.append(0.0, np.cumsum(np.diff(edges) * inside))

    def share(first_ns: IntArray, last_ns: IntArray) -> FloatArray:
        spent = np.interp(last_ns, edges, passed) - np.interp(first_ns, edges, passed)
        return np.asarray(spent / np.maximum(last_ns - first_ns, 1), np.float64)

    found = share(start_ns, start_ns + length_ns)
    if cause.activity in WAITS_FOR_GPU:
        just_before = start_ns - UNCERTAIN_NS
        found = np.maximum(found, share(just_before - BEFORE_NS, just_before))
    return np.clip(found, 0.0, 1.0)


def _is_cause(cause: Cause, main: ProcessStacks, text_of: TextOf) -> FloatArray:
    """For each row of *main* 1.0 where its stack leads through the line of *cause*, else 0.0."""
    depth = len(cause.path)
    of_stack = np.zeros(len(main.stacks))
    for k in np.unique(main.stack).tolist():
        frames = [main.frames[i] for i in main.stacks[k]]
        of_stack[k] = bool(frames) and meaning(frames, text_of).path[:depth] == cause.path
    return of_stack[main.stack]


def _held(gil: GilUse | None, start_ns: IntArray, length_ns: IntArray) -> FloatArray:
    """Share of the looks in each gap that found the main thread waiting for the GIL."""
    if gil is None:
        return np.zeros(len(start_ns))
    first, stop = np.searchsorted(gil.time_ns, start_ns), np.searchsorted(gil.time_ns, start_ns + length_ns)
    waiting = np.append(0, np.cumsum(gil.waits > 0))
    return np.asarray((waiting[stop] - waiting[first]) / np.maximum(stop - first, 1), np.float64)


def _handed_out(length_ns: IntArray, seen: FloatArray, *, total: float) -> IntArray:
    """*total* ns over gaps of *length_ns* (n,), by how much of each was *seen* (n,)."""
    length = length_ns.astype(np.float64)
    total = min(total, float(length.sum()))
    room = float(length[seen > 0].sum())
    given = np.where(seen > 0, length, 0.0)
    if total < room:
        low, high = 0.0, 1.0 / float(seen[seen > 0].min())
        for _ in range(HALVINGS):
            factor = (low + high) / 2
            given = length * np.minimum(1.0, factor * seen)
            low, high = (factor, high) if given.sum() < total else (low, factor)
    elif total > room:
        given = given + np.where(
            seen > 0, 0.0, length * (total - room) / max(float(length.sum()) - room, 1e-12)
        )
    return _whole(given)


def _whole(amounts: FloatArray) -> IntArray:
    """*amounts* in whole numbers that add up to the whole number next to their sum."""
    whole = np.rint(np.cumsum(amounts)).astype(np.int64)
    return whole - np.append(np.int64(0), whole[:-1])
