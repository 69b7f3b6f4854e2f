"""
Convolutions channel by channel: multiplications that tensor cores cannot speed up.

Each number of the image is multiplied by the few places of one window, so there is no matrix that is used
more than once, and none for a tensor core. What limits such a convolution is the bytes that it moves, or,
mostly in NCHW and in float32, a kernel that is far from moving them as fast as the memory does (pytorch
issue 18631). It is faster in 16 bits and channels-last, for which cuDNN has kernels of its own.
"""

from __future__ import annotations

from dataclasses import replace

from perfzero.attribute.breakdown import Breakdown, CallRow
from perfzero.attribute.layout import layout
from perfzero.attribute.missed import channels
from perfzero.attribute.operators import HALF
from perfzero.attribute.parts import NOTEWORTHY, Condition, by_module, dtype_of, share_of
from perfzero.attribute.products import is_convolution


def by_channel(b: Breakdown, activations: Condition | None) -> Condition | None:
    """
    Convolutions channel by channel: whether some are in float32 or in NCHW, and what share all of them have.

    *activations*: what 16 bits leave of all that works on float32, where that is known; it is left of what is
    beside these convolutions, too.
    """
    its = [row for row in b.calls if is_depthwise(row)]
    share = share_of(its)
    if share < NOTEWORTHY:
        return None
    slow = share_of(row for row in its if not _is_fast(row))
    found = Condition("by_channel", slow >= NOTEWORTHY, share, by_module(its))
    if activations is None or not activations.holds or not found.holds:
        return found
    beside = max(0.0, activations.share + activations.beside - share)
    return replace(found, beside=beside, left=activations.left)


def is_depthwise(row: CallRow) -> bool:
    """Whether *row* is of a convolution of an image in which each channel is by itself."""
    both = channels(row.call) if row.call is not None and is_convolution(row.call) else None
    return both is not None and both[0] == 1 and both[0] != both[1]


def _is_fast(row: CallRow) -> bool:
    inputs = () if row.call is None else row.call.inputs
    return dtype_of(row.call) in HALF and not any(layout(tensor) == "NCHW" for tensor in inputs)
