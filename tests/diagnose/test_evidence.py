"""How evidence is put together: which stretch, which events, whose counters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfzero.diagnose import evidence, idle_shares
from perfzero.diagnose.evidence import collect
from perfzero.diagnose.idle_shares import share_out_idle
from perfzero.diagnose.judge import judge
from perfzero.diagnose.rules.compute import fp64_path
from perfzero.diagnose.rules.link import gpu_shared
from perfzero.series import steps
from perfzero.series.anchors import Stretch as Part
from perfzero.series.rare import RareEvent
from perfzero.series.steady import Stretch
from perfzero.sources.synthetic import Phase, observe
from perfzero.values import Samples

SECOND = 1_000_000_000
STEP = (Phase(0.060, {"gr_active": 1.0, "sm_active": 0.9, "tensor_active": 0.6}), Phase(0.040))


def event(*, count: int = 3, cut: int = 0) -> RareEvent:
    starts = np.arange(count, dtype=np.int64) * SECOND
    return RareEvent("stall", starts, starts + SECOND // 2, cut, 0.1, 0.5, 0.5, None, None, float("nan"))


def asked(monkeypatch: pytest.MonkeyPatch, *answers: tuple[RareEvent, ...]) -> list[Samples]:
    """The tables that are searched for rare events, where the searches answer so in turn."""
    tables: list[Samples] = []

    def search(table: Samples, *_: Any, **__: Any) -> tuple[RareEvent, ...]:
        tables.append(table)
        return answers[min(len(tables), len(answers)) - 1]

    monkeypatch.setattr(evidence, "rare_events", search)
    return tables


def test_where_windows_show_no_rare_event_the_averages_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = asked(monkeypatch, (), (event(),))
    e = collect(observe(STEP))

    assert len(tables) == 2
    assert tables[1].has("dram_active") or len(tables[1].columns) < len(tables[0].columns)
    assert [found.count for found in e.rare] == [3]


def test_where_they_show_how_often_it_comes_the_averages_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = asked(monkeypatch, (replace(event(), period_s=3.0),))
    collect(observe(STEP))
    assert len(tables) == 1


@pytest.mark.parametrize(("often", "count"), [(3.0, 7), (None, 2)])
def test_averages_that_show_how_often_stalls_come_stand_for_windows_that_show_one_or_two(
    monkeypatch: pytest.MonkeyPatch, often: float | None, count: int
) -> None:
    asked(monkeypatch, (event(count=2),), (replace(event(count=7), period_s=often),))
    assert [found.count for found in collect(observe(STEP)).rare] == [count]


@pytest.mark.parametrize(("pause_s", "stalls"), [(1.0, True), (0.1, False)])
def test_a_program_that_stands_still_for_a_third_of_the_time_has_stalls(pause_s: float, stalls: bool) -> None:
    """64 steps of 28 ms, then a checkpoint of a second; waits of 0.1 s after every fourth step are none."""
    update = {"gr_active": 1.0, "sm_active": 0.5, "dram_write_bytes": 1e12, "dram_read_bytes": 1e12}
    work = [Phase(0.020, {**STEP[0].levels, "dram_read_bytes": 3e11}), Phase(0.008, update)]
    e = collect(
        observe([*work * (64 if stalls else 4), Phase(pause_s)], seconds=15.0, every_s=1.0, zoom=False)
    )
    found = [(one.nature, round(one.length_s, 1)) for one in e.rare]

    assert found == ([("stall", 1.0)] if stalls else [])


UPDATE = {"gr_active": 1.0, "sm_active": 0.5, "dram_write_bytes": 1e12, "dram_read_bytes": 1e12}


def after_beats(beats: int, pause_s: float, **turns: float) -> Any:
    """A pause after so many beats of 28 ms, each of them with an update, in windows that show a few."""
    beat = [Phase(0.020, {**STEP[0].levels, "dram_read_bytes": 3e11, **turns}), Phase(0.008, UPDATE | turns)]
    return observe([*beat * beats, Phase(pause_s, turns)], seconds=24.0, every_s=1.0, zoom=False, noise=0.02)


@pytest.mark.parametrize(("beats", "stalls"), [(12, False), (20, False), (40, True)])
def test_pauses_are_stalls_from_three_times_as_many_beats_on_as_a_step_may_have(
    beats: int, stalls: bool
) -> None:
    """A step of gradient accumulation has up to eight, and rare is what comes after three steps or more."""
    e = collect(after_beats(beats, beats * 0.028))

    assert e.step_s is None
    assert bool(e.stalls) is stalls
    assert e.by_beat
    assert e.paused > 0.9


def test_turns_of_two_programs_are_no_beat_that_makes_pauses_rare() -> None:
    e = collect(after_beats(40, 40 * 0.028, ctxsw=0.08))

    assert (e.stalls, e.by_beat) == ((), False)


def test_the_pieces_of_a_stall_in_several_windows_are_one_stall() -> None:
    """Windows of 1 s every 1.3 s cut a stall of 3 s into two or three."""
    beat = [Phase(0.040, {**STEP[0].levels, "dram_read_bytes": 1e12}), Phase(0.010, UPDATE)]
    e = collect(observe([*beat * 48, Phase(3.0)], seconds=54.0, every_s=1.3, zoom=False, noise=0.02))

    assert [9 <= one.count <= 10 for one in e.stalls] == [True]


def test_stalls_that_averages_show_get_the_edges_of_windows_before_they_are_shared_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Averages saw half a second of each; the windows, all 0.8 s."""
    seen = observe([*STEP * 30, Phase(0.8)], seconds=38.0, every_s=1.0, zoom=False)
    starts = seen.start_ns + np.arange(32, 380, 38, dtype=np.int64) * SECOND // 10
    late = replace(event(), starts_ns=starts, ends_ns=starts + SECOND // 2, length_s=0.8, period_s=3.8)
    asked(monkeypatch, (), (late,))
    e = collect(seen)

    assert e.idle.stalled == pytest.approx(0.8 / 3.8, abs=0.03)


def test_an_event_of_which_only_cut_ones_were_seen_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, (event(count=2, cut=2), event(count=2, cut=1)))
    assert [found.cut for found in collect(observe(STEP)).rare] == [1]


@pytest.mark.parametrize(
    ("by_steps", "taken"),
    [
        ((12, 40, "stable"), True),
        ((12, 30, "stable"), False),
        ((5, 40, "stable"), False),
        ((12, 40, "short"), False),
    ],
)
def test_step_times_prolong_the_warm_up_and_do_nothing_else(
    monkeypatch: pytest.MonkeyPatch, by_steps: tuple[int, int, Any], taken: bool
) -> None:
    seen = observe(STEP)

    def stretch(start_s: int, end_s: int, how: Any = "stable") -> Stretch:
        first = seen.start_ns
        return Stretch(first + start_s * SECOND, first + end_s * SECOND, float(start_s), how, 0.0, "steady")

    def find(*_: Any, step_times: Any = None, **__: Any) -> Stretch:
        return stretch(8, 40) if step_times is None else stretch(*by_steps)

    monkeypatch.setattr(evidence, "find_steady", find)
    assert (collect(seen).steady == stretch(*by_steps)) is taken


@pytest.mark.parametrize(("processes", "most"), [(2.0, 2.0), (3.0, 3.0), (1.0, 2.0)])
def test_alone_a_program_gains_the_turns_of_the_others_at_most(processes: float, most: float) -> None:
    shared = [Phase(p.seconds, {**p.levels, "ctxsw": 0.08}) for p in STEP]
    found = gpu_shared(collect(observe(shared, board={"processes": processes})))

    assert found is not None
    assert found.gain is not None
    assert found.gain.high == pytest.approx(most / 0.92)  # and the switches
    assert 1.0 < found.gain.low < most


def test_half_as_wide_numbers_move_half_the_bytes_and_memory_stops_them_later() -> None:
    double = {
        "gr_active": 1.0, "sm_active": 0.99, "fp64_active": 0.5, "dram_read_bytes": 3.4e12, "launches": 150.0,
    }  # fmt: skip
    seen = observe((Phase(0.01, double),))
    found = fp64_path(collect(seen))
    light = fp64_path(collect(observe((Phase(0.01, {**double, "dram_read_bytes": 1e11}),))))

    assert found is not None
    assert light is not None
    assert found.gain is not None
    assert light.gain is not None
    share = collect(seen).dram_share
    assert found.gain.high == pytest.approx(min(light.gain.high, 1.0 / (0.5 * share)), rel=0.02)
    assert found.gain.high > 1.0 / share + 0.1


def searched_for_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each table with rows that is searched for steps from now on."""
    rows: list[int] = []
    search = steps._of_table

    def counted(parts: tuple[Part, ...]) -> tuple[steps.Steps, bool] | steps.NoSteps:
        rows.extend([sum(part.rows for part in parts)] if parts else [])
        return search(parts)

    monkeypatch.setattr(steps, "_of_table", counted)
    return rows


def test_windows_of_which_nothing_is_cut_off_are_searched_for_steps_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = searched_for_steps(monkeypatch)
    e = collect(observe(STEP, zoom=False))

    assert rows == [len(e.long)]
    assert e.step_s == pytest.approx(0.1, rel=0.01)


def test_what_is_left_without_a_warm_up_is_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = searched_for_steps(monkeypatch)
    slow = (Phase(0.2, {"gr_active": 0.2}), Phase(0.1))
    e = collect(observe(STEP, zoom=False, warm_up=slow, warm_up_s=12.0, noise=0.02))

    assert len(rows) == 2
    assert rows[0] > rows[1] == len(e.long)
    assert e.step_s == pytest.approx(0.1, rel=0.01)


def test_windows_that_lack_a_counter_are_searched_with_what_is_borrowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = searched_for_steps(monkeypatch)
    seen = observe(STEP, zoom=False)
    rest = {name: column for name, column in seen.pm.columns.items() if name != "tensor_active"}
    e = collect(replace(seen, pm=Samples(seen.pm.start_ns, seen.pm.end_ns, rest)))

    assert e.borrowed == ("tensor_active",)
    assert rows == [len(e.long)] * 2


def test_what_is_borrowed_and_marks_no_step_asks_for_no_other_search(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = searched_for_steps(monkeypatch)
    seen = observe(STEP, zoom=False)
    rest = {name: column for name, column in seen.pm.columns.items() if name != "fp64_active"}
    double = seen.gpm.with_columns({"fp64_active": np.full(len(seen.gpm), 0.1)})
    e = collect(replace(seen, pm=Samples(seen.pm.start_ns, seen.pm.end_ns, rest), gpm=double))

    assert e.borrowed == ("fp64_active",)
    assert rows == [len(e.long)]


def test_only_rows_of_averages_that_show_a_second_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = asked(monkeypatch, (), ())
    seen = observe(STEP)
    long = seen.gpm.start_ns[::30]
    rare = Samples(long[:-1], long[1:], {"gr_active": np.full(len(long) - 1, 0.6)})
    collect(replace(seen, gpm=rare))
    assert len(tables[1]) == 0


BURSTS = (
    Phase(0.3, {"gr_active": 1.0, "sm_active": 0.9, "dram_read_bytes": 2e12, "launches": 2000.0}),
    Phase(0.9),
)


def between_bursts(seconds: float = 40.0) -> Any:
    """A program that works in bursts, and windows of 0.4 s that all fall between them."""
    seen = observe(BURSTS, seconds=seconds, zoom=False)
    keep = ((seen.pm.start_ns - seen.start_ns) / 1e9 % 1.2 > 0.4) & (
        (seen.pm.end_ns - seen.start_ns) / 1e9 % 1.2 > 0.4
    )
    pm = seen.pm.where(keep)
    assert not np.nansum(pm.column("gr_active") > 0.02)
    return replace(seen, pm=pm.with_columns({"gr_active": np.full(len(pm), 3e-4)}), windows=())


def test_windows_that_fell_between_the_bursts_are_not_judged() -> None:
    diagnosis = judge(between_bursts())

    assert diagnosis.tier == "gpm"
    assert diagnosis.facts["gr_active"].value == pytest.approx(0.25, abs=0.03)
    assert [d for d in diagnosis.doubts if "missed what the program does" in d]
    assert not [d for d in diagnosis.doubts if "saw too little" in d]
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.rule == "host_starved"


def test_windows_that_all_fell_into_the_bursts_are_not_judged() -> None:
    """What looks like a busy GPU stands still for three quarters of the time."""
    seen = observe(BURSTS, seconds=40.0, zoom=False)
    inside = ((seen.pm.start_ns - seen.start_ns) / 1e9 % 1.2 < 0.25) & (
        (seen.pm.end_ns - seen.start_ns) / 1e9 % 1.2 < 0.25
    )
    diagnosis = judge(replace(seen, pm=seen.pm.where(inside), windows=()))

    assert diagnosis.tier == "gpm"
    assert diagnosis.facts["gr_active"].value == pytest.approx(0.25, abs=0.03)
    assert [d for d in diagnosis.doubts if "missed what the program does" in d]
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.rule in ("host_starved", "periodic_stall")


def test_windows_that_saw_the_same_as_the_averages_are() -> None:
    diagnosis = judge(observe(BURSTS, zoom=False))

    assert diagnosis.tier == "pm"
    assert not [d for d in diagnosis.doubts if "missed" in d]


def test_counters_that_died_are_not_taken_for_windows_that_missed_something() -> None:
    seen = observe((Phase(0.01, BURSTS[0].levels),), zoom=False)
    dead = seen.pm.with_columns({name: np.zeros(len(seen.pm)) for name in seen.pm.columns})
    diagnosis = judge(replace(seen, pm=dead.where(np.arange(len(dead)) % 4 == 0)))

    assert not [d for d in diagnosis.doubts if "missed" in d]
    assert diagnosis.verdict is None


def test_what_waits_and_what_comes_late_never_claim_more_than_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = collect(observe(STEP))
    late = replace(seen.idle.late, of_idle=0.9)
    monkeypatch.setattr(idle_shares, "idle_time", lambda *_: replace(seen.idle.queue, waiting=0.8))
    monkeypatch.setattr(idle_shares, "late_launches", lambda *_: late)
    found = share_out_idle(seen.long, seen.zoom, seen.roofs, stalls=idle_shares.NOWHERE)

    assert found.waiting == pytest.approx(0.8 * 0.4, abs=0.01)
    assert found.waiting + found.late_idle == pytest.approx(0.4, abs=0.01)


def test_a_stall_owns_what_exceeds_the_usual_rest_of_the_work_beside_it() -> None:
    seen = collect(observe((Phase(0.05, {"gr_active": 1.0}), Phase(0.05)), zoom=False))
    first = int(seen.long.start_ns[0])
    inside = np.array([first], np.int64), np.array([first + SECOND // 2], np.int64)
    found = share_out_idle(seen.long, seen.zoom, seen.roofs, stalls=inside)

    assert found.stalled == pytest.approx(0.0, abs=0.01)  # these seconds are like the others


def test_a_counter_of_some_windows_only_is_held_against_the_activity_of_these(program):
    """What windows that lack it saw is no reason to call it more."""
    e = collect(program("fp32_gemm", zoom=False))
    early = np.arange(len(e.long)) < len(e.long) // 2
    columns = {"gr_active": np.where(early, 1.0, 0.5), "sm_issue": np.where(early, 0.4, np.nan)}

    assert replace(e, long=e.long.with_columns(columns)).while_busy("sm_issue") == pytest.approx(0.4)
