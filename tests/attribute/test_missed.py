"""Products and convolutions beside the tensor cores, and why. Kernels are named as on an H200."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from called import BF16, DOUBLE, FLOAT
from hand_written_program import Program
from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.conditions import conditions
from perfzero.attribute.counted import Counted, Figure
from perfzero.attribute.parts import Condition

FP32 = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_stage3_warpsize4x2x1_ffma_aligna4"
TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x256x32_warpgroupsize2x1x1"
HALF = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
VECTOR = "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>"
DEPTHWISE = "conv2d_c1_k1_nhwc_specialized"
GROUPED = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x64x8_stage3_warpsize1x2x1_ffma_aligna4"
FFT = "void fft2d_r2c_32x32<float, false, 1u, false>"

WIDE = [[4096, 768], [768, 768]]


def with_activity(breakdown: Breakdown, value: float) -> Breakdown:
    """*breakdown* in which each kernel was seen to keep the tensor cores so busy."""
    counted = Counted(tensor_active=Figure(value, value, value))
    kernels = tuple(replace(k, row=replace(k.row, counted=counted)) for k in breakdown.kernels)
    return replace(breakdown, kernels=kernels)


def test_float32_without_tf32_is_named(tmp_path: Path) -> None:
    program = Program(tmp_path).run("fc", "aten::mm", WIDE, FLOAT, kernel=FP32)
    seen = conditions(program.run("act", "aten::relu", [[4096, 768]], FLOAT).broken_down())

    for topic in ("tf32", "tensor_cores"):
        condition = seen[topic]  # type: ignore[index]
        assert condition.holds
        assert condition.share == pytest.approx(0.5)
        assert [row.name for row in condition.rows] == ["fc"]
    assert seen["tensor_cores"].rows[0].why == "tf32_off"


def test_in_tf32_or_16_bits_nothing_misses_the_tensor_cores(tmp_path: Path) -> None:
    seen = conditions(Program(tmp_path).run("fc", "aten::mm", WIDE, FLOAT, kernel=TF32).broken_down())
    half = conditions(Program(tmp_path).run("fc", "aten::mm", WIDE, BF16, kernel=HALF).broken_down())

    assert seen["tf32"] == Condition("tf32", False, 0)
    assert seen["tensor_cores"] == half["tensor_cores"] == Condition("tensor_cores", False, 0)
    assert "tf32" not in half


def test_convolutions_in_tf32_do_not_say_that_products_may_use_it(tmp_path: Path) -> None:
    """As by default in PyTorch: each has a switch of its own."""
    program = Program(tmp_path).run("fc", "aten::mm", WIDE, FLOAT, kernel=FP32)
    image = [[8, 64, 56, 56], [64, 64, 3, 3]]
    seen = program.run("conv", "aten::cudnn_convolution", image, FLOAT, kernel=TF32).seen("tf32")

    assert seen is not None
    assert [row.name for row in seen.rows] == ["fc"]


@pytest.mark.parametrize(
    ("operator", "shapes", "kernel", "dtype", "why"),
    [
        ("mm", [[4096, 4096], [4096, 1]], VECTOR, FLOAT, ("vector", 0)),
        ("mm", [[1, 4096], [4096, 4096]], VECTOR, FLOAT, ("vector", 0)),
        ("cudnn_convolution", [[8, 64, 56, 56], [64, 1, 3, 3]], DEPTHWISE, BF16, ("depthwise", 0)),
        ("cudnn_convolution", [[8, 64, 56, 56], [64, 16, 3, 3]], GROUPED, BF16, ("groups", 4)),
        (
            "convolution_backward", [[8, 64, 56, 56], [8, 64, 56, 56], [64, 1, 3, 3]],
            "wgrad2d_c1_k1_nhwc", BF16, ("depthwise", 0),
        ),
    ],
)  # fmt: skip
def test_other_reasons_are_named(
    tmp_path: Path, operator: str, shapes: list[Any], kernel: str, dtype: str, why: tuple[str, int]
) -> None:
    seen = Program(tmp_path).run("fc", f"aten::{operator}", shapes, dtype, kernel=kernel).seen("tensor_cores")

    assert seen is not None
    assert [(row.name, (row.why, row.number)) for row in seen.rows] == [("fc", why)]


def test_a_vector_beside_products_in_tf32_is_no_reason_to_allow_it(tmp_path: Path) -> None:
    program = Program(tmp_path).run("fc", "aten::mm", WIDE, FLOAT, kernel=TF32)
    seen = conditions(
        program.run("gate", "aten::mm", [[4096, 4096], [4096, 1]], FLOAT, kernel=VECTOR).broken_down()
    )

    assert seen["tf32"] == Condition("tf32", False, 0)
    assert [row.name for row in seen["tensor_cores"].rows] == ["gate"]


def test_beside_them_for_a_reason_that_is_not_known_nothing_is_said(tmp_path: Path) -> None:
    """TF32 is on, for another product uses it, and this one is no vector."""
    program = Program(tmp_path).run("fc", "aten::mm", WIDE, FLOAT, kernel=TF32)
    seen = conditions(program.run("odd", "aten::mm", WIDE, FLOAT, kernel=FP32).broken_down())

    assert seen["tf32"] == Condition("tf32", False, 0)
    assert "tensor_cores" not in seen


def test_a_name_that_says_nothing_is_told_by_what_was_counted(tmp_path: Path) -> None:
    breakdown = Program(tmp_path).run("fc", "aten::mm", WIDE, FLOAT, kernel="my_gemm").broken_down()
    idle, busy = (conditions(with_activity(breakdown, value)) for value in (0.002, 0.3))

    assert "tf32" not in conditions(breakdown)
    assert "tf32" not in conditions(with_activity(breakdown, math.nan))
    assert idle["tf32"].holds
    assert not busy["tf32"].holds


def test_a_name_that_counters_deny_says_nothing(tmp_path: Path) -> None:
    for kernel, activity in ((FP32, 0.3), (TF32, 0.002)):
        breakdown = Program(tmp_path).run("fc", "aten::mm", WIDE, FLOAT, kernel=kernel).broken_down()

        assert "tf32" not in conditions(with_activity(breakdown, activity))
        assert "tensor_cores" not in conditions(with_activity(breakdown, activity))


def test_float64_is_multiplied_by_tensor_cores_too_or_by_who_knows_what(tmp_path: Path) -> None:
    d884 = "void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x32_16x4_tn_align1>"
    seen = Program(tmp_path).run("fc", "aten::mm", WIDE, DOUBLE, kernel=d884).seen("tensor_cores")

    assert seen == Condition("tensor_cores", False, 0)
    assert Program(tmp_path).run("fc", "aten::mm", WIDE, DOUBLE, kernel="dgemm").seen("tensor_cores") is None


def test_a_convolution_whose_kernels_do_not_say_what_they_do_leaves_it_open(tmp_path: Path) -> None:
    shapes = [[8, 64, 56, 56], [8, 64, 56, 56], [64, 64, 3, 3]]
    program = Program(tmp_path).run("fc", "aten::mm", WIDE, FLOAT, kernel=TF32, us=900)
    program.run("conv", "aten::convolution_backward", shapes, FLOAT, kernel=FFT)
    program.run("conv", "aten::convolution_backward", shapes, FLOAT, kernel="fft_a", us=1)
    program.run("conv", "aten::convolution_backward", shapes, FLOAT, kernel="fft_b", us=1)
    seen = conditions(program.broken_down())

    assert "tf32" not in seen
    assert "tensor_cores" not in seen
