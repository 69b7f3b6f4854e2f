"""What --format takes, the same in every command."""

from __future__ import annotations

from enum import Enum


class Format(str, Enum):
    """Text for people, or JSON for programs."""

    TEXT = "text"
    JSON = "json"
