"""
Frozen values that cross layers.

`Samples` is what every source yields, the store keeps and the analysis reads: a table with
one row per half-open interval of time. The rest says what was watched (`Gpu`), how
(`Window`), what is missing (`Gap`) and what happened (`Note`). `Observation` is all of it
for one GPU, and the only thing the analysis ever sees.

Conventions: times are integer Unix nanoseconds; intervals are half-open [start, end);
a missing value is NaN, never 0; columns are named as in `perfzero.counters`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

Tier = Literal["pm", "gpm", "nvml"]
"""How closely a GPU was watched: hardware sampling, NVML GPM averages, or plain NVML."""

WindowKind = Literal["dense", "regular", "zoom", "continuous", "explicit"]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """
    A table of samples: row i covers [start_ns[i], end_ns[i]).

    `start_ns`, `end_ns`: int64 of shape (n,), ordered by start.
    `columns`: canonical counter name -> float64 of shape (n,), NaN where missing.
    """

    start_ns: IntArray
    end_ns: IntArray
    columns: Mapping[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.start_ns)
        if len(self.end_ns) != n or any(len(c) != n for c in self.columns.values()):
            raise ValueError("all columns of a table of samples have the same length")

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def duration_s(self) -> FloatArray:
        """Length of each sample in seconds, shape (n,)."""
        return (self.end_ns - self.start_ns) / 1e9

    def column(self, name: str) -> FloatArray:
        """The named column, or NaN of shape (n,) where the source had no such counter."""
        found = self.columns.get(name)
        return np.full(len(self), np.nan) if found is None else found

    def has(self, name: str) -> bool:
        """Whether at least one sample of *name* is present."""
        found = self.columns.get(name)
        return found is not None and bool(np.isfinite(found).any())

    def where(self, keep: NDArray[np.bool_]) -> Samples:
        """The rows for which *keep* (shape (n,)) is true; the table itself if all are kept."""
        if len(keep) == len(self) and keep.all():
            return self
        return Samples(self.start_ns[keep], self.end_ns[keep], {k: v[keep] for k, v in self.columns.items()})

    def between(self, start_ns: int, end_ns: int) -> Samples:
        """The rows that lie wholly inside [start_ns, end_ns)."""
        return self.where((self.start_ns >= start_ns) & (self.end_ns <= end_ns))

    def with_columns(self, columns: Mapping[str, FloatArray]) -> Samples:
        """The same rows with *columns* added or replaced."""
        return Samples(self.start_ns, self.end_ns, {**self.columns, **columns})

    @staticmethod
    def empty(names: Iterable[str] = ()) -> Samples:
        """A table with no row."""
        nothing = np.empty(0, np.int64)
        return Samples(nothing, nothing, {name: np.empty(0) for name in names})

    @staticmethod
    def concat(parts: Iterable[Samples]) -> Samples:
        """One table of all rows in order; a column absent from a part is NaN there."""
        tables = [p for p in parts if len(p)]
        if not tables:
            return Samples.empty()
        names = list(dict.fromkeys(name for t in tables for name in t.columns))
        return Samples(
            np.concatenate([t.start_ns for t in tables]),
            np.concatenate([t.end_ns for t in tables]),
            {name: np.concatenate([t.column(name) for t in tables]) for name in names},
        )


@dataclass(frozen=True, slots=True)
class Gpu:
    """
    One GPU as the driver describes it. Unknown figures are None, never 0.

    Clocks in hertz, power in watts, sizes in bytes, PCIe rate as generation and width. `calibrated`
    holds the practical roofs that `perfzero calibrate` measured on it, by the names and in the units of
    `perfzero.hardware.CALIBRATED`; empty where it never was.
    """

    index: int
    uuid: str
    name: str
    chip: str | None = None  # CUPTI's name of the chip, e.g. "GH100"
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    sm_clock_max_hz: float | None = None
    memory_clock_max_hz: float | None = None
    memory_bus_bits: int | None = None
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    power_limit_w: float | None = None
    pcie_generation_max: int | None = None
    pcie_width_max: int | None = None
    driver: str | None = None
    mig: bool = False
    calibrated: Mapping[str, float] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch of PM sampling on one GPU, as it was asked for and as it went."""

    gpu: int
    kind: WindowKind
    start_ns: int
    end_ns: int
    period_ns: int
    samples: int
    lost: int  # samples that should have come and did not


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch that should hold samples and does not, with the reason in one sentence."""

    gpu: int | None
    source: str
    start_ns: int
    end_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class FullCollection:
    """A collection of all of Python's garbage that has ended at `end_ns`, after `length_s`."""

    end_ns: int
    length_s: float


@dataclass(frozen=True, slots=True)
class Look:
    """
    One look inside a process of the program by its own profiler, [start_ns, end_ns) from question to answer.

    `file` in the recording's folder holds the trace of the steps between the times in `steps_ns`; without one
    `reason` says why there is none. `cost_s` is how long the program was held up for it. `gpus`: on which the
    driver listed the process by then; empty where it lists none. `collections` are those that held up all of
    Python while the agent watched for them, for `watched_s`. `collects_itself`: Python begins collections by
    itself; where the program has switched that off, or it is not known, those seen are the program's own.
    """

    pid: int
    start_ns: int
    end_ns: int
    file: str = ""
    reason: str = ""
    cost_s: float = 0.0
    steps_ns: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    collections: tuple[FullCollection, ...] = ()
    watched_s: float = 0.0
    collects_itself: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth knowing that happened while recording."""

    time_ns: int
    kind: str  # a short stable word: "tier", "busy", "denied", "capped", "child", ...
    text: str
    gpu: int | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """
    What was watched on the host's side: the launched or attached program, secrets removed.

    `tracers`: debuggers and profilers that were seen to watch it too, by their names.
    """

    pid: int | None = None
    command: tuple[str, ...] = ()
    exit_code: int | None = None
    threads_env: Mapping[str, str] = field(default_factory=dict)
    tracers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """
    What watching cost in this run.

    CPU times in seconds over `wall_s` seconds. `slowdown` is the effect on the program as a
    ratio (0.001 = 0.1 %), with its 95 % interval, or None with the reason in `slowdown_note`.
    """

    wall_s: float
    recorder_cpu_s: float
    sampler_cpu_s: float
    pm_duty: float  # share of the time in which PM sampling ran
    sessions: int  # how often a PM session was opened
    slowdown: float | None = None
    slowdown_low: float | None = None
    slowdown_high: float | None = None
    slowdown_note: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """
    Everything seen of one GPU in one recording: the sole input of the analysis.

    `pm` holds the samples of all windows but zoom bursts, `zoom` those of the bursts,
    `gpm`, `board` and `host` run all the time. A source that was not there is an empty table.
    `board` columns come from NVML, `host` columns describe the observed process tree. `close_up` holds the
    PM samples that were taken beside looks inside the program, mostly finer ones. It is slower then, so no
    other table holds what was seen meanwhile, and `windows` none that began meanwhile.
    """

    gpu: Gpu
    tier: Tier
    pm: Samples
    zoom: Samples
    gpm: Samples
    board: Samples
    host: Samples
    windows: tuple[Window, ...] = ()
    gaps: tuple[Gap, ...] = ()
    notes: tuple[Note, ...] = ()
    looks: tuple[Look, ...] = ()
    close_up: Samples = field(default_factory=lambda: Samples.empty())
    process: Process = field(default_factory=Process)
    cost: Cost | None = None
    complete: bool = True  # False: the recording was cut short (kill -9, full disk)
    other_pids: tuple[int, ...] = ()  # processes on this GPU that are not part of the observed tree
    start_ns: int = 0
    end_ns: int = 0


def jsonable(value: Any) -> Any:
    """*value* with NaN and infinities as None and tuples as lists, ready for strict JSON."""
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, np.generic):
        return jsonable(value.item())
    if isinstance(value, np.ndarray):
        return [jsonable(v) for v in value.tolist()]
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    return value
