"""Measure what this GPU can do in practice, so that reports hold programs against it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfzero import __version__
from perfzero.cli.formats import Format
from perfzero.errors import InputError, NoGpu, OutputError, UsageError
from perfzero.text import percent, printable, quantity

if TYPE_CHECKING:  # other commands do without it, and without NumPy
    from perfzero.record.kept_roofs import Calibration

ROWS = (
    ("triad", "device memory, c = a + s b", "bytes/s"),
    ("copy", "device memory, copy", "bytes/s"),
    ("l2_chain", "L2, elementwise", "bytes/s"),
    ("l2_reread", "L2, row sums", "bytes/s"),
    ("pcie_rx", "PCIe to the GPU", "bytes/s"),
    ("pcie_tx", "PCIe from the GPU", "bytes/s"),
    ("bf16", "bf16 product", "flop/s"),
    ("fp16", "fp16 product", "flop/s"),
    ("tf32", "tf32 product", "flop/s"),
    ("fp32", "fp32 product", "flop/s"),
)
"""What was measured, in the order it is shown: name, meaning, unit."""


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
) -> None:
    """
    Measure what this GPU can do in practice: memory, L2, PCIe, matrix products.

    Takes some seconds on an idle GPU, changes nothing there, and needs a Python that has torch or
    cupy. Reports of later recordings hold the program against it instead of against a table.
    """
    if show and forget:
        raise UsageError("--show and --forget exclude each other.\nUse one of them.")
    if not show:
        _refuse_sudo()
    names = () if gpu is None else tuple(part.strip() for part in gpu.split(",") if part.strip())
    if show or forget:
        found = _kept(names) if show else _forget(names)
    else:
        found = _measure(names, python=python, seconds=seconds, force=force)
    if output is Format.JSON:
        print(json.dumps(to_json(found), indent=2, allow_nan=False))
        return
    for calibration in found:
        print(words(calibration))
    if forget:
        print(f"Forgotten: {len(found)}.", file=sys.stderr)
    elif not found:
        print("No GPU has been calibrated here. To do so: perfzero calibrate", file=sys.stderr)


def to_json(calibrations: Sequence[Calibration]) -> dict[str, object]:
    """The calibrations as a JSON document."""
    from perfzero.record.kept_roofs import own_path

    return {
        "perfzero": __version__,
        "path": str(own_path()),
        "calibrations": [asdict(c) for c in calibrations],
    }


def words(calibration: Calibration) -> str:
    """One calibration for people."""
    day = datetime.fromtimestamp(calibration.measured_ns / 1e9, timezone.utc)
    lines = [
        f"{printable(calibration.name)}  {printable(calibration.uuid)}",
        f"  measured {day:%Y-%m-%d %H:%M} UTC with {printable(calibration.framework)}, "
        f"driver {printable(calibration.driver) or 'unknown'}",
    ]
    for name, meaning, unit in ROWS:
        if name in calibration.rates:
            value = quantity(calibration.rates[name], unit)
            lines.append(f"  {meaning:27} {value:>11}{_held(name, calibration)}")
    return "\n".join(lines)


def _held(name: str, calibration: Calibration) -> str:
    """What a rate is held against: the link, or the peak at the clock of that moment."""
    if name not in calibration.roofs:
        return ""
    share = percent(calibration.roofs[name])
    clock = calibration.sm_clock_hz.get(name)
    if clock is None:
        return f"   {share} of the link"
    return f"   {share} of the peak at {clock / 1e9:.2f} GHz"


def _refuse_sudo() -> None:
    """Raise `UsageError` where a user called us through sudo: their Python and their file are not root's."""
    from perfzero.record.launch import invoking_user

    user = invoking_user()
    if user is not None:
        raise UsageError(
            f"Through sudo the Python of {user.name} would run as root, and write a file of root's.\n"
            "It needs no root, so run it without sudo: perfzero calibrate"
        )


def _measure(names: Sequence[str], *, python: str | None, seconds: float, force: bool) -> list[Calibration]:
    from perfzero.record.calibrate import calibrate as measure
    from perfzero.record.calibrate import choose_python, refuse_busy
    from perfzero.record.kept_roofs import own_path, read
    from perfzero.sources import nvml

    path = own_path()
    read(path)  # what cannot be read is said before the work, not after it
    gpus = nvml.select(names) if names else nvml.discover()
    if not gpus:
        raise NoGpu("The driver lists no GPU.\nWhat can be read on this machine: perfzero doctor")
    chosen = choose_python(python)
    if not force:
        for each in gpus:
            refuse_busy(each)
    found = []
    for each in gpus:
        print(f"Measuring GPU {each.index}, {printable(each.name)}, with {chosen} ...", file=sys.stderr)
        found.append(measure(each, python=chosen, seconds=seconds, tell=_say))
        # At once, so that it outlasts whatever befalls the next GPU, and beside what stands there by
        # now: another perfzero, on a node with the same home, may have written meanwhile.
        _write(path, [*(c for c in read(path) if not c.of(each)), found[-1]])
        print(f"Kept in {path}; recordings from now on are held against it.", file=sys.stderr)
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
        raise OutputError(
            f"The roofs cannot be kept in {path}: {error.strerror}.\n"
            "Choose another folder: XDG_CONFIG_HOME=/a/folder perfzero calibrate"
        ) from error


def _say(sentence: str) -> None:
    print(f"perfzero: {printable(sentence)}", file=sys.stderr)
