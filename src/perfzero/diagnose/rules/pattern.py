"""Rules for what happens in some steps only: checkpoints, evaluations, garbage collection, logging."""

from __future__ import annotations

import math

from perfzero.diagnose import gain
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.remedies import remedies_for
from perfzero.diagnose.rules._severity import of_share
from perfzero.diagnose.thresholds import IDLE_BAD, IDLE_INFO, IDLE_WATCH, RECOVER_STALL
from perfzero.diagnose.verdict import Finding
from perfzero.series.rare import RareEvent
from perfzero.text import duration, percent
from perfzero.words.said import say


def periodic_stall(e: Evidence) -> Finding | None:
    """The GPU stands still now and then, for much longer than in the usual step."""
    share = e.idle.stalled
    if e.split is None or not share >= IDLE_INFO.value:
        return None
    longest = e.stalls[0]
    expected, stopped = gain.expect(
        e, share, recovered=RECOVER_STALL, assumption=say("gain.stalls_to_thread")
    )
    return Finding(
        rule="periodic_stall",
        title=say("stall.title", share=percent(share)),
        severity=of_share(share, watch=IDLE_WATCH, bad=IDLE_BAD),
        share=share,
        # One or two may be chance; with a period they are the program's own, or a wait in each long step.
        confidence=e.confidence(
            share, over=IDLE_INFO, certainty=0.9 if longest.period_s is not None and not e.by_beat else 0.6
        ),
        because=(_in_words(longest), _usual(e), *_by_beat(e), *_host(e)),
        gain=expected,
        remedies=remedies_for("periodic_stall", e),
        next_limit=stopped or gain.next_limit(e, expected, eased=("idle",)),
        eased=("idle",),
    )


def _in_words(event: RareEvent) -> str:
    """How long and how often."""
    # The few that no window cut are the shortest ones.
    cut = math.isnan(event.length_s) or 2 * event.cut > event.count
    length = say("stall.at_least", length=duration(event.longest_s)) if cut else duration(event.length_s)
    often = ""
    if event.period_s is not None:
        steps = (
            "" if event.period_steps is None else say("stall.every_steps", steps=f"{event.period_steps:.0f}")
        )
        often = say("stall.one_every", period=duration(event.period_s), steps=steps)
    return say("stall.seen", count=event.count, length=length, often=often)


def _usual(e: Evidence) -> str:
    rest = max(0.0, e.share("idle") - e.idle.stalled)
    step = say("stall.of_step", step=duration(e.step_s)) if e.step_s is not None else ""
    return say("stall.usual_step", step=step, rest=percent(rest))


def _by_beat(e: Evidence) -> tuple[str, ...]:
    if not e.by_beat:
        return ()
    return (say("stall.beat"),)


def _host(e: Evidence) -> tuple[str, ...]:
    main = e.level("host_main_cpu")
    if math.isnan(main):
        return ()
    return (say("stall.main_thread", main=percent(main)),)
