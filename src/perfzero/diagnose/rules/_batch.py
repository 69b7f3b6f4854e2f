"""Weights that short kernels read for one request at a time: the way out, whichever limit they meet."""

from __future__ import annotations

from dataclasses import replace

from perfzero.diagnose import gain
from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.reading import batched
from perfzero.diagnose.remedies import one_at_a_time, with_first
from perfzero.diagnose.verdict import Finding
from perfzero.words.said import say

_MORE = say("try.larger_batch")


def led_by_batch(e: Evidence, finding: Finding) -> Finding:
    """
    *finding* with more requests at a time as the first remedy and its gain, where they share what is read.

    A step stays as it is, so what limits it most now does so after, too. The finding ranks by its share at
    most, for others of the same work are told beside it.
    """
    if finding.severity == "info" or not one_at_a_time(e):
        return finding
    own = batched(e)
    remedies = tuple(replace(r, gain=own) if r.text == _MORE else r for r in finding.remedies)
    return replace(
        finding,
        gain=own,
        remedies=with_first(remedies, _MORE),
        next_limit=gain.next_limit(e, None, eased=()),
        saves=min(finding.share, gain.middle(own)),
    )
