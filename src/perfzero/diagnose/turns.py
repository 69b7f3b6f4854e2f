"""
How much of the time a host that launches is at work, where its threads take turns.

A backward pass of PyTorch runs in a thread of autograd's own, and the main thread sleeps until it is through.
So neither of them is busy all the time, while the host never rests: forward pass and update take the one 54 %
of a core, the backward pass the other the rest. What they use together is one core then. Where it is more
some of them work at once, and their sum does not tell whether the one that launches rests. Nor does it where
the main thread is hardly at work, for then it takes turns with nobody.

That threads take turns is not seen: one that decodes images beside the main thread may make up one core with
it as well. So the sum tells that the host may never rest, and not that it does not.
"""

from __future__ import annotations

from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.thresholds import MAIN_BUSY, TAKES_TURNS, TURNS


def cores_beside_workers(e: Evidence) -> float:
    """Cores that the program uses beside its worker processes; NaN where the host was not seen."""
    workers = e.level("host_workers")
    loaders = workers * e.level("host_worker_cpu") if workers >= 1 else 0.0
    return e.level("host_tree_cpu") - loaders


def at_work(e: Evidence) -> float:
    """Share of the time in which the host is at work, its busiest thread at least; NaN: not seen."""
    busiest, together = e.level("host_main_cpu"), cores_beside_workers(e)
    return together if TAKES_TURNS.value <= busiest < together <= TURNS.value else busiest


def rests(e: Evidence) -> bool:
    """Whether the host is seen to rest for a good part of the time."""
    return at_work(e) < MAIN_BUSY.value
