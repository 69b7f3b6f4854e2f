"""
What each kernel moved: samples of a counter shared out to the kernels that ran in them.

`mixing.py` has the model and `rates.py` finds the rates. Here they become amounts of any set of kernels, each
with how sure it is, and sets that samples do not tell apart are put together and told as one.

An amount is what was counted *while* kernels ran, as a profiler of single kernels has it too. What a kernel
wrote may leave the L2 only while the next ones run, and is theirs then.

The error of a sum follows from the normal matrix, in which kernels that always run together have errors of
opposite sign: each may be unknown where their sum is known well. It grows with what the fit leaves over, and
by what single kernels differ from the mean of their position. Where the clock is not known, it grows by how
the amounts differ over all that the clock may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from perfzero.attribute.mixing import Mixing
from perfzero.attribute.rates import INSTANCE_NOISE, Fit, fit_rates, solve
from perfzero.limits import BY_DEFINITION, CHOICE, SIMULATED, Limit
from perfzero.values import FloatArray, IntArray

INTERVAL: Annotated[float, Limit("standard deviations", BY_DEFINITION)] = 1.96
"""Errors to either side that hold 95 % of a normal distribution."""

MODEL_ERROR: Annotated[float, Limit("ratio", SIMULATED)] = 0.03
"""
Of each amount, that no number of samples takes away: kernels do not work as evenly as the model has them.
With it intervals of 95 % hold 95, 92, 96, 98 and 94 % of simulated kinds of kernel at 10, 20, 50, 100 us and
1 ms; without it 84 % at 20 us.
"""

TOLD: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""An amount is told if its interval of 95 % reaches no farther than half of it to either side ..."""

SMALL: Annotated[float, Limit("ratio", CHOICE)] = 0.005
"""... or no farther than this share of the total: what is small need not be known to half of itself."""

DRAWS = 256
"""
The errors of so many sets are computed one by one, and of more by so many draws of all rates, which give a
standard error to 4 %. A thousand sets of 25,000 unknowns would take a minute and a half, draws take seconds.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """
    The amount of one quantity by kernel, `amounts` of shape (k,).

    `counted` is what the samples hold, `unattributed` what of it no kernel takes, less than 0 where kernels
    take too much. `seen`: share of the kernels' time that lies in samples. `mixing`: of the samples that were
    fitted. `astray` (s, k): by how much the amounts differ at other clocks that are as likely.
    """

    amounts: FloatArray
    counted: float
    unattributed: float
    seen: float
    mixing: Mixing
    fit: Fit | None
    astray: FloatArray | None = None

    @property
    def total(self) -> float:
        """The amount of all kernels, in samples and outside of them."""
        return float(self.amounts.sum())

    def errors(self, sets: Any) -> FloatArray:
        """The standard error of the amount of each of *sets* of kernels: a sparse (r, k) of 0 and 1."""
        if self.fit is None:
            return np.zeros(sets.shape[0])
        time = (sets @ self.mixing.whole).tocsr()
        if sets.shape[0] <= DRAWS:
            spread = (time.toarray() * self.fit.solve(time.T.toarray()).T).sum(axis=1)
        else:
            spread = (np.asarray(time @ self._drawn(self.fit)) ** 2).mean(axis=1)
        spread = spread * self._excess + self._own(sets)
        if self.astray is not None:
            spread = spread + (np.asarray(sets @ self.astray.T) ** 2).mean(axis=1)
        return np.asarray(np.sqrt(spread), np.float64)

    def _drawn(self, fit: Fit) -> FloatArray:
        """
        Deviations of the rates as likely as the fit says, shape (u, draws).

        Noise as large as expected is put on the samples and on what was known before, and the rates are
        solved for it (Papandreou and Yuille, 2010).
        """
        random = np.random.default_rng(0)
        samples = random.standard_normal((len(fit.variance), DRAWS)) / np.sqrt(fit.variance)[:, None]
        before = random.standard_normal((fit.prior.root.shape[0], DRAWS))
        right = self.mixing.matrix.T @ samples + fit.prior.root.T @ before
        return np.asarray(fit.solve(right), np.float64)

    def covariance(self, sets: Any) -> FloatArray:
        """The covariance of the amounts of *sets*, as above, shape (r, r)."""
        if self.fit is None:
            return np.zeros((sets.shape[0], sets.shape[0]))
        time = (sets @ self.mixing.whole).toarray()
        found = time @ self.fit.solve(time.T) * self._excess
        if self.astray is not None:
            astray = np.asarray(sets @ self.astray.T)
            found = found + astray @ astray.T / astray.shape[1]
        return np.asarray(found + np.diag(self._own(sets)), np.float64)

    @property
    def _excess(self) -> float:
        """By how much more than expected the fit leaves over. Less than expected makes nobody surer."""
        return 1.0 if self.fit is None else max(1.0, self.fit.cost)

    def _own(self, sets: Any) -> FloatArray:
        """Variances that are the sets' own: how kernels differ from the mean, and how wrong the model is."""
        differing = sets @ (INSTANCE_NOISE * self.amounts) ** 2
        return np.asarray(differing + (MODEL_ERROR * (sets @ self.amounts)) ** 2, np.float64)


def share_out(amounts: FloatArray, mixing: Mixing) -> Shared | None:
    """*amounts* of samples, shape (n,), NaN where missing; None where no sample has any kernel in it."""
    known = np.isfinite(amounts)
    here, system = amounts[known], mixing.where(known)
    used = system.busy_ns > 0
    if not used.any():
        return None
    counted = float(here.sum())
    lengths = mixing.kernels.length_ns
    seen = float((system.share @ lengths).sum() / lengths.sum())
    if counted <= 0:
        return Shared(np.zeros(len(lengths)), 0.0, 0.0, seen, mixing, None)
    fitted = system.where(used)
    fit = fit_rates(here[used], fitted)
    rates = fit.rates.copy()
    rates[mixing.tree.idle] = 0.0
    return Shared(
        amounts=np.asarray(mixing.whole @ rates, np.float64),
        counted=counted,
        unattributed=counted - float((system.matrix @ rates).sum()),
        seen=seen,
        mixing=fitted,
        fit=fit,
    )


def at_other_clocks(shared: Shared, amounts: FloatArray, here: Mixing, others: Iterable[Mixing]) -> Shared:
    """
    *shared* as unsure as it differs from what the same samples tell with other clocks.

    It was made of *amounts* and *here*, and *others* are the same samples with the kernels at other times.
    """
    fit = shared.fit
    if fit is None:
        return shared
    fitted = np.isfinite(amounts) & (here.busy_ns > 0)
    astray = []
    for mixing in others:
        system = mixing.where(fitted)
        rates = solve(amounts[fitted], system.matrix, fit.variance, fit.prior, above_zero=False).rates
        astray.append(np.maximum(system.whole @ rates, 0.0) - shared.amounts)
    return replace(shared, astray=np.asarray(astray, np.float64))


def is_told(amounts: FloatArray, errors: FloatArray, total: float) -> Any:
    """Which amounts with such errors are known well enough to be told, as booleans of their shape."""
    return INTERVAL * errors <= np.maximum(TOLD * np.abs(amounts), SMALL * total)


def told_together(amounts: FloatArray, covariance: FloatArray, total: float) -> list[list[int]]:
    """
    Sets put together until each group is known well enough; those in no group stand for themselves.

    The least known set is joined with the one whose error goes against its own the most, again and again. A
    group that is not known well enough though it has none left to join is among them all the same.
    """
    groups = [[number] for number in range(len(amounts))]
    sums, spread = amounts.astype(np.float64).copy(), covariance.copy()
    alive = np.ones(len(groups), bool)
    while True:
        error = np.sqrt(np.maximum(np.diag(spread), 0.0))
        lacking = alive & ~is_told(sums, error, total)
        lacking &= (np.where(alive, spread, 0.0) < 0).any(axis=1)
        if not lacking.any():
            break
        worst = int(np.flatnonzero(lacking)[np.argmax(error[lacking])])
        against = np.where(alive, spread[worst] / np.maximum(error, np.finfo(float).tiny), np.inf)
        against[worst] = np.inf
        other = int(np.argmin(against))
        groups[worst] += groups[other]
        sums[worst] += sums[other]
        spread[worst] += spread[other]
        spread[:, worst] += spread[:, other]
        alive[other] = False
    return [sorted(groups[number]) for number in np.flatnonzero(alive) if len(groups[number]) > 1]


def sets_from(rows: Sequence[IntArray], kernels: int) -> Any:
    """Sets of kernels, which may overlap, by the rows of each, as a sparse matrix (len(rows), kernels)."""
    from scipy import sparse

    of = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    which = np.concatenate([*rows, np.empty(0, np.int64)]).astype(np.int64)
    return sparse.csr_matrix((np.ones(len(which)), (of, which)), shape=(len(rows), kernels))
