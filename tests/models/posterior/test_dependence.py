"""Dependence that was not measured: strengths learned back from simulations, and tables that keep what was measured."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import pgmest as pg
from pgmest.models.posterior.dependence import UnmeasuredDependence, raked
from pgmest.models.posterior.strength import (
    FEWEST_CLIQUES,
    GRID,
    TRENDS,
    Strengths,
    learn_strengths,
    standard_codes,
)
from pgmest.models.uncertainty import redraw

DOMAIN = pg.Domain(dict.fromkeys("abcdef", 5))
PAIRS = tuple(itertools.pairwise("abcdef"))


def table_of(strength: float, generator: np.random.Generator, records: float = 20_000) -> pg.Factor:
    """A chain of pairs, each with interactions of this strength, and one more between the ends."""
    logs = np.zeros(DOMAIN.shape)
    for pair in (*PAIRS, ("a", "f")):
        shape = [5 if name in pair else 1 for name in DOMAIN]
        logs = logs + strength * generator.normal(size=(5, 5)).reshape(shape)
    return pg.Factor(DOMAIN, np.exp(logs)).normalize(records)


def model_of(table: pg.Factor, stddev: float, generator: np.random.Generator, pairs=PAIRS) -> pg.Model:
    blank = [pg.LinearMeasurement(table.project(pair), pair, stddev) for pair in pairs]
    return pg.estimate([redraw(m, m.values, generator) for m in blank], DOMAIN)


def strengths_of(model: pg.Model):
    make = lambda theta, total, plan: pg.Model(theta, total, plan=plan)  # noqa: E731
    assert model.refit is not None
    assert model.measurements is not None
    return learn_strengths(model.refit, model.measurements, model.total, make)


class TestStrengths:
    @pytest.mark.parametrize("stddev", [5.0, 60.0])
    def test_stronger_interactions_are_found_to_be_stronger(self, stddev) -> None:
        found = []
        for strength in (0.05, 0.3, 1.0):
            generator = np.random.default_rng(1)
            strengths = strengths_of(model_of(table_of(strength, generator), stddev, generator))
            assert strengths.predictive.sum() == pytest.approx(1.0)
            assert strengths.evidence == 5
            assert strengths.identified
            found.append(float(strengths.predictive @ GRID))
        assert found == sorted(found)
        assert 0.15 < found[1] < 0.6  # heavier tails than normal interactions, so a little less
        assert found[2] > 0.4

    def test_few_cliques_say_little(self) -> None:
        generator = np.random.default_rng(0)
        strengths = strengths_of(model_of(table_of(0.3, generator), 5.0, generator, PAIRS[:1]))
        assert strengths.evidence == 1 < FEWEST_CLIQUES
        assert not strengths.identified
        low, high = (GRID[np.searchsorted(np.cumsum(strengths.predictive), q)] for q in (0.025, 0.975))
        assert high / low > 8

    def test_another_pair_may_be_the_strongest(self) -> None:
        """Each of n + 1 exchangeable strengths is the largest equally often, whatever their distribution."""
        generator = np.random.default_rng(1)
        strengths = strengths_of(model_of(table_of(0.3, generator), 5.0, generator))
        strongest = max(strengths.of.values())
        beyond = strongest < GRID
        assert strengths.predictive[beyond].sum() >= 1 / (strengths.evidence + 1)
        drawn = strengths.draw(generator, 20_000)
        assert np.mean(drawn > strongest) >= 1 / (strengths.evidence + 1) - 0.02

    def test_tables_of_groups_tell_as_much_as_tables_of_values(self) -> None:
        """Pairs of five values each, of which three are one group; their interactions are means, so somewhat weaker."""
        found = []
        for strength in (0.05, 1.0):
            generator = np.random.default_rng(1)
            truth = table_of(strength, generator)
            groups = pg.queries.compress(5, [0, 1, 2, 2, 2])
            measured = []
            for pair in PAIRS:
                query = pg.Kron(dict.fromkeys(pair, groups))
                exact = query.apply(truth.project(pair)).reshape(-1)
                measured.append(redraw(pg.LinearMeasurement(exact, pair, 5.0, query), exact, generator))
            measured += [pg.LinearMeasurement(truth.project((name,)), (name,), 5.0) for name in DOMAIN]
            strengths = strengths_of(pg.estimate(measured, DOMAIN))
            assert strengths.evidence == 5
            found.append(float(np.exp(np.log(list(strengths.of.values())).mean())))
        assert found[0] < 0.15
        assert 0.3 < found[1] < 1.5

    def test_draws_have_the_distribution(self) -> None:
        generator = np.random.default_rng(0)
        strengths = strengths_of(model_of(table_of(0.3, generator), 5.0, generator))
        drawn = strengths.draw(generator, 40_000)
        assert np.mean(np.log(drawn)) == pytest.approx(float(strengths.predictive @ np.log(GRID)), abs=0.02)


@pytest.fixture(scope="module")
def dependence() -> UnmeasuredDependence:
    generator = np.random.default_rng(0)
    strengths = strengths_of(model_of(table_of(0.3, generator), 5.0, generator))
    return UnmeasuredDependence((("a", "b"), ("b", "c"), ("d",)), strengths)


class TestTables:
    def test_which_pairs_and_marginals(self, dependence) -> None:
        assert dependence.pairs(("a", "b", "c", "d")) == [("a", "c"), ("a", "d"), ("b", "d"), ("c", "d")]
        assert dependence.shared(("a", "c", "e")) == [("a",), ("c",)]
        assert dependence.shared(("a", "b", "c")) == [("a", "b"), ("b", "c")]
        assert dependence.shared(("e",)) == [()]

    def test_what_was_measured_stays_and_the_rest_moves(self, dependence) -> None:
        generator = np.random.default_rng(1)
        domain = pg.Domain({"a": 5, "b": 5, "c": 5})
        expected = np.tile(generator.gamma(1.0, 100.0, (5, 5, 5)), (40, 1, 1, 1))
        found = dependence.tables(expected, domain, generator)
        for axis in (1, 3):  # (b, c) and (a, b)
            np.testing.assert_allclose(found.sum(axis=axis), expected.sum(axis=axis), rtol=2e-3)
        assert np.all(found >= 0)
        unmeasured = found.sum(axis=2)
        assert np.all(unmeasured.std(axis=0) > 0.01 * expected.sum(axis=2)[0])

    def test_what_links_a_pair_is_taken_in(self, dependence) -> None:
        assert dependence.linked(("a", "c"), DOMAIN) == ("a", "c", "b")
        assert dependence.linked(("a", "d"), DOMAIN) == ("a", "d")
        assert dependence.linked(("c", "a"), pg.Domain({"a": 50, "b": 50, "c": 50})) == ("c", "a")

    def test_empty_rows_stay_empty(self) -> None:
        domain = pg.Domain({"a": 2, "b": 2})
        target = np.array([[[0.0, 0.0], [3.0, 4.0]]])
        found = raked(np.ones((1, 2, 2)), target, domain, [("a",), ("b",)])
        np.testing.assert_allclose(found, target, atol=1e-6)


class TestCoverage:
    def test_unmeasured_pairs_are_held(self) -> None:
        """Truths whose unmeasured dependence is as strong as the measured: intervals of the ends of the chain."""
        held, narrow = [], []
        for seed in range(4):
            generator = np.random.default_rng(seed)
            truth = table_of(0.4, generator)
            model = model_of(truth, 15.0, generator)
            model.posterior(100, seed, warm_up=60, chains=2)
            chosen, exact = model.interval(("a", "f"), kind="posterior"), truth.project(("a", "f")).values
            assert (chosen.kind, chosen.basis) == ("posterior", "dependence")
            held.append((chosen.low.values <= exact) & (exact <= chosen.high.values))
            low, high = model.uncertainty(("a", "f"), replicates=10).interval()
            narrow.append((low.values <= exact) & (exact <= high.values))
        assert np.mean(held) >= 0.88
        assert np.mean(narrow) < 0.6  # those of noise alone


class TestWhichKind:
    def model(self, pairs) -> pg.Model:
        generator = np.random.default_rng(0)
        return model_of(table_of(0.3, generator), 10.0, generator, pairs)

    def test_few_cliques_are_answered_by_errors(self) -> None:
        model = self.model(PAIRS[:2])
        chosen = model.interval(("a", "c"))
        assert (chosen.kind, chosen.basis) == ("errors", "dependence")
        assert model.interval(pg.Kron({"a": pg.queries.prefix(5)}), kind="noise").basis == "replicates"

    def test_an_attribute_that_nobody_measured_is_answered_by_bounds(self) -> None:
        assert self.model(PAIRS[:3]).interval(("a", "f")).kind == "bounds"

    def test_functions_name_their_attributes(self) -> None:
        model = self.model(PAIRS)
        with pytest.raises(pg.errors.ArgumentError, match="reads its sample"):
            model.interval(lambda one: one.sample(5, seed=0).project("a").values[0])
        model.posterior(40, warm_up=20, chains=2)
        mean = model.interval(lambda table: table.values @ np.arange(5) / table.values.sum(), "a", kind="posterior")
        assert (mean.kind, mean.basis, mean.low.values.shape) == ("posterior", "measured", ())
        assert 0 < mean.low.values < mean.high.values < 4
        wide = model.interval(lambda table: table.values[0] / table.values.sum(axis=0), ("a", "d"), kind="posterior")
        assert (wide.basis, wide.low.values.shape) == ("dependence", (5,))


class TestRecords:
    def test_tables_of_some_attributes_differ_in_what_was_not_measured(self) -> None:
        generator = np.random.default_rng(0)
        truth = table_of(0.4, generator)
        posterior = model_of(truth, 5.0, generator).posterior(40, warm_up=40, chains=2)
        pair = ("a", "f")
        plain = [one.project(pair).values for one in posterior.sample_tables(10, about="table", seed=0)]
        drawn = posterior.sample_tables(10, attributes=pair, about="table", seed=0)
        assert all(one.domain.attributes == pair for one in drawn)
        tables = [one.project(pair).values for one in drawn]
        assert np.std(tables, axis=0).mean() > 3 * np.std(plain, axis=0).mean()
        exact = truth.project("a").values
        for one in drawn:  # what was measured stays
            np.testing.assert_allclose(one.project("a").values, exact, atol=80)
        assert [one.records for one in posterior.sample_tables(2, 77, attributes=pair, seed=0)] == [77, 77]
        assert [one.records for one in posterior.sample_tables(2, 77, attributes="a", about="table", seed=0)] == [
            77,
            77,
        ]


class TestTrends:
    def table(self, ordered: bool) -> pg.Factor:
        generator, logs = np.random.default_rng(2), np.zeros(DOMAIN.shape)
        codes = (np.arange(5) - 2) / np.sqrt(2)
        for pair in PAIRS:
            shape = [5 if name in pair else 1 for name in DOMAIN]
            inside = np.outer(codes, codes) * generator.choice([-1, 1]) if ordered else generator.normal(size=(5, 5))
            logs = logs + 0.5 * inside.reshape(shape)
        return pg.Factor(DOMAIN, np.exp(logs)).normalize(20_000)

    def test_that_dependence_goes_with_the_codes_is_found(self) -> None:
        generator = np.random.default_rng(0)
        shares = [strengths_of(model_of(self.table(one), 10.0, generator)).trend @ TRENDS for one in (True, False)]
        assert shares[0] > 0.4
        assert shares[1] < 0.25

    def test_a_trend_widens_what_adds_it_up(self) -> None:
        """Correlations of two attributes, drawn around independent ones, cells being moved as much as before."""
        generator, domain = np.random.default_rng(3), pg.Domain({"a": 6, "b": 6})
        expected = np.full((300, 6, 6), 100.0)
        spreads = []
        for trend in (0, len(TRENDS) - 2):
            weights = np.eye(len(TRENDS))[trend]
            strengths = Strengths({}, np.eye(len(GRID))[20], 5, weights)
            found = UnmeasuredDependence((("a",), ("b",)), strengths).tables(expected, domain, generator)
            codes = standard_codes(np.ones(6))
            spreads.append((np.std(found), np.std(np.einsum("dij,i,j->d", found, codes, codes) / 3600)))
        assert spreads[1][1] > 2 * spreads[0][1]
        assert spreads[1][0] == pytest.approx(spreads[0][0], rel=0.5)


class TestLostSelections:
    def test_what_lost_is_not_far_from_what_was_expected(self) -> None:
        """Two attributes have nothing to do with the others: all pairs of theirs lost to pairs with low scores."""
        generator = np.random.default_rng(4)
        codes = [generator.integers(0, 4, 20_000)]
        for share in (0.6, 0.6, 0.0, 0.0):
            codes.append(np.where(generator.random(20_000) < share, codes[-1], generator.integers(0, 4, 20_000)))
        data = pg.Dataset.from_codes(np.stack(codes, axis=1), dict.fromkeys("abcde", 4))
        mechanism = pg.mechanisms.MST(epsilon=3.0, delta=1e-9, backend="simulation")
        model = mechanism.fit(data, seed=0, progress=False).model
        assert len(model.selections) == 4
        without = dataclasses.replace(model, selections=())
        measured = [set(one) for one in model.cliques]
        pairs = [pair for pair in itertools.combinations("abcde", 2) if not any(set(pair) <= one for one in measured)]
        held, widths = [], []
        for one in (model, without):
            one.posterior(100, warm_up=60, chains=2)
            found = [one.interval(pair, kind="posterior") for pair in pairs]
            assert {interval.basis for interval in found} == {"dependence"}
            exact = [data.project(pair).values for pair in pairs]
            inside = [(f.low.values <= x) & (x <= f.high.values) for f, x in zip(found, exact, strict=True)]
            held.append(np.mean(inside))
            widths.append(np.mean([interval.width.values for interval in found]))
        assert min(held) >= 0.9
        assert widths[0] < 0.8 * widths[1]
