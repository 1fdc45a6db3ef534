"""Selection: the exact distributions of the exponential mechanism and of permute-and-flip, and their guarantees."""

import itertools
import math

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, ScoreError, ShapeError
from pgmest.privacy import ApproxDP, Epsilon, Rho
from pgmest.privacy.choices import Choice
from pgmest.privacy.noise import OpenDP, Simulation
from pgmest.privacy.selection import STEPS, noise_scale, selection_epsilon

BACKENDS = pytest.mark.parametrize("backend", [Simulation(0), OpenDP()], ids=["simulation", "opendp"])
SCORES = np.array([0.0, 1.0, 3.0])
DATA = pg.Dataset.from_codes([[0]], {"a": 2})  # which the scores do not depend on


def access(scores, candidates, sensitivity, spend):
    return Choice("a choice", spend, lambda data: scores, range(candidates), sensitivity)


def choose(scores, candidates, sensitivity, spend, backend, request):
    return access(scores, candidates, sensitivity, spend).answer(DATA, backend, request)


def exponential_mechanism(scores, epsilon):
    weights = np.exp(epsilon * scores / 2)
    return weights / weights.sum()


def permute_and_flip(scores, epsilon):
    """Averaged over all orders: the first whose coin of exp(epsilon (score - best) / 2) shows heads."""
    coins = np.exp(epsilon * (scores - scores.max()) / 2)
    chosen = np.zeros(len(scores))
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for candidate in order:
            chosen[candidate] += reached * coins[candidate] / len(orders)
            reached *= 1 - coins[candidate]
    return chosen


@BACKENDS
@pytest.mark.parametrize(
    ("spend", "expected"),
    [
        (Rho(0.125), exponential_mechanism(SCORES, 1.0)),
        (Epsilon(1.0), permute_and_flip(SCORES, 1.0)),
        (ApproxDP(1.0, 0.0), permute_and_flip(SCORES, 1.0)),
    ],
    ids=str,
)
def test_choices_follow_their_distribution(backend, spend, expected):
    trials = 1500  # the two laws differ by 0.1
    picks = [choose(SCORES * 7, 3, 7.0, spend, backend, request) for request in range(trials)]
    seen = np.bincount(picks, minlength=3) / trials
    assert np.abs(seen - expected).max() < 5 * math.sqrt(0.25 / trials)
    assert seen.sum() == 1.0
    assert np.exp(access(SCORES * 7, 3, 7.0, spend).log_probabilities(DATA)) == pytest.approx(expected, abs=1e-5)


def test_monotone_scores_need_half_the_noise():
    assert noise_scale(Epsilon(1.0), True) == pytest.approx(STEPS, rel=1e-5)
    assert noise_scale(Epsilon(1.0), False) == pytest.approx(2 * STEPS, rel=1e-5)
    assert selection_epsilon(Rho(2.0)) == pytest.approx(4.0)
    with pytest.raises(ArgumentError, match="more epsilon"):
        noise_scale(ApproxDP(0.0, 1e-9), False)


@pytest.mark.parametrize("spend", [Rho(0.3), Epsilon(0.7)], ids=str)
def test_opendp_agrees_that_the_noise_is_enough(spend):
    dp = pytest.importorskip("opendp.prelude")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    measure = dp.max_divergence() if isinstance(spend, Epsilon) else dp.zero_concentrated_divergence()
    cost = dp.m.make_noisy_max(*space, measure, scale=noise_scale(spend, False)).map(STEPS + 2)
    amount = spend.epsilon if isinstance(spend, Epsilon) else spend.rho
    assert amount * (1 - 1e-10) <= cost <= amount


@BACKENDS
def test_huge_scores_raise_nothing_and_those_that_are_no_numbers_are_refused(backend):
    with pytest.raises(ScoreError, match="one of 3 scores is not a number"):
        choose(np.array([np.nan, 0.0, 1.0]), 3, 1.0, Epsilon(50.0), backend, 0)
    assert choose(np.array([-1e300, -np.inf, 1.0]), 3, 1.0, Epsilon(50.0), backend, 0) == 2
    assert choose(np.array([1e300, 0.0]), 2, 1e-9, Rho(50.0), backend, 0) == 0
    assert choose(np.array([0.0, np.inf]), 2, 1.0, Rho(50.0), backend, 0) == 1
    with pytest.raises(ShapeError, match=r"scores: expected shape \(3,\), got \(2,\)"):
        choose(np.zeros(2), 3, 1.0, Rho(1.0), backend, 0)
