"""What is known of a matrix is found out once, where it cannot change."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pgmest.queries import Kron, as_matrix_query
from pgmest.queries.matrices import DenseQuery
from pgmest.queries.norms import largest_l1, largest_l2_squared, once_each


def test_a_matrix_that_cannot_change_is_looked_at_once():
    seen = []
    noted = once_each(lambda matrix: seen.append(matrix) or len(seen))
    one, other = as_matrix_query([[1.0, 2.0]]), as_matrix_query([[1.0, 2.0]])
    assert [noted(one), noted(other), noted(one)] == [1, 2, 1]


def test_a_matrix_that_can_change_is_looked_at_anew():
    values = np.array([[1.0, -2.0]])
    query = DenseQuery((1, 2), {"kind": "matrix", "rows": values}, values)
    assert largest_l1(query) == 2
    values[0, 0] = 5.0
    assert (largest_l1(query), largest_l2_squared(query)) == (5, 25)


def test_queries_that_share_a_matrix_have_norms_of_their_own():
    shared, half = as_matrix_query([[2.0, -1.0], [0.0, 3.0]]), as_matrix_query([[0.5]])
    assert largest_l1(Kron({"a": shared})) == 4
    assert largest_l1(Kron({"a": shared, "b": shared})) == 16
    assert largest_l2_squared(Kron({"a": shared, "b": half})) == Fraction(10, 4)
