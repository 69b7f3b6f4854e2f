"""List the counters, what they resolve to on a chip, and what a name means."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from perfzero import metric_sets
from perfzero.aliases import Resolution, resolve
from perfzero.cli.formats import Format
from perfzero.cli.language import Language, lang_option, spoken
from perfzero.counters import BY_NAME, COUNTERS, Counter
from perfzero.errors import UsageError
from perfzero.metric_sets import ChipSet
from perfzero.report.voice import Voice
from perfzero.text import width
from perfzero.words.said import listed, say


def register(app: typer.Typer) -> None:
    """Add `perfzero metrics` to *app*."""
    app.command("metrics")(metrics)


def metrics(
    *,
    chip: Annotated[
        str | None, typer.Option(metavar="CHIP", help="What each counter is on this chip, e.g. GH100.")
    ] = None,
    find: Annotated[
        str | None, typer.Option(metavar="NAME", help="What this name means; any tool's name will do.")
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="Text for people or JSON.")] = Format.TEXT,
    language: Annotated[Language | None, lang_option()] = None,
) -> None:
    """
    List the counters: every name that perfzero's files use, with unit and meaning.

    Names from CUPTI, DCGM, NVML, Nsight, nvidia-smi and old tutorials can be looked up with --find.
    """
    if chip is not None and find is not None:
        raise UsageError(say("usage.chip_or_find"))
    voice = Voice(spoken(language))
    if find is not None:
        answer = _found(find)
        text = _found_text(answer, voice)
        data: Any = _found_json(answer)
    elif chip is not None:
        name, sets = _of_chip(chip)
        text = _chip_text(name, sets, voice)
        data = _chip_json(name, sets)
    else:
        text = _columns((c.name, *_measured_in(c, voice), voice.tell(c.doc)) for c in COUNTERS)
        data = [_counter_json(c) for c in COUNTERS]
    print(json.dumps(data, indent=2) if output is Format.JSON else text)


# --- one name ------------------------------------------------------------------------------


def _found(name: str) -> Resolution:
    found = resolve(name)
    if found.known:
        return found
    nearest = say("metrics.nearest", names=listed(found.nearest)) if found.nearest else say("metrics.all")
    raise UsageError(say("metrics.no_counter", asked=f"{found.asked!r}", nearest=nearest))


def _found_text(found: Resolution, say: Voice) -> str:
    if found.counter is None:
        return f"{say('metrics.none', asked=found.asked)}\n  {say.tell(found.note)}"
    counter = found.counter
    rows = [*([(found.asked, found.note)] if found.note else []), *_elsewhere(counter)]
    lines = [
        f"{counter.name}   {say.joined('join.list', _measured_in(counter, say))}",
        f"  {say.tell(counter.doc)}",
        *(f"  {say('metrics.row', name=name, told=told)}" for name, told in rows),
    ]
    return "\n".join(lines)


def _measured_in(counter: Counter, say: Voice) -> tuple[str, str]:
    """Unit and kind in words."""
    return say(f"unit.{counter.unit}"), say(f"kind.{counter.kind}")


def _elsewhere(counter: Counter) -> list[tuple[str, str]]:
    names = [
        ("CUPTI", ", ".join(counter.cupti)),
        ("DCGM", "" if counter.dcgm is None else str(counter.dcgm)),
        ("NVML GPM", "" if counter.gpm is None else str(counter.gpm)),
        ("Nsight Systems", counter.nsight or ""),
        ("OpenTelemetry", counter.otel or ""),
    ]
    return [(tool, name) for tool, name in names if name]


def _found_json(found: Resolution) -> dict[str, Any]:
    counter = None if found.counter is None else _counter_json(found.counter)
    return {"asked": found.asked, "counter": counter, "note": found.note}


def _counter_json(counter: Counter) -> dict[str, Any]:
    return {
        "name": counter.name,
        "unit": counter.unit,
        "kind": counter.kind,
        "origin": counter.origin,
        "doc": counter.doc,
        "cupti": list(counter.cupti),
        "dcgm": counter.dcgm,
        "gpm": counter.gpm,
        "nsight": counter.nsight,
        "otel": counter.otel,
    }


# --- one chip ------------------------------------------------------------------------------


def _of_chip(chip: str) -> tuple[str, dict[int, ChipSet]]:
    table = metric_sets.load()
    name = chip.strip().upper()
    sets = table.of_chip(name)
    if sets:
        return name, sets
    near = get_close_matches(name, table.chips(), n=3, cutoff=0.5)
    hint = (
        say("metrics.nearest", names=listed(near))
        if near
        else say("metrics.known", names=listed(table.chips()))
    )
    raise UsageError(say("metrics.no_chip", chip=f"{chip!r}", hint=hint))


def _chip_text(chip: str, sets: dict[int, ChipSet], say: Voice) -> str:
    parts = []
    for version, found in sets.items():
        left_out = ((name, f"– {say.tell(why)}") for name, why in found.left_out.items())
        rows = _columns(_ordered((*found.one_pass.items(), *left_out)))
        head = say("metrics.one_pass", chip=chip, version=version, count=len(found.one_pass))
        parts.append(f"{head}\n{rows}")
    return "\n\n".join(parts)


def _chip_json(chip: str, sets: dict[int, ChipSet]) -> dict[str, Any]:
    return {
        "chip": chip,
        "libcupti": {
            str(version): {"one_pass": dict(found.one_pass), "left_out": dict(found.left_out)}
            for version, found in sets.items()
        },
    }


def _ordered(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """In the order of the vocabulary, which is that of priority."""
    places = {name: place for place, name in enumerate(BY_NAME)}
    return sorted(rows, key=lambda row: places.get(row[0], len(places)))


def _columns(rows: Iterable[Sequence[str]]) -> str:
    """Left-aligned columns, two blanks apart."""
    lines = [tuple(row) for row in rows]
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell + " " * (wide - width(cell)) for cell, wide in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
