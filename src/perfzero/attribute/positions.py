"""
Which kernels of a trace do the same work: those at one position in steps that are alike.

On each stream kernels run in the order in which they were launched. The most frequent sequence of names in a
step is the pattern. A step is held against it from both ends: what is the same from the beginning on, and
from the end back, stands at the same positions. So a step with something more in its middle loses only that.

A trace also holds kernels that were launched before it began: the GPU was still busy with the step before.
They are the end of a step, of which the trace knows no operator, and are held against the end of the
pattern; what was launched after the last step is held against its beginning.

Kernels that stand nowhere in the pattern are taken together by name and by the call of the operator, as far
as that is known. The same makes the kind of a position: the kernel, and the shapes that it works on.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from perfzero.attribute.mixing import Kernels
from perfzero.traces import WORK_KINDS, BoolArray, Trace
from perfzero.values import IntArray

NO_STEP = -1


def kernels_of(trace: Trace, call: IntArray) -> Kernels:
    """
    The work of *trace*, which is all of one GPU, in its order, with positions and kinds.

    *call*, row by row with it: the number of the operator's call with its shapes, -1 where unknown.
    """
    work, step = trace.work, _steps(trace)
    name = work.name * len(WORK_KINDS) + work.kind
    slot = np.full(len(work), -1, np.int64)  # in the patterns of all streams, one after another
    slots = 0
    for number in np.unique(work.stream):
        rows = np.flatnonzero(work.stream == number)  # in the order of their start
        found, length = _aligned(name[rows], step[rows])
        slot[rows] = np.where(found >= 0, found + slots, -1)
        slots += length

    known = (slot >= 0) & (call >= 0)
    called = np.full(slots, -1, np.int64)
    called[slot[known]] = call[known]
    call = np.where(slot >= 0, called[slot], call) if slots else call
    kind = _number(name, call)
    position = _number(kind, slot)
    return Kernels(work.start_ns, work.end_ns, position, kind)


def _steps(trace: Trace) -> IntArray:
    """In which step each piece of work was launched, as a row of the trace's steps; -1: none, or unknown."""
    launches, wanted, steps = trace.launches, trace.work.correlation, trace.steps
    if not (len(launches) and len(steps)):
        return np.full(len(wanted), NO_STEP)
    order = np.argsort(launches.correlation, kind="stable")
    place = np.searchsorted(launches.correlation[order], wanted)
    launch = order[np.minimum(place, len(order) - 1)]
    found = (launches.correlation[launch] == wanted) & (wanted > 0)
    at = launches.start_ns[launch]
    step = np.searchsorted(steps.start_ns, at, "right") - 1
    inside: BoolArray = found & (step >= 0) & (at < steps.end_ns[np.maximum(step, 0)])
    return np.where(inside, step, NO_STEP)


def _aligned(name: IntArray, step: IntArray) -> tuple[IntArray, int]:
    """Where in the pattern of a stream each of its kernels stands (-1: nowhere), and how long it is."""
    found = np.full(len(name), -1, np.int64)
    edges = [0, *(np.flatnonzero(np.diff(step)) + 1).tolist(), len(name)]
    runs = [(first, last, int(step[first])) for first, last in pairwise(edges) if last > first]
    often = Counter(name[first:last].tobytes() for first, last, number in runs if number != NO_STEP)
    if not often:
        return found, 0
    most = max(often, key=lambda sequence: (often[sequence], len(sequence)))
    pattern = np.frombuffer(most, name.dtype)
    for first, last, number in runs:
        run = name[first:last]
        in_step = number != NO_STEP
        begin = _alike(run, pattern) if in_step or last == len(name) else 0
        end = _alike(run[::-1], pattern[::-1]) if in_step or first == 0 else 0
        end = min(end, min(len(run), len(pattern)) - begin)
        found[first : first + begin] = np.arange(begin)
        found[last - end : last] = np.arange(len(pattern) - end, len(pattern))
    return found, len(pattern)


def _alike(one: IntArray, other: IntArray) -> int:
    """How many of the first values are the same."""
    many = min(len(one), len(other))
    differing = np.flatnonzero(one[:many] != other[:many])
    return int(differing[0]) if len(differing) else many


def _number(one: IntArray, other: IntArray) -> IntArray:
    """Pairs of values as numbers from 0 on."""
    both = np.stack((one, other), axis=1)
    return np.unique(both, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
