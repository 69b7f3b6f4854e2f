"""Which line is late because the one before it waits for the GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfzero.attribute.causes import Cause
from perfzero.attribute.host_activity import Activity
from perfzero.attribute.lines import LIKELY
from perfzero.report.behind_wait import behind
from perfzero.stacks import Frame


def line(activity: Activity, share: float, number: int) -> Cause:
    frame = Frame("/home/me/train.py", number, "main")
    return Cause(activity, frame, "a line", (frame,), share, share, share, 0.0)


def test_work_with_much_of_the_share_of_the_wait_before_it_is_late_because_of_it() -> None:
    """Of a wait for 0.6 of the idle time half is 0.3, whatever else there is."""
    wait, work = line("synchronising", 0.6, 40), line("python", 0.6 * LIKELY, 41)

    assert behind((wait, work)) is work


@pytest.mark.parametrize("activity", ["sleeping", "gil", "loader", "lock", "launching", "copying"])
def test_what_is_no_work_of_its_own_is_not(activity: Activity) -> None:
    assert behind((line("synchronising", 0.9, 40), line(activity, 0.9, 41))) is None


def test_nor_is_little_work_or_work_behind_no_wait() -> None:
    little = line("python", 0.6 * LIKELY - 0.01, 41)

    assert behind((line("synchronising", 0.6, 40), little)) is None
    assert behind((line("python", 0.9, 40), line("python", 0.9, 41))) is None
    assert behind(()) is None


def test_the_rest_of_the_call_that_the_wait_stands_in_is_not_late_behind_it() -> None:
    """It takes turns with the wait all the time, so there is no next step to be launched before it."""
    call, wait = line("python", 0.5, 72), line("synchronising", 0.5, 18)
    inner = replace(wait, path=(call.frame, wait.frame))

    assert behind((inner, call)) is None
    assert behind((wait, call)) is call
