"""Waits for others that follow a line in a gap, by hand: three leaves, of which the last waits for others."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.attribute.idle import Idle
from perfzero.attribute.moments import Moments
from perfzero.attribute.paced import paced, waited_after

OTHERS = np.array([False, False, True])


def gaps(*spans: tuple[int, int]) -> Idle:
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    return Idle(np.zeros(1, np.int64), np.zeros(0), start, end, start[:0], end[:0], np.zeros(0), 1.0)


def moments(*seen: tuple[int, int, bool]) -> Moments:
    time_ns, leaf, sure = zip(*seen, strict=True)
    return Moments(np.array(time_ns), np.array(leaf), np.full(len(seen), 0.5), np.array(sure))


def rows(found: Moments, idle: Idle) -> list[tuple[int, int, bool]]:
    gap, leaf, followed = (column.tolist() for column in waited_after(found, idle, OTHERS))
    return list(zip(gap, leaf, followed, strict=True))


def test_a_wait_follows_what_was_seen_before_it_in_the_same_gap() -> None:
    found = moments((5, 0, True), (11, 0, True), (15, 2, True), (18, 1, True), (31, 0, True), (45, 2, True))
    idle = gaps((10, 20), (30, 40))

    # In the second gap none follows: the wait comes after it. What comes after a wait is not followed by it.
    assert rows(found, idle) == [(0, 0, True), (0, 1, False), (1, 0, False)]


def test_a_wait_that_is_only_likely_was_not_seen() -> None:
    found = moments((11, 0, True), (15, 2, False))

    assert rows(found, gaps((10, 20))) == [(0, 0, False)]


def test_without_a_gap_nothing_is_followed() -> None:
    assert rows(moments((11, 0, True)), gaps()) == []


def test_a_wait_that_is_seen_often_and_takes_long_sets_the_pace_in_all_gaps() -> None:
    assert paced(np.array([0.24, 0.9]), waiting=0.22).tolist() == [1.0, 1.0]
    assert paced(np.array([0.16, 0.9]), waiting=0.16).tolist() == pytest.approx([0.25, 0.5])


def test_a_wait_that_is_rare_or_takes_little_sets_no_pace() -> None:
    assert paced(np.array([0.0, 0.1]), waiting=0.5).tolist() == [0.0, 0.0]
    assert paced(np.array([0.24, 1.0]), waiting=0.12).tolist() == [0.0, 0.0]
