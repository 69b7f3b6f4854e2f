"""
Which framework a program is written in, by what a look shows, so that advice can speak its words.

    pytorch   operators, modules, or kernels that only PyTorch has: `at::native`, Inductor's `triton_poi_`
    cupy      kernels called `cupy_`, such as `cupy_add__float32_float32_float32`
    jax       XLA's fusions, such as `loop_subtract_fusion` and `input_reduce_fusion_3`: of all that compile
              with XLA a look without PyTorch's operators is taken at JAX alone
    other     none of these, or several of them without PyTorch: numba, Triton by itself, own CUDA code

A program in PyTorch has operators, and one that only replays graphs has PyTorch's own kernels at least; so
where neither is there it is another one. In PyTorch a kernel of another framework is a detail.
"""

from __future__ import annotations

import re
from typing import Literal

from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.operations import GENERATED

Framework = Literal["pytorch", "cupy", "jax", "other"]

_XLA = re.compile(r"(?:loop|input)_(?:\w+_)?fusion(?:_\d+)*")
"""How XLA names kernels that it fused, in a JAX program on an H200."""


def framework(b: Breakdown) -> Framework | None:
    """The framework of the program behind *b*; None without a kernel."""
    if any(row.call is not None or row.module is not None for row in b.calls):
        return "pytorch"
    kernels = {row.kernel for row in b.calls if row.kind == "kernel"}
    if any("at::native::" in name or name.startswith(GENERATED) for name in kernels):
        return "pytorch"
    found = {one for name in kernels if (one := _by_name(name)) is not None}
    return found.pop() if len(found) == 1 else "other" if kernels else None


def _by_name(kernel: str) -> Framework | None:
    if kernel.startswith("cupy_"):
        return "cupy"
    return "jax" if _XLA.fullmatch(kernel) else None
