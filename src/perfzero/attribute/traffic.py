"""
What moves the bytes between device memory and the chip, and how many of them need not be moved.

    chains     elementwise operators one after another on one shape (`chains.py`), by module
    traffic    the modules that move most of the bytes, each with its reuse (`roofline.py`)
"""

from __future__ import annotations

import math

from perfzero.attribute.breakdown import Breakdown, Chain
from perfzero.attribute.counted import Counted
from perfzero.attribute.parts import NOTEWORTHY, Condition, Part, Why
from perfzero.attribute.paths import pattern, without_numbers
from perfzero.attribute.roofline import Roofline, kind_of_reuse
from perfzero.attribute.work import KNOWN

MUCH = 0.05
"""Of all bytes. Modules with less are many: of a ResNet-50 each layer moves 1 to 8 %."""


def chained(b: Breakdown) -> Condition | None:
    """Elementwise operators one after another, and what of their bytes a fused kernel spares at most."""
    whole = sum(chain.gpu_ns for chain in b.chains)
    if whole < NOTEWORTHY * b.busy_ns:
        return None
    alike: dict[str, list[Chain]] = {}
    for chain in b.chains:  # the heaviest first
        alike.setdefault(without_numbers(_name(chain)), []).append(chain)
    parts = [
        Part(
            pattern([_name(chain) for chain in of]),
            sum(chain.gpu_ns for chain in of) / b.busy_ns,
            of[0].calls[0],
            of[0].source,
        )
        for of in alike.values()
    ]
    rows = tuple(sorted(parts, key=lambda part: (-part.share, part.name)))
    return Condition("chains", True, whole / b.busy_ns, rows, spared=_spared(b))


def _name(chain: Chain) -> str:
    """Its module; outside of modules its operators."""
    if chain.module is not None:
        return chain.module or "(model)"
    return " + ".join(call.operator.removeprefix("aten::") for call in chain.calls)


def _spared(b: Breakdown) -> tuple[float, float] | None:
    """
    Of the bytes in chains, at least and at most; None where those of too many are not known.

    At least none, for that each works on the result of the one before no trace says.
    """
    known = [chain for chain in b.chains if chain.bytes > 0]
    moved = sum(chain.bytes for chain in known)
    if sum(chain.gpu_ns for chain in known) < KNOWN * sum(chain.gpu_ns for chain in b.chains):
        return None
    return 0.0, sum(chain.spared for chain in known) / moved


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
