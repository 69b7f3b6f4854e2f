"""
How far the map of the step, from counters alone, agrees with the kernels that a look saw by their names.

    python benchmarks/step_map/agree.py RECORDING...

First the samples that were taken beside the look: what those within kernels of one class are called, and of
which classes those of one name are. Then the map of the undisturbed steps, laid over the kernels. While it is
looked into, a program is slower between kernels, not within them: so the kernels of a step are put one after
the other without the gaps, and the step's place in the map is where the counters beside the look match those
of the map best. Names of kernels take no part in that. Last a map of the traced steps themselves, of the
samples beside the look: these steps are given by their optimizer, and few, so it says what names are worth
and not whether steps are found.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from perfzero.diagnose.evidence import Evidence, collect
from perfzero.diagnose.fingerprints import KINDS, kinds_of, rates_of, rows_of
from perfzero.diagnose.roofs import roofs_of
from perfzero.diagnose.step_map import mean_step, step_map_of
from perfzero.diagnose.verdict import StepMap
from perfzero.errors import NoRecording, PerfzeroError
from perfzero.series import fold, phases
from perfzero.series.phases import scales
from perfzero.series.placing import misfits, positions
from perfzero.series.steps import Steps
from perfzero.store.kineto import read_trace
from perfzero.store.reader import open_recording
from perfzero.traces import WORK_KINDS, Work
from perfzero.values import Samples

CLASSES = ("product", "attention", "optimizer", "other")
"""What a name says for sure. Others are elementwise kernels, normalisations, reductions, copies and sets."""

RIGHT = {
    "product": {"gemm", "fp32_gemm"},
    "attention": {"attention"},
    "optimizer": {"optimizer"},
    "other": {"memory", "elementwise"},
    "none": {"idle", "copy"},
}
"""Which names of a phase are right for kernels of a class."""

OF_PRODUCTS = re.compile(r"gemm|cutlass|xmma|nvjet|implicit|wgrad|dgrad|fprop|convolve", re.IGNORECASE)
NOT_PRODUCTS = re.compile(r"nchwtonhwc|nhwctonchw|bn_|batch_?norm|convert", re.IGNORECASE)
OF_ATTENTION = re.compile(r"flash|fmha|sdpa|attention", re.IGNORECASE)
OF_OPTIMIZERS = re.compile(r"multi_tensor_apply|adam|sgd", re.IGNORECASE)

BINS = 256

FEWEST_TRACED, MOST_TRACED = 3, 99
"""A look has few steps, and each takes another time: no halves of so few are compared."""


def class_of(name: str) -> int:
    """The class of a kernel by its *name*, as an index of `CLASSES`."""
    if OF_OPTIMIZERS.search(name):
        return 2
    if OF_ATTENTION.search(name):
        return 1
    return 0 if OF_PRODUCTS.search(name) and not NOT_PRODUCTS.search(name) else 3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recordings", type=Path, nargs="+")
    fold.FEWEST_STEPS = FEWEST_TRACED
    phases.FEWEST = MOST_TRACED
    args = parser.parse_args(arguments)
    try:
        for path in args.recordings:
            compare(path)
    except PerfzeroError as error:
        parser.exit(1, f"{error}\n")
    return 0


def compare(path: Path) -> None:
    """Print all of the recording in *path*. Raises PerfzeroError for what is none, or has no look."""
    recording = open_recording(path)
    seen = recording.observation(recording.gpus[0].index)
    look = next((look for look in recording.looks if look.file), None)
    if look is None or not len(seen.close_up):
        raise NoRecording(f"{path} has no look with samples beside it.")
    work = read_trace(path / look.file).work
    classes = np.array([class_of(name) for name in work.names])[work.name]
    classes[work.kind != WORK_KINDS.index("kernel")] = CLASSES.index("other")
    beside = seen.close_up.between(int(work.start_ns.min()), int(work.end_ns.max()))
    print(f"{path.name}")
    fingerprints(beside, work, classes, roofs_of(seen.gpu, seen.board))
    evidence = collect(seen)
    mean = mean_step(evidence)
    found, why = step_map_of(evidence, mean)
    if found is None:
        print(f"  no map: {why}")
    else:
        agreement(found, mean.folded, beside, work, classes, roofs_of(seen.gpu, seen.board))
    traced(evidence, beside, work, classes)


def busy_until(work: Work, at_ns: np.ndarray) -> np.ndarray:
    """Nanoseconds in which some of *work* ran before each of *at_ns*; work on two streams counts once."""
    start = np.maximum(work.start_ns, np.r_[work.start_ns[0], np.maximum.accumulate(work.end_ns)[:-1]])
    length = np.maximum(work.end_ns - start, 0)
    before = np.r_[0, np.cumsum(length)]
    place = np.maximum(np.searchsorted(start, at_ns, "right") - 1, 0)
    return before[place] + np.clip(at_ns - start[place], 0, length[place])


def shares(samples: Samples, work: Work, classes: np.ndarray) -> np.ndarray:
    """Part of each of *samples* in which work of each class ran, shape (n, classes)."""
    out = np.zeros((len(samples), len(CLASSES)))
    for index in range(len(CLASSES)):
        own = classes == index
        if own.any():
            start, end = work.start_ns[own], work.end_ns[own]
            before = np.r_[0, np.cumsum(end - start)]

            def until(at: np.ndarray, start=start, end=end, before=before) -> np.ndarray:
                place = np.maximum(np.searchsorted(start, at, "right") - 1, 0)
                return before[place] + np.clip(at - start[place], 0, (end - start)[place])

            out[:, index] = until(samples.end_ns) - until(samples.start_ns)
    return out / (samples.end_ns - samples.start_ns)[:, None]


def fingerprints(beside: Samples, work: Work, classes: np.ndarray, roofs) -> None:
    """Print what samples within kernels of one class are called."""
    share = shares(beside, work, classes)
    kinds = kinds_of(rows_of(rates_of(beside), roofs, fine=True))
    for index, name in enumerate(CLASSES):
        own = kinds[share[:, index] > 0.9]
        if len(own) < 20:
            continue
        counts = np.bincount(own, minlength=len(KINDS)) / len(own)
        told = [f"{KINDS[k]} {counts[k]:.2f}" for k in np.argsort(-counts) if counts[k] >= 0.02]
        print(f"  samples within {name:10s} {len(own):6d}: {', '.join(told)}")
    for index, kind in enumerate(KINDS):
        own = share[kinds == index]
        if len(own) >= 20:
            told = [f"{name} {s:.2f}" for name, s in zip(CLASSES, own.mean(axis=0), strict=True) if s >= 0.02]
            print(f"  samples called {kind:12s} {len(own):6d}: {', '.join(told)}")


def agreement(found: StepMap, folded, beside: Samples, work: Work, classes: np.ndarray, roofs) -> None:
    """Print what kernels each phase of the map holds, and the share of the step whose name is right."""
    last = np.flatnonzero(classes == CLASSES.index("optimizer"))
    begins = busy_until(work, work.start_ns[last])
    step = np.median(np.diff(begins)[np.diff(begins) > 0.2 * np.diff(begins).max()])
    bounds = begins[np.r_[True, np.diff(begins) > 0.5 * step]]
    whole = np.diff(bounds)
    usual = np.abs(whole / np.median(whole) - 1) < 0.05
    times = max(1, round(found.step_s * 1e9 / float(np.median(whole))))
    # Composition of the step, and the counters beside it, by place in the step without gaps.
    truth, counted, weight = np.zeros((BINS, len(CLASSES))), {}, np.zeros(folded.bins)
    start = busy_until(work, work.start_ns)
    length = busy_until(work, work.end_ns) - start
    samples = (busy_until(work, beside.start_ns) + busy_until(work, beside.end_ns)) / 2
    busy = busy_until(work, beside.end_ns) - busy_until(work, beside.start_ns)
    rates = rates_of(beside)
    for first, after in zip(bounds[:-1][usual], bounds[1:][usual], strict=True):
        own = np.flatnonzero((start >= first) & (start < after))
        for part in np.linspace(0.05, 0.95, 10):
            at = ((start[own] + part * length[own] - first) / (after - first) * BINS).astype(int) % BINS
            np.add.at(truth, (at, classes[own]), length[own] / 10)
        rows = np.flatnonzero((samples >= first) & (samples < after))
        at = ((samples[rows] - first) / (after - first) * folded.bins / times).astype(int)
        for name, column in rates.items():
            value = np.nan_to_num(column[rows]) * (beside.end_ns - beside.start_ns)[rows]
            counted[name] = counted.get(name, 0) + np.bincount(at, value, folded.bins)[: folded.bins]
        weight += np.bincount(at, busy[rows], folded.bins)[: folded.bins]
    full = scales(folded, found_roofs(roofs))
    one = max(1, folded.bins // times)
    profile = {n: (c[:one] / np.maximum(weight[:one], 1)) for n, c in counted.items()}
    names = [n for n in full if n in profile and n in folded.mean]
    rows = np.column_stack(
        [np.minimum(np.tile(profile[n], times)[: folded.bins] / full[n], 1.0) for n in names]
    )
    place = int(np.argmin(misfits(rows, folded, full, names)))
    truth /= truth.sum()
    kernels_ms = np.median(whole) / 1e6
    print(f"  map of {found.step_s * 1e3:.1f} ms, {times} of {kernels_ms:.1f} ms of kernels; at bin {place}")
    held = []
    for phase in found.phases:
        grid = np.arange(round(phase.start * BINS), round(phase.end * BINS))
        at = (((grid + 0.5) / BINS - place / folded.bins) * times % 1.0 * BINS).astype(int)
        own = truth[at].sum(axis=0)
        held.append(own / own.sum())
    told(found, held)


def traced(evidence: Evidence, beside: Samples, work: Work, classes: np.ndarray) -> None:
    """Print the same for the map of the traced steps, in which the GPU waits for the profiler, too."""
    updates = work.start_ns[classes == CLASSES.index("optimizer")]
    apart = np.diff(updates)
    starts = updates[np.r_[True, apart > 0.3 * np.sort(apart)[-3]]]
    lengths = np.diff(starts)
    step_s = float(np.mean(lengths)) / 1e9
    steps = Steps(
        step_s, step_s, step_s, 0.0, None, None, starts, np.empty((0, 2), np.int64), "anchor", len(lengths)
    )
    evidence = replace(evidence, long=beside, zoom=beside, steps=steps, borrowed=())
    found, why = step_map_of(evidence, mean_step(evidence))
    if found is None:
        print(f"  no map of the traced steps: {why}")
        return
    print(f"  map of {found.steps} traced steps of {found.step_s * 1e3:.1f} ms")
    place = positions(beside, starts, found.step_s)
    share = shares(beside, work, classes)
    told(found, [share[(place >= p.start) & (place < p.end)].mean(axis=0) for p in found.phases])


def told(found: StepMap, held: Sequence[np.ndarray]) -> None:
    """Print each phase with the part of its time that each class *held*, and what of the step is right."""
    named = right = of_name = apart = resolved = 0.0
    for phase, own in zip(found.phases, held, strict=True):
        parts = np.r_[own, max(0.0, 1.0 - own.sum())]
        fits = np.array([phase.kind in RIGHT[name] for name in (*CLASSES, "none")])
        if phase.kind not in ("mixed", "unknown"):
            named += phase.share
            right += phase.share * fits[int(np.argmax(parts))]
            of_name += phase.share * parts[fits].sum()
        if phase.resolved:
            products = sum(phase.made_of.get(kind, 0.0) for kind in ("gemm", "fp32_gemm", "attention"))
            apart += phase.share * abs(products - own[:2].sum())
            resolved += phase.share
        by_name = zip((*CLASSES, "none"), parts, strict=True)
        print(
            f"    {phase.start:.2f}-{phase.end:.2f} {phase.kind:12s} {phase.confidence:.2f} | "
            + ", ".join(f"{name} {share:.2f}" for name, share in by_name if share >= 0.01)
            + " | "
            + ", ".join(f"{kind} {share:.2f}" for kind, share in phase.made_of.items() if share >= 0.03)
        )
    print(f"  named {named:.2f} of the step, right {right:.2f}, kernels of that name {of_name:.2f}")
    if resolved:
        print(f"  share of products: off by {apart / resolved:.2f} in the {resolved:.2f} that are resolved")


def found_roofs(roofs) -> dict[str, float]:
    return {"dram_read_bytes": roofs.dram, "dram_write_bytes": roofs.dram, "launches": 2e5}


if __name__ == "__main__":
    raise SystemExit(main())
