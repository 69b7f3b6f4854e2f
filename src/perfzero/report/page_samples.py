"""
Samples for the page: small, and exact to a thousandth of what a column spans.

A column of n values between `low` and `high` is n whole numbers from 0 to `LEVELS`, and `MISSING` where
there is no value; its error is at most half a step, (high - low) / 2 / LEVELS. The low bytes of all numbers
follow the high bytes of all: those hardly change, and compress to nothing. Times are microseconds: the
start of the first sample, then how far each starts after the one before, then how long each is, as six
planes of bytes likewise (four would end after 72 minutes). All of a GPU's tables are one block, deflated
(zlib) and in base64; a directory beside it says where what stands. Amounts are stored as rates, for that
is what is drawn.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfzero.counters import BY_NAME
from perfzero.report.timeline import coarsen
from perfzero.values import FloatArray, IntArray, Samples

LEVELS = 1000
"""Steps between the least and the greatest value: a line on a 4K screen is drawn on fewer pixels."""

MISSING = 0xFFFF
"""Stands where a value is missing."""

TEXT = 4_200_000
"""Bytes of base64 for all GPUs together: with the rest of the page, and layers, a file stays under 6 MB."""

TEXT_EACH = 1_500_000
"""For a single GPU, which is some 1.5 million values of real samples: a page that opens at once anywhere."""

MERGED = (
    frozenset({"pm", "classes"}),
    frozenset({"gpm", "board", "host", "steps"}),
    frozenset({"zoom", "close_up", "fine_classes"}),
)
"""Where there is too much, these are merged in turn: bursts last, for one that is merged is none."""

FLOORS = (4000, 500, 1)
"""Rows each table keeps until all have been merged so far: the pixels of a wide screen; a coarse line."""

LEAST_GROWTH = 1.5
"""Each pass merges at least so many times as many rows as the one before: a million is reached in 35."""

TIME_BYTES = 6
"""Of a time in microseconds: nine years, and what is not needed compresses to nothing."""

CLOSE = 0.85
"""Merging makes values smoother, and they compress better than before: aim so far below what is allowed."""


@dataclass(frozen=True, slots=True)
class Block:
    """The samples of one GPU: base64 text, and the directory of what stands where in the inflated bytes."""

    text: str
    directory: Mapping[str, Any]


def block(tables: Mapping[str, Samples], columns: Sequence[str], *, start_ns: int, most: int) -> Block:
    """
    *tables* by name with those of *columns* that they have, as one block of some *most* bytes at most.

    *start_ns*: the time that is 0 on the page. Where that is too much, tables are merged in the order of
    `MERGED`, all down to the same of `FLOORS` before any goes further; each says how many neighbours its rows
    hold. What holes keep apart is never merged, so that rows with a hole before each may take more.
    """
    factors = dict.fromkeys(tables, 1)
    found = _packed(tables, columns, start_ns, factors)
    for floor in FLOORS:
        for together in MERGED:
            names = [name for name in tables if name in together]
            before = math.inf
            while len(found.text) > most and (
                names := [name for name in names if len(tables[name]) > floor * factors[name]]
            ):
                rows = sum(found.directory[name]["rows"] for name in names)
                if rows >= before:  # holes keep the rest apart
                    break
                before = rows
                grown = max(LEAST_GROWTH, len(found.text) / most * CLOSE)
                for name in names:
                    factors[name] = min(
                        math.ceil(factors[name] * grown), math.ceil(len(tables[name]) / floor)
                    )
                found = _packed(tables, columns, start_ns, factors)
    return found


def _packed(
    tables: Mapping[str, Samples], columns: Sequence[str], start_ns: int, factors: Mapping[str, int]
) -> Block:
    kept = {name: table for name, table in tables.items() if len(table)}
    has = {name: [c for c in columns if table.has(c)] for name, table in kept.items()}
    parts: list[bytes] = []
    at = 0
    directory: dict[str, Any] = {}
    for name, table in kept.items():
        merged = factors[name]
        rows = longest(table, merged) if name == "steps" else coarsen(table, factor=merged)
        times, first_us = _times(rows, start_ns)
        entry: dict[str, Any] = {
            "rows": len(rows),
            "merged": merged,
            "first_us": first_us,
            "at": at,
            "columns": {},
        }
        parts.append(times)
        at += len(times)
        for column in has[name]:
            numbers, low, high = quantised(_drawn(rows, column))
            entry["columns"][column] = {"at": at, "low": low, "high": high}
            parts.append(numbers)
            at += len(numbers)
        directory[name] = entry
    return Block(deflated(b"".join(parts)), directory)


def longest(steps: Samples, each: int) -> Samples:
    """Of every *each* of *steps* the longest: several in one would be none, and a rare long one stays."""
    if each <= 1 or len(steps) == 0:
        return steps
    length = steps.end_ns - steps.start_ns
    groups = range(0, len(steps), each)
    chosen = np.array([first + int(np.argmax(length[first : first + each])) for first in groups])
    columns = {name: values[chosen] for name, values in steps.columns.items()}
    return Samples(steps.start_ns[chosen], steps.end_ns[chosen], columns)


def deflated(content: bytes) -> str:
    """*content* as the page inflates it."""
    return base64.b64encode(zlib.compress(content, 6)).decode("ascii")


def quantised(values: FloatArray) -> tuple[bytes, float, float]:
    """*values* as planes of high and of low bytes, and the ends of their range."""
    known = np.isfinite(values)
    if not known.any():
        numbers = np.full(len(values), MISSING, np.uint16)
        return _planes(numbers, 2), 0.0, 0.0
    low, high = float(values[known].min()), float(values[known].max())
    span = high - low
    # A span that overflows, or is none, has no steps.
    scaled = (values - low) / span * LEVELS if 0 < span < math.inf else np.zeros(len(values))
    numbers = np.where(known, np.rint(np.nan_to_num(scaled)), MISSING).astype(np.uint16)
    return _planes(numbers, 2), low, high


def _drawn(table: Samples, column: str) -> FloatArray:
    """A level as it is, an amount per second."""
    values = table.column(column)
    counter = BY_NAME.get(column)
    if counter is None or counter.kind != "total":
        return values
    seconds = table.duration_s
    rate: FloatArray = np.divide(values, seconds, out=np.full(len(table), np.nan), where=seconds > 0)
    return rate


def _times(table: Samples, start_ns: int) -> tuple[bytes, int]:
    """When rows start, each from the one before, and how long they are; and when the first starts, in us."""
    start_us = np.rint((table.start_ns - start_ns) / 1e3).astype(np.int64)
    end_us = np.rint((table.end_ns - start_ns) / 1e3).astype(np.int64)
    after = np.diff(start_us, prepend=start_us[0])
    return _counted(after) + _counted(end_us - start_us), int(start_us[0])


def _counted(us: IntArray) -> bytes:
    return _planes(np.clip(us, 0, (1 << 8 * TIME_BYTES) - 1), TIME_BYTES)


def _planes(numbers: np.ndarray[Any, Any], width: int) -> bytes:
    """The low *width* bytes of *numbers* by their weight: all of the highest first, the lowest last."""
    table = np.frombuffer(numbers.astype(">u8").tobytes(), np.uint8).reshape(len(numbers), 8)
    return table[:, 8 - width :].T.tobytes()
