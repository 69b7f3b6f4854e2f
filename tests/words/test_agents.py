"""What agents in the observed program answer is in the catalogue, though they can import nothing of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import perfzero
from perfzero.words.told import recalled, told

AGENTS = sorted((Path(perfzero.__file__).parent / "record" / "agent").glob("_perfzero_*.py"))

REASON = re.compile(r"it [a-z]+|[a-zA-Z]+ [a-z]+ [a-zA-Z].*")
"""Three words, or of a process two: what is no name, no key and no path."""

CODE = re.compile(r"[{}|\\/]|^Memcpy|Static|per thread")
"""What is none of the sentences: parts of JSON, of paths and of names of events."""


def reasons(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    parts = {id(v) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for v in node.values}
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | docs:
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(v.value) if isinstance(v, ast.Constant) else "7" for v in node.values)
        else:
            continue
        if REASON.fullmatch(text) and not CODE.search(text):
            yield text


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_what_an_agent_answers_can_be_told_in_another_language(path: Path) -> None:
    assert [reason for reason in reasons(path) if recalled(reason) is None] == []


def test_the_reasons_of_agents_are_found() -> None:
    found = [reason for path in AGENTS for reason in reasons(path)]

    assert "it is a worker of another process" in found
    assert len(found) > 25
    assert all(re.search("[\u4e00-\u9fff]", told(reason, "zh")) for reason in found)
