"""
A simulated libnvidia-ml, at the C boundary: pynvml's own code runs against it unchanged.

It answers as nvml.h documents; what it answers is set by the test. It is no GPU, and no figure
that comes out of it says anything about one.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pynvml
import pytest

HANDLE = 0x1000  # handles are opaque; these are never followed
SAMPLE = 0x9000
EVENTS = 0xA000
UNTOLD = pynvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value  # instead of a process's memory


@dataclass
class Board:
    """What one simulated GPU answers, in NVML's units."""

    uuid: str = "GPU-aaaa"
    name: str = "Simulated H200"
    capability: tuple[int, int] = (9, 0)
    cores: int = 132 * 128
    clocks: dict[int, int] = field(default_factory=lambda: {1: 1335, 2: 3201})
    max_clocks: dict[int, int] = field(default_factory=lambda: {1: 1980, 2: 3201})
    power_mw: int = 698_500
    limit_mw: int = 700_000
    energy_mj: int = 5_000_000
    temperature: int = 61
    utilization: int = 38
    reasons: int = 0
    memory: tuple[int, int] = (150_754_820_096, 20_000_000_000)
    link: tuple[int, int] = (5, 16)
    ecc: int = 0
    pids: tuple[int, ...] = (4711,)
    held: dict[int, int] = field(default_factory=lambda: {4711: 19_000_000_000})  # bytes by pid
    mig_uuids: tuple[str, ...] = ()
    mig_sms: int | None = None
    gpm: bool = True
    xids: list[int] = field(default_factory=list)  # errors that nobody has taken yet


@dataclass
class Library:
    """The simulated library. `fail` maps a function to the code it returns instead of an answer."""

    boards: list[Board] = field(default_factory=lambda: [Board()])
    fail: dict[str, int] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    calls: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    gpm_values: dict[int, float] = field(default_factory=dict)
    gpm_returns: dict[int, int] = field(default_factory=dict)
    gpm_pairs: list[tuple[int, int]] = field(default_factory=list)
    gpm_taken: dict[int, int] = field(default_factory=dict)  # snapshot -> which one it holds
    gpm_alive: set[int] = field(default_factory=set)
    event_sets: dict[int, Board] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("nvml") or name in self.absent or name not in ANSWERS:
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.calls[name] += 1
            if name in self.fail:
                return self.fail[name]
            return ANSWERS[name](self, *arguments) or 0

        return call

    def board(self, handle: Any) -> Board:
        number = ctypes.cast(handle, ctypes.c_void_p).value
        assert number is not None
        return self.boards[number - HANDLE]


def point(reference: Any, number: int) -> None:
    """Let the pointer behind *reference* hold *number*."""
    ctypes.memmove(ctypes.byref(reference._obj), ctypes.byref(ctypes.c_void_p(number)), 8)


def answer(read: Callable[[Board], Any]) -> Callable[..., int]:
    """A call whose last argument is a reference to one number."""

    def call(library: Library, handle: Any, *arguments: Any) -> int:
        arguments[-1]._obj.value = read(library.board(handle))
        return 0

    return call


def init(library: Library, flags: int) -> int:
    library.sessions += 1
    return 0


def shutdown(library: Library) -> int:
    library.sessions -= 1
    return 0


def count(library: Library, reference: Any) -> int:
    reference._obj.value = sum(b.mig_sms is None for b in library.boards)
    return 0


def by_index(library: Library, index: Any, reference: Any) -> int:
    point(reference, HANDLE + getattr(index, "value", index))
    return 0


def by_uuid(library: Library, uuid: Any, reference: Any) -> int:
    for number, board in enumerate(library.boards):
        if board.uuid.encode() == uuid.value:
            point(reference, HANDLE + number)
            return 0
    return int(pynvml.NVML_ERROR_NOT_FOUND)


def mig_by_index(library: Library, handle: Any, index: Any, reference: Any) -> int:
    uuids = library.board(handle).mig_uuids
    number = getattr(index, "value", index)
    if number >= len(uuids):
        return int(pynvml.NVML_ERROR_NOT_FOUND)
    point(reference, HANDLE + next(i for i, b in enumerate(library.boards) if b.uuid == uuids[number]))
    return 0


def text(read: Callable[[Board], str]) -> Callable[..., int]:
    def call(library: Library, handle: Any, buffer: Any, *size: Any) -> int:
        buffer.value = read(library.board(handle)).encode()
        return 0

    return call


def driver(library: Library, buffer: Any, size: Any) -> int:
    buffer.value = b"580.159.04"
    return 0


def cuda_version(library: Library, reference: Any) -> int:
    reference._obj.value = 13000
    return 0


def capability(library: Library, handle: Any, major: Any, minor: Any) -> int:
    major._obj.value, minor._obj.value = library.board(handle).capability
    return 0


def clock(which: str) -> Callable[..., int]:
    def call(library: Library, handle: Any, kind: Any, reference: Any) -> int:
        reference._obj.value = getattr(library.board(handle), which)[kind.value]
        return 0

    return call


def memory(library: Library, handle: Any, reference: Any) -> int:
    total, used = library.board(handle).memory
    reference._obj.total, reference._obj.used, reference._obj.free = total, used, total - used
    return 0


def mig_mode(library: Library, handle: Any, current: Any, pending: Any) -> int:
    board = library.board(handle)
    if board.mig_sms is not None:
        return int(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    current._obj.value = pending._obj.value = int(bool(board.mig_uuids))
    return 0


def cores(library: Library, handle: Any, reference: Any) -> int:
    board = library.board(handle)
    if board.mig_sms is not None:
        return int(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    reference._obj.value = board.cores
    return 0


def attributes(library: Library, handle: Any, reference: Any) -> int:
    sms = library.board(handle).mig_sms
    if sms is None:
        return int(pynvml.NVML_ERROR_NOT_SUPPORTED)
    reference._obj.multiprocessorCount = sms
    return 0


def processes(library: Library, handle: Any, size: Any, array: Any) -> int:
    pids = library.board(handle).pids
    if array is None:
        size._obj.value = len(pids)
        return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE) if pids else 0
    size._obj.value = len(pids)
    for slot, pid in zip(array, pids, strict=False):
        slot.pid = pid
        slot.usedGpuMemory = library.board(handle).held.get(pid, UNTOLD)
    return 0


def utilization(library: Library, handle: Any, reference: Any) -> int:
    reference._obj.gpu = library.board(handle).utilization
    return 0


def gpm_support(library: Library, handle: Any, reference: Any) -> int:
    reference._obj.isSupportedDevice = int(library.board(handle).gpm)
    return 0


def gpm_alloc(library: Library, reference: Any) -> int:
    number = SAMPLE + library.calls["nvmlGpmSampleAlloc"]
    library.gpm_alive.add(number)
    point(reference, number)
    return 0


def gpm_free(library: Library, sample: Any) -> int:
    library.gpm_alive.remove(ctypes.cast(sample, ctypes.c_void_p).value or 0)
    return 0


def gpm_get(library: Library, handle: Any, sample: Any) -> int:
    number = ctypes.cast(sample, ctypes.c_void_p).value or 0
    library.gpm_taken[number] = library.calls["nvmlGpmSampleGet"]
    return 0


def gpm_metrics(library: Library, reference: Any) -> int:
    request = reference._obj
    first, second = (
        library.gpm_taken[ctypes.cast(s, ctypes.c_void_p).value or 0]
        for s in (request.sample1, request.sample2)
    )
    library.gpm_pairs.append((first, second))
    for slot in request.metrics[: request.numMetrics]:
        slot.value = library.gpm_values.get(slot.metricId, 0.0)
        slot.nvmlReturn = library.gpm_returns.get(slot.metricId, 0)
    return 0


def event_set(library: Library, reference: Any) -> int:
    number = EVENTS + library.calls["nvmlEventSetCreate"]
    library.event_sets[number] = Board()
    point(reference, number)
    return 0


def register_events(library: Library, handle: Any, kinds: Any, events: Any) -> int:
    library.event_sets[ctypes.cast(events, ctypes.c_void_p).value or 0] = library.board(handle)
    return 0


def wait_for_event(library: Library, events: Any, reference: Any, timeout_ms: Any) -> int:
    assert timeout_ms.value == 0
    waiting = library.event_sets[ctypes.cast(events, ctypes.c_void_p).value or 0].xids
    if not waiting:
        return int(pynvml.NVML_ERROR_TIMEOUT)
    reference._obj.eventType = pynvml.nvmlEventTypeXidCriticalError
    reference._obj.eventData = waiting.pop(0)
    return 0


def free_events(library: Library, events: Any) -> int:
    del library.event_sets[ctypes.cast(events, ctypes.c_void_p).value or 0]
    return 0


ANSWERS: dict[str, Callable[..., int]] = {
    "nvmlInitWithFlags": init,
    "nvmlShutdown": shutdown,
    "nvmlSystemGetDriverVersion": driver,
    "nvmlSystemGetCudaDriverVersion_v2": cuda_version,
    "nvmlDeviceGetCount_v2": count,
    "nvmlDeviceGetHandleByIndex_v2": by_index,
    "nvmlDeviceGetHandleByUUID": by_uuid,
    "nvmlDeviceGetUUID": text(lambda b: b.uuid),
    "nvmlDeviceGetName": text(lambda b: b.name),
    "nvmlDeviceGetCudaComputeCapability": capability,
    "nvmlDeviceGetNumGpuCores": cores,
    "nvmlDeviceGetAttributes_v2": attributes,
    "nvmlDeviceGetMigMode": mig_mode,
    "nvmlDeviceGetMaxMigDeviceCount": answer(lambda b: 7 if b.mig_uuids else 0),
    "nvmlDeviceGetMigDeviceHandleByIndex": mig_by_index,
    "nvmlDeviceGetMaxClockInfo": clock("max_clocks"),
    "nvmlDeviceGetClockInfo": clock("clocks"),
    "nvmlDeviceGetMemoryBusWidth": answer(lambda b: 6144),
    "nvmlDeviceGetMemoryInfo": memory,
    "nvmlDeviceGetMemoryInfo_v2": memory,
    "nvmlDeviceGetEnforcedPowerLimit": answer(lambda b: b.limit_mw),
    "nvmlDeviceGetPowerUsage": answer(lambda b: b.power_mw),
    "nvmlDeviceGetTotalEnergyConsumption": answer(lambda b: b.energy_mj),
    "nvmlDeviceGetTemperature": answer(lambda b: b.temperature),
    "nvmlDeviceGetUtilizationRates": utilization,
    "nvmlDeviceGetCurrentClocksEventReasons": answer(lambda b: b.reasons),
    "nvmlDeviceGetCurrentClocksThrottleReasons": answer(lambda b: b.reasons),
    "nvmlDeviceGetMaxPcieLinkGeneration": answer(lambda b: 5),
    "nvmlDeviceGetMaxPcieLinkWidth": answer(lambda b: 16),
    "nvmlDeviceGetCurrPcieLinkGeneration": answer(lambda b: b.link[0]),
    "nvmlDeviceGetCurrPcieLinkWidth": answer(lambda b: b.link[1]),
    "nvmlDeviceGetTotalEccErrors": answer(lambda b: b.ecc),
    "nvmlDeviceGetComputeRunningProcesses_v3": processes,
    "nvmlDeviceGetVirtualizationMode": answer(lambda b: 0),
    "nvmlEventSetCreate": event_set,
    "nvmlDeviceRegisterEvents": register_events,
    "nvmlEventSetWait_v2": wait_for_event,
    "nvmlEventSetFree": free_events,
    "nvmlGpmQueryDeviceSupport": gpm_support,
    "nvmlGpmSampleAlloc": gpm_alloc,
    "nvmlGpmSampleFree": gpm_free,
    "nvmlGpmSampleGet": gpm_get,
    "nvmlGpmMetricsGet": gpm_metrics,
}


@pytest.fixture
def board() -> type[Board]:
    """How a test describes a simulated GPU."""
    return Board


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """The simulated library in the place of libnvidia-ml; every session must be ended by the end."""
    simulated = Library()
    monkeypatch.setattr(pynvml, "nvmlLib", simulated)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    yield simulated
    assert simulated.sessions == 0, "an NVML session was left open"
    assert not simulated.gpm_alive, "a GPM snapshot was not freed"
    assert not simulated.event_sets, "a set of events was not freed"
