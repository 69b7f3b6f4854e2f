"""What a recording has lost by being trimmed, as far as it is scored. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from case import Case
from judged import Promise, interval, judged
from kept import Version
from replayed import Replayed, said

AS_WIDE = 0.05
"""By which the ends of a promise may move, of themselves: fewer samples move every share a little."""


def lost(case: Case, version: Version, whole: Replayed, trimmed: Replayed) -> tuple[str, ...]:
    """In words, what is said of *trimmed* otherwise than of *whole*; nothing if the score is the same."""
    differences = _of_base(case, whole, trimmed) if version == "base" else _of_fixed(whole, trimmed)
    return tuple(f"trimming has changed {words}" for words in differences)


def _of_base(case: Case, whole: Replayed, trimmed: Replayed) -> Iterator[str]:
    before, after = judged(case, whole), judged(case, trimmed)
    for name in ("verdict", "rank", "silent", "named"):
        yield from _changed(name, getattr(before, name), getattr(after, name))
    yield from _changed("whether the fix is advised", bool(before.promise.remedy), bool(after.promise.remedy))
    if not _alike(before.promise, after.promise):
        yield from _changed("the promise", interval(before.promise), interval(after.promise))


def _of_fixed(whole: Replayed, trimmed: Replayed) -> Iterator[str]:
    yield from _changed("verdict", said(whole.gpu).verdict, said(trimmed.gpu).verdict)
    yield from _changed("limits", whole.limits, trimmed.limits)


def _changed(what: str, before: object, after: object) -> Iterator[str]:
    if before != after:
        yield f"{what}: {before} to {after}"


def _alike(before: Promise, after: Promise) -> bool:
    for one, other in ((before.low, after.low), (before.high, after.high)):
        if (one is None) != (other is None):
            return False
        if one is not None and other is not None and abs(one - other) > AS_WIDE * one:
            return False
    return True
