"""Say what limits the GPU, from an existing recording."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from perfzero.cli.formats import Format
from perfzero.cli.language import Language, lang_option, spoken
from perfzero.errors import NoRecording, OutputError, UsageError
from perfzero.words.said import say

RUNS = Path("perfzero-runs")
"""Where `run` and `record` put recordings, below the current folder."""

MANIFEST = "manifest.json"


def register(app: typer.Typer) -> None:
    """Add `perfzero analyze` to *app*."""
    app.command("analyze")(analyze)


def analyze(
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR",
            show_default=False,
            help="The recording; by default the newest in ./perfzero-runs.",
        ),
    ] = None,
    *,
    input_dir: Annotated[
        Path | None, typer.Option("--input-dir", metavar="DIR", help="The recording, as an option.")
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output-dir", metavar="OUT", help="Where the files go; by default into the recording."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite another recording's results in --output-dir.")
    ] = False,
    output: Annotated[
        Format, typer.Option("--format", help="Text for people, or report.json, on stdout.")
    ] = Format.TEXT,
    language: Annotated[Language | None, lang_option()] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Write the files and say nothing.")] = False,
) -> None:
    """
    Say what limits the GPU, from an existing recording, and write the report's files.

    Writes report.html, report.json, summary.csv, timeline.csv and timeline.png.
    Analysing again replaces them.
    """
    if directory is not None and input_dir is not None:
        raise UsageError(say("usage.twice", directory=directory, input_dir=input_dir))
    recording = directory or input_dir or newest_recording(RUNS)

    # Only now: numpy and Arrow take longer to load than a usage error should take to be told.
    from perfzero.report.analysis import analyze as analyze_recording

    report = analyze_recording(recording, output_dir=output_dir, force=force, language=spoken(language))
    if output is Format.JSON:
        from perfzero.report.json_file import to_json

        sys.stdout.write(to_json(report))
    elif not quiet:
        from perfzero.report.terminal import show

        show(report, stream=sys.stdout, language=spoken(language))
    if report.unwritten is not None:
        raise OutputError(report.unwritten)


def newest_recording(runs: Path) -> Path:
    """
    The recording in *runs* that was begun or ended last; raises NoRecording where there is none.

    By the time of its manifest, which the analysis never touches; a folder's own time changes
    with every file in it.
    """
    found = []
    for manifest in runs.glob(f"*/{MANIFEST}"):
        try:
            found.append((manifest.stat().st_mtime_ns, manifest.parent))
        except OSError:  # gone between listing and looking
            continue
    if not found:
        raise NoRecording(say("file.no_runs", runs=runs))
    return max(found)[1]
