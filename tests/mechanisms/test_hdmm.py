"""HDMM: strategies and their expected errors against dense linear algebra and Monte Carlo, and the mechanism."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

import pgmest as pg
from pgmest import queries
from pgmest.errors import ArgumentError, ModelTooLarge, QueryError, ShapeError
from pgmest.evaluation import workload_error
from pgmest.mechanisms import HDMM
from pgmest.privacy import AddRemove, Epsilon, Replace, Rho
from pgmest.queries import Kron
from pgmest.strategies import demands_of, p_identity, select_strategy
from pgmest.strategies.demand import gram
from pgmest.strategies.p_identity import error_and_gradient, expected_error
from pgmest.workloads import Item, Workload, all_kway, marginals, prefixes, random_ranges, ranges
from tests.mechanisms.auditing import DATA, DOMAIN, audit_mechanism

WORKLOADS = {
    "pairs": all_kway(DOMAIN, 2),
    "weighted": marginals([("a", "b"), ("c", "b"), ("a",)], [1, 3, 10]),
    "prefixes": prefixes(DOMAIN, [("a", "b"), ("b", "c")], ["b"]),
    "a few boxes": random_ranges(DOMAIN, 3, 3, seed=0),
    "ranges and total": ranges(DOMAIN, [("c", "b"), ("b",)]) + marginals([()]),
    "summed out": Workload((Item(("a", "b"), Kron({"a": queries.total(2), "b": queries.prefix(3)})),)),
}


def dense(clique, query):
    """The (rows, cells) matrix of a query on the whole domain's cells."""
    factors = {name: queries.identity(DOMAIN[name]) for name in clique} if query is None else query.factors
    return Kron({name: factors.get(name, queries.total(DOMAIN[name])) for name in DOMAIN}).matrix()


def least_squares(measurements):
    """The table of least squares of smallest norm, by dense linear algebra, and its covariance."""
    rows = np.vstack([dense(m.clique, m.query) / m.stddev for m in measurements])
    values = np.concatenate([m.values / m.stddev for m in measurements])
    return np.linalg.pinv(rows) @ values, np.linalg.pinv(rows.T @ rows)


def asked(workload):
    return np.vstack([item.weight * dense(item.clique, item.kron(DOMAIN)) for item in workload])


@settings(max_examples=30)
@given(st.integers(1, 3), st.integers(2, 5), st.sampled_from([1, 2]), st.integers(0, 1000))
def test_the_gradient_of_the_error_is_right(p, n, order, seed):
    rng = np.random.default_rng(seed)
    theta, workload = rng.random((p, n)) + 0.1, rng.normal(size=(n + 1, n))
    W = workload.T @ workload

    def value(flat):
        return error_and_gradient(flat.reshape(p, n), W, order)[0]

    exact = np.vstack([np.eye(n), theta])
    exact /= np.linalg.norm(exact, order, axis=0)
    assert value(theta.ravel()) == pytest.approx(expected_error(exact, W))
    numeric = approx_fprime(theta.ravel(), value, 1e-7)
    assert error_and_gradient(theta, W, order)[1].ravel() == pytest.approx(numeric, rel=1e-3, abs=1e-4 * np.trace(W))


@pytest.mark.parametrize("query", [queries.prefix, queries.all_range])
def test_gaussian_strategies_are_close_to_the_lower_bound(query):
    W = gram(query(64))
    bound = np.sqrt(np.linalg.eigvalsh(W).clip(0)).sum() ** 2 / 64  # the SVD bound (Li, Miklau 2013)
    assert bound <= expected_error(p_identity(W, order=2), W) <= 1.1 * bound


@pytest.mark.parametrize(("query", "ratio"), [(queries.prefix, 1.5), (queries.all_range, 1.18)])
def test_laplace_strategies_beat_identity_and_a_hierarchy(query, ratio):
    W = gram(query(64))
    strategy = p_identity(W, order=1)
    tree = queries.hierarchical(64).matrix() / 7
    assert strategy.sum(axis=0) == pytest.approx(1)
    assert np.sqrt(np.trace(W) / expected_error(strategy, W)) > ratio
    assert expected_error(tree, W) > 2 * expected_error(strategy, W)


def test_gram_matrices_do_not_need_the_queries_written_down(monkeypatch):
    monkeypatch.setattr("pgmest.strategies.demand.ENTRIES_AT_ONCE", 100)
    matrix = queries.all_range(20).matrix()
    assert gram(queries.all_range(20)) == pytest.approx(matrix.T @ matrix)


def test_matrices_that_look_alike_are_told_apart():
    first, second = (Item(("b",), np.array(rows)) for rows in ([[1.0, 0, 0], [0, 1, 1]], [[5.0, 0, 0], [0, 0, 1]]))
    grams = [demand.grams["b"] for demand in demands_of(DOMAIN, Workload((first, second)))]
    assert [np.trace(matrix) for matrix in grams if matrix is not None] == [3.0, 26.0]


@pytest.mark.parametrize("neighbors", [AddRemove(), Replace()])
@pytest.mark.parametrize("budget", [Epsilon(1.0), Rho(0.5)])
@pytest.mark.parametrize("name", WORKLOADS)
def test_expected_errors_and_answers_are_those_of_dense_least_squares(name, budget, neighbors):
    workload = WORKLOADS[name]
    if isinstance(neighbors, Replace):
        workload = Workload(tuple(item for item in workload if item.clique))
    for strategy in select_strategy(DOMAIN, workload, type(budget), neighbors):
        curator = pg.privacy.Curator(DATA, budget, neighbors=neighbors, backend="simulation", seed=1)
        shares = {"weights": strategy.shares, "queries": strategy.queries}
        measurements = curator.measure_all(strategy.cliques, budget, **shares)
        answers = strategy.least_squares(DOMAIN, measurements)
        promised = 0.0
        rest = measurements
        for group, _ in strategy.groups:
            mine, rest = rest[: len(group.cliques)], rest[len(group.cliques) :]
            table, covariance = least_squares(mine)
            W = np.vstack(
                [
                    asked([item])
                    for item in workload
                    if demands_of(DOMAIN, Workload((item,)))[0].clique in {demand.clique for demand in group.demands}
                ]
            )
            promised += np.trace(W @ covariance @ W.T)
            for demand in group.demands:
                expected = (dense(demand.clique, None) @ table).reshape(DOMAIN.project(demand.clique).shape)
                assert answers.project(demand.clique).values == pytest.approx(expected, abs=1e-8)
        assert strategy.expected_error(budget, neighbors) == pytest.approx(promised)


def test_the_promised_error_is_the_average_one():
    mechanism = HDMM(rho=0.5, estimator="original", backend="simulation")
    workload = prefixes(DOMAIN, [("a", "b"), ("b", "c")], ["b"])
    truth, plan = np.concatenate(workload.answer(DATA)), mechanism.plan(DOMAIN, workload)
    strategy, squares = plan.strategy, []
    for seed in range(150):
        curator = pg.privacy.Curator(DATA, plan.budget, backend="simulation", seed=seed)
        options = {"weights": strategy.shares, "queries": strategy.queries}
        answers = strategy.least_squares(DOMAIN, curator.measure_all(strategy.cliques, plan.budget, **options))
        squares.append(np.square(np.concatenate(workload.answer(answers)) - truth))
    assert np.sqrt(np.mean(squares)) == pytest.approx(plan.expected_error, rel=0.1)


def test_strategies_beat_measuring_the_workload():
    domain = pg.Domain({"a": 40, "b": 5, "c": 6})
    workload = ranges(domain, ["a"]) + marginals([("b", "c"), ("b",), ("c",)])
    mechanism = HDMM(rho=0.5)
    plan = mechanism.plan(domain, workload)
    variance = 4 / (2 * 0.5)  # of each cell, were the four marginals measured with equal shares
    naive = variance * (np.trace(gram(queries.all_range(40))) + 30 + 5 + 6) / workload.rows(domain)
    assert plan.expected_error**2 < 0.3 * naive


def test_pairs_that_overlap_help_each_other():
    domain = pg.Domain({f"x{i}": 2 for i in range(6)})
    [best, *_] = select_strategy(domain, all_kway(domain, 2), Rho, AddRemove())
    alone = 15 * 4 * 15 / 2  # 15 tables of 4 cells, each with sigma^2 = 15 / 2
    assert best.expected_error(Rho(1.0), AddRemove()) < 0.5 * alone


@pytest.mark.parametrize("estimator", ["pgm", "original"])
@pytest.mark.parametrize("budget", [{"epsilon": 1e3, "delta": 0}, {"rho": 1e4}])
@pytest.mark.parametrize("neighbors", [AddRemove(), Replace()])
def test_without_noise_answers_are_exact(estimator, budget, neighbors):
    workload = prefixes(DOMAIN, [("a", "b"), ("b", "c")], ["b"])
    mechanism = HDMM(estimator=estimator, backend="simulation", neighbors=neighbors, **budget)
    result = mechanism.fit(DATA, workload, seed=0)
    for mine, truth in zip(workload.answer(result), workload.answer(DATA), strict=True):
        assert mine == pytest.approx(truth, abs=0.3)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert result.project(("c", "b")).values == pytest.approx(result.project(("b", "c")).values.T)


@pytest.mark.parametrize("budget", [{"epsilon": 1e3, "delta": 0}, {"rho": 1e4}])
@pytest.mark.parametrize("neighbors", [AddRemove(), Replace()])
def test_local_tables_without_noise_are_exact(budget, neighbors):
    workload = all_kway(DOMAIN, 2)
    mechanism = HDMM(estimator="local", backend="simulation", neighbors=neighbors, **budget)
    result = mechanism.fit(DATA, workload, seed=0)
    for mine, truth in zip(workload.answer(result), workload.answer(DATA), strict=True):
        assert mine == pytest.approx(truth, abs=0.3)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert result.details["negative"] <= 1e-3
    records = result.sample(seed=0)
    assert records.records == round(result.model.total)
    assert result.model.distance(records) < 0.02
    assert result.model.distance(DATA) < 0.01


def test_local_tables_of_a_noisy_release_are_closer_than_least_squares_and_not_negative():
    data = pg.datasets.load("census").take(range(3000)).select(["age", "sex", "race", "relationship", "income>50K"])
    workload = all_kway(data.domain, 2)
    local, original = (
        HDMM(rho=0.02, estimator=estimator, backend="simulation").fit(data, workload, seed=0)
        for estimator in ("local", "original")
    )
    assert local.details["strategy"] == original.details["strategy"] == "residuals"
    assert np.array_equal(local.measurements[0].values, original.measurements[0].values)
    assert workload_error(data, local, workload) < 0.7 * workload_error(data, original, workload)
    assert min(table.min() for table in workload.answer(local)) >= 0
    assert min(table.min() for table in workload.answer(original)) < 0


def test_residuals_are_measured_where_they_promise_less():
    domain = pg.Domain({f"x{i}": 2 for i in range(8)})
    plans = {name: HDMM(rho=0.5, estimator=name).plan(domain) for name in ("pgm", "original", "local")}
    assert plans["pgm"].strategy.name == "marginals"
    assert plans["original"].strategy.name == plans["local"].strategy.name == "residuals"
    assert plans["local"].expected_error < 0.9 * plans["pgm"].expected_error
    assert "residuals" not in HDMM(epsilon=1.0, delta=0, estimator="original").plan(domain).errors
    assert "residuals" not in HDMM(rho=0.5, estimator="original").plan(domain, ranges(domain, ["x0"])).errors


def test_local_tables_are_of_marginals_only():
    mechanism = HDMM(rho=0.5, estimator="local", backend="simulation")
    with pytest.raises(QueryError, match="takes workloads of marginals"):
        mechanism.fit(DATA, prefixes(DOMAIN, [("a", "b")], ["b"]))


def test_pgm_is_closer_than_least_squares_on_the_same_measurements():
    data = pg.datasets.load("census").take(range(3000)).select(["age", "sex", "race", "relationship", "income>50K"])
    workload = all_kway(data.domain, 2)
    pgm, original = (
        HDMM(epsilon=0.3, delta=0, estimator=estimator, backend="simulation").fit(data, workload, seed=0)
        for estimator in ("pgm", "original")
    )
    assert np.array_equal(pgm.measurements[0].values, original.measurements[0].values)
    assert workload_error(data, pgm, workload) < 0.7 * workload_error(data, original, workload)
    assert pgm.details["expected_error"] == original.details["expected_error"]


def test_least_squares_makes_no_records_and_knows_attributes_that_are_not_named_alone():
    result = HDMM(epsilon=1.0, delta=0, estimator="original", backend="simulation").fit(DATA, [("a",)], seed=0)
    with pytest.raises(QueryError, match="no distribution to draw records from"):
        result.sample(3)
    a, c = result.project("a").values, result.project("c").values
    assert result.project(("a", "c")).values == pytest.approx(a[:, None] / 2 + c / 2 - a.sum() / 4)


def test_a_plan_prints_what_it_would_measure_before_anything_is_spent():
    plan = HDMM(epsilon=1.0, delta=0).plan(DOMAIN, prefixes(DOMAIN, [("a", "b"), ("b", "c")], ["b"]))
    lines = repr(plan).splitlines()
    assert lines[0].startswith("Plan of HDMM for Epsilon(1): ")
    assert "counts a query, root mean squared (marginals" in lines[1]
    assert "b x c  " in repr(plan)
    assert plan.expected_error == min(plan.errors.values())


def test_seeds_repeat():
    mechanism = HDMM(epsilon=1.0, delta=0, backend="simulation")
    first, again, other = (mechanism.fit(DATA, seed=seed).project("b").values for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_what_cannot_be_done_is_refused_before_anything_is_spent():
    with pytest.raises(ArgumentError, match="estimator='mle' is not valid"):
        HDMM(epsilon=1.0, delta=0, estimator="mle")
    with pytest.raises(ArgumentError, match="max_megabytes=0 is not valid"):
        HDMM(epsilon=1.0, delta=0, max_megabytes=0)
    with pytest.raises(QueryError, match="not a Kronecker product"):
        HDMM(epsilon=1.0, delta=0).plan(DOMAIN, Workload((Item(("a", "b"), np.eye(6)[:2]),)))
    with pytest.raises(ArgumentError, match="positive weight"):
        HDMM(epsilon=1.0, delta=0).plan(DOMAIN, 0.0 * all_kway(DOMAIN, 1))
    with pytest.raises(ModelTooLarge):
        replace(HDMM(epsilon=1.0, delta=0, backend="simulation"), max_megabytes=1e-6).fit(DATA)
    with pytest.raises(ArgumentError, match="order=3 is not valid"):
        p_identity(np.eye(3), order=3)
    with pytest.raises(ArgumentError, match="p=0 is not valid"):
        p_identity(np.eye(3), order=1, p=0)
    with pytest.raises(ShapeError):
        p_identity(np.ones((3, 2)), order=1)


def test_audit():
    mechanism = HDMM(epsilon=1.0, delta=0, estimator="original", backend="simulation")
    assert not audit_mechanism(mechanism).contradicts(mechanism.budget())


def test_a_table_of_one_cell_and_a_public_number_of_records_is_refused_before_anything_is_spent():
    data = pg.Dataset.from_codes([[0, 0], [0, 0]], pg.Domain({"a": 1, "b": 1}))
    with pytest.raises(ArgumentError, match="nothing to measure"):
        HDMM(rho=1.0, backend="simulation", neighbors=Replace()).fit(data, [("a",)], seed=0, progress=False)
    found = HDMM(rho=1.0, backend="simulation").fit(data, [("a",)], seed=0, progress=False)
    assert found.project("b").values.shape == (1,)
