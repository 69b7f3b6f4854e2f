"""Merging of samples, and what the plot is told to draw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfzero.diagnose.verdict import Diagnosis
from perfzero.report import timeline as module
from perfzero.report.timeline import coarsen, timeline
from perfzero.values import Observation, Samples, Window


def samples(starts: list[int], length: int = 10, **columns: list[float]) -> Samples:
    start = np.array(starts, np.int64)
    return Samples(start, start + length, {k: np.array(v, float) for k, v in columns.items()})


def test_totals_are_added_and_levels_averaged_over_time() -> None:
    merged = coarsen(samples([0, 10, 20, 30], launches=[1, 2, 3, 4], sm_active=[0, 1, 0.5, 0.5]), factor=2)
    assert merged.start_ns.tolist() == [0, 20]
    assert merged.end_ns.tolist() == [20, 40]
    assert merged.column("launches").tolist() == [3, 7]
    assert merged.column("sm_active").tolist() == [0.5, 0.5]


def test_a_hit_rate_is_averaged_over_its_lookups_and_not_over_time() -> None:
    table = samples([0, 10], l2_hit=[1.0, 0.0], l2_sectors=[300, 100])
    assert coarsen(table, factor=2).column("l2_hit").tolist() == [0.75]


def test_no_row_spans_a_hole() -> None:
    merged = coarsen(samples([0, 10, 100, 110], sm_active=[1, 1, 0, 0]), factor=4)
    assert list(zip(merged.start_ns.tolist(), merged.end_ns.tolist(), strict=True)) == [(0, 20), (100, 120)]


def test_a_total_with_a_missing_part_is_missing_and_not_too_small() -> None:
    merged = coarsen(samples([0, 10], launches=[5, np.nan], sm_active=[0.5, np.nan]), factor=2)
    assert np.isnan(merged.column("launches")[0])
    assert merged.column("sm_active").tolist() == [0.5]


def with_unknown(n: int, *, every: int) -> Samples:
    """Samples of five launches each, at a level of a half; in one of *every* neither is known."""
    there = np.where(np.arange(n) % every == every - 1, np.nan, 1.0)
    columns = {"launches": list(5 * there), "sm_active": list(0.5 * there)}
    return samples(list(range(0, 10 * n, 10)), **columns)


@pytest.mark.parametrize("every", [250, 125, 11])
def test_a_small_unknown_part_of_a_merged_total_is_like_the_rest_of_it(every: int) -> None:
    """In a continuous run of two hours 120 samples make a row, and one in 125 to 250 has no launches."""
    merged = coarsen(with_unknown(6000, every=every), factor=120)
    assert merged.column("launches").tolist() == pytest.approx([600.0] * 50)
    assert merged.column("sm_active").tolist() == pytest.approx([0.5] * 50)


def test_a_part_counts_by_its_time_and_not_as_one_of_many() -> None:
    """One sample of five is unknown, and lasts a twentieth of the row; then it lasts a fifth."""
    short = Samples(
        np.array([0, 19, 38, 57, 76]), np.array([19, 38, 57, 76, 80]),
        {"launches": np.array([19.0, 19.0, 19.0, 19.0, np.nan])},
    )  # fmt: skip
    assert coarsen(short, factor=5).column("launches").tolist() == pytest.approx([80.0])
    assert np.isnan(coarsen(with_unknown(5, every=5), factor=5).column("launches")[0])


def test_a_total_of_which_more_than_a_tenth_is_unknown_is_missing() -> None:
    merged = coarsen(with_unknown(900, every=9), factor=90)
    assert np.isnan(merged.column("launches")).all()
    assert merged.column("sm_active").tolist() == pytest.approx([0.5] * 10)


def test_few_samples_are_left_as_they_are() -> None:
    table = samples([0, 10], sm_active=[0, 1])
    assert coarsen(table, factor=1) is table


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.integers(1, 7))
def test_merging_neither_makes_nor_loses_launches(launches: list[int], factor: int) -> None:
    table = samples(
        [10 * i + 100 * (i // 9) for i in range(len(launches))], launches=[float(x) for x in launches]
    )
    merged = coarsen(table, factor=factor)
    assert merged.column("launches").sum() == sum(launches)
    assert merged.duration_s.sum() == pytest.approx(table.duration_s.sum())


def test_a_long_recording_is_merged_to_a_table_one_can_open(
    seen: Observation, starved: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TABLE_ROWS", 500)
    made = timeline(seen, steady=starved.steady)
    assert made.rows_merged == 4
    assert len(made.table) <= 500 + 3
    assert made.table.column("launches").sum() == seen.pm.column("launches").sum()


def test_the_panels_are_those_for_which_there_is_a_value(seen: Observation, starved: Diagnosis) -> None:
    made = timeline(seen, steady=starved.steady)
    assert [p.title for p in made.panels] == [
        "Busy", "Device memory", "PCIe", "Kernel launches", "Power", "SM clock",
    ]  # fmt: skip


def test_an_unmeasured_quantity_gets_no_panel(seen: Observation, starved: Diagnosis) -> None:
    blind = replace(seen, pm=Samples.empty(), board=Samples.empty())
    assert [p.title for p in timeline(blind, steady=starved.steady).panels] == ["Busy"]


def test_bytes_in_a_sample_become_a_rate_against_the_roof_of_this_gpu(
    seen: Observation, starved: Diagnosis
) -> None:
    memory = timeline(seen, steady=starved.steady).panels[1]
    read = memory.series[0]
    assert np.nanmax(read.mean) == pytest.approx(1.2)  # 1.2e9 bytes in a millisecond, in TB/s
    assert memory.roof is not None
    assert 4.0 < memory.roof < 4.6  # an H200 copies at 4.3 TB/s


def test_an_unknown_gpu_gets_no_roof(seen: Observation, starved: Diagnosis) -> None:
    unknown = replace(seen, gpu=replace(seen.gpu, memory_bus_bits=None, pcie_generation_max=None))
    made = timeline(unknown, steady=starved.steady)
    assert [p.roof for p in made.panels[1:3]] == [None, None]


def test_no_line_is_drawn_across_a_hole(seen: Observation, starved: Diagnosis) -> None:
    read = timeline(seen, steady=starved.steady).panels[1].series[0]
    # Two windows, one of them with four samples lost inside: two holes.
    assert int(np.isnan(read.time_s).sum()) == 2
    assert read.time_s[0] == pytest.approx(20.0, abs=0.2)


def test_an_unbroken_line_has_no_hole(seen: Observation, starved: Diagnosis) -> None:
    power = timeline(seen, steady=starved.steady).panels[4].series[0]
    assert np.isfinite(power.time_s).all()


def test_windows_warm_up_and_gaps_are_marked_where_they_were(seen: Observation, starved: Diagnosis) -> None:
    zoom = Window(0, "zoom", seen.start_ns, seen.start_ns + 100_000_000, 10_000, 10_000, 0)
    spans = timeline(replace(seen, windows=(*seen.windows, zoom)), steady=starved.steady).spans
    assert [(s.kind, s.start_s, s.end_s) for s in spans] == [
        ("window", 20.0, 21.0),
        ("window", 60.0, 61.0),
        ("zoom", 0.0, 0.1),
        ("gap", 30.0, 33.0),
        ("warm_up", 0.0, 12.0),
    ]


def test_without_a_steady_stretch_no_warm_up_is_marked(seen: Observation, silent: Diagnosis) -> None:
    assert "warm_up" not in {s.kind for s in timeline(seen, steady=silent.steady).spans}


def test_a_bin_keeps_the_mean_and_the_extremes_of_what_it_holds(
    seen: Observation, starved: Diagnosis
) -> None:
    busy = np.where(np.arange(len(seen.pm)) % 2 == 0, 1.0, 0.0)
    beating = replace(seen, pm=seen.pm.with_columns({"launches": busy}))
    line = timeline(beating, steady=starved.steady).panels[3].series[0]
    there = np.isfinite(line.mean)
    assert there.sum() < 20  # two seconds of 94, in bins of 94 s / 400
    assert np.allclose(line.mean[there], 0.5, atol=0.01)  # every other millisecond, in thousand/s
    assert np.all(line.low[there] == 0.0)
    assert np.allclose(line.high[there], 1.0)


def test_the_close_up_shows_the_end_of_the_last_window_sample_by_sample(
    seen: Observation, starved: Diagnosis
) -> None:
    made = timeline(seen, steady=starved.steady)
    assert made.close_up is not None
    assert (made.close_up.start_s, made.close_up.end_s) == (60.7, 61.0)
    assert len(made.panels[3].close[0].mean) == 300


def test_the_close_up_shows_the_program_and_not_what_came_after_it(
    seen: Observation, starved: Diagnosis
) -> None:
    """The last window begins as the steady stretch ends."""
    over = replace(starved.steady, end_ns=seen.start_ns + 60 * 1_000_000_000)
    made = timeline(seen, steady=over)
    assert made.close_up is not None
    assert (made.close_up.start_s, made.close_up.end_s) == (20.7, 21.0)


def test_where_nothing_was_steady_the_last_samples_are_shown(seen: Observation, silent: Diagnosis) -> None:
    made = timeline(seen, steady=silent.steady)
    assert made.close_up is not None
    assert made.close_up.end_s == 61.0


def test_a_burst_is_marked_where_its_samples_are(seen: Observation, starved: Diagnosis) -> None:
    """A window of 0.6 s around a burst of 5 ms."""
    start = seen.start_ns + 30 * 1_000_000_000
    burst = samples([start + 100_000_000 + i * 10_000 for i in range(500)], 10_000, gr_active=[1.0] * 500)
    window = Window(0, "zoom", start, start + 600_000_000, 10_000, 500, 0)
    zoomed = replace(seen, zoom=burst, windows=(window,))
    (span,) = [s for s in timeline(zoomed, steady=starved.steady).spans if s.kind == "zoom"]
    assert (span.start_s, span.end_s) == (30.1, 30.105)


def test_without_pm_samples_there_is_no_close_up(seen: Observation, starved: Diagnosis) -> None:
    made = timeline(replace(seen, pm=Samples.empty()), steady=starved.steady)
    assert made.close_up is None
    assert all(p.close == () for p in made.panels)
