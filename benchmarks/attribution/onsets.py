"""
Are trace and samples on one clock? Kernels that begin or end beside a gap, as a burst shows them.

    python benchmarks/attribution/onsets.py RECORDING...

Takes recordings with a look, and needs no GPU. A kernel that begins after a gap, and lasts for some samples,
is seen in them: `sm_active` is at the kernel's own level in the sample after the one in which it begins, so
the level of that one tells when in it that was. Likewise for its end:

    begin = end of the sample - level / own level * length      end = begin of it + level / own level * length

What the trace says less what the samples say is the offset of the clocks, with no fit at all. It holds for
kernels that have all their blocks at once, from which on their level is even. Their blocks end one after the
other, so the trace's end is later. Allowed are 2 us for the median of the begins. `gr_active` stands beside
it: the engine is at work before the first SM is, by what it takes to launch a kernel.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from perfzero.errors import PerfzeroError
from perfzero.store.kineto import read_trace
from perfzero.store.reader import open_recording
from perfzero.values import Samples

GAP_NS = 60_000
"""Two samples of an idle GPU beside the kernel, at most of bursts."""

LASTS = 2.5
"""Samples that a kernel lasts for: one at least lies in it as a whole."""

EVEN = 0.1
"""By so much, as a share, two samples within a kernel may differ."""

FEWEST = 10
BAR_US = 2.0
JUDGED = "sm_active"


@dataclass(frozen=True, slots=True)
class Seen:
    """Trace - samples in us by a counter, of begins and ends: how many, and their quartiles."""

    counter: str
    many: tuple[int, int]
    begin_us: tuple[float, float, float]
    end_us: tuple[float, float, float]

    @property
    def is_judged(self) -> bool:
        """Whether it is of the SMs, and of enough kernels."""
        return self.counter == JUDGED and self.many[0] >= FEWEST

    @property
    def ok(self) -> bool:
        return abs(self.begin_us[1]) <= BAR_US


def seen(samples: Samples, start_ns: Any, end_ns: Any, *, counter: str) -> Seen:
    """What *samples* show of kernels from *start_ns* to *end_ns*, each of shape (n,), of all streams."""
    order = np.argsort(start_ns, kind="stable")
    start, end = np.asarray(start_ns)[order], np.asarray(end_ns)[order]
    busy_until = np.maximum.accumulate(end)
    level = samples.column(counter)
    begins, ends = [], []
    for k in range(len(start)):
        before = k == 0 or start[k] - busy_until[k - 1] >= GAP_NS
        after = k + 1 == len(start) or start[k + 1] - busy_until[k] >= GAP_NS
        if before and (at := _edge(samples, level, int(start[k]), int(end[k]))) is not None:
            begins.append(at)
        if after and end[k] == busy_until[k]:
            backwards = _edge(samples, level, int(end[k]), int(start[k]))
            if backwards is not None:
                ends.append(backwards)
    return Seen(counter, (len(begins), len(ends)), _quartiles(begins), _quartiles(ends))


def _edge(samples: Samples, level: Any, edge_ns: int, other_ns: int) -> float | None:
    """
    The trace's *edge_ns* of a kernel that lasts from there to *other_ns*, in whichever direction, less that
    of the samples; None where they do not show it.
    """
    inwards = 1 if other_ns > edge_ns else -1
    at = int(np.searchsorted(samples.end_ns, edge_ns, side="right"))
    places = at + inwards * np.arange(-2, 3)
    if places.min() < 0 or places.max() >= len(samples):
        return None
    begin, end = samples.start_ns[places], samples.end_ns[places]
    length = int(end[2] - begin[2])
    if abs(other_ns - edge_ns) < LASTS * length or np.ptp(end - begin) > length // 8:
        return None
    idle, inside = float(level[places[0]]), level[places[3:]]
    own = float(inside[0]) - idle
    if not own > 0 or abs(float(inside[1]) - float(inside[0])) > EVEN * own:
        return None
    # The edge may lie in the sample before, by the clock of the samples.
    worked = (level[places[1:3]] - idle) / own
    if not (np.isfinite(worked).all() and worked.max() <= 1 + EVEN and worked.min() >= -EVEN):
        return None
    inner = int(end[2] if inwards > 0 else begin[2])
    return edge_ns - inner + inwards * float(worked.sum()) * length


def _quartiles(values_ns: Sequence[float]) -> tuple[float, float, float]:
    if not values_ns:
        return (np.nan, np.nan, np.nan)
    low, middle, high = np.quantile(values_ns, (0.25, 0.5, 0.75)) / 1e3
    return float(low), float(middle), float(high)


def looks_of(recording: Path) -> Iterator[tuple[Samples, Any, Any]]:
    """For each look with a burst beside it: its samples, and begins and ends of what the GPU did."""
    opened = open_recording(recording)
    for look in opened.looks:
        for gpu in look.gpus[:1]:
            samples = opened.observation(gpu).close_up
            if look.file and len(samples):
                work = read_trace(recording / look.file).work
                yield samples, work.start_ns, work.end_ns


def rows_of(recording: Path) -> Iterator[tuple[float, Seen]]:
    """What each counter shows of each look in *recording*, with the length of its samples in us."""
    for samples, start_ns, end_ns in looks_of(recording):
        period_us = float(np.median(samples.end_ns - samples.start_ns)) / 1e3
        for counter in (JUDGED, "gr_active"):
            if counter in samples.columns:
                yield period_us, seen(samples, start_ns, end_ns, counter=counter)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recordings", nargs="+", type=Path, metavar="RECORDING")
    args = parser.parse_args(argv)
    try:
        found = [(path, *row) for path in args.recordings for row in rows_of(path)]
    except PerfzeroError as error:
        parser.exit(1, f"{error}\n")
    heads = f"{'by':10}{'begins':>7} {'us (quartiles)':22}{'ends':>6} us (quartiles)"
    print(f"{'recording':18}{'samples of':>11}  {heads}")
    judged = [one for _, _, one in found if one.is_judged]
    for path, period_us, one in found:
        begin, end = ("{1:6.2f} ({0:.2f} to {2:.2f})".format(*q) for q in (one.begin_us, one.end_us))
        verdict = "" if not one.is_judged else "OK" if one.ok else "FAIL"
        shown = f"{one.counter:10}{one.many[0]:7} {begin:22}{one.many[1]:6} {end:22} {verdict}".rstrip()
        print(f"{path.name:18}{period_us:8.0f} us  {shown}")
    if not judged:
        print(f"No recording shows {FEWEST} kernels that begin after a gap and last for some samples.")
    return 0 if judged and all(one.ok for one in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
