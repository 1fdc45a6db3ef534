"""Selection: the private choice of a candidate with a high score, and the calibration of its noise.

Scores are rounded to a grid of 2^20 steps per sensitivity before noise is added, so that OpenDP gets integers. The
noise is calibrated for a sensitivity that is two steps larger: one step for the rounding, and one for the float errors
in the computation of the scores.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pgmest.errors import ArgumentError, ScoreError, ShapeError
from pgmest.privacy.bounded_range import choice_epsilon
from pgmest.privacy.budgets import GDP, ApproxDP, Budget, Epsilon, Rho
from pgmest.privacy.gaussian import SAFETY
from pgmest.privacy.noise import LARGEST, MOST_STEPS

STEPS = 2**20
"""The number of steps of the score grid per sensitivity."""


def selection_epsilon(spend: Budget) -> float:
    """Return the epsilon of the exponential mechanism that a budget pays for.

    This is epsilon for Epsilon and ApproxDP, whose delta is not used; sqrt(8 rho) for Rho, since the exponential
    mechanism is epsilon^2 / 8-zCDP (Cesar, Rogers 2021; bounded range); and the bounded range that is mu-GDP for GDP
    (`bounded_range`).
    """
    if isinstance(spend, GDP):
        return choice_epsilon(math.sqrt(spend.mu_squared) * (1 - SAFETY))
    if isinstance(spend, Rho):
        return math.sqrt(8 * spend.rho) * (1 - SAFETY)
    assert isinstance(spend, Epsilon | ApproxDP)
    return spend.epsilon


def noise_scale(spend: Budget, monotone: bool) -> float:
    """Return the scale of the noise on the scores, in steps: 2 Delta / epsilon, half of that for monotone scores.

    With Gumbel noise of that scale, the candidate with the largest noisy score is a draw of the exponential mechanism:
    P(c) is proportional to exp(epsilon score_c / (2 Delta)). With exponential noise it is a draw of permute-and-flip
    (McKenna, Sheldon 2020), which is epsilon-DP, too, and never less accurate.
    """
    epsilon = selection_epsilon(spend)
    if not epsilon > STEPS / MOST_STEPS:
        raise ArgumentError.of("spend", spend, "a budget with more epsilon or rho")
    return (1 if monotone else 2) * (STEPS + 2) / epsilon * (1 + SAFETY)


def score_steps(scores: object, candidates: int, sensitivity: float) -> np.ndarray:
    """Return scores as integer numbers of steps.

    Scores beyond 2^32 sensitivities, including infinite ones, are clipped, which moves no two of them further apart.
    NaN has no sensitivity and is refused.

    Raises:
        ShapeError: if there is not one score per candidate.
        ScoreError: if a score is NaN.
    """
    numbers = checked_numbers(scores, candidates)
    with np.errstate(over="ignore"):
        steps = np.rint(numbers * (STEPS / sensitivity))
    return np.clip(steps, -LARGEST, LARGEST).astype(np.int64)


def checked_numbers(scores: object, candidates: int) -> np.ndarray:
    """Return scores as float64.

    Raises:
        ShapeError: if there is not one score per candidate.
        ScoreError: if a score is NaN.
    """
    numbers = np.asarray(scores, dtype=np.float64)
    if numbers.shape != (candidates,):
        raise ShapeError.of("scores", (candidates,), numbers.shape, "Give one score for each candidate.")
    if np.isnan(numbers).any():
        raise ScoreError.of(candidates)
    return numbers


def checked_integers(exponents: object, candidates: int) -> np.ndarray:
    """Return exponents as int64.

    Raises:
        ShapeError: if there is not one exponent per candidate, or they are no integers.
    """
    numbers = np.asarray(exponents)
    if numbers.shape != (candidates,) or numbers.dtype.kind != "i":
        raise ShapeError.of("exponents", (candidates,), numbers.shape, "Give an integer for each candidate.")
    return numbers.astype(np.int64)


def log_probabilities(steps: np.ndarray, scale: float, pure: bool) -> np.ndarray:
    """Return the log probability of each candidate, in floats, for audits.

    For Gumbel noise this is steps / scale less the log of the sum of exponentials. For exponential noise, let
    p_i = exp((steps_i - max) / scale). The probability is p_i times the integral over [0, 1] of the product over j != i
    of 1 - p_j t, a polynomial, for which Gauss-Legendre quadrature is exact (McKenna, Sheldon 2020).
    """
    from scipy.special import logsumexp

    logits = (steps - steps.max()) / scale
    if not pure:
        return logits - logsumexp(logits)
    nodes, weights = _quadrature(len(steps) // 2 + 1)
    keeps = np.log1p(-np.exp(logits)[:, None] * (nodes + 1) / 2)
    others = keeps.sum(axis=0) - keeps
    return logits + logsumexp(others, b=weights / 2, axis=1)


@lru_cache(maxsize=64)
def _quadrature(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes and weights of Gauss-Legendre quadrature, which take an eigendecomposition."""
    found = np.polynomial.legendre.leggauss(nodes)
    for array in found:
        array.flags.writeable = False
    return found
