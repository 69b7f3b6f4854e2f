"""Record, analyse, and say the verdict: the main command."""

from __future__ import annotations

import typer

from perfzero.cli.record import recording_command


def register(app: typer.Typer) -> None:
    """Add `perfzero run` to *app*."""
    app.command("run", context_settings={"allow_interspersed_args": False})(recording_command("run"))
