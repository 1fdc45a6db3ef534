r"""The convergent form of IDE's updates, which treats noisy answers as a penalty.

The estimate minimizes, over distributions p on the prior's records,
$$KL(p \| q) + \sum_j \lambda_j |(W p)_j - y_j|.$$
Its convex dual is over potentials: p is proportional to $q \exp(W^T \theta)$, and $\theta$ minimizes
$\log \sum_x q(x) \exp((W^T \theta)(x)) - \theta \cdot y$ subject to $|\theta_j| \le \lambda_j$. A partial workload's
cells are disjoint, so its block of this problem has a closed form, and block coordinate descent converges even if the
answers contradict one another (Tseng 2001): the bounds limit the potentials, and the potentials, unlike the weights of
Algorithm 1, keep the effect of earlier answers. As $\lambda$ grows, the minimum approaches IDE's estimate, which is
nearest to the answers first and to the prior second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pgmest.priors.ide.answers import PartialAnswer
from pgmest.priors.ide.projection import balance
from pgmest.priors.ide.sweeps import Order, sweep_workloads

LARGEST_BOUND = 100.0
"""The largest bound of a potential: larger potentials change no sum in float64, because exp(-100) is below 2^-53."""

SMALLEST_FACTOR = 1e-300
"""A cell's factor is at least this in a logarithm, so that the potential of an emptied cell stays finite."""


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
    """Minimize KL(p || prior) + sum_j bounds_j |(W p)_j - fractions_j| by block coordinate descent.

    Args:
        prior: the fractions of the records, shape (records,).
        answers: the partial workloads.
        bounds: for each workload the weight of each answer, which bounds its potential, shape (k,).
        max_sweeps, tolerance, generator, callback, order: as in `sweep_workloads`.

    Returns:
        the result of `sweep_workloads`.
    """
    bounds = [np.minimum(bound, LARGEST_BOUND) for bound in bounds]
    potentials = [np.zeros(len(answer.fractions)) for answer in answers]

    def target(position: int, masses: np.ndarray) -> np.ndarray:
        return block_minimum(answers[position].fractions, masses, potentials[position], bounds[position])

    return sweep_workloads(prior, answers, target, max_sweeps, tolerance, generator, callback, order)


def block_minimum(fractions: np.ndarray, masses: np.ndarray, potentials: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the masses that minimize the objective over one block's potentials, and update the potentials in place.

    Without its potential a cell would have the mass a = mass * exp(-potential). Potentials in [-bound, bound] permit
    masses from t * a * exp(-bound) to t * a * exp(bound), where t normalizes. The minimum is the answer clipped to that
    range.

    Args:
        fractions: the noisy answers, shape (k,).
        masses: the present masses of the cells and, last, of the records in no cell; shape (k + 1,).
        potentials: the potentials of the block, shape (k,).
        bounds: the bounds of the potentials, shape (k,).

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
