"""Operators with a way round that is many times faster, and what that leaves of their time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from called import FLOAT, HALF
from hand_written_program import Program
from perfzero.attribute.conditions import conditions
from perfzero.attribute.parts import Condition, Topic
from perfzero.attribute.roofline import Ceilings
from perfzero.attribute.roundabout import ADDED, ATOMIC, PIECE, STREAMED

ROOFS = Ceilings({}, 4e12)
SERIAL = "void (anonymous namespace)::indexing_backward_kernel<float, 4>(long const*, long const*)"
PAIRS = "void at::native::(anonymous namespace)::cdist_kernel_cuda_impl<float, dists<float>::one>(float*)"
TABLE, ROWS = [100, 64], [1_000_000, 64]
BYTES = 4 * 64 * 1_000_100
NOW_US = 7410.0


def ran(
    folder: Path, operator: str, shapes: list[Any], us: float, kernel: str, dtype: str = FLOAT, **more: Any
) -> Program:
    program = Program(folder).run("table", operator, shapes, dtype, us=us, kernel=kernel, **more)
    return program.run("rest", "aten::mm", [[8, 8], [8, 8]], FLOAT, us=us)


def seen(program: Program, topic: Topic, roofs: Ceilings | None = ROOFS) -> Condition | None:
    return conditions(replace(program.broken_down(), ceilings=roofs)).get(topic)


def gradient(folder: Path, us: float = NOW_US, kernel: str = SERIAL, dtype: str = FLOAT) -> Program:
    return ran(folder, "aten::_index_put_impl_", [TABLE, ROWS], us, kernel, dtype)


def test_a_gradient_that_adds_equal_indices_in_a_row_leaves_atomic_additions(
    tmp_path: Path,
) -> None:
    found = seen(gradient(tmp_path), "serial_gradient")
    roof_us = 1e6 * BYTES / 4e12

    assert found is not None
    assert [row.name for row in found.rows] == ["table"]
    assert found.share == pytest.approx(0.5)
    assert found.left == pytest.approx((roof_us / ADDED / NOW_US, roof_us / ATOMIC / NOW_US))


def test_one_that_takes_little_longer_may_be_added_up_in_pieces_at_the_roof(tmp_path: Path) -> None:
    us = 1500.0
    found = seen(gradient(tmp_path, us), "serial_gradient")
    roof_us = 1e6 * BYTES / 4e12

    assert found is not None
    assert found.left is not None
    assert found.left[0] == pytest.approx((roof_us + us / PIECE) / us)
    assert found.left[0] < roof_us / ADDED / us


def test_short_numbers_take_as_long_to_add_as_long_ones_or_go_in_pairs(tmp_path: Path) -> None:
    found = seen(gradient(tmp_path, dtype=HALF), "serial_gradient")
    roof_us = 1e6 * BYTES / 4e12

    assert found is not None
    assert found.left == pytest.approx((roof_us / 2 / ADDED / NOW_US, roof_us / ATOMIC / NOW_US))


def test_one_number_for_all_is_read_once(tmp_path: Path) -> None:
    """The gradient of a sum has no bytes of its own, yet each number of it is added."""
    strides = [[64, 1], [0, 0]]
    program = ran(tmp_path, "aten::_index_put_impl_", [TABLE, ROWS], NOW_US, SERIAL, strides=strides)
    found = seen(program, "serial_gradient")

    assert found is not None
    assert found.left is not None
    assert found.left[0] == pytest.approx(1e6 * BYTES / ADDED / 4e12 / NOW_US)
    assert found.left[1] == pytest.approx(1e6 * BYTES / ATOMIC / 4e12 / NOW_US)


@pytest.mark.parametrize(("us", "kernel"), [(1000.0, SERIAL), (NOW_US, "index_put_kernel")])
def test_a_gradient_with_hardly_an_index_twice_or_without_sums_has_no_way_round(
    tmp_path: Path, us: float, kernel: str
) -> None:
    assert seen(gradient(tmp_path, us, kernel), "serial_gradient") is None


def test_without_a_roof_or_shapes_nothing_is_told(tmp_path: Path) -> None:
    unknown = ran(tmp_path, "aten::_index_put_impl_", [], NOW_US, SERIAL)

    assert seen(gradient(tmp_path), "serial_gradient", None) is None
    assert seen(unknown, "serial_gradient") is None


def test_distances_leave_the_points_and_distances_or_all_differences(tmp_path: Path) -> None:
    """7,200 x 600 pairs of 4 numbers."""
    shapes, us = [[7200, 4], [600, 4]], 5000.0
    found = seen(ran(tmp_path, "aten::_cdist_forward", shapes, us, PAIRS), "pairwise")
    points, pairs = 4 * 4 * 7800, 7200 * 600
    least_us = 1e6 * (points + 4 * pairs) / 4e12
    most_us = 1e6 * (points + 4 * 17 * pairs) / STREAMED / 4e12

    assert found is not None
    assert found.left == pytest.approx((least_us / us, most_us / us))


def test_distances_of_another_kind_are_left_alone(tmp_path: Path) -> None:
    """Another sum than that of magnitudes is another formula."""
    kernel = PAIRS.replace("::one", "::two")

    assert (
        seen(ran(tmp_path, "aten::_cdist_forward", [[7200, 4], [600, 4]], 5000, kernel), "pairwise") is None
    )


@pytest.mark.parametrize(
    ("shapes", "us"), [([[7200, 4], [600, 4]], 100.0), ([[7200, 4], [600, 5]], 5000.0), ([[7200, 4]], 5000.0)]
)
def test_distances_that_are_fast_or_not_understood_have_no_way_round(
    tmp_path: Path, shapes: list[Any], us: float
) -> None:
    assert seen(ran(tmp_path, "aten::_cdist_forward", shapes, us, PAIRS), "pairwise") is None


def test_a_table_of_100_rows_gains_what_index_select_gained(tmp_path: Path) -> None:
    """A million look-ups on an H200: steps of 9.07 ms, 7.41 in the gradient, became 4.29 times as fast."""
    found = seen(gradient(tmp_path), "serial_gradient", Ceilings({}, 4.31e12))

    assert found is not None
    assert found.left is not None
    least, most = (9.07 / (9.07 - 7.41 * (1 - part)) for part in reversed(found.left))
    assert 2.7 < least < 4.29 < most < 4.5
