"""
A diagnosis by counters, refined by what was seen beside them: the program's lines, and looks into it.

Each step knows one kind of evidence and takes the diagnosis of the step before. A step that fails is a
mistake of ours: the diagnosis goes on without it, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from perfzero.attribute.idle import idle_time
from perfzero.attribute.parts import Condition, Topic
from perfzero.attribute.stacks import HostCauses
from perfzero.diagnose.verdict import Diagnosis, Finding
from perfzero.report.after_reads import reads_first
from perfzero.report.garbage import Pauses, stalls_seen, with_garbage, without_garbage
from perfzero.report.inside import in_words, looks_on
from perfzero.report.launching import by_lines
from perfzero.report.leading import with_next_limits
from perfzero.report.line_remedies import with_lines
from perfzero.report.seen_cause import named_by_lines
from perfzero.report.settled import settled
from perfzero.values import Look, Observation
from perfzero.words.said import say


@dataclass(frozen=True, slots=True)
class Evidence:
    """
    What was seen of a GPU and its program.

    `host`: what the program did while this GPU was idle, if it was sampled. `inside`: what looks into it
    settle. `looks`, `gpus`: those of all of the recording. `framework`: in whose words advice is told.
    """

    seen: Observation
    host: HostCauses | None
    inside: Mapping[Topic, Condition]
    looks: Sequence[Look]
    gpus: Sequence[int]
    framework: str

    @property
    def gpu(self) -> int:
        """Its index."""
        return self.seen.gpu.index


Step = Callable[[Diagnosis, Evidence], Diagnosis]


def refined(
    diagnosis: Diagnosis, evidence: Evidence, steps: Mapping[str, Step] | None = None
) -> tuple[Diagnosis, tuple[str, ...]]:
    """*diagnosis* after all *steps*, by default `STEPS`, and what of them failed, in words."""
    doubts = []
    for name, step in (STEPS if steps is None else steps).items():
        try:
            diagnosis = step(diagnosis, evidence)
        except Exception as error:  # noqa: BLE001 - the verdict stands without it
            doubts.append(say("refined.failed", step=name, kind=type(error).__name__))
    return diagnosis, tuple(doubts)


def _named(diagnosis: Diagnosis, evidence: Evidence) -> Diagnosis:
    """With the names that stacks tell, but of what the garbage collector was seen to do."""
    its, stalls_s = looks_on(evidence.looks, evidence.gpu, evidence.gpus), stalls_seen(diagnosis)

    def otherwise(finding: Finding) -> bool:
        return without_garbage(finding, its, stalls_s=stalls_s) is not None

    return named_by_lines(diagnosis, evidence.host, otherwise=otherwise)


def _with_garbage(diagnosis: Diagnosis, evidence: Evidence) -> Diagnosis:
    pauses = pauses_of(evidence.seen, diagnosis, evidence.looks)
    return with_garbage(diagnosis, evidence.looks, evidence.gpu, evidence.gpus, evidence.host, pauses)


def pauses_of(seen: Observation, diagnosis: Diagnosis, looks: Sequence[Look]) -> Pauses | None:
    """
    The pauses of the GPU in what *diagnosis* judged of *seen*; None where it could not tell them, and where
    none of *looks* saw a collection to be held against them.
    """
    if not any(look.collections for look in looks):
        return None
    steady = diagnosis.steady
    idle = idle_time(seen.pm, start_ns=steady.start_ns, end_ns=steady.end_ns)
    if idle is None:
        return None
    return Pauses([ns / 1e9 for ns in (idle.end_ns - idle.start_ns).tolist()], idle.covered_s)


STEPS: Mapping[str, Step] = {
    "launches by line": lambda diagnosis, of: by_lines(diagnosis, of.host),
    "lines that read": lambda diagnosis, of: reads_first(diagnosis, of.host),
    "looks": lambda diagnosis, of: settled(diagnosis, of.inside),
    "names by line": _named,
    "remedies by line": lambda diagnosis, of: with_lines(diagnosis, of.host, of.inside),
    "garbage collector": _with_garbage,
    "next limits": lambda diagnosis, of: with_next_limits(diagnosis, of.inside),
    "framework": lambda diagnosis, of: in_words(diagnosis, of.framework),
}
"""In this order: lines are held against what looks have settled, and limits are those of all remedies."""
