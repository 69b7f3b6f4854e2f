"""
The breakdown: by module, operator and kernel, and that nothing is lost on the way.

The GPU's events are written by hand from the format (`hand_written_look`): graphs, lost launches and the
like are in no recording of ours. One of a real GPU is read in `tests/attribute/test_real_look.py`.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hand_written_look import ENGINE, Look
from perfzero.attribute.breakdown import (
    COLLECTIVES_ROW,
    OPTIMIZER_ROW,
    OUTSIDE_ROW,
    REPLAYS_ROW,
    UNATTRIBUTED_ROW,
    Breakdown,
    Module,
    SourceLine,
)
from perfzero.attribute.tree import break_down
from perfzero.traces import Tensor

IMAGE = [[8, 64, 56, 56], [64, 64, 3, 3]]
LAST = [[200704, 1, 3584, 64], [576, 1, 192, 64]]
PLANAR = [[200704, 3136, 56, 1], [576, 9, 3, 1]]
BF16 = ["c10::BFloat16", "c10::BFloat16"]


def broken_down(look: Look, folder: Path) -> Breakdown:
    return break_down(look.trace(folder))


def module(breakdown: Breakdown, path: str) -> Module:
    return next(m for m in breakdown.modules if m.path == path)


def two_steps() -> Look:
    """Two steps of 1000 us: two convolutions of one kind, a linear layer, its loss, and an optimizer."""
    look = Look()
    for k in range(2):
        o = 1000 * k
        look.step(k, o, o + 1000)
        look.frame("train.py(9): train_step", o + 1, o + 990)
        look.module("", "Net", o + 10, o + 200)
        look.frame("model.py(41): forward", o + 11, o + 199)
        for i in range(2):
            at = o + 20 + 50 * i
            look.module(f"layers.{i}", "Block", at, at + 40)
            look.module(f"layers.{i}.conv", "Conv2d", at + 5, at + 35)
            look.op("aten::conv2d", at + 6, at + 30, sequence=10 * k + i)
            look.op("aten::cudnn_convolution", at + 8, at + 28, shapes=IMAGE, strides=LAST, types=BF16)
            look.work("conv_fprop", o + 300 + 20 * i, o + 310 + 20 * i, at=at + 10)
        look.module("head", "Linear", o + 150, o + 190)
        look.op("aten::addmm", o + 155, o + 185, sequence=10 * k + 2, shapes=[[10], [8, 64], [64, 10]])
        look.work("gemm", o + 340, o + 345, at=o + 160)
        look.op("aten::nll_loss", o + 210, o + 220, sequence=10 * k + 3)
        look.work("loss", o + 346, o + 347, at=o + 215)
        look.op("ConvolutionBackward0", o + 400, o + 440, ENGINE, sequence=10 * k, forward_thread=1)
        look.op("aten::convolution_backward", o + 405, o + 435, ENGINE, shapes=IMAGE, strides=PLANAR)
        look.work("conv_dgrad", o + 500, o + 540, at=o + 410, tid=ENGINE)
        look.optimizer(o + 600, o + 700)
        look.op("aten::_foreach_add_", o + 610, o + 650)
        look.work("adam", o + 620, o + 630, at=o + 620)
        look.kernel("stray", o + 700, o + 703, correlation=0)
    return look


def test_the_three_views_add_up_to_the_sum_of_all_durations(tmp_path: Path) -> None:
    found = broken_down(two_steps(), tmp_path)

    total = 2 * (10 + 10 + 5 + 1 + 40 + 10 + 3) * 1000
    assert found.total.gpu_ns == found.busy_ns == total
    assert (
        sum(m.own.time.gpu_ns for m in found.modules) + sum(r.time.gpu_ns for r in found.elsewhere) == total
    )
    assert sum(r.time.gpu_ns for r in found.operators) == total
    assert sum(k.row.time.gpu_ns for k in found.kernels) == total
    assert found.total.launches == 14


def test_calls_are_told_apart_by_operator_inputs_phase_module_and_kernel(tmp_path: Path) -> None:
    look = Look()
    for number, (module, size) in enumerate([("a", 8), ("a", 8), ("a", 9), ("b", 8)]):
        at = 50.0 * number
        look.module(module, "Layer", at, at + 40)
        look.op("aten::mm", at + 1, at + 39, shapes=[[size, 64]])
        look.work("gemm", 1000 + at, 1010 + at, at=at + 2)
    look.optimizer(300, 340)
    look.op("aten::mm", 301, 339, shapes=[[8, 64]])
    look.work("gemm", 1300, 1340, at=302)
    look.replay(400, 440)
    look.kernel("gemm", 1400, 1420, correlation=look.launch(402, name="cudaGraphLaunch"))
    calls = break_down(look.trace(tmp_path)).calls
    told = {(c.module, c.phase, c.call and c.call.inputs[0].shape[0]): c for c in calls}

    assert {key: (c.gpu_ns, c.launches) for key, c in told.items()} == {
        ("a", "forward", 8): (20_000, 2),
        ("a", "forward", 9): (10_000, 1),
        ("b", "forward", 8): (10_000, 1),
        (None, "optimizer", 8): (40_000, 1),
        (None, "other", None): (20_000, 0),
    }
    assert sum(c.share for c in calls) == pytest.approx(1)
    assert {(c.kernel, c.kind) for c in calls} == {("gemm", "kernel")}


def test_a_trace_without_work_has_no_calls(tmp_path: Path) -> None:
    assert break_down(Look().trace(tmp_path)).calls == ()


def test_modules_are_a_tree_the_heaviest_first(tmp_path: Path) -> None:
    found = broken_down(two_steps(), tmp_path)

    assert [(m.depth, m.path, m.class_name, m.parent, m.total.gpu_ns) for m in found.modules] == [
        (0, "", "Net", None, 130_000),
        (1, "layers", "", "", 120_000),
        (2, "layers.0", "Block", "layers", 100_000),
        (3, "layers.0.conv", "Conv2d", "layers.0", 100_000),
        (2, "layers.1", "Block", "layers", 20_000),
        (3, "layers.1.conv", "Conv2d", "layers.1", 20_000),
        (1, "head", "Linear", "", 10_000),
    ]
    assert module(found, "layers").own.time.gpu_ns == 0


def test_time_is_told_by_step_and_by_phase(tmp_path: Path) -> None:
    found = broken_down(two_steps(), tmp_path)
    time = module(found, "layers.0.conv").own.time

    assert found.steps == 2
    assert (time.forward_ns, time.backward_ns, time.optimizer_ns, time.other_ns) == (20_000, 80_000, 0, 0)
    assert time.per_step_ns == 50_000
    assert time.share == pytest.approx(100 / 158)
    assert time.launches == 4
    assert time.replay_ns == 0


def test_a_row_names_the_operator_the_kernel_and_the_line(tmp_path: Path) -> None:
    own = module(broken_down(two_steps(), tmp_path), "layers.0.conv").own

    assert own.call is not None
    assert own.call.operator == "aten::cudnn_convolution"  # the forward one, though backward takes longer
    assert own.call.inputs[0] == Tensor((8, 64, 56, 56), (200704, 1, 3584, 64), "c10::BFloat16")
    assert own.call.main == 0
    assert own.call.layout == "channels-last"
    assert own.kernel == "conv_dgrad"
    assert own.source == SourceLine("model.py", 41, "forward")


def test_the_line_that_called_a_module_is_told_where_the_range_names_it(tmp_path: Path) -> None:
    look = two_steps()
    look.module("tail", "Linear", 192, 198, site="/home/me/model.py:77")
    look.work("gemm", 800, 803, at=195)

    own = module(broken_down(look, tmp_path), "tail").own

    assert own.source == SourceLine("/home/me/model.py", 77)


def test_what_is_known_of_the_line_is_told_though_most_of_it_is_not(tmp_path: Path) -> None:
    look = Look()
    look.module("a", "Linear", 0, 10)
    look.module("a", "Linear", 20, 30, site="model.py:7")
    look.work("gemm", 100, 109, at=5)
    look.work("gemm", 110, 111, at=25)

    assert module(broken_down(look, tmp_path), "a").own.source == SourceLine("model.py", 7)


def test_of_several_lines_that_called_a_module_the_heaviest_is_told(tmp_path: Path) -> None:
    look = Look()
    for i, length in enumerate((3, 2, 2)):
        look.module("shared", "Linear", 20 * i, 20 * i + 19, site=f"model.py:{min(i, 1)}")
        look.module("shared", "Tied", 20 * i, 20 * i + 19, site=f"model.py:{min(i, 1)}")
        look.work("gemm", 100 + 20 * i, 100 + 20 * i + length, at=20 * i + 5)

    own = module(broken_down(look, tmp_path), "shared").own

    assert own.time.gpu_ns == 7_000
    assert own.source == SourceLine("model.py", 1)


def test_a_row_of_backward_work_only_tells_of_the_backward_operator(tmp_path: Path) -> None:
    found = broken_down(two_steps(), tmp_path)
    row = next(r for r in found.operators if r.name == "aten::convolution_backward")

    assert row.call is not None
    assert (row.call.operator, row.call.layout) == ("aten::convolution_backward", "NCHW")
    assert row.module == "layers.0.conv"
    assert row.source == SourceLine("model.py", 41, "forward")


def test_the_main_input_is_the_first_of_the_highest_rank(tmp_path: Path) -> None:
    call = module(broken_down(two_steps(), tmp_path), "head").own.call

    assert call is not None
    assert call.main == 1
    assert call.layout is None  # no convolution


def test_a_4d_tensor_of_no_convolution_has_no_layout(tmp_path: Path) -> None:
    look = Look()
    look.op("aten::softmax", 0, 10, shapes=[[8, 16, 128, 128]], strides=[[262144, 16384, 128, 1]])
    look.work("softmax", 20, 30, at=5)

    call = broken_down(look, tmp_path).operators[0].call

    assert call is not None
    assert call.layout is None


def test_what_belongs_to_no_module_stands_beside_the_tree(tmp_path: Path) -> None:
    found = broken_down(two_steps(), tmp_path)

    assert [(row.name, row.time.gpu_ns) for row in found.elsewhere] == [
        (OPTIMIZER_ROW, 20_000),
        (COLLECTIVES_ROW, 0),
        (REPLAYS_ROW, 0),
        (OUTSIDE_ROW, 2_000),
        (UNATTRIBUTED_ROW, 6_000),
    ]
    assert found.elsewhere[-1].module is None
    assert found.elsewhere[-1].source is None


def test_gradients_that_are_averaged_are_collectives_and_an_exchange_within_a_module_is_the_modules(
    tmp_path: Path,
) -> None:
    """The first is asked for by a hook between backward operators, the second in a forward pass."""
    look = Look()
    look.op("record_param_comms", 0, 10)
    look.work("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, 50, at=5)
    look.module("head", "Linear", 100, 140)
    look.op("record_param_comms", 110, 120)
    look.work("ncclKernel_AllGather_RING_LL_Sum_int8_t", 130, 137, at=115)
    look.op("record_param_comms", 150, 160)
    look.work("my_ncclDevKernel", 170, 174, at=155)
    found = broken_down(look, tmp_path)

    times = {row.name: row.time.gpu_ns for row in found.elsewhere}
    assert times[COLLECTIVES_ROW] == 30_000
    assert module(found, "head").own.time.gpu_ns == 7_000
    assert times[OUTSIDE_ROW] == 4_000


ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def test_of_collectives_that_time_is_exposed_in_which_nothing_else_runs_on_their_gpu(tmp_path: Path) -> None:
    """Of 40 us a product hides 15, an exchange within a module 5; a product on the other GPU hides none."""
    look = Look()
    look.work(ALL_REDUCE, 100, 140, at=5, stream=20)
    look.work("gemm", 90, 115, at=6)
    look.module("head", "Linear", 10, 20)
    look.work("ncclDevKernel_AllGather_RING_LL", 120, 125, at=12, stream=21)
    look.kernel("gemm", 100, 140, correlation=look.launch(30), device=1)

    assert broken_down(look, tmp_path).exposed_ns == 20_000


def test_of_collectives_beside_each_other_the_time_counts_once(tmp_path: Path) -> None:
    look = Look()
    look.work(ALL_REDUCE, 100, 140, at=5, stream=20)
    look.work(ALL_REDUCE, 120, 150, at=6, stream=21)
    found = broken_down(look, tmp_path)

    assert (found.exposed_ns, found.busy_ns, found.span_ns) == (50_000, 50_000, 50_000)


def test_without_collectives_nothing_is_exposed(tmp_path: Path) -> None:
    assert broken_down(two_steps(), tmp_path).exposed_ns == 0
    assert (broken_down(Look(), tmp_path).exposed_ns, broken_down(Look(), tmp_path).span_ns) == (0, 0)


def test_operators_and_kernels_are_ordered_by_time_and_the_rest_is_last(tmp_path: Path) -> None:
    found = broken_down(two_steps(), tmp_path)

    assert [(row.name, row.time.gpu_ns) for row in found.operators] == [
        ("aten::convolution_backward", 80_000),
        ("aten::cudnn_convolution", 40_000),
        ("aten::_foreach_add_", 20_000),
        ("aten::addmm", 10_000),
        ("aten::nll_loss", 2_000),
        (UNATTRIBUTED_ROW, 6_000),
    ]
    assert [k.row.name for k in found.kernels] == [
        "conv_dgrad", "conv_fprop", "adam", "gemm", "stray", "loss",
    ]  # fmt: skip
    assert {k.kind for k in found.kernels} == {"kernel"}
    assert found.kernels[1].row.module == "layers.0.conv"  # of equals the first


def test_like_modules_are_taken_together(tmp_path: Path) -> None:
    look = two_steps()
    look.work("conv_fprop", 800, 840, at=80)  # makes the second layer as heavy as the first

    alike = broken_down(look, tmp_path).alike

    assert [(a.row.name, a.class_name, a.count, a.row.time.gpu_ns) for a in alike] == [
        ("layers.*.conv", "Conv2d", 2, 160_000),
        ("head", "Linear", 1, 10_000),
    ]


def test_modules_that_get_something_else_are_not_alike(tmp_path: Path) -> None:
    look = Look()
    look.module("", "Net", 0, 100)
    for i, size in enumerate((8, 8, 16)):
        look.module(f"layers.{i}.fc", "Linear", 10 * i, 10 * i + 9)
        look.op("aten::addmm", 10 * i + 1, 10 * i + 8, shapes=[[4, size]])
        look.work("gemm", 100 + i, 101 + i, at=10 * i + 2)

    found = broken_down(look, tmp_path)

    assert [(a.row.name, a.count) for a in found.alike] == [("layers.*.fc", 2), ("layers.2.fc", 1)]


def test_equals_come_in_the_order_in_which_people_count(tmp_path: Path) -> None:
    look = Look()
    for i in (10, 2, 1):
        look.module(f"layers.{i}", "Linear", 10 * i, 10 * i + 9)
        look.work("gemm", 200 + i, 201 + i, at=10 * i + 2)

    paths = [m.path for m in broken_down(look, tmp_path).modules]

    assert paths == ["", "layers", "layers.1", "layers.2", "layers.10"]


def test_a_number_that_all_have_in_common_stays(tmp_path: Path) -> None:
    look = Look()
    for i in range(2):
        look.module(f"stage.1.{i}.fc2", "Linear", 10 * i, 10 * i + 9)
        look.work("gemm", 100 + i, 101 + i, at=10 * i + 2)

    assert [a.row.name for a in broken_down(look, tmp_path).alike] == ["stage.1.*.fc2"]


def test_busy_time_is_the_union_over_streams(tmp_path: Path) -> None:
    look = Look()
    look.work("a", 0, 10, at=0)
    look.work("b", 2, 4, at=1, stream=8)
    look.work("c", 8, 15, at=1, stream=8)
    look.work("d", 20, 25, at=1)

    found = broken_down(look, tmp_path)

    assert found.busy_ns == 20_000
    assert found.total.gpu_ns == 24_000
    assert found.total.share == pytest.approx(1.2)


def test_busy_time_of_two_devices_is_added(tmp_path: Path) -> None:
    look = Look()
    look.kernel("a", 0, 10, correlation=look.launch(0), device=0)
    look.kernel("a", 0, 10, correlation=look.launch(0), device=1)

    assert broken_down(look, tmp_path).busy_ns == 20_000


def test_work_outside_of_all_steps_counts_but_not_in_a_step(tmp_path: Path) -> None:
    look = two_steps()
    look.work("late", 3000, 3010, at=2500)

    found = broken_down(look, tmp_path)
    row = next(k.row for k in found.kernels if k.row.name == "late")

    assert (row.time.gpu_ns, row.time.per_step_ns) == (10_000, 0)


def test_replays_are_told_as_such(tmp_path: Path) -> None:
    look = Look()
    look.module("", "Net", 0, 20)
    graph = look.launch(5, name="cudaGraphLaunch")
    look.kernel("a", 30, 40, correlation=graph)
    look.kernel("b", 40, 45, correlation=graph)

    found = broken_down(look, tmp_path)

    assert module(found, "").own.time.replay_ns == 15_000
    assert [k.row.time.replay_ns for k in found.kernels] == [10_000, 5_000]
    assert found.total.launches == 2


def test_a_replay_in_no_module_has_a_row_with_the_line_that_asks_for_it(tmp_path: Path) -> None:
    look = Look()
    look.frame("train.py(3): train", -5, 90)
    look.step(0, 0, 80)
    look.replay(5, 10, site="/home/me/train.py:9")
    look.kernel("a", 30, 40, correlation=look.launch(6, name="cudaGraphLaunch"))

    found = broken_down(look, tmp_path)
    row = next(row for row in found.elsewhere if row.name == REPLAYS_ROW)

    assert found.modules == ()
    assert (row.time.gpu_ns, row.time.replay_ns) == (10_000, 10_000)
    assert row.source == SourceLine("/home/me/train.py", 9)


def test_a_copy_is_told_from_a_kernel_of_the_same_name(tmp_path: Path) -> None:
    look = Look()
    look.kernel("x", 0, 10, correlation=0)
    look.kernel("x", 10, 30, correlation=0, cat="gpu_memcpy")

    assert [(k.kind, k.row.time.gpu_ns) for k in broken_down(look, tmp_path).kernels] == [
        ("memcpy", 20_000),
        ("kernel", 10_000),
    ]


def test_a_loss_is_not_the_model_though_both_are_outermost(tmp_path: Path) -> None:
    look = Look()
    look.module("", "ResNet", 0, 40, site="train.py:5")
    look.module("fc", "Linear", 10, 20, site="model.py:9")
    look.work("add", 200, 201, at=25)
    look.work("gemm", 201, 203, at=15)
    look.module("", "CrossEntropyLoss", 41, 50, site="train.py:6")
    look.work("ce", 210, 240, at=43)

    found = broken_down(look, tmp_path)

    assert [(m.path, m.class_name, m.parent, m.depth, m.own.time.gpu_ns) for m in found.modules] == [
        ("", "ResNet", None, 0, 1_000),
        ("fc", "Linear", "", 1, 2_000),
        ("(CrossEntropyLoss)", "CrossEntropyLoss", None, 0, 30_000),
    ]
    assert [m.total.gpu_ns for m in found.modules] == [3_000, 2_000, 30_000]
    assert found.modules[2].own.source == SourceLine("train.py", 6)
    assert found.kernels[0].row.module == "(CrossEntropyLoss)"


def test_a_model_around_the_model_is_no_loss(tmp_path: Path) -> None:
    """A compiled model calls the one it is made of."""
    look = Look()
    look.module("", "OptimizedModule", 0, 40)
    look.module("", "ResNet", 1, 39)
    look.module("fc", "Linear", 10, 20)
    look.module("fc", "Linear", 10, 20, 300)
    look.module("", "Loss", 41, 50)
    look.module("", "Loss", 5, 15, 301)

    assert [m.path for m in broken_down(look, tmp_path).modules] == ["", "fc", "(Loss)"]


def test_a_model_of_one_module_is_the_model(tmp_path: Path) -> None:
    look = Look()
    look.module("", "Linear", 0, 40)

    assert [(m.path, m.class_name) for m in broken_down(look, tmp_path).modules] == [("", "Linear")]


def test_a_path_in_brackets_is_not_taken_twice(tmp_path: Path) -> None:
    look = Look()
    look.module("", "Net", 0, 40)
    look.module("(Loss)", "Linear", 10, 20)
    look.module("", "Loss", 41, 50)
    look.work("x", 100, 101, at=15)
    look.work("y", 101, 109, at=45)

    assert [(m.path, m.own.time.gpu_ns, m.parent) for m in broken_down(look, tmp_path).modules] == [
        ("", 8_000, None),
        ("(Loss)", 1_000, ""),
    ]


def test_two_models_share_a_tree_and_the_heavier_gives_the_class(tmp_path: Path) -> None:
    look = Look()
    for i, (class_name, length) in enumerate((("Generator", 3), ("Discriminator", 5))):
        look.module("", class_name, 20 * i, 20 * i + 19)
        look.module("main", "Sequential", 20 * i + 10, 20 * i + 18)
        look.work("gemm", 100 + 20 * i, 100 + 20 * i + length, at=20 * i + 5)

    found = broken_down(look, tmp_path)

    assert [(m.path, m.class_name, m.own.time.gpu_ns) for m in found.modules] == [
        ("", "Discriminator", 8_000),
        ("main", "Sequential", 0),
    ]


def test_a_trace_without_gpu_work_says_so(tmp_path: Path) -> None:
    look = Look()
    look.step(0, 0, 10)
    look.module("", "Net", 0, 10)

    found = broken_down(look, tmp_path)

    assert found.doubts == ("The trace holds no work of a GPU.",)
    assert found.total.gpu_ns == found.busy_ns == 0
    assert math.isnan(found.total.share)
    assert found.kernels == found.alike == ()
    assert [m.path for m in found.modules] == [""]


def test_a_trace_without_steps_says_so(tmp_path: Path) -> None:
    look = Look()
    look.work("a", 0, 10, at=0)

    found = broken_down(look, tmp_path)

    assert found.doubts == ("The trace marks no steps, so there is no time per step.",)
    assert math.isnan(found.total.per_step_ns)


def test_doubts_of_the_trace_come_along(tmp_path: Path) -> None:
    look = two_steps()
    look.events.append(None)

    assert broken_down(look, tmp_path).doubts == ("look-4242.json.gz: 1 damaged events were skipped.",)


EVENT = st.tuples(
    st.sampled_from(["module", "op", "backward", "optimizer", "work", "stray", "graph", "replay"]),
    st.sampled_from(["", "a", "a.0", "a.1", "b"]),
    st.integers(0, 40),
    st.integers(0, 20),
    st.sampled_from([100, 200]),
)


@settings(max_examples=50)
@given(st.lists(EVENT, max_size=30))
def test_nothing_is_lost_whatever_was_traced(events: list[tuple[str, str, int, int, int]]) -> None:
    """Each view adds up to the whole, phases and trees do, and the GPU is busy no longer than it works."""
    look = Look()
    for kind, path, start, length, tid in events:
        if kind == "module":
            look.module(path, "MN"[start % 2], start, start + length, tid)
        elif kind == "op":
            look.op(f"aten::{path}", start, start + length, tid, sequence=start % 5)
        elif kind == "backward":
            look.op("Backward0", start, start + length, tid, sequence=start % 5, forward_thread=1)
        elif kind == "optimizer":
            look.optimizer(start, start + length, tid)
        elif kind == "replay":
            look.replay(start, start + length, tid)
        elif kind == "stray":
            look.kernel(path, start, start + length, correlation=0)
        elif kind == "graph":
            look.kernel(
                path, start, start + length, correlation=look.launch(start, tid, name="cudaGraphLaunch")
            )
        else:
            look.work(path, start, start + length, at=start, tid=tid, stream=start % 2)
    with tempfile.TemporaryDirectory() as folder:
        found = broken_down(look, Path(folder))

    total = found.total.gpu_ns
    rows = [*(m.own for m in found.modules), *found.elsewhere]
    assert sum(row.time.gpu_ns for row in rows) == total
    assert sum(row.time.launches for row in rows) == found.total.launches
    assert sum(row.time.gpu_ns for row in found.operators) == total
    assert sum(k.row.time.gpu_ns for k in found.kernels) == total
    assert sum(a.row.time.gpu_ns for a in found.alike) == sum(m.own.time.gpu_ns for m in found.modules)
    for row in rows:
        time = row.time
        assert time.gpu_ns == time.forward_ns + time.backward_ns + time.optimizer_ns + time.other_ns
    if found.modules:
        roots = sum(m.total.gpu_ns for m in found.modules if m.parent is None)
        assert roots == sum(m.own.time.gpu_ns for m in found.modules)
    assert found.busy_ns <= total
