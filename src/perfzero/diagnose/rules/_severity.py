"""How serious a share of time is."""

from __future__ import annotations

from typing import Literal

from perfzero.diagnose.thresholds import Threshold


def of_share(share: float, *, watch: Threshold, bad: Threshold) -> Literal["info", "watch", "bad"]:
    """`bad` and `watch` from their thresholds on, worth knowing below."""
    if share >= bad.value:
        return "bad"
    return "watch" if share >= watch.value else "info"
