"""One-way marginals from noisy counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pgmest.mechanisms.lamp.one_way import OneWayEstimate, posterior_means


def l1(a, b):
    return float(np.abs(a - b).sum())


def test_with_little_noise_counts_stay_and_with_much_they_are_pulled_together():
    rng = np.random.default_rng(0)
    truth = np.array([1000.0, 300.0, *[10.0] * 60])
    assert posterior_means(truth, 1e-3) == pytest.approx(truth, abs=0.1)
    assert OneWayEstimate.of(truth, 1e-3, truth.sum()).counts == pytest.approx(truth, abs=0.1)
    noisy = truth + 40 * rng.standard_normal(len(truth))
    assert l1(OneWayEstimate.of(noisy, 40.0, truth.sum()).counts, truth) < 0.5 * l1(noisy, truth)


@given(arrays.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e5, 1e5)), st.floats(0.01, 1e5))
@settings(max_examples=200, deadline=None)
def test_any_noisy_counts_become_a_one_way_marginal(noisy, stddev):
    found = OneWayEstimate.of(noisy, stddev, 500.0)
    assert (found.counts > 0).all()
    assert found.counts.sum() == pytest.approx(500.0)
    assert found.stddev == stddev
    assert np.isfinite(found.risk)


AGES = 1000 * np.exp(-0.5 * np.square((np.arange(80) - 30) / 15))
AGES[18] += 1500  # what rounding does


@pytest.mark.parametrize("stddev", [30.0, 100.0, 300.0])
def test_the_risk_is_what_repeated_noise_shows(stddev):
    rng = np.random.default_rng(0)
    noisy = [AGES + stddev * rng.standard_normal(len(AGES)) for _ in range(60)]
    estimates = [OneWayEstimate.of(values, stddev, AGES.sum()) for values in noisy]
    risk, off = np.mean([(e.risk, np.square(e.counts - AGES).sum()) for e in estimates], axis=0)
    assert risk == pytest.approx(off, rel=0.1, abs=0.1 * len(AGES) * stddev**2)
