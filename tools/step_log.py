"""The log of steps that programs of the zoo write (zoo/loop.py): when each ended, and how long it took."""

from __future__ import annotations

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
