"""What half as wide numbers leave of the time, by what each operator does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from called import BF16, DOUBLE, FLOAT
from hand_written_program import Program
from perfzero.attribute.conditions import conditions
from perfzero.attribute.narrower import BY_CHANNEL, KEPT, MOVED, ON_PIPE, ON_TENSOR_CORES, UNKNOWN_DOUBLE
from perfzero.attribute.parts import Condition, Topic
from perfzero.attribute.roofline import Ceilings

ROOFS = Ceilings({}, 4e12)
IN_TF32, IN_FP32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n", "ampere_sgemm_128x64_tn"
PIXELS, NUMBERS = [[64, 256, 56, 56], [256, 1, 3, 3]], [1 << 24]
MATRICES = [[4096, 1024], [1024, 1024]]


def seen(program: Program, topic: Topic, roofs: Ceilings | None = ROOFS) -> Condition | None:
    return conditions(replace(program.broken_down(), ceilings=roofs)).get(topic)


def mean(parts: list[tuple[float, tuple[float, float]]]) -> tuple[float, float]:
    whole = sum(us for us, _ in parts)
    least, most = (sum(us * left[end] for us, left in parts) / whole for end in (0, 1))
    return least, most


def test_in_16_bits_half_of_the_bytes_stay_and_products_have_twice_the_rate(tmp_path: Path) -> None:
    program = Program(tmp_path).run("gelu", "aten::gelu", [[4096, 1024]], FLOAT, us=300)
    program.run("fc", "aten::mm", MATRICES, FLOAT, us=100, kernel=IN_TF32)
    found = seen(program, "activations")

    assert found is not None
    assert (found.share, found.beside) == pytest.approx((0.75, 0.25))
    assert found.left == pytest.approx(mean([(300, MOVED), (100, ON_TENSOR_CORES)]))


@pytest.mark.parametrize(
    ("operator", "shapes", "kernel", "left"),
    [
        ("aten::mm", MATRICES, IN_FP32, ON_PIPE),
        ("aten::_conv_depthwise2d", PIXELS, "conv_depthwise2d_forward_kernel", BY_CHANNEL),
        ("aten::mm", MATRICES, IN_TF32, ON_TENSOR_CORES),
    ],
)
def test_what_a_product_gains_depends_on_where_it_runs(
    tmp_path: Path, operator: str, shapes: list[list[int]], kernel: str, left: tuple[float, float]
) -> None:
    program = Program(tmp_path).run("relu", "aten::relu", [[4096, 1024]], FLOAT, us=100)
    found = seen(program.run("fc", operator, shapes, FLOAT, us=100, kernel=kernel), "activations")

    assert found is not None
    assert found.left == pytest.approx(mean([(100, MOVED), (100, left)]))


def test_of_a_program_in_16_bits_nothing_is_to_be_gained(tmp_path: Path) -> None:
    program = Program(tmp_path).run("relu", "aten::relu", [[4096, 1024]], BF16)
    found = seen(program.run("fc", "aten::mm", MATRICES, BF16), "activations")

    assert found is not None
    assert (found.holds, found.left) == (False, None)


@pytest.mark.parametrize(
    ("operator", "left"),
    [
        ("native_layer_norm", KEPT),
        ("native_layer_norm_backward", KEPT),
        ("_fused_rms_norm", KEPT),
        ("native_group_norm", KEPT),
        ("_softmax", KEPT),
        ("_log_softmax_backward_data", KEPT),
        ("nll_loss_forward", KEPT),
        ("pow", KEPT),
        ("exp", KEPT),
        ("exp_", MOVED),  # in place it works on what it is given
        ("sum", KEPT),
        ("cumsum", KEPT),
        ("mean", MOVED),
        ("gelu_backward", MOVED),
        ("native_dropout", MOVED),
        ("cudnn_batch_norm", MOVED),
        ("native_batch_norm_backward", MOVED),
    ],
)
def test_what_autocast_leaves_in_float32_may_gain_nothing(
    tmp_path: Path, operator: str, left: tuple[float, float]
) -> None:
    """Norms of layers, softmax, losses and powers; a batch norm takes what it is given."""
    program = Program(tmp_path).run("block", f"aten::{operator}", [[4096, 1024]], FLOAT, us=300)
    found = seen(program.run("fc", "aten::mm", MATRICES, FLOAT, us=10, kernel=IN_TF32), "activations")

    assert found is not None
    assert found.left == pytest.approx(mean([(300, left), (10, ON_TENSOR_CORES)]))


ROOF_US = 1e6 * 2 * 8 * (1 << 24) / 4e12
"""A read and a write of 16 M doubles."""


def test_a_double_at_the_roof_moves_half_of_its_bytes_and_one_that_computes_may_take_little_more(
    tmp_path: Path,
) -> None:
    near, computes = 1.1 * ROOF_US, 4 * ROOF_US
    program = Program(tmp_path).run("market", "aten::neg", [NUMBERS], DOUBLE, strides=[[1]], us=near)
    program.run("market", "aten::exp", [NUMBERS], DOUBLE, strides=[[1]], us=computes)
    found = seen(program, "float64")

    assert found is not None
    assert found.left == pytest.approx(mean([(near, MOVED), (computes, (1 / 8, 0.5))]), rel=1e-4)


def test_of_doubles_whose_bytes_nobody_knows_little_is_promised(tmp_path: Path) -> None:
    program = Program(tmp_path).run("market", "aten::normal_", [NUMBERS], DOUBLE)
    found = seen(program.run("market", "aten::mm", MATRICES, DOUBLE), "float64")

    assert found is not None
    assert found.left == pytest.approx(UNKNOWN_DOUBLE)


def test_without_a_roof_no_double_is_known_to_be_near_it(tmp_path: Path) -> None:
    program = Program(tmp_path).run("a", "aten::neg", [NUMBERS], DOUBLE, strides=[[1]], us=ROOF_US)
    found = seen(program, "float64", None)

    assert found is not None
    assert found.left == pytest.approx(UNKNOWN_DOUBLE)


def test_what_is_float32_already_is_left_alone(tmp_path: Path) -> None:
    found = seen(Program(tmp_path).run("a", "aten::neg", [NUMBERS], FLOAT), "float64")

    assert found is not None
    assert (found.holds, found.left) == (False, None)
