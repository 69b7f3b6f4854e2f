"""Stacks on disk: what is written is read, and what is none is refused."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfzero.errors import BrokenRecording, NoRecording
from perfzero.stacks import Frame, GilUse, HostStacks, ProcessStacks
from perfzero.store import stacks as module
from perfzero.store.schema import STACKS, is_ours
from perfzero.store.stacks import chrome_trace, read_stacks, slim_stacks, write_stacks

MAIN = Frame("/job/train.py", 41, "main")
INNER = Frame("/job/data.py", 7, "load")
HOLDER = Frame("/job/prepare.py", 9, "prepare")


def process(**changes: Any) -> ProcessStacks:
    given: dict[str, Any] = {
        "pid": 42,
        "role": "main",
        "start_ns": 10**18,
        "end_ns": 10**18 + 10**9,
        "rate_hz": 250.0,
        "slack_ns": 4_000_000,
        "time_ns": 10**18 + np.array([1, 5, 900], np.int64) * 1_000_000,
        "thread": np.array([0, 1, 0]),
        "stack": np.array([0, 1, 1]),
        "frames": (MAIN, INNER),
        "stacks": ((0,), (1, 0)),
    }
    return ProcessStacks(**{**given, **changes})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_stacks(tmp_path, HostStacks((process(),), {("/job/train.py", 41): "load()"}, ("One doubt.",)))

    found = read_stacks(tmp_path)
    [one] = found.processes

    assert (found.lines, found.doubts) == ({("/job/train.py", 41): "load()"}, ("One doubt.",))
    assert (one.pid, one.role, one.frames, one.stacks) == (42, "main", (MAIN, INNER), ((0,), (1, 0)))
    assert one.time_ns.tolist() == process().time_ns.tolist()
    assert (one.thread.tolist(), one.stack.tolist()) == ([0, 1, 0], [0, 1, 1])
    assert is_ours(STACKS)


def gil(**changes: Any) -> GilUse:
    given: dict[str, Any] = {
        "time_ns": 10**18 + np.array([2, 11, 950], np.int64) * 1_000_000,
        "waits": np.array([0, 1, 0]),
        "rate_hz": 100.0,
        "holders": process(stacks=((1,), ()), frames=(MAIN, HOLDER)),
    }
    return GilUse(**{**given, **changes})


@pytest.mark.parametrize("held", [True, False], ids=["held", "nobody seen"])
def test_the_use_of_the_gil_that_is_written_is_read(tmp_path: Path, held: bool) -> None:
    written = gil() if held else gil(holders=None)
    write_stacks(tmp_path, HostStacks((process(),), gil=written))
    found = read_stacks(tmp_path).gil

    assert found is not None
    assert (found.time_ns.tolist(), found.waits.tolist()) == (written.time_ns.tolist(), [0, 1, 0])
    assert found.rate_hz == 100.0
    assert (found.holders is not None) is held
    assert found.holders is None or found.holders.stacks == ((1,), ())


def test_without_a_use_of_the_gil_there_is_none(tmp_path: Path) -> None:
    write_stacks(tmp_path, HostStacks((process(),)))

    assert read_stacks(tmp_path).gil is None


@pytest.mark.parametrize(
    "changes",
    [
        {"waits": [0, 2, 0]},
        {"waits": [0, 1]},
        {"time_us": [0, -1, 3]},
        {"time_us": [0, 1 << 39, 3]},
        {"rate_hz": 0},
        {"start_ns": None},
        {"holders": []},
        {"holders": {}},
    ],
    ids=["value", "length", "back", "hours", "rate", "start", "no process", "empty process"],
)
def test_a_use_of_the_gil_that_cannot_be_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_stacks(tmp_path, HostStacks((process(),), gil=gil()))
    value = json.loads(gzip.decompress((tmp_path / STACKS).read_bytes()))
    put(tmp_path, {**value, "gil": {**value["gil"], **changes}})

    with pytest.raises(BrokenRecording):
        read_stacks(tmp_path)


def test_of_the_gil_is_shared_what_lies_in_the_time_and_no_folder() -> None:
    stacks = HostStacks((process(),), {("/job/data.py", 7): "open(path)"}, gil=gil())
    found = slim_stacks(stacks, 10**18 + 4_000_000, 10**18 + 100_000_000, hide=str)

    assert found.gil is not None
    assert found.gil.holders is not None
    assert (found.gil.time_ns.tolist(), found.gil.waits.tolist()) == ([10**18 + 11_000_000], [1])
    assert [frame.file for frame in found.gil.holders.frames] == []
    whole = slim_stacks(stacks, 0, 2 * 10**18, hide=str).gil
    assert whole is not None
    assert whole.holders is not None
    assert [frame.file for frame in whole.holders.frames] == ["prepare.py"]
    assert slim_stacks(stacks, 0, 10**18, hide=str).gil is None


def test_secrets_on_a_line_are_taken_out(tmp_path: Path) -> None:
    write_stacks(tmp_path, HostStacks((), {("/a.py", 1): "login(token='hf_abcdefghijklmnopqrstuvwx')"}))

    assert "hf_" not in read_stacks(tmp_path).lines["/a.py", 1]


def test_a_file_that_is_there_already_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / STACKS).write_text("mine")

    with pytest.raises(FileExistsError):
        write_stacks(tmp_path, HostStacks())
    assert (tmp_path / STACKS).read_text() == "mine"


def test_a_recording_without_stacks_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoRecording):
        read_stacks(tmp_path)


def document(tmp_path: Path) -> dict[str, Any]:
    write_stacks(tmp_path, HostStacks((process(),), {("/a.py", 1): "x"}))
    found: dict[str, Any] = json.loads(gzip.decompress((tmp_path / STACKS).read_bytes()))
    return found


def put(tmp_path: Path, value: object) -> None:
    (tmp_path / STACKS).write_bytes(gzip.compress(json.dumps(value).encode()))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stack", [0, 1, 2]),
        ("stack", [0, 1, -1]),
        ("stack", [0, 1]),
        ("thread", [0, 1, 10**9]),
        ("thread", [0, 1, True]),
        ("time_us", [0, 1, "2"]),
        ("time_us", [0, 1, 1 << 39]),
        ("stacks", [[0], [2]]),
        ("stacks", [[0] * 600, [0]]),
        ("stacks", None),
        ("frames", [["a.py", 1]]),
        ("frames", [["a.py", "1", "f"], ["a.py", 1, "f"]]),
        ("rate_hz", 0),
        ("rate_hz", "250"),
        ("pid", -1),
        ("end_ns", 0),
        ("end_ns", 1 << 61),
        ("slack_ns", 1 << 40),
        ("role", None),
    ],
)
def test_a_value_that_cannot_be_is_refused(tmp_path: Path, name: str, value: object) -> None:
    wrong = document(tmp_path)
    wrong["processes"][0][name] = value
    put(tmp_path, wrong)

    if name == "role":  # whatever is not the main process helps it
        assert read_stacks(tmp_path).processes[0].role == "worker"
        return
    with pytest.raises(BrokenRecording):
        read_stacks(tmp_path)


def test_stacks_with_too_many_frames_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, document(tmp_path))  # a stack of one frame and a stack of two
    monkeypatch.setattr(module, "MAX_STACKED", 3)
    assert len(read_stacks(tmp_path).processes[0].stacks) == 2

    monkeypatch.setattr(module, "MAX_STACKED", 2)
    with pytest.raises(BrokenRecording):
        read_stacks(tmp_path)


@pytest.mark.parametrize(
    "data",
    [b"", b"no gzip", gzip.compress(b"{}", mtime=0)[:-4], gzip.compress(b"[" * 100_000, mtime=0)],
    ids=["empty", "no gzip", "cut short", "nested"],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / STACKS).write_bytes(data)

    with pytest.raises(BrokenRecording):
        read_stacks(tmp_path)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    put(tmp_path, {**document(tmp_path), "schema": 2})

    with pytest.raises(BrokenRecording, match="schema"):
        read_stacks(tmp_path)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document(tmp_path)
    monkeypatch.setattr(module, "MAX_TEXT_BYTES", 100)

    with pytest.raises(BrokenRecording, match="more than"):
        read_stacks(tmp_path)


def test_no_link_is_followed(tmp_path: Path) -> None:
    document(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / STACKS).symlink_to(tmp_path / STACKS)

    with pytest.raises(BrokenRecording, match="link"):
        read_stacks(tmp_path / "other")


def event(phase: str, name: str, time_us: int, *, line: int = 1, thread: int = 7) -> dict[str, Any]:
    args = {"filename": f"/job/{name}.py", "line": line}
    return {"args": args, "cat": "py-spy", "name": name, "ph": phase, "pid": 1, "tid": thread, "ts": time_us}


def traced(*events: object) -> tuple[Any, ...]:
    return chrome_trace(io.BytesIO(json.dumps(events).encode()))


def test_ends_and_beginnings_at_one_moment_are_one_stack() -> None:
    frames, stacks, time_us, thread, stack = traced(
        event("B", "main", 100), event("B", "load", 100),
        event("E", "load", 200), event("B", "save", 200),
        event("E", "save", 300), event("E", "main", 300),
    )  # fmt: skip
    names = [[frames[i].function for i in stacks[k]] for k in stack]

    assert names == [["load", "main"], ["save", "main"], []]
    assert (time_us.tolist(), thread.tolist()) == ([100, 200, 300], [0, 0, 0])


def test_threads_are_kept_apart_and_the_rows_ordered_by_time() -> None:
    frames, stacks, time_us, thread, stack = traced(
        event("B", "a", 100, thread=1), event("B", "b", 150, thread=2), event("E", "a", 200, thread=1)
    )

    assert (time_us.tolist(), thread.tolist()) == ([100, 150, 200], [0, 1, 0])
    assert [[frames[i].function for i in stacks[k]] for k in stack] == [["a"], ["b"], []]


def test_names_of_threads_and_ends_of_nothing_are_passed_over() -> None:
    _, stacks, time_us, *_ = traced({"ph": "M", "name": "thread_name"}, 3, event("E", "a", 5))

    assert (stacks, time_us.tolist()) == ([()], [5])


@pytest.mark.parametrize(
    "wrong",
    [
        {**event("B", "a", 1), "ts": -1},
        {**event("B", "a", 1), "ts": 1.5},
        {**event("B", "a", 1), "tid": "1"},
        {**event("B", "a", 1), "args": None},
        {**event("B", "a", 1), "name": 3},
    ],
)
def test_an_event_that_cannot_be_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="event"):
        traced(wrong)


def test_what_is_no_list_and_what_is_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no list"):
        chrome_trace(io.BytesIO(b"{}"))
    with monkeypatch.context() as patch:
        patch.setattr(module, "MAX_STACKED", 12)
        with pytest.raises(ValueError, match="too many"):
            traced(*(event("B", "a", i) for i in range(9)))
    monkeypatch.setattr(module, "MAX_ROWS", 2)
    with pytest.raises(ValueError, match="too many"):
        traced(*(event("B", "a", i) for i in range(9)))
    monkeypatch.setattr(module, "MAX_TRACE_BYTES", 10)
    with pytest.raises(ValueError, match="more than"):
        traced(event("B", "a", 1))


def test_a_name_that_would_drive_a_terminal_is_cleaned() -> None:
    frames, *_ = traced(event("B", "\x1b[31m", 1))

    assert "\x1b" not in frames[0].function
