"""Directions that no answer identifies: they change no marginal, and are drawn as the prior says."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.models.posterior import InteractionPrior, NormalPrior
from pgmest.models.posterior.density import PosteriorDensity
from pgmest.models.posterior.unidentified import Unidentified

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 2})
CLIQUES = [("a", "b"), ("b", "c"), ("a",), ("c", "a")]


def density_of(prior, zeros=None) -> PosteriorDensity:
    generator = np.random.default_rng(0)
    table = pg.Factor(DOMAIN, generator.gamma(0.5, 1.0, DOMAIN.shape)).normalize(500)
    answers = [pg.LinearMeasurement(table.project(one).datavector(), one, 5.0) for one in CLIQUES]
    model = pg.estimate(answers, DOMAIN, structural_zeros=zeros)
    assert model.refit is not None
    assert model.measurements is not None
    return PosteriorDensity.around(model, model.refit, model.measurements, prior)


@pytest.mark.parametrize("prior", [InteractionPrior(), NormalPrior()])
def test_they_are_all_there_are_and_change_no_marginal(prior) -> None:
    density = density_of(prior)
    found, generator = Unidentified.of(density), np.random.default_rng(1)
    point = density.start() + generator.normal(size=density.size)
    marginals = density.marginals(point).copy()
    moved = found.draw(point, generator)
    assert np.abs(moved - point)[: density.cells].min() > 0
    np.testing.assert_array_equal(moved[density.cells :], point[density.cells :])
    np.testing.assert_allclose(density.marginals(moved), marginals, rtol=1e-9)
    density.marginals(point)
    covariance = np.stack([density.oracle.covariance(unit).copy() for unit in np.eye(density.cells)])
    nothing_changes = density.cells - np.linalg.matrix_rank(covariance, tol=1e-8 * np.abs(covariance).max())
    assert np.linalg.matrix_rank(found.moves.toarray()) == nothing_changes


@pytest.mark.parametrize("prior", [InteractionPrior(), NormalPrior(2.0)])
def test_draws_have_the_normal_distribution_of_the_prior_given_all_else(prior) -> None:
    density = density_of(prior)
    found, generator = Unidentified.of(density), np.random.default_rng(2)
    point = density.start()
    point[: density.cells] += generator.normal(size=density.cells)
    drawn = np.stack([found.draw(point, generator)[: density.cells] for _ in range(8000)])
    basis = np.linalg.svd(found.moves.toarray(), full_matrices=False)
    basis = basis[0][:, basis[1] > 1e-9]
    along = found.rows @ basis
    away = found.rows @ (point[: density.cells] - density.cell_prior.center)
    precision = along.T @ along
    mean = point[: density.cells] - basis @ np.linalg.solve(precision, along.T @ away)
    covariance = basis @ np.linalg.solve(precision, basis.T)
    spread = np.sqrt(np.diag(covariance).max())
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.04 * spread)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.05 * spread**2)
    scales = density.cell_prior.log_scales
    energies = [density.cell_prior.energy(one, scales) for one in (drawn[0], drawn[1])]
    quadratic = [0.5 * np.sum((found.rows @ (one - density.cell_prior.center)) ** 2) for one in drawn[:2]]
    assert energies[0] - energies[1] == pytest.approx(quadratic[0] - quadratic[1])


def test_tables_with_structural_zeros_stay_as_they_are() -> None:
    density = density_of(InteractionPrior(), {("a", "b"): [(0, 0)]})
    found, generator = Unidentified.of(density), np.random.default_rng(3)
    point = density.start()
    moved = found.draw(point, generator)
    closed = ~density.open
    assert closed.any()
    for clique, domain, start in zip(
        density.layout.cliques, density.layout.domains, density.layout.offsets, strict=False
    ):
        part = slice(int(start), int(start) + domain.size())
        assert np.array_equal(moved[part], point[part]) == bool(closed[part].any()), clique
