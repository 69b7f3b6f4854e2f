"""
Numbers to words that people read, in all languages alike.

Machine files never pass through here: they keep base units and full precision. Numbers are
rounded to what a reader can use (two significant digits, or whole percents): 0.997 is "99.7 %",
0.0003 is "0.03 %". Counters are true to a few tenths of a percent, so from 99.95 % on it is
"100 %"; almost nothing is "< 0.01 %", because nothing at all is a finding. A missing value is "–".

Sentences stand in `perfzero.words`.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Annotated

from perfzero.limits import CHOICE, Limit

MISSING = "–"

SURE: Annotated[float, Limit("ratio", CHOICE)] = 0.8
"""From this confidence on a verdict is called "sure" ..."""

LIKELY: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""... and from this one on "likely"; below it is "unsure"."""

GLUE = "\ue000"
"""Stands for a space that must not break; of private use, so `printable` lets none in from outside."""

BREAK = "\x1f"
"""A space of no width: Chinese has none between words, where a line may break. `printable` lets none in."""

_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_CLOSING, _OPENING = "，。；：、！？）”》", "（“《"
_BETWEEN_HAN = re.compile(
    f"(?<=[{_HAN}{_CLOSING}])(?=[{_HAN}{_OPENING}])|(?<=[{_CLOSING}])(?=[^\\s{_CLOSING}{_HAN}{_OPENING}])"
)
"""Where a line of Chinese may end: between any two characters, but not before what closes a part of it."""

_BEFORE_UNIT = re.compile(
    r"(?<=[0-9]) (?=%|°C|[kMGTmµn]?(?:B|B/s|FLOP/s|Hz|W|J|s|/s|h|min)\b)|(?<=[<>≤≥]) (?=[0-9])"
    f"|(?<=[0-9%]) (?=[{_HAN}])"
)

_MINUS = "−"
_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_TRACE = 1e-4
"""Less than this share is there, and no more can be said of it."""

_PLAIN_THRESHOLD = re.compile(r"\s*(<=|>=|[<>≤≥])\s*([0-9]+(?:\.[0-9]+)?)\s*\Z")


def percent(share: float) -> str:
    """
    0.58 -> "58 %"; one digit below 10 % and between 99 and 99.95 %; one significant digit below 1 %.

    What is not zero and less than 0.01 % is "< 0.01 %".
    """
    if not math.isfinite(share):
        return MISSING
    if 0 < abs(share) < _TRACE:
        return f"< {percent_number(_TRACE)} %"
    return f"{percent_number(share)} %"


def percent_number(share: float) -> str:
    """As `percent`, without the sign: for intervals such as "0.03 % ± 0.04"."""
    value = abs(share) * 100
    if value == 0:
        digits = "0"
    elif value < 1:
        digits = _plain(value, 1)
    elif value < 9.95 or 99 <= value < 99.95:
        digits = f"{value:.1f}".removesuffix(".0")
    else:
        digits = f"{value:.0f}"
    return (_MINUS if share < 0 and value > 0 else "") + digits


def duration(seconds: float, *, digits: int = 2) -> str:
    """0.081 -> "81 ms"; 130 -> "2 min 10 s"; 3900 -> "1 h 5 min". *digits* counts below 100 s."""
    if not math.isfinite(seconds):
        return MISSING
    if seconds < 0:
        return _MINUS + duration(-seconds, digits=digits)
    if round(seconds) >= 3600:
        minutes = round(seconds / 60)
        return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
    if seconds >= 100:
        whole = round(seconds)
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    if seconds == 0:
        return "0 s"
    # Half a unit of the last digit shown: 0.9996 s is "1 s", not "1000 ms".
    fits = (unit for unit in _SMALL if seconds >= unit[0] * (1 - 0.5 * 10.0**-digits))
    scale, prefix = next(fits, _SMALL[-1])
    return f"{_plain(seconds / scale, digits)} {prefix}s"


def quantity(value: float, unit: str) -> str:
    """
    *value* in its base *unit* (a unit of `perfzero.counters`, or "bytes/s", "flop/s", "count/s") in words.

    1.9e12 bytes/s -> "1.9 TB/s"; 1.33e9 hertz -> "1.3 GHz"; 0.42 ratio -> "42 %". Decimal prefixes.
    """
    if not math.isfinite(value):
        return MISSING
    if unit == "ratio":
        return percent(value)
    if unit == "seconds":
        return duration(value)
    symbol = {
        "bytes": "B",
        "bytes/s": "B/s",
        "flop/s": "FLOP/s",
        "hertz": "Hz",
        "count/s": "/s",
        "count": "",
        "watts": "W",
        "joules": "J",
        "celsius": "°C",
        "hours": "h",
        "lanes": "lanes",
        "generation": "",
    }.get(unit, unit)
    if unit in ("celsius", "lanes", "generation", "hours"):
        return f"{_plain(value, 2)} {symbol}".rstrip()
    sign = _MINUS if value < 0 else ""
    size = abs(value)
    scale, prefix = 1.0, ""
    for limit, name in _SI:
        # 999.7e9 rounds to 1.0e12: choose the prefix by the rounded value.
        if size >= limit * 0.9995:
            scale, prefix = limit, name
            break
    number = _plain(size / scale, 2 if size / scale < 99.5 else 3)
    if symbol == "/s" and not prefix:
        return f"{sign}{number}/s"
    return f"{sign}{number} {prefix}{symbol}".rstrip()


def times(low: float, high: float) -> str:
    """An interval of speed-ups: (1.9, 2.3) -> "1.9–2.3×"; one number where both ends read the same."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return MISSING
    # Where all of it is small a second digit is the whole message: 1.02–1.06 is not 1.0–1.1.
    digits = 2 if high < 1.5 else 1
    first, last = f"{low:.{digits}f}", f"{high:.{digits}f}"
    return f"{first}×" if first == last else f"{first}–{last}×"


def confidence_word(confidence: float) -> str:
    """The key of the word for *confidence* in [0, 1]: "sure", "likely" or "unsure" (NaN is unsure)."""
    if confidence >= SURE:
        return "sure"
    return "likely" if confidence >= LIKELY else "unsure"


def threshold_words(threshold: str, unit: str) -> str:
    """A ratio's threshold as people say it: "≥ 0.9" -> "≥ 90 %". Anything else stays as it is."""
    match = _PLAIN_THRESHOLD.match(threshold) if unit == "ratio" else None
    if match is None:
        return threshold
    sign = {"<=": "≤", ">=": "≥"}.get(match[1], match[1])
    return f"{sign} {percent(float(match[2]))}"


def margin_points(threshold: str, margin: float, unit: str) -> str | None:
    """
    How far a ratio is from its threshold, in whole points of percent; None for anything else.

    *margin* is the distance as a share of the threshold: ("≥ 0.9", -0.77, "ratio") -> "69".
    """
    match = _PLAIN_THRESHOLD.match(threshold) if unit == "ratio" else None
    if match is None or not math.isfinite(margin):
        return None
    return f"{abs(margin) * float(match[2]) * 100:.0f}"


def count(number: float) -> str:
    """A large number with two significant digits and its thousands apart: 6791 -> "6,800"."""
    if not math.isfinite(number):
        return MISSING
    return (
        f"{number:.2g}"
        if abs(number) < 99.5
        else f"{round(number, 1 - math.floor(math.log10(abs(number)))):,.0f}"
    )


def printable(text: str) -> str:
    """
    *text* on one line and without control characters.

    Words in a recording (commands, reasons) may come from anyone; none of them may move the
    cursor, recolour the terminal or hide what follows.
    """
    kept = (" " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c)[0] != "C")
    return " ".join("".join(kept).split())


def glued(text: str) -> str:
    """
    *text* as it may be wrapped into lines at its spaces.

    Every number is bound to its unit by `GLUE`, so that no line breaks between them, and Chinese may be
    broken between its characters.
    """
    return _BETWEEN_HAN.sub(BREAK, _BEFORE_UNIT.sub(GLUE, text))


def unglued(text: str) -> str:
    """*text*, wrapped, with plain spaces for `GLUE` and without `BREAK`."""
    return text.replace(GLUE, " ").replace(BREAK, "")


def width(text: str) -> int:
    """The columns that *text* takes on a terminal: Chinese characters take two."""
    return sum(_columns(c) for c in text)


def fitting(text: str, columns: int) -> str:
    """As much of the beginning of *text* as fits *columns*, a "…" at its end where that is not all."""
    if width(text) <= columns:
        return text
    kept = 0
    for place, c in enumerate(text):
        kept += _columns(c)
        if kept >= columns:  # the sign that something is missing needs one
            return f"{text[:place]}…"
    return text


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _plain(value: float, digits: int) -> str:
    """*value* with *digits* significant digits, never in exponent form, without trailing zeros."""
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - exponent)
    exponent = math.floor(math.log10(abs(rounded)))
    decimals = max(0, digits - 1 - exponent)
    number = f"{abs(rounded):.{decimals}f}"
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return (_MINUS if value < 0 else "") + number
