"""Functions of codes and coefficients of tables: definitions, unbiasedness, and draws by Bayes' rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.models.errors.table_answers import TableAnswer
from pgmest.models.synthetic_tables.coefficients import SCALES, Coefficients, kinds_of, learned_scales
from pgmest.models.synthetic_tables.functions import MOST_FUNCTIONS, combined, factors, functions_of


class TestFunctions:
    @given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 10.0]))
    def test_they_are_orthonormal_and_centered_under_the_marginal(self, size, seed, concentration) -> None:
        generator = np.random.default_rng(seed)
        counts = 1000 * generator.dirichlet(np.full(size, concentration))
        counts[generator.random(size) < 0.2] = 0.0
        if not counts.any():
            counts[0] = 1.0
        shares, found = counts / counts.sum(), functions_of(counts)
        assert found.shape[0] == size
        assert found.shape[1] <= min(MOST_FUNCTIONS, size - 1)
        np.testing.assert_allclose(shares @ found, 0.0, atol=1e-6)
        np.testing.assert_allclose(found.T @ (shares[:, None] * found), np.eye(found.shape[1]), atol=1e-6)

    def test_the_first_one_is_the_code(self) -> None:
        counts = np.array([10.0, 20.0, 5.0, 15.0])
        codes, shares = np.arange(4), counts / 50
        wanted = (codes - shares @ codes) / np.sqrt(shares @ codes**2 - (shares @ codes) ** 2)
        np.testing.assert_allclose(functions_of(counts)[:, 0], wanted)
        assert functions_of(counts).shape == (4, 3)

    @pytest.mark.parametrize("counts", [[0.0, 0.0], [3.0], [0.0, 5.0, 0.0], [1e-300, 1e300], [-4.0, 3.0]])
    def test_attributes_of_one_code_have_none(self, counts) -> None:
        assert functions_of(np.array(counts)).shape == (len(counts), 0)

    def test_factors_are_positive(self) -> None:
        change = np.array([-1e9, -2.0, -0.1, 0.0, 0.3, 1e9])
        found = factors(change)
        assert (found > 0).all()
        assert np.isfinite(found).all()
        assert found[3:5].tolist() == [1.0, 1.3]


def exact(table: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    marginals = [table.sum(axis=1), table.sum(axis=0)]
    return marginals, [functions_of(counts) for counts in marginals]


def answered(table: np.ndarray, stddev: float, query=None) -> TableAnswer:
    domain = pg.Domain({"a": table.shape[0], "b": table.shape[1]})
    values = table if query is None else query.apply(table)
    found = TableAnswer.of(pg.LinearMeasurement(values, ("a", "b"), stddev, query), domain)
    assert found is not None
    return found


class TestCoefficients:
    TABLE = np.array([[30.0, 5.0, 15.0], [10.0, 20.0, 5.0], [4.0, 6.0, 25.0], [1.0, 8.0, 11.0]])

    def test_of_a_table_are_those_of_its_expansion(self) -> None:
        marginals, functions = exact(self.TABLE)
        found = Coefficients.of(answered(self.TABLE, 1.0), self.TABLE, marginals, functions)
        whole = (
            np.outer(*marginals) / self.TABLE.sum() * (1 + combined(functions[0], found.model[None], functions[1])[0])
        )
        np.testing.assert_allclose(whole, self.TABLE)
        np.testing.assert_allclose(found.beyond, 0.0, atol=1e-12)
        np.testing.assert_allclose(found.seen, 1.0)
        codes = np.indices(self.TABLE.shape).reshape(2, -1)
        correlation = np.cov(codes, fweights=self.TABLE.ravel().astype(int))
        assert found.model[0, 0] == pytest.approx(correlation[0, 1] / np.sqrt(correlation[0, 0] * correlation[1, 1]))

    def test_answers_are_unbiased_with_the_stated_variance(self) -> None:
        marginals, functions = exact(self.TABLE)
        model = np.outer(*marginals) / self.TABLE.sum()
        generator, found = np.random.default_rng(0), []
        contrast = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]])
        for query in (None, pg.Kron({"a": np.eye(4), "b": contrast})):
            exactly = self.TABLE if query is None else query.apply(self.TABLE)
            found = []
            for _ in range(1500):
                noisy = exactly + generator.normal(0.0, 3.0, exactly.shape)
                answer = TableAnswer.of(
                    pg.LinearMeasurement(noisy, ("a", "b"), 3.0, query), pg.Domain({"a": 4, "b": 3})
                )
                assert answer is not None
                found.append(Coefficients.of(answer, model, marginals, functions))
            truth = Coefficients.of(answered(self.TABLE, 1.0), self.TABLE, marginals, functions).model
            values = np.stack([one.model + one.beyond for one in found])
            np.testing.assert_allclose(values.mean(axis=0), truth, atol=0.02)
            np.testing.assert_allclose(values.var(axis=0), found[0].variance, rtol=0.15)

    def test_groups_of_codes_show_a_part(self) -> None:
        marginals, functions = exact(self.TABLE)
        query = pg.Kron({"a": pg.queries.compress(4, [0, 0, 1, 1]), "b": np.eye(3)})
        found = Coefficients.of(answered(self.TABLE, 0.001, query), self.TABLE, marginals, functions)
        assert (found.seen < 0.999).all()
        assert found.seen[0, 0] > 0.5
        single = pg.Kron({"a": pg.queries.compress(4, [0, 0, 0, 0]), "b": np.eye(3)})
        hidden = Coefficients.of(answered(self.TABLE, 0.001, single), self.TABLE, marginals, functions)
        np.testing.assert_allclose(hidden.seen, 0.0, atol=1e-9)
        draws = hidden.draws(learned_scales([]), 4000, np.random.default_rng(0))
        assert draws.std(axis=0).min() > 0.05  # nothing is known of them

    def test_draws_follow_the_posterior(self) -> None:
        """Against a direct computation of the posterior of a normal mixture."""
        weights = np.full((3, len(SCALES)), 1.0 / len(SCALES))
        one = Coefficients(np.array([[0.0]]), np.array([[0.2]]), np.array([[0.01]]), np.array([[1.0]]))
        grid = np.linspace(-2, 2, 8001)
        prior = np.mean([np.exp(-0.5 * (grid / s) ** 2) / s for s in SCALES], axis=0)
        posterior = prior * np.exp(-0.5 * (grid - 0.2) ** 2 / 0.01)
        posterior /= posterior.sum()
        mean = posterior @ grid
        drawn = one.draws(weights, 200_000, np.random.default_rng(0))[:, 0, 0]
        assert drawn.mean() == pytest.approx(mean, abs=0.002)
        assert drawn.std() == pytest.approx(np.sqrt(posterior @ (grid - mean) ** 2), abs=0.002)

    def test_scales_are_learned(self) -> None:
        generator = np.random.default_rng(0)
        for scale in (0.02, 0.3):
            found = learned_scales(
                Coefficients(
                    generator.normal(0, scale, (8, 8)), np.zeros((8, 8)), np.full((8, 8), 1e-4), np.ones((8, 8))
                )
                for _ in range(20)
            )
            assert found.shape == (3, len(SCALES))
            np.testing.assert_allclose(found.sum(axis=1), 1.0)
            assert np.exp(found[2] @ np.log(SCALES)) == pytest.approx(scale, rel=0.4)
        assert kinds_of((2, 3)).tolist() == [[0, 1, 1], [1, 2, 2]]
