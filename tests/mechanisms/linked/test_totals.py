"""Tests of the likely number of families."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.totals import CERTAIN, likely_total
from tests.mechanisms.linked.examples import households


@pytest.mark.parametrize("estimate", [1.0, 30.0, 90.0, 300.0])
def test_the_likely_total_is_the_median_under_a_prior_of_equal_magnitudes(estimate: float):
    def share(magnitude: float) -> float:
        return integrate.quad(lambda x: stats.norm.pdf(np.exp(x), estimate, 100.0), 0.0, magnitude, limit=200)[0]

    half = share(np.log(2000.0)) / 2
    exact = math.exp(optimize.root_scalar(lambda x: share(x) - half, bracket=(0.0, np.log(2000.0))).root)
    assert likely_total(estimate, 100.0) == pytest.approx(min(exact, estimate), rel=0.01)


def test_the_likely_total_is_at_most_the_estimate_and_nearly_it_where_noise_is_small():
    estimates = np.linspace(0.0, 1000.0, 101)
    found = np.array([likely_total(float(one), 100.0) for one in estimates])
    assert (found <= estimates).all()
    assert (np.diff(found) > 0).all()
    assert (estimates - found < 30)[estimates >= 100 * (CERTAIN - 0.5)].all()
    assert likely_total(7.0, 0.0) == 7.0
    assert likely_total(7.0, float("inf")) == 7.0
    assert likely_total(0.5, 1e9) == 0.5


@pytest.mark.parametrize("seed", range(2))
def test_a_tiny_budget_does_not_make_many_persons_of_noise(seed: int):
    data = households(np.full(30, 3), {"region": 4}, {"age": 6, "sex": 2}, 8)
    result = LinkedLAMP(epsilon=0.003, backend="simulation").fit(data, seed=seed, progress=False)
    assert result.sample(seed=0).tables["persons"].dataset.records < 20_000
