"""Structural zeros in LAMP: the rules that its models hold, and the tables that they and the one-way marginals imply.

Zeros tie attributes together: if a household has three members, its fourth is absent. The table of a pair of attributes
before it is measured is therefore not that of independence, but that of maximum entropy given the zeros and the one-way
marginals. Scores, shrinkage and models start from this table, so that a dependence that follows from zeros costs
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.estimation.estimate import estimate
from pgmest.inference.exact.structural_zeros import Rule, zero_potentials
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.lamp.groups import common_refinement
from pgmest.mechanisms.tree_limit import TreeLimit
from pgmest.models.exact import Model
from pgmest.queries import Kron, compress
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.zeros import Function

RULES_SHARE = 0.5
"""The largest share of the size limit of a junction tree that the rules may take; measured tables need the rest."""
TOLERANCE, ITERATIONS = 1e-3, 500
"""The limits of the solver that makes the one-way marginals agree with the rules."""


@dataclass(frozen=True, eq=False)
class PossibleCells:
    """The structural zeros of a run.

    Attributes:
        domain: The attributes.
        rules: The rules that all models hold.
        others: The rules that would make a junction tree too large. They are kept by leaving out records that violate
            them.
    """

    domain: Domain
    rules: tuple[Rule, ...]
    others: tuple[Rule, ...] = ()

    @classmethod
    def of(cls, domain: Domain, rules: Sequence[Rule], max_megabytes: float) -> PossibleCells | None:
        """Choose the rules that fit into a junction tree: functions first, then those of the fewest cells.

        Args:
            domain: The attributes.
            rules: All rules; None is returned without any.
            max_megabytes: The size limit of models.
        """
        if not rules:
            return None
        limit, held = TreeLimit(domain, [(name,) for name in domain], max_megabytes), []
        cliques = {place: domain.clique(rule.attributes) for place, rule in enumerate(rules)}
        for place in sorted(cliques, key=lambda at: (not isinstance(rules[at], Function), domain.size(cliques[at]))):
            if limit.fitting([cliques[place]], RULES_SHARE):
                limit.add(cliques[place])
                held.append(place)
        return cls(
            domain,
            tuple(rules[place] for place in sorted(held)),
            tuple(rule for place, rule in enumerate(rules) if place not in held),
        )

    @cached_property
    def potentials(self) -> CliqueVector:
        """Potentials of -inf at the impossible cells of the held rules."""
        return zero_potentials(self.rules, self.domain)

    @cached_property
    def tied(self) -> frozenset[str]:
        """The attributes of the held rules."""
        return frozenset(name for clique in self.potentials.cliques for name in clique)

    @cached_property
    def _ranges(self) -> dict[str, list[np.ndarray]]:
        """For each tied attribute, the ranges of codes with the same zeros in each table."""
        found: dict[str, list[np.ndarray]] = {name: [] for name in self.tied}
        for clique, factor in self.potentials.items():
            for axis, name in enumerate(clique):
                rows = np.moveaxis(factor.values, axis, 0).reshape(self.domain[name], -1) == 0
                changes = (rows[1:] != rows[:-1]).any(axis=1)
                found[name].append(np.cumsum(np.r_[False, changes]))
        return found

    def refined(self, groups: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return groups of codes, divided such that all codes of a group have the same zeros.

        Args:
            groups: The group of each code of each attribute; groups are ranges of codes.
        """
        return {
            name: common_refinement([labels, *self._ranges.get(name, ())], len(labels))
            for name, labels in groups.items()
        }

    def over_groups(self, groups: Mapping[str, np.ndarray], coarse: Domain) -> CliqueVector:
        """Return `potentials` over groups, all of whose codes have the same zeros."""
        first = {name: np.flatnonzero(np.diff(labels, prepend=-1)) for name, labels in groups.items()}
        return CliqueVector(
            coarse,
            {clique: f.values[np.ix_(*(first[name] for name in clique))] for clique, f in self.potentials.items()},
        )

    def sorted(self, records: Dataset) -> np.ndarray:
        """Return the positions of records, sorted by the ranges of codes that have different zeros.

        The attributes in the most rules come first, such as the size of a household before its members.
        """
        degree = Counter(name for clique in self.potentials.cliques for name in clique)
        names = sorted(self._ranges, key=lambda name: (degree[name], -self.domain.axes((name,))[0]))
        keys = [
            common_refinement(self._ranges[name], self.domain[name])[np.asarray(records.column(name))] for name in names
        ]
        return np.lexsort(keys) if keys else np.arange(records.records)

    def tables(
        self, counts: Mapping[str, np.ndarray], noisy: Mapping[str, tuple[np.ndarray, float]], total: float
    ) -> TiedTables:
        """Return the tables of maximum entropy given one-way marginals, which are changed to agree with the rules.

        Rules relate the sums over codes that have the same zeros, such as the number of households without a fourth
        member. These sums are estimated from the noisy counts of all attributes at once by least squares, since shrunk
        counts would have errors in common. Among codes with the same zeros, a sum is divided in proportion to the
        estimated counts.

        Args:
            counts: The estimated counts of the measured attributes.
            noisy: The noisy counts of these attributes, which sum to the total, and the standard deviations of the
                noise.
            total: The number of records.
        """
        domain = self.domain.project(self.domain.ordered(self.tied))
        sums = [self._sums(name, *noisy[name]) for name in domain if name in noisy]
        prior = CliqueVector(domain, {(name,): np.log(counts[name]) for name in domain if name in counts})
        limits = {"tolerance": TOLERANCE, "max_iterations": ITERATIONS}
        model = estimate(sums, domain, total=total, prior=prior, structural_zeros=self.rules, **limits)
        return TiedTables(model, total)

    def _sums(self, name: str, noisy: np.ndarray, stddev: float) -> LinearMeasurement:
        """Return the noisy sums over the ranges of codes that have the same zeros."""
        labels = common_refinement(self._ranges[name], len(noisy))
        query = Kron({name: compress(len(labels), labels.tolist())})
        return LinearMeasurement(np.bincount(labels, noisy), (name,), stddev * np.sqrt(np.bincount(labels)), query)


@dataclass(frozen=True, eq=False)
class TiedTables:
    """The marginals of tied attributes before any pair is measured, each computed once.

    Attributes:
        model: A model of the tied attributes.
        total: The number of records.
    """

    model: Model
    total: float
    _known: dict[Clique, np.ndarray] = field(default_factory=dict)

    def prepare(self, cliques: Iterable[Clique]) -> None:
        """Compute the marginals of cliques of tied attributes at once, which is faster than one by one."""
        missing = [clique for clique in dict.fromkeys(cliques) if clique not in self._known]
        for clique, factor in zip(missing, self.model.project_many(missing) if missing else (), strict=True):
            self._known[clique] = factor.values * (self.total / factor.values.sum())

    def holds(self, name: str) -> bool:
        """Return whether the attribute is tied."""
        return name in self.model.domain

    def table(self, clique: Clique) -> np.ndarray:
        """Return the counts of a marginal of tied attributes."""
        self.prepare([clique])
        return self._known[clique]
