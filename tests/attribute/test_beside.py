"""How long work ran beside other streams of its GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hand_written_look import Look
from perfzero.attribute.beside import beside_ns
from perfzero.traces import Work

Piece = tuple[int, int, int, int]


def work(*pieces: Piece) -> Work:
    """Pieces by GPU, stream, start and end in ns, in the order of a trace."""
    device, stream, start, end = np.array(sorted(pieces, key=lambda p: p[2]), np.int64).reshape(-1, 4).T
    none = np.zeros(len(device), np.int64)
    return Work(start, end, none, none, device, stream, none, none, none > 0, ("kernel",))


def test_what_overlaps_with_another_stream_is_counted_once_however_many_there_are() -> None:
    made = work((0, 1, 0, 100), (0, 2, 60, 90), (0, 3, 80, 95), (0, 1, 200, 210))

    assert beside_ns(made).tolist() == [35, 30, 15, 0]


def test_overlaps_within_a_stream_or_with_another_gpu_are_none() -> None:
    assert beside_ns(work((0, 1, 0, 100), (0, 1, 90, 200), (1, 2, 0, 300))).tolist() == [0, 0, 0]


def test_without_work_there_is_nothing(tmp_path: Path) -> None:
    assert len(beside_ns(Look().trace(tmp_path).work)) == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), max_size=9
    )
)
def test_it_is_what_counting_every_moment_gives(drawn: list[Piece]) -> None:
    pieces = sorted(((d, s, start, start + length) for d, s, start, length in drawn), key=lambda p: p[2])
    by_hand = [
        sum(
            any(d == device and s != stream and begin <= t < until for d, s, begin, until in pieces)
            for t in range(start, end)
        )
        for device, stream, start, end in pieces
    ]

    assert beside_ns(work(*pieces)).tolist() == by_hand
