"""Modules whose kernels are shorter than their launches."""

from __future__ import annotations

from pathlib import Path

import pytest

from called import FLOAT
from hand_written_program import Program
from perfzero.attribute.conditions import conditions
from perfzero.attribute.tiny import MANY, TINY_NS

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


def test_long_kernels_few_of_them_and_those_of_the_optimizer_are_none(tmp_path: Path) -> None:
    long = Program(tmp_path).run("act", "aten::relu", SMALL, FLOAT, us=TINY_NS / 1000, launches=9)
    few = Program(tmp_path).run("act", "aten::relu", SMALL, FLOAT, us=2, launches=1)
    few.run("fc", "aten::mm", [[8, 64], [64, 8]], FLOAT, us=50, launches=5)
    adam = Program(tmp_path).run("fc", "aten::mm", [[8, 64], [64, 8]], FLOAT, us=50)
    adam.run("", "aten::add_", SMALL, FLOAT, us=2, launches=9, optimizer=True)

    assert MANY > 1 / 6
    for program in (long, few, adam):
        assert not {"tiny_kernels", "tiny_products"} & set(conditions(program.broken_down()))
