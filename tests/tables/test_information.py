"""Mutual information of many tables at once is that of each."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.tables import information
from pgmest.tables.information import mutual_information, pair_information


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_many_tables_have_the_information_of_each(at_once, monkeypatch):
    monkeypatch.setattr(information, "PAIRS_AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    shapes = [(2, 3), (1, 4), (5, 5), (2, 3), (2, 3), (3, 2), (5, 5)]
    tables = [pg.Factor({"a": a, "b": b}, rng.poisson(0.7, (a, b)) + np.eye(a, b)) for a, b in shapes]
    expected = [mutual_information(table, ("a",), ("b",)) for table in tables]
    np.testing.assert_allclose(pair_information(tables), expected, rtol=1e-12, atol=1e-14)
    assert max(expected) > 0.1


def test_a_table_without_counts_says_nothing():
    empty, full = (pg.Factor({"a": 2, "b": 2}, values) for values in (np.zeros((2, 2)), 3 * np.eye(2)))
    assert pair_information([empty, full]) == pytest.approx([0.0, np.log(2)])
