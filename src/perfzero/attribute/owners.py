"""
For every piece of GPU work: who asked for it.

    work --correlation--> launch --same thread, same moment--> operator, module, optimizer, Python function

Kineto notes the operator's call with the work too, as its external id. That goes before what the clocks say,
which are two, and stands in where the launch was not recorded or lies on a thread that the profiler could not
name.

Of the module calls, backward operators and optimizer calls around a launch the one that began last owns it:
with activation checkpointing a module runs again inside a backward operator, and that is the module's. The
call that replays a graph owns what it launches only where none of the three is around it.

A backward operator has autograd's number of the node it runs, and its own number of the thread that made
the node. The forward operator that made it is the last one on that thread with the number, since a composite
operator and what it calls share the number until a node is made with it. The work belongs to the module and
the line of that forward operator. Where that one was itself part of a backward pass, as with a gradient of
gradients, it is followed on. Backward work without a number, such as adding to the gradient of a parameter,
belongs to no module.

A moment may be any number, so what is not known is said by masks, or by thread -1, on which nothing runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfzero.attribute.enclosing import innermost
from perfzero.attribute.source_lines import is_users
from perfzero.traces import BoolArray, Launches, Operators, Spans, Trace
from perfzero.values import IntArray

FORWARD, BACKWARD, OPTIMIZER, OTHER = range(4)
"""What a piece of work is part of; OTHER is what runs outside of all modules, such as a loss or a copy."""

IN_MODULE, IN_OPTIMIZER, COLLECTIVE, IN_REPLAY, OUTSIDE, UNKNOWN = range(6)
"""
Whose it is. COLLECTIVE: a kernel of NCCL that no module asked for. IN_REPLAY: of a graph that was replayed
outside of all else. OUTSIDE: launched in no module. UNKNOWN: its launch, or its forward pass, is not known.
"""

_NCCL = ("ncclDevKernel", "ncclKernel")
"""How NCCL's kernels are called, from 2.19 on and before."""

_HIGHEST_ORDER = 8
"""How often a backward pass is followed to the one that made it; gradients of gradients take one."""

_NEVER = np.iinfo(np.int64).min

_ENGINE = "autograd::engine::evaluate_function"


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """
    Row by row with the work of a trace, arrays of shape (n,).

    `phase` and `place` are as above, `module` counts in the trace's modules, `operator` in the rows of its
    operators, `site` in its sites, of work that is a replay's, `function` in its functions (-1: none or not
    known). `began`: the function was called within
    the trace, so its line is the one where it begins. `called`: the module was called later than the
    function, so what called it is closer. `in_step`: launched within a step.
    """

    phase: IntArray
    place: IntArray
    module: IntArray
    operator: IntArray
    site: IntArray
    function: IntArray
    began: BoolArray
    called: BoolArray
    in_step: BoolArray
    replay: BoolArray


def find_owners(trace: Trace) -> Owners:
    """The owner of every piece of work in *trace*."""
    spans = trace.operators.spans
    thread, at, noted, replayed = _launches(trace)
    known, launched = thread >= 0, (thread, at)
    operator = np.where(noted >= 0, noted, innermost(spans, thread, at))

    backward = _backward(trace.operators)
    forward_of = _forward_of(trace)
    around = _backward_around(spans, backward, thread, at)
    call = innermost(trace.module_calls, thread, at)
    stepping = innermost(trace.optimizer_calls, thread, at)
    begun = np.stack([
        np.full(len(at), _NEVER),
        _pick(trace.optimizer_calls.start_ns, stepping, _NEVER),
        _pick(spans.start_ns, around, _NEVER),
        _pick(trace.module_calls.start_ns, call, _NEVER),
    ])  # fmt: skip
    # The last of equals: a module call is more than the operator that begins with it.
    owner = len(begun) - 1 - np.argmax(begun[::-1], axis=0)
    owner[begun.max(axis=0) == _NEVER] = 0
    by_optimizer, by_backward, by_module = (owner == row for row in (1, 2, 3))

    # From here on, backward work is looked up where its forward operator ran.
    call = np.where(by_module, call, -1)
    lost = np.zeros(len(at), bool)
    moving = by_backward
    for _ in range(_HIGHEST_ORDER):
        if not moving.any():
            break
        forward = np.where(moving, _pick(forward_of, around), -1)
        lost |= moving & (forward < 0)
        moved = forward >= 0
        thread = np.where(moved, _pick(spans.thread, forward), thread)
        at = np.where(moved, _pick(spans.start_ns, forward), at)
        call = np.where(moved, innermost(trace.module_calls, thread, at), call)
        around = _backward_around(spans, backward, thread, at)
        begun_ns = _pick(spans.start_ns, around, _NEVER)
        moving = moved & (begun_ns > _pick(trace.module_calls.start_ns, call, _NEVER))
    lost |= moving
    call[lost] = -1

    place = np.full(len(at), OUTSIDE)
    place[by_optimizer] = IN_OPTIMIZER
    place[call >= 0] = IN_MODULE
    place[~known | lost] = UNKNOWN
    replay = np.where(known & (owner == 0), innermost(trace.replays, *launched), -1)
    place[replay >= 0] = IN_REPLAY
    # Of gradients they are asked for between backward operators, by whoever averages them.
    place[np.isin(place, (OUTSIDE, UNKNOWN)) & _is_collective(trace)] = COLLECTIVE
    phase = np.select([by_module, by_backward, by_optimizer], [FORWARD, BACKWARD, OPTIMIZER], OTHER)

    frames = _users_frames(trace)
    frame = innermost(frames, thread, at)
    frame_ns = _pick(frames.start_ns, frame, _NEVER)
    return Owners(
        phase=phase,
        place=place,
        module=_pick(trace.module_calls.what, call),
        operator=operator,
        site=_pick(trace.replays.what, replay),
        function=_pick(frames.what, frame),
        began=frame_ns >= _first_moment(trace),
        called=(call >= 0) & (_pick(trace.module_calls.start_ns, call) > frame_ns),
        in_step=known & _in_step(trace.steps, launched[1]),
        replay=trace.work.replay | replayed,
    )


def _is_collective(trace: Trace) -> BoolArray:
    work = trace.work
    return np.array([name.startswith(_NCCL) for name in work.names], bool)[work.name]


def _launches(trace: Trace) -> tuple[IntArray, IntArray, IntArray, BoolArray]:
    """
    Thread (-1: unknown) and moment of each work's launch, the call noted with it (-1: unknown), and whether
    a graph was launched.

    The moment is where the call began if the launch does not lie within the call that was noted. Launches
    with one correlation, of which the first does not enclose the others, say nothing.
    """
    work, launches, operators = trace.work, trace.launches, trace.operators
    launch = _launch_with(launches, work.correlation)
    call = _first_with(operators.external_id, work.external_id)
    spans = operators.spans
    thread, at = _pick(launches.thread, launch), _pick(launches.start_ns, launch)
    within = (thread == _pick(spans.thread, call)) & (at >= _pick(spans.start_ns, call))
    within &= at < _pick(spans.end_ns, call)
    moved = (call >= 0) & ~((launch >= 0) & within)
    thread = np.where(moved, _pick(spans.thread, call), thread)
    at = np.where(moved, _pick(spans.start_ns, call), at)
    replayed = np.zeros(len(work), bool)
    replayed[launch >= 0] = launches.replay[launch[launch >= 0]]
    return thread, at, call, replayed


def _launch_with(launches: Launches, wanted: IntArray) -> IntArray:
    """The launch with each correlation of *wanted*, of several within each other the outermost; -1: none."""
    first = _first_with(launches.correlation, wanted)
    last = _first_with(launches.correlation[::-1], wanted)
    last = np.where(last >= 0, len(launches) - 1 - last, -1)
    within = _pick(launches.thread, first) == _pick(launches.thread, last)
    within &= _pick(launches.start_ns, last) < _pick(launches.end_ns, first)
    return np.where((first == last) | within, first, -1)


def _backward_around(spans: Spans, backward: BoolArray, thread: IntArray, at_ns: IntArray) -> IntArray:
    """The row of the innermost operator that runs a node of autograd around each moment; -1: none."""
    return _pick(np.flatnonzero(backward), innermost(spans.where(backward), thread, at_ns))


def _first_with(numbers: IntArray, wanted: IntArray) -> IntArray:
    """The first row of *numbers* with each of *wanted*; -1 where there is none, or none is wanted."""
    if not len(numbers):
        return np.full(len(wanted), -1)
    order = np.argsort(numbers, kind="stable")
    place = np.minimum(np.searchsorted(numbers[order], wanted), len(numbers) - 1)
    row = order[place]
    return np.where((numbers[row] == wanted) & (wanted > 0), row, -1)


def _backward(operators: Operators) -> BoolArray:
    """Which calls run a node of autograd."""
    engine = np.array([name.startswith(_ENGINE) for name in operators.names], bool)
    by_name = np.zeros(len(operators), bool) if not len(engine) else engine[operators.spans.what]
    return by_name | (operators.forward_thread > 0)


def _forward_of(trace: Trace) -> IntArray:
    """For each operator's call the row of the one that made the node it runs; -1 where there is none."""
    operators = trace.operators
    sequence, number = operators.sequence.tolist(), operators.forward_thread.tolist()
    made: dict[tuple[int, int], int] = {}
    threads: set[int] = set()
    for row, thread in enumerate(operators.spans.thread.tolist()):
        if sequence[row] >= 0 and number[row] == 0:
            made[thread, sequence[row]] = row  # in order of start, so the last one stays
            threads.add(thread)
    # Without an arrow a guess is safe only if all forward operators with a number ran on one thread.
    only = threads.pop() if len(threads) == 1 else None
    found = np.full(len(operators), -1, np.int64)
    for row in np.flatnonzero((operators.forward_thread > 0) & (operators.sequence >= 0)).tolist():
        on = trace.forward_threads.get(number[row], only)
        if on is not None:
            found[row] = made.get((on, sequence[row]), -1)
    return found


def _users_frames(trace: Trace) -> Spans:
    users = np.array([is_users(f) for f in trace.functions], bool)
    frames = trace.frames
    return frames if not len(frames) else frames.where(users[frames.what])


def _first_moment(trace: Trace) -> int:
    """When the first step began, or the first operator where no steps are marked."""
    for spans in (trace.steps, trace.operators.spans):
        if len(spans):
            return int(spans.start_ns[0])
    return 0


def _in_step(steps: Spans, at_ns: IntArray) -> BoolArray:
    """Which moments lie in a step, on whatever thread: backward work is launched on one of its own."""
    one = np.zeros(len(steps), np.int64)
    return (
        innermost(Spans(one, steps.start_ns, steps.end_ns, steps.what), np.zeros(len(at_ns), np.int64), at_ns)
        >= 0
    )


def _pick(values: IntArray, rows: IntArray, none: int = -1) -> IntArray:
    """*values* at *rows*, and *none* where a row is -1."""
    found = np.full(len(rows), none, np.int64)
    found[rows >= 0] = values[rows[rows >= 0]]
    return found
