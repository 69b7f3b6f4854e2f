"""
Lines for a reader to type or to paste, which a shell reads back as they were meant.

A line is one line: newlines and whatever else moves a cursor, is invisible or looks like another character
stand in $'...' as their bytes, which bash, zsh and ksh read (and POSIX since 2024). So it may be shown as it
is, whoever its words come from.
"""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Sequence

LAST = "last"
"""What names the newest recording in ./perfzero-runs where a recording is asked for."""

_ESCAPED = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def typed(words: Sequence[str]) -> str | None:
    """The line that calls a program with *words*; None for words that no program can be called with."""
    if any("\0" in word for word in words):
        return None
    return " ".join(map(_word, words))


def folder(path: str) -> str:
    """*path* as an argument: one that would be an option, or mean the last one, begins with "./"."""
    return f"./{path}" if path.startswith("-") or path == LAST else path


def _word(word: str) -> str:
    if all(map(_shows, word)):
        return shlex.quote(word)
    return f"$'{''.join(c if _shows(c) and c not in _ESCAPED else _escape(c) for c in word)}'"


def _shows(character: str) -> bool:
    """Whether it can be seen, and told from all others; of spaces only the one that everybody types."""
    return character == " " or not (character.isspace() or unicodedata.category(character)[0] == "C")


def _escape(character: str) -> str:
    # What a command line has of bytes that are no text, Python keeps as a lone surrogate each.
    lone = "\udc80" <= character <= "\udcff"
    raw = character.encode("utf-8", "surrogateescape" if lone else "surrogatepass")
    return _ESCAPED.get(character) or "".join(f"\\{byte:03o}" for byte in raw)
