"""The lines that the GPU waits for, on the terminal and in report.json."""

from __future__ import annotations

import gzip
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from perfzero.attribute.stacks import LEAST_SAMPLES, Cause, HostCauses, StageShare
from perfzero.diagnose.verdict import Diagnosis, TimeClass
from perfzero.report import analysis
from perfzero.report.analysis import analyze, judged_report
from perfzero.report.host_lines import lines, overlapping, quoted, words, worth_telling
from perfzero.report.model import GpuReport, Report
from perfzero.report.page_data import _host
from perfzero.report.schema import schema
from perfzero.report.terminal import words as page
from perfzero.report.voice import Voice
from perfzero.stacks import Frame
from perfzero.store.schema import STACKS
from perfzero.store.writer import RecordingWriter
from perfzero.values import Gpu, Process, Samples, Window

RECORDED = Path(__file__).parents[1] / "fixtures" / "stacks"
REAL = Path(__file__).parents[1] / "recordings" / "_stacks"
ITEM = Frame("/job/train.py", 41, "main")
MS = 1_000_000


def cause(**changes: object) -> Cause:
    given = {
        "activity": "synchronising", "frame": ITEM, "text": "total += loss.item()", "path": (ITEM,),
        "share": 0.8, "low": 0.76, "high": 0.84, "drained": 0.8,
    }  # fmt: skip
    return Cause(**{**given, **changes})  # type: ignore[arg-type]


def test_a_line_that_may_cost_nothing_is_told_if_it_seems_to_cost_much_of_all_time() -> None:
    """A checkpoint every few seconds is in few of the stretches that the interval is made of."""
    rare = cause(share=0.98, low=0.0, high=0.99)

    [(_, told)] = lines(HostCauses((rare,), idle=0.18))
    assert "(0 % to 99 %)" in told
    assert lines(HostCauses((rare,), idle=0.08)) == []


def test_a_line_is_told_with_what_it_does_and_what_that_costs() -> None:
    assert lines(HostCauses((cause(),), idle=0.3)) == [
        ("train.py:41", "total += loss.item(): waits for the GPU, 80 % of the idle time (76 % to 84 %)")
    ]


def test_a_line_is_quoted_with_its_share_and_its_place() -> None:
    assert quoted(cause()) == "train.py:41 total += loss.item(), 80 % of the idle time"
    assert quoted(cause(text="")) == "train.py:41, 80 % of the idle time"


def test_a_loader_is_told_with_what_its_workers_do() -> None:
    stages = (
        StageShare("decoding", 0.9, Frame("/job/data.py", 7, "load"), "Image.open(path)"),
        StageShare("collating", 0.08, None, ""),
        StageShare("other", 0.02, None, ""),
    )
    told = words(cause(activity="loader", text="for x in loader:", low=0.8, high=0.8, stages=stages))

    assert told == (
        "for x in loader: waits for the DataLoader, 80 % of the idle time; "
        "making its batches: decoding 90 % (data.py:7), collating 8 %"
    )


def test_three_lines_are_told_and_all_of_an_idle_gpu() -> None:
    assert len(lines(HostCauses((cause(),) * 5, idle=0.3))) == 3
    assert lines(HostCauses((cause(),), idle=0.03)) == []
    assert lines(HostCauses(reason="The host was not sampled.")) == []
    assert lines(None) == []


def test_a_line_that_may_cost_nothing_is_not_claimed_to() -> None:
    """As of a recording in which the GPU was never idle: 91 % of the idle time, between 0 % and 94 %."""
    maybe = cause(share=0.91, low=0.0, high=0.94)

    assert lines(HostCauses((maybe, cause()), idle=0.08)) == lines(HostCauses((cause(),), idle=0.08))
    assert len(lines(HostCauses((cause(low=0.02),), idle=0.08))) == 1


@pytest.mark.parametrize(("idle", "told"), [(0.001, 0), (0.04, 0), (0.06, 1), (math.nan, 1)])
def test_where_the_judged_stretch_is_hardly_idle_no_line_is_told(idle: float, told: int) -> None:
    """As of a program that was sampled while it compiled: 100 % of idle time that is 0.1 % later on."""
    host = HostCauses((cause(share=1.0, low=0.9, high=1.0),), idle=1.0)

    assert len(lines(host, idle)) == told
    assert len(worth_telling(host, idle)) == told


@pytest.mark.parametrize(("idle", "told"), [(0.08, 0), (0.2, 1)])
def test_an_interval_that_says_nothing_counts_by_the_idle_time_that_was_judged(
    idle: float, told: int
) -> None:
    assert len(lines(HostCauses((cause(share=1.0, low=0.0, high=1.0),), idle=1.0), idle)) == told


@pytest.mark.parametrize(("sampled", "told"), [(0.03, 0), (0.08, 0), (0.2, 1)])
def test_lines_of_a_stretch_that_was_hardly_idle_are_not_told_of_one_that_is(
    sampled: float, told: int
) -> None:
    """Too little of the host was seen in what was judged, so the lines are of all of the recording."""
    assert len(lines(HostCauses((cause(share=1.0, low=0.0, high=1.0),), idle=sampled), 0.5)) == told


def copying(gpu: GpuReport, idle: float, copy: float) -> GpuReport:
    """*gpu* with a line for all of its time without kernels: as tests/zoo/kept/g01, which copies for 57 %."""
    host = HostCauses((cause(share=1.0, low=0.98, high=1.0),), idle=0.59)
    shares: dict[TimeClass, float] = {"idle": idle, "copy": copy, "communication": 0.38}
    return replace(gpu, host=host, diagnosis=replace(gpu.diagnosis, shares=shares))


@pytest.mark.parametrize(("idle", "copy", "told"), [(0.02, 0.57, True), (0.02, 0.02, False)])
def test_a_gpu_that_waits_for_copies_is_idle_for_the_line_that_makes_them(
    starved: Diagnosis, make_report: Callable[..., Report], idle: float, copy: float, told: bool
) -> None:
    """Communication is done by kernels, and nothing that a line is waited for in."""
    report = make_report(starved)
    gpu = copying(report.gpus[0], idle, copy)
    block = _host(gpu, Voice("en"))

    assert ("train.py:41" in page(replace(report, gpus=(gpu,)))) == told
    assert block is not None
    assert bool(block["causes"]) == told
    assert (block["reason"] == Voice("en")("stacks.not_worth")) != told


def test_lines_that_are_not_told_do_not_overlap() -> None:
    host = HostCauses((cause(), cause(share=0.3)), idle=0.3)

    assert overlapping(host, 0.2)
    assert not overlapping(host, 0.01)


def test_that_shares_overlap_is_said_where_lines_that_are_told_add_up_to_more_than_all() -> None:
    assert overlapping(HostCauses((cause(), cause(share=0.3)), idle=0.3))
    assert not overlapping(HostCauses((cause(), cause(share=0.22)), idle=0.3))
    assert not overlapping(HostCauses((cause(), cause(share=0.3, low=0.0)), idle=0.3))
    assert not overlapping(None)


def test_a_long_line_is_cut_and_nothing_drives_the_terminal() -> None:
    told = words(cause(text="x = \x1b[31m" + "y" * 200))

    assert len(told) < 110
    assert "\x1b" not in told


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Counters of a simulated GPU, and the stacks of its program."""
    truth = json.loads(gzip.decompress((RECORDED / "item" / "busy.json.gz").read_bytes()))
    edges = (truth["start_us"] + np.cumsum(truth["edges_us"])) * 1000
    at = np.arange(edges[0], edges[-1], 2 * MS)
    total = np.concatenate([[0], np.cumsum(edges[1::2] - edges[0::2])])
    place = np.searchsorted(edges[0::2], at, side="right") - 1
    busy = total[place] + np.minimum(at - edges[0::2][place], (edges[1::2] - edges[0::2])[place])
    pm = Samples(at[:-1], at[1:], {"gr_active": np.clip(np.diff(busy) / (2 * MS), 0, 1)})
    path = tmp_path / "r"
    gpu = Gpu(0, "GPU-0", "NVIDIA H200", compute_capability=(9, 0), sm_count=132)
    with RecordingWriter(
        path, gpus=(gpu,), process=Process(), settings={}, tiers={0: "pm"}, tier_reasons={}
    ) as writer:
        writer.append("pm", 0, pm)
        writer.window(Window(0, "dense", int(at[0]), int(at[-1]), 2 * MS, len(pm), 0))
    shutil.copy(RECORDED / "item" / STACKS, path / STACKS)
    return path


def test_a_recording_with_stacks_gives_a_report_that_names_the_line(recording: Path) -> None:
    report = analyze(recording)
    document = json.loads((recording / "report.json").read_text())
    host = document["gpus"][0]["host"]

    jsonschema.validate(document, schema())
    assert host["causes"][0]["text"] == "loss.item()"
    assert (host["causes"][0]["activity"], host["reason"]) == ("synchronising", "")
    assert host["causes"][0]["share"] == pytest.approx(1.0, abs=0.05)
    assert "What the GPU waits for while it is idle, by line of the program (shares overlap):" in page(report)
    assert "loss.item(): waits for the GPU" in page(report)


def test_a_mistake_in_telling_lines_costs_no_verdict_and_is_said(
    monkeypatch: pytest.MonkeyPatch, recording: Path
) -> None:
    """Once an index had another length than its values, and nothing was said of the recording at all."""
    whole = judged_report(recording)

    def host_causes(*_: object) -> HostCauses:
        raise IndexError("of another length")

    monkeypatch.setattr(analysis, "host_causes", host_causes)
    report = judged_report(recording)

    assert report.gpus[0].host is None
    assert report.gpus[0].diagnosis.verdict == whole.gpus[0].diagnosis.verdict
    [doubt] = set(report.doubts) - set(whole.doubts)
    assert "by line (IndexError), which is a mistake in perfzero" in doubt
    assert "by line" in page(report)


@pytest.mark.parametrize(("moments", "spans"), [(LEAST_SAMPLES, 1), (LEAST_SAMPLES - 1, 2)])
def test_lines_are_of_the_judged_stretch_where_enough_of_the_host_was_seen_in_it(
    monkeypatch: pytest.MonkeyPatch, moments: int, spans: int
) -> None:
    """Else of the whole recording: what a program does as it starts is not what it does later."""
    asked: list[Samples] = []

    def host_causes(_: object, pm: Samples) -> HostCauses:
        asked.append(pm)
        return HostCauses(moments=moments)

    monkeypatch.setattr(analysis, "host_causes", host_causes)
    [gpu] = judged_report(REAL / "ash").gpus
    steady, within = gpu.diagnosis.steady, asked[0]

    assert len(asked) == spans
    assert (within.start_ns >= steady.start_ns).all()
    assert (within.end_ns <= steady.end_ns).all()
    assert len(asked[-1]) > len(within) or spans == 1


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_tells_no_line_of_a_gpu_that_is_hardly_idle_and_says_so(language: str) -> None:
    [gpu] = judged_report(REAL / "birch").gpus
    voice = Voice(language)
    told, silent = (
        _host(replace(gpu, diagnosis=replace(gpu.diagnosis, shares={"idle": share})), voice)
        for share in (0.13, 0.001)
    )

    assert told is not None
    assert silent is not None
    assert told["causes"]
    assert (silent["causes"], silent["reason"]) == ([], voice("stacks.not_worth"))


def test_the_remedy_of_a_real_program_names_its_line() -> None:
    [diagnosis] = [g.diagnosis for g in judged_report(REAL / "birch").gpus]
    [told] = [f.remedies[0] for f in diagnosis.findings if f.rule == "sync_bound"]

    assert told.text == "Do not read results back in every step."
    assert told.seen.startswith("It is birch.py:14 total += loss.item(), ")


def test_a_real_program_that_compiles_in_each_step_is_told_to_stop_it() -> None:
    """It keeps the GPU busy 3 % of the time, so little that it had once got no verdict."""
    verdict = judged_report(REAL / "spruce").gpus[0].diagnosis.verdict

    assert verdict is not None
    assert verdict.rule == "host_starved"
    assert verdict.remedies[0].text.startswith("Stop compiling again and again")
    assert verdict.remedies[0].seen.startswith("It is spruce.py:13 out = fast(x[:n]), ")


def test_a_real_program_whose_host_hardly_waits_is_told_to_launch_less() -> None:
    [diagnosis] = [g.diagnosis for g in judged_report(REAL / "compiled").gpus]
    told = [r for f in diagnosis.findings for r in f.remedies]

    assert next(r.seen for r in told if r.text.startswith("Launch less")).startswith("It is programs.py:51 ")
    assert not any("read results back" in r.text for r in told)


def test_stacks_that_are_damaged_are_a_doubt_and_the_rest_is_told(recording: Path) -> None:
    (recording / STACKS).write_bytes(b"no stacks")
    report = analyze(recording)

    assert report.gpus[0].host is None
    assert any(STACKS in doubt for doubt in report.doubts)


def test_a_recording_without_stacks_has_none_and_no_doubt_about_it(recording: Path) -> None:
    (recording / STACKS).unlink()
    report = analyze(recording)

    assert report.gpus[0].host is None
    assert not any("stack" in doubt or "host" in doubt for doubt in report.doubts)
