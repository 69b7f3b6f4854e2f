"""Which span encloses a moment: against looking at every span."""

from __future__ import annotations

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfzero.attribute.enclosing import innermost
from perfzero.traces import Spans

SPAN = st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12))
MOMENT = st.tuples(st.integers(0, 3), st.integers(-2, 45))


def spans(rows: list[tuple[int, int, int]]) -> Spans:
    """Spans of (thread, start, length)."""
    thread, start, length = np.array(rows, np.int64).reshape(-1, 3).T
    return Spans.of(thread, start, start + length, np.arange(len(rows)))


@given(st.lists(SPAN, max_size=25), st.lists(MOMENT, max_size=25))
def test_it_is_the_last_begun_of_those_that_are_open(
    rows: list[tuple[int, int, int]], moments: list[tuple[int, int]]
) -> None:
    table = spans(rows)
    threads, at = np.array(moments, np.int64).reshape(-1, 2).T
    open_at = [
        [
            row
            for row in range(len(table))
            if table.thread[row] == thread and table.start_ns[row] <= moment < table.end_ns[row]
        ]
        for thread, moment in moments
    ]

    assert innermost(table, threads, at).tolist() == [max(rows, default=-1) for rows in open_at]


def test_a_span_ends_before_its_end() -> None:
    found = innermost(spans([(0, 0, 10), (0, 2, 3)]), np.zeros(3, np.int64), np.array([1, 4, 5]))

    assert found.tolist() == [0, 1, 0]


def test_deep_nesting_takes_no_longer_than_many_spans() -> None:
    """A stranger's trace may nest 50,000 spans deep; to look through all of them each time takes hours."""
    n = 50_000
    nested = Spans.of(*np.stack([np.zeros(n, np.int64), np.arange(n), 2 * n - np.arange(n), np.arange(n)]))
    began = time.monotonic()

    found = innermost(nested, np.zeros(n, np.int64), n + np.arange(n))

    assert found.tolist() == list(range(n - 1, -1, -1))
    assert time.monotonic() - began < 5
