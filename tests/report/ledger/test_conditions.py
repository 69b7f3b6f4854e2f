"""Conditions of --fail-if: what they may say, and what comes of them."""

from __future__ import annotations

import pytest

from perfzero.errors import UsageError
from perfzero.report.ledger.build import build
from perfzero.report.ledger.conditions import check, parse
from perfzero.report.ledger.measure import Iteration
from perfzero.report.ledger.model import Ledger


@pytest.mark.parametrize(
    ("typed", "metric", "below", "number", "of"),
    [
        ("throughput < -2%", "step_rate", True, -0.02, "%"),
        ("throughput<-2 %", "step_rate", True, -0.02, "%"),
        ("throughput < −2%", "step_rate", True, -0.02, "%"),
        ("step_time > 120ms", "step_time", False, 0.12, "value"),
        ("idle > +5 points", "idle", False, 0.05, "points"),
        ("dram_read > 1.5 TB/s", "dram_read", False, 1.5e12, "value"),
        ("sm_active < 0.5", "sm_active", True, 0.5, "value"),
        ("memory_used > 80GB", "memory_used", False, 80e9, "value"),
        ("power > 650W", "power", False, 650.0, "value"),
    ],
)
def test_a_condition_is_read(typed: str, metric: str, below: bool, number: float, of: str) -> None:
    found = parse(typed)

    assert (found.metric, found.below, found.of) == (metric, below, of)
    assert found.number == pytest.approx(number)


@pytest.mark.parametrize(
    "typed",
    ["", "throughput", "throughput < ", "< -2%", "throughput = 3%", "throughput < -2% or so", "x" * 99],
)
def test_anything_else_is_refused_with_an_example(typed: str) -> None:
    with pytest.raises(UsageError, match="--fail-if"):
        parse(typed)


def test_an_unknown_metric_is_refused_and_all_are_listed() -> None:
    with pytest.raises(UsageError, match="Did you mean throughput") as raised:
        parse("troughput < -2%")

    assert "step_time" in str(raised.value)
    assert "time_memory" in str(raised.value)


def test_a_share_takes_points_and_all_else_percent() -> None:
    with pytest.raises(UsageError, match=r'"idle > 5 points"'):
        parse("idle > 5%")
    with pytest.raises(UsageError, match=r'"step_time > 5%"'):
        parse("step_time > 5 points")


def test_a_unit_that_does_not_fit_is_refused_and_those_that_do_are_named() -> None:
    with pytest.raises(UsageError, match="ms") as raised:
        parse("step_time > 5 GB")

    assert raised.value.exit_code == 2


def test_a_faster_program_passes(ledger: Ledger) -> None:
    assert check(parse("throughput < -2%"), ledger).outcome == "does not hold"


def test_a_slower_program_fails(before: Iteration, after: Iteration) -> None:
    found = check(parse("throughput < -2%"), build([after, before]))

    assert found.outcome == "holds"
    assert "step_rate of B against A: -48 %" in found.text


def test_what_is_beyond_and_cannot_be_told_does_not_fail_by_itself(ledger: Ledger) -> None:
    """It hits L2 less often by 0.4 points, give or take one."""
    found = check(parse("l2_hit < -0.1 points"), ledger)

    assert found.outcome == "cannot be told"
    assert "l2_hit of B against A: -" in found.text


def test_no_real_difference_never_fails(before: Iteration) -> None:
    assert check(parse("throughput > -0.5%"), build([before, before])).outcome == "does not hold"


def test_a_value_counts_if_all_of_its_interval_is_beyond(ledger: Ledger) -> None:
    assert check(parse("step_time < 60ms"), ledger).outcome == "holds"
    assert check(parse("step_time < 50ms"), ledger).outcome == "does not hold"
    assert check(parse("step_time < 54.05ms"), ledger).outcome == "cannot be told"


def test_what_is_hardly_there_can_be_asked_for(ledger: Ledger) -> None:
    assert check(parse("idle > 5 points"), ledger).outcome == "does not hold"


def test_what_was_not_seen_cannot_be_told(before: Iteration, after: Iteration) -> None:
    without = Iteration(after.name, after.taken, {k: v for k, v in after.means.items() if k != "step_rate"})

    assert check(parse("throughput < -2%"), build([before, without])).outcome == "cannot be told"


def test_the_last_iteration_is_held_against_the_first(before: Iteration, after: Iteration) -> None:
    assert check(parse("throughput > 50%"), build([before, after, after])).outcome == "holds"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("throughput < -2", '"throughput < -2%"'),
        ("step_time < -5ms", '"step_time < -5%"'),
        ("idle > -5", '"idle > -5 points"'),
        ("step_memory < 0", '"step_memory < 0%"'),
    ],
)
def test_a_value_that_no_metric_can_have_is_refused_by_what_was_meant(typed: str, meant: str) -> None:
    with pytest.raises(UsageError, match="never below 0") as raised:
        parse(typed)

    assert meant in str(raised.value)


def test_a_value_of_nothing_and_a_frost_can_be_asked_for() -> None:
    assert parse("idle > 0").number == 0
    assert parse("temperature < -5C").number == -5


def test_a_time_of_a_class_takes_percent_of_what_it_was(ledger: Ledger) -> None:
    """Small grids took 26 ms of a step, and take 0.5."""
    found = check(parse("step_small_grid < -50%"), ledger)

    assert found.outcome == "holds"
    assert "step_small_grid of B against A: -98 %" in found.text
    with pytest.raises(UsageError, match=r'"step_small_grid < -50%"'):
        parse("step_small_grid < -50 points")
    assert check(parse("step_small_grid > 50%"), ledger).outcome == "does not hold"


def test_a_temperature_has_no_share() -> None:
    for typed in ("temperature > 5%", "temperature > 5 points"):
        with pytest.raises(UsageError, match="80C"):
            parse(typed)
