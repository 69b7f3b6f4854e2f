"""
What a fused kernel leaves of the time of attention step by step.

A fused kernel writes no scores, so it computes: two products forward, and five backward, for it makes the
scores once more (Dao et al., 2022). What is computed now is two and four, and the trace has their shapes. In
16 bits, with `LONG` queries and keys, that takes at the rates of fused kernels (`REACHED`)

    at least    half of the operations at the higher rate where a mask of queries by keys, the same for all
                heads, lies over the scores, for with `is_causal` the half that it hides is not computed;
                without such a mask all of them
    at most     all of them at the lower rate, for a mask may be another one

In other types, with fewer tokens and without roofs it is what it was elsewhere (`ELSEWHERE`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from perfzero.attribute.breakdown import Breakdown, Call, CallRow
from perfzero.attribute.operations import BACKWARD_PRODUCTS, FORWARD_PRODUCTS, factors
from perfzero.attribute.operators import plain
from perfzero.attribute.parts import by_call, dtype_of
from perfzero.limits import CHOICE, H200, H200_LOOKS, Limit

Pair = tuple[float, float]

ELSEWHERE: Annotated[Pair, Limit("ratio", H200_LOOKS)] = (1 / 20, 1 / 2)
"""
Of the time of what works on scores, with a fused kernel: 1/17 in a GPT of 12 layers, 1,024 tokens and heads
of 64 on an H200 (61 % of steps of 110 ms, which became 47), half to a quarter in FlashAttention's paper (Dao
et al., 2022).
"""

REACHED: Annotated[Pair, Limit("ratio", H200)] = (0.25, 0.60)
"""
Of the tensor cores' peak, by fused attention, both passes together: 0.31 to 0.42 on an H200 (also
`diagnose.thresholds.ATTENTION_LOW`); 335 of 989 TFLOP/s on an H100 in FlashAttention-2 (Dao, 2023) and up to
0.75 forward and 0.55 backward in its successor (Shah et al., 2024).
"""

LONG: Annotated[int, Limit("count", CHOICE)] = 1024
"""Queries and keys from which fused kernels reach that; with 512 they reach about half of it."""

RECOMPUTED = (FORWARD_PRODUCTS + BACKWARD_PRODUCTS) / (FORWARD_PRODUCTS + BACKWARD_PRODUCTS - 1)
"""Products of a fused kernel over those of attention step by step, in training."""

ROOFS = {"c10::BFloat16": "bf16", "c10::Half": "fp16"}
"""The names that roofs have for the types of 16 bits."""


def left_when_fused(b: Breakdown, rows: Sequence[CallRow]) -> Pair:
    """What of the time of *rows*, which are attention step by step, is left at least and at most."""
    flops, dtype = _computed(rows)
    peak = math.nan if b.ceilings is None else b.ceilings.flops.get(ROOFS.get(dtype, ""), math.nan)
    now = sum(row.gpu_ns for row in rows)
    if not (flops and peak > 0 and now):
        return ELSEWHERE
    if any(row.phase == "backward" for row in rows):
        flops *= RECOMPUTED
    least = flops * (0.5 if any(_masks(row.call) for row in rows) else 1.0) / REACHED[1]
    most = flops / REACHED[0]
    return min(1.0, 1e9 * least / peak / now), min(1.0, 1e9 * most / peak / now)


def _computed(rows: Sequence[CallRow]) -> tuple[float, str]:
    """Operations of the products among *rows* and their type; none where one is short or not understood."""
    flops, types = 0.0, set()
    for call, its in by_call(rows):
        product = factors(call)
        if product is None:
            continue
        times = min(row.launches for row in its)
        # Of two of the three lengths, one being the width of a head, the longer ones are queries and keys.
        _, shorter, longer = sorted((product.rows, product.inner, product.columns))
        if not times or min(shorter, longer) < LONG:
            return 0.0, ""
        types.add(dtype_of(call))
        flops += 2.0 * times * product.batch * product.rows * product.inner * product.columns
    return (flops, types.pop()) if len(types) == 1 else (0.0, "")


def _masks(call: Call | None) -> bool:
    """Whether *call* lays a mask of queries by keys over scores, the same square for all heads."""
    if call is None or factors(call) is not None:
        return False
    if plain(call.operator) in ("tril", "triu"):
        return True
    shapes = (tensor.shape for tensor in call.inputs if len(tensor.shape) >= 2)
    return any(shape[-1] == shape[-2] and math.prod(shape[:-2]) == 1 for shape in shapes)
