"""
What to sample with, from what has been seen: length of a window, period of its samples, zoom burst.

A step (one iteration of the program) is what the analysis folds and compares, so a window holds
several and a step many samples, at no more CPU than needed: a sample costs 0.13 ms of it.

    window    `STEPS_PER_WINDOW` steps, from the default length up to `LONGEST_WINDOW_S`
    period    the default of 2 ms; 1 ms where a step would have fewer than 20 samples, 5 ms where it has
              more than a thousand; twice as long whenever the hardware buffer could not be emptied in time
    burst     `STEPS_PER_BURST` steps in at most `MOST_BURST_SAMPLES` samples

Pure: `Policy` asks, and decides when a choice comes into force. What the user named is not chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perfzero.text import duration
from perfzero.words.said import say

STEPS_PER_WINDOW = 8
"""With fewer intervals chance makes regular ones (`perfzero.series.steps`)."""

LONGEST_WINDOW_S = 2.0
"""A thousand samples and 0.13 s of CPU; longer steps are seen in the dense stretch."""

SHORT_STEP_S = (0.010, 0.040)
"""Steps from 10 to 40 ms: 5 to 20 samples at 2 ms, twice as many at 1 ms. Shorter ones are the burst's."""

SHORT_STEP_PERIOD_NS = 1_000_000

LONG_STEP_S = 2.0
"""From here on a step has 400 samples at 5 ms, and phases of 100 ms have 20."""

LONG_STEP_PERIOD_NS = 5_000_000

LONGEST_PERIOD_NS = 20_000_000
"""No overflow makes samples longer than this: a window of half a second holds 25 of them."""

FEWEST_SAMPLES_PER_STEP = 10
"""With fewer at the present period, a session is closed and opened again for the sake of a better one."""

FEWEST_SAMPLES_PER_WINDOW = 20
"""A window that was asked for holds at least so many, whatever the buffer says."""

STEPS_PER_BURST = 3
"""One whole step is in three, wherever they begin, and once more to compare it with."""

LONGEST_BURST_STEP_S = 0.15
"""The kernels of longer steps are not looked at whole: the burst keeps its length."""

MOST_BURST_SAMPLES = 5000
"""A burst is held in the hardware buffer (0.2 GB for so many) and decoded afterwards (0.4 s of CPU)."""

LONGEST_BURST_PERIOD_NS = 50_000
"""Samples longer than this do not tell kernels apart."""


@dataclass(frozen=True, slots=True)
class Choice:
    """
    One figure that was chosen: `what` as `Settings` names it, in its unit, with the reason in a clause.

    "counters" is how many counters the windows of a session ask for.
    """

    what: Literal["window_s", "period_ns", "zoom_s", "zoom_period_ns", "counters"]
    value: float
    why: str


def window_for(step_s: float, *, default_s: float, longest_s: float = LONGEST_WINDOW_S) -> Choice:
    """How long windows are to be when a step takes *step_s*."""
    wanted_s = STEPS_PER_WINDOW * step_s
    length_s = min(max(wanted_s, default_s), max(longest_s, default_s))
    held = int(length_s / step_s + 1e-9)
    step = duration(step_s)
    why = say("choice.holds", held=_steps(str(held)), step=step) if held else say("choice.longer", step=step)
    return Choice("window_s", length_s, why)


def period_for(step_s: float, *, default_ns: int) -> Choice:
    """How far apart samples are to be when a step takes *step_s*."""
    period_ns = default_ns
    if SHORT_STEP_S[0] <= step_s <= SHORT_STEP_S[1]:
        period_ns = min(period_ns, SHORT_STEP_PERIOD_NS)
    elif step_s > LONG_STEP_S:
        period_ns = max(period_ns, LONG_STEP_PERIOD_NS)
    samples = round(step_s * 1e9 / period_ns)
    return Choice("period_ns", period_ns, say("choice.samples", step=duration(step_s), samples=samples))


def period_after_overflow(period_ns: int, *, why: str, window_s: float) -> Choice | None:
    """Twice *period_ns*, when samples were lost with it; None where that is too long already."""
    longest = min(LONGEST_PERIOD_NS, window_s * 1e9 / FEWEST_SAMPLES_PER_WINDOW)
    return None if 2 * period_ns > longest else Choice("period_ns", 2 * period_ns, why)


def burst_for(step_s: float, *, period_ns: int, length_s: float, fixed: bool) -> tuple[Choice, Choice]:
    """Length and period of the zoom burst when a step takes *step_s*; *fixed* keeps the period."""
    longest_ns = period_ns if fixed else max(period_ns, LONGEST_BURST_PERIOD_NS)
    if step_s <= LONGEST_BURST_STEP_S:
        most_s = MOST_BURST_SAMPLES * longest_ns / 1e9
        length_s = max(length_s, min(STEPS_PER_BURST * step_s, most_s))
    if not fixed:
        period_ns = max(period_ns, -(-round(length_s * 1e9) // MOST_BURST_SAMPLES))
    held = _steps(f"{length_s / step_s:.2g}")
    return (
        Choice("zoom_s", length_s, say("choice.covers", held=held, step=duration(step_s))),
        Choice(
            "zoom_period_ns",
            period_ns,
            say("choice.burst_samples", samples=f"{round(length_s * 1000000000.0 / period_ns):,}"),
        ),
    )


def _steps(number: str) -> str:
    return say("choice.step" if number == "1" else "choice.steps", number=number)
