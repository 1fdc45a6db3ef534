"""The dependence from noisy distances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pgmest.mechanisms.lamp.dependence import posterior_dependence

TOTAL, COUNT = 10_000.0, 200


def released(stddev, seed=0, share=0.3):
    """Dependence, none of most pairs; the distances that errors alone make; and noisy distances."""
    rng = np.random.default_rng(seed)
    truth = np.where(rng.random(COUNT) < share, rng.uniform(500, 6000, COUNT), 0.0)
    explained = rng.uniform(100, 3000, COUNT)
    return truth, explained, np.hypot(truth, explained) + stddev * rng.standard_normal(COUNT)


def test_without_noise_dependence_is_what_errors_do_not_explain():
    truth, explained, noisy = released(1e-3)
    found = posterior_dependence(noisy, explained, np.full(COUNT, 1e-3), TOTAL).mean(axis=1)
    assert found[truth > 0] == pytest.approx(truth[truth > 0], rel=1e-2)
    assert found[truth == 0].max() < 20


@pytest.mark.parametrize("stddev", [300.0, 1000.0, 3000.0])
def test_under_noise_estimates_are_right_on_average_and_nearer_than_what_is_seen(stddev):
    means, truths, off, seen = [], [], [], []
    for seed in range(20):
        truth, explained, noisy = released(stddev, seed)
        found = posterior_dependence(noisy, explained, np.full(COUNT, stddev), TOTAL)
        means.append(found.mean())
        truths.append(truth.mean())
        off.append(np.abs(found.mean(axis=1) - truth).mean())
        seen.append(np.abs(np.sqrt(np.maximum(np.square(noisy.clip(0)) - np.square(explained), 0)) - truth).mean())
        assert (found[:, 0] <= found[:, 1]).all()
    assert np.mean(means) == pytest.approx(np.mean(truths), rel=0.25)
    assert np.mean(off) < 0.9 * np.mean(seen)


def test_where_noise_hides_everything_no_pair_is_thought_to_depend_much():
    rng = np.random.default_rng(1)
    explained = np.full(COUNT, 1000.0)
    found = posterior_dependence(explained + 1e5 * rng.standard_normal(COUNT), explained, np.full(COUNT, 1e5), TOTAL)
    assert found.mean() < 0.35 * TOTAL
    assert np.ptp(found.mean(axis=1)) < 0.35 * TOTAL


@given(
    arrays.arrays(np.float64, 7, elements=st.floats(-1e6, 1e6)),
    arrays.arrays(np.float64, 7, elements=st.floats(0, 2e4)),
    st.floats(1e-6, 1e6),
)
@settings(max_examples=200, deadline=None)
def test_any_scores_have_an_estimate(noisy, explained, stddev):
    found = posterior_dependence(noisy, explained, np.full(7, stddev), TOTAL)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
