"""Hold recordings against each other: the ledger of iterations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from perfzero.cli.analyze import MANIFEST, Language
from perfzero.errors import NoRecording, UsageError


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
        bool, typer.Option("--force", help="Compare unlike machines all the same; overwrite the file of -o.")
    ] = False,
    language: Annotated[Language, typer.Option("--lang", help="Language of the text.")] = Language.EN,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing; the exit code tells.")] = False,
) -> None:
    """
    Say what changed from one recording to the next, and whether it is a real difference.

    \b
    perfzero compare before after              two iterations
    perfzero compare a b c                     a ledger of three
    perfzero compare a1,a2,a3 b1,b2,b3         several runs of each: narrower, surer intervals
    """
    named = [runs_of(word) for word in recordings]
    if len(named) < 2:
        raise UsageError(
            "A comparison takes two recordings or more.\n"
            "Name them in order: perfzero compare perfzero-runs/BEFORE perfzero-runs/AFTER"
        )

    # Only now: numpy and Arrow take longer to load than a usage error should take to be told.
    from perfzero.report.ledger.build import build
    from perfzero.report.ledger.measure import iteration

    ledger = build([iteration(name, paths, gpu=gpu) for name, paths in named], force=force)
    if not quiet:
        from perfzero.report.ledger.terminal import show

        show(ledger, stream=sys.stdout, language=language.value)


def runs_of(word: str) -> tuple[str, Sequence[Path]]:
    """
    The recordings that *word* of the command line names, and a name for them.

    One; several separated by commas; or a folder that holds nothing but recordings, all of one program.
    """
    path = Path(word)
    if (path / MANIFEST).exists():
        return path.name or word, [path]
    if "," in word and not path.exists():
        parts = [Path(part) for part in word.split(",") if part]
        return parts[0].name, parts
    inside = sorted(manifest.parent for manifest in path.glob(f"*/{MANIFEST}")) if path.is_dir() else []
    if inside:
        return path.name or word, inside
    if path.is_dir():
        raise NoRecording(
            f"{word} holds no recording: there is no {MANIFEST} in it, nor in a folder below it.\n"
            "Name a folder that `perfzero run` or `perfzero record` has written."
        )
    return path.name, [path]
