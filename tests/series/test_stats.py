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


def test_a_robust_spread_is_the_standard_deviation_of_normal_values_and_no_outlier_moves_it():
    values = np.random.default_rng(0).normal(5.0, 2.0, 10_000)

    assert stats.robust_spread(values) == pytest.approx(2.0, rel=0.03)
    assert stats.robust_spread(np.append(values, 1e9)) == pytest.approx(2.0, rel=0.03)


def test_nothing_and_one_value_have_no_spread():
    assert stats.robust_spread(np.empty(0)) == 0.0
    assert stats.robust_spread(np.array([7.0])) == 0.0


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


def test_a_sample_across_two_steps_is_divided_by_overlap():
    samples = table([1.0, 1.0, 1.0, 1.0], launches=[10.0, 20.0, 30.0, 40.0])
    amounts = samples.column("launches")[:, None]

    sums = stats.sums_by_step(samples, amounts, starts_ns=np.array([0, 15, 40]) * SECOND // 10)

    assert sums[:, 0].tolist() == pytest.approx([20.0, 10.0 + 30.0 + 40.0])


def test_what_lies_in_whole_steps_adds_up_to_what_the_samples_hold():
    rng = np.random.default_rng(5)
    samples = table(rng.uniform(0.001, 0.003, 500))
    amounts = rng.uniform(0, 1, (500, 3))
    starts = np.sort(rng.integers(1, samples.end_ns[-1] - 1, 9))
    starts = np.r_[0, starts, samples.end_ns[-1]]

    sums = stats.sums_by_step(samples, amounts, starts_ns=starts)

    assert len(sums) == 10
    assert sums.sum(axis=0) == pytest.approx(amounts.sum(axis=0))


def test_a_hole_between_two_windows_is_no_step():
    early, late = table([0.01] * 10), table([0.01] * 10)
    late = Samples(late.start_ns + 5 * SECOND, late.end_ns + 5 * SECOND)
    samples = Samples.concat([early, late])
    starts = np.array([0, 40, 80, 5000, 5040, 5080]) * SECOND // 1000

    assert stats.whole_steps(samples, starts)[:, 0].tolist() == [0, 0.04e9, 5e9, 5.04e9]


def test_without_onsets_there_are_no_steps():
    samples = table([0.01] * 10)

    assert stats.sums_by_step(samples, np.ones((10, 2)), starts_ns=np.empty(0, np.int64)).shape == (0, 2)
    assert len(stats.whole_steps(Samples.empty(), np.array([0, SECOND]))) == 0


def test_a_time_far_from_the_epoch_is_divided_to_the_nanosecond():
    samples = table([0.002] * 4, launches=[1.0] * 4)
    late = Samples(samples.start_ns + 1_700_000_000_000_000_001, samples.end_ns + 1_700_000_000_000_000_001)
    starts = np.array([0, 1_000_003, 8_000_000]) + 1_700_000_000_000_000_001

    sums = stats.sums_by_step(late, np.ones((4, 1)), starts_ns=starts)

    assert sums[0, 0] == pytest.approx(1_000_003 / 2_000_000, abs=1e-9)


def neighbours_alike(rng, count, alike):
    """*count* values of mean 0 and spread 1, each of which correlates with the one before by *alike*."""
    out = rng.standard_normal(count + 50)
    for place in range(1, len(out)):
        out[place] = alike * out[place - 1] + np.sqrt(1 - alike**2) * out[place]
    return out[50:]


def coverage(*, steps: int, alike: float, trials: int) -> float:
    """How often the 95 % interval of the idle share, a fifth, holds it."""
    held = 0
    for trial in range(trials):
        rng = np.random.default_rng([trial, steps])
        idle = 0.02 * np.maximum(1 + 0.3 * neighbours_alike(rng, steps, alike), 0)
        busy = 0.08 * (1 + 0.05 * rng.standard_normal(steps))
        low, high = stats.interval(stats.bootstrap_over_steps(np.column_stack([idle, busy]))[:, 0])
        held += low <= 0.2 <= high
    return held / trials


@pytest.mark.parametrize(("steps", "alike"), [(20, 0.0), (60, 0.3), (100, 0.5)])
def test_an_interval_over_steps_holds_the_truth_as_often_as_it_says(steps, alike):
    assert coverage(steps=steps, alike=alike, trials=100) >= 0.88


def test_steps_that_resemble_their_neighbours_widen_the_interval():
    rng = np.random.default_rng(1)
    along = 1 + 0.3 * neighbours_alike(rng, 200, 0.8)
    sums = np.column_stack([along, np.full(200, 4.0)])
    shuffled = rng.permutation(sums)

    wide, narrow = (np.ptp(stats.interval(stats.bootstrap_over_steps(s)[:, 0])) for s in (sums, shuffled))

    assert wide > 2.5 * narrow


def test_replicates_over_steps_are_shares_like_those_over_blocks():
    sums = np.random.default_rng(2).uniform(0, 1, (40, 5))

    replicates = stats.bootstrap_over_steps(sums)

    assert replicates.shape == (stats.REPLICATES, 5)
    assert replicates.sum(axis=1) == pytest.approx(np.ones(stats.REPLICATES))
    assert replicates.min() >= 0
    assert replicates.mean(axis=0) == pytest.approx(sums.sum(axis=0) / sums.sum(), abs=0.01)


def test_weights_of_one_give_the_mean_step():
    lengths = 0.1 * (1 + 0.1 * np.random.default_rng(3).standard_normal((100, 1)))

    low, high = stats.interval(stats.bootstrap_over_steps(lengths, weights=np.ones(100))[:, 0])

    assert low < lengths.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * 0.001, rel=0.4)


def test_steps_that_are_all_the_same_leave_no_doubt():
    replicates = stats.bootstrap_over_steps(np.tile([1.0, 3.0], (20, 1)))

    assert replicates == pytest.approx(np.tile([0.25, 0.75], (stats.REPLICATES, 1)))


def test_a_handful_of_steps_gives_no_interval():
    assert np.isnan(stats.bootstrap_over_steps(np.ones((11, 2)))).all()
    assert np.isnan(stats.bootstrap_over_steps(np.zeros((50, 2)))).all()
