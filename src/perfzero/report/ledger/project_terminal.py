"""The iterations of a project as a table, and whether to stop."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any, TextIO

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfzero import text
from perfzero.report.console import write
from perfzero.report.ledger import shown
from perfzero.report.ledger.project import Project, Row, Stop
from perfzero.report.voice import Voice
from perfzero.series.compare import Difference

_NAME = 44
"""Characters of a recording's name; the end says when, which stands beside it."""

_NUMBER = 3
_COLUMNS = {"step": 9, "before": 16, "first": 9}
"""Widths."""

_COLOUR = {"more": "green", "less": "red", "same": "dim", "unknown": "dim"}


def show(project: Project, *, stream: TextIO, language: str = "en", width: int | None = None) -> None:
    """Write the project to *stream*; *width* as for a report, 80 at least."""
    page = Padding(Group(*_page(project, Voice(language))), (0, 0, 0, 2))
    write(page, stream=stream, width=width, least=80)


def _page(project: Project, say: Voice) -> Iterator[RenderableType]:
    yield ""
    if project.left_out:
        yield Text(say("log.left_out", count=project.left_out), style="dim")
    yield _grid(["", say("log.column_recording"), *(say(f"log.column_{n}") for n in _COLUMNS)], style="dim")
    for number, row in enumerate(project.rows, start=project.left_out + 1):
        yield _grid([str(number), *_cells(row, say)])
        for line, style in _below(row, say):
            yield Padding(Text(text.glued(line), style=style), (0, 0, 0, _NUMBER + 2))
    if project.looks:
        yield Text(say("log.looks", count=project.looks), style="dim")
    yield ""
    yield Text(text.glued(stop_words(project.stop, say)), style="bold")
    yield ""


def _grid(cells: Sequence[RenderableType], *, style: str = "") -> RenderableType:
    """A row of the table; what stands below it takes the whole width."""
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(justify="right", no_wrap=True, width=_NUMBER, style=style)
    grid.add_column(ratio=1, no_wrap=True, style=style, overflow="ellipsis")
    for width in _COLUMNS.values():
        grid.add_column(justify="right", no_wrap=True, width=width, style=style)
    grid.add_row(*cells)
    return grid


def _cells(row: Row, say: Voice) -> Iterator[RenderableType]:
    name = text.printable(row.name)
    when = (
        f"{datetime.fromtimestamp(row.created_ns / 1e9, timezone.utc):%m-%d %H:%M}" if row.created_ns else ""
    )
    yield Text(f"{when}  {name if len(name) <= _NAME else f'{name[: _NAME - 1]}…'}".strip(), style="bold")
    yield "" if math.isnan(row.step_s) else shown.value(row.step_s, "seconds")
    yield _change(row.before, say)
    yield _change(row.first, say)


def _change(found: Difference | None, say: Voice) -> RenderableType:
    if found is None:
        return ""
    return Text(shown.marked(found, "count/s", say), style=_COLOUR[found.word])


def _below(row: Row, say: Voice) -> Iterator[tuple[str, str]]:
    if row.trouble:
        yield say("log.trouble", why=text.printable(row.trouble)), "red"
    if row.headline:
        yield say.tell(row.headline), ""
    if not row.trouble and math.isnan(row.step_s):
        yield say("log.no_step"), "dim"
    for fact in row.machine:
        yield say("log.machine", fact=text.printable(fact)), "yellow"
    if row.program:
        yield say("log.program", command=row.program), "yellow"
    for note in row.notes:
        yield say("log.note", note=text.printable(note)), "italic"


def stop_words(stop: Stop, say: Voice) -> str:
    """Whether to stop, in a sentence or two."""
    if stop.why == "unknown":
        return say("log.stop_unknown")
    if stop.why in ("roof", "nothing"):
        key = "log.stop_roof" if stop.why == "roof" else "log.stop_nothing"
        return say(key, roof=say.tell(stop.roof))
    gain = "" if stop.gain is None else text.times(stop.gain.low, stop.gain.high)
    if stop.why == "little":
        return say("log.stop_little", gain=gain, below=text.percent(stop.below))
    told = say("log.go_on", remedy=say.within(stop.remedy), gain=gain)
    if not stop.next_limit:
        return told
    return say("join.sentences").join([told, say("log.go_on_limit", limit=say.tell(stop.next_limit))])


def document(project: Project) -> dict[str, Any]:
    """The project as JSON values, NaN among them."""
    return {
        "schema": 1,
        "folder": project.folder,
        "left_out": project.left_out,
        "close_looks": project.looks,
        "recordings": [asdict(row) for row in project.rows],
        "stop": asdict(project.stop),
    }
