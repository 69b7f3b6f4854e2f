"""When windows are made: played out second by second, with neither clock nor device."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from perfzero.record.policy import (
    DEFAULTS,
    LOST_WINDOWS,
    STEPS_PAUSE,
    Policy,
    Settings,
    Situation,
)

DEFAULT = Settings()


@dataclass
class Played:
    """What a run of the policy did."""

    windows: list[tuple[float, str, float]] = field(default_factory=list)  # when, kind, how long
    opened: list[tuple[float, bool]] = field(default_factory=list)  # when, for a zoom
    lean: list[bool] = field(default_factory=list)  # of each window, bursts left out
    periods: list[int] = field(default_factory=list)  # of each session for windows
    open_s: float = 0.0

    def kinds(self) -> list[str]:
        return list(dict.fromkeys(kind for _, kind, _ in self.windows))

    def sampled_s(self, *, since_s: float = 0.0) -> float:
        return sum(length for at, _, length in self.windows if at >= since_s)


def play(
    settings=DEFAULT,
    *,
    seconds=300.0,
    settled_at=8.0,
    capped=False,
    works_at=1.0,
    rests=(math.inf, math.inf),
    fails_until=0.0,
    no_zoom=False,
    settled_again_at=math.inf,
    loses=0,
    at_end_of=None,
):
    """
    Run the policy against a recorder that obeys at once, in ticks of 0.2 s.

    The first windows of the steady state, so many as it *loses*, fail as they begin. *at_end_of* has what
    to do with the policy when the window of a number, bursts left out, has ended.
    """
    policy, played, step = Policy(settings), Played(), 0.2
    session, ends_at, lean = "none", -1.0, False
    at_end_of = dict(at_end_of or {})
    for tick in range(round(seconds / step)):
        now = tick * step
        if now >= ends_at:
            at_end_of.pop(len(played.lean), lambda _: None)(policy)
        if now - step < settled_again_at <= now:
            policy.settled_again(now)
        sampling = now < ends_at
        rested_s = now - rests[0] if rests[0] <= now < rests[1] else 0.0
        action = policy.decide(
            Situation(now, now >= works_at, now >= settled_at, capped, session, sampling, rested_s)
        )
        if action.verb == "open":
            if now < fails_until or (action.zoom and no_zoom):
                policy.failed(now, zoom=action.zoom)
                continue
            session = "zoom" if action.zoom else "window"
            played.opened.append((now, action.zoom))
            played.periods += [] if action.zoom else [action.period_ns]
            lean = action.lean if not action.zoom else lean
        elif action.verb == "close":
            session = "none"
        elif action.verb == "start" and loses and now >= settled_at and action.kind != "zoom":
            loses, session = loses - 1, "none"
            policy.failed(now)
        elif action.verb == "start":
            length = seconds - now if action.duration_s is None else action.duration_s
            ends_at = now + length
            played.windows.append((now, action.kind, length))
            played.lean += [lean] if action.kind != "zoom" else []
        played.open_s += step if session != "none" else 0.0
    return played


def zip_windows(played):
    """Windows that are no bursts, each with whether it did without some counters."""
    return list(zip([w for w in played.windows if w[1] != "zoom"], played.lean, strict=True))


def test_a_default_run_looks_closely_after_warm_up_and_rarely_later():
    played = play()

    assert played.kinds() == ["regular", "dense", "zoom"]
    dense = [w for w in played.windows if w[1] == "dense"]
    assert abs(sum(length for _, _, length in dense) - DEFAULTS.dense_s) < 1e-9
    assert 8.0 <= dense[0][0] < 9.0
    assert played.sampled_s(since_s=30.0) < 0.05 * 270


def test_the_default_samples_at_most_a_tenth_of_a_five_minute_run():
    assert play().sampled_s() < 0.1 * 300


def test_a_short_run_has_its_zoom_too():
    played = play(seconds=14.0, settled_at=6.0)
    assert "zoom" in played.kinds()


def test_windows_before_the_warm_up_is_over_come_every_few_seconds():
    early = [at for at, kind, _ in play(settled_at=25.0).windows if at < 25.0]
    assert all(3.9 <= b - a <= 4.5 for a, b in pairwise(early))


def test_windows_become_longer_for_what_does_not_settle_since_it_may_work_in_bursts():
    early = [(at, length) for at, kind, length in play(settled_at=25.0).windows if at < 25.0]
    late = 1.0 + DEFAULTS.unsettled_after_s
    assert {length for at, length in early if at < late} == {DEFAULTS.window_s}
    assert {length for at, length in early if at >= late} == {DEFAULTS.unsettled_window_s}
    assert all(length == DEFAULTS.window_s for at, _, length in play(settled_at=8.0).windows if at < 8.0)


def test_a_program_that_never_settles_is_looked_at_closely_after_thirty_seconds():
    dense = [at for at, kind, _ in play(settled_at=1e9).windows if kind == "dense"]
    assert DEFAULTS.warmup_max_s <= dense[0] - 1.0 < DEFAULTS.warmup_max_s + 1.0


def test_a_long_rest_begins_the_thirty_seconds_anew_and_the_rarer_windows_too():
    played = play(settled_at=1e9, rests=(3.0, 60.0))
    dense = [at for at, kind, _ in played.windows if kind == "dense"]
    assert 60.0 + DEFAULTS.warmup_max_s - 1.0 < dense[0] < 60.0 + DEFAULTS.warmup_max_s + 3.0
    assert {length for at, _, length in played.windows if 20.0 < at < 60.0} == {DEFAULTS.window_s}


def test_a_short_rest_does_not():
    short = play(settled_at=1e9, rests=(3.0, 2.5 + DEFAULTS.rest_s))
    assert short.windows == play(settled_at=1e9).windows


def test_a_rest_that_does_not_end_is_waited_for_five_minutes_at_most():
    played = play(settled_at=1e9, rests=(3.0, 1e9), seconds=400.0)
    dense = [at for at, kind, _ in played.windows if kind == "dense"]
    assert DEFAULTS.warmup_longest_s <= dense[0] - 1.0 < DEFAULTS.warmup_longest_s + 5.0


def test_at_the_power_cap_the_session_is_closed_between_rare_windows():
    played = play(capped=True)
    late = [w for w in played.windows if w[0] > 15.0]

    spacing = [b[0] - a[0] for a, b in pairwise(late)]
    assert spacing[0] >= 59.0
    assert all(after >= 1.9 * before or after >= DEFAULTS.rarest_s for before, after in pairwise(spacing))
    assert len(played.opened) <= 5
    assert played.open_s < 0.05 * 300
    assert "zoom" in played.kinds()


def test_nothing_is_opened_before_the_board_had_time_to_come_to_its_power_cap():
    assert play().opened[0][0] >= 1.0 + DEFAULT.first_after_s
    assert play(capped=True, settled_at=5.0).opened[0][0] >= 5.0  # the window of the warm-up is saved
    assert play(capped=True, settled_at=20.0).opened[0][0] < 1.0 + DEFAULTS.capped_warming_after_s + 0.5


def test_what_was_asked_for_and_what_ran_before_us_begins_at_once():
    asked = (Settings(continuous=True), Settings(window_s=0.5, every_s=5.0), Settings(first_after_s=0.0))
    for settings in asked:
        assert play(settings).opened[0][0] < 1.3


def test_away_from_the_power_cap_the_session_stays_open():
    played = play()
    assert len(played.opened) <= 3  # for windows, for the zoom, for windows again


def test_all_counters_see_the_steady_state_and_then_the_cheaper_ones_do():
    played = play()
    windows = [w for w in played.windows if w[1] != "zoom"]
    complete = sum(length for (at, _, length), lean in zip(windows, played.lean, strict=True) if not lean)
    first_lean = played.lean.index(True)

    assert sum(w[2] for w in windows[:first_lean] if w[1] == "dense") == DEFAULTS.zoom_after_s
    assert complete < 6.0
    assert all(played.lean[first_lean:])
    assert [zoom for _, zoom in played.opened] == [False, True, False]  # no session for their sake


def test_near_the_cap_where_each_window_has_its_session_the_counters_take_turns():
    assert play(capped=True, seconds=900.0).lean[1:6] == [False, True, False, True, False]


def test_no_steady_state_no_cheaper_counters():
    assert not any(play(settled_at=1e9, seconds=30.0).lean)


def test_a_pattern_that_was_asked_for_keeps_its_counters():
    assert set(play(Settings(window_s=1.0, every_s=5.0)).lean) == {False}
    assert set(play(Settings(every_s=5.0), capped=True).lean) == {False}
    assert set(play(Settings(continuous=True)).lean) == {True}


def test_a_spacing_by_steps_that_comes_after_the_burst_brings_the_counters_back():
    played = play(at_end_of={5: lambda policy: policy.every(20.0)}, seconds=200.0)
    explicit = [lean for (_, kind, _), lean in zip_windows(played) if kind == "explicit"]
    assert True in played.lean
    assert set(explicit) == {False}


def test_without_gpm_a_session_that_counted_on_it_is_opened_anew():
    lost = play(at_end_of={5: lambda policy: policy.without_gpm()}, seconds=200.0)
    assert [zoom for _, zoom in lost.opened] == [False, True, False, False]
    early = play(at_end_of={3: lambda policy: policy.without_gpm()}, seconds=200.0)
    assert early.opened == play(seconds=200.0).opened  # the session had them all


def test_without_a_burst_there_is_no_session_in_which_the_counters_could_change():
    played = play(Settings(zoom_period_ns=None))
    assert len(played.opened) == 1
    assert not any(played.lean)


def test_a_second_level_gets_a_close_look_of_its_own_by_all_counters_once():
    played = play(settled_again_at=25.0)
    again = [(w, lean) for w, lean in zip_windows(played) if w[0] >= 25.0 and w[1] == "dense"]
    first = [w for w, _ in zip_windows(played) if w[0] < 25.0 and w[1] == "dense"]

    assert sum(w[2] for w in first) == pytest.approx(DEFAULTS.dense_s)
    assert sum(w[2] for w, _ in again) == pytest.approx(DEFAULTS.again_s)
    assert [lean for _, lean in again] == [False, True]
    assert [zoom for at, zoom in played.opened if at >= 25.0] == [False, True, False]
    assert again[0][0][0] < 26.0


def test_near_the_cap_a_second_level_gets_its_long_window_and_its_burst():
    played = play(settled_again_at=25.0, capped=True)
    later = [(kind, length) for at, kind, length in played.windows if at >= 25.0]
    assert later[:2] == [("regular", DEFAULTS.capped_first_s), ("zoom", Settings().zoom_s)]


def test_a_second_level_is_where_the_steady_state_begins():
    policy, now = settled()
    assert policy.steady_at_s == now
    policy.settled_again(20.0)
    assert policy.steady_at_s == 20.0
    policy.settled_again(40.0)
    assert policy.steady_at_s == 20.0


@pytest.mark.parametrize("settings", [Settings(continuous=True), Settings(window_s=1.0, every_s=5.0)])
def test_a_second_level_changes_nothing_in_what_was_asked_for(settings):
    assert play(settings, settled_again_at=25.0).windows == play(settings).windows


def test_a_level_that_changes_during_the_warm_up_is_no_second_one():
    assert play(settled_at=20.0, settled_again_at=19.0).windows == play(settled_at=20.0).windows


def test_an_explicit_pattern_is_kept_to_the_letter():
    played = play(Settings(window_s=1.0, every_s=5.0, zoom_period_ns=None))
    starts = [at for at, kind, length in played.windows]

    assert played.kinds() == ["explicit"]
    assert all(abs(b - a - 5.0) < 0.41 for a, b in pairwise(starts))
    assert abs(len(starts) - 60) <= 1


def test_continuous_is_one_window_without_end():
    played = play(Settings(continuous=True))
    assert played.kinds() == [("continuous")]
    assert len(played.windows) == 1


def test_nothing_is_opened_while_the_gpu_has_nothing_to_do():
    assert play(works_at=1e9).opened == []


def test_a_busy_device_is_tried_again_later_and_not_at_once():
    played = play(fails_until=40.0)
    assert 40.0 <= played.opened[0][0] < 40.0 + DEFAULTS.retry_busy_s + 1.0


def test_a_zoom_that_cannot_be_opened_is_given_up_and_windows_go_on():
    played = play(no_zoom=True)

    assert "zoom" not in played.kinds()
    assert [at for at, kind, _ in played.windows if kind == "regular" and at > 60.0]


@pytest.mark.parametrize("capped", [False, True])
def test_a_close_look_that_was_lost_is_made_again(capped):
    whole, lost = play(capped=capped), play(capped=capped, loses=2)
    look = [w for w in zip_windows(lost) if w[0][0] >= 8.0]
    wanted = [w for w in zip_windows(whole) if w[0][0] >= 8.0]

    assert look[0][0][2] == (DEFAULTS.capped_first_s if capped else DEFAULTS.zoom_after_s)
    assert [(kind, length, lean) for (_, kind, length), lean in look[:2]] == [
        (kind, length, lean) for (_, kind, length), lean in wanted[:2]
    ]
    assert look[0][0][0] < 8.0 + 2 * DEFAULTS.retry_busy_s + 2.0


def test_windows_that_are_always_lost_are_not_made_again_for_ever():
    played = play(loses=99, seconds=900.0)
    assert len(played.opened) < LOST_WINDOWS + 10


def test_a_failure_between_windows_takes_nothing_back():
    policy, _ = settled()
    first = policy.decide(Situation(5.2, True, True, False, "window", False))
    assert policy.decide(Situation(8.4, True, True, False, "window", False)).verb == "close"  # for the burst
    policy.failed(8.6, zoom=True)
    policy.decide(Situation(60.0, True, True, False, "none", False))
    rest = policy.decide(Situation(60.2, True, True, False, "window", False))
    assert first.duration_s + rest.duration_s == DEFAULTS.dense_s


def test_a_rare_window_that_was_lost_is_not_made_again_at_once():
    policy = Policy(Settings(zoom_period_ns=None))
    for now in (5.0, 5.2, 15.0):
        policy.decide(Situation(now, True, True, False, "window" if now > 5.0 else "none", False))
    assert policy.decide(Situation(60.0, True, True, False, "window", False)).kind == "regular"
    policy.failed(60.2)
    assert policy.decide(Situation(76.0, True, True, False, "none", False)).verb == "nothing"


def test_windows_by_steps_are_ten_windows_apart_at_least():
    policy = Policy(Settings())
    assert policy.every(0.1) == STEPS_PAUSE * DEFAULTS.window_s
    assert policy.every(60.0) == 60.0


# --- what steps and overflows change ---


def settled(settings=DEFAULT):
    """A policy with its first session open, in the steady state, and the moment."""
    policy = Policy(settings)
    assert policy.decide(Situation(5.0, True, True, False, "none", False)).verb == "open"
    return policy, 5.0


def values(choices):
    return {choice.what: choice.value for choice in choices}


def test_windows_hold_eight_steps_up_to_two_seconds():
    assert values(Policy(DEFAULT).step_seen(0.150))["window_s"] == pytest.approx(1.2)
    assert values(Policy(DEFAULT).step_seen(0.6))["window_s"] == 2.0
    assert "window_s" not in values(Policy(DEFAULT).step_seen(0.05))  # ten fit already


@pytest.mark.parametrize(
    ("step_s", "why"),
    [
        (0.3, "a window holds 6 steps of 300 ms"),
        (1.5, "a window holds 1 step of 1.5 s"),
        (3.0, "a step of 3 s is longer"),
    ],
)
def test_why_a_window_has_its_length_is_a_clause_of_english(step_s, why):
    (choice,) = [c for c in Policy(DEFAULT).step_seen(step_s) if c.what == "window_s"]
    assert choice.why == why


def test_a_window_that_was_asked_for_keeps_its_length_and_its_spacing():
    settings = Settings(window_s=0.7, every_s=5.0)
    assert "window_s" not in values(Policy(settings).step_seen(0.6))
    # With the spacing alone there is room for the pause, whatever a step takes.
    assert values(Policy(Settings(every_s=3.0)).step_seen(0.6))["window_s"] == 1.5


@pytest.mark.parametrize(("step_s", "period_ns"), [(0.010, 1e6), (0.040, 1e6), (2.5, 5e6)])
def test_a_step_has_twenty_samples_and_not_thousands(step_s, period_ns):
    assert values(Policy(DEFAULT).step_seen(step_s))["period_ns"] == period_ns


@pytest.mark.parametrize("step_s", [0.009, 0.041, 0.3, 2.0])
def test_other_steps_leave_the_period_alone(step_s):
    assert "period_ns" not in values(Policy(DEFAULT).step_seen(step_s))


@pytest.mark.parametrize("asked", [Settings(adapt_period=False), Settings(continuous=True)])
def test_a_period_that_was_asked_for_is_never_changed(asked):
    policy, _ = settled(asked)
    assert "period_ns" not in values(policy.step_seen(0.02))
    if not asked.adapt_period:
        assert policy.overflowed("the buffer overflowed") is None


def test_the_period_follows_the_steps_at_most_twice():
    policy = Policy(DEFAULT)
    changed = [bool({"period_ns"} & set(values(policy.step_seen(s)))) for s in (0.02, 3.0, 0.02, 3.0)]
    assert changed == [True, True, False, False]


def test_a_better_period_waits_until_a_session_is_opened_anyway():
    policy, now = settled()
    policy.step_seen(0.03)  # 15 samples a step: good enough for now
    assert policy.decide(Situation(now, True, True, False, "window", False)).verb == "start"

    policy, now = settled()
    policy.step_seen(0.015)  # seven are not
    assert policy.decide(Situation(now, True, True, False, "window", False)).verb == "close"
    again = policy.decide(Situation(now, True, True, False, "none", False))
    assert (again.verb, again.period_ns) == ("open", 1_000_000)


def test_shorter_samples_make_the_rest_of_the_close_look_shorter():
    policy, _ = settled()
    played = []
    now, session = 5.0, "window"
    for _ in range(200):
        action = policy.decide(Situation(now, True, True, False, session, False))
        session = {"open": "zoom" if action.zoom else "window", "close": "none"}.get(action.verb, session)
        if action.verb == "start":
            played.append((action.kind, action.duration_s))
            policy.step_seen(0.02)
            now += action.duration_s
        now += 0.2
    dense = [length for kind, length in played if kind == "dense"]
    assert dense == [DEFAULTS.zoom_after_s, (DEFAULTS.dense_s - DEFAULTS.zoom_after_s) / 2]


def test_a_period_that_is_chosen_after_the_burst_gets_a_session_of_its_own():
    played = play(at_end_of={4: lambda policy: policy.step_seen(3.0)}, seconds=600.0)  # the close look
    assert played.periods == [2_000_000, 2_000_000, 5_000_000]


def test_a_period_that_is_chosen_before_the_burst_waits_for_it():
    played = play(at_end_of={3: lambda policy: policy.step_seen(3.0)}, seconds=600.0)
    assert played.periods == [2_000_000, 5_000_000]


def test_the_burst_covers_three_steps_in_five_thousand_samples():
    burst = values(Policy(DEFAULT).step_seen(0.05))
    assert burst["zoom_s"] == pytest.approx(0.15)
    assert burst["zoom_period_ns"] == 30_000

    longest = values(Policy(DEFAULT).step_seen(0.15))
    assert (longest["zoom_s"], longest["zoom_period_ns"]) == (0.25, 50_000)


def test_the_burst_of_long_steps_and_of_a_period_that_was_asked_for_stays():
    assert not {"zoom_s", "zoom_period_ns"} & set(values(Policy(DEFAULT).step_seen(0.2)))
    asked = values(Policy(Settings(zoom_period_ns=10_000, adapt_zoom=False)).step_seen(0.05))
    assert not {"zoom_s", "zoom_period_ns"} & set(asked)  # 5,000 samples already
    fine = Settings(zoom_period_ns=5_000, adapt_zoom=False)  # twice as many, as it was asked for
    assert not {"zoom_s", "zoom_period_ns"} & set(values(Policy(fine).step_seen(0.05)))
    assert values(Policy(Settings(zoom_period_ns=None)).step_seen(0.05)) == {}


def test_each_overflow_doubles_the_period_up_to_twenty_milliseconds():
    policy, now = settled()
    seen = []
    for _ in range(6):
        choice = policy.overflowed("the hardware buffer overflowed")
        assert choice is None or "overflowed" in choice.why
        closing = policy.decide(Situation(now, True, True, False, "window", False))
        if choice is None:
            assert closing.verb == "start"
            break
        assert closing.verb == "close"
        seen.append(policy.decide(Situation(now, True, True, False, "none", False)).period_ns)
    assert seen == [4_000_000, 8_000_000, 16_000_000]


def test_several_overflows_of_one_window_count_once():
    policy, _ = settled()
    assert policy.overflowed("the hardware buffer overflowed") is not None
    assert policy.overflowed("the hardware buffer overflowed") is None


@pytest.mark.parametrize(
    ("then", "period_ns"),
    [
        (lambda policy: policy.step_seen(3.0), 5_000_000),
        (lambda policy: policy.settled_again(9.0), 4_000_000),
        (lambda policy: policy.every(60.0), 4_000_000),
    ],
)
def test_what_is_seen_together_with_an_overflow_does_not_cancel_the_longer_period(then, period_ns):
    policy, _ = settled()
    assert policy.overflowed("the hardware buffer overflowed") is not None
    then(policy)
    assert policy.decide(Situation(200.0, True, True, False, "window", False)).verb == "close"
    assert policy.decide(Situation(200.2, True, True, False, "none", False)).period_ns == period_ns


def test_an_overflow_does_not_let_a_longer_period_wait():
    policy, _ = settled()
    policy.step_seen(3.0)  # before the burst it would wait
    assert policy.overflowed("the hardware buffer overflowed") is None  # it has been told
    assert policy.decide(Situation(6.0, True, True, False, "window", False)).verb == "close"
    assert "period_ns" not in values(policy.step_seen(0.02))


def test_after_an_overflow_short_steps_do_not_bring_the_short_period_back():
    policy, _ = settled()
    policy.overflowed("the hardware buffer overflowed")
    assert "period_ns" not in values(policy.step_seen(0.02))


@pytest.mark.parametrize("capped", [False, True])
def test_a_run_that_ends_when_it_is_sure_has_windows_sooner(capped):
    played = play(Settings(until_sure=True), capped=capped, seconds=120.0)
    late = [at for at, kind, _ in played.windows if kind == "regular" and at > 12.0]
    assert len([at for at in late if at < 60.0]) >= 3
    assert late[1] - late[0] < 11.0


def test_a_program_becomes_steady_in_the_middle_of_a_window_without_end():
    policy = Policy(Settings(continuous=True))
    for now, session in ((1.0, "none"), (1.2, "window")):
        assert policy.decide(Situation(now, True, False, False, session, False)).verb in ("open", "start")
    assert policy.decide(Situation(1.4, True, False, False, "window", True)).verb == "nothing"
    assert policy.steady_at_s is None
    assert policy.decide(Situation(8.0, True, True, False, "window", True)).verb == "nothing"
    assert policy.steady_at_s == 8.0
    assert not policy.looks_closely(8.0)


def test_near_the_cap_the_close_look_lasts_as_long_as_its_window():
    policy = Policy(Settings(zoom_period_ns=None))
    policy.decide(Situation(5.0, True, True, True, "none", False))
    action = policy.decide(Situation(5.2, True, True, True, "window", False))
    assert action.duration_s == DEFAULTS.capped_first_s
    assert policy.looks_closely(5.2 + DEFAULTS.capped_first_s - 0.1)
    assert not policy.looks_closely(5.2 + DEFAULTS.capped_first_s)


def test_the_close_look_lasts_from_warm_up_until_the_dense_stretch_is_over():
    policy, session, ends = Policy(DEFAULT), "none", -1.0
    seen = []
    for tick in range(200):
        now = tick * 0.2
        action = policy.decide(Situation(now, True, now >= 8.0, False, session, now < ends))
        session = {"open": "zoom" if action.zoom else "window", "close": "none"}.get(action.verb, session)
        ends = now + action.duration_s if action.verb == "start" else ends
        seen.append((now, policy.looks_closely(now)))
    closely = [now for now, yes in seen if yes]
    assert 8.0 <= closely[0] < 8.3
    assert 18.0 < closely[-1] < 21.0
    assert len(closely) == round((closely[-1] - closely[0]) / 0.2) + 1


# --- the burst beside a look inside the program ---


def beside_a_look(policy, session, *, now_s=60.0, sampling=False):
    """What is done in a program that has been looked at closely."""
    return policy.decide(Situation(now_s, True, True, False, session, sampling))


def looked_at_closely(settings=DEFAULT):
    policy = Policy(settings)
    session, ends_at = "none", -1.0
    for tick in range(250):
        now = tick * 0.2
        action = policy.decide(Situation(now, True, True, False, session, now < ends_at))
        session = {"open": "zoom" if action.zoom else "window", "close": "none"}.get(action.verb, session)
        ends_at = now + (action.duration_s or 0.0) if action.verb == "start" else ends_at
    return policy, session


def test_a_burst_beside_a_look_has_a_session_of_its_own_that_waits_for_the_word():
    policy, session = looked_at_closely()
    policy.want_close_up(60.0, period_ns=50_000, length_s=0.4)

    assert session == "window"
    assert beside_a_look(policy, "window").verb == "close"
    opened = beside_a_look(policy, "none")
    assert (opened.verb, opened.close_up, opened.period_ns, opened.duration_s) == ("open", True, 50_000, 0.4)
    assert beside_a_look(policy, "zoom").verb == "nothing"
    policy.begin_close_up()
    begun = beside_a_look(policy, "zoom")
    assert (begun.verb, begun.kind, begun.duration_s) == ("start", "zoom", 0.4)
    assert beside_a_look(policy, "zoom", sampling=True).verb == "nothing"
    assert beside_a_look(policy, "zoom").verb == "close"
    assert policy.close_up is None


def test_a_burst_whose_look_came_to_nothing_is_closed():
    policy, _ = looked_at_closely()
    policy.want_close_up(60.0, period_ns=50_000, length_s=0.4)
    beside_a_look(policy, "none")
    policy.close_up = None

    assert beside_a_look(policy, "zoom").verb == "close"


@pytest.mark.parametrize("settings", [Settings(zoom_period_ns=None), Settings(continuous=True)])
def test_where_no_bursts_are_wanted_a_look_has_none(settings):
    policy = Policy(settings)
    policy.want_close_up(60.0, period_ns=50_000, length_s=0.4)

    assert policy.close_up is None


def test_counters_that_another_tool_holds_are_not_waited_for_by_a_look():
    policy, _ = looked_at_closely()
    policy.failed(60.0)
    policy.want_close_up(60.0 + DEFAULTS.retry_busy_s / 2, period_ns=50_000, length_s=0.4)
    assert policy.close_up is None
    policy.want_close_up(60.0 + DEFAULTS.retry_busy_s, period_ns=50_000, length_s=0.4)
    assert policy.close_up is not None
    policy.failed(80.0, zoom=True)
    assert policy.close_up is None
