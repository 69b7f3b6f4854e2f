"""
What looks inside the program tell, by GPU: each is told by looks at the processes on it.

A program that is seen not to be in PyTorch is advised in the words of its framework (`diagnose/wording.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.conditions import conditions
from perfzero.attribute.framework import framework
from perfzero.attribute.parts import Condition, Topic
from perfzero.diagnose.verdict import Diagnosis
from perfzero.diagnose.wording import in_words_of
from perfzero.report.leading import changed
from perfzero.values import Look
from perfzero.words.said import say


def told_inside(
    breakdowns: Mapping[str, Breakdown],
) -> tuple[dict[str, Mapping[Topic, Condition]], tuple[str, ...]]:
    """What each of *breakdowns*, by file, tells of each topic; and of which that could not be found out."""
    told: dict[str, Mapping[Topic, Condition]] = {}
    doubts: list[str] = []
    for file, breakdown in breakdowns.items():
        try:
            told[file] = conditions(breakdown)
        except Exception as error:  # noqa: BLE001 - remedies stand without it, with their conditions
            doubts.append(say("trace.of", file=file, why=say("trace.unsettled", kind=type(error).__name__)))
    return told, tuple(doubts)


def seen_inside(
    told: Mapping[str, Mapping[Topic, Condition]], looks: Sequence[Look], gpus: Sequence[int]
) -> dict[int, dict[Topic, Condition]]:
    """
    What *looks*, as *told* by file, say of each topic, by GPU: of several that in which most is concerned.

    A condition holds on a GPU where it does in one process on it, and is denied where all of them deny it.
    What the time is a share of is known only where a process has the GPU for itself, and no other GPU.
    """
    return {gpu: _on_gpu(told, looks_on(looks, gpu, gpus)) for gpu in gpus}


def looks_on(looks: Sequence[Look], gpu: int, gpus: Sequence[int]) -> list[Look]:
    """Those of *looks* that are at processes on *gpu*."""
    return [look for look in looks if _is_on(look, gpu, looks, gpus)]


def _is_on(look: Look, gpu: int, looks: Sequence[Look], gpus: Sequence[int]) -> bool:
    """Whether *look* is at a process that uses *gpu*: where the driver lists none, the only one there is."""
    listed = any(other.gpus for other in looks)
    return gpu in look.gpus or (not look.gpus and len(gpus) == 1 and (bool(look.file) or not listed))


def _on_gpu(told: Mapping[str, Mapping[Topic, Condition]], looks: Sequence[Look]) -> dict[Topic, Condition]:
    alone = len({look.pid for look in looks}) == 1 and all(len(look.gpus) < 2 for look in looks)
    found: dict[Topic, Condition] = {}
    for topic in dict.fromkeys(topic for look in looks for topic in told.get(look.file, ())):
        each = [told.get(look.file, {}).get(topic) for look in looks]
        known = [condition for condition in each if condition is not None]
        most = max(known, key=lambda condition: (condition.holds, condition.share))
        if most.holds:
            found[topic] = most if alone else replace(most, left=None)
        elif len(known) == len(each):
            found[topic] = most
    return found


def frameworks(
    breakdowns: Mapping[str, Breakdown], looks: Sequence[Look], gpus: Sequence[int]
) -> dict[int, str]:
    """
    The framework of the processes on each of *gpus*; PyTorch where one of them is in it or is not known.

    Advice from outside is for PyTorch, and only what was seen to be something else is told in other words.
    """
    told = {name: framework(breakdown) for name, breakdown in breakdowns.items()}
    found: dict[int, str] = {}
    for gpu in gpus:
        each = {told.get(k.file) or "pytorch" for k in looks_on(looks, gpu, gpus)} or {"pytorch"}
        found[gpu] = "pytorch" if "pytorch" in each else each.pop() if len(each) == 1 else "other"
    return found


def in_words(diagnosis: Diagnosis, of: str) -> Diagnosis:
    """*diagnosis* with its remedies in the words of the framework *of*."""
    if of == "pytorch":
        return diagnosis
    return changed(
        diagnosis, lambda f: replace(f, remedies=tuple(in_words_of(of, remedy) for remedy in f.remedies))
    )
