"""Every limit stands in the table, with a reason, and is used."""

from __future__ import annotations

import ast
from pathlib import Path

import perfzero.diagnose
from perfzero.diagnose import thresholds

ROOM = Path(perfzero.diagnose.__file__).parent
FILES = sorted(p for p in ROOM.rglob("*.py") if p.name != "thresholds.py")


def test_every_threshold_has_a_reason_and_a_source():
    for threshold in thresholds.THRESHOLDS:
        assert len(threshold.reason) > 20
        assert threshold.source


def test_the_table_holds_every_threshold_once_under_its_own_name():
    declared = {k.lower(): v for k, v in vars(thresholds).items() if isinstance(v, thresholds.Threshold)}

    assert len(declared) > 40
    assert len(declared) == len(thresholds.THRESHOLDS)
    assert all(name == threshold.name for name, threshold in declared.items())


def test_every_threshold_is_used():
    names = {
        node.id
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }

    assert [t.name for t in thresholds.THRESHOLDS if t.name.upper() not in names] == []


def test_watch_comes_before_bad():
    values = {t.name: t.value for t in thresholds.THRESHOLDS}

    for name in [n for n in values if n.endswith("_bad") and n[:-3] + "watch" in values]:
        assert values[name[:-3] + "watch"] < values[name]
