"""
What perfzero says today of a recording: the documents that it would write, and the lines that it prints.

A verdict is stable from so many seconds after warm-up on if it would have been the same, and stayed so, had
the recording ended then; of moments after its end nothing is known. Warm-up is over where the whole recording
says so. That needs the recording and hardware counters up to each of those moments, and nothing that a look
or the stacks tell. Whether the verdict is right is not asked here (`judged`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kept import Said

from perfzero.attribute.stacks import HostCauses
from perfzero.diagnose.idle_shares import without_kernels
from perfzero.diagnose.judge import judge
from perfzero.report.analysis import judged_report
from perfzero.report.breakdown import breakdown_json, lines
from perfzero.report.host_lines import LINES, host_block, worth_telling
from perfzero.report.json_file import to_json
from perfzero.report.ledger.build import limits_of
from perfzero.report.model import GpuReport
from perfzero.store.reader import open_recording
from perfzero.values import Observation

CUTS_S = (3.0, 5.0, 8.0, 10.0, 15.0, 20.0)
"""After warm-up."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """
    `report`: report.json. `breakdown`: detailed_breakdown.json, None without a look. `layers`: the lines that
    are printed of it, the heaviest first. `waited_for`: of the causes of idle time in report.json those that
    a reader is shown. `limits`: what limits the program, in words. `held_up_s`: how long it was, for the
    look. `hardware`: on what it ran.
    """

    report: Mapping[str, Any]
    breakdown: Mapping[str, Any] | None
    layers: tuple[str, ...]
    waited_for: tuple[Mapping[str, Any], ...]
    limits: tuple[str, ...]
    held_up_s: float
    hardware: str

    @property
    def gpu(self) -> Mapping[str, Any]:
        """What is said of the one GPU that a case uses."""
        found: Mapping[str, Any] = self.report["gpus"][0]
        return found


def replay(path: Path) -> Replayed:
    """What is said of the recording at *path*."""
    report = judged_report(path)
    recording = open_recording(path)
    breakdown = breakdown_json(report.breakdowns, recording=report.recording) if report.breakdowns else None
    gpu, host = recording.gpus[0], recording.manifest.host
    return Replayed(
        report=json.loads(to_json(report)),
        breakdown=None if breakdown is None else json.loads(breakdown),
        layers=tuple(line for look in report.breakdowns.values() for line in lines(look)),
        waited_for=waited_for(report.gpus[0]),
        limits=limits_of(report.gpus[0].diagnosis),
        held_up_s=sum(look.cost_s for look in recording.looks),
        hardware=f"{gpu.name}, driver {gpu.driver}, {host.get('cpu_count')} CPU cores",
    )


def waited_for(gpu: GpuReport) -> tuple[Mapping[str, Any], ...]:
    """The lines that the terminal has, as report.json has them."""
    told = worth_telling(gpu.host, without_kernels(gpu.diagnosis.shares))[:LINES]
    return tuple(host_block(HostCauses(tuple(told)))["causes"])


def said(gpu: Mapping[str, Any]) -> Said:
    """The verdict and the findings in what report.json says of a GPU."""
    verdict = gpu["verdict"]
    return Said(
        verdict["rule"] if verdict else None,
        gpu["no_verdict"] or "",
        tuple((finding["rule"], finding["severity"]) for finding in gpu["findings"]),
    )


def stable_after_s(path: Path, *, cuts_s: Sequence[float] = CUTS_S) -> float | None:
    """
    From which of *cuts_s* on the verdict on the recording at *path* stays the same.

    None: from none, there is no verdict, or the recording ends before the first of them.
    """
    recording = open_recording(path)
    seen = recording.observation(recording.gpus[0].index)
    whole = judge(seen)
    final = whole.verdict and whole.verdict.rule
    stable = None
    for cut_s in sorted(cuts_s, reverse=True):
        end_ns = whole.steady.start_ns + round(cut_s * 1e9)
        if end_ns > seen.end_ns:
            continue
        cut = judge(until(seen, end_ns)).verdict
        if cut is None or cut.rule != final:
            break
        stable = cut_s
    return stable


def until(seen: Observation, end_ns: int) -> Observation:
    """*seen* as if the recording had ended at *end_ns*."""
    tables = {
        name: getattr(seen, name).between(seen.start_ns, end_ns)
        for name in ("pm", "zoom", "gpm", "board", "host", "close_up")
    }
    return replace(
        seen,
        **tables,
        windows=tuple(replace(w, end_ns=min(w.end_ns, end_ns)) for w in seen.windows if w.start_ns < end_ns),
        gaps=tuple(replace(g, end_ns=min(g.end_ns, end_ns)) for g in seen.gaps if g.start_ns < end_ns),
        notes=tuple(n for n in seen.notes if n.time_ns < end_ns),
        looks=tuple(k for k in seen.looks if k.end_ns <= end_ns),
        end_ns=min(seen.end_ns, end_ns),
    )
