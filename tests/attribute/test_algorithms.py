"""Convolutions for which cuDNN took a slow algorithm, by the names of their kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from called import FLOAT, HALF
from hand_written_program import Program
from perfzero.attribute.algorithms import LEFT
from perfzero.attribute.parts import Condition

IMAGE, WEIGHTS = [32, 64, 56, 56], [64, 16, 3, 3]


def seen(
    folder: Path, *kernels: str, dtype: str = HALF, operator: str = "aten::cudnn_convolution"
) -> Condition | None:
    program = Program(folder)
    for kernel in kernels:
        program = program.run("spread", operator, [IMAGE, WEIGHTS], dtype, us=50, kernel=kernel)
    return program.run("rest", "aten::mm", [[8, 8], [8, 8]], HALF, us=50).seen("slow_convolutions")


@pytest.mark.parametrize(
    "kernel",
    [
        "void fft2d_r2c_32x32<__half, false, 5u, false>(float2*, __half const*, int)",
        "void cudnn::cnn::im2col4d_kernel<__half, long>(cudnn::cnn::im2col4d_params)",
        "implicit_convolve_sgemm<__half, __half, 128, 5, 5, 3, 3, 3, 1, false>",
    ],
)
def test_a_slow_algorithm_is_named_with_its_layer_and_what_a_fast_one_leaves(
    tmp_path: Path, kernel: str
) -> None:
    found = seen(tmp_path, kernel)

    assert found is not None
    assert [row.name for row in found.rows] == ["spread"]
    assert found.share == pytest.approx(0.5)
    assert found.left == LEFT


def test_all_kernels_of_such_a_call_are_its_own(tmp_path: Path) -> None:
    found = seen(tmp_path, "void fft2d_r2c_32x32<__half>(float2*)", "volta_gcgemm_32x32_nt")

    assert found is not None
    assert found.share == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("kernel", "dtype", "operator"),
    [
        ("sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc", HALF, "aten::cudnn_convolution"),
        ("void conv2d_grouped_direct_kernel<__half>(int)", HALF, "aten::cudnn_convolution"),
        ("void shift_fft_like<__half>(int)", HALF, "aten::mul"),  # no convolution
        ("void fft2d_r2c_32x32<float>(float2*)", FLOAT, "aten::cudnn_convolution"),  # may be the best
    ],
)  # fmt: skip
def test_other_kernels_types_and_operators_are_left_alone(
    tmp_path: Path, kernel: str, dtype: str, operator: str
) -> None:
    assert seen(tmp_path, kernel, dtype=dtype, operator=operator) is None
