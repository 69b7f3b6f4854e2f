"""What the synthetic source says of a program is exactly what the program was described to do."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.series import stats
from perfzero.sources.synthetic import SECOND_NS, START_NS, Phase, observe, signal

CYCLE = [Phase(0.03, {"gr_active": 1.0, "dram_read_bytes": 2e12, "launches": 1000.0}), Phase(0.02)]


def read(period_ns, seconds=1.0):
    return signal(CYCLE, start_ns=START_NS, end_ns=START_NS + round(seconds * SECOND_NS), period_ns=period_ns)


@pytest.mark.parametrize("period_ns", [10_000, 1_000_000, 50_000_000, 7_000_000])
def test_levels_and_rates_do_not_depend_on_the_period(period_ns):
    samples = read(period_ns, seconds=0.7)

    assert pytest.approx(stats.mean(samples, "gr_active"), abs=0.01) == 0.6
    assert pytest.approx(stats.rate(samples, "dram_read_bytes"), rel=0.02) == 1.2e12
    assert pytest.approx(stats.rate(samples, "launches"), rel=0.02) == 600


def test_a_sample_across_an_edge_is_shared_out():
    samples = signal(CYCLE, start_ns=START_NS, end_ns=START_NS + 40_000_000, period_ns=40_000_000)

    assert samples.column("gr_active").tolist() == [0.75]


def test_the_same_seed_gives_the_same_noise():
    kwargs = {"start_ns": START_NS, "end_ns": START_NS + SECOND_NS, "period_ns": 10**6, "noise": 0.1}

    again = [signal(CYCLE, seed=5, **kwargs).column("gr_active") for _ in range(2)]

    assert np.array_equal(*again)
    assert not np.array_equal(again[0], signal(CYCLE, seed=6, **kwargs).column("gr_active"))


def test_a_tier_leaves_out_what_it_could_not_see():
    assert len(observe(CYCLE, tier="gpm").pm) == 0
    assert not observe(CYCLE, tier="gpm").gpm.has("launches")
    assert len(observe(CYCLE, tier="nvml").gpm) == 0


def test_windows_tell_what_they_hold():
    observation = observe(CYCLE)

    regular = sum(w.samples for w in observation.windows if w.kind == "regular")
    assert len(observation.pm) == regular
    assert len(observation.zoom) > 0
