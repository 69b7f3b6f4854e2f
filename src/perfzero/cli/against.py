"""`perfzero run --against`: after the verdict, how the new recording compares with an earlier one."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from perfzero.cli.analyze import MANIFEST, RUNS, newest_recording
from perfzero.errors import NoRecording, PerfzeroError, UsageError
from perfzero.words.said import say
from perfzero.words.told import told

LAST = "last"
"""What names the newest recording in ./perfzero-runs, as it is before the new one is begun."""


def chosen_earlier(named: str, *, report: bool) -> Path:
    """
    The recording that `--against` names, before anything is started.

    Raises NoRecording where there is none, and UsageError for a command that makes no *report*.
    """
    if not report:
        raise UsageError(say("compare.against_record"))
    if named == LAST:
        return newest_recording(RUNS)
    path = Path(named)
    if not (path / MANIFEST).exists():
        raise NoRecording(say("compare.against_nothing", folder=named))
    return path


def compare_with(earlier: Path, path: Path, *, stream: TextIO, language: str = "en") -> None:
    """
    Say on *stream* how the recording at *path* compares with the *earlier* one.

    The verdict has been told by now, so trouble with the other recording is a sentence, and no failure.
    """
    from perfzero.report.ledger.build import build
    from perfzero.report.ledger.measure import iteration
    from perfzero.report.ledger.terminal import show_sentence

    try:
        ledger = build([iteration(earlier.name, [earlier]), iteration(path.name, [path])])
    except PerfzeroError as error:
        print(f"perfzero: {told(error.sentence, language)}", file=stream)
        return
    show_sentence(ledger, stream=stream, language=language)
    print(f"  perfzero compare {earlier} {path}\n", file=stream, flush=True)
