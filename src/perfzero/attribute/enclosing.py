"""Which span encloses a moment on a thread: the one thing that attribution asks again and again."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from perfzero.traces import Spans
from perfzero.values import IntArray


def innermost(spans: Spans, thread: IntArray, at_ns: IntArray) -> IntArray:
    """
    The row of the span that was open on *thread* at *at_ns* and began last; -1 where none was. Shape (n,).

    One sweep through time with a stack per thread, so its length grows with spans plus moments, however
    deep the spans are nested. They need not nest properly: what began last counts, as long as it is open.
    """
    found = np.full(len(at_ns), -1, np.int64)
    threads, starts, ends = spans.thread.tolist(), spans.start_ns.tolist(), spans.end_ns.tolist()
    moments, where = at_ns.tolist(), thread.tolist()
    stacks: defaultdict[int, list[int]] = defaultdict(list)
    row, rows = 0, len(starts)
    for moment in np.argsort(at_ns, kind="stable").tolist():
        now = moments[moment]
        while row < rows and starts[row] <= now:
            stacks[threads[row]].append(row)
            row += 1
        stack = stacks[where[moment]]
        # What has ended above lies never in the way again: time only goes on.
        while stack and ends[stack[-1]] <= now:
            stack.pop()
        if stack:
            found[moment] = stack[-1]
    return found
