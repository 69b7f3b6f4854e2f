"""Calls of operators with tensors without gaps, as a trace has them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfzero.attribute.breakdown import Call
from perfzero.traces import Tensor

BF16, HALF, FLOAT, DOUBLE = "c10::BFloat16", "c10::Half", "float", "double"


def tensor(*shape: int, dtype: str = FLOAT, strides: Sequence[int] | None = None) -> Tensor:
    dense = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
    return Tensor(shape, tuple(dense if strides is None else strides), dtype)


def call(operator: str, *tensors: Tensor) -> Call:
    return Call(f"aten::{operator}", tensors)
