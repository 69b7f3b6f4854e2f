"""Durations as people type them."""

from __future__ import annotations

import pytest

from perfzero.cli.durations import seconds
from perfzero.errors import UsageError


@pytest.mark.parametrize(
    ("text", "value"),
    [("10us", 1e-5), ("10µs", 1e-5), ("1ms", 1e-3), ("0.5s", 0.5), ("2min", 120.0), ("300", 300.0)],
)
def test_a_duration_is_read_with_its_unit(text, value):
    assert value == pytest.approx(seconds(text, option="--x", low=1e-6, high=1e6))


@pytest.mark.parametrize("text", ["5us", "1ms"])
def test_the_bounds_themselves_are_inside(text):
    """5 times 1e-6 is a little less than 5e-6."""
    seconds(text, option="--zoom", low=5e-6, high=1e-3)


@pytest.mark.parametrize("text", ["", "fast", "10 parsecs", "-1s", "1us", "nan"])
def test_nonsense_and_what_is_out_of_bounds_is_refused_by_the_options_name(text):
    with pytest.raises(UsageError, match="--window takes a duration from 10ms to 1h"):
        seconds(text, option="--window", low=0.01, high=3600)
