"""
What may go wrong between a GPU and its recording, as pure functions from one observation to another.

Two kinds. *Worse data* (`dropped`, `noisy`): the same program seen less well. *Another world*
(`stretched`, `scaled`, `other_peaks`): the same program on a slower clock, on a faster board, or on a
board whose data sheet was wrong. Real values are changed by known factors; nothing is made up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from perfzero.counters import BY_NAME
from perfzero.hardware import practical_fma_share, practical_tensor_share
from perfzero.values import FloatArray, Gpu, Observation, Samples

TABLES = ("pm", "zoom", "gpm", "board", "host")
SAMPLED = ("pm", "zoom")

SHARES_OF_PEAK = ("bf16", "fp16", "tf32", "fp32")
"""Practical roofs that `perfzero calibrate` keeps as shares of the pipes' peaks."""


def dropped(seen: Observation, *, share: float, run: int, seed: int) -> Observation:
    """
    *share* of the samples lost, in runs of *run* neighbours; the windows say how many.

    Polled tables have a row every half second or so: there they are lost one by one.
    """
    rng = np.random.default_rng(seed)
    tables: dict[str, Samples] = {}
    for name in TABLES:
        table: Samples = getattr(seen, name)
        length = run if name in SAMPLED else 1
        keep = np.ones(len(table), np.bool_)
        count = -(-len(table) // length)
        lost = rng.choice(count, size=round(share * count), replace=False) if count else np.empty(0, np.int64)
        for first in lost * length:
            keep[first : first + length] = False
        tables[name] = table.where(keep)
    windows = []
    for window in seen.windows:
        name = "zoom" if window.kind == "zoom" else "pm"
        before, after = (
            len(table.between(window.start_ns - window.period_ns, window.end_ns + window.period_ns))
            for table in (getattr(seen, name), tables[name])
        )
        gone = min(before - after, window.samples)
        windows.append(replace(window, samples=window.samples - gone, lost=window.lost + gone))
    return replace(seen, **tables, windows=tuple(windows))


def noisy(seen: Observation, *, spread: float, seed: int) -> Observation:
    """
    White noise: normal, of *spread* times the value, on levels and bytes, and Poisson noise on counts.

    Shares stay at 1 at most: a counter that exceeds its peak is another fault, see gate G0. Whole
    numbers (processes, the link's generation) and clocks are exact.
    """
    rng = np.random.default_rng(seed)

    def column(name: str, values: FloatArray) -> FloatArray:
        counter = BY_NAME[name]
        if counter.unit == "count" and counter.kind == "total":
            return np.where(np.isfinite(values), rng.poisson(np.nan_to_num(values)), np.nan)
        if counter.unit in ("count", "generation", "lanes", "hertz"):
            return values
        value = values * (1.0 + spread * rng.standard_normal(len(values)))
        # Host columns count cores, and may exceed 1.
        share = counter.unit == "ratio" and counter.origin != "host"
        return np.clip(value, 0.0, 1.0 if share else np.inf)

    return _with_columns(seen, column)


def stretched(seen: Observation, *, factor: float) -> Observation:
    """
    The same program in slow motion: each time since the start *factor* times as long.

    Levels stay, and totals grow with the time, so that rates stay too: launches/s, and with them the mean
    length of a kernel. What grows is everything that has a course: gaps, steps, samples, the warm-up.
    """
    start = seen.start_ns

    def moved(times_ns: int) -> int:
        return start + round((times_ns - start) * factor)

    tables: dict[str, Samples] = {}
    for name in TABLES:
        table: Samples = getattr(seen, name)
        # A stamp of 0 is none.
        stamps = [
            np.where(stamp > 0, start + np.rint((stamp - start) * factor).astype(np.int64), 0)
            for stamp in (table.start_ns, table.end_ns)
        ]
        columns = {n: c * factor if BY_NAME[n].kind == "total" else c for n, c in table.columns.items()}
        tables[name] = Samples(stamps[0], stamps[1], columns)
    return replace(
        seen,
        **tables,
        windows=tuple(
            replace(
                w,
                start_ns=moved(w.start_ns),
                end_ns=moved(w.end_ns),
                period_ns=round(w.period_ns * factor),
            )
            for w in seen.windows
        ),
        gaps=tuple(replace(g, start_ns=moved(g.start_ns), end_ns=moved(g.end_ns)) for g in seen.gaps),
        notes=tuple(replace(n, time_ns=moved(n.time_ns)) for n in seen.notes),
        end_ns=moved(seen.end_ns),
    )


def scaled(seen: Observation, *, factor: float) -> Observation:
    """
    The same program on a board *factor* times as fast that has *factor* times as much to do.

    Clocks, bytes, and the peaks they are held against; every share stays. NVLink's peak is that of the
    data sheet, so its bytes stay.
    """

    def column(name: str, values: FloatArray) -> FloatArray:
        counter = BY_NAME[name]
        moves = counter.unit == "bytes" and counter.kind == "total" and counter.origin == "gpu"
        if name.startswith("nvlink"):
            return values
        if moves or counter.unit in ("hertz", "lanes") or name in ("l2_sectors", "l2_hit_sectors"):
            return values * factor
        return values

    gpu = _faster(seen.gpu, factor)
    width = seen.gpu.pcie_width_max
    gpu = replace(gpu, pcie_width_max=None if width is None else round(width * factor))
    return replace(_with_columns(seen, column), gpu=gpu)


def other_peaks(seen: Observation, *, factor: float) -> Observation:
    """
    The same data held against peaks that are *factor* times what they were: memory, clocks, pipes.

    The link's width is a whole number and stays.
    """
    gpu = _faster(seen.gpu, factor)
    shares = {
        "bf16": practical_tensor_share(seen.gpu) * factor,
        "fp32": practical_fma_share(seen.gpu) * factor,
    }
    shares = {name: min(1.0, share) for name, share in shares.items()}
    kept = {name: value for name, value in gpu.calibrated.items() if name not in SHARES_OF_PEAK}
    return replace(seen, gpu=replace(gpu, calibrated={**kept, **shares}))


def _faster(gpu: Gpu, factor: float) -> Gpu:
    """*gpu* with *factor* times its clocks and the bytes/s that were measured on it."""

    def times(value: float | None) -> float | None:
        return None if value is None else value * factor

    rates = {name: value * factor for name, value in gpu.calibrated.items() if name in ("dram", "l2")}
    return replace(
        gpu,
        sm_clock_max_hz=times(gpu.sm_clock_max_hz),
        memory_clock_max_hz=times(gpu.memory_clock_max_hz),
        calibrated={**gpu.calibrated, **rates},
    )


def _with_columns(seen: Observation, column: Callable[[str, FloatArray], FloatArray]) -> Observation:
    """*seen* with each column of each table as *column* makes it, by name and values."""
    tables: dict[str, Samples] = {}
    for name in TABLES:
        table: Samples = getattr(seen, name)
        tables[name] = table.with_columns({n: column(n, values) for n, values in table.columns.items()})
    return replace(seen, **tables)
