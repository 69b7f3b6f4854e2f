"""Measure what this GPU can do in practice, so that reports hold programs against it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfzero import __version__
from perfzero.cli.formats import Format
from perfzero.cli.language import Language, lang_option, spoken
from perfzero.errors import InputError, NoGpu, OutputError, UsageError
from perfzero.text import percent, printable, quantity, width
from perfzero.words.said import say
from perfzero.words.told import told

if TYPE_CHECKING:  # other commands do without it, and without NumPy
    from perfzero.record.kept_roofs import Calibration

ROWS = (
    ("triad", say("roof.dram"), "bytes/s"),
    ("copy", say("roof.copy"), "bytes/s"),
    ("l2_chain", say("roof.l2_chain"), "bytes/s"),
    ("l2_reread", say("roof.l2"), "bytes/s"),
    ("pcie_rx", say("roof.pcie_to"), "bytes/s"),
    ("pcie_tx", say("roof.pcie_from"), "bytes/s"),
    ("bf16", say("roof.bf16"), "flop/s"),
    ("fp16", say("roof.fp16"), "flop/s"),
    ("tf32", say("roof.tf32"), "flop/s"),
    ("fp32", say("roof.fp32"), "flop/s"),
)
"""What was measured, in the order it is shown: name, meaning, unit."""

WIDTH = 27
"""Columns for a meaning: the longest there is, in any language."""


def register(app: typer.Typer) -> None:
    """Add `perfzero calibrate` to *app*."""
    app.command("calibrate")(calibrate)


def calibrate(
    *,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="LIST", help="GPUs by NVML index or UUID, e.g. 0,1; else all."),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            "--python", metavar="PATH", help="A Python that has torch or cupy [this one, or python3]."
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=1, max=120, help="How long to measure each GPU.")
    ] = 6.0,
    force: Annotated[bool, typer.Option("--force", help="Measure though the GPU is in use.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Only print what was measured earlier.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Remove what was measured earlier.")] = False,
    output: Annotated[Format, typer.Option("--format", help="Text for people or JSON.")] = Format.TEXT,
    language: Annotated[Language | None, lang_option()] = None,
) -> None:
    """
    Measure what this GPU can do in practice: memory, L2, PCIe, matrix products.

    Takes some seconds on an idle GPU, changes nothing there, and needs a Python that has torch or
    cupy. Reports of later recordings hold the program against it instead of against a table.
    """
    if show and forget:
        raise UsageError(say("usage.show_forget"))
    if not show:
        _refuse_sudo()

    def tell(sentence: str) -> None:
        print(told(sentence, spoken(language)), file=sys.stderr)

    names = () if gpu is None else tuple(part.strip() for part in gpu.split(",") if part.strip())
    if show or forget:
        found = _kept(names) if show else _forget(names)
    else:
        found = _measure(names, python=python, seconds=seconds, force=force, tell=tell)
    if output is Format.JSON:
        print(json.dumps(to_json(found), indent=2, allow_nan=False))
        return
    for calibration in found:
        print(words(calibration, spoken(language)))
    if forget:
        tell(say("calibrate.forgotten", count=len(found)))
    elif not found:
        tell(say("calibrate.nothing"))


def to_json(calibrations: Sequence[Calibration]) -> dict[str, object]:
    """The calibrations as a JSON document."""
    from perfzero.record.kept_roofs import own_path

    return {
        "perfzero": __version__,
        "path": str(own_path()),
        "calibrations": [asdict(c) for c in calibrations],
    }


def words(calibration: Calibration, language: str = "en") -> str:
    """One calibration for people."""
    day = datetime.fromtimestamp(calibration.measured_ns / 1e9, timezone.utc)
    framework, driver = printable(calibration.framework), printable(calibration.driver)
    measured = say(
        "calibrate.measured",
        day=f"{day:%Y-%m-%d %H:%M}",
        framework=framework,
        driver=driver or say("answer.unknown"),
    )
    lines = [f"{printable(calibration.name)}  {printable(calibration.uuid)}", told(measured, language)]
    for name, meaning, unit in ROWS:
        if name in calibration.rates:
            what = told(meaning, language)
            beside = " " * (WIDTH - width(what))
            value = quantity(calibration.rates[name], unit)
            lines.append(f"  {what}{beside} {value:>11}{told(_held(name, calibration), language)}")
    return "\n".join(lines)


def _held(name: str, calibration: Calibration) -> str:
    """What a rate is held against: the link, or the peak at the clock of that moment."""
    if name not in calibration.roofs:
        return ""
    share = percent(calibration.roofs[name])
    clock = calibration.sm_clock_hz.get(name)
    if clock is None:
        return say("calibrate.of_link", share=share)
    return say("calibrate.of_peak", share=share, clock=f"{clock / 1000000000.0:.2f}")


def _refuse_sudo() -> None:
    """Raise `UsageError` where a user called us through sudo: their Python and their file are not root's."""
    from perfzero.record.launch import invoking_user

    user = invoking_user()
    if user is not None:
        raise UsageError(say("calibrate.sudo", user=user.name))


def _measure(
    names: Sequence[str],
    *,
    python: str | None,
    seconds: float,
    force: bool,
    tell: Callable[[str], None],
) -> list[Calibration]:
    from perfzero.record.calibrate import calibrate as measure
    from perfzero.record.calibrate import choose_python, refuse_busy
    from perfzero.record.kept_roofs import own_path, read
    from perfzero.sources import nvml

    path = own_path()
    read(path)  # what cannot be read is said before the work, not after it
    gpus = nvml.select(names) if names else nvml.discover()
    if not gpus:
        raise NoGpu(say("gpu.none"))
    chosen = choose_python(python)
    if not force:
        for each in gpus:
            refuse_busy(each)
    found = []
    for each in gpus:
        tell(say("calibrate.measuring", index=each.index, name=printable(each.name), chosen=chosen))
        found.append(
            measure(each, python=chosen, seconds=seconds, tell=lambda said: tell(say("main.says", said=said)))
        )
        # At once, so that it outlasts whatever befalls the next GPU, and beside what stands there by
        # now: another perfzero, on a node with the same home, may have written meanwhile.
        _write(path, [*(c for c in read(path) if not c.of(each)), found[-1]])
        tell(say("calibrate.kept", path=path))
    return found


def _kept(names: Sequence[str]) -> list[Calibration]:
    from perfzero.record.kept_roofs import own_path, read

    return [c for c in read(own_path()) if _named(c, names)]


def _forget(names: Sequence[str]) -> list[Calibration]:
    """Remove the calibrations of the GPUs called *names*, or all, and return what was removed."""
    from perfzero.record.kept_roofs import own_path, read

    path = own_path()
    try:
        kept = read(path)
    except InputError:
        if names:
            raise
        kept = ()  # a file that cannot be read can be removed
    _write(path, [c for c in kept if not _named(c, names)])
    return [c for c in kept if _named(c, names)]


def _named(calibration: Calibration, names: Sequence[str]) -> bool:
    """Whether one of *names* (UUIDs, or indices of GPUs that are here) means its GPU; no name means all."""
    if not names or calibration.uuid in names:
        return True
    numbers = [n for n in names if n.isdigit()]
    if not numbers:
        return False
    from perfzero.sources import nvml

    return calibration.uuid in {g.uuid for g in nvml.select(numbers)}


def _write(path: Path, calibrations: Sequence[Calibration]) -> None:
    """Let the file hold just *calibrations*; without any there is none."""
    from perfzero.record.kept_roofs import document
    from perfzero.report.atomic import write_whole

    try:
        if not calibrations:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, document(calibrations))
    except OSError as error:
        raise OutputError(say("calibrate.not_kept", path=path, why=error.strerror)) from error
