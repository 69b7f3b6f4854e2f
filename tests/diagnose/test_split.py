"""A sample's time is shared out among classes as it was put together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfzero.diagnose.roofs import roofs_of
from perfzero.diagnose.split import AT, classify, rates_of, split_time
from perfzero.sources.synthetic import H200, SECOND_NS, START_NS, Phase, signal
from perfzero.values import Samples

ROOFS = roofs_of(H200, Samples.empty())
DRAM = 0.895 * 4.917e12
NONE = Samples.empty()


def pm(*cycle: Phase, seconds: float = 1.0, period_ns: int = 1_000_000) -> Samples:
    return signal(cycle, start_ns=START_NS, end_ns=START_NS + round(seconds * SECOND_NS), period_ns=period_ns)


def shares_of(*cycle: Phase, **changes) -> dict[str, float]:
    found = split_time(pm(*cycle, **changes), NONE, ROOFS)
    assert found is not None
    return {name: share for name, share in found.shares.items() if share > 1e-6}


def test_the_roofs_of_an_h200_are_those_measured():
    assert pytest.approx(ROOFS.dram, rel=0.001) == DRAM
    assert pytest.approx(ROOFS.pcie, rel=0.01) == 5.79e10
    assert ROOFS.nvlink == 4.5e11


def test_gaps_of_20_ms_in_cycles_of_50_are_40_percent_idle():
    found = shares_of(Phase(0.030, {"gr_active": 1.0, "sm_active": 0.9, "tensor_active": 0.85}), Phase(0.020))

    assert {"idle": pytest.approx(0.4, abs=1e-6), "tensor": pytest.approx(0.6, abs=1e-6)} == found


def test_gaps_shorter_than_a_sample_are_idle_too():
    found = shares_of(Phase(6e-5, {"gr_active": 1.0, "sm_active": 0.9, "tensor_active": 0.85}), Phase(4e-5))

    assert pytest.approx(found["idle"], abs=0.001) == 0.4
    assert pytest.approx(found["tensor"], abs=0.001) == 0.6


@pytest.mark.parametrize(
    ("levels", "name"),
    [
        ({"tensor_active": 0.90, "dram_read_bytes": 1e12}, "tensor"),
        ({"dram_read_bytes": 0.7 * DRAM, "tensor_active": 0.3}, "memory"),
        ({"fma_active": 0.8}, "fma"),
        ({"fp64_active": 0.8}, "fma"),
        ({"sm_active": 0.2}, "small_grid"),
        ({"dram_read_bytes": 0.2 * DRAM}, "latency"),
        ({"sm_active": 0.15, "nvlink_rx_bytes": 2e11}, "communication"),
        ({"sm_active": 0.15, "pcie_rx_bytes": 2e10, "pcie_tx_bytes": 2e10}, "communication"),
    ],
)
def test_a_busy_sample_goes_to_the_class_of_its_rates(levels, name):
    found = shares_of(Phase(0.01, {"gr_active": 1.0, "sm_active": 0.95, **levels}))

    assert {name: 1.0} == pytest.approx(found)


def test_rates_are_judged_for_the_busy_part_alone():
    """Half idle and half at the DRAM roof is no latency, though DRAM is at 50 % over all."""
    found = shares_of(
        Phase(5e-5, {"gr_active": 1.0, "sm_active": 0.95, "dram_read_bytes": DRAM}), Phase(5e-5)
    )

    assert pytest.approx(found, abs=0.001) == {"idle": 0.5, "memory": 0.5}


def test_kernels_of_two_kinds_within_a_sample_share_it():
    """Half of each millisecond at the DRAM roof, half at the tensor roof."""
    found = shares_of(
        Phase(5e-5, {"gr_active": 1.0, "sm_active": 0.95, "dram_read_bytes": DRAM}),
        Phase(5e-5, {"gr_active": 1.0, "sm_active": 0.95, "tensor_active": 0.92}),
    )

    assert pytest.approx(found, abs=0.01) == {"memory": 0.5, "tensor": 0.5}


def test_what_two_kinds_leave_over_is_latency():
    found = shares_of(
        Phase(
            0.01, {"gr_active": 1.0, "sm_active": 0.9, "dram_read_bytes": 0.4 * DRAM, "tensor_active": 0.276}
        )
    )

    assert pytest.approx(found, abs=0.01) == {"memory": 0.4, "tensor": 0.3, "latency": 0.3}


def test_a_slow_copy_claims_the_idle_time_around_it():
    """A pageable copy as measured: the engine moves data 24 % of the time and GR reads 3 %."""
    found = shares_of(Phase(0.01, {"gr_active": 0.03, "pcie_rx_bytes": 7.1e9, "ce_active": 0.24}))

    assert pytest.approx(found["copy"]) == 0.97
    assert "idle" not in found


def test_an_engine_that_clears_memory_copies_nothing():
    """As measured between cudaFree and cudaMalloc: 424 GB/s are written, and 25 MB/s come in."""
    scrub = {"ce_active": 1.0, "dram_write_bytes": 4.24e11, "dram_read_bytes": 1.7e9, "pcie_rx_bytes": 2.5e7}

    assert shares_of(Phase(0.01, scrub)) == {"idle": 1.0}
    assert shares_of(Phase(0.01, {**scrub, "pcie_rx_bytes": 5.7e10})) == {"copy": 1.0}


def test_a_trickle_over_pcie_is_no_copy():
    found = shares_of(Phase(0.01, {"gr_active": 0.5, "sm_active": 0.5, "pcie_tx_bytes": 5e8}))

    assert "copy" not in found


def test_a_copy_beside_kernels_costs_nothing():
    found = shares_of(
        Phase(0.01, {"gr_active": 1.0, "sm_active": 0.9, "tensor_active": 0.8, "ce_active": 1.0})
    )

    assert pytest.approx(found) == {"tensor": 1.0}


def test_zoom_bursts_divide_the_busy_part_and_leave_idle_alone():
    """At 1 ms everything looks like one mixture; at 10 µs the kernels stand apart."""
    cycle = (
        Phase(3e-4, {"gr_active": 1.0, "sm_active": 0.95, "dram_read_bytes": 0.9 * DRAM}),
        Phase(4e-4, {"gr_active": 1.0, "sm_active": 0.95, "tensor_active": 0.30}),
        Phase(3e-4),
    )
    near = pm(*cycle, seconds=0.1, period_ns=10_000)

    found = split_time(pm(*cycle), near, ROOFS)

    assert found is not None
    assert found.from_zoom
    assert pytest.approx(found.shares["idle"], abs=0.001) == 0.3
    assert pytest.approx(found.shares["memory"], abs=0.01) == 0.3
    assert pytest.approx(found.shares["latency"], abs=0.01) == 0.4
    assert sum(found.shares.values()) == 1.0


def test_bursts_that_saw_other_work_are_not_used():
    long = pm(Phase(0.01, {"gr_active": 1.0, "sm_active": 0.95, "tensor_active": 0.8}))
    near = pm(
        Phase(0.01, {"gr_active": 1.0, "sm_active": 0.95, "dram_read_bytes": DRAM}),
        seconds=0.1,
        period_ns=10_000,
    )

    found = split_time(long, near, ROOFS)

    assert found is not None
    assert not found.from_zoom
    assert "other work" in (found.zoom_refused or "")
    assert pytest.approx(found.shares["tensor"]) == 1.0


def test_bursts_with_hardly_any_work_are_not_used():
    long = pm(Phase(0.01, {"gr_active": 0.01, "sm_active": 0.01}))
    near = pm(Phase(0.01, {"gr_active": 0.01, "sm_active": 0.01}), seconds=0.1, period_ns=10_000)

    found = split_time(long, near, ROOFS)

    assert found is not None
    assert not found.from_zoom


def test_missing_counters_are_not_taken_for_zero_use():
    """Without DRAM, tensor and FMA counters the SMs are still seen; nothing is called memory."""
    bare = pm(Phase(0.01, {"gr_active": 1.0, "sm_active": 0.9}))
    bare = Samples(bare.start_ns, bare.end_ns, {k: bare.columns[k] for k in ("gr_active", "sm_active")})

    found = split_time(bare, NONE, ROOFS)

    assert found is not None
    assert found.shares["latency"] == 1.0
    assert np.isnan(found.rates.memory).all()


def test_samples_without_gr_activity_are_left_out_and_counted():
    table = pm(Phase(0.01, {"gr_active": 1.0, "sm_active": 0.9, "tensor_active": 0.8}))
    gr = table.column("gr_active").copy()
    gr[:250] = np.nan

    found = split_time(table.with_columns({"gr_active": gr}), NONE, ROOFS)

    assert found is not None
    assert pytest.approx(found.known) == 0.75
    assert pytest.approx(found.shares["tensor"]) == 1.0


def test_no_gr_activity_at_all_cannot_be_split():
    assert split_time(NONE, NONE, ROOFS) is None


def test_launch_gaps_are_fine_and_waits_are_not():
    launches = split_time(pm(Phase(4e-6, {"gr_active": 1.0}), Phase(2.2e-5)), NONE, ROOFS)
    waits = split_time(pm(Phase(0.03, {"gr_active": 1.0}), Phase(0.05)), NONE, ROOFS)

    assert launches is not None
    assert waits is not None
    assert launches.fine_idle > 0.99
    assert waits.fine_idle < 0.05


@pytest.mark.parametrize("length_ns", [2_000_001, 1_999_999, 2_000_033])
def test_samples_of_the_default_period_tell_them_apart_whatever_their_stamps_do(length_ns):
    launches = pm(Phase(1e-4, {"gr_active": 0.9}), Phase(1e-4), period_ns=length_ns)
    assert split_time(launches, NONE, ROOFS).fine_idle > 0.99


def test_samples_twice_as_long_do_not():
    launches = pm(Phase(1e-4, {"gr_active": 0.9}), Phase(1e-4), period_ns=4_000_000)
    assert np.isnan(split_time(launches, NONE, ROOFS).fine_idle)


ratio = st.floats(0, 1)


SHORT = {"gr_active": 1.0, "sm_active": 0.4, "dram_read_bytes": 0.36 * DRAM, "launches": 2.5e5}


def test_in_short_kernels_that_read_for_all_sms_memory_has_its_part_and_latency_the_rest():
    """With 40 % of the SMs at work memory is at 36 %: with all of them it would be at its limit."""
    found = shares_of(Phase(1.0, SHORT))

    assert {"memory": pytest.approx(0.36, abs=0.01), "latency": pytest.approx(0.64, abs=0.01)} == found


@pytest.mark.parametrize(
    "changes",
    [
        {"launches": 4e4},  # of 25 us: nothing of them is their beginning and end
        {"launches": np.nan},
        {"dram_read_bytes": 0.2 * DRAM},  # half of what all SMs would need
        {"sm_active": 0.08, "dram_read_bytes": 0.08 * DRAM},
    ],
)
def test_other_kernels_on_less_than_half_of_the_sms_are_small_grids(changes: dict[str, float]):
    assert shares_of(Phase(1.0, {**SHORT, **changes})) == {"small_grid": 1.0}


def test_bursts_take_from_the_long_windows_how_long_kernels_are():
    uncounted = {name: level for name, level in SHORT.items() if name != "launches"}
    found = split_time(pm(Phase(1.0, SHORT)), pm(Phase(1.0, uncounted), period_ns=10_000), ROOFS)

    assert found is not None
    assert found.from_zoom
    assert found.shares["latency"] == pytest.approx(0.64, abs=0.01)


@given(st.lists(st.tuples(ratio, ratio, ratio, ratio, ratio, ratio), min_size=1, max_size=20))
def test_every_sample_is_shared_out_completely(rows):
    gr, sm, tensor, fma, dram, engine = np.array(rows).T
    count = len(gr)
    start = START_NS + 10**6 * np.arange(count)
    table = Samples(
        start,
        start + 10**6,
        {
            "gr_active": gr,
            "sm_active": sm * gr,
            "tensor_active": tensor * gr,
            "fma_active": fma * gr,
            "dram_read_bytes": dram * 4.9e9,
            "dram_write_bytes": np.zeros(count),
            "ce_active": engine,
        },
    )

    weights = classify(rates_of(table, ROOFS))

    assert np.allclose(1.0, weights.sum(axis=1))
    assert (weights >= -1e-12).all()
    assert np.allclose(1.0 - gr, weights[:, AT["idle"]] + weights[:, AT["copy"]])
    found = split_time(table, NONE, ROOFS)
    assert found is not None
    assert sum(found.shares.values()) == 1.0


def alternating(seconds: float = 4.0) -> tuple[Samples, np.ndarray]:
    """Steps of 0.2 s, every second one idle for half of it, and where they begin."""
    quiet, full = Phase(0.1), Phase(0.1, {"gr_active": 1.0, "sm_active": 1.0, "tensor_active": 0.9})
    starts = START_NS + np.arange(0, int(seconds * 5)) * 200_000_000
    return pm(full, full, full, quiet, seconds=seconds), starts.astype(np.int64)


def test_the_interval_of_a_share_comes_from_whole_steps() -> None:
    samples, starts = alternating()
    by_steps = split_time(samples, NONE, ROOFS, starts_ns=starts)

    assert by_steps is not None
    low, high = by_steps.interval("idle")
    assert low < 0.25 < high
    assert by_steps.shares["idle"] == pytest.approx(0.25, abs=0.01)
    assert low > 0.10


def test_too_few_steps_leave_it_to_blocks_of_time() -> None:
    samples, starts = alternating()
    few, none = (split_time(samples, NONE, ROOFS, starts_ns=s) for s in (starts[:4], None))

    assert few is not None
    assert none is not None
    assert np.array_equal(few.replicates, none.replicates)


def test_a_step_that_never_varies_has_no_width() -> None:
    samples = pm(Phase(0.05, {"gr_active": 1.0}), Phase(0.05), seconds=4.0)
    starts = (START_NS + np.arange(40) * 100_000_000).astype(np.int64)
    found = split_time(samples, NONE, ROOFS, starts_ns=starts)

    assert found is not None
    low, high = found.interval("idle")
    assert high - low < 0.01
