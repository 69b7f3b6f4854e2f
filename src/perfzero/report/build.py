"""Build the Report: every number that any output shows is computed here or in `timeline`, once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfzero import __version__
from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.stacks import HostCauses
from perfzero.diagnose.thresholds import CAPPED
from perfzero.diagnose.verdict import Diagnosis
from perfzero.report.benchmarked import BENCHMARKS, policy_kind
from perfzero.report.model import GpuReport, Losses, Report, Truth, Watching
from perfzero.report.timeline import timeline
from perfzero.report.typed import folder, typed
from perfzero.values import Cost, Observation, Process
from perfzero.words.said import say

_SEVERITY = {"bad": 0, "watch": 1, None: 2, "info": 3}
"""The worst first. A GPU without a verdict comes before a healthy one: it may hide anything."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What was seen of one GPU, and what was made of it; `host`: what its program did while it was idle."""

    seen: Observation
    diagnosis: Diagnosis
    host: HostCauses | None = None


def build(
    judged: Sequence[Judged],
    *,
    recording: str,
    created_ns: int = 0,
    complete: bool = True,
    cost: Cost | None = None,
    process: Process | None = None,
    doubts: Sequence[str] = (),
    breakdowns: Mapping[str, Breakdown] | None = None,
    looked_at: Mapping[str, tuple[int, ...]] | None = None,
) -> Report:
    """
    The Report over all GPUs of a recording (*recording* is its folder as the user knows it).

    Pure: the same input gives the same report. An empty *judged* gives a report that says so.
    """
    gpus = tuple(sorted((_gpu_report(j) for j in judged), key=_badness))
    process = Process() if process is None else process
    start_ns = min((j.seen.start_ns for j in judged), default=0)
    end_ns = max((j.seen.end_ns for j in judged), default=0)
    return Report(
        version=__version__,
        recording=recording,
        created_ns=created_ns,
        start_ns=start_ns,
        end_ns=end_ns,
        watched_s=max(0, end_ns - start_ns) / 1e9,
        complete=complete,
        headline=_headline(gpus),
        gpus=gpus,
        process=process,
        watching=None if cost is None else _watching(cost, capped=any(map(_at_power_cap, judged))),
        doubts=tuple(dict.fromkeys(doubts)),
        next_command=_next_command(process, recording),
        breakdowns=breakdowns or {},
        looked_at=looked_at or {},
    )


def _gpu_report(judged: Judged) -> GpuReport:
    seen, diagnosis = judged.seen, judged.diagnosis
    return GpuReport(
        gpu=seen.gpu,
        diagnosis=diagnosis,
        losses=_losses(seen),
        truth=_truth(diagnosis),
        timeline=timeline(seen, steady=diagnosis.steady),
        windows=len(seen.windows),
        watched_s=max(0, seen.end_ns - seen.start_ns) / 1e9,
        host=judged.host,
    )


def _truth(diagnosis: Diagnosis) -> Truth:
    # Counters so broken that time could not be shared out by them are no truth to hold against a myth.
    trusted = diagnosis.verdict is not None or bool(diagnosis.shares)
    return Truth(
        smi_utilization=_fact(diagnosis, "smi_utilization"),
        sm_active=_fact(diagnosis, "sm_active") if trusted else math.nan,
        tensor_active=_fact(diagnosis, "tensor_active") if trusted else math.nan,
        dram_roof_share=_fact(diagnosis, "dram_roof_share") if trusted else math.nan,
    )


def _fact(diagnosis: Diagnosis, name: str) -> float:
    fact = diagnosis.facts.get(name)
    return math.nan if fact is None else fact.value


def _losses(seen: Observation) -> Losses:
    kept = sum(w.samples for w in seen.windows)
    lost = sum(w.lost for w in seen.windows)
    return Losses(
        samples=kept,
        lost=lost,
        lost_share=lost / (kept + lost) if kept + lost else math.nan,
        gaps=seen.gaps,
        gaps_s=sum(g.end_ns - g.start_ns for g in seen.gaps) / 1e9,
    )


def _badness(report: GpuReport) -> tuple[float, ...]:
    """Sorts the worst first: by severity, then by the gain at stake, then by share of time, then by index."""
    verdict = report.diagnosis.verdict
    if verdict is None:
        return (_SEVERITY[None], 0.0, 0.0, report.gpu.index)
    gain = 1.0 if verdict.gain is None else verdict.gain.high
    return (_SEVERITY[verdict.severity], -gain, -verdict.share, report.gpu.index)


def _headline(gpus: Sequence[GpuReport]) -> str:
    if not gpus:
        return say("no_gpu")
    worst = gpus[0]
    if len(gpus) == 1:
        return worst.diagnosis.headline
    return say("of_several", index=worst.gpu.index, count=len(gpus), headline=worst.diagnosis.headline)


def _at_power_cap(judged: Judged) -> bool:
    return _fact(judged.diagnosis, "capped_power") >= CAPPED.value


def _watching(cost: Cost, *, capped: bool) -> Watching:
    slowdown = math.nan if cost.slowdown is None else cost.slowdown
    cpu_s = cost.recorder_cpu_s + cost.sampler_cpu_s
    policy = policy_kind(pm_duty=cost.pm_duty, capped=capped)
    ends = [e for e in (cost.slowdown_low, cost.slowdown_high) if e is not None]
    return Watching(
        slowdown=slowdown,
        margin=max((abs(e - slowdown) for e in ends), default=math.nan),
        reason=cost.slowdown_note,
        cpu_s=cpu_s,
        cpu_share=cpu_s / cost.wall_s if cost.wall_s > 0 else math.nan,
        pm_duty=cost.pm_duty,
        sessions=cost.sessions,
        policy=policy,
        benchmark=BENCHMARKS[policy],
    )


def _next_command(process: Process, recording: str) -> str | None:
    """
    The line to type once a fix is in, which ends with how that run compares with this *recording*.

    An attached program has to be started anew, by its own command.
    """
    if not process.command:
        return None
    return typed(("perfzero", "run", "--against", folder(recording), "--", *process.command))
