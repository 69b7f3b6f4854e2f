"""
Modules whose kernels are shorter than it takes to launch the next one, with a good part of all launches.

What helps depends on what they are: a compiler fuses what works on elements, norms and reductions, and makes
fewer of them; products stay as many, and a CUDA graph launches them all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from perfzero.attribute.breakdown import Breakdown, CallRow
from perfzero.attribute.operators import multiplies_nothing
from perfzero.attribute.parts import Condition, Part, Topic, operator_of
from perfzero.attribute.paths import pattern, without_numbers
from perfzero.limits import CHOICE, H200_LOOKS, Limit

TINY_NS: Annotated[int, Limit("nanoseconds", H200_LOOKS)] = 10_000
"""
Mean length of a module's kernels, from which down they are tiny. Eager PyTorch launches 39,000 to 56,000
kernels a second with its main thread saturated (measured on an H200), one each 18 to 26 us: with kernels
half as long the GPU waits for the host half of the time or more.
"""

MANY: Annotated[float, Limit("ratio", CHOICE)] = 0.2
"""Of all launches, in modules of tiny kernels; with fewer, the others decide how late the host is."""

SOME: Annotated[float, Limit("ratio", CHOICE)] = 0.01
"""Of all launches; a module with fewer is not named."""


def tiny(b: Breakdown) -> Condition | None:
    """Such modules, and what share of the launches they make; of what replays launch nothing is said."""
    every = sum(row.launches for row in b.calls)
    modules: dict[str, list[CallRow]] = {}
    for row in b.calls:
        if row.kind == "kernel" and row.module is not None and row.launches:
            modules.setdefault(row.module, []).append(row)
    short = {path: rows for path, rows in modules.items() if _mean_ns(rows) < TINY_NS}
    count = sum(row.launches for rows in short.values() for row in rows)
    if not every or count < MANY * every:
        return None
    alike: dict[str, list[str]] = {}
    for path in short:
        alike.setdefault(without_numbers(path), []).append(path)
    parts = [_part(pattern(paths), [r for p in paths for r in short[p]], every) for paths in alike.values()]
    named = sorted((p for p in parts if p.share >= SOME), key=lambda part: (-part.share, part.name))
    if not named:
        return None
    fused = sum(row.launches for rows in short.values() for row in rows if _is_fusable(row))
    topic: Topic = "tiny_kernels" if 2 * fused >= count else "tiny_products"
    return Condition(topic, True, count / every, tuple(named))


def _part(name: str, rows: Sequence[CallRow], every: int) -> Part:
    first = max(rows, key=lambda row: row.launches)
    share = sum(row.launches for row in rows) / every
    return Part(name or "(model)", share, None, first.source, "tiny", _mean_ns(rows))


def _mean_ns(rows: Sequence[CallRow]) -> float:
    return sum(row.gpu_ns for row in rows) / sum(row.launches for row in rows)


def _is_fusable(row: CallRow) -> bool:
    return multiplies_nothing(operator_of(row))
