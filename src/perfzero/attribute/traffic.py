"""
What moves the bytes between device memory and the chip, and how many of them need not be moved.

The modules that move most of the bytes, each with its reuse (`roofline.py`).
"""

from __future__ import annotations

import math
from typing import Annotated

from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.counted import Counted
from perfzero.attribute.parts import Condition, Part, Why
from perfzero.attribute.roofline import Roofline, kind_of_reuse
from perfzero.limits import H200_LOOKS, Limit

MUCH: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.05
"""
Of all bytes, that a module moves to be named. Modules with less are many: of a ResNet-50 each layer moves 1
to 8 %.
"""


def traffic(b: Breakdown) -> Condition | None:
    """
    The modules that move most of the bytes; `beside`: what of all bytes operators move beyond what they have
    to, at least, of those of which that is known.
    """
    total = _moved(b.counted)
    if not total > 0:
        return None
    parts = [
        Part(row.name or "(model)", _moved(row.counted) / total, row.call, row.source, *_reuse(row.roofline))
        for row in (*(alike.row for alike in b.alike), *b.elsewhere)
        if _moved(row.counted) >= MUCH * total
    ]
    if not parts:
        return None
    beyond = sum(
        row.roofline.compulsory_bytes * (row.roofline.reuse_low - 1)
        for row in b.operators
        if row.roofline.reuse_low > 1
    )
    rows = tuple(sorted(parts, key=lambda part: (-part.share, part.name)))
    return Condition("traffic", True, sum(part.share for part in parts), rows, beside=beyond / total)


def _moved(counted: Counted | None) -> float:
    reads = None if counted is None else counted.dram_read_bytes
    writes = None if counted is None else counted.dram_write_bytes
    return math.nan if reads is None or writes is None else reads.value + writes.value


_KINDS: dict[str, Why] = {"from L2": "from_l2", "streaming": "streaming", "poor reuse": "poor_reuse"}


def _reuse(roofline: Roofline) -> tuple[Why, float]:
    why = _KINDS.get(kind_of_reuse(roofline), "")
    return (why, roofline.reuse) if why else ("", 0.0)
