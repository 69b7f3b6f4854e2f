"""
Reading a look: what PyTorch's profiler wrote, and what someone made of it who wants to do harm.

The GPU's events are written by hand from the format (`hand_written_look`): graphs, lost launches and the
like are in no recording of ours. Operators, modules and functions come from a real trace of a CPU as well,
and one of a real GPU is read in `tests/attribute/test_real_look.py`.
"""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numpy.testing import assert_array_equal

from hand_written_look import BASE_NS, ENGINE, MAIN, Look
from perfzero.errors import BrokenRecording, NoRecording
from perfzero.store import kineto
from perfzero.store.kineto import read_trace
from perfzero.traces import Function, ModuleCall, Site, Tensor

REAL = Path(__file__).parents[1] / "fixtures" / "look" / "look-4242.json.gz"


def written(folder: Path, content: bytes) -> Path:
    path = folder / "look-1.json.gz"
    path.write_bytes(content)
    return path


# --- what is there is read


def test_a_real_trace_of_two_steps_is_read_whole() -> None:
    trace = read_trace(REAL)

    assert trace.steps.what.tolist() == [0, 1]
    assert trace.doubts == ()
    assert {(m.path, m.class_name, source(m.site)) for m in trace.modules} == {
        ("", "Net", "loss = nn.functional.cross_entropy(net(x), y)"),
        ("blocks.0", "Block", "x = self.blocks[0](x)"),
        ("blocks.0.conv", "Conv2d", "return self.act(self.conv(x))"),
        ("blocks.0.act", "ReLU", "return self.act(self.conv(x))"),
        ("blocks.1", "Block", "x = checkpoint(self.blocks[1], x, use_reentrant=False)"),
        ("blocks.1", "Block", "loss.backward()"),
        ("blocks.1.conv", "Conv2d", "return self.act(self.conv(x))"),
        ("blocks.1.act", "ReLU", "return self.act(self.conv(x))"),
        ("head", "Linear", "return self.head(torch.sigmoid(x.flatten(1)))"),
    }
    assert len(trace.module_calls) == 2 * 11  # the second block runs twice, for it is checkpointed
    assert len(trace.work) == 0
    assert trace.forward_threads == {1: 0}


def source(site: Site | None) -> str | None:
    """The line of the program that made the real trace."""
    if site is None:
        return None
    return REAL.with_name(site.file).read_text().splitlines()[site.line - 1].strip()


def test_a_real_operator_comes_with_what_it_was_given() -> None:
    operators = read_trace(REAL).operators
    row = next(
        i for i, what in enumerate(operators.spans.what) if operators.names[what] == "aten::convolution"
    )

    assert operators.shapes[operators.inputs[row]] == (
        Tensor((4, 3, 12, 16), (576, 1, 48, 3), "float"),
        Tensor((8, 3, 3, 3), (27, 1, 9, 3), "float"),
        Tensor((8,), (1,), "float"),
    )
    assert operators.sequence[row] >= 0


def test_times_are_unix_nanoseconds_and_exact(tmp_path: Path) -> None:
    look = Look()
    look.op("aten::relu", 5_141_959_122_840.643, 5_141_959_122_845.001)

    spans = look.trace(tmp_path).operators.spans

    assert int(spans.start_ns[0]) == BASE_NS + 5_141_959_122_840_643
    assert int(spans.end_ns[0] - spans.start_ns[0]) == 4_358


def test_the_base_of_the_times_may_come_last(tmp_path: Path) -> None:
    look = Look()
    look.op("aten::relu", 1, 2)
    text = json.dumps({"traceEvents": look.events, "baseTimeNanoseconds": 7})

    spans = read_trace(written(tmp_path, gzip.compress(text.encode()))).operators.spans

    assert spans.start_ns.tolist() == [1007]


def test_a_look_that_does_not_say_when_it_was_is_doubted(tmp_path: Path) -> None:
    look = Look()
    look.header = {}
    look.op("aten::relu", 1, 2)

    assert look.trace(tmp_path).doubts == (
        "look-4242.json.gz does not say from when its times count; they were taken as Unix time.",
    )


def test_the_work_of_a_gpu_is_read_with_its_launch(tmp_path: Path) -> None:
    look = Look()
    first, second = look.launch(10), look.launch(20, name="cudaGraphLaunch")
    look.kernel("gemm", 30, 40, correlation=first, **{"External id": 5})
    look.kernel("Memcpy HtoD", 12, 14, correlation=first, cat="gpu_memcpy", stream=9, bytes=64)
    look.kernel("Memset", 41, 42, correlation=second, cat="gpu_memset", device=1, **{"graph node id": 3})

    trace = look.trace(tmp_path)

    assert [trace.work.names[n] for n in trace.work.name] == ["Memcpy HtoD", "gemm", "Memset"]
    assert trace.work.kind.tolist() == [1, 0, 2]
    assert trace.work.device.tolist() == [0, 0, 1]
    assert trace.work.stream.tolist() == [9, 7, 7]
    assert trace.work.correlation.tolist() == [first, first, second]
    assert trace.work.external_id.tolist() == [-1, 5, -1]
    assert trace.work.replay.tolist() == [False, False, True]
    assert trace.launches.correlation.tolist() == [first, second]
    assert trace.launches.replay.tolist() == [False, True]


def test_launches_and_work_are_ordered_by_their_start(tmp_path: Path) -> None:
    look = Look()
    for at in (30, 10, 20):
        look.work("gemm", at + 100, at + 101, at=at)

    trace = look.trace(tmp_path)

    assert trace.launches.correlation.tolist() == [2, 3, 1]
    assert trace.work.correlation.tolist() == [2, 3, 1]


def test_a_kernel_that_belongs_to_no_graph_is_not_a_replay(tmp_path: Path) -> None:
    look = Look()
    look.kernel("gemm", 0, 1, correlation=1, **{"graph node id": 0})

    assert look.trace(tmp_path).work.replay.tolist() == [False]


def test_lists_of_tensors_are_read_tensor_by_tensor_and_numbers_are_left_out(tmp_path: Path) -> None:
    look = Look()
    look.op(
        "aten::cat", 0, 1,
        shapes=[[[2, 3], [4, 3]], [], []],
        strides=[[[3, 1], [3, 1]], [], []],
        types=["TensorList", "Scalar", "long int"],
    )  # fmt: skip

    assert look.trace(tmp_path).operators.shapes == (
        (Tensor((2, 3), (3, 1)), Tensor((4, 3), (3, 1)), Tensor((), (), "long int")),
    )


def test_shapes_that_make_no_sense_are_left_out_and_the_operator_stays(tmp_path: Path) -> None:
    look = Look()
    for shapes in ([[2, -1]], [["2"]], [[True]], [[2.5]], [{"a": 1}], ["x"], [[1] * 17]):
        look.op("aten::relu", 0, 1, shapes=shapes)

    operators = look.trace(tmp_path).operators

    assert operators.inputs.tolist() == [-1] * 7
    assert operators.shapes == ()


def test_strides_that_do_not_fit_are_left_out(tmp_path: Path) -> None:
    look = Look()
    look.op("aten::relu", 0, 1, shapes=[[2, 3]], strides=[[1]])
    look.op("aten::relu", 0, 1, shapes=[[2, 4]], strides=[])

    shapes = look.trace(tmp_path).operators.shapes

    assert shapes == ((Tensor((2, 3), (), "float"),), (Tensor((2, 4), (), "float"),))


def test_only_functions_with_a_file_are_frames(tmp_path: Path) -> None:
    look = Look()
    look.frame("train.py(41): forward", 0, 9)
    look.frame("<built-in method relu of type object>", 1, 2)
    look.frame("nn.Module: Conv2d_0", 1, 2)
    look.frame("<frozen importlib._bootstrap>(1022): _find_and_load", 1, 2)
    look.frame("a folder (2)/net.py(7): <lambda>", 1, 2)

    assert look.trace(tmp_path).functions == (
        Function("train.py", 41, "forward"),
        Function("a folder (2)/net.py", 7, "<lambda>"),
    )


def test_a_call_of_a_module_tells_what_called_it(tmp_path: Path) -> None:
    look = Look()
    look.module("a", "Linear", 0, 1, site="/home/a|b/c:d.py:7")
    for site in ("", "model.py", "model.py:", ":7", "model.py:-7", "model.py:²", "model.py:1234567890"):
        look.module("b", "Linear", 0, 1, site=site)
    look.span("user_annotation", "perfzero.module|b|Linear", 0, 1)

    trace = look.trace(tmp_path)

    assert trace.modules == (
        ModuleCall("a", "Linear", Site("/home/a|b/c:d.py", 7)),
        ModuleCall("b", "Linear"),
    )
    assert sorted(trace.module_calls.what.tolist()) == [0, *[1] * 8]


def test_a_replay_of_a_graph_is_no_module_however_it_is_named(tmp_path: Path) -> None:
    look = Look()
    look.replay(0, 1, site="/home/a|b/c.py:7")
    look.module("?", "CUDAGraph", 2, 3, site="/home/a|b/c.py:7")
    look.replay(4, 5)
    look.span("user_annotation", "perfzero.module|?|CUDAGraphs|x.py:1", 6, 7)

    trace = look.trace(tmp_path)

    assert trace.sites == (Site("/home/a|b/c.py", 7),)
    assert trace.replays.what.tolist() == [0, 0, -1]
    assert [m.class_name for m in trace.modules] == ["CUDAGraphs"]


def test_a_flow_tells_autograds_number_of_a_thread(tmp_path: Path) -> None:
    look = Look()
    look.op("aten::mm", 0, 2, MAIN, sequence=4)
    look.op("MmBackward0", 10, 12, ENGINE, sequence=4, forward_thread=3)
    look.flow(0, 10)

    trace = look.trace(tmp_path)

    assert trace.forward_threads == {3: trace.operators.spans.thread[0]}


def test_a_flow_that_leads_nowhere_tells_nothing(tmp_path: Path) -> None:
    look = Look()
    look.op("MmBackward0", 10, 12, ENGINE, sequence=4, forward_thread=3)
    look.flow(0, 11)

    assert look.trace(tmp_path).forward_threads == {}


def test_what_is_open_at_the_same_moment_is_ordered_from_outside_in(tmp_path: Path) -> None:
    look = Look()
    look.op("aten::inner", 0, 2)
    look.op("aten::outer", 0, 9)

    operators = look.trace(tmp_path).operators

    assert [operators.names[n] for n in operators.spans.what] == ["aten::outer", "aten::inner"]


def test_a_trace_without_events_is_a_trace(tmp_path: Path) -> None:
    trace = Look().trace(tmp_path)

    assert len(trace.work) == len(trace.operators) == len(trace.steps) == 0


def test_other_events_are_passed_over(tmp_path: Path) -> None:
    look = Look()
    look.span("gpu_user_annotation", "perfzero.step|0", 0, 1, 7)
    look.span("overhead", "Activity Buffer Request", 0, 1)
    look.events += [{"ph": "M", "name": "process_name"}, {"ph": "i", "ts": 1, "s": "g"}]
    look.events.append({"ph": "X", "cat": ["cpu_op"], "name": "x"})

    trace = look.trace(tmp_path)

    assert trace.doubts == ()
    assert len(trace.steps) == len(trace.operators) == 0


# --- what is damaged is left out and said

DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no object": lambda event: 3,
    "no start": lambda event: event.pop("ts"),
    "a start that is a text": lambda event: event.update(ts="1"),
    "a start that is true": lambda event: event.update(ts=True),
    "a start beyond all times": lambda event: event.update(ts=1e300),
    "a start that is no number": lambda event: event.update(ts=float("nan")),
    "a negative length": lambda event: event.update(dur=-1),
    "a length of a day": lambda event: event.update(dur=86_400e6),
    "no name": lambda event: event.pop("name"),
    "a name that is a number": lambda event: event.update(name=7),
    "no thread": lambda event: event.pop("tid"),
    "a thread that is a list": lambda event: event.update(tid=[1]),
    "a thread beyond 64 bits": lambda event: event.update(tid=2**64),
    "a thread with a name without end": lambda event: event.update(tid="t" * 100),
    "arguments that are a list": lambda event: event.update(args=[1]),
    "a sequence number that is a text": lambda event: event["args"].update({"Sequence number": "1"}),
    "a sequence number beyond 64 bits": lambda event: event["args"].update({"Sequence number": 2**64}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_event_is_skipped_and_said(damage: str, tmp_path: Path) -> None:
    look = Look()
    look.op("aten::good", 0, 1)
    look.op("aten::bad", 0, 1)
    changed = DAMAGES[damage](look.events[1])
    if changed == 3:
        look.events[1] = changed

    trace = look.trace(tmp_path)

    assert [trace.operators.names[n] for n in trace.operators.spans.what] == ["aten::good"]
    assert trace.doubts == ("look-4242.json.gz: 1 damaged events were skipped.",)


def test_a_range_of_ours_that_we_would_not_write_is_damaged(tmp_path: Path) -> None:
    look = Look()
    look.span("user_annotation", "perfzero.step|²", 0, 1)
    look.span("user_annotation", "perfzero.module|no class", 0, 1)
    look.module("a" + ".a" * kineto.MAX_DEPTH, "Deep", 0, 1)
    look.module("a" + ".a" * (kineto.MAX_DEPTH - 1), "Deep", 0, 1)
    look.module("a" * (kineto.MAX_PATH + 1), "Long", 0, 1)

    trace = look.trace(tmp_path)

    assert trace.doubts == ("look-4242.json.gz: 4 damaged events were skipped.",)
    assert len(trace.module_calls) == 1


def test_names_cannot_drive_a_terminal(tmp_path: Path) -> None:
    look = Look()
    look.op("aten::\x1b[2Jrelu", 0, 1)
    marks = "\u061c\u200e\u200f\u2028\u2029\u202e\u2066\ufeff"
    look.module(f"a{marks}b", "C\x07", 0, 1, site="x\x1b.py:1")
    look.frame("x\x1b.py(1): f", 0, 1)

    trace = look.trace(tmp_path)
    assert trace.modules[0].site is not None
    texts = [
        trace.modules[0].site.file,
        *trace.operators.names,
        trace.modules[0].path,
        trace.modules[0].class_name,
        trace.functions[0].file,
    ]

    assert not any(c in text for text in texts for c in f"\x1b\x07{marks}")


def test_a_name_without_end_is_cut(tmp_path: Path) -> None:
    look = Look()
    look.op("k" * 100_000, 0, 1)

    assert [len(name) for name in look.trace(tmp_path).operators.names] == [kineto.MAX_NAME]


# --- what is no such file is refused


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "{}",
        '{"traceEvents": {}}',
        '{"traceEvents": [}',
        '{"traceEvents": [1 2]}',
        '{"traceEvents": [1,]}',
        '{"traceEvents": []',
        '{"traceEvents": [], }',
        '{"traceEvents" []}',
        '{"traceEvents": [' + "[" * 100_000,
        '{"traceEvents": [{"ts": ' + "9" * 5000 + "}]}",
    ],
    ids=lambda text: text[:24] or "nothing",
)
def test_what_is_no_trace_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(BrokenRecording, match=r"(?s)is no trace of PyTorch's profiler.*perfzero run"):
        read_trace(written(tmp_path, gzip.compress(text.encode())))


def test_what_is_not_compressed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokenRecording, match="not compressed by gzip"):
        read_trace(written(tmp_path, b'{"traceEvents": []}'))


def test_a_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokenRecording, match="cut short"):
        read_trace(written(tmp_path, REAL.read_bytes()[:-100]))


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    content = bytearray(REAL.read_bytes())
    content[5000:5100] = bytes(100)

    with pytest.raises(BrokenRecording):
        read_trace(written(tmp_path, bytes(content)))


def test_a_file_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto, "MAX_TEXT_BYTES", 1 << 20)
    path = written(tmp_path, gzip.compress(b" " * (2 << 20)))

    with pytest.raises(BrokenRecording, match="holds more than 1 MiB"):
        read_trace(path)


def test_a_file_too_large_to_unpack_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto, "MAX_FILE_BYTES", 1 << 20)
    path = written(tmp_path, os.urandom((1 << 20) + 1))

    with pytest.raises(BrokenRecording, match="larger than 1 MiB"):
        read_trace(path)


def test_too_many_events_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto, "MAX_EVENTS", 3)
    look = Look()
    for i in range(4):
        look.op("aten::relu", i, i + 1)

    with pytest.raises(BrokenRecording, match="more than 3 events"):
        look.trace(tmp_path)


def test_too_many_different_names_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto, "MAX_DIFFERENT", 3)
    look = Look()
    for i in range(5):
        look.module(f"module {i}", "M", i, i + 1)

    with pytest.raises(BrokenRecording, match="more than 3 different things"):
        look.trace(tmp_path)


def test_kernels_and_operators_beyond_a_number_are_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a row of its own, and a program can make up as many as it likes."""
    monkeypatch.setattr(kineto, "MAX_NAMES", 3)
    look = Look()
    for i in (0, 1, 2, 0, 2):
        look.kernel(f"kernel {i}", i, i + 1, correlation=0)
        look.op(f"aten::{i}", i, i + 1)
    trace = look.trace(tmp_path)
    assert (len(trace.work.names), len(trace.operators.names), trace.doubts) == (3, 3, ())
    for i in (3, 4, 1, 5):
        look.kernel(f"kernel {i}", 10 + i, 11 + i, correlation=0)
        look.op(f"aten::{i}", 10 + i, 11 + i)
    trace = look.trace(tmp_path)

    assert trace.work.names == ("kernel 0", "kernel 1", "kernel 2", "(others)")
    assert trace.operators.names == ("aten::0", "aten::1", "aten::2", "(others)")
    assert [trace.work.names[i] for i in trace.work.name[-4:]] == ["kernel 1", *["(others)"] * 3]
    assert [doubt.split("json.gz ")[1] for doubt in trace.doubts] == [
        "names more than 3 kernels; all others are told as one.",
        "names more than 3 operators; all others are told as one.",
    ]


def test_what_is_of_no_use_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto, "MAX_VALUES", 100)

    read_trace(written(tmp_path, gzip.compress(b'{"traceEvents": [' + b"{}," * 98 + b"{}]}")))
    with pytest.raises(BrokenRecording, match="more than 100 values"):
        read_trace(written(tmp_path, gzip.compress(b'{"traceEvents": [' + b"{}," * 99 + b"{}]}")))


@pytest.mark.parametrize("place", ['{"x": %s, "traceEvents": []}', '{"traceEvents": [%s]}'])
@pytest.mark.parametrize(
    "value",
    ["[" + "[]," * (2 << 20) + "[]]", '"' + "a" * (4 << 20) + '\U0001f600"', '"' + "a" * (4 << 20)],
    ids=["lists", "a text", "a text without end"],
)
def test_a_value_without_end_is_refused_before_it_takes_much_memory(
    value: str, place: str, tmp_path: Path
) -> None:
    path = written(tmp_path, gzip.compress((place % value).encode(), 1))
    del value

    tracemalloc.start()
    try:
        with pytest.raises(BrokenRecording, match="one value in it takes more than 1,048,576 characters"):
            read_trace(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 48 << 20


def test_a_value_as_long_as_may_be_is_read(tmp_path: Path) -> None:
    text = "a" * (kineto.MAX_VALUE - 2)

    with pytest.raises(BrokenRecording, match="characters"):
        read_trace(written(tmp_path, gzip.compress(f'{{"x": "{text}a", "traceEvents": []}}'.encode())))
    read_trace(written(tmp_path, gzip.compress(f'{{"x": "{text}", "traceEvents": []}}'.encode())))


@pytest.mark.parametrize("more", [("x.y.w", "M"), ("", "Loss")])
def test_modules_are_limited_with_all_that_lie_above_them(
    more: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some hundred deep paths make tens of thousands of modules."""
    monkeypatch.setattr(kineto, "MAX_MODULES", 9)
    look = Look()
    look.module("", "Net", 0, 1)  # counts twice: it may stand beside the tree
    for path in ("a.b.c", "a.b.d", "x.y.z", "a.b"):
        look.module(path, "M", 0, 1)
    look.trace(tmp_path)

    look.module(*more, 0, 1)
    with pytest.raises(BrokenRecording, match="more than 9 modules"):
        look.trace(tmp_path)


def test_texts_that_are_kept_are_limited_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto, "MAX_KEPT", 1000)
    look = Look()
    for i in range(20):
        look.op("aten::relu" + "u" * 90, 0, 1)
        look.module("a", "M" * i, 0, 1)
    look.trace(tmp_path)

    look.op("aten::relu" + "u" * 900, 0, 1)
    with pytest.raises(BrokenRecording, match="more than 1,000 characters"):
        look.trace(tmp_path)


@pytest.mark.parametrize("chunk", [1, 2, 3, 7])
def test_where_the_text_is_cut_while_it_is_read_does_not_matter(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a character, a number, a name or a space."""
    look = Look()
    look.module("schicht.größe", "Größe\U0001f600", 0, 12345, site="a.py:1")
    document = {"traceEvents": look.events, "baseTimeNanoseconds": 1234567}
    text = json.dumps(document, ensure_ascii=False, indent=1, separators=(" , ", " : "))
    monkeypatch.setattr(kineto, "_CHUNK_BYTES", chunk)

    trace = read_trace(written(tmp_path, gzip.compress(text.encode())))

    assert trace.modules == (ModuleCall("schicht.größe", "Größe\U0001f600", Site("a.py", 1)),)
    assert trace.module_calls.start_ns.tolist() == [1234567]
    assert trace.module_calls.end_ns.tolist() == [1234567 + 12345000]


def test_what_follows_the_events_is_held_against_its_check_sum(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(b'{"traceEvents": []}' + b" " * (1 << 20)))
    content[-6] ^= 1

    with pytest.raises(BrokenRecording, match="damaged"):
        read_trace(written(tmp_path, bytes(content)))


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(NoRecording, match="does not exist"):
        read_trace(tmp_path / "look-1.json.gz")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "look-1.json.gz").symlink_to(REAL)

    with pytest.raises(BrokenRecording, match="it is a link"):
        read_trace(tmp_path / "look-1.json.gz")


def test_reading_twice_gives_the_same() -> None:
    first, second = read_trace(REAL), read_trace(REAL)

    assert first.operators.names == second.operators.names
    assert_array_equal(first.operators.spans.start_ns, second.operators.spans.start_ns)
    assert_array_equal(first.frames.what, second.frames.what)
