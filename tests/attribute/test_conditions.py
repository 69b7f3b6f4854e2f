"""What a look shows of the conditions that remedies rest on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from called import BF16, DOUBLE, FLOAT, HALF
from hand_written_look import ENGINE, Look
from hand_written_program import Program
from perfzero.attribute.conditions import conditions
from perfzero.attribute.fused_attention import ELSEWHERE
from perfzero.attribute.parts import Condition, Topic
from perfzero.attribute.tree import break_down

FP8, INT8 = "c10::Float8_e4m3fn", "c10::QInt8"
PLANAR, LAST = [200704, 3136, 56, 1], [200704, 1, 3584, 64]


def rows(shape: list[int]) -> list[int]:
    """The strides of a tensor without gaps, the last dimension the fastest."""
    return [math.prod(shape[place + 1 :]) for place in range(len(shape))]


def convolution(
    program: Program, strides: list[int], dtype: str = BF16, *, module: str = "conv1", **options: Any
) -> Program:
    image, weights = [8, 64, 56, 56], [64, 64, 3, 3]
    both = [strides, [576, 9, 3, 1]]
    return program.run(module, "aten::cudnn_convolution", [image, weights], dtype, strides=both, **options)


def test_convolutions_in_nchw_are_named_with_the_transposes_they_cost(tmp_path: Path) -> None:
    program = convolution(Program(tmp_path), PLANAR)
    program.run("conv1", "aten::x", [[1]], BF16, kernel="cudnn::nchwToNhwcKernel<float>", us=50)
    program.run("fc", "aten::y", [[1]], BF16, us=50)
    seen = program.seen("channels_last")

    assert seen is not None
    assert seen.holds
    assert [row.name for row in seen.rows] == ["conv1"]
    assert (seen.share, seen.beside) == (pytest.approx(0.5), pytest.approx(0.25))


def test_convolutions_in_channels_last_do_not_need_it(tmp_path: Path) -> None:
    seen = convolution(Program(tmp_path), LAST).seen("channels_last")

    assert seen == Condition("channels_last", False, 0)


def test_of_a_program_with_both_layouts_the_share_in_nchw_is_told(tmp_path: Path) -> None:
    program = convolution(Program(tmp_path), LAST, module="late", us=300)
    seen = convolution(program, PLANAR, module="early").seen("channels_last")

    assert seen is not None
    assert [row.name for row in seen.rows] == ["early"]
    assert seen.share == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("operator", "image", "weights"),
    [
        ("aten::cudnn_convolution", [32, 512, 1, 2000], [512, 512, 1, 3]),
        ("aten::_conv_depthwise2d", [32, 512, 14, 14], [512, 1, 7, 7]),
        ("aten::cudnn_convolution", [32, 512, 14, 14], [512, 1, 7, 7]),
    ],
)
def test_of_convolutions_in_one_dimension_or_channel_by_channel_nothing_is_said(
    tmp_path: Path, operator: str, image: list[int], weights: list[int]
) -> None:
    strides = [rows(image), rows(weights)]
    program = Program(tmp_path).run("conv", operator, [image, weights], BF16, strides=strides)

    assert program.seen("channels_last") is None


def test_transposes_without_a_convolution_in_nchw_leave_it_open(tmp_path: Path) -> None:
    program = convolution(Program(tmp_path), LAST)
    program.run("conv2", "aten::x", [[1]], BF16, kernel="cudnn::nchwToNhwcKernel<float>")

    assert program.seen("channels_last") is None


@pytest.mark.parametrize(
    "kernel",
    [
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80",
        "nvjet_sm90_tst_64x32_64x16_4x1_v_bz_splitK_bias_TNT",
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_stage3_warpsize4x2x1_ffma_aligna4",
        "loop_convert_multiply_fusion",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop",
    ],
)
def test_a_replay_in_which_nothing_convolves_does_not_need_channels_last(tmp_path: Path, kernel: str) -> None:
    """A decode loop in a CUDA graph has no operators, but kernels with names."""
    seen = Program(tmp_path).run("", "", [], BF16, kernel=kernel).seen("channels_last")

    assert seen == Condition("channels_last", False, 0)


@pytest.mark.parametrize(
    ("operator", "kernel", "dtype"),
    [
        ("", "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32", BF16),
        ("", "sm80_xmma_implicit_gemm_f16f16_f16f32_f32_tilesize128x128x32_stage3_warpsize2x2x1", BF16),
        ("", "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 128, true, 1, true>", BF16),
        ("", "triton_poi_fused_convolution_relu_0", BF16),
        ("mine::conv", "elses", BF16),
        ("aten::cudnn_convolution", "gemm", FLOAT),
    ],
)
def test_a_program_that_may_convolve_is_not_denied_it(
    tmp_path: Path, operator: str, kernel: str, dtype: str
) -> None:
    program = Program(tmp_path).run("", operator, [], dtype, kernel=kernel)

    assert program.run("fc", "aten::mm", [[512, 768], [768, 64]], BF16).seen("channels_last") is None


@pytest.mark.parametrize("operator", ["", "flash::custom_conv"])
def test_nothing_is_denied_of_a_program_that_the_trace_does_not_tell(tmp_path: Path, operator: str) -> None:
    """A replay has no operators, and what another library's compute is its own affair."""
    program = convolution(Program(tmp_path), LAST)
    program.run("fc", "aten::mm", [[512, 768], [768, 64]], BF16, kernel="gemm")
    program.run("other", operator, [], BF16, kernel="elses")
    look = break_down(program.look.trace(tmp_path))

    for topic in ("channels_last", "alignment", "fused_attention"):
        assert topic not in conditions(look)


@pytest.mark.parametrize(
    ("kernel", "optimizer"),
    [("ncclDevKernel_AllReduce", False), ("triton_poi_fused_add", False), ("adam", True)],
)
def test_what_is_sure_to_hold_no_product_leaves_nothing_open(
    tmp_path: Path, kernel: str, optimizer: bool
) -> None:
    program = convolution(Program(tmp_path), LAST)
    program.run("x", "elses::op", [[64]], BF16, kernel=kernel, optimizer=optimizer)

    assert program.seen("channels_last") == Condition("channels_last", False, 0)


def test_a_compiler_hides_of_what_type_activations_are(tmp_path: Path) -> None:
    program = Program(tmp_path).run("fc", "aten::mm", [[512, 768], [768, 64]], FLOAT)
    program.run("norm", "aten::native_layer_norm", [[16, 512, 768]], FLOAT)
    program.run("act", "CompiledFunction", [[64]], BF16, kernel="triton_poi_fused_add")

    assert program.seen("activations") is None


def test_what_was_launched_before_operators_were_recorded_is_known_by_its_kernel(tmp_path: Path) -> None:
    program = convolution(Program(tmp_path), LAST, kernel="conv")
    seen = program.run("conv1", "", [], BF16, kernel="conv").seen("channels_last")

    assert seen == Condition("channels_last", False, 0)


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE])
def test_without_convolutions_of_16_bits_nothing_is_said_of_layouts(tmp_path: Path, dtype: str) -> None:
    assert convolution(Program(tmp_path), PLANAR, dtype).seen("channels_last") is None


def test_a_layer_that_takes_next_to_nothing_is_no_reason(tmp_path: Path) -> None:
    program = convolution(Program(tmp_path), PLANAR, us=1)
    seen = program.run("fc", "aten::y", [[1]], BF16, us=999).seen("channels_last")

    assert seen is not None
    assert not seen.holds


@pytest.mark.parametrize(
    ("operator", "shapes", "length"),
    [
        ("mm", [[512, 768], [768, 50257]], 50257),
        ("mm", [[512, 768], [768, 50257], [512, 50257]], 50257),  # into the last
        ("bmm", [[16, 512, 765], [16, 765, 64]], 765),
        ("mm", [[512, 768], [768, 50304]], 0),
        ("addmm", [[3072], [512, 768], [768, 3072]], 0),
    ],
)
def test_a_product_with_a_size_that_is_no_multiple_of_8_is_named_with_it(
    tmp_path: Path, operator: str, shapes: list[Any], length: int
) -> None:
    seen = Program(tmp_path).run("head", f"aten::{operator}", shapes, BF16).seen("alignment")

    assert seen is not None
    assert seen.holds == bool(length)
    found = [(row.name, row.why, row.number) for row in seen.rows]
    assert found == ([("head", "unaligned", length)] if length else [])


@pytest.mark.parametrize(
    ("shapes", "strides"),
    [
        ([[1, 4096], [4096, 4096]], [[4096, 1], [1, 4096]]),
        ([[3072], [16377, 768], [768, 3072]], [[1], [768, 1], [1, 768]]),
        ([[768, 16377], [16377, 3072]], [[1, 768], [3072, 1]]),  # the gradient of the weights
        ([[512, 768], [768, 1]], [[768, 1], [1, 768]]),
    ],
)
def test_the_number_of_tokens_is_no_matter_of_alignment(
    tmp_path: Path, shapes: list[Any], strides: list[Any]
) -> None:
    operator = "aten::addmm" if len(shapes) == 3 else "aten::mm"
    program = Program(tmp_path).run("q", operator, shapes, BF16, strides=strides)
    seen = program.run("q", "aten::mm", shapes[-2:], BF16, strides=strides[-2:]).seen("alignment")

    assert seen == Condition("alignment", False, 0)


def test_a_row_of_an_odd_length_is_found_in_the_result_too(tmp_path: Path) -> None:
    shapes, strides = [[512, 768], [768, 50257]], [[768, 1], [1, 768]]
    seen = Program(tmp_path).run("head", "aten::mm", shapes, BF16, strides=strides).seen("alignment")

    assert seen is not None
    assert seen.holds


def test_without_strides_nothing_is_said_of_the_backward_pass(tmp_path: Path) -> None:
    program = Program(tmp_path).run("fc", "aten::mm", [[512, 768], [768, 64]], BF16)
    program.run("", "aten::mm", [[64, 511], [511, 768]], BF16, backward=True)

    assert program.seen("alignment") is None


def test_of_products_in_float32_alignment_is_not_told(tmp_path: Path) -> None:
    program = Program(tmp_path).run("head", "aten::mm", [[512, 767], [767, 9]], FLOAT)

    assert program.seen("alignment") is None


def attention(
    program: Program,
    *,
    queries: int = 1024,
    keys: int = 1024,
    module: str = "blocks.0",
    softmax: str = "",
) -> Program:
    """12 heads of 16 sequences, step by step: 600 us."""
    scores = [16, 12, queries, keys]
    program.run(module, "aten::bmm", [[192, queries, 64], [192, 64, keys]], BF16)
    program.run(module, "aten::masked_fill_", [scores, [1, 1, queries, keys]], FLOAT)
    program.run(softmax or module, "aten::_softmax", [scores], FLOAT, us=300)
    return program.run(module, "aten::bmm", [[192, queries, keys], [192, keys, 64]], BF16)


@pytest.mark.parametrize("keys", [1024, 1500])
def test_attention_step_by_step_is_told_by_its_scores_and_both_products(tmp_path: Path, keys: int) -> None:
    program = attention(Program(tmp_path), keys=keys)
    program.run("blocks.0", "aten::addmm", [[1024], [16384, 1024], [1024, 1024]], BF16, us=300)
    seen = program.run("", "aten::copy_", [[16, 1024, 1024]] * 2, BF16).seen("fused_attention")

    assert seen is not None
    assert seen.holds
    assert [(row.name, row.call and row.call.operator) for row in seen.rows] == [
        ("blocks.0", "aten::_softmax")
    ]
    assert seen.share == pytest.approx(0.6)  # neither the projections nor what is elsewhere
    assert seen.left == ELSEWHERE


def test_the_backward_pass_of_attention_counts_and_that_of_projections_does_not(tmp_path: Path) -> None:
    program = attention(Program(tmp_path))
    program.run("", "aten::bmm", [[192, 1024, 1024], [192, 1024, 64]], BF16, us=200, backward=True)
    program.run("", "aten::mm", [[1024, 1024], [1024, 1024]], BF16, us=200, backward=True)
    seen = program.seen("fused_attention")

    assert seen is not None
    assert seen.share == pytest.approx(0.8)


def test_a_softmax_may_be_a_module_of_its_own(tmp_path: Path) -> None:
    seen = attention(Program(tmp_path), softmax="blocks.0.softmax").seen("fused_attention")

    assert seen is not None
    assert [row.name for row in seen.rows] == ["blocks.0"]
    assert seen.share == pytest.approx(1)


def test_convolutions_on_square_images_are_no_attention(tmp_path: Path) -> None:
    """Not even beside a softmax over classes, or small attention."""
    program = Program(tmp_path)
    square = [[16, 12, 1024, 1024], [12, 12, 3, 3]]
    program.run("enc.0", "aten::cudnn_convolution", square, BF16, us=1000)
    program.run("", "aten::_softmax", square[:1], FLOAT, us=300)

    assert program.seen("fused_attention") is None

    attention(program, module="mid")
    program.run("mid", "aten::native_layer_norm", square[:1], FLOAT, us=100)
    seen = program.seen("fused_attention")

    assert seen is not None
    assert [row.name for row in seen.rows] == ["mid"]
    assert seen.share == pytest.approx(0.3)


def test_attention_in_a_module_and_in_the_one_above_counts_once(tmp_path: Path) -> None:
    program = attention(Program(tmp_path), softmax="blocks.0.softmax")
    seen = attention(program, module="blocks.0.cross").seen("fused_attention")

    assert seen is not None
    assert {row.name: row.share for row in seen.rows} == pytest.approx(
        {"blocks.0": 0.5, "blocks.0.cross": 0.5}
    )


def test_the_gradients_of_keys_and_values_are_products_of_turned_scores(tmp_path: Path) -> None:
    program = attention(Program(tmp_path), keys=1500)
    program.run("", "aten::bmm", [[192, 1500, 1024], [192, 1024, 64]], BF16, us=600, backward=True)
    seen = program.seen("fused_attention")

    assert seen is not None
    assert seen.share == pytest.approx(1)


@pytest.mark.parametrize("products", [[[192, 512, 64], [192, 64, 512]], [[192, 512, 512], [192, 512, 64]]])
def test_one_product_beside_a_softmax_does_not_make_it_attention(
    tmp_path: Path, products: list[list[int]]
) -> None:
    program = Program(tmp_path).run("mix", "aten::bmm", products, BF16)

    assert program.run("mix", "aten::_softmax", [[16, 12, 512, 512]], BF16).seen("fused_attention") is None


def test_attention_over_five_dimensions_is_left_open(tmp_path: Path) -> None:
    program = Program(tmp_path).run("pair", "aten::bmm", [[192, 512, 64], [192, 64, 512]], BF16)
    program.run("pair", "aten::_softmax", [[2, 8, 12, 512, 512]], BF16)
    program.run("pair", "aten::bmm", [[192, 512, 512], [192, 512, 64]], BF16)

    assert program.seen("fused_attention") is None


@pytest.mark.parametrize("queries", [1, 49])
def test_of_small_windows_nothing_is_said(tmp_path: Path, queries: int) -> None:
    assert attention(Program(tmp_path), queries=queries, keys=49).seen("fused_attention") is None


def test_of_a_compiled_program_it_is_not_known_how_attention_is_computed(tmp_path: Path) -> None:
    program = Program(tmp_path).run("blocks.0", "CompiledFunction", [[1]], BF16, kernel="triton_per_fused_0")
    assert program.seen("fused_attention") == Condition("fused_attention", False, 0)

    program.run("blocks.0", "aten::bmm", [[192, 1024, 1024], [192, 1024, 64]], BF16)
    assert program.seen("fused_attention") is None


def test_another_softmax_is_no_attention(tmp_path: Path) -> None:
    seen = Program(tmp_path).run("loss", "aten::_softmax", [[16384, 50304]], FLOAT).seen("fused_attention")

    assert seen == Condition("fused_attention", False, 0)


@pytest.mark.parametrize("shape", [[64, 10, 10], [4, 512, 1024], [8, 512, 512], [2, 16, 12, 256, 256]])
def test_a_softmax_that_may_be_one_leaves_it_open(tmp_path: Path, shape: list[int]) -> None:
    """Without the products of attention beside it, or with more dimensions than it is known with."""
    program = Program(tmp_path).run("x", "aten::bmm", [[9, 128, 64], [9, 64, 128]], FLOAT)

    assert program.run("x", "aten::_softmax", [shape], FLOAT).seen("fused_attention") is None


def test_attention_by_a_fused_kernel_needs_none(tmp_path: Path) -> None:
    name = "aten::_scaled_dot_product_flash_attention"
    seen = Program(tmp_path).run("blocks.0", name, [[16, 12, 1024, 64]], BF16).seen("fused_attention")

    assert seen == Condition("fused_attention", False, 0)


@pytest.mark.parametrize(
    ("operator", "kernel", "launches", "others", "holds"),
    [
        ("aten::add_", "add", 30, 20, True),
        ("aten::add_", "add", 20, 180, None),  # a tenth
        ("aten::add_", "add", 30, 700, False),  # a twenty-fifth
        ("aten::add_", "add", 3, 5, False),  # three a step
        ("aten::_foreach_add_", "multi_tensor_apply_kernel", 30, 20, None),
        ("aten::_fused_adamw_", "multi_tensor_apply_kernel", 30, 20, False),
        ("aten::_fused_adamw_", "multi_tensor_apply_kernel", 130, 20, True),  # in many groups
        ("aten::_fused_adamw_", "multi_tensor_apply_kernel", 130, 2000, False),
        ("aten::_foreach_add_", "multi_tensor_apply_kernel", 130, 20, True),
        ("aten::_foreach_add_", "multi_tensor_apply_kernel", 130, 2000, None),
        ("", "multi_tensor_apply_kernel<AdamFunctor>", 30, 20, False),
        ("", "multi_tensor_apply_kernel<AdamFunctor>", 130, 20, True),
        ("", "triton_for_fused_0", 130, 20, False),  # a compiler's, which knows no groups
    ],
)
def test_an_optimizer_that_launches_much_is_told_from_a_fused_one(
    tmp_path: Path, operator: str, kernel: str, launches: int, others: int, holds: bool | None
) -> None:
    program = Program(tmp_path)
    for _ in range(others // 20 or 1):
        program.run("fc", "aten::y", [[1]], BF16, us=1, launches=min(others, 20))
    program.run("", operator, [[64]], FLOAT, optimizer=True, launches=launches, us=5, kernel=kernel)
    seen = program.seen("fused_optimizer")

    assert (None if seen is None else seen.holds) == holds
    if seen is not None and seen.holds:
        assert [row.name for row in seen.rows] == ["optimizer"]
        in_groups = ("by_group", 130.0) if "fused" in operator or not operator else ("", 0.0)
        assert [(row.why, row.number) for row in seen.rows] == [in_groups]


@pytest.mark.parametrize(
    ("beside", "kernel", "us", "told"),
    [
        (0, "", 5, "by_group"),
        (64, "apply", 5, "by_group"),
        (66, "apply", 5, ""),
        (64, "triton_for_fused_0", 5, "by_group"),
        (66, "triton_for_fused_0", 5, None),  # a compiler's, which knows no groups
        (0, "", 15, None),
    ],
)
def test_an_optimizer_that_is_fused_and_launches_much_all_the_same_goes_group_by_group(
    tmp_path: Path, beside: int, kernel: str, us: float, told: str | None
) -> None:
    """Its kernels are short then: those of very many or very large tensors in one group are not."""
    program = Program(tmp_path).run("fc", "aten::y", [[1]], BF16, us=1, launches=20)
    for operator, launches, name in (
        ("aten::_fused_adamw_", 65, "multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>"),
        ("aten::_foreach_add_" if kernel == "apply" else "", beside, kernel),
    ):
        if launches:
            program.run("", operator, [[64]], FLOAT, optimizer=True, launches=launches, us=us, kernel=name)
    seen = program.seen("fused_optimizer")

    assert seen is not None
    assert seen.holds == (told is not None)
    assert [row.why for row in seen.rows] == ([] if told is None else [told])


@pytest.mark.parametrize(
    ("checks", "anys", "others", "holds"),
    [(45, 45, 140, True), (45, 90, 140, None), (3, 3, 140, None), (45, 0, 140, None)],
)
def test_results_that_are_asked_for_nan_one_by_one_are_told(
    tmp_path: Path, checks: int, anys: int, others: int, holds: bool | None
) -> None:
    """As anomaly detection does: isnan is `x != x`, then any, then a value read."""
    program = Program(tmp_path)
    program.run("fc", "aten::y", [[1]], BF16, us=200, launches=others)
    program.run("", "aten::ne", [[64], [64]], BF16, launches=checks, us=200)
    if anys:
        program.run("", "aten::any", [[64]], FLOAT, launches=anys, us=200)
    program.run("", "aten::_local_scalar_dense", [[1]], FLOAT, launches=checks, us=200)
    seen = program.seen("checks")

    assert (None if seen is None else seen.holds) == holds
    if seen is not None:
        assert seen.share == pytest.approx(3 * checks / (3 * checks + others))


TOKENS = [8, 1]


@pytest.mark.parametrize(
    ("shapes", "dtype", "holds"),
    [
        ([TOKENS, TOKENS], FLOAT, True),
        ([TOKENS, TOKENS], "double", True),
        ([[], []], BF16, True),
        ([TOKENS, TOKENS], "long int", None),
        ([TOKENS], "long int", None),  # with a number, which is no tensor
        ([TOKENS], FLOAT, None),
        ([TOKENS, [1]], FLOAT, None),
        ([], FLOAT, None),
    ],
)
def test_only_what_is_compared_with_itself_is_asked_for_nan(
    tmp_path: Path, shapes: list[list[int]], dtype: str, holds: bool | None
) -> None:
    """Not so tokens that are compared with the end of a text, of which is asked whether any goes on."""
    program = Program(tmp_path).run("fc", "aten::mm", [[8, 64], [64, 64]], BF16, launches=15)
    program.run("", "aten::ne", shapes, dtype).run("", "aten::any", [TOKENS], "bool")
    seen = program.run("", "aten::_local_scalar_dense", [[]], "bool").seen("checks")

    assert (None if seen is None else seen.holds) == holds


def anomaly_mode(folder: Path, gradients: list[list[int]], *, found: str, blocks: bool) -> Condition | None:
    """
    As PyTorch 2.14 checks the gradients of each operator, by its trace on a CPU; where `any` asks by several
    blocks, it sets memory for them beforehand. Answers in *found* are read.
    """
    look, at = Look(), 10.0
    for gradient in gradients:
        bf16 = {"shapes": [gradient, gradient], "types": [BF16, BF16]}
        for _ in range(4):
            look.op("aten::mm", at, at + 9, tid=ENGINE, **bf16)
            look.work("gemm", 4 * at, 4 * at + 20, at=at + 1, tid=ENGINE)
            at += 10
        look.op("aten::isnan", at, at + 10, tid=ENGINE, shapes=[gradient], types=[BF16])
        look.op("aten::ne", at + 1, at + 9, tid=ENGINE, **bf16)
        look.work("compare", 4 * at, 4 * at + 4, at=at + 2, tid=ENGINE)
        look.op("aten::_is_any_true", at + 10, at + 20, tid=ENGINE, shapes=[gradient], types=["bool"])
        look.op("aten::any", at + 11, at + 19, tid=ENGINE, shapes=[gradient], types=["bool"])
        if blocks:
            sets = look.launch(at + 12, tid=ENGINE, name="cudaMemsetAsync")
            look.kernel("Memset (Device)", 4 * at + 5, 4 * at + 6, correlation=sets, cat="gpu_memset")
        look.work("reduce", 4 * at + 8, 4 * at + 12, at=at + 14, tid=ENGINE)
        look.op("aten::item", at + 20, at + 30, tid=ENGINE, shapes=[[]], types=["bool"])
        look.op(found, at + 21, at + 29, tid=ENGINE, shapes=[[]], types=["bool"])
        copy = look.launch(at + 22, tid=ENGINE, name="cudaMemcpyAsync")
        look.kernel(
            "Memcpy DtoH (Device -> Pinned)", 4 * at + 16, 4 * at + 17, correlation=copy, cat="gpu_memcpy"
        )
        at += 40
    look.step(0, 0, at + 50)
    return conditions(break_down(look.trace(folder))).get("checks")


@pytest.mark.parametrize("blocks", [False, True])
def test_anomaly_detection_is_told_whatever_the_size_of_gradients(tmp_path: Path, blocks: bool) -> None:
    gradients = [[4096, 256], [256], [4096, 63]]
    seen = anomaly_mode(tmp_path, gradients, found="aten::_local_scalar_dense", blocks=blocks)

    assert seen is not None
    assert seen.share == pytest.approx(4 / 8 if blocks else 3 / 7)


def test_without_reading_the_answer_nothing_waits_for_it(tmp_path: Path) -> None:
    assert anomaly_mode(tmp_path, [[4096, 256]], found="aten::copy_", blocks=True) is None


def test_without_an_optimizer_nothing_is_said_of_it(tmp_path: Path) -> None:
    assert Program(tmp_path).run("fc", "aten::y", [[1]], BF16).seen("fused_optimizer") is None


@pytest.mark.parametrize(("dtype", "topic"), [(FLOAT, "half_precision"), (DOUBLE, "float64")])
def test_products_in_a_wide_type_are_named_by_operator(tmp_path: Path, dtype: str, topic: Topic) -> None:
    seen = Program(tmp_path).run("fc", "aten::mm", [[512, 768], [768, 64]], dtype).seen(topic)

    assert seen is not None
    assert seen.holds
    assert [row.name for row in seen.rows] == ["aten::mm"]


def test_calls_are_not_judged_by_others_of_the_same_operator(tmp_path: Path) -> None:
    """A router in float32, in a program that has all else in 16 bits."""
    program = Program(tmp_path).run("router", "aten::mm", [[4096, 64], [64, 8]], FLOAT, us=8)
    program.run("fc", "aten::mm", [[4096, 64], [64, 64]], BF16, us=4)
    seen = program.run("", "aten::mm", [[4096, 64], [64, 64]], BF16, us=388, backward=True).seen(
        "half_precision"
    )

    assert seen is not None
    assert seen.share == pytest.approx(0.02)


@pytest.mark.parametrize("topic", ["half_precision", "float64"])
def test_products_of_16_bits_are_in_no_wide_type(tmp_path: Path, topic: Topic) -> None:
    seen = Program(tmp_path).run("fc", "aten::mm", [[512, 768], [768, 64]], BF16).seen(topic)

    assert seen == Condition(topic, False, 0)


def test_a_program_without_products_says_nothing_of_their_precision(tmp_path: Path) -> None:
    assert Program(tmp_path).run("act", "aten::relu", [[512]], FLOAT).seen("half_precision") is None


@pytest.mark.parametrize(("products", "holds"), [(FLOAT, True), (BF16, False)])
def test_activations_are_in_float32_where_the_products_are_too(
    tmp_path: Path, products: str, holds: bool
) -> None:
    """Under autocast a norm works on float32 for its accuracy."""
    program = Program(tmp_path).run("norm", "aten::native_layer_norm", [[16, 512, 768]], FLOAT)
    seen = program.run("fc", "aten::mm", [[512, 768], [768, 64]], products).seen("activations")

    assert seen is not None
    assert seen.holds == holds
    assert [row.name for row in seen.rows] == (["norm"] if holds else [])


@pytest.mark.parametrize(
    ("operator", "dtype"),
    [
        ("aten::_scaled_mm", FP8),
        ("aten::_cudnn_rnn", FLOAT),
        ("quantized::conv2d", INT8),
        ("triton_mm", FLOAT),
        ("", FLOAT),
        ("aten::mm", BF16),
        ("aten::relu", FLOAT),
    ],
)
def test_activations_are_not_said_to_be_in_float32_where_all_products_are_not(
    tmp_path: Path, operator: str, dtype: str
) -> None:
    """Not even beside a product that is; and without one at all."""
    program = Program(tmp_path).run("norm", "aten::native_layer_norm", [[16, 512, 768]], FLOAT)
    if operator != "aten::relu":
        program.run("fc", "aten::mm", [[512, 768], [768, 64]], FLOAT)

    assert (
        program.run("x", operator, [[512, 768], [768, 64]], dtype, kernel="its").seen("activations") is None
    )


def test_of_products_alone_nothing_is_said_of_activations(tmp_path: Path) -> None:
    program = Program(tmp_path).run("fc", "aten::mm", [[512, 768], [768, 64]], FLOAT)

    assert program.seen("activations") is None


IMAGE = [[64, 256, 56, 56]]


def test_beside_chains_a_compiler_may_fuse_other_elementwise_operators(tmp_path: Path) -> None:
    """And nothing of which no trace says that it works on elements."""
    program = Program(tmp_path)
    for operator in ("aten::add", "aten::relu"):
        program.run("block", operator, IMAGE, FLOAT, strides=[rows(IMAGE[0])], us=100)
    program.run("fc", "aten::mm", [[64, 64]] * 2, FLOAT, us=100)
    program.run("act", "aten::gelu", IMAGE, FLOAT, us=100)
    program.run("norm", "elses::mul", IMAGE, FLOAT, us=100)
    seen = program.seen("chains")

    assert seen is not None
    assert seen.spared is not None
    assert (seen.share, seen.beside) == (pytest.approx(0.4), pytest.approx(0.2))
    # Of add and relu, 4 n together, the read goes at least, and all but 2 n at most.
    assert seen.spared == pytest.approx((1 / 4, 2 / 4))
    assert seen.left == pytest.approx((0.4 * 2 / 4 / 0.6, 1 - 0.4 / 4 / 0.6))


def test_of_chains_whose_bytes_are_not_known_all_or_nothing_may_go(tmp_path: Path) -> None:
    program = Program(tmp_path)
    for operator in ("aten::add", "aten::relu"):
        program.run("block", operator, IMAGE, FLOAT, us=100)
    seen = program.seen("chains")

    assert seen is not None
    assert (seen.spared, seen.left) == (None, (0, 1))


def beside(folder: Path, kernel: str) -> Condition | None:
    """A convolution by FFT of 100 us in each of two streams, and *kernel* in a third, all at once."""
    look = Look()
    look.step(0, 0, 1000)
    look.module("conv", "Conv2d", 0, 200)
    shapes, types = [[32, 64, 56, 56], [64, 16, 3, 3]], [HALF, HALF]
    look.op("aten::cudnn_convolution", 1, 190, shapes=shapes, types=types)
    look.work("void fft2d_r2c_32x32<__half>(float2*)", 300, 400, at=10)
    look.work("void fft2d_r2c_32x32<__half>(float2*)", 300, 400, at=20, stream=8)
    look.work(kernel, 300, 400, at=500, stream=9)
    return conditions(break_down(look.trace(folder))).get("slow_convolutions")


@pytest.mark.parametrize(
    ("kernel", "share"),
    [("another", 2 / 3), ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs<4>)", 1.0)],
)
def test_shares_of_kernels_that_run_at_once_are_of_what_they_take_in_turn(
    tmp_path: Path, kernel: str, share: float
) -> None:
    """Collectives need next to nothing of what the others share."""
    found = beside(tmp_path, kernel)

    assert found is not None
    assert found.share == pytest.approx(share)
