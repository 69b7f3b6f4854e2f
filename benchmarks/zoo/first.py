"""
What was said of a recording when it was made, by rules that had not seen it.

Rules are changed with the recordings that they misjudge, so what they say of these later proves little of
them. What they said at first is kept with each recording and never judged anew: it is what can be expected of
them with programs that they do not know.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AtFirst:
    """As in `judged.Score` and `judged.Promise`, by what was held to be true then."""

    verdict: str | None = None
    acting: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    rank: int | None = None
    named: bool | None = None
    remedy: str = ""
    low: float | None = None
    high: float | None = None
    next_limit: str = ""
