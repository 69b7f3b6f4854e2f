"""
The state of the board, from NVML: clocks, power, what holds the clocks down, the link, memory.

Board state costs the GPU nothing and needs no permission, but says little about the work: it
is the ground under the other sources, and all there is on machines without them.

The calls come in two groups, because NVML walks into the driver for each and some of them take
milliseconds there. FAST ones change within a second and are made at every reading. SLOW ones
(link, ECC, memory, processes) describe states that last for minutes, and enumerate or lock more
in the driver; they are made at every `SLOW_EVERY`th reading (or as `Board.slow_every` says), the
first included. In between
their columns are NaN: a value that was not read is missing, and repeating the last one would
count it five times in every mean.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from perfzero.counters import BOARD_COUNTERS, Counter
from perfzero.sources import _nvml
from perfzero.sources._nvml import (
    cuda_driver_version,
    discover,
    mig_devices,
    processes,
    select,
    session,
    virtualization,
)
from perfzero.values import Gpu, Samples

__all__ = [
    "SLOW_EVERY",
    "Board",
    "cuda_driver_version",
    "discover",
    "mig_devices",
    "processes",
    "select",
    "session",
    "virtualization",
]

SLOW_EVERY = 5
"""Readings from one round of slow calls to the next: 2.5 s at 2 Hz, often enough for states that last."""

NAN = float("nan")


class Board:
    """
    The board state of one GPU; each `read` is one reading, for the time since the previous one.

    `power_limit_w` is the limit now in force, in watts; `held_by` are the processes that held a
    compute context when last asked, by pid with the bytes of device memory each has (NaN where that is
    not told), None where the driver tells of no process; `pids` are the same without the bytes. `xids` are
    the errors that the driver has reported since the reading before the last. `slow_every` may be changed at
    any time. `calls` counts the calls into NVML since `open`, `spent_ns` the time they took.
    """

    name = "board"
    counters: Sequence[Counter] = BOARD_COUNTERS

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.power_limit_w = gpu.power_limit_w
        self.held_by: dict[int, float] | None = None
        self.xids: tuple[int, ...] = ()
        self.slow_every = SLOW_EVERY
        self.spent_ns = 0
        self._device: _nvml.Device | None = None
        self._events: _nvml.XidEvents | None = None
        self._readings = 0
        self._last_ns = 0

    @property
    def pids(self) -> frozenset[int] | None:
        """The processes that held a compute context when last asked, None where the driver does not tell."""
        return None if self.held_by is None else frozenset(self.held_by)

    @property
    def calls(self) -> int:
        """How many calls into NVML were made since `open`."""
        return 0 if self._device is None else self._device.calls

    def open(self) -> None:
        """Initialise NVML and take the stamp from which the first reading counts."""
        if self._device is not None:
            return
        nvml = _nvml.open_session()
        try:
            device = _nvml.Device(nvml, self.gpu.uuid)
        except BaseException:
            _nvml.close_session(nvml)
            raise
        self._device = device
        self._events = _nvml.XidEvents(device)
        self._readings = 0
        self.spent_ns = 0
        self._last_ns = time.time_ns()

    def read(self) -> Samples:
        """
        One row for [previous reading, now). Raises `SourceError` when the GPU has gone.

        The capped_* columns are 1 or 0: their means over many rows are the shares. Empty when
        the clock of the machine was set back since the last call.
        """
        device = self._device
        if device is None:
            return Samples.empty(c.name for c in self.counters)
        began = time.perf_counter_ns()
        # First: of a GPU that is lost the rest raises, and this is the reason.
        self.xids = () if self._events is None else tuple(self._events.take())
        row = self._fast(device)
        if self._readings % self.slow_every == 0:
            row |= self._slow(device)
        self._readings += 1
        self.spent_ns += time.perf_counter_ns() - began

        start_ns, end_ns = self._last_ns, time.time_ns()
        self._last_ns = end_ns
        if end_ns <= start_ns:
            return Samples.empty(c.name for c in self.counters)
        # The driver's own energy counter costs 3.6 ms of CPU a call (H200, driver 580), 35 times
        # the reading of the power, which it averages over a second: so power times time it is.
        row["energy"] = row["power"] * (end_ns - start_ns) / 1e9
        return Samples(
            np.array([start_ns], np.int64),
            np.array([end_ns], np.int64),
            {c.name: np.array([row.get(c.name, NAN)], np.float64) for c in self.counters},
        )

    def free_bytes(self) -> int | None:
        """Memory of the GPU that nobody has taken, now; None where the driver does not tell."""
        memory = None if self._device is None else _memory(self._device)
        return None if memory is None else int(memory.free)

    def close(self) -> None:
        """End the NVML session."""
        if self._events is not None:
            self._events.close()
            self._events = None
        if self._device is not None:
            _nvml.close_session(self._device.nvml)
            self._device = None

    def _fast(self, device: _nvml.Device) -> dict[str, float]:
        nvml = device.nvml
        utilization = device.ask("nvmlDeviceGetUtilizationRates")
        return {
            "sm_clock": _times(device.ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM), 1e6),
            "memory_clock": _times(device.ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM), 1e6),
            "power": _times(device.ask("nvmlDeviceGetPowerUsage"), 1e-3),
            "temperature": _times(device.ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU), 1.0),
            "smi_utilization": NAN if utilization is None else utilization.gpu / 100,
            **_capped(device),
        }

    def _slow(self, device: _nvml.Device) -> dict[str, float]:
        nvml = device.nvml
        limit_mw = device.ask("nvmlDeviceGetEnforcedPowerLimit")
        if limit_mw:
            self.power_limit_w = limit_mw * 1e-3
        memory = _memory(device)
        self.held_by = _nvml.compute_memory(device)
        uncorrected = device.ask(
            "nvmlDeviceGetTotalEccErrors", nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        )
        return {
            "memory_used": NAN if memory is None else float(memory.used),
            "pcie_generation": _link(device.ask("nvmlDeviceGetCurrPcieLinkGeneration")),
            "pcie_width": _link(device.ask("nvmlDeviceGetCurrPcieLinkWidth")),
            "ecc_uncorrected": _times(uncorrected, 1.0),
            "processes": NAN if self.held_by is None else float(len(self.held_by)),
        }


def _memory(device: _nvml.Device) -> Any:
    """The second version leaves out what the driver keeps for itself, as nvidia-smi does."""
    return device.ask("nvmlDeviceGetMemoryInfo", device.nvml.nvmlMemory_v2) or device.ask(
        "nvmlDeviceGetMemoryInfo"
    )


def _capped(device: _nvml.Device) -> dict[str, float]:
    """What holds the clocks down, from the bits of nvmlClocksEventReasons (nvml.h)."""
    nvml = device.nvml
    reasons = device.ask("nvmlDeviceGetCurrentClocksEventReasons")
    if reasons is None:  # drivers before 535 know it by its older name only
        reasons = device.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    if reasons is None:
        return {}
    thermal = nvml.nvmlClocksEventReasonSwThermalSlowdown | nvml.nvmlClocksEventReasonHwThermalSlowdown
    hardware = nvml.nvmlClocksEventReasonHwSlowdown | nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown
    return {
        "capped_power": float(bool(reasons & nvml.nvmlClocksEventReasonSwPowerCap)),
        "capped_thermal": float(bool(reasons & thermal)),
        "capped_hardware": float(bool(reasons & hardware)),
    }


def _times(value: Any, scale: float) -> float:
    return NAN if value is None else float(value) * scale


def _link(value: Any) -> float:
    """A link of generation 0 or of no lanes is one that the driver cannot see (as in many VMs)."""
    return NAN if not value else float(value)
