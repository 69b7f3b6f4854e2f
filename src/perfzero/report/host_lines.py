"""
The lines of the program that the GPU waits for: a block of report.json, and at most three lines for people.

    train.py:41  loss.item()            waits for the GPU        80 % of the idle time (76 to 84 %)
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Sequence
from typing import Annotated, Any

from perfzero import text
from perfzero.attribute.stacks import Cause, HostCauses, StageShare
from perfzero.diagnose.idle_shares import worth_lines
from perfzero.limits import CHOICE, H200_LOOKS, Limit
from perfzero.stacks import Frame
from perfzero.words.said import listed, say

LINES = 3
"""As many as fit beside the verdict; report.json has all."""

CLAIM: Annotated[float, Limit("ratio", CHOICE)] = 0.01
"""The lower end of a line's interval, below which the line may well cost nothing: it is not told ..."""

MUCH: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.1
"""
... unless it seems to cost so much of all time: what comes rarely, as a checkpoint does, is in few of the
stretches that an interval is made of (oak of `benchmarks/planted`: 98 % of 18 %, with 0 to 99 %, and true).
"""

RANGE: Annotated[float, Limit("ratio", CHOICE)] = 0.01
"""An interval of a line that is narrower is not told: it says no more than the share."""

OVERLAPPING: Annotated[float, Limit("ratio", CHOICE)] = 1.05
"""The sum of shares from which on it is said that they overlap."""

TEXT = 40
"""Characters of a line that are shown: enough to know it again."""

STAGES = 2
"""Stages of the workers that are named."""


def host_block(host: HostCauses) -> dict[str, Any]:
    """What report.json says of the host."""
    return {
        "idle": host.idle,
        "seconds": host.seconds,
        "moments": host.moments,
        "offset_s": host.offset_s,
        "told": host.told,
        "reason": host.reason,
        "causes": [_cause(cause) for cause in host.causes],
    }


def lines(host: HostCauses | None, idle: float = math.nan) -> list[tuple[str, str]]:
    """Place and words of the first causes that are worth it."""
    return [(place(cause.frame), words(cause)) for cause in worth_telling(host, idle)[:LINES]]


def overlapping(host: HostCauses | None, idle: float = math.nan) -> bool:
    """
    Whether the shares of the lines that are told add up to visibly more than 100 %.

    Where a wait and other work follow each other, the time would be gone without either of them.
    """
    return sum(cause.share for cause in worth_telling(host, idle)[:LINES]) >= OVERLAPPING


def worth_telling(host: HostCauses | None, idle: float = math.nan) -> Sequence[Cause]:
    """
    The causes of idle time that matter, and that are known to be some.

    None where the GPU is hardly *idle*, which is without kernels, in the stretch that was judged (NaN: not
    known), or was while the host was sampled, which may have been as the program started.
    """
    if host is None:
        return ()
    matters = min(host.idle, idle) if math.isfinite(idle) else host.idle
    if not worth_lines(matters):
        return ()
    return [c for c in host.causes if c.low >= CLAIM or c.share * matters >= MUCH]


def place(frame: Frame) -> str:
    """Where a line stands: "train.py:41"."""
    return text.printable(f"{posixpath.basename(frame.file)}:{frame.line}")


def words(cause: Cause) -> str:
    """What the program does there, and what that costs."""
    shown, does = text.printable(_shown(cause)), say(f"activity.{cause.activity}")
    share = say("host_line_share", share=text.percent(cause.share))
    if cause.high - cause.low >= RANGE:
        ends = {"low": text.percent(cause.low), "high": text.percent(cause.high)}
        share = say("host_line_range", share=share, **ends)
    return say(
        "host_line",
        does=say("host_line_does", line=shown, does=does) if shown else does,
        share=share,
        workers=_workers(cause),
    )


def quoted(cause: Cause) -> str:
    """The line with its place and its share: "train.py:41 loss.item(), 80 % of the idle time"."""
    return say(
        "host_line",
        does=text.printable(f"{place(cause.frame)} {_shown(cause)}"),
        share=say("host_line_share", share=text.percent(cause.share)),
        workers=_workers(cause),
    )


def _shown(cause: Cause) -> str:
    shown = cause.text if len(cause.text) <= TEXT else cause.text[: TEXT - 1] + "…"
    return shown.rstrip(":")


def _workers(cause: Cause) -> str:
    told = listed(_stage(stage) for stage in cause.stages[:STAGES])
    return say("host_line_workers", told=told) if told else ""


def _stage(stage: StageShare) -> str:
    name, share = say(f"stage.{stage.stage}"), text.percent(stage.share)
    if stage.frame is None:
        return say("host_line_stage", stage=name, share=share)
    return say("host_line_stage_at", stage=name, share=share, place=place(stage.frame))


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "activity": cause.activity,
        **_frame(cause.frame),
        "text": cause.text,
        "share": cause.share,
        "low": cause.low,
        "high": cause.high,
        "drained": cause.drained,
        "path": [_frame(frame) for frame in cause.path],
        "stages": [
            {
                "stage": s.stage,
                "share": s.share,
                "file": "" if s.frame is None else s.frame.file,
                "line": 0 if s.frame is None else s.frame.line,
                "text": s.text,
            }
            for s in cause.stages
        ],
    }


def _frame(frame: Frame) -> dict[str, Any]:
    return {"file": frame.file, "line": frame.line, "function": frame.function}
