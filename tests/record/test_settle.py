"""Knowing while recording that the warm-up is over."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from perfzero.record.settle import SPAN_S, Settling
from perfzero.store.reader import open_recording

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"


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


def settled_in(name):
    """When the averages of a real recording would have been called settled, in seconds."""
    seen = open_recording(RECORDINGS / name).observation(0)
    settling = Settling()
    columns = [seen.gpm.column(n) for n in ("gr_active", "tensor_active", "dram_active")]
    for end_ns, *values in zip(seen.gpm.end_ns, *columns, strict=True):
        settling.add((int(end_ns) - seen.start_ns) / 1e9, [float(v) for v in values])
    return settling.settled_at


def steps_begin_in(name):
    """When the steps of a real recording began, in seconds: half of what GR then shows for good."""
    seen = open_recording(RECORDINGS / name).observation(0)
    gr = seen.gpm.column("gr_active")
    first = int(np.argmax(gr > np.median(gr[-6:-2]) / 2))
    return (int(seen.gpm.start_ns[first]) - seen.start_ns) / 1e9


def test_kernels_being_tried_out_between_long_pauses_are_no_steady_state():
    """cuDNN chose its kernels for ten seconds, the GPU busy 1 to 3 % of the time; then steps began."""
    begun = steps_begin_in("resnet50_nchw")
    assert begun > 15
    assert begun + SPAN_S - 1 < settled_in("resnet50_nchw") < begun + SPAN_S + 2


@pytest.mark.parametrize("name", ["tiny_kernels_graph", "input_starved_resnet50", "resnet50_channels_last"])
def test_a_real_program_is_steady_soon_after_its_steps_begin(name):
    begun = steps_begin_in(name)
    assert begun + SPAN_S - 1 < settled_in(name) < begun + SPAN_S + 2


def test_a_gpu_that_is_seldom_busy_but_evenly_so_settles_too():
    assert feed(lambda t: 0.015, seconds=10, jitter=0.05).settled_at is not None
