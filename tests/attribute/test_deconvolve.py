import numpy as np
import pytest

from perfzero.attribute import mixing as mixing_module
from perfzero.attribute.deconvolve import (
    INTERVAL,
    Shared,
    at_other_clocks,
    is_told,
    sets_from,
    share_out,
    told_together,
)
from perfzero.attribute.mixing import Kernels, is_solvable, mix
from perfzero.attribute.rates import by_overlap
from perfzero.values import FloatArray, IntArray
from simulated_kernels import sets_of, simulate

US = 1_000


def ints(*values: float) -> IntArray:
    return np.array(values, np.int64)


def every(period_ns: int, until_ns: int) -> tuple[IntArray, IntArray]:
    edges = np.arange(0, until_ns + 1, period_ns, dtype=np.int64)
    return edges[:-1], edges[1:]


def shared(amounts: FloatArray, start: IntArray, end: IntArray, kernels: Kernels) -> Shared:
    found = share_out(amounts, mix(start, end, kernels))
    assert found is not None
    return found


def counted(start: IntArray, end: IntArray, kernels: Kernels, rates: FloatArray) -> FloatArray:
    """What samples count of kernels that run evenly at *rates* per ns."""
    begin, finish = kernels.start_ns[:, None], kernels.end_ns[:, None]
    time = np.maximum(np.minimum(end, finish) - np.maximum(start, begin), 0)
    return np.asarray(rates @ time, np.float64)


def pairs(steps: int, step_ns: int, first: tuple[int, int], second: tuple[int, int]) -> Kernels:
    """Steps of two kernels each, every one from and to a time in the step."""
    begin = np.arange(steps, dtype=np.int64)[:, None] * step_ns
    start = (begin + ints(first[0], second[0])).ravel()
    end = (begin + ints(first[1], second[1])).ravel()
    which = np.tile(ints(0, 1), steps)
    return Kernels(start, end, which, which)


def test_a_kernel_longer_than_the_samples_gets_what_they_count() -> None:
    kernels = Kernels(ints(0, 500 * US), ints(500 * US, 900 * US), ints(0, 1), ints(0, 1))
    start, end = every(20 * US, 900 * US)
    found = shared(counted(start, end, kernels, np.array([2.0, 0.5])), start, end, kernels)
    assert found.amounts == pytest.approx([1e6, 2e5], rel=0.01)


def test_kernels_shorter_than_the_samples_are_told_apart_over_the_steps() -> None:
    kernels = pairs(60, 73 * US, (0, 20 * US), (22 * US, 60 * US))
    start, end = every(100 * US, 60 * 73 * US)
    amounts = counted(start, end, kernels, np.tile([3.0, 0.2], 60))
    found = shared(amounts, start, end, kernels)
    assert found.amounts[:2] == pytest.approx([60e3, 7.6e3], rel=0.06)
    sets = sets_of(kernels.kind, 2)
    assert is_told(sets @ found.amounts, found.errors(sets), found.total).all()


def test_kernels_that_samples_locked_to_the_step_cannot_tell_apart_are_told_as_one() -> None:
    kernels = pairs(60, 100 * US, (0, 20 * US), (22 * US, 60 * US))
    start, end = every(100 * US, 60 * 100 * US)
    amounts = counted(start, end, kernels, np.tile([3.0, 0.2], 60))
    found = shared(amounts, start, end, kernels)
    sets = sets_of(kernels.kind, 2)
    sums, covariance = sets @ found.amounts, found.covariance(sets)
    assert not is_told(sums, found.errors(sets), found.total).any()
    assert told_together(sums, covariance, found.total) == [[0, 1]]
    assert sums.sum() == pytest.approx(60 * 67.6e3, rel=0.02)
    both = sets_from([np.arange(120)], 120)
    assert is_told(sums.sum(keepdims=True), found.errors(both), found.total).all()


def test_nothing_is_put_together_where_all_is_known() -> None:
    assert told_together(np.array([5.0, 5.0]), np.diag([0.1, 0.1]), 10.0) == []


def test_what_is_unknown_for_itself_alone_is_put_together_with_nothing() -> None:
    assert told_together(np.array([5.0, 5.0]), np.diag([9.0, 0.1]), 10.0) == []


def test_as_many_are_put_together_as_it_takes() -> None:
    spread = 4.0 * np.array([[2.0, -1.0, -1.0], [-1.0, 2.0, -1.0], [-1.0, -1.0, 2.0]])
    assert told_together(np.array([5.0, 5.0, 5.0]), spread, 15.0) == [[0, 1, 2]]


def test_no_more_are_put_together_than_it_takes() -> None:
    spread = np.array([[9.0, -7.0, -0.01], [-7.0, 9.0, 0.0], [-0.01, 0.0, 0.01]])
    assert told_together(np.array([5.0, 5.0, 5.0]), spread, 15.0) == [[0, 1]]


def test_a_group_that_stays_unknown_is_one_all_the_same() -> None:
    spread = np.array([[8.0, -1.0, -1.0], [-1.0, 8.0, 0.0], [-1.0, 0.0, 1.0]])
    assert told_together(np.array([5.3, 5.3, 5.0]), spread, 15.6) == [[0, 1, 2]]


def test_work_in_no_set_is_in_none() -> None:
    assert sets_of(ints(1, -1, 0), 2).toarray().tolist() == [[0, 0, 1], [1, 0, 0]]
    assert sets_from([ints(0, 2), ints(), ints(2)], 3).toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 1]]


def test_kernels_that_run_at_once_on_two_streams_add_up() -> None:
    steps = 40
    begin = np.arange(steps, dtype=np.int64) * 203 * US
    late = np.random.default_rng(1).integers(0, 80 * US, steps)
    start = np.concatenate((begin, begin + late))
    end = np.concatenate((begin + 150 * US, begin + late + 100 * US))
    which = np.repeat(ints(0, 1), steps)
    kernels = Kernels(start, end, which, which)
    first, last = every(50 * US, steps * 203 * US)
    amounts = counted(first, last, kernels, np.array([1.0, 4.0])[which])
    found = sets_of(which, 2) @ shared(amounts, first, last, kernels).amounts
    assert found == pytest.approx([steps * 150e3, steps * 400e3], rel=0.02)


def test_kernels_that_always_run_at_once_are_told_as_one() -> None:
    kernels = pairs(60, 73 * US, (0, 40 * US), (0, 40 * US))
    start, end = every(50 * US, 60 * 73 * US)
    found = shared(counted(start, end, kernels, np.tile([3.0, 0.2], 60)), start, end, kernels)
    sets = sets_of(kernels.kind, 2)
    assert told_together(sets @ found.amounts, found.covariance(sets), found.total) == [[0, 1]]


@pytest.mark.parametrize(("period_us", "most"), [(20, 0.02), (50, 0.03), (100, 0.08)])
def test_amounts_by_kind_of_kernel_come_out_where_overlap_in_time_is_far_off(
    period_us: int, most: float
) -> None:
    seen = [simulate(seed=seed, steps=12, period_ns=period_us * 1e3) for seed in range(3)]
    errors, naive = [], []
    for s in seen:
        mixing = mix(s.start_ns, s.end_ns, s.kernels)
        found = share_out(s.amounts, mixing)
        assert found is not None
        errors.append(s.error(found.amounts))
        naive.append(s.error(by_overlap(s.amounts, mixing)))
    assert max(errors) <= most
    assert np.mean(naive) > 3 * np.mean(errors)


@pytest.mark.parametrize("period_us", [20, 50, 100, 1000])
def test_intervals_hold_the_truth(period_us: int) -> None:
    inside = []
    for seed in range(4):
        s = simulate(seed=seed, period_ns=period_us * 1e3, steps=8)
        found = shared(s.amounts, s.start_ns, s.end_ns, s.kernels)
        sets = sets_of(s.kernels.kind, 40)
        inside.append(np.abs(sets @ (found.amounts - s.truth)) <= INTERVAL * found.errors(sets))
    assert np.mean(inside) >= 0.9


def test_at_a_millisecond_single_kinds_are_told_less_often_than_at_50_us() -> None:
    told = []
    for period in (50e3, 1e6):
        s = simulate(period_ns=period, steps=8)
        found = shared(s.amounts, s.start_ns, s.end_ns, s.kernels)
        sets = sets_of(s.kernels.kind, 40)
        told.append(is_told(sets @ found.amounts, found.errors(sets), found.total).mean())
    assert told[0] == 1.0
    assert told[1] < 0.9


def test_kernels_and_unattributed_are_together_what_was_counted() -> None:
    s = simulate()
    inside = (s.start_ns >= s.kernels.start_ns.min()) & (s.end_ns <= s.kernels.end_ns.max())
    found = shared(s.amounts[inside], s.start_ns[inside], s.end_ns[inside], s.kernels)
    assert found.counted == pytest.approx(s.amounts[inside].sum())
    assert found.seen == pytest.approx(1.0, abs=0.02)
    assert found.total * found.seen + found.unattributed == pytest.approx(found.counted, rel=0.01)
    assert abs(found.unattributed) < 0.02 * found.counted


def test_what_is_counted_while_no_kernel_runs_is_unattributed() -> None:
    kernels = Kernels(ints(0, 500 * US), ints(100 * US, 600 * US), ints(0, 0), ints(0, 0))
    start, end = every(20 * US, 600 * US)
    amounts = counted(start, end, kernels, np.array([1.0, 1.0]))
    amounts[12:14] += 50e3
    found = shared(amounts, start, end, kernels)
    assert found.unattributed == pytest.approx(100e3, rel=0.02)
    assert found.amounts == pytest.approx([1e5, 1e5], rel=0.02)


def test_what_the_caches_write_between_kernels_is_unattributed() -> None:
    kernels = pairs(40, 73 * US, (0, 20 * US), (30 * US, 60 * US))
    start, end = every(50 * US, 40 * 73 * US)
    amounts = counted(start, end, kernels, np.tile([2.0, 1.0], 40))
    gaps = pairs(40, 73 * US, (20 * US, 30 * US), (60 * US, 73 * US))
    between = counted(start, end, gaps, np.full(80, 0.5))
    found = shared(amounts + between, start, end, kernels)
    assert found.unattributed == pytest.approx(between.sum(), rel=0.15)
    assert sets_of(kernels.kind, 2) @ found.amounts == pytest.approx([40 * 40e3, 40 * 30e3], rel=0.05)


def test_rates_held_at_zero_leave_nothing_too_much_to_the_others() -> None:
    totals = []
    for seed in range(4):
        s = simulate(seed=seed, period_ns=1e6, steps=12, quiet=30)
        totals.append(shared(s.amounts, s.start_ns, s.end_ns, s.kernels).total / s.truth.sum())
    assert np.mean(totals) == pytest.approx(1.0, abs=0.02)


def test_a_kernel_that_no_sample_saw_is_like_the_others_at_its_position() -> None:
    kernels = pairs(3, 100 * US, (0, 50 * US), (50 * US, 100 * US))
    start, end = every(50 * US, 200 * US)
    amounts = np.array([1e5, 2e5, 1e5, 2e5])
    mixing = mix(start, end, kernels)
    assert by_overlap(amounts, mixing) == pytest.approx([1e5, 2e5] * 3)
    found = shared(amounts, start, end, kernels)
    assert found.amounts == pytest.approx([1e5, 2e5] * 3, rel=0.03)


def test_errors_grow_with_what_the_fit_leaves_over() -> None:
    errors = []
    for instances in (0.05, 0.5):
        s = simulate(instances=instances, steps=8)
        found = shared(s.amounts, s.start_ns, s.end_ns, s.kernels)
        errors.append(found.errors(sets_of(s.kernels.kind, 40)).sum())
    assert errors[1] > 2 * errors[0]


def test_errors_of_many_sets_are_those_of_few() -> None:
    s = simulate(positions=400, kinds=400, steps=3, period_ns=100e3)
    found = shared(s.amounts, s.start_ns, s.end_ns, s.kernels)
    sets = sets_of(s.kernels.kind, 400)
    many = found.errors(sets)
    few = np.concatenate([found.errors(sets[first : first + 200]) for first in (0, 200)])
    assert many == pytest.approx(few, rel=0.25)
    assert many.sum() == pytest.approx(few.sum(), rel=0.02)
    assert few[:200] == pytest.approx(np.sqrt(np.diag(found.covariance(sets[:200]))))


def test_no_sets_have_no_errors() -> None:
    s = simulate(positions=40, kinds=40, steps=3, period_ns=50e3)
    found = shared(s.amounts, s.start_ns, s.end_ns, s.kernels)
    assert found.errors(sets_from([], len(s.kernels))).shape == (0,)
    assert found.covariance(sets_from([], len(s.kernels))).shape == (0, 0)


def test_samples_with_holes_give_the_same_amounts_less_surely() -> None:
    s = simulate(steps=10, period_ns=20e3)
    holes = s.amounts.copy()
    holes[(np.arange(len(holes)) // 20) % 3 > 0] = np.nan
    whole = shared(s.amounts, s.start_ns, s.end_ns, s.kernels)
    part = shared(holes, s.start_ns, s.end_ns, s.kernels)
    sets = sets_of(s.kernels.kind, 40)
    assert part.seen == pytest.approx(1 / 3, abs=0.1)
    assert part.total == pytest.approx(whole.total, rel=0.03)
    assert s.error(part.amounts) < 0.08
    assert part.errors(sets).sum() > 1.1 * whole.errors(sets).sum()


def test_without_a_sample_that_has_a_kernel_in_it_there_is_nothing_to_share() -> None:
    kernels = Kernels(ints(0), ints(100), ints(0), ints(0))
    assert share_out(np.array([5.0]), mix(ints(200), ints(300), kernels)) is None
    assert share_out(np.array([np.nan]), mix(ints(0), ints(100), kernels)) is None
    assert share_out(np.empty(0), mix(ints(), ints(), kernels)) is None


def test_a_counter_that_counted_nothing_gives_nothing_to_every_kernel() -> None:
    kernels = pairs(3, 100 * US, (0, 20 * US), (22 * US, 60 * US))
    start, end = every(50 * US, 300 * US)
    found = shared(np.zeros(6), start, end, kernels)
    sets = sets_of(kernels.kind, 2)
    assert found.total == 0 == found.unattributed
    assert is_told(sets @ found.amounts, found.errors(sets), 0.0).all()
    assert not found.covariance(sets).any()


def test_a_kernel_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="ends before"):
        Kernels(ints(10), ints(9), ints(0), ints(0))
    with pytest.raises(ValueError, match="same length"):
        Kernels(ints(10), ints(19), ints(0), ints(0, 0))


def test_no_amount_is_negative() -> None:
    for seed in range(3):
        s = simulate(seed=seed, period_ns=100e3, steps=3)
        assert (shared(s.amounts, s.start_ns, s.end_ns, s.kernels).amounts >= 0).all()


def test_amounts_are_as_unsure_as_they_differ_at_other_clocks() -> None:
    s = simulate(steps=6)
    mixing = mix(s.start_ns, s.end_ns, s.kernels)
    found = shared(s.amounts, s.start_ns, s.end_ns, s.kernels)
    sets = sets_of(s.kernels.kind, 40)

    by = np.full(len(s.kernels), 30_000)
    astray = at_other_clocks(
        found, s.amounts, mixing, [mix(s.start_ns, s.end_ns, s.kernels.moved(sign * by)) for sign in (-1, 1)]
    )
    assert (astray.errors(sets) > 1.5 * found.errors(sets)).mean() > 0.8
    assert astray.covariance(sets).diagonal() == pytest.approx(astray.errors(sets) ** 2)
    # What is moved from one kernel to another is still moved by some kernel.
    everything = sets_of(np.zeros(len(s.kernels), np.int64), 1)
    grows, grows_whole = (astray.errors(of) / found.errors(of) for of in (sets, everything))
    assert grows_whole < 0.5 * np.median(grows)

    same = at_other_clocks(found, s.amounts, mixing, [mixing])
    assert same.errors(sets) == pytest.approx(found.errors(sets), rel=0.05)
    nothing = share_out(0.0 * s.amounts, mixing)
    assert nothing is not None
    assert at_other_clocks(nothing, 0.0 * s.amounts, mixing, [mixing]) is nothing


@pytest.mark.parametrize("limit", ["MOST_PAIRS", "MOST_PRODUCTS", "MOST_FACTORING"])
def test_a_system_with_more_of_anything_than_its_limit_is_not_solved(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = simulate(steps=4)
    assert is_solvable(s.start_ns, s.end_ns, s.kernels)

    monkeypatch.setattr(mixing_module, limit, 100)
    assert not is_solvable(s.start_ns, s.end_ns, s.kernels)


def test_samples_without_kernels_are_solvable() -> None:
    s = simulate(steps=2)
    later = s.start_ns + 10**12

    assert is_solvable(later, later + 50_000, s.kernels)
