"""
The agent in programs without PyTorch: the machine code that CUPTI calls, and what becomes of its records.

CUPTI itself is a stand-in here, which fills buffers with records in the layouts of its headers.
"""

from __future__ import annotations

import ctypes
import glob
import gzip
import importlib.util
import io
import itertools
import mmap
import platform
import struct
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfzero.record import look as look_module
from perfzero.store.kineto import read_trace
from perfzero.traces import WORK_KINDS

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the machine code is for x86-64")


def loaded() -> Any:
    path = look_module.AGENT / "_perfzero_cupti.py"
    spec = importlib.util.spec_from_file_location("_perfzero_cupti", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cupti = loaded()

LENGTHS = {
    "12.6": {10: 208, 1: 88, 2: 88},
    "13.0": {10: 216, 1: 96, 2: 88},
    "13.5": {10: 248, 1: 112, 2: 104},
}
"""Bytes of a record of each kind: sizeof in cupti_activity.h of CUDA 12.6, 13.0 and 13.5."""

FIELDS = {
    10: {
        "kind": ("I", 0), "registersPerThread": ("H", 6), "start": ("Q", 16), "end": ("Q", 24),
        "deviceId": ("I", 40), "contextId": ("I", 44), "streamId": ("I", 48),
        "gridX": ("i", 52), "gridY": ("i", 56), "gridZ": ("i", 60),
        "blockX": ("i", 64), "blockY": ("i", 68), "blockZ": ("i", 72),
        "staticSharedMemory": ("i", 76), "dynamicSharedMemory": ("i", 80), "correlationId": ("I", 92),
        "name": ("Q", 104), "graphNodeId": ("Q", 144),
    },
    1: {
        "kind": ("I", 0), "copyKind": ("B", 4), "srcKind": ("B", 5), "dstKind": ("B", 6), "bytes": ("Q", 8),
        "start": ("Q", 16), "end": ("Q", 24), "deviceId": ("I", 32), "contextId": ("I", 36),
        "streamId": ("I", 40), "correlationId": ("I", 44), "graphNodeId": ("Q", 64),
    },
    2: {
        "kind": ("I", 0), "value": ("I", 4), "bytes": ("Q", 8), "start": ("Q", 16), "end": ("Q", 24),
        "deviceId": ("I", 32), "contextId": ("I", 36), "streamId": ("I", 40), "correlationId": ("I", 44),
        "memoryKind": ("H", 50), "graphNodeId": ("Q", 64),
    },
}  # fmt: skip
"""Where each field lies: offsetof in the same headers, in which these do not differ."""

NAMES = [ctypes.create_string_buffer(name) for name in (b"loop_fusion", b"_Z5saxpyifPfS_", b'gemm\n"x"')]


def record(kind: int, version: str = "13.0", **fields: int) -> bytes:
    made = bytearray(LENGTHS[version][kind])
    for name, value in {"kind": kind, **fields}.items():
        code, at = FIELDS[kind][name]
        struct.pack_into(f"={code}", made, at, value)
    return bytes(made)


REQUESTED = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)
COMPLETED = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


def request(pool: Any) -> tuple[int | None, int, int]:
    """What CUPTI gets when it asks for a buffer: its address, its size, and how many records it may hold."""
    buffer, size, most = ctypes.c_void_p(1), ctypes.c_size_t(2), ctypes.c_size_t(3)
    REQUESTED(pool.requested)(*(ctypes.addressof(value) for value in (buffer, size, most)))
    return buffer.value, size.value, most.value


def complete(pool: Any, buffer: int, valid: int) -> None:
    COMPLETED(pool.completed)(None, 0, buffer, 0, valid)


class StandIn:
    """CUPTI, and a GPU that does what *script* says: records at (ns after CUPTI was switched on)."""

    def __init__(self, script: list[bytes], *, version: str = "13.0", ahead_ns: int = 0) -> None:
        self.script, self.lengths = script, LENGTHS[version]
        self.version, self.ahead_ns = 130000, ahead_ns
        self.calls: list[str] = []
        self.lost = 0
        self.free = self.leaves = True
        self.held: list[bytes] = []
        """The records of a buffer that comes back by force only."""

    def claim(self, pool: Any) -> bool:
        self._pool = pool
        return self.free

    def let_go(self) -> None:
        self.let_go_at = len(self.calls)

    def now_ns(self) -> int:
        return time.time_ns() + self.ahead_ns

    def start(self, pool: Any) -> None:
        self.calls.append("start")
        self._pool, self.on_ns = pool, self.now_ns()

    def stop(self) -> None:
        self.calls.append("stop")

    def leave(self, _: Any) -> bool:
        self.calls.append("leave")
        return self.leaves

    def flush(self, *, forced: bool = False) -> None:
        if not self.script and not (forced and self.held):
            return
        self.calls.append("flush")
        left, self.script = self.script, []
        if forced:
            left, self.held = left + self.held, []
        while left:
            buffer, size, _ = request(self._pool)
            if buffer is None:
                self.lost += len(left)
                return
            at = buffer
            while left and at + len(left[0]) <= buffer + size:
                data = bytearray(left.pop(0))
                for place in (16, 24):
                    ns = struct.unpack_from("=Q", data, place)[0]
                    struct.pack_into("=Q", data, place, ns + self.on_ns if ns else 0)
                ctypes.memmove(at, bytes(data), len(data))
                at += len(data)
            complete(self._pool, buffer, at - buffer)

    def dropped(self) -> int:
        return self.lost

    def next_record(self, buffer: int, size: int, at: int | None) -> int | None:
        if at is None:
            return buffer
        at += self.lengths[ctypes.c_uint32.from_address(at).value]
        is_one = at < buffer + size and ctypes.c_uint32.from_address(at).value
        return at if is_one else None


def kernel(number: int, at_us: float, length_us: float = 5.0, version: str = "13.0", **other: int) -> bytes:
    """Kernel of that name, by its number, on stream 7."""
    fields = {
        "start": int(at_us * 1000), "end": int((at_us + length_us) * 1000), "streamId": 7, "contextId": 1,
        "name": ctypes.addressof(NAMES[number]), "gridX": 4, "gridY": 2, "gridZ": 1,
        "blockX": 128, "blockY": 1, "blockZ": 1,
    }  # fmt: skip
    return record(10, version, **{**fields, **other})


@pytest.fixture(autouse=True)
def stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "STRETCH_S", 0.05)
    monkeypatch.setattr(cupti, "RUNNING_S", 0.05)


def traced(stand_in: StandIn, pool: Any, seconds: float = 0.05) -> tuple[Any, list[Any], int]:
    """A stretch with *stand_in* for CUPTI, what it has collected, and when it began."""
    made = cupti.Stretch(stand_in, pool)
    made.prepare()
    begun_ns = made.begin()
    time.sleep(seconds)
    made.end()
    return made, made.collect(), begun_ns


# --- the machine code ---


def test_each_buffer_is_handed_out_once_also_to_threads_that_ask_at_once() -> None:
    """Eight threads, 40 requests each, 200 buffers: all of them, each once, then none."""
    pool = cupti.Pool(buffers=200, size=256)
    pool.open()
    got: list[list[tuple[int | None, int, int]]] = [[] for _ in range(8)]
    together = threading.Barrier(8)

    def ask(into: list[tuple[int | None, int, int]]) -> None:
        together.wait()
        into.extend(request(pool) for _ in range(40))

    threads = [threading.Thread(target=ask, args=(into,)) for into in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = [answer for into in got for answer in into]
    given = sorted(buffer for buffer, _, _ in every if buffer is not None)

    assert len(given) == 200
    assert [b - a for a, b in itertools.pairwise(given)] == [256] * 199
    assert {answer[1:] for answer in every if answer[0] is not None} == {(256, 0)}
    assert {answer for answer in every if answer[0] is None} == {(None, 0, 0)}
    assert pool.taken == 200


MANY_TIMES = (
    b"\x53\x41\x54\x41\x55"  # push  rbx; push r12; push r13
    b"\x48\x89\xfb"  # mov   rbx, rdi
    b"\x49\x89\xf4"  # mov   r12, rsi
    b"\x49\x89\xd5"  # mov   r13, rdx
    b"\x4c\x89\xe7"  # again: mov rdi, r12
    b"\x49\x8d\x74\x24\x08"  # lea   rsi, [r12 + 8]
    b"\x49\x8d\x54\x24\x10"  # lea   rdx, [r12 + 16]
    b"\xff\xd3"  # call  rbx
    b"\x49\xff\xcd"  # dec   r13
    b"\x75\xec"  # jnz   again
    b"\x41\x5d\x41\x5c\x5b\xc3"  # pop r13; pop r12; pop rbx; ret
)
"""void many_times(void requested(...), void *three, long times)"""


def test_two_threads_that_ask_all_the_time_take_a_buffer_with_each_request() -> None:
    """Without anything of Python between two requests: four million each, at once."""
    pool = cupti.Pool(buffers=10_000_000, size=8)
    pool.open()
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(MANY_TIMES)
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    many_times = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)(address)
    answers = [(ctypes.c_uint64 * 3)() for _ in range(2)]
    threads = [
        threading.Thread(target=many_times, args=(pool.requested, ctypes.addressof(answer), 4_000_000))
        for answer in answers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert pool.taken == 8_000_000


def test_what_comes_back_is_known_with_its_size_and_nothing_else_is_written() -> None:
    pool = cupti.Pool(buffers=3, size=4096)
    pool.open()
    first, second, third = (request(pool)[0] for _ in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    for stranger in (first - 1, third + 4096, 0, 2**64 - 1):
        complete(pool, stranger, 5)
    assert pool.returned() == []

    complete(pool, third, 4096)
    complete(pool, first, 0)
    assert pool.returned() == [(first, 0), (third, 4096)]


def test_a_pool_that_is_closed_gives_nothing_and_its_memory_back_once_all_has_returned() -> None:
    pool = cupti.Pool(buffers=2, size=4096)
    assert request(pool) == (None, 0, 0)  # not open yet
    pool.open()
    one, two = request(pool)[0], request(pool)[0]
    assert one is not None
    assert two is not None
    for buffer in (one, two):
        ctypes.memset(buffer, 7, 4096)
    complete(pool, one, 8)
    pool.close()
    assert request(pool) == (None, 0, 0)
    pool.forget()
    assert ctypes.string_at(two, 1) == b"\7"  # CUPTI may still write there

    complete(pool, two, 8)
    pool.forget()
    assert ctypes.string_at(one, 1) + ctypes.string_at(two, 1) == b"\0\0"


CALLED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)


@pytest.mark.parametrize("result", [0, 999])
def test_cupti_is_taken_out_at_the_end_of_a_call_and_only_once(result: int) -> None:
    """Not at its beginning; what cuptiFinalize has returned is known afterwards."""
    called: list[tuple[bool, int | None]] = []

    def finalize() -> int:
        called.append((pool.is_leaving, pool.result))
        return result

    made = ctypes.CFUNCTYPE(ctypes.c_int)(finalize)
    pool = cupti.Pool(buffers=1, size=64)
    pool.leave_by(ctypes.cast(made, ctypes.c_void_p).value)
    enter, leave = ctypes.c_uint32(0), ctypes.c_uint32(1)
    seen = []
    for site in (enter, leave, enter, leave):
        CALLED(pool.called)(pool.state, 1, 2, ctypes.addressof(site))
        seen.append((len(called), pool.is_leaving, pool.result))

    assert seen == [(0, False, None), (1, True, result), (1, True, result), (1, True, result)]
    assert called == [(True, None)]
    assert not pool.has_graphs


def test_a_graph_of_which_cupti_tells_is_noted_and_takes_nothing_out() -> None:
    """What it is told with is no call of CUDA: there is no end of one in it."""
    pool = cupti.Pool(buffers=2, size=64)
    pool.open()
    assert not pool.has_graphs
    CALLED(pool.called)(pool.state, 3, 18, None)
    first = request(pool)[0]
    assert first is not None
    complete(pool, first, 7)

    assert (pool.has_graphs, pool.is_leaving, pool.result) == (True, False, None)
    assert pool.returned() == [(first, 7)]


def test_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti.os, "uname", lambda: SimpleNamespace(machine="aarch64"))
    with pytest.raises(cupti.Refused, match="x86-64"):
        cupti.Pool()


def test_a_system_that_runs_no_new_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    libc = SimpleNamespace(mmap=ctypes.CDLL(None).mmap, mprotect=lambda *_: -1, madvise=lambda *_: 0)
    for name in ("mprotect", "madvise"):
        setattr(libc, name, Callable(getattr(libc, name)))
    monkeypatch.setattr(cupti.ctypes, "CDLL", lambda *_, **__: libc)
    with pytest.raises(cupti.Refused, match="lets nobody run new code"):
        cupti.Pool()


class Callable:
    """A function to which types of its arguments can be given, as to one of ctypes."""

    def __init__(self, does: Any) -> None:
        self._does = does

    def __call__(self, *arguments: Any) -> Any:
        return self._does(*arguments)


# --- the library ---


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Packages with the libcupti of CUDA 12 and of 13, the only ones; the process has a driver of CUDA 13."""
    for name in ("nvidia/cu13/lib/libcupti.so.13", "nvidia/cuda_cupti/lib/libcupti.so.12"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    found: Any = glob.glob
    monkeypatch.setattr(cupti.glob, "glob", lambda name: found(name) if str(tmp_path) in name else [])
    monkeypatch.setattr(sys, "path", ["", tmp_path, *sys.path, str(tmp_path)])
    monkeypatch.setattr(cupti, "Cupti", lambda path: path)
    return tmp_path


@pytest.mark.parametrize(
    ("driver", "loaded", "expected"),
    [
        (13, ["/usr/lib/libcudart.so.12.8.90"], "libcupti.so.12"),  # that of the program's CUDA
        (13, ["/usr/lib/libcudart.so.13"], "libcupti.so.13"),
        (13, [], "libcupti.so.13"),
        (12, [], "libcupti.so.12"),  # none that is newer than the driver
        (13, ["/usr/lib/libcudart.so.13", "/opt/libcupti.so.2025.1.1"], "/opt/libcupti.so.2025.1.1"),
    ],
)
def test_the_libcupti_that_is_loaded_is_taken_or_that_of_the_programs_cuda(
    libraries: Path, monkeypatch: pytest.MonkeyPatch, driver: int, loaded: list[str], expected: str
) -> None:
    monkeypatch.setattr(cupti, "_driver_major", lambda: driver)
    monkeypatch.setattr(cupti, "mapped", lambda name: iter([path for path in loaded if name in path]))

    assert str(cupti.find_cupti()).endswith(expected)
    assert libraries.is_dir()


def test_without_a_libcupti_or_a_driver_it_is_said_what_to_do(
    libraries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cupti, "mapped", lambda _: iter([]))  # so there is no driver either
    with pytest.raises(cupti.Refused, match="pip install nvidia-cuda-cupti"):
        cupti.find_cupti()
    assert libraries.is_dir()


def test_what_the_process_has_loaded_is_told_once_each() -> None:
    """libc is mapped in several parts."""
    found = list(cupti.mapped("libc.so"))

    assert len(found) == 1
    assert Path(found[0]).is_file()
    assert list(cupti.mapped("libno.so")) == []


class Library:
    """Functions of libcupti and libcuda that say 0, or what *says* has for them; `did` is what was called."""

    def __init__(self, **says: Any) -> None:
        self.did: list[tuple[Any, ...]] = []
        self._says = says
        self.cuptiFinalize = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)

    def __getattr__(self, name: str) -> Any:
        def function(*arguments: Any) -> int:
            self.did.append((name, *(a for a in arguments if isinstance(a, int))))
            says = self._says.get(name, 0)
            return int(says() or 0) if callable(says) else says

        return function


def library(version: int = 130001, **says: Any) -> tuple[Any, Library]:
    made, calls = object.__new__(cupti.Cupti), Library(**says)
    made.library = made._driver = calls
    made.version, made._handle = version, None
    return made, calls


@pytest.mark.parametrize(
    ("version", "graphs"), [(24, [13, 18, 20]), (130001, [13, 18, 20, 22, 23])], ids=["12.6", "13.0"]
)
def test_cupti_is_ours_from_the_beginning_to_the_end_and_tells_of_graphs(
    version: int, graphs: list[int]
) -> None:
    """So nobody else subscribes meanwhile, whose callbacks would get our buffers."""
    made, calls = library(version)
    assert made.claim(cupti.Pool(buffers=1, size=64))
    made.start(cupti.Pool(buffers=1, size=64))
    assert "cuptiUnsubscribe" not in [name for name, *_ in calls.did]
    made.let_go()
    made.let_go()

    names = [name for name, *_ in calls.did]
    assert [told for name, *told in calls.did if name == "cuptiEnableCallback"] == [
        [1, 3, graph] for graph in graphs
    ]
    assert names.count("cuptiUnsubscribe") == 1
    # Threads share buffers, which must be said before all else.
    assert ("cuptiActivitySetAttribute", 9) in calls.did
    assert names.index("cuptiActivitySetAttribute") < names.index("cuptiActivityRegisterCallbacks")


@pytest.mark.parametrize("says", [12, 39])
def test_a_cupti_that_has_a_subscriber_is_not_ours(says: int) -> None:
    made, calls = library(cuptiSubscribe=says)
    assert not made.claim(cupti.Pool(buffers=1, size=64))
    made.let_go()
    assert calls.did == [("cuptiSubscribe",)]


@pytest.mark.parametrize("result", [0, 999])
def test_a_cupti_that_could_not_be_taken_out_is_left_to_others(result: int) -> None:
    """One that is out has no subscriber any more."""
    pool, site = cupti.Pool(buffers=1, size=64), ctypes.c_uint32(1)
    made, calls = library(
        cuDriverGetVersion=lambda: CALLED(pool.called)(pool.state, 1, 2, ctypes.addressof(site))
    )
    calls.cuptiFinalize = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: result)
    assert made.claim(pool)
    left = made.leave(pool)
    made.let_go()

    assert left is (result == 0)
    assert ("cuptiUnsubscribe" in [name for name, *_ in calls.did]) is (result != 0)


def test_who_comes_while_another_thread_takes_cupti_out_waits_for_that() -> None:
    pool, site = cupti.Pool(buffers=1, size=64), ctypes.c_uint32(1)
    began = threading.Event()

    def finalize() -> int:
        began.set()
        time.sleep(0.1)
        return 0

    call = lambda: CALLED(pool.called)(pool.state, 1, 2, ctypes.addressof(site))  # noqa: E731
    theirs = threading.Thread(target=call)

    def version() -> None:
        theirs.start()
        began.wait()
        call()

    made, calls = library(cuDriverGetVersion=version)
    calls.cuptiFinalize = ctypes.CFUNCTYPE(ctypes.c_int)(finalize)
    assert made.claim(pool)
    assert made.leave(pool)
    theirs.join()
    made.let_go()
    assert "cuptiUnsubscribe" not in [name for name, *_ in calls.did]


def test_one_that_hangs_in_it_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "LEAVE_WITHIN_S", 0.02)
    pool = cupti.Pool(buffers=1, size=64)
    made, calls = library(cuDriverGetVersion=lambda: setattr(pool._word(cupti._LEAVING), "value", 1))
    assert made.claim(pool)
    assert not made.leave(pool)
    made.let_go()
    assert "cuptiUnsubscribe" not in [name for name, *_ in calls.did]


@pytest.mark.parametrize("result", [0, 3, 100])
def test_a_program_that_has_not_begun_to_use_cuda_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, result: int
) -> None:
    """A child that it forks later could not use CUDA any more, had CUPTI begun in it."""
    driver = SimpleNamespace(cuDeviceGetCount=lambda _: result, cuDriverGetVersion=lambda _: 1)
    monkeypatch.setattr(cupti.ctypes, "CDLL", lambda *_: driver)
    monkeypatch.setattr(cupti, "mapped", lambda name: iter(["/x/libcuda.so.1"] if "cuda.so" in name else []))
    with pytest.raises(cupti.Refused, match="not used it yet" if result == 3 else "no libcupti is found"):
        cupti.find_cupti()


# --- records ---


@pytest.mark.parametrize("version", LENGTHS)
def test_records_of_each_version_become_a_trace_as_of_pytorchs_profiler(version: str, tmp_path: Path) -> None:
    """Names, kinds, streams, graphs and times; what had not ended is left out."""
    on = {"contextId": 1, "streamId": 9}
    script = [
        kernel(0, 20_000.001, version=version, correlationId=11, registersPerThread=42, staticSharedMemory=16,
               dynamicSharedMemory=1024),
        kernel(2, 22_000, version=version, correlationId=12, graphNodeId=77),
        record(1, version, start=20_500_000, end=20_600_000, copyKind=2, srcKind=3, dstKind=2, bytes=9, **on),
        record(2, version, start=20_700_000, end=20_700_500, memoryKind=3, bytes=8, **on),
        kernel(0, 25_000, version=version, end=0),
    ]  # fmt: skip
    made, found, begun_ns = traced(StandIn(script, version=version), cupti.Pool())
    with open(tmp_path / "trace", "w") as file:
        cupti.write(found, made, base_ns=begun_ns, to=file, rest_s=0)
    text = (tmp_path / "trace").read_text()
    (tmp_path / "trace.gz").write_bytes(gzip.compress(text.encode()))
    trace = read_trace(tmp_path / "trace.gz")
    work = trace.work

    assert trace.doubts == ()
    assert [work.names[n] for n in work.name] == [
        "loop_fusion", "Memcpy DtoH (Device -> Pinned)", "Memset (Device)", "gemm\n\"x\"",
    ]  # fmt: skip
    assert [WORK_KINDS[k] for k in work.kind] == ["kernel", "memcpy", "memset", "kernel"]
    assert work.stream.tolist() == [7, 9, 9, 7]
    assert work.replay.tolist() == [False, False, False, True]
    assert (work.start_ns - work.start_ns[0]).tolist() == pytest.approx(
        [0, 499_999, 699_999, 1_999_999], abs=1
    )
    assert (work.end_ns - work.start_ns).tolist() == [5000, 100_000, 500, 5000]
    for told in (
        '"registers per thread": 42',
        '"shared memory": 1040',
        '"grid": [4, 2, 1]',
        '"block": [128, 1, 1]',
    ):
        assert told in text


def test_times_of_a_clock_that_is_another_are_unix_times_in_the_trace() -> None:
    """CUPTI counts from elsewhere: a kernel 20 ms after it was switched on is there in Unix time, too."""
    stand_in = StandIn([kernel(0, 20_000)], ahead_ns=-(10**18))
    made, found, _ = traced(stand_in, cupti.Pool())
    on_ns = stand_in.on_ns + 10**18

    assert abs(made.unix_ns(found[0].start_ns) - (on_ns + 20_000_000)) < 50_000


def test_only_what_ran_in_the_stretch_is_kept() -> None:
    """One ends before it begins, one crosses its end, one comes after."""
    pool = cupti.Pool()
    stand_in = StandIn([kernel(0, 0, 1.0), kernel(1, 5_000, 1e6), kernel(2, 500_000, 1.0)])
    made = cupti.Stretch(stand_in, pool)
    made.prepare()
    time.sleep(0.002)
    made.begin()
    time.sleep(0.03)
    made.end()

    assert [record.told()[1] for record in made.collect()] == [ctypes.addressof(NAMES[1])]
    assert stand_in.calls == ["start", "stop", "flush"]


def test_what_several_threads_have_launched_is_put_in_order() -> None:
    script = [kernel(0, at_us, 1.0) for at_us in (24_000, 20_000, 22_000)]
    _, found, _ = traced(StandIn(script), cupti.Pool())

    assert [record.start_ns - found[0].start_ns for record in found] == [0, 2_000_000, 4_000_000]


def test_room_behind_the_last_record_of_a_buffer_is_not_taken_for_its_length() -> None:
    """The first buffer has one kernel and room for a half; the second has three."""
    pool, stand_in = cupti.Pool(), StandIn([])
    pool.open()
    for many, room in ((1, 100), (3, 0)):
        buffer, _, _ = request(pool)
        assert buffer is not None
        data = kernel(0, 1) * many
        ctypes.memmove(buffer, data, len(data))
        complete(pool, buffer, len(data) + room)

    assert len(list(cupti.records(stand_in, pool.returned()))) == 4


def test_many_records_fill_several_buffers_and_none_is_lost() -> None:
    script = [kernel(n % 3, 20_000 + n, 0.5) for n in range(5000)]
    made, found, _ = traced(StandIn(script), cupti.Pool(buffers=32, size=1 << 16))
    made.give_back()

    assert [record.start_ns - found[0].start_ns for record in found] == [1000 * n for n in range(5000)]


def test_records_that_found_no_room_are_no_trace() -> None:
    script = [kernel(n % 3, 1 + n, 0.5) for n in range(5000)]
    with pytest.raises(cupti.Refused, match=r"dropped [0-9]+ of its records"):
        traced(StandIn(script), cupti.Pool(buffers=2, size=1 << 16))


def test_records_whose_times_cannot_be_are_not_understood() -> None:
    """As where their layout is another one: no name is read of them."""
    script = [kernel(0, 10**9, name=3) for _ in range(5)]
    with pytest.raises(cupti.Refused, match="are not understood"):
        traced(StandIn(script), cupti.Pool())


def test_a_name_that_is_not_there_is_no_crash() -> None:
    memory = cupti.Memory()
    assert [memory.text(address) for address in (0, 3, 2**63, 2**64 - 1)] == [""] * 4
    assert memory.text(ctypes.addressof(NAMES[0])) == "loop_fusion"
    memory.close()


def test_names_of_cpp_are_made_readable_where_the_process_can() -> None:
    ctypes.CDLL("libstdc++.so.6")
    readable = cupti.demangler()
    assert [readable(name) for name in ("_Z5saxpyifPfS_", "_Zwhat", "loop_fusion")] == [
        "saxpy(int, float, float*, float*)", "_Zwhat", "loop_fusion",
    ]  # fmt: skip


# --- the conversation ---


class Recorder:
    """What says the right word at once, and hears all; *says* has other words instead, or none ("")."""

    def __init__(self, **says: str) -> None:
        self.told: list[dict[str, Any]] = []
        self.over = False
        self._says = {"found": "prepare", "ready": "go", **says}

    def tell(self, **said: Any) -> None:
        self.told.append(said)
        if self._says.get(next(iter(said))) == "gone":
            self.over = True

    def hear(self, *, wait: bool) -> dict[str, Any] | None:
        word = self._says.pop(next(iter(self.told[-1]), ""), "")
        return {word: {}} if word else None


def looked(
    monkeypatch: pytest.MonkeyPatch,
    stand_in: StandIn,
    to: Path,
    recorder: Recorder | None = None,
    **asked: Any,
) -> tuple[Recorder, dict[str, Any]]:
    monkeypatch.setattr(cupti, "find_cupti", lambda: stand_in)
    recorder = recorder or Recorder()
    return recorder, cupti.Look({"steps": 3, **asked}, recorder, to=str(to)).take()


def test_a_look_says_what_the_recorder_waits_for_and_leaves_a_trace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_in = StandIn([kernel(n % 3, 20_000 + 10 * n) for n in range(200)])
    recorder, said = looked(monkeypatch, stand_in, tmp_path / "trace")
    told = said["looked"]

    assert recorder.told == [{"found": {"step_s": 0.05, "steps": 1}}, {"ready": {}}, {"traced": {}}]
    assert request(stand_in._pool) == (None, 0, 0)  # whoever asks later gets no buffer
    assert stand_in.calls == ["start", "stop", "flush", "leave"]
    assert told["at_ns"][1] - told["at_ns"][0] == pytest.approx(50e6, rel=0.5)
    assert 0 < told["cost_s"] < 1
    assert (tmp_path / "trace").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "trace").read_text().count('"cat": "kernel"') == 200


@pytest.mark.parametrize(
    ("period_s", "step_s", "steps"),
    [(0.0, 0.05, 1), (0.01, 0.01, 5), (0.001, 0.00125, 40), (0.1, 0.1, 4), (0.8, 1.0, 2), (9.0, 2.0, 1)],
)
def test_a_stretch_holds_the_steps_that_are_wanted_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, period_s: float, step_s: float, steps: int
) -> None:
    """Three steps and a part of one, but never less than STRETCH_S nor more than two seconds; 40 at most."""
    recorder, asked = Recorder(found="gone"), {"period_s": period_s, "most_steps": 40}
    looked(monkeypatch, StandIn([]), tmp_path / "trace", recorder, **asked)

    assert recorder.told == [{"found": {"step_s": pytest.approx(step_s), "steps": steps}}]


def test_a_trace_that_would_be_too_large_is_cut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cupti, "MOST_RECORDS", 50)
    stand_in = StandIn([kernel(n % 3, 20_000 + 10 * n) for n in range(200)])
    _, said = looked(monkeypatch, stand_in, tmp_path / "trace")
    text = (tmp_path / "trace").read_text()

    assert text.count('"cat": "kernel"') == 50
    assert said["looked"]["at_ns"][1] == pytest.approx(stand_in.on_ns + 20_500_000, abs=100_000)


def test_a_stretch_ends_before_the_buffers_are_used_up() -> None:
    pool = cupti.Pool(buffers=64, size=64)
    made = cupti.Stretch(StandIn([]), pool)
    made.prepare()
    for _ in range(47):
        request(pool)
    assert not made.is_full
    request(pool)
    assert made.is_full


@pytest.mark.parametrize(
    ("says", "why", "calls"),
    [
        ({"found": "gone"}, "the recorder has gone", ["leave"]),
        ({"ready": "gone"}, "the recorder has gone", ["start", "stop", "flush", "leave"]),
        ({"ready": ""}, "the recorder was not ready in time", ["start", "stop", "flush", "leave"]),
    ],
)
def test_a_recorder_that_goes_or_is_not_ready_has_cupti_taken_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: dict[str, str], why: str, calls: list[str]
) -> None:
    monkeypatch.setattr(cupti, "GO_WITHIN_S", 0.05)
    stand_in = StandIn([kernel(0, 1000)])
    _, said = looked(monkeypatch, stand_in, tmp_path / "trace", Recorder(**says))

    assert said == {"refused": why}
    assert stand_in.calls == calls
    assert not (tmp_path / "trace").exists()


def test_cupti_that_stays_in_the_program_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in = StandIn([kernel(n % 3, 20_000 + 10 * n) for n in range(200)])
    stand_in.leaves = False
    _, said = looked(monkeypatch, stand_in, tmp_path / "trace")

    assert sorted(said) == ["looked", "stays"]


@pytest.mark.parametrize("says", [{}, {"ready": "gone"}], ids=["traced", "given-up"])
@pytest.mark.parametrize("kind", [10, 1, 2], ids=["kernel", "copy", "set"])
def test_cupti_is_left_in_where_a_graph_was_replayed_for_without_it_the_next_replay_ends_the_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: int, says: dict[str, str]
) -> None:
    """JAX on an H200, 2026-11-30: an illegal access of memory, three of three times."""
    script = [kernel(n % 3, 20_000 + 10 * n) for n in range(50)]
    name = {"name": ctypes.addressof(NAMES[0])} if kind == 10 else {}
    replayed = record(kind, start=30_000_000, end=30_005_000, streamId=7, graphNodeId=7, **name)
    stand_in = StandIn([*script, replayed])
    _, said = looked(monkeypatch, stand_in, tmp_path / "trace", Recorder(**says))

    assert said["stays"] is True
    assert "leave" not in stand_in.calls


ENDED = [kernel(0, 20_000 + 10 * n) for n in range(5)]


@pytest.mark.parametrize(
    ("script", "held", "out", "leaves"),
    [
        (ENDED, [], False, True),
        ([*ENDED, kernel(0, 0, 0)], [], False, False),
        ([*ENDED, kernel(0, 20_000, -20_000)], [], False, False),
        (ENDED, ENDED, False, False),
        (ENDED, [], True, False),
    ],
    ids=["all", "not-begun", "not-ended", "by-force", "kept"],
)
def test_cupti_is_left_in_where_not_all_was_seen_for_it_may_be_of_a_graph(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: Any, held: Any, *, out: bool, leaves: bool
) -> None:
    """What has not begun or ended, a buffer that came back by force, and one that did not."""
    stand_in = StandIn(list(script))
    stand_in.held = list(held)
    if out:
        monkeypatch.setattr(stand_in, "stop", lambda: request(stand_in._pool))
    _, said = looked(monkeypatch, stand_in, tmp_path / "trace")

    assert ("stays" in said, "leave" in stand_in.calls) == (not leaves, leaves)


def test_an_empty_buffer_that_comes_back_by_force_does_not_matter() -> None:
    pool, stand_in = cupti.Pool(), StandIn(list(ENDED))
    kept: list[int | None] = []
    plain = stand_in.flush

    def flush(*, forced: bool = False) -> None:
        plain(forced=forced)
        if forced and kept and kept[0]:
            complete(pool, kept.pop() or 0, 0)

    stand_in.flush = flush  # type: ignore[method-assign]
    made = cupti.Stretch(stand_in, pool)
    made.prepare()
    made.begin()
    time.sleep(0.05)
    made.end()
    kept.append(request(pool)[0])
    made.collect()
    assert made.give_back()


def test_cupti_is_left_in_where_a_graph_was_made_meanwhile_though_none_was_replayed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """CuPy captures one in the stretch, and replays it later."""
    stand_in = StandIn(list(ENDED))
    monkeypatch.setattr(
        stand_in, "stop", lambda: CALLED(stand_in._pool.called)(stand_in._pool.state, 3, 13, None)
    )
    _, said = looked(monkeypatch, stand_in, tmp_path / "trace")

    assert said["stays"] is True
    assert "leave" not in stand_in.calls


def test_full_buffers_alone_leave_nothing_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """48 threads that launch a kernel each take as many, where CUPTI has buffers by thread."""
    stand_in = StandIn(list(ENDED))
    monkeypatch.setattr(cupti.Stretch, "is_full", True)
    _, said = looked(monkeypatch, stand_in, tmp_path / "trace")

    assert said == {"refused": "nothing ran on its GPU meanwhile"}  # so short was the stretch
    assert stand_in.calls == ["start", "stop", "flush", "leave"]


def test_kernels_that_still_run_are_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CUPTI returns their buffer when they have ended: then CUPTI leaves."""
    monkeypatch.setattr(cupti, "RUNNING_S", 5.0)
    stand_in = StandIn(list(ENDED))
    plain, until = stand_in.flush, time.monotonic() + 0.4

    def flush(*, forced: bool = False) -> None:
        if stand_in.script and "stop" in stand_in.calls and not hasattr(stand_in, "buffer"):
            stand_in.buffer = request(stand_in._pool)[0]  # type: ignore[attr-defined]
        if time.monotonic() > until:
            complete(stand_in._pool, stand_in.buffer, 0)  # type: ignore[attr-defined]
            plain(forced=forced)

    stand_in.flush = flush  # type: ignore[method-assign]
    _, said = looked(monkeypatch, stand_in, tmp_path / "trace")
    assert list(said) == ["looked"]


def test_what_reading_the_records_takes_is_told_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The program's threads want the GIL meanwhile."""

    def busy(seconds: float) -> int:
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass
        return 0

    stand_in = StandIn(list(ENDED))
    monkeypatch.setattr(stand_in, "dropped", lambda: busy(0.2))
    _, said = looked(monkeypatch, stand_in, tmp_path / "trace")

    assert 0.2 < said["looked"]["cost_s"] < 0.3


def test_a_stretch_ends_when_as_much_has_come_back_as_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "MOST_RECORDS", 4)
    pool = cupti.Pool(buffers=64, size=1024)
    made = cupti.Stretch(StandIn([]), pool)
    made.prepare()
    first, second = request(pool)[0], request(pool)[0]
    assert first is not None
    assert second is not None
    complete(pool, first, 900)
    assert not made.is_full
    complete(pool, second, 92)
    assert made.is_full


@pytest.mark.parametrize(
    ("flags", "makes"),
    [
        ("", True),
        ("--xla_gpu_enable_command_buffer=FUSION", True),
        ("--xla_gpu_enable_command_buffer=", False),
        ("--xla_dump_to=x --xla_gpu_enable_command_buffer=''", False),
        ("--xla_gpu_enable_command_buffer= --xla_gpu_enable_command_buffer=FUSION", True),
    ],
)
def test_jax_makes_graphs_unless_it_is_told_not_to(
    monkeypatch: pytest.MonkeyPatch, flags: str, *, makes: bool
) -> None:
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert not cupti.makes_graphs()
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace())

    assert cupti.makes_graphs() is makes


def test_a_gpu_on_which_nothing_ran_has_no_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, said = looked(monkeypatch, StandIn([]), tmp_path / "trace")
    assert said == {"refused": "nothing ran on its GPU meanwhile"}


def test_cupti_in_another_tools_hands_is_left_to_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in = StandIn([kernel(0, 1000)])
    stand_in.free = False
    recorder, said = looked(monkeypatch, stand_in, tmp_path / "trace")

    assert said == {"refused": "another tool has CUPTI in it"}
    assert (recorder.told, stand_in.calls) == ([], [])


@pytest.mark.parametrize(("name", "value"), [("profile_session", object()), ("server", object())])
def test_a_program_that_profiles_itself_with_jax_or_lets_others_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    jax: Any = SimpleNamespace(_profile_state=SimpleNamespace(profile_session=None), _profiler_server=None)
    monkeypatch.setitem(sys.modules, "jax._src.profiler", jax)
    assert cupti.refusal() == ""
    if name == "server":
        jax._profiler_server = value
        assert "may profile it at any time" in cupti.refusal()
    else:
        jax._profile_state.profile_session = value
        assert cupti.refusal() == "the program profiles itself"


@pytest.mark.parametrize("name", ["cupti", "nvrx_cupti_module"])
def test_a_program_that_uses_cupti_itself_is_left_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    assert cupti.refusal() == f"it uses CUPTI itself (its module {name})"


def modules(begin: Any) -> dict[str, Any]:
    """What profiles a program: in each, *begin* is called last."""
    profile: Any = type("profile", (), {"_prepare_trace": lambda _: begin()})
    return {
        "jax._src.profiler": SimpleNamespace(
            _profiler=SimpleNamespace(ProfilerSession=lambda _: begin(), start_server=lambda _: begin())
        ),
        "jax._src.lib.mosaic_gpu": SimpleNamespace(_mosaic_gpu_ext=SimpleNamespace(_cupti_init=begin)),
        "torch.autograd.profiler": SimpleNamespace(profile=profile),
    }


WAYS = {
    "session": lambda m: m["jax._src.profiler"]._profiler.ProfilerSession(0),
    "server": lambda m: m["jax._src.profiler"]._profiler.start_server(0),
    "mosaic": lambda m: m["jax._src.lib.mosaic_gpu"]._mosaic_gpu_ext._cupti_init(),
    "torch": lambda m: m["torch.autograd.profiler"].profile()._prepare_trace(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("when", ["start", "stop"])
def test_a_look_makes_way_for_the_programs_own_profiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str, when: str
) -> None:
    """Theirs begins when CUPTI is out, and nothing of ours is left around it."""
    stand_in, began = StandIn(list(ENDED)), threading.Event()
    monkeypatch.setattr(cupti, "STRETCH_S", 5.0 if when == "start" else 0.05)
    monkeypatch.setattr(cupti, "RUNNING_S", 0.05 if when == "start" else 5.0)
    at: list[int] = []
    found = modules(lambda: at.append(len(stand_in.calls)))
    for name, module in found.items():
        monkeypatch.setitem(sys.modules, name, module)
    before = [getattr(*what) for what in cupti.profilers()]
    assert len(before) == 4
    plain = getattr(stand_in, when)

    def then(*arguments: Any) -> None:
        plain(*arguments)
        if when == "stop":
            request(stand_in._pool)  # a buffer that is out is not waited for either
        began.set()

    monkeypatch.setattr(stand_in, when, then)
    theirs = threading.Thread(target=lambda: (began.wait(), WAYS[way](found)))
    theirs.start()
    begun = time.monotonic()
    _, said = looked(monkeypatch, stand_in, tmp_path / "trace")
    theirs.join(5)

    assert time.monotonic() - begun < 2
    assert said.get("refused", "") == ("the program profiles itself" if when == "start" else "")
    assert at == [len(stand_in.calls)]
    assert stand_in.let_go_at == len(stand_in.calls)
    assert [getattr(*what) for what in cupti.profilers()] == before


def test_a_trace_is_not_written_to_its_end_where_somebody_waits() -> None:
    made, found, begun_ns = traced(StandIn([kernel(0, 20_000 + n) for n in range(200)]), cupti.Pool())
    made.hurry()
    written = io.StringIO()
    with pytest.raises(cupti.Refused, match="the program profiles itself"):
        cupti.write(found, made, base_ns=begun_ns, to=written, rest_s=0)
    assert written.getvalue().count("loop_fusion") == 64


def test_a_profiler_of_the_programs_waits_for_a_look_that_does_not_end_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cupti, "WAY_S", 0.05)
    ran: list[int] = []
    found = modules(lambda: ran.append(1))
    for name, module in found.items():
        monkeypatch.setitem(sys.modules, name, module)
    way = cupti.Way(lambda: None)
    WAYS["torch"](found)
    way.end()
    assert ran == [1]
