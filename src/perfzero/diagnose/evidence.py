"""
What the rules look at: one recording of one GPU, cleaned, cut to its steady stretch and split.

    confidence = data quality x margin x signal tier x the rule's own certainty

- *quality*: known share of the samples x share not lost x coverage (seconds seen, up to two) x
  how the steady stretch was found x how little the load moved within it.
- *margin*: how often the bootstrap keeps the share above its threshold, and how far above.
- *tier*: PM sampling 1.0, GPM 0.6, plain NVML 0.3 (science.md §2.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from perfzero.counters import BY_NAME, SECTOR_BYTES
from perfzero.diagnose.idle_shares import NOWHERE, IdleShares, data_late, share_out_idle
from perfzero.diagnose.roofs import Roofs, roofs_of
from perfzero.diagnose.split import AT, Rates, Split, split_time
from perfzero.diagnose.thresholds import (
    ATYPICAL,
    DROPPED_SHARE,
    IDLE_INFO,
    IMPOSSIBLE_SHARE,
    LOST_DOUBT,
    NOT_STEADY,
    SHORT_LOOK,
    SHORTEST_LOOK,
    SOURCES_DISAGREE,
    SWITCHING,
    TIER_CONFIDENCE,
    Threshold,
)
from perfzero.diagnose.verdict import TimeClass
from perfzero.limits import CHOICE, Limit
from perfzero.series.clean import HIGHEST_RATIO_ZOOM, POLLED_LONGEST, Cleaned, clean
from perfzero.series.rare import ALIKE, RARE, RareEvent, outside, pauses, rare_events, stalls_in
from perfzero.series.stats import hit_ratio, level, reuse_ratio, weighted_mean
from perfzero.series.steady import Stretch, find_steady
from perfzero.series.steps import NoSteps, Searched, Steps, find_beat, find_steps, search
from perfzero.text import percent
from perfzero.values import FloatArray, Gpu, IntArray, Observation, Samples, Tier
from perfzero.words.said import listed, say

STEADY_QUALITY: Annotated[Mapping[str, float], Limit("ratio", CHOICE)] = {
    "stable": 1.0,
    "fallback": 0.9,
    "short": 0.8,
    "none": 0.5,
}
"""What is left of the trust in data whose steady stretch was found this way."""

FAR: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""A share this much above its threshold, as a share of it, is far from it."""

NEAR_CONFIDENCE: Annotated[float, Limit("ratio", CHOICE)] = 0.6
"""What a share right at its threshold is worth, if the bootstrap never doubts it."""


DENSE: Annotated[float, Limit("ratio", CHOICE)] = 0.9
"""A GPM sample is compared with PM samples if they cover nine tenths of it."""

ONE_STEP: Annotated[tuple[float, float], Limit("ratio", CHOICE)] = (0.5, 1.6)
"""Onsets this many mean steps apart have one step between them."""

RARE_IN_GPM_S: Annotated[float, Limit("seconds", CHOICE)] = 1.2
"""GPM rows longer than this blur what lasts a second; the recorder makes them every 0.5 to 1 s early on."""

BEATS_IN_A_STEP: Annotated[int, Limit("count", CHOICE)] = 8
"""
Of gradient accumulation. Pauses that come after more beats may be stalls in some steps, and are taken for
such from `series.rare.RARE` times as many on: so is a wait in each step of 24 beats or more.
"""

BEAT_ROWS = 1 << 17
"""Samples in which a beat is looked for, the first of them: two minutes at 1 ms, for a second of work."""

JUDGED = ("gr_active", "sm_active", "tensor_active", "fma_active", "l2_hit", "ce_active", "dram_active")
"""Shares on which verdicts rest: one of them being impossible spoils the whole stream."""

BORROWED = ("sm_active", "tensor_active", "fp32_active", "fp64_active")
"""
Shares that GPM can lend where PM sampling had no place for them in its single pass. Of the FMA pipe it has
the FP32 arithmetic only, under a name of its own: it stands in for `fma_active`, row by row, and never mixes.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """
    The steady stretch of one GPU. Every number a rule asks for is NaN if it was not measured.

    `long`: the samples judged, PM windows or GPM by `tier`. `cleaned`: by stream name, what
    cleaning the whole recording took. `sampled_s`: seconds that `long` covers. `rare`: what happens in
    some steps only. `idle`: to whom the parts of the idle time belong. `by_beat`: the steps that are usual
    are known by a beat, which may be a part of one. `paused`: part of the idle time in pauses of `PAUSE_S`
    and longer that may be stalls; 0 where steps, or too few beats between them, say that they are none.
    """

    observation: Observation
    tier: Tier
    steady: Stretch
    long: Samples
    zoom: Samples
    gpm: Samples
    board: Samples
    host: Samples
    roofs: Roofs
    split: Split | None
    cleaned: Mapping[str, Cleaned]
    sampled_s: float
    lost_share: float
    steps: Steps | NoSteps
    rare: tuple[RareEvent, ...]
    idle: IdleShares
    by_beat: bool = False
    paused: float = 0.0
    windows_missed: str = ""  # why the windows were not judged, in words
    borrowed: tuple[str, ...] = ()  # columns of `long` and `zoom` that come from GPM alone

    @property
    def gpu(self) -> Gpu:
        """The GPU in question."""
        return self.observation.gpu

    @property
    def step_s(self) -> float | None:
        """The program's step time in seconds, where there are steps beyond doubt."""
        return self.steps.step_s if isinstance(self.steps, Steps) else None

    @property
    def stalls(self) -> tuple[RareEvent, ...]:
        """Kinds of stalls that happen in some steps only, the largest share first."""
        return tuple(event for event in self.rare if event.nature == "stall")

    @property
    def idle_unclaimed(self) -> float:
        """Share of the time that is idle and belongs neither to rare stalls nor to work that waits."""
        return max(0.0, self.share("idle") - self.idle.waiting - self.idle.stalled)

    def share(self, *classes: TimeClass) -> float:
        """Share of the steady time in *classes* together; NaN if the time could not be split."""
        return math.nan if self.split is None else sum(self.split.shares[c] for c in classes)

    def level(self, name: str) -> float:
        """Mean of a level, or rate per second of an amount, in base units; from GPM where PM has it not."""
        origin = BY_NAME[name].origin
        if origin == "board":
            return level(self.board, name)
        if origin == "host":
            return level(self.host, name)
        value = level(self.long, name)
        return level(self.gpm, name) if math.isnan(value) else value

    def while_busy(self, name: str) -> float:
        """The level or rate *name* as if the GPU had been active all the time: divided by GR activity."""
        table = self.long if self.long.has(name) else self.gpm
        # Of the samples that have it: windows without it may have found the GPU busier.
        table = table.where(np.isfinite(table.column(name)))
        active = level(table, "gr_active")
        return level(table, name) / active if active > 0 else math.nan

    @property
    def fma_pipe(self) -> str:
        """The counter that tells of the FMA pipe: its own, else the FP32 arithmetic, a part of it."""
        return "fp32_active" if math.isnan(self.level("fma_active")) else "fma_active"

    @property
    def dram_bytes_per_s(self) -> float:
        """DRAM traffic, reads and writes, over all time; from the active share where bytes are unknown."""
        both = self.level("dram_read_bytes") + self.level("dram_write_bytes")
        return self.level("dram_active") * self.roofs.dram_peak if math.isnan(both) else both

    @property
    def dram_share(self) -> float:
        """DRAM traffic over all time as a share of the practical roof."""
        return self.dram_bytes_per_s / self.roofs.dram

    @property
    def pcie_share(self) -> float:
        """The busier direction of PCIe as a share of the link's practical roof, over all time."""
        return float(np.fmax(self.level("pcie_rx_bytes"), self.level("pcie_tx_bytes"))) / self.roofs.pcie

    @property
    def l2_share(self) -> float:
        """What the SMs ask of the L2 as a share of its practical roof, over all time."""
        return self.level("l2_sectors") * SECTOR_BYTES / self.roofs.l2

    @property
    def l2_hit(self) -> float:
        """Share of the SMs' sectors found in the L2."""
        return hit_ratio(self.long)

    @property
    def reuse(self) -> float:
        """Bytes the SMs asked of the L2 per byte read from DRAM (R; 1 is streaming, higher is better)."""
        return reuse_ratio(self.long)

    @property
    def mean_kernel_s(self) -> float:
        """Mean time of a kernel: time with work over kernels launched."""
        launches = self.level("launches")
        return self.level("gr_active") / launches if launches > 0 else math.nan

    @property
    def clock_hz(self) -> float:
        """The SM clock: measured where it was, else as NVML reports it."""
        measured = self.level("gpc_clock")
        return self.level("sm_clock") if math.isnan(measured) else measured

    @property
    def memory_free(self) -> float:
        """Share of the device memory that was free; NaN if unknown."""
        whole = self.gpu.memory_bytes
        return 1.0 - self.level("memory_used") / whole if whole else math.nan

    @property
    def rates(self) -> Rates:
        """The samples that set the mix of the busy time; only with a split."""
        if self.split is None:
            raise ValueError(say("zoom.unsplit"))
        return self.split.rates

    def busy_share(self, where: NDArray[np.bool_]) -> float:
        """Share of all time for which *where* over `rates` holds while the GPU is busy; 0 without a split."""
        return 0.0 if self.split is None else self.split.busy_share(where)

    @property
    def quality(self) -> float:
        """How far the data itself can be trusted, in [0, 1]."""
        known = 1.0 if self.split is None else self.split.known
        coverage = min(1.0, self.sampled_s / SHORT_LOOK.value) ** 0.5
        settled = 1.0 - min(1.0, max(0.0, self.steady.changed - NOT_STEADY.value))
        return float(known * (1.0 - self.lost_share) * coverage * STEADY_QUALITY[self.steady.how] * settled)

    def confidence(
        self, share: float, *, over: Threshold, classes: tuple[TimeClass, ...] = (), certainty: float = 1.0
    ) -> float:
        """
        Confidence in [0, 1] that *share* lies above *over* for the reason a rule gives.

        *classes*: the time classes the share is made of, whose bootstrap tells how stable it is.
        *certainty*: what the rule itself is worth when its conditions hold beyond doubt.
        """
        held = 1.0
        if classes and self.split is not None:
            drawn = self.split.replicates[:, [AT[c] for c in classes]].sum(axis=1)
            held = _share_above(drawn, over.value)
        distance = min(1.0, max(0.0, share / over.value - 1.0) / FAR)
        margin = held * (NEAR_CONFIDENCE + (1.0 - NEAR_CONFIDENCE) * distance)
        return float(np.clip(self.quality * margin * TIER_CONFIDENCE[self.tier] * certainty, 0.0, 1.0))


def _share_above(drawn: FloatArray, limit: float) -> float:
    known = drawn[np.isfinite(drawn)]
    return float(np.mean(known >= limit)) if len(known) else 1.0


def collect(observation: Observation) -> Evidence:
    """Clean the observation, find its steady stretch and split its time."""
    windows = observation.windows
    cleaned = {
        "pm": clean(observation.pm, windows=[w for w in windows if w.kind != "zoom"]),
        "zoom": clean(
            observation.zoom,
            windows=[w for w in windows if w.kind == "zoom"],
            highest=HIGHEST_RATIO_ZOOM,
        ),
        "gpm": clean(observation.gpm, longest=POLLED_LONGEST),
    }
    pm, zoom, gpm = (cleaned[name].samples for name in ("pm", "zoom", "gpm"))
    if broken(cleaned["zoom"], windows=sum(1 for w in windows if w.kind == "zoom")) is not None:
        zoom = Samples.empty()
    start, end = _span(observation)
    # GPM runs all the time, unless it was hardly there.
    always = gpm if np.sum(gpm.duration_s) >= np.sum(pm.duration_s) else pm
    if not (gpm.has("gr_active") or pm.has("gr_active")):
        # Nothing better: NVML's utilisation at least shows when the program ran.
        smi = observation.board.column("smi_utilization")
        always = observation.board.with_columns({"gr_active": smi})
    steady, searched = _find_steady(always, pm, start_ns=start, end_ns=end)

    def cut(table: Samples) -> Samples:
        return table.between(steady.start_ns, steady.end_ns)

    # Readings once a second may all straddle the edges of a short stretch: then any reading beats none.
    board = cut(observation.board) if len(cut(observation.board)) else observation.board
    host = cut(observation.host) if len(cut(observation.host)) else observation.host
    tier: Tier = "nvml"
    long = Samples.empty()
    sampled_pm, averages = cut(pm), cut(gpm)
    missed = _missed(sampled_pm, averages)
    candidates = (("pm", Samples.empty() if missed else sampled_pm), ("gpm", averages))
    for candidate, table in candidates:
        seen = float(np.sum(table.duration_s[np.isfinite(table.column("gr_active"))]))
        if seen >= SHORTEST_LOOK.value:
            tier, long = ("pm" if candidate == "pm" else "gpm"), table
            break
    zoom = cut(zoom) if tier == "pm" else Samples.empty()
    borrowed: tuple[str, ...] = ()
    if tier == "pm":
        piped = np.isfinite(long.column("fma_active"))
        spare = {"fp32_active"} if piped.any() else set()
        borrowed = tuple(n for n in BORROWED if n not in spare and not long.has(n) and gpm.has(n))
        spare = {"fp32_active"} if piped.all() else set()
        long = borrow(long, gpm, tuple(n for n in BORROWED if n not in spare and gpm.has(n)))
        zoom = borrow(zoom, gpm, borrowed)  # averages blur what a burst is for: only what nobody else saw
    roofs = roofs_of(observation.gpu, board)
    steps: Steps | NoSteps = NoSteps(say("no_steps.hardware_only"))
    if tier == "pm":
        # Where nothing was cut off, and nothing borrowed that marks steps, the search has been made.
        made = searched is not None and searched.is_of(long)
        steps = _steps(long, zoom, searched=searched if made else None)
    starts = steps.starts_ns if isinstance(steps, Steps) else None
    paused = _Paused()
    if tier == "pm" and isinstance(steps, NoSteps):
        paused = _paused(long)
    rare, stalls = _rare(long, averages, steps, paused=paused)
    split = split_time(long, zoom, roofs, starts_ns=starts) if len(long) else None
    idle = share_out_idle(long, zoom, roofs, stalls=stalls)
    if idle.stalled > 0 and data_late(host, split, stalled=idle.stalled):
        idle = share_out_idle(long, zoom, roofs, stalls=NOWHERE)
    lost_share = _lost_share(observation, cleaned["pm"]) if tier == "pm" else 0.0
    sampled = float(np.sum(long.duration_s))
    if tier == "nvml":
        sampled = float(np.sum(board.duration_s[np.isfinite(board.column("smi_utilization"))]))
    return Evidence(
        observation=observation,
        tier=tier,
        steady=steady,
        long=long,
        zoom=zoom,
        gpm=averages,
        board=board,
        host=host,
        roofs=roofs,
        split=split,
        cleaned=cleaned,
        sampled_s=sampled,
        lost_share=lost_share,
        steps=steps,
        rare=rare,
        idle=idle,
        by_beat=paused.beat_s is not None,
        paused=paused.of_idle if paused.may_be_stalls(lost_share) else 0.0,
        windows_missed=missed,
        borrowed=borrowed,
    )


def _missed(pm: Samples, gpm: Samples) -> str:
    """
    Why the windows cannot stand for all the time, in words; "" if they can.

    Short windows may all fall between the bursts of a program that works in bursts, or all into the bursts of
    one that stands still for as long: either its activity or its rest looks like another program's then.
    """
    seen, whole = level(pm, "gr_active"), level(gpm, "gr_active")
    # Counters that died read 0 throughout, and that is a gate's to say.
    if not (seen > 0 and math.isfinite(whole)):
        return ""
    beside = abs(seen - whole)
    few = float(np.sum(pm.duration_s)) < float(np.sum(gpm.duration_s)) / 2
    if apart(pm, gpm) > SOURCES_DISAGREE.value:
        return ""  # the two contradict each other where both looked
    rarer = min(max(seen, whole), max(1.0 - seen, 1.0 - whole))
    if not (few and beside > ATYPICAL.value * rarer and beside > IDLE_INFO.value):
        return ""
    return say("doubt.missed", near=percent(seen), far=percent(whole))


def apart(pm: Samples, gpm: Samples) -> float:
    """Difference in mean GR activity between PM and GPM over the GPM samples that PM covers; NaN if none."""
    if not (len(pm) and gpm.has("gr_active")):
        return math.nan
    first = np.searchsorted(pm.start_ns, gpm.start_ns, "left")
    last = np.searchsorted(pm.end_ns, gpm.end_ns, "right")
    time = np.r_[0.0, np.cumsum(pm.duration_s)]
    covered = (time[last] - time[np.minimum(first, last)]) >= DENSE * gpm.duration_s
    if not covered.any():
        return math.nan
    inside = np.zeros(len(pm), np.bool_)
    for row in np.flatnonzero(covered):
        inside[first[row] : last[row]] = True
    both = pm.where(inside)
    near = weighted_mean(both.column("gr_active"), both.duration_s)
    far = weighted_mean(gpm.column("gr_active")[covered], gpm.duration_s[covered])
    return abs(near - far)


def _find_steady(
    always: Samples, pm: Samples, *, start_ns: int, end_ns: int
) -> tuple[Stretch, Searched | None]:
    """
    The steady stretch by levels; step times may show that the warm-up lasted longer.

    They may not cut what comes last: steps wander (by 8 % with pageable copies) where levels do not.
    With it comes *pm* searched for steps, if it had to be.
    """
    by_levels = find_steady(always, pm, start_ns=start_ns, end_ns=end_ns)
    if by_levels.how != "stable":
        return by_levels, None
    searched = search(pm)
    times = _step_times(searched)
    if times is None:
        return by_levels, searched
    by_steps = find_steady(always, pm, start_ns=start_ns, end_ns=end_ns, step_times=times)
    kept = by_steps.how == "stable" and by_steps.end_ns >= by_levels.end_ns
    return (by_steps if kept and by_steps.start_ns >= by_levels.start_ns else by_levels), searched


def _step_times(pm: Searched) -> tuple[IntArray, FloatArray] | None:
    """
    When steps began and how many seconds each took, over the whole recording; None without steps.

    Where windows end, or an onset was missed, two onsets are not one step apart.
    """
    found = find_steps(pm)
    if isinstance(found, NoSteps):
        return None
    length_s = np.diff(found.starts_ns) / 1e9
    single = (length_s > ONE_STEP[0] * found.step_s) & (length_s < ONE_STEP[1] * found.step_s)
    return found.starts_ns[:-1][single], length_s[single]


def _steps(long: Samples, zoom: Samples, *, searched: Searched | None) -> Steps | NoSteps:
    """The steps in *long* and *zoom*; *searched*: what a search of *long* has shown, if there was one."""
    # Programs that take turns on the GPU show the driver's time slices, which are regular as steps are.
    if level(long, "ctxsw") > SWITCHING.value:
        return NoSteps(say("no_steps.turns"))
    return find_steps(long if searched is None else searched, zoom)


def _rare(
    long: Samples, gpm: Samples, steps: Steps | NoSteps, *, paused: _Paused
) -> tuple[tuple[RareEvent, ...], tuple[IntArray, IntArray]]:
    """
    What happens in some steps only, by the samples, or else by GPM's averages; and where its stalls lie.

    Averages are too long to see steps, but they have no holes, and a stall of a second shows in them. Of
    shorter ones they miss most: how often the program stands still the windows tell.
    """
    starts_ns = steps.starts_ns if isinstance(steps, Steps) else None
    step_s = paused.longest_step_s
    if isinstance(steps, Steps):
        step_s = steps.step_s
    by_beat = paused.beat_s is not None
    found = _known(rare_events(long, starts_ns, step_s), by_beat=by_beat)
    short = gpm.where(gpm.duration_s <= RARE_IN_GPM_S)
    by_windows = found, _joined([(event.starts_ns, event.ends_ns) for event in found if _stalls(event)])
    if any(event.period_s is not None for event in found):
        return by_windows
    # A short window may show one stall or two, and only the averages how often they come.
    averaged = _known(rare_events(short, step_s=step_s), by_beat=by_beat)
    averaged = tuple(event for event in averaged if not (_stalls(event) and paused.usually(event.length_s)))
    if found and not any(event.period_s is not None for event in averaged):
        return by_windows
    return averaged, _joined([stalls_in(event, long) for event in averaged if _stalls(event)])


def _stalls(event: RareEvent) -> bool:
    return event.nature == "stall"


def _joined(intervals: Sequence[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    """Starts and ends of all of them."""
    if not intervals:
        return NOWHERE
    starts, ends = zip(*intervals, strict=True)
    return np.concatenate(starts), np.concatenate(ends)


@dataclass(frozen=True, slots=True)
class _Paused:
    """
    Pauses of a program without steps, which may stand still too long for its steps to show.

    `of_idle`: part of the idle time in them. `work_s`: seconds seen between two. `beat_s`: the beat of what
    is left without them, which may be a part of a step only. `lengths_s`: how long each was, as far as seen.
    """

    of_idle: float = 0.0
    work_s: float = 0.0
    beat_s: float | None = None
    lengths_s: tuple[float, ...] = ()

    @property
    def longest_step_s(self) -> float | None:
        """How long a step with the beat may be; None without a beat."""
        return None if self.beat_s is None else BEATS_IN_A_STEP * self.beat_s

    def usually(self, length_s: float) -> bool:
        """Whether so little work lies between pauses of about *length_s* that most steps may have one."""
        step_s = self.longest_step_s
        alike = sum(ALIKE * pause_s >= length_s for pause_s in self.lengths_s)
        return step_s is not None and RARE * alike * step_s > self.work_s * len(self.lengths_s)

    def may_be_stalls(self, lost_share: float) -> bool:
        """Whether many beats lie between two, or so many samples were lost that these could not be seen."""
        step_s = self.longest_step_s
        return lost_share > LOST_DOUBT.value if step_s is None else self.work_s > step_s


def _paused(long: Samples) -> _Paused:
    starts_ns, ends_ns = pauses(long)
    if not len(starts_ns):
        return _Paused()
    rest = outside(long, starts_ns, ends_ns)
    idle_s, rest_s = (float(np.nansum(t.duration_s * (1.0 - t.column("gr_active")))) for t in (long, rest))
    # The turns of programs that share the GPU are as regular as steps.
    shared = level(long, "ctxsw") > SWITCHING.value
    return _Paused(
        of_idle=1.0 - rest_s / idle_s if idle_s > 0 else 0.0,
        work_s=float(np.sum(rest.duration_s)) / len(starts_ns),
        beat_s=None if shared else find_beat(rest.where(np.arange(len(rest)) < BEAT_ROWS)),
        lengths_s=tuple(((ends_ns - starts_ns) / 1e9).tolist()),
    )


def _known(events: tuple[RareEvent, ...], *, by_beat: bool) -> tuple[RareEvent, ...]:
    """
    Those of which enough was seen.

    An event of which only cut ones were seen may be the end of the program, or all there is. Without a
    period they are waits for requests as well as stalls, if most are cut, or the steps known *by_beat* only.
    """
    return tuple(
        event
        for event in events
        if event.cut < event.count
        and (event.period_s is not None or (not by_beat and 2 * event.cut <= event.count))
    )


def broken(cleaned: Cleaned, *, windows: int) -> str | None:
    """Why a stream of samples from so many *windows* cannot be trusted, in words; None if it can."""
    out = sum(cleaned.dropped.values())
    # Every window may begin and end with one bad sample; those are expected and gone.
    if cleaned.rows and max(0, out - 2 * windows) / cleaned.rows > DROPPED_SHARE.value:
        reasons = listed(
            say("rows.dropped", count=count, reason=reason) for reason, count in cleaned.dropped.items()
        )
        return say("gate.time_stamps", rows=cleaned.rows, reasons=reasons)
    for name, count in cleaned.impossible.items():
        if name in JUDGED and count / cleaned.rows > IMPOSSIBLE_SHARE.value:
            return say("gate.impossible", name=name, count=count, rows=cleaned.rows)
    return None


def borrow(table: Samples, gpm: Samples, names: tuple[str, ...]) -> Samples:
    """
    *table* with the shares *names* as GPM saw them where a row of PM sampling lacks them.

    They may lack everywhere, or in the windows whose pass had no place for them: a row that was sampled keeps
    its own. GPM's average is spread over the time in which the GPU had work. NaN where GPM was silent.
    """
    if not names or not len(table) or not len(gpm):
        return table
    middle = (table.start_ns + table.end_ns) // 2
    row = np.clip(np.searchsorted(gpm.start_ns, middle, "right") - 1, 0, len(gpm) - 1)
    inside = (gpm.start_ns[row] <= middle) & (middle < gpm.end_ns[row])
    active, seen = gpm.column("gr_active")[row], table.column("gr_active")
    columns: dict[str, FloatArray] = {}
    for name in names:
        own = table.column(name)
        missing = np.isnan(own)
        if not missing.any():
            continue
        value = np.full(len(table), np.nan)
        np.divide(gpm.column(name)[row] * seen, active, out=value, where=inside & (active > 0))
        columns[name] = np.where(missing, np.minimum(value, 1.0), own)
    return table.with_columns(columns) if columns else table


def _span(observation: Observation) -> tuple[int, int]:
    """When the recording began and ended, by its own word or by its samples."""
    if observation.end_ns > observation.start_ns:
        return observation.start_ns, observation.end_ns
    tables = [t for t in (observation.pm, observation.gpm, observation.board, observation.host) if len(t)]
    starts = [int(np.min(t.start_ns[t.start_ns > 0])) for t in tables if np.any(t.start_ns > 0)]
    ends = [int(np.max(t.end_ns)) for t in tables]
    return (min(starts), max(ends)) if starts else (0, 0)


def _lost_share(observation: Observation, cleaned: Cleaned) -> float:
    """Share of the PM samples that should be there and are not, by whichever count is worse."""
    told = sum(w.lost for w in observation.windows if w.kind != "zoom")
    lost = max(told, cleaned.lost)
    return lost / (lost + len(cleaned.samples)) if lost else 0.0
