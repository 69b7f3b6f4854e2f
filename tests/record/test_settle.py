"""Knowing while recording that the warm-up is over."""

from __future__ import annotations

import math
import random

from perfzero.record.settle import SPAN_S, Settling


def feed(level, *, seconds, settling=None, start=0.0, jitter=0.0):
    settling = settling or Settling()
    noise = random.Random(7)
    for i in range(round(seconds / 0.5)):
        now = start + i * 0.5
        value = level(now) * (1 + jitter * noise.uniform(-1, 1))
        settling.add(now, [value, value / 2, math.nan])
    return settling


def test_a_level_program_has_settled_after_the_span():
    settling = feed(lambda t: 0.9, seconds=10, jitter=0.05)
    assert SPAN_S <= settling.settled_at <= SPAN_S + 1.5


def test_a_change_of_level_is_no_steady_state_until_it_is_past():
    settling = feed(lambda t: 0.2 if t < 6 else 0.9, seconds=20)
    early = feed(lambda t: 0.2 + 0.1 * t, seconds=7)
    assert settling.settled_at <= 6.0 or settling.settled_at >= 6.0 + SPAN_S
    assert early.settled_at is None


def test_an_idle_gpu_never_settles():
    settling = feed(lambda t: 0.0, seconds=30)
    assert settling.settled_at is None
    assert not settling.working
