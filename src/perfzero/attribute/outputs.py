"""
What one call of a trace says of the result of another.

Kineto records what goes into an operator and nothing of what comes out. Where autograd hands the result, or
something of its shape, to another operator, that one has it among its inputs: a backward convolution has the
gradient of the forward one's result, which is shaped as that. Where the calls of a trace do not agree on one
result for the same inputs, as with two strides, none is told.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from perfzero.attribute.breakdown import Call
from perfzero.attribute.operators import (
    ATTENTION_BACKWARD,
    CONVOLUTION,
    CONVOLUTION_BACKWARD,
    TRANSPOSED_CONVOLUTION,
    plain,
)

Shape = tuple[int, ...]

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Outputs:
    """
    By what was asked of all calls of a trace.

    `convolved`, by the shapes of image and weights, and `pooled`, by that of the image: the shape of the
    result, None where there are several. `transposed` and `plain` convolutions were seen with these shapes.
    `softmax`: the types of the results, by direction and shape. `attended`: shapes of query, key and value
    of which there is a backward pass.
    """

    convolved: dict[tuple[Shape, Shape], Shape | None]
    pooled: dict[Shape, Shape | None]
    transposed: frozenset[tuple[Shape, Shape]]
    direct: frozenset[tuple[Shape, Shape]]
    softmax: dict[tuple[str, Shape], frozenset[str]]
    attended: frozenset[tuple[Shape, ...]]


def outputs(calls: Iterable[Call]) -> Outputs:
    """What *calls* say of each other's results."""
    convolved: dict[tuple[Shape, Shape], Shape | None] = {}
    pooled: dict[Shape, Shape | None] = {}
    transposed, direct, attended = set(), set(), set()
    softmax: dict[tuple[str, Shape], set[str]] = {}
    for call in calls:
        name, tensors = plain(call.operator), call.inputs
        shapes = [tensor.shape for tensor in tensors]
        if name == CONVOLUTION_BACKWARD and len(shapes) >= 3:
            _agree(convolved, (shapes[1], shapes[2]), shapes[0])
            if len(shapes[1]) == 3:  # cuDNN gets a line as an image of one row
                result, image, weights = map(_as_image, shapes[:3])
                _agree(convolved, (image, weights), result)
        elif name in CONVOLUTION and len(shapes) >= 2:
            direct.add((shapes[0], shapes[1]))
        elif name in TRANSPOSED_CONVOLUTION and len(shapes) >= 2:
            transposed.add((shapes[0], shapes[1]))
        elif name == "max_pool2d_with_indices_backward" and len(shapes) >= 2:
            _agree(pooled, shapes[1], shapes[0])
        elif name.removesuffix("_backward_data") in ("_softmax", "_log_softmax") and tensors:
            kind = tensors[1].dtype if name.endswith("_data") and len(tensors) > 1 else tensors[0].dtype
            softmax.setdefault((name, shapes[0]), set()).add(kind)
        elif name in ATTENTION_BACKWARD and len(shapes) >= 4:
            attended.add(tuple(shapes[1:4]))
    return Outputs(
        convolved,
        pooled,
        frozenset(transposed),
        frozenset(direct),
        {key: frozenset(kinds) for key, kinds in softmax.items()},
        frozenset(attended),
    )


def _agree(known: dict[K, Shape | None], key: K, shape: Shape) -> None:
    known[key] = shape if known.get(key, shape) == shape else None


def _as_image(line: Shape) -> Shape:
    return (*line[:2], 1, *line[2:])
