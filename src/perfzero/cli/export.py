"""Hand a recording on to other tools: Perfetto, spreadsheets, data frames."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfzero.cli.analyze import RUNS, newest_recording
from perfzero.cli.ending import ended_by_signals
from perfzero.cli.language import Language, lang_option, spoken
from perfzero.cli.progress import ERASE, TERMINAL, columns, cut, in_foreground, own_terminal
from perfzero.errors import OutputError, UsageError
from perfzero.words.said import say
from perfzero.words.told import told

if TYPE_CHECKING:
    from perfzero.report.model import Report
    from perfzero.store.reader import Recording


class ExportFormat(str, Enum):
    """What a recording is handed on as."""

    PERFETTO = "perfetto"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


PLACES = {
    ExportFormat.PERFETTO: "trace.pftrace",
    ExportFormat.CSV: "csv",
    ExportFormat.JSON: "samples.json",
    ExportFormat.PARQUET: "parquet",
}
"""Where in the recording's folder an export goes by default: a file, or a folder of files."""

FOLDERS = (ExportFormat.CSV, ExportFormat.PARQUET)

MOST_ABOUT = 16 << 20
"""A recording.json longer than this was not written by perfzero; it is not read."""

LONGEST_HEAD = 256
"""Bytes of a file by which it is known for an export, and of which recording: some 90 tell it."""

Tell = Callable[[str], None]


def register(app: typer.Typer) -> None:
    """Add `perfzero export` to *app*."""
    app.command("export")(export)


def export(
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR",
            show_default=False,
            help="The recording; by default the newest in ./perfzero-runs.",
        ),
    ] = None,
    *,
    kind: Annotated[
        ExportFormat,
        typer.Option("--format", show_default=False, help="What to hand it on as."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT", help="The file, or for CSV and Parquet the folder."),
    ] = None,
    every_sample: Annotated[
        bool, typer.Option("--every-sample", help="Perfetto: merge none, however large the trace gets.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an export of another recording in OUT.")
    ] = False,
    language: Annotated[Language | None, lang_option()] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Write the files and say nothing.")] = False,
) -> None:
    """
    Hand a recording on to other tools.

    perfetto: counters, idle time with its causes, kernels and stacks on one axis, for ui.perfetto.dev and for
    SQL. csv, json, parquet: all samples as they were recorded, and what the report says. By default it goes
    into the recording's folder: trace.pftrace, csv/, samples.json, parquet/.
    """
    if every_sample and kind is not ExportFormat.PERFETTO:
        raise UsageError(say("usage.every_sample", kind=kind.value))
    path = directory or newest_recording(RUNS)

    # Only now: numpy and Arrow take longer to load than a usage error should take to be told.
    from perfzero.report.analysis import judged_report
    from perfzero.report.atomic import folder_for
    from perfzero.store.reader import open_recording

    recording = open_recording(path)
    to = output or path / PLACES[kind]
    if kind is ExportFormat.PERFETTO:
        from perfzero.report.trace_file import demand_package

        demand_package()  # judging a long recording takes a minute
    _refuse_to_replace(to, kind, recording, force=force)
    with ended_by_signals(), _progress(silent=quiet, language=spoken(language)) as tell:
        tell(say("export.judging"))
        report = judged_report(path)
        try:
            with folder_for(to):
                said = _write(kind, path, report, to, every_sample=every_sample, tell=tell)
        except OSError as error:
            # Arrow puts its own words around the system's.
            why = os.strerror(error.errno) if error.errno else str(error)
            raise OutputError(
                say("export.not_written", to=to, why=why, path=path, kind=kind.value)
            ) from error
    if not quiet:
        for line in said:
            print(told(line, spoken(language)), file=sys.stderr)


def _write(
    kind: ExportFormat, path: Path, report: Report, to: Path, *, every_sample: bool, tell: Tell
) -> list[str]:
    """Write it whole or not at all; what to say of it."""
    from perfzero.report.atomic import whole_file, whole_folder

    if kind is ExportFormat.PERFETTO:
        from perfzero.report.perfetto import write_perfetto

        with whole_file(to) as file:
            written = write_perfetto(path, report, file, every_sample=every_sample, tell=tell)
        said: list[str] = [say("trim.doubt", doubt=doubt) for doubt in written.doubts]
        size = f"{to.stat().st_size / 1e6:,.1f} MB"
        said.append(
            say(
                "export.perfetto",
                to=to,
                size=size,
                slices=f"{written.slices:,}",
                values=f"{written.values:,}",
            )
        )
        if max(written.merged, written.bursts_merged) > 1:
            said.append(say("export.merged", merged=written.merged, bursts=written.bursts_merged))
        return [*said, say("export.open")]
    from perfzero.report.tables import write_csv, write_json, write_parquet

    if kind is ExportFormat.JSON:
        with whole_file(to) as file:
            write_json(path, report, file, tell=tell)
        return [f"{to}: {to.stat().st_size / 1e6:,.1f} MB."]
    with whole_folder(to) as folder:
        (write_csv if kind is ExportFormat.CSV else write_parquet)(path, report, folder, tell=tell)
    files = list(to.iterdir())
    return [
        say(
            "export.files",
            to=to,
            files=len(files),
            size=f"{sum(f.stat().st_size for f in files) / 1000000.0:,.1f}",
        )
    ]


def _refuse_to_replace(to: Path, kind: ExportFormat, recording: Recording, *, force: bool) -> None:
    """Raise `UsageError` where *to* holds what is no export of *recording*, or with *force* of any."""
    _refuse_files_of_recordings(to)
    if not os.path.lexists(to):
        return
    if to.is_symlink():
        raise UsageError(say("export.link", to=to))
    if kind in FOLDERS:
        if not to.is_dir():
            raise UsageError(say("export.no_folder", to=to, kind=kind.value))
        if strange := _strange_in(to, kind):
            raise UsageError(say("export.strange", to=to, strange=strange))
        if not any(to.iterdir()):
            return
        ours, same = bool(_exported_from(to)), _exported_from(to) == _identity(recording)
    elif to.is_dir():
        raise UsageError(say("export.is_folder", to=to, kind=kind.value))
    elif not to.is_file():
        raise UsageError(say("export.no_file", to=to, kind=kind.value))
    else:
        head = _head(to)
        if not head:
            return
        ours, same = _begins_as_ours(head), head.startswith(_expected(kind, recording))
    if not ours:
        raise UsageError(say("export.not_ours", to=to))
    if not (force or same):
        raise UsageError(say("export.taken", to=to))


def _refuse_files_of_recordings(to: Path) -> None:
    """Raise `UsageError` where *to* is, or would be taken for, a part of a recording itself."""
    from perfzero.store.schema import MANIFEST, is_ours

    if is_ours(to.name) and os.path.lexists(to.parent / MANIFEST):
        raise UsageError(say("export.own_file", to=to, folder=to.parent))


def _strange_in(folder: Path, kind: ExportFormat) -> str:
    from perfzero.report.tables import is_ours

    for entry in sorted(folder.iterdir()):
        if not is_ours(entry.name, kind.value) or not entry.is_file() or entry.is_symlink():
            return repr(entry.name)
    return ""


def _exported_from(folder: Path) -> str:
    """The identity of the recording of which *folder* holds an export; empty where that cannot be told."""
    from perfzero.report.tables import ABOUT

    try:
        if (folder / ABOUT).stat().st_size > MOST_ABOUT:
            return ""
        found = json.loads((folder / ABOUT).read_bytes())
        return str(found["identity"]) if found["perfzero_export"] else ""
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def _identity(recording: Recording) -> str:
    from perfzero.report.identity import identity

    return identity(recording).hex()


def _expected(kind: ExportFormat, recording: Recording) -> bytes:
    """How a file begins that was exported from *recording*."""
    if kind is ExportFormat.JSON:
        from perfzero.report.tables import json_head

        return json_head(recording)
    from perfzero.report.identity import identity
    from perfzero.report.trace_file import head

    return head(identity(recording))


def _begins_as_ours(head: bytes) -> bool:
    """Whether a file that begins with *head* is an export, of whatever recording and in whatever format."""
    from perfzero.report.tables import begins_as_json
    from perfzero.report.trace_file import begins_as_trace

    return begins_as_json(head) or begins_as_trace(head)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_HEAD)
    except OSError as error:
        raise OutputError(
            say("export.unreadable", to=path, why=os.strerror(error.errno) if error.errno else str(error))
        ) from error


@contextmanager
def _progress(*, silent: bool, language: str) -> Iterator[Tell]:
    """Tells what is done now, on one line of our terminal that is rewritten; nothing without one."""
    terminal: Any = None
    if not silent and own_terminal(program=False) is not None:
        with contextlib.suppress(OSError):
            terminal = os.open(TERMINAL, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)

    def write(text: str) -> None:
        with contextlib.suppress(OSError):  # it is stopped, or gone
            if terminal is not None and in_foreground(terminal):
                os.write(terminal, text.encode())

    try:
        yield lambda what: write(
            ERASE + cut(told(say("export.exporting", what=what), language), columns(terminal or 2) - 1)
        )
    finally:
        write(ERASE)
        if terminal is not None:
            os.close(terminal)
