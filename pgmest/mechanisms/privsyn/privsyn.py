"""PrivSyn: select dependent pairs privately, measure them, make them consistent and synthesize records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.estimation import estimate_measured, lifted, mergeable, tree_limit
from pgmest.mechanisms.held_records import known_tables, model_with_invariants
from pgmest.mechanisms.invariants import possible_total
from pgmest.mechanisms.known_zeros import with_possible_codes
from pgmest.mechanisms.mechanism import Mechanism, cliques_of
from pgmest.mechanisms.parameters import (
    CELLS,
    DEVIATIONS,
    ESTIMATOR,
    MEGABYTES,
    TREE_MEGABYTES,
    Check,
    choice,
    number,
    parameter,
)
from pgmest.mechanisms.privsyn.pairs import choose_pairs, combine_pairs, noisy_differences
from pgmest.mechanisms.result import Outcome
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Budget, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import noise_for
from pgmest.solvers.total import estimate_total
from pgmest.synthesis import consistent_tables, synthesize
from pgmest.synthesis.synthesize import SYNTHESIS_METHODS, SynthesisMethod
from pgmest.tables.domain import Clique
from pgmest.transforms.learned import rare_values
from pgmest.transforms.transform import Transform
from pgmest.workloads import Workload


def _synthesis(value: Any) -> Any:
    return value if isinstance(value, SynthesisMethod) else choice(SYNTHESIS_METHODS)("synthesis", value)


SYNTHESIS = Check(
    f"a GradualUpdate, a LocalSearch, a MinCostFlow, or one of {', '.join(map(repr, SYNTHESIS_METHODS))}", _synthesis
)


ONE_WAY_SHARE = 0.1
"""The share of the budget for the one-way marginals."""

SELECTION_SHARE = number("a share above 0 and below 0.9", lambda value: 0 < value < 1 - ONE_WAY_SHARE)


@dataclass(frozen=True, kw_only=True)
class PrivSyn(Mechanism):
    r"""Marginals of dependent attributes, and records synthesized from them (Zhang et al. 2021; DPSyn section 4).

    1. The one-way marginals are measured with a tenth of the budget. The values of an attribute whose noisy
       counts are below `threshold` standard deviations are merged into one value, and split again in the records.
    2. The dependence of every pair of attributes (InDif) is measured with `selection_share` of the budget. A greedy
       search then selects the pairs: a pair that is left out costs its dependence, a selected pair costs noise.
    3. Selected pairs that connect all their attributes are combined into one marginal. The rest of the budget measures
       the marginals, in proportion to $c^{2/3}$ for c cells.
    4. The tables are made consistent and non-negative, and records are synthesized from them.

    estimator="original" returns these records; their number is the estimated total. estimator="pgm" fits a graphical
    model to the same measurements, without pairs that would make the junction tree larger than `max_megabytes`.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K", "relationship"])
    >>> result = PrivSyn(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> result.ledger.remaining / result.ledger.budget < 1e-9
    True

    With structural zeros, records that the synthesis leaves in impossible cells get other codes of these attributes, as
    possible records have them.

    With a workload, the candidates are the pairs within its cliques.

    Args:
        estimator: "original" or "pgm".
        synthesis: the method of "original": "gum", as published; "local_search", which ends closer to the tables;
            "mcf"; or an object such as `pgmest.synthesis.GradualUpdate(iterations=100)`.
        selection_share: the share of the budget that selects pairs. A tenth measures the one-way marginals, the rest
            the selected marginals.
        threshold: the least noisy count of a value that is not merged, in standard deviations; -inf merges no values.
        max_cells: the most cells of a combined marginal.
        max_megabytes: the largest junction tree of "pgm", 8 bytes a cell.

    Raises:
        ArgumentError: if a parameter is out of its range.
    """

    estimator: str = parameter("original", ESTIMATOR)
    synthesis: str | SynthesisMethod = parameter("gum", SYNTHESIS)
    selection_share: float = parameter(0.1, SELECTION_SHARE)
    threshold: float = parameter(3.0, DEVIATIONS)
    max_cells: float = parameter(5000, CELLS)
    max_megabytes: float = parameter(TREE_MEGABYTES, MEGABYTES)

    definition: ClassVar[str] = "zcdp"
    uses: ClassVar[str] = "pairs"
    gaussian_curve: ClassVar[bool] = True

    @property
    def holds_invariants(self) -> bool:
        return True

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        cliques = cliques_of(workload, curator.domain)
        pairs = list({frozenset(pair): pair for clique in cliques for pair in combinations(clique, 2)}.values())
        names = [(name,) for name in curator.domain]
        weights = least_error_weights(curator.domain, names, Rho)
        spend = curator.budget * ONE_WAY_SHARE if pairs else curator.remaining
        one_way = curator.measure_all(names, spend, weights=weights)
        zeros, merged = curator.structural_zeros, mergeable(curator, one_way)
        transform = rare_values(curator.domain, merged, self.threshold, structural_zeros=zeros)
        recoded = curator.through(transform)
        measured = [transform.push(measurement) for measurement in one_way if measurement.noisy]
        if self.estimator == "original":
            measured = [*known_tables(curator), *measured]
        chosen: list[Clique] = []
        if pairs:
            chosen = self._choose(recoded, pairs, curator.budget * self.selection_share)
            marginals = combine_pairs(chosen, recoded.domain, self.max_cells) or names
            weights = least_error_weights(recoded.domain, marginals, Rho)
            measured += recoded.measure_all(marginals, recoded.remaining, weights=weights)
        details = {"pairs": chosen, "marginals": [one.clique for one in measured if len(one.clique) > 1]}
        return Outcome(self._model(curator, recoded, transform, measured, rng), details)

    def conclude(self, curator: Curator) -> Any:
        """Return a graphical model of the measurements that fit into the junction tree."""
        admit = self._admission(curator)
        fitting = [measurement for measurement in curator.measurements if admit(measurement.clique)]
        if not fitting:
            return None
        return estimate_measured(curator, measurements=fitting)

    def _choose(self, curator: Curator, pairs: list[Clique], spend: Budget) -> list[Clique]:
        """Return the pairs to measure; with "pgm" they fit into the junction tree."""
        differences = noisy_differences(curator, pairs, spend)
        noise = noise_for(curator.remaining, curator.neighbors).stddev
        if self.estimator == "original":
            return choose_pairs(pairs, differences, curator.domain, noise)
        return choose_pairs(pairs, differences, curator.domain, noise, self._admission(curator))

    def _admission(self, curator: Curator) -> Callable[[Clique], bool]:
        """Return a function that adds a clique to a junction tree if it fits, and returns whether it did."""
        limit = tree_limit(curator, [], self.max_megabytes)
        return lambda clique: bool(limit.fitting([clique])) and limit.add(clique) is None

    def _model(
        self,
        curator: Curator,
        recoded: Curator,
        transform: Transform,
        measured: list[LinearMeasurement],
        rng: np.random.Generator,
    ) -> Any:
        domain = transform.after
        total = curator.fixed_total or max(1.0, possible_total(curator, estimate_total(measured, domain).value))
        if self.estimator == "pgm":
            model = estimate_measured(recoded, measurements=measured, method="mirror_flow")
            return lifted(curator, transform, model)
        tables = consistent_tables(measured, domain, total=total)
        records = synthesize(tables, domain, max(1, round(total)), method=self.synthesis, seed=rng)
        records = with_possible_codes(transform.decode(records, rng), curator.structural_zeros, rng)
        return model_with_invariants(records, total, curator, rng)
