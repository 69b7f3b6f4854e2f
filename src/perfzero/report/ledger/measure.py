"""
One iteration of the ledger: what a recording says, with each metric as a series over time.

A report gives each figure once. To say how far it may be from that of another run, its course is needed:
here the samples that the report was made of are cut into short blocks, and blocks into stretches
(`perfzero.series.compare`). What is per step is summed over whole steps.

    step time    onset to onset, without rare stalls; what these take is spread over all steps
    levels       means over blocks of whole steps, of `BLOCK_S` at least, by the counter's own weight
    time classes each block's time shared out as the report's (`diagnose.split`). Where bursts divided the
                 busy time, the report's share stands, and its own interval comes on top
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np

from perfzero.attribute.breakdown import Breakdown
from perfzero.counters import BY_NAME
from perfzero.diagnose.evidence import Evidence, collect
from perfzero.diagnose.split import AT, classify, rates_of
from perfzero.diagnose.verdict import TIME_CLASSES, Diagnosis, TimeClass
from perfzero.errors import UsageError
from perfzero.limits import CHOICE, Limit
from perfzero.report.analysis import judged_report
from perfzero.report.ledger.layers import layers_of
from perfzero.report.ledger.metrics import BY_KEY, METRICS, STEP_RATE
from perfzero.report.ledger.program import program_of, short
from perfzero.report.model import GpuReport, Report
from perfzero.series.compare import BUSY, WAITING, Measured, Scale, Series, measured, stretches_of
from perfzero.series.stats import block_sums, sums_by_step, weighted_mean, whole_steps
from perfzero.series.steps import Steps
from perfzero.store.fingerprint import Fingerprint, fingerprint
from perfzero.store.reader import open_recording
from perfzero.store.schema import Manifest
from perfzero.values import FloatArray, IntArray, Samples
from perfzero.words.said import say

BLOCK_S: Annotated[float, Limit("seconds", CHOICE)] = 0.05
"""Blocks of levels are so long at least: two dozen samples, and twenty of them in a stretch."""

ONE_STEP: Annotated[tuple[float, float], Limit("ratio", CHOICE)] = (0.5, 1.5)
"""What lies between two onsets is a step if it is as long as that many: no stall, no onset missed."""

KEEPS_BUSY: Annotated[float, Limit("ratio", CHOICE)] = 0.1
"""A program that leaves the GPU idle for less than that share of the time waits for no host."""


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """
    One recording, judged, and the course of each metric by its key.

    `also` holds what is to be added to the variance of a mean, for what the course cannot show.
    """

    path: str
    manifest: Manifest
    report: Report
    gpu: GpuReport
    fingerprint: Fingerprint
    series: Mapping[str, Series]
    also: Mapping[str, float]

    @property
    def diagnosis(self) -> Diagnosis:
        """What was said of the GPU that is compared."""
        return self.gpu.diagnosis

    @property
    def breakdown(self) -> Breakdown | None:
        """The look inside the process on this GPU that worked most; None without one."""
        index, only = self.gpu.gpu.index, len(self.report.gpus) == 1
        used = self.report.looked_at
        looks = [
            look
            for file, look in self.report.breakdowns.items()
            if index in used.get(file, ()) or (only and not used.get(file))
        ]
        return max(looks, key=lambda look: look.busy_ns, default=None)


@dataclass(frozen=True, slots=True, eq=False)
class Iteration:
    """
    One iteration: its recordings, the one that speaks for them first, and what they say together.

    `twice`: the paths of those that were given once more, which tell nothing new.
    """

    name: str
    taken: tuple[Taken, ...]
    means: Mapping[str, Measured] = field(default_factory=dict)
    twice: tuple[str, ...] = ()

    @property
    def first(self) -> Taken:
        """The recording whose verdict, commands and layers are told."""
        return self.taken[0]


def iteration(
    name: str,
    paths: Sequence[Path],
    *,
    gpu: int | None = None,
    like: Iteration | None = None,
    mixed: bool = False,
) -> Iteration:
    """
    The iteration that the recordings at *paths* are of, several runs of one program.

    *gpu* is compared, or the one that the verdict of the first recording is about: of *like*, if that is
    given. Raises as `judged_report` does, and UsageError where *gpu* was not watched, or where the recordings
    are of several programs and that was not asked for (*mixed*).
    """
    preferred = None if like is None else like.first.gpu.gpu.index
    kept: dict[tuple[int, str], Taken] = {}
    twice: list[str] = []
    for path in paths:
        one = take(path, gpu=gpu, preferred=preferred)
        preferred = one.gpu.gpu.index if preferred is None else preferred
        same = one.manifest.created_ns, one.gpu.gpu.uuid
        if same in kept:
            twice.append(one.path)
        else:
            kept[same] = one
    taken = tuple(kept.values())
    programs = [program_of(one.manifest.process.command) for one in taken]
    if len({program for program in programs if program is not None}) > 1 and not mixed:
        lines = [
            f"  {one.path}: {short(program or '–')}" for one, program in zip(taken, programs, strict=True)
        ]
        raise UsageError(say("compare.mixed", name=name, programs="\n".join(lines)))
    looked = next((one.breakdown for one in taken if one.breakdown is not None), None)
    return Iteration(name, taken, {**means_of(taken), **layers_of(looked)}, tuple(twice))


def take(path: Path, *, gpu: int | None, preferred: int | None = None) -> Taken:
    """
    The recording at *path*, judged and cut into series.

    Of its GPU *gpu*; else of that with the index *preferred*, if it was watched, or the one with the verdict.
    """
    recording = open_recording(path)
    report = judged_report(path)
    wanted = preferred if gpu is None else gpu
    chosen = next((g for g in report.gpus if g.gpu.index == wanted), None)
    if chosen is None and gpu is None:
        chosen = next(iter(report.gpus), None)
    if chosen is None:
        watched = (
            ", ".join(str(g.gpu.index) for g in sorted(report.gpus, key=lambda g: g.gpu.index)) or "none"
        )
        raise UsageError(say("compare.not_watched", folder=path, gpu=gpu, watched=watched))
    seen = recording.observation(chosen.gpu.index)
    series, also = series_of(collect(seen), chosen.diagnosis)
    return Taken(
        path=str(path),
        manifest=recording.manifest,
        report=report,
        gpu=chosen,
        fingerprint=fingerprint(seen, host=recording.manifest.host),
        series=series,
        also=also,
    )


def means_of(taken: Sequence[Taken]) -> dict[str, Measured]:
    """The mean of each metric over the runs *taken*, with what is known of its error."""
    means: dict[str, Measured] = {}
    busy = all(_idle(one.diagnosis) < KEEPS_BUSY for one in taken)
    for key in dict.fromkeys(key for one in taken for key in one.series):
        runs = [one.series[key] for one in taken if key in one.series]
        scale = _scale(key)
        also = max((one.also.get(key, 0.0) for one in taken), default=0.0)
        means[key] = measured(runs, scale=scale, usual=BUSY if busy else WAITING, also=also / len(runs))
    if "step_time" in means:
        step = means["step_time"]
        means[STEP_RATE] = step.inverse()
        for name in TIME_CLASSES:
            share = means.get(f"time_{name}")
            if share is not None:
                means[f"step_{name}"] = share.scaled(step)
        power = means.get("power")
        if power is not None and power.known:
            means["step_energy"] = power.times(step)
    return means


def series_of(e: Evidence, diagnosis: Diagnosis) -> tuple[dict[str, Series], dict[str, float]]:
    """The course of each metric in *e*, and what comes on top of the variance of some."""
    series: dict[str, Series] = {}
    also: dict[str, float] = {}
    steps = e.steps if isinstance(e.steps, Steps) else None
    block_s = BLOCK_S if steps is None else steps.step_s * math.ceil(BLOCK_S / steps.step_s)
    for metric in METRICS:
        if metric.group == "gpu" and metric.counter:
            table = _table(e, metric.counter)
            if table is not None:
                series[metric.key] = _level(table, metric.counter, block_s=block_s)
    series |= _classes(e, diagnosis, also, block_s=block_s)
    if steps is not None:
        series |= _steps(e, steps, diagnosis, also)
    return series, also


def _table(e: Evidence, name: str) -> Samples | None:
    """
    The samples that tell *name*: those of the windows, or all that were judged, or GPM's, or the board's.

    What windows lack the report borrows from GPM, whose averages are of other times: two runs with windows
    are not to differ by how much each of them had to borrow.
    """
    if BY_NAME[name].origin == "board":
        return e.board if e.board.has(name) else None
    own = e.cleaned["pm"].samples.between(e.steady.start_ns, e.steady.end_ns)
    tables = (own, e.long, e.gpm) if e.tier == "pm" else (e.long, e.gpm)
    return next((table for table in tables if table.has(name)), None)


def _level(table: Samples, name: str, *, block_s: float) -> Series:
    """The level, or amount per second, *name* in blocks of *block_s*."""
    column = table.column(name)
    kept = table.where(np.isfinite(column))
    column, seconds = kept.column(name), kept.duration_s
    counter = BY_NAME[name]
    if counter.kind == "total":
        sums, stretch = _blocks(kept, np.column_stack([column, seconds]), block_s=block_s)
    else:
        weight = kept.column(counter.weight) if counter.weight and kept.has(counter.weight) else seconds
        sums, stretch = _blocks(kept, np.column_stack([column * weight, weight]), block_s=block_s)
    return Series(_ratio(sums[:, 0], sums[:, 1]), sums[:, 1], stretch)


def _classes(
    e: Evidence, diagnosis: Diagnosis, also: dict[str, float], *, block_s: float
) -> dict[str, Series]:
    """The share of the time of each class, and of what is idle."""
    if e.split is None or not diagnosis.shares:
        return {}
    kept = e.long.where(np.isfinite(e.long.column("gr_active")))
    rates = rates_of(kept, e.roofs)
    amounts = np.column_stack([classify(rates) * rates.seconds[:, None], rates.seconds])
    sums, stretch = _blocks(kept, amounts, block_s=block_s)
    found: dict[str, Series] = {}
    busy = _ratio(sums[:, -1] - sums[:, AT["idle"]] - sums[:, AT["copy"]], sums[:, -1])
    usual = weighted_mean(busy, sums[:, -1])
    for name in TIME_CLASSES:
        told = diagnosis.shares[name]
        if e.split.from_zoom and name not in ("idle", "copy"):
            # Bursts are too few for a course: the mix is theirs, and the busy time as a whole has one.
            shares = told * busy / usual if usual > 0 else busy * 0
            also[f"time_{name}"] = _error(diagnosis, name) ** 2
        else:
            course = _ratio(sums[:, AT[name]], sums[:, -1])
            shares = course + (told - weighted_mean(course, sums[:, -1]))
        found[f"time_{name}"] = Series(shares, sums[:, -1], stretch)
    found["idle"] = found["time_idle"]
    return found


def _error(diagnosis: Diagnosis, name: TimeClass) -> float:
    """The standard error of a share, by its 95 % interval."""
    low, high = diagnosis.intervals.get(name, (math.nan, math.nan))
    return (high - low) / (2 * 1.96) if math.isfinite(high - low) else 0.0


def _steps(e: Evidence, steps: Steps, diagnosis: Diagnosis, also: dict[str, float]) -> dict[str, Series]:
    """What there is per step: its time, in seconds and in cycles of the SMs; bytes moved, and launches."""
    table = e.long if _covers(e.long, steps) else e.zoom
    spans = whole_steps(table, steps.starts_ns)
    lengths = (spans[:, 1] - spans[:, 0]) / 1e9
    one = (lengths > ONE_STEP[0] * steps.step_s) & (lengths < ONE_STEP[1] * steps.step_s)
    if not one.any():
        return {}
    stretch = stretches_of(spans[:, 0], spans[:, 1], seen_ns=steps.seen_ns)
    names = [m.counter for m in METRICS if m.group == "bytes" and table.has(m.counter)]
    stalled, uncertain = _stalls(diagnosis)
    # The mean is the report's own: intervals that hold one step's work, which counters tell better than time.
    scale = steps.step_s / float(lengths[one].mean()) / (1 - stalled)
    weights = np.where(one, 1.0, 0.0)
    found = {"step_time": Series(lengths * scale, weights, stretch)}
    also["step_time"] = uncertain
    if table.has("gpc_clock"):
        clock, known = _per_second(table, "gpc_clock", steps)
        found["step_cycles"] = Series(lengths * scale * clock, weights * known, stretch)
        also["step_cycles"] = uncertain
    for metric in METRICS:
        if metric.group == "bytes" and metric.counter in names:
            rate, known = _per_second(table, metric.counter, steps)
            found[metric.key] = Series(rate * lengths, weights * known, stretch)
    return found


def _per_second(table: Samples, name: str, steps: Steps) -> tuple[FloatArray, FloatArray]:
    """
    The mean of *name* in each whole step, of a total per second, and for how many seconds it was known.

    Of samples that lack it nothing is known: they are no zeros, and a step of which little was seen weighs
    little.
    """
    column, seconds = table.column(name), table.duration_s
    amount = column if BY_NAME[name].kind == "total" else column * seconds
    known = np.isfinite(column) * seconds
    sums = sums_by_step(table, np.column_stack([np.nan_to_num(amount), known]), starts_ns=steps.starts_ns)
    return _ratio(sums[:, 0], sums[:, 1]), sums[:, 1]


def _covers(table: Samples, steps: Steps) -> bool:
    return len(whole_steps(table, steps.starts_ns)) * 2 >= steps.count


def _stalls(diagnosis: Diagnosis) -> tuple[float, float]:
    """The share of the time in rare stalls, and the variance of its logarithm's effect: few were counted."""
    events = () if diagnosis.rhythm is None else diagnosis.rhythm.events
    stalls = [event for event in events if event.nature == "stall" and event.count > 0]
    share = min(0.9, sum(event.share for event in stalls))
    variance = sum(event.share**2 / event.count for event in stalls)
    return share, variance / (1 - share) ** 2


def _blocks(table: Samples, amounts: FloatArray, *, block_s: float) -> tuple[FloatArray, IntArray]:
    """Sums of *amounts* (n, k) over blocks of *block_s* of the time of *table*, and each block's stretch."""
    spans = _spans(table)
    if not len(spans):
        return np.empty((0, amounts.shape[1])), np.empty(0, np.int64)
    run = np.searchsorted(spans[:, 0], table.start_ns, side="right") - 1
    inside = ((table.start_ns - spans[run, 0]) / 1e9 / block_s).astype(np.int64)
    most = int(inside.max()) + 1
    block = (run * most + inside).astype(np.float64)
    sums = block_sums(amounts, block=block)
    starts = np.flatnonzero(np.r_[True, np.diff(block) != 0])
    ends = np.r_[starts[1:], len(table)] - 1
    stretch = stretches_of(table.start_ns[starts], table.end_ns[ends], seen_ns=spans)
    return sums, stretch


def _spans(table: Samples) -> IntArray:
    """[start, end) of the runs of samples without a hole between them, (m, 2)."""
    if not len(table):
        return np.empty((0, 2), np.int64)
    length = float(np.median(table.end_ns - table.start_ns))
    cut = np.flatnonzero(table.start_ns[1:] - table.end_ns[:-1] > HOLE * length) + 1
    first, last = np.r_[0, cut], np.r_[cut, len(table)] - 1
    return np.column_stack([table.start_ns[first], table.end_ns[last]])


HOLE: Annotated[float, Limit("ratio", CHOICE)] = 2.0
"""Times the length of samples: further apart they do not follow each other."""


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    out = np.full(len(top), np.nan)
    np.divide(top, bottom, out=out, where=bottom > 0)
    return out


def _idle(diagnosis: Diagnosis) -> float:
    return diagnosis.shares.get("idle", math.nan)


def _scale(key: str) -> Scale:
    return BY_KEY[key].scale
