"""
What a program has done already, and what it has nothing of, as a look inside shows it: advice to do it again,
or to do it to nothing, is contradicted.

    compile            a compiler makes the kernels: those of Inductor take a good part of the time, by their
                       names, and nearly all of what could be its work, and the operators that it fuses launch
                       next to nothing themselves any more. Its share is told beside. A module of the class
                       OptimizedModule alone says that a compiler was asked, not that it fused anything
    graph              nearly all work is launched by replays of CUDA graphs
    pageable, pinned_source
                       copies from the host come from ordinary memory, or from pinned memory, as Kineto tells
                       of each
    training           there is an optimizer, or a backward pass
    fills              memory is filled with one value, by kernels or by sets; where it is, by what
    clears_gradients   gradients are filled with zeros, which PyTorch does to all of them at once

And what it does that nothing needs:

    checks             results are asked for NaN one by one, each by three launches that stand nowhere else in
                       such numbers: what is not equal to itself, whether there is any, and a value read back.
                       So does autograd's anomaly detection after each operator of the backward pass, where
                       `isnan` calls `ne` of a gradient and itself (seen in a trace of PyTorch 2.14 on a CPU,
                       not yet on a GPU). Tokens that are compared with the end of a text are read back in the
                       same way, but are whole numbers

A condition holds where the advice would change something. As everywhere, one is denied only where little runs
of which the trace does not say what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from perfzero.attribute.breakdown import Breakdown, CallRow
from perfzero.attribute.operations import GENERATED
from perfzero.attribute.operators import HALF, plain
from perfzero.attribute.parts import NOTEWORTHY, Condition, Topic, by_module, operator_of, share_of
from perfzero.attribute.products import is_heavy
from perfzero.limits import CHOICE, Limit

FEW_LAUNCHES: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""Of all launches: of less than this nobody would notice that they are gone."""

FROM_HOST = "Memcpy HtoD"
ORDINARY, PINNED = "(Pageable", "(Pinned"
"""How Kineto names copies from the host, and the memory that they come from."""

NEARLY_ALL: Annotated[float, Limit("ratio", CHOICE)] = 0.95
"""
Of the time of copies from the host, from one kind of memory: a few of another kind, such as of a seed, are
no reason.
"""


CHECK = ("ne", "any", "_local_scalar_dense")
"""
The operators of a check for NaN, without `aten::`, each of which launches something once, and sets memory
beside it where `any` asks by several blocks.
"""

MAY_BE_NAN = frozenset({"float", "double", *HALF})
"""Types of which a number may be none."""

MANY_CHECKS: Annotated[float, Limit("ratio", CHOICE)] = 0.05
"""Of all launches, in each of the three; a network checked after each operator has 0.1 and more."""

ALIKE: Annotated[float, Limit("ratio", CHOICE)] = 1.5
"""How often at most one of the three is launched for each of another: checks have one of each."""

NEARLY_ALL_GENERATED: Annotated[float, Limit("ratio", CHOICE)] = 0.9
"""
Of the time of what a compiler could generate. Inductor falls back on PyTorch's own kernels for little of what
it compiles, such as sorts, and clipped gradients and metrics stand beside it; with more than a tenth left,
another part of the program is not compiled, and compiling that gains something.
"""

LIBRARIES = re.compile(
    r"gemm|gemv|nvjet|cutlass|xmma|splitk|conv(?!ert)|fprop|[dw]grad|winograd|fmha|flash|sdpa|attention"
    r"|triton_tem|^nccl",
    re.IGNORECASE,
)
"""
Kernels that a compiler leaves as they are, by their names, as replays of graphs leave nothing else: products,
convolutions and attention, of libraries or of Inductor's templates for them, and communication.
"""


def compiled(b: Breakdown) -> Condition | None:
    """Denied where a compiler has fused what it can."""
    generated = share_of(row for row in b.calls if row.kernel.startswith(GENERATED))
    others = share_of(row for row in b.calls if _could_be_generated(row))
    fusible = sum(chain.gpu_ns for chain in (*b.chains, *b.alone))
    if generated < max(NOTEWORTHY, NEARLY_ALL_GENERATED * (generated + others)):
        return None
    return Condition("compile", False, 0.0, beside=generated) if fusible < NOTEWORTHY * b.busy_ns else None


def _could_be_generated(row: CallRow) -> bool:
    """
    Whether a kernel that no compiler made may be what one would make, as all of which nobody knows better.

    An optimizer's are left out: it is compiled by itself, if at all.
    """
    if row.kind != "kernel" or row.phase == "optimizer" or row.kernel.startswith(GENERATED):
        return False
    return not (is_heavy(row.call) or LIBRARIES.search(row.kernel))


def graphed(b: Breakdown) -> Condition | None:
    """Denied where replays launch nearly everything."""
    every, single = b.total.launches, sum(row.launches for row in b.calls)
    return Condition("graph", False, 0.0) if every and single < FEW_LAUNCHES * every else None


def copied(b: Breakdown) -> Iterable[Condition]:
    """From which memory of the host copies come; none where there are none, or of both kinds."""
    rows = [row for row in b.calls if row.kind == "memcpy" and row.kernel.startswith(FROM_HOST)]
    whole = sum(row.gpu_ns for row in rows)
    pairs: tuple[tuple[Topic, str, Topic], ...] = (
        ("pageable", ORDINARY, "pinned_source"),
        ("pinned_source", PINNED, "pageable"),
    )
    for holds, word, denied in pairs:
        those = [row for row in rows if word in row.kernel]
        if whole and sum(row.gpu_ns for row in those) >= NEARLY_ALL * whole:
            yield Condition(holds, True, share_of(those))
            yield Condition(denied, False, 0.0)


def checked(b: Breakdown) -> Condition | None:
    """Holds where many results are asked for NaN; of what asks for none nothing is said."""
    every = sum(row.launches for row in b.calls)
    asked = {name: [r for r in b.calls if plain(operator_of(r)) == name] for name in CHECK}
    asked["ne"] = [row for row in asked["ne"] if _may_be_of_itself(row)]
    each = [sum(row.launches for row in rows if row.kind != "memset") for rows in asked.values()]
    if not every or min(each) < MANY_CHECKS * every or max(each) > ALIKE * min(each):
        return None
    return Condition("checks", True, sum(row.launches for rows in asked.values() for row in rows) / every)


def _may_be_of_itself(row: CallRow) -> bool:
    """Whether *row* compares numbers that may be NaN with as many that lie as they do, as with themselves."""
    inputs = () if row.call is None else row.call.inputs
    return len(inputs) == 2 and inputs[0] == inputs[1] and inputs[0].dtype in MAY_BE_NAN


def trained(b: Breakdown, unknown: float) -> Condition | None:
    """Whether there is an optimizer; denied where there is no backward pass either."""
    optimizer = [row for row in b.calls if row.phase == "optimizer"]
    if share_of(optimizer) >= NOTEWORTHY:
        return Condition("training", True, share_of(optimizer))
    backward = b.total.backward_ns or optimizer
    return None if backward or unknown >= NOTEWORTHY else Condition("training", False, 0.0)


def filled(b: Breakdown, unknown: float) -> Iterable[Condition]:
    """What is filled with one value, and whether that is gradients."""
    rows = [row for row in b.calls if _fills(row)]
    zeros = [row for row in rows if plain(operator_of(row)) == "_foreach_zero"]
    topics: tuple[tuple[Topic, list[CallRow]], ...] = (("fills", rows), ("clears_gradients", zeros))
    for topic, those in topics:
        if share_of(those) >= NOTEWORTHY:
            yield Condition(topic, True, share_of(those), by_module(those))
        elif max(share_of(rows), unknown) < NOTEWORTHY:
            yield Condition(topic, False, 0.0)


def _fills(row: CallRow) -> bool:
    return row.kind == "memset" or plain(operator_of(row)) in ("fill", "zero", "_foreach_zero")
