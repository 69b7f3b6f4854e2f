"""Rules for kernels that wait for device memory."""

from __future__ import annotations

from typing import Literal

from perfzero.diagnose import gain
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.remedies import remedies_for
from perfzero.diagnose.thresholds import (
    AMPLIFICATION_WATCH,
    HIT_LOW,
    MEMORY_BAD,
    MEMORY_INFO,
    MEMORY_WATCH,
    RECOVER_MEMORY,
    RECOVER_STREAM,
    SUBSTANTIAL,
    WELL_BOUND,
    WRITE_HEAVY,
)
from perfzero.diagnose.verdict import Finding
from perfzero.text import percent, quantity


def memory_bound(e: Evidence) -> Finding | None:
    """DRAM near its practical roof; whether for want of reuse or because that much must move is noted."""
    share = e.share("memory")
    if not share >= MEMORY_INFO.value:
        return None
    because = [
        f"DRAM moves {quantity(e.dram_bytes_per_s, 'bytes/s')}, {percent(e.dram_share)} of the "
        f"{quantity(e.roofs.dram, 'bytes/s')} it can in practice; the tensor cores work "
        f"{percent(e.level('tensor_active'))} of the time"
    ]
    hit, reuse = e.l2_hit, e.reuse
    amplification = 1.0 / reuse if reuse > 0 else float("nan")
    if hit < HIT_LOW.value or amplification > AMPLIFICATION_WATCH.value:
        said = (
            f"L2 hit {percent(hit)}"
            if hit < HIT_LOW.value
            else f"{percent(amplification)} of L2 bytes come from DRAM"
        )
        because.append(f"little is used twice ({said}): streaming, or a layout or tiling that defeats the L2")
    read, write = e.level("dram_read_bytes"), e.level("dram_write_bytes")
    if write >= WRITE_HEAVY.value * read:
        because.append(
            f"{write / read:.1f} times as many writes as reads: optimizer, fills, or stored activations"
            if read > 0
            else "nothing but writes: fills"
        )
    streaming = share >= WELL_BOUND.value and _only_streams(e)
    expected, stopped = gain.expect(
        e,
        share,
        recovered=RECOVER_STREAM if streaming else RECOVER_MEMORY,
        traffic={"memory": 0.0},
        assumption="15 to 80 % of the traffic can be fused away: the kernels hardly compute"
        if streaming
        else "15 to 50 % of the traffic can be fused away or halved in width",
    )
    severity = _severity(e, share)
    return Finding(
        rule="memory_bound",
        title=f"Device memory is the limit {percent(share)} of the time.",
        severity=severity,
        share=share,
        confidence=e.confidence(share, over=MEMORY_INFO, classes=("memory",), certainty=0.95),
        because=tuple(because),
        gain=expected,
        remedies=() if severity == "info" else remedies_for("memory_bound", e),
        next_limit=stopped or gain.next_limit(e, without=("memory",)),
    )


def _only_streams(e: Evidence) -> bool:
    """Whether the kernels move bytes and hardly compute: a chain of them may fuse into one."""
    return all(e.while_busy(pipe) < SUBSTANTIAL.value for pipe in ("tensor_active", "fma_active"))


def _severity(e: Evidence, share: float) -> Literal["info", "watch", "bad"]:
    # A program whose tensor cores are the main limit is no memory problem, however long its
    # normalisations take.
    if share < MEMORY_WATCH.value or share < e.share("tensor"):
        return "info"
    return "bad" if share >= MEMORY_BAD.value else "watch"
