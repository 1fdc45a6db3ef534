"""One-way marginals from noisy counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pgmest.mechanisms.lamp.one_way import LEAST_CODES, OneWayEstimate, posterior_means
from pgmest.synthesis.consistency import norm_sub


def l1(a, b):
    return float(np.abs(a - b).sum())


def estimates(truth, stddev, draws, seed=0):
    """Yield, for several draws of noise, our estimate and empirical Bayes without neighbors."""
    rng, total = np.random.default_rng(seed), truth.sum()
    for _ in range(draws):
        noisy = truth + stddev * rng.standard_normal(len(truth))
        yield OneWayEstimate.of(noisy, stddev, total), norm_sub(posterior_means(noisy, stddev), total)


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


@pytest.mark.parametrize(("stddev", "at_most"), [(500.0, 0.8), (100.0, 0.75), (3.0, 1.02)])
def test_counts_that_change_little_from_code_to_code_are_learned_from_their_neighbors(stddev, at_most):
    found = [(l1(ours.counts, AGES), l1(plain, AGES)) for ours, plain in estimates(AGES, stddev, 20)]
    off = np.array(found).mean(axis=0)
    assert off[0] < at_most * off[1]


@pytest.mark.parametrize("stddev", [1000.0, 300.0, 30.0, 3.0])
def test_codes_without_an_order_lose_little(stddev):
    shuffled = np.random.default_rng(1).permutation(np.exp(np.random.default_rng(2).normal(5, 1.5, 80)))
    found = [(l1(ours.counts, shuffled), l1(plain, shuffled)) for ours, plain in estimates(shuffled, stddev, 20)]
    off = np.array(found).mean(axis=0)
    assert off[0] < 1.03 * off[1]


def test_few_codes_have_no_neighborhoods():
    truth = np.linspace(100.0, 200.0, LEAST_CODES - 1)
    noisy = truth + np.random.default_rng(0).normal(0, 50, len(truth))
    noisy += (truth.sum() - noisy.sum()) / len(noisy)
    left = 50 * (1 - 1 / len(truth)) ** 0.5
    assert OneWayEstimate.of(noisy, 50.0, truth.sum()).counts == pytest.approx(
        norm_sub(posterior_means(noisy, left), truth.sum())
    )


@pytest.mark.parametrize("stddev", [30.0, 100.0, 300.0])
@pytest.mark.parametrize("ordered", [True, False])
def test_the_risk_is_what_repeated_noise_shows(ordered, stddev):
    truth = AGES if ordered else np.random.default_rng(0).permutation(AGES)
    found = [(ours.risk, np.square(ours.counts - truth).sum()) for ours, _ in estimates(truth, stddev, 60)]
    risk, off = np.array(found).mean(axis=0)
    assert risk == pytest.approx(off, rel=0.1, abs=0.1 * len(truth) * stddev**2)
