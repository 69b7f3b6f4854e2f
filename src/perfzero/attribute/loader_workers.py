"""
What is done for the batches of a DataLoader, as shares of the time that it takes: by its workers, or by the
main process where it has none.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from perfzero.attribute.causes import StageShare
from perfzero.attribute.host_activity import Stage, TextOf, stage
from perfzero.attribute.lines import WORTH
from perfzero.attribute.moments import MOST_FRAMES, frames_in, main_thread, moments_of, visits_of
from perfzero.attribute.torn import whole_stacks
from perfzero.stacks import Frame, HostStacks, Role


def stages_of(stacks: HostStacks, text_of: TextOf) -> tuple[StageShare, ...]:
    """What the workers of the DataLoader did, or the main process itself, as shares of the time it took."""
    found = _found(stacks, text_of, "worker") or _found(stacks, text_of, "main")
    total = sum(found.values())
    by_stage: dict[Stage, dict[Frame | None, float]] = defaultdict(dict)
    for (name, frame), count in found.items():
        by_stage[name][frame] = count
    result = []
    for name, frames_of in by_stage.items():
        frame = max(frames_of, key=lambda f: frames_of[f])
        share = sum(frames_of.values()) / total
        if share >= WORTH:
            result.append(StageShare(name, share, frame, "" if frame is None else text_of(frame)))
    return tuple(sorted(result, key=lambda s: -s.share))


def _found(stacks: HostStacks, text_of: TextOf, role: Role) -> dict[tuple[Stage, Frame | None], float]:
    """For how many moments processes in *role* were seen in each stage, and at which line."""
    found: dict[tuple[Stage, Frame | None], float] = defaultdict(float)
    for process in stacks.processes:
        whole = np.ones(len(process), np.bool_)
        if process.role == role and len(process) and frames_in(process, whole) <= MOST_FRAMES:
            process = whole_stacks(process, main_thread(process))
            moments = moments_of(visits_of(process, np.arange(len(process.stacks))))
            for k, seen in enumerate(np.bincount(moments.leaf, moments.weight)):
                frames = [process.frames[i] for i in process.stacks[k]]
                what = stage(frames, text_of, worker=role == "worker") if seen > 0 else None
                if what is not None:
                    found[what] += float(seen)
    return found
