"""The mu of a choice: never below that of any two neighbors, and attained by a fair coin."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from pgmest.privacy.bounded_range import choice_epsilon, choice_mu


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


def test_no_choice_costs_nothing():
    assert choice_mu(0.0) == 0.0
