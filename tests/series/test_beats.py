"""Steps against what only looks like them: patterns of sampling, a timer's rests, data at random times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfzero.series.steps import NoSteps, Steps, find_beat, find_steps
from perfzero.sources.synthetic import Phase, observe
from perfzero.store.reader import open_recording
from perfzero.values import FloatArray, IntArray, Observation, Samples
from recordings.perturb import dropped
from series.simulated_programs import (
    BACKWARD,
    COPY,
    FORWARD,
    OPTIMIZER,
    START_NS,
    WAIT,
    Program,
    Timeline,
    constant,
    sampled,
    too_fast,
    verdict,
)

RECORDINGS = Path(__file__).parent.parent / "recordings"

Level = tuple[float, ...]


def recorded(case: str) -> Observation:
    return open_recording(RECORDINGS / case).observation(0)


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


def test_steps_whose_mean_is_hardly_known_have_no_step_time(monkeypatch):
    """The same steps as above, had they to be known to a percent."""
    monkeypatch.setattr("perfzero.series.steps.KNOWN", 0.01)
    found = find_steps(window(starved(spread=0.4, seed=0), seconds=20.0, noise=0.01, seed=0))

    assert isinstance(found, NoSteps)
    assert "vary too much: their mean lies between" in found.reason


def test_steps_of_a_program_that_changes_every_second_or_two_have_no_step_time():
    """Recorded on an H200."""
    seen = recorded("never_steady")

    assert isinstance(find_steps(seen.pm, seen.zoom), NoSteps)


def launched(waits_s: FloatArray) -> Timeline:
    """Steps of 40 ms of work, with a launch that is waited for in the middle of each as well."""
    return repeated(
        [(0.02, FORWARD), (waits_s / 2, WAIT), (0.02, BACKWARD), (waits_s / 2, WAIT)], times=len(waits_s)
    )


def test_the_mean_step_is_that_of_slow_and_fast_steps_where_work_tells_that_they_are_whole():
    """A host that runs faster for every eighth second, as one did while anomaly_mode was recorded."""
    waits = np.tile(np.r_[np.full(40, 0.032), np.full(16, 0.010), np.full(40, 0.032)], 3)
    found = find_steps(window(launched(waits), seconds=19.5, noise=0.01))

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.04 + float(np.mean(waits)), rel=0.005)
    assert found.low_s < found.step_s < found.high_s


def test_a_step_with_a_stall_in_it_is_none_of_the_mean():
    """Nor is one of which a lost onset makes two."""
    waits = np.full(240, 0.032)
    waits[20::40] += 0.2
    found = find_steps(window(launched(waits), seconds=15.0, noise=0.01))

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.072, rel=0.005)
    assert found.jitter < 0.03


def test_the_beat_of_parts_of_a_step_is_a_beat_and_noise_has_none():
    parts = repeated([(0.020, FORWARD), (0.010, BACKWARD)], times=200)

    assert find_beat(window(parts, seconds=6.0, noise=0.02)) == pytest.approx(0.03, rel=0.01)
    assert find_beat(window(constant(seconds=6.0), seconds=6.0, noise=0.02)) is None
    assert find_beat(Samples.empty()) is None


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


TURNS = (0.53, FORWARD), (0.47, COPY)


def in_turns(*, samples_per_step: float, jitter: float, seed: int) -> Samples:
    """Copies and work in turns, as `samples_per_step` samples of a window see them."""
    lengths = 0.002 * samples_per_step * (1.0 + jitter * np.random.default_rng(seed).standard_normal(1500))
    timeline = repeated([(share * lengths, level) for share, level in TURNS], times=1500)
    return window(timeline, seconds=4.0, noise=0.01, seed=seed)


@pytest.mark.parametrize("samples_per_step", [5.25, 5.4, 5.75])
@pytest.mark.parametrize("jitter", [0.0, 0.015])
def test_steps_of_a_little_more_than_five_samples_are_found(samples_per_step: float, jitter: float):
    """Nearly every sample differs from the one before, and the autocorrelation is highest at 5."""
    for seed in range(3):
        found = find_steps(in_turns(samples_per_step=samples_per_step, jitter=jitter, seed=seed))

        assert isinstance(found, Steps), found
        assert found.step_s == pytest.approx(0.002 * samples_per_step, rel=0.01)


@pytest.mark.parametrize("samples_per_step", [1.249, 2.79, 4.3, 4.75])
def test_steps_of_fewer_than_five_samples_are_not(samples_per_step: float):
    for seed in range(3):
        found = find_steps(in_turns(samples_per_step=samples_per_step, jitter=0.0, seed=seed))

        assert isinstance(found, NoSteps), found


def test_even_steps_of_five_samples_and_a_bit_are_not_taken_for_many_of_them():
    """Steps of 5.188 samples fall on the samples alike after 83, and no mark was found in each of them."""
    lengths = np.full(1000, 5.187757368268634 * 0.002)
    timeline = repeated([(share * lengths, level) for share, level in SIXTH], times=1000)
    found = find_steps(window(timeline, seconds=4.0, noise=0.02, seed=3))

    assert isinstance(found, NoSteps) or found.step_s == pytest.approx(0.010376, rel=0.01)


@pytest.mark.parametrize(("seed", "jitter"), [(44, 0.0), (88, 0.02), (63, 0.0), (75, 0.02)])
def test_what_sampling_makes_of_faster_steps_has_no_two_levels(seed: int, jitter: float):
    """Steps of 1.22 to 2.79 samples, which come back after 5.0 to 14 samples."""
    _, table, _ = too_fast(seed=seed, jitter=jitter)

    assert isinstance(find_steps(table), NoSteps)


def copied(*, kernel_s: float) -> Timeline:
    """A long copy and two short kernels, of which the second reads no memory."""
    waits = 0.066 * (1.0 + 0.03 * np.random.default_rng(3).standard_normal(100))
    copy: Level = (0.0, 0.0, 0.0, 0.002, 0.002, 0.9, 0.0)
    return repeated([(waits, copy), (kernel_s, OPTIMIZER), (kernel_s, FORWARD), (0.005, WAIT)], times=100)


def test_a_kernel_shorter_than_a_sample_is_the_same_work_where_it_falls_into_two():
    """A quarter of it in one sample and the rest in the next one: the quarter once counted as rest."""
    found = find_steps(window(copied(kernel_s=0.00025), seconds=2.1))

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.0715, rel=0.02)


def of_tiny_kernels(*, count: FloatArray) -> Timeline:
    """Steps that end with *count* (n,) tiny kernels, which the host launches now slower and now faster."""
    pace = 1.0 + 0.35 * np.sin(np.arange(len(count)) / 12.0)
    timeline = repeated([(0.05, FORWARD), (0.03 * pace * count, WAIT)], times=len(count))
    levels = timeline.levels.copy()
    for at, one in enumerate(pace):
        # The same kernels in more time: all levels fall alike.
        levels[2 * at + 1] = np.array([0.24, 0.05, 0.0, 0.24, 0.31, 0.0, 0.96]) / one
    return Timeline(timeline.edges_s, levels, np.empty(0), float("nan"))


def test_tiny_kernels_are_work_however_slowly_they_are_launched():
    found = find_steps(window(of_tiny_kernels(count=np.ones(200)), seconds=9.0))

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.08, rel=0.05)


def test_ever_more_tiny_kernels_are_ever_more_work():
    answer = find_steps(window(of_tiny_kernels(count=np.linspace(0.5, 2.0, 200)), seconds=9.0))

    assert isinstance(answer, NoSteps)


def batches(works: FloatArray, *, seed: int = 1) -> Samples:
    """Steps of two halves whose time the host sets, and *works* (n,) of a step in them; then an optimizer."""
    rng = np.random.default_rng(seed)
    half = 0.08 * (1.0 + 0.08 * rng.standard_normal(len(works)))
    pattern: list[tuple[float | FloatArray, Level]] = [
        (0.4 * works, FORWARD), (half - 0.4 * works, WAIT),
        (0.6 * works, BACKWARD), (half - 0.6 * works - 0.02, WAIT), (0.02, OPTIMIZER),
    ]  # fmt: skip
    return window(repeated(pattern, times=len(works)), seconds=9.0, noise=0.01, seed=seed)


def test_batches_of_random_length_have_no_step_time_though_the_host_takes_as_long_for_each():
    for seed in range(3):
        works = np.random.default_rng(seed).uniform(0.015, 0.07, 70)

        assert isinstance(find_steps(batches(works, seed=seed)), NoSteps)


def test_batches_of_one_length_have_one():
    for seed in range(3):
        found = find_steps(batches(np.full(70, 0.05), seed=seed))

        assert isinstance(found, Steps), found
        assert found.step_s == pytest.approx(0.16, rel=0.03)


def growing(*, by: float, seed: int, jitter: float = 0.14, seconds: float = 9.0) -> Samples:
    """Steps of 50 ms with 14 % of jitter, whose work and time grow by this factor in all."""
    stretched = 1.0 + jitter * np.random.default_rng(seed).standard_normal(200)
    lengths = 0.05 * stretched * np.linspace(1.0, by, 200)
    parts = [(0.6 * lengths, FORWARD), (0.3 * lengths, OPTIMIZER), (0.1 * lengths, WAIT)]
    return window(repeated(parts, times=200), seconds=seconds, noise=0.01, seed=seed)


def test_steps_that_grow_with_time_have_no_step_time():
    for seed in range(3):
        answer = find_steps(growing(by=1.5, seed=seed))

        assert isinstance(answer, NoSteps)
        assert "with time" in answer.reason


def test_steps_that_only_jitter_as_much_have_one():
    for seed in range(3):
        found = find_steps(growing(by=1.0, seed=seed))

        assert isinstance(found, Steps), found
        assert found.step_s == pytest.approx(0.05, rel=0.04)


@pytest.mark.parametrize("seed", [12, 16])
def test_stalls_do_not_pass_for_work_that_drifts(seed: int):
    """Noise makes several onsets in a long stall, and no work lies between them."""
    program = Program(0.1, jitter=0.05, stall_every=20)

    assert verdict(program, seed=seed) == "right"


@pytest.mark.parametrize("seed", [30, 54])
def test_quarters_of_ten_steps_that_differ_by_chance_do_not_drift(seed: int):
    """Their medians are 5 to 8 standard errors apart, as those of so few steps are in one of 30 cases."""
    found = find_steps(growing(by=1.0, seed=seed, jitter=0.16, seconds=2.2))

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.05, rel=0.04)


@pytest.mark.parametrize(("seed", "run"), [(2, 5), (3, 5), (0, 20)])
def test_batches_of_random_length_have_no_step_time_with_a_fifth_of_the_samples_lost(seed: int, run: int):
    """
    Forward and backward passes in turns, so varied that none seemed other work than most: 77 ms was told.

    The mean over all batches is 154 ms.
    """
    seen = dropped(recorded("variable_batches"), share=0.2, run=run, seed=seed)
    found = find_steps(seen.pm.between(seen.start_ns + 6_000_000_000, seen.end_ns))

    assert isinstance(found, NoSteps) or found.step_s == pytest.approx(0.154, rel=0.05)


def test_micro_steps_are_not_taken_for_the_step_where_lost_samples_hide_every_sixth():
    """What repeats after eight beats loses count in each hole, if a hole of two beats counts as one."""
    for seed in range(12):
        seen = dropped(recorded("gradient_accumulation"), share=0.2, run=20, seed=seed)
        found = find_steps(seen.pm, seen.zoom)

        assert isinstance(found, NoSteps) or found.step_s == pytest.approx(0.2014, rel=0.02)


@pytest.mark.parametrize(("share", "run", "seed"), [(0.0, 1, 0), (0.2, 1, 0), (0.2, 20, 11)])
def test_the_step_of_eight_micro_steps_is_found_where_its_optimizer_shows(share: float, run: int, seed: int):
    seen = dropped(recorded("gradient_accumulation"), share=share, run=run, seed=seed)
    found = find_steps(seen.pm, seen.zoom)

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.2014, rel=0.01)
    assert found.micro_per_step == 8 or share


def test_two_halves_of_a_step_that_differ_a_little_each_time_are_no_micro_steps():
    """Forward and backward pass of a ResNet, with tensor work of 2.1 and 1.75."""
    seen = recorded("resnet50_channels_last")
    found = find_steps(seen.pm.between(seen.end_ns - 12_000_000_000, seen.end_ns), seen.zoom)

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.0543, rel=0.01)
    assert found.micro_per_step is None


WORKS = {"gr_active": 1.0, "sm_active": 0.9, "tensor_active": 0.6, "launches": 5e3}
FEW_BYTES = {**WORKS, "dram_read_bytes": 1e12, "dram_write_bytes": 3e11}
MANY_BYTES = {**WORKS, "sm_active": 0.5, "dram_read_bytes": 1e12, "dram_write_bytes": 1e12}


@pytest.mark.parametrize("until_s", [16, 40])
def test_waits_are_no_repetition_of_what_is_done_between_them(until_s: int):
    """Eight beats of 30 ms, then a wait: most windows begin in it, and 27 or 30 ms was told."""
    beat = [Phase(0.025, FEW_BYTES), Phase(0.005, {**MANY_BYTES, "tensor_active": 0.0})]
    seen = observe([*beat * 8, Phase(0.7)], seconds=40.0, every_s=2.0, noise=0.02, zoom=False)
    table = seen.pm.between(START_NS + 4_000_000_000, START_NS + until_s * 1_000_000_000)

    assert isinstance(find_steps(table), NoSteps)


def course(*lengths: int, level: FloatArray | float = 1.0, seed: int) -> Samples:
    """Windows of 50 steps of so many samples of 1 ms: a course without levels, the same in each step."""
    start: list[IntArray] = []
    columns: dict[str, list[FloatArray]] = {}
    for at, length in enumerate(lengths):
        rng = np.random.default_rng(seed)
        rows = 50 * length
        start.append(START_NS + (10_000 * at + np.arange(rows, dtype=np.int64)) * 1_000_000)
        for name, full in (("sm", 1.0), ("tensor", 1.0), ("dram_read", 1e9), ("dram_write", 1e9)):
            step = np.tile(rng.random(length), 50) * np.repeat(np.broadcast_to(level, 50), length)
            name = f"{name}_bytes" if name.startswith("dram") else f"{name}_active"
            columns.setdefault(name, []).append(full * step)
    begin = np.concatenate(start)
    return Samples(begin, begin + 1_000_000, {name: np.concatenate(c) for name, c in columns.items()})


@pytest.mark.parametrize("seed", [6, 11])
def test_a_course_that_repeats_itself_without_a_mark_is_a_step(seed: int):
    found = find_steps(course(60, 60, seed=seed))

    assert isinstance(found, Steps), found
    assert found.how == "autocorrelation"
    assert found.step_s == pytest.approx(0.060, rel=0.001)


@pytest.mark.parametrize("seed", [6, 11])
def test_windows_that_disagree_on_what_repeats_tell_of_no_step(seed: int):
    """The mean of 60 and 65 ms is the length of neither."""
    assert isinstance(find_steps(course(60, 65, seed=seed)), NoSteps)


@pytest.mark.parametrize("seed", [6, 11])
def test_a_course_of_ever_less_work_is_no_step(seed: int):
    assert isinstance(find_steps(course(60, level=np.linspace(1.0, 0.6, 50), seed=seed)), NoSteps)
