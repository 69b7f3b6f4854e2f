"""
The Report: what is known after analysis. Every output is a rendering of it.

    Report
    ├── headline, cost, doubts, next_command      over all GPUs
    ├── breakdowns                                by layer, where the program was looked into
    └── gpus: the worst first
          GpuReport
          ├── diagnosis                           what the rules said (`diagnose.verdict`)
          ├── losses, truth                       what is missing; the myth beside the truth
          ├── host                                the lines of the program that the GPU waits for
          └── timeline
                ├── table                         the rows of timeline.csv
                └── panels, spans                 what the plot draws

Renderers format these numbers; they compute none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.stacks import HostCauses
from perfzero.diagnose.verdict import Diagnosis
from perfzero.report.benchmarked import Benchmark, PolicyKind
from perfzero.values import FloatArray, Gap, Gpu, Process, Samples

SpanKind = Literal["window", "zoom", "warm_up", "gap", "close_up"]


@dataclass(frozen=True, slots=True)
class Losses:
    """What should have been sampled and was not. `lost_share` is lost / (kept + lost), NaN with no window."""

    samples: int
    lost: int
    lost_share: float
    gaps: tuple[Gap, ...]
    gaps_s: float


@dataclass(frozen=True, slots=True)
class Truth:
    """nvidia-smi's number beside what the hardware did (spec S16). Ratios, NaN where unread."""

    smi_utilization: float
    sm_active: float
    tensor_active: float
    dram_roof_share: float


@dataclass(frozen=True, slots=True)
class Watching:
    """
    What watching cost in this run, over all GPUs.

    `slowdown` and `margin` (half of the 95 % interval, its wider side) are ratios, NaN where
    the effect could not be measured; then `reason` says why, and `benchmark`, of the same `policy`,
    stands in (None where there is none yet). `cpu_s` is the CPU time of
    sampler and recorder together, start-up included, and `cpu_share` the same in cores.
    """

    slowdown: float
    margin: float
    reason: str
    cpu_s: float
    cpu_share: float
    pm_duty: float
    sessions: int
    policy: PolicyKind = "default"
    benchmark: Benchmark | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """
    One line of a panel, arrays of shape (n,): seconds since the recording's start, and the
    mean, least and greatest value in each bin. A NaN row separates stretches that do not touch.
    """

    label: str
    source: Literal["pm", "gpm", "board"]
    time_s: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """
    One small plot: its axis (unit in `axis`), the practical limit (`roof`) where there is one.

    Its words are sentences of `perfzero.words`, or names and units that are the same in all languages.
    `series` cover the whole recording in bins, `close` the close-up sample by sample.
    """

    title: str
    axis: str
    series: tuple[Series, ...]
    close: tuple[Series, ...] = ()
    roof: float | None = None
    roof_label: str = ""
    top: float | None = None  # the axis ends here, where the quantity has a natural end


@dataclass(frozen=True, slots=True)
class Span:
    """A marked stretch of the time axis, [start_s, end_s) in seconds since the recording's start."""

    kind: SpanKind
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """
    What happened when.

    `table` holds PM samples of all windows but zoom bursts, else GPM, else NVML readings
    (`source`); `rows_merged` is how many samples share one row (1 = none were merged).
    `tables` holds what was sampled, by stream name: "pm", "zoom", "close_up", "gpm", "board", "host", each
    left out where it is empty. `start_ns` is second 0 of panels and spans.
    """

    source: Literal["pm", "gpm", "board"]
    rows_merged: int
    table: Samples
    panels: tuple[Panel, ...]
    close_up: Span | None
    spans: tuple[Span, ...]
    duration_s: float
    start_ns: int = 0
    tables: Mapping[str, Samples] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class GpuReport:
    """Everything said of one GPU. `host`: what the program did while it was idle, None if nobody looked."""

    gpu: Gpu
    diagnosis: Diagnosis
    losses: Losses
    truth: Truth
    timeline: Timeline
    windows: int
    watched_s: float
    host: HostCauses | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """
    Everything said of one recording. `gpus` is ordered: the worst first.

    `doubts` concern the recording as a whole; each diagnosis has its own. `next_command` is
    what to type to check a fix, None where the program's command is unknown. `breakdowns` are by the file
    of the look that they are made from, `looked_at` the GPUs that its process used. `folder` and
    `files` say where the outputs were written, `unwritten` why they could not be.
    """

    version: str  # of perfzero
    recording: str
    created_ns: int
    start_ns: int
    end_ns: int
    watched_s: float
    complete: bool
    headline: str
    gpus: tuple[GpuReport, ...]
    process: Process
    watching: Watching | None
    doubts: tuple[str, ...]
    next_command: str | None
    breakdowns: Mapping[str, Breakdown] = field(default_factory=dict)
    looked_at: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    folder: str = ""
    files: tuple[str, ...] = ()
    unwritten: str | None = None
