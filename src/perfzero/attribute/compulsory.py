"""
The bytes that a call has to move: each input read once, each result written once.

No arrangement of caches moves fewer bytes between device memory and the chip, unless part of it is in the L2
already, or stays there: the compulsory misses of Hill and Smith (1989), of which Williams, Waterman and
Patterson (2009) make the upper bound on a kernel's arithmetic intensity. What is held against measured bytes
has to be exact, so of what does not follow from the inputs beyond doubt nothing is told:

- an input is read as far as its elements differ: an expanded dimension (stride 0) counts once, and inputs
  without recorded strides, or with overlapping ones, are not known;
- results have the shape and type that PyTorch's rules give: broadcasting, and promotion among floats; a
  truth for comparisons; of integers only what works in place or copies is known;
- what an in-place operator writes is its first input, which it also reads, but for copies and fills;
- a batch norm in training has to go over what it reads twice, and where all of it is larger than the L2 the
  second pass finds it gone: x + x + y forward, and x and dy twice + dx backward (`operations.reads_twice`);
- a product of matrices of which none fits the L2 cannot use all that it reads while it is there: it moves
  2 mnk / sqrt(S) elements or more, less 2 S, where S are as many as the L2 holds (Hong and Kung, 1981; with
  these constants Smith, Lowery, Langou and van de Geijn, 2019). They prove it of C := AB + C, whose reads of
  C count; that of C := AB writes as much, so it is a bound on all that is moved, and stands beside each
  matrix once, not on top. Up to about 10,000 rows, columns and inner places in 16 bits it says less than that
  on an H200, and so it does where one of the matrices fits the L2, for then the others pass by it once. What
  SMs keep in registers and shared memory comes on top of S; no kernel that we know uses both to the full;
- results of convolutions, pools and softmax are those that other calls show (`outputs.py`);
- lists of tensors, reductions and look-ups are not known: types, dimensions and indices are not recorded.

Two inputs that are the same tensor, as in x * x, count twice: no trace says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated

from perfzero.attribute.breakdown import Call
from perfzero.attribute.operations import factors
from perfzero.attribute.operators import (
    ATTENTION_BACKWARD,
    ATTENTION_FORWARD,
    BATCH_NORM_BACKWARD,
    BINARY,
    CONVOLUTION,
    CONVOLUTION_BACKWARD,
    COPY,
    ELEMENTWISE,
    HALF,
    LAYER_NORM_BACKWARD,
    MATRIX,
    NORMS,
    ROW_SUMS,
    TERNARY,
    TO_BOOL,
    UNARY,
    plain,
    works_in_place,
)
from perfzero.attribute.outputs import Outputs, Shape
from perfzero.limits import CHOICE, DATA_SHEETS, Limit
from perfzero.traces import Tensor

BYTES: Mapping[str, int] = MappingProxyType({
    "double": 8, "float": 4, "c10::Half": 2, "c10::BFloat16": 2, "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1, "long int": 8, "long": 8, "int": 4, "short int": 2, "short": 2, "signed char": 1,
    "unsigned char": 1, "bool": 1, "c10::complex<float>": 8, "c10::complex<double>": 16,
})  # fmt: skip
"""Of an element, by C++'s name of its type."""

FLOATS = ("double", "float", "c10::BFloat16", "c10::Half")
"""Promotion among them takes the first; both 16-bit types together become float."""

BIAS: Annotated[float, Limit("ratio", CHOICE)] = 0.01
"""
Of the bytes of a product. A larger matrix that is added may be left out: with beta = 0 it is not read, and
whether it is the trace does not say.
"""

SMALLEST_L2: Annotated[int, Limit("bytes", DATA_SHEETS)] = 4 << 20
"""Bytes: that of a T4, the smallest among `hardware.DATA_SHEETS`. A larger one leaves less to be moved."""

_MAY_BE_RESULTS = frozenset({"pow", "remainder", "fmod", "clamp", "clamp_min", "clamp_max", "bitwise_not"})
"""Of these a second tensor is an operand or where the result goes; which, is not recorded."""


def compulsory_bytes(call: Call, seen: Outputs, made: tuple[bool, bool] | None = None) -> float | None:
    """
    The bytes that *call* has to move; None where they are not known.

    *made*: which gradients a backward convolution or norm makes (`operations.gradients`).
    """
    name = plain(call.operator)
    if not call.operator.startswith("aten::") or not all(t.dtype in BYTES for t in call.inputs):
        return None
    if name in COPY or name in ELEMENTWISE:
        return None if (both := passed(call)) is None else sum(both)
    if works_in_place(call.operator):
        return None
    if name in MATRIX:
        return _product(name, call)
    if name in CONVOLUTION and len(call.inputs) >= 2:
        return _convolution(call.inputs, seen)
    if name == CONVOLUTION_BACKWARD and len(call.inputs) == 3 and made is not None:
        return _convolution_backward(call.inputs, made)
    if name == BATCH_NORM_BACKWARD and made is not None:
        return _native_batch_norm_backward(call.inputs, made)
    if name == LAYER_NORM_BACKWARD and made is not None:
        return _layer_norm_backward(call.inputs, made)
    if name in ATTENTION_FORWARD:
        return _attention(call.inputs, ATTENTION_FORWARD[name], seen)
    if name in ATTENTION_BACKWARD:
        return _attention_backward(call.inputs)
    if name.startswith(("_softmax", "_log_softmax")):
        return _softmax(name, call.inputs, seen)
    if name == "max_pool2d_with_indices":
        return _max_pool(call.inputs, seen)
    known = _OTHERS.get(name)
    return None if known is None else known(call.inputs)


def second_pass(call: Call, once: float, l2_bytes: int | None) -> float | None:
    """
    What a batch norm reads again, which moves *once* with each tensor once; None where the L2 is not known.

    None of it where all stays in an L2 of *l2_bytes*. On an H200 (60 MiB; a ResNet-50 in bf16 and in fp32)
    batch norms of inputs from 51 to 205 MB moved 0.98 to 1.06 of what they have to by this.
    """
    if l2_bytes is None:
        return None
    backward = plain(call.operator).endswith("_backward")
    return _read(call.inputs[: 1 + backward]) if once > l2_bytes else 0.0


def through_l2(call: Call, once: float, l2_bytes: int | None) -> float | None:
    """
    What a product has to move through an L2 of *l2_bytes*, which moves *once* with each matrix once.

    With an L2 of unknown size None where the smallest makes it more than that. Where elements of a factor are
    the same ones, which the bound does not suppose, and of other operators it is *once*.
    """
    product = factors(call)
    if product is None:
        return once
    pair = call.inputs[product.place : product.place + 2]
    if any(different(tensor) != made_of(tensor.shape, tensor.dtype) for tensor in pair):
        return once
    size = BYTES[pair[0].dtype]
    held = (l2_bytes or SMALLEST_L2) / size
    multiplied = product.rows * product.inner * product.columns
    least = product.batch * size * (2 * multiplied / math.sqrt(held) - 2 * held)
    if least <= once:
        return once
    return least if l2_bytes else None


def different(tensor: Tensor) -> float | None:
    """The bytes of the elements of *tensor* that differ; None where strides do not say which do."""
    size = BYTES.get(tensor.dtype)
    if size is None or len(tensor.strides) != len(tensor.shape):
        return None
    reach, count = 1, 1
    used = [(stride, n) for stride, n in zip(tensor.strides, tensor.shape, strict=True) if n != 1 and stride]
    for stride, many in sorted(used):
        if stride < reach:
            return None  # elements overlap
        reach, count = stride * (many - 1) + reach, count * many
    return float(size * count * (0 not in tensor.shape))


def made_of(shape: Shape, dtype: str) -> float:
    """The bytes of a result without gaps."""
    return float(BYTES[dtype] * math.prod(shape))


def _read(tensors: Iterable[Tensor]) -> float | None:
    """All of *tensors* once. Those without a dimension are numbers, which mostly are no memory at all."""
    return _sum(different(tensor) for tensor in tensors if tensor.shape)


def _sum(parts: Iterable[float | None]) -> float | None:
    total = 0.0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def passed(call: Call) -> tuple[float, float] | None:
    """What a copy, or what works element by element, reads and writes; None where that is not known."""
    name, tensors = plain(call.operator), call.inputs
    if not call.operator.startswith("aten::") or not all(tensor.dtype in BYTES for tensor in tensors):
        return None
    found = _copied(name, tensors) if name in COPY else _elementwise(name, call)
    read, written = found
    return None if read is None or written is None else (read, written)


_UNKNOWN = (None, None)


def _copied(name: str, tensors: Sequence[Tensor]) -> tuple[float | None, float | None]:
    if not tensors or (name == "copy" and len(tensors) != 2):
        return _UNKNOWN
    return (_read(tensors[1:]) if name == "copy" else 0.0), _read(tensors[:1])


def _elementwise(name: str, call: Call) -> tuple[float | None, float | None]:
    tensors, in_place = call.inputs, works_in_place(call.operator)
    if not tensors:  # none is recorded of an undefined one, nor without shapes
        return _UNKNOWN
    shape = broadcast([t.shape for t in tensors])
    if shape is None:
        return _UNKNOWN
    if in_place:
        whole = different(tensors[0])
        fits = tensors[0].shape == shape and whole == made_of(shape, tensors[0].dtype)
        return (_read(tensors), whole) if fits else _UNKNOWN
    most = 1 if name in UNARY else 2 if name in BINARY else 3 if name in TERNARY else 0
    if name in TO_BOOL or name == "native_dropout":
        most = 1 if name in ("logical_not", "isnan", "isinf", "isfinite", "native_dropout") else 2
    if len(tensors) > most + 1 or (len(tensors) > 1 and name in _MAY_BE_RESULTS):
        return _UNKNOWN
    if len(tensors) == most + 1:  # the last one is where the result goes
        return (_read(tensors[:-1]), different(tensors[-1])) if tensors[-1].shape == shape else _UNKNOWN
    if name in TO_BOOL:
        if name == "bitwise_not" and tensors[0].dtype != "bool":
            return _UNKNOWN
        if len(tensors) > 1 and tensors[1].dtype == "bool" != tensors[0].dtype:
            return _UNKNOWN  # maybe where the result goes
        return _read(tensors), made_of(shape, "bool")
    kind = _kind(name, tensors)
    if kind is None:
        return _UNKNOWN
    mask = made_of(shape, "bool") if name == "native_dropout" else 0.0
    return _read(tensors), made_of(shape, kind) + mask


def _kind(name: str, tensors: Sequence[Tensor]) -> str | None:
    """The type of a result."""
    if name in ("masked_fill", "native_dropout_backward"):
        return tensors[0].dtype
    operands = tensors[1:] if name == "where" else tensors
    sized = {tensor.dtype for tensor in operands if tensor.shape or not any(t.shape for t in operands)}
    if name.startswith("bitwise_"):
        return next(iter(sized)) if len(sized) == 1 and len(operands) == len(tensors) == 2 else None
    return promoted(sized)


def result(call: Call) -> tuple[Tensor, ...]:
    """
    What a copy, a norm, or what works element by element, writes: one tensor, two of `native_dropout`.

    Its type and strides are empty where they are not known; that of a copy is what it was given to write to.
    Statistics that a norm writes beside it are left out.
    """
    name, tensors = plain(call.operator), call.inputs
    if name in NORMS:
        kind = "" if "softmax" in name else tensors[0].dtype if tensors else ""
        return tuple(Tensor(tensor.shape, dtype=kind) for tensor in tensors[:1])
    if name in COPY or works_in_place(call.operator):
        return tensors[:1]
    shape = broadcast([tensor.shape for tensor in tensors])
    if not tensors or shape is None:
        return ()
    if name in TO_BOOL:
        return (Tensor(shape, dtype="bool"),)
    if name == "native_dropout":
        return Tensor(shape, dtype=tensors[0].dtype), Tensor(shape, dtype="bool")
    return (Tensor(shape, dtype=_kind(name, tensors) or ""),)


def promoted(kinds: set[str]) -> str | None:
    """The type that several become, where there is a float among them; numbers do not change that."""
    floats = [kind for kind in FLOATS if kind in kinds]
    if not floats or any(kind.startswith(("c10::complex", "c10::Float8")) for kind in kinds):
        return None
    return "float" if floats[:2] == ["c10::BFloat16", "c10::Half"] else floats[0]


def broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """What *shapes* become together; None where they do not fit."""
    rank = max(map(len, shapes), default=0)
    found = []
    for sizes in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            return None
        found.append(wide.pop() if wide else 1)
    return tuple(found)


def _product(name: str, call: Call) -> float | None:
    product, tensors = factors(call), call.inputs
    if product is None or name in ("addbmm", "_scaled_mm"):
        return None
    place = product.place
    one, other = tensors[place : place + 2]
    if one.dtype != other.dtype:
        return None
    shape = (product.batch, product.rows, product.columns)
    result = made_of(shape, one.dtype)
    both = _read((one, other))
    if both is None:
        return None
    added, after = tensors[:place], tensors[place + 2 :]
    if name == "linear":
        added, after = after, ()
    # What comes after is where the result goes.
    if len(after) > 1 or (
        after and (after[0].dtype, math.prod(after[0].shape)) != (one.dtype, math.prod(shape))
    ):
        return None
    bias = _read(added)
    if bias is None or bias > BIAS * (both + result):
        return None
    return both + bias + result


def _convolution(tensors: Sequence[Tensor], seen: Outputs) -> float | None:
    image, weights = tensors[:2]
    result = seen.convolved.get((image.shape, weights.shape))
    if result is None or image.dtype != weights.dtype or len(tensors) > 3 or _skips(image, weights, result):
        return None
    return _sum((_read(tensors), made_of(result, image.dtype)))


def _convolution_backward(tensors: Sequence[Tensor], made: tuple[bool, bool]) -> float | None:
    gradient, image, weights = tensors
    if len({tensor.dtype for tensor in tensors}) > 1 or _skips(image, weights, gradient.shape):
        return None
    of_image, of_weights = made
    parts = [different(gradient)]
    if of_image:
        parts += [different(weights), made_of(image.shape, image.dtype)]
    if of_weights:
        parts += [different(image), made_of(weights.shape, weights.dtype)]
    return _sum(parts)


def _skips(image: Tensor, weights: Tensor, result: Shape) -> bool:
    """Whether steps may be longer than the window, so that not all of the image is read."""
    sizes = zip(image.shape[2:], weights.shape[2:], result[2:], strict=False)
    return any(many > window * places for many, window, places in sizes)


def _attention(tensors: Sequence[Tensor], heads: int, seen: Outputs) -> float | None:
    if len(tensors) != 3 or len({tensor.dtype for tensor in tensors}) > 1:
        return None  # a mask, or packed sequences
    query, _, value = tensors
    if tuple(tensor.shape for tensor in tensors) not in seen.attended:
        return None  # without a backward pass the sums of the softmax may not be written
    result = made_of((*query.shape[:3], value.shape[3]), query.dtype)
    sums = made_of((query.shape[0], query.shape[heads], query.shape[3 - heads]), "float")
    return _sum((_read(tensors), result, sums))


def _attention_backward(tensors: Sequence[Tensor]) -> float | None:
    if len(tensors) < 6 or tensors[4].shape != tensors[0].shape or tensors[5].dtype != "float":
        return None  # a bias, or packed sequences
    made = [made_of(tensor.shape, tensor.dtype) for tensor in tensors[1:4]]
    return _sum((_read(tensors[:6]), *made))


def _softmax(name: str, tensors: Sequence[Tensor], seen: Outputs) -> float | None:
    """Forward and backward; between 16 bits and float either may change the type, and the other one shows."""
    backward = name.endswith("_backward_data")
    if len(tensors) != 1 + backward:
        return None
    scores = tensors[-1]
    kinds = frozenset({scores.dtype})
    if scores.dtype in (("float",) if backward else HALF):
        other = name.removesuffix("_backward_data") if backward else f"{name}_backward_data"
        kinds = seen.softmax.get((other, scores.shape), frozenset())
    if len(kinds) != 1:
        return None
    [kind] = kinds
    return _sum((_read(tensors), made_of(scores.shape, kind))) if kind in BYTES else None


def _layer_norm(tensors: Sequence[Tensor]) -> float | None:
    if len(tensors) != 3 or tensors[0].shape[-len(tensors[1].shape) :] != tensors[1].shape:
        return None  # without weights it is not recorded over what the mean is taken
    given, weights = tensors[:2]
    rows = math.prod(given.shape) // max(1, math.prod(weights.shape))
    means = made_of((2, rows), "double" if given.dtype == "double" else "float")
    return _sum((_read(tensors), made_of(given.shape, given.dtype), means))


def _layer_norm_backward(tensors: Sequence[Tensor], made: tuple[bool, bool]) -> float | None:
    if len(tensors) != 6 or tensors[0].shape != tensors[1].shape:
        return None
    given, weights = tensors[1], tensors[4]
    of_input, of_weights = made
    # The bias is handed over, and not used.
    parts = [_read(tensors[: 5 if of_input else 4])]
    parts += [made_of(given.shape, given.dtype)] if of_input else []
    parts += 2 * [different(weights)] if of_weights else []
    return _sum(parts)


def _batch_norm(tensors: Sequence[Tensor]) -> float | None:
    if len(tensors) != 5:
        return None
    given, channels = tensors[0], tensors[1:]
    # Running mean and variance are written anew, and those of the batch beside them.
    return _sum((_read(tensors), made_of(given.shape, given.dtype), *(2 * [_read(channels[2:])])))


def _batch_norm_backward(tensors: Sequence[Tensor]) -> float | None:
    if len(tensors) < 7 or tensors[0].shape != tensors[1].shape:
        return None
    given, weights = tensors[0], tensors[2]
    channels = different(weights)
    # The running mean and variance are handed over, and not used.
    reads = _read((*tensors[:3], *tensors[5:]))
    return _sum((reads, made_of(given.shape, given.dtype), channels, channels))


def _native_batch_norm_backward(tensors: Sequence[Tensor], made: tuple[bool, bool]) -> float | None:
    if len(tensors) != 7 or tensors[0].shape != tensors[1].shape or made != (True, True):
        return None
    channels = different(tensors[2])
    given = made_of(tensors[1].shape, tensors[1].dtype)
    return _sum((_read((*tensors[:3], *tensors[5:])), given, channels, channels))


def _max_pool(tensors: Sequence[Tensor], seen: Outputs) -> float | None:
    result = seen.pooled.get(tensors[0].shape) if len(tensors) == 1 else None
    if result is None:
        return None
    return _sum((_read(tensors), made_of(result, tensors[0].dtype), made_of(result, "long int")))


def _max_pool_backward(tensors: Sequence[Tensor]) -> float | None:
    if len(tensors) != 3 or tensors[2].shape != tensors[0].shape:
        return None
    gradient, given, places = tensors
    return _sum((_read((gradient, places)), made_of(given.shape, given.dtype)))


def _row_sum(tensors: Sequence[Tensor]) -> float | None:
    """What it makes is not recorded, and little beside what goes in."""
    return _read(tensors[:1]) if tensors else None


_OTHERS: Mapping[str, Callable[[Sequence[Tensor]], float | None]] = MappingProxyType(
    {
        "native_layer_norm": _layer_norm,
        "cudnn_batch_norm": _batch_norm,
        "native_batch_norm": _batch_norm,
        "cudnn_batch_norm_backward": _batch_norm_backward,
        "max_pool2d_with_indices_backward": _max_pool_backward,
        **dict.fromkeys(ROW_SUMS, _row_sum),
    }
)
