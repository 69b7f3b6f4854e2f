"""What stands between the parts of a sentence, and the nouns that are counted."""

from __future__ import annotations

from collections.abc import Mapping

JOINTS: Mapping[str, str] = {
    "clause": "{sentence}",
    "within": "{sentence}",
    "first_line": "{message}",
    "full_stop": "。",
    "join.and": "{first}和{last}",
    "join.or": "或",
    "join.list": "、",
    "join.clauses": "，",
    "join.semicolons": "；",
    "join.sentences": "",
    "join.nothing": "",
    "join.lines": "\n",
    "join.dots": " · ",
    "counted.step": "{count} 步",
    "counted.steps": "{count} 步",
    "counted.gap": "{count} 处空缺",
    "counted.gaps": "{count} 处空缺",
}
