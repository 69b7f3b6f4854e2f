"""Broken samples go, good ones stay, and everything is counted."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.series.clean import clean
from perfzero.values import Samples, Window

MS = 1_000_000
T0 = 1_700_000_000_000_000_000


def table(starts, ends=None, **columns) -> Samples:
    start = np.asarray(starts, np.int64)
    end = start + MS if ends is None else np.asarray(ends, np.int64)
    return Samples(start, end, {k: np.asarray(v, np.float64) for k, v in columns.items()})


def window(start, end, period=MS) -> Window:
    return Window(0, "regular", start, end, period, 0, 0)


def test_good_samples_pass_unchanged():
    good = table(T0 + MS * np.arange(10), gr_active=np.full(10, 0.5))

    cleaned = clean(good, windows=[window(T0, T0 + 10 * MS)])

    assert len(cleaned.samples) == 10
    assert cleaned.dropped == {}
    assert cleaned.impossible == {}
    assert cleaned.lost == 0
    assert cleaned.samples.column("gr_active").tolist() == [0.5] * 10


@pytest.mark.parametrize("stamp", [0, T0 - 3600 * 10**9])
def test_a_first_sample_from_long_ago_is_dropped_and_counted(stamp):
    starts = T0 + MS * np.arange(10)
    ends = starts + MS
    starts[0] = stamp

    cleaned = clean(table(starts, ends, gr_active=np.full(10, 0.5)))

    assert len(cleaned.samples) == 9
    assert sum(cleaned.dropped.values()) == 1
    assert cleaned.samples.start_ns[0] == T0 + MS


def test_a_stale_sample_at_the_end_is_dropped_too():
    starts = T0 + MS * np.arange(10)
    ends = starts + MS
    starts[-1] = T0 - 10**9

    cleaned = clean(table(starts, ends))

    assert len(cleaned.samples) == 9


def test_samples_of_no_or_negative_length_are_dropped():
    starts = T0 + MS * np.arange(4)
    ends = starts + np.array([MS, 0, -MS, MS])

    assert clean(table(starts, ends)).dropped == {"no length": 2}


def test_samples_out_of_order_are_put_back_not_lost():
    starts = T0 + MS * np.array([0, 2, 1, 3])

    cleaned = clean(table(starts, gr_active=[0.0, 0.2, 0.1, 0.3]))

    assert cleaned.reordered == 1
    assert cleaned.samples.column("gr_active").tolist() == [0.0, 0.1, 0.2, 0.3]


def test_a_sample_decoded_twice_counts_once():
    starts = T0 + MS * np.array([0, 1, 1, 2])

    cleaned = clean(table(starts))

    assert cleaned.dropped == {"repeated": 1}
    assert len(cleaned.samples) == 3


def test_a_sample_that_mostly_repeats_the_one_before_is_dropped_and_a_slight_overlap_is_not():
    starts = T0 + np.array([0, MS, MS + 4 * MS // 10, 2 * MS + 4 * MS // 10 - 1000])

    cleaned = clean(table(starts))

    assert cleaned.dropped == {"repeated": 1}
    assert cleaned.samples.start_ns.tolist() == [starts[0], starts[1], starts[3]]


def test_a_share_above_105_percent_becomes_missing_and_is_counted():
    cleaned = clean(table(T0 + MS * np.arange(4), sm_active=[0.5, 1.06, 1.04, np.inf]))

    assert cleaned.impossible == {"sm_active": 2}
    found = cleaned.samples.column("sm_active")
    assert np.isnan(found[[1, 3]]).all()
    assert found[[0, 2]].tolist() == [0.5, 1.0]


def test_cores_of_a_host_may_exceed_one():
    cleaned = clean(table(T0 + MS * np.arange(2), host_tree_cpu=[3.5, 8.0]))

    assert cleaned.impossible == {}
    assert cleaned.samples.column("host_tree_cpu").tolist() == [3.5, 8.0]


def test_a_negative_amount_is_missing_not_zero():
    assert np.isnan(clean(table([T0], dram_read_bytes=[-1.0])).samples.column("dram_read_bytes")[0])


def test_a_hole_within_a_window_is_lost_samples():
    starts = T0 + MS * np.array([0, 1, 2, 7, 8, 9])

    cleaned = clean(table(starts), windows=[window(T0, T0 + 10 * MS)])

    assert cleaned.lost == 4
    assert cleaned.gaps == ((T0 + 3 * MS, T0 + 7 * MS),)


def test_the_time_between_two_windows_is_no_loss():
    starts = T0 + MS * np.r_[np.arange(5), 1000 + np.arange(5)]
    windows = [window(T0, T0 + 5 * MS), window(T0 + 1000 * MS, T0 + 1005 * MS)]

    assert clean(table(starts), windows=windows).lost == 0


def test_windows_of_different_period_each_keep_their_samples():
    coarse, fine = T0 + MS * np.arange(5), T0 + 100 * MS + 10_000 * np.arange(100)
    starts = np.r_[coarse, fine]
    ends = np.r_[coarse + MS, fine + 10_000]
    windows = [window(T0, T0 + 5 * MS), window(T0 + 100 * MS, T0 + 101 * MS, 10_000)]

    assert len(clean(table(starts, ends), windows=windows).samples) == 105


def test_nothing_in_gives_nothing_out():
    assert len(clean(Samples.empty(["gr_active"])).samples) == 0


def test_a_table_of_nothing_but_broken_rows_is_empty_not_an_error():
    assert len(clean(table([0, 0], [MS, MS], gr_active=[1.0, 1.0])).samples) == 0
