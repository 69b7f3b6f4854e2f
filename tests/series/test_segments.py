"""The phases of a recording are told apart, and found again."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from perfzero.series.segments import alike, comparable, level_pieces, segments

SECOND_NS = 1_000_000_000
NAMES = ("gr_active", "dram_read_bytes")


def phases(*parts, noise=0.005, seed=3):
    """One row a second of GR activity and DRAM reads: (seconds, GR, bytes/s) after each other."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([np.tile([[gr, read]], (seconds, 1)) for seconds, gr, read in parts])
    rows = rows * (1 + noise * rng.normal(size=rows.shape))
    return 5_000 * SECOND_NS + SECOND_NS * np.arange(len(rows)), rows


def found(*parts, **how):
    return segments(*phases(*parts, **how), NAMES, bin_ns=SECOND_NS)


TRAIN, EVALUATE, SAVE = (20, 0.95, 1e12), (6, 0.6, 4e11), (5, 0.02, 0.0)


def test_training_and_evaluation_are_two_labels_however_often():
    labels = [s.label for s in found(TRAIN, EVALUATE, TRAIN, EVALUATE, TRAIN)]

    assert labels == [0, 1, 0, 1, 0]


def test_a_checkpoint_is_a_third():
    seen = found(TRAIN, EVALUATE, TRAIN, SAVE, TRAIN)

    assert [s.label for s in seen] == [0, 1, 0, 2, 0]
    assert [round((s.end_ns - s.start_ns) / SECOND_NS) for s in seen] == [20, 6, 20, 5, 20]


def test_a_segment_tells_its_levels_in_base_units():
    first, second = found(TRAIN, EVALUATE)

    assert first.levels["gr_active"] == pytest.approx(0.95, rel=0.01)
    assert second.levels["dram_read_bytes"] == pytest.approx(4e11, rel=0.01)


def test_segments_leave_nothing_out():
    at, means = phases(TRAIN, EVALUATE, SAVE)
    seen = segments(at, means, NAMES, bin_ns=SECOND_NS)

    assert seen[0].start_ns == at[0]
    assert seen[-1].end_ns == at[-1] + SECOND_NS
    assert all(a.end_ns == b.start_ns for a, b in pairwise(seen))


def test_a_level_program_is_one_segment():
    assert len(found((100, 0.9, 1e12), noise=0.03)) == 1


def test_a_difference_nobody_feels_makes_no_second_label():
    """Half a point of GR, and a trickle of reads that doubles."""
    assert len(found((50, 0.900, 4e8), (50, 0.905, 8e8), noise=0.0)) == 1


def test_a_channel_that_was_not_measured_is_missing_and_no_difference():
    at, means = phases(TRAIN, EVALUATE)
    means[:, 1] = np.nan
    seen = segments(at, means, NAMES, bin_ns=SECOND_NS)

    assert [s.label for s in seen] == [0, 1]
    assert np.isnan(seen[0].levels["dram_read_bytes"])


def test_nothing_measured_has_no_phases():
    assert segments(np.empty(0, np.int64), np.empty((0, 2)), NAMES, bin_ns=SECOND_NS) == ()
    assert level_pieces(np.empty((0, 2))) == []


def test_likeness_is_in_points_where_levels_are_low_and_in_shares_where_they_are_high():
    def level(value):
        return np.array([value, np.nan])

    assert alike(level(0.02), level(0.06))
    assert alike(level(0.80), level(0.87))
    assert not alike(level(0.20), level(0.27))
    assert not alike(level(0.80), level(0.92))


def test_rates_are_compared_with_the_largest_one_worth_the_name():
    means = np.array([[0.5, 1e12], [0.5, 5e11]])

    assert comparable(means, NAMES)[:, 1].tolist() == [1.0, 0.5]
    assert comparable(means * [1, 1e-3], NAMES)[:, 1].tolist() == [0.05, 0.025]
