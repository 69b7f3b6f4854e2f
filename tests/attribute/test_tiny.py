"""Modules whose kernels are shorter than their launches."""

from __future__ import annotations

from pathlib import Path

import pytest

from called import FLOAT
from hand_written_program import Program
from perfzero.attribute.conditions import conditions

SMALL = [[8, 64]]


def test_modules_of_short_kernels_are_named_with_their_launches_and_length(tmp_path: Path) -> None:
    program = Program(tmp_path).run("layers.0.act", "aten::relu", SMALL, FLOAT, us=2, launches=3)
    program.run("layers.1.act", "aten::relu", SMALL, FLOAT, us=4, launches=3)
    seen = program.run("head", "aten::mm", [[8, 64], [64, 8]], FLOAT, us=50, launches=2).seen("tiny_kernels")

    assert seen is not None
    assert seen.share == pytest.approx(6 / 8)
    assert [(row.name, row.share, row.why, row.number) for row in seen.rows] == [
        ("layers.*.act", pytest.approx(6 / 8), "tiny", pytest.approx(3000))
    ]


def test_where_most_are_products_a_graph_helps_and_no_compiler(tmp_path: Path) -> None:
    program = Program(tmp_path).run("fc", "aten::mm", [[8, 64], [64, 64]], FLOAT, us=3, launches=4)
    seen = conditions(program.run("act", "aten::relu", SMALL, FLOAT, us=2, launches=2).broken_down())

    assert "tiny_kernels" not in seen
    assert [row.name for row in seen["tiny_products"].rows] == ["fc", "act"]


@pytest.mark.parametrize(("us", "short"), [(9, True), (12, False)])
def test_short_is_half_of_what_the_fastest_host_needs_for_a_launch(
    tmp_path: Path, us: float, short: bool
) -> None:
    """18 us in eager PyTorch; the slowest needs 26, and with kernels of 12 us its GPU waits all the more."""
    program = Program(tmp_path).run("act", "aten::relu", SMALL, FLOAT, us=us, launches=9)

    assert (program.seen("tiny_kernels") is not None) is short


@pytest.mark.parametrize(("few", "told"), [(5, True), (3, False)])
def test_they_are_a_good_part_of_all_launches(tmp_path: Path, few: int, told: bool) -> None:
    """Of 20: of a quarter it is told."""
    program = Program(tmp_path).run("act", "aten::relu", SMALL, FLOAT, us=2, launches=few)
    program.run("fc", "aten::mm", [[8, 64], [64, 8]], FLOAT, us=50, launches=20 - few)

    assert (program.seen("tiny_kernels") is not None) is told


def test_a_module_with_next_to_no_launches_is_not_named(tmp_path: Path) -> None:
    program = Program(tmp_path).run("act", "aten::relu", SMALL, FLOAT, us=0.5, launches=150)
    program.run("loss", "aten::relu", SMALL, FLOAT, us=0.5, launches=1)
    few = program.run("head", "aten::relu", SMALL, FLOAT, us=0.5, launches=2).seen("tiny_kernels")

    assert few is not None
    assert [row.name for row in few.rows] == ["act", "head"]


def test_kernels_of_the_optimizer_are_none(tmp_path: Path) -> None:
    adam = Program(tmp_path).run("fc", "aten::mm", [[8, 64], [64, 8]], FLOAT, us=50)
    adam.run("", "aten::add_", SMALL, FLOAT, us=2, launches=9, optimizer=True)

    assert not {"tiny_kernels", "tiny_products"} & set(conditions(adam.broken_down()))
