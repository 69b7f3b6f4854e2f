"""
Sentences in another language.

A sentence that knows its key (`perfzero.words.said`) is looked up. One that went through a file has
forgotten it: reasons that the recorder wrote down, or a process that it started. That one is recalled, as
the English sentence of the catalogue whose fixed parts it has in their order, the one with most of them
first. Anything else, as the name of a kernel, a file or a command, is told as it is.

Han characters and Latin ones stand a space apart. What is fixed has it in the catalogue; where a value
meets what stands around it, `fitted` sees to that, since only then is it known what the value begins with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from string import Formatter

from perfzero.words.catalogue import catalogue
from perfzero.words.said import CALLED_EN, CLAUSE, Said

STOPS = ".。"
"""Full stops, of which a clause has none."""

LEAST_FIXED = 10
"""Letters of a sentence that do not depend on values; by fewer none is recalled."""

LONGEST = 2000
"""Characters of a text from a file that may be a sentence of ours; the longest has some hundred."""

_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_WIDE_STOP = "，。；：、！？）（“”"
_IS_HAN = re.compile(f"[{_HAN}]")
_IS_WIDE = re.compile(f"[{_HAN}{_WIDE_STOP}]")
_IS_WORD = re.compile(r"[A-Za-z0-9%°×]")


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
    return text.rstrip(STOPS) if said.key == CLAUSE else text


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
    """The English sentence of the catalogue that *text* is; None where it is none."""
    if " " not in text or len(text) > LONGEST:
        return None
    fixed, open_ones = _sentences()
    if text in fixed:
        return Said(text, fixed[text], {})
    for key, literals, fields in open_ones:
        values = _values(text, literals)
        if values is not None:
            return Said(text, key, dict(zip(fields, values, strict=True)))
    return None


@cache
def _sentences() -> tuple[Mapping[str, str], tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]]:
    """The keys of sentences without fields; and of those with fields, what is fixed and the names."""
    fixed: dict[str, str] = {}
    found = []
    for key, template in catalogue(CALLED_EN).items():
        parsed = list(Formatter().parse(template))
        fields = tuple(field for _, field, _, _ in parsed if field is not None)
        literals = tuple(literal for literal, _, _, _ in parsed)
        letters = sum(character.isalpha() for literal in literals for character in literal)
        if not fields:
            fixed.setdefault("".join(literals), key)
        # Fields that touch, or the same one twice, could not be told apart.
        elif letters >= LEAST_FIXED and len(set(fields)) == len(fields) and all(literals[1:]):
            ends_open = parsed[-1][1] is not None
            found.append((letters, key, (*literals, "") if ends_open else literals, fields))
    found.sort(key=lambda sentence: -sentence[0])
    return fixed, tuple((key, literals, fields) for _, key, literals, fields in found)


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
