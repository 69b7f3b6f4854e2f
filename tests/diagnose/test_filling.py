"""Kernels with too little under way: what they gain once every SM has enough, and who is none of them."""

from __future__ import annotations

from typing import Any

import pytest

from perfzero.diagnose.judge import judge
from perfzero.diagnose.verdict import Finding
from perfzero.sources.synthetic import Phase, observe
from perfzero.words.said import say

ROOF = 4.4e12  # bytes/s of the H200 that `observe` supposes
SPLIT, MORE = say("try.split_kernels"), say("try.more_under_way")


def kernel(seconds: float, *, launches: int = 1, memory: float = 0.0, **levels: float) -> Phase:
    """Kernels that read *memory* of what the roof allows."""
    known: dict[str, Any] = {
        "gr_active": 1.0, "sm_active": 0.97, "warps_active": 0.4, "launches": launches / seconds,
        "dram_read_bytes": memory * ROOF, "l2_sectors": memory * ROOF / 32,
    }  # fmt: skip
    return Phase(seconds, {**known, **levels})


def found(rule: str, *cycle: Phase) -> Finding:
    return next(f for f in judge(observe(cycle)).findings if f.rule == rule)


FEW_BLOCKS = {"sm_active": 0.25, "warps_active": 0.02, "memory": 0.15}


def test_a_long_kernel_on_few_sms_gains_what_the_others_can_do_up_to_the_roof() -> None:
    """A quarter of the SMs takes 15 % of the memory's rate: all take 60 %, more on each all of it."""
    small = found("small_grid", kernel(1.9e-3, **FEW_BLOCKS), kernel(1e-4, launches=4, memory=0.9))

    assert small.remedies[0].text == SPLIT
    assert small.gain is not None
    assert small.gain.low == pytest.approx(1 / (0.05 + 0.95 * 0.25 / 0.85), rel=0.03)
    assert small.gain.high == pytest.approx(1 / (0.05 + 0.95 * 0.15), rel=0.03)
    assert small.next_limit == say("limit.memory")


def test_short_kernels_have_no_more_work_to_spread() -> None:
    small = found("small_grid", kernel(1.9e-3, launches=190, **FEW_BLOCKS), kernel(1e-4, memory=0.9))

    assert small.remedies[0].text != SPLIT
    assert small.gain is not None
    assert small.gain.high < 3


def test_nor_have_those_that_lie_between_others_a_few_at_a_time() -> None:
    """Kernels may be long on average, and these not."""
    turns = [kernel(5e-5, **FEW_BLOCKS), kernel(1e-4, memory=0.9)]

    assert found("small_grid", *turns).remedies[0].text != SPLIT


def test_the_host_still_launches_as_many_kernels() -> None:
    """12,000 a second now, and 39,000 to 71,000 at most."""
    small = found("small_grid", kernel(1.9e-3, memory=0.01, sm_active=0.05), kernel(1e-4, launches=23))

    assert small.gain is not None
    assert (small.gain.low, small.gain.high) == pytest.approx((39 / 12, 71 / 12), rel=0.01)


def test_with_few_warps_more_are_to_be_under_way_up_to_the_roof() -> None:
    late = found("latency_bound", kernel(2e-3, memory=0.2, warps_active=0.02))

    assert late.remedies[0].text == MORE
    assert late.gain is not None
    assert (late.gain.low, late.gain.high) == pytest.approx((0.6 / 0.2, 1 / 0.2), rel=0.02)
    assert late.next_limit == say("limit.memory")


def test_with_many_warps_nobody_knows_what_it_is() -> None:
    late = found("latency_bound", kernel(2e-3, memory=0.2, warps_active=0.5))

    assert MORE not in [remedy.text for remedy in late.remedies]
    assert late.gain is not None
    assert late.gain.low < 1.2
    assert late.next_limit == say("limit.latency")
