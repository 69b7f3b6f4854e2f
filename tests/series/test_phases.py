"""The step is cut where its phases meet, and only into what most steps show."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.series.fold import fold
from perfzero.series.phases import SEEN, Phase, phases
from perfzero.values import Samples
from series.simulated_steps import (
    DRAM_ROOF,
    IDLE,
    LAUNCHES,
    MATRIX,
    MS,
    PCIE_ROOF,
    START,
    TRAINING,
    UPDATE,
    folded_of,
    program,
)

ROOFS = {
    "dram_read_bytes": DRAM_ROOF,
    "dram_write_bytes": DRAM_ROOF,
    "pcie_rx_bytes": PCIE_ROOF,
    "launches": 2e5,
}


def cut(parts, **arguments) -> tuple[Phase, ...]:
    return phases(folded_of(parts, **arguments), ROOFS)


def test_the_phases_of_a_step_are_found_where_they_were_put():
    found = cut(TRAINING, noise=0.02)

    assert [phase.start for phase in found] == pytest.approx([0, 0.15, 0.2, 0.6, 0.8], abs=0.025)
    assert sum(phase.share for phase in found) == pytest.approx(1.0)
    assert found[2].levels["tensor_active"] == pytest.approx(0.8, rel=0.1)
    assert min(phase.seen for phase in found) > 0.95


def test_a_constant_load_is_one_phase():
    found = cut([(1.0, MATRIX)], noise=0.08)

    assert [(phase.share, phase.seen) for phase in found] == [(1.0, 1.0)]


def test_noise_is_not_cut_into_phases():
    """Ten steps with 60 % of noise: all of it is one phase."""
    steady = [(1.0, {**MATRIX, "tensor_active": 0.43})]

    assert len(cut(steady, step_s=0.128, period_ms=1.0, steps=10, noise=0.6, windows=False)) == 1


def test_few_steps_of_noisy_samples_are_not_cut_by_their_noise():
    """Nine steps of 30 samples, each value 30 % off: without a price for noise a third of them is cut."""
    levels = {**MATRIX, "fma_active": 0.3, "sm_issue": 0.4, "dram_write_bytes": 5e11}
    arguments = {"steps": 9, "noise": 0.3, "step_s": 0.03, "period_ms": 1.0, "windows": False}

    assert sum(len(cut([(1.0, levels)], seed=seed, **arguments)) > 1 for seed in range(20)) <= 2


def test_channels_cut_together_though_each_changes_elsewhere():
    one = {**MATRIX, "fma_active": 0.0}
    parts = [(0.3, one), (0.3, {**one, "tensor_active": 0.3}), (0.4, {**one, "sm_issue": 0.6})]

    assert [p.start for p in cut(parts, noise=0.02)] == pytest.approx([0, 0.3, 0.6], abs=0.025)


def test_without_activity_there_are_no_phases():
    samples, starts = program(TRAINING)
    folded = fold(Samples(samples.start_ns, samples.end_ns, {"launches": samples.column("launches")}), starts)

    assert folded is not None
    assert phases(folded, ROOFS) == ()


def even(of_step, *, steps: int = 120, seen=lambda step, at: at >= 0) -> tuple[Phase, ...]:
    """
    The phases of steps of 20 samples of 1 ms each, with an onset at every twentieth.

    *of_step*: takes the step's number and place in it, arrays of shape (n,), and gives the levels there.
    *seen*: likewise, and says which samples are there.
    """
    start = START + MS * np.arange(20 * steps)
    where = (np.arange(20 * steps) // 20, (np.arange(20 * steps) % 20 + 0.5) / 20)
    samples = Samples(start, start + MS, of_step(*where)).where(seen(*where))
    folded = fold(samples, START + 20 * MS * np.arange(steps + 1))
    assert folded is not None
    return phases(folded, ROOFS)


def products_but(rests) -> dict[str, np.ndarray]:
    return {name: np.where(rests, 0.0, MATRIX[name]) for name in ("gr_active", "sm_active", "tensor_active")}


def with_rare(every: int) -> tuple[Phase, ...]:
    """A step of products of which one in *every* rests from 0.4 to 0.6 of its length."""
    return even(lambda step, at: products_but((step % every == 0) & (at > 0.4) & (at < 0.6)))


def test_what_every_step_shows_is_a_phase():
    assert [p.start for p in with_rare(1)] == pytest.approx([0, 0.4, 0.6], abs=0.025)


@pytest.mark.parametrize("every", [2, 3, 4])
def test_what_some_steps_show_is_none(every):
    """A wait in every second step is half of a wait in the mean, and in no step."""
    assert len(with_rare(every)) == 1


def test_how_often_a_phase_was_seen_is_told():
    found = even(lambda step, at: products_but((step % 4 != 0) & (at > 0.4) & (at < 0.6)))

    assert len(found) == 3
    assert found[1].seen == pytest.approx(0.75, abs=0.03)
    assert found[1].seen > SEEN


@pytest.mark.parametrize(("until", "share"), [(0.45, 1.0), (0.55, 0.875)])
def test_steps_of_which_little_of_a_phase_was_sampled_do_not_say_whether_they_have_it(until, share):
    """Each eighth step does not rest from 0.4 to 0.6, and is not sampled from there to 0.6."""
    found = even(
        lambda step, at: products_but((step % 8 != 0) & (at > 0.4) & (at < 0.6)),
        seen=lambda step, at: (step % 8 != 0) | (at < until) | (at > 0.6),
    )

    assert [p.start for p in found] == pytest.approx([0, 0.4, 0.6], abs=0.025)
    assert found[1].seen == pytest.approx(share, abs=0.03)


def drifting(by: float, *, steps: int = 120) -> tuple[Phase, ...]:
    """The edge between products and a rest moves by *by* of the step while it is watched."""
    return even(lambda step, at: products_but(at > 0.5 - by / 2 + by * step / steps), steps=steps)


@pytest.mark.parametrize("by", [0.0, 0.12])
def test_a_step_whose_parts_stay_or_hardly_move_is_cut(by):
    assert len(drifting(by)) >= 2


@pytest.mark.parametrize("steps", [120, 20])
def test_a_step_whose_parts_drift_is_refused(steps):
    assert drifting(0.3, steps=steps) == ()


def test_a_slower_clock_is_no_drift():
    """In the second half every level is a tenth lower: the edges are where they were."""
    samples, starts = program(TRAINING, step_s=0.02, period_ms=1.0, steps=120, windows=False)
    late = np.arange(len(samples)) > len(samples) // 2
    columns = {name: np.where(late, 0.9, 1.0) * column for name, column in samples.columns.items()}
    folded = fold(samples.with_columns(columns), starts)

    assert folded is not None
    assert len(phases(folded, ROOFS)) == 5


def test_a_roof_that_is_unknown_is_the_own_highest_rate():
    found = phases(folded_of([(0.5, MATRIX), (0.5, UPDATE)], noise=0.02), {})

    assert [p.start for p in found] == pytest.approx([0, 0.5], abs=0.025)


def test_launches_alone_tell_phases_apart():
    parts = [(0.5, {**LAUNCHES, "launches": 1e3}), (0.5, LAUNCHES)]

    assert [p.start for p in cut(parts, noise=0.02)] == pytest.approx([0, 0.5], abs=0.025)


def test_a_phase_of_rest_at_the_end_is_a_phase_of_its_own():
    assert [p.start for p in cut([(0.9, MATRIX), (0.1, IDLE)], noise=0.02)] == pytest.approx(
        [0, 0.9], abs=0.025
    )


def cut_success(*, trials: int, jitter: float, noise: float, steps: int, step_s: float = 0.027) -> float:
    """How often five phases come out with edges within 3 % of the step."""
    right = 0
    for seed in range(trials):
        found = cut(TRAINING, jitter=jitter, noise=noise, steps=steps, step_s=step_s, seed=seed)
        edges = np.array([phase.start for phase in found])
        right += len(found) == 5 and bool(np.abs(edges - [0, 0.15, 0.2, 0.6, 0.8]).max() <= 0.03)
    return right / trials


@pytest.mark.parametrize(("jitter", "noise"), [(0.0, 0.0), (0.05, 0.08), (0.15, 0.08)])
def test_phases_come_out_right_in_spite_of_jitter_and_noise(jitter, noise):
    assert cut_success(trials=15, jitter=jitter, noise=noise, steps=60) >= 0.9
