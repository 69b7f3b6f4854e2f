"""The sampler of one GPU: a puppet that is refused, dies, hangs, and is replaced or given up."""

from __future__ import annotations

from typing import Any

import pytest

from perfzero.errors import NotPermitted, SourceError
from perfzero.record.policy import Action, Settings
from perfzero.record.sampling import OWN_PAUSE_S, PATIENCE_S, RESTARTS
from perfzero.record.watch import GpuWatch
from puppet_sampler import MS, Puppet, Stage, sampling
from simulated import START


def test_a_gpu_whose_counters_are_not_wanted_gets_no_sampler(stage):
    watch = stage.watch(source="gpm")
    watch.take()
    stage.go_on(10.0)
    stage.end()
    assert stage.puppets == []
    assert (watch.sampler_pid, watch.fatal, watch.tier_reason) == (None, None, "")


# --- through sudo ---


def refused(stage: Stage, **options: Any) -> GpuWatch:
    watch = stage.watch(**options)
    watch.take()
    stage.puppet.be_ready()
    stage.puppet.refuse("NotPermitted", "The driver keeps the counters.\nAsk root.")
    stage.go_on()
    return watch


def test_the_end_of_the_refused_sampler_is_not_charged_to_the_one_that_sudo_started(stage):
    refused(stage)
    first, second = stage.puppets
    first.end(code=0)
    second.be_ready()
    stage.go_on(2.0)

    assert second.sudo
    assert second.asked("open") == 1
    assert [n.kind for n in stage.end().notes()] == ["library", "library"]


def test_when_sudo_wants_a_password_the_drivers_refusal_is_the_reason(stage):
    watch = refused(stage)
    stage.puppet.end("sudo: a password is required")
    stage.go_on(30.0)
    stage.end()

    assert len(stage.puppets) == 2  # asking sudo again would not help
    assert watch.tier_reason.startswith("The driver keeps the counters.")


def test_when_sudo_wants_a_password_demanded_counters_are_an_error(stage):
    watch = refused(stage, source="pm")
    stage.puppet.end("sudo: a password is required")
    stage.go_on()
    stage.end()

    assert isinstance(watch.fatal, NotPermitted)
    assert "Ask root." in str(watch.fatal)


def test_a_machine_without_sudo_goes_on_with_averages(stage):
    stage.no_sampler = FileNotFoundError(2, "No such file or directory", "sudo")
    watch = refused(stage)
    stage.go_on(2.0)
    stage.end()

    assert watch.tier == "gpm"
    assert watch.tier_reason.startswith("The driver keeps the counters.")


def test_where_sudo_may_not_be_tried_the_refusal_stands(stage):
    refused(stage, sudo=False)
    stage.end()
    assert len(stage.puppets) == 1


# --- samplers that fail ---


def test_a_sampler_that_says_nothing_any_more_is_killed_and_replaced(stage):
    sampling(stage)
    first = stage.puppet
    while stage.silence_s <= PATIENCE_S:
        stage.silence_s += OWN_PAUSE_S - 1  # we are not stopped ourselves
        stage.go_on()
    recording = stage.end()

    assert first.asked("kill") == 1
    assert len(stage.puppets) == 2
    assert any("said nothing for 30 s" in n.text for n in recording.notes())


def test_a_sampler_that_was_asked_nothing_may_be_silent_for_ever(stage):
    stage.watch().take()
    stage.puppet.be_ready()
    stage.library.gpm_values = {}  # the GPU has nothing to do
    for _ in range(5):
        stage.go_on(4.0)
        stage.silence_s += PATIENCE_S
    stage.end()
    assert stage.puppet.asked("kill") == 0


def test_our_own_sleep_is_no_silence_of_the_sampler(stage):
    sampling(stage)
    stage.silence_s = 3600.0  # Ctrl-Z
    stage.go_on()
    stage.end()
    assert [puppet.asked("kill") for puppet in stage.puppets] == [0]


@pytest.mark.parametrize(("seconds", "said"), [(10.0, ["slow"]), (0.4, [])])
def test_counters_that_took_long_to_be_had_are_written_down(stage, seconds: float, said: list[str]):
    watch = stage.watch()
    watch.take()
    stage.puppet.be_ready()
    stage.go_on(2.0)
    stage.go_on(seconds)
    stage.puppet.begin()
    stage.go_on()
    notes = [n for n in stage.end().notes() if n.kind != "library"]

    assert [n.kind for n in notes] == said
    assert all("took" in n.text and "s to take the counters" in n.text for n in notes)


def test_a_window_whose_sampler_died_is_written_down_with_what_came_and_what_did_not(stage):
    sampling(stage)
    stage.puppet.say("gap", start_ns=START, end_ns=START + 7 * MS, reason="samples are missing", samples=7)
    stage.puppet.send(1500)
    stage.puppet.end("Killed", code=-9)  # two seconds after the start
    stage.go_on()
    recording = stage.end()
    (window,) = recording.windows()

    assert (window.samples, window.lost) == (1500, 7 + 500)
    assert (window.start_ns, window.end_ns) == (START, START + 2000 * MS)
    assert stage.seen.sampled_ns == 2000 * MS
    assert [g.start_ns for g in recording.gaps() if "Killed" in g.reason] == [START + 1500 * MS]


def test_a_window_that_ended_is_not_written_down_twice(stage):
    sampling(stage)
    stage.puppet.send(500)
    fields = {"kind": "regular", "start_ns": START, "end_ns": START + 500 * MS, "period_ns": MS}
    stage.puppet.say("window", gpu=0, samples=500, lost=0, more=False, **fields)
    stage.puppet.end("Killed", code=-9)
    stage.go_on()
    assert len(stage.end().windows()) == 1


def test_a_window_that_goes_on_is_not_started_again(stage):
    sampling(stage, settings=Settings(continuous=True, period_ns=MS))
    fields = {"kind": "continuous", "start_ns": START, "end_ns": START + 500 * MS, "period_ns": MS}
    stage.puppet.say("window", gpu=0, samples=500, lost=0, more=True, **fields)
    stage.go_on(2.0)
    stage.end()
    assert stage.puppet.asked("start") == 1


def test_a_sampler_that_hangs_while_it_is_left_does_not_hold_up_a_tick(stage, monkeypatch):
    monkeypatch.setattr(Puppet, "hangs", True)
    sampling(stage)
    first = stage.puppet
    first.end("Killed")
    stage.go_on(2.0)
    assert (first.asked("leave"), first.asked("quit")) == (1, 0)

    monkeypatch.setattr(Puppet, "hangs", False)
    stage.go_on()
    assert first.asked("quit") == 1
    stage.end()


def test_a_sampler_that_keeps_dying_is_given_up(stage):
    stage.watch().take()
    for _ in range(5):
        stage.puppet.end("Killed")
        stage.go_on()
    stage.end()
    assert len(stage.puppets) == 1 + RESTARTS


def test_a_sampler_that_keeps_dying_is_an_error_where_its_counters_were_demanded(stage):
    watch = stage.watch(source="pm")
    watch.take()
    for _ in range(1 + RESTARTS):
        stage.puppet.end("Killed")
        stage.go_on()
    stage.end()
    assert isinstance(watch.fatal, SourceError)


def test_a_zoom_that_cannot_be_opened_does_not_end_the_windows(stage):
    watch = sampling(stage, settings=Settings(window_s=1.0, every_s=5.0))
    puppet = stage.puppet
    refusals = answered = 0
    for _ in range(400):
        verb, options = ("nothing", {}) if len(puppet.did) == answered else puppet.did[-1]
        answered = len(puppet.did)
        if verb == "open" and options.get("period_ns") == Settings().zoom_period_ns:
            puppet.refuse("SourceError", "no room for the burst")
            refusals += 1
        elif verb == "open":
            puppet.say("opened", metrics={}, left_out={})
        elif verb == "close":
            puppet.say("closed")
        elif verb == "start":
            fields = {"kind": "explicit", "start_ns": START, "end_ns": START + MS, "period_ns": MS}
            puppet.say("window", gpu=0, samples=1, lost=0, more=False, **fields)
        stage.go_on()
    stage.end()

    assert refusals == 1
    assert len(watch.windows) > 8


# --- samples that were lost ---


def zooming(stage: Stage) -> GpuWatch:
    """A watch whose sampler is in the middle of a burst."""
    watch = sampling(stage)
    watch._sampling.act(Action("open", zoom=True, period_ns=20_000, duration_s=0.05))
    stage.puppet.begin("zoom")
    stage.go_on()
    assert watch._sampling.session == "zoom"
    return watch


def test_a_burst_that_overflowed_or_was_emptied_late_leaves_the_windows_alone(stage):
    watch = zooming(stage)
    gap = {"start_ns": START, "end_ns": START + MS, "samples": 50}
    stage.puppet.say("gap", reason="the hardware buffer overflowed", **gap)
    fields = {"kind": "zoom", "start_ns": START, "end_ns": START + MS, "period_ns": 20_000}
    stage.puppet.say("window", gpu=0, samples=1, lost=50, late_s=0.4, more=False, **fields)
    stage.go_on()
    stage.end()
    assert watch.chosen() == []


@pytest.mark.parametrize(("period_ns", "chosen"), [(2 * MS, 1), (4 * MS, 0)])
def test_longer_samples_leave_the_buffer_more_room(stage, period_ns, chosen):
    watch = sampling(stage)
    fields = {"kind": "regular", "start_ns": START, "end_ns": START + MS, "period_ns": period_ns}
    stage.puppet.say("window", gpu=0, samples=1, lost=0, late_s=0.4, more=False, **fields)
    stage.go_on()
    stage.end()
    assert len(watch.chosen()) == chosen


# --- what is said ---


def busy(stage: Stage, text: str, times: int) -> None:
    for _ in range(times):
        stage.go_on(16.0)
        stage.puppet.refuse("DeviceBusy", text)
        stage.go_on()


def test_counters_that_stay_busy_are_said_once_and_again_when_that_changes(stage):
    stage.watch().take()
    stage.puppet.be_ready()
    busy(stage, "Another tool holds the counters.", 5)
    busy(stage, "A third tool holds the counters.", 3)
    notes = [n.text for n in stage.end().notes() if n.kind == "busy"]

    assert notes == ["Another tool holds the counters.", "A third tool holds the counters."]
    assert len([text for text in stage.said if "holds the counters" in text]) == 2
    assert stage.puppet.asked("open") >= 8
