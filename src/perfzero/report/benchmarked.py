"""
What watching costs by benchmark: the one place where these figures stand.

`benchmarks/overhead` alternates watched and unwatched blocks of one program in one run and
estimates the effect on its speed. A report falls back on these figures where its own run was too
short or too uneven to measure the cost. An entry is None until it has been benchmarked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from perfzero import text
from perfzero.limits import CHOICE, Limit
from perfzero.report.voice import Voice

PolicyKind = Literal["default", "default at the power cap", "continuous"]
"""How a run was watched: windows, windows on a board at its power limit, PM sampling all the time."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """
    The cost of one policy: `slowdown` and `upper`, the upper end of its 95 % interval, as ratios
    (0.001 = 0.1 %), with `hardware` and `date` (ISO 8601) of the benchmark.
    """

    slowdown: float
    upper: float
    hardware: str
    date: str


H200 = "NVIDIA H200"
# The worst of the programs, on the worse of two machines (docs/measurements.md). Far from the cap that is a
# ResNet-50: a CUDA graph of tiny kernels became 0.30 % [0.27, 0.33] faster, which is no cost, and no gain of
# ours. An 8192³ bf16 product, at the cap all the time, stands for all at the cap and for --continuous.
BENCHMARKS: Mapping[PolicyKind, Benchmark | None] = {
    "default": Benchmark(0.00019, 0.00029, H200, "2026-11-30"),
    "default at the power cap": Benchmark(0.00033, 0.00036, H200, "2026-11-29"),
    "continuous": Benchmark(0.0100, 0.0110, H200, "2026-11-29"),
}


def policy_kind(*, pm_duty: float, capped: bool) -> PolicyKind:
    """
    Which entry a run is held against: by the share of time PM sampling ran, and whether the board was
    at its power limit.
    """
    if pm_duty >= ALL_THE_TIME:
        return "continuous"
    return "default at the power cap" if capped else "default"


ALL_THE_TIME: Annotated[float, Limit("ratio", CHOICE)] = 0.8
"""PM sampling on for so much of a run is no window; start-up and the last moments are never sampled."""


def benchmarked(benchmark: Benchmark | None, say: Voice) -> str:
    """*benchmark* in words; None: there is none yet."""
    if benchmark is None:
        return say("cost_not_benchmarked")
    if benchmark.upper <= 0:
        return say("cost_benchmarked_none", hardware=benchmark.hardware, date=benchmark.date)
    return say(
        "cost_benchmarked",
        slowdown=text.percent(benchmark.slowdown),
        upper=text.percent(benchmark.upper),
        hardware=benchmark.hardware,
        date=benchmark.date,
    )
