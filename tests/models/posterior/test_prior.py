"""Priors of potentials: densities against their formulas, slopes and curvatures against differences."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.models.posterior import InteractionPrior, NormalPrior
from pgmest.models.posterior.prior import DEGREES, EFFECT_SCALE, Effects

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 4})
LAYOUT = pg.CliqueVector.zeros(DOMAIN, [("a", "b"), ("b", "c", "a"), ("c",)]).layout


def cells(prior):
    return prior.on(LAYOUT, np.random.default_rng(0).normal(size=LAYOUT.cells))


def main_effects(table: np.ndarray) -> np.ndarray:
    """The additive part of a table, from means over all other axes, by the textbook."""
    found = np.full(table.shape, (1 - table.ndim) * table.mean())
    for axis in range(table.ndim):
        others = tuple(other for other in range(table.ndim) if other != axis)
        found = found + table.mean(axis=others, keepdims=True)
    return found


def test_effects_are_the_additive_part_of_each_table() -> None:
    effects, theta = Effects.of(LAYOUT), np.random.default_rng(1).normal(size=LAYOUT.cells)
    found = effects.spread @ (effects.means @ theta)
    for domain, start, stop in zip(LAYOUT.domains, LAYOUT.offsets[:-1], LAYOUT.offsets[1:], strict=True):
        expected = main_effects(theta[start:stop].reshape(domain.shape))
        np.testing.assert_allclose(found[start:stop].reshape(domain.shape), expected, atol=1e-12)
    np.testing.assert_allclose(effects.spread @ (effects.means @ found), found, atol=1e-12)  # a projection


def test_the_density_is_students_for_interactions_and_normal_for_effects() -> None:
    prior = cells(InteractionPrior(scale=0.7))
    theta = np.random.default_rng(2).normal(size=LAYOUT.cells)

    def exact(point: np.ndarray) -> float:
        total, away = 0.0, point - prior.center
        for domain, start, stop in zip(LAYOUT.domains, LAYOUT.offsets[:-1], LAYOUT.offsets[1:], strict=True):
            table = away[start:stop].reshape(domain.shape)
            inside = (table - main_effects(table)) / 0.7
            total += 0.5 * (DEGREES + 1) * np.log1p(inside**2 / DEGREES).sum()
            means = [table.mean()]
            for axis in range(table.ndim):
                others = tuple(other for other in range(table.ndim) if other != axis)
                means = np.append(means, table.mean(axis=others))
            total += 0.5 * np.sum((np.asarray(means) / EFFECT_SCALE) ** 2)
        return total

    assert prior.energy(theta) - prior.energy(prior.center) == pytest.approx(exact(theta) - exact(prior.center))


@pytest.mark.parametrize("kind", [NormalPrior(2.0), InteractionPrior(0.6)])
def test_slopes_and_curvatures(kind) -> None:
    prior, generator = cells(kind), np.random.default_rng(3)
    theta, along = generator.normal(size=LAYOUT.cells), 1e-5 * generator.normal(size=LAYOUT.cells)
    found = (prior.energy(theta + along) - prior.energy(theta - along)) / 2
    assert found == pytest.approx(float(prior.gradient(theta) @ along), rel=1e-5)
    precision = prior.precision(theta)
    matrix = np.stack([prior.product(precision, unit) for unit in np.eye(LAYOUT.cells)])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > 0
    drawn = np.stack([prior.noise(precision, generator) for _ in range(30_000)])
    spread = np.sqrt(np.outer(np.diag(matrix), np.diag(matrix)))
    np.testing.assert_allclose(np.cov(drawn.T) / spread, matrix / spread, atol=0.04)
    near = prior.energy(prior.center)
    assert all(prior.energy(prior.center + one) > near for one in generator.normal(size=(20, LAYOUT.cells)))


def test_the_location_of_a_cell_is_where_its_interaction_is_zero() -> None:
    prior = cells(InteractionPrior())
    theta = np.random.default_rng(4).normal(size=LAYOUT.cells)
    away = prior.location(theta) - prior.center
    for domain, start, stop in zip(LAYOUT.domains, LAYOUT.offsets[:-1], LAYOUT.offsets[1:], strict=True):
        table = away[start:stop].reshape(domain.shape)
        np.testing.assert_allclose(table, main_effects(table), atol=1e-12)
