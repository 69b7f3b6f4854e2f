"""Make a recording small enough to attach to an issue."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from perfzero.cli.language import Language, lang_option, spoken
from perfzero.errors import UsageError
from perfzero.words.said import say
from perfzero.words.told import told

_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}


def register(app: typer.Typer) -> None:
    """Add `perfzero trim` to *app*."""
    app.command("trim")(trim)


def trim(
    recording: Annotated[Path, typer.Argument(metavar="DIR", help="The recording to make smaller.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="The folder to write to.")],
    from_s: Annotated[
        float | None, typer.Option("--from", metavar="S", help="Drop what came before this second.")
    ] = None,
    until_s: Annotated[
        float | None, typer.Option("--to", metavar="S", help="Drop what came after this second.")
    ] = None,
    max_size: Annotated[str, typer.Option("--max-size", metavar="SIZE", help="E.g. 400KB or 2MB.")] = "400KB",
    redact: Annotated[
        bool, typer.Option("--redact", help="Take out host name, paths and serial numbers as well.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a recording in OUT.")] = False,
    language: Annotated[Language | None, lang_option()] = None,
) -> None:
    """
    Make a recording small enough to attach to an issue.

    Windows of PM sampling are dropped, evenly, until it fits. A look inside the program is kept without
    folders, with the samples beside it, if there is room for it. What was done is said here and in the
    manifest of the new recording. DIR is left as it is.
    """
    # Arrow takes a fifth of a second to load, which other commands need not wait for.
    from perfzero.store.reader import open_recording
    from perfzero.store.trim import trim as trim_recording

    max_bytes = parse_size(max_size)
    opened = open_recording(recording)
    done = trim_recording(
        opened, to=output, from_s=from_s, until_s=until_s, max_bytes=max_bytes, redact=redact, force=force
    )
    said = [*(say("trim.doubt", doubt=doubt) for doubt in opened.doubts)]
    said += [say("trim.done", sentence=sentence) for sentence in done.done]
    before = f"{done.size_before / 1000:,.0f}"
    said.append(say("trim.size", path=done.path, size=f"{done.size / 1000:,.0f}", before=before))
    for sentence in said:
        print(told(sentence, spoken(language)), file=sys.stderr)


def parse_size(text: str) -> int:
    """A size like "400KB", "2MB", "1.5 MiB" or "300000" in bytes; raises `UsageError` for anything else."""
    found = re.fullmatch(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[kmg]i?)?b?", text.strip(), re.IGNORECASE)
    size = int(float(found["number"]) * _UNITS[(found["unit"] or "").lower()]) if found else 0
    if size <= 0:
        raise UsageError(say("usage.size", text=f"{text!r}"))
    return size
