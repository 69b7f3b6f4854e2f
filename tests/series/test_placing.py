"""Bursts of fine samples find their place in the step that the windows show, or none."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.series.fold import fold
from perfzero.series.phases import scales
from perfzero.series.placing import placed, positions
from perfzero.values import Samples
from series.simulated_steps import DRAM_ROOF, IDLE, MATRIX, MS, PCIE_ROOF, START, TRAINING, UPDATE, program

ROOFS = {"dram_read_bytes": DRAM_ROOF, "dram_write_bytes": DRAM_ROOF, "pcie_rx_bytes": PCIE_ROOF}


def burst(
    parts, *, steps: float, noise: float = 0.0, jitter: float = 0.0, seed: int = 1
) -> tuple[Samples, np.ndarray]:
    """Samples of 50 µs of *steps* steps of 27 ms from somewhere in one, and where in the step each lies."""
    samples, starts = program(
        parts, steps=20, period_ms=0.05, noise=noise, jitter=jitter, seed=seed, windows=False
    )
    first = int(np.random.default_rng(seed).integers(600, 1800))
    own = np.arange(first, first + round(steps * 540))
    truth = np.interp(samples.start_ns + 25_000 - starts[0], starts - starts[0], np.arange(21.0)) % 1.0
    cut = Samples(samples.start_ns[own], samples.end_ns[own], {n: c[own] for n, c in samples.columns.items()})
    return cut, truth[own]


def place(parts, seen: Samples, **arguments) -> np.ndarray:
    samples, starts = program(parts, **arguments)
    folded = fold(samples, starts)
    assert folded is not None
    return placed(seen, folded, scales(folded, ROOFS))


def apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.abs((one - other + 0.5) % 1.0 - 0.5)


@pytest.mark.parametrize("steps", [0.5, 1.0, 1.4, 6.0])
def test_a_burst_is_placed_where_it_was_taken(steps):
    seen, truth = burst(TRAINING, steps=steps, noise=0.08)

    found = place(TRAINING, seen, jitter=0.03, noise=0.08)

    assert np.isfinite(found).mean() > 0.7
    assert np.nanmax(apart(found, truth)) < 0.05


def test_steps_of_other_lengths_than_the_mean_do_not_add_up():
    """Eight steps that are 6 % longer each would leave the last one half a step off."""
    seen, truth = burst(TRAINING, steps=8.0)
    slow = Samples(
        START + np.round((seen.start_ns - START) * 1.06).astype(np.int64),
        START + np.round((seen.end_ns - START) * 1.06).astype(np.int64),
        {n: c * (1.06 if n.endswith("bytes") or n == "launches" else 1.0) for n, c in seen.columns.items()},
    )

    found = place(TRAINING, slow)

    assert np.isfinite(found).mean() > 0.6
    assert np.nanmax(apart(found, truth)) < 0.15


def test_single_kernels_do_not_hide_the_place():
    """Products take more of the first half than of the second; one by one they differ much more than that."""
    more = [(0.016, MATRIX), (0.009, UPDATE)] * 20
    fewer = [(0.009, MATRIX), (0.016, UPDATE)] * 20
    seen, truth = burst([*more, *fewer], steps=2.8)

    found = place([*more, *fewer], seen, jitter=0.02, steps=200)

    assert np.isfinite(found).mean() > 0.7
    assert np.nanmax(apart(found, truth)) < 0.06


def test_each_run_of_a_burst_is_placed_by_itself():
    one, first = burst(TRAINING, steps=1.2, seed=1)
    other, second = burst(TRAINING, steps=1.2, seed=2)
    later = Samples(other.start_ns + 10**10, other.end_ns + 10**10, other.columns)

    found = place(TRAINING, Samples.concat([one, later]))

    assert np.nanmax(apart(found, np.r_[first, second])) < 0.05


def test_a_part_of_the_step_that_looks_like_others_has_no_place():
    """Two like halves: nobody knows which one it is."""
    parts = [(0.2, MATRIX), (0.3, IDLE), (0.2, MATRIX), (0.3, IDLE)]
    seen, _ = burst(parts, steps=1.4)

    assert np.isnan(place(parts, seen)).all()


def test_a_step_without_edges_has_no_places():
    seen, _ = burst([(1.0, MATRIX)], steps=1.4, noise=0.08)

    assert np.isnan(place([(1.0, MATRIX)], seen, noise=0.08)).all()


def test_a_burst_of_another_program_has_no_place():
    for other in ({"gr_active": 1.0, "sm_active": 0.3}, {"gr_active": 0.25, "pcie_rx_bytes": 3e9}):
        seen, _ = burst([(0.15, IDLE), (0.85, other)], steps=1.4)

        assert np.isnan(place(TRAINING, seen)).all()


def test_too_short_a_burst_has_no_place():
    seen, _ = burst(TRAINING, steps=0.15)

    assert np.isnan(place(TRAINING, seen)).all()


def test_a_burst_without_a_common_channel_has_no_place():
    seen, _ = burst(TRAINING, steps=1.4)

    assert np.isnan(
        place(TRAINING, Samples(seen.start_ns, seen.end_ns, {"ce_active": np.ones(len(seen))}))
    ).all()
    assert len(place(TRAINING, Samples.empty())) == 0


def test_samples_between_two_onsets_lie_where_their_middle_does():
    start = START + MS * np.arange(40)
    samples = Samples(start, start + MS, {})
    starts = START + MS * np.array([10, 20, 30])

    found = positions(samples, starts, 0.01)

    assert np.isnan(found[:10]).all()
    assert np.isnan(found[30:]).all()
    assert found[10:20] == pytest.approx((np.arange(10) + 0.5) / 10)


def test_between_onsets_that_are_no_step_apart_nothing_has_a_place():
    start = START + MS * np.arange(40)
    starts = START + MS * np.array([0, 10, 40])

    found = positions(Samples(start, start + MS, {}), starts, 0.01)

    assert np.isfinite(found[:10]).all()
    assert np.isnan(found[10:]).all()
