"""Rules about gaps, by hand: each with moments that were written down for it, in ms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from perfzero.attribute.host_activity import Activity, Meaning
from perfzero.attribute.host_chain import Roles, before_gaps, computes
from perfzero.attribute.idle import Idle
from perfzero.attribute.moments import Moments
from perfzero.attribute.shares import Shares
from perfzero.attribute.stack_clock import clock_offset_ns
from perfzero.stacks import Frame

MS = 1_000_000


def leaf(activity: Activity, line: int = 1) -> Meaning:
    return Meaning(activity, (Frame("/job/train.py", line, "main"),))


def gaps(
    spans: Sequence[tuple[float, float]], *, until: float, unsampled: tuple[float, float] = (0, 0)
) -> Idle:
    """A GPU that is idle in *spans*, and was not looked at in *unsampled*."""
    start, end = (np.array(spans) * MS).astype(np.int64).T
    edge = np.unique(
        np.concatenate([[0, int(until * MS)], start, end, (np.array(unsampled) * MS).astype(np.int64)])
    )
    middle = (edge[:-1] + edge[1:]) / 2
    value = np.array([float(any(a < at < b for a, b in zip(start, end, strict=True))) for at in middle])
    value[(middle > unsampled[0] * MS) & (middle < unsampled[1] * MS)] = np.nan
    none = start[:0]
    return Idle(edge, np.append(value, np.nan), start, end, none, none, np.zeros(0), until / 1e3)


def moments(seen: Sequence[tuple[float, int]], *, unsure: Sequence[int] = ()) -> Moments:
    """When which leaf was seen; those at the places *unsure* are only likely."""
    time_ms, leaves = zip(*sorted(seen), strict=True)
    sure = np.array([k not in unsure for k in range(len(seen))])
    return Moments((np.array(time_ms) * MS).astype(np.int64), np.array(leaves), np.ones(len(seen)), sure)


@pytest.mark.parametrize(("gap_ms", "told"), [(6, True), (3, False)])
def test_a_line_computes_if_gaps_begin_there_that_are_long_enough_to_tell(gap_ms: float, told: bool) -> None:
    spans = [(20 * k + 10.0, 20 * k + 10.0 + gap_ms) for k in range(20)]
    seen = [(a + side, 0) for a, _ in spans for side in (-0.5, 0.5)]

    assert computes([leaf("python")], moments(seen), gaps(spans, until=400)).tolist() == [told]


@pytest.mark.parametrize(("ends", "told"), [(0, True), (10, True), (20, False)])
def test_a_line_at_which_as_many_gaps_end_as_begin_launches(ends: int, told: bool) -> None:
    spans = [(20 * k + 10.0, 20 * k + 16.0) for k in range(20)]
    seen = [(a + side, 0) for a, _ in spans for side in (-0.5, 0.5)] + [(b + 0.5, 0) for _, b in spans[:ends]]

    assert computes([leaf("python")], moments(seen), gaps(spans, until=400)).tolist() == [told]


@pytest.mark.parametrize(("unsampled", "counted"), [((0, 0), 3), ((20, 30), 1)])
def test_what_was_done_before_a_window_is_not_in_the_run(
    unsampled: tuple[float, float], counted: int
) -> None:
    """Nobody knows whether the GPU was busy while it was not looked at."""
    idle = gaps([(40, 50)], until=60, unsampled=unsampled)
    one = np.array([True, False])
    roles = Roles(computes=one, others=~one & False, launches=~one)
    seen = moments([(5, 0), (15, 0), (35, 0), (49, 1)])

    found = before_gaps(seen, idle, roles, block_of=np.zeros(1, np.int64), blocks=1)

    assert found.before.tolist() == [[counted]]


@pytest.mark.parametrize(("times", "offset_ms"), [(9, 0), (40, 1.5)])
def test_the_clock_stays_as_it_is_where_hardly_anything_was_seen_near_ends_of_gaps(
    times: int, offset_ms: float
) -> None:
    """The host seems to launch from 1.5 ms before the end of each gap on."""
    spans = [(30 * k + 10.0, 30 * k + 20.0) for k in range(times)]
    seen = [(b - 2 + at, int(at > 0)) for _, b in spans for at in (-0.5, 0.5)]

    found = clock_offset_ns(
        moments(seen), np.array([False, True]), gaps(spans, until=30 * times), slack_ns=4 * MS
    )

    assert found == offset_ms * MS


@pytest.mark.parametrize(("unsure", "line"), [((1,), 1.0), ((), 0.5)])
def test_a_wait_for_the_gpu_that_is_only_likely_was_over_when_the_gap_began(
    unsure: Sequence[int], line: float
) -> None:
    leaves = [leaf("synchronising"), leaf("checkpoint", 2)]
    seen = moments([(5, 0), (12, 0), (17, 1)], unsure=unsure)
    idle = gaps([(10, 20)], until=30)

    shares = Shares(leaves, seen, idle, None, computing=np.array([False, True]), rate_hz=100.0, clock_ns=0.0)

    assert shares.share[1] == pytest.approx(line)
