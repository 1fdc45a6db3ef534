r"""SharedStrategy: weighted marginals that use the same queries on each attribute (OPT_M and OPT_x together).

For attribute i let A_i be its queries, K_i = A_i^T A_i, and m_i = 1^T K_i^-1 1. A set C of attributes is measured by
the product of the A_i over C, with a precision s_C = 1 / variance. In coordinates in which K_i is the identity, 1 1^T
has one eigenvector, with eigenvalue m_i. So the Gram matrices of all products are diagonal in the same basis: the space
is the sum of parts, one for each set B of attributes (the interactions of all of B), and on part B

.. math:: A^T A = \prod_i m_i \cdot \lambda_B, \qquad \lambda_B = \sum_{C \supseteq B} s_C \prod_{i \in C} 1 / m_i .

A demand on D with Gram matrices G_i decomposes in the same way, so the expected squared error of least squares is

.. math:: \sum_B e_B / \lambda_B, \qquad e_B = \sum_{D \supseteq B} w_D^2 \prod_{i \in B} r_i / m_i
          \prod_{i \in D \setminus B} t_i / m_i,

with t_i = 1^T K_i^-1 G_i K_i^-1 1 / m_i and r_i = tr(K_i^-1 G_i) - t_i. For A_i = I these are the marginals strategies
of HDMM, and a single C is a product strategy. Only subsets of the workload's cliques occur, not all 2^d sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.privacy.budgets import Budget, Epsilon
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.noise import noise_for
from pgmest.queries import Kron
from pgmest.strategies.attribute import AttributeStrategy
from pgmest.strategies.demand import Demand
from pgmest.tables.domain import Clique
from pgmest.workloads import closure

NEGLIGIBLE = 1e-3
"""Cliques whose share of the budget is below this fraction of an equal share are not measured."""


@dataclass(frozen=True, eq=False)
class SharedStrategy:
    """The cliques to measure, their queries, and their shares of the budget.

    Attributes:
        attributes: attribute -> the queries on it.
        demands: the demands that the strategy was optimized for.
        shares: clique -> share of the budget; the shares sum to 1.
    """

    attributes: Mapping[str, AttributeStrategy]
    demands: tuple[Demand, ...]
    shares: Mapping[Clique, float]

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques to measure."""
        return tuple(self.shares)

    def query(self, clique: Clique) -> Kron | None:
        """Return the query on a clique; None for its cells."""
        return product_query(self.attributes, clique)

    @cached_property
    def parts(self) -> tuple[Clique, ...]:
        """The sets B of the sum of errors: all subsets of the demands' cliques."""
        return closure(demand.clique for demand in self.demands)

    @cached_property
    def covers(self) -> np.ndarray:
        """The array (parts, cliques) that is 1 if the part is a subset of the clique, else 0."""
        return subsets(self.parts, self.cliques)

    def eigenvalues(self, precisions: Sequence[float] | np.ndarray) -> np.ndarray:
        """Return lambda_B of each part, given the precision of the answers on each clique."""
        masses = np.array([self.mass(clique) for clique in self.cliques])
        return self.covers @ (np.asarray(precisions) / masses)

    def mass(self, clique: Clique) -> float:
        """Return the product of m_i over a clique."""
        return float(np.prod([self.attributes[name].m for name in clique]))

    @cached_property
    def error_coefficients(self) -> np.ndarray:
        """The coefficient e_B of each part in the expected error."""
        return error_coefficients(self.attributes, self.demands, self.parts)

    def expected_error(self, spend: Budget, neighbors: Neighbors) -> float:
        """Return the expected sum of squared errors of all weighted queries, in counts^2, for a budget."""
        spends = spend.split(self.shares.values())
        noise = [noise_for(part, neighbors, self.query(c)).stddev for c, part in zip(self.cliques, spends, strict=True)]
        return float(np.sum(self.error_coefficients / self.eigenvalues(np.array(noise) ** -2.0)))


def product_query(attributes: Mapping[str, AttributeStrategy], clique: Clique) -> Kron | None:
    """Return the product of the attributes' queries; None if all are identities."""
    if all(attributes[name].matrix is None for name in clique):
        return None
    return Kron({name: attributes[name].query for name in clique})


def subsets(parts: Sequence[Clique], cliques: Sequence[Clique]) -> np.ndarray:
    """Return the array (parts, cliques) that is 1.0 if the part is a subset of the clique, else 0.0."""
    names = {name: place for place, name in enumerate(dict.fromkeys(name for c in [*parts, *cliques] for name in c))}

    def members(sets: Sequence[Clique]) -> np.ndarray:
        held = np.zeros((len(sets), len(names)))
        for row, members in enumerate(sets):
            held[row, [names[name] for name in members]] = 1.0
        return held

    inside = members(parts)
    return (inside @ members(cliques).T == inside.sum(axis=1, keepdims=True)).astype(np.float64)


def error_coefficients(
    attributes: Mapping[str, AttributeStrategy], demands: Sequence[Demand], parts: Sequence[Clique]
) -> np.ndarray:
    """Return the coefficient e_B of each part in the expected error."""
    place = {frozenset(part): index for index, part in enumerate(parts)}
    errors = np.zeros(len(parts))
    for demand in demands:
        sums = {frozenset(): demand.weight**2}
        for name in demand.clique:
            strategy = attributes[name]
            rest, along = (value / strategy.m for value in strategy.errors(demand.grams[name]))
            sums = {
                part: value
                for held, amount in sums.items()
                for part, value in ((held, amount * along), (held | {name}, amount * rest))
            }
        for part, value in sums.items():
            errors[place[part]] += value
    return errors


def allocate(
    attributes: Mapping[str, AttributeStrategy],
    demands: Sequence[Demand],
    candidates: Sequence[Clique],
    kind: type[Budget],
    neighbors: Neighbors,
) -> SharedStrategy:
    """Return the strategy whose shares of the budget minimize the expected error, by L-BFGS.

    Under zCDP the error is convex in the shares. Under pure DP it is not, so several starts are tried.

    Args:
        attributes: attribute -> the queries on it.
        demands: the queries to answer.
        candidates: the cliques that may be measured; each demand's clique must be a subset of one of them.
        kind: Epsilon for Laplace noise, another type of budget for Gaussian noise.
        neighbors: the neighboring relation.
    """
    parts = closure(demand.clique for demand in demands)
    power, order = (2, "l1") if kind is Epsilon else (1, "l2")
    sensitivity = getattr(neighbors, f"{order}_sensitivity")
    sensitivities = [sensitivity(product_query(attributes, clique)) for clique in candidates]
    masses = [float(np.prod([attributes[name].m for name in clique])) for clique in candidates]
    scales = 1.0 / (np.square(sensitivities) * masses)
    covers, errors = subsets(parts, candidates), error_coefficients(attributes, demands, parts)
    asked = {frozenset(demand.clique) for demand in demands}
    starts = [
        np.zeros(len(candidates)),
        np.array([0.0 if frozenset(clique) in asked else -5.0 for clique in candidates]),
        np.log(masses) / (power + 1),
    ]
    best = min((_descend(start, covers, scales, errors, power) for start in starts), key=lambda found: found[0])[1]
    kept = best > NEGLIGIBLE / len(candidates)
    missing = covers[:, kept].sum(axis=1) == 0
    kept |= covers[missing].any(axis=0)  # the candidates that contain a part that no kept candidate contains
    chosen = [clique for clique, keep in zip(candidates, kept, strict=True) if keep]
    shares = _descend(np.log(best[kept] + 1e-12), covers[:, kept], scales[kept], errors, power)[1]
    return SharedStrategy(attributes, tuple(demands), dict(zip(chosen, (shares / shares.sum()).tolist(), strict=True)))


def _descend(
    start: np.ndarray, covers: np.ndarray, scales: np.ndarray, errors: np.ndarray, power: int
) -> tuple[float, np.ndarray]:
    """Return the least log error found, and its shares, parametrized as exp(x) / sum exp(x)."""
    from scipy.optimize import minimize

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        shares = np.exp(x - x.max())
        shares /= shares.sum()
        values = np.maximum(covers @ (scales * shares**power), 1e-300)
        error = np.sum(errors / values)
        slope = -power * (covers.T @ (errors / values**2)) * scales * shares**power / error
        return float(np.log(error)), slope - shares * slope.sum()

    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000, "ftol": 1e-10})
    shares = np.exp(found.x - found.x.max())
    return float(found.fun), shares / shares.sum()
