"""report.json: the whole Report but its timeline, for programs. Strict JSON; a missing number is null."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from perfzero.diagnose.verdict import Finding
from perfzero.report.host_lines import host_block
from perfzero.report.model import GpuReport, Losses, Report
from perfzero.report.schema import SCHEMA_VERSION
from perfzero.values import jsonable


def to_json(report: Report) -> str:
    """The text of report.json, as `docs/report.schema.json` describes it."""
    return json.dumps(document(report), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def document(report: Report) -> dict[str, Any]:
    """The report as JSON values. `gpus` is ordered: the worst first."""
    found: dict[str, Any] = jsonable(
        {
            "schema": SCHEMA_VERSION,
            "perfzero": report.version,
            "recording": report.recording,
            "created_ns": report.created_ns,
            "start_ns": report.start_ns,
            "end_ns": report.end_ns,
            "watched_s": report.watched_s,
            "complete": report.complete,
            "headline": report.headline,
            "doubts": report.doubts,
            "process": {
                "pid": report.process.pid,
                "command": report.process.command,
                "exit_code": report.process.exit_code,
            },
            "cost": None if report.watching is None else asdict(report.watching),
            "next_command": report.next_command,
            "gpus": [_gpu(gpu) for gpu in report.gpus],
        }
    )
    return found


def _gpu(report: GpuReport) -> dict[str, Any]:
    diagnosis = report.diagnosis
    return {
        "gpu": asdict(report.gpu),
        "tier": diagnosis.tier,
        "headline": diagnosis.headline,
        "verdict": None if diagnosis.verdict is None else _finding(diagnosis.verdict),
        "no_verdict": diagnosis.no_verdict,
        "findings": [_finding(f) for f in diagnosis.findings],
        "steps": [asdict(s) for s in diagnosis.steps],
        "time": dict(diagnosis.shares),
        "time_intervals": dict(diagnosis.intervals),
        "facts": [asdict(f) for f in diagnosis.facts.values()],
        "doubts": diagnosis.doubts,
        "steady": asdict(diagnosis.steady),
        "step_s": diagnosis.step_s,
        "rhythm": None if diagnosis.rhythm is None else asdict(diagnosis.rhythm),
        "no_rhythm": diagnosis.no_rhythm,
        "step_map": None if diagnosis.step_map is None else asdict(diagnosis.step_map),
        "no_step_map": diagnosis.no_step_map,
        "stages": [asdict(stage) for stage in diagnosis.stages],
        "truth": asdict(report.truth),
        "windows": report.windows,
        "watched_s": report.watched_s,
        "losses": _losses(report.losses),
        "host": None if report.host is None else host_block(report.host),
        "extra": dict(diagnosis.extra),
    }


_NOT_TOLD = ("eased", "saves", "launching")


def _finding(finding: Finding) -> dict[str, Any]:
    """All but what ranks findings, replaces them, and tells the next limit anew, before there is a report."""
    return {name: value for name, value in asdict(finding).items() if name not in _NOT_TOLD}


def _losses(losses: Losses) -> dict[str, Any]:
    return {
        "samples": losses.samples,
        "lost": losses.lost,
        "lost_share": losses.lost_share,
        "gaps_s": losses.gaps_s,
        "gaps": [
            {"source": g.source, "start_ns": g.start_ns, "end_ns": g.end_ns, "reason": g.reason}
            for g in losses.gaps
        ],
    }
