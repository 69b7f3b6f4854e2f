"""Two runs of one program are the same, a slower one is slower, and what cannot be told is not told."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfzero.series.compare import (
    BUSY,
    WAITING,
    Measured,
    Series,
    difference,
    measured,
    simultaneous,
    stretches_of,
)

SECOND = 1_000_000_000


def run(
    seed: int,
    *,
    step_s: float = 0.05,
    seconds: float = 12.0,
    noise: float = 0.003,
    alike: float = 0.3,
    drift: float = 0.0007,
    between: float = 0.0007,
) -> Series:
    """Steps of one run: AR(1) noise on them, a level that wanders over seconds, and an offset of the run."""
    rng = np.random.default_rng(seed)
    count = round(seconds / step_s)

    def wander(remember: float, size: float) -> np.ndarray:
        shocks = rng.normal(size=count) * math.sqrt(1 - remember**2)
        out = np.empty(count)
        out[0] = rng.normal()
        for i in range(1, count):
            out[i] = remember * out[i - 1] + shocks[i]
        return out * size

    level = 1 + between * rng.normal() + wander(math.exp(-step_s / 2.0), drift) + wander(alike, noise)
    steps = step_s * level
    return Series(steps, np.ones(count), np.floor(np.cumsum(steps)).astype(np.int64))


def slower(series: Series, by: float) -> Series:
    return Series(series.values * (1 + by), series.weights, series.stretch)


def mean_of(*runs: Series, usual: float = BUSY) -> Measured:
    return measured(runs, scale="ratio", usual=usual)


def words(pairs: int, *, by: float = 0.0, usual: float = BUSY, **kind: float) -> list[str]:
    return [
        difference(
            mean_of(run(2 * i, **kind), usual=usual), mean_of(slower(run(2 * i + 1, **kind), by), usual=usual)
        ).word
        for i in range(pairs)
    ]


def test_two_runs_of_a_program_that_keeps_the_gpu_busy_are_the_same() -> None:
    found = words(40)

    assert found.count("same") >= 36
    assert found.count("more") + found.count("less") == 0


def test_a_program_that_is_two_percent_slower_is_found_to_be() -> None:
    assert words(40, by=0.02).count("more") >= 38


def test_a_program_that_wanders_with_its_host_is_neither_the_same_nor_another() -> None:
    """At 10 % of drift, and as much from run to run, nobody knows after 12 s."""
    found = words(40, usual=WAITING, drift=0.1, between=0.1, noise=0.05)

    assert found.count("unknown") >= 36
    assert found.count("same") == 0


def test_a_program_that_wanders_is_told_apart_where_it_is_three_times_as_slow() -> None:
    assert words(20, by=2.0, usual=WAITING, drift=0.05, between=0.05, noise=0.05).count("more") >= 18


def test_the_steps_alone_would_claim_differences_between_runs_of_one_program() -> None:
    """What an interval from steps alone does, and ours does not: runs differ by 0.2 %, steps by 0.3 %."""
    kind = {"between": 0.002, "drift": 0.002}
    claimed = 0
    for i in range(40):
        a, b = (run(k, **kind).values for k in (2 * i, 2 * i + 1))
        error = math.sqrt(a.var() / len(a) + b.var() / len(b)) / a.mean()
        claimed += abs(b.mean() / a.mean() - 1) > 1.96 * error
    found = words(40, **kind)

    assert claimed >= 16
    assert found.count("more") + found.count("less") <= 4


def test_several_runs_that_agree_make_the_interval_narrower() -> None:
    one = difference(mean_of(run(1)), mean_of(run(2)))
    five = difference(mean_of(*map(run, range(1, 6))), mean_of(*map(run, range(6, 11))))

    assert five.high - five.low < 0.75 * (one.high - one.low)


def test_several_runs_that_disagree_make_it_wider() -> None:
    """Each run is even in itself, and they lie 1 % apart: only several runs can show that."""
    kind = {"between": 0.01, "drift": 0.0003}
    one = mean_of(run(1, **kind))
    four = mean_of(*(run(k, **kind) for k in range(1, 5)))
    low, high = four.interval()

    assert one.interval()[1] / one.interval()[0] < 1.01
    assert high / low > 1.01


def test_fewer_than_three_stretches_tell_no_drift_and_so_no_interval() -> None:
    short = run(1, seconds=1.9)
    found = difference(mean_of(short), mean_of(run(2)))

    assert found.word == "unknown"
    assert math.isnan(found.low)
    assert found.value == pytest.approx(0.0, abs=0.01)


def test_nothing_seen_gives_nothing() -> None:
    nothing = Series(np.full(5, np.nan), np.ones(5), np.arange(5))
    found = difference(mean_of(nothing), mean_of(run(1)))

    assert found.word == "unknown"
    assert math.isnan(found.value)


def test_steps_that_never_differ_are_the_same_and_no_division_fails() -> None:
    even = Series(np.full(200, 0.05), np.ones(200), np.repeat(np.arange(10), 20))

    assert difference(mean_of(even), mean_of(even)).word == "same"


def test_a_rate_differs_by_as_much_as_its_time_the_other_way_round() -> None:
    a, b = mean_of(run(1)), mean_of(slower(run(2), 0.25))
    time, rate = difference(a, b), difference(a.inverse(), b.inverse())

    assert rate.value == pytest.approx(1 / (1 + time.value) - 1)
    assert rate.low == pytest.approx(1 / (1 + time.high) - 1)


def test_scaling_all_values_changes_nothing() -> None:
    a, b = run(1), slower(run(2), 0.01)
    thousand = [Series(s.values * 1e3, s.weights, s.stretch) for s in (a, b)]
    one, other = difference(mean_of(a), mean_of(b)), difference(*map(mean_of, thousand))

    assert (other.value, other.low, other.high) == pytest.approx((one.value, one.low, one.high))


def test_shares_are_compared_in_points() -> None:
    rng = np.random.default_rng(0)

    def share(level: float) -> Measured:
        values = level + 0.002 * rng.normal(size=240)
        return measured(
            [Series(values, np.ones(240), np.repeat(np.arange(12), 20))], scale="points", usual=BUSY
        )

    found = difference(share(0.10), share(0.15))

    assert found.value == pytest.approx(0.05, abs=0.001)
    assert found.word == "more"
    assert difference(share(0.10), share(0.102)).word == "same"


def test_of_many_metrics_none_differs_by_chance() -> None:
    """60 metrics of runs that are alike: alone some would be called different."""
    pairs = [
        (mean_of(run(k, drift=0.0)), mean_of(run(k + 1000, drift=0.0, between=0.002))) for k in range(60)
    ]
    alone = [difference(a, b) for a, b in pairs]
    together = simultaneous(pairs, margins=[0.01] * 60)

    assert sum(d.p < 0.05 for d in alone) >= 2
    assert sum(d.word in ("more", "less") for d in together) == 0


def test_a_real_difference_among_many_is_still_found_and_its_interval_agrees_with_the_word() -> None:
    pairs = [(mean_of(run(k)), mean_of(run(k + 100))) for k in range(20)]
    pairs[3] = (mean_of(run(3)), mean_of(slower(run(103), 0.05)))
    found = simultaneous(pairs, margins=[0.01] * 20)

    assert found[3].word == "more"
    assert found[3].low >= 0
    assert all(d.word not in ("more", "less") for i, d in enumerate(found) if i != 3)


def test_the_intervals_of_many_are_wider_than_that_of_one() -> None:
    pairs = [(mean_of(run(k)), mean_of(run(k + 100))) for k in range(20)]
    alone, together = difference(*pairs[0]), simultaneous(pairs, margins=[0.01] * 20)[0]

    assert together.high - together.low > 1.3 * (alone.high - alone.low)
    assert together.p == alone.p


def test_what_is_not_known_takes_no_part_in_the_correction() -> None:
    a, b = mean_of(run(1)), mean_of(slower(run(2), 0.02))
    unknown = Measured.missing("ratio")
    alone = simultaneous([(a, b)], margins=[0.01])
    beside = simultaneous([(a, b), *[(unknown, unknown)] * 50], margins=[0.01] * 51)

    assert beside[0] == alone[0]
    assert beside[1].word == "unknown"


def test_a_span_is_cut_into_equal_stretches_of_about_a_second() -> None:
    starts = np.arange(0, 35) * SECOND // 10
    spans = np.array([[0, 2_400_000_000], [3_000_000_000, 3_500_000_000]])
    found = stretches_of(starts, starts + SECOND // 10, seen_ns=spans)

    assert sorted(set(found.tolist())) == [-1, 0, 1, 2]
    assert np.bincount(found[found >= 0]).tolist() == [12, 12, 5]


def test_a_scatter_that_remembers_itself_is_no_drift() -> None:
    """Its stretches scatter by 0.7 %, as 20 such steps each must."""
    drifts = [mean_of(run(k, drift=0.0, between=0.0, noise=0.01, alike=0.8)).drift for k in range(15)]

    assert np.median(drifts) < 0.003


def test_a_correlated_scatter_makes_an_interval_wider() -> None:
    independent = mean_of(run(5, drift=0.0, between=0.0, noise=0.05, alike=0.0))
    correlated = mean_of(run(5, drift=0.0, between=0.0, noise=0.05, alike=0.8))

    wide, narrow = (math.log(m.interval()[1] / m.interval()[0]) for m in (correlated, independent))
    assert wide > 1.5 * narrow


def test_onsets_that_come_early_and_late_by_turns_do_not_make_an_even_program_unsure() -> None:
    """What one step gains the next one loses: stretches agree all the same."""
    level = np.repeat([1.0002, 0.9998, 1.0001, 1.0, 0.9999], 4)
    steps = 0.25 * level * (1 + 0.01 * np.tile([1.0, 1.0, -1.0, -1.0], 5))
    series = Series(steps, np.ones(20), np.repeat(np.arange(5), 4))
    low, high = mean_of(series).interval()

    assert high / low - 1 < 0.004


def test_three_runs_each_cover_the_truth_though_runs_differ_far_more_than_they_drift() -> None:
    """By 40 times: no run can show it, and a library that chooses another algorithm does it."""
    kind = {"between": 0.02, "drift": 0.0005, "noise": 0.001, "seconds": 9.0}
    found = [
        difference(
            mean_of(*(run(6 * i + k, **kind) for k in range(3))),
            mean_of(*(run(6 * i + k, **kind) for k in range(3, 6))),
        )
        for i in range(30)
    ]

    assert sum(d.low <= 0 <= d.high for d in found) >= 27
    # Student's t of 4 degrees of freedom: 2.8 x 2 % x sqrt(2 / 3).
    assert np.median([(d.high - d.low) / 2 for d in found]) > 0.04
    assert sum(d.word == "same" for d in found) == 0


def test_three_runs_each_that_agree_still_find_two_percent() -> None:
    assert all(
        difference(
            mean_of(*(run(6 * i + k) for k in range(3))),
            mean_of(*(slower(run(6 * i + k), 0.02) for k in range(3, 6))),
        ).word
        == "more"
        for i in range(6)
    )


def of_long_steps(seed: int, **kind: float) -> Measured:
    return mean_of(run(seed, step_s=0.7, noise=0.01, alike=0.0, **kind))


def test_jitter_of_steps_of_a_second_is_no_drift() -> None:
    """17 steps that scatter by 1 % know their mean to 0.24 %; runs need not differ by the scatter."""
    reach = [math.log(m.interval()[1] / m.value) for m in map(of_long_steps, range(20))]

    assert 0.0048 < np.median(reach) < 0.012


def test_drift_of_steps_of_a_second_is_no_jitter() -> None:
    """A wander of 5 % over seconds is still expected between runs."""
    reach = [math.log(m.interval()[1] / m.value) for m in (of_long_steps(k, drift=0.05) for k in range(20))]

    assert np.median(reach) > 0.04


def test_a_product_is_as_unsure_as_its_factors_together() -> None:
    one, other = mean_of(run(1)), mean_of(run(2))
    reach = [math.log(m.interval()[1] / m.value) for m in (one, other, one.times(other))]

    assert reach[2] == pytest.approx(math.hypot(reach[0], reach[1]), rel=0.1)


def test_a_product_with_what_is_not_known_has_a_value_and_no_interval() -> None:
    short = mean_of(run(1, seconds=1.9))
    for product in (mean_of(run(2)).times(short), short.times(mean_of(run(2)))):
        assert product.value == pytest.approx(0.0025, rel=0.01)
        assert math.isnan(product.interval()[0])
