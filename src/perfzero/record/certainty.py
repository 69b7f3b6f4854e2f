"""
When is a verdict sure? For `--until-sure`: a recording that ends when more of it would say the same.

The recorder asks a `Judge`, which it is handed, since judging is no part of recording. A verdict is
sure when the last judgements, `IN_A_ROW` or more and `SPAN_S` or more from the first to the last, name
the same rule for a GPU, each with the confidence that was asked for, and neither end of the gain moved
by more than `MOVED` meanwhile; and that for every GPU. Each of them has seen something that the one
before had not: the recorder asks only when samples have come.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from perfzero.limits import CHOICE, Limit
from perfzero.text import percent
from perfzero.words.said import clause, joined, say

IN_A_ROW: Annotated[int, Limit("count", CHOICE)] = 3
"""One judgement may be luck, two a coincidence; each further one costs about a second of CPU."""

SPAN_S: Annotated[float, Limit("seconds", CHOICE)] = 10.0
"""Judgements of less time than this have seen the same few steps."""

MOVED: Annotated[float, Limit("ratio", CHOICE)] = 0.1
"""
An end of the gain interval that moves by more than this share is not known yet. The gain is a factor: from
1.2 to 1.3 it has moved by a twelfth. A share of what is above 1 would never let a small gain become sure.
"""

LEAST_PAUSE_S = 4.0
PAUSE_SHARE = 0.1
"""Judgements are at least so many seconds apart, and this share of the time watched: more takes longer."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """
    What was said of one GPU: the rule of its verdict (None: no verdict), and the gain as factors.

    `why` says in a sentence what stands against the verdict, or why there is none.
    """

    rule: str | None
    confidence: float = 0.0
    gain_low: float = math.nan
    gain_high: float = math.nan
    why: str = ""


class Judge(Protocol):
    """Judges a recording while it is written, without holding up who asks."""

    cpu_s: float
    """CPU time spent so far, in seconds."""

    def ask(self, recording: Path, gpus: Collection[int]) -> None:
        """Begin to judge what is there; only when the last question was answered."""
        ...

    def answer(self) -> Mapping[int, Judgement] | None:
        """What was found for each GPU; None while there is no answer, empty where judging failed."""
        ...

    def close(self) -> None:
        """Stop thinking."""
        ...


class Certainty:
    """Collects judgements and says whether the verdict is sure; *share* is the confidence asked for."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._heard: list[tuple[float, Mapping[int, Judgement]]] = []

    def add(self, now_s: float, judgements: Mapping[int, Judgement]) -> None:
        """One answer, asked for at *now_s* seconds of the recording."""
        self._heard.append((now_s, judgements))

    @property
    def heard(self) -> bool:
        """Whether there was any answer."""
        return bool(self._heard)

    @property
    def sure(self) -> bool:
        """Whether the verdict is."""
        return not self.doubt

    @property
    def doubt(self) -> str:
        """Why it is not, in a clause; empty when it is."""
        if not self._heard:
            return say("sure.nothing")
        latest = self._heard[-1][1]
        if not latest:
            return say("sure.failed")
        for gpu, last in sorted(latest.items()):
            where = say("sure.on_gpu", gpu=gpu) if len(latest) > 1 else ""
            if last.rule is None:
                return joined(
                    "join.nothing", (where, clause(last.why) if last.why else say("sure.no_verdict"))
                )
            if last.confidence < self._share:
                against = say("why", why=clause(last.why)) if last.why else ""
                return say(
                    "sure.confidence",
                    where=where,
                    rule=last.rule,
                    confidence=f"{last.confidence:.2f}",
                    against=against,
                )
            run = self._run(gpu, last.rule)
            counts = (n for n in range(IN_A_ROW, len(run) + 1) if self._span_s(n) >= SPAN_S)
            enough = next(counts, None)
            if enough is None:
                return say("sure.not_long", where=where, rule=last.rule)
            if not _steady_gain(run[-enough:]):
                return say("sure.gain_moves", where=where, rule=last.rule, moved=percent(MOVED))
        return ""

    def _run(self, gpu: int, rule: str) -> list[Judgement]:
        """The last judgements in a row that name *rule* with the confidence asked for."""
        run: list[Judgement] = []
        for _, judgements in reversed(self._heard):
            said = judgements.get(gpu)
            if said is None or said.rule != rule or said.confidence < self._share:
                break
            run.insert(0, said)
        return run

    def _span_s(self, count: int) -> float:
        return self._heard[-1][0] - self._heard[-count][0]


def _steady_gain(run: list[Judgement]) -> bool:
    """Whether both ends of the gain stayed within `MOVED`; a rule without a gain has none that moves."""
    for ends in ([j.gain_low for j in run], [j.gain_high for j in run]):
        known = [end for end in ends if math.isfinite(end)]
        if known and (len(known) < len(ends) or max(known) - min(known) > MOVED * min(known)):
            return False
    return True
