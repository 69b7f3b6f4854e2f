"""Recordings written by someone who wants to do harm, or by a broken disk."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from perfzero.errors import BrokenRecording, NoRecording
from perfzero.store import RecordingWriter, open_recording
from perfzero.store import reader as reader_module
from perfzero.store.schema import FORMAT, Manifest
from perfzero.values import Note, Samples, Window

Table = Callable[..., Samples]
NewWriter = Callable[..., RecordingWriter]


@pytest.fixture
def folder(new_writer: NewWriter, table: Table) -> Path:
    """A good recording: 30 rows in three batches, a window and a note."""
    with new_writer() as writer:
        for i in range(3):
            writer.append("pm", 0, table(10, start_ns=10**18 + i * 10**9))
        writer.window(Window(0, "regular", 10**18, 10**18 + 3 * 10**9, 10**6, 30, 0))
        writer.note(Note(10**18, "tier", "all is well"))
    return writer.path


def change_manifest(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}))


def write_stream(
    folder: Path,
    columns: Mapping[str, Any],
    *,
    name: str = "pm-gpu0.arrow",
    claim: str = "pm-gpu0",
    **options: Any,
) -> None:
    """A stream with *columns* as they are, and times of format 1 where there are none of format 2."""
    rows = len(next(iter(columns.values())))
    start = 10**18 + np.arange(rows)
    times = {} if "after_ns" in columns else {"start_ns": pa.array(start), "end_ns": pa.array(start + 1)}
    arrays = {**times, **columns}
    table = pa.table(arrays).replace_schema_metadata({"perfzero.stream": claim})
    with (
        pa.OSFile(str(folder / name), "wb") as file,
        pa.ipc.new_stream(file, table.schema, **options) as stream,
    ):
        stream.write_table(table)


def pm_of(folder: Path) -> tuple[Samples, tuple[str, ...]]:
    recording = open_recording(folder)
    return recording.samples("pm", 0), recording.doubts


# --- what is no recording at all


def test_a_missing_folder_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(NoRecording, match=r"(?s)does not exist.*perfzero record -o"):
        open_recording(tmp_path / "nothing")


def test_a_folder_without_a_manifest_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(NoRecording, match=r"there is no manifest\.json in it"):
        open_recording(tmp_path)


def test_a_file_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NoRecording, match="is a file, and a recording is a folder"):
        open_recording(tmp_path / "file")


def test_a_good_recording_raises_no_doubt(folder: Path) -> None:
    samples, doubts = pm_of(folder)
    assert (len(samples), doubts) == (30, ())


# --- the manifest


def test_a_newer_format_asks_for_an_upgrade(folder: Path) -> None:
    change_manifest(folder, format=FORMAT + 1, gpus="a shape that only the newer one knows")
    said = rf"(?s)format {FORMAT + 1}; this one reads up to {FORMAT}.*pip install --upgrade"
    with pytest.raises(BrokenRecording, match=said):
        open_recording(folder)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": None}, "in which format"),
        ({"format": True}, "in which format"),
        ({"format": 0}, "in which format"),
        ({"created_ns": "today"}, r"manifest\.created_ns is the text 'today', not a whole number"),
        ({"created_ns": 2**64}, "does not fit 64 bits"),
        ({"created_ns": None}, r"manifest\.created_ns is null"),
        ({"state": "splendid"}, r"not one of 'recording', 'complete', 'incomplete'"),
        ({"gpus": {"0": "H200"}}, r"manifest\.gpus is an object, not a list"),
        ({"gpus": ["H200"]}, r"manifest\.gpus\[0\] is the text 'H200', not an object"),
        ({"gpus": [{"index": 0, "uuid": "u"}]}, r"manifest\.gpus\[0\]\.name is missing"),
        ({"gpus": [{"index": 0, "uuid": "u", "name": "a"}] * 2}, "two GPUs with the same index"),
        ({"gpus": [{"index": i, "uuid": "u", "name": "a"} for i in range(1000)]}, "1000 GPUs"),
        ({"tiers": {"0": "quantum"}}, "not one of 'pm', 'gpm', 'nvml'"),
        ({"tiers": {"zero": "pm"}}, "has the key 'zero', not a number"),
        ({"tiers": ["pm"]}, "is a list, not an object"),
        ({"process": {"command": "python train.py"}}, r"process\.command is the text"),
        ({"process": {"pid": 1.5}}, r"process\.pid is a number, not a whole number"),
        ({"cost": {"wall_s": 1.0}}, r"manifest\.cost\.recorder_cpu_s is missing"),
        ({"other_pids": {"0": [True]}}, r"other_pids\[0\]\[0\] is true or false"),
    ],
)
def test_a_manifest_of_the_wrong_shape_is_refused_with_the_field_at_fault(
    folder: Path, changes: dict[str, Any], complaint: str
) -> None:
    change_manifest(folder, **changes)
    with pytest.raises(BrokenRecording, match=complaint):
        open_recording(folder)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"null", b"[]", b'"manifest"', b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000,
        b'{"format": 1e999}', b'{"format": NaN}', b'{"format": ' + b"9" * 10_000 + b"}",
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_a_manifest_that_is_no_manifest_is_refused(folder: Path, text: bytes) -> None:
    (folder / "manifest.json").write_bytes(text)
    with pytest.raises(BrokenRecording, match="is no manifest that can be trusted"):
        open_recording(folder)


def test_a_manifest_that_is_too_large_is_not_read(folder: Path) -> None:
    with open(folder / "manifest.json", "r+b") as file:
        file.truncate(1 << 40)  # a sparse file: a terabyte that takes no room
    with pytest.raises(BrokenRecording, match="larger than 16 MiB"):
        open_recording(folder)


def test_settings_nested_too_deeply_are_refused(folder: Path) -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    change_manifest(folder, settings={"a": deep})
    with pytest.raises(BrokenRecording, match="nested too deeply"):
        open_recording(folder)


def test_a_field_that_only_a_later_version_knows_is_ignored(folder: Path) -> None:
    change_manifest(folder, flavour="vanilla")
    assert len(pm_of(folder)[0]) == 30


def test_texts_cannot_drive_a_terminal(folder: Path) -> None:
    """An escape sequence in a name would otherwise be obeyed by whoever prints it."""
    gpu = {"index": 0, "uuid": "u", "name": "H200\x1b[2J\x9b1m\u202etxt\ud800"}
    change_manifest(folder, gpus=[gpu], settings={"k\x07": ["\x1b]0;title\x07"]})
    recording = open_recording(folder)

    assert recording.gpus[0].name == "H200\ufffd[2J\ufffd1m\ufffdtxt?"
    assert recording.manifest.settings == {"k\ufffd": ["\ufffd]0;title\ufffd"]}


# --- links and devices


@pytest.mark.parametrize("name", ["manifest.json", "events.jsonl", "pm-gpu0.arrow"])
def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)

    if name == "manifest.json":
        with pytest.raises(BrokenRecording, match="it is a link, which a recording never holds"):
            open_recording(folder)
    else:
        doubts = open_recording(folder).doubts
        assert len(doubts) == 1
        assert name in doubts[0]
        assert "it is a link" in doubts[0]


def test_a_pipe_does_not_make_the_reader_wait(folder: Path) -> None:
    (folder / "pm-gpu0.arrow").unlink()
    os.mkfifo(folder / "pm-gpu0.arrow")
    samples, doubts = pm_of(folder)

    assert len(samples) == 0
    assert doubts == ("pm-gpu0.arrow cannot be read and was left out: it is no regular file.",)


def test_a_stream_with_a_name_that_is_never_written_is_left_out(folder: Path) -> None:
    (folder / "pm-gpu0.arrow").rename(folder / "pm-gpu00.arrow")
    samples, doubts = pm_of(folder)

    assert len(samples) == 0
    assert "pm-gpu00.arrow is no stream that perfzero writes" in doubts[0]


def test_a_stream_of_a_gpu_that_is_not_listed_is_left_out(folder: Path) -> None:
    (folder / "pm-gpu0.arrow").rename(folder / "pm-gpu5.arrow")
    assert "belongs to a GPU that the manifest does not list" in open_recording(folder).doubts[0]


def test_a_stream_that_was_renamed_is_not_taken_for_another(folder: Path) -> None:
    (folder / "pm-gpu0.arrow").rename(folder / "zoom-gpu0.arrow")
    recording = open_recording(folder)

    assert len(recording.samples("zoom", 0)) == 0
    assert "it says of itself that it is the stream 'pm-gpu0'" in recording.doubts[0]


# --- events


def test_damaged_lines_are_skipped_and_counted(folder: Path) -> None:
    window = (
        '{"event":"window","gpu":0,"kind":"regular","start_ns":5,"end_ns":%s,'
        '"period_ns":%s,"samples":1,"lost":0}'
    )
    lines = [
        "not json", "[]", "{}", '{"event":"note"}', '{"event":"note","time_ns":"now","kind":"a","text":"b"}',
        window % (4, 1), window % (9, 0), "[" * 10_000, '{"event":1}',
    ]  # fmt: skip
    with open(folder / "events.jsonl", "a") as file:
        file.write("\n".join(lines) + "\n" + window % (9, 1) + "\n")
    recording = open_recording(folder)

    assert [w.start_ns for w in recording.windows()] == [5, 10**18]
    assert (f"events.jsonl: {len(lines)} damaged lines were skipped.",) == recording.doubts


def test_events_of_an_unknown_kind_are_skipped_and_counted(folder: Path) -> None:
    with open(folder / "events.jsonl", "a") as file:
        file.write('{"event":"eclipse","time_ns":1}\n')
    assert open_recording(folder).doubts == ("events.jsonl: 1 events of a kind unknown here were skipped.",)


def test_missing_events_are_doubted(folder: Path) -> None:
    (folder / "events.jsonl").unlink()
    assert open_recording(folder).doubts == ("events.jsonl is missing: windows, gaps and notes are unknown.",)


# --- streams


def test_unknown_columns_are_left_out_and_named(folder: Path) -> None:
    write_stream(folder, {"gr_active": pa.array([0.5, 0.6]), "gr_passive": pa.array([0.5, 0.4])})
    samples, doubts = pm_of(folder)

    assert list(samples.columns) == ["gr_active"]
    assert_array_equal([0.5, 0.6], samples.column("gr_active"))
    assert doubts == ("pm-gpu0.arrow has 1 columns that this perfzero does not know: 'gr_passive'.",)


def test_rows_that_cannot_be_are_dropped_and_counted(folder: Path) -> None:
    start = pa.array([10, 20, 30, None, 50, -5])
    end = pa.array([20, 20, 25, 50, 60, 60])
    write_stream(folder, {"gr_active": pa.array([1.0, 2, 3, 4, 5, 6]), "start_ns": start, "end_ns": end})
    samples, doubts = pm_of(folder)

    assert_array_equal([1.0, 5.0], samples.column("gr_active"))
    assert doubts == ("pm-gpu0.arrow: 4 rows that end before they start were dropped.",)


def test_times_are_told_from_row_to_row(folder: Path) -> None:
    after, length = pa.array([1_000, 0, 5]), pa.array([10, 20, 30])
    write_stream(folder, {"after_ns": after, "length_ns": length, "gr_active": pa.array([1.0, 2, 3])})
    samples, doubts = pm_of(folder)

    assert_array_equal([1_000, 1_010, 1_035], samples.start_ns)
    assert_array_equal([1_010, 1_030, 1_065], samples.end_ns)
    assert doubts == ()


def test_rows_after_a_missing_step_are_dropped_for_their_time_is_lost(folder: Path) -> None:
    after, length = pa.array([1_000, None, 0, 0]), pa.array([10, 10, 10, 10])
    write_stream(folder, {"after_ns": after, "length_ns": length, "gr_active": pa.array([1.0, 2, 3, 4])})
    samples, doubts = pm_of(folder)

    assert_array_equal([1_000], samples.start_ns)
    assert doubts == ("pm-gpu0.arrow: 3 rows that end before they start were dropped.",)


def test_steps_beyond_what_a_clock_can_tell_are_dropped(folder: Path) -> None:
    after, length = pa.array([1_000, 2**63 - 1, 0]), pa.array([10, 10, 10])
    write_stream(folder, {"after_ns": after, "length_ns": length, "gr_active": pa.array([1.0, 2, 3])})
    samples, doubts = pm_of(folder)

    assert_array_equal([1_000], samples.start_ns)
    assert len(doubts) == 1


def test_one_row_out_of_order_does_not_take_the_others_with_it(folder: Path) -> None:
    """A wild stamp, early or late, is the one that goes."""
    start = np.array([10, 20, 900, 30, 40, 1, 50])
    columns = {
        "gr_active": pa.array(np.arange(7.0)),
        "start_ns": pa.array(start),
        "end_ns": pa.array(start + 5),
    }
    write_stream(folder, columns)
    samples, doubts = pm_of(folder)

    assert_array_equal([10, 20, 30, 40, 50], samples.start_ns)
    assert doubts == ("pm-gpu0.arrow: 2 rows out of order were dropped.",)


def test_a_null_and_an_infinite_value_are_missing(folder: Path) -> None:
    write_stream(folder, {"gr_active": pa.array([1.0, None, float("inf"), -float("inf")])})
    samples, doubts = pm_of(folder)

    assert_array_equal([1.0, np.nan, np.nan, np.nan], samples.column("gr_active"))
    assert doubts == ("pm-gpu0.arrow: 2 infinite values were taken as missing.",)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"gr_active": pa.array(["a lot"])}, "its column 'gr_active' is not of type float32 or float64"),
        ({"gr_active": pa.array([[0.5]])}, "its column 'gr_active' is not of type"),
        ({"gr_active": pa.array(["x"]).dictionary_encode()}, "its column 'gr_active' is not of type"),
        ({"start_ns": pa.array([0.5])}, "its first two columns are no times of type int64"),
        ({f"c{i}": pa.array([0.5]) for i in range(300)}, "it has 302 columns, more than the 256"),
    ],
)
def test_a_stream_of_the_wrong_shape_is_left_out(
    folder: Path, columns: dict[str, Any], complaint: str
) -> None:
    write_stream(folder, columns)
    samples, doubts = pm_of(folder)

    assert len(samples) == 0
    assert len(doubts) == 1
    assert complaint in doubts[0]


def test_a_column_that_runs_code_when_it_is_read_is_refused(folder: Path) -> None:
    """Arrow's Python extension types were unpickled once; no stream here has any extension type."""
    metadata = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": b"cos\nsystem\n(S'false'\ntR.",
    }
    field = pa.field("gr_active", pa.float64(), metadata=metadata)
    schema = pa.schema([("start_ns", pa.int64()), ("end_ns", pa.int64()), field])
    batch = pa.record_batch([pa.array([1]), pa.array([2]), pa.array([0.5])], schema=schema)
    with pa.OSFile(str(folder / "pm-gpu0.arrow"), "wb") as file, pa.ipc.new_stream(file, schema) as stream:
        stream.write_batch(batch)
    samples, doubts = pm_of(folder)

    assert len(samples) == 0
    assert "it has columns of an extension type" in doubts[0]


def test_a_small_file_that_claims_to_be_huge_is_not_unpacked(folder: Path) -> None:
    """A zstd bomb: a batch of ten rows whose buffers unpack to megabytes, which Arrow would do."""
    rows = 900_000
    times = {"start_ns": pa.array(np.zeros(rows, np.int64)), "end_ns": pa.array(np.ones(rows, np.int64))}
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    write_stream(folder, {"gr_active": pa.array(np.zeros(rows)), **times}, options=options)
    honest = (folder / "pm-gpu0.arrow").read_bytes()
    assert rows == len(pm_of(folder)[0])

    bomb = honest.replace(struct.pack("<q", rows), struct.pack("<q", 10))
    (folder / "pm-gpu0.arrow").write_bytes(bomb)
    with pa.ipc.open_stream(bomb) as stream:
        assert stream.read_all().num_rows == 10
    samples, doubts = pm_of(folder)

    assert len(bomb) < rows  # of 24 bytes each
    assert len(samples) == 0
    assert doubts == ("pm-gpu0.arrow: 1 damaged batches were skipped.",)


def test_a_stream_longer_than_memory_is_read_in_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "MAX_CELLS", 4 * 25)  # four columns, so 25 rows: two batches of ten
    samples, doubts = pm_of(folder)

    assert len(samples) == 20
    assert doubts == ("pm-gpu0.arrow is too long to be read whole: only its first 20 rows were.",)


def test_a_damaged_batch_costs_only_itself(folder: Path) -> None:
    file = folder / "pm-gpu0.arrow"
    data = bytearray(file.read_bytes())
    zstd_magic = b"\x28\xb5\x2f\xfd"
    second = data.index(zstd_magic, len(data) // 2 - 200)
    data[second : second + 4] = b"\0\0\0\0"
    file.write_bytes(data)
    samples, doubts = pm_of(folder)

    assert len(samples) == 20
    assert doubts == ("pm-gpu0.arrow: 1 damaged batches were skipped.",)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_to_a_stream_makes_the_reader_fail(folder: Path, data: st.DataObject) -> None:
    """Whatever bytes change, there are ordered samples and doubts, never an exception."""
    file = folder / "pm-gpu0.arrow"
    whole = bytearray(file.read_bytes())
    damaged = whole.copy()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        patch = data.draw(st.binary(min_size=1, max_size=8))
        damaged[at : at + len(patch)] = patch
    try:
        file.write_bytes(damaged)
        samples, _ = pm_of(folder)
    finally:
        file.write_bytes(whole)

    assert len(samples) <= 30
    assert (np.diff(samples.start_ns) >= 0).all()
    assert (samples.end_ns > samples.start_ns).all()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)
FIELDS = tuple(f.name for f in fields(Manifest))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=st.sampled_from(FIELDS), value=json_values)
def test_any_json_in_a_manifest_is_read_or_refused(folder: Path, field: str, value: Any) -> None:
    before = (folder / "manifest.json").read_text()
    change_manifest(folder, **{field: value})
    try:
        recording = open_recording(folder)
    except BrokenRecording:
        recording = None
    (folder / "manifest.json").write_text(before)

    assert recording is None or isinstance(recording.manifest, Manifest)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=st.binary(max_size=60) | json_values.map(lambda v: json.dumps(v).encode()))
def test_any_line_in_the_events_is_read_or_skipped(folder: Path, line: bytes) -> None:
    before = (folder / "events.jsonl").read_bytes()
    (folder / "events.jsonl").write_bytes(line + b"\n" + before)
    recording = open_recording(folder)
    (folder / "events.jsonl").write_bytes(before)

    assert len(recording.windows()) == 1
