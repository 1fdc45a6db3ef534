"""Tests of pgmest.models.errors.plausible_tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest.models.errors.plausible_tables import without_negative_counts


@given(shape=st.lists(st.integers(1, 3), min_size=1, max_size=4), seed=st.integers(0, 1000))
def test_tables_without_negative_counts_stay_as_they_are(shape: list[int], seed: int) -> None:
    tables = np.random.default_rng(seed).integers(0, 3, (2, *shape)).astype(float)
    np.testing.assert_array_equal(without_negative_counts(tables), tables)


@given(shape=st.lists(st.integers(1, 3), min_size=1, max_size=4), seed=st.integers(0, 1000))
def test_the_number_of_records_stays_as_it_is(shape: list[int], seed: int) -> None:
    tables = np.random.default_rng(seed).normal(1.0, 2.0, (3, *shape))
    found = without_negative_counts(tables)
    assert found.min() >= 0
    totals = np.maximum(tables.reshape(3, -1).sum(axis=1), 0.0)
    assert (found.reshape(3, -1).sum(axis=1) <= totals + 1e-9).all()
    if len(shape) == 1:
        np.testing.assert_allclose(found.sum(axis=1), totals)


def test_margins_stay_as_they_are_where_clipping_moves_them() -> None:
    generator = np.random.default_rng(0)
    table = generator.gamma(0.3, 50.0, (8, 7, 5))
    tables = table + generator.normal(0.0, 20.0, (50, *table.shape))
    found, clipped = without_negative_counts(tables), np.maximum(tables, 0.0)
    for axis in (1, 2, 3):
        wanted = np.maximum(tables.sum(axis=axis), 0.0)
        off, before = (float(np.abs(one.sum(axis=axis) - wanted).mean()) for one in (found, clipped))
        assert off < 0.4 * before
    rows = np.maximum(tables.sum(axis=(2, 3)), 0.0)
    assert np.abs(found.sum(axis=(2, 3)) - rows).mean() < 0.05 * np.abs(clipped.sum(axis=(2, 3)) - rows).mean()


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ([[3.0, -1.0]], [[2.0, 0.0]]),
        ([[-3.0, 1.0]], [[0.0, 0.0]]),
        ([[[-1.0, 2.0], [2.0, 1.0]]], [[[0.0, 1.0], [1.0, 2.0]]]),
        ([[[-1.0, -1.0], [-1.0, -1.0]]], [[[0.0, 0.0], [0.0, 0.0]]]),
    ],
    ids=["one negative", "negative in all", "of two attributes", "all negative"],
)
def test_small_tables(tables: list, expected: list) -> None:
    np.testing.assert_allclose(without_negative_counts(np.array(tables)), expected, atol=0.15)


def test_tables_without_cells() -> None:
    assert without_negative_counts(np.zeros((2, 0, 3))).shape == (2, 0, 3)
