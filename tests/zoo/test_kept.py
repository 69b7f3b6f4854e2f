"""
No change of a rule may lose a case: what was right when `score.py --docs` ran last is still right.

The recordings are those of `benchmarks/zoo/run.py`, from an H200.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from perfzero.report.analysis import judged_report
from perfzero.store.reader import open_recording

KEPT = Path(__file__).parent / "kept"
VERDICTS = KEPT / "verdicts.json"
BEFORE: Mapping[str, Any] = json.loads(VERDICTS.read_text()) if VERDICTS.is_file() else {}
MOST_BYTES = 40_000_000

every_case = pytest.mark.parametrize("name", BEFORE)


@every_case
def test_a_verdict_that_was_right_is_still_right(scorer, name: str) -> None:
    """By counters, lines and layers together, as a user is told."""
    case = scorer("case").choose([name])[0]
    path = scorer("kept").Kept(KEPT).recording(case, "base")
    assert path is not None, "the program has changed: measure it again, then run score.py --docs"
    found = judged_report(path).gpus[0].diagnosis
    acting = [finding.rule for finding in found.findings if finding.severity != "info"]
    right = not acting if case.truth.healthy else bool(acting) and acting[0] in case.truth.causes

    assert right or not BEFORE[name]["right"]


@every_case
def test_a_kept_recording_is_whole_and_tells_nothing_of_whose_machine_it_was(name: str) -> None:
    for folder in (KEPT / name / version for version in ("base", "fixed")):
        if folder.is_dir():
            recording = open_recording(folder)
            assert recording.doubts == ()
            assert recording.manifest.process.exit_code == 0
            files = ("manifest.json", "events.jsonl", "command.txt", "kept.json")
            told = "".join((folder / file).read_text() for file in files)
            assert not [word for word in ("/home/", "/root/", "/tmp/", "hostname", "TOKEN") if word in told]


def test_the_recordings_are_small() -> None:
    assert sum(path.stat().st_size for path in KEPT.rglob("*") if path.is_file()) < MOST_BYTES


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_a_readme_says_how_many_were_right_when_first_judged_as_the_page_does(readme: str) -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "zoo.md").read_text(encoding="utf-8")
    [told] = [
        line for line in (root / readme).read_text(encoding="utf-8").splitlines() if "docs/zoo.md" in line
    ]
    of_page = [
        found
        for words in ("is named first", "is among the first two")
        for found in re.findall(rf"the true cause {words} .* (\d+) of (\d+) \|", page)
    ]
    [(first, cases), (first_two, _)] = of_page

    assert {first, first_two, cases} <= set(re.findall(r"\d+", told))
