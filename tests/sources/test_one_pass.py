"""Which metrics are chosen for one pass, with a library whose every answer is known."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from perfzero.counters import BY_NAME, pm_counters
from perfzero.metric_sets import load
from perfzero.sources import _libcupti, _one_pass
from perfzero.sources._libcupti import CuptiError

LIBRARY: Any = SimpleNamespace(version=130001)
GH100 = load().checked[130001].chips["GH100"]


class Asked:
    """A library that knows GH100, on a board that lacks *missing* metrics and has *room* for so many."""

    def __init__(self, *, missing: Sequence[str] = (), room: int = 100) -> None:
        self.questions = 0
        self._known = set(GH100.one_pass.values())
        self._missing = set(missing)
        self._room = room

    def __call__(self, library: Any, chip: str, *, availability: Any = None) -> Asked:
        self.questions += 1
        return self

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def add(self, metrics: Sequence[str]) -> None:
        self._count = len(metrics)
        for metric in metrics:
            if metric in self._missing:
                raise CuptiError("AddMetrics", 999)
            if metric not in self._known:
                raise CuptiError("AddMetrics", _libcupti.INVALID_PARAMETER)

    def config_image(self) -> None:
        return None

    def passes(self, _: None) -> int:
        return 1 if self._count <= self._room else 2


def resolve(
    monkeypatch: pytest.MonkeyPatch, asked: Asked, *, known: dict[str, str] | None
) -> _one_pass.Resolution:
    monkeypatch.setattr(_one_pass, "Host", asked)
    return _one_pass.resolve_for_chip(LIBRARY, "GH100", wanted=pm_counters(), known=known)


NVLINK = ("nvlrx__bytes.sum", "nvltx__bytes.sum")


@pytest.mark.parametrize("room", [100, 12, 5, 1])
@pytest.mark.parametrize("missing", [(), NVLINK, (GH100.one_pass["sm_active"], *NVLINK)])
def test_what_an_earlier_check_found_changes_the_number_of_questions_and_not_the_answer(
    monkeypatch: pytest.MonkeyPatch, room: int, missing: tuple[str, ...]
) -> None:
    one_by_one, together = Asked(missing=missing, room=room), Asked(missing=missing, room=room)
    slow = resolve(monkeypatch, one_by_one, known=None)
    fast = resolve(monkeypatch, together, known=dict(GH100.one_pass))
    assert dict(fast.metrics) == dict(slow.metrics)
    assert dict(fast.left_out) == dict(slow.left_out)
    assert list(fast.metrics) == [c.name for c in pm_counters() if c.name in fast.metrics]
    if room == 100 and not missing:
        assert together.questions < one_by_one.questions / 2


def test_a_check_that_does_not_hold_on_this_board_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {name: BY_NAME[name].cupti[-1] for name in GH100.one_pass}
    wrong["gr_active"] = "a__name_that_is_in_no_ladder.sum"
    found = resolve(monkeypatch, Asked(), known=wrong)
    assert dict(found.metrics) == dict(resolve(monkeypatch, Asked(), known=None).metrics)


def test_what_another_counter_tells_better_is_left_out_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = resolve(monkeypatch, Asked(), known=None)
    assert found.left_out["dram_active"] == "dram_read_bytes says more"
    assert found.left_out["sys_clock"] == "only needed where the SYS clock triggers the samples"


def test_what_the_board_lacks_is_left_out_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = resolve(monkeypatch, Asked(missing=NVLINK), known=dict(GH100.one_pass))
    assert "nvlink_rx_bytes" not in found.metrics
    assert found.left_out["nvlink_rx_bytes"] == "not available on this board (error 999)"
