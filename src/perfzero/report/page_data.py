"""
The page's document: what report.html shows, as JSON values that are ready to be shown.

Numbers that stand in sentences and tables come as text (`perfzero.text`), so that the page and the terminal
say the same; those that are drawn come as numbers beside it. Nothing that the Report does not know is said.
Names of kernels, files and processes may hold anything: they are text here and in the page, never markup.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Annotated, Any

import numpy as np

from perfzero import text
from perfzero.counters import BY_NAME
from perfzero.diagnose.idle_shares import without_kernels, worth_lines
from perfzero.diagnose.verdict import (
    TIME_CLASSES,
    Diagnosis,
    Fact,
    Finding,
    Gain,
    Picture,
    Remedy,
    StepAnswer,
    TimeClass,
)
from perfzero.hardware import calibrated
from perfzero.limits import CHOICE, Limit
from perfzero.report import host_lines
from perfzero.report.benchmarked import benchmarked
from perfzero.report.model import GpuReport, Report, Truth, Watching
from perfzero.report.page_layers import looks_of
from perfzero.report.page_tracks import TRACKS, drawn_tracks, marks
from perfzero.report.snippets import snippet
from perfzero.report.voice import Voice
from perfzero.values import FloatArray, jsonable
from perfzero.words.said import counted

Words = Mapping[str, str]

NOTEWORTHY = 0.0005
"""Of a step or of the time; what is less is left out of bars, where it would be no pixel wide."""

PROFILED = ("busy", "memory", "pcie", "launches")
"""Tracks of the mean step."""

LISTED = 50
"""Gaps that are told one by one; nobody reads more, and each costs a line of the page."""

LONGER: Annotated[float, Limit("ratio", CHOICE)] = 1.5
"""From half as long again as the median on a step is marked, as `series.rare` does."""


def document(report: Report, words: Words, say: Voice, *, language: str) -> dict[str, Any]:
    """
    The whole page but samples and layers.

    *words*: the page's own phrases; *say*: those that all reports share.
    """
    found: dict[str, Any] = jsonable(
        {
            "language": language,
            "words": dict(words),
            "version": report.version,
            "recording": _printable(report.recording),
            "recorded": _date(report.created_ns or report.start_ns),
            "command": _printable(shlex.join(report.process.command)),
            "exit_code": report.process.exit_code,
            "watched": text.duration(report.watched_s),
            "complete": report.complete,
            "headline": say.tell(report.headline),
            "check": report.next_command,
            "doubts": [say.tell(d) for d in report.doubts],
            "cost": _cost(report.watching, words, say),
            "looks": looks_of(report, words, say),
            "gpus": [_gpu(report, gpu, words, say) for gpu in report.gpus],
        }
    )
    return found


def _printable(words: str) -> str:
    return text.printable(words)


def _date(ns: int) -> str:
    return "" if not ns else f"{datetime.fromtimestamp(ns / 1e9, timezone.utc):%Y-%m-%d %H:%M} UTC"


def _gpu(report: Report, gpu: GpuReport, words: Words, say: Voice) -> dict[str, Any]:
    diagnosis = gpu.diagnosis
    verdict = diagnosis.verdict
    word = "no_verdict" if verdict is None else text.confidence_word(verdict.confidence)
    return {
        "index": gpu.gpu.index,
        "name": _printable(gpu.gpu.name),
        "chip": _printable(" · ".join(_chip(gpu))),
        "tier": diagnosis.tier,
        "headline": say.tell(diagnosis.headline),
        "sure": word,
        "sure_text": say(word),
        "confidence": None if verdict is None else text.percent(verdict.confidence),
        "severity": "none" if verdict is None else verdict.severity,
        "because": say("join.sentences").join(map(say.sentence, _because(diagnosis))),
        "undecided": "" if verdict is None else say.tell(verdict.undecided),
        "gain": None if verdict is None else _gain(verdict.gain, say),
        "remedies": [] if verdict is None else [_remedy(r, say) for r in verdict.remedies],
        "healthy": say("nothing_to_do") if verdict is not None and verdict.severity == "info" else "",
        "next": "" if verdict is None or verdict.next_limit is None else say.tell(verdict.next_limit),
        "truth": list(_truth(gpu.truth, words)),
        "roofs": _roofs(gpu, say),
        "also": [_finding(f, say) for f in diagnosis.findings if f is not verdict],
        "steps": [_step(step, words, say) for step in diagnosis.steps],
        "time": _time(diagnosis, say),
        "class_names": {name: say(_class_name(name, diagnosis)) for name in TIME_CLASSES},
        "rhythm": _rhythm(diagnosis, say),
        "phases": _phases(diagnosis, say),
        "no_phases": say.tell(diagnosis.no_step_map),
        "facts": [_fact(fact, words, say) for fact in diagnosis.facts.values()],
        "doubts": [say.tell(d) for d in diagnosis.doubts],
        "quality": list(_quality(gpu, words, say)),
        "gaps": [
            {
                "source": g.source,
                "at": text.duration(max(0, g.start_ns - report.start_ns) / 1e9),
                "length": text.duration(max(0, g.end_ns - g.start_ns) / 1e9),
                "reason": say.tell(g.reason),
            }
            for g in gpu.losses.gaps[:LISTED]
        ],
        "more_gaps": f"{more:,}" if (more := len(gpu.losses.gaps) - LISTED) > 0 else "",
        "host": _host(gpu, say),
        "duration_s": gpu.timeline.duration_s,
        "tracks": drawn_tracks(gpu, words),
        "marks": marks(gpu, say),
        "profile": _profile(diagnosis.picture, words),
        "step_times": _step_times(diagnosis, words),
        "clocks": list(_clocks(gpu, words)),
    }


def _chip(gpu: GpuReport) -> Iterator[str]:
    its = gpu.gpu
    if its.chip:
        yield its.chip
    if its.sm_count:
        yield f"{its.sm_count} SMs"
    if its.memory_bytes:
        yield text.quantity(its.memory_bytes, "bytes")
    if its.driver:
        yield its.driver


def _because(diagnosis: Diagnosis) -> Sequence[str]:
    if diagnosis.verdict is not None:
        return diagnosis.verdict.because
    reason = diagnosis.no_verdict or ""
    return (reason,) if reason and reason.rstrip(".") not in diagnosis.headline else ()


def _gain(gain: Gain | None, say: Voice) -> dict[str, str] | None:
    if gain is None:
        return None
    return {"times": text.times(gain.low, gain.high), "assumption": say.tell(gain.assumption)}


def _remedy(remedy: Remedy, say: Voice) -> dict[str, Any]:
    return {
        "text": say.tell(remedy.text),
        "needs": [say.tell(n) for n in remedy.needs],
        "seen": say.tell(remedy.seen),
        "next": "" if remedy.next_limit is None else say.tell(remedy.next_limit),
        "verify": say.within(remedy.verify),
        "gain": _gain(remedy.gain, say),
        "snippet": [list(line) for line in snippet(remedy)],
    }


def _finding(finding: Finding, say: Voice) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "title": say.tell(finding.title),
        "severity": finding.severity,
        "sure": text.confidence_word(finding.confidence),
        "sure_text": say(text.confidence_word(finding.confidence)),
        "gain": _gain(finding.gain, say),
        "because": say("join.sentences").join(map(say.sentence, finding.because)),
        "remedies": [_remedy(r, say) for r in finding.remedies],
    }


def _truth(truth: Truth, words: Words) -> Iterator[dict[str, Any]]:
    """The myth first, then what the hardware did."""
    for key, value in (
        ("smi", truth.smi_utilization),
        ("sm", truth.sm_active),
        ("tensor", truth.tensor_active),
        ("dram", truth.dram_roof_share),
    ):
        yield {
            "key": key,
            "label": words[f"truth_{key}"],
            "value": value,
            "text": text.percent(value),
            "note": words[f"truth_{key}_note"],
        }


def _roofs(gpu: GpuReport, say: Voice) -> str:
    if not math.isfinite(gpu.truth.sm_active):
        return ""
    at_s = calibrated(gpu.gpu, "unix_s")
    if math.isnan(at_s):
        return say("roofs_by_table")
    return say("roofs_calibrated", date=f"{datetime.fromtimestamp(at_s, timezone.utc):%Y-%m-%d}")


def _step(step: StepAnswer, words: Words, say: Voice) -> dict[str, Any]:
    return {
        "number": step.number,
        "question": words[f"step_{step.number}"],
        "answer": say.tell(step.answer),
        "status": step.status,
        "text": say.tell(step.text),
        "held": _held(step, say),
        "scale": _scale(step),
        "facts": [_fact(fact, words, say) for fact in step.facts],
    }


def _decides(step: StepAnswer) -> Fact | None:
    return next((f for f in step.facts if f.threshold is not None and f.margin is not None), None)


def _held(step: StepAnswer, say: Voice) -> dict[str, str] | None:
    """What the deciding fact is held against, and how far it is from it."""
    fact = _decides(step)
    if fact is None or fact.threshold is None or fact.margin is None:
        return None
    key = f"held_{fact.name}"
    name = say(key) if key in say else ""
    points = text.margin_points(fact.threshold, fact.margin, fact.unit)
    return {
        "name": name,
        "value": text.quantity(fact.value, fact.unit),
        "threshold": text.threshold_words(fact.threshold, fact.unit),
        "points": points or "",
        "off": "yes" if fact.status in ("watch", "bad") else "",
    }


def _scale(step: StepAnswer) -> dict[str, Any] | None:
    """The deciding fact as a place on a scale from 0 to 1 with its threshold, where it is a ratio."""
    fact = _decides(step)
    if fact is None or fact.unit != "ratio" or fact.threshold is None or not math.isfinite(fact.value):
        return None
    sign, _, limit = fact.threshold.partition(" ")
    try:
        return {"value": fact.value, "limit": float(limit), "good": "above" if sign == "≥" else "below"}
    except ValueError:
        return None


def _fact(fact: Fact, words: Words, say: Voice) -> dict[str, Any]:
    held = fact.threshold is not None and fact.margin is not None
    points = text.margin_points(fact.threshold or "", fact.margin or 0.0, fact.unit) if held else None
    return {
        "name": fact.name,
        "value": text.quantity(fact.value, fact.unit) if fact.unit else _number(fact.value),
        "status": fact.status,
        "threshold": text.threshold_words(fact.threshold, fact.unit) if fact.threshold else "",
        "margin": "" if points is None else points,
        "off": fact.status in ("watch", "bad"),
        "note": say.tell(fact.text),
        "made": _made(fact.name, words, say),
    }


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else text.MISSING


def _made(name: str, words: Words, say: Voice) -> str:
    """How a figure is made: the page's formula for it, else what its counter counts and is called."""
    told = words.get(f"made_{name}")
    if told is not None:
        return told
    counter = BY_NAME.get(name) or BY_NAME.get(name.removesuffix("_per_s"))
    if counter is None:
        return ""
    called = [say("page.counter_is", name=counter.cupti[0])] if counter.cupti else []
    return say.joined("join.sentences", [counter.doc, *called])


def _time(diagnosis: Diagnosis, say: Voice) -> list[dict[str, Any]]:
    """The time classes, the largest first, with what each is of a step."""
    step_s = math.nan if diagnosis.step_s is None else diagnosis.step_s
    found = []
    for name, share in sorted(diagnosis.shares.items(), key=lambda s: -s[1]):
        if share < NOTEWORTHY:
            continue
        low, high = diagnosis.intervals.get(name, (math.nan, math.nan))
        of_step = share * step_s
        found.append(
            {
                "class": name,
                "name": say(_class_name(name, diagnosis)),
                "share": share,
                "text": text.percent(share),
                "interval": _interval(low, high),
                "per_step": text.duration(of_step) if math.isfinite(of_step) else "",
            }
        )
    return found


def _interval(low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"{text.percent_number(low)}–{text.percent(high)}"


def _class_name(name: TimeClass, diagnosis: Diagnosis) -> str:
    return "fp64" if name == "fma" and diagnosis.doubles else name


def _rhythm(diagnosis: Diagnosis, say: Voice) -> dict[str, Any]:
    rhythm = diagnosis.rhythm
    if rhythm is None:
        return {"why": say.tell(diagnosis.no_rhythm), "events": []}
    return {
        "why": "",
        "step": text.duration(rhythm.step_s, digits=3),
        "interval": f"{text.duration(rhythm.low_s, digits=4)} – {text.duration(rhythm.high_s, digits=4)}",
        "jitter": text.percent(rhythm.jitter),
        "count": f"{rhythm.count:,}",
        "micro": ""
        if rhythm.micro_s is None or rhythm.micro_per_step is None
        else say("step_of", count=rhythm.micro_per_step, length=text.duration(rhythm.micro_s, digits=3)),
        "events": [
            {
                "nature": say("stalls" if event.nature == "stall" else "other_work"),
                "share": text.percent(event.share),
                "count": event.count,
                "length": text.duration(event.length_s) if math.isfinite(event.length_s) else "",
                "period": "" if event.period_s is None else text.duration(event.period_s),
                "steps": "" if event.period_steps is None else f"{event.period_steps:.0f}",
            }
            for event in rhythm.events
        ],
    }


def _phases(diagnosis: Diagnosis, say: Voice) -> dict[str, Any] | None:
    found = diagnosis.step_map
    if found is None:
        return None
    return {
        "step": text.duration(found.step_s, digits=3),
        "steps": f"{found.steps:,}",
        "left_out": f"{found.left_out:,}",
        "sample": text.duration(found.sample_s),
        "fine": text.duration(found.fine_s) if found.fine_s > 0 else "",
        "phases": [
            {
                "kind": phase.kind,
                "name": say(f"work_{phase.kind}"),
                "start": phase.start,
                "end": phase.end,
                "length": text.duration(phase.seconds),
                "share": text.percent(round(phase.share, 3)),
                "because": [say.tell(b) for b in phase.because],
                "sure": text.confidence_word(phase.confidence),
                "sure_text": say(text.confidence_word(phase.confidence)),
                "made_of": [
                    {"kind": kind, "name": say(f"work_{kind}"), "share": share, "text": text.percent(share)}
                    for kind, share in phase.made_of.items()
                    if share >= NOTEWORTHY
                ],
            }
            for phase in found.phases
        ],
    }


def _profile(picture: Picture | None, words: Words) -> list[dict[str, Any]] | None:
    """The mean step as tracks of lines: not sharpened, for the band around it is not."""
    if picture is None or picture.profile is None:
        return None
    profile = picture.profile
    found = []
    for track in TRACKS:
        lines = [column for column in track.columns if column in profile.mean]
        if track.name not in PROFILED or not lines:
            continue
        found.append(
            {
                "title": words[f"track_{track.name}"],
                "unit": track.unit,
                "top": track.top,
                "lines": [
                    {
                        "label": words[f"line_{column}"],
                        "mean": _rounded(profile.mean[column] * track.scale),
                        "low": _rounded(profile.low[column] * track.scale),
                        "high": _rounded(profile.high[column] * track.scale),
                    }
                    for column in lines
                ],
            }
        )
    return found


def _rounded(values: FloatArray) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]


def _step_times(diagnosis: Diagnosis, words: Words) -> dict[str, Any] | None:
    """Figures of the lengths of single steps; None where none was seen whole."""
    steps_ns = None if diagnosis.picture is None else diagnosis.picture.steps_ns
    if steps_ns is None or not len(steps_ns):
        return None
    length_s = (steps_ns[:, 1] - steps_ns[:, 0]) / 1e9
    middle, most, nearly_all = (float(q) for q in np.quantile(length_s, (0.5, 0.95, 0.99)))
    return {
        "usual": middle,
        "figures": [
            [words["times_median"], text.duration(middle, digits=3)],
            [words["times_p95"], text.duration(most, digits=3)],
            [words["times_p99"], text.duration(nearly_all, digits=3)],
            [words["times_longest"], text.duration(float(length_s.max()), digits=3)],
            [words["times_odd"], f"{int(np.sum(length_s >= LONGER * middle)):,} / {len(length_s):,}"],
        ],
    }


def _clocks(gpu: GpuReport, words: Words) -> Iterator[dict[str, Any]]:
    """Clock, power and what holds them back, each with its share of what it may be."""
    facts = gpu.diagnosis.facts

    def value(name: str) -> float:
        return facts[name].value if name in facts else math.nan

    clock, most = value("gpc_clock"), gpu.gpu.sm_clock_max_hz
    if math.isfinite(clock):
        how = words["clock_pm" if gpu.diagnosis.tier == "pm" else "clock_nvml"]
        note = words["clock_sm_note"].format(how=how, most=text.quantity(most or math.nan, "hertz"))
        its = facts["gpc_clock"].status
        yield _bar(words["clock_sm"], text.quantity(clock, "hertz"), _part(clock, most), note, its)
    power, limit = value("power"), gpu.gpu.power_limit_w
    if math.isfinite(power):
        note = words["clock_power_alone"]
        if limit:
            note = words["clock_power_note"].format(most=text.quantity(limit, "watts"))
        yield _bar(words["clock_power"], text.quantity(power, "watts"), _part(power, limit), note)
    warm = value("temperature")
    if math.isfinite(warm):
        label, note = words["clock_temperature"], words["clock_temperature_note"]
        yield _bar(label, text.quantity(warm, "celsius"), None, note)
    for name in ("capped_power", "capped_thermal", "capped_hardware"):
        share = value(name)
        if math.isfinite(share):
            status = "watch" if share >= NOTEWORTHY else "ok"
            yield _bar(words[f"clock_{name}"], text.percent(share), share, words["clock_capped_note"], status)


def _part(value: float, whole: float | None) -> float | None:
    return value / whole if whole else None


def _bar(label: str, words: str, share: float | None, note: str, status: str = "") -> dict[str, Any]:
    return {"label": label, "text": words, "share": share, "note": note, "status": status}


def _host(gpu: GpuReport, say: Voice) -> dict[str, Any] | None:
    host = gpu.host
    if host is None:
        return None
    idle = without_kernels(gpu.diagnosis.shares)
    told = host_lines.worth_telling(host, idle)
    reason = say.tell(host.reason)
    if host.causes and not told and not worth_lines(idle):
        reason = say("stacks.not_worth")
    return {
        "idle": text.percent(host.idle),
        "watched": text.duration(host.seconds),
        "moments": f"{host.moments:,}",
        "reason": reason,
        "overlap": host_lines.overlapping(host, idle),
        "causes": [
            {
                "place": host_lines.place(cause.frame),
                "function": _printable(cause.frame.function),
                "text": _printable(cause.text),
                "words": say.tell(host_lines.words(cause)),
                "share": cause.share,
                "low": cause.low,
                "high": cause.high,
                "share_text": text.percent(cause.share),
                "interval": _interval(cause.low, cause.high),
                "path": [host_lines.place(frame) for frame in cause.path],
            }
            for cause in told
        ],
    }


def _quality(gpu: GpuReport, words: Words, say: Voice) -> Iterator[list[str]]:
    """Label and words: what was seen, what is missing."""
    losses, steady = gpu.losses, gpu.diagnosis.steady
    yield [words["q_tier"], words[f"tier_{gpu.diagnosis.tier}"]]
    yield [words["q_watched"], text.duration(gpu.watched_s)]
    yield [words["q_judged"], say.tell(steady.text)]
    if gpu.windows:
        yield [words["q_windows"], f"{gpu.windows:,}"]
        yield [words["q_samples"], f"{losses.samples:,}"]
        lost = say("nothing_lost") if not losses.lost else text.percent(losses.lost_share)
        yield [words["q_lost"], lost]
    if losses.gaps:
        gaps = counted(len(losses.gaps), "gap")
        yield [words["q_gaps"], say("gaps", gaps=gaps, duration=text.duration(losses.gaps_s))]


def _cost(watching: Watching | None, words: Words, say: Voice) -> list[list[str]]:
    """Label and words: what watching cost."""
    if watching is None:
        return [[words["c_slowdown"], say("cost_unrecorded")]]
    found = []
    if math.isfinite(watching.slowdown):
        slowdown = text.percent(watching.slowdown)
        if math.isfinite(watching.margin):
            slowdown = say("cost_interval", slowdown=slowdown, margin=text.percent_number(watching.margin))
        found.append([words["c_slowdown"], slowdown])
    else:
        found.append([words["c_slowdown"], f"{say.tell(watching.reason)}".strip() or text.MISSING])
        found.append([words["c_benchmark"], benchmarked(watching.benchmark, say)])
    if math.isfinite(watching.cpu_share):
        cpu = words["c_cpu_text"].format(
            cpu=text.duration(watching.cpu_s), share=text.percent(watching.cpu_share)
        )
        found.append([words["c_cpu"], cpu])
    found.append([words["c_duty"], text.percent(watching.pm_duty)])
    return found
