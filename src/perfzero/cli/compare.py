"""Hold recordings against each other: the ledger of iterations."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfzero.cli.analyze import MANIFEST
from perfzero.cli.language import Language, lang_option, spoken
from perfzero.errors import NoRecording, OutputError, UsageError
from perfzero.words.said import say
from perfzero.words.told import told

if TYPE_CHECKING:
    from perfzero.report.ledger.conditions import Checked
    from perfzero.report.ledger.model import Ledger

FAILED = 10
"""The exit code when a condition of `--fail-if` holds."""

SUFFIXES = (".csv", ".json", ".xlsx", ".html")


class TableFormat(str, Enum):
    """Text for people, or a table or JSON for programs."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"


def register(app: typer.Typer) -> None:
    """Add `perfzero compare` to *app*."""
    app.command("compare")(compare)


def compare(
    recordings: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C ...]",
            show_default=False,
            help="Recordings in the order of the iterations; several runs of one program as A,A2,A3.",
        ),
    ],
    *,
    gpu: Annotated[
        int | None, typer.Option("--gpu", metavar="N", help="The GPU to compare [the one with the verdict].")
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Compare unlike machines, or mix programs, all the same."),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of -o.")] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", metavar="FILE", help="Also write FILE.csv, .json, .xlsx or .html."),
    ] = None,
    output_format: Annotated[
        TableFormat, typer.Option("--format", help="Text for people, or one for programs.")
    ] = TableFormat.TEXT,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if", metavar="CONDITION", help='Exit with 10 if it holds, e.g. "throughput < -2%".'
        ),
    ] = None,
    fail_if_unknown: Annotated[
        bool, typer.Option("--fail-if-unknown", help="Exit with 10 also where a condition cannot be told.")
    ] = False,
    language: Annotated[Language | None, lang_option()] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing; the exit code tells.")] = False,
) -> None:
    """
    Say what changed from one recording to the next, and whether it is a real difference.

    \b
    perfzero compare before after              two iterations
    perfzero compare a b c                     a ledger of three
    perfzero compare a1,a2,a3 b1,b2,b3         three runs of each, as runs differ
    perfzero compare a b --fail-if "throughput < -2%"
    """
    from perfzero.report.ledger.conditions import check, parse

    conditions = [parse(typed) for typed in fail_if or ()]
    if fail_if_unknown and not conditions:
        raise UsageError(say("fail_if.unknown_of_what"))
    for path in output or ():
        if path.suffix not in SUFFIXES:
            raise UsageError(say("compare.ending", file=path, endings=", ".join(SUFFIXES)))
        if os.path.lexists(path) and not overwrite:
            raise UsageError(say("compare.exists", file=path))
    named = [runs_of(word) for word in recordings]
    if len(named) < 2:
        raise UsageError(say("compare.too_few"))

    # Only now: numpy and Arrow take longer to load than a usage error should take to be told.
    from perfzero.report.ledger.build import build
    from perfzero.report.ledger.measure import Iteration, iteration

    iterations: list[Iteration] = []
    for name, paths in named:
        like = iterations[0] if iterations else None
        iterations.append(iteration(name, paths, gpu=gpu, like=like, mixed=force))
    ledger = build(iterations, force=force)
    checked = [check(condition, ledger) for condition in conditions]
    for path in output or ():
        write(path, content(path.suffix, ledger, checked, language=spoken(language)))
    if not quiet:
        if output_format is TableFormat.TEXT:
            from perfzero.report.ledger.terminal import show

            show(ledger, stream=sys.stdout, language=spoken(language))
        else:
            made = content(f".{output_format.value}", ledger, checked, language=spoken(language))
            sys.stdout.write(made.decode())
    for one in checked:
        said = say(
            "fail_if.checked",
            condition=repr(one.condition.text),
            outcome=say(f"fail_if.{one.outcome}"),
            text=one.text,
        )
        print(told(said, spoken(language)), file=sys.stderr)
    failing = ("holds", "cannot be told") if fail_if_unknown else ("holds",)
    if any(one.outcome in failing for one in checked):
        raise typer.Exit(FAILED)


def content(suffix: str, ledger: Ledger, checked: Sequence[Checked], *, language: str) -> bytes:
    """What a file with this *suffix* holds."""
    if suffix == ".csv":
        from perfzero.report.ledger.tables import to_csv

        return to_csv(ledger).encode()
    if suffix == ".json":
        from perfzero.report.ledger.json_file import to_json

        return to_json(ledger, checked).encode()
    if suffix == ".xlsx":
        from perfzero.report.ledger.xlsx import to_xlsx

        return to_xlsx(ledger)
    from perfzero.report.ledger.html import to_html

    return to_html(ledger, language=language).encode()


def write(path: Path, made: bytes) -> None:
    """Put *made* at *path*, whole or not at all."""
    from perfzero.report.atomic import write_whole

    try:
        write_whole(path, made)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise OutputError(say("compare.unwritten", file=path, why=why)) from error


def runs_of(word: str) -> tuple[str, Sequence[Path]]:
    """
    The recordings that *word* of the command line names, and a name for them.

    One; several separated by commas; or a folder that holds nothing but recordings, all of one program.
    """
    path = Path(word)
    if (path / MANIFEST).exists():
        return path.name or word, [path]
    if "," in word and not path.exists():
        parts = [Path(part) for part in word.split(",") if part.strip()]
        if not parts:
            raise UsageError(say("compare.too_few"))
        return parts[0].name, parts
    inside = sorted(manifest.parent for manifest in path.glob(f"*/{MANIFEST}")) if path.is_dir() else []
    if inside:
        return path.name or word, inside
    if path.is_dir():
        raise NoRecording(say("compare.no_recording", folder=word))
    return path.name, [path]
