"""
Conditions as values, and the parts of a program that they concern.

Sums are of single calls (`CallRow`): by module, by operator, or by whatever names them, those taken together
that differ in numbers only and make the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from perfzero.attribute.breakdown import Call, CallRow, SourceLine
from perfzero.attribute.paths import pattern, without_numbers
from perfzero.attribute.standing import Others
from perfzero.limits import CHOICE, Limit

Topic = Literal[
    "channels_last",
    "alignment",
    "fused_attention",
    "fused_optimizer",
    "activations",
    "half_precision",
    "float64",
    "tf32",
    "tensor_cores",
    "tiny_kernels",
    "tiny_products",
    "chains",
    "traffic",
    "compile",
    "graph",
    "pageable",
    "pinned_source",
    "training",
    "fills",
    "clears_gradients",
    "serial_gradient",
    "pairwise",
    "slow_convolutions",
    "by_channel",
    "between",
    "allocates",
    "checks",
]

Why = Literal[
    "",
    "unaligned",
    "tf32_off",
    "convolution_tf32_off",
    "vector",
    "groups",
    "by_group",
    "tiny",
    "streaming",
    "poor_reuse",
    "from_l2",
]
"""Of a part, why it is one, where parts differ in that."""

NOTEWORTHY: Annotated[float, Limit("ratio", CHOICE)] = 0.01
"""
Of the busy time, for a condition to hold. What takes less is no reason for a remedy, and too much to be
called none.
"""


@dataclass(frozen=True, slots=True)
class Part:
    """
    Calls that a condition concerns: the module or operator, the heaviest call, and where it comes from.

    `why` it is concerned, with the number that says so, such as the length of rows that is no multiple of 8.
    """

    name: str
    share: float = 0.0
    call: Call | None = None
    source: SourceLine | None = None
    why: Why = ""
    number: float = 0.0


@dataclass(frozen=True, slots=True)
class Condition:
    """
    `holds`: it does, somewhere worth the remedy. `share`: of the busy time, of launches or bytes where the
    topic is about these, or of all time where it is about the host, in what it holds of; `rows`: that, the
    heaviest first. `beside`: what goes with it elsewhere, such as transposes between layouts, or calls a
    step. `left`: what the remedy leaves of the time in `share`, of chains of that in `beside` too, at least
    and at most, where known. `spared`: likewise what it spares of the bytes that are moved in `share`.
    `others`: what limits the work that the remedy leaves as it is, where known.
    """

    topic: Topic
    holds: bool
    share: float
    rows: tuple[Part, ...] = ()
    beside: float = 0.0
    left: tuple[float, float] | None = None
    spared: tuple[float, float] | None = None
    others: Others | None = None


def share_of(rows: Iterable[CallRow]) -> float:
    """What *rows* take of the busy time."""
    return sum(row.share for row in rows)


def by_call(rows: Iterable[CallRow]) -> list[tuple[Call, list[CallRow]]]:
    """*rows* by call, pass and module: the kernels of each call. What nobody is known to call is left out."""
    calls: dict[tuple[Call, str, str | None], list[CallRow]] = {}
    for row in rows:
        if row.call is not None:
            calls.setdefault((row.call, row.phase, row.module), []).append(row)
    return [(call, its) for (call, _, _), its in calls.items()]


def by_module(
    rows: Iterable[CallRow], why: Callable[[CallRow], tuple[Why, float]] | None = None
) -> tuple[Part, ...]:
    """
    *rows* by module, those outside of modules by operator, what no operator launched by kernel, and *why*
    each is one, as its heaviest says.
    """
    return grouped(
        rows, lambda row: (operator_of(row) or row.kernel) if row.module is None else row.module, why
    )


def grouped(
    rows: Iterable[CallRow],
    name: Callable[[CallRow], str],
    why: Callable[[CallRow], tuple[Why, float]] | None = None,
) -> tuple[Part, ...]:
    """*rows* by *name*, those taken together that differ in numbers only and make the same call."""
    named: dict[str, list[CallRow]] = {}
    for row in rows:
        named.setdefault(name(row), []).append(row)
    alike: dict[tuple[str, Call | None], list[str]] = {}
    heaviest = {one: heaviest_of(those) for one, those in named.items()}
    for one, row in heaviest.items():
        alike.setdefault((without_numbers(one), row.call), []).append(one)
    parts = [
        Part(
            pattern(those),
            sum(share_of(named[one]) for one in those),
            call,
            heaviest[those[0]].source,
            *(why(heaviest[those[0]]) if why is not None else ()),
        )
        for (_, call), those in alike.items()
    ]
    return tuple(sorted(parts, key=lambda part: (-part.share, part.name)))


def heaviest_of(rows: Sequence[CallRow]) -> CallRow:
    """Of the call that takes the most time, of those in the forward pass where there are any."""
    forward = [row for row in rows if row.phase == "forward"] or rows
    by_call: dict[Call | None, int] = {}
    for row in forward:
        by_call[row.call] = by_call.get(row.call, 0) + row.gpu_ns
    return max(forward, key=lambda row: by_call[row.call])


def operator_of(row: CallRow) -> str:
    """What launched *row*; empty where it is not known."""
    return "" if row.call is None else row.call.operator


def dtype_of(call: Call | None) -> str:
    """The type of a call's main input; empty where it is not known."""
    return "" if call is None or call.main is None else call.inputs[call.main].dtype


def shape_of(call: Call | None) -> tuple[int, ...]:
    """The shape of a call's main input; empty where it is not known."""
    return () if call is None or call.main is None else call.inputs[call.main].shape
