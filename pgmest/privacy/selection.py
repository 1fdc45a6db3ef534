"""Selection: the candidate with a high score, chosen privately; and how its noise is calibrated.

Scores are rounded to a grid of 2^20 steps per sensitivity before noise is added to them, so that what OpenDP sees are
integers, and the noise is made for a sensitivity two steps larger: one for the rounding, one for the float errors made
when the scores were computed.
"""

from __future__ import annotations

import math

import numpy as np

from pgmest._base.errors import ArgumentError, ShapeError
from pgmest.privacy.budgets import ApproxDP, Budget, Epsilon, Rho
from pgmest.privacy.gaussian import SAFETY
from pgmest.privacy.noise import LARGEST, MOST_STEPS, Backend

STEPS = 2**20
"""Steps of the score grid per sensitivity."""


def selection_epsilon(spend: Budget) -> float:
    """The epsilon of the exponential mechanism that a budget buys.

    Epsilon: itself. Rho: sqrt(8 rho), because the exponential mechanism is epsilon^2 / 8-zCDP (Cesar, Rogers 2021;
    bounded range). ApproxDP: its epsilon; delta is of no use here.
    """
    if isinstance(spend, Rho):
        return math.sqrt(8 * spend.rho) * (1 - SAFETY)
    assert isinstance(spend, Epsilon | ApproxDP)
    return spend.epsilon


def noise_scale(spend: Budget, monotone: bool) -> float:
    """The scale of the noise on the scores, in steps: 2 Delta / epsilon, half of that for monotone scores.

    With Gumbel noise of that scale the largest noisy score is a draw of the exponential mechanism, P(c) proportional to
    exp(epsilon score_c / (2 Delta)); with exponential noise it is permute-and-flip (McKenna, Sheldon 2020), which is
    never worse and as private in the pure sense.
    """
    epsilon = selection_epsilon(spend)
    if not epsilon > STEPS / MOST_STEPS:
        raise ArgumentError.of("spend", spend, "a budget with more epsilon or rho")
    return (1 if monotone else 2) * (STEPS + 2) / epsilon * (1 + SAFETY)


def choose(
    scores: np.ndarray,
    candidates: int,
    sensitivity: float,
    spend: Budget,
    monotone: bool,
    backend: Backend,
    request: int,
) -> int:
    """The position of the chosen candidate.

    Scores that are not numbers count as the lowest; those beyond 2^32 sensitivities are clipped. Neither raises an
    error, which would tell about the records.

    Raises:
        ShapeError: not one score per candidate.
    """
    numbers = np.asarray(scores, dtype=np.float64)
    if numbers.shape != (candidates,):
        raise ShapeError.of("scores", (candidates,), numbers.shape, "Give one score for each candidate.")
    with np.errstate(over="ignore"):
        steps = np.rint(np.nan_to_num(numbers * (STEPS / sensitivity), nan=-LARGEST))
    integers = np.clip(steps, -LARGEST, LARGEST).astype(np.int64)
    return backend.noisy_max(integers, noise_scale(spend, monotone), not isinstance(spend, Rho), request)
