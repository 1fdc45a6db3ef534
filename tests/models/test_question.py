"""Questions: many tables at once are answered as their rows say, and all ways of asking read the same arguments."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import pgmest as pg
from pgmest.errors import ArgumentError, UnknownAttributeError
from pgmest.models.question import Question

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
    "operator": (aslinearoperator(ROWS), WHOLE),
    "ranges": (pg.queries.all_range(24), WHOLE),
    "measured cells": (pg.LinearMeasurement(np.zeros((3, 4, 2)), WHOLE, 1.0), None),
    "measured kron": (pg.LinearMeasurement(np.zeros(8), WHOLE, 1.0, KRON), None),
    "measured rows": (pg.LinearMeasurement(np.zeros(5), WHOLE, 1.0, ROWS), None),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("count", [1, 7])
def test_answers_about_many_tables_are_those_about_each(name, count):
    tables = np.random.default_rng(0).normal(size=(count, *DOMAIN.shape))
    question = Question.of(DOMAIN, *QUERIES[name])
    tables = tables.transpose(0, *(axis + 1 for axis in DOMAIN.axes(question.names)))
    found, rows = question.apply(tables), question.rows().toarray()
    each = np.stack([rows @ table.ravel() for table in tables]).reshape(count, *question.axes.shape)
    assert found.shape == each.shape
    np.testing.assert_allclose(found[0], question.value(tables[0]).values, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found, each, rtol=0, atol=1e-13)


@pytest.mark.parametrize("way", ["answer", "errors", "auto", "noise", "bounds", "uncertainty"])
class TestCliques:
    """Of plain attributes and of levels, in every way of asking."""

    TREE = DOMAIN.with_hierarchies(pg.Hierarchy("b", {"half": [0, 0, 1, 1]}))
    MODEL = pg.estimate([pg.LinearMeasurement(np.arange(24.0).reshape(3, 4, 2), WHOLE, 1.0)], TREE)

    def ask(self, way, query, clique) -> Any:
        if way in ("answer", "uncertainty"):
            return getattr(self.MODEL, way)(query, clique)
        return self.MODEL.interval(query, clique, kind=way)

    @pytest.mark.parametrize("names", [("a", "c"), ("b@half", "a")])
    @pytest.mark.parametrize("query", [np.ones((2, 6)), lambda table: table.values.max()], ids=["matrix", "function"])
    def test_may_be_iterators(self, way, query, names):
        if way == "bounds" and callable(query):
            pytest.skip("bounds of functions do not exist")
        found, expected = self.ask(way, query, iter(names)), self.ask(way, query, names)
        values = [getattr(one, "stddev", getattr(one, "low", one)) for one in (found, expected)]
        assert values[0].domain == values[1].domain
        np.testing.assert_array_equal(values[0].values, values[1].values)

    def test_are_refused_without_names(self, way):
        with pytest.raises(ArgumentError, match="clique=5 is not valid: it must be attributes"):
            self.ask(way, np.ones((2, 6)), 5)


@pytest.mark.parametrize("domain", [DOMAIN, TestCliques.TREE])
def test_marginals_of_no_names_are_refused(domain):
    model: Any = pg.Model(pg.CliqueVector.zeros(domain, [WHOLE]), total=5)
    for wrong in (5, None, KRON, len):
        with pytest.raises(UnknownAttributeError, match="is not an attribute of the domain"):
            model.project(wrong)
    with pytest.raises(ArgumentError, match="given=5 is not valid: it must be a mapping"):
        model.project("a", 5)
