"""Queries: each is compared with the matrix that its definition writes down."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from pgmest import Domain, Factor, queries
from pgmest.errors import DuplicateAttributeError, QueryError, ShapeError, UnknownAttributeError
from pgmest.queries import Kron, as_query


def every_query(n, rng):
    """One of each kind over n values."""
    start = int(rng.integers(n))
    matrix = rng.normal(size=(3, n)) * (rng.random((3, n)) < 0.6)
    return {
        "identity": queries.identity(n),
        "total": queries.total(n),
        "point": queries.point(n, start),
        "interval": queries.interval(n, start, int(rng.integers(start, n)) + 1),
        "subset": queries.subset(n, rng.random(n) < 0.5),
        "prefix": queries.prefix(n),
        "compress": queries.compress(n, rng.integers(4, size=n), count=5),
        "mean": queries.mean(n, rng.normal(size=n)),
        "moments": queries.moments(n, 3),
        "all_range": queries.all_range(n),
        "haar": queries.haar(n),
        "hierarchical": queries.hierarchical(n, int(rng.integers(2, 5))),
        "dense": as_query(matrix),
        "sparse": as_query(sparse.csc_matrix(matrix)),
        "operator": as_query(aslinearoperator(matrix)),
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (queries.identity(2), [[1, 0], [0, 1]]),
        (queries.total(3), [[1, 1, 1]]),
        (queries.point(3, 1), [[0, 1, 0]]),
        (queries.interval(4, 1, 3), [[0, 1, 1, 0]]),
        (queries.subset(4, [3, 0, 3]), [[1, 0, 0, 1]]),
        (queries.subset(3, np.array([True, False, True])), [[1, 0, 1]]),
        (queries.prefix(3), [[1, 0, 0], [1, 1, 0], [1, 1, 1]]),
        (queries.compress(4, [1, 0, 1, 3]), [[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]),
        (queries.compress(4, lambda code: code % 2), [[1, 0, 1, 0], [0, 1, 0, 1]]),
        (queries.mean(3), [[0, 1, 2]]),
        (queries.mean(2, [-1.5, 4]), [[-1.5, 4]]),
        (queries.moments(3, 2, [1, -2, 3]), [[1, -2, 3], [1, 4, 9]]),
        (queries.all_range(3), [[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 0], [0, 1, 1], [0, 0, 1]]),
        (queries.haar(4), [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]]),
        (queries.haar(3), [[1, 1, 1], [1, -1, -1], [0, 1, -1]]),
        (queries.haar(1), [[1]]),
        (queries.hierarchical(3), [[1, 1, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0], [0, 0, 1]]),
        (queries.hierarchical(4, branching=4), [[1, 1, 1, 1], *np.eye(4)]),
        (queries.hierarchical(1), [[1]]),
    ],
    ids=str,
)
def test_the_matrix_is_the_one_defined(query, expected):
    assert query.shape == np.shape(expected)
    np.testing.assert_array_equal(query.matrix(), expected)
    np.testing.assert_array_equal(np.asarray(query), expected)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_products_along_any_axis_are_those_of_the_matrix(n, seed):
    rng = np.random.default_rng(seed)
    for query in every_query(n, rng).values():
        matrix, some = query.matrix(), rng.integers(0, query.rows, 2)
        assert matrix.shape == query.shape
        np.testing.assert_allclose(query.sparse_rows().toarray(), matrix, atol=1e-11)
        np.testing.assert_allclose(query.sparse_rows(some).toarray(), matrix[some], atol=1e-11)
        for axis, shape in ((0, (n,)), (0, (n, 3)), (1, (2, n, 3)), (-1, (2, n))):
            values = rng.normal(size=shape)
            expected = np.moveaxis(np.tensordot(matrix, values, (1, axis)), 0, axis)
            np.testing.assert_allclose(query.apply(values, axis), expected, atol=1e-11)
            residual = rng.normal(size=expected.shape)
            expected = np.moveaxis(np.tensordot(matrix.T, residual, (1, axis)), 0, axis)
            np.testing.assert_allclose(query.transpose(residual, axis), expected, atol=1e-11)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_column_norms_are_those_of_the_matrix(n, seed):
    rng = np.random.default_rng(seed)
    for query in every_query(n, rng).values():
        weights = rng.random(query.rows)
        np.testing.assert_allclose(query.squared().matrix(), query.matrix() ** 2, atol=1e-12)
        np.testing.assert_allclose(query.weighted_column_squares(weights), weights @ query.matrix() ** 2, atol=1e-11)
        np.testing.assert_allclose(query.max_column_norm(), np.linalg.norm(query.matrix(), axis=0).max(), rtol=1e-12)


def test_nothing_is_densified():
    n = 200_000  # each matrix would have 4e10 entries
    counts = np.ones(n)
    assert queries.prefix(n).apply(counts)[-1] == n
    assert queries.hierarchical(n).max_column_norm() == np.sqrt(19)
    assert queries.haar(n).apply(counts)[0] == n
    assert queries.compress(n, np.arange(n) // 2).apply(counts).tolist() == [2.0] * (n // 2)
    square = Kron({"a": queries.all_range(60), "b": queries.all_range(60), "c": queries.total(100)})
    assert square.transpose(np.ones(square.answer_shape)).shape == (60, 60, 100)


def test_a_query_prints_as_the_call_that_makes_it():
    assert str(queries.hierarchical(8, 4)) == "hierarchical(8, branching=4)"
    assert repr(Kron({"age": queries.prefix(3), "sex": [[1, -1]]})) == (
        "Kron(age: prefix(3), sex: matrix(2, rows=[[1.0, -1.0]]))"
    )


def test_a_matrix_is_copied_and_read_only():
    matrix = np.eye(2)
    query = as_query(matrix)
    matrix[0, 0] = 5
    assert query.matrix()[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        query.values[0, 0] = 5  # pyright: ignore[reportAttributeAccessIssue]


DOMAIN = Domain({"a": 3, "b": 2, "c": 4})


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(["a", "b", "c"]), count=st.integers(0, 3), seed=st.integers(0, 2**32 - 1))
def test_a_kron_is_the_kronecker_product_on_the_marginal(order, count, seed):
    rng = np.random.default_rng(seed)
    table = Factor(DOMAIN, rng.normal(size=DOMAIN.shape))
    chosen = order[:count]
    kinds = [every_query(DOMAIN[name], rng) for name in chosen]
    kron = Kron({name: kind[rng.choice(list(kind))] for name, kind in zip(chosen, kinds, strict=True)})
    matrix = np.ones((1, 1))
    for query in kron.factors.values():
        matrix = np.kron(matrix, query.matrix())
    np.testing.assert_allclose(kron.matrix(), matrix)
    answers = kron.apply(table)
    assert answers.shape == kron.answer_shape
    assert answers.size == kron.rows
    np.testing.assert_allclose(answers.ravel(), matrix @ table.project(chosen).datavector(), atol=1e-10)
    residual = rng.normal(size=kron.rows)
    np.testing.assert_allclose(kron.transpose(residual).ravel(), matrix.T @ residual, atol=1e-10)
    np.testing.assert_allclose(
        kron.transpose(residual.reshape(kron.answer_shape)).ravel(), matrix.T @ residual, atol=1e-10
    )
    np.testing.assert_allclose(kron.max_column_norm(), np.linalg.norm(matrix, axis=0).max(), atol=1e-10)
    np.testing.assert_allclose(kron.sparse_rows().toarray(), matrix, atol=1e-10)


def test_kron_takes_pairs_and_every_kind_of_matrix():
    matrix = np.array([[1.0, -2.0]])
    table = Factor(Domain({"b": 2}), [3.0, 4.0])
    for given_as in (matrix, matrix.tolist(), sparse.coo_array(matrix), aslinearoperator(matrix), as_query(matrix)):
        assert Kron([("b", given_as)]).apply(table).tolist() == [-5.0]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: queries.prefix(0), "a query needs a positive integer number of values n, got 0."),
        (lambda: queries.identity(2.5), "a query needs a positive integer number of values n, got 2.5."),  # pyright: ignore[reportArgumentType]
        (lambda: queries.identity(True), "a query needs a positive integer number of values n, got True."),
        (lambda: queries.point(3, 3), "code must be an integer in 0..2, got 3."),
        (lambda: queries.point(3, "x"), "code must be an integer in 0..2, got 'x'."),  # pyright: ignore[reportArgumentType]
        (lambda: queries.interval(3, 2, 5), "stop must be an integer in 0..3, got 5."),
        (
            lambda: queries.interval(3, 2, 2),
            "the interval from 2 to 2 is empty; stop is exclusive and must exceed start.",
        ),
        (lambda: queries.subset(3, [0, 7]), "a member of the subset must be an integer in 0..2, got 7."),
        (
            lambda: queries.subset(3, np.array([True])),
            "the mask of a subset of 3 codes: expected shape (3,), got (1,).",
        ),
        (
            lambda: queries.compress(3, [0, 1]),
            "the mapping of compress: expected one group for each of 3 codes, got 2.",
        ),
        (lambda: queries.compress(2, [0, -1]), "a group of compress must be an integer from 0, got -1."),
        (lambda: queries.compress(2, [0, 3], count=2), "a group of compress must be an integer in 0..1, got 3."),
        (lambda: queries.compress(2, lambda code: "x"), "a group of compress must be an integer from 0, got 'x'."),  # pyright: ignore[reportArgumentType]
        (lambda: queries.mean(2, [1.0]), "the values of the codes: expected shape (2,), got (1,)."),
        (
            lambda: queries.mean(2, [1.0, np.nan]),
            "the values of the codes must not be NaN or infinite; give finite numbers.",
        ),
        (lambda: queries.mean(1, ["a"]), "the values of the codes must be 1 real numbers, got ['a']."),
        (
            lambda: queries.moments(2, 400, [1.0, 10.0]),
            "the query matrix holds NaN or infinite entries; give finite numbers.",
        ),
        (lambda: queries.hierarchical(4, 1), "the branching of a hierarchy must be at least 2, got 1."),
        (lambda: as_query([1.0, 2.0]), "a query matrix: expected two dimensions (rows, n), got shape (2,)."),
        (
            lambda: as_query(np.zeros((0, 2))),
            "a query matrix must have at least one row and one column, got shape (0, 2).",
        ),
        (lambda: as_query([[1j]]), "a query matrix must hold real numbers in rows of equal length, got [[1j]]."),
        (
            lambda: as_query([[-(10**400)]]),
            f"a query matrix must hold real numbers in rows of equal length, got [[{-(10**400)}]].",
        ),
        (lambda: as_query([["a"]]), "a query matrix must hold real numbers in rows of equal length, got [['a']]."),
        (lambda: as_query([[np.inf]]), "the query matrix holds NaN or infinite entries; give finite numbers."),
        (
            lambda: as_query(sparse.csr_array([[np.nan, 0.0]])),
            "the query matrix holds NaN or infinite entries; give finite numbers.",
        ),
        (
            lambda: as_query(sparse.csr_array([[1j]])),
            "a sparse query matrix must be two-dimensional with real entries, got complex128 (1, 1).",
        ),
        (
            lambda: Kron({"a": [[1.0, np.nan, 0.0]]}),
            "the query on 'a': the query matrix holds NaN or infinite entries; give finite numbers.",
        ),
        (lambda: Kron([(1, [[1.0]])]), "the attributes of a Kron must be strings, got 1."),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_query_that_cannot_be_says_why(make, text):
    with pytest.raises(QueryError) as error:
        make()
    assert str(error.value) == text


def test_an_operator_needs_its_transpose():
    from scipy.sparse.linalg import LinearOperator

    with pytest.raises(QueryError, match=r"of shape \(1, 2\) cannot be used: .*Give it matvec and rmatvec"):
        as_query(LinearOperator((1, 2), matvec=lambda x: x[:1], dtype=float))  # pyright: ignore[reportCallIssue]


def test_a_kron_that_does_not_fit_says_why():
    table = Factor(DOMAIN, np.zeros(DOMAIN.shape))
    with pytest.raises(DuplicateAttributeError, match="the query names a more than once; name each attribute once"):
        Kron([("a", [[1.0]]), ("a", [[1.0]])])
    with pytest.raises(UnknownAttributeError, match=r"'d' is not an attribute of the domain \(a, b, c\)"):
        Kron({"d": [[1.0]]}).apply(table)
    with pytest.raises(QueryError) as error:
        Kron({"a": queries.prefix(4)}).apply(table)
    assert str(error.value) == (
        "the query on 'a': expected 3 columns, one per value, got a matrix of shape (4, 4). Make it for n=3."
    )
    with pytest.raises(ShapeError, match=r"the array of answers: expected shape \(3, 1\), got \(2,\)"):
        Kron({"a": queries.prefix(3), "b": queries.total(2)}).transpose([1.0, 2.0])
    with pytest.raises(ShapeError, match=r"axis 0 of the argument of prefix\(3\): expected shape of length 3"):
        queries.prefix(3).apply([1.0])


def test_rows_of_a_dense_matrix_are_read_without_products(monkeypatch):
    """Products with a unit vector for each row take rows squared times cells: minutes for some thousand rows."""
    query = as_query(np.arange(6.0).reshape(2, 3))
    monkeypatch.setattr(type(query), "_apply_transpose", None)
    np.testing.assert_array_equal(query.sparse_rows().toarray(), query.matrix())
