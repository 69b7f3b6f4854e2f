"""One GPU, ticked by hand: what is looked at, how often, and what is kept of it."""

from __future__ import annotations

import pynvml
import pytest

from perfzero.record import watch as watch_module
from perfzero.record.policy import Settings
from perfzero.record.sampling import KEPT_ROWS
from perfzero.record.selection import PM_CONTINUOUS, PM_DEFAULT
from perfzero.series.steps import NoSteps
from puppet_sampler import MS, sampling
from series.simulated_programs import even_steps
from simulated import START


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


# --- what the driver reports ---


def test_an_xid_is_noted_as_often_as_it_comes_and_said_once(stage):
    stage.watch(source="nvml").take()
    stage.go_on(2.0)
    for xids in ([79], [13, 13, 13], [79]):
        stage.library.boards[0].xids += xids
        stage.go_on(2.0)
    notes = [n.text for n in stage.end().notes() if n.kind == "xid"]

    assert [text.split(";")[0] for text in notes] == [
        "The driver reported Xid 79",
        "The driver reported Xid 13 3 times",
        "The driver reported Xid 79",
    ]
    assert [text for text in stage.said if "Xid" in text] == [
        "GPU 0: the driver reported an error, Xid 79",
        "GPU 0: the driver reported an error, Xid 13",
    ]


def test_the_reason_of_a_gpu_that_is_lost_is_noted_with_the_loss(stage):
    stage.watch(source="nvml").take()
    stage.go_on(2.0)
    stage.library.boards[0].xids.append(79)
    stage.library.fail = {"nvmlDeviceGetUtilizationRates": pynvml.NVML_ERROR_GPU_IS_LOST}
    stage.go_on(4.0)
    assert sorted(n.kind for n in stage.end().notes()) == ["board", "xid"]


@pytest.mark.parametrize("call", ["nvmlEventSetCreate", "nvmlDeviceRegisterEvents"])
def test_a_driver_that_reports_no_errors_is_watched_without(stage, call):
    stage.library.fail = {call: pynvml.NVML_ERROR_NOT_SUPPORTED}
    stage.library.boards[0].xids.append(79)
    stage.watch(source="nvml").take()
    stage.go_on(4.0)
    recording = stage.end()
    assert len(recording.observation(0).board) > 2
    assert not [n for n in recording.notes() if n.kind == "xid"]


def test_errors_without_end_do_not_hold_up_a_reading(stage):
    stage.library.boards[0].xids += [31] * 10_000
    stage.watch(source="nvml").take()
    stage.go_on(1.0)
    assert len(stage.library.boards[0].xids) > 9000
    stage.end()


# --- how often averages are read, and what they show ---


def readings_in(stage, seconds):
    """GPM readings in the next *seconds*; each takes two samples, the last one's again."""
    before = stage.library.calls["nvmlGpmSampleGet"]
    stage.go_on(seconds)
    return stage.library.calls["nvmlGpmSampleGet"] - before


def test_averages_are_of_a_second_in_the_first_half_minute_and_of_four_later(stage):
    settled_sampling(stage)  # after 22 s
    assert 4 <= readings_in(stage, 5.0) <= 6
    stage.go_on(5.0)
    assert 4 <= readings_in(stage, 20.0) <= 6
    stage.end()


def test_a_program_that_settles_late_is_read_every_second_for_a_while_too(stage):
    stage.library.gpm_values = {}
    sampling_later = stage.watch()
    sampling_later.take()
    stage.go_on(40.0)
    stage.library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}
    stage.go_on(10.0)
    assert 8 <= readings_in(stage, 9.0) <= 11
    stage.go_on(20.0)
    assert readings_in(stage, 20.0) <= 6
    stage.end()


def restless(t):
    """Of no level, no turns that come again within 12 s, and no even pace."""
    return (10.0, 30.0, 90.0)[int(t / 6) % 3] * (1.0 if int(t) % 2 else 0.3)


def test_a_program_that_never_settles_is_read_seldom_in_the_end(stage):
    watch = stage.watch(settings=Settings(first_after_s=0.0, zoom_period_ns=None))
    watch.take()
    stage.puppet.be_ready()
    reads = []

    def go_on(tick):
        stage.library.gpm_values = {1: restless(0.2 * tick)}
        reads.append(stage.library.calls["nvmlGpmSampleGet"])

    played_by_puppet(stage, 180.0, before_each=go_on)
    stage.end()
    assert not [n for n in stage.said if "warm-up" in n]
    assert reads[125] - reads[25] >= 30  # in 20 s: every half second
    assert 17 <= reads[700] - reads[600] <= 26  # taken to be steady, and may still settle
    assert reads[895] - reads[795] <= 7


def plays_until(stage, seconds, level):
    """What a program does to one GPU that keeps it busy for *level* (seconds) percent of the time."""
    watch = stage.watch(settings=Settings(first_after_s=0.0, zoom_period_ns=None))
    watch.take()
    stage.puppet.be_ready()

    def go_on(tick):
        busy = level(0.2 * tick)
        stage.library.gpm_values = {1: busy, 2: 0.9 * busy, 5: 0.4 * busy, 10: 0.3 * busy}

    played_by_puppet(stage, seconds, before_each=go_on)
    return watch


def test_a_compiler_that_leaves_the_gpu_alone_for_a_minute_is_waited_for(stage):
    watch = plays_until(stage, 70.0, lambda t: 30.0 if t < 2 else 0.0 if t < 62 else 97.0)
    said = [text for text in stage.said if "warm-up" in text]
    assert 3.0 < watch.steady_s < 6.0
    assert len(said) == 1
    assert "is over after 6" in said[0]
    assert not [n for n in stage.end().notes() if n.kind == "settled"]


def test_pauses_of_a_few_seconds_are_part_of_the_work(stage):
    watch = plays_until(stage, 40.0, lambda t: 97.0 if int(t / 1.8) % 5 == 0 else 0.0)
    assert 5.0 < watch.steady_s < 12.0
    stage.end()


def test_rests_that_come_again_and_again_are_what_the_program_does(stage):
    watch = plays_until(stage, 100.0, lambda t: 97.0 if t % 14 < 3 else 0.0)
    assert 30.0 < watch.steady_s < 50.0  # two of 11 s are waited through
    stage.end()


def test_a_program_that_settles_after_it_was_taken_to_be_steady_is_looked_at_once_more(stage):
    watch = plays_until(stage, 90.0, lambda t: restless(t) if t < 60 else 97.0)
    said = [n for n in stage.said if "warm-up" in n]
    assert len(said) == 1
    assert "over only after 6" in said[0]
    assert 20.0 < watch.steady_s < 27.0
    assert [n.kind for n in stage.end().notes() if n.kind == "settled"] == ["settled"]


def test_a_second_level_is_noted_and_looked_at_closely(stage, steps_found):
    looked = steps_found(None, None, 0.3)
    watch = settled_sampling(stage)
    window_of(stage, "dense")
    stage.go_on(0.4)
    window_of(stage, "dense")
    stage.go_on(0.4)
    stage.library.gpm_values = {1: 50.0, 2: 40.0, 5: 20.0, 10: 15.0}
    stage.go_on(3.0)
    assert watch.state == "warm-up"
    stage.go_on(3.0)
    assert watch.state == "looking closely"
    window_of(stage, "dense", samples=100)
    stage.go_on(0.4)
    recording = stage.end()

    assert [n.kind for n in recording.notes() if n.kind == "settled"] == ["settled"]
    assert len([t for t in stage.said if "looking closely again" in t]) == 1
    assert (looked[-1], watch.step_s) == (100, 0.3)  # what came before the change tells nothing


def test_a_program_that_is_sampled_without_end_leaves_its_warm_up_and_can_be_judged(stage):
    watch = sampling(stage, settings=Settings(continuous=True, first_after_s=0.0))
    stage.puppet.send(500, kind="continuous")
    stage.go_on(20.0)
    assert watch.state == "watching"
    assert watch.steady_s > 10.0
    assert watch.evidence == 500
    stage.end()


def test_a_level_that_holds_is_settled_once(stage):
    settled_sampling(stage)
    stage.go_on(30.0)
    assert not [n for n in stage.end().notes() if n.kind == "settled"]


# --- the counters of a window ---


def played_by_puppet(stage, seconds, before_each=lambda tick: None):
    """The puppet does at once what it is told; returns the counters of each session for windows."""
    puppet, done, kind, asked = stage.puppet, len(stage.puppet.did), "", []
    for tick in range(round(seconds / 0.2)):
        before_each(tick)
        for verb, options in puppet.did[done:]:
            if verb == "open":
                zoom = options["period_ns"] < 1_000_000
                asked += [] if zoom else [options["counters"]]
                puppet.say("opened", metrics={}, left_out={})
            elif verb == "close":
                puppet.say("closed")
            elif verb == "start":
                kind = options["kind"]
                fields = {"kind": kind, "start_ns": START, "end_ns": START + MS, "period_ns": 2 * MS}
                puppet.say("window", gpu=0, samples=1, lost=0, more=False, **fields)
        done = len(puppet.did)
        stage.go_on()
    return asked


def test_once_all_counters_have_seen_the_steady_state_the_cheaper_ones_go_on(stage):
    stage.library.boards[0].power_mw = 300_000
    watch = stage.watch()
    watch.take()
    stage.puppet.be_ready()
    asked = played_by_puppet(stage, 40.0)
    stage.end()
    assert asked == [PM_DEFAULT, PM_CONTINUOUS]
    assert [(c["what"], c["value"]) for c in watch.chosen()] == [("counters", len(PM_CONTINUOUS))]
    assert "half the CPU" in watch.chosen()[0]["why"]
    assert not [text for text in stage.said if "counters" in text and "half" in text]


def test_near_the_power_cap_the_next_windows_complete_the_picture(stage):
    watch = stage.watch()
    watch.take()
    stage.puppet.be_ready()
    asked = played_by_puppet(stage, 400.0)
    stage.end()
    assert asked[-3:] == [PM_CONTINUOUS, PM_DEFAULT, PM_CONTINUOUS]
    assert [c["value"] for c in watch.chosen()][:2] == [len(PM_CONTINUOUS), len(PM_DEFAULT)]


def test_without_gpm_no_window_does_without_the_fp32_pipe(stage):
    stage.library.boards[0].power_mw = 300_000
    stage.library.fail = {"nvmlGpmQueryDeviceSupport": pynvml.NVML_ERROR_NOT_SUPPORTED}
    watch = stage.watch()
    watch.take()
    stage.puppet.be_ready()
    asked = played_by_puppet(stage, 60.0)
    stage.end()
    assert len(asked) == 2
    assert all("fma_active" in names for names in asked)
    assert [c["value"] for c in watch.chosen()] == [len(PM_CONTINUOUS) + 1]


def test_when_gpm_is_lost_during_a_run_windows_sample_what_it_lent(stage):
    stage.library.boards[0].power_mw = 300_000
    watch = stage.watch()
    watch.take()
    stage.puppet.be_ready()
    before = played_by_puppet(stage, 40.0)
    stage.library.fail = {"nvmlGpmSampleGet": pynvml.NVML_ERROR_GPU_IS_LOST}
    after = played_by_puppet(stage, 100.0)
    stage.end()
    assert before == [PM_DEFAULT, PM_CONTINUOUS]
    assert [(len(names), "fma_active" in names) for names in after] == [(len(PM_CONTINUOUS) + 1, True)]
    told = [(c["value"], c["why"]) for c in watch.chosen()]
    assert [value for value, _ in told] == [len(PM_CONTINUOUS), len(PM_CONTINUOUS) + 1]
    assert "GPM delivers nothing" in told[-1][1]


# --- the step, and what hangs on it ---


def window_of(stage, kind, samples=1500):
    """The puppet delivers a window of *kind*."""
    stage.puppet.send(samples, kind=kind)
    fields = {"kind": kind, "start_ns": START, "end_ns": START + samples * MS, "period_ns": MS}
    stage.puppet.say("window", gpu=0, samples=samples, lost=0, more=False, **fields)


@pytest.fixture
def steps_found(monkeypatch):
    """Lets steps be found, each call the next of a list; returns the list of rows that were looked at."""
    looked: list[int] = []

    def prepare(*answers: float | None) -> list[int]:
        left = iter(answers)

        def find(samples):
            looked.append(len(samples))
            step_s = next(left)
            if step_s is None:
                return NoSteps("nothing repeats")
            return even_steps(step_s)

        monkeypatch.setattr("perfzero.series.steps.find_steps", find)
        return looked

    return prepare


def settled_sampling(stage, **options):
    """A watch that samples and takes the program to be steady."""
    watch = sampling(stage, settings=Settings(first_after_s=0.0, **options))
    stage.go_on(20.0)
    window_of(stage, "regular")
    stage.go_on(0.4)
    assert watch.state == "looking closely"
    return watch


def test_a_step_is_looked_for_at_most_twice_and_not_again_once_it_was_seen(stage, steps_found):
    looked = steps_found(None, 0.3, 0.5)
    watch = settled_sampling(stage)
    for _ in range(3):
        window_of(stage, "dense")
        stage.go_on(1.0)
    recording = stage.end()
    assert watch.step_s == 0.3
    assert len(looked) == 2
    assert recording.complete
    assert [(c["gpu"], c["what"], c["value"]) for c in watch.chosen()] == [(0, "window_s", 2.0)]
    assert [t for t in stage.said if "windows of 2 s (a window holds 6 steps of 300 ms)" in t]


def test_a_step_that_was_seen_is_not_looked_for_again(stage, steps_found):
    looked = steps_found(0.05, 0.06)
    watch = settled_sampling(stage)
    for _ in range(3):
        window_of(stage, "dense")
        stage.go_on(1.0)
    stage.end()
    assert (len(looked), watch.step_s) == (1, 0.05)


def test_a_step_that_nobody_can_see_is_given_up(stage, steps_found):
    looked = steps_found(None, None, 0.3)
    watch = settled_sampling(stage)
    for _ in range(4):
        window_of(stage, "dense")
        stage.go_on(1.0)
    stage.end()
    assert (len(looked), watch.step_s, watch.chosen()) == (2, None, [])


def test_bursts_are_not_looked_at_for_steps(stage, steps_found):
    looked = steps_found(None, None)
    settled_sampling(stage)
    window_of(stage, "zoom", samples=2000)
    stage.go_on(1.0)
    assert looked == []
    window_of(stage, "dense", samples=100)
    stage.go_on(1.0)
    stage.end()
    assert looked == [1500 + 100]  # the window of the warm-up, and this one


def test_only_the_last_samples_are_kept_for_that(stage, steps_found):
    looked = steps_found(None, None)
    settled_sampling(stage)
    for _ in range(20):
        stage.puppet.send(1000, kind="dense")
    window_of(stage, "dense")
    stage.go_on(1.0)
    stage.end()
    assert KEPT_ROWS <= looked[0] < KEPT_ROWS + 1500


def test_an_overflow_makes_samples_longer_and_is_noted(stage):
    watch = settled_sampling(stage)
    gap = {"start_ns": START, "end_ns": START + 9 * MS, "samples": 9}
    stage.puppet.say("gap", reason="the hardware buffer overflowed", **gap)
    stage.puppet.say("gap", reason="the hardware buffer overflowed", **gap)
    stage.go_on(0.4)
    notes = [n.text for n in stage.end().notes() if n.kind == "period"]
    assert notes == ["Samples are 4 ms apart from now on: the hardware buffer overflowed."]
    assert [c["value"] for c in watch.chosen()] == [4_000_000]


@pytest.mark.parametrize(
    ("late_s", "reason", "period_is_given"),
    [(0.2, "samples are missing", False), (0.9, "the hardware buffer overflowed", True)],
)
def test_other_losses_and_a_period_that_was_asked_for_change_nothing(stage, late_s, reason, period_is_given):
    watch = settled_sampling(stage, adapt_period=not period_is_given)
    stage.puppet.say("gap", reason=reason, start_ns=START, end_ns=START + 9 * MS, samples=9)
    fields = {"kind": "dense", "start_ns": START, "end_ns": START + MS, "period_ns": 2 * MS}
    stage.puppet.say("window", gpu=0, samples=1, lost=9, late_s=late_s, more=False, **fields)
    stage.go_on(0.4)
    stage.end()
    assert watch.chosen() == []


def test_a_buffer_that_was_emptied_much_too_late_counts_as_an_overflow(stage):
    watch = settled_sampling(stage)
    fields = {"kind": "dense", "start_ns": START, "end_ns": START + MS, "period_ns": 2 * MS}
    stage.puppet.say("window", gpu=0, samples=1, lost=0, late_s=0.4, more=False, **fields)
    stage.go_on(0.4)
    stage.end()
    assert [c["why"] for c in watch.chosen()] == ["the buffer was emptied 0.4 s late"]
