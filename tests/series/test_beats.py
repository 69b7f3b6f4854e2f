"""Steps against what only looks like them: patterns of sampling, a timer's rests, data at random times."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.series.steps import NoSteps, Steps, find_steps
from perfzero.values import FloatArray, Samples
from series.simulated_programs import BACKWARD, COPY, FORWARD, OPTIMIZER, WAIT, Timeline, sampled, too_fast

Level = tuple[float, ...]

HEAVY: Level = (1.0, 1.0, 0.0, 0.3, 0.3, 0.0, 0.0)
LIGHT: Level = (0.8, 0.6, 0.1, 0.05, 0.9, 0.3, 0.9)


def repeated(pattern: list[tuple[float | FloatArray, Level]], *, times: int) -> Timeline:
    """Phases of these lengths in seconds, one for all or (times,), over and over."""
    lengths = np.array([np.broadcast_to(length, times) for length, _ in pattern]).T.ravel()
    levels = np.tile(np.array([level for _, level in pattern]), (times, 1))
    return Timeline(np.r_[0.0, np.cumsum(lengths)], levels, np.empty(0), float("nan"))


def window(timeline: Timeline, *, seconds: float = 6.0, noise: float = 0.0, seed: int = 1) -> Samples:
    return sampled(timeline, seconds=seconds, period_s=0.002, noise=noise, seed=seed)


@pytest.mark.parametrize("samples_per_step", [16.42, 11.46, 21.4, 8.37])
@pytest.mark.parametrize("pulse_s", [0.0002, 0.001])
def test_a_pulse_shorter_than_a_sample_does_not_make_one_of_two_steps(
    samples_per_step: float, pulse_s: float
):
    """It stands out only where it falls into one sample: in every second or third step, with jitter 0."""
    step_s = samples_per_step * 0.002
    found = find_steps(window(repeated([(step_s - pulse_s, HEAVY), (pulse_s, LIGHT)], times=1200)))

    assert isinstance(found, NoSteps) or found.step_s == pytest.approx(step_s, rel=0.01)


def test_a_pattern_of_sampling_of_five_samples_and_a_half_is_no_step():
    """Steps of 2.4 ms seen every 2 ms: some counters repeat best after 5.6 samples, some after 11."""
    _, table, _ = too_fast(seed=88, jitter=0.0)

    assert isinstance(find_steps(table), NoSteps)


def test_the_step_of_such_a_pulse_is_found():
    found = find_steps(window(repeated([(0.03264, HEAVY), (0.0002, LIGHT)], times=300)))

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.03284, rel=0.005)


SIXTH = (0.8, FORWARD), (0.16, OPTIMIZER), (0.04, WAIT)
SEVENTEENTH = (0.9, FORWARD), (0.06, OPTIMIZER), (0.04, WAIT)
HALVES = (0.7, FORWARD), (0.3, OPTIMIZER)


@pytest.mark.parametrize(
    ("parts", "samples_per_step", "jitter"),
    [
        (SIXTH, 7.5, 0.0), (SIXTH, 7.33, 0.0), (SIXTH, 7.5, 0.01), (SIXTH, 5.75, 0.0), (SIXTH, 7.4, 0.0),
        (SEVENTEENTH, 10.5, 0.0), (SEVENTEENTH, 12.29, 0.0), (SEVENTEENTH, 6.93, 0.0),
        (HALVES, 5.5, 0.01), (SIXTH, 11.46, 0.01),
    ],
)  # fmt: skip
def test_even_steps_that_fall_on_the_samples_in_turns_are_not_taken_for_longer_ones(
    parts: tuple[tuple[float, Level], ...], samples_per_step: float, jitter: float
):
    """Steps of 7.33 samples lie on them alike after three: these were told as one of 22 samples."""
    step_s = samples_per_step * 0.002
    for seed in range(2):
        lengths = step_s * (1.0 + jitter * np.random.default_rng(seed).standard_normal(2000))
        timeline = repeated([(share * lengths, level) for share, level in parts], times=2000)
        found = find_steps(window(timeline, seconds=10.0, noise=0.02, seed=seed))

        assert isinstance(found, NoSteps) or found.step_s == pytest.approx(step_s, rel=0.03)


@pytest.mark.parametrize("optimizer_s", [0.004, 0.006])
def test_micro_steps_of_seven_samples_and_a_quarter_still_make_a_step(optimizer_s: float):
    """The twin: four of them are 28 or 29 samples, but what comes after each fourth is more than an edge."""
    micro: list[tuple[float | FloatArray, Level]] = [(0.0115, FORWARD), (0.0015, WAIT)]
    for seed in range(2):
        timeline = repeated([*micro * 4, (optimizer_s, OPTIMIZER)], times=400)
        found = find_steps(window(timeline, noise=0.02, seed=seed))

        assert isinstance(found, Steps), found
        assert found.step_s == pytest.approx(0.052 + optimizer_s, rel=0.01)


def test_a_pulse_that_only_each_fourth_beat_has_still_makes_the_step():
    """The twin: the sums over the beats differ, so the mark is the program's own."""
    micro: list[tuple[float | FloatArray, Level]] = [(0.012, FORWARD), (0.017, BACKWARD), (0.002, COPY)]
    found = find_steps(window(repeated([*micro * 4, (0.0015, OPTIMIZER)], times=80), noise=0.02))

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.1255, rel=0.01)
    assert found.micro_per_step == 4


def throttled(*, timer: bool, seed: int) -> Timeline:
    """A rest every 100 ms: by a timer, whatever was done by then, or after each step's work."""
    rng = np.random.default_rng(seed)
    works = rng.uniform(0.02, 0.07, 100) if timer else np.full(100, 0.05)
    return repeated([(works, FORWARD), (0.1 - works if timer else np.full(100, 0.05), WAIT)], times=100)


def test_rests_at_regular_intervals_with_unequal_work_between_are_a_timers():
    for seed in range(4):
        found = find_steps(window(throttled(timer=True, seed=seed), noise=0.02, seed=seed))

        assert isinstance(found, NoSteps), found


def test_rests_at_regular_intervals_with_equal_work_between_are_steps():
    found = find_steps(window(throttled(timer=False, seed=1), noise=0.02))

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.1, rel=0.01)


def starved(*, spread: float, seed: int) -> Timeline:
    """Equal steps that begin when data comes: waits of gamma distribution, *spread* relative to the mean."""
    rng = np.random.default_rng(seed)
    waits = rng.gamma(1.0 / spread**2, 0.08 * spread**2, 400) + 0.004
    return repeated([(0.002, COPY), (0.012, FORWARD), (0.018, BACKWARD), (waits, WAIT)], times=400)


def test_steps_of_equal_work_at_random_times_get_no_step_time():
    for seed in range(4):
        found = find_steps(window(starved(spread=1.3, seed=seed), seconds=20.0, noise=0.01, seed=seed))

        assert isinstance(found, NoSteps), found


def test_steps_of_equal_work_that_wait_for_data_now_longer_and_now_shorter_have_one():
    for seed in range(4):
        timeline = starved(spread=0.4, seed=seed)
        found = find_steps(window(timeline, seconds=20.0, noise=0.01, seed=seed))

        assert isinstance(found, Steps), found
        assert found.step_s == pytest.approx(0.116, rel=0.1)


def test_what_repeats_faster_than_a_millisecond_is_no_step():
    """Layers of 0.6 ms fill a burst; a step may be any number of them."""
    layers = repeated([(0.0004, FORWARD), (0.0002, WAIT)], times=400)
    burst = sampled(layers, seconds=0.2, period_s=2e-5, noise=0.02, seed=1)
    found = find_steps(burst)

    assert isinstance(found, NoSteps)
    assert "600 µs" in found.reason


def test_what_repeats_every_two_milliseconds_may_be_one():
    steps = repeated([(0.0013, FORWARD), (0.0007, WAIT)], times=120)
    found = find_steps(sampled(steps, seconds=0.2, period_s=2e-5, noise=0.02, seed=1))

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.002, rel=0.01)


def interrupted(*, every: int, stall_s: float) -> Timeline:
    """Steps of 40 ms and 2 % of jitter; after each so many a checkpoint, in which the GPU waits."""
    stretched = 1.0 + 0.02 * np.random.default_rng(0).standard_normal((1000, 1))
    step = np.array([0.030, 0.006, 0.004, 0.0]) * stretched
    step[every - 1 :: every, 3] = stall_s
    levels = np.tile([BACKWARD, OPTIMIZER, WAIT, WAIT], (1000, 1))
    return Timeline(np.r_[0.0, np.cumsum(step)], levels, np.empty(0), float("nan"))


SHORT_WINDOWS = ((0.0, 0.5), (2.0, 3.0), (5.0, 9.0), (12.0, 14.0), (18.0, 20.0), (24.0, 26.0), (30.0, 33.0))


@pytest.mark.parametrize("windows", [None, SHORT_WINDOWS], ids=["continuous", "windows"])
@pytest.mark.parametrize(("every", "stall_s"), [(8, 0.2), (10, 0.3), (20, 0.5), (40, 0.7), (20, 1.0)])
@pytest.mark.parametrize("quiet", [False, True])
def test_checkpoints_that_take_a_third_of_the_time_are_not_the_step(
    every: int, stall_s: float, windows: tuple[tuple[float, float], ...] | None, quiet: bool
):
    """The steps between fill too little of the time, and the checkpoints are regular themselves."""
    timeline = interrupted(every=every, stall_s=stall_s)
    table = sampled(timeline, seconds=35.0, period_s=0.002, noise=0.02, seed=1, windows=windows)
    if quiet:
        # Relative noise, as of a real counter: where nothing runs, every sample is exactly 0.
        table = table.with_columns({n: np.where(c > 0.1 * c.max(), c, 0.0) for n, c in table.columns.items()})
    found = find_steps(table)

    if isinstance(found, NoSteps):
        assert "shorter than a few samples" not in found.reason
    else:
        assert found.step_s == pytest.approx(0.040, rel=0.01)


def test_checkpoints_that_take_a_fifth_of_the_time_leave_the_step_to_be_found():
    timeline = interrupted(every=40, stall_s=0.4)
    found = find_steps(sampled(timeline, seconds=35.0, period_s=0.002, noise=0.02, seed=1))

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.040, rel=0.01)


@pytest.mark.parametrize("dropped", [0.0, 0.2])
def test_equal_work_at_irregular_times_is_counted_only_if_no_sample_is_missing(dropped: float):
    """The work of a step lies in a moment, which a lost sample may hide: the step would seem longer."""
    rng = np.random.default_rng(0)
    waits = 0.05 * rng.choice([1.0, 1.6], 200) + rng.uniform(0, 0.004, 200)
    timeline = repeated([(0.004, BACKWARD), (waits, WAIT)], times=200)
    table = sampled(timeline, seconds=10.0, period_s=0.002, noise=0.0, seed=0, dropped=dropped, run=20)
    found = find_steps(table)

    assert isinstance(found, NoSteps) or found.step_s == pytest.approx(
        float(np.mean(waits)) + 0.004, rel=0.03
    )
    if not dropped:
        assert isinstance(found, Steps), found
