"""
In which language a command speaks: as --lang says, else as the locale does; English where it says neither.

The locale is that of messages, as POSIX has it: LC_ALL before LC_MESSAGES before LANG, and the first that
is set decides. Files for programs are English in any case.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import typer

from perfzero.words.catalogue import LANGUAGES
from perfzero.words.said import CALLED_EN

LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")


class Language(str, Enum):
    """What --lang takes."""

    EN = "en"
    ZH = "zh"


@dataclass(slots=True)
class Asked:
    """What --lang said, for whoever reports an error of the command; None while nothing was said."""

    language: str | None = None


def remember(context: typer.Context, language: Language | None) -> Language | None:
    """Tell `main`, which says what goes wrong, too, what language was asked for."""
    if language is not None and isinstance(context.obj, Asked):
        context.obj.language = language.value
    return language


def lang_option() -> Any:
    """The option --lang of a command; it is looked at first, so that errors in the others are told in it."""
    return typer.Option(
        "--lang",
        help="Language of the text [as the locale says].",
        show_default=False,
        callback=remember,
        is_eager=True,
    )


def spoken(asked: Language | str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The language to speak: the one *asked* for, else that of the locale in *environment*."""
    if asked is not None:
        return asked.value if isinstance(asked, Language) else asked
    locale = next((environment[name] for name in LOCALE if environment.get(name)), "")
    # "zh_CN.UTF-8", "zh-Hans", "zh": what matters is what comes first.
    code = locale.replace("-", "_").split("_")[0].split(".")[0].lower()
    return code if code in LANGUAGES else CALLED_EN
