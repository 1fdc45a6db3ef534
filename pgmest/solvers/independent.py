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

FIT_ROUNDS, FIT_DISTANCE, STALLED = 20, 1e-3, 0.9
"""The largest number of rounds over the attributes in `fit_one_way`. The rounds also end at a mean l1 distance of
FIT_DISTANCE to the shares, or if a round does not lower the distance to STALLED times its value: noisy shares can
contradict the structural zeros."""


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


def fit_one_way(problem: Problem, theta: np.ndarray, shares: dict[str, np.ndarray]) -> np.ndarray:
    """Return potentials changed by iterative proportional fitting until the attributes have these shares.

    Structural zeros change the one-way marginals of independent attributes, by orders of magnitude if the zeros tie
    many attributes to one, such as the members of a household to its size.

    Args:
        problem: the problem, for its cliques and its oracle.
        theta: flat potentials that leave a possible record, with -inf at the structural zeros.
        shares: the shares of the values of each attribute; values that the structural zeros rule out are left out.
    """
    views = {name: _view(problem, name) for name in shares}
    theta, before = theta.copy(), np.inf
    p, _ = problem.marginals(theta)
    for _ in range(FIT_ROUNDS):
        distance = 0.0
        for name, (cells, shape, others) in views.items():
            found = p[cells].reshape(shape).sum(axis=others, keepdims=True)
            wanted = np.where(found > 0, shares[name].reshape(found.shape), 0.0)
            wanted /= wanted.sum()
            off = float(np.abs(found - wanted).sum())
            distance += off
            if off > FIT_DISTANCE:
                ratio = np.divide(wanted, found, out=np.ones_like(found), where=found > 0)
                theta[cells] += np.broadcast_to(np.log(ratio), shape).reshape(-1)
                p, _ = problem.marginals(theta, out=p)
        if distance <= FIT_DISTANCE * len(shares) or distance > STALLED * before:
            break
        before = distance
    return theta


def _view(problem: Problem, name: str) -> tuple[slice, tuple[int, ...], tuple[int, ...]]:
    """Return the cells of the smallest table that has the attribute, the table's shape, and its other axes."""
    layout = problem.layout
    place = min((place for place, clique in enumerate(layout.cliques) if name in clique), key=layout.sizes.__getitem__)
    start = int(layout.offsets[place])
    others = tuple(axis for axis, other in enumerate(layout.cliques[place]) if other != name)
    return slice(start, start + layout.sizes[place]), layout.domains[place].shape, others
