"""
The ledger as a screenful: what became of the program in a sentence, then the figures that say so.

At most 100 columns. Two iterations stand beside each other with their difference and its interval; of more,
each is held against the one before it, and the intervals are left to files.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from io import StringIO
from typing import TextIO

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfzero import text
from perfzero.report.console import WIDTH, write
from perfzero.report.ledger import shown
from perfzero.report.ledger.model import GROUPS, Entry, Ledger, Line
from perfzero.report.ledger.model import Group as LineGroup
from perfzero.report.ledger.program import short
from perfzero.report.voice import Voice
from perfzero.series.compare import Difference

_INDENT = 2
_MOST_COLUMNS = 4
"""Iterations whose values fit beside each other: the last ones."""

_LONGEST = 32
"""Characters of an iteration's name; the end says most."""

_LAYERS = 12
"""Layers that are told, the first of them, which changed most; files have all."""

_COLOUR = {True: "green", False: "red", None: ""}


def show(ledger: Ledger, *, stream: TextIO, language: str = "en", width: int | None = None) -> None:
    """
    Write the ledger to *stream*: in colour on a terminal, unless NO_COLOR is set, plain elsewhere.

    *width* defaults to the terminal's, 100 at most and 80 at least; to 100 where there is none.
    """
    write(_page(ledger, Voice(language)), stream=stream, width=width, least=80)


def show_sentence(ledger: Ledger, *, stream: TextIO, language: str = "en") -> None:
    """Write to *stream* how the second of two iterations, this run, compares with the first."""
    say = Voice(language)
    before = text.printable(ledger.entries[0].name)
    said = shown.sentence(ledger, 1, say, names=(before, say("compare.this_run")))
    told = Text(text.glued(said[:1].upper() + said[1:]), style="bold")
    write(Padding(told, (0, 0, 0, _INDENT)), stream=stream, width=None, least=80)


def words(ledger: Ledger, *, language: str = "en", width: int = WIDTH) -> str:
    """The ledger as plain text, ending in a newline."""
    stream = StringIO()
    show(ledger, stream=stream, language=language, width=width)
    return stream.getvalue()


def _page(ledger: Ledger, say: Voice) -> RenderableType:
    parts: list[RenderableType] = [""]
    for place in range(1, len(ledger.entries)):
        parts.append(Text(text.glued(shown.sentence(ledger, place, say)), style="bold"))
    parts += ["", _entries(ledger, say)]
    told = [line for line in (shown.foresaw(ledger, p, say) for p in range(len(ledger.promises))) if line]
    if told:
        parts += ["", *(Text(text.glued(line)) for line in told)]
    for title, facts in (("compare.unlike", ledger.unlike), ("compare.differs", ledger.told)):
        if facts:
            style = "yellow" if title == "compare.unlike" else "dim"
            parts += ["", Text(say(title), style=style)]
            parts += [Padding(Text(text.glued(fact), style=style), (0, 0, 0, 2)) for fact in facts]
    twice = [path for entry in ledger.entries for path in entry.twice]
    if twice:
        paths = say.enumeration([short(path) for path in twice])
        parts += ["", Text(text.glued(say("compare.twice", paths=paths)), style="yellow")]
    for group in GROUPS:
        parts += _group(ledger, group, say)
    foot = [say("compare.record_longer")] if shown.is_unsure(ledger) else []
    foot.append(shown.family(ledger, say))
    if len(ledger.entries) > 2:
        foot.append(say("compare.marks"))
    parts += ["", Text(text.glued(say("join.sentences").join(foot)), style="dim"), ""]
    return Padding(Group(*parts), (0, 0, 0, _INDENT))


def _entries(ledger: Ledger, say: Voice) -> RenderableType:
    grid = Table.grid(padding=(0, 2), expand=True)
    for _ in range(3):
        grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    for entry in ledger.entries:
        grid.add_row(
            Text(entry.letter, style="bold"), _name(entry, say), _when(entry), Text(say.tell(entry.headline))
        )
    return grid


def _name(entry: Entry, say: Voice) -> str:
    name = text.printable(entry.name)
    name = name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
    runs = len(entry.paths)
    name = name if entry.gpu is None else f"{name}, GPU {entry.gpu}"
    return f"{name} ({say('compare.runs', count=runs)})" if runs > 1 else name


def _when(entry: Entry) -> str:
    if not entry.created_ns:
        return ""
    return f"{datetime.fromtimestamp(entry.created_ns / 1e9, timezone.utc):%Y-%m-%d %H:%M}"


def _group(ledger: Ledger, group: LineGroup, say: Voice) -> Iterator[RenderableType]:
    lines = _told(ledger, group)
    if not lines:
        return
    title = "share" if group == "time" and lines[0].unit == "ratio" else group
    last = len(ledger.entries) - 1
    first = max(0, last + 1 - _MOST_COLUMNS)
    letters = [entry.letter for entry in ledger.entries]
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False, header_style="dim")
    table.add_column(Text(say(f"compare.group_{title}"), style="bold"), no_wrap=True, min_width=20)
    for letter in letters[first:]:
        table.add_column(letter, justify="right", no_wrap=True, min_width=9)
    for place in range(first + 1, last + 1):
        against = say("compare.column_change", before=letters[place - 1], after=letters[place])
        table.add_column(against, justify="right", no_wrap=True, min_width=11)
    if last == 1:
        table.add_column("", no_wrap=True)
    for line in lines:
        table.add_row(*_row(line, first=first, last=last, say=say))
    yield ""
    yield table


def _row(line: Line, *, first: int, last: int, say: Voice) -> Iterator[Text]:
    yield Text(say.tell(line.label))
    for cell in line.cells[first:]:
        yield Text(shown.value(cell.value, line.unit))
    if last > 1:  # no room for intervals
        for found in line.before[first + 1 :]:
            yield Text(shown.marked(found, line.unit, say), style=_colour(line, found))
        return
    found = line.before[last]
    span, word = shown.interval(found, line.unit, say), shown.word(line, found, say)
    yield Text(shown.change(found, line.unit, say), style=_colour(line, found))
    yield Text(f"({span}) {word}".strip() if span else word, style=_colour(line, found) or "dim")


def _colour(line: Line, found: Difference | None) -> str:
    if found is not None and found.word in ("same", "unknown"):
        return "dim"
    return _COLOUR[shown.is_better(line, found)]


def _told(ledger: Ledger, group: LineGroup) -> list[Line]:
    """The lines of *group* that are told: of the time, per step if there are steps, else shares."""
    lines = list(ledger.shown(group))
    if group == "time":
        per_step = [line for line in lines if line.unit == "seconds"]
        return per_step or lines
    if group == "layers":  # bytes are left to files
        return [line for line in lines if line.unit == "seconds"][:_LAYERS]
    return lines
