"""docs/rules.md tells of every rule and every threshold, with the values in force."""

from __future__ import annotations

import os
import re
from pathlib import Path

from perfzero.diagnose.rules import RULES
from perfzero.diagnose.thresholds import THRESHOLDS

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
TABLE = re.compile(r"(<!-- thresholds: .*? -->\n).*?(<!-- end -->)", re.DOTALL)


def table() -> str:
    head = "| name | value | unit | reason | source |\n|---|---|---|---|---|\n"
    rows = (f"| `{t.name}` | {t.value:g} | {t.unit} | {t.reason} | {t.source} |\n" for t in THRESHOLDS)
    return head + "".join(rows)


def test_every_rule_has_a_section():
    headings = re.findall(r"^### (\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert sorted(rule.__name__ for rule in RULES) == sorted(headings)


def test_the_table_of_thresholds_is_the_one_in_force():
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("PERFZERO_WRITE_DOCS"):
        page = TABLE.sub(lambda m: m[1] + table() + m[2], page)
        PAGE.write_text(page, encoding="utf-8")

    assert table() in page


def test_every_threshold_named_in_the_text_exists():
    text = PAGE.read_text(encoding="utf-8").split("## Thresholds")[0]
    named = set(re.findall(r"\(((?:`\w+`(?:, )?)+)\)", text))
    names = {n for group in named for n in re.findall(r"`(\w+)`", group)}

    assert names
    assert names <= {t.name for t in THRESHOLDS}
