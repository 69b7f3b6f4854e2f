"""
Host work behind a wait for the GPU: the two lines are one cause.

A program that reads a result in every step, and then makes its next batch, works in turns with its GPU: the
read ends when the GPU has nothing left to do, and the batch is made meanwhile. Without the work the GPU would
have the next step at once; without the read it would have had it all the time. So both lines have about the
same share of the idle time, and either remedy is enough. The read comes first, for nobody needs the wait.

    in turns       T  = H + G     H: the host's time for a step without the wait, G: the GPU's
    without wait   T' = max(H, G)

Stacks know G, which is the time that is not idle, and H, which is the time that the host does not wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfzero.attribute.causes import Cause
from perfzero.attribute.host_activity import LAUNCHING, WAITS_FOR_GPU, WAITS_FOR_OTHERS, Activity
from perfzero.attribute.lines import LIKELY

RESTS: frozenset[Activity] = frozenset({"sleeping", "gil"})
"""What is no work, so nothing to be done while the GPU works: the line itself has to be looked at."""


def behind(causes: Sequence[Cause]) -> Cause | None:
    """
    The line that the GPU waits for because the first of *causes* waits for it; None if there is none.

    What waits for others, such as a loader, would have to be waited for all the same, and what launches has
    to be done. Nor is rest, such as that of a loop that polls, work that could be done elsewhere; and what
    the call around the wait does beside it takes turns with it, maybe many times in a step.
    """
    if not causes or causes[0].activity != "synchronising":
        return None
    others = WAITS_FOR_GPU | WAITS_FOR_OTHERS | LAUNCHING | RESTS
    least = LIKELY * causes[0].share
    above = causes[0].path[:-1]
    return next(
        (
            c
            for c in causes[1:]
            if c.activity not in others and c.share >= least and c.path != above[: len(c.path)]
        ),
        None,
    )


def without_wait(wait: Cause, late: Cause, idle: float) -> tuple[float, float]:
    """
    What is left of the time without the *wait* that *late* comes behind, least and most.

    *idle*: the share of all time without a kernel, of which theirs are shares. The wait's own share is less
    certain than that of the work behind it: where a gap begins is known to a millisecond or two.
    """
    host = 1 - wait.waited
    least, most = max(wait.low, late.low), max(wait.high, late.high)
    return max(1 - idle * most, host), max(1 - idle * least, host)
