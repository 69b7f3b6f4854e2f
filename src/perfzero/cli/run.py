"""Record, analyse, and say the verdict: the main command."""

from __future__ import annotations

import typer

from perfzero.cli.record import add


def register(app: typer.Typer) -> None:
    """Add `perfzero run` to *app*."""
    add(app, "run")
