"""
Floating-point operations of a call, from the shapes of what goes in.

Counted are products, convolutions and attention, with a multiply-add as two, by the formulas of PyTorch's
own counter (torch/utils/flop_counter.py): mm, addmm, bmm, baddbmm, conv_flop_count, sdpa_flop_count and
sdpa_backward_flop_count. As there, additions of a bias, elementwise operators, norms, softmax and reductions
count nothing, products with the zeros of padding count, and attention counts whole even where a mask leaves
half of it out. Unlike there, the weights' gradient of a convolution in groups counts what each group
multiplies, not what all would.

A backward convolution makes the gradient of the image, that of the weights, or both; which, no input says, so
its kernels do. Each of the two takes as many operations as the forward convolution.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from perfzero.attribute.breakdown import Call
from perfzero.attribute.operators import (
    ATTENTION_BACKWARD,
    ATTENTION_FORWARD,
    BATCH_NORM_BACKWARD,
    CONVOLUTION,
    CONVOLUTION_BACKWARD,
    HALF,
    LAYER_NORM_BACKWARD,
    MATRIX,
    TRANSPOSED_CONVOLUTION,
    multiplies_nothing,
    plain,
)
from perfzero.attribute.outputs import Outputs, Shape

FORWARD_PRODUCTS, BACKWARD_PRODUCTS = 2, 5
"""Of attention: scores and their use; and backward the scores once more, and the gradients of all four."""

GENERATED = ("triton_poi_", "triton_red_", "triton_per_")
"""How Inductor names kernels that hold no product: element by element, and reductions."""

_HELPS = re.compile(
    r"nchwtonhwc|nhwctonchw|transpose|padding|reduce|reduction|init_device_workspace|epilogue::|im2col|col2im|convert",
    re.IGNORECASE,
)
"""Kernels beside a product: they change layouts, add up parts or prepare, and multiply nothing."""

_MULTIPLIES = re.compile(r"gemm|conv|grad|fprop|nvjet|cutlass|xmma|winograd|fft", re.IGNORECASE)
"""What a backward convolution is made of; of transforms (FFT, Winograd) it takes several kernels, unnamed."""


@dataclass(frozen=True, slots=True)
class Factors:
    """
    What a product multiplies, `batch` times: rows x inner by inner x columns.

    `place`: where the first of both stands among the call's inputs; the second comes after it.
    """

    batch: int
    rows: int
    inner: int
    columns: int
    place: int


def factors(call: Call) -> Factors | None:
    """What a product multiplies; None where *call* is none, or its inputs do not say it beyond doubt."""
    name, tensors = plain(call.operator), call.inputs
    if name not in MATRIX:
        return None
    first = 1 if name in ("addmm", "_addmm_activation", "baddbmm", "addbmm") else 0
    if len(tensors) < first + 2:
        return None
    a, b = (tensor.shape for tensor in tensors[first : first + 2])
    if name == "linear":
        a, b = (math.prod(a[:-1]), *a[-1:]), b[::-1]
    batched = name in ("bmm", "baddbmm", "addbmm")
    if len(a) != 2 + batched or len(b) != len(a) or a[-1] != b[-2] or (batched and a[0] != b[0]):
        return None
    return Factors(a[0] if batched else 1, a[-2], a[-1], b[-1], first)


def operations(call: Call, seen: Outputs) -> float | None:
    """
    Floating-point operations of *call*, of a backward convolution those of each gradient; None if not known.
    """
    name = plain(call.operator)
    if multiplies_nothing(call.operator):
        return 0.0
    if (product := factors(call)) is not None:
        return 2.0 * product.batch * product.rows * product.inner * product.columns
    shapes = [tensor.shape for tensor in call.inputs]
    if name in CONVOLUTION and len(shapes) >= 2:
        image, weights = shapes[:2]
        result = seen.convolved.get((image, weights))
        return None if result is None else _convolution(image, weights, result)
    if name in TRANSPOSED_CONVOLUTION and len(shapes) >= 2:
        return _transposed(*shapes[:2])
    if name == CONVOLUTION_BACKWARD and len(shapes) >= 3:
        return _backward(shapes[0], shapes[1], shapes[2], seen)
    if name in ATTENTION_FORWARD and len(shapes) >= 3:
        return _attention(shapes[:3], ATTENTION_FORWARD[name], FORWARD_PRODUCTS)
    if name in ATTENTION_BACKWARD and len(shapes) >= 4:
        return _attention(shapes[1:4], ATTENTION_BACKWARD[name], BACKWARD_PRODUCTS)
    return None


def _convolution(image: Shape, weights: Shape, result: Shape) -> float | None:
    """Weights are results x channels of a group x places."""
    if not (len(image) == len(weights) == len(result) >= 3):
        return None
    if not _is_direct(image, weights, result):
        return None
    return 2.0 * image[0] * math.prod(result[2:]) * math.prod(weights)


def _transposed(image: Shape, weights: Shape) -> float | None:
    """Weights are channels x results of a group x places, and each goes to every place of the image."""
    if not (len(image) == len(weights) >= 3) or image[1] != weights[0]:
        return None
    return 2.0 * image[0] * math.prod(image[2:]) * math.prod(weights)


def _backward(gradient: Shape, image: Shape, weights: Shape, seen: Outputs) -> float | None:
    if not (len(gradient) == len(image) == len(weights) >= 3):
        return None
    direct, transposed = _is_direct(image, weights, gradient), _is_direct(gradient, weights, image)
    if direct and transposed:  # as many channels on both sides; places may be as many, too
        if gradient[2:] == image[2:]:
            return _convolution(image, weights, gradient)
        direct = (image, weights) in seen.direct
        transposed = (image, weights) in seen.transposed
    if direct == transposed:
        return None
    return _convolution(image, weights, gradient) if direct else _transposed(image, weights)


def _is_direct(image: Shape, weights: Shape, result: Shape) -> bool:
    """Whether channels and batch fit a convolution of *image* that is not transposed."""
    groups, left = divmod(image[1], weights[1]) if weights[1] else (0, 1)
    fits = not left and groups > 0 and weights[0] % groups == 0
    return fits and result[1] == weights[0] and result[0] == image[0]


def _attention(shapes: Sequence[Shape], heads: int, products: int) -> float | None:
    """Half of the products are as wide as query and key, and half as the value; of five, three are."""
    query, key, value = shapes
    if not (len(query) == len(key) == len(value) == 4) or not query[0] == key[0] == value[0]:
        return None  # packed sequences, whose lengths are in another input
    long = 3 - heads
    if not key[heads] or query[heads] % key[heads] or key[long] != value[long] or query[3] != key[3]:
        return None
    scores = 2.0 * query[0] * query[heads] * query[long] * key[long]
    wide = (products + 1) // 2
    return scores * (wide * query[3] + (products - wide) * value[3])


def multiplying(call: Call, kernels: Sequence[str], lengths: Sequence[int]) -> list[float] | None:
    """
    How many times `operations` each of the kernels of *call* does, which ran for *lengths*; None if unclear.

    Of most operators one kernel does all, the longest that multiplies.
    """
    helps = [bool(_HELPS.search(name)) or name.startswith(("Memset", "Memcpy")) for name in kernels]
    done = [0.0] * len(kernels)
    if plain(call.operator) != CONVOLUTION_BACKWARD:
        able = [place for place, helper in enumerate(helps) if not helper]
        if not able:
            return None
        done[max(able, key=lambda place: lengths[place])] = 1.0
        return done
    roles: dict[str, list[int]] = {"dgrad": [], "wgrad": [], "": []}
    for place, name in enumerate(kernels):
        if not helps[place] and _MULTIPLIES.search(name):
            lower = name.lower()
            roles["dgrad" if "dgrad" in lower else "wgrad" if "wgrad" in lower else ""].append(place)
    unnamed = roles.pop("")
    named = [places for places in roles.values() if places]
    if len(unnamed) > 2 - len(named) or not (named or unnamed):
        return None
    for places in (*named, *([place] for place in unnamed)):
        whole = sum(lengths[place] for place in places)
        for place in places:
            done[place] = lengths[place] / whole if whole else 1.0 / len(places)
    return done


def gradients(call: Call, kernels: Sequence[str], done: Sequence[float]) -> tuple[bool, bool] | None:
    """
    Whether the kernels of a backward convolution or norm make the gradient of what went in, and the weights'.

    *done*: what each of the kernels multiplies. None where they do not say it, and of other operators.
    """
    names = [name.lower() for name in kernels]
    if plain(call.operator) == LAYER_NORM_BACKWARD:
        of_input = any("layer_norm_grad_input" in name for name in names)
        of_weights = any("gammabeta" in name for name in names)
        return (of_input, of_weights) if of_input or of_weights else None
    if plain(call.operator) == BATCH_NORM_BACKWARD:
        if any("batch_norm_backward_kernel" in name for name in names):
            return True, True
        reduces = any("batch_norm_backward_reduce" in name for name in names)
        return (True, True) if reduces and any("backward_elemt" in name for name in names) else None
    if plain(call.operator) != CONVOLUTION_BACKWARD:
        return None
    if round(sum(done)) == 2:
        return True, True
    names = [name for name, part in zip(names, done, strict=True) if part]
    if any("dgrad" in name for name in names):
        return True, False
    return (False, True) if any("wgrad" in name for name in names) else None


def arithmetic(call: Call, kernel: str) -> str | None:
    """
    The type in which *kernel* multiplies for *call*, as `hardware` calls it; None where that is not known.

    Products of float32 do so on the tensor cores (TF32) or on the FP32 pipe, as the kernel's name says. Of
    float64 it is not known: tensor cores of data centre chips have twice the peak of the pipe. What else goes
    into a product, such as scales of rows, a bias or where the result goes, may be of another type.
    """
    product = factors(call)
    multiplied = call.inputs if product is None else call.inputs[product.place : product.place + 2]
    dtypes = {tensor.dtype for tensor in multiplied if len(tensor.shape) >= 2}
    kinds = dtypes & {*HALF, "float", "double"} or {d for d in dtypes if d.startswith("c10::Float8")}
    if len(kinds) > 1 and not all(kind.startswith("c10::Float8") for kind in kinds):
        return None
    kind = min(kinds, default="")
    if kind in HALF:
        return "bf16" if kind == "c10::BFloat16" else "fp16"
    if kind == "float":
        uses = uses_tensor_cores(kernel)
        return None if uses is None else "tf32" if uses else "fp32"
    return "fp8" if kind.startswith("c10::Float8") else None


def reads_twice(call: Call, kernels: Sequence[str]) -> bool:
    """
    Whether the kernels of *call* are those of a batch norm that goes twice over what it reads.

    In training it does: no element is normalised before the mean and variance of all are known, and backward
    none has its gradient before two more sums are (Ioffe and Szegedy, 2015, algorithm 1 and section 3). Not
    with the running statistics of evaluation, nor where cuDNN keeps each channel in an SM (`singleread`).
    """
    name, names = plain(call.operator), " ".join(kernels).lower()
    if "singleread" in names:
        return False
    if name in (BATCH_NORM_BACKWARD, "cudnn_batch_norm_backward"):
        return True
    return name in ("cudnn_batch_norm", "native_batch_norm") and bool(_IN_TRAINING.search(names))


_IN_TRAINING = re.compile(r"collect_statistics|fw_?tr")
"""PyTorch's kernels and cuDNN's, forward."""

_ON_TENSOR_CORES = re.compile(
    r"tf32|tensorop|_tensor\d|s1688|s16816|s884|h16816|wgmma|bf16bf16|bf16f32|f16f16|nvjet|hmma",
    re.IGNORECASE,
)
_BESIDE_THEM = re.compile(
    r"ffma|simt|sgemm|gemv|f32f32_f32f32|dot_kernel"
    r"|conv_depthwise|[cdw](?:onv|grad)2d_(?:c1_k1|shmem|grouped)|dgrad_engine|wgrad_alg",
    re.IGNORECASE,
)
"""
How cuBLAS, cuDNN, CUTLASS and PyTorch name kernels that multiply with tensor cores, and without: seen in 60
products and convolutions on an H200 in four types (PyTorch 2.11, CUDA 13.0), and in the programs of
docs/attribution.md.
"""


def uses_tensor_cores(kernel: str) -> bool | None:
    """Whether *kernel* multiplies on the tensor cores, by its name; None where that says neither, or both."""
    on, beside = bool(_ON_TENSOR_CORES.search(kernel)), bool(_BESIDE_THEM.search(kernel))
    return on if on != beside else None
