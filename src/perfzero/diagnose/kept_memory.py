"""
What a program gains that keeps its memory, where a copy engine is seen to clear it (`series.clearing`).

Memory is cleared for cudaMalloc and cudaFree, which last a tenth of a millisecond and more; cudaFree also
waits until the GPU has done all that it was given. Without these calls there stays

    at most     all but `RECOVER_HELD` of the time in which memory is cleared and no kernel runs
    at least    the GPU's work, of which what the memory limits no longer shares it with the engine
"""

from __future__ import annotations

from dataclasses import replace

from perfzero.diagnose import gain
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.thresholds import IDLE_INFO, IDLE_WATCH, RECOVER_HELD, RESOLVED
from perfzero.diagnose.verdict import Finding, Gain, Remedy
from perfzero.series.clearing import Cleared, cleared
from perfzero.text import percent, quantity
from perfzero.words.said import say

HOLD_MEMORY = Remedy(say("try.hold_memory"), (), say("worked.active_rises"), topic="allocates")

_MADE_FOR = say("try.graph")
"""The remedy that a finding's gain was computed for, where it is not the first one."""


def asks_for_memory(e: Evidence, share: float) -> bool:
    """Whether most of *share*, idle time, goes to calls for device memory."""
    return _clearing(e, share) is not None


def _clearing(e: Evidence, share: float) -> Cleared | None:
    found = cleared(e.long)
    most = found is not None and found.idle_most >= max(IDLE_INFO.value, RESOLVED.value * share)
    return found if most else None


def with_kept_memory(e: Evidence, finding: Finding) -> Finding:
    """*finding* of idle time, led by keeping memory where most of that time goes to calls for memory."""
    found = _clearing(e, finding.share)
    if found is None:
        return finding
    expected, stopped = _gain(e, found, finding.share)
    its = next((r for r in finding.remedies if r.text == _MADE_FOR), next(iter(finding.remedies), None))
    told = (replace(r, gain=r.gain or finding.gain) if r is its else r for r in finding.remedies)
    said = say("idle.cleared", engine=percent(found.engine), rate=quantity(found.bytes_per_s, "bytes/s"))
    # However far the host runs ahead, it is seen what the idle time is.
    certain = e.confidence(finding.share, over=IDLE_WATCH, classes=("idle",), certainty=0.9)
    return replace(
        finding,
        confidence=max(finding.confidence, certain),
        because=(said, *finding.because),
        gain=expected,
        remedies=(HOLD_MEMORY, *told),
        next_limit=stopped or gain.next_limit(e, expected, eased=finding.eased),
    )


def _gain(e: Evidence, found: Cleared, share: float) -> tuple[Gain, str | None]:
    """What keeping memory gains of *share*, idle time, and what stops it."""
    low = gain.amdahl(min(found.idle, share), recovered=RECOVER_HELD[0])
    beside = e.share("memory") * min(1.0, found.bytes_per_s / e.roofs.dram)
    high = gain.amdahl(share + beside, recovered=RECOVER_HELD[1])
    left = 1.0 - min(1.0, found.bytes_per_s / e.dram_bytes_per_s)
    return gain.capped(e, low, high, assumption=say("gain.held"), traffic={"memory": left})
