"""
Whether what a remedy rests on is so in this program, as a look inside shows it.

From outside nobody sees layouts, shapes and types, so a remedy like channels-last can only be offered with
its condition. A trace shows them: the condition holds, with the layers of which it does and their share of
the GPU's busy time, or it does not. Where the trace has nothing of the kind in question, nothing is said.

    channels_last    convolutions on 16-bit tensors whose layout is NCHW; cuDNN computes these in NHWC, and
                     transposes its input and output where they are not (NVIDIA, "Convolutional Layers User's
                     Guide"; the kernels are called nchwToNhwc and nhwcToNchw)
    alignment        products of 16-bit matrices with a dimension that is no multiple of 8 (NVIDIA, "Matrix
                     Multiplication Background User's Guide")
    fused_attention  a softmax over scores of which the last two sizes are alike: attention step by step
    fused_optimizer  an optimizer that launches many kernels a step, and none of them fused
    activations      modules other than products and convolutions that work on float32, in a program whose
                     products do, too: under autocast norms work on it anyway
    half_precision   products and convolutions in float32
    float64          operators on double

Of attention step by step it is told how much faster the program may become, since what is left of it is known
well enough: `ATTENTION_LEFT`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from perfzero.attribute.breakdown import OPTIMIZER_ROW, Alike, Breakdown, Call, Row

Topic = Literal[
    "channels_last",
    "alignment",
    "fused_attention",
    "fused_optimizer",
    "activations",
    "half_precision",
    "float64",
]

NOTEWORTHY = 0.01
"""Of the busy time. What takes less is no reason for a remedy, and too much to be called none."""

MULTIPLE = 8
"""Elements of 16 bit: 16 bytes, the unit in which tensor cores are fed."""

LEAST_SCORES = 64
"""Sizes from which scores of attention are told from other square matrices, such as of a small head."""

ATTENTION_LEFT = (1 / 12, 1 / 2)
"""
Of the time of attention step by step, with a fused kernel: 1/9.4 in a GPT of 12 layers, 1,024 tokens and
heads of 64 on an H200 (110 and 47 ms a step), half to a quarter in FlashAttention's paper (Dao et al., 2022).
"""

MANY_LAUNCHES = 20
"""Of an optimizer's step. A fused or foreach one needs one kernel per some hundred tensors and operation."""

HALF = ("c10::BFloat16", "c10::Half")
MATRIX = ("aten::addmm", "aten::mm", "aten::bmm", "aten::baddbmm", "aten::addbmm", "aten::_scaled_mm")
SOFTMAX = ("aten::_softmax", "aten::_softmax_backward_data", "aten::_safe_softmax")
TRANSPOSES = ("nchwtonhwc", "nhwctonchw")


@dataclass(frozen=True, slots=True)
class Condition:
    """
    `holds`: it does, somewhere worth the remedy. `share`: of the busy time, in what it holds of; `rows`:
    that, the heaviest first. `beside`: what goes with it elsewhere, such as transposes between layouts.
    `speedup`: how many times faster the program may become with it, at least and at most, where known.
    """

    topic: Topic
    holds: bool
    share: float
    rows: tuple[Row, ...] = ()
    beside: float = 0.0
    speedup: tuple[float, float] | None = None


def conditions(breakdown: Breakdown) -> Mapping[Topic, Condition]:
    """What the look behind *breakdown* tells of each topic; those of which it tells nothing are not there."""
    told = (ask(breakdown) for ask in _ASKED)
    return MappingProxyType({one.topic: one for one in told if one is not None})


def _channels_last(b: Breakdown) -> Condition | None:
    convolutions = [a for a in b.alike if a.row.call is not None and a.row.call.layout is not None]
    halves = [a for a in convolutions if _dtype(a.row.call) in HALF]
    if not halves:
        return None
    planar = _rows(halves, lambda call: call.layout == "NCHW")
    transposes = sum(
        k.row.time.share for k in b.kernels if any(word in k.row.name.lower() for word in TRANSPOSES)
    )
    return _judged("channels_last", planar, beside=transposes)


def _alignment(b: Breakdown) -> Condition | None:
    products = [a for a in b.alike if _is(a.row.call, MATRIX) and _dtype(a.row.call) in HALF]
    return None if not products else _judged("alignment", _rows(products, _is_unaligned))


def _fused_attention(b: Breakdown) -> Condition | None:
    if _compiled(b):  # its kernels say no more what they compute
        return None
    softmax = [row for row in b.operators if row.name in SOFTMAX and row.call is not None]
    rows = [row for row in softmax if row.call is not None and _is_scores(row.call)]
    # The modules that work on scores, where they are modules of their own.
    modules = _rows(b.alike, _is_scores) if rows else []
    found = _judged("fused_attention", modules or rows)
    if not found.holds:
        return found
    least, most = ATTENTION_LEFT
    share = min(found.share, 1.0)
    return replace(found, speedup=(1 / (1 - share * (1 - most)), 1 / (1 - share * (1 - least))))


def _fused_optimizer(b: Breakdown) -> Condition | None:
    row = next(row for row in b.elsewhere if row.name == OPTIMIZER_ROW)
    if not row.time.launches or not b.steps:
        return None
    fused = row.call is not None and "fused" in row.call.operator
    many = row.time.launches / b.steps >= MANY_LAUNCHES
    return _judged("fused_optimizer", [row] if many and not fused else [])


def _activations(b: Breakdown) -> Condition | None:
    others = [
        a
        for a in b.alike
        if _dtype(a.row.call) and not _is(a.row.call, MATRIX) and not _is_convolution(a.row)
    ]
    if not others:
        return None
    heavy = [row for row in b.operators if _is(row.call, MATRIX) or _is_convolution(row)]
    halves = sum(row.time.share for row in heavy if _dtype(row.call) in HALF)
    wide = [] if halves >= NOTEWORTHY else _rows(others, lambda call: _dtype(call) == "float")
    return _judged("activations", wide)


def _half_precision(b: Breakdown) -> Condition | None:
    heavy = [row for row in b.operators if _is(row.call, MATRIX) or _is_convolution(row)]
    if not heavy:
        return None
    return _judged("half_precision", [row for row in heavy if _dtype(row.call) == "float"])


def _float64(b: Breakdown) -> Condition | None:
    known = [row for row in b.operators if _dtype(row.call)]
    return None if not known else _judged("float64", [row for row in known if _dtype(row.call) == "double"])


_ASKED: Sequence[Callable[[Breakdown], Condition | None]] = (
    _channels_last,
    _alignment,
    _fused_attention,
    _fused_optimizer,
    _activations,
    _half_precision,
    _float64,
)


def _judged(topic: Topic, rows: Sequence[Row], *, beside: float = 0.0) -> Condition:
    share = sum(row.time.share for row in rows)
    return Condition(topic, share >= NOTEWORTHY, share, tuple(rows), beside)


def _rows(alike: Iterable[Alike], wanted: Callable[[Call], bool]) -> list[Row]:
    return [a.row for a in alike if a.row.call is not None and wanted(a.row.call)]


def _is(call: Call | None, names: Sequence[str]) -> bool:
    return call is not None and call.operator in names


def _compiled(b: Breakdown) -> bool:
    """Whether a compiler has made kernels of its own that take a share of the time."""
    return sum(k.row.time.share for k in b.kernels if k.row.name.startswith("triton_")) >= NOTEWORTHY


def _is_convolution(row: Row) -> bool:
    return row.call is not None and "convolution" in row.call.operator


def _dtype(call: Call | None) -> str:
    """The type of a call's main input; empty where it is not known."""
    return "" if call is None or call.main is None else call.inputs[call.main].dtype


def _is_unaligned(call: Call) -> bool:
    matrices = [tensor.shape[-2:] for tensor in call.inputs if len(tensor.shape) >= 2]
    return any(size % MULTIPLE for shape in matrices for size in shape)


def _is_scores(call: Call) -> bool:
    main = call.inputs[call.main].shape if call.main is not None else ()
    return len(main) >= 3 and main[-1] == main[-2] >= LEAST_SCORES
