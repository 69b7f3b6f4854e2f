"""A recorded stream comes again, at the pace at which it was taken."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from perfzero.errors import NoRecording
from perfzero.sources.base import Source
from perfzero.sources.replay import Replay
from perfzero.store import Recording, RecordingWriter, open_recording
from perfzero.values import Gpu, Process, Samples

START = 1_700_000_000_000_000_000
SECOND = 1_000_000_000


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """Ten samples of one second of the board of GPU 0."""
    start = START + np.arange(10, dtype=np.int64) * SECOND
    with RecordingWriter(
        tmp_path / "r", gpus=[Gpu(0, "u", "g")], process=Process(), settings={}, tiers={}, tier_reasons={}
    ) as writer:
        writer.append("board", 0, Samples(start, start + SECOND, {"power": np.arange(10.0)}))
    return open_recording(tmp_path / "r")


def test_a_sample_comes_when_it_would_have_been_complete(recording: Recording) -> None:
    clock = Clock()
    replay = Replay(recording, "board", 0, clock=clock)
    replay.open()
    seen = []
    for seconds in (0.0, 0.9, 1.0, 3.5, 3.6, 20.0):
        clock.now = 1_000.0 + seconds
        seen.append(replay.read().column("power").tolist())

    assert seen == [[], [], [0], [1, 2], [], [3, 4, 5, 6, 7, 8, 9]]
    assert replay.exhausted
    replay.close()


def test_at_double_speed_it_takes_half_the_time(recording: Recording) -> None:
    clock = Clock()
    replay = Replay(recording, "board", 0, speed=2.0, clock=clock)
    replay.open()
    clock.now += 2.5

    assert len(replay.read()) == 5
    assert not replay.exhausted
    replay.close()


def test_at_infinite_speed_all_comes_at_once_and_unchanged(recording: Recording) -> None:
    replay = Replay(recording, "board", 0, speed=math.inf)
    replay.open()
    everything = replay.read()

    assert_array_equal(recording.samples("board", 0).start_ns, everything.start_ns)
    assert_array_equal(np.arange(10.0), everything.column("power"))
    assert len(replay.read()) == 0
    replay.close()


def test_times_can_be_moved_to_now_with_their_spacing_unchanged(recording: Recording) -> None:
    replay = Replay(recording, "board", 0, speed=math.inf, now_ns=lambda: 2 * START)
    replay.open()
    moved = replay.read()

    assert moved.start_ns[0] == 2 * START
    assert_array_equal(np.full(9, SECOND), np.diff(moved.start_ns))
    assert_array_equal(np.full(10, SECOND), moved.end_ns - moved.start_ns)
    replay.close()


def test_it_is_a_source_like_any_other(recording: Recording) -> None:
    replay: Source = Replay(recording, "board", 0)

    assert replay.name == "board"
    assert [c.name for c in replay.counters] == ["power"]


def test_it_delivers_nothing_before_it_is_opened_or_after_it_is_closed(recording: Recording) -> None:
    replay = Replay(recording, "board", 0, speed=math.inf)
    assert len(replay.read()) == 0
    replay.open()
    replay.close()
    replay.close()
    assert len(replay.read()) == 0


def test_opened_again_it_starts_from_the_first_sample(recording: Recording) -> None:
    replay = Replay(recording, "board", 0, speed=math.inf)
    for _ in range(2):
        replay.open()
        assert len(replay.read()) == 10
        replay.close()


def test_a_stream_that_was_not_recorded_cannot_be_replayed(recording: Recording) -> None:
    with pytest.raises(NoRecording, match=r"(?s)no samples of 'pm' of GPU 0.*board of GPU 0"):
        Replay(recording, "pm", 0)


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan])
def test_time_does_not_stand_still_or_run_backwards(recording: Recording, speed: float) -> None:
    with pytest.raises(ValueError, match="cannot be replayed at speed"):
        Replay(recording, "board", 0, speed=speed)
