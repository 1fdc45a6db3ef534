"""Sensitivities against all neighbors of small datasets, and grids against the matrices they round."""

from fractions import Fraction
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from pgmest import queries
from pgmest.errors import ArgumentError, QueryError
from pgmest.privacy import AddRemove, Replace
from pgmest.privacy import sensitivity as module
from pgmest.privacy.grid import on_grid
from pgmest.privacy.neighbors import root_up
from pgmest.queries import Kron

MATRICES = st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-3, 3).map(float))
)
QUERIES = [
    queries.identity(4),
    queries.prefix(4),
    queries.haar(4),
    queries.all_range(3),
    queries.compress(4, [0, 1, 1, 0]),
    queries.as_query(sparse.csr_array([[0.0, -2.0], [1.0, 0.0]])),
    queries.mean(3),
    Kron({"a": queries.prefix(3), "b": [[1.0, -1.0], [0.5, 0.0]]}),
]


def distances(matrix, relation, records, norm):
    """Return how far answers move for every individual: multisets of `records` or fewer cells, added or replaced."""
    sizes = range(1, records + 1)
    cells = range(matrix.shape[1])
    people = [matrix[:, list(who)].sum(axis=1) for size in sizes for who in combinations_with_replacement(cells, size)]
    if relation is AddRemove:
        return max(np.linalg.norm(person, norm) for person in people)
    same_size = [[p for p, s in zip(people, sizes_of(cells, records), strict=True) if s == size] for size in sizes]
    return max(np.linalg.norm(one - two, norm) for group in same_size for one in group for two in group)


def sizes_of(cells, records):
    return [size for size in range(1, records + 1) for _ in combinations_with_replacement(cells, size)]


@pytest.mark.parametrize("relation", [AddRemove, Replace])
@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_sensitivity_is_the_largest_distance_of_neighbors(query, relation):
    for records in (1, 2):
        neighbors = relation(records=records)
        for norm, sensitivity in ((1, neighbors.l1_sensitivity), (2, neighbors.l2_sensitivity)):
            expected = distances(query.matrix(), relation, records, norm)
            assert sensitivity(query) == pytest.approx(expected, rel=1e-8)
            assert sensitivity(query) >= expected * (1 - 1e-15)


@given(MATRICES, st.sampled_from([AddRemove, Replace]))
def test_sensitivity_of_any_integer_matrix(matrix, relation):
    for norm, sensitivity in ((1, relation().l1_sensitivity), (2, relation().l2_sensitivity)):
        expected = distances(matrix, relation, 1, norm)
        assert expected <= sensitivity(matrix) <= expected * (1 + 1e-12)


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_bounds_for_matrices_too_large_to_write_down(query, monkeypatch):
    exact = Replace().l1_sensitivity(query), Replace().l2_sensitivity(query)
    monkeypatch.setattr(module, "MOST_COLUMNS", 0)
    bounds = Replace().l1_sensitivity(query), Replace().l2_sensitivity(query)
    assert all(one <= other <= 4 * one for one, other in zip(exact, bounds, strict=True))


def test_identity_and_count():
    assert (AddRemove().l1_sensitivity(), AddRemove(3).l2_sensitivity(), AddRemove(3).count_sensitivity) == (1, 3, 3)
    assert (Replace(2).l1_sensitivity(), Replace(2).count_sensitivity) == (4, 0)
    assert Replace(2).l2_sensitivity() == pytest.approx(2 * 2**0.5)
    assert Replace().l1_sensitivity(queries.total(5)) == 0.0


@pytest.mark.parametrize("records", [0, -1, 1.5, True])
def test_records_that_cannot_be(records):
    with pytest.raises(ArgumentError, match="records="):
        AddRemove(records=records)


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_integer_queries_stay_as_they_are(query):
    kept, step = on_grid(query)
    if isinstance(query, Kron):
        assert step < 1.0
    else:
        assert kept is query
        assert step == 1.0


@given(arrays(np.float64, (3, 4), elements=st.floats(-100.0, 100.0)))
@example(np.full((3, 4), 5e-324))
def test_rounding_is_to_multiples_of_the_step_and_near(matrix):
    for given_as in (matrix, sparse.csr_array(matrix)):
        rounded, step = on_grid(queries.as_query(given_as))
        dense = rounded.matrix()
        assert np.array_equal(dense / step, np.rint(dense / step))
        assert np.abs(dense - matrix).max() <= step / 2
        assert step <= max(1e-6 * np.abs(matrix).max(), 1.0)


def test_answers_on_the_grid_are_exact():
    rng = np.random.default_rng(0)
    query = Kron({"a": rng.random((5, 6)), "b": rng.random((4, 7))})
    rounded, step = on_grid(query)
    counts = rng.integers(0, 10**6, (6, 7))
    assert isinstance(rounded, Kron)
    integers = [np.rint(factor.matrix() * 2.0**30).astype(object) for factor in rounded.factors.values()]
    exact = integers[0] @ counts.astype(object) @ integers[1].T
    answers = rounded.apply(counts.astype(float))
    assert np.array_equal((answers * 2.0**60).astype(object), exact)
    assert np.array_equal(answers / step, np.rint(answers / step))


def test_queries_that_cannot_be_put_on_a_grid():
    with pytest.raises(QueryError, match="OperatorQuery are not known"):
        on_grid(queries.as_query(aslinearoperator(np.eye(3))))
    with pytest.raises(QueryError, match="too large to count exactly"):
        on_grid(queries.as_query([[1e12]]))
    with pytest.raises(QueryError, match="too large to count exactly"):
        on_grid(Kron({"a": [[1e6]], "b": [[1e6]]}))
    with pytest.raises(QueryError, match=r"steps of 2\^-\d+ counts: too small"):
        on_grid(Kron({name: [[1e-100, 2.5e-100]] for name in "abcd"}))


FLOATS = st.one_of(
    st.integers(-(2**40), 2**40).map(float),
    st.floats(-4, 4),
    st.sampled_from([0.0, 1e-170, -5e-324, 1.7e308, 2.0**30, -(2.0**31), 1 / 3]),
)


def column_distances(matrix, order):
    """The exact norms of the columns, and of their differences, in rational numbers."""
    columns = [[Fraction(entry) for entry in column] for column in matrix.T.tolist()]
    norms = [sum(abs(entry) ** order for entry in column) for column in columns]
    apart = [sum(abs(a - b) ** order for a, b in zip(*pair, strict=True)) for pair in combinations(columns, 2)]
    return max(norms), max(apart, default=0)


@given(st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(lambda s: arrays(np.float64, s, elements=FLOATS)))
def test_sensitivity_is_exact_for_all_floats(matrix):
    for query in (queries.as_query(matrix), queries.as_query(sparse.csr_array(matrix))):
        for order, norm, apart in ((1, "exact_l1", "exact_l1"), (2, "exact_l2_squared", "exact_l2_squared")):
            largest, widest = column_distances(matrix, order)
            assert getattr(AddRemove(), norm)(query) == largest
            assert getattr(Replace(), apart)(query) == widest
            assert getattr(AddRemove(3), norm)(query) == 3**order * largest


def corner(value, beside=0.0):
    return np.array([[0.0, 0.0, 0.0], [0.0, beside, value]])


@given(st.lists(arrays(np.float64, (2, 3), elements=FLOATS), min_size=1, max_size=3))
@example([corner(1.0), corner(2.0**31 + 1), corner(1.0)])  # squares beyond 2^53
@example([corner(1.0), corner(1e-170, 1.0), corner(1.0)])
@example([corner(1.0), corner(5e-324, 1.0), corner(0.0)])
def test_sensitivity_of_a_product_is_that_of_its_matrix(factors):
    query = Kron(dict(zip("abc", factors, strict=False)))
    exact = np.ones((1, 1), dtype=object)
    for factor in factors:
        exact = np.kron(exact, np.array([[Fraction(entry) for entry in row] for row in factor.tolist()], dtype=object))
    for order, name in ((1, "exact_l1"), (2, "exact_l2_squared")):
        largest, widest = column_distances(exact, order)
        assert getattr(AddRemove(), name)(query) == largest
        assert getattr(Replace(), name)(query) == widest


@pytest.mark.parametrize("relation", [AddRemove(), Replace(2)])
def test_no_sensitivity_underflows(relation):
    tiny = [[1e-170, 0.0], [0.0, 1e-170]]
    products = Kron({name: [[1e-100, 0.0], [0.0, 1e-100]] for name in "ab"}), Kron({"a": tiny, "b": tiny})
    for query in (tiny, sparse.csr_array(tiny), *products, [[5e-324, 0.0]]):
        assert relation.l1_sensitivity(query) > 0.0
        assert relation.l2_sensitivity(query) > 0.0
        assert relation.exact_l2_squared(query) > 0


@given(st.fractions(min_value=0, max_value=10**30), st.integers(-700, 700))
def test_roots_are_rounded_up_and_near(square, exponent):
    exact = square * Fraction(2) ** (2 * (exponent // 2))
    root = root_up(exact)
    assert Fraction(root) ** 2 >= exact
    assert Fraction(root) ** 2 <= exact * (1 + Fraction(1, 10**15)) or root < 1e-300
