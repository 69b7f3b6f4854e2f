"""What is written is what is read."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from perfzero.errors import NoRecording, UsageError
from perfzero.store import RecordingWriter, open_recording
from perfzero.store.schema import file_name, parse_file_name
from perfzero.values import Cost, Gap, Gpu, Note, Process, Samples, Window

Table = Callable[..., Samples]
NewWriter = Callable[..., RecordingWriter]


def test_samples_come_back_as_they_went_in(new_writer: NewWriter, table: Table) -> None:
    sent = table(1_000)
    with new_writer() as writer:
        for first in range(0, 1_000, 100):
            writer.append("pm", 0, sent.where((np.arange(1_000) // 100) == first // 100))

    recording = open_recording(writer.path)
    back = recording.samples("pm", 0)

    assert_array_equal(sent.start_ns, back.start_ns)
    assert_array_equal(sent.end_ns, back.end_ns)
    assert list(back.columns) == ["gr_active", "launches"]
    assert_array_equal(sent.column("gr_active"), back.column("gr_active"))
    assert_array_equal(sent.column("launches"), back.column("launches"))
    assert recording.doubts == ()
    assert recording.complete


@pytest.mark.parametrize(("stream", "today"), [("gpm", "fp32_active"), ("pm", "fma_active")])
def test_what_early_recordings_have_of_gpm_as_the_use_of_the_fma_pipe_is_its_fp32_arithmetic(
    stream: str, today: str, new_writer: NewWriter, table: Table
) -> None:
    """Of PM sampling it is the use of the pipe, and stays so."""
    with new_writer() as writer:
        writer.append(stream, 0, table(3, names=["gr_active", "fma_active"]))

    assert list(open_recording(writer.path).samples(stream, 0).columns) == ["gr_active", today]


def test_a_stream_with_the_old_and_the_new_name_keeps_both(new_writer: NewWriter, table: Table) -> None:
    sent = table(3, names=["fma_active", "fp32_active"])
    with new_writer() as writer:
        writer.append("gpm", 0, sent)
    back = open_recording(writer.path).samples("gpm", 0)

    assert list(back.columns) == ["fma_active", "fp32_active"]
    for name in back.columns:
        assert_array_equal(back.column(name), sent.column(name))


def test_a_missing_value_comes_back_missing_and_not_as_zero(new_writer: NewWriter, table: Table) -> None:
    sent = table(3, names=["power"])
    sent.columns["power"][1] = math.nan
    with new_writer() as writer:
        writer.append("board", 0, sent)

    assert_array_equal([0.0, math.nan, 2.0], open_recording(writer.path).samples("board", 0).column("power"))


def test_a_column_that_appears_later_is_missing_before_and_one_that_goes_is_missing_after(
    new_writer: NewWriter, table: Table
) -> None:
    with new_writer() as writer:
        writer.append("pm", 0, table(2, names=["gr_active"]))
        writer.append("pm", 0, table(2, start_ns=1_800_000_000_000_000_000, names=["sm_active"]))

    recording = open_recording(writer.path)
    back = recording.samples("pm", 0)

    assert_array_equal([0.0, 1.0, math.nan, math.nan], back.column("gr_active"))
    assert_array_equal([math.nan, math.nan, 0.0, 1.0], back.column("sm_active"))
    assert (writer.path / "pm-gpu0.1.arrow").exists()
    assert recording.doubts == ()


def test_an_unknown_stream_or_counter_is_refused(new_writer: NewWriter, table: Table) -> None:
    with new_writer() as writer:
        with pytest.raises(ValueError, match="no such stream: 'pmu'"):
            writer.append("pmu", 0, table(1))
        with pytest.raises(ValueError, match="no such counter: made_up"):
            writer.append("pm", 0, table(1, names=["made_up"]))

    assert open_recording(writer.path).streams == ()


def test_a_stream_that_was_never_written_is_empty(new_writer: NewWriter) -> None:
    with new_writer() as writer:
        pass

    recording = open_recording(writer.path)

    assert len(recording.samples("gpm", 0)) == 0
    assert recording.doubts == ()


def test_events_come_back_in_order_of_time_and_by_gpu(new_writer: NewWriter) -> None:
    late = Window(0, "regular", 200, 300, 10, 9, 1)
    early = Window(1, "zoom", 100, 150, 5, 10, 0)
    gap = Gap(None, "host", 120, 130, "the disk was busy")
    note = Note(90, "tier", "GPM is not supported", 1)
    with new_writer(gpus=[Gpu(0, "a", "A"), Gpu(1, "b", "B")]) as writer:
        writer.window(late)
        writer.window(early)
        writer.gap(gap)
        writer.note(note)

    recording = open_recording(writer.path)

    assert (early, late) == recording.windows()
    assert (late,) == recording.windows(0)
    assert (gap,) == recording.gaps(0)
    assert (note,) == recording.notes()
    assert recording.notes(0) == ()


def test_an_observation_holds_all_of_one_gpu(new_writer: NewWriter, table: Table) -> None:
    start = 1_700_000_000_000_000_000
    with new_writer() as writer:
        writer.append("pm", 0, table(10, start_ns=start + 500_000_000))
        writer.append("zoom", 0, table(20, start_ns=start + 600_000_000, period_ns=10_000))
        writer.append("gpm", 0, table(3, start_ns=start, period_ns=1_000_000_000, names=["sm_active"]))
        writer.append("board", 0, table(4, start_ns=start, period_ns=1_000_000_000, names=["power"]))
        writer.append("host", None, table(5, start_ns=start, period_ns=500_000_000, names=["host_tree_cpu"]))
        writer.update(
            cost=Cost(2.0, 0.1, 0.2, 0.1, 1, slowdown_note="too short"),
            process=Process(42, ("python", "train.py"), exit_code=3),
            other_pids={0: (7, 8)},
        )

    seen = open_recording(writer.path).observation(0)

    assert [len(t) for t in (seen.pm, seen.zoom, seen.gpm, seen.board, seen.host)] == [10, 20, 3, 4, 5]
    assert (start, start + 4_000_000_000) == (seen.start_ns, seen.end_ns)
    assert Cost(2.0, 0.1, 0.2, 0.1, 1, slowdown_note="too short") == seen.cost
    assert seen.process.exit_code == 3
    assert seen.other_pids == (7, 8)
    assert seen.tier == "pm"
    assert seen.complete


def test_a_gpu_that_was_not_watched_has_no_observation(new_writer: NewWriter) -> None:
    with new_writer() as writer:
        pass

    with pytest.raises(NoRecording, match=r"holds nothing of GPU 3\. GPUs watched: 0"):
        open_recording(writer.path).observation(3)


def test_secrets_do_not_reach_the_disk(new_writer: NewWriter) -> None:
    secret = "hf_abcdefghijklmnopqrstuvwx"
    process = Process(
        1, ("train", "--token", secret), threads_env={"OMP_NUM_THREADS": "4", "HF_TOKEN": secret}
    )
    with new_writer(process=process, settings={"command": ["x", "--password", "hunter2"]}) as writer:
        writer.note(Note(1, "child", f"started curl -H 'Authorization: Bearer {secret}'"))
        writer.update(process=process)

    written = b"".join(p.read_bytes() for p in writer.path.iterdir())

    assert secret.encode() not in written
    assert b"hunter2" not in written
    assert open_recording(writer.path).manifest.process.threads_env == {"OMP_NUM_THREADS": "4"}


def test_a_folder_that_holds_anything_is_not_written_to(new_writer: NewWriter, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")

    with pytest.raises(UsageError, match=r"(?s)not empty.*--force"):
        new_writer(tmp_path / "full")
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["thesis.tex"]


def test_force_replaces_a_recording_and_nothing_else(new_writer: NewWriter, table: Table) -> None:
    with new_writer() as writer:
        writer.append("pm", 0, table(5))
        writer.note(Note(1, "tier", "old"))
    (writer.path / "thesis.tex").write_text("years of work")
    with new_writer(force=True):
        pass

    recording = open_recording(writer.path)

    assert recording.streams == ()
    assert recording.notes() == ()
    assert (writer.path / "thesis.tex").read_text() == "years of work"


def test_a_place_that_cannot_be_written_is_a_usage_error(new_writer: NewWriter, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match=r"No recording can be written to .*Not a directory"):
        new_writer(tmp_path / "file" / "recording")


def test_the_manifest_is_strict_json_and_says_what_state_the_recording_is_in(new_writer: NewWriter) -> None:
    writer = new_writer(settings={"bad": math.nan})
    started = json.loads((writer.path / "manifest.json").read_text())
    writer.close()
    ended = json.loads((writer.path / "manifest.json").read_text())

    assert (started["state"], started["ended_ns"]) == ("recording", None)
    assert ended["state"] == "complete"
    assert ended["ended_ns"] >= started["created_ns"]
    assert ended["settings"] == {"bad": None}


def test_a_recorder_that_gives_up_says_so(new_writer: NewWriter) -> None:
    writer = new_writer()
    writer.close(complete=False)
    writer.close(complete=True)

    recording = open_recording(writer.path)

    assert not recording.complete
    assert len(recording.doubts) == 1


def test_a_closed_recording_takes_nothing_more(new_writer: NewWriter, table: Table) -> None:
    writer = new_writer()
    writer.close()

    with pytest.raises(ValueError, match="is closed"):
        writer.append("pm", 0, table(1))
    with pytest.raises(ValueError, match="is closed"):
        writer.update(settings={})


def test_a_field_that_the_manifest_does_not_have_cannot_be_updated(new_writer: NewWriter) -> None:
    with new_writer() as writer, pytest.raises(TypeError, match="no field colour"):
        writer.update(colour="green")


def test_threads_may_write_at_the_same_time(new_writer: NewWriter, table: Table) -> None:
    with new_writer() as writer:

        def write(stream: str) -> None:
            for i in range(30):
                writer.append(stream, 0, table(4, start_ns=(i + 1) * 10**12))
                writer.note(Note(i, stream, "here"))

        threads = [threading.Thread(target=write, args=(s,)) for s in ("pm", "gpm", "board", "zoom")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    recording = open_recording(writer.path)

    assert [len(recording.samples(s, 0)) for s in ("pm", "gpm", "board", "zoom")] == [120] * 4
    assert len(recording.notes()) == 120
    assert recording.doubts == ()


@settings(max_examples=25, deadline=None)
@given(
    values=st.lists(st.floats(width=32, allow_infinity=False), min_size=1, max_size=50),
    cuts=st.lists(st.integers(0, 50), max_size=4),
)
def test_any_values_in_any_batches_come_back(
    tmp_path_factory: pytest.TempPathFactory, values: list[float], cuts: list[int]
) -> None:
    n = len(values)
    start = 10**18 + np.arange(n, dtype=np.int64)
    bounds = sorted({0, n, *(c for c in cuts if c < n)})
    path = tmp_path_factory.mktemp("law") / "r"
    process, gpus = Process(), [Gpu(0, "u", "g")]
    with RecordingWriter(path, gpus=gpus, process=process, settings={}, tiers={}, tier_reasons={}) as writer:
        for first, stop in pairwise(bounds):
            rows = slice(first, stop)
            writer.append("pm", 0, Samples(start[rows], start[rows] + 1, {"power": np.array(values[rows])}))

    back = open_recording(path).samples("pm", 0)

    assert_array_equal(start, back.start_ns)
    assert_array_equal(np.array(values), back.column("power"))


@pytest.mark.parametrize("stream", ["pm", "zoom", "gpm", "board", "host"])
@pytest.mark.parametrize("gpu", [None, 0, 7, 127])
@pytest.mark.parametrize("segment", [0, 1, 12])
def test_a_file_name_says_what_the_file_holds(stream: str, gpu: int | None, segment: int) -> None:
    assert (stream, gpu, segment) == parse_file_name(file_name(stream, gpu, segment=segment))


@pytest.mark.parametrize(
    "name", ["pm-gpu00.arrow", "pm-gpu0.0.arrow", "pm-gpu0.01.arrow", "x-gpu0.arrow", "../pm.arrow"]
)
def test_a_second_name_for_the_same_stream_is_refused(name: str) -> None:
    assert parse_file_name(name) is None
