"""Properties of a matrix are computed once, and again after its numbers changed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from pgmest.queries import Kron, as_matrix_query, haar, prefix
from pgmest.queries.matrices import DenseQuery
from pgmest.queries.norms import cached_by_entries, entry_bounds, integer_valued, largest_l1, largest_l2_squared


def test_equal_matrices_are_looked_at_once():
    seen = []
    noted = cached_by_entries(lambda matrix: seen.append(matrix) or len(seen))
    one, other = as_matrix_query([[1.0, 2.0]]), as_matrix_query([[1.0], [2.0]])
    assert [noted(one), noted(other), noted(one), noted(as_matrix_query([[1.0, 2.0]]))] == [1, 2, 1, 1]


@pytest.mark.parametrize("way", ["the array", "a view of it", "its flag"])
def test_a_matrix_that_was_changed_is_looked_at_anew(way):
    """However: what is charged for an answer must be the sensitivity of the matrix that answers."""
    values = np.array([[1.0, -2.0]])
    held = values.view() if way == "a view of it" else values
    held.flags.writeable = way == "the array"
    query = DenseQuery((1, 2), {"kind": "matrix", "rows": values}, held)
    assert (largest_l1(query), integer_valued(query)) == (2, True)
    values.flags.writeable = True
    values[0, 0] = 5.5
    values.flags.writeable = way != "its flag"
    assert (largest_l1(query), largest_l2_squared(query), integer_valued(query)) == (5.5, 5.5**2, False)


def test_queries_that_share_a_matrix_have_norms_of_their_own():
    shared, half = as_matrix_query([[2.0, -1.0], [0.0, 3.0]]), as_matrix_query([[0.5]])
    assert largest_l1(Kron({"a": shared})) == 4
    assert largest_l1(Kron({"a": shared, "b": shared})) == 16
    assert largest_l2_squared(Kron({"a": shared, "b": half})) == Fraction(10, 4)


@pytest.mark.parametrize(
    "query",
    [
        None,
        prefix(4),
        haar(4),
        as_matrix_query([[0.5, -2.0]]),
        as_matrix_query(csr_array([[0.0, 3.0, 0.0]])),
        Kron({"a": haar(2), "b": [[-3.0, 1.0]], "c": [[0.25]]}),
    ],
    ids=["cells", "prefix", "haar", "dense", "sparse", "kron"],
)
def test_entry_bounds_are_attained(query):
    matrix = np.eye(2) if query is None else query.matrix()
    assert entry_bounds(query) == (matrix.min(), matrix.max())
