"""Steps laid over each other show the step that was put in."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.series.fold import fold
from perfzero.values import Samples
from series.simulated_steps import COLUMNS, IDLE, MATRIX, MS, START, TRAINING, folded_of, program


def test_the_mean_step_holds_as_much_as_the_samples():
    folded = folded_of(TRAINING)

    for name in COLUMNS:
        truth = sum(share * levels.get(name, 0.0) for share, levels in TRAINING)
        assert folded.mean[name].mean() == pytest.approx(truth, rel=0.02)


def test_many_steps_show_more_than_the_samples_of_one():
    """A pulse of 0.5 ms under samples of 2 ms: steps of 27.3 ms put it anywhere in a sample."""
    pulse = [(0.5, IDLE), (0.5 / 27.3, MATRIX), (0.5 - 0.5 / 27.3, IDLE)]
    folded = folded_of(pulse, step_s=0.0273, steps=300, windows=False)

    above = np.flatnonzero(folded.mean["gr_active"] > 0.3)
    assert len(above) <= 3
    assert above.mean() / 64 == pytest.approx(0.5 + 0.25 / 27.3, abs=0.02)


def test_each_bin_says_on_how_many_steps_it_rests():
    folded = folded_of(TRAINING, steps=60, windows=False)

    assert folded.steps == 60
    assert folded.counts.min() >= 59
    assert folded.step_s == pytest.approx(0.027)


def test_the_spread_is_that_of_the_steps_not_of_the_mean():
    """Every tenth step works at half the level."""
    samples, starts = program([(1.0, MATRIX)], step_s=0.02, period_ms=1.0, windows=False)
    tenth = ((samples.start_ns - START) // (20 * MS)) % 10 == 1
    halved = samples.with_columns({"tensor_active": np.where(tenth, 0.4, 0.8)})

    folded = fold(halved, starts)

    assert folded is not None
    assert np.median(folded.mean["tensor_active"]) == pytest.approx(0.76, abs=0.02)
    assert np.median(folded.low["tensor_active"]) == pytest.approx(0.4)
    assert np.median(folded.high["tensor_active"]) == pytest.approx(0.8)


def test_the_plain_mean_lies_within_the_band_of_the_steps_and_the_sharpened_one_need_not():
    """A pulse shorter than a sample: sharpened it stands above what any single sample shows."""
    pulse = [(0.5, IDLE), (0.02, MATRIX), (0.48, IDLE)]
    folded = folded_of(pulse, step_s=0.0273, steps=300, windows=False)

    plain, sharp = folded.plain["gr_active"], folded.mean["gr_active"]
    assert (plain <= folded.high["gr_active"] + 1e-9).all()
    assert (plain >= folded.low["gr_active"] - 1e-9).all()
    assert plain.mean() == pytest.approx(sharp.mean(), rel=0.05)
    assert (sharp > folded.high["gr_active"] + 0.05).any()


def test_of_many_steps_some_from_all_over_are_folded(monkeypatch):
    """The first half of the steps works at half the level: 40 of 400 show as much of it as all do."""
    samples, starts = program([(1.0, MATRIX)], step_s=0.02, steps=400, period_ms=1.0, windows=False)
    early = samples.start_ns < starts[200]
    monkeypatch.setattr("perfzero.series.fold.MOST_STEPS", 40)

    folded = fold(samples.with_columns({"tensor_active": np.where(early, 0.4, 0.8)}), starts)

    assert folded is not None
    assert folded.steps == 40
    assert np.median(folded.mean["tensor_active"]) == pytest.approx(0.6, abs=0.02)


def test_a_step_with_a_checkpoint_in_it_is_left_out():
    samples, starts = program(TRAINING, windows=False)
    longer = np.delete(starts, [10, 11, 30])

    folded = fold(samples, longer)

    assert folded is not None
    assert folded.left_out == 2
    assert folded.step_s == pytest.approx(0.027)


def test_a_missing_value_is_no_zero():
    samples, starts = program([(1.0, MATRIX)], windows=False)
    holes = np.where(np.arange(len(samples)) % 3 == 0, np.nan, samples.column("tensor_active"))

    folded = fold(samples.with_columns({"tensor_active": holes, "ce_active": holes * np.nan}), starts)

    assert folded is not None
    assert folded.mean["tensor_active"] == pytest.approx(np.full(64, 0.8))
    assert "ce_active" not in folded.mean


def test_what_single_steps_hold_is_kept():
    """Every other step works at half the level, which the mean of all does not show."""
    samples, starts = program([(1.0, MATRIX)], step_s=0.02, period_ms=1.0, windows=False)
    other = ((samples.start_ns - START) // (20 * MS)) % 2 == 1

    folded = fold(samples.with_columns({"tensor_active": np.where(other, 0.4, 0.8)}), starts)

    assert folded is not None
    laid = folded.laid
    work = np.bincount(laid.step, laid.seconds * laid.levels["tensor_active"][laid.row]) / laid.steps_s
    assert len(work) == folded.steps
    assert work[2:6] == pytest.approx([0.8, 0.4, 0.8, 0.4], abs=0.03)


def test_a_handful_of_steps_is_not_folded():
    samples, starts = program(TRAINING, steps=7)

    assert fold(samples, starts) is None
    assert fold(samples, starts[:0]) is None
    assert fold(Samples.empty(), starts) is None
