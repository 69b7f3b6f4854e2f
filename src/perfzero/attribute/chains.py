"""
Elementwise operators one after another, which a compiler would make one kernel of.

A chain is a run of kernels on one stream of which each was launched by a copy or an operator that works
element by element, all on one shape, in one pass of the step, and in one module or in modules of which one
holds the other. Each has an input that may be what the one before wrote: of that shape and type, and with
the same strides where both are known. What a copy writes to is none of its inputs. An in-place call that the
run has already begins another one, for so a loop over parameters looks, each of which is another tensor.

No trace has addresses, so whether one works on the result of the other is not certain, and a fused kernel
would have to write what the backward pass wants to see again. So of what fusing spares only the most is told:
each result between them, written and read. Of one chain that adds (a + b), gelu(.) and mul(., c) on n bytes
each, which moves 8 n, that is 4 n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfzero.attribute.breakdown import Call, Chain, SourceLine
from perfzero.attribute.compulsory import broadcast, passed, result
from perfzero.attribute.operators import ELEMENTWISE, plain, works_in_place
from perfzero.attribute.paths import parent
from perfzero.traces import BoolArray, Tensor, Work
from perfzero.values import IntArray

FUSIBLE = ELEMENTWISE | {"copy"}
"""What a compiler fuses with a neighbour on the same elements: a copy may change their type or layout."""


@dataclass(slots=True)
class _Sum:
    gpu_ns: int = 0
    times: int = 0
    first: int = -1


def chains(
    work: Work,
    call: IntArray,
    calls: Mapping[int, Call],
    module: IntArray,
    paths: Sequence[str],
    phase: IntArray,
    sources: Sequence[SourceLine | None],
) -> tuple[Chain, ...]:
    """
    The chains of *work*, those of the same calls in one module and pass added up, the heaviest first.

    Row by row with it: *call*, one of *calls*, *module*, which counts in *paths* (-1: none), *phase*, and
    where the work comes from.
    """
    if not len(work):
        return ()
    shape, known = _shapes(calls)
    order = np.lexsort((work.start_ns, work.stream, work.device))
    of = shape[call[order]]
    number_of = {path: number for number, path in enumerate(paths)}
    upper = np.array([number_of.get(parent(path), -2) if path else -2 for path in paths], np.int64)
    below, here = module[order][1:], module[order][:-1]
    above = np.append(upper, -2)  # of what is in no module
    joins = (
        (of[1:] >= 0)
        & (of[1:] == of[:-1])
        & (work.stream[order][1:] == work.stream[order][:-1])
        & (work.device[order][1:] == work.device[order][:-1])
        & (phase[order][1:] == phase[order][:-1])
        & ((below == here) | (above[below] == here) | (above[here] == below))
    )
    joins &= _reading(call[order], joins, calls)
    found: dict[tuple[int, int, tuple[int, ...]], _Sum] = {}
    in_place = frozenset(number for number in known if works_in_place(calls[number].operator))
    starts = np.flatnonzero(np.append(joins, False) & ~np.append(False, joins))
    ends = np.flatnonzero(np.append(False, joins) & ~np.append(joins, False))
    runs = zip(starts.tolist(), ends.tolist(), strict=True)
    for rows in (part for start, end in runs for part in _parted(order[start : end + 1], call, in_place)):
        owner = min(set(module[rows].tolist()), key=lambda m: (paths[m].count(".") if m >= 0 else 0, m))
        key = (owner, int(phase[rows[0]]), tuple(call[rows].tolist()))
        one = found.setdefault(key, _Sum(first=int(rows[0])))
        one.gpu_ns += int((work.end_ns[rows] - work.start_ns[rows]).sum())
        one.times += 1
    made = [
        Chain(
            None if owner < 0 else paths[owner],
            tuple(calls[number] for number in numbers),
            one.gpu_ns,
            one.times,
            *_moved_and_spared([known[number] for number in numbers], one.times),
            sources[one.first],
        )
        for (owner, _, numbers), one in found.items()
    ]
    return tuple(sorted(made, key=lambda chain: (-chain.gpu_ns, chain.module or "")))


def _shapes(calls: Mapping[int, Call]) -> tuple[IntArray, dict[int, tuple[float, float] | None]]:
    """
    By call: the number of the shape that it works on element by element, -1 for others; and its bytes.

    The last number is -1, so that a call that is not known leads there.
    """
    numbers: dict[tuple[int, ...], int] = {}
    shape = np.full(max(calls, default=-1) + 2, -1, np.int64)
    known: dict[int, tuple[float, float] | None] = {}
    for number, call in calls.items():
        name = plain(call.operator)
        if not call.operator.startswith("aten::") or name not in FUSIBLE:
            continue
        whole = broadcast([tensor.shape for tensor in call.inputs])
        if whole:
            shape[number] = numbers.setdefault(whole, len(numbers))
            known[number] = passed(call)
    return shape, known


def _reading(call: IntArray, joins: BoolArray, calls: Mapping[int, Call]) -> BoolArray:
    """Of neighbours in *call* that may join, whether the later one may read what the earlier one wrote."""
    at = np.flatnonzero(joins)
    many = max(calls, default=0) + 1
    pairs, which = np.unique(call[at] * many + call[at + 1], return_inverse=True)
    may = [_may_read(calls[pair % many], calls[pair // many]) for pair in pairs.tolist()]
    found = np.zeros(len(joins), bool)
    found[at] = np.array(may, bool)[which]
    return found


def _may_read(later: Call, earlier: Call) -> bool:
    wrote = result(earlier)
    given = later.inputs[1:] if plain(later.operator) == "copy" else later.inputs
    return any(_may_be(tensor, one) for one in wrote for tensor in given)


def _may_be(one: Tensor, other: Tensor) -> bool:
    """Whether both may be the same; an empty type and empty strides are not known."""
    if one.shape != other.shape or (one.dtype and other.dtype and one.dtype != other.dtype):
        return False
    if len(one.strides) != len(one.shape) or len(other.strides) != len(other.shape):
        return True
    # Of a dimension of one element the stride says nothing.
    steps = zip(one.shape, one.strides, other.strides, strict=True)
    return all(size == 1 or mine == its for size, mine, its in steps)


def _parted(rows: IntArray, call: IntArray, in_place: frozenset[int]) -> Iterator[IntArray]:
    """*rows* before each call that works in place and comes again, without those that then stand alone."""
    begins = 0
    seen: set[int] = set()
    for place, number in enumerate(call[rows].tolist()):
        if number in in_place and number in seen:
            if place - begins > 1:
                yield rows[begins:place]
            begins, seen = place, set()
        seen.add(number)
    if len(rows) - begins > 1:
        yield rows[begins:]


def _moved_and_spared(parts: Sequence[tuple[float, float] | None], times: int) -> tuple[float, float]:
    """What a chain moves, and of that what a fused kernel spares at most; NaN if not known."""
    both = [part for part in parts if part is not None]
    if len(both) < len(parts):
        return math.nan, math.nan
    between = sum(written for _, written in both[:-1])
    return times * sum(map(sum, both)), times * 2 * between
