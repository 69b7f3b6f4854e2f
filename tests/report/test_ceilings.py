"""The roofs that kernels of a look are held against."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from perfzero.hardware import FMA_ROOF, TENSOR_ROOF
from perfzero.report.ceilings import ceilings
from perfzero.values import Gpu, Look, Observation, Samples

H200 = Gpu(
    0, "GPU-0", "NVIDIA H200", chip="GH100", compute_capability=(9, 0), sm_count=132,
    sm_clock_max_hz=1.98e9, memory_clock_max_hz=3.201e9, memory_bus_bits=6016,
)  # fmt: skip
LOOK = Look(1, 100, 200, file="look-1.json.gz", steps_ns=(120, 180))


def clocks(name: str, *values: float, start: int = 0, **others: float) -> Samples:
    at = np.arange(len(values), dtype=np.int64) * 10 + start
    columns = {name: np.array(values), **{n: np.full(len(values), v) for n, v in others.items()}}
    return Samples(at, at + 10, columns)


def seen(**tables: Samples) -> Observation:
    nothing = dict.fromkeys(("pm", "zoom", "gpm", "board", "host"), Samples.empty())
    return Observation(H200, "pm", **{**nothing, **tables})  # type: ignore[arg-type]


def test_the_clock_is_that_of_the_samples_beside_the_look() -> None:
    found = ceilings(
        seen(close_up=clocks("gpc_clock", 1.5e9, math.nan, 1.5e9), pm=clocks("gpc_clock", 1e9, gr_active=1)),
        LOOK,
    )

    assert found.flops["bf16"] == pytest.approx(132 * 4096 * 1.5e9 * TENSOR_ROOF.share)
    assert found.flops["fp32"] == pytest.approx(132 * 256 * 1.5e9 * FMA_ROOF.share)
    assert found.dram == pytest.approx(4.3e12, rel=0.01)


def test_without_it_the_clock_is_that_of_the_busy_gpu_and_then_the_last_that_nvml_reported() -> None:
    pm = clocks("gpc_clock", 1.4e9, gr_active=0.9)
    idle = clocks("gpc_clock", 0.3e9, gr_active=0.1)
    board = clocks("sm_clock", 1.2e9, 1.3e9, 1.9e9, start=175)  # the last one ends after the look

    assert ceilings(seen(pm=pm, board=board), LOOK).flops["tf32"] == pytest.approx(
        132 * 2048 * 1.4e9 * TENSOR_ROOF.share
    )
    assert ceilings(seen(pm=idle, board=board), LOOK).flops["tf32"] == pytest.approx(
        132 * 2048 * 1.3e9 * TENSOR_ROOF.share
    )


def test_without_any_clock_or_of_an_unknown_gpu_no_peak_is_known() -> None:
    unknown = replace(seen(close_up=clocks("gpc_clock", 1.5e9)), gpu=Gpu(0, "GPU-0", "?"))

    assert all(map(math.isnan, ceilings(seen(), LOOK).flops.values()))
    assert all(map(math.isnan, ceilings(unknown, LOOK).flops.values()))
    assert math.isnan(ceilings(unknown, LOOK).dram)


def test_what_was_measured_on_this_gpu_goes_before_the_table() -> None:
    measured = replace(H200, calibrated={"dram": 4e12, "bf16": 0.8})
    found = ceilings(replace(seen(close_up=clocks("gpc_clock", 1.5e9)), gpu=measured), LOOK)

    assert found.dram == 4e12
    assert found.flops["bf16"] == pytest.approx(132 * 4096 * 1.5e9 * 0.8)
