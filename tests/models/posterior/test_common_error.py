"""Errors that cells have in common: unbiased answers, the law, and what intervals of sums hold on sparse tables."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.models.posterior.common_error import CommonError
from pgmest.models.posterior.unbiased import UnbiasedAnswers
from pgmest.models.table_query import answer_table, attributes_of, weights_of
from pgmest.models.uncertainty import redraw

DOMAIN = pg.Domain({"a": 3, "b": 4, "c": 2})
THREES = pg.Kron({"a": [[1, 2, 3]] * 3, "b": np.eye(4)})
TABLE = pg.Factor(DOMAIN, np.random.default_rng(0).integers(0, 30, DOMAIN.shape).astype(float))


def noisy(table: pg.Factor, cliques, stddev, generator) -> list[pg.LinearMeasurement]:
    blank = [pg.LinearMeasurement(table.project(clique), clique, stddev) for clique in cliques]
    return [redraw(m, m.values, generator) for m in blank]


def by_least_squares(measurements, names, weights) -> tuple[np.ndarray, np.ndarray]:
    """The textbook's: the least-squares table of the whole domain, and its covariance."""
    rows, answers, deviations = [], [], []
    for m in measurements:
        unit = [pg.Factor(DOMAIN, one.reshape(DOMAIN.shape)) for one in np.eye(DOMAIN.size())]
        rows.append(np.stack([one.project(m.clique).datavector() for one in unit], axis=1))
        answers.append(m.values)
        deviations.append(np.broadcast_to(m.stddev, (m.rows,)))
    deviation = np.concatenate(deviations)
    matrix, values = np.vstack(rows) / deviation[:, None], np.concatenate(answers) / deviation
    inverse = np.linalg.pinv(matrix.T @ matrix, rcond=1e-10)
    unit = [pg.Factor(DOMAIN, one.reshape(DOMAIN.shape)) for one in np.eye(DOMAIN.size())]
    whole = weights @ np.stack([one.project(names).datavector() for one in unit], axis=1)
    return whole @ inverse @ matrix.T @ values, np.einsum("qi,ij,qj->q", whole, inverse, whole)


class TestUnbiasedAnswers:
    @pytest.mark.parametrize("names", [("a", "b"), ("b", "a"), ("b",), ()])
    def test_they_are_those_of_least_squares_on_the_whole_table(self, names) -> None:
        generator = np.random.default_rng(1)
        measurements = [
            *noisy(TABLE, [("a", "b"), ("c", "b")], 5.0, generator),
            *noisy(TABLE, [("b",), ("a", "c")], 2.0, generator),
        ]
        weights = generator.normal(size=(3, *DOMAIN.project(names).shape))
        found, variances = UnbiasedAnswers(measurements, DOMAIN).of(names, weights)
        exact, expected = by_least_squares(measurements, names, weights.reshape(3, -1))
        np.testing.assert_allclose(found, exact)
        np.testing.assert_allclose(variances, expected)

    def test_the_variance_is_exact_where_noise_differs_from_cell_to_cell(self) -> None:
        generator = np.random.default_rng(2)
        deviations = generator.uniform(1.0, 9.0, 12)
        exact = TABLE.project(("a", "b")).datavector()
        weights = generator.normal(size=(2, 3, 4))
        drawn, stated = [], []
        for _ in range(4000):
            noise = pg.LinearMeasurement(exact + deviations * generator.normal(size=12), ("a", "b"), deviations)
            also = noisy(TABLE, [("b", "c")], 3.0, generator)
            answers, stated = UnbiasedAnswers([noise, *also], DOMAIN).of(("a", "b"), weights)
            drawn.append(answers)
        truth = weights.reshape(2, -1) @ exact
        np.testing.assert_allclose(np.mean(drawn, axis=0), truth, atol=4 * np.sqrt(np.max(stated) / 4000))
        np.testing.assert_allclose(np.var(drawn, axis=0), stated, rtol=0.1)

    def test_a_known_total_has_no_noise(self) -> None:
        measurements = noisy(TABLE, [("a", "b")], 5.0, np.random.default_rng(0))
        ones = np.ones((1, 3, 4))
        answers, variances = UnbiasedAnswers(measurements, DOMAIN, 77.0).of(("a", "b"), ones)
        assert (answers[0], variances[0]) == (pytest.approx(77.0), pytest.approx(0.0, abs=1e-9))

    def test_what_nobody_measured_has_infinite_variance(self) -> None:
        measurements = noisy(TABLE, [("a",), ("c",)], 5.0, np.random.default_rng(0))
        weights = np.stack([np.add.outer([1.0, 2.0, 3.0], [0.0, 5.0]), np.outer([1.0, 0.0, 0.0], [1.0, 0.0])])
        _, variances = UnbiasedAnswers(measurements, DOMAIN).of(("a", "c"), weights)
        assert np.isfinite(variances).tolist() == [True, False]

    def test_answers_that_are_no_tables_are_not_used(self) -> None:
        prefixes = pg.LinearMeasurement(np.arange(4.0), "b", 1.0, pg.queries.prefix(4))
        rounded = pg.LinearMeasurement.rounded(np.array([5.0, 5.0, 0.0, 5.0]), "b", 5.0)
        _, variances = UnbiasedAnswers([prefixes, rounded], DOMAIN).of(("b",), np.eye(4))
        assert np.all(np.isinf(variances))


class TestWeights:
    @pytest.mark.parametrize(
        ("query", "clique"),
        [
            (("b", "a"), None),
            (pg.Kron({"b": pg.queries.prefix(4), "a": [[1, 0, -1]]}), None),
            (np.arange(12.0), ("b", "a")),
            (np.arange(24.0).reshape(2, 12), ("b", "a")),
            (pg.LinearMeasurement(np.zeros((4, 3)), ("b", "a")), None),
            (
                pg.LinearMeasurement(np.zeros(12), ("b", "a"), query=pg.Kron({"a": [[1, 2, 3]] * 3, "b": np.eye(4)})),
                None,
            ),
        ],
    )
    def test_they_give_the_answer(self, query, clique) -> None:
        domain = DOMAIN.project(("b", "a"))
        table = TABLE.project(("b", "a"))
        exact = answer_table(table, query, clique).datavector()
        weights = weights_of(query, clique, domain, range(1, len(exact)))
        np.testing.assert_allclose(weights @ table.datavector(), exact[1:])


class TestTheLaw:
    """Counts and answers of known Gaussian laws: a cell's count has mean `center` + a common error, and spread 2."""

    CELLS, SPREAD, NOISE = 200, 2.0, 10.0

    def held(self, common: float, trust: bool = False) -> tuple[float, float]:
        """Return how often 95 % intervals of the sum of all cells contain it, and their mean width."""
        generator, domain = np.random.default_rng(3), pg.Domain({"x": self.CELLS})
        gain = self.SPREAD**2 / (self.SPREAD**2 + self.NOISE**2)
        inside, widths = [], []
        for seed in range(150):
            truth = 5.0 + common + self.SPREAD * generator.normal(size=self.CELLS)
            answers = truth + self.NOISE * generator.normal(size=self.CELLS)
            posterior = 5.0 + gain * (answers - 5.0)
            spread = self.SPREAD * np.sqrt(1 - gain)
            tables = posterior + spread * generator.normal(size=(400, self.CELLS))
            measured = [pg.LinearMeasurement(answers, "x", self.NOISE)]
            error = CommonError(("x",), domain, tables, [tables.std(axis=0)], UnbiasedAnswers(measured, domain))
            values = tables.sum(axis=1)[:, None]
            if not trust:
                values = error.linear(lambda rows: np.ones((1, self.CELLS)), values, np.random.default_rng(seed))
            low, high = np.quantile(values, (0.025, 0.975))
            inside.append(low <= truth.sum() <= high)
            widths.append(high - low)
        return float(np.mean(inside)), float(np.mean(widths))

    @pytest.mark.parametrize("common", [-2.0, -0.7, 0.0, 1.5, 3.0])
    def test_sums_are_held_whatever_the_common_error(self, common) -> None:
        held, width = self.held(common)
        assert held >= 0.9
        assert width <= 1.05 * 2 * 1.96 * self.NOISE * np.sqrt(self.CELLS)

    def test_draws_as_they_are_hold_them_only_where_the_prior_is_right(self) -> None:
        """The check has power."""
        assert self.held(0.0, trust=True)[0] >= 0.9
        assert self.held(1.5, trust=True)[0] < 0.1

    def test_single_cells_stay_as_they_are(self) -> None:
        generator, domain = np.random.default_rng(0), pg.Domain({"x": 5})
        tables = 20.0 + generator.normal(size=(400, 5))
        measured = [pg.LinearMeasurement(20.0 + 8.0 * np.ones(5), "x", 8.0)]
        error = CommonError(("x",), domain, tables, [tables.std(axis=0)], UnbiasedAnswers(measured, domain))
        np.testing.assert_allclose(error.linear(lambda rows: np.eye(5)[rows], tables, generator), tables, atol=1e-6)

    def test_counts_do_not_become_negative(self) -> None:
        generator, domain = np.random.default_rng(0), pg.Domain({"x": 50})
        tables = generator.exponential(1.0, (400, 50))
        measured = [pg.LinearMeasurement(-3.0 * np.ones(50), "x", 10.0)]
        error = CommonError(("x",), domain, tables, [tables.std(axis=0)], UnbiasedAnswers(measured, domain))
        found = error.linear(lambda rows: np.ones((1, 50)), tables.sum(axis=1)[:, None], generator)
        assert found.min() == 0.0
        assert found.mean() < 0.8 * tables.sum(axis=1).mean()
        shares = error.function(lambda table: np.array([table[:25].sum() / table.sum()]), generator)
        assert np.all((shares > 0) & (shares < 1))

    def test_a_linear_function_is_answered_as_a_query_is(self) -> None:
        generator, domain = np.random.default_rng(0), pg.Domain({"x": 40})
        tables = generator.gamma(4.0, 1.0, (600, 40))
        measured = [pg.LinearMeasurement(6.0 * np.ones(40), "x", 10.0)]
        error = CommonError(("x",), domain, tables, [tables.std(axis=0)], UnbiasedAnswers(measured, domain))
        values = tables.sum(axis=1)[:, None]
        query = error.linear(lambda rows: np.ones((1, 40)), values, np.random.default_rng(1))
        function = error.function(lambda table: np.array([table.sum()]), np.random.default_rng(1))
        np.testing.assert_allclose(function, query, rtol=1e-6)


def random_truth(concentration: float, generator: np.random.Generator) -> pg.Factor:
    """A table of 3,000 records of a distribution from Dirichlet's, most of its cells empty where that is small."""
    domain = pg.Domain({"a": 12, "b": 8, "c": 4})
    weights = generator.standard_gamma(concentration, domain.size()) + 1e-300
    return pg.Factor(domain, generator.multinomial(3000, weights / weights.sum()).reshape(domain.shape).astype(float))


class TestCoverage:
    @pytest.mark.parametrize("concentration", [0.01, 0.1, 1.0])
    def test_sums_and_means_of_random_tables(self, concentration) -> None:
        held: dict[str, list[np.ndarray]] = {"cells": [], "prefixes": [], "means": []}
        for seed in range(2):
            generator = np.random.default_rng([seed, round(100 * concentration)])
            truth = random_truth(concentration, generator)
            model = pg.estimate(noisy(truth, [("a", "b"), ("b", "c"), ("a", "c")], 12.0, generator), truth.domain)
            posterior = model.posterior(100, seed, warm_up=60, chains=2)
            for name, query, clique in (
                ("cells", ("a", "b"), None),
                ("prefixes", pg.Kron({"a": pg.queries.prefix(12)}), None),
                ("prefixes", pg.Kron({"b": pg.queries.prefix(8)}), None),
                ("means", mean_code, ("a", "b")),
                ("means", mean_code, ("b", "c")),
            ):
                low, high = posterior.interval(query, clique)
                names = attributes_of(query, clique, truth.domain)
                exact = answer_table(truth.project(names or ()), query, clique).values
                held[name].append(((low.values <= exact + 1e-6) & (exact - 1e-6 <= high.values)).reshape(-1))
        shares = {name: np.mean(np.concatenate(parts)) for name, parts in held.items()}
        assert min(shares.values()) >= 0.85, shares


def mean_code(table: pg.Factor) -> np.ndarray:
    """Return the mean of the last attribute by the first, with one record more in the middle."""
    codes = np.arange(table.values.shape[1])
    return (table.values @ codes + codes.mean()) / (table.values.sum(axis=1) + 1.0)
