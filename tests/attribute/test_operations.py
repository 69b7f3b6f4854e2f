"""Floating-point operations from shapes, by the formulas of torch/utils/flop_counter.py."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from called import BF16, DOUBLE, FLOAT, HALF, call, tensor
from perfzero.attribute.breakdown import Call
from perfzero.attribute.operations import (
    arithmetic,
    gradients,
    multiplying,
    operations,
    reads_twice,
    uses_tensor_cores,
)
from perfzero.attribute.outputs import outputs
from perfzero.traces import Tensor

IMAGE, WEIGHTS, RESULT = (8, 64, 56, 56), (128, 64, 3, 3), (8, 128, 28, 28)
FORWARD = call("cudnn_convolution", tensor(*IMAGE), tensor(*WEIGHTS))
BACKWARD = call("convolution_backward", tensor(*RESULT), tensor(*IMAGE), tensor(*WEIGHTS))
OF_CONVOLUTION = 2 * 8 * 28 * 28 * 128 * 64 * 9


def alone(one: Call) -> float | None:
    """What is known of a call without any other."""
    return operations(one, outputs([one]))


# --- products


@pytest.mark.parametrize(
    ("operator", "shapes", "expected"),
    [
        ("mm", [(16, 32), (32, 8)], 2 * 16 * 32 * 8),
        ("addmm", [(8,), (16, 32), (32, 8)], 2 * 16 * 32 * 8),
        ("_addmm_activation", [(8,), (16, 32), (32, 8)], 2 * 16 * 32 * 8),
        ("bmm", [(4, 16, 32), (4, 32, 8)], 2 * 4 * 16 * 32 * 8),
        ("baddbmm", [(4, 16, 8), (4, 16, 32), (4, 32, 8)], 2 * 4 * 16 * 32 * 8),
        ("addbmm", [(16, 8), (4, 16, 32), (4, 32, 8)], 2 * 4 * 16 * 32 * 8),
        ("linear", [(2, 16, 32), (8, 32), (8,)], 2 * 2 * 16 * 32 * 8),
        ("_scaled_mm", [(16, 32), (32, 8), (), ()], 2 * 16 * 32 * 8),
        # What comes last is where a compiler wants the result.
        ("mm", [(16, 32), (32, 8), (16, 8)], 2 * 16 * 32 * 8),
        ("addmm", [(8,), (16, 32), (32, 8), (16, 8)], 2 * 16 * 32 * 8),
    ],
)
def test_a_product_takes_two_operations_for_each_multiplication(
    operator: str, shapes: list[tuple[int, ...]], expected: int
) -> None:
    assert alone(call(operator, *(tensor(*shape) for shape in shapes))) == expected


@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        ("mm", [(16, 32), (16, 8)]),  # do not fit
        ("mm", [(16, 32)]),
        ("bmm", [(4, 16, 32), (2, 32, 8)]),
        ("addmm", [(16, 32), (32, 8)]),  # one of three is missing
        ("_grouped_mm", [(16, 32), (4, 32, 8)]),
        ("my_operator", [(16, 32), (32, 8)]),
    ],
)
def test_of_shapes_that_do_not_fit_and_of_what_is_not_known_nothing_is_told(
    operator: str, shapes: list[tuple[int, ...]]
) -> None:
    assert alone(call(operator, *(tensor(*shape) for shape in shapes))) is None


def test_what_multiplies_nothing_has_no_operations_and_another_librarys_operator_is_not_known() -> None:
    one = tensor(8, 8)
    for operator in ("add_", "native_layer_norm", "_softmax", "_foreach_addcdiv_", "copy_", "sum"):
        assert alone(call(operator, one, one)) == 0
    assert alone(Call("flash_attn::add", (one, one))) is None


# --- convolutions


def test_a_convolution_has_the_result_that_its_backward_pass_shows() -> None:
    assert operations(FORWARD, outputs([FORWARD, BACKWARD])) == OF_CONVOLUTION
    assert operations(BACKWARD, outputs([FORWARD, BACKWARD])) == OF_CONVOLUTION


def test_without_a_backward_pass_or_with_two_strides_the_result_is_not_known() -> None:
    other = call("convolution_backward", tensor(8, 128, 56, 56), tensor(*IMAGE), tensor(*WEIGHTS))

    assert operations(FORWARD, outputs([FORWARD])) is None
    assert operations(FORWARD, outputs([FORWARD, BACKWARD, other])) is None


def test_a_line_goes_to_cudnn_as_an_image_of_one_row() -> None:
    line, weights, result = tensor(8, 64, 100), tensor(32, 64, 3), tensor(8, 32, 98)
    forward = call("cudnn_convolution", tensor(8, 64, 1, 100), tensor(32, 64, 1, 3))
    backward = call("convolution_backward", result, line, weights)

    assert operations(forward, outputs([forward, backward])) == 2 * 8 * 98 * 32 * 64 * 3
    assert alone(backward) == 2 * 8 * 98 * 32 * 64 * 3


def test_channels_that_fit_no_convolution_are_not_known() -> None:
    assert alone(call("convolution_backward", tensor(*RESULT), tensor(*IMAGE), tensor(128, 48, 3, 3))) is None
    assert alone(call("convolution_backward", tensor(*RESULT), tensor(*IMAGE), tensor(96, 64, 3, 3))) is None


def test_each_group_multiplies_its_own_channels() -> None:
    image, weights = tensor(8, 64, 56, 56), tensor(64, 1, 3, 3)
    depthwise = call("convolution_backward", tensor(8, 64, 56, 56), image, weights)

    assert alone(depthwise) == 2 * 8 * 56 * 56 * 64 * 9


def test_a_transposed_convolution_takes_each_weight_to_each_place_of_its_image() -> None:
    image, weights = tensor(8, 64, 28, 28), tensor(64, 128, 4, 4)
    backward = call("convolution_backward", tensor(8, 128, 56, 56), image, weights)

    assert alone(call("cudnn_convolution_transpose", image, weights)) == 2 * 8 * 28 * 28 * 64 * 128 * 16
    assert alone(backward) == 2 * 8 * 28 * 28 * 64 * 128 * 16


def test_where_channels_leave_the_direction_open_a_forward_call_tells_it_or_nothing_is_told() -> None:
    image, weights, result = tensor(8, 64, 56, 56), tensor(64, 64, 3, 3), tensor(8, 64, 28, 28)
    backward = call("convolution_backward", result, image, weights)
    forward = call("cudnn_convolution", image, weights)
    transposed = call("cudnn_convolution_transpose", image, weights)

    assert alone(backward) is None
    assert operations(backward, outputs([backward, forward])) == 2 * 8 * 28 * 28 * 64 * 64 * 9
    assert operations(backward, outputs([backward, transposed])) == 2 * 8 * 56 * 56 * 64 * 64 * 9
    assert operations(backward, outputs([backward, forward, transposed])) is None
    # With as many places on both sides it is the same number either way.
    even = call("convolution_backward", image, image, weights)
    assert alone(even) == 2 * 8 * 56 * 56 * 64 * 64 * 9


# --- attention


@pytest.mark.parametrize(
    ("operator", "query", "value"),
    [
        ("_cudnn_attention_forward", (2, 12, 128, 64), (2, 12, 256, 32)),
        ("_flash_attention_forward", (2, 128, 12, 64), (2, 256, 12, 32)),
        ("_efficient_attention_forward", (2, 128, 12, 64), (2, 256, 12, 32)),
    ],
)
def test_attention_makes_scores_and_uses_them(
    operator: str, query: tuple[int, ...], value: tuple[int, ...]
) -> None:
    key = (*value[:3], 64)
    scores = 2 * 2 * 12 * 128 * 256
    tensors = [tensor(*shape, dtype=BF16) for shape in (query, key, value)]

    assert alone(call(operator, *tensors)) == scores * (64 + 32)
    # Backward the scores once more, the gradients of scores and value, of query, and of key.
    backward = operator.replace("_forward", "_backward")
    assert alone(call(backward, tensors[0], *tensors)) == scores * (3 * 64 + 2 * 32)


def test_fewer_heads_of_key_and_value_spare_no_operations() -> None:
    query, shared = tensor(2, 12, 128, 64), tensor(2, 4, 128, 64)

    assert alone(call("_cudnn_attention_forward", query, shared, shared)) == 2 * 2 * 12 * 128 * 128 * 128


def test_of_packed_sequences_nothing_is_told() -> None:
    packed = tensor(1000, 12, 64)
    odd = tensor(2, 5, 128, 64)

    assert alone(call("_flash_attention_forward", packed, packed, packed)) is None
    assert alone(call("_cudnn_attention_forward", tensor(2, 12, 128, 64), odd, odd)) is None


# --- which kernel does it


def test_the_longest_kernel_that_multiplies_does_it_all() -> None:
    kernels = ["nchwToNhwcKernel", "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32", "Memset (Device)"]

    assert multiplying(FORWARD, kernels, [90, 50, 99]) == [0, 1, 0]


def test_a_call_of_helpers_alone_is_not_known() -> None:
    assert multiplying(FORWARD, ["nchwToNhwcKernel", "Memset (Device)"], [1, 1]) is None


DGRAD, WGRAD, GEMM = "sm90_xmma_dgrad_implicit_gemm", "sm90_xmma_wgrad_implicit_gemm", "nvjet_sm90_tst_NNN"


@pytest.mark.parametrize(
    ("kernels", "done", "made"),
    [
        ([DGRAD, WGRAD], [1, 1], (True, True)),
        ([DGRAD, WGRAD, WGRAD], [1, 0.5, 0.5], (True, True)),  # in two parts
        ([DGRAD, "cudnn::reduce_wgrad_nchw_helper", GEMM], [1, 0, 1], (True, True)),
        ([GEMM, GEMM, "cublasLt::splitKreduce_kernel"], [1, 1, 0], (True, True)),
        ([WGRAD, "nchwToNhwcKernel"], [1, 0], (False, True)),
        ([DGRAD], [1], (True, False)),
        ([GEMM], [1], None),  # one of the two, whichever
    ],
)
def test_the_kernels_of_a_backward_convolution_say_which_gradients_it_makes(
    kernels: list[str], done: list[float], made: tuple[bool, bool] | None
) -> None:
    found = multiplying(BACKWARD, kernels, [10] * len(kernels))

    assert found == done
    assert gradients(BACKWARD, kernels, found) == made


@pytest.mark.parametrize("kernels", [[GEMM] * 3, [DGRAD, GEMM, GEMM], ["my_kernel"], ["Memset (Device)"]])
def test_kernels_that_leave_it_open_tell_nothing(kernels: list[str]) -> None:
    assert multiplying(BACKWARD, kernels, [10] * len(kernels)) is None


# --- how often it reads


@pytest.mark.parametrize(
    ("norm", "kernel", "twice"),
    [
        ("native_batch_norm", "batch_norm_collect_statistics_channels_last_kernel", True),
        ("native_batch_norm", "batch_norm_transform_input_kernel", False),  # with running statistics
        ("cudnn_batch_norm", "cudnn::bn_fw_tr_1C11_kernel_NCHW", True),
        ("cudnn_batch_norm", "cudnn::bn_fw_tr_1C11_singleread", False),
        ("cudnn_batch_norm", "cudnn::bn_fw_inf_1C11_kernel_NCHW", False),
        ("cudnn_batch_norm_backward", "cudnn::bn_bw_1C11_kernel_new", True),
        ("cudnn_batch_norm_backward", "cudnn::bn_bw_1C11_singleread", False),
        ("native_batch_norm_backward", "batch_norm_backward_reduce_channels_last_kernel", True),
        ("native_layer_norm", "bn_fw_tr_1C11_kernel_NCHW", False),
    ],
)
def test_a_batch_norm_in_training_reads_twice_unless_a_channel_stays_in_an_sm(
    norm: str, kernel: str, twice: bool
) -> None:
    assert reads_twice(call(norm, tensor(8, 64, 32, 32)), ["Memset (Device)", kernel]) == twice


# --- in which type


@pytest.mark.parametrize(
    ("dtype", "kernel", "expected"),
    [
        (BF16, "anything", "bf16"),
        (HALF, "anything", "fp16"),
        ("c10::Float8_e4m3fn", "anything", "fp8"),
        (FLOAT, "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n", "tf32"),
        (FLOAT, "cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_32x3_tn_align4>", "tf32"),
        (FLOAT, "sm80_xmma_gemm_f32f32_f32f32_f32_nt_n", "fp32"),
        (FLOAT, "void sgemm_largek_lds64<true, false>", "fp32"),
        (FLOAT, "my_gemm", None),
        (DOUBLE, "anything", None),  # the tensor cores have twice the peak of the pipe
        ("", "anything", None),
    ],
)
def test_the_type_of_a_product_is_that_of_its_matrices_and_of_float32_as_the_kernel_says(
    dtype: str, kernel: str, expected: str | None
) -> None:
    one = call("addmm", tensor(8, dtype=FLOAT), tensor(8, 8, dtype=dtype), tensor(8, 8, dtype=dtype))

    assert arithmetic(one, kernel) == expected


def test_scales_of_rows_a_matrix_that_is_added_and_where_the_result_goes_may_be_of_another_type() -> None:
    one, other = tensor(64, 32, dtype="c10::Float8_e4m3fn"), tensor(32, 16, dtype="c10::Float8_e5m2")
    scaled = call("_scaled_mm", one, other, tensor(64, 1), tensor(1, 16))
    half = tensor(32, 32, dtype=BF16)

    assert arithmetic(scaled, "nvjet_qqtst_128x128") == "fp8"
    assert arithmetic(call("addmm", tensor(32, 32), half, half), "gemm") == "bf16"
    assert arithmetic(call("mm", half, half, tensor(32, 32)), "gemm") == "bf16"


def test_matrices_of_two_types_have_none() -> None:
    assert arithmetic(call("mm", Tensor((8, 8), (), BF16), Tensor((8, 8), (), FLOAT)), "gemm") is None


def test_a_name_of_both_kinds_says_neither() -> None:
    assert uses_tensor_cores("cutlass_simt_sgemm_128x64_tf32") is None


# --- as PyTorch counts, on a GPU


@pytest.fixture(scope="module")
def counted() -> list[dict[str, Any]]:
    """Of 130 cases what PyTorch counts, and the operators and kernels that ran (`fixtures/products`)."""
    path = Path(__file__).parents[1] / "fixtures" / "products" / "h200.json.gz"
    cases: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))
    assert len(cases) == 130
    return cases


def ours(case: dict[str, Any]) -> tuple[float | None, list[tuple[str, bool | None]]]:
    """The operations of all calls of a case, None if not known, and which kernels use the tensor cores."""
    made = [
        (Call(c["operator"], tuple(Tensor(tuple(s), tuple(st), d) for s, st, d in c["inputs"])), c["kernels"])
        for c in case["calls"]
    ]
    seen = outputs(one for one, _ in made)
    total, uses = 0.0, []
    for one, kernels in made:
        each = operations(one, seen)
        done = multiplying(one, [name for name, _ in kernels], [ns for _, ns in kernels]) if each else []
        if each is None or done is None:
            return None, []
        total += each * sum(done)
        uses += [
            (name, uses_tensor_cores(name)) for (name, _), part in zip(kernels, done, strict=False) if part
        ]
    return total, uses


def test_what_is_known_is_what_pytorch_counts(counted: list[dict[str, Any]]) -> None:
    """But in groups, where its count of the weights' gradient has all channels multiply all."""
    unknown = []
    for case in counted:
        total, _ = ours(case)
        if total is None:
            unknown.append(case["case"])
        elif "depthwise" in case["case"] or "groups" in case["case"]:
            assert total == 3 * case["flops"]["aten.convolution"], case["case"]
        else:
            assert total == sum(case["flops"].values()), case["case"]

    # cuDNN computes those by FFT and Winograd, in kernels that do not say what for.
    assert unknown == ["conv f32", "conv frozen f32"]


def test_names_of_kernels_tell_the_tensor_cores_of_the_type(counted: list[dict[str, Any]]) -> None:
    for case in counted:
        words = case["case"].split()
        if words[0] == "sdpa" or "depthwise" in words or "groups" in words or "gemv" in words:
            continue
        tensor_cores = "f32" not in words or words[-1] == "tf32"
        vector = any(size in words[2] for size in ("1x4096x", "x4096x1")) if words[0] == "mm" else False
        for name, uses in ours(case)[1]:
            if "f64" not in words and not (vector and words[-1] == "tf32"):
                assert uses == tensor_cores or (uses is None and "f32" not in words), (case["case"], name)


def test_depthwise_convolutions_run_beside_the_tensor_cores(counted: list[dict[str, Any]]) -> None:
    for case in counted:
        if "depthwise" in case["case"]:
            assert {uses for _, uses in ours(case)[1]} <= {False}, case["case"]
