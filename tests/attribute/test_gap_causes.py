"""What goes from each gap to a line of the program: in sum what was reported, in place where it was seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hand_written_stacks import LOADER, at, made
from perfzero.attribute import gap_causes as module
from perfzero.attribute.causes import HostCauses
from perfzero.attribute.gap_causes import gap_causes
from perfzero.attribute.stacks import host_causes
from perfzero.stacks import GilUse, HostStacks
from perfzero.store.reader import open_recording
from perfzero.store.stacks import read_stacks

RECORDINGS = Path(__file__).parents[1] / "recordings"

WAITS_IN_TURN = [
    (at(12), 20.0, [(0.0, 20.0)]),
    (at(10, LOADER), 10.0, []),
    (at(12), 20.0, [(0.0, 20.0)]),
    (at(13), 30.0, []),
]
"""Two gaps of a step: 10 ms for the loader, 30 ms for sleep."""


def test_each_gap_goes_to_the_line_at_which_the_host_was_seen() -> None:
    """Short gaps are the loader's, long ones those of the sleep; in sum each has what was reported."""
    stacks, pm = made(WAITS_IN_TURN)
    host = host_causes(stacks, pm)
    found = gap_causes(stacks, pm, host)

    assert found is not None
    length_ms = found.length_ns / 1e6
    whole = found.length_ns.sum()
    assert whole / 1e9 == pytest.approx(host.idle * host.seconds, rel=1e-9)
    by_line = {c.frame.line: k for k, c in enumerate(host.causes)}
    for line, longer in ((10, False), (13, True)):
        k = by_line[line]
        mine = (length_ms > 20) == longer
        assert found.given[k].sum() / whole == pytest.approx(host.causes[k].share, abs=1e-8)
        assert found.given[k][mine].sum() > 0.95 * found.given[k].sum()
        # A line is seen some 4 ms after it was reached, and short gaps have 10.
        assert found.seen[k][mine].mean() > 0.5 > 10 * found.seen[k][~mine].mean()
        assert (found.given[k] <= found.length_ns + 1).all()
    assert found.placed.mean() > 0.95


def test_gaps_are_those_of_the_stretch_that_lines_are_told_of() -> None:
    """A report tells lines of the stretch that was judged; its gaps are handed out, and not those before."""
    stacks, pm = made(WAITS_IN_TURN)
    judged = pm.where(pm.start_ns >= pm.start_ns[len(pm) // 2])
    host = host_causes(stacks, judged)
    found = gap_causes(stacks, pm, host)

    assert found is not None
    assert found.start_ns.min() >= judged.start_ns.min()
    assert found.length_ns.sum() / 1e9 == pytest.approx(host.idle * host.seconds, rel=1e-9)


def test_a_line_that_waits_for_the_gpu_is_seen_before_its_gaps() -> None:
    """The GPU is busy while the host waits at line 20, and idle after it, while the host is at line 12."""
    stacks, pm = made([(at(20), 20.0, [(0.0, 20.0)]), (at(12), 20.0, [(15.0, 20.0)])])
    host = host_causes(stacks, pm)
    found = gap_causes(stacks, pm, host)

    assert found is not None
    k = next(k for k, c in enumerate(host.causes) if c.frame.line == 20)
    assert host.causes[k].activity == "synchronising"
    assert found.seen[k].mean() > 0.8


def test_times_of_stacks_are_put_right_as_the_report_did() -> None:
    """A clock that is 12 ms early: each gap is still the line's that the host was at by then."""
    stacks, pm = made(WAITS_IN_TURN)
    early = replace(
        stacks.processes[0], time_ns=stacks.processes[0].time_ns - 12_000_000, slack_ns=15_000_000
    )
    stacks = replace(stacks, processes=(early,))
    host = host_causes(stacks, pm)
    found = gap_causes(stacks, pm, host)

    assert found is not None
    assert host.offset_s == pytest.approx(0.012, abs=0.001)
    sleep = next(k for k, c in enumerate(host.causes) if c.frame.line == 13)
    assert found.seen[sleep][found.length_ns > 20_000_000].mean() > 0.8


def test_what_nobody_saw_goes_to_all_gaps_by_their_lengths() -> None:
    """Of a cause that no stack leads to, as where it was told of another moment."""
    stacks, pm = made(WAITS_IN_TURN)
    host = host_causes(stacks, pm)
    cause = replace(host.causes[0], path=(host.causes[0].path[0],) * 9, share=0.5)
    found = gap_causes(stacks, pm, replace(host, causes=(cause,)))

    assert found is not None
    assert not found.seen[0].any()
    np.testing.assert_allclose(found.given[0], 0.5 * found.length_ns, atol=2)


def test_what_was_seen_is_filled_up_before_the_rest_gets_any() -> None:
    length_ns, seen = np.array([100, 100, 50, 50]), np.array([0.5, 0.1, 0.0, 0.0])

    assert module._handed_out(length_ns, seen, total=60.0).tolist() == [50, 10, 0, 0]
    assert module._handed_out(length_ns, seen, total=150.0).tolist() == [100, 50, 0, 0]
    assert module._handed_out(length_ns, seen, total=250.0).tolist() == [100, 100, 25, 25]
    assert module._handed_out(length_ns, seen, total=999.0).tolist() == [100, 100, 50, 50]
    assert module._handed_out(length_ns, np.zeros(4), total=30.0).tolist() == [10, 10, 5, 5]
    assert module._handed_out(length_ns, seen, total=0.0).tolist() == [0, 0, 0, 0]


def test_the_line_that_holds_the_gil_is_seen_by_looks_at_the_main_thread() -> None:
    stacks, pm = made(WAITS_IN_TURN)
    host = host_causes(stacks, pm)
    moments = np.arange(0, 10_000, 5) * 1_000_000
    waits = (np.random.default_rng(1).random(len(moments)) < 0.25).astype(np.int64)
    gil = GilUse(moments, waits, rate_hz=200.0)
    cause = replace(host.causes[0], activity="gil", share=0.3)
    found = gap_causes(replace(stacks, gil=gil), pm, replace(host, causes=(cause,)))

    assert found is not None
    assert found.seen[0].mean() == pytest.approx(0.25, abs=0.05)
    assert found.given[0].sum() == pytest.approx(0.3 * found.length_ns.sum(), abs=2)


@pytest.mark.parametrize("why", ["nobody watched", "no causes", "no counters"])
def test_where_nothing_is_told_of_the_host_nothing_is_handed_out(why: str) -> None:
    stacks, pm = made(WAITS_IN_TURN)
    host = host_causes(stacks, pm)
    if why == "nobody watched":
        stacks = HostStacks()
    elif why == "no causes":
        host = HostCauses(reason="The GPU was hardly idle while the host was sampled.")
    else:
        pm = pm.between(0, 1)

    assert gap_causes(stacks, pm, host) is None


@pytest.mark.parametrize("case", ["_stacks/oak", "_stacks/hazel", "_stacks/rowan", "_looks/cupy"])
def test_of_real_programs_the_sum_is_the_share_that_is_told(case: str) -> None:
    recording = open_recording(RECORDINGS / case)
    stacks = read_stacks(recording.path)
    pm = recording.observation(recording.gpus[0].index).pm
    host = host_causes(stacks, pm)
    found = gap_causes(stacks, pm, host)

    assert found is not None
    assert len(host.causes) > 0
    whole = found.length_ns.sum()
    assert whole / 1e9 == pytest.approx(host.idle * host.seconds, rel=1e-9)
    assert (found.start_ns[1:] >= (found.start_ns + found.length_ns)[:-1]).all()
    for cause, given in zip(host.causes, found.given, strict=True):
        assert given.sum() / whole == pytest.approx(cause.share, abs=1e-7)
        assert (given >= 0).all()
