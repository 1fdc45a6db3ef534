"""Error bars: against least squares where that is exact, against known truth, and what they refuse."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import pgmest as pg
from pgmest import queries, zeros
from pgmest.errors import ArgumentError, QueryError, UnknownAttributeError
from pgmest.losses import L2Loss
from pgmest.models.uncertainty import redraw
from pgmest.solvers.refit import Refit
from pgmest.solvers.status import Status
from tests.estimation.full_table import stacked

pytestmark = pytest.mark.filterwarnings("error")
DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 2})
CLIQUES = (("a", "b"), ("b", "c"))
TABLE = pg.Factor(DOMAIN, np.random.default_rng(0).uniform(400, 900, DOMAIN.shape))
MANY = 150
WITHIN = 4 / np.sqrt(2 * MANY)  # four standard deviations of a standard error


def measured(stddev: float = 10.0, seed: int = 0, table: pg.Factor = TABLE, **options) -> list[pg.LinearMeasurement]:
    generator = np.random.default_rng(seed)
    blank = [pg.LinearMeasurement(table.project(clique), clique, stddev, **options) for clique in CLIQUES]
    return [redraw(m, m.values, generator) for m in blank]


@pytest.fixture(scope="module")
def model() -> pg.Model:
    return pg.estimate(measured(), DOMAIN, total=float(TABLE.sum()))


class TestStandardErrors:
    def test_are_those_of_least_squares_where_counts_are_large(self, model) -> None:
        matrix, _, stddev = stacked(DOMAIN, model.measurements)
        free = matrix @ (np.eye(DOMAIN.size()) - 1.0 / DOMAIN.size())  # the total is known
        left, scale, _ = np.linalg.svd(free / stddev[:, None])
        span = left[:, : np.count_nonzero(scale > 1e-9)]
        expected = np.sqrt(np.sum(span**2, axis=1)) * stddev
        found = [model.uncertainty(clique, replicates=MANY).stddev.datavector() for clique in CLIQUES]
        np.testing.assert_allclose(np.concatenate(found), expected, rtol=WITHIN)

    def test_the_noise_of_an_estimated_total_is_in_them(self, model) -> None:
        assert model.uncertainty((), replicates=MANY).stddev == pytest.approx(0.0, abs=1e-6)
        free = pg.estimate(measured(), DOMAIN)
        found = free.uncertainty((), replicates=MANY)
        assert float(found.stddev) == pytest.approx(free.total_stddev, rel=WITHIN)
        assert float(found.answer) == pytest.approx(free.total)

    @pytest.mark.parametrize("noise", ["laplace", "discrete_laplace", "discrete_gaussian"])
    def test_of_other_noise(self, noise) -> None:
        single = pg.LinearMeasurement([500.0, 700.0], "b", stddev=10.0, noise=noise)
        found = pg.estimate([single], DOMAIN, total=1200.0).uncertainty("b", replicates=MANY)
        np.testing.assert_allclose(found.stddev.values, 10 / np.sqrt(2), rtol=0.3)
        drawn = redraw(
            pg.LinearMeasurement(np.zeros(20000), "b", 3.0, noise=noise), np.full(20000, 0.25), np.random.default_rng(0)
        )
        assert drawn.values.std() == pytest.approx(3.0, rel=0.03)
        assert drawn.values.mean() == pytest.approx(0.25, abs=0.1)
        assert (drawn.noise, drawn.stddev) == (noise, 3.0)

    def test_of_measured_queries(self) -> None:
        sums = pg.LinearMeasurement([300.0, 700.0, 1200.0], "a", [5.0, 10.0, 20.0], query=queries.prefix(3))
        found = pg.estimate([sums], DOMAIN, total=1200.0).uncertainty(sums, replicates=MANY)
        np.testing.assert_allclose(found.stddev.values, [5.0, 10.0, 0.0], rtol=WITHIN, atol=1e-6)

    def test_a_cell_that_the_noise_emptied_has_an_error_bar_too(self) -> None:
        model = pg.estimate([pg.LinearMeasurement([-15.0, 300.0, 300.0], "a", 10.0)], DOMAIN)
        found = model.uncertainty("a", replicates=MANY)
        assert found.answer.values[0] == pytest.approx(0.0, abs=0.1)
        # no count is negative, so noise can only raise it: by the mean of the positive half of a normal distribution
        assert found.bias.values[0] == pytest.approx(10 / np.sqrt(2 * np.pi), rel=0.4)
        assert found.stddev.values[0] == pytest.approx(10 / np.sqrt(2), rel=0.15)
        assert found.interval()[1].values[0] > 6.0

    def test_intervals_hold_the_truth(self) -> None:
        sparse = pg.Factor(DOMAIN, np.random.default_rng(3).choice([0.0, 3.0, 20.0, 400.0], DOMAIN.shape))
        held = []
        for seed in range(15):
            found = pg.estimate(measured(seed=seed, table=sparse), DOMAIN)
            for clique in CLIQUES:
                low, high = found.uncertainty(clique, replicates=20, seed=seed).interval(0.95)
                truth = sparse.project(clique).values
                held.append((low.values <= truth) & (truth <= high.values))
        assert 0.9 <= np.mean(np.concatenate([one.reshape(-1) for one in held])) <= 0.98


class TestQuestions:
    def test_marginals_matrices_krons_and_measurements(self, model) -> None:
        table = model.uncertainty(("b", "a"))
        assert table.answer.domain.attributes == table.stddev.domain.attributes == ("b", "a")
        np.testing.assert_array_equal(table.answer.values, model.project(("b", "a")).values)
        kron = pg.Kron({"b": queries.identity(2), "a": queries.identity(3)})
        for query, clique in ((kron, None), (queries.identity(6), ("b", "a")), (np.eye(6), ("b", "a"))):
            same = model.uncertainty(query, clique)
            np.testing.assert_allclose(same.stddev.datavector(), table.stddev.datavector(), rtol=1e-6)
        measurement = model.uncertainty(model.measurements[0])
        np.testing.assert_allclose(measurement.stddev.values, table.stddev.values.T, rtol=1e-6)

    def test_one_name_and_what_is_given(self, model) -> None:
        assert model.uncertainty("c").stddev.domain == pg.Domain({"c": 2})
        table = model.uncertainty(("a", "b"))
        given = model.uncertainty("a", given={"b": 1})
        np.testing.assert_allclose(given.stddev.values, table.stddev.values[:, 1], rtol=1e-6)

    def test_functions_of_a_table(self, model) -> None:
        """They are those of a model that reads the same marginal."""
        found = model.uncertainty(lambda table: table.values[0] / table.values.sum(), "a", replicates=4)
        same = model.uncertainty(lambda one: one.project("a").values[0] / one.total, replicates=4)
        np.testing.assert_allclose(found.stddev.values, same.stddev.values)
        assert model.interval(lambda table: table.values.max(), "a", kind="noise").low.domain == pg.Domain({})

    def test_functions_of_a_model(self, model) -> None:
        share = model.uncertainty(lambda one: one.conditional("b", "a"))
        assert share.stddev.domain.attributes == ("b", "a")
        np.testing.assert_allclose(share.stddev.values[0], share.stddev.values[1], rtol=1e-6)
        assert float(model.uncertainty(lambda one: one.mutual_information("a", "b")).stddev) > 0

    def test_intervals(self, model) -> None:
        found = model.uncertainty("a")
        low, high = found.interval(0.6826894921)
        np.testing.assert_allclose((high - low).values, 2 * found.stddev.values)
        np.testing.assert_allclose(0.5 * (high + low).values, found.answer.values)
        with pytest.raises(ArgumentError, match="level"):
            found.interval(1.0)


class TestReplicates:
    def test_the_same_seed_gives_the_same_errors(self) -> None:
        one, two = (pg.estimate(measured(), DOMAIN) for _ in range(2))
        first = one.uncertainty("a", replicates=5, seed=3)
        assert first.replicates == 5
        np.testing.assert_array_equal(first.stddev.values, two.uncertainty("a", replicates=5, seed=3).stddev.values)
        assert not np.array_equal(first.stddev.values, one.uncertainty("a", replicates=5, seed=4).stddev.values)

    def test_are_made_once(self, monkeypatch) -> None:
        model = pg.estimate(measured(), DOMAIN)
        model.uncertainty("a", replicates=5)
        monkeypatch.setattr(Refit, "repeat", None)
        assert model.uncertainty("c", replicates=5).replicates == 5

    @pytest.mark.parametrize(
        "settings", [{"total": "fit"}, {"loss": "l1"}, {"method": "mirror_flow"}, {"loss": L2Loss}]
    )
    def test_estimate_as_the_model_was(self, settings) -> None:
        found = pg.estimate(measured(), DOMAIN, **settings).uncertainty(("a", "b"), replicates=20)
        assert np.all((found.stddev.values > 4) & (found.stddev.values < 20))

    def test_structural_zeros_stay(self) -> None:
        rules = [zeros.function("b", of="a", codes=[0, 1, 1])]
        found = pg.estimate(measured(), DOMAIN, structural_zeros=rules).uncertainty(("a", "b"), replicates=5)
        assert found.stddev.values[[0, 1, 2], [1, 0, 0]].tolist() == [0, 0, 0]
        assert np.all(found.stddev.values[[0, 1, 2], [0, 1, 1]] > 0)

    def test_survive_a_copy_where_the_loss_has_a_name(self) -> None:
        model = pg.estimate(measured(), DOMAIN)
        twin = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(
            twin.uncertainty("a", replicates=3).stddev.values, model.uncertainty("a", replicates=3).stddev.values
        )
        own = pg.estimate(measured(), DOMAIN, loss=lambda measurements, domain: L2Loss(measurements, domain))
        assert own.uncertainty("a", replicates=3).replicates == 3
        with pytest.raises(ArgumentError, match=r"own loss.*pg\.estimate returned"):
            pickle.loads(pickle.dumps(own)).uncertainty("a")

    @pytest.mark.parametrize("done", [0, 1, 3])
    def test_an_interruption_keeps_those_made(self, monkeypatch, done) -> None:
        again, calls = Refit.repeat, []

        def interrupted(self, *arguments):
            potentials, total, report = again(self, *arguments)
            calls.append(1)
            return potentials, total, replace(report, status=Status.INTERRUPTED) if len(calls) > done else report

        monkeypatch.setattr(Refit, "repeat", interrupted)
        model = pg.estimate(measured(), DOMAIN)
        if done < 2:
            with pytest.raises(KeyboardInterrupt):
                model.uncertainty("a")
        else:
            assert model.uncertainty("a").replicates == done


class TestRefusals:
    def test_a_loaded_model_has_the_same_error_bars(self, model, tmp_path) -> None:
        model.save(tmp_path / "model.npz")
        loaded = pg.load(tmp_path / "model.npz")
        kept, found = model.uncertainty(("a", "b"), replicates=5), loaded.uncertainty(("a", "b"), replicates=5)
        np.testing.assert_allclose(found.stddev.values, kept.stddev.values, rtol=1e-9)
        assert [m.clique for m in loaded.measurements] == [m.clique for m in model.measurements]

    def test_models_that_do_not_know_their_measurements(self, model, tmp_path) -> None:
        pg.Model(model.potentials, 5.0).save(tmp_path / "model.npz")
        for other in (pg.load(tmp_path / "model.npz"), model.condition({"a": 0}), pg.Model(model.potentials, 5.0)):
            with pytest.raises(ArgumentError, match=r"[Tt]he (one|model) that pg\.estimate returned"):
                other.uncertainty("b")

    def test_losses_that_hold_the_answers(self) -> None:
        model = pg.estimate(measured(), DOMAIN, loss=L2Loss(measured(), DOMAIN))
        with pytest.raises(ArgumentError, match="contains the answers"):
            model.uncertainty("a")

    def test_questions_and_numbers(self, model) -> None:
        with pytest.raises(UnknownAttributeError, match="'d'"):
            model.uncertainty(("a", "d"))
        with pytest.raises(QueryError, match="one query at a time"):
            model.uncertainty([pg.Kron({"a": queries.identity(3)})])
        with pytest.raises(QueryError):
            model.uncertainty(np.eye(2), "a")
        for replicates in (1, 2.5, True):
            with pytest.raises(ArgumentError, match="replicates"):
                model.uncertainty("a", replicates=replicates)
