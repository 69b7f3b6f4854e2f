"""When a verdict is sure: judgements played out, no recording and no clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfzero.record.certainty import IN_A_ROW, SPAN_S, Certainty, Judgement

BOUND = Judgement("memory_bound", 0.9, 1.2, 1.8, "")


def after(*heard, share=0.8, every_s=6.0):
    """What has been heard, one judgement of GPU 0 after the other, a few seconds apart."""
    certainty = Certainty(share)
    for number, judgement in enumerate(heard):
        certainty.add(20.0 + number * every_s, {0: judgement})
    return certainty


def test_three_judgements_alike_over_ten_seconds_are_sure():
    assert after(BOUND, BOUND, BOUND).sure
    assert after(BOUND, BOUND, BOUND).doubt == ""


def test_a_verdict_without_a_gain_can_be_sure():
    healthy = Judgement("well_used", 0.95)
    assert after(healthy, healthy, healthy).sure


@pytest.mark.parametrize("count", range(IN_A_ROW))
def test_fewer_are_not(count):
    assert not after(*[BOUND] * count).sure
    assert not after(*[BOUND] * count, every_s=2 * SPAN_S).sure


def test_three_within_a_moment_are_not():
    certainty = after(BOUND, BOUND, BOUND, every_s=0.4 * SPAN_S)
    assert "not been said for long enough" in certainty.doubt


def test_another_rule_in_between_begins_anew():
    other = replace(BOUND, rule="launch_bound")
    assert not after(BOUND, BOUND, other, BOUND, BOUND).sure
    assert after(BOUND, other, BOUND, BOUND, BOUND).sure


@pytest.mark.parametrize("share", [0.91, 0.95])
def test_too_little_confidence_is_named_with_what_stands_against_it(share):
    weak = replace(BOUND, why="Only 6 s were seen.")
    certainty = after(weak, weak, weak, share=share)
    assert certainty.doubt == "memory_bound has a confidence of 0.90 (Only 6 s were seen)"


def test_one_judgement_of_little_confidence_begins_anew():
    assert not after(BOUND, replace(BOUND, confidence=0.5), BOUND, BOUND).sure


@pytest.mark.parametrize("end", ["gain_low", "gain_high"])
def test_a_gain_that_moves_by_more_than_a_tenth_is_not_known_yet(end):
    value = getattr(BOUND, end)
    assert after(BOUND, replace(BOUND, **{end: 1.09 * value}), BOUND).sure
    moved = after(BOUND, replace(BOUND, **{end: 1.12 * value}), BOUND)
    assert "the gain of memory_bound still moves" in moved.doubt


def test_the_gain_has_to_hold_still_for_as_long_as_the_rule():
    certainty = Certainty(0.8)
    for at_s, factor in ((20.0, 1.0), (26.0, 1.25), (30.0, 1.3), (34.0, 1.32)):
        certainty.add(at_s, {0: replace(BOUND, gain_low=1.2 * factor, gain_high=1.8 * factor)})
    assert "the gain of memory_bound still moves" in certainty.doubt  # 6 % in 8 s, but 32 % in 14 s
    certainty.add(40.0, {0: replace(BOUND, gain_low=1.2 * 1.32, gain_high=1.8 * 1.32)})
    assert certainty.sure  # what was more than 10 s ago does not count


def test_a_gain_that_is_there_only_now_and_then_is_not_known():
    assert not after(BOUND, replace(BOUND, gain_low=float("nan")), BOUND).sure


def test_no_verdict_is_never_sure_and_says_why():
    nothing = Judgement(None, why="No single cause stands out.")
    assert after(nothing, nothing, nothing).doubt == "No single cause stands out"


def test_judging_that_fails_is_not_sure_and_begins_anew():
    certainty = after(BOUND, BOUND, BOUND)
    certainty.add(50.0, {})
    assert certainty.doubt == "the recording could not be judged"
    certainty.add(56.0, {0: BOUND})
    assert not certainty.sure


def test_nothing_heard_is_not_sure():
    assert Certainty(0.8).doubt == "there was nothing to judge"


def test_of_several_gpus_each_has_to_be_sure():
    certainty = Certainty(0.8)
    weak = replace(BOUND, confidence=0.4)
    for at_s in (20.0, 30.0, 40.0):
        certainty.add(at_s, {0: BOUND, 1: weak})
    assert certainty.doubt.startswith("GPU 1: memory_bound has a confidence of 0.40")
    for at_s in (50.0, 60.0, 70.0):
        certainty.add(at_s, {0: BOUND, 1: BOUND})
    assert certainty.sure
