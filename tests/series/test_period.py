"""A step time is found where there is one, and doubt is silence."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.series.period import repeat_lag, step_period
from perfzero.sources.synthetic import SECOND_NS, START_NS, Phase, observe, signal
from perfzero.values import Samples

STEP = [
    Phase(0.030, {"gr_active": 1.0, "sm_active": 0.9, "tensor_active": 0.5, "dram_read_bytes": 1e12}),
    Phase(0.0513, {"gr_active": 0.0}),
]


def test_a_step_of_81_ms_is_found():
    assert pytest.approx(step_period(observe(STEP, noise=0.05).pm), rel=0.01) == 0.0813


def test_a_step_shorter_than_a_millisecond_is_found_by_zooming_in():
    step = [
        Phase(300e-6, {"gr_active": 1.0, "sm_active": 0.9, "dram_read_bytes": 1e12}),
        Phase(390e-6, {"gr_active": 1.0, "sm_active": 0.4, "tensor_active": 0.3}),
    ]
    observation = observe(step)

    assert pytest.approx(step_period(observation.pm, observation.zoom), rel=0.01) == 690e-6


def test_noise_is_not_a_step():
    rng = np.random.default_rng(3)

    assert repeat_lag(0.5 + 0.1 * rng.standard_normal(2000)) is None


def test_a_constant_is_not_a_step():
    assert repeat_lag(np.full(2000, 0.7)) is None
    assert step_period(observe([Phase(1.0, {"gr_active": 1.0, "sm_active": 0.9})]).pm) is None


def test_a_slow_drift_is_not_a_step():
    assert repeat_lag(np.sin(np.linspace(0, 2, 2000))) is None


def test_a_repetition_faster_than_the_samples_is_not_taken_for_its_multiple():
    """A loop of 26 µs under samples of 10 µs repeats after 130 µs too."""
    loop = [Phase(4e-6, {"gr_active": 1.0, "sm_active": 0.05, "launches": 250e3}), Phase(22e-6)]

    assert step_period(observe(loop).zoom) is None


def test_micro_steps_are_not_taken_for_the_step():
    """Four equal micro-steps and an optimizer step: the micro-step repeats best, the whole is the step."""
    micro = [
        Phase(0.008, {"gr_active": 1.0, "sm_active": 0.9, "tensor_active": 0.8}),
        Phase(0.004, {"gr_active": 1.0, "sm_active": 0.7, "tensor_active": 0.1}),
    ]
    optimizer = Phase(0.010, {"gr_active": 1.0, "sm_active": 0.9, "dram_write_bytes": 2e12})
    found = step_period(observe([*micro * 4, optimizer], noise=0.02).pm)

    assert found is None or found == pytest.approx(0.058, rel=0.02)


def test_two_stretches_that_disagree_give_nothing():
    other = [Phase(p.seconds * 1.3, p.levels) for p in STEP]
    first = signal(STEP, start_ns=START_NS, end_ns=START_NS + SECOND_NS, period_ns=10**6)
    second = signal(
        other, start_ns=START_NS + 5 * SECOND_NS, end_ns=START_NS + 6 * SECOND_NS, period_ns=10**6
    )

    assert step_period(Samples.concat([first, second])) is None


def test_one_channel_alone_is_not_believed():
    lonely = observe([Phase(0.03, {"tensor_active": 0.5}), Phase(0.05, {"tensor_active": 0.1})])

    assert step_period(lonely.pm) is None


def test_too_few_samples_give_nothing():
    assert repeat_lag(np.tile([0.0, 1.0], 10)) is None
    assert step_period(Samples.empty()) is None
