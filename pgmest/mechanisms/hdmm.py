"""HDMM: measure not the workload, but the queries from which least squares answers it with the least expected error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pgmest._base.errors import QueryError, plural
from pgmest.graph.junction_tree import JunctionTree
from pgmest.mechanisms.estimation import estimate_measured
from pgmest.mechanisms.mechanism import Mechanism, relevant_workload
from pgmest.mechanisms.parameters import ESTIMATORS, MEGABYTES, MODEL_MEGABYTES, choice, parameter
from pgmest.mechanisms.result import Outcome
from pgmest.models.view import ViewModel, clipped
from pgmest.privacy.budgets import Budget, Epsilon
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import Replace
from pgmest.queries.workloads import Workload
from pgmest.strategies import ResidualStrategy, Strategy, select_strategy
from pgmest.synthesis import LocalMarginals, locally_nonnegative
from pgmest.tables.domain import Domain, as_domain

MOST_COMPARED = 40
"""Under `Replace`, where weighted marginals may be better than residuals, both are compared for so many attributes."""


@dataclass(frozen=True, eq=False)
class MeasurementPlan:
    """What HDMM would measure, and the error to expect of least squares: all public, and free.

    Attributes:
        domain: the attributes.
        budget: what would be spent.
        strategy: the one chosen.
        errors: name of each strategy tried -> its expected root mean squared error per query, in counts.
    """

    domain: Domain
    budget: Budget
    strategy: Strategy | ResidualStrategy
    errors: Mapping[str, float]

    @property
    def expected_error(self) -> float:
        """The root mean squared error per (weighted) query, in counts; the estimator "pgm" mostly does better."""
        return self.errors[self.strategy.name]

    def __repr__(self) -> str:
        tried = ", ".join(f"{name} {error:,.4g}" for name, error in self.errors.items())
        rows = sorted(
            zip(self.strategy.shares, self.strategy.cliques, self.strategy.queries, strict=True),
            key=lambda row: -row[0],
        )
        lines = [
            f"Plan of HDMM for {self.budget}: {plural(len(rows), 'measurement')}",
            f"  expected error {self.expected_error:,.4g} counts a query, root mean squared ({tried})",
        ]
        for share, clique, query, *_ in rows[:12]:
            lines.append(
                f"  {share:7.2%}  {' x '.join(clique) or 'total'}{'' if query is None else '  ' + _rows(query)}"
            )
        return "\n".join([*lines, *([f"  ... {len(rows) - 12} more"] if len(rows) > 12 else [])])


@dataclass(frozen=True, kw_only=True)
class HDMM(Mechanism):
    """The high-dimensional matrix mechanism (McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018).

    It looks at the workload alone to choose a strategy (`pgmest.strategies`): weighted marginals over subsets of the
    workload's cliques, with queries on each attribute that are optimized for its prefixes or ranges, or a union of such
    products. `plan` says what it would measure and the error to expect, before anything is spent.

    estimator="original" is least squares on the measured marginals (HDMM+LLS), exactly and in closed form: unbiased,
    consistent, and possibly negative. estimator="pgm" estimates a graphical model of the same measurements, which
    uses that counts are not negative. Where the workload is marginals and noise is Gaussian the other two estimators
    measure residuals, which is optimal (under `Replace` only if that promises less error than weighted marginals do).

    estimator="local" makes of them the nearest marginals that agree and are not negative (GReM-LNN), which takes no
    junction tree: hundreds of attributes, all pairs of them, are possible. Its model reads the workload's marginals
    from these tables, and records are changed until they have these tables; `ViewModel.distance` says how far the
    records are from the tables.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    >>> mechanism = HDMM(epsilon=1.0, backend="simulation", estimator="original")
    >>> plan = mechanism.plan(data.domain, [("age", "sex"), ("sex", "income>50K")])
    >>> print(plan)  # doctest: +ELLIPSIS
    Plan of HDMM for Epsilon(1): ... measurements
      expected error ... counts a query, root mean squared (...)
    ...
    >>> result = mechanism.fit(data, [("age", "sex"), ("sex", "income>50K")], seed=0)
    >>> bool(abs(result.project("sex").values - data.project("sex").values).max() < 20 * plan.expected_error)
    True

    Args:
        estimator: "pgm", "original" or "local", which takes workloads of marginals only.
        max_megabytes: of "pgm": a strategy with a larger junction tree is refused, as `pgmest.estimate` would.

    Raises:
        ArgumentError: a parameter that is not valid.
        QueryError: before anything is spent, an item of the workload that is no Kronecker product.
        ModelTooLarge: before anything is spent, a strategy whose junction tree is larger than allowed.
    """

    estimator: str = parameter("pgm", choice((*ESTIMATORS, "local")))
    max_megabytes: float = parameter(MODEL_MEGABYTES, MEGABYTES)

    definition: ClassVar[str] = "either"
    gaussian_only: ClassVar[bool] = True

    def plan(self, domain: Domain | Mapping[str, int], workload: Any = None) -> MeasurementPlan:
        """What would be measured, and the error to expect.

        Args:
            domain: the attributes.
            workload: as for `fit`.

        Raises:
            ArgumentError, UnknownAttributeError, QueryError: a workload that does not fit.
        """
        known = as_domain(domain)
        items, budget = relevant_workload(known, workload), self.budget()
        rows, found = items.rows(known), self._strategies(known, items, budget)
        errors = {strategy.name: math.sqrt(error / rows) for error, strategy in found}
        return MeasurementPlan(known, budget, found[0][1], errors)

    def _strategies(
        self, domain: Domain, workload: Workload, budget: Budget
    ) -> list[tuple[float, Strategy | ResidualStrategy]]:
        """The strategies that can be, each with its expected error, that of the least first."""
        found: list[Strategy | ResidualStrategy] = []
        cells_only = all(item.query is None for item in workload)
        if self.estimator == "local" and not cells_only:
            raise QueryError('estimator="local" takes workloads of marginals; other queries need "pgm" or "original".')
        if self.estimator != "pgm" and cells_only and not isinstance(budget, Epsilon):
            found.append(ResidualStrategy.of(domain, workload, self.neighbors))
        if not found or (isinstance(self.neighbors, Replace) and len(domain) <= MOST_COMPARED):
            found += select_strategy(domain, workload, type(budget), self.neighbors)
        if self.estimator == "local":  # which knows whole marginals and residuals, but not those of several groups
            found = [one for one in found if one.name != "union"]
        errors = [(strategy.expected_error(budget, self.neighbors), strategy) for strategy in found]
        return sorted(errors, key=lambda pair: pair[0])

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        plan = self.plan(curator.domain, workload)
        strategy, domain = plan.strategy, curator.domain
        if self.estimator == "pgm":
            ruled = [rule.attributes for rule in curator.structural_zeros]
            JunctionTree.from_cliques(domain, [*strategy.cliques, *ruled], max_megabytes=self.max_megabytes)
        measurements = curator.measure_all(
            strategy.cliques, curator.budget, weights=strategy.shares, queries=strategy.queries
        )
        details = {"strategy": strategy.name, "expected_error": plan.expected_error, "plan": plan}
        if self.estimator == "original":
            if isinstance(strategy, ResidualStrategy):
                return Outcome(strategy.least_squares(domain, measurements, curator.public_total), details)
            return Outcome(strategy.least_squares(domain, measurements), details)
        if self.estimator == "local":
            local = locally_nonnegative(measurements, domain, total=curator.public_total)
            return Outcome(_view_model(domain, local), details | {"negative": local.negative})
        # Closer to the truth than the optimum, and faster, but for whole marginals only (measured on adult, titanic).
        method = "mirror_flow" if not any(strategy.queries) else "auto"
        return Outcome(estimate_measured(curator, method=method, max_megabytes=self.max_megabytes), details)


def _view_model(domain: Domain, local: LocalMarginals) -> ViewModel:
    """The model whose views are tables that agree, without the little that is negative."""
    total = max(1.0, float(local.tables[0].values.sum())) if local.tables else 1.0
    return ViewModel(domain, clipped(local.tables, total), total)


def _rows(query: Any) -> str:
    return " x ".join(f"{factor.rows} rows" for factor in query.factors.values())
