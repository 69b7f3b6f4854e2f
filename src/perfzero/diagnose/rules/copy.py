"""Rules for a GPU that waits for copies between host and device."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfzero.diagnose import gain
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.host_reads import host_reads
from perfzero.diagnose.remedies import remedies_for
from perfzero.diagnose.rules._severity import of_share
from perfzero.diagnose.split import rates_of
from perfzero.diagnose.thresholds import (
    COPY_ALONE,
    COPY_FULL,
    ENGINE_WAITS,
    IDLE_BAD,
    IDLE_WATCH,
    LINK_FULL,
    PAGEABLE_RATE,
    PINNED_AT_LEAST,
    RECOVER_COPY,
    RECOVER_STAGING,
    STAGING_VARIES,
)
from perfzero.diagnose.verdict import Finding
from perfzero.text import percent, quantity


@dataclass(frozen=True, slots=True)
class Copying:
    """The link while copies ran: bytes/s of the busier direction, and the copy engine's share of time."""

    bytes_per_s: float
    engine: float
    to_gpu: bool


def while_copying(e: Evidence, *, alone: bool = False) -> Copying | None:
    """
    How fast copies are, over the samples in which one ran; None if there was none.

    With *alone*, over those only in which no kernel ran beside it.
    """
    gr = e.long.column("gr_active")
    table = e.long.where(gr < COPY_ALONE.value if alone else np.isfinite(gr))
    rates = rates_of(table, e.roofs)
    rows = table.where(np.nan_to_num(rates.copying) >= COPY_FULL.value)
    seconds = float(np.sum(rows.duration_s))
    if seconds <= 0:
        return None
    down = float(np.nansum(rows.column("pcie_rx_bytes"))) / seconds
    up = float(np.nansum(rows.column("pcie_tx_bytes"))) / seconds
    engine = rows.column("ce_active")
    known = np.isfinite(engine)
    mean = float(np.average(engine[known], weights=rows.duration_s[known])) if known.any() else math.nan
    return Copying(max(down, up), mean, down >= up)


def pageable_copies(e: Evidence) -> Finding | None:
    """Copies that use a fraction of the link: the host stages them through its own pinned buffers."""
    share, copying = e.share("copy"), while_copying(e, alone=True)
    # Averages over 0.1 s cannot tell a slow copy from one that ran part of the time.
    if e.tier != "pm" or copying is None or not share >= IDLE_WATCH.value:
        return None
    of_link = copying.bytes_per_s / e.roofs.pcie
    if not of_link < PAGEABLE_RATE.value or not copying.engine < ENGINE_WAITS.value:
        return None
    expected, stopped = gain.expect(
        e,
        share,
        recovered=RECOVER_STAGING,
        speedup=(PINNED_AT_LEAST, STAGING_VARIES / of_link),
        traffic={"pcie": 0.0},  # the speed-up says already how fast the link is
        assumption=f"copies run half as fast again from pinned memory, or at the link's "
        f"{quantity(e.roofs.pcie, 'bytes/s')}",
    )
    return Finding(
        rule="pageable_copies",
        title=f"The GPU waits for copies from ordinary memory {percent(share)} of the time.",
        severity=of_share(share, watch=IDLE_WATCH, bad=IDLE_BAD),
        share=share,
        # Many small copies look alike: the engine has a fixed cost for each.
        confidence=e.confidence(share, over=IDLE_WATCH, classes=("copy",), certainty=0.9),
        because=(
            f"copies {'to' if copying.to_gpu else 'from'} the GPU run at "
            f"{quantity(copying.bytes_per_s, 'bytes/s')} "
            f"on a link that carries {quantity(e.roofs.pcie, 'bytes/s')}",
            f"the copy engine works {percent(copying.engine)} of that time; the rest goes into "
            "staging on the host",
        ),
        gain=expected,
        remedies=remedies_for("pageable_copies", e),
        next_limit=stopped or gain.next_limit(e, expected, eased=("copy",), becomes=gain.LIMIT_NAMES["pcie"]),
    )


def transfer_bound(e: Evidence) -> Finding | None:
    """Copies at a decent rate that nothing overlaps with, or a link that is full all the time."""
    share, of_link = e.share("copy"), e.pcie_share
    full = of_link >= LINK_FULL.value
    if not (share >= IDLE_WATCH.value or full) or pageable_copies(e) is not None:
        return None
    copying = while_copying(e)
    # A full link holds the GPU up even while kernels run: they read host memory or wait for it.
    concerned = max(share, of_link) if full else share
    because = [f"PCIe carries {percent(of_link)} of what it can over all time"]
    reads = host_reads(e)
    if reads is not None:
        because.insert(
            0,
            f"kernels {'read' if reads.to_gpu else 'write to'} host memory in place, at "
            f"{quantity(reads.bytes_per_s, 'bytes/s')}: the copy engine works {percent(reads.engine)} of "
            "that time",
        )
    elif copying is not None:
        because.insert(
            0,
            f"copies {'to' if copying.to_gpu else 'from'} the GPU run at "
            f"{quantity(copying.bytes_per_s, 'bytes/s')}",
        )
    expected, stopped = gain.expect(
        e,
        concerned,
        recovered=RECOVER_COPY,
        traffic={"pcie": 0.0} if full else None,
        assumption="the data lies in device memory"
        if reads is not None
        else "the bytes need not be copied"
        if full
        else "copies are overlapped with work",
    )
    return Finding(
        rule="transfer_bound",
        title=f"Copies between host and GPU hold it up {percent(concerned)} of the time."
        if reads is None
        else f"Kernels wait for host memory, which they {'read' if reads.to_gpu else 'write'} over PCIe, "
        f"{percent(concerned)} of the time.",
        severity=of_share(concerned, watch=IDLE_WATCH, bad=IDLE_BAD),
        share=concerned,
        confidence=e.confidence(
            concerned,
            over=IDLE_WATCH,
            classes=() if full else ("copy",),
            certainty=0.9 if e.tier == "pm" else 0.7,
        ),
        because=tuple(because),
        gain=expected,
        remedies=remedies_for("transfer_bound", e),
        next_limit=stopped
        or gain.next_limit(
            e,
            expected,
            # Kernels that wait for a full link are counted as latency, and what is left still waits for it.
            eased=("copy", "latency") if full else ("copy",),
            becomes=gain.LIMIT_NAMES["pcie"] if full else None,
        ),
    )
