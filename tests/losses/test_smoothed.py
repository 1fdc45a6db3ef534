"""Rounded-off losses: below the kinked loss, close to it, exact around the right slopes, and widest where mass is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest import Domain, Factor, Kron, LinearMeasurement, queries
from pgmest.losses import HuberLoss, L1Loss, L2Loss, NegativeLogLikelihood
from pgmest.losses.smoothed import KinkedLoss

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})


def measurements(rng, noises):
    def measure(clique, query=None):
        rows = DOMAIN.size(clique) if query is None else query.rows
        return LinearMeasurement(
            rng.uniform(-5, 30, rows), clique, rng.uniform(0.5, 3, rows), query, noise=rng.choice(noises)
        )

    return [
        measure(("a", "b")),
        measure(("b", "a")),
        measure(("c",), queries.haar(4)),
        measure(("c", "b"), Kron({"b": queries.identity(2), "c": queries.prefix(4)})),
        measure(()),
    ]


def problem(seed):
    """A kinked loss, the same rounded off twice over, and two sets of marginals."""
    rng = np.random.default_rng(seed)
    noises = ["laplace"] if seed % 2 else ["laplace", "gaussian", "discrete_laplace"]
    chosen = [*measurements(rng, noises), LinearMeasurement([3.0, 9.0], "b", noise="laplace")]
    loss = NegativeLogLikelihood(chosen, DOMAIN)
    p, q, r = (
        np.concatenate([Factor(DOMAIN, rng.uniform(0, 3, DOMAIN.shape)).project(c).datavector() for c in loss.cliques])
        for _ in range(3)
    )
    return loss, loss.smoothed(r, 0.3).recentered(q, 0.2), p, q


seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_it_lies_below_the_kinked_loss_by_no_more_than_the_widths_allow(seed):
    loss, smooth, p, _ = problem(seed)
    value, rounded = loss.flat_value_and_gradient(p)[0], smooth.flat_value_and_gradient(p)[0]
    away = (smooth.slopes(p) - smooth.centers)[loss.kinked]
    widths = smooth.widths[loss.kinked]
    assert np.all(np.abs(smooth.centers) <= 1)
    assert value - np.sum(0.5 * widths * (1 + np.abs(smooth.centers[loss.kinked])) ** 2) <= rounded + 1e-9
    assert rounded <= value + 1e-9
    assert smooth.support(p) == pytest.approx(rounded + 0.5 * np.sum(widths * away**2))


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_the_gradient_is_that_of_finite_differences(seed):
    _, smooth, p, q = problem(seed)
    gradient = smooth.flat_value_and_gradient(p)[1]
    up, down = (smooth.flat_value_and_gradient(p + sign * 1e-6 * q)[0] for sign in (1, -1))
    assert (up - down) / 2e-6 == pytest.approx(gradient @ q, rel=1e-5, abs=1e-4)


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_its_bregman_divergence_is_that_of_the_definition_and_keeps_its_digits(seed):
    _, smooth, p, q = problem(seed)
    (here, gradient), (there, _) = smooth.flat_value_and_gradient(p), smooth.flat_value_and_gradient(q)
    assert smooth.bregman(p, q - p) == pytest.approx(there - here - gradient @ (q - p), abs=1e-8)
    tiny = [smooth.bregman(p, scale * (q - p)) / scale**2 for scale in (1e-5, 1e-7)]
    assert tiny[0] == pytest.approx(tiny[1], rel=1e-2, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_its_support_is_a_linear_function_below_the_kinked_loss(seed):
    loss, smooth, p, q = problem(seed)
    gradient = smooth.flat_value_and_gradient(p)[1]
    assert smooth.support(p) + gradient @ (q - p) <= loss.flat_value_and_gradient(q)[0] + 1e-9


def test_with_no_centers_it_is_hubers_function():
    loss = L1Loss([LinearMeasurement([10.0, 10.0], "b", stddev=np.sqrt(2))], DOMAIN)  # b = 1
    smooth = loss.smoothed(np.array([6.0, 6.0]), softness=0.5)  # residuals of -4: widths of 2
    np.testing.assert_allclose(smooth.widths, 2.0)
    for count, value in ((10.0, 0.0), (11.0, 1 / 4), (12.0, 1.0), (15.0, 4.0)):
        assert smooth.flat_value_and_gradient(np.array([count, 10.0]))[0] == pytest.approx(value)
    squares = HuberLoss([LinearMeasurement([10.0, 10.0], "b")], DOMAIN, threshold=2.0)
    at = np.array([11.3, 6.5])
    assert 2 * smooth.flat_value_and_gradient(at)[0] == pytest.approx(squares.flat_value_and_gradient(at)[0])


def test_around_the_slopes_of_the_minimum_the_minimum_is_that_of_the_kinked_loss():
    loss = L1Loss([LinearMeasurement([10.0, 10.0], "b", stddev=np.sqrt(2))], DOMAIN)
    smooth = loss.smoothed(np.array([30.0, 10.0]), softness=1.0)
    recentered = smooth.recentered(np.array([30.0, 10.0]), softness=1.0)
    np.testing.assert_allclose(recentered.centers, [1.0, 0.0])
    assert smooth.flat_value_and_gradient(np.array([11.0, 10.0]))[0] < 1.0
    assert recentered.flat_value_and_gradient(np.array([11.0, 10.0]))[0] == 1.0


def test_widths_follow_the_mass_that_an_answer_curves():
    noisy = [
        LinearMeasurement([90.0, 10.0], "b", stddev=np.sqrt(2)),
        LinearMeasurement([0.0, 0.0], "b", stddev=np.sqrt(2), query=[[1.0, -1.0], [2.0, 0.0]]),
    ]
    smooth = L1Loss(noisy, DOMAIN).smoothed(np.array([80.0, 0.0]), softness=0.1)
    assert smooth.widths.mean() == pytest.approx(0.1 * np.mean([10.0, 10.0, 80.0, 160.0]))
    heavy, empty, difference, double = smooth.widths
    assert difference == heavy
    assert double == pytest.approx(4 * heavy, rel=1e-2)
    assert 0 < empty < 1e-2 * heavy


def test_fractions_have_the_same_loss_as_counts():
    rng = np.random.default_rng(4)
    loss = L1Loss(measurements(rng, ["laplace"]), DOMAIN)
    _, _, p, _ = problem(1)
    p = p[: loss.layout.cells]
    of_fractions = loss.of_fractions(50.0)
    assert isinstance(of_fractions, L1Loss)
    (value, gradient), (same, steeper) = loss.flat_value_and_gradient(p), of_fractions.flat_value_and_gradient(p / 50)
    assert same == pytest.approx(value)
    np.testing.assert_allclose(steeper, 50 * gradient)
    assert of_fractions.noise_floor == loss.noise_floor
    smooth, other = loss.smoothed(p, 0.1), of_fractions.smoothed(p / 50, 0.1)
    np.testing.assert_allclose(other.widths, smooth.widths)
    assert loss.flat_value_and_gradient(p)[0] == value  # unchanged by what was derived from it


def test_smooth_losses_and_losses_without_answers():
    gaussian = [LinearMeasurement([1.0, 2.0], "b")]
    at = np.ones(2)
    assert NegativeLogLikelihood(gaussian, DOMAIN).smoothed(at, 0.1) is None
    assert not isinstance(L2Loss(gaussian, DOMAIN), KinkedLoss)
    nothing = L1Loss([], DOMAIN).smoothed(np.empty(0), 0.1)
    assert nothing.flat_value_and_gradient(np.empty(0))[0] == 0.0
