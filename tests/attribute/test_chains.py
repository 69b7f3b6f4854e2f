"""Elementwise operators and norms one after another."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from called import BF16, FLOAT
from hand_written_look import Look
from hand_written_program import Program
from perfzero.attribute.breakdown import Chain
from perfzero.attribute.tree import break_down

SHAPE = [1024, 1024]
STRIDES = [1024, 1]
N = 2 * 1024 * 1024


def run(program: Program, module: str, operator: str, inputs: int = 1, **options: object) -> Program:
    shapes, strides = [SHAPE] * inputs, [STRIDES] * inputs
    return program.run(module, f"aten::{operator}", shapes, BF16, strides=strides, **options)  # type: ignore[arg-type]


def found(program: Program) -> tuple[Chain, ...]:
    return program.broken_down().chains


def test_a_chain_moves_what_each_reads_and_writes_and_spares_what_is_between(tmp_path: Path) -> None:
    """At least the reads of what is between; at most all but one input of two tensors and the result."""
    program = run(Program(tmp_path), "mlp", "add", 2)
    run(program, "mlp", "gelu")
    [chain] = found(run(program, "mlp", "mul", 2))

    assert chain.module == "mlp"
    assert [call.operator for call in chain.calls] == ["aten::add", "aten::gelu", "aten::mul"]
    assert (chain.gpu_ns, chain.times) == (300_000, 1)
    assert chain.bytes == 8 * N
    assert (chain.spared_least, chain.spared) == (2 * N, 5 * N)


def test_the_same_one_after_the_other_in_one_module_is_one_chain_many_times(tmp_path: Path) -> None:
    program = Program(tmp_path)
    for _ in range(3):
        run(program, "mlp", "add", 2)
        run(program, "mlp", "gelu")
        program.run("mlp", "aten::mm", [SHAPE, SHAPE], BF16)
    [chain] = found(program)

    assert chain.times == 3
    assert chain.bytes == 3 * 5 * N


@pytest.mark.parametrize(
    ("one", "other", "upper"),
    [
        ("block", "block.relu", "block"),
        ("block.norm", "block", "block"),
        ("block.norm", "block.relu", "block"),
        ("layers.1.a", "layers.2", "layers"),
        ("encoder", "decoder", ""),
    ],
)
def test_a_chain_goes_on_in_another_module_and_is_that_of_the_one_above_both(
    tmp_path: Path, one: str, other: str, upper: str
) -> None:
    [chain] = found(run(run(Program(tmp_path), one, "add_", 2), other, "clamp_min_"))

    assert chain.module == upper
    assert [call.operator for call in chain.calls] == ["aten::add_", "aten::clamp_min_"]


@pytest.mark.parametrize(("overwriting", "spared"), [("clamp_min_", 2), ("clamp_min", 1)])
def test_what_the_next_one_overwrites_nobody_else_can_read(
    tmp_path: Path, overwriting: str, spared: int
) -> None:
    [chain] = found(run(run(Program(tmp_path), "block", "add", 2), "block", overwriting))

    assert chain.spared_least == spared * N


# --- norms


def test_norms_and_softmax_are_part_of_a_chain(tmp_path: Path) -> None:
    program = run(Program(tmp_path), "mlp", "add", 2)
    run(program, "mlp", "_softmax")
    [chain] = found(run(program, "mlp", "gelu"))

    assert len(chain.calls) == 3


def norm(look: Look, at: float, operator: str, channels: int, kernels: tuple[str, ...]) -> None:
    shapes = [IMAGE] * (2 if operator.endswith("backward") else 1) + [[256]] * channels
    strides = [CHANNELS_LAST if len(shape) == 4 else [1] for shape in shapes]
    types = [BF16 if len(shape) == 4 else FLOAT for shape in shapes]
    look.op(f"aten::{operator}", at, at + 50, shapes=shapes, strides=strides, types=types)
    for place, name in enumerate(kernels):
        look.work(name, at + 60 + 10 * place, at + 70 + 10 * place, at=at + 10 + place)


IMAGE, CHANNELS_LAST, IMAGE_BYTES = [256, 256, 56, 56], [802816, 1, 14336, 256], 2 * 256 * 256 * 56 * 56
BACKWARD = ("batch_norm_backward_reduce_kernel", "batch_norm_backward_elemt_kernel")


@pytest.mark.parametrize(("l2_bytes", "moved", "most"), [(60 << 20, 8, 3), (1 << 40, 6, 3)])
def test_a_batch_norm_backward_reads_twice_what_comes_from_outside(
    tmp_path: Path, l2_bytes: int, moved: int, most: int
) -> None:
    """3 n and 5 n become 5 n: gradient and input twice, for the sign of the output follows from the input."""
    look = Look()
    look.op(
        "aten::threshold_backward", 0, 50, shapes=[IMAGE] * 2, strides=[CHANNELS_LAST] * 2, types=[BF16] * 2
    )
    look.work("kernel", 60, 70, at=10)
    norm(look, 100, "native_batch_norm_backward", 5, BACKWARD)
    [chain] = break_down(look.trace(tmp_path), l2_bytes=l2_bytes).chains

    assert chain.bytes == pytest.approx(moved * IMAGE_BYTES, rel=1e-3)
    assert chain.spared == pytest.approx(most * IMAGE_BYTES, rel=1e-3)
    assert chain.spared_least == IMAGE_BYTES


def test_gradients_that_are_added_up_are_not_what_the_forward_pass_kept(tmp_path: Path) -> None:
    """Of 11 n there stay 7: both gradients and the input, the sum written, it and the input, the result."""
    look = Look()
    for number, operator in enumerate(("add_", "threshold_backward")):
        at = 100.0 * number
        shapes, strides = [IMAGE] * 2, [CHANNELS_LAST] * 2
        look.op(f"aten::{operator}", at, at + 50, shapes=shapes, strides=strides, types=[BF16] * 2)
        look.work("kernel", at + 60, at + 70, at=at + 10)
    norm(look, 200, "native_batch_norm_backward", 5, BACKWARD)
    [chain] = break_down(look.trace(tmp_path), l2_bytes=60 << 20).chains

    assert chain.bytes == pytest.approx(11 * IMAGE_BYTES, rel=1e-3)
    assert chain.spared == pytest.approx(4 * IMAGE_BYTES, rel=1e-3)


FORWARD = ("batch_norm_collect_statistics_kernel", "batch_norm_transform_input_kernel")


def on_images(look: Look, at: float, operator: str, inputs: int) -> None:
    shapes, strides = [IMAGE] * inputs, [CHANNELS_LAST] * inputs
    look.op(f"aten::{operator}", at, at + 50, shapes=shapes, strides=strides, types=[BF16] * inputs)
    look.work("kernel", at + 60, at + 70, at=at + 10)


def test_instead_of_reading_much_twice_a_norm_may_read_twice_what_it_writes(tmp_path: Path) -> None:
    """Of 9 n there stay 6: three inputs, what the norm is of written and read again, and the result."""
    look = Look()
    on_images(look, 0, "addcmul", 3)
    on_images(look, 100, "gelu", 1)
    norm(look, 200, "native_batch_norm", 4, FORWARD)
    [chain] = break_down(look.trace(tmp_path), l2_bytes=60 << 20).chains

    assert chain.bytes == pytest.approx(9 * IMAGE_BYTES, rel=1e-3)
    assert chain.spared == pytest.approx(3 * IMAGE_BYTES, rel=1e-3)


def test_what_is_no_gradient_may_be_what_the_forward_pass_kept(tmp_path: Path) -> None:
    """Of 7 n there stay 4, three inputs and the result: the input of the gelu may be one of the three."""
    look = Look()
    on_images(look, 0, "addcmul", 3)
    on_images(look, 100, "gelu_backward", 2)
    [chain] = break_down(look.trace(tmp_path), l2_bytes=60 << 20).chains

    assert chain.bytes == 7 * IMAGE_BYTES
    assert chain.spared == 3 * IMAGE_BYTES


@pytest.mark.parametrize(("small", "many", "joined"), [(512, 1, 1), (512, 3, 1), (512, 4, 0), (2048, 1, 0)])
def test_a_few_small_calls_in_between_are_passed_over(
    tmp_path: Path, small: int, many: int, joined: int
) -> None:
    program = run(Program(tmp_path), "mlp", "add", 2)
    for _ in range(many):
        program.run("mlp", "aten::fill_", [[small, 1024]], FLOAT)
    b = run(program, "mlp", "gelu").broken_down()

    assert len(b.chains) == joined
    assert len(b.alone) == (0 if joined else 2)


@pytest.mark.parametrize("between", ["mm", "fill_", "sum"])
def test_what_is_not_element_by_element_ends_it(tmp_path: Path, between: str) -> None:
    program = run(Program(tmp_path), "mlp", "add", 2)
    program.run("mlp", f"aten::{between}", [SHAPE, SHAPE], BF16)

    assert found(run(program, "mlp", "gelu")) == ()


def test_another_shape_or_pass_ends_it_and_updates_are_none(tmp_path: Path) -> None:
    shape = run(Program(tmp_path), "mlp", "add", 2)
    shape.run("mlp", "aten::gelu", [[512, 1024]], BF16)
    backward = run(run(Program(tmp_path), "mlp", "gelu"), "mlp", "gelu_backward", 2, backward=True)
    optimizer = run(run(Program(tmp_path), "", "add_", 2, optimizer=True), "", "mul_", optimizer=True)

    for program in (shape, backward, optimizer):
        assert found(program) == ()


# --- whether one may work on the result of the other

WIDE, NARROW, TURNED = (FLOAT, STRIDES), (BF16, STRIDES), (BF16, [1, 1024])
Given = tuple[str, list[int]]


@pytest.mark.parametrize(
    ("one", "wrote", "other", "given", "joined"),
    [
        ("copy_", [WIDE, NARROW], "mul", [WIDE], True),
        ("copy_", [WIDE, NARROW], "mul", [NARROW], False),
        ("copy_", [WIDE, NARROW], "copy_", [NARROW, WIDE], True),
        ("copy_", [WIDE, NARROW], "copy_", [WIDE, TURNED], False),  # the target is no input
        ("copy_", [NARROW, TURNED], "gelu", [NARROW], True),
        ("copy_", [NARROW, TURNED], "gelu", [TURNED], False),
        ("mul", [NARROW], "gelu", [TURNED], True),  # the strides of what is new are not known
        ("add", [NARROW, WIDE], "gelu", [WIDE], True),  # becomes float32
        ("add", [NARROW, WIDE], "gelu", [NARROW], False),
        ("gt", [NARROW], "where", [("bool", STRIDES), WIDE, WIDE], True),
        ("gt", [NARROW], "mul", [NARROW], False),
        ("native_dropout", [NARROW], "mul", [NARROW], True),
        ("add_", [NARROW, WIDE], "mul", [NARROW], True),
        ("add_", [NARROW, WIDE], "mul", [WIDE], False),
        ("mul", [NARROW], "add", [(BF16, [0, 1]), NARROW], True),
    ],
)
def test_a_chain_goes_on_only_where_an_input_may_be_what_the_one_before_wrote(
    tmp_path: Path, one: str, wrote: list[Given], other: str, given: list[Given], joined: bool
) -> None:
    look = Look()
    for number, (operator, tensors) in enumerate(((one, wrote), (other, given))):
        at = 100.0 * number
        look.op(
            f"aten::{operator}", at, at + 50, shapes=[SHAPE] * len(tensors),
            types=[dtype for dtype, _ in tensors], strides=[strides for _, strides in tensors],
        )  # fmt: skip
        look.work("kernel", at + 60, at + 90, at=at + 10)

    assert len(break_down(look.trace(tmp_path)).chains) == joined


def test_a_smaller_input_is_not_what_the_one_before_wrote(tmp_path: Path) -> None:
    program = run(Program(tmp_path), "mlp", "mul")
    shapes, strides = [SHAPE, [1024]], [STRIDES, [1]]
    program.run("mlp", "aten::add", shapes, FLOAT, strides=strides)

    assert found(program) == ()


def test_the_stride_of_a_single_element_is_of_no_account(tmp_path: Path) -> None:
    program = Program(tmp_path)
    for operator, stride in (("add_", 1024), ("gelu", 1)):
        program.run("mlp", f"aten::{operator}", [[1, 1024]], BF16, strides=[[stride, 1]])

    assert len(found(program)) == 1


def test_one_in_place_call_on_many_parameters_of_a_shape_is_no_chain(tmp_path: Path) -> None:
    """Such as gradients that are clipped one by one; and copies of the same kind."""
    clipped, copied = Program(tmp_path / "clipped"), Program(tmp_path / "copied")
    for program, operator in ((clipped, "mul_"), (copied, "copy_")):
        program.folder.mkdir()
        for _ in range(12):
            run(program, "", operator, 1 + (operator == "copy_"))
        assert found(program) == ()


def test_of_a_loop_over_parameters_each_turn_is_a_chain(tmp_path: Path) -> None:
    """Such as a mean over time, p.mul_(d).add_(q)."""
    program = Program(tmp_path)
    for _ in range(12):
        run(run(program, "", "mul_"), "", "add_", 2)
    [chain] = found(program)

    assert chain.times == 12
    assert (chain.spared_least / chain.bytes, chain.spared / chain.bytes) == pytest.approx((1 / 5, 3 / 5))


def two(folder: Path, **elsewhere: int) -> int:
    """How many chains are two neighbours, the second of which runs *elsewhere*."""
    look = Look()
    for number, where in enumerate(({}, elsewhere)):
        at = 100.0 * number
        look.op("aten::gelu", at, at + 50, shapes=[SHAPE], types=[BF16], strides=[STRIDES])
        look.kernel("kernel", at + 60, at + 90, correlation=look.launch(at + 10), **where)
    return len(break_down(look.trace(folder)).chains)


def test_on_another_stream_or_gpu_it_is_no_chain(tmp_path: Path) -> None:
    assert two(tmp_path) == 1
    assert two(tmp_path, stream=9) == 0
    assert two(tmp_path, device=1) == 0


def test_what_runs_on_another_stream_meanwhile_does_not_end_it(tmp_path: Path) -> None:
    look = Look()
    for number, stream in enumerate((7, 9, 7)):
        at = 100.0 * number
        look.op("aten::gelu" if stream == 7 else "aten::mm", at, at + 50, shapes=[SHAPE], types=[BF16])
        look.kernel("kernel", at + 60, at + 90, correlation=look.launch(at + 10), stream=stream)
    [chain] = break_down(look.trace(tmp_path)).chains

    assert len(chain.calls) == 2


@pytest.mark.parametrize(("copy", "many"), [("Memcpy HtoD (Pageable -> Device)", 0), ("Memcpy DtoD", 1)])
def test_a_copy_from_the_host_is_no_part_of_a_chain(tmp_path: Path, copy: str, many: int) -> None:
    look = Look()
    for number, (operator, kernel) in enumerate((("copy_", copy), ("gelu", "kernel"))):
        at = 100.0 * number
        given = 2 - number
        look.op(
            f"aten::{operator}", at, at + 50, shapes=[SHAPE] * given, types=[BF16] * given,
            strides=[STRIDES] * given,
        )  # fmt: skip
        look.kernel(
            kernel, at + 60, at + 90, correlation=look.launch(at + 10),
            cat="kernel" if number else "gpu_memcpy",
        )  # fmt: skip
    b = break_down(look.trace(tmp_path))

    assert len(b.chains) == many
    assert len(b.alone) == 1 - many


def test_of_inputs_without_strides_the_bytes_are_not_known(tmp_path: Path) -> None:
    program = run(Program(tmp_path), "mlp", "add", 2)
    [chain] = found(program.run("mlp", "aten::gelu", [SHAPE], BF16))

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
    assert seen.spared == (pytest.approx(2 / 5), pytest.approx(2 / 5))


def test_where_bytes_are_not_known_no_range_is_told_and_next_to_no_time_is_none(tmp_path: Path) -> None:
    program = run(Program(tmp_path), "mlp", "add", 2)
    unknown = program.run("mlp", "aten::gelu", [SHAPE], BF16).seen("chains")

    assert unknown is not None
    assert unknown.spared is None
    for us, told in ((4, False), (6, True)):  # 0.8 and 1.2 % of the time
        little = run(run(Program(tmp_path), "mlp", "add", 2, us=us), "mlp", "gelu", us=us)
        little.run("fc", "aten::mm", [SHAPE, SHAPE], BF16, us=1000 - 2 * us)
        seen = little.seen("chains")
        assert seen is not None  # all of the trace is known
        assert seen.holds == told


@pytest.mark.parametrize(("us", "told"), [(1.0, True), (5.0, False)])
def test_what_is_spared_is_told_where_nearly_all_bytes_are_known(
    tmp_path: Path, us: float, told: bool
) -> None:
    """A chain of which the bytes are not known takes 1 and 5 % of the time in chains."""
    program = run(run(Program(tmp_path), "mlp", "add", 2), "mlp", "gelu")
    for operator in ("gelu", "tanh"):
        program.run("head", f"aten::{operator}", [SHAPE], FLOAT, us=us)
    seen = program.seen("chains")

    assert seen is not None
    assert (seen.spared is not None) == told


def copied(program: Program, given: str, made: str) -> Program:
    """What is copied, into another type or the same one."""
    return program.run(
        "norm", "aten::copy_", [SHAPE, SHAPE], made, strides=[STRIDES, STRIDES], types=[made, given]
    )


def normed(program: Program, operator: str = "aten::native_layer_norm") -> Program:
    """A norm over rows of float32, or a softmax, or what works element by element."""
    shapes: list[list[int]] = [SHAPE, [1024], [1024]] if "layer_norm" in operator else [SHAPE]
    strides = [STRIDES, [1], [1]][: len(shapes)]
    return program.run("norm", operator, shapes, FLOAT, strides=strides)


def test_wide_numbers_of_a_conversion_are_neither_written_nor_read(tmp_path: Path) -> None:
    """They are 4 bytes each, twice: who needs them later reads the 2 bytes that they came from."""
    [chain] = found(normed(copied(Program(tmp_path), BF16, FLOAT), "aten::exp"))

    assert chain.spared_least == 2 * 2 * N


def test_those_of_a_copy_within_a_type_may_be_needed_later(tmp_path: Path) -> None:
    [chain] = found(normed(copied(Program(tmp_path), FLOAT, FLOAT), "aten::exp"))

    assert chain.spared_least == 2 * N


@pytest.mark.parametrize(
    ("operator", "passes"),
    [
        ("aten::native_layer_norm", 2),
        ("aten::_softmax", 1),  # its gradient needs the result
        ("aten::exp", 1),
    ],
)
def test_what_a_norm_makes_only_to_be_narrowed_is_neither_written_nor_read(
    tmp_path: Path, operator: str, passes: int
) -> None:
    [chain] = found(copied(normed(Program(tmp_path), operator), FLOAT, BF16))

    assert chain.spared_least == passes * 2 * N
