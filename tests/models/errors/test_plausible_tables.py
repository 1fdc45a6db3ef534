"""Tests of pgmest.models.errors.plausible_tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest.models.errors.plausible_tables import sums_along, without_negative_counts


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
    np.testing.assert_allclose(found.reshape(3, -1).sum(axis=1), totals, atol=1e-9)


@given(codes=st.integers(2, 5), seed=st.integers(0, 1000))
def test_counts_of_codes_are_the_nearest_ones_without_negative_ones(codes: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    tables = generator.normal(1.0, 3.0, (20, codes)) * generator.choice([0.3, 1.0, 3.0], codes)
    spread = np.var(tables, axis=0)
    for table, found in zip(tables, without_negative_counts(tables), strict=True):
        total = max(float(table.sum()), 0.0)
        best = np.inf
        for chosen in range(1, 2**codes):  # the codes with records; the others have none
            some = np.array([bool(chosen >> place & 1) for place in range(codes)])
            counts = np.where(some, table - spread * (table[some].sum() - total) / spread[some].sum(), 0.0)
            if counts.min() >= -1e-9:
                best = min(best, float(np.sum((counts - table) ** 2 / spread)))
        assert np.sum((found - table) ** 2 / spread) <= best * (1 + 1e-3) + 1e-6


def test_strong_dependence_stays_as_strong() -> None:
    """Two attributes are almost the same, and a third depends on them; the sums along all axes must be found."""
    table = np.eye(4)[:, :, None] * np.array([900.0, 60.0, 8.0, 1.0])[:, None, None] * np.array([0.7, 0.2, 0.1]) + 0.01
    tables = table + np.random.default_rng(0).normal(0.0, 1.0, (200, *table.shape)) * np.sqrt(table + 0.1)
    found = without_negative_counts(tables)
    for axis in (1, 2, 3):
        wanted = without_negative_counts(tables.sum(axis=axis))
        assert np.abs(found.sum(axis=axis) - wanted).sum() < 0.02 * wanted.sum()
    pair = found.sum(axis=3)
    assert (pair.trace(axis1=1, axis2=2) > 0.98 * pair.sum(axis=(1, 2))).all()


def test_noise_above_the_counts_leaves_tables_as_uneven_as_true_ones_may_be() -> None:
    """The mean code of 16 codes could be anything if noise is 2.5 times the counts; scaled clipped counts are even."""
    tables = 80.0 + np.random.default_rng(0).normal(0.0, 200.0, (300, 16))
    clipped = np.maximum(tables, 0.0)
    found = without_negative_counts(tables)
    spread, even = (np.std(one @ np.arange(16) / one.sum(axis=1)) for one in (found[found.sum(axis=1) > 0], clipped))
    assert spread > 1.35 * even


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


@given(shape=st.lists(st.integers(0, 3), min_size=1, max_size=4), seed=st.integers(0, 1000))
def test_sums_along_an_axis(shape: list[int], seed: int) -> None:
    tables = np.random.default_rng(seed).normal(size=(3, *shape))
    for axis in range(len(shape)):
        np.testing.assert_allclose(sums_along(tables, axis), tables.sum(axis=axis + 1), atol=1e-12)


def test_the_given_tables_stay_as_they_are() -> None:
    tables = np.random.default_rng(0).normal(1.0, 2.0, (3, 4, 3, 2))
    before = tables.copy()
    without_negative_counts(tables)
    np.testing.assert_array_equal(tables, before)


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


def test_correlations_stay_as_strong_where_errors_are_as_large_as_counts() -> None:
    """Without the correction, zeros take off a third of each correlation."""
    generator, codes = np.random.default_rng(0), np.arange(8.0)
    ranks = (codes - codes.mean()) / codes.std()
    strength = generator.uniform(-0.6, 0.6, 400)
    table = 100.0 * (1 + strength[:, None, None] * np.outer(ranks, ranks)) + generator.normal(0.0, 150.0, (400, 8, 8))
    tables = table + 100.0 - table.mean(axis=2, keepdims=True)
    tables = tables + 100.0 - tables.mean(axis=1, keepdims=True)
    found = without_negative_counts(tables)
    before, after = (np.einsum("nij,i,j->n", one, ranks, ranks) / one.sum(axis=(1, 2)) for one in (tables, found))
    assert found.min() >= 0
    assert np.abs(sums_along(found, 1) - 800.0).mean() < 0.001 * 800.0
    strong = (np.abs(before) > 0.3) & (np.abs(before) < 0.7)
    assert (after[strong] / before[strong]).mean() > 0.95
