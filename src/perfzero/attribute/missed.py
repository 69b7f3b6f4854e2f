"""
Products and convolutions that run beside the tensor cores, each with the reason.

    tf32_off     float32, and nothing of that family (products, or convolutions, which have a switch each)
                 runs in TF32
    vector       a matrix of one row or column: there is nothing to use twice
    depthwise    a convolution channel by channel
    groups       a convolution in groups

Whether a kernel uses the tensor cores is told by its name (`operations.uses_tensor_cores`) and by what was
counted while it ran; where both are there and differ, or neither is, nothing is said of it. Of what has
another reason nothing is said either. In 16 bits nearly all sizes run on the tensor cores, odd ones in
slower kernels (all of 40 products on an H200 did, of 1 to 50,257 columns): that is what the condition on
alignment is about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from perfzero.attribute.breakdown import Breakdown, Call, CallRow
from perfzero.attribute.operations import factors, multiplying, uses_tensor_cores
from perfzero.attribute.operators import CONVOLUTION, CONVOLUTION_BACKWARD, plain
from perfzero.attribute.parts import NOTEWORTHY, Condition, Why, by_module, dtype_of, share_of
from perfzero.attribute.products import is_convolution, is_product

IDLE = 0.01
"""
Activity of the tensor cores while a kernel runs. In a ResNet-50 on an H200 batch norms and activations have
less than this, convolutions from 0.05 up.
"""


def tf32(b: Breakdown) -> Condition | None:
    """Products and convolutions in float32 that run on the FP32 pipe for TF32 is off."""
    rows, unclear = _multiplying(b, ("float",))
    if share_of(rows) + unclear < NOTEWORTHY:
        return None
    beside = _beside(b, rows)
    off = [row for row in rows if beside[row] and _reason(b, row)[0] == "tf32_off"]
    if share_of(off) >= NOTEWORTHY:
        return Condition("tf32", True, share_of(off), by_module(off))
    unclear += share_of(row for row in rows if beside[row] is None)
    return Condition("tf32", False, 0.0) if unclear < NOTEWORTHY else None


def tensor_cores(b: Breakdown) -> Condition | None:
    """What multiplies beside the tensor cores, whatever the reason is."""
    rows, unclear = _multiplying(b)
    if share_of(rows) + unclear < NOTEWORTHY:
        return None
    beside = _beside(b, rows)
    missed = [row for row in rows if beside[row] and _reason(b, row)[0]]
    if share_of(missed) >= NOTEWORTHY:
        return Condition(
            "tensor_cores", True, share_of(missed), by_module(missed, lambda row: _reason(b, row))
        )
    unclear += share_of(row for row in rows if beside[row] is not False)
    return Condition("tensor_cores", False, 0.0) if unclear < NOTEWORTHY else None


def _multiplying(b: Breakdown, kinds: tuple[str, ...] = ()) -> tuple[list[CallRow], float]:
    """
    The kernels that do the multiplications of products and convolutions, of all or some types; and what
    share of the time is in calls of which that is not known.
    """
    calls: dict[tuple[Call, str, str | None], list[CallRow]] = {}
    for row in b.calls:
        if row.call is None or row.kind != "kernel" or (kinds and dtype_of(row.call) not in kinds):
            continue
        if is_product(row.call) or is_convolution(row.call):
            calls.setdefault((row.call, row.phase, row.module), []).append(row)
    found, unclear = [], 0.0
    for (call, _, _), rows in calls.items():
        done = multiplying(call, [row.kernel for row in rows], [row.gpu_ns for row in rows])
        if done is None:
            unclear += share_of(rows)
        else:
            found += [row for row, part in zip(rows, done, strict=True) if part]
    return found, unclear


def _beside(b: Breakdown, rows: list[CallRow]) -> Mapping[CallRow, bool | None]:
    """Of each kernel whether it works without the tensor cores; None where that is not known."""
    counted = {
        k.row.name: k.row.counted.tensor_active.value
        for k in b.kernels
        if k.row.counted is not None and k.row.counted.tensor_active is not None
    }
    return {row: _is_beside(row.kernel, counted.get(row.kernel, math.nan)) for row in rows}


def _is_beside(kernel: str, activity: float) -> bool | None:
    named = uses_tensor_cores(kernel)
    idle = None if math.isnan(activity) else activity < IDLE
    if named is None or idle is None:
        return idle if named is None else not named
    return idle if idle != named else None


def _reason(b: Breakdown, row: CallRow) -> tuple[Why, float]:
    """Why the kernel of *row* works beside the tensor cores; empty where that is not known."""
    call = row.call
    if call is None:
        return "", 0.0
    if is_convolution(call):
        channels = _channels(call)
        if channels is not None and channels[0] != channels[1]:
            return ("depthwise", 0.0) if channels[0] == 1 else ("groups", channels[1] / channels[0])
    elif (product := factors(call)) is not None and 1 in (product.rows, product.columns):
        return "vector", 0.0
    return ("tf32_off", 0.0) if dtype_of(call) == "float" and not _uses_tf32(b, call) else ("", 0.0)


def _uses_tf32(b: Breakdown, call: Call) -> bool:
    """Whether anything of the family of *call* does, so that the switch is on."""
    family = is_convolution if is_convolution(call) else is_product
    rows = (row for row in b.calls if family(row.call) and dtype_of(row.call) == "float")
    return any(uses_tensor_cores(row.kernel) for row in rows)


def _channels(call: Call) -> tuple[int, int] | None:
    """The channels of a group, and of the whole image."""
    name, shapes = plain(call.operator), [tensor.shape for tensor in call.inputs]
    place = 1 if name == CONVOLUTION_BACKWARD else 0
    if (name not in CONVOLUTION and not place) or len(shapes) < place + 2:
        return None
    image, weights = shapes[place : place + 2]
    return (weights[1], image[1]) if len(image) == len(weights) >= 3 else None
