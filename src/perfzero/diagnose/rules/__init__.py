"""
The rules. Each looks at the evidence and returns what it found, or None.

A rule that cannot see enough stays silent. Rules do not decide which of them comes first: the
one whose fix should save most time does. To add one: write it in the file of its
subject, put it into `RULES`, its limits into `thresholds`, its remedies into `remedies`, and a
section into docs/rules.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.gain import saving
from perfzero.diagnose.rules._rivals import with_rivals
from perfzero.diagnose.rules.compute import (
    fp32_path,
    fp64_path,
    latency_bound,
    small_grid,
    tensor_starved,
    wave_tail,
    well_used,
)
from perfzero.diagnose.rules.copy import pageable_copies, transfer_bound
from perfzero.diagnose.rules.host import debug_leftovers
from perfzero.diagnose.rules.idle import (
    host_starved,
    input_starved,
    launch_bound,
    queue_wait,
    sync_bound,
)
from perfzero.diagnose.rules.link import comm_exposed, gpu_shared, link_degraded
from perfzero.diagnose.rules.memory import l2_bound, memory_bound
from perfzero.diagnose.rules.pattern import periodic_stall
from perfzero.diagnose.rules.power import power_capped, thermal
from perfzero.diagnose.verdict import Finding
from perfzero.text import LIKELY

Rule = Callable[[Evidence], Finding | None]

RULES: tuple[Rule, ...] = (
    debug_leftovers,  # before the rules whose cause it may be: of equal savings the first is told first
    input_starved,
    launch_bound,
    sync_bound,
    queue_wait,
    periodic_stall,
    host_starved,
    pageable_copies,
    transfer_bound,
    memory_bound,
    l2_bound,
    fp32_path,
    fp64_path,
    tensor_starved,
    small_grid,
    wave_tail,
    latency_bound,
    comm_exposed,
    power_capped,
    thermal,
    gpu_shared,
    link_degraded,
    well_used,
)


def run_rules(e: Evidence) -> tuple[Finding, ...]:
    """What all rules found: reasons to act first, then what would save most time."""
    found = (finding for rule in RULES if (finding := rule(e)) is not None)
    return ranked(found, idle=e.share("idle"))


def ranked(findings: Iterable[Finding], *, idle: float) -> tuple[Finding, ...]:
    """
    *findings* in that order, each with its rival for the time that is *idle*.

    What is unsure comes after what is not, where both explain time of the same kind.
    """
    everyone = tuple(findings)

    def place(f: Finding) -> tuple[bool, float, bool]:
        unsure = f.confidence < LIKELY
        surer = (g for g in everyone if unsure and g.eased == f.eased and _acts_surely(g))
        return f.severity == "info", -min(saving(f), *map(saving, surer), math.inf), unsure

    ordered = sorted(everyone, key=place)
    return with_rivals(ordered, idle=idle)


def _acts_surely(f: Finding) -> bool:
    return f.severity != "info" and f.confidence >= LIKELY
