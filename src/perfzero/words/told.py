"""
Sentences in another language.

A sentence that knows its key (`perfzero.words.said`) is looked up. One that went through a file has
forgotten it: reasons that the recorder wrote down, or a process that it started. That one is recalled, as
the English sentence of the catalogue, or the first line of a message, whose fixed parts it has in their
order, the one with most of them first. Anything else, as the name of a kernel, a file or a command, is told
as it is.

Han characters and Latin ones stand a space apart. What is fixed has it in the catalogue; where a value
meets what stands around it, `fitted` sees to that, since only then is it known what the value begins with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from string import Formatter

from perfzero.words.catalogue import catalogue
from perfzero.words.said import CALLED_EN, CLAUSE, FIRST_LINE, WITHIN, Said, clause

STOPS = ".。"
"""Full stops, of which a clause has none."""

LEAST_FIXED = 10
"""Letters of a sentence that do not depend on values; by fewer none is recalled."""

REMEMBERED = 256
"""Texts of which is kept what they recall: a live screen has the same ones every second."""

LONGEST = 2000
"""Characters of a text from a file that may be a sentence of ours; the longest has some hundred."""

_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_WIDE_STOP = "，。；：、！？）（“”"
_IS_HAN = re.compile(f"[{_HAN}]")
_IS_WIDE = re.compile(f"[{_HAN}{_WIDE_STOP}]")
_IS_WORD = re.compile(r"[A-Za-z0-9%°×≤≥<>]")


def told(sentence: str, language: str) -> str:
    """*sentence* in *language*; as it is where it is none of ours."""
    if language == CALLED_EN:
        return str(sentence)
    said = sentence if isinstance(sentence, Said) else recalled(sentence)
    if said is None:
        return sentence
    words = catalogue(language)
    if isinstance(said.values, tuple):
        parts: list[str] = []
        for place, part in enumerate(said.values):
            parts += [words[said.key], told(part, language)] if place else [told(part, language)]
        return fitted(parts)
    text = fitted(_filled(words[said.key], said.values, language))
    if said.key == FIRST_LINE:
        return (text.splitlines() or [""])[0]
    if said.key == WITHIN:
        text = text[:1].lower() + text[1:]
    return text.rstrip(STOPS) if said.key in (CLAUSE, WITHIN) else text


def _filled(template: str, values: Mapping[str, str], language: str) -> Iterable[str]:
    for fixed, field, _, _ in Formatter().parse(template):
        yield fixed
        if field is not None:
            yield told(values[field], language)


def fitted(pieces: Iterable[str]) -> str:
    """*pieces* in a row: a space where Han and Latin meet, none where Han meets Han."""
    text = ""
    for piece in pieces:
        if text and piece:
            left, right = text.rstrip(" "), piece.lstrip(" ")
            last, first = left[-1:], right[:1]
            if _IS_WIDE.match(last) and _IS_WIDE.match(first):
                text, piece = left, right
            elif (_IS_HAN.match(last) and _IS_WORD.match(first)) or (
                _IS_WORD.match(last) and _IS_HAN.match(first)
            ):
                text, piece = f"{left} ", right
        text += piece
    return text


def recalled(text: str) -> Said | None:
    """The English sentence of the catalogue that *text* is, or was but for its full stop; else None."""
    if " " not in text or len(text) > LONGEST:
        return None
    found = _recalled(text)
    if found is not None or text.endswith("."):
        return found
    whole = _recalled(f"{text}.")
    return None if whole is None else clause(whole)


@lru_cache(REMEMBERED)
def _recalled(text: str) -> Said | None:
    known = _sentences()
    if text in known.fixed:
        key, rest = known.fixed[text]
        return _again(text, key, {}, rest)
    for pattern in known.open:
        values = _values(text, pattern.literals)
        if values is not None:
            return _again(text, pattern.key, dict(zip(pattern.fields, values, strict=True)), pattern.rest)
    return None


def _again(text: str, key: str, values: Mapping[str, str], rest: tuple[str, ...] | None) -> Said:
    """What was said with *key*; *rest*: the fields of the lines that are gone, None where none is."""
    if rest is None:
        return Said(text, key, values)
    return Said(text, FIRST_LINE, {"message": Said(text, key, {**dict.fromkeys(rest, ""), **values})})


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A sentence, or the first of its lines: what is fixed, and between that the fields."""

    key: str
    literals: tuple[str, ...]
    fields: tuple[str, ...]
    rest: tuple[str, ...] | None

    @property
    def letters(self) -> int:
        """How much of it is fixed."""
        return sum(character.isalpha() for literal in self.literals for character in literal)


@dataclass(frozen=True, slots=True)
class _Sentences:
    """All that can be recalled: by their words those without fields; the others, the most fixed first."""

    fixed: Mapping[str, tuple[str, tuple[str, ...] | None]]
    open: tuple[_Pattern, ...]


@cache
def _sentences() -> _Sentences:
    fixed: dict[str, tuple[str, tuple[str, ...] | None]] = {}
    found = []
    for key, template in catalogue(CALLED_EN).items():
        every = _fields(template)
        for part in dict.fromkeys((template, *template.splitlines()[:1])):
            literals = [literal for literal, *_ in Formatter().parse(part)]
            fields = _fields(part)
            rest = None if part == template else tuple(name for name in every if name not in fields)
            if not fields:
                fixed.setdefault("".join(literals), (key, rest))
                continue
            if len(literals) == len(fields):
                literals.append("")
            pattern = _Pattern(key, tuple(literals), fields, rest)
            # Fields that touch, or the same one twice, could not be told apart.
            apart = all(literals[1:-1]) and len(set(fields)) == len(fields)
            if apart and pattern.letters >= LEAST_FIXED:
                found.append(pattern)
    return _Sentences(fixed, tuple(sorted(found, key=lambda pattern: -pattern.letters)))


def _fields(template: str) -> tuple[str, ...]:
    return tuple(field for _, field, _, _ in Formatter().parse(template) if field is not None)


def _values(text: str, literals: tuple[str, ...]) -> list[str] | None:
    """What stands between *literals*, the first of which begins *text* and the last of which ends it."""
    first, *between, last = literals
    if not text.startswith(first) or not text.endswith(last):
        return None
    end = len(text) - len(last)
    at = len(first)
    found = []
    for literal in between:
        place = text.find(literal, at, end)
        if place < 0:
            return None
        found.append(text[at:place])
        at = place + len(literal)
    return [*found, text[at:end]] if at <= end else None
