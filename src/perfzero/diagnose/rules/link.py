"""Rules for what connects the GPU with others: collectives, a slow PCIe link, programs that share it."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from perfzero.diagnose import gain
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.gain import amdahl, limit_after
from perfzero.diagnose.remedies import remedies_for
from perfzero.diagnose.roofs import link_in_use
from perfzero.diagnose.rules._severity import of_share
from perfzero.diagnose.thresholds import COMM_BAD, COMM_WATCH, IDLE_INFO, RECOVER_COMM, SWITCHING
from perfzero.diagnose.verdict import Finding, Gain
from perfzero.limits import CHOICE, H200, Limit
from perfzero.text import percent, quantity
from perfzero.words.said import listed, say

EQUAL_TURNS: Annotated[float, Limit("ratio", H200)] = 0.085
"""
Of the time, in which an H200 switched between two programs that both had work all the time: 0.2 ms of 2.3,
8.3 to 8.7 % of it.
"""

MOST_TURNS: Annotated[float, Limit("ratio", CHOICE)] = 2.0
"""How much more of the time the others may work than their switches say: that was seen at full load only."""

LEAST_TURNS: Annotated[float, Limit("ratio", CHOICE)] = 0.75
"""Of the turns that the others get in equal shares, at least."""

LEAST_PROGRAMS = 2.0
"""That take turns: the observed one and another."""


def comm_exposed(e: Evidence) -> Finding | None:
    """Collectives with nothing to overlap them: busy links, few SMs."""
    share = e.share("communication")
    if not share >= COMM_WATCH.value:
        return None
    expected, stopped = gain.expect(
        e,
        share,
        recovered=RECOVER_COMM,
        assumption=say("gain.hidden"),
    )
    by_nvlink = e.level("nvlink_rx_bytes") > 0
    moved = e.level("nvlink_rx_bytes" if by_nvlink else "pcie_rx_bytes")
    return Finding(
        rule="comm_exposed",
        title=say("comm.title", share=percent(share)),
        severity=of_share(share, watch=COMM_WATCH, bad=COMM_BAD),
        share=share,
        # Over PCIe a copy to the host in both directions looks the same.
        confidence=e.confidence(
            share, over=COMM_WATCH, classes=("communication",), certainty=0.95 if by_nvlink else 0.6
        ),
        because=(
            say("comm.receives", link="NVLink" if by_nvlink else "PCIe", rate=quantity(moved, "bytes/s")),
        ),
        gain=expected,
        remedies=remedies_for("comm_exposed", e),
        next_limit=stopped or gain.next_limit(e, expected, eased=("communication",)),
    )


def link_degraded(e: Evidence) -> Finding | None:
    """A PCIe link that never reached the generation or width it is built for."""
    generation, width = link_in_use(e.gpu, e.board)
    if not (e.board.has("pcie_generation") and e.board.has("pcie_width")):
        return None
    built = (e.gpu.pcie_generation_max, e.gpu.pcie_width_max)
    if generation is None or width is None or built[0] is None or built[1] is None:
        return None
    if generation >= built[0] and width >= built[1]:
        return None
    share = e.share("copy")
    felt = share >= IDLE_INFO.value
    return Finding(
        rule="link_degraded",
        title=say("link.title", generation=generation, width=width, most=built[0], widest=built[1]),
        severity="watch" if felt else "info",
        share=share if felt else 0.0,
        # A link at rest is slowed down on purpose; the highest speed seen during copies counts.
        confidence=e.confidence(share, over=IDLE_INFO, certainty=0.9) if felt else e.quality * 0.4,
        because=(say("link.highest"),),
        remedies=remedies_for("link_degraded", e) if felt else (),
    )


def gpu_shared(e: Evidence) -> Finding | None:
    """Other programs on the same GPU, taking turns with the observed one."""
    others, switching = e.observation.other_pids, e.level("ctxsw")
    if not others and not switching > SWITCHING.value:
        return None
    felt = switching > SWITCHING.value
    because = []
    if others:
        because.append(say("shared.others", pids=listed(str(p) for p in others[:5])))
    if felt:
        because.append(say("shared.switching", share=percent(switching)))
    return Finding(
        rule="gpu_shared",
        title=say("shared.title"),
        severity="watch" if felt else "info",
        share=switching if felt else 0.0,
        confidence=e.confidence(switching, over=SWITCHING) if felt else e.quality * 0.5,
        because=tuple(because),
        gain=_alone(e, switching) if felt else None,
        remedies=remedies_for("gpu_shared", e) if felt else (),
        next_limit=limit_after(e.split.shares, 0.0, eased=()) if felt and e.split is not None else None,
    )


def _alone(e: Evidence, switching: float) -> Gain:
    """
    What the program may gain by itself on the GPU: the turns of the others, and the switches.

    Where all have work all the time they switch for `EQUAL_TURNS` of it; with less some of them rest for a
    part of it, and what a part is is known to within half and twice. Those that only hold a context, as idle
    notebooks do, take no turns: one other has work at least, and all of them at most.
    """
    programs = max(LEAST_PROGRAMS, float(np.nan_to_num(e.level("processes"))))
    part = switching / EQUAL_TURNS
    few, many = (1.0 - 1.0 / count for count in (LEAST_PROGRAMS, programs))
    low = amdahl(1.0, recovered=few * min(1.0, part) * LEAST_TURNS)
    high = amdahl(1.0, recovered=many * min(1.0, MOST_TURNS * part)) / (1.0 - min(switching, EQUAL_TURNS))
    return Gain(low, high, say("gain.equal_turns", programs=f"{programs:.0f}"))
