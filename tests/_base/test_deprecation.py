"""Names of version 0.1 inside modules give what they have become, and warn."""

import importlib

import numpy as np
import pytest

import pgmest as pg
from pgmest._base.deprecation import renamed_names

OLD = [
    ("pgmest.queries", "Query", "pgmest.queries", "MatrixQuery"),
    ("pgmest.queries.base", "Query", "pgmest.queries", "MatrixQuery"),
    ("pgmest.strategies", "LeastSquaresAnswers", "pgmest.models.least_squares", "LeastSquaresParts"),
    ("pgmest.priors", "synthesise_hierarchy", "pgmest.priors", "synthesize_hierarchy"),
    ("pgmest.priors.ide.hierarchy", "synthesise_hierarchy", "pgmest.priors", "synthesize_hierarchy"),
    ("pgmest.priors.ide.workload", "normalised_information", "pgmest.priors.ide.workload", "normalized_information"),
    ("pgmest.transforms", "bucketise", "pgmest.transforms", "bucketize"),
    ("pgmest.transforms.public", "bucketise", "pgmest.transforms", "bucketize"),
    ("pgmest.privacy", "Neighbours", "pgmest.privacy", "Neighbors"),
]


@pytest.mark.parametrize(("module", "old", "place", "name"), OLD)
def test_old_names_warn_and_work(module, old, place, name):
    with pytest.warns(DeprecationWarning, match=rf"{module}\.{old} is now pgmest\..*{name}"):
        found = getattr(importlib.import_module(module), old)
    assert found is getattr(importlib.import_module(place), name)


def test_other_names_are_missing_as_ever():
    with pytest.raises(AttributeError, match=r"module 'pgmest\.queries' has no attribute 'Quarry'"):
        _ = pg.queries.Quarry
    with pytest.raises(AttributeError, match="module 'm' has no attribute 'x'"):
        renamed_names("m", {})("x")


def test_old_methods_of_queries_warn_and_work():
    kron, query = pg.Kron({"a": pg.queries.prefix(3)}), pg.queries.prefix(3)
    with pytest.warns(DeprecationWarning, match="apply_cells is now apply"):
        assert kron.apply_cells(np.ones(3)).tolist() == [1, 2, 3]
    for one in (kron, query):
        with pytest.warns(DeprecationWarning, match="apply_transpose is now transpose"):
            assert one.apply_transpose(np.ones(3)).tolist() == [3, 2, 1]
    with pytest.warns(DeprecationWarning, match="transpose"):
        assert query.apply_transpose(np.ones((2, 3)), 1).tolist() == [[3, 2, 1]] * 2
