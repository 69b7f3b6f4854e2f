"""Recordings of the zoo, perturbed; what must hold then is said in `tests/recordings/test_perturbed.py`."""

from __future__ import annotations

import pytest

from recordings.robustness import PERTURBATIONS, recordings_of_the_zoo
from recordings.test_perturbed import hold_the_page_to, hold_to_the_cause, hold_to_the_step

WRONG_STEPS = (
    ("zoo/d06", "time x2"),  # 18.0 ms where 16.1 are told of the recording: its host changes its pace
    ("zoo/e10", "time x0.5"),  # 24.4 ms where 28.6 are told, of another stretch, and none overlaps the other
    ("zoo/e10", "time x0.8"),
    ("zoo/e10", "time x2"),
    ("zoo/j06", "a fifth dropped in runs"),  # one step, 33.6 ms, where ten are told for one: 337 ms
)
"""What is not mended yet (docs/robustness.md): a test that passes again has to leave this list."""

every_recording = pytest.mark.parametrize("name", recordings_of_the_zoo())
every_perturbation = pytest.mark.parametrize("perturbation", PERTURBATIONS)


@every_perturbation
@every_recording
def test_the_first_cause_holds_or_becomes_unsure(name: str, perturbation: str):
    hold_to_the_cause(name, perturbation)


@every_perturbation
@every_recording
def test_a_step_time_vanishes_rather_than_be_wrong(name: str, perturbation: str):
    if (name, perturbation) in WRONG_STEPS:
        with pytest.raises(AssertionError):
            hold_to_the_step(name, perturbation)
        return
    hold_to_the_step(name, perturbation)


@every_recording
def test_the_page_tells_of_all_that_moved(name: str):
    hold_the_page_to(name)
