"""One GPU, ticked by hand: simulated NVML below it, and a puppet that says what it is told for a sampler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pynvml
import pytest

from perfzero.errors import NotPermitted, SourceError
from perfzero.record import watch as watch_module
from perfzero.record.policy import Settings
from perfzero.record.watch import PATIENCE_S, RESTARTS, GpuWatch
from perfzero.sources import nvml
from perfzero.store.reader import open_recording
from perfzero.store.writer import RecordingWriter
from perfzero.values import Process, Samples
from simulated import START

MS = 1_000_000


class Puppet:
    """A sampler's client without a sampler."""

    hangs = False

    def __init__(self, gpu: Any, *, on_samples: Any, on_event: Any, hints: Any, sudo: bool) -> None:
        self.sudo = sudo
        self.cpu_s = 1.0
        self.did: list[tuple[str, dict[str, Any]]] = []
        self._on_samples, self._on_event = on_samples, on_event

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in ("open", "start", "stop", "close", "leave", "kill", "quit"):
            raise AttributeError(name)
        return lambda **options: self.did.append((name, options))

    @property
    def left(self) -> bool:
        return not self.hangs

    def say(self, event: str, **fields: Any) -> None:
        self._on_event(0, {"event": event, **fields})

    def be_ready(self) -> None:
        self.say("ready", chip="GH100", l2_bytes=1, sm_count=1, library_version=130001, library_path="")

    def refuse(self, kind: str, text: str) -> None:
        self.say("error", type=kind, text=text)

    def end(self, detail: str = "", code: int = 1) -> None:
        self.say("gone", time_ns=START + 2000 * MS, exit_code=code, detail=detail)

    def send(self, count: int, *, kind: str = "regular") -> None:
        end = START + np.arange(1, count + 1) * MS
        self._on_samples(0, kind, Samples(end - MS, end, {"gr_active": np.ones(count)}))

    def begin(self, kind: str = "regular") -> None:
        self.say("opened", metrics={"gr_active": "x"}, left_out={})
        self.say("started", kind=kind, start_ns=START, period_ns=MS)

    def asked(self, verb: str) -> int:
        return [name for name, _ in self.did].count(verb)


class Stage:
    """A watch of one simulated GPU that works, its recording, and its puppets."""

    def __init__(self, folder: Any, monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
        self.folder, self.library = folder, library
        self.puppets: list[Puppet] = []
        self.said: list[str] = []
        self.now_s = 0.0
        self.silence_s = 0.0  # how far the monotonic clock is ahead of ours
        library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}
        monkeypatch.setattr(watch_module, "SamplerClient", self.start)
        monkeypatch.setattr(watch_module.time, "monotonic", lambda: self.now_s + self.silence_s)
        monkeypatch.setattr("perfzero.sources.gpm.MIN_PAIR_NS", 0)
        self.no_sampler: OSError | None = None

    def start(self, gpu: Any, **options: Any) -> Puppet:
        if self.no_sampler is not None and options["sudo"]:
            raise self.no_sampler
        self.puppets.append(Puppet(gpu, **options))
        return self.puppets[-1]

    def watch(self, *, source: Any = "auto", sudo: bool = True, settings: Settings | None = None) -> GpuWatch:
        gpu = nvml.discover()[0]
        self.writer = RecordingWriter(
            self.folder, gpus=[gpu], process=Process(), settings={}, tiers={}, tier_reasons={}
        )
        self.seen = GpuWatch(
            gpu,
            writer=self.writer,
            settings=settings or Settings(),
            source=source,
            hints=(),
            sudo=sudo,
            say=self.said.append,
        )
        self.seen.open()
        return self.seen

    def go_on(self, seconds: float = 0.2) -> None:
        for _ in range(max(1, round(seconds / 0.2))):
            self.now_s += 0.2
            self.seen.tick(self.now_s)

    @property
    def puppet(self) -> Puppet:
        return self.puppets[-1]

    def end(self) -> Any:
        self.seen.close()
        self.writer.close()
        return open_recording(self.folder)


@pytest.fixture
def stage(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, library: Any) -> Stage:
    return Stage(tmp_path / "r", monkeypatch, library)


def sampling(stage: Stage, **options: Any) -> GpuWatch:
    """A watch whose sampler is in the middle of its first window."""
    watch = stage.watch(**options)
    watch.take()
    stage.puppet.be_ready()
    stage.go_on(2.0)
    assert stage.puppet.asked("open") == 1
    stage.puppet.begin()
    stage.go_on()
    assert stage.puppet.asked("start") == 1
    return watch


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
    stage.silence_s = PATIENCE_S + 1
    stage.seen._ticked_s = stage.now_s + stage.silence_s  # we were not stopped ourselves
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
        if verb == "open" and options.get("period_ns") == 10_000:
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


def test_a_gpu_that_is_lost_is_noted_once(stage):
    stage.watch(source="nvml").take()
    stage.go_on(2.0)
    stage.library.fail = dict.fromkeys(
        ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage"), pynvml.NVML_ERROR_GPU_IS_LOST
    )
    stage.go_on(6.0)
    assert len([n for n in stage.end().notes() if n.kind == "board"]) == 1


# --- whose GPU ---


def test_a_gpu_that_may_be_anybodys_is_looked_at_but_not_written_down(stage):
    watch = stage.watch()
    stage.go_on(5.0)
    assert watch.pids == {4711}
    assert sorted(p.name for p in stage.folder.iterdir()) == ["events.jsonl", "manifest.json"]
    assert stage.puppets == []
    assert not stage.end().notes()


def test_what_was_seen_of_a_gpu_before_it_turned_out_to_be_the_programs_is_kept(stage):
    watch = stage.watch()
    stage.go_on(5.0)
    watch.take()
    stage.go_on(1.2)
    seen = stage.end().observation(0)

    assert len(seen.board) >= 6
    assert len(seen.gpm) >= 9
    assert len(stage.puppets) == 1


def test_what_others_did_on_a_gpu_is_not_the_programs_warm_up(stage):
    watch = stage.watch()
    stage.go_on(20.0)
    watch.take()
    stage.go_on(2.0)
    assert not any("warm-up is over" in text for text in stage.said)
    stage.go_on(5.0)
    assert any("warm-up is over" in text for text in stage.said)
    stage.end()


def test_no_more_than_a_minute_is_held_in_memory(stage, monkeypatch):
    monkeypatch.setattr(watch_module, "HELD_NS", 20 * MS)
    watch = stage.watch()
    stage.go_on(60.0)
    assert sum(p.end_ns[-1] - p.start_ns[0] for p in watch._pending["board"]) < 2000 * MS
    assert len(watch._pending["gpm"]) < 120
    stage.end()


def test_a_program_that_prepares_for_hours_is_waited_for_at_little_cost(stage):
    stage.library.gpm_values = {}
    stage.watch()
    stage.go_on(61.0)
    before = dict(stage.library.calls)
    stage.go_on(60.0)
    calls = {name: n - before.get(name, 0) for name, n in stage.library.calls.items()}

    assert before["nvmlGpmSampleGet"] > 80  # at first, nothing of a short program is to be missed
    assert 13 <= calls["nvmlGpmSampleGet"] <= 16
    assert 13 <= calls["nvmlDeviceGetPowerUsage"] <= 16
    stage.end()


def test_a_gpu_at_rest_costs_a_look_every_ten_seconds(stage):
    watch = stage.watch()
    stage.go_on(1.0)
    watch.rest()
    before = dict(stage.library.calls)
    stage.go_on(60.0)
    calls = {name: n - before.get(name, 0) for name, n in stage.library.calls.items()}

    assert calls["nvmlGpmSampleGet"] == 0
    assert 5 <= calls["nvmlDeviceGetPowerUsage"] <= 7
    watch.take()
    stage.go_on(2.0)
    assert stage.library.calls["nvmlGpmSampleGet"] > before["nvmlGpmSampleGet"] + 2
    stage.end()


def test_a_gpu_that_works_for_nobody_hides_its_processes(stage):
    stage.library.boards[0].pids = ()
    watch = stage.watch()
    stage.go_on(5.0)
    assert watch.hides_processes
    stage.end()


@pytest.mark.parametrize(("pids", "level"), [((4711,), 97.0), ((), 0.0)])
def test_a_gpu_with_a_name_on_it_or_nothing_to_do_hides_nobody(stage, pids, level):
    stage.library.boards[0].pids = pids
    stage.library.gpm_values = {1: level}
    watch = stage.watch()
    stage.go_on(5.0)
    assert not watch.hides_processes
    stage.end()


# --- whether it works ---


def test_where_gpm_delivers_nothing_the_board_says_that_the_gpu_works(stage):
    stage.library.gpm_returns = dict.fromkeys(range(1, 200), pynvml.NVML_ERROR_UNKNOWN)
    stage.watch().take()
    stage.puppet.be_ready()
    stage.go_on(6.0)
    assert stage.puppet.asked("open") == 1
    assert stage.seen.tier == "nvml"
    stage.end()


def test_where_gpm_sees_an_idle_gpu_the_boards_last_second_does_not_count(stage):
    stage.library.gpm_values = {1: 0.0}
    stage.watch().take()
    stage.puppet.be_ready()
    stage.go_on(6.0)
    assert stage.puppet.asked("open") == 0
    stage.end()
