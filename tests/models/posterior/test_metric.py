"""The metric's factors against matrices written down, and what it does to the Hessian."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.models.posterior import InteractionPrior, metric_roots
from pgmest.models.posterior import metric as metrics
from pgmest.models.posterior.density import PosteriorDensity
from pgmest.models.posterior.draw import _moves
from pgmest.models.posterior.kernels import add_along
from pgmest.models.posterior.metric import WIDEST, Metric, SharedRoot
from pgmest.models.posterior.mode import find_mode
from pgmest.models.posterior.student_cells import EFFECT_SCALE

DOMAIN = pg.Domain({"a": 6, "b": 5, "c": 4, "d": 3})
CLIQUES = [("a",), ("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")]


@pytest.fixture(scope="module")
def density() -> PosteriorDensity:
    generator = np.random.default_rng(0)
    weights = generator.gamma(0.3, 1.0, DOMAIN.shape)
    weights[5] *= 1e-4  # a rare value
    table = pg.Factor(DOMAIN, weights).normalize(5000)
    noisy = [table.project(one).datavector() + generator.normal(0, 5, DOMAIN.size(one)) for one in CLIQUES]
    answers = [pg.LinearMeasurement(values, one, 5.0) for values, one in zip(noisy, CLIQUES, strict=True)]
    model = pg.estimate(answers, DOMAIN)
    assert model.refit is not None
    assert model.measurements is not None
    return PosteriorDensity.around(model, model.refit, model.measurements, InteractionPrior())


@pytest.fixture(scope="module")
def mode(density) -> np.ndarray:
    return find_mode(density)


def written(operation, size: int) -> np.ndarray:
    return operation(np.eye(size)).T


class TestSharedRoot:
    def test_its_factors_belong_together(self, density, mode) -> None:
        curvature, size = density.curvature(mode), density.size
        scale, moved = curvature.scales(mode)
        root = SharedRoot.of(curvature, density, scale, moved)
        assert len(root.starts) == 3  # a, b and c are shared
        forward, back = (written(one, size) for one in (root.forward, root.momentum))
        inverse = np.stack([root.inverse(unit) for unit in np.eye(size)])
        np.testing.assert_allclose(forward @ forward.T, inverse, atol=1e-9)
        np.testing.assert_allclose(back @ forward, np.eye(size), atol=1e-8)
        rows = root.rows.toarray()
        centered = np.zeros_like(rows)
        stops = [*root.starts[1:], len(rows)]
        for start, stop in zip(root.starts, stops, strict=True):
            centered[start:stop] = rows[start:stop] - np.outer(root.shares[start:stop], rows[start:stop].sum(axis=0))
        centered[:, -1] += root.total
        gram = (root.weights[:, None] * centered).T @ (root.weights[:, None] * centered)
        exact = np.linalg.inv(np.eye(size) + gram)
        np.testing.assert_allclose(inverse, exact, atol=metric_roots.WORTH_KEEPING)  # small eigenvalues are left out

    def test_long_directions_are_scaled_down(self, density, mode) -> None:
        curvature, size = density.curvature(mode), density.size
        scale, moved = curvature.scales(mode)
        root = SharedRoot.of(curvature, density, scale, moved)
        hessian = np.stack([curvature.product(unit) for unit in np.eye(size)]) * np.outer(scale, scale)
        forward = written(root.forward, size)
        before, after = (np.linalg.eigvalsh(one)[-1] for one in (hessian, forward.T @ hessian @ forward))
        assert after < 0.25 * before


class TestProducts:
    @pytest.mark.parametrize("shape", [(1, 1), (3, 20_001), (588, 588), (5, 8192), (700, 3)])
    def test_pieces_make_up_the_product(self, shape) -> None:
        generator = np.random.default_rng(0)
        matrix, values, weights = (generator.normal(size=size) for size in (shape, shape[1], shape[0]))
        np.testing.assert_allclose(metric_roots._product(matrix, values), matrix @ values, atol=1e-9)
        found = values.copy()
        add_along(matrix, weights, values, found)
        np.testing.assert_allclose(found, values + matrix.T @ (weights * (matrix @ values)), atol=1e-8)

    @pytest.mark.parametrize("shape", [(0, 0), (0, 7)])
    def test_nothing_makes_nothing(self, shape) -> None:
        assert metric_roots._product(np.zeros(shape), np.zeros(shape[1])).shape == (0,)


class TestMetric:
    @pytest.mark.parametrize("dense", [1000, 0])
    def test_momenta_have_the_mass_matrix_as_covariance(self, density, mode, monkeypatch, dense) -> None:
        monkeypatch.setattr(metrics, "MOST_DENSE", dense)
        generator, size = np.random.default_rng(1), density.size
        found = Metric.of(density, mode, _moves(density), generator)
        inverse = np.stack([found._inverse(unit) for unit in np.eye(size)])
        np.testing.assert_allclose(inverse, inverse.T, atol=1e-8)
        assert np.linalg.eigvalsh(inverse)[0] > 0
        drawn = np.stack([found.momentum(generator) for _ in range(20_000)])
        assert drawn.shape[1] == size + found.rows.shape[0]
        whitened = np.hstack([drawn[:, :size] @ np.linalg.cholesky(inverse), drawn[:, size:]])
        np.testing.assert_allclose(np.cov(whitened.T), np.eye(drawn.shape[1]), atol=0.06)

    @pytest.mark.parametrize("dense", [1000, 0])
    def test_points_and_momenta_move_by_the_same_energy(self, density, mode, monkeypatch, dense) -> None:
        """The change of the kinetic energy by a gradient equals its product with the velocity."""
        monkeypatch.setattr(metrics, "MOST_DENSE", dense)
        generator = np.random.default_rng(2)
        found = Metric.of(density, mode, _moves(density), generator)
        assert found.rows.shape[0] > 0
        momentum, gradient = found.momentum(generator), generator.normal(size=density.size)
        force = found.force(gradient)
        taken = 0.5 * (found.kinetic(momentum + force) - found.kinetic(momentum - force))
        assert taken == pytest.approx(float(found.velocity(momentum) @ gradient))

    def test_the_rows_of_rare_values_move_together(self) -> None:
        domain, cliques = pg.Domain({"a": 3, "b": 4}), [("a", "b")]
        table = np.array([[900.0, 800, 700, 600], [0, 0, 1, 0], [500, 400, 300, 200]])
        model = pg.estimate([pg.LinearMeasurement(table.reshape(-1), cliques[0], 5.0)], domain)
        assert model.refit is not None
        assert model.measurements is not None
        density = PosteriorDensity.around(model, model.refit, model.measurements, InteractionPrior())
        rows = metrics._rare_rows(density, density.curvature(find_mode(density))).toarray()
        assert len(rows) == 1
        np.testing.assert_array_equal(np.flatnonzero(rows[0]), [4, 5, 6, 7])
        assert WIDEST < rows[0, 4] <= EFFECT_SCALE

    def test_both_metrics_draw_from_the_same_posterior(self, density, monkeypatch) -> None:
        from pgmest.models.posterior.draw import draw

        means = []
        for dense in (1000, 0):
            monkeypatch.setattr(metrics, "MOST_DENSE", dense)
            points = draw(density, 300, 2, 80, "hmc", 0).points.reshape(300, -1)
            counts = np.stack([density.marginals(point).copy() for point in points])
            means.append((counts.mean(axis=0), counts.std(axis=0)))
        np.testing.assert_allclose(means[0][0], means[1][0], atol=2.0)
        np.testing.assert_allclose(means[0][1], means[1][1], rtol=0.4, atol=0.3)
