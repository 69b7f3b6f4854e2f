"""
All limits on which it depends what a user is told, collected from where they stand, for docs/thresholds.md.

A rule's limit is a `Threshold` of `perfzero.diagnose.thresholds`; all others are module constants with a
`perfzero.limits.Limit` in their type, and the docstring below them as their reason.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, get_args

import perfzero
from perfzero.diagnose.thresholds import THRESHOLDS
from perfzero.limits import Limit

PACKAGE = Path(perfzero.__file__).parent

ROOMS: Mapping[str, tuple[str, ...]] = {
    "Verdicts, and what a fix gains": ("diagnose/**/*.py",),
    "Layers, kernels and lines": ("attribute/*.py",),
    "Reports": ("report/*.py",),
    "Comparisons": ("report/ledger/*.py",),
    "Steps, phases, gaps and differences": ("series/*.py",),
    "Words, roofs, certainty and cost": (
        "text.py",
        "hardware.py",
        "record/certainty.py",
        "record/cost.py",
    ),
    "GPUs as they are now": ("live/*.py",),
}
"""The headings of the page, and the modules below each; a test looks for limits in any other."""


@dataclass(frozen=True, slots=True)
class Row:
    """One limit of the page; *value* may be a pair, or one for each of several names."""

    name: str
    value: Any
    unit: str
    reason: str
    source: str


def modules(room: str) -> list[Path]:
    return sorted(path for pattern in ROOMS[room] for path in PACKAGE.glob(pattern))


def limits_of(path: Path) -> list[Row]:
    """The annotated limits of one module, in its order, each named as it is reached: ROOM.MODULE.NAME."""
    declared = list(declarations(path.read_text(encoding="utf-8")))
    if not declared:
        return []
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    names = vars(importlib.import_module(f"{PACKAGE.name}.{module}"))
    return [_limit(names, module, name, reason) for name, reason in declared]


def declarations(source: str) -> Iterator[tuple[str, str]]:
    """Name and docstring of each limit that *source* declares; an empty text where there is none."""
    body = ast.parse(source).body
    for node, below in zip(body, [*body[1:], None], strict=True):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and is_limit(node.annotation)
        ):
            yield node.target.id, _text(below)


def is_limit(annotation: ast.expr) -> bool:
    """Whether *annotation* is `Annotated[..., Limit(...)]`."""
    calls = (node.func for node in ast.walk(annotation) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id == "Limit" for called in calls)


def tables() -> Iterator[tuple[str, list[Row]]]:
    """Each heading of the page with its limits."""
    yield "Rules", [Row(*astuple(threshold)) for threshold in THRESHOLDS]
    for room in ROOMS:
        yield room, [limit for path in modules(room) for limit in limits_of(path)]


def shown(value: Any) -> str:
    """*value* as the page has it; of pairs and mappings each part."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {shown(part)}" for name, part in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(shown, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _text(node: ast.stmt | None) -> str:
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return " ".join(node.value.value.split())
    return ""


def _limit(names: dict[str, Any], module: str, name: str, reason: str) -> Row:
    annotation = eval(names["__annotations__"][name], names)
    (limit,) = (part for part in get_args(annotation) if isinstance(part, Limit))
    return Row(f"{module}.{name}", names[name], limit.unit, reason, limit.source)
