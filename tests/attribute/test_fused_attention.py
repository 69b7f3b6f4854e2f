"""What a fused kernel leaves of attention step by step: what it computes, at the rates of such kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from called import BF16, FLOAT
from hand_written_program import Program
from perfzero.attribute.conditions import conditions
from perfzero.attribute.fused_attention import ELSEWHERE, REACHED
from perfzero.attribute.parts import Condition
from perfzero.attribute.roofline import Ceilings

ROOFS = Ceilings({"bf16": 1000e12}, 4e12)
TWO_PRODUCTS = 2 * 2 * 192 * 2048 * 2048 * 64


def attention(
    folder: Path,
    *,
    tokens: int = 2048,
    dtype: str = BF16,
    mask: list[int] | None = None,
    training: bool = False,
) -> Program:
    """12 heads of 16 sequences, step by step: 4,000 us forward."""
    scores, wide = [16, 12, tokens, tokens], [192, tokens, 64]
    flat = [192, tokens, tokens]
    program = Program(folder).run("attention", "aten::bmm", [wide, [192, 64, tokens]], dtype, us=1000)
    program.run("attention", "aten::masked_fill_", [scores, mask or scores], dtype, us=1000)
    program.run("attention", "aten::_softmax", [scores], dtype, us=1000)
    program.run("attention", "aten::bmm", [flat, wide], dtype, us=1000)
    for _ in range(4 if training else 0):
        program.run("attention", "aten::bmm", [flat, wide], dtype, us=1000, backward=True)
    return program


def left(program: Program, roofs: Ceilings | None = ROOFS) -> tuple[float, float] | None:
    found: Condition = conditions(replace(program.broken_down(), ceilings=roofs))["fused_attention"]
    return found.left


def test_without_a_causal_mask_all_is_computed_at_the_rates_of_fused_kernels(tmp_path: Path) -> None:
    least, most = (1e6 * TWO_PRODUCTS / (rate * 1000e12) / 4000 for rate in reversed(REACHED))

    assert left(attention(tmp_path)) == pytest.approx((least, most))


@pytest.mark.parametrize("mask", [[2048, 2048], [1, 1, 2048, 2048]])
def test_under_a_mask_of_queries_by_keys_half_of_it_may_be_left_out(tmp_path: Path, mask: list[int]) -> None:
    least, most = (1e6 * TWO_PRODUCTS / (rate * 1000e12) / 4000 for rate in reversed(REACHED))

    assert left(attention(tmp_path, mask=mask)) == pytest.approx((least / 2, most))


def test_in_training_scores_are_made_once_more(tmp_path: Path) -> None:
    """Six products step by step, seven fused."""
    found = left(attention(tmp_path, training=True))

    assert found is not None
    assert found[1] == pytest.approx(1e6 * 3.5 * TWO_PRODUCTS / (REACHED[0] * 1000e12) / 8000)


@pytest.mark.parametrize(
    ("tokens", "dtype", "roofs"),
    [(512, BF16, ROOFS), (2048, FLOAT, ROOFS), (2048, BF16, None), (2048, BF16, Ceilings({}, 4e12))],
)
def test_of_short_sequences_other_types_and_unknown_roofs_it_is_as_elsewhere(
    tmp_path: Path, tokens: int, dtype: str, roofs: Ceilings | None
) -> None:
    assert left(attention(tmp_path, tokens=tokens, dtype=dtype), roofs) == ELSEWHERE
