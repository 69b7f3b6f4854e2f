"""Work that was launched before the trace began is no part of its breakdown."""

from __future__ import annotations

from pathlib import Path

from hand_written_look import Look
from perfzero.attribute.earlier import is_earlier
from perfzero.attribute.tree import break_down
from perfzero.traces import Trace


def behind(tmp_path: Path, *, launched: bool = True) -> Trace:
    """A GPU that is two kernels behind when the step begins, and a later kernel whose launch was missed."""
    look = Look()
    look.step(0, 0, 1000)
    look.kernel("late_1", 10, 110, correlation=901)
    look.kernel("late_2", 110, 210, correlation=902, stream=8)
    if launched:
        look.work("own_1", 300, 400, at=20)
    look.kernel("missed", 400, 450, correlation=903)
    look.kernel("other_device", 310, 320, correlation=904, device=1)
    return look.trace(tmp_path)


def test_a_gpu_that_is_behind_works_off_what_belongs_to_no_traced_step(tmp_path: Path) -> None:
    trace = behind(tmp_path)

    assert [trace.work.names[n] for n in trace.work.name[is_earlier(trace)]] == ["late_1", "late_2"]
    breakdown = break_down(trace)
    assert breakdown.total.gpu_ns == 160_000
    assert breakdown.busy_ns == 160_000
    assert {k.row.name for k in breakdown.kernels} == {"own_1", "missed", "other_device"}


def test_where_no_launch_is_known_nothing_is_earlier(tmp_path: Path) -> None:
    trace = behind(tmp_path, launched=False)

    assert not is_earlier(trace).any()
    assert break_down(trace).total.launches == 4


def test_work_whose_operator_was_noted_is_not_earlier_though_its_launch_was_missed(tmp_path: Path) -> None:
    look = Look()
    look.step(0, 0, 1000)
    look.kernel("late", 10, 110, correlation=901)
    look.op("aten::mm", 5, 30, external_id=7)
    look.kernel("noted", 120, 220, correlation=902, **{"External id": 7})
    look.work("own", 300, 400, at=20)
    trace = look.trace(tmp_path)

    assert [trace.work.names[n] for n in trace.work.name[is_earlier(trace)]] == ["late"]
