"""What happens every N steps is found, named and counted; what is only irregular is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfzero.series.rare import RareEvent, outside, pauses, rare_events, stalls_in
from perfzero.values import Samples

SECOND = 1_000_000_000
START = 1_700_000_000_000_000_000
PERIOD_S = 0.002

FORWARD = {"gr_active": 1.0, "sm_active": 0.9, "tensor_active": 0.7, "dram_read_bytes": 8e11, "launches": 2e3}
UPDATE = {"gr_active": 1.0, "sm_active": 0.9, "dram_read_bytes": 1.5e12, "dram_write_bytes": 1.1e12}
NOTHING: dict[str, float] = {}
COLUMNS = tuple(dict.fromkeys([*FORWARD, *UPDATE]))

STEP_S = 0.05


def program(
    seed=0,
    *,
    seconds=30.0,
    jitter=0.0,
    noise=0.02,
    every=None,
    event=NOTHING,
    event_s=0.5,
    event_jitter=0.0,
    missed=0.0,
    lengths=None,
    batches=0,
    update_share=0.15,
) -> tuple[Samples, np.ndarray]:
    """
    Samples of a training loop that does *event* for *event_s* after *every* steps, and its onsets.

    *missed*: share of onsets that are not seen. *lengths*: draws a step's length, for programs without a
    usual one. *batches*: onsets that the event has itself.
    """
    rng = np.random.default_rng(seed)
    at, knots, levels, onsets, count = 0.0, [0.0], [], [], 0
    while at < seconds:
        length = lengths(rng) if lengths else STEP_S * max(0.3, 1 + jitter * rng.standard_normal())
        onsets.append(at)
        knots += [at + (1 - update_share) * length, at + length]
        levels += [FORWARD, UPDATE]
        at += length
        count += 1
        if every and count % every == 0:
            extra = event_s * math.exp(event_jitter * rng.standard_normal())
            onsets += [at + extra * part / batches for part in range(batches)]
            at += extra
            knots.append(at)
            levels.append(event)
    edges = PERIOD_S * np.arange(int(seconds / PERIOD_S) + 1)
    columns = {}
    for name in COLUMNS:
        integral = np.r_[0.0, np.cumsum([level.get(name, 0.0) for level in levels] * np.diff(knots))]
        value = np.diff(np.interp(edges, knots, integral))
        value = value / PERIOD_S if name.endswith("active") else value
        columns[name] = np.maximum(value * (1 + noise * rng.standard_normal(len(value))), 0)
    columns["gr_active"] = np.minimum(columns["gr_active"], 1.0)
    begin = START + np.round(edges * 1e9).astype(np.int64)
    kept = np.array(onsets)[rng.random(len(onsets)) >= missed]
    kept = kept[kept < seconds]
    return Samples(begin[:-1], begin[1:], columns), START + np.round(kept * 1e9).astype(np.int64)


def seen_in(samples: Samples, onsets, windows) -> tuple[Samples, np.ndarray]:
    """Samples and onsets inside *windows*, pairs of seconds."""
    at = (samples.start_ns - START) / 1e9
    when = (onsets - START) / 1e9
    inside = np.any([(at >= a) & (at + PERIOD_S <= b + 1e-9) for a, b in windows], axis=0)
    known = np.any([(when >= a) & (when < b) for a, b in windows], axis=0)
    return samples.where(inside), onsets[known]


def the_only(events: tuple[RareEvent, ...]) -> RareEvent:
    assert len(events) == 1
    return events[0]


def test_a_checkpoint_every_forty_steps_is_a_stall_with_that_period():
    event = the_only(rare_events(*program(every=40, event_s=0.5)))

    assert event.nature == "stall"
    assert event.count == 12
    assert event.length_s == pytest.approx(0.5, rel=0.01)
    assert event.period_s == pytest.approx(40 * STEP_S + 0.5, rel=0.01)
    assert event.period_steps == 40
    assert event.spread < 0.01
    assert event.share == pytest.approx(0.2, abs=0.01)


def test_an_evaluation_is_other_work_and_no_stall():
    event = the_only(rare_events(*program(every=60, event=FORWARD, event_s=0.9)))

    assert event.nature == "other work"
    assert event.length_s == pytest.approx(0.9, rel=0.02)
    assert event.period_steps == 60


def test_an_evaluation_whose_batches_have_onsets_is_one_event():
    event = the_only(rare_events(*program(every=60, event=FORWARD, event_s=0.9, batches=45)))

    assert event.nature == "other work"
    assert event.length_s == pytest.approx(0.9, rel=0.02)
    assert event.period_steps == 60


def test_a_checkpoint_and_a_pause_for_logging_are_two_kinds():
    samples, onsets = program(every=20, event_s=0.08, seconds=25)
    later, later_onsets = program(every=40, event_s=1.0, seconds=25)
    shift = 25 * SECOND
    samples = Samples.concat([samples, Samples(later.start_ns + shift, later.end_ns + shift, later.columns)])
    events = rare_events(samples, np.r_[onsets, later_onsets + shift])

    assert [event.nature for event in events] == ["stall", "stall"]
    assert [event.length_s for event in events] == pytest.approx([1.0, 0.08], rel=0.05)
    assert [event.period_steps for event in events] == [40, 20]


def test_time_in_which_no_onsets_were_looked_for_does_not_count(monkeypatch):
    samples, onsets = program(every=40, event_s=0.5)
    searched = len(samples) // 2
    monkeypatch.setattr("perfzero.series.rare.LONGEST_TABLE", searched)
    event = the_only(rare_events(samples, onsets[onsets < samples.end_ns[searched - 1]]))

    assert event.count == 6
    assert event.share == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("lost", ["launches", "dram_write_bytes"])
def test_a_counter_that_this_gpu_lacks_is_not_missed(lost):
    samples, onsets = program(every=40, event_s=0.5)
    columns = {name: column for name, column in samples.columns.items() if name != lost}

    for without in (columns, columns | {lost: np.full(len(samples), np.nan)}):
        event = the_only(rare_events(Samples(samples.start_ns, samples.end_ns, without), onsets))

        assert (event.nature, event.count, event.period_steps) == ("stall", 12, 40)


@pytest.mark.parametrize(("seconds", "count", "period_steps"), [(5.2, 2, None), (7.8, 3, 40)])
def test_two_events_have_a_distance_and_three_a_period(seconds, count, period_steps):
    event = the_only(rare_events(*program(every=40, event_s=0.5, seconds=seconds)))

    assert (event.count, event.period_steps) == (count, period_steps)


@pytest.mark.parametrize(("seconds", "period_s"), [(20.0, 1.5), (50.0, None)])
def test_events_that_come_close_together_once_have_no_period(seconds, period_s):
    """Four stalls in 6 s, 1.5 s apart; then none, for as long as 4 or for as long as 30 such distances."""
    samples, onsets = program(every=20, event_s=0.5, seconds=6.1)
    later, later_onsets = program(seconds=seconds - 6.2)
    shift = round(6.2 * SECOND)
    both = Samples.concat([samples, Samples(later.start_ns + shift, later.end_ns + shift, later.columns)])
    event = the_only(rare_events(both, np.r_[onsets, later_onsets + shift]))

    assert event.count == 4
    assert event.period_s == (None if period_s is None else pytest.approx(period_s, rel=0.02))


def test_one_event_has_no_period():
    samples, onsets = program(every=100, event_s=0.5, seconds=9)
    event = the_only(rare_events(samples, onsets))

    assert event.count == 1
    assert event.period_s is None
    assert event.period_steps is None
    assert math.isnan(event.spread)


def test_a_single_step_that_waits_for_two_is_an_odd_step_and_no_kind():
    samples, onsets = program(every=100, event_s=2 * STEP_S, seconds=9)

    assert rare_events(samples, onsets) == ()


def test_events_without_a_rhythm_have_no_period():
    rng = np.random.default_rng(4)
    samples, onsets = program(seconds=60)
    columns = {name: value.copy() for name, value in samples.columns.items()}
    at = np.cumsum(rng.uniform(0.5, 9.0, 11))
    for begin in START + np.round(at * 1e9).astype(np.int64):
        dead = (samples.start_ns >= begin) & (samples.start_ns < begin + SECOND // 4)
        for value in columns.values():
            value[dead] = 0.0
        onsets = onsets[(onsets < begin) | (onsets >= begin + SECOND // 4)]
    event = the_only(rare_events(Samples(samples.start_ns, samples.end_ns, columns), onsets))

    assert event.nature == "stall"
    assert event.period_s is None


def test_an_event_at_the_edge_of_a_window_is_counted_as_cut():
    windows = [(0.0, 2.2), (4.7, 6.9)]
    event = the_only(rare_events(*seen_in(*program(every=40, event_s=0.5), windows)))

    assert event.cut == 2
    assert event.count == 2
    assert math.isnan(event.length_s)
    assert event.longest_s == pytest.approx(0.25, abs=0.06)
    assert event.period_s is None


def test_events_of_two_windows_give_a_period_if_none_can_hide_between_them():
    """Events at 2, 4.5, 7 s; half a second between is not seen, and none of its divisors fits in there."""
    samples, onsets = program(every=40, event_s=0.5, seconds=7.8)
    event = the_only(rare_events(*seen_in(samples, onsets, [(0.0, 3.4), (3.8, 5.9), (6.3, 7.8)])))

    assert event.count == 3
    assert event.period_s == pytest.approx(2.5, rel=0.01)


def test_events_far_apart_with_a_hole_between_give_no_period():
    samples, onsets = program(every=40, event_s=0.5, seconds=11)
    event = the_only(rare_events(*seen_in(samples, onsets, [(0.0, 3.0), (8.0, 11.0)])))

    assert event.count == 2
    assert event.period_s is None


def test_long_gaps_with_a_hole_between_give_no_period_either():
    at = np.arange(0, 11, PERIOD_S)
    begin = START + np.round(at * 1e9).astype(np.int64)
    busy = (at % 0.05 >= 0.01) & ((at + 1.0) % 2.5 >= 0.5)
    samples = Samples(begin, begin + 2_000_000, {"gr_active": busy.astype(float)})
    seen, _ = seen_in(samples, begin, [(0.0, 3.0), (8.0, 11.0)])
    event = the_only(rare_events(seen))

    assert the_only(rare_events(samples)).period_s == pytest.approx(2.5, rel=0.01)
    assert event.count == 2
    assert event.period_s is None


def test_a_missed_onset_is_no_event():
    assert rare_events(*program(missed=0.05, jitter=0.05)) == ()


def test_a_false_onset_is_no_event():
    samples, onsets = program()
    assert rare_events(samples, np.sort(np.r_[onsets, onsets[::17] + 10_000_000])) == ()


@pytest.mark.parametrize("jitter", [0.0, 0.15])
def test_steps_that_only_jitter_have_no_events(jitter):
    assert rare_events(*program(jitter=jitter)) == ()


@pytest.mark.parametrize(
    "lengths", [lambda rng: rng.uniform(0.03, 0.15), lambda rng: rng.exponential(0.08) + 0.004]
)
def test_batches_of_all_lengths_have_no_rare_one(lengths):
    assert rare_events(*program(lengths=lengths)) == ()


def test_two_kinds_of_steps_in_turn_have_no_rare_one():
    """Every other step waits for data."""
    for seed in range(40):
        assert rare_events(*program(seed, every=2, event_s=0.05, event_jitter=0.4, seconds=10)) == ()


@pytest.mark.parametrize("jitter", [0.4, 0.7, 1.0])
def test_waits_of_all_lengths_in_each_step_are_not_rare(jitter):
    assert rare_events(*program(every=1, event_s=0.05, event_jitter=jitter)) == ()
    assert rare_events(*program(1, every=1, event_s=0.05, event_jitter=jitter)) == ()


def test_the_distance_from_an_event_that_began_before_its_window_is_not_counted():
    windows = [(0.0, 2.2), (4.7, 12.3)]
    event = the_only(rare_events(*seen_in(*program(every=40, event_s=0.5), windows)))

    assert event.cut == 3
    assert event.period_s == pytest.approx(2.5, rel=0.01)


def test_a_few_steps_are_no_background_for_anything_rare():
    assert rare_events(*program(seconds=0.3)) == ()
    assert rare_events(Samples.empty(), np.empty(0, np.int64)) == ()


def test_long_gaps_among_short_ones_are_stalls_without_any_step_known():
    """A loop that waits 10 ms every 50 ms, and half a second every 2.5 s."""
    at = np.arange(0, 30, PERIOD_S)
    busy = (at % 0.05 >= 0.01) & (at % 2.5 >= 0.5)
    begin = START + np.round(at * 1e9).astype(np.int64)
    samples = Samples(begin, begin + 2_000_000, {"gr_active": busy.astype(float)})

    event = the_only(rare_events(samples))

    assert event.nature == "stall"
    assert event.period_s == pytest.approx(2.5, rel=0.01)
    assert event.period_steps is None


def test_a_gap_in_each_step_is_usual_whether_or_not_the_step_is_known():
    at = np.arange(0, 30, PERIOD_S)
    begin = START + np.round(at * 1e9).astype(np.int64)
    samples = Samples(begin, begin + 2_000_000, {"gr_active": (at % 0.25 >= 0.15).astype(float)})

    assert rare_events(samples) == ()
    assert rare_events(samples, step_s=0.25) == ()


def test_a_wait_half_as_long_again_as_usual_is_not_rare():
    """Each step of 100 ms waits 40 ms, every tenth 60 ms."""
    at = np.arange(0, 30, PERIOD_S)
    begin = START + np.round(at * 1e9).astype(np.int64)
    waits = np.where(at % 1.0 < 0.1, 0.06, 0.04)
    samples = Samples(begin, begin + 2_000_000, {"gr_active": (at % 0.1 >= waits).astype(float)})

    assert rare_events(samples, step_s=0.1) == ()


def test_gaps_of_a_busy_program_are_rare_if_its_step_is_much_shorter():
    at = np.arange(0, 30, PERIOD_S)
    begin = START + np.round(at * 1e9).astype(np.int64)
    samples = Samples(begin, begin + 2_000_000, {"gr_active": (at % 2.5 >= 0.5).astype(float)})

    assert the_only(rare_events(samples, step_s=0.05)).period_s == pytest.approx(2.5, rel=0.01)
    assert rare_events(samples) == ()


def checkpoints(at, *, every_s=2.5, pause_s=0.5) -> np.ndarray:
    """GPU activity of a program that is busy all the time but for a pause every so many seconds."""
    return (at % every_s >= pause_s).astype(float)


def test_without_its_pauses_a_program_works_all_the_time():
    at = np.arange(0, 30, PERIOD_S)
    begin = START + np.round(at * 1e9).astype(np.int64)
    samples = Samples(begin, begin + 2_000_000, {"gr_active": checkpoints(at)})
    rest = outside(samples, *pauses(samples))

    assert float(rest.column("gr_active").min()) == 1.0
    assert len(rest) == pytest.approx(0.8 * len(samples), abs=2)


def test_short_gaps_are_no_pauses():
    at = np.arange(0, 30, PERIOD_S)
    begin = START + np.round(at * 1e9).astype(np.int64)
    samples = Samples(begin, begin + 2_000_000, {"gr_active": checkpoints(at, every_s=0.5, pause_s=0.1)})

    assert outside(samples, *pauses(samples)) is samples
    assert len(pauses(Samples.empty())[0]) == 0


@pytest.mark.parametrize(("lost_s", "count"), [(0.05, 1), (0.3, 0)])
def test_a_pause_goes_on_across_samples_that_were_lost_and_not_across_the_rest_between_windows(lost_s, count):
    """Half a second without work, of which 0.18 s at either end at most were sampled."""
    at = np.arange(0, 4, PERIOD_S)
    begin = START + np.round(at * 1e9).astype(np.int64)
    samples = Samples(begin, begin + 2_000_000, {"gr_active": ((at < 1.0) | (at >= 1.5)).astype(float)})
    kept = ((at < 1.18) | (at >= 1.18 + lost_s)) & ((at < 1.28 + lost_s) | (at >= 1.4 + lost_s))
    kept &= (at < 1.5) | (at >= 1.6)
    assert len(pauses(samples.where(kept))[0]) == count


def test_work_between_two_rests_parts_them_however_short_it_is():
    at = np.arange(0, 4, PERIOD_S)
    begin = START + np.round(at * 1e9).astype(np.int64)
    idle = (np.abs(at - 1.0) < 0.15) & (np.abs(at - 1.0) > 0.01)
    samples = Samples(begin, begin + 2_000_000, {"gr_active": (~idle).astype(float)})
    around = (np.abs(at - 1.0) <= 0.008) | (np.abs(at - 1.0) >= 0.02)

    assert len(pauses(samples.where(around))[0]) == 0


def test_rows_outside_of_intervals_are_those_that_none_touches_though_they_overlap():
    rng = np.random.default_rng(7)
    begin = START + 10 * np.arange(400, dtype=np.int64)
    samples = Samples(begin, begin + 10, {"gr_active": np.ones(400)})
    starts = START + rng.integers(0, 4000, 12)
    ends = starts + rng.integers(1, 300, 12)
    kept = [row for row in begin if all(row + 10 <= a or row >= b for a, b in zip(starts, ends, strict=True))]

    assert 0 < len(kept) < 400
    assert outside(samples, starts, ends).start_ns.tolist() == kept


def test_stalls_of_averages_get_sharp_edges_in_windows_and_those_that_were_blurred_come_in():
    """Averages of 0.6 s saw two of three stalls; the window shows the first, and the one they blurred."""
    at = np.arange(0, 4, PERIOD_S)
    begin = START + np.round(at * 1e9).astype(np.int64)
    busy = ~((at >= 0.5) & (at < 1.0)) & ~((at >= 3.0) & (at < 3.5)) & ~((at >= 2.0) & (at < 2.05))
    window = Samples(begin, begin + 2_000_000, {"gr_active": busy.astype(float)})
    starts = START + np.array([400_000_000, 8_000_000_000])
    seen = RareEvent("stall", starts, starts + 600_000_000, 0, 0.2, 0.6, 0.6, 2.5, None, 0.0)
    starts, ends = (np.sort(edge - START) / 1e9 for edge in stalls_in(seen, window))

    assert starts.tolist() == pytest.approx([0.5, 3.0, 8.0], abs=0.003)
    assert ends.tolist() == pytest.approx([1.0, 3.5, 8.6], abs=0.003)


def test_stalls_are_where_averages_saw_them_if_nothing_was_sampled():
    starts = START + np.array([400_000_000, 8_000_000_000])
    seen = RareEvent("stall", starts, starts + 600_000_000, 0, 0.2, 0.6, 0.6, 2.5, None, 0.0)

    assert stalls_in(seen, Samples.empty())[0].tolist() == starts.tolist()


@pytest.mark.parametrize(("work_s", "stalls"), [(2.0, True), (1.0, False)])
def test_the_time_of_stalls_holds_no_usual_steps(work_s, stalls):
    """A second of rest after 40 or 20 beats of 50 ms, of which eight are the longest step."""
    at = np.arange(0, 30, PERIOD_S)
    begin = START + np.round(at * 1e9).astype(np.int64)
    activity = checkpoints(at, every_s=work_s + 1.0, pause_s=1.0)
    samples = Samples(begin, begin + 2_000_000, {"gr_active": activity})

    assert bool(rare_events(samples, step_s=8 * 0.05)) is stalls


DENSE_THEN_RARE = [(0, 10), (14, 17), (21, 24), (28, 31)]


def success(*, trials, jitter=0.1, missed=0.02, windows=((0, 30),), nature="stall", **event) -> float:
    """How often one kind is found, of the right nature, its period within 5 %, its share within a fifth."""
    right = 0
    for seed in range(trials):
        samples, onsets = program(seed, jitter=jitter, noise=0.08, missed=missed, seconds=31, **event)
        period = event["every"] * STEP_S + event["event_s"]
        found = rare_events(*seen_in(samples, onsets, windows))
        right += (
            len(found) == 1
            and found[0].nature == nature
            and found[0].period_s is not None
            and abs(found[0].period_s / period - 1) <= 0.05
            and abs(found[0].share / (event["event_s"] / period) - 1) <= 0.2
        )
    return right / trials


def false_answers(*, trials, **arguments) -> float:
    """How often anything is found where nothing rare happens."""
    return sum(rare_events(*program(seed, noise=0.08, **arguments)) != () for seed in range(trials)) / trials


def test_stalls_and_evaluations_are_found_in_spite_of_jitter_and_noise():
    assert success(trials=10, every=40, event_s=0.5) >= 0.9
    assert success(trials=10, every=40, event_s=1.0, event=FORWARD, nature="other work") >= 0.9
    assert success(trials=10, every=40, event_s=0.5, windows=DENSE_THEN_RARE) >= 0.9
    assert success(trials=10, every=80, event_s=0.5, event=FORWARD, nature="other work", batches=30) >= 0.9


def test_nothing_is_found_where_nothing_happens():
    assert false_answers(trials=10, jitter=0.15, missed=0.05, seconds=10) == 0
    assert false_answers(trials=10, lengths=lambda rng: rng.uniform(0.03, 0.15), seconds=10) == 0
