"""Step times are found where there are steps, to 2 %; where there are none, that is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfzero.series.steps import NoSteps, Steps, find_steps
from perfzero.store.reader import open_recording
from perfzero.values import Samples
from series.simulated_programs import (
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    PROGRAMS,
    START_NS,
    STEPLESS,
    WAIT,
    Program,
    Timeline,
    mean_between,
    of_length,
    sampled,
    stepless,
    too_fast,
    train,
    verdict,
    watched,
)

RECORDINGS = Path(__file__).parent.parent / "recordings"


def found(program: Program, *, seconds: float = 4.0, seed: int = 1, dropped: float = 0.0) -> Steps:
    answer = find_steps(
        *watched(train(program, seconds=seconds + 1, seed=seed), seconds=seconds, seed=seed, dropped=dropped)
    )
    assert isinstance(answer, Steps), answer
    return answer


def refused(*tables: Samples) -> str:
    answer = find_steps(*tables)
    assert isinstance(answer, NoSteps), answer
    return answer.reason


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_step_is_found_to_two_percent(name: str):
    """The table of docs/steps.md holds: two tries each here, 100 there."""
    program = of_length(PROGRAMS[name], 0.06)

    assert verdict(program, seed=50) == "right"
    assert verdict(program, seed=51, dropped=0.2) == "right"


def test_every_simulated_program_has_its_line_in_the_documentation():
    page = (RECORDINGS.parent.parent / "docs" / "steps.md").read_text(encoding="utf-8")

    for name in (*PROGRAMS, *STEPLESS):
        assert f"| {name} |" in page


@pytest.mark.parametrize("step_s", [0.003, 0.02, 0.5])
def test_steps_of_any_length_are_found(step_s: float):
    assert verdict(Program(step_s, jitter=0.05), seed=5) == "right"


def test_steps_of_two_seconds_are_found_in_a_long_window():
    program = Program(2.0, jitter=0.05, micro=8)
    timeline = train(program, seconds=41.0, seed=3)
    window = sampled(timeline, seconds=40.0, period_s=0.002, noise=0.08, seed=3)
    answer = find_steps(window)

    assert isinstance(answer, Steps)
    assert answer.step_s == pytest.approx(mean_between(timeline, answer.starts_ns, longest_s=5.0), rel=0.02)


@pytest.mark.parametrize("kind", STEPLESS)
@pytest.mark.parametrize("mean_s", [0.005, 0.03, 0.1])
def test_what_has_no_step_gets_none(kind: str, mean_s: float):
    assert refused(*stepless(kind, mean_s=mean_s, seed=7))


def test_micro_steps_are_told_from_the_step():
    steps = found(Program(0.2, jitter=0.05, micro=8), seconds=8.0)

    assert steps.step_s == pytest.approx(0.2, rel=0.03)
    assert steps.micro_per_step == 8
    assert steps.micro_s == pytest.approx(0.2 * 0.9 / 8, rel=0.05)


def test_a_step_is_told_by_the_work_of_its_parts_where_no_pulse_marks_it():
    """Five equal parts and a sixth with twice the work, each followed by a wait like the others."""
    cycle = [(0.008, FORWARD), (0.004, WAIT)] * 5 + [(0.016, FORWARD), (0.004, WAIT)]
    lengths = np.array([length for length, _ in cycle] * 60)
    levels = np.array([level for _, level in cycle] * 60)
    timeline = Timeline(np.r_[0.0, np.cumsum(lengths)], levels, np.empty(0), float("nan"))
    answer = find_steps(sampled(timeline, seconds=4.0, period_s=0.001, noise=0.02, seed=1))

    assert isinstance(answer, Steps)
    assert answer.step_s == pytest.approx(0.080, rel=0.01)


def test_a_step_without_micro_steps_has_none():
    steps = found(Program(0.1, jitter=0.02))

    assert (steps.micro_s, steps.micro_per_step) == (None, None)


def test_a_stall_is_not_part_of_the_step_time():
    """Five steps long, after every twentieth: the mean over everything would be a quarter longer."""
    steps = found(Program(0.05, jitter=0.02, stall_every=20), seconds=6.0)

    assert steps.step_s == pytest.approx(0.05, rel=0.02)


def test_the_jitter_is_that_of_the_program():
    assert found(Program(0.05, jitter=0.12), seconds=8.0).jitter == pytest.approx(0.12, abs=0.03)


def test_the_interval_holds_the_true_mean():
    """Of 8 intervals of 95 %, at least 6 hold what the program was made with."""
    inside = 0
    for seed in range(8):
        steps = found(Program(0.05, jitter=0.1), seconds=2.0, seed=seed)
        inside += steps.low_s <= 0.05 <= steps.high_s
        assert steps.low_s < steps.step_s < steps.high_s

    assert inside >= 6


def test_starts_lie_one_step_apart_and_begin_with_the_same_mark():
    program = Program(0.1, jitter=0.05)
    timeline = train(program, seconds=5.0, seed=1)
    steps = found(program)
    phase = (steps.starts_ns - START_NS) / 1e9
    true = timeline.starts_s[np.searchsorted(timeline.starts_s, phase) - 1]

    assert np.all(np.diff(steps.starts_ns) > 0)
    assert np.std((phase - true) / 0.1) < 0.1
    assert steps.count >= 36


def test_windows_are_not_joined_across_the_time_between_them():
    program = Program(0.1, jitter=0.05)
    timeline = train(program, seconds=31.0, seed=4)
    windows = tuple((10.0 * k, 10.0 * k + 1.03) for k in range(3))
    pieces = sampled(timeline, seconds=30.0, period_s=0.001, noise=0.05, seed=4, windows=windows)
    answer = find_steps(pieces)

    assert isinstance(answer, Steps)
    assert answer.step_s == pytest.approx(mean_between(timeline, answer.starts_ns, longest_s=0.2), rel=0.02)
    assert answer.count <= 30


def test_windows_shorter_than_three_steps_give_nothing():
    timeline = train(Program(0.4, jitter=0.05), seconds=61.0, seed=4)
    windows = tuple((3.0 * k, 3.0 * k + 1.0) for k in range(20))

    refused(sampled(timeline, seconds=60.0, period_s=0.002, noise=0.05, seed=4, windows=windows))


@pytest.mark.parametrize("seed", [7, 10, 43, 46, 56, 41, 64, 98])
@pytest.mark.parametrize("jitter", [0.0, 0.02])
def test_a_beat_of_a_few_samples_is_not_taken_for_the_pattern_that_sampling_makes_of_it(
    seed: int, jitter: float
):
    """Every 6.4 ms seen every 2 ms repeats after 32 ms too, and the burst is too short for eight of them."""
    timeline, window, burst = too_fast(seed=seed, jitter=jitter)
    answer = find_steps(window, burst)

    assert isinstance(answer, NoSteps) or answer.step_s == pytest.approx(timeline.mean_step_s, rel=0.02)


@pytest.mark.parametrize("seed", [11, 29])
def test_a_burst_corrects_what_sampling_makes_of_steps_shorter_than_a_sample(seed: int):
    """1.05 ms seen every 2 ms repeats after 46 ms, and the windows alone cannot know."""
    timeline, window, burst = too_fast(seed=seed, jitter=0.0)
    alone, corrected = find_steps(window), find_steps(window, burst)

    assert isinstance(alone, Steps)
    assert alone.step_s > 5 * timeline.mean_step_s
    assert isinstance(corrected, Steps)
    assert corrected.step_s == pytest.approx(timeline.mean_step_s, rel=0.02)


def test_micro_steps_alone_are_not_taken_for_steps():
    """Bursts of 50 ms see many micro-steps of 2.7 ms and two optimizers: not enough for a step of 24 ms."""
    for seed in range(4):
        _, zoom = watched(
            train(Program(0.024, jitter=0.05, micro=8), seconds=3.0, seed=seed), seconds=2.0, seed=seed
        )
        refused(zoom)


def test_a_burst_does_not_overrule_windows_that_would_have_shown_its_steps():
    """Micro-steps of 11 ms fill the burst; windows of noise see nothing at 11 samples per step."""
    micro = Timeline(
        np.arange(0.0, 2.0, 0.0055), np.tile([FORWARD, WAIT], (182, 1))[:363], np.empty(0), float("nan")
    )
    burst = sampled(micro, seconds=0.15, period_s=2e-5, noise=0.02, seed=2)
    window, _ = stepless("white noise", mean_s=0.1, seed=1)

    assert isinstance(find_steps(burst), Steps)
    assert "would show steps of that length" in refused(window, burst)


def test_kernels_that_repeat_inside_irregular_work_are_not_taken_for_steps():
    """The burst sees a kernel every millisecond; the windows see that work comes and goes at random."""
    rng = np.random.default_rng(4)
    lengths: list[float] = []
    levels: list[tuple[float, ...]] = []
    for _ in range(60):
        for _ in range(int(rng.integers(60, 400))):
            lengths += [0.0007, 0.0003]
            levels += [FORWARD, BACKWARD]
        lengths.append(float(rng.exponential(0.1)))
        levels.append(WAIT)
    timeline = Timeline(np.r_[0.0, np.cumsum(lengths)], np.array(levels), np.empty(0), float("nan"))
    window = sampled(timeline, seconds=8.0, period_s=0.002, noise=0.02, seed=1)
    burst = sampled(timeline, seconds=0.05, period_s=1e-5, noise=0.02, seed=2)

    assert isinstance(find_steps(burst), Steps)
    assert "slower changes" in refused(window, burst)


def test_a_stall_between_steps_too_short_to_see_is_not_the_step():
    """Steps of 3 ms with a stall every 20: the windows at 1 ms show the stalls best."""
    tables = watched(
        train(Program(0.003, jitter=0.05, stall_every=20), seconds=5.0, seed=2), seconds=4.0, seed=2
    )
    answer = find_steps(*tables)

    assert isinstance(answer, NoSteps) or answer.step_s == pytest.approx(0.003, rel=0.05)


ALONE = [
    # Steps of 6 samples, then of 1.5; and where stalls take half of the time, all work is a pulse.
    (Program(0.006, jitter=0.05, stall_every=20), 0.001, 0.08),
    (Program(0.006, jitter=0.15, micro=8, stall_every=50), 0.001, 0.08),
    (Program(0.012, jitter=0.05, stall_every=20), 0.002, 0.08),
    (Program(0.003, jitter=0.05, stall_every=20), 0.002, 0.08),
    (Program(0.00356, jitter=0.05, micro=8, stall_every=5), 0.001, 0.02),
]


def seen_alone(program: Program, period_s: float, noise: float, *, seed: int) -> Steps | NoSteps:
    """What a window alone of 4 s tells of *program*."""
    timeline = train(program, seconds=5.0, seed=seed)
    return find_steps(sampled(timeline, seconds=4.0, period_s=period_s, noise=noise, seed=seed))


@pytest.mark.parametrize(("program", "period_s", "noise"), ALONE)
def test_stalls_that_take_a_fifth_of_the_time_are_not_the_step_where_noise_hides_the_steps(
    program: Program, period_s: float, noise: float
):
    """150 ms was told of steps of 6 ms: the time between two stalls."""
    for seed in range(3):
        found = seen_alone(program, period_s, noise, seed=seed)

        assert isinstance(found, NoSteps), found
        assert "only every so many steps" in found.reason


@pytest.mark.parametrize(
    ("step_s", "period_s", "micro"),
    [
        (0.012, 0.001, 1),
        (0.02, 0.001, 1),
        (0.02, 0.002, 1),
        (0.06, 0.002, 1),
        (0.02, 0.001, 8),
        (0.06, 0.002, 8),
    ],
)
def test_steps_of_ten_samples_and_more_with_stalls_are_found(step_s: float, period_s: float, micro: int):
    """The twin: the two ends of a wait of a sample are alike, but nothing repeats between the waits."""
    program = Program(step_s, jitter=0.05, micro=micro, stall_every=20)
    for seed in range(3):
        found = seen_alone(program, period_s, 0.08, seed=seed)

        assert isinstance(found, Steps), found
        assert found.step_s == pytest.approx(step_s, rel=0.03)


def test_a_step_that_ends_in_a_long_wait_is_found_where_nothing_repeats_within_it():
    """The twin of stalls: as long a time between the waits, with three kinds of work in it."""
    step = [(0.04, FORWARD), (0.06, BACKWARD), (0.02, OPTIMIZER), (0.03, WAIT)]
    lengths, levels = zip(*step * 40, strict=True)
    timeline = Timeline(np.r_[0.0, np.cumsum(lengths)], np.array(levels), np.empty(0), float("nan"))
    for period_s in (0.001, 0.002):
        found = find_steps(sampled(timeline, seconds=5.0, period_s=period_s, noise=0.08, seed=1))

        assert isinstance(found, Steps), found
        assert found.step_s == pytest.approx(0.15, rel=0.01)


def waits(*, beat: bool) -> tuple[Samples, Samples]:
    """
    200 parts of 1.1 ms with now more and now less work, then a wait of 8 ms, again and again: a window of
    2 ms, and a burst that is too fine for the wait. Without a *beat* the parts are all alike.
    """
    rng = np.random.default_rng(3)
    lengths: list[float] = []
    levels: list[tuple[float, ...]] = []
    for _ in range(30):
        for _ in range(200):
            worked = 0.0009 * (rng.choice([0.6, 1.0]) if beat else 1.0)
            lengths += [worked, 0.0011 - worked]
            levels += [FORWARD, OPTIMIZER if beat else FORWARD]
        lengths.append(0.008)
        levels.append(WAIT)
    timeline = Timeline(np.r_[0.0, np.cumsum(lengths)], np.array(levels), np.empty(0), float("nan"))
    window = sampled(timeline, seconds=6.0, period_s=0.002, noise=0.02, seed=1)
    return window, sampled(timeline, seconds=0.1, period_s=2e-5, noise=0.02, seed=2)


def test_waits_that_a_window_shows_are_not_the_step_where_a_burst_repeats_itself_many_times_between():
    """A line printed every 200 steps was taken for a step of 228 ms."""
    window, burst = waits(beat=True)

    assert isinstance(find_steps(window), Steps)
    assert isinstance(find_steps(burst), NoSteps)
    assert "only every so many steps" in refused(window, burst)


def test_they_are_where_nothing_repeats_between():
    found = find_steps(*waits(beat=False))

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.228, rel=0.01)


def pace(second_half: float) -> Steps | NoSteps:
    """40 steps of 100 ms, and 40 that take *second_half* times as long."""
    step = [(0.04, FORWARD), (0.03, BACKWARD), (0.01, OPTIMIZER), (0.02, WAIT)]
    parts = [(length * times, level) for times in (1.0, second_half) for length, level in step * 40]
    lengths, levels = zip(*parts, strict=True)
    timeline = Timeline(np.r_[0.0, np.cumsum(lengths)], np.array(levels), np.empty(0), float("nan"))
    return find_steps(sampled(timeline, seconds=7.5, period_s=0.002, noise=0.02, seed=1))


def test_a_program_that_changes_its_pace_has_no_one_step_time():
    found = pace(0.87)

    assert isinstance(found, NoSteps), found
    assert "vary too much" in found.reason


def test_one_that_hardly_does_has_its_mean():
    found = pace(0.95)

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.0975, rel=0.02)


def test_what_repeats_in_one_counter_alone_between_waits_is_no_faster_step():
    """Copies every 6 ms beside the work of a step of 150 ms: two counters have to agree here as well."""
    copying = tuple(0.9 if at == 5 else level for at, level in enumerate(FORWARD))
    step = [(0.003, FORWARD), (0.003, copying)] * 20 + [(0.03, WAIT)]
    lengths, levels = zip(*step * 40, strict=True)
    timeline = Timeline(np.r_[0.0, np.cumsum(lengths)], np.array(levels), np.empty(0), float("nan"))
    found = find_steps(sampled(timeline, seconds=5.0, period_s=0.001, noise=0.08, seed=1))

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.15, rel=0.01)


def test_shifting_time_shifts_the_starts_and_nothing_else():
    window, zoom = watched(train(Program(0.1, jitter=0.1), seconds=5.0, seed=9), seconds=4.0, seed=9)
    day = 86_400_000_000_000
    later = [Samples(t.start_ns + day, t.end_ns + day, t.columns) for t in (window, zoom)]
    first, second = find_steps(window, zoom), find_steps(*later)

    assert isinstance(first, Steps)
    assert isinstance(second, Steps)
    assert second.step_s == first.step_s
    np.testing.assert_array_equal(second.starts_ns, first.starts_ns + day)


def test_nothing_sampled_is_no_step():
    assert "sampled closely enough" in refused()
    assert "Too few samples" in refused(Samples.empty())


def test_samples_without_a_value_are_no_step():
    start = START_NS + np.arange(400, dtype=np.int64) * 1_000_000
    refused(Samples(start, start + 1_000_000, {"gr_active": np.full(400, np.nan)}))


def test_a_marked_step_in_a_single_channel_is_not_believed():
    window, _ = watched(train(Program(0.1, jitter=0.02), seconds=5.0, seed=9), seconds=4.0, seed=9)

    refused(Samples(window.start_ns, window.end_ns, {"tensor_active": window.column("tensor_active")}))


@pytest.mark.parametrize(
    ("case", "low_s", "high_s", "how"),
    [
        # 8192³ bf16 at 653 TFLOP/s takes 1.68 ms, 4096³ fp32 at 50.4 TFLOP/s 2.73 ms (docs/measurements.md).
        ("bf16_gemm_capped", 0.00160, 0.00175, "anchor"),
        ("fp32_gemm", 0.0026, 0.0028, "anchor"),
        # 12 GiB moved per step at 90 % of 4.8 TB/s.
        ("elementwise_chain", 0.0028, 0.0031, "anchor"),
        ("transformer_healthy", 0.169, 0.174, "anchor"),
        ("resnet50_channels_last", 0.053, 0.055, "anchor"),
        # 512 MiB at 8.2 GB/s, the launch after it included.
        ("pageable_copies", 0.060, 0.070, "anchor"),
    ],
)
def test_the_steps_of_known_programs_are_found_in_their_recordings(
    case: str, low_s: float, high_s: float, how: str
):
    seen = open_recording(RECORDINGS / case).observation(0)
    busy = seen.pm.start_ns[seen.pm.column("gr_active") > 0.001]
    steady = seen.pm.between(int(busy[0]), int(busy[-1]) + 2_000_000)
    # What comes before the last two windows is preparation.
    steady = steady.between(steady.start_ns[-1] - 6_000_000_000, steady.end_ns[-1])
    answer = find_steps(steady, seen.zoom)

    assert isinstance(answer, Steps), answer
    assert low_s <= answer.step_s <= high_s
    assert answer.how == how


def test_tiny_kernels_have_no_visible_step():
    seen = open_recording(RECORDINGS / "tiny_kernels_graph").observation(0)

    refused(seen.zoom)
