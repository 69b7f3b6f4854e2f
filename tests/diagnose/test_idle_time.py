"""
What the idle time was: held against programs whose GPU waits for a reason that is known.

The samples are those of an H200, see tests/fixtures/frontend/README.md.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from perfzero.diagnose.idle_time import IdleTime, idle_time
from perfzero.diagnose.roofs import Roofs, roofs_of
from perfzero.sources.synthetic import BOARD, H200, steady_table
from perfzero.values import Samples

SAMPLES = Path(__file__).parents[1] / "fixtures" / "frontend" / "h200.npz"
PERIOD_NS = 100_000
BURST = ("gr_active", "ce_active", "queue_empty", "queue_semaphore")
WINDOW = 20  # samples that make one of 2 ms
TURNS = 20  # the 60 ms over and over, to have as much as a window holds


@pytest.fixture
def roofs() -> Roofs:
    return roofs_of(H200, steady_table(BOARD, start_ns=0, end_ns=5_000_000_000))


def measured(case: str, *, merged: int = 1, without: tuple[str, ...] = ()) -> Samples:
    """The program's samples, *merged* of them to one, as a window of that period would have read them."""
    with np.load(SAMPLES) as file:
        found = {
            k.removeprefix(f"{case}."): np.tile(np.asarray(v, np.float64), TURNS)
            for k, v in file.items()
            if k.startswith(f"{case}.")
        }
    rows = len(found["gr_active"]) // merged
    start = np.arange(rows, dtype=np.int64) * merged * PERIOD_NS
    columns = {}
    for name, values in found.items():
        groups = values[: rows * merged].reshape(rows, merged)
        total = name in ("launches", "pcie_rx_bytes", "pcie_tx_bytes")
        if name not in without:
            columns[name] = groups.sum(axis=1) if total else groups.mean(axis=1)
    return Samples(start, start + merged * PERIOD_NS, columns)


def burst(case: str) -> Samples:
    """The program's samples with the counters of a burst only."""
    return measured(case, without=("launches", "pcie_rx_bytes", "pcie_tx_bytes", "ctxsw"))


def adds_up(found: IdleTime) -> bool:
    return math.isclose(found.copying + found.waiting + found.unsubmitted + found.unresolved, 1.0)


@pytest.mark.parametrize("case", ["sleep", "python", "eager_tiny"])
def test_a_host_that_submits_nothing_leaves_the_queue_empty(roofs, case):
    found = idle_time(measured(case), Samples.empty(), roofs)

    assert found.unsubmitted > 0.9
    assert found.empty == pytest.approx(found.unsubmitted)
    assert found.waiting == found.copying == 0.0
    assert adds_up(found)


@pytest.mark.parametrize("case", ["copy_same_stream", "copy_side_stream", "copy_back", "pageable"])
@pytest.mark.parametrize("merged", [1, WINDOW])
def test_idle_while_a_copy_runs_is_copying_in_either_direction(roofs, case, merged):
    found = idle_time(measured(case, merged=merged), Samples.empty(), roofs)

    assert found.copying > 0.9
    assert found.waiting == 0.0
    assert adds_up(found)


def test_a_host_function_in_the_stream_makes_the_queue_wait(roofs):
    found = idle_time(measured("callback"), Samples.empty(), roofs)

    assert found.waiting > 0.9
    assert found.unsubmitted == 0.0


@pytest.mark.parametrize("case", ["sleep", "python", "eager_tiny"])
def test_a_host_that_submits_nothing_is_not_called_waiting_in_the_queue(roofs, case):
    for merged in (1, WINDOW):
        assert idle_time(measured(case, merged=merged), Samples.empty(), roofs).waiting == 0.0


@pytest.mark.parametrize("merged", [1, WINDOW])
@pytest.mark.parametrize(
    ("case", "least", "most"),
    [
        ("gemm", 0.9, 1.0), ("resnet50", 0.9, 1.0), ("graph", 0.9, 1.0), ("two_streams", 0.9, 1.0),
        ("item", 0.8, 0.95), ("sleep", 0.5, 0.75), ("python", 0.5, 0.75), ("eager_tiny", 0.0, 0.01),
    ],
)  # fmt: skip
def test_how_far_the_host_runs_ahead_is_read_from_the_queue(roofs, case, least, most, merged):
    assert least <= idle_time(measured(case, merged=merged), Samples.empty(), roofs).ahead <= most


def test_without_semaphores_an_empty_queue_under_full_samples_tells_how_far_the_host_runs_ahead(roofs):
    older = measured("item", without=("queue_semaphore",))

    assert idle_time(older, Samples.empty(), roofs).ahead > 0.8


def test_without_semaphores_and_without_a_full_sample_nobody_knows_whether_the_host_runs_ahead(roofs):
    older = measured("eager_tiny", merged=WINDOW, without=("queue_semaphore",))

    found = idle_time(older, Samples.empty(), roofs)

    assert math.isnan(found.ahead)
    assert found.unsubmitted == 0.0  # some of the time the queue was not empty, and it cannot be said when
    assert adds_up(found)


def test_without_semaphores_a_queue_that_is_not_empty_beside_no_kernel_still_waits(roofs):
    assert idle_time(measured("callback", without=("queue_semaphore",)), Samples.empty(), roofs).waiting > 0.9


def test_windows_too_long_for_the_gaps_leave_them_unresolved_and_bursts_resolve_them(roofs):
    """2 ms hold a host function of 5 ms, but not a gap of 40 µs after each read-back."""
    windows = measured("item", merged=WINDOW)
    gaps = np.tile([1.0, 0.0, 0.0], 700)  # a kernel of 20 µs, and 40 µs with an empty queue
    start = np.arange(len(gaps), dtype=np.int64) * 20_000
    close = Samples(
        start,
        start + 20_000,
        {"gr_active": gaps, "ce_active": 0 * gaps, "queue_empty": 1.0 - gaps, "queue_semaphore": 0.95 * gaps},
    )

    assert idle_time(windows, Samples.empty(), roofs).unresolved > 0.9
    assert idle_time(windows, close, roofs).unsubmitted == pytest.approx(1.0)


def test_bursts_cannot_see_a_copy_from_the_gpu_and_do_not_hide_it(roofs):
    """Their only sign of a copy is an engine that copies to the GPU."""
    windows, close = measured("copy_back", merged=WINDOW), burst("copy_back")

    assert idle_time(windows, close, roofs).copying > 0.9
    assert idle_time(windows, close, roofs).unsubmitted < 0.1


def test_what_bursts_resolve_is_what_copies_leave(roofs):
    """Windows: 0.4 of the idle time copies, the rest among kernels. Bursts: an empty queue, all of it."""
    start = np.arange(500, dtype=np.int64) * 2_000_000
    copies = np.arange(500) % 5 < 2
    gr = np.where(copies, 0.0, 0.04)
    windows = Samples(
        start,
        start + 2_000_000,
        {
            "gr_active": gr, "ce_active": 1.0 * copies, "launches": np.full(500, 20.0),
            "queue_empty": np.full(500, 0.9), "queue_semaphore": np.full(500, 0.1),
        },
    )  # fmt: skip
    begin = np.arange(1000, dtype=np.int64) * 20_000
    nothing = {"gr_active": 0.0, "ce_active": 0.0, "queue_empty": 1.0, "queue_semaphore": 0.0}
    close = Samples(begin, begin + 20_000, {k: np.full(1000, v) for k, v in nothing.items()})

    found = idle_time(windows, close, roofs)

    assert found.copying == pytest.approx(0.4, abs=0.02)
    assert found.copying + found.unsubmitted == pytest.approx(1.0)
    assert adds_up(found)


def test_a_queue_that_the_launches_do_not_pass_through_says_nothing(roofs):
    """As in a ResNet-50 whose kernels all went through the other queue: empty throughout, at 7,400/s."""
    blind = measured("sleep")
    blind = blind.with_columns({"queue_empty": np.ones(len(blind)), "queue_semaphore": np.zeros(len(blind))})

    assert idle_time(blind, Samples.empty(), roofs) == IdleTime(
        0.0, 0.0, 0.0, 1.0, pytest.approx(math.nan, nan_ok=True)
    )


@pytest.mark.parametrize("missing", [("queue_empty", "queue_semaphore"), ("launches",)])
def test_counters_that_are_missing_leave_everything_unresolved_but_copies(roofs, missing):
    found = idle_time(measured("copy_back", without=missing), Samples.empty(), roofs)

    assert found.waiting == found.unsubmitted == 0.0
    assert found.copying > 0.9
    assert math.isnan(found.ahead)
    assert adds_up(found)


def test_no_sample_at_all_is_no_answer(roofs):
    found = idle_time(Samples.empty(), Samples.empty(), roofs)

    assert found.unresolved == 1.0
    assert math.isnan(found.ahead)


def test_a_shift_in_time_changes_nothing(roofs):
    here = measured("callback")
    later = Samples(here.start_ns + 10**15, here.end_ns + 10**15, here.columns)

    assert idle_time(later, Samples.empty(), roofs) == idle_time(here, Samples.empty(), roofs)
