"""
The ledger as plain tables, one per group of lines: what CSV, spreadsheet and page have in common.

Full precision and base units; a missing number is empty. Always English.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass

from perfzero.report.ledger.model import GROUPS, Group, Ledger, Line
from perfzero.series.compare import Difference

Value = str | float | None

COMPARED = ("change", "low", "high", "p", "word")
"""The columns of each comparison."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Iteration `after` against iteration `before`, by their places."""

    before: int
    after: int

    def of(self, line: Line) -> Difference | None:
        """The difference that *line* has for it."""
        return line.before[self.after] if self.before == self.after - 1 else line.first[self.after]


def comparisons(ledger: Ledger) -> tuple[Comparison, ...]:
    """Each iteration against the one before it, then each against the first."""
    places = range(1, len(ledger.entries))
    return (*(Comparison(p - 1, p) for p in places), *(Comparison(0, p) for p in places if p > 1))


def groups(ledger: Ledger) -> Iterator[tuple[Group, tuple[Line, ...]]]:
    """The groups that have lines, in their order."""
    for group in GROUPS:
        lines = ledger.shown(group)
        if lines:
            yield group, lines


def header(ledger: Ledger) -> list[str]:
    """The names of the columns."""
    letters = [entry.letter for entry in ledger.entries]
    names = ["group", "metric", "label", "unit", "better"]
    for letter in letters:
        names += [letter, f"{letter} low", f"{letter} high"]
    for pair in comparisons(ledger):
        names += [f"{letters[pair.after]} against {letters[pair.before]}: {name}" for name in COMPARED]
    return names


def row(ledger: Ledger, line: Line) -> list[Value]:
    """The values of *line*, one for each name of `header`."""
    values: list[Value] = [line.group, line.key, str(line.label), line.unit, line.better]
    for cell in line.cells:
        values += [_number(cell.value), _number(cell.low), _number(cell.high)]
    for pair in comparisons(ledger):
        found = pair.of(line)
        if found is None:
            values += [None] * len(COMPARED)
        else:
            values += [_number(n) for n in (found.value, found.low, found.high, found.p)]
            values.append(found.word)
    return values


def to_csv(ledger: Ledger) -> str:
    """All lines as one table. What a spreadsheet would take for a formula has an apostrophe before it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header(ledger))
    for _, lines in groups(ledger):
        for line in lines:
            writer.writerow([_cell(value) for value in row(ledger, line)])
    return out.getvalue()


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
