"""summary.csv and timeline.csv, cell by cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from perfzero.diagnose.verdict import Diagnosis
from perfzero.report.build import Judged, build
from perfzero.report.csv_files import number, summary, timeline
from perfzero.report.model import Report
from perfzero.values import Observation, Samples

Make = Callable[..., Report]


def test_the_summary_of_one_gpu_has_four_columns_and_exactly_these_rows(
    make_report: Make, starved: Diagnosis
) -> None:
    assert summary(make_report(starved)) == (
        "Metric,Value,Threshold,Status\n"
        "verdict,input_starved,,bad\n"
        "verdict_confidence,0.91,,info\n"
        "expected_gain_low,1.9,,info\n"
        "expected_gain_high,2.3,,info\n"
        "time_idle,0.58,,info\n"
        "time_copy,0,,info\n"
        "time_communication,0,,info\n"
        "time_memory,0.26,,info\n"
        "time_tensor,0.16,,info\n"
        "time_fma,0,,info\n"
        "time_small_grid,0,,info\n"
        "time_latency,0,,info\n"
        "gr_active,0.42,≥ 0.9,bad\n"
        "sm_active,0.37,≥ 0.7,watch\n"
        "tensor_active,0.14,,info\n"
        "dram_read_bytes_per_s,1.2e+12,≤ 0.6 of the roof,ok\n"
        "dram_roof_share,0.44,,ok\n"
        "l2_hit,,,unknown\n"
        "smi_utilization,0.57,,info\n"
    )


def test_several_gpus_are_told_apart_by_a_fifth_column(
    make_report: Make, starved: Diagnosis, healthy: Diagnosis
) -> None:
    report = make_report(starved, replace(healthy, gpu=replace(healthy.gpu, index=3)))
    rows = list(csv.DictReader(io.StringIO(summary(report))))
    assert [(r["Value"], r["Status"], r["GPU"]) for r in rows if r["Metric"] == "verdict"] == [
        ("input_starved", "bad", "0"),
        ("well_used", "ok", "3"),
    ]


def test_no_verdict_is_an_unknown_and_not_a_good_one(make_report: Make, silent: Diagnosis) -> None:
    assert summary(make_report(silent)) == "Metric,Value,Threshold,Status\nverdict,,,unknown\n"


def test_a_missing_number_is_an_empty_cell() -> None:
    assert [number(float("nan")), number(float("inf")), number(0.0)] == ["", "", "0"]


def test_the_timeline_has_one_row_per_sample_of_the_windows(make_report: Make, starved: Diagnosis) -> None:
    rows = list(csv.reader(io.StringIO(timeline(make_report(starved)))))
    assert rows[0] == [
        "start_ns", "end_ns", "gpu", "gr_active", "sm_active", "tensor_active", "dram_read_bytes",
        "dram_write_bytes", "gpc_clock", "launches", "pcie_rx_bytes",
    ]  # fmt: skip
    assert len(rows) == 1 + 1996
    assert rows[1] == [
        "1796000020000000000", "1796000020001000000", "0", "0.42", "0.37", "0.14", "1.2e+09", "7e+08",
        "1.9e+09", "12", "900000",
    ]  # fmt: skip


def test_a_missing_sample_in_the_timeline_is_an_empty_cell_and_never_a_zero(
    seen: Observation, starved: Diagnosis
) -> None:
    values = seen.pm.column("sm_active").copy()
    values[0] = np.nan
    pm = seen.pm.with_columns({"sm_active": values})
    report = build([Judged(replace(seen, pm=pm), starved)], recording="r")
    rows = list(csv.DictReader(io.StringIO(timeline(report))))
    assert [rows[0]["sm_active"], rows[1]["sm_active"]] == ["", "0.37"]


def test_without_pm_samples_the_timeline_is_made_of_gpm(seen: Observation, starved: Diagnosis) -> None:
    report = build([Judged(replace(seen, pm=Samples.empty()), starved)], recording="r")
    rows = list(csv.DictReader(io.StringIO(timeline(report))))
    assert len(rows) == len(seen.gpm)
    assert set(rows[0]) == {"start_ns", "end_ns", "gpu", "gr_active", "sm_active", "tensor_active"}


def test_without_a_sample_the_timeline_is_its_header(seen: Observation, silent: Diagnosis) -> None:
    nothing = Samples.empty()
    blind = replace(seen, pm=nothing, gpm=nothing, board=nothing)
    assert timeline(build([Judged(blind, silent)], recording="r")) == "start_ns,end_ns,gpu\n"
