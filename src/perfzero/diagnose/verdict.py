"""
What a diagnosis consists of: the values that rules produce and reports render.

    Diagnosis
    ├── verdict: Finding | None      the first cause, or None with `no_verdict`, the reason
    ├── findings                     all causes seen, reasons to act first, then by the time that acting saves
    │     Finding: rule, title, because, Gain, Remedy...
    ├── steps                        the four questions, each answered with Facts
    ├── shares                       where the time went; adds up to 1
    └── doubts                       what weakens all of it
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfzero.counters import Unit
from perfzero.values import FloatArray, Gpu, IntArray, Samples, Tier

Status = Literal["ok", "watch", "bad", "unknown", "info"]

TimeClass = Literal["idle", "copy", "communication", "memory", "tensor", "fma", "small_grid", "latency"]
TIME_CLASSES: tuple[TimeClass, ...] = (
    "idle", "copy", "communication", "memory", "tensor", "fma", "small_grid", "latency",
)  # fmt: skip

WorkKind = Literal[
    "collective", "tiny_kernels", "copy", "idle", "small_grids", "attention", "gemm", "fp64", "fp32_gemm",
    "memory", "elementwise", "mixed", "optimizer", "unknown",
]  # fmt: skip
"""What a part of the step looks like by counters: see `perfzero.diagnose.fingerprints`."""


@dataclass(frozen=True, slots=True)
class Fact:
    """
    One measured figure with what it is held against.

    `value` is NaN where it could not be measured (then `status` is "unknown" and `text` says why).
    `threshold` is in words ("≥ 0.9"); `margin` is how far the value is from it, as a share of the
    threshold, positive on the good side; both None where nothing is demanded of the figure.
    `name` is the row in summary.csv.
    """

    name: str
    value: float
    unit: Unit | Literal["bytes/s", "flop/s", "count/s", "hours", ""]
    status: Status
    threshold: str | None = None
    margin: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """
    One of the four questions (spec S3–S6): is it idle, what binds it, which level, tensor cores.

    The first fact that has a threshold is the one that decided.
    """

    number: Literal[1, 2, 3, 4]
    question: str
    answer: str  # one or two words: "yes", "memory", "L2", "fine", "unknown"
    status: Status
    text: str  # the evidence in one line, for people
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Gain:
    """How many times faster the program may become (1.0 = no gain), and on what assumption."""

    low: float
    high: float
    assumption: str


@dataclass(frozen=True, slots=True)
class Remedy:
    """
    A way out: what to do, what must hold first, and how to see that it worked.

    `gain` is its own, where it differs from that of the finding, which is the first remedy's. `topic`: what a
    look inside the program can tell of it (`attribute.conditions`), and `seen` what one told, in a sentence.
    `next_limit`: what limits the program after it, where that is another one than after the first remedy.
    """

    text: str
    needs: tuple[str, ...] = ()
    verify: str = ""
    gain: Gain | None = None
    topic: str = ""
    seen: str = ""
    next_limit: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """
    A cause that a rule saw.

    `share` is the share of steady time it concerns; `severity` is "info" for what is worth
    knowing but no reason to act. `confidence` in [0, 1]. `undecided`: which other finding may
    explain the same time, and the evidence that would decide; empty where none comes near. `eased`: the
    classes of time that a fix takes its saving from, so that `next_limit` can be told anew for another one.
    `saves`: the share of the time that one usually saves, where the gain is so wide that its middle is no
    expectation. `launching`: the finding that takes the place of this one where the lines of the program show
    that the host launches meanwhile, and waits for nothing.
    """

    rule: str  # the stable id: "input_starved", "memory_bound", ...
    title: str  # one sentence a tired engineer understands, no number missing its unit
    severity: Literal["info", "watch", "bad"]
    share: float
    confidence: float
    because: tuple[str, ...]
    gain: Gain | None = None
    remedies: tuple[Remedy, ...] = ()
    next_limit: str | None = None
    undecided: str = ""
    eased: tuple[TimeClass, ...] = ()
    saves: float | None = None
    launching: Finding | None = None


@dataclass(frozen=True, slots=True)
class Steady:
    """
    Which stretch was judged: [start_ns, end_ns), how it was found, and how much was dropped before it.

    `kind`: whether the program stays as it is there, becomes slower, alternates, or never settles.
    """

    start_ns: int
    end_ns: int
    dropped_s: float
    how: Literal["stable", "fallback", "short", "none"]
    text: str
    kind: Literal["steady", "slow_down", "cyclic", "never"] = "steady"


@dataclass(frozen=True, slots=True)
class Event:
    """
    What happens in some steps only: a stall of the GPU, or other work than usual.

    `share` of the steady time, `length_s` beyond a usual step (NaN: a window's edge cut each). The period
    is None where it cannot be known.
    """

    nature: Literal["stall", "other work"]
    count: int
    share: float
    length_s: float
    period_s: float | None
    period_steps: float | None


@dataclass(frozen=True, slots=True)
class Rhythm:
    """
    The program's step, by the counters alone.

    `low_s`, `high_s`: 95 % interval of its mean length; `jitter`: standard deviation of single steps as a
    share of it; `count`: steps seen. `micro_s`, `micro_per_step`: the parts it repeats, as batches
    whose gradients are accumulated. `parts`: name and share of what the mean step consists of, in order, in
    the few words that reports had before there was a `StepMap`.
    `seen_ns`: [start, end) of the times in which steps were seen; the mean is of these.
    """

    step_s: float
    low_s: float
    high_s: float
    jitter: float
    count: int
    micro_s: float | None
    micro_per_step: int | None
    parts: tuple[tuple[str, float], ...]
    events: tuple[Event, ...]
    seen_ns: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class StepPhase:
    """
    A part of the step, [start, end) with the whole step as [0, 1), named after what it looks like.

    `seconds`: how long it takes. `because`: the counters that say so. `made_of`: share of its time by kind,
    and `resolved` whether that is of samples that hold single kernels. `seen`: share of the steps that show
    it, NaN where none could be looked at. `levels`: mean of each counter by its name, amounts per second.
    """

    kind: WorkKind
    confidence: float
    start: float
    end: float
    seconds: float
    because: tuple[str, ...]
    made_of: Mapping[WorkKind, float]
    resolved: bool
    seen: float
    levels: Mapping[str, float]

    @property
    def share(self) -> float:
        """Share of the step."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class StepMap:
    """
    The mean step by counters alone, cut into phases in their order; where it begins is not known.

    `steps` were laid over each other, `left_out` were too long or too short. `sample_s`: of the samples that
    the cuts rest on. `fine_s`: how many seconds of finer samples found their place in the step.
    """

    step_s: float
    steps: int
    left_out: int
    sample_s: float
    fine_s: float
    phases: tuple[StepPhase, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """
    One phase of the recording, [start_ns, end_ns), with its mean GR activity.

    Phases that are alike share a `label`; labels count up from 0 in order of appearance.
    """

    start_ns: int
    end_ns: int
    label: int
    gr_active: float


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """
    The mean step in bins, each from one share of the step to the next; arrays of shape (bins,) by counter.

    `mean`: amounts per second, not sharpened, as the band is not; `low`, `high`: 5 % and 95 % of the
    single steps.
    """

    mean: Mapping[str, FloatArray]
    low: Mapping[str, FloatArray]
    high: Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """
    What is drawn of a diagnosis, and stands in no table.

    `steps_ns` (m, 2): start and end of each step that was seen whole. `rare`: start and end (n, 2) of each
    event of `Rhythm.events`, kind by kind, with its nature. `classes`: the shares of each sample of the tier
    that was judged, warm-up included, in columns "time_idle" and so on; `fine_classes`: those of bursts.
    """

    steps_ns: IntArray
    profile: Profile | None
    rare: tuple[tuple[str, IntArray], ...]
    classes: Samples
    fine_classes: Samples


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The whole answer for one GPU."""

    gpu: Gpu
    tier: Tier
    headline: str  # the first line of any report
    verdict: Finding | None
    no_verdict: str | None  # the reason, exactly when `verdict` is None
    findings: tuple[Finding, ...]
    steps: tuple[StepAnswer, ...]
    shares: Mapping[TimeClass, float]  # empty where time could not be split: broken data, plain NVML
    facts: Mapping[str, Fact]  # everything measured, by name
    doubts: tuple[str, ...]
    steady: Steady
    intervals: Mapping[TimeClass, tuple[float, float]] = field(default_factory=dict)  # of `shares`, 95 %
    rhythm: Rhythm | None = None  # of the program's steps, where there are any beyond doubt
    no_rhythm: str = ""  # why not, in a sentence
    stages: tuple[Stage, ...] = ()  # the phases of the whole recording, in order
    step_map: StepMap | None = None  # what the mean step consists of
    no_step_map: str = ""  # why not, in a sentence
    extra: Mapping[str, float] = field(default_factory=dict)
    picture: Picture | None = field(default=None, compare=False)

    @property
    def step_s(self) -> float | None:
        """The program's step time in seconds."""
        return None if self.rhythm is None else self.rhythm.step_s

    @property
    def doubles(self) -> bool:
        """Whether the FP64 pipe is used more than the FMA pipe, as far as that was seen."""
        double, fma, fp32 = (
            self.facts[n].value if n in self.facts else math.nan
            for n in ("fp64_active", "fma_active", "fp32_active")
        )
        return double > (fp32 if math.isnan(fma) else fma)
