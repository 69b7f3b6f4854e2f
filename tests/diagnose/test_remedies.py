"""Which remedies are offered: on each side of the condition that each has."""

from __future__ import annotations

import pytest

from perfzero.diagnose.evidence import collect
from perfzero.diagnose.remedies import remedies_for
from perfzero.diagnose.thresholds import (
    BOTH_WAYS,
    CPU_COMPUTES,
    FEW_WARPS,
    FP64_USED,
    LINK_FULL,
    READ_ONLY,
    RUNQUEUE,
    TENSOR_UNUSED,
    THROTTLED,
)
from perfzero.sources.synthetic import Phase, observe
from perfzero.words.said import say

GEMM = {"gr_active": 1.0, "sm_active": 0.99, "tensor_active": 0.90, "launches": 500.0}
WAITS = (Phase(0.013, GEMM), Phase(0.020))
ROOF = 5.7e10
"""Of the link of the H200 that `observe` makes up, in bytes/s."""


def offered(rule: str, cycle: tuple[Phase, ...] = WAITS, **host: float) -> list[str]:
    """What is offered against *rule* in a program of *cycle* whose host is like *host*."""
    return [remedy.text for remedy in remedies_for(rule, collect(observe(cycle, host=host)))]


CROWD = {"host_workers": 16.0, "host_worker_cpu": 1.0, "host_runqueue_wait": 1.1 * RUNQUEUE.value}


@pytest.mark.parametrize("rule", ["input_starved", "host_starved"])
def test_workers_that_wait_for_a_core_are_given_one_thread_each(rule: str) -> None:
    assert say("try.one_thread") in offered(rule, **CROWD)
    for without in (
        {"host_runqueue_wait": 0.9 * RUNQUEUE.value},
        {"host_workers": 1.0},  # nobody to take turns with
        {"host_throttled": THROTTLED.value},  # then it is the quota that they wait for
    ):
        assert say("try.one_thread") not in offered(rule, **{**CROWD, **without})


@pytest.mark.parametrize("rule", ["sync_bound", "host_starved"])
def test_what_keeps_many_cores_busy_beside_the_workers_is_to_be_computed_on_the_gpu(rule: str) -> None:
    busy = {"host_main_cpu": 1.0, "host_tree_cpu": 1.1 * CPU_COMPUTES.value}
    workers = {"host_workers": 8.0, "host_worker_cpu": 0.9, "host_tree_cpu": 7.2 + 1.0}
    beside = {**workers, "host_tree_cpu": 7.2 + 1.1 * CPU_COMPUTES.value}

    assert say("try.compute_on_gpu") in offered(rule, **busy)
    assert say("try.compute_on_gpu") in offered(rule, **beside)
    assert say("try.compute_on_gpu") not in offered(rule, host_main_cpu=1.0, host_tree_cpu=1.0)
    assert say("try.compute_on_gpu") not in offered(rule, **workers)


@pytest.mark.parametrize("rule", ["sync_bound", "host_starved"])
def test_threads_may_only_spin_so_computing_on_the_gpu_is_told_last_and_with_that_condition(
    rule: str,
) -> None:
    observation = observe(WAITS, host={"host_main_cpu": 1.0, "host_tree_cpu": 1.1 * CPU_COMPUTES.value})
    *before, last = remedies_for(rule, collect(observation))

    assert before
    assert last.text == say("try.compute_on_gpu")
    assert last.needs == (say("need.gpu_can"), say("need.threads_compute"))


def test_workers_are_started_once_only_where_there_are_some() -> None:
    assert say("try.keep_workers") in offered("periodic_stall", host_workers=1.0, host_worker_cpu=0.1)
    assert say("try.keep_workers") not in offered("periodic_stall")


def test_data_that_a_disk_holds_up_is_kept_in_memory() -> None:
    assert say("try.keep_in_memory") in offered("input_starved", host_io_wait=0.2)
    assert say("try.keep_in_memory") not in offered("input_starved", host_io_wait=0.02)


def copied(*, rx: float, tx: float) -> tuple[Phase, ...]:
    """A link that is so full, for half of the time, and then work."""
    return (
        Phase(0.005, {"pcie_rx_bytes": 2 * rx * ROOF, "pcie_tx_bytes": 2 * tx * ROOF, "ce_active": 1.0}),
        Phase(0.005, GEMM),
    )


def test_what_goes_to_the_host_and_comes_back_is_copied_less_often() -> None:
    alike, one_way = copied(rx=0.4, tx=0.4), copied(rx=0.4, tx=0.4 * 0.9 * BOTH_WAYS.value)

    assert say("try.exchange_less") in offered("transfer_bound", alike)
    assert say("try.exchange_less") not in offered("transfer_bound", one_way)
    assert say("try.exchange_less") not in offered("transfer_bound", copied(rx=0.4, tx=0.0))


def test_where_copies_fill_the_link_less_is_copied_before_anything_is_overlapped() -> None:
    def order(rx: float) -> list[str]:
        both = (say("try.copy_less"), say("try.overlap_copies"))
        return [text for text in offered("transfer_bound", copied(rx=rx, tx=0.0)) if text in both]

    full, half = order(1.05 * LINK_FULL.value), order(0.45)
    assert full == [say("try.copy_less"), say("try.overlap_copies")]
    assert half == full[::-1]


PRODUCT = {
    "gr_active": 1.0, "sm_active": 0.95, "tensor_active": 0.35, "launches": 60.0,
    "dram_read_bytes": 4.0e12, "dram_write_bytes": 0.06e12, "warps_active": 0.1,
}  # fmt: skip
"""Whose tiles follow each other along a row, so that its weights pass 64 times."""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"tensor_active": 0.9 * TENSOR_UNUSED.value}, False),  # weights that are read for each token
        ({"dram_write_bytes": 1.1 * READ_ONLY.value * 4.0e12}, False),  # results handed on through memory
    ],
)
def test_tiles_are_put_in_order_where_products_only_read(changes: dict[str, float], expected: bool) -> None:
    found = offered("memory_bound", (Phase(0.01, {**PRODUCT, **changes}),))

    assert (say("try.tile_order") in found) is expected


@pytest.mark.parametrize(
    ("warps", "idle_s", "expected"),
    [(0.9, 0.0, True), (0.9, 0.02, True), (1.1, 0.0, False), (1.1, 0.02, False)],
)
def test_more_is_kept_under_way_where_busy_sms_have_few_warps(
    warps: float, idle_s: float, expected: bool
) -> None:
    work = Phase(0.01, {**PRODUCT, "warps_active": warps * FEW_WARPS.value})
    cycle = (work, Phase(idle_s)) if idle_s else (work,)

    assert (say("try.more_under_way") in offered("latency_bound", cycle)) is expected


def test_where_nobody_counted_warps_nothing_is_said_of_them() -> None:
    work = {name: value for name, value in PRODUCT.items() if name != "warps_active"}

    assert say("try.more_under_way") not in offered("latency_bound", (Phase(0.01, work),))


@pytest.mark.parametrize(("pipe", "expected"), [(1.1, True), (0.9, False)])
def test_bytes_of_numbers_that_are_added_in_double_precision_may_be_halved(
    pipe: float, expected: bool
) -> None:
    """Where memory is the limit the FP64 pipe is hardly used, and doubles take twice the bytes anyway."""
    adds = {
        "gr_active": 1.0, "sm_active": 0.98, "dram_read_bytes": 2.1e12, "dram_write_bytes": 2.1e12,
        "launches": 700.0, "fp64_active": pipe * FP64_USED.value,
    }  # fmt: skip

    assert (say("try.find_float64") in offered("memory_bound", (Phase(0.01, adds),))) == expected
