"""A step of faster beats is told from what sampling makes of even ones, and from more work now and then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfzero.series.anchors import Train, stretches
from perfzero.series.course import has_own_course
from perfzero.series.rhythms import Rhythm
from perfzero.series.steps import NoSteps, Steps, find_steps
from perfzero.store.reader import open_recording
from perfzero.values import FloatArray, Samples
from series.simulated_programs import BACKWARD, COPY, FORWARD, FULL, OPTIMIZER, Timeline, sampled

RECORDINGS = Path(__file__).parent.parent / "recordings"
PITCH_S = 0.002

Random = np.random.Generator
Beat = tuple[FloatArray, FloatArray]


def random_beat(rng: Random) -> Beat:
    """Two to six phases: their shares of the beat, and their levels, of which a fifth are 0."""
    share = rng.gamma(rng.choice([0.3, 1.0, 3.0]), 1.0, int(rng.integers(2, 7))) + 1e-3
    level = rng.random((len(share), len(FULL)))
    return share / share.sum(), np.where(rng.random(level.shape) < 0.2, 0.0, level)


def repeated(*beats: tuple[float, int, Beat], seconds: float, jitter: float, rng: Random) -> Timeline:
    """Over and over, of each kind of beats in turn: how many samples one takes, and how many there are."""
    group_s = PITCH_S * sum(samples * count for samples, count, _ in beats)
    lengths = np.concatenate([np.tile(samples * share, count) for samples, count, (share, _) in beats])
    levels = np.concatenate([np.tile(level, (count, 1)) for _, count, (_, level) in beats])
    times = int(seconds / group_s) + 2
    stretched = PITCH_S * lengths * (1.0 + jitter * rng.standard_normal((times, 1)))
    return Timeline(np.r_[0.0, np.cumsum(stretched)], np.tile(levels, (times, 1)), np.empty(0), float("nan"))


def seen(timeline: Timeline, *, seconds: float, seed: int, noise: float) -> Samples:
    return sampled(timeline, seconds=seconds, period_s=PITCH_S, noise=noise, seed=seed)


def own_course(table: Samples, samples: float, *, faster: float, offset: float) -> bool:
    """Whether beats of so many *samples*, with some of *faster* in them, would be believed."""
    parts = stretches(table)
    onsets = np.arange(offset, parts[0].rows, samples)
    beat = Rhythm(Train("", (onsets,)), np.diff(onsets) * PITCH_S, samples * PITCH_S, 0.0, 1.0)
    return has_own_course(beat, [faster * PITCH_S], parts)


def drawn(seed: int) -> tuple[Random, float, int, int]:
    """A seeded generator, the length of fast beats, that of a group of them in samples, and their number."""
    rng = np.random.default_rng(seed)
    fast = float(rng.uniform(0.6, 5.15))
    whole = int(rng.integers(int(2 * fast) + 6, 110))
    return rng, fast, whole, max(2, round(whole / fast))


def test_even_beats_that_fall_on_the_samples_alike_after_a_number_of_them_have_no_course_of_their_own():
    """Of 0.6 to 5 samples, or 26; 3000 tries of the same reached half of what is asked for."""
    for seed in range(60):
        rng, _, whole, count = drawn(seed)
        samples = whole + rng.uniform(-0.15, 0.15)
        timeline = repeated((samples / count, count, random_beat(rng)), seconds=3.2, jitter=0.0, rng=rng)
        table = seen(timeline, seconds=3.0, seed=seed, noise=rng.choice([0.0, 0.03]))

        assert not own_course(table, samples, faster=samples / count, offset=rng.uniform(0.0, samples))


def test_two_even_steps_are_not_one_however_much_each_of_them_changes():
    """Each of 60 samples and a half, in which high and low levels take turns and nothing comes back."""
    rng = np.random.default_rng(0)
    high, low = np.full(len(FULL), 0.9), np.full(len(FULL), 0.1)
    phases = np.array([0.3, 0.2, 0.2, 0.3]), np.array([high, low, high, low])
    table = seen(
        repeated((60.5, 1, phases), seconds=4.0, jitter=0.0, rng=rng), seconds=3.5, seed=1, noise=0.01
    )

    assert own_course(table, 60.5, faster=1.0, offset=2.0)
    assert not own_course(table, 121.0, faster=1.0, offset=2.0)


def test_even_beats_with_some_more_work_after_each_so_many_have_no_course_of_their_own():
    """A program that does something else after each tenth step: that is no step of ten times the length."""
    for seed in range(60):
        rng, _, whole, count = drawn(seed)
        more = float(rng.uniform(0.05, 0.2)) * whole
        fast = (whole - more) / count
        timeline = repeated(
            (fast, count, random_beat(rng)), (more, 1, random_beat(rng)), seconds=3.2, jitter=0.0, rng=rng
        )
        table = seen(timeline, seconds=3.0, seed=seed, noise=0.01)

        assert not own_course(table, float(whole), faster=fast, offset=rng.uniform(0.0, whole))


PRODUCT = np.array([1.0, 1.0, 1.0, 0.7, 0.7, 1.0, 0.7])
"""What the first half of a layer has of its level in each channel: products of matrices."""

AROUND = np.array([1.0, 0.6, 0.2, 1.3, 1.3, 1.0, 1.4])
"""And its second half: what is done with their result."""

UPDATE = np.array([0.99, 0.8, 0.0, 0.6, 0.6, 0.0, 0.8])


def of_layers(*passes: tuple[float, int, FloatArray], samples: float, jitter: float, seed: int) -> Samples:
    """Steps of *passes*: their shares of the step, how many even layers each has, and the level of these."""
    beats = [
        (
            share * samples / count,
            count,
            (np.array([0.5, 0.5]), np.minimum(level * np.array([PRODUCT, AROUND]), 1.0)),
        )
        for share, count, level in passes
    ]
    rng = np.random.default_rng(seed)
    return seen(repeated(*beats, seconds=6.5, jitter=jitter, rng=rng), seconds=6.0, seed=seed, noise=0.01)


def of_stages(*, samples: float, jitter: float, seed: int) -> Samples:
    """Steps of a network whose layers read and write less and multiply more from stage to stage, and back."""
    early = np.array([0.99, 0.6, 0.1, 0.6, 0.5, 0.0, 0.15])
    late = np.array([0.99, 0.95, 0.8, 0.15, 0.1, 0.0, 0.5])
    stages = [(count, early + (late - early) * i / 3) for i, count in enumerate((3, 4, 6, 3))]
    back = np.array([1.0, 0.9, 0.7, 1.3, 1.4, 1.0, 0.8])
    forward = [(0.3 / 4, count, level) for count, level in stages]
    backward = [(0.62 / 4, count, level * back) for count, level in stages[::-1]]
    return of_layers(*forward, *backward, (0.08, 1, UPDATE), samples=samples, jitter=jitter, seed=seed)


@pytest.mark.parametrize("samples", [51.0, 52.05, 89.93, 104.0])
@pytest.mark.parametrize("jitter", [0.0, 0.002])
def test_a_step_of_a_whole_number_of_samples_is_found_though_its_layers_repeat_within_five(
    samples: float, jitter: float
):
    """Its layers are of four kinds, forth and back."""
    for seed in range(2):
        found = find_steps(of_stages(samples=samples, jitter=jitter, seed=seed))

        assert isinstance(found, Steps), found
        assert found.step_s == pytest.approx(samples * PITCH_S, rel=0.005)


def of_alike_layers(*, samples: float, seed: int) -> Samples:
    """Steps of two passes, each of layers of some 4 samples that are all alike, and an update."""
    forward = np.array([0.99, 0.9, 0.3, 0.25, 0.15, 0.0, 0.3])
    backward = np.array([0.99, 0.7, 0.5, 0.5, 0.35, 0.0, 0.2])
    passes = (0.3, 4, forward), (0.6, 8, backward), (0.1, 1, UPDATE)
    return of_layers(*passes, samples=samples, jitter=0.0, seed=seed)


def test_a_step_of_two_passes_of_layers_that_are_alike_is_one_of_two_kinds_of_fast_beats_and_refused():
    """To the counters: 4 evaluations, 8 steps, a checkpoint. Of 52.5 samples, sampling cannot make it."""
    for seed in range(2):
        assert isinstance(find_steps(of_alike_layers(samples=52.0, seed=seed)), NoSteps)

        found = find_steps(of_alike_layers(samples=52.5, seed=seed))
        assert isinstance(found, Steps), found
        assert found.step_s == pytest.approx(52.5 * PITCH_S, rel=0.005)


def of_two_kinds(batches: int, *, samples: float, more: float, seed: int) -> Samples:
    """
    So many batches in *samples*, over and over: a half of them trains, and the other half reads memory.

    Their lengths differ by up to 40 %. After them, something else takes as long as *more* batches.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.uniform(0.6, 1.4, batches)
    read = (1.0, 0.6, 0.08, 0.85, 0.05, 0.0, 0.4)
    kinds: list[tuple[float, Beat]] = []
    for i, one in enumerate(lengths * batches / lengths.sum()):
        if i < batches // 2:
            phases, levels = [0.04, 0.3 * one, 0.58 * one, 0.08], [COPY, FORWARD, BACKWARD, OPTIMIZER]
        else:
            phases, levels = [0.9 * one, 0.1], [read, OPTIMIZER]
        kinds.append((sum(phases), (np.array(phases) / sum(phases), np.array(levels))))
    if more:
        kinds.append((more, random_beat(rng)))
    scale = samples / sum(length for length, _ in kinds)
    beats = [(scale * length, 1, beat) for length, beat in kinds]
    return seen(repeated(*beats, seconds=6.5, jitter=0.0005, rng=rng), seconds=6.0, seed=seed, noise=0.01)


@pytest.mark.parametrize(
    ("batches", "samples", "more", "seed"),
    [
        (6, 22.0, 0.0, 0),
        (8, 26.0, 0.0, 1),
        (8, 30.0, 0.0, 2),
        (10, 36.0, 0.0, 3),
        (12, 42.0, 0.0, 4),
        (6, 29.0, 2.0, 1),
        (8, 32.0, 2.0, 0),
        (10, 43.0, 2.0, 0),
        (12, 49.0, 2.0, 1),
    ],
)
def test_two_kinds_of_fast_steps_in_turn_are_not_one_long_step(
    batches: int, samples: float, more: float, seed: int
):
    """Of 3.2 to 4 samples, now training and now evaluation; also where a checkpoint follows."""
    found = find_steps(of_two_kinds(batches, samples=samples, more=more, seed=seed))

    assert isinstance(found, NoSteps), found


def test_the_step_of_a_recorded_resnet_is_found_though_its_blocks_repeat_after_four_samples():
    """104.1 ms by its own clock, which are 52.03 samples; from where it was steady."""
    recording = open_recording(RECORDINGS / "resnet50_nchw").observation(0)
    steady = recording.pm.between(recording.start_ns + 14_189_000_000, recording.start_ns + 30_190_000_000)
    found = find_steps(steady)

    assert isinstance(found, Steps), found
    assert found.step_s == pytest.approx(0.10406, rel=0.002)


def test_fast_beats_without_anything_slower_get_no_step_time():
    """Beats of 2 to 5.15 samples, a number of which fall on the samples alike."""
    for seed in range(40):
        rng, _, whole, _ = drawn(seed)
        count = max(2, round(whole / rng.uniform(2.0, 5.15)))
        samples = whole + rng.uniform(-0.1, 0.1)
        timeline = repeated((samples / count, count, random_beat(rng)), seconds=3.2, jitter=0.0, rng=rng)
        answer = find_steps(seen(timeline, seconds=3.0, seed=seed, noise=0.01))

        assert isinstance(answer, NoSteps) or answer.step_s == pytest.approx(
            samples / count * PITCH_S, rel=0.02
        )


@pytest.mark.parametrize("seed", [1, 31, 152, 242, 454, 531])
def test_steps_of_different_parts_are_not_joined_to_longer_ones_that_fall_on_the_samples_alike(seed: int):
    """
    Steps of 20.4 to 37.8 samples, of which 3 to 11 are a whole number of them.

    In these, another sample counts as rest, or as one that lost its launches, each time; sums do not differ.
    """
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(5, 14))
    samples = (int(rng.integers(18 * steps, 40 * steps)) + rng.uniform(-0.02, 0.02)) / steps
    fast, other = rng.uniform(2.5, 5.0), rng.uniform(0.2, 0.5) * samples
    count = max(2, round((samples - other) / fast))
    fast = (samples - other) / count
    timeline = repeated(
        (fast, count, random_beat(rng)), (other, 1, random_beat(rng)), seconds=6.5, jitter=0.0, rng=rng
    )
    answer = find_steps(seen(timeline, seconds=6.0, seed=seed, noise=0.01))

    assert isinstance(answer, NoSteps) or answer.step_s == pytest.approx(samples * PITCH_S, rel=0.01)
