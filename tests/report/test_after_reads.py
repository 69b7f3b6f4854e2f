"""Late launches and the reads that come before them: which of the two is told first, and of how much time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfzero.attribute.causes import Cause, HostCauses
from perfzero.attribute.host_activity import Activity
from perfzero.diagnose.gain import saving
from perfzero.diagnose.thresholds import IDLE_WATCH
from perfzero.diagnose.verdict import Diagnosis, Finding, Gain, Remedy
from perfzero.report.after_reads import reads_first
from perfzero.report.line_remedies import MOSTLY, with_lines
from perfzero.stacks import Frame
from perfzero.words.said import say

LATE = Finding(
    "launch_bound", say("launch.title", idle="44 %"), "bad", 0.44, 0.9, ("one by one",), Gain(1.4, 1.8, ""),
    (Remedy(say("try.graph"), gain=Gain(1.4, 1.8, "")),), eased=("idle",),
)  # fmt: skip
WAITS = Finding(
    "sync_bound", "waits", "bad", 0.2, 0.9, ("gaps",), Gain(1.0, 1.2, ""), (Remedy(say("try.read_less")),),
    eased=("idle",),
)  # fmt: skip
GRIDS = Finding("small_grid", "few SMs", "watch", 0.2, 0.9, (), Gain(1.0, 1.1, ""))


def found(diagnosis: Diagnosis, *findings: Finding, idle: float = 0.5) -> Diagnosis:
    shares = {**dict.fromkeys(diagnosis.shares, 0.0), "idle": idle, "memory": 1 - idle}
    return replace(
        diagnosis, verdict=findings[0], findings=findings, headline=findings[0].title, shares=shares
    )


def line(activity: Activity, share: float, number: int = 37) -> Cause:
    frame = Frame("/home/me/train.py", number, "step")
    return Cause(activity, frame, "if a > b:", (frame,), share, share, share, 0.0)


def told(before: Diagnosis, *causes: Cause) -> Diagnosis:
    return reads_first(before, HostCauses(causes, idle=before.shares["idle"]))


def test_launches_that_are_late_behind_a_read_are_waits_for_as_long_as_it_has(starved: Diagnosis) -> None:
    """Of 0.5 of the time the line has 0.7: 0.35, and 0.09 of 0.44 are too little to act on."""
    after = told(found(starved, LATE, GRIDS), line("synchronising", 0.7), line("python", 0.3, 73))

    assert [(f.rule, f.share) for f in after.findings] == [
        ("sync_bound", pytest.approx(0.35)), ("small_grid", 0.2)
    ]  # fmt: skip
    assert after.headline == "Host and GPU wait for each other 35 % of the time."
    assert after.findings[0].because == (say("sync.emptied", wait="train.py:37"), "one by one")


def test_what_is_left_of_the_launches_is_told_after_it_without_the_gain_of_all(starved: Diagnosis) -> None:
    after = told(found(starved, LATE), line("synchronising", 0.5))
    first, second = after.findings

    assert (first.rule, second.rule) == ("sync_bound", "launch_bound")
    assert second.share == pytest.approx(0.44 - 0.25)
    assert second.title == "The GPU waits for kernel launches 19 % of the time."
    assert second.gain is None
    assert all(remedy.gain is None for remedy in second.remedies)


def test_so_little_of_launches_as_is_no_reason_to_act_is_not_told(starved: Diagnosis) -> None:
    least = (LATE.share - IDLE_WATCH.value) / 0.5

    assert len(told(found(starved, LATE), line("synchronising", least - 0.01)).findings) == 2
    assert len(told(found(starved, LATE), line("synchronising", least + 0.01)).findings) == 1


def test_waits_that_counters_saw_beside_the_launches_come_first_and_keep_their_share(
    starved: Diagnosis,
) -> None:
    """With a read in between launches cannot be put together, so the read comes first whatever they save."""
    late, waits = replace(LATE, share=0.25), replace(WAITS, share=0.25)
    after = told(found(starved, late, waits), line("synchronising", 0.4))
    first, second = after.findings

    assert (first.rule, first.share, first.because) == ("sync_bound", 0.25, ("gaps",))
    assert (second, second.gain) == (late, LATE.gain)
    assert first.gain is not None
    assert first.gain != WAITS.gain
    assert saving(first) > saving(second)


def test_of_more_waiting_than_counters_saw_the_rest_is_taken_from_the_launches(starved: Diagnosis) -> None:
    after = told(found(starved, LATE, replace(WAITS, share=0.06)), line("synchronising", 0.7))

    assert [(f.rule, f.share) for f in after.findings] == [
        ("sync_bound", pytest.approx(0.35)),
        ("launch_bound", pytest.approx(0.44 - (0.35 - 0.06))),
    ]
    assert after.findings[0].because == ("gaps",)


@pytest.mark.parametrize(
    "causes",
    [
        (),
        (line("launching", 0.9),),
        (line("python", 0.9), line("synchronising", 0.05, 38)),
        (line("copying", 0.9),),
        (line("synchronising", 0.5), line("launching", 0.6, 38)),
        (line("synchronising", 0.9 * IDLE_WATCH.value / 0.5),),
    ],
    ids=["none", "launches", "Python", "a copy", "more of launches", "too little"],
)
def test_other_lines_leave_it_launches(starved: Diagnosis, causes: tuple[Cause, ...]) -> None:
    before = found(starved, LATE, GRIDS)

    assert told(before, *causes) is before


def test_without_late_launches_there_is_nothing_to_put_behind_reads(starved: Diagnosis) -> None:
    before = found(starved, WAITS, GRIDS)

    assert told(before, line("synchronising", 0.9)) is before
    assert reads_first(found(starved, LATE), None).verdict == LATE


@pytest.mark.parametrize(("rule", "named"), [("sync_bound", True), ("host_starved", False)])
def test_a_line_with_most_of_the_waits_is_named_in_their_remedy_alone(
    starved: Diagnosis, rule: str, named: bool
) -> None:
    """It has less than half of all idle time, 0.2 of 0.5, and of the finding's 0.2 all."""
    finding = replace(WAITS, rule=rule, remedies=(Remedy(say("try.read_less")),))
    after = with_lines(found(starved, finding), HostCauses((line("synchronising", 0.4),), idle=0.5))

    assert MOSTLY > 0.4
    assert after.verdict is not None
    assert ("train.py:37" in after.verdict.remedies[0].seen) is named
