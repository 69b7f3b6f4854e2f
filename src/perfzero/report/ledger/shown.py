"""Values, differences and verdicts of the ledger as people read them: three digits, a sign, an interval."""

from __future__ import annotations

import math

from perfzero import text
from perfzero.report.ledger.metrics import STEP_RATE
from perfzero.report.ledger.model import Ledger, Line, Promise
from perfzero.report.voice import Voice
from perfzero.series.compare import Difference

_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SYMBOLS = {
    "bytes": "B",
    "bytes/s": "B/s",
    "hertz": "Hz",
    "count/s": "/s",
    "count": "",
    "watts": "W",
    "joules": "J",
    "celsius": "°C",
}

DOUBLED = 1.0
"""From twice as much on people say "2.3×" and not "+130 %"."""

WIDE = 0.05
"""Speed-ups whose interval is wider than this are told with one digit after the point."""


_SHARED = (" %", " °C", "×", " ms", " µs", " ns", " s")
"""Units that are told once of an interval whose ends have the same."""


def value(number: float, unit: str) -> str:
    """*number* with three digits and its unit; "–" where there is none."""
    if not math.isfinite(number):
        return text.MISSING
    if unit == "ratio":
        return text.percent(number)
    if unit == "seconds":
        return text.duration(number, digits=3)
    size, sign = abs(number), "−" if number < 0 else ""
    scale, prefix = next(((s, p) for s, p in _SI if size >= s * 0.9995), (1.0, ""))
    if unit in ("celsius", "joules") or not _SYMBOLS.get(unit, unit):
        scale, prefix = (scale, prefix) if size >= 1e4 else (1.0, "")
    digits = f"{size / scale:.3g}" if size / scale < 999.5 else f"{size / scale:,.0f}"
    return f"{sign}{digits} {prefix}{_SYMBOLS.get(unit, unit)}".rstrip().replace(" /s", "/s")


def signed(difference: float, like: Difference, unit: str, say: Voice) -> str:
    """One end of a difference, or its middle, with its sign."""
    if not math.isfinite(difference):
        return text.MISSING
    if like.scale == "points" and unit == "seconds":
        return _sign(difference) + text.duration(abs(difference))
    if like.scale == "points" and unit == "celsius":
        return f"{_sign(difference)}{_number(abs(difference))} °C"
    if like.scale == "points":
        return _sign(difference) + _number(abs(difference) * 100)
    if difference > DOUBLED:
        return say("compare.times", number=_number(1 + difference))
    return _sign(difference) + text.percent(abs(difference))


def change(found: Difference | None, unit: str, say: Voice) -> str:
    """The middle of a difference, in its unit."""
    if found is None or not math.isfinite(found.value):
        return text.MISSING
    told = signed(found.value, found, unit, say)
    return say("compare.points", number=told) if found.scale == "points" and unit == "ratio" else told


def interval(found: Difference | None, unit: str, say: Voice) -> str:
    """The interval of a difference; empty where there is none."""
    if found is None or not found.known:
        return ""
    low, high = (signed(end, found, unit, say) for end in (found.low, found.high))
    shared = next((sign for sign in _SHARED if low.endswith(sign) and high.endswith(sign)), "")
    return say("compare.to", low=low.removesuffix(shared), high=high)


MARKS = {"same": "≈", "unknown": "?", "more": "", "less": ""}
"""Of differences where there is no room for a word."""


def marked(found: Difference | None, unit: str, say: Voice) -> str:
    """A difference with a mark where none was shown."""
    if found is None:
        return ""
    return f"{change(found, unit, say)} {MARKS[found.word]}".rstrip()


def word(line: Line, found: Difference | None, say: Voice) -> str:
    """What is shown of a difference, in a word; empty where the sign says it."""
    if found is None:
        return ""
    if found.word in ("same", "unknown"):
        return say(f"compare.word_{found.word}")
    if line.key == STEP_RATE:
        return say("compare.word_faster" if found.word == "more" else "compare.word_slower")
    return ""


def is_better(line: Line, found: Difference | None) -> bool | None:
    """Whether a difference that was shown is for the better; None where that depends, or none was."""
    if found is None or found.word in ("same", "unknown") or line.better == "neither":
        return None
    return found.word == line.better


def sentence(ledger: Ledger, place: int, say: Voice, *, names: tuple[str, str] | None = None) -> str:
    """
    How iteration *place* compares with the one before it, in a sentence or two.

    The two go by their letters, or by *names*.
    """
    before, after = names or (ledger.entries[place - 1].letter, ledger.entries[place].letter)
    promise = ledger.promises[place - 1]
    line = ledger.line(STEP_RATE)
    found = None if line is None else line.before[place]
    missing = [
        name
        for name, at in ((before, place - 1), (after, place))
        if line is None or not math.isfinite(line.cells[at].value)
    ]
    speed = _speed(line, found, promise, before=before, after=after, missing=missing, say=say)
    limit = _limit(promise, say)
    return say("join.sentences").join(part for part in (speed, limit) if part)


def foresaw(ledger: Ledger, place: int, say: Voice) -> str:
    """What iteration *place* promised for its fix; empty where it promised nothing."""
    promise = ledger.promises[place]
    if not promise.remedy or not math.isfinite(promise.low):
        return ""
    told = say(
        "compare.foresaw",
        before=ledger.entries[place].letter,
        gain=text.times(promise.low, promise.high),
        remedy=say.tell(promise.remedy),
    )
    if promise.next_limit is None:
        return told
    return say("join.sentences").join(
        [told, say("compare.foresaw_limit", limit=say.tell(promise.next_limit))]
    )


def is_unsure(ledger: Ledger) -> bool:
    """Whether it cannot be told of some iteration if it is faster."""
    line = ledger.line(STEP_RATE)
    return line is not None and any(d is not None and d.known and d.word == "unknown" for d in line.before)


def _speed(
    line: Line | None,
    found: Difference | None,
    promise: Promise,
    *,
    before: str,
    after: str,
    missing: list[str],
    say: Voice,
) -> str:
    if line is None or found is None or missing:
        return say("compare.no_steps", before=before, after=after, where=say.enumeration(missing))
    if not found.known:
        return say("compare.no_interval", before=before, after=after, times=times(1 + found.value, 1.0, say))
    promised = _promised(promise, say)
    if found.word == "more":
        wide = found.high - found.low
        return say(
            "compare.faster",
            before=before,
            after=after,
            times=times(1 + found.value, wide, say),
            interval=f"{times(1 + found.low, wide, say, bare=True)}–{times(1 + found.high, wide, say)}",
            promise=promised,
        )
    span = interval(found, line.unit, say)
    if found.word == "less":
        share = text.percent(-found.value)
        return say("compare.slower", before=before, after=after, share=share, interval=span, promise=promised)
    if found.word == "unknown":
        return say("compare.unknown", before=before, after=after, interval=span)
    return say("compare.same", before=before, after=after, interval=span, promise=promised)


def times(number: float, wide: float, say: Voice, *, bare: bool = False) -> str:
    """A speed-up with as many digits as its interval allows."""
    told = f"{number:.1f}" if wide > WIDE * 4 else f"{number:.2f}" if wide > WIDE / 10 else f"{number:.3f}"
    return told if bare else say("compare.times", number=told)


def _promised(promise: Promise, say: Voice) -> str:
    if promise.kept in ("nothing promised", "unknown"):
        return ""
    return say(f"compare.{promise.kept}", gain=text.times(promise.low, promise.high))


def _limit(promise: Promise, say: Voice) -> str:
    if not promise.limits:
        return ""
    limit = say.tell(promise.limits[0])
    if promise.came is None or promise.next_limit is None:
        return say("compare.limit_now", limit=limit)
    if promise.came:
        named = next(name for name in promise.limits if name in promise.next_limit.split(" or "))
        return say("compare.limit_came", limit=say.tell(named))
    return say("compare.limit_other", limit=limit, foreseen=say.tell(promise.next_limit))


def family(ledger: Ledger, say: Voice) -> str:
    """What the intervals hold for."""
    return say(
        "compare.family",
        confidence=text.percent(ledger.confidence),
        count=ledger.family,
        margin=text.percent(ledger.margin),
    )


def _sign(number: float) -> str:
    return "−" if number < 0 else "+"


def _number(size: float) -> str:
    """Two digits, and no more than two after the point."""
    if size >= 9.95:
        return f"{size:.0f}"
    digits = f"{size:.1f}" if size >= 0.995 else f"{size:.2f}"
    return digits.rstrip("0").rstrip(".")
