"""Sentences for people stand in the catalogues of `perfzero.words`, and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import perfzero
from perfzero import errors

PACKAGE = Path(perfzero.__file__).parent

ELSEWHERE = {
    # Tables of facts, with the reason of each figure: pages in the documentation, which are English.
    "hardware.py",
    "diagnose/thresholds.py",
    # What fields of files mean, for programs.
    "report/schema.py",
    "report/tables.py",
    "report/perfetto.py",
    "report/perfetto_look.py",
    "report/perfetto_stacks.py",
    # Help texts, which are English.
    "cli/record.py",
    # Code that another process runs.
    "cli/judging.py",
}
"""Modules that hold sentences, and why they may."""

WORDS = 4
"""Fewer words and a full stop may be the end of anything."""


def literals(code: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string in *code* but docstrings; "X" where something is filled in."""
    tree = ast.parse(code)
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(id(node.value))  # docstrings of modules, functions and constants
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("Option", "Argument"):  # help texts
                left_out.update(id(inner) for inner in ast.walk(node))
        elif isinstance(node, ast.JoinedStr):
            left_out.update(id(part) for part in node.values)
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (v.value if isinstance(v, ast.Constant) else "X" for v in node.values)
            yield node.lineno, "".join(map(str, parts))


def is_sentence(text: str) -> bool:
    return len(re.findall(r"[A-Za-z]{2,}", text)) >= WORDS and bool(re.search(r"[a-z)X]\.(\n|$)", text))


def sentences(code: str) -> list[tuple[int, str]]:
    return [(line, text) for line, text in literals(code) if is_sentence(text)]


MODULES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if not str(path.relative_to(PACKAGE)).startswith(("words/", *ELSEWHERE))
]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_sentence_stands_in_the_catalogue(path: Path) -> None:
    assert sentences(path.read_text()) == []


def test_a_sentence_in_the_code_would_be_found() -> None:
    assert sentences('raise Error(f"{path} does not exist.\\nName another one.")')
    assert sentences('text = "The GPU waits for data."')
    assert not sentences('"""The GPU waits for data."""')
    assert not sentences('say("gate.lost", share=share)')


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_an_exception_is_still_one(name: str) -> None:
    path = PACKAGE / name
    files = [path] if path.suffix else sorted(path.rglob("*.py"))

    assert any(sentences(file.read_text()) for file in files)


ERRORS = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)
}
"""What perfzero raises on purpose, and every one of it is read by a person."""


def plain_errors(code: str) -> list[int]:
    """The lines of *code* in which an error is made of a string that knows no key."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ERRORS
        and node.args
        and isinstance(node.args[0], ast.Constant | ast.JoinedStr)
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_an_error_is_said_from_the_catalogue(path: Path) -> None:
    assert plain_errors(path.read_text()) == []


def test_an_error_in_plain_words_would_be_found() -> None:
    assert plain_errors('raise UsageError("--pid takes a number")') == [1]
    assert plain_errors('raise UsageError(say("usage.pid"))') == []
    assert plain_errors('raise ValueError("for programmers")') == []
