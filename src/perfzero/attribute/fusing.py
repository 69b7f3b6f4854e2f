"""
What fusing leaves of the time of elementwise operators and norms.

    chains    those one after another on one shape (`chains.py`), by module, and beside them those that stand
              alone, such as an activation between two products

A compiler such as Inductor makes kernels of elementwise operators, casts, norms and softmax anew, and leaves
products and convolutions to their libraries. What it gains is the time of the bytes that it spares, and what
its kernels are faster than those that they take the place of. Both ends of what it leaves are argued by the
memory, for none of these operators computes enough to keep a pipe busy:

    at most    of a chain the bytes that are spared at least go, at the rate of the roof: no kernel moved them
               faster, or, out of the L2, at the chain's own rate. All else keeps the rate that it has, and
               what stands alone stays as it is: its neighbours are products, or not its neighbours. Of a
               chain of elementwise operators and sums over rows what comes from outside, each input by
               itself, and the last result are moved at half of its own rate at least (`GENERATED_AT`); norms
               of libraries keep their statistics, and stay out of this
    at least   of a chain the bytes stay that no fusing spares, and are moved at the roof. That also takes
               what kernels of today lose: statistics of a batch norm in channels-last move their bytes at a
               seventh of the roof (PyTorch 2.11 on an H200), and generated ones at half of it up to all.
               Where a chain runs faster than the roof, out of the L2, it keeps that rate. An elementwise
               operator that stands alone goes: with a neighbour that does not stand beside it, or into the
               end of the product before it. A norm does not, for it has to see all that a product makes
               first; it moves its bytes at the roof

The roof is the one that the rest of the report has, or, without, the fastest at which any of these operators
moves what it has to. Launches that no longer happen are left out: where they matter the GPU is idle, and that
is another finding's. So are operators that are no part of this, such as pools.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from perfzero.attribute.breakdown import Breakdown, Chain
from perfzero.attribute.operators import NORMS, ROW_SUMS, plain
from perfzero.attribute.parts import NOTEWORTHY, Condition, Part
from perfzero.attribute.paths import pattern, without_numbers
from perfzero.attribute.standing import others
from perfzero.attribute.work import KNOWN
from perfzero.limits import H200_LOOKS, Limit

GENERATED_AT: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.5
"""
Of the rate at which a chain moves bytes now, that of the kernel that takes its place, at least: generated
ones were seen at half of the roof up to all of it.
"""


def chains(b: Breakdown, unknown: float) -> Condition | None:
    """
    What fusing spares of the bytes in chains, and leaves of the time in them and `beside` them.

    Denied where there is none of it, and of next to nothing is *unknown* what it does.
    """
    chained = _time(b.chains)
    if chained < NOTEWORTHY * b.busy_ns:
        there_is = max(unknown, _time((*b.chains, *b.alone)) / b.busy_ns) >= NOTEWORTHY
        return None if there_is else Condition("chains", False, 0.0)
    every = (*b.chains, *b.alone)
    whole, roof = _time(every), _roof(b, every)
    left = [_left(chain, roof) for chain in every]
    fused = {call for chain in every for call in chain.calls}
    return Condition(
        "chains",
        True,
        chained / b.busy_ns,
        _rows(b),
        beside=(whole - chained) / b.busy_ns,
        left=(sum(least for least, _ in left) / whole, sum(most for _, most in left) / whole),
        spared=_spared(b.chains),
        others=others(b, (row for row in b.calls if row.call in fused)),
    )


def _time(these: Sequence[Chain]) -> int:
    return sum(chain.gpu_ns for chain in these)


def _roof(b: Breakdown, every: Sequence[Chain]) -> float:
    """Bytes per ns that a fused kernel moves at most; NaN where none of *every* has known bytes."""
    if b.ceilings is not None and b.ceilings.dram > 0:
        return b.ceilings.dram / 1e9
    long = [chain for chain in every if chain.bytes > 0 and chain.gpu_ns >= NOTEWORTHY * b.busy_ns]
    return max((chain.bytes / chain.gpu_ns for chain in long), default=math.nan)


def _left(chain: Chain, roof: float) -> tuple[float, float]:
    """
    What fusing leaves of the time of *chain* at least and at most; of unknown bytes nothing or all.

    Of a chain without time, which a trace may have, nothing can be left.
    """
    now = float(chain.gpu_ns)
    alone = len(chain.calls) == 1
    names = {plain(call.operator) for call in chain.calls}
    if alone and not names & (NORMS | ROW_SUMS):
        return 0.0, now
    if not (now > 0 and chain.bytes > 0 and roof > 0):
        return (now if alone else 0.0), now
    rate = max(roof, chain.bytes / now)
    least, most = (chain.bytes - chain.spared) / rate, now - chain.spared_least / rate
    if not alone and not names & NORMS:
        most = max(least, min(most, now * (1.0 - chain.spared_apart / chain.bytes) / GENERATED_AT))
    return least, most


def _rows(b: Breakdown) -> tuple[Part, ...]:
    """Chains by module, those taken together that differ in numbers only."""
    alike: dict[str, list[Chain]] = {}
    for chain in b.chains:  # the heaviest first
        alike.setdefault(without_numbers(_name(chain)), []).append(chain)
    parts = [
        Part(pattern([_name(chain) for chain in of]), _time(of) / b.busy_ns, of[0].calls[0], of[0].source)
        for of in alike.values()
    ]
    return tuple(sorted(parts, key=lambda part: (-part.share, part.name)))


def _name(chain: Chain) -> str:
    """Its module; outside of modules its operators."""
    if chain.module is not None:
        return chain.module or "(model)"
    return " + ".join(call.operator.removeprefix("aten::") for call in chain.calls)


def _spared(these: Sequence[Chain]) -> tuple[float, float] | None:
    """Of the bytes in chains, at least and at most; None where those of too many are not known."""
    known = [chain for chain in these if chain.bytes > 0]
    if _time(known) < KNOWN * _time(these):
        return None
    moved = sum(chain.bytes for chain in known)
    return sum(chain.spared_least for chain in known) / moved, sum(chain.spared for chain in known) / moved
