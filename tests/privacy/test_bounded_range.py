"""Choices among Gaussian noise: never below the true curve, equal to it in closed form where there is one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import binom

from pgmest.privacy.bounded_range import ChoiceCurve, choice_curve, choice_epsilon, choice_mu
from pgmest.privacy.gaussian import gaussian_delta, gaussian_deltas


def nothing(epsilons):
    """The curve of what tells nothing."""
    return np.maximum(0.0, -np.expm1(epsilons))


def losses(t, epsilon):
    """The probability of the loss t of the worst choices, under the one table and under the other."""
    hit = -math.expm1(t - epsilon) / -math.expm1(-epsilon)
    return hit, hit * math.exp(-t)


@given(st.floats(1e-6, 30.0), st.floats(0.0, 1.0))
def test_a_choice_is_gdp_at_its_mu_whatever_the_neighbors_make_of_it(epsilon, place):
    one, other = losses(place * epsilon, epsilon)
    if 0 < other < one < 1 and one - other > 1e-12:
        assert ndtri(one) - ndtri(other) <= choice_mu(epsilon) * (1 + 1e-9)


@given(st.floats(1e-6, 30.0))
def test_the_mu_of_a_choice_is_attained_by_a_fair_one(epsilon):
    fair = -2 * float(ndtri(1 / (1 + math.exp(epsilon / 2))))
    assert fair * (1 - 1e-9) <= choice_mu(epsilon) <= fair * (1 + 1e-5)


@pytest.mark.parametrize("mu", [1e-9, 1e-4, 0.02, 0.5, 2.0, 10.0, 40.0, 500.0])
def test_the_range_that_a_mu_buys_is_its_inverse(mu):
    epsilon = choice_epsilon(mu)
    assert choice_mu(epsilon) <= mu
    assert epsilon == pytest.approx(1000.0) or choice_mu(epsilon * (1 + 1e-5)) > mu


@pytest.mark.parametrize("epsilon", [1e-3, 0.2, 3.0])
def test_one_choice_has_the_curve_in_closed_form(epsilon):
    """max over t of P(t) (1 - e^(x - t)), which is at t = (x + epsilon) / 2."""
    curve = ChoiceCurve(1, epsilon)
    points = curve.shifts[np.abs(curve.shifts) <= epsilon * (1 - 1e-9)]
    for x in points:
        true = -(math.expm1((x - epsilon) / 2) ** 2) / math.expm1(-epsilon)
        assert curve.delta(x, nothing) == pytest.approx(true, rel=1e-8, abs=1e-13)
    between = (points[1:] + points[:-1]) / 2
    for x in between:
        true = -(math.expm1((x - epsilon) / 2) ** 2) / math.expm1(-epsilon)
        assert true <= curve.delta(x, nothing) <= true + epsilon / 1000


@given(st.floats(0.01, 2.0), st.integers(1, 12), st.floats(0.0, 1.0), st.floats(0.05, 2.0))
def test_it_is_never_below_choices_that_neighbors_fix_beforehand(epsilon, number, place, mu):
    """All at one t, of which the sum is binomial, with Gaussian noise: a case of the worst case."""
    one, _ = losses(place * epsilon, epsilon)
    hits = np.arange(number + 1)
    sums = hits * epsilon + number * (place - 1) * epsilon
    curve = choice_curve(number, epsilon)
    for at in (0.0, 0.5 * number * epsilon, mu, 3 * mu):
        true = float(binom.pmf(hits, number, one) @ gaussian_deltas(mu, at - sums))
        assert curve.delta(at, lambda x: gaussian_deltas(mu, x)) >= true * (1 - 1e-9)


@given(st.floats(0.01, 3.0), st.floats(-3.0, 3.0))
def test_two_choices_are_not_below_the_best_of_a_search(epsilon, at):
    """The neighbors decide the second t when they know the first answer."""
    ts = np.linspace(0, epsilon, 41)

    def once(threshold):
        x = np.clip(threshold, -epsilon, epsilon)
        inside = -(np.expm1((x - epsilon) / 2) ** 2) / math.expm1(-epsilon)
        return np.where(threshold > epsilon, 0.0, np.where(threshold < -epsilon, -np.expm1(threshold), inside))

    hit = -np.expm1(ts - epsilon) / -math.expm1(-epsilon)
    true = float((hit * once(at - ts) + (1 - hit) * once(at - ts + epsilon)).max())
    assert ChoiceCurve(2, epsilon).delta(at, nothing) >= true * (1 - 1e-9) - 1e-15


@pytest.mark.parametrize(("number", "epsilon"), [(13, 0.03), (60, 1e-3), (200, 0.01)])
def test_many_small_choices_are_hardly_worse_than_a_gaussian_of_their_rho(number, epsilon):
    """zCDP charges rho = epsilon^2 / 8 for each choice. The rest is the central limit theorem and adaptivity."""
    mu = 3 * epsilon * math.sqrt(number)
    both = math.sqrt(mu**2 + number * epsilon**2 / 4)
    at = 4 * both
    found = choice_curve(number, epsilon).delta(at, lambda x: gaussian_deltas(mu, x))
    assert gaussian_delta(both, at) <= found * (1 + 1e-3)
    assert found <= gaussian_delta(both * 1.004, at)


def test_no_choice_changes_nothing():
    assert choice_mu(0.0) == 0.0
    curve = ChoiceCurve(3, 1e-12)
    for at in (0.1, 1.0):
        assert curve.delta(at, lambda x: gaussian_deltas(0.5, x)) == pytest.approx(gaussian_delta(0.5, at), rel=1e-6)
