"""Medians and quantiles are numpy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from perfzero.series.quantiles import column_quantiles, median

VALUES = st.floats(-1e3, 1e3, allow_subnormal=False)


@given(arrays(np.float64, st.integers(1, 40), elements=VALUES))
def test_the_median_is_that_of_numpy(values: np.ndarray) -> None:
    before = values.copy()

    assert median(values) == np.median(values)
    np.testing.assert_array_equal(values, before)


@pytest.mark.filterwarnings("ignore:All-NaN slice")
@given(
    arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=30), elements=VALUES | st.just(np.nan)),
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=3),
)
def test_quantiles_of_columns_are_those_of_numpy(table: np.ndarray, quantiles: list[float]) -> None:
    expected = np.nanquantile(table, quantiles, axis=0)

    np.testing.assert_allclose(column_quantiles(table, quantiles), expected, rtol=0, atol=1e-9)


def test_a_column_of_which_nothing_is_known_has_no_quantile() -> None:
    table = np.array([[1.0, np.nan], [3.0, np.nan]])

    np.testing.assert_array_equal(column_quantiles(table, [0.25]), [[1.5, np.nan]])
