"""
Layers of two iterations, joined by their names: how long each takes in a step, and the bytes it moves.

A look sees a few steps of a program, so a layer has no course of its own over time, and no drift. How well
its time comes back in another look was measured instead (`APART`). Bytes have their own intervals, from
sharing samples out among kernels, beside that.

Modules whose paths differ in numbers alone go by one name, "layer1.*.conv2", and are added up: by their paths
and nothing else, so that two looks come to the same names. A layer that one of two iterations does not
have is told, and not compared: a compiler that fuses layers leaves one in place of many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import numpy as np

from perfzero.attribute.breakdown import Breakdown, Row
from perfzero.limits import BY_DEFINITION, CHOICE, H200_LOOKS, Limit
from perfzero.report.breakdown import within_model
from perfzero.series.compare import Measured

APART: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.005
"""
By so much the time of a layer differs from one look to the next (standard deviation, a share). Of 45 layers
of four programs, looked at twice on two H200 some hours apart, half differed by 0.2 % or less and all but two
by 1.2 %; one by 2 %, where cuDNN had chosen another algorithm.
"""

MARGIN: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""A layer of which so little changed is as it was."""

REACH: Annotated[float, Limit("standard deviations", BY_DEFINITION)] = 1.96
"""The intervals of bytes are of 95 %, and so wide in standard errors to either side."""

WORTH: Annotated[float, Limit("ratio", CHOICE)] = 0.005
"""Layers that take less of the busy time are left out: they are many, and explain nothing."""

TIME, BYTES = "layer_time:", "layer_bytes:"
"""How the keys of their lines begin; the name follows."""


def layers_of(breakdown: Breakdown | None) -> dict[str, Measured]:
    """Time and bytes of each layer per step, by their keys; nothing without a look at whole steps."""
    if breakdown is None or breakdown.steps < 1:
        return {}
    found: dict[str, Measured] = {}
    for name, rows in _by_name(breakdown).items():
        whole = sum(row.time.per_step_ns for row in rows) / 1e9
        if sum(row.time.share for row in rows) < WORTH or not whole > 0:
            continue
        found[TIME + name] = _mean(whole, APART**2)
        moved, variance = _bytes(rows)
        if moved > 0:
            found[BYTES + name] = _mean(moved / breakdown.steps, variance / moved**2 + APART**2)
    return found


def _by_name(breakdown: Breakdown) -> Mapping[str, list[Row]]:
    names: dict[str, list[Row]] = {}
    for module in breakdown.modules:
        if module.own.time.gpu_ns:
            path = ".".join("*" if part.isdigit() else part for part in module.path.split("."))
            names.setdefault(within_model(path), []).append(module.own)
    for row in breakdown.elsewhere:
        names.setdefault(row.name, []).append(row)
    return names


def _bytes(rows: list[Row]) -> tuple[float, float]:
    """What *rows* read and wrote, and the variance of that; 0 where it was not counted."""
    figures = list(_figures(rows))
    if not figures or not all(np.isfinite(figures).ravel()):
        return 0.0, 0.0
    whole = sum(value for value, _, _ in figures)
    # What one layer has too much its neighbour lacks, so errors of several do not cancel.
    error = sum((high - low) / 2 / REACH for _, low, high in figures)
    return whole, error**2


def _figures(rows: list[Row]) -> Iterator[tuple[float, float, float]]:
    for row in rows:
        counted = row.counted
        for figure in () if counted is None else (counted.dram_read_bytes, counted.dram_write_bytes):
            if figure is not None:
                yield figure.value, figure.low, figure.high


def _mean(value: float, variance: float) -> Measured:
    return Measured(value, "ratio", np.array([variance]), np.ones(1), float("nan"), 1)
