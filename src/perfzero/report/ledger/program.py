"""
Which program a recording is of: the command that was run, without the logs it is told to write.

Two runs of one program write two logs; every other word of the command may be what was changed. Of a program
that was attached to nothing is known here. A recording may come from anyone: its words are told on one line,
and not all of a long one.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from perfzero.store.schema import Manifest
from perfzero.text import printable

LONGEST = 160
"""Characters of a fact that are told: two lines. What tells two commands apart often stands at the end."""

LOOK_EVERY_S = 3600.0
"""Between windows of a close look of `perfzero top`, which has one."""


def program_of(command: Sequence[str]) -> str | None:
    """The program that *command* runs, as it is compared; None where nothing was launched."""
    words, skip = [], False
    for word in command:
        if not skip and word != "--log":
            words.append(word)
        skip = word == "--log"
    return shlex.join(words) if words else None


def short(line: str) -> str:
    """*line* as it is shown: printable, its middle left out if it is long."""
    line = printable(line)
    return line if len(line) <= LONGEST else f"{line[: LONGEST * 2 // 3]} … {line[-LONGEST // 3 :]}"


def is_close_look(manifest: Manifest) -> bool:
    """Whether it is a close look at a GPU that `perfzero top` kept, which is no iteration of a program."""
    every = manifest.settings.get("every_s")
    watched = manifest.process.command or manifest.process.pid is not None
    return not watched and isinstance(every, (int, float)) and every >= LOOK_EVERY_S
