"""Sums come before ratios, and intervals from blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfzero.series import stats
from perfzero.values import Samples

SECOND = 1_000_000_000


def table(lengths_s, **columns) -> Samples:
    ends = np.cumsum(np.asarray(lengths_s) * SECOND).astype(np.int64)
    starts = np.r_[0, ends[:-1]].astype(np.int64)
    return Samples(starts, ends, {k: np.asarray(v, np.float64) for k, v in columns.items()})


def test_a_mean_is_weighted_by_the_length_of_its_samples():
    assert stats.mean(table([3.0, 1.0], gr_active=[0.0, 1.0]), "gr_active") == 0.25


def test_a_missing_sample_takes_no_part_in_the_mean():
    assert stats.mean(table([3.0, 1.0], gr_active=[np.nan, 1.0]), "gr_active") == 1.0


def test_a_rate_is_the_sum_over_the_time_that_was_measured():
    assert stats.rate(table([1.0, 1.0, 1.0], launches=[10.0, 30.0, np.nan]), "launches") == 20.0


def test_what_was_never_seen_is_missing_not_zero():
    assert math.isnan(stats.mean(table([1.0]), "gr_active"))
    assert math.isnan(stats.rate(table([1.0]), "launches"))
    assert math.isnan(stats.hit_ratio(table([1.0])))


def test_a_hit_rate_is_hits_over_lookups_not_a_mean_of_rates():
    """Ten sectors at 90 % and ten million at 10 % are 10 %."""
    samples = table([1.0, 1.0], l2_hit_sectors=[9.0, 1e6], l2_sectors=[10.0, 1e7])

    assert pytest.approx(stats.hit_ratio(samples), abs=1e-5) == 0.1


def test_a_measured_hit_rate_is_weighted_by_its_sectors():
    samples = table([1.0, 1.0], l2_hit=[0.9, 0.1], l2_sectors=[10.0, 1e7])

    assert pytest.approx(stats.hit_ratio(samples), abs=1e-5) == 0.1


def test_a_hit_rate_without_sectors_falls_back_to_time():
    assert stats.hit_ratio(table([1.0, 1.0], l2_hit=[0.9, 0.1])) == 0.5


def test_streaming_reads_every_byte_once():
    """32 bytes a sector: R is 1 when as many bytes come from DRAM as the SMs asked for."""
    assert stats.reuse_ratio(table([1.0], l2_sectors=[1000.0], dram_read_bytes=[32_000.0])) == 1.0


def test_no_dram_reads_is_no_reuse_ratio():
    assert math.isnan(stats.reuse_ratio(table([1.0], l2_sectors=[1000.0], dram_read_bytes=[0.0])))


def test_asking_for_the_mean_of_an_amount_is_refused():
    with pytest.raises(ValueError, match="ask for its rate"):
        stats.mean(table([1.0], launches=[1.0]), "launches")
    with pytest.raises(ValueError, match="ask for its mean"):
        stats.rate(table([1.0], gr_active=[1.0]), "gr_active")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(0, 10**15))
def test_shifting_time_changes_no_mean(values, shift):
    samples = table([0.5] * len(values), gr_active=values)
    later = Samples(samples.start_ns + shift, samples.end_ns + shift, samples.columns)

    assert stats.mean(samples, "gr_active") == pytest.approx(stats.mean(later, "gr_active"))


def test_blocks_add_up_to_the_whole():
    values = np.arange(12.0).reshape(6, 2)

    sums = stats.block_sums(values, block=np.array([0.0, 0, 1, 1, 1, 4]))

    assert sums.shape == (3, 2)
    assert values.sum(axis=0).tolist() == sums.sum(axis=0).tolist()


def test_the_interval_of_independent_blocks_covers_the_truth_and_is_as_wide_as_it_should_be():
    rng = np.random.default_rng(1)
    idle = rng.binomial(1, 0.3, 400).astype(float)
    shares = stats.bootstrap_shares(np.column_stack([idle, 1 - idle]))[:, 0]

    low, high = stats.interval(shares)

    assert low < idle.mean() < high
    expected = 2 * 1.96 * math.sqrt(0.3 * 0.7 / 400)
    assert expected == pytest.approx(high - low, rel=0.25)


def test_blocks_that_do_not_differ_leave_no_doubt():
    low, high = stats.interval(stats.bootstrap_shares(np.tile([1.0, 3.0], (50, 1)))[:, 0])

    assert 0.25 == pytest.approx(low) == pytest.approx(high)


def test_the_same_data_gets_the_same_interval():
    sums = np.random.default_rng(2).random((30, 3))

    assert np.array_equal(stats.bootstrap_shares(sums), stats.bootstrap_shares(sums))


def test_no_block_gives_no_interval():
    assert all(math.isnan(v) for v in stats.interval(stats.bootstrap_shares(np.empty((0, 2)))[:, 0]))
