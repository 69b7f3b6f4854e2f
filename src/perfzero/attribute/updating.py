"""
How an optimizer goes through its tensors, by the function of PyTorch in which its step is.

    single    `_single_tensor_adam` and the like: one tensor after another, a dozen kernels each
    listed    `_multi_tensor_adam`: lists of tensors, operation by operation (`foreach=True`, as by default)
    fused     `_fused_adam`: lists of tensors, the whole update at once

All of `torch/optim` names them so. Which one it is decides what a fused update leaves of the time.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

import numpy as np

from perfzero.limits import CHOICE, Limit
from perfzero.stacks import ProcessStacks

Way = Literal["", "single", "listed", "fused"]
"""Empty where it is not known."""

MOSTLY: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Of the time in which the step is in one of these functions; a program may have two optimizers."""

_FUNCTIONS: tuple[tuple[Way, re.Pattern[str]], ...] = (
    ("single", re.compile(r"torch/optim/\w+\.py:_single_tensor_")),
    ("listed", re.compile(r"torch/optim/\w+\.py:_multi_tensor_")),
    ("fused", re.compile(r"torch/optim/\w+\.py:_fused_")),
)


def way_of_update(main: ProcessStacks, thread: int) -> Way:
    """In which of these the *thread* of *main* is for most of the time that it spends in any."""
    of_stack = [_way(main, stack) for stack in main.stacks]
    rows = np.flatnonzero(main.thread == thread)
    until = np.append(main.time_ns[rows][1:], main.end_ns)
    time_ns: dict[Way, int] = dict.fromkeys(("", *(way for way, _ in _FUNCTIONS)), 0)
    for stack, ns in zip(main.stack[rows].tolist(), (until - main.time_ns[rows]).tolist(), strict=True):
        time_ns[of_stack[stack]] += int(ns)
    del time_ns[""]
    most = max(time_ns, key=time_ns.__getitem__)
    return most if time_ns[most] > 0 and time_ns[most] >= MOSTLY * sum(time_ns.values()) else ""


def _way(main: ProcessStacks, stack: tuple[int, ...]) -> Way:
    """By the innermost frame that tells."""
    for index in stack:
        frame = main.frames[index]
        where = f"{frame.file}:{frame.function}"
        for way, function in _FUNCTIONS:
            if function.search(where):
                return way
    return ""
