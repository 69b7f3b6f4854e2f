"""The remedy for Python's garbage collector, where a look has seen it at work."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfzero.attribute.causes import Cause, HostCauses
from perfzero.attribute.host_activity import Activity
from perfzero.diagnose.verdict import Diagnosis, Finding, Remedy
from perfzero.report.garbage import (
    FEWEST,
    KNOWN,
    MOSTLY,
    NAMED_OTHERWISE,
    OFTEN,
    Pauses,
    with_garbage,
    without_garbage,
)
from perfzero.report.line_gains import PACE
from perfzero.stacks import Frame
from perfzero.values import FullCollection, Look
from perfzero.words.said import say

FREEZE = Remedy(say("try.freeze_gc"), (say("need.gc_stalls"),))
SAVE = Remedy(say("try.checkpoint_thread"), ("a disk",))
LOG = Remedy(say("try.log_less"))


def look(*lengths: float, watched_s: float = 2.0, gpus: tuple[int, ...] = (0,)) -> Look:
    seen = tuple(FullCollection(10 * k, length) for k, length in enumerate(lengths))
    return Look(7, 0, 100, gpus=gpus, collections=seen, watched_s=watched_s, collects_itself=True)


def line(activity: Activity, share: float) -> HostCauses:
    frame = Frame("/home/me/train.py", 14, "main")
    return HostCauses((Cause(activity, frame, "a line", (frame,), share, share, share, 0.0),), idle=0.5)


def stalls(diagnosis: Diagnosis, *, rule: str = "periodic_stall", share: float = 0.4) -> Finding:
    assert diagnosis.verdict is not None
    return replace(diagnosis.verdict, rule=rule, share=share, remedies=(SAVE, FREEZE, LOG), gain=None)


@pytest.mark.parametrize("rule", ["periodic_stall", "host_starved"])
def test_a_collector_that_takes_the_time_of_the_stalls_is_their_cause(starved: Diagnosis, rule: str) -> None:
    told = without_garbage(stalls(starved, rule=rule), [look(), look(0.4, 0.38)])

    assert told is not None
    assert [r.text for r in told.remedies] == [FREEZE.text, SAVE.text, LOG.text]
    first = told.remedies[0]
    assert first.seen == "Python collected all its garbage 2 times within 2.0 s, for 400 ms each at most."
    assert first.needs == (say("need.collects_itself"),)


def test_its_gain_is_at_most_by_the_time_that_it_takes_and_how_often_it_was_seen(starved: Diagnosis) -> None:
    told = without_garbage(stalls(starved, share=0.4), [look(0.1, 0.1, 0.1, 0.1, 0.1, 0.1)])

    assert told is not None
    gain = told.remedies[0].gain
    assert gain is not None
    assert gain.low == 1.0  # what else held the GIL is in it
    assert gain.high == pytest.approx(1 / (PACE[0] * (1 - 0.35)))
    assert "87 %" in gain.assumption


def test_it_gains_no_more_than_the_stalls_take(starved: Diagnosis) -> None:
    told = without_garbage(stalls(starved, share=0.4), [look(0.9, 0.9)])

    assert told is not None
    gain = told.remedies[0].gain
    assert gain is not None
    assert gain.high == pytest.approx(1 / (PACE[0] * 0.6))


def often(lasts_s: float, *, activity: Activity = "python", share: float = 0.99) -> Cause:
    frame = Frame("/home/me/train.py", 14, "main")
    return Cause(activity, frame, "a line", (frame,), share, share, share, 0.0, lasts_s=lasts_s)


PAUSES = Pauses((0.38, 0.4, 0.42, 0.38), 3.2)


def test_pauses_as_long_as_collections_at_a_line_that_takes_a_moment_are_the_collectors(
    starved: Diagnosis,
) -> None:
    """Half of 3.2 s, in pauses of 0.4 s: of each as much as a collection takes, which is 0.39 s."""
    finding = replace(
        stalls(starved, rule="host_starved", share=0.5),
        confidence=0.4,
        because=(say("idle.in_pauses", paused="97 %", length="200 ms"), "an empty queue"),
    )
    told = without_garbage(finding, [look(0.39, 0.39)], often(0.1), pauses=PAUSES)

    assert told is not None
    gain = told.remedies[0].gain
    assert gain is not None
    assert gain.low == pytest.approx(1 / (PACE[1] * (1 - 1.54 / 3.2)))
    assert gain.high == pytest.approx(1 / (PACE[0] * 0.5))
    assert told.confidence == KNOWN
    assert told.because[0].startswith("96 % of this time")
    assert "at train.py:14," in told.because[0]
    assert told.because[1:] == ("an empty queue",)


@pytest.mark.parametrize(
    ("line", "pauses"),
    [
        (often(0.39 / OFTEN + 0.001), PAUSES),  # a call that takes as long each time that it comes
        (often(math.nan), PAUSES),
        (often(0.1, share=MOSTLY - 0.01), PAUSES),
        (often(0.1, activity="network"), PAUSES),
        (often(0.1), Pauses((0.15,) * 10, 3.2)),  # pauses of another length
        (often(0.1), Pauses((0.38, 0.4), 3.2)),  # and too few
        (often(0.1), None),
        (None, PAUSES),
    ],
)
def test_without_one_of_the_witnesses_the_least_is_nothing(
    starved: Diagnosis, line: Cause | None, pauses: Pauses | None
) -> None:
    finding = replace(stalls(starved, rule="host_starved", share=0.5), confidence=0.4)
    told = without_garbage(finding, [look(0.39, 0.39)], line, pauses=pauses)

    assert told is not None
    assert told.remedies[0].gain is not None
    assert told.remedies[0].gain.low == 1.0
    assert (told.confidence, told.because) == (0.4, finding.because)


@pytest.mark.parametrize(
    "seen",
    [
        (),
        (look(),),
        (look(*[0.8] * (int(FEWEST) - 1)),),
        (look(0.1, 0.4 * MOSTLY * 2.0 - 0.11),),
        (look(0.4, 0.4, watched_s=0.0),),
    ],
)
def test_a_collector_that_was_not_seen_twice_or_takes_little_is_none(
    starved: Diagnosis, seen: tuple[Look, ...]
) -> None:
    assert without_garbage(stalls(starved), seen) is None


@pytest.mark.parametrize(
    ("length_s", "is_one"), [(0.3, True), (0.5, True), (0.2 - 0.001, False), (0.9, False)]
)
def test_one_collection_is_the_cause_of_stalls_that_take_as_long(
    starved: Diagnosis, length_s: float, is_one: bool
) -> None:
    """Of stalls of 400 ms, of which counters saw three."""
    seen, stalls_s = [look(length_s, watched_s=0.6)], [0.39, 0.4, 0.41]
    told = without_garbage(stalls(starved), seen, stalls_s=stalls_s)

    assert (told is not None) == is_one
    if told is not None:
        assert "once within 0.6 s" in told.remedies[0].seen
    assert without_garbage(stalls(starved), seen) is None
    assert without_garbage(stalls(starved), seen, stalls_s=stalls_s[:1]) is None
    assert without_garbage(stalls(starved, rule="host_starved"), seen, stalls_s=stalls_s) is None


def test_collections_of_a_program_that_has_switched_the_collector_off_are_its_own(starved: Diagnosis) -> None:
    own = replace(look(0.4, 0.4), collects_itself=False)

    assert without_garbage(stalls(starved), [own]) is None
    assert without_garbage(stalls(starved), [own, look(0.4, 0.4)]) is not None


@pytest.mark.parametrize("activity", sorted(NAMED_OTHERWISE))
def test_a_line_that_collects_or_saves_for_most_of_the_idle_time_explains_it(
    starved: Diagnosis, activity: Activity
) -> None:
    finding = stalls(starved)
    before = replace(starved, verdict=finding, findings=(finding,))

    def first(*host: HostCauses) -> str:
        told = with_garbage(before, [look(0.4, 0.4)], 0, [0], *host).verdict
        assert told is not None
        return told.remedies[0].text

    assert first(line(activity, MOSTLY)) == SAVE.text
    assert first(line(activity, MOSTLY - 0.01)) == first(line("python", 1.0)) == first() == FREEZE.text
    assert first(HostCauses()) == FREEZE.text


@pytest.mark.parametrize("change", [{"rule": "input_starved"}, {"share": 0.0}, {"share": 1.0}])
def test_other_findings_are_left_alone(starved: Diagnosis, change: dict[str, float]) -> None:
    assert without_garbage(replace(stalls(starved), **change), [look(0.4, 0.4)]) is None  # type: ignore[arg-type]


def test_the_remedy_is_there_also_where_counters_did_not_suppose_it(starved: Diagnosis) -> None:
    told = without_garbage(replace(stalls(starved), remedies=(SAVE,)), [look(0.4, 0.4)])

    assert told is not None
    assert [r.text for r in told.remedies] == [FREEZE.text, SAVE.text]


def test_only_a_look_at_a_process_on_this_gpu_counts(starved: Diagnosis) -> None:
    finding = stalls(starved)
    before = replace(starved, verdict=finding, findings=(finding,))
    here = with_garbage(before, [look(0.4, 0.4, gpus=(1,))], 1, [0, 1]).verdict
    elsewhere = with_garbage(before, [look(0.4, 0.4, gpus=(1,))], 0, [0, 1])

    assert here is not None
    assert here.remedies[0].text == FREEZE.text
    assert here.gain is not None
    assert here.gain.high == pytest.approx(1 / (PACE[0] * 0.6))
    assert elsewhere == before
