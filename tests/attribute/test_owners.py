"""
Who asked for a piece of GPU work: launches, modules, the backward pass, lines.

The GPU's events are written by hand from the format (`hand_written_look`) until a recording of a real GPU
takes their place. The rules for the backward pass are held against a real trace of a CPU: a launch is put
into each of its operators, and has to belong to the module that called it, or whose backward pass it is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hand_written_look import ENGINE, MAIN, Look
from perfzero.attribute.owners import (
    BACKWARD,
    FORWARD,
    IN_MODULE,
    IN_OPTIMIZER,
    IN_REPLAY,
    OPTIMIZER,
    OTHER,
    OUTSIDE,
    UNKNOWN,
    Owners,
    find_owners,
)
from perfzero.store.kineto import read_trace
from perfzero.traces import Launches, Site, Trace, Work

REAL = Path(__file__).parents[1] / "fixtures" / "look" / "look-4242.json.gz"


def module_paths(trace: Trace, owners: Owners) -> list[str | None]:
    return [None if m < 0 else trace.modules[m].path for m in owners.module.tolist()]


def operator_names(trace: Trace, owners: Owners) -> list[str | None]:
    operators = trace.operators
    return [None if o < 0 else operators.names[operators.spans.what[o]] for o in owners.operator.tolist()]


def a_training_step() -> Look:
    """A convolution in a module, its backward pass on autograd's thread, and a step of the optimizer."""
    look = Look()
    look.step(0, 0, 1000)
    look.frame("train.py(9): train_step", 1, 900)
    look.module("", "Net", 10, 100)
    look.frame("model.py(41): forward", 15, 95)
    look.module("conv1", "Conv2d", 20, 50)
    look.frame("torch/nn/modules/conv.py(553): forward", 22, 49)
    look.op("aten::conv2d", 25, 45, sequence=4)
    look.op("aten::convolution", 26, 44, sequence=4)
    look.op("aten::cudnn_convolution", 28, 42)
    look.op(
        "autograd::engine::evaluate_function: ConvolutionBackward0",
        200,
        260,
        ENGINE,
        sequence=4,
        forward_thread=1,
    )
    look.op("ConvolutionBackward0", 205, 255, ENGINE, sequence=4, forward_thread=1)
    look.flow(26, 205)
    look.op("aten::convolution_backward", 210, 250, ENGINE)
    look.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 270, 290, ENGINE)
    look.op("aten::add_", 272, 288, ENGINE)
    look.optimizer(400, 500)
    look.op("aten::_foreach_add_", 410, 440)
    return look


# --- forward


def test_a_kernel_belongs_to_the_innermost_module_and_operator_around_its_launch(tmp_path: Path) -> None:
    look = a_training_step()
    look.work("gemm", 60, 90, at=30)

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert module_paths(trace, owners) == ["conv1"]
    assert operator_names(trace, owners) == ["aten::cudnn_convolution"]
    assert owners.phase.tolist() == [FORWARD]
    assert owners.place.tolist() == [IN_MODULE]


def test_when_a_kernel_runs_does_not_matter(tmp_path: Path) -> None:
    """Launched in conv1, it runs while the host is long in the optimizer."""
    look = a_training_step()
    look.work("gemm", 420, 450, at=30)

    trace = look.trace(tmp_path)

    assert module_paths(trace, find_owners(trace)) == ["conv1"]


def test_a_launch_on_another_thread_is_in_no_module_of_this_one(tmp_path: Path) -> None:
    look = a_training_step()
    look.work("copy", 60, 90, at=30, tid=300)

    owners = find_owners(look.trace(tmp_path))

    assert owners.place.tolist() == [OUTSIDE]
    assert owners.operator.tolist() == [-1]
    assert owners.phase.tolist() == [OTHER]


def test_a_launch_outside_of_all_modules_is_outside(tmp_path: Path) -> None:
    look = a_training_step()
    look.op("aten::cross_entropy_loss", 120, 140, sequence=5)
    look.work("softmax", 150, 160, at=130)

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert owners.place.tolist() == [OUTSIDE]
    assert operator_names(trace, owners) == ["aten::cross_entropy_loss"]


def test_a_kernel_without_a_launch_is_unknown(tmp_path: Path) -> None:
    look = a_training_step()
    look.kernel("gemm", 30, 40, correlation=99)
    look.kernel("gemm", 30, 40, correlation=0)

    owners = find_owners(look.trace(tmp_path))

    assert owners.place.tolist() == [UNKNOWN, UNKNOWN]
    assert owners.module.tolist() == owners.operator.tolist() == owners.function.tolist() == [-1, -1]
    assert owners.in_step.tolist() == [False, False]


def test_the_call_that_the_profiler_noted_stands_in_for_a_launch_that_is_missing(tmp_path: Path) -> None:
    look = a_training_step()
    look.op("aten::relu", 60, 70, external_id=17)
    look.kernel("relu", 300, 310, correlation=99, **{"External id": 17})

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert operator_names(trace, owners) == ["aten::relu"]
    assert module_paths(trace, owners) == [""]


def test_the_call_that_the_profiler_noted_goes_before_what_the_clocks_say(tmp_path: Path) -> None:
    """The launch seems to lie just behind its operator: the two have clocks of their own."""
    look = a_training_step()
    look.module("conv2", "Conv2d", 50, 80)
    look.op("aten::relu", 46, 49, external_id=17)
    look.kernel("relu", 300, 310, correlation=look.launch(50.5), **{"External id": 17})

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert operator_names(trace, owners) == ["aten::relu"]
    assert module_paths(trace, owners) == ["conv1"]


def test_the_call_that_the_profiler_noted_goes_before_one_that_lies_in_it(tmp_path: Path) -> None:
    look = a_training_step()
    look.op("aten::relu", 60, 70, external_id=17)
    look.op("aten::empty", 62, 66, external_id=18)
    look.kernel("relu", 300, 310, correlation=look.launch(64), **{"External id": 17})

    trace = look.trace(tmp_path)

    assert operator_names(trace, find_owners(trace)) == ["aten::relu"]


def test_a_launch_on_a_thread_that_the_profiler_could_not_name_is_where_its_call_is(tmp_path: Path) -> None:
    look = a_training_step()
    look.op("aten::relu", 46, 49, external_id=17)
    look.kernel("relu", 300, 310, correlation=look.launch(47, -1234567), **{"External id": 17})

    trace = look.trace(tmp_path)

    assert module_paths(trace, find_owners(trace)) == ["conv1"]


def test_an_external_id_of_zero_is_none(tmp_path: Path) -> None:
    look = a_training_step()
    look.op("aten::relu", 60, 70, external_id=0)
    look.kernel("gemm", 60, 90, correlation=look.launch(30), **{"External id": 0})

    trace = look.trace(tmp_path)

    assert operator_names(trace, find_owners(trace)) == ["aten::cudnn_convolution"]


def test_an_external_id_of_no_call_changes_nothing(tmp_path: Path) -> None:
    look = a_training_step()
    look.kernel("gemm", 60, 90, correlation=look.launch(30), **{"External id": 1234})

    trace = look.trace(tmp_path)

    assert operator_names(trace, find_owners(trace)) == ["aten::cudnn_convolution"]


def test_launches_on_two_places_with_one_number_say_nothing(tmp_path: Path) -> None:
    look = a_training_step()
    look.op("aten::relu", 60, 70, external_id=17)
    first, second = look.launch(30), look.launch(130)
    look.events[-1]["args"]["correlation"] = first
    look.kernel("gemm", 200, 210, correlation=first)
    look.kernel("relu", 210, 220, correlation=first, **{"External id": 17})

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert second != first
    assert owners.place.tolist() == [UNKNOWN, IN_MODULE]
    assert operator_names(trace, owners) == [None, "aten::relu"]


def test_a_launch_within_another_with_its_number_is_the_same(tmp_path: Path) -> None:
    """The runtime's call has the driver's in it."""
    look = a_training_step()
    number = look.launch(30)
    look.span("cuda_driver", "cuLaunchKernel", 30.2, 30.8, correlation=number)
    look.kernel("gemm", 200, 210, correlation=number)

    trace = look.trace(tmp_path)

    assert module_paths(trace, find_owners(trace)) == ["conv1"]


def test_times_below_zero_are_times_as_others(tmp_path: Path) -> None:
    """A file that does not say from when its times count may have any."""
    look = a_training_step()
    look.header = {}
    look.work("gemm", 60, 90, at=30)
    look.work("dgrad", 300, 350, at=220, tid=ENGINE)
    look.work("adam", 430, 440, at=420)
    look.kernel("stray", 500, 510, correlation=0)
    for event in look.events:
        event["ts"] -= 5000

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert module_paths(trace, owners) == ["conv1", "conv1", None, None]
    assert owners.place.tolist() == [IN_MODULE, IN_MODULE, IN_OPTIMIZER, UNKNOWN]
    assert owners.in_step.tolist() == [True, True, True, False]
    assert owners.called.tolist() == [True, True, False, False]


# --- backward


def test_backward_work_belongs_to_the_module_of_its_forward_operator(tmp_path: Path) -> None:
    look = a_training_step()
    look.work("dgrad", 300, 350, at=220, tid=ENGINE)

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert module_paths(trace, owners) == ["conv1"]
    assert operator_names(trace, owners) == ["aten::convolution_backward"]
    assert owners.phase.tolist() == [BACKWARD]
    assert owners.place.tolist() == [IN_MODULE]


def test_without_a_flow_the_only_thread_with_the_number_is_taken(tmp_path: Path) -> None:
    look = a_training_step()
    look.events = [event for event in look.events if event["cat"] != "fwdbwd"]
    look.work("dgrad", 300, 350, at=220, tid=ENGINE)

    trace = look.trace(tmp_path)

    assert trace.forward_threads == {}
    assert module_paths(trace, find_owners(trace)) == ["conv1"]


def test_without_a_flow_and_with_two_threads_that_have_the_number_none_is_guessed(tmp_path: Path) -> None:
    look = a_training_step()
    look.events = [event for event in look.events if event["cat"] != "fwdbwd"]
    look.op("aten::mm", 30, 40, 300, sequence=4)
    look.work("dgrad", 300, 350, at=220, tid=ENGINE)

    owners = find_owners(look.trace(tmp_path))

    assert owners.place.tolist() == [UNKNOWN]
    assert owners.phase.tolist() == [BACKWARD]


def test_a_flow_decides_between_two_threads_that_have_the_number(tmp_path: Path) -> None:
    look = a_training_step()
    look.module("other", "Linear", 20, 60, 300)
    look.op("aten::mm", 30, 40, 300, sequence=4)
    look.work("dgrad", 300, 350, at=220, tid=ENGINE)

    trace = look.trace(tmp_path)

    assert module_paths(trace, find_owners(trace)) == ["conv1"]


def test_of_operators_with_one_number_the_last_one_made_the_node(tmp_path: Path) -> None:
    """In front of the convolution an operator without gradient has the number that is next."""
    look = a_training_step()
    look.module("norm", "Normalize", 12, 18)
    look.op("aten::to", 13, 17, sequence=4)
    look.work("dgrad", 300, 350, at=220, tid=ENGINE)

    trace = look.trace(tmp_path)

    assert module_paths(trace, find_owners(trace)) == ["conv1"]


def test_without_a_flow_a_thread_of_another_kind_is_not_guessed(tmp_path: Path) -> None:
    """The number is of an operator that was recomputed; the one that made the node was not seen."""
    look = a_training_step()
    look.events = [event for event in look.events if event["cat"] != "fwdbwd"]
    look.module("again", "Block", 300, 310, ENGINE)
    look.op("aten::mul", 302, 304, ENGINE, sequence=7)
    look.op("MulBackward0", 320, 340, ENGINE, sequence=7, forward_thread=1)
    look.work("mul", 350, 360, at=330, tid=ENGINE)

    assert find_owners(look.trace(tmp_path)).place.tolist() == [UNKNOWN]


def a_gradient_of_a_gradient() -> Look:
    """The backward pass of the convolution is differentiated itself: with a gradient penalty."""
    look = a_training_step()
    look.op("aten::mm", 215, 225, ENGINE, sequence=8)
    look.op("MmBackward0", 300, 320, ENGINE, sequence=8, forward_thread=2)
    look.flow(215, 300, from_tid=ENGINE)
    look.work("twice", 400, 410, at=310, tid=ENGINE)
    return look


def test_the_gradient_of_a_gradient_belongs_to_the_module_of_the_forward_pass(tmp_path: Path) -> None:
    trace = a_gradient_of_a_gradient().trace(tmp_path)
    owners = find_owners(trace)

    assert module_paths(trace, owners) == ["conv1"]
    assert owners.phase.tolist() == [BACKWARD]
    assert source(trace, owners) == [("model.py", 41, True)]


def test_a_gradient_of_a_gradient_whose_forward_pass_was_not_seen_is_unknown(tmp_path: Path) -> None:
    look = a_gradient_of_a_gradient()
    look.events = [e for e in look.events if e["cat"] != "cpu_op" or e["args"].get("Fwd thread id") != 0]
    look.op("aten::mm", 215, 225, ENGINE, sequence=8)

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert owners.place.tolist() == [UNKNOWN]
    assert module_paths(trace, owners) == [None]


def test_a_backward_operator_that_is_said_to_have_made_itself_is_unknown(tmp_path: Path) -> None:
    look = a_training_step()
    look.op("MmBackward0", 300, 320, ENGINE, sequence=9, forward_thread=2)
    look.op("aten::mm", 305, 310, ENGINE, sequence=9)
    look.flow(305, 300, from_tid=ENGINE)
    look.work("x", 400, 410, at=315, tid=ENGINE)

    assert find_owners(look.trace(tmp_path)).place.tolist() == [UNKNOWN]


def test_backward_work_whose_forward_pass_was_not_seen_is_unknown(tmp_path: Path) -> None:
    look = a_training_step()
    look.op("MmBackward0", 300, 320, ENGINE, sequence=3, forward_thread=1)
    look.work("gemm", 330, 340, at=310, tid=ENGINE)

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert owners.place.tolist() == [UNKNOWN]
    assert owners.phase.tolist() == [BACKWARD]
    assert operator_names(trace, owners) == ["MmBackward0"]


def test_gradients_of_a_tensor_used_twice_are_added_up_by_an_operator_that_gives_one(tmp_path: Path) -> None:
    look = a_training_step()
    look.op("aten::add", 256, 259, ENGINE)
    look.work("add", 330, 340, at=257, tid=ENGINE)

    trace = look.trace(tmp_path)

    assert module_paths(trace, find_owners(trace)) == ["conv1"]


def test_adding_to_the_gradient_of_a_parameter_belongs_to_no_module(tmp_path: Path) -> None:
    look = a_training_step()
    look.work("add", 330, 340, at=280, tid=ENGINE)

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert owners.place.tolist() == [UNKNOWN]
    assert owners.phase.tolist() == [BACKWARD]
    assert operator_names(trace, owners) == ["aten::add_"]


def test_the_backward_pass_of_a_loss_is_outside_of_all_modules(tmp_path: Path) -> None:
    look = a_training_step()
    look.op("aten::nll_loss", 120, 140, sequence=9)
    look.op("NllLossBackward0", 150, 160, ENGINE, sequence=9, forward_thread=1)
    look.work("loss", 170, 180, at=155, tid=ENGINE)

    owners = find_owners(look.trace(tmp_path))

    assert owners.place.tolist() == [OUTSIDE]
    assert owners.phase.tolist() == [BACKWARD]


def test_a_module_that_runs_again_in_the_backward_pass_owns_what_it_launches(tmp_path: Path) -> None:
    look = a_training_step()
    look.module("conv1", "Conv2d", 206, 209, ENGINE)
    look.op("aten::conv2d", 207, 209, ENGINE, sequence=6)
    look.work("again", 300, 350, at=208, tid=ENGINE)
    look.work("dgrad", 350, 360, at=220, tid=ENGINE)

    owners = find_owners(look.trace(tmp_path))

    assert owners.phase.tolist() == [FORWARD, BACKWARD]
    assert owners.place.tolist() == [IN_MODULE, IN_MODULE]


# --- optimizer, graphs, steps


def test_what_the_optimizer_launches_is_the_optimizers(tmp_path: Path) -> None:
    look = a_training_step()
    look.work("adam", 430, 440, at=420)

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert owners.place.tolist() == [IN_OPTIMIZER]
    assert owners.phase.tolist() == [OPTIMIZER]
    assert module_paths(trace, owners) == [None]


def test_a_model_that_the_optimizer_calls_owns_what_it_launches(tmp_path: Path) -> None:
    look = a_training_step()
    look.module("", "Net", 450, 480)
    look.work("closure", 490, 495, at=460)

    owners = find_owners(look.trace(tmp_path))

    assert owners.place.tolist() == [IN_MODULE]


def test_all_kernels_of_a_replay_belong_to_the_module_around_its_launch(tmp_path: Path) -> None:
    look = a_training_step()
    graph = look.launch(60, name="cudaGraphLaunch")
    look.kernel("a", 100, 110, correlation=graph)
    look.kernel("b", 110, 120, correlation=graph, **{"graph node id": 2})
    look.work("c", 120, 130, at=30)

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert module_paths(trace, owners) == ["", "", "conv1"]
    assert owners.replay.tolist() == [True, True, False]


def replayed(look: Look, at: float, tid: int = MAIN, *, site: str = "train.py:7") -> None:
    """A graph of one kernel, replayed at *at*."""
    look.replay(at, at + 3, tid, site=site)
    look.kernel("a", 1000 + at, 1001 + at, correlation=look.launch(at + 1, tid, name="cudaGraphLaunch"))


@pytest.mark.parametrize(
    ("at", "tid", "place", "phase", "path"),
    [
        (30, MAIN, IN_MODULE, FORWARD, "conv1"),
        (220, ENGINE, IN_MODULE, BACKWARD, "conv1"),
        (280, ENGINE, UNKNOWN, BACKWARD, None),
        (420, MAIN, IN_OPTIMIZER, OPTIMIZER, None),
        (130, MAIN, IN_REPLAY, OTHER, None),
    ],
)
def test_what_is_around_the_call_that_replays_a_graph_owns_its_kernels(
    at: float, tid: int, place: int, phase: int, path: str | None, tmp_path: Path
) -> None:
    look = a_training_step()
    replayed(look, at, tid)

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert owners.place.tolist() == [place]
    assert owners.phase.tolist() == [phase]
    assert module_paths(trace, owners) == [path]
    assert owners.site.tolist() == [0 if place == IN_REPLAY else -1]


def test_a_replay_outside_of_all_else_names_the_line_that_asks_for_it(tmp_path: Path) -> None:
    look = a_training_step()
    replayed(look, 130, site="train.py:7")
    replayed(look, 140, site="")
    look.work("copy", 1300, 1301, at=150)

    trace = look.trace(tmp_path)
    owners = find_owners(trace)

    assert trace.sites == (Site("train.py", 7),)
    assert owners.place.tolist() == [IN_REPLAY, IN_REPLAY, OUTSIDE]
    assert owners.site.tolist() == [0, -1, -1]


def test_a_kernel_of_a_graph_whose_launch_was_not_seen_is_a_replay(tmp_path: Path) -> None:
    look = a_training_step()
    look.kernel("a", 100, 110, correlation=99, **{"graph node id": 2})

    assert find_owners(look.trace(tmp_path)).replay.tolist() == [True]


def test_work_is_part_of_a_step_if_it_was_launched_in_it_on_whatever_thread(tmp_path: Path) -> None:
    look = a_training_step()
    look.work("in", 1100, 1110, at=220, tid=ENGINE)
    look.work("after", 1110, 1120, at=1050)

    assert find_owners(look.trace(tmp_path)).in_step.tolist() == [True, False]


# --- lines


def source(trace: Trace, owners: Owners) -> list[tuple[str, int, bool] | None]:
    return [
        None if f < 0 else (trace.functions[f].file, trace.functions[f].line, bool(began))
        for f, began in zip(owners.function.tolist(), owners.began.tolist(), strict=True)
    ]


def test_the_line_is_that_of_the_innermost_function_of_the_user(tmp_path: Path) -> None:
    look = a_training_step()
    look.work("gemm", 60, 90, at=30)
    look.work("dgrad", 300, 350, at=220, tid=ENGINE)
    look.work("adam", 430, 440, at=420)

    trace = look.trace(tmp_path)

    assert source(trace, find_owners(trace)) == [
        ("model.py", 41, True),
        ("model.py", 41, True),
        ("train.py", 9, True),
    ]


def test_a_function_that_ran_before_the_first_step_has_no_line_of_its_own(tmp_path: Path) -> None:
    """Kineto gives the line that was running when the trace began."""
    look = Look()
    look.frame("train.py(88): <module>", -50, 1000)
    look.step(0, 0, 900)
    look.work("gemm", 60, 90, at=30)

    trace = look.trace(tmp_path)

    assert source(trace, find_owners(trace)) == [("train.py", 88, False)]


def test_what_called_the_module_is_closer_than_the_function_around_it(tmp_path: Path) -> None:
    look = a_training_step()
    look.module("conv2", "Conv2d", 60, 80, site="model.py:45")
    look.op("aten::conv2d", 62, 78, sequence=7)
    look.op("ConvolutionBackward0", 300, 310, ENGINE, sequence=7, forward_thread=1)
    look.work("gemm", 100, 110, at=70)
    look.work("dgrad", 320, 330, at=305, tid=ENGINE)
    look.work("adam", 430, 440, at=420)

    assert find_owners(look.trace(tmp_path)).called.tolist() == [True, True, False]


def test_a_function_within_the_module_is_closer_than_what_called_it(tmp_path: Path) -> None:
    """Work of the network's own forward, between its layers."""
    look = a_training_step()
    look.work("sigmoid", 100, 110, at=17)

    assert find_owners(look.trace(tmp_path)).called.tolist() == [False]


def test_without_a_function_of_the_user_there_is_no_line(tmp_path: Path) -> None:
    look = Look()
    look.frame("torch/nn/modules/conv.py(553): forward", 0, 100)
    look.work("gemm", 60, 90, at=30)

    trace = look.trace(tmp_path)

    assert source(trace, find_owners(trace)) == [None]


# --- against a real trace


@pytest.fixture(scope="module")
def real() -> Trace:
    """The real trace of a CPU, with a launch of our own in the middle of each operator, in their order."""
    trace = read_trace(REAL)
    spans = trace.operators.spans
    n = len(spans)
    number = np.arange(1, n + 1)
    zero, no = np.zeros(n, np.int64), np.zeros(n, bool)
    # At the start: what lies inside begins later, so each launch is in its own operator.
    launches = Launches(spans.thread, spans.start_ns, spans.start_ns + 1, number, no)
    work = Work(10**18 + number, 10**18 + number + 1, zero, zero, zero, zero, number, zero - 1, no, ("k",))
    return replace(trace, launches=launches, work=work)


def owned(trace: Trace, name: str, *, phase: int) -> list[str | None]:
    """The modules of the launches in the operators called *name*, in order."""
    owners = find_owners(trace)
    operators = trace.operators
    wanted = [operators.names[what] == name for what in operators.spans.what]
    paths = module_paths(trace, owners)
    return [p for p, w, f in zip(paths, wanted, owners.phase.tolist(), strict=True) if w and f == phase]


def test_a_launch_at_the_start_of_an_operator_is_in_it(real: Trace) -> None:
    assert find_owners(real).operator.tolist() == list(range(len(real.operators)))


def test_real_convolutions_belong_to_their_modules_forward_and_recomputed(real: Trace) -> None:
    step = ["blocks.0.conv", "blocks.1.conv", "blocks.1.conv"]  # the second one twice: checkpointed

    assert owned(real, "aten::convolution", phase=FORWARD) == 2 * step


def test_real_backward_convolutions_belong_to_their_modules(real: Trace) -> None:
    assert owned(real, "aten::convolution_backward", phase=BACKWARD) == 2 * ["blocks.1.conv", "blocks.0.conv"]


def test_real_backward_work_of_a_functional_call_belongs_to_the_module_that_made_it(real: Trace) -> None:
    """The sigmoid is called in the network's own forward."""
    assert owned(real, "aten::sigmoid_backward", phase=BACKWARD) == ["", ""]
    assert owned(real, "aten::mm", phase=BACKWARD) == 4 * ["head"]


def test_the_real_loss_is_outside_of_all_modules_and_the_real_optimizer_by_itself(real: Trace) -> None:
    owners = find_owners(real)
    names = np.array(operator_names(real, owners))

    assert set(owners.place[names == "aten::nll_loss_backward"]) == {OUTSIDE}
    assert set(owners.place[names == "aten::_log_softmax"]) == {OUTSIDE}
    assert set(owners.place[names == "aten::_foreach_lerp_"]) == {IN_OPTIMIZER}
    assert set(owners.place[names == "torch::autograd::AccumulateGrad"]) == {UNKNOWN}


def test_real_work_is_all_launched_in_steps_and_told_by_lines_of_the_program(real: Trace) -> None:
    owners = find_owners(real)
    files = {real.functions[f].file for f in owners.function.tolist() if f >= 0}

    assert owners.in_step.all()
    assert files == {"make_cpu_trace.py"}
    forward = (owners.phase == FORWARD) & (owners.module >= 0)
    assert {real.functions[f].name for f in owners.function[forward].tolist()} == {"forward"}


def test_the_real_function_that_ran_when_the_trace_began_has_no_line(real: Trace) -> None:
    owners = find_owners(real)
    loops = [i for i, f in enumerate(owners.function.tolist()) if f >= 0 and real.functions[f].name == "main"]
    steps = {
        (real.functions[f].line, began)
        for f, began in zip(owners.function.tolist(), owners.began.tolist(), strict=True)
        if f >= 0 and real.functions[f].name == "train_step"
    }

    assert not owners.began[loops].any()
    begins = (
        REAL.with_name("make_cpu_trace.py")
        .read_text()
        .splitlines()
        .index("def train_step(net, optimizer, x, y):")
    )
    assert steps == {(begins + 1, True)}
