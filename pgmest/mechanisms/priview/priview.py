"""PriView: measure views that cover all pairs or triples, make them consistent, reconstruct other marginals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pgmest.graph.junction_tree import JunctionTree
from pgmest.mechanisms.estimation import estimate_measured
from pgmest.mechanisms.mechanism import Mechanism, cliques_of
from pgmest.mechanisms.parameters import (
    CELLS,
    COUNT,
    ESTIMATOR,
    MEGABYTES,
    TREE_MEGABYTES,
    choice,
    optional,
    parameter,
)
from pgmest.mechanisms.priview.design import best_cover, cover, random_views, subsets_of
from pgmest.mechanisms.priview.view import RECONSTRUCTIONS, ViewModel, clipped
from pgmest.mechanisms.result import Outcome
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Epsilon
from pgmest.privacy.curator import Curator
from pgmest.solvers.total import estimate_total
from pgmest.synthesis import consistent_tables
from pgmest.tables.domain import Clique
from pgmest.workloads import Workload

DESIGNS = ("cover", "random")


@dataclass(frozen=True, kw_only=True)
class PriView(Mechanism):
    """Practical views (Qardaji, Yang, Li 2014) for attributes of any number of values.

    The views are marginals of at most `max_cells` cells that together contain every set of `strength` attributes. They
    are a function of the domain and the workload. All views are measured, with the budget divided so that the sum of
    their expected l1 errors is least. The views are then made consistent and non-negative, which averages their common
    marginals.

    estimator="original" reads a marginal from a view that contains it, or reconstructs the marginal from the marginals
    of the views. estimator="pgm" fits a graphical model to the same measurements. If the junction tree exceeds
    `max_megabytes`, which covers of all pairs usually do, "pgm" fits locally consistent tables (`pgmest.estimate` with
    oracle="convex").

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["sex", "race", "income>50K", "relationship"])
    >>> result = PriView(epsilon=1.0, delta=0, max_cells=64, backend="simulation").fit(data, seed=0)
    >>> result.details["views"]
    [('sex', 'race', 'relationship'), ('sex', 'income>50K', 'relationship'), ('race', 'income>50K')]

    Args:
        strength: the number of attributes in each set that a view must contain. With a workload, only sets inside its
            cliques are covered, and each attribute that the workload does not name.
        max_cells: the most cells of a view, except for a set that has more itself. By default the limit with the least
            expected error of the covered sets.
        design: "cover", a covering design, or "random", about the same number of views of random attributes.
        reconstruction: the reconstruction of "original": "maxent", "least_norm" or "lp"; see `ViewModel`.
        estimator: "original" or "pgm".
        max_megabytes: the largest junction tree of "pgm", 8 bytes a cell.

    Raises:
        ArgumentError: if a parameter is out of its range.
    """

    strength: int = parameter(2, COUNT)
    max_cells: float | None = parameter(None, optional(CELLS))
    design: str = parameter("cover", choice(DESIGNS))
    reconstruction: str = parameter("maxent", choice(RECONSTRUCTIONS))
    estimator: str = parameter("original", ESTIMATOR)
    max_megabytes: float = parameter(TREE_MEGABYTES, MEGABYTES)

    definition: ClassVar[str] = "either"
    uses: ClassVar[str] = "marginals"
    gaussian_curve: ClassVar[bool] = True

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        views = self._views(curator, workload, rng)
        weights = least_error_weights(curator.domain, views, type(curator.budget))
        curator.measure_all(views, curator.budget, weights=weights)
        model = self._original(curator) if self.estimator == "original" else self._pgm(curator, views)
        return Outcome(model, {"views": views})

    def conclude(self, curator: Curator) -> Any:
        if not curator.measurements:
            return None
        return self._original(curator)

    def _views(self, curator: Curator, workload: Any, rng: np.random.Generator) -> list[Clique]:
        domain = curator.domain
        cliques: Sequence[Clique] = [domain.attributes] if workload is None else cliques_of(workload, domain)
        wanted = subsets_of(cliques, domain, self.strength)
        if self.max_cells is None:
            views = best_cover(domain, wanted, 1 / 2 if isinstance(curator.budget, Epsilon) else 2 / 3)
        else:
            views = cover(domain, wanted, self.max_cells)
        if self.design == "cover":
            return views
        names = [name for name in domain if any(name in clique for clique in cliques)]
        limit = self.max_cells or max(math.prod(domain.project(view).shape) for view in views)
        return random_views(domain, names, limit, len(views), rng)

    def _original(self, curator: Curator) -> ViewModel:
        total = curator.fixed_total or max(1.0, estimate_total(curator.measurements, curator.domain).value)
        tables = consistent_tables(curator.measurements, curator.domain, total=total)
        return ViewModel(curator.domain, clipped(tables, total), float(total), self.reconstruction)

    def _pgm(self, curator: Curator, views: list[Clique]) -> Any:
        ruled = curator.constrained_cliques
        if JunctionTree.from_cliques(curator.domain, [*views, *ruled]).megabytes <= self.max_megabytes:
            return estimate_measured(curator, method="mirror_flow")
        return estimate_measured(curator, oracle="convex")
