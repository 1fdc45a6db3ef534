"""Facts in posteriors: every draw has them, and other answers are conditioned on them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.models.posterior import NormalPrior
from pgmest.models.posterior.density import PosteriorDensity
from pgmest.models.posterior.facts import FactsMove, conditioned, exact_total, precise_measurements
from pgmest.models.posterior.posterior import _whole_ends
from pgmest.models.posterior.unbiased import UnbiasedAnswers
from pgmest.models.uncertainty import redraw

M = pg.LinearMeasurement
DOMAIN = pg.Domain({"a": 4, "b": 3})
PAIR = ("a", "b")


def noisy(truth: np.ndarray, stddev: float = 10.0, seed: int = 0) -> pg.LinearMeasurement:
    return M(truth + np.random.default_rng(seed).normal(0, stddev, truth.shape), PAIR, stddev)


def density_of(model: pg.Model, log_total: float, facts: Iterable[M] = ()) -> PosteriorDensity:
    assert model.refit is not None
    assert model.measurements is not None
    return PosteriorDensity(model.refit, [*model.measurements, *facts], NormalPrior(), log_total)


class TestDraws:
    @pytest.fixture(scope="class")
    @classmethod
    def posterior(cls):
        truth = np.random.default_rng(1).poisson(60, (4, 3)).astype(float)
        truth[2] = 0
        corner = M.exact([truth[:2, :2].sum()], PAIR, [[1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0]])
        model = pg.estimate([noisy(truth), M.exact(truth.sum(1), "a"), corner], DOMAIN)
        return truth, model.posterior(draws=160, chains=2, warm_up=40)

    def test_every_draw_has_the_facts(self, posterior) -> None:
        truth, found = posterior
        _, tables = found.draws(PAIR)
        np.testing.assert_allclose(tables.sum(2), np.broadcast_to(truth.sum(1), (160, 4)), atol=1e-9 * truth.sum())
        np.testing.assert_allclose(tables[:, :2, :2].sum((1, 2)), truth[:2, :2].sum(), atol=1e-9 * truth.sum())
        assert tables[:, 2].max() == 0
        assert tables[:, 0, 0].std() > 1
        assert found.report.missed <= 1e-9 * truth.sum()
        np.testing.assert_allclose(found.totals, truth.sum(), rtol=1e-12)

    def test_intervals_of_what_facts_determine_have_no_width(self, posterior) -> None:
        truth, found = posterior
        sums = np.kron([[1, 0, 0, 0], [1, 1, 0, 0]], [1.0, 1.0, 1.0])
        for query, clique, exact in (
            ("a", None, truth.sum(1)),
            ((), None, truth.sum()),
            (sums, PAIR, sums @ truth.reshape(-1)),
            (lambda table: table.values[:2, :2].sum(), PAIR, truth[:2, :2].sum()),
        ):
            low, high = found.interval(query, clique)
            np.testing.assert_allclose(low.values, exact, atol=1e-9 * truth.sum())
            np.testing.assert_allclose(high.values, exact, atol=1e-9 * truth.sum())
        assert found.interval("b").width.values.min() > 10
        assert found.interval("a", about="population").width.values[0] > 10

    def test_sampled_tables_have_the_facts(self, posterior) -> None:
        truth, found = posterior
        for tables in (found.sample_tables(3, seed=0), found.sample_tables(3, attributes=PAIR, seed=0)):
            for table in tables:
                np.testing.assert_array_equal(table.project("a").values, truth.sum(1))
        drawn = [table.project("a").values for table in found.sample_tables(3, about="population", seed=0)]
        assert not np.array_equal(drawn[0], truth.sum(1))

    def test_ends_that_are_certain_are_not_rounded_outwards(self) -> None:
        low, high = _whole_ends(np.array([3.0 - 1e-5, 3.4, 3.4, 2.0]), np.array([3.0 + 1e-5, 3.4, 3.9, 2.2]), 1e-4)
        assert low.tolist() == [3, 3.4, 3, 2]
        assert high.tolist() == [3, 3.4, 4, 3]


class TestUnmeasuredPairs:
    def test_tables_and_records_of_unmeasured_pairs_have_the_facts(self) -> None:
        generator = np.random.default_rng(0)
        domain = pg.Domain({"a": 3, "b": 2, "c": 2, "d": 3})
        truth = pg.Factor(domain, generator.poisson(generator.lognormal(2, 1, domain.shape)).astype(float))
        cliques = (("a", "b"), ("b", "c"), ("c", "d"))
        exact = {names: truth.project(names).values for names in (("a",), ("c", "d"))}
        measured = [M(generator.normal(truth.project(c).values, 8.0), c, 8.0) for c in cliques]
        measured += [M.exact(exact[("a",)], "a"), M.exact(exact[("c", "d")][0], ("c", "d"), np.eye(6)[:3])]
        found = pg.estimate(measured, domain).posterior(draws=120, chains=2, warm_up=80)
        axes, tables = found.draws(("a", "c", "d"))
        within = 1e-9 * truth.values.sum()
        for table in tables:
            counts = pg.Factor(axes, table)
            np.testing.assert_allclose(counts.project("a").values, exact[("a",)], atol=within)
            np.testing.assert_allclose(counts.project(("c", "d")).values[0], exact[("c", "d")][0], atol=within)
        rows = np.kron(np.ones((1, 3)), np.eye(3))  # sums over d of a table of d and a
        low, high = found.interval(rows, ("d", "a"))
        np.testing.assert_allclose([low.values, high.values], [exact[("a",)]] * 2, atol=within)
        for names in (("d", "a"), ("d", "c", "a"), None):
            for records in found.sample_tables(3, attributes=names, seed=1):
                np.testing.assert_array_equal(records.project("a").values, exact[("a",)])


class TestCovariance:
    @pytest.mark.parametrize("facts", ["a", "both", "total", "cell"])
    def test_large_tables_have_the_normal_conditional_covariance(self, facts) -> None:
        truth = np.random.default_rng(2).poisson(4000, (4, 3)).astype(float)
        cell = M.exact([truth[0, 0]], PAIR, np.eye(12)[:1])
        exact = {
            "a": [M.exact(truth.sum(1), "a")],
            "both": [M.exact(truth.sum(1), "a"), M.exact(truth.sum(0), "b")],
            "total": [M.exact([truth.sum()], ())],
            "cell": [cell],
        }[facts]
        rows = np.concatenate(
            [np.kron(np.eye(4), np.ones(3)), np.kron(np.ones(4), np.eye(3))]
            if facts == "both"
            else [np.kron(np.eye(4), np.ones(3))]
            if facts == "a"
            else [np.ones((1, 12))]
            if facts == "total"
            else [np.eye(12)[:1]]
        )
        model = pg.estimate([noisy(truth), *exact], DOMAIN)
        found = model.posterior(draws=2000, method="laplace", prior=NormalPrior())
        _, tables = found.draws(PAIR)
        cells = tables.reshape(len(tables), -1)
        expected = 100 * (np.eye(12) - np.linalg.pinv(rows) @ rows)
        np.testing.assert_allclose(np.cov(cells.T), expected, atol=11.0)  # 3.5 standard errors
        mean = noisy(truth).values + np.linalg.pinv(rows) @ (rows @ (truth.reshape(-1) - noisy(truth).values))
        np.testing.assert_allclose(cells.mean(0), mean, atol=3.0)  # the mode is exact to a third of the noise

    def test_conditioned_normal_draws(self) -> None:
        generator = np.random.default_rng(3)
        root = generator.normal(size=(5, 5))
        points = generator.normal(size=(20_000, 5)) @ root.T + 3.0
        rows = generator.normal(size=(2, 5))
        twice, whole = np.concatenate([rows, rows[:1]]), root @ root.T
        found = conditioned(points, points @ twice.T - [1.0, 2.0, 1.0], twice, twice @ whole)
        np.testing.assert_allclose(found @ rows.T, np.broadcast_to([1.0, 2.0], (20_000, 2)), atol=1e-8)
        gain = whole @ rows.T @ np.linalg.inv(rows @ whole @ rows.T)
        np.testing.assert_allclose(np.cov(found.T), whole - gain @ rows @ whole, atol=0.05 * np.abs(whole).max())
        np.testing.assert_allclose(found.mean(0), 3.0 - gain @ (rows @ np.full(5, 3.0) - [1.0, 2.0]), atol=0.1)

    def test_the_slopes_of_facts_are_differences(self) -> None:
        truth = np.random.default_rng(4).poisson(50, (4, 3)).astype(float)
        part = M.exact([truth[0, 0], truth[:2].sum()], PAIR, [np.eye(12)[0], np.repeat([1.0, 1.0, 0.0, 0.0], 3)])
        model = pg.estimate([noisy(truth), part], DOMAIN)
        density = density_of(model, float(np.log(truth.sum())))
        point = density.start() + 0.1 * np.random.default_rng(5).normal(size=density.size)
        slopes, solved = density._fact_slopes(point)
        step = np.random.default_rng(6).normal(size=density.size)
        ends = [density.facts.missed(density.marginals(point + sign * 1e-4 * step)) for sign in (1, -1)]
        np.testing.assert_allclose(slopes @ step, (ends[0] - ends[1]) / 2e-4, rtol=1e-5)
        curvature = density.curvature(point)
        np.testing.assert_allclose([curvature.product(row) for row in solved], slopes, atol=0.01 * np.abs(slopes).max())

    def test_more_facts_than_are_conditioned_on(self, monkeypatch) -> None:
        monkeypatch.setattr("pgmest.models.posterior.facts.MOST_CONDITIONED", 2)
        monkeypatch.setattr("pgmest.models.posterior.density.MOST_CONDITIONED", 2)
        truth = np.random.default_rng(4).poisson(50, (4, 3)).astype(float)
        model = pg.estimate([noisy(truth), M.exact(truth.sum(1), "a")], DOMAIN)
        _, tables = model.posterior(draws=8, chains=1, warm_up=10, method="laplace").draws("a")
        np.testing.assert_allclose(tables, np.broadcast_to(truth.sum(1), (8, 4)), atol=1e-9 * truth.sum())


class TestMove:
    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 10**6))
    def test_it_is_the_closest_distribution_with_the_facts(self, seed) -> None:
        generator = np.random.default_rng(seed)
        domain = pg.Domain({"a": 3, "b": 2, "c": 2})
        truth = pg.Factor(domain, generator.choice([0.2, 1.0, 5.0, 50.0], domain.shape))
        facts = [M.exact(truth.project("a"), "a"), M.exact(truth.project(("b", "c")), ("b", "c"))]
        facts.append(M.exact([truth.project(("a", "b")).values[0, 0]], ("a", "b"), np.eye(6)[:1]))
        model = pg.estimate([M(truth.project(c), c, 1.0) for c in (("a", "b"), ("b", "c"), ("a",))], domain)
        density = density_of(model, 0.0, facts)
        theta = generator.normal(0, 1, density.cells)
        total = float(truth.values.sum())
        moved = density.facts.onto(theta, total, density.oracle)
        counts, _ = density.oracle.run(moved, total)
        assert np.abs(density.facts.missed(counts)).max() <= 1e-9 * total
        # By duality it is the closest one if the potentials differ by a combination of the facts' rows.
        rows = np.stack([density.facts.residuals.transpose(unit) for unit in np.eye(len(density.facts.kept))])
        combination, *_ = np.linalg.lstsq(rows.T, moved - theta, rcond=None)
        np.testing.assert_allclose(rows.T @ combination, moved - theta, atol=1e-8)

    def test_facts_of_zero_exclude_cells(self) -> None:
        model = pg.estimate([noisy(np.full((4, 3), 20.0)), M.exact([0.0, 30.0, 30.0, 0.0], "a")], DOMAIN)
        density = density_of(model, 0.0)
        facts = FactsMove.of(model.measurements or (), density.layout)
        assert facts is not None
        assert len(facts.excluded) == 2
        assert facts.kept.tolist() == [False, True, True, False]
        signed = M.exact([0.0], PAIR, [[1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]])
        facts = FactsMove.of([signed], density.layout)
        assert facts is not None
        assert len(facts.excluded) == 0
        assert facts.kept.tolist() == [True]

    def test_contradictions_are_said(self) -> None:
        fact = M.exact([60.0, 60.0, 60.0, 60.0], "a")
        model = pg.estimate([noisy(np.full((4, 3), 20.0)), fact], DOMAIN)
        density = density_of(model, 0.0)
        density.facts = FactsMove.of([fact, M.exact([70.0, 60.0, 60.0, 50.0], "a")], density.layout)
        points = np.tile(density.start(), (2, 1))
        points[:, -1] = np.log(240.0)
        _, missed = density.given_facts(points, points[0])
        assert 1 < missed < 100


class TestParts:
    def test_precise_measurements(self) -> None:
        table = np.array([[100.0, np.nan, 50.0], [400.0, 7.0, np.nan], [8.0, 9.0, 10.0], [0.0, 0.0, 16.0]])
        suppressed = M.suppressed(table, PAIR, 5)
        few = precise_measurements([suppressed, M(np.ones(4), "a", 3.0)])
        assert [m.rows for m in few] == [10, 2, 4]
        np.testing.assert_allclose(few[0].values, table[np.isfinite(table)])
        finest = 4 / np.sqrt(12)
        np.testing.assert_allclose(few[0].stddev, np.minimum(finest, np.sqrt(few[0].values + 1)))
        np.testing.assert_allclose(few[0].answer_cells(np.arange(12.0)), np.flatnonzero(np.isfinite(table)))
        np.testing.assert_allclose(few[1].answer_cells(np.arange(12.0)), [1, 5])
        assert (few[1].low.tolist(), few[1].high.tolist()) == ([0, 0], [4, 4])
        many = M.exact(np.full(501, 99.0), "a")
        np.testing.assert_allclose(precise_measurements([many])[0].stddev, 1.0)
        np.testing.assert_allclose(precise_measurements([M.exact(np.zeros(501), "a")])[0].stddev, 0.25)
        assert precise_measurements([few[2]]) == (few[2],)

    def test_exact_total(self) -> None:
        rest = M.exact([3.0], "a", [[1, 0, 0, 0]])
        assert exact_total([M(np.ones(4), "a", 1.0), rest], DOMAIN) is None
        assert exact_total([M.exact([1, 2, 3, 4], "a"), rest], DOMAIN) == pytest.approx(10.0, abs=1e-12)
        assert exact_total([M.suppressed([10, 20, 30, np.nan], "a", 5)], DOMAIN) is None

    def test_unbiased_answers_use_exact_tables(self) -> None:
        truth = np.arange(12.0).reshape(4, 3)
        measured = noisy(truth)
        unbiased = UnbiasedAnswers([measured, M.exact(truth.sum(1), "a")], DOMAIN)
        weights = np.random.default_rng(0).normal(size=(3, 4, 3))
        answers, variances = unbiased.of(PAIR, weights)
        rows = np.kron(np.eye(4), np.ones((1, 3)))
        gain = np.linalg.pinv(rows)
        flat, y = weights.reshape(3, -1), measured.values
        np.testing.assert_allclose(answers, flat @ (y + gain @ (truth.sum(1) - rows @ y)))
        np.testing.assert_allclose(variances, np.diag(flat @ (np.eye(12) - gain @ rows) @ flat.T) * 100)

    def test_a_bootstrap_repeats_facts_as_they_are(self) -> None:
        table = M.suppressed([[12.0, np.nan], [np.nan, 30.0]], PAIR, 5)
        drawn = redraw(table, np.array([11.5, 2.0, 3.0, 30.5]), np.random.default_rng(0))
        assert drawn.low is not None
        assert drawn.high is not None
        assert (drawn.low[0], drawn.high[0], drawn.low[3], drawn.high[3]) == (12, 12, 30, 30)
        assert drawn.low[1] <= 2.0 <= drawn.high[1]
        np.testing.assert_allclose(drawn.high[1:3] - drawn.low[1:3], 4.0)
