"""
Whether what a remedy rests on is so in this program, as a look inside shows it.

From outside nobody sees layouts, shapes and types, so a remedy like channels-last can only be offered with
its condition. A trace shows them: the condition holds, with the layers of which it does and their share of
the GPU's busy time, or it does not. Where the trace does not say it beyond doubt, nothing is said.

    channels_last    convolutions on 16-bit images whose layout is NCHW; cuDNN computes these in NHWC, and
                     transposes its input and output where they are not (NVIDIA, "Convolutional Layers User's
                     Guide"; the kernels are called nchwToNhwc and nhwcToNchw). Those of one dimension and
                     depthwise ones are left out: they have kernels of their own for NCHW
    alignment        products of 16-bit matrices that lie in memory with rows whose length is no multiple of 8
                     (NVIDIA, "Matrix Multiplication Background User's Guide"); how many rows there are, such
                     as tokens, does not matter; and what they would take if it were one (`aligning.py`)
    fused_attention  a softmax over scores between the product that made them and the one that uses them, in
                     one module: attention step by step, and what fusing leaves (`fused_attention.py`)
    fused_optimizer  an optimizer that makes many of the launches: by kernels for single tensors, or
                     very many, which may be short ones of an optimizer that is fused, but goes by group
    activations      what other than products and convolutions works on float32, in a program that has its
                     products in float32 and in nothing else: under autocast norms work on float32 anyway
    half_precision   products and convolutions in float32
    float64          operators on double
    tf32, tensor_cores
                     what multiplies beside the tensor cores, and why (`missed.py`)
    tiny_kernels, tiny_products
                     modules whose kernels are shorter than their launches (`tiny.py`)
    chains           elementwise operators and norms one after another, and what fusing gains (`fusing.py`)
    traffic          the modules that move most of the bytes (`traffic.py`)
    serial_gradient, pairwise
                     kernels that are many times slower than another way to the same result (`roundabout.py`)
    by_channel       convolutions that tensor cores cannot speed up (`by_channel.py`)
    between          kernels at no roof that multiply nothing (`between.py`)
    slow_convolutions
                     convolutions whose kernels are of a slow algorithm (`algorithms.py`)
    checks, compile, graph, pageable, pinned_source, training, fills, clears_gradients
                     what is done already, or not there (`done.py`)

All is judged by single calls (`CallRow`), never by what else goes by the same operator or module. A condition
is denied only where little runs of which the trace does not say what it is; that of channels-last also where
nothing convolves by the names of kernels, which are all that replays of graphs leave. Where kernels of
several streams run at once, shares are of what they would take in turn (`_in_turn`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Literal

from perfzero.attribute.algorithms import detours
from perfzero.attribute.aligning import left_when_aligned
from perfzero.attribute.allocating import OFTEN
from perfzero.attribute.between import between
from perfzero.attribute.breakdown import OPTIMIZER_ROW, Breakdown, Call, CallRow
from perfzero.attribute.by_channel import by_channel
from perfzero.attribute.done import FEW_LAUNCHES, checked, compiled, copied, filled, graphed, trained
from perfzero.attribute.fused_attention import left_when_fused
from perfzero.attribute.fusing import chains
from perfzero.attribute.layout import Layout, layout
from perfzero.attribute.missed import tensor_cores, tf32
from perfzero.attribute.narrower import left_in_float32, left_in_half
from perfzero.attribute.operations import GENERATED
from perfzero.attribute.operators import HALF
from perfzero.attribute.parts import (
    NOTEWORTHY,
    Condition,
    Topic,
    by_module,
    dtype_of,
    grouped,
    operator_of,
    shape_of,
    share_of,
)
from perfzero.attribute.paths import parent
from perfzero.attribute.products import is_convolution, is_heavy, is_product, unaligned_length
from perfzero.attribute.roundabout import roundabout
from perfzero.attribute.standing import others
from perfzero.attribute.tiny import TINY_NS, tiny
from perfzero.attribute.traffic import traffic
from perfzero.limits import ASSUMED, CHOICE, Limit

LEAST_SCORES: Annotated[int, Limit("count", CHOICE)] = 64
"""Queries and keys from which fused kernels are known to be faster; of smaller windows nothing is said."""

MANY_LAUNCHES: Annotated[float, Limit("ratio", CHOICE)] = 0.2
"""Of all launches, in the optimizer; from this on they are a good part of what the host is late with."""

FUSED_LAUNCHES: Annotated[int, Limit("count", CHOICE)] = 8
"""
Launches of an optimizer's step that is as good as fused: some groups of parameters, a norm, a step count.
"""

LISTED_LAUNCHES: Annotated[int, Limit("count", CHOICE)] = 64
"""
Of an optimizer's step whose kernels each update many tensors: a dozen calls of a few launches are usual. With
more, its tensors are very many, or are given to it in many groups.
"""

SINGLE_LEFT: Annotated[tuple[float, float], Limit("ratio", ASSUMED)] = (0.0, 0.15)
"""What a fused update leaves of the time of one that goes tensor by tensor."""

LISTED_LEFT: Annotated[tuple[float, float], Limit("ratio", ASSUMED)] = (0.1, 0.6)
"""The same of one that goes by lists, 0.45 of the host's time for 960 tensors, or by groups, 0.15 for 468."""

SOFTMAX = ("aten::_softmax", "aten::_softmax_backward_data", "aten::_safe_softmax")
BATCHED = ("aten::bmm", "aten::baddbmm")
ON_SCORES = frozenset({
    "add", "sub", "mul", "div", "masked_fill", "where", "copy", "clone", "fill", "zero", "tril", "triu",
    "native_dropout", "native_dropout_backward", "bernoulli",
})  # fmt: skip
"""What is done to scores element by element, without `aten::` and the `_` of what works in place."""

TRANSPOSES = ("nchwtonhwc", "nhwctonchw")

CONVOLVES = re.compile(r"(?!.*sdpa).*(conv(?!ert)|implicit|fprop|[dw]grad|winograd|nchw|nhwc|im2col|cudnn)")
"""
In the names of kernels, small letters: those of convolutional networks. Of a ResNet-50 on an H200 all of
cuDNN's kernels have one of these but some that multiply matrices (`cutlass_80_tensorop_s1688gemm`), and no
network has such convolutions only. Some say no more than that they are an implicit product
(`sm80_xmma_implicit_gemm_`), which a convolution is to cuDNN. XLA's `convert` is none, and cuDNN's attention
has `sdpa` in its name.
"""


HOST_SHARE: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""Of all time, in calls for device memory: with less the program hardly waits for them."""


def allocates(b: Breakdown) -> Condition | None:
    """Whether the program takes device memory from CUDA, and gives it back, in its steps."""
    found = b.allocating
    if found.calls < OFTEN or found.share < HOST_SHARE:
        return None
    # Of the time in the calls: what is left of all time is so much less than all of it.
    least, most = (1 - (1 - part) / found.share for part in found.left)
    return Condition("allocates", True, found.share, beside=found.calls, left=(least, most))


def conditions(breakdown: Breakdown) -> Mapping[Topic, Condition]:
    """What the look behind *breakdown* tells of each topic; those of which it tells nothing are not there."""
    if not breakdown.busy_ns:
        return MappingProxyType({})
    breakdown = _in_turn(breakdown)
    unknown = _unknown(breakdown)
    told = (
        *(ask(breakdown) for ask in _ASKED),
        chains(breakdown, unknown),
        trained(breakdown, unknown),
        *copied(breakdown),
        *filled(breakdown, unknown),
        *roundabout(breakdown),
        detours(breakdown),
    )
    found = {one.topic: one for one in told if one is not None}
    if (depthwise := by_channel(breakdown, found.get("activations"))) is not None:
        found[depthwise.topic] = depthwise
    return MappingProxyType(found)


def _in_turn(b: Breakdown) -> Breakdown:
    """
    *b* with shares of what its streams would take one after another, where kernels of several run at once.

    Of the busy time they would add up to more than there is, and who takes them off it would promise too
    much: kernels that run at once share the SMs. Those of collectives need next to none, and copies none.
    """
    together = sum(r.gpu_ns for r in b.calls if r.kind == "kernel" and not _is_collective(r))
    if together <= b.busy_ns:
        return b
    calls = tuple(replace(r, share=r.gpu_ns / together) for r in b.calls)
    return replace(b, busy_ns=together, calls=calls)


def _is_collective(row: CallRow) -> bool:
    return row.kernel.lower().startswith("nccl")


def _channels_last(b: Breakdown) -> Condition | None:
    convolutions = [r for r in b.calls if is_convolution(r.call) and dtype_of(r.call) in HALF]
    if not convolutions:
        # Layouts are in the calls only, but kernels that convolve say so, in replays of graphs too.
        some = share_of(r for r in b.calls if is_convolution(r.call) or _may_convolve(r))
        return Condition("channels_last", False, 0.0) if some < NOTEWORTHY else None
    planar = [r for r in convolutions if _image_layout(r.call) == "NCHW"]
    transposes = share_of(r for r in b.calls if any(word in r.kernel.lower() for word in TRANSPOSES))
    if share_of(planar) >= NOTEWORTHY:
        return Condition("channels_last", True, share_of(planar), by_module(planar), transposes)
    # Transposes without a convolution in NCHW are those of something that was not recorded.
    others = share_of(r for r in convolutions if _image_layout(r.call) not in ("NCHW", "channels-last"))
    return _denied("channels_last", b, others, transposes)


def _alignment(b: Breakdown) -> Condition | None:
    products = [(r, unaligned_length(r)) for r in b.calls if is_product(r.call) and dtype_of(r.call) in HALF]
    if not products:
        return None
    unaligned = [r for r, length in products if length]
    if share_of(unaligned) >= NOTEWORTHY:
        rows = by_module(unaligned, lambda r: ("unaligned", unaligned_length(r) or 0))
        left, rest = left_when_aligned(b, unaligned), others(b, unaligned)
        return Condition("alignment", True, share_of(unaligned), rows, left=left, others=rest)
    return _denied("alignment", b, share_of(r for r, length in products if length is None))


def _fused_attention(b: Breakdown) -> Condition | None:
    if share_of(r for r in b.calls if r.kernel.startswith("triton_")) >= NOTEWORTHY:
        # A compiler's kernels say no more what they compute, but the products of attention are none of them.
        batched = share_of(r for r in b.calls if _is(r.call, BATCHED))
        return _denied("fused_attention", b, batched)
    softmax = [r for r in b.calls if _is(r.call, SOFTMAX) and len(shape_of(r.call)) >= 3]
    found, understood = _on_scores(b, softmax)
    kept = [row for _, row in found]
    share = share_of(kept)
    if share >= NOTEWORTHY:
        parts = grouped((replace(r, module=path) for path, r in found), lambda r: r.module or "")
        left = left_when_fused(b, kept)
        return Condition("fused_attention", True, share, parts, left=left, others=others(b, kept))
    return _denied("fused_attention", b, share_of(softmax) - understood)


def _on_scores(b: Breakdown, softmax: Sequence[CallRow]) -> tuple[list[tuple[str, CallRow]], float]:
    """
    Attention step by step, each row with the module that has its products, and how much of *softmax*, as a
    share of the time, is part of it.
    """
    by_module: dict[str, list[CallRow]] = {}
    for row in b.calls:
        if row.module is not None and row.call is not None:
            by_module.setdefault(row.module, []).append(row)
    shapes: dict[str, set[tuple[int, ...]]] = {}
    for row in softmax:
        shape = shape_of(row.call)
        if row.module is None or len(shape) > 4 or min(shape[-2:]) < LEAST_SCORES:
            continue
        # A softmax may be a module of its own, and then the products are those of the one above.
        for path in dict.fromkeys((row.module, parent(row.module))):
            if _has_both_products(by_module.get(path, ()), _flat(shape)):
                shapes.setdefault(path, set()).add(_flat(shape))
                break
    kept: list[tuple[str, CallRow]] = []
    for module, rows in by_module.items():
        path = module if module in shapes else parent(module)
        kept += [(path, r) for r in rows if path in shapes and _works_on(r.call, shapes[path])]
    return kept, share_of(r for _, r in kept if _is(r.call, SOFTMAX))


def _fused_optimizer(b: Breakdown) -> Condition | None:
    every = sum(r.launches for r in b.calls)
    its = [r for r in b.calls if r.phase == "optimizer" and r.launches]
    if not its or not b.steps:
        return None
    single = [r for r in its if _kind_of_update(r) == "single"]
    fused = [r for r in its if _kind_of_update(r) == "fused"]
    by_group = [r for r in fused if not r.kernel.startswith("triton_")]
    every_one = sum(r.launches for r in its)
    unfused = every_one - sum(r.launches for r in fused)
    launches = sum(r.launches for r in single)
    if launches >= MANY_LAUNCHES * every and launches > FUSED_LAUNCHES * b.steps:
        parts = grouped(single, lambda _: OPTIMIZER_ROW)
        return Condition("fused_optimizer", True, share_of(single), parts, left=SINGLE_LEFT)
    if every_one >= MANY_LAUNCHES * every and every_one > LISTED_LAUNCHES * b.steps:
        if 2 * unfused >= every_one:
            parts = grouped(its, lambda _: OPTIMIZER_ROW)
            return Condition("fused_optimizer", True, share_of(its), parts, left=LISTED_LEFT)
        # Kernels that last take long lists of large tensors, whatever the groups are.
        launches = sum(r.launches for r in by_group)
        if 2 * launches >= every_one and sum(r.gpu_ns for r in by_group) < TINY_NS * launches:
            parts = grouped(its, lambda _: OPTIMIZER_ROW, lambda _: ("by_group", launches / b.steps))
            return Condition("fused_optimizer", True, share_of(its), parts, left=LISTED_LEFT)
    few = unfused < FEW_LAUNCHES * every or unfused <= FUSED_LAUNCHES * b.steps
    return Condition("fused_optimizer", False, 0.0) if few else None


def _activations(b: Breakdown) -> Condition | None:
    heavy = [r for r in b.calls if is_heavy(r.call)]
    wide = share_of(r for r in heavy if dtype_of(r.call) == "float")
    halves = share_of(r for r in heavy if dtype_of(r.call) in HALF)
    unclear = share_of(heavy) - wide - halves
    made = [r for r in b.calls if r.kernel.startswith(GENERATED)]
    # Under autocast a norm works on float32, and Inductor fuses it with what stands beside it.
    not_half = share_of(r for r in made if not _in_half(r.call))
    if share_of(made) >= NOTEWORTHY and halves >= NOTEWORTHY > max(wide, unclear, not_half, _unknown(b)):
        return Condition("activations", False, 0.0)
    if max(unclear, _unknown(b, generated=True)) >= NOTEWORTHY:
        return None
    others = [
        r
        for r in b.calls
        if r.module is not None and r.call is not None and not is_heavy(r.call) and dtype_of(r.call)
    ]
    if halves >= NOTEWORTHY > wide and others:
        return Condition("activations", False, 0.0)
    floats = [r for r in others if dtype_of(r.call) == "float"]
    if wide < NOTEWORTHY or halves > 0 or share_of(floats) < NOTEWORTHY:
        return None
    products = [r for r in heavy if dtype_of(r.call) == "float"]
    left = left_in_half(floats, products)
    return Condition("activations", True, share_of(floats), by_module(floats), beside=wide, left=left)


def _half_precision(b: Breakdown) -> Condition | None:
    heavy = [r for r in b.calls if is_product(r.call) or is_convolution(r.call)]
    return _in_type("half_precision", "float", heavy)


def _float64(b: Breakdown) -> Condition | None:
    found = _in_type("float64", "double", b.calls)
    if found is None or not found.holds:
        return found
    doubles = (r for r in b.calls if dtype_of(r.call) == "double")
    return replace(found, left=left_in_float32(b, doubles))


def _in_type(topic: Topic, dtype: str, rows: Iterable[CallRow]) -> Condition | None:
    """Whether those of *rows* whose type is known work in *dtype*; None without any."""
    known = [r for r in rows if dtype_of(r.call)]
    if not known:
        return None
    those = [r for r in known if dtype_of(r.call) == dtype]
    if share_of(those) < NOTEWORTHY:
        return Condition(topic, False, 0.0)
    return Condition(topic, True, share_of(those), grouped(those, operator_of))


_ASKED: Sequence[Callable[[Breakdown], Condition | None]] = (
    _channels_last,
    _alignment,
    _fused_attention,
    _fused_optimizer,
    _activations,
    _half_precision,
    _float64,
    tf32,
    tensor_cores,
    tiny,
    traffic,
    between,
    allocates,
    compiled,
    graphed,
    checked,
)


def _in_half(call: Call | None) -> bool:
    """Whether all that is as large as anything in *call* is known to be in 16 bits."""
    sizes = [] if call is None else [math.prod(tensor.shape) for tensor in call.inputs]
    if call is None or not sizes:
        return False
    return {t.dtype for t, size in zip(call.inputs, sizes, strict=True) if size == max(sizes)} <= {*HALF}


def _may_convolve(row: CallRow) -> bool:
    """Whether a kernel of which no call says what it computes may be one of a convolutional network."""
    return not _is_known(row) and CONVOLVES.match(f"{operator_of(row)} {row.kernel}".lower()) is not None


def _denied(topic: Topic, b: Breakdown, *unclear: float) -> Condition | None:
    """That *topic* does not hold, if shares of what is not understood are all too small to matter."""
    return Condition(topic, False, 0.0) if max(*unclear, _unknown(b)) < NOTEWORTHY else None


def _unknown(b: Breakdown, *, generated: bool = False) -> float:
    """
    The share of kernels of which the trace does not say what they compute: replays of graphs, operators of
    other libraries, whole layers that cuDNN computes at once. *generated*: and what a compiler fused.

    What no operator launched, as at the edge of a trace, is known by name where operators launch the same.
    """
    told = {r.kernel for r in b.calls if _is_known(r)}
    return share_of(
        r
        for r in b.calls
        if r.kind == "kernel"
        and r.phase != "optimizer"
        and not _is_known(r)
        and not (r.call is None and r.kernel in told)
        and not _is_collective(r)
        and (generated or not r.kernel.startswith(GENERATED))
    )


def _is_known(row: CallRow) -> bool:
    name = operator_of(row)
    return name.startswith("aten::") and not any(word in name for word in ("rnn", "lstm", "gru"))


def _is(call: Call | None, names: Sequence[str]) -> bool:
    return call is not None and call.operator in names


def _image_layout(call: Call | None) -> Layout | None:
    """The layout of a convolution over images that mixes channels; None of others, and where not known."""
    images = [] if call is None else [tensor for tensor in call.inputs if len(tensor.shape) == 4]
    if call is None or len(images) < 2:
        return None
    weight = images[-1].shape
    if weight[1] == 1 or (weight[2] == 1 and all(t.shape[2] == 1 for t in images)):
        return None
    return layout(images[0])


def _flat(shape: tuple[int, ...]) -> tuple[int, ...]:
    """*shape* as a batch of matrices."""
    return math.prod(shape[:-2]), *shape[-2:]


def _matrices(call: Call | None) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """The shapes of both factors and of the result of a batched product."""
    factors = [t.shape for t in call.inputs if len(t.shape) == 3][-2:] if call and _is(call, BATCHED) else []
    return (factors[0], factors[1], (*factors[0][:2], factors[1][2])) if len(factors) == 2 else None


def _has_both_products(rows: Iterable[CallRow], scores: tuple[int, ...]) -> bool:
    """Whether *rows* have, in the forward pass, a product that makes *scores* and one that takes them."""
    forward = [shapes for r in rows if r.phase == "forward" and (shapes := _matrices(r.call)) is not None]
    return any(result == scores for *_, result in forward) and any(first == scores for first, *_ in forward)


def _works_on(call: Call | None, flats: set[tuple[int, ...]]) -> bool:
    """Whether *call* makes, changes or uses scores of a shape in *flats*."""
    if call is None:
        return False
    shapes = _matrices(call)
    if shapes is not None:  # the backward pass has them the other way round, too
        return any(shape in flats or (shape[0], shape[2], shape[1]) in flats for shape in shapes)
    name = call.operator.removeprefix("aten::").rstrip("_")
    scores = any(len(t.shape) >= 3 and _flat(t.shape) in flats for t in call.inputs)
    return scores and (call.operator in SOFTMAX or name in ON_SCORES)


def _kind_of_update(row: CallRow) -> Literal["single", "listed", "fused"]:
    """Whether a kernel of the optimizer does one thing to one tensor, one to many, or all to many."""
    operator, kernel = operator_of(row), row.kernel.lower()
    if "fused" in operator.lower() or ("multi_tensor_apply" in kernel and "foreach" not in operator):
        return "fused"
    listed = "foreach" in operator or "foreach" in kernel
    return "listed" if listed else "fused" if "fused" in kernel else "single"
