"""
Watching one GPU: GPM and board all the time, PM sampling in windows by the policy.

A `GpuWatch` is ticked several times a second by the recorder. It polls the cheap sources when
they are due, asks the policy what to do with the sampler, and writes down everything that
comes, goes wrong or is missing. Nothing in here waits.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from perfzero.errors import DeviceBusy, NoGpu, NoLibrary, NotPermitted, SourceError
from perfzero.record.policy import DEFAULTS, Action, Policy, Settings, Situation
from perfzero.record.sampler_client import SamplerClient
from perfzero.record.settle import Settling
from perfzero.sources.gpm import Gpm
from perfzero.sources.nvml import Board
from perfzero.store.writer import RecordingWriter
from perfzero.values import Gap, Gpu, Note, Samples, Tier, Window, WindowKind

GPM_EVERY_S = 4.0
"""A GPM reading costs 3 ms of CPU (H200, 11 metrics). Windows have readings of their own, see `_poll`."""

GPM_EARLY_EVERY_S = 0.5
"""Until the program has settled, and where GPM is all there is: 0.6 % of a core."""

GPM_DEFAULT = (
    "gr_active", "sm_active", "tensor_active", "dram_active", "fma_active", "warps_active",
    "pcie_rx_bytes", "pcie_tx_bytes", "fp64_active", "nvlink_rx_bytes", "nvlink_tx_bytes",
)  # fmt: skip
"""What GPM is asked for: enough for the verdict of a run that has nothing else."""

BOARD_EVERY_S = 1.0

FLUSH_EVERY_S = 1.0
"""How much may be lost when the recorder is killed; a batch costs about 1.5 KB on disk, so no row by row."""

CAPPED_OVER_S = 10.0
"""The board counts as near its power cap when one reading of this time says so: it flickers."""

BUSY_LINK_BYTES_PER_S = 20e9
"""What counts as a link that is busy all the time, when the question is only whether anything happens."""

NEAR_LIMIT = 0.97
"""Board power from this share of its limit on counts as capped, whatever the event reasons say."""

PM_DEFAULT = (
    "gr_active", "sm_active", "tensor_active", "dram_read_bytes", "dram_write_bytes", "gpc_clock",
    "launches", "fma_active", "pcie_rx_bytes", "pcie_tx_bytes", "sm_issue", "warps_active",
    "l2_sectors", "l2_hit_sectors", "l2_hit", "ce_active", "queue_empty",
    "nvlink_rx_bytes", "nvlink_tx_bytes", "sys_clock", "dram_active",
)  # fmt: skip
"""What windows sample: 16 counters on a single H200, 0.13 ms of CPU per sample."""

PM_CONTINUOUS = (
    "gr_active", "sm_active", "tensor_active", "dram_read_bytes", "dram_write_bytes", "gpc_clock",
    "launches", "pcie_rx_bytes", "pcie_tx_bytes", "sm_issue", "warps_active", "ce_active", "queue_empty",
    "queue_semaphore", "queue_wfi", "ctxsw", "nvlink_rx_bytes", "nvlink_tx_bytes", "sys_clock", "dram_active",
)  # fmt: skip
"""
What `--continuous` samples: 16 again, but those of the L2's slices and of NVIDIA's set names left
out, which take half the CPU (0.07 instead of 0.13 ms per sample). The FP32 pipe then comes from GPM.
"""

ZOOM = (
    "gr_active", "sm_active", "tensor_active", "dram_read_bytes", "dram_write_bytes", "fma_active",
    "dram_active",
)  # fmt: skip
"""What tells kernels apart, and no more: a burst must fit into memory."""

RESTARTS = 2
"""A sampler that dies is started again so often; then the run goes on without it."""

ERRORS = {e.__name__: e for e in (DeviceBusy, NoGpu, NoLibrary, NotPermitted, SourceError)}
"""The sampler reports its errors by name."""

SourceChoice = Literal["auto", "pm", "gpm", "nvml"]


class GpuWatch:
    """One GPU in a recording."""

    def __init__(
        self,
        gpu: Gpu,
        *,
        writer: RecordingWriter,
        settings: Settings,
        source: SourceChoice,
        hints: Sequence[str],
        sudo: bool,
        say: Callable[[str], None],
    ) -> None:
        self.gpu = gpu
        self.board = Board(gpu)
        self.windows: list[Window] = []
        self.gpm_rows: list[Samples] = []
        self.pids: set[int] = set()
        """Every process that was seen to hold a context on this GPU."""
        self.tier_reason = ""
        self.sessions = 0
        self.sampler_cpu_s = 0.0
        self._gpm: Gpm | None = Gpm(gpu, names=GPM_DEFAULT) if source != "nvml" else None
        self._writer = writer
        self._settings = settings
        self._source = source
        self._hints = tuple(hints)
        self._may_sudo = sudo
        self._say = say
        self._policy = Policy(settings)
        self._settling = Settling()
        self._client: SamplerClient | None = None
        self._with_sudo = False
        self._lock = threading.Lock()
        self._inbox: list[Mapping[str, Any]] = []
        self._session: Literal["none", "opening", "window", "zoom"] = "none"
        self._opening: Literal["window", "zoom"] = "window"
        self._sampling = False
        self._pm_samples = 0
        self._working = False
        self._capped: list[tuple[float, bool]] = []
        self._gpm_due = self._board_due = self._flush_due = 0.0
        self._window_ends_s = math.inf
        self._pending: dict[str, list[Samples]] = {}
        self._missing_since_ns: int | None = None
        self._missing_why = ""
        self._restarts = 0
        self._pm_wanted = source in ("auto", "pm")
        self._told_settled = False
        self.fatal: SourceError | None = None
        """Why `--source pm` cannot be had; with another choice the run goes on with less."""

    def open(self) -> None:
        """Take the board and GPM. Raises `SourceError` only when the GPU itself cannot be read."""
        self.board.open()
        if self._gpm is not None:
            try:
                self._gpm.open()
            except SourceError as error:
                if self._source == "gpm":
                    raise
                self._gpm = None
                self._note("gpm", str(error).splitlines()[0])

    def start_sampler(self) -> None:
        """Start the process that holds the hardware counters, if they are wanted."""
        if self._pm_wanted and self._client is None:
            self._client = SamplerClient(
                self.gpu,
                on_samples=self._on_samples,
                on_event=self._on_event,
                hints=self._hints,
                sudo=self._with_sudo,
            )
            self._session = "opening"  # until it says it is ready

    @property
    def sampler_pid(self) -> int | None:
        """The process id of the sampler, for those who test what happens when it is killed."""
        return None if self._client is None else self._client.pid

    @property
    def tier(self) -> Tier:
        """What carried this GPU so far."""
        if self._pm_samples:
            return "pm"
        return "gpm" if self.gpm_rows else "nvml"

    @property
    def due_s(self) -> float:
        """The moment of the recording at which `tick` should be called even if it is not its turn."""
        return self._window_ends_s

    @property
    def working(self) -> bool:
        """Whether the GPU has had something to do."""
        return self._working

    def tick(self, now_s: float) -> None:
        """Do what is due at *now_s* seconds of the recording."""
        with self._lock:
            inbox, self._inbox = self._inbox, []
        for event in inbox:
            self._hear(event, now_s)
        self._poll(now_s)
        if self._client is None:
            return
        action = self._policy.decide(
            Situation(
                now_s=now_s,
                working=self._working,
                settled=self._settling.settled_at is not None,
                capped=self._is_capped(now_s),
                session=self._session,
                sampling=self._sampling,
            )
        )
        self._act(action, now_s)

    def close(self) -> None:
        """End the sampler and give everything back."""
        if self._client is not None:
            client, self._client = self._client, None
            client.quit()
            self.sampler_cpu_s += client.cpu_s
        with self._lock:
            inbox, self._inbox = self._inbox, []
        for event in inbox:
            if event.get("event") in ("window", "gap"):
                self._hear(event, 0.0)
        self._end_missing()
        self._flush()
        self.board.close()
        if self._gpm is not None:
            self._gpm.close()

    # --- the cheap sources ---

    def _poll(self, now_s: float, *, at_window: bool = False) -> None:
        rows: dict[str, Samples] = {}
        # A reading at both ends of a window gives one average of just that window: so the program's
        # rate with and without sampling can be compared.
        window_over = now_s >= self._window_ends_s
        if window_over:
            self._window_ends_s = math.inf
        if self._gpm is not None and (now_s >= self._gpm_due or window_over or at_window):
            early = self._settling.settled_at is None or not self._pm_wanted
            self._gpm_due = now_s + (GPM_EARLY_EVERY_S if early else GPM_EVERY_S)
            try:
                rows["gpm"] = self._gpm.read()
            except SourceError as error:
                self._note("gpm", str(error).splitlines()[0])
                self._gpm = None
            else:
                self.gpm_rows.append(rows["gpm"])
        if now_s >= self._board_due:
            self._board_due = now_s + BOARD_EVERY_S
            try:
                rows["board"] = self.board.read()
            except SourceError as error:
                self._note("board", str(error).splitlines()[0])
            self.pids |= self.board.pids or frozenset()
        for stream, samples in rows.items():
            self._pending.setdefault(stream, []).append(samples)
        if now_s >= self._flush_due:
            self._flush_due = now_s + FLUSH_EVERY_S
            self._flush()
        self._judge_state(rows, now_s)

    def _flush(self) -> None:
        for stream, parts in self._pending.items():
            self._writer.append(stream, self.gpu.index, Samples.concat(parts))
        self._pending = {}

    def _judge_state(self, rows: Mapping[str, Samples], now_s: float) -> None:
        board, gpm = rows.get("board"), rows.get("gpm")
        if board is not None and len(board):
            limit = self.board.power_limit_w
            near = limit is not None and board.column("power")[-1] >= NEAR_LIMIT * limit
            self._capped.append((now_s, bool(board.column("capped_power")[-1] > 0) or near))
            self._capped = [c for c in self._capped if c[0] > now_s - CAPPED_OVER_S]
        if gpm is not None and len(gpm):
            names = ("gr_active", "tensor_active", "dram_active")
            self._settling.add(now_s, [_activity(gpm), *(float(gpm.column(n)[-1]) for n in names)])
        elif self._gpm is None and board is not None and len(board):
            power = float(board.column("power")[-1]) / (self.board.power_limit_w or 500.0)
            self._settling.add(now_s, [float(board.column("smi_utilization")[-1]), power])
        else:
            return
        self._working = self._working or self._settling.working
        if self._settling.settled_at is not None and not self._told_settled:
            self._told_settled = True
            self._say(f"GPU {self.gpu.index}: warm-up is over after {now_s:.0f} s, looking closely")

    def _is_capped(self, now_s: float) -> bool:
        return any(capped for t, capped in self._capped if t > now_s - CAPPED_OVER_S)

    # --- the sampler ---

    def _act(self, action: Action, now_s: float) -> None:
        client, settings = self._client, self._settings
        assert client is not None
        if action.verb == "open":
            self._session = "opening"
            self._opening = "zoom" if action.zoom else "window"
            self.sessions += 1
            if action.zoom:
                assert settings.zoom_period_ns is not None
                client.open(period_ns=settings.zoom_period_ns, drain_s=settings.zoom_s, counters=ZOOM)
            else:
                client.open(
                    period_ns=settings.period_ns,
                    drain_s=DEFAULTS.drain_s,
                    counters=PM_CONTINUOUS if settings.continuous else PM_DEFAULT,
                )
        elif action.verb == "start":
            self._poll(now_s, at_window=True)
            self._sampling = True
            self._window_ends_s = math.inf if action.duration_s is None else now_s + action.duration_s
            client.start(kind=action.kind, duration_s=action.duration_s)
        elif action.verb == "stop":
            client.stop()
        elif action.verb == "close":
            self._session = "opening"  # until it says it is closed
            client.close()

    def _on_samples(self, _gpu: int, kind: str, samples: Samples) -> None:
        # Called from the client's thread; the writer takes calls from any.
        self._pm_samples += len(samples)
        self._writer.append("zoom" if kind == "zoom" else "pm", self.gpu.index, samples)

    def _on_event(self, _gpu: int, event: Mapping[str, Any]) -> None:
        with self._lock:
            self._inbox.append(event)

    def _hear(self, event: Mapping[str, Any], now_s: float) -> None:
        name = event.get("event")
        if name == "ready":
            self._session = "none"
            known = {
                "chip": event["chip"],
                "l2_bytes": event["l2_bytes"],
                "sm_count": event["sm_count"] or self.gpu.sm_count,
            }
            self.gpu = replace(self.gpu, **known)
            self._note("library", f"libcupti {event['library_version']} from {event['library_path']}")
        elif name == "opened":
            self._session = self._opening
            self._end_missing()
            if not self.tier_reason:
                self.tier_reason = f"{len(event['metrics'])} hardware counters sampled in one pass"
                self._say(f"GPU {self.gpu.index} ({self.gpu.name}): {self.tier_reason}")
        elif name == "closed":
            self._session = "none"
            self._sampling = False
        elif name == "window":
            self._sampling = False
            self._ended(event)
        elif name == "gap":
            self._writer.gap(
                Gap(self.gpu.index, "pm", int(event["start_ns"]), int(event["end_ns"]), str(event["reason"]))
            )
        elif name == "error":
            self._failed(str(event["type"]), str(event["text"]), now_s)
        elif name == "gone":
            self._gone(event, now_s)

    def _ended(self, event: Mapping[str, Any]) -> None:
        kind: WindowKind = event["kind"]
        window = Window(
            gpu=self.gpu.index,
            kind=kind,
            start_ns=int(event["start_ns"]),
            end_ns=int(event["end_ns"]),
            period_ns=int(event["period_ns"]),
            samples=int(event["samples"]),
            lost=int(event["lost"]),
        )
        self.windows.append(window)
        self._writer.window(window)

    def _failed(self, kind: str, text: str, now_s: float) -> None:
        """The counters could not be had, or were lost."""
        self._session = "none"
        self._sampling = False
        first = text.splitlines()[0]
        if kind == "NotPermitted" and self._may_sudo and not self._with_sudo:
            self._with_sudo = True
            self._say("the driver keeps the counters for root: starting the sampler alone through sudo")
            self._restart()
            return
        if self._source == "pm" and not self._pm_samples:
            self.fatal = ERRORS.get(kind, SourceError)(text)
            return
        self._begin_missing(first)
        self._note("busy" if kind == "DeviceBusy" else "denied", text)
        if kind in ("NotPermitted", "NoLibrary", "NoGpu"):
            self._give_up(first)
        else:
            self._policy.failed(now_s)
            self._say(f"GPU {self.gpu.index}: {first} Trying again in {DEFAULTS.retry_busy_s:.0f} s.")

    def _gone(self, event: Mapping[str, Any], now_s: float) -> None:
        if self._client is None:
            return
        detail = str(event.get("detail") or f"exit code {event.get('exit_code')}").splitlines()[-1]
        why = f"The sampler ended unexpectedly ({detail})."
        self._note("sampler", why)
        self._begin_missing(why)
        if self._restarts >= RESTARTS or not self._pm_wanted:
            self._give_up(why)
            return
        self._restarts += 1
        self._policy.failed(now_s)
        self._restart()

    def _restart(self) -> None:
        if self._client is not None:
            self.sampler_cpu_s += self._client.cpu_s
            self._client.quit()
            self._client = None
        self._session = "none"
        self._sampling = False
        self.start_sampler()

    def _give_up(self, why: str) -> None:
        """Go on without PM sampling."""
        self._pm_wanted = False
        if self._client is not None:
            self.sampler_cpu_s += self._client.cpu_s
            client, self._client = self._client, None
            client.quit()
        instead = "GPM averages" if self._gpm is not None else "the board's own figures"
        self.tier_reason = self.tier_reason or f"{why} Watching with {instead} instead."
        self._say(f"GPU {self.gpu.index}: {why} Watching with {instead} instead.")

    def _begin_missing(self, why: str) -> None:
        if self._missing_since_ns is None:
            self._missing_since_ns, self._missing_why = time.time_ns(), why

    def _end_missing(self) -> None:
        if self._missing_since_ns is not None:
            self._writer.gap(
                Gap(self.gpu.index, "pm", self._missing_since_ns, time.time_ns(), self._missing_why)
            )
            self._missing_since_ns = None

    def _note(self, kind: str, text: str) -> None:
        self._writer.note(Note(time.time_ns(), kind, text, self.gpu.index))

    # --- afterwards ---

    def averages(self) -> Samples:
        """All GPM rows so far, from where the program had settled on (all of them if it never did)."""
        table = Samples.concat(self.gpm_rows)
        return table.where(np.asarray(table.column("gr_active")) > 0.005) if len(table) else table

    def choose_by_steps(self, spacing_s: float) -> None:
        """One window every *spacing_s* seconds from now on."""
        self._policy.every(spacing_s)


def _activity(gpm: Samples) -> float:
    """How busy the GPU was in the last row: with kernels, or with copies over PCIe."""
    moved = gpm.column("pcie_rx_bytes")[-1] + gpm.column("pcie_tx_bytes")[-1]
    copies = float(moved / gpm.duration_s[-1] / BUSY_LINK_BYTES_PER_S)
    kernels = float(gpm.column("gr_active")[-1])
    return max(kernels, copies) if math.isfinite(copies) else kernels
