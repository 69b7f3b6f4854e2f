"""
When to sample: the policy, as a state machine without clock or device.

What measuring says (docs/measurements.md): an open session costs a program at the power cap 1 %
for as long as it is open, and one near it 0.13 %; one far from it, a CUDA graph of tiny kernels, was a
third of a percent faster. Opening and closing costs any program about 4 ms, and us
0.3 s of CPU; starting and stopping costs nothing. So the session stays open while the board is far
from its power cap, and is opened rarely where it is not. A sample costs us 0.13 ms of CPU, so
windows become rarer as a run goes on and repeats itself.

    waiting ──GPU works──► warming ──settled──► dense, zoom, dense ──► steady
              windows:      0.5 s / 4 s         10 s without a gap      0.5 s after 40, 80, 160, 180 ... s
    near the cap:           1 s / 15 s          one, 4 s, and a zoom    1 s after 60, 120, 180 ... s,
                                                                        session closed between

What has not settled after 8 s of work may work in bursts: far from the cap its windows last 2 s.
After 30 s of work a program is taken to be steady even so. A long rest (a compiler at work, a data set
being read) begins these spans anew, for what comes after it is not what was before. But one that comes back
a third time is what the program does: rollouts of a simulator, a validation on the host.

A look inside the program has a burst beside it (`CloseUp`), whose session is open until the look is over.

With --until-sure they come 5, 10, 20, 40 ... s after the close look, near the cap 10, 20, 40 ... s.

Which counters: the full set, until it has seen the steady state, for 3 s or near the cap 4 s. After the
burst the session is opened anew anyway, from then on without those that cost half the CPU
(`Action.lean`). Near the cap, where each window has its session, every second one samples the full set
again. A window that was lost (`failed`) has seen nothing.

A program that comes to another level soon after it had settled (`settled_again`) was still warming up:
the close look is made once more, in half the time.

In a program that has just been launched nothing is opened in the first two seconds of work: whether the
board is at its cap shows only then, and a session that is opened and closed again for one early
window costs us as much as each later one.

Once a step has been seen, length and period of windows and burst follow it (`perfzero.record.choice`),
and after an overflow samples become longer. A period belongs to a session: before the burst a better one
waits until a session is opened anyway, as it is then, unless the gain is clear. Later, and after an
overflow, it gets a session of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from perfzero.record.choice import (
    FEWEST_SAMPLES_PER_STEP,
    Choice,
    burst_for,
    period_after_overflow,
    period_for,
    window_for,
)
from perfzero.values import WindowKind

Verb = Literal["nothing", "open", "start", "close"]


@dataclass(frozen=True, slots=True)
class Settings:
    """
    What the user asked for, or the defaults. Seconds, and nanoseconds for periods.

    `window_s`/`every_s` given make the pattern explicit; `continuous` beats it. `first_after_s` is 0
    for a program that was running before us. `adapt_period` and `adapt_zoom` are off where the user has
    named the period. `until_sure` is for a run that ends with its verdict: windows come sooner.
    """

    period_ns: int = 2_000_000
    adapt_period: bool = True
    window_s: float | None = None
    every_s: float | None = None
    continuous: bool = False
    zoom_period_ns: int | None = 20_000
    adapt_zoom: bool = True
    zoom_s: float = 0.05
    until_sure: bool = False
    first_after_s: float = 2.0  # of work; the board's power follows within a second or two


@dataclass(frozen=True, slots=True)
class Defaults:
    """The numbers of the automatic policy, each with its reason beside it."""

    window_s: float = 0.5  # a few steps of most programs; 250 samples decode in 30 ms of CPU
    every_s: float = 40.0  # what has not changed for ten seconds changes slowly
    rarer_after: int = 1  # windows at one spacing before it doubles ...
    rarest_s: float = 180.0  # ... up to this; GPM watches in between, and a window costs 0.3 s of CPU
    warming_every_s: float = 4.0  # denser while nothing is known yet
    unsettled_after_s: float = 8.0  # of work: what works in bursts may not settle, and short windows miss it
    unsettled_window_s: float = 2.0
    dense_s: float = 10.0  # so that a verdict comes soon after warm-up
    zoom_after_s: float = 3.0  # of dense sampling, so that short runs have their zoom too
    warmup_max_s: float = 30.0  # of work without a long rest: the fallback of spec S10
    rest_s: float = 10.0  # loops seldom rest so long, and torch.compile rests 30 s, and more
    rests: int = 2  # that are waited through: a data set is read, then a compiler works
    warmup_longest_s: float = 300.0  # with a rest that does not end
    again_s: float = 5.0  # a close look at a second level; the first has cost what it cost
    capped_first_s: float = 4.0  # it has to carry a verdict, and see once what happens every 2 to 3 s
    capped_window_s: float = 1.0
    capped_warming_after_s: float = 6.0  # most programs have settled by then, and this one is saved
    capped_warming_every_s: float = 15.0
    capped_every_s: float = 60.0  # 1 s in 60 at 1 % and 4 ms per session: 0.025 %, and less and less
    sure_every_s: float = 5.0  # with --until-sure: a judgement of nothing new proves nothing
    capped_sure_every_s: float = 10.0  # each opens a session
    drain_s: float = 0.25  # buffers and images in proportion; their memory has to be got and cleared
    retry_busy_s: float = 15.0  # another tool may let go of the counters


DEFAULTS = Defaults()

STEPS_PAUSE = 10
"""With --profiling-interval, the distance of two windows is at least so many times their length."""

PERIOD_CHANGES = 2
"""How often the period follows the steps of a run; what an overflow asks for is not counted."""

LOST_WINDOWS = 3
"""So many windows that failed are made again; where all do, trying costs 0.3 s of CPU each time."""

ALIKE = 0.1
"""A window that would become longer or shorter by less than this share keeps its length."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the recorder knows at one moment. `now_s` runs from the start of the recording."""

    now_s: float
    working: bool  # the GPU has something to do, or had
    settled: bool  # warm-up is over
    capped: bool  # the board is at its power cap, or near it
    session: Literal["none", "opening", "window", "zoom"]  # the open session, by what it is made for
    sampling: bool
    rested_s: float = 0.0  # for how long the GPU has had nothing to do


@dataclass(frozen=True, slots=True)
class Action:
    """
    What to do now. `kind` belongs to "start"; `zoom`, `lean` and `period_ns` to "open".

    `duration_s` says how long a window is to be, and for a session for a burst, how long that will be.
    """

    verb: Verb
    kind: WindowKind = "regular"
    duration_s: float | None = None
    zoom: bool = False
    close_up: bool = False  # a zoom beside a look inside the program
    lean: bool = False  # the counters that cost half the CPU
    period_ns: int = 0


NOTHING = Action("nothing")


@dataclass(slots=True)
class CloseUp:
    """A burst beside a look inside the program, which says itself when it begins and ends."""

    period_ns: int
    length_s: float
    stage: Literal["wanted", "open", "begin", "running"] = "wanted"


class Policy:
    """Asked several times a second, answers with one action. Keeps the plan; touches nothing."""

    def __init__(self, settings: Settings, defaults: Defaults = DEFAULTS) -> None:
        self._settings = settings
        self._d = defaults
        self._worked_at: float | None = None
        self._spell_at = 0.0  # when the work without a long rest began
        self._rests, self._resting = 0, False  # long ones, that which lasts included
        self._steady = False
        self._begun = False  # a window, yet
        self._next_at = 0.0
        self._blocked_until = 0.0
        self._steady_sampled_s = 0.0  # how much of the steady state has been sampled
        self._regular = 0  # windows since the dense stretch
        self._zoomed = not self._zooms
        self._dense_s = defaults.dense_s
        self._lean = settings.continuous  # the last session for windows
        self._all_seen = False  # the steady state, by the counters that a lean session lacks
        self._before_window: tuple[float, bool, float] | None = None  # what `failed` takes back
        self._lost = 0  # windows that it was taken back of
        self._looked_again = False
        self._steady_at: float | None = None
        self._close_until = 0.0  # when the close look is over
        self._period_ns = settings.period_ns
        self._opened_ns = settings.period_ns  # the period of the session for windows
        self._reopen = False  # for the sake of a better period, at once
        self._period_changes = 0
        self._slowest_ns = 0  # from an overflow on samples are never shorter than this
        self._window_s = settings.window_s or defaults.window_s
        self._zoom_s, self._zoom_ns = settings.zoom_s, settings.zoom_period_ns or 0
        self._beside_look = False  # what the session for a burst was opened for
        self.close_up: CloseUp | None = None
        """The burst beside a look, from the moment it is asked for until it is over or has failed."""

    @property
    def steady_at_s(self) -> float | None:
        """Since when the program is taken to be steady."""
        return self._steady_at

    def looks_closely(self, now_s: float) -> bool:
        """Whether the program is steady and the first, close look at it is not over."""
        if not self._steady or self._settings.continuous or self._explicit:
            return False
        return not self._steady_sampled_s or not self._zoomed or now_s < self._close_until

    def settled_again(self, now_s: float) -> None:
        """The program has settled, and not at what was looked at closely."""
        if not self._steady or self._looked_again:
            return
        self._looked_again = True
        self._steady_at = now_s
        if self._explicit or self._settings.continuous:
            return
        self._next_at = now_s
        self._dense_s = self._d.again_s
        self._steady_sampled_s, self._all_seen = 0.0, False
        self._zoomed = not self._zooms
        self._reopen = self._reopen or self._lean

    def failed(self, now_s: float, *, zoom: bool = False) -> None:
        """The counters could not be had, or were lost: try again later, but a *zoom* only once."""
        self._blocked_until = now_s + self._d.retry_busy_s
        self.close_up = None
        self._zoomed = self._zoomed or zoom
        if self._before_window is not None and self._lost < LOST_WINDOWS:
            self._lost += 1
            self._steady_sampled_s, self._all_seen, self._next_at = self._before_window
        self._before_window = None

    def want_close_up(self, now_s: float, *, period_ns: int, length_s: float) -> None:
        """Open a session for a burst beside a look, if bursts are wanted and the counters can be had."""
        if self._zooms and now_s >= self._blocked_until:
            self.close_up = CloseUp(period_ns, length_s)

    def begin_close_up(self) -> None:
        """The session that is open for it is to sample now."""
        if self.close_up is not None and self.close_up.stage == "open":
            self.close_up.stage = "begin"

    def without_gpm(self) -> None:
        """GPM lends nothing any more: a session that counted on it is opened anew."""
        self._reopen = self._reopen or self._lean

    def every(self, spacing_s: float) -> float:
        """
        From now on one window every *spacing_s* seconds (--profiling-interval, once steps are seen).

        Windows need pauses between them: returns the spacing that was taken, `STEPS_PAUSE` windows or more.
        """
        spacing_s = max(spacing_s, STEPS_PAUSE * self._window_s)
        self._settings = replace(self._settings, every_s=spacing_s)
        self._reopen = self._reopen or self._lean  # what is asked for has all counters
        return spacing_s

    def step_seen(self, step_s: float) -> tuple[Choice, ...]:
        """A step of the program takes *step_s*: what is chosen anew because of it."""
        return (*self._choose_window(step_s), *self._choose_period(step_s), *self._choose_burst(step_s))

    def _choose_window(self, step_s: float) -> tuple[Choice, ...]:
        settings, d = self._settings, self._d
        if settings.continuous or settings.window_s is not None:
            return ()
        asked = settings.every_s
        # A spacing that was asked for leaves room for a pause as long as the window.
        longest_s = {} if asked is None else {"longest_s": max(d.window_s, asked / 2)}
        choice = window_for(step_s, default_s=d.window_s, **longest_s)
        if abs(choice.value - self._window_s) <= ALIKE * self._window_s:
            return ()
        self._window_s = choice.value
        return (choice,)

    def _choose_period(self, step_s: float) -> tuple[Choice, ...]:
        settings = self._settings
        if not settings.adapt_period or settings.continuous or self._period_changes >= PERIOD_CHANGES:
            return ()
        choice = period_for(step_s, default_ns=settings.period_ns)
        if choice.value == self._period_ns or choice.value < self._slowest_ns:
            return ()
        self._period_changes += 1
        self._period_ns = int(choice.value)
        # With the burst behind us no session is opened anyway: the period would never come into force.
        too_few = step_s * 1e9 / self._opened_ns < FEWEST_SAMPLES_PER_STEP
        self._reopen = self._reopen or too_few or self._zoomed
        return (choice,)

    def _choose_burst(self, step_s: float) -> tuple[Choice, ...]:
        if self._zoomed:
            return ()
        fixed = not self._settings.adapt_zoom
        length, period = burst_for(step_s, period_ns=self._zoom_ns, length_s=self._zoom_s, fixed=fixed)
        before = (self._zoom_s, self._zoom_ns)
        self._zoom_s, self._zoom_ns = length.value, int(period.value)
        changed = (length.value != before[0], period.value != before[1])
        return tuple(choice for choice, new in zip((length, period), changed, strict=True) if new)

    def overflowed(self, why: str) -> Choice | None:
        """Samples of a window were lost, for the reason *why*: the longer period from the next one on."""
        if not self._settings.adapt_period:
            return None
        if self._period_ns > self._opened_ns:  # longer in the next session already, which cannot wait now
            self._reopen, self._slowest_ns = True, self._period_ns
            return None
        choice = period_after_overflow(self._opened_ns, why=why, window_s=self._window_s)
        if choice is not None:
            self._period_ns = self._slowest_ns = int(choice.value)
            self._reopen = True
        return choice

    def decide(self, s: Situation) -> Action:
        """The next action."""
        if s.sampling or s.session == "opening":  # windows end by themselves
            if self._settings.continuous:  # but this one does not
                self._mind_steadiness(s)
            return NOTHING
        self._before_window = None  # it has ended well
        if not s.working or s.now_s < self._blocked_until:
            return NOTHING
        if self._worked_at is None:
            self._worked_at = self._next_at = self._spell_at = s.now_s
        self._mind_steadiness(s)
        if self.close_up is not None:
            return self._go_on_with(self.close_up, s)
        if s.session == "zoom":
            if self._zoomed or self._beside_look:
                return Action("close")
            self._zoomed = True
            return Action("start", "zoom", self._zoom_s)
        if self._zoom_is_due(s):
            if s.session == "window":
                return Action("close")
            self._beside_look = False
            return Action("open", zoom=True, period_ns=self._zoom_ns, duration_s=self._zoom_s)
        pause = self._due_at(s) - s.now_s
        if pause > 0:
            # At the power cap an open session costs: keep none through a long pause.
            costly = s.capped and s.session == "window" and pause > self._d.capped_window_s
            return Action("close") if costly else NOTHING
        if s.session == "none":
            self._opened_ns, self._reopen = self._period_ns, False
            self._lean = self._may_be_lean(s)
            return Action("open", lean=self._lean, period_ns=self._period_ns)
        if self._reopen:
            return Action("close")
        return self._begin(s)

    def _go_on_with(self, close_up: CloseUp, s: Situation) -> Action:
        if close_up.stage == "wanted":
            if s.session != "none":
                return Action("close")
            close_up.stage, self._beside_look = "open", True
            period_ns, length_s = close_up.period_ns, close_up.length_s
            return Action("open", zoom=True, close_up=True, period_ns=period_ns, duration_s=length_s)
        if close_up.stage == "begin":
            close_up.stage = "running"
            return Action("start", "zoom", close_up.length_s)
        if close_up.stage == "running":  # and it is over
            self.close_up = None
            return Action("close")
        return NOTHING

    def _mind_steadiness(self, s: Situation) -> None:
        if self._steady or self._worked_at is None or not s.working:
            return
        d = self._d
        rests = s.rested_s >= d.rest_s
        self._rests += rests and not self._resting
        self._resting = rests
        if rests and self._rests <= d.rests:
            self._spell_at = s.now_s
        worked, waited = s.now_s - self._spell_at, s.now_s - self._worked_at
        if s.settled or worked >= d.warmup_max_s or waited >= d.warmup_longest_s:
            self._steady = True
            self._steady_at = s.now_s
            if not self._explicit:
                self._next_at = s.now_s

    def _zoom_is_due(self, s: Situation) -> bool:
        seen = self._steady_sampled_s
        enough = 0.0 if s.capped or self._explicit else self._d.zoom_after_s
        return not self._zoomed and self._steady and seen > 0 and seen >= enough

    def _may_be_lean(self, s: Situation) -> bool:
        """Whether the session that is opened now can do without the counters that cost most."""
        if self._settings.continuous or self._explicit:
            return self._settings.continuous
        return self._all_seen and not (s.capped and self._lean)

    def _due_at(self, s: Situation) -> float:
        """When the next window is to begin."""
        if self._begun or self._steady or self._explicit or self._settings.continuous:
            return self._next_at
        first = self._settings.first_after_s
        return self._next_at + (self._d.capped_warming_after_s if s.capped and first else first)

    @property
    def _zooms(self) -> bool:
        return self._settings.zoom_period_ns is not None and not self._settings.continuous

    @property
    def _explicit(self) -> bool:
        return self._settings.window_s is not None or self._settings.every_s is not None

    def _begin(self, s: Situation) -> Action:
        """The window that is due, and when the next one will be."""
        settings, d = self._settings, self._d
        # The close look costs a number of samples: where they are shorter, so is what is left of it.
        weight = max(1.0, settings.period_ns / self._opened_ns)
        dense_left = (self._dense_s - self._steady_sampled_s) / weight
        self._begun = True
        before = (self._steady_sampled_s, self._all_seen, self._next_at)
        close_look = False
        kind: WindowKind = "regular"
        length: float | None = self._window_s
        if settings.continuous:
            kind, length, pause = "continuous", None, 0.0
        elif self._explicit:
            kind = "explicit"
            pause = d.every_s if settings.every_s is None else settings.every_s
        elif s.capped:
            self._regular += self._steady_sampled_s > 0
            first = self._steady and self._steady_sampled_s == 0
            length = d.capped_first_s if first else max(d.capped_window_s, self._window_s)
            pause = self._rarer(capped=True) if self._steady else d.capped_warming_every_s
            self._close_until = s.now_s + length if first else self._close_until
            close_look = first
        elif not self._steady:
            pause = d.warming_every_s
            if s.now_s - self._spell_at >= d.unsettled_after_s:
                length = max(d.unsettled_window_s, self._window_s)
        elif dense_left > 0:
            kind, close_look = "dense", True
            length = dense_left if self._zoomed else min(dense_left, d.zoom_after_s)
            self._close_until = s.now_s + length if self._zoomed else s.now_s + self._dense_s
            after = length + d.sure_every_s if settings.until_sure else d.every_s
            pause = length if dense_left > length else after
        else:
            self._regular += 1
            pause = self._rarer(capped=False)
        if self._steady:
            self._steady_sampled_s += (length or 0.0) * weight
            self._all_seen = self._all_seen or not self._lean
        self._next_at = max(s.now_s, self._next_at) + pause if self._explicit else s.now_s + pause
        # A lost part of the close look is made again as soon as can be, any other window when its time comes.
        self._before_window = before if close_look else (*before[:2], self._next_at)
        return Action("start", kind, length)

    def _rarer(self, *, capped: bool) -> float:
        """From this window to the next: doubled with each since the steady state was seen, up to a limit."""
        d, doublings = self._d, self._regular // self._d.rarer_after
        spacing_s = d.capped_every_s if capped else d.every_s
        if self._settings.until_sure:
            spacing_s = d.capped_sure_every_s if capped else d.sure_every_s
            doublings = max(0, doublings - 1)
        return min(spacing_s * 2.0**doublings, d.rarest_s)
