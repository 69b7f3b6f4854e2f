"""All GPUs of this machine, live: what they really do, and nvidia-smi's number beside it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfzero.cli.durations import seconds, show
from perfzero.cli.formats import Format
from perfzero.cli.language import Language, lang_option, spoken
from perfzero.cli.record import free_folder, give_to_invoker, load_numpy, missing_folders
from perfzero.errors import NoGpu, UsageError
from perfzero.words.said import first_line, joined, say

if TYPE_CHECKING:
    from perfzero.live.lines import Glyphs
    from perfzero.live.reading import Reading
    from perfzero.values import Gpu

QUICKEST_S, SLOWEST_S = 0.2, 60.0
"""GPM gives no averages over less than 0.1 s, and a display that moves once a minute is no display."""

WIDTH = 100
"""Of plain text where no terminal says otherwise, as of reports."""

ONCE_S = 1.0
"""What `--once` averages over, where a longer time between refreshes is not asked for."""


def register(app: typer.Typer) -> None:
    """Add `perfzero top` to *app*."""
    app.command("top")(top)


def top(
    *,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="LIST", help="GPUs by NVML index or UUID, e.g. 0,1; else all."),
    ] = None,
    every: Annotated[str, typer.Option("--every", metavar="T", help="From one refresh to the next.")] = "1s",
    once: Annotated[
        bool, typer.Option("--once", help="Print one reading and end; so it is where no terminal is.")
    ] = False,
    output: Annotated[
        Format, typer.Option("--format", help="A display for people, or a line of JSON per refresh.")
    ] = Format.TEXT,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", metavar="DIR", help="Show a recording at its pace; no GPU is needed."),
    ] = None,
    only_ascii: Annotated[
        bool, typer.Option("--ascii", help="Draw with ASCII only [where the locale has nothing else].")
    ] = False,
    language: Annotated[Language | None, lang_option()] = None,
) -> None:
    """
    Show what all GPUs do now, beside what nvidia-smi says.

    Reads NVML and its GPM averages, which cost the programs on the GPUs nothing. A key asks for a close
    look: a few seconds of hardware sampling, and the verdict.
    """
    every_s = seconds(every, option="--every", low=QUICKEST_S, high=SLOWEST_S)
    if gpu is not None and replay is not None:
        raise UsageError(say("usage.gpu_or_replay"))
    load_numpy()
    single = once or (output is Format.TEXT and not on_terminal())
    reading = opened(gpu, replay, every_s=every_s)
    try:
        if single:
            reading.forward()
        if output is Format.JSON:
            print_json(reading, every_s=every_s, once=once)
        elif single:
            glyphs = glyphs_for(only_ascii=only_ascii)
            print_once(reading, every_s=max(every_s, ONCE_S), glyphs=glyphs, language=spoken(language))
        else:
            from perfzero.live.top import show as show_display

            glyphs = glyphs_for(only_ascii=only_ascii)
            code = show_display(
                reading,
                every_s=every_s,
                every=show(every_s),
                glyphs=glyphs,
                new_folder=folder_for_look,
                language=spoken(language),
            )
            if code:
                raise typer.Exit(code)
    finally:
        reading.close()


def opened(gpu: str | None, replay: Path | None, *, every_s: float) -> Reading:
    """What is shown, opened. Raises `NoGpu` with what unlocks one, as the doctor says it."""
    from perfzero.live.reading import Machine, Replayed

    reading: Machine | Replayed
    if replay is not None:
        from perfzero.store.reader import open_recording

        reading = Replayed(open_recording(replay), every_s=every_s)
    else:
        wanted = [part.strip() for part in (gpu or "").split(",") if part.strip()]
        if gpu is not None and not wanted:
            raise UsageError(say("usage.gpu"))
        reading = Machine(wanted, every_s=every_s)
    try:
        reading.open()
    except NoGpu as error:
        raise NoGpu(doctors_sentence(error)) from error
    return reading


def doctors_sentence(error: NoGpu) -> str:
    """What `perfzero doctor` says of a machine without a GPU, and the line that would give it one."""
    from perfzero.doctor.examine import examine
    from perfzero.doctor.machine import Machine

    facts = examine(Machine(), quick=True)
    reason = facts.no_gpu or first_line(error.sentence)
    said: list[str] = [say("doctor.no_gpu", why=reason)]
    for unlock in facts.unlocks[:1]:
        said += [say("doctor.more", gain=unlock.gain), *([f"  {unlock.command}"] if unlock.command else [])]
    return joined("join.lines", [*said, say("top.without")])


def folder_for_look(gpu: Gpu) -> Path:
    """A new folder for the recording of a close look: where recordings lie, or where one can be made."""
    from perfzero.cli.analyze import RUNS
    from perfzero.record.session import Target

    made = missing_folders(RUNS)
    try:
        folder = free_folder(RUNS, Target(gpus=(str(gpu.index),)))
        give_to_invoker(folder, [folder, *made], report=False)
        return folder
    except UsageError:
        import tempfile

        return Path(tempfile.mkdtemp(prefix=f"perfzero-gpu{gpu.index}-"))


def print_once(reading: Reading, *, every_s: float, glyphs: Glyphs, language: str) -> None:
    """One reading over *every_s* seconds as plain text."""
    from perfzero.live.lines import NARROWEST, View, words

    time.sleep(every_s)
    width = max(NARROWEST, shutil.get_terminal_size((WIDTH, 0)).columns)
    snapshot = reading.read()
    view = View(every=show(every_s))
    sys.stdout.write(words(snapshot, view, width=width, glyphs=glyphs, language=language))


def print_json(reading: Reading, *, every_s: float, once: bool) -> None:
    """A line of JSON per refresh until somebody ends it, or the reader closes the pipe."""
    from perfzero.live.json_lines import to_json

    due = time.monotonic()
    while True:
        due = max(due + every_s, time.monotonic())  # no hurry to make up for a time of sleep
        time.sleep(max(0.0, due - time.monotonic()))
        sys.stdout.write(to_json(reading.read()))
        sys.stdout.flush()
        if once:
            return


def on_terminal() -> bool:
    """Whether there is a terminal that can be drawn on: keys come from it, and the cursor moves."""
    if os.environ.get("TERM", "dumb") in ("", "dumb"):
        return False
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def glyphs_for(*, only_ascii: bool) -> Glyphs:
    """Block characters, or ASCII where the locale has none or the terminal is dumb."""
    from perfzero.live.lines import ASCII, UNICODE

    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    dumb = os.environ.get("TERM") == "dumb"
    return ASCII if only_ascii or dumb or not encoding.startswith("utf") else UNICODE
