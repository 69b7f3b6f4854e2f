"""The modules that move most of the bytes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from called import BF16
from hand_written_program import Program
from perfzero.attribute.breakdown import Breakdown, Row
from perfzero.attribute.conditions import conditions
from perfzero.attribute.counted import Counted, Figure
from perfzero.attribute.roofline import Roofline


def counted(moved: float) -> Counted:
    half = Figure(moved / 2, moved / 2, moved / 2)
    return Counted(dram_read_bytes=half, dram_write_bytes=half)


def moving(row: Row, moved: float, needs: float, error: float = 0.05) -> Row:
    reuse = moved / needs
    line = Roofline(
        compulsory_bytes=needs, reuse=reuse, reuse_low=reuse * (1 - error), reuse_high=reuse * (1 + error)
    )
    return replace(row, counted=counted(moved), roofline=line)


def breakdown(folder: Path, **modules: tuple[float, float]) -> Breakdown:
    """A breakdown in which *modules* moved so many bytes, and have to move so many."""
    program = Program(folder)
    for name in modules:
        program.run(name, f"aten::{name}", [[8, 8]], BF16)
    made = program.broken_down()
    alike = [replace(a, row=moving(a.row, *modules[a.row.name])) for a in made.alike]
    operators = [
        moving(row, *modules[row.name.removeprefix("aten::")]) for row in made.operators if row.time.gpu_ns
    ]
    total = sum(moved for moved, _ in modules.values())
    return replace(made, alike=tuple(alike), operators=tuple(operators), counted=counted(total))


def test_the_heaviest_are_named_with_their_share_and_what_they_have_to_move(tmp_path: Path) -> None:
    seen = conditions(
        breakdown(tmp_path, norm=(40.0, 24.0), relu=(30.0, 30.0), fc=(26.0, 52.0), little=(4.0, 4.0))
    )["traffic"]

    assert [(row.name, row.share, row.why) for row in seen.rows] == [
        ("norm", pytest.approx(0.4), "poor_reuse"),
        ("relu", pytest.approx(0.3), "streaming"),
        ("fc", pytest.approx(0.26), "from_l2"),
    ]
    assert seen.rows[0].number == pytest.approx(40 / 24)
    # The lower end of what norm moves beyond what it has to.
    assert seen.beside == pytest.approx((40 * 0.95 - 24) / 100)


def test_modules_that_move_less_than_a_twentieth_are_not_named(tmp_path: Path) -> None:
    seen = conditions(breakdown(tmp_path, fc=(88.0, 88.0), more=(7.0, 7.0), less=(4.0, 4.0)))["traffic"]

    assert [row.name for row in seen.rows] == ["fc", "more"]


def test_what_lies_between_or_is_not_known_is_named_without(tmp_path: Path) -> None:
    seen = conditions(breakdown(tmp_path, norm=(15.0, 10.0), fc=(10.0, math.nan)))["traffic"]

    assert [row.why for row in seen.rows] == ["", ""]
    assert seen.beside == pytest.approx((15 * 0.95 - 10) / 25)


def test_without_counters_or_where_nothing_stands_out_nothing_is_said(tmp_path: Path) -> None:
    even = breakdown(tmp_path, **{f"layer{chr(97 + n)}": (1.0, 1.0) for n in range(25)})
    uncounted = replace(even, counted=None)
    unknown = replace(even, counted=counted(math.nan))

    for one in (even, uncounted, unknown):
        assert "traffic" not in conditions(one)
