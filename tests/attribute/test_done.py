"""
What a program has done already is not advised again, nor is something that it has nothing for.

`compiled` is the ResNet-50 of benchmarks/compare/programs.py by its parts: in a look on an H200 (2026-11-30)
convolutions in bf16 take 43 % of its time, and kernels of Inductor all else but the optimizer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from called import BF16, FLOAT
from hand_written_look import Look
from hand_written_program import Program
from perfzero.attribute.conditions import conditions
from perfzero.attribute.parts import Condition, Topic
from perfzero.attribute.tree import break_down

IMAGE, WEIGHTS = [256, 64, 56, 56], [256, 64, 1, 1]
LAST = [[200704, 1, 3584, 64], [64, 1, 64, 64]]
MATRICES = [[4096, 4096], [4096, 4096]]
SCORES = [[192, 1024, 1024], [192, 1024, 64]]


def compiled(folder: Path) -> Program:
    program = Program(folder).run("", "aten::cudnn_convolution", [IMAGE, WEIGHTS], BF16, strides=LAST, us=430)
    names = ("triton_red_fused_native_batch_norm_14", "triton_poi_fused_native_batch_norm_relu_18")
    for name in names:
        program.run("", name, [IMAGE], BF16, strides=LAST[:1], kernel=name, us=280)
    return program.run("", "aten::_foreach_add_", [[64]], FLOAT, optimizer=True, us=10)


def denied(topic: Topic) -> Condition:
    return Condition(topic, False, 0.0)


@pytest.mark.parametrize("topic", ["channels_last", "activations", "fused_attention", "chains"])
def test_of_a_compiled_network_in_bf16_nothing_is_left_to_fuse_or_to_halve(
    tmp_path: Path, topic: Topic
) -> None:
    assert compiled(tmp_path).seen(topic) == denied(topic)


def test_a_compiled_program_is_known_by_its_kernels_with_their_share(tmp_path: Path) -> None:
    seen = compiled(tmp_path).seen("compile")

    assert seen is not None
    assert (seen.holds, seen.beside) == (False, pytest.approx(0.56))


def test_what_a_graph_break_left_uncompiled_is_still_to_be_compiled(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    for operator in ("add", "relu"):
        program.run("head", f"aten::{operator}", [IMAGE], BF16, strides=LAST[:1])

    assert program.seen("compile") is None
    chains = program.seen("chains")
    assert chains is not None
    assert chains.holds


GENERATED_KERNEL, ELEMENTWISE = "triton_poi_fused_add_0", "void at::native::vectorized_elementwise_kernel<4>"


def replayed(folder: Path, *kernels: tuple[str, int]) -> Condition | None:
    """What is told of the compiler by a replay of so many of each kernel, which all last as long."""
    look = Look()
    look.replay(0, 900)
    graph = look.launch(10, name="cudaGraphLaunch")
    names = [name for name, many in kernels for _ in range(many)]
    for number, name in enumerate(names):
        look.kernel(name, 1000 + 10 * number, 1009 + 10 * number, correlation=graph)
    look.step(0, 0, 999)
    return conditions(break_down(look.trace(folder))).get("compile")


@pytest.mark.parametrize(
    ("many", "beside", "told"),
    [
        (1, (ELEMENTWISE, 39), False),
        (35, (ELEMENTWISE, 5), False),
        (38, (ELEMENTWISE, 2), True),
        (2, ("nvjet_sm90_tst_64x32_64x16", 38), True),
        (2, ("void flash::flash_fwd_kernel<128>", 38), True),
        (2, ("triton_tem_fused_mm_7", 38), True),
        (2, ("ncclDevKernel_AllReduce", 38), True),
        (2, ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>", 38), False),
    ],
)
def test_a_replay_is_compiled_where_generated_kernels_are_nearly_all_that_could_be(
    tmp_path: Path, many: int, beside: tuple[str, int], told: bool
) -> None:
    """Products, attention and communication are no compiler's work, and what has another name may be."""
    seen = replayed(tmp_path, (GENERATED_KERNEL, many), beside)

    assert (seen is not None) == told
    assert seen is None or seen.beside == pytest.approx(many / 40)


@pytest.mark.parametrize(
    ("operator", "us", "told"),
    [("mine::op", 880, False), ("aten::sum", 100, False), ("aten::sum", 1, True), ("aten::mm", 880, True)],
)
def test_what_might_be_compiled_yet_leaves_it_open(
    tmp_path: Path, operator: str, us: float, told: bool
) -> None:
    program = Program(tmp_path).run("", operator, MATRICES, BF16, us=us)
    program.run("", GENERATED_KERNEL, [IMAGE], BF16, kernel=GENERATED_KERNEL, us=20)

    assert (program.seen("compile") is not None) == told


def test_the_optimizer_need_not_be_compiled_too(tmp_path: Path) -> None:
    program = compiled(tmp_path).run("", "aten::_foreach_add_", [[64]], FLOAT, optimizer=True, us=300)

    assert program.seen("compile") is not None


@pytest.mark.parametrize("kernel", ["triton_flash_forward", "vectorized_elementwise_kernel"])
def test_kernels_of_ones_own_are_no_compilers(tmp_path: Path, kernel: str) -> None:
    program = Program(tmp_path).run("", "mine::op", [IMAGE], BF16, kernel=kernel)

    assert program.seen("compile") is None
    assert program.seen("chains") is None


def test_a_compiled_program_in_float32_may_still_work_in_16_bits(tmp_path: Path) -> None:
    program = Program(tmp_path).run("", "aten::mm", MATRICES, FLOAT)
    program.run("", "triton_poi_fused_add", [IMAGE], FLOAT, kernel="triton_poi_fused_add")

    assert program.seen("activations") is None


LAYER_NORM = "triton_red_fused_native_layer_norm_0"


@pytest.mark.parametrize(
    ("given", "is_denied"),
    [
        ([([4096, 4096], BF16), ([4096], FLOAT)], True),
        ([([4096, 4096], FLOAT), ([4096], BF16)], False),
        ([([4096, 4096], BF16), ([4096, 4096], FLOAT)], False),
        ([], False),
    ],
)
def test_activations_are_in_16_bits_where_generated_kernels_are_seen_to_work_on_them(
    tmp_path: Path, given: list[tuple[list[int], str]], is_denied: bool
) -> None:
    """Under autocast a compiled norm may work on float32, whatever the products do."""
    program = Program(tmp_path)
    for name in ("one", "other"):
        program.run(name, "aten::mm", MATRICES, BF16, us=50)
    look, at = program.look, program.at
    look.op(
        LAYER_NORM, at, at + 40, shapes=[shape for shape, _ in given], types=[dtype for _, dtype in given]
    )
    look.work(LAYER_NORM, 900_000, 900_800, at=at + 2)
    program.at += 50

    assert program.seen("activations") == (denied("activations") if is_denied else None)


@pytest.mark.parametrize(
    ("operator", "dtype"), [("aten::mm", FLOAT), ("mine::op", BF16), ("aten::mm", "int")]
)
def test_a_compiled_program_that_does_not_multiply_in_16_bits_alone_is_left_open(
    tmp_path: Path, operator: str, dtype: str
) -> None:
    assert compiled(tmp_path).run("x", operator, MATRICES, dtype).seen("activations") is None


def test_compiled_attention_may_be_step_by_step_where_there_are_products_in_batches(tmp_path: Path) -> None:
    program = compiled(tmp_path).run("", "aten::bmm", SCORES, BF16)

    assert program.seen("fused_attention") is None


def test_elementwise_operators_alone_are_not_denied(tmp_path: Path) -> None:
    program = Program(tmp_path).run("fc", "aten::mm", MATRICES, BF16)

    assert program.run("act", "aten::gelu", [[4096, 4096]], BF16).seen("chains") is None


# --- graphs


@pytest.mark.parametrize(("single", "is_denied"), [(0, True), (1, True), (4, False)])
def test_a_program_of_replays_needs_no_graph(tmp_path: Path, single: int, is_denied: bool) -> None:
    look = Look()
    look.replay(0, 900)
    graph = look.launch(10, name="cudaGraphLaunch")
    for number in range(40):
        look.kernel("kernel", 1000 + 10 * number, 1009 + 10 * number, correlation=graph)
    for number in range(single):
        look.work("kernel", 1500 + 10 * number, 1509 + 10 * number, at=950 + number)
    look.step(0, 0, 999)
    told = conditions(break_down(look.trace(tmp_path)))

    assert (told.get("graph") == denied("graph")) == is_denied


# --- copies


@pytest.mark.parametrize(
    ("kernels", "pageable", "pinned"),
    [
        (("Memcpy HtoD (Pageable -> Device)",), True, False),
        (("Memcpy HtoD (Pinned -> Device)",), False, True),
        (("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)"), None, None),
        (("Memcpy DtoD (Device -> Device)",), None, None),
    ],
)
def test_from_which_memory_copies_come_is_told_where_all_come_from_it(
    tmp_path: Path, kernels: tuple[str, ...], pageable: bool | None, pinned: bool | None
) -> None:
    look = Look()
    for number, name in enumerate(kernels):
        at = 100.0 * number
        look.op("aten::copy_", at, at + 50, shapes=[[64], [64]], types=[FLOAT] * 2)
        look.kernel(name, at + 60, at + 90, correlation=look.launch(at + 10), cat="gpu_memcpy")
    look.step(0, 0, 999)
    told = conditions(break_down(look.trace(tmp_path)))
    found = [told[topic].holds if topic in told else None for topic in ("pageable", "pinned_source")]

    assert found == [pageable, pinned]


# --- optimizers and fills


def test_an_optimizer_makes_a_training_and_without_a_backward_pass_there_is_none(tmp_path: Path) -> None:
    forward = Program(tmp_path).run("fc", "aten::mm", MATRICES, BF16)
    assert forward.seen("training") == denied("training")

    backward = forward.run("fc", "aten::mm", MATRICES, BF16, backward=True)
    assert backward.seen("training") is None

    seen = backward.run("", "aten::_foreach_add_", [[64]], FLOAT, optimizer=True).seen("training")
    assert seen is not None
    assert (seen.holds, seen.share) == (True, pytest.approx(1 / 3))


@pytest.mark.parametrize(
    ("operator", "fills", "gradients"),
    [("aten::fill_", True, None), ("aten::_foreach_zero_", True, True), ("aten::mul_", False, False)],
)
def test_fills_are_named_and_where_there_are_none_denied(
    tmp_path: Path, operator: str, fills: bool, gradients: bool | None
) -> None:
    program = Program(tmp_path).run("fc", "aten::mm", MATRICES, BF16).run("", operator, [[4096]], FLOAT)
    found = [
        None if (seen := program.seen(topic)) is None else seen.holds
        for topic in ("fills", "clears_gradients")
    ]

    assert found == [fills, gradients]


def test_of_kernels_that_the_trace_does_not_tell_nothing_is_denied(tmp_path: Path) -> None:
    told = conditions(Program(tmp_path).run("", "mine::op", [[64]], FLOAT).broken_down())

    assert not {"compile", "graph", "training", "fills", "clears_gradients", "chains"} & told.keys()
