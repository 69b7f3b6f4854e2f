"""
Stacks of real programs on a GPU: which line the report names for the idle time, and its share.

`tests/recordings/_stacks` has the recordings, and README.md there how to make them anew and what is true of
each, as `benchmarks/planted` measured it. Where that is not known the share is the one that was told first.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfzero.attribute.host_activity import Activity
from perfzero.attribute.lines import FIRST, FREE, LIKELY, wait_leads
from perfzero.attribute.stacks import Cause, HostCauses, host_causes
from perfzero.stacks import Frame
from perfzero.store.reader import open_recording
from perfzero.store.stacks import read_stacks

RECORDINGS = Path(__file__).parents[1] / "recordings" / "_stacks"
ZOO = Path(__file__).parents[1] / "zoo" / "kept"
READ = "running += loss.detach() if args.fixed else loss.item()"

LIMIT_BYTES = 260_000

WITHIN = 0.05

TOLD = {
    "ash": ("ash.py", 33, "loader", 0.97),
    "birch": ("birch.py", 14, "synchronising", 1.0),
    "cedar": ("cedar.py", 16, "copying", 1.0),
    "compiled": ("programs.py", 51, "launching", 0.98),
    "elm": ("elm.py", 11, "synchronising", 1.0),
    "fir": ("fir.py", 15, "synchronising", 1.0),
    "hazel": ("hazel.py", 13, "synchronising", 1.0),
    "larch": ("larch.py", 13, "synchronising", 1.0),
    "maple": ("maple.py", 14, "garbage collection", 1.0),
    "oak": ("oak.py", 17, "checkpoint", 1.0),
    "pine": ("pine.py", 22, "python", 0.99),
    "rowan": ("rowan.py", 11, "copying", 1.0),
    "spruce": ("spruce.py", 13, "compiling", 1.0),
    "willow": ("willow.py", 20, "python", 0.96),
    "yew": ("yew.py", 18, "python", 1.0),
    "yew_ahead": ("yew.py", 18, "python", 1.0),
}
"""Of each recording the first line, what the host does there, and its share of the idle time."""


def told(name: str) -> HostCauses:
    recording = open_recording(RECORDINGS / name)
    [gpu] = recording.gpus
    return host_causes(read_stacks(recording.path), recording.observation(gpu.index).pm)


def waits(causes: tuple[Cause, ...]) -> list[Cause]:
    return [c for c in causes if c.activity in ("synchronising", "copying")]


def test_every_recording_is_asked_for_and_small() -> None:
    folders = [path for path in RECORDINGS.iterdir() if path.is_dir()]

    assert {folder.name for folder in folders} == set(TOLD)
    for folder in folders:
        assert (folder / "command.txt").read_text().startswith("perfzero r")
        assert sum(path.stat().st_size for path in folder.iterdir()) < LIMIT_BYTES


@pytest.mark.parametrize("name", TOLD)
def test_the_line_is_named_first_with_its_share(name: str) -> None:
    file, line, activity, share = TOLD[name]
    found = told(name)
    first = found.causes[0]

    assert (first.frame.file, first.frame.line, first.activity) == (file, line, activity)
    assert first.share == pytest.approx(share, abs=WITHIN)
    assert first.low <= first.share <= first.high


def test_a_wait_comes_before_the_work_that_is_late_for_it() -> None:
    """
    c01 of the zoo reads its loss, and then makes its next batch: 15 ms of work for the GPU, 10 ms without.

    The wait has less of the idle time than the work, for where gaps begin is known to a millisecond or two.
    """
    recording = open_recording(ZOO / "c01" / "base")
    [gpu] = recording.gpus
    wait, work = host_causes(read_stacks(recording.path), recording.observation(gpu.index).pm).causes

    assert (wait.text, wait.activity) == (READ, "synchronising")
    assert work.text.startswith("x, y = get_batch(")
    assert wait.share < work.share < wait.high + WITHIN
    assert wait.waited == pytest.approx(0.43, abs=WITHIN)
    assert work.waited < 0.1


@pytest.mark.parametrize(
    ("program", "least", "most"),
    [
        ("c01", 0.0, 0.1),  # its batch is made in Python, beside threads that spin
        ("c06", 0.0, 0.1),
        ("d01", 0.9, 1.0),  # launches
        ("g01", 0.9, 1.0),  # copies, and waits for that
    ],
)
def test_it_is_known_whether_the_host_is_in_calls_while_the_gpu_is_idle(
    program: str, least: float, most: float
) -> None:
    recording = open_recording(ZOO / program / "base")
    [gpu] = recording.gpus
    found = host_causes(read_stacks(recording.path), recording.observation(gpu.index).pm)

    assert least <= found.in_torch <= most


def cause(activity: Activity, share: float, high: float, text: str = "") -> Cause:
    frame = Frame("train.py", 1, "main")
    return Cause(activity, frame, text, (frame,), share, 0.0, high, share)


@pytest.mark.parametrize(
    ("share", "high", "leads"),
    [
        (FIRST, FIRST, True),
        (FIRST - 0.01, FIRST - 0.01, False),
        (LIKELY, FIRST, True),
        (LIKELY - 0.01, 1.0, False),
    ],
)
def test_a_wait_leads_where_it_has_nearly_the_most_or_may_have(
    share: float, high: float, leads: bool
) -> None:
    assert wait_leads(cause("synchronising", share, high), cause("python", 1.0, 1.0)) is leads


def test_a_wait_that_may_lead_does_not_lead_a_loader_which_is_waited_for_without_it_too() -> None:
    may_lead = cause("synchronising", LIKELY, 1.0)

    assert not wait_leads(may_lead, cause("loader", 1.0, 1.0))
    assert wait_leads(cause("synchronising", FIRST, 1.0), cause("loader", 1.0, 1.0))


@pytest.mark.parametrize(
    ("text", "share", "leads"),
    [
        ("torch.cuda.synchronize()", FREE, True),
        ("torch.cuda.synchronize()", FREE - 0.01, False),
        ("loss.item()", FREE, False),
    ],
)
def test_a_wait_that_reads_nothing_leads_with_less_for_it_costs_nothing_to_leave_out(
    text: str, share: float, leads: bool
) -> None:
    wait = cause("synchronising", share, share, text)

    assert wait_leads(wait, cause("python", 1.0, 1.0)) is leads
    assert not wait_leads(wait, cause("loader", 1.0, 1.0))


@pytest.mark.parametrize("name", ["willow", "yew", "yew_ahead"])
def test_waits_for_what_has_long_been_done_are_not_named(name: str) -> None:
    assert waits(told(name).causes) == []


def test_a_line_that_begins_long_before_the_gpu_runs_dry_is_told_and_launching_is_not() -> None:
    """The host is there for 18 of 32 ms in each step; the GPU is idle for 12, five or so there."""
    line, *others = told("yew_ahead").causes

    assert line.low > 0.9
    assert all(cause.share < 0.3 and cause.activity != "launching" for cause in others)


@pytest.mark.parametrize("name", ["elm", "fir", "larch"])
def test_a_line_computes_with_each_clock_if_it_does_with_the_likeliest(name: str) -> None:
    """With another one it would seem to launch, and its interval would begin at nothing."""
    wait, line = told(name).causes

    assert (wait.activity, line.activity) == ("synchronising", "python")
    assert 0.5 < line.low < 0.8 < line.share


def test_a_wait_in_which_the_host_hardly_waits_is_not_named() -> None:
    """The queue runs dry after `float(loss)`, but so it does in every step: the host is the slower one."""
    found = told("compiled")

    assert found.idle > 0.15
    assert waits(found.causes) == []


def test_stages_of_the_loader_are_told_with_their_line() -> None:
    stage = told("ash").causes[0].stages[0]

    assert stage.stage == "decoding"
    assert stage.frame is not None
    assert (stage.frame.file, stage.frame.line) == ("ash.py", 21)


def test_a_gpu_without_gaps_takes_longer_for_the_same_step() -> None:
    """
    Between checkpoints 50 steps follow each other without a gap, between two sorts (willow) five.

    So what a step takes without a planted line tells nothing of idle time: the clock falls.
    """
    step_ms, clock_hz = {}, {}
    for name, steps in (("willow", 5), ("oak", 50)):
        pm = open_recording(RECORDINGS / name).observation(0).pm
        idle = pm.column("gr_active") < 0.5
        ends, begins = (np.flatnonzero(np.diff(idle.astype(int)) == way) + 1 for way in (-1, 1))
        stretches = [(a, begins[begins > a][0]) for a in ends if (begins > a).any()]
        long = [(a, b) for a, b in stretches if b - a > 40]
        step_ms[name] = np.median([(pm.start_ns[b] - pm.start_ns[a]) / 1e6 / steps for a, b in long])
        clock_hz[name] = np.median([pm.column("gpc_clock")[a:b].mean() for a, b in long])

    assert clock_hz["oak"] < 0.97 * clock_hz["willow"]
    assert step_ms["oak"] > 1.02 * step_ms["willow"]
