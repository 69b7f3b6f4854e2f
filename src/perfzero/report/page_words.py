"""
The fixed phrases of report.html, by key without "page." before it.

What all reports share (the words for how sure a verdict is, classes of time, kinds of work) is said by a
`Voice`; sentences about a GPU come with the Report. `{...}` is filled in by Python, `%s` by the page.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfzero.words.catalogue import catalogue

PREFIX = "page."


def page_words(language: str) -> Mapping[str, str]:
    """The page's phrases in *language*; KeyError names the languages there are."""
    said = catalogue(language)
    return {key.removeprefix(PREFIX): words for key, words in said.items() if key.startswith(PREFIX)}
