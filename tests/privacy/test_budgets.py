"""Budgets: arithmetic rounded against the spender, types that do not mix, conversions against independent bounds."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest.errors import ArgumentError, BudgetTypeError
from pgmest.mechanisms import LAMP
from pgmest.privacy import GDP, ApproxDP, Epsilon, Rho
from tests.privacy.amounts import rho

AMOUNTS = st.floats(1e-9, 1e6)
DELTAS = st.sampled_from([1e-12, 1e-9, 1e-5, 0.01, 0.5])


@given(AMOUNTS, st.integers(1, 500))
def test_parts_of_a_quotient_never_exceed_the_whole(amount, k):
    assert k * Fraction((Rho(amount) / k).rho) <= Fraction(amount)


@given(AMOUNTS, st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20))
def test_a_split_never_exceeds_the_whole_and_loses_almost_nothing(amount, weights):
    parts = [Fraction(part.epsilon) for part in Epsilon(amount).split(weights)]
    assert sum(parts) <= Fraction(amount)
    assert float(sum(parts)) == pytest.approx(amount, rel=1e-12)
    assert np.allclose([float(part) for part in parts], amount * np.array(weights) / sum(weights), rtol=1e-9, atol=0.0)


@given(AMOUNTS, st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=50), st.booleans())
def test_shares_never_exceed_the_whole_as_ledgers_add_them(amount, weights, equal):
    shares = [1 / len(weights)] * len(weights) if equal else [weight / sum(weights) for weight in weights]
    mechanisms = LAMP(rho=amount), LAMP(epsilon=min(amount, 100.0)), LAMP(epsilon=amount, delta=0.0)
    divided: list[tuple[Any, list[Any]]] = []
    divided += [(m.with_share(1).budget(), [m.with_share(share).budget() for share in shares]) for m in mechanisms]
    for whole in (Rho(amount), GDP(amount), Epsilon(amount), ApproxDP(amount, 1e-9)):
        assert whole.share(1) == whole
        divided.append((whole, [whole.share(share) for share in shares]))
    for whole, parts in divided:
        for place, exact in enumerate(whole.exact):
            assert 1 - 1e-9 < sum(part.exact[place] for part in parts) / exact <= 1


@pytest.mark.parametrize("share", [-0.1, 1.5, math.nan, True, "half"])
def test_shares_that_cannot_be(share):
    with pytest.raises(ArgumentError, match="share="):
        Rho(1.0).share(share)


@given(st.floats(0.01, 30.0), st.sampled_from([1e-12, 1e-9, 1e-5, 0.01]), st.integers(1, 20))
def test_equal_parts_of_an_epsilon_with_a_delta_keep_its_promise_as_rho(epsilon, delta, parts):
    part = LAMP(epsilon=epsilon, delta=delta).with_share(1 / parts).budget()
    assert Rho(parts * rho(part)).to_approx(delta).epsilon <= epsilon * (1 + 1e-9)


@given(AMOUNTS, AMOUNTS)
def test_sums_are_rounded_up_and_differences_down(a, b):
    assert Fraction((Rho(a) + Rho(b)).rho) >= Fraction(a) + Fraction(b)
    assert Fraction((Rho(a + b) - Rho(a)).rho) <= Fraction(a + b) - Fraction(a)


def test_arithmetic_by_hand():
    assert Rho(1.0) / 4 == Rho(0.25) == 0.25 * Rho(1.0)
    assert Epsilon(1.5) / Epsilon(0.5) == 3.0
    assert ApproxDP(1.0, 1e-6) + ApproxDP(0.5, 1e-6) == ApproxDP(1.5, 2e-6)
    assert Rho(1.0) - Rho(0.1) - Rho(0.9) == Rho(0.0)
    assert Rho(0.5) < Rho(1.0) >= Rho(1.0)
    assert sorted([Epsilon(2.0), Epsilon(1.0)]) == [Epsilon(1.0), Epsilon(2.0)]
    assert not ApproxDP(1.0, 1e-6) <= ApproxDP(2.0, 1e-9)
    assert not Rho.zero()
    assert str(ApproxDP(1.0, 1e-9)) == "ApproxDP(1, 1e-09)"


@pytest.mark.parametrize("operation", [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a / b, lambda a, b: a <= b])
def test_types_do_not_mix(operation):
    with pytest.raises(BudgetTypeError, match=r"Epsilon\(1\), but must be a budget of type Rho.*to_rho"):
        operation(Rho(1.0), Epsilon(1.0))


@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf, "1", True, None])
def test_amounts_that_cannot_be(amount):
    with pytest.raises(ArgumentError, match="rho="):
        Rho(amount)


def test_other_arguments_that_cannot_be():
    with pytest.raises(ArgumentError, match="delta=2"):
        ApproxDP(1.0, 2.0)
    with pytest.raises(ArgumentError, match="negative"):
        Rho(1.0) - Rho(2.0)
    for weights in (0, [], [-1.0, 2.0], [0.0], [math.nan]):
        with pytest.raises(ArgumentError, match="weights="):
            Rho(1.0).split(weights)
    for delta in (0.0, 1.0, -1.0):
        with pytest.raises(ArgumentError, match="delta="):
            Rho(1.0).to_approx(delta)
    with pytest.raises(ArgumentError, match="epsilon="):
        Rho.of(0.0, 1e-9)
    with pytest.raises(ArgumentError, match="divisor"):
        Rho(1.0) / 0


def implied(rho, delta, alphas):
    """epsilon of (epsilon, delta)-DP from the Renyi divergence rho alpha at each order (CKS 2020, Proposition 12)."""
    return rho * alphas + np.log1p(-1 / alphas) + (math.log(1 / delta) - np.log(alphas)) / (alphas - 1)


@given(st.floats(1e-6, 1e3), DELTAS)
def test_zcdp_implies_the_least_epsilon_over_orders(rho, delta):
    epsilon = Rho(rho).to_approx(delta).epsilon
    grid = max(0.0, implied(rho, delta, 1 + np.geomspace(1e-4, 1e8, 20_000)).min())
    assert epsilon <= grid * (1 + 1e-9) + 1e-12
    assert epsilon >= grid * (1 - 1e-5) - 1e-9
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-12


@pytest.mark.parametrize(("sigma", "delta"), [(0.7, 1e-6), (1.0, 1e-9), (5.0, 1e-5), (30.0, 1e-3)])
def test_the_epsilon_holds_for_the_gaussian_and_is_not_far_from_its_own(sigma, delta):
    from scipy.special import ndtr

    def true_delta(epsilon):
        return ndtr(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * ndtr(-0.5 / sigma - epsilon * sigma)

    epsilon = Rho(0.5 / sigma**2).to_approx(delta).epsilon
    assert true_delta(epsilon) <= delta
    assert true_delta(0.7 * epsilon) > delta


@given(st.floats(1e-3, 50.0), DELTAS)
def test_rho_of_is_the_largest_that_fits(epsilon, delta):
    rho = Rho.of(epsilon, delta)
    assert rho.to_approx(delta).epsilon <= epsilon
    assert (rho * (1 + 1e-6)).to_approx(delta).epsilon > epsilon


@given(st.floats(1e-4, 20.0))
def test_pure_dp_implies_the_rho_of_randomized_response(epsilon):
    rho = Epsilon(epsilon).to_rho().rho
    orders = 1 + np.geomspace(1e-5, 1e3, 2000)
    kept, flipped = -np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)
    divergence = np.logaddexp(orders * kept + (1 - orders) * flipped, orders * flipped + (1 - orders) * kept) / (
        orders - 1
    )
    assert (divergence / orders).max() <= rho * (1 + 1e-6) + 1e-10
    assert rho <= epsilon**2 / 2 * (1 + 1e-9)
    assert Epsilon(epsilon).to_approx() == ApproxDP(epsilon, 0.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-9), (1.0, 1e-9), (1.0, 1e-5), (8.0, 1e-12), (1e-3, 0.1)])
def test_a_gaussian_budget_is_the_exact_curve(epsilon, delta):
    from scipy.integrate import quad

    budget = GDP.of(epsilon, delta)
    assert budget.to_approx(delta).epsilon == pytest.approx(epsilon, rel=1e-6)
    assert budget.to_approx(delta).epsilon <= epsilon * (1 + 1e-9)
    mu = budget.mu

    def excess(loss):  # delta is the mean of (1 - exp(epsilon - loss))+, of a privacy loss normal around mu^2 / 2
        return (
            -math.expm1(epsilon - loss)
            * math.exp(-((loss - mu**2 / 2) ** 2) / (2 * mu**2))
            / mu
            / math.sqrt(2 * math.pi)
        )

    found = quad(excess, epsilon, epsilon + 40 * mu, epsabs=0, epsrel=1e-9, limit=400)[0]
    assert found == pytest.approx(delta, rel=1e-5)
    assert budget.to_rho().rho >= Rho.of(epsilon, delta).rho
    assert GDP(0.25) + GDP(0.25) == GDP(0.5)
    assert GDP(0.0).to_approx(1e-9).epsilon == 0.0


def test_a_gaussian_budget_takes_four_to_seven_percent_less_noise():
    for epsilon in (0.01, 0.1, 1.0):
        assert 0.93 < math.sqrt(Rho.of(epsilon, 1e-9).rho * 2 / GDP.of(epsilon, 1e-9).mu_squared) < 0.96
