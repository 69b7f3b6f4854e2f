"""Programs that mainly read or copy, and GPUs that are shared: what the ways out gain, and when not."""

from __future__ import annotations

from typing import Any

import pytest

from perfzero.diagnose.judge import judge
from perfzero.diagnose.verdict import Finding
from perfzero.sources.synthetic import Phase, observe
from perfzero.words.said import say

ROOF = 4.4e12  # bytes/s of the H200 that `observe` supposes
L2_ROOF = 9.93e12
TILES, BATCH, OVERLAP = say("try.tile_order"), say("try.larger_batch"), say("try.overlap_copies")


def reading(seconds: float, share: float, *, launches: int = 1, **levels: float) -> Phase:
    """Kernels that read at *share* of the roof and write nothing."""
    known: dict[str, Any] = {
        "gr_active": 1.0, "sm_active": 0.97, "warps_active": 0.4, "launches": launches / seconds,
        "dram_read_bytes": share * ROOF, "l2_sectors": share * ROOF / 32,
    }  # fmt: skip
    return Phase(seconds, {**known, **levels})


def found(rule: str, *cycle: Phase, **board: float) -> Finding:
    return next(f for f in judge(observe(cycle, board=board)).findings if f.rule == rule)


def told(finding: Finding) -> list[str]:
    return [remedy.text for remedy in finding.remedies]


PRODUCT = {"tensor_active": 0.33, "warps_active": 0.12}


def test_a_product_that_reads_more_than_there_is_in_memory_takes_its_tiles_in_a_bad_order() -> None:
    """210 GB a kernel, and 8 in use. After it the L2 is used most, at 41 % of its roof now."""
    again = found("memory_bound", reading(0.05, 0.95, **PRODUCT), memory_used=8e9)

    assert again.severity == "bad"
    assert told(again)[0] == TILES
    assert again.gain is not None
    most = L2_ROOF / (0.95 * ROOF)
    assert (again.gain.low, again.gain.high) == pytest.approx((0.6 * most, 0.9 * most), rel=0.02)
    assert again.next_limit == say("limit.tensor")


def test_what_is_read_once_is_the_healthy_answer_still() -> None:
    """As of a server that reads a cache of 210 GB, of several GPUs' memory say, for all of its users."""
    once = found("memory_bound", reading(0.05, 0.95, **PRODUCT), memory_used=220e9)

    assert (once.severity, once.gain) == ("info", None)


@pytest.mark.parametrize(
    ("seconds", "tensor"),
    [
        (0.5, 0.33),  # longer than any product
        (0.05, 0.1),  # 24 operations a byte: weights read for some requests, not tiles of a product
    ],
)
def test_a_kernel_that_stays_for_many_steps_reads_its_weights_in_each(seconds: float, tensor: float) -> None:
    """As one that decodes a whole answer does: it reads more than there is, and in no bad order."""
    stays = found(
        "memory_bound", reading(seconds, 0.95, **{**PRODUCT, "tensor_active": tensor}), memory_used=8e9
    )

    assert (stays.severity, stays.gain) == ("info", None)


def test_sums_that_pass_over_the_same_data_are_no_products() -> None:
    sums = found("memory_bound", reading(0.05, 0.95, fma_active=0.1), memory_used=8e9)

    assert sums.severity == "info"


def test_weights_read_in_kernels_of_microseconds_serve_more_requests_at_a_time() -> None:
    short = found("latency_bound", reading(5e-4, 0.4, launches=100))

    assert told(short)[0] == BATCH
    assert short.gain == short.remedies[0].gain
    assert short.gain is not None
    assert (short.gain.low, short.gain.high) == pytest.approx((8 / 1.5, 8 * 1.1))
    assert short.next_limit == say("limit.latency")  # a step stays as it is


def test_so_they_do_where_the_sms_are_empty_between_kernels_half_of_the_time() -> None:
    """As of a decoder in a graph, whose kernels of 4 us have blocks for all SMs: no grid is too small."""
    decoder = judge(observe((reading(4e-4, 0.4, launches=100, sm_active=0.4),)))
    acting = {f.rule: f for f in decoder.findings if f.severity != "info"}

    assert set(acting) == {"latency_bound", "memory_bound"}
    assert all(told(f)[0] == BATCH and f.gain == f.remedies[0].gain for f in acting.values())
    assert [f.saves for f in acting.values()] == pytest.approx([f.share for f in acting.values()])


def test_and_where_few_sms_read_for_most_of_the_time() -> None:
    small = found("small_grid", reading(2.7e-4, 0.17, launches=100, sm_active=0.4))

    assert told(small)[0] == BATCH
    assert small.gain is not None
    assert small.gain.low == pytest.approx(8 / 1.5)
    assert small.remedies[0].verify == say("worked.dram_same")


def test_small_grids_that_read_nothing_gain_what_is_usual_of_a_larger_batch() -> None:
    small = found("small_grid", reading(2.7e-4, 0.01, launches=100, sm_active=0.4))

    assert told(small)[0] == BATCH
    assert small.gain is not None
    assert small.gain.high < 2.5
    assert small.remedies[0].verify == say("worked.sm_up")


def test_more_requests_at_a_time_compute_as_much_each_so_the_pipes_allow_no_more() -> None:
    """A search among neighbours: the FP32 pipe is at half of its peak, and at 54 % of its roof."""
    search = found("latency_bound", reading(5e-4, 0.3, launches=40, fma_active=0.25))
    batch = next(r.gain for r in search.remedies if r.text == BATCH)

    assert batch is not None
    assert (batch.low, batch.high) == pytest.approx((0.6 * 0.93 / 0.25, 0.93 / 0.25), rel=0.02)
    assert say("limit.fma") in batch.assumption


def test_nor_does_the_l2_allow_more_than_is_asked_of_it_beside_the_weights() -> None:
    beside = {"l2_sectors": (0.3 * ROOF + 0.3 * L2_ROOF) / 32}
    more = found("latency_bound", reading(5e-4, 0.3, launches=40, **beside))
    batch = next(r.gain for r in more.remedies if r.text == BATCH)

    assert batch is not None
    assert batch.high == pytest.approx(1 / (0.3 + 0.3 * ROOF / L2_ROOF / 8), rel=0.02)


@pytest.mark.parametrize(
    ("phase", "board"),
    [
        (reading(5e-4, 0.4, launches=5), {}),  # kernels of 100 us: a cache of each request, maybe
        (reading(5e-4, 0.4, launches=100, dram_write_bytes=2e11), {}),
        (reading(5e-4, 0.05, launches=100), {}),
        (reading(5e-4, 0.4, launches=100), {"memory_used": 1.4e11}),
    ],
)
def test_nothing_of_the_kind_is_said_of_others(phase: Phase, board: dict[str, float]) -> None:
    assert BATCH not in told(found("latency_bound", phase, **board))


PINNED = {"pcie_rx_bytes": 5.7e10, "ce_active": 1.0}


def test_copies_that_fill_the_link_carry_what_lies_there_and_need_not_be_copied() -> None:
    full = found("transfer_bound", Phase(0.020, PINNED), reading(0.005, 0.9))

    assert told(full)[0] == say("try.copy_less")
    assert full.gain is not None
    assert (full.gain.low, full.gain.high) == pytest.approx((1 / 0.28, 1 / 0.2), rel=0.02)
    assert full.next_limit == say("limit.memory")
    beside = next(r.gain for r in full.remedies if r.text == OVERLAP)
    assert beside is not None
    assert beside.high == pytest.approx(1 / 0.8, rel=0.03)  # the copies take as long


def test_copies_that_leave_the_link_some_time_can_be_hidden_or_made_seldom_to_a_part() -> None:
    some = found("transfer_bound", Phase(0.010, PINNED), reading(0.015, 0.9))

    assert some.gain is not None
    assert (some.gain.low, some.gain.high) == pytest.approx((1 / 0.76, 1 / 0.62), rel=0.02)
    assert [r.text for r in some.remedies] == [OVERLAP, say("try.copy_less")]
    beside, less = (r.gain for r in some.remedies)
    assert beside == some.gain
    assert less is not None
    assert (less.low, less.high) == pytest.approx((1 / 0.8, 1 / 0.6), rel=0.02)  # half of 0.4, and all of it
    assert some.gain.assumption == say("gain.overlapped")
    assert say("gain.overlapped") not in less.assumption


def test_what_is_copied_less_often_is_not_told_to_be_overlapped() -> None:
    both = {"pcie_rx_bytes": 0.45 * 5.78e10, "pcie_tx_bytes": 0.45 * 5.78e10, "ce_active": 1.0}
    some = found("transfer_bound", Phase(0.010, both), reading(0.010, 0.9))
    told = {r.text: r.gain for r in some.remedies}

    assert some.gain is not None
    assert some.gain.assumption == say("gain.exchanged", batches=4)
    assert (some.gain.low, some.gain.high) == pytest.approx((1 / 0.7, 1 / 0.6), rel=0.02)
    assert told[say("try.exchange_less")] == some.gain
    beside = told[OVERLAP]
    assert beside is not None
    assert beside.assumption == say("gain.overlapped")
    assert beside.low == pytest.approx(some.gain.low)
    assert beside.high > some.gain.high


def test_pinned_copies_take_what_the_link_allows_or_twice_that() -> None:
    """Pageable ones use 13 % of it, for half of the time."""
    staged = {"gr_active": 0.02, "pcie_rx_bytes": 0.13 * 5.78e10, "ce_active": 0.2}
    pageable = found("pageable_copies", Phase(0.020, staged), reading(0.020, 0.9))

    assert pageable.gain is not None
    low, high = 1 - 0.49 * 0.6 * (1 - 0.26), 1 - 0.49 * (1 - 0.13 / 1.05)
    assert (pageable.gain.low, pageable.gain.high) == pytest.approx((1 / low, 1 / high), rel=0.02)


def shared(switching: float, processes: float = 2.0) -> Finding:
    work = Phase(0.01, {"gr_active": 1.0, "tensor_active": 0.9, "sm_active": 0.99, "ctxsw": switching})
    return found("gpu_shared", work, processes=processes)


def test_a_program_that_takes_turns_all_the_time_gains_the_others_turns_and_the_switches() -> None:
    both = shared(0.085)

    assert both.gain is not None
    assert (both.gain.low, both.gain.high) == pytest.approx((1 / 0.625, 2 / 0.915), rel=0.01)
    assert both.next_limit == say("limit.tensor")


def test_with_few_switches_the_others_rest_and_their_turns_are_few() -> None:
    seldom = shared(0.021)

    assert seldom.gain is not None
    assert seldom.gain.low < 1.15
    assert 1.2 < seldom.gain.high < 1.5


def test_three_programs_take_two_thirds_of_the_turns() -> None:
    three = shared(0.085, processes=3.0)

    assert three.gain is not None
    assert three.gain.high == pytest.approx(3 / 0.915, rel=0.01)


@pytest.mark.parametrize("processes", [5.0, 8.0])
def test_programs_that_only_hold_a_context_take_no_turns(processes: float) -> None:
    """Notebooks that rest beside one program that works: the least is what two programs share."""
    many = shared(0.085, processes=processes)

    assert many.gain is not None
    assert (many.gain.low, many.gain.high) == pytest.approx((1 / 0.625, processes / 0.915), rel=0.01)
