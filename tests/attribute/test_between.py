"""Kernels that multiply nothing and reach no roof, for which tensor cores wait."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from called import BF16
from hand_written_program import Program
from perfzero.attribute.between import between
from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.roofline import Roofline

NEAR, FAR = Roofline(roof=0.9, limit="dram"), Roofline(roof=0.3, limit="dram")


def program(folder: Path, operator: str, place: Roofline, *, kernel: str = "it") -> Breakdown:
    """A kernel of *operator*, which stands under the roof at *place*, and a product as long at its own."""
    run = Program(folder).run("m", operator, [[64, 64], [64, 64]], BF16, kernel=kernel)
    b = run.run("product", "aten::mm", [[64, 64], [64, 64]], BF16, kernel="nvjet").broken_down()
    places = {kernel: place, "nvjet": Roofline(roof=0.8, limit="compute")}
    return replace(
        b,
        kernels=tuple(replace(k, row=replace(k.row, roofline=places[k.row.name])) for k in b.kernels),
    )


def test_elementwise_kernels_at_no_roof_are_named_with_their_share(tmp_path: Path) -> None:
    found = between(program(tmp_path, "aten::mul", FAR))

    assert found is not None
    assert found.holds
    assert found.share == pytest.approx(0.5)
    assert [row.name for row in found.rows] == ["aten::mul"]


def test_so_are_those_that_a_compiler_made(tmp_path: Path) -> None:
    found = between(program(tmp_path, "", FAR, kernel="triton_poi_fused_mul_0"))

    assert found is not None
    assert found.share == pytest.approx(0.5)


@pytest.mark.parametrize(("operator", "place"), [("aten::mul", NEAR), ("aten::mm", FAR), ("own::op", FAR)])
def test_what_is_at_a_roof_or_multiplies_or_may_is_none(
    tmp_path: Path, operator: str, place: Roofline
) -> None:
    found = between(program(tmp_path, operator, place))

    assert found is not None
    assert (found.holds, found.share) == (False, 0.0)


def test_without_counters_nothing_is_told(tmp_path: Path) -> None:
    b = program(tmp_path, "aten::mul", FAR)
    bare = tuple(replace(k, row=replace(k.row, roofline=Roofline())) for k in b.kernels)

    assert between(replace(b, kernels=bare)) is None
