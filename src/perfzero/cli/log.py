"""The iterations of a project, in order of time, with notes; and whether to stop."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from perfzero.cli.analyze import MANIFEST, RUNS, newest_recording
from perfzero.cli.formats import Format
from perfzero.cli.language import Language, lang_option, spoken
from perfzero.errors import NoRecording, UsageError
from perfzero.words.said import say

MOST = 20
"""Recordings that are shown: each takes a second to judge."""


def register(app: typer.Typer) -> None:
    """Add `perfzero log` to *app*."""
    app.command("log")(log)


def log(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER",
            show_default=False,
            help="A folder of recordings [./perfzero-runs]; with --note a recording [the newest one].",
        ),
    ] = None,
    *,
    note: Annotated[
        str | None,
        typer.Option("--note", metavar="TEXT", help="Add a note to a recording, and show nothing."),
    ] = None,
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, help="Show the last N.")] = MOST,
    stop_below: Annotated[
        float,
        typer.Option(
            "--stop-below",
            metavar="PERCENT",
            min=0.0,
            max=100.0,
            help="A gain below this is no reason to go on.",
        ),
    ] = 5.0,
    output: Annotated[Format, typer.Option("--format", help="Text for people, or JSON.")] = Format.TEXT,
    language: Annotated[Language | None, lang_option()] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> None:
    """
    Show the iterations of a project: verdict, step, what each changed, and whether to stop.

    \b
    perfzero log                               those in ./perfzero-runs
    perfzero log --note "channels-last" DIR    add a note to one of them
    """
    if note is not None:
        annotate(note, folder, quiet=quiet)
        return
    runs = RUNS if folder is None else folder
    if not runs.is_dir():
        raise NoRecording(say("log.no_folder", folder=runs))
    if (runs / MANIFEST).exists():
        raise UsageError(say("log.is_recording", folder=runs, parent=runs.absolute().parent))

    # Only now: numpy and Arrow take longer to load than a usage error should take to be told.
    from perfzero.report.ledger.project import project
    from perfzero.report.ledger.project_terminal import document, show

    found = project(runs, most=last, below=stop_below / 100)
    if not found.rows:
        raise NoRecording(say("log.empty", folder=runs))
    if output is Format.JSON:
        import json

        from perfzero.values import jsonable

        sys.stdout.write(json.dumps(jsonable(document(found)), indent=1, ensure_ascii=False) + "\n")
    elif not quiet:
        show(found, stream=sys.stdout, language=spoken(language))


def annotate(note: str, folder: Path | None, *, quiet: bool) -> None:
    """Add *note* to the recording in *folder*, or to the newest."""
    from perfzero.report.ledger.notes import add_note
    from perfzero.text import printable

    recording = newest_recording(RUNS) if folder is None else folder
    if not (recording / MANIFEST).exists():
        raise NoRecording(say("log.note_nowhere", folder=recording))
    if not printable(note):
        raise UsageError(say("log.note_empty"))
    add_note(recording, note)
    if not quiet:
        print(f"{recording}: {printable(note)}", file=sys.stderr)
