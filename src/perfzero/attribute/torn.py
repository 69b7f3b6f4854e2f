"""
Stacks that were read while the program changed them, and the end of what was seen of it.

py-spy stops nothing, so the frames that it follows may be left or taken for other calls meanwhile. What it
then has begins in the midst of the program, or is empty. To tell these from a thread that really begins
elsewhere, the *root* of a stack is the function of its outermost frame:

    the program's root   the commonest one of stacks with lines of the program, a module as a rule
    torn                 another root that is rare, and either called by others in stacks of the program's
                         root, or without a line of the program. So is an empty stack, where those are rare

A thread may have several roots: greenlets, callbacks of a program in C. Their roots are called by nobody and
have lines of the program, or they are not rare. That which waits for all of them has none (a hub), but comes
again and again.

A torn stack is no sighting: what is left is as if that moment had not been sampled.

When the program's own code has ended for good, Python runs what was registered for its exit (atexit, weakref,
logging), for seconds if a library sends its last records, and the GPU is idle. That is no part of the program
as it runs: what was seen ends after the last stack that has the program's root or a line of the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

import numpy as np

from perfzero.attribute.host_activity import is_own
from perfzero.limits import CHOICE, H200_LOOKS, Limit
from perfzero.stacks import ProcessStacks
from perfzero.traces import BoolArray
from perfzero.values import IntArray

RARE: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.1
"""
Of the time; an outermost function that has more is no accident. Torn stacks begin anywhere, so none of
their roots has much: most have the empty ones, 0.05 in a program that compiles all the time
(benchmarks/planted, spruce).
"""

MOST_TORN: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""
Of the time, in torn stacks; were more to be left out, the program's root was not understood, and all is
left in.
"""

_Root = tuple[str, str] | None
"""File and function of the outermost frame, None of an empty stack."""


def whole_stacks(process: ProcessStacks, thread: int) -> ProcessStacks:
    """What *thread* was seen to do by whole stacks, and until the program's own code ended."""
    rows = np.flatnonzero(process.thread == thread)
    different = np.unique(process.stack[rows]).tolist()
    roots = {k: _root(process, k) for k in different}
    own_frames = {i for i, frame in enumerate(process.frames) if is_own(frame)}
    its_own = {k: not own_frames.isdisjoint(process.stacks[k]) for k in different}
    end_of = np.append(process.time_ns[rows[1:]], process.end_ns)
    lasts_ns = end_of - process.time_ns[rows]
    stack = process.stack[rows]
    root = _program_root(stack, lasts_ns, roots, its_own)
    programs = {k for k in different if roots[k] == root}
    alive = _isin(stack, (k for k in different if k in programs or its_own[k]))
    last = int(np.flatnonzero(alive)[-1])
    rows, stack, lasts_ns = rows[: last + 1], stack[: last + 1], lasts_ns[: last + 1]
    inside: set[int] = set().union(*(process.stacks[k] for k in programs))
    called = {_function(process, frame) for frame in inside}
    share = _time_of(stack, lasts_ns, roots)
    others = [k for k in different if k not in programs and share.get(roots[k], 0.0) <= RARE]
    torn = _isin(stack, (k for k in others if roots[k] in called or not its_own[k]))
    if lasts_ns[torn].sum() > MOST_TORN * lasts_ns.sum():
        torn[:] = False
    return replace(_of(process, rows[~torn]), end_ns=int(end_of[last]))


def _of(process: ProcessStacks, rows: IntArray) -> ProcessStacks:
    """*process* with these *rows* alone, of one thread, without those that tell nothing new."""
    stack = process.stack[rows]
    rows = rows[np.append(True, stack[1:] != stack[:-1])[: len(rows)]]
    return replace(
        process, time_ns=process.time_ns[rows], thread=process.thread[rows], stack=process.stack[rows]
    )


def _root(process: ProcessStacks, stack: int) -> _Root:
    frames = process.stacks[stack]
    return _function(process, frames[-1]) if frames else None


def _function(process: ProcessStacks, frame: int) -> tuple[str, str]:
    found = process.frames[frame]
    return found.file, found.function


def _program_root(
    stack: IntArray, lasts_ns: IntArray, roots: dict[int, _Root], its_own: dict[int, bool]
) -> _Root:
    """The root of the program's own stacks; where there are none, of all."""
    own = _isin(stack, (k for k, found in its_own.items() if found))
    if not own.any():
        own = _isin(stack, (k for k, found in roots.items() if found is not None))
    share = _time_of(stack[own], lasts_ns[own], roots)
    return max(share, key=lambda root: share[root], default=None)


def _time_of(stack: IntArray, lasts_ns: IntArray, roots: dict[int, _Root]) -> dict[_Root, float]:
    """The share of the time of each root."""
    found: dict[_Root, float] = {}
    total = max(float(lasts_ns.sum()), 1.0)
    for k, ns in zip(stack.tolist(), lasts_ns.tolist(), strict=True):
        found[roots[k]] = found.get(roots[k], 0.0) + ns / total
    return found


def _isin(stack: IntArray, wanted: Iterable[int]) -> BoolArray:
    return np.asarray(np.isin(stack, list(wanted)), np.bool_)
