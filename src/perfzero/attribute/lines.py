"""Leaves put together to lines of the program: which line, or which call, a share is told of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np

from perfzero.attribute.causes import Cause
from perfzero.attribute.host_activity import (
    LAUNCHING,
    WAITS_FOR_GPU,
    WAITS_FOR_OTHERS,
    Activity,
    Meaning,
    TextOf,
)
from perfzero.attribute.moments import Moments
from perfzero.attribute.shares import Shares
from perfzero.attribute.waits import may_wait, waits_for
from perfzero.limits import CHOICE, H200_LOOKS, Limit
from perfzero.stacks import Frame
from perfzero.values import FloatArray

LOOP_S: Annotated[float, Limit("seconds", CHOICE)] = 1.0
"""A call that lasts so long on average holds a loop over steps: the lines in it are told apart ..."""

AT_REST: Annotated[float, Limit("ratio", CHOICE)] = 0.25
"""
... unless it is made again and again, launches nothing, and the GPU works for less than this share of it: a
checkpoint that takes seconds is one call like a shorter one.
"""

INTO: Annotated[float, Limit("ratio", CHOICE)] = 0.9
"""A line within a called function is told instead of the call if it has so much of the call's share."""

HEAVY: Annotated[float, Limit("ratio", CHOICE)] = 0.2
"""Of a call's share: lines behind it with so much may be causes by themselves ..."""

TOGETHER: Annotated[float, Limit("ratio", CHOICE)] = 0.8
"""... and are told instead of the call if together they have so much of it, and one of them is a wait."""

WORTH: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""Of the idle time; a line with less is not told."""

FIRST: Annotated[float, Limit("ratio", CHOICE)] = 0.8
"""
A line that waits for the GPU comes first if it has so much of the largest share, or may have as far as its
interval tells and has `LIKELY` of it: what follows is late.
"""

LIKELY: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.5
"""
Of the largest share. Where a gap begins is known to a millisecond or two, in which the host has left the
wait already: of a `.item()` behind which an H200 had nothing to do, 0.72 of the idle time were told (0.24 to
0.97), beside 0.97 for the work that followed.
"""

FREE: Annotated[float, Limit("ratio", CHOICE)] = 0.25
"""
Of the largest share, for a wait that reads nothing: that can be left out at no cost. Where host and GPU work
in turns the wait has the shorter time of the two as its share, and the host's work behind it all of its own.
Removing a wait with a quarter gains a fifth of the time that both take.
"""


class Lines:
    """
    The program's lines by how they are reached: a tree of which each node is a frame below another one.

    Of each node and all below it: whether any of it `waits` for the GPU, and `lasts_s`, how long it is
    reached without a break on average. Node 0 is above all others, and each node comes after the one that it
    is below.
    """

    def __init__(self, leaves: Sequence[Meaning], moments: Moments, shares: Shares, rate_hz: float) -> None:
        self.frame: list[Frame | None] = [None]
        self.children: list[dict[Frame, int]] = [{}]
        self._above = [0]
        self._leaves_at: list[list[int]] = [[]]
        paths = [self._grown(leaf.path) for leaf in leaves]
        for k, path in enumerate(paths):
            self._leaves_at[path[-1]].append(k)
        at = np.array([path[-1] for path in paths], np.int64)
        nodes = len(self.frame)
        weight = self._with_below(np.bincount(at[moments.leaf], moments.weight, nodes))
        # Lines of a call are told apart by sums, for each of them may be as long as a gap.
        self._sum = self._with_below(np.bincount(at, shares.share, nodes))
        waiting = np.array([leaf.activity in WAITS_FOR_GPU for leaf in leaves], np.float64)
        self._waits_itself = np.bincount(at, waiting, nodes) > 0
        self.waits = self._with_below(np.bincount(at, waiting, nodes)) > 0
        # Where the host goes from one leaf to another it enters the nodes that only the latter is below.
        entries = np.zeros(nodes)
        entries[at[moments.leaf[0]]] += 1
        steps = np.stack((moments.leaf[:-1], moments.leaf[1:]), axis=1)
        steps = steps[steps[:, 0] != steps[:, 1]]
        for (one, other), count in Counter(map(tuple, steps.tolist())).items():
            both = 0
            for a, b in zip(paths[one], paths[other], strict=False):
                if a != b:
                    break
                both = a
            entries[paths[other][-1]] += count
            entries[both] -= count
        times = self._with_below(entries)
        self.lasts_s = weight / rate_hz / np.maximum(1.0, times)
        launching = np.array([leaf.activity in LAUNCHING for leaf in leaves], np.float64)
        launches = self._with_below(np.bincount(at, launching, nodes)) > 0
        works = self._with_below(np.bincount(at, shares.waited, nodes)) * moments.count >= AT_REST * weight
        self._loops = (self.lasts_s >= LOOP_S) & (launches | works | (times < 2))

    def _grown(self, path: Sequence[Frame]) -> list[int]:
        """The nodes of *path*, made where they are not there yet."""
        nodes, node = [], 0
        for frame in path:
            found = self.children[node].get(frame)
            if found is None:
                found = len(self.frame)
                self.frame.append(frame)
                self.children.append({})
                self._above.append(node)
                self._leaves_at.append([])
                self.children[node][frame] = found
            nodes.append(found)
            node = found
        return nodes

    def _with_below(self, values: Any) -> FloatArray:
        """*values*, shape (nodes,), each with those of all nodes below it."""
        sums = values.tolist()
        for node in range(len(sums) - 1, 0, -1):
            sums[self._above[node]] += sums[node]
        return np.asarray(sums, np.float64)

    def leaves_below(self, node: int) -> list[int]:
        """The leaves at *node* and below it."""
        found, rest = [], [node]
        while rest:
            here = rest.pop()
            found += self._leaves_at[here]
            rest += self.children[here].values()
        return sorted(found)

    def path(self, node: int) -> tuple[Frame, ...]:
        """The frames that lead to *node*, the outermost first."""
        found: list[Frame] = []
        while (frame := self.frame[node]) is not None:
            found.append(frame)
            node = self._above[node]
        return tuple(reversed(found))

    def told(self, node: int) -> list[int]:
        """
        The nodes that *node* is told as: itself, or some of those below it.

        Where it comes last, after others below it, it stands for what is left of it without these.
        """
        whole = self._sum[node]
        below = sorted(self.children[node].values(), key=lambda child: -self._sum[child])
        if not below or not whole > 0:
            return [node]
        if self._loops[node]:
            return [found for child in below for found in self.told(child)]
        if self._sum[below[0]] >= INTO * whole:
            return self.told(below[0])
        heavy = [child for child in below[:3] if self._sum[child] >= HEAVY * whole]
        # Several causes behind one call, unless it is one function whose lines share the work.
        if (
            len(heavy) > 1
            and sum(self._sum[child] for child in heavy) >= TOGETHER * whole
            and any(self.waits[child] for child in heavy)
        ):
            return [found for child in heavy for found in self.told(child)]
        # A wait is one line, and what to do about it stands there, however the rest of the call is spread.
        waits = [found for child in heavy for found in self.told(child) if self._waits_itself[found]]
        return [*waits, node]


def told(
    leaves: Sequence[Meaning],
    moments: Moments,
    shares: Shares,
    text_of: TextOf,
    *,
    rate_hz: float,
    own: FloatArray,
) -> list[Cause]:
    """
    Leaves put together to lines worth telling. *own* (leaves, 2): the share of the GPU's work that is for
    each leaf itself, least and most.
    """
    lines = Lines(leaves, moments, shares, rate_hz)
    times = np.bincount(moments.leaf, moments.weight, len(leaves)) / max(moments.count, 1.0)
    # A function that several lines call has its lines once for each: to the reader that is one place.
    places: dict[Frame, list[tuple[int, list[int]]]] = defaultdict(list)
    for root in lines.children[0].values():
        for node, members in _apart(lines, lines.told(root)):
            places[lines.path(node)[-1]].append((node, members))
    causes = [
        _cause(
            lines.path(max(parts, key=lambda part: float(shares.share[part[1]].sum()))[0]),
            [leaf for _, members in parts for leaf in members],
            leaves,
            shares,
            times,
            text_of,
            own_work=own[[leaf for _, members in parts for leaf in members]].sum(0),
            lasts_s=max(float(lines.lasts_s[node]) for node, _ in parts),
        )
        for parts in places.values()
        if sum(float(shares.share[members].sum()) for _, members in parts) >= WORTH
    ]
    causes.sort(key=lambda c: (-c.share, c.frame))
    first = next((c for c in causes if c.activity in WAITS_FOR_GPU and wait_leads(c, causes[0])), None)
    if first is not None:
        causes.remove(first)
        causes.insert(0, first)
    return causes


def _apart(lines: Lines, nodes: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Each of *nodes* and the leaves that it stands for, which no node before it does."""
    taken: set[int] = set()
    for node in nodes:
        members = [leaf for leaf in lines.leaves_below(node) if leaf not in taken]
        taken.update(members)
        yield node, members


def wait_leads(wait: Cause, largest: Cause) -> bool:
    """Whether *wait* has about as much as the *largest*, or may well have; or enough, and reads nothing."""
    if wait.share >= FIRST * largest.share:
        return True
    if largest.activity in WAITS_FOR_OTHERS:
        return False  # a loader, or a lock, would have to be waited for all the same
    if waits_for(wait.text) == "nothing" and wait.share >= FREE * largest.share:
        return True
    return wait.share >= LIKELY * largest.share and wait.high >= FIRST * largest.share


def _cause(
    path: tuple[Frame, ...],
    members: Sequence[int],
    leaves: Sequence[Meaning],
    shares: Shares,
    times: FloatArray,
    text_of: TextOf,
    *,
    own_work: FloatArray,
    lasts_s: float,
) -> Cause:
    of: dict[Activity, float] = defaultdict(float)
    for k in members:
        of[leaves[k].activity] += float(shares.share[k])
    replicates = np.minimum(shares.replicates[:, list(members)].sum(1), 1.0)
    low, high = np.quantile(replicates, (0.025, 0.975))
    activity = max(of, key=lambda a: of[a])
    return Cause(
        activity=activity,
        frame=path[-1],
        text=text_of(path[-1]),
        path=path,
        share=min(1.0, float(shares.share[list(members)].sum())),
        low=float(low),
        high=float(high),
        drained=min(1.0, float(shares.drained[list(members)].sum())),
        waited=min(1.0, float(shares.waited[list(members)].sum())),
        may_wait=_may_wait(path, leaves, times, text_of) if activity == "synchronising" else 0.0,
        own_work=(float(own_work[0]), float(own_work[1])),
        lasts_s=lasts_s,
    )


def _may_wait(
    path: tuple[Frame, ...], leaves: Sequence[Meaning], times: FloatArray, text_of: TextOf
) -> float:
    """The share of all time at other lines of the call of *path* that may wait for the GPU as well."""
    beside = (
        k
        for k, leaf in enumerate(leaves)
        if leaf.activity == "python" and len(leaf.path) == len(path) and leaf.path[:-1] == path[:-1]
    )
    return float(sum(times[k] for k in beside if may_wait(text_of(leaves[k].path[-1]))))
