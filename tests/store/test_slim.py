"""
Making a look slim: it says the same as the whole one, and nothing of whose machine it was.

The real trace here is of a CPU. To each of its operators the tests add a launch and a kernel by hand, so that
there is something to break down; what a GPU itself wrote is in `tests/recordings/_looks`.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from hand_written_look import ENGINE, MAIN, Look
from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.source_lines import is_users
from perfzero.attribute.tree import break_down
from perfzero.errors import BrokenRecording, NoRecording
from perfzero.store.kineto import read_trace
from perfzero.store.redact import anonymous_text
from perfzero.store.slim import short_files, slim_look
from perfzero.traces import Function, ModuleCall, Site, Tensor, Trace

ROOT = Path(__file__).parents[1]
REAL = ROOT / "fixtures" / "look" / "look-4242.json.gz"
OF_A_GPU = ROOT / "recordings" / "_looks"


def slim(path: Path) -> Path:
    """The slim file of the look at *path*, beside it."""
    data, _ = slim_look(path, hide=anonymous_text)
    made = path.with_name("look-9.json.gz")
    made.write_bytes(data)
    return made


def same(one: Breakdown, other: Breakdown) -> bool:
    """Whether they say the same, also of shares that are NaN."""
    return repr(asdict(one)) == repr(asdict(other))


def events_of(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return found


def with_kernels(path: Path, folder: Path) -> Path:
    """A copy of the real trace in which each operator launches a kernel of 3 us."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    look = Look()
    for number, event in enumerate(e for e in document["traceEvents"] if e.get("cat") == "cpu_op"):
        at = event["ts"] + event["dur"] / 2
        correlation = look.launch(at, event["tid"])
        noted = {"External id": event["args"]["External id"]} if number % 3 == 0 else {}
        look.kernel(f"kernel {number % 7}", at + 50, at + 53, correlation=correlation, **noted)
    for event in look.events:
        event["pid"] = document["traceEvents"][0]["pid"] if event["cat"] != "kernel" else event["pid"]
    document["traceEvents"] += look.events
    copy = folder / "look-1.json.gz"
    copy.write_bytes(gzip.compress(json.dumps(document).encode()))
    return copy


# --- it says the same


def test_a_real_trace_is_broken_down_alike_row_for_row(tmp_path: Path) -> None:
    whole = with_kernels(REAL, tmp_path)
    breakdown = break_down(read_trace(whole))

    assert breakdown.total.launches > 600
    assert len(breakdown.modules) == 9
    assert any(row.source is not None for row in breakdown.operators)
    assert same(break_down(read_trace(slim(whole))), breakdown)


def test_a_slim_look_is_smaller_and_cannot_be_made_slimmer(tmp_path: Path) -> None:
    """What nobody asks for is gone, so what is there is there for a reason."""
    whole = with_kernels(REAL, tmp_path)
    made = slim(whole)

    assert made.stat().st_size < 0.75 * whole.stat().st_size
    assert slim_look(made, hide=anonymous_text)[0] == made.read_bytes()


@pytest.mark.parametrize("path", sorted(OF_A_GPU.glob("*/look-*.json.gz")), ids=lambda path: path.parent.name)
def test_what_a_gpu_wrote_stays_what_it_is(path: Path) -> None:
    """As text: another zlib may compress it otherwise."""
    data, doubts = slim_look(path, hide=anonymous_text)

    assert gzip.decompress(data) == gzip.decompress(path.read_bytes())
    assert doubts == ()


def look_of_everything() -> Look:
    """What is read of a trace, once or twice each, in one step on two threads."""
    look = Look()
    look.step(0, 0, 1000)
    look.module("", "Net", 5, 300, site="/home/ada/src/train.py:7")
    look.module("a", "Linear", 10, 100, site="/home/ada/src/net.py:3")
    look.frame("/home/ada/src/net.py(2): forward", 11, 99)
    look.op(
        "aten::linear", 12, 90, sequence=4, shapes=[[8, 3], [5, 3]], strides=[[3, 1], [3, 1]], external_id=7
    )
    look.op("aten::empty", 13, 14, external_id=8)
    correlation = look.launch(20)
    look.kernel("gemm", 400, 410, correlation=correlation, **{"External id": 7})
    look.op("aten::cat", 110, 130, shapes=[[[2, 3], [4, 3]], [], [1]], types=["TensorList", "Scalar", "int"])
    look.work("cat", 420, 421, at=115, stream=9)
    look.replay(140, 160, site="/home/ada/src/train.py:9")
    look.kernel(
        "graph", 430, 440, correlation=look.launch(150, name="cudaGraphLaunch"), **{"graph node id": 3}
    )
    look.op("MmBackward0", 500, 600, ENGINE, sequence=4, forward_thread=3)
    look.op("aten::mm", 510, 590, ENGINE)
    look.work("gemm_backward", 700, 720, at=520, tid=ENGINE)
    look.flow(12, 500)
    look.optimizer(800, 900)
    look.op("aten::add_", 810, 850)
    look.work("add", 860, 861, at=820)
    look.kernel("Memset", 870, 871, correlation=look.launch(830), cat="gpu_memset", device=1)
    look.launch(990)
    return look


def test_everything_that_is_read_is_read_again(tmp_path: Path) -> None:
    whole = look_of_everything().write(tmp_path)
    before, after = read_trace(whole), read_trace(slim(whole))

    assert after.forward_threads == {3: before.operators.spans.thread[0]} == before.forward_threads
    assert after.modules == (
        ModuleCall("", "Net", Site("train.py", 7)),
        ModuleCall("a", "Linear", Site("net.py", 3)),
    )
    assert after.sites == (Site("train.py", 9),)
    assert after.functions == (Function("net.py", 2, "forward"),)
    assert after.operators.shapes == (
        (Tensor((8, 3), (3, 1), "float"), Tensor((5, 3), (3, 1), "float")),
        (Tensor((2, 3)), Tensor((4, 3)), Tensor((1,), (), "int")),
    )
    assert after.work.names == before.work.names == ("gemm", "cat", "graph", "gemm_backward", "add", "Memset")
    for name in (
        "start_ns",
        "end_ns",
        "name",
        "kind",
        "device",
        "stream",
        "correlation",
        "external_id",
        "replay",
    ):
        assert_array_equal(getattr(after.work, name), getattr(before.work, name))
    for name in ("steps", "module_calls", "replays", "optimizer_calls", "frames"):
        assert_array_equal(getattr(after, name).start_ns, getattr(before, name).start_ns)
        assert_array_equal(getattr(after, name).end_ns, getattr(before, name).end_ns)
    # An operator that launches nothing and a launch of nothing are asked for by nobody.
    assert "aten::empty" in before.operators.names
    assert set(before.operators.names) - set(after.operators.names) == {"aten::empty"}
    assert len(after.launches) == len(before.launches) - 1
    assert after.launches.replay.tolist() == before.launches.replay.tolist()[:-1]


@st.composite
def looks(draw: st.DrawFn) -> Look:
    """A look of calls, launches and kernels at random, many of them at one moment or with one number."""
    look = Look()
    moments = st.integers(0, 40)
    threads = st.sampled_from([MAIN, ENGINE])
    numbers = st.integers(-1, 4)
    if draw(st.booleans()):
        look.step(0, draw(moments), 40)
    for _ in range(draw(st.integers(0, 25))):
        start, length, thread = draw(moments), draw(st.integers(0, 20)), draw(threads)
        end = start + length
        what = draw(st.integers(0, 7))
        if what == 0:
            look.module(
                draw(st.sampled_from(["", "a", "a.0", "a.1"])),
                draw(st.sampled_from("AB")),
                start,
                end,
                thread,
            )
        elif what == 1:
            look.optimizer(start, end, thread)
        elif what == 2:
            look.replay(start, end, thread, site="x.py:1")
        elif what == 3:
            look.flow(start, draw(moments), from_tid=thread, to_tid=draw(threads))
        elif what == 4:
            look.frame(
                draw(st.sampled_from(["x.py(1): f", "y.py(2): g", "json.py(3): h"])), start, end, thread
            )
        else:
            name = draw(st.sampled_from(["aten::mm", "aten::conv2d", "MmBackward0"]))
            sizes = draw(st.sampled_from([None, [[2, 3]], [[4, 3, 2, 2]]]))
            given = {"sequence": draw(numbers), "forward_thread": draw(st.integers(0, 2)), "shapes": sizes}
            look.op(name, start, end, thread, external_id=draw(st.integers(0, 4)), **given)
    for _ in range(draw(st.integers(0, 12))):
        if draw(st.booleans()):
            look.launch(
                draw(moments), draw(threads), name=draw(st.sampled_from(["cudaLaunch", "cudaGraphLaunch"]))
            )
        start, noted = draw(moments), draw(st.integers(-1, 4))
        look.kernel(
            draw(st.sampled_from(["k", "l"])), start, start + draw(st.integers(0, 9)),
            correlation=draw(st.integers(0, 6)), stream=draw(st.integers(7, 8)), **{"External id": noted},
        )  # fmt: skip
    return look


def test_a_look_all_of_whose_work_has_lost_its_launch_is_not_taken_for_one_without_launches(
    tmp_path: Path,
) -> None:
    """Of those the steps are found by the kernels alone."""
    look = Look()
    look.launch(0)
    look.kernel("k", 1, 2, correlation=0)
    whole = look.write(tmp_path)

    assert same(break_down(read_trace(slim(whole))), break_down(read_trace(whole)))


@settings(max_examples=150, deadline=None)
@given(looks())
def test_whatever_is_in_a_look_it_is_broken_down_alike(look: Look) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole = look.write(Path(folder))
        before = break_down(read_trace(whole))
        assert same(break_down(read_trace(slim(whole))), before)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-(10**9), 10**15), st.integers(0, 10**12)), min_size=1, max_size=5),
    st.integers(0, 10**18),
)
def test_times_stay_exact_to_the_nanosecond(spans: list[tuple[int, int]], base_ns: int) -> None:
    """Wherever the profiler counted them from, and in a trace of eleven days."""
    look = Look()
    look.header["baseTimeNanoseconds"] = base_ns
    for start_ns, length_ns in spans:
        look.kernel("k", start_ns / 1000, 0, correlation=0)
        look.events[-1]["dur"] = length_ns / 1000
    with tempfile.TemporaryDirectory() as folder:
        whole = look.write(Path(folder))
        before, after = read_trace(whole).work, read_trace(slim(whole)).work

    assert_array_equal(after.start_ns, before.start_ns)
    assert_array_equal(after.end_ns, before.end_ns)


def test_of_equals_the_first_stays_the_first(tmp_path: Path) -> None:
    """Two kernels that take as long: the one is told that the profiler wrote first, though it ran later."""
    look = Look()
    look.module("a", "A", 0, 100)
    look.op("aten::mm", 1, 99)
    for name, start in (("later", 60), ("earlier", 50)):
        look.work(name, start, start + 5, at=start - 45)
    whole = look.write(tmp_path)

    for path in (whole, slim(whole)):
        assert break_down(read_trace(path)).alike[0].row.kernel == "later"


def test_what_runs_at_one_moment_keeps_its_order(tmp_path: Path) -> None:
    """Of two calls with as much time the one is told whose kernel stands first."""
    look = Look()
    look.op("aten::mm", 0, 9, external_id=1)
    look.op("aten::add", 10, 19, external_id=2)
    look.kernel("k", 50, 50, correlation=0)
    look.kernel("k", 50, 51, correlation=0, **{"External id": 1})
    look.kernel("l", 50, 51, correlation=0, **{"External id": 2})
    whole = look.write(tmp_path)

    for path in (whole, slim(whole)):
        [outside] = [row for row in break_down(read_trace(path)).elsewhere if row.time.gpu_ns]
        assert outside.call is not None
        assert outside.call.operator == "aten::mm"


def test_a_trace_without_steps_begins_with_its_first_operator(tmp_path: Path) -> None:
    """Which says of a function whether it was called within the trace, and so which line can be told."""
    look = Look()
    look.op("aten::empty", 1, 2)
    look.frame("train.py(9): step", 5, 100)
    look.work("gemm", 20, 21, at=10)
    look.op("aten::mm", 9, 11)
    whole = look.write(tmp_path)

    assert same(break_down(read_trace(slim(whole))), break_down(read_trace(whole)))


def test_a_trace_of_nothing_is_a_trace(tmp_path: Path) -> None:
    assert len(read_trace(slim(Look().write(tmp_path))).work) == 0


def test_a_module_that_is_named_as_replays_once_were_is_no_replay(tmp_path: Path) -> None:
    look = Look()
    look.span("user_annotation", "perfzero.module|?|CUDAGraph", 0, 1)
    trace = read_trace(slim(look.write(tmp_path)))

    assert trace.modules == (ModuleCall("?", "CUDAGraph"),)
    assert len(trace.replays) == 0


# --- it says no more


def test_what_nobody_reads_is_not_in_it(tmp_path: Path) -> None:
    look = look_of_everything()
    look.header |= {"traceName": "/run/secret", "host_name": "gpu17", "deviceProperties": [{"name": "H200"}]}
    look.span("gpu_user_annotation", "secret", 0, 1, 7)
    look.span("user_annotation", "secret of the program", 0, 1)
    look.span("overhead", "secret", 0, 1)
    look.events += [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 1, "args": {"name": "secret"}},
        {"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 1, "cat": "ac2g", "name": "secret"},
    ]
    for event in look.events:
        if isinstance(event.get("args"), dict):
            event["args"] |= {"Concrete Inputs": ["secret"], "grid": [1, 1, 1], "bytes": 12345}
    whole = look.write(tmp_path)
    text = gzip.decompress(slim(whole).read_bytes()).decode()

    assert not [word for word in ("secret", "gpu17", "grid", "12345", "/home", "ada", "src") if word in text]
    assert str(MAIN) in gzip.decompress(whole.read_bytes()).decode()  # a process's number, as each thread's
    assert {e["cat"] for e in events_of(slim(whole))} == {
        "cpu_op", "user_annotation", "python_function", "cuda_runtime", "kernel", "gpu_memset", "fwdbwd",
    }  # fmt: skip


def test_a_secret_in_the_name_of_an_operator_is_taken_out(tmp_path: Path) -> None:
    look = Look()
    look.op("fetch --token=hf_abcdefghijklmnopqrstuv /home/ada/data", 0, 9)
    look.work("k", 1, 2, at=1)

    assert read_trace(slim(look.write(tmp_path))).operators.names == ("fetch --token=<removed> data",)


@pytest.mark.parametrize(
    ("file", "left"),
    [
        ("train.py", "train.py"),
        ("model/layers.py", "model/layers.py"),
        ("torch/nn/functional.py", "torch/nn/functional.py"),
        ("/home/ada/secret/train.py", "train.py"),
        ("~/train.py", "train.py"),
        ("../ada/train.py", "train.py"),
        (r"C:\Users\ada\train.py", "train.py"),
        ("/home/ada/env/lib/python3.12/site-packages/timm/layers.py", "site-packages/timm/layers.py"),
        ("/usr/lib/python3/dist-packages/numpy/core.py", "dist-packages/numpy/core.py"),
        ("/home/ada/conda/lib/python3.12/json/decoder.py", "/lib/python3.12/json/decoder.py"),
        ("/tmp/torchinductor_ada/ab/cabd.py", "torchinductor_/cabd.py"),
        ("/home/ada/json.py", "1/json.py"),
        ("/home/ada/<cell 3>", "1/<cell 3>"),
        ("/", "file"),
    ],
)
def test_a_file_loses_the_folders_of_the_machine(file: str, left: str) -> None:
    assert short_files([file]) == {file: left}


def test_two_files_of_one_name_are_kept_apart() -> None:
    files = [
        "/b/train.py",
        "/a/train.py",
        "train.py",
        "1/train.py",
        "/x/site-packages/a.py",
        "/y/site-packages/a.py",
    ]
    short = short_files(files)

    assert short == short_files(reversed(files))
    assert [short[file] for file in files] == [
        "3/train.py", "2/train.py", "train.py", "1/train.py", "site-packages/a.py", "site-packages/1/a.py",
    ]  # fmt: skip


PARTS = st.sampled_from([
    "home", "ada", "~", "..", "lib", "python3.12", "site-packages", "dist-packages", "torch",
    "torchinductor_ada",
    "json", "a.py", "json.py", "torch.py", "sitecustomize.py", "_perfzero_agent.py", "<string>", "1", "",
])  # fmt: skip

PATHS = st.lists(PARTS, min_size=1, max_size=6).map("/".join).filter(lambda path: path and path[-1] != "/")


@settings(max_examples=300)
@given(st.lists(PATHS, max_size=8))
def test_a_file_of_the_program_stays_one_and_that_of_a_library_too(files: list[str]) -> None:
    short = short_files(files)

    assert len(set(short.values())) == len(set(files))
    for file, left in short.items():
        assert is_users(Function(left, 1, "f")) == is_users(Function(file, 1, "f"))
        if file[0] in "/~." and is_users(Function(file, 1, "f")):
            assert re.fullmatch(r"([0-9]+/)?[^/]*", left)


# --- what is no look is refused, and what is doubtful is said


def test_the_same_look_gives_the_same_bytes(tmp_path: Path) -> None:
    """No time of making and no name of a file is in it."""
    whole = look_of_everything().write(tmp_path)
    made = slim(whole).read_bytes()

    assert slim(whole).read_bytes() == made
    assert made[3:8] == bytes(5)


def test_what_was_damaged_is_told(tmp_path: Path) -> None:
    look = look_of_everything()
    look.events += [7, {"ph": "X", "cat": "kernel", "ts": 1, "dur": -1}]

    _, doubts = slim_look(look.write(tmp_path), hide=str)

    assert doubts == ("look-4242.json.gz: 2 damaged events were skipped.",)


def not_compressed(path: Path) -> None:
    path.write_bytes(b'{"traceEvents": []}')


def cut_short(path: Path) -> None:
    path.write_bytes(REAL.read_bytes()[:-100])


def no_trace(path: Path) -> None:
    path.write_bytes(gzip.compress(b'{"events": []}'))


def too_far_apart(path: Path) -> None:
    look = Look()
    for at in (0, 1e13):
        look.op("aten::mm", at, at, sequence=1)
    look.write(path.parent).rename(path)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (not_compressed, "not compressed by gzip"),
        (cut_short, "cut short"),
        (no_trace, "holds no list of events"),
        (too_far_apart, "times that lie too far apart"),
    ],
)
def test_what_is_no_look_is_refused(make: Callable[[Path], None], why: str, tmp_path: Path) -> None:
    make(tmp_path / "look-1.json.gz")

    with pytest.raises(BrokenRecording, match=f"{why}.*\n.*perfzero run"):
        slim_look(tmp_path / "look-1.json.gz", hide=str)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "look-1.json.gz").symlink_to(REAL)

    with pytest.raises(BrokenRecording, match="it is a link"):
        slim_look(tmp_path / "look-1.json.gz", hide=str)


def test_a_look_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoRecording, match="does not exist"):
        slim_look(tmp_path / "look-1.json.gz", hide=str)


def test_texts_of_a_stranger_do_no_harm(tmp_path: Path) -> None:
    look = Look()
    strange = '\ud800\U0001f600"\\|\x1b[2J' + "n" * 5000
    look.op(strange, 0, 9, sequence=1, shapes=[[1]], types=[strange])
    look.module("a", strange, 0, 9, site=f"/x/{strange}:3")
    look.frame(f"/y/{strange}(3): {strange}", 0, 9)
    look.work(strange, 1, 2, at=1)
    whole = look.write(tmp_path)
    before: Trace = read_trace(whole)
    after = read_trace(slim(whole))

    assert after.work.names == before.work.names
    assert after.operators.shapes == before.operators.shapes
    assert after.modules[0].class_name == before.modules[0].class_name
    assert len(after.frames) == len(before.frames) == 1


def test_a_look_that_knows_kernels_alone_says_the_same(tmp_path: Path) -> None:
    look = Look()
    for number in range(5):
        for place, name in enumerate("aabc"):
            look.kernel(
                name, 100 * number + 10 * place, 100 * number + 10 * place + 7, correlation=number + 1
            )
    path = look.write(tmp_path)
    whole = break_down(read_trace(path))

    assert whole.steps == 5
    assert same(break_down(read_trace(slim(path))), whole)
