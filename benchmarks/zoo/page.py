"""docs/zoo.md: every case, every miss, with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import calibration
import confusion
import summary
import table
from case import Case
from judged import Score, interval

PICTURE = "zoo_calibration.svg"

HEAD = (
    "# The zoo: known bottlenecks, right verdicts, verified fixes\n\n"
    "Programs with one known bottleneck each, and its fix; and healthy ones, some of which only look bad.\n"
    "Each is a plain script in `zoo/<case>/`, taken from a real case that somebody has solved; `case.toml` "
    "beside it says where from, what is true of it, and what the fix should gain.\n\n"
)

HOW = (
    "Of each case the unfixed program runs under `perfzero run` with all defaults; then both versions run "
    "alone, in turns, one held while the other works; then the fixed one runs under perfzero, from outside.\n"
    "The recordings are kept (`tests/zoo/kept`), and what is told here is what today's rules say of them: "
    "`python benchmarks/zoo/score.py --docs` makes this page.\n\n"
)

AT_FIRST = (
    "**When first judged**: what was said of each recording when it was made, by rules that had not seen it, "
    "against the same gains and limits. It is kept with the recording and never judged anew, and it is what "
    "can be expected with a program that the rules do not know. What is measured with today's rules is "
    "better than that, for these recordings taught them.\n\n"
)

COLUMNS = (
    '- **rank**: the place of the truth among the findings above "info". A verdict in brackets is another '
    "name that is right as well.",
    '- **also told**: what was found above "info" too, or instead, and is not true of the program.',
    "- **named**: whether the line, layer or operator that is to blame was named, where there is one.",
    "- **promised**: the interval of the remedy that is the fix; where that is not among the remedies, "
    "nothing is promised. **gain**: what the fix achieved, with the 95 % interval of the turns. Of a healthy "
    "program it is that of the change that tempts, which may make it slower.",
    "- **next**: whether the limit that was named as the next one is one that the fixed program has met. Two "
    "are named where they are as close as can be; **one of two**: either was met.",
    "- **cost**: how much slower the program was for being watched, as perfzero tells it. **held up**: how "
    "long it was, for the look.",
    "- **stable**: from how many seconds after warm-up on the verdict stayed the same, where it is right and "
    "the recording goes on for so long.",
)


def page(
    scores: Sequence[Score],
    *,
    unmeasured: Collection[Case],
    dates: Collection[str],
    hardware: Collection[str],
    with_stable: bool = True,
) -> str:
    """The page about *scores*; *dates* and *hardware* are those of the recordings."""
    parts = [HEAD, _measured(scores, dates, hardware), HOW]
    if scores:
        parts += [
            "## The bars\n\n",
            table.markdown(summary.rows(scores, with_stable=with_stable)),
            "\n\n",
            AT_FIRST,
            *_cases(scores),
            *_misses(scores),
            *_mended(scores),
            *_confusion(scores),
            *_calibration(scores),
        ]
    if unmeasured:
        parts += ["## Not measured yet\n\n", _list(f"`{case.id}` {case.title}" for case in unmeasured), "\n"]
    return "".join(parts).rstrip("\n") + "\n"


def _measured(scores: Sequence[Score], dates: Collection[str], hardware: Collection[str]) -> str:
    if not scores:
        return "Nothing has been measured yet.\n\n"
    healthy = sum(score.healthy for score in scores)
    when = " to ".join(sorted({min(dates), max(dates)}))
    where = "; ".join(sorted(hardware))
    return f"{len(scores)} cases were measured, {healthy} of them healthy: {when}, {where}.\n"


def _cases(scores: Sequence[Score]) -> list[str]:
    head = (
        "case", "what", "truth", "verdict", "rank", "also told", "named", "promised", "gain", "inside",
        "next", "cost", "held up", "stable",
    )  # fmt: skip
    return [
        "## The cases\n\n",
        "\n".join(COLUMNS),
        "\n\n",
        table.markdown([head, *map(_row, scores)]),
        "\n\n",
    ]


def _row(score: Score) -> tuple[str, ...]:
    cells = dict(zip(table.COLUMNS, table.cells(score), strict=True))
    verdict = cells["verdict"]
    if score.rank == 1 and score.acting[0] != score.truth:
        verdict = f"({verdict})"
    gain = cells["gain"] if cells["its interval"] == "-" else f"{cells['gain']} ({cells['its interval']})"
    return (
        f"`{score.case}`", score.title, cells["truth"], verdict, cells["rank"], cells["also told"],
        cells["named"], interval(score.promise), gain, cells["inside"], cells["next limit"],
        cells["cost"], cells["held up"], cells["stable"],
    )  # fmt: skip


def _misses(scores: Sequence[Score]) -> list[str]:
    missed = [score for score in scores if score.misses]
    if not missed:
        return ["## The misses\n\nNone.\n\n"]
    return ["## The misses\n\n", _list(map(_miss, missed)), "\n\n"]


def _miss(score: Score) -> str:
    reason = score.miss or "No reason is known yet."
    return f"`{score.case}` {score.title}: {'; '.join(score.misses)}. {reason}"


def _mended(scores: Sequence[Score]) -> list[str]:
    taught = [score for score in scores if score.first]
    if not taught:
        return []
    words = (
        "## What these recordings taught\n\n"
        f"Of {len(taught)} of the {len(scores)} cases something was wrong when they were first judged. The "
        "rules were changed with these very recordings, so what the table says of it now is no proof of "
        "them.\n\n"
    )
    return [words, _list(f"`{score.case}` {score.title}: {score.first}" for score in taught), "\n\n"]


def _confusion(scores: Sequence[Score]) -> list[str]:
    words = (
        "## Truth against verdict\n\n"
        "A row for each true cause, a column for each verdict; wrong ones are **bold**. "
        "A verdict may be right by another name than the truth's first.\n\n"
    )
    return [words, table.markdown(confusion.rows(confusion.counts(scores))), "\n\n"]


def _calibration(scores: Sequence[Score]) -> list[str]:
    found = calibration.sides(scores)
    total = found.below + found.inside + found.above
    alone = sum(score.inside is not None for score in scores) - total
    words = (
        "## Promised and achieved\n\n"
        f"Of {total} gains {found.inside} lie in the promised interval, {found.below} below and "
        f"{found.above} above it. Of {alone} more nothing was promised.\n"
        "Vertical bars are promised intervals, at the achieved gain; those that miss the diagonal are "
        "red.\n\n"
    )
    return [words, f"![Promised against achieved gains]({PICTURE})\n\n"]


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
