"""
The program's rhythm in a few figures: its step, the parts of it, what comes now and then, and the
phases of the whole recording.

What `series` found, made ready for a report: nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.verdict import Event, Rhythm, Stage, StepMap, WorkKind
from perfzero.series.segments import segments
from perfzero.series.steady import BIN_NS, bin_means
from perfzero.series.steps import Steps

PARTS: Mapping[WorkKind, str] = {
    "idle": "idle",
    "copy": "copy",
    "gemm": "matrix",
    "attention": "matrix",
    "memory": "memory",
    "optimizer": "update",
    "tiny_kernels": "launches",
}
"""What `Rhythm.parts` calls kinds of work; anything else is mixed. The words are older than the kinds."""


def rhythm_of(e: Evidence, step_map: StepMap | None) -> Rhythm | None:
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
        parts=_parts(step_map),
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
        seen_ns=tuple((int(start), int(end)) for start, end in steps.seen_ns),
    )


SHOWN = ("gr_active", "sm_active", "tensor_active", "dram_active", "pcie_rx_bytes")
"""What tells the phases of a recording apart: GPM has them, and PM sampling most of them."""


def stages_of(e: Evidence) -> tuple[Stage, ...]:
    """The phases of the whole recording, warm-up and end included; empty without GR activity."""
    gpm, pm = e.cleaned["gpm"].samples, e.cleaned["pm"].samples
    table = gpm if gpm.has("gr_active") else pm
    names = tuple(name for name in SHOWN if table.has(name))
    if "gr_active" not in names:
        return ()
    at, means = bin_means(table, names)
    found = segments(at, means, names, bin_ns=BIN_NS)
    return tuple(Stage(s.start_ns, s.end_ns, s.label, s.levels["gr_active"]) for s in found)


def _parts(step_map: StepMap | None) -> tuple[tuple[str, float], ...]:
    """What the mean step consists of, in its order: name and share of the step; empty where it shows none."""
    found: list[tuple[str, float]] = []
    for phase in () if step_map is None else step_map.phases:
        name = PARTS.get(phase.kind, "mixed")
        share = found.pop()[1] if found and found[-1][0] == name else 0.0
        found.append((name, share + phase.share))
    return tuple(found)
