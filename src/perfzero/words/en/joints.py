"""What stands between the parts of a sentence, and the nouns that are counted."""

from __future__ import annotations

from collections.abc import Mapping

JOINTS: Mapping[str, str] = {
    "clause": "{sentence}",
    "within": "{sentence}",
    "first_line": "{message}",
    "full_stop": ".",
    "join.and": "{first} and {last}",
    "join.or": " or ",
    "join.list": ", ",
    "join.clauses": ", ",
    "join.semicolons": "; ",
    "join.sentences": " ",
    "join.nothing": "",
    "join.lines": "\n",
    "join.dots": " · ",
    "counted.step": "{count} step",
    "counted.steps": "{count} steps",
    "counted.gap": "{count} gap",
    "counted.gaps": "{count} gaps",
}
