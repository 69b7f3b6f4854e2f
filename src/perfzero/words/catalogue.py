"""
The languages there are, and their catalogues: what is said by key, with the fields that are filled in.

A language is a package beside this module with the same keys, and the same fields in each, as the English
one; it is loaded only when asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

LANGUAGES = ("en", "zh")
"""English, the one that files are in, and Chinese."""


def catalogue(language: str) -> Mapping[str, str]:
    """What is said in *language*, by key; KeyError names the languages there are."""
    if language not in LANGUAGES:
        raise KeyError(f"no messages in {language!r}; there are: {', '.join(LANGUAGES)}")
    found: Mapping[str, str] = importlib.import_module(f"perfzero.words.{language}").CATALOGUE
    return found
