"""Many small reads between launches: the line that empties the queue is told from those that only launch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hand_written_stacks import CALL, MODULE, MS, Part, at, by_text, made
from perfzero.attribute.host_activity import Meaning
from perfzero.attribute.idle import idle_time
from perfzero.attribute.moments import Moments
from perfzero.attribute.reads import OFTENER, Visits, reads
from perfzero.attribute.stacks import HostCauses, host_causes
from perfzero.stacks import Frame, HostStacks
from perfzero.values import Samples

READ = "trusted = weight > 0 and size > 0"
BUSY, LATE = [(0.0, 0.3)], [(0.0, 0.05)]
"""Of 0.3 ms: the GPU has still work of before, or only the kernel that was launched."""


def loop(
    times: int, busy: Sequence[tuple[float, float]], *, lines: Sequence[int] = (11, 13, 14)
) -> list[Part]:
    """A line that may read and two that launch, 0.3 ms each, again and again."""
    return [(at(line), 0.3, busy) for _ in range(times) for line in lines]


AHEAD: list[Part] = [(at(12, CALL), 4, [(0, 4)])]
READS: Sequence[Part] = [*AHEAD, (at(11), 10, [(0, 10)]), *loop(15, LATE)]
"""The host launches, reads what comes of it, and then launches and reads in turns."""


def told(parts: Sequence[Part], text: str = READ) -> HostCauses:
    stacks, samples = made(parts, seconds=5.0)
    return host_causes(HostStacks(stacks.processes, {**stacks.lines, ("/job/train.py", 11): text}), samples)


def activities(found: HostCauses) -> dict[int, str]:
    assert not found.reason
    return {cause.frame.line: cause.activity for cause in found.causes}


def test_the_line_at_which_the_host_stays_until_the_queue_is_empty_waits() -> None:
    found = told(READS)

    assert activities(found)[11] == "synchronising"
    assert found.causes[0].frame.line == 11


def test_where_the_gpu_runs_dry_at_any_line_of_a_loop_that_launches_none_waits() -> None:
    """As an optimizer that updates each parameter by itself, behind a backward pass that ran ahead."""
    found = told([*AHEAD, *loop(11, BUSY), *loop(15, LATE)], "p.sub_(update, alpha=rate)")

    assert "synchronising" not in activities(found).values()


def test_nor_does_a_line_that_computes_until_long_after_the_gpu_has_run_dry() -> None:
    found = told([*AHEAD, (at(11), 16, [(0, 8)]), *loop(15, LATE)])

    assert activities(found)[11] == "python"


def test_nor_one_that_the_gpu_works_on_behind() -> None:
    """It goes on for 3 ms at the next lines, so the host was not kept until it was through."""
    found = told([*AHEAD, (at(11), 10, [(0, 10)]), (at(13), 3, [(0, 3)]), *loop(15, LATE)])

    assert activities(found).get(11) != "synchronising"


def test_nor_one_whose_words_are_of_no_wait() -> None:
    assert activities(told(READS, "y = torch.mul(a, b)")).get(11) != "synchronising"


def test_a_line_is_held_against_the_call_that_it_takes_turns_in() -> None:
    """What the program does elsewhere with a busy GPU says nothing of the loop."""
    inner = {line: (Frame("/job/train.py", line, "step"), *at(20)) for line in (11, 13, 14)}
    parts = [(inner.get(stack[0].line, stack), ms, busy) for stack, ms, busy in READS]
    before: list[Part] = [(at(30), 6, [(0, 6)])]

    assert activities(told([*before, *parts]))[11] == "synchronising"


@pytest.mark.parametrize(("as_often", "waits"), [(1.0, False), (1 / OFTENER - 0.05, True)])
def test_a_line_that_comes_with_a_busy_gpu_as_often_as_those_after_it_only_launches(
    as_often: float, waits: bool
) -> None:
    """In turns 10 ms of work in the queue and 10 ms without: the one line is seen in either alike."""
    edges = np.arange(0, 4_000 * MS, 2 * MS)
    active = np.where(np.arange(len(edges) - 1) % 10 < 5, 1.0, 0.2)
    idle = idle_time(Samples(edges[:-1], edges[1:], {"gr_active": active}), start_ns=0, end_ns=4_000 * MS)
    assert idle is not None
    busy, late = 5 * MS + 20 * MS * np.arange(1, 190), 15 * MS + 20 * MS * np.arange(1, 190)
    then = np.where(np.arange(len(busy)) < as_often * len(busy), busy, late)
    at_line = np.repeat([0, 0, 1, 1], len(busy))
    moments = Moments(
        np.concatenate([busy, late, then, late]), at_line, np.ones(len(at_line)), np.ones(len(at_line), bool)
    )
    leaves = [Meaning("python", (MODULE, Frame("/job/train.py", line, "main"))) for line in (11, 13)]
    visits = Visits(
        at=np.zeros(len(busy), np.int64),
        began=np.zeros(len(busy)),
        dry=np.full(len(busy), 0.8),
        following=np.ones(len(busy), np.int64),
    )

    found = reads(leaves, moments, idle, place=np.arange(2), visits=visits, fewest=40)

    assert found.tolist() == [waits, False]


# --- one line of a call --------------------------------------------------------------------------

OUTER = Frame("/job/train.py", 40, "main")


def below(line: int) -> tuple[Frame, ...]:
    return (Frame("/job/train.py", line, "update"), OUTER, MODULE)


@pytest.fixture
def spread() -> HostCauses:
    """A call whose time is spread over nine lines, of which one reads."""
    lines = (11, *range(51, 59))
    stacks: list[Part] = [(below(line), 0.2, [(0.0, 0.03)]) for _ in range(4) for line in lines]
    return told([*AHEAD, (below(11), 3, [(0, 3)]), *stacks])


def test_a_wait_is_told_by_its_own_line_though_most_of_its_call_is_others(spread: HostCauses) -> None:
    assert spread.causes[0].frame.line == 11
    assert spread.causes[0].activity == "synchronising"


def test_what_is_left_of_the_call_is_told_as_the_call(spread: HostCauses) -> None:
    first, rest = spread.causes[:2]

    assert rest.frame == OUTER
    assert rest.activity == "python"
    assert first.share + rest.share == pytest.approx(1.0, abs=0.15)


def test_the_lines_of_a_call_without_a_wait_are_told_as_the_call() -> None:
    stacks: list[Part] = [(below(line), 0.2, [(0.0, 0.03)]) for _ in range(8) for line in range(51, 60)]

    assert [c.frame for c in told([*AHEAD, *stacks]).causes][:1] == [OUTER]


# --- lines that may wait as well -----------------------------------------------------------------


def test_other_lines_of_the_call_that_may_wait_are_told_by_their_time() -> None:
    stacks, samples = made(READS, seconds=5.0)
    texts = {("/job/train.py", 11): READ, ("/job/train.py", 13): "p.sub_(update, alpha=ratio)"}
    found = host_causes(HostStacks(stacks.processes, {**stacks.lines, **texts}), samples)
    whole = sum(ms for _, ms, _ in READS)

    assert by_text(found, READ).may_wait == pytest.approx(15 * 0.3 / whole, abs=0.03)
    assert by_text(told(READS), READ).may_wait == 0.0
