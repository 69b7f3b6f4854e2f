"""What the workers of a DataLoader do, as shares of the time that they work."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from perfzero.attribute.causes import StageShare
from perfzero.attribute.host_activity import Stage, TextOf, stage
from perfzero.attribute.lines import WORTH
from perfzero.attribute.moments import MOST_FRAMES, frames_in, main_thread, moments_of, visits_of
from perfzero.attribute.torn import whole_stacks
from perfzero.stacks import Frame, HostStacks


def stages_of(stacks: HostStacks, text_of: TextOf) -> tuple[StageShare, ...]:
    """What the workers of the DataLoader did, as shares of the time that they worked."""
    found: dict[tuple[Stage, Frame | None], float] = defaultdict(float)
    for process in stacks.processes:
        whole = np.ones(len(process), np.bool_)
        if process.role == "worker" and len(process) and frames_in(process, whole) <= MOST_FRAMES:
            process = whole_stacks(process, main_thread(process))
            moments = moments_of(visits_of(process, np.arange(len(process.stacks))))
            for k, seen in enumerate(np.bincount(moments.leaf, moments.weight)):
                what = stage([process.frames[i] for i in process.stacks[k]], text_of) if seen > 0 else None
                if what is not None:
                    found[what] += float(seen)
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
