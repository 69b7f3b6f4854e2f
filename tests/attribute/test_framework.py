"""Which framework a program is in, by its operators, modules and kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from called import BF16
from hand_written_look import Look
from hand_written_program import Program
from perfzero.attribute.framework import framework
from perfzero.attribute.tree import break_down

GEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_stage3_warpsize4x2x1_ffma_aligna4"
AT = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        (["cupy_add__float32_float32_float32", GEMM], "cupy"),
        (["input_reduce_fusion_3", "wrapped_subtract_9", GEMM], "jax"),
        (["loop_convert_multiply_fusion"], "jax"),
        (["loop_fusion"], "jax"),
        (["cupy_mean", "loop_subtract_fusion"], "other"),
        ([GEMM], "other"),
        (["cudapy::__main__::add[abi:v1]"], "other"),
        (["my_loop_subtract_fusion", "copy_cupy_mean"], "other"),
        ([AT, "cupy_mean"], "pytorch"),  # a replay
        (["triton_poi_fused_add_0", GEMM], "pytorch"),
        ([], None),
    ],
)
def test_without_operators_the_kernels_say_it(
    tmp_path: Path, kernels: list[str], expected: str | None
) -> None:
    look = Look()
    look.step(0, 0, 1000)
    for place, name in enumerate(kernels):
        look.work(name, 10 * place + 10, 10 * place + 20, at=10 * place + 5)

    assert framework(break_down(look.trace(tmp_path))) == expected


def test_with_an_operator_or_a_module_it_is_pytorch_whatever_runs(tmp_path: Path) -> None:
    operator, module = Program(tmp_path), Program(tmp_path)
    operator.run("", "aten::add", [[8]], BF16, kernel="cupy_mean", optimizer=True)
    module.run("fc", "", [], BF16, kernel="cupy_mean")

    assert framework(operator.broken_down()) == framework(module.broken_down()) == "pytorch"
