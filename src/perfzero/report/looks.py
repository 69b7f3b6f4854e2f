"""
The looks of a recording broken down, each with the counters that were sampled beside it.

A trace numbers GPUs as its process sees them; which one that is, is known from the driver, which listed the
process on it. The counters of a GPU see all that runs on it, so where another process of the program uses it
what was counted is not shared out to the kernels of one.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfzero.attribute.breakdown import Breakdown
from perfzero.attribute.tree import break_down
from perfzero.errors import BrokenRecording, NoRecording
from perfzero.store.kineto import read_trace
from perfzero.store.reader import Recording
from perfzero.values import Look, Samples

MOST = 16
"""Traces read of a recording, each in seconds however large: twice one per process on a host of 8 GPUs."""


def broken_down(recording: Recording) -> tuple[dict[str, Breakdown], tuple[str, ...]]:
    """The GPU's time by layer for each look, by the name of its file; and what could not be read of them."""
    found: dict[str, Breakdown] = {}
    doubts: list[str] = []
    looks = list({look.file: look for look in recording.looks if look.file}.values())
    for look in looks[:MOST]:
        samples, why = beside(recording, look, recording.looks)
        doubts += [f"{look.file}: {why}"] if why else []
        try:
            found[look.file] = break_down(read_trace(recording.path / look.file), samples)
        except (BrokenRecording, NoRecording) as error:
            doubts.append(str(error).splitlines()[0])
            continue
        told = found[look.file].doubts
        doubts += (d if d.startswith(look.file) else f"{look.file}: {d}" for d in told)
    if len(looks) > MOST:
        doubts.append(f"Of {len(looks)} looks inside the program the first {MOST} were read.")
    return found, tuple(doubts)


def beside(recording: Recording, look: Look, looks: Sequence[Look]) -> tuple[Samples | None, str]:
    """What was counted of the kernels of *look*, None without; and why it is not used where it is there."""
    watched = [gpu.index for gpu in recording.gpus]
    used = look.gpus or (tuple(watched) if len(watched) == 1 else ())
    if len(used) != 1 or used[0] not in watched:
        several = len(used) > 1 and any(len(recording.observation(g).close_up) for g in used if g in watched)
        return None, "it used several GPUs, so counters are not shared out to it." if several else ""
    seen = recording.observation(used[0])
    # One that was asked and did not step may have launched something all the same.
    others = [k for k in looks if k.pid != look.pid and used[0] in (k.gpus or used)]
    if len(seen.close_up) and others:
        return None, "others of its processes used the same GPU, so counters are not shared out to it."
    if len(seen.close_up) and seen.other_pids:  # they may do nothing, as a desktop does
        return seen.close_up, "another program held its GPU, too, and what that read is counted as its own."
    return seen.close_up, ""
