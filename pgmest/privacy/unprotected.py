"""Invariants: tables that a run publishes exactly, because they are public or held exactly by law.

An invariant is either given by the caller, as exact answers or bounds that are public anyway, or named, as attributes
whose true marginal is read from the records without noise. What is read is not protected. The promise then covers
tables that agree on it: between two such tables, costs are those of the neighboring relation, since for fixed
invariants everything else that a run computes is private (subspace differential privacy; Gao, Gong, Yu 2022).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import plural
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries import Kron, MatrixQuery
from pgmest.queries.levels import named_levels, without_levels
from pgmest.queries.matrices import Grouping, Identity
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

Invariant = LinearMeasurement | Clique
"""Answers that the caller gives, or the names of attributes or levels whose table is read from the records."""

NUMBER = "number of records"
"""The name of the table of no attributes."""


def name_of(clique: Iterable[str]) -> str:
    """Return the name of a table in texts."""
    return " x ".join(clique) or NUMBER


def named_tables(invariants: Iterable[Invariant]) -> tuple[Clique, ...]:
    """Return the names of the tables that are read from the records."""
    return tuple(one for one in invariants if not isinstance(one, LinearMeasurement))


def check_names(invariants: Iterable[Invariant], domain: Domain) -> tuple[Invariant, ...]:
    """Return the invariants after checking that they fit the domain, before a record is read.

    Raises:
        UnknownAttributeError, DuplicateAttributeError, ShapeError, QueryError: one does not fit the domain.
    """
    found = tuple(invariants)
    for one in found:
        if isinstance(one, LinearMeasurement):
            one.without_levels(domain).check(domain)
        else:
            named_levels(domain, one)
    return found


def public_json(invariant: Invariant) -> dict[str, Any]:
    """Return what is public of an invariant before a record is read, as JSON values: its table, or a digest."""
    if not isinstance(invariant, LinearMeasurement):
        return {"table": list(invariant), "given": False}
    ends = [np.asarray(end, dtype=np.float64).tobytes() for end in (invariant.low, invariant.high)]
    digest = hashlib.sha256(repr(invariant).encode() + b"".join(ends)).hexdigest()[:16]
    return {"table": list(invariant.clique), "given": True, "digest": digest}


@dataclass(frozen=True)
class Unprotected:
    """A table that a run publishes without protection.

    >>> print(Unprotected(("region", "sex"), given=False, cells=58, empty=3, single=2))
    region x sex: read exactly from the records; 58 cells, 3 with no record and 2 with a single one

    Attributes:
        clique: the attributes or levels.
        given: whether the caller gave the answers, as public.
        cells: the number of its answers.
        empty, single: the numbers of answers of 0 and of 1, which may tell about single persons.
    """

    clique: Clique
    given: bool
    cells: int
    empty: int
    single: int

    @classmethod
    def of(cls, names: Clique, measurement: LinearMeasurement, given: bool) -> Unprotected:
        """Return the description of a table.

        Args:
            names: the attributes or levels.
            measurement: its answers.
            given: whether the caller gave them.
        """
        exact = measurement.values[measurement.exact_rows]
        empty, single = (int((exact == value).sum()) for value in (0.0, 1.0))
        return cls(names, given, measurement.rows, empty, single)

    @property
    def name(self) -> str:
        """The name of the table."""
        return name_of(self.clique)

    def __str__(self) -> str:
        source = "given as public" if self.given else "read exactly from the records"
        if not (self.empty or self.single):
            return f"{self.name}: {source}"
        few = f"{self.empty:,} with no record and {self.single:,} with a single one"
        return f"{self.name}: {source}; {plural(self.cells, 'cell')}, {few}"

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON values."""
        return {"table": list(self.clique), "given": self.given, "empty": self.empty, "single": self.single}


def read_exactly(data: Dataset, names: Clique) -> LinearMeasurement:
    """Return the true marginal of attributes or levels, which is then not protected.

    Raises:
        UnknownAttributeError: the domain lacks one.
    """
    query, attributes = without_levels(data.domain, None, names)
    clique = data.domain.clique(names if attributes is None else attributes)
    table = data.project(clique)
    if query is None:
        return LinearMeasurement.exact(table.values, clique)
    return LinearMeasurement.exact(query.in_order(clique).apply(table.datavector()).reshape(-1), clique, query)


class Invariants:
    """The invariants of a run, with their answers.

    Args:
        invariants: what is given and what is read.
        data: the records.

    Attributes:
        measurements: the answers, in the order of the invariants.
        unprotected: a description of each table.
    """

    def __init__(self, invariants: Iterable[Invariant], data: Dataset):
        listed = tuple(invariants)
        self.measurements: tuple[LinearMeasurement, ...] = tuple(
            one.without_levels(data.domain) if isinstance(one, LinearMeasurement) else read_exactly(data, one)
            for one in listed
        )
        self.unprotected: tuple[Unprotected, ...] = tuple(
            Unprotected.of(one.clique, one, given=True)
            if isinstance(one, LinearMeasurement)
            else Unprotected.of(one, found, given=False)
            for one, found in zip(listed, self.measurements, strict=True)
        )

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that some invariant is about."""
        return frozenset(name for one in self.measurements for name in one.clique)

    def table(self, clique: Clique, domain: Any) -> Factor | None:
        """Return the true marginal of a clique, in its order, if an invariant determines it; None otherwise."""
        for one in self.measurements:
            if one.query is None and one.exact_rows.all() and set(clique) <= set(one.clique):
                within = domain.project(one.clique)
                return Factor(within, one.values.reshape(within.shape)).project(clique)
        return None

    def answers(self, asked: LinearMeasurement, domain: Domain) -> np.ndarray | None:
        """Return the true answers to a question about attributes, if an invariant determines them; None otherwise."""
        table = self.table(asked.clique, domain)
        if table is not None:
            return asked.answer_cells(table.datavector())
        query = asked.query
        if isinstance(query, MatrixQuery) and len(asked.clique) == 1:
            query = Kron({asked.clique[0]: query})
        if not isinstance(query, Kron):
            return None
        for one in self.measurements:
            if isinstance(one.query, Kron) and one.exact_rows.all():
                lifted = _on_groups(query, one.query)
                if lifted is not None:
                    within = Domain(zip(one.query.attributes, one.query.answer_shape, strict=True))
                    return lifted.apply(Factor(within, one.values.reshape(within.shape))).reshape(-1)
        return None

    @property
    def total(self) -> int | None:
        """The number of records, if an invariant determines it."""
        for one in self.measurements:
            if one.exact_rows.all() and counts_all(one):
                return int(np.rint(one.values.sum()))
        return None


def _on_groups(query: Kron, grouping: Kron) -> Kron | None:
    """Return a query as one on counts of groups of cells, if it has the same entries for all cells of a group."""
    factors: dict[str, Any] = {}
    for name, asked in query.factors.items():
        groups = grouping.factors.get(name)
        if not isinstance(groups, Grouping | Identity):
            return None
        if isinstance(groups, Identity):
            factors[name] = asked
            continue
        if isinstance(asked, Identity):
            return None
        first = np.unique(groups.groups, return_index=True)[1]
        own = np.asarray(asked.matrix())
        if len(first) != groups.rows or not np.array_equal(own[:, first][:, groups.groups], own):
            return None
        factors[name] = own[:, first]
    return Kron(factors)


def counts_all(measurement: LinearMeasurement) -> bool:
    """Return whether each cell is in exactly one answer."""
    return measurement.query is None or bool(
        (measurement.transpose_cells(np.ones(measurement.rows)) == 1.0).all()
        and (measurement.weighted_column_squares(1.0) == 1.0).all()
    )
