"""
Calls with inputs that no PyTorch makes, as a damaged or hostile trace may have them: nothing is raised.

What a table says of an operator's inputs is held against whatever inputs it is given. The twin is in each
example itself: a product beside the odd calls is told as ever.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hand_written_look import Look
from perfzero.attribute import operators
from perfzero.attribute.compulsory import BYTES
from perfzero.attribute.conditions import conditions
from perfzero.attribute.roofline import Ceilings
from perfzero.attribute.tree import break_down

NAMES = sorted(
    operators.MATRIX
    | operators.CONVOLUTION
    | operators.TRANSPOSED_CONVOLUTION
    | {operators.CONVOLUTION_BACKWARD, "_cdist_forward", "index_put", "conv2d"}
    | set(operators.ATTENTION_FORWARD)
    | set(operators.ATTENTION_BACKWARD)
    | operators.ELEMENTWISE
    | operators.NORMS
    | operators.COPY
    | {"max_pool2d_with_indices", "max_pool2d_with_indices_backward", "_foreach_add", "sum"}
)
KERNELS = (
    "sgemm", "conv_dgrad", "conv_wgrad", "batch_norm_backward_kernel", "batch_norm_collect_statistics",
    "layer_norm_grad_input", "triton_poi_fused", "Memcpy HtoD", "indexing_backward_kernel",
    "cdist_kernel<::one>", "nvjet", "softmax",
)  # fmt: skip

Inputs = list[tuple[list[int], list[int], str]]

LONGEST = 2**62 - 1
SIZE = st.sampled_from([0, 1, 1, 2, 3, 8, 64, 2**40, LONGEST])
SHAPE = st.one_of(st.lists(SIZE, max_size=5), st.just([LONGEST] * 16), st.just([2, 8, 4, 4]), st.just([8, 8]))
DTYPE = st.sampled_from(["float", "float", "c10::Half", *sorted(BYTES), "", "c10::Float8_e4m3fnuz"])


def contiguous(shape: list[int]) -> list[int]:
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(size, 1)
    return steps[::-1]


@st.composite
def tensor(draw: st.DrawFn) -> tuple[list[int], list[int], str]:
    shape = draw(SHAPE)
    steps = draw(st.one_of(st.just(contiguous(shape)), st.lists(SIZE, max_size=len(shape))))
    return shape, steps, draw(DTYPE)


CALL = st.tuples(
    st.sampled_from(NAMES), st.sampled_from(["", "", "_"]), st.lists(tensor(), max_size=8),
    st.lists(st.sampled_from(KERNELS), min_size=1, max_size=3),
)  # fmt: skip

ROW, COLUMN = ([1, 3], [3, 1], "float"), ([3, 1], [1, 1], "float")
NUMBER = ([], [], "float")
WEIGHTS, POINTS = ([8, 4, 3, 3], [36, 9, 3, 1], "float"), ([8, 3], [3, 1], "float")
EMPTY_WEIGHTS = ([8, 0, 3, 3], [0, 9, 3, 1], "float")


@settings(max_examples=60, deadline=None)
@given(st.lists(CALL, min_size=1, max_size=6), st.sampled_from([None, 60 << 20]))
@example([("sigmoid_backward", "", [ROW, COLUMN], ["triton_poi_fused"])] * 2, None)
@example([("cudnn_convolution", "", [WEIGHTS, EMPTY_WEIGHTS], ["sgemm"])], None)
@example([("_cdist_forward", "", [NUMBER, POINTS, POINTS], ["cdist_kernel<::one>"])], None)
def test_whatever_inputs_a_call_has_it_is_broken_down(
    calls: list[tuple[str, str, Inputs, list[str]]], l2_bytes: int | None
) -> None:
    look = Look()
    look.step(0, 0, 1000)
    look.module("", "Net", 0, 1000)
    for number, (name, end, inputs, kernels) in enumerate(calls):
        at = 100.0 * number
        shapes, strides, types = (
            (list(column) for column in zip(*inputs, strict=True)) if inputs else ([], [], [])
        )
        look.op(f"aten::{name}{end}", at, at + 90, shapes=shapes, strides=strides, types=types)
        for place, kernel in enumerate(kernels):
            look.work(kernel, at + 10 * place, at + 10 * place + 8, at=at + 10 * place)
    look.op("aten::mm", 900, 950, shapes=[[64, 32], [32, 16]], strides=[[32, 1], [16, 1]])
    look.work("gemm", 901, 911, at=901)

    with tempfile.TemporaryDirectory() as folder:
        found = break_down(look.trace(Path(folder)), l2_bytes=l2_bytes)
    conditions(found)
    conditions(replace(found, ceilings=Ceilings(dram=4e12)))

    product = next(k.row for k in found.kernels if k.row.name == "gemm")
    assert product.roofline.flops == 2 * 64 * 32 * 16
    for row in (*found.operators, *(k.row for k in found.kernels)):
        assert not math.isinf(row.roofline.flops)
        assert not math.isinf(row.roofline.compulsory_bytes)
    assert found.total.launches == 1 + sum(len(kernels) for *_, kernels in calls)
