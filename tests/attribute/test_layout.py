"""How images lie in memory, from sizes and strides."""

from __future__ import annotations

import pytest

from perfzero.attribute.layout import layout
from perfzero.traces import Tensor


def planar(n: int, c: int, h: int, w: int) -> Tensor:
    return Tensor((n, c, h, w), (c * h * w, h * w, w, 1))


def channels_last(n: int, c: int, h: int, w: int) -> Tensor:
    return Tensor((n, c, h, w), (c * h * w, 1, w * c, c))


def test_strides_tell_the_two_layouts_apart() -> None:
    assert layout(planar(256, 64, 56, 56)) == "NCHW"
    assert layout(channels_last(256, 64, 56, 56)) == "channels-last"


def test_the_stride_of_a_dimension_of_one_says_nothing() -> None:
    assert layout(Tensor((1, 64, 56, 56), (7, 3136, 56, 1))) == "NCHW"
    assert layout(Tensor((1, 64, 56, 56), (7, 1, 3584, 64))) == "channels-last"


@pytest.mark.parametrize("shape", [(8, 1, 28, 28), (8, 512, 1, 1)])
def test_one_channel_or_one_pixel_lies_the_same_in_both(shape: tuple[int, int, int, int]) -> None:
    assert layout(planar(*shape)) is None
    assert layout(channels_last(*shape)) is None


def test_a_part_of_a_larger_tensor_is_strided() -> None:
    assert layout(Tensor((8, 4, 6, 6), (8 * 36, 36, 6, 1))) == "strided"
    assert layout(Tensor((8, 4, 6, 6), (144, 36, 1, 6))) == "strided"


@pytest.mark.parametrize(
    "tensor",
    [Tensor((8, 16, 32), (512, 32, 1)), Tensor((8, 4, 6, 6)), Tensor((0, 4, 6, 6), (144, 36, 6, 1))],
    ids=["three dimensions", "no strides", "empty"],
)
def test_of_anything_else_there_is_nothing_to_tell(tensor: Tensor) -> None:
    assert layout(tensor) is None
