"""PrivSyn: dependent pairs chosen privately, measured, made consistent, and turned into records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from pgmest.graph.tree_limit import TreeLimit
from pgmest.inference.support.support import Support
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.estimation import estimate_measured, lifted, tree_limit
from pgmest.mechanisms.mechanism import Mechanism, cliques_of
from pgmest.mechanisms.parameters import (
    CELLS,
    DEVIATIONS,
    ESTIMATOR,
    MEGABYTES,
    SHARE,
    TREE_MEGABYTES,
    Check,
    choice,
    parameter,
)
from pgmest.mechanisms.privsyn.pairs import choose_pairs, combine_pairs, noisy_differences
from pgmest.mechanisms.result import Outcome
from pgmest.models.support import SupportModel
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Budget, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import noise_for
from pgmest.queries.workloads import Workload
from pgmest.solvers.total import estimate_total
from pgmest.synthesis import consistent_tables, synthesize
from pgmest.synthesis.synthesize import SYNTHESIS_METHODS, SynthesisMethod
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique
from pgmest.transforms.learned import rare_values
from pgmest.transforms.transform import Transform


def _shares(value: Any) -> tuple[float, ...]:
    shares = tuple(SHARE("shares", share) for share in value)
    if isinstance(value, str | Mapping) or len(shares) != 3 or abs(sum(shares) - 1) > 1e-9:
        raise ValueError
    return shares


def _synthesis(value: Any) -> Any:
    return value if isinstance(value, SynthesisMethod) else choice(SYNTHESIS_METHODS)("synthesis", value)


SHARES = Check("three positive numbers that sum to 1", _shares)
SYNTHESIS = Check(
    f"a GradualUpdate, a LocalSearch, a MinCostFlow, or one of {', '.join(map(repr, SYNTHESIS_METHODS))}", _synthesis
)


@dataclass(frozen=True, kw_only=True)
class PrivSyn(Mechanism):
    r"""Dense marginals and records made from them (Zhang et al. 2021; DPSyn section 4).

    1. One-way marginals, for the first of the `shares` of the budget. An attribute's values whose noisy count is below
       `threshold` standard deviations become one value, which is shared out again at the end.
    2. For the second share the dependence of all pairs of attributes, by InDif with noise. What to measure then is
       decided greedily: the dependence that a pair left out loses against the noise that it would add.
    3. Pairs that connect all their attributes are combined into one marginal, and for the rest of the budget all are
       measured, each for a part in proportion to $c^{2/3}$ of its c cells.
    4. The tables are made consistent and non-negative, and records are made from them.

    estimator="original" has these records, as many as were estimated, as its answer. estimator="pgm" fits a graphical
    model to the same measurements; pairs that would make its junction tree exceed `max_megabytes` are not chosen.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K", "relationship"])
    >>> result = PrivSyn(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> result.ledger.remaining / result.ledger.budget < 1e-9
    True

    With a workload, only pairs within its cliques are candidates, and attributes that it does not name are uniform.

    Args:
        estimator: "original" or "pgm".
        synthesis: of "original": "gum", as published, "local_search", which ends closer to the tables, "mcf", or an
            object such as `pgmest.synthesis.GradualUpdate(iterations=100)`.
        shares: of the budget, for one-way marginals, for the selection, and for the chosen marginals.
        threshold: see above; -inf combines no values.
        max_cells: the most cells of a marginal that pairs are combined into.
        max_megabytes: of "pgm": the largest junction tree, 8 bytes a cell.

    Raises:
        ArgumentError: a parameter out of its range.
    """

    estimator: str = parameter("original", ESTIMATOR)
    synthesis: str | SynthesisMethod = parameter("gum", SYNTHESIS)
    shares: tuple[float, float, float] = parameter((0.1, 0.1, 0.8), SHARES)
    threshold: float = parameter(3.0, DEVIATIONS)
    max_cells: float = parameter(5000, CELLS)
    max_megabytes: float = parameter(TREE_MEGABYTES, MEGABYTES)

    definition: ClassVar[str] = "zcdp"
    gaussian_only: ClassVar[bool] = True

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        cliques = cliques_of(workload, curator.domain)
        pairs = list({frozenset(pair): pair for clique in cliques for pair in combinations(clique, 2)}.values())
        names = [(name,) for name in curator.domain if any(name in clique for clique in cliques)]
        first, second, _ = (curator.budget * share for share in self.shares)
        weights = least_error_weights(curator.domain, names, Rho)
        one_way = curator.measure_all(names, first if pairs else curator.remaining, weights=weights)
        transform = rare_values(curator.domain, one_way, self.threshold)
        recoded = curator.through(transform)
        measured = [transform.push(measurement) for measurement in one_way]
        chosen: list[Clique] = []
        if pairs:
            chosen = self._choose(recoded, pairs, second)
            marginals = combine_pairs(chosen, recoded.domain, self.max_cells) or names
            weights = least_error_weights(recoded.domain, marginals, Rho)
            measured += recoded.measure_all(marginals, recoded.remaining, weights=weights)
        return Outcome(
            self._model(curator, recoded, transform, measured, rng), {"pairs": chosen, **_described(measured)}
        )

    def conclude(self, curator: Curator) -> Any:
        """A graphical model of the one-way marginals, or of whatever was measured."""
        limit = self._limit(curator)
        fitting = [m for m in curator.measurements if limit.fitting([m.clique]) and limit.add(m.clique) is None]
        if not fitting:
            raise KeyboardInterrupt
        return estimate_measured(curator, measurements=fitting)

    def _choose(self, curator: Curator, pairs: list[Clique], spend: Budget) -> list[Clique]:
        """The pairs to measure, which with "pgm" fit into the junction tree."""
        differences = noisy_differences(curator, pairs, spend)
        noise = noise_for(curator.remaining, curator.neighbors).stddev
        if self.estimator == "original":
            return choose_pairs(pairs, differences, curator.domain, noise)
        limit = self._limit(curator)

        def admissible(pair: Clique) -> bool:
            return bool(limit.fitting([pair])) and limit.add(pair) is None

        return choose_pairs(pairs, differences, curator.domain, noise, admissible)

    def _limit(self, curator: Curator) -> TreeLimit:
        return tree_limit(curator, [], self.max_megabytes)

    def _model(
        self,
        curator: Curator,
        recoded: Curator,
        transform: Transform,
        measured: list[LinearMeasurement],
        rng: np.random.Generator,
    ) -> Any:
        domain = transform.after
        total = curator.public_total or estimate_total(measured, domain).value
        if self.estimator == "pgm":
            model = estimate_measured(recoded, measurements=measured, method="mirror_flow")
            return lifted(curator, transform, model)
        tables = consistent_tables(measured, domain, total=total)
        records = synthesize(tables, domain, max(1, round(total)), method=self.synthesis, seed=rng)
        decoded = transform.decode(records, rng)
        return SupportModel(Support(decoded), CliqueVector.zeros(curator.domain, []), total)


def _described(measured: list[LinearMeasurement]) -> dict[str, Any]:
    return {"marginals": [measurement.clique for measurement in measured if len(measurement.clique) > 1]}
