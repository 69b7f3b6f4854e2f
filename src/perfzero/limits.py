"""
What a limit says of itself where it stands: its unit, and who says that it has this value.

A limit is a number on which it depends what a user is told: from where on a line is named, a layer is called
poor, a difference real. It is declared beside its use, because the reasoning of its module explains it, as a
plain number with a `Limit` in its type, and the reason in a docstring below it:

    KNOWN: Annotated[float, Limit("ratio", CHOICE)] = 0.5

`tools/write_docs.py` collects all of them into docs/thresholds.md. Limits of rules, which findings name and
hold a share against, are values of their own: `perfzero.diagnose.thresholds`.

Numbers that change how a method runs and not what it says are none: how often it is repeated at most, how
wide a column is, how much memory a hostile file may cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NVIDIA_TRIAGE = "NVIDIA Compute Triage Guide (2026)"
TENSORFLOW = "TensorFlow profiler's input-pipeline analyser constants"
DCGM = "DCGM's interpretation notes for profiling fields"
H200 = "measured on an H200, 2026-11-29"
H200_LOOKS = "measured on an H200, 2026-11-30"
SIMULATED = "simulated programs of known truth"
DATA_SHEETS = "data sheets"
PYTORCH = "PyTorch's source"
BY_DEFINITION = "follows from what it is"
CHOICE = "our choice"
ASSUMED = "assumed until enough fixes have been measured"

Unit = Literal[
    "ratio", "count", "count/s", "bytes", "bytes/s", "seconds", "nanoseconds", "standard deviations", "°C", ""
]
"""Of ratios and shares 1 is the whole."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Unit and source of a number that decides what is told: a document, a measurement, or our choice."""

    unit: Unit
    source: str
