"""Changes of level are found where they were put, and not invented."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from perfzero.series.change_points import MOST, change_points


def noise(count, seed=1, channels=1):
    drawn = np.random.default_rng(seed).normal(size=(count, channels))
    return drawn[:, 0] if channels == 1 else drawn


def step(count, at, size=1.0):
    return np.where(np.arange(count) >= at, size, 0.0)


def test_one_step_is_found_where_it_is():
    assert change_points(step(100, 37, 5.0) + noise(100)) == (37,)


def test_a_step_little_larger_than_the_noise_is_found_if_it_lasts():
    found = [len(change_points(step(600, 300, 1.5) + noise(600, seed))) for seed in range(100)]

    assert found.count(1) >= 93


def test_a_step_without_noise_is_found_too():
    assert change_points(step(40, 13)) == (13,)


def test_two_steps_and_back_are_two_changes():
    there_and_back = step(100, 30, 6.0) - step(100, 60, 6.0)

    assert change_points(there_and_back + noise(100)) == (30, 60)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("channels", [1, 6])
def test_noise_has_no_steps(seed, channels):
    assert change_points(noise(200, seed, channels)) == ()


def test_a_small_step_of_one_channel_is_seen_in_many():
    values = noise(200, channels=6)
    values[:, 3] += step(200, 120, 3.0)

    assert change_points(values) == pytest.approx((120,), abs=1)


def test_channels_of_unlike_scale_count_alike():
    values = np.column_stack([1e-9 * (step(100, 40, 6.0) + noise(100)), 1e12 * noise(100, seed=2)])

    assert change_points(values) == (40,)


def test_a_slow_wave_has_no_steps_but_the_real_one():
    """After asv's test of its own step detection."""
    time = np.arange(1000)
    wave = 0.2 * np.sin(time / 100)

    assert change_points(wave) == ()
    assert change_points(wave + step(1000, 400)) == (400,)


def test_a_slope_is_no_staircase():
    assert change_points(np.linspace(0.0, 1.0, 200) + 0.01 * noise(200)) == ()


def test_one_point_far_off_is_ignored():
    values = noise(100)
    values[[0, 50, 99]] = 1000.0

    assert change_points(values) == ()


def test_two_points_far_off_are_a_segment():
    values = noise(100)
    values[50:52] = 1000.0

    assert change_points(values) == (50, 52)


def test_values_that_never_change_have_no_changes():
    assert change_points(np.ones(50)) == ()
    assert change_points(np.zeros((50, 3))) == ()


def test_a_floor_hides_what_is_below_it():
    values = step(100, 37, 0.02)

    assert change_points(values) == (37,)
    assert change_points(values, floor=0.05) == ()


def test_missing_values_are_neither_changes_nor_in_their_way():
    values = step(100, 37, 5.0) + noise(100)
    values[10:14] = values[60] = np.nan
    nothing = np.full(100, np.nan)

    assert change_points(np.column_stack([nothing, values])) == (37,)
    assert change_points(nothing) == ()


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_few_points_are_no_series(count):
    assert change_points(np.arange(count, dtype=float)) == ()


def test_a_long_series_is_cut_at_the_very_point():
    count = 5 * MOST + 3

    assert change_points(step(count, 3333, 5.0) + noise(count)) == pytest.approx((3333,), abs=2)


def test_the_library_is_loaded_only_when_something_is_segmented():
    code = "import sys, perfzero.series.change_points; sys.exit('ruptures' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
