"""What the panel below the live figures says: help, what a close look costs, how far it is, its verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from rich.cells import cell_len as columns

from perfzero.limits import CHOICE, Limit
from perfzero.live.close_look import LOOK_S, SET_UP_S, Looked
from perfzero.live.snapshot import GpuNow
from perfzero.report.voice import Voice
from perfzero.text import BREAK, glued, printable, unglued
from perfzero.words.told import told

IDLE_SHARE: Annotated[float, Limit("ratio", CHOICE)] = 0.005
"""A GPU that worked less than this in the last minute has nothing that could be looked at."""

KEYS_WIDE, DOES_WIDE = 15, 19
"""Columns of the keys on the left and of what they do, in either language, two spaces at least after each."""

_JOINER = "\u200d"
"""Makes one sign of the two around it."""


def help_lines(say: Voice) -> list[str]:
    """What keys and figures mean."""
    rows = (
        (say("top.keys_choose"), say("top.does_choose"), "c", say("top.does_look")),
        ("s", say("top.does_sort"), "p", say("top.does_pause")),
        ("PgUp, PgDn", say("top.does_scroll"), "w", say("top.does_write")),
        ("?", say("top.does_help"), "q", say("top.does_end")),
    )
    keys = [
        f"{_padded(key, KEYS_WIDE)}{_padded(does, DOES_WIDE)}{other}  {also}"
        for key, does, other, also in rows
    ]
    return [*keys, "", say("top.help_figures"), say("top.help_time")]


def _padded(words: str, width: int) -> str:
    return words + " " * (width - columns(words))


def before(gpu: GpuNow, say: Voice) -> list[str]:
    """What a close look at *gpu* costs, before it is begun."""
    whole = f"{LOOK_S + SET_UP_S:.0f}"
    said = [
        say("top.look_takes", gpu=gpu.gpu.index, length=f"{LOOK_S:.0f}", whole=whole),
        say("top.look_costs"),
        say("top.look_excludes"),
    ]
    if gpu.shares.get("idle", 0.0) > 1 - IDLE_SHARE:
        said.append(say("top.look_idle"))
    return [*said, "", say("top.keys_asked")]


def during(index: int, say: Voice, *, elapsed_s: float, takes_s: float, judging: bool) -> list[str]:
    """How far it is."""
    if judging:
        return [say("top.judging", gpu=index)]
    left = max(0.0, takes_s - elapsed_s)
    when = say("top.seconds_more", left=f"{left:.0f}") if left >= 0.5 else say("top.closing")
    return [say("top.sampling", gpu=index, when=when), "", say("top.keys_looking")]


def without_verdict(looked: Looked, say: Voice) -> list[str]:
    """Why there is no verdict, and what would give one."""
    if looked.ending == "recorded":
        return []
    first = say(f"top.look_{looked.ending}")
    after = say(f"top.after_{looked.ending}") if looked.ending in ("busy", "refused") else ""
    return [line for line in (first, *told(looked.words, say.language).splitlines(), after) if line]


def verdict(report: str, folder: Path, say: Voice) -> list[str]:
    """The report in *report*, and where the recording lies."""
    lines = report.strip("\n").splitlines()
    return [*lines, "", f"  {say('top.recording', folder=printable(str(folder)))}"]


def wrapped(lines: Sequence[str], width: int) -> list[str]:
    """
    *lines* broken where they are wider than *width*, at a space or between Chinese characters.

    As wide as rich measures them, by which they are drawn: an accent of its own takes no column, and a sign
    that is told to be an emoji (U+FE0F) one more.
    """
    import textwrap

    out: list[str] = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()))
        if line.isascii() or all(columns(c) == 1 for c in line):
            out += textwrap.wrap(line, width, subsequent_indent=indent, drop_whitespace=True) or [""]
        else:
            out += _wrapped_wide(line, indent, width)
    return out


def _wrapped_wide(line: str, indent: str, width: int) -> list[str]:
    """As `textwrap` does it, which counts characters and not columns."""
    out: list[str] = []
    row = indent
    for gap, word in re.findall(f"([ {BREAK}]*)([^ {BREAK}]+)", glued(line[len(indent) :])):
        between = gap.replace(BREAK, "") if row.strip() else ""
        if row.strip() and columns(row + between + word) > width:
            out.append(row)
            row, between = indent, ""
        row += between + word
        if columns(row) > width:
            *full, row = _pieces(row, width)
            out += full
    return [unglued(each) for each in (*out, row)]


def _pieces(row: str, width: int) -> list[str]:
    """*row* in pieces no wider than *width*, one at least; what is seen as one character stays whole."""
    pieces, room = [""], width
    for seen in _seen_as_one(row):
        takes = columns(seen)
        if takes > room and pieces[-1]:
            pieces.append("")
            room = width
        pieces[-1] += seen
        room -= takes
    return pieces


def _seen_as_one(row: str) -> Iterator[str]:
    """Characters, each with the accents and selectors behind it, and with what a joiner (U+200D) adds."""
    start = place = 0
    while place < len(row):
        if row[place] == _JOINER:
            place += 2  # one that is itself joined joins nothing
            continue
        if place > start and columns(row[place]):
            yield row[start:place]
            start = place
        place += 1
    yield row[start:]
