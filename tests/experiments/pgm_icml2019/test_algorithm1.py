"""Algorithm 1 of PGM with the authors' line search (experiments)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pgmest as pg
from experiments.pgm_icml2019.published import algorithm1
from pgmest.losses import L2Loss

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2})
CLIQUES = (("a", "b"), ("b", "c"))


def measured(stddev: float) -> list[pg.LinearMeasurement]:
    generator = np.random.default_rng(0)
    sizes = [DOMAIN.size(clique) for clique in CLIQUES]
    return [
        pg.LinearMeasurement(50 / size + generator.normal(0, 4, size), clique, stddev)
        for clique, size in zip(CLIQUES, sizes, strict=True)
    ]


def test_the_loss_never_rises_and_falls_to_the_minimum():
    measurements, losses = measured(1.0), []
    loss = L2Loss(measurements, DOMAIN)
    found = algorithm1.algorithm_1(
        measurements, DOMAIN, 50.0, 250, lambda t, mu, nu: losses.append(loss.flat_value_and_gradient(mu.flat)[0])
    )
    assert len(losses) == 250
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(losses))
    best = pg.estimate(measurements, DOMAIN, total=50, tolerance=1e-9, max_iterations=2000)
    for clique in CLIQUES:
        assert found.project(clique).values == pytest.approx(best.project(clique).values, abs=0.01)


def test_the_noise_counts_as_one_everywhere():
    one, other = (algorithm1.algorithm_1(measured(stddev), DOMAIN, 50.0, 20) for stddev in (1.0, 7.0))
    for clique in CLIQUES:
        assert np.array_equal(one.project(clique).values, other.project(clique).values)


def test_the_first_step_is_the_shortest_of_the_doubled_ones_that_is_too_long():
    """Taken by hand; the only iteration that follows is none, for zero are asked for."""
    measurements = measured(1.0)
    loss, size = L2Loss(measurements, DOMAIN), 1 / 50

    def after(size: float) -> tuple[np.ndarray, bool]:
        start = np.concatenate([np.full(6, 50 / 6), np.full(6, 50 / 6)])
        value, gradient = loss.flat_value_and_gradient(start)
        joint = np.exp(-size * (gradient[:6].reshape(2, 3, 1) + gradient[6:].reshape(1, 3, 2)))
        joint *= 50 / joint.sum()
        moved = np.concatenate([joint.sum(axis=2).reshape(-1), joint.sum(axis=0).reshape(-1)])
        return moved, bool(loss.flat_value_and_gradient(moved)[0] <= value + 0.5 * gradient @ (moved - start))

    while after(size)[1]:
        size *= 2
    found = algorithm1.algorithm_1(measurements, DOMAIN, 50.0, 0)
    assert found.project(("a", "b")).datavector() == pytest.approx(after(size)[0][:6])
