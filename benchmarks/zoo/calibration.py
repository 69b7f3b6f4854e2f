"""
Promised against achieved gains, as a picture: an interval that means what it says meets the diagonal.

Both axes are logarithmic. Each case is a vertical bar, the promised interval, at its achieved gain, whose own
95 % interval is the horizontal one.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judged import Score

TICKS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 40.0, 80.0)
INSIDE, OUTSIDE = "#2a6f97", "#c1121f"
SIDE_IN = 5.5


@dataclass(frozen=True, slots=True)
class Sides:
    """How many achieved gains lie below, within and above what was promised."""

    below: int
    inside: int
    above: int


def promised(scores: Sequence[Score]) -> list[Score]:
    """Those of which both the promise and the gain are known."""
    return [s for s in scores if not s.healthy and s.gain is not None and s.promise.width is not None]


def sides(scores: Sequence[Score]) -> Sides:
    known = promised(scores)
    inside = sum(s.inside is True for s in known)
    below = sum(
        s.gain is not None and s.promise.low is not None and s.gain.gain < s.promise.low for s in known
    )
    return Sides(below, inside, len(known) - inside - below)


def svg(scores: Sequence[Score]) -> str:
    """The picture; the same scores give the same text."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    settings: dict[Any, Any] = {"svg.hashsalt": "perfzero", "svg.fonttype": "none", "font.size": 9}
    with plt.rc_context(settings):
        figure, axes = plt.subplots(figsize=(SIDE_IN, SIDE_IN), layout="constrained")
        known = promised(scores)
        for score in known:
            _draw(axes, score)
        ends = [end for s in known for end in (s.promise.low, s.promise.high, s.gain and s.gain.gain)]
        low = min([0.95, *(float(end) for end in ends if end)])
        high = max([2.0, *(float(end) for end in ends if end)]) * 1.15
        axes.plot([low, high], [low, high], color="#888888", linewidth=0.8, zorder=1)
        axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
        axes.set(xlabel="achieved gain", ylabel="promised gain, 90 % interval")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks(
                [t for t in TICKS if low <= t <= high], [f"{t:g}" for t in TICKS if low <= t <= high]
            )
            axis.set_ticks([], minor=True)
        axes.grid(color="#dddddd", linewidth=0.5)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
        plt.close(figure)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


def _draw(axes: Any, score: Score) -> None:
    """One case on *axes*, which are matplotlib's."""
    gain, low, high = score.gain, score.promise.low, score.promise.high
    assert gain is not None and low is not None and high is not None  # noqa: PT018
    colour = INSIDE if score.inside else OUTSIDE
    axes.plot([gain.gain, gain.gain], [low, high], color=colour, linewidth=1.6, zorder=2)
    if not math.isnan(gain.low):
        middle = math.sqrt(low * high)
        axes.plot([gain.low, gain.high], [middle, middle], color=colour, linewidth=0.6, zorder=2)
    if not score.inside:
        axes.annotate(score.case, (gain.gain, high), fontsize=7, ha="center", va="bottom", color=colour)
