"""
Convolutions in 16-bit types for which cuDNN took an algorithm of float32 times.

By its rules of thumb cuDNN sometimes takes an FFT, or a product that is written out first, where the tensor
cores have a kernel. With `torch.backends.cudnn.benchmark` it measures instead. That is no way to get tensor
cores as such (most convolutions that miss them have no such kernel at all), so nothing is said unless the
name of the kernel says that another one ran.
"""

from __future__ import annotations

import re
from typing import Annotated

from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.operators import HALF
from perfzero.attribute.parts import NOTEWORTHY, Condition, by_call, by_module, dtype_of, share_of
from perfzero.attribute.products import is_convolution
from perfzero.limits import H200_LOOKS, Limit

DETOURS = re.compile(r"(?<![a-z])fft|implicit_convolve|explicit_convolve|im2col")
"""In the names of kernels, small letters: `fft2d_r2c_32x32`, `implicit_convolve_sgemm`, `im2col4d_kernel`."""

LEFT: Annotated[tuple[float, float], Limit("ratio", H200_LOOKS)] = (1 / 20, 1 / 2)
"""
Of a convolution's time, with the fastest algorithm: of one of 64 channels in 4 groups in float16 1.25 ms by
FFT, its gradients 0.10 ms and the same in TF32 0.07 ms without (H200, 2026-11-30).
"""


def detours(b: Breakdown) -> Condition | None:
    """Convolutions in 16-bit types whose kernels are of another algorithm than their type has."""
    rows = [row for row in b.calls if is_convolution(row.call) and dtype_of(row.call) in HALF]
    calls = [its for _, its in by_call(rows) if any(DETOURS.search(row.kernel.lower()) for row in its)]
    slow = [row for its in calls for row in its]
    if share_of(slow) < NOTEWORTHY:
        return None
    return Condition("slow_convolutions", True, share_of(slow), by_module(slow), left=LEFT)
