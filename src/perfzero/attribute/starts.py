"""
Waits for a DataLoader that come of starting its workers, told apart from those for its batches.

A DataLoader without persistent workers starts them anew in each epoch. `start()` returns in milliseconds, and
then the main thread waits for the first batch as for any other, while the workers import what they need. So
a wait for the loader that follows a start with nothing between is of the start. What is left of such a wait
with persistent workers is the time of one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perfzero.attribute.host_activity import Meaning
from perfzero.attribute.moments import Visits


def with_starts(leaves: Sequence[Meaning], visits: Visits) -> tuple[list[Meaning], Visits]:
    """*leaves* and *visits* with those waits for a loader that follow the start of its workers called so."""
    number = {leaf: k for k, leaf in enumerate(leaves)}
    leaf_of, started = visits.leaf.copy(), False
    for row, k in enumerate(leaf_of.tolist()):
        activity = leaves[k].activity if k >= 0 else None
        if activity == "starting workers":
            started = True
        elif activity == "loader" and started:
            start = replace(leaves[k], activity="starting workers")
            leaf_of[row] = number.setdefault(start, len(number))
        elif activity is not None:
            started = False
    return list(number), replace(visits, leaf=np.asarray(leaf_of, np.int64))
