"""What products would take with aligned rows: between the roofs and what aligned ones reach."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from called import BF16, HALF
from hand_written_program import Program
from perfzero.attribute.aligning import REACHED
from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.conditions import conditions
from perfzero.attribute.parts import Condition
from perfzero.attribute.roofline import Ceilings

ROOFS = Ceilings({"bf16": 800e12}, 4e12)
ODD, EVEN = [[8192, 1024], [1024, 1025]], [[8192, 1024], [1024, 1024]]
FLOPS = 2 * 8192 * 1024 * 1025
MEMORY_US = 1e6 * 2 * (8192 * 1024 + 1024 * 1025 + 8192 * 1025) / 4e12
AT_LEAST_US = 1e6 * FLOPS / 800e12 * 1032 / 1025
PADDED = 1088 / 1025
"""Columns filled up to a multiple of 64."""


def product(program: Program, shapes: list[list[int]], us: float, *, module: str = "head") -> Program:
    strides = [[shapes[0][1], 1], [1, shapes[0][1]]]
    return program.run(module, "aten::mm", shapes, BF16, strides=strides, us=us)


def aligned(b: Breakdown, roofs: Ceilings | None = ROOFS) -> Condition:
    return conditions(replace(b, ceilings=roofs))["alignment"]


def test_products_take_what_aligned_ones_of_the_program_take_or_what_the_roofs_allow(tmp_path: Path) -> None:
    program = product(product(Program(tmp_path), ODD, 1000), EVEN, 100, module="layer")
    left = aligned(program.broken_down()).left
    as_the_other_us = 100 * 1025 / 1024 * PADDED + MEMORY_US

    assert left == pytest.approx((AT_LEAST_US / 1000, as_the_other_us / 1000), rel=1e-3)


def test_without_an_aligned_one_a_part_of_the_roof_is_supposed(tmp_path: Path) -> None:
    left = aligned(product(Program(tmp_path), ODD, 1000).broken_down()).left
    supposed_us = 1e6 * FLOPS / (REACHED * 800e12) * PADDED + MEMORY_US

    assert left == pytest.approx((AT_LEAST_US / 1000, supposed_us / 1000), rel=1e-3)


@pytest.mark.parametrize(
    ("shapes", "us", "dtype"),
    [
        ([[8192, 64], [64, 1024]], 100, BF16),  # the memory is its limit
        ([[1024, 1024], [1024, 1024]], 9, BF16),  # it is as short as a launch
        (EVEN, 400, HALF),
    ],
)
def test_products_that_say_nothing_of_the_tensor_cores_are_no_measure(
    tmp_path: Path, shapes: list[list[int]], us: float, dtype: str
) -> None:
    alone = aligned(product(Program(tmp_path), ODD, 1000).broken_down()).left
    program = product(Program(tmp_path), ODD, 1000)
    strides = [[shapes[0][1], 1], [1, shapes[0][1]]]
    program.run("layer", "aten::mm", shapes, dtype, strides=strides, us=us)

    assert aligned(program.broken_down()).left == alone


def test_a_product_that_would_be_as_short_as_a_launch_may_stay_as_it_is(tmp_path: Path) -> None:
    left = aligned(product(Program(tmp_path), [[64, 1024], [1024, 1025]], 50).broken_down()).left

    assert left is not None
    assert left[0] < 0.05
    assert left[1] == 1


def test_a_product_at_the_roof_stays_as_it_is(tmp_path: Path) -> None:
    assert aligned(product(Program(tmp_path), ODD, 20).broken_down()).left == (1, 1)


def test_without_roofs_or_counted_calls_nothing_is_told(tmp_path: Path) -> None:
    b = product(Program(tmp_path), ODD, 1000).broken_down()
    replayed = replace(b, calls=tuple(replace(row, launches=0) for row in b.calls))
    no_roofs = (None, Ceilings({}, 4e12), Ceilings({"bf16": 800e12}))

    assert [aligned(b, roofs).left for roofs in no_roofs] == [None, None, None]
    assert aligned(replayed).left is None
    assert aligned(replayed).holds


def test_a_gpt_with_50257_words_gains_what_50304_gained(tmp_path: Path) -> None:
    """16 sequences of 1,024 tokens in bf16 on an H200: steps of 44.5 ms became 19.0, 2.34 times as fast."""
    program = Program(tmp_path)
    for shapes, strides, us in (
        ([[16384, 768], [768, 50257]], [[768, 1], [1, 768]], 13351),
        ([[16384, 50257], [50257, 768]], [[50257, 1], [768, 1]], 9037),
        ([[50257, 16384], [16384, 768]], [[1, 50257], [768, 1]], 8438),
    ):
        program.run("head", "aten::mm", shapes, BF16, strides=strides, us=us)
    product(program, [[16384, 768], [768, 3072]], 112, module="up")
    left = aligned(program.broken_down(), Ceilings({"bf16": 894.8e12}, 4.31e12)).left

    assert left is not None
    least, most = (44.5 / (44.5 - 30.826 * (1 - part)) for part in reversed(left))
    assert 2.1 < least < 2.34 < most < 2.6
