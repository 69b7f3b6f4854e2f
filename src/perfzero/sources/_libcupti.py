"""
The binding to libcupti: ctypes over the documented C functions, and nothing else.

Every function takes one parameter structure whose first field is its own size; the size
that is passed ends with the last field the caller knows (CUPTI_PROFILER_STRUCT_SIZE), which
is how libraries of CUDA 12.6 to 13.x are served by one set of structures. Layouts follow
cupti_pmsampling.h, cupti_profiler_host.h, cupti_profiler_target.h and cupti_target.h.

No policy lives here: what to sample, when, and what the numbers mean is `sources.cupti`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# CUptiResult values that callers tell apart (cupti_result.h).
OUT_OF_MEMORY = 8
INVALID_PARAMETER = 1
INVALID_METRIC_NAME = 17
HARDWARE_BUSY = 26
NOT_SUPPORTED = 27
VIRTUALIZED = 33
INSUFFICIENT_PRIVILEGES = 35
VIRTUALIZED_PRIVILEGES = 40
CONFIDENTIAL_COMPUTING = 41
MIG_NOT_SUPPORTED = 43
WSL_NOT_SUPPORTED = 45

PM_SAMPLING = 1  # CUPTI_PROFILER_TYPE_PM_SAMPLING
TRIGGER_SYSCLK = 0  # CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL
TRIGGER_TIME = 1  # CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL
STOP_IMAGE_FULL = 1  # CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL

ATTRIBUTE_SM_COUNT = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
ATTRIBUTE_L2_BYTES = 38  # CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE

SIBLINGS = ("libnvperf_target.so", "libnvperf_host.so")
"""What libcupti loads from its own folder."""


class CuptiError(Exception):
    """A call into libcupti returned something other than success. `code` is its CUptiResult."""

    def __init__(self, function: str, code: int, text: str = "") -> None:
        super().__init__(f"{function} returned {code}{f' ({text})' if text else ''}")
        self.function = function
        self.code = code


class CudaError(Exception):
    """A call into libcuda returned something other than success. `code` is its CUresult."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function} returned {code}")
        self.code = code


class _Params(ctypes.Structure):
    """A parameter structure: knows the size that ends with its last (or a named) field."""

    def __init__(self, last: str | None = None, **values: Any) -> None:
        super().__init__(**values)
        name = last or self._fields_[-1][0]
        field = getattr(type(self), name)
        self.structSize = field.offset + field.size


def _params(*fields: tuple[str, Any]) -> type[_Params]:
    """A structure with the two fields that all share, then *fields*."""
    return type("Params", (_Params,), {"_fields_": [("structSize", c_size_t), ("pPriv", c_void_p), *fields]})


Image: TypeAlias = "ctypes.Array[c_uint8]"
"""A binary blob that the library fills or reads."""

_Names = POINTER(c_char_p)
_Initialize = _params()
_ChipName = _params(("deviceIndex", c_size_t), ("pChipName", c_char_p))

_HostInitialize = _params(
    ("profilerType", c_int),
    ("pChipName", c_char_p),
    ("pCounterAvailabilityImage", c_void_p),
    ("pHostObject", c_void_p),
    ("pSinglePassMetricSetName", c_char_p),
)
_HostDeinitialize = _params(("pHostObject", c_void_p))
_HostSupportedChips = _params(("numChips", c_size_t), ("ppChipNames", _Names))
_HostAddMetrics = _params(("pHostObject", c_void_p), ("ppMetricNames", _Names), ("numMetrics", c_size_t))
_HostConfigSize = _params(("pHostObject", c_void_p), ("configImageSize", c_size_t))
_HostConfigImage = _params(
    ("pHostObject", c_void_p), ("configImageSize", c_size_t), ("pConfigImage", c_void_p)
)
_HostPasses = _params(("configImageSize", c_size_t), ("pConfigImage", c_void_p), ("numOfPasses", c_size_t))
_HostEvaluate = _params(
    ("pHostObject", c_void_p),
    ("pCounterDataImage", c_void_p),
    ("counterDataImageSize", c_size_t),
    ("rangeIndex", c_size_t),
    ("ppMetricNames", _Names),
    ("numMetrics", c_size_t),
    ("pMetricValues", c_void_p),
)

_PmAvailability = _params(
    ("deviceIndex", c_size_t),
    ("counterAvailabilityImageSize", c_size_t),
    ("pCounterAvailabilityImage", c_void_p),
)
_PmEnable = _params(("deviceIndex", c_size_t), ("pPmSamplingObject", c_void_p))
_PmObject = _params(("pPmSamplingObject", c_void_p))
_PmSetConfig = _params(
    ("pPmSamplingObject", c_void_p),
    ("configSize", c_size_t),
    ("pConfig", c_void_p),
    ("hardwareBufferSize", c_size_t),
    ("samplingInterval", c_uint64),
    ("triggerMode", c_int),
    ("hwBufferAppendMode", c_int),
)
_PmDataSize = _params(
    ("pPmSamplingObject", c_void_p),
    ("pMetricNames", _Names),
    ("numMetrics", c_size_t),
    ("maxSamples", c_uint32),
    ("counterDataSize", c_size_t),
)
_PmImageInitialize = _params(
    ("pPmSamplingObject", c_void_p), ("counterDataSize", c_size_t), ("pCounterData", c_void_p)
)
_PmDecode = _params(
    ("pPmSamplingObject", c_void_p),
    ("pCounterDataImage", c_void_p),
    ("counterDataImageSize", c_size_t),
    ("decodeStopReason", c_int),
    ("overflow", c_uint8),
)
_PmDataInfo = _params(
    ("pCounterDataImage", c_void_p),
    ("counterDataImageSize", c_size_t),
    ("numTotalSamples", c_size_t),
    ("numPopulatedSamples", c_size_t),
    ("numCompletedSamples", c_size_t),
)
_PmSampleInfo = _params(
    ("pPmSamplingObject", c_void_p),
    ("pCounterDataImage", c_void_p),
    ("counterDataImageSize", c_size_t),
    ("sampleIndex", c_size_t),
    ("startTimestamp", c_uint64),
    ("endTimestamp", c_uint64),
)


def _c_names(names: Sequence[str]) -> ctypes.Array[c_char_p]:
    """*names* as a C array of strings. The array keeps the bytes alive."""
    return (c_char_p * len(names))(*(n.encode("ascii") for n in names))


def _bytes(size: int) -> Image:
    """A zeroed buffer of *size* bytes."""
    return (c_uint8 * size)()


class Cuda:
    """The few driver calls needed to find a device. No context is ever created."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code:
            raise CudaError(name, code)

    def index_of(self, uuid: str) -> int | None:
        """The CUDA ordinal of the device with NVML's *uuid* ("GPU-..."), or None."""
        count = c_int()
        self._call("cuDeviceGetCount", byref(count))
        wanted = uuid.removeprefix("GPU-").replace("-", "").lower()
        raw = (c_uint8 * 16)()
        for index in range(count.value):
            device = c_int()
            self._call("cuDeviceGet", byref(device), index)
            self._call("cuDeviceGetUuid", byref(raw), device)
            if bytes(raw).hex() == wanted:
                return index
        return None

    def attribute(self, index: int, attribute: int) -> int:
        """A device attribute, e.g. `ATTRIBUTE_SM_COUNT`."""
        device, value = c_int(), c_int()
        self._call("cuDeviceGet", byref(device), index)
        self._call("cuDeviceGetAttribute", byref(value), attribute, device)
        return value.value


class Library:
    """One loaded libcupti. `version` is what cuptiGetVersion says (24: CUDA 12.6, 130000: 13.0)."""

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._cupti = ctypes.CDLL(self.path)
        number = c_uint32()
        self.call("cuptiGetVersion", byref(number))
        self.version = number.value
        self.has_pm_sampling = hasattr(self._cupti, "cuptiPmSamplingEnable")
        self._siblings: list[ctypes.CDLL] = []
        self._initialized = False

    def call(self, name: str, *arguments: Any) -> None:
        """Call *name*; raises `CuptiError` on anything but success."""
        code = getattr(self._cupti, name)(*arguments)
        if code:
            raise CuptiError(name, code, self._result_text(code))

    def function(self, name: str) -> Any:
        """The bare function, for loops in which checking is the caller's."""
        return getattr(self._cupti, name)

    def _result_text(self, code: int) -> str:
        text = c_char_p()
        try:
            self._cupti.cuptiGetResultString(code, byref(text))
        except (AttributeError, OSError):
            return ""
        return text.value.decode("ascii", "replace") if text.value else ""

    def initialize(self) -> None:
        """cuptiProfilerInitialize, once, with the libraries that lie beside this one."""
        if not self._initialized:
            # libcupti opens these by bare name; loading them first by path makes it find its own. Not
            # before now: they stay loaded, and a libcupti that turns out too old must not leave any.
            folder = os.path.dirname(self.path)
            self._siblings = [
                ctypes.CDLL(sibling, mode=ctypes.RTLD_GLOBAL)
                for name in SIBLINGS
                if os.path.exists(sibling := os.path.join(folder, name))
            ]
            self.call("cuptiProfilerInitialize", byref(_Initialize(last="pPriv")))
            self._initialized = True

    def chip_name(self, index: int) -> str:
        """The chip of CUDA device *index*, e.g. "GH100"."""
        p = _ChipName(deviceIndex=index)
        self.call("cuptiDeviceGetChipName", byref(p))
        return bytes(p.pChipName).decode("ascii")

    def supported_chips(self) -> tuple[str, ...]:
        """Every chip this library can schedule metrics for, with or without such a device here."""
        p = _HostSupportedChips()
        self.call("cuptiProfilerHostGetSupportedChips", byref(p))
        return tuple(p.ppChipNames[i].decode("ascii") for i in range(p.numChips))

    def availability(self, index: int) -> Image:
        """
        The counter availability image of a device.

        Without it, one counter that the board lacks (NVLink on a single-GPU board) makes every
        sample stay incomplete for ever, with no error.
        """
        p = _PmAvailability(deviceIndex=index)
        self.call("cuptiPmSamplingGetCounterAvailability", byref(p))
        image = _bytes(p.counterAvailabilityImageSize)
        p.pCounterAvailabilityImage = ctypes.addressof(image)
        self.call("cuptiPmSamplingGetCounterAvailability", byref(p))
        return image


class Host:
    """A profiler host object: schedules metrics for a chip and evaluates samples."""

    def __init__(self, library: Library, chip: str, *, availability: Image | None = None) -> None:
        self._library = library
        self._availability = availability
        values: dict[str, Any] = {
            "profilerType": PM_SAMPLING,
            "pChipName": chip.encode("ascii"),
            "pCounterAvailabilityImage": ctypes.addressof(availability) if availability else None,
        }
        # Libraries before 13.2 know no pSinglePassMetricSetName: pass the size that ends before it.
        p = _HostInitialize(last="pHostObject", **values)
        try:
            library.call("cuptiProfilerHostInitialize", byref(p))
        except CuptiError as error:
            if error.code != INVALID_PARAMETER:
                raise
            p = _HostInitialize(**values)
            library.call("cuptiProfilerHostInitialize", byref(p))
        self.handle = p.pHostObject

    def add(self, metrics: Sequence[str]) -> None:
        """Schedule *metrics*; raises `CuptiError` for a name unknown to this library and chip."""
        names = _c_names(metrics)
        p = _HostAddMetrics(pHostObject=self.handle, ppMetricNames=names, numMetrics=len(metrics))
        self._library.call("cuptiProfilerHostConfigAddMetrics", byref(p))

    def config_image(self) -> Image:
        """The configuration for all metrics added so far."""
        size = _HostConfigSize(pHostObject=self.handle)
        self._library.call("cuptiProfilerHostGetConfigImageSize", byref(size))
        image = _bytes(size.configImageSize)
        p = _HostConfigImage(
            pHostObject=self.handle, configImageSize=len(image), pConfigImage=ctypes.addressof(image)
        )
        self._library.call("cuptiProfilerHostGetConfigImage", byref(p))
        return image

    def passes(self, config: Image) -> int:
        """How many passes *config* needs. PM sampling can do one."""
        p = _HostPasses(configImageSize=len(config), pConfigImage=ctypes.addressof(config))
        self._library.call("cuptiProfilerHostGetNumOfPasses", byref(p))
        return int(p.numOfPasses)

    def close(self) -> None:
        """Free the object. Harmless when called twice."""
        if self.handle:
            p = _HostDeinitialize(pHostObject=self.handle)
            self.handle = None
            self._library.call("cuptiProfilerHostDeinitialize", byref(p))

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class PmObject:
    """
    PM sampling enabled on one device: the thin, checked form of cuptiPmSampling*.

    Creating it takes the counters of the device for this process; `disable` gives them back
    and finalises CUPTI in this process.
    """

    def __init__(self, library: Library, index: int) -> None:
        self._library = library
        p = _PmEnable(deviceIndex=index)
        library.call("cuptiPmSamplingEnable", byref(p))
        self.handle = p.pPmSamplingObject
        self._image: Image | None = None

    def configure(self, config: Image, *, buffer_bytes: int, interval: int, trigger: int) -> None:
        """cuptiPmSamplingSetConfig. *interval* is in nanoseconds or SYS clocks, by *trigger*."""
        values: dict[str, Any] = {
            "pPmSamplingObject": self.handle,
            "configSize": len(config),
            "pConfig": ctypes.addressof(config),
            "hardwareBufferSize": buffer_bytes,
            "samplingInterval": interval,
            "triggerMode": trigger,
        }
        try:
            self._library.call("cuptiPmSamplingSetConfig", byref(_PmSetConfig(**values)))
        except CuptiError as error:
            if error.code != INVALID_PARAMETER:
                raise
            # CUDA 12.6 knows no hwBufferAppendMode: pass the size that ends before it.
            self._library.call("cuptiPmSamplingSetConfig", byref(_PmSetConfig(last="triggerMode", **values)))

    def allocate(self, metrics: Sequence[str], *, samples: int) -> int:
        """Make the counter data image for at most *samples* samples; returns its size in bytes."""
        names = _c_names(metrics)
        p = _PmDataSize(
            pPmSamplingObject=self.handle, pMetricNames=names, numMetrics=len(metrics), maxSamples=samples
        )
        self._library.call("cuptiPmSamplingGetCounterDataSize", byref(p))
        self._image = _bytes(p.counterDataSize)
        self._reset_image()
        return len(self._image)

    def _reset_image(self) -> None:
        assert self._image is not None
        p = _PmImageInitialize(
            pPmSamplingObject=self.handle,
            counterDataSize=len(self._image),
            pCounterData=ctypes.addressof(self._image),
        )
        self._library.call("cuptiPmSamplingCounterDataImageInitialize", byref(p))

    def start(self) -> None:
        """Let the hardware sample."""
        self._library.call("cuptiPmSamplingStart", byref(_PmObject(pPmSamplingObject=self.handle)))

    def stop(self) -> None:
        """Stop the hardware; what it recorded can still be decoded."""
        self._library.call("cuptiPmSamplingStop", byref(_PmObject(pPmSamplingObject=self.handle)))

    def decode(
        self, host: Host, metrics: Sequence[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], bool, bool]:
        """
        What the hardware has recorded since the last call, as far as the image holds it.

        Returns (start_ns, end_ns, values, overflow, full): int64 of shape (n,), float64 of shape
        (n, len(metrics)), whether the hardware buffer overflowed, and whether the image was too
        small. In that case the records that follow are lost: a decode into a fresh image after
        a full one completes no sample (seen with 13.0), so callers make the image large enough.
        Raises `CuptiError` with `OUT_OF_MEMORY` when the buffer has overflowed for good.
        """
        assert self._image is not None
        address, size = ctypes.addressof(self._image), len(self._image)
        p = _PmDecode(pPmSamplingObject=self.handle, pCounterDataImage=address, counterDataImageSize=size)
        self._library.call("cuptiPmSamplingDecodeData", byref(p))
        info = _PmDataInfo(pCounterDataImage=address, counterDataImageSize=size)
        self._library.call("cuptiPmSamplingGetCounterDataInfo", byref(info))
        start, end, values = self._evaluate(host, metrics, int(info.numCompletedSamples))
        if info.numPopulatedSamples:
            self._reset_image()
        return start, end, values, bool(p.overflow), p.decodeStopReason == STOP_IMAGE_FULL

    def _evaluate(
        self, host: Host, metrics: Sequence[str], count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        # The hot loop: two calls into NVIDIA's library per sample, values written in place.
        assert self._image is not None
        address, size = ctypes.addressof(self._image), len(self._image)
        start, end = np.empty(count, np.int64), np.empty(count, np.int64)
        values = np.full((count, len(metrics)), np.nan)
        names = _c_names(metrics)
        info = _PmSampleInfo(
            pPmSamplingObject=self.handle, pCounterDataImage=address, counterDataImageSize=size
        )
        evaluate = _HostEvaluate(
            pHostObject=host.handle,
            pCounterDataImage=address,
            counterDataImageSize=size,
            ppMetricNames=names,
            numMetrics=len(metrics),
        )
        get_info = self._library.function("cuptiPmSamplingCounterDataGetSampleInfo")
        get_values = self._library.function("cuptiProfilerHostEvaluateToGpuValues")
        info_at, evaluate_at = byref(info), byref(evaluate)
        row, stride = values.ctypes.data, values.strides[0]
        for i in range(count):
            info.sampleIndex = i
            evaluate.rangeIndex = i
            evaluate.pMetricValues = row
            code = get_info(info_at) or get_values(evaluate_at)
            if code:
                raise CuptiError("evaluating a sample", code)
            start[i], end[i] = info.startTimestamp, info.endTimestamp
            row += stride
        return start, end, values

    def disable(self) -> None:
        """Give the counters of the device back. Harmless when called twice."""
        if self.handle:
            p = _PmObject(pPmSamplingObject=self.handle)
            self.handle = None
            self._image = None
            self._library.call("cuptiPmSamplingDisable", byref(p))
