"""The model of independent attributes, read off noisy whole marginals: where the mirror flow starts."""

from __future__ import annotations

import numpy as np

from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.problem import Problem
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.simplex import onto_simplex

SHARE_FLOOR = 0.1
"""A share is taken to be at least this many of its standard deviations, so that no value is ruled out."""


def one_way_shares(loss: WeightedSquares) -> dict[str, np.ndarray]:
    """For each measured attribute the shares of its values, summing to one.

    All answers about a value, summed over the other attributes of their clique, are averaged by precision; the averages
    are projected onto the simplex.

    Args:
        loss: of marginals that sum to one, with a positive precision in each cell.
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
    """Flat potentials of independent attributes with these shares, -inf at the problem's structural zeros.

    Attributes without a share are uniform.
    """
    logs = {(name,): np.log(values) for name, values in shares.items()}
    return problem.barred(CliqueVector(problem.layout.domain, logs).expand(problem.layout.cliques).flat.copy())
