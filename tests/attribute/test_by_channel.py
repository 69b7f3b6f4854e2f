"""Convolutions channel by channel, in which there is nothing for tensor cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from called import FLOAT, HALF
from hand_written_program import Program
from perfzero.attribute.conditions import conditions
from perfzero.attribute.parts import Condition

IMAGE, DEPTHWISE, MIXING = [64, 256, 56, 56], [256, 1, 3, 3], [256, 256, 1, 1]
PLANAR, LAST = [802816, 3136, 56, 1], [802816, 1, 14336, 256]


def seen(
    folder: Path, weights: list[int], dtype: str = FLOAT, strides: list[int] | None = None
) -> Condition | None:
    both = [strides or PLANAR, [9, 9, 3, 1]]
    kernel = "conv_depthwise2d_forward_kernel"
    program = Program(folder).run(
        "depthwise", "aten::_conv_depthwise2d", [IMAGE, weights], dtype, strides=both, kernel=kernel
    )
    program.run("norm", "aten::cudnn_batch_norm", [IMAGE], dtype, strides=[strides or PLANAR])
    return conditions(program.broken_down()).get("by_channel")


def test_those_in_float32_are_named_with_what_16_bits_leave_of_all(tmp_path: Path) -> None:
    found = seen(tmp_path, DEPTHWISE)

    assert found is not None
    assert found.holds
    assert [row.name for row in found.rows] == ["depthwise"]
    assert (found.share, found.beside) == (pytest.approx(0.5), pytest.approx(0.5))
    assert found.left is not None


def test_those_in_16_bits_and_nchw_have_a_faster_layout(tmp_path: Path) -> None:
    found = seen(tmp_path, DEPTHWISE, HALF)

    assert found is not None
    assert (found.holds, found.left) == (True, None)


def test_those_in_16_bits_and_channels_last_have_nothing_to_gain(tmp_path: Path) -> None:
    found = seen(tmp_path, DEPTHWISE, HALF, LAST)

    assert found is not None
    assert (found.holds, found.share) == (False, pytest.approx(0.5))


def test_those_that_mix_channels_are_none(tmp_path: Path) -> None:
    assert seen(tmp_path, MIXING) is None
