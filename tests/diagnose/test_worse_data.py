"""What a verdict rests on when samples are long, steps are not everything, or the load was still changing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from perfzero.diagnose.evidence import collect
from perfzero.diagnose.judge import judge
from perfzero.diagnose.roofs import roofs_of
from perfzero.diagnose.rules.idle import host_starved
from perfzero.diagnose.split import Split, split_time
from perfzero.sources.synthetic import H200, SECOND_NS, START_NS, Phase, observe, signal
from perfzero.values import Observation, Samples

ROOFS = roofs_of(H200, Samples.empty())
TINY = {"gr_active": 1.0, "sm_active": 0.05, "launches": 250e3}
LATE = {"queue_empty": 0.5, "queue_semaphore": 0.0}
LAUNCHES = (Phase(4e-6, {**TINY, **LATE}), Phase(22e-6, {"queue_empty": 1.0}))
WAITS = (Phase(0.010, {"gr_active": 1.0}), Phase(0.050))

LONG_NS = 4_000_000
"""Samples twice as long as the default: a gap of milliseconds vanishes in them."""


def split_of(*cycle: Phase, burst: tuple[Phase, ...] = ()) -> Split:
    """*cycle* in long samples, and a *burst* of 0.2 s of something, if given."""
    end = START_NS + 4 * SECOND_NS
    windows = signal(cycle, start_ns=START_NS, end_ns=end, period_ns=LONG_NS)
    zoom = Samples.empty()
    if burst:
        zoom = signal(burst, start_ns=end, end_ns=end + SECOND_NS // 5, period_ns=20_000)
    found = split_time(windows, zoom, ROOFS)
    assert found is not None
    return found


def test_bursts_tell_launch_gaps_from_waits_where_samples_are_too_long():
    assert split_of(*LAUNCHES, burst=LAUNCHES).fine_idle > 0.99
    assert split_of(*WAITS, burst=WAITS).fine_idle < 0.05


def test_bursts_that_saw_another_part_of_the_program_tell_nothing_of_its_gaps():
    busy = (Phase(90e-6, {"gr_active": 1.0}), Phase(10e-6))

    assert math.isnan(split_of(*WAITS, burst=busy).fine_idle)
    assert math.isnan(split_of(*WAITS).fine_idle)


def seen_in_long_samples(*, zoom: bool) -> Observation:
    """Launches that come too late, the host saturated, in samples of 4 ms."""
    seen = observe(list(LAUNCHES), host={"host_main_cpu": 1.0})
    pm = signal(LAUNCHES, start_ns=seen.start_ns, end_ns=seen.end_ns, period_ns=LONG_NS)
    windows = tuple(replace(w, period_ns=LONG_NS) for w in seen.windows if w.kind != "zoom")
    bursts = tuple(w for w in seen.windows if w.kind == "zoom")
    if not zoom:
        return replace(seen, pm=pm, zoom=Samples.empty(), windows=windows)
    return replace(seen, pm=pm, windows=windows + bursts)


def test_late_launches_are_found_in_long_samples_by_the_bursts_beside_them():
    verdict = judge(seen_in_long_samples(zoom=True)).verdict

    assert verdict is not None
    assert verdict.rule == "launch_bound"


def test_without_bursts_nobody_is_sure_that_it_is_not_the_launches():
    e = collect(seen_in_long_samples(zoom=False))
    vague = host_starved(e)

    assert vague is not None
    assert vague.confidence < 0.5


def test_without_launches_that_could_come_late_an_idle_gpu_is_as_sure_as_ever():
    seen = observe([Phase(0.010, {"gr_active": 1.0, "launches": 100.0}), Phase(0.050)])
    pm = signal(WAITS, start_ns=seen.start_ns, end_ns=seen.end_ns, period_ns=LONG_NS)
    windows = tuple(replace(w, period_ns=LONG_NS) for w in seen.windows if w.kind != "zoom")
    found = host_starved(collect(replace(seen, pm=pm, zoom=Samples.empty(), windows=windows)))

    assert found is not None
    assert found.confidence > 0.8


@pytest.mark.parametrize("outside_s", [0.0, 3.0])
def test_whole_steps_give_the_interval_only_if_they_are_all_of_the_time(outside_s: float):
    """A rest of three seconds before steps that never rest is a share of the time that they do not know."""
    edge = START_NS + round(outside_s * SECOND_NS)
    steps = signal(
        (Phase(0.09, {"gr_active": 1.0, "tensor_active": 0.9}), Phase(0.01, {"gr_active": 1.0})),
        start_ns=edge,
        end_ns=edge + 6 * SECOND_NS,
        period_ns=2_000_000,
    )
    rest = signal(
        (Phase(0.1, {"gr_active": 0.0, "tensor_active": 0.0}),),
        start_ns=START_NS,
        end_ns=edge,
        period_ns=2_000_000,
    )
    starts = edge + np.arange(60, dtype=np.int64) * 100_000_000
    found = split_time(Samples.concat([rest, steps]), Samples.empty(), ROOFS, starts_ns=starts)

    assert found is not None
    low, high = found.interval("idle")
    assert low <= found.shares["idle"] <= high
    assert found.shares["idle"] == pytest.approx(outside_s / (6.0 + outside_s), abs=0.01)


def test_a_load_that_still_changed_makes_every_answer_less_sure():
    e = collect(observe([Phase(0.01, {"gr_active": 1.0, "fma_active": 0.8})]))
    settled, moving = (replace(e, steady=replace(e.steady, changed=c)).quality for c in (0.10, 0.60))

    assert settled == pytest.approx(e.quality)
    assert moving == pytest.approx(0.5 * settled)
