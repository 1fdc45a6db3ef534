"""Losses that are infinite where a marginal is zero, such as a likelihood: every solver stays inside their domain."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError

DOMAIN = pg.Domain({"a": 3, "b": 4})


class Likelihood:
    """-sum t log mu, infinite where t > 0 and mu = 0."""

    cliques = (("a", "b"),)
    lipschitz = None

    def __init__(self, target: np.ndarray, smooth: bool = True):
        self.target = target
        self.smooth = smooth

    def value_and_gradient(self, marginals):
        table = marginals[("a", "b")].values
        with np.errstate(divide="ignore", invalid="ignore"):
            value = -np.sum(np.where(self.target > 0, self.target * np.log(table), 0.0))
            slope = -np.where(self.target > 0, self.target / table, 0.0)
        return float(value), {("a", "b"): slope}


@pytest.mark.parametrize("method", ["auto", "accelerated", "universal", "mirror_descent"])
@pytest.mark.parametrize("holes", [False, True])
def test_the_likelihood_finds_its_target(method, holes):
    rng = np.random.default_rng(0)
    target = rng.uniform(0, 10, DOMAIN.shape) * ((rng.random(DOMAIN.shape) > 0.4) if holes else 1.0)
    model = pg.estimate(
        [],
        DOMAIN,
        total=float(target.sum()),
        loss=Likelihood(target),
        method=method,
        tolerance=1e-6,
        max_iterations=2000,
    )
    np.testing.assert_allclose(model.project(("a", "b")).values, target, atol=0.1)


def test_a_negative_loss_is_certified_relative_to_its_size():
    target = np.random.default_rng(1).uniform(1, 10, DOMAIN.shape)
    model = pg.estimate([], DOMAIN, total=float(target.sum()), loss=Likelihood(target), tolerance=1e-6)
    assert model.report is not None
    assert model.report.loss < 0
    assert model.report.converged
    best = -np.sum(target * np.log(target))
    assert model.report.loss - best <= model.report.gap + 1e-9 * abs(best)


def test_a_loss_that_is_infinite_from_the_start_says_so():
    target = np.ones(DOMAIN.shape)
    with pytest.raises(ArgumentError, match="the loss is inf where 'accelerated' starts"):
        pg.estimate([], DOMAIN, total=12, loss=Likelihood(target), structural_zeros={("a", "b"): [(0, 0)]})
