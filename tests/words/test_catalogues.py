"""The catalogues hold the same sentences in each language, and all that the code says."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Formatter

import pytest

import perfzero
from perfzero.words.catalogue import LANGUAGES, catalogue

PACKAGE = Path(perfzero.__file__).parent
OTHERS = tuple(language for language in LANGUAGES if language != "en")

NAMES = {
    "clause",
    "join.dots",
    "join.lines",
    "join.nothing",
    "steps.nvlink",
    "tier.source",
    "main.says",
    "page.truth_smi",
    "page.sec_roofline",
    "page.nav_roofline",
    "page.track_nvlink",
    "top.row_smi",
}
"""Keys whose words are names or signs, and the same in all languages."""


def fields(template: str) -> set[str]:
    return {field for _, field, _, _ in Formatter().parse(template) if field is not None}


def same_in_both(key: str, other: Mapping[str, str]) -> bool:
    """Whether a sentence may be what it is in English: signs, names and fields only."""
    return key in NAMES or not re.search(r"[a-z]{2}", re.sub(r"\{.*?\}", "", other[key]))


@pytest.mark.parametrize("language", OTHERS)
def test_no_sentence_is_missing_in_a_language_and_none_is_there_for_nothing(language: str) -> None:
    english, other = catalogue("en"), catalogue(language)

    assert english.keys() - other.keys() == set()
    assert other.keys() - english.keys() == set()


@pytest.mark.parametrize("language", OTHERS)
def test_a_sentence_has_the_same_fields_in_each_language(language: str) -> None:
    english, other = catalogue("en"), catalogue(language)

    assert {k: fields(other[k]) for k in english} == {k: fields(english[k]) for k in english}


@pytest.mark.parametrize("language", OTHERS)
def test_a_sentence_is_translated(language: str) -> None:
    english, other = catalogue("en"), catalogue(language)

    assert [k for k in english if english[k].strip() and not other[k]] == []
    assert [k for k in english if english[k] == other[k] and not same_in_both(k, other)] == []


def test_a_chinese_sentence_has_chinese_marks_and_a_space_to_latin() -> None:
    """Code and options in it keep theirs."""
    chinese = catalogue("zh")
    han = "[\u4e00-\u9fff]"

    assert [k for k, s in chinese.items() if re.search(f"{han}[,;:!?]|[,;!?]{han}", s)] == []
    assert [k for k, s in chinese.items() if re.search(f"{han}[A-Za-z0-9]|[A-Za-z0-9%]{han}", s)] == []
    assert [k for k, s in chinese.items() if re.search(f"{han} {han}", s)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_key_stands_in_one_table_only(language: str) -> None:
    package = importlib.import_module(f"perfzero.words.{language}")
    found: Counter[str] = Counter()
    for module in pkgutil.iter_modules(package.__path__):
        table = next(
            value
            for name, value in vars(importlib.import_module(f"{package.__name__}.{module.name}")).items()
            if name.isupper()
        )
        found.update(table.keys())

    assert [key for key, times in found.items() if times > 1] == []
    assert found.keys() == catalogue(language).keys()


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Every place where a sentence is said by its key, or a `Voice` says it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        code = path.read_text()
        if not re.search(r"perfzero\.words\.said import .*\bsay\b|\bsay: Voice\b", code):
            continue
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say":
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node


def keys_of(node: ast.expr) -> Iterator[str]:
    """The keys that *node* may be; a "*" for what is only known when it runs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*keys_of(node.body), *keys_of(node.orelse))
    elif isinstance(node, ast.JoinedStr):
        yield "".join(v.value if isinstance(v, ast.Constant) else "*" for v in node.values)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from keys_of(value)
    else:
        yield "*"


def test_what_the_code_says_is_in_the_catalogue() -> None:
    english = catalogue("en")
    unknown = [
        (place, key)
        for place, call in calls()
        for key in keys_of(call.args[0])
        if key not in english
        and not any(re.fullmatch(re.escape(key).replace(r"\*", ".*"), known) for known in english)
    ]

    assert unknown == []


def test_what_the_code_fills_in_has_a_field() -> None:
    english = catalogue("en")
    wrong = []
    for place, call in calls():
        given = {keyword.arg for keyword in call.keywords}
        for key in keys_of(call.args[0]):
            if key in english and None not in given and fields(english[key]) != given:
                wrong.append((place, key, fields(english[key]) ^ given))

    assert wrong == []


SAID_ELSEWHERE = ("agent.", "page.")
"""What agents say is recalled only, and the page takes its phrases all at once."""


def strings() -> Iterator[str]:
    """Each string in the code but the catalogues; a "*" for what is only known when it runs."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.parent.parent == PACKAGE / "words":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                parts = [str(v.value) if isinstance(v, ast.Constant) else "*" for v in node.values]
                if re.match(r"[a-z_.]{3}", parts[0]):
                    yield "".join(parts)


def test_no_sentence_is_kept_that_nobody_says() -> None:
    said = set(strings())
    patterns = [re.compile(re.escape(text).replace(r"\*", ".+")) for text in said if "*" in text]
    kept = [key for key in catalogue("en") if not key.startswith(SAID_ELSEWHERE) and key not in said]

    assert [key for key in kept if not any(pattern.fullmatch(key) for pattern in patterns)] == []
