"""Durations on the command line: "10us", "1ms", "0.5s", "2min", or plain seconds."""

from __future__ import annotations

import math
import re

from perfzero.errors import UsageError
from perfzero.words.said import say

UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "": 1.0}
ROUNDING = 1e-9
"""5us is 5 times 1e-6, which is a little less than 5e-6."""

_FORM = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)\s*([a-zµ]*)\s*", re.IGNORECASE)


def seconds(text: str, *, option: str, low: float, high: float) -> float:
    """*text* in seconds. Raises `UsageError` that names *option* when it is none or outside [low, high]."""
    match = _FORM.fullmatch(text)
    unit = UNITS.get(match[2].lower()) if match else None
    value = float(match[1]) * unit if match and unit is not None else math.nan
    if not low * (1 - ROUNDING) <= value <= high * (1 + ROUNDING):
        raise UsageError(
            say("usage.duration", option=option, least=show(low), most=show(high), text=f"{text!r}")
        )
    return value


def show(value_s: float) -> str:
    """A duration as one would type it."""
    for unit, size in (("h", 3600.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value_s >= size:
            return f"{value_s / size:g}{unit}"
    return f"{value_s:g}s"
