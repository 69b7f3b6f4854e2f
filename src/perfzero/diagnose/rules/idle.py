"""
Rules for a GPU that has nothing to run.

The front end's queue says first whether anything was submitted, and whether the host runs ahead
(`diagnose.idle_time`); who is to blame on the host is read from its threads.
"""

from __future__ import annotations

import math
from dataclasses import replace

from perfzero.diagnose import gain
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.filling import EAGER
from perfzero.diagnose.idle_time import IdleTime
from perfzero.diagnose.kept_memory import asks_for_memory, with_kept_memory
from perfzero.diagnose.remedies import cores_left, quota_bites, remedies_for, waits_for_core, workers_crowd
from perfzero.diagnose.rules._rivals import close
from perfzero.diagnose.rules._severity import of_share
from perfzero.diagnose.thresholds import (
    CORE_SHARED,
    CPU_FULL,
    DISK_READS,
    FAST_LAUNCHES,
    FINE_IDLE,
    HOST_AHEAD,
    HOST_FAR_AHEAD,
    HOST_LATE,
    HOST_NOT_AHEAD,
    IDLE_BAD,
    IDLE_INFO,
    IDLE_WATCH,
    IO_WAIT,
    LATE_THROUGHOUT,
    MAIN_BUSY,
    MAIN_SLEPT,
    PAUSED,
    RECOVER_HOST,
    RECOVER_INPUT,
    RECOVER_LAUNCH,
    RECOVER_QUEUE,
    RECOVER_SYNC,
    RESOLVED,
    RESTS_ELSEWHERE,
    SOME_LAUNCHES,
    TINY_KERNEL,
    WORKER_BUSY,
)
from perfzero.diagnose.turns import at_work, rests
from perfzero.diagnose.verdict import Finding, Gain, Remedy
from perfzero.series.rare import PAUSE_S
from perfzero.text import count, duration, percent, quantity
from perfzero.words.said import say

FROM_DISK = say("gain.from_disk")
"""What a gain rests on where a disk is what holds the input up."""


SUPPOSED = "maybe"
"""The field for what the host may be doing, which counters alone do not tell: stacks answer it."""


def launch_bound(e: Evidence) -> Finding | None:
    """Kernels shorter than the time the host needs to launch the next one, and a host that never rests."""
    found = _launch_bound_throughout(e) or _launch_bound_in_part(e)
    return found and with_kept_memory(e, found)


def _launch_bound_throughout(e: Evidence) -> Finding | None:
    queue, kernel, launches = e.idle.queue, e.mean_kernel_s, e.level("launches")
    if not _fine_gaps(e) or launches < SOME_LAUNCHES.value or queue.ahead >= HOST_NOT_AHEAD.value:
        return None
    if rests(e) or _busy_elsewhere(e):
        return None
    if not (kernel < TINY_KERNEL.value or launches >= FAST_LAUNCHES.value):
        return None
    return _launches_late(e, _ahead_in_words(queue))


def _fine_gaps(e: Evidence) -> bool:
    """Whether the GPU idles between launches, less than a millisecond at a time."""
    fine = e.split is not None and e.split.fine_idle >= FINE_IDLE.value
    return fine and e.idle_unclaimed >= IDLE_WATCH.value and e.level("launches") > 0


def _busy_elsewhere(e: Evidence) -> bool:
    """Whether launches are late in one part only, and the GPU has work for most of the time beside it."""
    late, left = e.idle.late, e.idle_unclaimed - e.idle.late_idle
    if not e.idle.late_idle >= IDLE_WATCH.value:
        return False
    return left < RESTS_ELSEWHERE.value * (1.0 - late.of_time) and late.of_idle < LATE_THROUGHOUT.value


def _launches_late(e: Evidence, ahead: tuple[str, ...]) -> Finding:
    """All of the idle time as that of launches, *ahead* as the words on how far the host runs ahead."""
    assert e.split is not None
    idle, main, together = e.idle_unclaimed, e.level("host_main_cpu"), at_work(e)
    expected, stopped = gain.graph(e, idle)
    certainty, host = 0.95, say("launch.main_thread", main=percent(main))
    # A wait after each kernel leaves the queue as empty as a late launch does.
    unseen = 0.7 if math.isnan(e.idle.queue.ahead) else 0.85
    if math.isnan(main):
        certainty, host = unseen, say("launch.host_unknown")
    elif main < MAIN_BUSY.value:
        # Two threads may work at once, and rest at once, which their sum does not show.
        certainty, host = unseen, say("launch.threads", main=percent(main), together=percent(together))
    return Finding(
        rule="launch_bound",
        title=say("launch.title", idle=percent(idle)),
        severity=of_share(idle, watch=IDLE_WATCH, bad=IDLE_BAD),
        share=idle,
        confidence=e.confidence(idle, over=IDLE_WATCH, classes=("idle",), certainty=certainty),
        because=(
            *_queue_in_words(e.idle.queue),
            *ahead,
            say(
                "launch.rate",
                launches=count(e.level("launches")),
                kernel=duration(e.mean_kernel_s),
                host=host,
            ),
            say("launch.fine_idle", fine_idle=percent(e.split.fine_idle)),
        ),
        gain=expected,
        remedies=_with_own_gains(e, idle),
        next_limit=stopped or gain.next_limit(e, expected, eased=("idle",)),
        eased=("idle",),
    )


def _if_launching(e: Evidence) -> Finding | None:
    """
    What it is where stacks show the host at lines that launch, and waiting for nothing; None if it cannot be.

    Kernels shorter than the launches of a framework take the host longer than the GPU, whether it waits in
    between or not: without the waits a step would take as long as its launches. Longer ones could hide them.
    Kernels of a CUDA graph are as short, but their host is not at lines that launch.
    """
    least_s, kernel = 1.0 / EAGER[1], e.mean_kernel_s
    if not _fine_gaps(e) or e.level("launches") < SOME_LAUNCHES.value or not kernel < least_s or rests(e):
        return None
    ahead = percent(e.idle.queue.ahead)
    pace_s = 1.0 / e.level("launches")  # on average, of a host that launches in C++
    shorter = (
        say("launch.shorter", kernel=duration(kernel), least=duration(least_s), ahead=ahead)
        if pace_s >= least_s
        else say("launch.paced", kernel=duration(kernel), pace=duration(pace_s), ahead=ahead)
    )
    return _launches_late(e, (shorter,) if e.idle.queue.ahead >= HOST_LATE.value else ())


def _with_own_gains(e: Evidence, idle: float, *, in_part: bool = False) -> tuple[Remedy, ...]:
    """The remedies against launches that come late, with the gains of those that are no graph."""
    own: dict[str, Gain] = {
        say("try.launch_less"): gain.fewer_launches(e, idle),
        say("try.larger_batch"): gain.larger_batch(e, idle, in_part=in_part),
    }
    remedies = remedies_for("launch_bound", e)
    if not in_part:
        # The optimizer's launches are some of those that come late, and nobody knows how many.
        own[say("try.fused_optimizer_step")] = own[say("try.launch_less")]
        remedies = tuple(sorted(remedies, key=lambda r: r.text != say("try.graph")))
    fewer = say("try.launch_less")
    limits: dict[str, str | None] = {fewer: gain.limit_of_fewer(e, own[fewer], idle)}
    return tuple(replace(r, gain=own.get(r.text), next_limit=limits.get(r.text)) for r in remedies)


def _launch_bound_in_part(e: Evidence) -> Finding | None:
    """The same for a part of the program, as an optimizer that updates each parameter by itself."""
    late, share = e.idle.late, e.idle.late_idle
    # In long samples a pause between bursts of launches looks like pauses between the launches.
    if e.split is None or math.isnan(e.split.fine_idle):
        return None
    # The host that launches is busy in that part at least.
    if not share >= IDLE_WATCH.value or at_work(e) < MAIN_BUSY.value * late.of_time:
        return None
    step = say("launch.of_each_step", step=duration(e.step_s)) if e.step_s is not None else ""
    queued = say("launch.none_queued") if late.seen else ""
    expected, stopped = gain.expect(
        e,
        share,
        recovered=RECOVER_LAUNCH,
        assumption=say("gain.gaps_there_shrink"),
    )
    return Finding(
        rule="launch_bound",
        title=say("launch.title", idle=percent(share)),
        severity=of_share(share, watch=IDLE_WATCH, bad=IDLE_BAD),
        share=share,
        # Without the queue a wait after each kernel looks the same.
        confidence=e.confidence(
            share, over=IDLE_WATCH, classes=("idle",), certainty=0.9 if late.seen else 0.7
        ),
        because=(
            say(
                "launch.in_part",
                of_time=percent(late.of_time),
                step=step,
                launches=count(late.launches_per_s),
                kernel=duration(late.kernel_s),
                queued=queued,
            ),
            say("launch.elsewhere", of_idle=percent(late.of_idle)),
        ),
        gain=expected,
        remedies=_with_own_gains(e, share, in_part=True),
        next_limit=stopped or gain.next_limit(e, expected, eased=("idle",)),
        eased=("idle",),
    )


def sync_bound(e: Evidence) -> Finding | None:
    """Short gaps between kernels that are long enough to hide their launches: the queue was drained."""
    queue, kernel, launches = e.idle.queue, e.mean_kernel_s, e.level("launches")
    idle = _rest(e)
    if e.split is None or not idle >= IDLE_WATCH.value or not e.split.fine_idle >= FINE_IDLE.value:
        return None
    # A host that never has the next command waiting is not one that waits now and then.
    if not launches >= SOME_LAUNCHES.value or queue.ahead < HOST_LATE.value:
        return None
    # How long a call for memory takes, a millisecond or half of one, says nothing of who waits for whom.
    if asks_for_memory(e, idle):
        return None
    expected, stopped = gain.expect(e, idle, recovered=RECOVER_SYNC, assumption=say("gain.waits_can_go"))
    main = e.level("host_main_cpu")
    because = [
        *_queue_in_words(queue),
        *_ahead_in_words(queue),
        say("sync.would_hide", kernel=duration(kernel), fine_idle=percent(e.split.fine_idle)),
    ]
    if math.isfinite(main):
        maybe = say("sync.maybe_slow")
        because.append(say("sync.main_thread", main=percent(main), maybe=maybe))
    launching = _if_launching(e)
    # Slow host code between launches looks the same from outside, unless the host is seen to run ahead.
    certainty = 0.9 if queue.ahead >= HOST_AHEAD.value else 0.6
    if launching is not None and queue.ahead < HOST_FAR_AHEAD.value:
        certainty = 0.45  # and kernels shorter than their launches may wait for these
    found = Finding(
        rule="sync_bound",
        title=say("sync.title", idle=percent(idle)),
        severity=of_share(idle, watch=IDLE_WATCH, bad=IDLE_BAD),
        share=idle,
        confidence=e.confidence(idle, over=IDLE_WATCH, classes=("idle",), certainty=certainty),
        because=tuple(because),
        gain=expected,
        remedies=remedies_for("sync_bound", e),
        next_limit=stopped or gain.next_limit(e, expected, eased=("idle",)),
        eased=("idle",),
        launching=launching,
    )
    rival = _launch_bound_throughout(e)
    return found if rival is None or close(found, rival) else None


def queue_wait(e: Evidence) -> Finding | None:
    """Work was submitted and waits, for something that is neither a kernel nor a copy of this GPU."""
    queue, share = e.idle.queue, e.idle.waiting
    if not share >= IDLE_WATCH.value:
        return None
    expected, stopped = gain.expect(
        e,
        share,
        recovered=RECOVER_QUEUE,
        assumption=say("gain.queue_waits_can_go"),
    )
    return Finding(
        rule="queue_wait",
        title=say("queue.title", share=percent(share)),
        severity=of_share(share, watch=IDLE_WATCH, bad=IDLE_BAD),
        share=share,
        confidence=e.confidence(share, over=IDLE_WATCH, classes=("idle",), certainty=0.9),
        because=(
            say("queue.semaphore", waiting=percent(queue.waiting)),
            say("queue.so_it_waits"),
        ),
        gain=expected,
        remedies=remedies_for("queue_wait", e),
        next_limit=stopped or gain.next_limit(e, expected, eased=("idle",)),
        eased=("idle",),
    )


def input_starved(e: Evidence) -> Finding | None:
    """Long empty stretches in which the main thread sleeps while loaders work or disks are read."""
    idle, main = _rest(e), e.level("host_main_cpu")
    if e.split is None or not idle >= IDLE_INFO.value or e.split.fine_idle >= FINE_IDLE.value:
        return None
    # Spinning on a busy GPU also takes CPU, so only what exceeds the busy time speaks against waiting.
    if not main <= 1.0 - MAIN_SLEPT.value * idle:
        return None
    workers, worker_cpu = e.level("host_workers"), e.level("host_worker_cpu")
    also: dict[str, float] = {}
    lowest, assumption = math.inf, say("gain.cores_keep_up")
    io, disk = e.level("host_io_wait"), e.level("host_disk_read_bytes")
    if workers >= 1 and worker_cpu >= WORKER_BUSY.value:
        certainty = 0.95
        # More loaders help until all cores are taken; where they are, that is not the remedy.
        if cores_left(e):
            also = {"cores": e.level("host_cpu_busy")}
            lowest = max(1.0, CORE_SHARED / also["cores"]) if also["cores"] > 0 else math.inf
        elif e.level("host_cpu_busy") >= CPU_FULL.value:
            lowest = 1.0
            assumption = say("gain.no_core_left")
        else:
            assumption = say("gain.quota_or_less")
        cause = say("input.workers_busy", workers=round(workers), cpu=percent(worker_cpu))
    elif io >= IO_WAIT.value:
        assumption = FROM_DISK
        certainty, cause = 0.8, say("input.blocked_on_disk", io=percent(io))
    elif disk >= DISK_READS.value:
        assumption = FROM_DISK
        certainty, cause = 0.7, say("input.reads_disk", disk=quantity(disk, "bytes/s"))
    else:
        return None
    expected, stopped = gain.expect(
        e,
        idle,
        recovered=RECOVER_INPUT,
        also=also,
        lowest=lowest,
        assumption=assumption,
    )
    expected = _with_a_core_each(e, expected)
    return Finding(
        rule="input_starved",
        title=say("input.title", idle=percent(idle)),
        severity=of_share(idle, watch=IDLE_WATCH, bad=IDLE_BAD),
        share=idle,
        confidence=e.confidence(idle, over=IDLE_WATCH, classes=("idle",), certainty=certainty),
        because=(
            *_queue_in_words(e.idle.queue),
            _empty_stretches(e),
            say("input.main_thread", cause=cause, main=percent(main)),
        ),
        gain=expected,
        remedies=remedies_for("input_starved", e),
        next_limit=stopped or gain.next_limit(e, expected, eased=("idle",)),
        eased=("idle",),
    )


def host_starved(e: Evidence) -> Finding | None:
    """Idle, and the host is the reason: held back by a quota or by others, or nobody can prove by what."""
    if e.tier == "nvml":
        return _idle_by_smi(e)
    queue = e.idle.queue
    held_back = quota_bites(e) or waits_for_core(e)
    idle = e.idle_unclaimed if held_back else _rest(e)
    if not idle >= IDLE_INFO.value:
        return None
    others = (_launch_bound_throughout, sync_bound, input_starved)
    if not held_back and any(rule(e) is not None for rule in others):
        return None
    expected, stopped = gain.expect(
        e,
        idle,
        recovered=RECOVER_HOST,
        assumption=say("gain.idle_can_be_filled"),
    )
    if held_back:
        expected = _with_a_core_each(e, expected)
    why = say("starved.held_back") if held_back else ""
    # Launches that come too late would show in short gaps, if samples were short enough to show these.
    blind = (
        e.split is not None and math.isnan(e.split.fine_idle) and e.level("launches") >= SOME_LAUNCHES.value
    )
    in_pauses = e.paused >= PAUSED.value
    vague = (blind or in_pauses) and not held_back
    found = Finding(
        rule="host_starved",
        title=say("starved.title", idle=percent(idle), why=why),
        severity=of_share(idle, watch=IDLE_WATCH, bad=IDLE_BAD),
        share=idle,
        confidence=e.confidence(idle, over=IDLE_WATCH, classes=("idle",), certainty=0.45 if vague else 0.9),
        because=(
            *_pauses_in_words(e, in_pauses),
            *_queue_in_words(queue),
            *_ahead_in_words(queue),
            _empty_stretches(e),
            _host_in_words(e),
        ),
        gain=expected,
        remedies=remedies_for("host_starved", e),
        next_limit=stopped or gain.next_limit(e, expected, eased=("idle",)),
        eased=("idle",),
        launching=None if held_back else _if_launching(e),
    )
    return found if held_back else with_kept_memory(e, found)


def _with_a_core_each(e: Evidence, expected: Gain) -> Gain:
    """
    *expected*, but where processes wait for a core no more than if each had one: the first remedy is that.

    They have work and no core for `host_runqueue_wait` of the time. With a core all along each gets done at
    most as many times as much as it has now less of one.
    """
    if not workers_crowd(e):
        return expected
    most = 1.0 / max(1e-3, 1.0 - e.level("host_runqueue_wait"))
    return Gain(1.0, min(expected.high, most), say("gain.core_each"))


def _idle_by_smi(e: Evidence) -> Finding | None:
    """Without any counter: nvidia-smi's utilisation is at least an upper bound on the busy time."""
    idle = 1.0 - e.level("smi_utilization")
    if not idle >= IDLE_WATCH.value:
        return None
    return Finding(
        rule="host_starved",
        title=say("starved.no_kernel", idle=percent(idle)),
        severity=of_share(idle, watch=IDLE_WATCH, bad=IDLE_BAD),
        share=idle,
        confidence=e.confidence(idle, over=IDLE_WATCH),
        because=(say("starved.smi", smi=percent(1.0 - idle)), _host_in_words(e)),
        gain=gain.expect(e, idle, recovered=RECOVER_HOST, assumption=say("gain.part_of_idle"))[0],
        remedies=remedies_for("host_starved", e),
    )


def _rest(e: Evidence) -> float:
    """The idle time nobody else claims, launches that come too late in one part only among them."""
    in_part = _launch_bound_throughout(e) is None and _launch_bound_in_part(e) is not None
    return e.idle_unclaimed - (e.idle.late_idle if in_part else 0.0)


def _queue_in_words(queue: IdleTime) -> tuple[str, ...]:
    """Whether anything was submitted, as the hardware itself says; nothing where that is not known."""
    if not queue.empty >= RESOLVED.value:
        return ()
    empty = percent(queue.empty)
    return (say("idle.queue_empty", empty=empty),)


def _ahead_in_words(queue: IdleTime) -> tuple[str, ...]:
    """How far the host runs ahead, where that is telling."""
    ahead = percent(queue.ahead)
    if queue.ahead >= HOST_AHEAD.value:
        return (say("idle.host_ahead", ahead=ahead),)
    if queue.ahead < HOST_LATE.value:
        return (say("idle.host_late", ahead=ahead),)
    return ()


def _pauses_in_words(e: Evidence, in_pauses: bool) -> tuple[str, ...]:
    if not in_pauses:
        return ()
    return (say("idle.in_pauses", paused=percent(e.paused), length=duration(PAUSE_S)),)


def _empty_stretches(e: Evidence) -> str:
    active = e.level("gr_active")
    step = say("idle.in_each_step", step=duration(e.step_s)) if e.step_s is not None else ""
    if e.split is not None and e.split.fine_idle < FINE_IDLE.value:
        return say("idle.long_stretches", active=percent(active), step=step)
    return say("idle.active", active=percent(active), step=step)


def _host_in_words(e: Evidence) -> str:
    """What the host did meanwhile, as far as it was seen."""
    main = e.level("host_main_cpu")
    if quota_bites(e):
        held = percent(e.level("host_throttled"))
        return say("host.quota", held=held)
    if waits_for_core(e):
        return say("host.waits_for_core", share=percent(e.level("host_runqueue_wait")))
    if math.isnan(main):
        return say("host.unknown")
    if main >= MAIN_BUSY.value:
        maybe = say("host.maybe_busy")
        return say("host.main_busy", main=percent(main), maybe=maybe)
    if e.level("host_worker_cpu") >= WORKER_BUSY.value:
        return say("host.others_work", main=percent(main))
    maybe = say("host.maybe_waits")
    return say("host.nobody_works", main=percent(main), maybe=maybe)
