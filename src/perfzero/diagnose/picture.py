"""
What only a drawing can show of a diagnosis: each step, the mean step, rare events, the class of each sample.

Nothing is decided here. It is what the figures of a diagnosis are made of, kept so that it can be looked at.
"""

from __future__ import annotations

import numpy as np

from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.split import classify, rates_of
from perfzero.diagnose.verdict import TIME_CLASSES, Picture, Profile
from perfzero.series.fold import Folded
from perfzero.series.steps import Steps
from perfzero.values import IntArray, Samples


def picture_of(e: Evidence, folded: Folded | None) -> Picture:
    """The picture of *e*, whose mean step is *folded*; its parts are empty where there is nothing to draw."""
    profile = None if folded is None else Profile(folded.plain, folded.low, folded.high)
    return Picture(
        steps_ns=_steps(e.steps) if isinstance(e.steps, Steps) else np.empty((0, 2), np.int64),
        profile=profile,
        rare=tuple((event.nature, np.column_stack([event.starts_ns, event.ends_ns])) for event in e.rare),
        classes=_classes(e, e.cleaned[e.tier].samples) if e.tier in ("pm", "gpm") else Samples.empty(),
        fine_classes=_classes(e, e.zoom) if e.tier == "pm" else Samples.empty(),
    )


def _steps(steps: Steps) -> IntArray:
    """Start and end of each step (m, 2): two onsets that follow each other in one stretch."""
    found = [np.empty((0, 2), np.int64)]
    for start_ns, end_ns in steps.seen_ns:
        onsets = steps.starts_ns[(steps.starts_ns >= start_ns) & (steps.starts_ns <= end_ns)]
        found.append(np.column_stack([onsets[:-1], onsets[1:]]))
    return np.concatenate(found)


def _classes(e: Evidence, samples: Samples) -> Samples:
    """Each of *samples* shared out among the classes."""
    samples = samples.where(np.isfinite(samples.column("gr_active")))
    if not len(samples):
        return Samples.empty()
    short = None if e.split is None else e.split.rates.short  # bursts do not count launches
    shares = classify(rates_of(samples, e.roofs, short=short))
    columns = {f"time_{name}": shares[:, place] for place, name in enumerate(TIME_CLASSES)}
    return Samples(samples.start_ns, samples.end_ns, columns)
