"""A page of the terminal onto a stream: in colour on a terminal, unless NO_COLOR is set, plain elsewhere."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console, RenderableType

from perfzero import text

WIDTH = 100
"""The widest a page gets, and its width where there is no terminal to ask."""


def write(page: RenderableType, *, stream: TextIO, width: int | None, least: int) -> None:
    """
    Write *page* to *stream*, without spaces at the ends of lines.

    *width* None: the terminal's, `WIDTH` at most and *least* at least; `WIDTH` where there is none.
    """
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    if width is None:
        width = max(least, min(console.width, WIDTH)) if console.is_terminal else WIDTH
    console.width = width
    with console.capture() as capture:
        console.print(page)
    for line in text.unglued(capture.get()).splitlines():
        stream.write(line.rstrip() + "\n")
    stream.flush()
