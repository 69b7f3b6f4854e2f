"""
A reader's language, for renderers: sentences of the report and phrases of their own, ready to be shown.

Words in a recording may come from anyone (`text.printable`), and are made harmless after they are told in
the language, so that none of them can hide in a value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perfzero import text
from perfzero.words.catalogue import catalogue
from perfzero.words.said import enumeration, joined, say, within
from perfzero.words.told import STOPS, told

_ENDS = (*STOPS, "!", "?", ":", "！", "？", "：")


@dataclass(frozen=True, slots=True)
class Voice:
    """Says things in *language*; called with a key, what the catalogue has. KeyError for an unknown one."""

    language: str

    def __post_init__(self) -> None:
        catalogue(self.language)

    def __call__(self, key: str, /, **values: object) -> str:
        """The phrase *key*, filled in with *values*."""
        return told(say(key, **values), self.language)

    def __contains__(self, key: str) -> bool:
        return key in catalogue(self.language)

    def tell(self, sentence: str) -> str:
        """*sentence* of the report, on one line and without control characters."""
        return text.printable(told(sentence, self.language))

    def sentence(self, phrase: str) -> str:
        """*phrase* of the report as a sentence: with a capital, and a full stop."""
        said = self.tell(phrase)
        first = said.split(" ", 1)[0]
        if first.isalpha() and first.islower():  # not "gr_active", nor "nvidia-smi"
            said = said[0].upper() + said[1:]
        return said if said.endswith(_ENDS) else said + self("full_stop")

    def within(self, sentence: str) -> str:
        """*sentence* of the report as a part of another one."""
        return self.tell(within(sentence))

    def joined(self, separator: str, parts: Iterable[str]) -> str:
        """*parts* in a row; the key *separator* is what stands between them."""
        return told(joined(separator, parts), self.language)

    def enumeration(self, items: Iterable[str]) -> str:
        """("a", "b", "c") -> "a, b and c"."""
        return told(enumeration(list(items)), self.language)
