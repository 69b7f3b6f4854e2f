"""Products and convolutions beside the tensor cores, and why. Kernels are named as on an H200."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from called import BF16, DOUBLE, FLOAT
from hand_written_look import Look
from hand_written_program import Program
from perfzero.attribute.breakdown import Breakdown, CallRow
from perfzero.attribute.conditions import conditions
from perfzero.attribute.counted import Counted, Figure
from perfzero.attribute.missed import tensor_cores, tf32
from perfzero.attribute.parts import Condition
from perfzero.attribute.tree import break_down

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


def kernels_alone(folder: Path, *names: str) -> Breakdown:
    """A step of a program of which no operators were recorded."""
    look = Look()
    look.step(0, 0, 1000)
    for place, name in enumerate(names):
        look.work(name, 100 * place + 10, 100 * place + 110, at=100 * place + 5)
    return break_down(look.trace(folder))


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


CONVOLUTION = [[8, 64, 56, 56], [64, 64, 3, 3]]
FP32_CONVOLUTION = "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize128x128x8_ffma"
TF32_CONVOLUTION = "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32"


def test_the_family_whose_switch_is_off_is_told(tmp_path: Path) -> None:
    """Of one module with both, each is a part by itself."""
    program = Program(tmp_path).run("fc", "aten::mm", WIDE, FLOAT, kernel=TF32)
    program.run("conv", "aten::cudnn_convolution", CONVOLUTION, FLOAT, kernel=FP32_CONVOLUTION)
    one = program.seen("tf32")
    program = Program(tmp_path).run("both", "aten::mm", WIDE, FLOAT, kernel=FP32)
    program.run("both", "aten::cudnn_convolution", CONVOLUTION, FLOAT, kernel=FP32_CONVOLUTION, us=50)
    two = program.seen("tf32")

    assert one is not None
    assert two is not None
    assert [(row.name, row.why) for row in one.rows] == [("conv", "convolution_tf32_off")]
    assert [(row.name, row.why) for row in two.rows] == [
        ("both", "tf32_off"),
        ("both", "convolution_tf32_off"),
    ]


@pytest.mark.parametrize(
    ("off", "on", "why"),
    [
        (FP32, TF32, "tf32_off"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>", TF32, "tf32_off"),
        (FP32, "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4>", "tf32_off"),
        (FP32_CONVOLUTION, TF32_CONVOLUTION, "convolution_tf32_off"),
        (
            FP32_CONVOLUTION, "cutlass_tensorop_s1688fprop_optimized_tf32_256x64_16x4_nhwc_align4",
            "convolution_tf32_off",
        ),
    ],
)  # fmt: skip
def test_without_operators_the_kernels_names_say_it(tmp_path: Path, off: str, on: str, why: str) -> None:
    """As in CuPy and JAX, and in replays."""
    seen = conditions(kernels_alone(tmp_path, off)).get("tf32")
    both = conditions(kernels_alone(tmp_path, off, on)).get("tf32")

    assert seen is not None
    assert [(row.name, row.why, row.share) for row in seen.rows] == [(off, why, 1)]
    assert both == Condition("tf32", False, 0)


@pytest.mark.parametrize("kernel", [HALF, VECTOR, "my_gemm", "cupy_add__float32_float32_float32"])
def test_without_operators_other_names_say_nothing(tmp_path: Path, kernel: str) -> None:
    seen = conditions(kernels_alone(tmp_path, kernel))

    assert not {"tf32", "tensor_cores"} & set(seen)


def test_a_network_of_thousands_of_layers_is_judged_in_less_than_a_second(tmp_path: Path) -> None:
    one = Program(tmp_path).run("fc", "aten::mm", WIDE, FLOAT, kernel=FP32).broken_down()
    [row] = one.calls
    rows: tuple[CallRow, ...] = tuple(replace(row, module=f"fc{i}", share=1 / 2000) for i in range(2000))
    many = replace(one, calls=rows)
    start = time.process_time()
    told = [tf32(many), tensor_cores(many)]

    assert time.process_time() - start < 1
    assert [condition is not None and condition.share for condition in told] == pytest.approx([1, 1])


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
        ("cudnn_convolution", [[8, 64, 56, 56], [64, 16, 3, 3]], GROUPED, BF16, ("groups", 4)),
    ],
)  # fmt: skip
def test_other_reasons_are_named(
    tmp_path: Path, operator: str, shapes: list[Any], kernel: str, dtype: str, why: tuple[str, int]
) -> None:
    seen = Program(tmp_path).run("fc", f"aten::{operator}", shapes, dtype, kernel=kernel).seen("tensor_cores")

    assert seen is not None
    assert [(row.name, (row.why, row.number)) for row in seen.rows] == [("fc", why)]


@pytest.mark.parametrize(
    ("operator", "shapes", "kernel"),
    [
        ("cudnn_convolution", [[8, 64, 56, 56], [64, 1, 3, 3]], DEPTHWISE),
        ("convolution_backward", [[8, 64, 56, 56], [8, 64, 56, 56], [64, 1, 3, 3]], "wgrad2d_c1_k1_nhwc"),
    ],
)
def test_convolutions_channel_by_channel_have_nothing_for_the_tensor_cores(
    tmp_path: Path, operator: str, shapes: list[Any], kernel: str
) -> None:
    seen = Program(tmp_path).run("fc", f"aten::{operator}", shapes, BF16, kernel=kernel).seen("tensor_cores")

    assert seen is None or not seen.holds


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
    idle, busy = (conditions(with_activity(breakdown, value)) for value in (0.002, 0.05))

    assert "tf32" not in conditions(breakdown)
    assert "tf32" not in conditions(with_activity(breakdown, math.nan))
    assert idle["tf32"].holds
    assert not busy["tf32"].holds  # the least of the convolutions of a ResNet-50 on an H200


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
