"""The ledger for programs: strict JSON, base units, a missing number null. docs/compare.md has the fields."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from perfzero import __version__
from perfzero.report.ledger.conditions import Checked
from perfzero.report.ledger.model import Ledger, Line
from perfzero.series.compare import Difference
from perfzero.values import jsonable

# Readers may rely on a version for ever: a field is only ever added within one.
# 1 - first version
SCHEMA_VERSION = 1


def to_json(ledger: Ledger, checked: Sequence[Checked] = ()) -> str:
    """The text of the ledger, and of what came of conditions."""
    return json.dumps(document(ledger, checked), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def document(ledger: Ledger, checked: Sequence[Checked] = ()) -> dict[str, Any]:
    """The ledger as JSON values."""
    found: dict[str, Any] = jsonable(
        {
            "schema": SCHEMA_VERSION,
            "perfzero": __version__,
            "confidence": ledger.confidence,
            "margin": ledger.margin,
            "unlike": ledger.unlike,
            "told": ledger.told,
            "iterations": [asdict(entry) for entry in ledger.entries],
            "gains": [asdict(promise) for promise in ledger.promises],
            "metrics": [_line(line) for line in ledger.lines],
            "conditions": [
                {"condition": c.condition.text, "outcome": c.outcome, "text": c.text} for c in checked
            ],
        }
    )
    return found


def _line(line: Line) -> dict[str, Any]:
    return {
        "metric": line.key,
        "label": str(line.label),
        "unit": line.unit,
        "group": line.group,
        "better": line.better,
        "values": [asdict(cell) for cell in line.cells],
        "against_before": [_difference(d) for d in line.before],
        "against_first": [_difference(d) for d in line.first],
    }


def _difference(found: Difference | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)
