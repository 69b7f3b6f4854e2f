"""
The looks of a recording broken down, each with the counters that were sampled beside it.

A trace numbers GPUs as its process sees them; which one that is, is known from the driver, which listed the
process on it. The counters of a GPU see all that runs on it, so where another process of the program uses it
what was counted is not shared out to the kernels of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.tree import break_down
from perfzero.errors import BrokenRecording, NoRecording
from perfzero.report.ceilings import ceilings
from perfzero.store.kineto import read_trace
from perfzero.store.reader import Recording
from perfzero.values import Look, Observation, Samples
from perfzero.words.said import first_line, say

MOST = 16
"""Traces read of a recording, each in seconds however large: twice one per process on a host of 8 GPUs."""


def broken_down(
    recording: Recording, seen: Mapping[int, Observation]
) -> tuple[dict[str, Breakdown], tuple[str, ...]]:
    """
    The GPU's time by layer for each look, by the name of its file; and what could not be read of them.

    *seen* is what the recording holds of each GPU, by index.
    """
    found: dict[str, Breakdown] = {}
    doubts: list[str] = []
    looks = list({look.file: look for look in recording.looks if look.file}.values())
    for look in looks[:MOST]:
        try:
            samples, why = beside(look, recording.looks, seen)
            doubts += [say("trace.of", file=look.file, why=why)] if why else []
            # With samples it is known which GPU it was.
            roofs = None if samples is None else ceilings(seen[_used(look, seen)[0]], look)
            trace, l2_bytes = read_trace(recording.path / look.file), _l2_bytes(look, seen)
            found[look.file] = break_down(trace, samples, roofs, l2_bytes=l2_bytes)
        except (BrokenRecording, NoRecording) as error:
            doubts.append(first_line(error.sentence))
            continue
        except Exception as error:  # noqa: BLE001 - a look adds to the report, which stands without it
            doubts.append(
                say("trace.of", file=look.file, why=say("trace.unexpected", kind=type(error).__name__))
            )
            continue
        told = found[look.file].doubts
        doubts += (d if d.startswith(look.file) else say("trace.of", file=look.file, why=d) for d in told)
    if len(looks) > MOST:
        doubts.append(say("trace.first_read", count=len(looks), most=MOST))
    return found, tuple(doubts)


def beside(look: Look, looks: Sequence[Look], seen: Mapping[int, Observation]) -> tuple[Samples | None, str]:
    """What was counted of the kernels of *look*, None without; and why it is not used where it is there."""
    used = _used(look, seen)
    if len(used) != 1 or used[0] not in seen:
        several = len(used) > 1 and any(len(seen[gpu].close_up) for gpu in used if gpu in seen)
        return None, say("trace.several_gpus") if several else ""
    its = seen[used[0]]
    # One that was asked and did not step may have launched something all the same.
    others = [k for k in looks if k.pid != look.pid and used[0] in (k.gpus or used)]
    if len(its.close_up) and others:
        return None, say("trace.shared")
    if len(its.close_up) and its.other_pids:  # they may do nothing, as a desktop does
        return its.close_up, say("trace.another")
    return its.close_up, ""


def _used(look: Look, seen: Mapping[int, Observation]) -> tuple[int, ...]:
    """The GPUs that the process of *look* used: where the driver lists none, the only one there is."""
    return look.gpus or (tuple(seen) if len(seen) == 1 else ())


def _l2_bytes(look: Look, seen: Mapping[int, Observation]) -> int | None:
    """How large the L2 of its GPUs is; None where that is not known, or they differ."""
    sizes = {seen[gpu].gpu.l2_bytes for gpu in _used(look, seen) if gpu in seen}
    return sizes.pop() if len(sizes) == 1 else None
