"""`perfzero run --against`: after the verdict, how the new recording compares with an earlier one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from perfzero.cli.analyze import MANIFEST, RUNS, newest_recording
from perfzero.errors import NoRecording, PerfzeroError, UsageError
from perfzero.report.typed import LAST, folder, typed
from perfzero.words.said import say
from perfzero.words.told import told

MOST_BYTES = 4 << 20
"""A manifest that is larger is none that perfzero wrote."""


def chosen_earlier(named: str, *, report: bool, command: Sequence[str] = ()) -> Path:
    """
    The recording that `--against` names, before anything is started: of "last" the newest of *command*.

    Raises NoRecording where there is none, and UsageError for a command that makes no *report*.
    """
    if not report:
        raise UsageError(say("compare.against_record"))
    if named == LAST:
        return newest_of(command, RUNS)
    path = Path(named)
    if not (path / MANIFEST).exists():
        raise NoRecording(say("compare.against_nothing", folder=named))
    return path


def newest_of(command: Sequence[str], runs: Path) -> Path:
    """The newest recording in *runs* of *command*, else of any program; close looks are of none."""
    from perfzero.report.ledger.program import is_close_look, program_of
    from perfzero.store.redact import redact_command
    from perfzero.store.regular import open_regular
    from perfzero.store.schema import manifest_from_json

    wanted = program_of(redact_command(command))  # as it is recorded
    found: list[tuple[bool, int, Path]] = []
    for manifest in runs.glob(f"*/{MANIFEST}"):
        try:
            with open_regular(manifest) as file:
                read = manifest_from_json(json.loads(file.read(MOST_BYTES)))
            written_ns = manifest.stat().st_mtime_ns
        except (OSError, ValueError, RecursionError):
            continue  # it may be half written, or hostile: it is not what anybody means by the last one
        if not is_close_look(read):
            same = bool(command) and program_of(read.process.command) == wanted
            found.append((same, written_ns, manifest.parent))
    return max(found)[2] if found else newest_recording(runs)


def compare_with(earlier: Path, path: Path, *, stream: TextIO, language: str = "en") -> None:
    """
    Say on *stream* how the recording at *path* compares with the *earlier* one.

    The verdict has been told by now, so trouble with the other recording is a sentence, and no failure.
    """
    from perfzero.report.ledger.build import build
    from perfzero.report.ledger.measure import iteration
    from perfzero.report.ledger.program import program_of, short
    from perfzero.report.ledger.terminal import show_sentence

    try:
        before = iteration(earlier.name, [earlier])
        after = iteration(path.name, [path], like=before)
        ledger = build([before, after])
    except PerfzeroError as error:
        print(f"perfzero: {told(error.sentence, language)}", file=stream)
        return
    show_sentence(ledger, stream=stream, language=language)
    ran, earlier_ran = (program_of(one.first.manifest.process.command) for one in (after, before))
    if ran is not None and earlier_ran is not None and ran != earlier_ran:
        other = say("compare.another_program", command=short(earlier_ran))
        print(f"  {told(other, language)}", file=stream)
    again = typed(("perfzero", "compare", *(folder(str(one)) for one in (earlier, path))))
    print(f"  {again}\n", file=stream, flush=True)
