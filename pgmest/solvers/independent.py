"""The model of independent attributes, estimated from noisy whole marginals: the start of the mirror flow."""

from __future__ import annotations

import numpy as np

from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.problem import Problem
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.simplex import onto_simplex

SHARE_FLOOR = 0.1
"""The smallest estimated share of a value, in standard deviations of the estimate; positive, so that no value becomes
impossible."""


def one_way_shares(loss: WeightedSquares) -> dict[str, np.ndarray]:
    """Return the shares of the values of each measured attribute, summing to one.

    Each clique that holds the attribute gives one estimate, its answers summed over the other attributes. The estimates
    are averaged with their precisions as weights and projected onto the simplex.

    Args:
        loss: a loss of marginals that sum to one, with a positive precision in each cell.
    """
    targets = CliqueVector.of(loss.layout, loss.target.copy())
    variances = CliqueVector.of(loss.layout, 1.0 / loss.curvature_floor())
    shares = {}
    for name in loss.domain:
        weighted, precision = np.zeros(loss.domain[name]), np.zeros(loss.domain[name])
        for clique in loss.cliques:
            if name in clique:
                weight = 1.0 / variances[clique].project((name,)).values
                weighted += weight * targets[clique].project((name,)).values
                precision += weight
        if precision.all():
            floored = np.maximum(onto_simplex(weighted / precision), SHARE_FLOOR / np.sqrt(precision))
            shares[name] = floored / floored.sum()
    return shares


def independent_potentials(problem: Problem, shares: dict[str, np.ndarray]) -> np.ndarray:
    """Return flat potentials of independent attributes with these shares, -inf at the problem's structural zeros.

    An attribute that is not in `shares` is uniform.
    """
    logs = {(name,): np.log(values) for name, values in shares.items()}
    return problem.with_structural_zeros(
        CliqueVector(problem.layout.domain, logs).expand(problem.layout.cliques).flat.copy()
    )
