"""Which kernels stand at one position; the traces are written by hand (`hand_written_look`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hand_written_look import Look
from perfzero.attribute.mixing import Kernels
from perfzero.attribute.positions import kernels_of
from perfzero.traces import Trace

STEP = 1000


def a_step(look: Look, number: int, names: str, *, stream: int = 7, behind: int = 0) -> None:
    """A step of kernels with one letter for a name, which run *behind* us after their launches."""
    begin = number * STEP
    look.step(number, begin, begin + 900)
    for place, name in enumerate(names):
        at = begin + 10 * place + 5
        look.work(name, at + behind, at + behind + 8, at=at, stream=stream)


def positions(look: Look, folder: Path, call: list[int] | None = None) -> tuple[Trace, Kernels]:
    trace = look.trace(folder)
    calls = np.full(len(trace.work), -1) if call is None else np.array(call)
    return trace, kernels_of(trace, calls)


def test_kernels_of_steps_that_are_alike_stand_at_the_same_positions(tmp_path: Path) -> None:
    look = Look()
    for number in range(3):
        a_step(look, number, "abab")
    _, kernels = positions(look, tmp_path)
    assert len(set(kernels.position[:4].tolist())) == 4
    assert kernels.position.reshape(3, 4).tolist() == [kernels.position[:4].tolist()] * 3
    assert kernels.kind[:4].tolist() == [kernels.kind[0], kernels.kind[1]] * 2
    assert kernels.kind[0] != kernels.kind[1]


def test_a_step_with_more_in_its_middle_loses_only_that(tmp_path: Path) -> None:
    look = Look()
    for number, names in enumerate(("abcd", "abxxcd", "abcd")):
        a_step(look, number, names)
    _, kernels = positions(look, tmp_path)
    first, second = kernels.position[:4].tolist(), kernels.position[4:10].tolist()
    assert second[:2] + second[4:] == first
    assert second[2] == second[3]
    assert second[2] not in first


def test_no_two_kernels_of_a_step_stand_at_one_position(tmp_path: Path) -> None:
    look = Look()
    for number, names in enumerate(("aab", "aaab", "aab")):
        a_step(look, number, names)
    _, kernels = positions(look, tmp_path)
    second = kernels.position[3:7].tolist()
    assert len(set(second)) == 4
    assert [second[0], second[1], second[3]] == kernels.position[:3].tolist()


def test_what_was_launched_before_the_trace_is_the_end_of_a_step(tmp_path: Path) -> None:
    look = Look()
    for place, name in enumerate("bab"):
        look.kernel(name, 10 * place - 40, 10 * place - 32, correlation=900 + place)
    for number in range(2):
        a_step(look, number, "abab")
    _, kernels = positions(look, tmp_path, [-1] * 3 + [0, 1, 2, 3] * 2)
    assert kernels.position[:3].tolist() == kernels.position[4:7].tolist()
    assert kernels.kind[:3].tolist() == kernels.kind[4:7].tolist()


def test_what_was_launched_before_and_is_no_end_of_a_step_stands_nowhere(tmp_path: Path) -> None:
    look = Look()
    for place, name in enumerate("aba"):
        look.kernel(name, 10 * place - 40, 10 * place - 32, correlation=900 + place)
    for number in range(2):
        a_step(look, number, "abab")
    _, kernels = positions(look, tmp_path)
    assert not set(kernels.position[:3]) & set(kernels.position[3:])
    assert kernels.position[0] == kernels.position[2]


def test_what_was_launched_after_the_last_step_is_the_beginning_of_one(tmp_path: Path) -> None:
    look = Look()
    for number in range(2):
        a_step(look, number, "abab")
    for place, name in enumerate("ab"):
        look.work(name, 5000 + 10 * place, 5008 + 10 * place, at=4990 + place)
    _, kernels = positions(look, tmp_path)
    assert kernels.position[-2:].tolist() == kernels.position[:2].tolist()


def test_a_kernel_belongs_to_the_step_that_launched_it_however_late_it_runs(tmp_path: Path) -> None:
    look = Look()
    for number in range(3):
        a_step(look, number, "abc", behind=1500)
    _, kernels = positions(look, tmp_path)
    assert kernels.position.tolist() == [0, 1, 2] * 3


def test_streams_have_patterns_of_their_own(tmp_path: Path) -> None:
    look = Look()
    for number in range(2):
        a_step(look, number, "ab")
    for number in range(2):
        for place in range(3 - number):  # not the same in both steps, and at other times
            at = number * STEP + 7 + 9 * place + number
            look.work("a", at, at + 5, at=at, stream=20)
    trace, kernels = positions(look, tmp_path)
    first = kernels.position[trace.work.stream == 7]
    assert first.tolist() == first[:2].tolist() * 2
    copies = kernels.position[trace.work.stream == 20]
    assert not set(copies) & set(first)


def test_the_shapes_of_a_call_make_another_kind(tmp_path: Path) -> None:
    look = Look()
    for number in range(2):
        a_step(look, number, "aa")
    _, kernels = positions(look, tmp_path, [0, 1, 0, 1])
    assert kernels.kind[0] != kernels.kind[1]
    assert kernels.kind.tolist() == kernels.kind[:2].tolist() * 2


def test_without_steps_kernels_are_taken_together_by_name_and_call(tmp_path: Path) -> None:
    look = Look()
    for place, name in enumerate("abab"):
        look.work(name, 10 * place, 10 * place + 5, at=10 * place)
    _, kernels = positions(look, tmp_path, [0, 0, 0, 1])
    assert kernels.position[0] == kernels.position[2]
    assert kernels.position[1] != kernels.position[3]
    assert kernels.position.tolist() == kernels.kind.tolist()


def test_a_trace_without_work_has_no_kernels(tmp_path: Path) -> None:
    _, kernels = positions(Look(), tmp_path)
    assert len(kernels) == 0
