"""
How samples of a counter mix the kernels that ran in them, as a sparse system of linear equations.

Model: a kernel moves its amount (bytes, sectors, busy cycles) while it runs, so a sample counts

    y_i = sum over kernels of (rate of the kernel) x (time that it ran within sample i) + noise

which stays true where kernels of several streams run at once, since amounts add up. Kernels that do the same
work share one unknown rate: those at one *position*, which come again in every step. Rates of positions of
one *kind* (the same kernel on the same shapes) are much alike, and are told so:

    piece of a kernel -> position in the step -> kind of kernel -> all kernels

each rate lies around the one after it. Kernels need not work evenly: a long one is cut into its beginning,
its middle and its end, so that a slow last wave is not taken out of the next kernel's amount. Time in which
no kernel ran has a rate of its own, around zero.

Kernels at one position do the same amount of work, whatever the clock of the GPU is, so the time that one ran
counts in proportion to its length. Where the lengths differ much the amounts will too, and time counts as it
is.

scipy is imported where it is used: it takes half a second, and most reports need no counters of kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from perfzero.limits import CHOICE, Limit
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, IntArray

EDGE_NS = 10_000
"""
The beginning and the end of a kernel get a rate of their own, so long each. On simulated samples of 50 us 5,
10, 20 and 50 us of it give 1.15, 1.00, 1.15 and 1.48 % of error per kind of kernel, and none at all 1.66 %.
"""

CUT_FROM = 3 * EDGE_NS
"""A kernel that is shorter on average stays in one piece: its middle would be less than its ends."""

MOST_PAIRS = 2_000_000
"""Of a sample and a kernel in it. Where none overlap, 100,000 kernels in 50,000 samples make 150,000."""

MOST_PRODUCTS = 30_000_000
"""
Terms of the normal matrix: for each sample the square of how many positions are in it. 7,000 samples with 64
kernels at once throughout have so many, and one quantity takes 3 s then.
"""

MOST_FACTORING = 500_000_000
"""
Multiplications in its factors, about: unknown rates times the mean of those squares, for what stands in one
sample is tied together. With 400 of 3,000 positions in each sample of 2 ms one quantity takes 10 s.
"""

ALIKE: Annotated[float, Limit("ratio", CHOICE)] = 0.25
"""Lengths at one position that spread by more than this share of their mean are those of unlike work."""


@dataclass(frozen=True, slots=True, eq=False)
class Kernels:
    """
    Kernels of one GPU, and copies and sets, which move bytes too. Arrays of shape (n,), in any order.

    Kernels with the same number in `position` do the same work, and all those of one position are of one
    `kind`. Both count from 0 without gaps.
    """

    start_ns: IntArray
    end_ns: IntArray
    position: IntArray
    kind: IntArray

    def __post_init__(self) -> None:
        columns = (self.start_ns, self.end_ns, self.position, self.kind)
        if len({len(c) for c in columns}) > 1:
            raise ValueError("all columns of kernels have the same length")
        if (self.end_ns < self.start_ns).any():
            raise ValueError("a kernel ends before it starts")

    def __len__(self) -> int:
        return len(self.start_ns)

    def moved(self, by_ns: IntArray) -> Kernels:
        """The same, each later by *by_ns* (shape (n,))."""
        return Kernels(self.start_ns + by_ns, self.end_ns + by_ns, self.position, self.kind)

    @property
    def length_ns(self) -> FloatArray:
        """How long each ran, at least 1 ns, shape (n,)."""
        return np.asarray(np.maximum(self.end_ns - self.start_ns, 1), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """
    The unknown rates, each with the one that it lies around. There are `unknowns` of them.

    First come the pieces, then at `idle` the time without a kernel, then positions in several pieces, then
    kinds of several positions. `piece_of` and `position_of` lead from the unknowns of pieces and of
    positions to those of what they are part of; `kind_of` and `inner_kind` name the kind, whose rate says how
    much they may differ. `tops` lie around the rate of all kernels.
    """

    unknowns: int
    idle: int
    pieces: IntArray
    piece_of: IntArray
    inner_kind: IntArray
    positions: IntArray
    position_of: IntArray
    kind_of: IntArray
    tops: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Mixing:
    """
    The system for n samples and k kernels with u unknowns.

    `sample_ns` (n,): how long each sample is. `matrix` (n, u): time in each sample, `whole` (k, u): time in
    each kernel, so that `whole @ rates` is the amount of each. `busy_ns` (n,): time in each sample with a
    kernel running, counted once for each that ran. `share` (n, k): which share of each kernel fell into the
    sample. `cut` (n, k): 1 where an edge of the sample cut the kernel, 2 where both did.
    """

    kernels: Kernels
    sample_ns: FloatArray
    matrix: Any
    whole: Any
    share: Any
    cut: Any
    busy_ns: FloatArray
    tree: Tree

    def where(self, keep: BoolArray) -> Mixing:
        """The system of the samples for which *keep* (shape (n,)) is true."""
        if keep.all():
            return self
        return Mixing(
            kernels=self.kernels,
            sample_ns=self.sample_ns[keep],
            matrix=self.matrix[keep],
            whole=self.whole,
            share=self.share[keep],
            cut=self.cut[keep],
            busy_ns=self.busy_ns[keep],
            tree=self.tree,
        )


def overlaps(
    sample_start: IntArray, sample_end: IntArray, start: IntArray, end: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """
    Every pair of a sample and an interval that have time in common: sample, interval, and how many ns.

    Samples are in order and do not overlap, intervals are in any order and may.
    """
    first = np.searchsorted(sample_end, start, "right")
    many = np.maximum(np.searchsorted(sample_start, end, "left") - first, 0)
    interval = np.repeat(np.arange(len(start)), many)
    sample = np.arange(len(interval)) - np.repeat(np.cumsum(many) - many - first, many)
    time = np.minimum(sample_end[sample], end[interval]) - np.maximum(sample_start[sample], start[interval])
    return sample, interval, time


def is_solvable(sample_start: IntArray, sample_end: IntArray, kernels: Kernels) -> bool:
    """Whether samples and *kernels* make a system that is solved in seconds; a stranger's may not be."""
    first = np.searchsorted(sample_end, kernels.start_ns, "right")
    many = np.maximum(np.searchsorted(sample_start, kernels.end_ns, "left") - first, 0)
    if many.sum() > MOST_PAIRS:
        return False
    sample, kernel, _time = overlaps(sample_start, sample_end, kernels.start_ns, kernels.end_ns)
    positions = int(kernels.position.max(initial=-1)) + 1
    pairs = np.unique(sample * max(positions, 1) + kernels.position[kernel])
    together = np.bincount(pairs // max(positions, 1)).astype(np.float64)
    if not len(together):
        return True
    factoring = max(positions * float(np.mean(together**2)), float(together.max()) ** 3 / 3)
    return float(np.sum(together**2)) <= MOST_PRODUCTS and factoring <= MOST_FACTORING


def grow_tree(kernels: Kernels) -> tuple[Tree, IntArray, FloatArray]:
    """The unknowns of *kernels*; of each position its first piece, and what share an end takes."""
    positions = int(kernels.position.max(initial=-1)) + 1
    kind = np.zeros(positions, np.int64)
    kind[kernels.position] = kernels.kind
    mean_ns = _means(kernels.position, kernels.length_ns, positions)
    cut = mean_ns >= CUT_FROM
    ends = np.where(cut, EDGE_NS / np.maximum(mean_ns, 1), 0.0)
    pieces = np.where(cut, 3, 1)
    first = np.cumsum(pieces) - pieces
    idle = int(pieces.sum())

    several = np.flatnonzero(cut)
    node = first.copy()
    node[several] = idle + 1 + np.arange(len(several))
    per_kind = np.bincount(kind, minlength=int(kind.max(initial=-1)) + 1)
    kinds = np.flatnonzero(per_kind > 1)
    of_kind = np.full(len(per_kind), -1)
    of_kind[kinds] = idle + 1 + len(several) + np.arange(len(kinds))
    within = of_kind[kind] >= 0
    inner = np.concatenate([first[several] + part for part in range(3)])
    tree = Tree(
        unknowns=idle + 1 + len(several) + len(kinds),
        idle=idle,
        pieces=inner,
        piece_of=np.tile(node[several], 3),
        inner_kind=np.tile(kind[several], 3),
        positions=node[within],
        position_of=of_kind[kind[within]],
        kind_of=kind[within],
        tops=np.concatenate((node[~within], of_kind[kinds])),
    )
    return tree, first, ends


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """
    Kernels cut into the pieces that have a rate each, whatever the clock: arrays of shape (p,).

    Piece i is of the kernel `of[i]`, has the unknown rate `unknown[i]`, and its time counts `counts_as[i]`.
    """

    start_ns: IntArray
    end_ns: IntArray
    of: IntArray
    unknown: IntArray
    counts_as: FloatArray
    tree: Tree

    def moved(self, by_ns: IntArray) -> Pieces:
        """Those of the same kernels, each later by *by_ns* (shape (k,))."""
        by = by_ns[self.of]
        return replace(self, start_ns=self.start_ns + by, end_ns=self.end_ns + by)

    def within(self, sample_start: IntArray, sample_end: IntArray) -> tuple[Any, FloatArray]:
        """`matrix` and `busy_ns` of the system for samples, in order and not overlapping."""
        from scipy import sparse

        n, unknowns = len(sample_start), self.tree.unknowns
        sample, piece, time = overlaps(sample_start, sample_end, self.start_ns, self.end_ns)
        matrix = sparse.csr_matrix(
            (time * self.counts_as[piece], (sample, self.unknown[piece])), shape=(n, unknowns)
        )
        busy = np.bincount(sample, time, n).astype(np.float64)
        idle = np.maximum((sample_end - sample_start) - busy, 0.0)
        alone = sparse.csr_matrix((idle, (np.arange(n), np.full(n, self.tree.idle))), shape=(n, unknowns))
        return (matrix + alone).tocsr(), busy


def cut_up(kernels: Kernels) -> Pieces:
    """The pieces of *kernels*."""
    tree, first, ends = grow_tree(kernels)
    length, position = kernels.length_ns, kernels.position
    many = int(position.max(initial=-1)) + 1
    mean = _means(position, length, many)
    spread = np.sqrt(_means(position, (length - mean[position]) ** 2, many))
    alike = spread <= ALIKE * mean
    counts_as = np.where(alike[position], mean[position] / length, 1.0)

    cut = np.flatnonzero(ends[position] > 0)
    uncut = np.flatnonzero(ends[position] == 0)
    edge = np.round(ends[position[cut]] * length[cut]).astype(np.int64)
    begin, finish = kernels.start_ns[cut] + edge, kernels.end_ns[cut] - edge
    start = np.concatenate((kernels.start_ns[uncut], kernels.start_ns[cut], begin, finish))
    end = np.concatenate((kernels.end_ns[uncut], begin, finish, kernels.end_ns[cut]))
    of = np.concatenate((uncut, cut, cut, cut))
    piece = first[position[of]] + np.repeat([0, 0, 1, 2], [len(uncut), len(cut), len(cut), len(cut)])

    return Pieces(start, end, of, piece, counts_as[of], tree)


def mix(sample_start: IntArray, sample_end: IntArray, kernels: Kernels) -> Mixing:
    """The system for samples, in order and not overlapping, and *kernels* that ran in them."""
    from scipy import sparse

    n, k, length = len(sample_start), len(kernels), kernels.length_ns
    pieces = cut_up(kernels)
    matrix, busy = pieces.within(sample_start, sample_end)
    whole = sparse.csr_matrix(
        ((pieces.end_ns - pieces.start_ns) * pieces.counts_as, (pieces.of, pieces.unknown)),
        shape=(k, pieces.tree.unknowns),
    )
    sample, kernel, time = overlaps(sample_start, sample_end, kernels.start_ns, kernels.end_ns)
    share = sparse.csr_matrix((time / length[kernel], (sample, kernel)), shape=(n, k))
    by = (kernels.start_ns[kernel] < sample_start[sample]).astype(np.float64)
    by += kernels.end_ns[kernel] > sample_end[sample]
    return Mixing(
        kernels=kernels,
        sample_ns=(sample_end - sample_start).astype(np.float64),
        matrix=matrix,
        whole=whole,
        share=share,
        cut=sparse.csr_matrix((by, (sample, kernel)), shape=(n, k)),
        busy_ns=busy,
        tree=pieces.tree,
    )


def _means(of: IntArray, values: FloatArray, many: int) -> FloatArray:
    """The mean of *values* by the numbers in *of*, shape (many,)."""
    sums = np.bincount(of, values, many)
    return np.asarray(sums / np.maximum(np.bincount(of, minlength=many), 1), np.float64)
