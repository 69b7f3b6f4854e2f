"""
When to sample: the policy, as a state machine without clock or device.

What measuring says (docs/measurements.md): an open session costs a program at the power cap 1 %
for as long as it is open, and one near it 0.13 %; on one far from it nothing was seen above the
noise, which has not been benchmarked yet. Opening and closing costs any program about 4 ms, and us
0.3 s of CPU; starting and stopping costs nothing. So the session stays open while the board is far
from its power cap, and is opened rarely where it is not. A sample costs us 0.13 ms of CPU, so
windows become rarer as a run goes on and repeats itself.

    waiting ──GPU works──► warming ──settled──► dense, zoom, dense ──► steady
              windows:      0.5 s / 4 s         10 s without a gap      0.5 s after 40, 80, 160, 180 ... s
    near the cap:           1 s / 15 s          one, 2 s, and a zoom    1 s after 60, 120, 180 ... s,
                                                                        session closed between

In a program that has just been launched nothing is opened in the first two seconds of work: whether the
board is at its cap shows only then, and a session that is opened and closed again for one early
window costs us as much as each later one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from perfzero.values import WindowKind

Verb = Literal["nothing", "open", "start", "close"]


@dataclass(frozen=True, slots=True)
class Settings:
    """
    What the user asked for, or the defaults. Seconds, and nanoseconds for periods.

    `window_s`/`every_s` given make the pattern explicit; `continuous` beats it. `first_after_s` is 0
    for a program that was running before us.
    """

    period_ns: int = 2_000_000
    window_s: float | None = None
    every_s: float | None = None
    continuous: bool = False
    zoom_period_ns: int | None = 20_000
    zoom_s: float = 0.05
    first_after_s: float = 2.0  # of work; the board's power follows within a second or two


@dataclass(frozen=True, slots=True)
class Defaults:
    """The numbers of the automatic policy, each with its reason beside it."""

    window_s: float = 0.5  # a few steps of most programs; 250 samples decode in 30 ms of CPU
    every_s: float = 40.0  # what has not changed for ten seconds changes slowly
    rarer_after: int = 1  # windows at one spacing before it doubles ...
    rarest_s: float = 180.0  # ... up to this; GPM watches in between, and a window costs 0.3 s of CPU
    warming_every_s: float = 4.0  # denser while nothing is known yet
    dense_s: float = 10.0  # so that a verdict comes soon after warm-up
    zoom_after_s: float = 3.0  # of dense sampling, so that short runs have their zoom too
    warmup_max_s: float = 30.0  # the fallback of spec S10
    capped_first_s: float = 2.0  # the first steady window at the cap has to carry a verdict
    capped_window_s: float = 1.0
    capped_warming_after_s: float = 6.0  # most programs have settled by then, and this one is saved
    capped_warming_every_s: float = 15.0
    capped_every_s: float = 60.0  # 1 s in 60 at 1 % and 4 ms per session: 0.025 %, and less and less
    drain_s: float = 0.25  # buffers and images in proportion; their memory has to be got and cleared
    retry_busy_s: float = 15.0  # another tool may let go of the counters


DEFAULTS = Defaults()

STEPS_PAUSE = 10
"""With --profiling-interval, the distance of two windows is at least so many times their length."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the recorder knows at one moment. `now_s` runs from the start of the recording."""

    now_s: float
    working: bool  # the GPU has something to do, or had
    settled: bool  # warm-up is over
    capped: bool  # the board is at its power cap, or near it
    session: Literal["none", "opening", "window", "zoom"]  # the open session, by what it is made for
    sampling: bool


@dataclass(frozen=True, slots=True)
class Action:
    """What to do now. `kind` and `duration_s` belong to "start"; `zoom` to "open"."""

    verb: Verb
    kind: WindowKind = "regular"
    duration_s: float | None = None
    zoom: bool = False


NOTHING = Action("nothing")


class Policy:
    """Asked several times a second, answers with one action. Keeps the plan; touches nothing."""

    def __init__(self, settings: Settings, defaults: Defaults = DEFAULTS) -> None:
        self._settings = settings
        self._d = defaults
        self._worked_at: float | None = None
        self._steady = False
        self._begun = False  # a window, yet
        self._next_at = 0.0
        self._blocked_until = 0.0
        self._steady_sampled_s = 0.0  # how much of the steady state has been sampled
        self._regular = 0  # windows since the dense stretch
        self._zoomed = settings.zoom_period_ns is None or settings.continuous

    def failed(self, now_s: float, *, zoom: bool = False) -> None:
        """The counters could not be had, or were lost: try again later, but a *zoom* only once."""
        self._blocked_until = now_s + self._d.retry_busy_s
        self._zoomed = self._zoomed or zoom

    def every(self, spacing_s: float) -> float:
        """
        From now on one window every *spacing_s* seconds (--profiling-interval, once steps are seen).

        Windows need pauses between them: returns the spacing that was taken, `STEPS_PAUSE` windows or more.
        """
        length = self._settings.window_s or self._d.window_s
        spacing_s = max(spacing_s, STEPS_PAUSE * length)
        self._settings = replace(self._settings, every_s=spacing_s)
        return spacing_s

    def decide(self, s: Situation) -> Action:
        """The next action."""
        if s.sampling or s.session == "opening":  # windows end by themselves
            return NOTHING
        if not s.working or s.now_s < self._blocked_until:
            return NOTHING
        if self._worked_at is None:
            self._worked_at = self._next_at = s.now_s
        if not self._steady and (s.settled or s.now_s - self._worked_at >= self._d.warmup_max_s):
            self._steady = True
            if not self._explicit:
                self._next_at = s.now_s
        if s.session == "zoom":
            if self._zoomed:
                return Action("close")
            self._zoomed = True
            return Action("start", "zoom", self._settings.zoom_s)
        if self._zoom_is_due(s):
            return Action("close") if s.session == "window" else Action("open", zoom=True)
        pause = self._due_at(s) - s.now_s
        if pause > 0:
            # At the power cap an open session costs: keep none through a long pause.
            costly = s.capped and s.session == "window" and pause > self._d.capped_window_s
            return Action("close") if costly else NOTHING
        if s.session == "none":
            return Action("open")
        return self._begin(s)

    def _zoom_is_due(self, s: Situation) -> bool:
        seen = self._steady_sampled_s
        enough = 0.0 if s.capped or self._explicit else self._d.zoom_after_s
        return not self._zoomed and self._steady and seen > 0 and seen >= enough

    def _due_at(self, s: Situation) -> float:
        """When the next window is to begin."""
        if self._begun or self._steady or self._explicit or self._settings.continuous:
            return self._next_at
        first = self._settings.first_after_s
        return self._next_at + (self._d.capped_warming_after_s if s.capped and first else first)

    @property
    def _explicit(self) -> bool:
        return self._settings.window_s is not None or self._settings.every_s is not None

    def _begin(self, s: Situation) -> Action:
        """The window that is due, and when the next one will be."""
        settings, d = self._settings, self._d
        dense_left = d.dense_s - self._steady_sampled_s
        self._begun = True
        kind: WindowKind = "regular"
        length: float | None = d.window_s
        if settings.continuous:
            kind, length, pause = "continuous", None, 0.0
        elif self._explicit:
            kind = "explicit"
            length = d.window_s if settings.window_s is None else settings.window_s
            pause = d.every_s if settings.every_s is None else settings.every_s
        elif s.capped:
            self._regular += self._steady_sampled_s > 0
            first = self._steady and self._steady_sampled_s == 0
            length = d.capped_first_s if first else d.capped_window_s
            pause = self._rarer(d.capped_every_s) if self._steady else d.capped_warming_every_s
        elif not self._steady:
            pause = d.warming_every_s
        elif dense_left > 0:
            kind = "dense"
            length = dense_left if self._zoomed else min(dense_left, d.zoom_after_s)
            pause = length if dense_left > length else d.every_s
        else:
            self._regular += 1
            pause = self._rarer(d.every_s)
        if self._steady:
            self._steady_sampled_s += length or 0.0
        self._next_at = max(s.now_s, self._next_at) + pause if self._explicit else s.now_s + pause
        return Action("start", kind, length)

    def _rarer(self, spacing_s: float) -> float:
        """*spacing_s*, doubled for every window since the steady state was first seen, up to a limit."""
        return min(spacing_s * 2.0 ** (self._regular // self._d.rarer_after), self._d.rarest_s)
