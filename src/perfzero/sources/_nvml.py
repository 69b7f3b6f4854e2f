"""
The only file that speaks to NVML (through nvidia-ml-py, imported when first needed).

    session()       loads and initialises the library, or says why not
    Device          one GPU; what it does not support is asked once, and is None from then on
    discover()      the GPUs of this machine as `Gpu` values
    select()        some of them, by index, GPU UUID or MIG UUID
    processes()     who holds a compute context on a GPU
    XidEvents       the errors that the driver reports of a GPU from now on

Every `NVMLError` ends here: as None where a single figure is missing, as a `SourceError` where
nothing more will come. NVML only observes; nothing here sets anything on the GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from perfzero.errors import NoGpu, NoLibrary, NotPermitted, NotSupported, SourceError, UsageError
from perfzero.values import Gpu
from perfzero.words.said import say

MIG_PREFIX = "MIG-"

MOST_XIDS = 100
"""A GPU that falls off the bus may report the same error without end; so many are taken at once."""

# FP32 cores per SM by compute capability, as the CUDA samples' _ConvertSMVer2Cores has them
# (helper_cuda.h); every capability from 8.6 on has 128. NVML tells cores, never SMs.
_CORES_PER_SM = {
    (6, 0): 64, (6, 1): 128, (6, 2): 128, (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64,
}  # fmt: skip
_CORES_PER_SM_SINCE_8_6 = 128


@contextmanager
def session() -> Iterator[Any]:
    """The initialised `pynvml` module; NVML counts its users, so sessions may nest."""
    nvml = open_session()
    try:
        yield nvml
    finally:
        close_session(nvml)


def open_session() -> Any:
    """
    Load and initialise NVML and return the `pynvml` module.

    Raises `NoLibrary` without nvidia-ml-py, `NoGpu` where no driver answers.
    """
    try:
        import pynvml
    except ImportError as error:
        raise NoLibrary(say("nvml.no_package")) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _no_driver(pynvml, error) from error
    return pynvml


def close_session(nvml: Any) -> None:
    """End one session. Never raises: there is nothing a caller could do about it."""
    with suppress(nvml.NVMLError):
        nvml.nvmlShutdown()


class Device:
    """
    One GPU or MIG device, asked by the names of pynvml's functions.

    `calls` counts the calls into NVML, so that the price of a reading can be seen.
    """

    def __init__(self, nvml: Any, uuid: str) -> None:
        self.nvml = nvml
        self.uuid = uuid
        self.calls = 0
        self._unsupported: set[tuple[Any, ...]] = set()
        try:
            self.handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        except nvml.NVMLError as error:
            raise NoGpu(say("nvml.no_such_gpu", uuid=uuid, why=error)) from error

    def ask(self, function: str, *arguments: Any) -> Any:
        """
        What `pynvml.<function>(handle, *arguments)` returns, or None where the GPU does not tell.

        "Not supported" and its kin are remembered and never asked again; a passing failure is
        None this once. Raises `SourceError` when the GPU or the driver is gone.
        """
        key = (function, *(a for a in arguments if isinstance(a, int)))
        if key in self._unsupported:
            return None
        self.calls += 1
        try:
            return getattr(self.nvml, function)(self.handle, *arguments)
        except (self.nvml.NVMLError, self.nvml.NVMLLibraryMismatchError) as error:
            code = getattr(error, "value", self.nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
            if code in _gone(self.nvml):
                raise SourceError(say("nvml.lost", uuid=self.uuid, why=error)) from error
            if code in _never(self.nvml):
                self._unsupported.add(key)
            return None

    def demand(self, function: str, *arguments: Any) -> Any:
        """Like `ask`, for calls without which nothing can be read: every failure is a `SourceError`."""
        self.calls += 1
        try:
            return getattr(self.nvml, function)(self.handle, *arguments)
        except self.nvml.NVMLError as error:
            raise translate(self.nvml, error, function) from error


def translate(nvml: Any, error: Exception, what: str) -> SourceError:
    """The perfzero error for an `NVMLError` that ended *what*."""
    code = getattr(error, "value", None)
    if code == nvml.NVML_ERROR_NO_PERMISSION:
        return NotPermitted(say("nvml.permission", what=what))
    if code in _never(nvml):
        return NotSupported(say("nvml.unsupported", what=what, why=error))
    return SourceError(say("nvml.failed", what=what, why=error))


def discover() -> list[Gpu]:
    """All GPUs in NVML's order. Raises `NoGpu` where there is none, `NoLibrary` without nvidia-ml-py."""
    with session() as nvml:
        try:
            count = nvml.nvmlDeviceGetCount()
            uuids = [nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]
        except nvml.NVMLError as error:
            raise _no_driver(nvml, error) from error
        if not uuids:
            raise NoGpu(say("nvml.no_gpu"))
        driver = driver_version(nvml)
        return [_describe(Device(nvml, uuid), index, driver) for index, uuid in enumerate(uuids)]


def select(wanted: Sequence[str]) -> list[Gpu]:
    """
    The GPUs named by *wanted*: NVML indices ("0"), GPU UUIDs or MIG UUIDs, each once, in that order.

    Raises `UsageError` for a name that fits none.
    """
    found = discover()
    chosen: dict[str, Gpu] = {}
    for name in wanted:
        gpu = next((g for g in found if name in (str(g.index), g.uuid)), None)
        if gpu is None and name.startswith(MIG_PREFIX):
            gpu = next((m for g in found if g.mig for m in mig_devices(g) if m.uuid == name), None)
        if gpu is None:
            here = ", ".join(f"{g.index} ({g.uuid})" for g in found)
            raise UsageError(say("gpu.unknown", name=f"{name!r}", here=here))
        chosen.setdefault(gpu.uuid, gpu)
    return list(chosen.values())


def mig_devices(gpu: Gpu) -> list[Gpu]:
    """The MIG devices into which *gpu* is divided, each with its own UUID, SMs and memory."""
    with session() as nvml:
        parent = Device(nvml, gpu.uuid)
        devices = []
        for position in range(parent.ask("nvmlDeviceGetMaxMigDeviceCount") or 0):
            handle = parent.ask("nvmlDeviceGetMigDeviceHandleByIndex", position)
            if handle is not None:
                uuid = nvml.nvmlDeviceGetUUID(handle)
                devices.append(_describe(Device(nvml, uuid), gpu.index, gpu.driver))
        return devices


def processes(gpu: Gpu) -> list[int] | None:
    """
    The processes with a compute context on *gpu*, or None where the driver does not tell.

    Inside a container the list may be empty although the GPU is in use: the driver hides
    processes of other PID namespaces.
    """
    with session() as nvml:
        return compute_pids(Device(nvml, gpu.uuid))


def compute_pids(device: Device) -> list[int] | None:
    """As `processes`, for a device that is open."""
    found = compute_memory(device)
    return None if found is None else sorted(found)


def compute_memory(device: Device) -> dict[int, float] | None:
    """Device memory in bytes by process with a compute context, NaN where the driver keeps it to itself."""
    found = device.ask("nvmlDeviceGetComputeRunningProcesses")
    if found is None:
        return None
    held: dict[int, float] = {}
    for process in found:  # one that MIG shows once for each of its instances
        used = process.usedGpuMemory
        held[int(process.pid)] = held.get(int(process.pid), 0.0) + (math.nan if used is None else float(used))
    return held


class XidEvents:
    """
    The Xid errors of an open *device*, from now on: what the driver writes into the kernel's log.

    Where it does not tell (MIG devices, old drivers, some virtual machines) there are none.
    """

    def __init__(self, device: Device) -> None:
        self._nvml = nvml = device.nvml
        self._set: Any = None
        try:
            self._set = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(device.handle, nvml.nvmlEventTypeXidCriticalError, self._set)
        except nvml.NVMLError:
            self.close()

    def take(self) -> list[int]:
        """The numbers of the errors since the last call, in order; does not wait."""
        found: list[int] = []
        while self._set is not None and len(found) < MOST_XIDS:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._set, 0)
            except self._nvml.NVMLError as error:
                if error.value != self._nvml.NVML_ERROR_TIMEOUT:  # the GPU is lost: no more will come
                    self.close()
                break
            if event.eventType == self._nvml.nvmlEventTypeXidCriticalError:
                found.append(int(event.eventData))
        return found

    def close(self) -> None:
        """Let go of them. Harmless when called twice."""
        events, self._set = self._set, None
        if events is not None:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlEventSetFree(events)


def virtualization(gpu: Gpu) -> str | None:
    """How the GPU is virtualised: "none", "passthrough", "vgpu", "vgpu host", or None where unknown."""
    with session() as nvml:
        mode = Device(nvml, gpu.uuid).ask("nvmlDeviceGetVirtualizationMode")
        return {
            nvml.NVML_GPU_VIRTUALIZATION_MODE_NONE: "none",
            nvml.NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH: "passthrough",
            nvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU: "vgpu",
            nvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU: "vgpu host",
            nvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA: "vgpu host",
        }.get(mode)


def cuda_driver_version() -> str | None:
    """The newest CUDA version the driver supports, e.g. "13.0"."""
    with session() as nvml:
        try:
            number = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
        except nvml.NVMLError:
            return None
        return f"{number // 1000}.{number % 1000 // 10}"  # 13000 means 13.0, 12080 means 12.8


def driver_version(nvml: Any) -> str | None:
    """The driver's version, e.g. "580.159.04"."""
    try:
        return str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError:
        return None


def _describe(device: Device, index: int, driver: str | None) -> Gpu:
    nvml = device.nvml
    mig = device.uuid.startswith(MIG_PREFIX)
    mode = device.ask("nvmlDeviceGetMigMode")
    memory = device.ask("nvmlDeviceGetMemoryInfo")
    capability = device.ask("nvmlDeviceGetCudaComputeCapability")
    capability = None if capability is None else (int(capability[0]), int(capability[1]))
    limit_mw = device.ask("nvmlDeviceGetEnforcedPowerLimit")
    if limit_mw is None:
        limit_mw = device.ask("nvmlDeviceGetPowerManagementLimit")
    return Gpu(
        index=index,
        uuid=device.uuid,
        name=str(device.ask("nvmlDeviceGetName") or "unknown GPU"),
        compute_capability=capability,
        sm_count=_sm_count(device, capability, mig=mig),
        sm_clock_max_hz=_scaled(device.ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM), 1e6),
        memory_clock_max_hz=_scaled(device.ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM), 1e6),
        memory_bus_bits=_known(device.ask("nvmlDeviceGetMemoryBusWidth")),
        memory_bytes=None if memory is None else _known(memory.total),
        power_limit_w=_scaled(limit_mw, 1e-3),
        pcie_generation_max=_known(device.ask("nvmlDeviceGetMaxPcieLinkGeneration")),
        pcie_width_max=_known(device.ask("nvmlDeviceGetMaxPcieLinkWidth")),
        driver=driver,
        mig=mig or bool(mode and mode[0]),
    )


def _sm_count(device: Device, capability: tuple[int, int] | None, *, mig: bool) -> int | None:
    if mig:  # the attributes exist only there, and count the SMs of the slice
        attributes = device.ask("nvmlDeviceGetAttributes_v2")
        return None if attributes is None else _known(attributes.multiprocessorCount)
    cores = device.ask("nvmlDeviceGetNumGpuCores")
    if cores is None or capability is None:
        return None
    per_sm = _CORES_PER_SM_SINCE_8_6 if capability >= (8, 6) else _CORES_PER_SM.get(capability)
    # A remainder means that the table is wrong for this chip: better unknown than off by a half.
    return None if per_sm is None or cores % per_sm else _known(cores // per_sm)


def _scaled(value: Any, scale: float) -> float | None:
    return None if not value else float(value) * scale


def _known(value: Any) -> int | None:
    """NVML answers 0 for sizes it cannot tell; unknown figures are None."""
    return None if not value else int(value)


def _no_driver(nvml: Any, error: Exception) -> NoGpu:
    code = getattr(error, "value", None)
    if code == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return NoGpu(say("driver.updated"))
    if code == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return NoGpu(say("driver.not_found"))
    return NoGpu(say("driver.silent", why=error))


def _gone(nvml: Any) -> frozenset[int]:
    return frozenset(
        {
            nvml.NVML_ERROR_UNINITIALIZED,
            nvml.NVML_ERROR_DRIVER_NOT_LOADED,
            nvml.NVML_ERROR_GPU_IS_LOST,
            nvml.NVML_ERROR_RESET_REQUIRED,
        }
    )


def _never(nvml: Any) -> frozenset[int]:
    # INVALID_ARGUMENT is what MIG devices answer to calls that only a whole GPU has.
    return frozenset(
        {
            nvml.NVML_ERROR_INVALID_ARGUMENT,
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
            nvml.NVML_ERROR_DEPRECATED,
        }
    )
