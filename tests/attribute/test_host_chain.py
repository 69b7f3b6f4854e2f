"""
What the host does between its last launch and a gap: simulated programs, of which the truth is known by
simulating them without a line.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hand_written_stacks import CALL, LOADER, at
from perfzero.attribute.stacks import HostCauses, host_causes
from perfzero.stacks import Frame, HostStacks
from simulated_host import Part, simulated, truth

SETTINGS, FORWARD, WAITS, BACKWARD = at(15), at(12, CALL), at(11), at(16, CALL)
WORKS, OTHER, OLD, LOADS, SAYS = at(14), at(17), at(20), at(10, LOADER), at(18)

SEEDS = range(2)

Stack = tuple[Frame, ...]


def step(works_ms: float) -> list[Part]:
    """Of a host that launches 20 ms of work in 9 ms and then works on."""
    return [
        Part(SETTINGS, 1.5),
        Part(FORWARD, 2, kernels=40, gpu_ms=7),
        Part(OTHER, 1.5),
        Part(BACKWARD, 4, kernels=80, gpu_ms=13),
        Part(WORKS, works_ms),
    ]


def told(parts: Sequence[Part], *, seed: int = 0, off_ms: float = 0.0, slack_ms: float = 4.0) -> HostCauses:
    stacks, samples = simulated(parts, seed=seed, off_ms=off_ms, slack_ms=slack_ms)
    return host_causes(
        HostStacks(stacks.processes, {**stacks.lines, ("/job/train.py", 18): "print(i)"}), samples
    )


def share(found: HostCauses, stack: Stack) -> float:
    return sum(cause.share for cause in found.causes if cause.frame == stack[-2])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("works_ms", [16, 18, 22, 30, 60])
def test_a_line_in_the_midst_of_which_the_queue_runs_dry_has_all_of_the_gap(
    works_ms: float, seed: int
) -> None:
    """The GPU is busy for up to five sixths of the line, and is never idle without it."""
    parts = step(works_ms)
    found = told(parts, seed=seed)

    assert found.causes[0].frame.line == 14
    assert truth(parts, WORKS) == pytest.approx(1.0, abs=0.01)
    assert share(found, WORKS) == pytest.approx(1.0, abs=0.1)
    assert share(found, SETTINGS) == pytest.approx(truth(parts, SETTINGS), abs=0.1)
    # Nothing is left for what launches.
    assert share(found, FORWARD) == share(found, BACKWARD) == 0


def test_a_line_that_ends_before_the_queue_does_has_none_of_the_gap() -> None:
    [settings, forward, *rest] = step(8)
    parts = [settings, forward, *rest, Part(WAITS, waits="all")]
    found = told(parts)

    assert found.causes[0].frame.line == 11
    assert share(found, WORKS) == share(found, OTHER) == truth(parts, WORKS) == 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("works_ms", [20, 30])
def test_waits_for_what_has_long_been_done_do_not_hide_the_line(works_ms: float, seed: int) -> None:
    forward = Part(FORWARD, 3, kernels=60, gpu_ms=20)
    parts = [Part(SETTINGS, 1.5), forward, Part(OLD, waits="old"), Part(WORKS, works_ms)]
    found = told(parts, seed=seed)

    assert found.causes[0].frame.line == 14
    assert share(found, WORKS) == pytest.approx(truth(parts, WORKS), abs=0.08)
    assert share(found, OLD) == 0


@pytest.mark.parametrize("works_ms", [4, 10, 20, 40])
def test_behind_a_wait_for_the_gpu_all_of_the_line_is_in_the_gap(works_ms: float) -> None:
    forward = Part(FORWARD, 3, kernels=60, gpu_ms=20)
    parts = [Part(SETTINGS, 1.5), forward, Part(WAITS, waits="all"), Part(WORKS, works_ms)]
    found = told(parts)

    for line in (WAITS, WORKS):
        assert share(found, line) == pytest.approx(truth(parts, line), abs=0.05)


@pytest.mark.parametrize("work", [SAYS, OTHER], ids=["known to launch nothing", "Python"])
@pytest.mark.parametrize("ms", [3, 6, 12])
def test_work_that_only_makes_a_wait_for_the_gpu_shorter_costs_nothing(work: Stack, ms: float) -> None:
    """The wait lasts 4 to 6 ms, so in a third of the steps it is not seen."""
    parts = [
        Part(SETTINGS, 1.5),
        Part(FORWARD, 5, kernels=60, gpu_ms=14 + ms),
        Part(work, ms),
        Part(WAITS, waits="all"),
        Part(WORKS, 3),
    ]
    found = told(parts)

    assert truth(parts, work) == 0
    assert share(found, work) == 0
    assert share(found, WAITS) == pytest.approx(1.0, abs=0.05)


def test_of_lines_that_follow_each_other_each_has_what_it_would_save() -> None:
    forward = Part(FORWARD, 3, kernels=40, gpu_ms=15)
    parts = [Part(SETTINGS, 0.3), forward, Part(SAYS, 10), Part(WORKS, 8)]
    found = told(parts)

    for line in (SAYS, WORKS):
        assert truth(parts, line) == pytest.approx(1.0, abs=0.01)
        assert share(found, line) == pytest.approx(1.0, abs=0.12)


def test_what_is_done_before_a_launch_is_not_counted_for_that_may_be_held_up() -> None:
    parts = [
        Part(FORWARD, 6, kernels=40, gpu_ms=12),
        Part(SAYS, 4),
        Part(BACKWARD, 6, kernels=40, gpu_ms=12),
        Part(WORKS, 14),
    ]

    assert truth(parts, SAYS) > 0.6  # here it is not
    assert share(told(parts), SAYS) < 0.2  # the launch is not seen in each step


def test_lines_of_a_call_that_are_longer_than_the_gap_are_told_as_the_call() -> None:
    first, second = (at(14, Frame("/job/text.py", line, "encode")) for line in (5, 6))
    parts = [Part(FORWARD, 3, kernels=40, gpu_ms=15), Part(first, 10), Part(second, 7)]
    found = told(parts)

    assert truth(parts, first) == pytest.approx(1.0, abs=0.05)
    assert [cause.frame.line for cause in found.causes] == [14]
    assert found.causes[0].share == pytest.approx(1.0, abs=0.05)


def test_launching_that_takes_long_to_begin_is_not_told_where_the_work_before_explains_the_gap() -> None:
    slow = Part(FORWARD, 6, kernels=2, gpu_ms=20)
    found = told([slow, Part(WORKS, 22)], slack_ms=0.1)

    assert share(found, WORKS) == pytest.approx(1.0, abs=0.08)
    assert share(found, FORWARD) < 0.05
    assert share(told([Part(FORWARD, 10, kernels=2, gpu_ms=4), Part(WORKS, 0.2)]), FORWARD) > 0.5


def test_what_was_done_before_the_gap_before_does_not_count_again() -> None:
    """Launching takes too little time to be seen: nothing else parts one step from the next."""
    parts = [Part(FORWARD, 0.1, kernels=1, gpu_ms=5), Part(SAYS, 3), Part(WORKS, 8)]
    found = told(parts)

    assert share(found, SAYS) == pytest.approx(truth(parts, SAYS), abs=0.1)
    assert share(found, WORKS) == pytest.approx(1.0, abs=0.05)


def test_a_wait_behind_the_next_launch_says_nothing_about_a_line() -> None:
    """In some steps the queue runs dry only after the next launch, in which the host waits for the GPU."""
    parts = [
        Part(FORWARD, 1, kernels=20, gpu_ms=10),
        Part(SAYS, 15, spread=0.5),
        Part(at(13), 5),
        Part(BACKWARD, 3, kernels=20, gpu_ms=10),
        Part(WAITS, waits="all"),
        Part(SETTINGS, 3),
    ]
    found = told(parts)

    assert share(found, SAYS) == pytest.approx(truth(parts, SAYS), abs=0.1)


def test_a_wait_for_the_loader_that_begins_while_the_gpu_works_has_all_of_the_gap() -> None:
    loader = Part(LOADS, 0.1, waits="worker", period_ms=27)
    parts = [loader, Part(SETTINGS, 3), Part(FORWARD, 5, kernels=60, gpu_ms=20)]
    found = told(parts)

    assert found.causes[0].frame.line == 10
    assert share(found, LOADS) == pytest.approx(truth(parts, LOADS), abs=0.06)


def test_what_is_done_before_a_wait_for_the_loader_would_only_make_that_longer() -> None:
    loader = Part(LOADS, 0.1, waits="worker", period_ms=27)
    parts = [Part(FORWARD, 5, kernels=60, gpu_ms=20), Part(SAYS, 9), loader, Part(SETTINGS, 1)]
    found = told(parts)

    assert truth(parts, SAYS) == pytest.approx(0.0, abs=0.01)
    assert share(found, SAYS) < 0.1
    assert share(found, LOADS) == pytest.approx(1.0, abs=0.06)


def test_a_wait_for_the_gpu_that_no_words_tell_has_the_gap_after_it() -> None:
    unknown = at(19)
    parts = [
        Part(SETTINGS, 1.5),
        Part(FORWARD, 3, kernels=40, gpu_ms=8),
        Part(OTHER, 5),
        Part(BACKWARD, 4, kernels=60, gpu_ms=12),
        Part(unknown, waits="all"),
        Part(WORKS, 5),
    ]
    found = told(parts)

    assert share(found, unknown) == pytest.approx(truth(parts, unknown), abs=0.05)
    assert share(found, OTHER) == 0


def test_a_host_that_is_late_all_the_time_has_launching_told_first() -> None:
    parts = [
        Part(SETTINGS, 3),
        Part(FORWARD, 8, kernels=100, gpu_ms=4),
        Part(OTHER, 2),
        Part(BACKWARD, 8, kernels=100, gpu_ms=4),
        Part(WORKS, 2),
    ]
    found = told(parts)

    assert {cause.activity for cause in found.causes[:2]} == {"launching"}
    for line in (SETTINGS, OTHER, WORKS):
        assert share(found, line) == pytest.approx(truth(parts, line), abs=0.1)


@pytest.mark.parametrize("off_ms", [-3, -2, -1, 0, 1])
@pytest.mark.parametrize("works_ms", [16, 22])
def test_the_clock_is_set_by_where_gaps_end(works_ms: float, off_ms: float) -> None:
    """Where they begin in the midst of a line, that line would be purest with a wrong clock."""
    assert told(step(works_ms), off_ms=off_ms).offset_s * 1e3 == pytest.approx(-off_ms, abs=0.6)


@pytest.mark.parametrize(
    ("works_ms", "gpu_ms", "period_ms"),
    [(35, 30, 40), (33, 28, 40), (28, 25, 33), (45, 40, 50), (25, 20, 40), (18, 15, 40), (30, 20, 60)],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_line_in_a_gap_before_a_wait_for_the_loader_would_only_make_that_longer(
    works_ms: float, gpu_ms: float, period_ms: float, seed: int
) -> None:
    """The wait is what is left of the period, some of it too short to be seen in each gap."""
    loader = Part(LOADS, 0.1, waits="worker", period_ms=period_ms)
    parts = [loader, Part(FORWARD, 3, kernels=40, gpu_ms=gpu_ms), Part(WORKS, works_ms)]
    found = told(parts, seed=seed)

    assert found.causes[0].frame.line == 10
    assert truth(parts, WORKS) == pytest.approx(0.0, abs=0.01)
    assert share(found, WORKS) == 0
    assert share(found, LOADS) == pytest.approx(truth(parts, LOADS), abs=0.1)
    assert share(found, FORWARD) == 0  # what the line has lost is not launching's


def test_work_before_the_gap_and_a_wait_in_it_is_not_counted_either_where_the_wait_is_not_seen() -> None:
    loader = Part(LOADS, 0.1, waits="worker", period_ms=40)
    parts = [loader, Part(SETTINGS, 2), Part(FORWARD, 1, kernels=40, gpu_ms=28), Part(WORKS, 32)]
    found = told(parts)

    assert truth(parts, WORKS) == pytest.approx(0.0, abs=0.01)
    assert share(found, WORKS) == 0


@pytest.mark.parametrize("every", [10, 20])
def test_a_wait_that_is_rare_and_long_leaves_the_line_before_it_the_other_gaps(every: int) -> None:
    parts = [Part(FORWARD, 3, kernels=40, gpu_ms=20), Part(WORKS, 35), Part(LOADS, 40, every=every)]
    found = told(parts)

    assert found.causes[0].frame.line == 14
    assert share(found, WORKS) > 0.55
    assert share(found, LOADS) == pytest.approx(1.0 - share(found, WORKS), abs=0.1)


@pytest.mark.parametrize("takes_ms", [0.1, 0.5, 1])
@pytest.mark.parametrize("works_ms", [26, 35])
def test_a_batch_that_is_always_ready_takes_nothing_from_the_line(works_ms: float, takes_ms: float) -> None:
    loader = Part(LOADS, takes_ms, waits="worker", period_ms=5)
    parts = [loader, Part(FORWARD, 3, kernels=40, gpu_ms=15), Part(WORKS, works_ms)]

    assert share(told(parts), WORKS) == pytest.approx(truth(parts, WORKS), abs=0.12)


CLOSE = [
    Part(SETTINGS, 1.5),
    Part(FORWARD, 3, kernels=60, gpu_ms=20),
    Part(WAITS, waits="all"),
    Part(WORKS, 4),
]
"""Gaps so short that half a millisecond moves much of them from one line to the next."""


@pytest.mark.parametrize("off_ms", [-0.5, 0, 0.7, 1.3])
def test_an_interval_holds_what_is_true_though_the_clock_is_not_known_well(off_ms: float) -> None:
    found = told(CLOSE, off_ms=off_ms)

    for line in (WORKS, SETTINGS):
        [cause] = [c for c in found.causes if c.frame == line[-2]]
        assert cause.low <= truth(CLOSE, line) <= cause.high + 0.02


def test_an_interval_is_narrow_where_the_clock_is_known_well() -> None:
    known, unknown = told(CLOSE, slack_ms=0.1), told(CLOSE, slack_ms=4)

    for line in (WORKS, SETTINGS):
        [(narrow, wide)] = [
            (a.high - a.low, b.high - b.low)
            for a in known.causes
            for b in unknown.causes
            if a.frame == b.frame == line[-2]
        ]
        assert narrow < 0.1 < 1.5 * narrow < wide
