"""
Elementwise operators and norms one after another, which a compiler would make fewer kernels of.

A chain is a run of calls on one stream, each a copy, a norm, a softmax or an operator that works element by
element, all on one shape and in one pass of the step. Each has an input that may be what the one before
wrote: of that shape and type, and with the same strides where both are known. What a copy writes to is none
of its inputs. An in-place call that the run has already begins another one, for so a loop over parameters
looks, each of which is another tensor. A few fills, copies and elementwise operators in between that make
fewer elements, such as the gradient of a weight that becomes float32, made none of what comes after, and are
passed over (`PASSED_OVER`). Modules are of no account, for a compiler sees the operators of all of them
(Ansel et al., "PyTorch 2", 2024); a chain is that of the lowest module that holds all of it.

What fusing spares of the bytes that a chain moves lies between two bounds:

    at least   the read of each result that stands between two calls: whoever computes it hands it on in
               registers. It may still be written, for the backward pass or for a shortcut. Not where the next
               call works in place on it and on nothing else: nobody sees it any more, and its write is spared
               too. Nor are the wide numbers of a conversion written: who else needs them makes them anew of
               the narrow ones that it came from. Nor those of a norm that a conversion makes narrow, for a
               norm keeps what went in for its gradient, and a conversion nothing. A batch norm in training
               reads what goes in twice, and one of both is spared
    at most    all but the inputs from outside, once, and the last result. No trace has addresses, so inputs
               of two calls may be the same tensor; those of one call are taken to be different ones, and so
               are gradients and what the forward pass kept for them. So from outside come as many bytes as
               come to any one of the calls. With a batch norm in training they come twice, or what the call
               before made is written and read instead, for a norm needs the mean and variance of all before
               it normalises any

Of add(a, b), gelu(.) and mul(., c) on n bytes each, which move 8 n, that is 2 n to 5 n: c may be a. Of the
gradient of a ReLU and that of the batch norm before it, which move 3 n and 5 n, it is n to 3 n: the sign of
what the ReLU made follows from what the batch norm kept.

Sums over rows (`ROW_SUMS`) are part of it, as in a norm that is written out: a kernel that has a row whole
sums it up and goes on with it, so the next one may work on what went into the sum, and reads it no more.

That each works on the result of the one before is likely and not certain. Where two results are made before
both are used, as in a x + b y, there are as many between them, and the sums are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np

from perfzero.attribute.breakdown import Call, Chain, SourceLine
from perfzero.attribute.compulsory import BYTES, broadcast, different, made_of, result
from perfzero.attribute.operators import COPY, ELEMENTWISE, NORMS, ROW_SUMS, UNARY, plain, works_in_place
from perfzero.limits import CHOICE, Limit
from perfzero.traces import BoolArray, Tensor, Work
from perfzero.values import FloatArray, IntArray

FUSIBLE = ELEMENTWISE | NORMS | ROW_SUMS | {"copy"}
"""What a compiler makes a kernel of with its neighbours: a copy may change the type or the layout."""


PASSED_OVER: Annotated[int, Limit("count", CHOICE)] = 3
"""
Small calls one after another that a chain passes over; of more, the ones around them are hardly neighbours
any more.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """
    Row by row with the work: which single call of an *operator* launched it (-1: none), what all kernels of
    that call have to move, in the row of the longest, and what of it they read a second time.
    """

    operator: IntArray
    bytes: FloatArray
    again: FloatArray


@dataclass(slots=True)
class _Sum:
    gpu_ns: int = 0
    times: int = 0
    first: int = -1
    bytes: float = 0.0
    twice: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Calls:
    """Work by the call that launched it: the rows of each, in the order of the first."""

    first: IntArray
    gpu_ns: IntArray
    bytes: FloatArray
    again: FloatArray


def chains(
    work: Work,
    call: IntArray,
    calls: Mapping[int, Call],
    module: IntArray,
    paths: Sequence[str],
    phase: IntArray,
    sources: Sequence[SourceLine | None],
    moved: Moved,
) -> tuple[Chain, ...]:
    """
    The chains of *work*, those of the same calls in one module and pass added up, the heaviest first; a call
    that stands alone is one too.

    Row by row with it: *call*, one of *calls*, *module*, which counts in *paths* (-1: none), *phase*, where
    the work comes from, and what is *moved*.
    """
    if not len(work):
        return ()
    shape, size = _shapes(calls)
    order = np.lexsort((work.start_ns, work.stream, work.device))
    passed = _passed_over(shape[call[order]], size[call[order]], work.stream[order], work.device[order])
    found: dict[tuple[str | None, int, tuple[int, ...]], _Sum] = {}
    for rows, joined in ((order[~passed], True), (order[passed], False)):
        each = _by_call(work, moved, rows)
        number = call[each.first]
        for at in _runs(each.first, work, number, shape[number], phase, calls, joined=joined):
            inside = [paths[m] for m in dict.fromkeys(module[each.first[at]].tolist()) if m >= 0]
            key = (_above(inside), int(phase[each.first[at[0]]]), tuple(number[at].tolist()))
            one = found.setdefault(key, _Sum())
            if not one.times:
                one.first, one.twice = int(each.first[at[0]]), bool((each.again[at] > 0).any())
            one.gpu_ns += int(each.gpu_ns[at].sum())
            one.bytes += float(each.bytes[at].sum())
            one.times += 1
    made = []
    for (owner, _, numbers), one in found.items():
        its = tuple(calls[n] for n in numbers)
        most, least, apart = _spared(its, one)
        source = sources[one.first]
        made.append(Chain(owner, its, one.gpu_ns, one.times, one.bytes, most, least, source, apart))
    return tuple(sorted(made, key=lambda chain: (-chain.gpu_ns, chain.module or "")))


def _runs(
    first: IntArray,
    work: Work,
    call: IntArray,
    shape: IntArray,
    phase: IntArray,
    calls: Mapping[int, Call],
    *,
    joined: bool,
) -> Iterator[IntArray]:
    """
    Places in *first*, rows of the *work*, of which each run is a chain; without *joined* each stands alone.

    Place by place: *call*, one of *calls*, and the number of its *shape*.
    """
    if not len(first):
        return
    joins = np.full(len(first) - 1, joined)
    joins &= (shape[1:] >= 0) & (shape[1:] == shape[:-1])
    for column in (work.stream, work.device, phase):
        joins &= column[first[1:]] == column[first[:-1]]
    joins &= _reading(call, joins, calls)
    in_place = frozenset(n for n in np.unique(call[shape >= 0]).tolist() if works_in_place(calls[n].operator))
    begins = np.flatnonzero(np.append(True, ~joins))
    for run in np.split(np.arange(len(first)), begins[1:]):
        if shape[run[0]] >= 0:
            yield from _parted(run, call, in_place)


def _passed_over(shape: IntArray, size: FloatArray, stream: IntArray, device: IntArray) -> BoolArray:
    """
    Of kernels in their order those that stand between two on one *shape* and are of calls on fewer elements.

    *size*: how many a call makes where it works element by element, copies or fills; NaN of others.
    """
    passed = np.zeros(len(shape), bool)
    for many in range(1, min(PASSED_OVER, len(shape) - 2) + 1):
        before, after = slice(0, -many - 1), slice(many + 1, None)
        around = (shape[before] >= 0) & (shape[before] == shape[after])
        around &= (stream[before] == stream[after]) & (device[before] == device[after])
        between = [slice(place, place - many - 1) for place in range(1, many + 1)]
        for place in between:
            around &= size[place] < size[before]
        for place in between:
            passed[place] |= around
    return passed


def _by_call(work: Work, moved: Moved, rows: IntArray) -> _Calls:
    """Of *rows* of the work, in their order, those of one call that follow each other, as one."""
    if not len(rows):
        return _Calls(rows, rows, np.zeros(0), np.zeros(0))
    operator, stream, device = moved.operator[rows], work.stream[rows], work.device[rows]
    same = (operator[1:] == operator[:-1]) & (operator[1:] >= 0)
    same &= (stream[1:] == stream[:-1]) & (device[1:] == device[:-1])
    begins = np.flatnonzero(np.append(True, ~same))
    length_ns = work.end_ns[rows] - work.start_ns[rows]
    return _Calls(
        rows[begins],
        np.add.reduceat(length_ns, begins),
        np.add.reduceat(moved.bytes[rows], begins),
        np.add.reduceat(moved.again[rows], begins),
    )


def _above(paths: Sequence[str]) -> str | None:
    """The path of the lowest module that holds all of *paths*; None without any."""
    if not paths:
        return None
    parts = [path.split(".") if path else [] for path in paths]
    depth = 0
    while all(len(one) > depth and one[depth] == parts[0][depth] for one in parts):
        depth += 1
    return ".".join(parts[0][:depth])


def _shapes(calls: Mapping[int, Call]) -> tuple[IntArray, FloatArray]:
    """
    By call: the number of the shape that it works on element by element, -1 for others; and how many elements
    it makes, also where it fills, NaN for others.

    The last ones are -1 and NaN, so that a call that is not known leads there.
    """
    numbers: dict[tuple[int, ...], int] = {}
    shape = np.full(max(calls, default=-1) + 2, -1, np.int64)
    size = np.full(len(shape), math.nan)
    for number, call in calls.items():
        name, whole = plain(call.operator), _whole(call)
        if not call.operator.startswith("aten::") or name not in FUSIBLE | COPY or whole is None:
            continue
        size[number] = math.prod(whole)
        if whole and name in FUSIBLE:
            shape[number] = numbers.setdefault(whole, len(numbers))
    return shape, size


def _whole(call: Call) -> tuple[int, ...] | None:
    """The shape of what a norm makes, or what works element by element; None where that is not known."""
    if plain(call.operator) in NORMS | ROW_SUMS:
        return call.inputs[0].shape if call.inputs else None
    return broadcast([tensor.shape for tensor in call.inputs])


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
    return any(_may_be(tensor, one) for one in _handed_on(earlier) for tensor in _given(later))


def _handed_on(call: Call) -> tuple[Tensor, ...]:
    """What the next of a chain may work on: what *call* makes, or sums up."""
    return call.inputs[:1] if plain(call.operator) in ROW_SUMS else result(call)


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
    """*rows*, parted before each call that works in place and comes again."""
    begins = 0
    seen: set[int] = set()
    for place, number in enumerate(call[rows].tolist()):
        if number in in_place and number in seen:
            yield rows[begins:place]
            begins, seen = place, set()
        seen.add(number)
    yield rows[begins:]


def _spared(calls: Sequence[Call], one: _Sum) -> tuple[float, float, float]:
    """
    What a compiler spares of the bytes of a chain, at most and at least, and where inputs from outside are
    different ones; NaN where they are not known.
    """
    if not one.bytes > 0:
        return math.nan, math.nan, math.nan
    least, outside = 0.0, [_outside(calls[0], 0.0)]
    for earlier, later in pairwise(calls):
        between = _between(earlier, later)
        outside.append(_outside(later, between))
        least += 2 * between if _is_unseen(earlier, later) else between
    last = calls[-1]
    written = sum(made_of(t.shape, t.dtype or last.inputs[0].dtype) for t in result(last))
    written = 0.0 if plain(last.operator) in ROW_SUMS else written
    seen_before = max(saved for _, saved in outside)
    reads = max(*(sum(both) for both in outside), seen_before + _gradients(calls, outside))
    again = min(reads, 2 * written + seen_before) if one.twice else 0.0
    least *= one.times
    apart = one.bytes - one.times * (sum(map(sum, outside)) + again + written)
    return max(one.bytes - one.times * (reads + again + written), least), least, apart


def _is_unseen(earlier: Call, later: Call) -> bool:
    """Whether nobody but *later* needs what *earlier* wrote for it, so that it need not be written."""
    if works_in_place(later.operator) and plain(later.operator) in UNARY:
        return True
    norm = plain(earlier.operator) in NORMS and "softmax" not in plain(earlier.operator)
    return _widens(earlier) > 1 or (norm and 0 < _widens(later) < 1)


def _widens(call: Call) -> float:
    """By what a conversion makes numbers wider, less than 1 where narrower; 0 of what is none."""
    if plain(call.operator) != "copy" or len(call.inputs) != 2:
        return 0.0
    made, given = (BYTES.get(tensor.dtype, 0) for tensor in call.inputs)
    same = call.inputs[0].shape == call.inputs[1].shape
    return made / given if same and made and given else 0.0


def _outside(call: Call, between: float) -> tuple[float, float]:
    """
    The bytes on all elements that *call* reads beside *between*, which the one before handed to it: those of
    a gradient's operator that are kept from the forward pass come second, all others first.
    """
    whole = _whole(call)
    reads = [_size(tensor) for tensor in _given(call) if tensor.shape == whole]
    kept = sum(reads) - _gradient(call, reads) if _is_gradient(call) else 0.0
    return max(0.0, sum(reads) - kept - between), kept


def _is_gradient(call: Call) -> bool:
    """Whether *call* makes a gradient of the gradient of its result, and of what the forward pass kept."""
    return plain(call.operator).endswith(("_backward", "_backward_data"))


def _gradient(call: Call, reads: Sequence[float]) -> float:
    """
    Of what a gradient's operator *reads*, the gradient; the others are from the forward pass. Nothing where
    no input has the shape of the result, as where two are broadcast against each other.
    """
    if not reads:
        return 0.0
    return reads[1 if plain(call.operator) == "cudnn_batch_norm_backward" and len(reads) > 1 else 0]


def _gradients(calls: Sequence[Call], outside: Sequence[tuple[float, float]]) -> float:
    """The bytes of gradients that a chain reads at least: what is added up to one is one, too."""
    most, is_one = 0.0, False
    for call, (others, _) in zip(reversed(calls), reversed(outside), strict=True):
        is_one = _is_gradient(call) or (is_one and plain(call.operator) in ("add", "sub"))
        most = max(most, others) if is_one else most
    return most


def _between(earlier: Call, later: Call) -> float:
    """The bytes of what *later* may read of what *earlier* wrote."""
    made = _handed_on(earlier)
    return next(_size(tensor) for tensor in _given(later) if any(_may_be(tensor, one) for one in made))


def _given(call: Call) -> Sequence[Tensor]:
    """What *call* reads."""
    return call.inputs[1:] if plain(call.operator) == "copy" else call.inputs


def _size(tensor: Tensor) -> float:
    return different(tensor) or 0.0
