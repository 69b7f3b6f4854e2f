"""
Whether the host launches or waits while the GPU is idle, where counters leave that open and stacks tell.

Gaps of microseconds between kernels that the host has in the queue now and then look like waits for results.
Where the kernels are shorter than their launches these may as well come too late, and the rule says what that
would be (`Finding.launching`). Lines tell which it is: most of the idle time is due to lines that launch, and
less to lines that wait for the GPU. Then it is launching, all of that idle time, and what was found to launch
late in one part of the step is a part of it.
"""

from __future__ import annotations

from typing import Annotated

from perfzero.attribute.host_activity import LAUNCHING, WAITS_FOR_GPU
from perfzero.attribute.stacks import HostCauses
from perfzero.diagnose.idle_shares import without_kernels
from perfzero.diagnose.judge import with_findings
from perfzero.diagnose.verdict import Diagnosis
from perfzero.limits import CHOICE, Limit
from perfzero.report.host_lines import worth_telling

LAUNCHES: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Of the idle time, at lines that launch: with less another reason may be the larger one."""


def by_lines(diagnosis: Diagnosis, host: HostCauses | None) -> Diagnosis:
    """*diagnosis* with launches as the reason where the lines of *host* show that."""
    others = {f.rule: f.launching for f in diagnosis.findings if f.launching is not None}
    if not others or not _launches(diagnosis, host):
        return diagnosis
    found = next(iter(others.values()))
    kept = (f for f in diagnosis.findings if f.rule not in (*others, found.rule))
    return with_findings(diagnosis, (found, *kept))


def _launches(diagnosis: Diagnosis, host: HostCauses | None) -> bool:
    worth = worth_telling(host, without_kernels(diagnosis.shares))
    launching = sum(cause.share for cause in worth if cause.activity in LAUNCHING)
    waiting = sum(cause.share for cause in worth if cause.activity in WAITS_FOR_GPU)
    return launching >= LAUNCHES and waiting < launching
