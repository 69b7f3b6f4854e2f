"""The hardware counters beside a look: on a watch whose sampler is a puppet."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from perfzero.record import close_up as module
from perfzero.record.close_up import (
    FEWEST,
    MEMORY_SHARE,
    SAMPLE_BYTES,
    SAMPLES,
    CloseUp,
    period_for,
    samples_for,
)
from perfzero.record.policy import Settings
from perfzero.record.selection import CLOSE_UP
from puppet_sampler import MS, START, sampling


def test_samples_are_as_fine_as_the_buffer_holds_them() -> None:
    assert period_for(0.1) == 10_000
    assert period_for(0.5) == 36_000
    assert period_for(0.5, samples=5000) == 100_000
    assert period_for(1e6) == 2_000_000
    for length_s in (0.1, 0.2, 0.5, 1.0, 3.0, 10.0, 24.0):
        assert length_s * 1e9 / period_for(length_s) <= SAMPLES


def test_little_memory_makes_samples_fewer_and_then_none() -> None:
    assert samples_for(100e9, gpus=1) == SAMPLES
    assert samples_for(100e9, gpus=8) == SAMPLES
    assert samples_for(4e9, gpus=1) == pytest.approx(5555)
    assert samples_for(4e9, gpus=2) == pytest.approx(2777)
    assert samples_for(FEWEST * SAMPLE_BYTES / MEMORY_SHARE, gpus=1) == FEWEST
    assert samples_for(0.99 * FEWEST * SAMPLE_BYTES / MEMORY_SHARE, gpus=1) == 0
    assert samples_for(4e9, gpus=8) == 0
    assert samples_for(0, gpus=1) == 0


class Asked:
    """A watch as far as `CloseUp` knows it, which keeps what it is told."""

    def __init__(self) -> None:
        self.burst: tuple[int, float] | None = None
        self.told: list[str] = []
        self.close_up = "none"

    def open_close_up(self, *, period_ns: int, length_s: float) -> None:
        self.burst = (period_ns, length_s)

    def start_close_up(self) -> None:
        self.told.append("start")

    def stop_close_up(self) -> None:
        self.told.append("stop")


@pytest.fixture(autouse=True)
def _roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    left(monkeypatch)


def left(monkeypatch: pytest.MonkeyPatch, here: float = 1e15, cgroup: float = math.inf) -> None:
    """So much memory is left on the machine and in our cgroup."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=here))
    monkeypatch.setattr(module, "memory_left", lambda: cgroup)


def bursts(*, gpus: int, step_s: float, steps: int) -> list[Asked]:
    """What GPUs are told of a look at such steps."""
    watches = [Asked() for _ in range(gpus)]
    close_up = CloseUp(cast(Any, watches))
    close_up.open(step_s, steps)
    assert close_up.opened
    close_up.start()
    assert close_up.started
    close_up.stop()
    return watches


@pytest.mark.parametrize("step_s", [0.0, 0.001, 0.1, 1.0, 8.0, 60.0])
@pytest.mark.parametrize("steps", [1, 3, 40])
@pytest.mark.parametrize(("limit", "gpus"), [(1e9, 1), (4e9, 2), (6e9, 8), (1e18, 8)])
def test_the_bursts_of_all_gpus_together_take_no_more_memory_than_they_may(
    monkeypatch: pytest.MonkeyPatch, limit: float, gpus: int, step_s: float, steps: int
) -> None:
    left(monkeypatch, cgroup=limit)
    found = [w.burst for w in bursts(gpus=gpus, step_s=step_s, steps=steps)]
    numbers = [length_s * 1e9 / period_ns for period_ns, length_s in filter(None, found)]

    assert len(numbers) == gpus
    assert max(numbers) <= SAMPLES
    assert sum(numbers) * SAMPLE_BYTES <= MEMORY_SHARE * limit * (1 + 1e-9)


@pytest.mark.parametrize("gpus", [1, 8])
@pytest.mark.parametrize("where", ["here", "cgroup"])
def test_where_too_little_memory_is_left_a_look_has_no_burst(
    monkeypatch: pytest.MonkeyPatch, where: str, gpus: int
) -> None:
    left(monkeypatch, **{where: gpus * 0.6e9})

    for watch in bursts(gpus=gpus, step_s=0.1, steps=3):
        assert (watch.burst, watch.told) == (None, [])


def test_steps_that_no_look_would_wait_for_have_no_burst() -> None:
    for watch in bursts(gpus=2, step_s=3600.0, steps=3):
        assert (watch.burst, watch.told) == (None, [])


def test_a_look_that_ends_before_its_burst_was_asked_for_leaves_the_windows_alone(stage: Any) -> None:
    watch = sampling(stage)
    CloseUp([watch]).stop()

    assert ("stop", {}) not in stage.puppet.did
    stage.end()


def rested(stage: Any) -> Any:
    """A watch between two windows."""
    watch = sampling(stage)
    fields = {"kind": "regular", "start_ns": START, "end_ns": START + 500 * MS, "period_ns": 2 * MS}
    stage.puppet.say("window", gpu=0, samples=250, lost=0, more=False, **fields)
    return watch


def test_a_burst_is_opened_started_and_stopped_by_the_look(stage: Any) -> None:
    close_up = CloseUp([rested(stage)])
    close_up.open(0.1, 3)
    assert not close_up.opened
    stage.go_on(0.4)
    stage.puppet.say("closed")
    stage.go_on()
    assert stage.puppet.did[-1] == (
        "open",
        {"period_ns": 50_000, "drain_s": pytest.approx(0.688), "counters": CLOSE_UP},
    )
    assert not close_up.opened
    stage.puppet.say("opened", metrics={}, left_out={})
    stage.go_on()
    assert close_up.opened
    close_up.start()
    stage.go_on()
    assert stage.puppet.did[-1] == ("start", {"kind": "zoom", "duration_s": pytest.approx(0.688)})
    assert not close_up.started
    stage.puppet.say("started", kind="zoom", start_ns=START, period_ns=100_000)
    assert close_up.started
    close_up.stop()
    assert stage.puppet.did[-1] == ("stop", {})
    fields = {"kind": "zoom", "start_ns": START, "end_ns": START + MS, "period_ns": 100_000}
    stage.puppet.say("window", gpu=0, samples=10, lost=0, more=False, **fields)
    stage.go_on(0.4)
    assert stage.puppet.did[-1] == ("close", {})
    stage.puppet.say("closed")
    stage.go_on()
    assert close_up.opened
    assert close_up.started
    stage.end()


def test_counters_that_cannot_be_had_are_not_waited_for(stage: Any) -> None:
    watch = rested(stage)
    close_up = CloseUp([watch])
    close_up.open(0.1, 3)
    stage.go_on(0.4)
    stage.puppet.say("closed")
    stage.go_on()
    stage.puppet.refuse("DeviceBusy", "another tool holds them")
    stage.go_on()

    assert close_up.opened
    assert close_up.started
    close_up.start()
    stage.go_on()
    assert stage.puppet.asked("start") == 1
    stage.end()


@pytest.mark.parametrize("opened", [False, True])
def test_a_look_that_ends_early_leaves_no_session_behind(stage: Any, opened: bool) -> None:
    close_up = CloseUp([rested(stage)])
    close_up.open(0.1, 3)
    stage.go_on(0.4)
    stage.puppet.say("closed")
    stage.go_on()
    if opened:
        stage.puppet.say("opened", metrics={}, left_out={})
        stage.go_on()
    close_up.stop()
    if not opened:
        stage.puppet.say("opened", metrics={}, left_out={})
    stage.go_on(0.4)

    assert stage.puppet.did[-1] == ("close", {})
    assert ("stop", {}) not in stage.puppet.did
    stage.end()


def test_a_window_that_will_end_is_waited_for(stage: Any) -> None:
    watch = sampling(stage)
    assert watch.in_window
    fields = {"kind": "regular", "start_ns": START, "end_ns": START + 500 * MS, "period_ns": 2 * MS}
    stage.puppet.say("window", gpu=0, samples=250, lost=0, more=False, **fields)
    stage.go_on()
    assert not watch.in_window
    stage.end()


def test_a_window_without_end_is_not_waited_for(stage: Any) -> None:
    watch = sampling(stage, settings=Settings(continuous=True, first_after_s=0.0))

    assert stage.puppet.did[-1] == ("start", {"kind": "continuous", "duration_s": None})
    assert not watch.in_window
    stage.end()
