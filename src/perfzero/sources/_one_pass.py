"""
Which metrics: one per counter, as the chip and the library at hand name it, all in a single pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfzero.counters import Counter, pm_counters
from perfzero.sources import _libcupti
from perfzero.sources._libcupti import CuptiError, Host, Library
from perfzero.words.said import say

NO_TIME_TRIGGER = ("TU", "GA100")
"""Chips on which only the SYS clock can trigger samples (cupti_pmsampling.h)."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """Which metric stands for which counter on one chip with one library, and why others are left out."""

    chip: str
    library_version: int
    metrics: Mapping[str, str]
    left_out: Mapping[str, str] = field(default_factory=dict)


def resolve_for_chip(
    library: Library,
    chip: str,
    *,
    availability: _libcupti.Image | None = None,
    wanted: Sequence[Counter] | None = None,
    known: Mapping[str, str] | None = None,
) -> Resolution:
    """
    Choose, in order of priority, one metric per counter such that all fit a single pass.

    Each question to the library costs 5 ms, and one by one there are some thirty of them. *known*, counter
    to metric as an earlier check of this chip and library found them, is tried together first; it
    is never believed. Without *availability* it answers for the full chip, not for a board.
    """
    counters = pm_counters() if wanted is None else tuple(wanted)

    def fits(metrics: Sequence[str]) -> str | None:
        """None when *metrics* fit one pass, else why not."""
        try:
            with Host(library, chip, availability=availability) as host:
                host.add(metrics)
                passes = host.passes(host.config_image())
        except CuptiError as error:
            # The header promises INVALID_METRIC_NAME, the library says INVALID_PARAMETER.
            if error.code in (_libcupti.INVALID_METRIC_NAME, _libcupti.INVALID_PARAMETER):
                return say("sets.unknown")
            return say("sets.unavailable", code=error.code)
        return None if passes == 1 else say("sets.passes", passes=passes)

    chosen: dict[str, str] = {}
    left_out: dict[str, str] = {}

    def take_together(some: Sequence[tuple[str, str]]) -> None:
        """
        Choose those of *some* that fit with what is chosen, halving where not all do.

        The outcome is that of asking one by one: what fits one pass fits it without its last part, too.
        """
        if not some or fits([*chosen.values(), *(metric for _, metric in some)]) is None:
            chosen.update(some)
        elif len(some) > 1:
            half = len(some) // 2
            take_together(some[:half])
            take_together(some[half:])

    wanted_here: list[Counter] = []
    for counter in counters:
        if counter.name == "sys_clock" and not chip.startswith(NO_TIME_TRIGGER):
            left_out[counter.name] = say("sets.sys_clock")
        else:
            wanted_here.append(counter)
    likely = known or {}
    take_together([(c.name, likely[c.name]) for c in wanted_here if likely.get(c.name) in c.cupti])
    for counter in wanted_here:
        if counter.name in chosen:
            continue
        better = {"l2_hit": "l2_hit_sectors", "dram_active": "dram_read_bytes"}.get(counter.name)
        if better in chosen:
            left_out[counter.name] = say(f"sets.{counter.name}")
            continue
        reason: str = say("sets.no_metric")
        for metric in counter.cupti:
            problem = fits([*chosen.values(), metric])
            if problem is None:
                chosen[counter.name] = metric
                break
            # A name that is known but does not fit is the better explanation.
            reason = problem if reason.startswith(("has", "unknown")) else reason
        else:
            left_out[counter.name] = reason
    in_order = {c.name: chosen[c.name] for c in counters if c.name in chosen}
    return Resolution(chip, library.version, in_order, left_out)
