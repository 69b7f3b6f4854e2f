"""What is drawn of a diagnosis is what its figures are made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfzero.diagnose.evidence import Evidence, collect
from perfzero.diagnose.judge import judge
from perfzero.diagnose.picture import picture_of
from perfzero.diagnose.step_map import mean_step
from perfzero.diagnose.verdict import Picture
from perfzero.store.reader import open_recording
from perfzero.values import Observation

RECORDINGS = Path(__file__).parents[1] / "recordings"


def seen(name: str) -> Observation:
    return open_recording(RECORDINGS / name).observation(0)


def drawn(e: Evidence) -> Picture:
    return picture_of(e, mean_step(e).folded)


def test_the_steps_drawn_are_those_of_the_mean() -> None:
    diagnosis = judge(seen("resnet50_nchw"))
    assert diagnosis.picture is not None
    assert diagnosis.rhythm is not None
    steps_ns = diagnosis.picture.steps_ns
    lengths = np.diff(steps_ns, axis=1)[:, 0] / 1e9
    assert lengths.mean() == pytest.approx(diagnosis.rhythm.step_s, rel=0.002)
    for start_ns, end_ns in steps_ns:
        inside = [a <= start_ns and end_ns <= b for a, b in diagnosis.rhythm.seen_ns]
        assert sum(inside) == 1, "no step reaches across a hole"


def test_classes_of_each_sample_add_up_to_it_and_reach_beyond_what_was_judged() -> None:
    e = collect(seen("resnet50_nchw"))
    picture = drawn(e)
    for table in (picture.classes, picture.fine_classes):
        assert np.sum(list(table.columns.values()), axis=0) == pytest.approx(np.ones(len(table)))
    assert picture.classes.start_ns[0] < e.steady.start_ns
    assert len(picture.fine_classes) == len(e.zoom)


def test_the_mean_step_has_a_band_of_single_steps_around_it() -> None:
    profile = drawn(collect(seen("resnet50_nchw"))).profile
    assert profile is not None
    low, high = profile.low["sm_active"], profile.high["sm_active"]
    assert len(low) == len(profile.mean["sm_active"])
    assert np.all((low <= high)[np.isfinite(low)])


def test_without_steps_and_with_averages_alone_there_is_less_to_draw() -> None:
    picture = drawn(collect(seen("gpm_only")))
    assert len(picture.steps_ns) == 0
    assert picture.profile is None
    assert picture.rare == ()
    assert len(picture.classes) > 0
    assert len(picture.fine_classes) == 0
