"""The ledger as CSV, JSON, workbook and page: the same figures in all, and no name has power there."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from html.parser import HTMLParser

import openpyxl
import pytest

from perfzero.report.ledger.build import build
from perfzero.report.ledger.conditions import check, parse
from perfzero.report.ledger.html import to_html
from perfzero.report.ledger.json_file import to_json
from perfzero.report.ledger.measure import Iteration
from perfzero.report.ledger.model import Ledger
from perfzero.report.ledger.tables import to_csv
from perfzero.report.ledger.xlsx import to_xlsx

HOSTILE = "=cmd|'/c calc'!A1</script><img src=x onerror=alert(1)>\x1b[2J"


@pytest.fixture(scope="module")
def hostile(before: Iteration, after: Iteration) -> Ledger:
    taken = after.first
    process = dataclasses.replace(taken.report.process, command=("python", HOSTILE))
    report = dataclasses.replace(taken.report, process=process)
    return build([before, Iteration(HOSTILE, (dataclasses.replace(taken, report=report),), after.means)])


def test_csv_has_every_line_with_its_interval(ledger: Ledger) -> None:
    rows = {row["metric"]: row for row in csv.DictReader(io.StringIO(to_csv(ledger)))}

    assert float(rows["step_rate"]["B against A: change"]) == pytest.approx(0.926, abs=0.002)
    assert rows["step_rate"]["B against A: word"] == "more"
    assert rows["l2_hit"]["B against A: word"] == "unknown"
    assert {line.key for line in ledger.lines if not line.quiet} == set(rows)


def test_json_has_the_same_figures_and_what_came_of_conditions(ledger: Ledger) -> None:
    document = json.loads(to_json(ledger, [check(parse("throughput < -2%"), ledger)]))
    rate = next(line for line in document["metrics"] if line["metric"] == "step_rate")

    assert rate["against_before"][0] is None
    assert rate["against_before"][1]["word"] == "more"
    assert document["gains"][0]["kept"] == "kept"
    assert document["gains"][0]["came"] is True
    assert document["conditions"][0]["outcome"] == "does not hold"
    assert [i["letter"] for i in document["iterations"]] == ["A", "B"]


def test_the_workbook_has_a_sheet_for_each_group_with_its_header_frozen(ledger: Ledger) -> None:
    book = openpyxl.load_workbook(io.BytesIO(to_xlsx(ledger)))

    assert book.sheetnames == ["Summary", "Speed", "The GPU", "Per step", "Where a step's time goes"]
    sheet = book["Speed"]
    assert sheet.freeze_panes == "B2"
    assert [cell.value for cell in sheet[1]] == [
        "metric", "unit", "A", "B", "B against A", "low", "high", "word",
    ]  # fmt: skip
    row = [cell.value for cell in sheet[2]]
    assert row[0] == "step rate"
    assert row[4] == pytest.approx(0.926, abs=0.002)
    assert "%" in sheet["E2"].number_format
    assert sheet.conditional_formatting


def test_the_workbook_takes_nothing_for_a_formula(hostile: Ledger) -> None:
    book = openpyxl.load_workbook(io.BytesIO(to_xlsx(hostile)))
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]

    assert [cell.coordinate for cell in cells if cell.data_type == "f"] == []
    assert any(isinstance(c.value, str) and c.value.startswith("=cmd") for c in cells)
    assert [cell.coordinate for cell in cells if cell.hyperlink] == []


class Tags(HTMLParser):
    """Collects what a browser would see as tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_the_page_needs_no_script_and_no_network_and_a_name_is_no_markup(hostile: Ledger) -> None:
    page = to_html(hostile)
    seen = Tags()
    seen.feed(page)

    assert seen.tags & {"script", "img", "link", "iframe", "object"} == set()
    assert {name for name in seen.attributes if name.startswith("on") or name in ("src", "href")} == set()
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "\x1b" not in page
    assert not re.search(r"https?://", page)
    assert "default-src 'none'" in page


def test_the_page_says_it_first_and_draws_the_intervals(ledger: Ledger) -> None:
    page = to_html(ledger)

    assert page.index("B is 1.93× as fast as A") < page.index("<table")
    assert page.count("<svg") >= 20
    assert "prefers-color-scheme: dark" in page


def test_the_page_speaks_chinese(ledger: Ledger) -> None:
    page = to_html(ledger, language="zh")

    assert '<html lang="zh">' in page
    assert "张量核心" in page
