"""The GIL: a line of another thread that holds the main one up is told, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from hand_written_stacks import CALL, MS, Part, at, by_text, made, recorded
from perfzero.attribute.gil import LEAST_WAITS, held_up
from perfzero.attribute.stacks import HostCauses, host_causes
from perfzero.stacks import Frame, GilUse, HostStacks, ProcessStacks
from perfzero.values import IntArray

MODULE = Frame("/job/train.py", 1, "<module>")
THREAD = Frame("/usr/lib/python3.12/threading.py", 9, "_bootstrap")
HOLDS = Frame("/job/prepare.py", 7, "prepare")
OTHER = Frame("/job/pack.py", 3, "pack")
TEXTS = {("/job/prepare.py", 7): "ids = tokenise(words)", ("/job/pack.py", 3): "pack(rows)"}


def text_of(frame: Frame) -> str:
    return TEXTS.get((frame.file, frame.line), "")


def holders(rows: Sequence[tuple[float, int, tuple[Frame, ...]]]) -> ProcessStacks:
    """What py-spy sees of holders: at so many ms a thread with a stack, an empty one where it has let go."""
    stacks = list(dict.fromkeys(stack for _, _, stack in rows))
    frames = list(dict.fromkeys(frame for stack in stacks for frame in stack))
    return ProcessStacks(
        pid=1, role="main", start_ns=0, end_ns=10**10, rate_hz=100.0, slack_ns=0,
        time_ns=np.array([t * MS for t, _, _ in rows], np.int64),
        thread=np.array([thread for _, thread, _ in rows], np.int64),
        stack=np.array([stacks.index(stack) for _, _, stack in rows], np.int64),
        frames=tuple(frames), stacks=tuple(tuple(map(frames.index, stack)) for stack in stacks),
    )  # fmt: skip


def use(waiting: IntArray, held: ProcessStacks | None, *, seconds: float = 10.0) -> GilUse:
    """Looks every ms, of which those at *waiting* (ms) found the main thread waiting."""
    time_ns = np.arange(int(seconds * 1e3)) * MS
    return GilUse(time_ns, np.isin(time_ns // MS, waiting).astype(np.int64), 1000.0, held)


def every(length_ms: int, first_ms: int, last_ms: int, *, seconds: float = 10.0) -> IntArray:
    """The ms from the first to before the last one, in each stretch of such a length."""
    time_ms = np.arange(int(seconds * 1e3))
    return time_ms[(time_ms % length_ms >= first_ms) & (time_ms % length_ms < last_ms)]


HELD = holders([(0, 1, (HOLDS, THREAD))])
PARTS: list[Part] = [(at(13), 10, []), (at(12, CALL), 20, [(0, 20)])]
"""In 30 ms the GPU is idle for the first ten, in which the host is at one line."""


def told(waiting: IntArray, held: ProcessStacks | None = HELD) -> HostCauses:
    stacks, samples = made(PARTS)
    lines = {**stacks.lines, **TEXTS}
    return host_causes(HostStacks(stacks.processes, lines, gil=use(waiting, held)), samples)


# --- programs with a simulated GPU ----------------------------------------------------------------


@pytest.mark.parametrize("period_ns", [MS, 2 * MS])
def test_a_thread_that_computes_in_python_is_told_with_the_share_that_its_end_would_save(
    period_ns: int,
) -> None:
    found, truth = recorded("gil", period_ns=period_ns)
    cause = by_text(found, "ids = tokenise(words)")

    assert cause.activity == "gil"
    assert cause.share == pytest.approx(truth, abs=0.08)
    assert cause.low < cause.share < cause.high
    # The line at which the main thread waits for it is not blamed for that.
    assert sum(c.share for c in found.causes if c.text.startswith("forward")) < 0.25


@pytest.mark.parametrize("period_ns", [MS, 2 * MS])
def test_a_thread_that_works_in_c_without_the_gil_is_not_blamed(period_ns: int) -> None:
    found, truth = recorded("no_gil", period_ns=period_ns)

    assert truth == pytest.approx(0.0, abs=0.02)
    assert found.causes
    assert all(c.activity != "gil" and "compress" not in c.text for c in found.causes)


# --- written by hand -----------------------------------------------------------------------------


def test_what_the_main_thread_waits_is_taken_from_its_line_and_told_of_the_holders() -> None:
    before, after = told(every(30, 0, 0)), told(every(30, 2, 8))

    assert by_text(before, "time.sleep(1)").share == pytest.approx(1.0, abs=0.03)
    assert by_text(after, "time.sleep(1)").share == pytest.approx(0.4, abs=0.05)
    assert by_text(after, "ids = tokenise(words)").share == pytest.approx(0.6, abs=0.05)
    assert by_text(after, "ids = tokenise(words)").frame == HOLDS


@pytest.mark.parametrize(
    ("waiting", "held"),
    [
        (every(30, 20, 30), HELD),
        (every(30, 0, 10)[: LEAST_WAITS - 1], HELD),
        (every(30, 2, 8), None),
        (every(30, 2, 8), holders([(0, 0, (MODULE,))])),
        (every(30, 2, 8), holders([(0, 0, ())])),
    ],
    ids=["while the GPU is busy", "hardly ever", "holders unseen", "the main thread alone", "nobody"],
)  # fmt: skip
def test_nobody_is_blamed_where_the_gpu_did_not_wait_or_no_other_thread_was_seen(
    waiting: IntArray, held: ProcessStacks | None
) -> None:
    found, alone = told(waiting, held), told(every(30, 0, 0), None)

    assert [c.frame for c in found.causes] == [c.frame for c in alone.causes]
    assert found.causes[0].share == pytest.approx(alone.causes[0].share, abs=0.001)


def test_the_same_gives_the_same_with_the_gil() -> None:
    assert told(every(30, 2, 8)) == told(every(30, 2, 8))


def lines_of(waiting: Sequence[int], held: ProcessStacks) -> list[int]:
    found = held_up(use(np.array(waiting), held), text_of)
    assert found is not None
    return [found.lines[k].path[-1].line for k in found.line.tolist() if k >= 0]


def test_a_look_is_told_of_who_held_it_then_else_of_who_did_right_after_else_of_the_nearest_look() -> None:
    a, b = (HOLDS, THREAD), (OTHER, THREAD)
    held = holders([(0, 0, (MODULE,)), (100, 0, ()), (100, 1, a), (200, 1, ()), (200, 2, b), (300, 2, ())])
    early, in_a, in_b, late = [85, 90, 95], list(range(110, 120)), list(range(210, 220)), [400, 401, 402]

    assert lines_of([*early, *in_a, *in_b, *late], held) == [7] * 13 + [3] * 13


def test_who_takes_it_right_after_a_look_is_told_before_who_held_it_at_the_nearest_one() -> None:
    rows = [(0, 1, (HOLDS, THREAD)), (70, 1, ()), (70, 0, (MODULE,)), (100, 0, ()), (100, 2, (OTHER, THREAD))]

    assert lines_of([*range(40, 60), 85, 90], holders(rows)) == [7] * 20 + [3, 3]


def test_what_comes_after_the_last_word_on_holders_is_nobodys() -> None:
    """The sampling of them may have ended early."""
    held = replace(HELD, end_ns=1000 * MS)

    assert lines_of(range(2000), held) == [7] * 1001
    assert held_up(use(np.arange(1001, 2000), held), text_of) is None


@pytest.mark.parametrize(("shown", "told_of"), [(60, True), (40, False)])
def test_where_most_looks_show_no_holder_nothing_is_told(shown: int, *, told_of: bool) -> None:
    """Of a hundred waits; in the others the main thread holds it, far from any other holder."""
    rows = [(0.0, 1, (HOLDS, THREAD)), (shown - 0.5, 1, ()), (shown - 0.5, 0, (MODULE,))]
    found = held_up(use(np.arange(100), holders(rows)), text_of)

    assert (found is not None) is told_of


def test_a_few_waits_tell_nothing() -> None:
    assert held_up(use(np.arange(LEAST_WAITS), HELD), text_of) is not None
    assert held_up(use(np.arange(LEAST_WAITS - 1), HELD), text_of) is None


def test_only_the_line_at_which_it_waited_loses_by_it() -> None:
    stacks, samples = made([(at(13), 5, []), (at(15), 5, []), (at(12, CALL), 20, [(0, 20)])])
    waits = use(every(30, 5, 10), HELD)
    found = host_causes(HostStacks(stacks.processes, {**stacks.lines, **TEXTS}, gil=waits), samples)

    assert by_text(found, "time.sleep(1)").share == pytest.approx(0.5, abs=0.06)
    assert by_text(found, "ids = tokenise(words)").share == pytest.approx(0.5, abs=0.05)
    assert all(cause.share < 0.1 for cause in found.causes if cause.frame.line == 15)


def test_a_main_thread_that_never_gets_the_gil_is_held_up_all_the_same() -> None:
    assert lines_of(range(100, 130), holders([(0, 5, (HOLDS, THREAD))])) == [7] * 30


def test_lines_of_one_function_that_hold_it_are_told_as_their_call() -> None:
    inner = [Frame("/job/words.py", line, "tokenise") for line in (5, 6)]
    rows = [(t * 50.0, 1, (inner[t % 2], HOLDS, THREAD)) for t in range(200)]
    found = told(every(30, 2, 8), holders(rows))

    assert [c.frame for c in found.causes if c.activity == "gil"] == [HOLDS]


def test_looks_and_what_they_saw_have_one_length() -> None:
    with pytest.raises(ValueError, match="same length"):
        replace(use(every(30, 2, 8), HELD), waits=np.zeros(3, np.int64))


def test_looks_before_and_after_holders_were_sampled_are_left_out() -> None:
    """Their waits are nobody's. With them nothing was told at all, once."""
    held = replace(HELD, start_ns=3000 * MS, end_ns=7000 * MS)
    whole, part = told(every(30, 2, 8)), told(every(30, 2, 8), held)

    for text in ("ids = tokenise(words)", "time.sleep(1)"):
        assert by_text(part, text).share == pytest.approx(by_text(whole, text).share, abs=0.05)
