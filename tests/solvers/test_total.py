"""The estimated number of records: unbiased, of least variance, or refused."""

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from pgmest import Domain, Factor, queries
from pgmest.errors import ShapeError, TotalError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries import Kron
from pgmest.solvers import total as total_module
from pgmest.solvers.total import TotalEstimate, estimate_total

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})


def test_identity_sums_its_answers():
    estimate = estimate_total([LinearMeasurement([10.0, 20.0, 31.0], "a", stddev=2.0)], DOMAIN)
    assert estimate.value == pytest.approx(61.0)
    assert estimate.stddev == pytest.approx(2.0 * np.sqrt(3))


def test_measurements_combine_by_inverse_variance():
    measurements = [
        LinearMeasurement([40.0, 60.0], "b", stddev=[3.0, 4.0]),  # 100, variance 25
        LinearMeasurement(112.0, (), stddev=10.0),  # 112, variance 100
        LinearMeasurement([7.0], "a", query=queries.point(3, 0), stddev=0.1),  # says nothing of the total
    ]
    estimate = estimate_total(measurements, DOMAIN)
    assert estimate.value == pytest.approx((100 / 25 + 112 / 100) / (1 / 25 + 1 / 100))
    assert estimate.stddev == pytest.approx(np.sqrt(20.0))


def test_prefixes_hold_the_total_in_their_last_answer():
    values = [3.0, 9.0, 11.0, 20.0]
    estimate = estimate_total([LinearMeasurement(values, "c", stddev=5.0, query=queries.prefix(4))], DOMAIN)
    assert estimate.value == pytest.approx(20.0)
    assert estimate.stddev == pytest.approx(5.0)


def test_a_hierarchy_is_better_than_its_root():
    query = queries.hierarchical(4)  # root, two halves, four leaves
    values = [100.0, 40.0, 70.0, 10.0, 20.0, 30.0, 50.0]
    estimate = estimate_total([LinearMeasurement(values, "c", query=query)], DOMAIN)
    halves = [(40 / 1 + 30 / 2) / 1.5, (70 / 1 + 80 / 2) / 1.5]  # a half and its two leaves, variances 1 and 2
    expected = (100 / 1 + sum(halves) / (4 / 3)) / (1 + 3 / 4)
    assert estimate.value == pytest.approx(expected)
    assert estimate.stddev == pytest.approx(np.sqrt(1 / (1 + 3 / 4)))


def least_variance(matrix, stddev):
    """The smallest variance of an unbiased estimate, by the Gauss-Markov theorem; None if there is none."""
    weighted = matrix / stddev[:, None]
    ones = np.ones(matrix.shape[1])
    if np.linalg.matrix_rank(np.vstack([matrix, ones])) > np.linalg.matrix_rank(matrix):
        return None
    return ones @ np.linalg.pinv(weighted.T @ weighted) @ ones


def queries_on_a_table(rng):
    matrix = rng.integers(-1, 2, size=(int(rng.integers(3, 10)), 6)).astype(float)
    kron = Kron({"b": queries.hierarchical(2), "a": queries.haar(3)})
    lame = Kron({"b": queries.total(2), "a": queries.point(3, 1)})
    groups = queries.compress(6, rng.integers(0, 4, size=6).tolist(), 4)  # some may be empty
    recoded = Kron({"b": queries.identity(2), "a": queries.compress(3, [2, 0, 2], 3)})
    dense = [matrix, sparse.csr_array(matrix), aslinearoperator(matrix)]
    return [*dense, kron, lame, queries.all_range(6), groups, recoded, None]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), unequal=st.booleans(), iterative=st.booleans())
def test_any_query_gives_the_gauss_markov_estimate(seed, unequal, iterative):
    rng = np.random.default_rng(seed)
    table = Factor(DOMAIN.project(("a", "b")), rng.integers(0, 50, size=(3, 2)) + 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(total_module, "DENSE_WORK", 0.0 if iterative else np.inf)
        for query in queries_on_a_table(rng):
            blank = LinearMeasurement(np.zeros(_rows(query)), ("a", "b"), query=query)
            answers = blank.answer(table)
            stddev = rng.uniform(0.5, 5.0, size=blank.rows) if unequal else np.full(blank.rows, 2.0)
            measurement = LinearMeasurement(answers, ("a", "b"), stddev=stddev, query=query)
            matrix = np.stack([blank.answer_cells(unit) for unit in np.eye(6)], axis=1)
            variance = least_variance(matrix, stddev)
            if variance is None:
                with pytest.raises(TotalError):
                    estimate_total([measurement], DOMAIN)
                continue
            estimate = estimate_total([measurement], DOMAIN)
            assert estimate.value == pytest.approx(table.values.sum(), rel=1e-7)
            assert estimate.stddev == pytest.approx(np.sqrt(variance), rel=1e-5)


def _rows(query):
    return 6 if query is None else query.rows if isinstance(query, Kron) else query.shape[0]


def test_the_standard_error_is_that_of_repeated_noise():
    rng = np.random.default_rng(7)
    counts = np.array([10.0, 40.0, 25.0, 5.0])
    stddev = rng.uniform(1.0, 8.0, size=7)
    query = queries.hierarchical(4)
    estimates = [
        estimate_total([LinearMeasurement(query.apply(counts) + rng.normal(0, stddev), "c", stddev, query)], DOMAIN)
        for _ in range(1500)
    ]
    errors = np.array([estimate.value for estimate in estimates]) - 80.0
    claimed = estimates[0].stddev
    assert abs(errors.mean()) < 4 * claimed / np.sqrt(1500)
    assert errors.std() == pytest.approx(claimed, rel=4 / np.sqrt(2 * 1500))


def test_a_large_ill_conditioned_query_stays_unbiased():
    n = 2000
    counts = np.random.default_rng(0).integers(0, 100, size=n).astype(float)
    for query in (queries.prefix(n), queries.hierarchical(n)):
        stddev = 10 ** np.random.default_rng(1).uniform(-2, 2, size=query.rows)
        measurement = LinearMeasurement(query.apply(counts), "x", stddev, query)
        estimate = estimate_total([measurement], {"x": n})
        assert estimate.value == pytest.approx(counts.sum(), rel=1e-8)
        if query.spec["kind"] == "prefix":
            assert estimate.stddev == pytest.approx(stddev[-1], rel=1e-6)


def test_a_subset_and_its_complement_determine_the_total_together():
    measurements = [
        LinearMeasurement([30.0], ("a", "b"), stddev=3.0, query=queries.subset(6, [0, 1, 4])),
        LinearMeasurement([50.0], ("b", "a"), stddev=4.0, query=Kron({"b": [[1.0, 1.0]], "a": [[0.0, 1.0, 1.0]]})),
    ]
    with pytest.raises(TotalError):  # the cell a=2, b=0 is in both
        estimate_total(measurements, DOMAIN)
    measurements[1] = LinearMeasurement([50.0], ("b", "a"), stddev=4.0, query=queries.subset(6, [1, 4, 5]))
    estimate = estimate_total(measurements, DOMAIN)  # the cells 2, 3 and 5 of the table over (a, b)
    assert estimate.value == pytest.approx(80.0)
    assert estimate.stddev == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("values", "stddev", "expected"),
    [
        ([-50.0, 20.0], 100.0, 1.0),  # one record
        ([-0.5, 0.2], 0.1, 0.1 * np.sqrt(2)),  # a standard error, in a unit in which one is much
        ([0.21, 0.42], 0.01, 0.63),
        ([0.0, 0.0], 0.5, 0.5 * np.sqrt(2)),
    ],
)
def test_a_noisy_total_is_at_least_one_record_or_a_standard_error(values, stddev, expected):
    estimate = estimate_total([LinearMeasurement(values, "b", stddev=stddev)], DOMAIN)
    assert astuple(estimate) == pytest.approx((expected, stddev * np.sqrt(2)))


@pytest.mark.parametrize("values", [[0.0, 0.0], [0.21, 0.42], [3.0, 4.0], [0.0, 1e9]])
def test_exact_answers_determine_the_total_whatever_the_noise_says(values):
    measurements = [
        LinearMeasurement([500.0, 20.0, 1.0], "a", stddev=1e-3),
        LinearMeasurement.exact(values, "b"),
        LinearMeasurement.rounded([10.0, 20.0, 30.0, 40.0], "c", 10),
    ]
    estimate = estimate_total(measurements, DOMAIN)
    assert estimate == TotalEstimate(sum(values), 0.0)
    assert estimate.known


def test_an_exact_subset_and_its_complement_determine_the_total_beside_noise():
    measurements = [
        LinearMeasurement.exact([30.0], "a", query=queries.subset(3, [0])),
        LinearMeasurement.exact([12.0], "a", query=queries.subset(3, [1, 2])),
        LinearMeasurement([90.0], "a", stddev=0.01, query=queries.subset(3, [0])),
    ]
    assert astuple(estimate_total(measurements, DOMAIN)) == (pytest.approx(42.0, abs=1e-9), 0.0)


@pytest.mark.parametrize(
    ("values", "of", "expected"),
    [
        ([12, 12, 12, 13], 1000, None),  # these are percentages of something else
        ([24, 24, 24, 26], 1000, 1000.0),
        ([[30, 70], [45, 55]], [[10], [20]], 30.0),  # of rows
        ([[30, 45], [70, 55]], [10, 20], 30.0),  # of columns
        ([[30, 70], [45, 15]], [[10], [20]], None),
        (np.ma.masked_equal([24, -1, 24, 26], -1), 1000, 1000.0),
        ([33.0, 33.0, 33.0, 0.0], 100, 100.0),  # weighted counts: whole numbers would add up to 99
    ],
)
def test_percentages_state_the_total_if_they_can_add_up_to_it(values, of, expected):
    clique = ("a", "b") if np.ndim(values) == 2 else ("c",)
    made = LinearMeasurement.percentages(values, clique, of)
    assert made.stated_total == expected
    if expected is not None:
        domain = {"a": 2, "b": 2, "c": 4}
        assert estimate_total([made, LinearMeasurement([7.0], (), stddev=0.1)], domain) == TotalEstimate(expected, 0.0)


def test_an_exact_table_beats_the_stated_total_of_percentages():
    stated = LinearMeasurement.percentages([50, 50], "b", 1000)
    assert estimate_total([stated, LinearMeasurement.exact([1, 2, 1000], "a")], DOMAIN).value == 1003.0


@pytest.mark.parametrize("mean", [0.05, 0.3, 2.0, 40.0])
@pytest.mark.parametrize("base", [2, 3, 10])
def test_random_roundings_count_as_published(mean, base):
    generator = np.random.default_rng(0)
    truth = generator.poisson(mean, (40, 50))
    below = base * (truth // base)
    published = below + base * (generator.random(truth.shape) < (truth - below) / base)
    made = LinearMeasurement.rounded(published, ("a", "b"), base, random=True)
    estimate = estimate_total([made], {"a": 40, "b": 50})
    assert estimate.value == pytest.approx(published.sum())
    assert estimate.stddev == pytest.approx(base * np.sqrt(2000 / 6))
    assert abs(estimate.value - truth.sum()) <= 3 * estimate.stddev


@pytest.mark.parametrize("mean", [0.3, 1.0, 3.0, 40.0])
def test_totals_of_rounded_and_suppressed_tables_are_close_and_in_range(mean):
    """For geometric counts the fitted distribution is the true one; middles of ends would be far off for small ones."""
    generator = np.random.default_rng(0)
    truth = generator.geometric(1 / (1 + mean), (80, 50)) - 1.0
    domain = {"a": 80, "b": 50}
    for made in (
        LinearMeasurement.rounded(5 * np.round(truth / 5), ("a", "b"), 5),
        LinearMeasurement.suppressed(np.where(truth < 5, np.nan, truth), ("a", "b"), 5),
        LinearMeasurement.suppressed(np.where((truth < 5) & (truth > 0), np.nan, truth), ("a", "b"), 5, least=1),
    ):
        estimate = estimate_total([made], domain)
        assert estimate.value == pytest.approx(truth.sum(), rel=0.15)
        assert made.low.sum() <= estimate.value <= made.high.sum()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_percentages_of_any_table_of_counts_state_its_total(seed):
    generator = np.random.default_rng(seed)
    truth = generator.poisson(generator.choice([0.3, 5.0, 300.0]), (3, 4)) + np.eye(3, 4)
    decimals = int(generator.integers(0, 3))
    for of in (truth.sum(), truth.sum(axis=1, keepdims=True), truth.sum(axis=0), truth.sum(axis=0, keepdims=True)):
        if np.all(np.asarray(of) > 0):
            shares = np.round(100 * truth / of, decimals)
            made = LinearMeasurement.percentages(shares, ("a", "c"), of, decimals)
            assert made.stated_total == truth.sum()
            assert np.all((made.low <= truth.reshape(-1)) & (made.high >= truth.reshape(-1)))
            assert estimate_total([made], DOMAIN).value == truth.sum()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_an_estimate_lies_in_the_range_of_all_tables_with_ends(seed):
    generator = np.random.default_rng(seed)
    domain = {"a": 3, "b": 2}
    truth = generator.poisson(generator.choice([0.2, 1.0, 20.0]), (3, 2)) * generator.choice([1.0, 0.01])
    made, low, high = [], 0.0, np.inf
    for clique, table in ((("a", "b"), truth), (("a",), truth.sum(1)), (("b",), truth.sum(0))):
        below = table - generator.integers(0, 4, table.shape) * generator.random()
        above = table + generator.integers(0, 4, table.shape)
        made.append(LinearMeasurement.between(np.maximum(below, 0), above, clique))
        low, high = max(low, made[-1].low.sum()), min(high, made[-1].high.sum())
    made.append(LinearMeasurement([truth.sum() + 5 * generator.standard_normal()], (), stddev=5.0))
    estimate = estimate_total(made, domain)
    assert low - 1e-9 <= estimate.value <= high + 1e-9
    assert estimate.stddev > 0 or low == high


def test_a_range_without_an_upper_end_counts_as_the_average_of_the_others():
    made = LinearMeasurement.between([10, 20, 0], [10, 30, np.inf], "a")
    assert estimate_total([made], DOMAIN).value == pytest.approx(10 + 25 + 17.5)


@pytest.mark.parametrize(
    ("measurements", "count"),
    [
        ([], "0 measurements"),
        ([LinearMeasurement([5.0], "a", query=queries.point(3, 0))], "1 measurement"),
        (
            [LinearMeasurement([5.0], "a", query=queries.mean(3)), LinearMeasurement([5.0], "b", query=[[1, 0]])],
            "2 mea",
        ),
        ([LinearMeasurement([0.0], ("a", "b"), query=Kron({"a": queries.total(3), "b": [[1, -1]]}))], "1 measurement"),
    ],
)
def test_where_nothing_determines_the_total_an_error_says_so(measurements, count):
    with pytest.raises(TotalError) as error:
        estimate_total(measurements, DOMAIN)
    text = str(error.value)
    assert text.startswith(f"the number of records cannot be estimated: none of the {count}")
    assert "because no combination of its queries adds up every cell once" in text
    assert text.endswith(
        "Pass total=..., or measure it, as with a whole marginal or LinearMeasurement(noisy_count, clique=(), ...)."
    )


def test_a_measurement_of_another_domain_is_refused():
    with pytest.raises(ShapeError):
        estimate_total([LinearMeasurement([1.0], "a")], DOMAIN)


@pytest.mark.parametrize(
    ("facts", "least"),
    [
        ([LinearMeasurement.exact(np.ma.masked_equal([60.0, -1.0, 55.0], -1.0), "a")], 115.0),
        ([LinearMeasurement.exact([70.0], "a", query=queries.point(3, 0)),
          LinearMeasurement.exact([45.0], "a", query=queries.point(3, 2))], 115.0),
        ([LinearMeasurement.exact([70.0], "a", query=queries.point(3, 0)),
          LinearMeasurement.exact([115.0], "a", query=queries.subset(3, [0, 1]))], 115.0),
        ([LinearMeasurement.between([115.0], [400.0], ("a", "b"), query=queries.subset(6, [1, 2]))], 115.0),
        ([LinearMeasurement.exact([115.0], "a", query=[[1.0, -1.0, 0.0]])], 0.0),
    ],
)  # fmt: skip
def test_answers_without_noise_need_a_least_total(facts, least):
    noisy = LinearMeasurement([100.0], (), stddev=5.0)
    assert astuple(estimate_total([*facts, noisy], DOMAIN)) == (max(100.0, least), pytest.approx(5.0))
