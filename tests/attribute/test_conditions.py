"""What a look shows of the conditions that remedies rest on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hand_written_look import Look
from perfzero.attribute.conditions import Condition, Topic, conditions
from perfzero.attribute.tree import break_down

BF16, FLOAT, DOUBLE = "c10::BFloat16", "float", "double"
PLANAR, LAST = [200704, 3136, 56, 1], [200704, 1, 3584, 64]


class Program:
    """A step of 1000 us of one module after another, each with an operator and a kernel of 100 us."""

    def __init__(self, folder: Path) -> None:
        self.look, self.folder, self.at = Look(), folder, 10.0

    def run(
        self,
        module: str,
        operator: str,
        shapes: list[Any],
        dtype: str,
        *,
        strides: list[Any] | None = None,
        kernel: str = "kernel",
        us: float = 100.0,
        launches: int = 1,
        optimizer: bool = False,
    ) -> Program:
        look, at = self.look, self.at
        if optimizer:
            look.optimizer(at, at + 40)
        else:
            look.module(module, "Layer", at, at + 40)
        look.op(operator, at + 1, at + 39, shapes=shapes, types=[dtype] * len(shapes), strides=strides)
        for number in range(launches):
            start = 1000 + 200 * at + number * us
            look.work(kernel, start, start + us, at=at + 2 + number / 10)
        self.at += 50
        return self

    def seen(self, topic: Topic) -> Condition | None:
        self.look.step(0, 0, self.at + 50)
        return conditions(break_down(self.look.trace(self.folder))).get(topic)


def convolution(program: Program, strides: list[int], dtype: str = BF16, **options: Any) -> Program:
    image, weights = [8, 64, 56, 56], [64, 64, 3, 3]
    both = [strides, [576, 9, 3, 1]]
    return program.run("conv1", "aten::cudnn_convolution", [image, weights], dtype, strides=both, **options)


def test_convolutions_in_nchw_are_named_with_the_transposes_they_cost(tmp_path: Path) -> None:
    program = convolution(Program(tmp_path), PLANAR)
    program.run("conv1", "aten::x", [[1]], BF16, kernel="cudnn::nchwToNhwcKernel<float>", us=50)
    program.run("fc", "aten::y", [[1]], BF16, us=50)
    seen = program.seen("channels_last")

    assert seen is not None
    assert seen.holds
    assert [row.name for row in seen.rows] == ["conv1"]
    assert (seen.share, seen.beside) == (pytest.approx(0.75), pytest.approx(0.25))


def test_convolutions_in_channels_last_do_not_need_it(tmp_path: Path) -> None:
    seen = convolution(Program(tmp_path), LAST).seen("channels_last")

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
    ("shapes", "holds"),
    [
        ([[512, 768], [768, 50257]], True),
        ([[16, 512, 765], [16, 765, 64]], True),
        ([[512, 768], [768, 50304]], False),
        ([[3072], [512, 768], [768, 3072]], False),
    ],
)
def test_a_product_with_a_size_that_is_no_multiple_of_8_is_named(
    tmp_path: Path, shapes: list[Any], holds: bool
) -> None:
    seen = Program(tmp_path).run("head", "aten::mm", shapes, BF16).seen("alignment")

    assert seen is not None
    assert seen.holds == holds
    assert [row.name for row in seen.rows] == (["head"] if holds else [])


def test_of_products_in_float32_alignment_is_not_told(tmp_path: Path) -> None:
    program = Program(tmp_path).run("head", "aten::mm", [[512, 767], [767, 9]], FLOAT)

    assert program.seen("alignment") is None


def test_attention_step_by_step_is_told_by_its_scores(tmp_path: Path) -> None:
    program = Program(tmp_path).run("blocks.0", "aten::_softmax", [[16, 12, 1024, 1024]], BF16)
    seen = program.run("blocks.0", "aten::bmm", [[1, 8, 8], [1, 8, 8]], BF16).seen("fused_attention")

    assert seen is not None
    assert seen.holds
    assert [row.name for row in seen.rows] == ["blocks.0"]
    assert seen.share == pytest.approx(1.0)  # all that the module does
    assert seen.speedup == pytest.approx((2.0, 12.0))


def test_what_attention_leaves_bounds_the_gain(tmp_path: Path) -> None:
    program = Program(tmp_path).run("blocks.0", "aten::_softmax", [[16, 12, 1024, 1024]], BF16)
    seen = program.run("head", "aten::mm", [[512, 768], [768, 64]], BF16).seen("fused_attention")

    assert seen is not None
    assert seen.share == pytest.approx(0.5)
    assert seen.speedup == pytest.approx((4 / 3, 24 / 13))


def test_of_a_compiled_program_it_is_not_known_how_attention_is_computed(tmp_path: Path) -> None:
    program = Program(tmp_path).run("blocks.0", "CompiledFunction", [[1]], BF16, kernel="triton_per_fused_0")

    assert program.seen("fused_attention") is None


@pytest.mark.parametrize("shape", [[16384, 50304], [64, 10, 10], [4, 512, 1024]])
def test_another_softmax_is_no_attention(tmp_path: Path, shape: list[int]) -> None:
    seen = Program(tmp_path).run("loss", "aten::_softmax", [shape], FLOAT).seen("fused_attention")

    assert seen == Condition("fused_attention", False, 0)


def test_attention_by_a_fused_kernel_needs_none(tmp_path: Path) -> None:
    name = "aten::_scaled_dot_product_flash_attention"
    seen = Program(tmp_path).run("blocks.0", name, [[16, 12, 1024, 64]], BF16).seen("fused_attention")

    assert seen == Condition("fused_attention", False, 0)


@pytest.mark.parametrize(
    ("operator", "launches", "holds"),
    [("aten::add_", 30, True), ("aten::add_", 3, False), ("aten::_fused_adamw_", 30, False)],
)
def test_an_optimizer_that_launches_much_is_told_from_a_fused_one(
    tmp_path: Path, operator: str, launches: int, holds: bool
) -> None:
    program = Program(tmp_path).run("fc", "aten::y", [[1]], BF16)
    program.run("", operator, [[64]], FLOAT, optimizer=True, launches=launches, us=5)
    seen = program.seen("fused_optimizer")

    assert seen is not None
    assert seen.holds == holds


def test_without_an_optimizer_nothing_is_said_of_it(tmp_path: Path) -> None:
    assert Program(tmp_path).run("fc", "aten::y", [[1]], BF16).seen("fused_optimizer") is None


@pytest.mark.parametrize(("dtype", "topic"), [(FLOAT, "half_precision"), (DOUBLE, "float64")])
def test_products_in_a_wide_type_are_named_by_operator(tmp_path: Path, dtype: str, topic: Topic) -> None:
    seen = Program(tmp_path).run("fc", "aten::mm", [[512, 768], [768, 64]], dtype).seen(topic)

    assert seen is not None
    assert seen.holds
    assert [row.name for row in seen.rows] == ["aten::mm"]


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


def test_of_products_alone_nothing_is_said_of_activations(tmp_path: Path) -> None:
    program = Program(tmp_path).run("fc", "aten::mm", [[512, 768], [768, 64]], FLOAT)

    assert program.seen("activations") is None
