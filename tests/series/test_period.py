"""A period is found where there is one, and doubt is silence."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.series.period import autocorrelation, repeat_lag
from perfzero.values import FloatArray


def cycle(*parts: tuple[int, float], turns: int) -> FloatArray:
    """Levels of so many samples each, over and over."""
    return np.tile(np.concatenate([np.full(length, level) for length, level in parts]), turns)


def test_a_period_is_found():
    assert repeat_lag(cycle((30, 0.9), (51, 0.1), turns=12)) == pytest.approx(81, rel=0.01)


def test_a_period_is_found_under_noise():
    noise = 0.08 * np.random.default_rng(1).standard_normal(81 * 12)

    assert repeat_lag(cycle((30, 0.9), (51, 0.1), turns=12) + noise) == pytest.approx(81, rel=0.01)


def test_a_period_between_two_samples_is_found_to_a_part_of_one():
    at = np.arange(1000)

    assert repeat_lag(0.5 + 0.4 * np.sin(2 * np.pi * at / 20.4)) == pytest.approx(20.4, rel=0.01)


def test_micro_steps_are_not_taken_for_the_period():
    """Four equal micro-steps and an optimizer: the micro-step repeats best, the whole is the period."""
    found = repeat_lag(cycle(*[(8, 0.8), (4, 0.1)] * 4, (10, 0.9), turns=20))

    assert found is None or found == pytest.approx(58, rel=0.02)


def test_noise_has_no_period():
    rng = np.random.default_rng(3)

    assert repeat_lag(0.5 + 0.1 * rng.standard_normal(2000)) is None


def test_a_constant_has_no_period():
    assert repeat_lag(np.full(2000, 0.7)) is None


def test_a_slow_drift_has_no_period():
    assert repeat_lag(np.sin(np.linspace(0, 2, 2000))) is None


def test_a_repetition_faster_than_the_samples_is_not_taken_for_its_multiple():
    """Every 2.6 samples repeats after 13 too."""
    at = np.arange(2000)

    assert repeat_lag(0.5 + 0.4 * np.sign(np.sin(2 * np.pi * (at + 0.1) / 2.6))) is None


def test_steps_of_five_samples_and_a_half_are_not_taken_for_one_of_eleven():
    """Neither 5 nor 6 repeats well, and 11 does."""
    edges = np.arange(0.0, 2200.0, 5.5)
    knots = np.column_stack([edges, edges + 3.85]).ravel()
    busy = 3.85 * np.repeat(np.arange(len(edges) + 1.0), 2)[1:-1]
    values = np.diff(np.interp(np.arange(2190.0), knots, busy))

    assert autocorrelation(values - values.mean())[11] > 0.98
    assert repeat_lag(values) is None


def test_two_unlike_steps_of_five_and_of_six_samples_are_one_of_eleven():
    """The twin: five samples do not repeat."""
    found = repeat_lag(cycle((3, 0.9), (2, 0.1), (1, 0.9), (5, 0.1), turns=100))

    assert found == pytest.approx(11, rel=0.01)


def test_too_few_samples_give_nothing():
    assert repeat_lag(np.tile([0.0, 1.0], 10)) is None


def test_autocorrelation_is_one_at_no_lag_and_after_a_period():
    values = np.tile([1.0, -1.0, 0.5, -0.5], 100)

    np.testing.assert_allclose(autocorrelation(values)[[0, 4, 8]], 1.0)
