"""
What is left of the time of operators whose numbers are half as wide: float32 in 16 bits, float64 in float32.

    elementwise, batch norms
            they move half of the bytes, at the rate that they have or a little below it: their kernels are as
            near the roof in either width (`MOVED`)
    norms of layers, softmax, losses, sums, powers
            under autocast they stay in float32, and nothing is gained; where the model itself is in 16 bits
            they move half of the bytes, too (`KEPT`)
    products and convolutions of float32
            half of the bytes and twice the rate of the tensor cores where they run there, and something of it
            where the sizes are small (`ON_TENSOR_CORES`); several times the rate where they run on the FP32
            pipe (`ON_PIPE`). Channel by channel or in groups there is little to multiply, and the bytes count
            (`BY_CHANNEL`)
    double  an operator that takes about as long as its bytes need at the roof moves half of them (`MOVED`).
            One that takes longer computes: half of its bytes at the roof at least, half of its time at most,
            for on every GPU the FP32 pipe is twice as fast as that of FP64. Products, and what nobody knows
            the bytes of: `UNKNOWN_DOUBLE`

No fix of the kind has been measured yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated

from perfzero.attribute.breakdown import Breakdown, CallRow
from perfzero.attribute.compulsory import passed
from perfzero.attribute.missed import channels
from perfzero.attribute.operations import uses_tensor_cores
from perfzero.attribute.operators import plain, works_in_place
from perfzero.attribute.parts import by_call, operator_of
from perfzero.attribute.products import is_convolution, is_heavy
from perfzero.limits import ASSUMED, CHOICE, Limit

Pair = tuple[float, float]

MOVED: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.5, 0.65)
"""Of the time of what moves bytes: half of them, by kernels that are as near the roof or a little farther."""

KEPT: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.5, 1.0)
"""Of that of what autocast leaves in float32: all, and half of the bytes without autocast."""

KEEPS_FLOAT32 = frozenset({
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2", "pow", "reciprocal",
    "rsqrt", "sinh", "softplus", "tan",
    "cumprod", "cumsum", "logsumexp", "prod", "sum",
    "norm", "linalg_vector_norm", "renorm", "_cdist", "_pdist",
    "native_layer_norm", "native_group_norm", "_fused_rms_norm", "_softmax", "_log_softmax",
    "huber_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "nll_loss", "nll_loss2d",
    "smooth_l1_loss", "soft_margin_loss",
})  # fmt: skip
"""
What computes in float32 under autocast on a GPU, forward and backward, by the operators that launch it: the
list of PyTorch's documentation ("CUDA Ops that can autocast to float32"), and what PyTorch 2.14 registers
beside it (`logsumexp`, `rms_norm`, `huber_loss`). Batch norms are none: they take the type that they are
given. Losses that consist of other operators (`kl_div`, `l1_loss`) cannot be told from these; images that are
made larger are left out, for older versions make them in 16 bits.
"""

_PASSES = ("_backward_data", "_backward", "_forward")

ON_TENSOR_CORES: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.45, 0.85)
"""Of that of products in TF32: twice the rate in 16 bits, less where they are small."""

ON_PIPE: Annotated[Pair, Limit("ratio", ASSUMED)] = (1 / 16, 0.5)
"""Of that of products on the FP32 pipe, which an H200's tensor cores do sixteen times as fast in 16 bits."""

BY_CHANNEL: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.3, 0.8)
"""Of that of convolutions by channel or in groups: half of the bytes, in kernels of their own."""

UNKNOWN_DOUBLE: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.1, 0.6)
"""Of that of doubles of which it is not known how many bytes they move: a tenth by tensor cores, or half."""

NEAR: Annotated[float, Limit("ratio", CHOICE)] = 0.6
"""Of an operator's time its bytes take at the roof, from which on they are what it waits for."""


def left_in_half(light: Iterable[CallRow], heavy: Iterable[CallRow]) -> Pair | None:
    """What 16 bits leave of the time of both together, *light* and *heavy* in float32; None without any."""
    parts = [(row.gpu_ns, KEPT if _keeps_float32(row) else MOVED) for row in light]
    parts += [(row.gpu_ns, _heavy(row)) for row in heavy]
    return _together(parts)


def left_in_float32(b: Breakdown, rows: Iterable[CallRow]) -> Pair | None:
    """What float32 leaves of the time of *rows*, which work on doubles; None without any."""
    dram = math.nan if b.ceilings is None else b.ceilings.dram
    parts: list[tuple[int, Pair]] = []
    for call, its in by_call(rows):
        now, times = sum(row.gpu_ns for row in its), min(row.launches for row in its)
        moved = None if is_heavy(call) else passed(call)
        if moved is None or not (dram > 0 and times and now):
            parts.append((now, UNKNOWN_DOUBLE))
            continue
        at_roof = times * 1e9 * sum(moved) / dram / now
        parts.append((now, MOVED if at_roof >= NEAR else (at_roof / 2, 0.5)))
    return _together(parts)


def _keeps_float32(row: CallRow) -> bool:
    """Whether autocast leaves *row* in float32; what works in place is not autocast at all."""
    name = plain(operator_of(row))
    for end in _PASSES:
        name = name.removesuffix(end)
    return name in KEEPS_FLOAT32 and not works_in_place(operator_of(row))


def _heavy(row: CallRow) -> Pair:
    of_group = channels(row.call) if row.call is not None and is_convolution(row.call) else None
    if of_group is not None and of_group[0] != of_group[1]:
        return BY_CHANNEL
    return ON_PIPE if uses_tensor_cores(row.kernel) is False else ON_TENSOR_CORES


def _together(parts: Iterable[tuple[int, Pair]]) -> Pair | None:
    known = list(parts)
    whole = sum(ns for ns, _ in known)
    if not whole:
        return None
    return (
        sum(ns * least for ns, (least, _) in known) / whole,
        sum(ns * most for ns, (_, most) in known) / whole,
    )
