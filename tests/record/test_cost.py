"""What watching cost, estimated from what the program achieved inside and outside windows."""

from __future__ import annotations

import numpy as np

from perfzero.record.cost import slowdown
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
