"""CSV, Parquet and JSON: what is read back is what the recording holds, and what the report says."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from perfzero.report import tables
from perfzero.report.analysis import judged_report
from perfzero.report.json_file import document
from perfzero.report.tables import ABOUT, EVENTS, is_ours, write_csv, write_json, write_parquet
from perfzero.store.reader import Recording, open_recording
from perfzero.store.schema import stream_name
from perfzero.store.writer import RecordingWriter
from perfzero.values import Gap, Gpu, Look, Note, Process, Samples, Window

RECORDINGS = Path(__file__).parents[1] / "recordings"
REAL = RECORDINGS / "_looks" / "cupy"
NS = 1_796_000_000_000_000_000
MS = 1_000_000

Columns = dict[str, list[Any]]


def nothing(_: str) -> None:
    """Nobody is told."""


def from_csv(recording: Path, to: Path) -> dict[str, Columns]:
    write_csv(recording, judged_report(recording), to, tell=nothing)
    found: dict[str, Columns] = {}
    for file in to.glob("*.csv"):
        names, *rows = list(csv.reader(io.StringIO(file.read_text())))
        columns = zip(*rows, strict=True) if rows else ([] for _ in names)
        found[file.stem] = {n: [value(c) for c in column] for n, column in zip(names, columns, strict=True)}
    return found


def value(cell: str) -> Any:
    """What a spreadsheet takes a cell for."""
    if not cell:
        return None
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def from_parquet(recording: Path, to: Path) -> dict[str, Columns]:
    write_parquet(recording, judged_report(recording), to, tell=nothing)
    return {file.stem: parquet.read_table(file).to_pydict() for file in to.glob("*.parquet")}


def from_json(recording: Path, to: Path) -> dict[str, Columns]:
    with (to / "samples.json").open("wb") as file:
        write_json(recording, judged_report(recording), file, tell=nothing)
    found: dict[str, Columns] = json.loads((to / "samples.json").read_bytes())["tables"]
    return found


Read = Callable[[Path, Path], dict[str, Columns]]
EVERY: list[Read] = [from_csv, from_parquet, from_json]


@pytest.mark.parametrize("read", EVERY)
def test_what_is_read_back_is_what_the_recording_holds(read: Read, tmp_path: Path) -> None:
    """All streams, to the last bit of their float32, and a missing value is missing."""
    recording = open_recording(REAL)
    found = read(REAL, tmp_path)

    assert {stream_name(*key) for key in recording.streams} <= set(found)
    for stream, gpu in recording.streams:
        samples, table = recording.samples(stream, gpu), found[stream_name(stream, gpu)]
        assert list(table) == ["start_ns", "end_ns", *samples.columns]
        assert table["start_ns"] == samples.start_ns.tolist()
        assert table["end_ns"] == samples.end_ns.tolist()
        for name, values in samples.columns.items():
            told = np.array([math.nan if v is None else v for v in table[name]])
            np.testing.assert_array_equal(told.astype(np.float32), values.astype(np.float32))
    assert found["windows"]["samples"] == [w.samples for w in recording.windows()]


@pytest.mark.parametrize("read", EVERY)
def test_what_the_report_says_is_there_too(read: Read, tmp_path: Path) -> None:
    (gpu,) = judged_report(REAL).gpus
    found = read(REAL, tmp_path)

    assert dict(zip(found["time"]["class"], found["time"]["share"], strict=True)) == pytest.approx(
        dict(gpu.diagnosis.shares)
    )
    assert found["facts"]["name"] == list(gpu.diagnosis.facts)
    assert found["facts"]["gpu"] == [1] * len(gpu.diagnosis.facts)
    verdict = found["findings"]["is_verdict"].index(1)
    assert gpu.diagnosis.verdict is not None
    assert found["findings"]["rule"][verdict] == gpu.diagnosis.verdict.rule
    assert gpu.host is not None
    assert found["causes"]["line"] == [c.frame.line for c in gpu.host.causes] != []
    for column in ("share", "low", "high"):
        told = [getattr(cause, column) for cause in gpu.host.causes]
        assert found["causes"][column] == pytest.approx(told, rel=1e-12)
    for end in ("low", "high"):
        told = [getattr(finding.gain, end) for finding in gpu.diagnosis.findings]
        assert found["findings"][f"gain_{end}"] == pytest.approx(told, rel=1e-12)
    for column in ("share", "confidence"):
        told = [getattr(finding, column) for finding in gpu.diagnosis.findings]
        assert found["findings"][column] == pytest.approx(told, rel=1e-12)
    intervals = gpu.diagnosis.intervals
    assert intervals
    for place, end in enumerate(("low", "high")):
        by_class = dict(zip(found["time"]["class"], found["time"][end], strict=True))
        assert {name: by_class[name] for name in intervals} == pytest.approx(
            {name: interval[place] for name, interval in intervals.items()}, rel=1e-12
        )


@pytest.mark.parametrize("read", EVERY)
def test_of_a_finding_without_a_gain_both_ends_are_missing(read: Read, tmp_path: Path) -> None:
    found = read(RECORDINGS / "killed", tmp_path)["findings"]
    rows = dict(zip(found["rule"], zip(found["gain_low"], found["gain_high"], strict=True), strict=True))

    assert rows["well_used"] == (None, None)
    assert rows["power_capped"] == pytest.approx((1.0, 1.4456763437269677))


@pytest.mark.parametrize("doubts", [(), ("one", "two\nlines")])
def test_doubts_of_the_report_stand_in_what_is_told_of_the_tables(
    doubts: tuple[str, ...], tmp_path: Path
) -> None:
    report = replace(judged_report(REAL), doubts=doubts)
    write_parquet(REAL, report, tmp_path, tell=nothing)
    with (tmp_path / "samples.json").open("wb") as file:
        write_json(REAL, report, file, tell=nothing)

    for name in (ABOUT, "samples.json"):
        assert json.loads((tmp_path / name).read_bytes())["doubts"] == list(doubts)


def strange(folder: Path) -> Recording:
    """NaN, infinities, the largest and least float32, and texts that would be formulas, quotes or lines."""
    with RecordingWriter(
        folder,
        gpus=[Gpu(0, "GPU-0", "=1+1")],
        process=Process(pid=None, command=("python", 'a "b", c')),
        settings={},
        tiers={0: "pm"},
        tier_reasons={},
    ) as writer:
        at = NS + np.arange(4, dtype=np.int64) * MS
        columns = {
            "gr_active": np.array([0.1, np.nan, 0.3, np.nan]),
            "dram_read_bytes": np.array([np.inf, 1e-40, -np.inf, 3e38]),
            "launches": np.full(4, np.nan),
        }
        writer.append("pm", 0, Samples(at, at + MS, columns))
        writer.window(Window(0, "dense", NS, NS + 4 * MS, MS, 4, 0))
        writer.gap(Gap(None, "cupti", NS, NS + MS, '=HYPERLINK("x"), "quoted"'))
        writer.note(Note(NS, "kind", "two\nlines, one comma"))
        writer.note(Note(NS, "kind", "-1 is a formula, too"))
        writer.look(Look(1, NS, NS + MS, reason="@SUM(A1)"))
    return open_recording(folder)


@pytest.mark.parametrize("read", EVERY)
def test_what_is_missing_or_no_number_does_no_harm(read: Read, tmp_path: Path) -> None:
    recording = strange(tmp_path / "recording")
    to = tmp_path / "to"
    to.mkdir()
    found = read(recording.path, to)
    stored = recording.samples("pm", 0).column("dram_read_bytes")

    assert [v is None for v in found["pm-gpu0"]["gr_active"]] == [False, True, False, True]
    assert found["pm-gpu0"]["launches"] == [None] * 4
    assert found["pm-gpu0"]["dram_read_bytes"][0::2] == [None, None]
    assert found["pm-gpu0"]["dram_read_bytes"][1::2] == pytest.approx(stored[1::2].tolist(), rel=1e-6)
    assert found["gaps"]["gpu"] == [None]
    mark = "'" if read is from_csv else ""
    assert found["gaps"]["reason"] == [f'{mark}=HYPERLINK("x"), "quoted"']
    assert found["notes"]["text"] == ["two\nlines, one comma", f"{mark}-1 is a formula, too"]
    assert found["looks"]["reason"] == [f"{mark}@SUM(A1)"]


DANGEROUS = [
    *(
        "=1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1",
        "   +1",
        "\u00a0-1",
        " \r\n\t @x",
        "\ufeff=1",
    ),
    *("\x00=1", "＝1", "＋1", "－1", "＠x", "\tx", "\rx", "\nx"),
]
HARMLESS = ["", " ", "a=1", " a", "1-2", "'=1", "(-1)", "kernel<a, -1>"]


def test_a_text_that_a_spreadsheet_would_compute_has_an_apostrophe_and_no_other_has() -> None:
    table = pa.table(
        {"text": [*DANGEROUS, *HARMLESS, None], "number": [-1] * (len(DANGEROUS + HARMLESS) + 1)}
    )
    told = tables._harmless(table)

    assert told.column("text").to_pylist() == [*(f"'{text}" for text in DANGEROUS), *HARMLESS, None]
    assert told.column("number") == table.column("number")


def test_units_and_meanings_stand_beside_the_columns(tmp_path: Path) -> None:
    """In schema.csv, in each file of Parquet, and in JSON: the same ones, for every column there is."""
    for name in ("csv", "parquet", "json"):
        (tmp_path / name).mkdir()
    found = from_csv(REAL, tmp_path / "csv")
    from_parquet(REAL, tmp_path / "parquet")
    from_json(REAL, tmp_path / "json")
    in_json = json.loads((tmp_path / "json" / "samples.json").read_bytes())["schema"]
    schema = found.pop("schema")
    units = dict(zip(zip(schema["table"], schema["column"], strict=True), schema["unit"], strict=True))

    assert set(units) == {(table, column) for table, columns in found.items() for column in columns}
    assert units["pm-gpu1", "dram_read_bytes"] == "bytes"
    assert units["pm-gpu1", "start_ns"] == "Unix nanoseconds"
    for (table, column), unit in units.items():
        assert in_json[table][column]["unit"] == (unit or "")
        field = parquet.read_schema(tmp_path / "parquet" / f"{table}.parquet").field(column)
        assert field.metadata[b"unit"].decode() == (unit or "")
    metadata = parquet.read_schema(tmp_path / "parquet" / "pm-gpu1.parquet").metadata
    assert metadata[b"clock"] == b"Unix nanoseconds, intervals half-open"
    assert metadata[b"recording"] == b"cupy"


def test_a_folder_says_what_it_was_made_of(tmp_path: Path) -> None:
    from_csv(REAL, tmp_path)
    told = json.loads((tmp_path / ABOUT).read_bytes())

    assert told["perfzero_export"] == 1
    assert told["process"]["command"][-1].endswith(".py") or told["process"]["command"]
    assert [g["index"] for g in told["gpus"]] == [1]
    assert told["start_ns"] < told["end_ns"]


def test_a_number_has_the_digits_of_its_float32_and_no_more(tmp_path: Path) -> None:
    """0.1 was stored as 0.1 in float32, which is 0.10000000149011612 in double: nobody measured that."""
    strange(tmp_path / "recording")
    for name in ("csv", "parquet"):
        (tmp_path / name).mkdir()
    from_csv(tmp_path / "recording", tmp_path / "csv")
    from_parquet(tmp_path / "recording", tmp_path / "parquet")

    assert (tmp_path / "csv" / "pm-gpu0.csv").read_text().splitlines()[1].split(",")[2] == "0.1"
    kinds = parquet.read_schema(tmp_path / "parquet" / "pm-gpu0.parquet")
    assert str(kinds.field("gr_active").type) == "float"


def test_json_holds_the_whole_report(tmp_path: Path) -> None:
    from_json(REAL, tmp_path)

    told = json.loads((tmp_path / "samples.json").read_bytes())
    assert told["report"] == json.loads(json.dumps(document(judged_report(REAL))))


def test_files_of_an_export_are_known_by_their_names() -> None:
    assert all(is_ours(f"{name}.csv", "csv") for name in (*EVENTS, "schema", "pm-gpu0", "host", "gpm-gpu12"))
    assert is_ours(ABOUT, "parquet")
    for name in ("thesis.csv", "pm-gpux.csv", "pm-gpu0.parquet", "pm", "csv", ".csv", "pm-gpu0.csv.bak"):
        assert not is_ours(name, "csv")
