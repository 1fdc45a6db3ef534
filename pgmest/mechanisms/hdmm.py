"""HDMM: measure the strategy queries from which least squares answers the workload with the least expected error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pgmest._base.widths import joined
from pgmest.errors import ArgumentError, QueryError, plural
from pgmest.graph.junction_tree import JunctionTree
from pgmest.mechanisms.estimation import estimate_measured
from pgmest.mechanisms.mechanism import Mechanism, relevant_workload
from pgmest.mechanisms.one_code import without_names
from pgmest.mechanisms.parameters import ESTIMATORS, MEGABYTES, MODEL_MEGABYTES, choice, parameter
from pgmest.mechanisms.priview.view import ViewModel, clipped
from pgmest.mechanisms.result import Outcome
from pgmest.mechanisms.unnamed import with_unnamed
from pgmest.privacy.budgets import Budget, Epsilon
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import Replace
from pgmest.strategies import ResidualStrategy, Strategy, select_strategy
from pgmest.synthesis import LocalMarginals, locally_nonnegative
from pgmest.tables.domain import Domain, as_domain
from pgmest.workloads import Workload

MOST_COMPARED = 40
"""The most attributes for which weighted marginals are compared with residuals under `Replace`, where either may be
better. Optimizing weighted marginals takes too long for more."""


@dataclass(frozen=True, eq=False)
class MeasurementPlan:
    """The measurements that HDMM plans and the expected error of least squares. A plan is public and costs nothing.

    Attributes:
        domain: the attributes.
        budget: the budget that the measurements spend.
        strategy: the selected strategy, the one with the least expected error.
        errors: the expected root mean squared error per query of each strategy compared, in counts, by its name.
    """

    domain: Domain
    budget: Budget
    strategy: Strategy | ResidualStrategy
    errors: Mapping[str, float]

    @property
    def expected_error(self) -> float:
        """The expected root mean squared error per weighted query of least squares, in counts."""
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
        names = tuple(dict.fromkeys(name for _, clique, _ in rows for name in clique))
        for share, clique, query in rows[:12]:
            size = " x ".join(f"{factor.rows} rows" for factor in query.factors.values()) if query else ""
            lines.append(f"  {share:7.2%}  {joined(clique, names, ' x ')}  {size}".rstrip())
        return "\n".join([*lines, *([f"  ... {len(rows) - 12} more"] if len(rows) > 12 else [])])


@dataclass(frozen=True, kw_only=True)
class HDMM(Mechanism):
    """The high-dimensional matrix mechanism (McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018).

    The strategy (`pgmest.strategies`) is a function of the workload: weighted marginals over subsets of its cliques,
    with queries on each attribute that are optimized for prefixes or ranges, or a union of such products. The selected
    strategy minimizes the expected squared error of least squares. `plan` returns the strategy and the expected error
    before anything is spent. There are three estimators:

    - "original" is least squares on the measured marginals (HDMM+LLS) in closed form. The answers are unbiased and
      consistent, and may be negative.
    - "pgm" estimates a graphical model of the same measurements, whose counts are not negative.
    - "local" returns the nearest marginals that are consistent and not negative (GReM-LNN). It needs no junction tree,
      so all pairs of hundreds of attributes are possible. The model reads the workload's marginals from these tables,
      and synthetic records are changed until they match the tables; `ViewModel.distance` is the remaining distance.

    If the workload contains only marginals and the noise is Gaussian, "original" and "local" measure residuals
    (ResidualPlanner), the optimal strategy. Under `Replace` they do so only if the expected error is less than that of
    weighted marginals.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    >>> mechanism = HDMM(epsilon=1.0, delta=0, backend="simulation", estimator="original")
    >>> plan = mechanism.plan(data.domain, [("age", "sex"), ("sex", "income>50K")])
    >>> print(plan)  # doctest: +ELLIPSIS
    Plan of HDMM for Epsilon(1): ... measurements
      expected error ... counts a query, root mean squared (...)
    ...
    >>> result = mechanism.fit(data, [("age", "sex"), ("sex", "income>50K")], seed=0)
    >>> bool(abs(result.project("sex").values - data.project("sex").values).max() < 20 * plan.expected_error)
    True

    Args:
        estimator: "pgm", "original" or "local". "local" accepts workloads of marginals only.
        max_megabytes: the largest junction tree of "pgm", 8 bytes a cell.

    Raises:
        ArgumentError: if a parameter is not valid.
        QueryError: before anything is spent, if an item of the workload is no Kronecker product, or no marginal with
            "local".
        ModelTooLarge: before anything is spent, if the junction tree of the strategy exceeds `max_megabytes`.
    """

    estimator: str = parameter("pgm", choice((*ESTIMATORS, "local")))
    max_megabytes: float = parameter(MODEL_MEGABYTES, MEGABYTES)

    definition: ClassVar[str] = "either"
    gaussian_curve: ClassVar[bool] = True

    def plan(self, domain: Domain | Mapping[str, int], workload: Any = None) -> MeasurementPlan:
        """Return the planned measurements and their expected error.

        Args:
            domain: the attributes.
            workload: the workload, as for `fit`.

        Raises:
            ArgumentError, UnknownAttributeError, QueryError: if the workload does not fit the domain or the estimator.
        """
        given = as_domain(domain)
        known = given.project(self.sees(given))
        if isinstance(self.neighbors, Replace) and known.size() == 1:
            raise ArgumentError(
                "each attribute has one value, and the number of records is public, so that there is nothing to "
                "measure: give a domain with an attribute of two values or more."
            )
        asked = without_names(given, relevant_workload(given, workload), known)
        items, budget = with_unnamed(known, asked), self.budget()
        rows, found = items.rows(known), self._strategies(known, items, budget)
        errors = {strategy.name: math.sqrt(error / rows) for error, strategy in found}
        return MeasurementPlan(known, budget, found[0][1], errors)

    def _strategies(
        self, domain: Domain, workload: Workload, budget: Budget
    ) -> list[tuple[float, Strategy | ResidualStrategy]]:
        """Return the applicable strategies with their expected total squared errors, the least error first."""
        found: list[Strategy | ResidualStrategy] = []
        cells_only = all(item.query is None for item in workload)
        if self.estimator == "local" and not cells_only:
            raise QueryError('estimator="local" takes workloads of marginals; other queries need "pgm" or "original".')
        if self.estimator != "pgm" and cells_only and not isinstance(budget, Epsilon):
            found.append(ResidualStrategy.of(domain, workload, self.neighbors))
        if not found or (isinstance(self.neighbors, Replace) and len(domain) <= MOST_COMPARED):
            found += select_strategy(domain, workload, type(budget), self.neighbors)
        if self.estimator == "local":  # GReM accepts whole marginals and residuals, not unions of products
            found = [one for one in found if one.name != "union"]
        errors = [(strategy.expected_error(budget, self.neighbors), strategy) for strategy in found]
        return sorted(errors, key=lambda pair: pair[0])

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        plan = self.plan(curator.domain, workload)
        strategy, domain = plan.strategy, curator.domain
        if self.estimator == "pgm":
            ruled = curator.constrained_cliques
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
        # For whole marginals "mirror_flow" is faster and closer to the truth than the optimum (on adult and titanic).
        method = "mirror_flow" if not any(strategy.queries) else "auto"
        return Outcome(estimate_measured(curator, method=method, max_megabytes=self.max_megabytes), details)


def _view_model(domain: Domain, local: LocalMarginals) -> ViewModel:
    """Return a model whose views are the consistent tables, with small negative counts clipped."""
    total = max(1.0, float(local.tables[0].values.sum())) if local.tables else 1.0
    return ViewModel(domain, clipped(local.tables, total), total)
