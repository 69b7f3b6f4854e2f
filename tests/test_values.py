"""Tables of samples keep the rows that they are asked to keep, and are not copied for nothing."""

from __future__ import annotations

import numpy as np
import pytest

from perfzero.values import Samples

START_NS = np.array([0, 10, 20], np.int64)
TABLE = Samples(START_NS, START_NS + 10, {"gr_active": np.array([0.1, 0.2, 0.3])})


def test_a_table_of_which_every_row_is_kept_is_itself():
    assert TABLE.where(np.ones(3, np.bool_)) is TABLE
    assert TABLE.between(0, 30) is TABLE


def test_a_table_that_loses_a_row_is_a_new_one_and_leaves_the_old_one_whole():
    kept = TABLE.between(0, 29)

    assert kept.columns["gr_active"].tolist() == [0.1, 0.2]
    assert len(TABLE) == 3


def test_a_choice_of_rows_of_another_length_is_refused():
    with pytest.raises(IndexError):
        TABLE.where(np.ones(4, np.bool_))
