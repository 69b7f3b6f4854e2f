"""
From a recording's folder to the Report and its files: what `analyze`, `run` and `demo` share.

The files are derived from the recording alone, so analysing again replaces them. Files
of another recording, in a folder named by --output-dir, are left alone unless forced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perfzero import text
from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.parts import Condition, Topic
from perfzero.attribute.stacks import LEAST_SAMPLES, HostCauses, causes_by_averages, host_causes
from perfzero.diagnose.gates import GPM_ONLY, NVML_ONLY
from perfzero.diagnose.judge import judge
from perfzero.diagnose.verdict import Diagnosis
from perfzero.errors import BrokenRecording, NoRecording, UsageError
from perfzero.report.atomic import write_whole
from perfzero.report.breakdown import FILE as BREAKDOWN_JSON
from perfzero.report.breakdown import breakdown_json
from perfzero.report.build import Judged, build
from perfzero.report.csv_files import summary, timeline
from perfzero.report.html import html
from perfzero.report.inside import frameworks, seen_inside, told_inside
from perfzero.report.json_file import to_json
from perfzero.report.looks import broken_down
from perfzero.report.model import Report
from perfzero.report.refined import Evidence, refined
from perfzero.stacks import HostStacks
from perfzero.store.reader import Recording, open_recording
from perfzero.store.stacks import read_stacks
from perfzero.values import Look, Samples
from perfzero.words.said import clause, first_line, listed, say

REPORT_JSON = "report.json"
REPORT_HTML = "report.html"
FILES = (REPORT_JSON, "summary.csv", REPORT_HTML, "timeline.csv", "timeline.png")
"""Written of every recording."""

EVERY_FILE = (*FILES, BREAKDOWN_JSON)
"""With the one that is there only where the program was looked into."""

NO_LOSS = (say("look.ended_early"), say("look.other_worker"))
"""Reasons for which a process was not looked into that nobody can change, or need."""

_KNOWN_REPORT_BYTES = 16 << 20
"""A report.json longer than this was not written by perfzero; it is not read."""


def analyze(
    path: Path | str,
    *,
    output_dir: Path | str | None = None,
    force: bool = False,
    language: str = "en",
) -> Report:
    """
    Judge the recording at *path* and write the files into *output_dir*, by default its own folder.

    The page and the picture, which are for people, are in *language*; all other files are English.

    Raises NoRecording or BrokenRecording where there is nothing to judge, and UsageError where
    *output_dir* holds the results of another recording and *force* is off. A folder that
    cannot be written (full disk, no permission), or a file that cannot be made, raises nothing: the
    verdict still stands, and `Report.unwritten` says what happened.
    """
    report = judged_report(path)
    folder = Path(path) if output_dir is None else Path(output_dir)
    if output_dir is not None and not force:
        _refuse_results_of_another(report, folder)
    return write_files(report, folder, language=language)


def judged_report(path: Path | str) -> Report:
    """The Report on the recording at *path*; nothing is written."""
    recording = open_recording(path)
    judged = []
    for gpu in recording.gpus:
        seen = recording.observation(gpu.index)
        # Where PM sampling ran, the reason is why it did; that GPM stands in for it has its own doubt.
        reason = "" if seen.tier == "pm" else recording.manifest.tier_reasons.get(gpu.index, "")
        judged.append(Judged(seen, explained(judge(seen), reason)))
    manifest = recording.manifest
    judged, unseen = with_host(recording, judged)
    breakdowns, unread = broken_down(recording, {j.seen.gpu.index: j.seen for j in judged})
    conditions, unsettled = told_inside(breakdowns)
    judged, failed = with_evidence(recording, judged, breakdowns, conditions)
    untold = [note.text for note in recording.notes() if note.kind == "unseen"]
    untold += not_looked_into(recording.looks)
    return build(
        judged,
        recording=str(path),
        created_ns=manifest.created_ns,
        complete=recording.complete,
        cost=manifest.cost,
        process=manifest.process,
        doubts=(*recording.doubts, *unseen, *unread, *unsettled, *failed, *untold),
        breakdowns=breakdowns,
        looked_at={look.file: look.gpus for look in recording.looks if look.file},
    )


def with_evidence(
    recording: Recording,
    judged: Sequence[Judged],
    breakdowns: Mapping[str, Breakdown],
    conditions: Mapping[str, Mapping[Topic, Condition]],
) -> tuple[list[Judged], tuple[str, ...]]:
    """*judged*, each refined by what was seen of its GPU's program, and what failed of that."""
    gpus = [j.seen.gpu.index for j in judged]
    inside = seen_inside(conditions, recording.looks, gpus)
    words = frameworks(breakdowns, recording.looks, gpus)
    told: list[Judged] = []
    doubts: list[str] = []
    for j, gpu in zip(judged, gpus, strict=True):
        evidence = Evidence(j.seen, j.host, inside[gpu], recording.looks, gpus, words[gpu])
        diagnosis, failed = refined(j.diagnosis, evidence)
        told.append(replace(j, diagnosis=diagnosis))
        doubts += failed
    return told, tuple(dict.fromkeys(doubts))


def not_looked_into(looks: Sequence[Look]) -> list[str]:
    """That a process was not looked into, and why, in one sentence: of several the first one's reason."""
    seen = {look.pid for look in looks if look.file}
    failed = {k.pid: k.reason for k in looks if k.reason and k.reason not in NO_LOSS and k.pid not in seen}
    if not failed:
        return []
    pid, why = next(iter(failed.items()))
    more = say("look.nor", number=len(failed) - 1) if len(failed) > 1 else ""
    lost = say("look.not_all") if seen else say("look.none")
    return [say("look.untold", lost=lost, pid=pid, more=more, why=clause(why))]


def with_host(recording: Recording, judged: list[Judged]) -> tuple[list[Judged], tuple[str, ...]]:
    """
    *judged* with what the program did while its GPU was idle, and what could not be read of that.

    One process was sampled: of several GPUs it feeds the one of whose idle time its lines tell most.
    """
    try:
        stacks = read_stacks(recording.path)
    except NoRecording:
        return judged, ()
    except BrokenRecording as error:
        return judged, (first_line(error.sentence),)
    try:
        found: list[HostCauses] = [_causes(stacks, j) for j in judged]
    except Exception as error:  # noqa: BLE001 - the verdict stands without it
        return judged, (*stacks.doubts, say("stacks.unexpected", kind=type(error).__name__))
    if not found:
        return judged, stacks.doubts
    its = max(range(len(found)), key=lambda i: found[i].told)
    return [replace(j, host=found[i] if i == its else None) for i, j in enumerate(judged)], stacks.doubts


def _causes(stacks: HostStacks, judged: Judged) -> HostCauses:
    """
    What the host did in the stretch that was judged, for while a program starts or compiles it does other
    things; in all of the recording where too little of the host was seen in that stretch. Where no window was
    open meanwhile the averages tell of a GPU that stands still for longer than they last.
    """
    seen, steady = judged.seen, judged.diagnosis.steady

    def within(table: Samples) -> Samples:
        return table.where((table.start_ns >= steady.start_ns) & (table.end_ns <= steady.end_ns))

    found = host_causes(stacks, within(seen.pm))
    if found.moments < LEAST_SAMPLES:
        found = host_causes(stacks, seen.pm)
    if found.moments >= LEAST_SAMPLES:
        return found
    return causes_by_averages(stacks, within(seen.gpm)) or found


def explained(diagnosis: Diagnosis, reason: str) -> Diagnosis:
    """
    *diagnosis* whose doubt about a lesser tier says why there was no better one, if *reason* does:
    the reader may be able to change that.
    """
    if not reason:
        return diagnosis
    doubts = tuple(
        say("doubt.why", doubt=clause(d), reason=clause(reason)) if d in (GPM_ONLY, NVML_ONLY) else d
        for d in diagnosis.doubts
    )
    return replace(diagnosis, doubts=doubts)


def write_files(report: Report, folder: Path, *, language: str = "en") -> Report:
    """
    The report with `folder` and `files` filled in, and `unwritten` where files are missing.

    A file that cannot be made, which is a mistake of ours, costs no other one; where one cannot be written,
    the next could not be either.
    """
    written: list[str] = []
    unmade: dict[str, str] = {}
    contents = list(_contents(report, language))
    unwritten = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not report.breakdowns:  # one of before would be taken for part of this report
            (folder / BREAKDOWN_JSON).unlink(missing_ok=True)
        for name, content in contents:
            try:
                whole = content()
            except Exception as error:  # noqa: BLE001 (whatever it is, the verdict is not lost)
                unmade[name] = text.printable(f"{type(error).__name__}: {error}")
                (folder / name).unlink(missing_ok=True)  # as above
                continue
            write_whole(folder / name, whole)
            written.append(name)
    except OSError as error:
        why = "; ".join([error.strerror or type(error).__name__, *(f"{n}: {w}" for n, w in unmade.items())])
        missing = ", ".join(name for name, _ in contents if name not in written)
        unwritten = say(
            "write.unwritten", folder=folder, missing=missing, why=why, recording=report.recording
        )
    else:
        if unmade:
            why = "; ".join(f"{name}: {what}" for name, what in unmade.items())
            unwritten = say("write.unmade", folder=folder, missing=listed(unmade), why=why)
    return replace(report, folder=str(folder), files=tuple(written), unwritten=unwritten)


def _contents(report: Report, language: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Each file and how to make it, the small ones first: a nearly full disk gets the verdict at least."""
    yield REPORT_JSON, lambda: to_json(report).encode()
    yield "summary.csv", lambda: summary(report).encode()
    if report.breakdowns:
        yield BREAKDOWN_JSON, lambda: breakdown_json(report.breakdowns, recording=report.recording).encode()
    yield REPORT_HTML, lambda: html(report, language=language)
    yield "timeline.csv", lambda: timeline(report).encode()
    yield "timeline.png", lambda: _png(report, language)


def _png(report: Report, language: str) -> bytes:
    # matplotlib takes most of a second to load: only now, with the verdict already computed.
    from perfzero.report.plots import timeline_png

    return timeline_png(report, language=language)


def _refuse_results_of_another(report: Report, folder: Path) -> None:
    taken = [name for name in EVERY_FILE if os.path.lexists(folder / name)]
    if not taken or _recorded_at(folder / REPORT_JSON) == (report.created_ns, report.start_ns):
        return
    raise UsageError(say("write.taken", folder=folder, names=listed(taken)))


def _recorded_at(path: Path) -> tuple[int, int] | None:
    """Which recording a report.json belongs to, None where that cannot be told."""
    try:
        if path.stat().st_size > _KNOWN_REPORT_BYTES:
            return None
        found = json.loads(path.read_bytes())
        return found["created_ns"], found["start_ns"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
