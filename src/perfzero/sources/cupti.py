"""
Hardware counters of a whole GPU, sampled by the GPU itself and read from outside.

CUPTI's PM sampling sees every process on the device and needs no context of its own. It is
exclusive: one session per device. This module opens and closes sessions, and turns raw samples
into `Samples`: stale first ones dropped, order and length checked, our own PCIe traffic taken
off, losses counted. Which library is used is decided in `_find_libcupti`, which metrics in
`_one_pass`. It belongs into a process of its own (`perfzero.record.sampler`): leaving PM sampling
finalises CUPTI in its process.

The model and all constants: docs/measurements.md; NVIDIA's cupti_pmsampling.h.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from perfzero import metric_sets
from perfzero.counters import Counter, metric_scale, pm_counters
from perfzero.errors import DeviceBusy, NoGpu, NotPermitted, PerfzeroError, SourceError
from perfzero.sources import _libcupti
from perfzero.sources._find_libcupti import find_libraries, load_cuda, load_library
from perfzero.sources._libcupti import CudaError, CuptiError, Host, PmObject
from perfzero.sources._one_pass import NO_TIME_TRIGGER, Resolution, resolve_for_chip
from perfzero.values import Samples
from perfzero.words.said import say

__all__ = [
    "CuptiDevice",
    "CuptiError",
    "Decoded",
    "Loss",
    "PmDevice",
    "PmSampler",
    "Resolution",
    "explain",
    "find_libraries",
    "load_cuda",
    "resolve_for_chip",
]

IMAGE_MARGIN = (1.1, 64)
"""
The counter-data image holds this factor times the samples of one drain, plus this many. It takes
30 to 50 KB a sample and is reset after each drain, so a generous one wastes CPU; a full one loses
what follows it.
"""

LATE_SAMPLES = 1000
"""
For a drain that comes late the image grows to so many samples at most, if one in time does not need more: two
seconds at the usual period, as much as its hardware buffer holds. A burst has one drain, for which there is
room from the start; what comes after its end is not worth a gigabyte.
"""

RECORD_BYTES = 3300
"""
Upper bound of what one sample takes per metric in the hardware buffer, and so of our own PCIe
traffic: 15 KB a sample on an idle H200 at 22 metrics, up to 67 KB while its units are busy.
"""

BUFFER_BYTES = (16 << 20, 512 << 20)
"""Least and largest hardware buffer asked for: pinned host memory, and getting its pages costs CPU."""

SMALLEST_RECORD_BYTES = 500
"""What a sample takes per metric at least: the hardware buffer cannot hold more samples than that gives."""

BUFFER_MARGIN = 1.3
"""The hardware buffer holds this factor times the records of one drain: a busy host drains late."""

MISSING_AFTER = 1.5
"""A distance between the ends of two samples of more than this many periods is a hole."""

START_STOP_NS = 20_000_000
"""Starting and stopping take a few milliseconds (1.5 and 2.6 on an H200), in which no sample is owed."""

FRONT_END = ("queue_empty", "queue_semaphore", "queue_wfi", "ctxsw")
CROWDED = 3
"""
With so many of `FRONT_END` in the pass, `launches` is (nearly) 0 in the sample that was under way when the
one before was read out, so in the first of each drain but a window's first: 9 of 9 drains with three or
four of them on an H200, none with two (docs/measurements.md).
"""

SILENT_S = 1.0
"""Sampling that delivers nothing for this long (and 50 periods) has ended by itself (seen with 13.5)."""

SYS_CLOCK_HZ = 1.2e9
"""Assumed SYS clock where it triggers the samples. Each sample carries its times, so it need not be exact."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Raw samples as the library hands them over: values of shape (n, number of metrics)."""

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    values: NDArray[np.float64]
    overflow: bool = False  # the hardware buffer was full
    full: bool = False  # the image was too small: what follows is lost


class PmDevice(Protocol):
    """
    One GPU as PM sampling sees it: the seam at which tests put a simulated device.

    All methods raise `CuptiError` with the code of the failing call.
    """

    chip: str
    library_version: int
    sm_count: int | None
    l2_bytes: int | None

    def enable(self) -> None:
        """Take the counters of the device."""
        ...

    def resolve(self, wanted: Sequence[Counter]) -> Resolution:
        """Choose the metrics for *wanted* that fit one pass."""
        ...

    def configure(self, metrics: Sequence[str], *, period_ns: int, buffer_bytes: int) -> None:
        """Set what is sampled and how often, once per session: a second call changes nothing."""
        ...

    def start(self) -> None:
        """Let the hardware sample."""
        ...

    def stop(self) -> None:
        """Stop the hardware."""
        ...

    def decode(self, room: int) -> Decoded:
        """What has been recorded since the last call, with room for *room* samples."""
        ...

    def disable(self) -> None:
        """Give the counters back."""
        ...


class CuptiDevice:
    """A real GPU behind `PmDevice`. *uuid* as NVML gives it."""

    def __init__(self, uuid: str, *, hints: Sequence[str] = ()) -> None:
        cuda = load_cuda()
        try:
            index = cuda.index_of(uuid)
            if index is None:
                raise NoGpu(say("cupti.hidden", uuid=uuid))
            self.sm_count: int | None = cuda.attribute(index, _libcupti.ATTRIBUTE_SM_COUNT)
            self.l2_bytes: int | None = cuda.attribute(index, _libcupti.ATTRIBUTE_L2_BYTES)
        except CudaError as error:
            raise NoGpu(say("cupti.driver_silent", uuid=uuid, why=error)) from None
        try:
            self._library = load_library(hints, index=index)
            self.chip = self._library.chip_name(index)
        except CuptiError as error:
            raise explain(error) from None
        self._index = index
        self.library_version = self._library.version
        self.library_path = self._library.path
        self._availability: _libcupti.Image | None = None
        self._pm: PmObject | None = None
        self._host: Host | None = None
        self._metrics: tuple[str, ...] = ()
        self._room = 0

    def enable(self) -> None:
        """Take the counters of the device."""
        if self._availability is None:  # asking for it is refused, too, while another tool holds them
            self._availability = self._library.availability(self._index)
        self._pm = PmObject(self._library, self._index)

    def resolve(self, wanted: Sequence[Counter]) -> Resolution:
        """Choose the metrics for *wanted* that fit one pass on this very board."""
        known: Mapping[str, str] = {}
        with contextlib.suppress(PerfzeroError):  # a table that is missing only makes it slower
            known = metric_sets.load().of_version(self.library_version).get(self.chip, {})
        return resolve_for_chip(
            self._library, self.chip, availability=self._availability, wanted=wanted, known=known
        )

    def configure(self, metrics: Sequence[str], *, period_ns: int, buffer_bytes: int) -> None:
        """Set what is sampled and how often, once per session: a second call changes nothing."""
        assert self._pm is not None
        self._metrics = tuple(metrics)
        self._room = 0
        self._host = Host(self._library, self.chip, availability=self._availability)
        self._host.add(metrics)
        # The library may keep pointers into the configuration: it lives as long as the session.
        self._config = self._host.config_image()
        by_time = not self.chip.startswith(NO_TIME_TRIGGER)
        self._pm.configure(
            self._config,
            buffer_bytes=buffer_bytes,
            interval=period_ns if by_time else max(1, round(period_ns * 1e-9 * SYS_CLOCK_HZ)),
            trigger=_libcupti.TRIGGER_TIME if by_time else _libcupti.TRIGGER_SYSCLK,
        )

    def start(self) -> None:
        """Let the hardware sample."""
        assert self._pm is not None
        self._pm.start()

    def stop(self) -> None:
        """Stop the hardware."""
        assert self._pm is not None
        self._pm.stop()

    def decode(self, room: int) -> Decoded:
        """What has been recorded since the last call, with room for *room* samples."""
        assert self._pm is not None
        assert self._host is not None
        if room > self._room or room < self._room // 2:  # a late drain's large image is not kept
            self._pm.allocate(self._metrics, samples=room)
            self._room = room
        return Decoded(*self._pm.decode(self._host, self._metrics))

    def disable(self) -> None:
        """Give the counters back; a new session needs a new `enable` and `configure`."""
        pm, host = self._pm, self._host
        self._pm = self._host = None
        self._metrics = ()
        try:
            if pm is not None:
                pm.disable()
        finally:
            if host is not None:
                with contextlib.suppress(CuptiError):  # disabling may have finalised CUPTI already
                    host.close()


@dataclass(frozen=True, slots=True)
class Loss:
    """Time in which a window should hold samples and does not."""

    start_ns: int
    end_ns: int
    samples: int
    reason: str


class PmSampler:
    """
    PM sampling of one GPU in this process: open, any number of windows, close.

    Not a `Source` by itself: windows have to be started and stopped. `read` returns what came
    since the last call, with canonical columns; `losses` what went missing in the current window.
    Period and counters belong to the session: to change them, close and open again.
    """

    def __init__(
        self,
        device: PmDevice,
        *,
        clock_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._device = device
        self._clock_ns = clock_ns  # what the samples are stamped with; it may be set
        self._monotonic_ns = monotonic_ns
        self._resolutions: dict[tuple[str, ...], Resolution] = {}
        self.resolution: Resolution | None = None
        self.period_ns = 0
        self._open = False
        self._running = False
        self._room = self._most_room = 0
        self._window_start_ns = 0
        self._last_end_ns = 0
        self._drained_ns = self._came_ns = 0  # monotonic: the last drain, and the last that brought samples
        self._count = 0
        self._why_missing = ""
        self.losses: list[Loss] = []

    @property
    def running(self) -> bool:
        """Whether the hardware samples now."""
        return self._running

    @property
    def is_open(self) -> bool:
        """Whether this process holds the counters."""
        return self._open

    @property
    def last_end_ns(self) -> int:
        """Where the last sample of the current window ends; the window's start while there is none."""
        return self._last_end_ns

    def open(
        self, *, period_ns: int, drain_s: float, counters: Sequence[Counter] | None = None
    ) -> Resolution:
        """
        Take the counters, to be sampled every *period_ns* and read at least every *drain_s* seconds.

        Raises `DeviceBusy`, `NotPermitted` or another `SourceError`.
        """
        wanted = pm_counters() if counters is None else tuple(counters)
        try:
            self._device.enable()
        except CuptiError as error:
            raise explain(error) from None
        self._open = True
        try:
            key = tuple(c.name for c in wanted)
            if key not in self._resolutions:
                self._resolutions[key] = self._device.resolve(wanted)
            resolution = self._resolutions[key]
            if not resolution.metrics:
                raise SourceError(say("cupti.no_counter"))
            per_drain = drain_s * 1e9 / period_ns * RECORD_BYTES * len(resolution.metrics)
            buffer_bytes = int(min(max(BUFFER_MARGIN * per_drain, BUFFER_BYTES[0]), BUFFER_BYTES[1]))
            self._device.configure(
                tuple(resolution.metrics.values()), period_ns=period_ns, buffer_bytes=buffer_bytes
            )
        except CuptiError as error:
            self.close()
            raise explain(error) from None
        except SourceError:
            self.close()
            raise
        self.resolution = resolution
        self.period_ns = period_ns
        held = buffer_bytes // (SMALLEST_RECORD_BYTES * len(resolution.metrics)) + IMAGE_MARGIN[1]
        self._room = min(int(IMAGE_MARGIN[0] * drain_s * 1e9 / period_ns) + IMAGE_MARGIN[1], held)
        self._most_room = min(held, LATE_SAMPLES)
        return resolution

    def start(self) -> None:
        """Begin a window."""
        try:
            self._device.start()
        except CuptiError as error:
            raise explain(error) from None
        self._running = True
        self._window_start_ns = self._last_end_ns = self._clock_ns()
        self._drained_ns = self._came_ns = self._monotonic_ns()
        self._count = 0
        self._why_missing = ""
        self.losses = []

    def read(self) -> Samples:
        """The samples since the last call. Raises `SourceError` when the session is broken: close it then."""
        now, monotonic = self._clock_ns(), self._monotonic_ns()
        backlog = int(IMAGE_MARGIN[0] * (monotonic - self._drained_ns) / self.period_ns) + IMAGE_MARGIN[1]
        try:
            decoded = self._device.decode(max(self._room, min(backlog, self._most_room)))
        except CuptiError as error:
            self._running = False
            if error.code == _libcupti.OUT_OF_MEMORY:
                self._lose(self._last_end_ns, now, say("cupti.overflowed"))
            raise explain(error) from None
        self._drained_ns = monotonic
        # The flag alone is no loss: what is missing shows as a hole, in this drain or the next.
        why = say("cupti.overflowed") if decoded.overflow else ""
        samples = self._tidy(decoded, why or self._why_missing or say("cupti.missing"))
        self._why_missing = why
        if len(decoded.start_ns):
            self._came_ns = monotonic
        silent = monotonic - self._came_ns
        if self._running and silent > max(SILENT_S * 1e9, 50 * self.period_ns):
            self._lose(self._last_end_ns, now, say("cupti.ended"))
            raise SourceError(say("cupti.stopped"))
        return samples

    def stop(self) -> Samples:
        """End the window and return its last samples."""
        if not self._running:
            return Samples.empty()
        stopped_ns = self._clock_ns()
        self._running = False
        try:
            self._device.stop()
        except CuptiError as error:
            raise explain(error) from None
        samples = self.read()
        # Starting and stopping take a few milliseconds, in which no sample is owed.
        if stopped_ns - self._last_end_ns > max(4 * self.period_ns, START_STOP_NS):
            self._lose(self._last_end_ns, stopped_ns, self._why_missing or say("cupti.ended_before"))
        return samples

    def close(self) -> None:
        """Give the counters back. Never raises; harmless when called twice."""
        if not self._open:
            return
        self._open = self._running = False
        with contextlib.suppress(CuptiError):  # then the driver frees the device with the process
            self._device.disable()

    def _lose(self, start_ns: int, end_ns: int, reason: str) -> None:
        samples = round((end_ns - start_ns) / self.period_ns)
        if samples > 0:
            self.losses.append(Loss(start_ns, end_ns, samples, reason))

    def _tidy(self, decoded: Decoded, why_missing: str) -> Samples:
        """
        Canonical columns, and only rows that can be true; what is missing between them is a loss.

        A first sample may start at 0 or long ago (its length is then wrong, its end is not), and
        once such a one came last: each row's order and length is checked.
        """
        assert self.resolution is not None
        start, end = decoded.start_ns, decoded.end_ns
        length = end - start
        # Overflows and SYSCLK triggers stretch samples; a hundred periods is no sample any more.
        whole = (length > 0) & (length < 100 * self.period_ns)
        after = np.concatenate(([self._last_end_ns if self._count else 0], end[:-1]))[: len(start)]
        in_order = start > self._window_start_ns - max(3 * self.period_ns, START_STOP_NS)
        in_order &= start >= after - self.period_ns // 2
        early = whole & ~in_order
        if not self._count and len(start):  # what is left of the window before comes first, owed to nobody
            early[: max(1, int(np.argmax(whole & in_order)))] = False
        if early.any():
            # Stamps follow the machine's clock; a row that lies before the last one cannot be kept.
            stamps = int(start[early].min()), int(end[early].max())
            self.losses.append(Loss(*stamps, int(early.sum()), say("cupti.clock_back")))
        good = whole & in_order
        first_drain = not self._count
        start, end, values = start[good], end[good], decoded.values[good]
        if len(start):
            before = np.concatenate(([self._last_end_ns], end[:-1]))
            owed = np.full(len(start), (MISSING_AFTER - 1) * self.period_ns)
            if not self._count:  # since the window's start
                owed[0] = max(4 * self.period_ns, START_STOP_NS)
            for i in np.flatnonzero(start - before > owed):
                self._lose(int(before[i]), int(start[i]), why_missing)
            self._last_end_ns = int(end[-1])
            self._count += len(start)
        columns = {
            name: values[:, i] * metric_scale(metric)
            for i, (name, metric) in enumerate(self.resolution.metrics.items())
        }
        launches = columns.get("launches")
        crowded = sum(name in columns for name in FRONT_END) >= CROWDED
        if launches is not None and crowded and not first_drain and good[:1].any():
            launches[0] = np.nan
        sent = columns.get("pcie_tx_bytes")
        if sent is not None and len(sent):
            # The record stream goes to host memory and shows in our own numbers. Every sample
            # carries it, so what (nearly) every sample carries is ours, up to what it can be.
            own = min(float(np.percentile(sent, 5)), float(RECORD_BYTES * len(columns)))
            columns["pcie_tx_bytes"] = np.maximum(sent - own, 0.0)
        return Samples(start, end, columns)


def explain(error: CuptiError) -> SourceError:
    """A `CuptiError` in words: what happened, why, what to type next."""
    without = say("cupti.without")
    if error.code == _libcupti.HARDWARE_BUSY:
        return DeviceBusy(say("cupti.busy", without=without))
    if error.code in (_libcupti.INSUFFICIENT_PRIVILEGES, _libcupti.VIRTUALIZED_PRIVILEGES):
        return NotPermitted(say("cupti.not_permitted", without=without))
    reasons = {
        _libcupti.NOT_SUPPORTED: say("cupti.unsupported"),
        _libcupti.VIRTUALIZED: say("cupti.virtual"),
        _libcupti.CONFIDENTIAL_COMPUTING: say("cupti.confidential"),
        _libcupti.MIG_NOT_SUPPORTED: say("cupti.mig"),
        _libcupti.WSL_NOT_SUPPORTED: say("cupti.wsl"),
        _libcupti.OUT_OF_MEMORY: say("cupti.overflowed"),
    }
    why = reasons.get(error.code, str(error))
    return SourceError(say("cupti.cannot", why=why, without=without))
