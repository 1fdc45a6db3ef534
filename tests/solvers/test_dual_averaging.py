"""PGM Algorithm 2, against its pseudocode on the joint table."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.solvers import DualAveraging

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2})
CLIQUES = (("a", "b"), ("b", "c"))


def problem(seed: int) -> tuple[list[pg.LinearMeasurement], np.ndarray, np.ndarray]:
    """Two noisy marginals of 50 records, and the matrix and vector of the same."""
    generator = np.random.default_rng(seed)
    cells = np.indices(DOMAIN.shape).reshape(len(DOMAIN), -1)
    blocks, measurements = [], []
    for clique in CLIQUES:
        axes = DOMAIN.axes(clique)
        rows = np.ravel_multi_index([cells[axis] for axis in axes], [DOMAIN.shape[axis] for axis in axes])
        blocks.append((rows == np.arange(DOMAIN.size(clique))[:, None]).astype(float))
        values = generator.normal(50 / DOMAIN.size(clique), 4.0, DOMAIN.project(clique).shape)
        measurements.append(pg.LinearMeasurement(values, clique, stddev=2.0))
    y = np.concatenate([measurement.values.reshape(-1) for measurement in measurements])
    return measurements, np.concatenate(blocks), y


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_it_is_the_published_pseudocode(scale):
    """Line by line, with marginals of fractions; the oracle is softmax on the joint table."""
    measurements, matrix, y = problem(0)
    constant = scale * 2 * (50 / 2.0) ** 2  # the largest entry of Q^T Q: each record is in two of the tables

    def oracle(theta: np.ndarray) -> np.ndarray:
        weights = np.exp(matrix.T @ theta)
        return matrix @ (weights / weights.sum())

    def gradient(mu: np.ndarray) -> np.ndarray:
        return 50 * (50 * mu - y) / 2.0**2

    mean, nu = np.zeros(len(y)), oracle(np.zeros(len(y)))
    mu = nu
    for t in range(1, 26):
        c = 2.0 / (t + 1)
        omega = (1 - c) * mu + c * nu
        mean = (1 - c) * mean + c * gradient(omega)
        nu = oracle(-t * (t + 1) / (4 * constant) * mean)
        mu = (1 - c) * mu + c * nu
    seen = []
    pg.estimate(
        measurements, DOMAIN, total=50, method=DualAveraging(lipschitz=constant), tolerance=0, max_iterations=25,
        callback=lambda progress: seen.append(progress.marginals),
    )  # fmt: skip
    assert seen[-1] == pytest.approx(50 * nu, abs=1e-9)


def test_its_own_constant_is_the_largest_entry_of_the_gram_matrix():
    measurements, _, _ = problem(1)
    ends = []
    for method in (DualAveraging(), DualAveraging(lipschitz=2 * (50 / 2.0) ** 2)):
        model = pg.estimate(measurements, DOMAIN, total=50, method=method, tolerance=0, max_iterations=40)
        ends.append(model.project(("a", "b")).values)
    np.testing.assert_allclose(*ends, rtol=1e-12)


@pytest.mark.parametrize("constant", [0.0, -1.0, math.inf, math.nan])
def test_a_constant_must_be_positive(constant):
    with pytest.raises(ArgumentError, match="lipschitz"):
        DualAveraging(lipschitz=constant)
