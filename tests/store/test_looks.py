"""A look inside the program in a recording: when it was, what it left, and what was disturbed by it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfzero.errors import UsageError
from perfzero.store import RecordingWriter
from perfzero.store.reader import open_recording
from perfzero.store.schema import EVENTS, is_ours
from perfzero.store.trim import trim
from perfzero.values import FullCollection, Look
from perfzero.words.said import say

MS = 1_000_000
START_NS = 1_700_000_000_000_000_000


def look(from_ms: float, to_ms: float, *, pid: int = 42, **changes: Any) -> Look:
    whole = {
        "file": f"look-{pid}.json.gz",
        "cost_s": 0.5,
        "steps_ns": (START_NS, START_NS + MS),
        "gpus": (0,),
        **changes,
    }
    return Look(pid, START_NS + round(from_ms * MS), START_NS + round(to_ms * MS), **whole)


def recorded(new_writer: Callable[..., RecordingWriter], table: Callable[..., Any], *looks: Look) -> Path:
    """100 ms of samples of 1 ms in every stream, and *looks*."""
    with new_writer() as writer:
        for stream in ("pm", "zoom", "gpm", "board"):
            writer.append(stream, 0, table(100))
        writer.append("host", None, table(100, names=("host_cpu_busy",)))
        for one in looks:
            writer.look(one)
    return writer.path


def test_a_look_is_read_as_it_was_written(new_writer, table) -> None:
    written = look(20, 30)
    recording = open_recording(recorded(new_writer, table, written))

    assert recording.looks == (written,)
    assert recording.observation(0).looks == (written,)
    assert recording.doubts == ()


def test_what_was_seen_during_a_look_is_left_out_of_what_is_judged(new_writer, table) -> None:
    """Samples that it touches, of every source; the recording itself still has them."""
    recording = open_recording(recorded(new_writer, table, look(20.5, 30), look(60, 61)))
    seen = recording.observation(0)

    for part in (seen.pm, seen.zoom, seen.gpm, seen.board, seen.host):
        kept_ms = (part.start_ns - START_NS) // MS
        assert kept_ms.tolist() == [*range(20), *range(30, 60), *range(61, 100)]
    assert len(recording.samples("pm", 0)) == 100


def test_what_was_sampled_beside_a_look_stands_apart_with_all_of_its_window(new_writer, table) -> None:
    """The burst may end after the look has been answered; another one that begins later is as usual."""
    path = recorded(new_writer, table, look(20, 30))
    with (path / EVENTS).open("a") as events:
        for kind, start, end in (("zoom", 22, 34), ("zoom", 50, 60), ("regular", 10, 25)):
            window = {"event": "window", "gpu": 0, "kind": kind, "period_ns": MS, "samples": 1, "lost": 0}
            times = {"start_ns": START_NS + start * MS, "end_ns": START_NS + end * MS}
            events.write(json.dumps(window | times) + "\n")
    seen = open_recording(path).observation(0)

    assert ((seen.close_up.start_ns - START_NS) // MS).tolist() == [*range(20, 34)]
    assert ((seen.zoom.start_ns - START_NS) // MS).tolist() == [*range(20), *range(34, 100)]
    assert sorted((w.start_ns - START_NS) // MS for w in seen.windows) == [10, 50]


def test_without_bursts_the_samples_of_windows_stand_beside_a_look(new_writer, table) -> None:
    with new_writer() as writer:
        writer.append("pm", 0, table(100))
        writer.look(look(20, 30))
    seen = open_recording(writer.path).observation(0)

    assert ((seen.close_up.start_ns - START_NS) // MS).tolist() == [*range(20, 30)]
    assert len(seen.pm) == 90


def test_without_a_look_nothing_is_left_out(new_writer, table) -> None:
    seen = open_recording(recorded(new_writer, table)).observation(0)

    assert seen.looks == ()
    assert len(seen.close_up) == 0
    assert len(seen.pm) == len(seen.host) == 100


@pytest.mark.parametrize(
    "changes",
    [
        {"file": "../../etc/passwd"},
        {"file": "look-43.json.gz"},
        {"pid": 0, "file": ""},
        {"end_ns": 0},
        {"steps_ns": "now"},
    ],
)
def test_a_look_that_cannot_be_is_a_damaged_line(new_writer, table, changes: dict[str, Any]) -> None:
    """A name that leads elsewhere above all: it is not taken from the content of a file."""
    path = recorded(new_writer, table, look(20, 30))
    line = json.loads((path / EVENTS).read_text()) | changes
    (path / EVENTS).write_text(json.dumps(line) + "\n")
    recording = open_recording(path)

    assert recording.looks == ()
    assert "1 damaged lines" in recording.doubts[0]


SEEN = {"collections": [{"end_ns": 5, "length_s": 0.25}], "watched_s": 0.4}


@pytest.mark.parametrize(
    "changes",
    [
        {"collections": [{"end_ns": 5, "length_s": 0.5}], "watched_s": 0.4},
        {"collections": [{"end_ns": 5, "length_s": -0.5}], "watched_s": 0.4},
        {"collections": [{"end_ns": 5}], "watched_s": 0.4},
        {"collections": 3, "watched_s": 0.4},
        {"collections": [], "watched_s": -1.0},
        {"collections": [], "watched_s": "long"},
        {"collections": [], "watched_s": 0.4, "collects_itself": 3},
    ],
)
def test_a_look_stays_with_its_trace_where_what_it_tells_of_the_collector_cannot_be(
    new_writer, table, changes: dict[str, Any]
) -> None:
    whole = look(20, 30)
    path = recorded(new_writer, table, whole)
    line = json.loads((path / EVENTS).read_text())
    (path / EVENTS).write_text(json.dumps(line | changes) + "\n" + json.dumps(line | SEEN) + "\n")
    recording = open_recording(path)

    assert recording.looks == (
        whole,
        replace(whole, collections=(FullCollection(5, 0.25),), watched_s=0.4),
    )
    assert recording.doubts == (say("file.damaged_collections", events=EVENTS, count=1),)


def test_a_look_that_cannot_be_is_none_whatever_it_tells_of_the_collector(new_writer, table) -> None:
    path = recorded(new_writer, table, look(20, 30))
    line = json.loads((path / EVENTS).read_text()) | {"pid": 0, "collections": 3}
    (path / EVENTS).write_text(json.dumps(line) + "\n")
    recording = open_recording(path)

    assert recording.looks == ()
    assert recording.doubts == (say("file.damaged_lines", events=EVENTS, count=1),)


def test_a_trimmed_recording_knows_when_the_look_was_whose_trace_is_none(
    new_writer, table, tmp_path: Path
) -> None:
    path = recorded(new_writer, table, look(20, 30))
    (path / "look-42.json.gz").write_bytes(b"x" * 1000)
    to = tmp_path / "small"
    done = trim(open_recording(path), to=to, redact=True)
    [kept] = open_recording(to).looks

    assert (kept.start_ns, kept.end_ns, kept.file) == (look(20, 30).start_ns, look(20, 30).end_ns, "")
    why = (
        "look-42.json.gz is no trace of PyTorch's profiler that can be trusted: "
        "it is not compressed by gzip, or damaged"
    )
    assert kept.reason == f"left out by perfzero trim: {why}"
    assert not list(to.glob("look-*"))
    assert done.size_before > 1000
    assert f"left out look-42.json.gz: {why}" in done.done


def test_a_secret_in_a_reason_is_taken_out(new_writer, table) -> None:
    path = recorded(
        new_writer, table, look(20, 30, file="", reason="no --api-key=sk-123456789012345678901234")
    )

    assert "sk-1234" not in (path / EVENTS).read_text()


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("look-42.json.gz", True),
        ("manifest.json", True),
        ("pm-gpu0.arrow", True),
        ("look-042.json.gz", False),
        ("look-x.json.gz", False),
        ("look-42.json", False),
        ("train.py", False),
    ],
)
def test_files_of_a_recording_are_known_by_their_names(new_writer, name: str, ours: bool) -> None:
    """An earlier recording is replaced as a whole when that is asked for, and nothing else."""
    assert is_ours(name) == ours
    with new_writer() as writer:
        (writer.path / name).touch()
    with pytest.raises(UsageError, match="not empty"):
        new_writer()
    new_writer(force=True).close()
    assert (writer.path / name).exists() == (not ours or name == "manifest.json")
