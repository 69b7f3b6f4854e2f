"""
The program's rhythm in a few figures: its step, the parts of it, and what comes now and then.

What `series` found, made ready for a report: nothing is decided here.
"""

from __future__ import annotations

from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.verdict import Event, Rhythm
from perfzero.series.fold import fold, phases
from perfzero.series.steps import Steps


def rhythm_of(e: Evidence) -> Rhythm | None:
    """The rhythm of the steady stretch; None where no step time is beyond doubt."""
    steps = e.steps
    if not isinstance(steps, Steps):
        return None
    return Rhythm(
        step_s=steps.step_s,
        low_s=steps.low_s,
        high_s=steps.high_s,
        jitter=steps.jitter,
        count=steps.count,
        micro_s=steps.micro_s,
        micro_per_step=steps.micro_per_step,
        parts=_parts(e, steps),
        events=tuple(
            Event(
                nature=event.nature,
                count=event.count,
                share=event.share,
                length_s=event.length_s,
                period_s=event.period_s,
                period_steps=event.period_steps,
            )
            for event in e.rare
        ),
    )


def _parts(e: Evidence, steps: Steps) -> tuple[tuple[str, float], ...]:
    """What the mean step consists of, in its order: name and share of the step; empty where it shows none."""
    folded = fold(e.long, steps.starts_ns)
    if folded is None:
        return ()
    found = phases(folded, dram_roof=e.roofs.dram, pcie_roof=e.roofs.pcie)
    return tuple((phase.label, phase.end - phase.start) for phase in found)
