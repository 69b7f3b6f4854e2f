"""Which stacks were read while they changed, and when the program's own code ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from hand_written_stacks import CALL, MS, Part, at, by_text, made
from perfzero.attribute import torn
from perfzero.attribute.stacks import host_causes
from perfzero.attribute.torn import whole_stacks
from perfzero.stacks import Frame, HostStacks, ProcessStacks

SITE = "/v/site-packages"
MODULE = Frame("/job/train.py", 60, "<module>")
STEP = Frame("/job/train.py", 20, "step")
GUARD = Frame(f"{SITE}/torch/_dynamo/guards.py", 7, "check")
LEAF = Frame(f"{SITE}/torch/_dynamo/source.py", 9, "name")
UNSEEN = Frame(f"{SITE}/torch/_dynamo/utils.py", 3, "rarely_called")
HUB = Frame(f"{SITE}/gevent/hub.py", 647, "run")
SERVE = Frame("/job/serve.py", 5, "serve")
EXIT = Frame("/usr/lib/python3.12/weakref.py", 666, "finalize._exitfunc")
LIBRARY = Frame(f"{SITE}/torch/library.py", 474, "_del_library")
SAVES = Frame("/job/train.py", 70, "save_at_exit")

Stack = tuple[Frame, ...]
TRAIN, COMPILES, DEEPER = (STEP, MODULE), (GUARD, STEP, MODULE), (LEAF, GUARD, STEP, MODULE)


def seen(*rows: tuple[Stack, int], ends_with: Stack | None = ()) -> ProcessStacks:
    """A thread that is seen with each stack, the innermost frame first, for so many ms."""
    sighted = [stack for stack, _ in rows] + ([] if ends_with is None else [ends_with])
    stacks = list(dict.fromkeys(sighted))
    frames = list(dict.fromkeys(frame for stack in stacks for frame in stack))
    times = np.cumsum([0, *(ms for _, ms in rows)]) * MS
    kinds = [stacks.index(stack) for stack in sighted]
    return ProcessStacks(
        pid=1, role="main", start_ns=0, end_ns=int(times[-1]), rate_hz=250.0, slack_ns=0,
        time_ns=times[: len(kinds)], thread=np.zeros(len(kinds), np.int64), stack=np.array(kinds),
        frames=tuple(frames), stacks=tuple(tuple(map(frames.index, stack)) for stack in stacks),
    )  # fmt: skip


def left(process: ProcessStacks) -> list[tuple[int, Stack]]:
    """When *process* was seen with which stack, by whole ones, in ms."""
    found = whole_stacks(process, 0)
    return [
        (int(ns) // MS, tuple(found.frames[i] for i in found.stacks[k]))
        for ns, k in zip(found.time_ns, found.stack, strict=True)
    ]


@pytest.mark.parametrize(
    "read",
    [(LEAF,), (LEAF, GUARD), (GUARD, STEP), (STEP,), (LEAF, UNSEEN), ()],
    ids=["a leaf", "of a library", "with a line of the program", "of the program", "of no one", "nothing"],
)
def test_a_stack_that_was_read_while_it_changed_is_no_sighting(read: Stack) -> None:
    process = seen((DEEPER, 90), (read, 4), (TRAIN, 80))

    assert left(process) == [(0, DEEPER), (94, TRAIN)]


def test_what_is_left_is_as_if_that_moment_had_not_been_sampled() -> None:
    process = seen((DEEPER, 50), ((LEAF,), 4), (DEEPER, 40), (TRAIN, 10))

    assert left(process) == [(0, DEEPER), (94, TRAIN)]
    # What comes again after another whole stack is seen again.
    assert left(seen((DEEPER, 50), (TRAIN, 4), (DEEPER, 40))) == [(0, DEEPER), (50, TRAIN), (54, DEEPER)]


@pytest.mark.parametrize(
    ("other", "ms"),
    [((SERVE,), 4), ((LEAF, SERVE), 4), ((HUB,), 40), ((), 40), ((STEP, replace(MODULE, line=61)), 4)],
    ids=["a greenlet", "one in a library", "what waits for all", "no Python", "the module's next line"],
)
def test_a_thread_may_begin_elsewhere(other: Stack, ms: int) -> None:
    process = seen((DEEPER, 90), (other, ms), (TRAIN, 80))

    assert left(process) == [(0, DEEPER), (90, other), (90 + ms, TRAIN)]


def test_the_program_may_have_many_roots() -> None:
    roots = [(Frame("/job/serve.py", n, f"serve{n}"),) for n in range(15)]
    process = seen(*((root, 20) for root in roots), *((root, 20) for root in roots))

    assert len(left(process)) == 30


def test_of_a_library_that_was_seen_once_the_sighting_is_left() -> None:
    assert left(seen(((CALL,), 0), ends_with=None)) == [(0, (CALL,))]


def test_a_greenlet_in_a_function_that_others_call_stays_where_it_is_often_seen() -> None:
    often = seen((DEEPER, 60), ((GUARD, STEP), 60), (DEEPER, 60))

    assert (60, (GUARD, STEP)) in left(often)


def test_nothing_is_left_out_where_most_would_be() -> None:
    others = [(Frame(f"{SITE}/x.py", 1, f"f{n}"),) for n in range(30)]
    some = seen((TRAIN, 170), *((other, 4) for other in others), (TRAIN, 1))
    most = seen((TRAIN, 80), *((other, 4) for other in others), (TRAIN, 1))

    assert left(some) == [(0, TRAIN)]
    assert len(left(most)) == 32


def test_a_program_that_is_a_library_has_the_commonest_root() -> None:
    run = Frame(f"{SITE}/trainer/run.py", 3, "run")
    module = Frame(f"{SITE}/trainer/__main__.py", 3, "<module>")
    process = seen(((run, module), 90), ((LEAF,), 4), ((GUARD, run, module), 80), ((module,), 4))
    next_line = replace(module, line=4)

    assert left(process) == [(0, (run, module)), (94, (GUARD, run, module)), (174, (module,))]
    assert (0, (next_line,)) in left(seen(((next_line,), 4), ((run, module), 90)))


def test_a_thread_that_was_never_in_python_has_no_root() -> None:
    assert left(seen(((), 90))) == [(0, ())]


def test_other_threads_are_none_of_it() -> None:
    process = seen((DEEPER, 90), ((LEAF,), 4), (TRAIN, 80))
    other = replace(process, thread=np.array([0, 1, 0, 0]))

    assert left(other) == [(0, DEEPER), (94, TRAIN)]
    assert whole_stacks(other, 1).thread.tolist() == [1]


# --- the end -------------------------------------------------------------------------------------


def test_what_python_does_at_its_exit_is_no_part_of_the_program() -> None:
    leaves = seen((TRAIN, 90), ((EXIT,), 20), ((LIBRARY, EXIT), 500))
    found = whole_stacks(leaves, 0)

    assert left(leaves) == [(0, TRAIN)]
    assert found.end_ns == 90 * MS


def test_what_the_program_does_at_its_exit_is_its_own() -> None:
    saves = seen((TRAIN, 90), ((EXIT,), 4), ((SAVES,), 50), ((LIBRARY, EXIT), 500))

    assert left(saves) == [(0, TRAIN), (94, (SAVES,))]
    assert whole_stacks(saves, 0).end_ns == 144 * MS


@pytest.mark.parametrize("ends_with", [(), None])
def test_a_program_that_goes_on_is_seen_to_the_end(ends_with: Stack | None) -> None:
    goes_on = seen((DEEPER, 90), (TRAIN, 80), ends_with=ends_with)

    assert left(goes_on) == [(0, DEEPER), (90, TRAIN)]
    assert whole_stacks(goes_on, 0).end_ns == 170 * MS


# --- what becomes of it --------------------------------------------------------------------------


def torn_in(stacks: HostStacks, *, line: int, every: int, last_ms: int = 0) -> HostStacks:
    """*stacks* with every so-manieth sighting of *line* read while it changed, and an exit of *last_ms*."""
    [main] = stacks.processes
    own = [i for i, s in enumerate(main.stacks) if any(main.frames[k].line == line for k in s)]
    number = len(main.frames)
    stack = main.stack.copy()
    there = np.flatnonzero(np.isin(stack, own))[::every]
    stack[there] = len(main.stacks)
    frames: Sequence[Frame] = (*main.frames, UNSEEN, EXIT)
    time_ns, thread = main.time_ns, main.thread
    if last_ms:
        time_ns = np.append(time_ns, main.end_ns)
        thread, stack = np.append(thread, 0), np.append(stack, len(main.stacks) + 1)
    process = replace(
        main, time_ns=time_ns, thread=thread, stack=stack, frames=tuple(frames),
        stacks=(*main.stacks, (number,), (number + 1,)), end_ns=main.end_ns + last_ms * MS,
    )  # fmt: skip
    return HostStacks((process,), stacks.lines)


def test_a_line_whose_stacks_are_torn_loses_none_of_its_share() -> None:
    parts: list[Part] = [(at(13), 15, []), (at(12, CALL), 20, [(0, 20)])]
    stacks, samples = made(parts)
    before = by_text(host_causes(stacks, samples), "time.sleep(1)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torn, "RARE", 0.0)  # all are taken for whole
        lost = by_text(host_causes(torn_in(stacks, line=13, every=8), samples), "time.sleep(1)")
    found = host_causes(torn_in(stacks, line=13, every=8), samples)
    kept = by_text(found, "time.sleep(1)")

    assert lost.share < before.share - 0.05
    assert kept.share == pytest.approx(before.share, abs=0.01)
    assert kept.high - kept.low == pytest.approx(before.high - before.low, abs=0.01)
    assert len(found.causes) == 1


def test_a_gpu_that_is_idle_after_the_program_waits_for_nothing() -> None:
    stacks, samples = made([(at(13), 15, []), (at(12, CALL), 20, [(0, 20)])], seconds=5)
    [main] = stacks.processes
    longer = samples.concat([samples, made([(at(13), 9, [])], seconds=10)[1].between(5_100 * MS, 9_900 * MS)])
    leaves = torn_in(stacks, line=13, every=10**6, last_ms=5_000)
    found = host_causes(leaves, longer)

    assert [c.text for c in found.causes] == ["time.sleep(1)"]
    assert found.idle == pytest.approx(15 / 35, abs=0.01)
    assert found.seconds == pytest.approx(main.end_ns / 1e9, abs=0.1)


def test_what_was_read_of_a_worker_while_it_changed_is_no_stage() -> None:
    loader = Frame(f"{SITE}/torch/utils/data/dataloader.py", 5, "__next__")
    collate = Frame(f"{SITE}/torch/utils/data/_utils/collate.py", 3, "default_collate")
    decode = Frame("/job/data.py", 7, "decode")
    stacks, samples = made([(at(10, loader), 20, []), (at(12, CALL), 5, [(0, 5)])])
    worker = seen(((decode, MODULE), 4_000), ((collate,), 900), ((decode, MODULE), 5_000))
    lines = {**stacks.lines, ("/job/data.py", 7): "Image.open(path)"}
    found = host_causes(HostStacks((*stacks.processes, replace(worker, role="worker")), lines), samples)

    assert [(s.stage, s.share) for s in found.causes[0].stages] == [("decoding", 1.0)]
