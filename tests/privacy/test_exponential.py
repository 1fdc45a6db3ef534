"""Exact draws: the limits of each probability hold, coins are decided exactly, and the distribution is as stated."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from pgmest.privacy import exponential
from pgmest.privacy.exponential import WEIGHT_BITS, draw, log_probabilities


def exp_limits(power, terms=120):
    """Lower and upper limits of exp(-power) in rational numbers, by its series for power <= 1 and squaring."""
    halvings = max(0, math.ceil(math.log2(power)) if power > 1 else 0)
    small, term, total = Fraction(power) / 2**halvings, Fraction(1), Fraction(1)
    for k in range(1, terms):
        term *= -small / k
        total += term
    low, high = total - abs(term), total + abs(term)
    for _ in range(halvings):
        low, high = low * low, high * high
    return low, high


@given(st.integers(0, 2**40), st.integers(-60, 0), st.sampled_from([64, 128]), st.integers(1, 2**WEIGHT_BITS + 2))
def test_the_limits_hold_and_are_near(gap, unit_power, bits, weight):
    gap = min(gap, 30 * 2**-unit_power)
    low, high = exponential._limits(weight, gap, unit_power, bits)
    least, most = exp_limits(Fraction(gap) * Fraction(2) ** unit_power)
    assert low <= least * 2 ** (bits + WEIGHT_BITS) / weight
    assert high >= most * 2 ** (bits + WEIGHT_BITS) / weight
    assert 0 <= high - low <= 2


def test_a_coin_at_the_limit_is_decided_by_more_bits():
    low, high = exponential._limits(2**WEIGHT_BITS, 3, 0, 64)
    further = iter([0, 2**64 - 1])
    coins = iter([low, next(further)])
    assert exponential._accepted(2**WEIGHT_BITS, 3, 0, lambda n: next(coins))
    coins = iter([high - 1, 2**64 - 1])
    assert not exponential._accepted(2**WEIGHT_BITS, 3, 0, lambda n: next(coins))


@pytest.mark.parametrize("unit_power", [0, -3, -40])
def test_draws_follow_their_distribution(unit_power):
    exponents = (np.array([0, -1, -2, 3, 3, -30]) * 2.0 ** -min(unit_power, 0) / 2).astype(np.int64)
    expected = np.exp(log_probabilities(exponents, unit_power))
    exact = np.exp(exponents * 2.0**unit_power - 3)
    assert expected == pytest.approx(exact / exact.sum())
    seen = np.bincount(draw(exponents, unit_power, 20_000, random.Random(1).randrange), minlength=6)
    assert seen[5] == 0
    assert chisquare(seen[:5], 20_000 * expected[:5] / expected[:5].sum()).pvalue > 1e-4


def test_far_exponents_and_one_candidate():
    assert draw(np.array([2**62, -(2**62), 0]), 0, 5) == [0] * 5
    assert draw(np.array([7]), -60, 3) == [0] * 3
    for exponents, power in ((np.zeros(3, int), 1), (np.zeros(3, int), -61)):
        with pytest.raises(ValueError, match="candidates, units of"):
            draw(exponents, power, 1)


def test_a_weight_is_never_less_than_its_exponential():
    gaps = np.arange(0, 40 * 2**10, 7)
    upper = np.maximum(np.ceil(np.exp(-gaps / 2**10) * (1 + exponential.SLACK) * 2.0**WEIGHT_BITS), 1)
    for gap, weight in zip(gaps[::97].tolist(), upper[::97].tolist(), strict=True):
        assert exp_limits(Fraction(gap, 2**10))[1] * 2**WEIGHT_BITS <= int(weight)


@given(st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=5), st.floats(1.0, exponential.LARGEST_SCALE))
def test_scores_become_exponents_that_are_never_further_apart(scores, scale):
    whole, unit_power = exponential.exponents(np.array(scores), scale)
    for score, exponent in zip(scores, whole.tolist(), strict=True):
        gap, wanted = -exponent * Fraction(2) ** unit_power, Fraction(max(scores) - score) / Fraction(scale)
        assert gap <= wanted
        assert gap >= min(wanted * (1 - Fraction(1, 2**19)), 128)
    assert len(draw(whole, unit_power, 1)) == 1


@pytest.mark.parametrize("scale", [0.5, 2.0**34, math.inf, math.nan])
def test_a_scale_without_exponents_is_refused(scale):
    with pytest.raises(ValueError, match="scale"):
        exponential.exponents(np.zeros(2, dtype=np.int64), scale)
