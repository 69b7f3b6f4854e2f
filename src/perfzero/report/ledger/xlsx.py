"""
The ledger as a workbook: a sheet with the sentences, then one for each group of lines.

Every cell that came out of a recording is written as a string: none is taken for a formula or a link.
"""

from __future__ import annotations

import io
import math
from typing import Any

from perfzero import text
from perfzero.report.ledger import shown
from perfzero.report.ledger.model import Group, Ledger, Line
from perfzero.report.ledger.tables import comparisons, groups
from perfzero.report.voice import Voice

FORMATS = {
    "ratio": "0.0%",
    "seconds": "0.000000",
    "count/s": "#,##0.00",
    "count": "#,##0",
    "bytes": "#,##0",
    "bytes/s": "#,##0",
    "hertz": "#,##0",
    "watts": "0.0",
    "joules": "0.00",
    "celsius": "0.0",
}
"""How numbers of a unit are shown; they are stored as they are."""

LONGEST = 32767
"""Characters that a cell holds."""

WORDS = {"more": "more", "less": "less", "same": "no real difference", "unknown": "cannot be told"}


def to_xlsx(ledger: Ledger) -> bytes:
    """The bytes of the workbook."""
    import xlsxwriter

    out = io.BytesIO()
    options = {
        "in_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
        "nan_inf_to_errors": False,
    }
    with xlsxwriter.Workbook(out, options) as book:
        _summary(book, ledger)
        for group, lines in groups(ledger):
            _sheet(book, ledger, group, lines)
    return out.getvalue()


def _summary(book: Any, ledger: Ledger) -> None:
    say = Voice("en")
    bold, wrap = book.add_format({"bold": True}), book.add_format({"text_wrap": True, "valign": "top"})
    sheet = book.add_worksheet("Summary")
    sheet.set_column(0, 0, 12)
    sheet.set_column(1, 1, 34)
    sheet.set_column(2, 3, 60, wrap)
    at = 0
    for place in range(1, len(ledger.entries)):
        _write(sheet, at, 0, shown.sentence(ledger, place, say), bold)
        at += 1
    at += 1
    for column, name in enumerate(("iteration", "recording", "verdict", "command")):
        _write(sheet, at, column, name, bold)
    for entry in ledger.entries:
        at += 1
        cells = (entry.letter, entry.name, entry.headline, " ".join(entry.command))
        for column, cell in enumerate(cells):
            _write(sheet, at, column, cell)
    for title, facts in (("unlike machines", ledger.unlike), ("not the same in all", ledger.told)):
        if facts:
            at += 2
            _write(sheet, at, 0, title, bold)
            for fact in facts:
                at += 1
                _write(sheet, at, 0, fact)


def _sheet(book: Any, ledger: Ledger, group: Group, lines: tuple[Line, ...]) -> None:
    sheet = book.add_worksheet(Voice("en")(f"compare.group_{group}")[:31])
    head = book.add_format({"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"})
    letters = [entry.letter for entry in ledger.entries]
    names = ["metric", "unit", *letters]
    for pair in comparisons(ledger):
        against = f"{letters[pair.after]} against {letters[pair.before]}"
        names += [against, "low", "high", "word"]
    for column, name in enumerate(names):
        _write(sheet, 0, column, name, head)
    for at, line in enumerate(lines, start=1):
        _row(book, sheet, at, ledger, line)
    sheet.freeze_panes(1, 1)
    sheet.autofilter(0, 0, len(lines), len(names) - 1)
    sheet.set_column(0, 0, 30)
    sheet.set_column(1, 1, 9)
    sheet.set_column(2, len(names) - 1, 15)
    _colours(book, sheet, ledger, lines)


def _row(book: Any, sheet: Any, at: int, ledger: Ledger, line: Line) -> None:
    _write(sheet, at, 0, str(line.label))
    _write(sheet, at, 1, line.unit)
    column = 2
    for cell in line.cells:
        _number(
            sheet, at, column, cell.value, book.add_format({"num_format": FORMATS.get(line.unit, "0.000")})
        )
        column += 1
    for pair in comparisons(ledger):
        found = pair.of(line)
        points = found is not None and found.scale == "points"
        shape = "+0.0%;-0.0%;0.0%"
        if points and line.unit != "ratio":
            shape = "+0.0;-0.0;0.0" if line.unit == "celsius" else "+0.000000;-0.000000;0"
        form = book.add_format({"num_format": shape})
        if found is not None:
            for offset, number in enumerate((found.value, found.low, found.high)):
                _number(sheet, at, column + offset, number, form)
            _write(sheet, at, column + 3, WORDS[found.word])
        column += 4


def _colours(book: Any, sheet: Any, ledger: Ledger, lines: tuple[Line, ...]) -> None:
    """Green where a change is for the better, red where for the worse, grey where there is none to tell."""
    colours = {
        True: book.add_format({"font_color": "#1a7f37"}),
        False: book.add_format({"font_color": "#cf222e"}),
        None: book.add_format({"font_color": "#6e7781"}),
    }
    for at, line in enumerate(lines, start=1):
        for place, _ in enumerate(comparisons(ledger)):
            column = 2 + len(ledger.entries) + 4 * place
            word = column + 3
            rules: list[tuple[str, bool | None]] = [(WORDS["same"], None), (WORDS["unknown"], None)]
            if line.better != "neither":
                rules += [(WORDS[line.better], True)]
                rules += [(WORDS["less" if line.better == "more" else "more"], False)]
            for told, better in rules:
                sheet.conditional_format(
                    at,
                    column,
                    at,
                    word,
                    {
                        "type": "formula",
                        "criteria": f'=${_letters(word)}${at + 1}="{told}"',
                        "format": colours[better],
                    },
                )


def _letters(column: int) -> str:
    """The name of a column: 0 -> A, 26 -> AA."""
    name = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


def _write(sheet: Any, at: int, column: int, cell: str, form: Any = None) -> None:
    sheet.write_string(at, column, text.printable(cell)[:LONGEST], form)


def _number(sheet: Any, at: int, column: int, number: float, form: Any) -> None:
    if math.isfinite(number):
        sheet.write_number(at, column, number, form)
    else:
        sheet.write_blank(at, column, None, form)
