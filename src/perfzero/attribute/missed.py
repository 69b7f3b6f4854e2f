"""
Products and convolutions that run beside the tensor cores, each with the reason.

    tf32_off     a product in float32, and no product runs in TF32
    convolution_tf32_off
                 likewise a convolution: PyTorch has a switch for each family
    vector       a matrix of one row or column: there is nothing to use twice
    groups       a convolution in groups

One channel by channel has nothing for them to do (`by_channel.py`), and is none of these.

Whether a kernel uses the tensor cores is told by its name (`operations.uses_tensor_cores`) and by what was
counted while it ran; where both are there and differ, or neither is, nothing is said of it. Of what has
another reason nothing is said either. In 16 bits nearly all sizes run on the tensor cores, odd ones in
slower kernels (all of 40 products on an H200 did, of 1 to 50,257 columns): that is what the condition on
alignment is about.

Of kernels that no operator launched, as in a replay or in a program without PyTorch, those are told whose
names say that they multiply matrices of float32.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from perfzero.attribute.breakdown import Breakdown, Call, CallRow
from perfzero.attribute.fitting import left_in_tf32
from perfzero.attribute.operations import factors, multiplying, uses_tensor_cores
from perfzero.attribute.operators import CONVOLUTION, CONVOLUTION_BACKWARD, plain
from perfzero.attribute.parts import NOTEWORTHY, Condition, Part, Why, by_call, by_module, dtype_of, share_of
from perfzero.attribute.products import is_convolution, is_product
from perfzero.attribute.standing import others
from perfzero.limits import H200_LOOKS, Limit

IDLE: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.01
"""
Activity of the tensor cores while a kernel runs. In a ResNet-50 on an H200 batch norms and activations have
less than this, convolutions from 0.05 up.
"""

Family = Literal["product", "convolution"]

_FLOAT_PRODUCT = re.compile(r"xmma_gemm_f32f32_|sgemm|_80_tensorop_s1688gemm_\d")
_FLOAT_CONVOLUTION = re.compile(r"(?:fprop|dgrad|wgrad)\w*_(?:t?f32f32|tf32)_")
"""How cuBLAS and cuDNN name those of float32, in TF32 or not, in the recordings of docs/attribution.md."""

TF32_OFF: Mapping[Family, Why] = {"product": "tf32_off", "convolution": "convolution_tf32_off"}
"""The reason by family: in PyTorch each has a switch of its own."""


def tf32(b: Breakdown) -> Condition | None:
    """Products and convolutions in float32 that run on the FP32 pipe for TF32 is off."""
    rows, unclear = _multiplying(b, ("float",))
    if share_of(rows) + unclear < NOTEWORTHY:
        return None
    beside = _beside(b, rows)
    why = _reasons(b, [row for row in rows if beside[row]])
    off = [row for row, (reason, _) in why.items() if reason in TF32_OFF.values()]
    if share_of(off) >= NOTEWORTHY:
        left, rest = left_in_tf32(b, off), others(b, off)
        return Condition("tf32", True, share_of(off), _parts(off, why), left=left, others=rest)
    unclear += share_of(row for row in rows if beside[row] is None)
    return Condition("tf32", False, 0.0) if unclear < NOTEWORTHY else None


def tensor_cores(b: Breakdown) -> Condition | None:
    """What multiplies beside the tensor cores, whatever the reason is."""
    rows, unclear = _multiplying(b)
    if share_of(rows) + unclear < NOTEWORTHY:
        return None
    beside = _beside(b, rows)
    why = _reasons(b, [row for row in rows if beside[row]])
    missed = [row for row, (reason, _) in why.items() if reason]
    if share_of(missed) >= NOTEWORTHY:
        return Condition("tensor_cores", True, share_of(missed), _parts(missed, why))
    unclear += share_of(row for row in rows if beside[row] is not False)
    return Condition("tensor_cores", False, 0.0) if unclear < NOTEWORTHY else None


def _multiplying(b: Breakdown, kinds: tuple[str, ...] = ()) -> tuple[list[CallRow], float]:
    """
    The kernels that do the multiplications of products and convolutions, of all or some types; and what
    share of the time is in calls of which that is not known.
    """
    its = [row for row in b.calls if _family(row) is not None and (not kinds or _dtype(row) in kinds)]
    found, unclear = [row for row in its if row.call is None], 0.0
    for call, rows in by_call(its):
        done = multiplying(call, [row.kernel for row in rows], [row.gpu_ns for row in rows])
        if done is None:
            unclear += share_of(rows)
        else:
            found += [row for row, part in zip(rows, done, strict=True) if part]
    return found, unclear


def _family(row: CallRow) -> Family | None:
    """Whether a kernel belongs to a product or to a convolution; None where neither, or where not known."""
    if row.kind != "kernel":
        return None
    if row.call is None:
        convolves = bool(_FLOAT_CONVOLUTION.search(row.kernel))
        return "convolution" if convolves else "product" if _FLOAT_PRODUCT.search(row.kernel) else None
    return "product" if is_product(row.call) else "convolution" if is_convolution(row.call) else None


def _dtype(row: CallRow) -> str:
    """The type of what a row of a family multiplies: without a call its name said that it is float32."""
    return "float" if row.call is None else dtype_of(row.call)


def _beside(b: Breakdown, rows: Iterable[CallRow]) -> Mapping[CallRow, bool | None]:
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


def _reasons(b: Breakdown, rows: Iterable[CallRow]) -> dict[CallRow, tuple[Why, float]]:
    """Why the kernel of each of *rows* works beside the tensor cores; empty where that is not known."""
    in_tf32 = _in_tf32(b)
    return {row: _reason(row, in_tf32) for row in rows}


def _reason(row: CallRow, in_tf32: frozenset[Family]) -> tuple[Why, float]:
    call, family = row.call, _family(row)
    if call is not None and family == "convolution":
        both = channels(call)
        if both is not None and both[0] != both[1]:
            return ("", 0.0) if both[0] == 1 else ("groups", both[1] / both[0])
    elif call is not None and (product := factors(call)) is not None and 1 in (product.rows, product.columns):
        return "vector", 0.0
    off = family is not None and _dtype(row) == "float" and family not in in_tf32
    return (TF32_OFF[family], 0.0) if off and family is not None else ("", 0.0)


def _in_tf32(b: Breakdown) -> frozenset[Family]:
    """The families of which something in float32 runs on the tensor cores, so that the switch is on."""
    kernels: dict[Family, set[str]] = {}
    for row in b.calls:
        if (family := _family(row)) is not None and _dtype(row) == "float":
            kernels.setdefault(family, set()).add(row.kernel)
    return frozenset(family for family, names in kernels.items() if any(map(uses_tensor_cores, names)))


def _parts(rows: list[CallRow], why: Mapping[CallRow, tuple[Why, float]]) -> tuple[Part, ...]:
    """*rows* by module; a module with products and convolutions stands for each family by itself."""
    families = ([r for r in rows if _family(r) == family] for family in TF32_OFF)
    parts = [part for those in families for part in by_module(those, lambda row: why[row])]
    return tuple(sorted(parts, key=lambda part: (-part.share, part.name)))


def channels(call: Call) -> tuple[int, int] | None:
    """The channels of a group, and of the whole image; None where there are none."""
    name, shapes = plain(call.operator), [tensor.shape for tensor in call.inputs]
    place = 1 if name == CONVOLUTION_BACKWARD else 0
    if (name not in CONVOLUTION and not place) or len(shapes) < place + 2:
        return None
    image, weights = shapes[place : place + 2]
    whole = len(image) == len(weights) >= 3 and weights[1] > 0
    return (weights[1], image[1]) if whole else None
