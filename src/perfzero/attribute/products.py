"""
Products and convolutions in a breakdown: which calls are some, and of what lengths their matrices are.
"""

from __future__ import annotations

from perfzero.attribute.breakdown import Call, CallRow
from perfzero.attribute.operations import factors
from perfzero.attribute.operators import MATRIX, plain
from perfzero.attribute.parts import dtype_of
from perfzero.traces import Tensor

UNIT_BYTES = 16
"""In which tensor cores are fed: 8 elements of 16 bits, 4 of 32."""


def is_product(call: Call | None) -> bool:
    """Whether *call* multiplies matrices."""
    return call is not None and call.operator.startswith("aten::") and plain(call.operator) in MATRIX


def is_convolution(call: Call | None) -> bool:
    """Whether *call* is a convolution, forward or backward."""
    return call is not None and "conv" in call.operator and call.operator.startswith("aten::")


def is_heavy(call: Call | None) -> bool:
    """What a GPU has tensor cores for."""
    return is_product(call) or is_convolution(call) or (call is not None and "attention" in call.operator)


def unaligned_length(row: CallRow) -> int | None:
    """
    A length that is no multiple of what tensor cores are fed with, in which a product has its rows in memory.

    0 where all are multiples, None where not known: without strides, in the backward pass. How many rows
    there are, such as tokens, does not matter, and a result with one column is a vector, which no multiple
    makes faster.
    """
    call = row.call
    product = None if call is None else factors(call)
    if call is None or product is None:
        return None
    one, other = call.inputs[product.place : product.place + 2]
    lengths = [_length_of_rows(one), _length_of_rows(other)]
    if None in lengths:
        # Without strides: the forward pass has its input and the result in rows.
        if row.phase != "forward" or one.strides or other.strides:
            return None
        lengths = [product.inner, product.columns]
    unit = UNIT_BYTES // (4 if dtype_of(call) == "float" else 2)
    return next((n for n in (*lengths, product.columns) if n is not None and n > 1 and n % unit), 0)


def _length_of_rows(tensor: Tensor) -> int | None:
    """How many elements follow each other in memory; None where that is not known, 1 of a single one."""
    if len(tensor.strides) != len(tensor.shape):
        return None
    last = tuple(zip(tensor.shape[-2:], tensor.strides[-2:], strict=True))
    dense = [size for size, stride in last if stride == 1 and size > 1]
    return dense[0] if len(dense) == 1 else 1 if all(size == 1 for size, _ in last) else None
