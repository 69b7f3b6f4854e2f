"""docs/rules.md tells of every rule, and names thresholds as they are named."""

from __future__ import annotations

import re
from pathlib import Path

from perfzero.diagnose.rules import RULES
from perfzero.diagnose.thresholds import THRESHOLDS

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_every_rule_has_a_section():
    headings = re.findall(r"^### (\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert sorted(rule.__name__ for rule in RULES) == sorted(headings)


def test_every_threshold_named_in_the_text_exists():
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"\(((?:`\w+`(?:, )?)+)\)", text))
    names = {n for group in named for n in re.findall(r"`(\w+)`", group)}

    assert names
    assert names <= {t.name for t in THRESHOLDS}
