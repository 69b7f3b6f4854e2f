"""
summary.csv and timeline.csv.

Numbers are in base units (ratios, bytes, seconds, hertz), a missing one is an empty cell.
With one GPU summary.csv has exactly the columns Metric, Value, Threshold, Status; with
several a fifth, GPU, follows, so that a reader of four columns still finds them in place.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator

import numpy as np

from perfzero.counters import COUNTERS
from perfzero.report.model import GpuReport, Report
from perfzero.values import Samples

SUMMARY_COLUMNS = ("Metric", "Value", "Threshold", "Status")


def summary(report: Report) -> str:
    """
    The text of summary.csv: per GPU the verdict, the time shares, then every fact.

    Rows whose names are not canonical are the ones of the document perfzero is modelled on, with
    the value its own name stands for and the status of the right direction.
    """
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n")
    several = len(report.gpus) > 1
    write.writerow((*SUMMARY_COLUMNS, "GPU") if several else SUMMARY_COLUMNS)
    for gpu in report.gpus:
        for row in _summary_rows(gpu):
            write.writerow((*row, str(gpu.gpu.index)) if several else row)
    return out.getvalue()


def _summary_rows(gpu: GpuReport) -> Iterator[tuple[str, str, str, str]]:
    diagnosis, verdict = gpu.diagnosis, gpu.diagnosis.verdict
    if verdict is None:
        yield "verdict", "", "", "unknown"
    else:
        # A finding that asks for nothing is a good answer, not a remark.
        yield "verdict", verdict.rule, "", "ok" if verdict.severity == "info" else verdict.severity
        yield "verdict_confidence", number(verdict.confidence), "", "info"
        if verdict.gain is not None:
            yield "expected_gain_low", number(verdict.gain.low), "", "info"
            yield "expected_gain_high", number(verdict.gain.high), "", "info"
    for name, share in diagnosis.shares.items():
        yield f"time_{name}", number(share), "", "info" if math.isfinite(share) else "unknown"
    for fact in diagnosis.facts.values():
        yield fact.name, number(fact.value), fact.threshold or "", fact.status


def number(value: float) -> str:
    """Seven significant digits, as float32 counters hold; empty where missing."""
    return f"{value:.7g}" if math.isfinite(value) else ""


def timeline(report: Report) -> str:
    """
    The text of timeline.csv: start_ns, end_ns, gpu, then canonical names; GPUs one after the other.

    A column is there when at least one GPU has a value in it.
    """
    tables = [(g.gpu.index, g.timeline.table) for g in sorted(report.gpus, key=lambda g: g.gpu.index)]
    names = [c.name for c in COUNTERS if any(t.has(c.name) for _, t in tables)]
    lines = [",".join(("start_ns", "end_ns", "gpu", *names))]
    for index, table in tables:
        lines += _timeline_rows(index, table, names)
    return "\n".join(lines) + "\n"


def _timeline_rows(gpu: int, table: Samples, names: list[str]) -> Iterator[str]:
    values = np.column_stack([table.column(n) for n in names]) if names else np.empty((len(table), 0))
    row = ",".join(["%.7g"] * len(names))
    for start, end, numbers in zip(
        table.start_ns.tolist(), table.end_ns.tolist(), values.tolist(), strict=True
    ):
        # One format per row instead of one per cell: a minute at 1 kHz is a million cells.
        cells = (row % tuple(numbers)).replace("nan", "").replace("-inf", "").replace("inf", "")
        yield f"{start},{end},{gpu},{cells}" if names else f"{start},{end},{gpu}"
