"""
A trace for Perfetto: read back with protobuf, and asked by SQL in Perfetto's own trace processor.

Where there is none (`tests/trace_processor.py`) the tests that ask are skipped, and fail in CI.
"""

from __future__ import annotations

import functools
import io
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hand_written_look import BASE_NS
from hand_written_look import Look as HandWrittenLook
from hand_written_stacks import at, made
from perfzero.counters import BY_NAME
from perfzero.errors import UsageError
from perfzero.report import perfetto, perfetto_look, trace_file
from perfzero.report.analysis import judged_report
from perfzero.report.identity import identity
from perfzero.report.json_file import to_json
from perfzero.report.model import Report
from perfzero.report.perfetto import changes, write_perfetto
from perfzero.report.perfetto_stacks import stack_slices, waits
from perfzero.report.timeline import coarsen
from perfzero.report.trace_file import MAX_NAME, TraceFile, disjoint, head, short
from perfzero.stacks import GilUse
from perfzero.store.kineto import read_trace
from perfzero.store.reader import open_recording
from perfzero.store.stacks import read_stacks
from perfzero.store.writer import RecordingWriter
from perfzero.values import Gap, Gpu, Look, Note, Process, Samples, Window
from trace_processor import TraceProcessor, open_trace

RECORDINGS = Path(__file__).parents[1] / "recordings"
BOTH = RECORDINGS / "_looks" / "adversaries"
"""Has a look inside, and stacks of a host for whose two lines the GPU waits."""

MS = 1_000_000
NS = BASE_NS


@functools.cache
def judged(case: str) -> Report:
    return judged_report(RECORDINGS / case)


@functools.cache
def traced(case: str) -> tuple[bytes, dict[str, Any]]:
    """The trace of the recording *case*, and what its report.json says."""
    into = io.BytesIO()
    write_perfetto(RECORDINGS / case, judged(case), into)
    return into.getvalue(), json.loads(to_json(judged(case)))


def packets(trace: bytes) -> list[Any]:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    return list(perfetto_trace_pb2.Trace.FromString(trace).packet)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TraceProcessor, dict[str, Any]]]:
    """The recording that has everything, to be asked, and its report.json."""
    content, said = traced("_looks/adversaries")
    file = tmp_path_factory.mktemp("trace") / "both.pftrace"
    file.write_bytes(content)
    trace = open_trace(file)
    yield trace, said
    trace.close()


def told(trace: bytes, category: str) -> list[dict[str, Any]]:
    """What stands beside each slice of *category*, with its `name`, in the order of the file."""
    texts: dict[str, dict[int, str]] = defaultdict(dict)
    rows = []
    for packet in packets(trace):
        said = packet.interned_data
        for kind in ("event_names", "event_categories", "debug_annotation_names"):
            texts[kind].update((t.iid, t.name) for t in getattr(said, kind))
        texts["values"].update((t.iid, t.str.decode()) for t in said.debug_annotation_string_values)
        event = packet.track_event
        if category not in [texts["event_categories"][n] for n in event.category_iids]:
            continue
        row: dict[str, Any] = {"name": texts["event_names"].get(event.name_iid, event.name)}
        for note in event.debug_annotations:
            kind = note.WhichOneof("value")
            value = getattr(note, kind)
            key = texts["debug_annotation_names"][note.name_iid]
            row[key] = texts["values"][value] if kind == "string_value_iid" else value
        rows.append(row)
    return rows


# --- what the report says is what SQL answers ----------------------------------------------------

IDLE = """
    SELECT SUM(idle.dur) * 1.0 / EXTRACT_ARG(judged.arg_set_id, 'debug.judged_ns') AS share
    FROM slice AS idle
    JOIN track AS below ON below.parent_id = idle.track_id AND below.name = 'judged'
    JOIN slice AS judged ON judged.track_id = below.id
    WHERE idle.category = 'idle' AND EXTRACT_ARG(judged.arg_set_id, 'debug.gpu') = {gpu}
"""

CAUSES = """
    SELECT
        EXTRACT_ARG(arg_set_id, 'debug.cause') AS activity,
        EXTRACT_ARG(arg_set_id, 'debug.file') AS file,
        EXTRACT_ARG(arg_set_id, 'debug.line') AS line,
        SUM(dur) * 1.0 / (
            SELECT SUM(gap.dur) FROM slice AS gap WHERE gap.category = 'gap'
        ) AS share
    FROM slice
    WHERE category = 'cause' AND EXTRACT_ARG(arg_set_id, 'debug.gpu') = {gpu}
    GROUP BY activity, file, line
    ORDER BY share DESC
"""


def test_idle_time_and_what_goes_to_each_line_are_those_of_the_report(both):
    trace, said = both
    (gpu,) = said["gpus"]
    host = gpu["host"]

    assert trace.one(IDLE.format(gpu=0)) == pytest.approx(gpu["time"]["idle"], abs=1e-8)
    assert len(host["causes"]) == 2
    for told, cause in zip(trace.query(CAUSES.format(gpu=0)), host["causes"], strict=True):
        assert {k: told[k] for k in ("activity", "file", "line")} == {
            k: cause[k] for k in ("activity", "file", "line")
        }
        assert told["share"] == pytest.approx(cause["share"], abs=1e-7)
    gap_s = trace.one("SELECT SUM(dur) FROM slice WHERE category = 'gap'") / 1e9
    assert gap_s == pytest.approx(host["idle"] * host["seconds"], rel=1e-8)


@pytest.mark.parametrize("case", ["_stacks/fir", "_looks/ddp", "gpm_only"])
def test_so_it_is_where_lines_overlap_of_two_gpus_and_of_averages(case, tmp_path):
    """The lines of `fir` have 192 % of the idle time together, for each alone would do."""
    content, said = traced(case)
    (tmp_path / "trace").write_bytes(content)
    trace = open_trace(tmp_path / "trace")
    try:
        for gpu in said["gpus"]:
            index = gpu["gpu"]["index"]
            assert trace.one(IDLE.format(gpu=index)) == pytest.approx(gpu["time"]["idle"], abs=1e-8)
            causes = [] if gpu["host"] is None else gpu["host"]["causes"]
            told = {(c["file"], c["line"]): c["share"] for c in trace.query(CAUSES.format(gpu=index))}
            assert told == {(c["file"], c["line"]): pytest.approx(c["share"], abs=1e-6) for c in causes}
    finally:
        trace.close()


def test_the_trace_processor_finds_nothing_wrong_with_it(both):
    trace, _ = both

    assert trace.query("SELECT name FROM stats WHERE value > 0 AND severity != 'info'") == []
    assert trace.query("SELECT name FROM slice WHERE dur < 0") == []


def test_its_clock_is_unix_time(both):
    trace, said = both
    clocks = trace.query("SELECT clock_name, clock_value, ts FROM clock_snapshot ORDER BY clock_id")
    (bounds,) = trace.query("SELECT start_ts, end_ts FROM trace_bounds")

    assert [c["clock_name"] for c in clocks] == ["REALTIME", "BOOTTIME"]
    assert {c["clock_value"] for c in clocks} == {c["ts"] for c in clocks} == {said["start_ns"]}
    assert bounds["start_ts"] >= said["start_ns"]
    assert bounds["end_ts"] <= said["end_ns"] + 10**9


def test_the_verdict_lies_over_the_stretch_that_was_judged(both):
    trace, said = both
    (gpu,) = said["gpus"]
    (slice_,) = trace.query(
        "SELECT ts, dur, name, EXTRACT_ARG(arg_set_id, 'debug.rule') AS rule, "
        "EXTRACT_ARG(arg_set_id, 'debug.confidence') AS confidence, "
        "EXTRACT_ARG(arg_set_id, 'debug.time_fma') AS fma FROM slice WHERE category = 'verdict'"
    )

    assert slice_["ts"] == gpu["steady"]["start_ns"]
    assert slice_["ts"] + slice_["dur"] == gpu["steady"]["end_ns"]
    assert slice_["name"] == gpu["headline"]
    assert slice_["rule"] == gpu["verdict"]["rule"]
    assert slice_["confidence"] == gpu["verdict"]["confidence"]
    assert slice_["fma"] == gpu["time"]["fma"]


def test_kernels_are_those_of_the_look_with_their_module_and_the_launch_that_leads_to_them(both):
    trace, _ = both
    work = read_trace(BOTH / "look-3972.json.gz").work
    kernels = trace.query(
        "SELECT COUNT(*) AS n, SUM(dur) AS ns, "
        "SUM(EXTRACT_ARG(arg_set_id, 'debug.module') IS NOT NULL) AS owned, "
        "SUM(EXTRACT_ARG(arg_set_id, 'debug.operator') IS NOT NULL) AS asked "
        "FROM slice WHERE category IN ('kernel', 'memcpy', 'memset')"
    )[0]
    linked = trace.one(
        "SELECT COUNT(*) FROM flow JOIN slice AS a ON a.id = slice_out JOIN slice AS b ON b.id = slice_in "
        "WHERE a.category = 'launch' AND b.category IN ('kernel', 'memcpy', 'memset')"
    )
    group = trace.one(
        "SELECT DISTINCT top.name FROM slice JOIN track ON track.id = track_id "
        "JOIN track AS above ON above.id = track.parent_id JOIN track AS top ON top.id = above.parent_id "
        "WHERE slice.category = 'kernel'"
    )

    assert kernels["n"] == len(work) == linked
    assert kernels["ns"] == int(np.sum(work.end_ns - work.start_ns))
    assert kernels["asked"] == kernels["n"]
    assert kernels["owned"] > 0.5 * kernels["n"]
    assert group == "GPU 0: NVIDIA H200"


def test_kernels_of_each_process_lie_below_its_own_gpu():
    """Two processes train together, each on a GPU that it numbers 0."""
    found = packets(traced("_looks/ddp")[0])
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in found if p.HasField("track_descriptor")}
    gpus = {}
    for track in tracks.values():
        if track.name.startswith("stream "):
            gpu = tracks[tracks[track.parent_uuid].parent_uuid]
            gpus.setdefault(track.name.split()[-1], set()).add(gpu.name)
    looks = {str(look.pid): look.gpus for look in open_recording(RECORDINGS / "_looks/ddp").looks}

    assert gpus == {pid: {f"GPU {index}: NVIDIA H200"} for pid, (index,) in looks.items()}
    assert {index for (index,) in looks.values()} == {0, 1}


def test_a_process_numbers_its_gpus_in_their_order_and_what_it_cannot_mean_is_not_known():
    look = Look(1, 0, 1, gpus=(5, 2))

    assert [perfetto_look._gpu_of(look, device, {2: 20, 5: 50}) for device in (0, 1, 2, -1)] == [
        2,
        5,
        None,
        None,
    ]
    assert perfetto_look._gpu_of(replace(look, gpus=()), 0, {2: 20}) == 2
    assert perfetto_look._gpu_of(replace(look, gpus=()), 0, {2: 20, 5: 50}) is None
    assert perfetto_look._gpu_of(replace(look, gpus=(7,)), 0, {2: 20}) is None


def test_modules_lie_within_the_module_that_calls_them(both):
    trace, _ = both
    rows = trace.query(
        "SELECT outer.name AS outer, inner.name AS inner FROM slice AS inner "
        "JOIN slice AS outer ON outer.id = inner.parent_id WHERE inner.category = 'module'"
    )

    assert {(r["outer"], r["inner"]) for r in rows} >= {
        ("model (Sequential)", "0 (Sequential)"),
        ("0 (Sequential)", "0.0 (Linear)"),
    }
    assert trace.one("SELECT COUNT(*) FROM slice WHERE category = 'step'") == 8


def test_stacks_lie_within_each_other_as_calls_do(both):
    trace, _ = both
    (row,) = trace.query(
        "SELECT COUNT(*) AS n, SUM(dur) AS ns FROM slice WHERE category = 'stack' AND depth = 0"
    )
    deep = trace.query(
        "SELECT outer.name AS outer FROM slice AS inner JOIN slice AS outer ON outer.id = inner.parent_id "
        "WHERE inner.category = 'stack' AND EXTRACT_ARG(inner.arg_set_id, 'debug.line') = 129 LIMIT 1"
    )

    assert row["n"] > 0
    assert deep[0]["outer"].endswith(")")
    assert "programs.py" in deep[0]["outer"]
    assert trace.one(
        "SELECT COUNT(*) FROM slice WHERE category = 'stack' "
        "AND EXTRACT_ARG(arg_set_id, 'debug.text') = 'return other()'"
    )


def test_stacks_are_put_right_in_time_as_the_report_did():
    """Their clock may be off by milliseconds; what the report added to find the causes is added here."""
    report = judged("_looks/adversaries")
    (gpu,) = report.gpus
    begun = []
    for offset_s in (0.0, 0.25):
        moved = replace(report, gpus=(replace(gpu, host=replace(gpu.host, offset_s=offset_s)),))
        into = io.BytesIO()
        write_perfetto(BOTH, moved, into)
        found = packets(into.getvalue())
        (track,) = (p.track_descriptor.uuid for p in found if ", sampled: main" in p.track_descriptor.name)
        begun.append(next(p.timestamp for p in found if p.track_event.track_uuid == track))

    assert begun[0] in read_stacks(BOTH).processes[0].time_ns
    assert begun[1] - begun[0] == 250 * MS


@pytest.mark.parametrize("case", ["_stacks/hazel", "_stacks/ash"])
def test_so_is_everything_that_was_sampled_with_them_from_the_first_call_to_the_last_end(case):
    """Stacks of workers, waits for the GIL and who holds it; and nothing with the recording's own clock."""
    report = judged(case)
    (gpu,) = report.gpus
    traces = []
    for offset_s in (-0.25, 0.25):
        moved = replace(report, gpus=(replace(gpu, host=replace(gpu.host, offset_s=offset_s)),))
        into = io.BytesIO()
        write_perfetto(RECORDINGS / case, moved, into)
        traces.append(times_by_track(into.getvalue()))
    before, after = traces
    kinds = ["sampled: main"] + (
        ["sampled: worker"] if case.endswith("ash") else ["GIL: the main thread waits", "GIL: who holds it"]
    )

    for kind in kinds:
        ours = [key for key in before if kind in key]
        assert any(len(before[key]) for key in ours)
        for key in ours:
            np.testing.assert_array_equal(after[key] - before[key], 500 * MS)
    counters = [key for key in before if "counters: " in key and len(before[key])]
    assert counters
    for key in counters:
        np.testing.assert_array_equal(after[key], before[key])


@pytest.mark.parametrize("offset_ns", [0, 250 * MS, -250 * MS])
def test_what_is_still_called_when_sampling_ends_ends_with_it(written, offset_ns):
    """Programs of the recordings were over by then; this one goes on for 30 ms after the last moment."""
    into, trace = written
    stacks, _ = made([(at(12), 20.0, [(0.0, 20.0)])])
    process = stacks.processes[0]
    process = replace(process, time_ns=process.time_ns + NS, end_ns=NS + int(process.time_ns[-1]) + 30 * MS)
    stack_slices(trace, trace.track("program"), replace(stacks, processes=(process,)), offset_ns=offset_ns)
    last = max(moment for moment, kind, _ in events(into) if kind == 2)

    assert last == process.end_ns + offset_ns
    check(packets(into.getvalue()))


def test_the_track_of_stacks_says_what_was_added_to_their_times():
    report = judged("_looks/adversaries")
    (gpu,) = report.gpus
    into = io.BytesIO()
    moved = replace(report, gpus=(replace(gpu, host=replace(gpu.host, offset_s=0.0125)),))
    write_perfetto(BOTH, moved, into)
    (about,) = (
        p.track_descriptor.description
        for p in packets(into.getvalue())
        if ", sampled: main" in p.track_descriptor.name
    )

    assert "12.5 ms were added" in about


def times_by_track(trace: bytes) -> dict[str, np.ndarray]:
    """When something happens on each track, by the names from the top down to it."""
    names: dict[int, str] = {0: ""}
    found: dict[str, list[int]] = {}
    for packet in packets(trace):
        track = packet.track_descriptor
        if packet.HasField("track_descriptor"):
            names[track.uuid] = f"{names[track.parent_uuid]}/{track.name}"
            found.setdefault(names[track.uuid], [])
        elif packet.HasField("track_event"):
            found[names[packet.track_event.track_uuid]].append(packet.timestamp)
    return {name: np.array(times, np.int64) for name, times in found.items()}


def test_a_mean_over_a_counter_is_that_of_the_samples_and_what_lies_between_windows_is_null(both):
    trace, _ = both
    pm = open_recording(BOTH).samples("pm", 0)
    zoom = open_recording(BOTH).samples("zoom", 0)
    (row,) = trace.query(
        """
        WITH held AS (
            SELECT counter.value, LEAD(counter.ts) OVER (ORDER BY counter.ts) - counter.ts AS dur
            FROM counter
            JOIN track AS t ON t.id = counter.track_id
            JOIN track AS above ON above.id = t.parent_id
            WHERE t.name = 'dram_read_bytes' AND above.name = 'counters: PM sampling'
        )
        SELECT
            SUM(value * dur) / 1e9 AS bytes,
            SUM(CASE WHEN value IS NULL THEN 0 ELSE dur END) / 1e9 AS seconds,
            SUM(value IS NULL) AS holes
        FROM held
        """
    )
    read = pm.column("dram_read_bytes").sum() + zoom.column("dram_read_bytes").sum()
    seconds = float(pm.duration_s.sum() + zoom.duration_s.sum())

    assert row["bytes"] == pytest.approx(read, rel=2e-3)
    assert row["seconds"] == pytest.approx(seconds, rel=2e-3)
    assert row["holes"] >= 3


def test_counters_tell_their_unit_and_amounts_are_rates(both):
    trace, _ = both
    units = {
        r["name"]: r["unit"]
        for r in trace.query(
            "SELECT t.name, c.unit FROM counter_track AS c JOIN track AS t ON t.id = c.id "
            "JOIN track AS above ON above.id = t.parent_id WHERE above.name = 'counters: PM sampling'"
        )
    }

    assert units["gr_active"] == "ratio"
    assert units["dram_read_bytes"] == "bytes/s"
    assert units["gpc_clock"] == "hertz"


@pytest.mark.parametrize("source", ["PM sampling", "NVML", "host"])
def test_every_counter_has_its_own_unit_and_an_amount_that_per_second(source):
    """Of each source, with the values that belong to that: an amount by the length of its sample."""
    recording = open_recording(BOTH)
    table = {
        "PM sampling": recording.samples("pm", 0),
        "NVML": recording.samples("board", 0),
        "host": recording.samples("host"),
    }[source]
    found = packets(traced("_looks/adversaries")[0])
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in found if p.HasField("track_descriptor")}
    (group,) = (number for number, track in tracks.items() if track.name == f"counters: {source}")
    below = {t.name: t for t in tracks.values() if t.parent_uuid == group}
    values = defaultdict(list)
    for packet in found:
        values[packet.track_event.track_uuid].append(packet.track_event.double_counter_value)

    assert below
    assert {BY_NAME[name].kind for name in below} == {"level", "total"}
    for name, track in below.items():
        amount = BY_NAME[name].kind == "total"
        assert track.counter.unit_name == BY_NAME[name].unit + ("/s" if amount else "")
        assert track.counter.y_axis_share_key == track.counter.unit_name
        one = table.column(name) / (table.duration_s if amount else 1.0)
        one = one[np.isfinite(one)]
        assert not len(one) or np.isclose(values[track.uuid], one[0], rtol=1e-6).any()


def test_beside_each_cause_stands_what_the_report_says_of_it():
    (gpu,) = judged("_looks/adversaries").gpus
    said = {
        (row["file"], row["line"]): [
            row[k] for k in ("cause", "function", "text", "share", "share_low", "share_high")
        ]
        for row in told(traced("_looks/adversaries")[0], "cause")
    }

    assert len({c.low for c in gpu.host.causes} | {c.high for c in gpu.host.causes}) == 4
    assert said == {
        (c.frame.file, c.frame.line): [c.activity, c.frame.function, c.text, c.share, c.low, c.high]
        for c in gpu.host.causes
    }


def test_beside_each_finding_stands_what_the_report_says_of_it():
    (gpu,) = judged("_looks/adversaries").gpus
    said = told(traced("_looks/adversaries")[0], "finding")
    keys = ("name", "rule", "severity", "share", "confidence", "gain_low", "gain_high", "because")

    assert len(said) >= 2
    assert [[row[k] for k in keys] for row in said] == [
        [f.title, f.rule, f.severity, f.share, f.confidence, f.gain.low, f.gain.high, "; ".join(f.because)]
        for f in gpu.diagnosis.findings
    ]
    (verdict,) = told(traced("_looks/adversaries")[0], "verdict")
    assert verdict["gain_low"] == gpu.diagnosis.verdict.gain.low
    assert verdict["gain_high"] == gpu.diagnosis.verdict.gain.high


def test_a_finding_without_a_gain_has_none_beside_it():
    (row,) = (row for row in told(traced("killed")[0], "finding") if row["rule"] == "well_used")

    assert "gain_low" not in row
    assert "gain_high" not in row
    assert row["confidence"] == 0.95


def test_windows_and_bursts_tell_what_came_and_what_was_lost(tmp_path):
    lost = {"regular": 3, "dense": 7, "zoom": 11}
    with RecordingWriter(
        tmp_path / "recording",
        gpus=[Gpu(0, "GPU-0", "GPU")],
        process=Process(),
        settings={},
        tiers={0: "pm"},
        tier_reasons={},
    ) as writer:
        at = NS + np.arange(100, dtype=np.int64) * MS
        writer.append("pm", 0, Samples(at, at + MS, {"gr_active": np.full(100, 0.5)}))
        for number, (kind, missing) in enumerate(lost.items()):
            begin = NS + 30 * MS * number
            writer.window(Window(0, kind, begin, begin + 30 * MS, 1000 + number, 50 + number, missing))
        writer.gap(Gap(0, "pm", NS, NS + MS, "a reason"))
        writer.note(Note(NS, "a kind", "a text", 0))
    into = io.BytesIO()
    write_perfetto(tmp_path / "recording", judged_report(tmp_path / "recording"), into)

    assert told(into.getvalue(), "window") == [
        {"name": kind, "gpu": 0, "period_ns": 1000 + number, "samples": 50 + number, "lost": missing}
        for number, (kind, missing) in enumerate(lost.items())
    ]
    assert told(into.getvalue(), "missing") == [{"name": "a reason", "gpu": 0, "source": "pm"}]
    assert told(into.getvalue(), "note") == [{"name": "a text", "kind": "a kind"}]


PAGE = Path(__file__).parents[2] / "docs" / "export.md"
EXAMPLES = re.findall(r"```sql\n(.*?)```\n\n```\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(("sql", "answer"), EXAMPLES)
def test_the_examples_of_the_page_answer_as_it_says(both, sql, answer):
    trace, _ = both
    rows = trace.query(sql)
    told = [list(rows[0]), *([str(v) for v in row.values()] for row in rows)]

    assert "".join(f"{' | '.join(row)}\n" for row in told) == answer


def test_the_page_has_examples_and_every_category(both):
    trace, _ = both
    (line,) = re.findall(r"Categories of slices: (.*)", PAGE.read_text(encoding="utf-8"))

    assert len(EXAMPLES) == 4
    assert {row["category"] for row in trace.query("SELECT DISTINCT category FROM slice")} <= set(
        re.findall(r"`(\w+)`", line)
    )


# --- well formed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["_looks/adversaries", "_looks/ddp", "_stacks/fir", "gpm_only", "killed"])
def test_a_trace_is_well_formed(case):
    """Tracks and texts are told once, before they are used; what begins ends; and time does not run back."""
    check(packets(traced(case)[0]))


def check(found: list[Any]) -> None:
    """Raise where a trace of these packets is not well formed."""
    tracks: set[int] = set()
    texts: dict[str, set[int]] = defaultdict(set)
    depth: dict[int, int] = defaultdict(int)
    last: dict[int, int] = defaultdict(int)
    flows: dict[int, int] = defaultdict(int)
    assert found[0].HasField("trace_uuid")
    assert found[1].HasField("clock_snapshot")
    assert found[1].sequence_flags == 1
    for packet in found[2:]:
        assert packet.trusted_packet_sequence_id == 1
        assert packet.sequence_flags == 2
        for name in ("event_names", "event_categories", "debug_annotation_names"):
            for text in getattr(packet.interned_data, name):
                assert text.iid not in texts[name]
                texts[name].add(text.iid)
        for text in packet.interned_data.debug_annotation_string_values:
            assert text.iid not in texts["values"]
            texts["values"].add(text.iid)
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in tracks
            assert not track.parent_uuid or track.parent_uuid in tracks
            assert 0 < len(track.name) <= MAX_NAME
            tracks.add(track.uuid)
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        assert event.track_uuid in tracks
        assert packet.timestamp >= last[event.track_uuid]
        last[event.track_uuid] = packet.timestamp
        depth[event.track_uuid] += {1: 1, 2: -1}.get(event.type, 0)
        assert depth[event.track_uuid] >= 0
        if event.type in (1, 3):
            assert event.name or event.name_iid in texts["event_names"]
            assert set(event.category_iids) <= texts["event_categories"]
            for note in event.debug_annotations:
                assert note.name_iid in texts["debug_annotation_names"]
                assert not note.string_value_iid or note.string_value_iid in texts["values"]
        for flow in event.flow_ids:
            flows[flow] += 1
    assert not any(depth.values())
    assert set(flows.values()) <= {1, 2}


@pytest.mark.parametrize("what", ["track", "text", "end", "time", "uuid"])
def test_the_check_of_that_sees_what_is_wrong(what):
    into = io.BytesIO()
    trace = TraceFile(into, began_ns=NS, identity=bytes(16))
    track = trace.track("one")
    trace.slice(track, NS, NS + 5, "a", "b", args={"c": "d"})
    trace.slice(track, NS + 7, NS + 9, "a", "b", args={"c": "d"})
    found = packets(into.getvalue())
    check(found)
    begin = next(p for p in found if p.track_event.type == 1)
    if what == "track":
        begin.track_event.track_uuid = 77
    elif what == "text":
        begin.interned_data.ClearField("event_names")
    elif what == "end":
        found.pop()
    elif what == "time":
        found[-1].timestamp = NS
    else:
        found.insert(3, found[2])

    with pytest.raises(AssertionError):
        check(found)


def test_a_second_trace_of_a_recording_is_the_same_and_begins_as_no_other_does():
    again = io.BytesIO()
    write_perfetto(RECORDINGS / "gpm_only", judged("gpm_only"), again)
    ours, other = (open_recording(RECORDINGS / case) for case in ("gpm_only", "killed"))

    assert traced("gpm_only")[0] == again.getvalue()
    assert again.getvalue().startswith(head(identity(ours)))
    assert not again.getvalue().startswith(head(identity(other)))


# --- packets ---------------------------------------------------------------------------------------


def events(into: io.BytesIO) -> list[tuple[int, int, float]]:
    """Time, type and value of all events."""
    return [
        (p.timestamp, p.track_event.type, p.track_event.double_counter_value)
        for p in packets(into.getvalue())
        if p.HasField("track_event")
    ]


@pytest.fixture
def written() -> tuple[io.BytesIO, TraceFile]:
    into = io.BytesIO()
    return into, TraceFile(into, began_ns=NS, identity=bytes(range(16)))


def test_values_made_of_a_pattern_read_as_those_made_one_by_one(written, monkeypatch):
    """Times of any size, and more values than are made at a time."""
    into, trace = written
    monkeypatch.setattr(trace_file, "CHUNK", 2)
    track = trace.track("c", unit="ratio")
    at_ns = np.array([0, 1, 300, NS, (1 << 62) + 12345], np.int64)
    values = np.array([0.0, -1.5, np.inf, 1e-300, 0.1])

    trace.counter(track, at_ns, values)

    assert events(into) == [(t, 4, v) for t, v in zip(at_ns.tolist(), values.tolist(), strict=True)]
    assert trace.values == 5


def test_many_slices_read_as_those_made_one_by_one(written, monkeypatch):
    into, trace = written
    monkeypatch.setattr(trace_file, "CHUNK", 2)
    track = trace.track("s")
    start_ns = NS + np.array([0, 10, 30], np.int64)

    trace.many_slices(track, start_ns, start_ns + 10, "idle", "idle")

    assert [(t - NS, kind) for t, kind, _ in events(into)] == [
        (0, 1), (10, 2), (10, 1), (20, 2), (30, 1), (40, 2)
    ]  # fmt: skip
    check(packets(into.getvalue()))


def test_what_ends_later_than_what_it_began_in_ends_with_that(written):
    into, trace = written
    track = trace.track("s")
    start_ns, end_ns = NS + np.array([0, 2, 10]), NS + np.array([10, 15, 12])

    trace.within_each_other(track, start_ns, end_ns, lambda i: {"name": f"n{i}"})

    assert [(t - NS, kind) for t, kind, _ in events(into)] == [
        (0, 1), (2, 1), (10, 2), (10, 2), (10, 1), (12, 2)
    ]  # fmt: skip


def test_what_an_offset_moves_before_1970_is_told_of_its_first_moment(written):
    into, trace = written
    trace.slice(trace.track("s"), -250 * MS, 3, "a", "b", args={"c": "d"})
    trace.slice(trace.track("t"), -250 * MS, -MS, "a", "b")

    assert [(t, kind) for t, kind, _ in events(into)] == [(0, 1), (3, 2), (0, 1), (0, 2)]
    check(packets(into.getvalue()))


def test_what_begins_before_the_one_before_it_ends_begins_then():
    start, end = disjoint(np.array([0, 5, 6, 20]), np.array([10, 8, 12, 21]))

    assert list(zip(start.tolist(), end.tolist(), strict=True)) == [(0, 10), (10, 10), (10, 12), (20, 21)]


def test_a_name_is_one_line_of_what_can_be_seen():
    assert short("two\nlines \x1b[31mred\u202e", 99) == "two lines [31mred"
    assert short("x" * 300, 10) == "x" * 9 + "…"
    assert short("ten of them", 11) == "ten of them"


def test_texts_are_told_once_and_more_than_fit_are_written_out(written, monkeypatch):
    into, trace = written
    monkeypatch.setattr(trace_file, "MAX_TEXTS", 3)
    track = trace.track("s")
    for k in range(5):
        trace.slice(track, NS + k, NS + k, f"name {k}", "x", args={"a": f"text {k}"})
    trace.slice(track, NS + 9, NS + 9, "name 0", "x")
    begun = [p for p in packets(into.getvalue()) if p.track_event.type == 1]

    assert begun[0].track_event.name_iid == begun[5].track_event.name_iid > 0
    assert not begun[5].HasField("interned_data")
    assert begun[4].track_event.name == "name 4"
    assert begun[4].track_event.debug_annotations[0].string_value == "text 4"


# --- counters --------------------------------------------------------------------------------------


def test_a_value_is_told_when_it_changes_and_a_hole_has_none():
    start = np.array([0, 10, 20, 50, 60]) * MS
    at_ns, values = changes(start, start + 10 * MS, np.array([1.0, 1.0, 2.0, 2.0, np.nan]))

    assert (at_ns / MS).tolist() == [0, 20, 30, 50, 60]
    np.testing.assert_array_equal(values, [1.0, 2.0, np.nan, 2.0, np.nan])


def test_stamps_that_jitter_make_no_hole():
    start = np.array([0, 10 * MS + 1500, 20 * MS - 700])
    at_ns, values = changes(start, np.array([10 * MS, 20 * MS, 30 * MS]), np.array([1.0, 2.0, 3.0]))

    assert at_ns.tolist() == [*start.tolist(), 30 * MS]
    assert np.isnan(values).tolist() == [False, False, False, True]


def test_of_a_long_recording_samples_are_merged_unless_every_one_is_wanted(tmp_path, monkeypatch):
    monkeypatch.setattr(perfetto, "MOST_VALUES", 20_000)
    case = "killed"
    merged, whole = (
        write_perfetto(RECORDINGS / case, judged(case), io.BytesIO(), every_sample=every)
        for every in (False, True)
    )

    assert (merged.merged, merged.bursts_merged) == (3, 10)
    assert merged.values < 20_000 < whole.values
    assert (whole.merged, whole.bursts_merged) == (1, 1)


def test_bursts_are_merged_by_their_own_number_and_windows_by_theirs(monkeypatch):
    """3 of each window and 10 of each burst: they are not as fine as each other."""
    monkeypatch.setattr(perfetto, "MOST_VALUES", 20_000)
    factors = []

    def noted(table, *, factor):
        factors.append((len(table), factor))
        return coarsen(table, factor=factor)

    monkeypatch.setattr(perfetto, "coarsen", noted)
    write_perfetto(RECORDINGS / "killed", judged("killed"), io.BytesIO())
    recording = open_recording(RECORDINGS / "killed")
    (pm, windows), (zoom, bursts) = factors

    assert (windows, bursts) == (3, 10)
    assert pm == pytest.approx(len(recording.samples("pm", 0)), rel=0.05)
    assert zoom == pytest.approx(len(recording.samples("zoom", 0)), rel=0.05)


# --- the GIL ---------------------------------------------------------------------------------------


def test_a_wait_for_the_gil_lasts_until_a_look_finds_it_over_and_not_for_ever():
    at_ns = np.array([0, 10, 20, 30, 1000]) * MS
    start, end = waits(GilUse(at_ns, np.array([1, 1, 0, 1, 1]), rate_hz=100.0))

    assert (start / MS).tolist() == [0, 30, 1000]
    assert (end / MS).tolist() == [20, 70, 1010]


def test_where_nobody_waited_there_is_no_wait():
    start, end = waits(GilUse(np.array([5, 6]), np.array([0, 0]), rate_hz=100.0))

    assert len(start) == len(end) == 0


# --- what a stranger may have written --------------------------------------------------------------

EVIL = "</script>\x1b[31m\u202e\x00'\"" + "x" * 5000


def hostile(folder: Path) -> Path:
    """A recording whose texts and times are chosen to do harm."""
    gpu = Gpu(0, "GPU-0", EVIL[:200])
    process = Process(pid=1, command=(EVIL, "-m"))
    with RecordingWriter(
        folder, gpus=[gpu], process=process, settings={}, tiers={0: "pm"}, tier_reasons={}
    ) as writer:
        at = NS + np.arange(100, dtype=np.int64) * MS
        odd = np.where(np.arange(100) % 7, 0.5, np.nan)
        columns = {"gr_active": odd, "dram_read_bytes": np.full(100, np.inf)}
        writer.append("pm", 0, Samples(at, at + MS, columns))
        writer.window(Window(0, "regular", NS, NS + 50 * MS, MS, 10, 3))
        writer.window(Window(0, "dense", NS + 20 * MS, NS + 80 * MS, MS, 10, 3))
        writer.gap(Gap(0, EVIL, NS, NS + MS, EVIL))
        writer.gap(Gap(None, EVIL, NS, NS + 9 * MS, "one that overlaps"))
        writer.note(Note(-5, EVIL, EVIL, 0))
        writer.look(Look(7, NS, NS + 90 * MS, "look-7.json.gz", gpus=(0,)))
        writer.look(Look(8, NS + 5, NS + 95 * MS, "look-8.json.gz"))
    look = HandWrittenLook()
    look.module(EVIL.replace("|", ""), "Class", 0, 50)
    look.module("late", "Class", 40, 90)  # ends after what it began in
    first = look.launch(4)
    look.kernel(EVIL, 5, 20, correlation=first)
    look.kernel("overlaps", 10, 15, correlation=first)
    look.kernel("elsewhere", 10, 15, correlation=77, device=3, stream=9)
    look.write(folder).rename(folder / "look-7.json.gz")
    (folder / "look-8.json.gz").write_bytes(b"no look")
    return folder


def test_what_a_stranger_wrote_makes_a_trace_all_the_same(tmp_path):
    recording = hostile(tmp_path / "recording")
    report = judged_report(recording)
    into = io.BytesIO()
    written = write_perfetto(recording, report, into)
    found = packets(into.getvalue())

    check(found)
    names = [p.track_descriptor.name for p in found if p.HasField("track_descriptor")]
    names += [n.name for p in found for n in p.interned_data.event_names]
    assert not any(c in name for name in names for c in "\x1b\u202e\x00")
    assert any("overlaps" in name for name in names)
    assert written.doubts
    assert "look-8" in written.doubts[0]


def test_stacks_that_never_end_are_cut_off(monkeypatch):
    monkeypatch.setattr(trace_file, "MOST_SLICES", 2_000)
    into = io.BytesIO()
    written = write_perfetto(RECORDINGS / "_stacks/fir", judged("_stacks/fir"), into)

    check(packets(into.getvalue()))
    assert any("too many" in doubt for doubt in written.doubts)
    assert written.slices < 2_100


def test_a_look_whose_owners_cannot_be_found_leaves_the_rest(monkeypatch):
    def fails(_: object) -> None:
        raise IndexError

    monkeypatch.setattr(perfetto_look, "find_owners", fails)
    into = io.BytesIO()
    written = write_perfetto(BOTH, judged("_looks/adversaries"), into)

    assert any("IndexError" in doubt for doubt in written.doubts)
    check(packets(into.getvalue()))


# --- without the package ---------------------------------------------------------------------------


def test_without_the_perfetto_package_it_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)

    with pytest.raises(UsageError, match=r"pip install 'perfzero\[perfetto\]'"):
        TraceFile(io.BytesIO(), began_ns=NS, identity=bytes(16))


def test_an_older_protobuf_is_told_too(monkeypatch):
    class TooOld(Exception):
        pass

    class Finder:
        def find_spec(self, name: str, *_: object) -> None:
            if name.startswith("perfetto"):
                raise TooOld("gencode 6.31 runtime 4.25")

    for name in [n for n in sys.modules if n.startswith("perfetto")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])

    with pytest.raises(UsageError, match="protobuf is too old"):
        TraceFile(io.BytesIO(), began_ns=NS, identity=bytes(16))


def test_a_gpu_whose_time_could_not_be_shared_out_has_no_idle_track():
    """Where counters are broken nothing is said of the time, so nothing is drawn either."""
    report = judged("killed")
    (gpu,) = report.gpus
    report = replace(report, gpus=(replace(gpu, diagnosis=replace(gpu.diagnosis, shares={})),))
    into = io.BytesIO()
    write_perfetto(RECORDINGS / "killed", report, into)
    names = {p.track_descriptor.name for p in packets(into.getvalue())}

    assert "idle" not in names
    assert "sampling" in names
