"""
How long each piece of work ran while another stream of the same GPU worked, too.

Pieces of one stream may overlap as well, where a kernel begins before the one before it has ended. That is
not counted: they are one after another but for their ends.
"""

from __future__ import annotations

import numpy as np

from perfzero.traces import Work
from perfzero.values import IntArray


def beside_ns(work: Work) -> IntArray:
    """Row by row with *work*, in ns."""
    found = np.zeros(len(work), np.int64)
    for device in np.unique(work.device):
        rows = np.flatnonzero(work.device == device)
        rows = rows[np.lexsort((work.start_ns[rows], work.stream[rows]))]
        moments, rank = np.unique(
            np.concatenate((work.start_ns[rows], work.end_ns[rows])), return_inverse=True
        )
        start, end = np.split(rank.reshape(-1), 2)
        # Each stream's stretches of work; stream and moment as one number, so that one pass is for all.
        _, stream = np.unique(work.stream[rows], return_inverse=True)
        shift = stream.reshape(-1) * len(moments)
        reached = np.maximum.accumulate(end + shift)
        begins = np.append(True, (start + shift)[1:] > reached[:-1])
        ends = np.append(begins[1:], True)
        change = np.bincount(start[begins], minlength=len(moments))
        change -= np.bincount((reached - shift)[ends], minlength=len(moments))
        several = np.cumsum(change)[:-1] > 1
        until = np.append(0, np.cumsum(np.where(several, np.diff(moments), 0)))
        found[rows] = until[end] - until[start]
    return found
