"""Recordings that ended before their time."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perfzero.store import RecordingWriter, open_recording
from perfzero.values import Note, Samples

Table = Callable[..., Samples]
NewWriter = Callable[..., RecordingWriter]

WRITE_FOR_EVER = """
import sys
from pathlib import Path
import numpy as np
from perfzero.store import RecordingWriter
from perfzero.values import Gpu, Note, Process, Samples

writer = RecordingWriter(
    Path(sys.argv[1]), gpus=[Gpu(0, "u", "g")], process=Process(), settings={}, tiers={}, tier_reasons={}
)
i = 0
while True:
    start = 10**18 + i * 10**9 + np.arange(100, dtype=np.int64) * 10**6
    writer.append("pm", 0, Samples(start, start + 10**6, {"gr_active": np.full(100, float(i))}))
    writer.note(Note(i, "batch", "written"))
    i += 1
    if i == 50:
        print("ready", flush=True)
"""

FILL_THE_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from perfzero.store import RecordingWriter
from perfzero.values import Gpu, Process, Samples

writer = RecordingWriter(
    Path(sys.argv[1]), gpus=[Gpu(0, "u", "g")], process=Process(), settings={}, tiers={}, tier_reasons={}
)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
rng = np.random.default_rng(1)
for i in range(100):
    start = 10**18 + i * 10**9 + np.arange(100, dtype=np.int64) * 10**6
    writer.append("pm", 0, Samples(start, start + 10**6, {"gr_active": rng.random(100)}))
    if i == 50:
        writer.append("board", 0, Samples(start, start + 10**6, {"power": np.full(100, 700.0)}))
print(writer.failed)
writer.close()
"""


def test_a_killed_recorder_loses_nothing_that_it_had_appended(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, str(tmp_path / "r")], stdout=subprocess.PIPE, text=True
    ) as recorder:
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == "ready\n"
        recorder.send_signal(signal.SIGKILL)

    recording = open_recording(tmp_path / "r")
    rows, notes = len(recording.samples("pm", 0)), len(recording.notes())

    assert rows >= 50 * 100
    assert rows % 100 == 0
    assert rows // 100 - notes in (0, 1)
    assert not recording.complete
    assert not recording.observation(0).complete
    assert recording.doubts[0].startswith("The recording was cut short")


def test_a_full_disk_stops_one_stream_and_is_said(tmp_path: Path) -> None:
    """The limit on file sizes stands for the disk: both make write() fail in the middle of a batch."""
    done = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, str(tmp_path / "r")], capture_output=True, text=True, check=True
    )

    recording = open_recording(tmp_path / "r")
    rows = len(recording.samples("pm", 0))

    assert done.stdout == "pm-gpu0 could no longer be written: File too large\n"
    assert 0 < rows < 100 * 100
    assert rows % 100 == 0
    assert len(recording.samples("board", 0)) == 100
    assert not recording.complete
    assert [n.kind for n in recording.notes(0)] == ["lost"]
    assert recording.manifest.lost == {"pm-gpu0": "pm-gpu0 could no longer be written: File too large"}
    assert not any("middle of a batch" in doubt for doubt in recording.doubts)


def test_a_recording_cut_short_is_read_up_to_its_last_whole_batch(
    new_writer: NewWriter, table: Table
) -> None:
    """Cut at every possible place, a stream of five batches yields a whole number of them."""
    with new_writer() as writer:
        for i in range(5):
            writer.append("pm", 0, table(10, start_ns=10**18 + i * 10**9))
    file = writer.path / "pm-gpu0.arrow"
    whole = file.read_bytes()
    seen = set()
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        recording = open_recording(writer.path)
        rows = len(recording.samples("pm", 0))
        assert rows % 10 == 0
        assert rows < 50 or length >= len(whole) - 8
        seen.add(rows // 10)

    assert {0, 1, 2, 3, 4, 5} == seen


def test_a_stream_that_ends_in_a_batch_is_doubted_and_one_that_ends_after_it_is_not(
    new_writer: NewWriter, table: Table
) -> None:
    with new_writer() as writer:
        writer.append("pm", 0, table(10))
    file = writer.path / "pm-gpu0.arrow"
    whole = file.read_bytes()

    file.write_bytes(whole[:-8])  # the end mark alone is gone, as after a kill
    assert open_recording(writer.path).doubts == ()
    file.write_bytes(whole[:-20])
    assert open_recording(writer.path).doubts == (
        "pm-gpu0.arrow: it ends in the middle of a batch, of which nothing is left.",
    )


def test_an_events_file_cut_in_a_line_loses_that_line(new_writer: NewWriter) -> None:
    with new_writer() as writer:
        for i in range(3):
            writer.note(Note(i, "tier", "text"))
    file = writer.path / "events.jsonl"
    file.write_bytes(file.read_bytes()[:-5])

    recording = open_recording(writer.path)

    assert [n.time_ns for n in recording.notes()] == [0, 1]
    assert recording.doubts == ("events.jsonl ends in the middle of a line; only that line is lost.",)


def test_a_running_recording_can_be_read(new_writer: NewWriter, table: Table) -> None:
    with new_writer() as writer:
        writer.append("pm", 0, table(10))
        recording = open_recording(writer.path)

        assert len(recording.samples("pm", 0)) == 10
        assert not recording.complete


def test_a_manifest_is_never_seen_half_written(
    new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails while the manifest is written leaves the one before, and no rubbish."""
    writer = new_writer()

    def fail(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("perfzero.store.writer.os.fsync", fail)
        writer.update(settings={"new": 1})
    manifest = json.loads((writer.path / "manifest.json").read_text())

    assert manifest["settings"] == {"period_ns": 1_000_000}
    assert writer.failed == "manifest.json could not be written: No space left on device"
    assert sorted(p.name for p in writer.path.iterdir()) == ["events.jsonl", "manifest.json"]
    writer.close()
    assert not open_recording(writer.path).complete
