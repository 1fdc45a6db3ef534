r"""The convergent form of IDE's updates: noisy answers as a penalty, so that none is forgotten when the next is met.

Minimize over distributions p on the prior's records
$$KL(p \| q) + \sum_j \lambda_j |(W p)_j - y_j|.$$
Its convex dual is over potentials: p is proportional to $q \exp(W^T \theta)$, and $\theta$ minimizes
$\log \sum_x q(x) \exp((W^T \theta)(x)) - \theta \cdot y$ subject to $|\theta_j| \le \lambda_j$. A partial workload's
cells are disjoint, so its block of this problem has a closed form, and block coordinate descent converges even where
the answers contradict one another (Tseng 2001): the bounds stop the contradiction from growing, and potentials, unlike
the weights of Algorithm 1, do not forget. As $\lambda$ grows the minimum turns into IDE's, nearest answers first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pgmest.priors.ide.answers import PartialAnswer
from pgmest.priors.ide.projection import balance
from pgmest.priors.ide.sweeps import Order, sweep_workloads

LARGEST_BOUND = 100.0
"""Potentials beyond this change nothing that float64 shows in a sum: a stronger penalty is the same as this one."""

SMALLEST_FACTOR = 1e-300


def penalized_update(
    prior: np.ndarray,
    answers: Sequence[PartialAnswer],
    bounds: Sequence[np.ndarray],
    max_sweeps: int,
    tolerance: float,
    generator: np.random.Generator,
    callback: Callable[[int, float], None] | None = None,
    order: Order = "sweeps",
) -> tuple[np.ndarray, list[float], bool]:
    """The minimum of KL(p || prior) + sum_j bounds_j |(W p)_j - fractions_j|, by block coordinate descent.

    Args:
        prior: fractions, shape (records,).
        answers: the partial workloads.
        bounds: for each of these the weight of each answer, and so the most that its potential can be, shape (k,).
        max_sweeps: passes over all blocks, in random order, at most.
        tolerance: stop when a pass moves no block's answers by more than this, in L1.

    Returns:
        as `sweep_workloads`.
    """
    bounds = [np.minimum(bound, LARGEST_BOUND) for bound in bounds]
    potentials = [np.zeros(len(answer.fractions)) for answer in answers]

    def target(position: int, masses: np.ndarray) -> np.ndarray:
        return block_minimum(answers[position].fractions, masses, potentials[position], bounds[position])

    return sweep_workloads(prior, answers, target, max_sweeps, tolerance, generator, callback, order)


def block_minimum(fractions: np.ndarray, masses: np.ndarray, potentials: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The masses that minimize the objective over one block's potentials; these are updated in place.

    Without its potential a cell would weigh a = mass * exp(-potential), and with potentials in [-bound, bound] it can
    hold from t * a * exp(-bound) to t * a * exp(bound), where 1 / t normalizes. It takes its answer clipped to that.

    Args:
        fractions: the noisy answers, shape (k,).
        masses: what the cells hold now and, last, what lies in none; shape (k + 1,).
        potentials: of the block, shape (k,).
        bounds: of the potentials, shape (k,).

    Returns:
        the new masses, shape (k + 1,).
    """
    held = masses[:-1] > 0
    with np.errstate(over="ignore"):
        low = masses[:-1] * np.exp(-bounds - potentials)
        high = masses[:-1] * np.exp(bounds - potentials)
    wanted = np.where(held, np.maximum(fractions, 0.0), 0.0)
    inside, outside, scale = balance(wanted, low, np.where(held, high, 0.0), float(masses[-1]))
    # A cell's factor is exp(its potential's change) * scale; records in no cell have no potential, only the scale.
    factors = np.divide(inside, scale * masses[:-1], out=np.ones_like(inside), where=held)
    moved = potentials + np.log(np.maximum(factors, SMALLEST_FACTOR))
    potentials[held] = np.clip(moved, -bounds, bounds)[held]
    return np.append(inside, outside)
