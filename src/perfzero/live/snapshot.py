"""
What all GPUs do at one moment, as frozen values, and how they are made from what the sources say. Pure.

    GPM and board rows -> Course (what was seen of one GPU, a few minutes) -> GpuNow -> Snapshot

The figures of a `GpuNow` are those of the last reading. Where the last minute went is told by the
diagnosis's own split (`perfzero.diagnose.split`), applied to GPM's averages. An average over a second
holds kernels of many kinds, so it says which resource was used most, and not which kernel used it.
Without GPM (before Hopper) no share of time is told at all: NVML knows that some kernel ran.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np

from perfzero.diagnose.roofs import Roofs, roofs_of
from perfzero.diagnose.split import classify, rates_of
from perfzero.diagnose.verdict import TIME_CLASSES, TimeClass
from perfzero.limits import CHOICE, Limit
from perfzero.values import FloatArray, Gpu, Samples

NAN = math.nan

LiveTier = Literal["gpm", "nvml"]

GPM_COUNTERS = (
    "gr_active", "sm_active", "tensor_active", "dram_active", "fp32_active", "fp64_active",
    "pcie_rx_bytes", "pcie_tx_bytes", "nvlink_rx_bytes", "nvlink_tx_bytes",
)  # fmt: skip
"""What GPM is asked for: what is shown and what the split needs, since each costs CPU at every reading."""

CLASSIFIED_S: Annotated[float, Limit("seconds", CHOICE)] = 60.0
"""Where time went is told of the last minute: long enough for several steps, short enough to be now."""

COLUMN_S = 2.0
"""One column of a trail: a hundred of them, on a wide terminal, are more than three minutes."""

COLUMNS = 120
"""The longest trail that is kept; no card is wider."""

STALE_S: Annotated[float, Limit("seconds", CHOICE)] = 10.0
"""Figures older than this are no longer shown as if they were now."""

STALE_READINGS: Annotated[float, Limit("count", CHOICE)] = 3.0
"""The same in readings, where these are far apart."""

MEMORY_STALE: Annotated[int, Limit("ratio", CHOICE)] = 6
"""Memory is read less often: it may be so many times as old as other figures before it is no longer shown."""

TRAILS = ("sm_active", "tensor_active", "dram_roof_share", "pcie_link_share", "nvlink_share",
          "power_share", "smi_utilization")  # fmt: skip
"""The figures of which the past is kept, all of them shares of 1."""

HELD_DOWN = ("capped_power", "capped_thermal", "capped_hardware")
"""What can hold the clocks down, by the columns of the board."""


@dataclass(frozen=True, slots=True)
class ProcessNow:
    """A process on a GPU. `memory` in bytes is NaN, `user` and `command` are "" where they are not told."""

    gpu: int
    pid: int
    user: str
    command: str
    memory: float


@dataclass(frozen=True, slots=True)
class GpuNow:
    """
    One GPU at one moment; what is not known is NaN.

    `seconds`: the time that the counters are averages over. Rates are in bytes/s, `*_share` of a practical
    roof, `power_share` of the limit. `held_down`: those of `HELD_DOWN` that hold. `shares`: where the last
    `shares_s` seconds went, empty where that cannot be told. `trails`: the past by the names of `TRAILS`, one
    figure for each `Snapshot.column_s`, the newest last. `processes` is None where the driver tells of none.
    `without_gpm`: why there are no counters; `lost`: why nothing is read any more.
    """

    gpu: Gpu
    tier: LiveTier
    seconds: float = NAN
    gr_active: float = NAN
    sm_active: float = NAN
    tensor_active: float = NAN
    dram_roof_share: float = NAN
    pcie_rx: float = NAN
    pcie_tx: float = NAN
    pcie_link_share: float = NAN
    nvlink_rx: float = NAN
    nvlink_tx: float = NAN
    nvlink_share: float = NAN
    power: float = NAN
    power_limit: float = NAN
    power_share: float = NAN
    sm_clock: float = NAN
    sm_clock_max: float = NAN
    temperature: float = NAN
    held_down: tuple[str, ...] = ()
    smi_utilization: float = NAN
    memory_used: float = NAN
    memory_total: float = NAN
    shares: Mapping[TimeClass, float] = field(default_factory=dict)
    shares_s: float = 0.0
    trails: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    processes: tuple[ProcessNow, ...] | None = None
    without_gpm: str = ""
    lost: str = ""

    @property
    def first_class(self) -> TimeClass | None:
        """The class that took most of the last minute; None where that cannot be told."""
        return max(self.shares.items(), key=lambda item: item[1])[0] if self.shares else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All GPUs at one moment, and the notices that belong to no single one."""

    time_ns: int
    gpus: tuple[GpuNow, ...]
    driver: str = ""
    host: str = ""
    column_s: float = COLUMN_S
    notices: tuple[str, ...] = ()


class Trail:
    """The means of a figure over stretches of *column_s*, the newest last; NaN where nothing was read."""

    def __init__(self, column_s: float = COLUMN_S, *, columns: int = COLUMNS) -> None:
        self._column_ns = round(column_s * 1e9)
        self._means: deque[float] = deque(maxlen=columns)
        self._at = 0  # the number of the last column, counted from 1970
        self._sum, self._count = 0.0, 0

    def add(self, time_ns: int, value: float) -> None:
        """Take in *value*, seen at *time_ns*; what comes late belongs to the last column."""
        at = time_ns // self._column_ns
        if not self._means or at > self._at:
            skipped = min(at - self._at - 1, self._means.maxlen or 0) if self._means else 0
            self._means.extend([NAN] * (skipped + 1))
            self._at, self._sum, self._count = at, 0.0, 0
        if math.isfinite(value):
            self._sum += value
            self._count += 1
            self._means[-1] = self._sum / self._count

    def columns(self) -> tuple[float, ...]:
        """The means."""
        return tuple(self._means)


class Course:
    """What has been seen of one GPU so far: as much as `now` needs."""

    def __init__(
        self,
        gpu: Gpu,
        *,
        tier: LiveTier,
        without_gpm: str = "",
        every_s: float = 1.0,
        column_s: float = COLUMN_S,
    ) -> None:
        self.gpu = gpu
        self._tier = tier
        self._without_gpm = without_gpm
        self._stale_ns = round(max(STALE_S, STALE_READINGS * every_s) * 1e9)
        self._trails = {name: Trail(column_s) for name in TRAILS}
        self._link = Samples.empty()  # one row, with the best PCIe link seen so far
        self._roofs = roofs_of(gpu, self._link)
        self._classified: deque[tuple[int, float, FloatArray]] = deque()
        self._counters: dict[str, float] = {}
        self._counters_ns = self._board_ns = self._memory_ns = 0
        self._board: dict[str, float] = {}
        self._memory_used = NAN

    def add(self, gpm: Samples, board: Samples) -> None:
        """Take in the rows that have come since the last call; either table may be empty."""
        if len(board):
            self._take_board(board)
        if len(gpm):
            self._take_counters(gpm)

    def now(
        self,
        time_ns: int,
        *,
        power_limit_w: float | None = None,
        processes: Sequence[ProcessNow] | None = None,
        lost: str = "",
    ) -> GpuNow:
        """The GPU at *time_ns*."""
        fresh = {} if time_ns - self._counters_ns > self._stale_ns else self._counters
        board = {} if time_ns - self._board_ns > self._stale_ns else self._board
        remembered_ns = time_ns - self._memory_ns
        limit_w = power_limit_w or self.gpu.power_limit_w or NAN
        shares, shares_s = self._shares(time_ns)
        return GpuNow(
            gpu=self.gpu,
            tier=self._tier,
            **{name: value for name, value in fresh.items() if name != "power_share"},
            power=board.get("power", NAN),
            power_limit=limit_w,
            power_share=board.get("power", NAN) / limit_w,
            sm_clock=board.get("sm_clock", NAN),
            sm_clock_max=self.gpu.sm_clock_max_hz or NAN,
            temperature=board.get("temperature", NAN),
            held_down=tuple(name for name in HELD_DOWN if board.get(name, NAN) > 0),
            smi_utilization=board.get("smi_utilization", NAN),
            memory_used=NAN if remembered_ns > MEMORY_STALE * self._stale_ns else self._memory_used,
            memory_total=float(self.gpu.memory_bytes or NAN),
            shares=shares,
            shares_s=shares_s,
            trails={name: trail.columns() for name, trail in self._trails.items()},
            processes=None if processes is None else tuple(processes),
            without_gpm=self._without_gpm,
            lost=lost,
        )

    def _take_board(self, rows: Samples) -> None:
        last = int(rows.end_ns[-1])
        self._board_ns = last
        self._board = {
            name: float(rows.column(name)[-1])
            for name in ("power", "sm_clock", "temperature", "smi_utilization")
        }
        self._board |= {name: _greatest(rows.column(name)) for name in HELD_DOWN}
        used = rows.column("memory_used")
        if np.isfinite(used).any():
            self._memory_used, self._memory_ns = float(used[np.isfinite(used)][-1]), last
        if rows.has("pcie_generation"):
            names = ("pcie_generation", "pcie_width")
            best = {n: np.fmax(self._link.column(n), 0.0) if len(self._link) else np.zeros(1) for n in names}
            seen = {n: np.fmax(best[n], _greatest(rows.column(n))) for n in names}
            self._link = Samples(rows.start_ns[-1:], rows.end_ns[-1:], seen)
            self._roofs = roofs_of(self.gpu, self._link)
        limit_w = self.gpu.power_limit_w or NAN
        for end_ns, power, smi in zip(
            rows.end_ns, rows.column("power"), rows.column("smi_utilization"), strict=True
        ):
            self._trails["power_share"].add(int(end_ns), float(power) / limit_w)
            self._trails["smi_utilization"].add(int(end_ns), float(smi))

    def _take_counters(self, rows: Samples) -> None:
        figures = _figures(rows, self._roofs)
        seconds = rows.duration_s
        self._counters_ns = int(rows.end_ns[-1])
        # What has come at once is shown as one: the mean over its time.
        self._counters = {name: _mean(values, seconds) for name, values in figures.items()}
        self._counters["seconds"] = float(seconds.sum())
        for name in TRAILS:
            if name in figures:
                for end_ns, value in zip(rows.end_ns, figures[name], strict=True):
                    self._trails[name].add(int(end_ns), float(value))
        known = rows.where(np.isfinite(rows.column("gr_active")))
        for end_ns, length, weights in zip(
            known.end_ns, known.duration_s, classify(rates_of(known, self._roofs)), strict=True
        ):
            self._classified.append((int(end_ns), float(length), weights))

    def _shares(self, time_ns: int) -> tuple[dict[TimeClass, float], float]:
        while self._classified and self._classified[0][0] <= time_ns - CLASSIFIED_S * 1e9:
            self._classified.popleft()
        whole = sum(seconds for _, seconds, _ in self._classified)
        if not whole > 0:
            return {}, 0.0
        total = np.sum([seconds * weights for _, seconds, weights in self._classified], axis=0) / whole
        return dict(zip(TIME_CLASSES, total.tolist(), strict=True)), whole


def _figures(rows: Samples, roofs: Roofs) -> dict[str, FloatArray]:
    """The counters of *rows* as they are shown: shares of time, of roofs, and rates; each of shape (n,)."""
    seconds = rows.duration_s
    with np.errstate(divide="ignore", invalid="ignore"):
        down, up = rows.column("pcie_rx_bytes") / seconds, rows.column("pcie_tx_bytes") / seconds
        into, out = rows.column("nvlink_rx_bytes") / seconds, rows.column("nvlink_tx_bytes") / seconds
        return {
            "gr_active": rows.column("gr_active"),
            "sm_active": rows.column("sm_active"),
            "tensor_active": rows.column("tensor_active"),
            "dram_roof_share": rows.column("dram_active") * roofs.dram_peak / roofs.dram,
            "pcie_rx": down,
            "pcie_tx": up,
            "pcie_link_share": np.fmax(down, up) / roofs.pcie,
            "nvlink_rx": into,
            "nvlink_tx": out,
            "nvlink_share": np.fmax(into, out) / roofs.nvlink,
        }


def _mean(values: FloatArray, seconds: FloatArray) -> float:
    known = np.isfinite(values)
    whole = float(seconds[known].sum())
    return float((values[known] * seconds[known]).sum()) / whole if whole > 0 else NAN


def _greatest(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else NAN
