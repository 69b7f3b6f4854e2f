"""
Is one program really faster than another, or does it only look so? The difference of two means, honestly.

What is measured in a run nests (Kalibera and Jones, 2013, "Rigorous benchmarking in reasonable time"):

    x = mean of the program + run + stretch + step        each with a variance of its own

Two recordings of one program differ by more than their steps scatter: another run finds another clock,
another temperature, another neighbour on the host (Georges, Buytaert and Eeckhout, 2007). An interval from
the steps of two runs alone is therefore too narrow, and the more steps the worse.

    noise     of a stretch of `STRETCH_S`: the variance its values give its mean. Neighbours are alike, so
              it is that of n free values times (1 + r) / (1 - r), r the correlation of one with the next (an
              AR(1) series; r comes out too low by about (1 + 3 r) / n, Kendall, 1954).
    drift     by how much stretches of a run differ beyond that. They are alike too: n count as fewer.
    between   by how much runs differ. One run cannot show it. It is taken to be about as large as the drift
              (`UNSURE`), and now and then anything else (`OTHERWISE`); several runs show it themselves.

    variance of a run's mean = between² + drift² / stretches + noise / stretches

Few stretches know their drift badly, and a guess in its place makes intervals too narrow. So all drifts are
weighed by how likely they make what was seen (chi square), and by how usual they are: half-Cauchy, which
holds small ones for likely and forbids none (Gelman, 2006). The difference of two programs is then a mixture
of normal distributions, from which the interval is read.

Amounts are compared by their ratio, on a logarithmic scale; shares by their difference in points.
"The same" has to be shown too: the whole interval lies within a margin (equivalence, Schuirmann, 1987).
Neither shown nor refuted is "unknown". Of many metrics some differ by chance: words come from
Holm's tests (1979), and intervals are those that go with them (Strassburger and Bretz, 2008).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from perfzero.limits import BY_DEFINITION, CHOICE, H200, SIMULATED, Limit
from perfzero.values import FloatArray, IntArray

Scale = Literal["ratio", "points"]
"""How two values are held against each other: by their ratio, or (shares) by their difference."""

Word = Literal["more", "less", "same", "unknown"]

STRETCH_S: Annotated[float, Limit("seconds", CHOICE)] = 1.0
"""A run is cut into stretches of about so long: several of them in the shortest look, steps in each."""

BUSY: Annotated[float, Limit("ratio", H200)] = 0.0015
"""
Half of the drifts of programs that keep the GPU busy are smaller (standard deviation, a share of the mean).
Stretches of 2 s of 17 such programs on an H200 scattered by 0.1 to 0.3 % in the middle half, by 0.01 to 0.6 %
in all (`tests/recordings`, by the programs' own clocks).
"""

WAITING: Annotated[float, Limit("ratio", H200)] = 0.04
"""The same for programs that wait for the host, which wander: 14 of them scattered by 1 to 20 %."""

UNSURE: Annotated[float, Limit("ratio", CHOICE)] = 0.4
"""Of the logarithm of between / drift: runs differ by 0.7 to 1.5 times their drift in two cases of three."""

SEVERAL: Annotated[float, Limit("ratio", SIMULATED)] = 3.0
"""
The same where several runs were seen: 0.05 to 20 times in two cases of three. They tell themselves, but the
spread of three is known badly, and with 1 here the truth lay in the interval in 66 to 90 % of the pairs of
programs whose runs differ by 10 to 200 times their drift (`benchmarks/compare/simulated.py`); now in 95.
"""

OTHERWISE: Annotated[float, Limit("ratio", CHOICE)] = 0.001
"""
Of programs whose runs differ by anything up to `FARTHEST` times their drift. So few that a single run is not
distrusted for it; several runs that disagree are believed all the same.
"""

FARTHEST: Annotated[float, Limit("ratio", CHOICE)] = 1000.0
"""A library that chooses another algorithm makes a run of an even program differ by that."""

FARTHEST_ALONE: Annotated[float, Limit("ratio", CHOICE)] = 100.0
"""The same of a single run, which shows none of it: only how wide intervals of many metrics are."""

LEAST, MOST = 1e-5, 1.0
"""Drifts that are weighed: from that of an unheard-of even program to that of one that pauses at times."""

GRID = 48
"""Drifts that are weighed, evenly on a logarithmic scale: more change the third digit of an interval."""

MARGIN: Annotated[float, Limit("ratio", CHOICE)] = 0.01
"""Less than 1 % is no difference: nobody can act on it, and machines of one kind differ by as much."""

FEWEST_STRETCHES: Annotated[int, Limit("count", BY_DEFINITION)] = 3
"""The least that show a drift: of two means one cannot say what is drift and what is noise."""

FEW_STEPS: Annotated[float, Limit("count", CHOICE)] = 5.0
"""
Where a stretch holds fewer values, their scatter within it is hardly seen, or not at all (steps of a second),
and all of it would count as drift, and so be expected between runs. There neighbours tell the noise.
"""

SURELY: Annotated[float, Limit("ratio", CHOICE)] = 0.9
"""
Noise cannot be more than what lies between stretches, as far as that is known: onsets are found to a part of
a sample, which one step gains and the next loses, more regularly than an AR(1) series allows for.
"""

LEAST_POINTS: Annotated[float, Limit("ratio", CHOICE)] = 0.01
"""A share that is smaller than a point wanders as if it were one: by little, whatever the ratio."""

MOST_ALIKE: Annotated[float, Limit("ratio", CHOICE)] = 0.9
"""A correlation above it is not to be told from 1 in as few values as there are."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """
    One metric over one run: `values` (n,) with `weights` (n,), each in the stretch numbered `stretch` (n,).

    Steps all weigh the same; the means of pieces of time weigh by their length. NaN is left out.
    """

    values: FloatArray
    weights: FloatArray
    stretch: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """
    The mean of a metric over the runs of a program.

    `variances` (k,) are those that its error may have, `likely` (k,) how likely each is: shares of the value
    on the scale of ratios, absolute on that of points; none where it cannot be told. `drift`: the likeliest
    standard deviation between stretches, on the same scale. `runs`: how many were seen.
    """

    value: float
    scale: Scale
    variances: FloatArray
    likely: FloatArray
    drift: float
    runs: int

    @classmethod
    def missing(cls, scale: Scale) -> Measured:
        """What was not seen."""
        return cls(math.nan, scale, np.empty(0), np.empty(0), math.nan, 0)

    @property
    def known(self) -> bool:
        """Whether anything can be said of how far the mean may be off."""
        return math.isfinite(self.value) and len(self.variances) > 0

    def interval(self, *, confidence: float = 0.95) -> tuple[float, float]:
        """Between which values the program's mean lies; both NaN where that cannot be told."""
        if not self.known:
            return math.nan, math.nan
        reach = _reach(self.variances, self.likely, confidence)
        if self.scale == "points":
            return self.value - reach, self.value + reach
        return self.value * math.exp(-reach), self.value * math.exp(reach)

    def inverse(self) -> Measured:
        """1 / it: the rate of what takes so long. On the scale of ratios the error stays as it is."""
        return replace(self, value=1 / self.value)

    def times(self, other: Measured) -> Measured:
        """Its product with *other*, on the scale of ratios, as if the two knew nothing of each other."""
        both = self.known and other.known
        return replace(
            self,
            value=self.value * other.value,
            variances=self.variances + _as_if_normal(other) if both else np.empty(0),
            likely=self.likely if both else np.empty(0),
            drift=math.hypot(self.drift, other.drift),
        )

    def scaled(self, step: Measured) -> Measured:
        """A share of the time *step* as a time, which is compared in seconds."""
        own = self.variances * step.value**2
        return replace(
            self,
            value=self.value * step.value,
            variances=own + _as_if_normal(step) * (self.value * step.value) ** 2
            if step.known
            else np.empty(0),
            likely=self.likely if step.known else np.empty(0),
            drift=self.drift * step.value,
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """
    How far B is from A: `value` in [`low`, `high`], as a share of A (0.02: 2 % more) or in points.

    `word`: "more" or "less" is shown, or "same": all of the interval lies within `margin`. `p`: how
    likely so large a difference is by chance, of this metric alone. NaN where it cannot be told.
    """

    value: float
    low: float
    high: float
    p: float
    word: Word
    margin: float
    scale: Scale

    @property
    def known(self) -> bool:
        """Whether there is an interval at all."""
        return math.isfinite(self.low) and math.isfinite(self.high)


def measured(runs: Sequence[Series], *, scale: Scale, usual: float = WAITING, also: float = 0.0) -> Measured:
    """
    The mean over the *runs* of one program; NaN where nothing was seen.

    *usual*: the drift that half of such programs do not reach, `BUSY` or `WAITING`. *also*: a variance of the
    mean, on the same scale, that the series do not show.
    """
    seen = [one for one in (_run(run, scale=scale) for run in runs) if one is not None]
    if not seen:
        return Measured.missing(scale)
    value = float(np.mean([one.value for one in seen]))
    told = [one for one in seen if one.stretches >= FEWEST_STRETCHES]
    if not told or (scale == "ratio" and not value > 0):
        return Measured(value, scale, np.empty(0), np.empty(0), math.nan, len(seen))
    unit = _unit(value, scale)
    back = 1.0 if scale == "ratio" else unit
    drift = np.geomspace(LEAST, MOST, GRID)
    farthest = math.log(FARTHEST_ALONE if len(seen) == 1 else FARTHEST)
    times = np.linspace(-farthest, farthest, GRID - 1)[:, None]  # 0 is among them
    between = np.exp(times) * drift
    spread = np.exp(-((times / (UNSURE if len(seen) == 1 else SEVERAL)) ** 2) / 2)
    weigh = np.log(drift / (1 + (drift / usual) ** 2))
    weigh = weigh + np.log((1 - OTHERWISE) * spread / spread.sum() + OTHERWISE / len(spread))
    for one in told:
        weigh = weigh + _chi_square(one.apart, one.free, drift**2 + one.noise)
    # What each run's own mean is off by, beside what runs differ by.
    own = np.mean([drift**2 / (one.free + 1) + one.noise / one.stretches for one in told], axis=0)
    each = between**2 + own
    if len(seen) > 1:
        means = np.array([one.value for one in seen]) / unit
        weigh = weigh + _chi_square(float(means.var(ddof=1)), len(seen) - 1.0, each)
    likely = np.exp(weigh - weigh.max())
    likeliest = float(drift[int(np.argmax(likely.sum(axis=0)))])
    variances, shares = _thinned((each / len(seen)).ravel(), (likely / likely.sum()).ravel())
    return Measured(value, scale, variances * back**2 + also, shares, likeliest * back, len(seen))


def difference(a: Measured, b: Measured, *, margin: float = MARGIN, confidence: float = 0.95) -> Difference:
    """How far *b* is from *a*, by this metric alone."""
    gap = _gap(a, b)
    if not (math.isfinite(gap) and a.known and b.known):
        return Difference(_shown(gap, a.scale), math.nan, math.nan, math.nan, "unknown", margin, a.scale)
    variances = np.add.outer(a.variances, b.variances).ravel()
    likely = np.multiply.outer(a.likely, b.likely).ravel()
    reach = _reach(variances, likely, confidence)
    low, high = _shown(gap - reach, a.scale), _shown(gap + reach, a.scale)
    p = _beyond(abs(gap), variances, likely)
    found = Difference(_shown(gap, a.scale), low, high, p, "unknown", margin, a.scale)
    return replace(found, word=_word(found, differs=p < 1 - confidence))


def simultaneous(
    pairs: Sequence[tuple[Measured, Measured]], *, margins: Sequence[float], confidence: float = 0.95
) -> tuple[Difference, ...]:
    """
    How far B is from A in each of the *pairs*, so that with *confidence* none of it is wrong.

    Holm's tests decide whether a metric differs. The intervals are Bonferroni's; where Holm shows a
    difference that Bonferroni does not, the interval ends at 0.
    """
    alone = [
        difference(a, b, margin=m, confidence=confidence) for (a, b), m in zip(pairs, margins, strict=True)
    ]
    tested = sorted((d.p, place) for place, d in enumerate(alone) if d.known)
    many, alpha = len(tested), 1 - confidence
    rejected: set[int] = set()
    for rank, (p, place) in enumerate(tested):
        if p >= alpha / (many - rank):
            break
        rejected.add(place)
    found = []
    for place, ((a, b), margin) in enumerate(zip(pairs, margins, strict=True)):
        if not alone[place].known:
            found.append(alone[place])
            continue
        wide = replace(difference(a, b, margin=margin, confidence=1 - alpha / many), p=alone[place].p)
        if place in rejected:
            wide = replace(wide, low=max(wide.low, 0.0) if wide.value > 0 else wide.low)
            wide = replace(wide, high=min(wide.high, 0.0) if wide.value < 0 else wide.high)
        found.append(replace(wide, word=_word(wide, differs=place in rejected)))
    return tuple(found)


def stretches_of(start_ns: IntArray, end_ns: IntArray, *, seen_ns: IntArray) -> IntArray:
    """
    The number of the stretch in which each of the values over [start, end) lies; -1 where in none.

    *seen_ns* (m, 2): spans that were looked at, in order. Each is cut into equal ones of about `STRETCH_S`.
    """
    found = np.full(len(start_ns), -1, np.int64)
    first = 0
    for begin, end in seen_ns:
        count = max(1, round((end - begin) / 1e9 / STRETCH_S))
        middle = start_ns + (end_ns - start_ns) // 2
        place = ((middle - begin) * count) // max(1, end - begin)
        inside = (middle >= begin) & (middle < end)
        found[inside] = first + place[inside]
        first += count
    return found


@dataclass(frozen=True, slots=True)
class _Run:
    """
    One run: its mean, the variance `apart` between its stretches and that which `noise` gives each of them,
    how many `stretches` there are, and how many of them are `free`.
    """

    value: float
    apart: float
    noise: float
    stretches: int
    free: float


def _run(run: Series, *, scale: Scale) -> _Run | None:
    kept = np.isfinite(run.values) & (run.weights > 0) & (run.stretch >= 0)
    values, weights = run.values[kept], run.weights[kept]
    if not len(values):
        return None
    value = float(np.average(values, weights=weights))
    unit = _unit(value, scale)
    numbers, place = np.unique(run.stretch[kept], return_inverse=True)
    many = len(numbers)
    if many < FEWEST_STRETCHES:
        return _Run(value, math.nan, math.nan, many, 0.0)
    mass = np.bincount(place, weights)
    means = np.bincount(place, weights * values) / mass
    # Unequal stretches: each counts as much as it lasted, so a short one cannot make up a drift.
    share = mass / mass.sum()
    even = 1 / float(np.sum(share**2))
    rest = (means - value) / unit
    squares = float(np.sum(share * rest**2))
    r = _alike(rest, np.ones(many - 1, np.bool_), each=many)
    counted = min(even, max(FEWEST_STRETCHES, even * (1 - r) / (1 + r)))
    # The mean itself follows the drift: what is left around it is too little.
    apart, free = squares / (1 - 1 / counted), counted - 1
    noise = min(_noise(values / unit, weights, place, means / unit), apart * _at_most(free))
    return _Run(value, apart, noise, many, free)


def _at_most(free: float) -> float:
    """How many times a variance of *free* values may be what was seen of it, with `SURELY`."""
    from scipy.special import chdtri

    return free / float(chdtri(free, SURELY))


def _unit(value: float, scale: Scale) -> float:
    """What drift and noise are shares of: the mean, and on the scale of points `LEAST_POINTS` at least."""
    return max(abs(value), LEAST_POINTS) if scale == "points" else abs(value) or 1.0


def _noise(values: FloatArray, weights: FloatArray, place: IntArray, means: FloatArray) -> float:
    """The variance that the scatter of *values* alone gives the mean of a stretch."""
    many, free = len(means), len(values) - len(means)
    if len(values) < FEW_STEPS * many:
        # Half the mean square of successive differences (von Neumann, 1941): what drifts slowly falls out.
        return float(np.mean(np.diff(values) ** 2)) / 2 * many / len(values)
    rest = values - means[place]
    spread = float(np.average(rest**2, weights=weights)) * len(values) / free
    r = _alike(rest, place[1:] == place[:-1], each=len(values) / many)
    return spread * (1 + r) / (1 - r) * many / len(values)


def _alike(rest: FloatArray, next_to: NDArray[np.bool_], *, each: float) -> float:
    """How much one of *rest* (n,) correlates with the next, their mean taken off every *each* of them."""
    squares = float(np.sum(rest**2))
    r = float(np.sum((rest[1:] * rest[:-1])[next_to])) / squares if squares > 0 else 0.0
    return min(MOST_ALIKE, max(-MOST_ALIKE, r + (1 + 3 * r) / each))


def _chi_square(seen: float, free: float, expected: FloatArray) -> FloatArray:
    """Logarithm of how likely variances *expected* make the one *seen*, of so many *free* values."""
    return np.asarray(-free / 2 * (np.log(expected) + seen / expected), np.float64)


def _thinned(variances: FloatArray, likely: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same distribution of *variances* (k,) in `GRID` values, each the mean of those it stands for."""
    order = np.argsort(variances)
    variances, likely = variances[order], likely[order]
    place = np.minimum((np.cumsum(likely) * GRID).astype(np.int64), GRID - 1)
    # The largest few decide how far an interval reaches: they are not averaged away.
    place = np.maximum(place, np.searchsorted(-np.geomspace(1, 1e-4, GRID), -(1 - np.cumsum(likely))))
    _, place = np.unique(place, return_inverse=True)
    mass = np.bincount(place, likely)
    means: FloatArray = np.bincount(place, likely * variances) / np.maximum(mass, 1e-300)
    return means, np.asarray(mass, np.float64)


def _as_if_normal(known: Measured) -> float:
    """
    The variance of the normal distribution that reaches as far, with 95 %.

    Not the expected variance: that is all of the few runs that may be anywhere (`OTHERWISE`).
    """
    return (_reach(known.variances, known.likely, 0.95) / 1.96) ** 2


def _reach(variances: FloatArray, likely: FloatArray, confidence: float) -> float:
    """How far to either side of 0 lies *confidence* of the mixture of normal distributions."""
    low, high = 0.0, 12 * math.sqrt(float(variances.max()))
    for _ in range(50):
        middle = (low + high) / 2
        if _beyond(middle, variances, likely) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _beyond(gap: float, variances: FloatArray, likely: FloatArray) -> float:
    """How likely the mixture is further from 0 than *gap*."""
    from scipy.special import erfc  # a tenth of a second to load, and only where something is compared

    return float(np.sum(likely * erfc(gap / np.sqrt(2 * variances))))


def _gap(a: Measured, b: Measured) -> float:
    if a.scale == "points":
        return b.value - a.value
    return math.log(b.value / a.value) if a.value > 0 and b.value > 0 else math.nan


def _shown(gap: float, scale: Scale) -> float:
    return gap if scale == "points" else math.expm1(gap)


def _word(found: Difference, *, differs: bool) -> Word:
    if -found.margin <= found.low and found.high <= found.margin:
        return "same"
    if differs:
        return "more" if found.value > 0 else "less"
    return "unknown"
