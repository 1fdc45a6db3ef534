"""The two-stage reference of IDE section 3.2, on dense matrices: for small tables, to compare other solvers with.

First the nearest answers, a linear program; then, among the distributions that give them, the one of least relative
entropy to the prior, by its convex dual. Nearest answers need not be unique. `two_stage` takes those that the
program returns, as the paper does; `nearest_of_least_divergence` looks among all of them, which is what IDE asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.priors.ide.answers import PartialAnswer

ON_A_BOUND = 1e-7
"""How near a multiplier is to its bound, or a reduced cost to zero, to count as there."""


@dataclass(frozen=True)
class Reference:
    """A distribution over the prior's records, its L1 distance from the answers and its KL from the prior (nats)."""

    distribution: np.ndarray
    distance: float
    divergence: float


@dataclass(frozen=True)
class NearestAnswers:
    """An optimum of the linear program.

    Attributes:
        answers: y* = W p of the p found, shape (rows,).
        distance: the least weighted L1 distance.
        multipliers: of W p = y, in [-weight, weight], shape (rows,).
        costs: the reduced cost of each record; where positive, no optimum gives the record mass. Shape (records,).
    """

    answers: np.ndarray
    distance: float
    multipliers: np.ndarray
    costs: np.ndarray


def stacked(answers: Sequence[PartialAnswer]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The workload W as one dense matrix, the noisy fractions y, and the weight of each answer's distance."""
    matrix = np.concatenate([answer.matrix() for answer in answers])
    fractions = np.concatenate([answer.fractions for answer in answers])
    return matrix, fractions, np.concatenate([answer.scales.min() / answer.scales for answer in answers])


def nearest_answers(matrix: np.ndarray, fractions: np.ndarray, weights: np.ndarray) -> NearestAnswers:
    """min over distributions p of sum_j weights_j |(W p)_j - fractions_j|, by HiGHS."""
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
    """IDE section 3.2: y* by linear programming, then min KL(p || prior) subject to W p = y*."""
    matrix, fractions, weights = stacked(answers)
    nearest = nearest_answers(matrix, fractions, weights)
    free = np.ones(len(prior), dtype=bool)
    p = _least_divergence(prior, matrix, nearest.answers, np.zeros(len(matrix)), free)
    return _reference(p, prior, matrix, fractions, weights)


def nearest_of_least_divergence(prior: np.ndarray, answers: Sequence[PartialAnswer]) -> Reference:
    """min KL(p || prior) over all distributions at the least L1 distance from the answers.

    These are known by complementary slackness: where a multiplier is inside its bounds, p gives that answer exactly;
    at a bound, p lies on one side of it.
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
    """min KL(p || prior) subject to W p = target, <= target where side is 1 and >= target where it is -1.

    The dual is attained when each remaining record can have mass, so the others are taken out first.
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
    """The records that some distribution with these answers gives mass: one linear program for all of them.

    A multiple s >= 1 of such a distribution is sought of which as many records as possible reach 1.
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
