"""Rules for kernels that wait for device memory or for the L2."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from perfzero.counters import SECTOR_BYTES
from perfzero.diagnose import gain, reading
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.remedies import remedies_for, with_first, write_heavy
from perfzero.diagnose.rules._batch import led_by_batch
from perfzero.diagnose.split import rates_of
from perfzero.diagnose.thresholds import (
    ALL_USED,
    AMPLIFICATION_WATCH,
    BOUND,
    HIT_LOW,
    L2_BOUND,
    MEMORY_BAD,
    MEMORY_INFO,
    MEMORY_WATCH,
    READ_ONLY,
    RECOVER_MEMORY,
    RECOVER_STREAM,
    SOME_WORK,
    SUBSTANTIAL,
    WELL_BOUND,
)
from perfzero.diagnose.verdict import Finding
from perfzero.series.stats import weighted_mean
from perfzero.text import percent, quantity
from perfzero.words.said import say


def memory_bound(e: Evidence) -> Finding | None:
    """DRAM near its practical roof; whether for want of reuse or because that much must move is noted."""
    share = e.share("memory")
    if not share >= MEMORY_INFO.value:
        return None
    because = [
        say(
            "memory.moves",
            rate=quantity(e.dram_bytes_per_s, "bytes/s"),
            share=percent(e.dram_share),
            roof=quantity(e.roofs.dram, "bytes/s"),
            tensor=percent(e.level("tensor_active")),
        )
    ]
    hit, reuse = e.l2_hit, e.reuse
    amplification = 1.0 / reuse if reuse > 0 else float("nan")
    if hit < HIT_LOW.value or amplification > AMPLIFICATION_WATCH.value:
        said = (
            say("memory.l2_hit", hit=percent(hit))
            if hit < HIT_LOW.value
            else say("memory.from_dram", share=percent(amplification))
        )
        because.append(say("memory.little_reuse", seen=said))
    read, write = e.level("dram_read_bytes"), e.level("dram_write_bytes")
    if write_heavy(e):
        because.append(
            say("memory.write_heavy", times=f"{write / read:.1f}") if read > 0 else say("memory.only_writes")
        )
    again = reading.products_read_again(e)
    if share >= WELL_BOUND.value and write <= READ_ONLY.value * read and _uses_what_it_reads(e) and not again:
        return _reads_on(e, share, because[0])
    streaming = share >= WELL_BOUND.value and _only_streams(e)
    expected, stopped = gain.expect(
        e,
        share,
        recovered=RECOVER_STREAM if streaming else RECOVER_MEMORY,
        traffic={"memory": 0.0},
        assumption=say("gain.fused_all") if streaming else say("gain.fused_or_halved"),
    )
    severity, remedies = _severity(e, share), remedies_for("memory_bound", e)
    if again:
        expected, stopped = reading.shared_tiles(e), None
        remedies = with_first(remedies, say("try.tile_order"))
        because.append(say("memory.read_again", used=quantity(e.level("memory_used"), "bytes")))
    found = Finding(
        rule="memory_bound",
        title=say("memory.title", share=percent(share)),
        severity=severity,
        share=share,
        confidence=e.confidence(share, over=MEMORY_INFO, classes=("memory",), certainty=0.95),
        because=tuple(because),
        gain=expected,
        remedies=() if severity == "info" else remedies,
        next_limit=stopped
        or gain.next_limit(
            e, expected, eased=("memory",), becomes=gain.LIMIT_NAMES["tensor"] if again else None
        ),
        eased=("memory",),
        saves=gain.middle(expected),
    )
    return led_by_batch(e, found)


def _reads_on(e: Evidence, share: float, traffic: str) -> Finding:
    """
    Memory at its roof by reads alone, as a language model reads its weights for every token: all is well.

    What kernels hand on to each other is written by one and read by the next; nothing is, so there is
    nothing to fuse.
    """
    written = percent(e.level("dram_write_bytes") / e.level("dram_read_bytes"))
    return Finding(
        rule="memory_bound",
        title=say("memory.read_only", share=percent(share)),
        severity="info",
        share=share,
        # Several passes over the same data look the same.
        confidence=e.confidence(share, over=MEMORY_INFO, classes=("memory",), certainty=0.75),
        because=(
            traffic,
            say("memory.weights_read", written=written),
        ),
        next_limit=say("memory.next"),
    )


def _uses_what_it_reads(e: Evidence) -> bool:
    """Whether there is arithmetic, and no more is fetched from memory than the SMs ask for."""
    computes = float(np.fmax(e.while_busy("tensor_active"), e.while_busy(e.fma_pipe))) >= SOME_WORK.value
    return computes and not e.reuse < ALL_USED.value


def l2_bound(e: Evidence) -> Finding | None:
    """The L2 near its practical roof while DRAM is not: data is found there, but there is too much of it."""
    # Some windows count no sectors: those that do stand for them.
    counted = np.isfinite(e.long.column("gr_active")) & np.isfinite(e.long.column("l2_sectors"))
    table = e.long.where(counted)
    rates = rates_of(table, e.roofs)
    moved = np.full(len(table), math.nan)
    np.divide(table.column("l2_sectors") * SECTOR_BYTES, rates.busy_s, out=moved, where=rates.busy_s > 0)
    use = moved / e.roofs.l2
    # A pipe that is used more is the limit, and the L2 feeds it.
    where = (use >= L2_BOUND.value) & (rates.memory < BOUND.value) & (use >= np.fmax(rates.tensor, rates.fma))
    whole = float(np.sum(rates.seconds))
    share = float(np.sum(rates.busy_s[where])) / whole if whole > 0 else 0.0
    if not share >= MEMORY_INFO.value:
        return None
    seconds = rates.busy_s[where]
    expected, stopped = gain.expect(
        e,
        share,
        recovered=RECOVER_MEMORY,
        assumption=say("gain.stays_in_shared"),
    )
    severity = _severity(e, share)
    return Finding(
        rule="l2_bound",
        title=say("l2.title", share=percent(share)),
        severity=severity,
        share=share,
        confidence=e.confidence(share, over=MEMORY_INFO, certainty=0.75),
        because=(
            say(
                "l2.takes",
                rate=quantity(weighted_mean(moved[where], seconds), "bytes/s"),
                share=percent(weighted_mean(use[where], seconds)),
                roof=quantity(e.roofs.l2, "bytes/s"),
            ),
            say("l2.dram", memory=percent(weighted_mean(rates.memory[where], seconds))),
        ),
        gain=expected,
        remedies=() if severity == "info" else remedies_for("l2_bound", e),
        next_limit=stopped or gain.next_limit(e, expected, eased=("latency",)),
    )


def _only_streams(e: Evidence) -> bool:
    """Whether the kernels move bytes and hardly compute: a chain of them may fuse into one."""
    return all(e.while_busy(pipe) < SUBSTANTIAL.value for pipe in ("tensor_active", e.fma_pipe))


def _severity(e: Evidence, share: float) -> Literal["info", "watch", "bad"]:
    # A program whose tensor cores are the main limit is no memory problem, however long its
    # normalisations take.
    if share < MEMORY_WATCH.value or share < e.share("tensor"):
        return "info"
    return "bad" if share >= MEMORY_BAD.value else "watch"
