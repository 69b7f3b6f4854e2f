"""Every number on which it depends what a user is told has a reason and a source, and is on one page."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import limit_tables
import pytest

from perfzero.limits import Unit

PACKAGE = limit_tables.PACKAGE
MODULES = sorted(PACKAGE.rglob("*.py"))
ROOMS = sorted({path for room in limit_tables.ROOMS for path in limit_tables.modules(room)})

SEARCHED = [path for path in ROOMS if path.parent.name != "series" or path.name == "compare.py"]
"""
All but the methods of `series`, whose numbers work together and are held by how often they are right on
programs of known truth: those that decide are on the page, and nobody looks for others.
"""

PLAIN = {0, 1, 2}
"""Signs, wholes and the least count of a comparison: no judgement lies in them."""

CONVERTED = {1e9, 1e-9}
"""Seconds to nanoseconds, and back."""

ARITY = {
    "attribute/compulsory.py",
    "attribute/conditions.py",
    "attribute/layout.py",
    "attribute/missed.py",
    "attribute/operations.py",
    "attribute/outputs.py",
    "attribute/tree.py",
}
"""Modules that know how many inputs an operator has, and dimensions an input."""

ROUNDED = {"live/lines.py", "live/panel.py", "report/ledger/shown.py", "text.py"}
"""Modules that write numbers: from where on a digit less is written says nothing of the program."""

METHODS: dict[str, set[str]] = {
    "attribute/clock.py": {"LEAST_RATIO", "SETTLED_NS"},
    "attribute/deconvolve.py": {"DRAWS"},
    "attribute/mixing.py": {"CUT_FROM", "MOST_FACTORING", "MOST_PAIRS", "MOST_PRODUCTS"},
    "attribute/moments.py": {"NEAR_ZERO", "WEIGHTLESS"},
    "attribute/positions.py": {"NO_STEP"},
    "attribute/rates.py": {"PASSES", "ROUNDS"},
    "attribute/stacks.py": {"MOST_MEANINGS"},
    "diagnose/evidence.py": {"BEAT_ROWS"},
    "diagnose/leftovers.py": {"SHORT"},
    "diagnose/rules/compute.py": {"FIRST_TENSOR_CORES"},
    "diagnose/split.py": {"NEGLIGIBLE"},
    "hardware.py": {"PLAUSIBLE_UNIX_S"},
    "live/close_look.py": {"LONGEST_S"},
    "live/lines.py": {"WIDE"},
    "live/processes.py": {"LONGEST"},
    "live/reading.py": {"AGAIN_S"},
    "record/cost.py": {"KEPT_NS"},
    "report/analysis.py": {"_KNOWN_REPORT_BYTES"},
    "report/breakdown.py": {"_SUFFIX"},
    "report/host_lines.py": {"LINES", "TEXT"},
    "report/ledger/notes.py": {"MOST_BYTES"},
    "report/ledger/program.py": {"LONGEST", "LOOK_EVERY_S"},
    "report/ledger/project_terminal.py": {"_NAME"},
    "report/ledger/shown.py": {"DOUBLED", "WIDE"},
    "report/ledger/terminal.py": {"_LONGEST"},
    "report/looks.py": {"MOST"},
    "report/page_data.py": {"LISTED", "NOTEWORTHY"},
    "report/perfetto.py": {"HOLE_NS", "MOST_LOOKS"},
    "report/settled.py": {"KERNEL"},
    "report/terminal.py": {"_DOUBTS", "_PHASES", "_TURNS"},
    "report/trace_file.py": {"MAX_TEXTS", "MOST_SLICES"},
    "text.py": {"_TRACE"},
}
"""What is compared with and judges nothing: rounds, sizes, widths, rounding, and facts of the hardware."""


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def compared(source: str) -> Iterator[tuple[ast.Compare, ast.expr]]:
    """Each side of each comparison; but a pair, which is a compute capability: hardware, not judgement."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            yield from (
                (node, side) for side in (node.left, *node.comparators) if not isinstance(side, ast.Tuple)
            )


def numbers(side: ast.expr) -> Iterator[float]:
    """The numbers in *side*; but indices."""
    left_out = {id(n) for at in ast.walk(side) if isinstance(at, ast.Subscript) for n in ast.walk(at.slice)}
    for node in ast.walk(side):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float) and id(node) not in left_out:
            yield node.value


def is_length(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"


def stray_limits(source: str, *, lengths: bool = False) -> list[str]:
    """Comparisons with a number that is neither named nor plain; *lengths* may be compared with any."""
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node, side in compared(source)
        if not (lengths and any(map(is_length, (node.left, *node.comparators))))
        if not set(numbers(side)) <= PLAIN | CONVERTED
    ]


def plain_names(source: str) -> set[str]:
    """Constants of the module that are plain numbers, or pairs of them: without unit and source."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and is_number(node.value):
            found.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            limit = limit_tables.is_limit(node.annotation)
            found.update({node.target.id} if node.value and is_number(node.value) and not limit else ())
    return found


def is_number(node: ast.expr) -> bool:
    """Whether *node* is a number that is written down, or reckoned from such."""
    parts = [part for part in ast.walk(node) if isinstance(part, ast.expr)]
    values = [part for part in parts if isinstance(part, ast.Constant)]
    reckoned = isinstance(node, ast.Constant | ast.UnaryOp | ast.BinOp | ast.Tuple) and not any(
        isinstance(part, ast.Call | ast.Attribute | ast.Subscript) for part in parts
    )
    return reckoned and bool(values) and all(type(value.value) in (int, float) for value in values)


def unnamed_limits(source: str) -> set[str]:
    """Constants without unit and source that something is compared with."""
    used = {n.id for _, side in compared(source) for n in ast.walk(side) if isinstance(n, ast.Name)}
    return used & plain_names(source)


@pytest.mark.parametrize("path", [path for path in SEARCHED if name_of(path) not in ROUNDED], ids=name_of)
def test_no_limit_hides_in_the_code(path: Path) -> None:
    assert stray_limits(path.read_text(), lengths=name_of(path) in ARITY) == []


def test_the_search_for_hidden_limits_finds_one() -> None:
    assert len(stray_limits("if share > 0.25:\n    pass")) == 1
    assert len(stray_limits("if len(steps) > 7:\n    pass")) == 1
    assert len(stray_limits("if steps[7] > 0.5 * whole:\n    pass", lengths=True)) == 1
    assert stray_limits("if share > LIMIT.value or share > 0 or steps[7] > 1:\n    pass") == []
    assert stray_limits("if len(inputs) > 7 and waited_ns > LIMIT_S * 1e9:\n    pass", lengths=True) == []


@pytest.mark.parametrize("path", SEARCHED, ids=name_of)
def test_what_is_compared_with_is_a_limit_or_belongs_to_a_method(path: Path) -> None:
    """Give it a unit and a source (`perfzero.limits`); if nothing that is told hangs on it, name it above."""
    assert unnamed_limits(path.read_text()) == METHODS.get(name_of(path), set())


def test_an_exception_is_still_one() -> None:
    """Numbers of methods are held by the test above; modules that are no longer searched are not."""
    searched = {name_of(path) for path in SEARCHED}

    assert {*METHODS, *ARITY, *ROUNDED} <= searched
    for name in ARITY | ROUNDED:
        assert stray_limits((PACKAGE / name).read_text()), name


def test_a_limit_without_a_source_would_be_found() -> None:
    use = "\nif share > KNOWN * whole:\n    pass"

    assert unnamed_limits("KNOWN = 0.5" + use) == {"KNOWN"}
    assert unnamed_limits("KNOWN: float = 3 * GRID / 2" + use) == {"KNOWN"}
    assert unnamed_limits('KNOWN: Annotated[float, Limit("ratio", CHOICE)] = 0.5' + use) == set()
    assert unnamed_limits("KNOWN = 'five'" + use) == set()
    assert unnamed_limits("KNOWN = 0.5\nshare = KNOWN * whole") == set()


@pytest.mark.parametrize("path", ROOMS, ids=name_of)
def test_a_limit_says_its_unit_why_and_who_says_so(path: Path) -> None:
    for row in limit_tables.limits_of(path):
        assert len(row.reason) > 20
        assert row.unit in get_args(Unit)
        assert row.source


def test_no_limit_stands_where_nobody_collects_it() -> None:
    """Name the module in tools/limit_tables.py."""
    elsewhere = [path for path in MODULES if path not in ROOMS]

    assert [name_of(path) for path in elsewhere if [*limit_tables.declarations(path.read_text())]] == []


def test_the_page_has_each_limit_once() -> None:
    names = [row.name for _, rows in limit_tables.tables() for row in rows]
    declared = [name for path in MODULES for name, _ in limit_tables.declarations(path.read_text())]

    assert len(names) == len(set(names))
    assert set(declared) <= {name.split(".")[-1] for name in names}
    assert len(names) > len(declared)


def test_a_limit_without_a_reason_would_be_found() -> None:
    bare = 'A: Annotated[float, Limit("ratio", CHOICE)] = 0.5\nB = 3\n"""Of something else."""\n'

    assert list(limit_tables.declarations(bare)) == [("A", "")]
    assert list(limit_tables.declarations(bare.replace("B = 3\n", ""))) == [("A", "Of something else.")]


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5"), (2_000_000, "2,000,000"), ((0.05, 8), "0.05, 8"), ({"a": 1.0}, "a 1")]
)
def test_a_value_is_shown_as_it_is_written(value: object, text: str) -> None:
    assert limit_tables.shown(value) == text
