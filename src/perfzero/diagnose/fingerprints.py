"""
What runs, by its fingerprint: the kind of work that a row of counters looks like.

A table of rules, the first that holds decides. All look at shares of practical roofs, those of the SMs and
the memory while the GPU is busy. Rows that resolve kernels (`RESOLVES_KERNELS`) are held against what single
kernels read; in rows over many kernels products and other work mix, and what is neither clearly the one
nor the other is `mixed`. What no rule knows is `unknown`.

A counter that was not measured is NaN and fulfils nothing. What the kinds read on an H200, kernel by kernel,
is in docs/step_map.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfzero.counters import BY_NAME
from perfzero.diagnose.roofs import Roofs
from perfzero.diagnose.thresholds import (
    ATTENTION_FMA,
    ATTENTION_ISSUE,
    ATTENTION_LOW,
    ATTENTION_MEMORY,
    ATTENTION_MIXED,
    COMM_LINK,
    COMM_SM,
    COPY_FULL,
    FAST_LAUNCHES,
    FMA_BESIDE,
    FMA_HEAVY,
    FMA_OVER,
    FP64_HEAVY,
    GR_GOOD,
    MATRIX_MEAN,
    MATRIX_SEEN,
    MEMORY_HIGH,
    NO_MATRIX,
    PHASE_BUSY,
    PHASE_EMPTY,
    SOMETHING,
    TINY_KERNEL,
)
from perfzero.diagnose.verdict import WorkKind
from perfzero.values import FloatArray, IntArray, Samples

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """
    Rows of counters as shares of roofs, float64 of shape (n,), NaN where not measured.

    `gr`, `copying`, `pcie`, `pcie_both` and `nvlink` are shares of all time, the others hold while the GPU is
    busy. `pcie_both`: of the less busy direction. `kernel_s`: mean time of a kernel. `fine`: the rows resolve
    single kernels.
    """

    gr: FloatArray
    sm: FloatArray
    tensor: FloatArray
    fma: FloatArray
    fp64: FloatArray
    issue: FloatArray
    memory: FloatArray
    copying: FloatArray
    pcie: FloatArray
    pcie_both: FloatArray
    nvlink: FloatArray
    launches: FloatArray
    kernel_s: FloatArray
    fine: bool

    def __len__(self) -> int:
        return len(self.gr)


@dataclass(frozen=True, slots=True)
class Rule:
    """
    One kind of work: how to know it, and why that tells.

    `certainty`: how often that is right in rows that resolve kernels, and in others, if nothing else is
    doubtful. Of the former for products, attention, memory and elementwise as kernels' names had it in five
    programs on an H200; else our choice.
    """

    kind: WorkKind
    holds: Callable[[Rows], BoolArray]
    reason: str
    certainty: tuple[float, float]


def _waits(r: Rows) -> BoolArray:
    return r.gr < PHASE_BUSY.value


def _collective(r: Rows) -> BoolArray:
    few = (r.gr >= PHASE_BUSY.value) & (r.sm < COMM_SM.value) & ~(r.tensor >= NO_MATRIX.value)
    return few & ((r.nvlink >= COMM_LINK.value) | (r.pcie_both >= COMM_LINK.value))


def _tiny(r: Rows) -> BoolArray:
    many = (r.launches >= FAST_LAUNCHES.value) & (r.kernel_s < TINY_KERNEL.value)
    return many & ((r.gr < GR_GOOD.value) | (r.sm < PHASE_EMPTY.value))


def _copy(r: Rows) -> BoolArray:
    return _waits(r) & ((r.pcie >= COPY_FULL.value) | (r.copying >= COPY_FULL.value))


def _small(r: Rows) -> BoolArray:
    return r.sm < PHASE_EMPTY.value


def _attention(r: Rows) -> BoolArray:
    both = (r.fma >= ATTENTION_FMA.value) & (r.fma >= FMA_BESIDE.value * r.tensor)
    both &= (r.fma < FMA_OVER.value * r.tensor) & (r.tensor >= ATTENTION_LOW.value)
    if not r.fine:
        return both & (r.memory < ATTENTION_MIXED.value) & (r.issue >= ATTENTION_ISSUE.value)
    return both & (r.memory < ATTENTION_MEMORY.value) & ~(r.issue < ATTENTION_ISSUE.value)


def _matrix(r: Rows) -> BoolArray:
    least = MATRIX_SEEN if r.fine else MATRIX_MEAN
    return (r.tensor >= least.value) & ~(r.fma >= FMA_OVER.value * r.tensor)


def _fp64(r: Rows) -> BoolArray:
    return r.fp64 >= FP64_HEAVY.value


def _fp32(r: Rows) -> BoolArray:
    return (r.fma >= FMA_HEAVY.value) & (r.tensor < NO_MATRIX.value)


def _memory(r: Rows) -> BoolArray:
    least = MATRIX_SEEN if r.fine else NO_MATRIX
    return (r.tensor < least.value) & (r.memory >= MEMORY_HIGH.value)


def _elementwise(r: Rows) -> BoolArray:
    few = r.tensor < NO_MATRIX.value
    if r.fine:  # a fused kernel of much arithmetic, with some of a product's neighbour in the sample
        few |= r.fma >= FMA_OVER.value * r.tensor
    used = (r.memory >= SOMETHING.value) | (r.issue >= SOMETHING.value) | (r.fma >= SOMETHING.value)
    return few & used


def _mixed(r: Rows) -> BoolArray:
    return (r.tensor >= NO_MATRIX.value) & (not r.fine)


RULES: tuple[Rule, ...] = (
    Rule(
        "collective",
        _collective,
        "a link is busy in both directions or between GPUs while few SMs work, as NCCL's kernels do",
        (0.8, 0.7),
    ),
    Rule(
        "tiny_kernels",
        _tiny,
        "kernels of a few microseconds one after the other: the time is that of launching them",
        (0.9, 0.9),
    ),
    Rule("copy", _copy, "hardly a kernel runs while the link or the copy engine moves data", (0.9, 0.9)),
    Rule("idle", _waits, "hardly a kernel runs, and nothing is copied", (0.95, 0.95)),
    Rule("small_grids", _small, "kernels run on a few of the SMs", (0.8, 0.8)),
    Rule(
        "attention",
        _attention,
        "tensor cores at a third, the FP32 pipe beside them for a softmax, little memory: fused attention",
        (0.7, 0.6),
    ),
    Rule(
        "gemm",
        _matrix,
        "tensor cores high, and few instructions issued for it: matrix products, convolutions among them",
        (0.9, 0.8),
    ),
    Rule("fp64", _fp64, "the FP64 pipe is in use, which networks never need", (0.9, 0.9)),
    Rule(
        "fp32_gemm",
        _fp32,
        "the FP32 pipe as busy as only products keep it, and no tensor cores: a GEMM or convolution in FP32",
        (0.9, 0.8),
    ),
    Rule(
        "memory",
        _memory,
        "memory high and tensor cores at zero: elementwise kernels, normalisations, copies on the device",
        (0.9, 0.8),
    ),
    Rule(
        "elementwise",
        _elementwise,
        "no tensor cores and memory not at its limit: normalisations, reductions, softmax",
        (0.85, 0.7),
    ),
    Rule(
        "mixed",
        _mixed,
        "products and other kernels in turn, which these samples do not tell apart",
        (0.5, 0.5),
    ),
)
"""The first that holds decides. Unknown is what none of them knows."""

KINDS: tuple[WorkKind, ...] = (*(rule.kind for rule in RULES), "unknown")
"""In the numbering of `kinds_of`."""

CERTAINTY: Mapping[WorkKind, tuple[float, float]] = {rule.kind: rule.certainty for rule in RULES}


def rows_of(columns: Mapping[str, FloatArray], roofs: Roofs, *, fine: bool) -> Rows:
    """Rows from *columns* of levels and rates per second, all of one shape (n,)."""
    count = len(next(iter(columns.values()), np.empty(0)))

    def column(name: str) -> FloatArray:
        return columns.get(name, np.full(count, np.nan))

    gr = column("gr_active")
    with np.errstate(divide="ignore", invalid="ignore"):
        busy = np.where(gr > 0, gr, np.nan)
        down, up = column("pcie_rx_bytes") / roofs.pcie, column("pcie_tx_bytes") / roofs.pcie
        launches = column("launches")
        return Rows(
            gr=gr,
            sm=np.minimum(column("sm_active") / busy, 1.0),
            tensor=np.minimum(column("tensor_active") / busy, 1.0),
            fma=np.minimum(column("fma_active") / busy, 1.0),
            fp64=np.minimum(column("fp64_active") / busy, 1.0),
            issue=np.minimum(column("sm_issue") / busy, 1.0),
            memory=(column("dram_read_bytes") + column("dram_write_bytes")) / roofs.dram / busy,
            copying=column("ce_active"),
            pcie=np.fmax(down, up),
            pcie_both=np.minimum(down, up),
            nvlink=np.fmax(column("nvlink_rx_bytes"), column("nvlink_tx_bytes")) / roofs.nvlink,
            launches=launches,
            kernel_s=np.where(launches > 0, gr / launches, np.nan),
            fine=fine,
        )


def rates_of(samples: Samples) -> dict[str, FloatArray]:
    """The columns of *samples*, amounts as rates per second."""
    return {
        name: column / samples.duration_s if BY_NAME[name].kind == "total" else column
        for name, column in samples.columns.items()
    }


def kinds_of(rows: Rows) -> IntArray:
    """What each of *rows* looks like, shape (n,), as an index of `KINDS`."""
    found = np.full(len(rows), len(RULES), np.int64)
    for place in reversed(range(len(RULES))):
        found[RULES[place].holds(rows)] = place
    found[~np.isfinite(rows.gr)] = len(RULES)
    return found
