"""How an optimizer goes through its tensors, by the functions in which stacks find it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from perfzero.attribute.updating import Way, way_of_update
from perfzero.stacks import Frame, ProcessStacks

STEP = Frame("site-packages/torch/optim/adam.py", 248, "Adam.step")
MAIN = Frame("train.py", 40, "main")


def within(function: str, file: str = "torch/optim/adam.py") -> tuple[Frame, ...]:
    """A stack in *function* of the optimizer, the innermost frame first."""
    return Frame(f"site-packages/{file}", 476, function), STEP, MAIN


def seen(*rows: tuple[int, tuple[Frame, ...], int]) -> ProcessStacks:
    """Rows of milliseconds, a stack and a thread, one after another; each thread lasts until its next row."""
    frames = tuple(dict.fromkeys(frame for _, stack, _ in rows for frame in stack))
    stacks = tuple(dict.fromkeys(tuple(frames.index(f) for f in stack) for _, stack, _ in rows))
    time_ms = np.cumsum([0, *(ms for ms, _, _ in rows)])
    return ProcessStacks(
        pid=1,
        role="main",
        start_ns=0,
        end_ns=int(time_ms[-1]) * 1_000_000,
        rate_hz=250.0,
        slack_ns=0,
        time_ns=np.asarray(time_ms[:-1] * 1_000_000, np.int64),
        thread=np.array([thread for _, _, thread in rows], np.int64),
        stack=np.array([stacks.index(tuple(frames.index(f) for f in s)) for _, s, _ in rows], np.int64),
        frames=frames,
        stacks=stacks,
    )


@pytest.mark.parametrize(
    ("functions", "way"),
    [
        (["_single_tensor_adam"], "single"),
        (["_multi_tensor_sgd"], "listed"),
        (["_fused_adamw"], "fused"),
        (["step"], ""),  # an optimizer of the program's own
        ([], ""),
    ],
)
def test_pytorch_names_the_way_of_an_update(functions: Sequence[str], way: Way) -> None:
    rows = [(4, within(function), 0) for function in functions]

    assert way_of_update(seen(*rows, (4, (MAIN,), 0)), 0) == way


def test_of_two_optimizers_the_one_with_most_of_the_time_counts() -> None:
    rows = [(3, within("_fused_adam"), 0), (4, within("_single_tensor_sgd"), 0), (50, (MAIN,), 0)]

    assert way_of_update(seen(*rows), 0) == "single"


def test_of_three_none_of_which_has_most_nothing_is_told() -> None:
    names = ("_fused_adam", "_single_tensor_sgd", "_multi_tensor_adam")

    assert way_of_update(seen(*((4, within(name), 0) for name in names)), 0) == ""


def test_what_another_thread_does_is_not_counted() -> None:
    rows = [(4, within("_single_tensor_adam"), 1), (4, (MAIN,), 0)]

    assert way_of_update(seen(*rows), 0) == ""


def test_a_function_of_the_program_by_such_a_name_tells_nothing() -> None:
    assert way_of_update(seen((4, within("_single_tensor_adam", "me/adam.py"), 0)), 0) == ""
