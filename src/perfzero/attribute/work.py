"""
What each piece of a trace's work computes, and what each call has to move, from the shapes of its inputs.

Operations go to the kernels that do them, so that modules, operators and kernels each add up to the same
(`operations.py`). Compulsory bytes are those of a whole call (`compulsory.py`): they stand with its longest
kernel, so a row that holds all kernels of its calls adds them up, and one that holds some of them, as a
kernel of several does, has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from perfzero.attribute.breakdown import Call
from perfzero.attribute.compulsory import compulsory_bytes, second_pass, through_l2
from perfzero.attribute.operations import (
    GENERATED,
    arithmetic,
    gradients,
    multiplying,
    operations,
    reads_twice,
)
from perfzero.attribute.operators import ATTENTION_BACKWARD, ATTENTION_FORWARD, plain
from perfzero.attribute.outputs import Outputs, outputs
from perfzero.attribute.roofline import Ceilings, Roofline
from perfzero.hardware import DTYPES
from perfzero.limits import CHOICE, Limit
from perfzero.traces import WORK_KINDS, BoolArray, Work
from perfzero.values import FloatArray, IntArray

KNOWN: Annotated[float, Limit("ratio", CHOICE)] = 0.98
"""
Of a row's time, in kernels of which it is known what they compute or have to move. Of the rest nobody knows
what it adds; up to 2 % of the time it is less than what else is uncertain, such as bytes to 2 to 4 %.
"""

_UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """
    Row by row with the work of a trace, arrays of shape (n,).

    `flops`: NaN where not known; `dtype` counts in `hardware.DTYPES` (-1: multiplies nothing, or no peak
    applies). `bytes`: compulsory ones of the whole call in the row of its longest kernel, 0 in others, NaN
    where not known; of these `again` are read a second time. `alone`: the call launched nothing else but sets
    of memory.
    """

    length_ns: IntArray
    flops: FloatArray
    dtype: IntArray
    bytes: FloatArray
    again: FloatArray
    alone: BoolArray

    def roofline(self, rows: IntArray, *, whole: bool) -> Roofline:
        """What *rows* of the work need; *whole*: they hold all kernels of each of their calls."""
        length = self.length_ns[rows]
        needs = self.bytes[rows] if whole else np.where(self.alone[rows], self.bytes[rows], np.nan)
        return Roofline(flops=_total(self.flops[rows], length), compulsory_bytes=_total(needs, length))

    def compute_s(self, rows: IntArray, ceilings: Ceilings) -> float:
        """How long the operations of *rows* take at the peaks of their types; NaN where that is not known."""
        flops, dtype = self.flops[rows], self.dtype[rows]
        if math.isnan(_total(flops, self.length_ns[rows])):
            return math.nan
        flops = np.nan_to_num(flops)
        peaks = np.array([*(ceilings.flops.get(name, math.nan) for name in DTYPES), math.nan])
        return float((flops[flops > 0] / peaks[dtype[flops > 0]]).sum())


def _total(values: FloatArray, length_ns: IntArray) -> float:
    """The sum of *values* where nearly all of the time is in known ones; NaN elsewhere."""
    known = np.isfinite(values)
    whole = int(length_ns.sum())
    if not whole or int(length_ns[known].sum()) < KNOWN * whole:
        return math.nan
    return float(values[known].sum())


def demand(
    work: Work,
    operator: IntArray,
    call: IntArray,
    calls: Mapping[int, Call],
    replay: BoolArray,
    l2_bytes: int | None,
) -> Demand:
    """
    What *work* computes and has to move, on a GPU with an L2 of *l2_bytes* (None: not known).

    Row by row with it: *operator*, which single call of an operator launched it, and *call*, which of
    *calls* that is alike to (-1: not known). What replays of CUDA graphs launch is not known.
    """
    many, length = len(work), work.end_ns - work.start_ns
    kernel = work.kind == WORK_KINDS.index("kernel")
    flops = np.where(kernel, np.nan, 0.0)  # copies and sets multiply nothing
    named = np.array([name.startswith(GENERATED) for name in work.names], bool)
    if many:
        flops[named[work.name]] = 0.0
    needs, dtype = np.full(many, np.nan), np.full(many, _UNKNOWN, np.int64)
    again = np.zeros(many)
    alone = np.zeros(many, bool)
    seen = outputs(calls.values())
    known: dict[tuple[int, tuple[int, ...]], _OfCall] = {}
    rows = np.flatnonzero((operator >= 0) & (call >= 0) & ~replay)
    rows = rows[np.argsort(operator[rows], kind="stable")]
    _, first = np.unique(operator[rows], return_index=True)
    sets = work.kind == WORK_KINDS.index("memset")
    for its in np.split(rows, first[1:]) if len(rows) else []:
        number, names = int(call[its[0]]), work.name[its]
        key = (number, tuple(names.tolist()))
        lengths = length[its].tolist()
        if key not in known:
            names_of = [work.names[n] for n in key[1]]
            known[key] = _of_call(calls[number], names_of, lengths, seen, l2_bytes)
        of = known[key]
        longest = its[int(np.argmax(lengths))]
        needs[its] = 0.0 if of.bytes is not None else np.nan
        if of.bytes is not None:
            needs[longest] = of.bytes
            again[longest] = of.again
        alone[its] = int((~sets[its]).sum()) <= 1
        if of.flops is not None:
            flops[its] = of.flops
            dtype[its] = of.dtype
    return Demand(length, flops, dtype, needs, again, alone)


@dataclass(frozen=True, slots=True, eq=False)
class _OfCall:
    """What the kernels of a call do, in their order; None where it is not known. `again`: read twice."""

    flops: FloatArray | None
    dtype: IntArray
    bytes: float | None
    again: float = 0.0


def _of_call(
    call: Call, kernels: Sequence[str], lengths: Sequence[int], seen: Outputs, l2_bytes: int | None
) -> _OfCall:
    unknown = np.full(len(kernels), _UNKNOWN, np.int64)
    each = operations(call, seen)
    nothing = [0.0] * len(kernels)
    done = multiplying(call, kernels, lengths) if each else nothing
    made = None if done is None else gradients(call, kernels, done)
    needs = None if any(map(leaves_the_device, kernels)) else compulsory_bytes(call, seen, made)
    again: float | None = 0.0
    if needs is not None and reads_twice(call, kernels):
        again = second_pass(call, needs, l2_bytes)
        needs = None if again is None else needs + again
    if needs is not None:
        needs = through_l2(call, needs, l2_bytes)
    if each is None or done is None:
        return _OfCall(None, unknown, needs, again or 0.0)
    flops = each * np.array(done, np.float64)
    if _may_leave_out(call):
        return _OfCall(flops, unknown, needs, again or 0.0)
    kinds = [arithmetic(call, name) if part else None for name, part in zip(kernels, flops, strict=True)]
    dtype = np.array([_UNKNOWN if kind is None else DTYPES.index(kind) for kind in kinds], np.int64)
    return _OfCall(flops, dtype, needs, again or 0.0)


def _may_leave_out(call: Call) -> bool:
    """Whether a mask may leave out half of what is counted, so that no peak holds against it."""
    name = plain(call.operator)
    return name in ATTENTION_FORWARD or name in ATTENTION_BACKWARD


def leaves_the_device(kernel: str) -> bool:
    """Whether it is a copy from or to the host, or another GPU."""
    return kernel.startswith("Memcpy") and "DtoD" not in kernel
