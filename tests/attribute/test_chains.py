"""Elementwise operators one after another."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from called import BF16, FLOAT
from hand_written_program import Program
from perfzero.attribute.breakdown import Chain

SHAPE = [1024, 1024]
STRIDES = [1024, 1]
N = 2 * 1024 * 1024


def run(program: Program, module: str, operator: str, inputs: int = 1, **options: object) -> Program:
    shapes, strides = [SHAPE] * inputs, [STRIDES] * inputs
    return program.run(module, f"aten::{operator}", shapes, BF16, strides=strides, **options)  # type: ignore[arg-type]


def found(program: Program) -> tuple[Chain, ...]:
    return program.broken_down().chains


def test_a_chain_moves_what_each_reads_and_writes_and_spares_what_is_between(tmp_path: Path) -> None:
    program = run(Program(tmp_path), "mlp", "add", 2)
    run(program, "mlp", "gelu")
    [chain] = found(run(program, "mlp", "mul", 2))

    assert chain.module == "mlp"
    assert [call.operator for call in chain.calls] == ["aten::add", "aten::gelu", "aten::mul"]
    assert (chain.gpu_ns, chain.times) == (300_000, 1)
    assert chain.bytes == 8 * N
    assert (chain.least, chain.most) == (2 * N, 4 * N)


def test_the_same_one_after_the_other_in_one_module_is_one_chain_many_times(tmp_path: Path) -> None:
    program = Program(tmp_path)
    for _ in range(3):
        run(program, "mlp", "add", 2)
        run(program, "mlp", "gelu")
        program.run("mlp", "aten::mm", [SHAPE, SHAPE], BF16)
    [chain] = found(program)

    assert chain.times == 3
    assert chain.bytes == 3 * 5 * N


def test_a_chain_goes_on_in_a_module_within_and_is_that_of_the_upper_one(tmp_path: Path) -> None:
    program = run(run(Program(tmp_path), "block", "add_", 2), "block.relu", "clamp_min_")
    [chain] = found(run(program, "other", "gelu"))

    assert chain.module == "block"
    assert [call.operator for call in chain.calls] == ["aten::add_", "aten::clamp_min_"]


@pytest.mark.parametrize("between", ["_softmax", "mm", "fill_", "sum"])
def test_what_is_not_element_by_element_ends_it(tmp_path: Path, between: str) -> None:
    program = run(Program(tmp_path), "mlp", "add", 2)
    program.run("mlp", f"aten::{between}", [SHAPE, SHAPE], BF16)

    assert found(run(program, "mlp", "gelu")) == ()


def test_another_shape_module_or_pass_ends_it_and_updates_are_none(tmp_path: Path) -> None:
    shape = run(Program(tmp_path), "mlp", "add", 2)
    shape.run("mlp", "aten::gelu", [[512, 1024]], BF16)
    module = run(run(Program(tmp_path), "mlp.0", "add", 2), "mlp.1", "gelu")
    backward = run(run(Program(tmp_path), "mlp", "gelu"), "mlp", "gelu_backward", 2, backward=True)
    optimizer = run(run(Program(tmp_path), "", "add_", 2, optimizer=True), "", "mul_", optimizer=True)

    for program in (shape, module, backward, optimizer):
        assert found(program) == ()


def test_of_inputs_without_strides_the_bytes_are_not_known(tmp_path: Path) -> None:
    program = run(Program(tmp_path), "mlp", "add", 2)
    [chain] = found(program.run("mlp", "aten::gelu", [SHAPE], FLOAT))

    assert math.isnan(chain.bytes)


# --- as a condition


def test_chains_are_told_by_module_with_their_time_and_what_fusing_spares(tmp_path: Path) -> None:
    program = Program(tmp_path)
    for number in range(2):
        run(program, f"blocks.{number}", "add_", 2)
        run(program, f"blocks.{number}.act", "clamp_min_")
    seen = program.run("fc", "aten::mm", [SHAPE, SHAPE], BF16, us=600).seen("chains")

    assert seen is not None
    assert seen.share == pytest.approx(0.4)
    assert [(row.name, row.share) for row in seen.rows] == [("blocks.*", pytest.approx(0.4))]
    assert seen.spared == (pytest.approx(1 / 5), pytest.approx(2 / 5))


def test_where_bytes_are_not_known_no_range_is_told_and_next_to_no_time_is_none(tmp_path: Path) -> None:
    program = run(Program(tmp_path), "mlp", "add", 2)
    unknown = program.run("mlp", "aten::gelu", [SHAPE], FLOAT).seen("chains")
    little = run(run(Program(tmp_path), "mlp", "add", 2, us=1), "mlp", "gelu", us=1)

    assert unknown is not None
    assert unknown.spared is None
    assert little.run("fc", "aten::mm", [SHAPE, SHAPE], BF16, us=990).seen("chains") is None
