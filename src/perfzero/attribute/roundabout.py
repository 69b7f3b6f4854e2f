"""
Operators of PyTorch with a kernel that is many times slower than another way to the same result.

    serial_gradient    `index_put` with sums, as for the gradient of x[index]: the indices are sorted, and one
                       warp adds up those that are the same, one after another (`indexing_backward_kernel` in
                       ATen's Indexing.cu; pytorch issue 15245). With few different indices most of the GPU
                       has nothing to do. `index_select` and `embedding` add atomically instead
    pairwise           `cdist` with p=1: a block of threads for each pair, however few numbers a pair has
                       (`cdist_kernel_cuda_impl` in ATen's DistanceKernel.cu). By broadcasting it is a few
                       elementwise operators and a sum

What the other way takes lies between two bounds, for all that it does is to move bytes:

    at least    of the gradient its numbers at `ADDED` of the roof of the memory, for no slice of the L2 adds
                faster, short ones in pairs; or what is recorded of its inputs, once, at the roof, and then a
                number for each `PIECE` that equal indices are cut into, one after another as now. Of
                distances the points, once, and the result
    at most     of the gradient the same numbers at `ATOMIC` of the roof; of distances all differences of a
                pair, written and read twice, and the result, at `STREAMED` of the roof

Whatever is not slower than the latter has nothing to gain, and is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from perfzero.attribute.breakdown import Breakdown, Call, CallRow
from perfzero.attribute.compulsory import BYTES, different, made_of
from perfzero.attribute.operators import plain
from perfzero.attribute.parts import NOTEWORTHY, Condition, Topic, by_call, by_module, share_of
from perfzero.limits import H200_LOOKS, PYTORCH, Limit
from perfzero.traces import Tensor

ATOMIC: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.05
"""
Of the memory's roof, by atomic additions at least. A slice of an H200's L2 adds a number a cycle, which is
0.65 TB/s of float32 for all of them, a seventh of the roof; where many go to few places, a third of that.
"""

ADDED: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.15
"""Of the memory's roof, by atomic additions at most: a number a cycle and slice, as with `ATOMIC`."""

PIECE: Annotated[int, Limit("count", PYTORCH)] = 10
"""
Rows of equal indices that `embedding` adds up side by side with others (NROWS_PER_THREAD in ATen's
EmbeddingBackwardKernel.cu); it then adds up these sums one after another.
"""

WORD_BYTES = 4

SHORT_BYTES = 2
"""Two of these are added at once."""

STREAMED: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.5
"""Of the memory's roof, by elementwise operators and sums at least (`attribute/fusing.py`)."""

Bytes = Callable[[Call], float | None]


@dataclass(frozen=True, slots=True)
class _Kind:
    """
    A `topic`, the operators, and what is in the name of their slow kernel; the bytes that another way moves
    at the roof, at `least` and at `most`. `in_pieces`: the bytes that a third way moves, which takes what the
    slow kernel takes for each `PIECE` beside; None where there is none.
    """

    topic: Topic
    operators: frozenset[str]
    kernel: re.Pattern[str]
    least: Bytes
    most: Bytes
    in_pieces: Bytes | None = None


def _inputs(call: Call) -> float | None:
    sized = [tensor for tensor in call.inputs if tensor.shape]
    if not sized or not all(tensor.dtype in BYTES for tensor in sized):
        return None
    # Of a gradient that is one number for all there is one in memory.
    parts = ((different(tensor), made_of(tensor.shape, tensor.dtype)) for tensor in sized)
    return sum(whole if one is None else one for one, whole in parts)


def _atomic(call: Call) -> float | None:
    """A short number takes as long as one of 4 bytes."""
    if _inputs(call) is None:
        return None
    numbers = ((math.prod(t.shape), BYTES[t.dtype]) for t in call.inputs if t.shape)
    return sum(many * max(WORD_BYTES, size) for many, size in numbers) / ATOMIC


def _added(call: Call) -> float | None:
    if _inputs(call) is None:
        return None
    numbers = ((math.prod(t.shape), BYTES[t.dtype]) for t in call.inputs if t.shape)
    return sum(many * max(SHORT_BYTES, size) for many, size in numbers) / ADDED


def _distances(call: Call) -> float | None:
    points, given = _points(call), _inputs(call)
    return None if points is None or given is None else given + _of_pairs(points)


def _broadcast(call: Call) -> float | None:
    points, given = _points(call), _inputs(call)
    if points is None or given is None:
        return None
    return (given + _of_pairs(points) * (4 * points[0].shape[-1] + 1)) / STREAMED


def _of_pairs(points: Sequence[Tensor]) -> float:
    """The bytes of a number for each pair of *points*, whose types are known."""
    one, other = points
    return BYTES[one.dtype] * math.prod(one.shape[:-1]) * other.shape[-2]


def _points(call: Call) -> Sequence[Tensor] | None:
    """The points that distances are between; None where they are not two batches of vectors."""
    points = [tensor for tensor in call.inputs if len(tensor.shape) >= 2]
    if len(points) != 2 or len(points[0].shape) != len(points[1].shape):
        return None
    return points if points[0].shape[-1] == points[1].shape[-1] else None


KINDS: Sequence[_Kind] = (
    _Kind(
        "serial_gradient",
        frozenset({"index_put", "_index_put_impl"}),
        re.compile(r"indexing_backward_kernel"),
        _added,
        _atomic,
        _inputs,
    ),
    _Kind(
        "pairwise",
        frozenset({"_cdist_forward"}),
        re.compile(r"cdist_kernel.*::one\b"),
        _distances,
        _broadcast,
    ),
)


def roundabout(b: Breakdown) -> tuple[Condition, ...]:
    """Of each kind its calls, and what another way leaves of their time; none where no roofs are known."""
    dram = math.nan if b.ceilings is None else b.ceilings.dram
    found = [_condition(kind, b.calls, dram) for kind in KINDS] if dram > 0 else []
    return tuple(one for one in found if one is not None)


def _condition(kind: _Kind, rows: Iterable[CallRow], dram: float) -> Condition | None:
    slow: list[CallRow] = []
    least = most = now = 0.0
    for call, its in by_call(row for row in rows if row.kind == "kernel"):
        if plain(call.operator) not in kind.operators:
            continue
        times = sum(row.launches for row in its if kind.kernel.search(row.kernel))
        bytes_least, bytes_most = kind.least(call), kind.most(call)
        gpu_ns = sum(row.gpu_ns for row in its)
        if not times or bytes_least is None or bytes_most is None:
            continue
        shortest, longest = (times * 1e9 * amount / dram for amount in (bytes_least, bytes_most))
        pieces = None if kind.in_pieces is None else kind.in_pieces(call)
        if pieces is not None:
            one_by_one = sum(row.gpu_ns for row in its if kind.kernel.search(row.kernel))
            shortest = min(shortest, times * 1e9 * pieces / dram + one_by_one / PIECE)
        if longest < gpu_ns:
            slow += its
            least, most, now = least + shortest, most + longest, now + gpu_ns
    if share_of(slow) < NOTEWORTHY:
        return None
    return Condition(kind.topic, True, share_of(slow), by_module(slow), left=(least / now, most / now))
