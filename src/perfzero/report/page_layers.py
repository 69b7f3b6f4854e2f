"""
The looks of a report as the page shows them: tables that can be sorted, a tree that can be entered.

Columns instead of rows, and names once: a look of fifty thousand nodes is a megabyte of JSON, which
compresses to a tenth. Numbers are in base units and None where they are not known; the page writes them
as `perfzero.text` does.

    views   layers (like modules together), operators, kernels, lines of the program
    tree    modules, below each the operators that it calls itself, below these their kernels; what runs
            outside of modules lies below what it is part of. Bytes are known of modules only
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from perfzero import text
from perfzero.attribute.breakdown import Breakdown, Call, CallRow, Row, SourceLine
from perfzero.attribute.counted import Counted, Figure
from perfzero.attribute.roofline import Roofline, kind_of_reuse
from perfzero.report.breakdown import given, kernels_alone, overlap, within_model
from perfzero.report.model import Report
from perfzero.report.voice import Voice
from perfzero.values import jsonable
from perfzero.words.said import counted

VIEWS = ("layers", "operators", "kernels", "lines")

COLUMNS = (
    "name", "kind", "count", "ns", "share", "per_step_ns", "launches", "bytes", "read_share", "tensor", "sm",
    "l2_hit", "intensity", "flops", "roof", "limit", "reuse", "given", "source",
)  # fmt: skip
"""Of every view, in this order; one that no row has a value for is empty."""


def looks_of(report: Report, words: Mapping[str, str], say: Voice) -> list[dict[str, Any]]:
    """What is said of each look without its rows; the busiest first."""
    only = (report.gpus[0].gpu.index,) if len(report.gpus) == 1 else ()
    found = []
    for file, look in _busiest_first(report.breakdowns):
        whole = overlap(look)
        steps = say("looked_steps", steps=counted(look.steps, "step"))
        length = text.duration(look.span_ns / 1e9)
        found.append(
            {
                "file": text.printable(file),
                "gpus": list(report.looked_at.get(file) or only),
                "seen": steps if look.steps else say("looked_unmarked", length=length),
                "first": "kernels" if kernels_alone(look) else "layers",
                "steps": look.steps,
                "busy_ns": look.busy_ns,
                "overlap": "" if math.isnan(whole) else say("layers_overlap", sum=text.percent(whole)),
                "counted": look.sampled is not None,
                "sampled": _sampled(look, words),
                "doubts": [say.tell(d) for d in look.doubts],
                "ceilings": None if look.ceilings is None else jsonable(asdict(look.ceilings)),
            }
        )
    return found


def rows_of(report: Report) -> list[dict[str, Any]]:
    """The views and the tree of each look, in the order of `looks_of`."""
    found: list[dict[str, Any]] = jsonable(
        [{"views": _views(look), "tree": _tree(look)} for _, look in _busiest_first(report.breakdowns)]
    )
    return found


def _busiest_first(looks: Mapping[str, Breakdown]) -> list[tuple[str, Breakdown]]:
    return sorted(looks.items(), key=lambda look: (-look[1].busy_ns, look[0]))


def _sampled(look: Breakdown, words: Mapping[str, str]) -> str:
    if look.sampled is None:
        return ""
    return words["look_sampled"].format(
        samples=f"{look.sampled.samples:,}",
        period=text.duration(look.sampled.period_ns / 1e9),
        seen=text.percent(look.sampled.seen),
    )


def _views(look: Breakdown) -> dict[str, Any]:
    layers = [_cells(a.row, within_model(a.row.name), a.class_name, a.count) for a in look.alike]
    layers += [_cells(row, row.name, "", 1) for row in look.elsewhere if row.time.gpu_ns]
    return {
        "layers": _by_column(layers),
        "operators": _by_column([_cells(row, row.name, "", 1) for row in look.operators]),
        "kernels": _by_column([_cells(k.row, k.row.name, k.kind, 1) for k in look.kernels]),
        "lines": _by_column(list(_lines(look))),
    }


def _by_column(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Names once each (`names`), and each column as a list; texts are places in `names`."""
    names: dict[str, int] = {}
    columns: dict[str, list[Any]] = {}
    for column in COLUMNS:
        values = [row.get(column) for row in rows]
        if any(isinstance(v, str) for v in values):
            columns[column] = [names.setdefault(text.printable(v or ""), len(names)) for v in values]
        elif any(v is not None and not (isinstance(v, float) and math.isnan(v)) for v in values):
            columns[column] = [_short(v) for v in values]
    return {"rows": len(rows), "names": list(names), "columns": columns}


def _short(value: Any) -> Any:
    """Five digits are more than is shown."""
    return float(f"{value:.5g}") if isinstance(value, float) and math.isfinite(value) else value


def _cells(row: Row, name: str, kind: str, count: int) -> dict[str, Any]:
    time = row.time
    cells: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "count": count,
        "ns": time.gpu_ns,
        "share": time.share,
        "per_step_ns": time.per_step_ns,
        "launches": time.launches,
        "given": given(row.call),
        "source": _place(row.source),
        **_under_roof(row.roofline),
    }
    if row.counted is not None:
        reads = row.counted.dram_read_bytes
        cells["bytes"] = _moved(row.counted)
        cells["read_share"] = math.nan if reads is None else reads.share
        cells["tensor"] = _value(row.counted.tensor_active)
        cells["sm"] = _value(row.counted.sm_active)
        cells["l2_hit"] = _value(row.counted.l2_hit)
    return cells


def _moved(counted: Counted | None) -> float:
    """Bytes read from and written to device memory; NaN where either is not known."""
    if counted is None:
        return math.nan
    return _value(counted.dram_read_bytes) + _value(counted.dram_write_bytes)


def _value(figure: Figure | None) -> float:
    return math.nan if figure is None else figure.value


def _under_roof(roofline: Roofline) -> dict[str, Any]:
    return {
        "flops": roofline.flops,
        # Of what computes no product none is known: 0 would be a place on the axis.
        "intensity": roofline.intensity if roofline.flops else math.nan,
        "roof": roofline.roof,
        "limit": roofline.limit,
        "reuse": kind_of_reuse(roofline),
    }


def _place(source: SourceLine | None) -> str:
    if source is None:
        return ""
    where = source.file if source.line is None else f"{source.file}:{source.line}"
    return f"{where} {source.function}".rstrip()


def _lines(look: Breakdown) -> Iterable[dict[str, Any]]:
    """The calls of a look by the line of the program that made them, the heaviest first."""
    found: dict[str, list[CallRow]] = defaultdict(list)
    for call in look.calls:
        found[_place(call.source)].append(call)
    for place, calls in sorted(found.items(), key=lambda line: -sum(c.gpu_ns for c in line[1])):
        ns = sum(c.gpu_ns for c in calls)
        yield {
            "name": place,
            "ns": ns,
            "share": ns / look.busy_ns if look.busy_ns else math.nan,
            "per_step_ns": ns / look.steps if look.steps else math.nan,
            "launches": sum(c.launches for c in calls),
            "count": len({c.module for c in calls}),
        }


def _tree(look: Breakdown) -> dict[str, Any]:
    """Nodes with `parent` (an index, -1 for the root), name, kind and time; a parent before its children."""
    tree = _Tree()
    root = tree.add(-1, "", "work", look.total.gpu_ns, _moved(look.counted))
    modules: dict[str, int] = {}
    for module in look.modules:
        above = root if module.parent is None else modules.get(module.parent, root)
        name = within_model(module.path) if module.parent is None else module.path.rpartition(".")[2]
        label = f"{name} · {module.class_name}" if module.class_name else name
        modules[module.path] = tree.add(
            above, label, "module", module.total.gpu_ns, _moved(module.total_counted)
        )
    groups: dict[tuple[str | None, str], list[CallRow]] = defaultdict(list)
    for call in look.calls:
        groups[call.module, call.phase if call.module is None else ""].append(call)
    for (module_path, phase), calls in groups.items():
        if module_path is not None and module_path in modules:
            above = modules[module_path]
        else:
            above = tree.add(root, phase or (module_path or ""), "part", sum(c.gpu_ns for c in calls))
        _add_calls(tree, above, calls)
    return tree.columns()


def _add_calls(tree: _Tree, above: int, calls: Iterable[CallRow]) -> None:
    """The operators of one module below it, and their kernels below them."""
    by_operator: dict[Call | None, list[CallRow]] = defaultdict(list)
    for call in calls:
        by_operator[call.call].append(call)
    for operator, its in sorted(by_operator.items(), key=lambda o: -sum(c.gpu_ns for c in o[1])):
        place = above
        if operator is not None:
            label = " ".join(part for part in (operator.operator, given(operator)) if part)
            place = tree.add(above, label, "operator", sum(c.gpu_ns for c in its))
        for call in sorted(its, key=lambda c: -c.gpu_ns):
            tree.add(place, call.kernel, call.phase, call.gpu_ns)


class _Tree:
    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._kinds: dict[str, int] = {}
        self._rows: list[tuple[int, int, int, int, float]] = []

    def add(self, parent: int, name: str, kind: str, ns: int, moved: float = math.nan) -> int:
        name = text.printable(name)
        its_name = self._names.setdefault(name, len(self._names))
        its_kind = self._kinds.setdefault(kind, len(self._kinds))
        self._rows.append((parent, its_name, its_kind, ns, _short(moved)))
        return len(self._rows) - 1

    def columns(self) -> dict[str, Any]:
        parent, name, kind, ns, moved = (list(column) for column in zip(*self._rows, strict=True))
        return {
            "names": list(self._names),
            "kinds": list(self._kinds),
            "parent": parent,
            "name": name,
            "kind": kind,
            "ns": ns,
            "bytes": moved if any(map(math.isfinite, moved)) else [],
        }
