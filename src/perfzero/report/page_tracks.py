"""
What the page's timeline shows: tracks of counters and marks, all on one axis of seconds since the start.

A track is a unit and the lines in it; a line names its column and the tables that hold it, the finest
first: where a fine table has samples these are drawn, elsewhere the next. GPM's averages, which are always
on, are a line of their own, faint behind the exact one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from perfzero import hardware
from perfzero.diagnose.verdict import TIME_CLASSES
from perfzero.report.model import GpuReport
from perfzero.report.timeline import drawn_spans
from perfzero.report.voice import Voice
from perfzero.values import Samples

SAMPLED = ("close_up", "zoom", "pm")
"""Tables of PM sampling, the finest first."""


@dataclass(frozen=True, slots=True)
class Track:
    """A plot: its name is a key of the page's words. `top`: where the axis ends, None to fit the data."""

    name: str
    unit: str
    columns: tuple[str, ...]
    scale: float = 1.0
    top: float | None = None
    tables: tuple[str, ...] = (*SAMPLED, "gpm")


TRACKS = (
    Track("busy", "%", ("gr_active", "sm_active", "tensor_active", "fma_active", "fp32_active"), 100, 100),
    Track("memory", "TB/s", ("dram_read_bytes", "dram_write_bytes"), 1e-12, tables=SAMPLED),
    Track("memory_share", "%", ("dram_active",), 100, 100, ("gpm",)),
    Track("l2", "%", ("l2_hit",), 100, 100, SAMPLED),
    Track("pcie", "GB/s", ("pcie_rx_bytes", "pcie_tx_bytes"), 1e-9),
    Track("nvlink", "GB/s", ("nvlink_rx_bytes", "nvlink_tx_bytes"), 1e-9),
    Track("launches", "k/s", ("launches",), 1e-3, tables=SAMPLED),
    Track("queue", "%", ("queue_empty", "queue_semaphore"), 100, 100, SAMPLED),
    Track("host", "cores", ("host_main_cpu", "host_worker_cpu", "host_io_wait"), 1, None, ("host",)),
    Track("power", "W", ("power",), 1, None, ("board",)),
    Track("clock", "GHz", ("gpc_clock", "sm_clock"), 1e-9, None, (*SAMPLED, "board")),
    Track("temperature", "°C", ("temperature",), 1, None, ("board",)),
    Track("capped", "%", ("capped_power", "capped_thermal", "capped_hardware"), 100, 100, ("board",)),
)

MARKS = 2000
"""Marks of one kind at most; a lane is no more pixels wide."""

COLUMNS = (
    *dict.fromkeys(column for track in TRACKS for column in track.columns),
    *(f"time_{name}" for name in TIME_CLASSES),
)
"""All that is drawn, and so kept in the page."""

FEW = frozenset({"memory_share"})
"""Tracks that stand in for a better one."""

PART = {"fp32_active": "fma_active"}
"""Columns that are a part of another one, and drawn where that is missing."""


def drawn_tracks(gpu: GpuReport, words: Mapping[str, str]) -> list[dict[str, Any]]:
    """The tracks for which there is a value."""
    tables = gpu.timeline.tables
    found: list[dict[str, Any]] = []
    for track in TRACKS:
        lines = list(_lines(track, tables, words))
        if not lines or (track.name in FEW and any(t["name"] == "memory" for t in found)):
            continue
        roof, label = _roof(track, gpu, words)
        found.append(
            {
                "name": track.name,
                "title": words[f"track_{track.name}"],
                "unit": track.unit,
                "scale": track.scale,
                "top": track.top,
                "roof": roof,
                "roof_label": label,
                "lines": lines,
            }
        )
    return found


def _lines(track: Track, tables: Mapping[str, Any], words: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for column in track.columns:
        whole = PART.get(column)
        if whole and any(tables[t].has(whole) for t in track.tables if t in tables):
            continue
        having = [t for t in track.tables if t in tables and tables[t].has(column)]
        exact = [t for t in having if t != "gpm"]
        label = words[f"line_{column}"]
        if "gpm" in having:
            yield {"column": column, "label": label, "tables": ["gpm"], "faint": bool(exact)}
        if exact:
            yield {"column": column, "label": label, "tables": exact, "faint": False}


def _roof(track: Track, gpu: GpuReport, words: Mapping[str, str]) -> tuple[float | None, str]:
    if track.name == "memory":
        roof = hardware.practical_dram_bytes_per_s(gpu.gpu) * track.scale
        return (roof, words["roof_memory"]) if math.isfinite(roof) else (None, "")
    if track.name == "power" and gpu.gpu.power_limit_w:
        return gpu.gpu.power_limit_w, words["roof_power"]
    return None, ""


def sampled_tables(gpu: GpuReport) -> dict[str, Samples]:
    """What the page keeps of a GPU: all that was sampled, the class of each sample, and the steps."""
    tables = dict(gpu.timeline.tables)
    picture = gpu.diagnosis.picture
    if picture is not None:
        if gpu.diagnosis.shares:  # classes by data that a gate refused would only mislead
            tables["classes"] = picture.classes
            tables["fine_classes"] = picture.fine_classes
        tables["steps"] = Samples(picture.steps_ns[:, 0], picture.steps_ns[:, 1])
    return tables


def marks(gpu: GpuReport, say: Voice) -> list[dict[str, Any]]:
    """Marked stretches of the axis: windows, bursts, gaps, warm-up, rare events, phases of the recording."""
    spans: list[dict[str, Any]] = [
        {"kind": kind, "start": start, "end": end} for kind, start, end in drawn_spans(gpu.timeline, MARKS)
    ]
    origin_ns = gpu.timeline.start_ns
    for stage in gpu.diagnosis.stages:
        spans.append(
            {
                "kind": "stage",
                "start": max(0.0, (stage.start_ns - origin_ns) / 1e9),
                "end": (stage.end_ns - origin_ns) / 1e9,
                "label": stage.label,
                "level": stage.gr_active,
            }
        )
    rare = () if gpu.diagnosis.picture is None else gpu.diagnosis.picture.rare
    for nature, times_ns in rare:
        name = say("stalls" if nature == "stall" else "other_work")
        for start_ns, end_ns in times_ns.tolist():
            start, end = ((ns - origin_ns) / 1e9 for ns in (start_ns, end_ns))
            spans.append({"kind": "rare", "start": start, "end": end, "name": name})
    steady = gpu.diagnosis.steady
    if steady.how != "none":
        spans.append(
            {
                "kind": "judged",
                "start": (steady.start_ns - origin_ns) / 1e9,
                "end": (steady.end_ns - origin_ns) / 1e9,
            }
        )
    return spans
