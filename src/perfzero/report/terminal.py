"""
The Report as a screenful: one sentence, the reason, the way out, the doubt.

About thirty lines for one GPU, at most 100 columns. With several GPUs the worst one is told
in full and each other one in a line; report.json has them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from io import StringIO
from itertools import zip_longest
from typing import Annotated, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfzero import text
from perfzero.diagnose.idle_shares import without_kernels
from perfzero.diagnose.step_map import TOGETHER
from perfzero.diagnose.thresholds import DOMINANT
from perfzero.diagnose.verdict import (
    Diagnosis,
    Event,
    Finding,
    Gain,
    Steady,
    StepAnswer,
    StepPhase,
    TimeClass,
    WorkKind,
)
from perfzero.hardware import calibrated
from perfzero.limits import BY_DEFINITION, CHOICE, Limit
from perfzero.report.benchmarked import benchmarked
from perfzero.report.breakdown import about_streams, lines
from perfzero.report.console import WIDTH, ToCopy, write
from perfzero.report.host_lines import lines as host_lines
from perfzero.report.host_lines import overlapping
from perfzero.report.model import GpuReport, Losses, Report, Truth, Watching
from perfzero.report.voice import Voice
from perfzero.words.said import clause, counted, joined

_INDENT = 2
_LABEL = 6
_REMEDIES = 2
_OTHER_FINDINGS = 2
_DOUBTS = 4
_PHASES = 6
"""Of the step; more do not fit a screen."""

_TURNS = 3
"""Phases of two kinds that take turns so often are told as one, if there are more than fit."""

_SHOWN: Annotated[float, Limit("ratio", BY_DEFINITION)] = 0.005
"""A class with less of the time rounds to 0 %, and is left out of where it went."""

_PART: Annotated[float, Limit("ratio", CHOICE)] = 0.1
"""A kind of work that takes less of a phase's time is left to report.json."""

_PARTS = 3
"""Kinds of work that are told of a phase; what comes after these is left to report.json."""

_PURE: Annotated[float, Limit("ratio", CHOICE)] = 0.8
"""From this share of its time on a phase is its kind's alone; then counters say more than its parts."""

_WORTH_GAINING: Annotated[float, Limit("ratio", CHOICE)] = 1.05
"""A finding that cannot make the program 5 % faster is left to report.json."""

_COLOUR = {"ok": "green", "watch": "yellow", "bad": "red", "unknown": "dim", "info": ""}
_WORD_COLOUR = {"sure": "green", "likely": "yellow", "unsure": "dim", "no_verdict": "dim"}


def show(report: Report, *, stream: TextIO, language: str = "en", width: int | None = None) -> None:
    """
    Write the report to *stream*: in colour on a terminal, unless NO_COLOR is set, plain elsewhere.

    *width* defaults to the terminal's, 100 at most and 60 at least; to 100 where there is none.
    """
    write(*_page(report, Voice(language)), stream=stream, width=width, least=60)


def words(report: Report, *, language: str = "en", width: int = WIDTH) -> str:
    """The report as plain text, ending in a newline."""
    stream = StringIO()
    show(report, stream=stream, language=language, width=width)
    return stream.getvalue()


def _page(report: Report, say: Voice) -> Iterator[_Part]:
    parts: list[_Part] = [""]
    if not report.gpus:
        parts += [_head(report.headline, "no_verdict", say), *_doubts(report.doubts, (), say)]
    else:
        parts += _worst(report, report.gpus[0], say)
        parts += [_other(gpu, say) for gpu in report.gpus[1:]]
        parts += [""] if len(report.gpus) > 1 else []
        parts += [_footer(report, report.gpus[0], say)]
    if report.files:
        folder = report.folder.rstrip("/") + "/"
        parts.append(
            Text(f"{text.printable(folder)}   {'  '.join(report.files)}", style="dim", overflow="fold")
        )
    for part in parts:
        yield part if isinstance(part, ToCopy) else Padding(part, (0, 0, 0, _INDENT))


def _worst(report: Report, gpu: GpuReport, say: Voice) -> Iterator[_Part]:
    diagnosis = gpu.diagnosis
    verdict = diagnosis.verdict
    word = "no_verdict" if verdict is None else text.confidence_word(verdict.confidence)
    yield _head(report.headline, word, say)
    if verdict is None:
        reason = diagnosis.no_verdict or ""
        if reason and reason.rstrip(".") not in diagnosis.headline:
            yield Text(text.glued(say.tell(reason)))
    elif verdict.because:
        yield Text(text.glued(say("join.sentences").join(map(say.sentence, verdict.because))))
    others: list[_Line] = [*_also(diagnosis, say)]
    if gpu.diagnosis.tier == "nvml":
        others.append((say("more"), say("ask_doctor"), ""))
    # Apart, so that what stands at the right end of others leaves a command its whole line.
    actions, checks = [*_actions(diagnosis, say)], [*_checks(report, diagnosis, say)]
    if actions or checks or others:
        yield ""
    if actions:
        yield _labelled(actions)
    yield from checks
    if others:
        yield _labelled(others)
    if any(step.status != "unknown" for step in diagnosis.steps):
        yield ""
        yield _steps(diagnosis, say)
        shares = _shares(diagnosis, say)
        if shares:
            looked = bool(report.breakdowns)
            yield _labelled(
                [(say("time"), shares, ""), *_step(diagnosis, say, short=looked), *_rare(diagnosis, say)]
            )
    idle = without_kernels(diagnosis.shares)
    told = host_lines(gpu.host, idle)
    if told:
        yield ""
        title = say("host_lines_overlap" if overlapping(gpu.host, idle) else "host_lines")
        yield Text(text.glued(title), style="bold")
        yield _labelled([(where, say.tell(what), "") for where, what in told])
    yield from _layers(report, gpu, say)
    yield from _doubts(report.doubts, diagnosis.doubts, say)
    yield ""


def _head(headline: str, word: str, say: Voice) -> RenderableType:
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(
        Text(text.glued(say.tell(headline)), style="bold"), Text(say(word), style=_WORD_COLOUR[word])
    )
    return grid


def _actions(diagnosis: Diagnosis, say: Voice) -> Iterator[tuple[str, str, str]]:
    """Do, or, Then. A healthy program is told so, and nothing else."""
    verdict = diagnosis.verdict
    if verdict is None:
        return
    if verdict.severity == "info":
        yield say("do"), say("nothing_to_do"), ""
        return
    if verdict.undecided:
        yield say("undecided"), say.tell(verdict.undecided), ""
    remedies = verdict.remedies[:_REMEDIES]
    for place, remedy in enumerate(remedies):
        what = say.tell(remedy.text)
        if remedy.needs:
            needs = joined("join.semicolons", remedy.needs)
            what = text.printable(say("needs", what=clause(remedy.text), needs=needs))
        gain = remedy.gain or (None if place else verdict.gain)
        yield say("or") if place else say("do"), what, _expected(gain, say)
        if remedy.seen:
            yield "", say.tell(remedy.seen), ""
    if verdict.next_limit:
        limit = say("next_limit", limit=say.tell(verdict.next_limit))
        other = next((r.next_limit for r in remedies if r.next_limit), None)
        if other is not None:
            limit = say("next_limit_after_other", first=limit, limit=say.tell(other))
        yield say("then"), limit, ""


def _checks(report: Report, diagnosis: Diagnosis, say: Voice) -> Iterator[_Part]:
    """What to type once something was done, and what has to have moved then; nothing without a remedy."""
    verdict = diagnosis.verdict
    if verdict is None or verdict.severity == "info" or verdict.undecided or not verdict.remedies:
        return
    label, line = say("check"), report.next_command
    if line is not None:
        gap = " " * (2 + max(0, _LABEL - text.width(label)))
        yield ToCopy(Text.assemble(" " * _INDENT, (label, "bold"), gap), line)
    verify = verdict.remedies[0].verify
    if verify:
        yield _labelled([(label if line is None else "", say.tell(verify), "")])


def _expected(gain: Gain | None, say: Voice) -> str:
    return "" if gain is None else say("expect", gain=text.times(gain.low, gain.high))


def _also(diagnosis: Diagnosis, say: Voice) -> Iterator[tuple[str, str, str]]:
    """The other findings that are worth reading."""
    others = [f for f in diagnosis.findings if f is not diagnosis.verdict and _worth_telling(f)]
    for place, finding in enumerate(others[:_OTHER_FINDINGS]):
        word = say(text.confidence_word(finding.confidence))
        yield "" if place else say("also"), say.tell(finding.title), word


def _worth_telling(finding: Finding) -> bool:
    """What can be acted on with some gain and some confidence, or is certain and explains the rest."""
    if finding.severity == "info":
        return finding.confidence >= text.SURE and not finding.remedies
    little = finding.gain is not None and finding.gain.high < _WORTH_GAINING
    return finding.confidence >= text.LIKELY and not little


_Part = RenderableType | ToCopy

_Line = tuple[str, RenderableType, str]
"""A label, what it says, and what stands at the right end."""


def _labelled(rows: Iterable[_Line]) -> RenderableType:
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(min_width=_LABEL, no_wrap=True, style="bold")
    grid.add_column(ratio=1, overflow="fold")
    grid.add_column(justify="right", no_wrap=True)
    for label, what, right in rows:
        said = Text(text.glued(what)) if isinstance(what, str) else what
        grid.add_row(label, said, Text(right, style="green"))
    return grid


def _steps(diagnosis: Diagnosis, say: Voice) -> RenderableType:
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    # Nothing is cut: rich takes a space after wide characters for too much text, too.
    grid.add_column(ratio=1, overflow="fold")
    for step in diagnosis.steps:
        grid.add_row(
            Text(f"{step.number} {say.tell(step.question)}"),
            Text(say.tell(step.answer), style=_COLOUR[step.status]),
            _Evidence(say.tell(step.text), _held(step, say)),
        )
    return grid


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What was `seen`, and what it is `held` against: on one line, or broken at its comma."""

    seen: str
    held: str

    def _fitted(self, columns: int) -> Text:
        held = self.held.replace(" ", text.GLUE)
        if text.width(self.held) > columns:
            held = held.replace(f",{text.GLUE}", ", ").replace("，", f"，{text.BREAK}")
        seen = Text(text.glued(self.seen))
        return seen.append(f" · {held}" if self.seen and held else held, style="dim")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._fitted(options.max_width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._fitted(options.max_width))


def _held(step: StepAnswer, say: Voice) -> str:
    """What the fact that decided a step is held against, and by how much it passed or missed."""
    fact = next((f for f in step.facts if f.threshold is not None and f.margin is not None), None)
    if fact is None or fact.threshold is None or fact.margin is None:
        return ""
    key = f"held_{fact.name}"
    threshold = text.threshold_words(fact.threshold, fact.unit)
    words = f"{say(key)} {threshold}" if key in say else threshold
    points = text.margin_points(fact.threshold, fact.margin, fact.unit)
    off = fact.status in ("watch", "bad")
    if points is not None:
        words = say("short_by" if off else "to_spare", threshold=words, points=points)
    return say("healthy", threshold=words) if off else words


def _shares(diagnosis: Diagnosis, say: Voice) -> str:
    """Where the time went, the largest first; what rounds to nothing is left out."""
    told = sorted((s for s in diagnosis.shares.items() if s[1] >= _SHOWN), key=lambda s: -s[1])
    return " · ".join(f"{say(_class_name(name, diagnosis))} {text.percent(share)}" for name, share in told)


def _step(diagnosis: Diagnosis, say: Voice, *, short: bool) -> Iterator[_Line]:
    """
    What a step consists of: the parts it repeats, and a line for each of its phases.

    *short*: one line for all phases, where a look inside the program tells more than counters do.
    """
    told = []
    rhythm, found = diagnosis.rhythm, diagnosis.step_map
    if rhythm is not None and rhythm.micro_s is not None and rhythm.micro_per_step is not None:
        length = text.duration(rhythm.micro_s, digits=3)
        told.append(say("step_of", count=rhythm.micro_per_step, length=length))
    if found is None and diagnosis.no_step_map and diagnosis.tier == "pm":  # the others have a doubt for it
        told.append(say("no_phases", reason=say.within(diagnosis.no_step_map)))
    stretches = _stretches(() if found is None or len(found.phases) < 2 else found.phases)
    longest = sorted(stretches, key=lambda stretch: -stretch.share)[:_PHASES]
    kept = [stretch for stretch in stretches if stretch in longest]
    left = [say("shorter_phases", count=n)] if (n := len(stretches) - len(kept)) else []
    sure = ["" for _ in told] + [say(text.confidence_word(stretch.confidence)) for stretch in kept]
    if short:
        sure = []
        told += [f"{_named(stretch, say)} {text.percent(round(stretch.share, 2))}" for stretch in kept]
        lines: list[RenderableType] = [" · ".join([*told, *left])] if told else []
    else:
        lines = [*told, *_columns([_stretch(stretch, say) for stretch in kept]), *left]
    for place, (line, word) in enumerate(zip_longest(lines, sure, fillvalue="")):
        yield "" if place else say("step_row"), line, word


@dataclass(frozen=True, slots=True, eq=False)
class _Stretch:
    """One phase of the step, or many of two kinds that take turns."""

    phases: tuple[StepPhase, ...]

    @property
    def share(self) -> float:
        return self.phases[-1].end - self.phases[0].start

    @property
    def confidence(self) -> float:
        return sum(phase.confidence * phase.share for phase in self.phases) / self.share


def _stretches(phases: Sequence[StepPhase]) -> list[_Stretch]:
    """*phases* in order; where they are more than fit the screen, those that take turns as one."""
    found: list[_Stretch] = []
    begin = 0
    while begin < len(phases):
        kinds = [phase.kind for phase in phases[begin : begin + 2]]
        end = begin + len(kinds)
        while end < len(phases) and phases[end].kind == phases[end - 2].kind:
            end += 1
        if len(phases) <= _PHASES or end - begin < 2 * _TURNS or len(set(kinds)) < 2:
            end = begin + 1
        found.append(_Stretch(tuple(phases[begin:end])))
        begin = end
    return found


def _stretch(stretch: _Stretch, say: Voice) -> tuple[str, str, str]:
    """Where in the step, how long, and what."""
    first, last = stretch.phases[0], stretch.phases[-1]
    where = f"{text.percent_number(round(first.start, 2))}–{text.percent(round(last.end, 2))}"
    seconds = sum(phase.seconds for phase in stretch.phases)
    return where, text.duration(seconds), _named(stretch, say) if first is not last else _phase(first, say)


def _named(stretch: _Stretch, say: Voice) -> str:
    """The kind of work of *stretch*; where two share a phase, or take turns, both."""
    first, *others = stretch.phases
    if others:
        kinds = say.enumeration([_kind(phase, say) for phase in stretch.phases[:2]])
        return say("in_turn", count=len(stretch.phases) // 2, kinds=kinds)
    return _kind(first, say)


def _kind(phase: StepPhase, say: Voice) -> str:
    group = next((group for group in TOGETHER if phase.kind in group), frozenset[WorkKind]())
    shared = 0.0 < phase.made_of.get(phase.kind, 0.0) < DOMINANT.value
    both = [k for k in phase.made_of if k in group and phase.made_of[k] >= _PART]
    return say.enumeration([say(f"work_{kind}") for kind in (both if shared and both else [phase.kind])])


def _phase(phase: StepPhase, say: Voice) -> str:
    """What a phase is: the kinds it is made of, or the counters that say so."""
    name = _kind(phase, say)
    parts = {kind: share for kind, share in [*phase.made_of.items()][:_PARTS] if share >= _PART}
    if phase.resolved and phase.kind != "optimizer" and phase.made_of.get(phase.kind, 0.0) < _PURE:
        made = say.joined(
            "join.list", [f"{say(f'work_{k}')} {text.percent(round(s, 2))}" for k, s in parts.items()]
        )
        what = made if next(iter(parts), None) == phase.kind else say("phase_seen", name=name, seen=made)
    elif phase.because:
        what = say("phase_seen", name=name, seen=say.joined("join.list", phase.because))
    else:
        what = name
    return what


def _columns(rows: Sequence[tuple[str, str, str]]) -> Iterator[RenderableType]:
    """*rows* of text below each other, the first two cells as wide as the widest; only the third wraps."""
    first, second = (max((len(row[i]) for row in rows), default=0) for i in (0, 1))
    for where, length, what in rows:
        grid = Table.grid(padding=(0, 2), expand=True)
        grid.add_column(justify="right", no_wrap=True, width=first)
        grid.add_column(justify="right", no_wrap=True, width=second)
        grid.add_column(ratio=1, overflow="fold")
        grid.add_row(where, length, Text(text.glued(what)))
        yield grid


def _rare(diagnosis: Diagnosis, say: Voice) -> Iterator[tuple[str, str, str]]:
    """What comes in some steps only."""
    events = () if diagnosis.rhythm is None else diagnosis.rhythm.events
    for place, event in enumerate(events):
        yield "" if place else say("at_times"), _event(event, say), ""


def _event(event: Event, say: Voice) -> str:
    nature = say("stalls" if event.nature == "stall" else "other_work")
    parts = [say("event", nature=nature, share=text.percent(event.share), count=event.count)]
    if math.isfinite(event.length_s):
        parts.append(say("event_length", length=text.duration(event.length_s)))
    if event.period_s is not None:
        parts.append(say("event_period", period=text.duration(event.period_s)))
    return say.joined("join.clauses", parts)


def _class_name(name: TimeClass, diagnosis: Diagnosis) -> str:
    return "fp64" if name == "fma" and diagnosis.doubles else name


def _layers(report: Report, gpu: GpuReport, say: Voice) -> Iterator[RenderableType]:
    """
    What takes the most of the GPU's time in the program's own terms, of the busiest process on *gpu*.

    Where none on it was looked into, of the busiest there is; then whose time it is, is said.
    """
    everywhere = report.breakdowns
    if not everywhere:
        return
    only = (gpu.gpu.index,) if len(report.gpus) == 1 else ()
    used = {file: report.looked_at.get(file) or only for file in everywhere}
    here = {file: look for file, look in everywhere.items() if gpu.gpu.index in used[file]}
    file, busiest = max((here or everywhere).items(), key=lambda look: look[1].busy_ns)
    told = lines(busiest, language=say.language)
    if told:
        gpus = say.enumeration([str(index) for index in used[file]])
        whose = "layers_here" if here else "layers_elsewhere" if gpus else "layers_somewhere"
        steps = counted(busiest.steps, "step")
        length = text.duration(busiest.span_ns / 1e9)
        how = say("looked_steps", steps=steps) if busiest.steps else say("looked_unmarked", length=length)
        yield ""
        yield Text(text.glued(say("layers", whose=say(whose, gpus=gpus), how=how)), style="bold")
        yield from (Text(line, no_wrap=True, overflow="ellipsis") for line in told)
        if streams := about_streams(busiest):
            yield Text(text.glued(say.tell(streams)), style="dim")


def _doubts(recording: Iterable[str], gpu: Iterable[str], say: Voice) -> Iterator[RenderableType]:
    doubts = list(dict.fromkeys(say.tell(d) for d in (*recording, *gpu)))
    if not doubts:
        return
    rows = [("" if i else say("doubt"), doubt, "") for i, doubt in enumerate(doubts[:_DOUBTS])]
    if len(doubts) > _DOUBTS:
        rows.append(("", say("more_doubts", count=len(doubts) - _DOUBTS), ""))
    yield ""
    yield _labelled(rows)


def _other(gpu: GpuReport, say: Voice) -> RenderableType:
    verdict = gpu.diagnosis.verdict
    word = "no_verdict" if verdict is None else text.confidence_word(verdict.confidence)
    headline = say.tell(gpu.diagnosis.headline)
    return _labelled([(say("gpu", index=gpu.gpu.index), headline, say(word))])


def _footer(report: Report, gpu: GpuReport, say: Voice) -> RenderableType:
    watched = say(
        "watched",
        duration=text.duration(report.watched_s),
        parts=say.joined("join.clauses", _watched(report, gpu, say)),
    )
    return Group(
        Text(text.glued(say.joined("join.sentences", [_truth(gpu.truth, say), *_roofs(gpu, say)]))),
        Text(text.glued(say.joined("join.sentences", [watched, _cost(report.watching, say)]))),
    )


def _truth(truth: Truth, say: Voice) -> str:
    smi, sm = math.isfinite(truth.smi_utilization), math.isfinite(truth.sm_active)
    if not smi and not sm:
        return say("neither_known")
    parts = [say("smi_said", smi=text.percent(truth.smi_utilization)) if smi else say("smi_unknown")]
    if sm:
        parts.append(say("truth", sm=text.percent(truth.sm_active), tensor=text.percent(truth.tensor_active)))
    else:
        parts.append(say("truth_unknown"))
    if math.isfinite(truth.dram_roof_share):
        parts.append(say("truth_memory", memory=text.percent(truth.dram_roof_share)))
    return say.joined("join.sentences", parts)


def _roofs(gpu: GpuReport, say: Voice) -> Iterator[str]:
    """Where the roofs come from that shares of a resource are held against; nothing where there are none."""
    if not math.isfinite(gpu.truth.sm_active):
        return
    measured_s = calibrated(gpu.gpu, "unix_s")
    if math.isnan(measured_s):
        yield say("roofs_by_table")
    else:
        day = datetime.fromtimestamp(measured_s, timezone.utc)
        yield say("roofs_calibrated", date=f"{day:%Y-%m-%d}")


def _watched(report: Report, gpu: GpuReport, say: Voice) -> Iterator[str]:
    if not report.complete:
        yield say("cut_short")
    rhythm = gpu.diagnosis.rhythm
    if rhythm is not None:
        margin = (rhythm.high_s - rhythm.low_s) / 2 / rhythm.step_s
        step = text.duration(rhythm.step_s, digits=3)
        yield say("step", step=step, margin=text.percent_number(margin))
    yield from _dropped(gpu.diagnosis.steady, say)
    yield from _lost(gpu.losses, say)


def _dropped(steady: Steady, say: Voice) -> Iterator[str]:
    if steady.how == "none":
        yield say("not_steady")
    elif steady.how == "short":
        yield say("short")
    elif steady.dropped_s > 0:
        key = "fallback" if steady.how == "fallback" else "warm_up"
        yield say(key, duration=text.duration(steady.dropped_s))


def _lost(losses: Losses, say: Voice) -> Iterator[str]:
    if not losses.lost and not losses.gaps:
        yield say("nothing_lost")
    if losses.lost:
        yield say("lost", share=text.percent(losses.lost_share))
    if losses.gaps:
        gaps = counted(len(losses.gaps), "gap")
        yield say("gaps", gaps=gaps, duration=text.duration(losses.gaps_s))


def _cost(watching: Watching | None, say: Voice) -> str:
    if watching is None:
        return say("cost_unrecorded")
    if math.isfinite(watching.slowdown):
        slowdown = text.percent(watching.slowdown)
        if math.isfinite(watching.margin):
            margin = text.percent_number(watching.margin)
            slowdown = say("cost_interval", slowdown=slowdown, margin=margin)
        said = say("cost", slowdown=slowdown)
    else:
        said = say("cost_unmeasured", otherwise=benchmarked(watching.benchmark, say))
    if math.isfinite(watching.cpu_share):
        cpu = text.duration(watching.cpu_s)
        used = say("cost_cpu", cpu=cpu, share=text.percent(watching.cpu_share))
        said = say.joined("join.sentences", [said, used])
    return said
