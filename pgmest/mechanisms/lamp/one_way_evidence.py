"""One-way evidence: all measurements, combined into consistent one-way marginals and what these imply for tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import combinations

import numpy as np

from pgmest.mechanisms.lamp.answers import Answer, RangeAnswers
from pgmest.mechanisms.lamp.groups import branches, nested_groups
from pgmest.mechanisms.lamp.one_way import OneWayEstimate
from pgmest.mechanisms.lamp.possible_cells import PossibleCells, TiedTables
from pgmest.mechanisms.lamp.public_tables import PublicTables
from pgmest.mechanisms.lamp.tree_counts import TreeAnswers
from pgmest.tables.domain import Clique, Domain


@dataclass(frozen=True, eq=False)
class OneWayEvidence:
    """The measurements so far, and the one-way marginals estimated from them.

    Args:
        domain: The attributes.
        total: The number of records.
        noisy: The noisy counts of each measured attribute, and their variance.
        answers: The answers about pairs and then those about triples, one for each query.
        ranges: For some attributes, answers about ranges of codes.
        public: The public table, if there is one.
        public_pairs: The pairs that scores found closer to the public table than to independence.
        predictions: For some measured pairs, the table that other answers predict, over all codes; see `cross_fitted`.
        possible: The structural zeros, if there are any.
    """

    domain: Domain
    total: float
    noisy: dict[str, tuple[np.ndarray, float]]
    answers: tuple[Answer, ...]
    ranges: Mapping[str, tuple[RangeAnswers, ...]] = field(default_factory=dict)
    public: PublicTables | None = None
    public_pairs: frozenset[Clique] = frozenset()
    predictions: Mapping[Clique, np.ndarray] = field(default_factory=dict)
    possible: PossibleCells | None = None

    @cached_property
    def _with_ranges(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The counts and the covariance of their errors, for attributes with answers about ranges."""
        found = {}
        for name, answers in self.ranges.items():
            if name in self._trees:
                found[name] = self._counts(name), self._trees[name].covariance
                continue
            counts, covariance = self._counts(name), self._covariance(name)
            for answer in answers:
                counts, covariance = answer.applied(counts, covariance)
            counts = np.maximum(counts, 1e-6 * self.total / len(counts))
            found[name] = counts * (self.total / counts.sum()), covariance
        return found

    def _covariance(self, name: str) -> np.ndarray:
        """Return the covariance of the errors in the counts of codes, given their sum.

        In the prior, the standard deviation of each count and of each nested group's sum equals its size. Without the
        groups, the sums of many codes would be assumed too certain.
        """
        counts, stddev = self._counts(name), self.stddev(name)
        before = sum(
            (np.outer(counts, counts) * (labels[:, None] == labels) for labels in nested_groups(counts)),
            np.zeros((len(counts), len(counts))),
        )
        known = before if stddev == math.inf else np.linalg.solve(before + stddev**2 * np.eye(len(counts)), before)
        covariance = known if stddev == math.inf else stddev**2 * (known + known.T) / 2
        sums = covariance.sum(axis=0)
        return covariance - np.outer(sums, sums) / sums.sum()

    def covariance(self, name: str) -> np.ndarray:
        """Return the covariance of the errors in the counts of an attribute, shape (codes, codes)."""
        return self._with_ranges[name][1] if name in self.ranges else self._covariance(name)

    @cached_property
    def _one_way(self) -> dict[str, OneWayEstimate]:
        """The estimated one-way marginal of each measured attribute, without answers about ranges."""
        noisy = {name: self._noise(name) for name in self.noisy}
        found = {name: OneWayEstimate.of(*noisy[name], self.total) for name in noisy if name not in self._trees}
        if self.public is not None:
            publicly = {
                name: OneWayEstimate.publicly(*known, self.total, self.public.one_way(name, self.total))
                for name, known in noisy.items()
                if name in found
            }
            found.update((name, known) for name, known in publicly.items() if known.risk < found[name].risk)
        for name, answers in self._trees.items():
            found[name] = OneWayEstimate(answers.counts, noisy[name][1], math.inf)
        return found

    @cached_property
    def _trees(self) -> dict[str, TreeAnswers]:
        """The answers about each measured attribute with a tree."""
        found = {}
        for name in self.noisy:
            if levels := branches(self.domain, name):
                values, stddev = self._noise(name)
                public = None if self.public is None else self.public.one_way(name, self.total)
                groups = self.ranges.get(name, ())
                found[name] = TreeAnswers(values, stddev**2, groups, levels, self.total, public)
        return found

    def distinguished(self) -> dict[str, np.ndarray]:
        """Return, for each attribute with a tree, whether the codes of each lowest branch are distinguished."""
        return {name: answers.distinguished for name, answers in self._trees.items()}

    def _noise(self, name: str) -> tuple[np.ndarray, float]:
        """Return the noisy counts of an attribute and the standard deviation of the noise."""
        values, variance = self.noisy[name]
        return values, variance**0.5

    def counts(self, name: str) -> np.ndarray:
        """Return the estimated one-way marginal, which has the sum `total` and is positive for possible codes."""
        if self._tied is not None and self._tied.holds(name):
            return self._tied.table((name,))
        return self._separate_counts(name)

    def _separate_counts(self, name: str) -> np.ndarray:
        """Return the one-way marginal before it is made to agree with the structural zeros."""
        return self._with_ranges[name][0] if name in self.ranges else self._counts(name)

    @cached_property
    def _tied(self) -> TiedTables | None:
        """The tables that follow from the one-way marginals and the structural zeros, if there are any."""
        if self.possible is None or not self.possible.tied:
            return None
        separate = {name: self._separate_counts(name) for name in self._one_way}
        noisy = {name: self._noisy_counts(name) for name in separate}
        return self.possible.tables(separate, noisy, self.total)

    def _noisy_counts(self, name: str) -> tuple[np.ndarray, float]:
        """Return the noisy counts of an attribute and their standard deviation; those with ranges are estimates."""
        return (self._separate_counts(name), self.stddev(name)) if name in self.ranges else self._noise(name)

    def _implied(self, clique: Clique) -> np.ndarray | None:
        """Return the table over all codes that structural zeros imply for attributes that they tie, or None."""
        if self._tied is None or sum(map(self._tied.holds, clique)) < 2:
            return None
        return self.expected([clique])[clique]

    @cached_property
    def ties(self) -> dict[Clique, float]:
        """The pairs inside rules of structural zeros, with the total variation distance of what these imply for a pair
        from independence."""
        if self.possible is None:
            return {}
        pairs = {pair for clique in self.possible.potentials.cliques for pair in combinations(clique, 2)}
        tables = self.expected(sorted({self.domain.ordered(pair) for pair in pairs}))
        return {
            pair: _distance(table, np.outer(table.sum(axis=1), table.sum(axis=0))) for pair, table in tables.items()
        }

    def expected(self, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
        """Return the tables over all codes that have the largest entropy given the one-way marginals.

        The attributes are independent, except for those that structural zeros tie.
        """
        asked = list(cliques)
        tied = {clique: tuple(name for name in clique if self._tied and self._tied.holds(name)) for clique in asked}
        if self._tied is not None:
            self._tied.prepare(names for names in tied.values() if names)
        return {clique: self._joined(clique, tied[clique]) for clique in asked}

    def _joined(self, clique: Clique, tied: Clique) -> np.ndarray:
        """Return the table of a clique, of whose attributes structural zeros tie the given ones."""
        if self._tied is None or len(tied) < 2:
            return reduce(np.multiply.outer, map(self.counts, clique)) / self.total ** (len(clique) - 1)
        others = [name for name in clique if name not in tied]
        table = reduce(np.multiply.outer, map(self.counts, others), self._tied.table(tied)) / self.total ** len(others)
        order = [*tied, *others]
        return table.transpose([order.index(name) for name in clique])

    def _counts(self, name: str) -> np.ndarray:
        """Return the counts without answers about ranges; uniform for an attribute that was not measured."""
        size = self.domain[name]
        return self._one_way[name].counts if name in self._one_way else np.full(size, self.total / size)

    def stddev(self, name: str) -> float:
        """Return the standard deviation of the noise in each count of an attribute; inf if it was not measured."""
        return self._one_way[name].stddev if name in self._one_way else math.inf


def _distance(table: np.ndarray, other: np.ndarray) -> float:
    """Return the total variation distance between two tables of counts, as fractions."""
    return float(np.abs(table / table.sum() - other / other.sum()).sum() / 2)
