"""Noise: calibrated so that OpenDP's own privacy maps agree, and drawn from the distributions that it claims."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from pgmest.errors import ArgumentError
from pgmest.privacy import AddRemove, ApproxDP, Epsilon, Replace, Rho
from pgmest.privacy import noise as noise_module
from pgmest.privacy.noise import Noise, OpenDP, Simulation, analytic_gaussian, cost_of, make_backend, noise_for
from pgmest.privacy.selection import log_probabilities
from tests.privacy.amounts import rho

RELATIONS = st.sampled_from([AddRemove(), AddRemove(3), Replace(2)])
QUERIES = st.sampled_from([None, [[1.0, 1.0], [0.0, 2.0]], [[3.0, -1.0]]])


@pytest.fixture(scope="module")
def dp():
    prelude = pytest.importorskip("opendp.prelude")
    prelude.enable_features("contrib")
    return prelude


@given(amount=st.floats(1e-6, 1e2), relation=RELATIONS, query=QUERIES)
def test_opendp_agrees_that_the_noise_is_enough(dp, amount, relation, query):
    vectors = dp.vector_domain(dp.atom_domain(T="i64"))
    gaussian, laplace = noise_for(Rho(amount), relation, query), noise_for(Epsilon(amount), relation, query)
    made = dp.m.make_gaussian(vectors, dp.l2_distance(T="f64"), scale=gaussian.scale)
    assert amount * (1 - 1e-10) <= made.map(relation.l2_sensitivity(query)) <= amount
    made = dp.m.make_laplace(vectors, dp.l1_distance(T="f64"), scale=laplace.scale)
    assert amount * (1 - 1e-10) <= made.map(relation.l1_sensitivity(query)) <= amount


@given(amount=st.floats(1e-4, 10.0), relation=RELATIONS, query=QUERIES, kind=st.sampled_from([Rho, Epsilon]))
def test_a_stddev_costs_what_buys_it(amount, relation, query, kind):
    noise = noise_for(kind(amount), relation, query)
    cost = cost_of(noise.stddev, kind, relation, query)
    assert cost / kind(amount) == pytest.approx(1.0, rel=1e-9)
    assert noise_for(cost, relation, query).stddev <= noise.stddev * (1 + 1e-12)


def test_by_hand():
    assert noise_for(Rho(0.5), AddRemove()).stddev == pytest.approx(1.0)
    assert noise_for(Rho(0.02), Replace(2)).stddev == pytest.approx(2 * math.sqrt(2) * 5)
    assert noise_for(Epsilon(0.5), AddRemove()).scale == pytest.approx(2.0)
    assert noise_for(ApproxDP(0.5, 0.0), AddRemove()) == noise_for(Epsilon(0.5), AddRemove())
    assert rho(cost_of(10.0, Rho, AddRemove())) == pytest.approx(0.005)
    assert noise_for(Rho(1.0), Replace(), [[1.0, 1.0]]).scale == 0.0


def test_approximate_dp_uses_the_analytic_gaussian_on_a_fine_grid():
    noise = noise_for(ApproxDP(1.0, 1e-5), AddRemove(2))
    assert noise.stddev == pytest.approx(2 * 3.7306, rel=1e-4)
    assert noise.stddev > 2 * analytic_gaussian(1.0, 1e-5)
    assert noise.scale / noise.step > 1000
    assert noise.name == "gaussian"
    assert math.log2(noise.step) == round(math.log2(noise.step))


def convolved(sigma):
    """The distribution, in steps, of continuous noise followed by a discrete Gaussian of 4 steps around it."""
    fine = np.arange(-60 * 64, 60 * 64 + 1) / 64
    steps = np.arange(-80, 81)
    near = np.exp(-((steps[:, None] - fine) ** 2) / (2 * 4.0**2))
    return steps, near / near.sum(axis=0) @ (
        np.exp(-(fine**2) / (2 * sigma**2)) / 64 / (sigma * math.sqrt(2 * math.pi))
    )


def test_a_discrete_gaussian_is_a_post_processing_of_a_continuous_one():
    sigma = 6.0
    steps, probability = convolved(sigma)
    discrete = np.exp(-(steps**2) / (2 * (sigma**2 + 4.0**2)))
    inner = np.abs(steps) <= 25
    assert np.allclose((probability / (discrete / discrete.sum()))[inner], 1.0, rtol=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-9), (1.0, 1e-5), (10.0, 1e-3), (0.5, 0.1)])
def test_the_analytic_gaussian_is_the_least(epsilon, delta):
    from scipy.stats import norm

    def true_delta(sigma):
        tail = norm.logcdf(-0.5 / sigma - epsilon * sigma)
        return norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon + tail)

    sigma = analytic_gaussian(epsilon, delta)
    assert true_delta(sigma) <= delta
    assert true_delta(sigma * (1 - 1e-6)) > delta


@pytest.mark.parametrize("backend", [Simulation(0), OpenDP()], ids=["simulation", "opendp"])
@pytest.mark.parametrize(("kind", "scale"), [("discrete_gaussian", 2.5), ("discrete_laplace", 1.5)])
def test_noise_follows_its_distribution(backend, kind, scale):
    from scipy.stats import chi2

    size = 4000
    noise = backend.add_noise(np.full(size, 7.0), Noise(kind, scale, 1.0), 0) - 7
    values = np.arange(-60, 61)
    weights = np.exp(-(values**2) / (2 * scale**2)) if kind == "discrete_gaussian" else np.exp(-np.abs(values) / scale)
    expected = size * weights / weights.sum()
    common = expected >= 10
    seen = np.array([(noise == value).sum() for value in values])
    cells = [*zip(seen[common], expected[common], strict=True), (seen[~common].sum(), expected[~common].sum())]
    statistic = sum((one - other) ** 2 / other for one, other in cells)
    assert statistic < chi2.ppf(1 - 1e-9, len(cells) - 1)
    assert Noise(kind, scale, 1.0).stddev == pytest.approx(
        math.sqrt((weights * values**2).sum() / weights.sum()), rel=1e-4
    )


@pytest.mark.parametrize("pure", [False, True])
def test_a_choice_among_many_follows_its_distribution(monkeypatch, pure):
    monkeypatch.setattr(noise_module, "MANY_CANDIDATES", 2)
    steps, scale = np.array([0, 5, 9, 10, -(2**50)]), 4.0
    backend, expected = OpenDP(), np.exp(log_probabilities(steps, scale, pure))
    seen = np.bincount([backend.noisy_max(steps, scale, pure, 0) for _ in range(2000)], minlength=5)
    assert seen[4] == 0
    assert chisquare(seen[:4], 2000 * expected[:4] / expected[:4].sum()).pvalue > 1e-5


@pytest.mark.parametrize("backend", [Simulation(0), OpenDP()], ids=["simulation", "opendp"])
def test_noise_on_a_grid_keeps_to_it(backend):
    noisy = backend.add_noise(np.full(500, 0.75), Noise("discrete_gaussian", 2.0, 1.0, step=0.25), 0)
    assert np.array_equal(noisy * 4, np.rint(noisy * 4))
    assert 1.6 < noisy.std() < 2.4
    assert abs(noisy.mean() - 0.75) < 0.6


def test_simulated_requests_are_repeatable_and_independent():
    noise, answers = Noise("discrete_gaussian", 10.0, 1.0), np.zeros(50)
    first, again = Simulation(3), Simulation(3)
    assert np.array_equal(first.add_noise(answers, noise, 5), again.add_noise(answers, noise, 5))
    assert not np.array_equal(first.add_noise(answers, noise, 5), first.add_noise(answers, noise, 6))
    generator = np.random.default_rng(1)
    assert not np.array_equal(
        Simulation(generator).add_noise(answers, noise, 0), Simulation(generator).add_noise(answers, noise, 0)
    )


def test_arguments_that_cannot_be():
    with pytest.raises(ArgumentError, match="backend='numpy'"):
        make_backend("numpy", 0)
    for stddev in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ArgumentError, match="stddev="):
            cost_of(stddev, Rho, AddRemove())
    for spend in (Rho(1e-40), Epsilon(1e-300), ApproxDP(1.0, 1e-300)):
        with pytest.raises(ArgumentError, match=r"spend=.* it would need noise of"):
            noise_for(spend, AddRemove(), step=2.0**-48)
    with pytest.raises(ArgumentError, match="how to share epsilon and delta"):
        cost_of(1.0, ApproxDP, AddRemove())
