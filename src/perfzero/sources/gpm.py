"""
Averages of the hardware counters between two moments, from NVML GPM (Hopper and later).

GPM runs beside every other tool, needs no PM sampling session and costs the observed program
nothing that could be measured, so it runs always. One snapshot is taken at each `read`; the
library turns two consecutive ones into averages.

Two things it does with return code 0 have to be kept out (measured on an H200, driver 580):
pairs closer than 100 ms read zero, and the cache and context-switch metrics (ids 160 and up)
read zero always. The first is the reason for `MIN_PAIR_NS`; the second ids are not asked for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from perfzero.counters import Counter, gpm_counters
from perfzero.errors import NotSupported
from perfzero.sources import _nvml
from perfzero.values import Gpu, Samples
from perfzero.words.said import say

MIN_PAIR_NS = 120_000_000
"""Least distance of two snapshots. Below 100 ms the library returns zeros; a fifth more for its own clock."""

MIB = 1 << 20

NAN = float("nan")


class Gpm:
    """
    GPM averages of one GPU; each `read` that comes late enough is one row since the previous one.

    *names* are the counters to ask for, by default all: each costs about 0.1 ms of CPU a reading.
    """

    name = "gpm"

    def __init__(self, gpu: Gpu, *, names: Sequence[str] | None = None) -> None:
        self.gpu = gpu
        self.counters: Sequence[Counter] = [c for c in gpm_counters() if names is None or c.name in names]
        self._nvml: Any = None
        self._device: _nvml.Device | None = None
        self._samples: list[Any] = []  # the last snapshot but one, and the last
        self._taken_ns = 0  # when the previous snapshot was taken: Unix time
        self._taken_monotonic_ns = 0

    @property
    def calls(self) -> int:
        """How many calls into NVML were made for this device since `open`, allocations left out."""
        return 0 if self._device is None else self._device.calls

    def open(self) -> None:
        """
        Take the first snapshot.

        Raises `NotSupported` where the GPU, the driver or MIG rules GPM out, `NotPermitted` where
        the driver keeps it for administrators.
        """
        if self._device is not None:
            return
        if self.gpu.mig:
            raise NotSupported(say("gpm.mig", name=self.gpu.name))
        nvml = _nvml.open_session()
        self._nvml = nvml
        try:
            device = _nvml.Device(nvml, self.gpu.uuid)
            _demand_support(device, self.gpu)
            for _ in range(2):
                self._samples.append(_allocate(nvml))
            self._take(device.demand)
            self._device = device
        except BaseException:
            self.close()
            raise

    def read(self) -> Samples:
        """
        One row for the time since the previous snapshot; empty while that is nearer than `MIN_PAIR_NS`.

        NaN where the library did not deliver a metric. A snapshot that fails leaves the table empty
        and the next row longer. Raises `SourceError` when the GPU has gone.
        """
        device = self._device
        if device is None or time.monotonic_ns() - self._taken_monotonic_ns < MIN_PAIR_NS:
            return Samples.empty(c.name for c in self.counters)
        start_ns = self._taken_ns
        taken = self._take(device.ask)
        end_ns = self._taken_ns
        if not taken or end_ns <= start_ns:  # or the machine's clock was set back
            return Samples.empty(c.name for c in self.counters)
        values = self._difference(device, (end_ns - start_ns) / 1e9)
        return Samples(
            np.array([start_ns], np.int64),
            np.array([end_ns], np.int64),
            {name: np.array([value], np.float64) for name, value in values.items()},
        )

    def close(self) -> None:
        """Free the snapshots and end the NVML session."""
        if self._nvml is None:
            return
        for sample in self._samples:
            with suppress(self._nvml.NVMLError):  # the library frees it with the process anyway
                self._nvml.nvmlGpmSampleFree(sample)
        self._samples.clear()
        _nvml.close_session(self._nvml)
        self._device = None
        self._nvml = None

    def _take(self, call: Callable[..., Any]) -> bool:
        """Take a snapshot over the older of the two; its moment is the middle of the call."""
        before_ns = time.time_ns()
        if call("nvmlGpmSampleGet", self._samples[0]) is None:
            return False
        self._taken_ns = (before_ns + time.time_ns()) // 2
        self._taken_monotonic_ns = time.monotonic_ns()
        self._samples.reverse()
        return True

    def _difference(self, device: _nvml.Device, duration_s: float) -> dict[str, float]:
        nvml = self._nvml
        request = nvml.c_nvmlGpmMetricsGet_t()
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(self.counters)
        request.sample1, request.sample2 = self._samples
        for slot, counter in zip(request.metrics, self.counters, strict=False):
            slot.metricId = counter.gpm
        device.calls += 1
        try:
            nvml.nvmlGpmMetricsGet(request)
        except nvml.NVMLError:
            return {c.name: NAN for c in self.counters}
        return {
            counter.name: _value(slot, counter, duration_s, success=nvml.NVML_SUCCESS)
            for slot, counter in zip(request.metrics, self.counters, strict=False)
        }


def supported(gpu: Gpu) -> bool:
    """Whether the driver offers GPM for *gpu*; no snapshot is taken."""
    if gpu.mig:
        return False
    with _nvml.session() as nvml:
        support = _nvml.Device(nvml, gpu.uuid).ask("nvmlGpmQueryDeviceSupport")
        return support is not None and bool(support.isSupportedDevice)


def _demand_support(device: _nvml.Device, gpu: Gpu) -> None:
    support = device.ask("nvmlGpmQueryDeviceSupport")
    if support is None:
        raise NotSupported(say("gpm.driver", driver=gpu.driver or "", name=gpu.name))
    if not support.isSupportedDevice:
        raise NotSupported(say("gpm.none", name=gpu.name))


def _allocate(nvml: Any) -> Any:
    try:
        return nvml.nvmlGpmSampleAlloc()
    except nvml.NVMLError as error:
        raise _nvml.translate(nvml, error, "nvmlGpmSampleAlloc") from error


def _value(slot: Any, counter: Counter, duration_s: float, *, success: int) -> float:
    value = float(slot.value)
    if slot.nvmlReturn != success or not math.isfinite(value):
        return NAN
    if counter.unit == "bytes":
        return value * MIB * duration_s  # the library gives MiB/s
    return value / 100  # and percent for the rest
