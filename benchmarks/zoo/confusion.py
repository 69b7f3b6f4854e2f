"""
Which truths are taken for which verdicts.

A verdict by another acceptable name of the truth counts as right, in the column of that name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from judged import Score

HEALTHY = "healthy"
NOTHING = "nothing to act on"
NO_VERDICT = "no verdict"

Counts = Mapping[tuple[str, str, bool], int]
"""By truth, verdict, and whether that is right."""


def counts(scores: Sequence[Score]) -> Counts:
    return Counter((truth_of(score), verdict_of(score), score.right) for score in scores)


def truth_of(score: Score) -> str:
    return HEALTHY if score.healthy else score.truth


def verdict_of(score: Score) -> str:
    if score.acting:
        return score.verdict or score.acting[0]
    return NOTHING if score.healthy or score.verdict is not None else NO_VERDICT


def rows(found: Counts) -> list[tuple[str, ...]]:
    """For a table: a row for each truth, a column for each verdict, wrong ones in bold."""
    truths = _ordered({truth for truth, _, _ in found})
    verdicts = _ordered({verdict for _, verdict, _ in found})
    verdicts = [v for v in truths if v in verdicts] + [v for v in verdicts if v not in truths]
    head = ("truth", *verdicts)
    return [head, *((truth, *(_cell(found, truth, verdict) for verdict in verdicts)) for truth in truths)]


def _ordered(names: set[str]) -> list[str]:
    return sorted(names, key=lambda name: (name in (HEALTHY, NOTHING, NO_VERDICT), name))


def _cell(found: Counts, truth: str, verdict: str) -> str:
    right, wrong = (found.get((truth, verdict, ok), 0) for ok in (True, False))
    return ", ".join([*([str(right)] if right else []), *([f"**{wrong}**"] if wrong else [])])
