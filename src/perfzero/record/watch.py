"""
Watching one GPU: GPM and board all the time, PM sampling in windows by the policy.

A `GpuWatch` is ticked several times a second by the recorder. It polls the cheap sources when
they are due, asks the policy what to do with the sampler, and writes down everything that
comes, goes wrong or is missing. Until the GPU turns out to be the program's it only looks, and
writes nothing. Nothing in here waits.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from perfzero.errors import DeviceBusy, NoGpu, NoLibrary, NotPermitted, SourceError
from perfzero.record.cost import Averages
from perfzero.record.policy import DEFAULTS, Action, Policy, Settings, Situation
from perfzero.record.sampler_client import SamplerClient
from perfzero.record.settle import Settling
from perfzero.sources.gpm import Gpm
from perfzero.sources.nvml import SLOW_EVERY, Board
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

WAITING_AFTER_S = 60.0
"""A program that has not come to any GPU by then may take hours: from now on look every ..."""

WAITING_EVERY_S = 4.0

RESTING_EVERY_S = 10.0
"""How often to look at a GPU while the program uses others."""

HELD_NS = 60_000_000_000
"""How much of what was seen of a GPU is kept in memory until it turns out to be the program's."""

UNCLAIMED_READINGS = 3
"""A GPU that works in so many readings while nobody is listed on it has its processes hidden from us."""

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

PATIENCE_S = 30.0
"""
A sampler that was told to do something and says nothing for so long hangs: while it samples it
speaks up several times a second, and opening a session takes half a second ...
"""

START_PATIENCE_S = 90.0
"""... but a cold network disk may take its time to deliver Python and libcupti."""

OWN_PAUSE_S = 5.0
"""When we ourselves were stopped for so long (Ctrl-Z), no silence of the sampler's counts."""

KEPT_WINDOWS = 10_000
"""The last windows are remembered for the estimate of the cost."""

ERRORS = {e.__name__: e for e in (DeviceBusy, NoGpu, NoLibrary, NotPermitted, SourceError)}
"""The sampler reports its errors by name."""

SourceChoice = Literal["auto", "pm", "gpm", "nvml"]


@dataclass
class OpenWindow:
    """A window that has begun, as far as its samples have arrived; should its sampler die, we close it."""

    kind: WindowKind
    start_ns: int
    period_ns: int
    last_ns: int
    samples: int = 0
    lost: int = 0


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
        self.board.slow_every = 1  # whose processes are on it is the question, until `take`
        self.windows: deque[Window] = deque(maxlen=KEPT_WINDOWS)
        self.sampled_ns = 0
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
        self._averages = Averages()
        self._kept = self._resting = False
        self._held_notes: list[Note] = []
        self._unclaimed = 0
        self._client: SamplerClient | None = None
        self._generation = 0  # of the client, so that what an earlier one says is not taken for its word
        self._retired: list[SamplerClient] = []
        self._ready = False
        self._with_sudo = False
        self._refusal = ""
        self._lock = threading.Lock()
        self._inbox: list[tuple[int, Mapping[str, Any]]] = []
        self._open_window: OpenWindow | None = None
        self._heard_s = self._ticked_s = time.monotonic()
        self._trouble = ""
        self._session: Literal["none", "opening", "window", "zoom"] = "none"
        self._opening: Literal["window", "zoom"] = "window"
        self._sampling = False
        self._pm_samples = 0
        self._working = False
        self._capped: list[tuple[float, bool]] = []
        self._gpm_due = self._board_due = self._flush_due = 0.0
        self._gpm_seen_s = 0.0
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

    def keep(self) -> None:
        """Write down what is seen, that of the last minute included."""
        self._kept = True
        for note in self._held_notes:
            self._writer.note(note)
        self._held_notes = []

    def take(self) -> None:
        """This GPU is the program's: keep what is seen, and start to look closely."""
        self.keep()
        self.board.slow_every = SLOW_EVERY
        self._gpm_due = self._board_due = 0.0
        if self.pids:  # what others did here says nothing about the program's warm-up
            self._settling, self._working = Settling(), False
        if self._resting:
            self._resting = False
            if self._gpm is not None:
                try:
                    self._gpm.open()
                except SourceError as error:
                    self._without_gpm(error)
        self._start_sampler()

    def rest(self) -> None:
        """The program uses other GPUs: from now on only look, now and then, who is on this one."""
        if not self._resting:
            self._resting = True
            if self._gpm is not None:
                self._gpm.close()

    def _start_sampler(self) -> None:
        """Start the process that holds the hardware counters, if they are wanted."""
        if not self._pm_wanted or self._client is not None:
            return
        self._generation += 1
        generation = self._generation
        self._ready = self._sampling = False
        self._session = "opening"  # until it says it is ready
        self._heard_s = time.monotonic()
        try:
            self._client = SamplerClient(
                self.gpu,
                on_samples=lambda _, kind, samples: self._on_samples(generation, kind, samples),
                on_event=lambda _, event: self._on_event(generation, event),
                hints=self._hints,
                sudo=self._with_sudo,
            )
        except OSError as error:
            self._give_up("SourceError", f"The sampler cannot be started: {error}.")

    @property
    def sampler_pid(self) -> int | None:
        """The process id of the sampler, for those who test what happens when it is killed."""
        return None if self._client is None else self._client.pid

    @property
    def tier(self) -> Tier:
        """What carried this GPU so far."""
        if self._pm_samples:
            return "pm"
        return "gpm" if len(self._averages) else "nvml"

    @property
    def due_s(self) -> float:
        """The moment of the recording at which `tick` should be called even if it is not its turn."""
        return self._window_ends_s

    @property
    def hides_processes(self) -> bool:
        """Whether the GPU works although nobody was ever listed on it, as in a container."""
        return self._unclaimed >= UNCLAIMED_READINGS

    def tick(self, now_s: float) -> None:
        """Do what is due at *now_s* seconds of the recording."""
        self._hear_all(now_s)
        self._reap()
        self._poll(now_s)
        self._mind_silence(now_s)
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

    def leave(self) -> None:
        """Tell the sampler to end, without waiting: so several GPUs are closed at once."""
        self._pm_wanted = False
        self._retire()

    def close(self) -> None:
        """End the sampler and give everything back."""
        self.leave()
        for client in self._retired:
            client.quit()
            self.sampler_cpu_s += client.cpu_s
        self._retired = []
        self._hear_all(0.0)
        self._cut_window(time.time_ns())
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
        gpm_due = now_s >= self._gpm_due or window_over or at_window
        if self._gpm is not None and gpm_due:
            self._gpm_due = now_s + self._gpm_every_s(now_s)
            try:
                rows["gpm"] = self._gpm.read()
            except SourceError as error:
                self._without_gpm(error)
        if now_s >= self._board_due:
            self._board_due = now_s + self._board_every_s(now_s)
            try:
                rows["board"] = self.board.read()
            except SourceError as error:
                self._note("board", str(error).splitlines()[0])
                self._board_due = math.inf  # a GPU that is lost comes back with a reset, not with time
            self.pids |= self.board.pids or frozenset()
        for stream, samples in rows.items():
            self._hold(stream, samples)
        if now_s >= self._flush_due:
            self._flush_due = now_s + FLUSH_EVERY_S
            self._flush()
        self._judge_state(rows, now_s)

    def _gpm_every_s(self, now_s: float) -> float:
        if self._waiting(now_s):
            return WAITING_EVERY_S
        early = self._settling.settled_at is None or not self._pm_wanted
        return GPM_EARLY_EVERY_S if early else GPM_EVERY_S

    def _board_every_s(self, now_s: float) -> float:
        if self._resting:
            return RESTING_EVERY_S
        return WAITING_EVERY_S if self._waiting(now_s) else BOARD_EVERY_S

    def _waiting(self, now_s: float) -> bool:
        return not self._kept and now_s > WAITING_AFTER_S

    def _without_gpm(self, error: SourceError) -> None:
        self._note("gpm", str(error).splitlines()[0])
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None

    def _hold(self, stream: str, samples: Samples) -> None:
        if not len(samples):
            return
        held = self._pending.setdefault(stream, [])
        held.append(samples)
        while not self._kept and held[0].end_ns[-1] < samples.end_ns[-1] - HELD_NS:
            held.pop(0)

    def _flush(self) -> None:
        if not self._kept:
            return
        for stream, parts in self._pending.items():
            self._writer.append(stream, self.gpu.index, Samples.concat(parts))
        self._pending = {}

    def _judge_state(self, rows: Mapping[str, Samples], now_s: float) -> None:
        if not rows:
            return
        board, gpm = rows.get("board"), rows.get("gpm")
        if board is not None and len(board):
            limit = self.board.power_limit_w
            near = limit is not None and board.column("power")[-1] >= NEAR_LIMIT * limit
            self._capped.append((now_s, bool(board.column("capped_power")[-1] > 0) or near))
            self._capped = [c for c in self._capped if c[0] > now_s - CAPPED_OVER_S]
        # GPM may be there and deliver nothing; then the board has to say whether the GPU works.
        blind = self._gpm is None or now_s - self._gpm_seen_s > 2 * self._gpm_every_s(now_s) + BOARD_EVERY_S
        if gpm is not None and len(gpm) and math.isfinite(gpm.column("gr_active")[-1]):
            self._gpm_seen_s = now_s
            self._averages.add(gpm)
            names = ("gr_active", "tensor_active", "dram_active")
            levels = [_activity(gpm), *(float(gpm.column(n)[-1]) for n in names), math.nan]
            self._settling.add(now_s, levels)
        elif blind and board is not None and len(board):
            power = float(board.column("power")[-1]) / (self.board.power_limit_w or 500.0)
            levels = [float(board.column("smi_utilization")[-1]), math.nan, math.nan, math.nan, power]
            self._settling.add(now_s, levels)
        self._working = self._working or self._settling.working
        if board is not None and len(board):
            claimed = bool(self.pids) or not self._settling.working
            self._unclaimed = 0 if claimed else self._unclaimed + 1
        if self._kept and self._settling.settled_at is not None and not self._told_settled:
            self._told_settled = True
            self._say(f"GPU {self.gpu.index}: warm-up is over after {now_s:.0f} s, looking closely")

    def _is_capped(self, now_s: float) -> bool:
        return any(capped for t, capped in self._capped if t > now_s - CAPPED_OVER_S)

    # --- the sampler ---

    def _act(self, action: Action, now_s: float) -> None:
        client, settings = self._client, self._settings
        assert client is not None
        if action.verb != "nothing":
            self._heard_s = time.monotonic()
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

    def _on_samples(self, generation: int, kind: str, samples: Samples) -> None:
        # Called from the client's thread; the writer takes calls from any.
        self._heard_s = time.monotonic()
        self._pm_samples += len(samples)
        self._writer.append("zoom" if kind == "zoom" else "pm", self.gpu.index, samples)
        with self._lock:
            window = self._open_window
            if window is not None and generation == self._generation and len(samples):
                window.samples += len(samples)
                window.last_ns = int(samples.end_ns[-1])

    def _on_event(self, generation: int, event: Mapping[str, Any]) -> None:
        # In this thread, since events and samples come in order here.
        with self._lock:
            self._inbox.append((generation, event))
            if generation != self._generation:
                return
            self._heard_s = time.monotonic()
            name = event["event"]
            if name == "started":
                begun = int(event["start_ns"])
                self._open_window = OpenWindow(event["kind"], begun, int(event["period_ns"]), last_ns=begun)
            elif name == "window":
                self._open_window = None
            elif name == "gap" and self._open_window is not None:
                self._open_window.lost += int(event["samples"])

    def _hear_all(self, now_s: float) -> None:
        with self._lock:
            inbox, self._inbox = self._inbox, []
        for generation, event in inbox:
            current = generation == self._generation and self._client is not None
            # Of one that has been left, only what it measured counts.
            if current or event["event"] in ("window", "gap"):
                self._hear(event, now_s, current=current)

    def _hear(self, event: Mapping[str, Any], now_s: float, *, current: bool) -> None:
        name = event.get("event")
        if name == "ready":
            self._session = "none"
            self._ready = True
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
            self._trouble = ""
            if not self.tier_reason:
                self.tier_reason = f"{len(event['metrics'])} hardware counters sampled in one pass"
                self._say(f"GPU {self.gpu.index} ({self.gpu.name}): {self.tier_reason}")
        elif name == "closed":
            self._session = "none"
            self._sampling = False
        elif name == "window":
            self._sampling = self._sampling and bool(event.get("more") or not current)
            self._ended(
                Window(
                    gpu=self.gpu.index,
                    kind=event["kind"],
                    start_ns=int(event["start_ns"]),
                    end_ns=int(event["end_ns"]),
                    period_ns=int(event["period_ns"]),
                    samples=int(event["samples"]),
                    lost=int(event["lost"]),
                )
            )
        elif name == "gap":
            self._writer.gap(
                Gap(self.gpu.index, "pm", int(event["start_ns"]), int(event["end_ns"]), str(event["reason"]))
            )
        elif name == "error":
            self._failed(str(event["type"]), str(event["text"]), now_s)
        elif name == "gone":
            self._gone(event, now_s)

    def _ended(self, window: Window) -> None:
        self.windows.append(window)
        self.sampled_ns += window.end_ns - window.start_ns
        self._writer.window(window)

    def _cut_window(self, end_ns: int) -> int | None:
        """Write down the window that a dead sampler left open; returns where its samples end."""
        with self._lock:
            cut, self._open_window = self._open_window, None
        if cut is None:
            return None
        end_ns = max(end_ns, cut.last_ns)
        lost = cut.lost + round((end_ns - cut.last_ns) / cut.period_ns)
        self._ended(Window(self.gpu.index, cut.kind, cut.start_ns, end_ns, cut.period_ns, cut.samples, lost))
        return cut.last_ns

    @property
    def _zooming(self) -> bool:
        return self._opening == "zoom" and self._session != "none"

    def _failed(self, kind: str, text: str, now_s: float) -> None:
        """The counters could not be had, or were lost."""
        if kind == "NotPermitted" and self._may_sudo and not self._with_sudo:
            self._with_sudo, self._refusal = True, text
            self._say("the driver keeps the counters for root: starting the sampler alone through sudo")
            self._restart()
            return
        if self._source == "pm" and not self._pm_samples:
            self.fatal = ERRORS.get(kind, SourceError)(text)
            return
        first = text.splitlines()[0]
        self._policy.failed(now_s, zoom=self._zooming)
        self._session = "none"
        self._sampling = False
        self._begin_missing(first)
        for_good = kind in ("NotPermitted", "NoLibrary", "NoGpu")
        if text != self._trouble:  # said once, and again when it changes
            self._trouble = text
            self._note("busy" if kind == "DeviceBusy" else "denied", text)
            if not for_good:
                self._say(f"GPU {self.gpu.index}: {first} Trying again every {DEFAULTS.retry_busy_s:.0f} s.")
        if for_good:
            self._give_up(kind, text)

    def _gone(self, event: Mapping[str, Any], now_s: float) -> None:
        """The sampler has ended, or hangs and was killed."""
        detail = str(event.get("detail") or f"exit code {event.get('exit_code')}").splitlines()[-1]
        why = f"The sampler ended unexpectedly ({detail})."
        self._note("sampler", why)
        self._begin_missing(why, self._cut_window(int(event["time_ns"])))
        refused = self._with_sudo and not self._ready  # sudo wants a password
        if refused or self._restarts >= RESTARTS:
            self._give_up("SourceError", why)
            return
        self._restarts += 1
        self._policy.failed(now_s, zoom=self._zooming)
        self._restart()

    def _mind_silence(self, now_s: float) -> None:
        """End a sampler that does not answer any more."""
        now = time.monotonic()
        if now - self._ticked_s > OWN_PAUSE_S:
            self._heard_s = now
        self._ticked_s = now
        if self._client is None or not (self._sampling or self._session == "opening"):
            return
        patience = PATIENCE_S if self._ready else START_PATIENCE_S
        if now - self._heard_s > patience:
            self._client.kill()
            silent = {"time_ns": time.time_ns(), "detail": f"it said nothing for {patience:.0f} s"}
            self._gone(silent, now_s)

    def _restart(self) -> None:
        self._retire()
        self._start_sampler()

    def _retire(self) -> None:
        """Let go of the sampler; it is reaped when it has left."""
        client, self._client = self._client, None
        self._session = "none"
        self._sampling = False
        if client is not None:
            client.leave()
            self._retired.append(client)

    def _reap(self) -> None:
        for client in [c for c in self._retired if c.left]:
            self._retired.remove(client)
            client.quit()
            self.sampler_cpu_s += client.cpu_s

    def _give_up(self, kind: str, text: str) -> None:
        """Go on without PM sampling."""
        self._pm_wanted = False
        if self._refusal and not self._ready:  # what sudo says is of no use to who did not ask for it
            kind, text = "NotPermitted", self._refusal
        self._retire()
        if self._source == "pm" and not self._pm_samples:
            self.fatal = ERRORS.get(kind, SourceError)(text)
            return
        first = text.splitlines()[0]
        instead = "GPM averages" if self._gpm is not None else "the board's own figures"
        self.tier_reason = self.tier_reason or f"{first} Watching with {instead} instead."
        self._say(f"GPU {self.gpu.index}: {first} Watching with {instead} instead.")

    def _begin_missing(self, why: str, since_ns: int | None = None) -> None:
        if self._missing_since_ns is None:
            self._missing_since_ns, self._missing_why = since_ns or time.time_ns(), why

    def _end_missing(self) -> None:
        if self._missing_since_ns is not None:
            self._writer.gap(
                Gap(self.gpu.index, "pm", self._missing_since_ns, time.time_ns(), self._missing_why)
            )
            self._missing_since_ns = None

    def _note(self, kind: str, text: str) -> None:
        note = Note(time.time_ns(), kind, text, self.gpu.index)
        if self._kept:
            self._writer.note(note)
        else:
            self._held_notes.append(note)

    # --- afterwards ---

    def averages(self) -> Samples:
        """The GPM rows of the last hours in which the GPU had something to do, for `cost.slowdown`."""
        table = self._averages.table()
        return table.where(table.column("gr_active") > 0.005)

    def choose_by_steps(self, spacing_s: float) -> float:
        """One window every *spacing_s* seconds from now on; returns the spacing taken, maybe a longer one."""
        return self._policy.every(spacing_s)


def _activity(gpm: Samples) -> float:
    """How busy the GPU was in the last row: with kernels, or with copies over PCIe."""
    moved = gpm.column("pcie_rx_bytes")[-1] + gpm.column("pcie_tx_bytes")[-1]
    copies = float(moved / gpm.duration_s[-1] / BUSY_LINK_BYTES_PER_S)
    kernels = float(gpm.column("gr_active")[-1])
    return max(kernels, copies) if math.isfinite(copies) else kernels
