"""What limits the work that a remedy leaves as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from called import BF16
from hand_written_program import Program
from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.roofline import Roofline
from perfzero.attribute.standing import Others, others

PRODUCT = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
PLACES = {
    PRODUCT: Roofline(roof=0.7, limit="compute"),
    "near the memory": Roofline(roof=0.9, limit="dram"),
    "far from all": Roofline(roof=0.3, limit="dram"),
    "on the pipe": Roofline(roof=0.7, limit="compute"),
}


def standing(folder: Path, *kernels: str) -> Breakdown:
    """Kernels of 100 us, each in a module of its own; those of `PLACES` have a place."""
    program = Program(folder)
    for number, kernel in enumerate(kernels):
        program.run(f"m{number}", "aten::add", [[64, 64 + number]], BF16, kernel=kernel)
    b = program.broken_down()
    places = (replace(k.row, roofline=PLACES.get(k.row.name, Roofline())) for k in b.kernels)
    return replace(b, kernels=tuple(replace(k, row=r) for k, r in zip(b.kernels, places, strict=True)))


def test_what_is_left_is_told_by_where_it_stands_under_the_roof(tmp_path: Path) -> None:
    b = standing(tmp_path, PRODUCT, "near the memory", "far from all", "on the pipe", "scores")
    changed = [row for row in b.calls if row.kernel == "scores"]

    assert others(b, changed) == Others(
        tensor=pytest.approx(0.2), memory=pytest.approx(0.2), latency=pytest.approx(0.4)
    )


def test_kernels_without_a_place_are_taken_to_be_like_the_others(tmp_path: Path) -> None:
    b = standing(tmp_path, PRODUCT, "near the memory", "short")

    assert others(b, []) == Others(tensor=pytest.approx(0.5), memory=pytest.approx(0.5), latency=0.0)


def test_where_most_has_no_place_nothing_is_told(tmp_path: Path) -> None:
    assert others(standing(tmp_path, PRODUCT, "short", "another short one"), []) is None


def test_of_nothing_that_is_left_nothing_is_told(tmp_path: Path) -> None:
    b = standing(tmp_path, PRODUCT)

    assert others(b, b.calls) is None
