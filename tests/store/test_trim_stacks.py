"""What the host was seen to do, in a trimmed recording: without folders, and telling the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from perfzero.attribute.host_activity import TextOf, meaning
from perfzero.errors import NoRecording
from perfzero.stacks import Frame, HostStacks, ProcessStacks
from perfzero.store import RecordingWriter
from perfzero.store.reader import Recording, open_recording
from perfzero.store.schema import STACKS
from perfzero.store.stacks import encode_stacks, read_stacks, slim_stacks, write_stacks
from perfzero.store.trim import trim
from perfzero.values import Samples

MS, SECOND = 1_000_000, 1_000_000_000
BEGIN_NS = 1_700_000_000 * SECOND
SITE = "/home/ada/.venv/lib/python3.12/site-packages"
FRAMES = (
    Frame("/home/ada/bin/torchrun", 8, "<module>"),
    Frame("/home/ada/train.py", 41, "main"),
    Frame(f"{SITE}/torch/serialization.py", 7, "save"),
    Frame("/usr/lib/python3.12/threading.py", 300, "wait"),
    Frame("/home/ada/data/train.py", 9, "batches"),
    Frame("<frozen runpy>", 3, "_run_code"),
)
LINES = {
    ("/home/ada/train.py", 41): 'torch.save(net, "/home/ada/secret/last.pt")',
    ("/home/ada/data/train.py", 9): "yield loss.item()",
}


def process(**changes: object) -> ProcessStacks:
    """The first stack at 1 s, the second at 2 s, the third at 3 s after the recording began."""
    given: dict[str, object] = {
        "pid": 42, "role": "main", "start_ns": BEGIN_NS, "end_ns": BEGIN_NS + 4 * SECOND,
        "rate_hz": 250.0, "slack_ns": 0,
        "time_ns": BEGIN_NS + np.array([1, 2, 3], np.int64) * SECOND,
        "thread": np.zeros(3, np.int64), "stack": np.array([0, 1, 2]),
        "frames": FRAMES, "stacks": ((2, 1, 5, 0), (3, 1, 5, 0), (4, 1, 5, 0)),
    }  # fmt: skip
    return ProcessStacks(**{**given, **changes})  # type: ignore[arg-type]


def slim(stacks: HostStacks, start_s: float = 0.0, end_s: float = 10.0) -> HostStacks:
    times = (BEGIN_NS + round(s * SECOND) for s in (start_s, end_s))
    return slim_stacks(stacks, *times, hide=lambda text: text.replace("/home/ada/secret/", ""))


@pytest.fixture
def recorded(new_writer: Callable[..., RecordingWriter]) -> Recording:
    with new_writer() as writer:
        start = BEGIN_NS + np.arange(4_000, dtype=np.int64) * MS
        writer.append("pm", 0, Samples(start, start + MS, {"gr_active": np.ones(4_000)}))
    write_stacks(writer.path, HostStacks((process(),), LINES, ("One was busy: /home/ada.",)))
    return open_recording(writer.path)


def text_of(stacks: HostStacks) -> TextOf:
    return lambda frame: stacks.lines.get((frame.file, frame.line), "")


def test_no_folder_is_left_and_nothing_else_is_lost() -> None:
    found = slim(HostStacks((process(),), LINES))
    [one] = found.processes

    assert b"ada" not in encode_stacks(found)
    assert [f.file for f in one.frames].count("train.py") == 1
    assert [[one.frames[i].function for i in s] for s in one.stacks] == [
        [FRAMES[i].function for i in s] for s in process().stacks
    ]
    assert (one.time_ns.tolist(), one.stack.tolist()) == (process().time_ns.tolist(), [0, 1, 2])
    assert sorted(found.lines.values()) == ['torch.save(net, "last.pt")', "yield loss.item()"]


def test_a_slim_stack_means_the_same() -> None:
    whole = HostStacks((process(),), LINES)
    for stacks in (whole, slim(whole)):
        [one] = stacks.processes
        meant = [meaning([one.frames[i] for i in s], text_of(stacks)) for s in one.stacks]

        assert [m.activity for m in meant] == ["checkpoint", "lock", "synchronising"]
        assert [[f.line for f in m.path] for m in meant] == [[41], [41], [41, 9]]


def test_two_files_of_one_name_stay_two() -> None:
    [one] = slim(HostStacks((process(),), LINES)).processes

    assert len({f.file for f in one.frames}) == len(FRAMES)


def test_of_a_part_of_the_time_only_what_was_seen_in_it_is_kept() -> None:
    found = slim(HostStacks((process(), process(role="worker", time_ns=process().time_ns[:0],
                                                thread=np.zeros(0, np.int64), stack=np.zeros(0, np.int64))),
                            LINES), 1.5, 2.5)  # fmt: skip
    [one] = found.processes

    assert (one.start_ns, one.end_ns) == (BEGIN_NS + 3 * SECOND // 2, BEGIN_NS + 5 * SECOND // 2)
    assert [[one.frames[i].function for i in s] for s in one.stacks] == [
        ["wait", "main", "_run_code", "<module>"]
    ]
    assert len(one.frames) == 4
    assert list(found.lines) == [("train.py", 41)]
    assert slim(HostStacks((process(),), LINES), 5, 6).processes == ()


def test_a_trimmed_recording_keeps_what_the_host_was_seen_to_do(recorded: Recording) -> None:
    to = recorded.path.with_name("small")
    done = trim(recorded, to=to).done

    found = read_stacks(to)
    assert found.processes[0].time_ns.tolist() == process().time_ns.tolist()
    assert found.doubts == ("One was busy: ada.",)
    assert "kept what the host was seen to do, without the folders of its files" in done
    trimmed = open_recording(to).manifest.trimmed
    assert trimmed is not None
    assert (trimmed["stacks"], trimmed["stacks_left_out"]) == (True, "")


def test_a_part_of_a_recording_has_the_stacks_of_that_part(recorded: Recording) -> None:
    trim(recorded, to=recorded.path.with_name("part"), from_s=1.5, until_s=2.5)
    [one] = read_stacks(recorded.path.with_name("part")).processes

    assert one.time_ns.tolist() == [BEGIN_NS + 2 * SECOND]
    assert (one.start_ns, one.end_ns) == (BEGIN_NS + 3 * SECOND // 2, BEGIN_NS + 5 * SECOND // 2)


def test_a_part_in_which_the_host_was_not_seen_has_no_stacks(recorded: Recording) -> None:
    path = recorded.path
    (path / STACKS).unlink()
    write_stacks(path, HostStacks((process(),), LINES))
    done = trim(recorded, to=path.with_name("late"), from_s=3.2).done

    assert not (path.with_name("late") / STACKS).exists()
    assert not any("host was seen" in words for words in done)


def test_a_recording_without_stacks_has_none_when_trimmed(recorded: Recording) -> None:
    (recorded.path / STACKS).unlink()
    done = trim(recorded, to=recorded.path.with_name("none")).done

    with pytest.raises(NoRecording):
        read_stacks(recorded.path.with_name("none"))
    assert not any(STACKS in words for words in done)


def test_damaged_stacks_are_left_out_with_the_reason(recorded: Recording) -> None:
    (recorded.path / STACKS).write_bytes(b"no gzip")
    done = trim(recorded, to=recorded.path.with_name("damaged")).done

    assert not (recorded.path.with_name("damaged") / STACKS).exists()
    assert f"left out {STACKS}: {STACKS} is cut short or damaged" in done


def test_stacks_for_which_there_is_no_room_are_left_out_with_the_size_to_allow(recorded: Recording) -> None:
    names = np.random.default_rng(1).bytes(100 * 300).hex()
    many = tuple(Frame("/a.py", i, names[600 * i : 600 * (i + 1)]) for i in range(100))
    (recorded.path / STACKS).unlink()
    write_stacks(recorded.path, HostStacks((process(frames=many, stacks=(tuple(range(100)), (0,), (1,))),)))
    done = trim(recorded, to=recorded.path.with_name("tight"), max_bytes=20_000).done

    assert any(words.startswith(f"left out {STACKS}: the recording takes") for words in done), done
    assert not (recorded.path.with_name("tight") / STACKS).exists()
