"""
The map of the step: its phases, each with a name, from counters alone.

    steps -> fold -> phases (series)  -> rows of each phase -> fingerprints -> names -> neighbours joined

A phase is named after the kind of work that takes most of its time. Which that is, is told by bursts of fine
samples, where these have a place in the step and cover the phase: they resolve kernels. Elsewhere the bins of
the mean step have to do, over many kernels each, and are less certain. What moves data and what computes
element by element count together against products, and the larger of the two gives the name.

An optimizer is not known by one row. It is memory-bound, comes once in a step that multiplies matrices
elsewhere, writes about as much as its arithmetic says, evenly over its time, and does not take long. Other
kernels may do so too.

Counters that are GPM's averages of seconds say nothing of a part of a step, and take no part.

    confidence = certainty of the rule x share of the time of that kind x share of the steps that show it
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.fingerprints import CERTAINTY, KINDS, kinds_of, rates_of, rows_of
from perfzero.diagnose.thresholds import (
    DOMINANT,
    FAST_LAUNCHES,
    FINE_COVERS,
    GR_GOOD,
    MATRIX_SEEN,
    MEMORY_HIGH,
    NO_MATRIX,
    PHASE_BUSY,
    RESOLVES_KERNELS,
    UPDATE_EVEN,
    UPDATE_LONGEST,
    UPDATE_PRODUCTS,
    UPDATE_WRITES_HIGH,
    UPDATE_WRITES_LOW,
)
from perfzero.diagnose.verdict import StepMap, StepPhase, WorkKind
from perfzero.limits import CHOICE, Limit
from perfzero.series.fold import Folded, fold
from perfzero.series.phases import Phase, levels, phases, scales
from perfzero.series.placing import placed, positions
from perfzero.series.steps import NoSteps, Steps
from perfzero.text import count, percent
from perfzero.values import FloatArray, IntArray, Samples
from perfzero.words.said import say

PRODUCTS: frozenset[WorkKind] = frozenset({"gemm", "attention", "fp32_gemm"})

TOGETHER: tuple[frozenset[WorkKind], ...] = (frozenset({"memory", "elementwise"}), PRODUCTS)
"""
Kinds that take turns in the same layers. A phase that is mostly of them has the name of the largest, and is
as sure as that one's own share makes it.
"""

OPTIMIZER_CERTAINTY: Annotated[float, Limit("ratio", CHOICE)] = 0.6
"""Of a phase that has all marks of an optimizer: too few recordings have one long enough."""

FEW_STEPS = say("no_map.few")
NOT_ALIKE = say("no_map.halves")


@dataclass(frozen=True, slots=True, eq=False)
class MeanStep:
    """The samples that hold whole steps, and these laid over each other; None where there are too few."""

    table: Samples
    folded: Folded | None


@dataclass(frozen=True, slots=True, eq=False)
class _Fine:
    """Fine rows: columns by name, their place in the step, and how long they are; float64 of shape (n,)."""

    columns: Mapping[str, FloatArray]
    place: FloatArray
    seconds: FloatArray


def step_map_of(e: Evidence, mean: MeanStep) -> tuple[StepMap | None, str]:
    """The map of the step of *e*, made of its *mean* step; None with the reason where there is none."""
    steps = e.steps
    if not isinstance(steps, Steps):
        return None, steps.reason if isinstance(steps, NoSteps) else ""
    table, folded = mean.table, mean.folded
    if folded is None:
        return None, FEW_STEPS
    if "gr_active" not in folded.mean:
        return None, say("verdict.unmeasured")
    roofs = _roofs(e)
    found = phases(folded, roofs)
    if not found:
        return None, NOT_ALIKE
    if folded.sample_s > RESOLVES_KERNELS.value:
        table = _own(e, e.zoom)
        place = placed(table, folded, scales(folded, roofs)) if len(found) > 1 else _anywhere(table, folded)
    else:
        place = positions(table, steps.starts_ns, folded.step_s)
    fine = _placed(table, place)
    named = _with_optimizer(e, folded, [_named(e, folded, phase, fine) for phase in found])
    named = [replace(phase, because=_because(e, phase)) for phase in _joined(named, folded)]
    return (
        StepMap(
            step_s=folded.step_s,
            steps=folded.steps,
            left_out=folded.left_out,
            sample_s=folded.sample_s,
            fine_s=float(np.sum(fine.seconds)),
            phases=tuple(named),
        ),
        "",
    )


def mean_step(e: Evidence) -> MeanStep:
    """The mean step of *e*, of the windows, or else of the bursts."""
    if not isinstance(e.steps, Steps):
        return MeanStep(Samples.empty(), None)
    table = _own(e, e.long)
    folded = fold(table, e.steps.starts_ns)
    if folded is None:
        table = _own(e, e.zoom)
        folded = fold(table, e.steps.starts_ns)
    return MeanStep(table, folded)


def _own(e: Evidence, samples: Samples) -> Samples:
    """*samples* without the columns that come from GPM."""
    kept = {name: column for name, column in samples.columns.items() if name not in e.borrowed}
    return Samples(samples.start_ns, samples.end_ns, kept)


def _roofs(e: Evidence) -> dict[str, float]:
    """What stands for 1 in the channels that are amounts; a channel whose roof is unknown is left out."""
    known = {
        "dram_read_bytes": e.roofs.dram,
        "dram_write_bytes": e.roofs.dram,
        "pcie_rx_bytes": e.roofs.pcie,
        "pcie_tx_bytes": e.roofs.pcie,
        "nvlink_rx_bytes": e.roofs.nvlink,
        "nvlink_tx_bytes": e.roofs.nvlink,
        "launches": FAST_LAUNCHES.value * 10,
    }
    return {name: roof for name, roof in known.items() if roof > 0}


def _placed(samples: Samples, place: FloatArray) -> _Fine:
    known = np.isfinite(place)
    if known.any() and float(np.median(samples.duration_s[known])) > RESOLVES_KERNELS.value:
        known = np.zeros(len(place), bool)
    columns = {name: column[known] for name, column in rates_of(samples).items()}
    return _Fine(columns, place[known], samples.duration_s[known])


def _anywhere(samples: Samples, folded: Folded) -> FloatArray:
    """Places for *samples* in a step without edges, where all are alike; NaN if they hold no whole step."""
    enough = float(np.sum(samples.duration_s)) >= folded.step_s
    return np.linspace(0.0, 1.0, len(samples), endpoint=False) if enough else np.full(len(samples), np.nan)


def _named(e: Evidence, folded: Folded, phase: Phase, fine: _Fine) -> StepPhase:
    """*phase* after the kind of work that takes most of it."""
    first, last = round(phase.start * folded.bins), round(phase.end * folded.bins)
    inside = (fine.place >= phase.start) & (fine.place < phase.end)
    bins = np.unique((fine.place[inside] * folded.bins).astype(np.int64))
    # What the GPU waits for is told by the mean: a staged copy is one, though the engine rests in between.
    busy = phase.levels["gr_active"] >= PHASE_BUSY.value
    resolved = busy and len(bins) >= FINE_COVERS.value * (last - first)
    if resolved:
        columns = {name: column[inside] for name, column in fine.columns.items()}
        weights = fine.seconds[inside]
    else:
        columns = {name: column[first:last] for name, column in folded.mean.items()}
        weights = np.ones(last - first)
    kinds = kinds_of(rows_of(columns, e.roofs, fine=resolved))
    made_of = _shares(kinds, weights)
    kind, share = _largest(made_of)
    certainty = CERTAINTY.get(kind, (0.0, 0.0))[0 if resolved else 1]
    return StepPhase(
        kind=kind,
        confidence=certainty * share * _known(phase.seen),
        start=phase.start,
        end=phase.end,
        seconds=phase.share * folded.step_s,
        because=(),
        made_of=made_of,
        resolved=resolved,
        seen=phase.seen,
        levels=phase.levels,
    )


def _known(seen: float) -> float:
    return seen if math.isfinite(seen) else 1.0


def _shares(kinds: IntArray, weights: FloatArray) -> dict[WorkKind, float]:
    """Share of the time by kind, the largest first."""
    time = np.bincount(kinds, weights, len(KINDS))
    whole = float(np.sum(time))
    order = sorted(range(len(KINDS)), key=lambda i: (-time[i], i))
    return {KINDS[i]: float(time[i]) / whole for i in order if time[i] > 0}


def _largest(made_of: Mapping[WorkKind, float]) -> tuple[WorkKind, float]:
    """
    The kind that a phase is named after, and the share of its time that says so.

    *made_of*: the shares, the largest first. Sets of names have another order in each process.
    """
    kind = next(iter(made_of))
    if made_of[kind] >= DOMINANT.value:
        return kind, made_of[kind]
    for group in TOGETHER:
        alike = {kind: share for kind, share in made_of.items() if kind in group}
        if sum(alike.values()) >= DOMINANT.value:
            return next(iter(alike.items()))
    return "mixed", 1.0 - made_of.get("unknown", 0.0)  # which is most: else it would be unknown


def _because(e: Evidence, phase: StepPhase) -> tuple[str, ...]:
    """The counters of *phase* that its name rests on, in words."""
    at = phase.levels

    def told(name: str, word: str, roof: float = 1.0, least: float = NO_MATRIX.value) -> Iterator[str]:
        share = at.get(name, math.nan) / roof
        if share >= least:
            yield say("seen.share", what=word, share=percent(round(share, 2)))

    read, write = at.get("dram_read_bytes", math.nan), at.get("dram_write_bytes", math.nan)
    active = percent(round(at["gr_active"], 2))
    out: list[str] = [say("seen.active", active=active)] if at["gr_active"] < GR_GOOD.value else []
    out += told("tensor_active", say("seen.tensor"), least=0.0)
    out += told("fma_active", say("class.fma"))
    out += told("fp64_active", say("class.fp64"))
    moved = (read + write) / e.roofs.dram
    if math.isfinite(moved):
        out.append(say("seen.share", what="DRAM", share=percent(round(moved, 2))))
    if phase.kind == "optimizer":
        out.append(say("seen.writes", share=percent(round(write / (read + write), 2))))
    out += told("pcie_rx_bytes", say("seen.to_gpu"), e.roofs.pcie)
    out += told("pcie_tx_bytes", say("seen.from_gpu"), e.roofs.pcie)
    out += told("nvlink_rx_bytes", "NVLink", e.roofs.nvlink)
    if at.get("launches", 0.0) >= FAST_LAUNCHES.value:
        launches = count(at["launches"])
        out.append(say("seen.launches", rate=launches))
    return tuple(out)


def _with_optimizer(e: Evidence, folded: Folded, named: Sequence[StepPhase]) -> list[StepPhase]:
    """*named* with the one place that has all marks of an optimizer called so; none where several have."""
    alike = [_like_optimizer(e, folded, phase) for phase in named]
    # The first and the last phase may be two halves of one.
    places = sum(a and not alike[i - 1] for i, a in enumerate(alike))
    whole = sum(p.share for p, a in zip(named, alike, strict=True) if a)
    products = folded.mean.get("tensor_active", np.zeros(1)).max() >= MATRIX_SEEN.value or any(
        phase.kind == "fp32_gemm" for phase in named
    )
    if places != 1 or whole > UPDATE_LONGEST.value or not products or not _even(folded, named, alike):
        return list(named)
    return [
        replace(p, kind="optimizer", confidence=OPTIMIZER_CERTAINTY * _known(p.seen)) if a else p
        for p, a in zip(named, alike, strict=True)
    ]


def _like_optimizer(e: Evidence, folded: Folded, phase: StepPhase) -> bool:
    if phase.kind not in ("memory", "elementwise"):
        return False
    if sum(phase.made_of.get(kind, 0.0) for kind in PRODUCTS) > UPDATE_PRODUCTS.value:
        return False
    first, last = round(phase.start * folded.bins), round(phase.end * folded.bins)
    names = ("dram_read_bytes", "dram_write_bytes")
    if any(name not in folded.mean for name in names):
        return False
    read, write = (folded.mean[name][first:last] for name in names)
    moved = read + write
    mean = float(np.mean(moved))
    if not mean >= MEMORY_HIGH.value * e.roofs.dram:
        return False
    writes = float(np.mean(write)) / mean
    return (
        UPDATE_WRITES_LOW.value <= writes <= UPDATE_WRITES_HIGH.value
        and phase.levels.get("tensor_active", math.nan) < NO_MATRIX.value
    )


def _even(folded: Folded, named: Sequence[StepPhase], alike: Sequence[bool]) -> bool:
    """Whether as much is moved all through the phases that are *alike*."""
    inside = np.zeros(folded.bins, bool)
    for phase in (p for p, its in zip(named, alike, strict=True) if its):
        inside[round(phase.start * folded.bins) : round(phase.end * folded.bins)] = True
    moved = (folded.mean["dram_read_bytes"] + folded.mean["dram_write_bytes"])[inside]
    return float(np.std(moved)) <= UPDATE_EVEN.value * float(np.mean(moved))


def _joined(named: Sequence[StepPhase], folded: Folded) -> list[StepPhase]:
    """*named* with neighbours of one kind made one."""
    found: list[StepPhase] = []
    for phase in named:
        if found and found[-1].kind == phase.kind:
            found[-1] = _both(found[-1], phase, folded)
        else:
            found.append(phase)
    return found


def _both(one: StepPhase, other: StepPhase, folded: Folded) -> StepPhase:
    first, last = round(one.start * folded.bins), round(other.end * folded.bins)
    at = levels(folded, first, last)
    a, b = one.share, other.share
    made_of = {
        kind: (one.made_of.get(kind, 0.0) * a + other.made_of.get(kind, 0.0) * b) / (a + b)
        for kind in (*one.made_of, *(k for k in other.made_of if k not in one.made_of))
    }
    larger = one if a >= b else other
    return replace(
        larger,
        confidence=(one.confidence * a + other.confidence * b) / (a + b),
        start=one.start,
        end=other.end,
        seconds=one.seconds + other.seconds,
        made_of=dict(sorted(made_of.items(), key=lambda m: -m[1])),
        resolved=one.resolved and other.resolved,
        seen=min((s for s in (one.seen, other.seen) if math.isfinite(s)), default=math.nan),
        levels=at,
    )
