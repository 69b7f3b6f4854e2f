"""Gaps are as long as they were made, and windows that cut them change no distribution."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfzero.series.gaps import Gaps, find_gaps, kaplan_meier, stretches
from perfzero.sources.synthetic import Phase, signal
from perfzero.values import Samples

MS = 1_000_000
SECOND = 1_000_000_000
START = 1_700_000_000_000_000_000


def of_bursts(edges_s, *, until_s, period_ms=1.0, level=1.0) -> Samples:
    """Samples of a GPU that is busy at *level* from each even of *edges_s* to the odd one after it."""
    edge = START + np.round(np.asarray(edges_s) * 1e9).astype(np.int64)
    start = np.arange(START, START + round(until_s * 1e9), round(period_ms * MS), dtype=np.int64)
    end = start + round(period_ms * MS)
    begin, finish = edge[::2], edge[1::2]
    length = np.r_[0, np.cumsum(finish - begin)].astype(float)

    def busy_until(at):
        place = np.searchsorted(begin, at, "right")
        inside = np.where(place > 0, np.minimum(at - begin[place - 1], (finish - begin)[place - 1]), 0)
        return np.where(place > 0, length[place - 1] + inside, 0.0)

    busy = level * (busy_until(end) - busy_until(start)) / (end - start)
    return Samples(start, end, {"gr_active": np.clip(busy, 0, 1)})


def windows_of(samples: Samples, *, length_s: float, every_s: float, offset_s: float = 0.0) -> Samples:
    at = (samples.start_ns - samples.start_ns[0]) / 1e9 - offset_s
    return samples.where((at >= 0) & (at % every_s < length_s))


def found(samples: Samples) -> Gaps:
    gaps = find_gaps(samples)
    assert gaps is not None
    return gaps


def test_a_gap_between_samples_is_found_to_a_fraction_of_a_sample():
    gaps = found(of_bursts([0, 0.0203, 0.0417, 0.0555, 0.0702, 0.1], until_s=0.1))

    assert gaps.idle.length_s == pytest.approx([0.0214, 0.0147], abs=1e-6)
    assert gaps.idle_share == pytest.approx(0.361, abs=1e-3)
    assert gaps.unresolved_share == pytest.approx(0.0, abs=1e-6)


def test_a_gap_of_a_busy_program_with_short_gaps_is_not_stretched():
    """Kernels fill 40 % of the time between two waits: the samples at the edges are no emptier than that."""
    gaps = found(of_bursts([0, 0.02, 0.05, 0.1], until_s=0.1, level=0.4))

    assert gaps.idle.length_s == pytest.approx([0.03], abs=1e-6)
    assert gaps.unresolved_share == pytest.approx(0.6 * 0.07 / (0.6 * 0.07 + 0.03), abs=1e-3)


def test_a_gap_astride_two_samples_is_one_gap():
    gaps = found(of_bursts([0, 0.0103, 0.0117, 0.03], until_s=0.03))

    assert gaps.idle.length_s == pytest.approx([0.0014], abs=1e-6)


def test_gaps_shorter_than_a_sample_are_unresolved_not_guessed():
    cycle = [Phase(0.0002, {"gr_active": 1.0}), Phase(0.0003, {"gr_active": 0.0})]
    gaps = found(signal(cycle, start_ns=START, end_ns=START + SECOND, period_ns=MS))

    assert len(gaps.idle) == 0
    assert gaps.unresolved_share == pytest.approx(1.0)
    assert gaps.idle_share == pytest.approx(0.6, abs=0.01)
    assert math.isnan(gaps.idle.quantile(0.5))


def test_the_same_gaps_are_resolved_by_shorter_samples():
    cycle = [Phase(0.0002, {"gr_active": 1.0}), Phase(0.0003, {"gr_active": 0.0})]
    gaps = found(signal(cycle, start_ns=START, end_ns=START + SECOND // 10, period_ns=10_000))

    assert gaps.idle.quantile(0.5) == pytest.approx(0.0003, rel=0.01)
    assert gaps.unresolved_share == pytest.approx(0.0, abs=0.01)


def test_what_reading_the_counters_costs_is_no_work():
    """Without any kernel the engine counts as active for 2.9 % of samples of 10 µs (H200)."""
    start = START + 10_000 * np.arange(1000)
    quiet = Samples(start, start + 10_000, {"gr_active": np.full(1000, 0.029)})

    assert len(found(quiet).idle) == 1


def test_a_kernel_of_60_microseconds_ends_a_gap():
    samples = of_bursts([0.05, 0.05006, 0.1, 0.10006], until_s=0.2, period_ms=2.0)

    assert len(found(samples).idle) == 3


def test_a_busy_gpu_has_no_gaps():
    gaps = found(of_bursts([0, 1.0], until_s=1.0))

    assert len(gaps.idle) == 0
    assert gaps.idle_share == 0
    assert math.isnan(gaps.unresolved_share)


def test_without_activity_counters_there_is_no_answer():
    assert find_gaps(Samples.empty()) is None
    start = START + MS * np.arange(5)
    assert find_gaps(Samples(start, start + MS, {"gr_active": np.full(5, np.nan)})) is None


def test_gaps_at_the_edges_of_windows_are_counted_as_cut():
    samples = of_bursts([0.1, 0.2, 0.3, 0.9], until_s=1.0)
    gaps = found(samples)

    assert gaps.idle.cut_start.tolist() == [True, False, False]
    assert gaps.idle.cut_end.tolist() == [False, False, True]


def test_a_hole_between_windows_is_not_a_gap():
    samples = windows_of(of_bursts([0, 2.0], until_s=2.0), length_s=0.25, every_s=0.5)

    assert len(stretches(samples)) == 4
    assert len(found(samples).idle) == 0


def test_two_half_idle_samples_with_a_hole_between_are_no_gap():
    start = START + MS * np.array([0, 1, 2, 9, 10, 11])
    samples = Samples(start, start + MS, {"gr_active": np.array([1, 1, 0.4, 0.4, 1, 1])})

    assert len(found(samples).idle) == 0


def test_the_samples_beyond_a_hole_tell_nothing_of_a_gap_that_ends_there():
    """By the first sample alone the gap begins in its middle; those before the hole are half busy, too."""
    start = START + MS * np.array([0, 1, 2, 9, 10, 11, 12])
    samples = Samples(start, start + MS, {"gr_active": np.array([0.5, 0.5, 0.5, 0.5, 0, 1, 1])})

    assert found(samples).idle.length_s == pytest.approx([0.0015])


@pytest.mark.parametrize("seed", range(20))
def test_each_window_has_the_gaps_it_would_have_alone(seed):
    """Windows of 1 to 12 samples, of which many are empty, full or half idle."""
    rng = np.random.default_rng(seed)
    at = np.arange(400) + np.cumsum(rng.random(400) < rng.choice([0.1, 0.3, 0.6]))
    start = START + MS * at
    samples = Samples(start, start + MS, {"gr_active": rng.choice([0.0, 0.2, 0.4, 0.7, 1.0, 1.0], 400)})
    idle = found(samples).idle
    parts = [np.isin(np.arange(400), np.arange(*rows)) for rows in stretches(samples)]
    alone = [found(samples.where(part)).idle for part in parts]

    assert len(alone) > 30
    for name in ("start_ns", "end_ns", "cut_start", "cut_end"):
        assert getattr(idle, name).tolist() == np.concatenate([getattr(a, name) for a in alone]).tolist()
    assert (np.diff(idle.start_ns) > 0).all()


def calls_of(function) -> int:
    """How many functions, of Python or C, *function* calls."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_many_gaps_and_many_holes_are_no_more_work_for_the_interpreter_than_few(lost):
    rng = np.random.default_rng(5)

    def calls(count: int) -> int:
        start = START + MS * np.arange(count)
        samples = Samples(start, start + MS, {"gr_active": rng.choice([0.0, 0.4, 1.0], count)})
        samples = samples.where(rng.random(count) >= lost)
        return calls_of(lambda: find_gaps(samples))

    assert calls(20_000) < 1.2 * calls(1_000)


def test_a_gpu_idle_in_all_windows_has_long_gaps_of_unknown_length():
    samples = windows_of(of_bursts([5, 6], until_s=2.0), length_s=0.25, every_s=0.5)
    gaps = found(samples)

    assert gaps.unresolved_share == pytest.approx(0.0)
    assert math.isnan(gaps.idle.quantile(0.5))
    assert gaps.idle.longest_s == pytest.approx(0.25)


def test_a_cut_run_hands_its_share_to_the_longer_ones():
    """Lengths 1, 2+, 3, 4 (2 was cut): 3 and 4 stand for what the cut one was."""
    no = np.zeros(4, bool)
    mass = kaplan_meier(
        np.array([1.0, 2.0, 3.0, 4.0]), cut_start=no, cut_end=np.array([False, True, False, False])
    )

    assert mass.tolist() == pytest.approx([0.25, 0.0, 0.375, 0.375])


def renewal(rng, *, seconds: float, period_ms: float = 2.0) -> tuple[Samples, float, float]:
    """Lognormal gaps around 60 ms and bursts around 40 ms; with the true median and 90th percentile."""
    edges, at = [], 0.0
    while at < seconds:
        edges.append(at)
        at += 0.04 * math.exp(0.3 * rng.standard_normal())
        edges.append(min(at, seconds))
        at += 0.06 * math.exp(0.8 * rng.standard_normal())
    return of_bursts(edges, until_s=seconds, period_ms=period_ms), 0.06, 0.06 * math.exp(0.8 * 1.2816)


def median_and_p90_errors(*, trials: int, window_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Found over true median and 90th percentile: by runs in windows, and by complete runs alone."""
    ours, naive = [], []
    for trial in range(trials):
        samples, median, p90 = renewal(np.random.default_rng(trial), seconds=60 * window_s)
        seen = windows_of(samples, length_s=window_s, every_s=2 * window_s)
        idle = found(seen).idle
        complete = idle.length_s[~idle.cut_start & ~idle.cut_end]
        ours.append((idle.quantile(0.5) / median, idle.quantile(0.9) / p90))
        naive.append((np.median(complete) / median, np.quantile(complete, 0.9) / p90))
    return np.array(ours), np.array(naive)


def test_short_windows_do_not_make_gaps_shorter():
    """Windows of 0.5 s over gaps of up to that: complete gaps alone would be too short."""
    ours, naive = median_and_p90_errors(trials=40, window_s=0.5)

    assert np.abs(ours.mean(axis=0) - 1).max() < 0.06
    assert naive.mean(axis=0)[1] < 0.88


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.booleans())
def test_all_idle_time_has_a_place(values, hole):
    """It lies in the gaps, or is told as unresolved; what a gap's empty samples show of work is noise."""
    start = START + MS * np.arange(len(values))
    if hole:
        start[len(values) // 2 :] += 5 * MS
    gaps = found(Samples(start, start + MS, {"gr_active": np.array(values)}))

    idle_s = gaps.idle_share * gaps.seconds
    resolved_s = 0.0 if idle_s == 0 else (1 - gaps.unresolved_share) * idle_s
    assert gaps.idle.length_s.sum() == pytest.approx(resolved_s, abs=0.006 * gaps.seconds)
    assert all(gaps.idle.start_ns[1:] >= gaps.idle.end_ns[:-1])
