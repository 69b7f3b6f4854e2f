"""
The iterations of a project, in order of time: what `perfzero log` shows.

Each recording in a folder is one row: its verdict, its step, and how far that is from the one before and from
the first that had steps. A recording that cannot be read is a row with the reason. One from another machine
is not compared with those before it, and begins a new count.

When to stop is said of the last one that was judged: when it uses a practical roof well, when nothing is
left to gain, or when the middle of what may be gained is below a limit that the user sets. Else what to do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perfzero.diagnose.verdict import Diagnosis, Finding, Gain
from perfzero.errors import PerfzeroError
from perfzero.report.ledger.alike import unlike
from perfzero.report.ledger.build import limits_of
from perfzero.report.ledger.measure import Iteration, iteration
from perfzero.report.ledger.metrics import STEP_RATE
from perfzero.report.ledger.notes import notes_of
from perfzero.report.ledger.program import is_close_look, program_of, short
from perfzero.series.compare import Difference, difference
from perfzero.store.schema import MANIFEST

Next = Literal["roof", "nothing", "little", "go on", "unknown"]
"""Why to stop, or that there is more to gain; "unknown" where nothing could be judged."""


@dataclass(frozen=True, slots=True)
class Row:
    """
    One recording of the project. `step_s` is NaN where no step was found.

    `before`: the change of the step rate against the row before that had one, and `first`: against the first;
    None where there is none to compare with. `machine`: what differs from the machine of the row before;
    `program`: what was run, where that is another command than that of the row before. `trouble`: why it
    could not be read, "" if it could.
    """

    name: str
    path: str
    created_ns: int
    headline: str
    rule: str
    step_s: float
    before: Difference | None
    first: Difference | None
    machine: tuple[str, ...]
    notes: tuple[str, ...]
    trouble: str = ""
    program: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """
    Whether to stop: `why`, and what stands behind it.

    `roof`: the limit that is reached, in words. `gain`: what may be gained next, by `remedy`; `below`: the
    gain from which on it is worth to go on, as a share.
    """

    why: Next
    of: str
    roof: str
    gain: Gain | None
    remedy: str
    next_limit: str
    below: float


@dataclass(frozen=True, slots=True)
class Project:
    """
    The rows in order of time, how many older ones were left out, and whether to stop.

    `looks`: how many close looks at a GPU lie there, which are no iterations.
    """

    folder: str
    rows: tuple[Row, ...]
    left_out: int
    stop: Stop
    looks: int = 0


def project(folder: Path, *, most: int, below: float) -> Project:
    """The last *most* recordings in *folder*; *below* is the least gain that is worth to go on for."""
    all_paths = recordings_in(folder)
    paths = [path for path in all_paths if not _is_look(path)]
    kept = paths[-most:]
    rows: list[Row] = []
    last: Iteration | None = None
    for row, one in _rows(kept):
        rows.append(row)
        last = one or last
    return Project(
        str(folder),
        tuple(rows),
        len(paths) - len(kept),
        stop_of(last, below=below),
        len(all_paths) - len(paths),
    )


def recordings_in(folder: Path) -> list[Path]:
    """The folders in *folder* that are recordings, or were to be, by when they were begun."""
    found = []
    for path in folder.iterdir():
        manifest = path / MANIFEST
        if path.is_dir() and manifest.exists():
            found.append((_created(path), path))
    return [path for _, path in sorted(found)]


def _is_look(path: Path) -> bool:
    from perfzero.store.reader import open_recording

    try:
        return is_close_look(open_recording(path).manifest)
    except (PerfzeroError, OSError):
        return False


def _created(path: Path) -> tuple[int, str]:
    from perfzero.store.reader import open_recording

    try:
        return open_recording(path).manifest.created_ns, path.name
    except (PerfzeroError, OSError):
        return (path / MANIFEST).lstat().st_mtime_ns, path.name


def _rows(paths: Sequence[Path]) -> Iterator[tuple[Row, Iteration | None]]:
    before: Iteration | None = (
        None  # the last that was judged, and the last and first of its machine with steps
    )
    last: Iteration | None = None
    first: Iteration | None = None
    for path in paths:
        try:
            one = iteration(path.name, [path])
        except (PerfzeroError, OSError) as error:
            yield _broken(path, str(error).splitlines()[0]), None
            continue
        machine = () if before is None else unlike([before, one], names=[before.name, one.name])
        program = "" if before is None else _another_program(before, one)
        if machine:
            last = first = None
        yield _row(path, one, last=last, first=first, machine=machine, program=program), one
        before = one
        if STEP_RATE in one.means:
            last = one
            first = first or one


def _broken(path: Path, why: str) -> Row:
    created, _ = _created(path)
    return Row(path.name, str(path), created, "", "", math.nan, None, None, (), notes_of(path), why)


def _another_program(before: Iteration, one: Iteration) -> str:
    """What *one* ran, where that is known to be another command than that of *before*."""
    ran, earlier = (program_of(i.first.manifest.process.command) for i in (one, before))
    return "" if ran is None or earlier is None or ran == earlier else short(ran)


def _row(
    path: Path,
    one: Iteration,
    *,
    last: Iteration | None,
    first: Iteration | None,
    machine: tuple[str, ...],
    program: str,
) -> Row:
    diagnosis = one.first.diagnosis
    step = one.means.get("step_time")
    return Row(
        name=path.name,
        path=str(path),
        created_ns=one.first.report.created_ns,
        headline=diagnosis.headline,
        rule="" if diagnosis.verdict is None else diagnosis.verdict.rule,
        step_s=math.nan if step is None else step.value,
        before=_change(last, one),
        first=_change(first, one),
        machine=machine,
        program=program,
        notes=notes_of(path),
    )


def _change(before: Iteration | None, one: Iteration) -> Difference | None:
    if before is None or STEP_RATE not in one.means:
        return None
    return difference(before.means[STEP_RATE], one.means[STEP_RATE])


def stop_of(last: Iteration | None, *, below: float) -> Stop:
    """Whether to stop after *last*."""
    if last is None:
        return Stop("unknown", "", "", None, "", "", below)
    diagnosis = last.first.diagnosis
    best = best_of(diagnosis)
    limits = limits_of(diagnosis)
    roof = limits[0] if limits else ""
    if diagnosis.verdict is None:
        return Stop("unknown", last.name, roof, None, "", "", below)
    if best is None:
        why: Next = "roof" if diagnosis.verdict.severity == "info" else "nothing"
        return Stop(why, last.name, roof, None, "", diagnosis.verdict.next_limit or "", below)
    gain, remedy, finding = best
    little = middle(gain) - 1 < below
    return Stop(
        "little" if little else "go on", last.name, roof, gain, remedy, finding.next_limit or "", below
    )


def best_of(diagnosis: Diagnosis) -> tuple[Gain, str, Finding] | None:
    """The remedy that promises most, by the middle of its gain; None where none promises any."""
    found = [
        (remedy.gain or finding.gain, remedy.text, finding)
        for finding in diagnosis.findings
        for place, remedy in enumerate(finding.remedies)
        if remedy.gain is not None or (place == 0 and finding.gain is not None)
    ]
    known = [(gain, text, finding) for gain, text, finding in found if gain is not None and gain.high > 1]
    return max(known, key=lambda promised: middle(promised[0]), default=None)


def middle(gain: Gain) -> float:
    """The middle of an interval of speed-ups."""
    return math.sqrt(gain.low * gain.high)
