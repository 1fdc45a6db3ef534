"""Relations between tables that a ledger of a dataset accounts for, and which runs a ledger accepts.

A relation says which tables must be hard to tell apart: they differ in the rows of one person, or by replacing them. It
consists of a neighboring relation and, if the schema of the run has a `unit`, of the column that tells persons apart.
With a unit the tables differ in all rows of one person, however many: the bound `at_most` belongs to the mechanism,
which drops the rows beyond it, and not to the promise. So two runs with the same column add up whatever their bounds.

A ledger accepts a run whose relation implies its own, and charges its cost as it is. A run that protects less, or
another unit, is refused: what it would cost in the ledger's relation is several times as much, or not known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, BudgetTypeError, LedgerError, listed
from pgmest.privacy.budgets import GDP, ApproxDP, Budget, Epsilon, Rho
from pgmest.privacy.neighbors import AddRemove, Change, Neighbors, Replace
from pgmest.privacy.unprotected import name_of
from pgmest.tables.domain import Clique, Domain

KINDS: dict[str, type[Neighbors]] = {"AddRemove": AddRemove, "Replace": Replace, "Change": Change}


@dataclass(frozen=True)
class Relation:
    """A relation between tables.

    >>> print(Relation(AddRemove(3)))
    at most 3 rows of one person added or removed
    >>> Relation(AddRemove(3)).implies(Relation(AddRemove())), Relation(AddRemove()).implies(Relation(AddRemove(3)))
    (True, False)

    Attributes:
        neighbors: the neighboring relation of the records that are counted.
        unit: the column that tells persons apart, for runs whose schema has a `unit`; None if rows are protected.
        invariants: the tables on which both agree, since they are published exactly, by their attributes or levels.
        codes: for a run, a digest of the groups of values of each attribute or level that its invariants name, and of
            those that determine them; with what a schema says that the codes mean, if one made them.
        finer: for a run, each level that its invariants name, with the attribute and the finer levels that determine
            it.
    """

    neighbors: Neighbors
    unit: str | None = None
    invariants: tuple[Clique, ...] = ()
    codes: tuple[tuple[str, str], ...] = ()
    finer: tuple[tuple[str, Clique], ...] = ()

    def __str__(self) -> str:
        return self._rows() + (f", with the same {listed(map(name_of, self.invariants))}" if self.invariants else "")

    def _rows(self) -> str:
        records = self.neighbors.records
        if self.unit is not None:
            if isinstance(self.neighbors, Change):
                return f"one row of '{self.unit}' added, removed or changed, but not moved to another parent row"
            return f"all rows of one '{self.unit}' added or removed"
        rows = "one row" if records == 1 else f"at most {records} rows of one person"
        kinds = {AddRemove: "added or removed", Replace: "replaced", Change: "added, removed or changed"}
        return f"{rows} {kinds[type(self.neighbors)]}"

    def to_json(self) -> dict[str, Any]:
        """Return the relation as JSON values."""
        unit = {} if self.unit is None else {"unit": self.unit}
        fixed = {"invariants": list(map(list, self.invariants))} if self.invariants else {}
        fixed |= {"codes": dict(self.codes)} if self.codes else {}
        fixed |= {"finer": {name: list(others) for name, others in self.finer}} if self.finer else {}
        return {"neighbors": type(self.neighbors).__name__, "records": self.neighbors.records, **unit, **fixed}

    @classmethod
    def from_json(cls, values: Any) -> Relation:
        """Return the relation that `to_json` wrote.

        Raises:
            ArgumentError: if the values are not those of a relation.
        """
        try:
            unit = values.get("unit")
            fixed = tuple(tuple(map(str, clique)) for clique in values.get("invariants", ()))
            codes = tuple((str(name), str(digest)) for name, digest in values.get("codes", {}).items())
            finer = tuple((str(name), tuple(map(str, names))) for name, names in values.get("finer", {}).items())
            if unit is None or isinstance(unit, str):
                return cls(KINDS[values["neighbors"]](values["records"]), unit, fixed, codes, finer)
        except (KeyError, TypeError, AttributeError, ArgumentError):
            pass
        raise ArgumentError.of("relation", values, "the neighbors, records and unit of a relation")

    def implies(self, other: Relation) -> bool:
        """Return whether this relation relates any two tables that another one relates, so that costs stay as they are.

        - With the same unit it does: both relate tables that differ in all rows of one person. Rows and units, and two
          units, never imply each other.
        - `AddRemove(a)` implies `AddRemove(b)`, and `Replace(a)` implies `Replace(b)`, if a >= b. `Change(a)` also
          implies both of the others.
        - A table of this relation's `invariants` must be one of the other's, or be determined by one: by a table of the
          same or more attributes, each in place of its levels. `Replace` has the same number of records.
        """
        held = [set(clique) for clique in other.invariants]
        if isinstance(other.neighbors, Replace):
            held.append(set())  # the number of records is the same
        if not all(any(self._determined(set(clique), whole) for whole in held) for clique in self.invariants):
            return False
        kinds = type(self.neighbors), type(other.neighbors)
        enough = self.unit is not None or self.neighbors.records >= other.neighbors.records
        return self.unit == other.unit and (kinds[0] is Change or kinds[0] is kinds[1]) and enough

    def _determined(self, clique: set[str], whole: set[str]) -> bool:
        """Return whether the table of `clique` is a function of that of `whole`, which may name finer levels."""
        finer = dict(self.finer)
        return all(name in whole or not whole.isdisjoint(finer.get(name, ())) for name in clique)

    def check_codes(self, earlier: Relation, path: object) -> None:
        """Check that names of attributes and levels mean the same as in an earlier run on the same ledger.

        Raises:
            LedgerError: if one means other values or groups: both runs together publish more than the ledger names.
        """
        known = dict(earlier.codes)
        for name, digest in self.codes:
            if known.get(name, digest) != digest:
                raise LedgerError(
                    f"{path}: an earlier run published '{name}' with other values or groups of them, and both tables "
                    "together tell more than the ledger names. Take the same domain and hierarchies, and the same "
                    "description of the column in the schema, or leave out invariants=."
                )

    def check_on(self, ledger: Relation, path: object) -> None:
        """Check that a ledger of the relation `ledger` accepts a run of this one.

        Raises:
            LedgerError: if this relation does not imply it.
        """
        if not self.implies(ledger):
            raise LedgerError(
                f"{path} protects {ledger}, but this run protects {self}: their costs cannot be added up. "
                f"{_remedy(self, ledger)}"
            )


def _remedy(run: Relation, ledger: Relation) -> str:
    if run.invariants and run.invariants != ledger.invariants:
        return (
            "The run publishes tables exactly that the ledger protects: leave out invariants=, or name a ledger that "
            "was created with the same invariants=."
        )
    if ledger.unit is not None:
        return f"Give the schema of the run a unit with the column '{ledger.unit}', or name another ledger."
    if run.unit is not None:
        return "Name another ledger, created for what the run protects (unit=, pgmest ledger create --unit COLUMN)."
    option = f" (--records-per-person {ledger.neighbors.records})" if isinstance(ledger.neighbors, AddRemove) else ""
    return (
        f"Run it with neighbors={ledger.neighbors}{option}, or name another ledger, created for what the run protects "
        "(neighbors=, pgmest ledger create --records-per-person)."
    )


def converted(budget: Budget, ledger: Budget, label: str) -> Budget:
    """Return a cost in the type of a ledger: all types but ApproxDP as Rho, and Epsilon as ApproxDP.

    Args:
        budget: the cost.
        ledger: the budget of the ledger.
        label: the name of the cost in the error message.

    Raises:
        BudgetTypeError: if no bound of the ledger's type is known.
    """
    if type(budget) is type(ledger):
        return budget
    if isinstance(ledger, Rho) and isinstance(budget, Epsilon | GDP):
        return budget.to_rho()
    if isinstance(ledger, ApproxDP) and isinstance(budget, Epsilon):
        return budget.to_approx()
    raise BudgetTypeError.of(label, type(ledger), budget)


def relation_of(neighbors: Neighbors, data: Any, invariants: tuple[Clique, ...] = ()) -> Relation:
    """Return the relation of a run on these records: its neighbors, and the unit by which the records were bounded."""
    bounded = getattr(data, "records_per_person", None) is not None
    names = sorted({name for clique in invariants for name in clique})
    finer = tuple((name, found) for name in names if (found := data.domain.finer(name)))
    known = dict.fromkeys([*names, *(one for _, others in finer for one in others)])
    coding = getattr(data, "coding", None) or {}
    codes = tuple((name, _digest(data.domain, name, coding)) for name in known)
    return Relation(neighbors, getattr(data, "unit_column", None) if bounded else None, invariants, codes, finer)


def _digest(domain: Domain, name: str, coding: Mapping[str, str]) -> str:
    """Return a digest of the groups of an attribute or a level, whatever their numbers, and of what the codes mean."""
    level = domain.level(name)
    size = domain[level.attribute]
    groups = np.arange(size) if level.groups is None else np.asarray(level.groups)
    first = np.full(int(groups.max()) + 1, size)
    np.minimum.at(first, groups, np.arange(size))
    meaning = coding.get(level.attribute, "").encode()
    return hashlib.sha256(first[groups].astype("<i8").tobytes() + meaning).hexdigest()[:16]


def stated_relation(
    neighbors: Neighbors | None, unit: str | None, invariants: Iterable[Iterable[str]] = ()
) -> Relation:
    """Return the relation of a new ledger. With invariants, neighbors have as many records: `Replace` is the default.

    Raises:
        ArgumentError: if neighbors or invariants are stated beside a unit, which protects all rows of a person,
            whatever their number; or if invariants are stated beside `AddRemove`.
    """
    fixed = tuple(map(tuple, invariants))
    if fixed and unit is not None:
        raise ArgumentError.of("invariants", fixed, f"left out: unit={unit!r} protects all rows of a person")
    if fixed and isinstance(neighbors, AddRemove):
        raise ArgumentError.of("neighbors", neighbors, "Replace(...): tables with the same totals have as many records")
    if unit is None:
        return Relation((Replace() if fixed else AddRemove()) if neighbors is None else neighbors, None, fixed)
    if not isinstance(unit, str) or not unit:
        raise ArgumentError.of("unit", unit, "the name of the column that tells persons apart")
    if neighbors not in (None, AddRemove()):
        raise ArgumentError.of("neighbors", neighbors, f"left out: unit={unit!r} protects all rows of a person")
    return Relation(AddRemove(), unit)
