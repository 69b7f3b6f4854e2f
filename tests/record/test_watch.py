"""One GPU, ticked by hand: what is looked at, how often, and what is kept of it."""

from __future__ import annotations

import pynvml
import pytest

from perfzero.record import watch as watch_module
from puppet_sampler import MS


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
