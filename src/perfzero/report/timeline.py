"""
What happened when: the rows of timeline.csv, and the lines and marks of the plot.

Samples are merged only where there are more than a table or a plot can use, and never across
a hole: totals are added, levels averaged over time (or over the counter's own weight). A part that
is unknown is taken to be like the rest of its row where it is a small one: one sample in 125 to 250
has no launches (sources/cupti.py), and in a row of 120 samples there is one nearly every other time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from perfzero import hardware
from perfzero.counters import BY_NAME
from perfzero.diagnose.verdict import Steady
from perfzero.limits import CHOICE, Limit
from perfzero.report.model import Panel, Series, Span, Timeline
from perfzero.values import FloatArray, Gpu, IntArray, Observation, Samples
from perfzero.words.said import say

TABLE_ROWS = 60_000
"""More rows per GPU than this are merged: a minute at 1 kHz stays whole and opens in any spreadsheet."""

KNOWN_SHARE: Annotated[float, Limit("ratio", CHOICE)] = 0.9
"""A merged total is known if so much of its row is; to fill up more than a tenth would be a guess."""

BINS = 400
"""Bins over the whole recording: some two pixels each; the band between least and greatest shows the rest."""

CLOSE_UP_NS = 300_000_000
"""The close-up is so long at most: a few training steps, each sample still a pixel or two wide."""

Origin = Literal["pm", "gpm", "board"]


def timeline(seen: Observation, *, steady: Steady) -> Timeline:
    """The timeline of one GPU."""
    source, table = _best_table(seen)
    close = _close_up(seen, steady)
    merged = max(1, math.ceil(len(table) / TABLE_ROWS))
    return Timeline(
        source=source,
        rows_merged=merged,
        table=coarsen(table, factor=merged),
        panels=_panels(seen, close),
        close_up=close,
        spans=_spans(seen, steady),
        duration_s=max(0, seen.end_ns - seen.start_ns) / 1e9,
        start_ns=seen.start_ns,
        tables={name: samples for name, samples in _tables(seen).items() if len(samples)},
    )


def _tables(seen: Observation) -> dict[str, Samples]:
    return {
        "pm": seen.pm,
        "zoom": seen.zoom,
        "close_up": seen.close_up,
        "gpm": seen.gpm,
        "board": seen.board,
        "host": seen.host,
    }


def drawn_spans(timeline: Timeline, most: int) -> list[tuple[str, float, float]]:
    """
    Kind, start and end of the marked stretches, some *most* of each kind at most.

    Of a kind of which there are more, those less than the *most*-th part of the whole apart become one.
    """
    by_kind: dict[str, list[tuple[float, float]]] = {}
    for span in timeline.spans:
        by_kind.setdefault(span.kind, []).append((span.start_s, span.end_s))
    found: list[tuple[str, float, float]] = []
    for kind, spans in by_kind.items():
        if len(spans) <= most:
            found += [(kind, start, end) for start, end in spans]
            continue
        edges = np.array(sorted(spans))
        until = np.maximum.accumulate(edges[:, 1])
        whole = max(timeline.duration_s, float(until[-1] - edges[0, 0]))
        first = np.append(0, np.flatnonzero(edges[1:, 0] - until[:-1] >= whole / most) + 1)
        last = np.append(first[1:], len(edges)) - 1
        found += [(kind, float(a), float(b)) for a, b in zip(edges[first, 0], until[last], strict=True)]
    return found


def coarsen(samples: Samples, *, factor: int) -> Samples:
    """
    Merge runs of up to *factor* neighbours into one row each; no row spans a hole.

    A total is the sum of the parts that are there times length / known length, and missing where
    less than `KNOWN_SHARE` of the length is known (a mere sum of what is left would be too small). A
    level is the mean of the parts that are there, weighted by time or by the counter's `weight`.
    """
    if factor <= 1 or len(samples) == 0:
        return samples
    first = _starts_of_groups(samples, factor)
    last = np.append(first[1:], len(samples)) - 1
    length = samples.duration_s
    columns = {name: _merged(samples, name, first, length) for name in samples.columns}
    return Samples(samples.start_ns[first], samples.end_ns[last], columns)


def _merged(samples: Samples, name: str, first: IntArray, length: FloatArray) -> FloatArray:
    values = samples.columns[name]
    counter = BY_NAME.get(name)
    if counter is not None and counter.kind == "total":
        return _total(values, first, length)
    weight = length
    if counter is not None and counter.weight is not None and samples.has(counter.weight):
        weight = samples.column(counter.weight)
    known = np.isfinite(values) & np.isfinite(weight)
    top = np.add.reduceat(np.where(known, values * weight, 0.0), first)
    bottom = np.add.reduceat(np.where(known, weight, 0.0), first)
    mean: FloatArray = np.divide(top, bottom, out=np.full(len(first), np.nan), where=bottom > 0)
    return mean


def _total(values: FloatArray, first: IntArray, length: FloatArray) -> FloatArray:
    known = np.isfinite(values)
    amount = np.add.reduceat(np.where(known, values, 0.0), first)
    known_s = np.add.reduceat(np.where(known, length, 0.0), first)
    whole_s = np.add.reduceat(length, first)
    enough = (known_s > 0) & (known_s >= KNOWN_SHARE * whole_s)
    # Nothing unknown: the ratio is exactly one, and a sum of whole numbers stays one.
    scale = np.divide(whole_s, known_s, out=np.full(len(first), np.nan), where=enough)
    total: FloatArray = amount * scale
    return total


def _starts_of_groups(samples: Samples, factor: int) -> IntArray:
    """Indices at which a group of at most *factor* neighbours without a hole begins, shape (groups,)."""
    n = len(samples)
    run_start = np.zeros(n, np.int64)
    breaks = _breaks(samples)
    run_start[breaks] = breaks
    place = np.arange(n) - np.maximum.accumulate(run_start)
    return np.flatnonzero(place % factor == 0)


def _breaks(samples: Samples) -> IntArray:
    """Indices of samples that do not follow on from the one before (0 not among them)."""
    if len(samples) < 2:
        return np.empty(0, np.int64)
    hole = samples.start_ns[1:] - samples.end_ns[:-1]
    # Half a sample: stamps jitter by some microseconds, a lost sample leaves a whole one.
    return np.flatnonzero(hole > np.median(samples.end_ns - samples.start_ns) / 2) + 1


def _best_table(seen: Observation) -> tuple[Origin, Samples]:
    if len(seen.pm):
        return "pm", seen.pm
    if len(seen.gpm):
        return "gpm", seen.gpm
    return "board", seen.board


@dataclass(frozen=True, slots=True)
class _Line:
    label: str
    counter: str
    source: Origin
    scale: float = 1.0


def _panels(seen: Observation, close_up: Span | None) -> tuple[Panel, ...]:
    """The panels for which there is at least one value."""
    gpu = seen.gpu

    def panel(
        title: str,
        axis: str,
        *lines: _Line,
        roof: float | None = None,
        label: str = "",
        top: float | None = None,
    ) -> Panel:
        return Panel(title, axis, _drawn(seen, *lines), _close(seen, close_up, *lines), roof, label, top)

    if seen.pm.has("dram_read_bytes"):
        memory = panel(
            say("plot.memory"),
            "TB/s",
            _Line(say("plot.read"), "dram_read_bytes", "pm", 1e-12),
            _Line(say("plot.write"), "dram_write_bytes", "pm", 1e-12),
            roof=_known(hardware.practical_dram_bytes_per_s(gpu) * 1e-12),
            label=say("plot.roof_memory"),
        )
    else:
        # GPM, and chips without the byte counters, know only a share of the peak.
        dram = _Line(say("plot.read_write"), "dram_active", "gpm", 100)
        memory = panel(say("plot.memory"), say("plot.of_peak"), dram, top=100.0)
    panels = (
        panel(
            say("plot.busy"),
            say("plot.of_time"),
            *_both("GR", "gr_active"),
            *_both("SM", "sm_active"),
            *_both(say("plot.tensor"), "tensor_active"),
            top=100.0,
        ),
        memory,
        panel(
            "PCIe",
            "GB/s",
            *_both(say("plot.to_gpu"), "pcie_rx_bytes", 1e-9),
            *_both(say("plot.from_gpu"), "pcie_tx_bytes", 1e-9),
            roof=_known(_pcie_roof(gpu) * 1e-9),
            label=say("plot.roof_link"),
        ),
        panel(
            say("plot.kernel_launches"),
            say("plot.thousands"),
            _Line(say("plot.launches"), "launches", "pm", 1e-3),
        ),
        panel(
            say("plot.power"),
            "W",
            _Line(say("plot.board"), "power", "board"),
            roof=gpu.power_limit_w,
            label=say("plot.limit"),
        ),
        panel(
            say("plot.clock"),
            "GHz",
            _Line("NVML", "sm_clock", "board", 1e-9),
            _Line("PM", "gpc_clock", "pm", 1e-9),
        ),
    )
    return tuple(p for p in panels if p.series)


def _both(label: str, counter: str, scale: float = 100) -> tuple[_Line, _Line]:
    """The same quantity from GPM, which is always on, and from the PM windows, which are exact."""
    return _Line(label, counter, "gpm", scale), _Line(label, counter, "pm", scale)


def _drawn(seen: Observation, *lines: _Line) -> tuple[Series, ...]:
    tables: dict[Origin, Samples] = {"pm": seen.pm, "gpm": seen.gpm, "board": seen.board}
    bin_ns = max(1, (seen.end_ns - seen.start_ns) // BINS)
    return tuple(
        _series(tables[line.source], line, seen.start_ns, bin_ns=bin_ns)
        for line in lines
        if tables[line.source].has(line.counter)
    )


def _close(seen: Observation, span: Span | None, *lines: _Line) -> tuple[Series, ...]:
    """The lines of PM sampling within the close-up *span*, sample by sample."""
    if span is None:
        return ()
    start_ns, end_ns = (seen.start_ns + round(s * 1e9) for s in (span.start_s, span.end_s))
    table = seen.pm.between(start_ns, end_ns)
    return tuple(
        _series(table, line, seen.start_ns, bin_ns=1)
        for line in lines
        if line.source == "pm" and table.has(line.counter)
    )


def _close_up(seen: Observation, steady: Steady) -> Span | None:
    """
    The end of the last unbroken run of PM samples in the stretch that was judged, where the program
    is in its stride; of all PM samples, where none lies in it.
    """
    judged = seen.pm.between(steady.start_ns, steady.end_ns)
    table = judged if len(judged) else seen.pm
    if not len(table):
        return None
    breaks = _breaks(table)
    first_ns = int(table.start_ns[breaks[-1] if len(breaks) else 0])
    end_ns = int(table.end_ns[-1])
    return Span(
        "close_up",
        (max(first_ns, end_ns - CLOSE_UP_NS) - seen.start_ns) / 1e9,
        (end_ns - seen.start_ns) / 1e9,
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _pcie_roof(gpu: Gpu) -> float:
    if gpu.pcie_generation_max is None or gpu.pcie_width_max is None:
        return math.nan
    return hardware.pcie_bytes_per_s(gpu.pcie_generation_max, gpu.pcie_width_max, gpu=gpu)


def _series(table: Samples, line: _Line, origin_ns: int, *, bin_ns: int) -> Series:
    """One line in bins of time of at least one sample each; a total becomes a rate per second first."""
    kind = BY_NAME[line.counter].kind
    values = table.column(line.counter) * line.scale
    if kind == "total":
        values = np.divide(
            values, table.duration_s, out=np.full(len(table), np.nan), where=table.duration_s > 0
        )
    place = (table.start_ns - origin_ns) // bin_ns
    first = np.union1d(np.flatnonzero(np.diff(place, prepend=place[0] - 1)), _breaks(table))
    last = np.append(first[1:], len(table)) - 1
    middle_s = ((table.start_ns[first] - origin_ns) / 2 + (table.end_ns[last] - origin_ns) / 2) / 1e9
    weight = np.where(np.isfinite(values), table.duration_s, 0.0)
    total = np.add.reduceat(np.where(np.isfinite(values), values, 0.0) * weight, first)
    seconds = np.add.reduceat(weight, first)
    mean = np.divide(total, seconds, out=np.full(len(first), np.nan), where=seconds > 0)
    low = np.fmin.reduceat(values, first)
    high = np.fmax.reduceat(values, first)
    return Series(line.label, line.source, *_with_holes(table, first, middle_s, mean, low, high))


def _with_holes(
    table: Samples, first: IntArray, *arrays: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The arrays with a NaN where a hole is, so that no line is drawn across it."""
    holes = np.searchsorted(first, _breaks(table))
    time_s, mean, low, high = (np.insert(a, holes, np.nan) for a in arrays)
    return time_s, mean, low, high


def _spans(seen: Observation, steady: Steady) -> tuple[Span, ...]:
    def seconds(ns: int) -> float:
        return (ns - seen.start_ns) / 1e9

    spans = []
    for window in seen.windows:
        start_ns, end_ns = window.start_ns, window.end_ns
        if window.kind == "zoom":
            # A burst is decoded while its window stays open; only the samples show when it was.
            burst = seen.zoom.between(start_ns - window.period_ns, end_ns + window.period_ns)
            if len(burst):
                start_ns, end_ns = int(burst.start_ns[0]), int(burst.end_ns[-1])
        spans.append(Span("zoom" if window.kind == "zoom" else "window", seconds(start_ns), seconds(end_ns)))
    spans += [Span("gap", seconds(g.start_ns), seconds(g.end_ns)) for g in seen.gaps]
    if steady.how != "none" and steady.dropped_s > 0:
        spans.append(Span("warm_up", 0.0, seconds(steady.start_ns)))
    return tuple(spans)
