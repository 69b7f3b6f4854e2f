"""
PM sampling of one GPU: the sampler process, from its start to its end.

    Sampling(gpu, ...)  .begin()              start the sampler, if hardware sampling is wanted
                        .hear(now_s)          take in what it has said since the last call
                        .mind_silence(now_s)  replace it when it does not answer any more
                        .act(action)          pass on what the policy decided
                        .leave(), .close()    end it

Samples, windows and gaps go into the recording; what else its owner has to know comes through
callbacks. A sampler that dies or hangs is started again a few times, one that only lacks the
permission is started again through sudo, and after that the owner is told to go on without.
Nothing in here waits, but `close`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from perfzero.errors import DeviceBusy, NoGpu, NoLibrary, NotPermitted, SourceError
from perfzero.record.policy import DEFAULTS, Action, Settings
from perfzero.record.sampler_client import SamplerClient
from perfzero.record.selection import CLOSE_UP, ZOOM, windows_counters
from perfzero.store.writer import RecordingWriter
from perfzero.values import Gap, Gpu, Samples, Window, WindowKind
from perfzero.words.said import first_line, say

RESTARTS = 2
"""A sampler that dies is started again so often; then the run goes on without it."""

PATIENCE_S = 30.0
"""
A sampler that was told to do something and says nothing for so long hangs: while it samples it
speaks up several times a second, and opening a session takes half a second ...
"""

START_PATIENCE_S = 90.0
"""... but a cold network disk may take its time to deliver Python and libcupti."""

SLOW_OPEN_S = 4.0
"""Taking the counters takes 0.1 to 0.3 s; ten where kernels fill the link to the host (H200)."""

OWN_PAUSE_S = 5.0
"""When we ourselves were stopped for so long (Ctrl-Z), no silence of the sampler's counts."""

KEPT_ROWS = 6000
"""So many of the last samples are kept for the step time: all of the close look, 1 MB."""

LATE = 1.0
"""
A drain that comes later than by this share of its distance found a buffer that was nearly full: the
least one holds 1.7 times the samples of one drain at 2 ms and 23 counters, and more at longer periods.
"""

OVERFLOWED = "overflow"
"""What the reason of a gap contains when the hardware buffer was not emptied in time."""

ERRORS = {e.__name__: e for e in (DeviceBusy, NoGpu, NoLibrary, NotPermitted, SourceError)}
"""The sampler reports its errors by name."""


@dataclass
class OpenWindow:
    """A window that has begun, as far as its samples have arrived; should its sampler die, we close it."""

    kind: WindowKind
    start_ns: int
    period_ns: int
    last_ns: int
    samples: int = 0
    lost: int = 0


class Sampling:
    """
    The PM sampling of one GPU in a recording.

    *wanted* says whether there is to be any, *required* whether the run is pointless without: then
    `fatal` holds the reason, where the run would otherwise go on with less. *may_sudo* allows to
    start the sampler through sudo where the driver asks for root. Times named `now_s` are seconds
    of the recording. The callbacks come from the thread that calls the methods:

    *note*        a kind and a text for the recording's notes
    *say*         a short sentence for the user
    *on_open*     a session has been opened, with so many metrics in its pass
    *on_window*   a window has ended
    *on_failure*  the counters could not be had or were lost at `now_s`, in a zoom or not; more tries follow
    *on_given_up* no try follows, for this reason
    *on_pressed*  samples of a window were lost, or nearly, since the buffer was full, for this reason
    """

    def __init__(
        self,
        gpu: Gpu,
        *,
        writer: RecordingWriter,
        settings: Settings,
        wanted: bool,
        required: bool,
        hints: Sequence[str],
        may_sudo: bool,
        note: Callable[[str, str], None],
        say: Callable[[str], None],
        on_open: Callable[[int], None],
        on_window: Callable[[Window], None],
        on_failure: Callable[[float, bool], None],
        on_given_up: Callable[[str], None],
        on_pressed: Callable[[str], None],
    ) -> None:
        self.gpu = gpu
        """The GPU, from the moment a sampler is ready with what libcupti knows of it."""
        self.wanted = wanted
        """Whether there is PM sampling, or may be yet."""
        self.fatal: SourceError | None = None
        """Why the counters cannot be had, where they are required."""
        self.session: Literal["none", "opening", "window", "zoom"] = "none"
        """The open session, by what it is made for; "opening" also while it is being closed."""
        self.in_window = False
        """Whether the sampler samples, or was told to."""
        self.samples = 0
        self.lost = 0
        self.cpu_s = 0.0
        """CPU time of the samplers that have ended, in seconds."""
        self._writer = writer
        self._settings = settings
        self._required = required
        self._hints = tuple(hints)
        self._may_sudo = may_sudo
        self._note = note
        self._say = say
        self._on_open = on_open
        self._on_window = on_window
        self._on_failure = on_failure
        self._on_given_up = on_given_up
        self._on_pressed = on_pressed
        self._recent: deque[Samples] = deque()
        self._client: SamplerClient | None = None
        self._gpm = True
        self._generation = 0  # of the client, so that what an earlier one says is not taken for its word
        self._retired: list[SamplerClient] = []
        self._ready = False
        self._with_sudo = False
        self._refusal = ""
        self._lock = threading.Lock()
        self._inbox: list[tuple[int, Mapping[str, Any]]] = []
        self._open_window: OpenWindow | None = None
        self._heard_s = self._minded_s = self._asked_s = time.monotonic()
        self._trouble = ""
        self._opening: Literal["window", "zoom"] = "window"
        self._missing_since_ns: int | None = None
        self._missing_why = ""
        self._restarts = 0

    @property
    def alive(self) -> bool:
        """Whether there is a sampler that could be told what to do."""
        return self._client is not None

    @property
    def pid(self) -> int | None:
        """The process id of the sampler, for those who test what happens when it is killed."""
        return None if self._client is None else self._client.pid

    # --- what the owner calls ---

    def begin(self, *, gpm: bool) -> None:
        """
        Start the process that holds the hardware counters, if they are wanted.

        *gpm* says whether GPM runs beside it and can lend what has no place among the counters.
        """
        self._gpm = gpm
        if not self.wanted or self._client is not None:
            return
        self._generation += 1
        generation = self._generation
        self._ready = self.in_window = False
        self.session = "opening"  # until it says it is ready
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
            self._give_up("SourceError", say("sampler.no_start", error=error))

    def without_gpm(self) -> None:
        """GPM is gone: sessions that are opened from now on sample what it lent."""
        self._gpm = False

    def act(self, action: Action) -> None:
        """Pass *action* on to the sampler, which must be `alive`."""
        client = self._client
        assert client is not None
        if action.verb != "nothing":
            self._heard_s = time.monotonic()
        if action.verb == "open":
            self.session = "opening"
            self._asked_s = time.monotonic()
            self._opening = "zoom" if action.zoom else "window"
            if action.zoom:
                assert action.duration_s is not None
                counters = CLOSE_UP if action.close_up else ZOOM
                client.open(period_ns=action.period_ns, drain_s=action.duration_s, counters=counters)
            else:
                client.open(
                    period_ns=action.period_ns,
                    drain_s=DEFAULTS.drain_s,
                    counters=windows_counters(lean=action.lean, gpm=self._gpm),
                )
        elif action.verb == "start":
            self.in_window = True
            client.start(kind=action.kind, duration_s=action.duration_s)
        elif action.verb == "close":
            self.session = "opening"  # until it says it is closed
            client.close()

    def stop(self) -> None:
        """End the window that is open, if there is one."""
        if self._client is not None and self.in_window:
            self._client.stop()

    def hear(self, now_s: float) -> None:
        """Take in what the sampler has said, and reap those that have left."""
        self._hear_all(now_s)
        for client in [c for c in self._retired if c.left]:
            self._retired.remove(client)
            client.quit()
            self.cpu_s += client.cpu_s

    def mind_silence(self, now_s: float) -> None:
        """End a sampler that does not answer any more."""
        now = time.monotonic()
        if now - self._minded_s > OWN_PAUSE_S:
            self._heard_s = now
        self._minded_s = now
        if self._client is None or not (self.in_window or self.session == "opening"):
            return
        patience = PATIENCE_S if self._ready else START_PATIENCE_S
        if now - self._heard_s > patience:
            self._client.kill()
            silent = {"time_ns": time.time_ns(), "detail": say("sampler.silent", seconds=f"{patience:.0f}")}
            self._gone(silent, now_s)

    @property
    def in_window_without_end(self) -> bool:
        """Whether sampling goes on all the time, so that no end of a window is to be waited for."""
        return self.in_window and self._settings.continuous

    @property
    def sampling(self) -> bool:
        """Whether the sampler has said that a window has begun, and not yet that it is over."""
        return self._open_window is not None

    def recent(self) -> Samples:
        """The last samples of windows, bursts left out: `KEPT_ROWS` or a little more."""
        with self._lock:
            return Samples.concat(self._recent)

    def forget(self) -> None:
        """Keep none of the `recent` samples: the program does something else now."""
        with self._lock:
            self._recent.clear()

    def leave(self) -> None:
        """Tell the sampler to end, without waiting: so several GPUs are closed at once."""
        self.wanted = False
        self._retire()

    def close(self) -> None:
        """End the sampler, and write down what is left of its last window."""
        self.leave()
        for client in self._retired:
            client.quit()
            self.cpu_s += client.cpu_s
        self._retired = []
        self._hear_all(0.0)
        self._cut_window(time.time_ns())
        self._end_missing()

    # --- what the sampler says ---

    def _on_samples(self, generation: int, kind: str, samples: Samples) -> None:
        # Called from the client's thread; the writer takes calls from any.
        self._heard_s = time.monotonic()
        self.samples += len(samples)
        self._writer.append("zoom" if kind == "zoom" else "pm", self.gpu.index, samples)
        with self._lock:
            if kind != "zoom":
                self._recent.append(samples)
                while sum(map(len, self._recent)) - len(self._recent[0]) >= KEPT_ROWS:
                    self._recent.popleft()
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
            self.session = "none"
            self._ready = True
            known = {
                "chip": event["chip"],
                "l2_bytes": event["l2_bytes"],
                "sm_count": event["sm_count"] or self.gpu.sm_count,
            }
            self.gpu = replace(self.gpu, **known)
            self._note(
                "library",
                say("sampler.library", version=event["library_version"], path=event["library_path"]),
            )
        elif name == "opened":
            self.session = self._opening
            took_s = time.monotonic() - self._asked_s
            if took_s > SLOW_OPEN_S:
                self._note("slow", say("sampler.slow", seconds=f"{took_s:.0f}"))
            self._end_missing()
            self._trouble = ""
            self._on_open(len(event["metrics"]))
        elif name == "closed":
            self.session = "none"
            self.in_window = False
        elif name == "window":
            self.in_window = self.in_window and bool(event.get("more") or not current)
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
            late_s = float(event.get("late_s", 0.0))
            room_s = LATE * DEFAULTS.drain_s * int(event["period_ns"]) / self._settings.period_ns
            if late_s > room_s and event["kind"] != "zoom":
                self._on_pressed(say("sampler.late", seconds=f"{late_s:.1f}"))
        elif name == "gap":
            reason = str(event["reason"])
            self._writer.gap(Gap(self.gpu.index, "pm", int(event["start_ns"]), int(event["end_ns"]), reason))
            if OVERFLOWED in reason and not self._zooming:
                self._on_pressed(reason)
        elif name == "error":
            self._failed(str(event["type"]), str(event["text"]), now_s)
        elif name == "gone":
            self._gone(event, now_s)

    def _ended(self, window: Window) -> None:
        self.lost += window.lost
        self._on_window(window)
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

    # --- what goes wrong ---

    @property
    def _zooming(self) -> bool:
        return self._opening == "zoom" and self.session != "none"

    def _failed(self, kind: str, text: str, now_s: float) -> None:
        """The counters could not be had, or were lost."""
        if kind == "NotPermitted" and self._may_sudo and not self._with_sudo:
            self._with_sudo, self._refusal = True, text
            self._say(say("sampler.sudo"))
            self._restart()
            return
        if self._required and not self.samples:
            self.fatal = ERRORS.get(kind, SourceError)(text)
            return
        first = first_line(text)
        self._on_failure(now_s, self._zooming)
        self.session = "none"
        self.in_window = False
        self._begin_missing(first)
        for_good = kind in ("NotPermitted", "NoLibrary", "NoGpu")
        if text != self._trouble:  # said once, and again when it changes
            self._trouble = text
            self._note("busy" if kind == "DeviceBusy" else "denied", text)
            if not for_good:
                self._say(
                    say(
                        "sampler.retries",
                        gpu=self.gpu.index,
                        first=first,
                        seconds=f"{DEFAULTS.retry_busy_s:.0f}",
                    )
                )
        if for_good:
            self._give_up(kind, text)

    def _gone(self, event: Mapping[str, Any], now_s: float) -> None:
        """The sampler has ended, or hangs and was killed."""
        detail = str(event.get("detail") or say("exit_code", code=event.get("exit_code"))).splitlines()[-1]
        why = say("sampler.ended", detail=detail)
        self._note("sampler", why)
        self._begin_missing(why, self._cut_window(int(event["time_ns"])))
        refused = self._with_sudo and not self._ready  # sudo wants a password
        if refused or self._restarts >= RESTARTS:
            self._give_up("SourceError", why)
            return
        self._restarts += 1
        self._on_failure(now_s, self._zooming)
        self._restart()

    def _restart(self) -> None:
        self._retire()
        self.begin(gpm=self._gpm)

    def _retire(self) -> None:
        """Let go of the sampler; it is reaped when it has left."""
        client, self._client = self._client, None
        self.session = "none"
        self.in_window = False
        if client is not None:
            client.leave()
            self._retired.append(client)

    def _give_up(self, kind: str, text: str) -> None:
        """Go on without PM sampling."""
        self.wanted = False
        if self._refusal and not self._ready:  # what sudo says is of no use to who did not ask for it
            kind, text = "NotPermitted", self._refusal
        self._retire()
        if self._required and not self.samples:
            self.fatal = ERRORS.get(kind, SourceError)(text)
            return
        self._on_given_up(first_line(text))

    def _begin_missing(self, why: str, since_ns: int | None = None) -> None:
        if self._missing_since_ns is None:
            self._missing_since_ns, self._missing_why = since_ns or time.time_ns(), why

    def _end_missing(self) -> None:
        if self._missing_since_ns is not None:
            self._writer.gap(
                Gap(self.gpu.index, "pm", self._missing_since_ns, time.time_ns(), self._missing_why)
            )
            self._missing_since_ns = None
