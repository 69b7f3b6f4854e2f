"""The table of scores for people, as text and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from judged import Score, interval

COLUMNS = (
    "case", "truth", "verdict", "rank", "also told", "named", "promised", "gain", "its interval", "inside",
    "next limit", "after the fix", "cost", "held up", "stable",
)  # fmt: skip


def cells(score: Score) -> tuple[str, ...]:
    """A row of `COLUMNS`; "-" for what was not measured or does not apply."""
    gain = score.gain
    known = gain is not None and not math.isnan(gain.low)
    truth = f"healthy ({score.truth})" if score.healthy else score.truth
    return (
        score.case,
        truth,
        score.verdict or "none",
        _healthy_rank(score) if score.healthy else str(score.rank or "not found"),
        ", ".join(score.strays) or "-",
        _yes(score.named),
        interval(score.promise),
        "-" if gain is None else f"{gain.gain:.2f}",
        f"{gain.low:.2f}-{gain.high:.2f}" if gain is not None and known else "-",
        _yes(score.inside),
        "one of two" if score.one_of_two else _yes(score.foreseen),
        score.after or "-",
        "-" if score.slowdown is None else f"{100 * score.slowdown:+.2f} %",
        f"{score.held_up_s:.1f} s",
        "-" if score.settled_s is None else f"{score.settled_s:g} s",
    )


def _healthy_rank(score: Score) -> str:
    return "silent" if score.silent else "not silent"


def _yes(found: bool | None) -> str:
    return "-" if found is None else "yes" if found else "no"


def text(scores: Sequence[Score]) -> str:
    """For a terminal, with the misses below."""
    rows = [COLUMNS, *map(cells, scores)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    missed = [f"{score.case}: {'; '.join(score.misses)}" for score in scores if score.misses]
    return "\n".join([*(line.rstrip() for line in lines), *missed])


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """*rows*, of which the first is the head."""
    head, *rest = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
