"""
The lines of the program that the GPU waits for: a block of report.json, and at most three lines for people.

    train.py:41  loss.item()            waits for the GPU        80 % of the idle time (76 to 84 %)
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from perfzero import text
from perfzero.attribute.host_activity import WORDS
from perfzero.attribute.stacks import Cause, HostCauses, StageShare
from perfzero.stacks import Frame

LINES = 3
"""As many as fit beside the verdict; report.json has all."""

WORTH_TELLING = 0.05
"""Idle time, as a share of all, below which nobody looks for its cause."""

CLAIM = 0.01
"""The lower end of a line's interval, below which the line may well cost nothing: it is not told ..."""

MUCH = 0.1
"""
... unless it seems to cost so much of all time: what comes rarely, as a checkpoint does, is in few of the
stretches that an interval is made of (oak of `benchmarks/planted`: 98 % of 18 %, with 0 to 99 %, and true).
"""

OVERLAPPING = 1.05
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


def lines(host: HostCauses | None) -> list[tuple[str, str]]:
    """Place and words of the first causes; none where the GPU is hardly idle, or nothing is known."""
    return [(place(cause.frame), words(cause)) for cause in _told(host)]


def overlapping(host: HostCauses | None) -> bool:
    """
    Whether the shares of the lines that are told add up to visibly more than 100 %.

    Where a wait and other work follow each other, the time would be gone without either of them.
    """
    return sum(cause.share for cause in _told(host)) >= OVERLAPPING


def _told(host: HostCauses | None) -> Sequence[Cause]:
    if host is None or not host.idle >= WORTH_TELLING:
        return ()
    return [c for c in host.causes if c.low >= CLAIM or c.share * host.idle >= MUCH][:LINES]


def place(frame: Frame) -> str:
    """Where a line stands: "train.py:41"."""
    return text.printable(f"{posixpath.basename(frame.file)}:{frame.line}")


def words(cause: Cause) -> str:
    """What the program does there, and what that costs."""
    shown = _shown(cause)
    said = f"{shown}: {WORDS[cause.activity]}" if shown else WORDS[cause.activity]
    share = f"{text.percent(cause.share)} of the idle time"
    if cause.high - cause.low >= 0.01:
        share += f" ({text.percent(cause.low)} to {text.percent(cause.high)})"
    return text.printable(f"{said}, {share}{_workers(cause)}")


def quoted(cause: Cause) -> str:
    """The line with its place and its share: "train.py:41 loss.item(), 80 % of the idle time"."""
    line = f"{place(cause.frame)} {_shown(cause)}".rstrip()
    return text.printable(f"{line}, {text.percent(cause.share)} of the idle time{_workers(cause)}")


def _shown(cause: Cause) -> str:
    shown = cause.text if len(cause.text) <= TEXT else cause.text[: TEXT - 1] + "…"
    return shown.rstrip(":")


def _workers(cause: Cause) -> str:
    told = ", ".join(_stage(stage) for stage in cause.stages[:STAGES])
    return f"; its workers: {told}" if told else ""


def _stage(stage: StageShare) -> str:
    where = "" if stage.frame is None else f" ({place(stage.frame)})"
    return f"{stage.stage} {text.percent(stage.share)}{where}"


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
