"""The log of steps that programs of the zoo write (zoo/loop.py): when each ended, and how long it took."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

STEP = np.dtype([("end_ns", "<i8"), ("ms", "<f8")])
"""A row: Unix time in ns, and the step's length in ms."""

RARE = 2.0
"""A step of more than so many median lengths has something else in it: a checkpoint, an evaluation."""


def read_steps(log: Path) -> npt.NDArray[np.void]:
    """The rows of a log; a last one that was cut is left out."""
    data = log.read_bytes()
    return np.frombuffer(data[: len(data) // STEP.itemsize * STEP.itemsize], STEP)


def inside(rows: npt.NDArray[np.void], start_ns: int, end_ns: int) -> npt.NDArray[np.float64]:
    """The lengths in ms of the steps that lie in [start_ns, end_ns) as a whole."""
    begin = rows["end_ns"] - rows["ms"] * 1e6
    lengths: npt.NDArray[np.float64] = rows["ms"][(begin >= start_ns) & (rows["end_ns"] < end_ns)]
    return lengths


def of_spans(rows: npt.NDArray[np.void], spans_ns: Iterable[tuple[int, int]]) -> npt.NDArray[np.float64]:
    """The lengths in ms of the steps that lie as a whole in one of *spans_ns*, [start, end) each."""
    found = [inside(rows, start, end) for start, end in spans_ns]
    return np.concatenate(found) if found else np.empty(0)


def step_of(lengths: npt.NDArray[np.float64]) -> tuple[float, float]:
    """
    The mean of the steps without the rare long ones, in ms, and its jitter: their standard deviation / mean.

    Raises `ValueError` below two steps.
    """
    if len(lengths) < 2:
        raise ValueError(f"{len(lengths)} steps are too few")
    usual = lengths[lengths <= RARE * np.median(lengths)]
    mean = float(usual.mean())
    return mean, float(usual.std() / mean)


def pack(rows: npt.NDArray[np.void], path: Path) -> None:
    """Keep *rows* in *path*, a compressed .npz file, to the microsecond: some 3 bytes a step."""
    ends = rows["end_ns"] // 1000
    start = int(ends[0]) if len(ends) else 0
    apart = np.diff(ends, prepend=start).astype("<i4")
    np.savez_compressed(path, start_us=start, apart_us=apart, us=np.rint(rows["ms"] * 1e3).astype("<i4"))


def unpack(path: Path) -> npt.NDArray[np.void]:
    """What `pack` kept."""
    with np.load(path, allow_pickle=False) as kept:
        rows = np.empty(len(kept["us"]), STEP)
        rows["end_ns"] = (int(kept["start_us"]) + np.cumsum(kept["apart_us"], dtype=np.int64)) * 1000
        rows["ms"] = kept["us"] / 1e3
    return rows
