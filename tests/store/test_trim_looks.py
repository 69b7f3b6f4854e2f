"""A look in a trimmed recording: slim, with all that was sampled beside it, if there is room."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hand_written_look import BASE_NS
from hand_written_look import Look as HandWritten
from perfzero.attribute.tree import break_down
from perfzero.errors import UsageError
from perfzero.store import RecordingWriter
from perfzero.store import trim as trim_module
from perfzero.store.kineto import read_trace
from perfzero.store.reader import Recording, open_recording
from perfzero.store.trim import RELATIVE_ERROR, trim
from perfzero.values import Look, Samples, Window

MS, SECOND = 1_000_000, 1_000_000_000
NAMES = ("dram_read_bytes", "dram_write_bytes", "sm_active", "tensor_active")

Recorded = Callable[..., Recording]


def noisy(rows: int, *, at_s: float, period_ns: int) -> Samples:
    rng = np.random.default_rng(rows)
    start = BASE_NS + round(at_s * SECOND) + np.arange(rows, dtype=np.int64) * period_ns
    return Samples(start, start + period_ns, {name: rng.random(rows) for name in NAMES})


def write_look(folder: Path, pid: int, *, kernels: int = 20, name: str = "aten::mm") -> None:
    """A look of some kernels, in the file that belongs to the process."""
    look = HandWritten()
    look.module("", "Net", 0, kernels * 10, site="/home/ada/train.py:7")
    rng = np.random.default_rng(pid)
    for i in range(kernels):
        at = i * 10 + float(rng.integers(1, 3000)) / 1000
        look.op(name, at - 0.5, at + 2)
        look.work(f"gemm {i}", at + 500, at + 500 + float(rng.integers(1, 9000)) / 1000, at=at)
    look.write(folder).rename(folder / f"look-{pid}.json.gz")


@pytest.fixture
def recorded(new_writer: Callable[..., RecordingWriter]) -> Recorded:
    """20 s: a window of 0.5 s every 2 s, and three bursts of 5,000 samples, the second beside a look."""

    def make(*pids: int, kernels: int = 20, stream: str = "zoom", name: str = "aten::mm") -> Recording:
        with new_writer() as writer:
            for at_s in range(0, 20, 2):
                writer.append("pm", 0, noisy(500, at_s=at_s, period_ns=MS))
                since = BASE_NS + at_s * SECOND
                writer.window(Window(0, "regular", since, since + 500 * MS, MS, 500, 0))
            for at_s in (5, 11, 17) if stream == "zoom" else ():
                writer.append("zoom", 0, noisy(5_000, at_s=at_s, period_ns=20_000))
                since = BASE_NS + at_s * SECOND
                writer.window(Window(0, "zoom", since, since + 100 * MS, 20_000, 5_000, 0))
            writer.append("board", 0, noisy(20, at_s=0, period_ns=SECOND))
            for number, pid in enumerate(pids):
                write_look(writer.path, pid, kernels=kernels * (1 + number), name=name)
                start_ns = BASE_NS + (10 * SECOND + 900 * MS if stream == "zoom" else 8 * SECOND - 100 * MS)
                writer.look(Look(pid, start_ns, start_ns + 400 * MS, f"look-{pid}.json.gz", cost_s=0.1))
        return open_recording(writer.path)

    return make


def test_a_look_is_kept_and_says_the_same(recorded: Recorded, tmp_path: Path) -> None:
    whole = recorded(7)
    done = trim(whole, to=tmp_path / "small", max_bytes=2_000_000)
    small = open_recording(tmp_path / "small")

    assert small.looks == whole.looks
    assert small.doubts == ()
    before, after = (break_down(read_trace(r.path / "look-7.json.gz")) for r in (whole, small))
    assert before.total == after.total
    assert [row.row.name for row in before.kernels] == [row.row.name for row in after.kernels]
    assert "kept 1 of 1 looks inside the program, as much as a breakdown is made of" in done.done
    assert small.manifest.trimmed is not None
    assert small.manifest.trimmed["looks_before"] == small.manifest.trimmed["looks_after"] == 1


def test_the_samples_beside_a_look_stay_whole_where_all_others_are_thinned(
    recorded: Recorded, tmp_path: Path
) -> None:
    whole = recorded(7)
    trim(whole, to=tmp_path / "small", max_bytes=59_000)
    before, after = whole.observation(0), open_recording(tmp_path / "small").observation(0)

    assert len(after.close_up) == len(before.close_up) == 5_000
    assert_array_equal(after.close_up.start_ns, before.close_up.start_ns)
    for name in NAMES:
        assert_allclose(
            after.close_up.column(name), before.close_up.column(name), rtol=RELATIVE_ERROR * 1.001
        )
    assert 100 <= len(after.zoom) <= 1_000
    assert 100 <= len(after.pm) < len(before.pm)


def test_where_no_burst_was_taken_the_windows_beside_a_look_stay_whole(
    recorded: Recorded, tmp_path: Path
) -> None:
    whole = recorded(7, stream="pm")
    trim(whole, to=tmp_path / "small", max_bytes=12_000)
    before, after = whole.observation(0), open_recording(tmp_path / "small").observation(0)

    assert len(after.close_up) == len(before.close_up) == 500
    assert_array_equal(after.close_up.start_ns, before.close_up.start_ns)
    assert len(after.pm) < len(before.pm)


def test_a_look_for_which_there_is_no_room_is_left_out_and_said(recorded: Recorded, tmp_path: Path) -> None:
    """And then nothing keeps its samples from being thinned as others are."""
    whole = recorded(7)
    done = trim(whole, to=tmp_path / "small", max_bytes=18_000)
    small = open_recording(tmp_path / "small")
    [look] = small.looks
    [said] = [sentence for sentence in done.done if sentence.startswith("left out look-7.json.gz: ")]

    assert done.size <= 18_000
    assert look.file == ""
    assert look.start_ns == whole.looks[0].start_ns
    assert look.reason == said.replace("left out look-7.json.gz", "left out by perfzero trim")
    assert not list((tmp_path / "small").glob("look-*"))
    assert len(small.samples("zoom", 0)) < 1_000

    # What it asks for is enough.
    asked = said.split("--max-size ")[1]
    assert asked.endswith("0KB")
    trim(whole, to=tmp_path / "larger", max_bytes=int(asked.removesuffix("KB")) * 1000)
    assert open_recording(tmp_path / "larger").looks == whole.looks


def test_of_two_looks_the_larger_one_is_left_out_first(recorded: Recorded, tmp_path: Path) -> None:
    whole = recorded(7, 8, kernels=2_000)
    sizes = trim(whole, to=tmp_path / "all", max_bytes=10_000_000)
    trim(whole, to=tmp_path / "small", max_bytes=150_000)

    assert [look.file for look in open_recording(tmp_path / "small").looks] == ["look-7.json.gz", ""]
    assert sizes.size > 200_000


def test_without_any_look_too_what_does_not_fit_is_refused(recorded: Recorded, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be made smaller than"):
        trim(recorded(7), to=tmp_path / "small", max_bytes=3_000)
    assert not (tmp_path / "small").exists()


def test_more_looks_than_a_report_is_made_of_are_left_out(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trim_module, "MAX_LOOKS", 1)
    trim(recorded(7, 8), to=tmp_path / "small", max_bytes=2_000_000)
    first, second = open_recording(tmp_path / "small").looks

    assert first.file == "look-7.json.gz"
    assert second.reason == "left out by perfzero trim: there are more than 1"


def test_a_look_before_the_wanted_time_is_gone_with_its_trace(recorded: Recorded, tmp_path: Path) -> None:
    trim(recorded(7), to=tmp_path / "small", from_s=13.0, max_bytes=2_000_000)

    assert open_recording(tmp_path / "small").looks == ()
    assert not list((tmp_path / "small").glob("look-*"))


def test_a_look_that_is_missing_is_said_without_the_folder(recorded: Recorded, tmp_path: Path) -> None:
    whole = recorded(7)
    (whole.path / "look-7.json.gz").unlink()
    trim(whole, to=tmp_path / "small", max_bytes=2_000_000)

    [look] = open_recording(tmp_path / "small").looks
    assert look.reason == "left out by perfzero trim: look-7.json.gz does not exist"


@pytest.mark.parametrize("redact", [False, True])
def test_no_folder_and_no_secret_comes_along_with_a_look(
    recorded: Recorded, tmp_path: Path, redact: bool
) -> None:
    whole = recorded(7, name="load /home/ada/x --token=hf_abcdefghijklmnopqrstuv")
    trim(whole, to=tmp_path / "small", max_bytes=2_000_000, redact=redact)
    trace = read_trace(tmp_path / "small" / "look-7.json.gz")

    assert trace.operators.names == ("load x --token=<removed>",)
    assert {module.site.file for module in trace.modules if module.site} == {"train.py"}


def test_a_damaged_event_is_a_note_in_the_copy(recorded: Recorded, tmp_path: Path) -> None:
    """What is damaged cannot be written again, and its number would be lost with it."""
    whole = recorded(7)
    look = HandWritten()
    look.op("aten::mm", 0, 9)
    look.events.append(7)
    look.write(whole.path).replace(whole.path / "look-7.json.gz")
    trim(whole, to=tmp_path / "small", max_bytes=2_000_000)

    [note] = open_recording(tmp_path / "small").notes()
    assert (note.kind, note.text) == ("look", "look-7.json.gz: 1 damaged events were skipped.")
    assert "looks" in json.dumps(dict(open_recording(tmp_path / "small").manifest.trimmed or {}))
