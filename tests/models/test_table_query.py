"""Queries about many tables at once are answered as those about one table."""

import numpy as np
import pytest
from scipy import sparse

import pgmest as pg
from pgmest.models.table_query import answer_table, answer_tables
from pgmest.tables.factor import Factor

DOMAIN = pg.Domain({"a": 3, "b": 4, "c": 2})
WHOLE = ("a", "b", "c")
ROWS = np.random.default_rng(1).normal(size=(5, 24))
KRON = pg.Kron({"b": pg.queries.prefix(4), "c": pg.queries.haar(2), "a": [[1.0, -2.0, 0.5]]})
QUERIES = {
    "cells": (WHOLE, None),
    "kron": (KRON, None),
    "matrix": (ROWS, WHOLE),
    "one row": (ROWS[0].tolist(), WHOLE),
    "sparse": (sparse.csr_array(ROWS), WHOLE),
    "ranges": (pg.queries.all_range(24), WHOLE),
    "measured cells": (pg.LinearMeasurement(np.zeros((3, 4, 2)), WHOLE, 1.0), None),
    "measured kron": (pg.LinearMeasurement(np.zeros(8), WHOLE, 1.0, KRON), None),
    "measured rows": (pg.LinearMeasurement(np.zeros(5), WHOLE, 1.0, ROWS), None),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("count", [1, 7])
def test_answers_about_many_tables_are_those_about_each(name, count):
    tables = np.random.default_rng(0).normal(size=(count, *DOMAIN.shape))
    found = answer_tables(tables, DOMAIN, *QUERIES[name])
    each = np.stack([answer_table(Factor(DOMAIN, table), *QUERIES[name]).values for table in tables])
    assert found.shape == each.shape
    np.testing.assert_allclose(found, each, rtol=0, atol=1e-13)
