"""From a recording on disk to its files."""

from __future__ import annotations

import csv
import errno
import gzip
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

import perfzero
from hand_written_look import BASE_NS
from hand_written_look import Look as TraceOfALook
from perfzero.diagnose.gates import GPM_ONLY, NVML_ONLY
from perfzero.diagnose.verdict import Diagnosis
from perfzero.errors import BrokenRecording, NoRecording, UsageError
from perfzero.report import looks
from perfzero.report.analysis import EVERY_FILE, FILES, NO_LOSS, analyze, explained, judged_report
from perfzero.report.model import Report
from perfzero.report.schema import schema
from perfzero.report.terminal import words
from perfzero.store.kineto import read_trace
from perfzero.store.schema import event_line
from perfzero.store.writer import RecordingWriter
from perfzero.traces import Trace
from perfzero.values import Cost, Look, Observation, Process
from perfzero.words.said import say

Record = Callable[[Path], Path]


@pytest.fixture
def record(seen: Observation) -> Record:
    """A function that writes `seen` as a recording into a folder."""

    def write(folder: Path) -> Path:
        with RecordingWriter(
            folder,
            gpus=[seen.gpu],
            process=Process(1, ("python", "train.py"), 0),
            settings={},
            tiers={0: "pm"},
            tier_reasons={0: ""},
        ) as writer:
            for stream in ("pm", "gpm", "board"):
                writer.append(stream, 0, getattr(seen, stream))
            for window in seen.windows:
                writer.window(window)
            writer.update(cost=Cost(94.0, 0.5, 0.6, 0.02, 1, slowdown_note="no step was seen"))
            writer.close()
        return folder

    return write


def test_the_files_are_written_into_the_recording(tmp_path: Path, record: Record) -> None:
    folder = record(tmp_path / "run")
    report = analyze(folder)
    assert report.files == FILES
    assert report.unwritten is None
    jsonschema.Draft202012Validator(schema()).validate(json.loads((folder / "report.json").read_bytes()))
    with (folder / "summary.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["Metric"]: row for row in csv.DictReader(file)}
    assert float(rows["gr_active"]["Value"]) == pytest.approx(0.42, abs=1e-4)
    assert (folder / "timeline.png").read_bytes().startswith(b"\x89PNG")
    assert len((folder / "timeline.csv").read_text().splitlines()) == 1 + 1996


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_picture_is_in_the_language_of_the_reader(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    asked: list[str] = []

    def drawn(report: Report, *, language: str) -> bytes:
        asked.append(language)
        return b""

    monkeypatch.setattr("perfzero.report.plots.timeline_png", drawn)
    analyze(record(tmp_path / "run"), language=language)

    assert asked == [language]


def test_the_files_of_an_output_folder_leave_the_recording_alone(tmp_path: Path, record: Record) -> None:
    folder = record(tmp_path / "run")
    before = sorted(os.listdir(folder))
    analyze(folder, output_dir=tmp_path / "new" / "out")
    assert sorted(os.listdir(folder)) == before
    assert sorted(os.listdir(tmp_path / "new" / "out")) == sorted(FILES)


def test_analysing_again_replaces_its_own_files_with_the_same(tmp_path: Path, record: Record) -> None:
    folder = record(tmp_path / "run")
    analyze(folder)
    first = {name: (folder / name).read_bytes() for name in FILES}
    analyze(folder)
    assert {name: (folder / name).read_bytes() for name in FILES} == first


def test_results_of_another_recording_are_not_overwritten(tmp_path: Path, record: Record) -> None:
    out = tmp_path / "out"
    analyze(record(tmp_path / "one"), output_dir=out)
    before = (out / "report.json").read_bytes()
    other = record(tmp_path / "two")
    with pytest.raises(UsageError, match="not of this recording"):
        analyze(other, output_dir=out)
    assert (out / "report.json").read_bytes() == before
    analyze(other, output_dir=out, force=True)
    assert (out / "report.json").read_bytes() != before


def test_the_same_recording_may_be_analysed_into_the_same_folder_again(
    tmp_path: Path, record: Record
) -> None:
    folder = record(tmp_path / "run")
    analyze(folder, output_dir=tmp_path / "out")
    assert analyze(folder, output_dir=tmp_path / "out").unwritten is None


def test_a_full_disk_keeps_the_verdict_and_says_what_is_missing(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = record(tmp_path / "run")
    replace = os.replace

    def full(source: str, target: Path) -> None:
        if Path(target).name == "timeline.csv":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    report = analyze(folder)
    assert report.headline
    assert report.files == ("report.json", "summary.csv", "report.html")
    assert report.unwritten is not None
    assert "timeline.csv, timeline.png could not be written (No space left on device)" in report.unwritten
    assert not [name for name in os.listdir(folder) if name.endswith(".part")]


def test_a_recording_cut_short_is_judged_with_that_doubt(tmp_path: Path, record: Record) -> None:
    folder = record(tmp_path / "run")
    stream = folder / "pm-gpu0.arrow"
    os.truncate(stream, stream.stat().st_size - 200)
    report = analyze(folder)
    assert report.gpus[0].watched_s > 90
    assert any("pm-gpu0.arrow" in doubt for doubt in report.doubts)


def test_a_whole_recording_has_no_such_doubt(tmp_path: Path, record: Record) -> None:
    assert analyze(record(tmp_path / "run")).doubts == ()


def test_a_missing_folder_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(NoRecording, match="nowhere"):
        analyze(tmp_path / "nowhere")


def test_a_folder_with_a_broken_manifest_is_refused_and_not_written_to(
    tmp_path: Path, record: Record
) -> None:
    folder = record(tmp_path / "run")
    (folder / "manifest.json").write_text("{")
    before = sorted(os.listdir(folder))
    with pytest.raises(BrokenRecording):
        analyze(folder)
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("junk", [b"{", b"[]", b'{"created_ns": "x"}', b"\xff\xfe", b"[" * 100_000])
def test_a_strange_report_in_the_output_folder_is_not_taken_for_ours(
    tmp_path: Path, record: Record, junk: bytes
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.json").write_bytes(junk)
    with pytest.raises(UsageError, match="already holds report"):
        analyze(record(tmp_path / "run"), output_dir=out)


@pytest.mark.parametrize("doubt", [GPM_ONLY, NVML_ONLY])
def test_a_lesser_tier_is_doubted_in_one_sentence_with_its_reason(starved: Diagnosis, doubt: str) -> None:
    told = explained(replace(starved, doubts=("Another.", doubt)), "the driver keeps the counters for root")
    assert told.doubts == ("Another.", f"{doubt[:-1]}. Why: the driver keeps the counters for root.")


def test_a_tier_that_needs_no_reason_gets_none(starved: Diagnosis) -> None:
    assert explained(starved, "16 hardware counters sampled in one pass").doubts == starved.doubts
    assert explained(replace(starved, doubts=(GPM_ONLY,)), "").doubts == (GPM_ONLY,)


def test_why_hardware_sampling_worked_is_no_reason_for_judging_averages(tmp_path: Path) -> None:
    """A stream that is cut short leaves GPM alone, though the counters had been sampled."""
    kept = Path(__file__).parents[1] / "recordings" / "decode"
    folder = Path(shutil.copytree(kept, tmp_path / "cut"))
    with (folder / "pm-gpu0.arrow").open("r+b") as stream:
        stream.truncate(20_000)
    [gpu] = analyze(folder).gpus

    assert gpu.diagnosis.tier == "gpm"
    assert GPM_ONLY in gpu.diagnosis.doubts
    assert any("GPM stands in" in doubt for doubt in gpu.diagnosis.doubts)


# --- a look inside ---------------------------------------------------------------------------


def looked_into(folder: Path, *, file: str = "look-4242.json.gz", pid: int = 4242, steps: int = 2) -> Path:
    """*folder*'s program was looked into: most of the GPU's time is a convolution's."""
    trace = TraceOfALook()
    for k in range(steps):
        at = 1000.0 * k
        trace.step(k, at, at + 900)
        trace.module("", "Net", at + 1, at + 500, site="/home/me/train.py:7")
        trace.module("conv1", "Conv2d", at + 2, at + 200, site="/home/me/train.py:41")
        shapes, strides = [[256, 3, 224, 224], [64, 3, 7, 7]], [[150528, 50176, 224, 1], [147, 49, 7, 1]]
        trace.op("aten::conv2d", at + 3, at + 190, shapes=shapes, strides=strides, types=["float", "float"])
        trace.work("implicit_gemm", at + 20, at + 620, at=at + 10)
    trace.write(folder)
    look = Look(pid, BASE_NS, BASE_NS + 1, file=file, steps_ns=(BASE_NS,))
    with (folder / "events.jsonl").open("ab") as events:
        events.write(event_line("look", look))
    return folder


def test_a_look_becomes_a_breakdown_and_a_line_of_the_layer(tmp_path: Path, record: Record) -> None:
    report = analyze(looked_into(record(tmp_path / "run")))
    told = words(report)
    found = json.loads((tmp_path / "run" / "detailed_breakdown.json").read_text())

    assert set(report.files) == set(EVERY_FILE)
    assert "a look at 2 steps" in told
    [line] = [line for line in told.splitlines() if "conv1" in line]
    assert line.split() == ["conv1", "Conv2d", "100", "%", "[256,3,224,224]", "NCHW", "fp32", "train.py:41"]
    assert [look["file"] for look in found["looks"]] == ["look-4242.json.gz"]
    assert found["looks"][0]["busy_ns"] == 1_200_000


def advice(folder: Path) -> set[str]:
    findings = [f for gpu in judged_report(folder).gpus for f in gpu.diagnosis.findings]
    return {remedy.text for finding in findings for remedy in finding.remedies}


def test_a_program_that_is_seen_not_to_be_in_pytorch_is_advised_in_other_words(
    tmp_path: Path, record: Record
) -> None:
    folder = looked_into(record(tmp_path / "run"))
    before = {
        r.text for gpu in judged_report(folder).gpus for f in gpu.diagnosis.findings for r in f.remedies
    }
    trace = TraceOfALook()
    trace.step(0, 0, 1000)
    trace.work("cupy_add__float32_float32_float32", 100, 700, at=20)
    trace.write(folder)
    after = advice(folder)

    assert any("torch" in text or "num_workers" in text for text in before)
    assert not any("torch" in text or "num_workers" in text for text in after)


def test_without_a_look_there_is_no_breakdown_and_no_word_of_layers(tmp_path: Path, record: Record) -> None:
    report = analyze(record(tmp_path / "run"))

    assert report.breakdowns == {}
    assert "Where the GPU's time goes" not in words(report)
    assert not (tmp_path / "run" / "detailed_breakdown.json").exists()


@pytest.mark.parametrize(
    "content",
    # Without mtime=0 it holds the time of day, and every process would collect another test.
    [b"", b"no gzip", gzip.compress(b"[1, 2", mtime=0)],
    ids=["empty", "no gzip", "half a list"],
)
def test_a_trace_that_cannot_be_read_is_a_doubt_and_the_verdict_stands(
    tmp_path: Path, record: Record, content: bytes
) -> None:
    folder = looked_into(record(tmp_path / "run"))
    whole = analyze(folder)
    (folder / "look-4242.json.gz").write_bytes(content)
    report = analyze(folder)

    assert report.breakdowns == {}
    assert any("look-4242.json.gz" in doubt for doubt in report.doubts)
    assert report.headline == whole.headline


def test_a_breakdown_of_before_does_not_stay_beside_a_report_without_one(
    tmp_path: Path, record: Record
) -> None:
    folder = looked_into(record(tmp_path / "run"))
    out = tmp_path / "out"
    analyze(folder)
    analyze(folder, output_dir=out)
    (folder / "look-4242.json.gz").unlink()
    (out / "notes.txt").write_text("mine")
    report = analyze(folder, output_dir=out)

    assert report.unwritten is None
    assert sorted(os.listdir(out)) == sorted([*FILES, "notes.txt"])
    assert (folder / "detailed_breakdown.json").exists()  # this folder was not written


def test_a_file_that_cannot_be_made_costs_only_itself(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = record(tmp_path / "run")
    analyze(folder)  # a page of before, which would be taken for this report's

    def broken(*_: object, **__: object) -> bytes:
        raise KeyError("no phrase\x1b[31m")

    monkeypatch.setattr("perfzero.report.analysis.html", broken)
    report = analyze(folder)
    assert report.headline
    assert report.files == tuple(name for name in FILES if name != "report.html")
    assert not (folder / "report.html").exists()
    assert report.unwritten is not None
    assert "report.html could not be made (report.html: KeyError: 'no phrase" in report.unwritten
    assert "\x1b" not in report.unwritten

    monkeypatch.undo()
    assert analyze(folder).unwritten is None


def test_a_breakdown_that_cannot_be_removed_is_said_and_the_verdict_stands(
    tmp_path: Path, record: Record
) -> None:
    folder = record(tmp_path / "run")
    (folder / "detailed_breakdown.json").mkdir()
    report = analyze(folder)

    assert report.headline
    assert report.unwritten is not None


def test_what_a_look_leaves_in_doubt_is_among_the_reports_doubts(tmp_path: Path, record: Record) -> None:
    folder = looked_into(record(tmp_path / "run"))
    trace = TraceOfALook()
    trace.work("gemm", 0, 1, at=0)
    trace.events.append(None)
    trace.write(folder)

    assert analyze(folder).doubts == (
        "look-4242.json.gz: 1 damaged events were skipped.",
        "look-4242.json.gz: The trace marks no steps, so there is no time per step.",
    )


def test_each_trace_is_read_once_and_no_more_than_a_few(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "MOST", 2)
    folder = record(tmp_path / "run")
    for pid in (4242, 4242, 1, 2):
        looked_into(folder, file=f"look-{pid}.json.gz", pid=pid)
    read: list[str] = []

    def count(path: Path) -> Trace:
        read.append(path.name)
        return read_trace(folder / "look-4242.json.gz")

    monkeypatch.setattr(looks, "read_trace", count)
    report = analyze(folder)

    assert read == ["look-4242.json.gz", "look-1.json.gz"]
    assert report.doubts == ("Of 3 looks inside the program the first 2 were read.",)


def test_a_look_without_a_trace_is_no_doubt(tmp_path: Path, record: Record) -> None:
    folder = looked_into(record(tmp_path / "run"), file="")

    assert analyze(folder).doubts == ()


def failed(folder: Path, *reasons: str, pid: int = 1) -> Path:
    """*folder* with a look for each of *reasons* that came to nothing, into processes *pid* and following."""
    with (folder / "events.jsonl").open("ab") as events:
        for k, reason in enumerate(reasons):
            events.write(event_line("look", Look(pid + k, BASE_NS, BASE_NS + 1, reason=reason)))
    return folder


def test_why_a_program_was_not_looked_into_is_said_once(tmp_path: Path, record: Record) -> None:
    why = "the program profiles itself"
    one = failed(record(tmp_path / "one"), why)
    many = failed(record(tmp_path / "many"), why, why, "it did not answer in time")
    some = failed(looked_into(record(tmp_path / "some")), "it is a worker of another process", why)

    assert judged_report(one).doubts == (
        f"The program's layers are not told, for there is no look into process 1: {why}.",
    )
    assert [d.partition(", for ")[2] for d in judged_report(many).doubts] == [
        "there is no look into process 1, nor into 2 more: the program profiles itself."
    ]
    assert [d for d in judged_report(some).doubts if "process" in d] == [
        "Not all layers are told, for there is no look into process 2: the program profiles itself."
    ]


def test_what_need_not_be_looked_into_is_not_missed(tmp_path: Path, record: Record) -> None:
    ended = failed(record(tmp_path / "ended"), *NO_LOSS)
    again = failed(looked_into(record(tmp_path / "again")), "it did not answer in time", pid=4242)

    assert judged_report(ended).doubts == ()
    assert not [d for d in judged_report(again).doubts if "no look" in d]


def test_the_reasons_that_are_no_loss_are_said_in_these_words() -> None:
    source = Path(perfzero.__file__).parent / "record"
    agents = "".join((source / "agent" / f"_perfzero_{name}.py").read_text() for name in ("torch", "agent"))

    assert [f'"{reason}"' in agents for reason in NO_LOSS] == [True, True]
    assert NO_LOSS[0] == say("look.ended_early")
    assert 'say("look.ended_early")' in (source / "look.py").read_text()
