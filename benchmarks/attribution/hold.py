"""
A look's bytes per kernel held against those that Nsight Compute counted, of the same step.

The kernels of a traced step and those of Nsight Compute are matched by their order; they are as many, and
nearly all have the same base name. An error is the sum of absolute differences over the truth's total, of
kinds of kernels (the kernel, the operator's call and its shapes) or of single kernels in a step. A share is
that of a module in the bytes of the step, in points.

Coarser samples are made of the finer ones by adding up, so all periods tell of one run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfzero.attribute.counted import HITS, SECTORS, TOTALS, Counting, count
from perfzero.attribute.mixing import mix
from perfzero.attribute.owners import find_owners
from perfzero.attribute.positions import kernels_of
from perfzero.attribute.rates import by_overlap
from perfzero.traces import Trace
from perfzero.values import FloatArray, IntArray, Samples

BYTES = {"read_bytes": "dram_read_bytes", "write_bytes": "dram_write_bytes"}
"""What a row of the truth has -> the counter."""

AMOUNTS = (*TOTALS, SECTORS, HITS)
"""Columns that are totals of a sample; the others are levels."""

SAME_NAMES = 0.95
"""Nsight Compute leaves names mangled that Kineto does not, and the other way round: one in 700."""

_BASE = re.compile(r"(?:void )?([\w:~$]+)")


@dataclass(frozen=True, slots=True)
class Held:
    """
    One quantity at one period: `total` as ratio to the truth; `kinds` and `kernels`: errors as ratios,
    `naive_kinds` that of sharing samples out by overlap alone; `module_points`: the worst of all modules.
    """

    quantity: str
    period_us: float
    total: float
    kinds: float
    kernels: float
    naive_kinds: float
    module_points: float
    offset_us: float
    offset_error_us: float


def base_name(name: str) -> str:
    """The name of a kernel without namespaces, templates and parameters."""
    plain = name.replace("(anonymous namespace)", "anon").replace("<unnamed>", "anon")
    found = _BASE.match(plain)
    return plain if found is None else found.group(1).split("::")[-1]


def rows_of_step(trace: Trace, names: Sequence[str]) -> IntArray:
    """
    The rows of the kernels of one traced step that are those of *names*, one by one.

    Raises ValueError where no step has as many, or they are others.
    """
    work, steps = trace.work, trace.steps
    order = np.argsort(trace.launches.correlation, kind="stable")
    known = trace.launches.correlation[order]
    place = np.minimum(np.searchsorted(known, work.correlation), len(known) - 1)
    launched = np.where(known[place] == work.correlation, trace.launches.start_ns[order[place]], -1)
    wanted = [base_name(name) for name in names]
    sizes = []
    for start, end in zip(steps.start_ns, steps.end_ns, strict=True):
        rows = np.flatnonzero((work.kind == 0) & (launched >= start) & (launched < end))
        sizes.append(len(rows))
        found = [base_name(work.names[work.name[row]]) for row in rows]
        if len(found) == len(wanted):
            alike = sum(map(str.__eq__, found, wanted)) / len(wanted)
            if alike >= SAME_NAMES:
                return rows
    raise ValueError(f"no step has the {len(wanted)} kernels of the truth; they have {sizes}")


def coarser(samples: Samples, times: int) -> Samples:
    """*samples* put together by as many as *times*: amounts are added up, levels are means over time."""
    many = len(samples) // times * times
    length = (samples.end_ns - samples.start_ns).astype(np.float64)[:many].reshape(-1, times)
    columns = {}
    for name, column in samples.columns.items():
        parts = column[:many].reshape(-1, times)
        weighed = (parts * length).sum(axis=1) / length.sum(axis=1)
        columns[name] = parts.sum(axis=1) if name in AMOUNTS else weighed
    return Samples(samples.start_ns[:many:times], samples.end_ns[times - 1 : many : times], columns)


def calls_of(trace: Trace, operator: IntArray) -> IntArray:
    """The number of the operator's call with its inputs, of each piece of work; -1 where it is not known."""
    known = operator >= 0
    rows = operator[known]
    call = np.full(len(operator), -1, np.int64)
    pairs = np.stack([trace.operators.spans.what[rows], trace.operators.inputs[rows]], axis=1)
    call[known] = np.unique(pairs, axis=0, return_inverse=True)[1].ravel()
    return call


def hold(
    trace: Trace, samples: Samples, truth: Sequence[Mapping[str, Any]], *, periods_us: Sequence[float]
) -> list[Held]:
    """*samples* beside *trace* held against *truth* (rows of truth.py), at each period that they can give."""
    owners = find_owners(trace)
    rows = rows_of_step(trace, [str(kernel["name"]) for kernel in truth])
    kernels = kernels_of(trace, calls_of(trace, owners.operator))
    first, last = trace.work.start_ns.min(), trace.work.end_ns.max()
    samples = samples.where((samples.end_ns > first) & (samples.start_ns < last))
    own_us = float(np.median(samples.end_ns - samples.start_ns)) / 1e3
    found = []
    for times in sorted({max(1, round(period / own_us)) for period in (own_us, *periods_us)}):
        coarse = coarser(samples, times)
        counting = count(kernels, coarse, np.arange(len(kernels)))
        if counting is None:
            raise ValueError("no sample has a kernel in it")
        mixing = mix(coarse.start_ns, coarse.end_ns, counting.sampled.clock.applied(kernels))
        for quantity, counter in BYTES.items():
            true = np.array([float(kernel[quantity]) for kernel in truth])
            found.append(
                _held(
                    quantity,
                    own_us * times,
                    counting,
                    told=counting.shared[counter].amounts[rows],
                    naive=by_overlap(coarse.column(counter), mixing)[rows],
                    true=true,
                    kind=kernels.kind[rows],
                    module=owners.module[rows],
                )
            )
    return found


def _held(
    quantity: str,
    period_us: float,
    counting: Counting,
    *,
    told: FloatArray,
    naive: FloatArray,
    true: FloatArray,
    kind: IntArray,
    module: IntArray,
) -> Held:
    clock = counting.sampled.clock

    def error(found: FloatArray, of: IntArray) -> float:
        return float(np.abs(np.bincount(of, found - true)).sum() / true.sum())

    shares = np.bincount(module + 1, told) / told.sum() - np.bincount(module + 1, true) / true.sum()
    return Held(
        quantity=quantity,
        period_us=period_us,
        total=float(told.sum() / true.sum()),
        kinds=error(told, kind),
        kernels=error(told, np.arange(len(true))),
        naive_kinds=error(naive, kind),
        module_points=float(np.abs(shares).max() * 100),
        offset_us=clock.offset_ns / 1e3,
        offset_error_us=clock.offset_error_ns / 1e3,
    )
