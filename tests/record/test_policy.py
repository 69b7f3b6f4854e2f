"""When windows are made: played out second by second, with neither clock nor device."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from perfzero.record.policy import (
    DEFAULTS,
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
    fails_until=0.0,
    no_zoom=False,
):
    """Run the policy against a recorder that obeys at once, in ticks of 0.2 s."""
    policy, played, step = Policy(settings), Played(), 0.2
    session, ends_at = "none", -1.0
    for tick in range(round(seconds / step)):
        now = tick * step
        sampling = now < ends_at
        action = policy.decide(Situation(now, now >= works_at, now >= settled_at, capped, session, sampling))
        if action.verb == "open":
            if now < fails_until or (action.zoom and no_zoom):
                policy.failed(now, zoom=action.zoom)
                continue
            session = "zoom" if action.zoom else "window"
            played.opened.append((now, action.zoom))
        elif action.verb == "close":
            session = "none"
        elif action.verb == "start":
            length = seconds - now if action.duration_s is None else action.duration_s
            ends_at = now + length
            played.windows.append((now, action.kind, length))
        played.open_s += step if session != "none" else 0.0
    return played


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


def test_a_program_that_never_settles_is_looked_at_closely_after_thirty_seconds():
    dense = [at for at, kind, _ in play(settled_at=1e9).windows if kind == "dense"]
    assert DEFAULTS.warmup_max_s <= dense[0] - 1.0 < DEFAULTS.warmup_max_s + 1.0


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


def test_windows_by_steps_are_ten_windows_apart_at_least():
    policy = Policy(Settings())
    assert policy.every(0.1) == STEPS_PAUSE * DEFAULTS.window_s
    assert policy.every(60.0) == 60.0
