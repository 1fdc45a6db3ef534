"""Facts: exact answers to linear queries, and least ones, which rounded records hold as whole numbers.

A fact is about a table inside some clique of the junction tree. Tables are rounded from the root outwards, so the
counts of a separator are fixed before the child's table is made. `Facts.margin` gives what a fact says about a
separator, so that the parent's table leaves the child a table that holds the fact.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from pgmest.errors import listed, plural
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.margins import margin_cells

MET = 1e-6
"""An answer that differs from a fact by at most this much, relative to answers above 1, holds the fact."""


class UnmetFactsWarning(UserWarning):
    """Synthetic records miss exact answers, because no whole numbers that are possible hold them all."""


@dataclass(frozen=True, eq=False)
class Facts:
    """Exact answers Q x = b about a table x of counts, or bounds Q x >= b.

    Attributes:
        clique: the attributes of the table, row-major.
        matrix: Q, shape (rows, cells).
        values: b, in counts, shape (rows,).
        least: whether the answers may be larger. Then repairs alone hold them, as no table is fitted to them.
    """

    clique: Clique
    matrix: Any  # a csr_array, whose stubs lack shapes
    values: np.ndarray
    least: bool = False

    @classmethod
    def of(cls, measurement: LinearMeasurement) -> Facts | None:
        """Return the exact answers of a measurement; None without any."""
        return cls._chosen(measurement, np.flatnonzero(measurement.exact_rows))

    @classmethod
    def bounds(cls, measurement: LinearMeasurement) -> Facts | None:
        """Return the answers of a measurement that have a lower end only, unless no counts can be below it."""
        if measurement.high is None or not np.isinf(measurement.high).any():
            return None
        found = cls._chosen(measurement, np.flatnonzero(np.isinf(measurement.high)), least=True)
        assert found is not None
        useful = np.flatnonzero((found.values > 0.0) | (found.matrix.min(axis=1).toarray().reshape(-1) < 0.0))
        return replace(found, matrix=found.matrix[useful], values=found.values[useful]) if useful.size else None

    @classmethod
    def _chosen(cls, measurement: LinearMeasurement, rows: np.ndarray, least: bool = False) -> Facts | None:
        if not rows.size:
            return None
        assert measurement.low is not None
        return cls(measurement.clique, measurement.sparse_rows(rows), measurement.low[rows], least)

    @cached_property
    def groups(self) -> np.ndarray | None:
        """The row that counts each cell, -1 without one; None if a cell is in two rows or has another weight than 1.

        It is None for bounds, too.
        """
        if self.least:
            return None
        entries = self.matrix.tocoo()
        if (entries.data != 1.0).any() or len(np.unique(entries.col)) < len(entries.col):
            return None
        groups = np.full(self.matrix.shape[1], -1)
        groups[entries.col] = entries.row
        return groups

    def margin(self, domain: Domain, attributes: Iterable[str]) -> Facts | None:
        """Return what follows for the margin on some of the attributes, each cell of which is one row; None if nothing.

        A cell of the margin is known if groups of cells that are counted by facts make it up.
        """
        kept = set(attributes)
        if kept.issuperset(self.clique):
            return self
        names, groups = tuple(name for name in self.clique if name in kept), self.groups
        if groups is None or not names:
            return None
        cells = domain.size(names)
        of = margin_cells(domain, self.clique, names)
        counted = groups >= 0
        known = np.bincount(of[~counted], minlength=cells) == 0
        first = np.full(len(self.values), -1)
        first[groups[counted]] = of[counted]
        astray = counted & (first[groups] != of)  # cells of a group that reaches over several cells of the margin
        known[of[astray]] = False
        known[first[groups[astray]]] = False
        if not known.any():
            return None
        sums = np.bincount(np.maximum(first, 0), self.values * (first >= 0), minlength=cells)
        chosen = np.flatnonzero(known)
        rows = csr_array((np.ones(chosen.size), (np.arange(chosen.size), chosen)), shape=(chosen.size, cells))
        return Facts(names, rows, sums[chosen])

    def substituted(
        self, domain: Domain, functions: Mapping[str, tuple[str, np.ndarray]], cliques: Sequence[Clique]
    ) -> Facts:
        """Return the same facts about a table inside one of the cliques, of attributes that determine this table's.

        Args:
            domain: the attributes.
            functions: attribute -> the attribute that determines it, and its code for each code of that attribute.
            cliques: the cliques. If no clique has such a table, the facts are returned as they are.
        """
        if any(set(self.clique) <= set(clique) for clique in cliques):
            return self
        chains = {name: _sources(name, domain, functions) for name in self.clique}
        found = ({name: [end for end in chains[name] if end[0] in clique][:1] for name in chains} for clique in cliques)
        ends = next((each for each in found if all(each.values())), None)
        if ends is None:
            return self
        names = tuple(dict.fromkeys(source for ((source, _),) in ends.values()))
        codes = dict(zip(names, np.indices(domain.project(names).shape).reshape(len(names), -1), strict=True))
        cells = np.zeros(domain.size(names), dtype=np.int64)
        for name, ((source, function),) in ends.items():
            cells = cells * domain[name] + function[codes[source]]
        return replace(self, clique=names, matrix=csr_array(self.matrix[:, cells]))

    def outside(self, answers: np.ndarray, scale: float) -> np.ndarray:
        """Return the distance of each answer from `ends`, 0 between them."""
        low, high = self.ends(scale)
        return self._noticed(np.maximum(np.maximum(low - answers, answers - high), 0.0))

    def unmet(self, answers: np.ndarray, scale: float) -> np.ndarray:
        """Return the distance of each answer from the fact; from `ends` for another number of records."""
        exact = scale == 1.0 and not self.least
        return self._noticed(np.abs(answers - self.values)) if exact else self.outside(answers, scale)

    def _noticed(self, off: np.ndarray) -> np.ndarray:
        return np.where(off <= MET * np.maximum(1.0, np.abs(self.values)), 0.0, off)

    def ends(self, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest answers that records should have.

        These are the facts, and the whole numbers around them where answers are whole and facts are fractions. If
        facts are scaled for another number of records, they are always the whole numbers around them.
        """
        scaled = self.values * scale
        low, high = np.floor(scaled + MET), np.ceil(scaled - MET)
        if scale == 1.0:
            fractions = np.abs(self.matrix - self.matrix.rint()).sum(axis=1) > 0.0
            low, high = np.where(fractions, scaled, low), np.where(fractions, scaled, high)
            low = np.where(fractions | ~np.full(len(low), self.least), low, np.ceil(scaled - MET))
        return low, np.full(len(low), np.inf) if self.least else high


def exact_facts(measurements: Iterable[LinearMeasurement]) -> tuple[Facts, ...]:
    """Return the exact answers among measurements."""
    return tuple(facts for facts in map(Facts.of, measurements) if facts is not None)


def held_facts(measurements: Iterable[LinearMeasurement]) -> tuple[Facts, ...]:
    """Return the exact answers among measurements, and their bounds."""
    known = tuple(measurements)
    return (*exact_facts(known), *(facts for facts in map(Facts.bounds, known) if facts is not None))


def facts_scale(n: int, total: float) -> float:
    """Return the factor from facts about a total to counts of n records: 1 if n is the total, rounded."""
    return 1.0 if n == round(total) or not total > 0 else n / total


def warn_of_unmet(unmet: np.ndarray, n: int) -> None:
    """Warn of facts that n records miss, if any, given the distance of each, in records."""
    if unmet.size:
        some = "1 exact answer does" if unmet.size == 1 else f"{unmet.size:,} exact answers do"
        _warn(
            f"{some} not hold in the {plural(n, 'synthetic record')}, which are off by {unmet.max():.4g} at most and "
            f"{unmet.sum():.4g} in all. Check that the exact answers are whole numbers that fit together, and that "
            "structural zeros leave room for them."
        )


def warn_of_tables(facts: Sequence[Facts]) -> None:
    """Warn of facts about tables that are inside no clique of the model, if any."""
    if facts:
        names = listed(" x ".join(one.clique) for one in facts)
        _warn(
            f"records may miss exact answers about {names}, because no table of the model has all these attributes. "
            "Estimate the model from these answers, too."
        )


def _warn(message: str) -> None:
    """Warn at the line that called the package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("pgmest."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UnmetFactsWarning, stacklevel=level)


def _sources(
    name: str, domain: Domain, functions: Mapping[str, tuple[str, np.ndarray]]
) -> list[tuple[str, np.ndarray]]:
    """Return the attribute and those that determine it, each with the attribute's code for each of its codes."""
    found = [(name, np.arange(domain[name]))]
    while found[-1][0] in functions:
        source, function = functions[found[-1][0]]
        found.append((source, found[-1][1][function]))
    return found
