"""
The share of the idle time that would be gone without a line; shares of several may add up to more.

Whom the idle time belongs to depends on what the host does (`host_activity`):

- **It computes, or waits for something that is not the GPU.** As long as the GPU is idle meanwhile, it waits
  for this: so far the share is that of the moments in gaps. Where the host comes to such a line while the GPU
  still works off what it was given, that time counts as well, as far as the gap is longer than the host was
  there (`attribute.host_chain`). Where it launches or waits for the GPU afterwards the line costs nothing,
  nor where a wait for others follows in the gap (`attribute.paced`).
- **It waits for the GPU** (`.item()`, `synchronize()`). The GPU is busy as long as this lasts; the gap comes
  after it, while the host is at other lines, since nothing was given in advance. So the gaps that *begin* in
  such a call are its own, with two limits. Without it no more can be gained than the host waited in it, for
  the host would have the rest to do all the same: T = host + waiting, and without waiting T' >= host. And
  what is waited for in parallel, such as a batch of the DataLoader, would only be waited for longer.
- **It launches.** Kernels have to be launched, so such a line gets what no other cause explains. Python that
  comes mostly with a busy GPU is taken to launch, unless gaps show that it computes.

Where gaps begin is told by the moments just before them, each weighted by the length of its gap over the
number of moments to expect: moments come independently of the program, so those that were seen stand for all.

Gaps shorter than a sample cannot be placed. There the lines that wait for the GPU share the idle time, if the
host is found in them at all (`SYNCED`), with the same limits.

**The GIL.** The share of the line that holds it (`attribute.gil`) is that of the looks at the main thread,
while the GPU was idle, that found it waiting. The line at which it waited loses as much of its moments as
looks in it found it waiting, apart for a busy and for an idle GPU.

An interval comes of resampling blocks of half a second, each fifth of the replicates with another clock: that
is known to less than a millisecond only (`attribute.stack_clock`), which moves what is near an edge of a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from perfzero.attribute.host_activity import LAUNCHING, WAITS_FOR_GPU, WAITS_FOR_OTHERS, Meaning
from perfzero.attribute.host_chain import Roles, before_gaps
from perfzero.attribute.idle import Idle, inside
from perfzero.attribute.leaves import Looks
from perfzero.attribute.moments import Moments
from perfzero.attribute.paced import paced, waited_after
from perfzero.limits import CHOICE, SIMULATED, Limit
from perfzero.traces import BoolArray
from perfzero.values import FloatArray, IntArray

SYNCED: Annotated[float, Limit("ratio", CHOICE)] = 0.15
"""From this share of the moments near short gaps on, lines that wait for the GPU explain them all."""

BEGINS_WITHIN_S: Annotated[float, Limit("seconds", CHOICE)] = 0.002
"""How long before a gap a moment tells where it began; more for long gaps, a quarter of their length ..."""

BEGINS_LONGEST: Annotated[float, Limit("ratio", CHOICE)] = 10.0
"""... but no more than so many times the mean distance of moments."""

UNCERTAIN_NS: Annotated[int, Limit("nanoseconds", SIMULATED)] = 700_000
"""So shortly before a gap begins a moment tells nothing: clocks and gaps are not placed better."""

MOSTLY: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Python during which the GPU is busy for more of the time than this is taken to launch."""

BLOCK_S = 0.5
MOST_BLOCKS = 400
"""Longer blocks where there would be more: 10 s have 20 of them."""

REPLICATES = 200

CLOCKS = (0.0, -1.4, -0.53, 0.53, 1.4)
"""
Clocks of the replicates, in standard deviations: the means of the fifths of a normal distribution. Each costs
as much as the shares themselves.
"""

_SEED = 20260101


class Shares:
    """
    The share of the idle time of each leaf, and of `REPLICATES` resampled sets of blocks.

    `share`, `drained` have shape (leaves,), `replicates` (REPLICATES, leaves). `waited` (leaves,): the share
    of all time in which the host is there while the GPU works, or still is when it has nothing left to do.
    """

    def __init__(
        self,
        leaves: Sequence[Meaning],
        moments: Moments,
        idle: Idle,
        looks: Looks | None,
        *,
        computing: BoolArray,
        rate_hz: float,
        clock_ns: float,
    ) -> None:
        self._waits = np.array([m.activity in WAITS_FOR_GPU for m in leaves])
        self._copies = np.array([m.activity == "copying" for m in leaves])
        self._others = np.array([m.activity in WAITS_FOR_OTHERS for m in leaves])
        self._known_launches = np.array([m.activity in LAUNCHING for m in leaves])
        self._python = np.array([m.activity == "python" for m in leaves])
        self._computes = np.append(computing, np.zeros(len(leaves) - len(computing), np.bool_)) & ~self._waits
        self._n = len(leaves)
        self._rate_hz = rate_hz
        self._launches = np.zeros(0, np.bool_)  # known once they are summed with the clock as it is
        # All clocks have the same blocks, so that a replicate has the same ones with each.
        self._origin = int(idle.edge[0])
        last_ns = max(
            int(a.max(initial=self._origin)) for a in (moments.time_ns, idle.start_ns, idle.short_start_ns)
        )
        self._block_ns = max(BLOCK_S * 1e9, (last_ns - self._origin) / MOST_BLOCKS)
        self._blocks = int((last_ns - self._origin) / self._block_ns) + 1
        weights = np.random.default_rng(_SEED).multinomial(
            self._blocks, np.full(self._blocks, 1 / self._blocks), REPLICATES
        )
        replicates: list[FloatArray] = []
        for k, sigmas in enumerate(CLOCKS):
            shifted = moments.shifted(round(sigmas * clock_ns))
            self._sum(shifted.where(np.isfinite(idle.at(shifted.time_ns))), idle, looks)
            if k == 0:
                self.share, self.drained = self._shares(np.ones(self._blocks))
                # A wait is over when the GPU is through, and the host hears of it a little later.
                heard = np.where(self._waits, self._in_gap.sum(0), 0.0)
                self.waited = (self._busy.sum(0) + heard) / max(moments.count, 1.0)
            replicates += [self._shares(w.astype(np.float64))[0] for w in weights[k :: len(CLOCKS)]]
        self.replicates = np.array(replicates)

    def _sum(self, moments: Moments, idle: Idle, looks: Looks | None) -> None:
        time_ns, leaf, weight = moments.time_ns, moments.leaf, moments.weight

        def block(time_ns: IntArray) -> IntArray:
            at = np.asarray((time_ns - self._origin) / self._block_ns, np.int64)
            return np.clip(at, 0, self._blocks - 1)

        value = idle.at(time_ns)
        in_short = inside(time_ns, idle.short_start_ns, idle.short_end_ns)
        in_gap = inside(time_ns, idle.start_ns, idle.end_ns)

        def table(block_of: IntArray, leaf_of: IntArray, weight: FloatArray) -> FloatArray:
            flat: Any = np.bincount(block_of * self._n + leaf_of, weight, self._blocks * self._n)
            return np.asarray(flat, np.float64).reshape(self._blocks, self._n)

        self._held: FloatArray = np.zeros((self._blocks, self._n))
        self._looked: FloatArray = np.ones(self._blocks)
        if looks is not None:
            of = block(looks.time_ns)
            waiting = looks.leaf >= 0
            self._held = table(of[waiting], looks.leaf[waiting], looks.idle[waiting])
            self._looked = np.asarray(np.bincount(of, looks.idle, self._blocks), np.float64)
        at = block(time_ns)
        # A wait for the GPU is over when a gap begins: a moment that is only likely is none there.
        over = in_gap & (self._waits & ~self._copies)[leaf] & ~moments.sure
        weight = np.where(over, 0.0, weight)
        self._in_gap = table(at, leaf, weight * in_gap)
        in_its_gap, of, followed = waited_after(moments, idle, self._others)
        gap_block = block(idle.start_ns)
        self._gaps_of = table(gap_block[in_its_gap], of, np.ones(len(of)))
        self._followed = table(gap_block[in_its_gap], of, (followed & ~self._waits[of]).astype(np.float64))
        self._in_short = table(at, leaf, weight * np.where(in_short, value, 0.0))
        # A wait for the GPU ends when that runs dry: near short gaps the GPU was busy throughout it.
        busy = np.where(in_short & self._waits[leaf], 1.0, np.where(in_gap, 0.0, 1.0 - value))
        self._busy = table(at, leaf, weight * busy)
        if not len(self._launches):  # with another clock a line is off, but does what it does
            idle_part, busy_part = (self._in_gap + self._in_short).sum(0), self._busy.sum(0)
            mostly_busy = idle_part < MOSTLY * (idle_part + busy_part)
            self._launches = self._known_launches | (self._python & mostly_busy & ~self._computes)
        roles = Roles(self._computes, self._others, self._launches)
        self._before = before_gaps(
            replace(moments, weight=weight), idle, roles, block_of=block(idle.start_ns), blocks=self._blocks
        )
        length_s = (idle.end_ns - idle.start_ns) / 1e9
        self._gap_s = np.bincount(block(idle.start_ns), length_s, self._blocks)
        self._short_s = np.bincount(block(idle.short_start_ns), idle.short_s, self._blocks)
        window_s = np.clip(0.25 * length_s, BEGINS_WITHIN_S, BEGINS_LONGEST / self._rate_hz)
        window_ns = (window_s * 1e9).astype(np.int64)
        before = _spans(time_ns, idle.start_ns - UNCERTAIN_NS - window_ns, idle.start_ns - UNCERTAIN_NS)
        after = _spans(
            time_ns,
            idle.start_ns + UNCERTAIN_NS,
            np.minimum(idle.end_ns, idle.start_ns + UNCERTAIN_NS + window_ns),
        )
        during = _spans(time_ns, idle.start_ns, idle.end_ns)
        part = np.concatenate(
            [
                [0.0],
                *(
                    length_s[k] / (self._rate_hz * window_s[k]) * weight[span]
                    for k, span in enumerate(before)
                ),
            ]
        )[1:]
        where = np.concatenate([[0], *(leaf[span] for span in before)])[1:]
        gap_of = np.repeat(np.arange(len(before)), [span.stop - span.start for span in before])
        sort = [
            (int(np.argmax(np.bincount(leaf[span], weight[span]))) if span.stop > span.start else -1,
             int(np.log2(max(length_s[k], 1e-6))))
            for k, span in enumerate(after)
        ]  # fmt: skip
        part = _sharpened(part, where, [sort[k] for k in gap_of])
        begun_paced = np.array([
            float(_normed(weight[span]) @ self._others[leaf[span]]) if span.stop > span.start else np.nan
            for span in during
        ])[gap_of] if len(before) else np.zeros(0)  # fmt: skip
        block_of = block(idle.start_ns)[gap_of]
        known = np.isfinite(begun_paced)
        self._begun = table(block_of, where, part)
        self._paced = table(block_of[known], where[known], part[known] * begun_paced[known])
        self._paced_of = table(block_of[known], where[known], part[known])
        self._near = np.zeros((self._blocks, self._n))
        reach = idle.short_end_ns - idle.short_start_ns
        first = np.searchsorted(time_ns, idle.short_start_ns - reach)
        stop = np.searchsorted(time_ns, idle.short_end_ns)
        for k, b in enumerate(block(idle.short_start_ns).tolist()):
            if stop[k] > first[k]:
                near = slice(first[k], stop[k])
                np.add.at(self._near[b], leaf[near], idle.short_s[k] * weight[near])

    def _shares(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        gap_s, short_s = float(weights @ self._gap_s), float(weights @ self._short_s)
        idle_s = gap_s + short_s
        if not idle_s > 0:
            return np.zeros(self._n), np.zeros(self._n)
        in_gap, in_short, busy = weights @ self._in_gap, weights @ self._in_short, weights @ self._busy
        begun, near = weights @ self._begun, weights @ self._near
        held = (weights @ self._held) / max(float(weights @ self._looked), 1e-12)
        alone = 1 - min(1.0, float(held.sum()))  # the part in which the main thread waited for no other one
        direct_gap = gap_s * alone * _normed(in_gap)
        held_up = (weights @ self._paced) / np.maximum(weights @ self._paced_of, 1e-12)
        drained = np.where(self._waits, gap_s * _normed(begun) * (1 - held_up), 0.0)
        drained = np.maximum(drained - np.where(self._waits, direct_gap * _normed(begun), 0.0), 0.0)
        waits_near = _normed(near) * self._waits
        synced = float(waits_near.sum())
        of_short = short_s * (1.0 if synced >= SYNCED else synced)
        if synced > 0:
            drained = drained + of_short * waits_near / synced
        drained = np.minimum(drained, busy / self._rate_hz)
        left_short = max(
            0.0, short_s - float(np.sum(np.minimum(of_short * waits_near / max(synced, 1e-12), drained)))
        )
        direct_short = left_short * alone * _normed(np.where(self._waits & ~self._copies, 0.0, in_short))
        # What launches has to be done: it gets what nothing else explains.
        launches = self._launches
        of = self._before
        per_moment_s = alone / self._rate_hz
        before = (weights @ of.before) * per_moment_s
        elsewhere = (weights @ of.elsewhere) * per_moment_s
        any_before = np.minimum(weights @ of.any_before, weights @ of.launching) * per_moment_s
        direct = direct_gap + direct_short + idle_s * held
        kept = 1 - self._paced_by_waits(weights, in_gap)
        explained = float(np.sum(drained)) + float(np.sum(direct[~launches])) + float(any_before.sum())
        launching = float(np.sum(direct[launches]))
        if launching > 0:
            factor = min(1.0, max(0.0, idle_s - explained) / launching)
            direct = np.where(launches, direct * factor, direct)
        direct = direct - np.minimum(direct, direct_gap) * (1 - kept)
        direct = direct + kept * np.bincount(of.leaf, np.minimum(before, elsewhere), self._n)
        return np.minimum((direct + drained) / idle_s, 1.0), drained / idle_s

    def _paced_by_waits(self, weights: FloatArray, in_gap: FloatArray) -> FloatArray:
        """Of each leaf in which share of its gaps it would only make a wait for others longer."""
        followed = (weights @ self._followed) / np.maximum(weights @ self._gaps_of, 1e-12)
        return paced(followed, waiting=float(_normed(in_gap) @ self._others))


def _spans(time_ns: IntArray, start_ns: IntArray, end_ns: IntArray) -> list[slice]:
    """Which of *time_ns*, in order, lie in each interval."""
    first, stop = np.searchsorted(time_ns, start_ns), np.searchsorted(time_ns, end_ns)
    return [slice(a, max(a, b)) for a, b in zip(first.tolist(), stop.tolist(), strict=True)]


def _sharpened(part: FloatArray, leaf: IntArray, sort: Sequence[tuple[int, int]]) -> FloatArray:
    """
    *part* so that among gaps of one sort most goes to the leaf that has most.

    Gaps of one length after which the host is at one line begin in one line as a rule. That others seem to
    have a part in it comes of ends of visits that are not known: shares are squared.
    """
    if not sort:
        return part
    number = {s: i for i, s in enumerate(dict.fromkeys(sort))}
    of = np.array([number[s] for s in sort], np.int64)
    different, pair = np.unique(np.stack((of, leaf), axis=1), axis=0, return_inverse=True)
    pair = pair.ravel()
    raw = np.bincount(pair, part, len(different))
    whole, squares = np.bincount(of, part), np.bincount(different[:, 0], raw**2)
    factor = raw * whole[different[:, 0]] / np.maximum(squares[different[:, 0]], 1e-300)
    return np.asarray(part * factor[pair], np.float64)


def _normed(weights: FloatArray) -> FloatArray:
    total = float(weights.sum())
    return weights / total if total > 0 else np.zeros_like(weights)
