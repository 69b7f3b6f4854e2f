"""Stacks tell by which name a late host is called, where counters leave it open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfzero.attribute.causes import Cause, HostCauses
from perfzero.attribute.host_activity import Activity
from perfzero.diagnose.thresholds import RUNQUEUE, THROTTLED
from perfzero.diagnose.verdict import Diagnosis, Fact, Finding, Remedy
from perfzero.report.line_remedies import with_lines
from perfzero.report.seen_cause import MOSTLY, REMEDY, named_by_lines
from perfzero.stacks import Frame
from perfzero.words.said import say

LOOK_UP = Remedy(say("try.see_main_thread"))
SAVE = Remedy(say("try.checkpoint_thread"))


def line(activity: Activity, share: float, *, number: int = 41, waited: float = 0.0) -> Cause:
    frame = Frame("/home/me/train.py", number, "main")
    return Cause(activity, frame, "a line", (frame,), share, share, share, 0.0, waited=waited)


def late(diagnosis: Diagnosis, idle: float = 0.6, **shares: float) -> Diagnosis:
    """*diagnosis* of a GPU that is idle, with a finding for each of *shares*, by rule."""
    assert diagnosis.verdict is not None
    found = tuple(
        replace(
            diagnosis.verdict,
            rule=rule,
            share=share,
            because=("it is so",),
            remedies=(SAVE if rule == "periodic_stall" else LOOK_UP,),
        )
        for rule, share in shares.items()
    )
    classes = {**dict.fromkeys(diagnosis.shares, 0.0), "idle": idle, "latency": 1 - idle}
    return replace(diagnosis, verdict=found[0], findings=found, shares=classes)


def told(diagnosis: Diagnosis, *causes: Cause, idle: float = 0.6) -> list[tuple[str, float]]:
    after = named_by_lines(diagnosis, HostCauses(causes, idle=idle))
    return [(finding.rule, finding.share) for finding in after.findings]


@pytest.mark.parametrize("rule", ["host_starved", "periodic_stall"])
def test_a_program_that_waits_for_its_loader_is_starved_of_input_whatever_the_rhythm(
    starved: Diagnosis, rule: str
) -> None:
    after = named_by_lines(
        late(starved, **{rule: 0.6}), HostCauses((line("loader", 0.95),), idle=0.6)
    ).verdict

    assert after is not None
    assert (after.rule, after.title) == ("input_starved", "The GPU waits for data 60 % of the time.")
    assert after.because == ("it is so", say("input.at_loader"))
    assert [r.text for r in after.remedies] == [REMEDY["input_starved"]]


@pytest.mark.parametrize("activity", ["checkpoint", "python", "launching", "starting workers"])
def test_stalls_of_another_cause_keep_their_name(starved: Diagnosis, activity: Activity) -> None:
    before = late(starved, periodic_stall=0.6)

    assert named_by_lines(before, HostCauses((line(activity, 0.95),), idle=0.6)) == before


def test_stalls_and_the_rest_that_wait_for_one_loader_are_one_finding(starved: Diagnosis) -> None:
    before = late(starved, host_starved=0.4, periodic_stall=0.2)

    assert told(before, line("loader", 0.95)) == [("input_starved", pytest.approx(0.6))]


def test_of_a_part_the_line_has_what_it_would_have_if_all_else_were_its_own(starved: Diagnosis) -> None:
    """A loader with 0.8 of 0.6 may have nothing of stalls that take 0.1, and has 0.76 of the other 0.5."""
    before = late(starved, host_starved=0.5, periodic_stall=0.1)

    assert told(before, line("loader", 0.8)) == [("input_starved", 0.5), ("periodic_stall", 0.1)]
    assert told(before, line("loader", MOSTLY)) == [("host_starved", 0.5), ("periodic_stall", 0.1)]


def test_a_host_that_waits_for_its_gpu_in_each_step_works_in_turns_with_it(starved: Diagnosis) -> None:
    causes = (line("synchronising", 0.9, waited=0.3), line("python", 0.95, number=50))
    after = named_by_lines(late(starved, host_starved=0.6), HostCauses(causes, idle=0.6)).verdict

    assert after is not None
    assert after.rule == "sync_bound"
    assert after.because[-1] == say("sync.in_turns", wait="train.py:41", late="train.py:50")
    assert (
        after.because
        != named_by_lines(late(starved, host_starved=0.6), HostCauses(causes[:1], idle=0.6))
        .findings[0]
        .because
    )


def test_work_that_comes_first_leaves_a_late_host_its_name(starved: Diagnosis) -> None:
    causes = (line("python", 0.95, number=50), line("synchronising", 0.3, waited=0.3))

    assert told(late(starved, host_starved=0.6), *causes) == [("host_starved", 0.6)]
    assert told(late(starved, periodic_stall=0.6), line("synchronising", 0.9)) == [("periodic_stall", 0.6)]


def test_a_wait_and_the_longer_work_behind_it_explain_the_time_together(starved: Diagnosis) -> None:
    """A host that works for 0.7 of the time, a GPU for 0.4: the wait has 0.45 of the idle time."""
    causes = (line("synchronising", 0.45, waited=0.3), line("python", 0.86, number=50))
    before = late(starved, host_starved=0.6)

    assert told(before, *causes) == [("sync_bound", 0.6)]
    assert told(before, causes[0]) == [("host_starved", 0.6)]


@pytest.mark.parametrize(
    ("fact", "least"), [("host_throttled", THROTTLED.value), ("host_runqueue_wait", RUNQUEUE.value)]
)
def test_a_host_that_is_held_back_is_late_with_whatever_it_does(
    starved: Diagnosis, fact: str, least: float
) -> None:
    before = late(starved, host_starved=0.6)

    def at(value: float) -> list[tuple[str, float]]:
        facts = {**before.facts, fact: Fact(fact, value, "ratio", "ok")}
        return told(replace(before, facts=facts), line("loader", 0.95))

    assert at(least) == [("host_starved", 0.6)]
    assert at(least / 2) == [("input_starved", 0.6)]


def test_what_is_explained_otherwise_keeps_its_name(starved: Diagnosis) -> None:
    def collects(finding: Finding) -> bool:
        return finding.rule == "periodic_stall"

    before = late(starved, host_starved=0.4, periodic_stall=0.2)
    after = named_by_lines(before, HostCauses((line("loader", 0.95),), idle=0.6), otherwise=collects)

    assert [f.rule for f in after.findings] == ["input_starved", "periodic_stall"]


def test_findings_of_busy_time_are_left_and_without_stacks_all_are(starved: Diagnosis) -> None:
    before = late(starved, memory_bound=0.4, host_starved=0.6)

    assert told(before, line("loader", 0.95)) == [("memory_bound", 0.4), ("input_starved", 0.6)]
    assert named_by_lines(before, None) == named_by_lines(before, HostCauses()) == before


def test_the_verdict_and_the_headline_follow_the_name(starved: Diagnosis) -> None:
    after = named_by_lines(
        late(starved, host_starved=0.4, periodic_stall=0.2), HostCauses((line("loader", 0.95),), idle=0.6)
    )

    assert after.verdict is after.findings[0]
    assert after.headline == after.findings[0].title == "The GPU waits for data 60 % of the time."


def test_the_wait_comes_first_and_the_work_behind_it_has_its_own_way_out(starved: Diagnosis) -> None:
    """Four parts of ten idle behind a wait of 0.45: without the wait, or done beside it, 1.67 times."""
    wait, work = line("synchronising", 0.9, waited=0.45), line("python", 0.98, number=50)
    host = HostCauses((wait, work), idle=0.4)
    before = named_by_lines(late(starved, idle=0.4, host_starved=0.4), host)
    after = with_lines(before, host).verdict

    assert after is not None
    first, second = after.remedies
    assert (first.text, second.text) == (say("try.read_less_there"), say("try.overlap_line"))
    assert [place in first.seen for place in ("train.py:41", "train.py:50")] == [True, True]
    assert [place in second.seen for place in ("train.py:41", "train.py:50")] == [False, True]
    assert second.needs == (say("need.next_step_independent"),)
    assert after.gain is not None
    assert after.gain.low == pytest.approx(1 / (1.25 * (1 - 0.4 * 0.98)))
    assert after.gain.high == pytest.approx(1 / (0.9 * (1 - 0.4 * 0.98)))


def test_what_the_cpu_computes_behind_a_wait_is_not_computed_in_the_wait(starved: Diagnosis) -> None:
    on_gpu = Remedy(say("try.compute_on_gpu"))
    before = late(starved, idle=0.4, host_starved=0.4)
    busy = replace(before.findings[0], remedies=(on_gpu, LOOK_UP))
    before = replace(before, verdict=busy, findings=(busy,))

    def first(*causes: Cause) -> str:
        host = HostCauses(causes, idle=0.4)
        after = with_lines(named_by_lines(before, host), host).verdict
        assert after is not None
        return after.remedies[0].text

    assert first(line("synchronising", 0.9), line("python", 0.98)) == say("try.read_less_there")
    assert first(line("synchronising", 0.9)) == on_gpu.text
