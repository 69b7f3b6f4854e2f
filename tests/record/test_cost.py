"""What watching cost, estimated from what the program achieved inside and outside windows."""

from __future__ import annotations

import time

import numpy as np

from perfzero.record.cost import KEPT_NS, Averages, slowdown
from perfzero.values import Samples, Window

HALF = 500_000_000


def run(*, effect, noise=0.002, seconds=300, every=10, level=0.6):
    rng = np.random.default_rng(3)
    n = seconds * 2
    start = np.arange(n) * HALF
    windows = [
        Window(0, "regular", s * 2 * HALF, (s * 2 + 3) * HALF, 1_000_000, 1500, 0)
        for s in range(5, seconds - 5, every)
    ]
    dram = level * (1 + noise * rng.standard_normal(n))
    for w in windows:
        dram[(start >= w.start_ns) & (start + HALF <= w.end_ns)] *= 1 - effect
    return Samples(start, start + HALF, {"dram_active": dram}), windows


def test_an_effect_of_one_percent_is_found_with_its_interval():
    found = slowdown(*run(effect=0.01))
    assert found.low < 0.01 < found.high
    assert 0.007 < found.value < 0.013


def test_no_effect_gives_an_interval_around_zero():
    found = slowdown(*run(effect=0.0))
    assert found.low < 0.0 < found.high
    assert found.high - found.low < 0.004


def test_a_program_that_varies_wildly_gets_no_figure_but_the_reason():
    found = slowdown(*run(effect=0.0, noise=0.6))
    assert found.value is None
    assert "varies too much" in found.note


def test_too_few_windows_give_no_figure():
    found = slowdown(*run(effect=0.01, seconds=30))
    assert found.value is None
    assert "windows" in found.note


def test_an_idle_gpu_shows_no_rate_to_compare():
    found = slowdown(*run(effect=0.0, level=0.001))
    assert found.value is None


def test_a_row_that_was_not_delivered_does_not_void_the_estimate():
    gpm, windows = run(effect=0.01)
    gpm.column("dram_active")[[3, 77, 204]] = np.nan
    assert 0.007 < slowdown(gpm, windows).value < 0.013


def test_rows_that_are_mostly_missing_give_no_estimate():
    gpm, windows = run(effect=0.01)
    gpm.column("dram_active")[: len(gpm) * 2 // 3] = np.nan
    assert slowdown(gpm, windows).value is None


def test_a_week_of_windows_is_compared_in_a_moment():
    gpm, windows = run(effect=0.01, seconds=40_000, every=4)
    began = time.process_time()
    assert 0.009 < slowdown(gpm, windows).value < 0.011
    assert time.process_time() - began < 5.0  # each window against every row: minutes


def row(start, **columns):
    return Samples(
        np.array([start]), np.array([start + HALF]), {k: np.array([v]) for k, v in columns.items()}
    )


def test_averages_keep_what_the_estimate_needs_and_forget_what_is_hours_old():
    averages = Averages()
    hour = 3_600_000_000_000
    for i in range(20):
        averages.add(row(i * hour, gr_active=0.9, dram_active=i / 100, pcie_rx_bytes=1.0))
    table = averages.table()

    assert list(table.columns) == ["gr_active", "dram_active", "tensor_active"]
    assert table.column("dram_active")[-1] == 0.19
    assert np.isnan(table.column("tensor_active")).all()
    assert KEPT_NS - hour <= table.end_ns[-1] - table.start_ns[0] <= 2 * KEPT_NS


def test_averages_without_a_row_are_an_empty_table():
    assert len(Averages().table()) == 0
