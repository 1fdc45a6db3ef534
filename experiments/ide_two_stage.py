"""The two-stage algorithm of IDE section 3.2 on dense matrices, a reference for small tables.

A linear program finds the nearest answers. Then the convex dual gives, among the distributions with these answers, the
one of least relative entropy to the prior. Nearest answers need not be unique. `two_stage` uses those that the linear
program returns, as in the paper; `nearest_of_least_divergence` considers all of them, which is IDE's objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.priors.ide.answers import PartialAnswer

ON_A_BOUND = 1e-7
"""A multiplier this near to its bound counts as at the bound, and a reduced cost this near to 0 counts as 0."""


@dataclass(frozen=True)
class Reference:
    """A distribution over the prior's records, its L1 distance from the answers, and its KL from the prior (nats)."""

    distribution: np.ndarray
    distance: float
    divergence: float


@dataclass(frozen=True)
class NearestAnswers:
    """An optimum of the linear program.

    Attributes:
        answers: y* = W p of the optimal p, shape (rows,).
        distance: the least weighted L1 distance.
        multipliers: the multipliers of W p = y, in [-weight, weight], shape (rows,).
        costs: the reduced cost of each record, shape (records,); if positive, no optimum gives the record mass.
    """

    answers: np.ndarray
    distance: float
    multipliers: np.ndarray
    costs: np.ndarray


def dense_matrix(answer: PartialAnswer) -> np.ndarray:
    """Return a partial workload as a dense 0/1 matrix, shape (k, records)."""
    return (answer.cells == np.arange(len(answer.fractions))[:, None]).astype(np.float64)


def stacked(answers: Sequence[PartialAnswer]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the workload W as one dense matrix, the noisy fractions y, and the weight of each answer's distance."""
    matrix = np.concatenate([dense_matrix(answer) for answer in answers])
    fractions = np.concatenate([answer.fractions for answer in answers])
    return matrix, fractions, np.concatenate([answer.scales.min() / answer.scales for answer in answers])


def nearest_answers(matrix: np.ndarray, fractions: np.ndarray, weights: np.ndarray) -> NearestAnswers:
    """Minimize sum_j weights_j |(W p)_j - fractions_j| over distributions p, by HiGHS."""
    from scipy.optimize import linprog

    rows, records = matrix.shape
    result = linprog(
        np.concatenate([np.zeros(records), weights, weights]),
        A_eq=np.block(
            [[matrix, np.eye(rows), -np.eye(rows)], [np.ones((1, records)), np.zeros((1, 2 * rows))]],
        ),
        b_eq=np.append(fractions, 1.0),
        method="highs",
    )
    p = np.maximum(result.x[:records], 0.0)
    marginals = result.eqlin.marginals[:-1]
    return NearestAnswers(matrix @ p, float(result.fun), marginals, result.lower.marginals[:records])


def two_stage(prior: np.ndarray, answers: Sequence[PartialAnswer]) -> Reference:
    """Return the result of IDE section 3.2: y* by linear programming, then min KL(p || prior) subject to W p = y*."""
    matrix, fractions, weights = stacked(answers)
    nearest = nearest_answers(matrix, fractions, weights)
    free = np.ones(len(prior), dtype=bool)
    p = _least_divergence(prior, matrix, nearest.answers, np.zeros(len(matrix)), free)
    return _reference(p, prior, matrix, fractions, weights)


def nearest_of_least_divergence(prior: np.ndarray, answers: Sequence[PartialAnswer]) -> Reference:
    """Minimize KL(p || prior) over all distributions at the least L1 distance from the answers.

    Complementary slackness characterizes them: if a multiplier is inside its bounds, p gives that answer exactly; if it
    is at a bound, p's answer lies on one side of the noisy answer.
    """
    matrix, fractions, weights = stacked(answers)
    nearest = nearest_answers(matrix, fractions, weights)
    multipliers = nearest.multipliers
    side = np.where(np.abs(multipliers) >= weights - ON_A_BOUND, np.sign(multipliers), 0.0)
    p = _least_divergence(prior, matrix, fractions, side, nearest.costs <= ON_A_BOUND)
    return _reference(p, prior, matrix, fractions, weights)


def _reference(
    p: np.ndarray, prior: np.ndarray, matrix: np.ndarray, fractions: np.ndarray, weights: np.ndarray
) -> Reference:
    held = p > 0
    divergence = max(0.0, float(p[held] @ np.log(p[held] / prior[held])))
    return Reference(p, float(weights @ np.abs(matrix @ p - fractions)), divergence)


def _least_divergence(
    prior: np.ndarray, matrix: np.ndarray, target: np.ndarray, side: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """Minimize KL(p || prior) subject to W p = target (side 0), W p <= target (side 1) or W p >= target (side -1).

    The dual attains its maximum if each remaining record can have mass, so the other records are removed first.
    """
    from scipy.optimize import minimize

    free = _possible(matrix, target, side, free)
    base, system = prior[free], matrix[:, free]

    def dual(potentials: np.ndarray) -> tuple[float, np.ndarray]:
        scores = potentials @ system
        shift = scores.max()
        weights = base * np.exp(scores - shift)
        total = weights.sum()
        value = np.log(total) + shift - potentials @ target
        return float(value), system @ (weights / total) - target

    ranges = [(0.0 if sign < 0 else None, 0.0 if sign > 0 else None) for sign in side]
    found = minimize(
        dual, np.zeros(len(target)), jac=True, method="L-BFGS-B", bounds=ranges,
        options={"maxiter": 20000, "maxfun": 50000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 30},
    )  # fmt: skip
    scores = found.x @ system
    p = np.zeros(len(prior))
    p[free] = base * np.exp(scores - scores.max())
    return p / p.sum()


def _possible(matrix: np.ndarray, target: np.ndarray, side: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Return which records have mass in some distribution with these answers, from one linear program.

    The program finds a multiple s >= 1 of such a distribution in which the most records reach 1.
    """
    from scipy.optimize import linprog

    rows, records = matrix.shape
    slack = np.eye(rows)[:, side != 0] * side[side != 0]
    slacks = slack.shape[1]
    # unknowns: t in [0, 1] and r >= 0 with s p = t + r, the slacks, s
    result = linprog(
        np.concatenate([-np.ones(records), np.zeros(records + slacks + 1)]),
        A_eq=np.block(
            [
                [matrix, matrix, slack, -target[:, None]],
                [np.ones((1, 2 * records)), np.zeros((1, slacks)), -np.ones((1, 1))],
            ]
        ),
        b_eq=np.zeros(rows + 1),
        bounds=[
            *((0.0, 1.0 if possible else 0.0) for possible in free),
            *((0.0, None if possible else 0.0) for possible in free),
            *((0.0, None) for _ in range(slacks)),
            (1.0, None),
        ],
        method="highs",
    )
    return free & (result.x[:records] > 0.5)
