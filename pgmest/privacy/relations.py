r"""Relations between tables that a ledger of a dataset accounts for, and the conversion of a cost from one to another.

A relation says which tables must be hard to tell apart: they differ in the rows of one person, or by replacing them. It
consists of a neighboring relation and, if the schema of the run has a `unit`, of the column that tells persons apart.
With a unit the tables differ in all rows of one person, however many: the bound `at_most` belongs to the mechanism,
which drops the rows beyond it, and not to the promise. So two runs with the same column add up whatever their bounds.

A cost that was paid under one relation holds under another if any two tables that the second one relates can be joined
by a chain of m steps, each of which the first one relates (group privacy). Then

- $\epsilon$-DP becomes $m \epsilon$-DP, and $(\epsilon, \delta)$-DP becomes
  $(m \epsilon, \delta \sum_{j < m} e^{j \epsilon})$-DP (Vadhan 2017, Lemma 2.2, before the sum is bounded),
- $\rho$-zCDP becomes $m^2 \rho$-zCDP (Bun, Steinke 2016, Proposition 1.9),
- $\mu$-GDP becomes $m \mu$-GDP (Dong, Roth, Su 2022, Theorem 2.14).

Rows and persons of a unit are never converted into each other: nobody has bounded how many rows a person has.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, BudgetTypeError, LedgerError, listed
from pgmest.privacy.budgets import GDP, ApproxDP, Budget, Epsilon, Rho
from pgmest.privacy.gaussian import SAFETY
from pgmest.privacy.neighbors import AddRemove, Change, Neighbors, Replace
from pgmest.privacy.unprotected import name_of
from pgmest.tables.domain import Clique, Domain

KINDS: dict[str, type[Neighbors]] = {"AddRemove": AddRemove, "Replace": Replace, "Change": Change}
MOST_STEPS = 1000
"""The longest chain of steps that a cost is converted for. Longer ones cost a million times as much in rho."""


@dataclass(frozen=True)
class Relation:
    """A relation between tables.

    >>> print(Relation(AddRemove(3)))
    at most 3 rows of one person added or removed
    >>> Relation(AddRemove()).steps_to(Relation(AddRemove(3)))
    3

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

    def steps_to(self, other: Relation) -> int | None:
        """Return the number of steps of this relation that join any two tables that another one relates.

        - With the same unit, 1: both relate tables that differ in all rows of one person.
        - `AddRemove(a)` to `AddRemove(b)`, and `Replace(a)` to `Replace(b)`: ceil(b / a). If this relation fixes
          `invariants` and b > a, one table of the other's must have all of their attributes: then each record is
          replaced by one of the same cell. Otherwise None, as records may have to be replaced together.
        - `AddRemove(a)` to `Replace(b)` or `Change(b)`: 2 ceil(b / a), since the rows are removed first and others
          added then. `Change(a)` to any other: ceil(b / a).
        - `Replace` to `AddRemove`, rows to a unit, a unit to rows, and one unit to another: None, as no number of steps
          suffices, or none is known. The same holds if a table of `invariants` is protected there. It is not if tables
          of the same or more attributes are not, each in place of its levels.
        """
        fixed, held = ([set(clique) for clique in one.invariants] for one in (self, other))
        if isinstance(other.neighbors, Replace):
            held.append(set())  # the number of records is the same
        if not all(any(self._determined(clique, whole) for whole in held) for clique in fixed):
            return None
        if self.unit is not None or other.unit is not None:
            return 1 if self.unit == other.unit else None
        if isinstance(self.neighbors, Replace) and not isinstance(other.neighbors, Replace):
            return None
        steps = -(-other.neighbors.records // self.neighbors.records)
        if steps > 1 and not any(self._determined(set().union(*fixed), clique) for clique in [set(), *held]):
            return None
        direct = isinstance(self.neighbors, Change) or type(self.neighbors) is type(other.neighbors)
        return steps if direct else 2 * steps

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

    def steps_on(self, other: Relation, path: object) -> int:
        """Return the same number for a ledger of the relation `other`.

        Raises:
            LedgerError: if there is no such number, or it is too large.
        """
        steps = self.steps_to(other)
        if steps is None:
            raise LedgerError(
                f"{path} protects {other}, but this run protects {self}: their costs cannot be added up. "
                f"{_remedy(self, other)}"
            )
        if steps > MOST_STEPS:
            raise LedgerError(
                f"{path} protects {other}, but this run protects {self}: it would be charged for {steps:,} steps. "
                "State the neighboring relation of the ledger for the run, too."
            )
        return steps


def _remedy(run: Relation, ledger: Relation) -> str:
    if run.invariants and run.invariants != ledger.invariants:
        return (
            "The run publishes tables exactly that the ledger protects: leave out invariants=, or name a ledger that "
            "was created with the same invariants=."
        )
    if ledger.unit is not None:
        return f"Give the schema of the run a unit with the column '{ledger.unit}', or name another ledger."
    return "Name another ledger, created for what the run protects (unit=, pgmest ledger create --unit COLUMN)."


def group_cost(budget: Budget, steps: int) -> Budget:
    """Return what a cost amounts to between tables that are this many steps apart, rounded up.

    >>> group_cost(Rho(0.1), 3), group_cost(Epsilon(0.5), 2)
    (Rho(0.9), Epsilon(1))

    Raises:
        BudgetTypeError: if a delta would exceed 1.
    """
    if steps == 1:
        return budget
    exact = budget.exact
    if isinstance(budget, ApproxDP):
        growth = math.fsum(math.exp(min(step * budget.epsilon, 700.0)) for step in range(steps)) * (1 + SAFETY)
        delta = exact[1] * Fraction(growth)
        if delta > 1:
            raise BudgetTypeError(f"{budget} for {steps} steps has a delta above 1: state a smaller budget.")
        return ApproxDP.above((exact[0] * steps, delta))
    return type(budget).above(amount * (steps if isinstance(budget, Epsilon) else steps**2) for amount in exact)


def converted(budget: Budget, ledger: Budget, label: str, steps: int = 1) -> Budget:
    """Return a cost in the type of a ledger: all types but ApproxDP as Rho, and Epsilon as ApproxDP.

    Args:
        budget: the cost.
        ledger: the budget of the ledger.
        label: the name of the cost in the error message.
        steps: how many steps of the run's relation join the tables that the ledger's relates.

    Raises:
        BudgetTypeError: if no bound of the ledger's type is known.
    """
    grouped = group_cost(budget, steps)
    if type(grouped) is type(ledger):
        return grouped
    if isinstance(ledger, Rho) and isinstance(grouped, Epsilon | GDP):
        return grouped.to_rho()
    if isinstance(ledger, ApproxDP) and isinstance(grouped, Epsilon):
        return grouped.to_approx()
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
