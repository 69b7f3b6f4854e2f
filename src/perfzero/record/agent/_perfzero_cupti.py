"""
The look inside a program without PyTorch: CUPTI's records of its kernels, copies and sets.

JAX, CuPy, numba: whatever gives work to the GPU through CUDA, CUPTI tells what ran there and when, without
the framework's help. There are no modules and no operators then; under XLA a kernel's name says what was
fused. The agent's thread does all of it (`_perfzero_agent`); the program's threads run nothing of ours but
the functions of machine code below. Standard library only, Python 3.8 or later.

    refuse   where another tool has CUPTI, or the program profiles itself
    find     libcupti: the one that the process has, or that of its CUDA; its only subscriber is ours from now
             on; "found" is said
    prepare  at the recorder's word CUPTI is switched on; "ready" is said
    trace    from the recorder's next word on, for a stretch of time: there are no marks of steps
    end      CUPTI is switched off, and its records are read and written as a trace of PyTorch's profiler
    leave    CUPTI is taken out of the process, or only left to others

There is one pair of callbacks for buffers in a process: whoever profiles it in the midst of a look would get
our buffers, and free them (jaxlib's mosaic_gpu_ext.cc). While we are CUPTI's subscriber nobody else can be,
and those that would give up for good then (PyTorch's pull request 191944) are let go first: what begins to
profile in JAX and PyTorch ends the look, and waits for that (`Way`).

CUPTI asks for buffers, and gives them back, in the thread that calls CUDA, or in one of its own. Python may
not be called there: a ctypes callback waits for the GIL, which another thread may hold that itself waits for
CUDA. So the two callbacks are machine code (`REQUESTED`, `COMPLETED`), which takes buffers off a pool by one
atomic addition, and writes down what has come back. When the pool is used up it gives none, and CUPTI drops
records (cupti_activity.h); the stretch ends before. The code and the pool stay mapped as long as the process
lives, for nobody says when CUPTI has forgotten their addresses; the pool's memory goes back to the system as
soon as CUPTI has returned all of its buffers.

CUPTI that is switched off still costs: launches take a third longer (`TEARDOWN` in `_perfzero_torch`). It can
be taken out at the end of a call of CUDA (cuptiFinalize, cupti_activity.h). So the agent calls CUDA itself,
for its version, and a third function of machine code (`CALLED`), which CUPTI calls there, takes it out. That
works since CUDA 12.6; with an older CUPTI there is no look.

But where CUDA graphs ran meanwhile that ends the program: three of three in JAX, whose graphs are made anew
and changed all the time, met an illegal access of memory (Xid 31) with their next replay, and none of six
without graphs (JAX 0.11 and CuPy 14.2, CUDA 13.0, an H200, 2026-11-30). So CUPTI stays where a record names a
node of a graph; where one is made or changed meanwhile, though it may be replayed only later, of which CUPTI
calls the same function (`GRAPHS`); and where not all was seen: a record that found no room or has not ended,
a buffer that has not come back, or only by force. Steps of that program took 1.5 % longer from then on. So
there is a look only where one was asked for by name (`_perfzero_agent.WITHOUT_TORCH`).

Times: those of records are CUPTI's own. It is asked for the time between two readings of Unix time, before
and after the stretch, and what lies between is converted in proportion. Records outside of the stretch's time
mean that their layout is not what we take it to be, and there is no trace then.

Records are walked by their lengths, which CUPTI itself tells once for each kind (cuptiActivityGetNextRecord):
they grow from version to version, at their end. What is read of them lies at the same place in CUDA 12.6 to
13.5 (CUpti_ActivityKernel9 to 13, Memcpy5 to 7, Memset4 and 5, by a C compiler's `offsetof`).
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import struct
import sys
import time

MYPY = False
if MYPY:
    from collections.abc import Iterator
    from typing import Any

STRETCH_S = 0.3
"""Traced at least: some steps of most programs, and few enough to cost little."""

LONGEST_S = 2.0
"""Traced at most, however long the program's steps are."""

BUFFER = 1 << 20
"""Bytes of a buffer, of 4,800 kernels. CUPTI clears each in the program's thread: 0.1 ms."""

BUFFERS = 64
"""300,000 kernels, as many as a process can launch in a second. What is not used takes no memory."""

PER_THREAD = 9
"""CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER: else 64 buffers are those of 64 threads, however empty."""

NEARLY_ALL = 3 / 4
"""Of the buffers; when so many are gone the stretch ends, so that none is refused."""

MOST_RECORDS = 60_000
"""Written of a trace, each in some 10 us of CPU; the stretch is cut to that of these."""

LONGEST_RECORD = 248
"""Bytes, in CUDA 13.5. When so many records' have come back the stretch ends, for no more would be kept."""

POLL_S = 0.01
PREPARE_WITHIN_S = 60.0
"""How long the recorder may take to open its session."""

GO_WITHIN_S = 5.0
"""How long CUPTI, once it is on, waits for the recorder's word."""

RUNNING_S = 5.0
"""
How long kernels that run or wait at the end of the stretch are waited for, by nobody but our thread.

A host may be a thousand launches ahead. What has not ended by then cannot be known to be of no graph.
"""

WAY_S = 10.0
"""How long a profiler of the program's own waits for our look to end; then it finds CUPTI taken."""

LEAVE_WITHIN_S = 5.0
"""How long another thread may be about to take CUPTI out, whose call of CUDA came before ours."""

AT_ONCE = 64
"""Events written before the program's threads may have the GIL: half a millisecond."""

REST_S = 0.0005

OFF_BY_NS = 1_000_000_000
"""Outside of the stretch, from when on CUPTI was on; a record farther off is none."""

OLDEST = 24
"""cuptiGetVersion of CUDA 12.6, the first that can be taken out again (`TAKEN_OUT_SINCE`)."""

DRIVER_API, DRIVER_VERSION = 1, 2
"""CUPTI_CB_DOMAIN_DRIVER_API, and in it CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion."""

RESOURCES = 3
"""CUPTI_CB_DOMAIN_RESOURCE."""

GRAPHS = (13, 18, 20)
"""In it: a node of a graph was created, an executable graph, and a node was cloned."""

CHANGES = (22, 23)
"""A node was updated, and parameters were set in an executable graph: told since CUDA 13.0."""

TELLS_CHANGES = 130000
"""cuptiGetVersion of CUDA 13.0."""

UNUSED = 3
"""CUDA_ERROR_NOT_INITIALIZED."""

TOOLS = ("cupti", "nvrx_cupti_module")
"""Modules that use CUPTI: NVIDIA's for Python, as PyTorch's monitor does, and its detection of stragglers."""

SUBSCRIBED = (12, 39)
"""CUPTI_ERROR_MAX_LIMIT_REACHED, until CUDA 11, and CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED."""

MEMCPY, MEMSET, KERNEL, CONCURRENT_KERNEL = 1, 2, 3, 10
"""Kinds of records (CUpti_ActivityKind)."""

KINDS = (CONCURRENT_KERNEL, MEMCPY, MEMSET)

_KERNEL = struct.Struct("=I 2x H 8x Q Q 8x I I I 3i 3i i i 8x I 8x Q 32x Q")
"""kind, registers, start, end, device, context, stream, grid, block, static and dynamic shared memory,
correlation, name, graph node."""

_MEMCPY = struct.Struct("=I B B B x Q Q Q I I I I 16x Q")
"""kind, copy kind, from and to, bytes, start, end, device, context, stream, correlation, graph node."""

_MEMSET = struct.Struct("=I I Q Q Q I I I I 2x H 12x Q")
"""kind, value, bytes, start, end, device, context, stream, correlation, memory kind, graph node."""

_TIMES = struct.Struct("=Q Q")
"""Start and end, at byte 16 of all of them."""

_LEAST_OF = {
    KERNEL: _KERNEL.size, CONCURRENT_KERNEL: _KERNEL.size, MEMCPY: _MEMCPY.size, MEMSET: _MEMSET.size,
}  # fmt: skip
_LEAST = 8
"""Bytes of the shortest record there is."""

_COPIES = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH"}
_COPIES[10] = "PtoP"
_MEMORY = {1: "Pageable", 2: "Pinned", 3: "Device", 4: "Array", 5: "Managed", 6: "Device Static"}
_MEMORY[7] = "Managed Static"
"""As PyTorch's profiler names them (Kineto, CuptiActivity.cpp)."""

LONGEST_NAME = 4096

# What lies in the pool's first page; the machine code knows these places.
_TAKEN, _BASE, _SIZE, _LEFT, _ALL, _LEAVING, _FINALIZE, _RESULT, _GRAPHS, _RETURNED = range(0, 80, 8)

PAGE, ROOM = 4096, 128
"""Bytes of a page, and between the beginnings of two functions in it."""

REQUESTED = (
    b"\xf3\x0f\x1e\xfa"  # endbr64
    b"\x49\xb8%s"  # mov   r8, STATE
    b"\x48\xc7\x02\x00\x00\x00\x00"  # mov   qword [rdx], 0        *maxNumRecords: as many as fit
    b"\x49\x8b\x00"  # mov   rax, [r8]             how many are taken
    b"\x49\x3b\x40\x18"  # cmp   rax, [r8 + 24]        none left?
    b"\x73\x23"  # jae   none
    b"\xb8\x01\x00\x00\x00"  # mov   eax, 1
    b"\xf0\x49\x0f\xc1\x00"  # lock xadd [r8], rax         the number of this buffer
    b"\x49\x3b\x40\x18"  # cmp   rax, [r8 + 24]        somebody was faster?
    b"\x73\x13"  # jae   none
    b"\x49\x8b\x48\x10"  # mov   rcx, [r8 + 16]
    b"\x48\x89\x0e"  # mov   [rsi], rcx            *size
    b"\x48\x0f\xaf\xc1"  # imul  rax, rcx
    b"\x49\x03\x40\x08"  # add   rax, [r8 + 8]
    b"\x48\x89\x07"  # mov   [rdi], rax            *buffer
    b"\xc3"  # ret
    b"\x31\xc0"  # none: xor eax, eax
    b"\x48\x89\x06"  # mov   [rsi], rax
    b"\x48\x89\x07"  # mov   [rdi], rax
    b"\xc3"  # ret
)
"""void requested(uint8_t **buffer, size_t *size, size_t *maxNumRecords), x86-64 (System V)."""

COMPLETED = (
    b"\xf3\x0f\x1e\xfa"  # endbr64
    b"\x49\xb9%s"  # mov   r9, STATE
    b"\x48\x89\xd0"  # mov   rax, rdx
    b"\x49\x2b\x41\x08"  # sub   rax, [r9 + 8]
    b"\x31\xd2"  # xor   edx, edx
    b"\x49\xf7\x71\x10"  # div   qword [r9 + 16]        which buffer
    b"\x49\x3b\x41\x20"  # cmp   rax, [r9 + 32]        none of ours?
    b"\x73\x08"  # jae   out
    b"\x49\xff\xc0"  # inc   r8                    validSize + 1: 0 is one that is out
    b"\x4d\x89\x44\xc1\x48"  # mov   [r9 + 8 * rax + 72], r8
    b"\xc3"  # out: ret
)
"""void completed(CUcontext, uint32_t stream, uint8_t *buffer, size_t size, size_t validSize)."""

CALLED = (
    b"\xf3\x0f\x1e\xfa"  # endbr64
    b"\x83\xfe\x03"  # cmp   esi, 3                 CUPTI_CB_DOMAIN_RESOURCE?
    b"\x74\x1f"  # je    graph
    b"\x83\x39\x01"  # cmp   dword [rcx], 1         callbackSite: CUPTI_API_EXIT?
    b"\x75\x19"  # jne   out
    b"\xb8\x01\x00\x00\x00"  # mov   eax, 1
    b"\x48\x87\x47\x28"  # xchg  [rdi + 40], rax        the first time?
    b"\x48\x85\xc0"  # test  rax, rax
    b"\x75\x0b"  # jne   out
    b"\x57"  # push  rdi
    b"\xff\x57\x30"  # call  [rdi + 48]             cuptiFinalize
    b"\x5f"  # pop   rdi
    b"\xff\xc0"  # inc   eax                    its result + 1: 0 is not yet
    b"\x48\x89\x47\x38"  # mov   [rdi + 56], rax
    b"\xc3"  # out: ret
    b"\x48\xc7\x47\x40\x01\x00\x00\x00"  # graph: mov qword [rdi + 64], 1
    b"\xc3"  # ret
)
"""void called(void *STATE, CUpti_CallbackDomain, CUpti_CallbackId, const CUpti_CallbackData *)."""


PROFILES = "the program profiles itself"


class Refused(Exception):
    """There is no look, for this reason."""


class Pool:
    """
    Buffers that machine code hands out and takes back, `requested` and `completed` its addresses.

    A third piece of it, `called`, is CUPTI's to call with `state` as user data. It notes where it is told of
    a graph, and takes CUPTI out at the end of a call of CUDA. All memory stays mapped for as long as the
    process lives: whoever has the addresses may call them.
    """

    def __init__(self, buffers: int = BUFFERS, size: int = BUFFER) -> None:
        if os.uname().machine != "x86_64" or sys.maxsize < 2**32:
            raise Refused("outside of PyTorch programs are looked into on x86-64 only")
        state_size = -(-(_RETURNED + 8 * buffers) // PAGE) * PAGE
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
        )  # fmt: skip
        for name in ("mprotect", "madvise"):
            getattr(self._libc, name).argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        self.buffers, self._size = buffers, size
        self.state = self._map(state_size + buffers * size)
        self._base = self.state + state_size
        for place, value in ((_BASE, self._base), (_SIZE, size), (_LEFT, 0), (_ALL, buffers)):
            self._word(place).value = value
        code = self._map(PAGE)
        self.requested, self.completed, self.called = range(code, code + 3 * ROOM, ROOM)
        for number, function in enumerate((REQUESTED, COMPLETED, CALLED)):
            function = function.replace(b"%s", struct.pack("<Q", self.state))
            ctypes.memmove(code + number * ROOM, function, len(function))
        if self._libc.mprotect(code, PAGE, 5):  # PROT_READ | PROT_EXEC
            raise Refused(f"this system lets nobody run new code: {os.strerror(ctypes.get_errno())}")

    def _map(self, size: int) -> int:
        # PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
        found = self._libc.mmap(None, size, 3, 0x4022, -1, 0)
        if found in (None, 2**64 - 1):
            raise Refused(f"there is no memory for records: {os.strerror(ctypes.get_errno())}")
        return int(found)

    def _word(self, place: int) -> ctypes.c_uint64:
        return ctypes.c_uint64.from_address(self.state + place)

    def open(self) -> None:
        """Hand out buffers from now on."""
        self._word(_LEFT).value = self.buffers

    def close(self) -> None:
        """Hand out none any more."""
        self._word(_LEFT).value = 0

    @property
    def taken(self) -> int:
        """How many buffers have been handed out."""
        return min(self._word(_TAKEN).value, self.buffers)

    def returned(self) -> list[tuple[int, int]]:
        """Address and used bytes of the buffers that have come back, in the order in which they went."""
        found = []
        for number in range(self.taken):
            size = self._word(_RETURNED + 8 * number).value
            if size:
                found.append((self._base + number * self._size, min(size - 1, self._size)))
        return found

    def leave_by(self, finalize: int) -> None:
        """Let `called` call the function at this address, cuptiFinalize; once."""
        self._word(_FINALIZE).value = finalize

    @property
    def is_leaving(self) -> bool:
        """Whether it calls that, or has."""
        return bool(self._word(_LEAVING).value)

    @property
    def result(self) -> int | None:
        """What that has returned; None before."""
        told = self._word(_RESULT).value
        return told - 1 if told else None

    @property
    def has_graphs(self) -> bool:
        """Whether graphs were made or changed."""
        return bool(self._word(_GRAPHS).value)

    def forget(self) -> None:
        """Give the buffers' memory back to the system, if all have come back."""
        if len(self.returned()) == self.taken:
            self._libc.madvise(self._base, self.buffers * self._size, 4)  # MADV_DONTNEED


class Cupti:
    """A libcupti: the few functions that are needed. Each raises `Refused` where CUPTI says no."""

    def __init__(self, path: str) -> None:
        self.library: Any = ctypes.CDLL(path)
        # Without the GIL in between: the thread would wait for it, and the time be another one by then.
        self._clock = ctypes.PyDLL(path).cuptiGetTimestamp
        version = ctypes.c_uint32()
        self._call("cuptiGetVersion", ctypes.byref(version))
        self.version = version.value
        if self.version < OLDEST:
            raise Refused("its CUPTI is older than CUDA 12.6, and with it the program would stay slower")
        self._handle: Any = None
        self._driver: Any = next((ctypes.CDLL(path) for path in mapped("libcuda.so")), None)
        if self._driver is None:
            raise Refused("it has not loaded CUDA")

    def _call(self, name: str, *arguments: Any) -> None:
        result = getattr(self.library, name)(*arguments)
        if result:
            raise Refused(f"{name}: {self._meaning(result)}")

    def _meaning(self, result: int) -> str:
        text = ctypes.c_char_p()
        self.library.cuptiGetResultString(result, ctypes.byref(text))
        return (text.value or b"error %d" % result).decode(errors="replace")

    def claim(self, pool: Pool) -> bool:
        """
        Subscribe to CUPTI's callbacks, so that `pool` hears of graphs from now on; False where another has.

        There is one subscriber in a process. CUPTI is there from now on.
        """
        handle = ctypes.c_void_p()
        result = self.library.cuptiSubscribe(
            ctypes.byref(handle), ctypes.c_void_p(pool.called), ctypes.c_void_p(pool.state)
        )
        if result in SUBSCRIBED:
            return False
        if result:
            raise Refused(f"cuptiSubscribe: {self._meaning(result)}")
        self._handle = handle
        for callback in GRAPHS + (CHANGES if self.version >= TELLS_CHANGES else ()):
            self._call("cuptiEnableCallback", 1, handle, RESOURCES, callback)
        return True

    def let_go(self) -> None:
        """Leave CUPTI to others, if we have it."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self.library.cuptiUnsubscribe(handle)

    def leave(self, pool: Pool) -> bool:
        """Take CUPTI out of the process; whether that was done."""
        pool.leave_by(ctypes.cast(self.library.cuptiFinalize, ctypes.c_void_p).value or 0)
        self._call("cuptiEnableCallback", 1, self._handle, DRIVER_API, DRIVER_VERSION)
        self._driver.cuDriverGetVersion(ctypes.byref(ctypes.c_int()))
        deadline = time.monotonic() + LEAVE_WITHIN_S
        while pool.is_leaving and pool.result is None and time.monotonic() < deadline:
            time.sleep(POLL_S)  # in the same call of another thread
        if pool.result == 0 or (pool.is_leaving and pool.result is None):
            self._handle = None  # it has gone, or goes: nothing is to be done with it any more
        return pool.result == 0

    def now_ns(self) -> int:
        """The time by which records are dated; once CUPTI has started."""
        now = ctypes.c_uint64()
        if self._clock(ctypes.byref(now)):
            raise Refused("its CUPTI tells no time")
        return now.value

    def start(self, pool: Pool) -> None:
        # Before all else; a CUPTI that refuses has been at work before, and fills its buffers by thread.
        size, never = ctypes.c_size_t(1), ctypes.c_uint8(0)
        self.library.cuptiActivitySetAttribute(PER_THREAD, ctypes.byref(size), ctypes.byref(never))
        self._call(
            "cuptiActivityRegisterCallbacks", ctypes.c_void_p(pool.requested), ctypes.c_void_p(pool.completed)
        )
        for kind in KINDS:
            self._call("cuptiActivityEnable", kind)

    def stop(self) -> None:
        for kind in KINDS:
            self.library.cuptiActivityDisable(kind)

    def flush(self, *, forced: bool = False) -> None:
        """Have the buffers returned: those that are complete, or all."""
        self._call("cuptiActivityFlushAll", int(forced))

    def dropped(self) -> int:
        """How many records found no room."""
        many = ctypes.c_size_t()
        self._call("cuptiActivityGetNumDroppedRecords", None, 0, ctypes.byref(many))
        return many.value

    def next_record(self, buffer: int, size: int, record: int | None) -> int | None:
        """Where the record after *record* lies (None: the first one); None at the end."""
        found = ctypes.c_void_p(record)
        over = self.library.cuptiActivityGetNextRecord(
            ctypes.c_void_p(buffer), ctypes.c_size_t(size), ctypes.byref(found)
        )
        return None if over else found.value


def records(cupti: Any, buffers: list[tuple[int, int]]) -> Iterator[Record]:
    """What the GPU did, as far as *buffers* tell it whole."""
    lengths: dict[int, int] = {}
    for buffer, size in buffers:
        at = cupti.next_record(buffer, size, None) if size else None
        while at is not None and at + _LEAST <= buffer + size:
            kind = ctypes.c_uint32.from_address(at).value
            length = lengths.get(kind)
            if length is None:
                following = cupti.next_record(buffer, size, at)
                # The last one in a buffer may have room behind it: that is not the length of others.
                length = buffer + size - at if following is None else following - at
                if following is not None:
                    lengths[kind] = length
            if not kind or length < _LEAST or at + length > buffer + size:
                break
            if kind in _LEAST_OF and length >= _LEAST_OF[kind]:
                yield Record(kind, at, length, *_TIMES.unpack(ctypes.string_at(at + 16, 16)))
            at += length


class Memory:
    """This process's memory, read so that what is not there is an error and no crash."""

    def __init__(self) -> None:
        self._file = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)

    def text(self, address: int) -> str:
        """The C string at *address*; empty where there is none."""
        found = b""
        try:
            while b"\0" not in found and len(found) < LONGEST_NAME:
                part = os.pread(self._file, 256 - address % 256, address)
                if not part:
                    break
                found += part
                address += len(part)
        except (OSError, OverflowError, ValueError):
            pass
        return found.partition(b"\0")[0].decode(errors="replace")

    def close(self) -> None:
        os.close(self._file)


def demangler() -> Any:
    """A function that makes a name of C++ readable, by the library that the process has for that."""
    try:
        library: Any = ctypes.CDLL(next(path for path in mapped("libstdc++.so")))
        demangle = library.__cxa_demangle
        demangle.restype = ctypes.c_void_p
        demangle.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        free = ctypes.CDLL(None).free
        free.argtypes = (ctypes.c_void_p,)
    except (AttributeError, OSError, StopIteration):
        return str

    def readable(name: str) -> str:
        if not name.startswith("_Z"):
            return name
        found = demangle(name.encode(), None, None, None)
        if not found:
            return name
        text: bytes = ctypes.string_at(found)
        free(found)
        return text.decode(errors="replace")

    return readable


def mapped(name: str) -> Iterator[str]:
    """The files that the process has loaded whose name begins so."""
    with open("/proc/self/maps", "rb") as file:
        seen = set()
        for line in file:
            path = os.fsdecode(line.rstrip(b"\n")).partition("/")
            full = "/" + path[2]
            if path[1] and full not in seen and full.rpartition("/")[2].startswith(name):
                seen.add(full)
                yield full


def find_cupti() -> Cupti:
    """The libcupti that the process has, or else that of its CUDA. Raises `Refused`."""
    for path in mapped("libcuda.so"):
        # It asks without beginning; CUPTI may begin, and a child that is forked later could use no CUDA then.
        if ctypes.CDLL(path).cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == UNUSED:
            raise Refused("it has loaded CUDA, but not used it yet")
    for path in mapped("libcupti.so"):
        return Cupti(path)
    driver = _driver_major()
    places: list[str] = []
    for folder in [glob.escape(entry) for entry in sys.path if entry]:
        places += glob.glob(f"{folder}/nvidia/cu*/lib/libcupti.so.*")
        places += glob.glob(f"{folder}/nvidia/cuda_cupti/lib/libcupti.so.*")
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root:
            places += glob.glob(f"{glob.escape(root)}/extras/CUPTI/lib64/libcupti.so.[1-9][0-9]")
    places += glob.glob("/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.[1-9][0-9]")
    places += glob.glob("/usr/lib/*-linux-gnu/libcupti.so.[1-9][0-9]")
    runtime = next((_major(path) for path in mapped("libcudart.so")), 0)
    fitting = [path for path in places if 0 < _major(path) <= driver]
    why = "no libcupti is found: pip install nvidia-cuda-cupti"
    for path in sorted(fitting, key=lambda path: (_major(path) != runtime, -_major(path))):
        try:
            return Cupti(path)
        except (AttributeError, OSError, Refused) as error:
            why = f"{path}: {error}"
    raise Refused(why)


def _driver_major() -> int:
    """The newest CUDA that the driver can do; 0 where the process has no driver."""
    for path in mapped("libcuda.so"):
        version = ctypes.c_int()
        if not ctypes.CDLL(path).cuDriverGetVersion(ctypes.byref(version)):
            return version.value // 1000
    return 0


def _major(path: str) -> int:
    """The 13 in libcupti.so.13 and in libcudart.so.13.0.96; 0 where there is none."""
    number = path.rpartition(".so.")[2].partition(".")[0]
    return int(number) if number.isdigit() else 0


GRAPHS_OFF = "--xla_gpu_enable_command_buffer="
"""In XLA_FLAGS, with nothing behind it: XLA makes no CUDA graphs."""


def makes_graphs() -> bool:
    """Whether XLA is there, and makes CUDA graphs, as it does unless it was told not to."""
    told = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if flag.startswith(GRAPHS_OFF)]
    return "jax" in sys.modules and (not told or told[-1][len(GRAPHS_OFF) :].strip("\"'") != "")


def refusal() -> str:
    """Why CUPTI is to be left alone in this process; empty if it is not."""
    for name in ("CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID"):
        if os.environ.get(name):
            return f"another tool watches it ({name} is set)"
    for name in TOOLS:
        if name in sys.modules:
            return f"it uses CUPTI itself (its module {name})"
    jax = sys.modules.get("jax._src.profiler")
    if getattr(getattr(jax, "_profile_state", None), "profile_session", None) is not None:
        return PROFILES
    if getattr(jax, "_profiler_server", None) is not None:
        return "a server of jax.profiler listens in it, which may profile it at any time"
    return ""


def profilers() -> Iterator[tuple[Any, str]]:
    """What this process has that begins to profile it by CUPTI: where it is looked up, and its name."""
    jax, torch = sys.modules.get("jax._src.profiler"), sys.modules.get("torch.autograd.profiler")
    mosaic = sys.modules.get("jax._src.lib.mosaic_gpu")
    for owner, name in (
        (getattr(jax, "_profiler", None), "ProfilerSession"),
        (getattr(jax, "_profiler", None), "start_server"),
        (getattr(getattr(jax, "xla_client", None), "profiler", None), "ProfilerSession"),  # JAX before 0.7
        (getattr(getattr(jax, "xla_client", None), "profiler", None), "start_server"),
        (getattr(mosaic, "_mosaic_gpu_ext", None), "_cupti_init"),
        (getattr(torch, "profile", None), "_prepare_trace"),
    ):
        if hasattr(owner, name):
            yield owner, name


class Way:
    """
    The program's own profilers go first: what begins one in the midst of our look waits until that is over.

    *hurry* is called then, in the program's thread. `end` puts back what was there before.
    """

    def __init__(self, hurry: Any) -> None:
        self._hurry = hurry
        self._is_over = False
        self._wrapped: list[tuple[Any, str, Any, Any]] = []
        os.register_at_fork(after_in_child=self.end)  # the look is its parent's
        for owner, name in profilers():
            self._guard(owner, name)

    def _guard(self, owner: Any, name: str) -> None:
        way, theirs = self, getattr(owner, name)

        def ours(*args: Any, **kwargs: Any) -> Any:
            way._make()
            return theirs(*args, **kwargs)

        for known in ("__module__", "__name__", "__qualname__", "__doc__"):
            try:
                setattr(ours, known, getattr(theirs, known))
            except (AttributeError, TypeError):
                pass
        try:
            setattr(owner, name, ours)
        except (AttributeError, TypeError):
            return
        self._wrapped.append((owner, name, theirs, ours))

    def _make(self) -> None:
        deadline = time.monotonic() + WAY_S
        self._hurry()
        while not self._is_over and time.monotonic() < deadline:
            time.sleep(0.001)

    def end(self) -> None:
        """Whoever waits goes on."""
        wrapped, self._wrapped = self._wrapped, []
        for owner, name, theirs, ours in wrapped:
            if getattr(owner, name, None) is ours:
                setattr(owner, name, theirs)
        self._is_over = True


class Record:
    """A record of something that the GPU did, where it lies in memory, and when that was by CUPTI's clock."""

    __slots__ = ("address", "end_ns", "kind", "length", "start_ns")

    def __init__(self, kind: int, address: int, length: int, start_ns: int, end_ns: int) -> None:
        self.kind, self.address, self.length, self.start_ns, self.end_ns = (
            kind, address, length, start_ns, end_ns,
        )  # fmt: skip

    @property
    def has_ended(self) -> bool:
        """Whether it says when."""
        return 0 < self.start_ns <= self.end_ns

    @property
    def is_of_graph(self) -> bool:
        """Whether a replay of a CUDA graph asked for it."""
        at = self.address + _LEAST_OF[self.kind] - 8  # the last that is read of each
        return bool(ctypes.c_uint64.from_address(at).value)

    def told(self) -> tuple[str, int | str, tuple[int, ...], str]:
        """
        Its category, its name (a kernel's as an address), where it ran, and what else is told of it.

        Where: device, context, stream, correlation with its launch, and node of a graph (0: none).
        """
        data = ctypes.string_at(self.address, self.length)
        if self.kind == MEMCPY:
            _, how, source, to, size, _, _, *where = _MEMCPY.unpack_from(data)
            name = f"Memcpy {_COPIES.get(how, '?')} ({_MEMORY.get(source, '?')} -> {_MEMORY.get(to, '?')})"
            return "gpu_memcpy", name, tuple(where), f'"bytes": {size}'
        if self.kind == MEMSET:
            _, _, size, _, _, *where, memory, node = _MEMSET.unpack_from(data)
            return "gpu_memset", f"Memset ({_MEMORY.get(memory, '?')})", (*where, node), f'"bytes": {size}'
        _, registers, _, _, device, context, stream, *sizes, correlation, address, node = _KERNEL.unpack_from(
            data
        )
        grid, block, (static, dynamic) = sizes[:3], sizes[3:6], sizes[6:]
        told = (
            f'"registers per thread": {registers}, "shared memory": {static + dynamic}, '
            f'"grid": {grid}, "block": {block}'
        )
        return "kernel", address, (device, context, stream, correlation, node), told


class Stretch:
    """
    CUPTI at work in this process: `prepare`, `begin`, `end`, `collect`, in this order.

    The stretch lies between two moments by CUPTI's clock and by Unix time.
    """

    def __init__(self, cupti: Any, pool: Pool) -> None:
        self._cupti, self._pool = cupti, pool
        self.version = cupti.version
        self._on_ns = 0
        self._moments: list[tuple[int, int]] = []
        self._running = False
        self._graphs: bool | None = False  # whether any ran while CUPTI was on; None: not known
        self._collected = False
        self.hurried = False
        """The program is to profile itself: nothing is to be waited for any more."""
        self.cost_s = 0.0

    def hurry(self) -> None:
        """End as soon as can be; from another thread."""
        self.hurried = True

    def prepare(self) -> None:
        """Switch CUPTI on. Raises `Refused`."""
        begun = time.monotonic()
        self._running, self._graphs = True, None
        self._pool.open()
        self._cupti.start(self._pool)
        self._on_ns = self._cupti.now_ns()
        self.cost_s += time.monotonic() - begun

    def begin(self) -> int:
        """Now it counts; returns when that is, in Unix ns."""
        return self._moment()

    @property
    def is_full(self) -> bool:
        """Whether the buffers will soon be used up, or hold as much as is kept."""
        filled = sum(size for _, size in self._pool.returned())
        return self._pool.taken >= NEARLY_ALL * self._pool.buffers or filled >= MOST_RECORDS * LONGEST_RECORD

    def stop(self) -> None:
        """Switch CUPTI off, wherever it is."""
        if self._running:
            self._running = False
            self._cupti.stop()

    def end(self) -> int:
        """Switch CUPTI off; returns when the stretch ended, in Unix ns."""
        until, begun = self._moment(), time.monotonic()
        self.stop()
        self.cost_s += time.monotonic() - begun
        return until

    def collect(self) -> list[Record]:
        """What ran in the stretch, by its start. Raises `Refused`."""
        begun, self._collected = time.thread_time(), True
        try:
            is_whole = self._fetch()
            dropped = self._cupti.dropped()
            if dropped:
                raise Refused(f"CUPTI dropped {dropped} of its records")
            return self._records(is_whole=is_whole)
        finally:
            self.cost_s += time.thread_time() - begun

    def _fetch(self) -> bool:
        """Have all buffers returned; whether all that is in them has ended."""
        # Kernels that run are waited for: until then CUPTI keeps the buffer that they are in.
        deadline = time.monotonic() + RUNNING_S
        self._cupti.flush()
        while len(self._pool.returned()) < self._pool.taken and not self.hurried:
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
            self._cupti.flush()
        came = self._pool.returned()
        self._cupti.flush(forced=True)
        forced = [size for buffer, size in self._pool.returned() if (buffer, size) not in came]
        return len(came) + len(forced) == self._pool.taken and not any(forced)

    def give_back(self) -> bool:
        """When all has been read: give the pool's memory back, and take CUPTI out; whether it is out."""
        self.stop()
        left = False
        try:
            if self._graphs is None and not self._collected:
                self.collect()
            begun = time.monotonic()
            if self._graphs is False and not self._pool.has_graphs:
                left = self._cupti.leave(self._pool)
            self.cost_s += time.monotonic() - begun
        except Refused:
            pass
        finally:
            self._pool.close()
            self._cupti.let_go()
        self._pool.forget()
        return left

    def _moment(self) -> int:
        """CUPTI's time between two readings of Unix time, the closest of some."""
        best = (1 << 62, 0, 0)
        for _ in range(16):
            before = time.time_ns()
            cupti = self._cupti.now_ns()
            after = time.time_ns()
            best = min(best, (after - before, (before + after) // 2, cupti))
        self._moments.append(best[1:])
        return best[1]

    def unix_ns(self, cupti_ns: int) -> int:
        """A time of CUPTI's as Unix time."""
        (unix, first), (unix_end, last) = self._moments
        passed = max(1, last - first)
        return unix + (cupti_ns - first) * (unix_end - unix) // passed

    def _records(self, *, is_whole: bool) -> list[Record]:
        while len(self._moments) < 2:  # it ended before
            self._moment()
        first, last = (cupti for _, cupti in self._moments)
        until = last + int(RUNNING_S * 1e9) + OFF_BY_NS
        found, wrong, graphs = [], 0, False
        for number, record in enumerate(records(self._cupti, self._pool.returned())):
            graphs = graphs or record.is_of_graph
            if not record.has_ended:
                is_whole = False
            elif record.start_ns < self._on_ns - OFF_BY_NS or record.end_ns > until:
                wrong += 1
            elif record.end_ns > first and record.start_ns < last:
                found.append(record)
            if number % AT_ONCE == AT_ONCE - 1:
                time.sleep(REST_S / 10)
        if wrong > len(found) // 100:
            raise Refused(f"the records of its CUPTI (version {self.version}) are not understood")
        self._graphs = graphs if graphs or is_whole else None
        found.sort(key=lambda record: (record.start_ns, record.end_ns))
        return found


def write(found: list[Record], stretch: Stretch, *, base_ns: int, to: Any, rest_s: float = REST_S) -> None:
    """
    A trace of *found* into the file *to*, as PyTorch's profiler writes one.

    It rests between them, so that the program's threads get the GIL.
    """
    memory, readable = Memory(), demangler()
    names: dict[int | str, str] = {}
    to.write('{"schemaVersion": 1, "displayTimeUnit": "ms", "traceName": "perfzero",\n')
    to.write(f'"baseTimeNanoseconds": {base_ns}, "traceEvents": [\n')
    try:
        for number, record in enumerate(found):
            category, called, (device, context, stream, correlation, node), told = record.told()
            name = names.get(called)
            if name is None:
                text = readable(memory.text(called)) if isinstance(called, int) else called
                name = names[called] = json.dumps(text or "?")
            graph = f', "graph node id": {node}' if node else ""
            at = _us(stretch.unix_ns(record.start_ns) - base_ns)
            to.write(
                f'{"," if number else ""}{{"ph": "X", "cat": "{category}", "name": {name}, "pid": {device}, '
                f'"tid": {stream}, "ts": {at}, "dur": {_us(record.end_ns - record.start_ns)}, "args": {{'
                f'"device": {device}, "context": {context}, "stream": {stream}, '
                f'"correlation": {correlation}, {told}{graph}}}}}\n'
            )
            if number % AT_ONCE == AT_ONCE - 1:
                if stretch.hurried:
                    raise Refused(PROFILES)
                time.sleep(rest_s)
    finally:
        memory.close()
    to.write("]}\n")


def _us(ns: int) -> str:
    """Nanoseconds as microseconds with three digits, as PyTorch's profiler writes them."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


class Look:
    """One look by CUPTI, all of it in the agent's thread."""

    def __init__(self, request: dict[str, Any], talk: Any, *, to: str) -> None:
        period_s = float(request.get("period_s", 0.0))
        # One more than wanted: a stretch begins and ends in the midst of one.
        wanted_s = (int(request["steps"]) + 1) * period_s
        self._length_s = min(LONGEST_S, max(STRETCH_S, wanted_s))
        many = round(self._length_s / period_s) if period_s > 0 else 1
        self._steps = max(1, min(many, int(request.get("most_steps", many))))
        self._talk, self._to = talk, to

    def take(self) -> dict[str, Any]:
        """Talk to the recorder, trace, and return what to tell."""
        try:
            why = refusal()
            if why:
                raise Refused(why)
            cupti, pool = find_cupti(), Pool()
            stretch = Stretch(cupti, pool)
            way = Way(stretch.hurry)
            try:
                if not cupti.claim(pool):
                    raise Refused("another tool has CUPTI in it")
                return self._look(stretch)
            finally:
                cupti.let_go()
                way.end()
        except Refused as error:
            return {"refused": str(error)}

    def _look(self, stretch: Stretch) -> dict[str, Any]:
        try:
            said: dict[str, Any] = {"looked": self._trace(stretch)}
        except Refused as error:
            said = {"refused": str(error)}
        finally:
            left = stretch.give_back()
        if "looked" in said:
            said["looked"]["cost_s"] = round(stretch.cost_s, 6)
        return said if left else {**said, "stays": True}

    def _trace(self, stretch: Stretch) -> dict[str, Any]:
        self._talk.tell(found={"step_s": round(self._length_s / self._steps, 6), "steps": self._steps})
        self._await("prepare", PREPARE_WITHIN_S, stretch)
        stretch.prepare()
        self._talk.tell(ready={})
        self._await("go", GO_WITHIN_S, stretch)
        begun_ns, deadline = stretch.begin(), time.monotonic() + self._length_s
        while time.monotonic() < deadline and not stretch.is_full:
            self._listen(stretch)
            time.sleep(POLL_S)
        until_ns = stretch.end()
        self._talk.tell(traced={})
        found = stretch.collect()
        if len(found) > MOST_RECORDS:
            until_ns = stretch.unix_ns(found[MOST_RECORDS].start_ns)
            del found[MOST_RECORDS:]
        if not found:
            raise Refused("nothing ran on its GPU meanwhile")
        begun, begun_cpu = time.monotonic(), time.thread_time()
        handle = os.open(self._to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            write(found, stretch, base_ns=begun_ns, to=file)
        stretch.cost_s += time.thread_time() - begun_cpu
        return {
            "at_ns": [begun_ns, until_ns],
            "by": "time",
            "export_s": round(time.monotonic() - begun, 6),
            "cupti": stretch.version,
        }

    def _await(self, word: str, seconds: float, stretch: Stretch) -> None:
        deadline = time.monotonic() + seconds
        while True:
            said = self._listen(stretch)
            if said is not None and word in said:
                return
            if time.monotonic() > deadline:
                raise Refused("the recorder was not ready in time")
            time.sleep(POLL_S)

    def _listen(self, stretch: Stretch) -> dict[str, Any] | None:
        if stretch.hurried:
            raise Refused(PROFILES)
        said: dict[str, Any] | None = self._talk.hear(wait=False)
        if self._talk.over:
            raise Refused("the recorder has gone")
        return said
