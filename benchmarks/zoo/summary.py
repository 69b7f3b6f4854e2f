"""What all scores come to, held against the bars of the zoo."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from judged import Score

Way = Literal["at least", "at most"]

STABLE_S = 15.0
"""After warm-up: by then a verdict should be the one that stays."""


@dataclass(frozen=True, slots=True)
class Bar:
    """
    *value* is held against *limit*, the *way* it is meant; None where nothing was measured.

    Without a limit it is told only.
    """

    words: str
    value: float | None
    limit: float | None
    way: Way
    detail: str

    @property
    def met(self) -> bool | None:
        if self.value is None or self.limit is None:
            return None
        return self.value >= self.limit if self.way == "at least" else self.value <= self.limit


def bars(scores: Sequence[Score], *, with_stable: bool = True) -> tuple[Bar, ...]:
    """
    Each is over the cases to which it applies and of which it is known.

    *with_stable*: whether it was asked from when on verdicts are stable; one that never is, is wrong, or was
    not seen for long enough, counts as late.
    """
    ill = [score for score in scores if not score.healthy]
    widths = [width for score in ill if (width := score.promise.width) is not None]
    median = statistics.median(widths) if widths else None
    found = [
        _share("the true cause is named first", [s.rank == 1 for s in ill], 0.95),
        _share("the true cause is among the first two", [s.rank in (1, 2) for s in ill], 1.0),
        _share(
            "nothing to act on is found in a healthy program", [s.silent for s in scores if s.healthy], 0.95
        ),
        _share("the line, layer or operator is named", _known(s.named for s in scores), 0.9),
        _share("the achieved gain lies in the promised interval", _known(s.inside for s in ill), 0.85),
        Bar("the median interval is no wider than", median, 1.6, "at most", f"{len(widths)} intervals"),
        _share(
            "the next limit is foreseen",
            _known(s.foreseen for s in ill),
            0.75,
            also=(sum(s.one_of_two for s in ill), "as one of two"),
        ),
        _share("the fix gains what a fix has to", _known(s.earned for s in ill), 1.0),
        _share(
            "the change that tempts gains nothing, and may slow",
            _known(s.earned for s in scores if s.healthy),
            1.0,
            also=(sum(s.slows for s in scores), "much slower by it"),
        ),
        _share("nothing is told that is not true of the program", [not s.strays for s in ill], None),
    ]
    if with_stable:
        stable = [s.settled_s is not None and s.settled_s <= STABLE_S for s in scores]
        found.append(_share(f"the verdict is right and stable {STABLE_S:g} s after warm-up", stable, 0.8))
    return tuple(found)


def _known(answers: Iterable[bool | None]) -> list[bool]:
    return [answer for answer in answers if answer is not None]


def _share(
    words: str, answers: Sequence[bool], limit: float | None, *, also: tuple[int, str] = (0, "")
) -> Bar:
    """*also*: how many of them are so in a way that has to be told, and in which."""
    value = sum(answers) / len(answers) if answers else None
    told = f", {also[0]} {also[1]}" if also[0] else ""
    return Bar(words, value, limit, "at least", f"{sum(answers)} of {len(answers)}{told}")


def rows(scores: Sequence[Score], *, with_stable: bool = True) -> list[tuple[str, ...]]:
    """For a table, its head first: each bar, and how it was met when the recordings were first judged."""
    then = [first for score in scores if (first := score.when_first_judged) is not None]
    at_first = {bar.words: _at_first(bar) for bar in bars(then, with_stable=False)}
    head = ("what", "measured", "bar", "cases", "", "when first judged")
    return [
        head,
        *(
            (b.words, _number(b, b.value), _bar(b), b.detail, _met(b), at_first.get(b.words, "-"))
            for b in bars(scores, with_stable=with_stable)
        ),
    ]


def _at_first(bar: Bar) -> str:
    return "-" if bar.value is None else f"{_number(bar, bar.value)}, {bar.detail}"


def _number(bar: Bar, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.0f} %" if bar.way == "at least" else f"{value:.2f}"


def _bar(bar: Bar) -> str:
    return "-" if bar.limit is None else f"{bar.way} {_number(bar, bar.limit)}"


def _met(bar: Bar) -> str:
    if bar.limit is None:
        return "no bar"
    return {None: "not measured", True: "met", False: "missed"}[bar.met]
