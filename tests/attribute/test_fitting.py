"""What TF32 leaves of products of float32, by their shapes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from called import FLOAT
from hand_written_program import Program
from perfzero.attribute.conditions import conditions
from perfzero.attribute.fitting import FITS, REACHED
from perfzero.attribute.roofline import Ceilings

FP32 = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_stage3_warpsize4x2x1_ffma_aligna4"
CONVOLUTION = "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nhwc_tilesize128x128x8"
ROOFS = Ceilings({"tf32": 500e12}, 4e12)


def left(
    folder: Path, rows: int, inner: int, columns: int, us: float, roofs: Ceilings | None = ROOFS
) -> tuple[float, float] | None:
    strides = [[inner, 1], [columns, 1]]
    shapes = [[rows, inner], [inner, columns]]
    program = Program(folder).run("fc", "aten::mm", shapes, FLOAT, strides=strides, kernel=FP32, us=us)
    found = conditions(replace(program.broken_down(), ceilings=roofs)).get("tf32")
    assert found is not None
    return found.left


def test_large_products_that_fit_reach_what_such_products_reach(tmp_path: Path) -> None:
    us = 1e6 * 2 * 4096**3 / 500e12

    assert left(tmp_path, 4096, 4096, 4096, 2700) == pytest.approx([us / r / 2700 for r in reversed(FITS)])


def test_rows_of_an_odd_length_may_reach_less(tmp_path: Path) -> None:
    us = 1e6 * 2 * 4096**2 * 4095 / 500e12

    assert left(tmp_path, 4096, 4096, 4095, 2700) == pytest.approx([us / r / 2700 for r in reversed(REACHED)])


def test_none_is_faster_than_its_bytes_nor_slower_than_now(tmp_path: Path) -> None:
    bytes_us = 1e6 * 4 * (65536 * 64 + 64 * 1024 + 65536 * 1024) / 4e12

    assert left(tmp_path, 65536, 64, 1024, 400) == pytest.approx((bytes_us / 400, bytes_us / 400))
    assert left(tmp_path, 65536, 64, 1024, 60) == pytest.approx((1, 1))


@pytest.mark.parametrize("roofs", [None, Ceilings({}, 4e12)])
def test_without_a_roof_nothing_is_told(tmp_path: Path, roofs: Ceilings | None) -> None:
    assert left(tmp_path, 4096, 4096, 4096, 2700, roofs) is None


def test_of_convolutions_nothing_is_told(tmp_path: Path) -> None:
    shapes = [[64, 64, 56, 56], [64, 64, 3, 3]]
    program = Program(tmp_path).run(
        "conv", "aten::cudnn_convolution", shapes, FLOAT, kernel=CONVOLUTION, us=2000
    )
    found = conditions(replace(program.broken_down(), ceilings=ROOFS)).get("tf32")

    assert found is not None
    assert (found.holds, found.left) == (True, None)
