"""Steps of traces that mark none; the sequences are made up, and the traces written by hand."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hand_written_look import BASE_NS, Look
from perfzero.attribute import repeats
from perfzero.attribute.conditions import conditions
from perfzero.attribute.positions import kernels_of
from perfzero.attribute.repeats import find_lag, find_pattern, with_steps
from perfzero.attribute.tree import break_down
from perfzero.store.kineto import read_trace
from perfzero.traces import Trace
from perfzero.values import IntArray


def sequence(text: str) -> IntArray:
    """Names of a letter each."""
    return np.array([ord(letter) for letter in text], np.int64)


def flawed(share: float) -> str:
    """Forty turns of ten names, of which this share are others that come but once, anywhere."""
    other = np.random.default_rng(4).random(400) < share
    return "".join(chr(300 + n) if other[n] else name for n, name in enumerate("abcdefghij" * 40))


BLOCKS = "e" + "qkvosf" * 12 + "hl"


@pytest.mark.parametrize(
    ("text", "lag"),
    [
        ("abcd" * 10, 4),
        ("cd" + "abcd" * 10 + "a", 4),  # begun and ended in the midst of a step
        ("aab" * 20, 3),
        ("a" * 30, 1),
        (BLOCKS * 5, len(BLOCKS)),  # not the six kernels of a block
        (("abcdefgh" * 10 + "L") * 5, 81),  # a line of a log after each ten
        ((("abcdefgh" * 10 + "L") * 2)[:140], 8),  # of which two are not seen
        ("abcdefgh" * 9 + "abcXdefgh" + "abcdefgh" * 9, 8),
        ("".join("".join(map(chr, range(50, 130))) + "xy"[n % 2] for n in range(8)), 81),  # in turn x and y
        ("abcdefghij" * 2, 10),  # two are enough where that is no chance
        (("e" + "qkvosf" * 30 + "hl") * 4, 183),  # of thirty blocks, too
        (flawed(0.08), 10),  # the same at 0.85 of the places
    ],
)
def test_the_lag_of_what_repeats_is_found(text: str, lag: int) -> None:
    assert find_lag(sequence(text)) == lag


@pytest.mark.parametrize(
    "text", ["", "a", "ab", "abab"[:3], "abcdefghijklmnopqrst", "abcdefghij" * 2 + "z" * 15, flawed(0.15)]
)
def test_what_does_not_repeat_has_none(text: str) -> None:
    assert find_lag(sequence(text)) == 0


@pytest.mark.parametrize("often", [0.5, 0.95])
def test_names_in_any_order_have_none_also_where_one_is_nearly_all(often: float) -> None:
    random = np.random.default_rng(1)
    shares = [often, *[(1 - often) / 4] * 4]
    for length in (5, 8, 12, 40, 400):
        for _ in range(100):
            name = random.choice(5, length, p=shares)
            assert find_lag(name) == 0 or len(np.unique(name)) == 1


def test_twenty_thousand_kernels_are_looked_through_in_a_moment() -> None:
    random = np.random.default_rng(2)
    begun = time.perf_counter()
    assert find_lag(np.tile(random.integers(0, 40, 9000), 3)[:20_000]) == 9000
    assert time.perf_counter() - begun < 3


def test_a_pattern_begins_behind_the_longest_pause_that_comes_twice() -> None:
    """In each turn the stream rests before c; once it rests longer before b, by chance."""
    name = sequence("abcd" * 5)
    pause = np.where(name == ord("c"), 90, 1)
    pause[5] = 500
    assert find_pattern(name, pause).tolist() == sequence("cdab").tolist()


def test_a_pattern_is_taken_from_turns_without_a_flaw() -> None:
    name = sequence("abXcd" + "abcd" * 5)
    assert sorted(find_pattern(name, np.zeros(len(name), np.int64)).tolist()) == sequence("abcd").tolist()
    assert len(find_pattern(sequence("abcdefghijkl"), np.zeros(12, np.int64))) == 0


# --- traces ---


def look_of(steps: list[str], *, pause: int = 40, graph: bool = False) -> Look:
    """
    Kernels of 8 us at every 10, with a pause before each of *steps*; capital letters are on a side stream.

    None has a launch. In a graph all kernels of a step have one correlation.
    """
    look, at = Look(), 0
    for number, names in enumerate(steps):
        at += pause
        for place, name in enumerate(names):
            correlation = number + 1 if graph else 1000 * number + place + 1
            stream = 9 if name.isupper() else 7
            look.kernel(name, at, at + 8, correlation=correlation, stream=stream)
            at += 10
    return look


def steps_in(trace: Trace) -> list[tuple[int, int]]:
    """When each step begins and ends, in us."""
    return [
        ((begin - BASE_NS) // 1000, (end - BASE_NS) // 1000)
        for begin, end in zip(trace.steps.start_ns.tolist(), trace.steps.end_ns.tolist(), strict=True)
    ]


@pytest.mark.parametrize("graph", [False, True])
def test_steps_reach_from_first_kernel_to_first_kernel(tmp_path: Path, graph: bool) -> None:
    trace = with_steps(look_of(["abcd"] * 4, graph=graph).trace(tmp_path))

    assert steps_in(trace) == [(40, 120), (120, 200), (200, 280), (280, 318)]
    assert len(np.unique(trace.work.correlation)) == 16


def test_what_stands_whole_but_once_is_no_step(tmp_path: Path) -> None:
    """It repeats, but from the pause on that it makes twice, its kernels are there once and a part."""
    look = look_of(["abc", "defghijabc", "defghij"])

    assert len(with_steps(look.trace(tmp_path)).steps) == 0
    assert find_lag(sequence("abc" + "defghijabc" + "defghij")) == 10


@pytest.mark.parametrize(("most", "steps"), [(60, 3), (50, 0)])
def test_a_step_is_looked_for_among_so_many_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, steps: int
) -> None:
    """Of 30 kernels; in 50 it does not come twice."""
    monkeypatch.setattr(repeats, "MOST", most)
    names = "".join(map(chr, range(97, 123))) + "0123"

    assert len(with_steps(look_of([names] * 3).trace(tmp_path)).steps) == steps


def test_steps_of_thousands_of_kernels_are_found(tmp_path: Path) -> None:
    names = "".join(chr(0x4E00 + number) for number in range(1500))

    assert len(with_steps(look_of([names] * 3).trace(tmp_path)).steps) == 3


def test_no_step_begins_within_another(tmp_path: Path) -> None:
    """aba also stands where one begins in the midst of it: abaXaba is two, ababa one."""
    trace = with_steps(look_of(["aba"] * 5 + ["ababa"] + ["aba"] * 9, pause=0).trace(tmp_path))
    begins = [begin for begin, _ in steps_in(trace)]

    assert all(later - begin >= 30 for begin, later in pairwise(begins))
    assert len(begins) == 15


def test_what_comes_between_steps_belongs_to_none(tmp_path: Path) -> None:
    """The third step has a kernel more, in its midst, and is no step."""
    trace = with_steps(look_of(["abcd"] * 2 + ["abxcd"] + ["abcd"] * 7).trace(tmp_path))

    assert steps_in(trace)[:4] == [(40, 120), (120, 158), (290, 370), (370, 450)]
    assert len(steps_in(trace)) == 9


def test_kernels_of_found_steps_stand_at_the_same_positions(tmp_path: Path) -> None:
    """Also those on another stream, and those of steps that are cut off."""
    trace = with_steps(look_of(["cdBa"[1:], "abcdB", "abcdB", "abcdB", "ab"]).trace(tmp_path))
    kernels = kernels_of(trace, np.full(len(trace.work), -1))
    names = "dBa" + "abcdB" * 3 + "ab"
    whole = kernels.position[3:8].tolist()

    assert len(set(whole)) == 5
    assert kernels.position[8:18].tolist() == whole * 2
    assert kernels.position[18:].tolist() == whole[:2]
    assert names[0] == "d"


def test_a_breakdown_has_times_per_step_and_kernels_only(tmp_path: Path) -> None:
    breakdown = break_down(look_of(["aabc"] * 5).trace(tmp_path))

    assert breakdown.steps == 5
    assert [(k.row.name, k.row.time.launches, k.row.time.per_step_ns) for k in breakdown.kernels] == [
        ("a", 10, 16_000.0), ("b", 5, 8_000.0), ("c", 5, 8_000.0),
    ]  # fmt: skip
    assert (breakdown.modules, breakdown.alike) == ((), ())
    assert [row.time.gpu_ns for row in breakdown.operators] == [160_000]
    assert breakdown.doubts == ()
    assert not any(condition.holds for condition in conditions(breakdown).values())


def test_where_nothing_repeats_there_are_no_steps_and_it_is_said(tmp_path: Path) -> None:
    breakdown = break_down(look_of(["abc", "dbe", "fgh"]).trace(tmp_path))

    assert breakdown.steps == 0
    assert breakdown.doubts == ("The trace marks no steps, so there is no time per step.",)
    assert len(breakdown.kernels) == 8


def test_a_trace_with_marks_or_launches_is_left_as_it_is(tmp_path: Path) -> None:
    marked = look_of(["abcd"] * 4)
    marked.step(0, 0, 100)
    launched = Look()
    for at in range(0, 100, 10):
        launched.work("a", at, at + 8, at=at)
    for number, look in enumerate((marked, launched, Look())):
        (tmp_path / str(number)).mkdir()
        trace = look.trace(tmp_path / str(number))
        assert with_steps(trace) is trace


@pytest.mark.parametrize("known", ["module", "optimizer", "replay", "frame"])
def test_a_trace_that_knows_anything_of_the_host_is_left_as_it_is(tmp_path: Path, known: str) -> None:
    """Else its kernels would seem to be launched within whatever the host was in when they ran."""
    look = Look()
    for number in range(40):
        look.kernel("abcd"[number % 4], 10 * number, 10 * number + 5, correlation=0)
    if known == "module":
        look.module("", "Net", 0, 500)
    elif known == "optimizer":
        look.optimizer(0, 500)
    elif known == "replay":
        look.replay(0, 500)
    else:
        look.frame("train.py(3): step", 0, 500)
    trace = read_trace(look.write(tmp_path))

    assert with_steps(trace) is trace
    assert not break_down(trace).steps
