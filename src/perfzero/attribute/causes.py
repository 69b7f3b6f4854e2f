"""Causes of a GPU's idle time: lines of the program, with what they do and their share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfzero.attribute.host_activity import Activity, Stage
from perfzero.attribute.updating import Way
from perfzero.stacks import Frame


@dataclass(frozen=True, slots=True)
class StageShare:
    """What workers of the DataLoader do: share of the time that they work, and the line of the program."""

    stage: Stage
    share: float
    frame: Frame | None
    text: str


@dataclass(frozen=True, slots=True)
class Cause:
    """
    A line of the program that the GPU waits for.

    `share` of the idle time would be gone without it, with its 95 % interval; `drained` is the part of it
    that comes after the line, because it waited for the GPU. `path` leads from the program's first line to
    `frame`. `stages` says what the workers did, where the line waits for a DataLoader. `waited`: the share of
    all time in which the host is at the line and the GPU works, of a wait for the GPU also until the host
    goes on: that is what the wait costs it. `may_wait`: the share of all time in which it is at other lines
    of the same call that wait for the GPU as well if what they are about lies there; of a line that waits.
    `own_work`: the share of the GPU's work that is for a line that compiles, least and most.
    `lasts_s`: how long it stays at the line each time, on average; NaN where that is not known.
    """

    activity: Activity
    frame: Frame
    text: str
    path: tuple[Frame, ...]
    share: float
    low: float
    high: float
    drained: float
    stages: tuple[StageShare, ...] = ()
    waited: float = 0.0
    may_wait: float = 0.0
    own_work: tuple[float, float] = (0.0, 0.0)
    lasts_s: float = math.nan


@dataclass(frozen=True, slots=True)
class HostCauses:
    """
    Causes of the idle time of one GPU, the largest first.

    `idle`: share of the time that the GPU had nothing to do, where both were looked at, `seconds` long, with
    `moments` at which the host was seen. `offset_s` was added to the stacks' clock. `told`: how much the
    lines tell of the idle time, in nats over all moments; more for the GPU that the process feeds than for
    another. `in_torch`: share of that idle time in which the host is in calls that launch, copy or wait; NaN
    where that is not known. `update`: how an optimizer goes through its tensors. `reason`: why there are no
    causes, empty where there are. Both were looked at from `start_ns` to `end_ns`, or less; 0 where they were
    not.
    """

    causes: tuple[Cause, ...] = ()
    idle: float = math.nan
    seconds: float = 0.0
    moments: int = 0
    offset_s: float = 0.0
    told: float = 0.0
    in_torch: float = math.nan
    update: Way = ""
    reason: str = ""
    start_ns: int = 0
    end_ns: int = 0
