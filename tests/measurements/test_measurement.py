"""LinearMeasurement: what it accepts, what it answers, and what it refuses."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from pgmest import Domain, Factor, queries
from pgmest.errors import (
    ArgumentError,
    DuplicateAttributeError,
    MeasurementError,
    QueryError,
    ShapeError,
    UnknownAttributeError,
)
from pgmest.measurements.measurement import LinearMeasurement, noise_scale, noise_stddev
from pgmest.queries import Kron

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})


def test_values_may_be_flat_a_table_or_a_factor():
    table = np.arange(6.0).reshape(2, 3)
    for values in (table.ravel(), table.tolist(), Factor(DOMAIN.project(("a", "b")), table.T)):
        measurement = LinearMeasurement(values, clique=("b", "a"), stddev=2)
        measurement.check(DOMAIN)
        assert measurement.values.tolist() == [0, 1, 2, 3, 4, 5]
        assert (measurement.rows, measurement.cells, measurement.stddev) == (6, 6, 2.0)


def test_a_single_name_is_a_clique_and_no_name_is_the_total():
    assert LinearMeasurement([1.0, 2.0], "b").clique == ("b",)
    total = LinearMeasurement(99.5, clique=())
    total.check(DOMAIN)
    assert total.values.tolist() == [99.5]
    assert total.answer(Factor(DOMAIN, np.ones(DOMAIN.shape))).tolist() == [24.0]
    assert total.max_column_norm() == 1.0


def test_fields_are_read_only_and_replaceable():
    measurement = LinearMeasurement([1.0, 2.0], "b", stddev=[1.0, 2.0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        measurement.stddev = 3.0  # pyright: ignore[reportAttributeAccessIssue]
    arrays: Any = (measurement.values, measurement.stddev, measurement.column_squares)
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5
    assert dataclasses.replace(measurement, stddev=4.0).stddev == 4.0


def test_input_arrays_are_copied():
    values, deviations = np.array([1.0, 2.0]), np.array([1.0, 2.0])
    measurement = LinearMeasurement(values, "b", stddev=deviations)
    values[0] = deviations[0] = 7
    assert measurement.values[0] == np.asarray(measurement.stddev)[0] == 1


def test_the_identity_query_is_no_query():
    assert LinearMeasurement([1.0, 2.0], "b", query=queries.identity(2)).query is None
    measurement = LinearMeasurement(np.ones(6), ("a", "b"), query=Kron({"a": np.eye(3), "b": queries.identity(2)}))
    assert measurement.query is not None
    kron = Kron({"a": queries.identity(3), "b": queries.identity(2)})
    assert LinearMeasurement(np.ones(6), ("a", "b"), query=kron).query is None
    assert LinearMeasurement(np.ones(6), ("b", "a"), query=kron).query is kron
    with pytest.raises(ShapeError, match=r"expected shape \(2, 3\), got \(3, 2\)"):
        LinearMeasurement(np.ones(6), ("a", "b"), query=kron).check(Domain({"a": 2, "b": 3}))


def structured_queries(rng):
    """Pairs of a query on (c, a) and its matrix on that table, row-major."""
    matrix = rng.normal(size=(5, 12))
    kron = Kron({"a": queries.prefix(3), "c": rng.normal(size=(2, 4))})
    aligned = Kron({"c": kron.factors["c"], "a": kron.factors["a"]})
    permuted = aligned.matrix().reshape(2, 3, 12).transpose(1, 0, 2).reshape(6, 12)
    return [
        (None, np.eye(12)),
        (matrix, matrix),
        (sparse.csr_matrix(matrix), matrix),
        (aslinearoperator(matrix), matrix),
        (queries.haar(12), queries.haar(12).matrix()),
        (kron, permuted),
        (aligned, aligned.matrix()),
    ]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), unequal=st.booleans())
def test_products_are_those_of_the_dense_matrix(seed, unequal):
    rng = np.random.default_rng(seed)
    marginal = Factor(DOMAIN, rng.normal(size=DOMAIN.shape))
    cells = marginal.project(("c", "a")).datavector()
    for query, matrix in structured_queries(rng):
        rows = len(matrix)
        stddev = rng.uniform(0.1, 10, size=rows) if unequal else 2.5
        measurement = LinearMeasurement(rng.normal(size=rows), ("c", "a"), stddev=stddev, query=query)
        measurement.check(DOMAIN)
        assert (measurement.rows, measurement.cells) == matrix.shape
        np.testing.assert_allclose(measurement.answer(marginal), matrix @ cells, atol=1e-11)
        residual = rng.normal(size=rows)
        transposed = measurement.transpose(residual, DOMAIN)
        assert transposed.shape == (4, 3)
        np.testing.assert_allclose(transposed.ravel(), matrix.T @ residual, atol=1e-11)
        np.testing.assert_allclose(measurement.transpose(residual).ravel(), matrix.T @ residual, atol=1e-11)
        weighted = matrix / np.broadcast_to(stddev, rows)[:, None]
        np.testing.assert_allclose(measurement.column_squares, (weighted**2).sum(axis=0), atol=1e-11)
        np.testing.assert_allclose(measurement.max_column_norm(), np.linalg.norm(weighted, axis=0).max())


def test_a_kron_answer_may_keep_its_shape():
    kron = Kron({"a": queries.total(3), "b": queries.identity(2)})
    assert LinearMeasurement([[4.0, 5.0]], ("b", "a"), query=kron).values.tolist() == [4.0, 5.0]
    assert LinearMeasurement([4.0, 5.0], ("b", "a"), query=kron).transpose([1.0, 2.0]).tolist() == [[1] * 3, [2] * 3]


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "discrete_gaussian", "discrete_laplace"])
def test_scale_and_stddev_are_inverse(noise):
    stddev = np.array([1e-3, 0.7, 3.0, 1e6])
    np.testing.assert_allclose(noise_stddev(noise, noise_scale(noise, stddev)), stddev, rtol=1e-12)


def test_the_scale_of_laplace_noise():
    assert noise_stddev("laplace", 3.0) == pytest.approx(3.0 * np.sqrt(2.0))
    ks = np.arange(-200, 201)
    probabilities = np.exp(-np.abs(ks) / 3.0)
    variance = np.sum(ks**2 * probabilities) / probabilities.sum()
    assert noise_stddev("discrete_laplace", 3.0) == pytest.approx(np.sqrt(variance), rel=1e-12)


def test_repr_says_what_was_measured():
    measurement = LinearMeasurement([1.0, 2.0], "b", stddev=[1.0, 2.5], noise="laplace")
    assert repr(measurement) == "LinearMeasurement(b: 2 noisy answers, identity, laplace stddev 1 to 2.5)"


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (
            lambda: LinearMeasurement([1.0, np.nan], "b"),
            MeasurementError,
            "the measurement of ('b',): values: 1 NaN or infinite, the first at index [1]. Give finite numbers.",
        ),
        (
            lambda: LinearMeasurement([[1.0, 2.0], [np.inf, -np.inf]], ("b", "b2")),
            MeasurementError,
            "the measurement of ('b', 'b2'): values: 2 NaN or infinite, the first at index [1, 0]. "
            "Give finite numbers.",
        ),
        (
            lambda: LinearMeasurement(["x", "y"], "b"),
            MeasurementError,
            "the measurement of ('b',): values must be real numbers, got ['x', 'y'].",
        ),
        (
            lambda: LinearMeasurement([], "b"),
            MeasurementError,
            "the measurement of ('b',) has no values; give one for each query.",
        ),
        (
            lambda: LinearMeasurement([1.0, 2.0], "b", stddev=0),
            MeasurementError,
            "the measurement of ('b',): stddev must be positive (at least 1e-150), got 0.0. "
            "For exact answers use LinearMeasurement.exact.",
        ),
        (
            lambda: LinearMeasurement([1.0, 2.0], "b", stddev=[1, -1]),
            MeasurementError,
            "the measurement of ('b',): stddev must be positive (at least 1e-150), got -1.0. "
            "For exact answers use LinearMeasurement.exact.",
        ),
        (
            lambda: LinearMeasurement([1.0, 2.0], "b", stddev=np.inf),
            MeasurementError,
            "the measurement of ('b',): stddev: 1 NaN or infinite, the first at index 0. Give finite numbers.",
        ),
        (
            lambda: LinearMeasurement([1.0, 2.0], "b", stddev=[1, 1, 1]),
            ShapeError,
            "the measurement of ('b',): stddev: expected shape () or (2,), got (3,).",
        ),
        (
            lambda: LinearMeasurement(np.ones((2, 2, 2)), ("a", "b")),
            ShapeError,
            "the measurement of ('a', 'b'): values: expected shape (a, b) or flat, got (2, 2, 2).",
        ),
        (
            lambda: LinearMeasurement([1.0, 2.0], "b", query=queries.total(2)),
            ShapeError,
            "the measurement of ('b',): values: expected shape (1,), got (2,). Give one value for each query.",
        ),
        (
            lambda: LinearMeasurement([1.0, 2.0], "b", query=[[1.0, np.nan]]),
            QueryError,
            "the measurement of ('b',): the query matrix holds NaN or infinite entries; give finite numbers.",
        ),
        (
            lambda: LinearMeasurement([1.0], ("a", "b"), query=Kron({"a": queries.total(3)})),
            MeasurementError,
            "the measurement of ('a', 'b') has a Kron on ('a',): it must be over exactly the clique's attributes. "
            "Leave the others out of the clique, or sum them out with pg.queries.total(n).",
        ),
        (
            lambda: LinearMeasurement(Factor(Domain({"b": 2}), [1, 2]), "b", query=np.eye(2)),
            MeasurementError,
            "the measurement of ('b',): a Factor over ('b',) can be the values only of an identity measurement "
            "of the same attributes; give the answers to the query as an array.",
        ),
        (
            lambda: LinearMeasurement([1.0], ("a", "a")),
            DuplicateAttributeError,
            "the clique ('a', 'a') names a more than once; name each attribute once.",
        ),
        (
            lambda: LinearMeasurement([1.0], (1,)),  # pyright: ignore[reportArgumentType]
            MeasurementError,
            "a clique must consist of attribute names (strings), got (1,).",
        ),
        (
            lambda: LinearMeasurement([1.0], "a", noise="cauchy"),
            ArgumentError,
            "noise='cauchy' is not valid: it must be one of "
            "'gaussian', 'laplace', 'discrete_gaussian', 'discrete_laplace'.",
        ),
        (
            lambda: LinearMeasurement([1.0, 2.0], "bb").check(DOMAIN),
            UnknownAttributeError,
            "'bb' is not an attribute of the domain (a, b, c). Did you mean 'b'?",
        ),
        (
            lambda: LinearMeasurement([1.0, 2.0], "a").check(DOMAIN),
            ShapeError,
            "the values measured on ('a',): expected shape (3,), got (2,). "
            "Give one value for each of the 3 cells of {'a': 3}, or name the query= answered.",
        ),
        (
            lambda: LinearMeasurement(np.ones((2, 3)), ("a", "b")).check(DOMAIN),
            ShapeError,
            "the values measured on ('a', 'b'): expected shape (3, 2), got (2, 3). "
            "Give one value for each of the 6 cells of {'a': 3, 'b': 2}, or name the query= answered.",
        ),
        (
            lambda: LinearMeasurement([1.0, 2.0], "a", query=2 * np.eye(2)).check(DOMAIN),
            ShapeError,
            "the query measured on ('a',): expected shape (rows, 3), got (2, 2). "
            "Give it one column for each of the 3 cells of {'a': 3}, row-major.",
        ),
        (
            lambda: LinearMeasurement([1.0], "a", query=Kron({"a": queries.total(2)})).check(DOMAIN),
            QueryError,
            "the query on 'a': expected 3 columns, one per value, got a matrix of shape (1, 2). Make it for n=3.",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(make, kind, text):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == text


class TestPublishedKinds:
    def test_percentages_hold_the_counts_that_round_to_them(self) -> None:
        for total in (7, 120, 99_999):
            counts = np.arange(min(total, 500) + 1)
            for decimals in (0, 1, 3):
                published = np.round(100.0 * counts / total, decimals)
                made = LinearMeasurement.percentages(published, "x", total, decimals)
                assert np.all((made.low <= counts) & (made.high >= counts))
                widest = 100.0 * np.maximum(np.abs(made.low - counts), np.abs(made.high - counts)) / total
                assert np.all(widest <= 10.0**-decimals + 1e-9)

    def test_percentages_of_a_total_of_zero_are_counts_of_zero(self) -> None:
        for nobody in ([0, 0], [np.nan, np.nan]):
            made = LinearMeasurement.percentages([[25, 75], nobody], ("a", "b"), [[8], [0]])
            assert (made.low[2:].tolist(), made.high[2:].tolist(), made.stated_total) == ([0, 0], [0, 0], 8)

    def test_totals_of_percentages_are_matched_by_name(self) -> None:
        shares, rows = [[25, 75], [50, 50]], [8, 400]
        expected = LinearMeasurement.percentages(shares, ("a", "b"), np.array(rows)[:, None])
        columns = LinearMeasurement.percentages(np.transpose(shares), ("b", "a"), rows)
        series = pd.Series(rows[::-1], index=pd.Index([1, 0], name="a"))
        for of in (series, series.to_frame("n").n, Factor({"a": 2}, np.array(rows, dtype=float))):
            for clique, table, wanted in ((("a", "b"), shares, expected), (("b", "a"), np.transpose(shares), columns)):
                made = LinearMeasurement.percentages(table, clique, of)
                assert (made.low == wanted.low).all()
                assert (made.high == wanted.high).all()

    def test_percentages_of_rows(self) -> None:
        made = LinearMeasurement.percentages([[50, 50], [25, 75]], ("a", "b"), [[10], [4]])
        assert made.low.tolist() == made.high.tolist() == [5, 5, 1, 3]

    def test_random_roundings_are_unbiased_answers(self) -> None:
        """Their values are the published ones, also where 0 is the lower end, and stddev is that of a random place."""
        generator = np.random.default_rng(0)
        for base in (2, 3, 10):
            truth = generator.integers(0, 4 * base, 20_000)
            below = base * (truth // base)
            published = below + base * (generator.random(len(truth)) < (truth - below) / base)
            made = LinearMeasurement.rounded(published, "x", base, random=True)
            assert np.array_equal(made.values, published)
            assert (made.published == published).all()
            assert np.all((made.low <= truth) & (made.high >= truth))
            assert abs(np.mean(made.values - truth)) < 4 * made.stddev / np.sqrt(len(truth))
            places = np.sqrt(1 - 1 / base**2)  # a whole number has only `base` places between two multiples
            assert np.std(made.values - truth) == pytest.approx(made.stddev * places, rel=0.03)

    def test_swapped_records_by_simulation(self) -> None:
        """A share of records have their district exchanged at random: no bias, and the noise is as stated."""
        generator, share = np.random.default_rng(0), 0.2
        truth = np.array([[300.0, 20.0, 5.0], [40.0, 500.0, 90.0]])
        district, work = np.repeat(np.indices(truth.shape).reshape(2, -1), truth.astype(int).reshape(-1), axis=1)
        scores = []
        for _ in range(400):
            moved = np.flatnonzero(generator.random(len(district)) < share)
            swapped = district.copy()
            swapped[moved] = district[generator.permutation(moved)]
            table = np.zeros(truth.shape)
            np.add.at(table, (swapped, work), 1)
            made = LinearMeasurement.swapped(table, ("district", "work"), share, "district")
            scores.append((made.values - truth.reshape(-1)) / made.stddev)
        assert np.all(np.abs(np.mean(scores, axis=0)) < 0.2)
        spread = np.std(scores, axis=0)
        assert np.all((spread > 0.2) & (spread < 1.1))  # a fixed margin takes some noise out of small tables

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: LinearMeasurement.percentages([101.0], "x", 10), "between 0 and 100"),
            (lambda: LinearMeasurement.percentages([10.0], "x", 0), "of is 0 where a percentage is positive"),
            (lambda: LinearMeasurement.percentages([10.0], "x", -1), "of must not be negative"),
            (lambda: LinearMeasurement.percentages([0.25, 0.75], "x", 40), "decimals=0 .* shares of 1 by 100"),
            (lambda: LinearMeasurement.percentages([[50, 50, 0]] * 2, ("a", "b"), [10, 4]), r"totals\[:, None\]"),
            (lambda: LinearMeasurement.percentages([50, 50], "x", [[10], [4]]), "does not broadcast"),
            (lambda: LinearMeasurement.suppressed(["*", "70"], "x", 5), "suppressed counts as NaN"),
            (lambda: LinearMeasurement.percentages([10.0], "x", 10, 1.5), "decimals"),  # pyright: ignore[reportArgumentType]
            (lambda: LinearMeasurement.swapped([[1, 2], [3, 4]], ("a", "b"), 1.0, "a"), "share"),
            (lambda: LinearMeasurement.swapped([[1, 2], [3, 4]], ("a", "b"), 0.1, ("a", "b")), "not all"),
            (lambda: LinearMeasurement.swapped([1, 2, 3, 4], ("a", "b"), 0.1, "a"), "an axis for each"),
        ],
    )
    def test_refusals(self, make, message) -> None:
        with pytest.raises((MeasurementError, ShapeError), match=message):
            make()


def test_exact_rows_are_the_answers_without_noise_or_rounding():
    suppressed = LinearMeasurement.suppressed([12, np.nan, 7], "a", below=5)
    assert suppressed.exact_rows.tolist() == [True, False, True]
    assert not LinearMeasurement([1.0, 2.0], "a", stddev=1e-9).exact_rows.any()


NO_NUMBERS = {
    "texts": ["1,234", "2"],
    "text": "many",
    "rows of two lengths": [[1, 2], [3]],
    "a gap of pandas": pd.array([1, None], dtype="Int64"),
    "a series with a text": pd.Series([1, "x"]),
    "a series with a gap": pd.Series([1, None], dtype="Int64"),
    "a table of texts": pd.DataFrame({"u": ["1", "2"], "v": ["x", "y"]}),
    "NaN": [np.nan, 1.0],
    "infinite": [1.0, np.inf],
    "complex": [1j, 2.0],
    "dates": np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"),
    "objects": [object(), 1.0],
    "None": [None, 1.0],
    "a mapping": {"a": 1},
    "too large": [1e200, 1.0],
}
PUBLISHED = {
    "exact": lambda values, query: LinearMeasurement.exact(values, "a", query),
    "at_least": lambda values, query: LinearMeasurement.at_least(values, "a", query),
    "at_most": lambda values, query: LinearMeasurement.at_most(values, "a", query),
    "rounded": lambda values, query: LinearMeasurement.rounded(values, "a", 5, query),
    "rounded at random": lambda values, query: LinearMeasurement.rounded(values, "a", 5, query, random=True),
    "percentages": lambda values, query: LinearMeasurement.percentages(values, "a", 100, 0, query),
    "noisy": lambda values, query: LinearMeasurement(values, "a", 1.0, query),
}


@pytest.mark.parametrize("kind", PUBLISHED)
@pytest.mark.parametrize("values", NO_NUMBERS)
@pytest.mark.parametrize("query", [None, np.eye(2)], ids=["counts", "answers"])
def test_values_that_are_no_numbers_are_refused_by_name(kind, values, query):
    with pytest.raises(MeasurementError, match=r"the measurement of \('a',\)") as caught:
        PUBLISHED[kind](NO_NUMBERS[values], query)
    assert "ends" not in str(caught.value)


@pytest.mark.parametrize("values", [name for name in NO_NUMBERS if name not in ("NaN", "infinite")])
@pytest.mark.parametrize("of", ["below", "least", "low", "high", "stddev", "base", "suppressed"])
def test_other_numbers_are_refused_by_name(of, values):
    wrong, right = NO_NUMBERS[values], [1.0, 2.0]
    calls = {
        "below": lambda: LinearMeasurement.suppressed(right, "a", wrong),
        "least": lambda: LinearMeasurement.suppressed(right, "a", 1, least=wrong),
        "suppressed": lambda: LinearMeasurement.suppressed(wrong, "a", 5),
        "low": lambda: LinearMeasurement.between(wrong, right, "a"),
        "high": lambda: LinearMeasurement.between(right, wrong, "a"),
        "stddev": lambda: LinearMeasurement(right, "a", wrong),
        "base": lambda: LinearMeasurement.rounded(right, "a", wrong),
    }
    if of == "suppressed" and values in ("None", "a gap of pandas", "a series with a gap"):  # suppressed counts
        return
    with pytest.raises(MeasurementError, match=r"the measurement of \('a',\)"):
        calls[of]()


@pytest.mark.parametrize("kind", ["exact", "at_most", "rounded", "rounded at random"])
def test_counts_are_not_negative_and_differences_may_be(kind):
    with pytest.raises(MeasurementError, match=r"the count -5 at index \[0\] is negative"):
        PUBLISHED[kind]([-5.0, 10.0], None)
    with pytest.raises(MeasurementError, match=r"the count -5 at index \[0\] is negative"):
        PUBLISHED[kind](pd.Series([-5, 10], index=pd.Index([0, 1], name="a")), Kron({"a": queries.identity(2)}))
    PUBLISHED[kind]([-5.0], np.array([[1.0, -1.0]]))
    PUBLISHED[kind]([-1e-12, 10.0] if kind in ("exact", "at_most") else [0.0, 10.0], None)
    PUBLISHED[kind](np.ma.masked_less([-5.0, 10.0], 0.0), None)


def test_suppressed_counts_are_not_negative():
    with pytest.raises(MeasurementError, match="negative"):
        LinearMeasurement.suppressed([-7.0, 9.0], "a", 5)


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize(
    ("base", "good", "bad"), [(5, [5, 10], [5, 7]), (3, [0, 3e9], [3, 4]), (2.5, [2.5, 5], [2, 5])]
)
def test_rounded_values_are_multiples_of_their_base(random, base, good, bad):
    assert LinearMeasurement.rounded(good, "a", base, random=random).rows == 2
    with pytest.raises(MeasurementError, match=rf"the value .* is no multiple of the base {base:g}"):
        LinearMeasurement.rounded(bad, "a", base, random=random)
    hidden = np.ma.array(bad, mask=[value % base != 0 for value in bad])
    assert LinearMeasurement.rounded(hidden, "a", base, random=random).rows == 1
