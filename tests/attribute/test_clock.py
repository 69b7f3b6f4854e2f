import math

import numpy as np
import pytest

from perfzero.attribute.clock import find_clock, find_lag
from perfzero.attribute.mixing import Kernels
from perfzero.values import FloatArray
from simulated_kernels import BEGIN_NS, simulate


@pytest.mark.parametrize("offset_ns", [0, 3_000, -17_000, 40_000])
def test_an_offset_is_found_to_2_us(offset_ns: int) -> None:
    for seed in range(2):
        s = simulate(seed=seed, steps=10, offset_ns=offset_ns)
        clock = find_clock(s.start_ns, s.end_ns, [s.amounts], s.kernels)
        assert clock.known
        assert clock.offset_ns == pytest.approx(offset_ns, abs=2_000)


def test_with_kernels_that_work_evenly_the_error_says_how_far_off_it_is() -> None:
    away = []
    for seed in range(6):
        s = simulate(seed=seed, steps=10, offset_ns=5_000, even=True)
        clock = find_clock(s.start_ns, s.end_ns, [s.amounts], s.kernels)
        away.append((clock.offset_ns - 5_000) / clock.offset_error_ns)
    assert np.sqrt(np.mean(np.square(away))) < 2.5


def test_a_drift_is_found_with_the_offset() -> None:
    s = simulate(steps=20, offset_ns=8_000, drift=1e-4)
    clock = find_clock(s.start_ns, s.end_ns, [s.amounts], s.kernels)
    assert clock.drift == pytest.approx(1e-4, abs=4 * clock.drift_error)
    assert clock.drift_error < 1e-5
    moved = clock.applied(s.kernels)
    true = simulate(steps=20).kernels
    assert np.abs(moved.start_ns - true.start_ns).max() < 3_000


def test_a_drift_that_cannot_be_known_is_not_asked_for() -> None:
    s = simulate(steps=8, period_ns=400e3, offset_ns=5_000)
    assert len(s.start_ns) > 50
    clock = find_clock(s.start_ns, s.end_ns, [s.amounts], s.kernels)
    assert clock.known
    assert math.isnan(clock.drift_error)
    assert clock.drift == 0


def test_several_quantities_tell_more_than_one() -> None:
    s = simulate(steps=6, offset_ns=5_000)
    other = simulate(steps=6, offset_ns=5_000)
    one = find_clock(s.start_ns, s.end_ns, [s.amounts], s.kernels)
    two = find_clock(s.start_ns, s.end_ns, [s.amounts, other.amounts * 1e9], s.kernels)
    assert two.offset_error_ns < one.offset_error_ns
    assert two.offset_ns == pytest.approx(one.offset_ns, abs=500)


def test_kernels_of_one_rate_say_nothing_of_the_clock() -> None:
    s = simulate(steps=10, offset_ns=5_000, same_rate=True, period_ns=500e3)
    clock = find_clock(s.start_ns, s.end_ns, [s.amounts], s.kernels)
    assert not clock.known
    assert clock.offset_ns == 0
    assert clock.applied(s.kernels) is s.kernels


@pytest.mark.parametrize("offset_ns", [300_000, -1_000_000])
def test_an_offset_out_of_reach_is_not_taken_for_another(offset_ns: int) -> None:
    for seed in range(4):
        s = simulate(seed=seed, steps=10, offset_ns=offset_ns)
        assert not find_clock(s.start_ns, s.end_ns, [s.amounts], s.kernels).known


def test_kernels_that_take_turns_say_nothing_of_the_clock() -> None:
    """An offset of one kernel fits as well as none, with the rates exchanged."""
    rates = np.array([1e3, 5e3, 2e3, 9e3, 4e3, 7e3])
    for lengths, known in (((55_000,) * 2, False), ((20_300, 90_100, 33_700, 71_900), True)):
        position = np.arange(400) % len(lengths)
        length = np.array(lengths)[position]
        borders = BEGIN_NS + np.append(0, np.cumsum(length))
        edges = np.arange(borders[0], borders[-1], 50_000)
        moved = np.append(0.0, np.cumsum(rates[position] * length))
        counted = np.diff(np.interp(edges, borders, moved))
        noise = 1 + 0.005 * np.random.default_rng(1).standard_normal(len(counted))
        kernels = Kernels(borders[:-1], borders[1:], position, position)
        assert find_clock(edges[:-1], edges[1:], [counted * noise], kernels).known == known


@pytest.mark.parametrize(("offset_ns", "late_ns"), [(0, 500), (0, 3_000), (7_000, 3_000)])
def test_a_quantity_that_comes_late_is_no_reason_to_doubt_the_clock(offset_ns: int, late_ns: int) -> None:
    """As writes do; where both clocks agree no offset is better than none, for the first quantity."""
    rng = np.random.default_rng(0)
    position = np.arange(600) % 30
    length = rng.integers(20_000, 120_000, 30)[position]
    borders = np.append(0, np.cumsum(length))
    edges = np.arange(0, borders[-1], 20_000)
    moved = np.append(0.0, np.cumsum(rng.lognormal(0, 1, 30)[position] * 1e3 * length))

    def counted(late: int) -> FloatArray:
        noise = 1 + 0.005 * rng.standard_normal(len(edges) - 1)
        return np.diff(np.interp(edges - late, borders, moved)) * noise

    kernels = Kernels(
        BEGIN_NS + borders[:-1] - offset_ns, BEGIN_NS + borders[1:] - offset_ns, position, position
    )
    samples = [counted(0), counted(late_ns)]
    clock = find_clock(BEGIN_NS + edges[:-1], BEGIN_NS + edges[1:], samples, kernels)

    assert clock.known
    assert clock.gain >= 0
    assert clock.offset_ns == pytest.approx(offset_ns, abs=max(500, late_ns / 2 + 100))


def test_an_offset_that_cannot_be_known_well_is_not_used() -> None:
    s = simulate(steps=6, period_ns=200e3, offset_ns=5_000, instances=0.4)
    clock = find_clock(s.start_ns, s.end_ns, [s.amounts], s.kernels)
    assert clock.offset_error_ns > 2_000
    assert not clock.known
    assert clock.offset_ns == 0


def test_missing_samples_are_done_without() -> None:
    s = simulate(steps=12, offset_ns=5_000)
    holes = s.amounts.copy()
    holes[(np.arange(len(holes)) // 50) % 2 == 0] = np.nan
    clock = find_clock(s.start_ns, s.end_ns, [holes, s.amounts], s.kernels)
    assert clock.known
    assert clock.offset_ns == pytest.approx(5_000, abs=2_000)


def test_a_lag_is_found() -> None:
    s = simulate(steps=10, offset_ns=3_000, even=True)
    lag = find_lag(s.start_ns, s.end_ns, s.amounts, s.kernels)
    assert lag == pytest.approx(3_000, abs=400)


def test_a_lag_too_long_to_be_one_is_none() -> None:
    s = simulate(steps=10, offset_ns=9_000, even=True)
    assert find_lag(s.start_ns, s.end_ns, s.amounts, s.kernels) == 0.0


def test_a_lag_that_cannot_be_known_is_none() -> None:
    s = simulate(steps=4, period_ns=400e3, offset_ns=3_000)
    assert find_lag(s.start_ns, s.end_ns, s.amounts, s.kernels) == 0.0
    assert find_lag(s.start_ns, s.end_ns, np.full(len(s.amounts), np.nan), s.kernels) == 0.0
    assert find_lag(s.start_ns, s.end_ns, 0.0 * s.amounts, s.kernels) == 0.0


def test_too_few_samples_say_nothing() -> None:
    s = simulate(steps=10, offset_ns=5_000)
    few = slice(100, 110)
    assert not find_clock(s.start_ns[few], s.end_ns[few], [s.amounts[few]], s.kernels).known
    assert not find_clock(s.start_ns, s.end_ns, [], s.kernels).known
    missing = np.full(len(s.amounts), np.nan)
    assert not find_clock(s.start_ns, s.end_ns, [missing], s.kernels).known
