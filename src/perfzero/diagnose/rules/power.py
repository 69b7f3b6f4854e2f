"""Rules for clocks that are held down."""

from __future__ import annotations

import math

import numpy as np

from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.gain import cap
from perfzero.diagnose.remedies import remedies_for
from perfzero.diagnose.thresholds import AT_ROOF, CAPPED, CLOCK_LOSS, HOT
from perfzero.diagnose.verdict import Finding, Gain
from perfzero.series.stats import weighted_mean
from perfzero.text import percent, quantity
from perfzero.words.said import say


def power_capped(e: Evidence) -> Finding | None:
    """
    The board is at its power limit; for a GPU at work that is how it should be.

    The driver says so for a whole reading, of which the GPU may be idle for most: the clock counts while
    kernels run, and the loss as a share of all time.
    """
    capped = e.level("capped_power")
    if not capped >= CAPPED.value:
        return None
    loss = _clock_loss(e)
    # Compute-bound work at the limit is healthy. Elsewhere a low clock costs what it costs.
    healthy = e.share("tensor", "memory", "fma") >= AT_ROOF.value * _busy(e)
    # Plain NVML does not show what the GPU was busy with, so whether the clock is missed.
    felt = e.tier != "nvml" and not healthy and loss >= CLOCK_LOSS.value
    return Finding(
        rule="power_capped",
        title=say("power.title", capped=percent(capped)),
        severity="watch" if felt else "info",
        share=loss,
        confidence=e.confidence(capped, over=CAPPED),
        because=_clock_in_words(e),
        gain=_full_clock(e, loss),
        remedies=remedies_for("power_capped", e) if felt else (),
    )


def thermal(e: Evidence) -> Finding | None:
    """The GPU slows down to protect itself."""
    hot = float(np.fmax(e.level("capped_thermal"), e.level("capped_hardware")))
    if not hot >= HOT.value:
        return None
    loss = _clock_loss(e)
    return Finding(
        rule="thermal",
        title=say("thermal.title", hot=percent(hot)),
        severity="watch",
        share=max(loss, 0.0),
        confidence=e.confidence(hot, over=HOT),
        because=(
            *_clock_in_words(e),
            say("thermal.temperature", temperature=f"{e.level('temperature'):.0f}"),
        ),
        gain=_full_clock(e, loss),
        remedies=remedies_for("thermal", e),
    )


def _full_clock(e: Evidence, loss: float) -> Gain | None:
    """What the highest clock may gain: nothing for what memory or a link sets the pace of."""
    if not 0 < loss < 1:
        return None
    # The pipes become faster with the clock; what they use of their roofs stays.
    most, _ = cap(e, traffic={"tensor": 0.0, "fma": 0.0})
    return Gain(1.0, min(1.0 / (1.0 - loss), most), say("gain.full_clock"))


def _clock_loss(e: Evidence) -> float:
    """Share of all time that kernels lose as the clock is lower than its maximum meanwhile, 0 if unknown."""
    most, clock = e.gpu.sm_clock_max_hz, _clock_at_work(e)
    return max(0.0, 1.0 - clock / most) * _busy(e) if most and clock > 0 else 0.0


def _clock_at_work(e: Evidence) -> float:
    """The SM clock while kernels run, for it rises on idle boards; NVML's where it was not sampled."""
    at_work = weighted_mean(e.long.column("gpc_clock"), e.long.duration_s * e.long.column("gr_active"))
    return e.clock_hz if math.isnan(at_work) else at_work


def _busy(e: Evidence) -> float:
    """Share of all time in which kernels run; all of it where that was not seen."""
    return 1.0 if e.split is None else 1.0 - e.share("idle", "copy")


def _clock_in_words(e: Evidence) -> tuple[str, ...]:
    most, limit = e.gpu.sm_clock_max_hz, e.gpu.power_limit_w
    of_most = say("power.of_clock", limit=quantity(most, "hertz")) if most else ""
    words = [say("power.clock", clock=quantity(_clock_at_work(e), "hertz"), of=of_most)]
    power = e.level("power")
    if power > 0:
        of_limit = say("power.of_power", limit=f"{limit:.0f}") if limit else ""
        words.append(say("power.board", power=f"{power:.0f}", of=of_limit))
    return tuple(words)
