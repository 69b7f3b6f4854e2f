"""
Reads a look: the trace of a few steps that PyTorch's own profiler (Kineto) wrote inside the program.

The file is Chrome-trace JSON, compressed by gzip. What is read of it:

    cat                                  what it becomes
    cpu_op                               a call of an operator, with the shapes of its inputs
    user_annotation                      perfzero.module|<path>|<Class>|<file>:<line>
                                                             a forward call of a module, and what called it
                                         perfzero.replay|<file>:<line>
                                                             a replay of a CUDA graph, and what asked for it
                                         perfzero.step|<k>   a whole step
                                         Optimizer.*         a call of the optimizer
    python_function                      a call of a Python function, where it has a file
    cuda_runtime, cuda_driver            a launch, or a call that takes or gives back device memory
    kernel, gpu_memcpy, gpu_memset       the GPU's work
    fwdbwd (flow events)                 on which thread the forward pass of a backward operator ran

Time stamps are microseconds since `baseTimeNanoseconds`, as decimal numbers with a digit for each
nanosecond. Whole and fraction are converted apart: below 2^43 us (a hundred days, and Kineto's base is less
than three months old) a double holds them to half a nanosecond, so the result is exact.

A look may come from anyone, as all of a recording. Its size is limited before and after decompression, and so
are the values in it, each by its length and all by their number. It is unpacked and decoded value by value,
so that what is not needed takes no memory; texts that are kept are limited together. A wrong type makes an
event damaged, which is skipped and said, and what is no such file at all is a `BrokenRecording`.
"""

from __future__ import annotations

import codecs
import gzip
import json
import math
import os
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import numpy as np

from perfzero.errors import BrokenRecording, NoRecording
from perfzero.store.decode import clean_text
from perfzero.store.regular import open_regular
from perfzero.traces import (
    WORK_KINDS,
    Function,
    Launches,
    ModuleCall,
    Operators,
    Site,
    Spans,
    Tensor,
    Trace,
    Work,
    WorkKind,
)
from perfzero.values import IntArray
from perfzero.words.said import say

MAX_FILE_BYTES = 128 << 20
"""Compressed. A small training step with Python stacks takes some 10 kB."""

MAX_TEXT_BYTES = 512 << 20
"""Decompressed: some 1.5 million events at the 330 bytes that one takes on average."""

MAX_EVENTS = 2_000_000
"""Events kept; each takes up to a hundred bytes of memory."""

MAX_VALUES = 4_000_000
"""Values read, those not needed included: each takes a microsecond at least, however short it is."""

MAX_VALUE = 1 << 20
"""Characters of one event, of which real ones have thousands. Decoded, each takes 30 bytes at worst."""

MAX_KEPT = 16 << 20
"""Characters of all different names and shapes, four bytes each at worst; real traces have some 100,000."""

MAX_TENSORS = 16
"""Inputs kept of one operator; the optimizer's take lists of all parameters, of which the first ones do."""

MAX_RANK = 16
MAX_THREAD = 64
"""Characters of a thread that has a name for a number."""

MAX_NAME = 4096
"""Characters of a name. Those of templated kernels have several hundred, and more tell nothing apart."""

MAX_DIFFERENT = 100_000
"""Different names of a kind, and different shapes; a large model has some thousand modules."""

MAX_NAMES = 4_000
"""
Names of kernels that are told apart, and of operators: each is a row that people are given, and takes a
millisecond from here to the last file. Large networks have some hundreds.
"""

OTHERS = "(others)"
"""What the others are called, which are those that come last."""

MAX_DEPTH = 32
"""Parts of a module's path; deep models have some ten."""

MAX_PATH = 512
"""Characters of a module's path; those of deep models have some hundred."""

MAX_MODULES = 50_000
"""Different paths, with all that lie above them; each becomes an object in the file that people are given."""

_MODULE = "perfzero.module|"
_REPLAY = "perfzero.replay|"
_REPLAY_AS_MODULE = "perfzero.module|?|CUDAGraph|"
"""How replays were named first."""

_ALLOCATES = re.compile(
    r"cudaMalloc(Async|Managed|FromPoolAsync)?|cuMem(Alloc(Async|Managed)?|Create|Map)(_v2)?"
)
_FREES = re.compile(r"cudaFree(Async)?|cuMem(Free(Async)?|Release|Unmap)(_v2)?")
"""How CUDA's calls for device memory are named; those for memory of the host are others."""

_STEP = "perfzero.step|"
_OPTIMIZER = "Optimizer."
_FRAME = re.compile(r"(?P<file>[^<].*?)\((?P<line>[0-9]{1,9})\): (?P<name>.*)", re.DOTALL)
_NO_TENSOR = {"", "Scalar", "ScalarList", "GenericList", "Device", "None"}
_KINDS: dict[str, WorkKind] = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
_SPACE = re.compile(r"[ \t\n\r]*")
_CHUNK_BYTES = 1 << 18
_FARTHEST_US = float(1 << 51)
_LONGEST_NS = 3_600 * 10**9
"""An hour: so that the lengths of `MAX_EVENTS` add up to less than 2^63."""

T = TypeVar("T", bound=Hashable)


def read_trace(path: Path) -> Trace:
    """The trace in the file *path*; raises `NoRecording` or `BrokenRecording` if there is none to trust."""
    events = _Events()
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
                raise ValueError(say("file.larger", size=MAX_FILE_BYTES >> 20))
            with gzip.GzipFile(fileobj=file) as unpacked:
                base_ns = _read(_Json(unpacked), events)
    except FileNotFoundError:
        raise NoRecording(say("file.no_trace", path=path)) from None
    except EOFError:
        raise _broken(path, say("file.cut_short")) from None
    except (gzip.BadGzipFile, zlib.error):
        raise _broken(path, say("file.no_gzip")) from None
    except OSError as error:
        raise BrokenRecording(
            say("file.unreadable", path=path, why=error.strerror or error, owner=path)
        ) from error
    except (ValueError, RecursionError) as error:
        raise _broken(path, str(error).rstrip(".") or say("decode.deep")) from error
    return events.trace(base_ns=base_ns, name=path.name)


def _broken(path: Path, reason: str) -> BrokenRecording:
    return BrokenRecording(say("file.bad_trace", path=path, reason=clean_text(reason)))


class _Json:
    """
    Reads JSON value by value from a file, of which never more than one value and one chunk are held.

    Raises ValueError, and what the file raises.
    """

    def __init__(self, file: BinaryIO | gzip.GzipFile) -> None:
        self._file = file
        self._unpacked = 0
        self._values = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._at = 0
        self._decode = json.JSONDecoder().raw_decode

    def is_next(self, sign: str) -> bool:
        """Whether *sign*, one character, comes next, which is then passed."""
        self._skip()
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        return True

    def expect(self, sign: str) -> None:
        """Pass *sign*."""
        if not self.is_next(sign):
            raise ValueError(
                say("file.sign_missing", sign=f"{sign!r}", text=f"{self._text[self._at : self._at + 20]!r}")
            )

    def value(self) -> Any:
        """The next value, whatever it is."""
        self._values += 1
        if self._values > MAX_VALUES:
            raise ValueError(say("file.many_values", most=f"{MAX_VALUES:,}"))
        self._skip()
        while True:
            try:
                found, end = self._decode(self._text, self._at)
            except ValueError:  # cut off by the end of what is held, or damaged
                if len(self._text) - self._at > MAX_VALUE:
                    raise ValueError(say("file.long_value", most=f"{MAX_VALUE:,}")) from None
                if not self._more():
                    raise
                continue
            if end - self._at > MAX_VALUE:
                raise ValueError(say("file.long_value", most=f"{MAX_VALUE:,}"))
            # A number that ends with what is held may go on.
            if end == len(self._text) and self._more():
                continue
            self._at = end
            return found

    def finish(self) -> None:
        """Unpack what is left, so that its check sum is held against it."""
        while self._chunk():
            pass

    def _skip(self) -> None:
        while True:
            space = _SPACE.match(self._text, self._at)
            if space is not None:
                self._at = space.end()
            if self._at < len(self._text) or not self._more():
                return

    def _more(self) -> bool:
        """Hold more of the text; False at its end."""
        chunk = self._chunk()
        self._text = self._text[self._at :] + self._decoder.decode(chunk, final=not chunk)
        self._at = 0
        return bool(chunk)

    def _chunk(self) -> bytes:
        chunk = self._file.read(_CHUNK_BYTES)
        self._unpacked += len(chunk)
        if self._unpacked > MAX_TEXT_BYTES:
            raise ValueError(say("file.much_text", size=MAX_TEXT_BYTES >> 20))
        return chunk


def _read(source: _Json, events: _Events) -> int | None:
    """Feed *events* with what the file holds; returns the base of its times in Unix ns, if it says one."""
    base_ns: int | None = None
    seen = False
    source.expect("{")
    if not source.is_next("}"):
        while True:
            key = source.value()
            source.expect(":")
            if key == "traceEvents" and source.is_next("["):
                seen = True
                _read_events(source, events)
            else:
                value = source.value()
                if key == "baseTimeNanoseconds" and type(value) is int and 0 <= value < 2**61:
                    base_ns = value
            if not source.is_next(","):
                break
        source.expect("}")
    source.finish()
    if not seen:
        raise ValueError(say("file.no_events"))
    return base_ns


def _read_events(source: _Json, events: _Events) -> None:
    if source.is_next("]"):
        return
    while True:
        events.add(source.value())
        if not source.is_next(","):
            break
    source.expect("]")


class _Numbered(Generic[T]):
    """Different values, numbered in the order of their appearance."""

    def __init__(self) -> None:
        self._number: dict[T, int] = {}

    def number(self, value: T) -> int:
        if len(self) > MAX_DIFFERENT:
            raise ValueError(say("file.many_names", most=f"{MAX_DIFFERENT:,}"))
        return self._number.setdefault(value, len(self._number))

    def __len__(self) -> int:
        return len(self._number)

    def values(self) -> tuple[T, ...]:
        return tuple(self._number)


class _Room:
    """How many characters may still be kept."""

    def __init__(self) -> None:
        self._left = MAX_KEPT

    def take(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise ValueError(say("file.long_names", most=f"{MAX_KEPT:,}"))


class _Known:
    """The numbers of texts that were seen before."""

    def __init__(self, room: _Room) -> None:
        self._room = room
        self._number: dict[str, int] = {}
        self.get = self._number.get

    def learn(self, text: str, number: int) -> int:
        self._room.take(len(text))
        self._number[text] = number
        return number


class _Names(_Numbered[str]):
    """The same for texts, each made safe to print once, and no more of them than `MAX_NAMES`."""

    def __init__(self, room: _Room) -> None:
        super().__init__()
        self._known = _Known(room)
        self.too_many = False

    def of(self, raw: str) -> int:
        raw = raw[:MAX_NAME]
        found = self._known.get(raw)
        if found is None and len(self) >= MAX_NAMES:
            self.too_many = True
            return self.number(OTHERS)
        if found is None:
            found = self._known.learn(raw, self.number(clean_text(raw)))
        return found


class _Damaged(ValueError):
    """An event has not the shape it should have."""


class _Events:
    """Takes events one by one and keeps what is needed of them, as rows of whole numbers."""

    def __init__(self) -> None:
        self.damaged = 0
        self._kept = 0
        self._threads: _Numbered[tuple[Hashable, Hashable]] = _Numbered()
        self._modules: _Numbered[ModuleCall] = _Numbered()
        self._paths = {""}
        self._sites: _Numbered[Site] = _Numbered()
        self._functions: _Numbered[Function] = _Numbered()
        self._shapes: _Numbered[tuple[Tensor, ...]] = _Numbered()
        room = _Room()
        self._operator_names, self._work_names = _Names(room), _Names(room)
        self._known_modules, self._known_functions = _Known(room), _Known(room)
        self._known_shapes, self._known_sites = _Known(room), _Known(room)
        self._operators = array("q")
        self._module_calls = array("q")
        self._replays = array("q")
        self._optimizer_calls = array("q")
        self._steps = array("q")
        self._frames = array("q")
        self._launches = array("q")
        self._allocations = array("q")
        self._work = array("q")
        self._flow_starts: dict[int, int] = {}
        self._flow_ends = array("q")
        self._read: dict[str, Callable[[dict[str, Any], int, int], None]] = {
            "cpu_op": self._operator,
            "user_annotation": self._annotation,
            "python_function": self._frame,
            "cuda_runtime": self._launch,
            "cuda_driver": self._launch,
            **dict.fromkeys(_KINDS, self._gpu_work),
        }

    def add(self, event: object) -> None:
        """Take one event; ValueError where there are too many."""
        try:
            if not isinstance(event, dict):
                raise _Damaged
            phase, category = event.get("ph"), event.get("cat")
            if phase == "X" and isinstance(category, str) and category in self._read:
                start = _ns(event.get("ts"))
                length = _ns(event.get("dur"))
                if not 0 <= length <= _LONGEST_NS:
                    raise _Damaged
                self._read[category](event, start, start + length)
            elif category == "fwdbwd" and phase in ("s", "f"):
                self._flow(event, start_of=phase == "s")
            else:
                return
        except _Damaged:
            self.damaged += 1
        self._kept += 1
        if self._kept > MAX_EVENTS:
            raise ValueError(say("file.many_events", most=f"{MAX_EVENTS:,}"))

    def _thread(self, event: dict[str, Any]) -> int:
        pid, tid = event.get("pid"), event.get("tid")
        if not (_is_thread(pid) and _is_thread(tid)):
            raise _Damaged
        return self._threads.number((pid, tid))

    def _operator(self, event: dict[str, Any], start: int, end: int) -> None:
        arguments = _arguments(event)
        self._operators.extend(
            (
                self._thread(event),
                start,
                end,
                self._operator_names.of(_name(event)),
                _whole(arguments.get("External id"), missing=-1),
                _whole(arguments.get("Sequence number"), missing=-1),
                _whole(arguments.get("Fwd thread id"), missing=0),
                self._inputs(arguments),
            )
        )

    def _inputs(self, arguments: dict[str, Any]) -> int:
        """The number of an operator's inputs; -1 where there are none, or none that make sense."""
        shapes, types = arguments.get("Input Dims"), arguments.get("Input type")
        strides = arguments.get("Input Strides")
        if not isinstance(shapes, list) or not isinstance(types, list) or len(shapes) != len(types):
            return -1
        if not isinstance(strides, list) or len(strides) != len(shapes):
            strides = [[]] * len(shapes)
        key = f"{shapes}{strides}{types}"
        found = self._known_shapes.get(key)
        if found is None:
            tensors = tuple(_tensors(shapes, strides, types))
            found = self._known_shapes.learn(key, self._shapes.number(tensors) if tensors else -1)
        return found

    def _annotation(self, event: dict[str, Any], start: int, end: int) -> None:
        name = _name(event)
        if name.startswith((_REPLAY, _REPLAY_AS_MODULE)):
            number = self._known_sites.get(name)
            if number is None:
                site = _site(name.split("|", 1 if name.startswith(_REPLAY) else 3)[-1])
                number = self._known_sites.learn(name, -1 if site is None else self._sites.number(site))
            self._replays.extend((self._thread(event), start, end, number))
        elif name.startswith(_MODULE):
            module = self._known_modules.get(name)
            if module is None:
                call = _module(name)
                self._take_path(call.path or f"({call.class_name})")
                module = self._known_modules.learn(name, self._modules.number(call))
            self._module_calls.extend((self._thread(event), start, end, module))
        elif name.startswith(_STEP):
            step = name[len(_STEP) :]
            if not (step.isascii() and step.isdigit() and len(step) <= 9):
                raise _Damaged
            self._steps.extend((self._thread(event), start, end, int(step)))
        elif name.startswith(_OPTIMIZER):
            self._optimizer_calls.extend((self._thread(event), start, end, -1))

    def _take_path(self, path: str) -> None:
        """Count *path* and those above it that are new; ValueError where there are too many."""
        while path not in self._paths:
            self._paths.add(path)
            path = path.rpartition(".")[0]
        if len(self._paths) > MAX_MODULES:
            raise ValueError(say("file.many_modules", most=f"{MAX_MODULES:,}"))

    def _frame(self, event: dict[str, Any], start: int, end: int) -> None:
        name = _name(event)
        number = self._known_functions.get(name)
        if number is None:
            found = _FRAME.fullmatch(name)
            number = -1
            if found is not None:  # no builtin, and nothing made up such as "<string>"
                file, function = (clean_text(found[part])[:MAX_NAME] for part in ("file", "name"))
                number = self._functions.number(Function(file, int(found["line"]), function))
            self._known_functions.learn(name, number)
        if number >= 0:
            self._frames.extend((self._thread(event), start, end, number))

    def _launch(self, event: dict[str, Any], start: int, end: int) -> None:
        correlation = _whole(_arguments(event).get("correlation"), missing=-1)
        name = _name(event)
        replay = "GraphLaunch" in name
        if (frees := _FREES.fullmatch(name) is not None) or _ALLOCATES.fullmatch(name):
            self._allocations.extend((self._thread(event), start, end, int(frees)))
        self._launches.extend((self._thread(event), start, end, correlation, replay))

    def _gpu_work(self, event: dict[str, Any], start: int, end: int) -> None:
        arguments = _arguments(event)
        self._work.extend(
            (
                start,
                end,
                self._work_names.of(_name(event)),
                WORK_KINDS.index(_KINDS[event["cat"]]),
                _whole(arguments.get("device"), missing=0),
                _whole(arguments.get("stream"), missing=-1),
                _whole(arguments.get("correlation"), missing=-1),
                _whole(arguments.get("External id"), missing=-1),
                _whole(arguments.get("graph node id"), missing=0) > 0,
            )
        )

    def _flow(self, event: dict[str, Any], *, start_of: bool) -> None:
        number = _whole(event.get("id"), missing=None)
        thread = self._thread(event)
        if start_of:
            self._flow_starts[number] = thread
        else:
            self._flow_ends.extend((number, thread, _ns(event.get("ts"))))

    def trace(self, *, base_ns: int | None, name: str) -> Trace:
        """All that was taken, its times from *base_ns* on."""
        base = 0 if base_ns is None else base_ns
        doubts = []
        if base_ns is None:
            doubts.append(say("file.no_base", name=name))
        if self.damaged:
            doubts.append(say("file.damaged_events", name=name, count=f"{self.damaged:,}"))
        for names, what in (
            (self._work_names, say("file.kernels")),
            (self._operator_names, say("file.operators")),
        ):
            if names.too_many:
                doubts.append(say("file.too_many_names", name=name, most=f"{MAX_NAMES:,}", what=what))
        rows = _table(self._operators, 8)
        order = np.lexsort((-rows[2], rows[1]))
        thread, start, end, what, external, sequence, forward_thread, inputs = rows[:, order]
        launches, work = _table(self._launches, 5), _table(self._work, 9)
        launches = launches[:, np.argsort(launches[1], kind="stable")]
        work = work[:, np.argsort(work[0], kind="stable")]
        return Trace(
            work=Work(
                start_ns=work[0] + base,
                end_ns=work[1] + base,
                name=work[2],
                kind=work[3],
                device=work[4],
                stream=work[5],
                correlation=work[6],
                external_id=work[7],
                replay=work[8].astype(bool),
                names=self._work_names.values(),
            ),
            launches=Launches(
                thread=launches[0],
                start_ns=launches[1] + base,
                end_ns=launches[2] + base,
                correlation=launches[3],
                replay=launches[4].astype(bool),
            ),
            operators=Operators(
                Spans(thread, start + base, end + base, what),
                external,
                sequence,
                forward_thread,
                inputs,
                names=self._operator_names.values(),
                shapes=self._shapes.values(),
            ),
            module_calls=_spans(self._module_calls, base),
            replays=_spans(self._replays, base),
            optimizer_calls=_spans(self._optimizer_calls, base),
            steps=_spans(self._steps, base),
            frames=_spans(self._frames, base),
            modules=self._modules.values(),
            sites=self._sites.values(),
            functions=self._functions.values(),
            forward_threads=self._forward_threads(),
            allocations=_spans(self._allocations, base),
            doubts=tuple(doubts),
        )

    def _forward_threads(self) -> dict[int, int]:
        """
        Autograd's number of a thread -> ours.

        Autograd numbers threads in a way of its own, which a trace shows only where a flow leads from the
        thread of a forward operator to a backward operator with that number. Of several the most frequent.
        """
        operators = _table(self._operators, 8)
        backward = operators[:, operators[6] > 0]
        number_at = {(t, s): n for t, s, n in zip(*backward[[0, 1, 6]].tolist(), strict=True)}
        votes: dict[int, Counter[int]] = {}
        for flow, thread, at in zip(*_table(self._flow_ends, 3).tolist(), strict=True):
            number, forward = number_at.get((thread, at)), self._flow_starts.get(flow)
            if number is not None and forward is not None:
                votes.setdefault(number, Counter())[forward] += 1
        return {number: min(found, key=lambda t: (-found[t], t)) for number, found in sorted(votes.items())}


def _spans(rows: array[int], base: int) -> Spans:
    thread, start, end, what = _table(rows, 4)
    return Spans.of(thread, start + base, end + base, what)


def _table(rows: array[int], width: int) -> IntArray:
    """Rows one after another as columns, shape (width, n)."""
    return np.array(rows, np.int64).reshape(-1, width).T


def _is_thread(value: object) -> bool:
    return (isinstance(value, int) and abs(value) < 2**63) or (
        isinstance(value, str) and len(value) <= MAX_THREAD
    )


def _arguments(event: dict[str, Any]) -> dict[str, Any]:
    found = event.get("args")
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _Damaged
    return found


def _name(event: dict[str, Any]) -> str:
    found = event.get("name")
    if not isinstance(found, str):
        raise _Damaged
    return found


def _module(name: str) -> ModuleCall:
    """The call that the name of a range tells of; what called it may be missing."""
    path, *rest = name[len(_MODULE) :].split("|", 2)
    if not rest or path.count(".") >= MAX_DEPTH or len(path) > MAX_PATH:
        raise _Damaged
    site = _site(rest[1]) if len(rest) > 1 else None
    return ModuleCall(clean_text(path), clean_text(rest[0])[:MAX_NAME], site)


def _site(text: str) -> Site | None:
    """The line that "file:line" tells of."""
    file, _, line = text.rpartition(":")
    if not (file and line.isascii() and line.isdigit() and len(line) <= 9):
        return None
    return Site(clean_text(file)[:MAX_NAME], int(line))


def _ns(us: object) -> int:
    """Microseconds as whole nanoseconds."""
    if isinstance(us, bool) or not isinstance(us, int | float) or not abs(us) < _FARTHEST_US:
        raise _Damaged  # the comparison is false for NaN too
    whole = math.floor(us)
    return whole * 1000 + round((us - whole) * 1000)


def _whole(value: object, *, missing: int | None) -> int:
    """A whole number that fits 64 bits and is not negative, or what stands for none."""
    if value is None and missing is not None:
        return missing
    if type(value) is not int or not -1 <= value < 2**63:
        raise _Damaged
    return value


def _tensors(shapes: list[Any], strides: list[Any], types: list[Any]) -> list[Tensor]:
    found: list[Tensor] = []
    for shape, stride, kind in zip(shapes, strides, types, strict=True):
        if not isinstance(kind, str) or kind in _NO_TENSOR:
            continue
        if kind == "TensorList":  # a list of lists; the type of its tensors is not recorded
            if isinstance(shape, list):
                several = (
                    stride if isinstance(stride, list) and len(stride) == len(shape) else [[]] * len(shape)
                )
                found += [
                    t for s, r in zip(shape[:MAX_TENSORS], several, strict=False) if (t := _tensor(s, r, ""))
                ]
        elif tensor := _tensor(shape, stride, clean_text(kind)[:MAX_NAME]):
            found.append(tensor)
    return found[:MAX_TENSORS]


def _tensor(shape: object, strides: object, dtype: str) -> Tensor | None:
    sizes, steps = _sizes(shape), _sizes(strides)
    if sizes is None:
        return None
    return Tensor(sizes, steps if steps is not None and len(steps) == len(sizes) else (), dtype)


def _sizes(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list) or len(value) > MAX_RANK:
        return None
    return tuple(value) if all(type(v) is int and 0 <= v < 2**62 for v in value) else None
