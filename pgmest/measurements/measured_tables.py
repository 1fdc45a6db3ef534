"""The tables that were measured, the error that their noise alone causes, and the tables that are modeled only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries.linear_query import LinearQuery
from pgmest.queries.matrices import Grouping, Identity
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.hierarchy import SEPARATOR, NamedLevel

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
"""The expected absolute value of a standard normal variable."""


@dataclass(frozen=True)
class MeasuredTable:
    """A measured table.

    Attributes:
        clique: the attributes of the table, or levels of their hierarchies.
        cells: the number of answers.
        stddev: the standard deviation of the noise of one answer, in records; repeated measurements are combined. It is
            0 for a table that is held exactly.
        mean_count: the average number of records per cell.
    """

    clique: Clique
    cells: int
    stddev: float
    mean_count: float

    @property
    def noise_dominated(self) -> bool:
        """True if the standard deviation of the noise exceeds the average count of a cell."""
        return self.stddev > self.mean_count

    @property
    def error(self) -> float:
        """An estimate of the share of records that the noise moves between cells, at most 1."""
        if not self.stddev:
            return 0.0
        return min(1.0, 0.5 * MEAN_ABSOLUTE * self.stddev / self.mean_count) if self.mean_count > 0 else 1.0


def measured_tables(
    measurements: Iterable[LinearMeasurement],
    records: float,
    domain: Domain,
    exact: Iterable[LinearMeasurement] = (),
) -> tuple[MeasuredTable, ...]:
    """Return the measured tables, each once, with the combined noise of its measurements, the smallest cliques first.

    Tables that exact answers determine have no noise.

    Args:
        measurements: the measurements.
        records: an approximate number of records, which must not be computed from private data.
        domain: the attributes, whose levels name tables over their groups.
        exact: answers that are held exactly, such as invariants; tables of which every cell is exact are listed, too.
    """
    precision: dict[Clique, float] = {}
    cells: dict[Clique, int] = {}
    held = {by_level(one, domain): one.rows for one in exact if one.clique and _is_whole(one)}
    for measurement in measurements:
        clique = by_level(measurement, domain)
        if clique and not any(determines(whole, clique, domain) for whole in held):
            spread = float(np.sqrt(np.mean(np.square(measurement.stddev))))
            precision[clique] = precision.get(clique, 0.0) + spread**-2
            cells[clique] = max(measurement.rows, cells.get(clique, 0))
    found = [MeasuredTable(c, cells[c], precision[c] ** -0.5, records / cells[c]) for c in precision]
    found += [MeasuredTable(clique, rows, 0.0, records / rows) for clique, rows in held.items()]
    return tuple(sorted(found, key=lambda table: (len(table.clique), table.stddev, table.cells)))


def by_level(measurement: LinearMeasurement, domain: Domain) -> Clique:
    """Return the attributes of a measurement, each in place of its level if exactly the level's groups were counted.

    >>> from pgmest import Hierarchy, queries
    >>> domain = Domain({"diagnosis": 3, "sex": 2}).with_hierarchies(Hierarchy("diagnosis", {"chapter": [0, 0, 1]}))
    >>> by_level(LinearMeasurement([5.0, 7.0], "diagnosis", query=queries.compress(3, [0, 0, 1])), domain)
    ('diagnosis@chapter',)
    """
    trees = domain.hierarchies
    if measurement.query is None or not any(name in trees for name in measurement.clique):
        return measurement.clique
    separated = _told_apart(measurement.query, measurement.clique, np.random.default_rng(0))
    found = []
    for name in measurement.clique:
        levels = trees[name].levels.items() if name in trees and name in separated else ()
        same = (level for level, own in levels if _refines(separated[name], own) and _refines(own, separated[name]))
        level = next(same, None)
        found.append(name if level is None else f"{name}{SEPARATOR}{level}")
    return tuple(found)


def _is_whole(measurement: LinearMeasurement) -> bool:
    """Return whether answers are exact and count each record once."""
    whole = measurement.query is None or all(isinstance(one, Grouping | Identity) for one in measurement.query.matrices)
    return whole and bool(measurement.exact_rows.all())


def determines(whole: Clique, clique: Clique, domain: Domain) -> bool:
    """Return whether a table of attributes and levels determines another one; attributes of one code need no table."""
    asked = [name for name in clique if domain[domain.level(name).attribute] > 1]
    return all(name in whole or any(finer in whole for finer in domain.finer(name)) for name in asked)


MEASURED, IN_GROUPS, MODELED = "measured", "in groups", "modeled"
"""The kinds of evidence behind a table: its own measurement, one of merged values, or none but a model's structure."""


@dataclass(frozen=True)
class MeasuredCliques:
    """The cliques that were measured, which tell measured tables from modeled ones.

    A modeled table follows from measured ones by assumptions of the model: it has the dependence that the model gives
    it, which may be none.

    Attributes:
        whole: the cliques of measurements that tell all values apart.
        grouped: the cliques of measurements that merge values of an attribute.
        merged: those of `grouped` as attribute -> the group of each value that a measurement tells apart, shape (n,).
        constants: the attributes of one value, which need no measurement.
    """

    whole: frozenset[frozenset[str]]
    grouped: frozenset[frozenset[str]] = frozenset()
    merged: tuple[Mapping[str, np.ndarray], ...] = field(default=(), compare=False, repr=False)
    constants: frozenset[str] = frozenset()

    @classmethod
    def of(cls, source: Any) -> MeasuredCliques | None:
        """Return the measured cliques of a mechanism's result or a model; None if it does not have them."""
        domain = getattr(source, "domain", None)
        constants = frozenset(domain).difference(domain.varying) if isinstance(domain, Domain) else frozenset[str]()
        exact = [one for one in getattr(source, "invariants", ()) if one.exact_rows.all()]
        measurements = [one for one in (*exact, *(getattr(source, "measurements", None) or ())) if one.clique]
        if not measurements:  # a model may have lost them
            cliques = frozenset(frozenset(clique) for clique in getattr(source, "cliques", ()) if clique)
            return cls(cliques, constants=constants) if cliques else None
        found: dict[bool, set[frozenset[str]]] = {True: set(), False: set()}
        generator, merged = np.random.default_rng(0), []
        for measurement in measurements:
            whole = _tells_all_apart(measurement.query, generator)
            found[whole].add(frozenset(measurement.clique))
            if not whole and isinstance(measurement.query, LinearQuery):
                merged.append(_told_apart(measurement.query, measurement.clique, generator))
        return cls(frozenset(found[True]), frozenset(found[False]), tuple(merged), constants)

    def evidence(self, clique: Iterable[str]) -> str:
        """Return the evidence behind the table of a clique: `MEASURED`, `IN_GROUPS` or `MODELED`."""
        asked = frozenset(clique) - self.constants
        if len(asked) <= 2:
            return MEASURED if asked in self._within_whole else IN_GROUPS if asked in self._within_grouped else MODELED
        if any(asked <= one for one in self.whole):
            return MEASURED
        return IN_GROUPS if any(asked <= one for one in self.grouped) else MODELED

    def evidence_by_level(self, levels: Iterable[NamedLevel]) -> str:
        """Return the evidence behind a table of attributes and levels (`pgmest.queries.levels.named_levels`).

        A level is measured if a measurement merges values only within its groups, and an attribute if one merges none
        of its values.
        """
        groups = {one.attribute: one.groups for one in levels}
        found = self.evidence(groups)
        if found != IN_GROUPS:
            return found
        known = any(
            all(name in self.constants or (name in one and _refines(one[name], own)) for name, own in groups.items())
            for one in self.merged
        )
        return MEASURED if known else found

    @cached_property
    def _within_whole(self) -> set[frozenset[str]]:
        return _small_subsets(self.whole)

    @cached_property
    def _within_grouped(self) -> set[frozenset[str]]:
        return _small_subsets(self.grouped)


def _small_subsets(cliques: Iterable[frozenset[str]]) -> set[frozenset[str]]:
    """Return all subsets of at most two attributes of the cliques."""
    return {frozenset(part) for one in cliques for size in range(3) for part in itertools.combinations(one, size)}


def _tells_all_apart(query: LinearQuery | None, generator: np.random.Generator) -> bool:
    """Return whether a query has an answer for each value of each attribute, or for each but one, and merges none."""
    return query is None or all(
        matrix.rows >= matrix.cells - 1
        and len(np.unique(np.round(matrix.transpose(generator.normal(size=matrix.rows)), 9))) == matrix.cells
        for matrix in query.matrices
    )


def _told_apart(query: LinearQuery, clique: Clique, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the group of each value of the attributes of a query, of which its answers tell the groups apart."""
    names = query.attributes or (clique if len(clique) == 1 else ())
    found = {}
    for name, matrix in zip(names, query.matrices if names else (), strict=True):
        columns = np.round(matrix.transpose(generator.normal(size=matrix.rows)), 9)
        found[name] = np.unique(columns, return_inverse=True)[1].reshape(-1)
        if matrix.rows < found[name].max():
            del found[name]
    return found


def _refines(fine: np.ndarray, coarse: np.ndarray | None) -> bool:
    """Return whether each fine group lies in one coarse group; None are groups of one value."""
    if coarse is None:
        return len(fine) == int(fine.max()) + 1
    parent = np.zeros(int(fine.max()) + 1, dtype=np.int64)
    parent[fine] = coarse
    return bool(np.array_equal(parent[fine], coarse))
