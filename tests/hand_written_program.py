"""A look written by hand: one step of modules one after another, and what is told of its conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hand_written_look import ENGINE, MAIN, Look
from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.conditions import conditions
from perfzero.attribute.parts import Condition, Topic
from perfzero.attribute.tree import break_down

_NODE = "autograd::engine::evaluate_function"


class Program:
    """A step of 1000 us of one module after another, each with an operator and a kernel of 100 us."""

    def __init__(self, folder: Path) -> None:
        self.look, self.folder, self.at, self.made = Look(), folder, 10.0, 0

    def run(
        self,
        module: str,
        operator: str,
        shapes: list[Any],
        dtype: str,
        *,
        strides: list[Any] | None = None,
        types: list[str] | None = None,
        kernel: str = "kernel",
        us: float = 100.0,
        launches: int = 1,
        optimizer: bool = False,
        backward: bool = False,
    ) -> Program:
        look, at = self.look, self.at
        if optimizer:
            look.optimizer(at, at + 40)
        elif not backward:
            look.module(module, "Layer", at, at + 40)
        thread = ENGINE if backward else MAIN
        types = types or [dtype] * len(shapes)
        if backward:  # of the operator that ran last
            look.op(f"{_NODE}: XBackward", at, at + 40, tid=ENGINE)
            look.op("XBackward", at, at + 40, tid=ENGINE, sequence=self.made, forward_thread=1)
        if operator:
            self.made += not backward
            sequence = None if backward else self.made
            look.op(
                operator, at + 1, at + 39, tid=thread, sequence=sequence, shapes=shapes, types=types,
                strides=strides,
            )  # fmt: skip
        for number in range(launches):
            start = 1000 + 200 * at + number * us
            look.work(kernel, start, start + us, at=at + 2 + number / 10, tid=thread)
        self.at += 50
        return self

    def seen(self, topic: Topic) -> Condition | None:
        return conditions(self.broken_down()).get(topic)

    def broken_down(self) -> Breakdown:
        self.look.step(0, 0, self.at + 50)
        return break_down(self.look.trace(self.folder))
