"""Signals of known truth through the whole of the analysis, onto the screen and into the files."""

from __future__ import annotations

import csv
import io
import json

import jsonschema
import pytest

from perfzero.diagnose.judge import judge
from perfzero.report.build import Judged, build
from perfzero.report.csv_files import summary, timeline
from perfzero.report.json_file import to_json
from perfzero.report.model import Report
from perfzero.report.schema import schema
from perfzero.report.terminal import words
from perfzero.sources.synthetic import Phase, observe
from perfzero.values import Observation, Process

MATRIX_PRODUCT = {
    "gr_active": 1.0,
    "sm_active": 0.99,
    "tensor_active": 0.92,
    "dram_read_bytes": 8e11,
    "dram_write_bytes": 2e11,
    "launches": 2_000.0,
    "l2_sectors": 1e11,
    "l2_hit_sectors": 8e10,
}


def reported(seen: Observation) -> Report:
    return build([Judged(seen, judge(seen))], recording="r", process=Process(1, ("python", "train.py")))


def healthy() -> Report:
    return reported(observe([Phase(0.1, MATRIX_PRODUCT)]))


def starved() -> Report:
    cycle = [Phase(0.034, MATRIX_PRODUCT), Phase(0.047)]
    loader = {"host_main_cpu": 0.05, "host_workers": 4.0, "host_worker_cpu": 1.0, "host_tree_cpu": 4.05}
    return reported(observe(cycle, host=loader, board={"smi_utilization": 0.57}))


def dead() -> Report:
    """Every counter at zero while nvidia-smi sees kernels."""
    return reported(observe([Phase(1.0)], board={"smi_utilization": 0.57}))


@pytest.mark.parametrize("make", [healthy, starved, dead])
def test_every_output_can_be_read_back(make: object) -> None:
    report = make()  # type: ignore[operator]
    jsonschema.Draft202012Validator(schema()).validate(json.loads(to_json(report)))
    names = [row["Metric"] for row in csv.DictReader(io.StringIO(summary(report)))]
    assert len(names) == len(set(names))
    rows = list(csv.DictReader(io.StringIO(timeline(report))))
    assert len(rows) == sum(w.samples for w in observe([Phase(1.0)]).windows if w.kind != "zoom")
    assert max(len(line) for line in words(report).splitlines()) <= 100
    assert len(words(report).splitlines()) <= 32


def test_a_starved_program_is_told_what_it_waits_for_and_what_to_do() -> None:
    report = starved()
    screen = " ".join(words(report).split())
    assert report.gpus[0].diagnosis.verdict is not None
    assert report.gpus[0].diagnosis.verdict.rule == "input_starved"
    assert "58 % of the time" in screen
    assert "nvidia-smi said 57 %. The SMs worked 42 % of the time, the tensor cores 39 %." in screen
    assert "Check perfzero run --against r -- python train.py" in screen


def test_the_shares_of_time_in_the_summary_are_the_ones_put_in() -> None:
    rows = {r["Metric"]: r["Value"] for r in csv.DictReader(io.StringIO(summary(starved())))}
    shares = {k: float(v) for k, v in rows.items() if k.startswith("time_")}
    assert shares["time_idle"] == pytest.approx(47 / 81, abs=0.01)
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-6)


def test_a_healthy_program_is_left_in_peace() -> None:
    report = healthy()
    screen = words(report)
    assert report.gpus[0].diagnosis.verdict is not None
    assert report.gpus[0].diagnosis.verdict.rule == "well_used"
    assert "nothing: there is no cheap gain" in screen
    assert "expect" not in screen
    assert "bad" not in {r["Status"] for r in csv.DictReader(io.StringIO(summary(report)))}


def test_dead_counters_get_no_verdict_and_no_advice() -> None:
    report = dead()
    assert report.gpus[0].diagnosis.verdict is None
    screen = words(report)
    assert "no verdict" in screen
    assert "Xid" in screen
    assert "nvidia-smi said 57 %. What the SMs really did could not be read." in screen
    assert "The SMs worked" not in screen
    assert "idle?" not in screen
    assert "expect" not in screen
