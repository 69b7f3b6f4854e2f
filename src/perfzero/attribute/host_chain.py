"""
The host's chain before a gap: what it did from its last launch on, while the GPU still had work.

A host that has launched runs ahead. While it computes, the GPU works off what it was given, and runs dry in
the midst of this line or of a later one; the gap goes on until the host launches again. So all that the host
does between its last launch and the next one comes in a row, and taking d out of it shortens the gap g by
min(d, g), whether it was taken out before the gap began or after:

    host   launches | computes, 12 ms              | settings, 3 ms | launches
    GPU    busy for 10 ms after the launch | idle, 5 ms             | busy
                                                     the line that computes: min(12, 5) = 5 of 5 ms

The *run* of moments before a gap that counts goes back to the last moment at which the host launched or
waited for the GPU. In both the GPU itself may have held it up, and what was done before may cost nothing. So
where the host is late all the time, and gaps follow each launch, lines before a launch get too little: a
launch that is held up looks like one that is not. The run goes back no further than the gap before. What is
done before a wait for others, such as a batch of the DataLoader, would only make that longer: the run begins
with such a wait. So it is with a wait for the GPU that comes after a line: where one is seen the line gets
nothing. A wait that would only come about without the line is not known.

Stacks do not tell which line of Python launches, for C has no frame. But a gap *ends* when the host launches.
So a line of Python computes if clearly more gaps begin in it than end there. It may be a wait for the GPU
that no words tell: then its gaps begin where it ends, and it is their cause all the same. Lines of which the
activity is known need no such proof.

Of a leaf only the sums over gaps alike in length are compared, b of its time before them and e of the time in
them at which the host was elsewhere: it gets min(b, e) besides its own time in them. In one gap it has a few
moments at most, and the mean of a minimum of so few is far below that of what they stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from perfzero.attribute.host_activity import LAUNCHING, WAITS_FOR_GPU, Meaning
from perfzero.attribute.idle import Idle
from perfzero.attribute.moments import Moments
from perfzero.limits import CHOICE, SIMULATED, Limit
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, IntArray

NEAR_NS: Annotated[int, Limit("nanoseconds", CHOICE)] = 1_000_000
"""A moment so near to an edge of a gap is at the line in which it begins or ends."""

TOLD_APART_NS: Annotated[int, Limit("nanoseconds", CHOICE)] = 4_000_000
"""Shorter gaps begin and end too near to each other: the clock is known to a millisecond or so."""

MORE: Annotated[float, Limit("ratio", SIMULATED)] = 1.5
"""
In a line that computes begin so many times more gaps than end there, and `SOME` moments more. In one that
launches end as many as begin. Of those that end only moments afterwards count: before, the host may well
have been in the line before the one that launches.
"""

SOME: Annotated[float, Limit("count", SIMULATED)] = 2.5
"""Moments by which more gaps begin than end in a line that computes: of a few it may be chance."""

BEHIND: Annotated[float, Limit("ratio", SIMULATED)] = 0.1
"""
A line is not counted where the host was seen to wait for the GPU after it before so many of the gaps, and
before `BEHIND_GAPS`: without it that wait would be longer. One of 1 ms is seen one time in five, so it was
there before the other gaps as well.
"""

BEHIND_GAPS: Annotated[int, Limit("count", SIMULATED)] = 3
"""Gaps before which a wait was seen behind a line, at least: one or two may be chance."""


def computes(leaves: Sequence[Meaning], moments: Moments, idle: Idle) -> BoolArray:
    """Which *leaves* launch nothing, and are not followed by a wait for the GPU before a gap."""
    python = np.array([leaf.activity == "python" for leaf in leaves], np.bool_)
    unsure = WAITS_FOR_GPU | LAUNCHING | {"python", "gil"}
    known = np.array([leaf.activity not in unsure for leaf in leaves], np.bool_)

    def within(start_ns: IntArray, end_ns: IntArray) -> FloatArray:
        first, stop = np.searchsorted(moments.time_ns, start_ns), np.searchsorted(moments.time_ns, end_ns)
        spans = [np.arange(a, b) for a, b in zip(first.tolist(), stop.tolist(), strict=True)]
        rows = np.concatenate([np.zeros(0, np.int64), *spans])
        return np.asarray(np.bincount(moments.leaf[rows], moments.weight[rows], len(leaves)), np.float64)

    long = idle.end_ns - idle.start_ns >= TOLD_APART_NS
    start_ns, end_ns = idle.start_ns[long], idle.end_ns[long]
    begin = within(start_ns - NEAR_NS, start_ns + NEAR_NS) / 2
    end = within(end_ns, end_ns + NEAR_NS)
    computing = known | (python & (begin >= MORE * end + SOME))
    return np.asarray(computing & ~_waited_behind(leaves, moments, idle), np.bool_)


def _waited_behind(leaves: Sequence[Meaning], moments: Moments, idle: Idle) -> BoolArray:
    """After which leaves the host was seen to wait for the GPU, before it launched again and before a gap."""
    leaf, n = moments.leaf, len(leaves)
    waits = np.array([one.activity in WAITS_FOR_GPU for one in leaves], np.bool_)
    launches = np.array([one.activity in LAUNCHING for one in leaves], np.bool_)
    gaps, behind = np.zeros(n), np.zeros(n)
    stretch, start = (np.searchsorted(moments.time_ns, ns) for ns in (_busy_since(idle), idle.start_ns))
    for a, b in zip(stretch.tolist(), start.tolist(), strict=True):
        since = leaf[a:b]
        since = since[int(np.flatnonzero(launches[since])[-1:].sum()) :]
        last_wait = int(np.flatnonzero(waits[since])[-1:].sum())
        gaps[np.unique(since)] += 1
        behind[np.unique(since[:last_wait])] += 1
    return np.asarray((behind >= BEHIND_GAPS) & (behind >= BEHIND * gaps), np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Roles:
    """Of each leaf: whether the host `computes` there, waits for `others`, or `launches`."""

    computes: BoolArray
    others: BoolArray
    launches: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class Before:
    """
    Time before gaps, in moments: of each `leaf` in gaps of one length, shape (pairs,), and of all together.

    `before` is the leaf's time in runs before these gaps. `elsewhere` is the host's time at other lines in
    these gaps, of those where the leaf was seen in the gap or in its run. Both are of shape (blocks, pairs).
    `any_before` and `launching` are the same of all that computes together and of launching, of shape
    (blocks, lengths).
    """

    leaf: IntArray
    before: FloatArray
    elsewhere: FloatArray
    any_before: FloatArray
    launching: FloatArray


def before_gaps(moments: Moments, idle: Idle, roles: Roles, *, block_of: IntArray, blocks: int) -> Before:
    """The runs before the gaps of *idle*, gap k in the block *block_of[k]*."""
    leaf, weight = moments.leaf, moments.weight
    stretch, start, end = (
        np.searchsorted(moments.time_ns, ns) for ns in (_busy_since(idle), idle.start_ns, idle.end_ns)
    )
    begin = np.maximum(_run_begins(leaf, start, roles), stretch)
    exponent = np.floor(np.log2(np.maximum((idle.end_ns - idle.start_ns) / 1e9, 1e-6)))
    lengths, length = np.unique(exponent, return_inverse=True)
    of: dict[tuple[int, int], tuple[FloatArray, FloatArray]] = {}
    any_before, launching = np.zeros((blocks, len(lengths))), np.zeros((blocks, len(lengths)))
    for k, (a, b, c) in enumerate(zip(begin.tolist(), start.tolist(), end.tolist(), strict=True)):
        here, at = np.unique(leaf[a:c], return_inverse=True)
        run = np.bincount(at[: b - a], weight[a:b], len(here))
        inside = np.where(roles.others[here], 0.0, np.bincount(at[b - a :], weight[b:c], len(here)))
        block, of_length = int(block_of[k]), int(length[k])
        if roles.computes[here].any():
            any_before[block, of_length] += run.sum()
            launching[block, of_length] += inside[roles.launches[here]].sum()
        for i in np.flatnonzero(roles.computes[here]).tolist():
            key = of_length, int(here[i])
            before, elsewhere = of.setdefault(key, (np.zeros(blocks), np.zeros(blocks)))
            before[block] += run[i]
            elsewhere[block] += inside.sum() - inside[i]
    pairs = [(one, *found) for (_, one), found in of.items() if found[0].any()]
    return Before(
        leaf=np.array([one for one, _, _ in pairs], np.int64),
        before=np.array([before for _, before, _ in pairs]).reshape(-1, blocks).T,
        elsewhere=np.array([elsewhere for _, _, elsewhere in pairs]).reshape(-1, blocks).T,
        any_before=any_before,
        launching=launching,
    )


def _busy_since(idle: Idle) -> IntArray:
    """Before each gap, the time since which the GPU has been busy, as far as counters were sampled."""
    sampled = idle.edge[1:][np.isnan(idle.value[:-1])]
    ends = np.sort(np.concatenate([idle.end_ns, idle.short_end_ns, sampled, idle.edge[:1]]))
    return np.asarray(ends[np.searchsorted(ends, idle.start_ns, side="right") - 1], np.int64)


def _run_begins(leaf: IntArray, start: IntArray, roles: Roles) -> IntArray:
    """The first moment of the run before each of the moments *start*."""
    # A run ends with a moment that does not compute, or that a wait for others follows.
    ends = ~roles.computes[leaf]
    ends[:-1] |= roles.others[leaf[1:]] & (leaf[1:] != leaf[:-1])
    return np.append(0, np.maximum.accumulate(np.where(ends, np.arange(len(leaf)) + 1, 0)))[start]
