"""How a batch of images lies in memory, told from sizes and strides."""

from __future__ import annotations

from typing import Literal

from perfzero.traces import Tensor

Layout = Literal["NCHW", "channels-last", "strided"]


def layout(tensor: Tensor) -> Layout | None:
    """
    The layout of a 4-D tensor (batch, channels, height, width) without gaps; "strided" is neither.

    None where it is not 4-D, has no strides, or fits both: with one channel, or one pixel, there is
    nothing to tell apart. The stride of a dimension of size 1 is never used and says nothing.
    """
    if len(tensor.shape) != 4 or len(tensor.strides) != 4 or 0 in tensor.shape:
        return None
    planar, last = _is_dense(tensor, (0, 1, 2, 3)), _is_dense(tensor, (0, 2, 3, 1))
    if planar and last:
        return None
    return "NCHW" if planar else "channels-last" if last else "strided"


def _is_dense(tensor: Tensor, order: tuple[int, ...]) -> bool:
    """Whether the elements follow each other without gaps, dimensions in *order* from the slowest on."""
    step = 1
    for dimension in reversed(order):
        size = tensor.shape[dimension]
        if size != 1 and tensor.strides[dimension] != step:
            return False
        step *= size
    return True
