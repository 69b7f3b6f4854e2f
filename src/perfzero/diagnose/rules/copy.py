"""Rules for a GPU that waits for copies between host and device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from perfzero.diagnose import gain
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.host_reads import host_reads
from perfzero.diagnose.remedies import goes_and_returns, remedies_for
from perfzero.diagnose.rules._severity import of_share
from perfzero.diagnose.split import rates_of
from perfzero.diagnose.thresholds import (
    COPY_ALONE,
    COPY_FULL,
    ENGINE_WAITS,
    EXCHANGED,
    IDLE_BAD,
    IDLE_WATCH,
    LINK_FULL,
    PAGEABLE_RATE,
    PINNED_REACHES,
    RECOVER_COPY,
    RECOVER_KEPT,
    RECOVER_LESS,
    RECOVER_SELDOM,
    RECOVER_STAGING,
    STAGING_VARIES,
)
from perfzero.diagnose.verdict import Finding, Gain, Remedy, TimeClass
from perfzero.text import percent, quantity
from perfzero.words.said import say


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
        speedup=(max(1.0, PINNED_REACHES / of_link), STAGING_VARIES / of_link),
        traffic={"pcie": 0.0},  # the speed-up says already how fast the link is
        assumption=say("gain.pinned", pcie=quantity(e.roofs.pcie, "bytes/s")),
    )
    return Finding(
        rule="pageable_copies",
        title=say("pageable.title", share=percent(share)),
        severity=of_share(share, watch=IDLE_WATCH, bad=IDLE_BAD),
        share=share,
        # Many small copies look alike: the engine has a fixed cost for each.
        confidence=e.confidence(share, over=IDLE_WATCH, classes=("copy",), certainty=0.9),
        because=(
            say(
                "pageable.to_gpu",
                rate=quantity(copying.bytes_per_s, "bytes/s"),
                roof=quantity(e.roofs.pcie, "bytes/s"),
            )
            if copying.to_gpu
            else say(
                "pageable.from_gpu",
                rate=quantity(copying.bytes_per_s, "bytes/s"),
                roof=quantity(e.roofs.pcie, "bytes/s"),
            ),
            say("pageable.engine", engine=percent(copying.engine)),
        ),
        gain=expected,
        remedies=remedies_for("pageable_copies", e),
        next_limit=stopped or gain.next_limit(e, expected, eased=("copy",), becomes=gain.LIMIT_NAMES["pcie"]),
        eased=("copy",),
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
    because = [say("transfer.link", share=percent(of_link))]
    reads = host_reads(e)
    if reads is not None:
        because.insert(
            0,
            say(
                "transfer.reads_host",
                rate=quantity(reads.bytes_per_s, "bytes/s"),
                engine=percent(reads.engine),
            )
            if reads.to_gpu
            else say(
                "transfer.writes_host",
                rate=quantity(reads.bytes_per_s, "bytes/s"),
                engine=percent(reads.engine),
            ),
        )
    elif copying is not None:
        because.insert(
            0,
            say("transfer.to_gpu", rate=quantity(copying.bytes_per_s, "bytes/s"))
            if copying.to_gpu
            else say("transfer.from_gpu", rate=quantity(copying.bytes_per_s, "bytes/s")),
        )
    kept = full and reads is None and share >= LINK_FULL.value
    if kept and e.split is not None:
        concerned = max(concerned, e.split.interval("copy")[1])
    seldom = not full and goes_and_returns(e)
    expected, stopped = gain.expect(
        e,
        concerned,
        recovered=RECOVER_KEPT if kept else RECOVER_SELDOM if seldom else RECOVER_COPY,
        traffic={"pcie": 0.0} if full else {"pcie": 1.0 / EXCHANGED} if seldom else None,
        assumption=say("gain.in_device_memory")
        if reads is not None
        else say("gain.not_copied")
        if full
        else say("gain.exchanged", batches=EXCHANGED)
        if seldom
        else say("gain.overlapped"),
    )
    # Kernels that wait for a full link are counted as latency, and what is left still waits for it.
    eased: tuple[TimeClass, ...] = ("copy", "latency") if full else ("copy",)
    return Finding(
        rule="transfer_bound",
        title=say("transfer.title", share=percent(concerned))
        if reads is None
        else say("transfer.reading_title", share=percent(concerned))
        if reads.to_gpu
        else say("transfer.writing_title", share=percent(concerned)),
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
        remedies=tuple(
            _with_gain(r, _own_gains(e, concerned, full=full), expected)
            for r in remedies_for("transfer_bound", e)
        ),
        next_limit=stopped
        or gain.next_limit(e, expected, eased=eased, becomes=gain.LIMIT_NAMES["pcie"] if full else None),
        eased=eased,
    )


def _own_gains(e: Evidence, share: float, *, full: bool) -> Mapping[str, Gain]:
    """
    What remedies gain for which the finding's gain is not made, by text; copies take *share* of time.

    Copies that fill the link take as long beside work: overlapped they gain what it has to spare. What is not
    copied at all takes nothing of the link.
    """
    beside = say("gain.overlapped")
    if full:
        return {say("try.overlap_copies"): Gain(1.0, max(1.0, 1.0 / e.pcie_share), beside)}
    less = gain.expect(
        e, share, recovered=RECOVER_LESS, traffic={"pcie": 0.0}, assumption=say("gain.half_not_copied")
    )[0]
    overlapped = gain.expect(e, share, recovered=RECOVER_COPY, assumption=beside)[0]
    return {say("try.copy_less"): less, say("try.overlap_copies"): overlapped}


def _with_gain(remedy: Remedy, own: Mapping[str, Gain], expected: Gain) -> Remedy:
    return replace(remedy, gain=own.get(remedy.text, expected))
