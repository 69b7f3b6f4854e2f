"""Every recording of a real GPU, told in Chinese: no English sentence is left, and English is as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import pytest

from perfzero import text
from perfzero.attribute.stacks import Cause
from perfzero.diagnose.verdict import Diagnosis, Fact, Finding, Gain, Remedy, Steady, StepAnswer, StepPhase
from perfzero.report.analysis import judged_report
from perfzero.report.host_lines import TEXT
from perfzero.report.model import Report
from perfzero.report.terminal import words
from perfzero.words.said import Said
from perfzero.words.told import recalled, told

ROOT = Path(__file__).parents[1] / "recordings"
RECORDINGS = sorted(manifest.parent for manifest in ROOT.glob("[!_]*/manifest.json"))
INSIDE = [ROOT / "_looks" / name for name in ("cupy",)]
STACKS = [ROOT / "_stacks" / name for name in ("maple", "rowan")]
EVERY = [*RECORDINGS, *INSIDE, *STACKS]

WIDE = 600
"""Columns in which no sentence is broken."""

ENGLISH = re.compile(r"(?<![\w./-])(?:[A-Za-z][a-z']+ ){2,}[A-Za-z][a-z']+")
"""Three words in a row. Names of GPUs, counters and commands have capitals, digits or dashes in them."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def judged(path: Path) -> Report:
    return judged_report(path)


def of_the_program(report: Report) -> Iterator[str]:
    """What stands in a report in the program's own words: its command and its lines."""
    if report.next_command is not None:
        yield report.next_command
    for gpu in report.gpus:
        for cause in () if gpu.host is None else gpu.host.causes:
            yield cause.text[: TEXT - 1]


def english_in(report: Report, screen: str) -> list[str]:
    for own in sorted(of_the_program(report), key=len, reverse=True):
        screen = screen.replace(own, "") if own else screen
    return ENGLISH.findall(screen)


@pytest.mark.parametrize("path", EVERY, ids=name)
def test_no_english_sentence_is_left_in_chinese(path: Path) -> None:
    report = judged(path)

    assert english_in(report, words(report, language="zh", width=WIDE)) == []


def test_an_english_sentence_would_be_found() -> None:
    report = judged(RECORDINGS[0])

    assert english_in(report, words(report, width=WIDE)) != []
    assert english_in(report, "  GPU 有 86 % 的时间 waits for data") != []


@pytest.mark.parametrize("path", EVERY, ids=name)
@pytest.mark.parametrize("width", [60, 100])
def test_a_chinese_screen_is_no_wider_than_it_may_be(path: Path, width: int) -> None:
    screen = words(judged(path), language="zh", width=width).splitlines()

    # The line to type is whole, so that it can be pasted.
    assert [line for line in screen if text.width(line) > width and "--against" not in line] == []


@pytest.mark.parametrize("path", EVERY, ids=name)
def test_no_line_of_chinese_begins_with_a_closing_mark(path: Path) -> None:
    screen = words(judged(path), language="zh", width=72).splitlines()

    assert [line for line in screen if re.match(r"\s*[，。；：、）！？]", line)] == []


@pytest.mark.parametrize("path", RECORDINGS, ids=name)  # tables of layers are cut on purpose
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_end_of_a_line_of_evidence_is_not_cut(path: Path, language: str) -> None:
    """
    Rich takes the space after wide characters for too much text, where nobody sees to it, and cuts a margin
    that is bound together and too long for a narrow screen.
    """
    for width in (60, 75, 85, 100):
        screen = words(judged(path), language=language, width=width).splitlines()
        assert [line for line in screen if line.endswith("…")] == []


@pytest.mark.parametrize("path", RECORDINGS, ids=name)
def test_a_margin_that_does_not_fit_a_line_is_broken_at_its_comma_and_no_number(path: Path) -> None:
    for line in words(judged(path), width=60).splitlines():
        assert re.search(r"(≥|≤|off by|off|healthy)$", line) is None


SAYING: dict[type, tuple[str, ...]] = {
    Finding: ("title", "because", "next_limit", "undecided"),
    Gain: ("assumption",),
    Remedy: ("text", "needs", "verify", "seen"),
    StepAnswer: ("question", "answer", "text"),
    StepPhase: ("because",),
    Steady: ("text",),
    Fact: ("text",),
    Diagnosis: ("headline", "no_verdict", "doubts", "no_step_map", "no_rhythm"),
    Report: ("headline", "doubts"),
}
"""What is a sentence in what the analysis says."""


def sentences(value: object) -> Iterator[str]:
    """All sentences in *value* and in what it holds."""
    if isinstance(value, tuple):
        for item in value:
            yield from sentences(item)
    elif isinstance(value, dict):
        yield from sentences(tuple(value.values()))
    elif is_dataclass(value) and not isinstance(value, type | Cause):
        for field in fields(value):
            content = getattr(value, field.name)
            if field.name in SAYING.get(type(value), ()):
                yield from content if isinstance(content, tuple) else (content or "",)
            elif not field.name.startswith("_"):
                yield from sentences(content)


@pytest.mark.parametrize("path", EVERY, ids=name)
def test_every_sentence_of_an_analysis_can_be_told_in_another_language(path: Path) -> None:
    said = list(sentences(judged(path)))

    assert len(said) > 10
    assert [s for s in said if " " in s and not isinstance(s, Said) and recalled(s) is None] == []
    assert [s for s in said if isinstance(s, Said) and told(s, "en") != s] == []
