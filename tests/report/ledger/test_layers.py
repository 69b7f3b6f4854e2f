"""Layers of two looks are joined by their paths, and told apart by more than looks differ by."""

from __future__ import annotations

import math

import pytest

from perfzero.attribute.breakdown import Breakdown, GpuTime, Module, Row
from perfzero.attribute.counted import Counted, Figure
from perfzero.report.ledger.build import build
from perfzero.report.ledger.layers import BYTES, TIME, layers_of
from perfzero.report.ledger.measure import Iteration
from perfzero.report.ledger.terminal import words
from perfzero.series.compare import difference

STEPS = 4


def time(ms: float, *, share: float = 0.2) -> GpuTime:
    ns = round(ms * 1e6 * STEPS)
    return GpuTime(ns, share, ns / STEPS, 9, ns, 0, 0, 0, 0)


def figure(value: float) -> Figure:
    return Figure(value, 0.95 * value, 1.05 * value, 0.1, (), math.nan)


def module(path: str, ms: float, *, share: float = 0.2, moved: float = 0.0) -> Module:
    counted = Counted(dram_read_bytes=figure(moved), dram_write_bytes=figure(moved)) if moved else None
    return Module(path, "Conv2d", "", 1, Row(path, time(ms, share=share), counted=counted), time(ms))


def look(*modules: Module, steps: int = STEPS) -> Breakdown:
    return Breakdown(time(10.0), 40_000_000, steps, modules, (), (), (), ())


def with_layers(one: Iteration, breakdown: Breakdown) -> Iteration:
    return Iteration(one.name, one.taken, {**one.means, **layers_of(breakdown)})


def test_modules_that_differ_in_numbers_are_added_up_under_one_name() -> None:
    found = layers_of(
        look(module("layer1.0.conv1", 2.0), module("layer1.1.conv1", 3.0), module("conv1", 1.0))
    )

    assert {key.removeprefix(TIME): round(mean.value * 1e3, 6) for key, mean in found.items()} == {
        "layer1.*.conv1": 5.0,
        "conv1": 1.0,
    }


def test_bytes_are_those_of_a_step_with_the_error_they_were_counted_with() -> None:
    mean = layers_of(look(module("conv1", 2.0, moved=4e9)))[f"{BYTES}conv1"]
    low, high = mean.interval()

    assert mean.value == pytest.approx(2e9)
    assert (low / mean.value, high / mean.value) == pytest.approx((0.95, 1.05), abs=0.005)


def test_a_layer_that_takes_as_long_is_the_same_and_one_that_does_not_is_not() -> None:
    before = layers_of(look(module("a", 2.0), module("b", 2.0)))
    after = layers_of(look(module("a", 2.01), module("b", 1.0)))

    same, less = (difference(before[TIME + n], after[TIME + n], margin=0.05) for n in ("a", "b"))
    assert same.word == "same"
    assert less.word == "less"


def test_without_whole_steps_and_of_layers_that_take_nothing_nothing_is_told() -> None:
    assert layers_of(None) == {}
    assert layers_of(look(module("a", 2.0), steps=0)) == {}
    assert layers_of(look(module("a", 2.0, share=0.001))) == {}


def test_the_ledger_tells_the_layer_that_changed_most_first(before: Iteration, after: Iteration) -> None:
    one = with_layers(before, look(module("conv1", 8.0, moved=1e9), module("bn1", 2.0), module("gone", 1.0)))
    other = with_layers(after, look(module("conv1", 2.0, moved=1e9), module("bn1", 2.0)))
    ledger = build([one, other])
    layers = [line.key for line in ledger.shown("layers")]

    assert layers == [f"{TIME}conv1", f"{TIME}gone", f"{TIME}bn1", f"{BYTES}conv1"]
    found = {line.key: line.before[1] for line in ledger.lines}
    assert {key: None if d is None else d.word for key, d in found.items() if key in layers} == {
        f"{TIME}conv1": "less",
        f"{TIME}gone": "unknown",
        f"{TIME}bn1": "same",
        f"{BYTES}conv1": "unknown",
    }
    shown = words(ledger)
    assert shown.index("conv1") < shown.index("bn1")
    assert max(map(len, shown.splitlines())) <= 100


def test_layers_do_not_make_other_lines_unsure(before: Iteration, after: Iteration) -> None:
    many = look(*(module(f"m{chr(97 + i % 26)}{chr(97 + i // 26)}", 1.0) for i in range(200)))
    alone = build([before, after]).line("sm_active")
    beside = build([with_layers(before, many), with_layers(after, many)]).line("sm_active")

    assert alone == beside


def test_a_look_into_one_of_two_tells_no_layers(before: Iteration, after: Iteration) -> None:
    ledger = build([with_layers(before, look(module("conv1", 8.0))), after])

    assert ledger.shown("layers") == ()
