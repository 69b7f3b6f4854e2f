"""
Paths of modules in a model: names with dots between them, numbers for the parts of a list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"(?<![^.])[0-9]+(?![^.])")


def without_numbers(path: str) -> str:
    """*path* with "*" in place of each part that is a number."""
    return _NUMBER.sub("*", path)


def parent(path: str) -> str:
    """The path of the module above; empty for the whole model."""
    return path.rpartition(".")[0]


def ancestry(path: str) -> list[str]:
    """*path* and all above it, the root "" included."""
    found = [path]
    while found[-1]:
        found.append(parent(found[-1]))
    return found


def natural(path: str) -> list[tuple[int, str]]:
    """For ordering "layers.2" before "layers.10"."""
    return [
        (int(part), part) if part.isascii() and part.isdigit() else (-1, part) for part in path.split(".")
    ]


def pattern(paths: Sequence[str]) -> str:
    """What *paths*, alike but for numbers, have in common; "*" where they differ."""
    parts = zip(*(path.split(".") for path in paths), strict=True)
    return ".".join(part[0] if len(set(part)) == 1 else "*" for part in parts)
