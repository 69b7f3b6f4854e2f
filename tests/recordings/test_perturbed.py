"""
Verdicts hold when the data is worse, and follow it when the world is another one.

A verdict may become unsure; a likely or sure one that names another cause is a mistake. A step time may
vanish, but not be a wrong one. Recordings of the zoo have a file of their own, `tests/zoo/test_perturbed.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.diagnose.verdict import Rhythm
from perfzero.series.steps import Steps, find_steps
from recordings.perturb import TABLES, dropped, noisy, scaled, stretched
from recordings.robustness import (
    PAGE,
    PERTURBATIONS,
    STRETCHES,
    first_cause,
    judged,
    outcome,
    recordings_here,
    seen_of,
)

EXEMPT = frozenset({"launch_bound", "small_grid"})
"""Of kernels that are tiny and come late, the length of the gaps decides which of the two is told first."""

BUSY = frozenset(
    {
        "memory_bound", "l2_bound", "fp32_path", "fp64_path", "tensor_starved", "small_grid",
        "latency_bound", "wave_tail", "well_used",
    }
)  # fmt: skip
"""Causes that lie in the kernels: between these a verdict may move if the peaks were wrong."""

STEP = 0.03
"""By how much a step time may be off."""

every_recording = pytest.mark.parametrize("name", recordings_here())
every_perturbation = pytest.mark.parametrize("perturbation", PERTURBATIONS)


@every_perturbation
@every_recording
def test_the_first_cause_holds_or_becomes_unsure(name: str, perturbation: str):
    hold_to_the_cause(name, perturbation)


@every_perturbation
@every_recording
def test_a_step_time_vanishes_rather_than_be_wrong(name: str, perturbation: str):
    hold_to_the_step(name, perturbation)


@every_recording
def test_the_page_tells_of_every_perturbation_and_of_all_that_moved(name: str):
    hold_the_page_to(name)


def hold_to_the_cause(name: str, perturbation: str) -> None:
    """Fail where another cause is told as likely or sure."""
    if outcome(name, perturbation) != "moved":
        return
    moved = {first_cause(judged(name, None)), first_cause(judged(name, perturbation))}
    between_kernels = perturbation.startswith("peaks") and moved <= BUSY
    gaps_decide = perturbation in STRETCHES and moved == EXEMPT

    assert between_kernels or gaps_decide, moved


def hold_to_the_step(name: str, perturbation: str) -> None:
    """Fail where a wrong step time is told."""
    before, after = judged(name, None).rhythm, judged(name, perturbation).rhythm
    if before is None or after is None:
        return
    assert is_true_of(after, before, factor=STRETCHES.get(perturbation, 1.0)), (before, after)


def is_true_of(after: Rhythm, before: Rhythm, *, factor: float) -> bool:
    """
    Whether *after* tells of the same steps as *before*, in a time stretched by *factor*.

    A micro-batch and the step of several are both true, and which of them is the step the fewer samples may
    not show: either may be told, if the other run knows it as a part.
    """
    # Another stretch of the same recording may be judged, and its steps may be longer in truth.
    overlap = after.low_s <= factor * before.high_s and factor * before.low_s <= after.high_s
    parts = [(after.step_s, before.micro_s), (after.micro_s, before.step_s)]
    if any(one and other and one == pytest.approx(factor * other, rel=STEP) for one, other in parts):
        return True
    room = 2 * STEP if overlap else STEP
    return after.step_s == pytest.approx(factor * before.step_s, rel=room)


@pytest.mark.parametrize(
    ("step_s", "micro_s", "true"),
    [
        (0.2, None, True),
        (0.05, None, True),
        (0.8, 0.2, True),
        (0.1, None, False),
        (0.8, None, False),
        (0.8, 0.1, False),
    ],
    ids=["the same", "its part", "of which it is a part", "half of it", "several", "several of others"],
)
def test_a_step_may_be_told_by_its_parts_or_as_a_part_and_as_nothing_else(
    step_s: float, micro_s: float | None, *, true: bool
):
    def told(step_s: float, micro_s: float | None) -> Rhythm:
        return Rhythm(step_s, 0.999 * step_s, 1.001 * step_s, 0.0, 9, micro_s, None, (), ())

    assert is_true_of(told(step_s / 2, micro_s and micro_s / 2), told(0.2, 0.05), factor=0.5) is true


def hold_the_page_to(name: str) -> None:
    """Fail where the page leaves out a perturbation, or that it moved the verdict of this recording."""
    page = PAGE.read_text(encoding="utf-8")
    rows = {line.split(" | ")[0].strip("| "): line for line in page.splitlines() if line.startswith("| ")}

    for perturbation in PERTURBATIONS:
        assert perturbation in rows, "PYTHONPATH=tests python -m recordings.robustness"
        if outcome(name, perturbation) == "moved":
            assert f"`{name}` moved" in rows[perturbation]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["busy_window", "elementwise_chain"])
def test_half_a_step_is_not_taken_for_one_where_samples_are_lost_in_runs(name: str, seed: int):
    """Five elementwise kernels read in two bouts, 1.25 and 1.75 ms apart."""
    if name not in recordings_here():
        pytest.skip("its recording is missing")
    worse = dropped(seen_of(name), share=0.2, run=20, seed=seed)
    found = find_steps(worse.zoom)

    assert not isinstance(found, Steps) or found.step_s == pytest.approx(0.00299, rel=STEP)


# --- the perturbations themselves ------------------------------------------------------------


def test_a_fifth_dropped_is_a_fifth_of_each_table_and_said_by_the_windows():
    seen = seen_of("resnet50_nchw")
    for run in (1, 20):
        worse = dropped(seen, share=0.2, run=run, seed=1)

        assert len(worse.pm) == pytest.approx(0.8 * len(seen.pm), rel=0.02)
        assert len(worse.zoom) == pytest.approx(0.8 * len(seen.zoom), rel=0.02)
        assert sum(w.lost for w in worse.windows) > 0.15 * (len(seen.pm) + len(seen.zoom))


def test_noise_leaves_means_and_keeps_shares_possible():
    seen = seen_of("resnet50_nchw")
    worse = noisy(seen, spread=0.05, seed=1)
    before, after = seen.pm.column("dram_read_bytes"), worse.pm.column("dram_read_bytes")

    assert np.nanmean(after) == pytest.approx(np.nanmean(before), rel=0.01)
    moved = before > 0
    assert np.std(after[moved] / before[moved]) == pytest.approx(0.05, rel=0.1)
    assert np.nanmax(worse.pm.column("gr_active")) <= 1.0


def test_stretched_time_keeps_levels_and_rates():
    seen = seen_of("resnet50_nchw")
    slow = stretched(seen, factor=2.0)

    assert slow.end_ns - slow.start_ns == 2 * (seen.end_ns - seen.start_ns)
    for name in TABLES:
        before, after = getattr(seen, name), getattr(slow, name)
        np.testing.assert_allclose(after.duration_s, 2.0 * before.duration_s, rtol=1e-3)
    for column in ("gr_active", "launches", "dram_read_bytes"):
        before, after = seen.pm.column(column), slow.pm.column(column)
        expected = before if column == "gr_active" else before / seen.pm.duration_s
        np.testing.assert_allclose(
            after if column == "gr_active" else after / slow.pm.duration_s, expected, rtol=1e-3
        )


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_data_and_peaks_scaled_together_leave_every_share(factor: float):
    for name in ("resnet50_nchw", "pageable_copies"):
        before = judged(name, None).shares
        after = judged(name, f"data and peaks x{factor:g}").shares

        assert after == pytest.approx(dict(before), abs=1e-6)


def test_scaling_moves_the_bytes():
    seen = seen_of("pageable_copies")
    np.testing.assert_allclose(
        scaled(seen, factor=2.0).pm.column("pcie_rx_bytes"), 2.0 * seen.pm.column("pcie_rx_bytes")
    )
