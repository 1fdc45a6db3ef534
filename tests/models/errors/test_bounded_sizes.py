"""Sizes that are exponential below a bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pgmest.models.errors.bounded_sizes import mean_below, sizes_below


@pytest.mark.parametrize("bound", [0.01, 0.5, 1.0, 3.0, 1000.0, math.inf])
def test_drawn_sizes_have_the_mean_that_is_stated(bound):
    drawn = sizes_below(2.0, np.full(100_000, bound), np.random.default_rng(0))
    assert drawn.min() >= 0
    assert drawn.max() <= bound
    assert drawn.mean() == pytest.approx(mean_below(2.0, bound), rel=0.02)


def test_sizes_below_a_bound_are_the_exponential_ones_that_are_below_it():
    generator = np.random.default_rng(1)
    usual = generator.exponential(2.0, 400_000)
    drawn = sizes_below(2.0, np.full(100_000, 3.0), generator)
    shares = [0.1, 0.5, 0.9]
    assert np.allclose(np.quantile(drawn, shares), np.quantile(usual[usual < 3.0], shares), rtol=0.03)


def test_each_bound_is_its_own():
    drawn = sizes_below(2.0, np.array([0.0, 1e-6, math.inf]), np.random.default_rng(2))
    assert drawn[0] == 0.0
    assert drawn[1] <= 1e-6 < drawn[2]


def test_no_mean_is_no_size():
    assert not sizes_below(0.0, np.array([1.0, math.inf]), np.random.default_rng(3)).any()
    assert mean_below(0.0, 1.0) == mean_below(0.0, math.inf) == 0.0
