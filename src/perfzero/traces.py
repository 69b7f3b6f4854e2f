"""
A trace: what one process did in a few steps, call by call and kernel by kernel.

`perfzero.store.kineto` reads one from the file of a profiler, `perfzero.attribute` tells from it which
part of the program the GPU's time belongs to. Times are integer Unix nanoseconds, intervals half-open.
A thread is a number that counts up from 0 in the order of appearance; an index of -1 means none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from perfzero.values import IntArray

BoolArray = NDArray[np.bool_]

WorkKind = Literal["kernel", "memcpy", "memset"]

WORK_KINDS: tuple[WorkKind, ...] = ("kernel", "memcpy", "memset")
"""What a GPU does, in the numbering of `Work.kind`."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as an operator got it. `strides` is empty where they were not recorded, `dtype` likewise."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()
    dtype: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """A line of the program."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """A call of a module: where that sits in the model ("" is the whole), its class, and what called it."""

    path: str
    class_name: str
    site: Site | None = None


@dataclass(frozen=True, slots=True, order=True)
class Function:
    """A function of the program. `line` is its first one, or where it was when the trace began."""

    file: str
    line: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """
    Stretches on threads of the host, arrays of shape (n,), ordered by start, of two the longer one first.

    What `what` counts is said where they are used.
    """

    thread: IntArray
    start_ns: IntArray
    end_ns: IntArray
    what: IntArray

    def __post_init__(self) -> None:
        _same_length(self.thread, self.start_ns, self.end_ns, self.what)

    def __len__(self) -> int:
        return len(self.start_ns)

    @staticmethod
    def of(thread: IntArray, start_ns: IntArray, end_ns: IntArray, what: IntArray) -> Spans:
        """The same in their order."""
        order = np.lexsort((-end_ns, start_ns))
        return Spans(thread[order], start_ns[order], end_ns[order], what[order])

    def where(self, keep: BoolArray) -> Spans:
        """Those for which *keep* (shape (n,)) is true."""
        return Spans(self.thread[keep], self.start_ns[keep], self.end_ns[keep], self.what[keep])


@dataclass(frozen=True, slots=True, eq=False)
class Operators:
    """
    Calls of the framework's operators, row by row with `spans`.

    `spans.what` counts in `names`. `external_id` is the profiler's number of the call (-1: none),
    `sequence` autograd's number of the node that the call made or runs (-1: none), and `forward_thread`
    autograd's own number of the thread that made the node, 0 in calls that are not backward ones.
    `inputs` counts in `shapes`, the tensors that the call was given (-1: not recorded).
    """

    spans: Spans
    external_id: IntArray
    sequence: IntArray
    forward_thread: IntArray
    inputs: IntArray
    names: tuple[str, ...] = ()
    shapes: tuple[tuple[Tensor, ...], ...] = ()

    def __post_init__(self) -> None:
        _same_length(self.spans.start_ns, self.external_id, self.sequence, self.forward_thread, self.inputs)

    def __len__(self) -> int:
        return len(self.spans)


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """
    Calls by which the host gave work to the GPU, arrays of shape (n,), ordered by start.

    `correlation` is what the work has in common with its launch, `replay` whether a whole graph was launched.
    """

    thread: IntArray
    start_ns: IntArray
    end_ns: IntArray
    correlation: IntArray
    replay: BoolArray

    def __post_init__(self) -> None:
        _same_length(self.thread, self.start_ns, self.end_ns, self.correlation, self.replay)

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """
    What the GPU did, arrays of shape (n,), ordered by start: kernels, copies and sets.

    `name` counts in `names`, `kind` in `WORK_KINDS`. `correlation` leads to the launch, `external_id` to the
    operator's call (-1: unknown). `replay`: the work says itself that it belongs to a graph.
    """

    start_ns: IntArray
    end_ns: IntArray
    name: IntArray
    kind: IntArray
    device: IntArray
    stream: IntArray
    correlation: IntArray
    external_id: IntArray
    replay: BoolArray
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _same_length(
            self.start_ns, self.end_ns, self.name, self.kind, self.device, self.stream,
            self.correlation, self.external_id, self.replay,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """
    All that was traced in one process.

    `module_calls` are forward calls, counting in `modules`, the different ones; `replays` are calls that
    replay a CUDA graph, counting in `sites`, the lines that ask for them (-1: not known); `optimizer_calls`
    count nothing; `allocations` take device memory from CUDA (0) or give it back (1); `steps` are whole steps
    by their number; `frames` are calls of Python functions, counting in `functions`. `forward_threads` leads
    from autograd's number of a thread to ours, as far as the trace says it. `doubts` are sentences on what
    could not be read.
    """

    work: Work
    launches: Launches
    operators: Operators
    module_calls: Spans
    replays: Spans
    optimizer_calls: Spans
    steps: Spans
    frames: Spans
    modules: tuple[ModuleCall, ...] = ()
    sites: tuple[Site, ...] = ()
    functions: tuple[Function, ...] = ()
    forward_threads: Mapping[int, int] = field(default_factory=dict)
    allocations: Spans = field(default_factory=lambda: Spans(*(np.zeros(0, np.int64) for _ in range(4))))
    doubts: tuple[str, ...] = ()


def _same_length(*columns: NDArray[np.int64] | BoolArray) -> None:
    if len({len(c) for c in columns}) > 1:
        raise ValueError("all columns of a table have the same length")
