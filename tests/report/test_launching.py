"""Launches and waits look alike to counters; lines of the program tell which of them the GPU waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfzero.attribute.causes import Cause, HostCauses
from perfzero.attribute.host_activity import Activity
from perfzero.diagnose.verdict import Diagnosis, Finding, Gain
from perfzero.report.launching import LAUNCHES, by_lines
from perfzero.stacks import Frame

SAVES = Gain(2.0, 2.4, "")
LAUNCHING = Finding("launch_bound", "launches, all of them", "bad", 0.53, 0.9, (), SAVES)
IN_PART = Finding("launch_bound", "launches, in one part", "bad", 0.23, 0.9, (), Gain(1.1, 1.3, ""))
WAITING = Finding("sync_bound", "waits", "bad", 0.3, 0.9, (), Gain(1.1, 1.4, ""), launching=LAUNCHING)
GRIDS = Finding("small_grid", "few SMs", "watch", 0.28, 0.9, (), Gain(1.0, 1.2, ""))


def found(diagnosis: Diagnosis, *findings: Finding) -> Diagnosis:
    return replace(diagnosis, verdict=findings[0], findings=findings, headline=findings[0].title)


def host(**shares: float) -> HostCauses:
    frame = Frame("/home/me/train.py", 62, "main")
    activities: dict[str, Activity] = {
        "launching": "launching", "synchronising": "synchronising", "python": "python",
    }  # fmt: skip
    return HostCauses(
        tuple(Cause(activities[a], frame, "", (frame,), s, s, s, 0.0) for a, s in shares.items()), idle=0.5
    )


def test_lines_that_launch_for_most_of_the_idle_time_make_it_launching(starved: Diagnosis) -> None:
    told = by_lines(found(starved, WAITING, IN_PART, GRIDS), host(launching=0.9))

    assert told.findings == (LAUNCHING, GRIDS)
    assert told.verdict == LAUNCHING
    assert told.headline == "launches, all of them"


@pytest.mark.parametrize(
    "lines",
    [
        None,
        HostCauses(),
        host(launching=LAUNCHES - 0.01),
        host(python=0.9),
        host(synchronising=0.9),
        host(launching=0.6, synchronising=0.7),  # each follows the other, and the wait costs more
    ],
    ids=["not seen", "none", "too little", "Python", "a wait", "more of a wait"],
)
def test_other_lines_leave_it_a_wait(starved: Diagnosis, lines: HostCauses | None) -> None:
    before = found(starved, WAITING, IN_PART, GRIDS)

    assert by_lines(before, lines) is before


def test_what_cannot_be_launching_stays_though_the_lines_launch(starved: Diagnosis) -> None:
    """As with a wait in C++ below the line of the backward pass, between kernels that hide their launches."""
    before = found(starved, replace(WAITING, launching=None), GRIDS)

    assert by_lines(before, host(launching=0.9)) is before


def test_it_comes_first_only_if_it_should_save_most(starved: Diagnosis) -> None:
    grids = replace(GRIDS, gain=Gain(3.0, 4.0, ""))

    told = by_lines(found(starved, WAITING, grids), host(launching=0.9))

    assert told.findings == (grids, LAUNCHING)
    assert told.verdict == grids
