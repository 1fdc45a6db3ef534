r"""ResidualStrategy: measured residuals, the optimal way to answer weighted marginals with Gaussian noise.

The residual on a set B of attributes is the interaction of all of B: a table with mean 0 along each axis. Residuals on
different sets are orthogonal, so each is measured with independent noise, and the measurement of one carries no
information on another. With shares s_B of a budget of zCDP, the expected sum of squared errors of all weighted
marginals is

.. math:: \sum_B v_B \Delta_B^2 / 2 \rho s_B, \qquad v_B = \sum_{C \supseteq B} w_C^2 \prod_{i \in B} (n_i - 1)
          \prod_{i \in C \setminus B} 1 / n_i ,

with $\Delta_B$ the sensitivity of the residual; $\Delta_B^2 = \prod_i (1 - 1/n_i)$ if one record is added or removed.
The error is least for shares proportional to $\Delta_B \sqrt{v_B}$, in closed form for any number of attributes. If one
record is added or removed, no other linear measurement with Gaussian noise has a smaller error. (If one record is
replaced, each residual is charged for the pair of records that changes it most, although no pair does so for all.)

The measured query is K x with the integer matrix K = product of (n_i I - 1 1^T), with independent integer noise. Least
squares projects the answer onto the residual's space; divided by the product of the n_i, it is the residual with noise
of the residual's covariance.

Source: Xiao, He, Zhang, Kifer 2023, An optimal and scalable matrix mechanism for noisy marginals under convex loss
functions (ResidualPlanner).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.errors import QueryError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.privacy.budgets import Budget
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.noise import noise_for
from pgmest.queries import Kron, MatrixQuery, as_matrix_query
from pgmest.strategies.demand import Demand, demands_of
from pgmest.strategies.least_squares import LeastSquaresModel, LeastSquaresParts
from pgmest.synthesis.local_nonnegativity import Residuals
from pgmest.tables.domain import Clique, Domain, as_domain
from pgmest.workloads import Workload, closure


@dataclass(frozen=True, eq=False)
class ResidualStrategy:
    """The residuals to measure, and their shares of the budget.

    >>> from pgmest.workloads import all_kway
    >>> domain = Domain({"age": 85, "sex": 2, "income": 2})
    >>> strategy = ResidualStrategy.of(domain, all_kway(domain, 2))
    >>> strategy.cliques[:3], round(sum(strategy.shares), 6)
    ([(), ('age',), ('sex',)], 1.0)

    Attributes:
        domain: the attributes.
        errors: set of attributes -> v_B, see the module.
        weights: set of attributes -> share of the budget; the shares sum to 1.
    """

    domain: Domain
    errors: Mapping[Clique, float]
    weights: Mapping[Clique, float]

    name = "residuals"

    @classmethod
    def of(
        cls, domain: Domain | Mapping[str, int], workload: Workload, neighbors: Neighbors | None = None
    ) -> ResidualStrategy:
        """Return the strategy of least expected error for weighted marginals.

        Args:
            domain: the attributes.
            workload: weighted marginals.
            neighbors: the neighboring relation; by default one record is added or removed.

        Raises:
            QueryError: an item has other queries than the cells of a marginal.
        """
        from pgmest.privacy.neighbors import AddRemove

        known, relation = as_domain(domain), AddRemove() if neighbors is None else neighbors
        errors = residual_errors(known, demands_of(known, workload))
        if not relation.count_sensitivity:  # the total is public, because no individual changes it
            errors.pop((), None)
        queries = _Queries(known)
        amounts = {part: queries.sensitivity(part, relation) * math.sqrt(error) for part, error in errors.items()}
        total = math.fsum(amounts.values())
        weights = {part: amount / total for part, amount in amounts.items()} if total else {}
        return cls(known, errors, {part: share for part, share in weights.items() if share > 0})

    @property
    def cliques(self) -> list[Clique]:
        """The sets of attributes whose residuals are measured, smallest first."""
        return list(self.weights)

    @cached_property
    def queries(self) -> list[Kron | None]:
        """The query of each residual; None for the total."""
        queries = _Queries(self.domain)
        return [queries.query(part) for part in self.weights]

    @property
    def shares(self) -> list[float]:
        """The share of the budget of each residual."""
        return list(self.weights.values())

    def expected_error(self, spend: Budget, neighbors: Neighbors) -> float:
        """Return the exact expected sum of squared errors of all weighted marginals, in counts^2, for a budget."""
        variances: dict[tuple[float, tuple[int, ...]], float] = {}
        found, queries = 0.0, _Queries(self.domain)
        for part, share in self.weights.items():
            shape = tuple(sorted(self.domain[name] for name in part))
            if (share, shape) not in variances:
                (own,) = spend.split([share]) if share >= 1 else spend.split([share, 1 - share])[:1]
                noise = noise_for(own, neighbors, queries.query(part)).stddev / math.prod(shape)
                variances[share, shape] = noise**2
            found += self.errors[part] * variances[share, shape]
        return found

    def least_squares(
        self, domain: Domain, measurements: Sequence[LinearMeasurement], total: float | None = None
    ) -> LeastSquaresModel:
        """Return the model of least squares.

        Args:
            domain: the attributes.
            measurements: the measurements of the residuals.
            total: the number of records if it is public and was not measured.

        Raises:
            QueryError: see `pgmest.synthesis.local_nonnegativity.Residuals.of`.
        """
        residuals = Residuals.of(measurements, domain, total)
        parts = {
            part: table * math.sqrt(domain.size(part)) for part, table in residuals.tables.items()
        }  # as `LeastSquaresParts` scales them
        return LeastSquaresModel((LeastSquaresParts(domain, tuple(parts), parts, {}),))


class _Queries:
    """The integer queries of residuals; attributes of the same size share a factor."""

    def __init__(self, domain: Domain):
        self._domain = domain
        self._factors: dict[int, MatrixQuery] = {}
        self._sensitivities: dict[tuple[int, ...], float] = {}

    def factor(self, size: int) -> MatrixQuery:
        """Return the matrix n I - 1 1^T for n = size."""
        if size not in self._factors:
            self._factors[size] = as_matrix_query(size * np.eye(size) - 1.0)
        return self._factors[size]

    def query(self, part: Clique) -> Kron | None:
        """Return the query of the residual, times the product of the attributes' sizes; None for the total."""
        return Kron({name: self.factor(self._domain[name]) for name in part}) if part else None

    def sensitivity(self, part: Clique, neighbors: Neighbors) -> float:
        """Return the l2 sensitivity of the residual."""
        shape = tuple(sorted(self._domain[name] for name in part))
        if shape not in self._sensitivities:
            self._sensitivities[shape] = neighbors.l2_sensitivity(self.query(part)) / math.prod(shape)
        return self._sensitivities[shape]


def residual_errors(domain: Domain, demands: Iterable[Demand]) -> dict[Clique, float]:
    """Return v_B, the sum of squared errors of all weighted marginals for each unit of variance of each residual.

    Raises:
        QueryError: a demand has other queries than the cells of a marginal.
    """
    weights: dict[Clique, float] = {}
    for demand in demands:
        if any(gram is not None for gram in demand.grams.values()):
            raise QueryError(
                f"residuals answer marginals, and the workload has other queries on {demand.clique}; use "
                "select_strategy, or put the marginal into the workload."
            )
        weights[demand.clique] = weights.get(demand.clique, 0.0) + demand.weight**2
    errors = dict.fromkeys(map(domain.ordered, closure(weights)), 0.0)
    for clique, weight in weights.items():
        for part in closure([clique]):
            others = math.prod(domain[name] for name in clique if name not in part)
            errors[part] += weight * math.prod(domain[name] - 1 for name in part) / others
    order = {name: place for place, name in enumerate(domain)}
    return dict(sorted(errors.items(), key=lambda item: (len(item[0]), [order[name] for name in item[0]])))
