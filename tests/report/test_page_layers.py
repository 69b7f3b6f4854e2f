"""The looks of a report as the page shows them: nothing is lost on the way, and nothing counted twice."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from perfzero.attribute.breakdown import Breakdown
from perfzero.report.analysis import judged_report
from perfzero.report.model import Report
from perfzero.report.page_layers import VIEWS, looks_of, rows_of
from perfzero.report.page_words import page_words
from perfzero.report.voice import Voice

RECORDINGS = Path(__file__).parents[1] / "recordings" / "_looks"


@pytest.fixture(scope="module")
def report() -> Report:
    return judged_report(RECORDINGS / "resnet50_fp32")


@pytest.fixture(scope="module")
def look(report: Report) -> Breakdown:
    (found,) = report.breakdowns.values()
    return found


@pytest.fixture(scope="module")
def rows(report: Report) -> dict[str, Any]:
    (found,) = rows_of(report)
    return found


def column(view: dict[str, Any], name: str) -> list[Any]:
    values = view["columns"][name]
    return [view["names"][v] for v in values] if name in ("name", "kind", "source") else values


def test_each_view_holds_all_time(rows: dict[str, Any], look: Breakdown) -> None:
    for name in VIEWS:
        assert sum(column(rows["views"][name], "ns")) == look.total.gpu_ns, name


def test_the_parts_of_a_node_take_no_more_time_than_it(rows: dict[str, Any], look: Breakdown) -> None:
    tree = rows["tree"]
    below: dict[int, int] = defaultdict(int)
    for place, parent in enumerate(tree["parent"]):
        assert parent < place, "a parent comes before its parts"
        below[parent] += tree["ns"][place]
    assert tree["ns"][0] == look.total.gpu_ns
    assert {place: ns for place, ns in below.items() if place >= 0 and ns != tree["ns"][place]} == {}


def test_bytes_stand_beside_modules_and_not_beside_kernels(rows: dict[str, Any], look: Breakdown) -> None:
    tree = rows["tree"]
    kinds = [tree["kinds"][kind] for kind in tree["kind"]]
    assert look.counted is not None
    assert look.counted.dram_read_bytes is not None
    assert look.counted.dram_write_bytes is not None
    whole = look.counted.dram_read_bytes.value + look.counted.dram_write_bytes.value
    assert tree["bytes"][0] == pytest.approx(whole, rel=1e-4)
    assert {kind for kind, moved in zip(kinds, tree["bytes"], strict=True) if moved is not None} == {
        "work",
        "module",
    }


def test_a_look_says_how_it_was_taken_and_whose_it_is(report: Report) -> None:
    (said,) = looks_of(report, page_words("en"), Voice("en"))
    assert said["seen"] == "at 8 steps of the program"
    assert said["gpus"] == [0]
    assert said["first"] == "layers"
    assert said["sampled"].startswith("Beside it 6,954 samples of the counters, 50 µs each")


def test_time_of_a_line_is_per_step_and_levels_are_in_their_own_columns(
    rows: dict[str, Any], look: Breakdown
) -> None:
    lines = rows["views"]["lines"]["columns"]
    assert look.steps == 8
    assert lines["per_step_ns"] == pytest.approx([ns / 8 for ns in lines["ns"]], rel=1e-4)
    layers = rows["views"]["layers"]["columns"]
    wanted = [(a.row.counted.sm_active, a.row.counted.tensor_active) for a in look.alike if a.row.counted]
    told = [pair for pair in zip(layers["sm"], layers["tensor"], strict=True) if pair != (None, None)]
    known = [(sm.value, t.value) for sm, t in wanted if sm and t and math.isfinite(sm.value + t.value)]
    assert known
    both = [pair for pair in told if None not in pair]
    assert sum(sm for sm, _ in both) != pytest.approx(sum(t for _, t in both))
    assert both[: len(known)] == [pytest.approx(pair, rel=1e-4) for pair in known]


def test_what_computes_no_product_has_no_place_on_the_roofline(rows: dict[str, Any]) -> None:
    view = rows["views"]["kernels"]
    pairs = list(zip(view["columns"]["flops"], view["columns"]["intensity"], strict=True))
    without = [intensity for flops, intensity in pairs if not flops]
    assert without
    assert set(without) == {None}
    assert any(flops and intensity for flops, intensity in pairs)


def test_where_nothing_but_kernels_is_known_they_are_shown_first() -> None:
    (said,) = looks_of(judged_report(RECORDINGS / "decode"), page_words("en"), Voice("en"))
    assert said["first"] == "kernels"
