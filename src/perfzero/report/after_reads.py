"""
Launches that come late because a read has emptied the queue.

By counters a host that launches kernel after kernel, each of them too late, is launch-bound. But a host that
reads a result starts from an empty queue: what it launches next is late whatever it does, until it is ahead
again, and small kernels with a read every few of them never let it. Lines tell (`attribute.reads`): the first
of those that the GPU waits for waits for the GPU itself, and has more of the idle time than lines that
launch. Then host and GPU wait for each other for as much of the time as would be gone without the reads, and
launches are late in what is left of theirs.

The reads come first, whatever less launching saves: with a read between them launches cannot be put into a
graph or into one kernel. So what launching less saves is counted with what the reads do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfzero.attribute.causes import Cause, HostCauses
from perfzero.attribute.host_activity import LAUNCHING
from perfzero.diagnose.gain import limit_after, middle, saving
from perfzero.diagnose.idle_shares import without_kernels
from perfzero.diagnose.judge import with_findings
from perfzero.diagnose.rules._severity import of_share
from perfzero.diagnose.thresholds import IDLE_BAD, IDLE_WATCH
from perfzero.diagnose.verdict import Diagnosis, Finding, Remedy, TimeClass
from perfzero.report.host_lines import place, worth_telling
from perfzero.report.line_gains import line_gain
from perfzero.text import percent
from perfzero.words.said import say


def reads_first(diagnosis: Diagnosis, host: HostCauses | None) -> Diagnosis:
    """*diagnosis* with reads before the launches that are late after them, where lines of *host* show it."""
    found = {finding.rule: finding for finding in diagnosis.findings}
    launches, idle = found.get("launch_bound"), without_kernels(diagnosis.shares)
    worth = worth_telling(host, idle)
    if launches is None or not worth or worth[0].activity != "synchronising":
        return diagnosis
    waits = [cause for cause in worth if cause.activity == "synchronising"]
    share = idle * min(1.0, sum(cause.share for cause in waits))
    launching = idle * sum(cause.share for cause in worth if cause.activity in LAUNCHING)
    if not share >= IDLE_WATCH.value or launching >= share:
        return diagnosis
    known = found.get("sync_bound")
    told = known if known is not None and known.share >= share else _waiting(launches, share, waits[0], known)
    late = _what_is_left(launches, launches.share - told.share + (0.0 if known is None else known.share))
    told = _with_both(told, waits, diagnosis.shares, late)
    kept = (f for f in diagnosis.findings if f.rule not in ("launch_bound", "sync_bound"))
    return with_findings(diagnosis, (told, *kept) if late is None else (told, late, *kept))


def _waiting(launches: Finding, share: float, wait: Cause, known: Finding | None) -> Finding:
    """The finding that host and GPU wait for each other, of what was taken for late *launches* too."""
    told = Finding(
        rule="sync_bound",
        title=say("sync.title", idle=percent(share)),
        severity=of_share(share, watch=IDLE_WATCH, bad=IDLE_BAD),
        share=share,
        confidence=launches.confidence,
        because=(say("sync.emptied", wait=place(wait.frame)), *launches.because),
        remedies=(Remedy(say("try.read_less"), (), say("worked.active_rises")),),
        eased=("idle",),
    )
    return told if known is None else replace(told, because=known.because, remedies=known.remedies)


def _what_is_left(launches: Finding, share: float) -> Finding | None:
    """*launches* as far as they are late for *share* of the time; None where that is no reason to act."""
    if share >= launches.share:
        return launches
    if not share >= IDLE_WATCH.value:
        return None
    return replace(
        launches,
        title=say("launch.title", idle=percent(share)),
        severity=of_share(share, watch=IDLE_WATCH, bad=IDLE_BAD),
        share=share,
        gain=None,
        remedies=tuple(replace(r, gain=None) for r in launches.remedies),
        next_limit=None,
    )


def _with_both(
    told: Finding, waits: Sequence[Cause], shares: Mapping[TimeClass, float], late: Finding | None
) -> Finding:
    """*told* with what it gains to wait no more at *waits*, and what it and fewer launches save together."""
    expected = line_gain(say("try.read_less_there"), told, waits, idle=without_kernels(shares))
    if expected is not None:
        limit = limit_after(shares, middle(expected), eased=("idle",))
        told = replace(told, gain=expected, next_limit=limit)
    if late is None:
        return told
    return replace(told, saves=1.0 - (1.0 - saving(told)) * (1.0 - saving(late)))
