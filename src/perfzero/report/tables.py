"""
A recording and its report as tables, for CSV, Parquet and JSON.

    pm-gpu0, zoom-gpu0, gpm-gpu0, board-gpu0, host   the samples as they were recorded, nothing taken out
    windows, gaps, notes, looks                      what happened
    time, facts, findings, causes                    what the report says, per GPU

Columns of samples have canonical names; their units and meanings stand in `schema`, in Parquet also with each
column. Times are Unix nanoseconds. What is missing is an empty cell, null. Values have the digits that it
takes to tell their float32, so that they read back as they were recorded.

Texts of a recording come from strangers. In CSV one that a spreadsheet would take for a formula has an
apostrophe before it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from perfzero import __version__
from perfzero.counters import BY_NAME
from perfzero.report.identity import identity
from perfzero.report.json_file import document
from perfzero.report.model import GpuReport, Report
from perfzero.store.reader import Recording, open_recording
from perfzero.store.schema import as_json, stream_name
from perfzero.values import FloatArray, Samples, jsonable

ABOUT = "recording.json"
"""In a folder of tables: what they are made of."""

SCHEMA = 1
"""Of `recording.json` and of the JSON export."""

JSON_HEAD = re.compile(rb'\{"perfzero_export": \d+, "identity": "[0-9a-f]{32}"')
"""How a JSON export begins."""

FORMULA = re.compile(r"[\t\r\n]|[\s\x00-\x1f\ufeff]*[=+\-@＝＋－＠]")
"""
How texts begin that a spreadsheet computes.

Spaces and what cannot be seen are dropped on the way into some; signs of full width are read as the others.
"""

FILES = frozenset(("schema", "windows", "gaps", "notes", "looks", "time", "facts", "findings", "causes"))

Tell = Callable[[str], None]

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its kind of value, its unit and what it means."""

    name: str
    kind: str  # "integer", "number" or "text"
    unit: str = ""
    doc: str = ""


START = Field("start_ns", "integer", "Unix nanoseconds", "When it begins.")
END = Field("end_ns", "integer", "Unix nanoseconds", "When it is over.")
GPU = Field("gpu", "integer", "", "NVML index; missing: of none in particular.")

EVENTS: Mapping[str, tuple[Field, ...]] = {
    "windows": (
        GPU,
        Field("kind", "text", "", "What the window was opened for."),
        START,
        END,
        Field("period_ns", "integer", "nanoseconds", "Between two samples."),
        Field("samples", "integer", "count", "Samples that came."),
        Field("lost", "integer", "count", "Samples that should have come and did not."),
    ),
    "gaps": (
        GPU,
        Field("source", "text", "", "Whose samples are missing."),
        START,
        END,
        Field("reason", "text", "", "Why."),
    ),
    "notes": (
        GPU,
        Field("time_ns", "integer", "Unix nanoseconds", "When it happened."),
        Field("kind", "text", "", "What sort of thing."),
        Field("text", "text", "", "What happened."),
    ),
    "looks": (
        Field("pid", "integer", "", "The process that was looked into."),
        START,
        END,
        Field("file", "text", "", "The trace in the recording's folder."),
        Field("reason", "text", "", "Why there is none."),
        Field("cost_s", "number", "seconds", "How long the program was held up."),
    ),
    "time": (
        GPU,
        Field("class", "text", "", "Class of time."),
        Field("share", "number", "ratio", "Of the time that was judged."),
        Field("low", "number", "ratio", "Lower end of the 95 % interval."),
        Field("high", "number", "ratio", "Upper end."),
    ),
    "facts": (
        GPU,
        Field("name", "text", "", "As in summary.csv."),
        Field("value", "number", "", "In `unit`."),
        Field("unit", "text", "", "Base unit."),
        Field("threshold", "text", "", "What is demanded of it."),
        Field("status", "text", "", "ok, watch, bad, unknown, info."),
        Field("text", "text", "", "More on it."),
    ),
    "findings": (
        GPU,
        Field("rule", "text", "", "The stable id."),
        Field("title", "text", "", "In a sentence."),
        Field("severity", "text", "", "info, watch, bad."),
        Field("share", "number", "ratio", "Of the time that was judged."),
        Field("confidence", "number", "ratio", "In [0, 1]."),
        Field("gain_low", "number", "ratio", "How many times faster at least."),
        Field("gain_high", "number", "ratio", "How many times faster at best."),
        Field("is_verdict", "integer", "", "1 for the verdict."),
    ),
    "causes": (
        GPU,
        Field("activity", "text", "", "What the host does."),
        Field("file", "text", "", "Of the line that the GPU waits for."),
        Field("line", "integer", "", "Its number."),
        Field("text", "text", "", "What stands there."),
        Field("share", "number", "ratio", "Of the idle time."),
        Field("low", "number", "ratio", "Lower end of the 95 % interval."),
        Field("high", "number", "ratio", "Upper end."),
    ),
}
"""The tables that are not samples, and their columns."""


def about(recording: Recording, report: Report) -> dict[str, Any]:
    """What the tables are made of."""
    manifest = recording.manifest
    return {
        "perfzero_export": SCHEMA,
        "identity": identity(recording).hex(),
        "perfzero": __version__,
        "recorded_with": manifest.perfzero,
        "recording": recording.path.name,
        "clock": "Unix nanoseconds, intervals half-open",
        "missing": "an empty cell in CSV, null in JSON and Parquet",
        "start_ns": report.start_ns,
        "end_ns": report.end_ns,
        "complete": recording.complete,
        "doubts": [*report.doubts],
        "process": as_json(manifest.process),
        "gpus": [as_json(gpu) for gpu in manifest.gpus],
    }


def is_ours(name: str, suffix: str) -> bool:
    """Whether a file called *name* is one of a folder of tables with *suffix*."""
    stem, dot, end = name.rpartition(".")
    if name == ABOUT:
        return True
    stream, _, gpu = stem.partition("-gpu")
    samples = stream in ("pm", "zoom", "gpm", "board", "host") and (not gpu or gpu.isdigit())
    return bool(dot) and end == suffix and (stem in FILES or samples)


def write_csv(path: Path, report: Report, folder: Path, *, tell: Tell) -> None:
    """Write the recording at *path* to *folder*, a file for each table."""
    from pyarrow import csv

    def write(name: str, table: Any) -> None:
        with open(folder / f"{name}.csv", "wb") as file:
            # Arrow would put the names into quotes.
            file.write((",".join(table.column_names) + "\n").encode())
            csv.write_csv(
                _harmless(table), file, csv.WriteOptions(include_header=False, quoting_style="needed")
            )

    _write_folder(path, report, folder, write, tell)


def write_parquet(path: Path, report: Report, folder: Path, *, tell: Tell) -> None:
    """Write the recording at *path* to *folder*, a file for each table."""
    from pyarrow import parquet

    def write(name: str, table: Any) -> None:
        parquet.write_table(table, folder / f"{name}.parquet", compression="zstd")

    _write_folder(path, report, folder, write, tell)


def write_json(path: Path, report: Report, file: BinaryIO, *, tell: Tell) -> None:
    """Write the recording at *path* to *file*: one object, samples column by column."""
    recording = open_recording(path)
    told = about(recording, report)
    head = json.dumps({k: told.pop(k) for k in ("perfzero_export", "identity")}, indent=None)
    file.write(head.removesuffix("}").encode())
    for key, value in told.items():
        file.write(f",\n{json.dumps(key)}:{_json(value)}".encode())
    file.write(f',\n"report":{_json(document(report))}'.encode())
    schema = {
        name: {f.name: {"unit": f.unit, "meaning": f.doc} for f in fields}
        for name, fields in _all_fields(recording).items()
    }
    file.write(f',\n"schema":{_json(schema)}'.encode())
    file.write(b',\n"tables":{')
    for number, (name, table) in enumerate(_tables(path, report, tell)):
        file.write(f"{',' if number else ''}\n{json.dumps(name)}:{{".encode())
        for place, column in enumerate(table.column_names):
            file.write(f"{',' if place else ''}\n {json.dumps(column)}:[".encode())
            file.write(_json_column(table.column(column)))
            file.write(b"]")
        file.write(b"}")
    file.write(b"}}\n")


def json_head(recording: Recording) -> bytes:
    """How a JSON export of *recording* begins."""
    return f'{{"perfzero_export": {SCHEMA}, "identity": "{identity(recording).hex()}"'.encode()


def begins_as_json(head: bytes) -> bool:
    """Whether a file that begins with *head* is a JSON export of some recording."""
    return JSON_HEAD.match(head) is not None


def _write_folder(
    path: Path, report: Report, folder: Path, write: Callable[[str, Any], None], tell: Tell
) -> None:
    recording = open_recording(path)
    (folder / ABOUT).write_text(
        json.dumps(jsonable(about(recording, report)), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    fields = (
        Field("table", "text"),
        Field("column", "text"),
        Field("unit", "text"),
        Field("meaning", "text"),
    )
    rows = [
        {"table": name, "column": f.name, "unit": f.unit, "meaning": f.doc}
        for name, of_table in _all_fields(recording).items()
        for f in of_table
    ]
    write("schema", _table(fields, rows, recording))
    for name, table in _tables(path, report, tell):
        write(name, table)


def _tables(path: Path, report: Report, tell: Tell) -> Iterator[tuple[str, Any]]:
    """Name and Arrow table of each, one at a time: what was read for one is let go before the next."""
    recording = open_recording(path)
    for stream, gpu in recording.streams:
        name = stream_name(stream, gpu)
        tell(name)
        yield name, _samples(open_recording(path).samples(stream, gpu), recording)
    for name, rows in _events(recording, report).items():
        tell(name)
        yield name, _table(EVENTS[name], rows, recording)


def _all_fields(recording: Recording) -> dict[str, Sequence[Field]]:
    """The columns of every table."""
    found: dict[str, Sequence[Field]] = {
        stream_name(stream, gpu): _fields(open_recording(recording.path).samples(stream, gpu))
        for stream, gpu in recording.streams
    }
    return found | dict(EVENTS)


def _fields(samples: Samples) -> tuple[Field, ...]:
    return (START, END, *(_field(name) for name in samples.columns))


def _field(name: str) -> Field:
    counter = BY_NAME.get(name)
    if counter is None:
        return Field(name, "number")
    amount = " An amount that fell into the sample." if counter.kind == "total" else ""
    return Field(name, "number", counter.unit, counter.doc + amount)


def _samples(samples: Samples, recording: Recording) -> Any:
    import pyarrow as pa

    fields = _fields(samples)
    arrays = [pa.array(samples.start_ns), pa.array(samples.end_ns)]
    arrays += [_numbers(values) for values in samples.columns.values()]
    return pa.Table.from_arrays(arrays, schema=_arrow(fields, [a.type for a in arrays], recording))


def _numbers(values: FloatArray) -> Any:
    """*values* as they were recorded, in float32 where that is what they are; null where missing."""
    import pyarrow as pa

    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    same = bool(np.array_equal(narrow.astype(np.float64), values, equal_nan=True))
    return pa.array(narrow if same else values, mask=np.isnan(values))


def _table(fields: Sequence[Field], rows: Sequence[Row], recording: Recording) -> Any:
    import pyarrow as pa

    kinds = {"integer": pa.int64(), "number": pa.float64(), "text": pa.string()}
    arrays = [pa.array([row.get(f.name) for row in rows], kinds[f.kind]) for f in fields]
    return pa.Table.from_arrays(arrays, schema=_arrow(fields, [a.type for a in arrays], recording))


def _arrow(fields: Sequence[Field], types: Sequence[Any], recording: Recording) -> Any:
    """The schema of a table: units and meanings with its columns, and of what it is made."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field(f.name, kind, metadata={"unit": f.unit, "meaning": f.doc})
            for f, kind in zip(fields, types, strict=True)
        ],
        metadata={
            "perfzero": __version__,
            "recording": recording.path.name,
            "identity": identity(recording).hex(),
            "clock": "Unix nanoseconds, intervals half-open",
        },
    )


def _events(recording: Recording, report: Report) -> dict[str, list[Row]]:
    gpus = sorted(report.gpus, key=lambda g: g.gpu.index)
    return {
        "windows": [asdict(w) for w in recording.windows()],
        "gaps": [asdict(g) for g in recording.gaps()],
        "notes": [asdict(n) for n in recording.notes()],
        "looks": [asdict(look) for look in recording.looks],
        "time": [row for gpu in gpus for row in _time(gpu)],
        "facts": [row for gpu in gpus for row in _facts(gpu)],
        "findings": [row for gpu in gpus for row in _findings(gpu)],
        "causes": [row for gpu in gpus for row in _causes(gpu)],
    }


def _time(gpu: GpuReport) -> Iterator[Row]:
    for name, share in gpu.diagnosis.shares.items():
        low, high = gpu.diagnosis.intervals.get(name, (math.nan, math.nan))
        yield {
            "gpu": gpu.gpu.index,
            "class": name,
            "share": share,
            "low": _known(low),
            "high": _known(high),
        }


def _facts(gpu: GpuReport) -> Iterator[Row]:
    for fact in gpu.diagnosis.facts.values():
        yield {"gpu": gpu.gpu.index, **asdict(fact), "value": _known(fact.value)}


def _findings(gpu: GpuReport) -> Iterator[Row]:
    for finding in gpu.diagnosis.findings:
        gain = finding.gain
        yield {
            "gpu": gpu.gpu.index,
            "rule": finding.rule,
            "title": finding.title,
            "severity": finding.severity,
            "share": _known(finding.share),
            "confidence": _known(finding.confidence),
            "gain_low": None if gain is None else _known(gain.low),
            "gain_high": None if gain is None else _known(gain.high),
            "is_verdict": int(finding is gpu.diagnosis.verdict),
        }


def _causes(gpu: GpuReport) -> Iterator[Row]:
    for cause in () if gpu.host is None else gpu.host.causes:
        yield {
            "gpu": gpu.gpu.index,
            "activity": cause.activity,
            "file": cause.frame.file,
            "line": cause.frame.line,
            "text": cause.text,
            "share": cause.share,
            "low": cause.low,
            "high": cause.high,
        }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _harmless(table: Any) -> Any:
    """*table* with an apostrophe before texts that a spreadsheet would compute."""
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        if pa.types.is_string(table.column(name).type):
            texts = [
                f"'{text}" if text is not None and FORMULA.match(text) else text
                for text in table.column(name).to_pylist()
            ]
            table = table.set_column(place, table.schema.field(place), pa.array(texts, pa.string()))
    return table


def _json(value: Any) -> str:
    return json.dumps(jsonable(value), ensure_ascii=False, allow_nan=False)


def _json_column(column: Any) -> bytes:
    """The values of an Arrow *column* in JSON, without the brackets."""
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_string(column.type):
        return ",".join(json.dumps(text, ensure_ascii=False) for text in column.to_pylist()).encode()
    return ",".join(compute.fill_null(column.cast(pa.string()), "null").to_pylist()).encode()
