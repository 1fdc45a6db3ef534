"""Priors of potentials: densities against their formulas, slopes and curvatures against differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.models.posterior import InteractionPrior, NormalPrior
from pgmest.models.posterior.student_cells import DEGREES, EFFECT_SCALE, Effects
from tests.models.posterior.prior_draws import drawn_from

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 4})
LAYOUT = pg.CliqueVector.zeros(DOMAIN, [("a", "b"), ("b", "c", "a"), ("c",)]).layout


def cells(prior):
    return prior.on(LAYOUT, np.random.default_rng(0).normal(size=LAYOUT.cells))


def own(prior) -> np.ndarray:
    """Log scales somewhere else than where they are likeliest."""
    return prior.log_scales + 0.3


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
    prior = cells(InteractionPrior(scale=0.7, spread=0.8))
    theta = np.random.default_rng(2).normal(size=LAYOUT.cells)
    scales = np.array([0.4, 1.3])  # of the pair and of the triple
    np.testing.assert_allclose(prior.free, [2, 24 - 1 - 1 - 3 - 2])

    def exact(point: np.ndarray, log_scales: np.ndarray) -> float:
        away = point - prior.center
        total = 0.5 * np.sum(((log_scales - np.log(0.7)) / 0.8) ** 2) + prior.free @ log_scales
        own = np.exp(np.append(log_scales, 0.0))
        parts = zip(LAYOUT.domains, LAYOUT.offsets[:-1], LAYOUT.offsets[1:], own, strict=True)
        for domain, start, stop, scale in parts:
            table = away[start:stop].reshape(domain.shape)
            inside = (table - main_effects(table)) / scale
            total += 0.5 * (DEGREES + 1) * np.log1p(inside**2 / DEGREES).sum()
            means = [table.mean()]
            for axis in range(table.ndim):
                others = tuple(other for other in range(table.ndim) if other != axis)
                means = np.append(means, table.mean(axis=others))
            total += 0.5 * np.sum((np.asarray(means) / EFFECT_SCALE) ** 2)
        return total

    there, here = (theta, np.log(scales)), (prior.center, prior.log_scales)
    assert prior.energy(*there) - prior.energy(*here) == pytest.approx(exact(*there) - exact(*here))


@pytest.mark.parametrize("scatters", [False, True])
@pytest.mark.parametrize("kind", [NormalPrior(2.0), InteractionPrior(0.6), InteractionPrior(0.6, spread=0.0)])
def test_slopes_and_curvatures(kind, scatters) -> None:
    generator = np.random.default_rng(3)
    expected = generator.gamma(0.5, 10.0, LAYOUT.cells) if scatters else None
    prior = kind.on(LAYOUT, np.random.default_rng(0).normal(size=LAYOUT.cells), expected=expected)
    theta, along = generator.normal(size=LAYOUT.cells), 1e-5 * generator.normal(size=LAYOUT.cells)
    scales, moved = own(prior), 1e-5 * generator.normal(size=len(prior.log_scales))
    found = (prior.energy(theta + along, scales + moved) - prior.energy(theta - along, scales - moved)) / 2
    slopes = prior.gradient(theta, scales)
    assert found == pytest.approx(float(slopes[0] @ along + slopes[1] @ moved), rel=1e-5)
    precision = prior.precision(theta, scales)
    matrix = np.stack([prior.product(precision, unit) for unit in np.eye(LAYOUT.cells)])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > 0
    drawn = np.stack([prior.noise(precision, generator) for _ in range(30_000)])
    spread = np.sqrt(np.outer(np.diag(matrix), np.diag(matrix)))
    np.testing.assert_allclose(np.cov(drawn.T) / spread, matrix / spread, atol=0.04)
    near = prior.energy(prior.center, scales)
    assert all(prior.energy(prior.center + one, scales) > near for one in generator.normal(size=(20, LAYOUT.cells)))


@given(st.data())
def test_slopes_on_any_layout(data) -> None:
    """Tables of no, one or many attributes, values without siblings, structural zeros, scattering counts."""
    domain = pg.Domain({name: data.draw(st.integers(1, 4)) for name in "abcd"})
    subsets = st.lists(st.sampled_from(list(domain)), unique=True, max_size=4).map(tuple)
    cliques = {frozenset(one): one for one in data.draw(st.lists(subsets, min_size=1, max_size=4))}.values()
    layout = pg.CliqueVector.zeros(domain, list(cliques)).layout
    generator = np.random.default_rng(data.draw(st.integers(0, 1000)))
    center, theta = generator.normal(size=(2, layout.cells))
    possible = generator.random(layout.cells) < data.draw(st.sampled_from([0.6, 1.0]))
    expected = data.draw(st.sampled_from([None, generator.gamma(0.5, 10.0, layout.cells)]))
    prior = InteractionPrior(0.6, spread=data.draw(st.sampled_from([0.0, 1.0]))).on(layout, center, possible, expected)
    scales = own(prior)
    along, moved = 1e-5 * generator.normal(size=layout.cells), 1e-5 * generator.normal(size=len(scales))
    found = (prior.energy(theta + along, scales + moved) - prior.energy(theta - along, scales - moved)) / 2
    slopes = prior.gradient(theta, scales)
    assert found == pytest.approx(float(slopes[0] @ along + slopes[1] @ moved), rel=1e-4, abs=1e-9)


def test_the_location_of_a_cell_is_where_its_interaction_is_zero() -> None:
    prior = cells(InteractionPrior())
    theta = np.random.default_rng(4).normal(size=LAYOUT.cells)
    away = prior.location(theta) - prior.center
    for domain, start, stop in zip(LAYOUT.domains, LAYOUT.offsets[:-1], LAYOUT.offsets[1:], strict=True):
        table = away[start:stop].reshape(domain.shape)
        np.testing.assert_allclose(table, main_effects(table), atol=1e-12)


def test_draws_have_the_density() -> None:
    """Moments of draws against importance weights of the density on the interactions of two binary attributes."""
    layout = pg.CliqueVector.zeros(pg.Domain({"a": 2, "b": 2}), [("a", "b")]).layout
    prior = InteractionPrior(scale=0.7, spread=0.4).on(layout, np.zeros(4))
    generator = np.random.default_rng(0)
    drawn = [drawn_from(prior, generator) for _ in range(1500)]
    scales = np.exp([float(one[1][0]) for one in drawn])
    contrast = np.array([one[0] @ [1, -1, -1, 1] / 4 for one in drawn]) / scales  # each cell's interaction
    grid = np.linspace(-8, 8, 20_001)
    mass = (1 + grid**2 / DEGREES) ** (-4 * (DEGREES + 1) / 2)  # four cells with the same square
    mass /= mass.sum()
    assert np.std(contrast) == pytest.approx(np.sqrt(np.sum(mass * grid**2)), rel=0.06)
    assert np.std(np.log(scales)) == pytest.approx(0.4, rel=0.06)
    assert np.median(scales) == pytest.approx(0.7, rel=0.05)
    means = np.array([one[0].mean() for one in drawn])
    rows = np.array([one[0].reshape(2, 2).mean(axis=1) @ [0.5, -0.5] for one in drawn])
    assert np.std(rows) == pytest.approx(EFFECT_SCALE / np.sqrt(2), rel=0.06)
    assert np.std(means) == pytest.approx(EFFECT_SCALE / np.sqrt(5), rel=0.06)  # of five means that contain it


def test_likely_scales_are_those_that_made_the_potentials() -> None:
    layout = pg.CliqueVector.zeros(pg.Domain({"a": 12, "b": 12, "c": 12}), [("a", "b"), ("b", "c")]).layout
    prior = InteractionPrior().on(layout, np.zeros(layout.cells))
    generator = np.random.default_rng(1)
    theta = np.repeat([0.2, 1.5], 144) * generator.standard_t(DEGREES, layout.cells)
    found = np.exp(prior.likely_scales(theta, np.zeros(layout.cells)))
    np.testing.assert_allclose(found, [0.2, 1.5], rtol=0.25)


def test_small_counts_scatter_by_themselves() -> None:
    prior = InteractionPrior(spread=0.0, scale=0.5).on(LAYOUT, np.zeros(LAYOUT.cells), expected=np.zeros(LAYOUT.cells))
    np.testing.assert_allclose(prior.spread(np.empty(0)), np.sqrt(1.25))
    large = InteractionPrior().on(LAYOUT, np.zeros(LAYOUT.cells), expected=np.full(LAYOUT.cells, 1e9))
    np.testing.assert_allclose(large.spread(np.log([0.3, 0.3]))[:6], 0.3)


def test_structural_zeros_have_no_interactions() -> None:
    layout = pg.CliqueVector.zeros(pg.Domain({"a": 3, "b": 3}), [("a", "b")]).layout
    possible = np.array([1, 1, 1, 1, 1, 1, 1, 0, 0], dtype=bool)
    prior = InteractionPrior().on(layout, np.zeros(9), possible)
    assert prior.free.tolist() == [2]
    theta, away = np.zeros(9), np.zeros(9)
    away[8] = 1e-6
    slope, _ = prior.gradient(theta, prior.log_scales)
    assert abs(slope[8]) < 1e-9


def test_a_spread_is_not_negative() -> None:
    with pytest.raises(pg.errors.ArgumentError, match="spread"):
        InteractionPrior(spread=-1.0)
