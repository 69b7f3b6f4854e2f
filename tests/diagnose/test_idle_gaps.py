"""The gaps of the class `idle`: in sum the share that is reported, each where it lies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfzero.diagnose.idle_gaps import _gaps, idle_gaps
from perfzero.diagnose.judge import judge
from perfzero.store.reader import open_recording
from perfzero.values import Samples

RECORDINGS = Path(__file__).parents[1] / "recordings"
MS = 1_000_000


def samples(*idle: float, hole_after: int | None = None) -> tuple[Samples, np.ndarray]:
    """Samples of 1 ms that are idle for these shares of their time, with a hole of 5 ms after one of them."""
    start = np.arange(len(idle), dtype=np.int64) * MS
    if hole_after is not None:
        start[hole_after + 1 :] += 5 * MS
    return Samples(start, start + MS, {}), np.array(idle)


def gaps(*idle: float, hole_after: int | None = None) -> list[tuple[float, float]]:
    found = _gaps(*samples(*idle, hole_after=hole_after))
    return [(a / MS, (a + n) / MS) for a, n in zip(found.start_ns, found.length_ns, strict=True)]


def test_idle_parts_lie_at_the_side_of_the_emptier_neighbour_and_are_one_gap() -> None:
    assert gaps(0.0, 0.25, 1.0, 1.0, 0.5, 0.0) == [(1.75, 4.5)]


def test_what_is_idle_in_the_midst_of_work_is_a_gap_of_its_own_without_a_place() -> None:
    table, idle = samples(0.0, 0.5, 0.0, 1.0, 0.0)
    found = _gaps(table, idle)

    assert gaps(0.0, 0.5, 0.0, 1.0, 0.0) == [(1.0, 1.5), (3.0, 4.0)]
    assert found.placed.tolist() == [False, True]


def test_a_hole_between_windows_is_no_gap() -> None:
    assert gaps(1.0, 1.0, 1.0, 1.0, hole_after=1) == [(0.0, 2.0), (7.0, 9.0)]


def test_what_lies_beyond_a_hole_says_nothing_of_where_a_gap_lies() -> None:
    """The second sample's neighbour is the third, not the empty one before the hole."""
    assert gaps(1.0, 0.5, 0.2, hole_after=0) == [(0.0, 1.0), (6.5, 7.2)]


def test_trifles_are_put_together_and_nothing_is_lost() -> None:
    """A thousand samples with 2 µs each: 2 ms in a hundred gaps of 20 µs, not in a thousand."""
    table, idle = samples(*([0.002] * 1000))
    found = _gaps(table, idle)

    assert found.length_ns.sum() == 2 * MS
    assert len(found) == pytest.approx(100, abs=1)
    assert found.judged_ns == 1000 * MS


def test_a_gpu_that_never_rests_has_no_gap() -> None:
    found = _gaps(*samples(0.0, 0.0, 0.0))

    assert len(found) == 0
    assert found.judged_ns == 3 * MS


def test_stamps_that_overlap_make_no_gaps_that_do() -> None:
    start = np.array([0, 995_000, 1_990_000], np.int64)
    found = _gaps(Samples(start, start + MS, {}), np.array([1.0, 1.0, 0.5]))

    assert len(found) > 1
    assert found.length_ns.sum() == 2_500_000
    assert (found.start_ns[1:] >= (found.start_ns + found.length_ns)[:-1]).all()


@pytest.mark.parametrize(
    "case", ["tiny_kernels", "input_starved_resnet50", "pageable_copies", "gpm_only", "host_memory", "killed"]
)
def test_of_real_programs_the_sum_is_the_share_that_is_judged(case: str) -> None:
    """Copies are taken out, GPM stands in where windows missed what happened, and 0 is 0."""
    seen = open_recording(RECORDINGS / case).observation(0)
    diagnosis = judge(seen)
    found = idle_gaps(seen, diagnosis)

    assert found is not None
    assert found.length_ns.sum() / found.judged_ns == pytest.approx(diagnosis.shares["idle"], abs=1e-9)
    assert (found.start_ns[1:] >= (found.start_ns + found.length_ns)[:-1]).all()
    assert (found.length_ns > 0).all()


def test_where_the_time_could_not_be_shared_out_there_are_no_gaps() -> None:
    seen = open_recording(RECORDINGS / "killed").observation(0)

    assert idle_gaps(seen, replace(judge(seen), shares={})) is None
