"""
Watching one GPU: GPM and board all the time, PM sampling in windows by the policy.

A `GpuWatch` is ticked several times a second by the recorder. It polls the cheap sources when
they are due, writes down what they say, and asks the policy what `Sampling` is to do with the
hardware counters. Until the GPU turns out to be the program's it only looks, and writes
nothing. Nothing in here waits.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from perfzero.errors import SourceError
from perfzero.record.choice import Choice
from perfzero.record.cost import Averages
from perfzero.record.policy import Policy, Settings, Situation
from perfzero.record.progress import State
from perfzero.record.sampling import Sampling
from perfzero.record.selection import GPM_DEFAULT, windows_counters
from perfzero.record.settle import Settling
from perfzero.series.steady import ACTIVE
from perfzero.sources.gpm import Gpm
from perfzero.sources.nvml import SLOW_EVERY, Board
from perfzero.store.writer import RecordingWriter
from perfzero.text import duration
from perfzero.values import Gpu, Note, Samples, Tier, Window
from perfzero.words.said import first_line, say

CALM_AFTER_S = (30.0, 90.0)
"""After these moments of a run it is looked at less often: looking costs CPU, and shows less and less."""

GPM_EVERY_S = (0.9, 4.0, 4.0)
"""
By how calm the run is: a reading costs 3 ms of CPU (H200, 11 metrics). With ticks of 0.2 s the first is one
every second, so that a stall of a second shows in it. Windows have readings of their own, see `_poll`.
"""

GPM_EARLY_EVERY_S = 0.5
"""Until the program has settled, and where GPM is all there is: 0.6 % of a core."""

BOARD_EVERY_S = (1.0, 2.0, 4.0)
"""By how calm the run is; a reading costs up to 5 ms of CPU in a virtual machine."""

SETTLES_LATE_S = 120.0
"""
For so long a program that was taken to be steady without having settled may still do it (torch.compile tries
kernels for a minute, and more); it is read every second meanwhile.
"""

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

KEPT_WINDOWS = 10_000
"""The last windows are remembered for the estimate of the cost."""

LOOKS = 2
"""How often a run is looked at for its step time, at ends of windows; a look costs up to 0.1 s of CPU."""

LOOK_AGAIN = 1.3
"""Where windows are spaced by steps, the next look comes when the run is so many times as old."""

LENT = say("counters.lent")
LEAN = say("counters.lean")
COMPLETE = say("counters.complete")
"""Why the windows of a session have the counters that they have."""

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
        by_steps: bool = False,
    ) -> None:
        """*by_steps*: windows are to be spaced by steps, so their time is looked for again and again."""
        self.board = Board(gpu)
        self.board.slow_every = 1  # whose processes are on it is the question, until `take`
        self.windows: deque[Window] = deque(maxlen=KEPT_WINDOWS)
        self.sampled_ns = 0
        self.pids: set[int] = set()
        """Every process that was seen to hold a context on this GPU."""
        self.tier_reason = ""
        self.sessions = 0
        self.step_s: float | None = None
        """The step time last seen."""
        self._choices: list[tuple[float, Choice]] = []  # and at which second of the recording
        self._gpm: Gpm | None = Gpm(gpu, names=GPM_DEFAULT) if source != "nvml" else None
        self._writer = writer
        self._source = source
        self._say = say
        self._policy = Policy(settings)
        self._sampling = Sampling(
            gpu,
            writer=writer,
            settings=settings,
            wanted=source in ("auto", "pm"),
            required=source == "pm",
            hints=hints,
            may_sudo=sudo,
            note=self._note,
            say=say,
            on_open=self._sampling_opened,
            on_window=self._window_ended,
            on_failure=lambda now_s, zoom: self._policy.failed(now_s, zoom=zoom),
            on_given_up=self._sampling_given_up,
            on_pressed=self._sampling_pressed,
        )
        self._now_s = 0.0
        self._xids: set[int] = set()  # those that were told
        self._by_steps = by_steps
        self._looks = 0
        self._look_due = False
        self._look_after_s = 0.0
        self._ended = 0  # windows, bursts left out
        self._settling = Settling()
        self._averages = Averages()
        self._kept = self._resting = False
        self._held_notes: list[Note] = []
        self._unclaimed = 0
        self._working = False
        self._capped: list[tuple[float, bool]] = []
        self._gpm_due = self._board_due = self._flush_due = 0.0
        self._gpm_seen_s = 0.0
        self._window_ends_s = math.inf
        self._pending: dict[str, list[Samples]] = {}
        self._told_settled = self._told_again = False
        self._lean = False
        self._counters: tuple[str, ...] = ()  # of the last session for windows

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
                self._note("gpm", first_line(error.sentence))

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
        self._sampling.begin(gpm=self._gpm is not None)

    def rest(self) -> None:
        """The program uses other GPUs: from now on only look, now and then, who is on this one."""
        if not self._resting:
            self._resting = True
            if self._gpm is not None:
                self._gpm.close()

    @property
    def gpu(self) -> Gpu:
        """The GPU, with all that is known of it so far."""
        return self._sampling.gpu

    @property
    def fatal(self) -> SourceError | None:
        """Why `--source pm` cannot be had; with another choice the run goes on with less."""
        return self._sampling.fatal

    @property
    def sampler_cpu_s(self) -> float:
        """CPU time of the sampler in seconds, known when it has ended."""
        return self._sampling.cpu_s

    @property
    def sampler_pid(self) -> int | None:
        """The process id of the sampler, for those who test what happens when it is killed."""
        return self._sampling.pid

    @property
    def tier(self) -> Tier:
        """What carried this GPU so far."""
        if self._sampling.samples:
            return "pm"
        return "gpm" if len(self._averages) else "nvml"

    @property
    def samples(self) -> int:
        """PM samples so far, those of bursts included."""
        return self._sampling.samples

    @property
    def lost(self) -> int:
        """PM samples that should have come in the windows that have ended, and did not."""
        return self._sampling.lost

    @property
    def capped(self) -> bool:
        """Whether the board is at its power cap, or near it."""
        return self._is_capped(self._now_s)

    @property
    def state(self) -> State:
        """What is happening, in a word or two."""
        if not self._working:
            return "waiting for work"
        if self._steady_at_s is None or self._settling.doubted:
            return "warm-up"
        return "looking closely" if self._policy.looks_closely(self._now_s) else "watching"

    @property
    def steady_s(self) -> float:
        """For how long the program has been taken to be steady."""
        return 0.0 if self._steady_at_s is None else self._now_s - self._steady_at_s

    @property
    def evidence(self) -> int:
        """A number that grows whenever there is something new to judge."""
        if not self._sampling.wanted:
            return len(self._averages)
        return self.samples if self._sampling.in_window_without_end else self._ended

    @property
    def _steady_at_s(self) -> float | None:
        """The policy's word, or where there is no sampling that of the averages alone."""
        at_s = self._policy.steady_at_s
        if at_s is None and not self._sampling.wanted:
            return self._settling.settled_again_at or self._settling.settled_at
        return at_s

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
        self._now_s = now_s
        sampling = self._sampling
        sampling.hear(now_s)
        if self._look_due:
            self._look_due = False
            self._look_for_steps(now_s)
        self._poll(now_s)
        sampling.mind_silence(now_s)
        if not sampling.alive:
            return
        action = self._policy.decide(
            Situation(
                now_s=now_s,
                working=self._working,
                settled=self._settling.settled_at is not None,
                capped=self._is_capped(now_s),
                session=sampling.session,
                sampling=sampling.in_window,
                rested_s=self._settling.rested_s,
            )
        )
        if action.verb == "open":
            self.sessions += 1
            if not action.zoom:
                self._counters_chosen(lean=action.lean)
        elif action.verb == "start":
            self._poll(now_s, at_window=True)
            self._window_ends_s = math.inf if action.duration_s is None else now_s + action.duration_s
        sampling.act(action)

    @property
    def in_window(self) -> bool:
        """Whether a window of PM sampling is open that will end."""
        return self._sampling.in_window and not self._sampling.in_window_without_end

    # --- the burst beside a look inside the program ---

    def open_close_up(self, *, period_ns: int, length_s: float) -> None:
        """Open a session for a burst of *length_s* seconds that begins and ends when it is told to."""
        if self._sampling.alive:
            self._policy.want_close_up(self._now_s, period_ns=period_ns, length_s=length_s)

    @property
    def close_up(self) -> Literal["none", "opening", "open", "sampling"]:
        """How far it is; "none" also where it could not be had, or is over."""
        wanted = self._policy.close_up
        if wanted is None or not self._sampling.alive:
            return "none"
        if self._sampling.session != "zoom" or wanted.stage == "wanted":
            return "opening"
        return "sampling" if wanted.stage == "running" and self._sampling.sampling else "open"

    def start_close_up(self) -> None:
        """Sample now."""
        self._policy.begin_close_up()

    def stop_close_up(self) -> None:
        """Sample no more."""
        self._sampling.stop()
        if (wanted := self._policy.close_up) is not None and wanted.stage != "running":
            self._policy.close_up = None

    def leave(self) -> None:
        """Tell the sampler to end, without waiting: so several GPUs are closed at once."""
        self._sampling.leave()

    def close(self) -> None:
        """End the sampler and give everything back."""
        self._sampling.close()
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
                self._note("board", first_line(error.sentence))
                self._board_due = math.inf  # a GPU that is lost comes back with a reset, not with time
            self.pids |= self.board.pids or frozenset()
            for xid, count in Counter(self.board.xids).items():
                self._xid(xid, count)
        for stream, samples in rows.items():
            self._hold(stream, samples)
        if now_s >= self._flush_due:
            self._flush_due = now_s + FLUSH_EVERY_S
            self._flush()
        self._judge_state(rows, now_s)

    def _xid(self, number: int, count: int) -> None:
        """The driver has reported an error; said once for each number."""
        times = "" if count == 1 else say("xid.times", count=count)
        text = say("xid.reported", number=number, times=times)
        self._note("xid", text)
        if number not in self._xids:
            self._xids.add(number)
            self._say(say("xid.said", gpu=self.gpu.index, number=number))

    def _gpm_every_s(self, now_s: float) -> float:
        if self._waiting(now_s):
            return WAITING_EVERY_S
        if self._warming or not self._sampling.wanted:
            return GPM_EARLY_EVERY_S
        soon = self._settling.may_change(now_s) and not self._never_settled
        return GPM_EVERY_S[0 if soon else calm(now_s)]

    @property
    def _warming(self) -> bool:
        """Whether the program has not settled, or seems to leave the level at which it had."""
        taken = self._policy.steady_at_s is not None
        return (self._settling.settled_at is None and not taken) or self._settling.doubted

    @property
    def _never_settled(self) -> bool:
        """Whether it was taken to be steady without having settled, and has not done so for long after."""
        steady_at_s = self._policy.steady_at_s
        if self._settling.settled_at is not None or steady_at_s is None:
            return False
        return self._now_s > steady_at_s + SETTLES_LATE_S

    def _board_every_s(self, now_s: float) -> float:
        if self._resting:
            return RESTING_EVERY_S
        return WAITING_EVERY_S if self._waiting(now_s) else BOARD_EVERY_S[calm(now_s)]

    def _waiting(self, now_s: float) -> bool:
        return not self._kept and now_s > WAITING_AFTER_S

    def _without_gpm(self, error: SourceError) -> None:
        self._note("gpm", first_line(error.sentence))
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None
            self._sampling.without_gpm()
            self._policy.without_gpm()

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
        blind = self._gpm is None or now_s - self._gpm_seen_s > 2 * self._gpm_every_s(
            now_s
        ) + self._board_every_s(now_s)
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
            late = self._sampling.wanted and self._policy.steady_at_s is not None
            if late:  # it was taken to be steady, and had not settled
                self._told_again = True
                self._look_again(now_s)
            else:
                self._say(say("watch.warm", gpu=self.gpu.index, seconds=f"{now_s:.0f}"))
        if self._kept and self._settling.settled_again_at is not None and not self._told_again:
            self._told_again = True
            self._look_again(now_s)

    def _look_again(self, now_s: float) -> None:
        """What was looked at closely was still the warm-up."""
        self._policy.settled_again(now_s)
        self._sampling.forget()
        self._looks, self.step_s = 0, None
        text = say("watch.settled_again", seconds=f"{now_s:.0f}")
        self._note("settled", text)
        self._say(say("watch.again", gpu=self.gpu.index, seconds=f"{now_s:.0f}"))

    def _is_capped(self, now_s: float) -> bool:
        return any(capped for t, capped in self._capped if t > now_s - CAPPED_OVER_S)

    # --- what becomes of the sampling ---

    def _sampling_opened(self, metrics: int) -> None:
        if not self.tier_reason:
            self.tier_reason = say("tier.one_pass", count=metrics)
            self._say(f"GPU {self.gpu.index} ({self.gpu.name}): {self.tier_reason}")

    def _window_ended(self, window: Window) -> None:
        self.windows.append(window)
        self.sampled_ns += window.end_ns - window.start_ns
        if window.kind == "zoom":
            return
        self._ended += 1
        if self._by_steps:
            self._look_due = self._now_s >= self._look_after_s
        else:
            steady = self._policy.steady_at_s is not None
            self._look_due = steady and self.step_s is None and self._looks < LOOKS

    def _look_for_steps(self, now_s: float) -> None:
        """The step time, from the last samples; what hangs on it is chosen anew."""
        from perfzero.series.steps import NoSteps, find_steps

        self._looks += 1
        self._look_after_s = LOOK_AGAIN * now_s
        found = find_steps(self._sampling.recent())
        if not isinstance(found, NoSteps):
            self.step_s = found.step_s
            self._chosen(self._policy.step_seen(found.step_s))

    def _chosen(self, choices: Sequence[Choice]) -> None:
        """Remember and tell what was chosen."""
        self._choices += [(self._now_s, choice) for choice in choices]
        if choices:
            self._say(f"GPU {self.gpu.index}: {', '.join(map(_told, choices))}")

    def _counters_chosen(self, *, lean: bool) -> None:
        """Remember that windows have other counters from now on; nobody has to be told."""
        before, names = self._counters, windows_counters(lean=lean, gpm=self._gpm is not None)
        if names == before:
            return
        why = LENT if lean and self._lean else LEAN if lean else COMPLETE
        self._counters, self._lean = names, lean
        if before:
            self._choices.append((self._now_s, Choice("counters", len(names), why)))

    def _sampling_pressed(self, why: str) -> None:
        choice = self._policy.overflowed(why)
        if choice is not None:
            self._note("period", say("watch.apart", length=_length(choice.value), why=why))
            self._chosen((choice,))

    def _sampling_given_up(self, why: str) -> None:
        instead = say("tier.gpm_averages") if self._gpm is not None else say("tier.board")
        self.tier_reason = self.tier_reason or say("tier.instead", why=why, instead=instead)
        self._say(say("watch.instead", gpu=self.gpu.index, why=why, instead=instead))

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
        return table.where(table.column("gr_active") > ACTIVE)

    def chosen(self) -> list[dict[str, Any]]:
        """What was chosen anew, for the manifest: when, what, its value, and why."""
        return [{"gpu": self.gpu.index, "at_s": at_s, **asdict(choice)} for at_s, choice in self._choices]

    def choose_by_steps(self, spacing_s: float) -> float:
        """One window every *spacing_s* seconds from now on; returns the spacing taken, maybe a longer one."""
        return self._policy.every(spacing_s)


def _activity(gpm: Samples) -> float:
    """How busy the GPU was in the last row: with kernels, or with copies over PCIe."""
    moved = gpm.column("pcie_rx_bytes")[-1] + gpm.column("pcie_tx_bytes")[-1]
    copies = float(moved / gpm.duration_s[-1] / BUSY_LINK_BYTES_PER_S)
    kernels = float(gpm.column("gr_active")[-1])
    return max(kernels, copies) if math.isfinite(copies) else kernels


def _told(choice: Choice) -> str:
    """*choice* for people, e.g. "windows of 1.4 s (a window holds 8 steps of 170 ms)"."""
    length = duration(choice.value) if choice.what.endswith("_s") else _length(choice.value)
    return say(f"choice.{choice.what}", length=length, why=choice.why)


def _length(period_ns: float) -> str:
    return duration(period_ns / 1e9)


def calm(now_s: float) -> int:
    """How many of the moments `CALM_AFTER_S` a recording of *now_s* seconds has passed."""
    return sum(now_s > moment for moment in CALM_AFTER_S)
