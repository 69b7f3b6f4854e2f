"""A page of the terminal onto a stream: in colour on a terminal, unless NO_COLOR is set, plain elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from perfzero import text

WIDTH = 100
"""The widest a page gets, and its width where there is no terminal to ask."""


@dataclass(frozen=True, slots=True)
class ToCopy:
    """
    A line to paste into a shell, `before` it what introduces it.

    It is wider than the page where it has to be: a terminal that breaks a line still copies one, and what
    is broken by us would be two. What is in it has to be harmless (`report.typed`).
    """

    before: Text
    line: str


def write(*parts: RenderableType | ToCopy, stream: TextIO, width: int | None, least: int) -> None:
    """
    Write the *parts* of a page to *stream*, without spaces at the ends of lines.

    *width* None: the terminal's, `WIDTH` at most and *least* at least; `WIDTH` where there is none.
    """
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    if width is None:
        width = max(least, min(console.width, WIDTH)) if console.is_terminal else WIDTH
    console.width = width
    with console.capture() as capture:
        for part in parts:
            if isinstance(part, ToCopy):
                console.print(part.before + part.line, soft_wrap=True)
            else:
                console.print(part)
    for line in text.unglued(capture.get()).splitlines():
        stream.write(line.rstrip() + "\n")
    stream.flush()
