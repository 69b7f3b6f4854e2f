"""
A sentence that can be told in another language.

`say("gate.lost", share="12 %")` looks the sentence up in the English catalogue and fills it in. What comes
back is a string, so that it goes into reports, files and tests as any other; it also knows its key and its
values, so that `perfzero.words.told` can tell it in another language. Values are strings, formatted already
(`perfzero.text` writes numbers and units alike in all languages); a value may itself be a sentence.

What is done to it as to any string (a slice, an f-string around it) gives a plain one that has forgotten its
key. So sentences are put together here: as a value of another one, by `joined`, or by `clause`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perfzero.words.catalogue import catalogue

CLAUSE = "clause"
"""The key of a sentence without its full stop, as the part of another one."""

WITHIN = "within"
"""The key of a sentence as the part of another one: without its full stop and without a capital."""

FIRST_LINE = "first_line"
"""The key of the first of a message's lines, which says what happened."""

CALLED_EN = "en"
"""The language that files and tests are in."""


class Said(str):
    """
    An English sentence with the `key` that it has in the catalogues, and what it was filled in with.

    `values` are by the name of their field; of sentences in a row, whose key is that of the separator,
    they are the sentences.
    """

    __slots__ = ("key", "values")

    key: str
    values: Mapping[str, str] | tuple[str, ...]

    def __new__(cls, text: str, key: str, values: Mapping[str, str] | tuple[str, ...]) -> Said:
        """*text* is what *key* says of *values* in English."""
        said = super().__new__(cls, text)
        said.key = key
        said.values = values
        return said

    def __reduce__(self) -> tuple[type[Said], tuple[object, ...]]:
        return Said, (str(self), self.key, self.values)

    def __copy__(self) -> Said:
        return self

    def __deepcopy__(self, memo: object) -> Said:
        return self


def say(key: str, /, **values: object) -> Said:
    """The sentence *key*, filled in with *values*. Raises KeyError for one that no catalogue has."""
    # A sentence stays one; all else, and what is no string yet, becomes plain.
    told = {name: value if isinstance(value, Said) else str(value) for name, value in values.items()}
    return Said(catalogue(CALLED_EN)[key].format(**told), key, told)


def joined(separator: str, parts: Iterable[str]) -> Said:
    """*parts* in a row, with what the key *separator* says between them."""
    told = tuple(parts)
    return Said(catalogue(CALLED_EN)[separator].join(told), separator, told)


def listed(items: Iterable[str]) -> Said:
    """("a", "b", "c") -> "a, b, c"."""
    return joined("join.list", items)


def enumeration(items: Sequence[str]) -> str:
    """("a", "b", "c") -> "a, b and c"."""
    if len(items) < 2:
        return items[0] if items else ""
    return say("join.and", first=listed(items[:-1]), last=items[-1])


def counted(number: int, noun: str) -> Said:
    """1, "gap" -> "1 gap"; 3, "gap" -> "3 gaps". The catalogues have the nouns, in both numbers."""
    return say(f"counted.{noun}" if number == 1 else f"counted.{noun}s", count=f"{number:,}")


def clause(sentence: str) -> Said:
    """*sentence* without its full stop, as the part of another one."""
    return Said(sentence.rstrip("."), CLAUSE, {"sentence": sentence})


def within(sentence: str) -> Said:
    """*sentence* after a colon or in brackets: a clause that begins without a capital."""
    return Said(sentence[:1].lower() + sentence[1:].rstrip("."), WITHIN, {"sentence": sentence})


def first_line(message: str) -> Said:
    """What happened: the first line of *message*, without the advice in those that follow."""
    return Said((message.splitlines() or [""])[0], FIRST_LINE, {"message": message})


def without(sentence: str, field: str) -> str:
    """*sentence* with nothing in *field*; as it is where it has no such field."""
    values = sentence.values if isinstance(sentence, Said) else ()
    if not isinstance(sentence, Said) or isinstance(values, tuple) or field not in values:
        return sentence
    return say(sentence.key, **{**values, field: ""})
