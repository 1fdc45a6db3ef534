"""The combination of measurements: counts, contrasts, and tables of pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.lamp.answers import Answer, contrast_matrix, grouping_query
from pgmest.mechanisms.lamp.candidates import NoiseModel, interaction_fraction
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.groups import nested_groups
from pgmest.privacy import AddRemove, Curator, Epsilon, Replace, Rho

SIZES = st.integers(1, 20)


@given(st.integers(2, 60))
def test_contrasts_are_orthonormal_and_sum_to_nothing(count):
    matrix = contrast_matrix(count)
    assert np.allclose(matrix @ matrix.T, np.eye(count - 1))
    assert np.allclose(matrix.sum(axis=1), 0)
    assert np.allclose((matrix**2).sum(axis=0), 1 - 1 / count)


@given(
    st.integers(2, 20),
    st.integers(2, 20),
    st.sampled_from([Rho(1.0), Epsilon(1.0)]),
    st.sampled_from([AddRemove(), AddRemove(3), Replace()]),
)
def test_the_discount_is_what_the_curator_gives(rows, columns, budget, neighbors):
    noise_model = NoiseModel.of(budget, neighbors)
    query = grouping_query(
        ("a", "b"), [np.arange(rows), np.arange(columns)], map(noise_model.contrasted, (rows, columns))
    )
    pure = isinstance(budget, Epsilon)
    sensitivity = neighbors.exact_l1(query) ** 2 if pure else neighbors.exact_l2_squared(query)
    whole = neighbors.exact_l1() ** 2 if pure else neighbors.exact_l2_squared()
    assert float(sensitivity) == pytest.approx(float(whole) * noise_model.variance_ratio((rows, columns)), rel=1e-6)


@given(SIZES, SIZES, st.booleans(), st.booleans(), st.integers(0, 1000))
def test_a_table_is_got_back_from_its_contrasts_and_one_way_marginals(rows, columns, first, second, seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 100, (2 * rows, columns)).astype(float)
    groups = [np.arange(2 * rows) // 2, np.arange(columns)]
    query = grouping_query(("a", "b"), groups, (first, second))
    measurement = LinearMeasurement(query.apply(table).ravel(), ("a", "b"), 1.0, query)
    answer = Answer.of(measurement, pg.Domain({"a": 2 * rows, "b": columns}))
    grouped = table.reshape(rows, 2, columns).sum(axis=1)
    assert answer.shape == grouped.shape
    expected = np.outer(grouped.sum(axis=1), grouped.sum(axis=0)) / max(table.sum(), 1)
    assert np.allclose(answer.table(expected), grouped)


def test_noise_in_a_cell_is_what_repeated_measurements_show():
    rng = np.random.default_rng(0)
    query = grouping_query(("a", "b"), [np.arange(2), np.arange(3)], (True, False))
    domain, truth = pg.Domain({"a": 2, "b": 3}), np.full((2, 3), 50.0)
    offs = []
    for _ in range(4000):
        values = query.apply(truth).ravel() + rng.normal(0, 2, 3)
        answer = Answer.of(LinearMeasurement(values, ("a", "b"), 2.0, query), domain)
        table = answer.table(truth)
        table = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
        offs.append(table)
    assert np.std(offs) == pytest.approx(answer.noise(), rel=0.03)
    assert answer.noise() == pytest.approx(2 * np.sqrt(interaction_fraction((2, 3))))


def test_contrasts_of_an_attribute_sharpen_what_is_known_of_it():
    domain = pg.Domain({"a": 3})
    counts = LinearMeasurement([40.0, 30.0, 35.0], ("a",), 10.0)
    query = grouping_query(("a",), [np.arange(3)], [True])
    truth = np.array([50.0, 20.0, 30.0])
    contrasts = LinearMeasurement(query.apply(truth).ravel(), ("a",), 0.01, query)
    evidence = Evidence.of([counts, contrasts], domain, 100.0)
    assert evidence.counts("a") == pytest.approx(truth, abs=0.1)
    assert evidence.stddev("a") == pytest.approx(0.01, rel=0.01)
    assert Evidence.of([contrasts], domain, 100.0).counts("a") == pytest.approx(truth, abs=0.1)


def test_answers_to_the_same_question_are_averaged():
    data = pg.datasets.load("census").select(["sex", "race"])
    curator = Curator(data, Rho(1.0), backend="simulation", seed=0)
    query = grouping_query(("sex", "race"), [np.arange(2), np.arange(5)], (True, True))
    for _ in range(2):
        curator.measure(("sex", "race"), Rho(0.1), query=query)
    evidence = Evidence.of(curator.measurements, data.domain, data.records)
    one = float(curator.measurements[0].stddev)
    assert [answer.variance for answer in evidence.answers] == pytest.approx([one**2 / 2])


@given(st.integers(2, 5), st.integers(2, 4), st.integers(2, 3), st.integers(0, 1000))
def test_three_attributes_are_got_back_from_their_contrasts_and_their_pairs(first, second, third, seed):
    rng = np.random.default_rng(seed)
    domain = pg.Domain({"a": 2 * first, "b": second, "c": third})
    table = rng.integers(5, 100, domain.shape).astype(float)
    whole = pg.Factor(domain, table)
    measurements = [LinearMeasurement(whole.project(name).datavector(), (name,), 1e-6) for name in domain]
    for pair in (("a", "b"), ("a", "c"), ("b", "c")):
        measurements.append(LinearMeasurement(whole.project(pair).datavector(), pair, 1e-6))
    query = grouping_query(tuple(domain), [np.arange(size) for size in domain.shape], (True, True, True))
    measurements.append(LinearMeasurement(query.apply(table).ravel(), tuple(domain), 1e-6, query))
    evidence = Evidence.of(measurements, domain, table.sum())
    assert [len(answer.clique) for answer in evidence.answers] == [2, 2, 2, 3]
    found = evidence.table(3, tuple(map(np.arange, domain.shape)))
    assert found == pytest.approx(table, rel=0.03, abs=0.5)
    assert evidence.dependence[3] == pytest.approx(
        np.abs(table - _no_interaction(whole)).sum() / 2 / table.sum(), abs=0.01
    )


def _no_interaction(whole):
    """The table of maximum entropy with the pairs of another: scaled in turn, plainly."""
    table = np.ones(whole.values.shape)
    for _ in range(500):
        for axis in range(3):
            table = table * (whole.values.sum(axis=axis) / table.sum(axis=axis)).reshape(
                [1 if place == axis else size for place, size in enumerate(table.shape)]
            )
    return table


def test_three_attributes_over_groups_keep_what_their_pairs_say_of_the_codes():
    rng = np.random.default_rng(0)
    domain = pg.Domain({"a": 4, "b": 4, "c": 2})
    table = rng.integers(5, 100, domain.shape).astype(float)
    whole, groups = pg.Factor(domain, table), [np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]), np.arange(2)]
    measurements = [LinearMeasurement(whole.project(name).datavector(), (name,), 1e-6) for name in domain]
    for pair in (("a", "b"), ("a", "c"), ("b", "c")):
        measurements.append(LinearMeasurement(whole.project(pair).datavector(), pair, 1e-6))
    query = grouping_query(tuple(domain), groups, (True, True, True))
    measurements.append(LinearMeasurement(query.apply(table).ravel(), tuple(domain), 1e-6, query))
    evidence = Evidence.of(measurements, domain, table.sum())
    found = pg.Factor(domain, evidence.table(3, tuple(map(np.arange, domain.shape))))
    assert found.project(("a", "b")).values == pytest.approx(whole.project(("a", "b")).values, rel=0.01)
    summed = found.values.reshape(2, 2, 2, 2, 2).sum(axis=(1, 3))
    assert summed == pytest.approx(table.reshape(2, 2, 2, 2, 2).sum(axis=(1, 3)), rel=0.02)
    assert found.values[:2, :2, 0] != pytest.approx(table[:2, :2, 0], rel=0.01)  # which was not asked


def test_answers_about_ranges_enter_as_the_best_linear_estimate():
    domain = pg.Domain({"a": 8})
    truth = np.array([5.0, 25, 10, 60, 30, 10, 40, 20])
    counts = LinearMeasurement(truth, ("a",), 10.0)
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    query = grouping_query(("a",), [labels], [False])
    ranges = LinearMeasurement([50.0, 150.0], ("a",), 2.0, query)
    before, after = (Evidence.of(answers, domain, 200.0) for answers in ([counts], [counts, ranges]))
    prior, matrix = before.covariance("a"), query.matrices[0].matrix()
    gain = prior @ matrix.T @ np.linalg.inv(matrix @ prior @ matrix.T + 4.0 * np.eye(2))
    expected = before.counts("a") + gain @ (np.array([50.0, 150.0]) - matrix @ before.counts("a"))
    assert after.counts("a") == pytest.approx(expected, rel=1e-3)
    assert after.covariance("a") == pytest.approx(prior - gain @ matrix @ prior)
    assert matrix @ after.counts("a") == pytest.approx([50, 150], abs=2)
    assert (np.linalg.eigvalsh(after.covariance("a")) > -1e-6).all()
    assert np.trace(after.covariance("a")) < np.trace(prior)


COUNTS = np.array([400.0, 300.0, 200.0, 100.0, 60.0, 40.0])


@pytest.mark.parametrize("stddev", [1.0, 30.0, 1e4])
def test_errors_of_counts_are_those_of_the_noise_or_where_it_hides_them_as_large_as_the_sums_of_groups(stddev):
    measured = LinearMeasurement(COUNTS, "a", stddev)
    evidence = Evidence.of([measured], pg.Domain({"a": 6}), COUNTS.sum())
    covariance = evidence.covariance("a")
    assert np.allclose(covariance.sum(axis=0), 0, atol=1e-6 * stddev**2)
    assert (np.linalg.eigvalsh(covariance) > -1e-6 * stddev**2).all()
    half = nested_groups(evidence.counts("a"))[0] == 0
    deviation = float(half @ covariance @ half) ** 0.5
    if stddev == 1.0:
        assert np.allclose(covariance, np.eye(6) - 1 / 6, atol=1e-3)
    elif stddev > 1e3:  # the noise tells nothing: of two equal halves one may well have three quarters of all
        assert 0.15 * COUNTS.sum() < deviation < 0.5 * COUNTS.sum()
    else:
        assert deviation == pytest.approx(30 * (half.sum() * (~half).sum() / 6) ** 0.5, rel=0.1)
