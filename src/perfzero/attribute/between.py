"""
What runs between products, and waits for nothing but itself: kernels that multiply nothing and reach no roof.

Tensor cores that wait are usually waiting for a better layout, type or shape of their products. Where the
time in which nothing is at its roof belongs to elementwise operators, norms, copies and sums, they wait for
these: each of them hands its results on through memory, in a kernel too short or too simple to reach the
memory's roof. Then what helps is to fuse them, as where memory is the limit.
"""

from __future__ import annotations

from perfzero.attribute.breakdown import Breakdown, CallRow
from perfzero.attribute.operations import GENERATED
from perfzero.attribute.operators import multiplies_nothing
from perfzero.attribute.parts import NOTEWORTHY, Condition, grouped, operator_of, share_of
from perfzero.attribute.standing import limits_of


def between(b: Breakdown) -> Condition | None:
    """Kernels below every roof that multiply nothing, with their share; None where no roof is known."""
    limits = limits_of(b)
    if not any(limits.values()):
        return None
    its = [row for row in b.calls if limits.get(row.kernel) == "latency" and _multiplies_nothing(row)]
    share = share_of(its)
    if share < NOTEWORTHY:
        return Condition("between", False, 0.0)
    return Condition("between", True, share, grouped(its, operator_of))


def _multiplies_nothing(row: CallRow) -> bool:
    if row.kind != "kernel":
        return False
    return row.kernel.startswith(GENERATED) or (
        row.call is not None and multiplies_nothing(row.call.operator)
    )
