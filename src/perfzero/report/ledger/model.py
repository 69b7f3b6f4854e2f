"""
What a comparison consists of: values that the renderings show, all of them computed in `build`.

    Ledger
    ├── iterations                  A, B, C ...: what was recorded, its verdict, what limits it
    ├── groups of lines             speed, GPU, bytes, time, layers: a value per iteration
    │     Line: Cell per iteration  value and interval; Changes against the one before and the first
    └── gains                       per step from one iteration to the next: promised, achieved, next limit
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perfzero.series.compare import Difference

Better = Literal["more", "less", "neither"]
"""Which way of a metric is good; "neither" where that depends."""

Kept = Literal["kept", "more", "less", "unknown", "nothing promised"]
"""How an achieved gain lies to the interval that was promised."""

Group = Literal["speed", "gpu", "bytes", "time", "layers"]
GROUPS: tuple[Group, ...] = ("speed", "gpu", "bytes", "time", "layers")


@dataclass(frozen=True, slots=True)
class Cell:
    """A metric in one iteration, and between which values it lies; NaN where it was not seen."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Line:
    """
    One metric over the iterations.

    `before` and `first` are the changes of each iteration against the one before it and against the first;
    None for the first itself. `p` in them is of this metric alone. Words and intervals are made for many, but
    for the lines of the step, which is what a comparison is for, and those that are `quiet`: next to nothing
    goes on there in any iteration, and they are not shown.
    """

    key: str
    label: str
    unit: str
    group: Group
    better: Better
    cells: tuple[Cell, ...]
    before: tuple[Difference | None, ...]
    first: tuple[Difference | None, ...]
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Promise:
    """
    What iteration `of` promised for its fix, and what the next one achieved.

    `low` to `high` times as fast was promised, `value` in [`achieved_low`, `achieved_high`] came; NaN where
    there is none. `next_limit` was foreseen, `limits` are met, `came` whether one of them is that (None: no
    limit was named).
    """

    of: int
    remedy: str
    low: float
    high: float
    value: float
    achieved_low: float
    achieved_high: float
    kept: Kept
    next_limit: str | None
    limits: tuple[str, ...]
    came: bool | None


@dataclass(frozen=True, slots=True)
class Entry:
    """
    One iteration: its letter, where it lies, when it began, what was run, the verdict, and its doubts.

    `gpu`: the index of the one that is compared, where several were watched. `twice`: paths given once more.
    """

    letter: str
    name: str
    paths: tuple[str, ...]
    created_ns: int
    command: tuple[str, ...]
    headline: str
    rule: str
    doubts: tuple[str, ...]
    gpu: int | None = None
    twice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ledger:
    """
    All that is told of a sequence of iterations of one program.

    `unlike`: the facts of their machines that make a comparison unfair, empty unless it was forced; `told`:
    what differs and may matter. `family`: of so many lines none is wrong, with the
    `confidence`; `layers`: likewise, of those of the layers.
    """

    entries: tuple[Entry, ...]
    lines: tuple[Line, ...]
    promises: tuple[Promise, ...]
    unlike: tuple[str, ...]
    told: tuple[str, ...]
    confidence: float
    margin: float
    family: int
    layers: int

    def shown(self, group: Group) -> tuple[Line, ...]:
        """The lines of *group* on which something goes on."""
        return tuple(line for line in self.lines if line.group == group and not line.quiet)

    def line(self, key: str) -> Line | None:
        """The line of the metric *key*; None where it was not seen."""
        return next((line for line in self.lines if line.key == key), None)
