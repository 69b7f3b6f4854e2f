"""Kernels with too little under way: what they gain once every SM has enough, and who is none of them."""

from __future__ import annotations

from typing import Any

import pytest

from perfzero.diagnose.filling import at_host_pace
from perfzero.diagnose.judge import judge
from perfzero.diagnose.verdict import Finding, Gain
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
    """A quarter of the SMs takes 15 % of the memory's rate: all take 40 %, more on each all of it."""
    small = found("small_grid", kernel(1.9e-3, **FEW_BLOCKS), kernel(1e-4, launches=4, memory=0.9))

    assert small.remedies[0].text == SPLIT
    assert say("need.work_for_all") in small.remedies[0].needs
    assert small.gain is not None
    assert small.gain.low == pytest.approx(1 / (0.05 + 0.95 * 0.15 / 0.4 / 0.85), rel=0.03)
    assert small.gain.high == pytest.approx(1 / (0.05 + 0.95 * 0.15), rel=0.03)
    assert small.next_limit == say("limit.memory")


def test_short_kernels_have_no_more_work_to_spread() -> None:
    few = {**FEW_BLOCKS, "memory": 0.05}
    small = found("small_grid", kernel(1.9e-3, launches=190, **few), kernel(1e-4, memory=0.9))

    assert small.remedies[0].text != SPLIT
    assert say("need.work_for_all") not in [need for r in small.remedies for need in r.needs]
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


def test_a_block_alone_may_be_one_long_chain() -> None:
    """One SM of 132 for half a second, with nothing near a roof: a loop, or a kernel that spins."""
    alone = found("small_grid", kernel(0.5, sm_active=0.01, warps_active=0.001))

    assert alone.remedies[0].text == SPLIT
    assert alone.gain is not None
    assert (alone.gain.low, alone.gain.high) == pytest.approx((1 / 0.9, 20.0), rel=0.01)
    assert alone.next_limit == say("limit.latency")


def test_a_block_alone_that_takes_as_much_as_an_sm_can_is_no_chain() -> None:
    """Two SMs of 132 read 1.2 % of the roof: all of them would be at 80 % of it."""
    alone = found("small_grid", kernel(0.5, sm_active=0.015, warps_active=0.001, memory=0.012))

    assert alone.remedies[0].text == SPLIT
    assert alone.gain is not None
    assert (alone.gain.low, alone.gain.high) == pytest.approx((0.4 * 0.85 / 0.012, 1 / 0.012), rel=0.03)
    assert alone.next_limit is not None
    assert "memory bandwidth" in alone.next_limit.split(" or ")


def test_several_blocks_have_shown_that_their_work_can_be_divided() -> None:
    some = found("small_grid", kernel(0.5, sm_active=0.06, warps_active=0.006, memory=0.1))

    assert some.gain is not None
    assert (some.gain.low, some.gain.high) == pytest.approx((0.4 / 0.1 * 0.85, 10.0), rel=0.02)


@pytest.mark.parametrize(
    ("launches", "low", "high"),
    [
        (0.0, 3.0, 20.0),  # a kernel that stays, or that was launched before
        (float("nan"), 3.0, 20.0),
        (13_000.0, 3.0, 71 / 13),
        (38_000.0, 39 / 38, 71 / 38),
        (45_000.0, 1.0, 71 / 45),
        (70_000.0, 1.0, 71 / 70),
        (100_000.0, 3.0, 1 / 0.168),  # a graph: one each 1.68 us
        (200_000.0, 0.6 / 0.336, 1 / 0.336),
        (600_000.0, 1.0, 1.0),
    ],
)
def test_no_more_kernels_are_launched_than_by_eager_pytorch_or_else_by_a_graph(
    launches: float, low: float, high: float
) -> None:
    paced = at_host_pace(Gain(3.0, 20.0, ""), launches)

    assert (paced.low, paced.high) == pytest.approx((low, high))


def test_a_kernel_that_is_launched_once_and_stays_is_judged_like_others() -> None:
    late = found("latency_bound", kernel(2e-3, launches=0, memory=0.2, warps_active=0.02))

    assert late.remedies[0].text == MORE
    assert late.gain is not None
    assert late.gain.high == pytest.approx(5.0, rel=0.02)


def test_at_the_upper_pace_of_a_host_nothing_is_promised_from_more_under_way() -> None:
    """50,000 kernels a second: as fast as one host launches, less than another does."""
    late = found("latency_bound", kernel(2e-3, launches=100, memory=0.05, warps_active=0.02))

    assert late.gain is not None
    assert (late.gain.low, late.gain.high) == pytest.approx((1.0, 71 / 50), rel=0.02)


def test_the_l2_may_be_the_roof_of_few_warps() -> None:
    late = found("latency_bound", kernel(2e-3, memory=0.05, warps_active=0.02, l2_sectors=5e12 / 32))

    assert late.remedies[0].text == MORE
    assert late.gain is not None
    assert late.gain.high == pytest.approx(9.93 / 5, rel=0.02)
    assert late.next_limit == say("limit.l2")


def test_it_is_not_where_little_is_asked_of_it() -> None:
    late = found("latency_bound", kernel(2e-3, memory=0.5, warps_active=0.02, l2_sectors=1e12 / 32))

    assert late.gain is not None
    assert late.gain.high == pytest.approx(2.0, rel=0.02)
    assert late.next_limit == say("limit.memory")


def test_of_few_blocks_too_the_l2_may_be_the_roof() -> None:
    small = found("small_grid", kernel(0.5, **FEW_BLOCKS, l2_sectors=4e12 / 32))

    assert small.gain is not None
    assert (small.gain.low, small.gain.high) == pytest.approx((0.6 * 9.93 / 4, 9.93 / 4), rel=0.02)
    assert small.next_limit == say("limit.l2")


def test_kernels_that_read_memory_of_the_host_wait_for_the_link_however_many_warps_there_are() -> None:
    """The link is full, and the copy engine rests."""
    few, many = (
        found("latency_bound", kernel(2e-3, memory=0.01, warps_active=warps, pcie_rx_bytes=5.4e10))
        for warps in (0.02, 0.4)
    )

    assert MORE not in [remedy.text for remedy in few.remedies]
    assert few.gain == many.gain
    assert few.gain is not None
    assert few.gain.high < 1.1


def test_a_link_half_in_use_allows_twice_as_much() -> None:
    late = found("latency_bound", kernel(2e-3, memory=0.05, warps_active=0.02, pcie_rx_bytes=2.9e10))

    assert late.remedies[0].text == MORE
    assert late.gain is not None
    assert late.gain.high == pytest.approx(2.0, rel=0.03)
    assert late.next_limit == say("limit.pcie")


def test_with_few_warps_more_under_way_take_the_kernels_towards_the_roof() -> None:
    """To 40 % of it at least, for those that have enough to do, which is said."""
    late = found("latency_bound", kernel(2e-3, memory=0.2, warps_active=0.02))

    assert late.remedies[0].text == MORE
    assert say("need.work_for_all") in late.remedies[0].needs
    assert late.gain is not None
    assert (late.gain.low, late.gain.high) == pytest.approx((0.4 / 0.2, 1 / 0.2), rel=0.02)


def test_no_faster_in_any_case_than_by_as_many_warps_as_are_no_longer_few() -> None:
    late = found("latency_bound", kernel(2e-3, memory=0.05, warps_active=0.1))

    assert late.gain is not None
    assert (late.gain.low, late.gain.high) == pytest.approx((1.5, 20.0), rel=0.03)


@pytest.mark.parametrize(
    ("memory", "warps", "limit"),
    [
        (0.2, 0.12, "latency inside the kernels"),  # 1.25 to 5 times as fast is 2.5: half of the roof
        (0.2, 0.02, "latency inside the kernels or memory bandwidth"),  # 2 to 5 is 3.2: 63 % of it
        (0.5, 0.02, "memory bandwidth"),  # 1 to 2 is 1.4: 71 %
    ],
)
def test_the_roof_is_the_next_limit_if_the_middle_of_the_gain_leads_there(
    memory: float, warps: float, limit: str
) -> None:
    late = found("latency_bound", kernel(2e-3, memory=memory, warps_active=warps))

    assert late.remedies[0].text == MORE
    assert late.next_limit == limit


def test_with_many_warps_nobody_knows_what_it_is() -> None:
    late = found("latency_bound", kernel(2e-3, memory=0.2, warps_active=0.5))

    assert MORE not in [remedy.text for remedy in late.remedies]
    assert late.gain is not None
    assert late.gain.low < 1.2
    assert late.next_limit == say("limit.latency")
