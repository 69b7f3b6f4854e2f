"""Onsets are found where pulses begin, to a part of a sample, and holes are not filled."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.series.anchors import stretches, trains
from perfzero.values import FloatArray, Samples

MS = 1_000_000


def table(values: FloatArray, *, name: str = "sm_active") -> Samples:
    """*values* every millisecond."""
    start = 1_700_000_000_000_000_000 + np.arange(len(values), dtype=np.int64) * MS
    return Samples(start, start + MS, {name: values})


def averaged(edges: FloatArray, *, rows: int, low: float = 0.1, high: float = 0.9) -> FloatArray:
    """Means over samples of a level that is high between edges 0 and 1, 2 and 3, and so on."""
    at = np.arange(rows + 1.0)
    knots = np.r_[0.0, edges, rows + 1.0]
    levels = np.where(np.arange(len(edges) + 1) % 2 == 1, high, low)
    return np.diff(np.interp(at, knots, np.r_[0.0, np.cumsum(levels * np.diff(knots))]))


def pulses(count: int, *, period: float, width: float, first: float = 3.3) -> FloatArray:
    on = first + period * np.arange(count)
    return np.column_stack([on, on + width]).ravel()


def test_an_onset_is_placed_within_the_sample_it_falls_into():
    edges = pulses(20, period=17.37, width=6.0)
    found = next(iter(trains(stretches(table(averaged(edges, rows=380))))))

    np.testing.assert_allclose(found.onsets[0], edges[::2], atol=0.02)


def test_a_lost_sample_leaves_the_onsets_around_it_where_they_were():
    edges = pulses(20, period=17.37, width=6.0)
    whole = table(averaged(edges, rows=380))
    keep = np.ones(len(whole), np.bool_)
    keep[[50, 120, 121]] = False
    found = next(iter(trains(stretches(whole.where(keep)))))

    np.testing.assert_allclose(found.onsets[0], edges[::2], atol=1.5)


def test_the_first_pulse_of_a_stretch_may_end_within_the_sample_in_which_it_begins():
    """By the share of it that is high, a pulse of one sample that is low enough ends before it begins."""
    values = np.full(400, 0.3)
    values[2::40], values[9::40] = 0.0, 0.45
    values[5::10] = np.resize([1.0, 1.0, 0.7], 40)
    values[5] = 0.62
    found = next(iter(trains(stretches(table(values)))))

    np.testing.assert_allclose(found.onsets[0], 5.0 + 10.0 * np.arange(40), atol=1.0)


def test_what_was_high_when_a_stretch_began_or_ended_is_no_pulse():
    edges = pulses(20, period=17.37, width=6.0)
    parts = stretches(table(averaged(edges, rows=380)[5:337]))
    found = next(iter(trains(parts)))

    np.testing.assert_allclose(found.onsets[0], edges[2:-2:2] - 5.0, atol=0.02)


def test_a_long_hole_ends_a_stretch():
    whole = table(averaged(pulses(20, period=17.37, width=6.0), rows=380))
    at = np.arange(len(whole))
    parts = stretches(whole.where((at < 150) | (at >= 200)))

    assert [part.rows for part in parts] == [150, 180]
    assert parts[1].start_ns == whole.start_ns[200]


def test_samples_that_lie_on_each_other_end_a_stretch():
    whole = table(averaged(pulses(20, period=17.37, width=6.0), rows=380))
    twice = np.sort(np.r_[np.arange(len(whole)), 200])
    parts = stretches(
        Samples(whole.start_ns[twice], whole.end_ns[twice], {k: v[twice] for k, v in whole.columns.items()})
    )

    assert [part.rows for part in parts] == [201, 180]


def test_samples_without_a_length_make_no_stretch():
    whole = table(np.zeros(100))

    assert stretches(Samples(whole.start_ns, whole.start_ns, whole.columns)) == ()


def test_amounts_become_rates():
    parts = stretches(table(np.full(100, 5.0), name="launches"))

    np.testing.assert_allclose(parts[0].columns["launches"], 5000.0)


def test_the_wide_pulses_have_a_train_of_their_own():
    narrow, wide = pulses(60, period=20.0, width=4.0), pulses(15, period=80.0, width=10.0)
    values = np.maximum(averaged(narrow, rows=1200), averaged(wide, rows=1200))
    counts = {len(train.onsets[0]) for train in trains(stretches(table(values)))}

    assert {15, 60} <= counts


def test_pulses_after_a_long_rest_have_a_train_of_their_own():
    on = np.concatenate([100.0 * k + np.array([5.0, 15.0, 25.0, 35.0]) for k in range(12)])
    values = averaged(np.column_stack([on, on + 5.0]).ravel(), rows=1200)
    counts = {len(train.onsets[0]) for train in trains(stretches(table(values)))}

    assert {48, 11} <= counts  # what the first pulse rested before was not seen


def test_only_a_minority_of_memory_traffic_counts_as_work_of_its_own():
    rare = table(averaged(pulses(20, period=17.0, width=3.0), rows=380), name="dram_write_bytes")
    usual = table(averaged(pulses(20, period=17.0, width=14.0), rows=380), name="dram_write_bytes")

    assert any(train.adds_work for train in trains(stretches(rare)))
    assert not any(train.adds_work for train in trains(stretches(usual)))


def test_a_constant_has_no_onsets():
    assert list(trains(stretches(table(np.full(500, 0.7))))) == []


def test_a_small_ripple_has_no_onsets():
    """A product shorter than a sample beats with the sampling: 3 % of ripple (H200)."""
    values = 0.9 + 0.015 * np.sin(np.arange(500) * 2 * np.pi / 5)

    assert list(trains(stretches(table(values)))) == []


def test_one_outlier_is_no_pulse():
    values = np.full(500, 0.5)
    values[250] = 1.0

    assert list(trains(stretches(table(values)))) == []


def test_a_recording_of_five_minutes_is_searched_to_its_end():
    """300,000 samples of 1 ms."""
    parts = stretches(table(np.zeros(300_000)))

    assert [part.rows for part in parts] == [300_000]


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_too_few_samples_make_no_stretch(rows: int):
    assert stretches(table(np.zeros(rows))) == ()


def test_a_column_that_is_never_there_is_ignored():
    assert list(trains(stretches(table(np.full(100, np.nan))))) == []


def launching(*, sms_too: bool) -> Samples:
    """50 launches in each sample, and none in each 25th, in which the SMs work on or not."""
    lost = np.arange(500) % 25 == 20
    busy = np.where(lost & sms_too, 0.0, 0.6)
    start = 1_700_000_000_000_000_000 + np.arange(500, dtype=np.int64) * MS
    return Samples(start, start + MS, {"launches": np.where(lost, 0.5, 50.0), "sm_active": busy})


def test_a_sample_that_lost_its_launches_alone_is_no_mark():
    parts = stretches(launching(sms_too=False))

    assert np.isnan(parts[0].columns["launches"]).sum() == 20
    assert not [train for train in trains(parts) if train.channel == "launches"]


def test_a_sample_without_launches_in_which_the_sms_rest_is_one():
    parts = stretches(launching(sms_too=True))

    assert not np.isnan(parts[0].columns["launches"]).any()
    assert [train for train in trains(parts) if train.channel == "launches" and len(train.onsets[0]) >= 18]


def test_levels_that_differ_by_rounding_alone_are_one_level():
    """There are no 64 bins between two neighbouring numbers."""
    high = np.where(np.arange(200) % 3 == 0, 0.5, np.nextafter(0.5, 0.0))
    found = list(trains(stretches(table(np.where(np.arange(200) % 20 < 10, high, 0.0)))))

    assert any(len(train.onsets[0]) >= 9 for train in found)
