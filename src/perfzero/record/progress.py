"""What a recording is doing right now, for whoever shows it while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["waiting for work", "warm-up", "looking closely", "watching"]

STATES: tuple[State, ...] = ("waiting for work", "warm-up", "looking closely", "watching")
"""In the order in which a run goes through them; of several GPUs the one that is behind counts."""


@dataclass(frozen=True, slots=True)
class Progress:
    """
    One moment of a recording, over all its GPUs.

    `samples` of hardware counters that came and that were `lost`; `capped` when a board is at its power
    cap or near it; `step_s` is the step time last seen.
    """

    state: State
    elapsed_s: float
    step_s: float | None
    samples: int
    lost: int
    capped: bool
