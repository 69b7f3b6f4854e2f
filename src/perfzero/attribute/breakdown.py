"""
A breakdown: what is told of where the GPU's time goes, by module, by operator and by kernel.

`attribute/tree.py` makes one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from perfzero.attribute.allocating import Allocating
from perfzero.attribute.counted import Counted, Sampled
from perfzero.attribute.layout import Layout
from perfzero.attribute.roofline import Ceilings, Roofline
from perfzero.traces import Tensor, WorkKind

OPTIMIZER_ROW = "optimizer"
COLLECTIVES_ROW = "collectives"
REPLAYS_ROW = "graph replays"
OUTSIDE_ROW = "outside modules"
UNATTRIBUTED_ROW = "unattributed"
"""The rows beside the modules."""

Phase = Literal["forward", "backward", "optimizer", "other"]
PHASES: tuple[Phase, ...] = ("forward", "backward", "optimizer", "other")
"""What a kernel is part of; other is what runs outside of all modules, such as a loss or a copy."""


@dataclass(frozen=True, slots=True)
class GpuTime:
    """
    Time that a GPU worked, in ns, and what it was part of.

    `forward_ns` to `other_ns` add up to `gpu_ns`. `replay_ns` is what ran in replays of CUDA graphs.
    `launches` is how many kernels, copies and sets ran. `share` is of the busy time, `per_step_ns` what was
    launched in a step, in the mean over steps; both are NaN where there is nothing to divide by.
    """

    gpu_ns: int
    share: float
    per_step_ns: float
    launches: int
    forward_ns: int
    backward_ns: int
    optimizer_ns: int
    other_ns: int
    replay_ns: int


@dataclass(frozen=True, slots=True)
class Call:
    """
    A call of an operator: its name, the tensors it got, and the layout of a convolution's first 4-D one.

    `main` is the place in `inputs` of the one that says most, the first of the highest rank; None without.
    """

    operator: str
    inputs: tuple[Tensor, ...] = ()
    main: int | None = None
    layout: Layout | None = None


@dataclass(frozen=True, slots=True)
class SourceLine:
    """
    A line of the program: that which called a module, replayed a graph, or where a function begins, which
    then is named.

    `line` is None for a function that ran already when the trace began: where it was later is not recorded.
    """

    file: str
    line: int | None
    function: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """
    Something that time is spent on. What it is told by is what takes the most of its time.

    `call`: the operator's call, of those in the forward pass where there are any; `kernel`, `module`: names,
    the latter None where none of the time belongs to a module; `source`: where the program asks for it.
    `counted` is None where no counters were sampled. `roofline`: what its kernels compute and have to move.
    """

    name: str
    time: GpuTime
    call: Call | None = None
    kernel: str = ""
    module: str | None = None
    source: SourceLine | None = None
    counted: Counted | None = None
    roofline: Roofline = field(default_factory=Roofline)


@dataclass(frozen=True, slots=True)
class Module:
    """
    A module in the tree. `own` is without, `total` with the modules below.

    `class_name` is empty where the module itself was never called, such as a ModuleList. `parent` is the
    path of the one above, None for the root, whose path is empty, and for outermost modules beside it, whose
    path is their class in brackets.
    """

    path: str
    class_name: str
    parent: str | None
    depth: int
    own: Row
    total: GpuTime
    total_counted: Counted | None = None
    total_roofline: Roofline = field(default_factory=Roofline)


@dataclass(frozen=True, slots=True)
class Alike:
    """
    Modules of one class whose paths differ in numbers only and which make the same call, taken as one.

    `row.name` is their path with "*" for the numbers that differ, and `count` how many they are.
    """

    row: Row
    class_name: str
    count: int


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel by its name, or a copy or set by its direction."""

    row: Row
    kind: WorkKind


@dataclass(frozen=True, slots=True)
class CallRow:
    """
    What the same call of an operator launched of the same kernel, in one module and one phase of the step.

    The finest sums there are, so that what is said of some calls is not said of others that go by the same
    name. `call`: None where no operator launched it; `module`: its path, None outside of modules. `launches`:
    by the program, one by one; what replays of CUDA graphs launch is not among them. `share`: of the busy
    time, NaN where there is none. `source`: of the first of them.
    """

    call: Call | None
    phase: Phase
    module: str | None
    kernel: str
    kind: WorkKind
    gpu_ns: int
    share: float
    launches: int
    source: SourceLine | None = None


@dataclass(frozen=True, slots=True)
class Chain:
    """
    Calls that work element by element on one shape, one after another, `times` times in one module and pass;
    norms and softmax among them.

    `module`: the upper one of those that they are in, None outside of modules. `bytes` is what they have to
    move, and what of it a fused kernel need not is `spared_least` to `spared`; NaN where that is not known.
    `spared_apart`: what it need not where no two inputs from outside are the same, and nothing in between is
    used elsewhere.
    """

    module: str | None
    calls: tuple[Call, ...]
    gpu_ns: int
    times: int
    bytes: float
    spared: float
    spared_least: float
    source: SourceLine | None = None
    spared_apart: float = math.nan


@dataclass(frozen=True, slots=True)
class Breakdown:
    """
    Where the GPU's time goes: `total` is all work, `busy_ns` the union over streams, in `steps` steps.

    `modules` are in the order of the tree, the heaviest first at each level; `alike` are the modules with
    time of their own, like ones taken together; `elsewhere` are the rows optimizer, collectives, graph
    replays, outside modules, unattributed. All else is ordered by time. `operators` ends with the row
    unattributed: work that no operator launched. `sampled` is how counters were sampled meanwhile, and
    `counted` what they tell of all work; None without. `calls` are the sums that conditions of remedies are
    judged by, in no particular order, and so are `chains`, with chains of a single call in `alone`, and
    `allocating`; no file has them. `roofline` is of all work, and `ceilings` what it was held against, None
    without. `exposed_ns`: of the row collectives, when nothing else ran on their GPU. `span_ns`: from the
    first work to the end of the last.
    """

    total: GpuTime
    busy_ns: int
    steps: int
    modules: tuple[Module, ...]
    alike: tuple[Alike, ...]
    elsewhere: tuple[Row, ...]
    operators: tuple[Row, ...]
    kernels: tuple[KernelRow, ...]
    doubts: tuple[str, ...] = ()
    sampled: Sampled | None = None
    counted: Counted | None = None
    calls: tuple[CallRow, ...] = ()
    chains: tuple[Chain, ...] = ()
    alone: tuple[Chain, ...] = ()
    roofline: Roofline = field(default_factory=Roofline)
    ceilings: Ceilings | None = None
    exposed_ns: int = 0
    span_ns: int = 0
    allocating: Allocating = field(default_factory=Allocating)
