"""
What counters tell of the rows of a breakdown.

The traces are written by hand (`hand_written_look`), and the samples are made from them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hand_written_look import BASE_NS, Look
from perfzero.attribute.breakdown import UNATTRIBUTED_ROW, Breakdown
from perfzero.attribute.counted import TOO_MANY, Counting, Figure, count, in_order
from perfzero.attribute.mixing import Kernels
from perfzero.attribute.tree import CLOCK_UNKNOWN, NOT_SAMPLED, SEVERAL_GPUS, break_down
from perfzero.traces import Trace
from perfzero.values import FloatArray, Samples

STEPS = 12
NAMES = ("fprop", "norm", "gemm", "adam")
LENGTHS = (180, 120, 310, 90)
READS = {"fprop": 1000.0, "norm": 3000.0, "gemm": 200.0, "adam": 2500.0}
"""Bytes per ns."""
TENSOR = {"fprop": 0.6, "norm": 0.0, "gemm": 0.9, "adam": 0.0}
HIT = {"fprop": 0.8, "norm": 0.1, "gemm": 0.9, "adam": 0.5}
SECTORS = {"fprop": 40.0, "norm": 10.0, "gemm": 80.0, "adam": 5.0}


def a_trace(folder: Path, *, rest_us: float = 0.0) -> Trace:
    """Steps of four kernels: two of modules, one of the whole, and the optimizer's; then the GPU rests."""
    look = Look()
    at = 0.0
    for number in range(STEPS):
        look.step(number, at, at + 700)
        look.module("", "Net", at + 1, at + 90)
        now = at + 2
        for place, (name, length) in enumerate(zip(NAMES, LENGTHS, strict=True)):
            launched = at + 10 + 20 * place
            if name in ("fprop", "norm"):
                look.module(name, name.title(), launched, launched + 15)
            if name == "adam":
                look.optimizer(at + 95, at + 105)
                launched = at + 96
            look.op(f"aten::{name}", launched + 1, launched + 9)
            correlation = look.launch(launched + 2)
            look.kernel(name, now, now + length, correlation=correlation)
            now += length + 3
        at += 730.0 + rest_us
    return look.trace(folder)


def sampled(trace: Trace, period_us: float = 20.0, late_us: float = 0.0) -> Samples:
    """Samples of the kernels of *trace*, stamped *late_us* later."""
    work = trace.work
    edges = np.arange(-50.0, (work.end_ns.max() - BASE_NS) / 1e3 + 50, period_us) * 1e3
    start, end = (at - BASE_NS for at in (work.start_ns, work.end_ns))
    time = np.minimum(edges[1:], end[:, None]) - np.maximum(edges[:-1], start[:, None])
    time = np.maximum(time, 0.0)

    def amount(rates: dict[str, float]) -> FloatArray:
        return np.asarray([rates[work.names[n]] for n in work.name] @ time, np.float64)

    length = np.diff(edges)
    sectors = amount(SECTORS)
    hits = amount({name: HIT[name] * SECTORS[name] for name in NAMES})
    stamps = (edges + late_us * 1e3).astype(np.int64) + BASE_NS
    return Samples(
        stamps[:-1],
        stamps[1:],
        {
            "dram_read_bytes": amount(READS),
            "tensor_active": amount(TENSOR) / length,
            "l2_sectors": sectors,
            "l2_hit": np.where(sectors > 0, hits / np.where(sectors > 0, sectors, 1), np.nan),
        },
    )


def bytes_of(*names: str) -> float:
    return STEPS * sum(READS[n] * 1e3 * LENGTHS[NAMES.index(n)] for n in names)


def kernel(breakdown: Breakdown, name: str, quantity: str) -> Figure:
    (row,) = (k.row for k in breakdown.kernels if k.row.name == name)
    figure = getattr(row.counted, quantity)
    assert isinstance(figure, Figure)
    return figure


def test_kernels_get_what_they_read(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    found = break_down(trace, sampled(trace))
    for name in NAMES:
        reads = kernel(found, name, "dram_read_bytes")
        assert reads.value == pytest.approx(bytes_of(name), rel=0.03)
        assert reads.low < bytes_of(name) < reads.high
        assert reads.share == pytest.approx(bytes_of(name) / bytes_of(*NAMES), abs=0.01)


def test_kernels_of_a_trace_that_marks_no_steps_get_what_they_read(tmp_path: Path) -> None:
    """The same four kernels, without launches, steps, modules and operators: as CUPTI alone tells them."""
    look, now = Look(), 0.0
    for number in range(STEPS):
        for place, (name, length) in enumerate(zip(NAMES, LENGTHS, strict=True)):
            look.kernel(name, now, now + length, correlation=10 * number + place + 1)
            now += length + 3
        now += 50
    trace = look.trace(tmp_path)
    found = break_down(trace, sampled(trace))

    assert found.steps == STEPS
    for name in NAMES:
        assert kernel(found, name, "dram_read_bytes").value == pytest.approx(bytes_of(name), rel=0.03)


def test_levels_are_means_over_the_time_of_a_row(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    found = break_down(trace, sampled(trace))
    for name in NAMES:
        assert kernel(found, name, "tensor_active").value == pytest.approx(TENSOR[name], abs=0.02)
    assert found.counted is not None
    assert found.counted.tensor_active is not None
    mean = sum(TENSOR[n] * t for n, t in zip(NAMES, LENGTHS, strict=True)) / sum(LENGTHS)
    assert found.counted.tensor_active.value == pytest.approx(mean, rel=0.02)


def test_hits_are_summed_up_before_they_become_a_ratio(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    found = break_down(trace, sampled(trace))
    for name in NAMES:
        hit = kernel(found, name, "l2_hit")
        assert hit.value == pytest.approx(HIT[name], abs=0.03)
        assert hit.low < HIT[name] < hit.high < hit.low + 0.15
    assert found.counted is not None
    assert found.counted.l2_hit is not None
    sectors = {n: SECTORS[n] * t for n, t in zip(NAMES, LENGTHS, strict=True)}
    whole = sum(HIT[n] * sectors[n] for n in NAMES) / sum(sectors.values())
    assert found.counted.l2_hit.value == pytest.approx(whole, abs=0.01)


def test_counted_hits_go_before_a_ratio_of_them(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    samples = sampled(trace)
    hits = samples.column("l2_sectors") * 0.25
    found = break_down(trace, samples.with_columns({"l2_hit_sectors": hits}))
    assert kernel(found, "gemm", "l2_hit").value == pytest.approx(0.25, abs=0.01)


def test_modules_operators_and_what_stands_beside_them_get_theirs(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    found = break_down(trace, sampled(trace))
    own = {m.path: m.own.counted for m in found.modules}
    total = {m.path: m.total_counted for m in found.modules}
    beside = {row.name: row.counted for row in found.elsewhere}
    operators = {row.name: row.counted for row in found.operators}
    for counted, names in (
        (own["fprop"], ["fprop"]),
        (own[""], ["gemm"]),
        (total[""], ["fprop", "norm", "gemm"]),
        (beside["optimizer"], ["adam"]),
        (operators["aten::norm"], ["norm"]),
        (found.counted, list(NAMES)),
        *((a.row.counted, [a.row.name or "gemm"]) for a in found.alike),
    ):
        assert counted is not None
        assert counted.dram_read_bytes is not None
        assert counted.dram_read_bytes.value == pytest.approx(bytes_of(*names), rel=0.03)
    for rows in (beside, operators):
        nothing = rows[UNATTRIBUTED_ROW]
        assert nothing is not None
        assert nothing.dram_read_bytes is not None
        assert nothing.dram_read_bytes.value == 0
        assert nothing.tensor_active is not None
        assert math.isnan(nothing.tensor_active.value)


def test_a_counter_that_was_not_sampled_is_none(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    samples = sampled(trace)
    found = break_down(trace, Samples(samples.start_ns, samples.end_ns, {"l2_hit": samples.column("l2_hit")}))
    assert found.doubts == (NOT_SAMPLED,)
    found = break_down(trace, samples)
    assert found.counted is not None
    assert found.counted.dram_write_bytes is None
    assert found.counted.fma_active is None


def test_the_clock_of_the_samples_is_found(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    found = break_down(trace, sampled(trace, late_us=13.0))
    assert found.sampled is not None
    assert found.sampled.clock.offset_ns == pytest.approx(13_000, abs=500)
    assert kernel(found, "norm", "dram_read_bytes").value == pytest.approx(bytes_of("norm"), rel=0.03)
    assert found.doubts == ()


def test_a_quantity_has_a_lag_of_its_own(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    work = trace.work
    by = 2_000  # ns
    later = replace(trace, work=replace(work, start_ns=work.start_ns + by, end_ns=work.end_ns + by))
    samples, late = sampled(trace), sampled(later)
    writes = late.column("dram_read_bytes")[: len(samples)]
    samples = samples.with_columns({"dram_write_bytes": writes})
    found = break_down(trace, samples)
    assert found.sampled is not None
    lags = {q.name: q.lag_ns for q in found.sampled.quantities}
    assert lags["dram_read_bytes"] == pytest.approx(0, abs=300)
    assert lags["dram_write_bytes"] == pytest.approx(by, abs=300)
    assert kernel(found, "norm", "dram_write_bytes").value == pytest.approx(bytes_of("norm"), rel=0.05)
    misfit = {q.name: q.misfit for q in found.sampled.quantities}
    assert misfit["dram_write_bytes"] == pytest.approx(misfit["dram_read_bytes"], rel=0.5)


def test_what_no_kernel_takes_is_told(tmp_path: Path) -> None:
    trace = a_trace(tmp_path, rest_us=80.0)
    samples = sampled(trace)
    reads = samples.column("dram_read_bytes").copy()
    idle = np.flatnonzero(reads[10:-10] == 0) + 10
    reads[idle[:3]] = bytes_of(*NAMES) / 10
    found = break_down(trace, samples.with_columns({"dram_read_bytes": reads}))
    assert found.sampled is not None
    of = next(q for q in found.sampled.quantities if q.name == "dram_read_bytes")
    assert of.unattributed == pytest.approx(0.3 * bytes_of(*NAMES), rel=0.1)
    assert of.unattributed_share == pytest.approx(of.unattributed / of.counted)
    assert kernel(found, "gemm", "dram_read_bytes").value == pytest.approx(bytes_of("gemm"), rel=0.2)


def test_kernels_that_samples_do_not_tell_apart_name_each_other(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    found = break_down(trace, sampled(trace, period_us=730.0))
    assert CLOCK_UNKNOWN in found.doubts
    assert any("0.7 ms long" in doubt for doubt in found.doubts)
    figures = {name: kernel(found, name, "dram_read_bytes") for name in NAMES}
    for name in ("norm", "adam"):
        figure = figures[name]
        assert math.isnan(figure.value)
        assert math.isnan(figure.share)
        assert figure.low < bytes_of(name) < figure.high
        assert set(figure.with_rows) < set(NAMES)
        assert figure.together == pytest.approx(bytes_of(name, *figure.with_rows), rel=0.2)
    assert found.counted is not None
    assert found.counted.dram_read_bytes is not None
    assert found.counted.dram_read_bytes.value == pytest.approx(bytes_of(*NAMES), rel=0.05)


def test_work_from_before_the_trace_is_learned_from_but_not_told(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    correlation = trace.work.correlation.copy()
    correlation[:1] = 0
    earlier = replace(trace, work=replace(trace.work, correlation=correlation))
    found = break_down(earlier, sampled(trace))
    assert found.counted is not None
    assert found.counted.dram_read_bytes is not None
    told = bytes_of(*NAMES) - bytes_of("fprop") / STEPS
    assert found.counted.dram_read_bytes.value == pytest.approx(told, rel=0.005)
    assert found.counted.dram_read_bytes.share == pytest.approx(1.0)
    assert kernel(found, "norm", "dram_read_bytes").value == pytest.approx(bytes_of("norm"), rel=0.03)


def test_without_samples_nothing_is_counted(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    for none in (None, Samples.empty()):
        found = break_down(trace, none)
        assert found.counted is found.sampled is None
        assert all(k.row.counted is None for k in found.kernels)
        assert found.doubts == ()


def test_samples_of_another_time_are_not_shared_out(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    found = break_down(trace, sampled(trace, late_us=1e6))
    assert found.counted is None
    assert found.doubts == (NOT_SAMPLED,)


def test_work_of_several_gpus_gets_no_counters(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    device = trace.work.device.copy()
    device[5] = 1
    found = break_down(replace(trace, work=replace(trace.work, device=device)), sampled(trace))
    assert found.counted is None
    assert found.doubts == (SEVERAL_GPUS,)


def test_samples_are_brought_in_order() -> None:
    samples = Samples(
        np.array([0, 0, 98, 150, 200, 300]),
        np.array([0, 100, 200, 250, 300, 400]),
        {"dram_read_bytes": np.arange(6.0)},
    )
    found = in_order(samples)
    assert found.start_ns.tolist() == [0, 100, 200, 300]
    assert found.end_ns.tolist() == [100, 200, 300, 400]
    assert found.column("dram_read_bytes").tolist() == [1, 2, 4, 5]
    assert len(in_order(Samples.empty())) == 0


def reads(breakdown: Breakdown, name: str) -> Figure | None:
    (row,) = (k.row for k in breakdown.kernels if k.row.name == name)
    assert row.counted is not None
    return row.counted.dram_read_bytes


@pytest.mark.parametrize(("part", "percent"), [(0.7, "70 %"), (0.6, "60 %")])
def test_samples_in_a_part_of_the_trace_say_how_large_it_is(
    tmp_path: Path, part: float, percent: str
) -> None:
    trace = a_trace(tmp_path)
    samples = sampled(trace)
    found = break_down(trace, samples.where(np.arange(len(samples)) < part * len(samples)))

    [doubt] = found.doubts
    assert percent in doubt
    assert kernel(found, "norm", "dram_read_bytes").value == pytest.approx(bytes_of("norm"), rel=0.05)


@pytest.mark.parametrize("part", [0.1, 0.4])
def test_samples_in_less_than_half_of_the_trace_tell_nothing(tmp_path: Path, part: float) -> None:
    trace = a_trace(tmp_path)
    samples = sampled(trace)
    found = break_down(trace, samples.where(np.arange(len(samples)) < part * len(samples)))

    assert any("too little" in doubt for doubt in found.doubts)
    assert reads(found, "norm") is None
    assert found.sampled is not None
    assert found.sampled.seen == pytest.approx(part, abs=0.03)


def test_with_an_unknown_clock_what_any_of_its_offsets_would_change_is_not_told(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    right = break_down(trace, sampled(trace))
    wrong = break_down(trace, sampled(trace, late_us=100.0))

    assert CLOCK_UNKNOWN in wrong.doubts
    for name in NAMES:
        told, unsure = reads(right, name), reads(wrong, name)
        assert told is not None
        assert unsure is not None
        assert math.isnan(unsure.value) or unsure.low < bytes_of(name) < unsure.high
        assert unsure.high - unsure.low > 4 * (told.high - told.low)
    assert wrong.counted is not None
    assert wrong.counted.dram_read_bytes is not None
    assert wrong.counted.dram_read_bytes.value == pytest.approx(bytes_of(*NAMES), rel=0.1)


def overlapping(kernels: int, samples: int) -> Counting:
    """What is counted of *kernels* that all run at once throughout *samples*."""
    edges = 10**12 + np.arange(samples + 1) * 50_000
    number = np.arange(kernels)
    counting = count(
        Kernels(edges[0] + number, np.full(kernels, edges[-1]), number, number),
        Samples(edges[:-1], edges[1:], {"dram_read_bytes": np.full(samples, 1e6)}),
        number,
    )
    assert counting is not None
    return counting


def test_more_kernels_at_once_than_can_be_solved_for_are_not_shared_out_to() -> None:
    few = overlapping(8, 300)
    assert few.doubts == ()
    assert few.told([np.arange(8)])[0].dram_read_bytes is not None

    for many in (overlapping(300, 1000), overlapping(1_200, 50), overlapping(50_000, 50)):
        assert many.doubts == (TOO_MANY,)
        assert many.told([np.arange(8)])[0].dram_read_bytes is None
        assert many.sampled.samples > 0
