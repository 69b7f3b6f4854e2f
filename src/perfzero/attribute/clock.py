"""
One clock for two: by how much the stamps of a trace differ from those of the samples.

Both are Unix nanoseconds, but each takes its own way from the GPU's timer: CUPTI converts the stamps of
kernels with a line that it fits, and a sampler those of its samples with another. What is left between them
is told by the data themselves: kernels fit the samples best at the right offset (`rates.py` says how well).

    time of the samples = time of the trace + offset + drift x (time - middle of the trace)

First the offset is searched on a grid, wide enough for clocks that are badly off. Then offset and drift are
refined by Gauss and Newton: the residual is a linear function of both, once what the rates of the kernels can
take of it is projected out (variable projection, Golub and Pereyra, 1973). The same projection gives their
errors. Variances and priors are held, so that only the fit decides.

Where all kernels have about the same rate, or samples are long against what there is to tell, any offset
fits. Then the error says so, and nothing is corrected. Where kernels of two sorts take turns, an offset of
one kernel fits as well as none, with the rates exchanged: where a second one fits nearly as well, none is
known.

What cannot be told apart from an offset is when in their time kernels do their work. On an H200 a ResNet-50
and a GPT read 1.3 and 2.2 us early, at the beginning of kernels, and wrote 1 us late, when the L2 gave way.
So each quantity has a lag of its own beside the offset, and is shared out best with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from perfzero.attribute.mixing import Kernels, cut_up, mix
from perfzero.attribute.rates import by_overlap, expect, solve, variances
from perfzero.limits import CHOICE, H200_LOOKS, SIMULATED, Limit
from perfzero.values import FloatArray, IntArray

REACH_NS: Annotated[int, Limit("nanoseconds", H200_LOOKS)] = 60_000
"""
How far an offset of the clock is looked for to either side, and believed. On an H200 the two clocks agreed
to within a sample of 100 us.
"""

GRID_NS = (5_000, 20_000)
"""
Steps of the search: a twentieth of a sample, within these. The refinement finds its way from the best one if
that is not a kernel away that matters, and long samples do not see single kernels.
"""

GRID_SHARE = 20

ROUNDS = 5
"""Refinements at most; two or three are enough."""

SETTLED_NS = 50.0
"""A refinement that moves the clock by less than this ends them."""

STEP_NS = 500
"""To either side, for the slope of what the samples should hold."""

MOST_ERROR_NS: Annotated[float, Limit("nanoseconds", CHOICE)] = 2_000.0
"""An offset is worth correcting if its standard error is at most this, which the attribution can bear."""

MOST_LAG_NS: Annotated[float, Limit("nanoseconds", CHOICE)] = 5_000.0
"""A lag is no longer than this; kernels' own caches and pipes take less, and a longer one is a wrong fit."""

FEWEST: Annotated[int, Limit("count", CHOICE)] = 20
"""Samples with kernels in them; less of them fit any offset."""

STANDS_OUT: Annotated[float, Limit("ratio", SIMULATED)] = 1.5
"""
The median misfit over the grid is at least so many times that at the offset found. It is about 1.5 for
samples of 1 ms, 2 to 3 for 200 us and 5 to 15 for 50 us; 1.0 to 1.5 where the right offset is far beyond the
reach, and a dent was taken for it.
"""

OTHERS = 2
"""Other dents of the misfit over the grid that are looked into, the deepest ones."""

LEAST_RATIO = 1e-9
"""Of the determinant to the product of the diagonal: below, offset and drift are one and the same."""


@dataclass(frozen=True, slots=True)
class Clock:
    """
    What to add to a trace's times: `offset_ns` at `middle_ns`, and `drift` times the time since then.

    The errors are standard errors. A drift that cannot be known to 2 us over the trace is 0, and its error
    NaN. `known`: the offset was found well enough to be used; otherwise offset and drift are 0. `gain` is by
    how much better the samples are explained than at an offset of 0, as a share of the misfit there.
    """

    middle_ns: int
    offset_ns: float = 0.0
    drift: float = 0.0
    offset_error_ns: float = math.nan
    drift_error: float = math.nan
    gain: float = 0.0
    known: bool = False

    def applied(self, kernels: Kernels) -> Kernels:
        """*kernels* with their times in the samples' clock."""
        if not self.known:
            return kernels
        return kernels.moved(_shift(kernels, self.middle_ns, self.offset_ns, self.drift))


def find_clock(
    sample_start: IntArray, sample_end: IntArray, quantities: Sequence[FloatArray], kernels: Kernels
) -> Clock:
    """
    The clock at which *kernels* explain the samples of all *quantities* best; each of shape (n,).

    The search goes by the first of them, and the refinement by all.

    Samples are in order and do not overlap. What is moved by caches long after a kernel, as writes are, is
    not fit to be among the quantities.
    """
    middle = int(kernels.start_ns.min() // 2 + kernels.end_ns.max() // 2) if len(kernels) else 0
    unknown = Clock(middle)
    inside = _within(sample_start, sample_end, kernels)
    for amounts in quantities:
        inside &= np.isfinite(amounts)
    start, end = sample_start[inside], sample_end[inside]
    counted = [amounts[inside] for amounts in quantities if (amounts[inside] > 0).any()]
    if len(start) < FEWEST or not counted:
        return unknown
    search = _Search(start, end, counted, kernels, middle)

    step = float(np.clip(np.median(end - start) / GRID_SHARE, *GRID_NS))
    beside = int(REACH_NS // step)
    grid = step * np.arange(-beside, beside + 1)
    costs = np.array([search.cost(float(offset)) for offset in grid])
    at_zero = float(costs[beside])
    best = int(np.argmin(costs))
    if best in (0, len(grid) - 1):
        return unknown  # it may lie anywhere beyond
    half = float(end[-1] - start[0]) / 2
    offset, drift, errors = search.refined(float(grid[best]), step, half)
    lowest = search.cost(offset, drift)
    if costs[best] < lowest and abs(offset - grid[best]) <= step:
        # Another quantity comes earlier or later than the first, and is no reason to doubt the clock of both.
        offset, drift, lowest = float(grid[best]), 0.0, float(costs[best])
        errors = np.array([errors[0], np.nan])
    gain = 1.0 - lowest / at_zero
    found = errors[0] <= MOST_ERROR_NS and abs(offset) <= REACH_NS and gain >= 0
    if not found or np.median(costs) < STANDS_OUT * lowest:
        return Clock(middle, offset_error_ns=float(errors[0]))
    for other in _dents(costs, best)[:OTHERS]:
        elsewhere, drift_there, _errors = search.refined(float(grid[other]), step, half)
        if abs(elsewhere - offset) > step and search.cost(elsewhere, drift_there) < STANDS_OUT * lowest:
            return Clock(middle, offset_error_ns=float(errors[0]))
    return Clock(middle, offset, drift, float(errors[0]), float(errors[1]), gain, known=True)


def find_lag(sample_start: IntArray, sample_end: IntArray, amounts: FloatArray, kernels: Kernels) -> float:
    """
    By how many ns *amounts*, shape (n,), come later than *kernels*, whose clock is right; 0 if not known.
    """
    inside = _within(sample_start, sample_end, kernels) & np.isfinite(amounts)
    start, end, counted = sample_start[inside], sample_end[inside], amounts[inside]
    if len(start) < FEWEST or not (counted > 0).any():
        return 0.0
    search = _Search(start, end, [counted], kernels, 0)
    half = float(end[-1] - start[0]) / 2
    lag = 0.0
    for _ in range(ROUNDS):
        (by, _drift), errors = search.refine(lag, 0.0, half)
        lag += by
        if not (errors[0] <= MOST_ERROR_NS and abs(lag) <= MOST_LAG_NS):
            return 0.0
        if abs(by) < SETTLED_NS:
            break
    return lag


class _Search:
    """How well kernels explain samples as a function of the clock."""

    def __init__(
        self, start: IntArray, end: IntArray, counted: Sequence[FloatArray], kernels: Kernels, middle: int
    ) -> None:
        self._start, self._end, self._counted = start, end, counted
        self._kernels, self._middle = kernels, middle
        self._pieces = cut_up(kernels)
        mixing = mix(start, end, kernels)
        self._held = []
        for amounts in counted:
            about = by_overlap(amounts, mixing)
            variance, prior = variances(mixing, about, amounts), expect(mixing, about, amounts)
            self._held.append((amounts, variance, prior))

    def cost(self, offset: float, drift: float = 0.0) -> float:
        """The misfit of the first quantity, which is enough to search by."""
        amounts, variance, prior = self._held[0]
        return solve(amounts, self._matrix(offset, drift), variance, prior, above_zero=False).cost

    def refined(self, offset: float, step: float, half: float) -> tuple[float, float, FloatArray]:
        """Offset and drift at the bottom of the dent at *offset*, with standard errors of both."""
        drift, errors = 0.0, np.array([np.inf, np.nan])
        for _ in range(ROUNDS):
            (by, drift_by), errors = self.refine(offset, drift, half)
            # One refinement leads no farther than to the next point of the grid: the slope holds no farther.
            by = float(np.clip(by, -step, step))
            drift_by = float(np.clip(drift_by, -step / half, step / half))
            offset, drift = offset + by, drift + drift_by
            if abs(by) + abs(drift_by) * half < SETTLED_NS:
                break
        return offset, drift, errors

    def refine(self, offset: float, drift: float, half: float) -> tuple[tuple[float, float], FloatArray]:
        """What to add to offset and drift, and standard errors of both; 0 and NaN for a drift not known."""
        matrix = self._matrix(offset, drift)
        later, earlier = self._matrix(offset + STEP_NS, drift), self._matrix(offset - STEP_NS, drift)
        since = (self._start / 2 + self._end / 2 - self._middle) / half
        information, pull, excess = np.zeros((2, 2)), np.zeros(2), []
        for amounts, variance, prior in self._held:
            fit = solve(amounts, matrix, variance, prior, above_zero=False)
            slope = (later @ fit.rates - earlier @ fit.rates) / (2 * STEP_NS)
            both = np.stack((slope, slope * since), axis=1)
            projected = both - matrix @ fit.solve(matrix.T @ (both / variance[:, None]))
            weighted = projected / variance[:, None]
            information += both.T @ weighted
            pull += both.T @ ((amounts - matrix @ fit.rates) / variance)
            excess.append(fit.cost)
        worse = max(1.0, float(np.mean(excess)))
        return _solved(information, pull, worse, half)

    def _matrix(self, offset: float, drift: float) -> Any:
        by = _shift(self._kernels, self._middle, offset, drift)
        return self._pieces.moved(by).within(self._start, self._end)[0]


def _dents(costs: FloatArray, best: int) -> list[int]:
    """Where *costs* are lower than on both sides, the lowest first, without *best*."""
    beside = np.concatenate(([np.inf], costs, [np.inf]))
    lower = (costs < beside[:-2]) & (costs <= beside[2:])
    lower[best] = False
    return sorted(np.flatnonzero(lower).tolist(), key=lambda place: float(costs[place]))


def _solved(
    information: FloatArray, pull: FloatArray, worse: float, half: float
) -> tuple[tuple[float, float], FloatArray]:
    """Steps of offset and drift, and their standard errors, from the normal equations of both."""
    alone = information[0, 0]
    if not alone > 0:
        return (0.0, 0.0), np.array([np.inf, np.nan])
    determinant = alone * information[1, 1] - information[0, 1] ** 2
    if determinant > LEAST_RATIO * alone * information[1, 1]:
        covariance = np.linalg.inv(information) * worse
        if math.sqrt(covariance[1, 1]) <= MOST_ERROR_NS:
            by, end_by = np.linalg.solve(information, pull)
            errors = np.sqrt(np.diag(covariance)) / (1.0, half)
            return (float(by), float(end_by) / half), np.asarray(errors, np.float64)
    return (float(pull[0] / alone), 0.0), np.array([math.sqrt(worse / alone), np.nan])


def _shift(kernels: Kernels, middle: int, offset: float, drift: float) -> IntArray:
    return np.round(offset + drift * (kernels.start_ns - middle)).astype(np.int64)


def _within(start: IntArray, end: IntArray, kernels: Kernels) -> Any:
    """Samples that lie in the trace wherever it is moved; beyond it kernels ran that it does not hold."""
    if not len(kernels):
        return np.zeros(len(start), bool)
    return (start >= kernels.start_ns.min() + REACH_NS) & (end <= kernels.end_ns.max() - REACH_NS)
